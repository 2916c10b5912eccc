"""Parquet shards that `datasets` loads with an Audio column, which is stored uncompressed.

Every clip is one byte range.
"""

import json
import mmap
import struct
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nbaudio.core.errors import NbaudioError
from nbaudio.corpus.containers.shard_files import ClipLocation, escape_key, metadata_table

# `datasets` streams by row group: with few rows it starts soon and reaches one clip without reading
# many
_ROW_GROUP = 100
# Bytes of a clip that are compared to find it in the file: past the checksum in a FLAC header
_HEAD = 64

_AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write(
    path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None
) -> list[ClipLocation]:
    """Write one Parquet file; see `registry.WriteShard`."""
    schema = _schema(metadata, rate, extension)
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    columns = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    # The options take the paths of columns in Parquet, which an empty file has; the audio is stored
    # plain.
    leaves = [columns.column(number).path for number in range(len(columns))]
    described = [name for name in leaves if name != "audio.bytes"]
    heads: list[tuple[int, bytes]] = []
    clips = iter(audio)
    codecs = dict.fromkeys(leaves, "NONE") | dict.fromkeys(described, "ZSTD")
    with pq.ParquetWriter(
        path, schema, compression=codecs, use_dictionary=False, write_statistics=described
    ) as writer:
        for part in metadata.iter_slices(_ROW_GROUP):
            part_clips = list(islice(clips, len(part)))
            names = [f"{escape_key(key)}.{extension}" for key in part["segment_id"]]
            column = pa.StructArray.from_arrays(
                [pa.array(part_clips, pa.binary()), pa.array(names)], fields=list(_AUDIO)
            )
            writer.write_table(
                metadata_table(part).add_column(0, schema.field(0), column),
                row_group_size=_ROW_GROUP,
            )
            heads += [(len(clip), clip[:_HEAD]) for clip in part_clips]
    return _locations(path, heads)


def _schema(metadata: pl.DataFrame, rate: int | None, extension: str) -> pa.Schema:
    """Return the schema of a shard, with the features that `datasets` reads in its metadata."""
    fields = list(metadata_table(metadata.clear()).schema)
    features: dict[str, Any] = {field.name: _feature(field.type) for field in fields}
    if extension == "npy":
        # `datasets` does not decode it: that column stays a struct of bytes and a name.
        features["audio"] = _feature(_AUDIO)
    elif rate is None:
        features["audio"] = {"_type": "Audio"}
    else:
        features["audio"] = {"_type": "Audio", "sampling_rate": rate}
    described = json.dumps({"info": {"features": features}}, sort_keys=True)
    return pa.schema([pa.field("audio", _AUDIO), *fields], metadata={"huggingface": described})


def _feature(kind: pa.DataType) -> Any:
    """Describe a type as `datasets` does."""
    if pa.types.is_list(kind):
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {f.name: _feature(f.type) for f in kind}
    names = {pa.float32(): "float32", pa.float64(): "float64"}
    return {"dtype": names.get(kind, str(kind)), "_type": "Value"}


def _locations(path: Path, heads: list[tuple[int, bytes]]) -> list[ClipLocation]:
    """Find each clip's bytes: Parquet's plain encoding stores them after their length, in order."""
    places: list[ClipLocation] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        position = 0
        for length, head in heads:
            offset = view.find(struct.pack("<I", length) + head, position)
            if offset < 0:
                raise NbaudioError(
                    f"{path}: clip {len(places)} is not stored as plain bytes by pyarrow "
                    f"{pa.__version__}"
                )
            places.append(ClipLocation(offset + 4, length))
            position = offset + 4 + length
    return places
