"""The command `diff`: what differs between two versions of a corpus, or of a workspace.

Segments are compared by their ids.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from nbaudio.core import source_splits, tables, tombstones
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.layout import CORPUS_JSON, TABLES, intact_table, read_corpus_info
from nbaudio.corpus.partitions import Buckets
from nbaudio.proof.evidence import describe_claim, selection_claim
from nbaudio.proof.judged_draws import ProofState
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
    """Rows, tombstones and facts of a corpus or a workspace.

    `parts` yields rows of kept segments (`_ROWS`) with rows of others (`_OUT`).
    """

    name: str
    num_rows: int
    parts: Callable[[], Iterator[tuple[pl.DataFrame, pl.DataFrame]]]
    withdrawn: pl.DataFrame
    shards: dict[str, dict[str, Any]]
    claim: dict[str, Any]
    clips: tuple[Any, ...] | None  # rate, channel and encoding

    def buckets(self, folder: Path, rows: int) -> tuple[Buckets, Buckets]:
        """Write both tables to a folder, in buckets for so many rows by segment."""
        both = Buckets(folder / "kept", rows), Buckets(folder / "out", rows)
        for frames in self.parts():
            for held, frame in zip(both, frames, strict=True):
                held.add(frame, pl.col("segment_id").hash() % held.count)
        return both


@dataclass
class _Sum:
    """What segments amount to, added up."""

    segments: int = 0
    seconds: float = 0.0
    speakers: set[str] = field(default_factory=set)

    def add(self, rows: pl.DataFrame) -> None:
        self.segments += len(rows)
        self.seconds += float(rows["duration_s"].sum())
        self.speakers.update(rows["speaker_id"].drop_nulls().unique())

    def to_json(self) -> dict[str, Any]:
        return {
            "segments": self.segments,
            "hours": round(self.seconds / 3600, 6),
            "speakers": len(self.speakers),
        }


@interruptible
def diff(a: str | Path, b: str | Path) -> Report:  # noqa: PLR0914
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
    sums = defaultdict[Any, _Sum](_Sum)
    counts = Counter[str]()
    reasons = defaultdict[str, list[pl.DataFrame]](list)
    way = pl.format(
        "{} to {}", *(pl.col(name).fill_null("none") for name in ("split", "split_after"))
    )
    with ExitStack() as stack:  # noqa: PLR1702
        before = _side(a, stack)
        after = _side(b, stack)
        changes = _changes(comparable=before.clips is not None and before.clips == after.clips)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="nbaudio-")))
        rows = max(before.num_rows, after.num_rows)
        was, now = (
            side.buckets(folder / name, rows) for name, side in (("a", before), ("b", after))
        )
        for old, old_out, new, new_out in zip(*was, *now, strict=True):
            both = old.join(new, on="segment_id", suffix="_after", maintain_order="left")
            added = new.join(old, on="segment_id", how="anti", maintain_order="left")
            removed = old.join(new, on="segment_id", how="anti", maintain_order="left")
            moved = both.filter(pl.col("split").ne_missing(pl.col("split_after")))
            changed = both.filter(pl.any_horizontal(changes.values()))
            counts.update(
                {name: changed.filter(is_changed).height for name, is_changed in changes.items()}
            )
            found = {
                "before": old,
                "after": new,
                "added": added,
                "removed": removed,
                "moved": moved,
                "changed": changed,
            }
            for name, frame in found.items():
                sums[name].add(frame)
            for when, frame in (("before", old), ("after", new)):
                for (split,), own in frame.partition_by("split", as_dict=True).items():
                    sums[split, when].add(own)
            reasons["added_because"].append(
                _grouped(added, _reasons(added, before, old_out, "new in the source"))
            )
            reasons["removed_because"].append(
                _grouped(removed, _reasons(removed, after, new_out, "no longer in the source"))
            )
            reasons["moved_between"].append(_grouped(moved, moved.select(way).to_series()))
    speakers_before, speakers_after = (sums[when].speakers for when in ("before", "after"))
    facts: dict[str, Any] = {
        "before": {"of": before.name, **sums["before"].to_json()},
        "after": {"of": after.name, **sums["after"].to_json()},
    }
    for what, why in (
        ("added", "added_because"),
        ("removed", "removed_because"),
        ("moved", "moved_between"),
    ):
        facts |= {what: sums[what].to_json(), **_table(why, reasons)}
    facts["changed"] = {**sums["changed"].to_json(), **{name: counts[name] for name in changes}}
    facts["speakers"] = {
        "added": len(speakers_after - speakers_before),
        "removed": len(speakers_before - speakers_after),
    }
    facts["by_split"] = [
        {"split": name}
        for name in source_splits.ordered_splits(key[0] for key in sums if isinstance(key, tuple))
    ]
    for row in facts["by_split"]:
        for when in ("before", "after"):
            row |= {
                f"{when}_{what}": n
                for what, n in sums.get((row["split"], when), _Sum()).to_json().items()
            }
    if before.shards and after.shards:
        facts["shards"] = _shards(before.shards, after.shards)
    if before.claim or after.claim:
        facts["evidence"] = _claims(before.claim, after.claim)
    return Report("diff", facts, _notes(facts))


def _claims(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the claims about the selections of both sides."""
    described = {
        "before": describe_claim(before.get("selection", {})),
        "after": describe_claim(after.get("selection", {})),
    }
    return [
        {"claim": when, **{name: claim.get(name) for name in _CLAIMED}}
        for when, claim in described.items()
    ]


