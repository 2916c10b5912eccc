"""Tar shards with fixed headers and no times or owners: equal clips give equal files."""

import tarfile
from collections.abc import Iterable
from pathlib import Path

from nbaudio.corpus.containers.base import ClipLocation


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
    """Return the header of a member: mode 644, dated 1970-01-01."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.PAX_FORMAT)
