"""Places of clips in the shards of a corpus, and the check of a clip's bytes.

The module does not import polars, as every stream imports it.
"""

import hashlib
import io
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.storage.folders import Folder

PLACES = ("segment_id", "shard", "audio_sha256", "offset", "length")
_MAX_OFFSET = 1 << 50
_MAX_CLIP_BYTES = 1 << 32


def verified_clip(content: bytes | memoryview, sha256: str) -> bytes | memoryview | None:
    """Return the clip with these bytes, or with these levels if a container stores levels alone.

    Return None if its hash differs.
    """
    if hashlib.sha256(content).hexdigest() == sha256:
        return content
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (len(content),)}
    )
    whole = header.getvalue() + content
    if hashlib.sha256(whole).hexdigest() == sha256:
        return whole
    return None


def check_locations(folder: Folder, segments: pa.Table) -> None:
    """Raise InputError if a clip of segments.parquet has no shard, hash or possible byte range."""
    table = f"{folder}/segments.parquet"
    if missing := [name for name in PLACES if name not in segments.column_names]:
        raise InputError(f"{table}: the column {missing[0]} is missing; is {folder} a corpus?")
    if wrong := [
        field
        for field in map(segments.schema.field, ("offset", "length"))
        if not pa.types.is_integer(field.type)
    ]:
        raise InputError(
            f"{table}: the column {wrong[0].name} is {wrong[0].type}; is {folder} a corpus?"
        )
    offset, length = (
        np.concatenate([np.zeros(0), *map(values, segments[name].chunks)])
        for name in ("offset", "length")
    )
    fits = (offset >= 0) & (offset <= _MAX_OFFSET) & (length >= 1) & (length <= _MAX_CLIP_BYTES)
    for name in ("segment_id", "shard", "audio_sha256"):
        if segments[name].null_count:
            fits &= np.array(segments[name].is_valid().to_pylist())
    if not fits.all():
        key, shard, _, start, size = (
            segments.select(PLACES).slice(int(fits.argmin()), 1).to_pylist()[0].values()
        )
        raise InputError(
            f"{table}: {key!r} cannot be in {shard} at byte {start}, {size} bytes long; "
            f"is {folder} a corpus?"
        )


def values(column: pa.Array) -> NDArray[Any]:
    """Return numbers (NaN for null) or objects as an array.

    Pyarrow's own conversion would import pandas.
    """
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if is_number and not column.null_count:
        return np.from_dlpack(column)
    return np.array(column.to_pylist(), float if is_number else object)
