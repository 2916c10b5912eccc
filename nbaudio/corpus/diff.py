"""The command `diff`: what differs between two versions of a corpus, or of a workspace; segments are compared by their ids."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core import tables
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.source_splits import ordered_splits
from nbaudio.core.tables import amounts, read_parquet, with_durations
from nbaudio.core.tombstones import TOMBSTONES, withdrawal_reasons
from nbaudio.corpus.layout import CORPUS_JSON, intact_table, read_corpus_info
from nbaudio.proof.evidence import describe_claim, selection_claim
from nbaudio.storage.folders import Folder, folder_at
from nbaudio.storage.workspace import Workspace

_ROWS = pl.Schema(
    dict.fromkeys(("segment_id", "recording_id", "speaker_id", "split", "text"), pl.String)
    | {"start_sample": pl.Int64, "end_sample": pl.Int64, "duration_s": pl.Float64}
    | dict.fromkeys(("audio_sha256", "sha256"), pl.String)
)
_OUT = pl.Schema({"segment_id": pl.String, "reason": pl.String})
_CLAIMED = ("right, estimated share", "at least", "reviewed", "target proven")
_EXAMPLES = 3


@dataclass(frozen=True)
class _Side:
    """Kept segments (`_ROWS`), the others with their reasons (`_OUT`), tombstones, and facts of a corpus or a workspace."""

    name: str
    kept: pl.DataFrame
    out: pl.DataFrame
    withdrawn: pl.DataFrame
    shards: dict[str, dict[str, Any]]
    claim: dict[str, Any]
    clips: tuple[Any, ...] | None  # rate, channel and encoding


def diff(a: str | Path, b: str | Path) -> Report:
    """Report what differs between two corpora, two workspaces, or one of each, in folders or at URLs.

    Args:
        a: the earlier one.
        b: the later one.

    Returns:
        Segments, hours and speakers that were `added`, `removed` or `moved` between splits or that `changed` in text, bounds or
        audio, with reasons; shards that are equal or new; the claims of both. Of a workspace, the selected segments count, or
        all that are not rejected if nothing is selected.

    Raises:
        InputError: one is neither a corpus nor a workspace.
    """
    before, after = _side(a), _side(b)
    both = before.kept.join(after.kept, on="segment_id", suffix="_after", maintain_order="left")
    added = after.kept.join(before.kept, on="segment_id", how="anti", maintain_order="left")
    removed = before.kept.join(after.kept, on="segment_id", how="anti", maintain_order="left")
    moved = both.filter(pl.col("split").ne_missing(pl.col("split_after")))
    changes = _changes(comparable=before.clips is not None and before.clips == after.clips)
    changed = both.filter(pl.any_horizontal(changes.values()))
    speakers_before, speakers_after = (set(side.kept["speaker_id"].drop_nulls()) for side in (before, after))
    way = pl.format("{} to {}", *(pl.col(name).fill_null("none") for name in ("split", "split_after")))
    facts: dict[str, Any] = {
        "before": {"of": before.name, **_amounts(before.kept)},
        "after": {"of": after.name, **_amounts(after.kept)},
        "added": _amounts(added),
        **_table("added_because", added, _reasons(added, before, "new in the source")),
        "removed": _amounts(removed),
        **_table("removed_because", removed, _reasons(removed, after, "no longer in the source")),
        "moved": _amounts(moved),
        **_table("moved_between", moved, moved.select(way).to_series()),
        "changed": {**_amounts(changed), **{name: changed.filter(is_changed).height for name, is_changed in changes.items()}},
        "speakers": {"added": len(speakers_after - speakers_before), "removed": len(speakers_before - speakers_after)},
        "by_split": _by_split(before.kept, after.kept),
    }
    if before.shards and after.shards:
        facts["shards"] = _shards(before.shards, after.shards)
    if before.claim or after.claim:
        claims = {"before": before.claim, "after": after.claim}
        described = {when: describe_claim(claim.get("selection", {})) for when, claim in claims.items()}
        facts["evidence"] = [{"claim": when, **{name: one.get(name) for name in _CLAIMED}} for when, one in described.items()]
    return Report("diff", facts)


def _side(where: str | Path) -> _Side:
    folder = folder_at(where)
    if folder.exists(CORPUS_JSON):
        return _corpus(folder)
    if folder.place.local is not None and (folder.place.local / "workspace.json").is_file():
        return _workspace(Workspace.open(folder.place.local))
    raise InputError(f"{where}: neither a corpus (no {CORPUS_JSON}) nor a workspace (no workspace.json)")


def _corpus(folder: Folder) -> _Side:
    info = read_corpus_info(folder)
    with intact_table(folder, info, "segments.parquet") as path:
        names = [name for name in pl.read_parquet_schema(path) if name in _ROWS]
        rows = tables.conform(read_parquet(path, names), _ROWS, f"{folder}/segments.parquet").drop("sha256")
    with intact_table(folder, info, "rejected.parquet") as path:
        out = read_parquet(path, [*_OUT])
    sources = pl.DataFrame(info.get("sources", []), schema={"recording_id": pl.String, "sha256": pl.String})
    kept = rows.join(sources, on="recording_id", how="left", maintain_order="left")
    parameters = info["parameters"]
    withdrawn = pl.DataFrame(info.get("tombstones", []), schema=TOMBSTONES)
    shards = {shard["name"]: shard for shard in info["shards"]}
    clips = (parameters["rate"], parameters["channel"], parameters["encoding"])
    return _Side(str(folder), kept, out, withdrawn, shards, info.get("evidence") or {}, clips)


def _workspace(workspace: Workspace) -> _Side:
    names = [name for name in _ROWS if name not in ("duration_s", "audio_sha256", "sha256")]
    rows = tables.read(workspace, (*names, "source_start", "source_end", "decision", "reason"))
    recordings = workspace.recordings
    hashes = recordings.select("recording_id", "sha256")
    rows = with_durations(rows, recordings).join(hashes, on="recording_id", how="left", maintain_order="left")
    decided = (rows["decision"] == "accept").any()
    is_kept = pl.col("decision") == "accept" if decided else pl.col("decision").ne_missing("reject")
    kept = tables.conform(rows.filter(is_kept), _ROWS, str(workspace.path)).select(_ROWS.names())
    out = rows.filter(~is_kept).select(*_OUT)
    return _Side(str(workspace.path), kept, out, workspace.withdrawn, {}, selection_claim(workspace), None)


def _changes(*, comparable: bool) -> dict[str, pl.Expr]:
    """Return whether text, bounds and audio differ: audio by the recordings' hashes, else by clips of equal format and bounds."""

    def differ(name: str) -> pl.Expr:
        return pl.col(name).ne_missing(pl.col(f"{name}_after"))

    bounds = differ("start_sample") | differ("end_sample") | differ("recording_id")
    unknown = pl.any_horizontal(pl.col("sha256", "sha256_after").is_null())
    clips = ~bounds & differ("audio_sha256") if comparable else pl.lit(value=False)
    return {"text": differ("text"), "bounds": bounds, "audio": pl.when(unknown).then(clips).otherwise(differ("sha256"))}


