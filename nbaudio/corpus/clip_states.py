"""The state of each clip of a corpus, also while a run makes it."""

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from nbaudio.core.atomic import append_lines, parse_lines
from nbaudio.core.errors import InputError
from nbaudio.corpus.layout import (
    CORPUS_JSON,
    SILENT_AUDIO,
    UNREADABLE_AUDIO,
    Layout,
    intact_table,
    read_corpus_info,
)
from nbaudio.corpus.packs import pack_names
from nbaudio.corpus.plan import plan_of_corpus, scan_plan
from nbaudio.corpus.shard_names import shard_names
from nbaudio.storage import run_log
from nbaudio.storage.location import location

STATES = ("planned", "cut", "packed", "failed")
"""A clip is planned, then cut into a pack, then packed into a shard; or it could not be cut."""

# Reasons of segments that were planned and have no clip; those of other reasons were not planned.
_NOT_CUT = (SILENT_AUDIO, UNREADABLE_AUDIO)
_FAILURES = pl.Schema({"clip_key": pl.String, "reason": pl.String})
_COUNTS = pl.Schema(
    {
        "split": pl.String,
        "shard": pl.String,
        "state": pl.String,
        "reason": pl.String,
        "clips": pl.Int64,
    }
)


def write_failures(path: Path, failures: Mapping[str, str]) -> None:
    """Append why clips could not be cut, by their keys, to the ledger of a run."""
    if not failures:
        return
    append_lines(
        path,
        (
            json.dumps({"clip_key": key, "reason": reason}, ensure_ascii=False).encode()
            for key, reason in failures.items()
        ),
    )


def count_states(corpus: str | Path) -> pl.DataFrame:
    """Count the clips of a corpus by `split`, `shard`, `state` (`STATES`) and `reason`.

    The column `clips` has the numbers. Raise InputError if there is no corpus, and no plan of one.
    """
    layout = Layout.at(corpus)
    if layout.folder.exists(CORPUS_JSON):
        return _count_finished(layout)
    if layout.plan.exists():
        return _count(_planned_clips(layout))
    raise InputError(f"{layout}: no {CORPUS_JSON}, and no run has planned one there")


def _count(clips: pl.LazyFrame) -> pl.DataFrame:
    """Count clips by the columns of `_COUNTS`."""
    keys = ("split", "shard", "state", "reason")
    counts = clips.group_by(keys).agg(clips=pl.len().cast(pl.Int64)).collect(engine="streaming")
    return counts.select(_COUNTS.names()).sort(keys)


def _count_finished(layout: Layout) -> pl.DataFrame:
    """Count the clips of a finished corpus, and the segments that could not be cut."""
    corpus_info = read_corpus_info(layout.folder)
    with intact_table(layout.folder, corpus_info, "segments.parquet") as segments:
        clips = plan_of_corpus(segments).select(
            "split", "shard", state=pl.lit("packed"), reason=pl.lit(None, pl.String)
        )
        packed = _count(clips)
    failed = [
        (None, None, "failed", reason, number)
        for reason, number in corpus_info["rejected"].items()
        if reason in _NOT_CUT
    ]
    return pl.concat([packed, pl.DataFrame(failed, schema=_COUNTS, orient="row")])


def _planned_clips(layout: Layout) -> pl.LazyFrame:
    """Return the clips of the plan of an unfinished corpus with `state` and `reason`.

    A clip is cut if its pack had it when the plan was made, or has been written since; it is packed
    if its shard has been written.
    """
    failures = _read_failures(layout.failures)
    is_packed = pl.col("shard").is_in(list(shard_names(layout.folder)))
    is_cut = pl.col("is_cut") | pl.col("pack").is_in(_packs_of_run(layout))
    state = (
        pl.when(pl.col("reason").is_not_null())
        .then(pl.lit("failed"))
        .when(is_packed)
        .then(pl.lit("packed"))
        .when(is_cut)
        .then(pl.lit("cut"))
        .otherwise(pl.lit("planned"))
    )
    return (
        scan_plan(layout.plan)
        .join(failures.lazy(), on="clip_key", how="left")
        .with_columns(state=state)
    )


def _read_failures(path: Path) -> pl.DataFrame:
    """Return why clips could not be cut, by `clip_key`; of several reasons the last one."""
    if not path.exists():
        return pl.DataFrame(schema=_FAILURES)
    lines = [(line["clip_key"], line["reason"]) for line in parse_lines(path.read_bytes())]
    return pl.DataFrame(lines, schema=_FAILURES, orient="row").unique("clip_key", keep="last")


def _packs_of_run(layout: Layout) -> list[str]:
    """Return the names of the packs of the last run in the log of a corpus.

    The log names their folder only where it is not that of the workspace.
    """
    began = [line for line in run_log.read(layout.log) if line.get("event") == "began"]
    if not began:
        return []
    parameters = began[-1]["parameters"]
    packs = parameters.get("packs") or Path(parameters["workspace"]) / "packs"
    return pack_names(location(packs))
