"""Compressed tars, which cannot be sought in.

They are read once, in the order of their files, with their bytes (`Remote.content`).
"""

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from nbaudio.core import input_guards
from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.storage import filesystems, location, network, urls
from nbaudio.storage.remote import Content, Remote, remote

_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
#: Errors of reading a damaged archive, or a file that is none.
BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError)
_OPEN: Mapping[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
_HEAD_BYTES = 6
_PIECE_BYTES = 1 << 20
# A larger file comes without its bytes.
_MAX_CONTENT_BYTES = 256 << 20


class Member(NamedTuple):
    """A file in an archive.

    It has its normalized name, its entry, and the archive, positioned at its bytes.
    """

    name: str
    entry: tarfile.TarInfo
    archive: tarfile.TarFile

    def read(self) -> bytes:
        """Return its bytes."""
        file = self.archive.extractfile(self.entry)
        return b"".join(iter(partial(file.read, _PIECE_BYTES), b"")) if file else b""


def is_in_archive(place: location.Location) -> TypeGuard[Remote]:
    """Return whether a folder or file is in a compressed tar."""
    return (
        isinstance(place, Remote)
        and place.root.startswith("tar://")
        and place.root.lower().endswith(_SUFFIXES)
    )


def members(archive: Path) -> Iterator[Member]:
    """Yield the regular files of a tar in its order, without sparse ones.

    Raise `BROKEN` errors if it is damaged or a bomb.
    """
    with (
        _Unpacked(archive) as file,
        tarfile.open(fileobj=file, mode="r:", encoding="utf8") as opened,
    ):
        while (entry := opened.next()) is not None:
            # tarfile keeps every member.
            opened.members = []  # type: ignore[attr-defined]
            if entry.isfile() and not entry.issparse():
                file.check(entry.offset_data + entry.size)
                yield Member(
                    "/".join(part for part in entry.name.split("/") if part not in ("", ".")),
                    entry,
                    opened,
                )


class _Unpacked(io.RawIOBase):
    """The decompressed bytes of an archive, by its magic number.

    A decompression bomb raises tarfile.ReadError.
    """

    _file: Any = None  # nothing to close if the archive cannot be opened

    def __init__(self, archive: Path) -> None:
        with network.convert_error(InputError, tarfile.ReadError):
            self._archive = archive
            self._size = input_guards.check_regular(archive).st_size
        with archive.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        opener = next((opener for start, opener in _OPEN.items() if head.startswith(start)), open)
        self._file = opener(archive, "rb")

    def read(self, size: int = -1, /) -> bytes:
        if size > _PIECE_BYTES:  # a long header of a header; files are read in pieces
            raise tarfile.ReadError(f"{self._archive}: a header of {size:,} bytes, a bomb")
        data: bytes = self._file.read(size)
        self.check(self.tell())
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._file.seek(offset, whence)
        self.check(self.tell())
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if self._file:
            self._file.close()
        super().close()

    def check(self, position: int) -> None:
        """Raise tarfile.ReadError if the archive may not expand to `position` bytes."""
        with network.convert_error(InputError, tarfile.ReadError):
            input_guards.check_expansion(self._archive, self._size, position)


def listing(
    folder: Remote, wanted: Callable[[str], bool]
) -> tuple[list[str], list[tuple[str, str]]]:
    """List files as `Remote.listing` does; a damaged archive is among the refused."""
    names: list[str] = []
    broken = []
    try:
        names.extend(place.path for place in members_in_order(folder))
    except AudioError as error:
        broken.append((folder.name or folder.root.rpartition("/")[2], str(error)))
    paths, refused = filesystems.filter_names(names, wanted)
    return paths, refused + broken


def all_in_order(
    folder: Remote, wanted: Iterable[str], absent: Content | None = None
) -> Iterator[Remote]:
    """Yield the wanted files with their bytes, in the archive's order.

    Those that it lacks follow, with `absent` as their bytes.
    """
    missing = set(wanted)
    with suppress(AudioError):  # the archive is truncated
        for place in members_in_order(folder, missing):
            missing.discard(place.path)
            yield place
            if not missing:
                return
    yield from (replace(folder / path, content=absent) for path in sorted(missing))


def members_in_order(folder: Remote, wanted: Container[str] | None = None) -> Iterator[Remote]:
    """Yield the wanted files below a folder with their bytes.

    If `wanted` is None, yield all files, without their bytes. Raise AudioError where the archive is
    damaged.
    """
    inside, _, outer = folder.root.partition("::")
    top = "/".join(filter(None, (inside.removeprefix("tar://").strip("/"), folder.path)))
    start = len(top) + 1 if top else 0
    with ExitStack() as stack:  # noqa: PLR1702
        path = (
            stack.enter_context(remote(outer, folder.cache, folder.network).fetched())
            if urls.is_url(outer)
            else Path(outer)
        )
        try:
            for member in members(path):
                name = member.name[start:]
                if (
                    not member.name.startswith(top)
                    or not name
                    or (wanted is not None and name not in wanted)
                ):
                    continue
                place = folder / name
                if wanted is not None and member.entry.size <= _MAX_CONTENT_BYTES:
                    place = replace(place, content=Content(member.read(), str(member.entry.mtime)))
                yield place
        except BROKEN as error:
            raise AudioError(
                f"{outer}: the archive is truncated or not an archive ({one_line(error)})"
            ) from error
