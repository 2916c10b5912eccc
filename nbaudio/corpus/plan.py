"""The plan of a run: a table with a row for each clip, written before the first clip is cut.

`PLAN` has its columns. A clip is cut into a pack, and later copied to its place in a shard. The
order of the plan is that of the recordings, so that each recording is read once.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import polars as pl

from nbaudio.audio import encoder
from nbaudio.core import atomic, hashing
from nbaudio.core.errors import InputError
from nbaudio.corpus.containers.shard_files import shard_of_clip
from nbaudio.corpus.cutting import ClipFormat
from nbaudio.tables.buckets import (
    Buckets,
    bucket_count,
    consecutive_bucket,
    hash_bucket,
    joined_schema,
    store,
    write_buckets,
)
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.parquet_files import parquet_slices, scan_file, scan_rows, write_parts
from nbaudio.tables.schemas import columns_or_nulls

PLAN = pl.Schema(
    {
        "segment_id": pl.String,
        "clip_key": pl.String,
        "recording_id": pl.String,
        "start_sample": pl.Int64,
        "end_sample": pl.Int64,
        "channel": pl.String,
        "split": pl.String,
        "pack": pl.String,
        "shard": pl.String,
        "position": pl.UInt32,
        "window": pl.String,
        "inputs": pl.String,
        "is_cut": pl.Boolean,
        "row": pl.UInt32,
    }
)
"""Columns of plan.parquet, a row for each clip.

