"""Bounds that reviewers moved, kept as ``W/reviews/corrections.jsonl``, and the step that puts them into the segments table.

The log only grows, like that of the verdicts: what holds for a segment is its last line, and a line without bounds takes the
correction back. Positions are samples at the recording's own rate, half open. Nothing of it is in the segments table until
`correct_bounds` is called, which says what it changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nbaudio.core.report import Report, first_lines
from nbaudio.core.tables import WORD_TIMES
from nbaudio.storage.atomic import append_lines, read_lines
from nbaudio.storage.workspace import Workspace

_LOG = "reviews/corrections.jsonl"


@dataclass(frozen=True)
class Correction:
    """Where a reviewer says that a segment begins and ends.

    Attributes:
        segment_id: the segment.
        start_sample: first sample; None where the correction is taken back.
        end_sample: one past the last sample; None where the correction is taken back.
        was_start: first sample as it was in the table.
        was_end: one past the last sample as it was in the table.
        reviewer: who says it.
        time: when, ISO 8601 in UTC.
    """

    segment_id: str
    start_sample: int | None
    end_sample: int | None
    was_start: int
    was_end: int
    reviewer: str
    time: str


_SCHEMA = pl.Schema(
    {
        "segment_id": pl.String,
        **dict.fromkeys(("start_sample", "end_sample", "was_start", "was_end"), pl.Int64),
        "reviewer": pl.String,
        "time": pl.String,
    }
)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Correction).decode


def append_corrections(workspace: Workspace | str | Path, rows: Iterable[Correction]) -> None:
    """Add corrections to the log, in order; they are on the disk when this returns.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> append_corrections(workspace, [Correction("s", 80, 900, 100, 900, "ana", "2026-11-21T03:00:00Z")])
        >>> corrections(workspace)["start_sample"].to_list()
        [80]
    """
    append_lines(Workspace.open(workspace).path / _LOG, map(_encode, rows))


def corrections(workspace: Workspace | str | Path) -> pl.DataFrame:
    """What holds now: the last correction of each segment, in the order in which they were made.

    Returns:
        The attributes of `Correction` as columns; no bound is null.

    Raises:
        InputError: a line of the log is none of ours.
    """
    said = _log(Workspace.open(workspace))
    log = pl.DataFrame({name: [getattr(one, name) for one in said] for name in _SCHEMA}, schema=_SCHEMA)
    last = log.unique("segment_id", keep="last", maintain_order=True)
    return last.filter(pl.col("start_sample").is_not_null() & pl.col("end_sample").is_not_null())


def uncorrected_bounds(workspace: Workspace, segments: pl.DataFrame) -> pl.DataFrame:
    """Segments with the bounds that they had before any was moved, and nobody in `corrected_by`.

    Args:
        workspace: whose segments they are.
        segments: its segments table, or some of its rows.

    Raises:
        InputError: a line of the log is none of ours.
    """
    if "corrected_by" not in segments.columns or not segments["corrected_by"].count():
        return segments
    moved = segments.with_row_index("row").filter(pl.col("corrected_by").is_not_null())
    bounds = {key: (start, end) for key, start, end in moved.select("segment_id", "start_sample", "end_sample").iter_rows()}
    # Moved twice, a segment has two lines, the later of which begins where the earlier one ends.
    for line in reversed(_log(workspace)):
        if bounds.get(line.segment_id) == (line.start_sample, line.end_sample):
            bounds[line.segment_id] = (line.was_start, line.was_end)
    starts, ends = zip(*(bounds[key] for key in moved["segment_id"]), strict=True)
    back = moved.select("row", start_sample=pl.Series(starts, dtype=pl.Int64), end_sample=pl.Series(ends, dtype=pl.Int64))
    if "word_times" in segments.columns:
        rates = workspace.recordings.select("recording_id", rate="sampling_rate")
        with_new = moved.with_columns(new_start=back["start_sample"]).join(
            rates, on="recording_id", how="left", maintain_order="left"
        )
        back = back.with_columns(word_times=pl.Series([_moved(row) for row in with_new.iter_rows(named=True)], dtype=WORD_TIMES))
    restored = segments.with_row_index("row").update(back, on="row", maintain_order="left").drop("row")
    return restored.with_columns(corrected_by=pl.lit(None, dtype=pl.String))


def correct_bounds(workspace: Workspace | str | Path) -> Report:
    """Put the corrected bounds into the segments table.

    `start_sample` and `end_sample` change, and word times move with the start; `source_start` and `source_end` stay what the
    source said, and `corrected_by` names the reviewer. Called again it changes nothing more. A correction of bounds that are no
    longer those of the table is left out and told as a problem.

    Args:
        workspace: the workspace or its folder.

    Returns:
        How many segments were corrected now and before, and by how much in all.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> segments = pl.DataFrame({"segment_id": ["s"], "recording_id": ["r"], "start_sample": [100], "end_sample": [900]})
        >>> workspace.save(recordings=pl.DataFrame({"recording_id": ["r"], "sampling_rate": [100]}), segments=segments)
        >>> append_corrections(workspace, [Correction("s", 80, 900, 100, 900, "ana", "2026-11-21T03:00:00Z")])
        >>> correct_bounds(workspace).facts["corrected_now"]
        1
        >>> workspace.segments["start_sample"].to_list()
        [80]
    """
    workspace = Workspace.open(workspace)
    segments = workspace.segments.with_row_index("row")
    asked = corrections(workspace).select(
        "segment_id", "was_start", "was_end", new_start="start_sample", new_end="end_sample", by="reviewer"
    )
    rates = workspace.recordings.select("recording_id", rate="sampling_rate")
    concerned = segments.join(asked, on="segment_id", maintain_order="left").join(rates, on="recording_id", how="left")
    done = (pl.col("start_sample") == pl.col("new_start")) & (pl.col("end_sample") == pl.col("new_end"))
    as_was = (pl.col("start_sample") == pl.col("was_start")) & (pl.col("end_sample") == pl.col("was_end"))
    todo = concerned.filter(as_was & ~done)
    strange = concerned.filter(~(as_was | done).fill_null(value=False))
    if len(todo):
        changed = todo.select(
            "row",
            start_sample="new_start",
            end_sample="new_end",
            corrected_by="by",
            word_times=pl.Series([_moved(row) for row in todo.iter_rows(named=True)], dtype=WORD_TIMES),
        )
        if "corrected_by" not in segments.columns:
            segments = segments.with_columns(corrected_by=pl.lit(None, dtype=pl.String))
        workspace.save(segments=segments.update(changed, on="row", maintain_order="left").drop("row"))
    facts = {
        "corrected_now": len(todo),
        "corrected_before": concerned.filter(done).height,
        "seconds_moved_now": todo.select(
            (
                ((pl.col("new_start") - pl.col("was_start")).abs() + (pl.col("new_end") - pl.col("was_end")).abs())
                / pl.col("rate")
            ).sum()
        ).item(),
    }
    problems = [f"{name}: its bounds are no longer those that were corrected" for name in strange["segment_id"]]
    report = Report("review correct-bounds", facts, problems=first_lines(problems, _LOG))
    workspace.save_report("correct_bounds", report.to_dict())
    return report


def _log(workspace: Workspace) -> list[Correction]:
    return read_lines(workspace.path / _LOG, _decode, "a correction")


def _moved(row: dict[str, Any]) -> list[dict[str, float]] | None:
    """Word times counted from the new start."""
    if row["word_times"] is None or not row["rate"]:
        return None
    shift = (row["start_sample"] - row["new_start"]) / row["rate"]
    return [{"start": time["start"] + shift, "end": time["end"] + shift} for time in row["word_times"]]
