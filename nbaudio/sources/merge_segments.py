"""Merge the segments of a source that has grown or changed into the segments table, by their ids.

An unchanged row stays as it is, with its scores, split, decision and corrections. A row with another text, times or audio is
replaced; another hypothesis takes its scores away; other metadata, or audio that has arrived, only make it pending.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from nbaudio.core import tables
from nbaudio.core.channels import source_channel
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.tables import CORRECTED_TEXTS, NORMALIZED, SEGMENTS, conform, segment_failures, table_path, with_recordings
from nbaudio.sources.place_segments import judge, place
from nbaudio.storage.workspace import Workspace

_PLACE = ("recording_id", "source_start", "source_end", "source_channel")
_SCORES = ("similarity", "wer", "cer", *NORMALIZED)
# Compared in their own way, or not at all.
_APART = (
    *("segment_id", *_PLACE, "start_sample", "end_sample", "text", "text_raw", "asr_text", "word_times"),
    *(*_SCORES, "split", "decision", "reason"),
)
# How a row differs from the table; as columns they have a prefix that no column of a source has.
KINDS = ("new", "text", "times", "audio", "hypothesis", "metadata", "audio_arrived")
_FLAGS = tuple(f"\0{kind}" for kind in KINDS)
_ROW = "\0row"
_ADDED = (*_FLAGS, _ROW)
_REPLACED = ("text", "times", "audio")


def is_(*kinds: str) -> pl.Expr:
    """Return whether a row of `Merge.rows` is of one of these `KINDS`."""
    return pl.any_horizontal(f"\0{kind}" for kind in kinds)


@dataclass(frozen=True)
class Merge:
    """The segments table before, and the rows to replace in it or to add to it.

    `rows` has columns of the source, the row in the table (null for new ones), and a flag for each of `KINDS` (see `is_`).
    """

    workspace: Workspace
    brought: tuple[str, ...]  # the columns of the source
    rows: pl.DataFrame
    missing: pl.DataFrame  # `segment_id` and `recording_id` of the rows that are not in the source

    @property
    def replaced(self) -> pl.DataFrame:
        """The rows that count as added now: new ones, and those with another text, times or audio."""
        return self.rows.filter(is_("new", *_REPLACED))

    def table(self) -> Iterator[pl.DataFrame]:
        """Yield the merged table: its columns first, its rows in their order, new ones behind."""
        path = str(table_path(self.workspace))
        held = conform(pl.DataFrame(schema=tables.table_schema(self.workspace)), SEGMENTS, path)
        try:
            schema = pl.concat([held, self.rows.drop(_ADDED).clear()], how="diagonal_relaxed").schema
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{path}: a column has another type in the source ({one_line(error)})") from error
        changed = self.rows.filter(~is_("new")).sort(_ROW)
        changed = changed.rename({name: f"\0new {name}" for name in changed.columns if name not in ("segment_id", *_ADDED)})
        values = [self._value(name, schema) for name in schema if name != "segment_id"]
        start = 0
        for batch in tables.read_batches(self.workspace):
            first, after = (changed[_ROW].search_sorted(row) for row in (start, start + len(batch)))
            start += len(batch)
            whole = conform(batch, schema, path)
            whole = whole.join(changed[first:after], on="segment_id", how="left", maintain_order="left").with_columns(values)
            yield conform(whole.select(schema.names()), schema, path)
        for part in self.rows.filter(is_("new")).drop(_ADDED).iter_slices(tables.ROWS_A_GROUP):
            yield conform(part, schema, path)

    def _value(self, name: str, schema: pl.Schema) -> pl.Expr:
        """Return the merged value of a column, where columns of a changed row have a prefix."""
        old = pl.col(name)
        new = pl.col(f"\0new {name}") if name in self.rows.columns else pl.lit(None)
        moved, replaced = is_("times", "audio"), is_(*_REPLACED)
        # Corrections of the text hold while nothing is replaced, those of bounds while times and audio are the same.
        own_text, own_bounds = (
            pl.col(column).is_not_null() & ~other if column in schema else pl.lit(value=False)
            for column, other in (("text_corrected", replaced), ("corrected_by", moved))
        )
        if name in ("text", "text_raw", "text_corrected", "text_origin"):
            value = pl.when(own_text).then(old).otherwise(new)
        elif name in ("start_sample", "end_sample", "word_times", "corrected_by"):
            value = pl.when(own_bounds).then(old).otherwise(new)
        elif name in _SCORES or name.startswith(("similarity_", "wer_", "cer_")):
            value = pl.when(~is_(*_REPLACED, "hypothesis")).then(old)
        elif name == "asr_text":
            value = pl.when(replaced).then(new).otherwise(pl.coalesce(new, old))
        elif name in (*self.brought, "split", "decision", "reason"):
            value = new
        else:
            value = pl.when(replaced).then(new).otherwise(old)
        return pl.when(pl.col(_ROW).is_null()).then(old).otherwise(value).alias(name)

    def corrected_texts(self) -> pl.DataFrame | None:
        """Return the table of texts before corrections without those that hold no more; None if it stays."""
        if not table_path(self.workspace, CORRECTED_TEXTS).exists():
            return None
        held = self.workspace.table(CORRECTED_TEXTS)
        kept = held.join(self.replaced, on="segment_id", how="anti", maintain_order="left")
        return kept if len(kept) < len(held) else None


def merge_segments(
    workspace: Workspace, segments: pl.DataFrame, recordings: pl.DataFrame, status: pl.DataFrame, *, others: pl.DataFrame
) -> Merge:
    """Compare the segments of a source, placed and with unique ids, with the table.

    `recordings` is the merged table, `status` that of the source's recordings (see `grow.merge_recordings`); `others` has the
    `segment_id` of rows of other sources, which are not missing.
    """
    audio = {
        flag: pl.col("recording_id").is_in(status.filter(status=name)["recording_id"].implode())
        for flag, name in (("\0audio", "changed"), ("\0audio_arrived", "arrived"))
    }
    held = _uncorrected(workspace)
    nested = {name for there in (segments.schema, held.collect_schema()) for name, dtype in there.items() if dtype.is_nested()}
    told = [name for name in segments.columns if name not in (*_APART, *nested)]
    was = _compared(held, told).with_row_index(_ROW).unique("segment_id", keep="first", maintain_order=True).collect()
    now = _compared(segments.lazy(), told).collect()
    joined = now.join(was, on="segment_id", how="left", maintain_order="left", suffix=" was")
    differs = {name: pl.col(name) != pl.col(f"{name} was") for name in ("text", "times", "hypothesis", "told", "raw")}
    kinds = {
        "\0text": differs["text"],
        "\0times": differs["times"],
        "\0hypothesis": differs["hypothesis"] & pl.col("has_hypothesis"),
        "\0metadata": differs["told"] | (differs["raw"] & ~pl.col("is_corrected was")),
        **audio,
    }
    new = pl.col(_ROW).is_null()
    flags = joined.select(_ROW, new.alias("\0new"), **{kind: ~new & hit for kind, hit in kinds.items()})
    rows = segments.hstack(flags).filter(pl.any_horizontal(_FLAGS))
    missing = was.select("segment_id", "recording_id", _ROW).join(segments, on="segment_id", how="anti", maintain_order="left")
    # Rows that the source no longer has, in recordings with other audio.
    again = missing.filter(pl.any_horizontal(audio.values()))
    if len(again):
        apart = held.join(again.lazy().select("segment_id", _ROW), on="segment_id").sort(_ROW).drop("text_corrected").collect()
        frame = apart.with_columns(name="recording_id").drop(
            _ROW, "recording_id", "start_sample", "end_sample", "decision", "reason"
        )
        audit = apart.select(name="recording_id", recording_id="recording_id").unique()
        moved = judge(frame, place(frame, audit, recordings), recordings).with_columns(apart[_ROW], **audio)
        rows = pl.concat([rows, moved.with_columns(split=pl.lit(None, pl.String))], how="diagonal_relaxed")
        rows = rows.with_columns(pl.col(_FLAGS).fill_null(value=False))
    own = missing.join(others, on="segment_id", how="anti", maintain_order="left")
    return Merge(workspace, tuple(segments.columns), _judged(workspace, rows, recordings), own)


def _uncorrected(workspace: Workspace) -> pl.LazyFrame:
    """Scan the segments table with the source's words where a reviewer corrected them, and `text_corrected`."""
    held = tables.scan(workspace)
    if "text_corrected" not in held.collect_schema():
        return held.with_columns(text_corrected=pl.lit(None, pl.String))
    if not table_path(workspace, CORRECTED_TEXTS).exists():
        return held
    before = tables.scan(workspace, table=CORRECTED_TEXTS).select("segment_id", before="text")
    joined = held.join(before, on="segment_id", how="left", maintain_order="left")
    was = pl.when(pl.col("text_corrected").is_not_null()).then("before")
    return joined.with_columns(text=pl.coalesce(was, "text")).drop("before")


