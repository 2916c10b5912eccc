"""Parameters of `select` and their validation."""

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import parse_size
from nbaudio.selection.look_alikes import APART, TOGETHER
from nbaudio.selection.near_held_out import NEAR_HELD_OUT
from nbaudio.selection.size_budget import (
    CLIP_OVERHEAD_BYTES,
    MICROSECONDS,
    PCM_BYTES_PER_SECOND,
    Budget,
)
from nbaudio.selection.splits import Target, parse_target

HELD_OUT = ("test", "dev")  # filled before train, in that order
_HOUR = 3600 * MICROSECONDS
# Parameters that may be numbers of NumPy, which reports cannot store.
_NUMBERS = (
    *("min_similarity", "max_duration", "min_duration", "near_held_out"),
    *("hours", "disk", "dev", "test", "seed"),
)
MIN_SIMILARITY = 0.8  # unless a threshold was chosen in the tuner


@dataclass(frozen=True)
class Parameters:
    """Validated parameters of `select`.

    `group_by` None leaves the choice of columns to `choose_grouping`.
    """

    min_similarity: float = MIN_SIMILARITY
    max_duration: float = 20.0
    min_duration: float = 0.0
    where: tuple[str, ...] = ()
    splits: str | None = None
    hours: float | None = None
    disk: int | str | None = None
    dev: int | str | None = None
    test: int | str | None = None
    group_by: tuple[str, ...] | None = None
    seed: int = 42
    gold: bool = False
    look_alikes: str = TOGETHER  # or APART
    near_held_out: float = NEAR_HELD_OUT
    avoid: tuple[str, ...] = ()  # labels of data that is avoided
    avoid_by: tuple[str, ...] = ()
    avoid_sha256: str | None = None  # of all that is compared
    clip_size: float = PCM_BYTES_PER_SECOND  # bytes a second; reports have the name

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            object.__setattr__(self, name, _plain(getattr(self, name)))
        _check_number("min_similarity", self.min_similarity, -1, 1)
        _check_number("max_duration", self.max_duration, 0, 1e6)
        _check_number("min_duration", self.min_duration, 0, float(self.max_duration))
        if self.hours is not None:
            _check_number("hours", self.hours, 0, 1e9)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InputError(f"seed={self.seed!r}: must be a whole number")
        _check_number("near_held_out", self.near_held_out, 0.9, 1)
        if self.look_alikes not in (TOGETHER, APART):
            raise InputError(f"look_alikes={self.look_alikes!r}: must be {TOGETHER!r} or {APART!r}")
        for split in HELD_OUT:
            self.target(split, default=0)
        self.budget()

    def target(self, split: str, *, default: int) -> Target:
        """Return the size of a split, `default` segments if none was requested."""
        size = self.dev if split == "dev" else self.test
        if size is None:
            return Target(default, "segments")
        return parse_target(size, split)

    def has_goal(self, split: str) -> bool:
        """Return whether a split has no requested size, but a goal: it takes speakers whole.

        A gold test has as many segments as are gold.
        """
        size = self.dev if split == "dev" else self.test
        return size is None and not (self.gold and split == "test")

    def budget(self) -> Budget | None:
        """Return the budget of hours, or of bytes on disk, if any."""
        if self.hours is not None and self.disk is not None:
            raise InputError(
                f"hours={self.hours} and disk={self.disk!r}: a corpus has one budget, "
                "give one of the two"
            )
        if self.hours is not None:
            return Budget(int(Decimal(str(self.hours)) * _HOUR), pl.col("micros"), _HOUR, "hours")
        if self.disk is not None:
            num_bytes = pl.col("micros") * self.clip_size / MICROSECONDS
            cost = num_bytes.ceil().cast(pl.Int64) + CLIP_OVERHEAD_BYTES
            return Budget(parse_size(self.disk), cost, 10**9, "GB")
        return None


def _plain(value: Any) -> Any:
    """Return a number of NumPy as a number of Python, and other values as they are."""
    return value.item() if hasattr(value, "item") else value


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    """Raise InputError unless a value is a number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise InputError(f"{name}={value!r}: must be a number from {low:g} to {high:g}")
