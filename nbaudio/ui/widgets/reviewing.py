"""A reviewer's work on the segments of a panel: verdicts that are kept at once, undo, what comes next, how fast it goes.

All of it is in the workspace's log of verdicts; what is held here is only what this kernel did, for undo and for the rate.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.review.corrections import uncorrected
from nbaudio.review.state import OK, VERDICTS, ReviewRecord, Verdict, append_verdicts, content_hashes, verdicts
from nbaudio.storage.workspace import Workspace
from nbaudio.text.normal import nfc
from nbaudio.ui.widgets.listening import utc_now
from nbaudio.ui.widgets.segments import Segments

PANEL = "panel"
# The rate is that of the last verdicts: pauses of long ago are not held against anybody.
_RECENT = 20
_NONE = -1


@dataclass(frozen=True)
class _Done:
    """A verdict of this session: what it replaced in the log, and what was shown before it."""

    number: int
    said: Verdict
    replaced: Verdict | None
    shown: Verdict | None
    at: float


class ReviewSession:
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
        self._said = self._holding([Verdict(**row) for row in mine.iter_rows(named=True)])
        # A word of another list, from a sheet that asked otherwise, stays known under its own name.
        self._names = list(dict.fromkeys([*self.words, *(said.verdict for said in self._said.values() if said.verdict)]))
        self._codes = np.full(len(self.segments.frame), _NONE, dtype=np.int16)
        for number, said in self._said.items():
            self._show(number, said)

    def _holding(self, said: list[Verdict]) -> dict[int, Verdict]:
        """By segment, the verdict on it as it is shown; where there is none, that on the text before a correction."""
        by_content = {(one.segment_id, one.content): one for one in said}
        frame = self.segments.frame.with_row_index("number")
        frame = frame.filter(pl.col("segment_id").is_in([one.segment_id for one in said]))
        held = {}
        for version in (uncorrected(self.segments.workspace, frame), frame):
            for number, segment_id, content in zip(
                version["number"], version["segment_id"], content_hashes(version), strict=True
            ):
                if (segment_id, content) in by_content:
                    held[number] = by_content[segment_id, content]
        return held

    def _show(self, number: int, said: Verdict | None) -> None:
        if said is None or said.verdict is None:
            self._said.pop(number, None)
            self._codes[number] = _NONE
        else:
            self._said[number] = said
            self._codes[number] = self._names.index(said.verdict)

    @property
    def column(self) -> pl.Series:
        """This reviewer's verdict on each segment, null where there is none."""
        codes = pl.Series("verdict", self._codes)
        return codes.replace_strict(dict(enumerate(self._names)), default=None, return_dtype=pl.String)

    def give(self, number: int, verdict: str, *, comment: str = "", corrected_text: str | None = None) -> None:
        """Keep a verdict: it is on the disk when this returns.

        Args:
            number: of the segment.
            verdict: a word of the list.
            comment: a remark.
            corrected_text: the right words; blank, or those of the transcript, they correct nothing.

        Raises:
            InputError: the word is not one of the list, or says that a transcript is right that is corrected.
        """
        if verdict not in self.words:
            raise InputError(f"verdict {verdict!r} is unknown; known are {', '.join(self.words)}")
        segment = self.segments.frame[number]
        shown = (segment["text"][0] or "").strip()
        corrected = corrected_text if corrected_text and nfc(corrected_text).strip() not in {"", shown} else None
        if corrected and verdict == OK:
            raise InputError(
                f"'{OK}' says that the transcript is right, but there is a corrected text: choose another or clear it"
            )
        segment_id, [content] = segment["segment_id"][0], content_hashes(segment)
        said = Verdict(segment_id, content, verdict, comment, corrected, self.reviewer, utc_now(), self.review)
        before = self._said.get(number)
        append_verdicts(self.segments.workspace, [said])
        replaced = before if before and before.content == content else None
        self._session.append(_Done(number, said, replaced, before, time.monotonic()))
        self._show(number, said)

    def undo(self) -> int | None:
        """Withdraw the last verdict of this session, or put back what it replaced.

        Returns:
            The segment it was about; None where there is nothing to undo.
        """
        if not self._session:
            return None
        last = self._session.pop()
        back = last.replaced or replace(last.said, verdict=None, comment="", corrected_text=None)
        append_verdicts(self.segments.workspace, [replace(back, time=utc_now())])
        self._show(last.number, last.shown)
        return last.number

    def said(self, number: int) -> dict[str, Any] | None:
        """This reviewer's verdict on a segment, with comment and corrected text; None for one that is the transcript by now."""
        found = self._said.get(number)
        if found is None:
            return None
        applied = nfc(found.corrected_text or "") == self.segments.row(number)["text"]
        corrected = None if applied else found.corrected_text
        return {"verdict": found.verdict, "comment": found.comment, "corrected_text": corrected}

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


def review_items(workspace: Workspace, review: str | None, reviewer: str) -> tuple[list[str] | None, list[str], bool]:
    """What is to be reviewed under a name: the segments, the words to choose from, and whether they are this reviewer's alone.

    Args:
        workspace: where the review was drawn.
        review: the name of a review that was exported; None stands for all segments.
        reviewer: who asks; only matters where the review was dealt out to several.

    Raises:
        InputError: there is no such review, or the reviewer has no part in it.
    """
    if review is None:
        return None, list(VERDICTS), False
    record = ReviewRecord.find(workspace, review)
    if record is None:
        raise InputError(f"{workspace.path}: no review {review!r}; 'nbaudio review export' draws one")
    shares = record.shares()
    if len(shares) > 1 and reviewer not in shares:
        raise InputError(f"review {review}: nothing was given to {reviewer!r}; it was dealt out to {', '.join(shares)}")
    return shares.get(reviewer, record.segment_ids), list(record.verdicts), len(shares) > 1
