"""Assign segments to train, dev and test (docs/splits.md).

No speaker or recording is in two of them.

A *value* is one value of one grouping key, a *unit* a distinct tuple of values of the keys. Each
value belongs to one split, and a segment is in a split if all its values are. Choices follow hashes
of values and segment ids, never the order of rows.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
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
HashOf = Callable[[Numbers, str], Numbers]  # of rows, with a salt

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

_NAMES = pl.Series("split", [*SPLITS, None], dtype=pl.Categorical)  # by number; the last for none

_ROWS = 1 << 20  # that are summed at once
_MIN_GROUPS = 10


class Target(NamedTuple):
    """The size of a split: whole `segments`, or `micros` (microseconds of speech)."""

    amount: int
    unit: str

    def __str__(self) -> str:
        return (
            f"{self.amount:,} segments"
            if self.unit == "segments"
            else f"{self.amount / _HOUR:,.3f} hours"
        )


def parse_target(value: int | str, name: str) -> Target:
    """Parse the size of a split: a number of segments, or hours with an ``h``.

    `name` is that of the option.
    """
    text = str(value).strip().lower()
    try:
        hours = Decimal(text.removesuffix("h")) if text.endswith("h") else None
        amount = int(text) if hours is None else int(hours * _HOUR)
    except (ValueError, OverflowError, InvalidOperation):
        amount = -1
    if not 0 <= amount < 2**53:
        raise InputError(
            f"{name}={value!r}: allowed are a number of segments, such as 2000, or hours, "
            "such as '1.5h'"
        )
    return Target(amount, "segments" if hours is None else "micros")


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
    division.release(kept=is_held_out & ~excess.beyond & ~excess.unfit)
    split = division.split_of_rows()
    del division  # as large as what follows
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

    Return by the number of the split what there is of its size, and the allowed rows. Raise
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
            grouping = f", where no {' and no '.join(keys)} may be in two splits," if keys else ""
            remedy = "request less" + (" or group by fewer or other columns" if keys else "")
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
    values = (
        column if column.dtype == pl.Categorical else column.cast(pl.String).cast(pl.Categorical)
    )
    names = values.drop_nulls().unique().cast(pl.String).sort()
    known = names.cast(pl.Categorical).to_physical().to_numpy()
    rank = np.full(int(known.max(initial=0)) + 2, -1, dtype=np.int32)
    rank[known] = np.arange(len(names), dtype=np.int32)
    return names, rank[values.to_physical().fill_null(len(rank) - 1).to_numpy()]


def _dense(numbers: Numbers) -> Numbers:
    """Return the rank of each number among the distinct ones, from 0."""
    return np.searchsorted(pl.Series(numbers).unique().sort().to_numpy(), numbers).astype(np.int32)


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
        from scipy.sparse import csgraph, csr_array  # takes 0.1 s to import

        known = {f"key {key}": values for key, values in preset.items()}
        numbers = {None: OPEN} | {name: number for number, name in enumerate(SPLITS)}
        unit = np.zeros(len(segments), dtype=np.int32)
        codes = []
        hashes = []
        split = list[int]()
        for salt, column in ((f"key {key}", segments[key]) for key in keys):
            names, code = _ranks(column)
            codes.append(np.where(code < 0, -1, code + len(split)).astype(np.int32))
            hashes.append(hash_column(names, f"{salt} {seed}").to_numpy())
            split += [numbers.get(known.get(salt, {}).get(name), _CLOSED) for name in names]
            unit = _dense(unit.astype(np.int64) * (len(names) + 1) + code + 1)
        # A row without values is a group of its own.
        alone = np.ones(len(segments), dtype=np.bool_)
        for code in codes:
            alone &= code < 0
        if alone.any():
            places = np.flatnonzero(alone)
            code = np.full(len(segments), -1, dtype=np.int32)
            code[places] = np.arange(len(places), dtype=np.int32)
            unit = _dense(unit.astype(np.int64) * (len(places) + 1) + code + 1)
            code[places] += len(split)
            codes.append(code)
            hashes.append(hash_of(places, f"row {seed}"))
            split += [OPEN] * len(places)
        self.unit_of_row = unit
        first = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.int64)
        first[unit[::-1]] = np.arange(len(unit) - 1, -1, -1)
        values = (
            np.column_stack([code[first] for code in codes])
            if codes
            else np.empty((0, 0), dtype=np.int32)
        )
        pairs = np.nonzero(values >= 0)[0], values[values >= 0]
        self.members = csr_array((np.ones(len(pairs[0])), pairs), shape=(len(values), len(split)))
        self.size = self.members.sum(axis=1)
        self.value_hash = np.concatenate([np.empty(0, dtype=np.uint64), *hashes])
        self.unit_hash = self.members.astype(np.uint64) @ self.value_hash
        self.weights = {
            "segments": np.ones(len(unit), dtype=np.int8),
            "micros": segments["micros"].to_numpy(),
        }
        self.split = np.array(split, dtype=np.int64)
        self.preset = self.split != OPEN
        # Values that share a unit, directly or through others, are in one group.
        self.group = csgraph.connected_components(self.members.T @ self.members, directed=False)[1]
        self.group_of_unit = self.group[self.members.indices[self.members.indptr[:-1]]]
        self.rows = np.bincount(unit, minlength=len(self.size))

    def split_of_rows(self) -> Numbers:
        """Return the split of each row, negative for none.

        Values that are still open go to train, crossing units to none.
        """
        return self._split_of_units()[self.unit_of_row]

    def _split_of_units(self) -> Numbers:
        split = np.where(self.split == OPEN, TRAIN, self.split)
        found = np.full(len(self.size), OPEN, dtype=np.int8)
        for number in range(len(SPLITS)):
            found[self.members @ (split == number) == self.size] = number
        return found

    def _by_unit(self, values: Numbers) -> Numbers:
        """Sum a value of each row by unit.

        This is done in parts, as NumPy first copies what it sums, 16 bytes a row.
        """
        found = np.zeros(len(self.size))
        for rows in (slice(start, start + _ROWS) for start in range(0, len(values), _ROWS)):
            found += np.bincount(self.unit_of_row[rows], values[rows], len(found))
        return found

    def release(self, *, kept: Flags) -> None:
        """Give the values of held-out splits that none of the `kept` rows has to train."""
        used = self.members.T @ self._by_unit(kept)
        self.split[~self.preset & (self.split != OPEN) & (used == 0)] = TRAIN

    def fill(self, split: int, target: Target, allowed: Flags) -> int:
        """Give open values to `split` until the allowed rows of its whole units reach the target.

        Return the sum of these rows.
        """
        # Sums are exact, as weights are whole and their sum is below 2^53.
        weights = self.weights[target.unit]
        every = self._by_unit(weights)
        weight = self._by_unit(weights * allowed)
        fitting = self._fitting_groups(target.amount - self._weight_within(split, weight), weight)
        self.split[np.isin(self.group, list(fitting))] = split
        have = self._weight_within(split, weight)
        while have < target.amount:
            chosen = self._best_step(split, target.amount - have, weight, every)
            if not len(chosen):
                break
            self.split[chosen] = split
            have = self._weight_within(split, weight)
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
        units = Units(
            self.members,
            self.size,
            self.rows,
            self.rows if allowed.all() else self._by_unit(allowed),
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
        return {
            split: goal if before[split] >= goal else int(self._weight_within(split, units.allowed))
            for split, goal in goals.items()
        }

    def _group_hash(self) -> Numbers:
        """Return the hash of each group, by its number."""
        found = np.zeros(len(self.group), dtype=np.uint64)
        np.add.at(found, self.group, self.value_hash)
        return found

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

    def _best_step(self, split: int, missing: float, weight: Numbers, every: Numbers) -> Numbers:  # noqa: PLR0914
        """Return the next values for `split`.

        This is one value that completes units, or all values of a new unit, whichever gains most
        for its price.
        """
        is_open = self.split == OPEN
        num_open = self.members @ is_open
        num_within = self.members @ (self.split == split)
        usable = (num_open > 0) & (num_open + num_within == self.size)
        one_missing = usable & (num_open == 1)
        untouched = usable & (num_within == 0) & (num_open > 1)

        # The price is what becomes useless of `every` row, and what exceeds the missing weight or
        # is not allowed in the split.
        def score(gain: Numbers, lost: Numbers) -> Numbers:
            price = lost + np.maximum(gain - missing, 0.0)
            useful = np.minimum(gain, missing)
            return np.asarray(
                np.divide(useful, useful + price, out=np.zeros(len(gain)), where=useful > 0)
            )

        lost = is_open * (self.members.T @ (untouched * every))
        gained, banned = (
            is_open * (self.members.T @ (one_missing * each)) for each in (weight, every - weight)
        )
        value_score = score(gained, lost + banned)
        # A unit's own weight is in the price of each of its values, though it is a gain.
        lost_by_unit = (
            self.members @ lost - np.where(untouched, num_open * every, 0.0) + (every - weight)
        )
        unit_score = score(np.where(usable, weight, 0.0), lost_by_unit)
        best_value = value_score.max(initial=0.0)
        best_unit = unit_score.max(initial=0.0)
        if best_value == best_unit == 0:
            return np.empty(0, dtype=np.int64)
        if best_value >= best_unit:
            ties = np.flatnonzero(value_score == best_value)
            return ties[[np.argmin(self.value_hash[ties])]]
        ties = np.flatnonzero(unit_score == best_unit)
        values = self.members[[ties[np.argmin(self.unit_hash[ties])]]].indices
        return np.asarray(values[is_open[values]])
