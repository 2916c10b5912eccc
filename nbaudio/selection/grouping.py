"""Choice of the columns that keep train, dev and test apart.

It is made by the segments that each choice loses (`GROUPING_RULES`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.row_values import RowHashes
from nbaudio.core.source_splits import split_role
from nbaudio.core.tables import GROUPING_RULES
from nbaudio.selection.fixed_splits import FixedSplits
from nbaudio.selection.leakage import GROUPS
from nbaudio.selection.parameters import HELD_OUT, Parameters
from nbaudio.selection.requested_sizes import default_size
from nbaudio.selection.size_budget import Budget
from nbaudio.selection.splits import Target, assign_splits, usable_keys

AUTO = "auto"  # takes the first of `DEFAULTS` that is not costly
# No speaker is ever in two splits, no recording if that costs little.
DEFAULTS = (GROUPS, ("speaker_id",))
COSTLY = 0.05


class Loss(NamedTuple):
    """The `segments` that a choice of columns loses.

    `share` is their share of what could be kept, in [0, 1].
    """

    segments: int
    share: float

    def __str__(self) -> str:
        return f"{self.segments:,} segments ({self.share:.1%} of what could be kept)"


@dataclass(frozen=True)
class Grouping:
    """A division of segments into splits, by `assign_splits`.

    No value of its `columns` is in two splits.
    """

    columns: tuple[str, ...]
    divided: pl.DataFrame
    # Losses of these and other columns; None if dev, test or train cannot be filled.
    losses: dict[tuple[str, ...], Loss | None]
    by_default: bool

    def alternatives(self) -> list[dict[str, Any]]:
        """Return the losses as rows of a table, null for columns that leave too little."""
        unknown = dict.fromkeys(Loss._fields)
        return [
            {"group_by": ",".join(columns), **(loss._asdict() if loss else unknown)}
            for columns, loss in self.losses.items()
        ]

    def warnings(self) -> Iterator[str]:
        """Warn of a choice that was not the first one, or is costly."""
        first = DEFAULTS[0]
        own = self.losses[self.columns]
        if self.by_default and self.columns != first:
            refused = self.losses[first]
            why = f"would lose {refused}" if refused else "leaves too little for dev, test or train"
            yield (
                f"grouped by {','.join(self.columns)} alone, as {','.join(first)} {why}: "
                "one recording may be in several splits; "
                f"--group-by {','.join(first)} keeps recordings apart as well"
            )
        if own and own.share > COSTLY:
            others = {
                columns: loss
                for columns, loss in self.losses.items()
                if loss and loss.share < own.share
            }
            best = min(others, key=lambda columns: others[columns].share, default=None)
            less = f"--group-by {','.join(best)} loses {others[best]}" if best else ""
            smaller = (
                "" if best and others[best].share <= COSTLY else "smaller dev and test lose less"
            )
            remedy = ", or ".join(filter(None, (less, smaller)))
            yield (
                f"grouping by {','.join(self.columns)} loses {own}, "
                f"reason crosses_splits or the like; {remedy}"
            )


def choose_grouping(  # noqa: C901, PLR0915
    fit: pl.DataFrame,
    parameters: Parameters,
    fixed: FixedSplits,
    budget: Budget | None,
    hashes: RowHashes,
) -> Grouping:
    """Divide segments that pass the filters by the requested columns.

    If none were requested, they are the first of `DEFAULTS` that is not costly. Single columns are
    tried for the report. Raise InputError if all choices leave too little.
    """
    default = len(fit)
    room = 0
    if budget:
        room = min(budget.limit, budget.total(fit))
        default = default * room // max(budget.total(fit), 1)
    rest = fit.filter(pl.col("fixed").is_null()) if fixed.is_any else fit
    is_gold = rest["is_gold"] if parameters.gold else None
    missing = still_needed(
        fit, parameters, default=default_size(default), gold=is_gold, fixed=fixed
    )
    # Beside fixed splits, sizes are what is left to fill: the report warns of what is missing.
    optional = HELD_OUT if fixed.is_any else ()
    losses: dict[tuple[str, ...], Loss | None] = {}
    refused: list[InputError] = []

    def divide_by(keys: Sequence[str]) -> pl.DataFrame:
        divided = assign_splits(
            rest,
            keys=keys,
            targets=missing,
            seed=parameters.seed,
            gold=is_gold,
            may_hold_out=rest["may_hold_out"],
            preset={key: fixed.preset(key) for key in keys if fixed.is_any},
            optional=optional,
            hashes=hashes,
        )
        if fixed.is_any:
            divided = fit.select("row", "fixed").join(
                divided.with_columns(rest["row"]), on="row", how="left", maintain_order="left"
            )
            divided = divided.select(pl.coalesce("fixed", "split").alias("split"), "reason")
        elif divided["reason"].null_count() < len(fit) and not (divided["split"] == "train").any():
            raise InputError(
                f"group_by: with no {' and no '.join(keys)} in two splits, "
                "dev and test leave nothing for train; "
                "group by fewer or other columns, or request less (dev=0, test=0)"
            )
        return divided

    def attempt(columns: tuple[str, ...]) -> tuple[Loss, pl.DataFrame] | None:
        losses[columns] = None
        try:
            divided = divide_by(usable_keys(fit, columns))
        except InputError as error:
            refused.append(error)
            return None
        kept = divided["reason"].is_null()
        share = int((~kept).sum()) / max(len(fit), 1)
        # Losses are made up for by other segments, as long as there are more than fit into the
        # budget
        if budget:
            share = (room - min(room, budget.total(fit, kept))) / max(room, 1)
        losses[columns] = loss = Loss(int(divided["reason"].is_in(GROUPING_RULES).sum()), share)
        return loss, divided

    found: dict[tuple[str, ...], tuple[Loss, pl.DataFrame]] = {}
    for columns in DEFAULTS if parameters.group_by is None else (parameters.group_by,):
        if (not losses or usable_keys(fit, columns)) and (division := attempt(columns)):
            found[columns] = division
            if division[0].share <= COSTLY:
                break
    if not found:
        raise refused[-1]
    chosen = min(found, key=lambda columns: found[columns][0].share)
    own, divided = found[chosen]
    if len(losses) > 1 or (own.segments and (len(chosen) > 1 or own.share > COSTLY)):
        for key in dict.fromkeys((*chosen, *GROUPS)):
            if (key,) not in losses and usable_keys(fit, (key,)):
                attempt((key,))
    return Grouping(chosen, divided, losses, parameters.group_by is None)


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
        own = fit.filter(pl.col("fixed").is_in([one for one in names if split_role(one) == name]))
        more = 0 if name in fixed.given_roles() else default - len(own)
        more = more if gold is None or name != "test" else int(gold.sum())
        target = parameters.target(name, default=len(own) + max(more, 0))
        have = len(own)
        spare = 1
        if target.unit == "micros":
            have = int(own["micros"].sum())
            spare = fit.select(pl.col("micros").max().fill_null(0)).item()
        missing = target.amount - have
        needed[name] = target._replace(
            amount=0 if fixed.is_any and missing < spare else max(missing, 0)
        )
    return needed
