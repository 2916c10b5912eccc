"""A folder of files that were fetched, bounded in bytes, for any number of processes at once.

Files are called after a hash of what they are. Who uses one holds a shared lock on it, who removes one needs it alone: a file in
use stays. The bound is passed only by what is in use at the same time. Everything in the folder may be removed at any moment.
"""

import fcntl
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nbaudio.storage.atomic import atomic_write

#: Bytes, unless told otherwise.
LIMIT = 20_000_000_000
# Room is made for some time to come.
_FILL = 0.9


@dataclass(frozen=True)
class Cache:
    """A cache; picklable, so that workers share it.

    Attributes:
        folder: made when it is first needed.
        limit: bytes in all.
    """

    folder: Path
    limit: int = LIMIT

    @contextmanager
    def held(self, identity: str, num_bytes: int, fetch: Callable[[Path], None]) -> Iterator[Path]:
        """The file of that identity, fetched if it is not there; not removed while the context lasts.

        Args:
            identity: all that says which bytes they are.
            num_bytes: how many.
            fetch: writes them to a path; one process fetches, others wait for it.
        """
        path, fetched = self._path(identity), False
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _shared(path)
        if file is None:
            with self._alone(f"{path.parent.name}.lock"):
                file = _shared(path)
                if file is None:
                    file, fetched = self._fetched(path, num_bytes, fetch), True
        try:
            with file:
                os.utime(path)
                yield path
        finally:
            if fetched:
                self._shrink_to_limit()

    def forget(self, identity: str) -> None:
        """Remove that file, unless somebody uses it."""
        _removed(self._path(identity))

    def holds(self, identity: str) -> bool:
        """Whether that file is there now."""
        return self._path(identity).is_file()

    def _path(self, identity: str) -> Path:
        digest = hashlib.sha256(identity.encode("utf8", "surrogatepass")).hexdigest()
        return self.folder / digest[:2] / digest[2:40]

    def _fetched(self, path: Path, num_bytes: int, fetch: Callable[[Path], None]) -> BinaryIO:
        """Fetch a file; open, and locked from before its first byte on."""
        with atomic_write(path) as partial:
            with self._alone("total.lock") as counted:
                self._make_room(num_bytes, counted)
                file = partial.open("w+b")
                fcntl.flock(file, fcntl.LOCK_SH)
            try:
                fetch(partial)
            except BaseException:
                file.close()
                raise
        return file

    def _make_room(self, num_bytes: int, counted: BinaryIO) -> None:
        """Count in a file to come; where that passes the limit, remove what was not used for longest."""
        total = _number(counted) + num_bytes
        if total > self.limit:
            total = num_bytes + self._shrink(int(_FILL * self.limit) - num_bytes)
        counted.truncate(0)
        counted.write(str(total).encode())

    def _shrink_to_limit(self) -> None:
        """Once nobody uses what was too large for it."""
        with self._alone("total.lock") as counted:
            if _number(counted) > self.limit:
                total = self._shrink(self.limit)
                counted.truncate(0)
                counted.write(str(total).encode())

    @contextmanager
    def _alone(self, name: str) -> Iterator[BinaryIO]:
        with (self.folder / name).open("a+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock

    def _shrink(self, most: int) -> int:
        """Remove files until they are no more than so many bytes, or all in use; how many bytes there are then."""
        found = []
        for path in self.folder.glob("*/*"):
            with suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= most:
                break
            if _removed(path):
                total -= size
        return total


def _number(counted: BinaryIO) -> int:
    """What is counted there; more than any limit where it cannot be read, so that it is counted anew."""
    counted.seek(0)
    text = counted.read()
    return int(text) if text.isdigit() else sys.maxsize if text else 0


def _shared(path: Path) -> BinaryIO | None:
    """The file, open and locked against removal; None where there is none."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    fcntl.flock(file, fcntl.LOCK_SH)
    if os.fstat(file.fileno()).st_nlink:
        return file
    file.close()
    return None


def _removed(path: Path) -> bool:
    """Remove a file that nobody uses; whether it is gone."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    except BlockingIOError:
        return False
    except FileNotFoundError:
        pass
    return True
