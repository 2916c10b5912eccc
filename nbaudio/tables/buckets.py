"""Divide a table that may not fit into memory by a key, and store a table part by part.

Where all rows must be joined, sorted or grouped, `write_buckets` divides the tables by a key, and
the ordinary Polars operation runs in each bucket. What is stored or hashed ends in a sort by a
unique key. The folders of buckets and parts belong to one run, which removes what an earlier one
left before it begins.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from nbaudio.core import atomic
from nbaudio.tables.dataframes import STREAMED

BUCKET_ROWS = 1 << 16
"""Rows that a step holds in memory at once."""

PART_ROWS = 1 << 16
"""Consecutive rows of a table that are read together, by `write_row_buckets`."""

_MOST_BUCKETS = 64  # each bucket has a row group in memory while the table is divided
_BUCKET_ROW_GROUP = 1 << 12  # rows
# A file of a `PartWriter` ends with the part that exceeds one of these: bytes in memory, and rows.
_FILE_BYTES = 64 << 20
_FILE_ROWS = 1 << 17
_MOST_BYTES_IN_MEMORY = 16 << 20  # of a table that is not written
_FILE_ROW_GROUP = 1 << 14  # rows, which are read at once
_SAMPLED = 16  # every 16th text is read to find the bounds of buckets
_BUCKET = "bucket"


@dataclass(frozen=True)
class Buckets:
    """A table that is divided into `count` buckets, numbered from 0.

    Rows of a bucket have no order. Several buckets are on disk, a single one is in memory.
    """

    folder: Path
    count: int
    schema: pl.Schema
    single: pl.DataFrame | None = None

    def read(self, number: int) -> pl.DataFrame:
        """Return the rows of a bucket."""
        if self.single is not None:
            return self.single
        files = sorted((self.folder / f"{_BUCKET}={number}").glob("*.parquet"))
        if not files:
            return pl.DataFrame(schema=self.schema)
        return pl.read_parquet(files, glob=False, hive_partitioning=False)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Yield the rows of each bucket, in order of their numbers."""
        return map(self.read, range(self.count))

    def remove(self) -> None:
        """Remove the buckets from the disk."""
        atomic.remove(self.folder)


def bucket_count(num_rows: int) -> int:
    """Return the number of buckets for a table of `num_rows` rows."""
    return min(_MOST_BUCKETS, max(1, math.ceil(num_rows / BUCKET_ROWS)))


def hash_bucket(column: str, count: int) -> pl.Expr:
    """Return the bucket of each value of a column; equal values are in the same bucket."""
    return (pl.col(column).hash() % count).cast(pl.UInt16)


def consecutive_bucket(lengths: str, total: int, count: int) -> pl.Expr:
    """Return the bucket of consecutive groups of rows, so that buckets have about equal rows.

    `lengths` is the column with the number of rows of each group, whose sum is `total`.
    """
    before = pl.col(lengths).cum_sum() - pl.col(lengths)
    return before * count // max(1, total)


