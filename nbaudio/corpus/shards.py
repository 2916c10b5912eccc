"""Write shards: copy clips from packs into a container.

Each shard has a record, by which a later run can keep it.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from nbaudio.audio import encoder
from nbaudio.core.atomic import atomic_write, sha256_path, size_of, write_json
from nbaudio.core.progress import progress
from nbaudio.core.report import count
from nbaudio.core.rows import with_starts
from nbaudio.core.tables import SEGMENTS, conform, parquet_slices, reading_parquet
from nbaudio.corpus.containers.base import Shard, clips_in
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.layout import Layout, read_corpus_info
from nbaudio.corpus.packs import PackDamagedError, read_clips
from nbaudio.corpus.partitions import BUCKET_ROWS, Buckets, read_streams
from nbaudio.corpus.plan import ClipFormat, ShardPlan, digest
from nbaudio.engine import RunTasks
from nbaudio.storage.location import Location, location
from nbaudio.storage.network import RemoteNotFoundError

# Facts of a clip, beside the metadata of its segment.
CLIP_FACTS = ("num_samples", "sampling_rate", "duration_s", "window")
# Columns of a corpus's table that are not copied to another corpus.
LOCATION = ("audio_sha256", "shard", "offset", "length")
# Columns of a workspace that are no metadata of its corpora: each import of verdicts changes them,
# and a new version could keep no shard of its base.
ESTIMATES = ("risk",)

_SHARD = "\0shard"
# Files about a shard: its record, the rows of its clips, its version in a store.
_RECORD = (".json", ".parquet", ".sent")
Rows = Callable[[pl.DataFrame], pl.DataFrame]
# Hugging Face recommends smaller files; a reader holds or fetches one shard at a time, and a failed
# transfer repeats it.
_MAX_SHARD_BYTES = 1_000_000_000
_MIN_SHARD_BYTES = 20_000_000  # smaller shards cost a request or an opened file for few clips
_SHARDS_PER_READER = (
    4  # shards per reader for a good shuffle: neighbors then differ from epoch to epoch
)
_READERS = (1, 2, 4, 8, 16, 32, 64)


def pack(  # noqa: PLR0914
    layout: Layout, container: str, clip_format: ClipFormat, task: tuple[str, pl.DataFrame]
) -> Shard:
    """Write a shard, its record and the rows of its clips; or keep a shard whose bytes are right.

    Runs in a worker.
    """
    name, clips = (
        task  # in their order: `segment_id`, `split`, facts, and the location of each in a pack
    )
    folder = layout.folder
    split = clips["split"][0]
    [segments] = read_streams(layout.record(name, ".arrow"))
    facts = [column for column in CLIP_FACTS if column in clips.columns]
    ordered = clips.select("segment_id", *facts).join(
        segments, on="segment_id", how="left", maintain_order="left"
    )
    metadata = ordered.select(*segments.columns, *facts)
    # The location of a clip in packs may change between runs, its bytes do not.
    plan = digest(metadata.with_columns(clips["clip_sha256"]).iter_slices(1000))
    record: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        record = json.loads(layout.record(name).read_text(encoding="utf8"))
    rows = layout.record(name, ".parquet")
    if (
        record.get("plan") == plan
        and rows.is_file()
        and folder.holds(name, record["sha256"], record["bytes"])
    ):
        return Shard(
            name, split, len(metadata), record["bytes"], record["sha256"], plan, rows, kept=True
        )
    try:
        with folder.new(name) as path:
            extension = encoder(clip_format.encoding).extension
            rate = clip_format.rate
            places = container_named(container).write(
                path, metadata, read_clips(clips), extension=extension, rate=rate
            )
            sha256 = sha256_path(path)
            num_bytes = size_of(path)
            offsets, lengths, files = zip(*places, strict=True)
            described = metadata.with_columns(
                clips["clip_sha256"].alias("audio_sha256"),
                pl.Series("shard", [f"{name}/{file}" if file else name for file in files]),
                pl.Series("offset", offsets, dtype=pl.Int64),
                pl.Series("length", lengths, dtype=pl.Int64),
            )
            # The record before the final name: a shard with its final name is always known to be
            # whole.
            write_record(
                layout, name, described, {"plan": plan, "sha256": sha256, "bytes": num_bytes}
            )
    except PackDamagedError as error:
        return Shard(name, split, len(metadata), 0, "", plan, rows, damaged=str(error))
    return Shard(name, split, len(metadata), num_bytes, sha256, plan, rows)


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
        own = replace(layout, work=Path(scratch), folder=replace(layout.folder, desk=Path(scratch)))
        _fetch(own, records, name, (".arrow", *_RECORD))
        shard = pack(own, container, clip_format, task)
        _send(own, records, name)
    return replace(shard, rows=layout.record(name, ".parquet"))


def _record_file(layout: Layout, name: str, suffix: str) -> Path:
    return (
        (layout.folder.desk or layout.work) / "sent" / f"{name}.json"
        if suffix == ".sent"
        else layout.record(name, suffix)
    )


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
    plan: ShardPlan,
    container: str,
    clip_format: ClipFormat,
    *,
    table: Path,
    run_tasks: RunTasks,
    show: bool,
    conformed: Rows | None = None,
    records: Location | None = None,
) -> list[Shard]:
    """Write the shards of a plan, or keep whole ones; return them in any order.

    Workers without a shared disk use `records`.
    """
    groups = _partition_rows(table, plan, conformed or _metadata)
    function = partial(pack, layout, container, clip_format)
    if records is not None:
        function = partial(pack_remotely, layout, container, clip_format, records)
    results = []
    with progress("pack", len(plan.shards), "shards", show=show) as advance:  # noqa: PLR1702
        for result in run_tasks(function, _tasks(layout, plan, groups, records)):
            layout.record(result.name, ".arrow").unlink(missing_ok=True)
            if records is not None:
                _fetch(layout, records, result.name, _RECORD)
                for suffix in (".arrow", *_RECORD):
                    (records / layout.record(result.name, suffix).name).remove()
            results.append(result)
            advance(1)
    return results


def _metadata(part: pl.DataFrame) -> pl.DataFrame:
    """Return the metadata of rows of a segments table, for a corpus without a base."""
    return conform(part, SEGMENTS, "segments").drop(ESTIMATES, strict=False)


def _partition_rows(table: Path, plan: ShardPlan, conformed: Rows) -> Buckets:
    """Divide the rows of the segments table into buckets of whole consecutive shards.

    The table is read in one pass.
    """
    lengths = np.array([length for _, length in plan.shards], dtype=np.int64)
    buckets = Buckets(plan.folder / "rows", int(lengths.sum()))
    group = pl.Series(np.append((np.cumsum(lengths) - 1) // BUCKET_ROWS, -1))
    for start, part in with_starts(parquet_slices(table)):
        segments = conformed(part).drop("decision", "reason", *CLIP_FACTS, *LOCATION, strict=False)
        numbered = segments.with_columns(
            pl.Series(_SHARD, plan.shard_of[start : start + len(part)])
        )
        own = numbered.filter(pl.col(_SHARD) >= 0)
        buckets.add(own, group.gather(own[_SHARD]))
    return buckets


def _tasks(
    layout: Layout, plan: ShardPlan, groups: Buckets, records: Location | None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the name and the clips of each shard.

    By then, its rows of the segments table are in a file of their own.
    """
    clips = plan.clips()
    for group in range(groups.count):
        for rows in (
            groups.read(group, remove=True).sort(_SHARD, maintain_order=True).partition_by(_SHARD)
        ):
            name, _ = plan.shards[rows[_SHARD][0]]
            path = layout.record(name, ".arrow")
            with location(path).new() if records is None else (records / path.name).new() as target:
                rows.drop(_SHARD).write_ipc_stream(
                    target, compression="zstd", compat_level=pl.CompatLevel.oldest()
                )
            if records is not None:
                _send(layout, records, name)
            yield name, next(clips)  # every shard has rows, and they are in its order


def restore_records(layout: Layout) -> str:
    """Rebuild the shard records of a complete corpus, so that only damaged shards are rewritten.

    Return the hash of its card.
    """
    info = read_corpus_info(layout.folder)
    if layout.folder.holds("segments.parquet", info["tables"]["segments.parquet"]):  # noqa: PLR1702
        with layout.folder.local("segments.parquet") as table:
            start = 0
            for shard in info["shards"]:
                with reading_parquet(table):
                    own = pl.scan_parquet(table, glob=False).slice(start, shard["segments"])
                    described = own.filter(clips_in(shard["name"])).collect()
                start += shard["segments"]
                write_record(
                    layout,
                    shard["name"],
                    described,
                    {name: shard[name] for name in ("plan", "sha256", "bytes")},
                )
    return str(info.get("card", ""))


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
