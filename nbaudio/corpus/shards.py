"""Write shards: copy clips from packs into a container.

Each shard has a record, by which a later run can keep it.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from nbaudio.audio import encoder
from nbaudio.core.atomic import atomic_write, sha256_path, size_of, write_json
from nbaudio.core.progress import progress
from nbaudio.core.report import count
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.containers.shard_files import Shard, shard_of_clip
from nbaudio.corpus.cutting import ClipFormat
from nbaudio.corpus.layout import Layout, read_corpus_info
from nbaudio.corpus.packs import PackDamagedError, read_clips
from nbaudio.engine import RunTasks
from nbaudio.storage.location import Location, location
from nbaudio.storage.network import RemoteNotFoundError
from nbaudio.tables.buckets import Buckets, bucket_count, consecutive_bucket, write_buckets
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.parquet_files import digest, num_rows, reading_parquet, scan_rows
from nbaudio.tables.schemas import SEGMENTS

# Facts of a clip, beside the metadata of its segment.
CLIP_FACTS = ("num_samples", "sampling_rate", "duration_s", "window")
# Columns of a corpus's table that are not copied to another corpus.
LOCATION = ("audio_sha256", "shard", "offset", "length")
# Columns of a workspace that are no metadata of its corpora: each import of verdicts changes them,
# and a new version could keep no shard of its base.
ESTIMATES = ("risk",)

# Columns that the segments of a corpus do not have.
_DECIDED = ("decision", "reason")
# Files about a shard: its record, the rows of its clips, its version in a store.
_RECORD = (".json", ".parquet", ".sent")
# Hugging Face recommends smaller files; a reader holds or fetches one shard at a time, and a failed
# transfer repeats it.
_MAX_SHARD_BYTES = 1_000_000_000
_MIN_SHARD_BYTES = 20_000_000  # smaller shards cost a request or an opened file for few clips
_SHARDS_PER_READER = (
    4  # shards per reader for a good shuffle: neighbors then differ from epoch to epoch
)
# Rows with all columns are divided into fewer buckets than others: to write each takes about 9 MB.
_MOST_BUCKETS = 32
_READERS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class ShardedClips:
    """Clips (`LOCATED`) and their rows of the segments table, in buckets of whole shards.

    Rows have the column `row`, too.
    """

    clips: Buckets
    rows: Buckets
    num_shards: int


def pack(
    layout: Layout, container: str, clip_format: ClipFormat, task: tuple[str, pl.DataFrame]
) -> Shard:
    """Write a shard, its record and the rows of its clips; or keep a shard whose bytes are right.

    The task is the name of the shard and its clips, in their order: `segment_id`, `split`, facts,
    and the place of each in a pack. Runs in a worker.
    """
    name, clips = task
    metadata = _with_facts(pl.read_ipc_stream(layout.record(name, ".arrow")), clips)
    # The location of a clip in packs may change between runs, its bytes do not.
    plan = digest(metadata.with_columns(clips["clip_sha256"]).iter_slices(1000))
    rows = layout.record(name, ".parquet")
    planned = Shard(name, clips["split"][0], len(metadata), 0, "", plan, rows)
    whole = _whole_shard(layout, planned)
    if whole is not None:
        return whole
    try:
        return _write_shard(layout, planned, container, clip_format, clips=clips, metadata=metadata)
    except PackDamagedError as error:
        return replace(planned, damaged=str(error))


def _whole_shard(layout: Layout, planned: Shard) -> Shard | None:
    """Return a shard that an earlier run wrote by the same plan; None if its bytes differ."""
    record: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        record = json.loads(layout.record(planned.name).read_text(encoding="utf8"))
    if record.get("plan") != planned.plan or not planned.rows.is_file():
        return None
    if not layout.folder.holds(planned.name, record["sha256"], record["bytes"]):
        return None
    return replace(planned, num_bytes=record["bytes"], sha256=record["sha256"], was_whole=True)


def _write_shard(
    layout: Layout,
    planned: Shard,
    container: str,
    clip_format: ClipFormat,
    *,
    clips: pl.DataFrame,
    metadata: pl.DataFrame,
) -> Shard:
    """Write a planned shard; raise PackDamagedError if a clip's bytes are not as written."""
    with layout.folder.new(planned.name) as path:
        places = container_named(container).write(
            path,
            metadata,
            read_clips(clips),
            extension=encoder(clip_format.encoding).extension,
            rate=clip_format.rate,
        )
        written = replace(planned, num_bytes=size_of(path), sha256=sha256_path(path))
        offsets, lengths, files = zip(*places, strict=True)
        name = planned.name
        described = metadata.with_columns(
            clips["clip_sha256"].alias("audio_sha256"),
            pl.Series("shard", [f"{name}/{file}" if file else name for file in files]),
            pl.Series("offset", offsets, dtype=pl.Int64),
            pl.Series("length", lengths, dtype=pl.Int64),
        )
        record = {"plan": written.plan, "sha256": written.sha256, "bytes": written.num_bytes}
        # The record is written before the final name: a shard with its final name is always whole.
        write_record(layout, name, described, record)
    return written


