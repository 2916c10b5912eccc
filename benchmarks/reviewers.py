"""Measure how often bounds are false if reviewers miss faults, with and without planted faults.

    python benchmarks/reviewers.py [--corpora 400] [--segments 2000] [--jobs 2]

Corpora, rules, draws and bets are those of choosing.py. Reviewers miss each fault with the same
probability. They listen again to every clip that they called wrong, and to no other; a fault that
they miss then is called right. Planted faults are mixed in at random. After every 50 clips the
bounds are looked at.

Columns:

- missed: the share of faults that reviewers miss when they hear a clip.
- planted: how many faults are planted among 600 clips.
- false: in how many corpora the plain lower bound was above the truth at one look at least.
- false_measured: the same of the bound with measured reviewers. With a confidence of 95 % that may
  be 5 % of them.
- at_most: the upper limit of the share of the latter, at 95 % confidence.
- truth, bound, bound_measured: medians at the end.
"""

import argparse
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
from choosing import CONFIDENCE, TARGET, Archive, make_archive
from scipy import stats

from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.proof.betting import Bools
from nbaudio.proof.claims import best_claim
from nbaudio.proof.measured_reviewers import SHARE_OF_BET, faults_that_ship

CLIPS = 600
STEP = 50
MISSED = (0.0, 0.1, 0.4)
PLANTED = (20, 40, 100)
RATES = (0.01, 0.03)  # of faults in what is selected


@dataclass(frozen=True)
class Case:
    """A corpus and its reviewers."""

    seed: int
    segments: int
    missed: float
    rate: float


@dataclass(frozen=True)
class Outcome:
    """What became of a case with a number of planted faults."""

    case: Case
    planted: int
    is_false: bool
    is_false_measured: bool
    truth: float
    bound: float
    bound_measured: float


@dataclass(frozen=True)
class Look:
    """A look at both bounds; the measured ones are by number of planted faults."""

    truth: float
    bound: float
    measured: dict[int, float]


def run(case: Case) -> list[Outcome]:
    """Review a corpus, and look at both bounds after every 50 clips."""
    generator = np.random.default_rng(case.seed + 1_000_000)
    first = make_archive(case.seed, case.segments, rate=case.rate)
    second = make_archive(case.seed, case.segments, rate=case.rate)
    wrong = first.wrong
    first.wrong = wrong & (generator.random(len(wrong)) >= case.missed)
    second.wrong = first.wrong & (generator.random(len(wrong)) >= case.missed)
    is_missed = generator.random(max(PLANTED)) < case.missed
    for archive in (first, second):
        archive.export(archive.in_first_rule, "0.8", n=CLIPS)
    looks = []
    for clips in range(STEP, CLIPS + 1, STEP):
        for archive in (first, second):
            archive.judge(until=lambda _, clips=clips: clips)
        ships = first.in_first_rule & ~first.is_on_sheet
        judged = {planted: is_missed[: planted * clips // CLIPS] for planted in PLANTED}
        looks.append(
            Look(
                1 - float(wrong[ships].mean()),
                plain_bound(second, ships),
                measured_bounds(first, ships, judged),
            )
        )
    return [
        Outcome(
            case,
            planted,
            any(look.bound > look.truth + 1e-9 for look in looks),
            any(look.measured[planted] > look.truth + 1e-9 for look in looks),
            looks[-1].truth,
            looks[-1].bound,
            looks[-1].measured[planted],
        )
        for planted in PLANTED
    ]


def plain_bound(archive: Archive, ships: Bools) -> float:
    """Return the lower bound that takes reviewers to be always right."""
    claim = best_claim(archive._state(ships), ships, target=TARGET, error=1 - CONFIDENCE)
    return claim.part.low(target=TARGET, error=claim.error)


def measured_bounds(archive: Archive, ships: Bools, judged: dict[int, Bools]) -> dict[int, float]:
    """Return the lower bounds with measured reviewers, by number of planted faults.

    They are 0 before a planted fault was judged. `judged` has whether each judged one was missed.
    """
    error = 1 - CONFIDENCE
    total = int(ships.sum())
    state = archive._state(ships)
    claim = best_claim(state, ships, target=TARGET, error=SHARE_OF_BET * error)
    noticed = round((1 - claim.part.low(target=TARGET, error=claim.error)) * total)
    bounds = {}
    for planted, is_missed in judged.items():
        mistakes = int(is_missed.sum())
        faults = total
        if len(is_missed):
            faults = faults_that_ship(
                state, ships, noticed, mistakes=mistakes, judged=len(is_missed), error=error
            )
        bounds[planted] = max(1 - faults / total, 0.0)
    return bounds


def table(outcomes: list[Outcome]) -> pl.DataFrame:
    """Return a row for each kind of corpus and reviewers."""
    rows = pl.DataFrame(
        {
            "missed": outcome.case.missed,
            "planted": outcome.planted,
            "rate": outcome.case.rate,
            "is_false": outcome.is_false,
            "is_false_measured": outcome.is_false_measured,
            "truth": outcome.truth,
            "bound": outcome.bound,
            "bound_measured": outcome.bound_measured,
        }
        for outcome in outcomes
    )
    counts = rows.group_by("rate", "missed", "planted", maintain_order=True).agg(
        corpora=pl.len(),
        false=pl.col("is_false").sum(),
        false_measured=pl.col("is_false_measured").sum(),
        **{name: pl.col(name).median().round(4) for name in ("truth", "bound", "bound_measured")},
    )
    highest = stats.beta.ppf(
        0.95, counts["false_measured"] + 1, counts["corpora"] - counts["false_measured"]
    )
    return counts.with_columns(at_most=pl.Series(highest).round(3))


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=int, default=400)
    parser.add_argument("--segments", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cases = [
        Case(seed, options.segments, missed, rate)
        for rate, missed in product(RATES, reversed(MISSED))
        for seed in range(options.corpora)
    ]
    with worker_pool(EngineLocation("loky", options.jobs)) as pool:
        outcomes = [outcome for of_case in pool(run, cases) for outcome in of_case]
    outcomes.sort(key=lambda outcome: (outcome.case.rate, -outcome.case.missed, outcome.planted))
    with pl.Config(tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=40, tbl_hide_dataframe_shape=True):
        print(table(outcomes))


if __name__ == "__main__":
    main()
