"""Folders that complete files are published to under paths inside them, and read from.

Files of remote folders go by way of the local disk.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from nbaudio.core import atomic, input_guards, threads
from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.storage import range_file, urls
from nbaudio.storage.location import Location, location
from nbaudio.storage.network import RemoteNotFoundError, convert_error
from nbaudio.storage.remote import Remote

# Small files that are transferred at once.
_JOBS = 8
# A pipe does not block
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Folder:
    """A folder that files are published to and read from.

    `desk` holds files before their upload, and hash and version of uploaded ones, which then need
    no fetch.
    """

    place: Location
    desk: Path | None = None

    def __str__(self) -> str:
        return str(self.place)

    def new(self, name: str) -> AbstractContextManager[Path]:
        """Yield a local path to write to; publish it under `name` when the context succeeds."""
        place = self._place(name)
        if place.local is None:
            return self._upload(name)
        return atomic.atomic_write(place.local)

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """Yield a local path of the whole file, valid within the context."""
        with self._regular(name) as place, place.fetched() as path:
            yield path

    def loaded(self, name: str, most: int) -> Location:
        """Return a file; a remote one of at most `most` bytes is fetched.

        On the web, it is fetched in one request.
        """
        with self._regular(name) as place:
            return place.loaded(most)

    def read(self, name: str, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) of a file."""
        with self._regular(name) as place:
            return place.read(start, stop)

    def opened(self, name: str) -> int:
        """Open a regular file of a folder on this machine.

        Return its descriptor, which the caller closes.
        """
        path = f"{self.place.local}/{_inside(name)}"
        try:
            descriptor = os.open(path, _READ)
        except FileNotFoundError as error:
            raise InputError(f"{path}: missing") from error
        except OSError:  # a loop of links, a socket
            input_guards.check_regular(path)
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            input_guards.check_regular(path)
            raise InputError(f"{path}: changed while it was opened")
        return descriptor

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
        """Return whether a file or folder exists with this hash.

        It is read only if it has `num_bytes`.
        """
        place = self._place(name)
        if (path := place.local) is not None:
            return (
                path.exists()
                and num_bytes in (None, atomic.size_of(path))
                and atomic.sha256_path(path) == sha256
            )
        try:
            if not place.is_folder():
                return (
                    num_bytes in (None, place.status().num_bytes) and self._sha256(name) == sha256
                )
            parts = list(place.files())
            hashes = threads.ordered_map(
                self._sha256, (f"{name}/{part}" for part in parts), jobs=_JOBS
            )
            return atomic.sha256_listed(dict(zip(parts, hashes, strict=True))) == sha256
        except RemoteNotFoundError:
            return False

    def copy_from(self, other: "Folder", name: str, sha256: str, num_bytes: int) -> None:
        """Publish what another folder has under the same name.

        This is done by links, by the server or by copies; only copies are hashed.
        """
        source = other._place(name)
        target = self._place(name)
        parts = [f"{name}/{part}" for part in source.files()] if source.is_folder() else [name]
        if (
            source.local is None
            and target.local is None
            and str(source).partition("://")[0] == str(target).partition("://")[0]
        ):
            for part in parts:
                # The hash of a shard that is a folder is not the hash of a file.
                sha256_of_part = sha256 if part == name else None
                self._copy_on_server(part, other._place(part), sha256_of_part)
            return
        if (
            source.local is not None
            and (num_bytes_stored := atomic.size_of(source.local)) != num_bytes
        ):
            expected = f"{num_bytes_stored:,} bytes, not the {num_bytes:,} that were written"
            raise InputError(f"{source}: {expected}; 'nbaudio verify {other}' lists all damage")
        if (
            source.local is not None
            and target.local is not None
            and _are_linked(source.local, target.local)
        ):
            return
        if not self.holds(name, sha256, num_bytes):
            with ExitStack() as stack:
                partial = stack.enter_context(self.new(name))
                for part in parts:
                    _link(
                        stack.enter_context(other.local(part)),
                        partial / part.removeprefix(name).strip("/"),
                    )

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
        """Yield the location of a file.

        Raise InputError if it is missing, or a local one is not a regular file.
        """
        place = self._place(name)
        try:
            if place.local is not None:
                input_guards.check_regular(place.local)
        except FileNotFoundError as error:
            raise InputError(f"{place}: missing") from error
        with convert_error(RemoteNotFoundError, InputError):
            yield place

    @contextmanager
    def _upload(self, name: str) -> Iterator[Path]:
        """Yield a path in the desk to write to; upload it when the context succeeds."""
        if self.desk is None:
            raise NbaudioError(f"{self}: was opened for reading")
        written = self.desk / "new" / name
        try:
            with atomic.atomic_write(written, sync=False) as partial:
                yield partial
            self._send(name, written, self.desk)
        finally:
            atomic.remove(written)

    def _send(self, name: str, written: Path, desk: Path) -> None:
        """Upload a file, or all files of a folder, and remove others from the remote folder."""
        if written.is_file():
            sha256 = atomic.sha256_file(written)
            status = cast(Remote, self._place(name)).put(written)
            atomic.write_json(
                desk / "sent" / f"{name}.json", {"sha256": sha256, **status._asdict()}
            )
            return
        parts = {
            path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()
        }
        list(
            threads.ordered_map(
                lambda part: self._send(f"{name}/{part}", written / part, desk),
                sorted(parts),
                jobs=_JOBS,
            )
        )
        for part in {*self._place(name).files()} - parts:
            self.remove(f"{name}/{part}")

    def _sha256(self, name: str) -> str:
        """Return the hash of a remote file.

        The file is not fetched if the version in the store is still the uploaded one.
        """
        status = self._place(name).status()
        if sent := self._sent(name, status):
            return sent
        with self._place(name).fetched(status) as path:
            return atomic.sha256_file(path)

    def _sent(self, name: str, status: range_file.FileStatus) -> str | None:
        """Return the hash of an uploaded file whose version in the store is still the same."""
        if (
            self.desk is not None
            and status.version is not None
            and (note := self.desk / "sent" / f"{name}.json").is_file()
        ):
            sent = atomic.read_json(note)
            if (sent["num_bytes"], sent["version"]) == status:
                return str(sent["sha256"])
        return None

    def _copy_on_server(self, name: str, source: Location, sha256: str | None) -> None:
        """Let the server copy a file, unless this version was sent before; record its hash."""
        target = cast(Remote, self._place(name))
        with suppress(RemoteNotFoundError):
            if self._sent(name, target.status()):
                return
        status = target.copy_from(source)
        if self.desk is not None and sha256 is not None:
            atomic.write_json(
                self.desk / "sent" / f"{name}.json", {"sha256": sha256, **status._asdict()}
            )

    def _place(self, name: str) -> Location:
        return self.place / _inside(name)


