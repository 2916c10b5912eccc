"""WebDataset shards: tars with `<key>.<extension>` and `<key>.json`.

Keys are escaped, as readers split at dots and slashes.

Headers are fixed, without times or owners: equal clips give equal files.
"""

import tarfile
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from nbaudio.corpus.containers.shard_files import ClipLocation, as_json, escape_key

# Header of ustar (POSIX.1-1988): 100 bytes of name, 12 of size from 124, 8 of checksum from 148,
# blanks while it is summed.
_BLANK = tarfile.TarInfo().tobuf(tarfile.USTAR_FORMAT)  # mode 644, dated 1970-01-01
_BEFORE = _BLANK[100:124]
_BETWEEN = _BLANK[135:148]
_AFTER = _BLANK[155:]
_SUM = sum(_BEFORE + _BETWEEN + _AFTER) + 7 * ord(" ")


def write(
    path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, **_: object
) -> list[ClipLocation]:
    """Write one tar; see `registry.WriteShard`."""
    rows = zip(metadata.iter_rows(named=True), audio, strict=True)
    return write_tar(
        path, ((escape_key(row["segment_id"]), clip, as_json(row)) for row, clip in rows), extension
    )


def write_tar(
    path: Path, clips: Iterable[tuple[str, bytes, bytes]], extension: str
) -> list[ClipLocation]:
    """Write `<key>.<extension>` and `<key>.json` for each (key, audio, JSON).

    Return the locations of the audio.
    """
    places = []
    with path.open("wb") as file:
        for key, audio, described in clips:
            for name, content in ((f"{key}.{extension}", audio), (f"{key}.json", described)):
                file.write(header(name, len(content)))
                places.append(ClipLocation(file.tell(), len(content)))
                file.writelines((content, bytes(-len(content) % tarfile.BLOCKSIZE)))
        file.write(bytes(2 * tarfile.BLOCKSIZE))
        file.write(bytes(-file.tell() % tarfile.RECORDSIZE))
    return places[::2]


def header(name: str, size: int) -> bytes:
    """Return the header of a member, with the same bytes as `tarfile`.

    It is made here because `tarfile` takes as long for the two headers of a clip as the disk
    takes for the clip.
    """
    if not name.isascii() or len(name) > 100 or size >= 8**11:
        member = tarfile.TarInfo(name)
        member.size = size
        return member.tobuf(tarfile.PAX_FORMAT)
    named = name.encode().ljust(100, b"\0")
    sized = b"%011o" % size
    checksum = b"%06o\0" % (_SUM + sum(named) + sum(sized))
    return b"".join((named, _BEFORE, sized, _BETWEEN, checksum, _AFTER))
