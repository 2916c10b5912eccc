"""Place segments in their recordings, judge them by the rules that every segment must keep, and merge them into the table."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import polars as pl

from nbaudio.core import channels, name_matching, tables, times
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.tables import NORMALIZED, SEGMENTS, conform, is_score, segment_failures, table_path, with_recordings
from nbaudio.storage.workspace import Workspace

_MICRO = 1_000_000  # units of the times of whole recordings: below 1 MHz, each is exactly the sample it is from


def fill_times(
    frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame, windows: tuple[Decimal, bool] | None
) -> pl.DataFrame:
    """Fill in times of whole recordings with audio, in a row per window if divided; without own ids, those of recordings."""
    whole = tables.whole_recording()
    if not frame.select(whole.any()).item():
        return frame
    names = frame.select("name").join(audit.select("name", "recording_id"), on="name", how="left", maintain_order="left")
    lengths = recordings.select("recording_id", "sampling_rate", "num_samples")
    facts = names.join(lengths, on="recording_id", how="left", maintain_order="left")
    rate = facts["sampling_rate"].cast(pl.Int64)
    placed = frame.with_columns(
        facts["recording_id"].alias("_id"),
        rate.alias("_rate"),
        facts["num_samples"].alias("_samples"),
        ((2 * facts["num_samples"] * _MICRO + rate) // (2 * rate)).alias("_micros"),
        _whole=whole & facts["num_samples"].is_not_null(),
    )
    seconds, partial = windows or (None, True)  # a recording that is not divided is one window
    step = pl.lit(int(seconds * _MICRO)) if seconds else pl.col("_micros")
    count = (pl.col("_micros") + (step - 1 if partial else 0)) // step
    begin = pl.col("_window") * step
    own = pl.when(whole & ~pl.col("_whole") if windows else whole).then("_id")
    rows = placed.with_columns(
        segment_id=pl.coalesce("segment_id", own),
        _window=pl.int_ranges(0, pl.when("_whole").then(count).otherwise(1), dtype=pl.Int64),
    ).explode("_window", empty_as_null=False)
    # A remainder of less than half a sample gives no window.
    inside = ~pl.col("_whole") | ((begin * pl.col("_rate") + _MICRO // 2) // _MICRO < pl.col("_samples"))
    filled = rows.filter(inside).with_columns(
        source_start=pl.when("_whole").then(_decimal(begin)).otherwise("source_start"),
        source_end=pl.when("_whole").then(_decimal(pl.min_horizontal(begin + step, "_micros"))).otherwise("source_end"),
    )
    return filled.select(frame.columns)


def _decimal(micros: pl.Expr) -> pl.Expr:
    written = pl.format("{}.{}", micros // _MICRO, (micros % _MICRO).cast(pl.String).str.zfill(6))
    return written.str.strip_chars_end("0").str.strip_chars_end(".")


def place(frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Convert times to samples where the recording is there; return only ids and the columns that the rules check."""
    # Joins copy their columns.
    checked = frame.select("name", "segment_id", "source_start", "source_end", "text", channels.source_channel(frame))
    named = checked.join(audit.select("name", "recording_id"), on="name", how="left", maintain_order="left")
    joined = with_recordings(named, recordings)
    rate, length = joined["sampling_rate"], pl.col("num_samples")
    starts, ends = joined["source_start"], joined["source_end"]
    samples = joined.with_columns(
        name_matching.segment_ids(joined["recording_id"], starts, ends, own=joined["segment_id"]),
        times.to_samples_column(starts, rate).alias("start_sample"),
        times.to_samples_column(ends, rate).alias("end_sample"),
    )
    # An end that lies past its recording's by at most half a unit of its last decimal is moved to that.
    over = pl.col("end_sample") - length
    places = pl.col("source_end").str.extract(r"^[0-9]+\.?([0-9]{0,6})$", 1).str.len_bytes().cast(pl.Int64)
    is_rounded = (over > 0) & (2 * over * pl.lit(10, pl.Int64).pow(places) <= pl.col("sampling_rate"))
    return samples.with_columns(
        end_sample=pl.when(is_rounded & (pl.col("start_sample") < length)).then(length).otherwise("end_sample")
    )