The window is at the recording's own rate. `pack` is the file that the clip is cut into; it is null
for recordings in a compressed tar, whose order decides; in the plan of a finished corpus it is the
file in the corpus. `shard` and `position`, from 0, are null
where no corpus is made. `window` is that of consecutive segments that stay together, if there are
any. `inputs` are the values that a model gets beside the samples, as a JSON list; null elsewhere.
`is_cut` is whether the pack had the clip when the plan was made. `row` is
the number of the segment in its table, from 0.
"""

# Audio in one cut task: short enough to balance the load and to lose little when killed, long
# enough to open few files.
_TASK_SECONDS = 1200.0
_MIN_TASK_SECONDS = 60.0
_MIN_TASKS = 16
_ROWS = 1 << 16  # rows of the plan that are read at once
_CLIP_OVERHEAD_BYTES = 2048  # metadata and headers of a clip in a shard, for sizing only
# Columns of the plan that segments.parquet has; `shard` is the file of the clip there.
_OF_CORPUS = ("segment_id", "recording_id", "start_sample", "end_sample", "split", "shard")
_RECORDING_ORDER = ("recording_id", "start_sample", "end_sample", "channel", "segment_id")


@dataclass(frozen=True)
class ShardLimits:
    """Target bytes of a shard, or the number of shards of each split.

    `window` is how many consecutive segments stay together.
    """

    shard_size: int
    shard_count: int | None = None
    window: int = 1

    def __post_init__(self) -> None:
        for name, number in asdict(self).items():
            if number is not None and number < 1:
                raise InputError(f"{name} must be 1 or more, not {number}")


@dataclass(frozen=True)
class Shards:
    """Clips with their place in shards.

    `clips` has the further columns `shard` and `position`. `table` has a row for each shard, in
    order of splits and numbers: `shard`, `split`, `num_clips`.
    """

    clips: pl.LazyFrame
    table: pl.DataFrame


def clip_samples(clip_format: ClipFormat) -> pl.Expr:
    """Return the number of samples of each clip, from the window and `sampling_rate`.

    It is what `nbaudio.audio.resample_window` cuts.
    """
    rate = pl.col("sampling_rate").cast(pl.Int64)
    if clip_format.rate is None:
        clip_rate = rate
    else:
        clip_rate = pl.lit(clip_format.rate, pl.Int64)
    start, end = (
        (2 * pl.col(name) * clip_rate + rate) // (2 * rate)
        for name in ("start_sample", "end_sample")
    )
    return end - start


def typical_bytes(num_samples: pl.Expr, rate: pl.Expr, encoding: str) -> pl.Expr:
    """Return about how many bytes of a shard a clip of speech takes, with its metadata.

    Shards are divided by it before any clip is cut, so that they depend on the windows alone.
    """
    kind = encoder(encoding)
    by_samples = num_samples * kind.bits_a_sample // 8
    by_seconds = num_samples * kind.bits_a_second // (8 * rate)
    return by_samples + by_seconds + _CLIP_OVERHEAD_BYTES


def assign_windows(segments: pl.DataFrame, size: int, *, label: str = "") -> pl.DataFrame:
    """Add the window of each segment and its place in it, `in_window`, from 0.

    A `window` is up to `size` consecutive segments of a recording and split.
    """
    number = pl.int_range(pl.len()).over("split", "recording_id")
    name = pl.format("{}{} {}", "recording_id", pl.lit(label), number // size)
    order = ("split", "recording_id", "start_sample", "end_sample", "segment_id")
    return segments.sort(order).with_columns(window=name, in_window=number % size)


def with_windows(
    clips: pl.LazyFrame, size: int, *, num_clips: int, folder: Path, label: str = ""
) -> pl.LazyFrame:
    """Do the same as `assign_windows` for `num_clips` segments, in any order.

    If `size` is 1, both are null.
    """
    if size == 1:
        return clips.with_columns(window=pl.lit(None, pl.String), in_window=pl.lit(None, pl.Int64))
    count = bucket_count(num_clips)
    buckets = write_buckets(
        clips, hash_bucket("recording_id", count), count=count, folder=folder / "recordings"
    )
    added = pl.Schema({"window": pl.String, "in_window": pl.Int64})
    parts = (assign_windows(bucket, size, label=label) for bucket in buckets)
    windowed = store(parts, folder / "windows", joined_schema(buckets.schema, added))
    buckets.remove()
    return windowed


def short_windows(segments: pl.DataFrame | pl.LazyFrame, size: int) -> list[str]:
    """Return a note if recordings have fewer segments in a `split` than a window of this `size`.

    Otherwise the list is empty.
    """
    if size == 1:
        return []
    lengths = (
        segments.lazy()
        .group_by("split", "recording_id")
        .len("segments")
        .collect(engine="streaming")
    )
    short = lengths.filter(pl.col("segments") < size)["recording_id"].n_unique()
    if not short:
        return []
    recordings = lengths["recording_id"].n_unique()
    counts = lengths["segments"].to_list()
    partial_windows = sum(count % size > 0 for count in counts)
    windows = sum(-(-count // size) for count in counts)
    return [
        f"window {size:,}: {short:,} of {recordings:,} recordings have fewer than "
        f"{size:,} segments in a split; "
        f"{partial_windows:,} of {windows:,} windows are shorter, "
        "ends of longer recordings included"
    ]


def assign_shards(
    clips: pl.LazyFrame,
    num_clips: Mapping[str, int],
    limits: ShardLimits,
    name_of: Callable[[str, int, int], str],
    *,
    folder: Path,
) -> Shards:
    """Divide the clips of each split into shards of about equal bytes, in the order of a hash.

    Args:
        clips: with the columns `row`, which is unique, `segment_id`, `split`, `num_bytes`,
            `window` and `in_window`.
        num_clips: the number of clips by split.
        limits: the size or the number of the shards.
        name_of: returns the name of a shard from its split, its number in it, and their count.
        folder: a folder for buckets.
    """
    unit = "segment_id" if limits.window == 1 else "window"
    columns = dict.fromkeys(("row", "split", "num_bytes", "in_window", unit))
    buckets = _order_buckets(clips.select(*columns), unit, num_clips, folder / "order")
    counts = [pl.DataFrame(schema={"split": pl.String, "target_shard": pl.Int64, "len": pl.UInt32})]
    place_of_row = pl.Series("place", [0], dtype=pl.UInt32).new_from_index(0, _num_rows(clips))
    num_placed = 0
    first_bucket = 0
    for split in sorted(num_clips):
        numbers = range(first_bucket, first_bucket + bucket_count(num_clips[split]))
        first_bucket = numbers.stop
        for part in _split_shards(buckets, numbers, limits, unit):
            counts.append(part.group_by("split", "target_shard").len())
            places = pl.int_range(num_placed, num_placed + len(part), dtype=pl.UInt32, eager=True)
            place_of_row.scatter(part["row"], places)
            num_placed += len(part)
    buckets.remove()
    shards = _shard_table(pl.concat(counts), name_of)
    return Shards(
        _with_shards(clips, place_of_row, shards), shards.select("shard", "split", "num_clips")
    )


def _num_rows(clips: pl.LazyFrame) -> int:
    """Return the number behind the last `row` of some clips, 0 if there are none."""
    last_row = clips.select(pl.col("row").max()).collect(**STREAMED).item()
    return 0 if last_row is None else int(last_row) + 1


def _with_shards(
    clips: pl.LazyFrame, place_of_row: pl.Series, shards: pl.DataFrame
) -> pl.LazyFrame:
    """Add `shard` and `position` to clips.

    Args:
        clips: with the column `row`.
        place_of_row: the place of each row in the order of all shards, from 0.
        shards: as `_shard_table` returns it.
    """
    place = pl.col("row").map_batches(
        place_of_row.gather, return_dtype=pl.UInt32, is_elementwise=True
    )
    # Counted from 1: a place belongs to the last shard whose first place is at or before it.
    number = pl.col("place").map_batches(
        partial(shards["first_place"].search_sorted, side="right"),
        return_dtype=pl.UInt32,
        is_elementwise=True,
    )
    numbered = shards.lazy().select("shard", "first_place").with_row_index("shard_number", offset=1)
    position = (pl.col("place") - pl.col("first_place")).cast(pl.UInt32)
    return (
        clips.with_columns(place=place)
        .with_columns(shard_number=number)
        .join(numbered, on="shard_number", how="left")
        .with_columns(position=position)
        .drop("place", "shard_number", "first_place")
    )


def _order_buckets(
    clips: pl.LazyFrame, unit: str, num_clips: Mapping[str, int], folder: Path
) -> Buckets:
    """Divide clips by split and by a range of a hash of their unit, the column `order`."""
    splits = sorted(num_clips)
    counts = [bucket_count(num_clips[split]) for split in splits]
    starts = [sum(counts[:index]) for index in range(len(splits))]
    ranges = pl.LazyFrame(
        {"split": splits, "first_bucket": starts, "num_buckets": counts},
        schema={"split": pl.String, "first_bucket": pl.Int64, "num_buckets": pl.Int64},
    )
    order = pl.col(unit).map_batches(
        partial(hashing.hash_column, salt="shard"), return_dtype=pl.UInt64, is_elementwise=True
    )
    ordered = clips.with_columns(order=order).join(ranges, on="split", how="left")
    in_split = (pl.col("order") // 2**32).cast(pl.Int64) * pl.col("num_buckets") // 2**32
    bucket = in_split + pl.col("first_bucket")
    return write_buckets(ordered, bucket, count=sum(counts), folder=folder)


def _split_shards(
    buckets: Buckets, numbers: range, limits: ShardLimits, unit: str
) -> Iterator[pl.DataFrame]:
    """Yield the clips of a split in order, with their `target_shard`, from 0.

    A shard ends where its share of the bytes is reached; whole units stay together.
    """
    total = 0
    num_units = 0
    for number in numbers:
        bucket = buckets.read(number)
        total += int(bucket["num_bytes"].sum())
        num_units += bucket[unit].n_unique()
    count = min(limits.shard_count or -(-total // limits.shard_size), num_units)
    unit_bytes = pl.col("num_bytes").sum().over(unit)
    first_of_unit = pl.col(unit).is_first_distinct()
    bytes_before = 0
    for number in numbers:
        bucket = buckets.read(number).sort("order", unit, "in_window")
        end = pl.when(first_of_unit).then(unit_bytes).otherwise(0).cum_sum() + bytes_before
        # A unit is in the shard in which its middle lies.
        target = (2 * end - unit_bytes) * count // (2 * total)
        yield bucket.with_columns(target_shard=target.clip(upper_bound=count - 1))
        bytes_before += int(bucket["num_bytes"].sum())


def _shard_table(counts: pl.DataFrame, name_of: Callable[[str, int, int], str]) -> pl.DataFrame:
    """Return the shards that have clips: `shard`, `split`, `num_clips` and `first_place`.

    `first_place` is the place of the first clip in the order of all shards, from 0. If one clip is
    as large as several shards, there are fewer than bytes alone would ask for.
    """
    shards = (
        counts.group_by("split", "target_shard")
        .agg(num_clips=pl.col("len").sum().cast(pl.Int64))
        .sort("split", "target_shard")
        .with_columns(
            number=pl.int_range(pl.len()).over("split"),
            count=pl.len().over("split"),
            first_place=pl.col("num_clips").cum_sum() - pl.col("num_clips"),
        )
    )
    names = [name_of(*row) for row in shards.select("split", "number", "count").iter_rows()]
    return shards.with_columns(pl.Series("shard", names, dtype=pl.String))


def without_empty_shards(
    clips: pl.LazyFrame, shards: pl.DataFrame, name_of: Callable[[str, int, int], str]
) -> pl.LazyFrame:
    """Rename shards where one has no clips, as none of its clips could be cut.

    Numbers have no gaps then. `shards` are those of the plan, as `Shards.table`.
    """
    present = clips.select(pl.col("shard").unique()).collect(**STREAMED)
    if len(present) == len(shards):
        return clips
    remaining = shards.join(present, on="shard", how="semi", maintain_order="left").with_columns(
        number=pl.int_range(pl.len()).over("split"), count=pl.len().over("split")
    )
    names = [name_of(*row) for row in remaining.select("split", "number", "count").iter_rows()]
    renamed = remaining.select("shard", new_name=pl.Series(names, dtype=pl.String))
    columns = clips.collect_schema().names()
    return (
        clips.join(renamed.lazy(), on="shard", how="left")
        .with_columns(shard=pl.col("new_name"))
        .select(columns)
    )


def scan_plan(plan: Path) -> pl.LazyFrame:
    """Return the rows of a file plan.parquet, as `PLAN`."""
    return scan_rows(plan)


def plan_slices(plan: Path) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file plan.parquet in order, some thousand at a time, at least once."""
    return parquet_slices(plan, PLAN, rows=_ROWS)


