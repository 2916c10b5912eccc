"""HTML of a statistics page: figures and findings first, then sections with tables, plots and clips; light, dark and printed.

The page loads and runs nothing: every text is escaped, cells isolate their direction, and a content security policy forbids all
but its own style, pictures and audio.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import polars as pl

from nbaudio.core.report import show
from nbaudio.ui.plot_svg import Plot
from nbaudio.ui.widgets.static_html import Clips, Table

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1f1f1f; --soft: #555; --line: #ccc; --band: #eef3f6; --link: #00557F }
@media (prefers-color-scheme: dark) { :root {
  --ground: #111; --text: #eee; --soft: #b5b5b5; --line: #484848; --band: #20282d; --link: #7cc4ee } }
@media print { :root { color-scheme: light;
  --ground: #fff; --text: #000; --soft: #444; --line: #bbb; --band: #eee; --link: #000 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--ground) }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.7rem; overflow-wrap: anywhere }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; border-bottom: 2px solid #0072B2 }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem }
a { color: var(--link) }
p { margin: .4rem 0; max-width: 60rem; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .8rem; margin: 1rem 0 }
dl > div { padding: .6rem .9rem; background: var(--band); border-radius: 6px; display: flex; flex-direction: column }
@media (min-width: 26rem) { dl > .wide { grid-column: span 2 } }
dt { color: var(--soft) }
dd { margin: 0; overflow-wrap: anywhere }
dd.figure { font-size: 1.5rem; line-height: 1.25; font-weight: 600; font-variant-numeric: tabular-nums }
dd.note { font-size: .85rem; color: var(--soft) }
nav ul { padding-left: 1.2rem }
nav li { overflow-wrap: anywhere; unicode-bidi: plaintext }
.tables { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; align-items: flex-start; margin-top: 1rem }
.tables > div { max-width: 100%; overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
caption { text-align: left; font-weight: 600; font-size: 1rem; padding-bottom: .3rem }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line) }
th { background: var(--band) }
td { max-width: 34rem; unicode-bidi: isolate; font-variant-numeric: tabular-nums }
.nbaudio-scroll { margin: 1rem 0 }
.nbaudio-scroll svg { max-width: none !important }
.nbaudio-values rect:hover { fill-opacity: .15 }
.examples > div { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 0 2rem }
.examples > div > div { min-width: 0 }
.examples > div > div:has(> del) { grid-column: 1 / -1 }
code { overflow-wrap: anywhere }
@media print {
  nav, audio { display: none !important } h2, h3 { break-after: avoid }
  .nbaudio-scroll, tr, dl > div, .examples > div > div { break-inside: avoid }
  table { font-size: .7rem } th, td { padding: .1rem .3rem }
  .nbaudio-scroll svg { min-width: 0 !important } .nbaudio-scroll, .tables > div { overflow: visible !important }
}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"
_LONG_NOTE = 60


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    about: str  # a sentence about it
    tables: Mapping[str, pl.DataFrame]  # by caption
    plot: Plot | None = None
    finding: str = ""  # its main result, in the list at the top of the page
    figures: pl.DataFrame | None = None  # the headline figures: `what`, `value`, `note`
    examples: Mapping[str, Clips] = field(default_factory=dict)  # by heading


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return the page, with the title as its heading; the findings follow the figures of the first section."""
    parts = "".join(_section(number, section, "" if number else _findings(sections)) for number, section in enumerate(sections))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n'
        f'<body>\n<main>\n<h1 dir="auto">{escape(title)}</h1>\n{parts}</main>\n</body>\n</html>\n'
    )


def _findings(sections: Sequence[Section]) -> str:
    links = "".join(
        f'<li><a href="#s{number}">{escape(section.title)}</a>{": " if section.finding else ""}{escape(section.finding)}</li>'
        for number, section in enumerate(sections[1:], start=1)
    )
    return f'<nav aria-label="Findings">\n<ul>{links}</ul>\n</nav>\n' if links else ""


def _section(number: int, section: Section, findings: str) -> str:
    tables = "".join(
        f'<div role="group" tabindex="0" aria-label="{escape(caption)}">{Table(frame, caption=caption)._repr_html_()}</div>\n'
        for caption, frame in section.tables.items()
    )
    examples = "".join(
        f'<h3>{escape(title)}</h3>\n<div class="examples">{clips._repr_html_()}</div>\n'
        for title, clips in section.examples.items()
    )
    return (
        f'<section id="s{number}">\n<h2>{escape(section.title)}</h2>\n<p>{escape(section.about)}</p>\n'
        f"{''.join(_figures(section))}{findings}{section.plot.svg() if section.plot else ''}"
        f'<div class="tables">\n{tables}</div>\n{examples}</section>\n'
    )


def _figures(section: Section) -> Iterator[str]:
    if section.figures is None:
        return
    yield "<dl>"
    for what, value, note in section.figures.iter_rows():
        noted = f'<dd class="note">{escape(note)}</dd>' if note else ""
        wide = ' class="wide"' if len(note) > _LONG_NOTE else ""
        yield f'<div{wide}><dt>{escape(what)}</dt><dd class="figure">{escape(show(value))}</dd>{noted}</div>'
    yield "</dl>\n"
