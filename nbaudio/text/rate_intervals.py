"""Error rates of groups of segments, sums of errors over sums of words, with intervals clustered by speaker.

A speaker's segments are not independent, hence the interval of the ratio R = E / N comes from whole clusters. With E_c errors and
N_c words in cluster c, h_c = N_c / N, and G clusters, the variance is that of the delete-one jackknife,

    v = (G - 1) / G * sum(((E_c - R N_c) / (N (1 - h_c))) ** 2)

(Wolter, Introduction to Variance Estimation, 2nd ed. 2007, chapter 4). Without the leverage 1 - h_c it is Taylor linearization
(Cochran, Sampling Techniques, 3rd ed. 1977, section 6.4), whose intervals are too short for few and unequal clusters. Student's t
has the degrees of freedom of Bell and McCaffrey (Survey Methodology 28, 2002), trace(M) ** 2 / trace(M ** 2), where M is the
covariance of the jackknife's terms if all speakers' rates vary alike: G - 1 for equal clusters, fewer if a few have most words.
"""

from collections.abc import Mapping
from itertools import chain

import polars as pl

from nbaudio.text.edit_distance import edit_counts

_RATES = {"wer": ("word_edits", "words"), "cer": ("inner_edits", "inner_length"), "wer_difference": ("more", "both")}


def clustered_rates(frame: pl.DataFrame, text: str, hypotheses: Mapping[str, str], confidence: float) -> pl.DataFrame:
    """Return WER and CER of hypotheses, columns by name, for each `group` of a frame, with intervals clustered by `cluster`.

    With several hypotheses there is the paired difference to the first, of the segments that both have. A rate is null without
    words, its bounds with fewer than two clusters.
    """
    from scipy.special import stdtrit

    rates = _RATES if len(hypotheses) > 1 else {name: _RATES[name] for name in ("wer", "cer")}
    sums = sorted({column for pair in _RATES.values() for column in pair})
    schema = dict.fromkeys(("group", "cluster", "hypothesis"), pl.String) | dict.fromkeys(sums, pl.Int64)
    parts, first = [pl.DataFrame(schema=schema)], pl.Series([None], dtype=pl.Int64)
    for place, (name, column) in enumerate(hypotheses.items()):
        counts = edit_counts(frame[text], frame[column], measures=("wer", "cer"))
        more = pl.col("word_edits") - pl.lit(first)
        counts = counts.with_columns(more=more, both=pl.when(more.is_not_null()).then("words"))
        parts.append(frame.select("group", "cluster", hypothesis=pl.lit(name)).hstack(counts).select(*schema))
        first = first if place else counts["word_edits"]
    every = pl.concat(parts).drop_nulls("words")
    keys = ["group", "hypothesis"]
    sizes = every.group_by(keys).agg(segments=pl.len())
    clusters = every.group_by(*keys, "cluster").agg(pl.col(sums).sum()).sort("cluster")
    estimates = (_jackknife(name, pl.col(errors), pl.col(units)) for name, (errors, units) in rates.items())
    found = clusters.group_by(keys).agg(pl.col("words").sum(), *chain.from_iterable(estimates))
    for name in rates:
        freedom = found[f"{name}_freedom"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        half = pl.col(f"{name}_error") * pl.Series(stdtrit(freedom, (1 + confidence) / 2)).fill_nan(None)
        low = pl.col(name) - half
        low = low.clip(0) if name in ("wer", "cer") else low
        found = found.with_columns(low.alias(f"{name}_low"), (pl.col(name) + half).alias(f"{name}_high"))
    columns = (name + side for name in rates for side in ("", "_low", "_high"))
    return sizes.join(found, on=keys).select(*keys, pl.col("segments").cast(pl.Int64), "words", *columns)


def _jackknife(name: str, errors: pl.Expr, units: pl.Expr) -> tuple[pl.Expr, ...]:
    """Return a rate, its standard error and its degrees of freedom, of the clusters of a group."""
    total, counted = units.sum(), (units > 0).sum()
    rate, h = errors.sum() / total, units / total
    terms, d = (errors - rate * units) / total / (1 - h), 1 / (1 - h) ** 2
    # M = D (S - h s' - s h' + p h h') D, with diagonal S and D: s = h ** 2 is the diagonal of S, p its trace, d that of D ** 2.
    s, p = h**2, (h**2).sum()
    hh, hs, ss = (d * h**2).sum(), (d * h * s).sum(), (d * s**2).sum()
    rest = p * s - 2 * h * s
    square = 2 * hh * ss + (p * hh) ** 2 + 2 * hs**2 - 4 * p * hh * hs + (d**2 * (s**2 + 2 * s * rest)).sum()
    several = pl.when(counted > 1)
    return (
        pl.when(total > 0).then(rate).alias(name),
        several.then(((counted - 1) / counted * (terms**2).sum()).sqrt()).alias(f"{name}_error"),
        several.then((d * (s + rest)).sum() ** 2 / square).alias(f"{name}_freedom"),
    )
