"""The review sheet as an .xlsx workbook: what a reviewer sees and fills in, and what makes a row known again.

Equal rows give equal bytes. All texts are strings: no formula, no number, no link comes from a transcript.
"""

import datetime as dt
import io
import math
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from nbaudio.errors import InputError
from nbaudio.review.cells import Fragment, cell_text, marked
from nbaudio.review.record import ReviewRecord
from nbaudio.review.verdicts import VERDICTS

#: Rows that a sheet holds beside its header, and links that it holds.
MAX_ROWS = 1_048_575
MAX_LINKS = 65_530

#: Width of each column, in characters, in the order of the sheet.
COLUMNS = {
    "segment_id": 30,
    "clip": 14,
    "speaker": 16,
    "duration s": 12,
    "transcript": 60,
    "hypothesis": 60,
    "similarity": 12,
    "verdict": 15,
    "comment": 36,
}

_STEPS = (
    "Click 'play' in the column 'clip' and listen. The links work as long as the folder 'clips' lies beside this file: copy both "
    "together.",
    "Compare with 'transcript', the words that the clip should hold. 'hypothesis' is what a speech recogniser heard. Words in "
    "which the two differ are bold, underlined and coloured; it may well be the recogniser that is wrong.",
    "Choose a verdict from the list in its cell. Remarks go into 'comment'.",
    "Rows may be sorted, filtered and left empty. Please leave the other columns as they are.",
)
_LINE_POINTS, _MAX_ROW_POINTS = 15.0, 409.0
_LINE = {"border": 1, "border_color": "#D9D9D9", "valign": "top", "text_wrap": True}
_DIFFERS = {"bold": True, "underline": 1, "font_color": "#B00020"}


def write_sheet(rows: pl.DataFrame, record: ReviewRecord) -> bytes:
    """The workbook, with a sheet to review, one of instructions and a hidden one that tells where the rows come from.

    Args:
        rows: one row per row of the sheet, as in `record`: `segment_id`, `clip` (path of the clip relative to the sheet, null
            where there is none), `note` (what stands in place of a link), `speaker_id`, `duration_s`, `text`, `asr_text`,
            `similarity`.
        record: what was drawn, and how.

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
        # Without a fixed date, every workbook would differ.
        book.set_properties({"title": f"Review {record.name}", "created": dt.datetime(2000, 1, 1)})  # noqa: DTZ001
        _write_review(book, rows)
        _write_instructions(book)
        _write_origin(book, record)
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


def _write_review(book: Any, rows: pl.DataFrame) -> None:
    sheet = book.add_worksheet("review")
    header = book.add_format({"bold": True, "bg_color": "#E7E6E6", "font_color": "#1F1F1F", "bottom": 1, "valign": "vcenter"})
    for column, (name, width) in enumerate(COLUMNS.items()):
        sheet.set_column(column, column, width)
        sheet.write_string(0, column, name, header)
    cells = _Cells(book, sheet)
    for number, row in enumerate(rows.iter_rows(named=True), start=1):
        sheet.set_row(number, _height(segment_id=row["segment_id"], transcript=row["text"], hypothesis=row["asr_text"]))
        _write_row(cells, number, row)
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, len(rows), len(COLUMNS) - 1)
    verdict = cells.columns["verdict"]
    choice = {
        "validate": "list",
        "source": list(VERDICTS),
        "error_title": "Not a verdict",
        "error_message": f"Please choose one of: {', '.join(VERDICTS)}.",
    }
    sheet.data_validation(1, verdict, max(len(rows), 1), verdict, choice)
    sheet.set_landscape()
    sheet.set_paper(9)  # A4
    sheet.fit_to_pages(1, 0)
    sheet.repeat_rows(0)


def _write_row(cells: "_Cells", number: int, row: Mapping[str, Any]) -> None:
    cells.text(number, "segment_id", row["segment_id"])
    if row["clip"] is None:
        cells.text(number, "clip", row["note"], "note")
    else:
        cells.link(number, "clip", row["clip"])
    cells.text(number, "speaker", row["speaker_id"])
    cells.figure(number, "duration s", row["duration_s"], "seconds")
    if row["asr_text"] is None:
        cells.text(number, "transcript", row["text"])
        cells.text(number, "hypothesis", "no hypothesis", "note")
    else:
        sides = marked(cell_text(row["text"]), cell_text(row["asr_text"]))
        for name, fragments in zip(("transcript", "hypothesis"), sides, strict=True):
            cells.rich(number, name, fragments)
    cells.figure(number, "similarity", row["similarity"], "similarity")
    for name in ("verdict", "comment"):
        cells.text(number, name, "", "fill in")


def _height(**texts: str | None) -> float:
    """Points that a row needs for these columns' texts: not every program finds out by itself."""
    lines = 1
    for column, text in texts.items():
        # Widths count digits; letters are narrower on average, which makes up for words that wrap whole.
        lines = max(lines, sum(max(1, math.ceil(len(line) / COLUMNS[column])) for line in (text or "").split("\n")))
    return min(_LINE_POINTS * lines, _MAX_ROW_POINTS)


