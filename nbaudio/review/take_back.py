"""Take a round back of which nothing was judged: `review export --undo`.

The round stays on record in ``W/reviews/taken_back``, with what it could draw and in which order.
Its segments may be trained on again, and the next round begins with its rows.
"""

import shlex
import shutil
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.atomic import atomic_write
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.review.draws import PICKED
from nbaudio.review.export_files import exported_files
from nbaudio.review.state import TAKEN_BACK, ReviewRecord, ReviewState, frame_table, reviewed_ids
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_path


def take_back(workspace: Workspace | str | Path, review: str) -> Report:
    """Take a round back of which nothing was judged.

    Args:
        workspace: the workspace or its folder.
        review: the name of the round.

    Returns:
        How many segments may be trained on again, what the next round begins with, and which files
        must not be sent or judged any more.

    Raises:
        InputError: there is no such round, it was taken back before, or somebody has judged a
            segment of it.
    """
    state = ReviewState.load(workspace)
    record = _record_to_take_back(state, review)
    _move_record(state, record)
    state = ReviewState(state.workspace)
    report = Report("review export", _facts(state, record), _warnings(state, record))
    state.workspace.save_report("review_undo", report.to_dict())
    return report


def _record_to_take_back(state: ReviewState, review: str) -> ReviewRecord:
    """Return the record of a round; raise InputError if it cannot be taken back."""
    record = state.records.get(review)
    place = state.workspace.path
    if record is None and review in {taken_back.name for taken_back in state.taken_back.values()}:
        raise InputError(f"{place}: review {review!r} has been taken back already")
    if record is None:
        names = ", ".join(state.records) or "none"
        raise InputError(f"{place}: there is no review {review!r}; known are {names}")
    if judged := _count_judged(state, record):
        raise InputError(
            f"{place}: review {review!r} cannot be taken back: {judged:,} of its "
            f"{len(record.segment_ids):,} segments were judged or corrected"
        )
    return record


def _count_judged(state: ReviewState, record: ReviewRecord) -> int:
    """Return how many segments of a review have verdicts or corrections, also as control rows.

    These have a line in the log of verdicts under the review's name, also one that was withdrawn
    since, or a line in the log of corrected boundaries since the review was exported.
    """
    is_in_review = pl.col("segment_id").is_in(record.segment_ids)
    verdicts = state.verdict_log.filter(is_in_review, review=record.name)
    control_verdicts = state.control_verdict_log.filter(review=record.name)
    corrections = state.correction_log.slice(record.corrections).filter(is_in_review)
    return len(
        {
            *verdicts["segment_id"],
            *control_verdicts["segment_id"],
            *corrections["segment_id"],
        }
    )


def _move_record(state: ReviewState, record: ReviewRecord) -> None:
    """Move the record of a review to those that were taken back, with its frame.

    A kill at any moment leaves the record in one of the two places, and its frame beside it.
    """
    reviews = state.workspace.path / "reviews"
    folder = reviews / TAKEN_BACK
    folder.mkdir(exist_ok=True)
    name = _free_name(folder, record.name)
    frame = table_path(state.workspace, frame_table(record.name))
    if frame.exists():
        copy = table_path(state.workspace, frame_table(f"{TAKEN_BACK}/{name}"))
        with atomic_write(copy) as partial:
            shutil.copyfile(frame, partial)
    (reviews / f"{record.name}.json").replace(folder / f"{name}.json")
    frame.unlink(missing_ok=True)


def _free_name(folder: Path, name: str) -> str:
    """Return the name, with a number if a review of that name was taken back before."""
    number = 1
    free = name
    while (folder / f"{free}.json").exists():
        number += 1
        free = f"{name}-{number}"
    return free


def _facts(state: ReviewState, record: ReviewRecord) -> dict[str, Any]:
    """Return the facts of the report, once the review is taken back."""
    back = set(record.segment_ids) - reviewed_ids(state)
    workspace = shlex.quote(str(state.workspace.path))
    facts: dict[str, Any] = {
        "taken_back": record.name,
        "segments": len(record.segment_ids),
        "back_for_training": len(back),
        "rounds_taken_back": len(state.taken_back),
    }
    if record.strategy != PICKED:
        facts["next_round"] = "begins with the same rows in the same order, whatever it draws"
    facts["next"] = f"nbaudio select {workspace}: its segments may be trained on again"
    return facts


def _warnings(state: ReviewState, record: ReviewRecord) -> list[str]:
    """Return a line that names the files of the review, if there are any."""
    files = exported_files(state.workspace).get(record.name, [])
    if not files:
        return []
    return [f"do not send or judge {', '.join(files)}: verdicts in them are not imported"]
