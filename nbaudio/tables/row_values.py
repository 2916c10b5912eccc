"""Streamed tables: add columns from memory, replace some rows, and hash the ids of some rows."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core import hashing
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED

_SLICE = 1 << 20

ROW = "\0row"
"""Column with the row number, from 0, of a streamed table."""

RowHashes = Callable[[pl.Series, str], pl.Series]
"""Returns `hash_column` of the ids of some rows of a table.

It takes the ascending numbers of the rows, and a salt.
"""


def with_values(segments: pl.LazyFrame, values: Iterable[pl.Series]) -> pl.LazyFrame:
    """Return a table with columns that are in memory.

    Polars' own concat may read far ahead on one side.
    """

    def at_row(column: pl.Series) -> pl.Expr:
        return (
            pl.col(ROW)
            .map_batches(column.gather, return_dtype=column.dtype, is_elementwise=True)
            .alias(column.name)
        )

    return segments.with_row_index(ROW).with_columns(at_row(column) for column in values).drop(ROW)


def with_rows(workspace: workspace_tables.WorkspacePath, new: pl.DataFrame) -> pl.LazyFrame:
    """Return the segments table, in which rows have the values of `new` with the same `ROW`.

    Columns that only `new` has are null in other rows.
    """
    segments = workspace_tables.scan(workspace).with_row_index(ROW)
    schema = segments.collect_schema()
    absent = [
        pl.lit(None, dtype).alias(name) for name, dtype in new.schema.items() if name not in schema
    ]
    return (
        segments.with_columns(absent)
        .update(new.lazy(), on=ROW, include_nulls=True, maintain_order="left")
        .drop(ROW)
    )


def repeated(values: pl.Series) -> pl.Series:
    """Return the values that occur several times, in ascending order; nulls are left out."""
    ordered = values.sort()
    return ordered.filter(ordered == ordered.shift()).unique(maintain_order=True)


def slices(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield parts of an array, about a million values each, to compute with less memory."""
    return (values[start : start + _SLICE] for start in range(0, len(values), _SLICE))


def counts(numbers: NDArray[np.signedinteger[Any]], size: int) -> NDArray[np.int64]:
    """Return how often each number from 0 to `size` - 1 occurs; negative ones are not counted."""
    part_counts = (np.bincount(part[part >= 0], minlength=size) for part in slices(numbers))
    return sum(part_counts, start=np.zeros(size, dtype=np.int64))


def first_occurrences(hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which hashes do not occur before."""
    values = pl.Series(hashes)
    is_first = np.ones(len(values), dtype=np.bool_)
    is_repeated = values.is_in(repeated(values).implode())
    is_first[is_repeated.arg_true().to_numpy()] = (
        values.filter(is_repeated).is_first_distinct().to_numpy()
    )
    return is_first


def row_hashes(segments: pl.LazyFrame) -> RowHashes:
    """Return a function that hashes the ids of rows without holding the ids."""
    ids = segments.select("segment_id")

    def hashes(rows: pl.Series, salt: str) -> pl.Series:
        """Return the hashes of the ids of rows, given by ascending numbers."""
        size = int(rows[-1]) + 1 if len(rows) else 0
        wanted = pl.repeat(value=False, n=size, eager=True).scatter(rows, values=True)
        hash_of_id = pl.col("segment_id").map_batches(
            partial(hashing.hash_column, salt=salt), return_dtype=pl.UInt64, is_elementwise=True
        )
        wanted_rows = with_values(ids.head(size), [wanted.alias("wanted")]).filter("wanted")
        return wanted_rows.select(hash=hash_of_id).collect(**STREAMED).to_series()

    return hashes
