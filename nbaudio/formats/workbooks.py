"""Read workbooks, for all commands: .xlsx with openpyxl, .ods with python-calamine.

Both give the same texts for the same cells. calamine reads .xlsx ten times faster (2 s instead of
26 s for 450,000 rows of 6 cells, in as much memory), but errors in cells become empty, integers
above 2^53 are rounded, and it gives neither the text of a formula nor the time of the last save.
openpyxl has all of these and reads row by row.
"""

import datetime as dt
import fnmatch
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from nbaudio.core.errors import InputError, one_line
from nbaudio.formats import workbook_guard
from nbaudio.formats.opendocument import (
    CONTENT,
    MergedCells,
    SheetMarks,
    open_marks,
    open_opendocument,
    time_of_last_save,
)

XLSX, ODS = ENDINGS = (".xlsx", ".ods")
# What the programs of these formats can save in another format.
_OTHER_FORMATS = frozenset(
    (
        *(".xls", ".xlsb", ".xlsm", ".xlt", ".xltx", ".xltm", ".numbers", ".fods", ".ots", ".sxc"),
        *(".gsheet", ".et", ".wk1", ".wks", ".123", ".dif", ".slk"),
    )
)
_NO_VALUE = re.compile(rb"(?:</f>|<f\b[^<>]*/>)(?:<v\s*/>|<v>\s*</v>)?</c>")
# A row that is hidden, also by a filter, and a range of merged cells, in the XML of a sheet.
_HIDDEN_ROW = re.compile(
    rb"""<(?:\w+:)?row\b(?=[^<>]*\shidden=["'](?:1|true)["'])[^<>]*\sr=["'](\d{1,7})["']"""
)
_MERGED = re.compile(
    rb"""<(?:\w+:)?mergeCell\s+ref=["']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})["']"""
)
# Notes of .xlsx, also those beside comments in threads, and of .ods.
_NOTES = "xl/comments*"
_NOTE = re.compile(rb"<(?:\w+:)?(?:comment|annotation)\s")
_APPLICATION = "docProps/app.xml"
_READ_BYTES = 1 << 20
# A UTF-16 code unit in a text, as Excel escapes what XML cannot hold; _x005F_ is the underscore
# of a text that only looks so.
_ESCAPES = re.compile(r"(?:_x[0-9A-Fa-f]{4}_)+")
_ZEROS = re.compile(r"0{2,30}")  # a number format that shows leading zeros
_ISO_DURATION = re.compile(r"(-?)PT(\d+)H(\d+)M(\d+(?:\.\d+)?)S")


class ConvertedText(str):
    """The text of a cell that holds a number, a date, a time or a truth value.

    A spreadsheet program may have made it of what was typed: of 3/5 the 3rd of May, of 50 % a half.
    """

    __slots__ = ()