def plan_of_corpus(
    segments: Path, further: Iterable[str] = (), *, rows: range | None = None
) -> pl.LazyFrame:
    """Return the segments.parquet of a finished corpus as a plan (`PLAN`), all of it cut.

    `pack` is the file of the corpus that holds the clip; `clip_key` and `channel` are null. Behind
    these columns are the `further` ones that the table has. `rows` are those of some whole shards;
    None means all. Raise InputError if the table is not usable, or a column of each corpus is
    missing or of another type.
    """
    table = scan_file(segments)
    columns = table.collect_schema()
    for name in _OF_CORPUS:
        dtype = columns.get(name)
        if dtype is None or dtype.is_integer() != PLAN[name].is_integer():
            kind = dtype or "missing"
            raise InputError(f"{segments}: the column {name} is {kind}; is it of a corpus?")
    beside = [name for name in further if name in columns and name not in PLAN]
    used = dict.fromkeys((*_OF_CORPUS, *beside, *({"window"} & columns.keys())))
    first_row = 0
    if rows is not None:
        first_row = rows.start
        table = table.slice(first_row, len(rows))
    placed = (
        table.select(*used)
        .with_row_index("row", offset=first_row)
        .with_columns(pack="shard", shard=shard_of_clip(), is_cut=pl.lit(value=True))
        .with_columns(position=pl.col("row") - pl.col("row").min().over("shard"))
    )
    return placed.select(*columns_or_nulls(PLAN, placed.collect_schema()), *beside)


