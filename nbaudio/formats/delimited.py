"""Read delimited text: the one reader of .csv, .tsv and their kin, for all commands.

Encoding, separator, header line and quoting are found from the file, unless an option says them.
A line that cannot be read becomes a `Problem`; a quote that nothing closes never takes further
lines with it.
"""

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, TextIO

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.core.report import count as count_words
from nbaudio.formats.transcripts import NotRead, Problem, are_utf8, check_encoding

#: Separators that are looked for, with their names in messages and options.
SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
_OPTION_NAMES = {"\t": "tab"}
#: The usual separator of files by their endings.
USUAL_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
#: Of these separators, cells are quoted unless the option says otherwise; those of other
#: separators are quoted where the file shows it.
_QUOTED_SEPARATORS = ",;"
_BLANK = "\r\n " + "".join(SEPARATORS)
HEADER_LINES = 50  # lines in which the header is looked for, as people write titles above it
_SAMPLE_LINES = 1000
_SAMPLE_CHARACTERS = 1 << 20
_MOST_LINES_OF_CELL = 1000
# The first line in which Excel names the separator.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_ARCHIVE = b"PK\x03\x04"  # first bytes of .xlsx, .ods and .zip files
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?")
_IDENTIFIER = re.compile(r"(?=.*[\d\W_])\S+")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,5}$")

#: Returns whether the cells of a line are the header that the caller needs.
IsHeader = Callable[[Sequence[str]], bool]


@dataclass(frozen=True)
class DelimitedRow:
    """A row of a table: the numbers of its first and last line, from 1, and its cells."""

    line: int
    cells: list[str]
    last_line: int


@dataclass(frozen=True)
class DelimitedTable:
    """A file of delimited text that is ready to be read.

    Attributes:
        path: the file.
        layout: how it is written.
        header: the names of the columns; columns without a name are empty texts.
        header_line: the number of the header's last line, from 1.
        notes: what to report about how the file is read.
        not_read: the lines above the header.
    """

    path: Path
    layout: "Layout"
    header: list[str]
    header_line: int
    notes: list[str]
    not_read: list[NotRead]

    def rows(self, *, ragged: bool = False) -> Iterator[DelimitedRow | Problem]:
        """Yield the rows below the header that are not blank, and what cannot be read.

        Args:
            ragged: yield also rows that have fewer or more cells than the header.
        """
        for record in _records(self.path, self.layout, self.header_line):
            if isinstance(record, Problem):
                yield record
                continue
            cells = self.layout.split(record.text)
            header = cells if ragged else self.header
            if reason := _fault(cells, header, self.layout):
                yield Problem(self.path.name, record.line, reason)
                continue
            yield DelimitedRow(record.line, cells, record.last_line)


@dataclass(frozen=True)
class Layout:
    """How a file of delimited text is written.

    Attributes:
        encoding: name of the codec.
        separator: one character.
        is_quoted: whether quotes around a cell belong to the file format.
        trusts_quotes: whether a quoted cell may hold lines that look like rows.
        shapes: what the cells of each column look like, to recognize a row inside quotes.
        has_options: whether messages name options of `ingest table`.
    """

    encoding: str
    separator: str
    is_quoted: bool
    trusts_quotes: bool = False
    shapes: tuple["_Shape | None", ...] = ()
    has_options: bool = False

    def split(self, text: str) -> list[str]:
        """Split a row into its cells, without the quotes of the file format."""
        if not self.is_quoted or '"' not in text:
            return text.split(self.separator)
        patterns = _patterns(self.separator)
        return [_unquoted(cell[0]) for cell in patterns.cell.finditer(text)]

    def is_row(self, text: str) -> bool:
        """Return whether a line, taken literally, looks like a row of the table."""
        cells = text.split(self.separator)
        if len(cells) != len(self.shapes):
            return False
        pairs = [
            (shape, shape.fits(cell.strip(' "')))
            for shape, cell in zip(self.shapes, cells, strict=True)
            if shape is not None
        ]
        if not pairs:
            return len(cells) > 2
        has_misfit = any(shape.is_strict and not fits for shape, fits in pairs)
        return not has_misfit and any(fits for _, fits in pairs)

    def hint(self, text: str) -> str:
        """Return the part of a message that names an option, where there are options."""
        return text if self.has_options else ""


