"""What comes next when a reviewer has judged all segments: disagreements, reviewers still to come, `evidence`."""

import shlex

import polars as pl

from nbaudio.review.annotator_agreement import disagreements
from nbaudio.review.state import ReviewRecord, ReviewState


def left_to_judge(state: ReviewState, record: ReviewRecord) -> dict[str, int]:
    """Return how many segments of a review have no verdict yet, by reviewer; an empty name if it has no reviewers."""
    shown = (pl.col("review") == record.name) | pl.col("content").is_in(record.contents)
    said = state.verdicts.filter(shown).select("reviewer", "segment_id")
    left = {}
    for reviewer, ids in record.shares().items():
        done = said.filter(reviewer=reviewer) if reviewer else said
        left[reviewer] = len(set(ids).difference(done["segment_id"]))
    return left


def next_step(state: ReviewState, review: str) -> str:
    """Return one line about what comes next after a review; for verdicts without one, `review` is no name of a record."""
    record = state.records.get(review)
    apart = disagreements(state)
    lines = []
    if record:
        apart = apart.filter(pl.col("segment_id").is_in(record.segment_ids))
    if count := len(apart):
        lines.append(f"reviewers disagree on {count:,} segment{'s' * (count > 1)}: nbaudio.review.disagreements(W) lists them")
    if record is None:
        lines.append("next: 'nbaudio review export' draws a sample, whose verdicts prove how good the labels are")
    elif left := {name: count for name, count in left_to_judge(state, record).items() if count}:
        sizes = {name: len(ids) for name, ids in record.shares().items()}
        others = ", ".join(f"{name or 'others'} ({count:,} of {sizes[name]:,} segments)" for name, count in left.items())
        lines.append(f"still to come: {others}")
    else:
        lines.append(f"next: nbaudio evidence {shlex.quote(str(state.workspace.path))}")
    return "; ".join(lines)
