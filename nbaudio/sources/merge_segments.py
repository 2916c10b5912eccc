"""Merge the segments of a source that has grown or changed into the segments table, by their ids.

An unchanged row stays as it is, with its scores, split, decision and corrections. A row with another text, times or audio is
replaced; another hypothesis takes its scores away; other metadata, or audio that has arrived, only make it pending.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from nbaudio.core import tables
from nbaudio.core.channels import source_channel
from nbaudio.core.errors import InputError
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
_REPLACED = ("text", "times", "audio")


def is_(*kinds: str) -> pl.Expr:
    """Return whether a row of `Merge.rows` is of one of these `KINDS`."""
    return pl.any_horizontal(f"\0{kind}" for kind in kinds)


@dataclass(frozen=True)
class Merge:
    """The segments table before, and the rows to replace in it or to add to it.

    `rows` has columns of the source, and of the table, and `is_` of each of `KINDS`.
    """

    workspace: Workspace
    brought: tuple[str, ...]  # the columns of the source
    rows: pl.DataFrame
    missing: pl.DataFrame  # `segment_id` and `recording_id` of the rows that are not in the source

    @property
    def replaced(self) -> pl.DataFrame:
        """The rows that count as added now: new ones, and those with another text, times or audio."""
        return self.rows.filter(is_("new", *_REPLACED))

    @cached_property
    def schema(self) -> pl.Schema:
        """The columns of the merged table, those of the table before first."""
        held = conform(pl.DataFrame(schema=tables.table_schema(self.workspace)), SEGMENTS, "segments")
        try:
            return pl.concat([held, self.rows.drop(_FLAGS).clear()], how="diagonal_relaxed").schema
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{table_path(self.workspace)}: a column has another type in the source ({error})") from error

    def table(self) -> Iterator[pl.DataFrame]:
        """Yield the merged table."""
        changed = self.rows.filter(~is_("new"))
        changed = changed.rename({name: f"\0new {name}" for name in changed.columns if name not in ("segment_id", *_FLAGS)})
        values = [self._value(name).alias(name) for name in self.schema]
        for batch in tables.read_batches(self.workspace):
            whole = batch.with_columns(
                pl.lit(None, dtype).alias(name) for name, dtype in self.schema.items() if name not in batch.columns
            )
            if len(changed):
                whole = whole.join(changed, on="segment_id", how="left", maintain_order="left").select(values)
            yield conform(whole, self.schema, str(table_path(self.workspace)))
        new = self.rows.filter(is_("new")).drop(_FLAGS)
        for part in new.iter_slices(tables.ROWS_A_GROUP):
            yield conform(part, self.schema, "segments")

    def _value(self, name: str) -> pl.Expr:
        """Return the merged value of a column, where columns of a changed row have a prefix."""
        old = pl.col(name)
        if name == "segment_id":
            return old
        new = pl.col(f"\0new {name}") if name in self.rows.columns else pl.lit(None)
        moved, full = is_("times", "audio"), is_(*_REPLACED)
        columns = self.schema.names()
        # Corrections of the text hold while nothing is replaced, those of bounds while times and audio are the same.
        own_text = pl.col("text_corrected").is_not_null() & ~full if "text_corrected" in columns else pl.lit(value=False)
        own_bounds = pl.col("corrected_by").is_not_null() & ~moved if "corrected_by" in columns else pl.lit(value=False)
        if name in ("text", "text_raw", "text_corrected", "text_origin"):
            value = pl.when(own_text).then(old).otherwise(new)
        elif name in ("start_sample", "end_sample", "word_times", "corrected_by"):
            value = pl.when(own_bounds).then(old).otherwise(new)
        elif name in _SCORES or name.startswith(("similarity_", "wer_", "cer_")):
            value = pl.when(~is_(*_REPLACED, "hypothesis")).then(old)
        elif name == "asr_text":
            value = pl.when(full).then(new).otherwise(pl.coalesce(new, old))
        elif name in (*self.brought, "split", "decision", "reason"):
            value = new
        else:
            value = pl.when(full).then(new).otherwise(old)
        return pl.when(pl.col(_FLAGS[0]).is_null()).then(old).otherwise(value)

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

    `recordings` is the merged table, `status` that of the source's recordings (see `merge_recordings`); `others` has the
    `segment_id` of rows that are of other sources, which are not missing.
    """
    other_audio = status.filter(status="changed")["recording_id"].implode()
    with_audio = status.filter(status="arrived")["recording_id"].implode()
    held = _uncorrected(workspace)
    told = [name for name in segments.columns if name not in _APART and not segments.schema[name].is_nested()]
    was = _compared(held, told).select(pl.all().name.suffix(" was")).collect()
    joined = (
        _compared(segments.lazy(), told)
        .collect()
        .join(was, left_on="segment_id", right_on="segment_id was", how="left", maintain_order="left")
    )
    new = pl.col("place was").is_null().alias("new")
    changed = {
        "text": pl.col("words") != pl.col("words was"),
        "times": pl.col("place") != pl.col("place was"),
        "audio": pl.col("recording_id").is_in(other_audio),
        "hypothesis": pl.col("has_heard") & (pl.col("heard") != pl.col("heard was")),
        "metadata": (pl.col("told") != pl.col("told was")) | ((pl.col("raw") != pl.col("raw was")) & ~pl.col("corrected was")),
        "audio_arrived": pl.col("recording_id").is_in(with_audio),
    }
    flags = joined.select(new, **{kind: ~new & differs for kind, differs in changed.items()}).rename(
        dict(zip(KINDS, _FLAGS, strict=True))
    )
    touched = segments.hstack(flags).filter(pl.any_horizontal(_FLAGS))
    missing = was.select(segment_id="segment_id was", recording_id="recording_id was").join(
        segments, on="segment_id", how="anti", maintain_order="left"
    )
    again = missing.filter(pl.col("recording_id").is_in(other_audio) | pl.col("recording_id").is_in(with_audio))["segment_id"]
    if len(again):
        rows = held.filter(pl.col("segment_id").is_in(again.implode())).collect()
        rows = _placed_again(rows, recordings).with_columns(
            *(pl.lit(value=False).alias(name) for name in _FLAGS if name not in ("\0audio", "\0audio_arrived")),
            pl.col("recording_id").is_in(other_audio).alias("\0audio"),
            pl.col("recording_id").is_in(with_audio).alias("\0audio_arrived"),
        )
        touched = pl.concat([touched, rows], how="diagonal_relaxed")
    own_missing = missing.join(others, on="segment_id", how="anti", maintain_order="left")
    return Merge(workspace, tuple(segments.columns), _judged(workspace, touched, recordings), own_missing)


