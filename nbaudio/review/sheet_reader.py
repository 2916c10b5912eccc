"""Read returned review sheets.

They may be sorted, filtered, renamed, or saved by other programs, with moved rows and columns.
"""

import codecs
import datetime as dt
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import msgspec

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats import workbooks
from nbaudio.formats.delimited import open_delimited
from nbaudio.formats.transcripts import Problem
from nbaudio.formats.workbooks import open_workbook, other_format
from nbaudio.review.cell_escaping import CREATION_DATE, SEPARATORS, cell_text
from nbaudio.review.sheet_writer import COLUMNS, OTHER_SHEETS, REVIEWER, read_key
from nbaudio.tables.dataframes import Frame, as_polars

# Other names of the columns; compared without case, and with blanks for _ and -.
_ALSO_CALLED = {
    "verdicts": "verdict",
    "verdict 2": "second verdict",
    **dict.fromkeys(("comments", "remark", "remarks", "note", "notes"), "comment"),
    **dict.fromkeys(("correction", "corrected", "corrected transcript"), "corrected text"),
    **dict.fromkeys(("id", "segment"), "segment_id"),
    "duration": "duration s",
    "asr text": "hypothesis",
    "text": "transcript",
}
# `reviewer` is for tables that were merged from those of several people.
_NAMES = {name.replace("_", " "): name for name in (*COLUMNS, "reviewer")}
_HEADER_ROWS = 50  # people write a line or two above it
_DELIMITED = tuple(f".{kind}" for kind in SEPARATORS)
KINDS = (workbooks.XLSX, *_DELIMITED)  # the endings of the sheets that are written
READ_KINDS = (*workbooks.ENDINGS, *_DELIMITED)
PAGE_REMEDY = (
    "a page does not hold its verdicts: open it, click 'save verdicts', and import that file"
)
# Browsers add a number to the name of a second download.
_VERDICT_FILE = re.compile(r"-verdicts( ?\(\d+\))?\.json$")
FORMAT = "nbaudio verdicts 1"


@dataclass(frozen=True)
class Row:
    """One row of a sheet.

    It has its number in the file, cells by the names of `COLUMNS` and ``reviewer``, its parsed key,
    and when it was judged.
    """

    number: int
    cells: Mapping[str, str]
    key: tuple[str, str, str] | None
    time: dt.datetime | None = None  # in UTC; None where it is that of the sheet

    def __getitem__(self, column: str) -> str:
        return self.cells.get(column, "")


@dataclass(frozen=True)
class Sheet:
    """A returned file."""

    path: Path  # the file
    rows: list[Row]  # the rows that are not blank
    reviewer: str  # the name in the summary; empty for none
    # The facts in the hidden sheet, such as `review` and `corpus`; empty if it was removed.
    origin: Mapping[str, str]
    saved: dt.datetime  # when it was last saved, in UTC
    unknown: list[str]  # names of further columns with content
    further: list[str]  # names of further tables with rows that have a verdict
    merged: Sequence[int] = ()  # numbers of rows with cells that are merged with those above
    notes: int = 0  # how many notes are attached to the cells of its file

    @property
    def reviews(self) -> set[str]:
        """Names of the reviews in the keys of its rows."""
        return {row.key[2] for row in self.rows if row.key}


def is_verdict_file(path: Path) -> bool:
    """Return whether a file is called as a page calls the verdicts that it saves."""
    return bool(_VERDICT_FILE.search(path.name))


def modified(path: Path) -> dt.datetime:
    """Return when a file was last written, in UTC; raise InputError if there is none."""
    try:
        return dt.datetime.fromtimestamp(input_guards.check_regular(path).st_mtime, tz=dt.UTC)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file") from error


