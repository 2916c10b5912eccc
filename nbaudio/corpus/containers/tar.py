"""Tar shards with fixed headers and no times or owners: equal clips give equal files."""

import tarfile
from collections.abc import Iterable
from pathlib import Path

from nbaudio.corpus.containers.base import ClipLocation

_MODE = 0o644
# Header fields that differ between members (POSIX.1-1988, ustar).
_NAME, _SIZE, _CHECKSUM = slice(0, 100), slice(124, 136), slice(148, 156)
_MAX_USTAR_BYTES = 8**11


def write_tar(path: Path, clips: Iterable[tuple[str, bytes, bytes]], extension: str) -> list[ClipLocation]:
    """Write `<key>.<extension>` and `<key>.json` for each (key, audio, JSON); return the locations of the audio."""
    places = []
    with path.open("wb") as file:
        for key, audio, described in clips:
            for name, data in ((f"{key}.{extension}", audio), (f"{key}.json", described)):
                file.write(header(name, len(data)))
                places.append(ClipLocation(file.tell(), len(data)))
                file.writelines((data, bytes(-len(data) % tarfile.BLOCKSIZE)))
        file.write(bytes(2 * tarfile.BLOCKSIZE))
        file.write(bytes(-file.tell() % tarfile.RECORDSIZE))
    return places[::2]


def header(name: str, size: int) -> bytes:
    """Return the header of a member, preceded by an extended one where ustar has no room.

    For two headers `tarfile` takes as long as the disk for a clip, so ustar ones are filled in here.
    """
    if not name.isascii() or len(name) > _NAME.stop or size >= _MAX_USTAR_BYTES:
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, _MODE
        return info.tobuf(tarfile.PAX_FORMAT)
    filled = bytearray(_BLANK)
    filled[_NAME] = named = name.encode().ljust(100, b"\0")
    filled[_SIZE] = sized = b"%011o\0" % size
    filled[_CHECKSUM] = b"%06o\0 " % (_BLANK_SUM + sum(named) + sum(sized))
    return bytes(filled)


def _blank() -> bytes:
    """Return a header without name and size, its checksum filled with the blanks that the sum is taken over."""
    info = tarfile.TarInfo()
    info.mode = _MODE
    found = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    found[_SIZE] = bytes(12)
    found[_CHECKSUM] = b" " * 8
    return bytes(found)


_BLANK = _blank()
_BLANK_SUM = sum(_BLANK)