@dataclass(frozen=True)
class Worksheet:
    """A sheet of an open workbook."""

    is_hidden: bool
    _values: Callable[[], Iterable[Sequence[Any]]]
    _marks: Callable[[], SheetMarks]
    _path: Path

    def marks(self) -> SheetMarks:
        """Return which rows are hidden and which cells are merged.

        Raises:
            InputError: the workbook is damaged.
        """
        with _reading(self._path):
            return self._marks()

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows from the first one on, each with the texts of its cells.

        Numbers are the shortest decimals of what the workbook stores, whole ones without a point.
        Dates are as in ISO 8601, times of day and durations as in ``00:01:30.5``, and true and
        false in capitals. Whole numbers of an .xlsx file have the leading zeros that the format
        of their cell shows. Excel's escapes, such as ``_x000D_``, are resolved. Empty cells are
        empty texts; the last ones of a row, and the last empty rows, may be missing.

        Raises:
            InputError: the workbook is damaged, or its rows span many more cells than they fill.
        """
        yield from self._rows(cell_text)

    def typed_rows(self) -> Iterator[list[str]]:
        """Yield the rows as `rows` does, with a `ConvertedText` for each cell that holds no text.

        Raises:
            InputError: as in `rows`.
        """
        yield from self._rows(typed_text)

    def _rows(self, text_of: Callable[[Any], str]) -> Iterator[list[str]]:
        size = self._path.stat().st_size
        spanned = 0
        filled = 0
        empty_rows = 0
        with _reading(self._path):
            for row in self._values():
                if not row:
                    empty_rows += 1
                    continue
                texts = [text_of(value) for value in row]
                spanned += empty_rows + len(texts)
                filled += len(texts) - texts.count("")
                workbook_guard.check_span(self._path, size, spanned, filled)
                yield from ([] for _ in range(empty_rows))
                empty_rows = 0
                yield texts


@dataclass(frozen=True)
class Workbook:
    """An open workbook."""

    sheets: Mapping[str, Worksheet]  # by name, in order
    saved: dt.datetime | None  # when it was last saved, as noted in it, in UTC


@contextmanager
def open_workbook(
    path: Path, *, ending: str | None = None, formulas: bool = False
) -> Iterator[Workbook]:
    """Open a workbook, whose sheets can be read as long as it is open.

    Args:
        path: the workbook.
        ending: one of `ENDINGS`, where it is not that of the path.
        formulas: give formulas instead of their values, in formats that let us read them (.xlsx).

    Raises:
        InputError: it is no workbook, is damaged, has a password, or is larger than real data.
    """
    workbook_guard.check_archive(path)
    if ending is None:
        ending = path.suffix.lower()
    opened = _open_ods(path) if ending == ODS else _open_xlsx(path, formulas=formulas)
    with ExitStack() as stack:
        with _reading(path):
            book = stack.enter_context(opened)
        yield book


def other_format(path: Path) -> str | None:
    """Return what to do with a workbook in a format that is not read; None for other files."""
    if path.suffix.lower() in _OTHER_FORMATS:
        return f"{path.suffix.lower()} files are not read: save it as .xlsx or .ods"
    return None


def count_formulas_without_value(path: Path) -> int:
    """Return how many formulas of an .xlsx workbook have no value, which are read as empty cells.

    Spreadsheet programs store the values, others do not.
    """
    count = 0
    with _reading(path), zipfile.ZipFile(path) as archive:
        for name in fnmatch.filter(archive.namelist(), "xl/worksheets/*.xml"):
            with archive.open(name) as sheet:
                count += sum(len(_NO_VALUE.findall(part)) for part in _whole_cells(sheet))
    return count


def count_notes(path: Path) -> int:
    """Return how many notes and comments are attached to the cells of a workbook."""
    with _reading(path), zipfile.ZipFile(path) as archive:
        names = [CONTENT, *fnmatch.filter(archive.namelist(), _NOTES)]
        return sum(_count_notes(archive, name) for name in {*names} & {*archive.namelist()})


def _count_notes(archive: zipfile.ZipFile, name: str) -> int:
    """Return how many notes a member of a workbook has."""
    with archive.open(name) as part:
        return sum(len(_NOTE.findall(tags)) for tags in _whole_tags(part))


def _whole_tags(part: IO[bytes]) -> Iterator[bytes]:
    """Yield pieces of XML that end where a tag does."""
    rest = b""
    while piece := part.read(_READ_BYTES):
        before, end, rest = (rest + piece).rpartition(b">")
        yield before + end
    yield rest


def _whole_cells(sheet: IO[bytes]) -> Iterator[bytes]:
    """Yield parts of a sheet's XML that end where a cell does."""
    rest = b""
    while piece := sheet.read(_READ_BYTES):
        before, end, rest = (rest + piece).rpartition(b"</c>")
        yield before + end
    yield rest


def cell_text(value: Any) -> str:
    """Return the text of a cell; see `Worksheet.rows`.

    Examples:
        >>> [cell_text(value) for value in (None, "007", 3207.7, 12.0, True)]
        ['', '007', '3207.7', '12', 'TRUE']
        >>> cell_text(dt.datetime(2024, 5, 1)), cell_text(dt.time(0, 1, 30, 500_000))
        ('2024-05-01', '00:01:30.5')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int | float):
        return _number_text(value)
    if isinstance(value, dt.date | dt.time | dt.timedelta):
        return _time_text(value)
    return str(getattr(value, "text", value))  # openpyxl has objects for formulas of several cells


def typed_text(value: Any) -> str:
    """Return the text of a cell, as a `ConvertedText` where the cell holds no text."""
    if isinstance(value, int | float | dt.date | dt.time | dt.timedelta):
        return ConvertedText(cell_text(value))
    return cell_text(value)


def _number_text(number: float) -> str:
    if isinstance(number, bool):
        return str(number).upper()
    if isinstance(number, float) and number.is_integer():
        return str(int(number))
    return repr(number)  # the shortest decimal of this number


def _time_text(time: dt.date | dt.time | dt.timedelta) -> str:
    if isinstance(time, dt.datetime) and time.time() == dt.time():
        return time.date().isoformat()
    if isinstance(time, dt.time):
        hours = dt.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second)
        return _clock_text(hours + dt.timedelta(microseconds=time.microsecond))
    if isinstance(time, dt.timedelta):
        return _clock_text(time)
    return time.isoformat()


def _clock_text(duration: dt.timedelta) -> str:
    """Return hours, minutes and seconds, such as ``00:01:30.5``; hours may exceed 24."""
    seconds, microseconds = divmod(abs(duration) // dt.timedelta(microseconds=1), 1_000_000)
    sign = "-" if duration < dt.timedelta() else ""
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{microseconds:06}".rstrip("0").rstrip(".")
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{fraction}"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise InputError for whatever a damaged workbook makes its reader raise."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        # zipfile, zlib, the XML parser and the readers raise anything for a broken archive.
        raise InputError(
            f"{path}: cannot be read as a workbook ({type(error).__name__}: {one_line(error)})"
        ) from error


@contextmanager
def _open_xlsx(path: Path, *, formulas: bool) -> Iterator[Workbook]:
    """Open an .xlsx workbook; see `open_workbook`."""
    from nbaudio.formats.xlsx_reader import load_sheets

    workbook_guard.check_parts(path)
    with path.open("rb") as file, closing(load_sheets(file, formulas=formulas)) as book:
        sheets = {}
        has_escapes = not _is_of_libreoffice(path)
        for sheet in book.worksheets:
            # Some programs write a range that is too small.
            sheet.reset_dimensions()
            values = partial(_xlsx_rows, sheet, has_escapes=has_escapes)
            marks = partial(_xlsx_marks, path, sheet._worksheet_path.lstrip("/"))
            sheets[sheet.title] = Worksheet(sheet.sheet_state != "visible", values, marks, path)
        last_save = book.properties.modified
        yield Workbook(sheets, last_save and last_save.replace(tzinfo=dt.UTC))


def _xlsx_marks(path: Path, member: str) -> SheetMarks:
    """Return the hidden rows and merged cells of a sheet, from its XML."""
    hidden: list[range] = []
    merged: list[MergedCells] = []
    with zipfile.ZipFile(path) as archive, archive.open(member) as sheet:
        for part in _whole_cells(sheet):
            numbers = (int(row[1]) for row in _HIDDEN_ROW.finditer(part))
            hidden += [range(number, number + 1) for number in numbers]
            merged += [_merged_cells(*match.groups()) for match in _MERGED.finditer(part)]
    return SheetMarks(hidden, merged)


def _merged_cells(
    first_column: bytes, first_row: bytes, last_column: bytes, last_row: bytes
) -> MergedCells:
    """Return the cells of a merged range such as A2:B4."""
    columns = range(_column_number(first_column) - 1, _column_number(last_column))
    return MergedCells(range(int(first_row), int(last_row) + 1), columns)


def _column_number(letters: bytes) -> int:
    """Return the number of a column: A is 1, Z is 26, AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def _is_of_libreoffice(path: Path) -> bool:
    """Return whether LibreOffice saved a workbook: it stores texts without Excel's escapes."""
    with zipfile.ZipFile(path) as archive:
        if _APPLICATION not in archive.namelist():
            return False
        with archive.open(_APPLICATION) as properties:
            return b"<Application>LibreOffice" in properties.read(_READ_BYTES)


