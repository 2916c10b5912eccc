"""Error rates of groups of segments with intervals clustered by speaker.

A rate R of a group is its sum of errors over its sum of units N, which are words or characters.
With E_c errors and N_c units in cluster c of G, the delete-one jackknife gives the variance

    (G - 1) / G * sum(((E_c - R * N_c) / (N - N_c)) ** 2)

(Wolter, Introduction to Variance Estimation, 2nd ed. 2007, chapter 4). With N instead of N - N_c it
would be that of Taylor linearization (Cochran, Sampling Techniques, 3rd ed. 1977, section 6.4),
whose intervals are too short for few and unequal clusters. The interval is that of Student's t with
the degrees of freedom of Bell and McCaffrey (Survey Methodology 28, 2002), which are computed in
`_degrees_of_freedom`.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import polars as pl

from nbaudio.text.edit_distance import edit_counts

# The columns of errors and of units of each rate, see `_cluster_sums`.
_RATES = {
    "wer": ("word_edits", "words"),
    "cer": ("inner_edits", "inner_length"),
    "wer_difference": ("word_edits_beyond_first", "words_of_both"),
}
_SUMS = ["segments", *sorted({column for pair in _RATES.values() for column in pair})]
_KEYS = ["group", "hypothesis"]
_CLUSTER_SUMS = pl.Schema(
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
    sums_of_frames = [pl.DataFrame(schema=_CLUSTER_SUMS)]
    for frame in frames:
        sums_of_frames.extend(_cluster_sums(frame, text, hypotheses))
    # A cluster may have segments in several frames.
    by_cluster = pl.concat(sums_of_frames).group_by(*_KEYS, "cluster")
    clusters = by_cluster.agg(pl.col(_SUMS).sum()).sort("cluster")
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
    """Yield the sums of each cluster, with the columns `_CLUSTER_SUMS`, a frame per hypothesis.

    They are those of the segments with a transcript and the hypothesis. The two columns of the
    difference are about the segments that have the first hypothesis as well:
    `word_edits_beyond_first` is how many more word edits this hypothesis has than the first one,
    `words_of_both` the number of their words. Both are 0 for the first hypothesis itself.
    """
    first_edits: pl.Series | None = None
    for name, column in hypotheses.items():
        counts = edit_counts(frame[text], frame[column], measures=("wer", "cer"))
        if first_edits is None:
            first_edits = counts["word_edits"]
            beyond_first = pl.lit(None, pl.Int64)
        else:
            beyond_first = pl.col("word_edits") - pl.lit(first_edits)
        scored = (
            frame.select("group", "cluster", hypothesis=pl.lit(name))
            .hstack(counts)
            .with_columns(
                word_edits_beyond_first=beyond_first,
                words_of_both=pl.when(beyond_first.is_not_null()).then("words"),
                segments=pl.lit(1, pl.Int64),
            )
            .drop_nulls("words")
        )
        by_cluster = scored.group_by(*_KEYS, "cluster")
        yield by_cluster.agg(pl.col(_SUMS).sum()).select(*_CLUSTER_SUMS)


def _interval(groups: pl.DataFrame, name: str, confidence: float) -> tuple[pl.Expr, pl.Expr]:
    """Return the ends of the interval of a rate, by Student's t; null without degrees of freedom.

    `groups` have the columns of `_jackknife`.
    """
    from scipy.special import stdtrit

    # SciPy has no null: NaN stands for it, and the quantile of NaN is NaN.
    freedom = groups[f"{name}_freedom"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    quantile = pl.Series(stdtrit(freedom, (1 + confidence) / 2)).fill_nan(None)
    half_width = pl.col(f"{name}_error") * quantile
    low = pl.col(name) - half_width
    high = pl.col(name) + half_width
    may_be_negative = name == "wer_difference"
    if not may_be_negative:
        low = low.clip(0)
    return low.alias(f"{name}_low"), high.alias(f"{name}_high")


def _jackknife(name: str, errors: pl.Expr, units: pl.Expr) -> tuple[pl.Expr, ...]:
    """Return a rate, its standard error and its degrees of freedom, of the clusters of a group.

    `errors` and `units` are those of each cluster. The columns of the result are `name`,
    `name_error` and `name_freedom`; the latter two are null with fewer than two clusters that have
    units.
    """
    total = units.sum()
    num_clusters = (units > 0).sum()
    rate = errors.sum() / total
    share = units / total
    # (E_c - R * N_c) / (N - N_c), with both parts of the quotient divided by N.
    terms = (errors - rate * units) / total / (1 - share)
    variance = (num_clusters - 1) / num_clusters * (terms**2).sum()
    has_interval = pl.when(num_clusters > 1)
    return (
        pl.when(total > 0).then(rate).alias(name),
        has_interval.then(variance.sqrt()).alias(f"{name}_error"),
        has_interval.then(_degrees_of_freedom(share)).alias(f"{name}_freedom"),
    )


def _degrees_of_freedom(h: pl.Expr) -> pl.Expr:
    """Return trace(M) ** 2 / trace(M @ M), where M is the covariance of the terms of the variance.

    `h` are the shares of the clusters in the units. If the rates of all clusters vary alike, the
    errors of cluster c have a variance in proportion to s_c = h_c ** 2. A term contains the errors
    of its own cluster and, in R, those of all clusters. With the diagonal matrices S = diag(s) and
    D = diag(1 / (1 - h)), and p = sum(s),

        M = D (I - h 1') S (I - 1 h') D = D (S + B) D, where B = p h h' - h s' - s h'

    Both traces are computed from sums over clusters, so that no matrix is needed.
    """
    d = 1 / (1 - h) ** 2  # the diagonal of D @ D
    s = h**2
    p = s.sum()
    b = p * s - 2 * h * s  # the diagonal of B
    trace = (d * (s + b)).sum()
    # trace(M @ M) is the sum of the squares of all elements of M. The sums below give it for the
    # elements of D B D, the last line of `trace_of_square` what S adds on the diagonal.
    sum_dhh = (d * h**2).sum()
    sum_dhs = (d * h * s).sum()
    sum_dss = (d * s**2).sum()
    trace_of_square = (
        2 * sum_dhh * sum_dss
        + (p * sum_dhh) ** 2
        + 2 * sum_dhs**2
        - 4 * p * sum_dhh * sum_dhs
        + (d**2 * (s**2 + 2 * s * b)).sum()
    )
    return trace**2 / trace_of_square
