"""A budget of hours or of disk, and which segments of train it has room for.

Conventions: hours are counted in whole microseconds and disk in whole bytes, so that sums are exact and the limit is never
passed.
"""

from decimal import Decimal
from typing import NamedTuple

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.guards import parse_size
from nbaudio.core.hashing import hash_column
from nbaudio.selection.sizes import ClipSize

MICROSECONDS = 1_000_000
"""Microseconds in a second."""


class Budget(NamedTuple):
    """The most that a corpus may take, and the cost of a segment (an expression over `micros`); `scale` of them are a `unit`."""

    limit: int
    cost: pl.Expr
    scale: int
    unit: str

    def show(self, amount: int) -> str:
        """An amount as a person reads it."""
        return f"{amount / self.scale:,.3f} {self.unit}"

    def total(self, segments: pl.DataFrame) -> int:
        """What segments with `micros` (duration, whole microseconds) take together."""
        return int(segments.select(self.cost.sum()).item())


def make_budget(*, hours: float | None = None, disk: int | str | None = None, clip_size: ClipSize) -> Budget | None:
    """A budget of hours, or of bytes on disk where a clip takes `clip_size`; None without either.

    Raises:
        InputError: both are given, or `disk` is no size.

    Examples:
        >>> from nbaudio.selection.sizes import PCM
        >>> make_budget(hours=1.5, clip_size=PCM).total(pl.DataFrame({"micros": [10, 20]}))
        30
    """
    if hours is not None and disk is not None:
        raise InputError(f"hours={hours} and disk={disk!r}: a corpus has one budget, give one of the two")
    if hours is not None:
        return Budget(int(Decimal(str(hours)) * 3600 * MICROSECONDS), pl.col("micros"), 3600 * MICROSECONDS, "hours")
    if disk is not None:
        cost = (pl.col("micros") * clip_size.per_second / MICROSECONDS).ceil().cast(pl.Int64) + clip_size.per_clip
        return Budget(parse_size(disk), cost, 10**9, "GB")
    return None


def over_budget(kept: pl.DataFrame, budget: Budget, *, seed: int, first: pl.Expr) -> pl.Series:
    """The train segments that a budget has no room for, when dev and test go first.

    Speakers take turns: in each turn every speaker that has any left gives one segment, speakers in seeded order, until one
    does not fit. A recording stands in for a speaker who is not known.

    Args:
        kept: `segment_id`, `recording_id`, `speaker_id`, `split` and `micros` of all that would be in.
        budget: the limit.
        seed: another one draws other segments.
        first: whether a segment goes before all others.

    Returns:
        Their `segment_id`.

    Raises:
        InputError: dev and test alone take more.
    """
    in_train = pl.col("split") == "train"
    held_out = budget.total(kept.filter(~in_train))
    if held_out > budget.limit:
        raise InputError(
            f"dev and test alone take {budget.show(held_out)}, the budget is {budget.show(budget.limit)}; "
            "ask for smaller ones or for a larger budget"
        )
    train = kept.filter(in_train).sort("segment_id")
    speaker = pl.coalesce(pl.lit("speaker ") + pl.col("speaker_id"), pl.lit("recording ") + pl.col("recording_id"))
    draw, place = (hash_column(train["segment_id"], f"{purpose} {seed}") for purpose in ("draw", "place"))
    # Places are drawn apart from draws: the first draw of a speaker with many segments is a small hash, and would come early.
    return (
        train.with_columns(turn=draw, place=place)
        .with_columns(turn=pl.col("turn").rank("ordinal").over(speaker))
        .sort(~first, "turn", "place", "segment_id")
        .filter(budget.cost.cum_sum() > budget.limit - held_out)["segment_id"]
    )
