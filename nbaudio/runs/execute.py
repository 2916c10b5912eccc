"""One notebook, executed and made a page; importing this takes seconds, so it is done when something is to be run."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import papermill
from nbclient.exceptions import DeadKernelError
from nbconvert import HTMLExporter

from nbaudio.core.errors import NbaudioError
from nbaudio.runs.pages import CSS, LINKS_MARKER
from nbaudio.storage.atomic import atomic_write, write_json

# The page loads nothing: no require.js, no MathJax, no widgets from a content delivery network.
_OFFLINE = """{%- extends 'index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block html_head_css -%}
<style>.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"] { background: none; }
CSS</style>
{%- endblock -%}
{%- block body_header -%}{{ super() }}PLACE{%- endblock -%}
{%- block body_footer -%}PLACE{{ super() }}{%- endblock -%}
""".replace("CSS", CSS).replace("PLACE", LINKS_MARKER)
# What the notebooks ask for, and what every Jupyter knows when they are opened by hand.
_KERNEL = "python3"
_WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(source: Path, out: Path, values: dict[str, Any]) -> None:
    """Execute a notebook; what ran is kept in OUT/notebooks and OUT/html, also when it fails.

    Args:
        source: the notebook.
        out: the folder of the run, which is the kernel's current folder too.
        values: its parameters.

    Raises:
        NbaudioError: a cell failed or the kernel died; names the cell and what it said.
    """
    final = out / "notebooks" / source.name
    working = final.with_name(f".{source.name}")
    try:
        with _own_kernel():
            papermill.execute_notebook(
                _verbatim(source),
                _verbatim(working),
                values,
                kernel_name=_KERNEL,
                language="python",
                progress_bar=False,
                cwd=str(out),
                # What a kernel logs is that a local connection is not encrypted, or that it was told to stop.
                extra_arguments=["--log-level=CRITICAL"],
                store_widget_state=False,
                coalesce_streams=True,  # progress as it ended
            )
    except papermill.PapermillExecutionError as error:
        last = " ".join(f"{error.ename}: {error.evalue}".split())
        raise NbaudioError(f"{source.stem}, cell {error.exec_count}: {last} (kept: {final})") from error
    except DeadKernelError as error:
        raise NbaudioError(f"{source.stem}: its kernel died; was there enough memory? (kept: {final})") from error
    finally:
        if working.exists():
            _keep(working, final)
            _write_page(final, out / "html" / f"{source.stem}.html")


def _verbatim(path: Path) -> str:
    """A path in whose braces papermill fills in nothing."""
    return str(path).replace("{", "{{").replace("}", "}}")


@contextmanager
def _own_kernel() -> Iterator[None]:
    """Let `_KERNEL` mean the running interpreter, whatever kernels of that name are installed, or none."""
    before = os.environ.get("JUPYTER_PATH")
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    with TemporaryDirectory() as folder:
        spec = {"argv": command, "display_name": "Python 3 (ipykernel)", "language": "python"}
        write_json(Path(folder) / "kernels" / _KERNEL / "kernel.json", spec)
        os.environ["JUPYTER_PATH"] = os.pathsep.join([folder, *([before] if before else [])])
        try:
            yield
        finally:
            os.environ.pop("JUPYTER_PATH")
            os.environ |= {"JUPYTER_PATH": before} if before else {}


def _keep(working: Path, final: Path) -> None:
    """Move a notebook to its place, with what a widget shows without a kernel in place of the widget."""
    notebook = json.loads(working.read_text(encoding="utf8"))
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output["data"].pop(_WIDGET, None)
    write_json(final, notebook)
    working.unlink()


def _write_page(notebook: Path, page: Path) -> None:
    text, _ = HTMLExporter(raw_template=_OFFLINE).from_filename(str(notebook))  # type: ignore[no-untyped-call]
    with atomic_write(page) as partial:
        partial.write_text(text, encoding="utf8")
