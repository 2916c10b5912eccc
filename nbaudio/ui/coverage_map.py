"""Map of a recording and its transcripts: what `align` matched, what was moved, and what only one of them has."""

from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.collections import LineCollection

from nbaudio.core import tables
from nbaudio.core.errors import InputError
from nbaudio.storage.workspace import Workspace
from nbaudio.ui import plot_style as style
from nbaudio.ui.plot_style import Plot

_PLACES = ("source_start", "source_end", "document", "document_start", "document_end")
_LONGEST_TEXT = 200  # characters on hover


def coverage(workspace: str | Path | Workspace, recording_id: str | None = None) -> Plot:
    """Plot the transcripts of a recording (by default the first one) over its time, as `align` matched them.

    Lines are segments: in the order of the transcript, or moved. Bands are runs of words in no segment, heard or typed; the
    pointer shows their text.
    """
    workspace = Workspace.open(workspace)
    if not tables.table_path(workspace, "unmatched").is_file():
        raise InputError(f"{workspace.path}: has no unmatched.parquet, which 'nbaudio align' writes")
    ids = workspace.recordings["recording_id"].to_list()
    if (chosen := recording_id or next(iter(ids), "")) not in ids:
        raise InputError(f"there is no recording {chosen!r}; known are such as {', '.join(ids[:5])}")
    seconds = pl.col("source_start", "source_end").cast(pl.Float64)
    segments = tables.scan(workspace, ["recording_id", *_PLACES]).filter(recording_id=chosen).collect()
    segments = segments.with_columns(seconds).sort("source_start")
    shared = pl.col("recording_id").is_null() & pl.col("document").is_in(segments["document"].implode())
    unmatched = workspace.table("unmatched").filter((pl.col("recording_id") == chosen) | shared)
    typed, heard = unmatched.filter(kind="text"), unmatched.filter(kind="audio")
    documents = pl.concat([segments.select("document", "document_end"), typed.select("document", "document_end")])
    ends = documents.group_by("document").agg(pl.max("document_end")).sort("document")
    offsets = dict(zip(ends["document"], np.cumsum([0, *ends["document_end"]]).tolist(), strict=False))
    length, size = max([1.0, *segments["source_end"], *heard["source_end"]]), max(1, sum(ends["document_end"]))
    scale, unit = style.time_unit(length)
    title = f"Transcripts and recording: {chosen}"
    plot = style.new_plot(5.2)
    axes = style.new_axes(plot.add_subplot(), title, x=f"time in the recording [{unit}]", y="characters of the transcripts")
    axes.set(xlim=(0, length / scale), ylim=(size, 0))
    for row in heard.iter_rows(named=True):
        span = (row["source_start"] / scale, row["source_end"] / scale)
        axes.axvspan(*span, color=style.ORANGE, alpha=0.35, linewidth=0)
        plot.show_on_hover(axes, f"heard only: {_shortened(row['text'])}", x=span)
    for row in typed.iter_rows(named=True):
        span = (row["document_start"] + offsets[row["document"]], row["document_end"] + offsets[row["document"]])
        axes.axhspan(*span, color=style.RED, alpha=0.25, linewidth=0)
        plot.show_on_hover(axes, f"typed only: {_shortened(row['text'])}", y=span)
    sums = []
    first = segments["document_start"] + segments["document"].replace_strict(offsets, return_dtype=pl.Int64)
    starts, sizes = first.to_numpy(), (segments["document_end"] - segments["document_start"]).to_numpy()
    in_order = _in_order(starts, sizes)
    times = segments.select("source_start", "source_end").to_numpy() / scale
    lines = np.stack((times, np.stack((starts, starts + sizes), axis=1)), axis=2)
    for label, color, chosen_lines in (("in order", style.BLUE, in_order), ("moved", style.GREEN, ~in_order)):
        share = f"{sizes[chosen_lines].sum() / size:.0%} of the transcripts"
        axes.add_collection(LineCollection([*lines[chosen_lines]], colors=color, linewidths=3, label=f"{label}: {share}"))
        sums.append(f"{label}: {share}")
    for label, color, share in (
        (
            "typed only",
            style.RED,
            f"{int((typed['document_end'] - typed['document_start']).sum()) / size:.0%} of the transcripts",
        ),
        ("heard only", style.ORANGE, style.show_time(float((heard["source_end"] - heard["source_start"]).sum()))),
    ):
        axes.fill_between([], [], color=color, alpha=0.35, label=f"{label}: {share}")
        sums.append(f"{label}: {share}")
    plot.alt_text = f"{title}. {'; '.join(sums)}"
    style.add_legend(plot)
    return plot


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_TEXT else f"{words[:_LONGEST_TEXT]}…"


def _in_order(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return which segments are in the heaviest sequence with ascending starts; the others were moved."""
    weight, before = np.zeros(len(starts)), np.full(len(starts), -1)
    for number in range(len(starts)):
        earlier = np.where(starts[:number] < starts[number], weight[:number], 0)
        if len(earlier) and earlier.max() > 0:
            before[number] = earlier.argmax()
        weight[number] = sizes[number] + earlier.max(initial=0)
    chosen = np.zeros(len(starts), np.bool_)
    number = int(weight.argmax()) if len(weight) else -1
    while number >= 0:
        chosen[number] = True
        number = before[number]
    return chosen
