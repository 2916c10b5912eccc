"""Read and write the tables of a workspace: `recordings`, `segments` and others by name."""

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from nbaudio.core.atomic import atomic_write, disk_full_reason
from nbaudio.core.errors import InputError, one_line
from nbaudio.tables import parquet_files
from nbaudio.tables.dataframes import IN_ORDER, STREAMED
from nbaudio.tables.rows import with_starts
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, conform

_KEYS = {"recordings": ("recording_id", RECORDINGS), "segments": ("segment_id", SEGMENTS)}

WorkspacePath = str | os.PathLike[str]


def table_path(workspace: WorkspacePath, table: str = "segments") -> Path:
    """Return the file of a workspace's table."""
    return Path(workspace) / f"{table}.parquet"


def table_schema(workspace: WorkspacePath, table: str = "segments") -> pl.Schema:
    """Return the columns and types that the file of a table has.

    Raise InputError where it is not usable or has no key.
    """
    path = table_path(workspace, table)
    with parquet_files.reading_parquet(path):
        file_schema = pl.scan_parquet(path, glob=False).collect_schema()
    key, _ = _KEYS.get(table, ("", None))
    if file_schema and key and key not in file_schema:
        raise InputError(
            f"{path}: the key column {key} is missing; columns are {', '.join(file_schema)}"
        )
    return file_schema


def scan(
    workspace: WorkspacePath, columns: Iterable[str] | None = None, *, table: str = "segments"
) -> pl.LazyFrame:
    """Scan columns of a table, or all, with the types of its schema, null where absent.

    Names that nothing has are left out.
    """
    file_schema = table_schema(workspace, table)
    expected = _expected(file_schema, columns, table)
    absent = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in expected.items()
        if name not in file_schema
    ]
    other = pl.Schema(
        {name: dtype for name, dtype in expected.items() if dtype != file_schema.get(name, dtype)}
    )
    return (
        pl.scan_parquet(table_path(workspace, table), glob=False)
        .with_columns(absent)
        .select(expected.names())
        .cast(other)
    )


def read(
    workspace: WorkspacePath,
    columns: Iterable[str] | None = None,
    *,
    where: pl.Expr | None = None,
    table: str = "segments",
    row: str | None = None,
) -> pl.DataFrame:
    """Read a table into memory, with the columns of `scan`, and row numbers as `row`.

    `where` filters by columns of the file.
    """
    file_schema = table_schema(workspace, table)
    path = table_path(workspace, table)
    number = row or "\0row"
    expected = _expected(file_schema, columns, table)
    # One gives the length
    names = [name for name in expected if name in file_schema] or list(file_schema)[:1]
    with parquet_files.reading_parquet(path, checked=True):
        rows = pl.scan_parquet(path, glob=False, row_index_name=number)
        if where is None:
            frame = rows.select(number, *names).collect()
        else:
            # By numbers: filtered lists of polars keep the lists of all rows that were read with
            # them.
            before = path.stat()
            file = parquet_files.open_parquet(path)
            row_numbers = rows.filter(where).select(number).collect(**STREAMED)
            now = path.stat()
            is_replaced = (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns)
            if is_replaced:
                return read(workspace, columns, where=where, table=table, row=row)
            frame = row_numbers.hstack(file.gather(row_numbers.to_series().to_numpy(), names))
    order = list(expected)
    if row:
        order.insert(0, row)
    return conform(frame, expected, str(path)).select(order)


def has_id(ids: pl.Series) -> pl.Expr:
    """Return whether `segment_id` is one of some ids."""
    return pl.col("segment_id").cast(pl.String).is_in(ids.implode())


def _expected(file_schema: pl.Schema, columns: Iterable[str] | None, table: str) -> pl.Schema:
    """Return the columns to read and their types, those of the table's schema where it has them."""
    _, schema = _KEYS.get(table, ("", pl.Schema()))
    whole = {**file_schema, **schema}
    order = (*schema, *file_schema) if columns is None else columns
    return pl.Schema({name: whole[name] for name in order if name in whole})


def write(
    workspace: WorkspacePath,
    batches: pl.DataFrame | pl.LazyFrame | Iterable[pl.DataFrame],
    *,
    table: str = "segments",
) -> None:
    """Replace a table atomically by a frame, a lazy frame, or several frames.

    A lazy frame is streamed. Several frames have equal columns and are written one after the other.
    """
    path = table_path(workspace, table)
    failed = list[Exception]()
    if isinstance(batches, pl.DataFrame | pl.LazyFrame):
        rows = batches.lazy()
    else:
        rows = _stream(iter(batches), failed)
    with atomic_write(path) as partial:
        try:
            with partial.open("wb") as file:  # by its path, polars might create it after an error
                # 3 is slower, saves 2 %
                rows.sink_parquet(
                    file, compression_level=2, row_group_size=parquet_files.ROWS_A_GROUP, **IN_ORDER
                )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            if failed:
                raise failed[0] from None
            if disk_full_reason(error) or not isinstance(batches, pl.LazyFrame):
                raise
            raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from error


def _stream(batches: Iterator[pl.DataFrame], failed: list[Exception]) -> pl.LazyFrame:
    """Return frames as one lazy frame.

    An exception of the iterator, which polars wraps, is added to `failed`.
    """
    first = next(batches, pl.DataFrame())

    def source(*_: object) -> Iterator[pl.DataFrame]:
        try:
            yield from chain([first], batches)
        except Exception as error:
            failed.append(error)
            raise

    return register_io_source(source, schema=first.schema)


def replace_columns(workspace: WorkspacePath, columns: pl.DataFrame) -> None:
    """Replace columns of the segments table by those of a frame with as many rows.

    The table is rewritten in batches.
    """
    file_schema = table_schema(workspace)
    order = dict.fromkeys((*SEGMENTS, *file_schema, *columns.columns))
    parts = with_starts(
        read_batches(
            workspace, columns=[name for name in file_schema if name not in columns.columns]
        )
    )
    new = (part.with_columns(columns[start : start + len(part)]) for start, part in parts)
    write(workspace, (conform(part, SEGMENTS, "segments").select(*order) for part in new))


def read_batches(
    workspace: WorkspacePath,
    table: str = "segments",
    columns: Iterable[str] | None = None,
    *,
    rows: int = parquet_files.ROWS_A_GROUP,
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table as the file has them, some `rows` at a time.

    Raise InputError where it is not usable.
    """
    return parquet_files.parquet_slices(table_path(workspace, table), columns, rows=rows)
