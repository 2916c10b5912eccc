"""Growth: bring a further or a changed source into a workspace (`ingest --add`).

The workspace has tables already. A changed source may also have grown.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio.name_matching import NUMBERED
from nbaudio.sources.merge_segments import Merge, is_
from nbaudio.sources.place_segments import PlacedSegments
from nbaudio.storage.location import Location
from nbaudio.storage.urls import is_url
from nbaudio.tables import split_names, workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.schemas import CORRECTED_TEXTS, EARLIER_SPLITS, GROWN, GROWTH, conform
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_path
from nbaudio.text.near_duplicates import sentences

_SOURCE = ("format", "source", "audio", "names", "options")
_NUMBERED = pl.Schema({"name": pl.String, "recording_id": pl.String, "source_number": pl.Int32})
_FILE = {"path": pl.String, "num_samples": pl.Int64, "sha256": pl.String, "num_bytes": pl.Int64}
_FACTS = pl.Schema({**_FILE, "mtime_ns": pl.Int64, "version": pl.String, "name": pl.String})


@dataclass(frozen=True)
class Before:
    """A workspace before it grows, and which of its sources grows.

    Attributes:
        workspace: the workspace.
        sources: settings of its sources, with the one that grows.
        number: number of that source, from 0.
        numbers: all numbers of that source. There are several where an earlier version took another
            spelling of its path for another source.
    """

    workspace: Workspace
    sources: list[dict[str, Any]]
    number: int
    numbers: tuple[int, ...]

    @classmethod
    def load(cls, workspace: Workspace, format: str, source: str) -> "Before":
        """Find the source among those of the workspace, or add it to them."""
        sources = sources_of(workspace)
        numbers = tuple(
            number
            for number, settings in enumerate(sources)
            if settings["format"] == format and is_same_place(settings["source"], source)
        )
        if not numbers:
            numbers = (len(sources),)
            sources = [*sources, {"format": format, "source": source}]
        return cls(workspace, sources, numbers[0], numbers)

    @property
    def audio(self) -> str | None:
        """The audio folder that the source had, if it is still there."""
        held: str | None = self.sources[self.number].get("audio")
        return held if held and (is_url(held) or Path(held).is_dir()) else None

    def has_moved(self, folder: Location) -> bool:
        """Return whether this audio folder, which does not exist any more, was that of the source.

        Its recordings then keep their paths, which are below the new folder.
        """
        held: str | None = self.sources[self.number].get("audio")
        is_own = held is not None and is_same_place(held, str(folder))
        return is_own and folder.local is not None and is_missing(folder.local)

    def with_absolute_paths_of_others(
        self, recordings: pl.DataFrame, folder: Location
    ) -> pl.DataFrame:
        """Return recordings with absolute paths for those that only other sources have."""
        if len(self.sources) == 1:
            return recordings
        names = self.numbered("names")
        own = names.filter(pl.col("source_number").is_in(self.numbers))["recording_id"]
        is_own = pl.col("recording_id").is_in(own.drop_nulls().implode())
        paths = absolute(recordings["path"], folder)
        return recordings.with_columns(path=pl.when(is_own).then("path").otherwise(paths))

    def numbered(self, table: str) -> pl.DataFrame:
        """Return ``names`` or ``problems`` with `source_number`."""
        if not table_path(self.workspace, table).exists():
            return pl.DataFrame(schema=_NUMBERED)
        found = self.workspace.table(table)
        return (
            found
            if "source_number" in found.columns
            else found.with_columns(source_number=pl.lit(0, pl.Int32))
        )

    def all_rows(self, table: str, own: pl.DataFrame) -> pl.DataFrame:
        """Return ``names`` or ``problems`` with the rows of this source.

        Rows have the number of their source only if there are several sources.
        """
        if len(self.sources) == 1:
            return own
        rows = own.with_columns(source_number=pl.lit(self.number, pl.Int32))
        others = self.numbered(table).filter(~pl.col("source_number").is_in(self.numbers))
        return (
            pl.concat([others, rows], how="diagonal")
            .select(rows.columns)
            .sort("source_number", maintain_order=True)
        )

    def segments_of_others(self, *columns: str) -> pl.LazyFrame:
        """Return ids and further columns of the segments that other sources have."""
        segments = workspace_tables.scan(self.workspace, ("segment_id", *columns))
        if len(self.sources) == 1:
            return segments.clear()
        numbers = self.workspace.growth.lazy().select("segment_id", "source_number")
        numbered = segments.join(numbers, on="segment_id", how="left", maintain_order="left")
        is_other = ~pl.col("source_number").fill_null(0).is_in(self.numbers)
        return numbered.filter(is_other).select("segment_id", *columns)

    def probed(self) -> pl.DataFrame | None:
        """Return what is known of recordings with audio, and their `file`."""
        if (root := self.workspace.audio) is None:
            return None
        known = self.workspace.recordings.filter(pl.col("num_samples").is_not_null())
        return known.with_columns(
            file=pl.Series([str(root / path) for path in known["path"]], dtype=pl.String)
        )


def sources_of(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the settings of the sources of a workspace, in the order in which they came."""
    settings = workspace.settings
    found: list[dict[str, Any]] = settings.get("sources") or [
        {name: settings.get(name) for name in _SOURCE}
    ]
    return found


