"""Tables of a corpus, none of which is whole in memory.

The workspace's segments are checked and copied, so that later steps do not change what a run reads.
The tables and other side files are written, and corpus.json takes its facts from them.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio.decode_errors import NO_SIGNAL
from nbaudio.core.atomic import JsonRows, atomic_write, sha256_file, write_json
from nbaudio.core.errors import InputError
from nbaudio.core.version import __version__
from nbaudio.corpus.card import signal_ranges
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.containers.shard_files import ADDED_IN, Shard, version_of
from nbaudio.corpus.layout import SILENT_AUDIO, UNREADABLE_AUDIO, Layout
from nbaudio.corpus.shard_names import shard_names
from nbaudio.selection.leakage import grouping_columns, leakage_record
from nbaudio.storage.folders import Folder
from nbaudio.tables import parquet_files, schemas, workspace_tables
from nbaudio.tables.amounts import NO_AMOUNTS, amounts_by_split
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.parquet_files import digest, parquet_slices, scan_rows, write_parts
from nbaudio.tables.provenance import provenance_amounts
from nbaudio.tables.schemas import SEGMENTS, conform
from nbaudio.tables.split_names import listed_splits, ordered_splits
from nbaudio.tables.tombstones import is_withdrawn
from nbaudio.tables.workspace import Workspace
from nbaudio.text import vocabulary
from nbaudio.text.near_duplicates import sentences
from nbaudio.text.score import formatting_rules

# Where another text ships as `text`, this column has the one of the source.
_SOURCE_TEXT = "text_source"
# The facts of a recording in corpus.json.
_SOURCE_FACTS = (
    "recording_id",
    "path",
    "sampling_rate",
    "num_channels",
    "num_samples",
    "codec",
    "sha256",
)
# The columns that `check_accepted` reads.
_CHECKED = pl.Schema(
    {
        name: SEGMENTS[name]
        for name in (
            "segment_id",
            "recording_id",
            "speaker_id",
            "start_sample",
            "end_sample",
            "split",
            "decision",
        )
    }
)


def check_columns(workspace: Workspace) -> None:
    """Raise `InputError` if a column of the segments cannot be metadata of a corpus."""
    table = workspace_tables.table_path(workspace)
    for name, dtype in workspace_tables.table_schema(workspace).items():
        if name in schemas.RESERVED:
            raise InputError(
                f"{table}: the column {name!r} has a name that is reserved in corpora; rename it"
            )
        if dtype in (pl.Binary, pl.Object):
            raise InputError(
                f"{table}: the column {name!r} holds bytes, which metadata cannot store; "
                "convert them to text"
            )


def check_accepted(workspace: Workspace) -> Counter[str]:
    """Return the number of accepted segments of each split.

    Raise `InputError` if there are none or some cannot be cut.
    """
    where = workspace.path
    table = workspace_tables.table_path(workspace)
    accepted = pl.col("decision") == "accept"
    withdrawn = 0
    pending = 0
    total = 0
    counts = Counter[str]()
    without_audio: list[str] = []
    for part in parquet_files.parquet_slices(table, _CHECKED):
        segments = conform(part, _CHECKED, str(table))
        withdrawn += int(is_withdrawn(segments, workspace.withdrawn).sum())
        pending += int((segments["decision"] == "pending").sum())
        total += len(segments)
        accepted_segments = segments.filter(accepted)
        counts.update(dict(accepted_segments["split"].value_counts().iter_rows()))
        has_no_audio = pl.any_horizontal(pl.col("start_sample", "end_sample").is_null())
        without_audio.extend(accepted_segments.filter(has_no_audio)["segment_id"])
    if withdrawn:
        raise InputError(
            f"{where}: {withdrawn:,} withdrawn segments are still there; "
            "run the interrupted 'nbaudio withdraw' again"
        )
    if pending:
        raise InputError(
            f"{where}: {pending} of {total} segments are not decided; "
            f"run 'nbaudio select {where}' first"
        )
    if not counts:
        raise InputError(
            f"{where}: no segment is accepted; 'nbaudio stats {where}' shows the reasons"
        )
    if without_audio:
        raise InputError(
            f"{where}: {len(without_audio)} accepted segments have no audio, {without_audio[0]} "
            "the first; ingest with --audio and select again"
        )
    return counts


def check_text(workspace: Workspace, text: str | None, *, judged: bool) -> None:
    """Raise InputError unless accepted segments have ``text_<text>``, to ship in place of `text`.

    If reviewers have `judged` the transcripts, it must also have the words of their column `text`,
    formatting aside.
    """
    if text is None:
        return
    _check_text_column(workspace, text)
    column = f"text_{text}"
    rows = (
        workspace_tables.scan(workspace, ["segment_id", "text", column, "decision"])
        .filter(pl.col("decision") == "accept")
        .with_columns(workspace.transcript(column).alias(column))
    )
    _check_no_text_missing(workspace, rows, column)
    if judged:
        _check_same_words(workspace, rows, column)


def _check_text_column(workspace: Workspace, text: str) -> None:
    """Raise InputError if the segments have no ``text_<text>``, or it cannot take another name."""
    table = workspace_tables.table_path(workspace)
    schema = workspace_tables.table_schema(workspace)
    column = f"text_{text}"
    is_absent = schema.get(column) != pl.String
    if is_absent or (column == schemas.RAW_TEXT and not workspace.has_raw_texts):
        column_of_text = {"normalized": "text_normalized", **schemas.text_names(schema)}
        if not workspace.has_raw_texts:
            column_of_text.pop("raw", None)
        names = sorted(name for name, column in column_of_text.items() if column in schema)
        hint = (
            "'nbaudio join W FILE --text NAME' brings one in, "
            "'nbaudio score W --normalize STEP' makes text_normalized"
        )
        raise InputError(
            f"{table}: text {text!r}: no column {column}; there are "
            f"{', '.join(names) or 'none'}; {hint}"
        )
    if _SOURCE_TEXT in schema:
        raise InputError(f"{table}: the column {_SOURCE_TEXT!r} would be overwritten; rename it")


def _check_no_text_missing(workspace: Workspace, rows: pl.LazyFrame, column: str) -> None:
    """Raise InputError if a text is empty where `text` is not."""
    is_missing = (pl.col(column).fill_null("") == "") & (pl.col("text").fill_null("") != "")
    missing = rows.filter(is_missing).collect()
    if len(missing):
        remedy = f"""'nbaudio select {workspace.path} --where "{column} <> \'\'"' leaves them out"""
        raise InputError(
            f"{workspace_tables.table_path(workspace)}: {len(missing):,} accepted segments "
            f"({missing['segment_id'][0]} the first) have no {column}; {remedy}"
        )


def _check_same_words(workspace: Workspace, rows: pl.LazyFrame, column: str) -> None:
    """Raise InputError if a text has other words than `text`, formatting aside."""
    rules = formatting_rules(workspace)
    has_other_sentence = sentences(pl.col("text")).ne_missing(sentences(pl.col(column)))
    candidates = rows.filter(has_other_sentence).select("segment_id", "text", column).collect()
    differing = [
        segment_id
        for segment_id, text, shipped_text in candidates.iter_rows()
        if rules.edits(text or "", shipped_text or "")
    ]
    if differing:
        raise InputError(
            f"{workspace_tables.table_path(workspace)}: {len(differing):,} accepted segments "
            f"({differing[0]} the first) have words in {column} that differ from those in text, "
            "which reviewers judged"
        )


def selection_hash(workspace: Workspace, text: str | None) -> str:
    """Hash what was decided about every segment, and the transcripts that ship."""
    decided = ("segment_id", "decision", "split", "text", "reason")
    texts = () if text is None else (f"text_{text}", schemas.RAW_TEXT)
    columns = dict.fromkeys((*decided, *texts))
    parts = (
        conform(_with_text(workspace, part, text), SEGMENTS, "segments")
        for part in workspace_tables.read_batches(workspace, columns=columns)
    )
    return digest(part.select(decided) for part in parts)


def freeze_table(workspace: Workspace, target: Path, text: str | None) -> Path:
    """Copy the current segments table to `target`, and return that path.

    The copy is a hard link if possible. It is rewritten if another `text` ships.
    """
    table = workspace_tables.table_path(workspace)
    if text is None:
        target.unlink(missing_ok=True)
        with suppress(OSError):  # a filesystem without hard links, or another one
            os.link(table, target)
            return target
    with atomic_write(target, sync=False) as partial:
        if text is None:
            shutil.copyfile(table, partial)
        else:
            batches = workspace_tables.read_batches(workspace)
            write_parts(partial, (_with_text(workspace, part, text) for part in batches))
    return target


def _with_text(workspace: Workspace, part: pl.DataFrame, text: str | None) -> pl.DataFrame:
    """Rename the chosen transcript to `text` and the source's to ``text_source``.

    Without a chosen one, the rows stay as they are.
    """
    if text is None:
        return part
    column = f"text_{text}"
    chosen = part.with_columns(workspace.transcript(column).alias(column))
    return chosen.rename({"text": _SOURCE_TEXT, column: "text"})


def _reason_of_rejection() -> pl.Expr:
    """Return why a segment is in no shard.

    Where cutting failed, `detail` says why, and the reason is the kind of failure. Elsewhere it is
    the `reason` of the selection.
    """
    is_silent = pl.col("detail").str.contains(f": {NO_SIGNAL}: ", literal=True)
    return (
        pl.when(is_silent)
        .then(pl.lit(SILENT_AUDIO))
        .when(pl.col("detail").is_not_null())
        .then(pl.lit(UNREADABLE_AUDIO))
        .otherwise("reason")
    )


def publish(
    layout: Layout,
    shards: list[Shard],
    container: str,
    *,
    lost: pl.DataFrame,
    table: Path,
    recordings: pl.DataFrame,
    selection: dict[str, Any],
    added: "AddedIn",
) -> dict[str, Any]:
    """Write the tables of the corpus; return corpus.json without parameters.

    Args:
        layout: where the files of the corpus are.
        shards: all shards, which hold the accepted segments that are not `lost`.
        container: the name of their container.
        lost: accepted segments that could not be cut; see `LocatedClips`.
        table: the copy of the segments table that `freeze_table` made.
        recordings: the recordings table.
        selection: what corpus.json says about the selection.
        added: the versions that segments were added in.
    """
    corpus_info: dict[str, Any] = {
        "format": "nbaudio corpus 1",
        "nbaudio": __version__,
        "selection": selection,
    }
    publish_shards(layout, shards, container=container, corpus_info=corpus_info, added=added)
    with layout.folder.local("segments.parquet") as path:
        corpus_info["leakage"] = leakage_record(
            scan_rows(path), keys=grouping_columns(corpus_info["selection"])
        )
        ranges = signal_ranges(scan_rows(path))
        if len(ranges):
            corpus_info["signals"] = ranges.to_dicts()
        provenance = provenance_amounts(path)
        if provenance:
            corpus_info["provenance"] = provenance
        amounts = amounts_by_split(path)
        sources = _sources(path, recordings)
        characters = _characters(path)
    with side_file(layout.folder, corpus_info, "rejected.parquet") as path:
        write_parts(path, _rejected(table, lost))
        counts = scan_rows(path).group_by("reason").len().collect(**STREAMED)
    rejected = {reason or "": number for reason, number in counts.iter_rows()}
    with side_file(layout.folder, corpus_info, "vocab.json") as path:
        write_json(path, vocabulary(sorted(characters)).to_json())
    splits = {split: amounts.get(split, NO_AMOUNTS) for split in listed_splits(amounts)}
    return corpus_info | {
        "splits": splits,
        "rejected": dict(sorted(rejected.items())),
        "sources": JsonRows(sources),
    }


def _sources(table: Path, recordings: pl.DataFrame) -> pl.DataFrame:
    """Return the recordings of the segments in a table, as corpus.json lists them."""
    ids = scan_rows(table).select(pl.col("recording_id").unique()).collect(engine="streaming")
    used = recordings.join(ids, on="recording_id", how="semi").sort("recording_id")
    return used.select(_SOURCE_FACTS)


def _characters(table: Path) -> set[str]:
    """Return the characters of the transcripts in a table, as `vocabulary` counts them."""
    return {
        character
        for part in parquet_slices(table, ["text"])
        for character in vocabulary(part["text"]).counts
    }


def _rejected(table: Path, lost: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the segments of a table that are in no shard, with the reason."""
    is_lost = workspace_tables.has_id(lost["segment_id"])
    for part in parquet_slices(table):
        segments = conform(part, SEGMENTS, "segments")
        outside = segments.filter((pl.col("decision") != "accept") | is_lost)
        yield outside.join(lost, on="segment_id", how="left", maintain_order="left").with_columns(
            reason=_reason_of_rejection(),
            decision=pl.lit("reject"),
            split=pl.lit(None, dtype=pl.String),
        )


