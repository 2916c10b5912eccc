"""Tar files with fixed headers, no time and no owner in them: equal members give equal files."""

import tarfile
from collections.abc import Iterable
from pathlib import Path

from nbaudio.corpus.containers.base import ClipLocation

_MODE = 0o644
# Where the fields of a header are that differ from member to member (POSIX.1-1988, ustar).
_NAME, _SIZE, _CHECKSUM = slice(0, 100), slice(124, 136), slice(148, 156)
_MOST_PLAIN_BYTES = 8**11


def write_tar(path: Path, members: Iterable[tuple[str, bytes]]) -> list[ClipLocation]:
    """Write named members one after another, and say where the bytes of each are."""
    places = []
    with path.open("wb") as file:
        for name, data in members:
            file.write(header(name, len(data)))
            places.append(ClipLocation(file.tell(), len(data)))
            file.writelines((data, bytes(-len(data) % tarfile.BLOCKSIZE)))
        file.write(bytes(2 * tarfile.BLOCKSIZE))
        file.write(bytes(-file.tell() % tarfile.RECORDSIZE))
    return places


def header(name: str, size: int) -> bytes:
    """The header of a file, with the extended one that `tarfile` puts before it where the plain one has no room.

    `tarfile` takes as long for two headers as the disk for a clip, so plain ones are filled in here.

    Examples:
        >>> header("a.flac", 4096)[:6], len(header("a.flac", 4096)), len(header("č" * 60, 4096))
        (b'a.flac', 512, 1536)
    """
    if not name.isascii() or len(name) > _NAME.stop or size >= _MOST_PLAIN_BYTES:
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, _MODE
        return info.tobuf(tarfile.PAX_FORMAT)
    filled = bytearray(_BLANK)
    filled[_NAME] = named = name.encode().ljust(100, b"\0")
    filled[_SIZE] = sized = b"%011o\0" % size
    filled[_CHECKSUM] = b"%06o\0 " % (_BLANK_SUM + sum(named) + sum(sized))
    return bytes(filled)


def _blank() -> bytes:
    """The header of a file without name and size; of its checksum, the blanks that it is taken over."""
    info = tarfile.TarInfo()
    info.mode = _MODE
    found = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    found[_SIZE] = bytes(12)
    found[_CHECKSUM] = b" " * 8
    return bytes(found)


_BLANK = _blank()
_BLANK_SUM = sum(_BLANK)
