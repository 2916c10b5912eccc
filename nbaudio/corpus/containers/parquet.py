"""Parquet shards that Hugging Face `datasets` loads with an Audio column.

One row per clip: `audio` is a struct of the encoded bytes and a file name, all other columns are the metadata. The schema carries
the `datasets` features. Audio is stored plain (it is compressed already), so that every clip is one byte range of the file.
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
from nbaudio.corpus.containers.base import ClipLocation
from nbaudio.corpus.containers.webdataset import escape_key

# `datasets` streams by row group: few enough rows to start soon and to reach one clip without reading many.
_ROWS_A_GROUP = 100
# Bytes of a clip that are compared to find it in the file: beyond a FLAC's checksum of its samples.
_HEAD = 64

_AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write(path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None) -> list[ClipLocation]:
    """Write one Parquet file; see `containers.WriteShard`."""
    schema = _schema(metadata, rate, extension)
    plain = "audio.bytes"
    leaves = [plain, "audio.path", *_leaves(schema)]
    heads: list[tuple[int, bytes]] = []
    clips = iter(audio)
    with pq.ParquetWriter(
        path,
        schema,
        compression={name: "NONE" if name == plain else "ZSTD" for name in leaves},
        use_dictionary=False,
        write_statistics=[name for name in leaves if name != plain],
    ) as writer:
        for part in metadata.iter_slices(_ROWS_A_GROUP):
            data = list(islice(clips, len(part)))
            names = [f"{escape_key(key)}.{extension}" for key in part["segment_id"]]
            column = pa.StructArray.from_arrays([pa.array(data, pa.binary()), pa.array(names)], fields=list(_AUDIO))
            described = without_categories(part).to_arrow().cast(pa.schema(list(schema)[1:]))
            writer.write_table(described.add_column(0, schema.field(0), column), row_group_size=_ROWS_A_GROUP)
            heads += [(len(clip), clip[:_HEAD]) for clip in data]
    return _places(path, heads)


def without_categories(metadata: pl.DataFrame) -> pl.DataFrame:
    """Categories as strings: Arrow dictionaries would differ from shard to shard."""
    return metadata.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))


def _schema(metadata: pl.DataFrame, rate: int | None, extension: str) -> pa.Schema:
    fields = metadata_fields(metadata)
    audio: dict[str, Any] = {"_type": "Audio"} if rate is None else {"sampling_rate": rate, "_type": "Audio"}
    # `datasets` decodes no .npy: there the column is what it is, bytes and a name.
    features = {"audio": audio if extension != "npy" else _feature(_AUDIO)} | {
        field.name: _feature(field.type) for field in fields
    }
    described = json.dumps({"info": {"features": features}}, sort_keys=True)
    return pa.schema([pa.field("audio", _AUDIO), *fields], metadata={"huggingface": described})


def metadata_fields(metadata: pl.DataFrame) -> list[pa.Field]:
    """The columns of metadata as every reader knows them."""
    return [pa.field(f.name, _small(f.type)) for f in without_categories(metadata.clear()).to_arrow().schema]


def _small(kind: pa.DataType) -> pa.DataType:
    """The 32-bit-offset form of an Arrow type, which every reader knows."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _small(f.type)) for f in kind])
    return kind


def _feature(kind: pa.DataType) -> Any:
    """How `datasets` describes a type."""
    if pa.types.is_list(kind):
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {f.name: _feature(f.type) for f in kind}
    names = {pa.float32(): "float32", pa.float64(): "float64"}
    return {"dtype": names.get(kind, str(kind)), "_type": "Value"}


def _leaves(schema: pa.Schema) -> list[str]:
    """Column paths of the metadata as Parquet names them."""
    parquet_schema = pq.ParquetFile(_empty(schema)).schema
    return [parquet_schema.column(i).path for i in range(2, len(parquet_schema))]


def _empty(schema: pa.Schema) -> pa.BufferReader:
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    return pa.BufferReader(sink.getvalue())


def _places(path: Path, heads: list[tuple[int, bytes]]) -> list[ClipLocation]:
    """Where each clip's bytes are: Parquet's plain encoding puts them behind their length, in order."""
    places: list[ClipLocation] = []
    if not heads:
        return places
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        position = 0
        for length, head in heads:
            found = view.find(struct.pack("<I", length) + head, position)
            if found < 0:
                raise NbaudioError(f"{path}: clip {len(places)} is not stored plain; pyarrow {pa.__version__} writes otherwise")
            places.append(ClipLocation(found + 4, length))
            position = found + 4 + length
    return places
