"""Segments that are whole recordings, and their division into windows of one length.

Conventions: times are microseconds while they are computed and decimals with up to six places when written. At rates below
1 MHz such a decimal, rounded to samples, is the very sample it was made from.
"""

import polars as pl

from nbaudio.core.tables import whole_recording
from nbaudio.formats.base import Windows

_MICRO = 1_000_000


def fill_times(frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame, windows: Windows | None) -> pl.DataFrame:
    """`frame` with the times of whole recordings filled in where the audio is there.

    A whole recording without an id of its own takes that of the recording; windows are called after their times.

    Args:
        frame: as of `Transcripts`; both times null mean the whole recording.
        audit: as of `names.resolve`.
        recordings: the recordings table.
        windows: how to divide whole recordings, if at all.

    Returns:
        The same columns, and `segment_id` where there are whole recordings; a row for every window of one that is divided.

    Examples:
        >>> frame = pl.DataFrame({"name": ["a.wav"], "source_start": [None], "source_end": [None]})
        >>> audit = pl.DataFrame({"name": ["a.wav"], "recording_id": ["a"]})
        >>> recordings = pl.DataFrame({"recording_id": ["a"], "sampling_rate": [16000], "num_samples": [40000]})
        >>> fill_times(frame, audit, recordings, None).select("segment_id", "source_start", "source_end").rows()
        [('a', '0', '2.5')]
    """
    whole = whole_recording()
    if not frame.select(whole.any()).item():
        return frame
    names = frame.select("name").join(audit.select("name", "recording_id"), on="name", how="left", maintain_order="left")
    lengths = recordings.select("recording_id", "sampling_rate", "num_samples")
    facts = names.join(lengths, on="recording_id", how="left", maintain_order="left")
    if "segment_id" not in frame.columns:
        frame = frame.with_columns(segment_id=pl.lit(None, dtype=pl.String))
    rate = facts["sampling_rate"].cast(pl.Int64)
    placed = frame.with_columns(
        facts["recording_id"].alias("_id"),
        rate.alias("_rate"),
        facts["num_samples"].alias("_samples"),
        ((2 * facts["num_samples"] * _MICRO + rate) // (2 * rate)).alias("_micros"),
        _whole=whole & facts["num_samples"].is_not_null(),
    )
    if windows:
        placed = _divided(placed, windows)
    else:
        placed = placed.with_columns(_from=0, _to="_micros", _own=pl.when(whole).then("_id"))
    filled = placed.with_columns(
        pl.coalesce("segment_id", "_own").alias("segment_id"),
        *(
            pl.when("_whole").then(_decimal(pl.col(micros))).otherwise(name).alias(name)
            for name, micros in (("source_start", "_from"), ("source_end", "_to"))
        ),
    )
    return filled.select(frame.columns)


def _divided(placed: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """A row for every window of a whole recording; all others as they are."""
    step = int(windows.seconds * _MICRO)
    count = (pl.col("_micros") + (step - 1 if windows.partial else 0)) // step
    begin = pl.col("_window") * step
    rows = placed.with_columns(
        _window=pl.int_ranges(0, pl.when("_whole").then(count).otherwise(1), dtype=pl.Int64),
        _own=pl.when(~pl.col("_whole") & pl.col("source_start").is_null()).then("_id"),
    ).explode("_window", empty_as_null=False)
    # A remainder of less than half a sample is none.
    inside = ~pl.col("_whole") | ((begin * pl.col("_rate") + _MICRO // 2) // _MICRO < pl.col("_samples"))
    return rows.filter(inside).with_columns(_from=begin, _to=pl.min_horizontal(begin + step, "_micros"))


def _decimal(micros: pl.Expr) -> pl.Expr:
    """Microseconds as decimal seconds without needless zeros."""
    written = pl.format("{}.{}", micros // _MICRO, (micros % _MICRO).cast(pl.String).str.zfill(6))
    return written.str.strip_chars_end("0").str.strip_chars_end(".")
