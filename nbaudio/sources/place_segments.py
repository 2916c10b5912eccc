"""Place segments in their recordings, and judge them by the rules that every segment must keep.

Times of whole recordings are microseconds while they are computed and decimals with up to six places when written: at rates below
1 MHz such a decimal, rounded to samples, is exactly the sample that it was made from.
"""

import polars as pl

from nbaudio.core.channels import source_channel
from nbaudio.core.name_matching import segment_ids
from nbaudio.core.tables import SEGMENTS, conform, segment_failures, whole_recording, with_recordings
from nbaudio.core.times import to_samples_column
from nbaudio.formats.base import Windows

_MICRO = 1_000_000


def fill_times(frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame, windows: Windows | None) -> pl.DataFrame:
    """Fill in times of whole recordings with audio, in a row per window if divided; without own ids, those of recordings."""
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
    undivided = {"_from": pl.lit(0), "_to": pl.col("_micros"), "_own": pl.when(whole).then("_id")}
    placed = _divide(placed, windows) if windows else placed.with_columns(**undivided)
    start, end = (pl.when("_whole").then(_decimal(pl.col(micros))) for micros in ("_from", "_to"))
    filled = placed.with_columns(
        segment_id=pl.coalesce("segment_id", "_own"),
        source_start=start.otherwise("source_start"),
        source_end=end.otherwise("source_end"),
    )
    return filled.select(frame.columns)


def _divide(placed: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """Return a row for every window of a whole recording; all others as they are."""
    step = int(windows.seconds * _MICRO)
    count = (pl.col("_micros") + (step - 1 if windows.partial else 0)) // step
    begin = pl.col("_window") * step
    rows = placed.with_columns(
        _window=pl.int_ranges(0, pl.when("_whole").then(count).otherwise(1), dtype=pl.Int64),
        _own=pl.when(~pl.col("_whole") & pl.col("source_start").is_null()).then("_id"),
    ).explode("_window", empty_as_null=False)
    # A remainder of less than half a sample gives no window.
    inside = ~pl.col("_whole") | ((begin * pl.col("_rate") + _MICRO // 2) // _MICRO < pl.col("_samples"))
    return rows.filter(inside).with_columns(_from=begin, _to=pl.min_horizontal(begin + step, "_micros"))


def _decimal(micros: pl.Expr) -> pl.Expr:
    written = pl.format("{}.{}", micros // _MICRO, (micros % _MICRO).cast(pl.String).str.zfill(6))
    return written.str.strip_chars_end("0").str.strip_chars_end(".")


def place(frame: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Convert times to samples where the recording is there; return only ids and the columns that the rules check."""
    # Joins copy their columns.
    own = [name for name in ("segment_id",) if name in frame.columns]
    checked = frame.select("name", "source_start", "source_end", "text", source_channel(frame), *own)
    named = checked.join(audit.select("name", "recording_id"), on="name", how="left", maintain_order="left")
    joined = with_recordings(named, recordings)
    rate, length = joined["sampling_rate"], pl.col("num_samples")
    starts, ends = joined["source_start"], joined["source_end"]
    samples = joined.with_columns(
        segment_ids(joined["recording_id"], starts, ends, own=joined["segment_id"] if own else None),
        to_samples_column(starts, rate).alias("start_sample"),
        to_samples_column(ends, rate).alias("end_sample"),
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
    rules = segment_failures(recordings).items()
    reason = pl.coalesce(pl.when(broken.fill_null(value=False)).then(pl.lit(rule)) for rule, broken in rules)
    decided = placed.with_columns(reason=reason).with_columns(
        decision=pl.when(pl.col("reason").is_null()).then(pl.lit("pending")).otherwise(pl.lit("reject"))
    )
    found = decided.select("segment_id", "recording_id", "start_sample", "end_sample", "decision", "reason")
    return conform(pl.concat([found, frame.drop("name", "segment_id", strict=False)], how="horizontal"), SEGMENTS, "segments")
