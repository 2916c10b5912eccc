"""Convert a corpus to another container: copy the bytes of every clip, decode nothing, need no workspace."""

import shutil
import time
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl

from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.input_guards import parse_size
from nbaudio.core.report import Report
from nbaudio.core.source_splits import is_split_name
from nbaudio.core.tables import read_parquet
from nbaudio.corpus.card import publish_card
from nbaudio.corpus.containers.base import check_locations
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.corpus_tables import publish_shards, side_file
from nbaudio.corpus.layout import TABLES, Layout, read_corpus_info
from nbaudio.corpus.plan import ClipFormat, ShardLimits, assign_shards, assign_windows, short_windows
from nbaudio.corpus.shards import name_shards, restore_records, shard_advice, write_shards
from nbaudio.engine import EngineLocation, check_engine, worker_pool
from nbaudio.storage.folders import folder_at
from nbaudio.storage.urls import stays_inside

_COLUMNS = ("segment_id", "recording_id", "split", "start_sample", "end_sample", "num_samples", "sampling_rate", "duration_s")


def convert(
    corpus: str | Path,
    *,
    container: str,
    out: str | Path,
    shard_size: str | int = "500MB",
    shard_count: int | None = None,
    window: int = 1,
    jobs: int | None = None,
    engine: str | None = "threading",
    show_progress: bool = True,
) -> Report:
    """Write a corpus in another container, or in shards of another size, with the same bytes as `materialize` would.

    Every clip is verified by its hash while it is copied. After an interruption, the same call resumes.

    Args:
        corpus: the folder of a complete corpus.
        container: a key of `nbaudio.corpus.containers.registry.CONTAINERS`.
        out: the new corpus's folder.
        shard_size: target size of a shard; `shard_count` and `window` as for `materialize`.
        shard_count: number of shards of each split instead.
        window: how many consecutive segments stay together.
        jobs: number of parallel shards; None means one per core.
        engine: as for `materialize`, on this machine; threads start at once and are enough to copy and to hash.
        show_progress: show progress on standard error.

    Raises:
        InputError: there is no complete corpus, or a parameter is invalid.
        AudioError: a clip is damaged.
        ExistsError: `out` holds something else, or another run is active there.
        DiskFullError: there is no space; call again when there is.
    """
    began = time.monotonic()
    limits = ShardLimits(parse_size(shard_size), shard_count, window)
    site = EngineLocation(jobs)
    check_engine(engine, site)
    origin, target = _local(corpus), _local(out)
    source, layout = folder_at(origin), replace(Layout.at(target, target), finished_log=None)
    info = read_corpus_info(source)
    for name in TABLES:
        if not source.holds(name, info["tables"][name], info.get("table_bytes", {}).get(name)):
            raise InputError(f"{source}/{name}: changed since it was written; 'nbaudio verify {source}' lists all damage")
    parameters = info["parameters"]
    writer = container_named(container, encoding=parameters["encoding"])
    changed = {"container": container, **asdict(limits)}
    logged = {**changed, "of": str(source), "corpus": str(layout), "jobs": jobs, "engine": engine}
    with layout.claimed(info["identity"] | changed, "convert", logged) as is_whole, worker_pool(engine, site) as run_tasks:
        card = restore_records(layout) if is_whole else ""
        assigned = name_shards(assign_shards(_clips(origin, limits), limits), container)
        clip_format = ClipFormat(parameters["rate"], parameters["channel"], parameters["encoding"])
        table = origin / "segments.parquet"
        results = write_shards(layout, assigned, container, clip_format, table=table, run_tasks=run_tasks, show=show_progress)
        if bad := [result.damaged for result in results if result.damaged]:
            raise AudioError(f"{bad[0]}: a clip is damaged; 'nbaudio verify {source}' lists all damage")
        publish_shards(layout, results, container=writer, info=info)
        for name in TABLES[1:]:
            with side_file(layout.folder, info, name) as path:
                shutil.copyfile(origin / name, path)
        info |= {"identity": info["identity"] | changed, "parameters": parameters | changed}
        publish_card(layout.folder, info, before=card)
        layout.finish(info)
    took, num_bytes = time.monotonic() - began, sum(result.num_bytes for result in results)
    clips, kept = sum(result.segments for result in results), sum(result.kept for result in results)
    facts = {"corpus": str(layout), "container": container, "clips": clips, "shards": len(results)}
    facts |= {"shards_of_train": shard_advice(results), "bytes": num_bytes, "shards_kept_from_before": kept}
    facts |= {"seconds": round(took, 1), "megabytes_per_second": round(num_bytes / 1e6 / took)}
    return Report("convert", facts, short_windows(read_parquet(table, ["split", "recording_id"]), window))


def _local(where: str | Path) -> Path:
    if (path := folder_at(where).place.local) is not None:
        return path
    raise InputError(f"{where}: convert reads and writes folders of this machine only")


def _clips(source: Path, limits: ShardLimits) -> pl.DataFrame:
    """Return the clips of a corpus, which may come from an untrusted source, as if its shards were packs."""
    table = read_parquet(source / "segments.parquet", [*_COLUMNS, "shard", "offset", "length", "audio_sha256"])
    check_locations(folder_at(source), table)
    for split, shard in table.select("split", "shard").unique().iter_rows():
        if not is_split_name(split) or not stays_inside(shard):
            raise InputError(f"{source}/segments.parquet: shard {shard!r} of split {split!r} is not valid; is {source} a corpus?")
    packed = table.with_columns(pl.format("{}/{}", pl.lit(str(source)), "shard").alias("pack")).drop("shard")
    clips = assign_windows(packed.rename({"audio_sha256": "clip_sha256"}), limits.window)
    return clips.drop("recording_id", "start_sample", "end_sample")
