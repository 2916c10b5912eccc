"""Threshold to drag over a histogram.

Segments, hours and speakers are counted once for all positions of `Scale.grid`.
"""

import re
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

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
MOST_SPEAKERS = 2000  # counted one by one: those with the most hours
_EXAMPLES = 3
UNKNOWN = "speaker not known"
_TAIL = 0.005
# Similarities are dense near 1: from here on, positions are 0.001 apart.
_DENSE, _DENSE_STEPS = 0.95, 50


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
    r"(spoken_)?[wc]er(_\w+)?|clipped_share|dc_offset|duration_s|noise_floor_dbfs|risk|(\w+_)?silence_(s|share)"
)


def scale(
    frame: TableFrame, column: str, value: float | None = None, *, least: bool | None = None
) -> Scale:
    """Return the scale of a column, without 0.5 % of the values at either end.

    `value` is one more position, clipped to the scale.
    """
    if column not in (known := number_columns(frame)):
        raise InputError(
            f"column {column!r} holds no numbers, or is unknown; "
            f"columns to choose are {', '.join(known)}"
        )
    least = _LOWER.fullmatch(column) is None if least is None else least
    if column == "similarity":
        if not least:
            raise InputError(
                "least=False: a threshold on similarity is the least value that is kept"
            )
        edges = [round(-1 + i * 2 / STEPS, 6) for i in range(STEPS + 1)]
        dense = [round(_DENSE + i * (1 - _DENSE) / _DENSE_STEPS, 6) for i in range(_DENSE_STEPS)]
    else:
        finite = frame[column].cast(pl.Float64)
        finite = finite.filter(finite.is_finite())
        ends = [finite.quantile(share, "nearest") for share in (_TAIL, 1 - _TAIL)]
        edges = number_bins(finite.clip(*ends), STEPS).edges.tolist()
        dense = []
        if edges[0] == edges[-1]:
            edges = [edges[0], edges[0] + max(1.0, abs(edges[0]) * 1e-3)]
    own = [] if value is None else [min(edges[-1], max(edges[0], value))]
    grid = tuple(sorted({*edges, *dense, *own}))
    label = f"{COLUMNS.get(column, column)}, at {'least' if least else 'most'}"
    return Scale(column, label, grid, least, tuple(grid.index(edge) for edge in edges))


def number_columns(frame: TableFrame) -> list[str]:
    """Return the columns that a threshold can be on, with `COLUMNS` first."""
    held = [
        name
        for name, dtype in frame.schema.items()
        if dtype.is_numeric() and name not in INTERNAL_COLUMNS
    ]
    return list(dict.fromkeys((*(name for name in COLUMNS if name in held), *held)))


def format_threshold(value: float) -> str:
    """Return a threshold with two decimals, or as many as it has."""
    return f"{value:.2f}" if round(value, 2) == value else f"{value:.6f}".rstrip("0")