def _notes(facts: Mapping[str, Any]) -> list[str]:
    """Say that no segment differs, if none does."""
    if any(facts[what]["segments"] for what in ("added", "removed", "moved", "changed")):
        return []
    return ["no segment was added, removed, moved or changed"]


def _side(where: str | Path, stack: ExitStack) -> _Side:
    folder = folder_at(where)
    if folder.exists(CORPUS_JSON):
        return _corpus(folder, stack)
    if folder.place.local is not None and (folder.place.local / "workspace.json").is_file():
        return _workspace(Workspace.open(folder.place.local))
    raise InputError(
        f"{where}: neither a corpus (no {CORPUS_JSON}) nor a workspace (no workspace.json)"
    )


def _corpus(folder: Folder, stack: ExitStack) -> _Side:
    info = read_corpus_info(folder)
    segments, rejected = (
        stack.enter_context(intact_table(folder, info, name)) for name in TABLES[:2]
    )
    with tables.reading_parquet(rejected):
        pl.scan_parquet(rejected, glob=False).select(*_OUT).collect_schema()
    sources = pl.DataFrame(
        info.get("sources", []), schema={"recording_id": pl.String, "sha256": pl.String}
    )

    def parts() -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        for part in tables.parquet_slices(segments, _ROWS):
            rows = tables.conform(part, _ROWS, f"{folder}/segments.parquet").drop("sha256")
            yield (
                rows.join(sources, on="recording_id", how="left", maintain_order="left"),
                pl.DataFrame(schema=_OUT),
            )
        for out in tables.parquet_slices(rejected, _OUT):
            yield pl.DataFrame(schema=_ROWS), out

    parameters = info["parameters"]
    withdrawn = pl.DataFrame(info.get("tombstones", []), schema=tombstones.TOMBSTONES)
    shards = {shard["name"]: shard for shard in info["shards"]}
    clips = (parameters["rate"], parameters["channel"], parameters["encoding"])
    most = max(tables.num_rows(segments), tables.num_rows(rejected))
    return _Side(str(folder), most, parts, withdrawn, shards, info.get("evidence") or {}, clips)


