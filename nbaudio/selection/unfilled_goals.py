"""Splits of default size that are smaller than their goals: why, and which options fill them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from nbaudio.selection.whole_groups import MOST_GOALS

FEW_VALUES = 8  # with fewer speakers the report proposes what to do

_NOUNS = {"speaker_id": "speaker", "recording_id": "recording"}


@dataclass(frozen=True)
class ValuesLeft:
    """Values of the first of the `keys`, such as speakers, that are not held out.

    There are `total` values, `left` of them might be held out; the `smallest` of these has so many
    segments, None if none is left.
    """

    keys: tuple[str, ...]
    total: int
    left: int
    smallest: int | None


@dataclass(frozen=True)
class UnfilledGoal:
    """A split with fewer `segments` than its `goal`, besides fixed ones.

    `values` are what is left to hold out, None if nothing is grouped. A budget may leave no room.
    """

    split: str
    goal: int
    segments: int
    values: ValuesLeft | None
    exceeds_budget: bool


def values_left(
    segments: pl.DataFrame,
    divided: pl.DataFrame,
    keys: Sequence[str],
    preset: Collection[str],
) -> ValuesLeft:
    """Return the values of the first of the keys that are left after a division of `segments`.

    Values of `preset` have their split from an earlier version, or from given splits.
    """
    is_held_out = divided["split"].is_in(["dev", "test"]).fill_null(value=False)
    values = (
        segments.select("may_hold_out", value=keys[0])
        .with_columns(is_held_out=is_held_out)
        .group_by("value")
        .agg(pl.any("is_held_out", "may_hold_out"), segments=pl.len())
        .drop_nulls("value")
        .with_columns(pl.col("value").cast(pl.String))
    )
    left = values.filter(
        ~pl.col("is_held_out") & pl.col("may_hold_out") & ~pl.col("value").is_in([*preset])
    )
    smallest = int(left["segments"].to_numpy().min()) if len(left) else None
    return ValuesLeft(tuple(keys), len(values), len(left), smallest)


@dataclass(frozen=True)
class Remedies:
    """What fills splits that are too small.

    `sizes` are goals that may be requested as sizes, by split, and `loss_of_sizes` says what that
    loses; there are none if it cannot be done. `losses` say it of other columns that reach the
    goals.
    """

    sizes: Mapping[str, int]
    loss_of_sizes: str
    losses: Mapping[tuple[str, ...], str]


def unfilled_warnings(unfilled: Sequence[UnfilledGoal], remedies: Remedies) -> Iterator[str]:
    """Say for each split why it is smaller than its goal, and which options fill it.

    With few speakers, one more line compares what these options cost.
    """
    for goal in unfilled:
        if goal.segments:
            state = f"has {goal.segments:,} of {goal.goal:,} segments"
        else:
            state = "is empty"
        sizes: Mapping[str, int] = {}
        if goal.split in remedies.sizes:
            sizes = remedies.sizes
            if set(sizes) <= {other.split for other in unfilled}:
                sizes = {goal.split: goal.goal}
        options = ", ".join(_options(goal, sizes, remedies.losses))
        yield f"{goal.split} {state}: {_reason(goal)}; {options}"
    values = unfilled[0].values if unfilled else None
    is_explained = values is None or values.smallest is None or unfilled[0].exceeds_budget
    if values and not is_explained and values.total < FEW_VALUES:
        yield _proposal(values, remedies)


def _reason(goal: UnfilledGoal) -> str:
    """Say why nothing more is held out."""
    values = goal.values
    if goal.exceeds_budget:
        return "by default dev and test take at most half of the budget"
    if values is None or values.smallest is None:
        return "nothing is left for it beside the segments whose split is fixed"
    plural = noun(values.keys[0])
    size = f"{_largest(goal):,} segments (three times the goal of {goal.goal:,})"
    other = "other " if values.left < values.total else ""
    if values.smallest <= _largest(goal) and values.left > 1 and len(values.keys) > 1:
        shared = " or ".join(map(noun, values.keys[1:]))
        return (
            f"every {other}{noun(values.keys[0], 1)} with at most {size} shares {shared} with "
            "others, of whom too many segments would be lost"
        )
    if values.smallest <= _largest(goal):
        return f"holding out more {plural} leaves too little for train"
    if values.left == 1:
        limit = f"the {other or 'only '}{noun(values.keys[0], 1)} has more than {size}"
    else:
        limit = f"none of the {other}{values.left:,} {plural} has at most {size}"
    return f"{limit}, and {plural} are held out whole"


def _options(
    goal: UnfilledGoal, sizes: Mapping[str, int], columns: Collection[tuple[str, ...]]
) -> Iterator[str]:
    """Yield the options that fill a split, sizes or other columns, and what they do."""
    values = goal.values
    if goal.exceeds_budget:
        yield "a larger budget makes room"
        return
    if values is None or values.smallest is None:
        yield "it needs new speakers or recordings"
        return
    if sizes:
        yield f"{_size_options(sizes)} {_what_sizes_do(goal, values)}"
    for others in columns:
        yield f"--group-by {','.join(others)} divides by {' and '.join(map(noun, others))}"
    if not sizes and not columns:
        yield f'--group-by "" divides whatever the {" and ".join(map(noun, values.keys))}'


def _what_sizes_do(goal: UnfilledGoal, values: ValuesLeft) -> str:
    """Say what is left out if a goal is requested as a size."""
    if values.smallest is not None and values.smallest > _largest(goal):
        return f"cuts one (the rest of that {noun(values.keys[0], 1)} is left out)"
    return f"fills it (what shares {' or '.join(map(noun, values.keys))} with it is left out)"


def _size_options(sizes: Mapping[str, int]) -> str:
    """Return the options that request sizes."""
    return " ".join(f"--{split} {size}" for split, size in sorted(sizes.items()))


def _proposal(values: ValuesLeft, remedies: Remedies) -> str:
    """Propose what to do with so few values, and say how many segments each option loses."""
    ways = [f"add {noun(values.keys[0])}"]
    if remedies.sizes:
        ways.append(f"{_size_options(remedies.sizes)}, which loses {remedies.loss_of_sizes}")
    for columns, loss in remedies.losses.items():
        shared = " and ".join(noun(key) for key in values.keys if key not in columns)
        ways.append(
            f"--group-by {','.join(columns)}, which loses {loss} and may have the same {shared} "
            "in several splits"
        )
    if not remedies.losses:
        shared = " and ".join(map(noun, values.keys))
        ways.append(
            f'--group-by "", which loses nothing but has the same {shared} in several splits'
        )
    number = f"{values.total} {noun(values.keys[0], values.total)}"
    return f"only {number} to divide: {', or '.join(ways)}"


def _largest(goal: UnfilledGoal) -> int:
    """Return the most segments of what is held out whole."""
    return MOST_GOALS * goal.goal


def noun(column: str, number: int = 2) -> str:
    """Return the word for values of a column, such as speakers, or for one of them."""
    plural = "s" if number > 1 else ""
    if column in _NOUNS:
        return f"{_NOUNS[column]}{plural}"
    return f"value{plural} of {column}"
