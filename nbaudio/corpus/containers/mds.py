"""MDS shards as `streaming.StreamingDataset` of MosaicML reads them: columns `audio` (bytes) and `json` (all metadata).

A shard is the number of samples, the offset of each and of the end (uint32, little endian), a description of the columns, and the
samples: sizes of their columns, then the columns. Each split has an `index.json`, which lists its shards. Source: the library's
documentation and its `streaming/base/format/mds/writer.py`, which gives other bytes for another number of workers.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.corpus.containers.base import ClipLocation, WrittenShard, as_json

_COLUMNS = {
    "compression": None,
    "format": "mds",
    "hashes": [],
    "size_limit": None,
    "version": 2,
    "column_names": ["audio", "json"],
    "column_encodings": ["bytes", "json"],
    "column_sizes": [None, None],
}
_SIZES = struct.Struct("<II")
_MOST_BYTES = 1 << 32


def write(path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None) -> list[ClipLocation]:
    """Write one MDS file; see `containers.WriteShard`.

    Raises:
        InputError: the shard would be larger than 4 GiB, which its offsets cannot tell.
    """
    del extension, rate  # every clip's own header and metadata say it
    described = as_json(_COLUMNS)
    offsets = np.zeros(len(metadata) + 1, dtype="<u4")
    places = []
    with path.open("wb") as file:
        file.seek(4 + offsets.nbytes)
        file.write(described)
        for number, (row, clip) in enumerate(zip(metadata.iter_rows(named=True), audio, strict=True)):
            told = as_json(row)
            if file.tell() + _SIZES.size + len(clip) + len(told) >= _MOST_BYTES:
                raise InputError(f"{path.name}: an MDS shard holds less than 4 GiB; choose a smaller shard_size")
            offsets[number] = file.tell()
            file.write(_SIZES.pack(len(clip), len(told)))
            places.append(ClipLocation(file.tell(), len(clip)))
            file.writelines((clip, told))
        offsets[-1] = file.tell()
        file.seek(0)
        file.write(struct.pack("<I", len(metadata)) + offsets.tobytes())
    return places


def beside(shards: Sequence[WrittenShard]) -> Iterator[tuple[str, Iterable[bytes]]]:
    """The index of each split; see `containers.WriteBeside`."""
    for split in dict.fromkeys(shard.split for shard in shards):
        listed = [_listed(shard) for shard in shards if shard.split == split]
        yield f"{split}/index.json", [as_json({"version": 2, "shards": listed})]


def _listed(shard: WrittenShard) -> dict[str, Any]:
    file = {"basename": Path(shard.name).name, "bytes": shard.num_bytes, "hashes": {}}
    return {**_COLUMNS, "raw_data": file, "zip_data": None, "samples": shard.segments}
