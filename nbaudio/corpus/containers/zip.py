"""Zip shards that Hugging Face's AudioFolder reads, streaming or not: `metadata.jsonl`, and a file for every clip.

Nothing is compressed (audio is), so every clip is one byte range of the file. Dates and rights are fixed, so equal clips give
equal files.
"""

import zipfile
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from nbaudio.corpus.containers.base import ClipLocation, as_json, spread_names

_UNIX = 3


def write(path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None) -> list[ClipLocation]:
    """Write one zip; see `containers.WriteShard`."""
    del rate  # every clip's own header and metadata say it
    names = list(spread_names(metadata, extension))
    rows = zip(names, metadata.iter_rows(named=True), strict=True)
    places = []
    with path.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        # First, so that a reader of the stream knows what comes.
        archive.writestr(_member("metadata.jsonl"), b"".join(as_json({"file_name": name} | row) + b"\n" for name, row in rows))
        for name, clip in zip(names, audio, strict=True):
            archive.writestr(_member(name), clip)
            places.append(ClipLocation(file.tell() - len(clip), len(clip)))
    return places


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)  # dated 1980-01-01
    member.create_system, member.external_attr = _UNIX, 0o100644 << 16
    return member
