"""From one container to another: the bytes of every clip are copied, nothing is decoded, and no workspace is needed."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.guards import parse_size
from nbaudio.core.report import Report
from nbaudio.core.tables import SPLITS, read_parquet
from nbaudio.corpus.card import publish_card
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.layout import MANIFEST, Layout
from nbaudio.corpus.manifest import check_places, read_manifest
from nbaudio.corpus.plan import ClipFormat, ShardLimits, assign_shards, assign_windows
from nbaudio.corpus.publish import SideFile, publish_shards, shard_entries
from nbaudio.corpus.shard_advice import shard_advice_lines
from nbaudio.corpus.shards import restore_records, write_shards
from nbaudio.engine import EngineLocation, check_engine, worker_pool
from nbaudio.storage.folders import LocalFolder, folder_at, read_object
from nbaudio.storage.urls import stays_inside

_COPIED = ("rejected.parquet", "vocab.json")
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
    """Write a corpus anew in another container, or in shards of another size; the same bytes as `materialize` would give.

    Every clip is checked by its hash while it is copied. Killed at any moment, it goes on when it is called again.

    Args:
        corpus: the folder of a whole corpus.
        container: a key of `nbaudio.corpus.containers.registry.CONTAINERS`.
        out: the new corpus's folder.
        shard_size: wanted size of a shard.
        shard_count: how many shards each split has instead.
        window: as for `materialize`.
        jobs: how many shards at once; None means one a core.
        engine: as for `materialize`, on this machine; threads are enough to copy and to hash, and start at once.
        show_progress: progress on standard error.

    Returns:
        What was written.

    Raises:
        InputError: there is no whole corpus, or a parameter is not known.
        AudioError: a clip is damaged.
        ExistsError: `out` holds something else, or another run is at work there.
        DiskFullError: no space; call again when there is.
    """
    began = time.monotonic()
    sharding = ShardLimits(parse_size(shard_size), shard_count, window)
    sharding.check()
    site = EngineLocation(jobs)
    check_engine(engine, site)
    source, target = _local(corpus), _local(out)
    layout = replace(Layout.at(target.root, target.root), log_kept=None)
    manifest = read_manifest(source)
    sizes = manifest.get("table_bytes", {})
    damaged = [
        name for name in ("segments.parquet", *_COPIED) if not source.holds(name, manifest["tables"][name], sizes.get(name))
    ]
    if damaged:
        raise InputError(f"{source}/{damaged[0]}: not what was written; 'nbaudio verify {source}' shows all that is damaged")
    parameters = manifest["parameters"]
    writer = container_named(container, encoding=parameters["encoding"])
    changed = {"container": container, **sharding.to_json()}
    told = {**changed, "of": str(source), "corpus": str(layout), "jobs": jobs, "engine": engine}
    with layout.claimed(manifest["identity"] | changed, "convert", told) as is_whole, worker_pool(engine, site) as run_tasks:
        if is_whole:
            restore_records(layout)
        before = read_object(layout.folder, MANIFEST).get("card", "") if is_whole else ""
        results = write_shards(
            layout,
            assign_shards(_clips(source, sharding), sharding),
            container=container,
            clip_format=ClipFormat(parameters["rate"], parameters["channel"], parameters["encoding"]),
            table=source.root / "segments.parquet",
            run_tasks=run_tasks,
            show=show_progress,
        )
        bad = [result.damaged for result in results if result.damaged]
        if bad:
            raise AudioError(f"{bad[0]}: a clip is damaged; 'nbaudio verify {source}' shows all that is")
        beside = SideFile(layout.folder)
        publish_shards(layout, results, container=writer, beside=beside)
        for name in _COPIED:
            with beside.new(name) as path:
                path.write_bytes((source.root / name).read_bytes())
        manifest |= {
            "identity": manifest["identity"] | changed,
            "parameters": parameters | changed,
            "shards": shard_entries(results),
            "tables": beside.hashes,
            "table_bytes": beside.sizes,
        }
        publish_card(layout.folder, manifest, before=before)
        layout.finish(manifest)
    took, num_bytes = time.monotonic() - began, sum(result.num_bytes for result in results)
    facts: dict[str, Any] = {
        "corpus": str(layout),
        "container": container,
        "clips": sum(result.segments for result in results),
        "shards": len(results),
        "shards_of_train": shard_advice_lines([result.num_bytes for result in results if result.split == "train"]),
        "bytes": num_bytes,
        "shards_kept_from_before": sum(result.kept for result in results),
        "seconds": round(took, 1),
        "megabytes_per_second": round(num_bytes / 1e6 / took),
    }
    return Report("convert", facts)


def _local(where: str | Path) -> LocalFolder:
    folder = folder_at(where)
    if not isinstance(folder, LocalFolder):
        raise InputError(f"{where}: corpora are converted from a folder to a folder of this machine")
    return folder


def _clips(source: LocalFolder, sharding: ShardLimits) -> pl.DataFrame:
    """The clips of a corpus as if its shards were packs.

    Raises:
        InputError: a split is none, or a shard lies elsewhere: the corpus may be a stranger's.
    """
    table = read_parquet(source.root / "segments.parquet", [*_COLUMNS, "shard", "offset", "length", "audio_sha256"])
    check_places(source, table)
    for split, shard in table.select("split", "shard").unique().iter_rows():
        if split not in SPLITS or not stays_inside(shard):
            raise InputError(f"{source}/segments.parquet: shard {shard!r} of split {split!r} is none that a corpus can have")
    packed = table.with_columns(pl.format("{}/{}", pl.lit(str(source.root)), "shard").alias("pack")).drop("shard")
    clips = assign_windows(packed.rename({"audio_sha256": "clip_sha256"}), sharding.window)
    return clips.drop("recording_id", "start_sample", "end_sample")