def is_same_place(a: str, b: str) -> bool:
    """Return whether two paths, or two addresses, are of one file or folder.

    Paths that exist are compared by their files, so that links and ``..`` make no difference;
    others as normalized absolute paths.
    """
    if is_url(a) or is_url(b):
        return a.rstrip("/") == b.rstrip("/")
    try:
        return Path(a).samefile(b)
    except OSError:  # one of the two does not exist
        return os.path.normpath(Path(a).absolute()) == os.path.normpath(Path(b).absolute())


def is_missing(folder: Path) -> bool:
    """Return whether there is no such folder; one that may not be read is there."""
    try:
        return not stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def rebase(before: Before, root: Location | None) -> tuple[Location | None, pl.DataFrame, bool]:
    """Return the audio folder of the grown workspace, and its recordings.

    The paths of recordings are below that folder, or absolute. Return also whether `root` is apart.
    """
    held = before.workspace.audio
    recordings = before.workspace.recordings
    if held is None or root is None or str(held) == str(root):
        return root or held, recordings, False
    if before.has_moved(held):
        of_others = before.with_absolute_paths_of_others(recordings, held)
        return root, of_others, False
    # Of several audio folders, it is the first one on this machine.
    if len(before.sources) > 1 and (held.local is not None or root.local is None):
        return held, recordings, True
    return root, recordings.with_columns(absolute(recordings["path"], held)), False


def absolute(paths: pl.Series, root: Location) -> pl.Series:
    """Return paths below an audio folder as absolute paths or URLs."""
    return pl.Series(
        "path",
        [path if path is None or is_url(path) else str(root / path) for path in paths],
        dtype=pl.String,
    )


def keep_ids(
    before: Before, recordings: pl.DataFrame, audit: pl.DataFrame, facts: pl.DataFrame
) -> pl.DataFrame:
    """Give names in an audit the ids that their recordings had, and others new ids.

    A recording is known by the same path, or by the same name and content.
    """
    own = (
        before.numbered("names")
        .filter(pl.col("source_number").is_in(before.numbers))
        .select("name", own="recording_id")
    )
    known = (
        recordings.drop_nulls("path")
        .unique("path", keep="first")
        .select("path", by_path="recording_id")
    )
    named = audit.join(
        own.unique("name", keep="first"), on="name", how="left", maintain_order="left"
    )
    named = named.join(known, on="path", how="left", maintain_order="left")
    kept = pl.coalesce("own", "by_path")
    of_file = pl.when(pl.col("path").is_not_null()).then(kept.drop_nulls().first().over("path"))
    named = named.with_columns(kept=pl.coalesce(kept, of_file))
    taken = {*recordings["recording_id"], *named["kept"].drop_nulls()}
    clash = named.filter(pl.col("kept").is_null() & pl.col("recording_id").is_in(list(taken)))
    held = {
        key: (path, sha256)
        for key, path, sha256 in recordings.select("recording_id", "path", "sha256").iter_rows()
    }
    sha256 = dict(facts.select("path", "sha256").iter_rows()) if len(clash) else {}
    taken |= set(named["recording_id"])
    renamed: dict[str, str] = {}
    by_file: dict[str, str] = {}
    for name, path, key in clash.select("name", "path", "recording_id").iter_rows():
        there, hashed = held.get(key, (None, None))
        same = path is None or there is None or (hashed is not None and hashed == sha256.get(path))
        renamed[name] = key if same else by_file.setdefault(path, _numbered(key, taken))
        taken.add(renamed[name])
    new_id = pl.col("name").replace_strict(
        renamed, default=pl.col("recording_id"), return_dtype=pl.String
    )
    return named.with_columns(recording_id=pl.coalesce("kept", new_id)).select(audit.columns)


