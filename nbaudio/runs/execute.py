"""Execute one notebook and write its HTML page; importing this takes seconds, so import it only to run something."""

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
# The kernel name in the notebooks; every Jupyter knows it when they are opened by hand.
_KERNEL = "python3"
_WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(source: Path, out: Path, values: dict[str, Any]) -> None:
    """Execute a notebook with `out` as its current folder; keep it in OUT/notebooks and OUT/html, also when it fails.

    Raises:
        NbaudioError: a cell failed or the kernel died; names the cell and its error.
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
                # Kernels log only that a local connection is not encrypted, or that they were stopped.
                extra_arguments=["--log-level=CRITICAL"],
                store_widget_state=False,
                coalesce_streams=True,  # only the last state of a progress bar
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
    """Escape the braces of a path, which papermill would fill in."""
    return str(path).replace("{", "{{").replace("}", "}}")


@contextmanager
def _own_kernel() -> Iterator[None]:
    """Let `_KERNEL` run this interpreter, whether or not a kernel of that name is installed."""
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
    """Move a notebook to its final path, with the static HTML of each widget in place of the widget."""
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
