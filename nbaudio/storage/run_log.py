"""The log of a long run: JSON lines in the folder that it writes to, and by a lock on it the proof that the run is alive.

Conventions: every line has `at` (UTC) and `event`; times that are computed with (`seconds`) come from a clock that is never set.
Nothing in it is secret: see `addresses.redact_log`. It is bounded: few lines for each stage, the first failures, the last runs.

    began     step, pid, host, and what the run was told
    stage     stage, total, unit: it begins
    progress  done (of the stage, in its unit), seconds (since it began), failures (of the run, so far)
    failure   detail
    ended     how (done, stopped, failed), error
"""

import fcntl
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

from nbaudio.core.errors import DiskFullError, ExistsError
from nbaudio.core.guards import check_regular
from nbaudio.core.progress import listen_to_progress
from nbaudio.storage.atomic import atomic_write, raise_disk_full
from nbaudio.storage.urls import redact_log

# Bytes of earlier runs that are kept in a log, and that are read of one, which may have come with a stranger's corpus.
_EARLIER, _MOST_READ = 1 << 20, 8 << 20
_MOST_FAILURES = 1000
# A line of progress is written after so much of the stage, and so many seconds.
_STEP, _PAUSE_S = 0.001, 1.0
# Who only looks holds the lock for a moment.
_TRIES, _MOMENT_S = 10, 0.05


class Journal:
    """Writes the log of one run, as a `progress.Watcher`. That it cannot be written, on a full disk, stops no run."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to an unbuffered file, at its end."""
        self._file = file
        self._broken = False
        self._failures = 0
        self._total = self._done = self._told = 0.0
        self._began = self._last = time.monotonic()

    def tell(self, event: str, **facts: Any) -> None:
        """Write a line."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        text = json.dumps({"at": at, "event": event, **facts}, ensure_ascii=False, default=str)
        line = b"\n" * self._broken + text.encode("utf8", "replace") + b"\n"
        self._broken = True
        with suppress(OSError):
            self._broken = self._file.write(line) != len(line)

    def stage(self, what: str, total: float, unit: str) -> None:
        """See `progress.Watcher`."""
        self._total, self._done, self._told = total, 0.0, 0.0
        self._began = self._last = time.monotonic()
        self.tell("stage", stage=what, total=total, unit=unit)

    def advance(self, amount: float) -> None:
        """See `progress.Watcher`."""
        self._done = min(self._total, self._done + amount)
        now = time.monotonic()
        enough = self._done - self._told >= _STEP * self._total and now - self._last >= _PAUSE_S
        if self._done > self._told and (enough or self._done >= self._total):
            self._told, self._last = self._done, now
            self.tell("progress", done=self._done, seconds=round(now - self._began, 3), failures=self._failures)

    def note(self, line: str) -> None:
        """See `progress.Watcher`."""
        self._failures += 1
        if self._failures <= _MOST_FAILURES:
            self.tell("failure", detail=redact_log(line))


@contextmanager
def run_log(path: Path, step: str, told: Mapping[str, Any], *, of: object, keep: Path | None = None) -> Iterator[None]:
    """Log what this thread does meanwhile. Nobody else can, to the same file; a run that was killed holds up none.

    Args:
        path: of the log; its folder is made.
        step: the command that runs.
        told: its parameters.
        of: what the run writes to, for messages.
        keep: where the log of a run that ends well goes; None removes it. A folder that only held the log goes too.

    Raises:
        ExistsError: another run is at work there.
        DiskFullError: there is no room even for a log.
    """
    with _alone(path, of) as file:
        log = Journal(file)
        parameters = {name: redact_log(value) if isinstance(value, str) else value for name, value in told.items()}
        log.tell("began", step=step, pid=os.getpid(), host=socket.gethostname(), parameters=parameters)
        try:
            with listen_to_progress(log):
                yield
        except BaseException as error:
            how = "failed" if isinstance(error, Exception) else "stopped"
            log.tell("ended", how=how, error=redact_log(f"{type(error).__name__}: {error}"))
            raise
        log.tell("ended", how="done", error=None)
        with suppress(OSError, DiskFullError):  # the run has done what it was to do
            if keep is not None:
                with atomic_write(keep, sync=False) as partial:
                    shutil.copyfile(path, partial)
        # Last of all: from here on another may begin.
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()


@contextmanager
def _alone(path: Path, of: object) -> Iterator[BinaryIO]:
    """The log, open at its end, with no more in it of earlier runs than is wanted."""
    for _ in range(_TRIES):
        with raise_disk_full(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                check_regular(path)
            opened = path.open("a+b", buffering=0)
        with opened as file:
            if _locked(file, fcntl.LOCK_EX) and os.fstat(file.fileno()).st_nlink:
                _shorten(file)
                yield file
                return
        time.sleep(_MOMENT_S)
    began: dict[str, Any] = next((line for line in reversed(read(path)) if line.get("event") == "began"), {})
    who = f"process {began.get('pid')} on {began.get('host')}, since {began.get('at')}"
    raise ExistsError(f"{of}: another run is at work there ({who}); wait for it, or stop it and run the same again")


def _locked(file: BinaryIO, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a filesystem without locks
        return True
    return True


def _shorten(file: BinaryIO) -> None:
    """Remove the oldest lines, and what a killed run has left of its last one."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _EARLIER))
    cut = file.tell() > 0
    held = file.read()
    whole = held[: held.rfind(b"\n") + 1]
    if cut or whole != held:
        with suppress(OSError):
            file.truncate(0)
            file.write(whole[whole.find(b"\n") + 1 :] if cut else whole)


def _opened(path: Path) -> BinaryIO:
    check_regular(path)
    return path.open("rb")


def alive(path: Path) -> bool:
    """Whether the run that writes a log is still at it."""
    try:
        with _opened(path) as file:
            return not _locked(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def read(path: Path) -> list[dict[str, Any]]:
    """The last lines of a log, what is broken left out; none where there is no log."""
    lines = []
    with suppress(FileNotFoundError), _opened(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_READ))
        for line in file.read().splitlines():
            with suppress(ValueError, RecursionError):
                found = json.loads(line)
                lines += [found] if isinstance(found, dict) else []
    return lines
