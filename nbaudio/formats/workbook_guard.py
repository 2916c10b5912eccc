"""Limits on what a workbook makes its reader do, checked before it is read.

The archive is checked as a whole, and each XML part is parsed once as a stream, by the parser that
openpyxl uses, so that a part means here what it means there: in every encoding, with any prefix,
quotes and order of attributes. The limits grow with the size of the file, and are several times
what real workbooks need.
"""

import posixpath
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO
from xml.parsers import expat

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError

#: Limit of a workbook on disk: 2 million cells of text take 100 MB.
MOST_WORKBOOK_BYTES = 256 << 20
# Below, FREE_X is what a workbook of any size may have, and X_A_BYTE what it may have for each byte
# on disk. The larger of the two is the limit.
#: Limit of what a workbook expands to; a larger one may expand to `input_guards.MOST_TIMES` its
#: size.
FREE_BYTES = 8 << 20
#: Limits of XML elements. Cells of real workbooks have one element for every two bytes; a cell may
#: take its reader 20 µs.
FREE_ELEMENTS = 50_000
ELEMENTS_A_BYTE = 4
#: Limits of the cells that a workbook spans; it may also span `CELLS_A_CELL` for each cell that it
#: has. A spreadsheet program shows a cell in the last column of a row as a row of 16,384 cells.
FREE_CELLS = 1 << 18
CELLS_A_BYTE = 16
CELLS_A_CELL = 4
#: Limit of members of the archive: one for each sheet, picture and note.
MOST_MEMBERS = 10_000
#: Limit of an attribute of an element that is no row, cell, formula or text, such as a cell range,
#: a style or a name; Excel's own limits are below 33,000.
MOST_ATTRIBUTE_CHARACTERS = 1 << 16
#: Limit of a number format; Excel's own limit is 255.
MOST_FORMAT_CHARACTERS = 1000
#: Limits of the characters of shared formulas, counted again for each cell: a shared formula is
#: written once, and its reader moves it to each cell, for which it reads the whole formula.
FREE_FORMULA_CHARACTERS = 1 << 20
FORMULA_CHARACTERS_A_BYTE = 100

_LAST_ROW = 1_048_576  # of any sheet
_DIGITS = "0123456789"
_SHEETS = ("/worksheet", "/chartsheet")
# A part in XML begins with "<" in some encoding, after a mark of the order of bytes and blanks.
_BEFORE_XML = b"\xef\xbb\xbf\xfe\xff\x00 \t\r\n"
_READ_BYTES = 1 << 16
_READABLE = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# A damaged member may be one that no reader opens.
_DAMAGE = (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, zlib.error)
_TEXTS = ("v", "t", "is", "si")  # elements of texts, whose attributes are not checked
# Numbers of columns by the letters of a cell, at most three.
_COLUMNS: dict[str, int] = {}


def check_archive(path: Path) -> None:
    """Check the archive of a workbook, .xlsx or .ods; other damage is left to its reader.

    Raises:
        InputError: it is too large, expands to much more than its size, or is packed as no
            spreadsheet program does.
    """
    size = input_guards.check_regular(path).st_size
    if size > MOST_WORKBOOK_BYTES:
        raise InputError(
            f"{path}: {size:,} bytes; a workbook of at most {MOST_WORKBOOK_BYTES >> 20} MB is read"
        )
    try:
        with zipfile.ZipFile(path) as book:
            _check_members(path, size, book.infolist())
    except zipfile.BadZipFile:
        return


def check_parts(path: Path) -> None:
    """Check the XML of an .xlsx workbook whose archive was checked.

    Raises:
        InputError: it has a document type, or would take its reader memory and time out of
            proportion to its size.
        zipfile.BadZipFile: it is no archive.
    """
    checker = _PartChecker(path, path.stat().st_size)
    with zipfile.ZipFile(path) as book:
        for member in book.infolist():
            with suppress(*_DAMAGE), book.open(member) as part:
                checker.check_part(member.filename, part)
    checker.check_span()


def check_span(path: Path, size: int, spanned: int, filled: int) -> None:
    """Raise InputError for a workbook of `size` bytes that spans many more cells than it fills."""
    if spanned > max(FREE_CELLS, CELLS_A_CELL * filled, CELLS_A_BYTE * size):
        raise InputError(
            f"{path}: a sheet spans {spanned:,} cells, all of them hold {filled:,}: "
            "a bomb, not read"
        )


