"""Write shards: copy clips from packs into a container.

While a corpus is made, the folder of the run has files about each shard, see `Layout.record`. A
worker reads the segments of its clips (.arrow). It writes the rows of segments.parquet, with the
location of each clip (.parquet), and a record (.json), by which a later run keeps the shard.
Workers without a shared disk read and write these files in a remote folder, `records`.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
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
from nbaudio.corpus.containers.shard_files import ADDED_IN, Shard, shard_of_clip
from nbaudio.corpus.cutting import ClipFormat
from nbaudio.corpus.layout import Layout, read_corpus_info
from nbaudio.corpus.packs import PackDamagedError, read_clips
from nbaudio.engine import RunTasks
from nbaudio.storage.location import Location, location
from nbaudio.storage.network import RemoteNotFoundError
from nbaudio.tables.buckets import Buckets, bucket_count, consecutive_bucket, write_buckets
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.parquet_files import digest, num_rows, reading_parquet, scan_rows
from nbaudio.tables.schemas import SEGMENTS, columns_or_nulls

CLIP_FACTS = ("num_samples", "sampling_rate", "duration_s", "window")
"""Facts of a clip, beside the metadata of its segment."""

LOCATION = ("audio_sha256", "shard", "offset", "length")
"""Columns of a corpus's table that are not copied to another corpus."""

NOT_METADATA = (*CLIP_FACTS, *LOCATION, ADDED_IN)
"""Columns of a corpus's table that are no metadata of segments."""

ESTIMATES = ("risk",)
"""Columns of a workspace that are no metadata of its corpora.

Each import of verdicts changes them, and a new version could keep no shard of its base.
"""

# Columns that the segments of a corpus do not have.
_DECIDED = ("decision", "reason")
# What the record of a shard says; corpus.json has the same.
_RECORDED = ("plan", "sha256", "bytes")
# Endings of the files that a worker without a shared disk gets from an earlier run, and returns:
# record, rows of the clips, and what `Folder` notes about the upload.
_RECORD_FILES = (".json", ".parquet", ".sent")
# Hugging Face recommends smaller files; a reader holds or fetches one shard at a time, and a failed
# transfer repeats it.
_MAX_SHARD_BYTES = 1_000_000_000
_MIN_SHARD_BYTES = 20_000_000  # smaller shards cost a request or an opened file for few clips
# For a good shuffle: a reader mixes the clips of its shards, and a clip has other neighbors in each
# epoch.
_SHARDS_PER_READER = 4
_READERS = (1, 2, 4, 8, 16, 32, 64)  # numbers of readers that the advice is about
# Rows with all columns are divided into fewer buckets than others: to write each takes about 9 MB.
_MOST_BUCKETS = 32


@dataclass(frozen=True)
class ShardedClips:
    """Clips and their segments, in buckets; all clips of a shard are in one bucket.

    Attributes:
        clips: with the columns of `LOCATED`.
        segments: rows of the segments table, with their number in it as `row`.
        num_shards: the number of shards in all buckets.
        num_bytes: of all clips.
    """

    clips: Buckets
    segments: Buckets
    num_shards: int
    num_bytes: int


@dataclass(frozen=True)
class ShardTask:
    """A shard to write: its name, and its clips in order, with the columns of `LOCATED`."""

    name: str
    clips: pl.DataFrame


def write_shard(layout: Layout, container: str, clip_format: ClipFormat, task: ShardTask) -> Shard:
    """Write a shard, its record and the rows of its clips, in a worker.

    A shard that an earlier run wrote by the same plan is kept if its bytes are right. A shard whose
    pack is damaged is not written, and is returned as damaged.
    """
    name = task.name
    segments = pl.read_ipc_stream(layout.record(name, ".arrow"))
    metadata = _with_clip_facts(segments, task.clips)
    # The location of a clip in packs may change between runs, its bytes do not.
    content = metadata.with_columns(task.clips["clip_sha256"])
    planned = Shard(
        name=name,
        split=task.clips["split"][0],
        segments=len(metadata),
        num_bytes=0,
        sha256="",
        plan=digest(content.iter_slices(1000)),
        rows=layout.record(name, ".parquet"),
    )
    complete = _complete_shard(layout, planned)
    if complete is not None:
        return complete
    try:
        return _write_shard(
            layout, planned, container, clip_format, clips=task.clips, metadata=metadata
        )
    except PackDamagedError as error:
        return replace(planned, damaged=str(error))


