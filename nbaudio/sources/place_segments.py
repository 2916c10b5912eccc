"""Place segments in their recordings, judge them, and merge them into the table.

They are judged by the rules that every segment must keep.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import name_matching
from nbaudio.core import times
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.transcripts import END_OF_RECORDING
from nbaudio.sources import media_tracks
from nbaudio.sources.time_units import seconds_of_samples
from nbaudio.tables import parquet_files, schemas, segment_rules, workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.row_values import repeated, with_values
from nbaudio.tables.rows import Rows, with_starts
from nbaudio.tables.schemas import NORMALIZED, SEGMENTS, conform, is_score
from nbaudio.tables.segment_rules import segment_failures, with_recordings
from nbaudio.tables.tombstones import is_withdrawn
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_path

# Units of the times of whole recordings: below 1 MHz, each is exactly the sample it is from
_MICRO = 1_000_000
_SLIGHTLY_OVER = 20  # a second divided by the 50 ms that an end may be past its recording's


def with_known_times(
    rows: Rows,
    audit: pl.DataFrame,
    recordings: pl.DataFrame,
    windows: tuple[Decimal, bool] | None,
    *,
    in_samples: bool = False,
) -> Rows:
    """Return rows with the times that follow from the lengths and rates of recordings.

    See `fill_times` and `fill_ends`. Times that are `in_samples` become seconds.
    """
    if in_samples:
        rows = rows.map(
            lambda frame: (
                seconds_of_samples(frame, _lengths(frame, audit, recordings)["rate"])
                if "source_start" in frame.columns
                else frame
            )
        )
    ending = rows.map(lambda frame: fill_ends(frame, audit, recordings))
    has_whole = any(
        batch.select(segment_rules.whole_recording().any()).item() for batch in rows.batches(TIMES)
    )
    if not has_whole:
        return ending
    return ending.map(lambda frame: fill_times(frame, audit, recordings, windows))


def fill_times(
    frame: pl.DataFrame,
    audit: pl.DataFrame,
    recordings: pl.DataFrame,
    windows: tuple[Decimal, bool] | None,
) -> pl.DataFrame:
    """Fill in times of whole recordings with audio.

    A recording that is divided gets a row per window. Segments without their own ids get those of
    recordings.
    """
    whole = segment_rules.whole_recording()
    if not frame.select(whole.any()).item():
        return frame
    lengths = _lengths(frame, audit, recordings)
    placed = frame.with_columns(
        lengths["recording_id"].alias("_id"),
        lengths["rate"].alias("_rate"),
        lengths["num_samples"].alias("_samples"),
        lengths["micros"].alias("_micros"),
        _whole=whole & lengths["num_samples"].is_not_null(),
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
    inside = ~pl.col("_whole") | (
        (begin * pl.col("_rate") + _MICRO // 2) // _MICRO < pl.col("_samples")
    )
    filled = rows.filter(inside).with_columns(
        source_start=pl.when("_whole").then(_decimal(begin)).otherwise("source_start"),
        source_end=pl.when("_whole")
        .then(_decimal(pl.min_horizontal(begin + step, "_micros")))
        .otherwise("source_end"),
    )
    return filled.select(frame.columns)


def fill_ends(frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Replace `END_OF_RECORDING` in `source_end` by the length of the recording, if it is known."""
    is_open = pl.col("source_end") == END_OF_RECORDING
    if not frame.select(is_open.any()).item():
        return frame
    micros = pl.lit(_lengths(frame, audit, recordings)["micros"])
    end = pl.when(is_open & micros.is_not_null()).then(_decimal(micros)).otherwise("source_end")
    return frame.with_columns(source_end=end)


