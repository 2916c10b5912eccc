"""Zip shards as AudioFolder reads them.

A shard has `metadata.jsonl`, then clips, uncompressed (as byte ranges) and with fixed dates.
"""

import zipfile
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from nbaudio.core.hashing import clip_file_names, hash_column
from nbaudio.corpus.containers.shard_files import ClipLocation, as_json

_UNIX = 3


def write(
    path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, **_: object
) -> list[ClipLocation]:
    """Write one zip; see `registry.WriteShard`."""
    plain = clip_file_names(metadata["segment_id"].to_list(), extension)
    # One of 256 folders, by a hash of the segment.
    folders = hash_column(metadata["segment_id"], "folder")
    names = [
        f"{n >> 56:02x}/{name.replace('.', ',', name.count('.') - 1)}"
        for n, name in zip(folders, plain, strict=True)
    ]
    rows = zip(names, metadata.iter_rows(named=True), strict=True)
    places = []
    with path.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        # Metadata come first: streaming readers need them before the clips.
        archive.writestr(
            _member("metadata.jsonl"),
            b"".join(as_json({"file_name": name} | row) + b"\n" for name, row in rows),
        )
        for name, clip in zip(names, audio, strict=True):
            archive.writestr(_member(name), clip)
            places.append(ClipLocation(file.tell() - len(clip), len(clip)))
    return places


def _member(name: str) -> zipfile.ZipInfo:
    """Return the header of a member; equal names give equal bytes."""
    member = zipfile.ZipInfo(name)  # dated 1980-01-01
    member.create_system = _UNIX
    member.external_attr = 0o100644 << 16
    return member
