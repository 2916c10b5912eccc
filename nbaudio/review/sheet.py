"""The review sheet as an .xlsx workbook: what a reviewer sees and fills in, and what makes a row known again.

Equal rows give equal bytes. All texts are strings: no formula, no number, no link comes from a transcript, and what is typed into
a cell to fill in stays text too.
"""

import io
import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from nbaudio.errors import InputError
from nbaudio.review.cells import Fragment, cell_text, marked, put
from nbaudio.review.pages import LINE_POINTS, MADE, verdict_cells, write_instructions, write_origin, write_summary
from nbaudio.review.record import ReviewRecord, row_key

#: Rows that a sheet holds beside its header, and links that it holds.
MAX_ROWS = 1_048_575
MAX_LINKS = 65_530

#: Width of each column, in characters, in the order of the sheet; what is looked at and filled in comes first.
COLUMNS = {
    "clip": 9,
    "verdict": 15,
    "transcript": 52,
    "hypothesis": 52,
    "corrected text": 40,
    "comment": 30,
    "speaker": 16,
    "duration s": 12,
    "similarity": 12,
    "segment_id": 30,
    "key": 60,
}
#: What a reviewer fills in; the other columns stay as they are.
FILLED_IN = ("verdict", "corrected text", "comment")

#: What stands in place of a hypothesis that there is none of.
NO_HYPOTHESIS = "no hypothesis"
_MAX_ROW_POINTS = 409.0
_LINE = {"border": 1, "border_color": "#D9D9D9", "valign": "top", "text_wrap": True}
_FILL = {"bg_color": "#FFF8E1", "num_format": "@"}
_DIFFERS = {"bold": True, "underline": 1, "font_color": "#B00020"}


def write_sheet(rows: pl.DataFrame, record: ReviewRecord, reviewer: str = "") -> bytes:
    """The workbook: a sheet to review, one that counts, one of instructions and a hidden one that tells where the rows come from.

    Args:
        rows: one row per row of the sheet: `segment_id`, `clip` (path of the clip relative to the sheet, null where there is
            none), `note` (what stands in place of a link), `speaker_id`, `duration_s`, `text`, `asr_text`, `similarity`,
            `probability` and `content`.
        record: what was drawn, and how.
        reviewer: whose sheet it is; empty where that is not known.

    Returns:
        The bytes of the .xlsx file.

    Raises:
        InputError: more rows or links than a sheet holds.
    """
    import xlsxwriter  # type: ignore[import-untyped]

    check_size(len(rows), rows["clip"].count())
    out = io.BytesIO()
    plain = {"strings_to_formulas": False, "strings_to_numbers": False, "strings_to_urls": False}
    with xlsxwriter.Workbook(out, {"in_memory": True, **plain}) as book:
        book.set_properties({"title": f"Review {record.name}", "created": MADE})
        _write_review(book, rows, record, reviewer)
        write_summary(book, record, reviewer, {name: _range(name, len(rows)) for name in COLUMNS}, len(rows))
        write_instructions(book, record.verdicts)
        write_origin(book, rows, record, reviewer)
    return out.getvalue()


def check_size(rows: int, links: int) -> None:
    """Refuse what no spreadsheet can hold.

    Raises:
        InputError: says how many rows or links there may be.
    """
    if rows > MAX_ROWS:
        raise InputError(f"a sheet holds {MAX_ROWS:,} rows, not {rows:,}: draw fewer, or several samples with other seeds")
    if links > MAX_LINKS:
        raise InputError(
            f"a sheet holds {MAX_LINKS:,} links to clips, not {links:,}: draw fewer, or several samples with other seeds"
        )


def _write_review(book: Any, rows: pl.DataFrame, record: ReviewRecord, reviewer: str) -> None:
    sheet = book.add_worksheet("review")
    header = {"bold": True, "bg_color": "#E7E6E6", "font_color": "#1F1F1F", "bottom": 1, "valign": "vcenter"}
    given, filled_in = book.add_format(header), book.add_format({**header, "bg_color": "#FFE599"})
    for column, (name, width) in enumerate(COLUMNS.items()):
        sheet.set_column(column, column, width, None, {"hidden": name == "key"})
        sheet.write_string(0, column, name, filled_in if name in FILLED_IN else given)
    cells = _Cells(book, sheet)
    for number, row in enumerate(rows.iter_rows(named=True), start=1):
        sheet.set_row(number, _height(segment_id=row["segment_id"], transcript=row["text"], hypothesis=row["asr_text"]))
        _write_row(cells, number, row)
        cells.text(number, "key", row_key(row["content"], reviewer, record.name))
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, len(rows), len(COLUMNS) - 1)
    verdict = cells.columns["verdict"]
    choice = {
        "validate": "list",
        "source": f"=summary!{verdict_cells(record.verdicts)}",
        "error_title": "Not a verdict",
        "error_message": "Please choose one from the list in the cell.",
    }
    sheet.data_validation(1, verdict, max(len(rows), 1), verdict, choice)
    sheet.set_landscape()
    sheet.set_paper(9)  # A4
    sheet.fit_to_pages(1, 0)
    sheet.repeat_rows(0)


