"""Amounts of speech: durations, and counts of segments, hours, speakers and recordings."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.parquet_files import parquet_slices


def seconds_column() -> pl.Expr:
    """Return the duration in seconds, from samples or else from the source's decimals.

    It is to show and to sum, not to cut by.
    """
    by_samples = (pl.col("end_sample") - pl.col("start_sample")) / pl.col("sampling_rate")
    by_source = pl.col("source_end").cast(pl.Float64, strict=False) - pl.col("source_start").cast(
        pl.Float64, strict=False
    )
    return pl.coalesce(by_samples, by_source).alias("duration_s")


def with_durations(segments: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Join `sampling_rate` and `duration_s` to segments, in order.

    The sampling rate is in Hz and null without audio; the duration is in seconds.
    """
    rates = recordings.select("recording_id", "sampling_rate")
    return segments.join(rates, on="recording_id", how="left", maintain_order="left").with_columns(
        seconds_column()
    )


def amounts(segments: pl.DataFrame) -> dict[str, Any]:
    """Count segments, hours (of `duration_s`), speakers and recordings."""
    hours = round(float(segments["duration_s"].sum()) / 3600, 6)
    speakers = segments["speaker_id"].drop_nulls().n_unique()
    recordings = segments["recording_id"].n_unique()
    return {
        "segments": len(segments),
        "hours": hours,
        "speakers": speakers,
        "recordings": recordings,
    }


NO_AMOUNTS = {"segments": 0, "hours": 0.0, "speakers": 0, "recordings": 0}


def amounts_by_split(path: Path) -> dict[str, dict[str, Any]]:
    """Return the segments, hours, speakers and recordings of each split of a table in a file.

    The table need not fit into memory.
    """
    segments = Counter[str]()
    seconds = defaultdict[str, float](float)
    for part in parquet_slices(path, ("split", "duration_s")):  # always added in the same order
        sums = part.group_by("split").agg(pl.len(), pl.col("duration_s").sum())
        for split, number, length in sums.iter_rows():
            segments[split] += number
            seconds[split] += length
    return {
        split: {
            "segments": number,
            "hours": round(seconds[split] / 3600, 6),
            "speakers": _count_values(path, split, "speaker_id"),
            "recordings": _count_values(path, split, "recording_id"),
        }
        for split, number in segments.items()
    }


def _count_values(path: Path, split: str, column: str) -> int:
    """Return how many values a column has in a split."""
    in_split = pl.col("split").eq_missing(pl.lit(split, pl.String))
    values = pl.scan_parquet(path, glob=False).filter(in_split).select(column).drop_nulls().unique()
    return int(values.select(pl.len()).collect(**STREAMED).item())