class _Cells:
    """Writes cells of one sheet by the names of `COLUMNS`, in the formats of the review sheet."""

    def __init__(self, book: Any, sheet: Any) -> None:
        self.sheet = sheet
        self.columns = {name: column for column, name in enumerate(COLUMNS)}
        figure = {**_LINE, "align": "right", "indent": 1}
        self.formats = {
            "text": book.add_format(_LINE),
            "seconds": book.add_format({**figure, "num_format": "0.00"}),
            "similarity": book.add_format({**figure, "num_format": "0.000"}),
            "link": book.add_format({**_LINE, "font_color": "#0B5394", "underline": 1}),
            "note": book.add_format({**_LINE, "font_color": "#595959", "italic": True}),
            "fill in": book.add_format({**_LINE, "bg_color": "#FFF8E1"}),
            "all differs": book.add_format({**_LINE, **_DIFFERS}),
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
        _put(self.sheet, (row, self.columns[name]), fragments, self.fonts, self.formats["all differs" if whole else style])


def _put(sheet: Any, place: tuple[int, int], fragments: list[Fragment], fonts: Mapping[bool, Any], style: Any) -> None:
    """Write fragments as one text, each in its font."""
    text = "".join(piece for piece, _ in fragments)
    # xlsxwriter takes a text like this for rich text of its own making, and writes its tags as they are.
    looks_rich = text.startswith("<r>") and text.endswith("</r>")
    if not text:
        sheet.write_blank(*place, None, style)
    elif len(fragments) == 1 and not looks_rich:
        sheet.write_string(*place, text, style)
    else:
        parts = [(part, differs) for piece, differs in fragments for part in _RICH_TRAPS.split(piece)]
        sheet.write_rich_string(*place, *(token for part, differs in parts for token in (fonts[differs], part)), style)


# Where rich text is parted: xlsxwriter escapes twice what looks like Excel's own escape, _x0041_, and wants two parts or more.
_RICH_TRAPS = re.compile("(?<=_)(?=x)|(?<=^<)(?=r>)")


def _write_instructions(book: Any) -> None:
    sheet = book.add_worksheet("instructions")
    sheet.hide_gridlines(2)
    sheet.set_column(0, 0, 16)
    sheet.set_column(1, 1, 90)
    sheet.fit_to_pages(1, 0)
    heading = book.add_format({"bold": True, "font_size": 13})
    label = book.add_format({"bold": True, "valign": "top", "align": "left"})
    wrapped = book.add_format({"text_wrap": True, "valign": "top"})
    steps = [(f"{number}.", step) for number, step in enumerate(_STEPS, start=1)]
    rows = [("What to do", ""), *steps, ("", ""), ("Verdicts", ""), *VERDICTS.items()]
    for number, (name, line) in enumerate(rows):
        sheet.set_row(number, _LINE_POINTS * (1 + len(line) // 80))
        sheet.write_string(number, 0, name, label if line else heading)
        sheet.write_string(number, 1, line, wrapped)


def _write_origin(book: Any, record: ReviewRecord) -> None:
    """The hidden sheet: facts of the review, then id, content hash and inclusion probability of each row."""
    sheet = book.add_worksheet("nbaudio")
    sheet.hide()
    facts = {"review": record.name, "strategy": record.strategy, "seed": record.seed, "n": record.n, "corpus": record.corpus}
    rows = [(name, str(value)) for name, value in facts.items()]
    rows += [("", ""), ("segment_id", "content"), *zip(record.segment_ids, record.contents, strict=True)]
    font = {False: book.add_format()}
    for number, texts in enumerate(rows):
        for column, text in enumerate(texts):
            _put(sheet, (number, column), [(cell_text(text), False)], font, None)
    first = len(facts) + 1
    sheet.write_string(first, 2, "probability")
    for number, probability in enumerate(record.probabilities, start=first + 1):
        sheet.write_number(number, 2, probability)
