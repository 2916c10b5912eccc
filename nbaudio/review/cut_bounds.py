"""Propose boundaries for segments whose speech runs through them, in the nearest silence outside.

Nothing is changed until a person accepts the proposals.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nbaudio.audio.recordings import Recording, open_recording, resample_window
from nbaudio.audio.signals import speech_frames
from nbaudio.core import tables
from nbaudio.core.channels import source_channel
from nbaudio.core.dataframes import Frame, Ids, as_ids, as_polars
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.row_values import ROW
from nbaudio.core.times import utc_now
from nbaudio.core.tracebacks import interruptible
from nbaudio.review.state import Correction, ReviewState, append_corrections, corrections
from nbaudio.sources.audio_folder import required_audio
from nbaudio.storage.location import location
from nbaudio.storage.workspace import Workspace

_INSIDE_S = 5.0  # heard inside of a boundary, to tell speech from noise
_MARGIN_S = 0.05  # of silence that is kept
_BOUNDS = ("start_sample", "end_sample")
_PROPOSED = ("proposed_start", "proposed_end")
_READ = pl.Schema(
    {
        "recording_id": pl.String,
        **dict.fromkeys(_BOUNDS, pl.Int64),
        "cut_start": pl.Boolean,
        "cut_end": pl.Boolean,
    }
)
_CODES = pl.Schema(dict.fromkeys(("recording_id", "source_channel"), pl.Categorical()))


@interruptible
def propose_bounds(
    workspace: str | Path | Workspace, segment_ids: Ids | None = None, *, most_s: float = 0.5
) -> pl.DataFrame:
    """Propose boundaries for segments with `cut_start` or `cut_end`.

    Boundaries move outward to the nearest silence, if there is one. A boundary moves by `most_s` at
    most, never into a neighboring segment of its channel or what is proposed for it, and never past
    the recording. Nothing is changed: `accept_bounds` logs proposals as corrections.

    Args:
        workspace: a measured workspace or its folder.
        segment_ids: only these segments; by default all that are cut.
        most_s: by how many seconds a boundary may move, above 0 and at most 10.

    Returns:
        `segment_id`, `start_sample`, `end_sample`, `proposed_start`, `proposed_end`, and
        `reviewers` who have judged or corrected the segment (null for none); only segments with a
        proposal, in the order of the recordings; none before `measure`.

    Raises:
        InputError: a segment is unknown, or `most_s` is out of range.
    """
    state = ReviewState.load(workspace)
    if not 0 < most_s <= 10:
        raise InputError(f"most_s={most_s}: must be above 0 and at most 10 seconds")
    cut = _with_room(state.workspace, most_s)
    if segment_ids is not None:
        wanted = pl.Series(as_ids(segment_ids), dtype=pl.String)
        held = tables.read(state.workspace, ["segment_id"], where=tables.has_id(wanted))[
            "segment_id"
        ]
        for missing in wanted.filter(~wanted.is_in(held.implode())).head(1):
            raise InputError(f"{state.workspace.path}: no segment {missing!r}")
        cut = cut.filter(tables.has_id(wanted))
    channel = state.workspace.settings.get("measured", {}).get("channel", "mix")
    proposed = pl.DataFrame(
        list(_proposals(state.workspace, cut, channel)),
        dict.fromkeys(_PROPOSED, pl.Int64),
        orient="row",
    )
    # A silence between two cut segments is shared: neither gets what is proposed for the other.
    following = pl.col("proposed_start").shift(-1).over("recording_id", "source_channel")
    end = pl.max_horizontal("end_sample", pl.min_horizontal("proposed_end", following))
    moved = (pl.col("proposed_start") < pl.col("start_sample")) | (
        pl.col("proposed_end") > pl.col("end_sample")
    )
    said = pl.concat(
        [
            state.verdicts.select("segment_id", "reviewer"),
            corrections(state).select("segment_id", "reviewer"),
        ]
    )
    who = (
        said.unique()
        .sort("reviewer")
        .group_by("segment_id")
        .agg(reviewers=pl.col("reviewer").str.join(", "))
    )
    found = cut.hstack(proposed).with_columns(proposed_end=end).filter(moved)
    found = found.join(who, on="segment_id", how="left", maintain_order="left")
    return found.select("segment_id", *_BOUNDS, *_PROPOSED, "reviewers")


def accept_bounds(workspace: str | Path | Workspace, proposals: Frame, *, reviewer: str) -> int:
    """Log proposed boundaries as corrections by a reviewer.

    `review.correct_bounds` applies the log to the table.

    Args:
        workspace: the workspace or its folder.
        proposals: rows of `propose_bounds`, in polars or pandas, also edited; those that are left
            out stay as they are.
        reviewer: the name that is logged.

    Returns:
        How many corrections were logged.

    Raises:
        InputError: the reviewer has no name, a column is missing, or a segment is unknown, has
            other boundaries by now, or would be empty or outside of its recording.
    """
    workspace = Workspace.open(workspace)
    rows = as_polars(proposals, "proposals")
    if not reviewer.strip():
        raise InputError("reviewer: a name is needed, under which corrections are stored")
    wanted = ("segment_id", *_BOUNDS, *_PROPOSED)
    if missing := [name for name in wanted if name not in rows.columns]:
        raise InputError(
            f"proposals: no column {missing[0]}; expected the columns {', '.join(wanted)}"
        )
    is_given = tables.has_id(rows["segment_id"].cast(pl.String))
    now = tables.read(workspace, ("segment_id", "recording_id", *_BOUNDS), where=is_given).unique(
        "segment_id", keep="first"
    )
    now = now.join(
        workspace.recordings.select("recording_id", "num_samples"), on="recording_id", how="left"
    )
    known = now.select("segment_id", "num_samples", was_start="start_sample", was_end="end_sample")
    rows = rows.select(wanted).join(known, on="segment_id", how="left", maintain_order="left")
    same = (pl.col("start_sample") == pl.col("was_start")) & (
        pl.col("end_sample") == pl.col("was_end")
    )
    start, end = (pl.col(name) for name in _PROPOSED)
    inside = (start >= 0) & (start < end) & (end <= pl.col("num_samples"))
    for key in rows.filter(~(same & inside).fill_null(value=False))["segment_id"].head(1):
        raise InputError(
            f"proposals: {key}: unknown, changed since it was proposed, "
            "or not inside of its recording"
        )
    by = {"reviewer": pl.lit(reviewer.strip()), "time": pl.lit(utc_now())}
    found = rows.select(
        "segment_id", "was_start", "was_end", start_sample=start, end_sample=end, **by
    )
    append_corrections(workspace, (Correction(**line) for line in found.iter_rows(named=True)))
    return len(rows)


def _with_room(workspace: Workspace, most_s: float) -> pl.DataFrame:  # noqa: PLR0914
    """Return cut segments with audio in order, and how far each may reach.

    `room_start` and `room_end` are in samples.
    """
    name = str(tables.table_path(workspace))
    parts = (
        tables.conform(part.with_columns(source_channel(part)), _READ, name)
        .drop("segment_id")
        .cast(_CODES)
        for part in tables.read_batches(workspace, columns=("segment_id", "source_channel", *_READ))
    )
    rows = pl.concat(parts).with_row_index(ROW)
    recordings = workspace.recordings.unique("recording_id", keep="first")
    facts = recordings.select("recording_id", "sampling_rate", "num_samples").cast(
        {"recording_id": pl.Categorical()}
    )
    rows = rows.join(facts, on="recording_id", maintain_order="left")
    rows = rows.filter(
        pl.col("start_sample").is_between(0, "end_sample")
        & (pl.col("end_sample") <= pl.col("num_samples"))
    )
    window = (*_CODES, *_BOUNDS)
    is_cut = pl.col("cut_start") | pl.col("cut_end")
    # The ids of segments with equal windows give their order.
    rows = rows.sort(window)
    same = pl.all_horizontal(pl.col(each).eq_missing(pl.col(each).shift()) for each in window)
    needed = rows.filter(is_cut.fill_null(value=False) | same | same.shift(-1, fill_value=False))[
        ROW
    ]
    ids = tables.read(workspace, ["segment_id"], where=pl.col(ROW).is_in(needed.implode()), row=ROW)
    rows = rows.join(ids, on=ROW, how="left").sort(*window, "segment_id")
    most = (pl.col("sampling_rate") * most_s).cast(pl.Int64)
    before = (
        pl.col("end_sample").cum_max().shift(1).over("recording_id", "source_channel").fill_null(0)
    )
    after = (
        pl.col("start_sample")
        .shift(-1)
        .over("recording_id", "source_channel")
        .fill_null(pl.col("num_samples"))
    )
    start, end = (pl.col(name) for name in _BOUNDS)
    room_start = pl.min_horizontal(start, pl.max_horizontal(start - most, before))
    rows = rows.with_columns(
        room_start=room_start, room_end=pl.max_horizontal(end, pl.min_horizontal(end + most, after))
    )
    paths = recordings.select("recording_id", "path")
    return (
        rows.filter(is_cut)
        .cast(dict.fromkeys(_CODES, pl.String))
        .join(paths, on="recording_id", maintain_order="left")
    )


def _proposals(workspace: Workspace, cut: pl.DataFrame, channel: str) -> Iterator[tuple[int, int]]:
    """Yield the proposed bounds of each segment.

    Where its recording cannot be read, they are those that it has.
    """
    if cut.height:
        required_audio(workspace, cut["recording_id"])
    for (_, path), rows in cut.group_by("recording_id", "path", maintain_order=True):
        bounds = rows.select(*_BOUNDS).rows()
        try:
            with open_recording(
                location(workspace.audio or "") / str(path), windows=len(rows)
            ) as recording:
                bounds = [_moved(recording, row, channel) for row in rows.iter_rows(named=True)]
        except AudioError:
            pass  # nothing is proposed
        yield from bounds


def _moved(recording: Recording, row: Mapping[str, Any], channel: str) -> tuple[int, int]:
    """Return start and end of a segment in the nearest silence outside.

    They stay as they are if there is none, or nothing can be read.
    """
    start = row["start_sample"]
    end = row["end_sample"]
    rate = recording.sampling_rate
    inside = int(_INSIDE_S * rate)
    margin = int(_MARGIN_S * rate)
    found = {"start": start, "end": end}
    heard = {
        "start": (row["room_start"], min(end, start + inside)),
        "end": (max(start, end - inside), row["room_end"]),
    }
    for side, (first, last) in heard.items():
        if not row[f"cut_{side}"] or row[f"room_{side}"] == found[side]:
            continue
        try:
            samples = resample_window(
                recording, first, last, rate=None, channel=row["source_channel"] or channel
            )
        except AudioError:
            continue
        is_speech, hop_s = speech_frames((samples / 32768).astype(np.float32), rate)
        hop = round(hop_s * rate)
        silent = first + np.flatnonzero(~is_speech) * hop  # where silent hops begin
        if side == "end":
            nearest = [
                min(row["room_end"], int(each) + margin) for each in silent[silent >= end][:1]
            ]
        else:
            nearest = [
                max(row["room_start"], int(each) + hop - margin)
                for each in silent[silent + hop <= start][-1:]
            ]
        found[side] = nearest[0] if nearest else found[side]
    return found["start"], found["end"]
