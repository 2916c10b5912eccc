"""Write sections of tables and plots as one HTML page or as an .xlsx workbook.

The page loads and runs nothing: every text is escaped, cells isolate their direction, and a content security policy forbids all
but its own style and pictures. In the workbook texts are typed strings, which never become formulas, numbers or links; equal
sections give equal bytes.
"""

import io
import math
import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from itertools import zip_longest
from typing import Any

from nbaudio.core.report import show
from nbaudio.review.spreadsheets import cell_text, new_workbook, put_fragments
from nbaudio.ui.statistics.sections import Section
from nbaudio.ui.widgets.static_html import table

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f1f1f; background: #fff }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.7rem; overflow-wrap: anywhere }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; border-bottom: 2px solid #0072B2 }
h3 { font-size: 1rem; margin: .8rem 0 .3rem }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem }
nav a { color: #00557F }
p { margin: .4rem 0; max-width: 60rem }
figure { margin: 1rem 0 }
img { max-width: 100%; height: auto }
.tables { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; align-items: flex-start }
.tables > div { max-width: 100%; overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd }
th { background: #eef3f6 }
td { max-width: 34rem; unicode-bidi: isolate; font-variant-numeric: tabular-nums }
@media print { nav { display: none } h2, h3 { break-after: avoid } figure, tr { break-inside: avoid } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_WIDEST, _NARROWEST = 60, 9
_LONGEST_NAME = 31


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return the page, with the title as its heading."""
    links = "".join(f'<a href="#{number}">{escape(section.title)}</a>' for number, section in enumerate(sections))
    parts = "".join(_section(number, section) for number, section in enumerate(sections))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n'
        f'<body>\n<h1 dir="auto">{escape(title)}</h1>\n<nav>{links}</nav>\n{parts}</body>\n</html>\n'
    )


def _section(number: int, section: Section) -> str:
    plot = ""
    if section.plot is not None:
        data = b64encode(section.plot).decode()
        plot = (
            f'<figure><img src="data:image/png;base64,{data}" alt="{escape(section.title)}: {escape(section.about)}"></figure>\n'
        )
    tables = "".join(
        f"<div><h3>{escape(caption)}</h3>{table(frame)._repr_html_()}</div>\n" for caption, frame in section.tables.items()
    )
    return (
        f'<section id="{number}">\n<h2>{escape(section.title)}</h2>\n<p>{escape(section.about)}</p>\n{plot}'
        f'<div class="tables">\n{tables}</div>\n</section>\n'
    )


def write_workbook(title: str, sections: Sequence[Section]) -> bytes:
    """Return the bytes of an .xlsx file, a sheet for each section; the title is a property of the file and heads each sheet."""
    out = io.BytesIO()
    with new_workbook(out, title) as book:
        styles = {
            "title": book.add_format({"bold": True, "font_size": 14}),
            "heading": book.add_format({"bold": True, "font_size": 11}),
            "names": book.add_format({"bold": True, "bg_color": "#E7E6E6", "bottom": 1, "indent": 1}),
            "names of numbers": book.add_format({"bold": True, "bg_color": "#E7E6E6", "bottom": 1, "align": "right"}),
            "text": book.add_format({"valign": "top", "align": "left", "indent": 1}),
            "font": book.add_format(),
            "long text": book.add_format({"valign": "top", "align": "left", "indent": 1, "text_wrap": True}),
            "whole": book.add_format({"valign": "top", "num_format": "#,##0"}),
            "number": book.add_format({"valign": "top", "num_format": "#,##0.000"}),
        }
        for section in sections:
            sheet = book.add_worksheet(_sheet_name(section.title))
            sheet.hide_gridlines(2)
            sheet.set_landscape()
            sheet.fit_to_pages(1, 0)
            _write_section(sheet, title, section, styles)
    return out.getvalue()


def _write_section(sheet: Any, title: str, section: Section, styles: dict[str, Any]) -> None:
    sheet.write_string(0, 0, cell_text(f"{title}: {section.title}"), styles["title"])
    sheet.write_string(1, 0, cell_text(section.about))
    row, widths = 3, [_NARROWEST]
    for caption, frame in section.tables.items():
        sheet.write_string(row, 0, cell_text(caption), styles["heading"])
        for column, (name, kind) in enumerate(frame.schema.items()):
            sheet.write_string(row + 1, column, cell_text(name), styles["names of numbers" if kind.is_numeric() else "names"])
        for number, values in enumerate(frame.iter_rows(), start=row + 2):
            for column, value in enumerate(values):
                _write_cell(sheet, number, column, value, styles)
        row += len(frame) + 4
        needed = [max(len(name), *(len(show(value)) for value in frame[name]), _NARROWEST) for name in frame.columns]
        widths = [max(pair) for pair in zip_longest(widths, needed, fillvalue=_NARROWEST)]
    for column, width in enumerate(widths):
        sheet.set_column(column, column, min(width, _WIDEST) + 3)
    if section.plot is not None:
        sheet.insert_image(row, 0, "plot.png", {"image_data": io.BytesIO(section.plot), "description": section.about})


def _write_cell(sheet: Any, row: int, column: int, value: Any, styles: dict[str, Any]) -> None:
    """Write a value: numbers as numbers, all else, also NaN and nested values, as text."""
    if value is None:
        sheet.write_blank(row, column, None, styles["text"])
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        sheet.write_number(row, column, value, styles["whole" if isinstance(value, int) else "number"])
    else:
        text = cell_text(show(value))
        style = styles["text" if len(text) <= _WIDEST else "long text"]
        put_fragments(sheet, (row, column), [(text, False)], {False: styles["font"]}, style)


def _sheet_name(title: str) -> str:
    return re.sub(r"[\[\]:*?/\\']", " ", title)[:_LONGEST_NAME]