@dataclass(frozen=True)
class _Shape:
    """What the cells of a column of numbers or of names look like."""

    is_number: bool
    ending: str  # of file names, such as ``.wav``; empty where there is no single one

    @property
    def is_strict(self) -> bool:
        """Whether a cell of another shape is in no row; ids may have any characters."""
        return self.is_number or bool(self.ending)

    def fits(self, cell: str) -> bool:
        """Return whether a cell has this shape."""
        if self.is_number:
            return not cell or _NUMBER.fullmatch(cell) is not None
        return _IDENTIFIER.fullmatch(cell) is not None and cell.endswith(self.ending)


class _Record(NamedTuple):  # as there is one for each line
    """The text of a row, without the end of its last line, and the numbers of its lines."""

    line: int
    text: str
    last_line: int


@dataclass(frozen=True)
class _Patterns:
    """Regular expressions for the lines of a file with quoted cells."""

    cell: re.Pattern[str]  # one cell
    row: re.Pattern[str]  # a whole row
    opening: re.Pattern[str]  # a line with a cell that goes on in the next line
    inside: re.Pattern[str]  # a line that does not end that cell
    closing: re.Pattern[str]  # a line that ends it and the row
    reopening: re.Pattern[str]  # a line that ends it and begins another such cell


@cache
def _patterns(separator: str) -> _Patterns:
    """Return the expressions for the lines of a file with this separator."""
    end = re.escape(separator)
    inner = r'(?:[^"]|"")*+'
    cell = rf'(?:"{inner}"|(?:[^"{end}][^{end}]*+)?)'
    rest = rf"(?:{end}{cell})*+"
    return _Patterns(
        cell=re.compile(rf'(?:(?<={end})|^)(?:"{inner}"|[^{end}]*+)'),
        row=re.compile(rf"{cell}{rest}"),
        opening=re.compile(rf'(?:{cell}{end})*+"{inner}'),
        inside=re.compile(inner),
        closing=re.compile(rf'{inner}"{rest}'),
        reopening=re.compile(rf'{inner}"(?:{end}{cell})*?{end}"{inner}'),
    )


def _unquoted(cell: str) -> str:
    """Return a cell without the quotes of the file format."""
    if len(cell) > 1 and cell[0] == cell[-1] == '"':
        return cell[1:-1].replace('""', '"')
    return cell


def open_delimited(
    path: Path,
    *,
    separator: str | None = None,
    quotes: bool | None = None,
    encoding: str | None = None,
    is_header: IsHeader | None = None,
    ending: str | None = None,
    has_options: bool = False,
    names: Sequence[str] | None = None,
) -> DelimitedTable:
    """Find how a file of delimited text is written, and read its header.

    Args:
        path: the file.
        separator: one character; found from the file unless given.
        quotes: whether quotes around a cell belong to the file format; found unless given.
        encoding: name of the codec; UTF-8, or UTF-16 with a byte order mark, unless given.
        is_header: whether the cells of a line are the header, which helps to find it.
        ending: the ending of its name, where another one counts.
        has_options: whether these are options of the command, which messages name.
        names: the names of the columns, where the file has no header.

    Raises:
        InputError: it is empty, in another encoding, or could have several separators.
        OSError: it cannot be read.
    """
    if separator is not None and len(separator) != 1:
        raise InputError(f"option separator: expected one character, not {separator!r}")
    input_guards.check_regular(path)
    codec = _find_encoding(path, encoding, has_options=has_options)
    if ending is None:
        ending = path.suffix.lower()
    usual = USUAL_SEPARATORS.get(ending, ",")
    sample = _Sample(path, _first_lines(path, codec), is_header)
    marked = sample.marked_separator()
    chosen = separator or marked or sample.choose_separator(usual, has_options=has_options)
    layout = Layout(codec, chosen, is_quoted=quotes is not False, has_options=has_options)
    notes = []
    if marked is None and chosen != usual:
        notes.append(f"{path.name}: cells are separated by {_separator_name(chosen)}")
    if quotes is None and chosen not in _QUOTED_SEPARATORS:
        layout = replace(layout, shapes=sample.shapes(layout))
        quoting = _survey_quotes(path, layout, sample)
        layout = replace(layout, is_quoted=quoting.is_quoted)
        notes += quoting.notes(path, layout)
    layout = replace(layout, trusts_quotes=quotes is True, shapes=sample.shapes(layout))
    header = sample.header(layout)
    table = DelimitedTable(
        path,
        layout,
        sample.names(layout, header),
        header.last_line,
        notes,
        sample.lines_not_read(header),
    )
    if names is not None:
        return _without_header(table, header, names)
    return table


