"""Growth: bring a source that has grown or changed, or a further one, into a workspace that has tables (`ingest --add`).

Recordings and segments keep their ids. Unchanged rows stay as they are; a row whose text, times or audio changed is replaced and
counts as added now (`tables.GROWTH`); rows that the source no longer has stay. All tables are replaced together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from nbaudio.core import tables
from nbaudio.core.source_splits import is_held_out
from nbaudio.core.tables import CORRECTED_TEXTS, EARLIER_SPLITS, GROWN, GROWTH, table_path
from nbaudio.sources.merge_segments import Merge, is_
from nbaudio.storage.base import Location
from nbaudio.storage.urls import is_url
from nbaudio.storage.workspace import Workspace
from nbaudio.text.near_duplicates import sentences


@dataclass(frozen=True)
class Before:
    """A workspace before it grows, and which of its sources grows."""

    workspace: Workspace
    sources: list[dict[str, Any]]  # settings of the sources, with that one
    number: int  # of that source, from 0

    @classmethod
    def load(cls, workspace: Workspace, format: str, source: str) -> "Before":
        """Find the source among those of the workspace, or add it to them."""
        sources = sources_of(workspace)
        same = [number for number, one in enumerate(sources) if (one["format"], one["source"]) == (format, source)]
        number = same[0] if same else len(sources)
        return cls(workspace, [*sources, *([] if same else [{"format": format, "source": source}])], number)

    @cached_property
    def recordings(self) -> pl.DataFrame:
        """The recordings table."""
        return self.workspace.recordings

    @cached_property
    def growth(self) -> pl.DataFrame:
        """What was added or changed by earlier growth."""
        there = table_path(self.workspace, GROWTH).exists()
        return self.workspace.table(GROWTH) if there else pl.DataFrame(schema=GROWN)

    def others(self, table: str) -> pl.DataFrame:
        """Return the rows of ``names`` or ``problems`` that are of the other sources, with `source_number`."""
        if not table_path(self.workspace, table).exists():
            return pl.DataFrame(schema={"source_number": pl.Int32})
        return self.numbered(table).filter(pl.col("source_number") != self.number)

    def numbered(self, table: str) -> pl.DataFrame:
        """Return ``names`` or ``problems`` with `source_number`."""
        found = self.workspace.table(table)
        return found if "source_number" in found.columns else found.with_columns(source_number=pl.lit(0, dtype=pl.Int32))

    def all_rows(self, table: str, own: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of this source in place of its earlier ones; `source_number` only if there are several sources."""
        if len(self.sources) == 1:
            return own
        rows = own.with_columns(source_number=pl.lit(self.number, dtype=pl.Int32))
        return (
            pl.concat([self.others(table), rows], how="diagonal").select(rows.columns).sort("source_number", maintain_order=True)
        )

    def probed(self) -> pl.DataFrame:
        """Return what is known of recordings with audio, and their `file`."""
        root, known = self.workspace.audio, self.recordings.filter(pl.col("num_samples").is_not_null())
        files = [str(root / path) for path in known["path"]] if root else []
        return known.clear() if root is None else known.with_columns(file=pl.Series(files, dtype=pl.String))


