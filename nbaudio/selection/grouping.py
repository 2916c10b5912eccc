"""Choice of the columns that keep train, dev and test apart.

It is made by the segments that each choice loses (`GROUPING_RULES`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
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
from nbaudio.tables.row_values import RowHashes
from nbaudio.tables.segment_rules import GROUPING_RULES
from nbaudio.tables.split_names import in_training, split_role

AUTO = "auto"  # takes the first of `DEFAULTS` that is not costly
# No speaker is ever in two splits, no recording if that costs little.
DEFAULTS = (GROUPS, ("speaker_id",))
COSTLY = 0.05

_LOWERED = 4  # a goal that exceeds the budget is divided by this


class Loss(NamedTuple):
    """The `segments` that a choice of columns loses.

    `share` is their share of what could be kept, in [0, 1].
    """

    segments: int
    share: float

    def __str__(self) -> str:
        return f"{count(self.segments, 'segments')} ({percent(self.share)} of what could be kept)"


@dataclass(frozen=True)
class Outcome:
    """What a choice of columns loses, and how many segments are missing of the goals."""

    loss: Loss
    missing: int

    @property
    def rank(self) -> tuple[int, float]:
        """The lowest is the best: goals come before losses."""
        return self.missing, self.loss.share


@dataclass(frozen=True)
class Grouping:
    """A division of segments into splits, by `assign_splits`.

    No value of its `columns` is in two splits.
    """

    columns: tuple[str, ...]
    divided: pl.DataFrame
    # Of these and other columns; None if dev, test or train cannot be filled.
    outcomes: dict[tuple[str, ...], Outcome | None]
    by_default: bool
    unfilled: tuple[UnfilledGoal, ...]
    remedies: Remedies

    @property
    def losses(self) -> dict[tuple[str, ...], Loss | None]:
        """The losses of these and other columns; None if dev, test or train cannot be filled."""
        return {
            columns: outcome.loss if outcome else None for columns, outcome in self.outcomes.items()
        }

    @property
    def losses_of_filled(self) -> dict[tuple[str, ...], Loss | None]:
        """The same, but None also where a goal is not reached."""
        return {
            columns: outcome.loss if outcome and not outcome.missing else None
            for columns, outcome in self.outcomes.items()
        }

    def alternatives(self) -> list[dict[str, Any]]:
        """Return the losses as rows of a table, null for columns that leave too little."""
        unknown = dict.fromkeys(Loss._fields)
        return [
            {"group_by": ",".join(columns), **(loss._asdict() if loss else unknown)}
            for columns, loss in self.losses_of_filled.items()
        ]

    def warnings(self) -> Iterator[str]:
        """Warn of a choice that was not the first one, or is costly."""
        first = DEFAULTS[0]
        chosen_loss = self.losses[self.columns]
        losses = self.losses_of_filled
        if self.by_default and self.columns != first:
            refused = losses[first]
            if refused:
                why = f"would lose {refused}"
            else:
                why = "leaves too little for dev, test or train"
            yield (
                f"grouped by {','.join(self.columns)} alone, as {','.join(first)} {why}: "
                "one recording may be in several splits; "
                f"--group-by {','.join(first)} keeps recordings apart as well"
            )
        if chosen_loss and chosen_loss.share > COSTLY:
            others = {
                columns: loss
                for columns, loss in losses.items()
                if loss and loss.share < chosen_loss.share
            }
            best = min(others, key=lambda columns: others[columns].share, default=None)
            less = ""
            if best:
                less = f"--group-by {','.join(best)} loses {others[best]}"
            cut = int((self.divided["reason"] == "beyond_split_size").sum())
            sizes = "larger" if 2 * cut > chosen_loss.segments else "smaller"
            if best and others[best].share <= COSTLY:
                smaller = ""
            else:
                smaller = f"{sizes} dev and test lose less"
            remedy = ", or ".join(filter(None, (less, smaller)))
            yield (
                f"grouping by {','.join(self.columns)} loses {chosen_loss}, "
                f"reason crosses_splits or the like; {remedy}"
            )


@dataclass(frozen=True)
class _Segments:
    """Segments to divide, and what dev and test need of them.

    `fit` pass the filters, `rest` are those of them whose split is not fixed. `default` is the size
    of a split for which none was requested, `targets` are what test and dev need besides fixed
    segments.
    """

    fit: pl.DataFrame
    rest: pl.DataFrame
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
    """A division of all segments that fit, and that of the rest, as `assign_splits` made it."""

    divided: pl.DataFrame
    divided_rest: pl.DataFrame
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
    outcomes: dict[tuple[str, ...], Outcome | None] = {}
    attempts: dict[tuple[str, ...], _Attempt] = {}
    for columns in DEFAULTS if parameters.group_by is None else (parameters.group_by,):
        if outcomes and not usable_keys(fit, columns):
            continue
        outcomes[columns] = None
        try:
            attempts[columns] = _attempt(segments, columns, whole=segments.goals)
        except InputError as error:
            refusal = error
            continue
        outcomes[columns] = outcome = attempts[columns].outcome
        if not outcome.missing and outcome.loss.share <= COSTLY:
            break
    if not attempts:
        raise refusal
    chosen = min(attempts, key=lambda columns: attempts[columns].outcome.rank)
    best = attempts[chosen]
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
    by_default = parameters.group_by is None
    return Grouping(chosen, best.divided, outcomes, by_default, unfilled, remedies)


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
    rest = fit.filter(pl.col("fixed").is_null()) if fixed.is_any else fit
    is_gold = rest["is_gold"] if parameters.gold else None
    targets = still_needed(fit, parameters, default=default, gold=is_gold, fixed=fixed)
    return _Segments(fit, rest, parameters, fixed, default, targets, budget, hashes)


def _single_columns(
    segments: _Segments,
    chosen: Sequence[str],
    outcome: Outcome,
    tried: Collection[tuple[str, ...]],
) -> list[tuple[str, ...]]:
    """Return the columns to try for the report, each alone.

    There are none if the chosen columns were the first to be tried and lose little.
    """
    loss = outcome.loss
    is_costly = loss.segments > 0 and (len(chosen) > 1 or loss.share > COSTLY)
    if len(tried) == 1 and not outcome.missing and not is_costly:
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
    """Divide segments by columns, those of the `whole` splits by whole values.

    Raise InputError if dev, test or train cannot be filled.
    """
    fit = segments.fit
    keys = usable_keys(fit, columns)
    division = _divide(segments, keys, whole)
    divided_rest = division.divided
    if segments.fixed.is_any:
        divided = fit.select("row", "fixed").join(
            divided_rest.with_columns(segments.rest["row"]),
            on="row",
            how="left",
            maintain_order="left",
        )
        divided = divided.select(pl.coalesce("fixed", "split").alias("split"), "reason")
    else:
        divided = divided_rest
        has_train = (divided["split"] == "train").any()
        if divided["reason"].null_count() < len(fit) and not has_train:
            raise InputError(
                f"group_by: with no {' and no '.join(keys)} in two splits, "
                "dev and test leave nothing for train; "
                "group by fewer or other columns, or request less (dev=0, test=0)"
            )
    sizes = _sizes(divided_rest)
    missing = sum(
        max(goal.amount - sizes.get(split, 0), 0) for split, goal in segments.goals.items()
    )
    return _Attempt(
        divided, divided_rest, Outcome(_loss(segments, divided), missing), division.exceeds_budget
    )


class _Division(NamedTuple):
    """The rest as `assign_splits` divided it, and whether goals were lowered for the budget."""

    divided: pl.DataFrame
    exceeds_budget: bool


def _divide(segments: _Segments, keys: Sequence[str], whole: Collection[str]) -> _Division:
    """Divide the rest; goals are lowered until the `whole` splits fit into the budget."""
    fixed = segments.fixed
    targets = segments.targets
    largest = MOST_GOALS * segments.default
    most_lost = int(COSTLY * len(segments.fit))
    fixed_train = int(in_training(segments.fit["fixed"]).sum())
    preset = {key: fixed.preset(key) for key in keys if fixed.is_any}
    while True:
        divided = assign_splits(
            segments.rest,
            keys=keys,
            targets=targets,
            seed=segments.parameters.seed,
            gold=segments.rest["is_gold"] if segments.parameters.gold else None,
            may_hold_out=segments.rest["may_hold_out"],
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
        lower = {
            split: targets[split]._replace(amount=targets[split].amount // _LOWERED)
            for split in whole
        }
        targets = targets | lower
        largest //= _LOWERED


def _exceeds_budget(segments: _Segments, divided: pl.DataFrame, whole: Collection[str]) -> bool:
    """Return whether the `whole` splits take more than half of what others leave of the budget."""
    budget = segments.budget
    if budget is None:
        return False
    split = divided["split"]
    exact = [name for name in HELD_OUT if name not in whole]
    fixed = segments.fit.filter(~in_training(segments.fit["fixed"]))
    held_out = budget.total(fixed) + budget.total(segments.rest, split.is_in(exact))
    return 2 * budget.total(segments.rest, split.is_in([*whole])) > budget.limit - held_out


def _sizes(divided: pl.DataFrame) -> dict[str, int]:
    """Return the number of segments of each split; those that are out have none."""
    counts = divided["split"].value_counts().drop_nulls("split")
    return dict(counts.cast({"split": pl.String}).iter_rows())


def _loss(segments: _Segments, divided: pl.DataFrame) -> Loss:
    """Return what is lost.

    Losses are made up for by other segments, as long as there are more than fit into the budget.
    """
    fit = segments.fit
    is_selected = divided["reason"].is_null()
    share = int((~is_selected).sum()) / max(len(fit), 1)
    if budget := segments.budget:
        room = min(budget.limit, budget.total(fit))
        share = (room - min(room, budget.total(fit, is_selected))) / max(room, 1)
    return Loss(int(divided["reason"].is_in(GROUPING_RULES).sum()), share)


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
        values = values_left(segments.rest, attempt.divided_rest, keys, preset)
    sizes = _sizes(attempt.divided_rest)
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

    `losses` are those of the other columns.
    """
    goals = {split: goal.amount for split, goal in segments.goals.items()}
    short = {goal.split: goal.goal for goal in unfilled}
    others = {columns: _listed(loss) for columns, loss in losses.items()}
    if unfilled and not unfilled[0].exceeds_budget:
        for splits in ([*short], [*goals], [*short][:1]):
            outcome = _outcome(
                segments, columns, whole=[split for split in goals if split not in splits]
            )
            still_short = sum(goal for split, goal in short.items() if split not in splits)
            if outcome and outcome.missing <= still_short:
                sizes = {split: goals[split] for split in splits}
                return Remedies(sizes, _listed(outcome.loss), others)
    return Remedies({}, "", others)


def _listed(loss: Loss) -> str:
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
    """Return what test and dev need besides fixed segments.

    A split is full if less than the longest segment is missing. `gold` is for the segments that are
    not fixed.
    """
    needed = {}
    names = fit["fixed"].unique().drop_nulls().cast(pl.String)
    for name in HELD_OUT:
        fixed_names = [split for split in names if split_role(split) == name]
        fixed_segments = fit.filter(pl.col("fixed").is_in(fixed_names))
        more = 0 if name in fixed.given_roles() else default - len(fixed_segments)
        more = more if gold is None or name != "test" else int(gold.sum())
        target = parameters.target(name, default=len(fixed_segments) + max(more, 0))
        have = len(fixed_segments)
        spare = 1
        if target.unit == "micros":
            have = int(fixed_segments["micros"].sum())
            spare = fit.select(pl.col("micros").max().fill_null(0)).item()
        missing = target.amount - have
        needed[name] = target._replace(
            amount=0 if fixed.is_any and missing < spare else max(missing, 0)
        )
    return needed
