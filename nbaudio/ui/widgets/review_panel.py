"""Review segments in one cell.

The workspace's log holds all verdicts. The panel holds those of this kernel, for undo and rate.

The number of a segment is that of its row in the panel's frame; a position is a place in the order
of the table, which sorting and filters change. Control rows measure the reviewer (`ControlRow`).
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.progress_text import rate_and_time_left
from nbaudio.core.times import utc_now
from nbaudio.review import VERDICTS, append_verdicts
from nbaudio.review.annotator_agreement import next_step
from nbaudio.review.control_rows import (
    control_frame,
    segments_of_control_rows,
    with_control_rows,
)
from nbaudio.review.corrections import uncorrected
from nbaudio.review.state import (
    CONTROL_LOG,
    OK,
    SEPARATOR,
    VERDICT_LOG,
    ControlRow,
    ReviewRecord,
    ReviewState,
    Verdict,
    content_hashes,
    read_verdict,
)
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.dataframes import Ids
from nbaudio.tables.schemas import SEGMENTS
from nbaudio.tables.workspace import Workspace
from nbaudio.text.normalization import nfc
from nbaudio.ui.filters import INTERNAL_COLUMNS
from nbaudio.ui.widgets.base_widget import BaseWidget, Handler, esm, handlers
from nbaudio.ui.widgets.segments import ClipPlayback, SegmentPlayback, Segments, load_segments
from nbaudio.ui.widgets.static_html import Table, saved_clips
from nbaudio.ui.widgets.table_view import TableView

PANEL = "panel"

_COLUMNS = ("segment_id", "text", "verdict", "similarity", "duration_s", "speaker_id")
# Columns that a blind panel has; others, such as those of a source, may tell of hypothesis or
# similarity.
_BLIND = {*SEGMENTS, *INTERNAL_COLUMNS, "duration_s"} - {
    "asr_text",
    "similarity",
    "wer",
    "cer",
    "split",
    "decision",
    "reason",
}
# Columns of a panel with control rows. A control row may show text or clip of another segment,
# which further columns, such as the times, would contradict.
_ON_SHEETS = ("segment_id", "text", "speaker_id", "duration_s")
_NO_HYPOTHESIS = {"asr_text": pl.lit(None, pl.String), "similarity": pl.lit(None, pl.Float64)}
_SAVED_CLIPS = 3
_RECENT = 20  # verdicts that the rate is computed from, so that long pauses earlier do not count


class _Judgement(NamedTuple):
    """A verdict of this session."""

    number: int  # of the segment
    verdict: Verdict
    replaced: Verdict | None  # the verdict shown before
    at: float  # monotonic seconds


class ReviewPanel(BaseWidget):
    """Segments to judge, one key each; ``?`` shows the keys.

    A verdict is in the workspace's log (`review.verdicts`) before the next clip begins; run the
    cell again to continue.
    """

    _esm = esm("core", "table_columns", "table", "player", "review_panel")

    def __init__(
        self,
        workspace: str | Path | Workspace,
        segment_ids: Ids | None = None,
        *,
        reviewer: str,
        review: str | None = None,
    ) -> None:
        """Load the segments and the reviewer's verdicts on them.

        Args:
            workspace: the workspace.
            segment_ids: ids in the order to review, also as a pandas or polars table; None for
                those of `review`, or else all.
            reviewer: name of the reviewer.
            review: name of an exported review: its segments with the texts it was drawn with, and
                its verdict words; its verdicts count as evidence, and a blind review shows neither
                hypothesis nor similarity. Without it verdicts are logged under ``panel``.

        Raises:
            InputError: there is no such review or segment, the reviewer has no name or no part in
                the review.
        """
        workspace = Workspace.open(workspace)
        self._reviewer = reviewer.strip()
        if segment_ids is not None and review is not None:
            raise InputError("give segment_ids or review, not both")
        if not self._reviewer:
            raise InputError("reviewer: a name is needed, under which verdicts are stored")
        record = None if review is None else _record_of(workspace, review)
        rows = _rows_to_judge(workspace, segment_ids, record, self._reviewer)
        self._control = rows.control
        self._words = list(VERDICTS) if record is None else record.verdicts
        self._review = review or PANEL
        self._blind = record is not None and record.blind
        # The frame keeps the hypothesis, which the content hash of a verdict covers; the player and
        # the table of a blind panel have none.
        self._frame = rows.segments.frame
        self._segments = rows.segments
        table = self._frame
        if self._blind:
            table = table.select(name for name in table.columns if name in _BLIND)
            self._segments = replace(self._segments, frame=table.with_columns(**_NO_HYPOTHESIS))
        if self._control:
            table = table.select(_ON_SHEETS)
        self._session: list[_Judgement] = []
        self._shown = self._as_shown(_verdicts_of(workspace, self._reviewer))
        self._rows = TableView(self._judged(table), self._columns(table))
        self._rows.fit_columns()
        self._rows.cursor = self._unjudged_after(-1) or 0
        calls = handlers(self, "review", "open", "give", "undo", "next", "said")
        super().__init__(calls | self._rows.calls | self._playback_calls())

    def _playback_calls(self) -> dict[str, Handler]:
        """Return the handlers of the player.

        Beside control rows there are clips alone, as on sheets: the context of a clip would show
        which rows they are.
        """
        if self._control:
            return ClipPlayback(self._segments).calls
        return SegmentPlayback(self._segments, self._reviewer).calls

    def _as_shown(self, log: list[Verdict]) -> dict[int, Verdict]:
        """Return the verdict on each segment as shown, by its number.

        Where there is none, it is the verdict on the text before a correction.
        """
        by_content = {(verdict.segment_id, verdict.content): verdict for verdict in log}
        shown: dict[int, Verdict] = {}
        for number, row in self._control.items():
            if (row.segment_id, row.content) in by_content:
                shown[number] = by_content[row.segment_id, row.content]
        frame = self._frame.with_row_index("number").filter(
            pl.col("segment_id").is_in([verdict.segment_id for verdict in log]),
            ~pl.col("number").is_in(list(self._control)),
        )
        # The verdict on the present text comes last, and replaces that on the text before.
        for version in (uncorrected(self._segments.workspace, frame), frame):
            keys = zip(version["segment_id"], content_hashes(version), strict=True)
            for number, key in zip(version["number"], keys, strict=True):
                if key in by_content:
                    shown[number] = by_content[key]
        return shown

    def _show(self, number: int, verdict: Verdict | None) -> None:
        """Show a verdict on a segment; None, and one that was withdrawn, is none."""
        if verdict is None or verdict.verdict is None:
            self._shown.pop(number, None)
        else:
            self._shown[number] = verdict

    def _judged(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with the verdicts shown as the column `verdict`."""
        none = pl.repeat(None, len(frame), dtype=pl.String, eager=True)
        words = [verdict.verdict for verdict in self._shown.values()]
        return frame.with_columns(verdict=none.scatter(list(self._shown), words))

    def _columns(self, frame: pl.DataFrame) -> list[str]:
        """Return the columns of the table; verdicts are one of them once there are any."""
        hidden = set() if self._shown else {"verdict"}
        if self._blind or not frame["similarity"].count():
            hidden.add("similarity")
        if not frame["speaker_id"].count():
            hidden.add("speaker_id")
        return [name for name in _COLUMNS if name not in hidden]

    def _unjudged_after(self, position: int) -> int | None:
        """Return the next position whose segment this reviewer has not judged.

        The search begins after `position` and continues from the start.
        """
        unjudged = np.flatnonzero(
            self._rows.frame["verdict"].is_null().to_numpy()[self._rows.order]
        )
        if not len(unjudged):
            return None
        later = unjudged[np.searchsorted(unjudged, position, side="right") :]
        if len(later):
            return int(later[0])
        return int(unjudged[0])

    @property
    def progress(self) -> dict[str, Any]:
        """How much is reviewed.

        `done` and `total` count segments, `counts` the verdicts by word. `per_hour` is the rate in
        segments and `left_s` the seconds for the rest; both are None if unknown. `undo` tells
        whether there is a verdict to withdraw. `next` is a line about what follows once all
        segments are judged, else empty.
        """
        done = len(self._shown)
        total = len(self._frame)
        rate, left_s = self._rate_and_time_left(total - done)
        next_line = ""
        if done == total > 0:
            next_line = next_step(ReviewState.load(self._segments.workspace), self._review)
        return {
            "done": done,
            "total": total,
            "counts": self._counts(),
            "per_hour": 3600 * rate if rate else None,
            "left_s": left_s,
            "undo": bool(self._session),
            "reviewer": self._reviewer,
            "next": next_line,
        }

    def _rate_and_time_left(self, unjudged: int) -> tuple[float | None, float | None]:
        """Return segments per second by the last verdicts, and seconds for the rest, if known."""
        # A segment counts once, however many words were added to its verdict.
        recent = self._session[-_RECENT:]
        times = sorted({judgement.number: judgement.at for judgement in recent}.values())
        if not times:
            return None, None
        return rate_and_time_left(len(times) - 1, times[-1] - times[0], unjudged)

    def _counts(self) -> dict[str, int]:
        """Return how many segments have each verdict word, in the order of the words."""
        counts = Counter(
            word
            for verdict in self._shown.values()
            for word in (verdict.verdict or "").split(SEPARATOR)
        )
        in_order = {word: counts[word] for word in self._words if word in counts}
        return in_order | counts  # at the end words that the list no longer has

    @property
    def selected(self) -> pl.DataFrame:
        """The marked rows, or the row under the cursor if none is marked."""
        return self._rows.selection

    def _open(self) -> dict[str, Any]:
        """Return what the page shows first: verdict words, how it may be used, and progress.

        `fixed` says that the reviewer's name cannot be changed, `clip_only` that a clip is played
        without its context.
        """
        words = [{"word": word, "meaning": VERDICTS.get(word, "")} for word in self._words]
        facts = {"words": words, "fixed": True, "clip_only": bool(self._control)}
        return {**facts, **self.progress}

    def _give(
        self, *, number: int, verdict: str | None, comment: str, corrected_text: str | None
    ) -> dict[str, Any]:
        """Log a verdict, or None to withdraw it, at once on disk.

        A blank text, or that of the transcript, corrects nothing.
        """
        self._check_review()
        words = None if verdict is None else read_verdict(verdict, self._words)
        if verdict is not None and words is None:
            raise InputError(f"verdict {verdict!r} is unknown; known are {', '.join(self._words)}")
        segment = self._frame[number]
        transcript = (segment["text"][0] or "").strip()
        if not corrected_text or nfc(corrected_text).strip() in {"", transcript}:
            corrected_text = None
        if corrected_text and words == OK:
            contradiction = (
                f"'{OK}' says that the transcript is right, but there is a corrected text"
            )
            raise InputError(f"{contradiction}: choose another or clear it")
        entry = Verdict(
            segment["segment_id"][0],
            self._content(number),
            words,
            comment,
            corrected_text,
            self._reviewer,
            utc_now(),
            self._review,
            self._blind,
        )
        self._append(number, entry)
        replaced = self._shown.get(number)
        self._session.append(_Judgement(number, entry, replaced, time.monotonic()))
        self._show(number, entry)
        return self._refresh()

    def _content(self, number: int) -> str:
        """Return the hash of what is judged in a row."""
        if number in self._control:
            return self._control[number].content
        return content_hashes(self._frame[number])[0]

    def _append(self, number: int, verdict: Verdict) -> None:
        """Log a verdict on a row; control rows have a log of their own."""
        log = CONTROL_LOG if number in self._control else VERDICT_LOG
        append_verdicts(self._segments.workspace, [verdict], log=log)

    def _check_review(self) -> None:
        """Raise InputError if the review was taken back since the panel was opened."""
        workspace = self._segments.workspace
        if self._review != PANEL and self._review not in workspace.reviewed():
            raise InputError(
                f"review {self._review} was taken back; the next 'nbaudio review export' begins "
                "with its rows"
            )

    def _undo(self) -> dict[str, Any]:
        """Withdraw the last verdict of this session, or restore the one it replaced.

        Return its segment, or None if there is none.
        """
        if not self._session:
            return {**self._refresh(), "number": None, "position": None}
        number, last, replaced, _ = self._session.pop()
        entry = replace(last, verdict=None, comment="", corrected_text=None)
        # A verdict on the text before a correction is still in the log: it is only shown again.
        if replaced and replaced.content == last.content:
            entry = replaced
        self._append(number, replace(entry, time=utc_now()))
        self._show(number, replaced)
        places = np.flatnonzero(self._rows.order == number)
        return {
            **self._refresh(),
            "number": number,
            "position": int(places[0]) if len(places) else None,
        }

    def _refresh(self) -> dict[str, Any]:
        """Show the present verdicts in the table; return the progress."""
        self._rows.frame = self._judged(self._rows.frame)
        self._rows.replace_defaults(self._columns(self._rows.frame))
        return self.progress

    def _next(self, *, position: int) -> dict[str, Any] | None:
        """Return position and number of the next segment to judge; None if all are judged."""
        unjudged = self._unjudged_after(position)
        if unjudged is None:
            return None
        return {"position": unjudged, "number": int(self._rows.order[unjudged])}

    def _said(self, *, number: int) -> dict[str, Any]:
        """Return text and verdict of a segment.

        The corrected text is left out if it is the transcript by now.
        """
        text = self._segments.row(number)["text"]
        verdict = self._shown.get(number)
        if verdict is None:
            return {"said": None, "text": text or ""}
        corrected = verdict.corrected_text
        if nfc(corrected or "") == text:
            corrected = None
        return {
            "said": {
                "verdict": verdict.verdict,
                "comment": verdict.comment,
                "corrected_text": corrected,
            },
            "text": text or "",
        }

    def static_html(self) -> str:
        """Return HTML with the progress, how often each verdict was given, and some clips.

        The clips are of segments that are not judged yet.
        """
        progress = self.progress
        frame = self._rows.frame
        order = self._rows.order
        html = f"<p>{progress['done']:,} of {progress['total']:,} judged</p>"
        if counts := progress["counts"]:
            html += Table(
                pl.DataFrame({"verdict": list(counts), "segments": list(counts.values())})
            )._repr_html_()
        unjudged = order[frame["verdict"].is_null().to_numpy()[order]][:_SAVED_CLIPS].tolist()
        if unjudged:
            html += f"<p>next:</p>{saved_clips(self._segments, unjudged)._repr_html_()}"
        return html


