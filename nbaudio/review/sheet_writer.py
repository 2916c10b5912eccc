"""Write the review sheet, an .xlsx workbook.

Equal rows give equal bytes; all texts are strings, also what is typed in.
"""

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.review.cell_escaping import (
    Fragment,
    cell_text,
    diff_fragments,
    new_workbook,
    put_fragments,
)
from nbaudio.review.state import VERDICTS, ReviewRecord, faults

#: Columns in the order of the sheet, with their width in characters.
COLUMNS = {
    "clip": 9,
    "verdict": 15,
    "second verdict": 15,
    "transcript": 52,
    "hypothesis": 52,
    "corrected text": 40,
    "comment": 30,
    "speaker": 16,
    "recording": 24,
    "duration s": 12,
    "similarity": 12,
    "segment_id": 30,
    "key": 60,
}
FILLED_IN = ("verdict", "second verdict", "corrected text", "comment")  # the others are read-only
HIDDEN_IF_BLIND = ("hypothesis", "similarity")
NO_HYPOTHESIS = "no hypothesis"
OTHER_SHEETS = ("summary", "instructions", "nbaudio")
REVIEWER = "Reviewer"  # labels the cell with the name of the reviewer in the summary

_GRAY = "#E7E6E6"
_YELLOW = "#FFE599"
_PALE = "#FFF8E1"
_LINES = "#D9D9D9"
_LINE = {"border": 1, "border_color": _LINES, "valign": "top", "align": "left", "text_wrap": True}
_TEXT = {**_LINE, "num_format": "@"}
_FIGURE = {"border": 1, "border_color": _LINES, "valign": "top", "align": "right", "indent": 1}
_DIFFERS = {"bold": True, "underline": 1, "font_color": "#B00020"}
_CELLS: Mapping[str, Mapping[str, Any]] = {
    "text": _TEXT,
    "duration s": {**_FIGURE, "num_format": "0.00"},
    "similarity": {**_FIGURE, "num_format": "0.000"},
    "link": {**_LINE, "font_color": "#0B5394", "underline": 1},
    "note": {**_LINE, "font_color": "#595959", "italic": True},
    "fill in": {**_TEXT, "bg_color": _PALE},
    "all differs": {**_TEXT, **_DIFFERS},
}
_LINE_POINTS, _ROOM_POINTS = 15.0, 5.0  # of one line, and what a row is higher than its lines
_MOST_POINTS = 409.0  # a spreadsheet has no higher rows
_SUMMARY_LABEL = {"bold": True, "bottom": 1, "bg_color": _GRAY}
_REVIEWER_CELL = {"num_format": "@", "bg_color": _PALE, "border": 1, "border_color": _LINES}
_HEADING = {"bold": True, "font_size": 13}
_FIRST_VERDICT = 8
_A4 = 9  # as XlsxWriter numbers sizes of paper
_KEY = re.compile(r"nb ([0-9a-f]{4,64}) (\S+) (.+)", re.DOTALL)
_IS_CALLED = "that is called as 'segment_id' says"
_BEGINS = "whose name begins as 'segment_id' says"
_STEPS = (
    "Click 'play' in the column 'clip' and listen. The links work as long as the folder "
    "'clips' lies beside this file: copy both "
    "together, and unpack a .zip first. Where links are dead, as in Google Sheets, "
    f"the clip of a row is the file in 'clips' {_IS_CALLED}.",
    "Compare with 'transcript', the words that the clip should hold.",
    (
        "Choose a verdict from the list in its cell. If the clip has a second fault, "
        "choose that in 'second verdict'."
    ),
    "Where other words are spoken, the right ones may go into 'corrected text': "
    "all words of the clip, not only those that "
    "change. Copy the transcript and edit the copy. Remarks go into 'comment'.",
    (
        "Rows may be sorted, filtered and left empty, columns moved. "
        "Please leave what is in the other columns as it is."
    ),
    (
        "The sheet 'summary' counts along. Write your name there unless it is there already. "
        "Save, and send this file back."
    ),
)
_HYPOTHESIS_STEP = (
    " 'hypothesis' is what a speech recognizer heard. Words in which the two differ are "
    "bold, underlined and colored; it may "
    "well be the recognizer that is wrong."
)


def row_key(content: str, reviewer: str, review: str) -> str:
    """Return the key that identifies a row wherever it ends up.

    No program reads its text as a number or formula.
    """
    return f"nb {content} {reviewer or '-'} {review}"


