"""Open .ods workbooks, as LibreOffice saves them, with python-calamine.

calamine 0.9.1 never ends on a content.xml that is cut off, and leaves out tabs, line breaks, the
text of errors, cells without a type, and the leading zeros that a cell shows. So content.xml is
parsed once before, which also limits what it expands to, and calamine reads a copy where one of
these is in it.
"""

import datetime as dt
import re
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.formats import workbook_guard

CONTENT = "content.xml"
_META = "meta.xml"
_MANIFEST = "META-INF/manifest.xml"
_READ_BYTES = 1 << 20
_MOST_COLUMNS = 16_384
_MOST_ROWS = 1_048_576
_CELLS = ("table:table-cell", "table:covered-table-cell")
_NOT_VISIBLE = ("collapse", "filter")
_BREAKS = {b"<text:tab": b"&#9;<text:tab", b"<text:line-break": b"&#10;<text:line-break"}
# What calamine leaves out, in one tag each.
_LEFT_OUT = re.compile(
    rb"<text:(?:tab|line-break)\b"
    rb'| office:string-value=""(?=[^<>]*calcext:value-type="error")'
    rb"|<table:table-cell(?![^<>]*(?:office:value-type|/>))"
    rb'|<table:table-cell(?=[^<>]*office:value-type="float")[^<>]*>(?=<text:p>0\d+</text:p>)'
)
_NUMBER = re.compile(rb' (?:office:value|calcext:value-type)="[^"<>]*"')
_SAVED = re.compile(rb"<dc:date>([0-9T:.+Z-]{1,40})</dc:date>")


@contextmanager
def open_opendocument(path: Path) -> Iterator[Any]:
    """Open a workbook of any size that real ones have, as a `CalamineWorkbook`.

    Raises:
        InputError: it has a password, is not well formed, or expands to more than real data does.
    """
    import python_calamine

    with zipfile.ZipFile(path) as archive:
        if b"encryption-data" in _start(archive, _MANIFEST):
            raise InputError(f"{path}: it has a password; save it without one")
        scan = _Scan(path)
        with archive.open(_whole_member(archive, CONTENT)) as content:
            scan.parse(content)
        if not scan.needs_copy:
            with python_calamine.CalamineWorkbook.from_path(path) as book:
                yield book
            return
        with tempfile.NamedTemporaryFile(suffix=".ods") as rewritten:
            _write_copy(archive, rewritten)
            with python_calamine.CalamineWorkbook.from_path(rewritten.name) as book:
                yield book


def _whole_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """Return the entry of a member as one that does not end before its packed bytes do.

    zipfile ends a member at the size that its entry gives, calamine where the packed bytes end.
    zipfile raises BadZipFile where a member is larger, as its checksum is that of fewer bytes.
    """
    entry = copy(archive.getinfo(name))
    entry.file_size += 1
    return entry


def time_of_last_save(path: Path) -> dt.datetime | None:
    """Return when a workbook was last saved, as it says, or None where it does not say.

    LibreOffice writes the local time without its zone, which is taken for UTC.
    """
    with zipfile.ZipFile(path) as archive:
        match = _SAVED.search(_start(archive, _META))
    if match is None:
        return None
    try:
        time = dt.datetime.fromisoformat(match[1].decode())
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=dt.UTC)
    return time.astimezone(dt.UTC)


