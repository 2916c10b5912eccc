"""Remove files that killed steps left in a workspace. The next command does so.

A step holds the lock ``.WHAT.running`` of what it writes, and the system releases the lock when the
process ends, however it ends. Files whose lock no process holds were left by a process that died.
"""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from nbaudio.core.atomic import lock, remove

#: What steps lock in a workspace; see `nbaudio.tables.workspace.locks_workspace`.
LOCKS = ("tables", "signals", "recognized", "measured", "reviews")
TABLES, SIGNALS, RECOGNIZED, MEASURED, REVIEWS = LOCKS
#: Folder of tables that get their names together, while they are written under the lock of tables.
SAVING = "saving"
#: Folder of the words of the texts, which widgets write without a lock.
VOCABULARY = ".words"

_SCRATCH = ".scratch."
_IN_USE = ".in_use"
# Small files are also written without a lock, and their time is that of the last byte.
_SMALL_FILES_S = 60.0


@contextmanager
def scratch_folder(workspace: Path) -> Iterator[Path]:
    """Yield a temporary folder in a workspace, which is locked as long as it is used."""
    while True:
        with (
            TemporaryDirectory(dir=workspace, prefix=_SCRATCH, suffix=".partial") as folder,
            (Path(folder) / _IN_USE).open("wb") as file,
        ):
            lock(file, required=False)
            if os.fstat(file.fileno()).st_nlink:  # not removed before it was locked
                yield Path(folder)
                return


def remove_leftovers(workspace: Path, *, own_locks: Collection[Path] = ()) -> None:
    """Remove what dead processes left in a workspace; keep what living ones write.

    Nothing is removed where the filesystem has no locks or does not let us write. `own_locks` are
    the files of the locks that this thread holds.
    """
    for what in LOCKS:
        marker = _marker(workspace, what)
        if marker in own_locks:
            continue
        if marker.exists() or any(_partials(workspace, what)):
            with suppress(OSError):
                _remove_unless_locked(workspace, what)
    for folder in workspace.glob(f"{_SCRATCH}*.partial"):
        with suppress(OSError):
            _remove_scratch(folder)
    for path in _small_files(workspace):
        with suppress(OSError):
            if _is_old(path):
                remove(path)


def _marker(workspace: Path, what: str) -> Path:
    """Return the file that a step locks, which exists as long as the step runs."""
    return workspace / f".{what}.running"


def _remove_unless_locked(workspace: Path, what: str) -> None:
    """Remove what belongs to a lock, and the file of the lock, unless a step holds it."""
    marker = _marker(workspace, what)
    with marker.open("a+b", buffering=0) as file:
        if not lock(file, wait=False):
            return
        for path in list(_partials(workspace, what)):
            remove(path)
        marker.unlink(missing_ok=True)  # last of all: then another step may begin


def _remove_scratch(folder: Path) -> None:
    """Remove a temporary folder that no process uses."""
    if not (folder / _IN_USE).exists():
        if _is_old(folder):  # its process ended, or is about to lock it
            remove(folder)
        return
    with (folder / _IN_USE).open("ab") as file:
        if lock(file, wait=False):
            remove(folder)


def _is_old(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _SMALL_FILES_S


def _partials(workspace: Path, what: str) -> Iterator[Path]:
    """Yield the unfinished files and folders that only a step with this lock writes."""
    signals = set(workspace.glob(f".{SIGNALS}.parquet.*.partial"))
    if what == SIGNALS:
        yield from signals
    elif what == TABLES:
        yield from set(workspace.glob(".*.parquet.*.partial")) - signals
        if (workspace / SAVING).is_dir():
            yield workspace / SAVING
    elif what in (RECOGNIZED, MEASURED):
        yield from (workspace / what).rglob(".*.partial")
    elif what == REVIEWS:
        yield from (workspace / REVIEWS).rglob(".*.parquet.*.partial")


def _small_files(workspace: Path) -> Iterator[Path]:
    """Yield the unfinished files of settings, reports and records of reviews."""
    yield from workspace.glob(".*.json.*.partial")
    for folder in ("reports", "reviews"):
        yield from (workspace / folder).rglob(".*.json.*.partial")
    yield from (workspace / VOCABULARY).rglob(".*.partial")