def judge(frame: pl.DataFrame, placed: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Return the segments table: `frame` as placed, rejected with the first rule that a segment breaks."""
    found = _decided(placed, recordings).select("segment_id", "recording_id", "start_sample", "end_sample", "decision", "reason")
    return conform(pl.concat([found, frame.drop("name", "segment_id")], how="horizontal"), SEGMENTS, "segments")


_PLACE = ("recording_id", "source_start", "source_end", "source_channel")
# Compared in their own way, or not at all.
_APART = (
    *("segment_id", *_PLACE, "start_sample", "end_sample", "text", "text_raw", "asr_text", "word_times"),
    *("similarity", "wer", "cer", *NORMALIZED, "split", "decision", "reason"),
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
    """The segments table before, and the rows to replace in it or to add to it."""

    workspace: Workspace
    brought: tuple[str, ...]  # the columns of the source
    rows: pl.DataFrame  # these columns, the row in the table (null for new ones), and a flag for each of `KINDS` (see `is_`)
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
        """Return the table of texts before corrections without those that hold no more; None if it stays."""
        if not table_path(self.workspace, tables.CORRECTED_TEXTS).exists():
            return None
        held = self.workspace.table(tables.CORRECTED_TEXTS)
        kept = held.join(self.replaced, on="segment_id", how="anti", maintain_order="left")
        return kept if len(kept) < len(held) else None


def merge_segments(
    workspace: Workspace, segments: pl.DataFrame, recordings: pl.DataFrame, status: pl.DataFrame, *, others: pl.DataFrame
) -> Merge:
    """Compare the placed segments of a source (see `ingest_report.Placed`) with the table; `others` are not missing."""
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
        apart = held.join(again.lazy().select("segment_id", _ROW), on="segment_id").sort(_ROW).collect()
        made = (_ROW, "recording_id", "start_sample", "end_sample", "decision", "reason", "text_corrected")
        frame = apart.with_columns(name="recording_id").drop(made, strict=False)
        audit = apart.select(name="recording_id", recording_id="recording_id").unique()
        moved = judge(frame, place(frame, audit, recordings), recordings).with_columns(apart[_ROW], **audio)
        rows = pl.concat([rows, moved.with_columns(split=pl.lit(None, pl.String))], how="diagonal_relaxed")
        rows = rows.with_columns(pl.col(_FLAGS).fill_null(value=False))
    own = missing.join(others, on="segment_id", how="anti", maintain_order="left")
    return Merge(workspace, tuple(segments.columns), _judged(workspace, rows, recordings), own)


def _uncorrected(workspace: Workspace) -> pl.LazyFrame:
    """Scan the segments table with the source's words where a reviewer corrected them, and `text_corrected`."""
    held = tables.scan(workspace)
    if "text_corrected" not in held.collect_schema() or not table_path(workspace, tables.CORRECTED_TEXTS).exists():
        return held
    before = tables.scan(workspace, table=tables.CORRECTED_TEXTS).select("segment_id", before="text")
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
        part.select(*columns, blank, channels.source_channel(part))
        for part in (held.join(rows, on="segment_id", how="anti", maintain_order="left"), rows)
    )
    found = _decided(with_recordings(every, recordings), recordings).tail(len(rows))
    return rows.with_columns(found["reason"], found["decision"].cast(SEGMENTS["decision"]))


def _decided(placed: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    rules = segment_failures(recordings).items()
    broken = pl.coalesce(pl.when(holds.fill_null(value=False)).then(pl.lit(rule)) for rule, holds in rules)
    decision = pl.when(pl.col("reason").is_null()).then(pl.lit("pending")).otherwise(pl.lit("reject"))
    return placed.with_columns(reason=broken).with_columns(decision=decision)
