"""Writing one shard: clips copied out of packs into a container, and a record that says when it need not be done again."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import encoder
from nbaudio.corpus.containers import container_named
from nbaudio.corpus.layout import Layout
from nbaudio.corpus.packs import PackDamagedError, read_clips
from nbaudio.files import read_json, sha256_file, whole_file, write_json
from nbaudio.plan import PackTask, digest

# What the frame of a pack task carries beside metadata.
INTERNAL = ("pack", "offset", "length", "clip_key", "clip_sha256", "shard", "shards")


@dataclass(frozen=True)
class ShardResult:
    """What became of a pack task.

    Attributes:
        name: the shard's path inside the corpus.
        split: which it belongs to.
        segment_ids: in the order of the shard.
        places: offset and length in bytes of each clip's audio.
        num_bytes: size of the file.
        sha256: of the file.
        plan: a hash of everything that the shard was to hold.
        kept: it was there already, whole.
        damaged: a pack that does not hold what it should; the shard was not written.
    """

    name: str
    split: str
    segment_ids: list[str]
    places: list[tuple[int, int]]
    num_bytes: int
    sha256: str
    plan: str
    kept: bool
    damaged: str | None = None


def pack(task: PackTask) -> ShardResult:
    """Write a shard, or keep the one that is there when its bytes are the right ones; runs in a worker.

    Raises:
        DiskFullError: there is no space for it.
    """
    ids = task.clips["segment_id"].to_list()
    split = task.clips["split"][0]
    name = f"{split}/{task.target.name}"
    # Where a clip lies among the packs may change between runs, its bytes not.
    wanted = digest(task.clips.drop("pack", "offset"))
    record = _read_record(task.record)
    if record.get("plan") == wanted and task.target.is_file() and sha256_file(task.target) == record["sha256"]:
        places = [(offset, length) for offset, length in record["places"]]
        return ShardResult(name, split, ids, places, task.target.stat().st_size, record["sha256"], wanted, kept=True)
    container = container_named(task.container)
    try:
        with whole_file(task.target) as partial:
            places = container.write(
                partial,
                task.clips.drop(INTERNAL),
                read_clips(task.clips),
                extension=encoder(task.format.encoding).extension,
                rate=task.format.rate,
            )
            sha256, num_bytes = sha256_file(partial), partial.stat().st_size
            # The record before the final name: a shard that has its name is always known to be whole.
            write_json(task.record, {"plan": wanted, "sha256": sha256, "places": places})
    except PackDamagedError as error:
        return ShardResult(name, split, ids, [], 0, "", wanted, kept=False, damaged=str(error))
    return ShardResult(name, split, ids, places, num_bytes, sha256, wanted, kept=False)


def restore_records(layout: Layout) -> None:
    """Make the records of a whole corpus again from what it says of itself, so that only its bad shards are written anew."""
    manifest = read_json(layout.manifest)
    table = layout.root / "segments.parquet"
    if not table.is_file() or sha256_file(table) != manifest["tables"]["segments.parquet"]:
        return
    places = pl.read_parquet(table, columns=["shard", "offset", "length"]).partition_by("shard", as_dict=True, include_key=False)
    for shard in manifest["shards"]:
        record = {"plan": shard["plan"], "sha256": shard["sha256"], "places": places[(shard["name"],)].rows()}
        write_json(layout.record(shard["name"]), record)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return {}
    return record