def _write_row(cells: "_Cells", number: int, row: Mapping[str, Any]) -> None:
    if row["clip"] is None:
        cells.text(number, "clip", row["note"], "note")
    else:
        cells.link(number, "clip", row["clip"])
    if row["asr_text"] is None:
        cells.text(number, "transcript", row["text"])
        cells.text(number, "hypothesis", NO_HYPOTHESIS, "note")
    else:
        sides = marked(cell_text(row["text"]), cell_text(row["asr_text"]))
        for name, fragments in zip(("transcript", "hypothesis"), sides, strict=True):
            cells.rich(number, name, fragments)
    for name in FILLED_IN:
        cells.text(number, name, "", "fill in")
    cells.text(number, "speaker", row["speaker_id"])
    cells.figure(number, "duration s", row["duration_s"], "seconds")
    cells.figure(number, "similarity", row["similarity"], "similarity")
    cells.text(number, "segment_id", row["segment_id"], "id")


def _range(name: str, rows: int) -> str:
    """The cells of a column, as formulas of other sheets name them."""
    letter = chr(ord("A") + list(COLUMNS).index(name))
    return f"review!${letter}$2:${letter}${max(rows, 1) + 1}"


def _height(**texts: str | None) -> float:
    """Points that a row needs for these columns' texts: not every program finds out by itself."""
    lines = 1
    for column, text in texts.items():
        # Widths count digits; letters are narrower on average, which makes up for words that wrap whole.
        lines = max(lines, sum(max(1, math.ceil(len(line) / COLUMNS[column])) for line in (text or "").split("\n")))
    return min(LINE_POINTS * lines, _MAX_ROW_POINTS)


class _Cells:
    """Writes cells of one sheet by the names of `COLUMNS`, in the formats of the review sheet."""

    def __init__(self, book: Any, sheet: Any) -> None:
        self.sheet = sheet
        self.columns = {name: column for column, name in enumerate(COLUMNS)}
        figure = {**_LINE, "align": "right", "indent": 1}
        self.formats = {
            "text": book.add_format({**_LINE, "num_format": "@"}),
            "id": book.add_format({**_LINE, "num_format": "@", "indent": 1}),
            "seconds": book.add_format({**figure, "num_format": "0.00"}),
            "similarity": book.add_format({**figure, "num_format": "0.000"}),
            "link": book.add_format({**_LINE, "font_color": "#0B5394", "underline": 1}),
            "note": book.add_format({**_LINE, "font_color": "#595959", "italic": True}),
            "fill in": book.add_format({**_LINE, **_FILL}),
            "all differs": book.add_format({**_LINE, **_DIFFERS, "num_format": "@"}),
        }
        # Of stretches of text inside a cell, by whether they differ.
        self.fonts = {False: book.add_format(), True: book.add_format(_DIFFERS)}

    def figure(self, row: int, name: str, value: float | None, style: str) -> None:
        if value is None or not math.isfinite(value):
            self.sheet.write_blank(row, self.columns[name], None, self.formats[style])
        else:
            self.sheet.write_number(row, self.columns[name], value, self.formats[style])

    def link(self, row: int, name: str, path: str) -> None:
        from xlsxwriter.url import Url  # type: ignore[import-untyped]

        url = Url(f"external:{path}")
        # xlsxwriter turns slashes round, which not every program undoes; as a relative address the path works everywhere.
        url._relationship_link = path
        url.text = "play"
        self.sheet.write_url(row, self.columns[name], url, self.formats["link"])

    def text(self, row: int, name: str, value: str | None, style: str = "text") -> None:
        self.rich(row, name, [(cell_text(value or ""), False)], style)

    def rich(self, row: int, name: str, fragments: list[Fragment], style: str = "text") -> None:
        whole = len(fragments) == 1 and fragments[0][1]
        put(self.sheet, (row, self.columns[name]), fragments, self.fonts, self.formats["all differs" if whole else style])
