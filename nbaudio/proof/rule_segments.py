"""The segments of fixed rules, and what the draws say about them.

See `nbaudio.review.fixed_rules` for how rules are fixed, and docs/evidence-method.md for why.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.proof.betting import Array, Bools, Draws, Frame, Ints
from nbaudio.review.fixed_rules import ALL_SEGMENTS, FixedRule
from nbaudio.review.rounds import OUTCOMES

#: The verdicts in the order of their numbers.
VERDICTS = tuple(OUTCOMES.categories)
#: The share of an error that the first rule has; the k-th one has 1 / k^2 of it.
FIRST_SHARE = 6 / math.pi**2
#: The first draw that counts for what is not in a rule.
NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class RuleSegments:
    """The segments of a rule, or those of one split in it; arrays are by row of `read_sums`.

    `first_draw` is the place, in the order of all draws, of the first draw that was made after the
    segments joined the rule.
    """

    number: int  # its place in the order of rules, from 1
    first_draw: Ints
    is_there: Bools  # which rows are not removed segments
    removed_hours: Array  # what removed segments count for
    removed_words: Array

    @property
    def inside(self) -> Bools:
        """Which segments of the population the rule takes."""
        return np.not_equal(self.first_draw, NEVER) & self.is_there

    @property
    def removed(self) -> Bools:
        """Which removed segments the rule takes."""
        return np.not_equal(self.first_draw, NEVER) & ~self.is_there

    def removed_amounts(self, what: str) -> Array:
        """Return what removed segments count for by `segments`, `hours` or `words`."""
        amounts = {
            "segments": np.ones(len(self.first_draw)),
            "hours": self.removed_hours,
            "words": self.removed_words,
        }
        return np.where(self.removed, amounts[what], 0.0)

    def error(self, whole: float) -> float:
        """Return its share of an error that all rules share."""
        return whole * FIRST_SHARE / self.number**2


def rule_segments(rows: pl.DataFrame, rule: FixedRule, split: str | None = None) -> RuleSegments:
    """Return the segments of a rule, of rows of `read_sums`.

    With a split, these are only the segments that the rule gives to it, or to none.
    """
    of_rule = f"{{}}_rule_{rule.number}".format
    first_draw = pl.col(of_rule("first_draw"))
    if split is not None:
        first_draw = pl.when(pl.col(of_rule("split")).fill_null(split) == split).then(first_draw)
    columns = rows.select(
        "is_there",
        first_draw=first_draw.fill_null(NEVER),
        hours=pl.col(of_rule("seconds")).fill_null(0.0) / 3600,
        words=pl.col(of_rule("words")).fill_null(0).cast(pl.Float64),
    )
    return RuleSegments(
        rule.number,
        columns["first_draw"].to_numpy(),
        columns["is_there"].to_numpy(),
        columns["hours"].to_numpy(),
        columns["words"].to_numpy(),
    )


def all_segments(
    is_there: Bools, inside: Bools, *, mean_hours: float = 0.0, mean_words: float = 0.0
) -> RuleSegments:
    """Return all segments that a round could draw, or could be reviewed, as a rule.

    Args:
        is_there: which rows are not removed segments.
        inside: which of them the rule takes.
        mean_hours: what each removed segment counts for by hours.
        mean_words: what each removed segment counts for by words.
    """
    size = len(is_there)
    return RuleSegments(
        ALL_SEGMENTS,
        np.where(inside | ~is_there, 0, NEVER),
        is_there,
        np.full(size, mean_hours),
        np.full(size, mean_words),
    )


def is_in_a_frame(frames: tuple[Frame, ...], size: int) -> Bools:
    """Return which of `size` rows a round could draw."""
    is_drawable = np.zeros(size, dtype=np.bool_)
    for frame in frames:
        is_drawable |= frame.stratum >= 0
    return is_drawable


@dataclass(frozen=True)
class RuleDraws:
    """What the draws say about the segments of a rule."""

    rule: RuleSegments
    draws: Draws

    def found_removed(self, what: str) -> float:
        """Return what its removed segments count for that were drawn, and are wrong or unsure."""
        faulty = np.unique(self.draws.item[self.draws.wrong | self.draws.unsure])
        return float(self.rule.removed_amounts(what)[faulty].sum())


def draws_about(
    rule: RuleSegments, draws: Draws, *, order: Ints, label: NDArray[np.int8]
) -> RuleDraws:
    """Return the draws as they count for a rule.

    A draw counts for a segment if it was made after the segment joined the rule. Items that earlier
    draws judged count as known, not as a sample of others. Removed segments stay in a rule as they
    were drawn.

    Args:
        rule: the segments of the rule.
        draws: all draws.
        order: the place of each round's draw in the order of all draws.
        label: the verdict on each row, -1 for none.
    """
    frames = tuple(
        replace(
            frame,
            valid=(frame.valid | rule.removed) & (frame.stratum >= 0) & (rule.first_draw <= place),
        )
        for frame, place in zip(draws.frames, order.tolist(), strict=True)
    )
    about = replace(
        judged_apart(draws, frames, label), replaced=draws.replaced & ~rule.removed[draws.item]
    )
    return RuleDraws(rule, about)


def judged_apart(draws: Draws, frames: tuple[Frame, ...], label: NDArray[np.int8]) -> Draws:
    """Return draws from frames; judged items that are in no frame are those `outside`."""
    valid = [np.zeros(len(label), dtype=np.bool_), *(frame.valid for frame in frames)]
    outside = np.flatnonzero((label >= 0) & ~np.any(valid, axis=0))
    return replace(
        draws,
        frames=frames,
        outside=outside,
        outside_wrong=label[outside] == VERDICTS.index("wrong"),
        outside_unsure=label[outside] == VERDICTS.index("unsure"),
    )
