"""Choice of the columns that keep train, dev and test apart, by the segments that each choice loses.

A segment is lost if grouping keeps it out of every split (`core.tables.GROUPING_RULES`). A choice of columns is costly if it
loses more than `COSTLY` of what could be kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.tables import GROUPING_RULES
from nbaudio.selection.leakage import GROUPS
from nbaudio.selection.splits import usable_keys

AUTO = "auto"
"""The value of ``group_by`` that takes the first of `DEFAULTS` that is not costly."""

DEFAULTS = (GROUPS, ("speaker_id",))
"""The default columns: no speaker is ever in two splits, no recording if that costs little."""

COSTLY = 0.05


class Loss(NamedTuple):
    """The `segments` that a choice of columns loses, and their `share` of what could be kept, in [0, 1]."""

    segments: int
    share: float

    def __str__(self) -> str:
        return f"{self.segments:,} segments ({self.share:.1%} of what could be kept)"


@dataclass(frozen=True)
class Grouping:
    """A division of segments into splits, by `assign_splits`; no value of its `columns` is in two splits.

    `losses` of these and other columns are None if dev, test or train cannot be filled.
    """

    columns: tuple[str, ...]
    divided: pl.DataFrame
    losses: dict[tuple[str, ...], Loss | None]
    by_default: bool

    def alternatives(self) -> list[dict[str, Any]]:
        """Return the losses as rows of a table, null for columns that leave too little."""
        lost = {columns: loss._asdict() if loss else {"segments": None, "share": None} for columns, loss in self.losses.items()}
        return [{"group_by": ",".join(columns), **loss} for columns, loss in lost.items()]

    def warnings(self, command: Callable[[Sequence[str]], str]) -> list[str]:
        """Warn of a choice that was not the first one, or is costly; `command` is the command line for other columns."""
        found = []
        first, own = DEFAULTS[0], self.losses[self.columns]
        if self.by_default and self.columns != first:
            refused = self.losses[first]
            why = f"would lose {refused}" if refused else "leaves too little for dev, test or train"
            found.append(
                f"grouped by {','.join(self.columns)} alone, as {','.join(first)} {why}: one recording may be in several splits; "
                f"to keep recordings apart as well: {command(first)}"
            )
        if own and own.share > COSTLY:
            others = {columns: loss for columns, loss in self.losses.items() if loss and loss.share < own.share}
            best = min(others, key=lambda columns: others[columns].share, default=None)
            less = f"{command(best)} loses {others[best]}" if best else ""
            smaller = "" if best and others[best].share <= COSTLY else "smaller dev and test lose less"
            remedy = ", or ".join(filter(None, (less, smaller)))
            found.append(f"grouping by {','.join(self.columns)} loses {own}, reason crosses_splits or the like; {remedy}")
        return found


def choose_grouping(
    fit: pl.DataFrame,
    asked: tuple[str, ...] | None,
    *,
    divide_by: Callable[[Sequence[str]], pl.DataFrame],
    lost_share: Callable[[pl.DataFrame], float],
) -> Grouping:
    """Divide by the columns that were asked for, or by the first of `DEFAULTS` that is not costly.

    If that loses anything, single columns are tried too, for the report. `divide_by` divides `fit` by keys and raises an
    `InputError` if they leave too little; `lost_share` is the share in [0, 1] of what could be kept that a division loses.
    """
    losses: dict[tuple[str, ...], Loss | None] = {}

    def attempt(columns: tuple[str, ...]) -> pl.DataFrame:
        losses[columns] = None
        divided = divide_by(usable_keys(fit, columns)[0])
        losses[columns] = Loss(int(divided["reason"].is_in(GROUPING_RULES).sum()), lost_share(divided))
        return divided

    best: tuple[float, tuple[str, ...], pl.DataFrame] | None = None
    refused: InputError | None = None
    for columns in (asked,) if asked is not None else DEFAULTS:
        if losses and not usable_keys(fit, columns)[0]:
            continue
        try:
            divided = attempt(columns)
        except InputError as error:
            refused = error
            continue
        loss = losses[columns]
        if loss and (best is None or loss.share < best[0]):
            best = loss.share, columns, divided
        if loss and loss.share <= COSTLY:
            break
    if best is None:
        raise refused or InputError("group_by: there is nothing to group by")
    share, chosen, divided = best
    own = losses[chosen]
    if len(losses) > 1 or (own and own.segments and (len(chosen) > 1 or share > COSTLY)):
        for key in dict.fromkeys((*chosen, *GROUPS)):
            if (key,) not in losses and usable_keys(fit, (key,))[0]:
                try:
                    attempt((key,))
                except InputError:
                    continue  # noted as None
    return Grouping(chosen, divided, losses, asked is None)
