"""Read tables in any file format: CSV, TSV, JSON lines, Parquet, or sheets of workbooks.

Options say which column is which.
"""

import re
import shlex
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl
import polars.selectors as cs
import pyarrow as pa

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.times import add_seconds, seconds_of_milliseconds
from nbaudio.formats import workbooks
from nbaudio.formats.decimal_comma import with_decimal_points
from nbaudio.formats.delimited import (
    HEADER_LINES,
    USUAL_SEPARATORS,
    DelimitedTable,
    IsHeader,
    find_header,
    open_delimited,
    unnamed_column,
)
from nbaudio.formats.headerless import headerless_form
from nbaudio.formats.opendocument import MergedFiller, SheetMarks
from nbaudio.formats.source_columns import (
    MILLISECONDS,
    NONE,
    SAMPLES,
    batches,
    choose,
    schema_of,
)
from nbaudio.formats.source_files import Layout, SourceFiles, list_words
from nbaudio.formats.structured import fields_of, nested_refusal, own_column, with_fields
from nbaudio.formats.table_columns import TableColumns, choose_columns
from nbaudio.formats.transcripts import (
    BATCH_ROWS,
    PROBLEMS,
    TRANSCRIPTS,
    NotRead,
    Problem,
    Transcripts,
    check_link,
    source_column,
    with_audio_root,
    with_not_read,
)
from nbaudio.formats.workbooks import Workbook, count_formulas_without_value, open_workbook
from nbaudio.tables.rows import Rows, with_starts
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS

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
# Fields by whose columns a table is recognized.
_DETECTED = ("name", "start", "end", "duration", "text", "asr_text", "speaker_id", "split")
# Those of them that become options of `read`, which would also look at the values of columns.
_BY_NAME = ("name", "text", "speaker_id")
# Parameters of `read` that are not columns.
_NOT_COLUMNS = frozenset(
    ("source", "times", "header", "separator", "quotes", "sheet", "encoding", "decimal")
)
_TIMES = ("start", "end", "duration")
_YES_NO = {"yes": True, "no": False, None: None}
_DELIMITED = (".csv", ".tsv")
_JSON_LINES = (".jsonl", ".ndjson")
ENDINGS = (*_DELIMITED, *_JSON_LINES, ".parquet", *workbooks.ENDINGS)
# What spreadsheets show in place of a value that they cannot compute.
_ERROR = re.compile(r"#(?:N/A|REF!|VALUE!|NAME\?|DIV/0!|NUM!|NULL!)|Err:\d{3}")

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

# A row by column with its line, or what is wrong with a line.
_Row = tuple[int, Mapping[str, str | None]] | Problem


def detect(files: SourceFiles) -> list[Layout]:
    """Return the tables among files that have columns with names of recordings and texts."""
    layouts: list[Layout] = []
    without_header = [name for name in files.ending(".txt") if headerless_form(files.path(name))]
    for name in [*files.ending(*ENDINGS), *without_header]:
        header, separator = _header(files, name)
        columns, _ = choose(files.path(name), header, dict.fromkeys(_DETECTED))
        if {"name", "text"} <= columns.keys():
            options = {key: columns[key] for key in _BY_NAME if columns.get(key, key) != key}
            if separator:
                options["separator"] = separator
            layouts.append(
                Layout(
                    "table",
                    files.path(name),
                    f"{name} has the columns {list_words(columns.values())}",
                    frozenset({name}),
                    options=options,
                )
            )
    return layouts


def _header(files: SourceFiles, name: str) -> tuple[list[str], str | None]:
    """Return the columns of a table, and the separator if it is not the usual one."""
    ending = Path(name).suffix.lower()
    if ending in _JSON_LINES:
        return [*files.first_object(name)], None
    path = files.path(name)
    try:
        check_link(path, files.folder)
        if form := headerless_form(path):
            return [*form.columns], None
        if ending in _DELIMITED:
            # Whether cells are quoted is not needed here, and takes a look at the whole file.
            delimited = open_delimited(path, quotes=True, is_header=has_name_and_text)
            separator: str | None = delimited.layout.separator
            if separator == USUAL_SEPARATORS[ending]:
                separator = None
            return delimited.header, separator
        if ending == ".parquet":
            return list(schema_of(path).names), None
        return _first_sheet_names(path), None
    except (OSError, ValueError, InputError, pa.ArrowException):
        return [], None


