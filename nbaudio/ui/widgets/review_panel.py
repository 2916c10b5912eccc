"""Reviewing in one cell: table, player, words and verdicts; hands stay on the keyboard, every verdict is kept at once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.frames import Ids
from nbaudio.core.tables import seconds_column
from nbaudio.review.corrections import uncorrected
from nbaudio.review.state import VERDICTS
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.widgets.base import BaseWidget, Handler, esm
from nbaudio.ui.widgets.listening import SegmentPlayback
from nbaudio.ui.widgets.reviewing import PANEL, ReviewSession, review_items
from nbaudio.ui.widgets.segment_table import TableView
from nbaudio.ui.widgets.segments import load_segments
from nbaudio.ui.widgets.static_export import saved_clips
from nbaudio.ui.widgets.tables import Table

_COLUMNS = ("segment_id", "verdict", "speaker_id", "duration_s", "similarity", "text")
_SAVED_CLIPS = 3
_SAVED_ROWS = 25


class ReviewPanel(BaseWidget):
    """Segments to judge, one key each.

    Keys: 1 to 7 give a verdict, go to the next segment that has none and play it; ``u`` takes the last one back, ``n`` goes to
    the next one without a verdict, ``t`` writes a comment, ``e`` corrects the words; arrows up and down move in the table, ``/``
    searches it, and the other keys are those of `Player`. What was judged is in the workspace's log (`review.verdicts`) before
    the next clip has begun; run the cell again, today or tomorrow, and it goes on where it was.
    """

    _esm = esm("core", "table", "diff", "player", "review_panel")

    def __init__(
        self,
        workspace: str | Path | Workspace,
        segment_ids: Ids | None = None,
        *,
        reviewer: str,
        review: str | None = None,
        where: str = "",
        sort: str = "",
        descending: bool = False,
    ) -> None:
        """Load the segments and what the reviewer has said of them.

        Args:
            workspace: the workspace.
            segment_ids: which ones, also as a pandas or polars table, in the order to review; None for those of `review`, or else
                all.
            reviewer: whose verdicts these are.
            review: the name of a review that was exported: its segments as they were, its words, and a measure of the corpus in
                the end. Else verdicts are logged under ``panel``.
            where: an SQL condition over the columns; ``verdict is null`` shows what is open.
            sort: the column to sort by.
            descending: the greatest first.

        Raises:
            InputError: there is no such review, segment or column, the reviewer has no name or no part in the review.
        """
        workspace = Workspace.open(workspace)
        if segment_ids is not None and review is not None:
            raise InputError("give segment_ids or review, not both: a review has its segments")
        reviewer = reviewer.strip()
        drawn, words, self._dealt_out = review_items(workspace, review, reviewer)
        segments = load_segments(workspace, drawn if segment_ids is None else segment_ids)
        if review is not None:  # whoever judges second sees what the first one saw
            given_out = uncorrected(workspace, segments.frame).with_columns(seconds_column())
            segments = replace(segments, frame=given_out)
        self._reviewing = ReviewSession(segments, reviewer=reviewer, review=review or PANEL, words=words)
        self._listening = SegmentPlayback(segments, self._reviewing.reviewer)
        frame = segments.frame.with_columns(self._reviewing.column)
        self._rows = TableView(frame, _COLUMNS, where=where, sort=sort, descending=descending)
        self._rows.cursor = self._reviewing.after(self._rows.order, -1) or 0
        calls: dict[str, Handler] = {
            "review.open": self._open,
            "review.give": self._give,
            "review.undo": self._undo,
            "review.next": self._next,
            "review.said": self._said,
            "review.switch": self._switch,
        }
        super().__init__({**calls, **self._rows.calls, **self._listening.calls})

    @property
    def progress(self) -> dict[str, Any]:
        """How much is done, by which verdicts, how fast; see `Reviewing.progress`."""
        return self._reviewing.progress()

    @property
    def selected(self) -> pl.DataFrame:
        """The marked rows, or the one under the cursor where none is marked."""
        return self._rows.selection

    def _open(self) -> dict[str, Any]:
        words = [{"word": word, "meaning": VERDICTS.get(word, "")} for word in self._reviewing.words]
        return {"words": words, "review": self._reviewing.review, **self.progress}

    def _give(self, *, number: int, verdict: str, comment: str, corrected_text: str | None) -> dict[str, Any]:
        self._reviewing.give(number, verdict, comment=comment, corrected_text=corrected_text)
        return self._changed()

    def _undo(self) -> dict[str, Any]:
        number = self._reviewing.undo()
        places = np.flatnonzero(self._rows.order == number) if number is not None else np.array([])
        return {**self._changed(), "number": number, "position": int(places[0]) if len(places) else None}

    def _switch(self, *, reviewer: str) -> dict[str, Any]:
        if self._dealt_out and reviewer.strip() != self._reviewing.reviewer:
            raise InputError(f"these are the segments of {self._reviewing.reviewer}: open a panel of your own")
        self._reviewing.switch(reviewer)
        self._listening.reviewer = self._reviewing.reviewer
        return self._changed()

    def _changed(self) -> dict[str, Any]:
        self._rows.frame = self._rows.frame.with_columns(self._reviewing.column)
        return self.progress

    def _next(self, *, position: int) -> dict[str, Any] | None:
        found = self._reviewing.after(self._rows.order, position)
        return None if found is None else {"position": found, "number": int(self._rows.order[found])}

    def _said(self, *, number: int) -> dict[str, Any]:
        return {"said": self._reviewing.said(number), "text": self._reviewing.segments.row(number)["text"] or ""}

    def static_html(self) -> str:
        """How far the review is, the verdicts, and a few clips of what is still open."""
        progress, frame = self.progress, self._rows.frame
        judged = frame.filter(pl.col("verdict").is_not_null()).select(_COLUMNS)
        counts = pl.DataFrame({"verdict": list(progress["counts"]), "segments": list(progress["counts"].values())})
        is_open = frame["verdict"].is_null().to_numpy()
        still_open = [int(number) for number in self._rows.order if is_open[number]][:_SAVED_CLIPS]
        tables = [Table(counts), Table(judged.head(_SAVED_ROWS), _SAVED_ROWS, len(judged))] if len(judged) else []
        return (
            f"<p>{progress['done']:,} of {progress['total']:,} judged</p>"
            + "".join(table._repr_html_() for table in tables)
            + (f"<p>next:</p>{saved_clips(self._reviewing.segments, still_open)._repr_html_()}" if still_open else "")
        )
