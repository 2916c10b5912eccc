"""Compressed tars, in which nothing can be sought: read once, from the first byte to the last, each file as it comes.

A file that was come upon has its bytes with it (`Remote.content`). Single files are had from there too, as from any archive, at
the cost of reading up to them.
"""

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from nbaudio.core import guards
from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.storage.listings import filter_names
from nbaudio.storage.remote import Content, Remote, remote
from nbaudio.storage.urls import is_url

_ENDINGS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
#: What an archive that is damaged or none raises while it is read.
BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError)
_PACKED: Mapping[bytes, Callable[..., Any]] = MappingProxyType({b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open})
_HEAD_BYTES = 6
_PIECE_BYTES = 1 << 20
#: Bytes; a file that is longer comes without them.
LONGEST = 256 << 20


class Member(NamedTuple):
    """A file in an archive: its name there, without ``./`` and the like, its entry, and the archive, which is at its bytes."""

    name: str
    entry: tarfile.TarInfo
    archive: tarfile.TarFile

    def read(self) -> bytes:
        """All its bytes."""
        file = self.archive.extractfile(self.entry)
        return b"".join(iter(partial(file.read, _PIECE_BYTES), b"")) if file else b""


def is_in_archive(place: Remote) -> bool:
    """Whether a folder or file is in a compressed tar.

    Examples:
        >>> is_in_archive(remote("tar://LibriSpeech::/data/dev-clean.tar.gz")), is_in_archive(remote("tar://::/data/all.tar"))
        (True, False)
    """
    return place.root.startswith("tar://") and place.root.lower().endswith(_ENDINGS)


def members(archive: Path) -> Iterator[Member]:
    """Files of a tar in its order, one at a time; folders, links, devices and files with holes, of any size, are none.

    Raises:
        tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError: the archive is damaged, none, or a bomb.
    """
    with _Unpacked(archive) as file, tarfile.open(fileobj=file, mode="r:", encoding="utf8") as opened:
        while (entry := opened.next()) is not None:
            # The archive would remember every member.
            opened.members = []  # type: ignore[attr-defined]
            if entry.isfile() and not entry.issparse():
                file.check(entry.offset_data + entry.size)
                yield Member("/".join(part for part in entry.name.split("/") if part not in ("", ".")), entry, opened)


class _Unpacked(io.RawIOBase):
    """The bytes of an archive, unpacked as its first bytes tell; what grows beyond measure ends in an error."""

    _file: Any = None  # where the archive cannot be opened, there is nothing to close

    def __init__(self, archive: Path) -> None:
        try:
            self._archive, self._size = archive, guards.check_regular(archive).st_size
        except InputError as error:
            raise tarfile.ReadError(str(error)) from error
        with archive.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        opener = next((opener for start, opener in _PACKED.items() if head.startswith(start)), open)
        self._file = opener(archive, "rb")

    def read(self, size: int = -1, /) -> bytes:
        if size > _PIECE_BYTES:  # asked for by the header of a header; files are read in pieces
            raise tarfile.ReadError(f"{self._archive}: a header of {size:,} bytes, a bomb")
        data: bytes = self._file.read(size)
        self.check(self.tell())
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        position: int = self._file.seek(offset, whence)
        self.check(self.tell())
        return position

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if self._file:
            self._file.close()
        super().close()

    def check(self, position: int) -> None:
        """Raise tarfile.ReadError where the archive may not grow up to there."""
        try:
            guards.check_expansion(self._archive, self._size, position)
        except InputError as error:
            raise tarfile.ReadError(str(error)) from error


def listing(folder: Remote, wanted: Callable[[str], bool]) -> tuple[list[str], list[tuple[str, str]]]:
    """As `Remote.listing`; where the archive breaks off is among what is not taken."""
    names: list[str] = []
    broken = []
    try:
        names.extend(place.path for place in members_in_order(folder))
    except AudioError as error:
        broken.append((folder.name or folder.root.rpartition("/")[2], str(error)))
    paths, refused = filter_names(names, wanted)
    return paths, refused + broken


def members_in_order(folder: Remote, wanted: Container[str] | None = None) -> Iterator[Remote]:
    """Files below a folder of a compressed tar, in the order of the archive, each with its bytes.

    Args:
        folder: of which `is_in_archive` holds.
        wanted: paths below the folder; None gives all, without bytes.

    Raises:
        AudioError: the archive cannot be had, or breaks off; what comes before it was given.
    """
    inside, _, outer = folder.root.partition("::")
    top = "/".join(filter(None, (inside.removeprefix("tar://").strip("/"), folder.path)))
    start = len(top) + 1 if top else 0
    with ExitStack() as stack:
        path = stack.enter_context(remote(outer, folder.cache, folder.network).fetched()) if is_url(outer) else Path(outer)
        try:
            for member in members(path):
                name = member.name[start:]
                if not member.name.startswith(top) or not name or (wanted is not None and name not in wanted):
                    continue
                place = folder / name
                if wanted is not None and member.entry.size <= LONGEST:
                    place = replace(place, content=Content(member.read(), str(member.entry.mtime)))
                yield place
        except BROKEN as error:
            raise AudioError(f"{outer}: the archive breaks off or is none ({one_line(error)})") from error