def has_name_and_text(names: Sequence[str]) -> bool:
    """Return whether columns have usual names of those of recordings and of texts."""
    return {"name", "text"} <= choose(Path(), names, dict.fromkeys(("name", "text")))[0].keys()


#: The beginning of what is not read where a workbook has further sheets.
OTHER_SHEET = "rows of the sheet"


class Cells(NamedTuple):
    """A table as it was read.

    `lines` has the line of each row (from 1; the row where a format has no lines), `problems` what
    could not be read, `notes` how it was read, and `not_read` what was left out, such as further
    sheets of a workbook.
    """

    rows: Rows
    lines: Sequence[int]
    problems: list[Problem]
    notes: Sequence[str] = ()
    not_read: Sequence[NotRead] = ()

    @property
    def frame(self) -> pl.DataFrame:
        """All rows, in memory."""
        return self.rows.frame()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.rows.schema)

    def all_notes(self) -> list[str]:
        """Return the notes, and a line for each part that was left out."""
        return [*self.notes, *(part.sentence() for part in self.not_read)]


@dataclass(frozen=True)
class CellOptions:
    """The options of `ingest table` that say how its file is written; None to find it."""

    separator: str | None = None
    quotes: bool | None = None
    encoding: str | None = None
    sheet: str | None = None
    decimal: str | None = None  # the decimal sign of times
    header: tuple[str, ...] | None = None  # the names of columns, where the file has none


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
    times: str | None = None,
    header: str | None = None,
    separator: str | None = None,
    quotes: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
) -> Transcripts:
    """Read a table of segments, or of whole recordings.

    Options up to `source_channel` are names of columns, or ``none``. `times` is their unit, one of
    `UNITS`, where the names of the columns do not say it. `header` has the names of the columns,
    separated by commas, where delimited text has none.
    """
    chosen: dict[str, str | None] = {
        name: column for name, column in locals().items() if name not in _NOT_COLUMNS
    }
    if quotes not in _YES_NO:
        raise InputError(f"option quotes={quotes!r}: must be yes or no")
    options = CellOptions(
        separator="\t" if separator == "tab" else separator,
        quotes=_YES_NO[quotes],
        encoding=encoding,
        sheet=sheet,
        decimal=decimal,
        header=_named_columns(source, header),
    )
    cells = _segment_cells(source, options, chosen)
    table_columns = choose_columns(source, cells.rows, chosen, times)
    nameless: list[Problem] = []
    rows = Rows.collect(_named_rows(source, cells, table_columns, nameless))
    if not any(len(batch) for batch in rows.batches(["name"])):
        raise InputError(f"{source}: the column {table_columns.columns['name']!r} is empty")
    problems = pl.DataFrame(sorted([*cells.problems, *nameless]), schema=PROBLEMS, orient="row")
    rows = replace(rows, schema=pl.Schema({**TRANSCRIPTS, **rows.schema}))
    notes = [*cells.notes, *table_columns.notes]
    units = {key: unit for key, unit in table_columns.units().items() if key != "duration"}
    transcripts = Transcripts(
        rows,
        problems,
        columns=table_columns.columns,
        notes=notes,
        in_samples=SAMPLES in units.values(),
        unit_option="times" if None in units.values() else None,
    )
    return with_audio_root(with_not_read(transcripts, *cells.not_read), source.parent)


def _named_columns(source: Path, header: str | None) -> tuple[str, ...] | None:
    """Return the names of columns that an option gives; raise InputError where it has no use."""
    if header is None:
        return None
    if source.suffix.lower() not in USUAL_SEPARATORS:
        raise InputError(f"{source}: option header: it is for delimited text without a header")
    return tuple(name.strip() for name in header.split(","))


