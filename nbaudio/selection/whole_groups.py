"""Hold out speakers and recordings whole, the smallest first, until dev and test reach their goals.

A goal is a least size: the last group may exceed it, and nothing is cut off (docs/select.md).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbaudio.tables.schemas import SPLITS

Numbers = NDArray[Any]

OPEN = -1  # the split of a value that has none yet
TRAIN = SPLITS.index("train")
MOST_GOALS = 3  # what has more segments than so many goals is not held out whole

# Values are ordered by the segments that are lost for each one that is gained, in powers of two;
# those that lose less than half a segment are all alike.
_CHEAP_LOSS = 0.25
# Values of units near a value that are looked at: in total, and at once. Time and memory do not
# grow with the corpus.
_MAX_VISITS = 20_000_000
_BLOCK_VISITS = 1_000_000


@dataclass(frozen=True)
class WholeSplits:
    """Splits whose sizes are goals, so that values are held out whole.

    `largest` is the most segments of what is held out at once, `most_lost` the most segments of
    others that are lost in all. `fixed_train` is the number of segments that train has besides
    those to divide.
    """

    names: Collection[str] = ()
    largest: int = 0
    most_lost: int = 0
    fixed_train: int = 0


@dataclass(frozen=True)
class Units:
    """Distinct tuples of values of the grouping keys, and the segments that have them.

    `members` is a sparse matrix of units by values, 1 where a unit has a value. `size` is the
    number of values of each unit, `segments` that of its segments, `allowed` that of the segments
    that may be held out. `group` is that of each value: values that share a unit, directly or
    through others, are in one group. `group_hash`, by group, and `value_hash` decide ties.
    """

    members: Any
    size: Numbers
    segments: Numbers
    allowed: Numbers
    group: Numbers
    group_hash: Numbers
    value_hash: Numbers


class Goals:
    """How far splits are from their goals, and how many segments are left for train.

    `amounts` are the goals by split in segments, `have` what each split has already. `largest` is
    the most segments of what is held out at once, `most_lost` the most that may still be lost.
    """

    def __init__(
        self,
        amounts: Mapping[int, int],
        have: Mapping[int, int],
        *,
        largest: int,
        most_lost: int,
        left_for_train: int,
    ) -> None:
        self.amounts = amounts
        self.have = dict(have)
        self.largest = largest
        self.most_lost = most_lost
        self.left_for_train = left_for_train

    @property
    def missing(self) -> int:
        """The number of segments that are missing of all goals."""
        return sum(self.amounts[split] - self.have[split] for split in self._unmet())

    def neediest(self, segments: int) -> int | None:
        """Return the split with the least of its goal, for a group of so many segments.

        There is none if all goals are reached, or if nothing would be left for train.
        """
        if segments >= self.left_for_train:
            return None
        return min(
            self._unmet(), key=lambda split: self.have[split] / self.amounts[split], default=None
        )

    def take(self, split: int, *, gained: int, segments: int) -> None:
        """Count a group whose `segments` leave train: a split gains some, and the rest is lost."""
        self.have[split] += gained
        self.most_lost -= segments - gained
        self.left_for_train -= segments

    def _unmet(self) -> list[int]:
        """Return the splits whose goal is not reached."""
        return [split for split, goal in self.amounts.items() if self.have[split] < goal]


def hold_out_groups(units: Units, split: Numbers, goals: Goals) -> Numbers:
    """Give connected groups without a split to those of `goals`, the smallest first.

    Return the split of each value.
    """
    group_of_unit = units.group[units.members.indices[units.members.indptr[:-1]]]
    count = int(units.group.max(initial=-1)) + 1
    segments = np.bincount(group_of_unit, units.segments, count).astype(np.int64)
    gained = np.bincount(group_of_unit, units.allowed, count).astype(np.int64)
    # Segments that may not be held out are lost.
    is_free = (gained > 0) & (2 * gained >= segments) & (segments <= goals.largest)
    is_free[units.group[split != OPEN]] = False
    free = np.flatnonzero(is_free)
    # Each group that is taken has at least one of the missing segments.
    order = free[np.lexsort((units.group_hash[free], segments[free]))][: goals.missing]
    split_of_group = np.full(count, OPEN)
    for group in order.tolist():
        held_out = goals.neediest(int(segments[group]))
        if held_out is None:
            break
        goals.take(held_out, gained=int(gained[group]), segments=int(segments[group]))
        split_of_group[group] = held_out
    split_of_value = split_of_group[units.group]
    return np.where(split_of_value == OPEN, split, split_of_value)


def hold_out_values(units: Units, split: Numbers, goals: Goals) -> Numbers:
    """Give single values to the splits of `goals`, each with the values of other keys beside it.

    A main speaker goes with their recordings, in which the segments of others are lost: first those
    for whom least is lost. Return the split of each value.
    """
    split_of_value = split.copy()
    for values, cost in _by_cost(units, split, goals):
        lost = cost.segments - cost.gained
        held_out = goals.neediest(cost.segments)
        if held_out is None or lost > goals.most_lost or (split_of_value[values] != OPEN).any():
            continue
        goals.take(held_out, gained=cost.gained, segments=cost.segments)
        split_of_value[values] = held_out
        if not goals.missing:
            break
    return split_of_value


@dataclass(frozen=True)
class _Cost:
    """The segments that holding out a value takes from train, and those that a split gains."""

    segments: int
    gained: int


@dataclass(frozen=True)
class _Neighborhoods:
    """Values that may be held out, each with the values of all of its units.

    `values` is a sparse matrix of neighborhoods by values. `segments` and `gained` are by
    neighborhood, as in `_Cost`.
    """

    values: Any
    segments: Numbers
    gained: Numbers
    value_hash: Numbers


def _by_cost(units: Units, split: Numbers, goals: Goals) -> Iterator[tuple[Numbers, _Cost]]:
    """Yield the values of each neighborhood that may be held out, and its cost.

    The cheapest come first, and the smallest of those that are about as cheap.
    """
    near = _neighborhoods(units, split, goals.largest + goals.most_lost)
    lost = near.segments - near.gained
    free = np.flatnonzero(
        (near.gained > 0) & (near.gained <= goals.largest) & (lost <= goals.most_lost)
    )
    loss_class = np.frexp(np.maximum(lost[free] / near.gained[free], _CHEAP_LOSS))[1]
    keys = (near.value_hash[free], lost[free], near.segments[free], loss_class)
    order = free[np.lexsort(keys)]
    starts = near.values.indptr
    for place in order.tolist():
        values = near.values.indices[starts[place] : starts[place + 1]]
        yield values, _Cost(int(near.segments[place]), int(near.gained[place]))


def _neighborhoods(units: Units, split: Numbers, largest: int) -> _Neighborhoods:
    """Return the neighborhoods of the first values of units, and what they cost.

    Those with a value that has a split, or more than the `largest` number of segments, are left
    out.
    """
    units_of_value = units.members.T.tocsr()
    is_unusable = (split != OPEN) | (units_of_value @ units.segments > largest)
    is_near_unusable = units_of_value @ (units.members @ is_unusable) > 0
    first = np.unique(units.members.indices[units.members.indptr[:-1]])
    first = first[~is_near_unusable[first]]
    visits = (units_of_value @ (units.members @ np.diff(units_of_value.indptr)))[first]
    order = np.lexsort((units.value_hash[first], visits))
    visited = np.cumsum(visits[order])
    first = first[order[visited <= _MAX_VISITS]]
    values = units_of_value[first] @ units.members
    values.data[:] = 1
    is_in_train = units.members @ ((split == OPEN) | (split == TRAIN)) == units.size
    blocks = np.flatnonzero(np.diff(visited[: len(first)] // _BLOCK_VISITS)) + 1
    costs = [
        _costs(units, values[block], is_in_train)
        for block in np.split(np.arange(len(first)), blocks)
    ]
    segments, gained = np.concatenate(costs, axis=1)
    return _Neighborhoods(values, segments, gained, units.value_hash[first])


def _costs(units: Units, values: Any, is_in_train: Numbers) -> Numbers:
    """Return the segments that each neighborhood takes from train, and those that are gained.

    The shape is (2, neighborhoods).
    """
    count = values.shape[0]
    near = values @ units.members.T  # how many values of each unit are in each neighborhood
    place = np.repeat(np.arange(count), np.diff(near.indptr))
    is_within = near.data == units.size[near.indices]
    segments = (units.segments * is_in_train)[near.indices]
    gained = (units.allowed * is_in_train)[near.indices] * is_within
    return np.stack(
        [np.bincount(place, weight, count).astype(np.int64) for weight in (segments, gained)]
    )
