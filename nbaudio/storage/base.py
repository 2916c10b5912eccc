"""The storage protocol: what steps do with a file or folder, whether it is on this machine or remote; and range reads."""

import io
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from nbaudio.core.errors import AudioError

_BLOCK_BYTES = 1 << 18
# At least two blocks are kept, and at most so many bytes.
_CACHED_BYTES = 4 << 20


class RangeFile(io.RawIOBase):
    """A readable file over a function that returns the bytes [start, stop) or raises AudioError.

    Decoders call it from C, where an exception is lost: a failed read looks like the end of the file, and `settle` raises it.
    `check` raises AudioError if the file is no longer the one that was opened.
    """

    def __init__(
        self, read: Callable[[int, int], bytes], check: Callable[[], None], size: int, block_bytes: int = _BLOCK_BYTES
    ) -> None:
        super().__init__()
        self._check, self._size, self._block_bytes, self._position = check, size, block_bytes, 0
        self._block = lru_cache(max(2, _CACHED_BYTES // block_bytes))(
            lambda number: read(number * block_bytes, min((number + 1) * block_bytes, size))
        )
        self._error: AudioError | None = None
        self._num_checked = 0

    def settle(self) -> None:
        """Raise AudioError unless all reads so far succeeded, and read the same file."""
        if self._error is not None:
            raise self._error
        if (num_read := self._block.cache_info().misses) != self._num_checked:
            self._check()
            self._num_checked = num_read

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        wanted = min(len(buffer), max(0, self._size - self._position))
        done = 0
        while done < wanted:
            number, offset = divmod(self._position, self._block_bytes)
            try:
                block = self._block(number)[offset : offset + wanted - done]
            except AudioError as error:
                self._error = error
                break
            if not block:
                break
            buffer[done : done + len(block)] = block
            done += len(block)
            self._position += len(block)
        return done


#: Names of files, of many as a column, and names with reasons of files that are refused.
Listing: TypeAlias = tuple[Collection[str], list[tuple[str, str]]]


class FileStatus(NamedTuple):
    """Size of a file, and its version: ETag or time of change on a server, nanoseconds of the last change on this machine."""

    num_bytes: int
    version: str | int | None


class Location(Protocol):
    """A file or folder; ``folder / path`` is a file or folder below it, and `str` gives the path or address.

    An absolute path or a URL behind ``/`` is the file itself, as in `pathlib`.

    Files on this machine are read in place and raise OSError; remote ones are requested, and raise AudioError after retries.
    """

    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def parent(self) -> "Location":
        """The folder that holds it."""

    @property
    def local(self) -> Path | None:
        """Its path, if it is on this machine."""

    @property
    def is_scheme(self) -> bool:
        """Whether it stands for all addresses of a scheme (``s3://``)."""

    def __truediv__(self, path: str) -> "Location": ...

    def status(self) -> FileStatus:
        """Return size and version of a file."""

    def is_folder(self) -> bool:
        """Return whether it is a folder; on the web, whether the server sends a page instead of a file."""

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop); raise an error unless all of them can be read."""

    def fetched(self, status: FileStatus | None = None, /) -> AbstractContextManager[Path]:
        """Yield a local path of the whole file, valid within the context; a known `status` saves a request."""

    def download(self, target: Path, status: FileStatus, /) -> None:
        """Write the whole file to a path that holds nothing or its first bytes; `status` is its current one."""

    def put(self, source: Path) -> FileStatus:
        """Write a local file under this name, which appears when it is complete; return its size and version."""

    def copy_from(self, source: "Location") -> FileStatus:
        """Write a copy of a file of the same scheme under this name; return its size and version."""

    def ranges(self, windows: int, share: float, /) -> tuple[FileStatus | None, RangeFile | None]:
        """Return the status if requested, and a file that reads ranges if that is cheaper for a `share` in `windows` pieces."""

    def listing(self, wanted: Callable[[str], bool]) -> Listing | None:
        """Return wanted files below the folder, relative, sorted, not hidden, and refused ones with reasons; None if unlisted."""

    def files(self) -> Iterator[str]:
        """Yield the names of the files in a folder, sorted, of a remote one with its subfolders; none if it does not exist."""

    def names(self) -> Iterator[str]:
        """Yield the names of files and folders in a folder; none if it does not exist or cannot be listed."""

    def new(self) -> AbstractContextManager[Path]:
        """Yield a local path to write to; the file gets its name when the context succeeds, but is not synced."""

    def remove(self) -> None:
        """Remove a file if it exists."""

    def forget(self, num_bytes: int | None, version: str | None, /) -> None:
        """Remove a file of this size and version from the cache of fetched files."""

    def tidy(self) -> None:
        """Remove what killed runs left below a folder."""

    def shared(self) -> AbstractContextManager[None]:
        """Let several runs write to a folder within the context; `tidy` it if no other run uses it."""

    def with_sha256(self, sha256: str | None, /) -> "Location":
        """Return the file with its hash, if known, so that `fetched` refuses other bytes; a local file is not fetched."""


#: What public functions take for a `Location`: also a path, or the text of a path or address.
LocationLike: TypeAlias = str | Path | Location


def read_whole(file: Location, most: int) -> bytes | None:
    """Return all bytes of a file, or None if there are more than `most`."""
    size = file.status().num_bytes
    if size > most:
        return None
    return file.read(0, size) if size else b""