def _segment_cells(source: Path, options: CellOptions, chosen: Mapping[str, str | None]) -> Cells:
    """Read a table of segments, whose times have decimal points then."""
    cells = read_cells(source, options=options, is_header=partial(_has_columns, chosen))
    times = [column for key in _TIMES if (column := chosen[key]) is not None]
    fielded = with_fields(source, cells.rows, chosen.values())
    pointed = with_decimal_points(source, fielded, times, options.decimal, has_options=True)
    return cells._replace(rows=pointed.rows, notes=[*cells.notes, *pointed.notes])


def _has_columns(chosen: Mapping[str, str | None], names: Sequence[str]) -> bool:
    """Return whether columns have the name and text that options say, or usual ones."""
    needed = {key: own_column(chosen[key], names) for key in ("name", "text")}
    try:
        columns, _ = choose(Path(), names, needed)
    except InputError:  # there is no such column
        return False
    return all(key in columns or needed[key] == NONE for key in needed)


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
    units = table_columns.units()
    for key in [key for key, unit in units.items() if unit == MILLISECONDS]:
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
        is_list = isinstance(kind, pl.List | pl.Array)
        refusal = nested_refusal(column.name, kind, fields_of(kind), is_list=is_list)
        raise InputError(f"{source}: {refusal}")
    if empty:
        return texts
    tidy = texts
    if column.dtype == pl.String:
        tidy = texts.str.strip_chars()
    return pl.select(pl.when(tidy != "").then(texts).alias(column.name)).to_series()


def _timed(columns: dict[str, pl.Series]) -> list[pl.Series]:
    """Rename columns as in `Transcripts`.

    A duration gives the end of a segment, or becomes the duration of whole recordings if there are
    no starts.
    """
    names = {"start": "source_start", "end": "source_end", "split": "source_split"}
    columns |= {
        key: columns[key].str.strip_chars()
        for key in ("start", "end", "duration")
        if key in columns
    }
    renamed = {names.get(key, key): values for key, values in columns.items() if key != "duration"}
    duration = columns.get("duration")
    if duration is not None and "start" not in columns:
        renamed["source_duration"] = duration
    elif duration is not None and "end" not in columns:
        ends = [_end_of(*times) for times in zip(columns["start"], duration, strict=True)]
        renamed["source_end"] = pl.Series(ends, dtype=pl.String)
    return [values.alias(key) for key, values in renamed.items()]


def _end_of(start: str | None, duration: str | None) -> str | None:
    """Return the end of a segment in seconds; ``NaN`` where the duration is missing."""
    if start is None and duration is None:
        return None
    return add_seconds(start or "0", duration or "NaN")


def read_cells(
    source: Path,
    *,
    ending: str | None = None,
    options: CellOptions | None = None,
    is_header: IsHeader | None = None,
) -> Cells:
    """Read a table as it is written.

    Args:
        source: the file.
        ending: what its name ends in, where another ending counts.
        options: how it is written; messages name these options if they are given.
        is_header: whether the cells of a row are the names of the columns that are needed.

    Raises:
        InputError: there are no rows, or the file cannot be read.
    """
    if ending is None:
        ending = source.suffix.lower()
    try:
        input_guards.check_regular(source)
        if ending in USUAL_SEPARATORS:
            cells = _delimited(source, ending, options, is_header)
        elif ending in _JSON_LINES:
            cells = _joined(_json_lines(source))
        elif ending == ".parquet":
            rows = Rows.collect(_parquet(source))
            cells = Cells(rows, range(1, 1 + rows.height), [])
        elif ending in workbooks.ENDINGS:
            cells = _sheet(source, ending, options, is_header)
        else:
            expected = f"expected a file that ends in one of {', '.join(ENDINGS)}"
            raise InputError(f"{source}: {workbooks.other_format(source) or expected}")
    except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise InputError(f"{source}: cannot be read as a table ({one_line(error)})") from error
    if not cells.lines:
        where = "".join(
            f"; line {problem.line}: {problem.reason}" for problem in cells.problems[:1]
        )
        raise InputError(f"{source}: no readable rows{where}")
    return cells