def _complete_shard(layout: Layout, planned: Shard) -> Shard | None:
    """Return the shard that an earlier run wrote by the same plan; None if there is none.

    Nor is there one if its bytes are no longer those of its record.
    """
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
        locations = container_named(container).write(
            path,
            metadata,
            read_clips(clips),
            extension=encoder(clip_format.encoding).extension,
            rate=clip_format.rate,
        )
        written = replace(planned, num_bytes=size_of(path), sha256=sha256_path(path))
        offsets, lengths, files = zip(*locations, strict=True)
        name = planned.name
        rows = metadata.with_columns(
            clips["clip_sha256"].alias("audio_sha256"),
            pl.Series("shard", [f"{name}/{file}" if file else name for file in files]),
            pl.Series("offset", offsets, dtype=pl.Int64),
            pl.Series("length", lengths, dtype=pl.Int64),
        )
        # The record is written before the final name: a shard with its final name is always whole.
        write_record(layout, written.to_json(), rows)
    return written


def _with_clip_facts(segments: pl.DataFrame, clips: pl.DataFrame) -> pl.DataFrame:
    """Return the segments of clips, in the order of the clips, with `CLIP_FACTS`.

    `window` is left out where no clip has one.
    """
    has_windows = clips["window"].null_count() < len(clips)
    facts = [name for name in CLIP_FACTS if name != "window" or has_windows]
    ordered = clips.select("segment_id", *facts).join(
        segments, on="segment_id", how="left", maintain_order="left"
    )
    return ordered.select(*segments.columns, *facts)


def write_shard_remotely(
    layout: Layout,
    container: str,
    clip_format: ClipFormat,
    records: Location,
    task: ShardTask,
) -> Shard:
    """Do the same as `write_shard` in a worker that shares no disk.

    The files about the shard are in `records`.
    """
    name = task.name
    with TemporaryDirectory(prefix="nbaudio-") as scratch:
        local_layout = replace(
            layout, work=Path(scratch), folder=replace(layout.folder, desk=Path(scratch))
        )
        _fetch_files(local_layout, records, name, (".arrow", *_RECORD_FILES))
        shard = write_shard(local_layout, container, clip_format, task)
        _send_record(local_layout, records, name)
    return replace(shard, rows=layout.record(name, ".parquet"))


def _local_file(layout: Layout, name: str, suffix: str) -> Path:
    """Return the path of a file about a shard; ``.sent`` is the note of `Folder` on its upload."""
    if suffix == ".sent":
        return (layout.folder.desk or layout.work) / "sent" / f"{name}.json"
    return layout.record(name, suffix)


def _fetch_files(layout: Layout, records: Location, name: str, suffixes: Sequence[str]) -> None:
    """Copy the files about a shard that are in `records` to the folder of the run."""
    for suffix in suffixes:
        remote_file = records / layout.record(name, suffix).name
        with (
            suppress(RemoteNotFoundError),
            remote_file.fetched() as fetched,
            atomic_write(_local_file(layout, name, suffix), sync=False) as partial,
        ):
            shutil.copyfile(fetched, partial)


