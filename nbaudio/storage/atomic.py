"""Writing without half-written files, reading back, and hashing.

Everything that gets a final name is written beside it first and moved there when whole.
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
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from nbaudio.core import guards
from nbaudio.core.errors import DiskFullError, InputError, one_line

if TYPE_CHECKING:
    import polars as pl

_Line = TypeVar("_Line")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# A large file is brought to the disk this often while it is written: what is left at its end is soon there.
_FLUSH_EVERY_S = 0.05
# Files of a folder that are waited for at once: a disk takes many together in the time of one.
_SYNCED_AT_ONCE = 16


def disk_full_reason(error: BaseException) -> str | None:
    """What the system says where an error means that there is no room to write; None where it means something else.

    Examples:
        >>> disk_full_reason(OSError(28, "No space left on device")), disk_full_reason(OSError(5, "Input/output error"))
        ('No space left on device', None)
    """
    # Polars raises errors of its own, with the number in words, or without where the end of a Parquet file is not written.
    if "thrift: transport error" in str(error):
        return "cannot be written to its end"
    said = re.search(r"\(os error (\d+)\)", str(error))
    number = int(said[1]) if said else getattr(error, "errno", None)
    return os.strerror(number) if number in _FULL else None


@contextmanager
def raise_disk_full(target: Path) -> Iterator[None]:
    """Let errors for want of room to write at `target` be `DiskFullError`."""
    try:
        yield
    except Exception as error:
        if full := disk_full_reason(error):
            raise DiskFullError(f"{target}: {full}; make room and run the same again, what is done is kept") from error
        raise


@contextmanager
def atomic_write(target: Path, *, sync: bool = True) -> Iterator[Path]:
    """A path beside `target` to write a file or make a folder at; moved onto `target` at the end, removed when anything fails.

    Args:
        target: the final name; its folder is made.
        sync: wait until the bytes are on the disk, so that a power cut cannot leave an empty file under the final name.

    Raises:
        DiskFullError: there is no space left.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    with raise_disk_full(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        try:
            with _on_disk(partial) if sync else nullcontext():
                yield partial
            if partial.is_dir():
                remove(target)
            partial.replace(target)
        except BaseException:
            remove(partial)
            raise


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    """Have a file, or a folder of files, that is written meanwhile on the disk when the context ends."""
    written = Event()

    def flush() -> None:
        while not written.wait(_FLUSH_EVERY_S):
            if path.is_file():
                with suppress(FileNotFoundError):  # removed by its writer meanwhile
                    _sync(path)

    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as pool:
        # What goes wrong is told to whoever flushes first, and never again.
        flushed = pool.submit(flush)
        try:
            yield
        finally:
            written.set()
        flushed.result()
        for synced in [pool.submit(_sync, each) for each in (path, *path.rglob("*"))]:
            synced.result()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_partials(*folders: Path) -> None:
    """Remove what killed runs left half-written in these folders."""
    for folder in folders:
        for path in list(folder.rglob(".*.partial")):
            remove(path)


class JsonRows(list[dict[str, Any]]):
    """The rows of a frame as `write_json` writes them, one by one: as dictionaries they would take several times the memory.

    Examples:
        >>> import tempfile
        >>> import polars as pl
        >>> write_json(path := Path(tempfile.mkdtemp()) / "a.json", {"rows": JsonRows(pl.DataFrame({"n": [1, 2]}))})
        >>> read_json(path)
        {'rows': [{'n': 1}, {'n': 2}]}
    """

    def __init__(self, frame: "pl.DataFrame") -> None:
        """Take a frame whose values JSON can hold."""
        super().__init__()
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._frame.iter_rows(named=True)


def write_json(target: Path, value: Any, *, sync: bool = True) -> None:
    """Write `value` as readable JSON, whole or not at all (see `atomic_write`); equal values give equal bytes."""
    with atomic_write(target, sync=sync) as partial, partial.open("w", encoding="utf8") as file:
        json.dump(value, file, ensure_ascii=False, indent=2, sort_keys=True)  # by pieces: a manifest may name 300,000 recordings
        file.write("\n")


def append_lines(target: Path, lines: Iterable[bytes]) -> None:
    """Add lines to a log; they are on the disk when this returns, and several programs may do it at once.

    Args:
        target: the log; its folder is made.
        lines: without their line ends.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        guards.check_regular(target)
    data = b"".join(line + b"\n" for line in lines)
    with target.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(max(file.tell() - 1, 0))
        if file.read() not in (b"", b"\n"):
            # A program that was killed while it wrote has left half a line, of which nobody was told that it is kept.
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_lines(target: Path, decode: Callable[[bytes], _Line], what: str) -> list[_Line]:
    """What a log holds, in order; half a line at its end, that a killed program left, is none. No log holds nothing.

    Args:
        target: the log.
        decode: of msgspec.
        what: each line is to be, for the error.

    Raises:
        InputError: a line is something else, or the log is no regular file.
        OSError: it cannot be read.
    """
    found = []
    try:
        guards.check_regular(target)
    except FileNotFoundError:
        return []
    for number, line in enumerate(target.read_bytes().split(b"\n")[:-1], start=1):
        try:
            found.append(decode(line))
        except msgspec.MsgspecError as error:
            raise InputError(f"{target}: line {number}: not {what} ({one_line(error)})") from error
    return found


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        InputError: the file is missing or holds something else.
    """
    try:
        value = json.loads(guards.read_all(path, most=guards.MOST_JSON_BYTES))
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: must hold a JSON object, holds {type(value).__name__}")
    return value


def trusted_root(folder: Path) -> Path:
    """Where links below a folder may lead: into itself; of a snapshot in Hugging Face's cache, also to the blobs beside it."""
    whole = Path(os.path.realpath(folder))
    above = (part.parent for part in (whole, *whole.parents) if part.parent.name == "snapshots")
    return next((held.parent for held in above if (held.parent / "blobs").is_dir()), whole)


def escapes_folder(path: Path, home: Path) -> bool:
    """Whether a path is a link, or lies behind one, that leads out of a folder, as of `trusted_root`.

    Examples:
        >>> import tempfile
        >>> home = trusted_root(Path(tempfile.mkdtemp()))
        >>> (home / "inside").symlink_to(home / "a")
        >>> (home / "outside").symlink_to("/etc")
        >>> escapes_folder(home / "inside", home), escapes_folder(home / "outside/passwd", home)
        (False, True)
    """
    return not Path(os.path.realpath(path)).is_relative_to(home)


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, as hex.

    Raises:
        InputError: it is no regular file.
        OSError: it cannot be read.
    """
    guards.check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_path(path: Path) -> str:
    """SHA-256 of a file's bytes; of a folder, of the list of its files as `sha256sum` would print it."""
    if path.is_file():
        return sha256_file(path)
    return sha256_listed({file.relative_to(path).as_posix(): sha256_file(file) for file in path.rglob("*") if file.is_file()})


def sha256_listed(hashes: Mapping[str, str]) -> str:
    """SHA-256 of a list of files, given as hash by name.

    Examples:
        >>> sha256_listed({"b": "11", "a": "00"}) == sha256_listed({"a": "00", "b": "11"})
        True
    """
    return hashlib.sha256("".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode()).hexdigest()


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
