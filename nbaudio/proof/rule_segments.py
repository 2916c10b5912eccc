"""The segments of fixed rules, and what the draws say about them.

See `nbaudio.review.fixed_rules` for how rules are fixed, and docs/evidence.md for why.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.proof.betting import Array, Bools, Draws, Frame, Ints, Values
from nbaudio.review.fixed_rules import ALL_SEGMENTS, FixedRule
from nbaudio.review.population import Population
from nbaudio.tables import workspace_tables

#: The kinds of labels, in the order of their numbers.
LABELS = ("right", "wrong", "unsure")
#: The share of an error that the first rule has; the k-th one has 1 / k^2 of it.
FIRST_SHARE = 6 / math.pi**2
_REMOVED = {"first_draw": pl.Int32, "seconds": pl.Float64, "words": pl.Int64}
#: The first draw that counts for what is not in a rule.
NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class RemovedSegments:
    """Segments of a rule that are no segments of the workspace any more.

    Arrays have a value for each; `keys` are the hashes of their ids, or of their tombstones.
    """

    keys: NDArray[np.uint64]
    first_draw: Ints
    seconds: Array
    words: Array

    def amounts(self, what: str) -> Array:
        """Return what each counts for by `segments`, `hours` or `words`."""
        if what == "segments":
            return np.ones(len(self.keys))
        return self.words if what == "words" else self.seconds / 3600


@dataclass(frozen=True)
class RuleSegments:
    """The segments of a rule, or those of one split in it.

    `first_draw` has a value for each segment of the population: the place, in the order of all
    draws, of the first draw that was made after the segment joined the rule.
    """

    number: int  # its place in the order of rules, from 1
    first_draw: Ints
    removed: RemovedSegments

    @property
    def inside(self) -> Bools:
        """Which segments of the population the rule takes."""
        return np.not_equal(self.first_draw, NEVER)

    def error(self, whole: float) -> float:
        """Return its share of an error that all rules share."""
        return whole * FIRST_SHARE / self.number**2


def read_rule(
    population: Population,
    rule: FixedRule,
    places_of: Callable[[pl.Series], Ints],
    *,
    split: str | None = None,
) -> RuleSegments:
    """Read the segments of a rule.

    Args:
        population: the segments.
        rule: the rule.
        places_of: what `Population.index` returns.
        split: only the segments that it gives to this split, or to none; None for all.
    """
    first_draw = np.full(len(population), NEVER, dtype=np.int32)
    removed = [pl.DataFrame(schema={"key": pl.UInt64, **_REMOVED})]
    for batch in workspace_tables.read_batches(population.state.workspace, rule.table):
        rows = batch if split is None else batch.filter(pl.col("split").fill_null(split) == split)
        places = places_of(rows["segment_id"])
        is_there = places >= 0
        first_draw[places[is_there]] = rows["first_draw"].to_numpy()[is_there]
        removed_rows = rows.filter(pl.Series(~is_there, dtype=pl.Boolean))
        removed.append(removed_rows.select(pl.col("segment_id").hash().alias("key"), *_REMOVED))
    return RuleSegments(rule.number, first_draw, _removed(pl.concat(removed)))


def _removed(rows: pl.DataFrame) -> RemovedSegments:
    """Return rows of a rule's table as arrays."""
    return RemovedSegments(
        rows["key"].to_numpy(),
        rows["first_draw"].to_numpy(),
        rows["seconds"].to_numpy(),
        rows["words"].cast(pl.Float64).to_numpy(),
    )


def all_segments(
    population: Population, frames: tuple[Frame, ...], further: Mapping[int, int]
) -> RuleSegments:
    """Return all segments that a round could draw, or could be reviewed, as a rule.

    Removed segments count for the average. `further` has the places of removed segments, behind
    those of the population, by the hashes of their ids.
    """
    size = len(population)
    inside = population.reviewable.copy()
    for frame in frames:
        inside |= frame.stratum[:size] >= 0
    numbers = population.numbers
    count = len(further)
    mean_seconds = float(numbers["seconds"][inside].mean()) if inside.any() else 0.0
    mean_words = float(numbers["words"][inside].mean()) if inside.any() else 0.0
    removed = RemovedSegments(
        np.fromiter(further, np.uint64, count),
        np.zeros(count, dtype=np.int32),
        np.full(count, mean_seconds),
        np.full(count, mean_words),
    )
    return RuleSegments(ALL_SEGMENTS, np.where(inside, 0, NEVER).astype(np.int32), removed)


