"""Where the clips of a plan are: in packs of this run or an earlier one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.core import atomic
from nbaudio.corpus.cutting import ClipFormat
from nbaudio.corpus.packs import INDEX, indexes, pack_names
from nbaudio.corpus.plan import plan_slices, scan_plan
from nbaudio.storage.location import Location
from nbaudio.tables.buckets import (
    PartWriter,
    bucket_count,
    hash_bucket,
    joined_schema,
    store,
    write_buckets,
)
from nbaudio.tables.dataframes import STREAMED

# Most changes of the pack along the plan, for each pack. Packs of several runs may alternate.
_MOST_CHANGES = 4

LOCATED = pl.Schema(
    {
        "row": pl.UInt32,
        "segment_id": pl.String,
        "split": pl.String,
        "shard": pl.String,
        "position": pl.UInt32,
        "num_samples": pl.Int64,
        "sampling_rate": pl.Int32,
        "duration_s": pl.Float64,
        "window": pl.String,
        "pack": pl.String,
        "offset": pl.Int64,
        "length": pl.Int64,
        "clip_sha256": pl.String,
    }
)
"""Columns of located clips: their rows in the plan, and where the bytes are.

`pack` is the path or URL of a pack, or of a shard of the base.
"""


@dataclass(frozen=True)
class LocatedClips:
    """The clips of a plan: those that are in packs, and those that are in none.

    Attributes:
        clips: a row for each clip in a pack, with the columns of `LOCATED`.
        lost: a row for each other clip, in the order of the plan: `segment_id`, and `detail`, why
            it could not be cut; null where there is no reason.
    """

    clips: pl.LazyFrame
    lost: pl.DataFrame


def with_existing_packs(
    clips: pl.LazyFrame, packs: Location, *, num_clips: int, folder: Path
) -> pl.LazyFrame:
    """Add the name of the pack that has each clip as `pack`; null where there is none."""
    schema = joined_schema(clips.collect_schema(), {"pack": pl.String()})
    if not pack_names(packs):
        return clips.with_columns(pack=pl.lit(None, pl.String))
    pack_name = pl.col("pack").str.split("/").list.last()  # an index has its path or URL
    with_names = (
        rows.join(index.select("clip_key", pack=pack_name), on="clip_key", how="left")
        for rows, index in _clips_and_indexes(clips, packs, num_clips=num_clips, folder=folder)
    )
    return store(with_names, folder / "in-packs", schema)


def locate_clips(
    plan: Path,
    packs: Location,
    failures: Mapping[str, str],
    *,
    facts: pl.DataFrame,
    clip_format: ClipFormat,
    num_clips: int,
    folder: Path,
) -> LocatedClips:
    """Find the clips of a plan in packs.

    Args:
        plan: the file plan.parquet.
        packs: the folder of the packs.
        failures: why clips could not be cut, by their keys.
        facts: `recording_facts` of all recordings.
        clip_format: the format of the clips.
        num_clips: the number of rows of the plan.
        folder: a folder for buckets.
    """
    if clip_format.rate is None:  # clips keep the rate of their recording
        rate = pl.col("sampling_rate")
        seconds = pl.col("num_samples") / pl.col("sampling_rate")
    else:
        rate = pl.lit(clip_format.rate)
        # Not divided by a constant: polars then multiplies, unless there is one row, and durations
        # would depend on other clips.
        seconds = pl.col("num_samples") * (1 / clip_format.rate)
    rates = facts.select("recording_id", rate.cast(pl.Int32).alias("sampling_rate"))
    reasons = pl.DataFrame(
        list(failures.items()), schema={"clip_key": pl.String, "detail": pl.String}, orient="row"
    )
    located = PartWriter(folder / "located", LOCATED)
    lost = [pl.DataFrame(schema={"row": pl.UInt32, "segment_id": pl.String, "detail": pl.String})]
    if _packs_are_in_order(plan, packs):
        clips_and_indexes = _consecutive_clips_and_indexes(plan, packs)
    else:
        clips = scan_plan(plan).drop("pack", "is_cut")  # `pack` comes from the indexes
        clips_and_indexes = _clips_and_indexes(clips, packs, num_clips=num_clips, folder=folder)
    for rows, index in clips_and_indexes:
        missing = rows.join(index, on="clip_key", how="anti")
        lost.append(
            missing.join(reasons, on="clip_key", how="left").select("row", "segment_id", "detail")
        )
        cut = rows.join(index, on="clip_key", how="inner").rename({"clip_samples": "num_samples"})
        located.add(cut.join(rates, on="recording_id", how="left").with_columns(duration_s=seconds))
    return LocatedClips(located.scan(), pl.concat(lost).sort("row").drop("row"))


def _packs_are_in_order(plan: Path, packs: Location) -> bool:
    """Return whether all packs of a plan are there, and the clips of most of them are together.

    They are not together where recordings in a compressed tar are cut in the order of the tar. A
    pack is not there where its task was divided, as it ended its worker.
    """
    pack = pl.col("pack")
    names = scan_plan(plan).select(pack.unique()).collect(**STREAMED)["pack"]
    if not set(names) <= set(pack_names(packs)):  # a name is null in a compressed tar
        return False
    num_changes = scan_plan(plan).select((pack != pack.shift()).sum()).collect(**STREAMED).item()
    return int(num_changes) <= _MOST_CHANGES * len(names)


def _consecutive_clips_and_indexes(
    plan: Path, packs: Location
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield the clips of each part of a plan, with the indexes of the packs that it names."""
    for rows in plan_slices(plan):
        names = rows["pack"].unique(maintain_order=True)
        index = pl.concat(indexes(packs, names))
        first_packs = index.unique("clip_key", keep="first", maintain_order=True)
        yield rows.drop("pack", "is_cut"), first_packs


def _clips_and_indexes(
    clips: pl.LazyFrame, packs: Location, *, num_clips: int, folder: Path
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield the clips of each bucket of keys, with the rows of the packs' indexes in this bucket.

    So a clip and its row of an index always come together. A clip may be in several packs: only the
    pack whose path comes first is yielded for it.
    """
    count = bucket_count(num_clips)
    bucket = hash_bucket("clip_key", count)
    wanted = write_buckets(clips, bucket, count=count, folder=folder / "wanted")
    index = store(indexes(packs), folder / "indexes", INDEX)
    packed = write_buckets(index, bucket, count=count, folder=folder / "packed")
    atomic.remove(folder / "indexes")
    for number in range(count):
        index_rows = packed.read(number).sort("clip_key", "pack", "offset")
        first_packs = index_rows.unique("clip_key", keep="first", maintain_order=True)
        yield wanted.read(number), first_packs
    wanted.remove()
    packed.remove()
