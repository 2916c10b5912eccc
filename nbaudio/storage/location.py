"""Locations of what steps read and write: files and folders on this machine, or remote ones.

`LocalPath` is the local one, `location` makes one of any path or URL.
"""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeAlias
from urllib.parse import urlsplit
from urllib.request import url2pathname

from nbaudio.core.atomic import (
    atomic_write,
    escapes_folder,
    lock,
    raise_disk_full,
    remove_partials,
    trusted_root,
)
from nbaudio.core.errors import AudioError
from nbaudio.core.input_guards import NOT_UNICODE, escape_surrogates
from nbaudio.storage.cache import Cache
from nbaudio.storage.range_file import FileStatus
from nbaudio.storage.remote import Remote, remote
from nbaudio.storage.urls import is_url

#: Why a folder is listed as refused, though it is read, if its name is that of a wanted file.
FOLDER_OF_THAT_NAME = "a folder with the name of a recording; recordings in it are read"


@dataclass(frozen=True)
class LocalPath:
    """A file or folder on this machine, read in place.

    `Remote` has the same methods, which send requests and raise AudioError. What only a remote file
    needs does nothing here.
    """

    local: Path
    # It keeps the remote files whose URLs are named in place of a file below this folder.
    cache: Cache | None = field(default=None, repr=False, compare=False)
    is_scheme: ClassVar[bool] = False  # a `Remote` may be all URLs of a scheme, a path is itself

    def __truediv__(self, path: str) -> "Location":
        """Return what is below this folder; a URL is a location of its own."""
        if is_url(path):
            return remote(path, self.cache)
        return LocalPath(self.local / path, self.cache)

    def __str__(self) -> str:
        return str(self.local)

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.local.name

    @property
    def parent(self) -> "LocalPath":
        """Folder that holds this file or folder."""
        return LocalPath(self.local.parent)

    def status(self) -> FileStatus:
        """Return size and version; raise OSError if there is no such file."""
        status = self.local.stat()
        return FileStatus(status.st_size, status.st_mtime_ns)

    def is_folder(self) -> bool:
        """Return whether it is a folder.

        On the web, a folder is where the server sends a page instead of a file.
        """
        return self.local.is_dir()

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop); raise an error unless all of them can be read."""
        with self.local.open("rb") as file:
            file.seek(start)
            content = file.read(stop - start)
        if len(content) != stop - start:
            raise AudioError(f"{self}: ends before byte {stop:,}")
        return content

    def loaded(self, _most: int) -> "LocalPath":
        """Return the file itself, whose content need not be fetched; see `Remote.loaded`."""
        return self

    def fetched(self, _status: FileStatus | None = None) -> AbstractContextManager[Path]:
        """Yield a local path of the whole file, valid within the context.

        `status` is that of a remote file, if it is known: this saves a request.
        """
        return nullcontext(self.local)

    def ranges(self, _windows: int, _share: float) -> tuple[None, None]:
        """Return the status of a remote file, and a file that reads ranges of it.

        The second is None where it is cheaper to fetch the whole file than a `share` of it in a
        number of `windows`. Of a local file both are None: it is opened as it is.
        """
        return None, None

    def listing(
        self, wanted: Callable[[str], bool]
    ) -> tuple[Collection[str], list[tuple[str, str]]]:
        """Return the wanted files below a folder, and refused paths with reasons.

        `wanted` tells by its name whether a file is wanted. Paths are relative, sorted and not
        hidden. Of a remote folder whose files cannot be listed, the result is None.
        """
        import polars as pl  # imported on demand, so that workers start faster

        home = trusted_root(self.local)
        paths = [pl.Series("path", dtype=pl.String)]
        refused: list[tuple[str, str]] = []
        folders = [""]
        while folders:
            contents = self._scan(folders.pop(), wanted, home)
            # A column for each folder: as Python strings, all paths would take much memory.
            paths.append(pl.Series("path", contents.paths, dtype=pl.String))
            refused += contents.refused
            folders += contents.folders
        return pl.concat(paths).sort(), sorted(refused)

    def _scan(self, folder: str, wanted: Callable[[str], bool], home: Path) -> "_FolderContents":
        """Return what is in the folder `folder`, ``""`` or a path with a slash at its end.

        `home` is the folder in which the targets of links must be.
        """
        contents = _FolderContents([], [], [])
        try:
            for entry in _visible_entries(self.local / folder):
                path = f"{folder}{entry.name}"
                is_folder = _is(entry.is_dir)
                if not (is_folder or wanted(entry.name)):
                    continue
                # Folders behind links are not read: they might lead round in circles.
                if is_folder and not entry.is_symlink():
                    contents.folders.append(f"{path}/")
                reason: str | None
                if entry.is_symlink() and escapes_folder(self.local / path, home):
                    reason = "a link that points outside the audio folder"
                elif is_folder:
                    reason = FOLDER_OF_THAT_NAME if wanted(entry.name) else None
                else:
                    reason = _reason_against_file(entry, path)
                if reason:
                    contents.refuse(path, reason)
                elif not is_folder:
                    contents.paths.append(path)
        except OSError as error:
            name = folder.rstrip("/") or "."
            contents.refuse(name, f"the folder cannot be read: {error.strerror}")
        return contents

    def files(self) -> Iterator[str]:
        """Yield the names in a folder, sorted; none if it does not exist.

        Those of a local folder are its files and subfolders. Those of a remote one are the relative
        paths of its files, also of files in subfolders.
        """
        with suppress(FileNotFoundError):
            yield from sorted(path.name for path in self.local.iterdir())

    def names(self) -> Iterator[str]:
        """Yield the files and folders in a folder.

        There are none if it does not exist or cannot be listed.
        """
        with suppress(OSError):
            yield from self.files()

    def new(self) -> AbstractContextManager[Path]:
        """Yield a local path to write to.

        The file gets its name when the context succeeds, but is not synced.
        """
        return atomic_write(self.local, sync=False)

    def remove(self) -> None:
        """Remove the file if it exists."""
        self.local.unlink(missing_ok=True)

    def forget(self, _num_bytes: int | None, _version: str | None) -> None:
        """Remove a remote file of this size and version from the cache of fetched files."""

    def tidy(self) -> None:
        """Remove what killed runs left below a folder."""
        remove_partials(self.local)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Let several runs write to a folder within the context.

        Before and after it, `tidy` the folder if no other run uses it. Runs that use it share a
        lock on it.
        """
        with raise_disk_full(self.local):
            self.local.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.local, os.O_RDONLY)
        try:
            self._tidy_unshared(folder)
            lock(folder, shared=True, required=False)
            yield
            self._tidy_unshared(folder)
        finally:
            os.close(folder)

    def _tidy_unshared(self, descriptor: int) -> None:
        """Tidy the open folder, unless another run holds its lock."""
        if lock(descriptor, wait=False, required=False):
            self.tidy()

    def with_sha256(self, _sha256: str | None) -> "LocalPath":
        """Return the file with its hash, if known.

        A remote file is then refused when it is fetched with other bytes.
        """
        return self


