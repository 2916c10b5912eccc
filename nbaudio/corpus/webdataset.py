"""WebDataset shards: tar files with `<key>.<audio extension>` and `<key>.json` for every clip.

Headers are fixed (no time, no owner), so equal clips give equal files. WebDataset and Hugging Face split names at the first dot
and take a slash for a folder, so keys are percent-encoded; the plain `segment_id` is in the JSON.
"""

import tarfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, unquote

import polars as pl

from nbaudio.corpus.entries import Place, as_json


def escape_key(segment_id: str) -> str:
    """A key without dots, slashes, blanks or anything but ASCII letters, digits, ``-`` and ``_``; `unescape_key` undoes it.

    Examples:
        >>> escape_key("HlauTe_NK6U_3207.7-3227.54")
        'HlauTe_NK6U_3207%2E7-3227%2E54'
    """
    return quote(segment_id, safe="").replace(".", "%2E").replace("~", "%7E")


def unescape_key(key: str) -> str:
    """The segment id of an escaped key.

    Examples:
        >>> unescape_key("HlauTe_NK6U_3207%2E7-3227%2E54")
        'HlauTe_NK6U_3207.7-3227.54'
    """
    return unquote(key)


def write(path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None) -> list[Place]:
    """Write one tar; see `containers.WriteShard`."""
    del rate  # every clip's own header and metadata say it
    places = []
    with path.open("wb") as file:
        for row, clip in zip(metadata.iter_rows(named=True), audio, strict=True):
            key = escape_key(row["segment_id"])
            file.write(_header(f"{key}.{extension}", len(clip)))
            places.append(Place(file.tell(), len(clip)))
            file.write(_padded(clip))
            described = as_json(row)
            file.write(_header(f"{key}.json", len(described)) + _padded(described))
        file.write(bytes(2 * tarfile.BLOCKSIZE))
        file.write(bytes(-file.tell() % tarfile.RECORDSIZE))
    return places


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.PAX_FORMAT)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % tarfile.BLOCKSIZE)
