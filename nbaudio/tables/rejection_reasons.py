"""Reasons for which segments are rejected, and the checks of each segment."""

import polars as pl

from nbaudio.audio.channels import NOTATION


def without_audio(recordings: pl.DataFrame) -> bool:
    """Return whether no recording has audio yet.

    A selection is then a preview by the source's own times.
    """
    return recordings["num_samples"].null_count() == len(recordings)


def whole_recording() -> pl.Expr:
    """Return whether a segment has no times.

    It is then a whole recording whose length is not known yet.
    """
    return pl.col("source_start").is_null() & pl.col("source_end").is_null()


GROUPING_REASONS = ("crosses_splits", "beyond_split_size", "not_gold", "held_out_sentence")
"""Reasons of segments that are kept out of all splits.

Grouping, or a sentence of an earlier dev or test, keeps them out.
"""

NEAR_HELD_OUT = "near_held_out"
"""Reason of segments of train whose sentence is nearly one that is held out."""

AVOIDED_ID = "avoided_id"
AVOIDED_AUDIO = "avoided_audio"
AVOIDED_SENTENCE = "avoided_sentence"
AVOIDED_NEAR_SENTENCE = "avoided_near_sentence"
AVOIDED = (AVOIDED_ID, AVOIDED_AUDIO, AVOIDED_SENTENCE, AVOIDED_NEAR_SENTENCE)
"""Reasons of segments of train that share something with data that is avoided, in their order."""

LATER_REASONS = ("reviewed", *GROUPING_REASONS, *AVOIDED, NEAR_HELD_OUT, "over_budget")
"""Reasons of segments that pass every filter and still are out."""

REASONS = ("no_audio", "below_similarity", "too_long", "too_short", *LATER_REASONS)
"""Reasons that `select` gives, besides those of `segment_failures`."""


WINDOW = ("recording_id", "source_start", "source_end", "start_sample", "end_sample")
"""Columns of the place of a segment, besides `source_channel`."""


def window() -> pl.Expr:
    """Return the recording, times and channel of a segment; duplicates have the same."""
    start, end = (
        pl.col(name).cast(pl.Float64, strict=False) for name in ("source_start", "source_end")
    )
    # Times are compared as numbers, as the same time may have other decimals; an invalid time has a
    # reason of its own.
    invalid = pl.col("source_start").is_not_null() & start.is_null()
    return pl.struct(
        "recording_id", start, end.alias("end"), invalid.alias("invalid"), "source_channel"
    )


def segment_failures(recordings: pl.DataFrame) -> dict[str, pl.Expr]:
    """Return the reasons for which a segment fails by itself, most specific first.

    They are expressions over `with_recordings`, true for a failure.
    """
    start = pl.col("source_start").cast(pl.Float64, strict=False)
    end = pl.col("source_end").cast(pl.Float64, strict=False)
    has_no_sample = (pl.col("end_sample") == pl.col("start_sample")) & (pl.col("end_sample") > 0)
    recording_ids = pl.Series(recordings["recording_id"]).implode()
    return {
        "unknown_recording": ~pl.col("recording_id").is_in(recording_ids)
        | pl.col("recording_id").is_null(),
        "no_times": ~whole_recording()
        & (start.is_null() | end.is_null() | ~start.is_finite() | ~end.is_finite()),
        "negative_start": start < 0,
        "end_before_start": (end <= start) | has_no_sample.fill_null(value=False),
        "duplicate": ~window().is_first_distinct(),
        "unknown_channel": has_unknown_channel(),
        "empty_text": (pl.col("text").count() > 0)
        & (pl.col("text").is_null() | ~pl.col("text").str.contains(r"\S")),
        "past_the_end": pl.col("end_sample") > pl.col("num_samples"),
        "before_the_sound": pl.col("end_sample") <= 0,
    }


def with_recordings(segments: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Join `source_channel` and columns of the recordings to segments, in order.

    The columns are those that `segment_failures` needs.
    """
    facts = recordings.select("recording_id", "sampling_rate", "num_channels", "num_samples")
    return segments.with_columns(source_channel(segments)).join(
        facts, on="recording_id", how="left", maintain_order="left"
    )


def source_channel(segments: pl.DataFrame) -> pl.Expr:
    """Return the column `source_channel` as text.

    It is null where a segment, or the whole table, has none.
    """
    channel = pl.col("source_channel") if "source_channel" in segments.columns else pl.lit(None)
    return channel.cast(pl.String).alias("source_channel")


def has_unknown_channel() -> pl.Expr:
    """Return whether `source_channel` is invalid, or beyond `num_channels` where that is known."""
    whole = pl.col("source_channel")
    side = (
        pl.when(whole.str.starts_with("track")).then(whole.str.extract(":(.*)$")).otherwise(whole)
    )
    plain = (
        pl.when(side == "left")
        .then(pl.lit("0"))
        .when(side == "right")
        .then(pl.lit("1"))
        .otherwise(side)
    )
    numbers = plain.str.extract_all("[0-9]+").cast(pl.List(pl.Int64))
    return ~whole.str.contains(NOTATION) | (numbers.list.max() >= pl.col("num_channels"))
