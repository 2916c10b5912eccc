"""Threshold to drag over a histogram; segments, hours and speakers are counted once for all positions of `Scale.grid`."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import traitlets
from numpy.typing import NDArray

from nbaudio.core.errors import InputError, get_by_name
from nbaudio.review.state import verdict_log
from nbaudio.selection.parameters import MIN_SIMILARITY
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.views import HOURS, PLAYABLE
from nbaudio.ui.widgets.base import BaseWidget, Response, esm, handlers
from nbaudio.ui.widgets.segments import SegmentPlayback, load_segments
from nbaudio.ui.widgets.static_html import saved_clips

STEPS = 200  # bars of a histogram, and least number of positions
MOST_SPEAKERS = 2000  # counted one by one: those with the most hours
_EXAMPLES = 3
UNKNOWN = "speaker not known"
_LONGEST_S = 60.0
_DENSE, _DENSE_STEPS = 0.95, 50  # similarities are dense near 1: from here positions are 0.001 apart
_TICKS = (0, 0.25, 0.5, 0.75, 1)
_WIDTH, _HEIGHT, _FOOT, _LEFT, _TOP = 640, 150, 36, 46, 18


@dataclass(frozen=True)
class Scale:
    """Positions of a threshold on a column."""

    column: str
    label: str
    grid: tuple[float, ...]  # ascending
    least: bool  # whether the threshold is the least value kept, else it is the greatest
    edges: tuple[int, ...] = ()  # positions between bars of equal width in the histogram

    def position(self, value: float) -> int:
        """Return the position nearest to a value."""
        return int(np.abs(np.array(self.grid) - value).argmin())


MEASURES = {  # column, label, whether the threshold is the least that is kept
    "similarity": ("similarity", "similarity, at least", True),
    "wer": ("wer", "word error rate, at most", False),
    "duration": ("duration_s", "duration in seconds, at most", False),
}


def scale(frame: pl.DataFrame, measure: str, value: float | None = None) -> Scale:
    """Return the scale of a measure, up to the longest duration or a minute; `value` is one more position, clipped to it."""
    column, label, least = get_by_name(MEASURES, measure, "measure")
    low, high = (-1.0, 1.0) if measure == "similarity" else (0.0, 1.0)
    if measure == "duration":
        longest = frame[column].cast(pl.Float64).max()
        high = min(_LONGEST_S, float(np.ceil(longest)) if isinstance(longest, float) and longest > 1 else 1.0)
    edges = [round(low + i * (high - low) / STEPS, 6) for i in range(STEPS + 1)]
    dense = [round(_DENSE + i * (1 - _DENSE) / _DENSE_STEPS, 6) for i in range(_DENSE_STEPS)] if measure == "similarity" else []
    own = [] if value is None else [min(high, max(low, value))]
    grid = tuple(sorted({*edges, *dense, *own}))
    return Scale(column, label, grid, least, tuple(grid.index(edge) for edge in edges))


def format_threshold(value: float) -> str:
    """Return a threshold with two decimals, or as many as it has."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:.6f}".rstrip("0")