def _without_header(
    table: DelimitedTable, first_row: _Record, names: Sequence[str]
) -> DelimitedTable:
    """Return a table whose columns have given names, and whose first row is no header.

    Raise InputError where there are more names than columns, or fewer.
    """
    cells = table.layout.split(first_row.text)
    if len(names) != len(cells):
        raise InputError(
            f"{table.path}: option header: it names {count_words(len(names), 'columns')}, the "
            f"first row has {len(cells)}: {', '.join(cells)}"
        )
    return replace(table, header=[*names], header_line=first_row.line - 1)


def find_header(rows: Sequence[Sequence[str]], is_header: IsHeader | None = None) -> int:
    """Return the index of the row that names the columns; 0 if no row is filled.

    It is the first row with two or more cells that are not blank, or with one where no row has
    more. If that is not what the caller needs, the first of the next rows that is, is the header.
    """
    first_rows = rows[:HEADER_LINES]
    filled = [sum(bool(cell.strip()) for cell in row) for row in first_rows]
    width = 1
    if max(filled, default=0) > 1:
        width = 2  # a line with one cell is a title
    first = next((index for index, number in enumerate(filled) if number >= width), 0)
    if is_header is None or first >= len(first_rows) or is_header(first_rows[first]):
        return first
    return next((index for index, row in enumerate(first_rows) if is_header(row)), first)


def unnamed_column(number: int) -> str:
    """Return a name for a column without one, by its number from 0: ``column A`` is the first."""
    letters = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"column {letters}"


def _find_encoding(path: Path, encoding: str | None, *, has_options: bool) -> str:
    """Return the codec of a file: that of its byte order mark, UTF-8, or that of the option."""
    check_encoding(encoding)
    with path.open("rb") as file:
        head = file.read(4096)
    refuse_archive(path, head)
    for mark, codec in _MARKS.items():
        if head.startswith(mark):
            return codec
    if encoding is not None:
        with path.open("rb") as file:
            is_utf8 = are_utf8(iter(partial(file.read, _SAMPLE_CHARACTERS), b""), encoding)
        return "utf-8" if is_utf8 else encoding
    zeros = [head[first::2].count(b"\0") for first in (0, 1)]
    if max(zeros) * 4 > len(head) > 20 * min(zeros):
        codec = "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
        option = f", or name it by --option encoding={codec}" if has_options else ""
        raise InputError(
            f"{path}: line 1: not UTF-8 text, but like UTF-16 without a byte order mark: "
            f"save it as UTF-8{option}"
        )
    return "utf-8-sig"


def refuse_archive(path: Path, head: bytes) -> None:
    """Raise InputError where a file begins as a workbook or another archive does."""
    if head.startswith(_ARCHIVE):
        raise InputError(
            f"{path}: a workbook or another archive, not delimited text: save its sheet as .csv"
        )


def _open_text(path: Path, encoding: str) -> TextIO:
    """Open a text; bytes that are not of its encoding become lone surrogates.

    So only their line is a problem. Ends of lines stay as they are.
    """
    with path.open("rb") as file:
        head = file.read(_SAMPLE_CHARACTERS)
    newline = "\n"
    if b"\r" in head and b"\n" not in head:  # lines of old Macs end in returns
        newline = ""
    return path.open(encoding=encoding, errors="surrogateescape", newline=newline)


def _lines(path: Path, encoding: str) -> Iterator[_Record]:
    """Yield the lines of a file with their numbers and ends."""
    with _open_text(path, encoding) as file:
        for number, line in enumerate(input_guards.lines(file, path), 1):
            yield _Record(number, line, number)


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _first_lines(path: Path, encoding: str) -> list[_Record]:
    """Return the first lines with their ends: at most 1,000 lines, or 1 MB."""
    lines: list[_Record] = []
    size = 0
    for line in _lines(path, encoding):
        lines.append(line)
        size += len(line.text)
        if len(lines) == _SAMPLE_LINES or size > _SAMPLE_CHARACTERS:
            break
    return lines


