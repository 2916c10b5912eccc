"""Merge the segments of a source that grows into the segments table (`ingest --add`).

Both are divided by ids into buckets, and compared in each. Only what differs is in memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError, one_line
from nbaudio.core.leftovers import scratch_folder
from nbaudio.sources.place_segments import PlacedSegments, decided
from nbaudio.tables import parquet_files, rejection_reasons, schemas, workspace_tables
from nbaudio.tables.buckets import Buckets, bucket_count, hash_bucket, store, write_buckets
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.rejection_reasons import with_recordings
from nbaudio.tables.rows import Rows, with_starts
from nbaudio.tables.schemas import NORMALIZED, SEGMENTS, conform, is_score
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_path

_PLACE = ("recording_id", "source_start", "source_end", "source_channel")
# Compared in their own way, or not at all.
_APART = (
    "segment_id",
    *_PLACE,
    "start_sample",
    "end_sample",
    "text",
    "text_raw",
    "asr_text",
    "word_times",
    "similarity",
    "wer",
    "cer",
    *NORMALIZED,
    "split",
    "decision",
    "reason",
)
# How a row differs from the table; as columns they have a prefix that no column of a source has.
KINDS = ("new", "text", "times", "audio", "hypothesis", "metadata", "audio_arrived")
_FLAGS = tuple(f"\0{kind}" for kind in KINDS)
_ROW = "\0row"
_SOURCE_ROW = "\0source_row"
_ADDED = (*_FLAGS, _ROW)
_REPLACED = ("text", "times", "audio")
# Columns with hashes of what is compared.
_HASHED = ("text", "times", "raw", "hypothesis", "metadata")


def is_(*kinds: str) -> pl.Expr:
    """Return whether a row of `Merge.rows` is of one of these `KINDS`."""
    return pl.any_horizontal(f"\0{kind}" for kind in kinds)


@dataclass(frozen=True)
class Merge:
    """The segments table before, and the rows to replace in it or to add to it."""

    workspace: Workspace
    brought: tuple[str, ...]  # the columns of the source
    # These columns, the row in the table (null for new ones), and a flag for each of `KINDS` (see
    # `is_`)
    rows: pl.DataFrame
    unchanged: int  # segments of the source
    missing: pl.DataFrame  # `segment_id` and `recording_id` of the rows that are not in the source
    has_joined_raw: bool  # whether `join` wrote `text_raw`, which the source has not

    @property
    def replaced(self) -> pl.DataFrame:
        """The rows that count as added now.

        They are new ones, and those with another text, times or audio.
        """
        return self.rows.filter(is_("new", *_REPLACED))

    def table(self) -> Iterator[pl.DataFrame]:
        """Yield the merged table: its columns first, its rows in their order, new ones behind."""
        path = str(table_path(self.workspace))
        empty = conform(
            pl.DataFrame(schema=workspace_tables.table_schema(self.workspace)), SEGMENTS, path
        )
        try:
            schema = pl.concat(
                [empty, self.rows.drop(_ADDED).clear()], how="diagonal_relaxed"
            ).schema
        except pl.exceptions.PolarsError as error:
            raise InputError(
                f"{path}: a column has another type in the source ({one_line(error)})"
            ) from error
        changed = self.rows.filter(~is_("new")).sort(_ROW)
        changed = changed.rename(
            {
                name: f"\0new {name}"
                for name in changed.columns
                if name not in ("segment_id", *_ADDED)
            }
        )
        values = [self._value(name, schema) for name in schema if name != "segment_id"]
        for start, batch in with_starts(workspace_tables.read_batches(self.workspace)):
            first = changed[_ROW].search_sorted(start)
            after = changed[_ROW].search_sorted(start + len(batch))
            whole = conform(batch, schema, path)
            whole = whole.join(
                changed[first:after], on="segment_id", how="left", maintain_order="left"
            ).with_columns(values)
            yield conform(whole.select(schema.names()), schema, path)
        for part in (
            self.rows.filter(is_("new")).drop(_ADDED).iter_slices(parquet_files.ROWS_A_GROUP)
        ):
            yield conform(part, schema, path)

    def _value(self, name: str, schema: pl.Schema) -> pl.Expr:
        """Return the merged value of a column, where columns of a changed row have a prefix."""
        old = pl.col(name)
        new = pl.col(f"\0new {name}") if name in self.rows.columns else pl.lit(None)
        moved = is_("times", "audio")
        replaced = is_(*_REPLACED)
        # Corrections of the text hold while nothing is replaced, those of bounds while times and
        # audio are the same.
        keeps_text = _is_set("text_corrected", schema) & ~replaced
        keeps_bounds = _is_set("corrected_by", schema) & ~moved
        if name == schemas.RAW_TEXT and self.has_joined_raw:
            value = pl.when(replaced).then(None).otherwise(old)
        elif name in ("text", "text_raw", "text_corrected", "text_origin"):
            value = pl.when(keeps_text).then(old).otherwise(new)
        elif name in ("start_sample", "end_sample", "word_times", "corrected_by"):
            value = pl.when(keeps_bounds).then(old).otherwise(new)
        elif is_score(name):
            value = pl.when(~is_(*_REPLACED, "hypothesis")).then(old)
        elif name == "asr_text":
            value = pl.when(replaced).then(new).otherwise(pl.coalesce(new, old))
        elif name in (*self.brought, "split", "decision", "reason"):
            value = new
        else:
            value = pl.when(replaced).then(new).otherwise(old)
        return pl.when(pl.col(_ROW).is_null()).then(old).otherwise(value).alias(name)

    def corrected_texts(self) -> pl.DataFrame | None:
        """Return the table of texts before corrections without those that hold no more.

        Return None if all of them still hold.
        """
        if not table_path(self.workspace, schemas.CORRECTED_TEXTS).exists():
            return None
        texts = self.workspace.table(schemas.CORRECTED_TEXTS)
        valid = texts.join(self.replaced, on="segment_id", how="anti", maintain_order="left")
        return valid if len(valid) < len(texts) else None


def _is_set(column: str, schema: pl.Schema) -> pl.Expr:
    """Return whether a row has a value in a column; false if there is no such column."""
    if column in schema:
        return pl.col(column).is_not_null()
    return pl.lit(value=False)


def merge_segments(
    workspace: Workspace,
    placed: PlacedSegments,
    status: pl.DataFrame,
    others: pl.LazyFrame,
) -> Merge:
    """Compare the segments of a source with the table.

    Args:
        workspace: the workspace that grows.
        placed: the segments of the source.
        status: `recording_id` and `status` of the recordings of the source.
        others: `segment_id` of the segments of other sources, which do not count as missing.
    """
    segments = placed.judged()
    first = next(segments)
    content = _content(workspace, first.schema)
    other_audio = _other_audio(status)
    with scratch_folder(workspace.path) as folder:
        sides = _divide(workspace, content, chain([first], segments), others, folder)
        differences = _differences(sides, other_audio)
    changes = _changed_segments(placed, first.clear(), differences.changes)
    moved = _moved_segments(workspace, placed, differences.moved, other_audio)
    if len(moved):
        changes = pl.concat([changes, moved], how="diagonal_relaxed").with_columns(
            pl.col(_FLAGS).fill_null(value=False)
        )
    return Merge(
        workspace,
        tuple(first.columns),
        _judged(workspace, changes, placed.recordings),
        differences.num_segments - len(differences.changes),
        differences.missing,
        has_joined_raw=not content.has_raw,
    )


def _other_audio(status: pl.DataFrame) -> dict[str, pl.Expr]:
    """Return the flags of segments whose recordings have other audio than before."""
    kinds = {"\0audio": "changed", "\0audio_arrived": "arrived"}
    return {
        flag: pl.col("recording_id").is_in(status.filter(status=name)["recording_id"].implode())
        for flag, name in kinds.items()
    }


@dataclass(frozen=True)
class _Content:
    """What is compared: `metadata` are columns, and `text_raw` is compared if the source has it."""

    metadata: tuple[str, ...]
    has_raw: bool

    def hashes(self, segments: pl.LazyFrame, row: str) -> pl.LazyFrame:
        """Return ids and recordings of segments, the column `row`, and hashes of what is compared.

        The columns of hashes are `_HASHED`.
        """
        names = segments.collect_schema().names()
        needed = (*_PLACE, *self.metadata, "text_corrected")
        absent = [pl.lit(None, pl.String).alias(name) for name in needed if name not in names]
        raw = ("text_raw",) if self.has_raw else ("segment_id",)
        metadata = ("segment_id", *self.metadata)
        columns = (("text",), _PLACE, raw, ("asr_text",), metadata)
        hashes = {
            name: pl.struct(pl.col(compared).cast(pl.String)).hash()
            for name, compared in zip(_HASHED, columns, strict=True)
        }
        return segments.with_columns(absent).select(
            "segment_id",
            "recording_id",
            row,
            **hashes,
            has_hypothesis=pl.col("asr_text").is_not_null(),
            is_corrected=pl.col("text_corrected").is_not_null(),
        )


def _content(workspace: Workspace, brought: pl.Schema) -> _Content:
    """Return what is compared of a source with the columns `brought`.

    Columns with lists or objects are not, and `text_raw` is not if `join` wrote it.
    """
    columns = (*workspace_tables.table_schema(workspace).items(), *brought.items())
    nested = {name for name, dtype in columns if dtype.is_nested()}
    metadata = tuple(name for name in brought if name not in (*_APART, *nested))
    return _Content(metadata, schemas.RAW_TEXT not in workspace.joined_columns)


@dataclass(frozen=True)
class _Sides:
    """Segments by their ids, in equally many buckets.

    Attributes:
        table: hashes of the segments table with `_ROW`, their rows, from 0.
        source: hashes of the source with `_SOURCE_ROW`, their rows, from 0.
        others: `segment_id` of the segments of other sources.
    """

    table: Buckets
    source: Buckets
    others: Buckets

    def __iter__(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]]:
        return zip(self.table, self.source, self.others, strict=True)


def _divide(
    workspace: Workspace,
    content: _Content,
    segments: Iterable[pl.DataFrame],
    others: pl.LazyFrame,
    folder: Path,
) -> _Sides:
    """Divide the segments table, and the `segments` of a source, by ids."""
    table = content.hashes(_uncorrected(workspace), _ROW)
    hashes = (
        content.hashes(part.lazy().with_row_index(_SOURCE_ROW, offset=start), _SOURCE_ROW).collect()
        for start, part in with_starts(segments)
    )
    schema = table.rename({_ROW: _SOURCE_ROW}).collect_schema()
    source = store(hashes, folder / "source", schema)
    num_segments = source.select(pl.len()).collect().item()
    count = bucket_count(max(parquet_files.num_rows(table_path(workspace)), num_segments))
    bucket = hash_bucket("segment_id", count)
    return _Sides(
        *(
            write_buckets(rows, bucket, count=count, folder=folder / name)
            for name, rows in (
                ("table-by-id", table),
                ("source-by-id", source),
                ("others-by-id", others),
            )
        )
    )


@dataclass(frozen=True)
class _Differences:
    """How a source differs from the table.

    Attributes:
        num_segments: number of segments of the source.
        changes: `_SOURCE_ROW`, in order, `_ROW` and `_FLAGS` of the segments that differ.
        moved: `_ROW`, in order, of segments that are not in the source, and whose recordings have
            other audio.
        missing: `segment_id` and `recording_id` of segments that are not in the source, nor in
            others, in the order of the table.
    """

    num_segments: int
    changes: pl.DataFrame
    moved: pl.Series
    missing: pl.DataFrame


def _differences(sides: _Sides, other_audio: dict[str, pl.Expr]) -> _Differences:
    """Compare both sides in each bucket."""
    num_segments = 0
    changes = []
    moved = []
    missing = []
    for table, source, others in sides:
        num_segments += len(source)
        changes.append(_changes(table, source, other_audio))
        absent = table.join(source, on="segment_id", how="anti")
        moved.append(absent.filter(pl.any_horizontal(other_audio.values()))[_ROW])
        missing.append(
            absent.join(others, on="segment_id", how="anti").select(
                _ROW, "segment_id", "recording_id"
            )
        )
    return _Differences(
        num_segments,
        pl.concat(changes).sort(_SOURCE_ROW),
        pl.concat(moved).sort(),
        pl.concat(missing).sort(_ROW).drop(_ROW),
    )


def _changes(
    table: pl.DataFrame, source: pl.DataFrame, other_audio: dict[str, pl.Expr]
) -> pl.DataFrame:
    """Return the rows of segments that differ, and how they do."""
    first = table.sort(_ROW).unique("segment_id", keep="first")
    joined = source.join(first, on="segment_id", how="left", suffix=" was")
    differs = {name: pl.col(name) != pl.col(f"{name} was") for name in _HASHED}
    kinds = {
        "\0text": differs["text"],
        "\0times": differs["times"],
        "\0hypothesis": differs["hypothesis"] & pl.col("has_hypothesis"),
        "\0metadata": differs["metadata"] | (differs["raw"] & ~pl.col("is_corrected was")),
        **other_audio,
    }
    is_new = pl.col(_ROW).is_null()
    flags = {"\0new": is_new, **{kind: ~is_new & differs_so for kind, differs_so in kinds.items()}}
    return joined.select(_SOURCE_ROW, _ROW, **flags).filter(pl.any_horizontal(_FLAGS))


def _changed_segments(
    placed: PlacedSegments, none: pl.DataFrame, changes: pl.DataFrame
) -> pl.DataFrame:
    """Return the segments of a source that differ, with `_ROW` and `_FLAGS`.

    `none` has their columns, and no rows.
    """
    if changes.is_empty():
        return none.hstack(changes.drop(_SOURCE_ROW))
    rows = changes[_SOURCE_ROW]
    segments = pl.concat(
        part[rows[rows.search_sorted(start) : rows.search_sorted(start + len(part))] - start]
        for start, part in with_starts(placed.judged())
    )
    return segments.hstack(changes.drop(_SOURCE_ROW))


def _moved_segments(
    workspace: Workspace,
    placed: PlacedSegments,
    rows: pl.Series,
    other_audio: dict[str, pl.Expr],
) -> pl.DataFrame:
    """Return rows of the table as they are placed in recordings with other audio.

    They have `_ROW` and some of `_FLAGS`.
    """
    if rows.is_empty():
        return pl.DataFrame()
    before = _uncorrected(workspace).filter(pl.col(_ROW).is_in(rows.implode())).collect(**STREAMED)
    made = (
        _ROW,
        "recording_id",
        "start_sample",
        "end_sample",
        "decision",
        "reason",
        "text_corrected",
    )
    transcripts = before.with_columns(name="recording_id").drop(made, strict=False)
    audit = before.select(name="recording_id", recording_id="recording_id").unique()
    [moved] = PlacedSegments(Rows.collect([transcripts]), audit, placed.recordings).judged()
    return moved.with_columns(before[_ROW], **other_audio, split=pl.lit(None, pl.String))


def _uncorrected(workspace: Workspace) -> pl.LazyFrame:
    """Scan the segments table with the source's words where a reviewer corrected them.

    `text_corrected` tells where, and `_ROW` is the row in the table, from 0.
    """
    segments = workspace_tables.scan(workspace).with_row_index(_ROW)
    if (
        "text_corrected" not in segments.collect_schema()
        or not table_path(workspace, schemas.CORRECTED_TEXTS).exists()
    ):
        return segments
    before = workspace_tables.scan(workspace, table=schemas.CORRECTED_TEXTS).select(
        "segment_id", before="text"
    )
    joined = segments.join(before, on="segment_id", how="left", maintain_order="left")
    was = pl.when(pl.col("text_corrected").is_not_null()).then("before")
    return joined.with_columns(text=pl.coalesce(was, "text")).drop("before")


def _judged(workspace: Workspace, rows: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Judge rows beside all other rows of the table.

    A row that has the times of an earlier one is a duplicate.
    """
    columns = (
        "segment_id",
        "recording_id",
        "source_start",
        "source_end",
        "start_sample",
        "end_sample",
    )
    blank = (
        pl.when(pl.col("text").str.contains(r"\S"))
        .then(pl.lit("x"))
        .otherwise(pl.col("text").str.head(0))
        .alias("text")
    )
    segments = workspace_tables.scan(workspace, (*columns, "text", "source_channel"))
    channel = rejection_reasons.source_channel(segments.limit(0).collect())
    others = segments.select(*columns, blank, channel).join(
        rows.lazy(), on="segment_id", how="anti"
    )
    candidates = rows.select(*columns, blank, rejection_reasons.source_channel(rows))
    windows = candidates.select(rejection_reasons.window().hash()).to_series()
    alike = others.filter(rejection_reasons.window().hash().is_in(windows.implode())).collect(
        **STREAMED
    )
    has_texts = (
        candidates["text"].count()
        or others.select(pl.col("text").is_not_null().any()).collect(**STREAMED).item()
    )
    empty = pl.lit(bool(has_texts)) & (pl.col("text").fill_null("") == "")
    judged = decided(
        with_recordings(pl.concat([alike, candidates]), recordings), recordings, empty_text=empty
    ).tail(len(rows))
    return rows.with_columns(judged["reason"], judged["decision"].cast(SEGMENTS["decision"]))