def _with_facts(segments: pl.DataFrame, clips: pl.DataFrame) -> pl.DataFrame:
    """Return the segments of clips, in the order of the clips, with `CLIP_FACTS`."""
    has_windows = clips["window"].null_count() < len(clips)
    facts = [name for name in CLIP_FACTS if name != "window" or has_windows]
    ordered = clips.select("segment_id", *facts).join(
        segments, on="segment_id", how="left", maintain_order="left"
    )
    return ordered.select(*segments.columns, *facts)


def pack_remotely(
    layout: Layout,
    container: str,
    clip_format: ClipFormat,
    records: Location,
    task: tuple[str, pl.DataFrame],
) -> Shard:
    """Do the same as `pack` in a worker that shares no disk.

    The rows and the record of the shard are files in `records`.
    """
    name, _ = task
    with TemporaryDirectory(prefix="nbaudio-") as scratch:
        local_layout = replace(
            layout, work=Path(scratch), folder=replace(layout.folder, desk=Path(scratch))
        )
        _fetch(local_layout, records, name, (".arrow", *_RECORD))
        shard = pack(local_layout, container, clip_format, task)
        _send(local_layout, records, name)
    return replace(shard, rows=layout.record(name, ".parquet"))


def _record_file(layout: Layout, name: str, suffix: str) -> Path:
    """Return the path of a file about a shard; ``.sent`` is its version in the store."""
    if suffix == ".sent":
        return (layout.folder.desk or layout.work) / "sent" / f"{name}.json"
    return layout.record(name, suffix)


def _fetch(layout: Layout, records: Location, name: str, suffixes: Sequence[str]) -> None:
    """Copy files about a shard that are in `records` to the folder of the run."""
    for suffix in suffixes:
        origin = records / layout.record(name, suffix).name
        target = _record_file(layout, name, suffix)
        with (
            suppress(RemoteNotFoundError),
            origin.fetched() as path,
            atomic_write(target, sync=False) as partial,
        ):
            shutil.copyfile(path, partial)


def _send(layout: Layout, records: Location, name: str) -> None:
    """Copy the record of a shard, if there is one, to `records`."""
    for suffix in _RECORD:
        if (path := _record_file(layout, name, suffix)).is_file():
            with (records / layout.record(name, suffix).name).new() as partial:
                shutil.copyfile(path, partial)


