"""Sizes of dev and test before a selection.

They are what was requested, and it is checked whether there is enough for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.selection.parameters import HELD_OUT, Parameters
from nbaudio.selection.size_budget import MICROSECONDS
from nbaudio.selection.splits import Target
from nbaudio.tables import rejection_reasons, schemas, workspace_tables
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.workspace import Workspace

_DEFAULT_SHARE = 20  # dev and test each get a twentieth of the segments,
_MOST_BY_DEFAULT = 2000  # at most so many


@dataclass(frozen=True)
class Amount:
    """Segments and their duration in microseconds."""

    segments: int
    micros: int

    def of(self, unit: str) -> int:
        """Return the amount in the unit of a `Target`."""
        return self.segments if unit == "segments" else self.micros


def default_size(segments: int) -> int:
    """Return the number of segments of dev, or of test, where no size was requested."""
    return min(_MOST_BY_DEFAULT, segments // _DEFAULT_SHARE)


def usable_amount(workspace: Workspace) -> Amount:
    """Return the segments that are usable, before any filter of a selection."""
    recordings = workspace.recordings
    broken = list(rejection_reasons.segment_failures(recordings))
    rates = recordings.select("recording_id", "sampling_rate").lazy()
    usable = workspace_tables.scan(workspace).filter(
        ~pl.col("reason").is_in(broken).fill_null(value=False)
    )
    seconds = seconds_column().clip(0).fill_nan(0).sum()
    sums = usable.join(rates, on="recording_id", how="left").select(pl.len(), seconds)
    segments, duration_s = sums.collect(**STREAMED).row(0)
    return Amount(segments, round(duration_s * MICROSECONDS))


def requested_sizes(
    workspace: str | Path | Workspace,
    *,
    dev: int | str | None = None,
    test: int | str | None = None,
) -> tuple[Amount, dict[str, Target]]:
    """Return the usable segments of a workspace and the sizes of dev and test.

    Args:
        workspace: the workspace, or its folder.
        dev: number of segments, or hours such as ``"1.5h"``; unless given, a goal of 5 % of the
            usable segments, at most 2000, for which `select` holds speakers out whole.
        test: likewise.

    Raises:
        InputError: a size is no size, or nothing would be left for train, unless the workspace has
            splits of an earlier version.
    """
    workspace = Workspace.open(workspace)
    usable = usable_amount(workspace)
    parameters = Parameters(dev=dev, test=test)
    default = default_size(usable.segments)
    sizes = {split: parameters.target(split, default=default) for split in HELD_OUT}
    # Beside the splits of an earlier version, sizes are what is left to fill.
    if not workspace_tables.table_path(workspace, schemas.EARLIER_SPLITS).exists():
        _check_train(
            usable, {split: size for split, size in sizes.items() if not parameters.has_goal(split)}
        )
    return usable, sizes


def _check_train(usable: Amount, sizes: Mapping[str, Target]) -> None:
    """Raise InputError if requested sizes take all usable segments, or all their hours."""
    for unit in ("segments", "micros"):
        of_unit = {split: size for split, size in sizes.items() if size.unit == unit}
        total = Target(sum(size.amount for size in of_unit.values()), unit)
        available = Target(usable.of(unit), unit)
        if total.amount and total.amount >= available.amount:
            listed = " and ".join(f"{split}: {size}" for split, size in sorted(of_unit.items()))
            raise InputError(
                f"{listed}: nothing would be left for train, as {available} are usable; "
                "request less, or leave dev and test out: then speakers are held out whole, up to "
                "a goal of 5 % for each"
            )
