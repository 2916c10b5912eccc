"""Shared parts of the containers.

These are shards, clip locations, JSON metadata, escaped names and Arrow tables.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import polars as pl
import pyarrow as pa

from nbaudio.core.hashing import RESERVED_DEVICE_NAMES
from nbaudio.tables.parquet_files import read_parquet

_VERSION = re.compile(r"/\w+-v(\d+)-\d{5}-of-")


class ClipLocation(NamedTuple):
    """Byte offset and length of a clip's audio.

    In a shard that is a folder, `file` is the name of the clip's file.
    """

    offset: int
    length: int
    file: str = ""


@dataclass(frozen=True)
class Shard:
    """A shard of a corpus, named by its path in it."""

    name: str
    split: str
    segments: int
    num_bytes: int
    sha256: str  # SHA-256 of its file, or of the list of its files
    plan: str  # a hash of everything that it was to hold
    rows: Path  # a local Parquet file as segments.parquet
    was_whole: bool = False  # it was complete before this run
    damaged: str | None = None  # it was not written, as this pack is damaged

    def metadata(self) -> pl.DataFrame:
        """Read the rows of its clips without the columns that writing added.

        Of these, only `shard`, the file of the clip, is kept.
        """
        return read_parquet(self.rows).drop(
            "offset", "length", "audio_sha256", ADDED_IN, strict=False
        )

    def to_json(self) -> dict[str, Any]:
        """Return its entry in corpus.json."""
        facts = {
            name: getattr(self, name) for name in ("name", "split", "segments", "sha256", "plan")
        }
        return {**facts, "bytes": self.num_bytes}


def group_by_split(shards: Sequence[Shard]) -> dict[str, list[Shard]]:
    """Shards by split, both in order."""
    splits = dict.fromkeys(shard.split for shard in shards)
    return {split: [shard for shard in shards if shard.split == split] for split in splits}


ADDED_IN = "added_in"
"""Column of a corpus's table: the version that a segment was added in."""


def version_of(shard: str) -> int:
    """Return the version of the corpus that a shard came with, from its name.

    A name without a version stands for version 1.
    """
    match = _VERSION.search(shard)
    return int(match[1]) if match else 1


def shard_of_clip() -> pl.Expr:
    """Return the name of the shard of each row of segments.parquet, whose `shard` is a file.

    A shard is that file, or the folder of the file in the folder of its split.
    """
    folder = pl.col("shard").str.extract("^([^/]+/[^/]+)/")
    return pl.coalesce(folder, "shard")


def as_json(value: Any) -> bytes:
    """Encode a row of metadata, or one of its values, as one line of JSON.

    Equal values give equal bytes.
    """
    try:
        return _encode(value).encode()
    except ValueError:  # JSON has no NaN and no infinity
        return _encode(_finite(value)).encode()


_encode = partial(
    json.dumps,
    ensure_ascii=False,
    sort_keys=True,
    separators=(",", ":"),
    default=str,
    allow_nan=False,
)


def _finite(value: Any) -> Any:
    """Return a value of JSON with null for each number that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def escape_key(segment_id: str) -> str:
    """Escape an id to ASCII letters, digits, ``-``, ``_`` and ``%``.

    `urllib.parse.unquote` reverses it.
    """
    return escape_device(quote(segment_id, safe="").replace(".", "%2E").replace("~", "%7E"))


def escape_device(name: str) -> str:
    """Escape the first letter of a name that Windows reserves for a device."""
    if RESERVED_DEVICE_NAMES.fullmatch(name):
        return f"%{ord(name[0]):02X}{name[1:]}"
    return name


def metadata_table(metadata: pl.DataFrame) -> pa.Table:
    """Convert metadata to Arrow types that every reader knows.

    Arrow dictionaries would differ from shard to shard.
    """
    table = metadata.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String)).to_arrow()
    return table.cast(
        pa.schema([pa.field(field.name, _small(field.type)) for field in table.schema])
    )


def _small(kind: pa.DataType) -> pa.DataType:
    """Return the 32-bit-offset form of an Arrow type, which every reader knows."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _small(f.type)) for f in kind])
    return kind
