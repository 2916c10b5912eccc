"""Navigation links between the HTML pages of a run, and their index.

`LINKS_MARKER` marks the place of the links in a page; `link_pages` fills them in after every run, since pages may have been
added.
"""

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from nbaudio.storage.atomic import atomic_write

LINKS_MARKER = '<nav class="nbaudio-pages"></nav>'
CSS = """.nbaudio-pages { display: grid; grid-template-columns: 1fr auto 1fr; gap: 1em; max-width: 78em; margin: 0.5em auto;
  font: 14px/1.5 system-ui, sans-serif; }
.nbaudio-pages a { color: #00629b; }
.nbaudio-pages > :last-child { text-align: right; }
"""
_LINKS = re.compile(rb'<nav class="nbaudio-pages">.*?</nav>')
_INDEX = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>nbaudio: {title}</title>
<style>
body {{ max-width: 48em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 system-ui, sans-serif; color: #222; }}
a {{ color: #00629b; }} ol li {{ margin: 0 0 1em; }} ul, ol {{ list-style: none; padding: 0; }} p {{ margin: 0.2em 0; }}
code {{ background: #f2f2f2; padding: 0 0.2em; }}
</style></head><body>
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
    "report.xlsx": "the same figures as a spreadsheet",
    "review/sheet.xlsx": "the review sheet; its clips are beside it",
    "corpus/README.md": "the data card of the corpus",
}


def link_pages(out: Path, notebooks: Sequence[Path]) -> Path:
    """Link the pages in OUT/html in the order of all notebooks, run or not, and write OUT/html/index.html; return its path."""
    folder = out / "html"
    there = [(folder / f"{notebook.stem}.html", *_introduction(notebook)) for notebook in notebooks]
    there = [page for page in there if page[0].exists()]
    for number, (page, *_) in enumerate(there):
        before = _link(there[number - 1], "← {}") if number else "<span></span>"
        after = _link(there[number + 1], "{} →") if number + 1 < len(there) else "<span></span>"
        links = LINKS_MARKER.replace("><", f'>{before}<a href="index.html">all pages</a>{after}<').encode()
        parts = _LINKS.split(page.read_bytes())
        with atomic_write(page) as partial:
            partial.write_bytes(links.join(parts))
    pages = "\n".join(f"<li><b>{_link(page, '{}')}</b><p>{_code(page[2])}</p></li>" for page in there)
    others = "".join(
        f'<li><a href="../{name}">{name}</a>: {what}</li>' for name, what in _OTHERS.items() if (out / name).exists()
    )
    others = f"<h2>Beside the pages</h2>\n<ul>{others}</ul>\n" if others else ""
    with atomic_write(folder / "index.html") as partial:
        partial.write_text(_INDEX.format(title=escape(out.name), pages=pages, others=others), encoding="utf8")
    return folder / "index.html"


def _introduction(notebook: Path) -> tuple[str, str]:
    """Return the heading of a notebook and the text below it."""
    first = json.loads(notebook.read_text(encoding="utf8"))["cells"][0]
    heading, _, text = "".join(first["source"]).partition("\n")
    return heading.lstrip("# "), text.strip()


def _link(page: tuple[Path, str, str], text: str) -> str:
    return f'<a href="{escape(page[0].name)}">{escape(text.format(page[1]))}</a>'


def _code(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