def _lengths(frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Return the length of the recording of each row, null where it is not known.

    The columns are `recording_id`, `rate` in Hz, `num_samples`, and `micros`, the duration in
    microseconds, rounded.
    """
    names = frame.select("name").join(
        audit.select("name", "recording_id"), on="name", how="left", maintain_order="left"
    )
    facts = recordings.select(
        "recording_id", "num_samples", rate=pl.col("sampling_rate").cast(pl.Int64)
    )
    lengths = names.join(facts, on="recording_id", how="left", maintain_order="left")
    rounded = (2 * pl.col("num_samples") * _MICRO + pl.col("rate")) // (2 * pl.col("rate"))
    return lengths.with_columns(micros=rounded)


def _decimal(micros: pl.Expr) -> pl.Expr:
    written = pl.format("{}.{}", micros // _MICRO, (micros % _MICRO).cast(pl.String).str.zfill(6))
    return written.str.strip_chars_end("0").str.strip_chars_end(".")


def _place(frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Convert times to samples where the recording is there.

    Return only keys and the columns that the rules check.
    """
    # Joins copy their columns.
    checked = frame.select(
        "name",
        "segment_id",
        "source_start",
        "source_end",
        "text",
        "speaker_id",
        segment_rules.source_channel(frame),
    )
    named = checked.join(
        audit.select("name", "recording_id"), on="name", how="left", maintain_order="left"
    )
    joined = with_recordings(named, recordings)
    rate = joined["sampling_rate"]
    length = pl.col("num_samples")
    starts = joined["source_start"]
    ends = joined["source_end"]
    samples = joined.with_columns(
        name_matching.segment_keys(joined["recording_id"], starts, ends, own=joined["segment_id"]),
        times.to_samples_column(starts, rate).alias("start_sample"),
        times.to_samples_column(ends, rate).alias("end_sample"),
    )
    samples = media_tracks.counted_from_sound(samples, recordings)
    over = pl.col("end_sample") - length
    is_moved = (is_rounded(over) | is_slightly_over(over)) & (pl.col("start_sample") < length)
    return samples.with_columns(
        end_sample=pl.when(is_moved.fill_null(value=False)).then(length).otherwise("end_sample")
    )


def is_rounded(over: pl.Expr) -> pl.Expr:
    """Return whether an end is past its recording's by half a unit of its last decimal at most.

    `over` is by how many samples it is.
    """
    decimals = pl.col("source_end").str.extract(r"^[0-9]+\.?([0-9]{0,6})$", 1)
    places = decimals.str.len_bytes().cast(pl.Int64)
    return (over > 0) & (2 * over * pl.lit(10, pl.Int64).pow(places) <= pl.col("sampling_rate"))


def is_slightly_over(over: pl.Expr) -> pl.Expr:
    """Return whether an end is past its recording's by less than 50 ms, and is moved to it."""
    return (over > 0) & (over * _SLIGHTLY_OVER < pl.col("sampling_rate"))


_CHECKED = (
    "name",
    "segment_id",
    "source_start",
    "source_end",
    "text",
    "speaker_id",
    "source_channel",
)
TIMES = ("name", "source_start", "source_end")
_NO_IDS = pl.DataFrame(schema={"row": pl.UInt32, "segment_id": pl.String})
_NO_ROWS = pl.Series("row", dtype=pl.UInt32)


@dataclass(frozen=True)
class PlacedSegments:
    """The segments of a source in their recordings.

    Only what concerns several segments is in memory.
    """

    rows: Rows  # transcripts
    audit: pl.DataFrame
    recordings: pl.DataFrame
    # `row` (from 0) and `segment_id` where the key alone is not the id.
    ids: pl.DataFrame = field(default_factory=_NO_IDS.clone)
    withdrawn: pl.Series = field(default_factory=_NO_ROWS.clone)  # rows that stay out
    # Rows that have the window of an earlier one.
    duplicates: pl.Series = field(default_factory=_NO_ROWS.clone)
    has_texts: bool = True

    def numbered(self) -> "PlacedSegments":
        """Return a copy in which every segment has a unique id."""
        keys = repeated(pl.concat(batch["segment_id"].hash() for batch in self.placed()))
        if keys.is_empty():
            return self
        some = pl.col("segment_id").hash().is_in(keys.implode()) | pl.col(
            "segment_id"
        ).str.contains(name_matching.NUMBERED)
        found = self.find(some)
        return self.with_ids(found.with_columns(name_matching.segment_ids(found["segment_id"])))

    def with_ids(self, ids: pl.DataFrame) -> "PlacedSegments":
        """Return a copy with other ids for some rows (`row`, `segment_id`)."""
        return replace(
            self,
            ids=pl.concat([ids.select(_NO_IDS.columns), self.ids])
            .unique("row", keep="first")
            .sort("row"),
        )

    def compared(self, withdrawn: pl.DataFrame) -> "PlacedSegments":
        """Return a copy in which duplicates and withdrawn segments are marked."""
        if len(withdrawn):
            rows = pl.concat(
                batch["row"].filter(is_withdrawn(batch, withdrawn)) for batch in self.placed()
            )
            return replace(self, withdrawn=rows).compared(withdrawn.clear())
        stays = self._stays
        window = segment_rules.window()
        texts = 0
        hashes = []
        for batch in self.placed():
            kept = batch.filter(stays)
            texts += kept["text"].count()
            hashes.append(kept.select(window.hash()).to_series())
        windows = repeated(pl.concat(hashes))
        told = (
            self.find(stays & window.hash().is_in(windows.implode()), window=window)
            if len(windows)
            else None
        )
        duplicates = (
            _NO_ROWS if told is None else told.filter(~pl.col("window").is_first_distinct())["row"]
        )
        return replace(self, duplicates=duplicates, has_texts=texts > 0)

    def find(self, condition: pl.Expr, **told: pl.Expr) -> pl.DataFrame:
        """Return the placed rows that meet a condition.

        The columns are `row`, `segment_id` and what is `told`.
        """
        return pl.concat(
            batch.filter(condition).select("row", "segment_id", **told) for batch in self.placed()
        )

    def placed(self) -> Iterator[pl.DataFrame]:
        """Yield `row`, ids, samples and the columns that the rules check, in batches."""
        for _, placed in self._batches(_CHECKED):
            yield placed

    def broken(self) -> pl.DataFrame:
        """Return `segment_id` and `reason` of the segments that break a rule."""
        judged = (self._judged(placed).filter(self._stays) for placed in self.placed())
        return pl.concat(
            batch.filter(pl.col("reason").is_not_null()).select("segment_id", "reason")
            for batch in judged
        )

    def judged(self) -> Iterator[pl.DataFrame]:
        """Yield the segments table in batches.

        Segments are as placed. One that breaks rules is rejected with the first of them.
        """
        for frame, placed in self._batches():
            found = self._judged(placed).select(
                "row",
                "segment_id",
                "recording_id",
                "start_sample",
                "end_sample",
                "decision",
                "reason",
            )
            whole = pl.concat([found, frame.drop("name", "segment_id")], how="horizontal")
            yield conform(whole.filter(self._stays).drop("row"), SEGMENTS, "segments")

    @property
    def _stays(self) -> pl.Expr:
        return ~pl.col("row").is_in(self.withdrawn.implode())

    def _judged(self, placed: pl.DataFrame) -> pl.DataFrame:
        duplicate = pl.col("row").is_in(self.duplicates.implode())
        empty_text = pl.lit(self.has_texts) & (
            pl.col("text").is_null() | ~pl.col("text").str.contains(r"\S")
        )
        return _decided(placed, self.recordings, duplicate=duplicate, empty_text=empty_text)

    def _batches(
        self, columns: Collection[str] | None = None
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Yield transcripts, and where they are placed."""
        for start, frame in with_starts(self.rows.batches(columns)):
            placed = _place(frame, self.audit, self.recordings)
            end = start + len(frame)
            some = self.ids[
                self.ids["row"].search_sorted(start) : self.ids["row"].search_sorted(end)
            ]
            ids = placed["segment_id"].scatter(some["row"] - start, some["segment_id"])
            yield frame, placed.with_columns(ids, row=pl.int_range(start, end, dtype=pl.UInt32))


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
_ADDED = (*_FLAGS, _ROW)
_REPLACED = ("text", "times", "audio")


_HASHED = ("text", "times", "raw", "hypothesis", "told")  # columns with hashes of what is compared


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
        held = conform(
            pl.DataFrame(schema=workspace_tables.table_schema(self.workspace)), SEGMENTS, path
        )
        try:
            schema = pl.concat(
                [held, self.rows.drop(_ADDED).clear()], how="diagonal_relaxed"
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
            first, after = (changed[_ROW].search_sorted(row) for row in (start, start + len(batch)))
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
        own_text, own_bounds = (
            pl.col(column).is_not_null() & ~other if column in schema else pl.lit(value=False)
            for column, other in (("text_corrected", replaced), ("corrected_by", moved))
        )
        if name == schemas.RAW_TEXT and self.has_joined_raw:
            value = pl.when(replaced).then(None).otherwise(old)
        elif name in ("text", "text_raw", "text_corrected", "text_origin"):
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
        """Return the table of texts before corrections without those that hold no more.

        Return None if all of them still hold.
        """
        if not table_path(self.workspace, schemas.CORRECTED_TEXTS).exists():
            return None
        held = self.workspace.table(schemas.CORRECTED_TEXTS)
        kept = held.join(self.replaced, on="segment_id", how="anti", maintain_order="left")
        return kept if len(kept) < len(held) else None


def merge_segments(  # noqa: PLR0914
    workspace: Workspace, placed: PlacedSegments, status: pl.DataFrame, is_other: pl.Series
) -> Merge:
    """Compare the segments of a source with the table.

    Rows of the table for which `is_other` is true do not count as missing.
    """
    audio = {
        flag: pl.col("recording_id").is_in(status.filter(status=name)["recording_id"].implode())
        for flag, name in (("\0audio", "changed"), ("\0audio_arrived", "arrived"))
    }
    held = _uncorrected(workspace)
    there = held.collect_schema()
    brought = next(placed.judged()).schema
    nested = {
        name for schema in (there, brought) for name, dtype in schema.items() if dtype.is_nested()
    }
    told = [name for name in brought if name not in (*_APART, *nested)]
    has_joined_raw = schemas.RAW_TEXT in workspace.joined_columns
    compared = partial(_compared, told=told, compares_raw=not has_joined_raw)
    number, segments, rows, in_source = _changed(
        compared, held, placed, pl.any_horizontal(audio.values())
    )
    some = compared(held).with_row_index(_ROW).filter(pl.col(_ROW).is_in(rows.implode()))
    was = some.collect(**STREAMED).unique("segment_id", keep="first", maintain_order=True)
    now = compared(segments.lazy()).collect()
    joined = now.join(was, on="segment_id", how="left", maintain_order="left", suffix=" was")
    differs = {name: pl.col(name) != pl.col(f"{name} was") for name in _HASHED}
    kinds = {
        "\0text": differs["text"],
        "\0times": differs["times"],
        "\0hypothesis": differs["hypothesis"] & pl.col("has_hypothesis"),
        "\0metadata": differs["told"] | (differs["raw"] & ~pl.col("is_corrected was")),
        **audio,
    }
    new = pl.col(_ROW).is_null()
    flags = joined.select(
        _ROW, new.alias("\0new"), **{kind: ~new & hit for kind, hit in kinds.items()}
    )
    changes = segments.hstack(flags).filter(pl.any_horizontal(_FLAGS))
    unchanged = number - len(changes)
    # Rows that the source no longer has, in recordings with other audio.
    gone = (
        with_values(held, [pl.Series("\0gone", ~in_source)])
        .with_row_index(_ROW)
        .filter("\0gone")
        .drop("\0gone")
    )
    is_affected = status["status"].is_in(["changed", "arrived"]).any()
    apart = (
        gone.filter(pl.any_horizontal(audio.values())).collect(**STREAMED)
        if is_affected
        else pl.DataFrame()
    )
    if len(apart):
        made = (
            _ROW,
            "recording_id",
            "start_sample",
            "end_sample",
            "decision",
            "reason",
            "text_corrected",
        )
        frame = apart.with_columns(name="recording_id").drop(made, strict=False)
        audit = apart.select(name="recording_id", recording_id="recording_id").unique()
        [moved] = PlacedSegments(Rows.collect([frame]), audit, placed.recordings).judged()
        moved = moved.with_columns(apart[_ROW], **audio, split=pl.lit(None, pl.String))
        changes = pl.concat([changes, moved], how="diagonal_relaxed").with_columns(
            pl.col(_FLAGS).fill_null(value=False)
        )
    own = with_values(
        held.select("segment_id", "recording_id"),
        [pl.Series("\0gone", ~in_source & ~is_other.to_numpy())],
    )
    missing = own.filter("\0gone").drop("\0gone").collect(**STREAMED)
    return Merge(
        workspace,
        tuple(brought),
        _judged(workspace, changes, placed.recordings),
        unchanged,
        missing,
        has_joined_raw,
    )


def _changed(
    compared: Callable[[pl.LazyFrame], pl.LazyFrame],
    held: pl.LazyFrame,
    placed: PlacedSegments,
    has_other_audio: pl.Expr,
) -> tuple[int, pl.DataFrame, pl.Series, NDArray[np.bool_]]:
    """Return the number of segments, and those that differ from the table by a hash.

    Return also the rows of these in the table, and which rows of the table are in the source.
    """
    whole = (pl.col("segment_id").hash(), pl.struct(_HASHED).hash().alias("whole"))
    was = compared(held).select(whole).collect(**STREAMED)
    order = np.argsort(was["segment_id"].to_numpy(), kind="stable")
    ids, contents = (was[name].to_numpy()[order] for name in was.columns)
    in_source = np.zeros(len(ids), dtype=np.bool_)
    number = 0
    segments = []
    rows = []
    for batch in placed.judged():
        number += len(batch)
        now = compared(batch.lazy()).select(whole).collect()
        places = np.minimum(
            np.searchsorted(ids, now["segment_id"].to_numpy()), max(0, len(ids) - 1)
        )
        known = (
            ids[places] == now["segment_id"].to_numpy()
            if len(ids)
            else np.zeros(len(now), dtype=np.bool_)
        )
        in_source[order[places[known]]] = True
        differs = (
            pl.Series(~known)
            if not len(ids)
            else pl.Series(~known | (contents[places] != now["whole"].to_numpy()))
        )
        differs |= batch.select(has_other_audio.fill_null(value=False)).to_series()
        segments.append(batch.filter(differs))
        rows.append(pl.Series(order[places[known & differs.to_numpy()]], dtype=pl.UInt32))
    return number, pl.concat(segments), pl.concat(rows), in_source


def _uncorrected(workspace: Workspace) -> pl.LazyFrame:
    """Scan the segments table with the source's words where a reviewer corrected them.

    `text_corrected` tells where.
    """
    held = workspace_tables.scan(workspace)
    if (
        "text_corrected" not in held.collect_schema()
        or not table_path(workspace, schemas.CORRECTED_TEXTS).exists()
    ):
        return held
    before = workspace_tables.scan(workspace, table=schemas.CORRECTED_TEXTS).select(
        "segment_id", before="text"
    )
    joined = held.join(before, on="segment_id", how="left", maintain_order="left")
    was = pl.when(pl.col("text_corrected").is_not_null()).then("before")
    return joined.with_columns(text=pl.coalesce(was, "text")).drop("before")


def _compared(segments: pl.LazyFrame, told: list[str], *, compares_raw: bool) -> pl.LazyFrame:
    """Return ids, and hashes of what is compared; not of `text_raw` if `join` wrote it."""
    there = segments.collect_schema()
    absent = [name for name in (*_PLACE, *told, "text_corrected") if name not in there]
    whole = segments.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
    raw = ["text_raw"] if compares_raw else ["segment_id"]
    columns = (["text"], _PLACE, raw, ["asr_text"], ["segment_id", *told])
    hashed = {
        name: pl.struct(pl.col(some).cast(pl.String)).hash()
        for name, some in zip(_HASHED, columns, strict=True)
    }
    has = {
        "has_hypothesis": pl.col("asr_text").is_not_null(),
        "is_corrected": pl.col("text_corrected").is_not_null(),
    }
    return whole.select("segment_id", "recording_id", **hashed, **has)


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
    held = workspace_tables.scan(workspace, (*columns, "text", "source_channel"))
    channel = segment_rules.source_channel(held.limit(0).collect())
    others = held.select(*columns, blank, channel).join(rows.lazy(), on="segment_id", how="anti")
    own = rows.select(*columns, blank, segment_rules.source_channel(rows))
    windows = own.select(segment_rules.window().hash()).to_series()
    alike = others.filter(segment_rules.window().hash().is_in(windows.implode())).collect(
        **STREAMED
    )
    has_texts = (
        own["text"].count()
        or others.select(pl.col("text").is_not_null().any()).collect(**STREAMED).item()
    )
    empty = pl.lit(bool(has_texts)) & (pl.col("text").fill_null("") == "")
    found = _decided(
        with_recordings(pl.concat([alike, own]), recordings), recordings, empty_text=empty
    ).tail(len(rows))
    return rows.with_columns(found["reason"], found["decision"].cast(SEGMENTS["decision"]))


def _decided(placed: pl.DataFrame, recordings: pl.DataFrame, **rules: pl.Expr) -> pl.DataFrame:
    """Add `decision` and `reason`; `rules` replace those that look at several rows."""
    failures = (segment_failures(recordings) | rules).items()
    broken = pl.coalesce(
        pl.when(holds.fill_null(value=False)).then(pl.lit(rule)) for rule, holds in failures
    )
    decision = (
        pl.when(pl.col("reason").is_null()).then(pl.lit("pending")).otherwise(pl.lit("reject"))
    )
    return placed.with_columns(reason=broken).with_columns(decision=decision)
