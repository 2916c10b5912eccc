"""Read and write Parquet files of any size; each error names the file."""

import hashlib
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nbaudio.core.errors import InputError, one_line
from nbaudio.core.input_guards import check_regular
from nbaudio.tables.row_groups import RowGroups

# Rows that are read or written at once where a table is too large for memory.
ROWS_A_GROUP = 16_384


@contextmanager
def reading_parquet(path: Path, *, checked: bool = False) -> Iterator[None]:
    """Raise all errors of reading a Parquet file as one InputError that names it.

    `checked` skips the check of the footer.
    """
    try:
        check_regular(path)
        if not checked:
            _check_footer(path)
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: missing; run the step that makes it again") from error
    except MemoryError as error:
        raise InputError(f"{path}: not enough memory to read it") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or one_line(error)})") from error
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        pa.ArrowException,
        UnicodeDecodeError,
    ) as error:
        raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from error


def _check_footer(path: Path) -> None:
    """Raise for what makes polars panic, which prints further lines.

    That is a damaged footer, or columns outside of the file.
    """
    size = path.stat().st_size
    footer = pq.read_metadata(path)
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            start = (
                chunk.has_dictionary_page and chunk.dictionary_page_offset
            ) or chunk.data_page_offset
            if not 0 < start <= start + chunk.total_compressed_size <= size:
                raise pa.ArrowInvalid(f"column {chunk.path_in_schema} lies outside of the file")


def read_parquet(path: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """Read a Parquet file, or some of its columns; raise InputError where it is not usable."""
    with reading_parquet(path):
        return pl.read_parquet(path, columns=columns, glob=False)


def open_parquet(path: Path) -> RowGroups:
    """Open a Parquet file; raise InputError if it is unusable."""
    with reading_parquet(path), path.open("rb") as file:
        footer = pq.read_metadata(file)
        sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        file.seek(0)  # polars reads from where the file is
        return RowGroups(pl.scan_parquet(file), np.cumsum([0, *sizes]))


def num_rows(path: Path) -> int:
    """Return the number of rows of a Parquet file; raise InputError where it is not usable."""
    with reading_parquet(path):
        return int(pq.read_metadata(path).num_rows)


def scan_file(path: Path) -> pl.LazyFrame:
    """Scan a Parquet file of which nothing is known; raise InputError where it is not usable."""
    with reading_parquet(path):
        return scan_rows(path)


def scan_rows(path: Path) -> pl.LazyFrame:
    """Scan a Parquet file without a look at it: this run wrote it, or checked it before."""
    return pl.scan_parquet(path, glob=False)


def parquet_slices(
    path: Path,
    columns: Iterable[str] | None = None,
    *,
    start: int = 0,
    stop: int | None = None,
    rows: int = ROWS_A_GROUP,
) -> Iterator[pl.DataFrame]:
    """Yield the rows [start, stop) of a Parquet file, some `rows` at a time, at least once.

    Of `columns`, those that the file has are read; where it has none of them, its first column.
    Raise InputError if the file is not usable.
    """
    table = pl.scan_parquet(path, glob=False)
    length = num_rows(path)
    with reading_parquet(path, checked=True):
        if columns is not None:
            schema = table.collect_schema()
            table = table.select([name for name in columns if name in schema] or schema.names()[:1])
    stop = length if stop is None else min(length, stop)
    for first in range(start, max(stop, start + 1), rows):
        with reading_parquet(path, checked=True):
            part = table.slice(first, max(0, min(rows, stop - first))).collect()
        yield part


def write_parts(target: Path, parts: Iterable[pl.DataFrame]) -> None:
    """Write a table that comes in parts with the same columns, each a row group.

    Empty parts only declare the columns.
    """
    tables = (part.to_arrow(compat_level=pl.CompatLevel.oldest()) for part in parts)
    first = next(tables)
    with pq.ParquetWriter(target, first.schema, compression="ZSTD") as writer:
        for arrow in filter(len, chain([first], tables)):
            writer.write_table(arrow, row_group_size=ROWS_A_GROUP)


def digest(parts: Iterable[pl.DataFrame]) -> str:
    """Hash a table that comes in parts.

    Return the hex SHA-256 of its column names and of its rows, in order, as JSON lines.
    """
    state = hashlib.sha256()
    for number, part in enumerate(parts):
        if number == 0:
            state.update(",".join(part.columns).encode())
        lines = io.BytesIO()
        part.write_ndjson(lines)
        state.update(lines.getbuffer())
    return state.hexdigest()
