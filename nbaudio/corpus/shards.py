"""Writing one shard: clips copied out of packs into a container, and a record that says when it need not be done again."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from nbaudio.audio import encoder
from nbaudio.core.progress import progress
from nbaudio.core.tables import SEGMENTS, SPLITS, conform, parquet_slices, reading_parquet
from nbaudio.corpus.containers.base import clips_in
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.layout import Layout
from nbaudio.corpus.manifest import read_manifest
from nbaudio.corpus.packs import PackDamagedError, read_clips
from nbaudio.corpus.plan import ClipFormat, PackTask, digest
from nbaudio.engine import RunTasks
from nbaudio.storage.atomic import atomic_write, raise_disk_full, sha256_path, size_of, write_json

# What a clip is, beside the metadata of its segment.
_CLIP_FACTS = ("num_samples", "sampling_rate", "duration_s", "window")
# Where a clip lies in a corpus: columns of its table that are made anew in another.
_PLACE = ("audio_sha256", "shard", "offset", "length")


@dataclass(frozen=True)
class ShardResult:
    """What became of a pack task.

    Attributes:
        name: the shard's path inside the corpus.
        split: which it belongs to.
        segments: how many clips it holds.
        num_bytes: size of the file.
        sha256: of the file.
        plan: a hash of everything that the shard was to hold.
        kept: it was there already, whole.
        damaged: a pack that does not hold what it should; the shard was not written.
    """

    name: str
    split: str
    segments: int
    num_bytes: int
    sha256: str
    plan: str
    kept: bool
    damaged: str | None = None


def pack(task: PackTask) -> ShardResult:
    """Write a shard and, beside its record, the rows of its clips; or keep a shard whose bytes are the right ones.

    Runs in a worker.

    Raises:
        DiskFullError: there is no space for it.
    """
    split, name = task.clips["split"][0], task.name
    metadata = _metadata(task)
    # Where a clip lies among the packs may change between runs, its bytes not.
    wanted = digest(metadata.with_columns(task.clips["clip_sha256"]).iter_slices(1000))
    record = _read_record(task.record)
    rows = rows_of(task.record)
    if record.get("plan") == wanted and rows.is_file() and task.folder.holds(name, record["sha256"], record["bytes"]):
        return ShardResult(name, split, len(metadata), record["bytes"], record["sha256"], wanted, kept=True)
    container = container_named(task.container)
    try:
        with task.folder.new(name) as partial:
            places = container.write(
                partial,
                metadata,
                read_clips(task.clips),
                extension=encoder(task.format.encoding).extension,
                rate=task.format.rate,
            )
            sha256, num_bytes = sha256_path(partial), size_of(partial)
            offsets, lengths, files = zip(*places, strict=True)
            described = metadata.with_columns(
                task.clips["clip_sha256"].alias("audio_sha256"),
                pl.Series("shard", [f"{name}/{file}" if file else name for file in files]),
                pl.Series("offset", offsets, dtype=pl.Int64),
                pl.Series("length", lengths, dtype=pl.Int64),
            )
            # The record before the final name: a shard that has its name is always known to be whole.
            _write_record(task.record, described, {"plan": wanted, "sha256": sha256, "bytes": num_bytes})
    except PackDamagedError as error:
        return ShardResult(name, split, len(metadata), 0, "", wanted, kept=False, damaged=str(error))
    return ShardResult(name, split, len(metadata), num_bytes, sha256, wanted, kept=False)


def write_shards(
    layout: Layout,
    dealt: pl.DataFrame,
    *,
    container: str,
    clip_format: ClipFormat,
    table: Path,
    run_tasks: RunTasks,
    show: bool,
) -> list[ShardResult]:
    """Write all shards of a corpus, or keep those that are there and whole.

    Args:
        layout: of the corpus.
        dealt: the clips that are to be in it, as of `assign_shards`, with what `PackTask` wants.
        container: a key of `containers.CONTAINERS`.
        clip_format: of the clips.
        table: the segments table with all metadata.
        run_tasks: where tasks run.
        show: whether to show progress.

    Returns:
        What became of each shard, in the order of their names.
    """
    shards = dealt.group_by("split", "shard", "shards", maintain_order=True).agg(clips=pl.len())
    names = [container_named(container).shard_name(*row) for row in shards.drop("clips").rows()]
    rows = [layout.record(name).with_suffix(".arrow") for name in names]
    _deal_rows(table, dealt.select("segment_id", number=pl.struct("split", "shard").rle_id()), rows)

    def tasks() -> Iterator[PackTask]:
        start = 0
        for name, length, file in zip(names, shards["clips"], rows, strict=True):
            part = dealt.slice(start, length).drop("shard", "shards").with_columns(pl.col("pack").cast(pl.String))
            yield PackTask(layout.folder, name, container, clip_format, part, file, layout.record(name))
            start += length

    results = []
    with progress("pack", len(shards), "shards", show=show) as advance:
        for result in run_tasks(pack, tasks()):
            results.append(result)
            advance(1)
    return sorted(results, key=lambda result: (SPLITS.index(result.split), result.name))


def rows_of(record: Path) -> Path:
    """Where the rows of a shard's clips lie while the corpus is made."""
    return record.with_suffix(".parquet")