def check_elements(path: Path, size: int, count: int) -> None:
    """Raise InputError for a workbook of `size` bytes that has too many XML elements."""
    if count > most_elements(size):
        raise InputError(
            f"{path}: {size:,} bytes that hold more than {most_elements(size):,} cells, styles and "
            "texts: a bomb, not read"
        )


def most_elements(size: int) -> int:
    """Return how many XML elements a workbook of `size` bytes may have."""
    return max(FREE_ELEMENTS, ELEMENTS_A_BYTE * size)


def check_expansion(path: Path, size: int, expanded: int) -> None:
    """Raise InputError for a workbook of `size` bytes that expands to more than real ones do."""
    input_guards.check_expansion(path, size, expanded, free=FREE_BYTES)


def _check_members(path: Path, size: int, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raise InputError for an archive that real workbooks are not.

    The sizes that the entries state can be relied on, as zipfile reads no more of a member. Members
    may share bytes of the file; each counts, as each is read.
    """
    check_expansion(path, size, sum(member.file_size for member in members))
    if len(members) > MOST_MEMBERS:
        raise InputError(
            f"{path}: {len(members):,} members; a workbook of at most {MOST_MEMBERS:,} is read"
        )
    if len({member.filename for member in members}) < len(members):
        raise InputError(f"{path}: two members have the same name: not read")
    for member in members:
        if member.compress_type not in _READABLE:
            raise InputError(
                f"{path}: {member.filename} with compression {member.compress_type}, not read: "
                "save it in a spreadsheet program"
            )


class _PartChecker:
    """Counts what the parts of one workbook hold, while they are parsed."""

    def __init__(self, path: Path, size: int) -> None:
        """Take a workbook and its size in bytes, which sets the limits."""
        self._path = path
        self._size = size
        self._elements = 0
        self._most_elements = most_elements(size)
        self._kinds: dict[str, str] = {}  # by name with its prefix: the name without it
        self._spanned = 0  # cells of all sheets up to the last one of each row
        self._cells = 0
        self._formula_work = 0  # characters of shared formulas, once for each cell
        self._begin_part("")

    def check_part(self, name: str, part: IO[bytes]) -> None:
        """Check a part of the archive; a part that is not XML is left to its reader."""
        start = part.read(_READ_BYTES)
        first = start.lstrip(_BEFORE_XML)[:1]
        if first not in {b"<", b""}:  # XML may follow where all that was read is blanks
            return
        self._begin_part(name)
        try:
            part.seek(0)
            self._parser.ParseFile(part)
        except (expat.ExpatError, LookupError, UnicodeError):
            return  # its reader says where it is not well formed, or which encoding it has
        finally:
            self._end_row()

    def check_span(self) -> None:
        """Raise InputError where the sheets span many more cells than they hold."""
        check_span(self._path, self._size, self._spanned, self._cells)

    def _begin_part(self, name: str) -> None:
        """Make the parser of a part, and reset what is counted for each part."""
        self._name = name
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start_element
        self._parser.StartDoctypeDeclHandler = self._refuse_document_type
        self._row = 0
        self._last_row = 0  # the last one with a cell
        self._column = 0
        self._width = 0
        self._longest_formula = 0
        self._formula_characters = 0
        self._sheet_targets: set[str] = set()

    def _refuse_document_type(self, *_: object) -> None:
        raise InputError(
            f"{self._path}: {self._name} has a document type, which is not read: "
            "save it in a spreadsheet program"
        )

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        """Count an element, and check its attributes; raise InputError over a limit."""
        self._elements += 1
        if self._elements > self._most_elements:
            check_elements(self._path, self._size, self._elements)
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = name.rpartition(":")[2]
        if kind == "row":
            self._begin_row(attributes)
        elif kind == "c" or "r" in attributes:  # openpyxl takes whatever is in a row for a cell
            self._add_cell(attributes)
        elif kind == "f":
            self._add_formula(attributes)
        elif attributes and kind not in _TEXTS:
            self._check_attributes(kind, attributes)

    def _begin_row(self, attributes: Mapping[str, str]) -> None:
        """Begin the row of a number; one below the last of any sheet counts even without a cell."""
        self._end_row()
        self._row = _row_number(attributes.get("r"), self._row + 1)
        if self._row > _LAST_ROW:
            self._spanned += self._row - self._last_row
            self.check_span()

    def _end_row(self) -> None:
        """Count the cells of a row up to its last, and one for each row above without a cell."""
        if self._width:
            self._spanned += self._width + max(0, self._row - self._last_row - 1)
            self._last_row = max(self._last_row, self._row)
        self._width = 0
        self._column = 0

    def _add_cell(self, attributes: Mapping[str, str]) -> None:
        self._parser.CharacterDataHandler = None  # the formula of the cell before has ended
        self._cells += 1
        self._column = _column_number(attributes.get("r"), self._column + 1)
        self._width = max(self._width, self._column)

    def _add_formula(self, attributes: Mapping[str, str]) -> None:
        """Count the characters of a shared formula in a cell; raise InputError over the limit.

        A cell counts as one of the longest formula of the part so far, whichever it shares.
        """
        if attributes.get("t") != "shared":
            return
        self._formula_work += self._longest_formula
        self._formula_characters = 0
        self._parser.CharacterDataHandler = self._add_formula_text
        most = max(FREE_FORMULA_CHARACTERS, FORMULA_CHARACTERS_A_BYTE * self._size)
        if self._formula_work > most:
            raise InputError(
                f"{self._path}: shared formulas of more than {most:,} characters in all cells: "
                "a bomb, not read"
            )

    def _add_formula_text(self, text: str) -> None:
        self._formula_characters += len(text)
        self._longest_formula = max(self._longest_formula, self._formula_characters)

    def _check_attributes(self, kind: str, attributes: Mapping[str, str]) -> None:
        """Raise InputError for an attribute that is too long, or a range that is too large."""
        if kind == "numFmt":
            self._check_length(kind, attributes.get("formatCode", ""), MOST_FORMAT_CHARACTERS)
        elif kind == "Relationship":
            self._check_relationship(attributes)
        elif kind == "mergeCell":
            self._check_merged(attributes.get("ref", ""))
        for value in attributes.values():
            self._check_length(kind, value, MOST_ATTRIBUTE_CHARACTERS)

    def _check_length(self, kind: str, value: str, most: int) -> None:
        if len(value) > most:
            raise InputError(
                f"{self._path}: {self._name} has a {kind} of {len(value):,} characters; "
                f"at most {most:,} are read"
            )

    def _check_relationship(self, attributes: Mapping[str, str]) -> None:
        """Raise InputError where two sheets are the same part, which would be read twice."""
        if not attributes.get("Type", "").endswith(_SHEETS):
            return
        target = posixpath.normpath(posixpath.join("/xl", attributes.get("Target", "")))
        if target in self._sheet_targets:
            raise InputError(f"{self._path}: two sheets are the same part, {target}: not read")
        self._sheet_targets.add(target)

    def _check_merged(self, reference: str) -> None:
        """Raise InputError for a merged range of many more cells than all sheets so far have."""
        first, _, last = reference.replace("$", "").partition(":")
        first_letters = first.rstrip(_DIGITS)
        last_letters = last.rstrip(_DIGITS)
        first_row = _row_number(first[len(first_letters) :], 0)
        last_row = _row_number(last[len(last_letters) :], 0)
        num_rows = last_row - first_row + 1
        num_columns = _column_number(last, 0) - _column_number(first, 0) + 1
        check_span(self._path, self._size, num_rows * num_columns, self._cells)


def _row_number(text: str | None, following: int) -> int:
    """Return the number of a row as openpyxl reads it; `following` where it has no number."""
    if not text:
        return following
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return following


def _column_number(reference: str | None, following: int) -> int:
    """Return the column of a cell such as B7; `following` where it has no usable reference."""
    if not reference:
        return following
    letters = reference.rstrip(_DIGITS)
    if letters in _COLUMNS:
        return _COLUMNS[letters]
    if not (letters.isascii() and letters.isalpha() and len(letters) <= 3):
        return following
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    _COLUMNS[letters] = number
    return number
