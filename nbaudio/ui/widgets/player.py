"""A player for a list of segments, one at a time: seen, heard, compared with its words, its bounds moved."""

from pathlib import Path

from nbaudio.core.frames import Ids
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.widgets.base import BaseWidget, esm
from nbaudio.ui.widgets.listening import SegmentPlayback
from nbaudio.ui.widgets.segments import load_segments
from nbaudio.ui.widgets.static_export import MOST_CLIPS, StaticClips, saved_clips


class Player(BaseWidget):
    """Segments to listen to, one after the other.

    Keys: Space plays, ``s`` the segment alone, ``l`` loops, ``-`` and ``+`` change the speed, ``c`` widens the context (``b`` in
    front, ``a`` behind, ``C`` none), ``v`` levels the volume, ``h`` changes the channel, arrows left and right go one second, up
    and down one segment; ``q`` and ``w`` move the segment's start, ``o`` and ``p`` its end, ``k`` keeps what was moved as a
    correction (see `review.bounds`), Esc puts it back.
    """

    _esm = esm("core", "diff", "player", "single_player")

    def __init__(
        self,
        workspace: str | Path | Workspace,
        segment_ids: Ids | None = None,
        *,
        limit: int = MOST_CLIPS,
        reviewer: str = "me",
    ) -> None:
        """Load the segments.

        Args:
            workspace: with audio; without it the words are shown alone.
            segment_ids: which ones, also as a pandas or polars table, in the order to play; None for all.
            limit: how many a saved page holds at most.
            reviewer: whose name corrected bounds carry.

        Raises:
            InputError: a segment is not in the workspace.
        """
        self._segments = load_segments(workspace, segment_ids)
        self._limit = limit
        listening = SegmentPlayback(self._segments, reviewer)
        super().__init__({"player.open": self._open, **listening.calls})

    def _open(self) -> dict[str, int]:
        return {"total": len(self._segments.frame), "at": 0}

    @property
    def clips(self) -> StaticClips:
        """The clips as a saved page holds them."""
        return saved_clips(self._segments, range(len(self._segments.frame)), limit=self._limit)

    def static_html(self) -> str:
        """The clips below one another, with their sound."""
        return self.clips._repr_html_()
