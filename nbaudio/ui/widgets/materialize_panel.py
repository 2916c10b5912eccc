"""Making a corpus while looking on: progress by stage, the ledger as it grows, and a button that stops it at once."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import nbaudio
from nbaudio.core.report import Report
from nbaudio.ui.widgets.base import BaseWidget, esm
from nbaudio.ui.widgets.jobs import LOOK_S, Job


class JobPanel(BaseWidget):
    """A long step, in a thread, so that the notebook stays free.

    It starts at once. Cancel stops it as Ctrl+C does on the command line; nothing half-written is left, and Start goes on from
    what is done. ``await panel.wait()`` in a later cell waits for the report, and the button works meanwhile: a kernel hears
    nothing of widgets while a cell is busy, but does while one awaits.
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
        super().__init__({"job.state": self._state, "job.start": self._start, "job.cancel": self._cancel})
        if start:
            self._job.start()

    def result(self) -> Report:
        """The report, once the step is over; see `Job.result`. The panel stands still meanwhile; `wait` does not do that."""
        return self._job.result()

    async def wait(self) -> Report:
        """As `result`, for cells: ``await panel.wait()``."""
        while self._job.running:
            await asyncio.sleep(LOOK_S)
        return self._job.result()

    def cancel(self) -> None:
        """What the button does."""
        self._job.cancel()

    def _state(self) -> dict[str, Any]:
        corpus = str(self._job.report.facts.get("corpus", "")) if self._job.report else ""
        # From the notebook's folder, which is the kernel's: the front end makes a link of it.
        place = Path(os.path.relpath(corpus)).as_posix() if corpus and Path(corpus).is_dir() else ""
        return {**self._job.state(), "corpus": place}

    def _start(self) -> dict[str, Any]:
        self._job.start()
        return self._state()

    def _cancel(self) -> dict[str, Any]:
        self._job.cancel()
        return self._state()

    def static_html(self) -> str:
        """That it was started: a page is made when the panel is shown; the next cell has the report."""
        return (
            "<p>running in the background; its result is below</p>"
            if self._job.status == "running"
            else f"<p>{self._job.status}</p>"
        )


class MaterializePanel(JobPanel):
    """`nbaudio.materialize` in a `JobPanel`."""

    def __init__(self, workspace: str | Path | nbaudio.Workspace, *, out: str | Path, start: bool = True, **options: Any) -> None:
        """Start to make the corpus.

        Args:
            workspace: its folder.
            out: the corpus folder or its address: new, or one to go on with.
            start: False waits for the button.
            options: further parameters of `nbaudio.materialize`.
        """
        super().__init__(partial(nbaudio.materialize, workspace, out=out, **{"show_progress": False, **options}), start=start)