def write_plan(
    target: Path, clips: pl.LazyFrame, *, facts: pl.DataFrame, archived: pl.Series, folder: Path
) -> None:
    """Write plan.parquet: sort clips by recording and window, and name the packs of new ones.

    Args:
        target: the file; it gets its name when it is complete.
        clips: with the columns of `PLAN` but `is_cut`; absent ones are null. Where `pack` is null,
            the clip is to be cut.
        facts: `recording_facts` of all recordings.
        archived: ids of recordings in a compressed tar.
        folder: a folder for buckets.
    """
    columns = clips.collect_schema()
    absent = [name for name in PLAN if name not in columns]
    rates = facts.lazy().select("recording_id", "sampling_rate")
    seconds = (pl.col("end_sample") - pl.col("start_sample")) / pl.col("sampling_rate")
    planned = (
        clips.with_columns(pl.lit(None, PLAN[name]).alias(name) for name in absent)
        .with_columns(is_cut=pl.col("pack").is_not_null())
        .select(PLAN.names())
        .cast(PLAN)
        .join(rates, on="recording_id", how="left")
        .with_columns(seconds=seconds.fill_null(0.0))
    )
    ranges = _recording_ranges(planned)
    divided = write_buckets(
        planned.join(ranges.lazy().select("recording_id", "bucket"), on="recording_id", how="left"),
        pl.col("bucket"),
        count=bucket_count(int(ranges["num_clips"].sum())),
        folder=folder / "recordings-of-plan",
    )
    task_seconds = _task_seconds(ranges)
    parts = (
        _with_packs(bucket.sort(_RECORDING_ORDER), task_seconds, archived).select(PLAN.names())
        for bucket in divided
    )
    with atomic.atomic_write(target, sync=False) as partial_file:
        write_parts(partial_file, parts)
    divided.remove()


