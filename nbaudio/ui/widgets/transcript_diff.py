"""Transcripts beside hypotheses, word by word; a click on a word plays from it."""

from pathlib import Path
from typing import Any

from nbaudio.core.frames import Ids
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.widgets.base import BaseWidget, esm
from nbaudio.ui.widgets.listening import SegmentPlayback
from nbaudio.ui.widgets.segments import load_segments
from nbaudio.ui.widgets.static_export import saved_clips

MOST_SHOWN = 50


class TranscriptDiff(BaseWidget):
    """Where transcripts and hypotheses part.

    What is only in the transcript is struck through, what is only in the hypothesis underlined, another word has a wavy line. A
    click on a word whose time is known plays from it, and the word that is heard is lit in both lines.
    """

    _esm = esm("core", "diff", "transcript_diff")

    def __init__(self, workspace: str | Path | Workspace, segment_ids: Ids | None = None, *, limit: int = MOST_SHOWN) -> None:
        """Load the segments.

        Args:
            workspace: where they are.
            segment_ids: which ones, also as a pandas or polars table, in the order to show; None for all.
            limit: how many at most.

        Raises:
            InputError: a segment is not in the workspace.
        """
        self._segments = load_segments(workspace, segment_ids)
        self._limit = limit
        super().__init__({"diffs": self._diffs, **SegmentPlayback(self._segments, "").calls})

    def _diffs(self) -> dict[str, Any]:
        total = len(self._segments.frame)
        return {"shown": min(self._limit, total), "hidden": max(0, total - self._limit)}

    def static_html(self) -> str:
        """The same as plain text with marks, without sound."""
        return saved_clips(self._segments, range(len(self._segments.frame)), limit=self._limit, sound=False)._repr_html_()