def _xlsx_rows(sheet: Any, *, has_escapes: bool) -> Iterator[list[Any]]:
    """Yield the values of a sheet as its cells show them: texts without escapes, leading zeros."""
    for row in sheet.iter_rows():
        if not row:
            yield []
            continue
        values = [_xlsx_value(cell) for cell in row]
        yield [
            unescape_excel(value) if has_escapes and isinstance(value, str) else value
            for value in values
        ]


def _xlsx_value(cell: Any) -> Any:
    """Return the value of a cell; a text for a number that it shows with leading zeros."""
    value = cell.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    zeros = _ZEROS.fullmatch(cell.number_format or "")
    if zeros and float(value).is_integer() and value >= 0:
        return str(int(value)).zfill(len(zeros[0]))
    return value


def unescape_excel(text: str) -> str:
    r"""Resolve Excel's escapes of characters; a line break of Windows becomes a line feed.

    Escapes that are no character, such as half a surrogate pair, stay as they are.

    Examples:
        >>> unescape_excel("one_x000D_\ntwo"), unescape_excel("_x005F_x0041_")
        ('one\ntwo', '_x0041_')
    """
    if "_x" not in text:
        return text
    plain = _ESCAPES.sub(_resolve_escapes, text)
    if plain == text:
        return text
    return plain.replace("\r\n", "\n")


def _resolve_escapes(escapes: re.Match[str]) -> str:
    """Return the characters of some escapes in a row; the escapes where they are none."""
    units = b"".join(
        int(code, 16).to_bytes(2, "little")
        for code in re.findall("_x([0-9A-Fa-f]{4})_", escapes[0])
    )
    try:
        return units.decode("utf-16-le")
    except UnicodeDecodeError:
        return escapes[0]


@contextmanager
def _open_ods(path: Path) -> Iterator[Workbook]:
    """Open an .ods workbook; see `open_workbook`."""
    from python_calamine import SheetVisibleEnum

    with open_opendocument(path) as book:
        sheets = {
            sheet.name: Worksheet(
                sheet.visible != SheetVisibleEnum.Visible,
                partial(_ods_rows, book, sheet.name),
                partial(open_marks, path, sheet.name),
                path,
            )
            for sheet in book.sheets_metadata
        }
        yield Workbook(sheets, time_of_last_save(path))


def _ods_rows(book: Any, name: str) -> Iterator[list[Any]]:
    """Yield the values of a sheet; calamine leaves out columns that are empty before the others."""
    sheet = book.get_sheet_by_name(name)
    _, first_column = sheet.start or (0, 0)
    before = [""] * first_column
    for row in sheet.iter_rows():
        yield before + [_duration(value) for value in row]


def _duration(value: Any) -> Any:
    """Return a duration of a day or more, which calamine gives as a text, as what it is."""
    if not isinstance(value, str):
        return value
    match = _ISO_DURATION.fullmatch(value)
    if not match:
        return value
    sign = -1 if match[1] else 1
    return sign * dt.timedelta(hours=int(match[2]), minutes=int(match[3]), seconds=float(match[4]))
