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
        folder: str | None = self.sources[self.number].get("audio")
        if folder and (is_url(folder) or Path(folder).is_dir()):
            return folder
        return None

    def has_moved(self, folder: Location) -> bool:
        """Return whether this audio folder, which does not exist any more, was that of the source.

        Its recordings then keep their paths, which are below the new folder.
        """
        before: str | None = self.sources[self.number].get("audio")
        is_of_source = before is not None and is_same_place(before, str(folder))
        return is_of_source and folder.local is not None and is_missing(folder.local)

    def with_absolute_paths_of_others(
        self, recordings: pl.DataFrame, folder: Location
    ) -> pl.DataFrame:
        """Return recordings with absolute paths for those that only other sources have."""
        if len(self.sources) == 1:
            return recordings
        names = self.numbered("names")
        ids = names.filter(pl.col("source_number").is_in(self.numbers))["recording_id"]
        is_of_source = pl.col("recording_id").is_in(ids.drop_nulls().implode())
        paths = absolute(recordings["path"], folder)
        return recordings.with_columns(path=pl.when(is_of_source).then("path").otherwise(paths))

    def numbered(self, table: str) -> pl.DataFrame:
        """Return ``names`` or ``problems`` with `source_number`."""
        if not table_path(self.workspace, table).exists():
            return pl.DataFrame(schema=_NUMBERED)
        rows = self.workspace.table(table)
        if "source_number" in rows.columns:
            return rows
        return rows.with_columns(source_number=pl.lit(0, pl.Int32))

    def all_rows(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Return ``names`` or ``problems`` of all sources, with `rows` as those of this source.

        Rows have the number of their source only if there are several sources.
        """
        if len(self.sources) == 1:
            return rows
        rows = rows.with_columns(source_number=pl.lit(self.number, pl.Int32))
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
        """Return the recordings with audio, and their `file`; None without an audio folder."""
        if (root := self.workspace.audio) is None:
            return None
        recordings = self.workspace.recordings.filter(pl.col("num_samples").is_not_null())
        files = [str(root / path) for path in recordings["path"]]
        return recordings.with_columns(file=pl.Series(files, dtype=pl.String))


def sources_of(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the settings of the sources of a workspace, in the order in which they came."""
    settings = workspace.settings
    sources: list[dict[str, Any]] = settings.get("sources") or [
        {name: settings.get(name) for name in _SOURCE}
    ]
    return sources


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


@dataclass(frozen=True)
class Rebased:
    """The audio folder of a grown workspace, and the recordings that it had before.

    Attributes:
        audio: the folder, None if there is none.
        recordings: with paths below that folder, or absolute ones.
        is_apart: whether the audio folder of the source is another one.
    """

    audio: Location | None
    recordings: pl.DataFrame
    is_apart: bool = False


def rebase(before: Before, root: Location | None) -> Rebased:
    """Choose the audio folder of the grown workspace; `root` is that of the source."""
    folder = before.workspace.audio
    recordings = before.workspace.recordings
    if folder is None or root is None or str(folder) == str(root):
        return Rebased(root or folder, recordings)
    if before.has_moved(folder):
        return Rebased(root, before.with_absolute_paths_of_others(recordings, folder))
    # Of several audio folders, it is the first one on this machine.
    if len(before.sources) > 1 and (folder.local is not None or root.local is None):
        return Rebased(folder, recordings, is_apart=True)
    return Rebased(root, recordings.with_columns(absolute(recordings["path"], folder)))


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
    named = _with_earlier_ids(before, recordings, audit)
    taken = {*recordings["recording_id"], *named["earlier_id"].drop_nulls()}
    is_new = pl.col("earlier_id").is_null()
    clashing = named.filter(is_new & pl.col("recording_id").is_in(list(taken)))
    new_ids = _new_ids(clashing, recordings, facts, taken | set(named["recording_id"]))
    new_id = pl.col("name").replace_strict(
        new_ids, default=pl.col("recording_id"), return_dtype=pl.String
    )
    return named.with_columns(recording_id=pl.coalesce("earlier_id", new_id)).select(audit.columns)


def _with_earlier_ids(
    before: Before, recordings: pl.DataFrame, audit: pl.DataFrame
) -> pl.DataFrame:
    """Return the audit with `earlier_id`, the id that a recording had, null for new ones.

    It is by the name in this source, else by the path; names of one file have the same.
    """
    by_name = (
        before.numbered("names")
        .filter(pl.col("source_number").is_in(before.numbers))
        .select("name", by_name="recording_id")
        .unique("name", keep="first")
    )
    by_path = (
        recordings.drop_nulls("path")
        .unique("path", keep="first")
        .select("path", by_path="recording_id")
    )
    named = audit.join(by_name, on="name", how="left", maintain_order="left")
    named = named.join(by_path, on="path", how="left", maintain_order="left")
    earlier_id = pl.coalesce("by_name", "by_path")
    first_of_file = earlier_id.drop_nulls().first().over("path")
    of_file = pl.when(pl.col("path").is_not_null()).then(first_of_file)
    return named.with_columns(earlier_id=pl.coalesce(earlier_id, of_file))


def _new_ids(
    clashing: pl.DataFrame, recordings: pl.DataFrame, facts: pl.DataFrame, taken: set[str]
) -> dict[str, str]:
    """Return the id of each name whose id is that of another recording.

    It stays if the files are the same, by content, or if one has no file; else it gets a number
    that makes it none of the `taken` ids.
    """
    if clashing.is_empty():
        return {}
    rows = recordings.select("recording_id", "path", "sha256").iter_rows()
    files = {key: (path, sha256) for key, path, sha256 in rows}
    hashes = dict(facts.select("path", "sha256").iter_rows())
    new_ids: dict[str, str] = {}
    by_path: dict[str, str] = {}
    for name, path, key in clashing.select("name", "path", "recording_id").iter_rows():
        path_before, sha256 = files.get(key, (None, None))
        has_one_file = path is None or path_before is None
        if has_one_file or (sha256 is not None and sha256 == hashes.get(path)):
            new_ids[name] = key
        else:
            new_ids[name] = by_path.setdefault(path, _numbered(key, taken))
        taken.add(new_ids[name])
    return new_ids


def _numbered(key: str, taken: set[str]) -> str:
    """Return an id with the lowest number, from 2, that is not taken, such as ``x#2``."""
    numbered = (f"{key}#{number}" for number in range(2, len(taken) + 3))
    return next(candidate for candidate in numbered if candidate not in taken)


def own_segment_ids(before: Before, placed: PlacedSegments) -> pl.DataFrame:
    """Return new ids (`row`, `segment_id`) where another source has the same id.

    Only segments with another text or other times get one, such as ``x#2``.
    """
    if len(before.sources) == 1:
        return placed.ids.clear()
    compared = ("recording_id", "source_start", "source_end", "text")
    other = before.segments_of_others(*compared)
    hashes = other.select(pl.col("segment_id").hash()).collect(**STREAMED).to_series()
    candidates = placed.find(
        pl.col("segment_id").hash().is_in(hashes.implode()),
        **{name: pl.col(name) for name in compared},
    )
    candidate_ids = candidates.lazy().select("segment_id")
    same = other.join(candidate_ids, on="segment_id", how="semi").collect(**STREAMED)
    clash = candidates.join(same, on="segment_id", suffix=" was", maintain_order="left")
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


@dataclass(frozen=True)
class MergedRecordings:
    """The recordings of a workspace with those of a source.

    Attributes:
        recordings: the table of the workspace.
        status: `recording_id` and `status` of the source's recordings: new, lost, arrived, changed
            or unchanged; empty if the workspace does not grow.
    """

    recordings: pl.DataFrame
    status: pl.DataFrame


def merge_recordings(before: Before, old: pl.DataFrame, new: pl.DataFrame) -> MergedRecordings:
    """Merge what was probed now into the recordings table."""
    compared = _with_status(old, new)
    names = before.numbered("names").filter(~pl.col("source_number").is_in(before.numbers))
    is_unchanged = pl.col("status") == "unchanged"
    is_of_others = pl.col("recording_id").is_in(names["recording_id"].implode())
    # A copy of another source's recording is that recording; the facts of a lost one stay.
    is_copy = is_unchanged & ~_is_as_before("path") & is_of_others
    probed = compared.filter(~is_copy & (pl.col("status") != "lost")).with_columns(
        sha256=pl.when(is_unchanged).then(pl.coalesce("sha256", "sha256 was")).otherwise("sha256"),
        name=pl.coalesce("name was", "name"),
    )
    further = {name: name for name in old.columns if name not in new.columns}
    further |= {name: f"{name} was" for name in further if name in _FACTS}
    probed = probed.select(
        *new.columns, *(pl.col(source).alias(name) for name, source in further.items())
    )
    return MergedRecordings(
        _updated(old, probed.drop("error"), "recording_id"),
        compared.select("recording_id", "status"),
    )


def _with_status(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Return new recordings beside the old ones of the same id, with their `status`.

    Columns of `_FACTS` of old recordings end in `` was``.
    """
    was = conform(old, _FACTS, "recordings").with_columns(is_old=True)
    joined = conform(new, _FACTS, "recordings")
    joined = joined.join(was, on="recording_id", how="left", maintain_order="left", suffix=" was")
    had_audio = pl.col("num_samples was").is_not_null()
    has_audio = pl.col("num_samples").is_not_null()
    is_same_version = _is_as_before("mtime_ns") | _is_as_before("version")
    is_same = _is_as_before("sha256") | (_is_as_before("num_bytes") & is_same_version)
    status = {
        "new": pl.col("is_old").is_null(),
        "lost": had_audio & ~has_audio,
        "arrived": has_audio & ~had_audio,
        "changed": had_audio & ~is_same,
    }
    named = (pl.when(is_so).then(pl.lit(name)) for name, is_so in status.items())
    return joined.with_columns(status=pl.coalesce(*named, pl.lit("unchanged")))


def _is_as_before(name: str) -> pl.Expr:
    """Return whether a fact of `_with_status` is the old one; false where one of them is null."""
    return (pl.col(name) == pl.col(f"{name} was")).fill_null(value=False)


def _updated(old: pl.DataFrame, new: pl.DataFrame, key: str = "segment_id") -> pl.DataFrame:
    """Return the rows of two tables in order.

    A row of the second table takes the place of that of the first with the same key.
    """
    order = pl.concat([old[key], new[key]]).unique(maintain_order=True).to_frame()
    rows = pl.concat([old.join(new, on=key, how="anti"), new], how="diagonal_relaxed")
    return order.join(rows, on=key, maintain_order="left").select(rows.columns)


def _num_lines(log: Path) -> int:
    if log.is_file():
        return log.read_bytes().count(b"\n")
    return 0


def grown_tables(before: Before, merge: Merge) -> dict[str, Any]:
    """Return the tables that change with the segments, which `Workspace.save_together` takes."""
    if merge.rows.is_empty():
        return {}
    lines = {
        name: _num_lines(before.workspace.path / "reviews" / f"{name}.jsonl")
        for name in ("verdicts", "corrections")
    }
    owners = before.workspace.growth.select("segment_id", owner="source_number")
    new = merge.replaced.join(owners, on="segment_id", how="left", maintain_order="left").select(
        "segment_id",
        added_in=pl.lit(before.workspace.generation + 1),
        source_number=pl.when(is_("new"))
        .then(pl.lit(before.number))
        .otherwise(pl.col("owner").fill_null(0)),
        **{name: pl.when(~is_("new")).then(pl.lit(count)) for name, count in lines.items()},
    )
    tables = {
        "segments": merge.table(),
        EARLIER_SPLITS: keep_splits(before.workspace),
        CORRECTED_TEXTS: merge.corrected_texts(),
    }
    if len(new):
        tables[GROWTH] = _updated(before.workspace.growth, new.cast(GROWN))
    return {name: table for name, table in tables.items() if table is not None}


def keep_splits(workspace: Workspace) -> pl.LazyFrame | None:
    """Return the earlier splits with those of the current selection.

    Return None without a selection. What was held out keeps its rows.
    """
    keys = workspace.report("select").get("facts", {}).get("parameters", {}).get("group_by", [])
    segments = workspace_tables.scan(
        workspace, dict.fromkeys(("segment_id", "split", "decision", "text", *keys))
    )
    chosen = segments.filter(pl.col("decision") == "accept", pl.col("split").is_not_null())
    schema = segments.collect_schema()
    grouped = {name: pl.col(name).cast(pl.String) for name in keys if name in schema}
    return with_earlier(
        workspace,
        chosen.select("segment_id", "split", sentence=sentences(pl.col("text")), **grouped),
    )


def with_earlier(workspace: Workspace, now: pl.LazyFrame) -> pl.LazyFrame | None:
    """Return the table of earlier splits with those of a further version; None if that is empty.

    Rows of held-out splits stay. A segment that has such a row gets another one only where the
    further version holds it out otherwise. Of all other segments, the latest row stays.
    """
    splits = now.select(pl.col("split").unique()).collect(**STREAMED)["split"]
    if splits.is_empty():
        return None
    if not table_path(workspace, EARLIER_SPLITS).exists():
        return now
    earlier_table = workspace_tables.scan(workspace, table=EARLIER_SPLITS)
    earlier_names = earlier_table.select(pl.col("split").unique()).collect(**STREAMED)["split"]
    names = pl.concat([earlier_names, splits]).drop_nulls().unique()
    held_out = pl.col("split").is_in([name for name in names if split_names.is_held_out(name)])
    held_out_rows = earlier_table.filter(held_out).collect(**STREAMED)
    is_held_out_row = pl.col("segment_id").is_in(held_out_rows["segment_id"].implode())
    all_held_out_rows = pl.concat(
        [held_out_rows, now.filter(held_out, is_held_out_row).collect(**STREAMED)], how="diagonal"
    )
    unchanged_ids = all_held_out_rows.filter(all_held_out_rows.is_duplicated())["segment_id"]
    now = now.filter(
        ~pl.col("segment_id").is_in(unchanged_ids.implode()), held_out | ~is_held_out_row
    )
    hashes = now.select(pl.col("segment_id").hash()).collect(**STREAMED).to_series()
    others = earlier_table.filter(~held_out, ~pl.col("segment_id").hash().is_in(hashes.implode()))
    return pl.concat([held_out_rows.lazy(), others, now], how="diagonal")


def grown_settings(
    before: Before, settings: Mapping[str, Any], audio: Location | None, *, replaced: bool
) -> dict[str, Any]:
    """Return the settings of the workspace with those of the source.

    `replaced` says whether segments were added or changed.
    """
    workspace_settings = before.workspace.settings
    grown = {name: settings[name] for name in _SOURCE}
    sources = [
        grown if number == before.number else source for number, source in enumerate(before.sources)
    ]
    new = {
        **workspace_settings,
        **sources[0],
        "audio": audio and str(audio),
        "sources": sources,
    }
    if "cache" in settings:
        new["cache"] = settings["cache"]
    if replaced:
        new["generation"] = before.workspace.generation + 1
        new["generations"] = workspace_settings.get("generations", [])
        has_draws = any((before.workspace.path / "reviews").rglob("*.json"))
        if has_draws:
            new["generations"] = before.workspace.known_states()
    return new
