"""Error rates of groups of segments with intervals clustered by speaker.

The formula is that of `views.error_rates`.

With N instead of N - N_c it is Taylor linearization (Cochran, Sampling Techniques, 3rd ed. 1977,
section 6.4), whose intervals are too short for few and unequal clusters. The degrees of freedom are
those of Bell and McCaffrey (Survey Methodology 28, 2002): trace(M) ** 2 / trace(M ** 2) with the
covariance M of the terms of the sum if all speakers' rates vary alike.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import polars as pl

from nbaudio.text.edit_distance import edit_counts

# The sums of errors and of units of each rate.
_RATES = {
    "wer": ("word_edits", "words"),
    "cer": ("inner_edits", "inner_length"),
    "wer_difference": ("more", "both"),
}
_SUMS = ["segments", *sorted({column for pair in _RATES.values() for column in pair})]
_KEYS = ["group", "hypothesis"]
_CLUSTERS = pl.Schema(
    {
        **dict.fromkeys(("group", "cluster", "hypothesis"), pl.String),
        **dict.fromkeys(_SUMS, pl.Int64),
    }
)


def clustered_rates(
    frames: Iterable[pl.DataFrame], text: str, hypotheses: Mapping[str, str], confidence: float
) -> pl.DataFrame:
    """Return the rows of `views.error_rates` for each `group` of frames, in no order.

    Args:
        frames: segments with the columns `group` and `cluster` (strings), `text` and those of
            hypotheses.
        text: the column of the transcript.
        hypotheses: the column of each hypothesis; WER of others are compared with the first one.
        confidence: of the intervals, above 0 and below 1.
    """
    if len(hypotheses) > 1:
        rates = _RATES
    else:
        rates = {name: _RATES[name] for name in ("wer", "cer")}
    parts = [pl.DataFrame(schema=_CLUSTERS)]
    for frame in frames:
        parts.extend(_cluster_sums(frame, text, hypotheses))
    clusters = pl.concat(parts).group_by(*_KEYS, "cluster").agg(pl.col(_SUMS).sum()).sort("cluster")
    estimates = (
        _jackknife(name, pl.col(errors), pl.col(units)) for name, (errors, units) in rates.items()
    )
    groups = clusters.group_by(_KEYS).agg(
        pl.col("segments", "words").sum(), *chain.from_iterable(estimates)
    )
    intervals = groups.with_columns(
        *chain.from_iterable(_interval(groups, name, confidence) for name in rates)
    )
    columns = (name + side for name in rates for side in ("", "_low", "_high"))
    return intervals.select(*_KEYS, "segments", "words", *columns)


def _cluster_sums(
    frame: pl.DataFrame, text: str, hypotheses: Mapping[str, str]
) -> Iterator[pl.DataFrame]:
    """Yield the sums (see `_CLUSTERS`) of the scored segments of a frame, by hypothesis.

    `more` is how many more word edits a hypothesis has than the first one, `both` the number of
    words in segments that have the two; both are 0 for the first one.
    """
    first_edits = pl.Series([None], dtype=pl.Int64)
    for place, (name, column) in enumerate(hypotheses.items()):
        counts = edit_counts(frame[text], frame[column], measures=("wer", "cer"))
        more = pl.col("word_edits") - pl.lit(first_edits)
        scored = (
            frame.select("group", "cluster", hypothesis=pl.lit(name))
            .hstack(counts)
            .with_columns(
                more=more,
                both=pl.when(more.is_not_null()).then("words"),
                segments=pl.lit(1, pl.Int64),
            )
            .drop_nulls("words")
        )
        yield scored.group_by(*_KEYS, "cluster").agg(pl.col(_SUMS).sum()).select(*_CLUSTERS)
        if place == 0:
            first_edits = counts["word_edits"]


def _interval(groups: pl.DataFrame, name: str, confidence: float) -> tuple[pl.Expr, pl.Expr]:
    """Return the ends of the interval of a rate, by Student's t; null without degrees of freedom.

    `groups` have the columns of `_jackknife`.
    """
    from scipy.special import stdtrit

    freedom = groups[f"{name}_freedom"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    quantile = pl.Series(stdtrit(freedom, (1 + confidence) / 2)).fill_nan(None)
    half_width = pl.col(f"{name}_error") * quantile
    low = pl.col(name) - half_width
    high = pl.col(name) + half_width
    # A difference of rates may be negative.
    low = low.clip(0) if name in ("wer", "cer") else low
    return low.alias(f"{name}_low"), high.alias(f"{name}_high")


def _jackknife(name: str, errors: pl.Expr, units: pl.Expr) -> tuple[pl.Expr, ...]:
    """Return a rate, its standard error and its degrees of freedom, of the clusters of a group.

    The columns are `name`, `name_error` and `name_freedom`; the latter two are null with fewer than
    two clusters that have units. See the module for the sources.
    """
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
