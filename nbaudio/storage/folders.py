"""Local and remote folders that complete files are published to and read from; remote ones by way of the local disk.

Names are paths inside the folder. No incomplete file ever has one.
"""

import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from nbaudio.core import atomic
from nbaudio.core.atomic import atomic_write, read_json, sha256_file, write_json
from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.core.guards import check_regular
from nbaudio.core.threads import ordered_map
from nbaudio.storage import upload
from nbaudio.storage.remote import Remote, remote
from nbaudio.storage.retry import RemoteNotFoundError, convert_error
from nbaudio.storage.urls import is_url, stays_inside

# Small files that are transferred at once.
_JOBS = 8


@dataclass(frozen=True)
class LocalFolder:
    """A folder on this machine.

    A name that points outside the folder and a missing file raise InputError, bytes that cannot be read AudioError.
    """

    root: Path

    def __str__(self) -> str:
        return str(self.root)

    def new(self, name: str) -> AbstractContextManager[Path]:
        """Yield a local path to write to; publish it under `name` when the context succeeds."""
        return atomic_write(self._path(name))

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """Yield a local path of the whole file, valid within the context."""
        path = self._path(name)
        try:
            check_regular(path)
        except FileNotFoundError as error:
            raise InputError(f"{path}: missing") from error
        yield path

    def read(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) of a file."""
        with self.local(name) as path, path.open("rb") as file:
            file.seek(start)
            data = file.read(stop - start)
        if len(data) != stop - start:
            raise AudioError(f"{path}: ends before byte {stop:,}")
        return data

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        return self._path(name).is_file()

    def size(self, name: str) -> int:
        """Return the bytes of a regular file."""
        with self.local(name) as path:
            return path.stat().st_size

    def holds(self, name: str, sha256: str, num_bytes: int | None = None) -> bool:
        """Return whether a file or folder exists with this hash; it is read only if it has `num_bytes`."""
        path = self._path(name)
        return path.exists() and num_bytes in (None, atomic.size_of(path)) and atomic.sha256_path(path) == sha256

    def names(self) -> Iterator[str]:
        """Yield all files, including hidden ones."""
        return (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if not path.is_dir())

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        self._path(name).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove temporary files of killed runs."""
        atomic.remove_partials(self.root)

    def _path(self, name: str) -> Path:
        return self.root / _checked(name)


@dataclass(frozen=True)
class RemoteFolder:
    """A remote folder; a file is written locally, uploaded, and removed locally, of a folder one file after the other.

    `desk` is a local folder for files before their upload, and for the hash and the version in the store of each uploaded file:
    while the version is the same, the file is not fetched to know its hash. None for a folder that is only read.
    """

    place: Remote
    desk: Path | None = None

    def __str__(self) -> str:
        return str(self.place)

    @contextmanager
    def new(self, name: str) -> Iterator[Path]:
        """See `LocalFolder.new`."""
        if self.desk is None:
            raise NbaudioError(f"{self}: was opened for reading")
        written = self.desk / "new" / _checked(name)
        try:
            with atomic_write(written, sync=False) as partial:
                yield partial
            self._send(name, written, self.desk)
        finally:
            atomic.remove(written)

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """See `LocalFolder.local`."""
        with convert_error(RemoteNotFoundError, InputError), self._place(name).fetched() as path:
            yield path

    def read(self, name: str, start: int, stop: int) -> bytes:
        """See `LocalFolder.read`."""
        with convert_error(RemoteNotFoundError, InputError):
            return self._place(name).read(start, stop)

    def exists(self, name: str) -> bool:
        """See `LocalFolder.exists`."""
        with convert_error(AudioError, InputError), suppress(RemoteNotFoundError):
            self._place(name).status()
            return True
        return False

    def size(self, name: str) -> int:
        """See `LocalFolder.size`."""
        with convert_error(RemoteNotFoundError, InputError):
            return self._place(name).status().num_bytes

    def holds(self, name: str, sha256: str, num_bytes: int | None = None) -> bool:
        """See `LocalFolder.holds`."""
        place = self._place(name)
        try:
            if not place.is_folder():
                return num_bytes in (None, place.status().num_bytes) and self._sha256(name) == sha256
            parts = list(upload.names(place))
            hashes = ordered_map(self._sha256, (f"{name}/{part}" for part in parts), jobs=_JOBS)
            return atomic.sha256_listed(dict(zip(parts, hashes, strict=True))) == sha256
        except RemoteNotFoundError:
            return False

    def names(self) -> Iterator[str]:
        """See `LocalFolder.names`."""
        return upload.names(self.place)

    def remove(self, name: str) -> None:
        """See `LocalFolder.remove`."""
        upload.delete_file(self._place(name))

    def tidy(self) -> None:
        """See `LocalFolder.tidy`."""
        upload.tidy(self.place)
        if self.desk is not None:
            shutil.rmtree(self.desk / "new", ignore_errors=True)

    def _send(self, name: str, written: Path, desk: Path) -> None:
        """Upload a file, or all files of a folder, and remove others from the remote folder."""
        if written.is_file():
            sha256 = sha256_file(written)
            status = upload.send(self._place(name), written)
            write_json(desk / "sent" / f"{name}.json", {"sha256": sha256, **status._asdict()})
            return
        parts = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
        deque(ordered_map(lambda part: self._send(f"{name}/{part}", written / part, desk), sorted(parts), jobs=_JOBS), maxlen=0)
        for part in {*upload.names(self._place(name))} - parts:
            self.remove(f"{name}/{part}")

    def _sha256(self, name: str) -> str:
        """Return the hash of a remote file, without fetching it if the version in the store is still the uploaded one."""
        found = self._place(name).status()
        if self.desk is not None and found.version is not None and (note := self.desk / "sent" / f"{name}.json").is_file():
            sent = read_json(note)
            if (sent["num_bytes"], sent["version"]) == found:
                return str(sent["sha256"])
        with self._place(name).fetched(found) as path:
            return sha256_file(path)

    def _place(self, name: str) -> Remote:
        return self.place / _checked(name)


def _checked(name: str) -> str:
    """Validate a name, which may come from an untrusted table."""
    if not stays_inside(name):
        raise InputError(f"{name}: points outside the folder")
    return name


#: A folder to publish to and to read from.
Folder = LocalFolder | RemoteFolder


def folder_at(where: str | Path, *, desk: Path | None = None) -> Folder:
    """Return the folder at a path, made absolute, or at an address; one that is written to needs a `desk` if it is remote."""
    if not is_url(str(where)):
        return LocalFolder(Path(where).absolute())
    if str(where).startswith("file://"):
        return LocalFolder(Path(url2pathname(urlsplit(str(where)).path)))
    place = remote(str(where))
    if desk is not None:
        upload.check_writable(str(place))
    return RemoteFolder(place, desk)


def read_object(folder: Folder, name: str) -> dict[str, Any]:
    """Read a JSON object; raise InputError if the file is missing or holds something else."""
    with folder.local(name) as path:
        return read_json(path)


def write_object(folder: Folder, name: str, value: dict[str, Any]) -> None:
    """Publish a JSON object; equal values give equal bytes."""
    with folder.new(name) as path:
        write_json(path, value)
