"""Checks of workspace tables: each reason of `rejection_reasons`, and what ingest guarantees."""

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.tables.dataframes import as_polars
from nbaudio.tables.rejection_reasons import segment_failures, with_recordings
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, conform

FAILURES = pl.Schema(
    {"table": pl.String, "row": pl.UInt32, "key": pl.String, "rule": pl.String, "detail": pl.String}
)


def check_tables(recordings, segments):
    """Every row of these tables, of pandas or polars, that breaks a rule, once per rule: table,
    row, key, rule and its values."""
    recordings, segments = as_polars(recordings, "recordings"), as_polars(segments, "segments")
    for name, frame, key in (
        ("recordings", recordings, "recording_id"),
        ("segments", segments, "segment_id"),
    ):
        if key not in frame.columns:
            raise InputError(
                f"{name}: the key column {key} is missing; columns are "
                f"{', '.join(frame.columns) or 'none'}"
            )
    recordings = conform(recordings, RECORDINGS, "recordings")
    segments = conform(segments, SEGMENTS, "segments")
    joined = with_recordings(segments, recordings.unique("recording_id", keep="first"))

    def failing(key, rule, broken, detail):
        table, frame = ("recordings", recordings) if key == "recording_id" else ("segments", joined)
        rows = frame.with_row_index("row").filter(broken.fill_null(value=False))
        return rows.select(
            pl.lit(table).alias("table"),
            "row",
            pl.col(key).alias("key"),
            pl.lit(rule).alias("rule"),
            detail.alias("detail"),
        ).cast(FAILURES)

    times = pl.format(
        "{} {} to {}",
        pl.col("recording_id").fill_null("?"),
        pl.col("source_start").fill_null("?"),
        pl.col("source_end").fill_null("?"),
    )
    rate = pl.col("sampling_rate")
    found = [
        failing("recording_id", rule, broken, detail)
        for rule, broken, detail in (
            ("duplicate_id", pl.col("recording_id").is_duplicated(), pl.col("path")),
            ("null_id", pl.col("recording_id").is_null(), pl.col("path")),
            ("sampling_rate", (rate <= 0), rate.cast(pl.String)),
            ("num_channels", pl.col("num_channels") <= 0, pl.col("num_channels").cast(pl.String)),
            ("no_samples", pl.col("num_samples") <= 0, pl.col("num_samples").cast(pl.String)),
        )
    ]
    found += [
        failing("segment_id", rule, broken, times)
        for rule, broken in (
            ("duplicate_id", pl.col("segment_id").is_duplicated()),
            ("null_id", pl.col("segment_id").is_null()),
            ("text_not_nfc", pl.col("text").str.normalize("NFC") != pl.col("text")),
            ("similarity_range", ~pl.col("similarity").is_between(-1, 1)),
            *segment_failures(recordings).items(),
        )
    ]
    return pl.concat(found)
