"""Plots of each step.

Axes have units, hatches or words repeat what colors show, and names are drawn as they are, never as
TeX.
"""

from collections.abc import Iterable
from itertools import cycle, pairwise
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, MultipleLocator
from numpy.typing import NDArray

from nbaudio.core.dataframes import Frame, as_polars
from nbaudio.core.errors import InputError
from nbaudio.core.report import duration
from nbaudio.core.source_splits import ordered_splits
from nbaudio.core.tables import SPLITS
from nbaudio.proof.claims import curve as precision_curve
from nbaudio.proof.claims import min_sample_size
from nbaudio.proof.judged_draws import ProofState
from nbaudio.proof.separation import precision_by
from nbaudio.proof.separation import signal_precision as rank_columns
from nbaudio.reading import open_corpus
from nbaudio.review.state import ReviewState
from nbaudio.storage.workspace import Workspace
from nbaudio.ui import plot_style as style
from nbaudio.ui import views
from nbaudio.ui.histogram_bins import equal_width_edges
from nbaudio.ui.plot_style import Plot
from nbaudio.ui.views import Source

_OUT = (style.PALE, "\\\\")
_BY_VALUE = (
    "Share of right labels, with 95 % intervals, by groups of segments; "
    "ticks are the greatest values of groups."
)
_MOST_BARS = 24  # of more, a histogram or the longest ones


def recordings(workspace: str | Path | Workspace) -> Plot:
    """Plot the length of each recording, its transcribed part, rate and channels.

    If there are many recordings, plot a histogram.
    """
    table = views.recordings(workspace)
    if len(table) > _MOST_BARS:
        return _recording_histogram(table)
    plot = style.new_plot(1.6 + 0.42 * len(table))
    lengths, spoken = (
        table[name].fill_null(0.0).to_numpy() for name in ("duration_s", "transcribed_s")
    )
    longest = np.maximum(lengths, spoken)
    scale, unit = style.time_unit(longest.max(initial=0.0))
    axes = style.new_axes(
        plot.add_subplot(), "Recordings, and how much of each is transcribed", x=f"length [{unit}]"
    )
    rows = np.arange(len(table))
    names = table["recording_id"].to_list()
    axes.barh(
        rows, lengths / scale, height=0.72, **style.bar_style(style.PALE), label="whole recording"
    )
    axes.barh(
        rows, spoken / scale, height=0.36, **style.bar_style(style.BLUE, "///"), label="transcribed"
    )
    for row, (codec, rate, channels) in enumerate(
        table.select("codec", "sampling_rate", "num_channels").iter_rows()
    ):
        note = (
            "no audio" if rate is None else f"{codec}, {rate / 1000:g} kHz, {_channels(channels)}"
        )
        axes.text(
            longest[row] / scale,
            row,
            f"  {note}",
            va="center",
            fontsize=style.SMALL,
            fontweight="bold" if rate is None else "normal",
            parse_math=False,
        )
        times = f"{duration(lengths[row])}, transcribed: {duration(spoken[row])}"
        plot.show_on_hover(axes, f"{names[row]}\n{times}", y=(row - 0.5, row + 0.5))
    in_all = f"{duration(lengths.sum())} in all, transcribed: {duration(spoken.sum())}"
    plot.alt_text = f"Bars of {len(table):,} recordings: {in_all}"
    style.name_rows(axes, names)
    axes.set_xlim(0, 1.35 * longest.max(initial=1e-9) / scale)
    style.add_legend(plot)
    return plot


def _recording_histogram(table: pl.DataFrame) -> Plot:
    plot = style.new_plot(3.6)
    known = table.drop_nulls("duration_s")
    without = f", {len(table) - len(known):,} without audio" if len(known) < len(table) else ""
    scale, unit = style.time_unit(known.select(pl.col("duration_s").max().fill_null(0.0)).item())
    axes = style.new_axes(
        plot.add_subplot(),
        f"{len(table):,} recordings{without}",
        x=f"length [{unit}]",
        y="recordings",
    )
    kinds = known.group_by("sampling_rate", "num_channels").agg("duration_s")
    kinds = kinds.sort(
        pl.col("duration_s").list.len(), "sampling_rate", "num_channels", descending=True
    )
    labels = [
        f"{rate / 1000:g} kHz, {_channels(number)}: {len(lengths):,}"
        for rate, number, lengths in kinds.iter_rows()
    ]
    values = [np.asarray(lengths) / scale for lengths in kinds["duration_s"]]
    style.draw_histogram(axes, values, bins=40, labels=labels)
    axes.legend(frameon=False, fontsize=style.SMALL)
    length = duration(float(known["duration_s"].sum()))
    plot.alt_text = (
        f"Histogram of the lengths of {len(table):,} recordings, {length} in all{without}. "
        f"{'; '.join(labels)}"
    )
    return plot