def hex_bucket(column: str, count: int) -> pl.Expr:
    """Return the bucket of each hash in hex digits: buckets in order have hashes in order."""
    digits = pl.col(column).str.head(8)
    first_bits = digits.str.to_integer(base=16, dtype=pl.Int64, strict=False).fill_null(0)
    return (first_bits * count // 2**32).cast(pl.UInt16)


def write_buckets(rows: pl.LazyFrame, bucket: pl.Expr, *, count: int, folder: Path) -> Buckets:
    """Divide rows by the number of their bucket, from 0 to `count` - 1, into a new `folder`.

    A single bucket stays in memory, and there is no folder.

    Raises:
        DiskFullError: there is no space.
    """
    schema = rows.collect_schema()
    numbered = rows.with_columns(bucket.cast(pl.UInt16).alias(_BUCKET))
    if count == 1:
        single = numbered.filter(pl.col(_BUCKET) == 0).drop(_BUCKET).collect(**STREAMED)
        return Buckets(folder, count, schema, single)
    with atomic.raise_disk_full(folder):
        numbered.sink_parquet(
            pl.PartitionBy(folder, key=_BUCKET, include_key=False),
            row_group_size=_BUCKET_ROW_GROUP,
            statistics=False,
            compression="zstd",
            compression_level=1,
            mkdir=True,
        )
    return Buckets(folder, count, schema)


def write_row_buckets(rows: pl.LazyFrame, *, num_rows: int, folder: Path) -> Buckets:
    """Divide rows by `row`, their number in a table of `num_rows` rows.

    Bucket n has rows from n * `PART_ROWS` to (n + 1) * `PART_ROWS` - 1.
    """
    bucket = pl.col("row") // PART_ROWS
    return write_buckets(rows, bucket, count=num_rows // PART_ROWS + 1, folder=folder)


def in_order(rows: pl.LazyFrame, column: str, *, folder: Path) -> Iterator[pl.DataFrame]:
    """Yield rows in ascending order of a column of unique texts, in parts.

    Each part is a sorted bucket in a new `folder`. A sample of the texts sets the bounds of the
    buckets, so that they have about equally many rows.
    """
    sample = rows.select(column).gather_every(_SAMPLED).collect(**STREAMED).to_series().sort()
    count = bucket_count(len(sample) * _SAMPLED)
    bounds = sample.gather([len(sample) * number // count for number in range(1, count)])
    bucket = pl.col(column).map_batches(
        partial(bounds.search_sorted, side="right"), return_dtype=pl.UInt32, is_elementwise=True
    )
    buckets = write_buckets(rows, bucket, count=count, folder=folder)
    return (part.sort(column) for part in buckets)


def joined_schema(*schemas: Mapping[str, pl.DataType]) -> pl.Schema:
    """Return the columns of several schemas; the later type of a name counts."""
    columns: dict[str, pl.DataType] = {}
    for schema in schemas:
        columns.update(schema)
    return pl.Schema(columns)


class PartWriter:
    """Write a table part by part into the files of a new folder; `scan` reads it.

    A file has several parts, which wait in memory until they are enough for it. A small table stays
    in memory, and there is no folder.
    """

    def __init__(self, folder: Path, schema: pl.Schema) -> None:
        """Take a folder, which must not exist yet, and the columns of the table."""
        self._folder = folder
        self._schema = schema
        self._waiting: list[pl.DataFrame] = []
        self._num_bytes = 0
        self._num_rows = 0
        self._num_files = 0

    def add(self, part: pl.DataFrame) -> None:
        """Add rows; columns that are not in the schema are left out."""
        if part.schema != self._schema:
            part = part.select(self._schema.names()).cast(self._schema)
        self._waiting.append(part)
        self._num_bytes += int(part.estimated_size())
        self._num_rows += len(part)
        if self._num_bytes > _FILE_BYTES or self._num_rows > _FILE_ROWS:
            self._write()

    def _write(self) -> None:
        """Write the rows that wait as the next file."""
        self._folder.mkdir(parents=True, exist_ok=self._num_files > 0)
        path = self._folder / f"{self._num_files:06d}.parquet"
        with atomic.raise_disk_full(path):
            pl.concat(self._waiting).write_parquet(
                path,
                compression="zstd",
                compression_level=1,
                statistics=False,
                row_group_size=_FILE_ROW_GROUP,
            )
        self._waiting = []
        self._num_bytes = 0
        self._num_rows = 0
        self._num_files += 1

    def scan(self) -> pl.LazyFrame:
        """Return the rows of all parts, in order; write those that wait unless they are few."""
        if not self._num_files and self._num_bytes <= _MOST_BYTES_IN_MEMORY:
            return pl.concat([pl.DataFrame(schema=self._schema), *self._waiting]).lazy()
        if self._waiting:
            self._write()
        files = sorted(self._folder.glob("*.parquet"))
        return pl.scan_parquet(files, glob=False, hive_partitioning=False)


def store(parts: Iterable[pl.DataFrame], folder: Path, schema: pl.Schema) -> pl.LazyFrame:
    """Write a table that comes in parts into a new folder, and return its rows, in order."""
    writer = PartWriter(folder, schema)
    for part in parts:
        writer.add(part)
    return writer.scan()
