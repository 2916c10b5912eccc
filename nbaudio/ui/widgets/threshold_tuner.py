"""Threshold to drag over a histogram: what it keeps, which speakers lose, how segments on both sides of it sound."""

from pathlib import Path
from typing import Any

import numpy as np
import traitlets

from nbaudio.core.errors import InputError, get_by_name
from nbaudio.review.log import verdict_log
from nbaudio.selection.parameters import MIN_SIMILARITY
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.widgets.base import BaseWidget, Response, esm
from nbaudio.ui.widgets.segments import SegmentPlayback, load_segments, segment_facts
from nbaudio.ui.widgets.static_html import saved_clips
from nbaudio.ui.widgets.threshold_counts import MEASURES, Neighbors, ThresholdCounts, count_thresholds, format_threshold

_EXAMPLES = 3


class ThresholdTuner(BaseWidget):
    """A threshold on similarity, word error rate or duration.

    `value` is a trait that links to other widgets: ``ipywidgets.jslink((tuner, "value"), (field, "value"))``. `used` is the
    similarity that the workspace stores for `select`, None without one.

    Keys: arrows left and right move the threshold by a step, with Shift by ten; ``t`` goes to the field to type it, ``y`` makes
    the axis of segments logarithmic; up and down go through the examples, Space plays, and the other keys are those of `Player`.
    """

    _esm = esm("core", "diff", "player_drawing", "player", "tuner_plot", "threshold_tuner")
    value = traitlets.Float(MIN_SIMILARITY).tag(sync=True)
    used = traitlets.Float(None, allow_none=True).tag(sync=True)
    measure = traitlets.Unicode("similarity").tag(sync=True)

    def __init__(self, workspace: str | Path | Workspace, value: float | None = None, *, measure: str = "similarity") -> None:
        """Count what every position keeps.

        Args:
            workspace: a scored workspace.
            value: initial threshold; the one stored in the workspace unless given, or 0.8.
            measure: ``similarity``, ``wer`` or ``duration``.

        Raises:
            InputError: the measure is unknown.
        """
        get_by_name(MEASURES, measure, "measure")
        self._segments = load_segments(workspace)
        self._counts: dict[str, ThresholdCounts] = {}
        self._neighbors: dict[str, Neighbors] = {}
        grid = self._counted(measure).scale.grid
        used = self._segments.workspace.threshold
        start = next(each for each in (value, used, MIN_SIMILARITY) if each is not None)
        super().__init__(
            {
                "tuner.open": self._open,
                "tuner.examples": self._examples,
                "tuner.evidence": self._evidence,
                "tuner.use": self._use,
                **SegmentPlayback(self._segments, "me").calls,
            },
            value=min(grid[-1], max(grid[0], float(start))),
            used=used,
            measure=measure,
        )

    def use(self) -> None:
        """Store `value` in the workspace, as the button does: `select` uses it unless it is given ``min_similarity``.

        Raises:
            InputError: the threshold is not on similarity.
        """
        if self.measure != "similarity":
            raise InputError(f"only a threshold on similarity can be stored; this one is on {self.measure}")
        self._use(value=self.value)

    def _use(self, *, value: float) -> None:
        self._segments.workspace.choose_threshold(value)
        self.used = value

    def _counted(self, measure: str, value: float | None = None) -> ThresholdCounts:
        """Return counts that have `value` as a position; only the counts of the latest value are cached."""
        held = self._counts.get(measure)
        if held is None or not (value is None or held.scale.grid[held.scale.position(value)] == value):
            held = self._counts[measure] = count_thresholds(self._segments.frame, measure, value)
            self._neighbors.setdefault(measure, Neighbors(self._segments.frame, held.scale))
        return held

    def _open(self, *, measure: str, value: float | None = None) -> Response:
        counts = self._counted(measure, value)
        facts: dict[str, Any] = {"measures": list(MEASURES)}
        facts |= {name: getattr(counts.scale, name) for name in ("label", "least", "axis", "grid", "edges")}
        facts |= {name: getattr(counts, name) for name in ("all_segments", "all_hours", "all_speakers", "speakers")}
        facts |= {name: getattr(counts, name).tolist() for name in ("bins", "segments", "hours", "vanished")}
        return Response(facts, [counts.speaker_segments.tobytes(), counts.speaker_hours.tobytes()], [])

    def _examples(self, *, measure: str, value: float) -> dict[str, list[dict[str, Any]]]:
        kept, out = self._neighbors[measure].around(value, _EXAMPLES)
        column = self._counts[measure].scale.column

        def shown(number: int) -> dict[str, Any]:
            row = self._segments.row(number)
            facts, text = segment_facts(row), (row["text"] or "")[:200]
            return {"number": number, "segment_id": row["segment_id"], "score": row[column], "facts": facts, "text": text}

        return {"kept": [shown(number) for number in kept], "out": [shown(number) for number in out]}

    def _evidence(self, *, measure: str, value: float | None = None) -> dict[str, list[Any]] | None:
        """Return the proven precision at every position as lists; None without verdicts, or for another measure."""
        workspace = self._segments.workspace
        if measure != "similarity" or not len(verdict_log(workspace)):
            return None
        from nbaudio.proof.curves import curve
        from nbaudio.proof.evidence import workspace_sample

        found = curve(workspace_sample(workspace), thresholds=np.array(self._counted(measure, value).scale.grid))
        return found.select("reviewed", "precision", "low", "high").to_dict(as_series=False)

    def static_html(self) -> str:
        """Return the histogram at the current value, and clips on both sides of it."""
        counts = self._counted(self.measure, self.value)
        position = counts.scale.position(self.value)
        kept, out = self._neighbors[self.measure].around(self.value, _EXAMPLES)
        clips = [saved_clips(self._segments, numbers)._repr_html_() for numbers in (kept, out)]
        proof = self._evidence(measure=self.measure, value=self.value)
        stored = (
            "" if self.used is None else f"<p>select takes similarity {format_threshold(self.used)} unless it is told another</p>"
        )
        verified = f"<p>{describe_precision(proof, position)}</p>" if proof else ""
        return (
            f"{counts.svg(position)}<p>{counts.scale.label}: {counts.line(position)}</p>{verified}{stored}"
            f"<p>just kept:</p>{clips[0]}<p>just out:</p>{clips[1]}"
        )


def describe_precision(proof: dict[str, list[Any]], position: int) -> str:
    """Describe the proven precision at a position."""
    reviewed, precision, low, high = (proof[name][position] for name in ("reviewed", "precision", "low", "high"))
    if precision is None:
        return "verified precision: nothing of it was reviewed"
    return f"verified precision {precision:.1%} ({low:.1%} to {high:.1%}), {reviewed:,} reviewed"
