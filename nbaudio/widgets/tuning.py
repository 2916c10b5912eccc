"""What each position of a threshold keeps, counted once for all positions: segments, hours, speakers, examples on both sides.

Conventions: a position is an index into `Scale.grid`; what has no score passes every threshold, as in `select`; times that are no
times are no hours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.errors import look_up

STEPS = 200
# Speakers whose loss is told one by one: those with the most hours.
MOST_SPEAKERS = 2000
UNKNOWN = "speaker not known"

_LONGEST_S = 60.0
_HOURS = pl.when(pl.col("duration_s").is_finite()).then(pl.col("duration_s").clip(0) / 3600).otherwise(0.0)
_WIDTH, _HEIGHT, _FOOT = 640, 150, 18


@dataclass(frozen=True)
class Scale:
    """What a threshold is set on.

    Attributes:
        column: of the segments.
        label: what it is called, with its unit.
        grid: the positions, ascending.
        least: whether a threshold is the least that is kept; else it is the most.
    """

    column: str
    label: str
    grid: tuple[float, ...]
    least: bool

    def position(self, value: float) -> int:
        """The position nearest to a value."""
        return int(np.abs(np.array(self.grid) - value).argmin())


# Measure -> column, label, whether the threshold is the least that is kept.
MEASURES: Mapping[str, tuple[str, str, bool]] = MappingProxyType(
    {
        "similarity": ("similarity", "similarity, at least", True),
        "wer": ("wer", "word error rate, at most", False),
        "duration": ("duration_s", "duration in seconds, at most", False),
    }
)


def scale(frame: pl.DataFrame, measure: str) -> Scale:
    """The scale of a measure: similarity from -1 to 1, error rates to 1, durations to the longest but no more than a minute.

    Raises:
        InputError: the measure is not known.
    """
    column, label, least = look_up(MEASURES, measure, "measure")
    low, high = (-1.0, 1.0) if measure == "similarity" else (0.0, 1.0)
    if measure == "duration":
        longest = _scores(frame, column).max()
        high = min(_LONGEST_S, float(np.ceil(longest)) if isinstance(longest, float) and longest > 1 else 1.0)
    grid = tuple(round(low + i * (high - low) / STEPS, 6) for i in range(STEPS + 1))
    return Scale(column, label, grid, least)


@dataclass(frozen=True)
class Counts:
    """What each position of a scale keeps.

    Attributes:
        scale: the positions.
        all_segments: how many there are.
        all_hours: how many there are.
        unscored: segments without a score, kept at every position.
        segments: int64, kept at each position.
        hours: float64, kept at each position.
        vanished: int64, speakers of whom nothing is kept at each position.
        all_speakers: how many there are.
        speakers: the names of those with the most hours, at most `MOST_SPEAKERS`.
        speaker_segments: uint32 of shape (speakers, positions + 1); the last column is all of them.
        speaker_hours: float32 of the same shape.
    """

    scale: Scale
    all_segments: int
    all_hours: float
    unscored: int
    segments: NDArray[np.int64]
    hours: NDArray[np.float64]
    vanished: NDArray[np.int64]
    all_speakers: int
    speakers: tuple[str, ...]
    speaker_segments: NDArray[np.uint32]
    speaker_hours: NDArray[np.float32]

    @property
    def bins(self) -> NDArray[np.int64]:
        """Scored segments between each position and the next, the ends taking in what lies beyond them."""
        best, worst = (-1, 0) if self.scale.least else (0, -1)
        counted = np.abs(np.diff(self.segments))
        counted[best] += self.segments[best] - self.unscored
        counted[worst] += self.all_segments - self.segments[worst]
        return counted

    def line(self, position: int) -> str:
        """What a position keeps, in words."""
        segments, hours, vanished = self.segments[position], self.hours[position], int(self.vanished[position])
        time = f"{hours:,.1f} hours" if self.all_hours >= 2 else f"{60 * hours:,.1f} minutes"
        gone = f", {vanished:,} of {self.all_speakers:,} speakers gone" if vanished else ""
        return (
            f"at {self.scale.grid[position]:.2f} kept: {segments:,} segments ({segments / max(1, self.all_segments):.1%}), "
            f"{time} ({hours / (self.all_hours or 1.0):.1%}){gone}"
        )

    def svg(self, position: int) -> str:
        """The histogram, bars of what is out hollow, and a line at the threshold."""
        width, most = _WIDTH / STEPS, max(1, int(self.bins.max()))
        bars = []
        for number, count in enumerate(self.bins.tolist()):
            if count:
                kept = number >= position if self.scale.least else number < position
                fill = 'fill="#0072B2"' if kept else 'fill="white" stroke="#8A8A8A"'
                height = count * _HEIGHT / most
                bars.append(
                    f'<rect x="{number * width + 0.4:.1f}" y="{_HEIGHT - height:.1f}" width="{width - 0.8:.1f}" '
                    f'height="{height:.1f}" {fill}/>'
                )
        line = position / STEPS * _WIDTH
        ticks = "".join(
            f'<text x="{share * _WIDTH:.0f}" y="{_HEIGHT + 14}" font-size="11" text-anchor="{anchor}">'
            f"{self.scale.grid[round(share * STEPS)]:g}</text>"
            for share, anchor in ((0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1, "end"))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT + _FOOT}" width="{_WIDTH}" role="img" '
            f'style="max-width:100%;background:white" aria-label="{escape(self.line(position))}">{"".join(bars)}'
            f'<line x1="0" x2="{_WIDTH}" y1="{_HEIGHT}" y2="{_HEIGHT}" stroke="#444"/>{ticks}'
            f'<line x1="{line:.1f}" x2="{line:.1f}" y1="0" y2="{_HEIGHT}" stroke="#D55E00" stroke-width="2" '
            'stroke-dasharray="6 3"/>'
            "</svg>"
        )


def count(frame: pl.DataFrame, measure: str) -> Counts:
    """Count what each position of a measure keeps.

    Args:
        frame: segments with `speaker_id`, `duration_s` (seconds) and the measure's column.
        measure: a key of `MEASURES`.

    Examples:
        >>> frame = pl.DataFrame({"speaker_id": ["a", "b"], "duration_s": [1800.0, 5400.0], "similarity": [0.3, 0.9]})
        >>> counts = count(frame, "similarity")
        >>> counts.line(counts.scale.position(0.8))
        'at 0.80 kept: 1 segments (50.0%), 1.5 hours (75.0%), 1 of 2 speakers gone'
    """
    found = scale(frame, measure)
    scores = _scores(frame, found.column).to_numpy()
    # Where a threshold is the least, a row is kept at the positions before `reached`; where it is the most, from there on.
    reached = np.searchsorted(np.array(found.grid), scores, side="right" if found.least else "left")
    reached[np.isnan(scores)] = len(found.grid) if found.least else 0
    speakers = frame["speaker_id"].cast(pl.String).fill_null(UNKNOWN)
    names = speakers.unique(maintain_order=True)
    codes = speakers.replace_strict(names, pl.Series(range(len(names)), dtype=pl.UInt32), return_dtype=pl.UInt32).to_numpy()
    hours = frame.select(_HOURS).to_series().to_numpy()
    ones = np.ones(len(frame))
    best = (
        pl.DataFrame({"code": pl.Series(codes, dtype=pl.UInt32), "reached": reached, "hours": hours})
        .group_by("code")
        .agg(pl.max("reached") if found.least else pl.min("reached"), pl.sum("hours"))
        .sort("hours", "code", descending=[True, False])
    )
    there = _kept(found, best["reached"].to_numpy(), ones[: len(best)])[0, :-1]
    largest = best["code"].head(MOST_SPEAKERS).to_numpy()
    place = np.full(len(names), -1)
    place[largest] = np.arange(len(largest))
    rows = place[codes]
    told = rows >= 0
    return Counts(
        scale=found,
        all_segments=len(frame),
        all_hours=float(hours.sum()),
        unscored=int(np.isnan(scores).sum()),
        segments=_kept(found, reached, ones)[0, :-1].astype(np.int64),
        hours=_kept(found, reached, hours)[0, :-1],
        vanished=len(names) - there.astype(np.int64),
        all_speakers=len(names),
        speakers=tuple(names[largest].to_list()),
        speaker_segments=_kept(found, reached[told], ones[told], rows[told], len(largest)).astype(np.uint32),
        speaker_hours=_kept(found, reached[told], hours[told], rows[told], len(largest)).astype(np.float32),
    )


def _kept(
    found: Scale, reached: NDArray[Any], weights: NDArray[np.float64], rows: NDArray[Any] | int = 0, number: int = 1
) -> NDArray[np.float64]:
    """The weight kept at each position for each of `number` rows, and all of it in the last column."""
    width = len(found.grid) + 1
    table = np.bincount(rows * width + reached, weights, number * width).reshape(number, width)
    kept = table[:, :0:-1].cumsum(axis=1)[:, ::-1] if found.least else table[:, :-1].cumsum(axis=1)
    return np.column_stack([kept, table.sum(axis=1)])


def _scores(frame: pl.DataFrame, column: str) -> pl.Series:
    """A column as floats with NaN for what is not known."""
    return frame[column].cast(pl.Float64).fill_null(float("nan"))


class Neighbours:
    """The playable segments nearest to a threshold, on both sides of it."""

    def __init__(self, frame: pl.DataFrame, scale: Scale) -> None:
        """Sort them once."""
        inside = pl.col("start_sample").is_between(0, pl.col("end_sample") - 1) & (pl.col("end_sample") <= pl.col("num_samples"))
        playable = frame.with_row_index("number").filter(inside & pl.col(scale.column).is_finite())
        ordered = playable.select("number", score=scale.column).sort("score", "number")
        self._numbers = ordered["number"].to_numpy()
        self._scores = ordered["score"].to_numpy()
        self._least = scale.least

    def around(self, value: float, n: int = 3) -> tuple[list[int], list[int]]:
        """Row numbers of those just kept and of those just out, the nearest first."""
        place = int(np.searchsorted(self._scores, value, side="left" if self._least else "right"))
        above, below = self._numbers[place : place + n].tolist(), self._numbers[max(0, place - n) : place][::-1].tolist()
        return (above, below) if self._least else (below, above)