def restore_records(layout: Layout) -> None:
    """Make the records of a whole corpus again from what it says of itself, so that only its bad shards are written anew."""
    manifest = read_manifest(layout.folder)
    if not layout.folder.holds("segments.parquet", manifest["tables"]["segments.parquet"]):
        return
    with layout.folder.local("segments.parquet") as table:
        for shard in manifest["shards"]:
            with reading_parquet(table):
                described = pl.scan_parquet(table, glob=False).filter(clips_in(shard["name"])).collect()
            _write_record(layout.record(shard["name"]), described, {name: shard[name] for name in ("plan", "sha256", "bytes")})


def _deal_rows(table: Path, number_of: pl.DataFrame, files: Sequence[Path]) -> None:
    """Lay the rows of each shard into a file of its own, in one pass over a table that is too large to be read for each.

    Args:
        table: the segments table.
        number_of: `segment_id` and `number`, that of its shard.
        files: by number; Arrow streams end to end.
    """
    for file in files:
        file.unlink(missing_ok=True)
    for part in parquet_slices(table):
        segments = conform(part, SEGMENTS, "segments").drop("decision", "reason", *_CLIP_FACTS, *_PLACE, strict=False)
        dealt = segments.with_columns(pl.col(pl.Enum).cast(pl.String)).join(number_of, on="segment_id", maintain_order="left")
        for (number,), rows in dealt.partition_by("number", as_dict=True, include_key=False).items():
            with raise_disk_full(files[number]), files[number].open("ab") as target:
                rows.write_ipc_stream(target, compat_level=pl.CompatLevel.oldest())


def _metadata(task: PackTask) -> pl.DataFrame:
    """The rows of the segments table that the shard holds, in its order, with the facts of their clips."""
    parts = []
    with pa.OSFile(str(task.rows)) as file:
        while file.tell() < file.size():
            parts.append(pl.DataFrame(pa.ipc.open_stream(file).read_all()))
    segments = pl.concat(parts)
    facts = [name for name in _CLIP_FACTS if name in task.clips.columns]
    ordered = task.clips.select("segment_id", *facts).join(segments, on="segment_id", how="left", maintain_order="left")
    return ordered.select(*segments.columns, *facts)


def _write_record(path: Path, described: pl.DataFrame, record: dict[str, Any]) -> None:
    # No fsync: a record that a power cut leaves empty only has its shard written once more.
    with atomic_write(rows_of(path), sync=False) as partial:
        described.write_parquet(partial)
    write_json(path, record, sync=False)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    return record
