"""Hashes and file names that depend on their keys alone.

They are the same in every version and on every machine.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl

#: Names that Windows reserves for devices, whatever follows the first dot.
RESERVED_DEVICE_NAMES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,119}")


def hash_column(keys: pl.Series, salt: str) -> pl.Series:
    """Return a 64-bit hash of each key (BLAKE2b of its UTF-8, keyed by `salt`) as u64.

    Null counts as an empty key.
    """
    start = hashlib.blake2b(digest_size=8, key=hashlib.sha256(salt.encode()).digest())
    copy = start.copy
    hashes = bytearray()
    for key in keys.fill_null("").cast(pl.Binary).to_list():
        hasher = copy()
        hasher.update(key)
        hashes += hasher.digest()
    return pl.Series("hash", np.frombuffer(bytes(hashes), dtype="<u8"))


def json_hash(value: object) -> str:
    """Return a hash of a value, 16 hex digits: of its JSON, whatever the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def clip_file_names(segment_ids: Sequence[str], ending: str = "wav") -> list[str]:
    """Return a safe file name per segment.

    It is the segment's id if that is plain and unique regardless of case, else the id with ``_``
    and a hash.
    """
    folded = Counter(segment_id.casefold() for segment_id in segment_ids)

    def name(segment_id: str) -> str:
        plain = _SAFE_NAME.fullmatch(segment_id) and not RESERVED_DEVICE_NAMES.fullmatch(segment_id)
        if plain and folded[segment_id.casefold()] == 1:
            return f"{segment_id}.{ending}"
        cleaned = re.sub(r"[^A-Za-z0-9_-]", "_", segment_id)[:100]
        return f"{cleaned}-{hashlib.sha256(segment_id.encode()).hexdigest()[:16]}.{ending}"

    return [name(segment_id) for segment_id in segment_ids]
