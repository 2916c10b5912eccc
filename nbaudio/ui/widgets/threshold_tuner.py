"""Threshold to drag over a histogram.

Segments, hours and speakers are counted once for all positions of `Scale.grid`.
"""

import re
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import traitlets
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.core.report import count
from nbaudio.review.state import verdict_log
from nbaudio.selection.parameters import MIN_SIMILARITY
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.stored_frame import StoredFrame
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import plot_style as style
from nbaudio.ui.filters import INTERNAL_COLUMNS, TableFrame
from nbaudio.ui.plot_style import Plot
from nbaudio.ui.similarity_axis import SimilarityAxis, similarity_axis
from nbaudio.ui.views import HOURS, PLAYABLE
from nbaudio.ui.widgets.base_widget import BaseWidget, Response, esm, handlers
from nbaudio.ui.widgets.column_counts import number_bins, number_text, quoted
from nbaudio.ui.widgets.segments import SegmentPlayback, load_segments
from nbaudio.ui.widgets.static_html import saved_clips

STEPS = 200  # bars of a histogram, and least number of positions
MOST_SPEAKERS = 2000  # speakers counted one by one: those with the most hours
_EXAMPLES = 3
UNKNOWN = "speaker not known"
_TAIL = 0.005
_AT_ONCE = 1 << 20  # rows that are grouped
# Similarities are dense near 1: from here on, positions are 0.001 apart.
_DENSE = 0.95
_DENSE_STEPS = 50


@dataclass(frozen=True)
class Scale:
    """Positions of a threshold on a column.

    Segments without a value are kept only if the column is similarity, as `select` does.
    """

    column: str
    label: str
    grid: tuple[float, ...]  # ascending
    least: bool  # whether the threshold is the least value kept, else it is the greatest
    edges: tuple[int, ...] = ()  # positions between bars of equal width in the histogram

    def position(self, value: float) -> int:
        """Return the position nearest to a value."""
        return int(np.abs(np.array(self.grid) - value).argmin())


@dataclass(frozen=True)
class DrawnAxis:
    """Part of a scale that is drawn.

    Attributes:
        start: position at which the axis begins; 0 is the whole scale.
        label: of this part; it says how many segments are beyond its ends.
        whole_label: of the whole scale, which is drawn once the threshold is below `start`.
    """

    start: int
    label: str
    whole_label: str


COLUMNS = {
    "similarity": "similarity",
    "wer": "word error rate",
    "duration_s": "duration in seconds",
}
# Columns of which the lower values are kept unless told otherwise.
_LOWER = re.compile(
    r"(spoken_)?[wc]er(_\w+)?|clipped_share|dc_offset|duration_s|noise_floor_dbfs|risk"
    r"|(\w+_)?silence_(s|share)"
)


def _keeps_high_values(column: str) -> bool:
    """Return whether a threshold on a column is by default the least value that is kept."""
    return _LOWER.fullmatch(column) is None


def scale(
    frame: TableFrame, column: str, value: float | None = None, *, least: bool | None = None
) -> Scale:
    """Return the scale of a column, without 0.5 % of the values at either end.

    `value` is one more position, clipped to the scale.
    """
    columns = number_columns(frame)
    if column not in columns:
        raise InputError(
            f"column {column!r} holds no numbers, or is unknown; "
            f"columns to choose are {', '.join(columns)}"
        )
    if least is None:
        least = _keeps_high_values(column)
    if column == "similarity" and not least:
        raise InputError("least=False: a threshold on similarity is the least value that is kept")
    if column == "similarity":
        edges = _similarity_edges()
        positions = [*edges, *_dense_similarities()]
    else:
        edges = _value_edges(frame[column])
        positions = list(edges)
    if value is not None:
        positions.append(min(edges[-1], max(edges[0], value)))
    grid = tuple(sorted({*positions}))
    limit = "at least" if least else "at most"
    label = f"{COLUMNS.get(column, column)}, {limit}"
    return Scale(column, label, grid, least, tuple(grid.index(edge) for edge in edges))


