"""Assign segments to train, dev and test (docs/select.md).

No speaker or recording is in two of them.

A *value* is one value of one grouping key, a *unit* a distinct tuple of values of the keys. Each
value belongs to one split, and a segment is in a split if all its values are. Choices follow hashes
of values and segment ids, never the order of rows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.core.hashing import hash_column
from nbaudio.selection.size_budget import MICROSECONDS
from nbaudio.selection.whole_groups import (
    OPEN,
    TRAIN,
    Goals,
    Units,
    WholeSplits,
    hold_out_groups,
    hold_out_values,
)
from nbaudio.tables.row_values import RowHashes
from nbaudio.tables.schemas import SPLITS

Numbers = NDArray[Any]
Flags = NDArray[np.bool_]
HashOf = Callable[[Numbers, str], Numbers]  # returns a hash of each of some rows, with a salt

_HOUR = 3600 * MICROSECONDS
# Columns that are used internally, and those that `select` writes or that are unique to a segment.
_FIXED = frozenset(
    ("sentence", "fixed", "is_given", "earlier", "may_hold_out", "not_train", "later")
)
_INTERNAL = (
    frozenset(("row", "micros", "by_hand", "is_gold", "is_preferred", "passed", "reviewed"))
    | _FIXED
)
_NO_KEYS = (
    frozenset(("segment_id", "start_sample", "end_sample", "split", "decision", "reason"))
    | _INTERNAL
)
_CLOSED = -2  # the split of a value that no segment here may have

# The names of the splits by number; the last one is for no split.
_NAMES = pl.Series("split", [*SPLITS, None], dtype=pl.Categorical)

_ROWS = 1 << 20  # rows that are summed at once
_MIN_GROUPS = 10


class Target(NamedTuple):
    """The size of a split: whole `segments`, or `micros` (microseconds of speech)."""

    amount: int
    unit: str

    def __str__(self) -> str:
        if self.unit == "segments":
            return f"{self.amount:,} segments"
        return f"{self.amount / _HOUR:,.3f} hours"


def parse_target(value: int | str, name: str) -> Target:
    """Parse the size of a split: a number of segments, or hours with an ``h``.

    `name` is that of the option.
    """
    text = str(value).strip().lower()
    unit = "micros" if text.endswith("h") else "segments"
    try:
        if unit == "micros":
            amount = int(Decimal(text.removesuffix("h")) * _HOUR)
        else:
            amount = int(text)
    except (ValueError, OverflowError, InvalidOperation):
        amount = -1
    if not 0 <= amount < 2**53:
        raise InputError(
            f"{name}={value!r}: allowed are a number of segments, such as 2000, or hours, "
            "such as '1.5h'"
        )
    return Target(amount, unit)


def usable_keys(segments: pl.DataFrame, group_by: Sequence[str]) -> list[str]:
    """Return the grouping keys that hold values.

    Raise InputError for a key that is not a column, or that is a nested one.
    """
    for key in group_by:
        if key not in segments.columns or segments.schema[key].is_nested() or key in _NO_KEYS:
            allowed = [
                name
                for name, dtype in segments.schema.items()
                if not dtype.is_nested() and name not in _NO_KEYS
            ]
            raise InputError(
                f"group_by: {key!r} is not a column to group segments by; "
                f"columns are {', '.join(allowed)}"
            )
    return [key for key in dict.fromkeys(group_by) if segments[key].null_count() < len(segments)]


def assign_splits(
    segments: pl.DataFrame,
    *,
    keys: Sequence[str],
    targets: Mapping[str, Target],
    seed: int,
    gold: pl.Series | None = None,
    may_hold_out: pl.Series | None = None,
    preset: Mapping[str, Mapping[str, str]] | None = None,
    optional: Collection[str] = (),
    whole: WholeSplits | None = None,
    hashes: RowHashes | None = None,
) -> pl.DataFrame:
    """Divide segments into splits, of which train gets the rest.

    Return `split` (null if out) and `reason` of each segment.

    `segments` have `micros` (duration, whole microseconds); rows that are null in a key are not
    grouped by it. `gold` is whether each may be in test, `may_hold_out` in any held-out split.
    `preset` has by key the split of some values: one of `SPLITS`, or another text for a value that
    no segment here may have. The targets of `optional` splits may be missed. Those of `whole`
    splits are goals in segments: values are held out whole, the smallest first, after the other
    splits are filled, and as far as train keeps something. `hashes` are those of ids, by the column
    `row` and a salt, where the segments have no `segment_id`.

    Raise InputError if a target cannot be reached.
    """
    hash_of = partial(_hash_rows, segments, hashes)
    division = _Division(segments, keys, seed, preset or {}, hash_of)
    everywhere = np.ones(len(segments), dtype=np.bool_)
    eligible = everywhere if may_hold_out is None else may_hold_out.to_numpy()
    is_gold = None if gold is None else gold.to_numpy()
    allowed = dict.fromkeys(targets, eligible)
    if is_gold is not None and "test" in allowed:
        allowed["test"] = eligible & is_gold
    whole = whole or WholeSplits()
    exact = {name: (targets[name], allowed[name]) for name in targets if name not in whole.names}
    sizes = _fill(
        division, exact, optional, keys, is_fixed=bool(preset), is_gold=is_gold is not None
    )
    goals = {SPLITS.index(name): targets[name].amount for name in targets if name in whole.names}
    for number, amount in division.hold_out_whole(goals, eligible, whole).items():
        sizes[number] = Target(amount, "segments"), eligible
    excess = _excess(division, sizes, seed, hash_of)
    is_held_out = division.split_of_rows() > TRAIN
    division.release_unused(is_held_out & ~excess.beyond & ~excess.unfit)
    split = division.split_of_rows()
    del division  # frees memory: it is as large as what is computed next
    return _with_reasons(split, excess, is_gold)


def _fill(
    division: "_Division",
    wanted: Mapping[str, tuple[Target, Flags]],
    optional: Collection[str],
    keys: Sequence[str],
    *,
    is_fixed: bool,
    is_gold: bool,
) -> dict[int, tuple[Target, Flags]]:
    """Fill splits of exact sizes with rows that are allowed in each.

    Return by the number of the split the size that can be filled, and the allowed rows. Raise
    InputError if it is less than was wanted, unless the split is optional.
    """
    filled = {}
    for name, (target, allowed) in wanted.items():
        amount = division.fill(SPLITS.index(name), target, allowed)
        have = target._replace(amount=min(amount, target.amount))
        filled[SPLITS.index(name)] = have, allowed
        if amount < target.amount and name not in optional:
            beside = " beside those whose split is fixed" if is_fixed else ""
            gold = " and are gold" if is_gold and name == "test" else ""
            grouping = ""
            remedy = "request less"
            if keys:
                grouping = f", where no {' and no '.join(keys)} may be in two splits,"
                remedy += " or group by fewer or other columns"
            raise InputError(
                f"{name}: {target} requested{beside}, but of the {allowed.sum():,} segments that "
                f"pass the filters{gold}{grouping} {have} are available: {remedy}"
            )
    return filled


def _hash_rows(
    segments: pl.DataFrame, hashes: RowHashes | None, places: Numbers, salt: str
) -> Numbers:
    """Return hashes of the ids of rows of `segments`."""
    if hashes is not None:
        return hashes(segments["row"].gather(places), salt).to_numpy()
    return hash_column(segments["segment_id"].gather(places), salt).to_numpy()


class _Excess(NamedTuple):
    """Rows of held-out splits that are left out: `beyond` the size, or `unfit` for the split."""

    beyond: Flags
    unfit: Flags


def _excess(
    division: "_Division", sizes: Mapping[int, tuple[Target, Flags]], seed: int, hash_of: HashOf
) -> _Excess:
    """Return the rows that splits of these sizes leave out, of those that are in them."""
    split = division.split_of_rows()
    beyond = np.zeros(len(split), dtype=np.bool_)
    unfit = np.zeros(len(split), dtype=np.bool_)
    for number, (target, allowed) in sizes.items():
        within = np.equal(split, number)
        unfit |= within & ~allowed
        # Members beyond the target, in seeded order; a split that needs nothing more is full for
        # all.
        rows = np.flatnonzero(within & allowed)
        order = rows[np.argsort(hash_of(rows, f"{SPLITS[number]} trim {seed}"), kind="stable")]
        beyond[order[np.cumsum(division.weights[target.unit][order]) > target.amount]] = True
        beyond |= within & (target.amount == 0)
    return _Excess(beyond, unfit)


def _with_reasons(split: Numbers, excess: _Excess, is_gold: Flags | None) -> pl.DataFrame:
    """Return the split of each row, and the reason of those that have none."""
    is_out = (split > TRAIN) & (excess.beyond | excess.unfit)
    reasons: dict[str, Numbers] = {
        "beyond_split_size": is_out & excess.beyond,
        "crosses_splits": is_out | (split < 0),
    }
    if is_gold is not None:
        is_test = split == SPLITS.index("test")
        reasons = {"not_gold": is_out & is_test & ~is_gold} | reasons
    reason = np.full(len(split), len(reasons), dtype=np.uint8)
    for number, is_such in reversed([*enumerate(reasons.values())]):
        reason[is_such] = number
    names = pl.Series("reason", [*reasons, None], dtype=pl.Categorical)
    numbers = np.where(is_out | (split < 0), len(SPLITS), split)
    return pl.DataFrame([_NAMES.gather(pl.Series(numbers)), names.gather(pl.Series(reason))])


def _ranks(column: pl.Series) -> tuple[pl.Series, Numbers]:
    """Return the distinct values of a column, sorted, and the place of each row's value.

    Places are those among the distinct values, -1 for null.
    """
    if column.dtype == pl.Categorical:
        values = column
    else:
        values = column.cast(pl.String).cast(pl.Categorical)
    names = values.drop_nulls().unique().cast(pl.String).sort()
    codes = names.cast(pl.Categorical).to_physical().to_numpy()
    rank = np.full(int(codes.max(initial=0)) + 2, -1, dtype=np.int32)
    rank[codes] = np.arange(len(names), dtype=np.int32)
    return names, rank[values.to_physical().fill_null(len(rank) - 1).to_numpy()]


def _dense(numbers: Numbers) -> Numbers:
    """Return the rank of each number among the distinct ones, from 0."""
    return np.searchsorted(pl.Series(numbers).unique().sort().to_numpy(), numbers).astype(np.int32)


@dataclass(frozen=True)
class _Values:
    """The distinct values of one grouping key.

    Attributes:
        place_of_row: for each row, the place of its value among the distinct ones, -1 for none.
        hashes: the seeded hash of each value.
        splits: the split of each value before segments are divided: its number, `OPEN` or
            `_CLOSED`.
    """

    place_of_row: Numbers
    hashes: Numbers
    splits: Numbers


def _values_of_key(column: pl.Series, key: str, seed: int, preset: Mapping[str, str]) -> _Values:
    """Return the values of a key, whose `column` has one for each row.

    `preset` is the split of some values, by name; names other than `SPLITS` close a value.
    """
    names, place_of_row = _ranks(column)
    numbers = {name: number for number, name in enumerate(SPLITS)}
    splits = np.full(len(names), OPEN, dtype=np.int64)
    for place, name in enumerate(names):
        if name in preset:
            splits[place] = numbers.get(preset[name], _CLOSED)
    return _Values(place_of_row, hash_column(names, f"key {key} {seed}").to_numpy(), splits)


def _is_without_value(values_of_keys: Sequence[_Values], num_rows: int) -> Flags:
    """Return whether each row has no value of any key."""
    is_alone = np.ones(num_rows, dtype=np.bool_)
    for values in values_of_keys:
        is_alone &= values.place_of_row < 0
    return is_alone


def _values_of_lone_rows(is_alone: Flags, seed: int, hash_of: HashOf) -> _Values:
    """Return a value for each row that has none of any key: it is a group of its own."""
    rows = np.flatnonzero(is_alone)
    place_of_row = np.full(len(is_alone), -1, dtype=np.int32)
    place_of_row[rows] = np.arange(len(rows), dtype=np.int32)
    splits = np.full(len(rows), OPEN, dtype=np.int64)
    return _Values(place_of_row, hash_of(rows, f"row {seed}"), splits)


def _number_units(values_of_keys: Sequence[_Values], num_rows: int) -> Numbers:
    """Return the number of the unit of each row: rows with equal values have the same."""
    unit = np.zeros(num_rows, dtype=np.int32)
    for values in values_of_keys:
        num_places = len(values.splits) + 1
        unit = _dense(unit.astype(np.int64) * num_places + values.place_of_row + 1)
    return unit


def _members(values_of_keys: Sequence[_Values], unit_of_row: Numbers) -> Any:
    """Return a sparse matrix of units by the values of all keys, 1 where a unit has a value."""
    from scipy.sparse import csr_array  # takes 0.1 s to import

    num_units = int(unit_of_row.max(initial=-1)) + 1
    first_row = np.zeros(num_units, dtype=np.int64)
    first_row[unit_of_row[::-1]] = np.arange(len(unit_of_row) - 1, -1, -1)
    num_values = 0
    numbers = np.empty((num_units, len(values_of_keys)), dtype=np.int32)
    for column, values in enumerate(values_of_keys):
        place = values.place_of_row[first_row]
        numbers[:, column] = np.where(place < 0, -1, place + num_values)
        num_values += len(values.splits)
    units = np.nonzero(numbers >= 0)[0]
    ones = np.ones(len(units))
    return csr_array((ones, (units, numbers[numbers >= 0])), shape=(num_units, num_values))


@dataclass(frozen=True)
class _UnitWeights:
    """The weight of each unit: that of all of its rows, and that of rows allowed in a split."""

    of_all: Numbers
    of_allowed: Numbers


@dataclass(frozen=True)
class _OpenUnits:
    """Units that can still be whole in a split: all their values are in it, or open.

    Attributes:
        num_open: how many values of each unit are open.
        is_usable: whether a unit can still be whole in the split, and is not yet.
        needs_one_value: whether it also has a single open value.
        is_untouched: whether it also has several open values and none in the split.
    """

    num_open: Numbers
    is_usable: Flags
    needs_one_value: Flags
    is_untouched: Flags


def _scores(gain: Numbers, lost: Numbers, missing: float) -> Numbers:
    """Return for steps what part of their gain and price is useful, from 0 to 1.

    The price is what is lost, and what exceeds the missing weight.
    """
    useful = np.minimum(gain, missing)
    price = lost + np.maximum(gain - missing, 0.0)
    zeros = np.zeros(len(gain))
    return np.asarray(np.divide(useful, useful + price, out=zeros, where=useful > 0))


def _lowest_of_best(scores: Numbers, hashes: Numbers) -> Numbers:
    """Return the place of the highest score, that of the lowest hash among equals, as an array."""
    ties = np.flatnonzero(scores == scores.max())
    return ties[[np.argmin(hashes[ties])]]


class _Division:
    """The split of each value so far.

    `members` is a sparse matrix of units by values, 1 where a unit has a value.
    """

    def __init__(
        self,
        segments: pl.DataFrame,
        keys: Sequence[str],
        seed: int,
        preset: Mapping[str, Mapping[str, str]],
        hash_of: HashOf,
    ) -> None:
        """Number the values and units of segments; values without a `preset` split are open."""
        from scipy.sparse import csgraph  # takes 0.1 s to import

        values_of_keys = [
            _values_of_key(segments[key], key, seed, preset.get(key, {})) for key in keys
        ]
        is_alone = _is_without_value(values_of_keys, len(segments))
        if is_alone.any():
            values_of_keys.append(_values_of_lone_rows(is_alone, seed, hash_of))
        self.unit_of_row = _number_units(values_of_keys, len(segments))
        self.members = _members(values_of_keys, self.unit_of_row)
        self.size = self.members.sum(axis=1)
        hashes = [values.hashes for values in values_of_keys]
        self.value_hash = np.concatenate([np.empty(0, dtype=np.uint64), *hashes])
        self.unit_hash = self.members.astype(np.uint64) @ self.value_hash
        self.weights = {
            "segments": np.ones(len(segments), dtype=np.int8),
            "micros": segments["micros"].to_numpy(),
        }
        splits = [values.splits for values in values_of_keys]
        self.split = np.concatenate([np.empty(0, dtype=np.int64), *splits])
        self.preset = self.split != OPEN
        # Values that share a unit, directly or through others, are in one group.
        self.group = csgraph.connected_components(self.members.T @ self.members, directed=False)[1]
        self.group_of_unit = self.group[self.members.indices[self.members.indptr[:-1]]]
        self.rows = np.bincount(self.unit_of_row, minlength=len(self.size))

    def split_of_rows(self) -> Numbers:
        """Return the split of each row, negative for none.

        Values that are still open go to train, crossing units to none.
        """
        return self._split_of_units()[self.unit_of_row]

    def _split_of_units(self) -> Numbers:
        """Return the split of each unit, as `split_of_rows`."""
        split = np.where(self.split == OPEN, TRAIN, self.split)
        split_of_unit = np.full(len(self.size), OPEN, dtype=np.int8)
        for number in range(len(SPLITS)):
            split_of_unit[self.members @ (split == number) == self.size] = number
        return split_of_unit

    def _by_unit(self, values: Numbers) -> Numbers:
        """Sum a value of each row by unit.

        This is done in parts, as NumPy first copies what it sums, 16 bytes a row.
        """
        sums = np.zeros(len(self.size))
        for start in range(0, len(values), _ROWS):
            rows = slice(start, start + _ROWS)
            sums += np.bincount(self.unit_of_row[rows], values[rows], len(sums))
        return sums

    def release_unused(self, is_selected: Flags) -> None:
        """Give the values of held-out splits that no selected row has to train."""
        num_selected = self.members.T @ self._by_unit(is_selected)
        self.split[~self.preset & (self.split != OPEN) & (num_selected == 0)] = TRAIN

    def fill(self, split: int, target: Target, allowed: Flags) -> int:
        """Give open values to `split` until the allowed rows of its whole units reach the target.

        Return the sum of these rows.
        """
        # Sums are exact, as weights are whole and their sum is below 2^53.
        row_weights = self.weights[target.unit]
        weights = _UnitWeights(self._by_unit(row_weights), self._by_unit(row_weights * allowed))
        missing = target.amount - self._weight_within(split, weights.of_allowed)
        fitting = self._fitting_groups(missing, weights.of_allowed)
        self.split[np.isin(self.group, list(fitting))] = split
        have = self._weight_within(split, weights.of_allowed)
        while have < target.amount:
            values = self._best_step(split, target.amount - have, weights)
            if not len(values):
                break
            self.split[values] = split
            have = self._weight_within(split, weights.of_allowed)
        # The last step may have added more than was missing; free the groups that are not needed.
        for group, spare in fitting.items():
            if have - spare >= target.amount:
                self.split[self.group == group] = OPEN
                have -= spare
        return int(have)

    def hold_out_whole(
        self, goals: Mapping[int, int], allowed: Flags, whole: WholeSplits
    ) -> dict[int, int]:
        """Fill splits with whole values until they reach their goals, or until no value fits.

        Return the size of each split: the goal, or what it has now if it had less. Train keeps
        something.
        """
        if not any(goals.values()):
            return dict(goals)
        allowed_rows = self.rows if allowed.all() else self._by_unit(allowed)
        units = Units(
            self.members,
            self.size,
            self.rows,
            allowed_rows,
            self.group,
            self._group_hash(),
            self.value_hash,
        )
        before = {split: int(self._weight_within(split, units.allowed)) for split in goals}
        is_in_train = self._split_of_units() == TRAIN
        in_train = int(self.rows[is_in_train].sum()) + whole.fixed_train
        needs = Goals(
            goals,
            before,
            largest=whole.largest,
            most_lost=whole.most_lost,
            left_for_train=in_train,
        )
        self.split = hold_out_groups(units, self.split, needs)
        if needs.missing:
            self.split = hold_out_values(units, self.split, needs)
        held_out = dict(goals)
        for split, goal in goals.items():
            if before[split] < goal:
                held_out[split] = int(self._weight_within(split, units.allowed))
        return held_out

    def _group_hash(self) -> Numbers:
        """Return the hash of each group, by its number."""
        group_hash = np.zeros(len(self.group), dtype=np.uint64)
        np.add.at(group_hash, self.group, self.value_hash)
        return group_hash

    def _weight_within(self, split: int, weight: Numbers) -> float:
        """Sum the weight of units that are whole in a split."""
        return float(weight[self.members @ (self.split == split) == self.size].sum())

    def _fitting_groups(self, amount: float, weight: Numbers) -> dict[int, float]:
        """Return groups without a split that fit into the amount, and their weights.

        They are in seeded order, small ones first.
        """
        group_weight = np.bincount(self.group_of_unit, weight, minlength=len(self.group))
        group_hash = self._group_hash()
        whole = np.setdiff1d(np.flatnonzero(group_weight > 0), self.group[self.split != OPEN])
        size_class = np.maximum(
            np.frexp(_MIN_GROUPS * group_weight[whole] / max(amount, 1.0))[1], 0
        )
        order = whole[np.lexsort((group_hash[whole], size_class))]
        fitting = dict[int, float]()
        left = amount
        for group, more in zip(order.tolist(), group_weight[order].tolist(), strict=True):
            if more <= left:
                fitting[group] = more
                left -= more
        return fitting

    def _best_step(self, split: int, missing: float, weights: _UnitWeights) -> Numbers:
        """Return the next values for `split`, none if no unit can still be whole in it.

        This is one value that completes units, or all values of a new unit, whichever gains most
        for its price.
        """
        units = self._open_units(split)
        forbidden = weights.of_all - weights.of_allowed
        # The weight that is lost of units without a value in the split, if they get their first
        # one.
        lost = self._by_open_value(units.is_untouched * weights.of_all)
        gained = self._by_open_value(units.needs_one_value * weights.of_allowed)
        gained_forbidden = self._by_open_value(units.needs_one_value * forbidden)
        value_scores = _scores(gained, lost + gained_forbidden, missing)
        # A unit's own weight is in the price of each of its values, though it is a gain.
        counted_twice = np.where(units.is_untouched, units.num_open * weights.of_all, 0.0)
        lost_by_unit = self.members @ lost - counted_twice + forbidden
        gained_by_unit = np.where(units.is_usable, weights.of_allowed, 0.0)
        unit_scores = _scores(gained_by_unit, lost_by_unit, missing)
        best_value = value_scores.max(initial=0.0)
        best_unit = unit_scores.max(initial=0.0)
        if best_value == best_unit == 0:
            return np.empty(0, dtype=np.int64)
        if best_value >= best_unit:
            return _lowest_of_best(value_scores, self.value_hash)
        values = self.members[_lowest_of_best(unit_scores, self.unit_hash)].indices
        return np.asarray(values[self.split[values] == OPEN])

    def _open_units(self, split: int) -> _OpenUnits:
        """Return the units that can still be whole in a split."""
        num_open = self.members @ (self.split == OPEN)
        num_within = self.members @ (self.split == split)
        is_usable = (num_open > 0) & (num_open + num_within == self.size)
        return _OpenUnits(
            num_open=num_open,
            is_usable=is_usable,
            needs_one_value=is_usable & (num_open == 1),
            is_untouched=is_usable & (num_within == 0) & (num_open > 1),
        )

    def _by_open_value(self, weight: Numbers) -> Numbers:
        """Sum a weight of each unit by value, 0 for values that are not open."""
        sums: Numbers = (self.split == OPEN) * (self.members.T @ weight)
        return sums
