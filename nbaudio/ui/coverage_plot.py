"""Plot what of each recording its segments cover, and what was heard besides."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes

from nbaudio.core.report import count, duration
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import plot_style as style
from nbaudio.ui import views
from nbaudio.ui.plot_style import Plot

_MOST_RECORDINGS = 24
_PLACE = pl.col("source_start").cast(pl.Float64, strict=False)
_LENGTH = pl.col("source_end").cast(pl.Float64, strict=False) - _PLACE
# Of a workspace that `align` has not made.
_NO_UNMATCHED = pl.Schema(
    {"recording_id": pl.String(), "kind": pl.String()}
    | dict.fromkeys(("source_start", "source_end"), pl.Float64())
)

Spans = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class RecordingCoverage:
    """What is where in a recording; spans are starts and lengths in seconds.

    Attributes:
        name: of the recording.
        length: in seconds.
        segments: spans of the segments.
        not_in_segments: spans that were heard and are in no segment.
    """

    name: str
    length: float
    segments: Spans
    not_in_segments: Spans

    @property
    def covered(self) -> float:
        """Seconds in segments."""
        return sum(length for _, length in self.segments)


def plot_coverage(workspace: Workspace) -> Plot:
    """Return a bar for each recording with its segments, those that are least covered first."""
    recordings = _recordings(workspace)
    recordings.sort(key=lambda recording: recording.covered / max(recording.length, 1e-9))
    shown = recordings[:_MOST_RECORDINGS]
    plot = style.new_plot(1.6 + 0.42 * len(shown))
    scale, unit = style.time_unit(max((recording.length for recording in shown), default=0.0))
    covered = sum(recording.covered for recording in recordings)
    length = sum(recording.length for recording in recordings)
    title = f"in segments: {duration(covered)} of {duration(length)}"
    if len(shown) < len(recordings):
        title += f"; the {len(shown)} of {len(recordings):,} recordings that are least covered"
    axes = style.new_axes(plot.add_subplot(), title, x=f"time in the recording [{unit}]")
    for row, recording in enumerate(shown):
        _draw(axes, row, recording, scale)
        plot.show_on_hover(axes, _summary(recording), y=(row - 0.5, row + 0.5))
    style.name_rows(axes, [recording.name for recording in shown])
    if shown:
        style.add_legend(plot)
    plot.alt_text = f"Bars: {title}. {'. '.join(map(_summary, shown))}"
    return plot


def _recordings(workspace: Workspace) -> list[RecordingCoverage]:
    """Return the coverage of each recording; without audio, it ends with its last segment."""
    lengths = views.recordings(workspace).select("recording_id", "duration_s").rows()
    segments = _spans(workspace.segments)
    heard = _spans(workspace.table("unmatched", _NO_UNMATCHED).filter(kind="audio"))
    return [
        RecordingCoverage(
            name,
            length or max((start + span for start, span in segments.get(name, [])), default=0.0),
            segments.get(name, []),
            heard.get(name, []),
        )
        for name, length in lengths
    ]


def _spans(rows: pl.DataFrame) -> dict[str, list[tuple[float, float]]]:
    """Return start and length in seconds of rows, by recording."""
    spans: dict[str, list[tuple[float, float]]] = {}
    placed = rows.select("recording_id", _PLACE, length=_LENGTH).drop_nulls()
    for name, start, length in placed.sort("recording_id", "source_start").iter_rows():
        spans.setdefault(name, []).append((start, length))
    return spans


def _draw(axes: Axes, row: int, recording: RecordingCoverage, scale: float) -> None:
    """Draw the bar of a recording; only the first row has labels for the legend."""
    for spans, height, color, hatch, label in (
        ([(0.0, recording.length)], 0.72, style.PALE, "", "whole recording"),
        (recording.segments, 0.36, style.BLUE, "///", "in segments"),
        (recording.not_in_segments, 0.36, style.ORANGE, "..", "heard, in no segment"),
    ):
        scaled = [(start / scale, length / scale) for start, length in spans]
        place = (row - height / 2, height)
        bars = axes.broken_barh(scaled, place, **style.bar_style(color, hatch))
        if row == 0:
            bars.set_label(label)


def _summary(recording: RecordingCoverage) -> str:
    """Return in words what of a recording is in segments."""
    parts = count(len(recording.not_in_segments), "parts")
    covered = f"{duration(recording.covered)} of {duration(recording.length)} in segments"
    return f"{recording.name}: {covered}, {parts} heard and in none"
