"""Making a corpus while looking on: progress by stage, the ledger as it grows, and a button that stops it at once."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbaudio.report import Report
from nbaudio.widgets.jobs import Job
from nbaudio.widgets.skin import Skin, esm


class MaterializePanel(Skin):
    """A long step, in a thread, so that the notebook stays free.

    It starts at once. Cancel stops it as Ctrl+C does on the command line; nothing half-written is left, and Start goes on from
    what is done. `result` waits for the report.
    """

    _esm = esm("core", "materialize_panel")

    def __init__(self, step: Callable[[], Report], *, start: bool = True) -> None:
        """Start the step.

        Args:
            step: what to run, such as ``partial(nbaudio.materialize, workspace, out=corpus, show_progress=False)``.
            start: False waits for the button.

        Examples:
            >>> panel = MaterializePanel(lambda: Report("materialize", {"kept": 3}))
            >>> panel.result().facts
            {'kept': 3}
        """
        self._job = Job(step)
        super().__init__({"job.state": self._state, "job.start": self._start, "job.cancel": self._cancel})
        if start:
            self._job.start()

    def result(self) -> Report:
        """The report, once the step is over; see `Job.result`."""
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
        """That it was started: a page is made when the panel is shown; `result` has the report."""
        return (
            "<p>running in the background; its result is below</p>"
            if self._job.status == "running"
            else f"<p>{self._job.status}</p>"
        )