def _reasons(rows: pl.DataFrame, other: _Side, default: str) -> pl.Series:
    """Return why each segment is not in `other`: its rule there, or the reason of its withdrawal."""
    why = rows.select("segment_id").join(other.out.unique("segment_id"), on="segment_id", how="left", maintain_order="left")
    withdrawn = "withdrawn: " + withdrawal_reasons(rows, other.withdrawn)
    return withdrawn.zip_with(withdrawn.is_not_null(), why["reason"]).fill_null(default)


def _table(name: str, rows: pl.DataFrame, reasons: pl.Series) -> dict[str, Any]:
    """Return a table of reasons as a fact, with some of their segments; nothing without segments."""
    if rows.is_empty():
        return {}
    hours, examples = (pl.col("duration_s").sum() / 3600).round(6), pl.col("segment_id").sort().head(_EXAMPLES)
    groups = rows.select("segment_id", "duration_s", reason=reasons).group_by("reason")
    counted = groups.agg(segments=pl.len(), hours=hours, examples=examples)
    return {name: counted.sort("segments", "reason", descending=[True, False]).to_dicts()}


def _amounts(rows: pl.DataFrame) -> dict[str, Any]:
    return {name: amount for name, amount in amounts(rows).items() if name != "recordings"}


def _by_split(before: pl.DataFrame, after: pl.DataFrame) -> list[dict[str, Any]]:
    found = []
    for name in ordered_splits([*before["split"].unique(), *after["split"].unique()]):
        found.append({"split": name})
        for when, rows in (("before", before), ("after", after)):
            found[-1] |= {f"{when}_{what}": n for what, n in _amounts(rows.filter(pl.col("split") == name)).items()}
    return found


def _shards(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, int]:
    both = before.keys() & after.keys()
    equal = {name for name in both if before[name]["sha256"] == after[name]["sha256"]}
    counts = {"equal": len(equal), "new": len(after) - len(both), "rewritten": len(both) - len(equal)}
    same, other = (sum(after[name]["bytes"] for name in names) for names in (equal, after.keys() - equal))
    return {**counts, "gone": len(before) - len(both), "bytes_equal": same, "bytes_other": other}
