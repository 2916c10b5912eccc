"""Convert a corpus to another container.

It copies the bytes of every clip, decodes nothing, and needs no workspace.
"""

import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.atomic import remove
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.input_guards import parse_size
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.card import publish_card
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.containers.shard_files import Shard
from nbaudio.corpus.corpus_tables import AddedIn, publish_shards, side_file
from nbaudio.corpus.cutting import ClipFormat
from nbaudio.corpus.layout import TABLES, Layout, intact_table
from nbaudio.corpus.plan import (
    ShardLimits,
    assign_shards,
    short_windows,
    typical_bytes,
    with_windows,
)
from nbaudio.corpus.shard_names import shard_name
from nbaudio.corpus.shards import divide_by_shard, restore_records, shard_advice, write_shards
from nbaudio.corpus.versions import Base
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.storage.folders import folder_at
from nbaudio.tables.parquet_files import num_rows


@interruptible
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
    """Write a corpus in another container, or in shards of another size.

    The bytes are those that `materialize` would write. Every clip is verified by its hash while it
    is copied. After an interruption, the same call resumes.

    Args:
        corpus: the folder of a complete corpus.
        container: a key of `nbaudio.corpus.containers.registry.CONTAINERS`.
        out: the new corpus's folder.
        shard_size: target size of a shard; `shard_count` and `window` as for `materialize`.
        shard_count: number of shards of each split instead.
        window: how many consecutive segments stay together.
        jobs: number of parallel shards; None means one per core.
        engine: as for `materialize`, on this machine; threads start at once and are enough to copy
            and to hash.
        show_progress: show progress on standard error.

    Raises:
        InputError: there is no complete corpus, or a parameter is invalid.
        AudioError: a clip is damaged.
        ExistsError: `out` holds something else, or another run is active there.
        DiskFullError: there is no space; call again when there is.
    """
    began = time.monotonic()
    run = _Run(
        layout=Layout.at(_local(out)),
        container=container,
        limits=ShardLimits(parse_size(shard_size), shard_count, window),
        site=EngineLocation(engine, jobs),
        show=show_progress,
    )
    with Base.opened(_local(corpus)) as origin:
        shards = _convert(run, origin)
        num_clips = num_rows(origin.table)
        notes = short_windows(origin.scan(), window)
    took = time.monotonic() - began
    num_bytes = sum(shard.num_bytes for shard in shards)
    facts = {
        "corpus": str(run.layout),
        "container": container,
        "clips": num_clips,
        "shards": len(shards),
        "shards_of_train": shard_advice(shards),
        "bytes": num_bytes,
        "shards_kept_from_before": sum(shard.was_whole for shard in shards),
        "seconds": round(took, 1),
        "megabytes_per_second": round(num_bytes / 1e6 / took),
    }
    return Report("convert", facts, notes)


@dataclass(frozen=True)
class _Run:
    """Parameters of one run."""

    layout: Layout
    container: str
    limits: ShardLimits
    site: EngineLocation
    show: bool

    @property
    def changed(self) -> dict[str, Any]:
        """The parameters of the corpus that differ from those of the origin."""
        return {"container": self.container, **asdict(self.limits)}


def _convert(run: _Run, origin: Base) -> list[Shard]:
    """Write the shards, the tables and the card of the new corpus; return its shards."""
    container_named(run.container, encoding=origin.corpus_info["parameters"]["encoding"])
    logged = {
        **run.changed,
        "of": str(origin),
        "corpus": str(run.layout),
        "jobs": run.site.jobs,
        "engine": run.site.engine,
    }
    with ExitStack() as stack:
        tables = {
            name: stack.enter_context(intact_table(origin.folder, origin.corpus_info, name))
            for name in TABLES[1:]
        }
        identity = origin.corpus_info["identity"] | run.changed
        is_whole = stack.enter_context(run.layout.claimed(identity, "convert", logged))
        card = restore_records(run.layout) if is_whole else ""
        results = _copy_clips(run, origin)
        _publish(run, origin, results, tables, card)
    return results


def _copy_clips(run: _Run, origin: Base) -> list[Shard]:
    """Write or keep the shards of the new corpus; raise AudioError if a clip is damaged."""
    parameters = origin.corpus_info["parameters"]
    encoding = parameters["encoding"]
    folder = run.layout.work / "buckets"
    remove(folder)
    counts = dict(origin.scan().group_by("split").len().collect().iter_rows())
    num_clips = sum(counts.values())
    clips = _clips(origin, encoding, run.limits.window, num_clips=num_clips, folder=folder)
    name_of = partial(shard_name, container_named(run.container, encoding=encoding))
    shards = assign_shards(clips, counts, run.limits, name_of, folder=folder)
    clip_format = ClipFormat(parameters["rate"], parameters["channel"], encoding)
    with worker_pool(run.site) as run_tasks:
        results = write_shards(
            run.layout,
            divide_by_shard(shards.clips, origin.table, columns=None, folder=folder / "shards"),
            run.container,
            clip_format,
            run_tasks=run_tasks,
            show=run.show,
        )
    remove(folder)
    if bad := [shard.damaged for shard in results if shard.damaged]:
        raise AudioError(
            f"{min(bad)}: a clip is damaged; 'nbaudio verify {origin}' lists all damage"
        )
    return results


def _publish(
    run: _Run, origin: Base, results: list[Shard], tables: Mapping[str, Path], card: str
) -> None:
    """Write the tables, the card and corpus.json; `card` is the hash of the one there was."""
    corpus_info = dict(origin.corpus_info)
    layout = run.layout
    added = AddedIn(origin.version, origin.added_in())
    publish_shards(layout, results, container=run.container, corpus_info=corpus_info, added=added)
    for name, table in tables.items():
        with side_file(layout.folder, corpus_info, name) as path:
            shutil.copyfile(table, path)
    corpus_info["identity"] = origin.corpus_info["identity"] | run.changed
    corpus_info["parameters"] = origin.corpus_info["parameters"] | run.changed
    publish_card(layout.folder, corpus_info, before=card)
    layout.finish(corpus_info)


def _clips(
    origin: Base, encoding: str, window: int, *, num_clips: int, folder: Path
) -> pl.LazyFrame:
    """Return the clips of a corpus as `LOCATED`, with their windows and `num_bytes`."""
    size = typical_bytes(pl.col("num_samples"), pl.col("sampling_rate"), encoding)
    sized = origin.clips().drop("shard", "position").with_columns(num_bytes=size)
    return with_windows(sized, window, num_clips=num_clips, folder=folder)


def _local(where: str | Path) -> Path:
    """Return the path of a folder on this machine; raise InputError for a URL."""
    if (path := folder_at(where).place.local) is not None:
        return path
    raise InputError(f"{where}: convert reads and writes folders of this machine only")
