"""Read tables in any file format: CSV, TSV, JSON lines, Parquet, or sheets of workbooks.

Options say which column is which.
"""

import csv
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl
import polars.selectors as cs
import pyarrow as pa

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.rows import Rows, with_starts
from nbaudio.core.tables import RECORDINGS, SEGMENTS
from nbaudio.core.times import add_seconds, seconds_of_milliseconds
from nbaudio.formats import workbooks
from nbaudio.formats.base import (
    BATCH_ROWS,
    PROBLEMS,
    TRANSCRIPTS,
    Problem,
    Transcripts,
    source_column,
    with_audio_root,
)
from nbaudio.formats.source_columns import batches, choose, schema_of
from nbaudio.formats.source_files import Layout, SourceFiles, list_words
from nbaudio.formats.table_columns import TableColumns, choose_columns
from nbaudio.formats.workbooks import Workbook, count_formulas_without_value, open_workbook

_OURS = frozenset(
    (
        *TRANSCRIPTS,
        *SEGMENTS,
        *RECORDINGS,
        "source_split",
        "source_channel",
        "source_duration",
        "duration_s",
    )
)
# Columns that a table is recognized by, and those that are told to the person.
_DETECTED = ("name", "start", "end", "duration", "text", "asr_text", "speaker_id", "split")
_BY_NAME = ("name", "text", "speaker_id")  # those that `read` does not choose by their values too
_NOT_COLUMNS = ("source", "separator", "quotes", "sheet")  # parameters of `read`
_YES_NO = {"yes": True, "no": False, None: None}
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
ENDINGS = (*_SEPARATORS, *_JSON_LINES, ".parquet", *workbooks.ENDINGS)
# What spreadsheets show in place of a value that they cannot compute.
_ERROR = re.compile(r"#(?:N/A|REF!|VALUE!|NAME\?|DIV/0!|NUM!|NULL!)|Err:\d{3}")

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

# A row by column with its line, or what is wrong with a line.
_Row = tuple[int, Mapping[str, str | None]] | Problem


def detect(files: SourceFiles) -> list[Layout]:
    """Return the tables among files that have columns with names of recordings and texts."""
    layouts: list[Layout] = []
    for name in files.ending(*ENDINGS):
        header, separator = _header(files, name)
        columns, _ = choose(files.path(name), header, dict.fromkeys(_DETECTED))
        if {"name", "text"} <= columns.keys():
            options = {key: columns[key] for key in _BY_NAME if columns.get(key, key) != key}
            layouts.append(
                Layout(
                    "table",
                    files.path(name),
                    f"{name} has the columns {list_words(columns.values())}",
                    frozenset({name}),
                    options=options | ({"separator": separator} if separator else {}),
                )
            )
    return layouts


def _header(files: SourceFiles, name: str) -> tuple[list[str], str | None]:
    """Return the columns of a table, and the separator if it is not the usual one."""
    ending = Path(name).suffix.lower()
    if ending in _JSON_LINES:
        return [*files.first_object(name)], None
    if ending in _SEPARATORS:
        line = files.first_line(name)
        usual = _SEPARATORS[ending]
        separator = max((usual, ";", "\t", ","), key=line.count)
        header = next(csv.reader([line], delimiter=separator), [])
        return header, None if separator == usual else separator
    try:
        if ending == ".parquet":
            return list(schema_of(files.path(name)).names), None
        return _sheet_header(files.path(name)), None
    except (OSError, ValueError, InputError, pa.ArrowException):
        return [], None


class Cells(NamedTuple):
    """A table as it was read.

    `lines` has the line of each row (from 1; the row where a format has no lines), `problems` what
    could not be read, and `notes` what is not read, such as further sheets of a workbook.
    """

    rows: Rows
    lines: Sequence[int]
    problems: list[Problem]
    notes: Sequence[str] = ()

    @property
    def frame(self) -> pl.DataFrame:
        """All rows, in memory."""
        return self.rows.frame()


