"""Budget of hours or of disk, in whole microseconds or bytes, so that it is never exceeded.

A budget of disk is for 16 kHz mono FLAC.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import encode_clip, read_clip
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.times import rescale
from nbaudio.storage.location import LocationLike, location
from nbaudio.tables.rejection_reasons import source_channel
from nbaudio.tables.row_values import RowHashes
from nbaudio.tables.split_names import in_training

MICROSECONDS = 1_000_000  # the number of microseconds in a second
_RATE = 16000
# bytes: up to three archive members with headers and padding, the text, and a row in
# segments.parquet
CLIP_OVERHEAD = 3000
# Bytes a second, the upper bound: FLAC stores what it cannot compress uncompressed.
PCM = 2.0 * _RATE


def measure_clip_size(clips: pl.DataFrame, root: LocationLike) -> float | None:
    """Encode some `clips` to estimate the size of a clip.

    Return three standard errors above their mean bytes a second, None if fewer than two can be
    read.
    """
    folder = location(root)
    measured = []
    columns = (
        "path",
        "start_sample",
        "end_sample",
        source_channel(clips),
        "num_samples",
        "sampling_rate",
    )
    for path, start, end, channel, num_samples, rate in clips.select(columns).iter_rows():
        try:
            samples = read_clip(
                folder / path,
                start,
                end,
                num_samples=num_samples,
                rate=_RATE,
                channel=channel or "mix",
            )
        except AudioError:
            continue
        measured.append(
            (len(encode_clip(samples, _RATE, encoding="flac")), rescale(end - start, rate, _RATE))
        )
    if len(measured) < 2:
        return None
    size, length = np.array(measured, dtype=np.float64).T
    # A ratio estimate: the corpus is summed over seconds, so long clips count more than short ones.
    mean = size.sum() / length.sum()
    error = float(np.std(size - mean * length, ddof=1)) / (
        float(length.mean()) * math.sqrt(len(measured))
    )
    return (float(mean) + 3 * error) * _RATE


class Budget(NamedTuple):
    """The limit of a corpus, and the cost of a segment (an expression over `micros`).

    `scale` says how much of the cost is one `unit`.
    """

    limit: int
    cost: pl.Expr
    scale: int
    unit: str

    def show(self, amount: int) -> str:
        """Format an amount with its unit."""
        return f"{amount / self.scale:,.3f} {self.unit}"

    def total(self, segments: pl.DataFrame, some: pl.Series | None = None) -> int:
        """Sum the cost of segments, or of some of them.

        They have `micros` (duration, whole microseconds).
        """
        cost = self.cost if some is None else self.cost.filter(some)
        return int(segments.select(cost.sum()).item())


def over_budget(
    selected: pl.DataFrame,
    budget: Budget,
    *,
    seed: int,
    first: Sequence[pl.Expr],
    hashes: RowHashes,
) -> pl.Series:
    """Return the `row` of train segments that exceed the budget less dev and test.

    Segments that meet `first` are taken first. Speakers (recordings, if unknown) take turns in
    seeded order, until one does not fit. Those that are `barred` take their turn but nothing of the
    budget, so that it ends at the same place whichever segments were reviewed. `hashes` are those
    of ids.
    """
    in_train = in_training(selected["split"])
    room = _room_for_train(selected, in_train, budget)
    train = _train_costs(selected, in_train, budget, first)
    del selected, in_train  # as large as `train`
    train = _with_turns(train, hashes(train["row"], f"draw {seed}"))
    costs = train.group_by("turn").agg(pl.sum("cost")).sort("turn")
    spent = costs["cost"].cum_sum()
    num_whole_turns = int((spent <= room).sum())
    if num_whole_turns == len(costs):
        return pl.Series("row", dtype=pl.UInt32)
    last_turn = costs["turn"][num_whole_turns]
    left = room
    if num_whole_turns:
        left -= spent[num_whole_turns - 1]
    # In the turn in which the budget ends, segments are in the order of their places. These are
    # independent of draws: the first draw of a speaker with many segments is a small hash, and
    # would come early.
    at_end = train.filter(pl.col("turn") == last_turn)
    at_end = at_end.with_columns(place=hashes(at_end["row"], f"place {seed}")).sort("place", "row")
    over = at_end.filter(pl.col("cost").cum_sum() > left)["row"]
    return pl.concat([train.filter(pl.col("turn") > last_turn)["row"], over])


def _room_for_train(selected: pl.DataFrame, in_train: pl.Series, budget: Budget) -> int:
    """Return what dev and test leave of a budget; raise InputError if they exceed it."""
    held_out = budget.total(selected, ~in_train)
    if held_out > budget.limit:
        raise InputError(
            f"dev and test alone take {budget.show(held_out)}, "
            f"the budget is {budget.show(budget.limit)}; "
            "set smaller ones or a larger budget"
        )
    return budget.limit - held_out


def _train_costs(
    selected: pl.DataFrame, in_train: pl.Series, budget: Budget, first: Sequence[pl.Expr]
) -> pl.DataFrame:
    """Return the segments of train: `row`, `late`, `speaker` and `cost`.

    `late` is 0 for those that meet all of `first`; earlier expressions count more. `speaker` is a
    number of the speaker, or of the recording if the speaker is unknown.
    """
    speaker = 2 * pl.col("speaker_id").to_physical()
    recording = 2 * pl.col("recording_id").to_physical()
    misses = [(~is_first).cast(pl.UInt32) for is_first in reversed(first)]
    return selected.select(
        "row",
        late=pl.sum_horizontal(miss * 2**place for place, miss in enumerate(misses)),
        speaker=pl.coalesce(speaker, recording + 1),
        cost=pl.when("barred").then(0).otherwise(budget.cost),
    ).filter(in_train)


def _with_turns(train: pl.DataFrame, draws: pl.Series) -> pl.DataFrame:
    """Return `row`, `cost` and `turn` of segments of train, by the seeded hash of each.

    All of one turn are taken before the next; the turns of `late` segments come later.
    """
    turn = _turns(train["speaker"].to_numpy(), draws.to_numpy())
    return train.select("row", "cost", turn=turn + train["late"] * len(train))


def _turns(speaker: NDArray[np.uint32], draw: NDArray[np.uint64]) -> pl.Series:
    """Return the rank of each draw among those of its speaker, from 0."""
    order = np.lexsort((draw, speaker))
    ordered = speaker[order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(ordered)]
    place = np.arange(len(order), dtype=np.uint32)
    place -= np.maximum.accumulate(np.where(first, place, np.uint32(0)))
    turn = np.empty(len(order), dtype=np.uint32)
    turn[order] = place
    return pl.Series("turn", turn)