def _similarity_edges() -> list[float]:
    """Return the edges of bars from -1 to 1."""
    return [round(-1 + number * 2 / STEPS, 6) for number in range(STEPS + 1)]


def _dense_similarities() -> list[float]:
    """Return the positions from `_DENSE` to 1."""
    width = 1 - _DENSE
    return [round(_DENSE + number * width / _DENSE_STEPS, 6) for number in range(_DENSE_STEPS)]


def _value_edges(column: pl.Series) -> list[float]:
    """Return the edges of bars over a column, without 0.5 % of the values at either end."""
    numbers = column.cast(pl.Float64)
    finite = numbers.filter(numbers.is_finite())
    ends = [finite.quantile(share, "nearest") for share in (_TAIL, 1 - _TAIL)]
    edges: list[float] = number_bins(finite.clip(*ends), STEPS).edges.tolist()
    if edges[0] == edges[-1]:
        return [edges[0], edges[0] + max(1.0, abs(edges[0]) * 1e-3)]
    return edges


def number_columns(frame: TableFrame) -> list[str]:
    """Return the columns that a threshold can be on, with `COLUMNS` first."""
    columns = [
        name
        for name, dtype in frame.schema.items()
        if dtype.is_numeric() and name not in INTERNAL_COLUMNS
    ]
    return list(dict.fromkeys((*(name for name in COLUMNS if name in columns), *columns)))


def format_threshold(value: float) -> str:
    """Return a threshold with two decimals, or as many as it has."""
    if round(value, 2) == value:
        return f"{value:.2f}"
    return f"{value:.6f}".rstrip("0")