def read_key(text: str) -> tuple[str, str, str] | None:
    """Parse a `row_key` into content, reviewer and review; return None for other texts."""
    match = _KEY.fullmatch(text.strip())
    if match is None:
        return None
    content, reviewer, review = match.groups()
    if reviewer == "-":
        reviewer = ""
    return content, reviewer, review


def column_places(record: ReviewRecord) -> dict[str, int]:
    """Return the columns of the sheet of a review with their places."""
    shown = [name for name in COLUMNS if not (record.blind and name in HIDDEN_IF_BLIND)]
    return {name: place for place, name in enumerate(shown)}


def check_size(rows: int, links: int) -> None:
    """Raise InputError for more rows (beside the header) or links than a spreadsheet can hold."""
    for what, count, most in (("rows", rows, 1_048_575), ("links to clips", links, 65_530)):
        if count > most:
            instead = "draw fewer, name more reviewers, or draw several samples"
            raise InputError(f"a sheet holds {most:,} {what}, not {count:,}: {instead}")


def write_sheet(
    rows: pl.DataFrame, record: ReviewRecord, reviewer: str = "", **compared: Any
) -> bytes:
    """Return the workbook of `rows` with `clip` (a relative path or null) and `note`.

    Errors of `word_diff` are marked.
    """
    out = io.BytesIO()
    with new_workbook(out, f"Review {record.name}") as book:
        _write_review(book, rows, record, reviewer, compared)
        _write_summary(book, record, reviewer, len(rows))
        _write_instructions(book, record)
        _write_origin(book, record, reviewer)
        for sheet in book.worksheets():
            _print_one_page_wide(sheet)
    return out.getvalue()


@dataclass(frozen=True)
class _Cell:
    """A text in a row of the review.

    Attributes:
        column: its name.
        fragments: the text; empty for a cell to fill in.
        style: the name of its format.
    """

    column: str
    fragments: list[Fragment]
    style: str

    @property
    def text(self) -> str:
        """The text without the marks of its fragments."""
        return "".join(fragment.text for fragment in self.fragments)


@dataclass(frozen=True)
class _Rows:
    """The rows of the review in its sheet, below the header.

    Attributes:
        sheet: of the workbook.
        places: the place of each column.
        formats: of cells, by the name of their style.
        fonts: of fragments, by whether they differ.
    """

    sheet: Any
    places: Mapping[str, int]
    formats: Mapping[str, Any]
    fonts: Mapping[bool, Any]

    def write(self, number: int, row: Mapping[str, Any], cells: Sequence[_Cell]) -> None:
        """Write a row by its number, as high as its texts."""
        shown = [cell for cell in cells if cell.column != "key"]
        self.sheet.set_row(number, _row_height((cell.text, COLUMNS[cell.column]) for cell in shown))
        if row["clip"] is not None:
            link = _link(row["clip"])
            self.sheet.write_url(number, self.places["clip"], link, self.formats["link"])
        for cell in cells:
            place = (number, self.places[cell.column])
            put_fragments(self.sheet, place, cell.fragments, self.fonts, self.formats[cell.style])
        self._write_figure(number, "duration s", row["duration_s"])
        self._write_figure(number, "similarity", row["similarity"])

    def _write_figure(self, number: int, column: str, value: float | None) -> None:
        """Write a number, or a blank cell if it is missing or infinite."""
        if column not in self.places:
            return
        if value is not None and not math.isfinite(value):
            value = None
        self.sheet.write(number, self.places[column], value, self.formats[column])


def _write_review(
    book: Any, rows: pl.DataFrame, record: ReviewRecord, reviewer: str, compared: Mapping[str, Any]
) -> None:
    """Write the sheet with the rows to judge."""
    sheet = book.add_worksheet("review")
    places = column_places(record)
    _write_header(book, sheet, places)
    written = _Rows(
        sheet,
        places,
        formats={name: book.add_format(style) for name, style in _CELLS.items()},
        fonts={False: book.add_format(), True: book.add_format(_DIFFERS)},
    )
    for number, row in enumerate(rows.iter_rows(named=True), start=1):
        key = row_key(row["content"], reviewer, record.name)
        written.write(number, row, list(_cells(row, key, compared, blind=record.blind)))
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, len(rows), len(places) - 1)
    sheet.repeat_rows(0)
    sheet.print_area(0, 0, len(rows), places["segment_id"])  # without the key
    _offer_verdicts(sheet, record, places, len(rows))


