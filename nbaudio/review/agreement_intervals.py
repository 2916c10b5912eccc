"""Intervals of kappa and alpha that hold for few segments and for rare faults.

The share of each pattern of verdicts has a Dirichlet distribution, given how often the pattern
occurs and two segments more: one on which all reviewers agree, and one on which a single reviewer
differs. Each of these two is spread evenly over the words. docs/evidence-method.md has the
sources.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DRAWS = 4000
# Of the error that is left beyond each end: verdicts are few and discrete, and with the whole error
# intervals hold in 90 % of samples in the least favourable case.
_PART_OF_ERROR = 0.6


@dataclass(frozen=True)
class Interval:
    """The ends of an interval."""

    low: float
    high: float


def prior_of_table(words: int) -> NDArray[np.float64]:
    """Return the two further segments as a table of two reviewers' words, shape (words, words)."""
    agreeing = np.eye(words)
    differing = 1.0 - agreeing
    return np.asarray(agreeing / agreeing.sum() + differing / differing.sum())


def prior_patterns(words: int, reviewers: int) -> NDArray[np.int_]:
    """Return the patterns that the two further segments are spread over.

    A pattern says how many of the reviewers chose each word; the shape is (patterns, words). The
    first ones, as many as there are words, are those in which all agree.
    """
    unit = np.eye(words, dtype=int)
    agreeing = reviewers * unit
    differing = [
        (reviewers - 1) * unit[most] + unit[other]
        for most in range(words)
        for other in range(words)
        if most != other
    ]
    return np.vstack([agreeing, *differing])


def prior_of_patterns(words: int) -> NDArray[np.float64]:
    """Return the share of the two further segments that each of `prior_patterns` has."""
    number_differing = words * (words - 1)
    agreeing = np.full(words, 1 / words)
    differing = np.full(number_differing, 1 / number_differing)
    return np.concatenate([agreeing, differing])


def drawn_shares(counts: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Draw shares of patterns from the Dirichlet distribution with these parameters.

    Args:
        counts: how often each pattern occurs, with what the prior adds to it.
        seed: of the draws.

    Returns:
        Shares that sum to 1, shape (draws, patterns).
    """
    gamma = np.random.default_rng(seed).standard_gamma(counts, size=(_DRAWS, len(counts)))
    return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))


def interval_of(draws: NDArray[np.float64], value: float, confidence: float) -> Interval:
    """Return the central interval of drawn values, extended to the value that was observed.

    It reaches to 1 if all reviewers agree.
    """
    side = _PART_OF_ERROR * (1 - confidence) / 2
    low, high = np.nanquantile(draws, [side, 1 - side])
    return Interval(min(float(low), value), max(float(high), value))