def read_sheet(path: Path) -> Sheet:
    """Read a sheet (one of `READ_KINDS`) or a verdict file."""
    kind = path.suffix.lower()
    if kind == ".json":
        return _verdict_file(path)
    if kind == ".html":
        raise InputError(f"{path}: {PAGE_REMEDY}")
    saved = modified(path)
    if kind in _DELIMITED:
        return _sheet(path, {"review": _delimited_rows(path)}, saved)
    if kind in workbooks.ENDINGS:
        return _workbook(path, saved)
    *first, last = READ_KINDS
    expected = f"the file must end in {', '.join(first)} or {last}, or in .json if a page saved it"
    raise InputError(f"{path}: {other_format(path) or expected}")


def _delimited_rows(path: Path) -> list[list[str]]:
    """Return the rows of a .csv or .tsv file, as spreadsheet programs write it.

    Rows that are blank, and those above the header, are empty, so that rows have their numbers.
    Apostrophes in front of texts stay, since only the caller knows the text.

    Raises:
        InputError: a line cannot be read; then no line is.
    """
    if not path.stat().st_size:
        return []
    try:
        table = open_delimited(path, quotes=True, is_header=_is_header)
        rows: list[list[str]] = [[] for _ in range(table.header_line - 1)]
        rows.append(table.header)
        last_line = table.header_line
        for row in table.rows(ragged=True):
            if isinstance(row, Problem):
                raise InputError(
                    f"{path}: line {row.line}: {row.reason}; save it as 'CSV UTF-8' or as .xlsx"
                )
            rows += [[] for _ in range(row.line - last_line - 1)]
            rows.append(row.cells)
            last_line = row.last_line
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a table ({one_line(error)})") from error
    return rows


def read_table(table: Frame) -> Sheet:
    """Read a review sheet from a pandas or polars table, which counts as saved now.

    See `read_sheet`.
    """
    frame = as_polars(table, "review")
    rows = [
        frame.columns,
        *([workbooks.typed_text(value) for value in row] for row in frame.iter_rows()),
    ]
    return _sheet(Path("table"), {"review": rows}, dt.datetime.now(dt.UTC))


def _sheet(
    path: Path,
    tables: Mapping[str, list[list[str]]],
    saved: dt.datetime,
    merged: Mapping[str, Collection[int]] = MappingProxyType({}),
) -> Sheet:
    """Return the review sheet among the tables of a file; raise InputError if none is one.

    `merged` has the numbers of rows with cells that are merged with those above, by table.
    """
    order = sorted(
        (name for name in tables if name not in OTHER_SHEETS), key=lambda name: name != "review"
    )
    parsed = {name: table for name in order if (table := _parse(tables[name], path))}
    if not parsed:
        raise InputError(
            f"{path}: no review sheet: no table in it has a column 'verdict' and one "
            "'key' or 'segment_id'"
        )
    (name, (rows, unknown)), *others = parsed.items()
    merged_rows = [row.number for row in rows if row.number in merged.get(name, ())]
    reviewers = (
        row[1].strip()
        for row in tables.get("summary", [])
        if len(row) > 1 and row[0].strip() == REVIEWER
    )
    origin = {row[0]: row[1] for row in tables.get("nbaudio", [])[:20] if len(row) > 1 and row[0]}
    further = [
        other
        for other, (sheet_rows, _) in others
        if any(row["verdict"].strip() for row in sheet_rows)
    ]
    return Sheet(path, rows, next(reviewers, ""), origin, saved, unknown, further, merged_rows)


def _workbook(path: Path, saved: dt.datetime) -> Sheet:
    """Read a workbook that was last written at `saved`.

    The time in the workbook survives copying, that of the file system is finer.
    """
    with open_workbook(path, formulas=True) as book:
        tables = {name: list(sheet.typed_rows()) for name, sheet in book.sheets.items()}
        merged = {name: _rows_merged_with_above(sheet) for name, sheet in book.sheets.items()}
        noted = book.saved
    if noted and noted > CREATION_DATE and saved - noted > dt.timedelta(seconds=2):
        saved = noted
    return replace(_sheet(path, tables, saved, merged), notes=workbooks.count_notes(path))


def _rows_merged_with_above(sheet: workbooks.Worksheet) -> set[int]:
    """Return the numbers of rows with cells whose value is that of a row above."""
    merged: set[int] = set()
    for cells in sheet.marks().merged:
        merged.update(cells.rows[1:])
    return merged


