"""Plots of each step.

Axes have units, hatches or words repeat what colors show, and names are drawn as they are, never as
TeX.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, pairwise
from math import ceil
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.core.report import count, duration
from nbaudio.proof.claims import curve as precision_curve
from nbaudio.proof.claims import min_sample_size
from nbaudio.proof.proof_state import ProofState
from nbaudio.proof.separation import precision_by_columns
from nbaudio.proof.separation import signal_precision as rank_columns
from nbaudio.reading import open_corpus
from nbaudio.review.state import ReviewState
from nbaudio.tables.dataframes import Frame, as_polars
from nbaudio.tables.schemas import SPLITS
from nbaudio.tables.split_names import ordered_splits
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import plot_style as style
from nbaudio.ui import views
from nbaudio.ui.coverage_plot import plot_coverage
from nbaudio.ui.equal_values import (
    all_segments,
    equal_values_sentence,
    value_text,
)
from nbaudio.ui.histogram_bins import equal_width_edges
from nbaudio.ui.plot_style import Plot
from nbaudio.ui.recording_plots import plot_bars, plot_histograms
from nbaudio.ui.segment_rows import SegmentRows
from nbaudio.ui.signal_words import SignalWords, signal_words
from nbaudio.ui.similarity_axis import SimilarityAxis, similarity_axis
from nbaudio.ui.views import Source

_REJECTED = (style.PALE, "\\\\")  # color and hatch of what is in no split
_BY_VALUE = (
    "Share of right labels, with 95 % intervals, by groups of segments; "
    "ticks are the greatest values of groups."
)
_PANEL_TITLE = 9.5  # points
_SENTENCES_HEIGHT = 1.1  # inches
_MOST_BARS = 24  # bars; with more, a plot shows a histogram or the longest ones


def recordings(workspace: str | Path | Workspace) -> Plot:
    """Plot the length of each recording, its transcribed part, rate and channels.

    Of more than 24 recordings it plots histograms of the lengths and of the transcribed shares.
    Either way it names truncated recordings, whose segments go on past the end, and says so where
    there is no audio.
    """
    table = views.recordings(workspace)
    return plot_histograms(table) if len(table) > _MOST_BARS else plot_bars(table)


def coverage(workspace: str | Path | Workspace) -> Plot:
    """Plot where in each recording segments are, and what was heard and is in none.

    The latter is known of workspaces that `nbaudio.align` made. At most 24 recordings are shown,
    those that are least covered first.
    """
    return plot_coverage(Workspace.open(workspace))


def scores(source: Source, hypothesis: str = "") -> Plot:
    """Plot the distributions of similarity, WER and duration.

    Similarity and WER are those of a hypothesis NAME, or TEXT_NAME, that was scored. WER is at most
    1.
    """
    segments = views.rows(source, further=bool(hypothesis))
    suffix = f"_{hypothesis}" if hypothesis else ""
    if f"wer{suffix}" not in segments.schema:
        raise InputError(
            f"there are no scores of {hypothesis}: 'nbaudio score W --hypothesis "
            f"{hypothesis}' writes them"
        )
    similarity = _finite(segments, f"similarity{suffix}")
    similarity_range = similarity_axis(similarity)
    plot = style.new_plot(3.3)
    left, middle, right = plot.subplots(1, 3)
    in_words = [
        _draw_score(
            left,
            "Similarity",
            similarity,
            bins=similarity_range.edges,
            label=similarity_range.label("similarity"),
        ),
        _draw_score(
            middle,
            "Word error rate",
            _finite(segments, f"wer{suffix}"),
            bins=np.linspace(0, 1, 41),
            label="WER, more than 1 shown as 1",
        ),
        _draw_score(
            right,
            "Duration",
            _finite(segments, "duration_s"),
            bins=40,
            label="seconds",
            show=duration,
        ),
    ]
    if _has_histogram(left):
        similarity_range.zoom(left)
    if not any(map(_has_histogram, (left, middle, right))):
        plot.set_figheight(_SENTENCES_HEIGHT)
    plot.alt_text = f"Histograms. {'; '.join(filter(None, in_words)) or 'No values'}"
    return plot


def _has_histogram(axes: Axes) -> bool:
    """Return whether a histogram was drawn: a sentence in its place has no axis."""
    return axes.axison


def _finite(segments: SegmentRows, column: str) -> NDArray[np.float64]:
    """Return the finite values of a column."""
    return segments.read(column).filter(pl.col(column).is_finite())[column].to_numpy()


def _draw_score(
    axes: Axes,
    title: str,
    values: NDArray[np.float64],
    *,
    bins: int | NDArray[np.float64],
    label: str,
    show: Callable[[float], str] = value_text,
) -> str:
    """Draw the histogram of a score, or write a sentence if no two values differ.

    Values outside the bins are in the outermost ones. Return in words what is drawn; nothing if
    there are no values.
    """
    sentence = equal_values_sentence(values, show)
    if sentence:
        style.write_sentence(axes, title, sentence)
        return f"{title}: {sentence}" if len(values) else ""
    style.new_axes(axes, title, x=label, y="segments")
    style.draw_histogram(axes, [values], bins=bins, hold_tails=True)
    low, median, high = np.quantile(values, (0.05, 0.5, 0.95))
    return (
        f"{title}, {len(values):,} segments: median {median:.3g}, 90 % from {low:.3g} to {high:.3g}"
    )


def threshold(source: Source, value: float = 0.8) -> Plot:
    """Plot what a threshold on similarity keeps.

    The panels are the distribution, with the part below the threshold, and the hours kept by
    threshold. Both begin where the data or the threshold is.
    """
    segments = views.rows(source).read("similarity", "duration_s")
    similarity = segments["similarity"].fill_nan(None).drop_nulls().to_numpy()
    axis = similarity_axis(similarity, threshold=value)
    plot = style.new_plot(3.6)
    left, right = plot.subplots(1, 2)
    kept_segments = _draw_kept_segments(left, similarity, value, axis)
    kept_hours = _draw_kept_hours(right, views.threshold_curve(segments), value, axis)
    plot.alt_text = f"{kept_segments}. Curve of the hours kept by each threshold: {kept_hours}"
    return plot


def _draw_kept_segments(
    axes: Axes, similarity: NDArray[np.float64], value: float, axis: SimilarityAxis
) -> str:
    """Draw the distribution of similarity and a threshold; return it in words."""
    title = f"Similarity of {count(len(similarity), 'segments')}"
    sentence = equal_values_sentence(similarity)
    if sentence:
        style.write_sentence(axes, title, sentence)
        return f"Similarity: {sentence}"
    below = similarity[similarity < value]
    above = similarity[similarity >= value]
    label = axis.label("similarity of transcript and hypothesis")
    style.new_axes(axes, title, x=label, y="segments")
    style.draw_histogram(
        axes,
        [below, above],
        bins=axis.edges,
        styles=((style.GRAY, "\\\\"), (style.BLUE, "")),
        labels=(f"below: {len(below):,}", f"kept: {len(above):,}"),
        hold_tails=True,
    )
    _mark_threshold(axes, value)
    axis.zoom(axes)
    axes.legend(frameon=False, fontsize=style.SMALL, loc="best")
    return (
        f"Histogram of the similarity of {len(similarity):,} segments: "
        f"{len(below):,} below {value:g}, {len(above):,} kept"
    )


def _draw_kept_hours(axes: Axes, curve: pl.DataFrame, value: float, axis: SimilarityAxis) -> str:
    """Draw the hours kept by each threshold and mark one; return what it keeps in words."""
    # The curve has a row for each threshold of a grid; between two of them the lower one counts.
    marked = curve.filter(pl.col("threshold") <= value).row(-1, named=True)
    kept_hours = duration(3600 * marked["hours"])
    kept_share = f"{marked['hours_share']:.0%} of all"
    hours = curve["hours"].to_numpy()
    scale, unit = style.time_unit(float(hours.max(initial=0.0)) * 3600)
    label = replace(axis, below=0).label("threshold on similarity")  # there is no first bar
    style.new_axes(axes, "Hours kept by each threshold", x=label, y=f"kept [{unit}]")
    axes.plot(curve["threshold"], hours * 3600 / scale, color=style.BLUE, drawstyle="steps-post")
    _show_kept_on_hover(axes, curve.filter(pl.col("threshold") >= axis.least))
    point = (value, marked["hours"] * 3600 / scale)
    axes.plot(*point, "o", color=style.RED)
    axes.set_ylim(bottom=0)
    # The note is on the side of the point that has room for it.
    is_note_right = value < axis.least + (1 - axis.least) / 3
    axes.annotate(
        f"{kept_hours}\n{kept_share}",
        point,
        xytext=(10 if is_note_right else -10, -12),
        textcoords="offset points",
        ha="left" if is_note_right else "right",
        va="top",
    )
    _mark_threshold(axes, value)
    axis.zoom(axes)
    return f"{value:g} keeps {kept_hours}, {kept_share}"


def _show_kept_on_hover(axes: Axes, curve: pl.DataFrame) -> None:
    """Show on hover what each threshold keeps."""
    plot = axes.figure
    if not isinstance(plot, Plot):
        return
    for start, segments, hours, share in curve.select(
        "threshold", "segments", "hours", "hours_share"
    ).iter_rows():
        amount = f"{segments:,} segments, {duration(3600 * hours)}, {share:.1%} of all hours"
        plot.show_on_hover(
            axes, f"threshold {start:g}\nkept: {amount}", x=(start - 0.005, start + 0.005)
        )


def _mark_threshold(axes: Axes, value: float) -> None:
    """Draw a line at a threshold."""
    axes.axvline(
        value, color=style.RED, linestyle="--", linewidth=1.2, label=f"threshold {value:g}"
    )


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
    below_half = np.arange(-20, 10) / 20  # from -1 to 0.45
    from_half = np.arange(50, 101) / 100  # from 0.5 to 1
    thresholds = [*below_half, *from_half]
    curve = precision_curve(
        ProofState.load(workspace), thresholds, precision=precision, confidence=confidence
    )
    return claimed(curve, precision=precision, confidence=confidence)


def claimed(curve: Frame, *, precision: float = 0.98, confidence: float = 0.95) -> Plot:
    """Plot a curve as in ``corpus.json`` as `evidence` plots one.

    Args:
        curve: a row for each threshold, with the columns of `proof.claims.curve`.
        precision: the target, a share.
        confidence: of the intervals, a share.
    """
    curve = as_polars(curve, "curve")
    estimates = curve.filter(pl.col("precision").is_not_null())
    proven = estimates.filter("proven").head(1)
    plot = style.new_plot(3.8)
    axes = _new_curve_axes(plot, curve)
    _draw_intervals(axes, estimates, confidence)
    axes.axhline(
        precision, color=style.GREEN, linestyle=":", linewidth=1.2, label=f"target: {precision:.4g}"
    )
    for lowest, hours in proven.select("threshold", "hours").iter_rows():
        label = f"lowest proven: {lowest:g}, {duration(3600 * hours)}"
        axes.axvline(lowest, color=style.RED, linestyle="--", linewidth=1.2, label=label)
    axes.plot(
        estimates["threshold"],
        estimates["precision"],
        color="black",
        marker=".",
        label="estimate",
    )
    axes.set_ylim(min(precision, _least_visible_share(axes, estimates)) - 0.03, 1.02)
    style.add_legend(plot)
    in_order = estimates.sort("threshold")
    _show_estimates(plot, axes, in_order)
    missing = _missing_proof(curve, precision=precision, confidence=confidence)
    if missing:
        axes.set_xlabel(f"{axes.get_xlabel()}\n\n{missing}", linespacing=1.4)
        conclusion = missing.replace("\n", " ")
    else:
        conclusion = f"The lowest threshold that is proven is {proven['threshold'].item():g}."
    few_estimates = "; ".join(_few_estimates_in_words(in_order))
    plot.alt_text = (
        f"Precision above thresholds on similarity. {conclusion} {few_estimates}".strip()
    )
    return plot


def _new_curve_axes(plot: Plot, curve: pl.DataFrame) -> Axes:
    """Add axes for precision by threshold, that begin where thresholds leave segments out."""
    reviewed = max(curve["reviewed"], default=0)
    axes = style.new_axes(
        plot.add_subplot(),
        f"Precision of all segments above each threshold, {reviewed:,} reviewed",
        x="threshold on similarity",
        y="share of right labels",
    )
    first = _highest_that_keeps_nearly_all(curve)
    if first <= -1:
        axes.set_xlim(-1, 1.02)
        return axes
    label = (
        f"threshold on similarity, {first:g} to 1; lower ones keep at least 99 % of the segments"
    )
    axes.set_xlabel(label.replace("-", "−"))
    axes.set_xlim(first - 0.05, 1.02)
    return axes


def _draw_intervals(axes: Axes, estimates: pl.DataFrame, confidence: float) -> None:
    """Draw the interval of each threshold, and the band between them."""
    threshold = estimates["threshold"]
    axes.vlines(threshold, estimates["low"], estimates["high"], color=style.BLUE)
    axes.fill_between(
        threshold,
        estimates["low"],
        estimates["high"],
        color=style.BLUE,
        alpha=0.45,
        label=f"{confidence:.0%} interval, whenever one looks",
    )


def _least_visible_share(axes: Axes, estimates: pl.DataFrame) -> float:
    """Return the least share or lower bound of the thresholds in view, 0 if there are none."""
    is_visible = pl.col("threshold").is_between(*axes.get_xlim())
    least = estimates.filter(is_visible).select(pl.min_horizontal(pl.col("low", "precision").min()))
    share = least.item()
    return 0.0 if share is None else share


def _estimates_in_words(estimates: pl.DataFrame) -> list[str]:
    """Return the estimate and the interval of each threshold in words."""
    rows = estimates.select("threshold", "precision", "low", "high").iter_rows()
    return [
        f"at {threshold:g}: {precision:.2%}, interval {low:.2%} to {high:.2%}"
        for threshold, precision, low, high in rows
    ]


def _few_estimates_in_words(estimates: pl.DataFrame) -> list[str]:
    """Return at most five estimates in words, at even distances."""
    texts = _estimates_in_words(estimates)
    step = max(1, ceil(len(texts) / 5))
    return texts[::step]


def _show_estimates(plot: Plot, axes: Axes, estimates: pl.DataFrame) -> None:
    """Show the estimate of the nearest threshold on hover; thresholds are in ascending order."""
    thresholds = estimates["threshold"].to_list()
    # Half the least distance: stretches of two thresholds do not overlap.
    half = min([(after - before) / 2 for before, after in pairwise(thresholds)], default=0.02)
    texts = _estimates_in_words(estimates)
    for threshold, text, reviewed in zip(thresholds, texts, estimates["reviewed"], strict=True):
        plot.show_on_hover(
            axes,
            f"{text}\n{reviewed:,} segments reviewed",
            x=(threshold - half, threshold + half),
        )


def _highest_that_keeps_nearly_all(curve: pl.DataFrame) -> float:
    """Return the highest threshold that keeps at least 99 % of the segments; -1 if none does.

    It is one with an estimate, if there are any.
    """
    keeping = curve.filter(pl.col("segments") >= 0.99 * pl.col("segments").max())
    if curve["precision"].count():
        keeping = keeping.drop_nulls("precision")
    return max(keeping["threshold"], default=-1.0)


def _missing_proof(curve: pl.DataFrame, *, precision: float, confidence: float) -> str:
    """Return in two lines what is missing if no threshold is proven; empty if one is."""
    if curve["proven"].any():
        return ""
    num_reviewed = max(curve["reviewed"])
    num_needed = min_sample_size(precision=precision, confidence=confidence)
    if num_reviewed:
        missing = (
            f"{num_reviewed:,} segments have been reviewed: no threshold is proven to keep "
            f"{precision:.4g} right."
        )
    else:
        missing = "No segment has been reviewed yet: the quality of the labels is unknown."
    if num_reviewed and num_reviewed >= num_needed:
        remedy = (
            "The report of evidence has the number of further reviews that are expected to "
            "prove the selection."
        )
    else:
        remedy = (
            f"A proof needs at least {num_needed:,} reviewed segments above a threshold, "
            "even if all are right."
        )
    return f"{missing}\n{remedy}"


def signals(source: Source, *, note: str = "") -> Plot:
    """Plot the distribution of each signal and column of a model, below a `note` if given.

    Signals of equal values are sentences above the plots. The outermost bars hold long tails.
    """
    segments = views.rows(source)
    columns = views.signals(segments)["signal"].to_list()
    values = {column: _signal_values(segments, column) for column in columns}
    words = {column: signal_words(column, segments.measured) for column in columns}
    sentences = {column: _signal_sentence(words[column], values[column]) for column in columns}
    drawn = [column for column in columns if not sentences[column]]
    if not note and not columns:
        note = "Nothing is measured yet: 'nbaudio measure W' does."
    lines = [note] if note else []
    if any(values[column].dtype != pl.Boolean for column in drawn):
        lines.append("The outermost bars hold the lowest and the highest 0.5 % of the values.")
    lines += [f"{sentence}." for sentence in sentences.values() if sentence]
    plot, panels = _new_panels(len(drawn), most_across=4, note="\n".join(lines))
    for axes, column in zip(panels, drawn, strict=True):
        _draw_signal(axes, column, words[column], values[column])
    in_words = [sentences[column] or _signal_summary(column, values[column]) for column in columns]
    plot.alt_text = f"Histograms of signals. {'; '.join(in_words)} {note}".strip()
    return plot


def _signal_values(segments: SegmentRows, column: str) -> pl.Series:
    """Return a signal without NaN; yes and no stay logical."""
    values = segments.read(column)[column]
    if values.dtype == pl.Boolean:
        return values
    return values.cast(pl.Float64).fill_nan(None)


def _without_nulls(values: pl.Series) -> NDArray[np.float64]:
    """Return the values of a signal as numbers, without nulls."""
    return values.cast(pl.Float64).drop_nulls().to_numpy()


def _signal_sentence(words: SignalWords, values: pl.Series) -> str:
    """Return a sentence about a signal of equal values; empty if it needs a histogram."""
    numbers = _without_nulls(values)
    if values.dtype == pl.Boolean and len(numbers):
        sentence = _equal_answers_sentence(numbers)
    else:
        sentence = equal_values_sentence(numbers, words.value_text)
    if not sentence:
        return ""
    unknown = values.null_count()
    missing = f", {unknown:,} without a value" if unknown else ""
    return f"{words.title}: {sentence}{missing}"


def _equal_answers_sentence(answers: NDArray[np.float64]) -> str:
    """Return a sentence if all segments have the same yes or no; empty otherwise."""
    num_yes = int(answers.sum())
    if num_yes == 0:
        return f"no in {all_segments(len(answers))}"
    if num_yes == len(answers):
        return f"yes in {all_segments(len(answers))}"
    return ""


def _signal_summary(column: str, values: pl.Series) -> str:
    """Return the median of a signal in words, or the share of yes; and how many have no value."""
    numbers = _without_nulls(values)
    if values.dtype == pl.Boolean:
        middle = f"{numbers.mean():.1%} yes"
    else:
        middle = f"median {np.median(numbers):.3g}"
    unknown = values.null_count()
    missing = f", {unknown:,} without" if unknown else ""
    return f"{column}: {middle}{missing}"


def _draw_signal(axes: Axes, column: str, words: SignalWords, values: pl.Series) -> None:
    """Draw the histogram of a signal, with its name, its unit and what has no value."""
    label = f"{column} [{words.unit}]" if words.unit else column
    if unknown := values.null_count():
        label = f"{label}\n{unknown:,} without a value"
    style.new_axes(axes, words.title, x=label, y="segments", title_size=_PANEL_TITLE)
    axes.xaxis.label.set_fontsize(style.SMALL)
    axes.yaxis.label.set_fontsize(style.SMALL)
    axes.tick_params(labelsize=style.SMALL)
    numbers = _without_nulls(values)
    if values.dtype == pl.Boolean:
        style.draw_histogram(axes, [numbers], bins=np.array([-0.5, 0.5, 1.5]))
        axes.set_xticks([0, 1], ["no", "yes"])
        return
    style.draw_histogram(axes, [numbers], bins=_bins_of_signal(numbers), hold_tails=True)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))


def _bins_of_signal(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return edges of bins over the middle 99 % of the values."""
    low, high = np.quantile(values, (0.005, 0.995))
    return equal_width_edges(values.clip(low, high), 30)


