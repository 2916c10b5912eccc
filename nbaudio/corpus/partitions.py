"""Tables larger than memory, on disk.

They are rows by bucket, frames one after the other, and Parquet files that come in parts.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nbaudio.core.atomic import raise_disk_full
from nbaudio.core.tables import ROWS_A_GROUP, parquet_slices

BUCKET_ROWS = 1 << 16  # rows that are in memory at once
_BLOCK_BYTES = 32 << 20  # rows that wait, for all buckets, until they are appended
_NUMBER = "\0bucket"


class Buckets:
    """Rows in files by number of their bucket; within one they keep their order.

    Columns are of plain types.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        """Divide about so many `rows` into `count` buckets, as files in a new `folder`."""
        self.count = max(1, -(-rows // BUCKET_ROWS))
        self._folder = folder
        self._waiting: list[pl.DataFrame] = []
        self._num_bytes = 0
        folder.mkdir(parents=True)

    def add(self, rows: pl.DataFrame, bucket: pl.Expr | pl.Series) -> None:
        """Add rows, each to the bucket of this number; where it is null, to none."""
        numbered = rows.with_columns(
            pl.col(pl.Enum, pl.Categorical).cast(pl.String), bucket.cast(pl.Int64).alias(_NUMBER)
        )
        self._empty = numbered.drop(_NUMBER).clear()
        self._waiting.append(numbered.drop_nulls(_NUMBER))
        self._num_bytes += int(numbered.estimated_size())
        if self._num_bytes > _BLOCK_BYTES:
            self._flush()

    def add_by_key(self, rows: pl.DataFrame) -> None:
        """Add rows by their `clip_key`.

        Rows with equal keys are in the same bucket, also in two tables for equally many rows.
        """
        place = (
            pl.col("clip_key")
            .str.head(8)
            .str.to_integer(base=16, dtype=pl.Int64, strict=False)
            .fill_null(0)
        )
        self.add(rows, place * self.count // 2**32)

    def _flush(self) -> None:
        waiting = self._waiting
        self._waiting = []
        self._num_bytes = 0
        parts = (
            pl.concat(waiting).partition_by(_NUMBER, as_dict=True, include_key=False)
            if waiting
            else {}
        )
        waiting.clear()
        while parts:
            (number,), part = parts.popitem()
            append_stream(self._path(number), part)

    def _path(self, number: object) -> Path:
        return self._folder / f"{number}.arrows"

    def read(self, number: int, *, remove: bool = False) -> pl.DataFrame:
        """Return the rows of a bucket."""
        self._flush()
        path = self._path(number)
        parts: list[pl.DataFrame] = [self._empty, *(read_streams(path) if path.exists() else ())]
        if remove:
            path.unlink(missing_ok=True)
        return pl.concat(parts).rechunk()

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Yield the rows of each bucket, in order of their numbers."""
        return map(self.read, range(self.count))


def append_stream(path: Path, frame: pl.DataFrame) -> None:
    """Append a frame to a file as an Arrow stream of its own."""
    with raise_disk_full(path), path.open("ab") as file:
        frame.write_ipc_stream(file, compression="zstd", compat_level=pl.CompatLevel.oldest())


def read_streams(path: Path) -> Iterator[pl.DataFrame]:
    """Yield each Arrow stream of a file as a frame."""
    with pa.OSFile(str(path)) as file:
        while file.tell() < file.size():
            yield pl.DataFrame(pa.ipc.open_stream(file).read_all())


NO_AMOUNTS = {"segments": 0, "hours": 0.0, "speakers": 0, "recordings": 0}


def amounts_by_split(path: Path) -> dict[str, dict[str, Any]]:
    """Return the `amounts` of each split of a table in a file, which need not fit into memory."""
    found: dict[str, dict[str, Any]] = {}
    for part in parquet_slices(path, ("split", "duration_s")):  # always added in the same order
        for split, segments, seconds in (
            part.group_by("split").agg(pl.len(), pl.col("duration_s").sum()).iter_rows()
        ):
            one = found.setdefault(split, {"segments": 0, "hours": 0.0})
            one["segments"] += segments
            one["hours"] += seconds
    for split, one in found.items():
        one["hours"] = round(one["hours"] / 3600, 6)
        of_split = pl.scan_parquet(path, glob=False).filter(
            pl.col("split").eq_missing(pl.lit(split, pl.String))
        )
        for name, column in (
            ("speakers", pl.col("speaker_id").drop_nulls()),
            ("recordings", pl.col("recording_id")),
        ):
            one[name] = (
                of_split.select(column).unique().select(pl.len()).collect(engine="streaming").item()
            )
    return found


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
        state.update(b"" if number else ",".join(part.columns).encode())
        state.update(part.write_ndjson().encode())
    return state.hexdigest()