@dataclass(frozen=True)
class ThresholdCounts:
    """What each position of a scale keeps: segments, of which `unscored` everywhere, hours, and speakers who have vanished."""

    scale: Scale
    all_segments: int
    all_hours: float
    unscored: int
    segments: NDArray[np.int64]
    hours: NDArray[np.float64]
    vanished: NDArray[np.int64]
    all_speakers: int
    speakers: tuple[str, ...]  # with the most hours; their arrays have a column for each position and all
    speaker_segments: NDArray[np.uint32]
    speaker_hours: NDArray[np.float32]

    @property
    def bins(self) -> NDArray[np.int64]:
        """Scored segments between each position and the next; the ends include those beyond."""
        best, worst = (-1, 0) if self.scale.least else (0, -1)
        counted = np.abs(np.diff(self.segments))
        counted[best] += self.segments[best] - self.unscored
        counted[worst] += self.all_segments - self.segments[worst]
        return counted

    def line(self, position: int) -> str:
        """Describe what a position keeps."""
        segments, hours, vanished = self.segments[position], self.hours[position], int(self.vanished[position])
        time = f"{hours:,.1f} hours" if self.all_hours >= 2 else f"{60 * hours:,.1f} minutes"
        gone = f", {vanished:,} of {self.all_speakers:,} speakers gone" if vanished else ""
        return (
            f"at {format_threshold(self.scale.grid[position])} kept: "
            f"{segments:,} segments ({segments / max(1, self.all_segments):.1%}), "
            f"{time} ({hours / (self.all_hours or 1.0):.1%}){gone}"
        )

    def svg(self, position: int) -> str:
        """Draw the histogram with a line at the threshold; bars of rejected segments are hollow."""
        edges, bins = self.scale.edges, self.bins
        totals = np.add.reduceat(bins, edges[:-1])
        inside = np.arange(len(bins)) >= position if self.scale.least else np.arange(len(bins)) < position
        kept = np.add.reduceat(np.where(inside, bins, 0), edges[:-1])
        plot = _WIDTH - _LEFT - 8
        width, most, foot = plot / STEPS, max(1, int(totals.max())), _TOP + _HEIGHT
        bars = []
        for number, (part, whole) in enumerate(zip(kept, totals, strict=True)):
            for base, top, fill in ((part, whole, 'fill="white" stroke="#8A8A8A"'), (0, part, 'fill="#0072B2"')):
                place = f'x="{_LEFT + number * width + 0.4:.1f}" y="{foot - top * _HEIGHT / most:.1f}" width="{width - 0.8:.1f}"'
                if top > base:
                    bars.append(f'<rect {place} height="{(top - base) * _HEIGHT / most:.1f}" {fill}/>')
        grid = self.scale.grid
        line = _LEFT + (grid[position] - grid[0]) / (grid[-1] - grid[0]) * plot
        words = [
            *((_LEFT + share * plot, foot + 14, "middle", f"{grid[0] + share * (grid[-1] - grid[0]):g}") for share in _TICKS),
            (_LEFT + plot / 2, foot + 30, "middle", self.scale.label.partition(",")[0]),
            (_LEFT - 5, foot, "end", "0"),
            (_LEFT - 5, _TOP + 4, "end", f"{most:,}"),
            (0, 9, "start", "segments"),
        ]
        shown = (
            f'<text x="{x:.0f}" y="{y}" font-size="11" text-anchor="{side}">{escape(word)}</text>' for x, y, side, word in words
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {foot + _FOOT}" width="{_WIDTH}" role="img" '
            f'style="max-width:100%;background:white" aria-label="{escape(self.line(position))}">{"".join(bars)}'
            f'<line x1="{_LEFT}" x2="{_LEFT + plot}" y1="{foot}" y2="{foot}" stroke="#444"/>{"".join(shown)}'
            f'<line x1="{_LEFT}" x2="{_LEFT}" y1="{_TOP}" y2="{foot}" stroke="#444"/>'
            f'<line x1="{line:.1f}" x2="{line:.1f}" y1="{_TOP}" y2="{foot}" stroke="#D55E00" stroke-width="2" '
            'stroke-dasharray="6 3"/></svg>'
        )


def count_thresholds(frame: pl.DataFrame, measure: str, value: float | None = None) -> ThresholdCounts:
    """Count what each position of a measure keeps; `frame` has `speaker_id`, `duration_s` and the column of the measure."""
    found = scale(frame, measure, value)
    scores = frame[found.column].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    # With the least as threshold a row is kept at the positions before `reached`, else from there on.
    reached = np.searchsorted(np.array(found.grid), scores, side="right" if found.least else "left")
    reached[np.isnan(scores)] = len(found.grid) if found.least else 0
    speaker = pl.col("speaker_id").cast(pl.String).fill_null(UNKNOWN)
    table = frame.select(speaker=speaker, hours=HOURS, reached=pl.Series(reached, dtype=pl.Int64))
    by_speaker = table.group_by("speaker", maintain_order=True)
    best = by_speaker.agg(pl.max("reached") if found.least else pl.min("reached"), pl.sum("hours"))
    most = best.sort("hours", descending=True, maintain_order=True).head(MOST_SPEAKERS).select("speaker").with_row_index("row")
    listed = table.join(most, on="speaker", maintain_order="left")
    places: dict[str, Any] = {"rows": listed["row"].to_numpy(), "number": len(most)}
    return ThresholdCounts(
        scale=found,
        all_segments=len(frame),
        all_hours=float(table["hours"].to_numpy().sum()),
        unscored=int(np.isnan(scores).sum()),
        segments=_kept(found, table)[0, :-1].astype(np.int64),
        hours=_kept(found, table, "hours")[0, :-1],
        vanished=len(best) - _kept(found, best)[0, :-1].astype(np.int64),
        all_speakers=len(best),
        speakers=tuple(most["speaker"]),
        speaker_segments=_kept(found, listed, **places).astype(np.uint32),
        speaker_hours=_kept(found, listed, "hours", **places).astype(np.float32),
    )


def _kept(
    found: Scale, table: pl.DataFrame, weight: str | None = None, *, rows: NDArray[Any] | int = 0, number: int = 1
) -> NDArray[np.float64]:
    """Return the count or weight kept at each position for each of `number` rows, and the sum of all in the last column."""
    width = len(found.grid) + 1
    weights = np.ones(len(table)) if weight is None else table[weight].to_numpy()
    sums = np.bincount(rows * width + table["reached"].to_numpy(), weights, number * width).reshape(number, width)
    kept = sums[:, :0:-1].cumsum(axis=1)[:, ::-1] if found.least else sums[:, :-1].cumsum(axis=1)
    return np.column_stack([kept, sums.sum(axis=1)])