def write_shards(
    layout: Layout,
    clips: ShardedClips,
    container: str,
    clip_format: ClipFormat,
    *,
    run_tasks: RunTasks,
    show: bool,
    records: Location | None = None,
) -> list[Shard]:
    """Write shards, or keep whole ones; return them in any order.

    Workers without a shared disk use `records`.
    """
    function = partial(pack, layout, container, clip_format)
    if records is not None:
        function = partial(pack_remotely, layout, container, clip_format, records)
    shards = []
    with progress("pack", clips.num_shards, "shards", show=show) as advance:
        for shard in run_tasks(function, _tasks(layout, clips, records)):
            layout.record(shard.name, ".arrow").unlink(missing_ok=True)
            if records is not None:
                _take_records(layout, records, shard.name)
            shards.append(shard)
            advance(1)
    return shards


def _take_records(layout: Layout, records: Location, name: str) -> None:
    """Move the files about a shard from `records` to the folder of the run."""
    _fetch(layout, records, name, _RECORD)
    for suffix in (".arrow", *_RECORD):
        (records / layout.record(name, suffix).name).remove()


def divide_by_shard(
    clips: pl.LazyFrame, table: Path, *, columns: pl.Schema | None, folder: Path
) -> ShardedClips:
    """Divide clips and their rows of the segments table into buckets of whole shards.

    Args:
        clips: with the columns of `LOCATED`.
        table: the file of the segments table, `row` of which is in `clips`.
        columns: the metadata columns of the corpus; None means all of the table and `SEGMENTS`.
        folder: a folder for the buckets.
    """
    shards = clips.group_by("shard").agg(pl.len().cast(pl.Int64)).collect(**STREAMED).sort("shard")
    num_clips = int(shards["len"].sum())
    count = min(_MOST_BUCKETS, bucket_count(num_clips))
    group = consecutive_bucket("len", num_clips, count).cast(pl.UInt16)
    groups = shards.select("shard", group=group)
    grouped = clips.join(groups.lazy(), on="shard", how="left")
    group_of_row = _groups_by_row(grouped, num_rows(table), count)
    rows = _metadata(table, columns).with_row_index("row")
    # A join of all columns would hold many rows.
    looked_up = pl.col("row").map_batches(
        group_of_row.gather, return_dtype=pl.UInt16, is_elementwise=True
    )
    rows_in_shards = rows.with_columns(group=looked_up).filter(pl.col("group") < count)
    return ShardedClips(
        write_buckets(grouped, pl.col("group"), count=count, folder=folder / "clips"),
        write_buckets(rows_in_shards, pl.col("group"), count=count, folder=folder / "rows"),
        len(shards),
    )


def _groups_by_row(grouped: pl.LazyFrame, num_rows: int, count: int) -> pl.Series:
    """Return the group of each row of the segments table; `count` where it is in no shard."""
    groups = pl.Series("group", [count], dtype=pl.UInt16).new_from_index(0, num_rows)
    placed = grouped.select("row", "group").collect(**STREAMED)
    return groups.scatter(placed["row"], placed["group"])


def _metadata(table: Path, columns: pl.Schema | None) -> pl.LazyFrame:
    """Return the metadata of a segments table that a corpus has, in order."""
    rows = scan_rows(table)
    schema = rows.collect_schema()
    left_out = (*_DECIDED, *CLIP_FACTS, *LOCATION, *(() if columns else ESTIMATES))
    wanted = columns or pl.Schema({**SEGMENTS, **schema, **SEGMENTS})
    return rows.select(
        pl.col(name).cast(dtype) if name in schema else pl.lit(None, dtype).alias(name)
        for name, dtype in wanted.items()
        if name not in left_out
    )