def _numbered(key: str, taken: set[str]) -> str:
    return next(
        one
        for one in (f"{key}#{number}" for number in range(2, len(taken) + 3))
        if one not in taken
    )


def own_segment_ids(before: Before, placed: PlacedSegments) -> pl.DataFrame:
    """Return new ids (`row`, `segment_id`) where another source has the same id.

    Only segments with another text or other times get one, such as ``x#2``.
    """
    if len(before.sources) == 1:
        return placed.ids.clear()
    compared = ("recording_id", "source_start", "source_end", "text")
    other = before.segments_of_others(*compared)
    known = other.select(pl.col("segment_id").hash()).collect(**STREAMED).to_series()
    own = placed.find(
        pl.col("segment_id").hash().is_in(known.implode()),
        **{name: pl.col(name) for name in compared},
    )
    same = other.join(own.lazy().select("segment_id"), on="segment_id", how="semi").collect(
        **STREAMED
    )
    clash = own.join(same, on="segment_id", suffix=" was", maintain_order="left")
    clash = clash.filter(
        pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name} was")) for name in compared)
    )
    if clash.is_empty():
        return placed.ids.clear()
    numbered = pl.col("segment_id").str.contains(NUMBERED)
    taken = {
        *placed.find(numbered)["segment_id"],
        *other.filter(numbered).collect(**STREAMED)["segment_id"],
    }
    ids = []
    for row, key in clash.select("row", "segment_id").iter_rows():
        ids.append((row, _numbered(key, taken)))
        taken.add(ids[-1][1])
    return pl.DataFrame(ids, schema=placed.ids.schema, orient="row")