class Neighbors:
    """Segments nearest to a threshold on both sides: those that can be played, then others."""

    def __init__(self, frame: pl.DataFrame, scale: Scale) -> None:
        scored = frame.with_row_index("number").filter(pl.col(scale.column).is_finite())
        ordered = scored.select("number", score=scale.column, playable=PLAYABLE.fill_null(value=False)).sort("score", "number")
        parts = ordered.filter(pl.col("playable")), ordered.filter(~pl.col("playable"))
        self._kinds = [(part["number"].to_numpy(), part["score"].to_numpy()) for part in parts]
        self._least = scale.least

    def around(self, value: float, n: int = 3) -> tuple[list[int], list[int]]:
        """Return the row numbers of segments just kept and just out, nearest first."""
        above, below = list[int](), list[int]()
        for numbers, scores in self._kinds:
            place = int(np.searchsorted(scores, value, side="left" if self._least else "right"))
            above += numbers[place : place + n - len(above)].tolist()
            below += numbers[max(0, place - n + len(below)) : place][::-1].tolist()
        return (above, below) if self._least else (below, above)


class ThresholdTuner(BaseWidget):
    """A threshold on similarity, word error rate or duration.

    `value` is a trait that links to other widgets: ``ipywidgets.jslink((tuner, "value"), (field, "value"))``. `used` is the
    similarity that the workspace stores for `select`, None without one; ``?`` shows the keys.
    """

    _esm = esm("core", "player", "tuner_plot", "threshold_tuner")
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
        grid, used = self._counted(measure).scale.grid, self._segments.workspace.threshold
        start = next(each for each in (value, used, MIN_SIMILARITY) if each is not None)
        value = min(grid[-1], max(grid[0], float(start)))
        calls = handlers(self, "tuner", "open", "examples", "evidence", "use")
        super().__init__(calls | SegmentPlayback(self._segments, "me").calls, value=value, used=used, measure=measure)

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
        facts |= {name: getattr(counts.scale, name) for name in ("label", "least", "grid", "edges")}
        facts |= {name: getattr(counts, name) for name in ("all_segments", "all_hours", "all_speakers", "speakers")}
        facts |= {name: getattr(counts, name).tolist() for name in ("bins", "segments", "hours", "vanished")}
        return Response(facts, [counts.speaker_segments.tobytes(), counts.speaker_hours.tobytes()], [])

    def _examples(self, *, measure: str, value: float) -> dict[str, list[dict[str, Any]]]:
        kept, out = self._neighbors[measure].around(value, _EXAMPLES)
        column = self._counts[measure].scale.column

        def shown(number: int) -> dict[str, Any]:
            row = self._segments.row(number)
            return {"number": number, "segment_id": row["segment_id"], "score": row[column], "text": (row["text"] or "")[:200]}

        return {"kept": [*map(shown, kept)], "out": [*map(shown, out)]}

    def _evidence(self, *, measure: str, value: float | None = None) -> dict[str, list[Any]] | None:
        """Return the proven precision at every position as lists; None without verdicts, or for another measure."""
        workspace = self._segments.workspace
        if measure != "similarity" or not len(verdict_log(workspace)):
            return None
        from nbaudio.proof.claims import curve
        from nbaudio.proof.judged_draws import ProofState

        found = curve(ProofState.load(workspace), self._counted(measure, value).scale.grid)
        return found.select("reviewed", "precision", "low", "high").to_dict(as_series=False)

    def static_html(self) -> str:
        """Return the histogram at the current value, and clips on both sides of it."""
        counts = self._counted(self.measure, self.value)
        position = counts.scale.position(self.value)
        sides = self._neighbors[self.measure].around(self.value, _EXAMPLES)
        clips = [saved_clips(self._segments, numbers)._repr_html_() for numbers in sides]
        proof = self._evidence(measure=self.measure, value=self.value)
        verified = f"<p>{describe_precision(proof, position)}</p>" if proof else ""
        used = "" if self.used is None else f"<p>select uses similarity {format_threshold(self.used)} unless another is given</p>"
        return (
            f"{counts.svg(position)}<p>{counts.scale.label}: {counts.line(position)}</p>{verified}{used}"
            f"<p>just kept:</p>{clips[0]}<p>just out:</p>{clips[1]}"
        )


def describe_precision(proof: dict[str, list[Any]], position: int) -> str:
    """Describe the proven precision at a position."""
    reviewed, precision, low, high = (proof[name][position] for name in ("reviewed", "precision", "low", "high"))
    if precision is None:
        return "verified precision: none of it was reviewed"
    return f"verified precision {precision:.1%} ({low:.1%} to {high:.1%}), {reviewed:,} reviewed"