def scores(source: Source, hypothesis: str = "") -> Plot:
    """Plot the distributions of similarity, WER and duration.

    Similarity and WER are those of a hypothesis NAME, or TEXT_NAME, that was scored. WER is at most
    1.
    """
    segments = views.rows(source, further=bool(hypothesis))
    end = hypothesis and f"_{hypothesis}"
    if f"wer{end}" not in segments.schema:
        raise InputError(
            f"there are no scores of {hypothesis}: 'nbaudio score W --hypothesis "
            f"{hypothesis}' writes them"
        )
    plot = style.new_plot(3.3)
    left, middle, right = plot.subplots(1, 3)
    shown = []
    for axes, name, title, label, bins in (
        (left, f"similarity{end}", "Similarity", "similarity, −1 to 1", np.linspace(-1, 1, 51)),
        (
            middle,
            f"wer{end}",
            "Word error rate",
            "WER, more than 1 shown as 1",
            np.linspace(0, 1, 41),
        ),
        (right, "duration_s", "Duration", "seconds", 40),
    ):
        values = segments.read(name).filter(pl.col(name).is_finite())[name].to_numpy()
        style.draw_histogram(
            style.new_axes(axes, title, x=label),
            [values.clip(max=1) if axes is middle else values],
            bins=bins,
        )
        if len(values):
            least, median, most = np.quantile(values, (0.05, 0.5, 0.95))
            shown.append(
                f"{title}, {len(values):,} segments: median {median:.3g}, "
                f"90 % from {least:.3g} to {most:.3g}"
            )
    plot.alt_text = f"Histograms. {'; '.join(shown) or 'No values'}"
    left.set_ylabel("segments")
    return plot


def threshold(source: Source, value: float = 0.8) -> Plot:  # noqa: PLR0914
    """Plot what a threshold on similarity keeps.

    The panels are the distribution, with the part below the threshold, and the hours kept by
    threshold.
    """
    segments = views.rows(source).read("similarity", "duration_s")
    similarity = segments["similarity"].fill_nan(None).drop_nulls().to_numpy()
    curve = views.threshold_curve(segments)
    kept = curve.filter(pl.col("threshold") <= value).row(-1, named=True)
    plot = style.new_plot(3.6)
    left, right = plot.subplots(1, 2)
    style.new_axes(
        left,
        f"Similarity of {len(similarity):,} segments",
        x="similarity of transcript and hypothesis",
        y="segments",
    )
    out = similarity[similarity < value]
    inside = similarity[similarity >= value]
    styles = ((style.GRAY, "\\\\"), (style.BLUE, ""))
    labels = (f"below: {len(out):,}", f"kept: {len(inside):,}")
    style.draw_histogram(
        left, [out, inside], bins=np.linspace(-1, 1, 51), styles=styles, labels=labels
    )
    hours = curve["hours"].to_numpy()
    scale, unit = style.time_unit(float(hours.max(initial=0.0)) * 3600)
    style.new_axes(
        right, "Hours kept by each threshold", x="threshold on similarity", y=f"kept [{unit}]"
    )
    right.plot(curve["threshold"], hours * 3600 / scale, color=style.BLUE, drawstyle="steps-post")
    for start, segments_kept, hours_kept, share in curve.select(
        "threshold", "segments", "hours", "hours_share"
    ).iter_rows():
        amount = (
            f"{segments_kept:,} segments, {duration(3600 * hours_kept)}, {share:.1%} of all hours"
        )
        plot.show_on_hover(
            right, f"threshold {start:g}\nkept: {amount}", x=(start - 0.005, start + 0.005)
        )
    point = (value, kept["hours"] * 3600 / scale)
    kept_hours = duration(3600 * kept["hours"])
    right.plot(*point, "o", color=style.RED)
    right.set_ylim(bottom=0)
    note = f"{kept_hours}\n{kept['hours_share']:.0%} of all"
    right.annotate(note, point, xytext=(-10, -12), textcoords="offset points", ha="right", va="top")
    for axes in (left, right):
        axes.xaxis.set_major_locator(MultipleLocator(0.5))
        axes.axvline(
            value, color=style.RED, linestyle="--", linewidth=1.2, label=f"threshold {value:g}"
        )
    left.legend(frameon=False, fontsize=style.SMALL, loc="upper left")
    plot.alt_text = (
        f"Histogram of the similarity of {len(similarity):,} segments: "
        f"{len(out):,} below {value:g}, {len(inside):,} kept. "
        f"Curve of the hours kept by each threshold: {value:g} keeps {kept_hours}, "
        f"{kept['hours_share']:.0%} of all"
    )
    return plot


