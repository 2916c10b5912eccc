"""Execute notebooks and write their HTML pages, with links at `LINKS_MARKER` and an index.

Importing this takes seconds.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import papermill
from nbclient.exceptions import DeadKernelError
from nbconvert import HTMLExporter

from nbaudio.core import atomic, bundled_files
from nbaudio.core.errors import NbaudioError
from nbaudio.corpus.versions import latest_version
from nbaudio.runs.page_notebook import page_notebook

LINKS_MARKER = '<nav class="nbaudio-pages"></nav>'
CSS = bundled_files.front_end("run_page", kind="css")
_LINKS = re.compile('<nav class="nbaudio-pages">.*?</nav>')
_INDEX = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>nbaudio: {title}</title>
<style>
{style}</style></head><body>
<h1>{title}</h1>
<p>The notebooks as they ran. The pages open offline; their clips play.</p>
<ol>
{pages}
</ol>
{others}</body></html>
"""
# Other outputs of a run, with their names in the index.
_OTHERS = {
    "report.html": "all figures on one page",
    "review/sheet.xlsx": "the review sheet; its clips are beside it",
    "{corpus}/README.md": "the data card of the corpus",
}
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
{%- block input -%}
{%- if cell.metadata.nbaudio_imports -%}
<details class="nbaudio-imports"><summary>imports</summary>{{ super() }}</details>
{%- else -%}{{ super() }}{%- endif -%}
{%- endblock -%}
{%- block body_header -%}{{ super() }}PLACE{%- endblock -%}
{%- block body_footer -%}PLACE{{ super() }}{%- endblock -%}
""".replace("CSS", CSS).replace("PLACE", LINKS_MARKER)
# The kernel name in the notebooks; every Jupyter knows it when they are opened by hand.
_KERNEL = "python3"
_OPTIONS = {
    **{
        "kernel_name": _KERNEL,
        "language": "python",
        "progress_bar": False,
        "store_widget_state": False,
    },
    "coalesce_streams": True,  # only the last state of a progress bar
    # Kernels log only that a local connection is not encrypted, or that they were stopped.
    "extra_arguments": ["--log-level=CRITICAL"],
}
_STARTS = 3  # of a kernel
_WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(source: Path, out: Path, values: dict[str, Any]) -> None:
    """Execute a notebook with `out` as its current folder.

    Keep it in OUT/notebooks and OUT/html, also when a cell fails.
    """
    final = out / "notebooks" / source.name
    working = final.with_name(f".{source.name}")
    try:
        with _own_kernel():
            _execute_with_papermill(source, working, out, values)
    except papermill.PapermillExecutionError as error:
        last = " ".join(f"{error.ename}: {error.evalue}".split())
        raise NbaudioError(
            f"{source.stem}, cell {error.exec_count}: {last} (kept: {final})"
        ) from error
    except DeadKernelError as error:
        raise NbaudioError(
            f"{source.stem}: its kernel died; was there enough memory? (kept: {final})"
        ) from error
    finally:
        if working.exists():
            _keep(working, final)
            _write_page(final, out, values)


def _write_page(notebook: Path, out: Path, values: dict[str, Any]) -> None:
    """Write the page of an executed notebook into OUT/html."""
    content = json.loads(notebook.read_text(encoding="utf8"))
    text = json.dumps(page_notebook(content, values, out))
    shown = nbformat.reads(text, as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
    name = {"metadata": {"name": notebook.stem}}
    exporter = HTMLExporter(raw_template=_OFFLINE)  # type: ignore[no-untyped-call]
    page, _ = exporter.from_notebook_node(shown, resources=name)
    atomic.write_bytes(out / "html" / f"{notebook.stem}.html", page.encode())


def _execute_with_papermill(source: Path, working: Path, out: Path, values: dict[str, Any]) -> None:
    """Execute a notebook; start its kernel again if it ended before it ran anything.

    Jupyter chooses the ports of a kernel before the kernel binds them: another process may take one
    in between.
    """
    for attempt in range(_STARTS):
        try:
            papermill.execute_notebook(
                _verbatim(source), _verbatim(working), values, cwd=str(out), **_OPTIONS
            )
        except RuntimeError as error:
            if "died before replying to kernel_info" not in str(error):
                raise
            if attempt + 1 == _STARTS:
                raise NbaudioError(f"{source.stem}: no kernel can be started ({error})") from error
        else:
            return


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
        atomic.write_json(Path(folder) / "kernels" / _KERNEL / "kernel.json", spec)
        os.environ["JUPYTER_PATH"] = os.pathsep.join([folder, *([before] if before else [])])
        try:
            yield
        finally:
            os.environ.pop("JUPYTER_PATH")
            os.environ |= {"JUPYTER_PATH": before} if before else {}


def _keep(working: Path, final: Path) -> None:
    """Move a notebook to its final path, with static HTML in place of each widget."""
    notebook = json.loads(working.read_text(encoding="utf8"))
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output["data"].pop(_WIDGET, None)
    atomic.write_json(final, notebook)
    working.unlink()


def link_pages(out: Path, notebooks: Sequence[Path]) -> Path:
    """Link the pages in OUT/html in the order of all notebooks, run or not.

    Write OUT/html/index.html and return its path.
    """
    folder = out / "html"
    there = [(folder / f"{notebook.stem}.html", *_introduction(notebook)) for notebook in notebooks]
    there = [page for page in there if page[0].exists()]
    for number, (page, *_) in enumerate(there):
        before = _link(there[number - 1], "← {}") if number else "<span></span>"
        after = _link(there[number + 1], "{} →") if number + 1 < len(there) else "<span></span>"
        links = LINKS_MARKER.replace("><", f'>{before}<a href="index.html">all pages</a>{after}<')
        atomic.write_bytes(page, links.join(_LINKS.split(page.read_bytes().decode())).encode())
    pages = "\n".join(f"<li><b>{_link(page, '{}')}</b><p>{page[2]}</p></li>" for page in there)
    corpus = Path(latest_version(out / "corpus")).name
    named = {name.format(corpus=corpus): what for name, what in _OTHERS.items()}
    others = [
        f'<li><a href="../{name}">{name}</a>: {what}</li>'
        for name, what in named.items()
        if (out / name).exists()
    ]
    section = f"<h2>Other files</h2>\n<ul>{''.join(others)}</ul>\n" if others else ""
    style = bundled_files.front_end("run_index", kind="css")
    index = _INDEX.format(style=style, title=escape(out.name), pages=pages, others=section)
    atomic.write_bytes(folder / "index.html", index.encode())
    return folder / "index.html"


def _introduction(notebook: Path) -> tuple[str, str]:
    """Return the heading of a notebook, and the text below it as HTML."""
    first = json.loads(notebook.read_text(encoding="utf8"))["cells"][0]
    heading, _, text = "".join(first["source"]).partition("\n")
    return heading.lstrip("# "), re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text.strip()))


def _link(page: tuple[Path, str, str], text: str) -> str:
    return f'<a href="{escape(page[0].name)}">{escape(text.format(page[1]))}</a>'
