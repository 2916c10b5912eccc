"""The budget of a corpus in hours or on disk, and the segments for which it has no room.

Costs are whole microseconds or bytes, so that no rounding exceeds the budget. A budget on disk
counts clips as 16 kHz mono FLAC.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import encode_clip, read_clip
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.times import rescale
from nbaudio.storage.location import Location, LocationLike, location
from nbaudio.tables.rejection_reasons import source_channel
from nbaudio.tables.row_values import RowHashes
from nbaudio.tables.split_names import in_training

MICROSECONDS = 1_000_000  # the number of microseconds in a second
_RATE = 16000  # Hz, of the clips whose size a budget of disk counts
# Up to three archive members with headers and padding, the text, and a row in segments.parquet.
CLIP_OVERHEAD_BYTES = 3000
# 16-bit samples. No clip takes more: FLAC stores uncompressed what it cannot compress.
PCM_BYTES_PER_SECOND = 2.0 * _RATE


class Budget(NamedTuple):
    """The limit of a corpus, and the cost of a segment.

    Attributes:
        limit: the most that all segments may cost, in microseconds or bytes.
        cost: the cost of a segment, an expression over `micros`, its duration in whole
            microseconds.
        scale: how much of the cost is one `unit`.
        unit: the unit in which amounts are shown, such as "hours".
    """

    limit: int
    cost: pl.Expr
    scale: int
    unit: str

    def show(self, amount: int) -> str:
        """Format an amount of the cost with its unit."""
        return f"{amount / self.scale:,.3f} {self.unit}"

    def total(self, segments: pl.DataFrame, where: pl.Series | None = None) -> int:
        """Return the cost of segments, which have `micros`; only of those `where` flags, if given.

        `where` has a flag for each row; null counts as false.
        """
        cost = self.cost if where is None else self.cost.filter(where)
        return int(segments.select(cost.sum()).item())


def rows_over_budget(
    selected: pl.DataFrame,
    budget: Budget,
    *,
    seed: int,
    preferred: Sequence[pl.Expr],
    hashes: RowHashes,
) -> pl.Series:
    """Return the `row` of each segment of train for which the budget has no room.

    Dev and test come first, whole. Then speakers of train, or recordings where the speaker is
    unknown, take turns: in each turn they give one segment, in an order that depends on the seed.
    In the turn in which the budget ends, segments are taken until the first that does not fit.

    Args:
        selected: the segments that have a split, with ascending `row`, `split`, `micros`,
            `speaker_id` and `recording_id` (categorical), `barred`, and the columns of `preferred`.
            Barred segments are left out of train afterwards, because they were reviewed. They cost
            nothing, so that the others use the whole budget; they take their turns, so that the
            order of the others does not depend on what was reviewed.
        budget: the limit, and the cost of a segment.
        seed: determines the order in a turn, and which segment a speaker gives in which turn.
        preferred: flags, at least one, of segments that take all their turns before the others;
            the first flag counts most.
        hashes: returns hashes of the ids of rows; see `RowHashes`.

    Raises:
        InputError: dev and test alone exceed the budget.
    """
    in_train = in_training(selected["split"])
    room = _room_for_train(selected, in_train, budget)
    train = _train_costs(selected, in_train, budget, preferred)
    del selected, in_train  # frees memory before turns are computed: they are as large as `train`
    train = _with_turns(train, hashes(train["row"], f"draw {seed}"))
    turns = train.group_by("turn").agg(pl.sum("cost")).sort("turn")
    spent = turns["cost"].cum_sum()
    num_whole_turns = int((spent <= room).sum())
    if num_whole_turns == len(turns):
        return pl.Series("row", dtype=pl.UInt32)
    last_turn = turns["turn"][num_whole_turns]
    room_in_last_turn = room
    if num_whole_turns:
        room_in_last_turn = room - spent[num_whole_turns - 1]
    # Another hash than the draws gives the order within a turn: in the first turn, a speaker with
    # many segments gives the smallest of many draws, and by draws would nearly always come first.
    in_last_turn = train.filter(pl.col("turn") == last_turn)
    places = hashes(in_last_turn["row"], f"place {seed}")
    in_last_turn = in_last_turn.with_columns(place=places).sort("place", "row")
    over = in_last_turn.filter(pl.col("cost").cum_sum() > room_in_last_turn)["row"]
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
    selected: pl.DataFrame, in_train: pl.Series, budget: Budget, preferred: Sequence[pl.Expr]
) -> pl.DataFrame:
    """Return the segments of train with `row`, `rank`, `speaker` and `cost`.

    `rank` is 0 for segments with all flags of `preferred`, and larger where earlier flags are
    missing. `speaker` is a number of the speaker, or of the recording if the speaker is unknown.
    """
    # Flags that are missing are the bits of the rank, the first flag the highest bit.
    missing_flags = [(~flag).cast(pl.UInt32) for flag in reversed(preferred)]
    rank = pl.sum_horizontal(missing * 2**bit for bit, missing in enumerate(missing_flags))
    # Speakers have even numbers and recordings odd ones.
    speaker = 2 * pl.col("speaker_id").to_physical()
    recording = 2 * pl.col("recording_id").to_physical() + 1
    return selected.select(
        "row",
        rank=rank,
        speaker=pl.coalesce(speaker, recording),
        cost=pl.when("barred").then(0).otherwise(budget.cost),
    ).filter(in_train)


def _with_turns(train: pl.DataFrame, draws: pl.Series) -> pl.DataFrame:
    """Return `row`, `cost` and `turn` of segments of train; `draws` are their seeded hashes.

    All segments of a turn are taken before those of the next. Each `rank` has its own turns, after
    those of smaller ranks.
    """
    # A turn is less than the number of segments, so the turns of two ranks never meet.
    turn = _turns_of_speakers(train["speaker"].to_numpy(), draws.to_numpy())
    return train.select("row", "cost", turn=pl.Series(turn) + train["rank"] * len(train))


def _turns_of_speakers(
    speakers: NDArray[np.uint32], draws: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    """Return how many segments of the same speaker have a smaller draw, for each segment."""
    order = np.lexsort((draws, speakers))  # by speaker, then by draw
    ordered_speakers = speakers[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = ordered_speakers[1:] != ordered_speakers[:-1]
    place = np.arange(len(order), dtype=np.uint32)
    first_place = np.maximum.accumulate(np.where(is_first, place, np.uint32(0)))
    turn = np.empty(len(order), dtype=np.uint32)
    turn[order] = place - first_place
    return turn


@dataclass(frozen=True)
class _EncodedClip:
    """The size of a clip as FLAC, and its length in samples at `_RATE`."""

    num_bytes: int
    num_samples: int


def measure_bytes_per_second(clips: pl.DataFrame, root: LocationLike) -> float | None:
    """Encode some clips to estimate the bytes that a second of a corpus takes.

    Return three standard errors above the mean of the clips, None if fewer than two can be read.

    Args:
        clips: windows of recordings, with `path`, `start_sample`, `end_sample`, `num_samples` and
            `sampling_rate` of the recording, and `source_channel`, if they have one.
        root: the folder or URL that the paths are relative to.
    """
    encoded = list(_encode_clips(clips, location(root)))
    if len(encoded) < 2:
        return None
    num_bytes = np.array([clip.num_bytes for clip in encoded], dtype=np.float64)
    num_samples = np.array([clip.num_samples for clip in encoded], dtype=np.float64)
    # A ratio of sums, since the size of the corpus is this ratio times its seconds: a long clip
    # counts more than a short one.
    bytes_per_sample = float(num_bytes.sum() / num_samples.sum())
    deviation = float(np.std(num_bytes - bytes_per_sample * num_samples, ddof=1))
    standard_error = deviation / (float(num_samples.mean()) * math.sqrt(len(encoded)))
    return (bytes_per_sample + 3 * standard_error) * _RATE


def _encode_clips(clips: pl.DataFrame, folder: Location) -> Iterator[_EncodedClip]:
    """Encode windows of recordings; leave out those that cannot be read."""
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
        encoded = encode_clip(samples, _RATE, encoding="flac")
        yield _EncodedClip(len(encoded), rescale(end - start, rate, _RATE))
