"""Hashes and file names that depend on their keys alone, the same in every version and on every machine."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from nbaudio.core.dataframes import with_values

#: Names that Windows reserves for devices, whatever follows the first dot.
RESERVED_DEVICE_NAMES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
RowHashes = Callable[[pl.Series, str], pl.Series]
"""Returns `hash_column` of the ids of some rows of a table, by their ascending numbers, and a salt."""

_SAFE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,119}")


def hash_column(keys: pl.Series, salt: str) -> pl.Series:
    """Return a 64-bit hash of each key (BLAKE2b of its UTF-8, keyed by `salt`) as u64; null counts as an empty key."""
    start = hashlib.blake2b(digest_size=8, key=hashlib.sha256(salt.encode()).digest())
    hashes = bytearray()
    for key in keys.fill_null(""):
        one = start.copy()
        one.update(key.encode())
        hashes += one.digest()
    return pl.Series("hash", np.frombuffer(bytes(hashes), dtype="<u8"))


def clip_file_names(segment_ids: Sequence[str], ending: str = "wav") -> list[str]:
    """Return a safe file name per segment: its id if that is plain and unique in any case, else with ``_`` and a hash."""
    folded = Counter(segment_id.casefold() for segment_id in segment_ids)

    def name(segment_id: str) -> str:
        plain = _SAFE_NAME.fullmatch(segment_id) and not RESERVED_DEVICE_NAMES.fullmatch(segment_id)
        if plain and folded[segment_id.casefold()] == 1:
            return f"{segment_id}.{ending}"
        cleaned = re.sub(r"[^A-Za-z0-9_-]", "_", segment_id)[:100]
        return f"{cleaned}-{hashlib.sha256(segment_id.encode()).hexdigest()[:16]}.{ending}"

    return [name(segment_id) for segment_id in segment_ids]


def row_hashes(segments: pl.LazyFrame) -> RowHashes:
    """Return a function that hashes the ids of rows without holding the ids."""
    ids = segments.select("segment_id")

    def hashes(rows: pl.Series, salt: str) -> pl.Series:
        places = rows.to_numpy()
        wanted = np.zeros(int(places[-1]) + 1 if len(places) else 0, dtype=np.bool_)
        wanted[places] = True
        some = with_values(ids.head(len(wanted)), [pl.Series("wanted", wanted)]).filter("wanted").select("segment_id")
        parts = [hash_column(part["segment_id"], salt) for part in some.collect_batches(maintain_order=True)]
        return pl.concat([pl.Series("hash", dtype=pl.UInt64), *parts])

    return hashes