def _new_panels(number: int, *, most_across: int, note: str) -> tuple[Plot, list[Axes]]:
    """Return a plot with a number of axes, in rows of at most `most_across`, below a note."""
    # Of a single one, too, there is room for two, as it would be too wide.
    across = min(most_across, max(2, number))
    rows = ceil(number / across)
    lines = len(note.splitlines())
    plot = style.new_plot(0.3 + 0.18 * lines + 2.2 * rows)
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
    plot, panels = _new_panels(len(ranked), most_across=3, note=_BY_VALUE)
    tables = precision_by_columns(state, ranked["column"].to_list())
    in_words = []
    for axes, table, column in zip(panels, tables, ranked.iter_rows(named=True), strict=True):
        name = str(column["column"])
        interval = f"({column['low']:.2f} to {column['high']:.2f})"
        label = f"AUC {column['auc']:.2f} {interval}\n{column['direction']}"
        style.new_axes(axes, name, x=label)
        _draw_precision_by_value(axes, table)
        in_words.append(f"{name}: AUC {column['auc']:.2f}, {column['direction']}")
    plot.alt_text = f"Precision by the value of each column, the best first. {'; '.join(in_words)}"
    return plot


def _draw_precision_by_value(axes: Axes, groups: pl.DataFrame) -> None:
    """Draw the precision of groups of segments, with intervals, at equal distances.

    Groups are those of `views.precision_by`; ticks are their greatest values.
    """
    judged = groups.with_row_index("place").filter(pl.col("precision").is_not_null())
    axes.vlines(judged["place"], judged["low"], judged["high"], color=style.BLUE, linewidth=5)
    axes.plot(
        judged["place"],
        judged["precision"],
        color="black",
        linestyle="none",
        marker="o",
        markersize=4,
    )
    labels = [_group_end_text(end) for end in groups["most"]]
    step = max(1, ceil(len(labels) / 4))  # of all labels, at most four have room
    axes.set_xticks(range(0, len(labels), step), labels[::step], fontsize=style.SMALL)
    axes.set(ylim=(-0.03, 1.03), xlim=(-0.6, len(labels) - 0.4))


