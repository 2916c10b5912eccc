"""The index of a pack: where the bytes of each clip are. It is at the end of the file.

A trailer behind the index has its length, its SHA-256, and the mark of a pack. A pack without a
trailer is incomplete. Workers import this module when they start, so it imports no Polars.
"""

import hashlib
import json
import struct
from collections.abc import Sequence

import msgspec

from nbaudio.core.errors import AudioError
from nbaudio.storage.location import Location

_TRAILER = struct.Struct("<Q32s8s")  # length of the index, its SHA-256, `_MAGIC`
_MAGIC = b"nbpack01"

IndexRow = tuple[str, int, int, int, str]
"""Key of a clip, its offset and length in bytes, its number of samples, its SHA-256."""

_decode_rows = msgspec.json.Decoder(list[IndexRow]).decode


def index_bytes(rows: Sequence[IndexRow]) -> bytes:
    """Return the index of a pack as JSON, and the trailer."""
    encoded = json.dumps(rows, separators=(",", ":")).encode()
    return encoded + _TRAILER.pack(len(encoded), hashlib.sha256(encoded).digest(), _MAGIC)


def read_rows(pack: Location) -> list[IndexRow] | None:
    """Read the index of a pack; None if the pack is incomplete or damaged.

    Raise OSError or AudioError if a remote pack cannot be read.
    """
    try:
        size = pack.status().num_bytes
        end = size - _TRAILER.size
        if end < 0:
            return None
        length, checksum, magic = _TRAILER.unpack(pack.read(end, size))
        if magic != _MAGIC or length > end:
            return None
        encoded = pack.read(end - length, end)
    except (OSError, AudioError):
        if pack.local is None:
            raise
        return None
    if hashlib.sha256(encoded).digest() != checksum:
        return None
    return _decode_rows(encoded)
