"""Filters of `select`: the first check that each segment fails.

Tables are streamed; a segment takes a few bytes of memory.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars as pl

from nbaudio.core.times import to_samples_column
from nbaudio.selection.leakage import GROUPS
from nbaudio.selection.parameters import Parameters
from nbaudio.selection.size_budget import MICROSECONDS
from nbaudio.selection.splits import usable_keys
from nbaudio.tables import rejection_reasons
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.conditions import parse_condition, rows_that_meet
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.rejection_reasons import source_channel, without_audio
from nbaudio.tables.row_values import ROW, repeated
from nbaudio.tables.schemas import RECORDINGS, conform

# What an earlier selection decided is not a reason for this one.
_DECIDED = ("split", "decision", "reason", "source_channel")


@dataclass(frozen=True)
class _Segments:
    """Segments that filters are applied to.

    Attributes:
        frame: their columns, in order.
        conditions: by the reason of a segment for which it is not true, a condition on the columns
            of the workspace; `frame` has it as a column of that name.
        is_preview: whether no recording has audio; times are in microseconds then.
        has_texts: whether any has a text.
    """

    frame: pl.LazyFrame
    conditions: tuple[str, ...]
    is_preview: bool
    has_texts: bool


def filtered(
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
    keys = tuple(dict.fromkeys((*GROUPS, *(parameters.group_by or ()))))
    recordings = conform(recordings, RECORDINGS, "recordings").unique(
        "recording_id", keep="first", maintain_order=True
    )
    candidates = _candidates(recordings, segments, parameters, keys)
    frame = _with_decisions(candidates.frame, by_hand)
    is_accepted = pl.col("hand_decision").eq_missing("accept")
    is_rejected = pl.col("hand_decision").eq_missing("reject")
    failures = _failures(recordings, parameters, candidates, is_accepted)
    failed = pl.coalesce(pl.when(fails).then(pl.lit(name)) for name, fails in failures.items())
    duration = pl.col("end_sample") - pl.col("start_sample")
    rejected = pl.when(is_rejected).then("hand_reason")
    columns = {"source_channel": pl.col("source_channel")}
    columns |= {key: pl.col(f"key {key}") for key in keys}
    return frame.select(
        *("row", "segment_id", "start_sample", "end_sample"),
        **columns,
        micros=(duration * MICROSECONDS + pl.col("rate") - 1) // pl.col("rate"),
        reason=pl.coalesce(rejected, failed).cast(pl.Categorical),
        by_hand=rejected.is_not_null() & failed.is_null(),
        is_preferred=is_accepted,
    )


def _candidates(
    recordings: pl.DataFrame,
    segments: pl.LazyFrame,
    parameters: Parameters,
    keys: Sequence[str],
) -> _Segments:
    """Return segments with the columns that filters, splits and budgets use.

    Raise InputError if a key or a condition cannot be used.
    """
    schema = segments.collect_schema()
    empty = pl.DataFrame(schema=schema)
    usable_keys(empty, keys)
    is_preview = without_audio(recordings)
    # A text is empty if normalization leaves nothing.
    text = pl.coalesce(name for name in ("text_normalized", "text") if name in schema)
    conditions = _conditions(recordings, segments, parameters.where)
    frame = conditions.segments.select(
        "segment_id",
        *rejection_reasons.WINDOW,
        "similarity",
        source_channel(empty),
        (text.is_null() | ~text.str.contains(r"\S")).alias("is_empty"),
        *(_group_key(key) for key in keys),
        **conditions.by_reason,
    )
    frame = _with_duplicates(frame).with_row_index("row")
    frame = frame.join(
        _recording_facts(recordings, parameters, is_preview=is_preview),
        on="recording_id",
        how="left",
        maintain_order="left",
    )
    if is_preview:
        frame = frame.with_columns(_preview_sample("start"), _preview_sample("end"))
    has_texts = segments.select(text.is_not_null().any()).collect(**STREAMED).item()
    return _Segments(frame, tuple(conditions.by_reason), is_preview, has_texts)


def _group_key(name: str) -> pl.Expr:
    """Return a grouping key; its name is marked, as a condition may read the column itself."""
    return pl.col(name).cast(pl.String).cast(pl.Categorical).alias(f"key {name}")


def _recording_facts(
    recordings: pl.DataFrame, parameters: Parameters, *, is_preview: bool
) -> pl.LazyFrame:
    """Return by recording its channels, samples, rate, and the limits of durations in samples."""
    rate = recordings["sampling_rate"].cast(pl.Int64).alias("rate")
    if is_preview:
        rate = pl.Series("rate", [MICROSECONDS] * len(recordings), dtype=pl.Int64)
    return (
        recordings.select("recording_id", "num_channels", "num_samples")
        .with_columns(
            rate,
            _limit_in_samples("longest", parameters.max_duration, rate),
            _limit_in_samples("shortest", parameters.min_duration, rate),
        )
        .lazy()
    )


def _limit_in_samples(name: str, seconds: object, rate: pl.Series) -> pl.Series:
    """Return a duration in seconds as samples at each rate."""
    same_for_all = pl.Series(name, [str(seconds)] * len(rate), dtype=pl.String)
    return to_samples_column(same_for_all, rate).alias(name)


def _preview_sample(edge: str) -> pl.Expr:
    """Convert the start or the end of the source to samples at `rate`, where there is no audio."""
    return (
        pl.struct(f"source_{edge}", "rate")
        .map_batches(
            lambda column: to_samples_column(*column.struct.unnest()),
            return_dtype=pl.Int64,
            is_elementwise=True,
        )
        .alias(f"{edge}_sample")
    )


def _with_decisions(frame: pl.LazyFrame, by_hand: pl.DataFrame | None) -> pl.LazyFrame:
    """Return segments with `hand_decision` and `hand_reason`, null where nobody decided."""
    if by_hand is None or by_hand.is_empty():
        nobody = pl.lit(None, dtype=pl.String)
        return frame.with_columns(hand_decision=nobody, hand_reason=nobody)
    decisions = by_hand.select(
        "segment_id",
        hand_decision=pl.col("decision").cast(pl.String),
        hand_reason=pl.col("reason").cast(pl.String),
    )
    return frame.join(
        decisions.unique("segment_id").lazy(),
        on="segment_id",
        how="left",
        maintain_order="left",
    )


def _failures(
    recordings: pl.DataFrame,
    parameters: Parameters,
    candidates: _Segments,
    is_accepted: pl.Expr,
) -> dict[str, pl.Expr]:
    """Return by reason, in the order of the checks, whether a segment fails.

    Segments that were accepted by hand may be less similar, longer or shorter, and need not meet
    conditions.
    """
    duration = pl.col("end_sample") - pl.col("start_sample")
    shortest = pl.max_horizontal(pl.when(~is_accepted).then("shortest"), 1)
    return {
        **rejection_reasons.segment_failures(recordings),
        "duplicate": pl.col("is_duplicate"),
        "empty_text": pl.lit(candidates.has_texts) & pl.col("is_empty"),
        **_audio_failures(is_preview=candidates.is_preview),
        "below_similarity": ~is_accepted
        & (pl.col("similarity").fill_nan(None) < parameters.min_similarity),
        "too_long": ~is_accepted & (duration > pl.col("longest")),
        "too_short": duration < shortest,
        **{reason: ~is_accepted & ~pl.col(reason) for reason in candidates.conditions},
    }


def _audio_failures(*, is_preview: bool) -> dict[str, pl.Expr]:
    """Return by reason whether a segment has no samples.

    Without audio, only invalid times and whole recordings leave a segment without samples.
    """
    is_unplaced = pl.col("end_sample").is_null() | pl.col("start_sample").is_null()
    if is_preview:
        return {
            "no_times": is_unplaced & ~rejection_reasons.whole_recording(),
            "no_audio": is_unplaced,
        }
    return {"no_audio": is_unplaced | pl.col("num_samples").is_null()}


@dataclass(frozen=True)
class _Conditions:
    """Conditions of `--where`, by the reason of segments for which they are not true.

    Attributes:
        segments: the table, with durations if there are conditions.
        by_reason: whether each condition is true.
    """

    segments: pl.LazyFrame
    by_reason: dict[str, pl.Expr]


def _conditions(
    recordings: pl.DataFrame, segments: pl.LazyFrame, where: Sequence[str]
) -> _Conditions:
    """Parse conditions and compute each once; raise InputError for one that cannot be used.

    Conditions see the sampling rate and the duration, too.
    """
    if not where:
        return _Conditions(segments, {})
    rates = recordings.select("recording_id", "sampling_rate").lazy()
    segments = segments.join(rates, on="recording_id", how="left", maintain_order="left")
    segments = segments.with_columns(seconds_column())
    schema = {
        name: dtype for name, dtype in segments.collect_schema().items() if name not in _DECIDED
    }
    by_reason = {}
    for text in where:
        condition = parse_condition(text, schema)
        # Raises InputError for values that the condition cannot be computed from.
        rows_that_meet(condition, segments)
        by_reason[f"where {text}"] = condition.expression
    return _Conditions(segments, by_reason)


def _with_duplicates(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return segments with `is_duplicate`: whether one before, by its id, has the same window."""
    window = rejection_reasons.window()
    shared = repeated(frame.select(window.hash()).collect(**STREAMED).to_series())
    if shared.is_empty():
        return frame.with_columns(is_duplicate=pl.lit(value=False))
    numbered = frame.with_row_index(ROW)
    windows = (
        numbered.filter(window.hash().is_in(shared.implode()))
        .select(ROW, "segment_id", window=window)
        .collect(**STREAMED)
        .sort("segment_id", ROW)
    )
    rows = windows.filter(~pl.col("window").is_first_distinct())[ROW]
    return numbered.with_columns(is_duplicate=pl.col(ROW).is_in(rows.implode())).drop(ROW)


def is_one_of(ids: Collection[str]) -> pl.Expr:
    """Return whether `segment_id` is one of `ids`."""
    return pl.col("segment_id").is_in(pl.Series(sorted(ids), dtype=pl.String).implode())