def _group_end_text(end: float | None) -> str:
    """Return the greatest value of a group, "none" for segments without a value."""
    if end is None:
        return "none"
    return f"{end:.3g}" if abs(end) < 1000 else f"{end:,.0f}"


def splits(source: Source) -> Plot:
    """Plot the hours of each speaker by split, and the reasons of rejected segments.

    Rejected segments are included in the hours.
    """
    segments = views.rows(source)
    speakers = views.speakers(segments)
    reasons = views.reasons(segments)
    rows = max(min(len(speakers), _MOST_BARS), len(reasons), 4)
    plot = style.new_plot(1.6 + 0.34 * rows)
    left, right = plot.subplots(1, 2, width_ratios=(3, 2))
    hours_by_split = _draw_speakers(plot, left, speakers)
    rejected = _draw_reasons(plot, right, reasons)
    plot.alt_text = f"Hours of {len(speakers):,} speakers by split. {hours_by_split}. {rejected}"
    # Bars of both sides have the same height, and the first is above.
    for axes in (left, right):
        axes.set_ylim(rows - 0.5, -0.5)
    style.add_legend(plot, left)
    return plot


def _draw_speakers(plot: Plot, axes: Axes, speakers: pl.DataFrame) -> str:
    """Draw the hours of speakers by split; return the sum of each split in words.

    Args:
        plot: the plot of the axes.
        axes: where the first speakers of the table become bars.
        speakers: those of `views.speakers`, with the hours of each split and of `out`.
    """
    drawn = speakers.head(_MOST_BARS)
    split_names = speakers.drop("speaker_id", "out").columns
    styles = _split_styles(split_names) | {"out": _REJECTED}
    greatest_hours = drawn.select(pl.sum_horizontal(*styles).max().fill_null(0.0)).item()
    scale, unit = style.time_unit(3600 * greatest_hours)
    title = "Speakers by split"
    if len(drawn) < len(speakers):
        title = f"The {len(drawn)} speakers with most kept hours, of {len(speakers):,}"
    style.new_axes(axes, title, x=f"speech [{unit}]")
    labels = {name: f"{name}: {duration(3600 * float(speakers[name].sum()))}" for name in styles}
    ends = np.zeros(len(drawn))  # of the bars so far: those of the next split begin there
    for name, (color, hatch) in styles.items():
        lengths = drawn[name].to_numpy() * 3600 / scale
        bars = style.bar_style(color, hatch)
        axes.barh(np.arange(len(drawn)), lengths, left=ends, **bars, label=labels[name])
        ends = ends + lengths
    names = drawn["speaker_id"].fill_null("(not known)").to_list()
    _show_hours(plot, axes, drawn.select(*styles), names)
    style.name_rows(axes, names)
    return ", ".join(labels.values())