def _delimited(
    source: Path, ending: str, options: CellOptions | None, is_header: IsHeader | None
) -> Cells:
    """Read delimited text; the names of its columns are those of the header."""
    chosen = options or CellOptions()
    is_open = chosen.separator is None and chosen.header is None
    form = headerless_form(source) if is_open else None
    if form:
        chosen = replace(chosen, separator=form.separator, quotes=False, header=form.columns)
    delimited = open_delimited(
        source,
        separator=chosen.separator,
        quotes=chosen.quotes,
        encoding=chosen.encoding,
        is_header=None if chosen.header else is_header,
        ending=ending,
        has_options=options is not None,
        names=chosen.header,
    )
    names = _column_names(source, delimited.header)
    rows = _delimited_rows(delimited, names)
    notes = [form.note(source)] if form else delimited.notes
    return _joined(rows)._replace(notes=notes, not_read=delimited.not_read)


def _delimited_rows(delimited: DelimitedTable, names: Sequence[str]) -> Iterator[_Row]:
    """Yield the rows of a table by column; columns without a title only where they are filled."""
    unnamed = {name for name, title in zip(names, delimited.header, strict=True) if not title}
    for row in delimited.rows():
        if isinstance(row, Problem):
            yield row
        else:
            cells = zip(names, row.cells, strict=True)
            yield row.line, {name: cell for name, cell in cells if cell or name not in unnamed}


def _column_names(source: Path, header: Sequence[str]) -> list[str]:
    """Return the names of columns; raise InputError where two columns have the same name."""
    if repeated := [name for name, count in Counter(filter(None, header)).items() if count > 1]:
        raise InputError(
            f"{source}: several columns are called {repeated[0]!r}; if it has no header, read it "
            "by 'nbaudio ingest table' with --option header=NAMES, such as header=name,text"
        )
    return [name or unnamed_column(number) for number, name in enumerate(header)]


def _joined(rows: Iterator[_Row]) -> Cells:
    """Collect rows as columns, with every column that any row has."""
    lines = array("I")
    problems = list[Problem]()

    def frames() -> Iterator[pl.DataFrame]:
        """Yield the rows in batches; collect the numbers of their lines, and problems."""
        while batch := list(islice(rows, BATCH_ROWS)):
            problems.extend(row for row in batch if isinstance(row, Problem))
            read = [row for row in batch if not isinstance(row, Problem)]
            lines.extend(line for line, _ in read)
            names = dict.fromkeys(name for _, values in read for name in values)
            yield pl.DataFrame(
                [values for _, values in read], schema=dict.fromkeys(names, pl.String)
            )

    return Cells(Rows.collect(frames()), lines, problems)


def _json_lines(source: Path) -> Iterator[_Row]:
    """Yield the line and the fields of each JSON object, and lines that are none as problems."""
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


def _sheet(
    source: Path, ending: str, options: CellOptions | None, is_header: IsHeader | None
) -> Cells:
    """Read a sheet of a workbook."""
    errors = Counter[str]()
    with open_workbook(source, ending=ending) as book:
        sheet = options.sheet if options else None
        name = _chosen_sheet(book, sheet)
        rows = book.sheets[name].rows()
        header = _sheet_header(rows, is_header)
        marks = book.sheets[name].marks()
        filler = marks.filler(header.row)
        cells = _joined(_sheet_rows(source, header, rows, errors, filler))
        not_read = [
            NotRead(f"rows above the header of {source.name}", header.filled_above),
            NotRead(
                f"cells of {source.name} beside a merged one that covers them, which are read as "
                "empty",
                marks.count_beside(header.row),
                "unmerge them and fill each",
            ),
            *_other_sheets(source, book, name, has_options=options is not None),
        ]
    if ending == workbooks.XLSX:
        not_read.append(_formulas_without_value(source))
    return cells._replace(
        notes=[
            *_notes_on_errors(source, errors),
            *_notes_on_hidden_rows(source, cells, marks),
            *_notes_on_filled_cells(source, filler),
        ],
        not_read=[part for part in not_read if part.count],
    )


