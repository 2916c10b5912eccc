"""Filters of `select`: the first rule that each segment fails. Tables are streamed; a segment takes a few bytes of memory."""

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from nbaudio.core import tables
from nbaudio.core.channels import source_channel
from nbaudio.core.conditions import condition_error, parse_condition
from nbaudio.core.tables import RECORDINGS, conform, seconds_column, without_audio
from nbaudio.core.times import to_samples_column
from nbaudio.selection.leakage import GROUPS
from nbaudio.selection.parameters import Parameters
from nbaudio.selection.size_budget import MICROSECONDS
from nbaudio.selection.splits import usable_keys

# What an earlier selection decided is not a reason for this one.
_DECIDED = ("split", "decision", "reason", "source_channel")


def filtered(
    recordings: pl.DataFrame, segments: pl.LazyFrame, parameters: Parameters, *, by_hand: pl.DataFrame | None = None
) -> pl.LazyFrame:
    """Return for each segment, in order, the first filter that it fails as `reason`, and what splits and budgets need.

    The other columns are `row` (from 0), `segment_id`, the grouping keys (categorical), times in samples, `micros` (duration),
    `by_hand`: whether it would pass, had it not been rejected by hand, and `is_preferred`: whether it was accepted by hand.
    """
    schema = segments.collect_schema()
    empty = pl.DataFrame(schema=schema)
    keys = GROUPS if parameters.group_by is None else parameters.group_by
    usable_keys(empty, keys)
    recordings = conform(recordings, RECORDINGS, "recordings")
    preview = without_audio(recordings)
    rate = pl.Series("rate", [MICROSECONDS] * len(recordings), dtype=pl.Int64) if preview else recordings["sampling_rate"]
    limits = {"longest": parameters.max_duration, "shortest": parameters.min_duration}
    facts = recordings.select("recording_id", "num_channels", "num_samples", rate=rate.cast(pl.Int64)).with_columns(
        to_samples_column(pl.Series(name, [str(seconds)] * len(rate), dtype=pl.String), rate).alias(name)
        for name, seconds in limits.items()
    )
    # A text is empty if normalization leaves nothing.
    text = pl.coalesce(name for name in ("text_normalized", "text") if name in schema)
    has_texts = segments.select(text.is_not_null().any()).collect(engine="streaming").item()
    windows = segments.select("segment_id", *tables.WINDOW, source_channel(empty))
    conditions = _conditions(recordings, segments, parameters.where)
    rows = [
        windows,
        segments.select(
            pl.col("similarity"),
            (text.is_null() | ~text.str.contains(r"\S")).alias("is_empty"),
            *(pl.col(key).cast(pl.String).cast(pl.Categorical).alias(f"key {key}") for key in dict.fromkeys((*GROUPS, *keys))),
        ),
        conditions,
        pl.LazyFrame({"is_duplicate": _duplicates(windows)}),
    ]
    frame = pl.concat(rows, how="horizontal").with_row_index("row")
    frame = frame.join(facts.lazy(), on="recording_id", how="left", maintain_order="left")
    if preview:
        for edge in ("start", "end"):
            times = pl.struct(seconds=f"source_{edge}", rate="rate")
            frame = frame.with_columns(
                times.map_batches(_samples, return_dtype=pl.Int64, is_elementwise=True).alias(f"{edge}_sample")
            )
    length = pl.col("end_sample") - pl.col("start_sample")
    unplaced = length.is_null()
    accepted, rejected = _decided_by_hand(by_hand)
    rules = {
        **tables.segment_failures(recordings),
        "duplicate": pl.col("is_duplicate"),
        "empty_text": pl.lit(has_texts) & pl.col("is_empty"),
        # Without audio, only invalid times and whole recordings leave a segment without samples.
        **({"no_times": unplaced & ~tables.whole_recording()} if preview else {}),
        "no_audio": unplaced if preview else unplaced | pl.col("num_samples").is_null(),
        "below_similarity": ~accepted & (pl.col("similarity").fill_nan(None) < parameters.min_similarity),
        "too_long": ~accepted & (length > pl.col("longest")),
        "too_short": length < pl.max_horizontal(pl.when(~accepted).then("shortest"), 1),
        **{name: ~accepted & ~pl.col(name) for name in conditions.collect_schema()},
    }
    failed = pl.coalesce(pl.when(hit).then(pl.lit(name)) for name, hit in rules.items())
    return frame.select(
        *("row", "segment_id", "source_channel", "start_sample", "end_sample"),
        *(pl.col(f"key {key}").alias(key) for key in dict.fromkeys((*GROUPS, *keys))),
        micros=(length * MICROSECONDS + pl.col("rate") - 1) // pl.col("rate"),
        reason=pl.coalesce(rejected, failed).cast(pl.Categorical),
        by_hand=rejected.is_not_null() & failed.is_null(),
        is_preferred=accepted,
    )


def _samples(times: pl.Series) -> pl.Series:
    return to_samples_column(times.struct.field("seconds"), times.struct.field("rate"))


def _conditions(recordings: pl.DataFrame, segments: pl.LazyFrame, where: Sequence[str]) -> pl.LazyFrame:
    """Return for each condition whether it is true of each segment; the name is the reason of those for which it is not."""
    if not where:
        return pl.LazyFrame()
    rates = recordings.select("recording_id", "sampling_rate").unique("recording_id", keep="first").lazy()
    frame = segments.drop(_DECIDED, strict=False).join(rates, on="recording_id", how="left", maintain_order="left")
    frame = frame.with_columns(seconds_column())
    schema = frame.collect_schema()
    met = {text: parse_condition(text, schema, schema.names()).fill_null(value=False) for text in where}
    for text, hit in met.items():
        try:
            frame.select(hit.any()).collect(engine="streaming")
        except pl.exceptions.PolarsError as error:
            raise condition_error(text, error, schema.names()) from error
    return frame.select("segment_id", **{f"where {text}": hit for text, hit in met.items()}).drop("segment_id")


def _duplicates(windows: pl.LazyFrame) -> pl.Series:
    """Return whether each segment has the window of another one, which comes first in the order of ids."""
    hashes = windows.select(tables.window().hash().alias("hash")).collect(engine="streaming").to_series()
    ordered = hashes.sort()
    shared = hashes.is_in(ordered.filter(ordered == ordered.shift()).unique().implode())
    del ordered, hashes
    found = np.zeros(len(shared), dtype=np.bool_)
    if shared.any():
        some = pl.concat([windows.with_row_index("row"), pl.LazyFrame({"shared": shared})], how="horizontal").filter("shared")
        told = some.select("row", "segment_id", window=tables.window()).collect(engine="streaming").sort("segment_id", "row")
        found[told.filter(~pl.col("window").is_first_distinct())["row"].to_numpy()] = True
    return pl.Series("is_duplicate", found)


def _decided_by_hand(by_hand: pl.DataFrame | None) -> tuple[pl.Expr, pl.Expr]:
    """Return expressions: whether people accept a segment, and the reason for which they reject it."""
    if by_hand is None or by_hand.is_empty():
        return pl.lit(value=False), pl.lit(None, dtype=pl.String)
    rejected = by_hand.filter(pl.col("decision") == "reject")
    why = pl.col("segment_id").replace_strict(rejected["segment_id"], rejected["reason"], default=None, return_dtype=pl.String)
    return is_one_of(by_hand.filter(pl.col("decision") == "accept")["segment_id"].to_list()), why


def is_one_of(ids: Collection[str]) -> pl.Expr:
    """Return whether `segment_id` is one of `ids`."""
    return pl.col("segment_id").is_in(pl.Series(sorted(ids), dtype=pl.String).implode())
