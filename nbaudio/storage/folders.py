"""Folders that finished files are published to: on this machine, or elsewhere by way of this machine's disk.

Names are paths inside the folder. Nothing half-written ever stands under one.
"""

import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.core.guards import check_regular
from nbaudio.core.threads import ordered_map
from nbaudio.storage import upload
from nbaudio.storage.atomic import (
    atomic_write,
    read_json,
    remove_partials,
    sha256_file,
    sha256_listed,
    sha256_path,
    size_of,
    write_json,
)
from nbaudio.storage.remote import Remote, RemoteStat, remote
from nbaudio.storage.retry import RemoteNotFoundError
from nbaudio.storage.urls import is_url, stays_inside

# Small files on their way at once.
_JOBS = 8


class Folder(Protocol):
    """A folder to publish to and to read back from."""

    def new(self, name: str) -> AbstractContextManager[Path]:
        """A path of this machine to write to, published under `name` when the context ends well."""
        ...

    def local(self, name: str) -> AbstractContextManager[Path]:
        """The whole file on this machine, for as long as the context lasts.

        Raises:
            InputError: there is no such file, or the name leads out of the folder.
            AudioError: it cannot be had.
        """
        ...

    def read(self, name: str, start: int, stop: int) -> bytes:
        """The bytes [start, stop) of a file.

        Raises:
            InputError: there is no such file, or the name leads out of the folder.
            AudioError: it has no such bytes, or they cannot be had.
        """
        ...

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        ...

    def size(self, name: str) -> int:
        """Bytes of a file.

        Raises:
            InputError: there is no such file, or it is no regular one.
            AudioError: the store does not say.
        """
        ...

    def holds(self, name: str, sha256: str, num_bytes: int | None = None) -> bool:
        """Whether there is such a file, of these bytes, hashed only if it has as many; on this machine also such a folder."""
        ...

    def names(self) -> Iterator[str]:
        """All files, hidden ones too."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...

    def tidy(self) -> None:
        """Remove what killed runs left half-written."""
        ...


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine."""

    root: Path

    def __str__(self) -> str:
        return str(self.root)

    def new(self, name: str) -> AbstractContextManager[Path]:
        """See `Folder.new`."""
        return atomic_write(self._path(name))

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """See `Folder.local`."""
        path = self._path(name)
        try:
            check_regular(path)
        except FileNotFoundError as error:
            raise InputError(f"{path}: missing") from error
        yield path

    def read(self, name: str, start: int, stop: int) -> bytes:
        """See `Folder.read`."""
        with self.local(name) as path, path.open("rb") as file:
            file.seek(start)
            data = file.read(stop - start)
        if len(data) != stop - start:
            raise AudioError(f"{path}: ends before byte {stop:,}")
        return data

    def exists(self, name: str) -> bool:
        """See `Folder.exists`."""
        return self._path(name).is_file()

    def size(self, name: str) -> int:
        """See `Folder.size`."""
        with self.local(name) as path:
            return path.stat().st_size

    def holds(self, name: str, sha256: str, num_bytes: int | None = None) -> bool:
        """See `Folder.holds`."""
        path = self._path(name)
        return path.exists() and num_bytes in (None, size_of(path)) and sha256_path(path) == sha256

    def names(self) -> Iterator[str]:
        """See `Folder.names`."""
        return (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if not path.is_dir())

    def remove(self, name: str) -> None:
        """See `Folder.delete_file`."""
        self._path(name).unlink(missing_ok=True)

    def tidy(self) -> None:
        """See `Folder.tidy`."""
        remove_partials(self.root)

    def _path(self, name: str) -> Path:
        return self.root / _checked(name)


