"""The proof that a corpus is whole: every file, every clip, every number, read back from the disk."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.addresses import is_address
from nbaudio.audio import decode_clip
from nbaudio.corpus.layout import Layout
from nbaudio.engine import release_workers, run_tasks
from nbaudio.errors import AudioError, InputError
from nbaudio.files import read_json, sha256_file
from nbaudio.progress import progress
from nbaudio.report import Report, first_lines
from nbaudio.splits import leakage
from nbaudio.tables import SPLITS

_TABLES = ("segments.parquet", "rejected.parquet", "vocab.json")
_PLACES = ["segment_id", "offset", "length", "num_samples", "sampling_rate", "audio_sha256"]
_COLUMNS = [*_PLACES, "recording_id", "speaker_id", "split", "text", "duration_s", "shard"]
_GROUPS = ("speaker_id", "recording_id")


@dataclass(frozen=True)
class _ShardTask:
    path: Path
    name: str
    sha256: str
    num_bytes: int
    encoding: str
    clips: pl.DataFrame


def verify(corpus: str | Path, *, jobs: int | None = None, engine: str | None = "loky", show_progress: bool = True) -> Report:
    """Check a corpus from its bytes up: shards and tables by hash, every clip by decoding it, counts, hours, ids and splits.

    Args:
        corpus: the folder.
        jobs: how many shards at once; None means one a core.
        engine: as for `materialize`.
        show_progress: progress on standard error.

    Returns:
        What was checked; each problem names file and clip. No problems: the corpus is whole.

    Raises:
        InputError: there is no corpus.json.
    """
    if is_address(str(corpus)):
        raise InputError(f"{corpus}: a corpus is verified in a folder; copy it to one with the tool of your object store")
    layout = Layout(Path(corpus))
    if not layout.manifest.is_file():
        hint = "an unfinished run: call materialize again" if layout.work.is_dir() else "not a corpus"
        raise InputError(f"{corpus}: no corpus.json ({hint})")
    manifest = read_json(layout.manifest)
    try:
        shards = manifest["shards"]
        encoding = manifest["parameters"]["encoding"]
        problems = _check_tables(layout, manifest)
        segments = pl.read_parquet(layout.root / "segments.parquet", columns=_COLUMNS)
        rejected = pl.read_parquet(layout.root / "rejected.parquet", columns=["segment_id", "reason"])
    except (KeyError, TypeError, OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{corpus}: the corpus cannot be read ({type(error).__name__}: {error})") from error
    problems += _check_numbers(manifest, segments, rejected)
    listed = {shard["name"] for shard in shards}
    problems += [
        f"{path.relative_to(layout.root)}: not listed in corpus.json"
        for path in layout.shard_files()
        if path.relative_to(layout.root).as_posix() not in listed
    ]

    def tasks() -> Iterator[_ShardTask]:
        for shard in shards:
            clips = segments.filter(pl.col("shard") == shard["name"])
            yield _ShardTask(
                layout.root / shard["name"], shard["name"], shard["sha256"], shard["bytes"], encoding, clips.select(_PLACES)
            )

    with progress("verify", len(shards), "shards", show=show_progress) as advance:
        found: list[str] = []
        for bad in run_tasks(_check_shard, tasks(), jobs=jobs, engine=engine):
            found += bad
            advance(1)
    release_workers(engine)
    problems += sorted(found)
    leaks = dict(leakage(segments, keys=_GROUPS).select("key", "shared").iter_rows())
    grouped = manifest.get("selection", {}).get("parameters", {}).get("group_by", [])
    problems += [f"segments.parquet: {leaks[key]} values of {key} are in two splits" for key in grouped if leaks.get(key)]
    facts = {
        "corpus": str(corpus),
        "whole": not problems,
        "clips decoded": segments.height,
        "hours": round(float(segments["duration_s"].sum()) / 3600, 3),
        "splits": {split: int((segments["split"] == split).sum()) for split in SPLITS},
        "kept + rejected": segments.height + rejected.height,
        "shards": len(shards),
        "leakage": leaks,
    }
    return Report("verify", facts, problems=first_lines(problems, "the files named", most=50))


def _check_tables(layout: Layout, manifest: dict[str, Any]) -> list[str]:
    problems = []
    for name in _TABLES:
        path = layout.root / name
        if not path.is_file():
            raise InputError(f"{path}: missing")
        if sha256_file(path) != manifest["tables"].get(name):
            problems.append(f"{name}: its bytes are not those that were written")
    return problems


def _check_numbers(manifest: dict[str, Any], segments: pl.DataFrame, rejected: pl.DataFrame) -> list[str]:
    problems = []
    for split in SPLITS:
        inside = segments.filter(pl.col("split") == split)
        said = manifest["splits"][split]
        hours = round(float(inside["duration_s"].sum()) / 3600, 6)
        if (said["segments"], said["hours"]) != (inside.height, hours):
            told = f"corpus.json says {said['segments']}, {said['hours']} h"
            problems.append(f"segments.parquet: {split} has {inside.height} clips, {hours} h; {told}")
    if sum(manifest["rejected"].values()) != rejected.height:
        problems.append(f"rejected.parquet: {rejected.height} rows; corpus.json says {sum(manifest['rejected'].values())}")
    ids = pl.concat([segments["segment_id"], rejected["segment_id"]])
    problems += [f"segment {key}: occurs more than once" for key in ids.filter(ids.is_duplicated()).unique().sort()]
    unexplained = rejected.filter(pl.col("reason").is_null())["segment_id"]
    problems += [f"segment {key}: rejected without a reason" for key in unexplained]
    return problems


def _check_shard(task: _ShardTask) -> list[str]:
    """What is wrong with one shard; runs in a worker."""
    if not task.path.is_file():
        return [f"{task.name}: missing"]
    if task.path.stat().st_size != task.num_bytes or sha256_file(task.path) != task.sha256:
        problems = [f"{task.name}: its bytes are not those that were written"]
    else:
        problems = []
    with task.path.open("rb") as file:
        for segment_id, offset, length, num_samples, rate, sha256 in task.clips.iter_rows():
            file.seek(offset)
            data = file.read(length)
            if hashlib.sha256(data).hexdigest() != sha256:
                problems.append(f"{task.name}: clip {segment_id} is damaged")
                continue
            try:
                samples, own_rate = decode_clip(data, task.encoding)
            except AudioError as error:
                problems.append(f"{task.name}: clip {segment_id}: {error}")
                continue
            told = rate if own_rate is None else own_rate
            if (len(samples), told) != (num_samples, rate):
                problems.append(
                    f"{task.name}: clip {segment_id} has {len(samples)} samples at {told} Hz, not {num_samples} at {rate}"
                )
    return problems