@dataclass(frozen=True)
class _SheetHeader:
    """The names of the columns of a sheet, and where they are.

    Attributes:
        row: the number of their row, from 1.
        names: one for each column; empty where there is none.
        filled_above: how many rows above it are not blank.
        below: the rows that were read to find it, which are below it.
    """

    row: int
    names: list[str]
    filled_above: int
    below: list[list[str]]


def _sheet_header(rows: Iterator[list[str]], is_header: IsHeader | None) -> _SheetHeader:
    """Find the header of a sheet among its first rows, which are taken from `rows`."""
    first_rows = list(islice(rows, HEADER_LINES))
    index = find_header(first_rows, is_header)
    if index >= len(first_rows):
        return _SheetHeader(1, [], 0, [])
    above = sum(bool("".join(row).strip()) for row in first_rows[:index])
    return _SheetHeader(index + 1, first_rows[index], above, first_rows[index + 1 :])


def _first_sheet_names(source: Path) -> list[str]:
    """Return the names of the columns of a workbook's first sheet."""
    with open_workbook(source) as book:
        rows = book.sheets[_chosen_sheet(book, None)].rows()
        return _sheet_header(rows, has_name_and_text).names


def _chosen_sheet(book: Workbook, chosen: str | None) -> str:
    """Return the name of the sheet to read: the first one that is not hidden, unless chosen."""
    if chosen is not None and chosen not in book.sheets:
        raise ValueError(f"there is no sheet {chosen!r}; it has {', '.join(book.sheets)}")
    visible = [name for name, sheet in book.sheets.items() if not sheet.is_hidden]
    names = visible or list(book.sheets)
    if not names:
        raise ValueError("it has no sheet")
    return chosen or names[0]


def _sheet_rows(
    source: Path,
    header: _SheetHeader,
    rows: Iterator[list[str]],
    errors: Counter[str],
    filler: MergedFiller,
) -> Iterator[_Row]:
    """Yield the rows of a sheet below its header that are not blank, and count errors in cells.

    Cells below the first one of merged cells have its value.
    """
    names = header.names
    _column_names(source, names)
    for number, stored in enumerate(chain(header.below, rows), start=header.row + 1):
        if not "".join(stored).strip():
            continue
        row = filler.fill(number, stored)
        errors.update(cell for cell in row if _ERROR.fullmatch(cell))
        yield (
            number,
            {
                name or unnamed_column(column): cell or None
                for column, (name, cell) in enumerate(zip_longest(names, row, fillvalue=""))
                if name or cell
            },
        )


def _notes_on_errors(source: Path, errors: Counter[str]) -> Iterator[str]:
    if errors:
        first = next(iter(errors))
        yield (
            f"{source.name}: cells that hold an error, such as {first}, are read as that text: "
            f"{errors.total():,}"
        )


def _notes_on_filled_cells(source: Path, filler: MergedFiller) -> Iterator[str]:
    if filler.filled:
        yield (
            f"{source.name}: cells below the first one of merged cells have its value, as the "
            f"sheet shows it: {filler.filled:,}"
        )


def _notes_on_hidden_rows(source: Path, cells: Cells, marks: SheetMarks) -> Iterator[str]:
    hidden = marks.count_hidden(cells.lines)
    if hidden:
        yield f"{source.name}: rows that the sheet hides are read like the others: {hidden:,}"


def _other_sheets(
    source: Path, book: Workbook, name: str, *, has_options: bool
) -> Iterator[NotRead]:
    """Yield the sheets that are not read, with how many rows they have."""
    for other, sheet in book.sheets.items():
        if other == name:
            continue
        remedy = "save it as a file of its own"
        if has_options:
            remedy = f"--option {shlex.quote(f'sheet={other}')}"
        yield NotRead(
            f"{OTHER_SHEET} {other!r} of {source.name} (read is {name!r})",
            sum(1 for row in sheet.rows() if "".join(row).strip()),
            remedy,
        )


def _formulas_without_value(source: Path) -> NotRead:
    return NotRead(
        f"formulas of {source.name} without a stored value, which are read as empty cells",
        count_formulas_without_value(source),
        "open it in a spreadsheet program and save it",
    )
