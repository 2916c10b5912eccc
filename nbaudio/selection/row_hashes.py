"""Hashes of the ids of some rows of a table that is not in memory: the order of seeded draws."""

from collections.abc import Callable

import numpy as np
import polars as pl

from nbaudio.core.hashing import hash_column

RowHashes = Callable[[pl.Series, str], pl.Series]
"""Returns `hash_column` of the ids of some rows of a table, by their ascending numbers, and a salt."""


def row_hashes(segments: pl.LazyFrame) -> RowHashes:
    """Return a function that hashes the ids of rows without holding the ids."""
    ids = segments.select("segment_id")

    def hashes(rows: pl.Series, salt: str) -> pl.Series:
        places = rows.to_numpy()
        wanted = np.zeros(int(places[-1]) + 1 if len(places) else 0, dtype=np.bool_)
        wanted[places] = True
        flags = pl.LazyFrame({"wanted": wanted})
        some = pl.concat([ids.head(len(wanted)), flags], how="horizontal").filter("wanted").select("segment_id")
        parts = [hash_column(part["segment_id"], salt) for part in some.collect_batches(maintain_order=True)]
        return pl.concat([pl.Series("hash", dtype=pl.UInt64), *parts])

    return hashes
