"""Divide a sample among strata for a proof with as few reviews as possible.

What is to be proven is that few segments are wrong; see docs/evidence-method.md.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A proof must exclude a larger rate than that of the wrong segments.
_TARGET, _LEAST_ROOM = 0.98, 1.2


def largest_rates(rate: Array, divergence: float) -> Array:
    """Return for each rate p the largest q with a divergence D(p || q) of at most `divergence`.

    The divergence is that of Kullback and Leibler.
    """
    low = rate.copy()
    high = np.ones_like(rate)
    for _ in range(40):
        q = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = rate * np.log(rate / q) + (1 - rate) * np.log((1 - rate) / (1 - q))
        low = np.where(apart <= divergence, q, low)
        high = np.where(apart <= divergence, high, q)
    return low


def least_divergence(sizes: Array, rate: Array, wrong: float) -> float:
    """Return the least T for which ``sum(sizes * largest_rates(rate, T))`` reaches `wrong`.

    `wrong` is a number of wrong segments.
    """
    low = 0.0
    high = 10.0
    for _ in range(40):
        middle = (low + high) / 2
        if float(sizes @ largest_rates(rate, middle)) >= wrong:
            high = middle
        else:
            low = middle
    return high


def best_allocation(sizes: Array, rate: Array) -> Array:
    """Return the shares of a sample with which the null that is hardest to refute loses fastest.

    See docs/evidence-method.md.
    """
    wrong = max((1 - _TARGET) * sizes.sum() + 1, _LEAST_ROOM * float(sizes @ rate))
    q = largest_rates(rate, least_divergence(sizes, rate, wrong))
    weight = sizes * q * (1 - q) / np.maximum(q - rate, 1e-12)
    return np.asarray(weight / weight.sum())