def merge_recordings(
    before: Before, old: pl.DataFrame, new: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Merge what was probed now into the recordings table.

    Return also the `recording_id` and `status` of what was probed.
    """
    was = conform(old, _FACTS, "recordings").with_columns(there=True)
    joined = conform(new, _FACTS, "recordings")
    joined = joined.join(was, on="recording_id", how="left", maintain_order="left", suffix=" was")
    had = pl.col("num_samples was").is_not_null()
    has = pl.col("num_samples").is_not_null()
    equal = {
        name: (pl.col(name) == pl.col(f"{name} was")).fill_null(value=False) for name in _FACTS
    }
    same = equal["sha256"] | (equal["num_bytes"] & (equal["mtime_ns"] | equal["version"]))
    # Arrived: first audio; lost: its facts stay. A copy of another source's recording is that
    # recording.
    status = {
        "new": pl.col("there").is_null(),
        "lost": had & ~has,
        "arrived": has & ~had,
        "changed": had & ~same,
    }
    named = (pl.when(is_so).then(pl.lit(name)) for name, is_so in status.items())
    joined = joined.with_columns(status=pl.coalesce(*named, pl.lit("unchanged")))
    names = before.numbered("names").filter(~pl.col("source_number").is_in(before.numbers))
    unchanged = pl.col("status") == "unchanged"
    copied = (
        unchanged & ~equal["path"] & pl.col("recording_id").is_in(names["recording_id"].implode())
    )
    taken = joined.filter(~copied & (pl.col("status") != "lost")).with_columns(
        sha256=pl.when(unchanged).then(pl.coalesce("sha256", "sha256 was")).otherwise("sha256"),
        name=pl.coalesce("name was", "name"),
    )
    further = (name for name in old.columns if name not in new.columns)
    taken = taken.select(
        *new.columns,
        *(pl.col(f"{name} was" if name in _FACTS else name).alias(name) for name in further),
    )
    return _updated(old, taken.drop("error"), "recording_id"), joined.select(
        "recording_id", "status"
    )


def _updated(old: pl.DataFrame, new: pl.DataFrame, key: str = "segment_id") -> pl.DataFrame:
    """Return the rows of two tables in order.

    A row of the second table takes the place of that of the first with the same key.
    """
    order = pl.concat([old[key], new[key]]).unique(maintain_order=True).to_frame()
    rows = pl.concat([old.join(new, on=key, how="anti"), new], how="diagonal_relaxed")
    return order.join(rows, on=key, maintain_order="left").select(rows.columns)


def grown_tables(before: Before, merge: Merge) -> dict[str, Any]:
    """Return the tables that change with the segments, which `Workspace.save_together` takes."""
    if merge.rows.is_empty():
        return {}
    logs = (
        before.workspace.path / "reviews" / f"{name}.jsonl" for name in ("verdicts", "corrections")
    )
    lines = {log.stem: log.read_bytes().count(b"\n") if log.is_file() else 0 for log in logs}
    owners = before.workspace.growth.select("segment_id", owner="source_number")
    new = merge.replaced.join(owners, on="segment_id", how="left", maintain_order="left").select(
        "segment_id",
        added_in=pl.lit(before.workspace.generation + 1),
        source_number=pl.when(is_("new"))
        .then(pl.lit(before.number))
        .otherwise(pl.col("owner").fill_null(0)),
        **{name: pl.when(~is_("new")).then(pl.lit(count)) for name, count in lines.items()},
    )
    made = {
        "segments": merge.table(),
        EARLIER_SPLITS: keep_splits(before.workspace),
        CORRECTED_TEXTS: merge.corrected_texts(),
        GROWTH: _updated(before.workspace.growth, new.cast(GROWN)) if len(new) else None,
    }
    return {name: table for name, table in made.items() if table is not None}


def keep_splits(workspace: Workspace) -> pl.LazyFrame | None:
    """Return the earlier splits with those of the current selection.

    Return None without a selection. What was held out keeps its rows.
    """
    keys = workspace.report("select").get("facts", {}).get("parameters", {}).get("group_by", [])
    held = workspace_tables.scan(
        workspace, dict.fromkeys(("segment_id", "split", "decision", "text", *keys))
    )
    chosen = held.filter(pl.col("decision") == "accept", pl.col("split").is_not_null())
    grouped = {name: pl.col(name).cast(pl.String) for name in keys if name in held.collect_schema()}
    return with_earlier(
        workspace,
        chosen.select("segment_id", "split", sentence=sentences(pl.col("text")), **grouped),
    )


def with_earlier(workspace: Workspace, now: pl.LazyFrame) -> pl.LazyFrame | None:
    """Return the table of earlier splits with those of a further version; None if that is empty."""
    splits = now.select(pl.col("split").unique()).collect(**STREAMED)["split"]
    if splits.is_empty() or not table_path(workspace, EARLIER_SPLITS).exists():
        return None if splits.is_empty() else now
    was = workspace_tables.scan(workspace, table=EARLIER_SPLITS)
    earlier = was.select(pl.col("split").unique()).collect(**STREAMED)["split"]
    names = pl.concat([earlier, splits]).drop_nulls().unique()
    held_out = pl.col("split").is_in([name for name in names if split_names.is_held_out(name)])
    before = was.filter(held_out).collect(**STREAMED)
    of_before = pl.col("segment_id").is_in(before["segment_id"].implode())
    both = pl.concat([before, now.filter(held_out, of_before).collect(**STREAMED)], how="diagonal")
    same = both.filter(both.is_duplicated())["segment_id"]
    now = now.filter(~pl.col("segment_id").is_in(same.implode()), held_out | ~of_before)
    kept = now.select(pl.col("segment_id").hash()).collect(**STREAMED).to_series()
    others = was.filter(~held_out, ~pl.col("segment_id").hash().is_in(kept.implode()))
    return pl.concat([before.lazy(), others, now], how="diagonal")


def grown_settings(
    before: Before, settings: Mapping[str, Any], audio: Location | None, *, replaced: bool
) -> dict[str, Any]:
    """Return the settings of the workspace with those of the source.

    `replaced` says whether segments were added or changed.
    """
    held = before.workspace.settings
    own = {name: settings[name] for name in _SOURCE}
    sources = [own if number == before.number else one for number, one in enumerate(before.sources)]
    new = {**held, **sources[0], "audio": audio and str(audio), "sources": sources}
    new |= {"cache": settings["cache"]} if "cache" in settings else {}
    if replaced:
        drawn = any((before.workspace.path / "reviews").rglob("*.json"))
        known = before.workspace.known_states() if drawn else held.get("generations", [])
        new |= {"generation": before.workspace.generation + 1, "generations": known}
    return new
