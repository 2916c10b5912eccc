"""Budget of hours or of disk, in whole microseconds or bytes, so that it is never exceeded; disk is for 16 kHz mono FLAC."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import polars as pl

from nbaudio.audio import encode_clip, read_clip
from nbaudio.core.channels import source_channel
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.input_guards import parse_size
from nbaudio.core.source_splits import in_training
from nbaudio.core.times import rescale
from nbaudio.selection.row_hashes import RowHashes
from nbaudio.storage.location import LocationLike, location

MICROSECONDS = 1_000_000  # in a second
_RATE = 16000
_CLIP_OVERHEAD = 3000  # up to three archive members with headers and padding, the text, and a row in segments.parquet


class ClipSize(NamedTuple):
    """Bytes of a clip in a corpus: for each second, and for each clip whatever its length."""

    per_second: float
    per_clip: int


PCM = ClipSize(2.0 * _RATE, _CLIP_OVERHEAD)  # the upper bound: FLAC stores what it cannot compress uncompressed


def measure_clip_size(clips: pl.DataFrame, root: LocationLike) -> ClipSize | None:
    """Encode some `clips`, and take three standard errors above their mean size; None if fewer than two can be read."""
    folder, measured = location(root), []
    columns = ("path", "start_sample", "end_sample", source_channel(clips), "num_samples", "sampling_rate")
    for path, start, end, channel, num_samples, rate in clips.select(columns).iter_rows():
        try:
            samples = read_clip(folder / path, start, end, num_samples=num_samples, rate=_RATE, channel=channel or "mix")
        except AudioError:
            continue
        measured.append((len(encode_clip(samples, _RATE, encoding="flac")), rescale(end - start, rate, _RATE)))
    if len(measured) < 2:
        return None
    size, length = np.array(measured, dtype=np.float64).T
    # A ratio estimate: the corpus is summed over seconds, so long clips count more than short ones.
    mean = size.sum() / length.sum()
    error = float(np.std(size - mean * length, ddof=1)) / (float(length.mean()) * math.sqrt(len(measured)))
    return ClipSize((float(mean) + 3 * error) * _RATE, _CLIP_OVERHEAD)


class Budget(NamedTuple):
    """The limit of a corpus, the cost of a segment (an expression over `micros`), and how many of them are a `unit`."""

    limit: int
    cost: pl.Expr
    scale: int
    unit: str

    def show(self, amount: int) -> str:
        """Format an amount with its unit."""
        return f"{amount / self.scale:,.3f} {self.unit}"

    def total(self, segments: pl.DataFrame, some: pl.Series | None = None) -> int:
        """Sum the cost of segments with `micros` (duration, whole microseconds), or of some of them."""
        cost = self.cost if some is None else self.cost.filter(some)
        return int(segments.select(cost.sum()).item())


def make_budget(*, hours: float | None = None, disk: int | str | None = None, clip_size: ClipSize) -> Budget | None:
    """Return a budget of hours, or of bytes on disk for clips of `clip_size`; None without either."""
    if hours is not None and disk is not None:
        raise InputError(f"hours={hours} and disk={disk!r}: a corpus has one budget, give one of the two")
    if hours is not None:
        return Budget(int(Decimal(str(hours)) * 3600 * MICROSECONDS), pl.col("micros"), 3600 * MICROSECONDS, "hours")
    if disk is not None:
        cost = (pl.col("micros") * clip_size.per_second / MICROSECONDS).ceil().cast(pl.Int64) + clip_size.per_clip
        return Budget(parse_size(disk), cost, 10**9, "GB")
    return None


def over_budget(kept: pl.DataFrame, budget: Budget, *, seed: int, first: Sequence[pl.Expr], hashes: RowHashes) -> pl.Series:
    """Return the `row` of train segments over the budget, after dev and test; those that meet conditions of `first` go first.

    Speakers (recordings, if unknown) take turns in seeded order, until one does not fit. Those that are `barred` take their turn
    but nothing of the budget, so that it ends at the same place whichever segments were reviewed. `hashes` are those of ids.
    """
    in_train = in_training(kept["split"])
    held_out = budget.total(kept, ~in_train)
    if held_out > budget.limit:
        raise InputError(
            f"dev and test alone take {budget.show(held_out)}, the budget is {budget.show(budget.limit)}; "
            "set smaller ones or a larger budget"
        )
    speaker = pl.coalesce(
        2 * pl.col("speaker_id").to_physical().cast(pl.Int64), 2 * pl.col("recording_id").to_physical().cast(pl.Int64) + 1
    )
    cost = pl.when("barred").then(0).otherwise(budget.cost)
    place = [(~one).alias(f"first {number}") for number, one in enumerate(first)]
    train = kept.select("row", *place, speaker=speaker, cost=cost).filter(in_train)
    turn = pl.col("turn").rank("ordinal").over("speaker").cast(pl.UInt32)
    train = train.with_columns(turn=hashes(train["row"], f"draw {seed}")).with_columns(turn).drop("speaker")
    # Places are independent of draws: the first draw of a speaker with many segments is a small hash, and would come early.
    train = train.with_columns(place=hashes(train["row"], f"place {seed}"))
    ordered = train.sort(*(one.meta.output_name() for one in place), "turn", "place", "row")
    return ordered.filter(pl.col("cost").cum_sum() > budget.limit - held_out)["row"].sort()
