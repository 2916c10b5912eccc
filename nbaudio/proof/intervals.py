"""Confidence bounds on a total that is estimated by a weighted sum of rare events.

The method is that of Fay and Feuer (Statistics in Medicine 16, 1997, 791-801), made for weighted sums of Poisson counts. A sum of
weights y with the sum of squared weights v is taken as gamma distributed with mean y and variance v; the upper bound adds one
more event with the largest possible weight. With equal weights these are the exact bounds for a Poisson
count (Garwood, 1936), which contain those for a binomial (Clopper and Pearson) and for a hypergeometric count, so they err on the
safe side; with no event at all the upper bound is the largest weight times -log(1 - level), the "rule of three".

All arguments are arrays of one shape, or numbers; totals and weights are in segments.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def lower(total: ArrayLike, squares: ArrayLike, *, level: float) -> NDArray[np.float64]:
    """Return a lower bound of the total with one-sided confidence `level`, from the sums of weights and of their squares."""
    return _gamma_quantile(np.asarray(total, dtype=float), np.asarray(squares, dtype=float), 1 - level)


def upper(total: ArrayLike, squares: ArrayLike, heaviest: ArrayLike, *, level: float) -> NDArray[np.float64]:
    """Return an upper bound of the total as `lower` does; `heaviest` is the largest weight that an event could have had."""
    one = np.asarray(heaviest, dtype=float)
    return _gamma_quantile(np.asarray(total, dtype=float) + one, np.asarray(squares, dtype=float) + one**2, level)


def _gamma_quantile(mean: NDArray[np.float64], variance: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """Return a quantile of the gamma distribution with this mean and variance; 0 if the mean is."""
    mean, variance = np.broadcast_arrays(mean, variance)
    known = mean > 0
    if not known.any():
        return np.zeros(mean.shape)
    from scipy.special import gammaincinv  # takes 0.1 s to import

    scale = np.divide(variance, mean, out=np.zeros(mean.shape), where=known)
    shape = np.divide(mean, scale, out=np.ones(mean.shape), where=known)
    quantile: NDArray[np.float64] = gammaincinv(shape, level) * scale
    return quantile
