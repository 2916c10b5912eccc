"""Tables that come in parts: their amounts, their hash, and the Parquet file that holds them."""

import hashlib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from nbaudio.core.tables import ROWS_A_GROUP, parquet_slices

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
