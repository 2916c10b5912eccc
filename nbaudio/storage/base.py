"""The storage protocol: what steps do with a file or folder, whether it is on this machine or remote."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from nbaudio.storage.range_file import RangeFile

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
        """Return the status if it was requested, and a file that reads ranges if that is cheaper than `fetched`.

        `share` is the part of the file that is read, in `windows` pieces.
        """

    def listing(self, wanted: Callable[[str], bool]) -> Listing | None:
        """Return the wanted files below the folder, relative and sorted, and those refused with a reason; no hidden ones.

        None means that the server lists no folders.
        """

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
