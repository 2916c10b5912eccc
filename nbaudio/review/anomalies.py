"""Anomalies: segments that look wrong before anyone listens, by their characters, speech rate, silences, or as duplicates."""

import polars as pl

from nbaudio.text.near import sentences

_RARE = 0.01  # an odd character that more segments have is a habit of the transcripts
# Accents that do not compose are odd; marks of a script, such as vowel signs, are not.
_ODD = r"[^\p{L}\p{M}\p{Nd} ]|[\u0300-\u036f]"
_DEVIATIONS = 4.0
_LEAST_DEVIATION = 0.1  # where the speech rate hardly varies, small differences are no anomaly
_SILENCE_S = 2.0
_DUPLICATE_CHARACTERS = 20


def anomaly_reasons(pool: pl.DataFrame) -> pl.DataFrame:
    """Return `reason`, one row per segment: the first anomaly that applies, null for none.

    Reasons, in order: ``duplicate audio`` (half of it is in another segment of its recording too), ``duplicate text``
    (the same sentence as folded by `text.near.sentences`, 20 characters or more), ``fast`` and ``slow`` (characters per second,
    on a logarithmic scale more than four deviations from the median; a deviation is the median absolute one times 1.4826, and
    0.1 at least), ``long silence`` (2 s or more without a word; needs `word_times`), ``odd characters`` (no letter, vowel sign,
    digit or blank, in less than 1 % of the segments). A check is skipped if its columns (of `tables.SEGMENTS`) are missing.
    """
    rules = {
        "duplicate audio": (_overlapping, ("recording_id", "start_sample", "end_sample")),
        "duplicate text": (_repeated, ("text",)),
        "fast": (lambda frame: _speed(frame) > _DEVIATIONS, ("text", "source_start", "source_end")),
        "slow": (lambda frame: _speed(frame) < -_DEVIATIONS, ("text", "source_start", "source_end")),
        "long silence": (_silent, ("word_times",)),
        "odd characters": (_odd, ("text",)),
    }
    found = {
        name: rule(pool).fill_null(value=False).alias(name)
        for name, (rule, columns) in rules.items()
        if all(column in pool.columns for column in columns)
    }
    hits = pl.DataFrame(list(found.values()))
    return hits.select(reason=pl.coalesce(*(pl.when(name).then(pl.lit(name)) for name in found), pl.lit(None, dtype=pl.String)))


def _overlapping(pool: pl.DataFrame) -> pl.Series:
    start, end = pl.col("start_sample"), pl.col("end_sample")
    ordered = pool.select("recording_id", start, end).with_row_index("row").sort("recording_id", start, end)
    reach = end.cum_max().shift(1).over("recording_id") - start
    after = pl.min_horizontal(end, end.shift(-1).over("recording_id")) - start.shift(-1).over("recording_id")
    return ordered.with_columns(hit=(2 * pl.max_horizontal(reach, after) >= end - start) & (end > start)).sort("row")["hit"]


def _repeated(pool: pl.DataFrame) -> pl.Series:
    folded = pool.select(sentences(pl.col("text"))).to_series()
    return folded.is_duplicated() & (folded.str.len_chars() >= _DUPLICATE_CHARACTERS)


def _speed(pool: pl.DataFrame) -> pl.Series:
    """Return the deviations from the median speech rate."""
    times = [pool[name].cast(pl.Float64, strict=False) for name in ("source_start", "source_end")]
    speed = (pool["text"].str.len_chars() / (times[1] - times[0])).log()
    speed = pl.select(pl.when(speed.is_finite()).then(speed)).to_series()
    from_median = speed - speed.median()
    usual = 1.4826 * float(from_median.abs().median() or 0.0)  # type: ignore[arg-type]  # the median of numbers is a number
    return from_median / max(usual, _LEAST_DEVIATION)


def _silent(pool: pl.DataFrame) -> pl.Series:
    words = pl.element().struct
    gaps = pl.col("word_times").list.eval(words.field("start") - words.field("end").shift(1)).list.max()
    return pool.select(gaps >= _SILENCE_S).to_series()


def _odd(pool: pl.DataFrame) -> pl.Series:
    found = pool.select(odd=pl.col("text").str.extract_all(_ODD).list.unique()).with_row_index("row").explode("odd").drop_nulls()
    rare = found.filter(pl.len().over("odd") < max(2, _RARE * len(pool)))
    return pl.Series(range(len(pool)), dtype=pl.UInt32).is_in(rare["row"].implode())
