"""Measure how often bounds are false if reviewers miss faults, with and without planted faults.

    python benchmarks/reviewers.py [--corpora 400] [--segments 2000] [--rows NAME ...] [--jobs 2]
                                   [--seed 0] [--outcomes FILE]

Corpora, rules, draws and bets are those of choosing.py. Reviewers miss each fault with the same
probability. They listen again to every clip that they called wrong, and to no other; a fault that
they miss then is called right. Planted faults are mixed in at random. After every 50 clips the
bounds are looked at. A row has two names: the share of wrong segments in what is selected, and the
share of faults that reviewers miss when they hear a clip.

Columns:

- planted: how many faults are planted among 600 clips.
- false: in how many corpora the plain lower bound was above the truth at one look at least.
- false_measured: the same of the bound with measured reviewers. With a confidence of 95 % that may
  be 5 % of them.
- at_most: the upper limit of the share of the latter, at 95 % confidence.
- truth, bound, bound_measured: medians at the end.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from choosing import CONFIDENCE, TARGET, Archive, make_archive, may_be_false
from corpora import Task, most_false, parse_options, run_corpora

from nbaudio.proof.betting import Array, Bools
from nbaudio.proof.claims import claims_by_rule
from nbaudio.proof.measured_reviewers import SHARE_OF_BET, faults_that_ship

CLIPS = 600
STEP = 50
PLANTED = (20, 40, 100)
ROWS = ("0.03 0.4", "0.03 0.1", "0.01 0.4", "0.03 0", "0.01 0.1", "0.01 0")


@dataclass(frozen=True)
class Outcome:
    """What one corpus of a row gave; lists are by `PLANTED`."""

    row: str
    seed: int
    is_false: bool
    truth: float
    bound: float
    are_false_measured: list[bool]
    bounds_measured: list[float]


@dataclass(frozen=True)
class Reviews:
    """The reviews of a corpus, with the verdicts that first and second looks gave."""

    first: Archive
    second: Archive
    wrong: Bools
    is_missed: Bools  # which planted faults are missed

    def judge(self, clips: int) -> Bools:
        """Judge a number of clips; return what ships."""
        for archive in (self.first, self.second):
            archive.judge(until=lambda _: clips)
        return self.first.in_first_rule & ~self.first.is_on_sheet


def start(task: Task) -> Reviews:
    """Make the corpus of a row, and draw the clips to review."""
    rate, missed = map(float, task.row.split())
    generator = np.random.default_rng(task.seed + 1_000_000)
    first = make_archive(task.seed, task.segments, rate=rate)
    second = make_archive(task.seed, task.segments, rate=rate)
    wrong = first.wrong
    first.wrong = wrong & (generator.random(len(wrong)) >= missed)
    second.wrong = first.wrong & (generator.random(len(wrong)) >= missed)
    for archive in (first, second):
        archive.export(archive.in_first_rule, "0.8", n=CLIPS)
    return Reviews(first, second, wrong, generator.random(max(PLANTED)) < missed)


def outcome(task: Task) -> Outcome:
    """Review a corpus, and look at both bounds after every 50 clips."""
    reviews = start(task)
    is_false = False
    are_false_measured = np.zeros(len(PLANTED), dtype=bool)
    for clips in range(STEP, CLIPS + 1, STEP):
        ships = reviews.judge(clips)
        num_wrong = int(reviews.wrong[ships].sum())
        truth = 1 - num_wrong / int(ships.sum())
        state = reviews.second._state(ships)
        if not is_false and may_be_false(state, ships, num_wrong):
            is_false = lower_bound(state, ships, 1 - CONFIDENCE) > truth + 1e-9
        measured = measured_bounds(reviews, ships, clips)
        are_false_measured |= measured > truth + 1e-9
    return Outcome(
        task.row,
        task.seed,
        bool(is_false),
        truth,
        lower_bound(state, ships, 1 - CONFIDENCE),
        are_false_measured.tolist(),
        measured.tolist(),
    )


def lower_bound(state: Any, ships: Bools, error: float) -> float:
    """Return the lower bound by the fixed rule, which takes reviewers to be always right."""
    [_, claim] = claims_by_rule(state, ships, error=error)
    return float(claim.part.low(target=TARGET, error=claim.error))


def measured_bounds(reviews: Reviews, ships: Bools, clips: int) -> Array:
    """Return the lower bounds with measured reviewers after a number of clips, by `PLANTED`.

    They are 0 before a planted fault was judged.
    """
    error = 1 - CONFIDENCE
    total = int(ships.sum())
    state = reviews.first._state(ships)
    noticed = round((1 - lower_bound(state, ships, SHARE_OF_BET * error)) * total)
    bounds = np.zeros(len(PLANTED))
    for place, planted in enumerate(PLANTED):
        is_missed = reviews.is_missed[: planted * clips // CLIPS]
        if len(is_missed):
            faults = faults_that_ship(
                state,
                ships,
                noticed,
                mistakes=int(is_missed.sum()),
                judged=len(is_missed),
                error=error,
            )
            bounds[place] = max(1 - faults / total, 0.0)
    return bounds


def table(outcomes: list[Outcome]) -> pl.DataFrame:
    """Return a row for each kind of corpus and reviewers, and number of planted faults."""
    rows = pl.DataFrame([vars(outcome_) for outcome_ in outcomes])
    rows = rows.with_columns(planted=pl.lit(list(PLANTED)))
    rows = rows.explode("planted", "are_false_measured", "bounds_measured")
    counts = rows.group_by("row", "planted").agg(
        corpora=pl.len(),
        false=pl.col("is_false").sum(),
        false_measured=pl.col("are_false_measured").sum(),
        truth=pl.col("truth").median().round(4),
        bound=pl.col("bound").median().round(4),
        bound_measured=pl.col("bounds_measured").median().round(4),
    )
    limits = [most_false(*row) for row in counts.select("false_measured", "corpora").iter_rows()]
    return counts.with_columns(at_most=pl.Series(limits).round(3)).sort("row", "planted")


def main() -> None:
    """Run all rows and print the table."""
    asked = parse_options(__doc__, ROWS, segments=2000)
    outcomes = run_corpora(outcome, Outcome, asked)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=40, tbl_hide_dataframe_shape=True):
        print(table(outcomes))


if __name__ == "__main__":
    main()