def _show_hours(plot: Plot, axes: Axes, hours: pl.DataFrame, names: Sequence[str]) -> None:
    """Show the hours of each speaker, a row of the table, on hover; columns are splits."""
    for row, (name, hours_by_split) in enumerate(
        zip(names, hours.iter_rows(named=True), strict=True)
    ):
        lines = [f"{split}: {duration(3600 * value)}" for split, value in hours_by_split.items()]
        plot.show_on_hover(axes, "\n".join([name, *lines]), y=(row - 0.5, row + 0.5))


def _draw_reasons(plot: Plot, axes: Axes, reasons: pl.DataFrame) -> str:
    """Draw how many segments were rejected for each reason; return the first reasons in words.

    `reasons` are those of `views.reasons`.
    """
    style.new_axes(axes, f"{reasons['segments'].sum():,} segments rejected", x="segments")
    bars = axes.barh(np.arange(len(reasons)), reasons["segments"], **style.bar_style(*_REJECTED))
    texts = [
        f"{reason}: {number:,}"
        for reason, number in reasons.select("reason", "segments").iter_rows()
    ]
    for row, (text, hours) in enumerate(zip(texts, reasons["hours"], strict=True)):
        plot.show_on_hover(
            axes, f"{text} segments, {duration(3600 * hours)}", y=(row - 0.5, row + 0.5)
        )
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=style.SMALL)
    style.name_rows(axes, reasons["reason"].to_list())
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.margins(x=0.15)
    return f"Rejected segments: {', '.join(texts[:5]) or 'none'}"