@dataclass(frozen=True)
class RuleDraws:
    """What the draws say about the segments of a rule."""

    rule: RuleSegments
    draws: Draws
    places: Ints  # of its removed segments, behind those of the population
    num_removed: int  # how many items are behind the segments of the population
    faulty_removed: Bools  # which of its removed segments were drawn, and are wrong or unsure

    def values(self, amounts: Values, what: str) -> Values:
        """Return amounts of the rule's segments with those of its removed ones."""
        further = np.zeros(self.num_removed)
        further[self.places - len(amounts.inside)] = self.rule.removed.amounts(what)
        return replace(amounts, further=further)

    def found_removed(self, what: str) -> float:
        """Return what its removed segments count for that were drawn, and are wrong or unsure."""
        return float(self.rule.removed.amounts(what)[self.faulty_removed].sum())


def draws_about(
    rule: RuleSegments,
    draws: Draws,
    *,
    order: Ints,
    label: NDArray[np.int8],
    further: Mapping[int, int],
) -> RuleDraws:
    """Return the draws as they count for a rule.

    A draw counts for a segment if it was made after the segment joined the rule. What was judged by
    earlier draws is known, and is no sample of others. Removed segments stay in a rule as they were
    drawn.

    Args:
        rule: the segments of the rule.
        draws: all draws.
        order: the place of each round's draw in the order of all draws.
        label: the verdict on each segment of the population, -1 for none.
        further: places of removed segments by the hashes of their ids.
    """
    size = len(rule.first_draw) + len(further)
    places = np.array([further.get(int(key), -1) for key in rule.removed.keys], dtype=np.int64)
    is_drawable = places >= 0  # the others were never in a frame: nothing is known about them
    rule = replace(rule, removed=_only(rule.removed, is_drawable))
    places = places[is_drawable]
    is_removed = np.zeros(size, dtype=np.bool_)
    is_removed[places] = True
    frames = _frames_about(rule, draws.frames, order, places, is_removed)
    is_in_a_frame = np.zeros(size, dtype=np.bool_)
    for frame in frames:
        is_in_a_frame |= frame.valid
    judged_apart = np.flatnonzero((label >= 0) & ~is_in_a_frame[: len(label)])
    is_faulty = np.zeros(size, dtype=np.bool_)
    is_faulty[draws.item[draws.wrong | draws.unsure]] = True
    about = replace(
        draws,
        frames=frames,
        replaced=draws.replaced & ~is_removed[draws.item],
        known=judged_apart,
        known_wrong=label[judged_apart] == LABELS.index("wrong"),
        known_unsure=label[judged_apart] == LABELS.index("unsure"),
    )
    return RuleDraws(rule, about, places, len(further), is_faulty[places])


def _frames_about(
    rule: RuleSegments,
    frames: tuple[Frame, ...],
    order: Ints,
    places: Ints,
    is_removed: Bools,
) -> tuple[Frame, ...]:
    """Return frames whose items are valid if their draw was made after they joined the rule.

    Args:
        rule: the segments of the rule.
        frames: what each round could draw.
        order: the place of each round's draw in the order of all draws.
        places: of the rule's removed segments.
        is_removed: which items are removed segments of the rule.
    """
    first_draw = np.full(len(is_removed), NEVER, dtype=np.int64)
    first_draw[: len(rule.first_draw)] = rule.first_draw
    first_draw[places] = rule.removed.first_draw
    return tuple(
        replace(
            frame,
            valid=(frame.valid | is_removed) & (frame.stratum >= 0) & (first_draw <= place),
        )
        for frame, place in zip(frames, order.tolist(), strict=True)
    )


def _only(removed: RemovedSegments, chosen: Bools) -> RemovedSegments:
    """Return some of the removed segments."""
    return RemovedSegments(
        removed.keys[chosen],
        removed.first_draw[chosen],
        removed.seconds[chosen],
        removed.words[chosen],
    )