def _send_record(layout: Layout, records: Location, name: str) -> None:
    """Copy the record of a shard and its further files, if they exist, to `records`."""
    for suffix in _RECORD_FILES:
        local_file = _local_file(layout, name, suffix)
        if local_file.is_file():
            with (records / layout.record(name, suffix).name).new() as partial:
                shutil.copyfile(local_file, partial)


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
    """Write shards, or keep complete ones; return them in any order.

    Args:
        layout: the corpus.
        clips: the clips of all shards.
        container: its name.
        clip_format: the format of the clips.
        run_tasks: runs tasks in workers.
        show: whether progress is shown.
        records: a remote folder for workers that share no disk with this process.
    """
    function = partial(write_shard, layout, container, clip_format)
    if records is not None:
        function = partial(write_shard_remotely, layout, container, clip_format, records)
    shards = []
    with progress("pack", clips.num_shards, "shards", show=show) as advance:
        for shard in run_tasks(function, _prepared_tasks(layout, clips, records)):
            layout.record(shard.name, ".arrow").unlink(missing_ok=True)
            if records is not None:
                _move_files_here(layout, records, shard.name)
            shards.append(shard)
            advance(1)
    return shards


def _move_files_here(layout: Layout, records: Location, name: str) -> None:
    """Move the files about a shard from `records` to the folder of the run."""
    _fetch_files(layout, records, name, _RECORD_FILES)
    for suffix in (".arrow", *_RECORD_FILES):
        (records / layout.record(name, suffix).name).remove()


def _prepared_tasks(
    layout: Layout, sharded: ShardedClips, records: Location | None
) -> Iterator[ShardTask]:
    """Yield a task for each shard, after the files that it reads are written."""
    for number in range(sharded.clips.count):
        for task, segments in _tasks_of_bucket(
            sharded.clips.read(number), sharded.segments.read(number)
        ):
            path = layout.record(task.name, ".arrow")
            record = location(path) if records is None else records / path.name
            with record.new() as target:
                segments.write_ipc_stream(
                    target, compression="zstd", compat_level=pl.CompatLevel.oldest()
                )
            if records is not None:
                _send_record(layout, records, task.name)
            yield task


def _tasks_of_bucket(
    clips: pl.DataFrame, segments: pl.DataFrame
) -> Iterator[tuple[ShardTask, pl.DataFrame]]:
    """Yield the tasks of a bucket with the segments of each, in order.

    Segments are copied for one shard at a time, as they are large.
    """
    places = segments.select("row").with_row_index("place")
    segments = segments.drop("row", "shard_bucket")
    ordered_clips = clips.sort("shard", "position").drop("shard_bucket")
    placed_clips = ordered_clips.join(places, on="row", maintain_order="left")
    shards = placed_clips.partition_by(
        "shard", as_dict=True, include_key=False, maintain_order=True
    )
    for (name,), shard_clips in shards.items():
        task = ShardTask(str(name), shard_clips.drop("place"))
        yield task, segments[shard_clips["place"]]


def divide_by_shard(
    clips: pl.LazyFrame, table: Path, *, columns: pl.Schema | None, folder: Path
) -> ShardedClips:
    """Divide clips and their segments into buckets, by shard.

    Args:
        clips: with the columns of `LOCATED`.
        table: the file of the segments table, `row` of which is in `clips`.
        columns: the metadata columns of the corpus; None means all of the table and `SEGMENTS`.
        folder: a folder for the buckets.
    """
    sums = (pl.len().cast(pl.Int64), pl.col("length").sum())
    shards = clips.group_by("shard").agg(sums).collect(**STREAMED).sort("shard")
    num_clips = int(shards["len"].sum())
    count = min(_MOST_BUCKETS, bucket_count(num_clips))
    bucket = consecutive_bucket("len", num_clips, count).cast(pl.UInt16)
    shard_buckets = shards.select("shard", shard_bucket=bucket)
    clips = clips.join(shard_buckets.lazy(), on="shard", how="left")
    bucket_of_row = _bucket_of_each_row(clips, num_rows(table), count)
    # The bucket of a row is looked up by its number: a join with all columns of the table would
    # have many rows in memory.
    looked_up = pl.col("row").map_batches(
        bucket_of_row.gather, return_dtype=pl.UInt16, is_elementwise=True
    )
    segments = (
        _corpus_metadata(table, columns)
        .with_row_index("row")
        .with_columns(shard_bucket=looked_up)
        .filter(pl.col("shard_bucket") < count)
    )
    number = pl.col("shard_bucket")
    return ShardedClips(
        write_buckets(clips, number, count=count, folder=folder / "clips"),
        write_buckets(segments, number, count=count, folder=folder / "rows"),
        len(shards),
        int(shards["length"].sum()),
    )