@dataclass(frozen=True)
class _FolderContents:
    """The contents of a folder, as paths relative to the folder that is listed.

    The lists are filled while the folder is read.

    Attributes:
        paths: of wanted files.
        folders: of folders that are read next, with a slash at the end.
        refused: paths, escaped where they are not Unicode, with reasons.
    """

    paths: list[str]
    folders: list[str]
    refused: list[tuple[str, str]]

    def refuse(self, path: str, reason: str) -> None:
        """Add a path to those that are refused."""
        self.refused.append((escape_surrogates(path), reason))


def _visible_entries(folder: Path) -> "Iterator[os.DirEntry[str]]":
    """Yield the entries of a folder that are not hidden.

    They know whether they are folders, files or links without a further system call.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                yield entry


def _reason_against_file(entry: "os.DirEntry[str]", path: str) -> str | None:
    """Return why a file with a wanted name cannot be read; None if it can."""
    if escape_surrogates(path) != path:
        return NOT_UNICODE
    if _is(entry.is_file):
        return None
    if entry.is_symlink():
        return "a broken link"
    return "a pipe, socket or device, not a file"


def _is(check: Callable[[], bool]) -> bool:
    """Return the result of `entry.is_dir` or `entry.is_file`; False for a loop of links."""
    with suppress(OSError):
        return check()
    return False


#: A file or folder on this machine, or a remote one, with the same methods.
Location: TypeAlias = LocalPath | Remote

#: What public functions take for a `Location`: also a path, or the text of a path or URL.
LocationLike: TypeAlias = str | Path | Location


def location(place: LocationLike, cache: Cache | None = None) -> Location:
    """Return the location of a path or URL, with a `cache` of fetched files.

    What is a location already keeps its own cache. Raise InputError for a refused URL.
    """
    if not isinstance(place, str | Path):
        return place
    if isinstance(place, Path):
        return LocalPath(place, cache)
    if place.startswith("file://"):
        return LocalPath(Path(url2pathname(urlsplit(place).path)))
    if is_url(place):
        return remote(place, cache)
    return LocalPath(Path(place), cache)


def read_whole(file: Location, most: int) -> bytes | None:
    """Return all bytes of a file, or None if there are more than `most`."""
    size = file.status().num_bytes
    if size > most:
        return None
    if not size:
        return b""
    return file.read(0, size)
