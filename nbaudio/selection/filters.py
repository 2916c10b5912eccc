"""Filters of `select`: the first rule that each segment fails.

Tables are streamed; a segment takes a few bytes of memory.
"""

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

from nbaudio.core import tables
from nbaudio.core.channels import source_channel
from nbaudio.core.conditions import condition_errors, parse_condition
from nbaudio.core.dataframes import STREAMED
from nbaudio.core.row_values import repeated, with_values
from nbaudio.core.tables import RECORDINGS, conform, seconds_column, without_audio
from nbaudio.core.times import to_samples_column
from nbaudio.selection.leakage import GROUPS
from nbaudio.selection.parameters import Parameters
from nbaudio.selection.size_budget import MICROSECONDS
from nbaudio.selection.splits import usable_keys

# What an earlier selection decided is not a reason for this one.
_DECIDED = ("split", "decision", "reason", "source_channel")


def filtered(  # noqa: PLR0914
    recordings: pl.DataFrame,
    segments: pl.LazyFrame,
    parameters: Parameters,
    *,
    by_hand: pl.DataFrame | None = None,
) -> pl.LazyFrame:
    """Return for each segment, in order, the first filter that it fails as `reason`.

    The other columns are what splits and budgets need: `row` (from 0), `segment_id`, the grouping
    keys (categorical), times in samples, `micros` (duration), `by_hand`: whether it would pass, had
    it not been rejected by hand, and `is_preferred`: whether it was accepted by hand.
    """
    schema = segments.collect_schema()
    empty = pl.DataFrame(schema=schema)
    keys = GROUPS if parameters.group_by is None else parameters.group_by
    usable_keys(empty, keys)
    recordings = conform(recordings, RECORDINGS, "recordings").unique(
        "recording_id", keep="first", maintain_order=True
    )
    preview = without_audio(recordings)
    rate = (
        pl.Series("rate", [MICROSECONDS] * len(recordings), dtype=pl.Int64)
        if preview
        else recordings["sampling_rate"]
    )
    limits = {"longest": parameters.max_duration, "shortest": parameters.min_duration}
    facts = recordings.select(
        "recording_id", "num_channels", "num_samples", rate=rate.cast(pl.Int64)
    ).with_columns(
        to_samples_column(pl.Series(name, [str(seconds)] * len(rate), dtype=pl.String), rate).alias(
            name
        )
        for name, seconds in limits.items()
    )
    # A text is empty if normalization leaves nothing.
    text = pl.coalesce(name for name in ("text_normalized", "text") if name in schema)
    has_texts = segments.select(text.is_not_null().any()).collect(**STREAMED).item()
    columns = {
        "is_empty": text.is_null() | ~text.str.contains(r"\S"),
        "source_channel": source_channel(empty),
    }
    columns |= {
        f"key {key}": pl.col(key).cast(pl.String).cast(pl.Categorical)
        for key in dict.fromkeys((*GROUPS, *keys))
    }
    known, met = _conditions(recordings, segments, parameters.where)
    frame = known.select("segment_id", *tables.WINDOW, "similarity", **columns, **met)
    duplicates = _duplicates(frame)
    frame = (frame if duplicates is None else with_values(frame, [duplicates])).with_row_index(
        "row"
    )
    frame = frame.join(facts.lazy(), on="recording_id", how="left", maintain_order="left")
    if preview:
        for edge in ("start", "end"):
            times = pl.struct(f"source_{edge}", "rate")
            samples = times.map_batches(
                lambda each: to_samples_column(*each.struct.unnest()),
                return_dtype=pl.Int64,
                is_elementwise=True,
            )
            frame = frame.with_columns(samples.alias(f"{edge}_sample"))
    length = pl.col("end_sample") - pl.col("start_sample")
    unplaced = length.is_null()
    accepted = pl.lit(value=False)
    rejected = pl.lit(None, dtype=pl.String)
    if by_hand is not None and len(by_hand):
        said = (
            by_hand.select("segment_id", said=pl.col("decision").cast(pl.String), why="reason")
            .unique("segment_id")
            .lazy()
        )
        frame = frame.join(said, on="segment_id", how="left", maintain_order="left")
        accepted = (pl.col("said") == "accept").fill_null(value=False)
        rejected = pl.when(pl.col("said") == "reject").then("why").otherwise(None)
    rules = {
        **tables.segment_failures(recordings),
        "duplicate": pl.lit(value=False) if duplicates is None else pl.col("is_duplicate"),
        "empty_text": pl.lit(has_texts) & pl.col("is_empty"),
        # Without audio, only invalid times and whole recordings leave a segment without samples.
        **({"no_times": unplaced & ~tables.whole_recording()} if preview else {}),
        "no_audio": unplaced if preview else unplaced | pl.col("num_samples").is_null(),
        "below_similarity": ~accepted
        & (pl.col("similarity").fill_nan(None) < parameters.min_similarity),
        "too_long": ~accepted & (length > pl.col("longest")),
        "too_short": length < pl.max_horizontal(pl.when(~accepted).then("shortest"), 1),
        **{name: ~accepted & ~pl.col(name) for name in met},
    }
    failed = pl.coalesce(pl.when(hit).then(pl.lit(name)) for name, hit in rules.items())
    told = {"source_channel": pl.col("source_channel")} | {
        key: pl.col(f"key {key}") for key in (*GROUPS, *keys)
    }
    return frame.select(
        *("row", "segment_id", "start_sample", "end_sample"),
        **told,
        micros=(length * MICROSECONDS + pl.col("rate") - 1) // pl.col("rate"),
        reason=pl.coalesce(rejected, failed).cast(pl.Categorical),
        by_hand=rejected.is_not_null() & failed.is_null(),
        is_preferred=accepted,
    )