@dataclass(frozen=True)
class _Sample:
    """The first lines of a file, by which separator and header are found.

    Attributes:
        path: the file.
        lines: its lines with their ends, also blank ones.
        is_header: whether the cells of a line are the header that the caller needs.
    """

    path: Path
    lines: Sequence[_Record]
    is_header: IsHeader | None

    def marked_separator(self) -> str | None:
        """Return the separator that a first line such as ``sep=;`` names, if there is one."""
        first = self.lines[0].text.strip() if self.lines else ""
        marked = _SEPARATOR_LINE.fullmatch(first) or _SEPARATOR_LINE.fullmatch(f"{first}\t")
        return marked[1] if marked else None

    def rows(self, layout: Layout) -> list[_Record]:
        """Return the rows; lines that cannot be read are rows as they are."""
        assembler = _Assembler(self.path, replace(layout, trusts_quotes=True))
        by_number = {line.line: line for line in self.lines}
        rows: list[_Record] = []
        first = 1 if self.marked_separator() else 0
        items = [item for line in self.lines[first:] for item in assembler.add(line)]
        for item in (*items, *assembler.end()):
            if isinstance(item, Problem):
                line = by_number[item.line or 1]
                rows.append(line._replace(text=_without_end(line.text)))
            else:
                rows.append(item)
        return rows

    def header(self, layout: Layout) -> _Record:
        """Return the row that names the columns."""
        rows = self.rows(layout)
        if not rows:
            raise InputError(f"{self.path}: no readable rows")
        return rows[self._header_index(rows, layout)]

    def _header_index(self, rows: Sequence[_Record], layout: Layout) -> int:
        cells = [layout.split(row.text) for row in rows[:HEADER_LINES]]
        return find_header(cells, self.is_header)

    def _rows_below(self, layout: Layout) -> list[list[str]]:
        """Return the cells of the rows below the header."""
        rows = self.rows(layout)
        first = self._header_index(rows, layout) + 1
        return [layout.split(row.text) for row in rows[first:]]

    def shapes(self, layout: Layout) -> tuple[_Shape | None, ...]:
        """Return the shape of each column, of rows that have the usual number of cells."""
        rows = self._rows_below(layout)
        width = _usual_width(rows)
        columns = zip(*(row for row in rows if len(row) == width), strict=True)
        return tuple(_shape([cell.strip(' "') for cell in column]) for column in columns)

    def names(self, layout: Layout, header: _Record) -> list[str]:
        """Return the names of the columns.

        R writes the names of rows in a first column without a name, which its header lacks. Where
        each row ends with a separator and the header does not, the empty column is the last one.
        """
        names = layout.split(header.text)
        if reason := _fault(names, names, layout):
            raise InputError(f"{self.path}: line {header.line}: {reason}")
        rows = self._rows_below(layout)
        if len(names) < 2 or {len(row) for row in rows} != {len(names) + 1}:
            return names
        if not any(row[-1] for row in rows):
            return [*names, ""]
        return ["", *names]

    def lines_not_read(self, header: _Record) -> list[NotRead]:
        """Return the lines above the header that are not blank and name no separator."""
        first = 1 if self.marked_separator() else 0
        filled = [line for line in self.lines[first:] if line.text.strip(_BLANK)]
        count = sum(line.line < header.line for line in filled)
        if count:
            return [NotRead(f"lines above the header of {self.path.name}", count)]
        return []

    def choose_separator(self, usual: str, *, has_options: bool) -> str:
        """Return the separator of the file; ask for it where there is an option for it."""
        separator = self._find_separator(usual)
        if has_options and separator != usual:
            self._check_usual(separator, usual)
        return separator

    def _find_separator(self, usual: str) -> str:
        """Return the separator of the file.

        A separator is possible where most lines have the same number of cells, two or more. Of
        several, that counts whose header the caller needs, then whose first line has as many cells
        as the others, then that of most lines, and the usual one of the file's ending.

        Raises:
            InputError: two separators are possible, and nothing tells them apart.
        """
        ranks = {
            separator: rank
            for separator in SEPARATORS
            if (rank := self._rank(separator)) is not None
        }
        if not ranks:
            return usual
        best = max(ranks.values())
        candidates = [separator for separator, rank in ranks.items() if rank == best]
        if usual in candidates:
            return usual
        if len(candidates) > 1:
            names = " or ".join(_separator_name(separator) for separator in candidates)
            raise InputError(
                f"{self.path}: cells may be separated by {names}: name the separator by "
                "--option separator=CHARACTER, or in a first line such as sep=;"
            )
        return candidates[0]

    def _check_usual(self, separator: str, usual: str) -> None:
        """Raise InputError where the usual separator splits the rows, but not the header.

        Numbers with decimal commas do that in a .csv file with semicolons: programs that expect
        commas read other columns than those that expect semicolons.
        """
        layout = Layout("", usual, is_quoted=usual in _QUOTED_SEPARATORS)
        is_row = _patterns(usual).row.fullmatch
        texts = [row.text for row in self.rows(layout)][1:]
        widths = [len(layout.split(text)) if is_row(text) else 0 for text in texts]
        width = max(widths, key=widths.count, default=0)
        if width > 1 and 10 * widths.count(width) >= 9 * len(widths):
            raise InputError(
                f"{self.path}: cells may be separated by {_separator_name(separator)}, as in the "
                f"header, or by {_separator_name(usual)}, as in the rows: say which by --option "
                f"separator={_OPTION_NAMES.get(separator, separator)}, or write a first line "
                f"such as sep={separator.strip()}"
            )

    def _rank(self, separator: str) -> tuple[bool, bool, float] | None:
        """Return how well a separator fits; None if it does not."""
        layout = Layout("", separator, is_quoted=separator in _QUOTED_SEPARATORS)
        rows = [layout.split(row.text) for row in self.rows(layout)]
        if not rows:
            return None
        width = _usual_width(rows)
        header = rows[find_header(rows, self.is_header)]
        is_needed = self.is_header is not None and self.is_header(header)
        if len(header) < 2 or (width < 2 and not is_needed):
            return None
        share = sum(len(row) == width for row in rows) / len(rows)
        return is_needed, len(rows[0]) == width, share


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    """Return how many cells most rows have, the larger number of several; 0 without rows."""
    widths = Counter(map(len, rows))
    return max(widths, key=lambda width: (widths[width], width), default=0)