class ThresholdCounts:
    """Counts of what a threshold at each position of a scale keeps.

    It is segments (`unscored` have no value), hours, and speakers who have vanished.
    """

    def __init__(
        self,
        frame: TableFrame,
        column: str,
        value: float | None = None,
        *,
        least: bool | None = None,
    ) -> None:
        """Count the rows of a frame with `speaker_id`, `duration_s` and the column; see `scale`."""
        self.scale = scale(frame, column, value, least=least)
        scores = frame[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        groups = _group_rows(frame, _reached(self.scale, scores))
        best = _best_of_speakers(self.scale, groups)
        listed = _speakers_with_most_hours(best)
        of_listed = groups.join(listed, on="speaker", maintain_order="left")
        self.axis = _drawn_axis(self.scale, scores)
        self.all_segments = len(frame)
        self.unscored = int(np.isnan(scores).sum())
        self.all_hours = float(groups["hours"].to_numpy().sum())
        self.all_speakers = len(best)
        self.segments = _kept_in_all(self.scale, groups, "segments")[:-1].astype(np.int64)
        self.hours = _kept_in_all(self.scale, groups, "hours")[:-1]
        self.vanished = len(best) - _kept_in_all(self.scale, best)[:-1].astype(np.int64)
        # Those with the most hours; their arrays have a column for each position and all.
        self.speakers = tuple(listed["speaker"])
        segments = _kept_by_row(self.scale, of_listed, "segments", len(listed))
        hours = _kept_by_row(self.scale, of_listed, "hours", len(listed))
        self.speaker_segments = segments.astype(np.uint32)
        self.speaker_hours = hours.astype(np.float32)

    @property
    def bins(self) -> NDArray[np.int64]:
        """Scored segments between each position and the next; the ends include those beyond."""
        worst = 0
        best = -1
        if not self.scale.least:
            worst = -1
            best = 0
        counted = np.abs(np.diff(self.segments))
        unscored_kept = self.unscored if self.scale.column == "similarity" else 0
        unscored_out = self.unscored - unscored_kept
        counted[best] += self.segments[best] - unscored_kept
        counted[worst] += self.all_segments - self.segments[worst] - unscored_out
        return counted

    def line(self, position: int) -> str:
        """Describe what a position keeps."""
        segments = self.segments[position]
        hours = self.hours[position]
        vanished = int(self.vanished[position])
        if self.all_hours >= 2:
            time = f"{hours:,.1f} hours"
        else:
            time = f"{60 * hours:,.1f} minutes"
        speakers = ""
        if vanished:
            speakers = f", {vanished:,} of {self.all_speakers:,} speakers gone"
        without = f"; {self.without_value}" if self.without_value else ""
        return (
            f"at {format_threshold(self.scale.grid[position])} kept: "
            f"{segments:,} segments ({segments / max(1, self.all_segments):.1%}), "
            f"{time} ({hours / (self.all_hours or 1.0):.1%}){speakers}{without}"
        )

    @property
    def without_value(self) -> str:
        """What happens to segments without a value; empty if all have one."""
        if not self.unscored:
            return ""
        verb = "is" if self.unscored == 1 else "are"
        outcome = "kept" if self.scale.column == "similarity" else "not kept"
        return f"{count(self.unscored, 'segments')} without a value {verb} {outcome}"

    def _are_bins_kept(self, position: int) -> NDArray[np.bool_]:
        """Return for each bin whether a threshold at a position of the grid keeps its segments."""
        places = np.arange(len(self.bins))
        if self.scale.least:
            return places >= position
        return places < position

    def plot(self, position: int) -> Plot:
        """Draw the histogram with a line at the threshold; bars of rejected segments are hollow.

        The axis begins where the data is, or at the beginning of the scale if the threshold is
        below.
        """
        at = np.array(self.scale.grid)
        start = self.axis.start if position >= self.axis.start else 0
        edges = tuple(edge for edge in self.scale.edges if edge >= start)
        is_kept = self._are_bins_kept(position)
        kept_counts = np.add.reduceat(np.where(is_kept, self.bins, 0), edges[:-1])
        other_counts = np.add.reduceat(np.where(is_kept, 0, self.bins), edges[:-1])
        other_counts[0] += self.bins[:start].sum()
        plot = style.new_plot(2.6)
        if start == self.axis.start:
            label = self.axis.label
        else:
            label = self.axis.whole_label
        axes = style.new_axes(plot.add_subplot(), "", x=label, y="segments")
        starts = at[list(edges[:-1])]
        widths = np.diff(at[list(edges)])
        axes.bar(starts, kept_counts, widths, align="edge", **style.bar_style(style.BLUE))
        axes.bar(
            starts, other_counts, widths, kept_counts, align="edge", **style.bar_style(style.PALE)
        )
        axes.axvline(at[position], color=style.RED, linestyle="--")
        plot.alt_text = self.line(position)
        return plot


def _reached(scale: Scale, scores: NDArray[np.float64]) -> NDArray[np.int16]:
    """Return the position that the score of each row reaches; NaN is no score.

    With the least as threshold a row is kept at the positions before it, else from there on.
    """
    side: Literal["left", "right"] = "right" if scale.least else "left"
    reached = np.searchsorted(np.array(scale.grid), scores, side=side).astype(np.int16)
    are_unscored_last = (scale.column == "similarity") == scale.least
    reached[np.isnan(scores)] = len(scale.grid) if are_unscored_last else 0
    return reached


def _group_rows(frame: TableFrame, reached: NDArray[np.int16]) -> pl.DataFrame:
    """Return `segments` and `hours` of each `speaker` by the position that is `reached`.

    Rows are grouped in parts, so that a group may come several times.
    """
    rows = (
        frame["duration_s"]
        .to_frame()
        .select(speaker=_speakers(frame), hours=HOURS, reached=pl.Series(reached))
    )
    parts = (
        part.group_by("speaker", "reached", maintain_order=True)
        for part in (rows.clear(), *rows.iter_slices(_AT_ONCE))
    )
    return pl.concat([part.agg(pl.len().alias("segments"), pl.sum("hours")) for part in parts])


def _speakers(frame: TableFrame) -> pl.Series:
    """Return the speaker of each row, `UNKNOWN` where there is none."""
    name = pl.col("speaker_id").cast(pl.String).fill_null(UNKNOWN)
    return frame.select(name.cast(pl.Categorical)).to_series()


def _best_of_speakers(scale: Scale, groups: pl.DataFrame) -> pl.DataFrame:
    """Return the position that the best segment of each speaker reaches, and the hours in all."""
    best = pl.max("reached") if scale.least else pl.min("reached")
    return groups.group_by("speaker", maintain_order=True).agg(best, pl.sum("hours"))


def _speakers_with_most_hours(speakers: pl.DataFrame) -> pl.DataFrame:
    """Return `row` and `speaker` of those that are counted one by one, most hours first."""
    return (
        speakers.sort("hours", descending=True, maintain_order=True)
        .head(MOST_SPEAKERS)
        .select("speaker")
        .with_row_index("row")
    )


def _drawn_axis(scale: Scale, scores: NDArray[np.float64]) -> DrawnAxis:
    """Return the part of a scale that is drawn of scores; NaN is none."""
    values = scores[np.isfinite(scores)]
    name = scale.label.partition(",")[0]
    if scale.column == "similarity":
        axis = similarity_axis(values, threshold=MIN_SIMILARITY)
        start = int(np.abs(np.array(scale.grid) - axis.least).argmin())
        return DrawnAxis(start, axis.label(name), SimilarityAxis(-1.0).label(name))
    beyond = {
        "below": int((values < scale.grid[0]).sum()),
        "above": int((values > scale.grid[-1]).sum()),
    }
    ends = " and ".join(f"{number:,} {side}" for side, number in beyond.items() if number)
    label = f"{name}\noutermost bars: with {ends}" if ends else name
    return DrawnAxis(0, label, label)


def _kept_in_all(
    scale: Scale, groups: pl.DataFrame, weight: str | None = None
) -> NDArray[np.float64]:
    """Return how many groups, or how much weight of them, each position keeps, and the sum."""
    in_one_row = groups.with_columns(row=pl.lit(0, pl.UInt32))
    sums: NDArray[np.float64] = _kept_by_row(scale, in_one_row, weight, 1)[0]
    return sums


def _kept_by_row(
    scale: Scale, groups: pl.DataFrame, weight: str | None, num_rows: int
) -> NDArray[np.float64]:
    """Return how many groups, or how much weight of them, each position keeps, by `row`.

    The array is rows x positions, with one more column for the sum of all.
    """
    width = len(scale.grid) + 1
    cells = groups["row"].to_numpy() * width + groups["reached"].to_numpy()
    weights = None if weight is None else groups[weight].to_numpy()
    sums = np.bincount(cells, weights, num_rows * width).reshape(num_rows, width)
    if scale.least:
        kept_sums = sums[:, :0:-1].cumsum(axis=1)[:, ::-1]
    else:
        kept_sums = sums[:, :-1].cumsum(axis=1)
    return np.column_stack([kept_sums, sums.sum(axis=1)])


class Neighbors:
    """Segments nearest to a threshold on both sides: those that can be played, then others."""

    def __init__(self, frame: TableFrame) -> None:
        self._frame = frame
        self._silent = frame.select((~PLAYABLE.fill_null(value=False)).alias("silent")).to_series()

    def around(self, scale: Scale, value: float, n: int = _EXAMPLES) -> tuple[list[int], list[int]]:
        """Return the row numbers of segments just kept and just out, nearest first."""
        scores = self._frame[scale.column].cast(pl.Float64).alias("score")
        number = pl.int_range(pl.len()).alias("number")
        segments = pl.DataFrame([self._silent, scores]).lazy().with_columns(number)
        score = pl.col("score")
        is_above = score > value
        if scale.least:
            is_above = score >= value
        above = _lowest(segments.filter(score.is_finite() & is_above), n, sign=1)
        below = _lowest(segments.filter(score.is_finite() & ~is_above), n, sign=-1)
        if scale.least:
            return above, below
        return below, above


def _lowest(segments: pl.LazyFrame, n: int, *, sign: int) -> list[int]:
    """Return the `number` of segments with the lowest `score`, or with the sign -1 the highest.

    Those that can be played come first.
    """
    order = ("silent", sign * pl.col("score"), sign * pl.col("number"))
    rows = segments.bottom_k(n, by=order).sort(*order).collect(**STREAMED)
    return rows["number"].to_list()


class ThresholdTuner(BaseWidget):
    """A threshold on similarity or any other column of numbers.

    `value` is a trait that links to other widgets: ``ipywidgets.jslink((tuner, "value"), (field,
    "value"))``. `used` is the similarity that the workspace stores for `select`, None without one;
    ``?`` shows the keys.
    """

    _esm = esm("core", "player", "tuner_plot", "threshold_tuner")
    value = traitlets.Float(MIN_SIMILARITY).tag(sync=True)
    used = traitlets.Float(None, allow_none=True).tag(sync=True)
    column = traitlets.Unicode("similarity").tag(sync=True)
    least = traitlets.Bool(default_value=True).tag(sync=True)

    def __init__(
        self,
        workspace: str | Path | Workspace,
        value: float | None = None,
        *,
        column: str = "similarity",
        least: bool | None = None,
    ) -> None:
        """Count what every position keeps.

        Args:
            workspace: a workspace.
            value: initial threshold; unless given the stored similarity or 0.8, of other columns
                what keeps 95 %.
            column: `similarity` or another column of numbers of the segments table, or
                `duration_s`.
            least: whether the threshold is the least value kept; else the greatest, as by default
                for error rates, durations, noise, clipping, silence and risk.

        Raises:
            InputError: there is no such column.
        """
        self._segments = load_segments(workspace, stored=True)
        self._counts: dict[tuple[str, bool], ThresholdCounts] = {}
        self._neighbors = Neighbors(self._segments.rows)
        scale = self._counted(column, least=least).scale
        used = self._segments.workspace.threshold
        if value is None and column == "similarity":
            value = used
        if value is None:
            value = self._start(self._counted(column, least=least))
        value = min(scale.grid[-1], max(scale.grid[0], float(value)))
        calls = handlers(self, "tuner", "open", "examples", "evidence", "use")
        calls |= SegmentPlayback(self._segments, "me").calls
        super().__init__(calls, value=value, used=used, column=column, least=scale.least)

    @property
    def where(self) -> str:
        """The condition of the threshold, such as ``snr_db >= 10``.

        It is for ``select(workspace, where=...)``. Segments without a value do not meet it; add
        ``or snr_db is null`` to keep them.
        """
        operator = ">=" if self.least else "<="
        return f"{quoted(self.column)} {operator} {number_text(self.value)}"

    def use(self) -> None:
        """Store `value` in the workspace, as the button does.

        `select` uses the stored value unless it is given ``min_similarity``.

        Raises:
            InputError: the threshold is not on similarity.
        """
        if self.column != "similarity":
            raise InputError(
                "only a similarity can be stored; this threshold is select(workspace, "
                f"where={self.where!r})"
            )
        self._use(value=self.value)

    def _use(self, *, value: float) -> None:
        self._segments.workspace.choose_threshold(value)
        self.used = value

    @staticmethod
    def _start(counts: ThresholdCounts) -> float:
        """Return the first position.

        It is 0.8 for similarity, else the one that keeps about 95 % of the segments with a value.
        """
        if counts.scale.column == "similarity":
            return MIN_SIMILARITY
        wanted = 0.95 * (counts.all_segments - counts.unscored)
        return counts.scale.grid[int(np.abs(counts.segments - wanted).argmin())]

    def _counted(
        self, column: str, value: float | None = None, *, least: bool | None = None
    ) -> ThresholdCounts:
        """Return counts that have `value` as a position.

        Only the counts of the latest value are cached.
        """
        if least is None:
            least = _keeps_high_values(column)
        counts = self._counts.get((column, least))
        if counts is None or not (
            value is None or counts.scale.grid[counts.scale.position(value)] == value
        ):
            counts = ThresholdCounts(self._segments.rows, column, value, least=least)
            self._counts[column, least] = counts
        return counts

    def _open(
        self, *, column: str, value: float | None = None, least: bool | None = None
    ) -> Response:
        """Return a scale with what each position keeps, in all and of speakers."""
        counts = self._counted(column, value, least=least)
        facts: dict[str, Any] = {
            "columns": number_columns(self._segments.rows),
            "common": list(COLUMNS),
            "start": self._start(counts),
            "quoted": quoted(column),
            "axis": asdict(counts.axis),
            "label": counts.scale.label,
            "least": counts.scale.least,
            "grid": counts.scale.grid,
            "edges": counts.scale.edges,
            "all_segments": counts.all_segments,
            "all_hours": counts.all_hours,
            "all_speakers": counts.all_speakers,
            "speakers": counts.speakers,
            "without_value": counts.without_value,
            "bins": counts.bins.tolist(),
            "segments": counts.segments.tolist(),
            "hours": counts.hours.tolist(),
            "vanished": counts.vanished.tolist(),
        }
        return Response(
            facts, [counts.speaker_segments.tobytes(), counts.speaker_hours.tobytes()], []
        )

    def _examples(
        self, *, column: str, value: float, least: bool = True
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the segments just kept and just out."""
        kept_rows, other_rows = self._neighbors.around(
            self._counted(column, least=least).scale, value
        )
        return {
            "kept": [self._example(number, column) for number in kept_rows],
            "out": [self._example(number, column) for number in other_rows],
        }

    def _example(self, number: int, column: str) -> dict[str, Any]:
        """Return id, score and the beginning of the text of a segment."""
        row = self._segments.row(number)
        return {
            "number": number,
            "segment_id": row["segment_id"],
            "score": row[column],
            "text": (row["text"] or "")[:200],
        }

    def _evidence(
        self, *, column: str, value: float | None = None, least: bool | None = None
    ) -> dict[str, list[Any]] | None:
        """Return the proven precision at every position as lists; None without verdicts."""
        workspace = self._segments.workspace
        if not len(verdict_log(workspace)):
            return None
        from nbaudio.proof.claims import curve

        scale = self._counted(column, value, least=least).scale
        if isinstance(self._segments.rows, StoredFrame):
            self._segments.rows.release()
        sign = 1 if scale.least else -1
        thresholds = [sign * position for position in scale.grid]
        claims = curve(workspace, thresholds, column=column, sign=sign)
        return claims.select("reviewed", "precision", "low", "high")[::sign].to_dict(
            as_series=False
        )

    def static_html(self) -> str:
        """Return the histogram at the current value, and clips on both sides of it."""
        counts = self._counted(self.column, self.value, least=self.least)
        position = counts.scale.position(self.value)
        sides = self._neighbors.around(counts.scale, self.value)
        clips = [saved_clips(self._segments, numbers)._repr_html_() for numbers in sides]
        proof = self._evidence(column=self.column, value=self.value, least=self.least)
        verified = f"<p>{describe_precision(proof, position)}</p>" if proof else ""
        used = ""
        if self.column != "similarity":
            used = (
                "<p>to apply it: <code>select(workspace, "
                f"where={escape(repr(self.where))})</code></p>"
            )
        elif self.used is not None:
            used = (
                f"<p>select uses similarity {format_threshold(self.used)} unless another is "
                "given</p>"
            )
        return (
            f"{counts.plot(position).img()}<p>{escape(counts.scale.label)}: "
            f"{counts.line(position)}</p>{verified}{used}"
            f"<p>just kept:</p>{clips[0]}<p>just out:</p>{clips[1]}"
        )


def describe_precision(proof: dict[str, list[Any]], position: int) -> str:
    """Describe the proven precision at a position."""
    precision = proof["precision"][position]
    if precision is None:
        return "verified precision: none of it was reviewed"
    interval = f"{proof['low'][position]:.1%} to {proof['high'][position]:.1%}"
    reviewed = proof["reviewed"][position]
    return f"verified precision {precision:.1%} ({interval}), {reviewed:,} reviewed"
