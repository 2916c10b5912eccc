"""Choose the columns by which segments are grouped, so that no value is in two splits.

Grouping has a cost: segments that share values with two splits are left out. This module divides
the segments by each choice of columns, and compares what the choices lose.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import count, percent
from nbaudio.selection.fixed_splits import FixedSplits
from nbaudio.selection.leakage import GROUPS
from nbaudio.selection.parameters import HELD_OUT, Parameters
from nbaudio.selection.requested_sizes import default_size
from nbaudio.selection.size_budget import Budget
from nbaudio.selection.splits import Target, assign_splits, usable_keys
from nbaudio.selection.unfilled_goals import Remedies, UnfilledGoal, values_left
from nbaudio.selection.whole_groups import MOST_GOALS, WholeSplits
from nbaudio.tables.rejection_reasons import GROUPING_REASONS
from nbaudio.tables.row_values import RowHashes
from nbaudio.tables.split_names import in_training, split_role

AUTO = "auto"  # takes the first of `DEFAULTS` that is not costly
# The second is taken where the first is costly: a recording may be in two splits, a speaker not.
DEFAULTS = (GROUPS, ("speaker_id",))
COSTLY = 0.05  # a choice that loses a larger share than this is costly

_LOWERED = 4  # goals that exceed the budget are divided by this until they do not


class Loss(NamedTuple):
    """What a choice of columns loses.

    `segments` is the number of segments that grouping keeps out of all splits (`GROUPING_REASONS`).
    `share` is what is lost of what could be kept, in [0, 1]: by segments, or by the hours or bytes
    of the budget if there is one.
    """

    segments: int
    share: float

    def __str__(self) -> str:
        return f"{count(self.segments, 'segments')} ({percent(self.share)} of what could be kept)"


@dataclass(frozen=True)
class Outcome:
    """How well a choice of columns does.

    `missing` is the number of segments by which dev and test miss their goals, together.
    """

    loss: Loss
    missing: int

    @property
    def rank(self) -> tuple[int, float]:
        """The key to compare outcomes by, the best first: goals matter more than losses."""
        return self.missing, self.loss.share

    @property
    def is_good(self) -> bool:
        """Whether the goals are reached at a low cost."""
        return not self.missing and self.loss.share <= COSTLY


@dataclass(frozen=True)
class Grouping:
    """The chosen columns, and the division of the segments into splits by them.

    Attributes:
        columns: the chosen columns; no value of them is in two splits.
        divided: a row per segment with its `split` and `reason`, see `assign_splits`.
        outcomes: those of the chosen and of other columns, None where dev, test or train cannot be
            filled.
        by_default: whether the columns were chosen here, not requested.
        unfilled: the splits that have less than their goals.
        remedies: what fills them.
    """

    columns: tuple[str, ...]
    divided: pl.DataFrame
    outcomes: dict[tuple[str, ...], Outcome | None]
    by_default: bool
    unfilled: tuple[UnfilledGoal, ...]
    remedies: Remedies

    @property
    def losses(self) -> dict[tuple[str, ...], Loss | None]:
        """The losses of `outcomes`; None where dev, test or train cannot be filled."""
        return {
            columns: outcome.loss if outcome else None for columns, outcome in self.outcomes.items()
        }

    @property
    def losses_of_filled(self) -> dict[tuple[str, ...], Loss | None]:
        """The losses of `outcomes`; None also where a goal of dev or test is not reached."""
        return {
            columns: outcome.loss if outcome and not outcome.missing else None
            for columns, outcome in self.outcomes.items()
        }

    def alternatives(self) -> list[dict[str, Any]]:
        """Return the losses as rows of a table, null for columns that leave too little."""
        unknown = dict.fromkeys(Loss._fields)
        alternatives = []
        for columns, loss in self.losses_of_filled.items():
            facts = loss._asdict() if loss else unknown
            alternatives.append({"group_by": ",".join(columns), **facts})
        return alternatives

    def warnings(self) -> Iterator[str]:
        """Yield a warning if the second of `DEFAULTS` was chosen, one if the choice is costly."""
        if self.by_default and self.columns != DEFAULTS[0]:
            yield self._second_choice_warning()
        loss = self.losses[self.columns]
        if loss and loss.share > COSTLY:
            yield self._loss_warning(loss)

    def _second_choice_warning(self) -> str:
        """Return why the first of `DEFAULTS` was not chosen, and what follows from that."""
        first = ",".join(DEFAULTS[0])
        loss = self.losses_of_filled[DEFAULTS[0]]
        if loss:
            why = f"would lose {loss}"
        else:
            why = "leaves too little for dev, test or train"
        return (
            f"grouped by {','.join(self.columns)} alone, as {first} {why}: "
            "one recording may be in several splits; "
            f"--group-by {first} keeps recordings apart as well"
        )

    def _loss_warning(self, chosen_loss: Loss) -> str:
        """Return what the choice loses, and what would lose less: other columns or other sizes."""
        remedies = []
        smaller_losses = {
            columns: loss
            for columns, loss in self.losses_of_filled.items()
            if loss and loss.share < chosen_loss.share
        }
        smallest: Loss | None = None
        if smaller_losses:
            columns = min(smaller_losses, key=lambda columns: smaller_losses[columns].share)
            smallest = smaller_losses[columns]
            remedies.append(f"--group-by {','.join(columns)} loses {smallest}")
        if smallest is None or smallest.share > COSTLY:
            # Segments beyond the size of dev or test are lost because their speaker or recording is
            # in it. If most of the loss is of this kind, larger splits would have room for them.
            cut_off = int((self.divided["reason"] == "beyond_split_size").sum())
            sizes = "larger" if 2 * cut_off > chosen_loss.segments else "smaller"
            remedies.append(f"{sizes} dev and test lose less")
        return (
            f"grouping by {','.join(self.columns)} loses {chosen_loss}, "
            f"reason crosses_splits or the like; {', or '.join(remedies)}"
        )


@dataclass(frozen=True)
class _Segments:
    """The segments to divide, and what dev and test need of them.

    Attributes:
        fit: the segments that pass the filters.
        unfixed: those of them whose split is not fixed; only these are divided.
        parameters: the parameters of the selection.
        fixed: the fixed splits.
        default: segments of a split for which no size was requested.
        targets: what test and dev need besides their fixed segments.
        budget: the hours or bytes that the selection may have, or None.
        hashes: the hashes that decide ties.
    """

    fit: pl.DataFrame
    unfixed: pl.DataFrame
    parameters: Parameters
    fixed: FixedSplits
    default: int
    targets: dict[str, Target]
    budget: Budget | None
    hashes: RowHashes

    @property
    def goals(self) -> dict[str, Target]:
        """The targets of splits for which no size was requested."""
        return {
            split: target
            for split, target in self.targets.items()
            if self.parameters.has_goal(split)
        }


@dataclass(frozen=True)
class _Attempt:
    """The division of the segments by one choice of columns.

    Attributes:
        divided: `split` and `reason` of all segments that fit.
        divided_unfixed: those of the unfixed segments, as `assign_splits` made them.
        outcome: what the choice loses and misses.
        exceeds_budget: whether goals were lowered for the budget.
    """

    divided: pl.DataFrame
    divided_unfixed: pl.DataFrame
    outcome: Outcome
    exceeds_budget: bool


def choose_grouping(
    fit: pl.DataFrame,
    parameters: Parameters,
    fixed: FixedSplits,
    budget: Budget | None,
    hashes: RowHashes,
) -> Grouping:
    """Divide segments that pass the filters by the requested columns.

    If none were requested, they are the first of `DEFAULTS` that reaches the goals of dev and test
    and is not costly. Single columns are tried for the report. Raise InputError if all choices
    leave too little.
    """
    segments = _segments(fit, parameters, fixed, budget, hashes)
    by_default = parameters.group_by is None
    choices = DEFAULTS if parameters.group_by is None else (parameters.group_by,)
    attempts = _try_in_order(segments, choices)
    outcomes = {
        columns: attempt.outcome if attempt else None for columns, attempt in attempts.items()
    }
    chosen, best = min(
        ((columns, attempt) for columns, attempt in attempts.items() if attempt),
        key=lambda choice: choice[1].outcome.rank,
    )
    attempts.clear()  # frees memory: it is as large as what is computed next
    for columns in _single_columns(segments, chosen, best.outcome, outcomes):
        outcomes[columns] = _outcome(segments, columns, whole=segments.goals)
    unfilled = _unfilled_goals(segments, chosen, best)
    losses = {
        columns: outcome.loss
        for columns, outcome in outcomes.items()
        if columns != chosen and outcome and not outcome.missing
    }
    remedies = _remedies(segments, chosen, unfilled, losses)
    return Grouping(chosen, best.divided, outcomes, by_default, unfilled, remedies)


def _try_in_order(
    segments: _Segments, choices: Iterable[tuple[str, ...]]
) -> dict[tuple[str, ...], _Attempt | None]:
    """Divide the segments by choices of columns until the outcome of one is good.

    A choice is None if dev, test or train cannot be filled. If no choice can be used, raise the
    InputError of the last one.
    """
    attempts: dict[tuple[str, ...], _Attempt | None] = {}
    refusals = []
    for columns in choices:
        # Columns without values do not group. One such division is enough.
        if attempts and not usable_keys(segments.fit, columns):
            continue
        try:
            attempt = _attempt(segments, columns, whole=segments.goals)
        except InputError as error:
            attempts[columns] = None
            refusals.append(error)
            continue
        attempts[columns] = attempt
        if attempt.outcome.is_good:
            break
    if len(refusals) == len(attempts):
        raise refusals[-1]
    return attempts


def _segments(
    fit: pl.DataFrame,
    parameters: Parameters,
    fixed: FixedSplits,
    budget: Budget | None,
    hashes: RowHashes,
) -> _Segments:
    """Return the segments to divide, with what dev and test need by the parameters."""
    within_budget = len(fit)
    if budget:
        total = budget.total(fit)
        within_budget = len(fit) * min(budget.limit, total) // max(total, 1)
    default = default_size(within_budget)
    unfixed = fit
    if fixed.is_any:
        unfixed = fit.filter(pl.col("fixed").is_null())
    is_gold = unfixed["is_gold"] if parameters.gold else None
    targets = still_needed(fit, parameters, default=default, gold=is_gold, fixed=fixed)
    return _Segments(fit, unfixed, parameters, fixed, default, targets, budget, hashes)


def _single_columns(
    segments: _Segments,
    chosen: Sequence[str],
    outcome: Outcome,
    tried: Collection[tuple[str, ...]],
) -> list[tuple[str, ...]]:
    """Return the columns to try for the report, each alone.

    There are none if the first choice was taken and single columns could hardly lose less.
    """
    loss = outcome.loss
    may_lose_less = loss.segments > 0 and (len(chosen) > 1 or loss.share > COSTLY)
    if len(tried) == 1 and not outcome.missing and not may_lose_less:
        return []
    return [
        (key,)
        for key in dict.fromkeys((*chosen, *GROUPS))
        if (key,) not in tried and usable_keys(segments.fit, (key,))
    ]


def _outcome(
    segments: _Segments, columns: Sequence[str], *, whole: Collection[str]
) -> Outcome | None:
    """Return the outcome of grouping by columns, None if dev, test or train cannot be filled."""
    try:
        return _attempt(segments, columns, whole=whole).outcome
    except InputError:
        return None


def _attempt(segments: _Segments, columns: Sequence[str], *, whole: Collection[str]) -> _Attempt:
    """Divide the segments by columns; the splits `whole` take all segments of a value or none.

    Raise InputError if dev, test or train cannot be filled.
    """
    keys = usable_keys(segments.fit, columns)
    division = _divide(segments, keys, whole)
    if segments.fixed.is_any:
        divided = _with_fixed(segments, division.divided)
    else:
        divided = division.divided
        _check_train(divided, keys)
    sizes = _sizes(division.divided)
    missing = sum(
        max(goal.amount - sizes.get(split, 0), 0) for split, goal in segments.goals.items()
    )
    outcome = Outcome(_loss(segments, divided), missing)
    return _Attempt(divided, division.divided, outcome, division.exceeds_budget)


def _with_fixed(segments: _Segments, divided_unfixed: pl.DataFrame) -> pl.DataFrame:
    """Return `split` and `reason` of the segments that fit: a fixed split, or the divided one."""
    divided = segments.fit.select("row", "fixed").join(
        divided_unfixed.with_columns(segments.unfixed["row"]),
        on="row",
        how="left",
        maintain_order="left",
    )
    return divided.select(pl.coalesce("fixed", "split").alias("split"), "reason")


def _check_train(divided: pl.DataFrame, keys: Sequence[str]) -> None:
    """Raise InputError if segments are lost and none is left for train."""
    is_any_lost = divided["reason"].null_count() < len(divided)
    if is_any_lost and not (divided["split"] == "train").any():
        raise InputError(
            f"group_by: with no {' and no '.join(keys)} in two splits, "
            "dev and test leave nothing for train; "
            "group by fewer or other columns, or request less (dev=0, test=0)"
        )


class _Division(NamedTuple):
    """The unfixed segments as `assign_splits` divided them.

    `exceeds_budget` says whether goals were lowered for the budget.
    """

    divided: pl.DataFrame
    exceeds_budget: bool


def _divide(segments: _Segments, keys: Sequence[str], whole: Collection[str]) -> _Division:
    """Divide the unfixed segments by the columns `keys`.

    The goals of the splits `whole` are lowered until these splits fit into the budget.
    """
    fixed = segments.fixed
    unfixed = segments.unfixed
    targets = segments.targets
    largest = MOST_GOALS * segments.default
    most_lost = int(COSTLY * len(segments.fit))
    fixed_train = int(in_training(segments.fit["fixed"]).sum())
    preset = {key: fixed.preset(key) for key in keys if fixed.is_any}
    while True:
        divided = assign_splits(
            unfixed,
            keys=keys,
            targets=targets,
            seed=segments.parameters.seed,
            gold=unfixed["is_gold"] if segments.parameters.gold else None,
            may_hold_out=unfixed["may_hold_out"],
            preset=preset,
            # Beside fixed splits, sizes are what is left to fill: the report warns of what is
            # missing.
            optional=HELD_OUT if fixed.is_any else (),
            whole=WholeSplits(whole, largest, most_lost, fixed_train),
            hashes=segments.hashes,
        )
        has_goals = any(targets[split].amount for split in whole)
        if not has_goals or not _exceeds_budget(segments, divided, whole):
            return _Division(divided, targets != segments.targets)
        lowered = {
            split: targets[split]._replace(amount=targets[split].amount // _LOWERED)
            for split in whole
        }
        targets = {**targets, **lowered}
        largest //= _LOWERED


def _exceeds_budget(segments: _Segments, divided: pl.DataFrame, whole: Collection[str]) -> bool:
    """Return whether the splits `whole` take too much of the budget.

    They may take half of what is left of it besides the fixed segments of dev and test, and dev or
    test of an exact size. The other half is for train.
    """
    budget = segments.budget
    if budget is None:
        return False
    split = divided["split"]
    exact = [name for name in HELD_OUT if name not in whole]
    fixed_held_out = segments.fit.filter(~in_training(segments.fit["fixed"]))
    others = budget.total(fixed_held_out) + budget.total(segments.unfixed, split.is_in(exact))
    return 2 * budget.total(segments.unfixed, split.is_in([*whole])) > budget.limit - others


def _sizes(divided: pl.DataFrame) -> dict[str, int]:
    """Return the number of segments of each split; segments without a split are not counted."""
    counts = divided["split"].value_counts().drop_nulls("split")
    return dict(counts.cast({"split": pl.String}).iter_rows())


def _loss(segments: _Segments, divided: pl.DataFrame) -> Loss:
    """Return what a division loses of the segments that fit.

    With a budget, other segments replace lost ones while there are more than fit into it. So the
    share is that of the budget which no segment can fill.
    """
    fit = segments.fit
    is_selected = divided["reason"].is_null()
    num_lost = int(divided["reason"].is_in(GROUPING_REASONS).sum())
    if budget := segments.budget:
        could_be_kept = min(budget.limit, budget.total(fit))
        is_kept = min(could_be_kept, budget.total(fit, is_selected))
        return Loss(num_lost, (could_be_kept - is_kept) / max(could_be_kept, 1))
    return Loss(num_lost, int((~is_selected).sum()) / max(len(fit), 1))


def _unfilled_goals(
    segments: _Segments, columns: Sequence[str], attempt: _Attempt
) -> tuple[UnfilledGoal, ...]:
    """Return the splits that have less than their goals, dev first, with what is left to hold out.

    Splits with fixed segments are left out: they take more as the archive grows.
    """
    if not attempt.outcome.missing:
        return ()
    keys = usable_keys(segments.fit, columns)
    values = None
    if keys:
        preset = segments.fixed.preset(keys[0]) if segments.fixed.is_any else {}
        values = values_left(segments.unfixed, attempt.divided_unfixed, keys, preset)
    sizes = _sizes(attempt.divided_unfixed)
    fixed = {split_role(name) for name in segments.fit["fixed"].unique().drop_nulls()}
    return tuple(
        UnfilledGoal(split, goal.amount, sizes.get(split, 0), values, attempt.exceeds_budget)
        for split, goal in sorted(segments.goals.items())
        if split not in fixed and sizes.get(split, 0) < goal.amount
    )


def _remedies(
    segments: _Segments,
    columns: Sequence[str],
    unfilled: Sequence[UnfilledGoal],
    losses: Mapping[tuple[str, ...], Loss],
) -> Remedies:
    """Return what fills splits that are too small: their goals as sizes, or other columns.

    A split with a requested size may take a part of the segments of a value, so that it can be
    filled where whole values are too large. `losses` are those of the other columns.
    """
    goals = {split: goal.amount for split, goal in segments.goals.items()}
    short = {goal.split: goal.goal for goal in unfilled}
    losses_of_others = {columns: _loss_text(loss) for columns, loss in losses.items()}
    if not unfilled or unfilled[0].exceeds_budget:
        return Remedies({}, "", losses_of_others)
    all_short = [*short]
    first_short = all_short[:1]
    for requested in (all_short, [*goals], first_short):
        whole = [split for split in goals if split not in requested]
        outcome = _outcome(segments, columns, whole=whole)
        still_short = sum(goal for split, goal in short.items() if split not in requested)
        if outcome and outcome.missing <= still_short:
            sizes = {split: goals[split] for split in requested}
            return Remedies(sizes, _loss_text(outcome.loss), losses_of_others)
    return Remedies({}, "", losses_of_others)


def _loss_text(loss: Loss) -> str:
    """Return a loss as text."""
    return str(loss) if loss.segments else "nothing"


def still_needed(
    fit: pl.DataFrame,
    parameters: Parameters,
    *,
    default: int,
    gold: pl.Series | None,
    fixed: FixedSplits,
) -> dict[str, Target]:
    """Return what test and dev need besides their fixed segments.

    Args:
        fit: the segments that pass the filters.
        parameters: the requested sizes.
        default: segments of a split for which no size was requested; a given split has no default,
            and with `gold` that of test is all gold segments.
        gold: which of the segments that are not fixed are gold, or None.
        fixed: the fixed splits. Besides them, a split is full if less than the longest segment is
            missing.
    """
    needed = {}
    names = fit["fixed"].unique().drop_nulls().cast(pl.String)
    for split in HELD_OUT:
        fixed_names = [name for name in names if split_role(name) == split]
        fixed_segments = fit.filter(pl.col("fixed").is_in(fixed_names))
        num_fixed = len(fixed_segments)
        if gold is not None and split == "test":
            default_more = int(gold.sum())
        elif split in fixed.given_roles():
            default_more = 0
        else:
            default_more = max(default - num_fixed, 0)
        target = parameters.target(split, default=num_fixed + default_more)
        if target.unit == "micros":
            present = int(fixed_segments["micros"].sum())
            longest = fit.select(pl.col("micros").max().fill_null(0)).item()
        else:
            present = num_fixed
            longest = 1
        missing = max(target.amount - present, 0)
        if fixed.is_any and missing < longest:
            missing = 0  # it is full
        needed[split] = target._replace(amount=missing)
    return needed
