"""Fetched files with a limit on their size, shared by processes.

Users of a file share its lock, eviction takes it alone.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nbaudio.core.atomic import atomic_write, lock

#: Default limit in bytes.
LIMIT = 20_000_000_000
# Eviction goes down to this share of the limit, so that it is rare.
_FILL = 0.9


@dataclass(frozen=True)
class Cache:
    """A cache of at most `limit` bytes in a folder, created when first needed; picklable.

    Any of its files may be deleted.
    """

    folder: Path
    limit: int = LIMIT

    @contextmanager
    def pinned(
        self, identity: str, num_bytes: int, fetch: Callable[[Path], None]
    ) -> Iterator[Path]:
        """Yield the cached file of an identity, which is not evicted within the context.

        If it is missing, one process calls `fetch` with the path to write to; others wait for it.
        `num_bytes` is the size of the file, for which room is made first.
        """
        path = self._path(identity)
        is_new = False
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _open_shared(path)
        if file is None:
            with self._locked(f"{path.parent.name}.lock"):
                file = _open_shared(path)
                if file is None:
                    file = self._fetch(path, num_bytes, fetch)
                    is_new = True
        try:
            with file:
                os.utime(path)
                yield path
        finally:
            if is_new:
                self._keep_limit()

    def forget(self, identity: str) -> None:
        """Remove a file unless it is in use."""
        _remove_unused(self._path(identity))

    def holds(self, identity: str) -> bool:
        """Return whether a file is in the cache now."""
        return self._path(identity).is_file()

    def _path(self, identity: str) -> Path:
        digest = hashlib.sha256(identity.encode("utf8", "surrogatepass")).hexdigest()
        return self.folder / digest[:2] / digest[2:40]

    def _fetch(self, path: Path, num_bytes: int, fetch: Callable[[Path], None]) -> BinaryIO:
        """Fetch a file, evicting others if the limit requires it.

        Return it open, and locked before its first byte.
        """
        with atomic_write(path) as partial:
            with self._locked("total.lock") as total:
                expected = _read_number(total) + num_bytes
                if expected > self.limit:
                    expected = num_bytes + self._evict(int(_FILL * self.limit) - num_bytes)
                _write_number(total, expected)
                file = partial.open("w+b")
                lock(file, shared=True)
            try:
                fetch(partial)
            except BaseException:
                file.close()
                raise
        return file

    def _keep_limit(self) -> None:
        """Evict files if there is more than the limit, by a file that is larger and free now."""
        with self._locked("total.lock") as total:
            if _read_number(total) > self.limit:
                _write_number(total, self._evict(self.limit))

    @contextmanager
    def _locked(self, name: str) -> Iterator[BinaryIO]:
        with (self.folder / name).open("a+b") as file:
            lock(file)
            yield file

    def _evict(self, most: int) -> int:
        """Remove the least recently used files until `most` bytes are left, or all are in use.

        Return the bytes left.
        """
        files = []
        for path in self.folder.glob("*/*"):
            with suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= most:
                break
            if _remove_unused(path):
                total -= size
        return total


def _read_number(file: BinaryIO) -> int:
    """Return the number in a file.

    The number of an empty file is 0. If it is unreadable, return one above any limit, so that the
    files are counted again.
    """
    file.seek(0)
    text = file.read()
    if not text:
        return 0
    return int(text) if text.isdigit() else sys.maxsize


def _write_number(file: BinaryIO, number: int) -> None:
    file.truncate(0)
    file.write(str(number).encode())


def _open_shared(path: Path) -> BinaryIO | None:
    """Open a file with a lock against eviction; return None if it does not exist."""
    with suppress(FileNotFoundError):
        file = path.open("rb")
        lock(file, shared=True)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()
    return None


def _remove_unused(path: Path) -> bool:
    """Remove a file unless it is in use; return whether it is gone."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        if not lock(file, wait=False):
            return False
        path.unlink()
    return True
