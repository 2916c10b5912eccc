"""The index of a run's pages: title, time, sentence, key figure and picture of each notebook."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from nbaudio.core import atomic, bundled_files
from nbaudio.corpus.versions import latest_version
from nbaudio.runs.key_figures import describe_notebook
from nbaudio.runs.page_notebook import short_paths

_INDEX = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>nbaudio: {title}</title>
<style>
{style}</style></head><body>
<h1>{title}</h1>
<p>The notebooks as they ran, each with its time and its share of the time of all. The pages open
offline; their clips play.</p>
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
_SENTENCE = re.compile(r".*?[.?!](?=\s|$)", re.DOTALL)
_TAG_OF_LINK = re.compile(r"</?a\b[^>]*>")


@dataclass(frozen=True)
class NotebookPage:
    """A page of a notebook.

    Attributes:
        path: the HTML file; it may not exist.
        title: the heading of the notebook.
        sentence: the first sentence below the heading, as HTML.
        figure: its key figure; empty if there is none.
        picture: its first plot as an image element; empty if there is none.
        error: why it stopped; empty if it ran to its end.
        seconds: how long it ran; None if that is not known.
    """

    path: Path
    title: str
    sentence: str
    figure: str
    picture: str
    error: str
    seconds: float | None


def read_pages(out: Path, notebooks: Sequence[Path]) -> list[NotebookPage]:
    """Return the pages that are in OUT/html, in the order of the notebooks."""
    return [
        _read_page(out, notebook)
        for notebook in notebooks
        if (out / "html" / f"{notebook.stem}.html").exists()
    ]


def _read_page(out: Path, notebook: Path) -> NotebookPage:
    """Read what the index shows of a notebook, from its source and from OUT/notebooks."""
    heading, _, text = "".join(_read(notebook)["cells"][0]["source"]).partition("\n")
    executed = out / "notebooks" / notebook.name
    content = _read(executed) if executed.exists() else {"cells": []}
    title = heading.lstrip("# ")
    error = _find_error(content, out)
    return NotebookPage(
        path=out / "html" / f"{notebook.stem}.html",
        title=title,
        sentence=first_sentence(text),
        figure="" if error else describe_notebook(notebook.stem, content),
        picture=_find_picture(content, title),
        error=error,
        seconds=content.get("metadata", {}).get("papermill", {}).get("duration"),
    )


def _read(notebook: Path) -> dict[str, Any]:
    """Return a notebook as JSON."""
    content: dict[str, Any] = json.loads(notebook.read_text(encoding="utf8"))
    return content


def first_sentence(text: str) -> str:
    """Return the first sentence of Markdown as HTML, without the targets of links.

    Examples:
        >>> first_sentence("Reads `a`, *not* [b](c.md). More.")
        'Reads <code>a</code>, <em>not</em> b.'
    """
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    paragraph = text.strip().partition("\n\n")[0]
    sentence = _SENTENCE.match(paragraph)
    markdown = sentence[0] if sentence else paragraph
    html: str = markdown2html_mistune(markdown)
    return _TAG_OF_LINK.sub("", html).strip().removeprefix("<p>").removesuffix("</p>")


def _find_error(notebook: Mapping[str, Any], out: Path) -> str:
    """Return the error of the cell at which an executed notebook stopped, with short paths.

    Return an empty text if it did not stop.
    """
    errors = [output for output in _outputs(notebook) if output["output_type"] == "error"]
    if not errors:
        return ""
    error = " ".join(f"{errors[0]['ename']}: {errors[0]['evalue']}".split())
    for path, short in short_paths(_parameters(notebook), out).items():
        error = error.replace(path, short)
    return error


def _outputs(notebook: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the outputs of a notebook in order."""
    for cell in notebook["cells"]:
        yield from cell.get("outputs", [])


def _parameters(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that papermill gave to a notebook."""
    parameters: dict[str, Any] = notebook["metadata"].get("papermill", {}).get("parameters", {})
    return parameters


def _find_picture(notebook: Mapping[str, Any], title: str) -> str:
    """Return the first plot of an executed notebook as an image element; empty if it has none."""
    for output in _outputs(notebook):
        if png := output.get("data", {}).get("image/png"):
            encoded = "".join("".join(png).split())
            alt = escape(f"plot of {title}")
            return f'<img alt="{alt}" src="data:image/png;base64,{encoded}">'
    return ""


def write_index(out: Path, pages: Sequence[NotebookPage]) -> Path:
    """Write OUT/html/index.html, which needs no other file; return its path."""
    path = out / "html" / "index.html"
    total = sum(page.seconds or 0.0 for page in pages)
    index = _INDEX.format(
        style=bundled_files.front_end("run_index", kind="css"),
        title=escape(out.name),
        pages="\n".join(_entry(page, total) for page in pages),
        others=_other_files(out),
    )
    atomic.write_bytes(path, index.encode())
    return path


def _entry(page: NotebookPage, total: float) -> str:
    """Return the list item of a notebook; the whole item is its link.

    `total` is how long all notebooks ran, in seconds.
    """
    lines = [f'<h2><a href="{escape(page.path.name)}">{escape(page.title)}</a></h2>']
    if page.seconds:
        share = f"{page.seconds / total:.0%}".replace("%", " %")
        lines.append(f'<p class="time">{page.seconds:,.1f} s · {share}</p>')
    if page.error:
        lines.append(f'<p class="error">stopped: {escape(page.error)}</p>')
    if page.figure:
        lines.append(f'<p class="figure">{escape(page.figure)}</p>')
    lines.append(f"<p>{page.sentence}</p>")
    return f"<li><div>{''.join(lines)}</div>{page.picture}</li>"


def _other_files(out: Path) -> str:
    """Return the section that links other outputs; empty if there are none."""
    corpus = Path(latest_version(out / "corpus")).name
    named = {name.format(corpus=corpus): what for name, what in _OTHERS.items()}
    items = [
        f'<li><a href="../{escape(name)}">{escape(name)}</a>: {what}</li>'
        for name, what in named.items()
        if (out / name).exists()
    ]
    return f"<h2>Other files</h2>\n<ul>{''.join(items)}</ul>\n" if items else ""