def read(
    source: Path,
    *,
    name: str | None = None,
    start: str | None = None,
    end: str | None = None,
    duration: str | None = None,
    text: str | None = None,
    asr_text: str | None = None,
    speaker_id: str | None = None,
    segment_id: str | None = None,
    split: str | None = None,
    source_channel: str | None = None,
    separator: str | None = None,
    quotes: str | None = None,
    sheet: str | None = None,
) -> Transcripts:
    """Read a table of segments, or of whole recordings.

    Options up to `source_channel` are names of columns, or ``none``.
    """
    chosen: dict[str, str | None] = {
        name: column for name, column in locals().items() if name not in _NOT_COLUMNS
    }
    if quotes not in _YES_NO:
        raise InputError(f"option quotes={quotes!r}: must be yes or no")
    cells = read_cells(
        source,
        separator="\t" if separator == "tab" else separator,
        quotes=_YES_NO[quotes],
        sheet=sheet,
    )
    table_columns = choose_columns(source, cells.rows, chosen)
    nameless: list[Problem] = []
    rows = Rows.collect(_named_rows(source, cells, table_columns, nameless))
    if not any(len(batch) for batch in rows.batches(["name"])):
        raise InputError(f"{source}: the column {table_columns.columns['name']!r} is empty")
    problems = pl.DataFrame(sorted([*cells.problems, *nameless]), schema=PROBLEMS, orient="row")
    rows = replace(rows, schema=pl.Schema({**TRANSCRIPTS, **rows.schema}))
    notes = [*cells.notes, *table_columns.notes]
    return with_audio_root(
        Transcripts(rows, problems, columns=table_columns.columns, notes=notes), source.parent
    )


def _named_rows(
    source: Path, cells: Cells, table_columns: TableColumns, nameless: list[Problem]
) -> Iterator[pl.DataFrame]:
    """Yield the rows that name a recording, as those of `Transcripts`; add others to `nameless`."""
    name_column = table_columns.columns["name"]
    transcripts = partial(_transcripts, source, table_columns)
    for row, batch in with_starts(map(transcripts, cells.rows.batches())):
        has_name = batch["name"].is_not_null()
        nameless.extend(
            Problem(source.name, cells.lines[row + place], f"{name_column} is empty")
            for place in (~has_name).arg_true()
        )
        yield batch.filter(has_name)