def _inside(name: str) -> str:
    """Return a name, which may come from an untrusted table.

    Raise InputError where it points outside the folder.
    """
    if not urls.stays_inside(name):
        raise InputError(f"{name}: points outside the folder")
    return name


def _are_linked(source: Path, target: Path) -> bool:
    """Return whether a file, or each file of a folder, is a hard link to the other one."""
    if source.is_dir():
        names, others = ({path.name for path in folder.glob("*")} for folder in (source, target))
        return (
            target.is_dir()
            and names == others
            and all((target / name).samefile(source / name) for name in names)
        )
    return target.exists() and target.samefile(source)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def folder_at(where: str | Path, *, desk: Path | None = None) -> Folder:
    """Return the folder at a path, made absolute, or at an address.

    One that is written to needs a `desk` if it is remote.
    """
    if urls.is_url(str(where)):
        place = location(str(where))
    else:
        place = location(Path(where).absolute())
    if desk is not None and place.local is None:
        urls.check_writable(str(place))
    return Folder(place, desk)


def read_object(folder: Folder, name: str) -> dict[str, Any]:
    """Read a JSON object; raise InputError if the file is missing or holds something else."""
    with folder.loaded(name, input_guards.MAX_TEXT_BYTES).fetched() as path:
        return atomic.read_json(path)