def _workspace(workspace: Workspace) -> _Side:
    names = [name for name in _ROWS if name not in ("duration_s", "audio_sha256", "sha256")]
    columns = (*names, "source_start", "source_end", "decision", "reason")
    table = tables.table_path(workspace)
    recordings = workspace.recordings
    hashes = recordings.select("recording_id", "sha256")
    accepted = pl.col("decision") == "accept"
    decided = (
        tables.scan(workspace, ["decision"])
        .select(accepted.any())
        .collect(engine="streaming")
        .item()
    )
    is_kept = (
        accepted.fill_null(value=False) if decided else pl.col("decision").ne_missing("reject")
    )

    def parts() -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        for part in tables.parquet_slices(table, columns):
            rows = tables.with_durations(
                tables.conform(part, tables.SEGMENTS, str(table)), recordings
            )
            rows = rows.join(hashes, on="recording_id", how="left", maintain_order="left")
            kept = tables.conform(rows.filter(is_kept), _ROWS, str(workspace.path)).select(
                _ROWS.names()
            )
            yield kept, rows.filter(~is_kept).select(*_OUT)

    claim = selection_claim(state := ProofState.load(workspace))
    state.population.release()
    return _Side(
        str(workspace.path), tables.num_rows(table), parts, workspace.withdrawn, {}, claim, None
    )


def _changes(*, comparable: bool) -> dict[str, pl.Expr]:
    """Return whether text, bounds and audio differ.

    Audio is compared by the hashes of recordings, else by clips of equal format and bounds.
    """

    def differ(name: str) -> pl.Expr:
        return pl.col(name).ne_missing(pl.col(f"{name}_after"))

    bounds = differ("start_sample") | differ("end_sample") | differ("recording_id")
    unknown = pl.any_horizontal(pl.col("sha256", "sha256_after").is_null())
    clips = ~bounds & differ("audio_sha256") if comparable else pl.lit(value=False)
    return {
        "text": differ("text"),
        "bounds": bounds,
        "audio": pl.when(unknown).then(clips).otherwise(differ("sha256")),
    }


def _reasons(rows: pl.DataFrame, other: _Side, out: pl.DataFrame, default: str) -> pl.Series:
    """Return why each segment is not in `other`.

    The reason is that of its withdrawal, or its rule there, or else `default`.
    """
    why = rows.select("segment_id").join(
        out.unique("segment_id"), on="segment_id", how="left", maintain_order="left"
    )
    withdrawn = "withdrawn: " + tombstones.withdrawal_reasons(rows, other.withdrawn)
    return withdrawn.zip_with(withdrawn.is_not_null(), why["reason"]).fill_null(default)


def _grouped(rows: pl.DataFrame, reasons: pl.Series) -> pl.DataFrame:
    groups = rows.select("segment_id", "duration_s", reason=reasons).group_by("reason")
    return groups.agg(
        segments=pl.len(),
        seconds=pl.col("duration_s").sum(),
        examples=pl.col("segment_id").sort().head(_EXAMPLES),
    )


def _table(name: str, reasons: Mapping[str, Sequence[pl.DataFrame]]) -> dict[str, Any]:
    """Return a table of reasons as a fact, with some of their segments.

    Without segments, there is no fact.
    """
    groups = pl.concat(reasons[name]).group_by("reason")
    examples = pl.col("examples").explode().sort().head(_EXAMPLES)
    counted = groups.agg(
        pl.col("segments").sum(), hours=(pl.col("seconds").sum() / 3600).round(6), examples=examples
    )
    return (
        {name: counted.sort("segments", "reason", descending=[True, False]).to_dicts()}
        if len(counted)
        else {}
    )


def _shards(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, int]:
    both = before.keys() & after.keys()
    equal = {name for name in both if before[name]["sha256"] == after[name]["sha256"]}
    counts = {
        "equal": len(equal),
        "new": len(after) - len(both),
        "rewritten": len(both) - len(equal),
    }
    same, other = (
        sum(after[name]["bytes"] for name in names) for names in (equal, after.keys() - equal)
    )
    return {**counts, "gone": len(before) - len(both), "bytes_equal": same, "bytes_other": other}
