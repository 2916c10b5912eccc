"""MDS shards, the format of MosaicML's `streaming/base/format/mds/writer.py`.

The columns are `audio` (bytes) and `json` (all metadata).
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.corpus.containers.base import ClipLocation, Shard, as_json, group_by_split

_COLUMNS = {
    "column_names": ["audio", "json"],
    "column_encodings": ["bytes", "json"],
    "column_sizes": [None, None],
}
_FORMAT = {
    "compression": None,
    "format": "mds",
    "hashes": [],
    "size_limit": None,
    "version": 2,
    **_COLUMNS,
}
# A shard: number of samples; offset of each and of the end (uint32); the columns; samples: sizes of
# their columns, then these.
_SIZES = struct.Struct("<II")
_MAX_BYTES = 1 << 32  # of a shard: offsets are uint32


def write(
    path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], **_: object
) -> list[ClipLocation]:
    """Write one MDS file; see `registry.WriteShard`."""
    described = as_json(_FORMAT)
    offsets = np.zeros(len(metadata) + 1, dtype="<u4")
    places = []
    with path.open("wb") as file:
        file.seek(4 + offsets.nbytes)
        file.write(described)
        for number, (row, clip) in enumerate(
            zip(metadata.iter_rows(named=True), audio, strict=True)
        ):
            details = as_json(row)
            if file.tell() + _SIZES.size + len(clip) + len(details) >= _MAX_BYTES:
                raise InputError(
                    f"{path.name}: an MDS shard holds less than 4 GiB; choose a smaller shard_size"
                )
            offsets[number] = file.tell()
            file.write(_SIZES.pack(len(clip), len(details)))
            places.append(ClipLocation(file.tell(), len(clip)))
            file.writelines((clip, details))
        offsets[-1] = file.tell()
        file.seek(0)
        file.write(struct.pack("<I", len(metadata)) + offsets.tobytes())
    return places


def side_files(shards: Sequence[Shard]) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Make the index of each split; see `registry.SideFiles`."""
    for split, own in group_by_split(shards).items():
        listed = []
        for shard in own:
            file = {"basename": Path(shard.name).name, "bytes": shard.num_bytes, "hashes": {}}
            listed.append(
                {**_FORMAT, "raw_data": file, "zip_data": None, "samples": shard.segments}
            )
        yield f"{split}/index.json", [as_json({"version": 2, "shards": listed})]
