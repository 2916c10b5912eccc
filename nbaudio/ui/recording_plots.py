"""Plots of recordings: bars of a few, histograms of many."""

import textwrap
from dataclasses import dataclass
from itertools import islice

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from nbaudio.core.report import count, duration
from nbaudio.ui import plot_style as style
from nbaudio.ui.histogram_bins import are_equal
from nbaudio.ui.plot_style import Plot

_NO_AUDIO = (
    "There is no audio in this workspace: the lengths of the recordings are not known, only how "
    "much speech their transcripts hold.",
    "'nbaudio ingest FORMAT SOURCE --audio DIR --out W' finds and probes the recordings.",
)
_BINS = 40
_SHARE_EDGES = np.linspace(0, 1, 21)
_MOST_KINDS = 4  # kinds of rate and channels in the legend; all others are one kind
_MOST_NAMED = 6
_LINE_WIDTH = 140  # characters of the small font


@dataclass(frozen=True)
class RecordingLengths:
    """Lengths of the recordings of a workspace.

    `table` is that of `views.recordings`, whose lengths are in seconds.
    """

    table: pl.DataFrame

    @property
    def audible(self) -> pl.DataFrame:
        """Recordings with audio."""
        return self.table.drop_nulls("duration_s")

    @property
    def without_audio(self) -> int:
        """How many recordings have no audio."""
        return self.table["duration_s"].null_count()

    @property
    def truncated(self) -> pl.DataFrame:
        """Recordings that end before their last segment, those with most such segments first."""
        early = self.table.filter(pl.col("past_the_end") > 0)
        return early.sort("past_the_end", "recording_id", descending=[True, False])

    def title(self) -> str:
        """Return how many recordings there are, and how many of them have no audio."""
        number = count(len(self.table), "recordings")
        if not self.without_audio:
            return number
        if self.audible.is_empty():
            return f"{number}, none with audio"
        return f"{number}, {self.without_audio:,} without audio"

    def transcribed(self) -> str:
        """Return how much of the audio is transcribed."""
        length = float(self.audible["duration_s"].sum())
        spoken = float(self.audible["transcribed_s"].sum())
        share = f" ({100 * spoken / length:.0f} %)" if length else ""
        return f"{duration(spoken)} of {duration(length)}{share}"

    def truncated_text(self) -> str:
        """Return a line that names recordings which end early; empty if there are none."""
        early = self.truncated
        if early.is_empty():
            return ""
        names = [
            f"{name} ({count(number, 'segments')})"
            for name, number in islice(
                early.select("recording_id", "past_the_end").iter_rows(), _MOST_NAMED
            )
        ]
        more = len(early) - len(names)
        rest = f" and {more:,} more" if more else ""
        truncated = count(len(early), "recordings", "are")
        return f"{truncated} truncated; segments past the end: {', '.join(names)}{rest}."


def plot_bars(table: pl.DataFrame) -> Plot:
    """Return bars of the length of each recording and of its transcribed part."""
    recordings = RecordingLengths(table)
    has_audio = not recordings.audible.is_empty()
    plot = style.new_plot(1.6 + 0.42 * len(table))
    spoken = table["transcribed_s"].to_numpy()
    longest = np.maximum(table["duration_s"].fill_null(0.0).to_numpy(), spoken)
    scale, unit = style.time_unit(longest.max(initial=0.0))
    length = "length" if has_audio else "transcribed"
    axes = style.new_axes(plot.add_subplot(), recordings.title(), x=f"{length} [{unit}]")
    if has_audio:
        _draw_whole(axes, table, longest, scale)
    else:
        _say_no_audio(plot)
    hatched = style.bar_style(style.BLUE, "///")
    rows = np.arange(len(table))
    axes.barh(rows, spoken / scale, height=0.36, **hatched, label="transcribed")
    _show_lengths(plot, axes, table)
    style.name_rows(axes, table["recording_id"].to_list())
    axes.set_xlim(0, _room_for_notes(recordings) * longest.max(initial=1e-9) / scale)
    if has_audio:
        style.add_legend(plot)
    plot.alt_text = _summary(recordings, "Bars")
    return plot


