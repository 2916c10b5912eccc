"""Gold: segments that were listened to and found right, fit for a test set that can be trusted."""

from collections.abc import Set

import polars as pl

from nbaudio.review.record import content_hashes
from nbaudio.review.verdicts import verdicts
from nbaudio.workspace import Workspace


def gold_ids(workspace: Workspace, segments: pl.DataFrame) -> Set[str]:
    """Segments of which every reviewer who judged them, as they are now, says ``ok``.

    A verdict on an earlier text or on other times of a segment says nothing of it any more, and does not count.

    Args:
        workspace: holds the verdicts.
        segments: its segments table.

    Raises:
        InputError: the log of verdicts cannot be read.
    """
    said = verdicts(workspace).select("segment_id", "content", "verdict")
    judged = segments.filter(pl.col("segment_id").is_in(said["segment_id"].implode()))
    now = judged.select("segment_id", content=pl.Series(content_hashes(judged), dtype=pl.String))
    right = said.join(now, on=["segment_id", "content"]).group_by("segment_id").agg((pl.col("verdict") == "ok").all())
    return set(right.filter("verdict")["segment_id"])