def _separator_name(separator: str) -> str:
    return SEPARATORS.get(separator, repr(separator))


def _ending(name: str) -> str:
    """Return the ending of a file's name, such as ``.wav``; empty without one."""
    match = _ENDING.search(name)
    return match[0] if match else ""


def _shape(cells: Sequence[str]) -> _Shape | None:
    """Return the shape of a column; None for free text and for columns that are mostly empty."""
    filled = [cell for cell in cells if cell]
    if 2 * len(filled) < len(cells) or not filled:
        return None
    if all(_NUMBER.fullmatch(cell) for cell in filled):
        return _Shape(is_number=True, ending="")
    if not all(_IDENTIFIER.fullmatch(cell) for cell in filled) or len(filled) < len(cells):
        return None
    endings = {_ending(cell) for cell in filled}
    return _Shape(is_number=False, ending=endings.pop() if len(endings) == 1 else "")


def _fault(cells: Sequence[str], header: Sequence[str], layout: Layout) -> str | None:
    """Return why the cells of a row cannot be read; None if they can."""
    if len(cells) != len(header):
        return f"{len(cells)} fields, the header has {len(header)}"
    try:
        "".join(cells).encode()
    except UnicodeEncodeError:
        name = layout.encoding.upper().removesuffix("-SIG")
        option = layout.hint("; --option encoding=cp1252 names another encoding, such as cp1250")
        return f"not {name} text{option}"
    return None


def _records(path: Path, layout: Layout, after: int) -> Iterator[_Record | Problem]:
    """Yield the rows behind a line, each from one line or, with quoted cells, from several."""
    assembler = _Assembler(path, layout)
    for record in _lines(path, layout.encoding):
        if record.line > after:
            yield from assembler.add(record)
    yield from assembler.end()


