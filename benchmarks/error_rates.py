"""Measure the coverage of the intervals of `views.error_rates` by simulation.

There are few speakers of unequal size, who differ much.

    python benchmarks/error_rates.py [--runs 20000] [--seed 42]

A run draws 8, 20 or 60 speakers. Their words are equal in number, or log-normal with a deviation of
1 or 1.5 of the logarithm. Their true rates have the mean 0.15 and are beta (deviation 0.1), or
log-normal (deviation 0.14) with a long tail of bad speakers. Errors come in bursts (negative
binomial, twice the variance of Poisson). An interval covers if it holds 0.15. `taylor` is
linearization with Student's t and G - 1 degrees of freedom; `jackknife` is what nbaudio computes.
"""

import argparse
import itertools

import numpy as np
import polars as pl
from scipy import stats

from nbaudio.proof.rate_intervals import _jackknife

SPEAKERS, SPREADS, SHAPES = (8, 20, 60), (0.0, 1.0, 1.5), ("beta", "log-normal")
MEAN = 0.15


def draw(
    rng: np.random.Generator, runs: int, speakers: int, spread: float, shape: str
) -> tuple[np.ndarray, np.ndarray]:
    """Errors and words of each speaker of each run."""
    words = np.maximum((2000 * np.exp(rng.normal(0, spread, (runs, speakers)))).round(), 20)
    if shape == "beta":
        rates = rng.beta(1.7625, 9.9875, words.shape)
    else:
        rates = MEAN * np.exp(rng.normal(-0.32, 0.8, words.shape))
    return rng.negative_binomial(words * rates / 2, 1 / 3), words


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print(
        "| speakers | deviation of log size | rates | taylor | jackknife | half width, "
        "taylor | jackknife |"
    )
    print("|---|---|---|---|---|---|---|")
    for speakers, spread, shape in itertools.product(SPEAKERS, SPREADS, SHAPES):
        errors, words = draw(rng, options.runs, speakers, spread, shape)
        rows = pl.DataFrame(
            {
                "run": np.repeat(np.arange(options.runs), speakers),
                "errors": errors.ravel(),
                "words": words.ravel(),
            }
        )
        estimates = rows.group_by("run", maintain_order=True).agg(
            *_jackknife("wer", pl.col("errors"), pl.col("words"))
        )
        wer, error, freedom = (
            estimates[name].to_numpy() for name in ("wer", "wer_error", "wer_freedom")
        )
        residuals = errors - wer[:, None] * words
        linear = np.sqrt(speakers / (speakers - 1) * (residuals**2).sum(1)) / words.sum(1)
        halves = stats.t.ppf(0.975, speakers - 1) * linear, stats.t.ppf(0.975, freedom) * error
        covered = [np.mean(abs(wer - MEAN) <= half) for half in halves]
        figures = [f"{share:.3f}" for share in covered] + [
            f"{np.median(half):.3f}" for half in halves
        ]
        print(f"| {speakers} | {spread:g} | {shape} | {' | '.join(figures)} |")


if __name__ == "__main__":
    main()
