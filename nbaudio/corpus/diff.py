"""The command `diff`: what differs between two versions of a corpus, or of a workspace.

Segments are compared by their ids.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.layout import CORPUS_JSON, TABLES, intact_table, read_corpus_info
from nbaudio.corpus.plan import plan_of_corpus
from nbaudio.proof.claim_sentences import is_target_proven, round_down
from nbaudio.proof.evidence import selection_claim
from nbaudio.proof.proof_state import ProofState
from nbaudio.selection.avoid import notes_on_dropped
from nbaudio.storage.folders import Folder, folder_at
from nbaudio.tables import parquet_files, split_names, tombstones, workspace_tables
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.buckets import bucket_count, hash_bucket, store, write_buckets
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.schemas import columns_or_nulls
from nbaudio.tables.workspace import Workspace

_SEGMENTS = pl.Schema(
    {
        "segment_id": pl.String,
        "recording_id": pl.String,
        "speaker_id": pl.String,
        "split": pl.String,
        "text": pl.String,
        "start_sample": pl.Int64,
        "end_sample": pl.Int64,
        "duration_s": pl.Float64,
        "audio_sha256": pl.String,
        "sha256": pl.String,
        "is_in": pl.Boolean,
        "reason": pl.String,
    }
)
"""Columns of the segments of a side: `is_in` is whether they are kept, else `reason` says why not.

`audio_sha256` is the hash of the clip, `sha256` that of the recording.
"""

_COMPARED = pl.Schema(
    {
        "segment_id": pl.String,
        "change": pl.String,
        "split": pl.String,
        "split_after": pl.String,
        "duration_s": pl.Float64,
        "duration_s_after": pl.Float64,
        "speaker_id": pl.String,
        "speaker_id_after": pl.String,
        "moved": pl.Boolean,
        "text": pl.Boolean,
        "bounds": pl.Boolean,
        "audio": pl.Boolean,
        "reason": pl.String,
    }
)
"""Columns of the comparison, a row for each segment that is kept on one of the sides.

