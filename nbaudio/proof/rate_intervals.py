"""Error rates of groups of segments with intervals clustered by speaker.

The formula is that of `views.error_rates`.

With N instead of N - N_c it is Taylor linearization (Cochran, Sampling Techniques, 3rd ed. 1977,
section 6.4), whose intervals are too short for few and unequal clusters. The degrees of freedom are
those of Bell and McCaffrey (Survey Methodology 28, 2002): trace(M) ** 2 / trace(M ** 2) with the
covariance M of the terms of the sum if all speakers' rates vary alike.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

import polars as pl

from nbaudio.text.edit_distance import edit_counts

_RATES = {
    "wer": ("word_edits", "words"),
    "cer": ("inner_edits", "inner_length"),
    "wer_difference": ("more", "both"),
}


def clustered_rates(  # noqa: PLR0914
    frames: Iterable[pl.DataFrame], text: str, hypotheses: Mapping[str, str], confidence: float
) -> pl.DataFrame:
    """Return the rows of `views.error_rates` for each `group` of frames, in no order.

    The segments are clustered by the column `cluster` of the frames.
    """
    from scipy.special import stdtrit

    rates = _RATES if len(hypotheses) > 1 else {name: _RATES[name] for name in ("wer", "cer")}
    sums = ["segments", *sorted({column for pair in _RATES.values() for column in pair})]
    schema = dict.fromkeys(("group", "cluster", "hypothesis"), pl.String) | dict.fromkeys(
        sums, pl.Int64
    )
    keys = ["group", "hypothesis"]
    parts = [pl.DataFrame(schema=schema)]
    for frame in frames:
        first = pl.Series([None], dtype=pl.Int64)
        for place, (name, column) in enumerate(hypotheses.items()):
            counts = edit_counts(frame[text], frame[column], measures=("wer", "cer"))
            more = pl.col("word_edits") - pl.lit(first)
            counts = counts.with_columns(
                more=more,
                both=pl.when(more.is_not_null()).then("words"),
                segments=pl.lit(1, pl.Int64),
            )
            counted = (
                frame.select("group", "cluster", hypothesis=pl.lit(name))
                .hstack(counts)
                .drop_nulls("words")
            )
            parts.append(counted.group_by(*keys, "cluster").agg(pl.col(sums).sum()).select(*schema))
            first = first if place else counts["word_edits"]
    clusters = pl.concat(parts).group_by(*keys, "cluster").agg(pl.col(sums).sum()).sort("cluster")
    estimates = (
        _jackknife(name, pl.col(errors), pl.col(units)) for name, (errors, units) in rates.items()
    )
    found = clusters.group_by(keys).agg(
        pl.col("segments", "words").sum(), *chain.from_iterable(estimates)
    )
    for name in rates:
        freedom = found[f"{name}_freedom"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        half = pl.col(f"{name}_error") * pl.Series(stdtrit(freedom, (1 + confidence) / 2)).fill_nan(
            None
        )
        low = pl.col(name) - half
        low = low.clip(0) if name in ("wer", "cer") else low
        found = found.with_columns(
            low.alias(f"{name}_low"), (pl.col(name) + half).alias(f"{name}_high")
        )
    columns = (name + side for name in rates for side in ("", "_low", "_high"))
    return found.select(*keys, "segments", "words", *columns)


def _jackknife(name: str, errors: pl.Expr, units: pl.Expr) -> tuple[pl.Expr, ...]:
    """Return a rate, its standard error and its degrees of freedom, of the clusters of a group."""
    total = units.sum()
    counted = (units > 0).sum()
    rate = errors.sum() / total
    h = units / total
    terms = (errors - rate * units) / total / (1 - h)
    d = 1 / (1 - h) ** 2
    # M = D (S - h s' - s h' + p h h') D, with diagonal S and D: s = h ** 2 is the diagonal of S, p
    # its trace, d that of D ** 2.
    s = h**2
    p = (h**2).sum()
    hh = (d * h**2).sum()
    hs = (d * h * s).sum()
    ss = (d * s**2).sum()
    rest = p * s - 2 * h * s
    square = (
        2 * hh * ss
        + (p * hh) ** 2
        + 2 * hs**2
        - 4 * p * hh * hs
        + (d**2 * (s**2 + 2 * s * rest)).sum()
    )
    several = pl.when(counted > 1)
    return (
        pl.when(total > 0).then(rate).alias(name),
        several.then(((counted - 1) / counted * (terms**2).sum()).sqrt()).alias(f"{name}_error"),
        several.then((d * (s + rest)).sum() ** 2 / square).alias(f"{name}_freedom"),
    )
