"""Run log of a long run.

It has JSON lines without secrets, and a lock on the file that shows whether the run is alive.

Every line has `at` (UTC) and `event`: began (step, pid, host, parameters), stage (stage, total,
unit), progress (done, seconds since the stage began, failures of the run), failure (detail), ended
(how: done, stopped or failed; error).
"""

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from nbaudio.core import input_guards, progress
from nbaudio.core.atomic import atomic_write, lock, parse_lines, raise_disk_full, write_lines
from nbaudio.core.errors import DiskFullError, ExistsError
from nbaudio.storage.urls import redact_log

# Bytes from which on a log begins anew, and bytes that are read of a log, which may come from an
# untrusted corpus.
_KEPT_BYTES = 1 << 20
_MAX_READ_BYTES = 8 << 20
_MAX_FAILURES = 1000
# A progress line is written after this share of the stage and this many seconds.
_STEP = 0.001
_INTERVAL_S = 1.0
# `alive` holds the lock for a moment.
_LOCK_WAIT_S = 0.5
_LOCK_PAUSE_S = 0.05


class _LogWriter:
    """The watcher of `listen_to_progress` that writes the log of one run.

    If it cannot, as on a full disk, the run goes on.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file  # unbuffered
        self._failures = 0
        self._total = self._done = self._logged = 0.0
        self._began = self._last = time.monotonic()

    def write(self, event: str, **facts: Any) -> None:
        """Append a line with the time and an event."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        text = json.dumps({"at": at, "event": event, **facts}, ensure_ascii=False, default=str)
        with suppress(OSError):
            write_lines(self._file, [text.encode("utf8", "replace")], sync=False)

    def begin(self, step: str, **facts: Any) -> None:
        """Write that a step began, and which process runs it."""
        self.write("began", step=step, pid=os.getpid(), host=socket.gethostname(), **facts)

    def stage(self, what: str, total: float, unit: str) -> None:
        """Write that a stage began, with its total amount of work."""
        self._total = total
        self._done = 0.0
        self._logged = 0.0
        self._began = self._last = time.monotonic()
        self.write("stage", stage=what, total=total, unit=unit)

    def advance(self, amount: float) -> None:
        """Add a finished amount; write a line if enough work and time passed since the last one."""
        self._done = min(self._total, self._done + amount)
        now = time.monotonic()
        is_due = (
            self._done - self._logged >= _STEP * self._total and now - self._last >= _INTERVAL_S
        )
        if self._done > self._logged and (is_due or self._done >= self._total):
            self._logged = self._done
            self._last = now
            self.write(
                "progress",
                done=self._done,
                seconds=round(now - self._began, 3),
                failures=self._failures,
            )

    def note(self, line: str) -> None:
        """Count a failure, and write its detail unless there were too many."""
        self._failures += 1
        if self._failures <= _MAX_FAILURES:
            self.write("failure", detail=redact_log(line))


@contextmanager
def run_log(
    path: Path, step: str, parameters: Mapping[str, Any], *, of: object, keep: Path | None = None
) -> Iterator[None]:
    """Log this thread's progress to `path`, locked (else ExistsError about `of`).

    On success the log moves to `keep`, if any.
    """
    with _locked_log(path, of, _LOCK_WAIT_S) as file:
        log = _LogWriter(file)
        texts = {name: value for name, value in parameters.items() if isinstance(value, str)}
        redacted = {name: redact_log(text) for name, text in texts.items()}
        log.begin(step, parameters={**parameters, **redacted})
        try:
            with progress.listen_to_progress(log):
                yield
        except BaseException as error:
            how = "failed" if isinstance(error, Exception) else "stopped"
            log.write("ended", how=how, error=redact_log(f"{type(error).__name__}: {error}"))
            raise
        log.write("ended", how="done", error=None)
        if keep is not None:
            _copy(path, keep)
        _remove(path)


def _copy(path: Path, target: Path) -> None:
    """Copy a log, if the disk has room: the run has succeeded in any case."""
    with suppress(OSError, DiskFullError), atomic_write(target, sync=False) as partial:
        shutil.copyfile(path, partial)


@contextmanager
def step_lock(path: Path, step: str, *, of: object, wait_s: float) -> Iterator[None]:
    """Lock a file, which exists as long as the step runs.

    Another call waits, and then raises ExistsError that names the step.
    """
    with _locked_log(path, of, wait_s) as file:
        _LogWriter(file).begin(step)
        try:
            yield
        finally:
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a log, last of all, and its folder if that is empty: then another run may begin."""
    path.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()


@contextmanager
def _locked_log(path: Path, of: object, wait_s: float) -> Iterator[BinaryIO]:
    """Yield the log, locked and open at its end, after a wait for the run that has it.

    A large one is emptied.
    """
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        with _opened(path) as file:
            if lock(file, wait=False, required=False) and os.fstat(file.fileno()).st_nlink:
                _empty_large(file)
                yield file
                return
        time.sleep(_LOCK_PAUSE_S)
    raise ExistsError(
        f"{of}: another run is active there ({_describe_run(path)}); wait for it, "
        "or stop it and run the same command again"
    )


def _empty_large(file: BinaryIO) -> None:
    """Empty a large log; leave it at its end."""
    if file.seek(0, os.SEEK_END) > _KEPT_BYTES:
        file.truncate(0)


def _describe_run(path: Path) -> str:
    """Say which process writes a log, since when, and what step it runs."""
    beginnings = [line for line in read(path) if line.get("event") == "began"]
    began: dict[str, Any] = beginnings[-1] if beginnings else {}
    return (
        f"process {began.get('pid')} on {began.get('host')}, since {began.get('at')}, "
        f"{began.get('step')}"
    )


def _opened(path: Path) -> BinaryIO:
    """Open a log to append to it; make it and its folder if there is none."""
    while True:
        with raise_disk_full(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        # A run that ends meanwhile removes its folder
        with (
            suppress(FileNotFoundError),
            raise_disk_full(path),
        ):
            with suppress(FileNotFoundError):
                input_guards.check_regular(path)
            return path.open("a+b", buffering=0)


def _open(path: Path) -> BinaryIO:
    input_guards.check_regular(path)
    return path.open("rb")


def alive(path: Path) -> bool:
    """Return whether the run that writes a log is still running."""
    with suppress(FileNotFoundError), _open(path) as file:
        return not lock(file, shared=True, wait=False, required=False)
    return False


def read(path: Path) -> list[dict[str, Any]]:
    """Return the last lines of a log without damaged ones; an empty list if there is no log."""
    with suppress(FileNotFoundError), _open(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_READ_BYTES))
        return list(parse_lines(file.read()))
    return []
