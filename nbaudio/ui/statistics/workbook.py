"""Sections of tables and plots as an .xlsx workbook, a sheet each.

Equal sections give equal bytes. Texts are typed strings: no formula, number or link comes of them.
"""

import io
import math
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from nbaudio.core.report import show
from nbaudio.review.spreadsheets import cell_text, new_workbook, put_fragments
from nbaudio.ui.statistics.sections import Section

_WIDEST, _NARROWEST = 60, 9
_LONGEST_NAME = 31


def write_workbook(title: str, sections: Sequence[Section]) -> bytes:
    """The bytes of an .xlsx file.

    Args:
        title: of all of it; a property of the file, and the heading of each sheet.
        sections: a sheet each, in order: its tables below one another, and its plot.
    """
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
            _write(sheet, title, section, styles)
    return out.getvalue()


def _write(sheet: Any, title: str, section: Section, styles: dict[str, Any]) -> None:
    sheet.write_string(0, 0, cell_text(f"{title}: {section.title}"), styles["title"])
    sheet.write_string(1, 0, cell_text(section.about))
    row, widths = 3, [_NARROWEST]
    for caption, frame in section.tables.items():
        sheet.write_string(row, 0, cell_text(caption), styles["heading"])
        for column, (name, kind) in enumerate(frame.schema.items()):
            sheet.write_string(row + 1, column, cell_text(name), styles["names of numbers" if kind.is_numeric() else "names"])
        for number, values in enumerate(frame.iter_rows(), start=row + 2):
            for column, value in enumerate(values):
                _put(sheet, number, column, value, styles)
        row += len(frame) + 4
        needed = [max(len(name), *(len(show(value)) for value in frame[name]), _NARROWEST) for name in frame.columns]
        widths = [max(pair) for pair in zip_longest(widths, needed, fillvalue=_NARROWEST)]
    for column, width in enumerate(widths):
        sheet.set_column(column, column, min(width, _WIDEST) + 3)
    if section.plot is not None:
        sheet.insert_image(row, 0, "plot.png", {"image_data": io.BytesIO(section.plot), "description": section.about})


def _put(sheet: Any, row: int, column: int, value: Any, styles: dict[str, Any]) -> None:
    """A value as what it is: a number that is none, and anything nested, as text."""
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
