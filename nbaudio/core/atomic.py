"""Atomic writes, JSON files, append-only logs, links, file hashes, and locks.

A file is written beside its final name, then moved onto it.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import msgspec

from nbaudio.core import input_guards
from nbaudio.core.errors import DiskFullError, InputError, one_line

if TYPE_CHECKING:
    import polars as pl

_Line = TypeVar("_Line")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Files of a folder that are synced at once: a disk syncs many in the time of one.
_SYNC_THREADS = 16


def lock(
    file: BinaryIO | int, *, shared: bool = False, wait: bool = True, required: bool = True
) -> bool:
    """Lock a file until it is closed; return False if another process holds the lock.

    Args:
        file: the file or its descriptor.
        shared: allow other shared locks at the same time.
        wait: wait until the lock is free, so that the return value is True.
        required: raise OSError on a filesystem without locks; else return True there.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if not wait:
        kind |= fcntl.LOCK_NB
    try:
        fcntl.flock(file, kind)
    except BlockingIOError:
        return False
    except OSError:
        if required:
            raise
    return True


def disk_full_reason(error: BaseException) -> str | None:
    """Return the system's message if an error means that the disk is full, else None."""
    # Polars raises its own errors: with the error number in the text, or without it if a Parquet
    # footer cannot be written.
    if "thrift: transport error" in str(error):
        return "cannot be written to its end"
    match = re.search(r"\(os error (\d+)\)", str(error))
    number = int(match[1]) if match else getattr(error, "errno", None)
    return os.strerror(number) if number in _FULL else None


@contextmanager
def raise_disk_full(target: Path) -> Iterator[None]:
    """Convert errors that mean a full disk to `DiskFullError`; `target` is named in the message."""
    try:
        yield
    except Exception as error:
        if full := disk_full_reason(error):
            raise DiskFullError(
                f"{target}: {full}; free some space and run the command again; "
                "finished work is kept"
            ) from error
        raise


@contextmanager
def atomic_write(target: Path, *, sync: bool = True) -> Iterator[Path]:
    """Yield a path beside `target` for a file or folder, moved onto it on success.

    `sync` first waits until it is on the disk.
    """
    # Threads and hosts may write at the same time
    partial = target.with_name(f".{target.name}.{os.urandom(4).hex()}.partial")
    with raise_disk_full(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        try:
            yield partial
            if sync:
                _sync_all(partial)
            if partial.is_dir():
                remove(target)
            partial.replace(target)
        except BaseException:
            remove(partial)
            raise


def _sync_all(path: Path) -> None:
    """Wait until a file, or a folder with its contents, is on the disk."""
    with ThreadPoolExecutor(_SYNC_THREADS) as pool:
        list(pool.map(_sync, (path, *path.rglob("*"))))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_partials(folder: Path) -> None:
    """Remove the temporary files that killed runs left in a folder."""
    for path in list(folder.rglob(".*.partial")):
        remove(path)


class JsonRows(list[dict[str, Any]]):
    """The rows of a frame as a list of dicts for `write_json`, which makes them one by one.

    A real list of dicts takes several times the memory. Only the length and one pass over the rows
    are implemented.
    """

    def __init__(self, frame: "pl.DataFrame") -> None:
        super().__init__()
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._frame.iter_rows(named=True)


def write_bytes(target: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a file atomically (see `atomic_write`)."""
    with atomic_write(target, sync=sync) as partial:
        partial.write_bytes(content)


def write_json(target: Path, value: Any, *, sync: bool = True) -> None:
    """Write indented JSON with sorted keys atomically (see `atomic_write`).

    Equal values give equal bytes.
    """
    with atomic_write(target, sync=sync) as partial, partial.open("w", encoding="utf8") as file:
        # In pieces: corpus.json may name 300,000 recordings
        json.dump(value, file, ensure_ascii=False, indent=2, sort_keys=True)
        file.write("\n")


def append_lines(target: Path, lines: Iterable[bytes]) -> None:
    """Append lines, given without line ends, to a log and sync it.

    Several processes may append at the same time.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        input_guards.check_regular(target)
    encoded = list(lines)
    with target.open("a+b", buffering=0) as file:
        lock(file)
        write_lines(file, encoded)


def write_lines(file: BinaryIO, lines: Iterable[bytes], *, sync: bool = True) -> None:
    """Append lines, given without line ends, to a log that is open unbuffered in mode ``a+b``.

    `sync` waits for the disk.
    """
    file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
    if file.read() not in (b"", b"\n"):
        # A process that was killed while writing, or a full disk, left half a line, which nobody
        # has reported as written.
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
    pending = b"".join(line + b"\n" for line in lines)
    while pending:
        pending = pending[file.write(pending) :]
    if sync:
        os.fsync(file.fileno())


def read_lines(target: Path, decode: Callable[[bytes], _Line], what: str) -> list[_Line]:
    """Return the decoded lines of a log, if any, without half a line at its end.

    Raise InputError for a line that is not `what`.
    """
    lines: list[_Line] = []
    with suppress(FileNotFoundError):
        input_guards.check_regular(target)
        for number, line in enumerate(target.read_bytes().split(b"\n")[:-1], start=1):
            try:
                lines.append(decode(line))
            except msgspec.MsgspecError as error:
                raise InputError(
                    f"{target}: line {number}: not {what} ({one_line(error)})"
                ) from error
    return lines


def parse_lines(
    log: bytes | Iterable[bytes], decode: Callable[[bytes], Any] = json.loads
) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among the lines of a log; skip damaged lines and other values."""
    if isinstance(log, bytes):
        log = log.splitlines()
    for line in log:
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            if isinstance(value := decode(line), dict):
                yield value


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a log, as `parse_lines` does; none if there is no such file."""
    if path.is_file():
        yield from parse_lines(path.read_bytes())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise InputError if the file is missing or holds something else."""
    try:
        value = json.loads(input_guards.read_all(path, most=input_guards.MOST_JSON_BYTES))
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: must hold a JSON object, holds {type(value).__name__}")
    return value


def trusted_root(folder: Path) -> Path:
    """Return the folder that links below a folder may point to.

    It is the folder itself, or the repository of a Hugging Face snapshot.
    """
    real = Path(os.path.realpath(folder))
    for snapshots in real.parents:
        if snapshots.name == "snapshots" and (snapshots.parent / "blobs").is_dir():
            return snapshots.parent
    return real


def escapes_folder(path: Path, home: Path) -> bool:
    """Return whether a path is, or is below, a link that points outside a folder.

    `trusted_root` returns the folder to compare with.
    """
    return not Path(os.path.realpath(path)).is_relative_to(home)


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hex; raise InputError if it is not a regular file."""
    input_guards.check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_path(path: Path) -> str:
    """Return the SHA-256 of a file, or of a folder's list of files as `sha256sum` prints it."""
    if path.is_file():
        return sha256_file(path)
    return sha256_listed(
        {
            file.relative_to(path).as_posix(): sha256_file(file)
            for file in path.rglob("*")
            if file.is_file()
        }
    )


def sha256_listed(hashes: Mapping[str, str]) -> str:
    """Return the SHA-256 of a list of files, given as hash by name in any order."""
    return hashlib.sha256(
        "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode()
    ).hexdigest()


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 if there is none."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