@contextmanager
def side_file(folder: Folder, corpus_info: dict[str, Any], name: str) -> Iterator[Path]:
    """Yield a path to write to, published as `name` when the context succeeds.

    Add its SHA-256 and bytes to `corpus_info`.
    """
    with folder.new(name) as path:
        yield path
        corpus_info["tables"][name] = sha256_file(path)
        corpus_info["table_bytes"][name] = path.stat().st_size


@dataclass(frozen=True)
class AddedIn:
    """The versions that segments were added in.

    Attributes:
        version: that of the corpus, which all others were added in.
        earlier: of segments of its base, `key` (`key_of_id`) and `added_in`, sorted.
    """

    version: int = 1
    earlier: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"key": pl.UInt64, ADDED_IN: pl.Int32})
    )

    def column_added(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows of segments with the column `added_in` at their end."""
        version = pl.lit(self.version, dtype=pl.Int32)
        if len(self.earlier):
            keys = rows.select(key_of_id()).to_series()
            # A join would hash all of the earlier segments again for each part of the table.
            places = self.earlier["key"].search_sorted(keys).clip(upper_bound=len(self.earlier) - 1)
            before = self.earlier[places]
            version = pl.when(before["key"] == keys).then(before[ADDED_IN]).otherwise(version)
        return rows.drop(ADDED_IN, strict=False).with_columns(version.alias(ADDED_IN))


def key_of_id() -> pl.Expr:
    """Return a hash of the id of each segment, as `key`; it takes less memory than the id."""
    return pl.col("segment_id").hash().alias("key")


def publish_shards(
    layout: Layout,
    shards: list[Shard],
    *,
    container: str,
    corpus_info: dict[str, Any],
    added: AddedIn,
) -> None:
    """Write segments.parquet and the container's side files, and list all in `corpus_info`.

    Shards other than `shards` are removed.
    """
    order = ordered_splits(shard.split for shard in shards)
    shards = sorted(
        shards, key=lambda shard: (order.index(shard.split), version_of(shard.name), shard.name)
    )
    corpus_info |= {
        "shards": [shard.to_json() for shard in shards],
        "tables": {},
        "table_bytes": {},
    }
    names = {shard.name for shard in shards}
    for name in shard_names(layout.folder) - names:  # files of an interrupted run
        is_part_of_shard = name.rpartition("/")[0] in names  # some shards are folders
        if not is_part_of_shard:
            layout.folder.remove(name)
    with side_file(layout.folder, corpus_info, "segments.parquet") as path:
        rows = chain.from_iterable(parquet_slices(shard.rows) for shard in shards)
        write_parts(path, map(added.column_added, rows))
    for name, parts in container_named(container).side_files(shards):
        with side_file(layout.folder, corpus_info, name) as path, path.open("wb") as file:
            file.writelines(parts)