def _draw_whole(
    axes: Axes, table: pl.DataFrame, longest: NDArray[np.float64], scale: float
) -> None:
    """Draw the lengths of recordings, with notes after the longest bar of each, in seconds."""
    lengths = table["duration_s"].fill_null(0.0).to_numpy()
    whole = style.bar_style(style.PALE)
    axes.barh(np.arange(len(table)), lengths / scale, 0.72, **whole, label="whole recording")
    _note_rows(axes, table, longest / scale)


def _show_lengths(plot: Plot, axes: Axes, table: pl.DataFrame) -> None:
    """Show length and transcribed part of each recording on hover."""
    lengths = table.select("recording_id", "duration_s", "transcribed_s")
    for row, (name, seconds, spoken) in enumerate(lengths.iter_rows()):
        length = "no audio" if seconds is None else duration(seconds)
        text = f"{name}\n{length}, transcribed: {duration(spoken)}"
        plot.show_on_hover(axes, text, y=(row - 0.5, row + 0.5))


def _room_for_notes(recordings: RecordingLengths) -> float:
    """Return the width of an axis of bars with notes, in lengths of the longest bar."""
    if recordings.audible.is_empty():
        return 1.05
    if recordings.truncated.is_empty():
        return 1.35
    return 1.65


def _note_rows(axes: Axes, table: pl.DataFrame, ends: NDArray[np.float64]) -> None:
    """Write codec, rate and channels after each bar, and in bold what is wrong with it."""
    facts = table.select("codec", "sampling_rate", "num_channels", "past_the_end")
    for row, (codec, rate, channels, past_the_end) in enumerate(facts.iter_rows()):
        note = "no audio" if rate is None else f"{codec}, {_kind(rate, channels)}"
        if past_the_end:
            note = f"{note}; truncated, {count(past_the_end, 'segments')} past the end"
        weight = "bold" if rate is None or past_the_end else "normal"
        axes.annotate(
            note,
            (ends[row], row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=style.SMALL,
            fontweight=weight,
            parse_math=False,
        )


def plot_histograms(table: pl.DataFrame) -> Plot:
    """Return histograms of the lengths of many recordings and of their transcribed shares."""
    recordings = RecordingLengths(table)
    if recordings.audible.is_empty():
        return _plot_transcribed(recordings)
    truncated = textwrap.wrap(recordings.truncated_text(), _LINE_WIDTH)
    plot = style.new_plot(3.6 + 0.18 * len(truncated))
    left, right = plot.subplots(1, 2)
    _draw_lengths(left, recordings)
    _draw_shares(right, recordings)
    if truncated:
        lines = "\n".join(truncated)
        plot.supxlabel(lines, x=0.01, ha="left", fontsize=style.SMALL, parse_math=False)
    plot.alt_text = _summary(recordings, "Histograms of lengths and transcribed shares")
    return plot


def _plot_transcribed(recordings: RecordingLengths) -> Plot:
    """Return a histogram of how much of each recording is transcribed, where none has audio."""
    plot = style.new_plot(3.9)
    _say_no_audio(plot)
    spoken = recordings.table["transcribed_s"].to_numpy()
    scale, unit = style.time_unit(spoken.max(initial=0.0))
    axes = style.new_axes(
        plot.add_subplot(),
        recordings.title(),
        x=f"transcribed part of a recording [{unit}]",
        y="recordings",
    )
    style.draw_histogram(axes, [spoken / scale], bins=_BINS)
    plot.alt_text = _summary(recordings, "Histogram of transcribed lengths")
    return plot


def _say_no_audio(plot: Plot) -> None:
    lines = "\n".join(_NO_AUDIO)
    plot.suptitle(lines, x=0.01, ha="left", fontsize=style.SMALL, parse_math=False)


def _draw_lengths(axes: Axes, recordings: RecordingLengths) -> None:
    """Draw the lengths of recordings by sampling rate and channels."""
    lengths = recordings.audible["duration_s"].to_numpy()
    if are_equal(float(lengths.min()), float(lengths.max())):
        kinds = "; ".join(_by_kind(recordings.audible))
        sentence = (
            f"All {len(lengths):,} recordings are {duration(float(lengths[0]))} long: {kinds}."
        )
        style.write_sentence(axes, recordings.title(), sentence)
        return
    scale, unit = style.time_unit(lengths.max())
    style.new_axes(axes, recordings.title(), x=f"length [{unit}]", y="recordings")
    of_kinds = _by_kind(recordings.audible)
    values = [of_kind / scale for of_kind in of_kinds.values()]
    style.draw_histogram(axes, values, bins=_BINS, labels=list(of_kinds))
    axes.legend(frameon=False, fontsize=style.SMALL)


def _draw_shares(axes: Axes, recordings: RecordingLengths) -> None:
    """Draw how much of each recording is transcribed, those that are truncated apart."""
    share = pl.col("transcribed_s") / pl.col("duration_s")
    shares = recordings.audible.with_columns(share=share).filter(pl.col("share").is_finite())
    whole = shares.filter(pl.col("past_the_end") == 0)["share"].to_numpy()
    truncated = shares.filter(pl.col("past_the_end") > 0)["share"].to_numpy()
    more = int((shares["share"] > 1).sum())
    label = "transcribed share of a recording"
    if more:
        label = f"{label}\nlast bar: with {more:,} above 100 %"
    style.new_axes(axes, f"Transcribed: {recordings.transcribed()}", x=label, y="recordings")
    style.draw_histogram(
        axes,
        [whole, truncated],
        bins=_SHARE_EDGES,
        styles=((style.BLUE, ""), (style.RED, "xx")),
        labels=(f"whole: {len(whole):,}", f"truncated: {len(truncated):,}"),
        hold_tails=True,
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    if len(truncated):
        axes.legend(frameon=False, fontsize=style.SMALL)


def _by_kind(audible: pl.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return the lengths of recordings by sampling rate and channels, most frequent kinds first."""
    kinds = audible.group_by("sampling_rate", "num_channels").agg("duration_s")
    number = pl.col("duration_s").list.len()
    kinds = kinds.sort(number, "sampling_rate", "num_channels", descending=True)
    lengths = {
        f"{_kind(rate, channels)}: {len(seconds):,}": np.asarray(seconds)
        for rate, channels, seconds in kinds.head(_MOST_KINDS).iter_rows()
    }
    others = kinds.tail(-_MOST_KINDS)["duration_s"].explode().to_numpy()
    if len(others):
        lengths[f"other rates or channels: {len(others):,}"] = others
    return lengths


def _summary(recordings: RecordingLengths, kind: str) -> str:
    """Return the text of a plot for those who do not see it."""
    table = recordings.table
    if recordings.audible.is_empty():
        spoken = duration(float(table["transcribed_s"].sum()))
        return f"{kind}: {recordings.title()}, transcribed: {spoken}. {' '.join(_NO_AUDIO)}"
    kinds = "; ".join(_by_kind(recordings.audible))
    parts = [
        f"{kind}: {recordings.title()}, transcribed: {recordings.transcribed()}",
        kinds,
        recordings.truncated_text().rstrip("."),
    ]
    return ". ".join(part for part in parts if part)


def _kind(rate: int, channels: int) -> str:
    """Return rate and channels in words, such as ``16 kHz, mono``."""
    names = {1: "mono", 2: "stereo"}
    return f"{rate / 1000:g} kHz, {names.get(channels, f'{channels} channels')}"