def _record_of(workspace: Workspace, review: str) -> ReviewRecord:
    """Return the record of a review; raise InputError if there is none of this name."""
    record = ReviewState.load(workspace).records.get(review)
    if record is None:
        raise InputError(
            f"{workspace.path}: no review {review!r}; 'nbaudio review export' draws one"
        )
    return record


@dataclass(frozen=True)
class _PanelRows:
    """The rows of a panel in order, and which of them are control rows, by number."""

    segments: Segments
    control: Mapping[int, ControlRow]


def _share(record: ReviewRecord, reviewer: str) -> str:
    """Return the name under which a review has the rows for a reviewer.

    If the review has only one share, anybody may judge it. Raise InputError if it has several, and
    none for this reviewer.
    """
    shares = record.shares()
    if reviewer in shares:
        return reviewer
    if len(shares) > 1:
        raise InputError(
            f"review {record.name}: no segment was assigned to {reviewer!r}; "
            f"its reviewers are {', '.join(shares)}"
        )
    [name] = shares
    return name


def _rows_to_judge(
    workspace: Workspace, segment_ids: Ids | None, record: ReviewRecord | None, reviewer: str
) -> _PanelRows:
    """Return the rows of a reviewer: those of a review, or else some segments, or all."""
    if record is None:
        return _PanelRows(load_segments(workspace, segment_ids), {})
    return _rows_of_review(workspace, record, _share(record, reviewer))


def _rows_of_review(workspace: Workspace, record: ReviewRecord, share: str) -> _PanelRows:
    """Return the rows of a share of a review in the order of its sheet.

    Segments are as their first reviewer saw them.
    """
    segments = load_segments(workspace, record.shares()[share])
    frame = uncorrected(workspace, segments.frame).with_columns(seconds_column())
    control = {row.position: row for row in record.control_rows if row.reviewer == share}
    if control:
        shown = load_segments(workspace, segments_of_control_rows(record)).frame
        control_rows = control_frame(record, uncorrected(workspace, shown))
        frame = with_control_rows(frame, control_rows, share)
    return _PanelRows(replace(segments, frame=frame), control)


def _verdicts_of(workspace: Workspace, reviewer: str) -> list[Verdict]:
    """Return the verdicts of a reviewer in the logs of a workspace, on control rows as well."""
    state = ReviewState.load(workspace)
    rows = pl.concat([state.verdicts, state.control_verdicts]).filter(reviewer=reviewer)
    return [Verdict(**row) for row in rows.iter_rows(named=True)]