def _write_header(book: Any, sheet: Any, places: Mapping[str, int]) -> None:
    """Write the names of the columns and set their widths; the key is hidden."""
    bold = {"bold": True, "font_color": "#1F1F1F", "bottom": 1, "valign": "vcenter"}
    read_only = book.add_format({**bold, "bg_color": _GRAY})
    filled_in = book.add_format({**bold, "bg_color": _YELLOW})
    sheet.set_row(0, _LINE_POINTS + _ROOM_POINTS)
    for name, column in places.items():
        sheet.set_column(column, column, COLUMNS[name], None, {"hidden": name == "key"})
        cell_format = filled_in if name in FILLED_IN else read_only
        sheet.write_string(0, column, name, cell_format)


def _offer_verdicts(
    sheet: Any, record: ReviewRecord, places: Mapping[str, int], num_rows: int
) -> None:
    """Let the cells for verdicts have lists to choose from."""
    message = {
        "error_title": "Not a verdict",
        "error_message": "Please choose one from the list in the cell.",
    }
    # Lists refer to cells: one inside the drop-down is limited to 255 characters.
    lists = {
        "verdict": f"=summary!$A${_FIRST_VERDICT + 1}:$A${_FIRST_VERDICT + len(record.verdicts)}"
    }
    fault_words = faults(record.verdicts)
    if fault_words:
        lists["second verdict"] = f"=nbaudio!$E$2:$E${len(fault_words) + 1}"
    for name, source in lists.items():
        choice = {"validate": "list", "source": source, **message}
        sheet.data_validation(1, places[name], max(num_rows, 1), places[name], choice)


def _print_one_page_wide(sheet: Any) -> None:
    """Set a sheet to be printed in landscape, one page wide and as many pages long as needed."""
    sheet.set_landscape()
    sheet.set_paper(_A4)
    sheet.fit_to_pages(1, 0)


def _cells(
    row: Mapping[str, Any], key: str, compared: Mapping[str, Any], *, blind: bool
) -> Iterator[_Cell]:
    """Yield the cells with texts of a row; those of the hypothesis are left out of a blind one."""
    transcript = cell_text(row["text"] or "")
    hypothesis = cell_text(row["asr_text"] or "")
    if row["clip"] is None:
        yield _Cell("clip", [Fragment(row["note"])], "note")
    if blind or row["asr_text"] is None:
        yield _Cell("transcript", [Fragment(transcript)], "text")
        if not blind:
            yield _Cell("hypothesis", [Fragment(NO_HYPOTHESIS)], "note")
    else:
        both = diff_fragments(transcript, hypothesis, **compared)
        for name, fragments in zip(("transcript", "hypothesis"), both, strict=True):
            kind = "text"
            if len(fragments) == 1 and fragments[0].differs:
                kind = "all differs"
            yield _Cell(name, fragments, kind)
    for name in FILLED_IN:
        yield _Cell(name, [], "fill in")
    plain_texts = {
        "speaker": row["speaker_id"],
        "recording": row["source_name"],
        "segment_id": row["segment_id"],
        "key": key,
    }
    for name, text in plain_texts.items():
        yield _Cell(name, [Fragment(cell_text(text or ""))], "text")


def _link(path: str) -> Any:
    """Return the link to a clip."""
    from xlsxwriter.url import Url  # type: ignore[import-untyped]

    url = Url(f"external:{path}")
    # xlsxwriter writes backslashes, which not every program understands; a relative path with
    # slashes works everywhere.
    url._relationship_link = path
    url.text = "play"
    return url


def _write_summary(book: Any, record: ReviewRecord, reviewer: str, num_rows: int) -> None:
    """Write the sheet that counts verdicts."""
    sheet = book.add_worksheet("summary")
    sheet.set_column(0, 2, 20)
    sheet.set_column(3, 3, 80)
    label = book.add_format(_SUMMARY_LABEL)
    name = book.add_format(_REVIEWER_CELL)
    count = book.add_format({"num_format": "#,##0"})
    share = book.add_format({"num_format": "0.0%"})
    sheet.write_string(0, 0, cell_text(f"Review {record.name}"), book.add_format(_HEADING))
    sheet.write_string(2, 0, REVIEWER)
    sheet.write(2, 1, reviewer or None, name)
    if record.reviewers:
        _offer_reviewers(sheet, len(record.reviewers))
    ranges = _verdict_ranges(record, num_rows)
    for row, (text, formula, value) in enumerate(_progress(ranges, num_rows), start=3):
        sheet.write_string(row, 0, text)
        sheet.write_formula(row, 1, formula, count, value)
    for column, text in enumerate(("Verdict", "clips", "of judged", "what it says")):
        sheet.write_string(_FIRST_VERDICT - 1, column, text, label)
    for row, word in enumerate(record.verdicts, start=_FIRST_VERDICT):
        occurrences = "+".join(f"COUNTIF({cells},A{row + 1})" for cells in ranges)
        sheet.write_string(row, 0, word)
        sheet.write_formula(row, 1, f"={occurrences}", count, 0)
        sheet.write_formula(row, 2, f'=IF($B$5=0,"",B{row + 1}/$B$5)', share, "")
        sheet.write_string(row, 3, VERDICTS.get(word, ""))