def _start(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the first bytes of a member; none if there is no such member."""
    if name not in archive.namelist():
        return b""
    with archive.open(name) as member:
        return member.read(_READ_BYTES)


def open_marks(path: Path, sheet: str) -> "SheetMarks":
    """Return which rows of a sheet are hidden, and which cells are merged.

    The workbook was opened before, which limits what it expands to.
    """
    scan = _MarksScan(sheet)
    parser = expat.ParserCreate("UTF-8")
    parser.StartElementHandler = scan.start_element
    parser.EndElementHandler = scan.end_element
    with zipfile.ZipFile(path) as archive, archive.open(CONTENT) as content:
        parser.ParseFile(content)
    return SheetMarks(scan.hidden, scan.merged)


@dataclass(frozen=True)
class MergedCells:
    """Cells that are shown as one, whose value is that of the first one.

    Attributes:
        rows: their numbers, from 1.
        columns: their numbers, from 0.
    """

    rows: range
    columns: range


@dataclass(frozen=True)
class SheetMarks:
    """What a sheet shows otherwise than its cells say: hidden rows, and merged cells."""

    hidden: Sequence[range]  # numbers of rows, from 1
    merged: Sequence[MergedCells]

    def count_hidden(self, numbers: Collection[int]) -> int:
        """Return how many rows of some numbers are hidden, also by a filter."""
        end = max(numbers, default=0) + 1
        hidden = {row for rows in self.hidden for row in range(rows.start, min(rows.stop, end))}
        return sum(number in hidden for number in numbers)

    def count_beside(self, after: int) -> int:
        """Return how many cells below a row are beside the first column of merged cells."""
        return sum(
            (len(cells.columns) - 1) * len(range(max(cells.rows.start, after + 1), cells.rows.stop))
            for cells in self.merged
        )

    def filler(self, after: int) -> "MergedFiller":
        """Return what fills the rows below a row."""
        return MergedFiller([cells for cells in self.merged if cells.rows.start > after])


class MergedFiller:
    """Fills the first column of merged cells, as a sheet shows it, row by row from above.

    Cells beside the first column stay empty: titles are merged over columns.

    Attributes:
        filled: how many cells were filled.
    """

    def __init__(self, merged: Sequence[MergedCells]) -> None:
        self.filled = 0
        self._beginning: dict[int, list[MergedCells]] = {}
        for cells in merged:
            self._beginning.setdefault(cells.rows.start, []).append(cells)
        self._open: dict[int, tuple[int, str]] = {}  # by column: the row behind it, and the value

    def fill(self, number: int, row: list[str]) -> list[str]:
        """Return a row of this number (from 1) with the values of merged cells that began above."""
        filled = list(row)
        self._open = {column: rest for column, rest in self._open.items() if number < rest[0]}
        for column, (_, value) in self._open.items():
            filled += [""] * (column + 1 - len(filled))
            if value and not filled[column]:
                filled[column] = value
                self.filled += 1
        for cells in self._beginning.get(number, ()):
            column = cells.columns.start
            value = row[column] if column < len(row) else ""
            self._open[column] = (cells.rows.stop, value)
        return filled


class _MarksScan:
    """Finds hidden rows and merged cells of one sheet, while content.xml is parsed."""

    def __init__(self, sheet: str) -> None:
        self.hidden: list[range] = []
        self.merged: list[MergedCells] = []
        self._sheet = sheet
        self._is_in_sheet = False
        self._rows = range(0)
        self._column = 0

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        """Take the rows and cells of the sheet."""
        if name == "table:table":
            self._is_in_sheet = attributes.get("table:name") == self._sheet
            self._rows = range(1, 1)
        elif name == "table:table-row":
            repeated = _repeated(attributes, "table:number-rows-repeated", _MOST_ROWS)
            self._rows = range(self._rows.stop, self._rows.stop + repeated)
            self._column = 0
            if self._is_in_sheet and attributes.get("table:visibility") in _NOT_VISIBLE:
                self.hidden.append(self._rows)
        elif name in _CELLS and self._is_in_sheet:
            self._take_cell(attributes)

    def _take_cell(self, attributes: dict[str, str]) -> None:
        """Move on by one cell or repeated cells; note the range of merged ones."""
        height = _repeated(attributes, "table:number-rows-spanned", _MOST_ROWS)
        width = _repeated(attributes, "table:number-columns-spanned", _MOST_COLUMNS)
        if height > 1 or width > 1:
            row = self._rows.start
            columns = range(self._column, self._column + width)
            self.merged.append(MergedCells(range(row, row + height), columns))
        self._column += _repeated(attributes, "table:number-columns-repeated", _MOST_COLUMNS)

    def end_element(self, name: str) -> None:
        """Leave the sheet."""
        if name == "table:table":
            self._is_in_sheet = False


class _Scan:
    """What content.xml spans and expands to, counted while it is parsed.

    A cell or row may stand for many by the attributes ``number-columns-repeated`` and
    ``number-rows-repeated``.
    """

    def __init__(self, path: Path) -> None:
        """Take the path of a workbook, whose size sets the limits."""
        self.needs_copy = False
        self._path = path
        self._bytes = input_guards.check_regular(path).st_size
        self._elements = 0
        self._most_elements = workbook_guard.most_elements(self._bytes)
        self._spanned = 0  # cells of all sheets up to the last one with content
        self._filled = 0  # cells with content, a repeated one once
        self._expanded = 0  # characters of all cells, each as often as it is repeated
        self._begin_table()
        self._begin_row({})
        self._begin_cell({})

    def parse(self, content: IO[bytes]) -> None:
        """Parse content.xml; raise InputError for a bomb, or if it is not well formed."""
        parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start_element
        parser.EndElementHandler = self._end_element
        parser.CharacterDataHandler = self._add_text
        parser.StartDoctypeDeclHandler = self._refuse("a document type")
        parser.StartCdataSectionHandler = self._refuse("a CDATA section")
        try:
            parser.ParseFile(content)
        except expat.ExpatError as error:
            raise InputError(
                f"{self._path}: cannot be read as a workbook ({CONTENT}: {error})"
            ) from error
        workbook_guard.check_span(self._path, self._bytes, self._spanned, self._filled)

    def _refuse(self, what: str) -> Any:
        """Return a handler that raises InputError for something in content.xml."""

        def refuse(*_: object) -> None:
            raise InputError(
                f"{self._path}: {CONTENT} has {what}, which is not read: "
                "save it in a spreadsheet program"
            )

        return refuse

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        """Count an element; raise InputError for too many."""
        self._elements += 1
        if self._elements > self._most_elements:
            workbook_guard.check_elements(self._path, self._bytes, self._elements)
        if name in _CELLS:
            self._begin_cell(attributes)
        elif name == "text:p":
            self._is_filled = True
            self.needs_copy |= not self._has_type
        elif name == "text:s":
            self._add_blanks(attributes)
        elif name in {"text:tab", "text:line-break"}:
            self.needs_copy = True
        elif name == "table:table-row":
            self._begin_row(attributes)
        elif name == "table:table":
            self._begin_table()

    def _end_element(self, name: str) -> None:
        if name in _CELLS:
            self._end_cell()
        elif name == "table:table-row":
            self._end_row()
        elif name == "table:table":
            self._spanned += self._height * self._width

    def _begin_table(self) -> None:
        self._rows = 0
        self._height = 0  # of the rows up to the last one with content
        self._width = 0

    def _begin_row(self, attributes: dict[str, str]) -> None:
        self._rows_repeated = _repeated(attributes, "table:number-rows-repeated", _MOST_ROWS)
        self._columns = 0
        self._row_width = 0
        self._row_characters = 0

    def _begin_cell(self, attributes: dict[str, str]) -> None:
        """Begin to count what a cell holds."""
        self._columns_repeated = _repeated(
            attributes, "table:number-columns-repeated", _MOST_COLUMNS
        )
        self._has_type = "office:value-type" in attributes
        self._is_number = attributes.get("office:value-type") == "float"
        self._is_filled = self._has_type
        self._characters = len(attributes.get("office:string-value", ""))
        self.needs_copy |= attributes.get("calcext:value-type") == "error"

    def _add_blanks(self, attributes: dict[str, str]) -> None:
        """Add the blanks that one element stands for."""
        self._characters += _repeated(attributes, "text:c", sys.maxsize)
        workbook_guard.check_expansion(self._path, self._bytes, self._characters)

    def _add_text(self, text: str) -> None:
        self._characters += len(text)
        self.needs_copy |= self._is_number and len(text) > 1 and text[0] == "0" and text.isdigit()

    def _end_cell(self) -> None:
        self._columns = min(self._columns + self._columns_repeated, _MOST_COLUMNS)
        if self._is_filled:
            self._filled += 1
            self._row_width = self._columns
            self._row_characters += self._characters * self._columns_repeated

    def _end_row(self) -> None:
        self._rows = min(self._rows + self._rows_repeated, _MOST_ROWS)
        if self._row_width:
            self._height = self._rows
            self._width = max(self._width, self._row_width)
            self._expanded += self._row_characters * self._rows_repeated
            workbook_guard.check_expansion(self._path, self._bytes, self._expanded)


def _repeated(attributes: dict[str, str], name: str, most: int) -> int:
    """Return how often a row or cell is repeated, at most as often as calamine repeats it."""
    number = attributes.get(name, "1")
    if number.isdecimal() and len(number) < 20:
        return min(int(number), most)
    return most


def _write_copy(archive: zipfile.ZipFile, out: IO[bytes]) -> None:
    """Write a workbook with what calamine leaves out as plain text."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as rewritten:
        for name in ("mimetype", _MANIFEST):
            if name in archive.namelist():
                rewritten.writestr(name, archive.read(name))
        with (
            archive.open(CONTENT) as content,
            rewritten.open(CONTENT, "w", force_zip64=True) as to,
        ):
            to.writelines(_LEFT_OUT.sub(_as_text, part) for part in _whole_rows(content))
    out.flush()


def _whole_rows(content: IO[bytes]) -> Iterator[bytes]:
    """Yield parts of content.xml that end where a row of a sheet begins."""
    rest = b""
    while piece := content.read(_READ_BYTES):
        before, tag, after = (rest + piece).rpartition(b"<table:table-row")
        yield before
        rest = tag + after
    yield rest


def _as_text(match: re.Match[bytes]) -> bytes:
    token = match[0]
    if b'office:value-type="float"' in token:
        return _NUMBER.sub(b"", token).replace(b'type="float"', b'type="string"')
    if token.startswith(b"<table:table-cell"):
        return token + b' office:value-type="string"'
    return _BREAKS.get(token, b"")