`change` is ``added``, ``removed`` or ``both``. Of segments on both sides, `moved` is whether the
split differs, and `text`, `bounds` and `audio` are whether these do; of others, `reason` says why
they are not on the other side.
"""

_FURTHER = ("speaker_id", "text", "duration_s", "audio_sha256")
"""Columns of `_SEGMENTS` that a corpus has beside those of its plan."""

_KEPT_ON_BOTH = (
    "segment_id",
    "split",
    "split_after",
    "duration_s",
    "duration_s_after",
    "speaker_id",
    "speaker_id_after",
)
_CHANGES = ("text", "bounds", "audio")
_EXAMPLES = 3


@dataclass(frozen=True)
class _Side:
    """A corpus or a workspace: its segments (`_SEGMENTS`), withdrawals, shards and claims.

    `clips` is the rate, channel and encoding of a corpus, `selection` the parameters of `select`.
    """

    name: str
    num_rows: int
    segments: pl.LazyFrame
    withdrawn: pl.DataFrame
    shards: dict[str, dict[str, Any]]
    claim: dict[str, Any]
    clips: tuple[Any, ...] | None
    selection: Mapping[str, Any]


@interruptible
def diff(a: str | Path, b: str | Path) -> Report:
    """Report what differs between two corpora, two workspaces, or one of each.

    They may be in folders or at URLs.

    Args:
        a: the earlier one.
        b: the later one.

    Returns:
        Segments, hours and speakers that were `added`, `removed` or `moved` between splits or that
        `changed` in text, bounds or audio, with reasons; shards that are equal or new; the claims
        of both. Of a workspace, the selected segments count, or all that are not rejected if
        nothing is selected.

    Raises:
        InputError: one is neither a corpus nor a workspace.
    """
    with ExitStack() as stack:
        before = _side(a, stack)
        after = _side(b, stack)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="nbaudio-")))
        compared = _compare(before, after, folder)
        facts = _facts(before, after, compared)
    dropped = notes_on_dropped(before.selection, after.selection, (before.name, after.name))
    return Report("diff", facts, [*_notes(facts), *dropped])


def _side(where: str | Path, stack: ExitStack) -> _Side:
    """Return what `diff` compares of a corpus or a workspace."""
    folder = folder_at(where)
    if folder.exists(CORPUS_JSON):
        return _corpus(folder, stack)
    if folder.place.local is not None and (folder.place.local / "workspace.json").is_file():
        return _workspace(Workspace.open(folder.place.local))
    raise InputError(
        f"{where}: neither a corpus (no {CORPUS_JSON}) nor a workspace (no workspace.json)"
    )


def _corpus(folder: Folder, stack: ExitStack) -> _Side:
    """Return what `diff` compares of a corpus; `stack` keeps its tables readable."""
    corpus_info = read_corpus_info(folder)
    segments, rejected = (
        stack.enter_context(intact_table(folder, corpus_info, name)) for name in TABLES[:2]
    )
    sources = pl.LazyFrame(
        corpus_info.get("sources", []), schema={"recording_id": pl.String, "sha256": pl.String}
    )
    segments_in = (
        plan_of_corpus(segments, _FURTHER)
        .join(sources, on="recording_id", how="left")
        .with_columns(is_in=pl.lit(value=True), reason=pl.lit(None, pl.String))
    )
    out = parquet_files.scan_file(rejected).with_columns(is_in=pl.lit(value=False))
    parameters = corpus_info["parameters"]
    return _Side(
        name=str(folder),
        num_rows=parquet_files.num_rows(segments) + parquet_files.num_rows(rejected),
        segments=pl.concat([_conformed(segments_in, segments), _conformed(out, rejected)]),
        withdrawn=pl.DataFrame(corpus_info.get("tombstones", []), schema=tombstones.TOMBSTONES),
        shards={shard["name"]: shard for shard in corpus_info["shards"]},
        claim=corpus_info.get("evidence") or {},
        clips=(parameters["rate"], parameters["channel"], parameters["encoding"]),
        selection=corpus_info.get("selection", {}).get("parameters", {}),
    )


def _workspace(workspace: Workspace) -> _Side:
    """Return what `diff` compares of a workspace."""
    facts = workspace.recordings.lazy().select("recording_id", "sampling_rate", "sha256")
    accepted = pl.col("decision") == "accept"
    decisions = workspace_tables.scan(workspace, ["decision"]).select(accepted.any())
    is_decided = decisions.collect(**STREAMED).item()
    if is_decided:
        is_in = accepted.fill_null(value=False)
    else:
        is_in = pl.col("decision").ne_missing(pl.lit("reject"))
    segments = (
        workspace_tables.scan(workspace)
        .join(facts, on="recording_id", how="left")
        .with_columns(seconds_column(), is_in=is_in)
    )
    state = ProofState.load(workspace)
    claim = selection_claim(state)
    state.population.release()
    return _Side(
        name=str(workspace.path),
        num_rows=parquet_files.num_rows(workspace_tables.table_path(workspace)),
        segments=_conformed(segments, workspace_tables.table_path(workspace)),
        withdrawn=workspace.withdrawn,
        shards={},
        claim=claim,
        clips=None,
        selection=workspace.report("select").get("facts", {}).get("parameters", {}),
    )


def _conformed(segments: pl.LazyFrame, path: Path) -> pl.LazyFrame:
    """Return segments with the columns of `_SEGMENTS`, null where absent.

    Raise InputError if the table has no ids, or no reasons of rejected segments.
    """
    columns = segments.collect_schema()
    for name in ("segment_id", "reason"):
        if name not in columns:
            raise InputError(f"{path}: the column {name} is missing; is it of a corpus?")
    return segments.select(columns_or_nulls(_SEGMENTS, columns))


def _compare(before: _Side, after: _Side, folder: Path) -> pl.LazyFrame:
    """Compare the segments of both sides by their ids; return a table as `_COMPARED`."""
    count = bucket_count(max(before.num_rows, after.num_rows))
    bucket = hash_bucket("segment_id", count)
    was = write_buckets(before.segments, bucket, count=count, folder=folder / "before")
    now = write_buckets(after.segments, bucket, count=count, folder=folder / "after")
    comparable = before.clips is not None and before.clips == after.clips
    parts = (
        _compare_part(old, new, before, after, comparable=comparable)
        for old, new in zip(was, now, strict=True)
    )
    return store(parts, folder / "compared", _COMPARED)


def _compare_part(
    old: pl.DataFrame, new: pl.DataFrame, before: _Side, after: _Side, *, comparable: bool
) -> pl.DataFrame:
    """Compare the segments of both sides in one bucket of ids.

    Audio is compared by the hashes of recordings, else by clips, if they are `comparable`: of equal
    format and bounds.
    """
    old_kept = old.filter("is_in")
    new_kept = new.filter("is_in")
    added = new_kept.join(old_kept, on="segment_id", how="anti")
    removed = old_kept.join(new_kept, on="segment_id", how="anti")
    both = old_kept.join(new_kept, on="segment_id", suffix="_after")
    bounds = _differ("start_sample") | _differ("end_sample") | _differ("recording_id")
    without_hash = pl.any_horizontal(pl.col("sha256", "sha256_after").is_null())
    if comparable:
        clips = ~bounds & _differ("audio_sha256")
    else:
        clips = pl.lit(value=False)
    audio = pl.when(without_hash).then(clips).otherwise(_differ("sha256"))
    return pl.concat(
        [
            both.select(
                *_KEPT_ON_BOTH,
                change=pl.lit("both"),
                moved=_differ("split"),
                text=_differ("text"),
                bounds=bounds,
                audio=audio,
            ),
            added.select(
                "segment_id",
                split_after="split",
                duration_s_after="duration_s",
                speaker_id_after="speaker_id",
                change=pl.lit("added"),
                reason=_reasons(added, before.withdrawn, old, "new in the source"),
            ),
            removed.select(
                "segment_id",
                "split",
                "duration_s",
                "speaker_id",
                change=pl.lit("removed"),
                reason=_reasons(removed, after.withdrawn, new, "no longer in the source"),
            ),
        ],
        how="diagonal",
    )


def _differ(name: str) -> pl.Expr:
    """Return whether a column differs between both sides."""
    return pl.col(name).ne_missing(pl.col(f"{name}_after"))


def _reasons(
    rows: pl.DataFrame, withdrawn: pl.DataFrame, other: pl.DataFrame, default: str
) -> pl.Series:
    """Return why each segment is not on the other side.

    The reason is that of its withdrawal, or its rejection there, or else `default`.
    """
    rejections = other.filter(~pl.col("is_in")).unique("segment_id").select("segment_id", "reason")
    why = rows.select("segment_id").join(
        rejections, on="segment_id", how="left", maintain_order="left"
    )
    reasons = "withdrawn: " + tombstones.withdrawal_reasons(rows, withdrawn)
    return reasons.zip_with(reasons.is_not_null(), why["reason"]).fill_null(default)


def _facts(before: _Side, after: _Side, compared: pl.LazyFrame) -> dict[str, Any]:
    """Return the facts of the report."""
    change = pl.col("change")
    is_added = change == "added"
    is_removed = change == "removed"
    is_both = change == "both"
    changed = compared.filter(is_both & pl.any_horizontal(_CHANGES))
    counts = changed.select(pl.col(_CHANGES).sum()).collect(**STREAMED).row(0, named=True)
    rows_before = compared.filter(~is_added)
    rows_after = compared.filter(~is_removed)
    added = compared.filter(is_added)
    removed = compared.filter(is_removed)
    way = pl.format(
        "{} to {}", *(pl.col(name).fill_null("none") for name in ("split", "split_after"))
    )
    moved = compared.filter(is_both & pl.col("moved")).with_columns(reason=way)
    facts: dict[str, Any] = {
        "before": {"of": before.name, **_amounts(rows_before)},
        "after": {"of": after.name, **_amounts(rows_after, "_after")},
        "added": _amounts(added, "_after"),
        **_by_reason("added_because", added, "_after"),
        "removed": _amounts(removed),
        **_by_reason("removed_because", removed),
        "moved": _amounts(moved),
        **_by_reason("moved_between", moved),
        "changed": {**_amounts(changed), **counts},
        "speakers": _speakers(rows_before, rows_after),
        "by_split": _by_split(rows_before, rows_after),
    }
    if before.shards and after.shards:
        facts["shards"] = _shards(before.shards, after.shards)
    if before.claim or after.claim:
        facts["evidence"] = _claims(before.claim, after.claim)
    return facts


def _sums(suffix: str = "") -> dict[str, pl.Expr]:
    """Return what segments amount to; `suffix` is that of the columns of the later side."""
    hours = pl.col(f"duration_s{suffix}").sum() / 3600
    return {
        "segments": pl.len().cast(pl.Int64),
        "hours": hours.round(6),
        "speakers": pl.col(f"speaker_id{suffix}").drop_nulls().n_unique().cast(pl.Int64),
    }


def _amounts(rows: pl.LazyFrame, suffix: str = "") -> dict[str, Any]:
    """Return the segments, hours and speakers of rows."""
    return rows.select(**_sums(suffix)).collect(**STREAMED).row(0, named=True)


def _by_reason(name: str, rows: pl.LazyFrame, suffix: str = "") -> dict[str, Any]:
    """Return a table of reasons as a fact, with some of their segments.

    Without segments, there is no fact.
    """
    hours = pl.col(f"duration_s{suffix}").sum() / 3600
    reasons = (
        rows.group_by("reason")
        .agg(
            segments=pl.len().cast(pl.Int64),
            hours=hours.round(6),
            examples=pl.col("segment_id").bottom_k(_EXAMPLES),
        )
        .with_columns(pl.col("examples").list.sort())
        .sort("segments", "reason", descending=[True, False])
        .collect(**STREAMED)
    )
    if reasons.is_empty():
        return {}
    return {name: reasons.to_dicts()}


def _speakers(before: pl.LazyFrame, after: pl.LazyFrame) -> dict[str, int]:
    """Return how many speakers are on one side only."""
    was = before.select(pl.col("speaker_id").drop_nulls().unique()).collect(**STREAMED)
    now = after.select(speaker_id=pl.col("speaker_id_after").drop_nulls().unique()).collect(
        **STREAMED
    )
    return {
        "added": now.join(was, on="speaker_id", how="anti").height,
        "removed": was.join(now, on="speaker_id", how="anti").height,
    }


def _by_split(before: pl.LazyFrame, after: pl.LazyFrame) -> list[dict[str, Any]]:
    """Return the amounts of each split on both sides."""
    amounts: dict[str | None, dict[str, Any]] = {}
    for when, rows, suffix in (("before", before, ""), ("after", after, "_after")):
        sums = rows.group_by(split=f"split{suffix}").agg(**_sums(suffix)).collect(**STREAMED)
        for row in sums.iter_rows(named=True):
            split = row.pop("split")
            amounts.setdefault(split, {}).update({f"{when}_{name}": n for name, n in row.items()})
    absent: dict[str, float] = {
        f"{when}_{name}": 0 for when in ("before", "after") for name in _sums()
    }
    absent |= {"before_hours": 0.0, "after_hours": 0.0}
    splits = split_names.ordered_splits(amounts)
    return [{"split": split, **absent, **amounts[split]} for split in splits]


def _claims(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the claims about the selections of both sides, null on a side without one."""
    return [
        {"claim": "before", **_claim(before.get("selection"))},
        {"claim": "after", **_claim(after.get("selection"))},
    ]


def _claim(claim: Mapping[str, Any] | None) -> dict[str, Any]:
    if not claim:
        return dict.fromkeys(("precision", "low", "reviewed", "target_proven"))
    return {
        "precision": claim["precision"],
        "low": round_down(claim["low"]),
        "reviewed": claim["reviewed"],
        "target_proven": is_target_proven(claim),
    }


def _shards(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Return how many shards are equal, new, rewritten and gone, and their bytes."""
    both = before.keys() & after.keys()
    equal = {name for name in both if before[name]["sha256"] == after[name]["sha256"]}
    others = after.keys() - equal
    return {
        "equal": len(equal),
        "new": len(after) - len(both),
        "rewritten": len(both) - len(equal),
        "gone": len(before) - len(both),
        "bytes_equal": sum(after[name]["bytes"] for name in equal),
        "bytes_other": sum(after[name]["bytes"] for name in others),
    }


def _notes(facts: Mapping[str, Any]) -> list[str]:
    """Say that no segment differs, if none does."""
    if any(facts[what]["segments"] for what in ("added", "removed", "moved", "changed")):
        return []
    return ["no segment was added, removed, moved or changed"]
