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

from nbaudio.core import atomic
from nbaudio.core.atomic import atomic_write, read_json, sha256_file, write_json
from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.core.input_guards import check_regular
from nbaudio.core.threads import ordered_map
from nbaudio.storage.base import Location
from nbaudio.storage.location import location
from nbaudio.storage.retry import RemoteNotFoundError, convert_error
from nbaudio.storage.urls import check_writable, is_url, stays_inside

# Small files that are transferred at once.
_JOBS = 8


@dataclass(frozen=True)
class Folder:
    """A folder, local or remote, that complete files are published to and read from.

    A name that points outside the folder and a missing file raise InputError, bytes that cannot be read AudioError. A remote file
    is written on this machine, uploaded, and removed here, a folder of files one file after the other.

    `desk` is a local folder for files before their upload, and for the hash and the version in the store of each uploaded file:
    while the version is the same, the file is not fetched to know its hash. None for a folder that is local or only read.
    """

    place: Location
    desk: Path | None = None

    def __str__(self) -> str:
        return str(self.place)

    def new(self, name: str) -> AbstractContextManager[Path]:
        """Yield a local path to write to; publish it under `name` when the context succeeds."""
        place = self._place(name)
        return self._upload(name) if place.local is None else atomic_write(place.local)

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """Yield a local path of the whole file, valid within the context."""
        with self._regular(name) as place, place.fetched() as path:
            yield path

    def read(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) of a file."""
        with self._regular(name) as place:
            return place.read(start, stop)

    def size(self, name: str) -> int:
        """Return the bytes of a regular file."""
        with self._regular(name) as place:
            return place.status().num_bytes

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        place = self._place(name)
        if place.local is not None:
            return place.local.is_file()
        with convert_error(AudioError, InputError), suppress(RemoteNotFoundError):
            place.status()
            return True
        return False

    def holds(self, name: str, sha256: str, num_bytes: int | None = None) -> bool:
        """Return whether a file or folder exists with this hash; it is read only if it has `num_bytes`."""
        place = self._place(name)
        if (path := place.local) is not None:
            return path.exists() and num_bytes in (None, atomic.size_of(path)) and atomic.sha256_path(path) == sha256
        try:
            if not place.is_folder():
                return num_bytes in (None, place.status().num_bytes) and self._sha256(name) == sha256
            parts = list(place.files())
            hashes = ordered_map(self._sha256, (f"{name}/{part}" for part in parts), jobs=_JOBS)
            return atomic.sha256_listed(dict(zip(parts, hashes, strict=True))) == sha256
        except RemoteNotFoundError:
            return False

    def names(self) -> Iterator[str]:
        """Yield all files, including hidden ones."""
        if (root := self.place.local) is None:
            return self.place.files()
        return (path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        self._place(name).remove()

    def tidy(self) -> None:
        """Remove temporary files of killed runs."""
        self.place.tidy()
        if self.desk is not None:
            shutil.rmtree(self.desk / "new", ignore_errors=True)

    @contextmanager
    def _regular(self, name: str) -> Iterator[Location]:
        """Yield the location of a file; raise InputError if it is missing, or a local one is not a regular file."""
        place = self._place(name)
        try:
            if place.local is not None:
                check_regular(place.local)
        except FileNotFoundError as error:
            raise InputError(f"{place}: missing") from error
        with convert_error(RemoteNotFoundError, InputError):
            yield place

    @contextmanager
    def _upload(self, name: str) -> Iterator[Path]:
        """Yield a path on the desk; upload what is written there."""
        if self.desk is None:
            raise NbaudioError(f"{self}: was opened for reading")
        written = self.desk / "new" / name
        try:
            with atomic_write(written, sync=False) as partial:
                yield partial
            self._send(name, written, self.desk)
        finally:
            atomic.remove(written)

    def _send(self, name: str, written: Path, desk: Path) -> None:
        """Upload a file, or all files of a folder, and remove others from the remote folder."""
        if written.is_file():
            sha256 = sha256_file(written)
            status = self._place(name).put(written)
            write_json(desk / "sent" / f"{name}.json", {"sha256": sha256, **status._asdict()})
            return
        parts = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
        deque(ordered_map(lambda part: self._send(f"{name}/{part}", written / part, desk), sorted(parts), jobs=_JOBS), maxlen=0)
        for part in {*self._place(name).files()} - parts:
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

    def _place(self, name: str) -> Location:
        """Validate a name, which may come from an untrusted table, and return the file's location."""
        if not stays_inside(name):
            raise InputError(f"{name}: points outside the folder")
        return self.place / name


def folder_at(where: str | Path, *, desk: Path | None = None) -> Folder:
    """Return the folder at a path, made absolute, or at an address; one that is written to needs a `desk` if it is remote."""
    place = location(str(where) if is_url(str(where)) else Path(where).absolute())
    if desk is not None and place.local is None:
        check_writable(str(place))
    return Folder(place, desk)


def read_object(folder: Folder, name: str) -> dict[str, Any]:
    """Read a JSON object; raise InputError if the file is missing or holds something else."""
    with folder.local(name) as path:
        return read_json(path)
