"""Precision against threshold, from a weighted sample; docs/evidence.md has the method, its sources and how it was tested.

Of the N segments that a threshold keeps, E are wrong, and precision is 1 - E / N. E is estimated by the sum of the weights of
those judged wrong. An ``unsure`` verdict counts as wrong in the estimate and in lower bounds of precision, as right in upper
bounds. Segments that no round could have drawn count as wrong in lower bounds and as right in upper ones, and are left out of the
estimate. No bound contradicts the observations: E is at least the number seen wrong and at most N less the number seen right.

The variance of the estimate is summed over cells; a cell is a round and a stratum, in which the design fixes the number n that is
judged. It is the sum of the squared weights of the wrong ones less (1 - 1/n) / n times the squared sum of their weights: binomial
for large n, Poisson for n = 1. Lower bounds of E omit the reduction, so that they hold where nearly all is wrong.

Bounds: `low` and `high` are two-sided, for each threshold by itself; `low_all` and `high_all` hold for all thresholds at once
(Bonferroni over `KNOTS` thresholds between which the sample grows by equal parts; in between, E can only grow as the threshold
falls); `at_least` is one-sided, and `proven` says whether it holds for the lowest threshold of a search.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from nbaudio.core.errors import InputError
from nbaudio.proof.sampling_weights import Sample

KNOTS = 20
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """Sums above each threshold, in ascending order of thresholds."""

    segments: Array  # kept, reviewed or not
    hours: Array  # kept, reviewed or not
    uncovered: Array  # kept segments that no round could have drawn
    right: Array  # judged right
    wrong: Array  # judged wrong
    unsure: Array  # judged neither
    total: tuple[Array, Array]  # the sum of the weights of the wrong ones; `[0]` with the unsure ones, `[1]` without
    squares: tuple[Array, Array]  # the sum of their squares, likewise; `[0]` less what the design fixes
    largest: Array  # the largest weight of a judged segment
    possible: Array  # the largest weight that any kept segment could have had, by the strategies alone

    def most(self, level: float) -> Array:
        """Return one-sided upper bounds of E."""
        found = upper(self.total[0], self.squares[0], self.heaviest, level=level) + self.uncovered
        return np.minimum(found, self.segments - self.right)

    def fewest(self, level: float) -> Array:
        """Return one-sided lower bounds of E."""
        found = np.minimum(lower(self.total[1], self.squares[1], level=level), self.segments - self.right - self.unsure)
        return np.maximum(found, self.wrong)

    @property
    def heaviest(self) -> Array:
        """The largest weight that one more wrong segment might have."""
        return np.maximum(self.largest, self.possible)

    @property
    def judged(self) -> Array:
        """The number of judged segments."""
        return self.right + self.wrong + self.unsure


def lower(total: ArrayLike, squares: ArrayLike, *, level: float) -> Array:
    """Return a lower bound of the total with one-sided confidence `level`, from the sums of weights and of their squares."""
    return _gamma_quantile(np.asarray(total, dtype=float), np.asarray(squares, dtype=float), 1 - level)


def upper(total: ArrayLike, squares: ArrayLike, heaviest: ArrayLike, *, level: float) -> Array:
    """Return an upper bound of the total as `lower` does; `heaviest` is the largest weight that an event could have had.

    Fay and Feuer (Statistics in Medicine 16, 1997, 791-801), for weighted sums of Poisson counts. With equal weights it is exact
    (Garwood, 1936) and on the safe side of Clopper and Pearson; with no event it is the largest weight times -log(1 - level).
    """
    one = np.asarray(heaviest, dtype=float)
    return _gamma_quantile(np.asarray(total, dtype=float) + one, np.asarray(squares, dtype=float) + one**2, level)


def _gamma_quantile(mean: Array, variance: Array, level: float) -> Array:
    """Return a quantile of the gamma distribution with this mean and variance; 0 if the mean is."""
    mean, variance = np.broadcast_arrays(mean, variance)
    known = mean > 0
    if not known.any():
        return np.zeros(mean.shape)
    from scipy.special import gammaincinv  # takes 0.1 s to import

    scale = np.divide(variance, mean, out=np.zeros(mean.shape), where=known)
    shape = np.divide(mean, scale, out=np.ones(mean.shape), where=known)
    quantile: Array = gammaincinv(shape, level) * scale
    return quantile


def curve(sample: Sample, *, precision: float = 0.98, confidence: float = 0.95, thresholds: Array | None = None) -> pl.DataFrame:
    """Compute precision and its bounds for each threshold (ascending; by default from -1 to 1 in steps of 0.01).

    The argument `precision` is the target share of right segments. The column is null if nothing was reviewed, bounds (see the
    module) are if nothing is kept; `proven`: the target precision is proven with the confidence; `more`: how many more reviews of
    the same kind would probably prove it, 0 if `at_least` suffices, null if the estimate does not.
    """
    for name, value in (("precision", precision), ("confidence", confidence)):
        if isinstance(value, bool) or not 0 < value < 1:
            raise InputError(f"{name} must be between 0 and 1, not {value}")
    grid = np.arange(-100, 101) / 100 if thresholds is None else np.asarray(thresholds, dtype=float)
    sums = add_up(sample, grid)
    most_all, fewest_all = band(sums, confidence)
    estimate = np.clip(sums.total[0], sums.wrong + sums.unsure, sums.segments - sums.uncovered - sums.right)
    side = (1 + confidence) / 2

    def share(wrong: Array, of: Array, known: NDArray[np.bool_]) -> pl.Series:
        return pl.Series(np.where(known, 1 - wrong / np.maximum(of, 1), np.nan)).fill_nan(None)

    kept = sums.segments > 0
    return pl.DataFrame(
        {
            "threshold": grid,
            "segments": sums.segments.astype(np.int64),
            "hours": sums.hours,
            "reviewed": sums.judged.astype(np.int64),
            "wrong": sums.wrong.astype(np.int64),
            "unsure": sums.unsure.astype(np.int64),
            "precision": share(estimate, sums.segments - sums.uncovered, sums.judged > 0),
            "low": share(sums.most(side), sums.segments, kept),
            "high": share(sums.fewest(side), sums.segments, kept),
            "low_all": share(most_all, sums.segments, kept),
            "high_all": share(fewest_all, sums.segments, kept),
            "at_least": share(sums.most(confidence), sums.segments, kept),
            "proven": proven(sums, precision=precision, confidence=confidence),
            "more": pl.Series(more_reviews(sums, precision=precision, confidence=confidence)).fill_nan(None).cast(pl.Int64),
        }
    )


def add_up(sample: Sample, thresholds: Array) -> Sums:
    """Compute counts and sums above each threshold, given in ascending order."""
    population = _Ranked(sample.population["similarity"], thresholds)
    judged = _Ranked(sample.judged["similarity"], thresholds)
    rate = sample.population["rate"].to_numpy()
    verdict, weight = sample.judged["verdict"], sample.judged["weight"].to_numpy()
    right, wrong, unsure = ((verdict == word).to_numpy() for word in ("right", "wrong", "unsure"))
    weighed = (weight * ~right, weight * wrong)
    possible = np.divide(1.0, rate, out=np.zeros(len(rate)), where=rate > 0)
    return Sums(
        segments=population.sums(np.ones(len(rate))),
        hours=population.sums(sample.population["hours"].fill_null(0.0).to_numpy()),
        uncovered=population.sums(rate <= 0),
        right=judged.sums(right),
        wrong=judged.sums(wrong),
        unsure=judged.sums(unsure),
        total=(judged.sums(weighed[0]), judged.sums(weighed[1])),
        squares=(judged.sums(weighed[0] ** 2) - judged.fixed(weighed[0], sample.judged), judged.sums(weighed[1] ** 2)),
        largest=judged.largest(weight),
        possible=population.largest(possible),
    )


def band(sums: Sums, confidence: float) -> tuple[Array, Array]:
    """Return upper and lower bounds of E for all thresholds at once, in a share `confidence` of all samples or more."""
    knots = _knots(sums.judged)
    level = 1 - (1 - confidence) / (2 * max(1, len(knots)))
    most = np.full(len(knots) + 1, np.inf)
    fewest = np.zeros(len(knots) + 1)
    if len(knots):
        # E above a threshold is no more than above any lower knot, and no less than above any higher one.
        most[1:] = np.minimum.accumulate(sums.most(level)[knots])
        fewest[:-1] = np.maximum.accumulate(sums.fewest(level)[knots][::-1])[::-1]
    places = np.arange(len(sums.segments))
    above = most[np.searchsorted(knots, places, "right")]
    below = fewest[np.searchsorted(knots, places, "left")]
    return np.minimum(above, sums.segments - sums.right), np.maximum(below, sums.wrong)


def proven(sums: Sums, *, precision: float, confidence: float) -> NDArray[np.bool_]:
    """Return which thresholds are proven to keep the target precision; the chance that any does not is 1 - confidence at most.

    Thresholds are tested from the highest to the lowest by `at_least`, each at the full level as long as all before have passed
    (Maurer, Hothorn and Lehmacher, 1995). The level is divided over the starts, and a sequence that passes hands its level on
    (the fallback procedure: Wiens and Dmitrienko, 2005). The starts follow from the strategies, not from verdicts.
    """
    found = np.zeros(len(sums.segments), dtype=bool)
    allowed = (1 - precision) * sums.segments
    starts = _starts(sums, precision, confidence)
    error = 0.0
    for start, end in pairwise([*starts, -1]):
        error += (1 - confidence) / len(starts)
        passes = (sums.most(1 - error) <= allowed)[end + 1 : start + 1]
        failed = np.flatnonzero(~passes).max(initial=-1) + 1
        found[end + 1 + failed : start + 1] = True
        error *= not failed
    # If all segments have been judged, nothing is left to chance.
    return found | ((sums.judged >= sums.segments) & (sums.segments > 0) & (sums.wrong + sums.unsure <= allowed))


def more_reviews(sums: Sums, *, precision: float, confidence: float) -> Array:
    """Return how many more reviews would probably bring `at_least` to the target precision; NaN if the estimate is below it."""
    total, squares = sums.total[0], sums.squares[0]
    allowed = (1 - precision) * sums.segments - sums.uncovered
    low, high = np.zeros(len(total)), np.full(len(total), np.log(1e6))
    for _ in range(40):
        middle = (low + high) / 2
        factor = np.exp(middle)  # so many times as many reviews give weights so many times smaller
        enough = upper(total, squares / factor, sums.heaviest / factor, level=confidence) <= allowed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    needed = np.ceil(np.expm1(high) * sums.judged.max(initial=0))
    needed = np.minimum(needed, sums.segments - sums.judged)
    needed = np.where(sums.most(confidence) <= (1 - precision) * sums.segments, 0, needed)
    return np.where((total < allowed) & (sums.segments > 0) & (sums.judged > 0), needed, np.nan)


def min_sample_size(*, precision: float, confidence: float) -> int:
    """Return how many reviews prove a precision if none of them finds a fault."""
    return int(np.ceil(-np.log(1 - confidence) / (1 - precision)))


def _starts(sums: Sums, precision: float, confidence: float) -> list[int]:
    """Return where testing starts, from the highest threshold: each has about twice the sample of the one before."""
    size = np.divide(sums.segments, sums.possible, out=np.zeros(len(sums.possible)), where=sums.possible > 0)
    reached = np.maximum.accumulate(size[::-1])
    least = min_sample_size(precision=precision, confidence=confidence)
    doublings = [1.5 * least * 2**power for power in range(64) if 1.5 * least * 2**power <= reached[-1]]
    wanted = doublings or [least] * bool(reached[-1] >= least)
    places = (len(reached) - 1 - np.searchsorted(reached, wanted, "left")).tolist()
    return sorted(set(places), reverse=True)


def _knots(judged: Array) -> NDArray[np.int64]:
    """Return thresholds between which the sample grows by equal parts, ascending."""
    wanted = judged.max(initial=0) * np.arange(1, KNOTS + 1) / KNOTS
    places = len(judged) - 1 - np.searchsorted(judged[::-1], wanted, "left")
    return np.unique(np.append(places, 0)) if wanted[-1] > 0 else np.zeros(0, dtype=np.int64)


class _Ranked:
    """Sums over the segments at or above each threshold; those without a score are above all."""

    def __init__(self, score: pl.Series, thresholds: Array) -> None:
        values = score.fill_null(float("inf")).to_numpy()
        self._order = np.argsort(values, kind="stable")
        self._first = np.searchsorted(values[self._order], thresholds, "left")

    def sums(self, values: Array | NDArray[np.bool_]) -> Array:
        from_top = np.cumsum(values[self._order][::-1], dtype=float)[::-1]
        return np.append(from_top, 0.0)[self._first]

    def fixed(self, values: Array, cells: pl.DataFrame) -> Array:
        """Return the part of the sum of squares that the fixed number judged in each cell takes away (see the module)."""
        frame = cells.select("cell", "cell_size", value=pl.Series(values, dtype=pl.Float64))[self._order[::-1]]
        before = pl.col("value").cum_sum().over("cell") - pl.col("value")
        size = pl.col("cell_size")
        parts = frame.select((2 * before + pl.col("value")) * pl.col("value") * (1 - 1 / size) / size)
        return np.append(parts.to_series().cum_sum().to_numpy()[::-1], 0.0)[self._first]

    def largest(self, values: Array) -> Array:
        from_top = np.maximum.accumulate(values[self._order][::-1])[::-1]
        return np.append(from_top, 0.0)[self._first]
