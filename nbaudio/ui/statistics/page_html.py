"""HTML of a statistics page, which loads and runs nothing.

Every text is escaped, and cells isolate their direction.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import polars as pl

from nbaudio.core.bundled_files import front_end
from nbaudio.core.report import show
from nbaudio.ui.plot_style import Plot
from nbaudio.ui.widgets.static_html import Clips, Table

_STYLE = "\n" + front_end("stats_page", kind="css")
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
    """Return the page, with the title as its heading.

    The findings follow the figures of the first section.
    """
    parts = "".join(
        _section(number, section, "" if number else _findings(sections))
        for number, section in enumerate(sections)
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f'<body>\n<main>\n<h1 dir="auto">{escape(title)}</h1>\n{parts}</main>\n</body>\n</html>\n'
    )


def _findings(sections: Sequence[Section]) -> str:
    """Return the list of findings at the top of the page, which links to the sections."""
    links = ""
    for number, section in enumerate(sections[1:], start=1):
        finding = f": {escape(section.finding)}" if section.finding else ""
        links += f'<li><a href="#s{number}">{escape(section.title)}</a>{finding}</li>'
    if links:
        return f'<nav aria-label="Findings">\n<ul>{links}</ul>\n</nav>\n'
    return ""


def _section(number: int, section: Section, findings: str) -> str:
    """Return a section: its open part, and below it the folded part.

    The first table is shown, beside a plot or the findings; without these the section takes half of
    a wide page. Further tables and clips are folded; a browser's search unfolds what it finds.
    """
    tables = [_table(caption, frame) for caption, frame in section.tables.items()]
    large = findings
    if section.plot and not findings:
        large = _plot(section.plot)
    shown = tables[0] if tables else ""
    width = "whole" if large else "half"
    arrangement = "beside" if large and shown else "alone"
    return (
        f'<section id="s{number}" class="{width}">\n'
        f"<h2>{escape(section.title)}</h2>\n<p>{escape(section.about)}</p>\n"
        f"{''.join(_figures(section))}"
        f'<div class="{arrangement}">\n{large}{shown}</div>\n'
        f"{_folded(section, tables[1:])}</section>\n"
    )


def _plot(plot: Plot) -> str:
    """Return a plot in an area that scrolls if it is high."""
    return f'<div class="plot" tabindex="0">{plot.svg()}</div>\n'


def _table(caption: str, frame: pl.DataFrame) -> str:
    """Return a table in an area that scrolls, which the keyboard reaches."""
    return (
        '<div class="table" role="group" tabindex="0" '
        f'aria-label="{escape(caption)}">{Table(frame, caption=caption)._repr_html_()}</div>\n'
    )


def _folded(section: Section, further_tables: Sequence[str]) -> str:
    """Return the tables after the first, and clips, each below a line that unfolds it."""
    captions = list(section.tables)[1:]
    parts = [
        _details(caption, f"rows: {len(section.tables[caption])}", table)
        for caption, table in zip(captions, further_tables, strict=True)
    ]
    parts += [
        _details(title, f"clips: {len(clips.clips)}", _examples(clips))
        for title, clips in section.examples.items()
    ]
    if not parts:
        return ""
    return f'<div class="folded">\n{"".join(parts)}</div>\n'


def _details(title: str, size: str, content: str) -> str:
    """Return a part of the page that is closed at first."""
    return (
        f"<details>\n<summary><h3>{escape(title)}</h3> <span>{escape(size)}</span></summary>\n"
        f"{content}</details>\n"
    )


def _examples(clips: Clips) -> str:
    return f'<div class="examples">{clips._repr_html_()}</div>\n'


def _figures(section: Section) -> Iterator[str]:
    """Yield the headline figures of a section; nothing if it has none."""
    if section.figures is None:
        return
    yield "<dl>"
    for what, value, note in section.figures.iter_rows():
        noted = f'<dd class="note">{escape(note)}</dd>' if note else ""
        wide = ' class="wide"' if len(note) > _LONG_NOTE else ""
        yield (
            f"<div{wide}><dt>{escape(what)}</dt><dd "
            f'class="figure">{escape(show(value))}</dd>{noted}</div>'
        )
    yield "</dl>\n"