def _parse(table: Sequence[Sequence[str]], path: Path) -> tuple[list[Row], list[str]] | None:
    """Return the rows and the names of unknown columns; None if the table is no review sheet."""
    for at, header in enumerate(table[:_HEADER_ROWS]):
        names = _named(header)
        columns = {name: names.index(name) for name in _NAMES.values() if name in names}
        below = table[at + 1 :]
        if _is_header(header):
            if twice := [name for name, count in Counter(names).items() if name and count > 1]:
                raise InputError(f"{path}: two columns are called {twice[0]!r}; remove one of them")
            filled = {
                number for row in below for number, cell in enumerate(row) if cell.strip()
            } - set(columns.values())
            unknown = [header[number] if number < len(header) else "" for number in sorted(filled)]
            cells = [
                {name: row[column] for name, column in columns.items() if column < len(row)}
                for row in below
            ]
            filled_in = (
                (number, row)
                for number, row in enumerate(cells, start=at + 2)
                if "".join(row.values()).strip()
            )
            return [
                Row(number, row, read_key(row.get("key", ""))) for number, row in filled_in
            ], unknown
    return None


def _is_header(cells: Sequence[str]) -> bool:
    """Return whether cells name the columns of a review sheet."""
    names = _named(cells)
    return "verdict" in names and ("key" in names or "segment_id" in names)


def _named(header: Sequence[str]) -> list[str | None]:
    """Return the column that each cell of a header names.

    Other names count only if the column's own is missing.
    """
    spelled = [
        " ".join(cell.casefold().replace("_", " ").replace("-", " ").split()) for cell in header
    ]
    columns = [_NAMES.get(cell) for cell in spelled]
    synonyms = (_ALSO_CALLED.get(cell) for cell in spelled)
    return [
        name or (other if other not in columns else None)
        for name, other in zip(columns, synonyms, strict=True)
    ]


class _Given(msgspec.Struct):
    """One row: the segment as shown, and what the reviewer said.

    It has no verdict if it was not judged.
    """

    segment_id: str
    content: str
    verdict: str = ""
    comment: str = ""
    corrected_text: str = ""
    time: str = ""


class _VerdictFile(msgspec.Struct):
    """The content of a verdict file of a review page."""

    format: str
    review: str
    corpus: str
    reviewer: str
    saved: str
    verdicts: list[_Given]


def _verdict_file(path: Path) -> Sheet:
    """Read a verdict file, whose rows may have no verdict; raise InputError for any other file."""
    written = modified(path)
    try:
        content = input_guards.read_all(path).removeprefix(codecs.BOM_UTF8)
        file = msgspec.json.decode(content, type=_VerdictFile)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InputError(
            f"{path}: not the verdict file of a review page, or not all of it ({one_line(error)})"
        ) from error
    if file.format != FORMAT:
        raise InputError(f"{path}: its format is {file.format[:60]!r}, only {FORMAT!r} can be read")
    saved = _time(file.saved, written)
    rows = []
    for number, entry in enumerate(file.verdicts, start=1):
        cells = {
            "segment_id": entry.segment_id,
            "verdict": cell_text(entry.verdict),
            "comment": cell_text(entry.comment),
        }
        cells["corrected text"] = entry.corrected_text
        rows.append(
            Row(
                number, cells, (entry.content, file.reviewer, file.review), _time(entry.time, saved)
            )
        )
    origin = {"review": file.review, "corpus": file.corpus, "reviewer": file.reviewer}
    return Sheet(
        path, rows, cell_text(file.reviewer).strip(), origin, saved, unknown=[], further=[]
    )


def _time(noted: str, latest: dt.datetime) -> dt.datetime:
    """Parse a time in UTC, or return the latest one possible.

    The latest one stands for other text, and for a later time, since clocks may be wrong.
    """
    try:
        time = dt.datetime.fromisoformat(noted)
    except ValueError:
        return latest
    if time.utcoffset() == dt.timedelta() and time > CREATION_DATE:
        return min(time, latest)
    return latest