class ThresholdCounts:
    """What each position of a scale keeps.

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
        self.scale = found = scale(frame, column, value, least=least)
        scores = frame[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        # With the least as threshold a row is kept at the positions before `reached`, else from
        # there on.
        reached = np.searchsorted(
            np.array(found.grid), scores, side="right" if found.least else "left"
        ).astype(np.int16)
        reached[np.isnan(scores)] = (
            len(found.grid) if (column == "similarity") == found.least else 0
        )
        rows = (
            frame["duration_s"]
            .to_frame()
            .select(speaker=_speakers(frame), hours=HOURS, reached=pl.Series(reached))
        )
        parts = (
            part.group_by("speaker", "reached", maintain_order=True)
            for part in (rows.clear(), *rows.iter_slices(1 << 20))
        )
        table = pl.concat([part.agg(pl.len().alias("segments"), pl.sum("hours")) for part in parts])
        by_speaker = table.group_by("speaker", maintain_order=True)
        best = by_speaker.agg(
            pl.max("reached") if found.least else pl.min("reached"), pl.sum("hours")
        )
        most = (
            best.sort("hours", descending=True, maintain_order=True)
            .head(MOST_SPEAKERS)
            .select("speaker")
            .with_row_index("row")
        )
        listed = table.join(most, on="speaker", maintain_order="left")
        places: dict[str, Any] = {"rows": listed["row"].to_numpy(), "number": len(most)}
        self.axis = _drawn_axis(found, scores)
        self.all_segments = len(frame)
        self.unscored = int(np.isnan(scores).sum())
        self.all_hours = float(table["hours"].to_numpy().sum())
        self.all_speakers = len(best)
        self.segments = _kept(found, table, "segments")[0, :-1].astype(np.int64)
        self.hours = _kept(found, table, "hours")[0, :-1]
        self.vanished = len(best) - _kept(found, best)[0, :-1].astype(np.int64)
        # Those with the most hours; their arrays have a column for each position and all.
        self.speakers = tuple(most["speaker"])
        self.speaker_segments = _kept(found, listed, "segments", **places).astype(np.uint32)
        self.speaker_hours = _kept(found, listed, "hours", **places).astype(np.float32)

    @property
    def bins(self) -> NDArray[np.int64]:
        """Scored segments between each position and the next; the ends include those beyond."""
        best, worst = (-1, 0) if self.scale.least else (0, -1)
        counted = np.abs(np.diff(self.segments))
        kept = self.unscored if self.scale.column == "similarity" else 0
        counted[best] += self.segments[best] - kept
        counted[worst] += self.all_segments - self.segments[worst] - (self.unscored - kept)
        return counted

    def line(self, position: int) -> str:
        """Describe what a position keeps."""
        segments = self.segments[position]
        hours = self.hours[position]
        vanished = int(self.vanished[position])
        time = f"{hours:,.1f} hours" if self.all_hours >= 2 else f"{60 * hours:,.1f} minutes"
        gone = f", {vanished:,} of {self.all_speakers:,} speakers gone" if vanished else ""
        without = f"; {self.without_value}" if self.without_value else ""
        return (
            f"at {format_threshold(self.scale.grid[position])} kept: "
            f"{segments:,} segments ({segments / max(1, self.all_segments):.1%}), "
            f"{time} ({hours / (self.all_hours or 1.0):.1%}){gone}{without}"
        )

    @property
    def without_value(self) -> str:
        """What happens to segments without a value; empty if all have one."""
        if not self.unscored:
            return ""
        is_kept = self.scale.column == "similarity"
        verb = "is" if self.unscored == 1 else "are"
        outcome = "kept" if is_kept else "not kept"
        return f"{count(self.unscored, 'segments')} without a value {verb} {outcome}"

    def plot(self, position: int) -> Plot:
        """Draw the histogram with a line at the threshold; bars of rejected segments are hollow.

        The axis begins where the data is, or at the beginning of the scale if the threshold is
        below.
        """
        at = np.array(self.scale.grid)
        start = self.axis.start if position >= self.axis.start else 0
        edges = tuple(edge for edge in self.scale.edges if edge >= start)
        bins = self.bins
        inside = (
            np.arange(len(bins)) >= position
            if self.scale.least
            else np.arange(len(bins)) < position
        )
        kept, out = (
            np.add.reduceat(np.where(which, bins, 0), edges[:-1]) for which in (inside, ~inside)
        )
        out[0] += bins[:start].sum()
        plot = style.new_plot(2.6)
        label = self.axis.label if start == self.axis.start else self.axis.whole_label
        axes = style.new_axes(plot.add_subplot(), "", x=label, y="segments")
        starts = at[list(edges[:-1])]
        widths = np.diff(at[list(edges)])
        axes.bar(starts, kept, widths, align="edge", **style.bar_style(style.BLUE))
        axes.bar(starts, out, widths, kept, align="edge", **style.bar_style(style.PALE))
        axes.axvline(at[position], color=style.RED, linestyle="--")
        plot.alt_text = self.line(position)
        return plot


def _speakers(frame: TableFrame) -> pl.Series:
    """Return the speaker of each row, `UNKNOWN` where there is none."""
    name = pl.col("speaker_id").cast(pl.String).fill_null(UNKNOWN)
    return frame.select(name.cast(pl.Categorical)).to_series()


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


def _kept(
    found: Scale,
    table: pl.DataFrame,
    weight: str | None = None,
    *,
    rows: NDArray[Any] | int = 0,
    number: int = 1,
) -> NDArray[np.float64]:
    """Return the count or weight that each position keeps, for each of `number` rows.

    The last column is the sum of all.
    """
    width = len(found.grid) + 1
    weights = None if weight is None else table[weight].to_numpy()
    sums = np.bincount(rows * width + table["reached"].to_numpy(), weights, number * width).reshape(
        number, width
    )
    kept = sums[:, :0:-1].cumsum(axis=1)[:, ::-1] if found.least else sums[:, :-1].cumsum(axis=1)
    return np.column_stack([kept, sums.sum(axis=1)])


class Neighbors:
    """Segments nearest to a threshold on both sides: those that can be played, then others."""

    def __init__(self, frame: TableFrame) -> None:
        self._frame = frame
        self._silent = frame.select((~PLAYABLE.fill_null(value=False)).alias("silent")).to_series()

    def around(self, scale: Scale, value: float, n: int = _EXAMPLES) -> tuple[list[int], list[int]]:
        """Return the row numbers of segments just kept and just out, nearest first."""
        held = pl.DataFrame(
            [self._silent, self._frame[scale.column].cast(pl.Float64).alias("score")]
        )
        score = pl.col("score")
        number = pl.int_range(pl.len()).alias("number")
        is_above = score >= value if scale.least else score > value

        def nearest(sign: int, side: pl.Expr) -> list[int]:
            order = ("silent", sign * score, sign * pl.col("number"))
            rows = held.lazy().with_columns(number).filter(score.is_finite() & side)
            return rows.bottom_k(n, by=order).sort(*order).collect(**STREAMED)["number"].to_list()

        above = nearest(1, is_above)
        below = nearest(-1, ~is_above)
        return (above, below) if scale.least else (below, above)


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
        found = self._counted(column, least=least)
        used = self._segments.workspace.threshold
        start = next(
            each
            for each in (value, used if column == "similarity" else None, self._start(found))
            if each is not None
        )
        value = min(found.scale.grid[-1], max(found.scale.grid[0], float(start)))
        calls = handlers(self, "tuner", "open", "examples", "evidence", "use")
        calls |= SegmentPlayback(self._segments, "me").calls
        super().__init__(calls, value=value, used=used, column=column, least=found.scale.least)

    @property
    def where(self) -> str:
        """The condition of the threshold, such as ``snr_db >= 10``.

        It is for ``select(workspace, where=...)``. Segments without a value do not meet it; add
        ``or snr_db is null`` to keep them.
        """
        return f"{quoted(self.column)} {'>=' if self.least else '<='} {number_text(self.value)}"

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
        least = _LOWER.fullmatch(column) is None if least is None else least
        held = self._counts.get((column, least))
        if held is None or not (
            value is None or held.scale.grid[held.scale.position(value)] == value
        ):
            held = self._counts[column, least] = ThresholdCounts(
                self._segments.rows, column, value, least=least
            )
        return held

    def _open(
        self, *, column: str, value: float | None = None, least: bool | None = None
    ) -> Response:
        counts = self._counted(column, value, least=least)
        facts: dict[str, Any] = {
            "columns": number_columns(self._segments.rows),
            "common": list(COLUMNS),
        }
        facts |= {"start": self._start(counts), "quoted": quoted(column)}
        facts["axis"] = asdict(counts.axis)
        facts |= {name: getattr(counts.scale, name) for name in ("label", "least", "grid", "edges")}
        facts |= {
            name: getattr(counts, name)
            for name in ("all_segments", "all_hours", "all_speakers", "speakers", "without_value")
        }
        facts |= {
            name: getattr(counts, name).tolist()
            for name in ("bins", "segments", "hours", "vanished")
        }
        return Response(
            facts, [counts.speaker_segments.tobytes(), counts.speaker_hours.tobytes()], []
        )

    def _examples(
        self, *, column: str, value: float, least: bool = True
    ) -> dict[str, list[dict[str, Any]]]:
        kept, out = self._neighbors.around(self._counted(column, least=least).scale, value)

        def shown(number: int) -> dict[str, Any]:
            row = self._segments.row(number)
            return {
                "number": number,
                "segment_id": row["segment_id"],
                "score": row[column],
                "text": (row["text"] or "")[:200],
            }

        return {"kept": [*map(shown, kept)], "out": [*map(shown, out)]}

    def _evidence(
        self, *, column: str, value: float | None = None, least: bool | None = None
    ) -> dict[str, list[Any]] | None:
        """Return the proven precision at every position as lists; None without verdicts."""
        workspace = self._segments.workspace
        if not len(verdict_log(workspace)):
            return None
        from nbaudio.proof.claims import curve

        found = self._counted(column, value, least=least).scale
        if isinstance(self._segments.rows, StoredFrame):
            self._segments.rows.release()
        sign = 1 if found.least else -1
        claims = curve(workspace, [sign * each for each in found.grid], column=column, sign=sign)
        return claims.select("reviewed", "precision", "low", "high")[::sign].to_dict(
            as_series=False
        )

    def static_html(self) -> str:
        """Return the histogram at the current value, and clips on both sides of it."""
        chosen: dict[str, Any] = {"column": self.column, "value": self.value, "least": self.least}
        counts = self._counted(**chosen)
        position = counts.scale.position(self.value)
        sides = self._neighbors.around(counts.scale, self.value)
        clips = [saved_clips(self._segments, numbers)._repr_html_() for numbers in sides]
        proof = self._evidence(**chosen)
        verified = f"<p>{describe_precision(proof, position)}</p>" if proof else ""
        used = (
            ""
            if self.used is None
            else (
                f"<p>select uses similarity {format_threshold(self.used)} unless another is "
                "given</p>"
            )
        )
        if self.column != "similarity":
            used = (
                "<p>to apply it: <code>select(workspace, "
                f"where={escape(repr(self.where))})</code></p>"
            )
        return (
            f"{counts.plot(position).img()}<p>{escape(counts.scale.label)}: "
            f"{counts.line(position)}</p>{verified}{used}"
            f"<p>just kept:</p>{clips[0]}<p>just out:</p>{clips[1]}"
        )


def describe_precision(proof: dict[str, list[Any]], position: int) -> str:
    """Describe the proven precision at a position."""
    reviewed, precision, low, high = (
        proof[name][position] for name in ("reviewed", "precision", "low", "high")
    )
    if precision is None:
        return "verified precision: none of it was reviewed"
    return f"verified precision {precision:.1%} ({low:.1%} to {high:.1%}), {reviewed:,} reviewed"