def _tasks(
    layout: Layout, sharded: ShardedClips, records: Location | None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the name and the clips of each shard.

    By then, its rows of the segments table are in a file of their own.
    """
    for number in range(sharded.clips.count):
        for shard in _whole_shards(sharded.clips.read(number), sharded.rows.read(number)):
            path = layout.record(shard.name, ".arrow")
            with location(path).new() if records is None else (records / path.name).new() as target:
                shard.segments.write_ipc_stream(
                    target, compression="zstd", compat_level=pl.CompatLevel.oldest()
                )
            if records is not None:
                _send(layout, records, shard.name)
            yield shard.name, shard.clips


@dataclass(frozen=True)
class _WholeShard:
    """A shard: its clips, in order, and their rows of the segments table."""

    name: str
    clips: pl.DataFrame
    segments: pl.DataFrame


def _whole_shards(clips: pl.DataFrame, rows: pl.DataFrame) -> Iterator[_WholeShard]:
    """Yield the shards of a bucket, in order; only one has a copy of its rows at a time."""
    numbered = rows.select("row").with_row_index("place")
    metadata = rows.drop("row", "group")
    ordered = clips.sort("shard", "position").drop("group")
    placed = ordered.join(numbered, on="row", maintain_order="left")
    shards = placed.partition_by("shard", as_dict=True, include_key=False, maintain_order=True)
    for (name,), in_shard in shards.items():
        yield _WholeShard(str(name), in_shard.drop("place"), metadata[in_shard["place"]])


def restore_records(layout: Layout) -> str:
    """Rebuild the shard records of a complete corpus, so that only damaged shards are rewritten.

    Return the hash of its card.
    """
    corpus_info = read_corpus_info(layout.folder)
    card = str(corpus_info.get("card", ""))
    if not layout.folder.holds("segments.parquet", corpus_info["tables"]["segments.parquet"]):
        return card
    with layout.folder.local("segments.parquet") as table:
        start = 0
        for shard in corpus_info["shards"]:
            rows = scan_rows(table).slice(start, shard["segments"])
            with reading_parquet(table):
                described = rows.filter(shard_of_clip() == shard["name"]).collect()
            start += shard["segments"]
            record = {name: shard[name] for name in ("plan", "sha256", "bytes")}
            write_record(layout, shard["name"], described, record)
    return card


def write_record(
    layout: Layout, shard: str, described: pl.DataFrame, record: dict[str, Any]
) -> Path:
    """Write the record of a shard, and the rows of its clips; return the file of the rows."""
    # No fsync: if a power cut empties a record, its shard is written once more.
    rows = layout.record(shard, ".parquet")
    with atomic_write(rows, sync=False) as partial:
        described.write_parquet(partial)
    write_json(layout.record(shard), record, sync=False)
    return rows


def shard_advice(shards: Sequence[Shard]) -> str:
    """Return advice on the number of shards of train; empty if there are none.

    It says for how many readers they suffice, and how many shards more readers need. A reader is
    one worker of one training process.
    """
    sizes = [shard.num_bytes for shard in shards if shard.split == "train"]
    if not sizes:
        return ""
    enough = max(1, len(sizes) // _SHARDS_PER_READER)
    advice = [
        f"{count(len(sizes), 'shards', 'are')} enough for {count(enough, 'readers')} at once "
        "(a reader is one worker of one training process)"
    ]
    even = [readers for readers in _READERS[1:] if len(sizes) % readers == 0]
    if even:
        advice.append(f"{_either(even)} readers get equally many shards")
    more = next((readers for readers in _READERS if readers > 2 * enough), _READERS[-1])
    size = sum(sizes) // (more * _SHARDS_PER_READER)
    if size >= _MIN_SHARD_BYTES:
        megabytes = round(size / 1e6)
        number = more * _SHARDS_PER_READER
        advice.append(f"for {more} readers take --shard-count {number} ({megabytes} MB a shard)")
    if max(sizes) > _MAX_SHARD_BYTES:
        advice.append(
            f"the largest shard has {max(sizes) / 1e9:.1f} GB: below 1 GB a broken transfer "
            "repeats less, and hubs recommend it"
        )
    return "; ".join(advice)


def _either(numbers: Sequence[int]) -> str:
    """List numbers, the last after an "or"."""
    *others, last = map(str, numbers)
    return f"{', '.join(others)} or {last}" if others else last