def _transcripts(source: Path, table_columns: TableColumns, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table as those of `Transcripts`, with its other columns behind them."""
    # An empty hypothesis is one of no words, a null one is none.
    texts = {
        key: cell_texts(source, frame[column], empty=key in ("text", "asr_text"))
        for key, column in table_columns.columns.items()
    }
    for key in table_columns.in_milliseconds():
        texts[key] = texts[key].map_elements(seconds_of_milliseconds, return_dtype=pl.String)
    used = {*table_columns.columns.values()}
    others = [
        frame[name].alias(source_column(name, _OURS, frame.schema))
        for name in frame.columns
        if name not in used
    ]
    return pl.DataFrame([*_timed(texts), *others]).with_columns(
        cs.by_name("text", "asr_text", require_all=False).str.normalize("NFC")
    )


def cell_texts(source: Path, column: pl.Series, *, empty: bool) -> pl.Series:
    """Convert a column to text; blank values become null unless `empty`."""
    kind = column.dtype
    if kind.is_integer() or kind in (
        pl.String,
        pl.Categorical,
        pl.Enum,
        pl.Boolean,
        pl.Decimal,
        pl.Null,
    ):
        texts = column.cast(pl.String)
    elif kind.is_float():
        # numpy writes the shortest decimal of either width.
        written = pl.Series(column.name, column.to_numpy().astype(str).tolist(), dtype=pl.String)
        texts = pl.select(
            pl.when(column.is_not_null()).then(written).alias(column.name)
        ).to_series()
    else:
        raise InputError(f"{source}: column {column.name!r} is {kind}; expected texts or numbers")
    if empty:
        return texts
    tidy = texts.str.strip_chars() if column.dtype == pl.String else texts
    return pl.select(pl.when(tidy != "").then(texts).alias(column.name)).to_series()


def _timed(given: dict[str, pl.Series]) -> list[pl.Series]:
    """Rename columns as in `Transcripts`.

    A duration gives the end of a segment, or becomes the duration of whole recordings if there are
    no starts.
    """
    names = {"start": "source_start", "end": "source_end", "split": "source_split"}
    given |= {
        key: given[key].str.strip_chars() for key in ("start", "end", "duration") if key in given
    }
    ours = {names.get(key, key): values for key, values in given.items() if key != "duration"}
    duration = given.get("duration")
    if duration is not None and "start" not in given:
        ours["source_duration"] = duration
    elif duration is not None and "end" not in given:
        pairs = zip(given["start"], duration, strict=True)
        ends = [
            None
            if start is None and lasting is None
            else add_seconds(start or "0", lasting or "NaN")
            for start, lasting in pairs
        ]
        ours["source_end"] = pl.Series(ends, dtype=pl.String)
    return [values.alias(key) for key, values in ours.items()]


def read_cells(
    source: Path,
    *,
    ending: str | None = None,
    separator: str | None = None,
    quotes: bool | None = None,
    sheet: str | None = None,
) -> Cells:
    """Read a table as it is written, by its `ending` (the file's own unless given).

    Raise InputError where there are no rows.
    """
    ending = source.suffix.lower() if ending is None else ending
    try:
        input_guards.check_regular(source)
        if ending in _SEPARATORS:
            quoted = ending == ".csv" if quotes is None else quotes
            cells = _joined(_separated(source, separator or _SEPARATORS[ending], quotes=quoted))
        elif ending in _JSON_LINES:
            cells = _joined(_json_lines(source))
        elif ending == ".parquet":
            rows = Rows.collect(_parquet(source))
            cells = Cells(rows, range(1, 1 + rows.height), [])
        elif ending in workbooks.ENDINGS:
            cells = _sheet(source, ending, sheet)
        else:
            expected = f"expected a file that ends in one of {', '.join(ENDINGS)}"
            raise InputError(f"{source}: {workbooks.other_format(source) or expected}")
    except (OSError, ValueError, csv.Error, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise InputError(f"{source}: cannot be read as a table ({one_line(error)})") from error
    if not cells.lines:
        where = "".join(
            f"; line {problem.line}: {problem.reason}" for problem in cells.problems[:1]
        )
        raise InputError(f"{source}: no readable rows{where}")
    return cells


def _joined(rows: Iterator[_Row]) -> Cells:
    """Collect rows as columns, with every column that any row has."""
    lines = array("I")
    problems = list[Problem]()

    def frames() -> Iterator[pl.DataFrame]:
        while batch := list(islice(rows, BATCH_ROWS)):
            problems.extend(row for row in batch if isinstance(row, Problem))
            read = [row for row in batch if not isinstance(row, Problem)]
            lines.extend(line for line, _ in read)
            names = dict.fromkeys(name for _, values in read for name in values)
            yield pl.DataFrame(
                [values for _, values in read], schema=dict.fromkeys(names, pl.String)
            )

    return Cells(Rows.collect(frames()), lines, problems)


def _separated(source: Path, separator: str, *, quotes: bool) -> Iterator[_Row]:
    if len(separator) != 1:
        raise InputError(f"option separator: expected one character, not {separator!r}")
    # Bytes that are not UTF-8 become lone surrogates, so that only their line is a problem.
    with source.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        text = input_guards.lines(file, source)
        rows = csv.reader(
            text,
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
            strict=True,
        )
        header = next(rows, [])
        if wrong := _field_error(header, len(header)):
            raise InputError(f"{source}: line 1: {wrong}")
        if twice := sorted({name for name in header if header.count(name) > 1}):
            raise InputError(f"{source}: several columns are called {twice[0]!r}")
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield Problem(source.name, rows.line_num, str(error))
                continue
            if not row:
                continue
            if wrong := _field_error(row, len(header)):
                yield Problem(source.name, rows.line_num, wrong)
            else:
                yield rows.line_num, dict(zip(header, row, strict=True))


def _field_error(row: list[str], expected: int) -> str | None:
    if len(row) != expected:
        return f"{len(row)} fields, the header has {expected}"
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return "not UTF-8 text"
    return None


def _json_lines(source: Path) -> Iterator[_Row]:
    with source.open("rb") as file:
        for number, line in enumerate(input_guards.lines(file, source), 1):
            if not line.strip():
                continue
            try:
                yield (
                    number,
                    {
                        name: _json_text(bytes(value))
                        for name, value in _decode(line.decode("utf-8-sig")).items()
                    },
                )
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                yield Problem(source.name, number, str(error))


def _json_text(raw: bytes) -> str | None:
    """Decode a string, keep any other value as it is written; None for null."""
    if raw.startswith(b'"'):
        return msgspec.json.decode(raw, type=str)
    return None if raw == b"null" else raw.decode()


def _parquet(source: Path) -> Iterator[pl.DataFrame]:
    """Read and validate a Parquet file with pyarrow.

    Polars panics at some broken files and at text that is not UTF-8.
    """
    is_empty = True
    for batch in batches(source, None, rows=BATCH_ROWS):
        is_empty = False
        batch.validate(full=True)
        yield pl.DataFrame(pa.Table.from_batches([batch]))
    if is_empty:
        yield pl.DataFrame(schema_of(source).empty_table())


def _sheet(source: Path, ending: str, chosen: str | None) -> Cells:
    """Read a sheet of a workbook; the first row that is not blank has the names of the columns."""
    errors = Counter[str]()
    with open_workbook(source, ending=ending) as book:
        name = _chosen_sheet(book, chosen)
        cells = _joined(_sheet_rows(source, book.sheets[name].rows(), errors))
        notes = [*_notes_on_errors(source, errors), *_notes_on_other_sheets(source, book, name)]
    if ending == workbooks.XLSX and (count := count_formulas_without_value(source)):
        notes.append(
            f"{source.name}: formulas without a stored value, which are read as empty cells: "
            f"{count:,}; open it in a spreadsheet program and save it"
        )
    return cells._replace(notes=notes)


def _sheet_header(source: Path) -> list[str]:
    """Return the names of the columns of a workbook's first sheet."""
    with open_workbook(source) as book:
        _, names = _header_of(book.sheets[_chosen_sheet(book, None)].rows())
    return names


def _chosen_sheet(book: Workbook, chosen: str | None) -> str:
    """Return the name of the sheet to read: the first one that is not hidden, unless chosen."""
    if chosen is not None and chosen not in book.sheets:
        raise ValueError(f"there is no sheet {chosen!r}; it has {', '.join(book.sheets)}")
    visible = [name for name, sheet in book.sheets.items() if not sheet.is_hidden]
    names = visible or list(book.sheets)
    if not names:
        raise ValueError("it has no sheet")
    return names[0] if chosen is None else chosen


def _header_of(rows: Iterator[list[str]]) -> tuple[int, list[str]]:
    """Return the number of the first row that is not blank, from 1, and its cells."""
    for number, row in enumerate(rows, start=1):
        if "".join(row).strip():
            return number, row
    return 1, []


def _sheet_rows(source: Path, rows: Iterator[list[str]], errors: Counter[str]) -> Iterator[_Row]:
    """Yield the rows of a sheet below its header that are not blank, and count errors in cells."""
    first, names = _header_of(rows)
    if twice := [name for name, count in Counter(filter(None, names)).items() if count > 1]:
        raise InputError(f"{source}: several columns are called {twice[0]!r}")
    for number, row in enumerate(rows, start=first + 1):
        if not "".join(row).strip():
            continue
        errors.update(cell for cell in row if _ERROR.fullmatch(cell))
        yield (
            number,
            {
                name or _unnamed(column): cell or None
                for column, (name, cell) in enumerate(zip_longest(names, row, fillvalue=""))
                if name or cell
            },
        )


def _unnamed(column: int) -> str:
    """Return a name for a column without one, by its number from 0: ``column A`` is the first."""
    letters = ""
    number = column + 1
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"column {letters}"


def _notes_on_errors(source: Path, errors: Counter[str]) -> Iterator[str]:
    if errors:
        first = next(iter(errors))
        yield (
            f"{source.name}: cells that hold an error, such as {first}, are read as that text: "
            f"{errors.total():,}"
        )


def _notes_on_other_sheets(source: Path, book: Workbook, name: str) -> Iterator[str]:
    """Yield a line that names the sheets with content that are not read, with their rows."""
    counts = {
        other: sum(1 for row in sheet.rows() if "".join(row).strip())
        for other, sheet in book.sheets.items()
        if other != name
    }
    others = [
        f"{other!r} ({count:,} row{'s' if count > 1 else ''})"
        for other, count in counts.items()
        if count
    ]
    if others:
        yield (
            f"{source.name}: only its sheet {name!r} is read, not {list_words(others)}; "
            "ingest table reads another one by --option sheet=NAME"
        )