def evidence(
    workspace: str | Path | Workspace | ReviewState,
    *,
    precision: float = 0.98,
    confidence: float = 0.95,
) -> Plot:
    """Plot precision above thresholds from the verdicts.

    The plot has the estimate, its interval and the lowest threshold that is proven. It is about all
    segments at or above a threshold, whether `select` keeps them or not.
    """
    grid = [*np.arange(-20, 10) / 20, *np.arange(50, 101) / 100]
    curve = precision_curve(
        ProofState.load(workspace), grid, precision=precision, confidence=confidence
    )
    return claimed(curve, precision=precision, confidence=confidence)


def claimed(curve: Frame, *, precision: float = 0.98, confidence: float = 0.95) -> Plot:  # noqa: PLR0914
    """Plot the same of a curve as in ``corpus.json``."""
    curve = as_polars(curve, "curve")
    known = curve.filter(pl.col("precision").is_not_null())
    plot = style.new_plot(3.8)
    title = (
        "Precision of all segments above each threshold, "
        f"{max(curve['reviewed'], default=0):,} reviewed"
    )
    axes = style.new_axes(
        plot.add_subplot(), title, x="threshold on similarity", y="share of right labels"
    )
    # Leave out thresholds that keep nearly everything.
    all_kept = pl.col("precision").is_not_null() & (
        pl.col("segments") >= 0.99 * pl.col("segments").max()
    )
    axes.set_xlim(
        max([first - 0.05 for first in curve.filter(all_kept)["threshold"].tail(1)], default=-1),
        1.02,
    )
    x = known["threshold"]
    low = known["low"]
    high = known["high"]
    axes.vlines(x, low, high, color=style.BLUE)
    axes.fill_between(
        x,
        low,
        high,
        color=style.BLUE,
        alpha=0.45,
        label=f"{confidence:.0%} interval, whenever one looks",
    )
    axes.axhline(
        precision, color=style.GREEN, linestyle=":", linewidth=1.2, label=f"target: {precision:.4g}"
    )
    proven = known.filter("proven").head(1)
    for lowest, hours in proven.select("threshold", "hours").iter_rows():
        label = f"lowest proven: {lowest:g}, {duration(3600 * hours)}"
        axes.axvline(lowest, color=style.RED, linestyle="--", linewidth=1.2, label=label)
    axes.plot(x, known["precision"], color="black", marker=".", label="estimate")
    shown = (
        known.filter(x.is_between(*axes.get_xlim()))
        .select(pl.min_horizontal(pl.col("low", "precision").min()))
        .item()
    )
    axes.set_ylim(min(precision, 0.0 if shown is None else shown) - 0.03, 1.02)
    style.add_legend(plot)
    points = (
        known.select("threshold", "precision", "low", "high", "reviewed").sort("threshold").rows()
    )
    texts = []
    half = min([(after[0] - before[0]) / 2 for before, after in pairwise(points)], default=0.02)
    for at, estimate, least, most, reviewed in points:
        texts.append(f"at {at:g}: {estimate:.2%}, interval {least:.2%} to {most:.2%}")
        plot.show_on_hover(
            axes, f"{texts[-1]}\n{reviewed:,} segments reviewed", x=(at - half, at + half)
        )
    note = _missing(curve, precision=precision, confidence=confidence)
    if note:
        axes.set_xlabel(f"{axes.get_xlabel()}\n\n{note}", linespacing=1.4)
    conclusion = (
        " ".join(note.split("\n"))
        or f"The lowest threshold that is proven is {proven['threshold'].item():g}."
    )
    few = texts[:: max(1, -(-len(texts) // 5))]
    plot.alt_text = (
        f"Precision above thresholds on similarity. {conclusion} {'; '.join(few)}".strip()
    )
    return plot


def _missing(curve: pl.DataFrame, *, precision: float, confidence: float) -> str:
    """Return what is missing if no threshold is proven; empty if one is."""
    if curve["proven"].any():
        return ""
    reviewed = max(curve["reviewed"])
    least = min_sample_size(precision=precision, confidence=confidence)
    needed = (
        f"A proof needs at least {least:,} reviewed segments above a threshold, "
        "even if all are right."
    )
    if not reviewed:
        return f"No segment has been reviewed yet: the quality of the labels is unknown.\n{needed}"
    if reviewed >= least:
        needed = (
            "The report of evidence has the number of further reviews that are expected to "
            "prove the selection."
        )
    return (
        f"{reviewed:,} segments have been reviewed: no threshold is proven to keep "
        f"{precision:.4g} right.\n{needed}"
    )


def signals(source: Source, *, note: str = "") -> Plot:
    """Plot the distribution of each signal that `measure` has written, below a note.

    The outermost bars hold long tails.
    """
    segments = views.rows(source)
    names = views.signals(segments)["signal"].to_list()
    shown = []
    note = note or ("" if names else "Nothing is measured yet: 'nbaudio measure W' does.")
    plot, panels = _panels(len(names), 4, note)
    for axes, name in zip(panels, names, strict=True):
        column = segments.read(name)[name].cast(pl.Float64).fill_nan(None)
        values = column.drop_nulls().to_numpy()
        unknown = column.null_count()
        missing = f", {unknown:,} without" if unknown else ""
        is_logical = segments.schema[name] == pl.Boolean
        bins = np.array([-0.5, 0.5, 1.5]) if is_logical else _bins_of_signal(values)
        style.new_axes(axes, name, x=f"{len(values):,} segments{missing}")
        style.draw_histogram(axes, [values.clip(bins[0], bins[-1])], bins=bins)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        if is_logical:
            axes.set_xticks([0, 1], ["no", "yes"])
        middle = f"{values.mean():.1%} yes" if is_logical else f"median {np.median(values):.3g}"
        shown.append(f"{name}: {middle}{missing}")
    plot.alt_text = f"Histograms of signals. {'; '.join(shown)} {note}".strip()
    return plot


def _bins_of_signal(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return edges of bins over the middle 99 % of the values."""
    if not len(values):
        return equal_width_edges(values, 30)
    low, high = np.quantile(values, (0.005, 0.995))
    return equal_width_edges(values.clip(low, high), 30)


def _panels(number: int, across: int, note: str) -> tuple[Plot, list[Axes]]:
    """Return a plot with a number of axes, `across` in a row, and a note above them."""
    rows = max(1, -(-number // across))
    plot = style.new_plot(0.6 + 2.1 * rows if number else 0.8)
    if note:
        plot.suptitle(note, x=0.01, ha="left", fontsize=style.SMALL, parse_math=False)
    return plot, [plot.add_subplot(rows, across, place + 1) for place in range(number)]


def signal_precision(workspace: str | Path | Workspace | ReviewState, *, most: int = 6) -> Plot:
    """Plot the precision by value of the columns that separate right from wrong labels best.

    There are at most `most` columns, the best first.

    `views.signal_precision` has the ranking of all columns, `views.precision_by` the figures.
    Without verdicts of both kinds it shows the distributions of the signals and what is missing.
    """
    state = ProofState.load(workspace)
    ranked = rank_columns(state).head(most)
    if ranked.is_empty():
        missing = (
            "Which signal separates right from wrong is not known: "
            "it takes verdicts of both kinds on drawn segments."
        )
        return signals(state.workspace, note=missing)
    (plot, panels) = _panels(len(ranked), 3, _BY_VALUE)
    shown = []
    for axes, best in zip(panels, ranked.iter_rows(named=True), strict=True):
        name = str(best["column"])
        direction = best["direction"]
        curve = precision_by(state, name)
        style.new_axes(
            axes,
            name,
            x=f"AUC {best['auc']:.2f} ({best['low']:.2f} to {best['high']:.2f})\n{direction}",
        )
        known = curve.with_row_index("place").filter(pl.col("precision").is_not_null())
        axes.vlines(known["place"], known["low"], known["high"], color=style.BLUE, linewidth=5)
        axes.plot(
            known["place"],
            known["precision"],
            color="black",
            linestyle="none",
            marker="o",
            markersize=4,
        )
        ends = [
            "none" if end is None else f"{end:.3g}" if abs(end) < 1000 else f"{end:,.0f}"
            for end in curve["most"]
        ]
        step = max(1, -(-len(ends) // 4))
        axes.set_xticks(range(0, len(ends), step), ends[::step], fontsize=style.SMALL)
        axes.set(ylim=(-0.03, 1.03), xlim=(-0.6, len(ends) - 0.4))
        shown.append(f"{name}: AUC {best['auc']:.2f}, {direction}")
    plot.alt_text = f"Precision by the value of each column, the best first. {'; '.join(shown)}"
    return plot


def splits(source: Source) -> Plot:  # noqa: PLR0914
    """Plot the hours of each speaker by split, and the reasons of rejected segments.

    Rejected segments are included in the hours.
    """
    segments = views.rows(source)
    spoken = views.speakers(segments)
    why = views.reasons(segments)
    most = spoken.head(_MOST_BARS)
    rows = max(len(most), len(why), 4)
    plot = style.new_plot(1.6 + 0.34 * rows)
    left, right = plot.subplots(1, 2, width_ratios=(3, 2))
    some = f"The {len(most)} speakers with most kept hours, of {len(spoken):,}"
    title = some if len(most) < len(spoken) else "Speakers by split"
    places = _split_styles(spoken.drop("speaker_id", "out").columns) | {"out": _OUT}
    scale, unit = style.time_unit(
        3600 * most.select(pl.sum_horizontal(*places).max().fill_null(0.0)).item()
    )
    style.new_axes(left, title, x=f"speech [{unit}]")
    start = np.zeros(len(most))
    labels = {name: f"{name}: {duration(3600 * float(spoken[name].sum()))}" for name in places}
    sums = ", ".join(labels.values())
    for name, (color, hatch) in places.items():
        length = most[name].to_numpy() * 3600 / scale
        left.barh(
            np.arange(len(most)),
            length,
            left=start,
            **style.bar_style(color, hatch),
            label=labels[name],
        )
        start = start + length
    names = most["speaker_id"].fill_null("(not known)").to_list()
    for row, name in enumerate(names):
        hours = "\n".join(f"{split}: {duration(3600 * most[split][row])}" for split in places)
        plot.show_on_hover(left, f"{name}\n{hours}", y=(row - 0.5, row + 0.5))
    style.name_rows(left, names)
    style.new_axes(right, f"{why['segments'].sum():,} segments rejected", x="segments")
    bars = right.barh(np.arange(len(why)), why["segments"], **style.bar_style(style.PALE, "\\\\"))
    listed = []
    for row, (reason, number, hours) in enumerate(
        why.select("reason", "segments", "hours").iter_rows()
    ):
        listed.append(f"{reason}: {number:,}")
        plot.show_on_hover(
            right, f"{listed[-1]} segments, {duration(3600 * hours)}", y=(row - 0.5, row + 0.5)
        )
    plot.alt_text = (
        f"Hours of {len(spoken):,} speakers by split. {sums}. Rejected segments: "
        f"{', '.join(listed[:5]) or 'none'}"
    )
    right.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=style.SMALL)
    style.name_rows(right, why["reason"].to_list())
    right.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    right.margins(x=0.15)
    for axes in (left, right):
        axes.set_ylim(rows - 0.5, -0.5)
    style.add_legend(plot, left)
    return plot


def shards(corpus: str | Path) -> Plot:
    """Plot the size of each shard by split; a histogram if there are many."""
    table = open_corpus(corpus).shards.with_columns(mb=pl.col("bytes") / 1e6)
    parts = {
        split: table.filter(pl.col("split") == split)
        for split in ordered_splits(table["split"].unique())
    }
    labels = [f"{split}, {part['segments'].sum():,} clips" for split, part in parts.items()]
    styles = list(_split_styles(parts).values())
    many = len(table) > _MOST_BARS
    plot = style.new_plot(3.4 if many else 1.5 + 0.34 * len(table))
    axes = style.new_axes(plot.add_subplot(), "Shards", x="size [MB]", y="shards" if many else "")
    if many:
        style.draw_histogram(
            axes,
            [part["mb"].to_numpy() for part in parts.values()],
            bins=40,
            styles=styles,
            labels=labels,
        )
    else:
        names: list[str] = []
        for part, label, (color, hatch) in zip(parts.values(), labels, styles, strict=True):
            rows = np.arange(len(part)) + len(names)
            axes.barh(rows, part["mb"], **style.bar_style(color, hatch), label=label)
            for row, (name, size, clips) in enumerate(
                part.select("name", "mb", "segments").iter_rows(), start=len(names)
            ):
                plot.show_on_hover(
                    axes, f"{name}\n{size:,.3g} MB, {clips:,} clips", y=(row - 0.5, row + 0.5)
                )
            names.extend(part["name"])
        style.name_rows(axes, names)
    plot.alt_text = (
        f"Sizes of {len(table):,} shards, {table['mb'].sum():,.4g} MB in all. {'; '.join(labels)}"
    )
    style.add_legend(plot)
    return plot


def _split_styles(splits: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the style of each split.

    Train, dev and test always have the same style, and others take the rest in turn.
    """
    fixed = dict(zip(SPLITS, style.STYLES, strict=False))
    rest = cycle(style.STYLES[len(SPLITS) :])
    return {name: fixed.get(name) or next(rest) for name in splits}


def _channels(number: int) -> str:
    return {1: "mono", 2: "stereo"}.get(number, f"{number} channels")