def _verdict_ranges(record: ReviewRecord, num_rows: int) -> tuple[str, str]:
    """Return the cells of first and second verdicts as formulas name them."""
    places = column_places(record)
    verdict = chr(ord("A") + places["verdict"])
    second = chr(ord("A") + places["second verdict"])
    last = max(num_rows, 1) + 1
    return f"review!${verdict}$2:${verdict}${last}", f"review!${second}$2:${second}${last}"


def _progress(ranges: tuple[str, str], num_rows: int) -> list[tuple[str, str, int]]:
    """Return the lines on the progress of a review: label, formula, and its value at first."""
    verdict, second = ranges
    judged = f"=SUMPRODUCT(--((LEN({verdict})>0)+(LEN({second})>0)>0))"
    return [
        ("Clips", f"={num_rows}", num_rows),
        ("Judged", judged, 0),
        ("To do", "=B4-B5", num_rows),
    ]


def _offer_reviewers(sheet: Any, num_reviewers: int) -> None:
    """Let the cell for the reviewer have a list to choose from; other names bring a warning."""
    choice = {
        "validate": "list",
        "source": f"=nbaudio!$F$2:$F${num_reviewers + 1}",
        "error_type": "warning",
        "error_title": "Not on the list",
        "error_message": "Reviewers of this review are on the list in the cell.",
    }
    sheet.data_validation(2, 1, 2, 1, choice)


def _write_instructions(book: Any, record: ReviewRecord) -> None:
    """Write the sheet with the steps of a review and the meanings of the verdicts."""
    sheet = book.add_worksheet("instructions")
    sheet.set_column(0, 0, 16)
    sheet.set_column(1, 1, 90)
    heading = book.add_format(_HEADING)
    label = book.add_format({"bold": True, "valign": "top", "align": "left"})
    wrapped = book.add_format({"text_wrap": True, "valign": "top"})
    first, compare, *others = _STEPS
    if record.control_rows:
        first = first.replace(_IS_CALLED, _BEGINS)
    if not record.blind:
        compare += _HYPOTHESIS_STEP
    texts = (first, compare, *others)
    steps = [(f"{number}.", text) for number, text in enumerate(texts, start=1)]
    meanings = [(word, VERDICTS.get(word, " ")) for word in record.verdicts]
    rows = [("What to do", ""), *steps, ("", ""), ("Verdicts", ""), *meanings]
    for number, (name, line) in enumerate(rows):
        sheet.set_row(number, _row_height([(line, 90)]))
        cell_format = label if line else heading
        sheet.write_string(number, 0, name, cell_format)
        sheet.write_string(number, 1, line, wrapped)


def _write_origin(book: Any, record: ReviewRecord, reviewer: str) -> None:
    """Write the hidden sheet: facts of the review, and lists."""
    sheet = book.add_worksheet("nbaudio")
    sheet.hide()
    font = {False: book.add_format()}
    facts = {"review": record.name, "corpus": record.corpus, "reviewer": reviewer}
    for number, pair in enumerate(facts.items()):
        for column, text in enumerate(pair):
            put_fragments(sheet, (number, column), [Fragment(cell_text(text))], font, None)
    lists = {"faults": faults(record.verdicts), "reviewers": record.reviewers}
    for column, (name, words) in enumerate(lists.items(), start=4):
        sheet.write_column(0, column, [name, *words])


def _row_height(cells: Iterable[tuple[str, float]]) -> float:
    """Return the height in points for texts that wrap, given with their column width.

    The result is a little too high rather than too low.
    """
    lines = (
        sum(1 + int(1.1 * sum(map(_size, line)) / width) for line in text.split("\n"))
        for text, width in cells
    )
    return min(max(lines, default=1) * _LINE_POINTS + _ROOM_POINTS, _MOST_POINTS)


def _size(letter: str) -> float:
    """Return the width of a letter as a multiple of the width of a digit.

    Spreadsheets measure columns in widths of a digit.
    """
    if east_asian_width(letter) in "WF":
        return 2.3
    return 1.25 if letter.isupper() or letter > "\u024f" else 1.0
