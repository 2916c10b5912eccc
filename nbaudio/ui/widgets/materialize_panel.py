"""Run a step in a thread and show its progress, its ledger and a button that stops it at once: `JobPanel`, `MaterializePanel`."""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from nbaudio.core.deprecated import renamed_parameter
from nbaudio.core.errors import NbaudioError
from nbaudio.core.progress import listen_to_progress, rate_and_time_left
from nbaudio.core.report import Report
from nbaudio.corpus.materialize import materialize
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.widgets.base import BaseWidget, esm

# Last lines of the ledger to show; all of it is in the corpus.
MOST_LINES = 200
# How often a waiting main thread wakes up, so that it can be interrupted.
POLL_S = 0.05


class _Cancelled(BaseException):
    """Raised inside a job to stop it; no `except Exception` catches it."""


@dataclass
class Stage:
    """Progress of a stage, in `unit`."""

    what: str
    total: float
    unit: str
    began: float
    done: float = 0.0
    ended: float | None = None

    def state(self) -> dict[str, Any]:
        """Return the progress with rate (units a second) and time left (seconds), None if unknown."""
        seconds = (self.ended or time.monotonic()) - self.began
        rate, left_s = rate_and_time_left(self.done, seconds, self.total - self.done)
        over = self.ended is not None
        facts = {"what": self.what, "done": self.done, "total": self.total, "unit": self.unit}
        return {**facts, "seconds": seconds, "rate": rate, "left_s": None if over else left_s, "over": over}


class JobPanel(BaseWidget):
    """A long step in a thread, so that the notebook stays free.

    It starts at once. Cancel stops it as Ctrl+C does on the command line; no incomplete file is left, and Start resumes.
    ``await panel.wait()`` in a later cell waits for the report while the button works: a kernel handles no messages of widgets
    while a cell is busy, but does while one awaits.
    """

    _esm = esm("core", "materialize_panel")

    def __init__(self, step: Callable[[], Report], *, start: bool = True) -> None:
        """Start the step.

        Args:
            step: what to run.
            start: False waits for the button.

        Examples:
            >>> panel = JobPanel(lambda: Report("materialize", {"kept": 3}))
            >>> panel.result().facts
            {'kept': 3}
        """
        self._step = step
        self._thread: Thread | None = None
        self._reset("not started")
        super().__init__({"job.state": self._state, "job.start": self._start, "job.cancel": self.cancel})
        if start:
            self._start()

    def _reset(self, status: str) -> None:
        self._stages: list[Stage] = []
        self._lines: list[str] = []
        self._noted = 0
        self._status = status
        self._report: Report | None = None
        self._error = ""

    def result(self) -> Report:
        """Wait until the step is over and return its report; the panel does not update meanwhile, unlike with `wait`.

        Raises:
            NbaudioError: the step failed, was cancelled, or was never started.
        """
        while self._running():
            time.sleep(POLL_S)
        if self._report is None:
            raise NbaudioError(self._error or f"the job is {self._status}; start it to continue")
        return self._report

    async def wait(self) -> Report:
        """Like `result`, for cells: ``await panel.wait()``."""
        while self._running():
            await asyncio.sleep(POLL_S)
        return self.result()

    def cancel(self) -> None:
        """Stop the step, as the button does; completed work is kept."""
        with self._lock:
            if self._thread is not None and self._running() and self._status == "running":
                self._status = "stopping"
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(_Cancelled))

    def static_html(self) -> str:
        """Return the status when the panel is shown; the next cell has the report."""
        return f"<p>{'running in the background; its result is below' if self._status == 'running' else self._status}</p>"

    def _running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start(self) -> None:
        with self._lock:
            if not self._running():
                self._reset("running")
                self._thread = Thread(target=self._run, name="nbaudio job", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            with listen_to_progress(self):
                self._report = self._step()
            self._end("done")
        except _Cancelled:
            self._end("cancelled")
        except BaseException as error:  # noqa: BLE001 - shown in the panel, and raised again by `result`
            self._error = str(error) if isinstance(error, NbaudioError) else f"{type(error).__name__}: {error}"
            # A cancelled step may raise another error while it ends.
            self._end("cancelled" if self._status == "stopping" else "failed")

    def _end(self, status: str) -> None:
        with self._lock:
            self._end_stages()
            self._status = status

    def _end_stages(self) -> None:
        for stage in self._stages:
            stage.ended = stage.ended or time.monotonic()

    def stage(self, what: str, total: float, unit: str) -> None:
        """Begin a stage; this and the next two are called by `nbaudio.core.progress`."""
        with self._lock:
            self._end_stages()
            self._stages.append(Stage(what, total, unit, time.monotonic()))

    def advance(self, amount: float) -> None:
        """Advance the current stage."""
        stage = self._stages[-1]
        stage.done = min(stage.total, stage.done + amount)

    def note(self, line: str) -> None:
        """Append a line to the ledger."""
        with self._lock:
            self._noted += 1
            self._lines = [*self._lines, line][-MOST_LINES:]

    def _state(self) -> dict[str, Any]:
        """Return status, stages, last lines of the ledger, their number in all, error and corpus folder, for the front end."""
        with self._lock:
            corpus = str(self._report.facts.get("corpus", "")) if self._report else ""
            # Relative to the notebook's folder, which is the kernel's: the front end makes a link of it.
            link = Path(os.path.relpath(corpus)).as_posix() if corpus and Path(corpus).is_dir() else ""
            ledger = {"lines": self._lines, "noted": self._noted, "error": self._error, "corpus": link}
            return {"status": self._status, "stages": [stage.state() for stage in self._stages], **ledger}


class MaterializePanel(JobPanel):
    """`nbaudio.materialize` in a `JobPanel`."""

    @renamed_parameter("licence", "license")
    def __init__(self, workspace: str | Path | Workspace, *, out: str | Path, start: bool = True, **options: Any) -> None:
        """Start to make the corpus.

        Args:
            workspace: its folder.
            out: the corpus folder or its URL: new, or one to resume.
            start: False waits for the button.
            options: further parameters of `nbaudio.materialize`.
        """
        super().__init__(partial(materialize, workspace, out=out, **{"show_progress": False, **options}), start=start)