def _conditions(
    recordings: pl.DataFrame, segments: pl.LazyFrame, where: Sequence[str]
) -> tuple[pl.LazyFrame, dict[str, pl.Expr]]:
    """Return the table with durations, and the conditions by reason.

    The reason is that of segments for which the condition is not true.
    """
    if not where:
        return segments, {}
    rates = recordings.select("recording_id", "sampling_rate").lazy()
    known = segments.join(rates, on="recording_id", how="left", maintain_order="left").with_columns(
        seconds_column()
    )
    schema = pl.Schema(
        {name: dtype for name, dtype in known.collect_schema().items() if name not in _DECIDED}
    )
    met = {
        text: parse_condition(text, schema, schema.names()).fill_null(value=False) for text in where
    }
    for text, hit in met.items():
        with condition_errors(text, schema.names()):
            known.select(hit.any()).collect(**STREAMED)
    return known, {f"where {text}": hit for text, hit in met.items()}


def _duplicates(frame: pl.LazyFrame) -> pl.Series | None:
    """Return whether each segment has the window of another one, which precedes it.

    The order is that of ids. Return None if no segment has.
    """
    hashes = frame.select(tables.window().hash().alias("hash")).collect(**STREAMED).to_series()
    shared = repeated(hashes)
    if shared.is_empty():
        return None
    some = (
        with_values(frame, [hashes.is_in(shared.implode()).alias("is_shared")])
        .with_row_index("row")
        .filter("is_shared")
    )
    told = (
        some.select("row", "segment_id", window=tables.window())
        .collect(**STREAMED)
        .sort("segment_id", "row")
    )
    found = np.zeros(len(hashes), dtype=np.bool_)
    found[told.filter(~pl.col("window").is_first_distinct())["row"].to_numpy()] = True
    return pl.Series("is_duplicate", found)


def is_one_of(ids: Collection[str]) -> pl.Expr:
    """Return whether `segment_id` is one of `ids`."""
    return pl.col("segment_id").is_in(pl.Series(sorted(ids), dtype=pl.String).implode())
