"""A reviewer's work on the segments of a panel: verdicts that are kept at once, undo, what comes next, how fast it goes.

All of it is in the workspace's log of verdicts; what is held here is only what this kernel did, for undo and for the rate.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from nbaudio.errors import InputError
from nbaudio.review.rounds import ReviewRecord, content_hashes
from nbaudio.review.verdicts import VERDICTS, Verdict, append_verdicts, verdicts
from nbaudio.widgets.listening import now
from nbaudio.widgets.segments import Segments
from nbaudio.workspace import Workspace

PANEL = "panel"
# The rate is that of the last verdicts: pauses of long ago are not held against anybody.
_RECENT = 20
_NONE = -1


@dataclass(frozen=True)
class _Done:
    """A verdict of this session, and what it replaced."""

    number: int
    before: dict[str, Any] | None
    at: float


class Reviewing:
    """One reviewer at a time over the segments of a panel, named by their numbers in it."""

    def __init__(self, segments: Segments, *, reviewer: str, review: str, words: list[str]) -> None:
        """Take up what the log holds.

        Args:
            segments: what is reviewed.
            reviewer: whose verdicts are shown and given.
            review: the name that verdicts are logged under.
            words: the verdicts to choose from.

        Raises:
            InputError: the reviewer has no name.
        """
        self.segments = segments
        self.review = review
        self.words = words
        self.switch(reviewer)

    def switch(self, reviewer: str) -> None:
        """Go on as somebody else.

        Raises:
            InputError: the name is empty.
        """
        if not reviewer.strip():
            raise InputError("reviewer: a name is needed, verdicts are kept under it")
        self.reviewer = reviewer.strip()
        self._session: list[_Done] = []
        log = verdicts(self.segments.workspace)
        self.reviewers = sorted({*log["reviewer"], self.reviewer})
        mine = log.filter(pl.col("reviewer") == self.reviewer)
        self._said: dict[str, dict[str, Any]] = {row["segment_id"]: row for row in mine.iter_rows(named=True)}
        ids = self.segments.frame.select("segment_id").with_row_index("number")
        held = ids.join(mine.select("segment_id", "verdict"), on="segment_id", maintain_order="left")
        # A word of another list, from a sheet that asked otherwise, stays known under its own name.
        self._codes = np.full(len(ids), _NONE, dtype=np.int16)
        self._names = list(dict.fromkeys([*self.words, *held["verdict"]]))
        for number, verdict in held.select("number", "verdict").iter_rows():
            self._codes[number] = self._names.index(verdict)

    @property
    def column(self) -> pl.Series:
        """This reviewer's verdict on each segment, null where there is none."""
        codes = pl.Series("verdict", self._codes)
        return codes.replace_strict(dict(enumerate(self._names)), default=None, return_dtype=pl.String)

    def give(self, number: int, verdict: str, *, comment: str = "", corrected_text: str | None = None) -> None:
        """Keep a verdict: it is on the disk when this returns.

        Raises:
            InputError: the word is not one of the list.
        """
        if verdict not in self.words:
            raise InputError(f"verdict {verdict!r} is unknown; known are {', '.join(self.words)}")
        segment_id = self.segments.row(number)["segment_id"]
        before = self._said.get(segment_id)
        self._log(number, verdict, comment, corrected_text)
        self._session.append(_Done(number, before, time.monotonic()))

    def undo(self) -> int | None:
        """Withdraw the last verdict of this session, or put back what it replaced.

        Returns:
            The segment it was about; None where there is nothing to undo.
        """
        if not self._session:
            return None
        last = self._session.pop()
        before = last.before or {"verdict": None, "comment": "", "corrected_text": None}
        self._log(last.number, before["verdict"], before["comment"], before["corrected_text"])
        return last.number

    def _log(self, number: int, verdict: str | None, comment: str, corrected_text: str | None) -> None:
        segment = self.segments.frame[number]
        segment_id, [content] = segment["segment_id"][0], content_hashes(segment)
        said = Verdict(segment_id, content, verdict, comment, corrected_text, self.reviewer, now(), self.review)
        append_verdicts(self.segments.workspace, [said])
        if verdict is None:
            self._said.pop(segment_id, None)
        else:
            self._said[segment_id] = {"verdict": verdict, "comment": comment, "corrected_text": corrected_text}
        self._codes[number] = _NONE if verdict is None else self._names.index(verdict)

    def said(self, number: int) -> dict[str, Any] | None:
        """This reviewer's verdict on a segment, with comment and corrected text."""
        found = self._said.get(self.segments.row(number)["segment_id"])
        return found and {name: found[name] for name in ("verdict", "comment", "corrected_text")}

    def after(self, order: np.ndarray[Any, np.dtype[np.uint32]], position: int) -> int | None:
        """The first position behind one, and then from the beginning, whose segment this reviewer has not judged."""
        open_ = np.flatnonzero(self._codes[order] == _NONE)
        if not len(open_):
            return None
        later = open_[np.searchsorted(open_, position, side="right") :]
        return int(later[0] if len(later) else open_[0])

    def progress(self) -> dict[str, Any]:
        """How much is done: `done`, `total`, `counts` by verdict, `per_hour` and `left_s` (seconds; None while not known)."""
        codes, counts = np.unique(self._codes[self._codes != _NONE], return_counts=True)
        done, total = int(counts.sum()), len(self._codes)
        times = [each.at for each in self._session[-_RECENT:]]
        per_hour = 3600 * (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 and times[-1] > times[0] else None
        return {
            "done": done,
            "total": total,
            "counts": {self._names[code]: int(count) for code, count in zip(codes, counts, strict=True)},
            "per_hour": per_hour,
            "left_s": 3600 * (total - done) / per_hour if per_hour else None,
            "undo": bool(self._session),
            "reviewer": self.reviewer,
            "reviewers": self.reviewers,
        }


def given(workspace: Workspace, review: str | None, reviewer: str) -> tuple[list[str] | None, list[str]]:
    """What is to be reviewed under a name: the segments that the reviewer was given, and the words to choose from.

    Args:
        workspace: where the review was drawn.
        review: the name of a review that was exported; None stands for all segments.
        reviewer: who asks; only matters where the review was dealt out to several.

    Raises:
        InputError: there is no such review, or the reviewer has no part in it.
    """
    if review is None:
        return None, list(VERDICTS)
    record = ReviewRecord.find(workspace, review)
    if record is None:
        raise InputError(f"{workspace.path}: no review {review!r}; 'nbaudio review export' draws one")
    shares = record.shares()
    if len(shares) > 1 and reviewer not in shares:
        raise InputError(f"review {review}: nothing was given to {reviewer!r}; it was dealt out to {', '.join(shares)}")
    return shares.get(reviewer, record.segment_ids), list(record.verdicts)