@dataclass(frozen=True)
class _SplitShards:
    """The shards of a split: a table with `name`, `mb` and `segments`, and how they are drawn."""

    table: pl.DataFrame
    label: str
    style: tuple[str, str]  # color and hatch


def shards(corpus: str | Path) -> Plot:
    """Plot the size of each shard by split; a histogram if there are many."""
    table = open_corpus(corpus).shards.with_columns(mb=pl.col("bytes") / 1e6)
    parts = _shards_by_split(table)
    if len(table) > _MOST_BARS:
        plot = style.new_plot(3.4)
        axes = style.new_axes(plot.add_subplot(), "Shards", x="size [MB]", y="shards")
        style.draw_histogram(
            axes,
            [part.table["mb"].to_numpy() for part in parts],
            bins=40,
            styles=[part.style for part in parts],
            labels=[part.label for part in parts],
        )
    else:
        plot = style.new_plot(1.5 + 0.34 * len(table))
        axes = style.new_axes(plot.add_subplot(), "Shards", x="size [MB]")
        _draw_shard_bars(plot, axes, parts)
    labels = "; ".join(part.label for part in parts)
    plot.alt_text = f"Sizes of {len(table):,} shards, {table['mb'].sum():,.4g} MB in all. {labels}"
    style.add_legend(plot)
    return plot


