"""Place segments in their recordings, and reject those that cannot be used."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.core import times
from nbaudio.formats.transcripts import END_OF_RECORDING
from nbaudio.sources import media_tracks
from nbaudio.sources.time_units import seconds_of_samples
from nbaudio.tables import rejection_reasons
from nbaudio.tables.rejection_reasons import segment_failures, with_recordings
from nbaudio.tables.row_values import repeated
from nbaudio.tables.rows import Rows, with_starts
from nbaudio.tables.schemas import SEGMENTS, conform
from nbaudio.tables.tombstones import is_withdrawn

# Times of whole recordings are in microseconds. Below 1 MHz, each is the time of one sample only.
_MICRO = 1_000_000
_SLIGHTLY_OVER = 20  # 1 s / 50 ms: ends may be so much past the end of their recording


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
        rows = rows.map(lambda frame: _samples_as_seconds(frame, audit, recordings))
    ending = rows.map(lambda frame: fill_ends(frame, audit, recordings))
    has_whole = any(
        batch.select(rejection_reasons.whole_recording().any()).item()
        for batch in rows.batches(TIMES)
    )
    if not has_whole:
        return ending
    return ending.map(lambda frame: fill_times(frame, audit, recordings, windows))


def _samples_as_seconds(
    frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame
) -> pl.DataFrame:
    """Convert the times of a frame from samples to seconds, where it has times."""
    if "source_start" not in frame.columns:
        return frame
    return seconds_of_samples(frame, _lengths(frame, audit, recordings)["rate"])


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
    whole = rejection_reasons.whole_recording()
    if not frame.select(whole.any()).item():
        return frame
    placed = _with_lengths(frame, audit, recordings)
    length = pl.col("_micros")
    step = length  # a recording that is not divided is one window
    has_last_part = True
    has_id_of_recording = whole
    if windows:
        seconds, has_last_part = windows
        step = pl.lit(int(seconds * _MICRO))
        has_id_of_recording = whole & ~pl.col("_whole")
    if has_last_part:  # which is shorter than the others
        length = length + step - 1
    count = length // step
    begin = pl.col("_window") * step
    id_of_recording = pl.when(has_id_of_recording).then("_id")
    rows = placed.with_columns(
        segment_id=pl.coalesce("segment_id", id_of_recording),
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


def _with_lengths(
    frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame
) -> pl.DataFrame:
    """Add what `_lengths` returns, and whether a row is a `_whole` recording of a known length."""
    lengths = _lengths(frame, audit, recordings)
    return frame.with_columns(
        lengths["recording_id"].alias("_id"),
        lengths["rate"].alias("_rate"),
        lengths["num_samples"].alias("_samples"),
        lengths["micros"].alias("_micros"),
        _whole=rejection_reasons.whole_recording() & lengths["num_samples"].is_not_null(),
    )


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

    Return only keys and the columns that `segment_failures` checks.
    """
    # Joins copy their columns.
    checked = frame.select(
        "name",
        "segment_id",
        "source_start",
        "source_end",
        "text",
        "speaker_id",
        rejection_reasons.source_channel(frame),
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
        name_matching.segment_keys(
            joined["recording_id"], starts, ends, source_keys=joined["segment_id"]
        ),
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
        is_candidate = pl.col("segment_id").hash().is_in(keys.implode()) | pl.col(
            "segment_id"
        ).str.contains(name_matching.NUMBERED)
        candidates = self.find(is_candidate)
        return self.with_ids(
            candidates.with_columns(name_matching.segment_ids(candidates["segment_id"]))
        )

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
        if withdrawn.is_empty():
            return self._with_duplicates()
        rows = pl.concat(
            batch["row"].filter(is_withdrawn(batch, withdrawn)) for batch in self.placed()
        )
        return replace(self, withdrawn=rows)._with_duplicates()

    def _with_duplicates(self) -> "PlacedSegments":
        """Return a copy in which duplicates are marked, and which knows whether there are texts."""
        window = rejection_reasons.window()
        num_texts = 0
        hashes = []
        for batch in self.placed():
            remaining = batch.filter(self._stays)
            num_texts += remaining["text"].count()
            hashes.append(remaining.select(window.hash()).to_series())
        shared = repeated(pl.concat(hashes))
        duplicates = _NO_ROWS
        if len(shared):
            has_shared_hash = window.hash().is_in(shared.implode())
            windows = self.find(self._stays & has_shared_hash, window=window)
            duplicates = windows.filter(~pl.col("window").is_first_distinct())["row"]
        return replace(self, duplicates=duplicates, has_texts=num_texts > 0)

    def find(self, condition: pl.Expr, **columns: pl.Expr) -> pl.DataFrame:
        """Return `row`, `segment_id` and further columns of rows that meet a condition."""
        return pl.concat(
            batch.filter(condition).select("row", "segment_id", **columns)
            for batch in self.placed()
        )

    def placed(self) -> Iterator[pl.DataFrame]:
        """Yield `row`, ids, samples and the columns that `segment_failures` checks, in batches."""
        for _, placed in self._batches(_CHECKED):
            yield placed

    def broken(self) -> pl.DataFrame:
        """Return `segment_id` and `reason` of the segments that are rejected."""
        judged = (self._judged(placed).filter(self._stays) for placed in self.placed())
        return pl.concat(
            batch.filter(pl.col("reason").is_not_null()).select("segment_id", "reason")
            for batch in judged
        )

    def judged(self) -> Iterator[pl.DataFrame]:
        """Yield the segments table in batches.

        Segments are as placed. One that fails several checks is rejected with the first reason.
        """
        for frame, placed in self._batches():
            judged = self._judged(placed).select(
                "row",
                "segment_id",
                "recording_id",
                "start_sample",
                "end_sample",
                "decision",
                "reason",
            )
            whole = pl.concat([judged, frame.drop("name", "segment_id")], how="horizontal")
            yield conform(whole.filter(self._stays).drop("row"), SEGMENTS, "segments")

    @property
    def _stays(self) -> pl.Expr:
        return ~pl.col("row").is_in(self.withdrawn.implode())

    def _judged(self, placed: pl.DataFrame) -> pl.DataFrame:
        duplicate = pl.col("row").is_in(self.duplicates.implode())
        empty_text = pl.lit(self.has_texts) & (
            pl.col("text").is_null() | ~pl.col("text").str.contains(r"\S")
        )
        return decided(placed, self.recordings, duplicate=duplicate, empty_text=empty_text)

    def _batches(
        self, columns: Collection[str] | None = None
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Yield transcripts, and where they are placed."""
        for start, frame in with_starts(self.rows.batches(columns)):
            placed = _place(frame, self.audit, self.recordings)
            end = start + len(frame)
            numbered_ids = self.ids[
                self.ids["row"].search_sorted(start) : self.ids["row"].search_sorted(end)
            ]
            ids = placed["segment_id"].scatter(
                numbered_ids["row"] - start, numbered_ids["segment_id"]
            )
            yield frame, placed.with_columns(ids, row=pl.int_range(start, end, dtype=pl.UInt32))


def decided(placed: pl.DataFrame, recordings: pl.DataFrame, **further: pl.Expr) -> pl.DataFrame:
    """Add `decision` and `reason`; `further` failures replace those that look at several rows."""
    failures = (segment_failures(recordings) | further).items()
    broken = pl.coalesce(
        pl.when(holds.fill_null(value=False)).then(pl.lit(reason)) for reason, holds in failures
    )
    decision = (
        pl.when(pl.col("reason").is_null()).then(pl.lit("pending")).otherwise(pl.lit("reject"))
    )
    return placed.with_columns(reason=broken).with_columns(decision=decision)