@dataclass
class _Assembler:
    """Puts lines together to rows, where a quoted cell goes over several lines.

    If no line ends such a cell, or one that looks like a row comes before, the quote was a stray
    one: its line is a problem, and the lines behind it are read by themselves.
    """

    path: Path
    layout: Layout
    _open: list[_Record] = field(default_factory=list)  # lines of a row that is not complete

    def add(self, record: _Record) -> Iterator[_Record | Problem]:
        """Yield the rows that a line completes."""
        if self._open:
            yield from self._continue(record)
        else:
            yield from self._begin(record)

    def end(self) -> Iterator[_Record | Problem]:
        """Yield what is left at the end of the file."""
        while self._open:
            yield from self._give_up("nothing closes the quote of a cell")

    def _begin(self, record: _Record) -> Iterator[_Record | Problem]:
        """Take the first line of a row; yield it if the row is complete, or a stray quote."""
        text = _without_end(record.text)
        if not text.strip(" "):
            return
        patterns = _patterns(self.layout.separator)
        if not self.layout.is_quoted or '"' not in text or patterns.row.fullmatch(text):
            yield record._replace(text=text)
        elif patterns.opening.fullmatch(text):
            self._open.append(record)
        else:
            yield self._stray(record, "a cell goes on behind the quote that closes it")

    def _continue(self, record: _Record) -> Iterator[_Record | Problem]:
        """Take a further line of an open row; yield the row, or give it up as a stray quote."""
        patterns = _patterns(self.layout.separator)
        text = _without_end(record.text)
        if not self.layout.trusts_quotes and self.layout.is_row(text):
            yield from self._give_up(
                f"the quote of a cell is open, and line {record.line} looks like another row",
                record,
            )
        elif patterns.closing.fullmatch(text):
            lines = [line.text for line in self._open]
            yield _Record(self._open[0].line, "".join(lines) + text, record.line)
            self._open.clear()
        elif len(self._open) < _MOST_LINES_OF_CELL and (
            patterns.inside.fullmatch(text) or patterns.reopening.fullmatch(text)
        ):
            self._open.append(record)
        else:
            yield from self._give_up("no line that follows closes the quote of a cell", record)

    def _give_up(self, reason: str, *further: _Record) -> Iterator[_Record | Problem]:
        """Yield the problem of a stray quote, and read the lines behind it by themselves."""
        first, *rest = self._open
        self._open.clear()
        yield self._stray(first, reason)
        for record in (*rest, *further):
            yield from self.add(record)

    def _stray(self, record: _Record, reason: str) -> Problem:
        shown = _without_end(record.text)[:80].encode("utf8", "replace").decode()
        option = self.layout.hint("; --option quotes=no reads quotes as part of the texts")
        reason = f"{reason}: {shown}{option}"
        return Problem(self.path.name, record.line, reason)


@dataclass
class _Quoting:
    """Counts of cells with quotes: those that a CSV writer would quote like this, and others.

    Attributes:
        needed: quoted cells whose quotes are needed: they hold a quote, a separator, the end of a
            line, or nothing.
        with_comma: other quoted cells that hold a comma, which Excel quotes with any separator.
        plain_with_comma: cells that hold a comma and are not quoted.
        literal: cells with quotes that such a writer would write in another way.
        is_header_quoted: whether all names of columns are quoted.
    """

    needed: int = 0
    with_comma: int = 0
    plain_with_comma: int = 0
    literal: int = 0
    is_header_quoted: bool = False

    @property
    def is_quoted(self) -> bool:
        """Whether quotes belong to the file format."""
        needed = self.needed + int(self.is_header_quoted)
        if not self.plain_with_comma:
            needed += self.with_comma
        return needed > self.literal

    def notes(self, path: Path, layout: Layout) -> list[str]:
        """Return a line for the report where that was not clear."""
        if self.is_quoted:
            option = layout.hint(": --option quotes=no keeps them")
            return [
                f"{path.name}: quotes around cells are those of the file format and are not part "
                f"of the texts, as programs write tables{option}"
            ]
        if self.needed:
            cells = count_words(self.needed, "cells")
            option = layout.hint(": --option quotes=yes reads the quotes as those of the format")
            return [
                f"{path.name}: quotes are part of the texts, as most cells with quotes are not "
                f"quoted as programs quote them, but {cells} may be{option}"
            ]
        return []

    def add(self, row: str, layout: Layout) -> None:
        """Count the cells of a row."""
        patterns = _patterns(layout.separator)
        for cell in patterns.cell.finditer(row):
            text = cell[0]
            inner = text[1:-1]
            if '"' not in text:
                self.plain_with_comma += "," in text
            elif len(text) < 2 or not text.startswith('"') or not text.endswith('"'):
                self.literal += 1
            elif '"' in inner or layout.separator in inner or "\n" in inner or not inner:
                self.needed += 1
            elif "," in inner:
                self.with_comma += 1


def _survey_quotes(path: Path, layout: Layout, sample: _Sample) -> _Quoting:
    """Count over the whole file how cells are quoted."""
    quoting = _Quoting()
    header = sample.header(layout).text.split(layout.separator)
    quoting.is_header_quoted = all(len(name) > 1 and name[0] == name[-1] == '"' for name in header)
    for record in _records(path, layout, 0):
        if isinstance(record, Problem):
            quoting.literal += 1
        elif '"' in record.text or "," in record.text:
            quoting.add(record.text, layout)
    return quoting