def _bucket_of_each_row(clips: pl.LazyFrame, num_rows: int, count: int) -> pl.Series:
    """Return the bucket of each row of the segments table; `count` where it has no clip."""
    buckets = pl.repeat(count, num_rows, dtype=pl.UInt16, eager=True)
    rows = clips.select("row", "shard_bucket").collect(**STREAMED)
    return buckets.scatter(rows["row"], rows["shard_bucket"])


def _corpus_metadata(table: Path, columns: pl.Schema | None) -> pl.LazyFrame:
    """Return the rows of a segments table with the metadata columns of a corpus, in order.

    Without `columns`, these are `SEGMENTS` and then the further columns of the table.
    """
    rows = scan_rows(table)
    schema = rows.collect_schema()
    left_out: tuple[str, ...] = (*_DECIDED, *NOT_METADATA)
    if not columns:
        further = {name: dtype for name, dtype in schema.items() if name not in SEGMENTS}
        columns = pl.Schema({**SEGMENTS, **further})
        left_out += ESTIMATES
    metadata = {name: dtype for name, dtype in columns.items() if name not in left_out}
    return rows.select(columns_or_nulls(metadata, schema))


def restore_records(layout: Layout) -> str:
    """Write the records of all shards of a complete corpus; only damaged shards are rewritten then.

    Return the hash of its card. Without a whole segments.parquet, no record is written.
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
                rows_of_shard = rows.filter(shard_of_clip() == shard["name"]).collect()
            start += shard["segments"]
            write_record(layout, shard, rows_of_shard)
    return card


def write_record(layout: Layout, shard: Mapping[str, Any], rows: pl.DataFrame) -> Path:
    """Write the record of a shard, and the rows of its clips; return the file of the rows.

    Args:
        layout: the corpus.
        shard: the entry of the shard in corpus.json.
        rows: of segments.parquet.
    """
    # No fsync: if a power cut empties a record, its shard is written once more.
    path = layout.record(shard["name"], ".parquet")
    with atomic_write(path, sync=False) as partial:
        rows.write_parquet(partial)
    record = {name: shard[name] for name in _RECORDED}
    write_json(layout.record(shard["name"]), record, sync=False)
    return path


def shard_advice(shards: Sequence[Shard]) -> str:
    """Return advice on the number of shards of train; empty if there are none.

    It says for how many readers they suffice, and how many shards more readers need. A reader is
    one worker of one training process.
    """
    sizes = [shard.num_bytes for shard in shards if shard.split == "train"]
    if not sizes:
        return ""
    num_readers = max(1, len(sizes) // _SHARDS_PER_READER)
    advice = [
        f"{count(len(sizes), 'shards', 'are')} enough for {count(num_readers, 'readers')} at once "
        "(a reader is one worker of one training process)"
    ]
    even_readers = [number for number in _READERS[1:] if len(sizes) % number == 0]
    if even_readers:
        advice.append(f"{_either(even_readers)} readers get equally many shards")
    more_readers = next((number for number in _READERS if number > 2 * num_readers), _READERS[-1])
    num_shards = more_readers * _SHARDS_PER_READER
    shard_bytes = sum(sizes) // num_shards
    if shard_bytes >= _MIN_SHARD_BYTES:
        megabytes = round(shard_bytes / 1e6)
        advice.append(
            f"for {more_readers} readers take --shard-count {num_shards} ({megabytes} MB a shard)"
        )
    if max(sizes) > _MAX_SHARD_BYTES:
        advice.append(
            f"the largest shard has {max(sizes) / 1e9:.1f} GB: below {_MAX_SHARD_BYTES / 1e9:g} GB "
            "a broken transfer repeats less, and hubs recommend it"
        )
    return "; ".join(advice)


def _either(numbers: Sequence[int]) -> str:
    """List numbers, the last after an "or"."""
    *others, last = map(str, numbers)
    if not others:
        return last
    return f"{', '.join(others)} or {last}"
