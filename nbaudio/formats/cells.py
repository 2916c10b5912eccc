"""The cells of a table in any file format, as they stand in the file.

Conventions: text formats and Excel give strings with the source's own characters, Parquet its own types. Absent cells are null.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl
import pyarrow as pa

from nbaudio.core import guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.base import Problem
from nbaudio.formats.columnar import batches, schema_of

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_ENDINGS = (*_SEPARATORS, *_JSON_LINES, ".parquet", ".xlsx")

# Rows that are Python objects at once; as columns they take a tenth of the memory.
_BATCH = 10_000

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Cells(NamedTuple):
    """A table, the line of each row (from 1; the row where a format has no lines), and what could not be read."""

    frame: pl.DataFrame
    lines: pl.Series
    problems: list[Problem]


#: A row by column with its line, or what is wrong with a line.
_Row = tuple[int, Mapping[str, str | None]] | Problem


def read_cells(source: Path, *, separator: str | None = None, quotes: bool | None = None, sheet: str | None = None) -> Cells:
    """Read a table; its ending says which format it is.

    Args:
        source: the file.
        separator: between the fields of .csv and .tsv; comma and tab unless given.
        quotes: whether these fields may stand in quotes; they may in .csv and not in .tsv unless given.
        sheet: of an .xlsx; the first unless given.

    Raises:
        InputError: it cannot be read at all, or is of no known format.

    Examples:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp()) / "a.jsonl"
        >>> _ = source.write_text('{"at": 3.20, "tags": ["a"], "who": null}')
        >>> read_cells(source).frame.rows()
        [('3.20', '["a"]', None)]
    """
    ending = source.suffix.lower()
    try:
        guards.check_regular(source)
        if ending in _SEPARATORS:
            found = _separated(source, separator or _SEPARATORS[ending], quotes=ending == ".csv" if quotes is None else quotes)
            return _cells(found)
        if ending in _JSON_LINES:
            return _cells(_json_lines(source))
        if ending == ".parquet":
            return _numbered(_parquet(source), 1)
        if ending == ".xlsx":
            guards.check_workbook(source)
            return _numbered(_sheet(source, sheet), 2)
    except (OSError, ValueError, csv.Error, pa.ArrowException, pl.exceptions.PolarsError) as error:
        raise InputError(f"{source}: cannot be read as a table ({one_line(error)})") from error
    raise InputError(f"{source}: a file that ends in one of {', '.join(_ENDINGS)} is wanted")


def _numbered(frame: pl.DataFrame, first: int) -> Cells:
    return Cells(frame, pl.Series("line", range(first, first + len(frame)), dtype=pl.UInt32), [])


def _cells(rows: Iterable[_Row]) -> Cells:
    """Rows as columns, with every column that any row has."""
    frames: list[pl.DataFrame] = []
    lines: list[int] = []
    problems: list[Problem] = []
    batch: list[Mapping[str, str | None]] = []

    def flush() -> None:
        names = dict.fromkeys(name for row in batch for name in row)
        columns = [pl.Series(name, [row.get(name) for row in batch], dtype=pl.String) for name in names]
        frames.append(pl.DataFrame(columns))
        batch.clear()

    for row in rows:
        if isinstance(row, Problem):
            problems.append(row)
            continue
        lines.append(row[0])
        batch.append(row[1])
        if len(batch) == _BATCH:
            flush()
    flush()
    return Cells(pl.concat(frames, how="diagonal", rechunk=True), pl.Series("line", lines, dtype=pl.UInt32), problems)


def _separated(source: Path, separator: str, *, quotes: bool) -> Iterator[_Row]:
    if len(separator) != 1:
        raise InputError(f"option separator: one character is wanted, not {separator!r}")
    # What is no UTF-8 becomes lone surrogates, so that a single line can be refused.
    with source.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        text = guards.lines(file, source)
        rows = csv.reader(text, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE, strict=True)
        header = next(rows, [])
        if wrong := _wrong(header, len(header)):
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
            if wrong := _wrong(row, len(header)):
                yield Problem(source.name, rows.line_num, wrong)
            else:
                yield rows.line_num, dict(zip(header, row, strict=True))


def _wrong(row: list[str], wanted: int) -> str | None:
    if len(row) != wanted:
        return f"{len(row)} fields, the header has {wanted}"
    try:
        "".join(row).encode()
    except UnicodeEncodeError:
        return "not UTF-8 text"
    return None


def _json_lines(source: Path) -> Iterator[_Row]:
    with source.open("rb") as file:
        for number, line in enumerate(guards.lines(file, source), 1):
            if not line.strip():
                continue
            try:
                yield number, {name: _text(bytes(value)) for name, value in _decode(line.decode("utf-8-sig")).items()}
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                yield Problem(source.name, number, str(error))


def _text(raw: bytes) -> str | None:
    """A string's content, any other value as it is written; null for null."""
    if raw.startswith(b'"'):
        return msgspec.json.decode(raw, type=str)
    return None if raw == b"null" else raw.decode()


def _parquet(source: Path) -> pl.DataFrame:
    """By pyarrow and checked, since polars panics at some broken files and at text that is no UTF-8."""
    rows = list(batches(source, None, rows=_BATCH))
    found = pa.Table.from_batches(rows, schema=None if rows else schema_of(source))
    found.validate(full=True)
    return pl.DataFrame(found)


def _sheet(source: Path, sheet: str | None) -> pl.DataFrame:
    """Excel stores binary floats: polars writes the shortest decimal for each."""
    try:
        return pl.read_excel(source, sheet_name=sheet, engine="openpyxl", infer_schema_length=0)
    except Exception as error:  # a broken archive lets out what zipfile, zlib, the XML parser and openpyxl happen to raise
        raise ValueError(f"{type(error).__name__}: {one_line(error)}") from error
