"""Choice of the columns that keep train, dev and test apart, by the segments that each choice loses (`GROUPING_RULES`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.tables import GROUPING_RULES
from nbaudio.selection.leakage import GROUPS
from nbaudio.selection.splits import usable_keys

AUTO = "auto"  # takes the first of `DEFAULTS` that is not costly
DEFAULTS = (GROUPS, ("speaker_id",))  # no speaker is ever in two splits, no recording if that costs little
COSTLY = 0.05


class Loss(NamedTuple):
    """The `segments` that a choice of columns loses, and their `share` of what could be kept, in [0, 1]."""

    segments: int
    share: float

    def __str__(self) -> str:
        return f"{self.segments:,} segments ({self.share:.1%} of what could be kept)"


@dataclass(frozen=True)
class Grouping:
    """A division of segments into splits, by `assign_splits`; no value of its `columns` is in two splits."""

    columns: tuple[str, ...]
    divided: pl.DataFrame
    losses: dict[tuple[str, ...], Loss | None]  # of these and other columns; None if dev, test or train cannot be filled
    by_default: bool

    def alternatives(self) -> list[dict[str, Any]]:
        """Return the losses as rows of a table, null for columns that leave too little."""
        unknown = dict.fromkeys(Loss._fields)
        return [{"group_by": ",".join(columns), **(loss._asdict() if loss else unknown)} for columns, loss in self.losses.items()]

    def warnings(self, command: Callable[[Sequence[str]], str]) -> Iterator[str]:
        """Warn of a choice that was not the first one, or is costly; `command` is the command line for other columns."""
        first, own = DEFAULTS[0], self.losses[self.columns]
        if self.by_default and self.columns != first:
            refused = self.losses[first]
            why = f"would lose {refused}" if refused else "leaves too little for dev, test or train"
            yield (
                f"grouped by {','.join(self.columns)} alone, as {','.join(first)} {why}: one recording may be in several splits; "
                f"to keep recordings apart as well: {command(first)}"
            )
        if own and own.share > COSTLY:
            others = {columns: loss for columns, loss in self.losses.items() if loss and loss.share < own.share}
            best = min(others, key=lambda columns: others[columns].share, default=None)
            less = f"{command(best)} loses {others[best]}" if best else ""
            smaller = "" if best and others[best].share <= COSTLY else "smaller dev and test lose less"
            remedy = ", or ".join(filter(None, (less, smaller)))
            yield f"grouping by {','.join(self.columns)} loses {own}, reason crosses_splits or the like; {remedy}"


def choose_grouping(
    fit: pl.DataFrame,
    requested: tuple[str, ...] | None,
    *,
    divide_by: Callable[[Sequence[str]], pl.DataFrame],
    lost_share: Callable[[pl.DataFrame], float],
) -> Grouping:
    """Divide by the requested columns, or by the first of `DEFAULTS` that is not costly; try single ones for the report.

    `divide_by` raises InputError if keys leave too little; `lost_share` is the lost share of what could be kept, in [0, 1].
    """
    losses: dict[tuple[str, ...], Loss | None] = {}
    refused: list[InputError] = []

    def attempt(columns: tuple[str, ...]) -> tuple[Loss, pl.DataFrame] | None:
        losses[columns] = None
        try:
            divided = divide_by(usable_keys(fit, columns))
        except InputError as error:
            refused.append(error)
            return None
        losses[columns] = loss = Loss(int(divided["reason"].is_in(GROUPING_RULES).sum()), lost_share(divided))
        return loss, divided

    found: dict[tuple[str, ...], tuple[Loss, pl.DataFrame]] = {}
    for columns in (requested,) if requested is not None else DEFAULTS:
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
    return Grouping(chosen, divided, losses, requested is None)