def _shards_by_split(table: pl.DataFrame) -> list[_SplitShards]:
    """Return the shards of each split, in the usual order of splits."""
    parts = []
    names = ordered_splits(table["split"].unique())
    for name, split_style in _split_styles(names).items():
        part = table.filter(pl.col("split") == name)
        label = f"{name}, {part['segments'].sum():,} clips"
        parts.append(_SplitShards(part, label, split_style))
    return parts


def _draw_shard_bars(plot: Plot, axes: Axes, parts: Sequence[_SplitShards]) -> None:
    """Draw a bar for the size of each shard, those of a split one below the other."""
    names: list[str] = []
    for part in parts:
        rows = np.arange(len(part.table)) + len(names)
        axes.barh(rows, part.table["mb"], **style.bar_style(*part.style), label=part.label)
        for name, size, clips in part.table.select("name", "mb", "segments").iter_rows():
            span = (len(names) - 0.5, len(names) + 0.5)
            plot.show_on_hover(axes, f"{name}\n{size:,.3g} MB, {clips:,} clips", y=span)
            names.append(name)
    style.name_rows(axes, names)


def _split_styles(splits: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the style of each split: color and hatch.

    Train, dev and test always have the same style, and others take the rest in turn.
    """
    fixed = dict(zip(SPLITS, style.STYLES, strict=False))
    rest = cycle(style.STYLES[len(SPLITS) :])
    return {name: fixed.get(name) or next(rest) for name in splits}
