"""Run a step in a thread and show its progress, its ledger and a button that stops it at once: `JobPanel`, `MaterializePanel`."""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import RLock, Thread
from typing import Any

from nbaudio.core.errors import NbaudioError
from nbaudio.core.progress import listen_to_progress
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
        rate = self.done / seconds if seconds > 0 and self.done else None
        return {
            "what": self.what,
            "done": self.done,
            "total": self.total,
            "unit": self.unit,
            "seconds": seconds,
            "rate": rate,
            "left_s": (self.total - self.done) / rate if rate and self.ended is None else None,
            "over": self.ended is not None,
        }


class Job:
    """A step that runs in a thread; a `Watcher` of its progress, see `nbaudio.core.progress`."""

    def __init__(self, step: Callable[[], Report]) -> None:
        self._step = step
        self._lock = RLock()
        self._thread: Thread | None = None
        self._reset("not started")

    def _reset(self, status: str) -> None:
        self.stages: list[Stage] = []
        self.lines: list[str] = []
        self.noted = 0
        self.status = status
        self.report: Report | None = None
        self.error = ""

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Run the step unless it is running."""
        with self._lock:
            if self.running:
                return
            self._reset("running")
            self._thread = Thread(target=self._run, name="nbaudio job", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        """Stop the step as Ctrl+C would; completed work is kept, and `start` resumes."""
        with self._lock:
            if self._thread is not None and self.running and self.status == "running":
                self.status = "stopping"
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(_Cancelled))

    def result(self) -> Report:
        """Wait for the report; raise `NbaudioError` if the job failed, was cancelled or never started."""
        while self.running:
            time.sleep(POLL_S)
        if self.report is None:
            raise NbaudioError(self.error or f"the job is {self.status}; start it, it goes on from what is done")
        return self.report

    def _run(self) -> None:
        try:
            with listen_to_progress(self):
                self.report = self._step()
            self._end("done")
        except _Cancelled:
            self._end("cancelled")
        except BaseException as error:  # noqa: BLE001 - shown in the panel, and raised again by `result`
            self.error = str(error) if isinstance(error, NbaudioError) else f"{type(error).__name__}: {error}"
            # A cancelled step may raise another error on its way out.
            self._end("cancelled" if self.status == "stopping" else "failed")

    def _end(self, status: str) -> None:
        with self._lock:
            self._end_stages()
            self.status = status

    def _end_stages(self) -> None:
        for stage in self.stages:
            stage.ended = stage.ended or time.monotonic()

    def stage(self, what: str, total: float, unit: str) -> None:
        """Begin a stage."""
        with self._lock:
            self._end_stages()
            self.stages.append(Stage(what, total, unit, time.monotonic()))

    def advance(self, amount: float) -> None:
        """Advance the current stage."""
        stage = self.stages[-1]
        stage.done = min(stage.total, stage.done + amount)

    def note(self, line: str) -> None:
        """Append a line to the ledger."""
        with self._lock:
            self.noted += 1
            self.lines = [*self.lines, line][-MOST_LINES:]

    def state(self) -> dict[str, Any]:
        """Return status, stages, last lines of the ledger and their number in all, and error, for the front end."""
        with self._lock:
            stages = [stage.state() for stage in self.stages]
            return {"status": self.status, "stages": stages, "lines": self.lines, "noted": self.noted, "error": self.error}


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
        self._job = Job(step)
        calls = {"job.start": partial(self._do, self._job.start), "job.cancel": partial(self._do, self._job.cancel)}
        super().__init__({"job.state": self._state, **calls})
        if start:
            self._job.start()

    def result(self) -> Report:
        """Wait until the step is over and return its report; the panel stands still meanwhile, unlike with `wait`.

        Raises:
            NbaudioError: the step failed, was cancelled, or was never started.
        """
        return self._job.result()

    async def wait(self) -> Report:
        """Like `result`, for cells: ``await panel.wait()``."""
        while self._job.running:
            await asyncio.sleep(POLL_S)
        return self._job.result()

    def cancel(self) -> None:
        """Stop the step, as the button does."""
        self._job.cancel()

    def _state(self) -> dict[str, Any]:
        corpus = str(self._job.report.facts.get("corpus", "")) if self._job.report else ""
        # Relative to the notebook's folder, which is the kernel's: the front end makes a link of it.
        place = Path(os.path.relpath(corpus)).as_posix() if corpus and Path(corpus).is_dir() else ""
        return {**self._job.state(), "corpus": place}

    def _do(self, action: Callable[[], None]) -> dict[str, Any]:
        action()
        return self._state()

    def static_html(self) -> str:
        """Return the status when the panel is shown; the next cell has the report."""
        status = self._job.status
        return f"<p>{'running in the background; its result is below' if status == 'running' else status}</p>"


class MaterializePanel(JobPanel):
    """`nbaudio.materialize` in a `JobPanel`."""

    def __init__(self, workspace: str | Path | Workspace, *, out: str | Path, start: bool = True, **options: Any) -> None:
        """Start to make the corpus.

        Args:
            workspace: its folder.
            out: the corpus folder or its address: new, or one to resume.
            start: False waits for the button.
            options: further parameters of `nbaudio.materialize`.
        """
        super().__init__(partial(materialize, workspace, out=out, **{"show_progress": False, **options}), start=start)
