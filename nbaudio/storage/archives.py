"""Compressed tars, which cannot be read at any position.

They are read once, in the order of their files, with their bytes (`Remote.content`).
"""

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from nbaudio.core import input_guards
from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.core.report import count
from nbaudio.storage import filesystems, location, network, urls
from nbaudio.storage.remote import Content, Remote, remote

_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
#: Endings of the archives that `TarContents` reads, in small letters.
TARS = (".tar", *_COMPRESSED)
#: Errors of reading a damaged archive, or a file that is none.
BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError)
#: What an `AlteredArchiveError` means to people.
ALTERED = "the archive is damaged inside, and what is in it may be altered; fetch it again"
_OPEN: Mapping[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
_HEAD_BYTES = 6
_BLOCK_BYTES = tarfile.BLOCKSIZE  # headers and contents begin at its multiples
_PIECE_BYTES = 1 << 20
#: Limit of a file in an archive that is read into memory.
MAX_CONTENT_BYTES = 256 << 20


class AlteredArchiveError(tarfile.ReadError):
    """The compressed bytes or their checksum are wrong: any content may have been altered."""


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
        if file:
            return b"".join(iter(partial(file.read, _PIECE_BYTES), b""))
        return b""


def is_in_archive(place: location.Location) -> TypeGuard[Remote]:
    """Return whether a folder or file is in a compressed tar."""
    return (
        isinstance(place, Remote)
        and place.root.startswith("tar://")
        and place.root.lower().endswith(_COMPRESSED)
    )


class TarContents:
    """The regular files of a tar in its order, without sparse ones.

    Iterating over it yields each `Member`. A damaged header is skipped, as GNU tar does: reading
    goes on with the next intact one. The bytes behind the end marker are not read. A compressed
    archive is read to its end, where its checksum is. Raises `BROKEN` errors if the archive is
    truncated or a bomb, and `AlteredArchiveError` if its checksum is wrong.

    Attributes:
        damaged_headers: skipped places, known when all files were yielded.
        has_end: whether there is an end marker.
        has_more: whether anything but zeros follows the end marker.
    """

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.damaged_headers = 0
        self.has_end = False
        self.has_more = False

    def __iter__(self) -> Iterator[Member]:
        """Yield the regular files in the order of the archive."""
        with (
            _Unpacked(self.archive) as file,
            tarfile.open(fileobj=file, mode="r:", encoding="utf8") as opened,
        ):
            for entry in self._entries(file, opened):
                if entry.isfile() and not entry.issparse():
                    file.check(entry.offset_data + entry.size)
                    parts = entry.name.split("/")
                    name = "/".join(part for part in parts if part not in ("", "."))
                    yield Member(name, entry, opened)

    def damages(self) -> list[str]:
        """Return what is wrong with the archive, known when all files were yielded."""
        damages = []
        if self.damaged_headers:
            places = count(self.damaged_headers, "headers", "are")
            damages.append(f"{places} damaged: the files there are lost, what follows is read")
        if not self.has_end:
            damages.append("its end marker is missing: it may be truncated")
        return damages

    def _entries(self, file: "_Unpacked", opened: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        """Yield the entries, and count what is damaged between them."""
        position = 0
        is_skipping = False
        while True:
            file.move_to(position)
            try:
                entry = tarfile.TarInfo.fromtarfile(opened)
            except tarfile.HeaderError:
                block = file.last_read
                if not block:
                    break
                if len(block) < _BLOCK_BYTES:
                    raise tarfile.ReadError("unexpected end of data") from None
                is_zero = not block.strip(b"\0")
                if is_zero and not is_skipping:
                    self.has_end = True
                    break
                # Zeros behind damage are those of a lost file, or the end marker.
                self.has_end = is_zero
                self.damaged_headers += not is_skipping
                is_skipping = True
                position += _BLOCK_BYTES
                continue
            is_skipping = False
            self.has_end = False
            position = opened.offset
            yield entry
        self.has_more = file.drain()


class _Unpacked(io.RawIOBase):
    """The decompressed bytes of an archive, by its magic number.

    A decompression bomb raises tarfile.ReadError.
    """

    _file: Any = None  # nothing to close if the archive cannot be opened

    def __init__(self, archive: Path) -> None:
        """Open an archive; its first bytes say how it is compressed."""
        self.last_read = b""
        with network.convert_error(InputError, tarfile.ReadError):
            self._archive = archive
            self._size = input_guards.check_regular(archive).st_size
        with archive.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        opener = next((opener for start, opener in _OPEN.items() if head.startswith(start)), open)
        self._is_plain = opener is open
        self._file = opener(archive, "rb")

    def read(self, size: int = -1, /) -> bytes:
        """Read decompressed bytes; raise tarfile.ReadError for a header too large to be one."""
        if size > _PIECE_BYTES:  # a long header of a header; files are read in pieces
            raise tarfile.ReadError(f"{self._archive}: a header of {size:,} bytes, a bomb")
        with self._altered():
            self.last_read = bytes(self._file.read(size))
        self.check(self.tell())
        return self.last_read

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to an offset of the decompressed bytes, and return the new position."""
        with self._altered():
            self._file.seek(offset, whence)
        self.check(self.tell())
        return self.tell()

    def move_to(self, position: int) -> None:
        """Go to a position; raise tarfile.ReadError if the file ends before it."""
        reached = self.seek(position)
        if self._is_plain:  # which can be moved behind its end
            reached = min(reached, self._size)
        if reached < position:
            raise tarfile.ReadError("unexpected end of data")

    def drain(self) -> bool:
        """Read to the end, where the checksum is; return whether anything but zeros follows.

        A plain file is read up to its first byte that is not zero.
        """
        has_more = False
        try:
            while piece := self.read(_PIECE_BYTES):
                has_more = has_more or bool(piece.strip(b"\0"))
                if has_more and self._is_plain:
                    break
        except AlteredArchiveError as error:
            if "Not a gzipped file" not in str(error):
                raise
            has_more = True  # it follows the compressed bytes, whose checksum is right
        return has_more

    @contextmanager
    def _altered(self) -> Iterator[None]:
        """Convert errors of decoders, but not of the disk, to AlteredArchiveError."""
        try:
            yield
        except (zlib.error, lzma.LZMAError) as error:
            raise AlteredArchiveError(str(error)) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise AlteredArchiveError(str(error)) from error

    def tell(self) -> int:
        """Return the position in the decompressed bytes."""
        return int(self._file.tell())

    def close(self) -> None:
        """Close the archive."""
        if self._file:
            self._file.close()
        super().close()

    def check(self, position: int) -> None:
        """Raise tarfile.ReadError if the archive may not expand to `position` bytes."""
        with network.convert_error(InputError, tarfile.ReadError):
            input_guards.check_expansion(self._archive, self._size, position)


def listing(
    folder: Remote, wanted: Callable[[str], bool], members: Iterable[str] | None = None
) -> tuple[list[str], list[tuple[str, str]]]:
    """List files as `Remote.listing` does; a damaged archive is among the refused.

    `members` are the names of all files of an intact archive, where they are known: it is not read
    again then.
    """
    if members is not None:
        top = _folder_inside(folder)
        return filesystems.filter_names(
            filter(None, (_below(top, name) for name in members)), wanted
        )
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
    outer = folder.root.partition("::")[2]
    top = _folder_inside(folder)
    with _local_archive(folder, outer) as path, _damage_errors(outer):
        contents = TarContents(path)
        for member in contents:
            name = _below(top, member.name)
            if not name or (wanted is not None and name not in wanted):
                continue
            place = folder / name
            if wanted is not None and member.entry.size <= MAX_CONTENT_BYTES:
                place = replace(place, content=Content(member.read(), str(member.entry.mtime)))
            yield place
        if damages := contents.damages():
            raise AudioError(f"{outer}: {'; '.join(damages)}")


def _folder_inside(folder: Remote) -> str:
    """Return the path of a folder in its archive; empty for all of the archive."""
    inside = folder.root.partition("::")[0].removeprefix("tar://").strip("/")
    return "/".join(filter(None, (inside, folder.path)))


def _below(top: str, name: str) -> str:
    """Return a name relative to a folder `top` of the archive; empty where it is not below it."""
    if not name.startswith(top):
        return ""
    if not top:
        return name
    return name[len(top) + 1 :]


def _local_archive(folder: Remote, archive: str) -> AbstractContextManager[Path]:
    """Yield the archive of a folder on this machine, fetched if it is at a URL."""
    if urls.is_url(archive):
        return remote(archive, folder.cache, folder.network).fetched()
    return nullcontext(Path(archive))


@contextmanager
def _damage_errors(archive: str) -> Iterator[None]:
    """Convert errors of reading a damaged archive to AudioError that names it."""
    try:
        yield
    except AlteredArchiveError as error:
        raise AudioError(f"{archive}: {ALTERED} ({one_line(error)})") from error
    except BROKEN as error:
        raise AudioError(
            f"{archive}: the archive is truncated or not an archive ({one_line(error)})"
        ) from error