def _uncorrected(workspace: Workspace) -> pl.LazyFrame:
    """Scan the segments table with the source's words where a reviewer corrected them, and `text_corrected`."""
    held = tables.scan(workspace)
    if "text_corrected" not in held.collect_schema():
        return held.with_columns(text_corrected=pl.lit(None, pl.String))
    if not table_path(workspace, CORRECTED_TEXTS).exists():
        return held
    before = tables.scan(workspace, table=CORRECTED_TEXTS).select("segment_id", before="text", there=True)
    joined = held.join(before, on="segment_id", how="left", maintain_order="left")
    back = pl.col("there").fill_null(value=False) & pl.col("text_corrected").is_not_null()
    return joined.with_columns(text=pl.when(back).then("before").otherwise("text")).drop("before", "there")


def _compared(segments: pl.LazyFrame, told: list[str]) -> pl.LazyFrame:
    """Return ids and hashes of what is compared."""
    there = segments.collect_schema()
    whole = segments.with_columns(
        pl.lit(None, pl.String).alias(name) for name in (*_PLACE, *told, "text_corrected") if name not in there
    )

    def hashed(*names: str) -> pl.Expr:
        return pl.struct(pl.col(name).cast(pl.String) for name in names).hash()

    return whole.select(
        "segment_id",
        "recording_id",
        place=hashed(*_PLACE),
        words=hashed("text"),
        raw=hashed("text_raw"),
        heard=hashed("asr_text"),
        told=hashed(*told) if told else pl.lit(0, pl.UInt64),
        has_heard=pl.col("asr_text").is_not_null(),
        corrected=pl.col("text_corrected").is_not_null(),
    )


def _placed_again(rows: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Place rows of the table in other audio of their recording, as `ingest` does."""
    audit = rows.select(name="recording_id", recording_id="recording_id").unique()
    frame = rows.with_columns(name="recording_id").drop(
        "recording_id", "start_sample", "end_sample", "decision", "reason", "text_corrected"
    )
    return judge(frame, place(frame, audit, recordings), recordings).with_columns(pl.lit(None, pl.String).alias("split"))


def _judged(workspace: Workspace, touched: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Judge rows beside all other rows of the table: one that has the times of an earlier row is a duplicate."""
    columns = ("segment_id", "recording_id", "source_start", "source_end", "start_sample", "end_sample", "text", "source_channel")
    blank = pl.when(pl.col("text").str.contains(r"\S")).then(pl.lit("x")).otherwise(pl.col("text").str.head(0))
    held = tables.scan(workspace, columns).with_columns(text=blank).collect()
    rest = held.join(touched, on="segment_id", how="anti", maintain_order="left")
    every = pl.concat(
        [
            rest.with_columns(source_channel(rest)),
            touched.with_columns(source_channel(touched)).select(*rest.columns[:7], "source_channel"),
        ]
    )
    rules = segment_failures(recordings).items()
    broken = with_recordings(every, recordings).select(
        pl.coalesce(pl.when(rule.fill_null(value=False)).then(pl.lit(name)) for name, rule in rules)
    )
    reason = broken.to_series().tail(len(touched))
    decision = pl.when(pl.col("reason").is_null()).then(pl.lit("pending")).otherwise(pl.lit("reject")).cast(SEGMENTS["decision"])
    return touched.with_columns(reason=reason).with_columns(decision=decision)
