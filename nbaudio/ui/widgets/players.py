"""Widgets that play segments: `Player`, one at a time, and `TranscriptDiff`, words of transcripts and hypotheses in a list."""

from pathlib import Path

import traitlets

from nbaudio.core.dataframes import Ids
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.widgets.base import BaseWidget, esm
from nbaudio.ui.widgets.segments import SegmentPlayback, Segments, load_segments
from nbaudio.ui.widgets.static_html import MOST_CLIPS, Clips, saved_clips

MOST_DIFFS = 50


class Player(BaseWidget):
    """Segments to listen to, one after the other.

    Keys: Space plays, ``s`` plays without context, ``l`` loops, ``-`` and ``+`` change the speed, ``c`` widens the context
    (``b`` in front, ``a`` behind, ``C`` none), ``v`` levels the volume, ``h`` changes the channel, ``m`` shows each channel,
    arrows left and right go one second, up and down one segment; ``z`` and ``Z`` zoom, ``,`` and ``.`` scroll, ``f`` shows all,
    ``[`` and ``]`` mark a region, ``d`` and ``D`` change the levels of the spectrogram; ``q`` and ``w`` move the segment's start,
    ``o`` and ``p`` its end, ``k`` saves moved bounds as a correction (see `review.correct_bounds`), ``K`` undoes that, Esc
    removes the region or undoes the move; ``?`` shows all keys.

    `current` is a trait that links to other widgets: the number of the segment shown, and how many times playing was requested.
    Another number shows that segment, more requests play it.
    """

    _esm = esm("core", "player", "single_player")
    current = traitlets.List(traitlets.Int(), [0, 0], minlen=2, maxlen=2).tag(sync=True)

    def __init__(
        self,
        workspace: str | Path | Workspace | Segments,
        segment_ids: Ids | None = None,
        *,
        limit: int = MOST_CLIPS,
        reviewer: str = "me",
    ) -> None:
        """Load the segments.

        Args:
            workspace: with audio; without it the words are shown alone. Segments that are loaded already are shown all.
            segment_ids: ids in the order to play, also as a pandas or polars table; None for all.
            limit: number of clips in a saved page at most.
            reviewer: name logged with corrected bounds.

        Raises:
            InputError: a segment is not in the workspace.
        """
        self._segments = workspace if isinstance(workspace, Segments) else load_segments(workspace, segment_ids)
        self._limit = limit
        first = 0 if len(self._segments.frame) else -1
        super().__init__({"player.open": self._open, **SegmentPlayback(self._segments, reviewer).calls}, current=[first, 0])

    def _open(self) -> dict[str, int | bool]:
        opened = {"total": len(self._segments.frame), "at": max(0, self.current[0])}
        return {**opened, "linked": True} if "player.turn" in self._calls else opened

    @property
    def clips(self) -> Clips:
        """Clips as a saved page holds them."""
        return saved_clips(self._segments, range(len(self._segments.frame)), limit=self._limit)

    def static_html(self) -> str:
        """Return the clips below one another, with their audio."""
        return self.clips._repr_html_()


class TranscriptDiff(BaseWidget):
    """Word differences of transcripts and hypotheses.

    Words only in the transcript are struck through, words only in the hypothesis underlined, another word has a wavy line. A
    click on a word whose time is known plays from it, and the word that is playing is highlighted in both lines.
    """

    _esm = esm("core", "diff", "transcript_diff")

    def __init__(self, workspace: str | Path | Workspace, segment_ids: Ids | None = None, *, limit: int = MOST_DIFFS) -> None:
        """Load the segments.

        Args:
            workspace: the workspace.
            segment_ids: ids in the order to show, also as a pandas or polars table; None for all.
            limit: number of segments to show at most.

        Raises:
            InputError: a segment is not in the workspace.
        """
        self._segments = load_segments(workspace, segment_ids)
        self._limit = limit
        total = len(self._segments.frame)
        opened = {"shown": min(limit, total), "hidden": max(0, total - limit)}
        super().__init__({"diffs": lambda: opened, **SegmentPlayback(self._segments, "").calls})

    def static_html(self) -> str:
        """Return the same with marks, without audio."""
        return saved_clips(self._segments, range(len(self._segments.frame)), limit=self._limit, sound=False)._repr_html_()