@dataclass(frozen=True)
class RemoteFolder:
    """A folder that lies elsewhere. A file is written here, sent whole, and removed here; of a folder, one file after the other.

    Attributes:
        place: where.
        desk: a folder of this machine for files on their way, and for a note on each that was sent: its hash, and what the store
            called it then. What the store still calls so need not be fetched to know its bytes. None where nothing is written.
    """

    place: Remote
    desk: Path | None = None

    def __str__(self) -> str:
        return str(self.place)

    @contextmanager
    def new(self, name: str) -> Iterator[Path]:
        """See `Folder.new`."""
        if self.desk is None:
            raise NbaudioError(f"{self}: was opened to be read")
        written = self.desk / "new" / _checked(name)
        try:
            with atomic_write(written, sync=False) as partial:
                yield partial
            self._send(name, written, self.desk)
        finally:
            if written.is_dir():
                shutil.rmtree(written)
            written.unlink(missing_ok=True)

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """See `Folder.local`."""
        try:
            with self._place(name).fetched() as path:
                yield path
        except RemoteNotFoundError as error:
            raise InputError(str(error)) from error

    def read(self, name: str, start: int, stop: int) -> bytes:
        """See `Folder.read`."""
        try:
            return self._place(name).read(start, stop)
        except RemoteNotFoundError as error:
            raise InputError(str(error)) from error

    def exists(self, name: str) -> bool:
        """See `Folder.exists`."""
        try:
            self._place(name).status()
        except RemoteNotFoundError:
            return False
        except AudioError as error:
            raise InputError(str(error)) from error
        return True

    def size(self, name: str) -> int:
        """See `Folder.size`."""
        try:
            return self._place(name).status().num_bytes
        except RemoteNotFoundError as error:
            raise InputError(str(error)) from error

    def holds(self, name: str, sha256: str, num_bytes: int | None = None) -> bool:
        """See `Folder.holds`."""
        place = self._place(name)
        try:
            if not place.is_folder():
                return num_bytes in (None, place.status().num_bytes) and self._sha256(name) == sha256
            parts = list(upload.names(place))
            hashes = ordered_map(self._sha256, (f"{name}/{part}" for part in parts), jobs=_JOBS)
            return sha256_listed(dict(zip(parts, hashes, strict=True))) == sha256
        except RemoteNotFoundError:
            return False

    def names(self) -> Iterator[str]:
        """See `Folder.names`."""
        return upload.names(self.place)

    def remove(self, name: str) -> None:
        """See `Folder.delete_file`."""
        upload.delete_file(self._place(name))

    def tidy(self) -> None:
        """See `Folder.tidy`."""
        upload.tidy(self.place)
        if self.desk is not None:
            shutil.rmtree(self.desk / "new", ignore_errors=True)

    def _send(self, name: str, written: Path, desk: Path) -> None:
        """Send a file; of a folder all files, each whole, and what else was there goes."""
        if written.is_file():
            sha256 = sha256_file(written)
            status = upload.send(self._place(name), written)
            write_json(self._note(desk, name), {"sha256": sha256, **status._asdict()})
            return
        parts = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
        deque(ordered_map(lambda part: self._send(f"{name}/{part}", written / part, desk), sorted(parts), jobs=_JOBS), maxlen=0)
        for part in {*upload.names(self._place(name))} - parts:
            self.remove(f"{name}/{part}")

    def _sha256(self, name: str) -> str:
        """The hash of a file that is there."""
        found = self._place(name).status()
        if noted := self._noted(name, found):
            return noted
        with self._place(name).fetched(found) as path:
            return sha256_file(path)

    def _noted(self, name: str, found: RemoteStat) -> str | None:
        """The hash of the file that was sent, if the store holds that very one."""
        if self.desk is None or found.version is None or not self._note(self.desk, name).is_file():
            return None
        note = read_json(self._note(self.desk, name))
        return note["sha256"] if (note["num_bytes"], note["version"]) == found else None

    def _place(self, name: str) -> Remote:
        return self.place / _checked(name)

    @staticmethod
    def _note(desk: Path, name: str) -> Path:
        return desk / "sent" / f"{name}.json"


def _checked(name: str) -> str:
    """A name, which may come from a table that anybody wrote."""
    if not stays_inside(name):
        raise InputError(f"{name}: leads out of the folder")
    return name


def folder_at(where: str | Path, *, desk: Path | None = None) -> LocalFolder | RemoteFolder:
    """The folder at a path, made absolute, or address.

    Args:
        where: path, or address (see `nbaudio.storage.urls`).
        desk: of a folder that is to be written to, in case that it lies elsewhere; see `RemoteFolder`.

    Raises:
        InputError: the address is not usable.

    Examples:
        >>> print(folder_at("/data/corpus"), folder_at("s3://bucket/corpus/"))
        /data/corpus s3://bucket/corpus
    """
    if not is_url(str(where)):
        return LocalFolder(Path(where).absolute())
    if str(where).startswith("file://"):
        return LocalFolder(Path(url2pathname(urlsplit(str(where)).path)))
    place = remote(str(where))
    if desk is not None:
        upload.check_writable(str(place))
    return RemoteFolder(place, desk)


def read_object(folder: Folder, name: str) -> dict[str, Any]:
    """A JSON object from a folder.

    Raises:
        InputError: the file is missing or holds something else.
    """
    with folder.local(name) as path:
        return read_json(path)


def write_object(folder: Folder, name: str, value: dict[str, Any]) -> None:
    """Publish a JSON object; equal values give equal bytes."""
    with folder.new(name) as path:
        write_json(path, value)