def _recording_ranges(planned: pl.LazyFrame) -> pl.DataFrame:
    """Return a bucket of each recording, in order of their ids, and the seconds to cut of it."""
    is_new = pl.col("pack").is_null()
    ranges = (
        planned.group_by("recording_id")
        .agg(
            num_clips=pl.len().cast(pl.Int64),
            new_milliseconds=(pl.col("seconds") * 1000).cast(pl.Int64).filter(is_new).sum(),
        )
        .collect(**STREAMED)
        .sort("recording_id")
    )
    total = int(ranges["num_clips"].sum())
    return ranges.with_columns(bucket=consecutive_bucket("num_clips", total, bucket_count(total)))


def _task_seconds(ranges: pl.DataFrame) -> float:
    """Return the seconds of audio of a cut task: short ones where there is little to cut."""
    total = int(ranges["new_milliseconds"].sum()) / 1000
    return min(max(total / _MIN_TASKS, _MIN_TASK_SECONDS), _TASK_SECONDS)


def _with_packs(clips: pl.DataFrame, task_seconds: float, archived: pl.Series) -> pl.DataFrame:
    """Name the packs of the clips that are to be cut, after the keys of their clips.

    A recording stays in one pack unless it is longer than one; short recordings share a pack.
    """
    is_new = pl.col("pack").is_null() & ~pl.col("recording_id").is_in(archived.implode())
    # Segments with the same window share a clip.
    new = clips.filter(is_new).unique("clip_key", keep="first", maintain_order=True)
    part = _bin(pl.col("seconds"), task_seconds).over("recording_id")
    parts = (
        new.with_columns(part=part)
        .group_by("recording_id", "part", maintain_order=True)
        .agg(pl.col("seconds").sum(), "clip_key")
        .with_columns(task=_bin(pl.col("seconds"), task_seconds))
    )
    tasks = parts.group_by("task", maintain_order=True).agg(pl.col("clip_key").explode())
    names = [pack_name(keys) for keys in tasks["clip_key"]]
    packs = tasks.select("clip_key", new_pack=pl.Series(names, dtype=pl.String))
    named = clips.join(packs.explode("clip_key"), on="clip_key", how="left", maintain_order="left")
    return named.with_columns(pack=pl.coalesce("pack", "new_pack"))


def _bin(seconds: pl.Expr, wanted: float) -> pl.Expr:
    """Return the number of the bin of `wanted` seconds in which each row begins.

    The rows are laid end to end.
    """
    return ((seconds.cum_sum() - seconds) // wanted).cast(pl.Int64)


def pack_name(clip_keys: Iterable[str]) -> str:
    """Return the name of the pack of some clips, a hash of their keys."""
    lines = "\n".join(clip_keys)
    return f"{hashlib.sha256(lines.encode()).hexdigest()[:24]}.pack"