def _compared(segments: pl.LazyFrame, told: list[str]) -> pl.LazyFrame:
    """Return ids, and hashes of what is compared."""
    there = segments.collect_schema()
    absent = [name for name in (*_PLACE, *told, "text_corrected") if name not in there]
    whole = segments.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
    compared = {"text": ["text"], "times": _PLACE, "raw": ["text_raw"], "hypothesis": ["asr_text"], "told": ["segment_id", *told]}
    hashed = {name: pl.struct(pl.col(columns).cast(pl.String)).hash() for name, columns in compared.items()}
    has = {"has_hypothesis": pl.col("asr_text").is_not_null(), "is_corrected": pl.col("text_corrected").is_not_null()}
    return whole.select("segment_id", "recording_id", **hashed, **has)


def _judged(workspace: Workspace, rows: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Judge rows beside all other rows of the table: one that has the times of an earlier row is a duplicate."""
    columns = ("segment_id", "recording_id", "source_start", "source_end", "start_sample", "end_sample")
    blank = pl.when(pl.col("text").str.contains(r"\S")).then(pl.lit("x")).otherwise(pl.col("text").str.head(0)).alias("text")
    held = tables.scan(workspace, (*columns, "text", "source_channel")).with_columns(blank).collect()
    every = pl.concat(
        part.select(*columns, blank, source_channel(part))
        for part in (held.join(rows, on="segment_id", how="anti", maintain_order="left"), rows)
    )
    rules = segment_failures(recordings).items()
    reason = pl.coalesce(pl.when(broken.fill_null(value=False)).then(pl.lit(rule)) for rule, broken in rules)
    found = with_recordings(every, recordings).select(reason=reason).tail(len(rows))
    decision = pl.when(pl.col("reason").is_null()).then(pl.lit("pending")).otherwise(pl.lit("reject"))
    return rows.with_columns(found["reason"]).with_columns(decision=decision.cast(SEGMENTS["decision"]))
