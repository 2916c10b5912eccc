"""A step in a thread of its own: watched while it runs, stopped at once, its report waited for."""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock, Thread
from typing import Any

from nbaudio.core.errors import NbaudioError
from nbaudio.core.progress import listen_to_progress
from nbaudio.core.report import Report

# Of the ledger the last lines are shown: all of it is in the corpus.
MOST_LINES = 200
# How often a waiting main thread looks up, so that it can be interrupted.
LOOK_S = 0.05


class _Stopped(BaseException):
    """Raised inside a job that is to stop; no `except Exception` holds it up."""


@dataclass
class Stage:
    """How far a stage is, in `unit`."""

    what: str
    total: float
    unit: str
    began: float
    done: float = 0.0
    ended: float | None = None

    def state(self) -> dict[str, Any]:
        """For the front end: with rate (units a second) and time left (seconds), None while not known."""
        took = (self.ended or time.monotonic()) - self.began
        rate = self.done / took if took > 0 and self.done else None
        return {
            "what": self.what,
            "done": self.done,
            "total": self.total,
            "unit": self.unit,
            "seconds": took,
            "rate": rate,
            "left_s": (self.total - self.done) / rate if rate and self.ended is None else None,
            "over": self.ended is not None,
        }


class Job:
    """A step that runs in a thread; it hears of the step's progress, see `nbaudio.core.progress`.

    Examples:
        >>> job = Job(lambda: Report("materialize", {"kept": 3}))
        >>> job.start()
        >>> job.result().facts
        {'kept': 3}
    """

    def __init__(self, step: Callable[[], Report]) -> None:
        """Nothing runs yet."""
        self._step = step
        self._lock = RLock()
        self._thread: Thread | None = None
        self.stages: list[Stage] = []
        self.lines: list[str] = []
        self.noted = 0
        self.status = "not started"
        self.report: Report | None = None
        self.error = ""

    @property
    def running(self) -> bool:
        """Whether it is not over yet."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Run the step, if it is not running."""
        with self._lock:
            if self.running:
                return
            self.stages, self.lines, self.noted = [], [], 0
            self.status, self.report, self.error = "running", None, ""
            self._thread = Thread(target=self._run, name="nbaudio job", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        """Stop the step where it is, as Ctrl+C would; what is whole stays, and `start` goes on from there."""
        with self._lock:
            if self._thread is not None and self.running and self.status == "running":
                self.status = "stopping"
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(_Stopped))

    def result(self) -> Report:
        """Wait until it is over.

        Returns:
            The step's report.

        Raises:
            NbaudioError: it failed, was cancelled, or was never started.
        """
        while self.running:
            time.sleep(LOOK_S)
        if self.report is None:
            raise NbaudioError(self.error or f"the job is {self.status}; start it, it goes on from what is done")
        return self.report

    def _run(self) -> None:
        try:
            with listen_to_progress(self):
                self.report = self._step()
            self._end("done")
        except _Stopped:
            self._end("cancelled")
        except BaseException as error:  # noqa: BLE001 - told in the panel, and raised again by `result`
            self.error = str(error) if isinstance(error, NbaudioError) else f"{type(error).__name__}: {error}"
            # What was cancelled may fail on its way out.
            self._end("cancelled" if self.status == "stopping" else "failed")

    def _end(self, status: str) -> None:
        with self._lock:
            for stage in self.stages:
                stage.ended = stage.ended or time.monotonic()
            self.status = status

    def stage(self, what: str, total: float, unit: str) -> None:
        """See `progress.Watcher`."""
        with self._lock:
            for stage in self.stages:
                stage.ended = stage.ended or time.monotonic()
            self.stages.append(Stage(what, total, unit, time.monotonic()))

    def advance(self, amount: float) -> None:
        """See `progress.Watcher`."""
        stage = self.stages[-1]
        stage.done = min(stage.total, stage.done + amount)

    def note(self, line: str) -> None:
        """See `progress.Watcher`."""
        with self._lock:
            self.noted += 1
            self.lines = [*self.lines, line][-MOST_LINES:]

    def state(self) -> dict[str, Any]:
        """For the front end: status, stages, the last lines of the ledger and how many there are, error."""
        with self._lock:
            return {
                "status": self.status,
                "stages": [stage.state() for stage in self.stages],
                "lines": self.lines,
                "noted": self.noted,
                "error": self.error,
            }
