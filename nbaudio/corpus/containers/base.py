"""Shared parts of the containers: shards, clip locations, JSON metadata, escaped names, Arrow tables."""

import hashlib
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import polars as pl
import pyarrow as pa

from nbaudio.core.errors import InputError
from nbaudio.core.hashing import RESERVED_DEVICE_NAMES
from nbaudio.storage.folders import Folder

_LOCATED = pl.Schema(
    {"segment_id": pl.String, "shard": pl.String, "audio_sha256": pl.String, "offset": pl.Int64, "length": pl.Int64}
)
_VERSION = re.compile(r"/\w+-v(\d+)-\d{5}-of-")
_MAX_OFFSET, _MAX_CLIP_BYTES = 1 << 50, 1 << 32


class ClipLocation(NamedTuple):
    """Byte offset and length of a clip's audio, and the name of its file in a shard that is a folder."""

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
    sha256: str  # of its file, or of the list of its files
    plan: str  # a hash of everything that it was to hold
    rows: Path  # a local Parquet file as segments.parquet
    kept: bool = False  # it was already whole
    damaged: str | None = None  # it was not written, as this pack is damaged

    def metadata(self) -> pl.DataFrame:
        """Read the rows of its clips without the columns that writing added, except `shard`, the file of the clip."""
        return pl.read_parquet(self.rows, glob=False).drop("offset", "length", "audio_sha256")

    def to_json(self) -> dict[str, Any]:
        """Return its entry in corpus.json."""
        facts = {name: getattr(self, name) for name in ("name", "split", "segments", "sha256", "plan")}
        return {**facts, "bytes": self.num_bytes}


def group_by_split(shards: Sequence[Shard]) -> dict[str, list[Shard]]:
    """Shards by split, both in order."""
    splits = dict.fromkeys(shard.split for shard in shards)
    return {split: [shard for shard in shards if shard.split == split] for split in splits}


def version_of(shard: str) -> int:
    """Return the version of the corpus that a shard came with, from its name; 1 for a name without one."""
    found = _VERSION.search(shard)
    return int(found[1]) if found else 1


def clips_in(shard: str) -> pl.Expr:
    """Whether a row of segments.parquet is of a clip in this shard, which is a file or a folder of files."""
    return (pl.col("shard") == shard) | pl.col("shard").str.starts_with(f"{shard}/")


def verified_clip(data: bytes, sha256: str) -> bytes | None:
    """Return the clip with these bytes, or with these levels if a container stores levels alone; None if its hash differs."""
    if hashlib.sha256(data).hexdigest() == sha256:
        return data
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (len(data),)})
    whole = header.getvalue() + data
    return whole if hashlib.sha256(whole).hexdigest() == sha256 else None


def as_json(value: Any) -> bytes:
    """Encode a row of metadata, or one of its values, as one line of JSON; equal values give equal bytes."""
    try:
        return _encode(value).encode()
    except ValueError:  # JSON has no NaN and no infinity
        return _encode(_finite(value)).encode()


_encode = partial(json.dumps, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def escape_key(segment_id: str) -> str:
    """Escape an id to ASCII letters, digits, ``-``, ``_`` and ``%``, as `urllib.parse.unquote` reverses."""
    return escape_device(quote(segment_id, safe="").replace(".", "%2E").replace("~", "%7E"))


def escape_device(name: str) -> str:
    """Escape the first letter of a name that Windows reserves for a device."""
    return f"%{ord(name[0]):02X}{name[1:]}" if RESERVED_DEVICE_NAMES.fullmatch(name) else name


def metadata_table(metadata: pl.DataFrame) -> pa.Table:
    """Convert metadata to Arrow types that every reader knows; Arrow dictionaries would differ from shard to shard."""
    table = metadata.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String)).to_arrow()
    return table.cast(pa.schema([pa.field(field.name, _small(field.type)) for field in table.schema]))


def _small(kind: pa.DataType) -> pa.DataType:
    """Return the 32-bit-offset form of an Arrow type, which every reader knows."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _small(f.type)) for f in kind])
    return kind


def check_locations(folder: Folder, segments: pl.DataFrame) -> None:
    """Raise `InputError` if a clip of segments.parquet has no shard, hash, or possible byte range."""
    table = f"{folder}/segments.parquet"
    if missing := [name for name in _LOCATED if name not in segments.columns]:
        raise InputError(f"{table}: the column {missing[0]} is missing; is {folder} a corpus?")
    try:
        located = segments.select(pl.col(name).cast(dtype) for name, dtype in _LOCATED.items())
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{table}: {' '.join(str(error).split())}; is {folder} a corpus?") from error
    within = pl.col("offset").is_between(0, _MAX_OFFSET) & pl.col("length").is_between(1, _MAX_CLIP_BYTES)
    bad = located.filter(pl.any_horizontal(pl.col(*_LOCATED).is_null()) | ~within)
    if len(bad):
        key, shard, _, offset, length = bad.row(0)
        raise InputError(f"{table}: {key!r} cannot be in {shard} at byte {offset}, {length} bytes long; is {folder} a corpus?")