def sources_of(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the settings of the sources of a workspace, in the order in which they came."""
    settings = workspace.settings
    first = {name: settings.get(name) for name in ("format", "source", "audio", "names", "options")}
    found: list[dict[str, Any]] = settings.get("sources") or [first]
    return found


def rebase(before: Before, root: Location | None) -> tuple[Location | None, pl.DataFrame, bool]:
    """Return the audio folder of the grown workspace, the recordings with paths below it, and whether `root` is another one.

    A workspace with several audio folders has the first one on this machine; recordings elsewhere have absolute paths or URLs.
    """
    held, recordings = before.workspace.audio, before.recordings
    if held is None or root is None or str(held) == str(root):
        return root or held, recordings, False
    if len(before.sources) > 1 and (held.local is not None or root.local is None):
        return held, recordings, True
    return root, recordings.with_columns(path=absolute(recordings["path"], held)), False


def absolute(paths: pl.Series, root: Location) -> pl.Series:
    """Return paths below an audio folder as absolute paths or URLs."""
    return pl.Series("path", [path if path is None or is_url(path) else str(root / path) for path in paths], dtype=pl.String)


def keep_ids(before: Before, recordings: pl.DataFrame, audit: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Give names in an audit the ids that their recordings have had; a new recording gets an id that no other one has.

    The same file, or a file of the same name and content, is the same recording. `recordings` is the table before.
    """
    own = (
        before.numbered("names")
        if table_path(before.workspace, "names").exists()
        else audit.clear().with_columns(source_number=0)
    )
    own = own.filter(pl.col("source_number") == before.number).select("name", own="recording_id").unique("name", keep="first")
    known = recordings.drop_nulls("path").unique("path", keep="first").select("path", by_path="recording_id")
    named = audit.join(own, on="name", how="left", maintain_order="left").join(
        known, on="path", how="left", maintain_order="left"
    )
    kept = pl.coalesce("own", "by_path")
    named = named.with_columns(
        kept=pl.coalesce(kept, pl.when(pl.col("path").is_not_null()).then(kept.drop_nulls().first().over("path")))
    )
    taken = {*recordings["recording_id"], *named["kept"].drop_nulls()}
    clash = named.filter(pl.col("kept").is_null() & pl.col("recording_id").is_in(list(taken)))
    renamed: dict[str, str] = {}
    if len(clash):
        held = {key: (path, sha256) for key, path, sha256 in recordings.select("recording_id", "path", "sha256").iter_rows()}
        sha256 = dict(facts.select("path", "sha256").iter_rows())
        taken |= set(named["recording_id"])
        by_file: dict[str, str] = {}
        for name, path, key in clash.select("name", "path", "recording_id").iter_rows():
            there, hashed = held.get(key, (None, None))
            same = path is None or there is None or (hashed is not None and hashed == sha256.get(path))
            numbered = (f"{key}#{number}" for number in range(2, len(taken) + 3))
            new = key if same else by_file.get(path) or next(one for one in numbered if one not in taken)
            renamed[name] = new
            by_file |= {path: new} if path else {}
            taken.add(new)
    new_id = pl.col("name").replace_strict(renamed, default=pl.col("recording_id"), return_dtype=pl.String)
    return named.with_columns(recording_id=pl.coalesce("kept", new_id)).select(audit.columns)


def merge_recordings(old: pl.DataFrame, new: pl.DataFrame, shared: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Merge what was probed now into the recordings table; return also `recording_id` and `status` of what was probed.

    The status is new, changed (other audio), arrived (audio for the first time), lost (audio that is no longer found; its facts
    stay) or unchanged. `shared` are recordings of other sources too: they keep their file if the other one is equal.
    """
    facts = ("path", "num_samples", "sha256", "num_bytes", "mtime_ns", "version")
    absent = {name: pl.String if name in ("path", "sha256", "version") else pl.Int64 for name in facts}
    both = [
        frame.with_columns(pl.lit(None, absent[name]).alias(name) for name in facts if name not in frame.columns)
        for frame in (old, new)
    ]
    was = both[0].select("recording_id", *(pl.col(name).alias(f"{name} was") for name in facts), there=True)
    joined = both[1].join(was, on="recording_id", how="left", maintain_order="left")
    had, has = pl.col("num_samples was").is_not_null(), pl.col("num_samples").is_not_null()
    equal = {name: (pl.col(name) == pl.col(f"{name} was")).fill_null(value=False) for name in facts}
    same = equal["sha256"] | (equal["num_bytes"] & (equal["mtime_ns"] | equal["version"]))
    status = (
        pl.when(pl.col("there").is_null()).then(pl.lit("new"))
        .when(had & ~has).then(pl.lit("lost"))
        .when(has & ~had).then(pl.lit("arrived"))
        .when(had & ~same).then(pl.lit("changed"))
        .otherwise(pl.lit("unchanged"))
    )  # fmt: skip
    joined = joined.with_columns(status=status)
    elsewhere = ~equal["path"] & pl.col("recording_id").is_in(shared.implode()) & (pl.col("status") == "unchanged")
    taken = joined.filter(~elsewhere & (pl.col("status") != "lost"))
    taken = taken.with_columns(
        sha256=pl.when(pl.col("status") == "unchanged").then(pl.coalesce("sha256", "sha256 was")).otherwise("sha256")
    )
    taken = taken.select(new.columns)
    further = [name for name in old.columns if name not in new.columns]
    if "name" in old.columns:
        taken, further = taken.drop("name"), [*further, "name"]
    names = new.select("recording_id", given="name")
    taken = taken.join(old.select("recording_id", *further), on="recording_id", how="left", maintain_order="left")
    taken = taken.join(names, on="recording_id", how="left", maintain_order="left")
    taken = taken.with_columns(name=pl.coalesce(*(name for name in ("name", "given") if name in taken.columns))).drop("given")
    left = old.join(taken, on="recording_id", how="anti", maintain_order="left")
    merged = pl.concat([left, taken], how="diagonal_relaxed")
    order = pl.concat([old["recording_id"], new["recording_id"]]).unique(maintain_order=True).to_frame()
    columns = dict.fromkeys((*old.columns, *merged.columns))
    return order.join(merged, on="recording_id", how="inner", maintain_order="left").select(*columns), joined.select(
        "recording_id", "status"
    )


def own_segment_ids(before: Before, placed: pl.DataFrame) -> pl.Series:
    """Return ids of placed segments, none of which another source has for other words or times: those get ``#2`` and so on."""
    ids = placed["segment_id"]
    if len(before.sources) == 1:
        return ids
    columns = ("segment_id", "recording_id", "source_start", "source_end", "text")
    held = tables.scan(before.workspace, columns).join(
        before.growth.lazy().select("segment_id", "source_number"), on="segment_id", how="left"
    )
    other = held.filter(pl.col("source_number").fill_null(0) != before.number).collect()
    clash = placed.with_row_index("row").join(other, on="segment_id", suffix=" was", maintain_order="left")
    clash = clash.filter(pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name} was")) for name in columns[1:]))
    if clash.is_empty():
        return ids
    taken, renamed = {*other["segment_id"], *ids}, ids.to_list()
    for row, key in clash.select("row", "segment_id").iter_rows():
        number = 2
        while f"{key}#{number}" in taken:
            number += 1
        renamed[row] = f"{key}#{number}"
        taken.add(renamed[row])
    return pl.Series("segment_id", renamed, dtype=pl.String)


def of_others(before: Before) -> pl.DataFrame:
    """Return `segment_id` of the rows that are of other sources."""
    keys = tables.scan(before.workspace, ["segment_id"])
    if len(before.sources) == 1:
        return keys.collect().clear()
    numbers = before.growth.lazy().select("segment_id", "source_number")
    held = keys.join(numbers, on="segment_id", how="left")
    return held.filter(pl.col("source_number").fill_null(0) != before.number).select("segment_id").collect()


def grown_tables(before: Before, merge: Merge) -> dict[str, Any]:
    """Return the tables that change with the segments, which `Workspace.save_together` takes."""
    if merge.rows.is_empty():
        return {}
    made: dict[str, Any] = {
        "segments": merge.table(),
        EARLIER_SPLITS: keep_splits(before.workspace),
        CORRECTED_TEXTS: merge.corrected_texts(),
    }
    replaced = merge.replaced
    if len(replaced):
        lines = {name: _lines(before.workspace, name) for name in ("verdicts", "corrections")}
        now = replaced.select(
            "segment_id",
            added_in=pl.lit(before.workspace.generation + 1),
            # A row that another source brought stays its own.
            source_number=pl.lit(before.number),
            **{name: pl.when(~is_("new")).then(pl.lit(count)) for name, count in lines.items()},
        ).cast(GROWN)
        was = before.growth
        order = pl.concat([was["segment_id"], now["segment_id"]]).unique(maintain_order=True).to_frame()
        rows = pl.concat([now, was.join(now, on="segment_id", how="anti")])
        owners = was.select("segment_id", owner="source_number")
        rows = (
            rows.join(owners, on="segment_id", how="left")
            .with_columns(source_number=pl.coalesce("owner", "source_number"))
            .drop("owner")
        )
        made[GROWTH] = order.join(rows, on="segment_id", maintain_order="left")
    return {name: table for name, table in made.items() if table is not None}


def _lines(workspace: Workspace, log: str) -> int:
    path = workspace.path / f"reviews/{log}.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def keep_splits(workspace: Workspace) -> pl.DataFrame | None:
    """Return the table of earlier splits with those of the current selection; None if there is no selection.

    Rows of earlier selections stay; a segment gets its newer split, but one that was held out never goes to train.
    """
    keys = workspace.report("select").get("facts", {}).get("parameters", {}).get("group_by", [])
    there = tables.table_schema(workspace)
    chosen = (pl.col("decision") == "accept") & pl.col("split").is_not_null()
    if not {"decision", "split"} <= there.keys():
        return None
    held = tables.scan(workspace, dict.fromkeys(("segment_id", "split", "decision", "text", *keys))).filter(chosen)
    grouped = {name: pl.col(name).cast(pl.String) for name in keys if name in there}
    now = held.select("segment_id", "split", sentence=sentences(pl.col("text")), **grouped).collect()
    if now.is_empty():
        return None
    if not table_path(workspace, EARLIER_SPLITS).exists():
        return now
    was = workspace.table(EARLIER_SPLITS)
    names = pl.concat([was["split"], now["split"]]).unique()
    held_out = pl.col("split").is_in([name for name in names if name and is_held_out(name)])
    newer = now.join(was.filter(held_out), on="segment_id", how="semi", maintain_order="left").filter(~held_out)
    now = now.join(newer, on="segment_id", how="anti", maintain_order="left")
    order = pl.concat([was["segment_id"], now["segment_id"]]).unique(maintain_order=True).to_frame()
    rows = pl.concat([was.join(now, on="segment_id", how="anti", maintain_order="left"), now], how="diagonal")
    return order.join(rows, on="segment_id", maintain_order="left")


def grown_settings(before: Before, settings: Mapping[str, Any], audio: Location | None, *, replaced: bool) -> dict[str, Any]:
    """Return the settings of the workspace with those of the source; `replaced`: segments were added or changed."""
    held = before.workspace.settings
    own = {name: settings[name] for name in ("format", "source", "names", "options", "audio")}
    sources = [own if number == before.number else one for number, one in enumerate(before.sources)]
    first = own if before.number == 0 else {}
    new = {**held, **first, "audio": audio and str(audio), "sources": sources}
    if replaced:
        drawn = any((before.workspace.path / "reviews").glob("*.json"))
        known = before.workspace.known_states() if drawn else held.get("generations", [])
        new |= {"generation": before.workspace.generation + 1, "generations": known}
    return new | ({"cache": settings["cache"]} if "cache" in settings else {})
