"""Execute notebooks and write their HTML pages, with links at `LINKS_MARKER` and an index.

Importing this takes seconds.
"""

import io
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import papermill

from nbaudio.core import atomic, bundled_files
from nbaudio.core.errors import NbaudioError
from nbaudio.runs.index_page import NotebookPage, read_pages, write_index
from nbaudio.runs.kernels import DIED_AT_START, KERNEL, RunKernels
from nbaudio.runs.page_notebook import page_notebook
from nbaudio.runs.papermill_engine import ENGINE

if TYPE_CHECKING:
    from nbconvert import HTMLExporter

LINKS_MARKER = '<nav class="nbaudio-pages"></nav>'
CSS = bundled_files.front_end("run_page", kind="css")
_LINKS = re.compile('<nav class="nbaudio-pages">.*?</nav>')
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
_OPTIONS = {
    "kernel_name": KERNEL,
    "language": "python",
    "progress_bar": False,
    "engine_name": ENGINE,
}
_STARTS = 3  # attempts to start a kernel
_DEAD_KERNEL = "Kernel died"  # the message of nbclient's `DeadKernelError`, a RuntimeError
_WIDGET = "application/vnd.jupyter.widget-view+json"


class PageWriter:
    """Writes the pages of executed notebooks in a thread, while the next notebook runs."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._pages: list[Future[None]] = []

    @cached_property
    def _exporter(self) -> "HTMLExporter":
        """The exporter of all pages, which compiles its templates once."""
        from nbconvert import HTMLExporter  # the first notebook does not wait for it

        return HTMLExporter(raw_template=_OFFLINE)  # type: ignore[no-untyped-call]

    def write(self, notebook: Path, values: Mapping[str, Any]) -> None:
        """Begin to write the page of an executed notebook into OUT/html."""
        self._pages.append(self._thread.submit(self._write_page, notebook, values))

    def finish(self) -> None:
        """Return when all pages are written; raise the error of one that could not be written."""
        self._thread.shutdown()
        for page in self._pages:
            page.result()

    def _write_page(self, notebook: Path, values: Mapping[str, Any]) -> None:
        """Write the page of an executed notebook into OUT/html."""
        content = json.loads(notebook.read_text(encoding="utf8"))
        text = json.dumps(page_notebook(content, values, self.out))
        name = {"metadata": {"name": notebook.stem}}
        page, _ = self._exporter.from_file(io.StringIO(text), resources=name)
        atomic.write_bytes(self.out / "html" / f"{notebook.stem}.html", page.encode())


def execute(
    source: Path,
    values: dict[str, Any],
    *,
    pages: PageWriter,
    kernels: RunKernels,
) -> None:
    """Execute a notebook in a kernel that `kernels` provides.

    Keep it in the folder OUT/notebooks of `pages`, and hand it to `pages`, also when a cell fails.
    """
    out = pages.out
    final = out / "notebooks" / source.name
    working = final.with_name(f".{source.name}")
    try:
        _execute_with_papermill(source, working, values, kernels)
    except papermill.PapermillExecutionError as error:
        last = " ".join(f"{error.ename}: {error.evalue}".split())
        raise NbaudioError(
            f"{source.stem}, cell {error.exec_count}: {last} (kept: {final})"
        ) from error
    except RuntimeError as error:
        if str(error) != _DEAD_KERNEL:
            raise
        raise NbaudioError(
            f"{source.stem}: its kernel died; was there enough memory? (kept: {final})"
        ) from error
    finally:
        if working.exists():
            _keep(working, final)
            pages.write(final, values)


def _execute_with_papermill(
    source: Path, working: Path, values: dict[str, Any], kernels: RunKernels
) -> None:
    """Execute a notebook; start its kernel again if it ended before it ran anything.

    Jupyter chooses the ports of a kernel before the kernel binds them: another process may take one
    in between.
    """
    for attempt in range(_STARTS):
        try:
            papermill.execute_notebook(
                _verbatim(source), _verbatim(working), values, kernels=kernels, **_OPTIONS
            )
        except RuntimeError as error:
            if DIED_AT_START not in str(error):
                raise
            if attempt + 1 == _STARTS:
                raise NbaudioError(f"{source.stem}: no kernel can be started ({error})") from error
        else:
            return


def _verbatim(path: Path) -> str:
    """Escape the braces of a path, which papermill would fill in."""
    return str(path).replace("{", "{{").replace("}", "}}")


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
    pages = read_pages(out, notebooks)
    for number, page in enumerate(pages):
        before = _link(pages[number - 1], "← {}") if number else "<span></span>"
        if number + 1 < len(pages):
            after = _link(pages[number + 1], "{} →")
        else:
            after = "<span></span>"
        links = LINKS_MARKER.replace("><", f'>{before}<a href="index.html">all pages</a>{after}<')
        parts = _LINKS.split(page.path.read_bytes().decode())
        atomic.write_bytes(page.path, links.join(parts).encode())
    return write_index(out, pages)


def _link(page: NotebookPage, text: str) -> str:
    return f'<a href="{escape(page.path.name)}">{escape(text.format(page.title))}</a>'
