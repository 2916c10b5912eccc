"""Measure how often bounds of all groups of a column are false at once.

    python benchmarks/groups.py [--corpora 400] [--segments 1000] [--groups 10] [--jobs 2]

Corpora, rules, draws and bets are those of choosing.py; speakers are put into groups, which differ
in their share of wrong segments. After every 50 clips of four rounds, the bounds of all groups are
looked at. A corpus counts as false if the bound of any group was above the truth of that group at
any look.

- all: what the first rule takes ships.
- faults: faults that were found are left out.
- speakers: speakers with a fault are left out.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
from choosing import CONFIDENCE, NEVER, TARGET, Archive, Rule, make_archive, speakers_with_faults
from scipy import stats

from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.proof.betting import Bools
from nbaudio.proof.claims import Part
from nbaudio.proof.rule_segments import FIRST_SHARE

ROUND = 150
STEP = 50
ROUNDS = 4


def everything(archive: Archive) -> Bools:
    """Return what the first rule takes."""
    return archive.in_first_rule


def without_faults(archive: Archive) -> Bools:
    """Return what the first rule takes without the faults that were found."""
    return archive.in_first_rule & ~(archive.heard & archive.wrong)


def without_speakers(archive: Archive) -> Bools:
    """Return what the first rule takes without speakers with a fault."""
    return archive.in_first_rule & ~np.isin(archive.speaker, speakers_with_faults(archive))


CHOICES: dict[str, Callable[[Archive], Bools]] = {
    "all": everything,
    "faults": without_faults,
    "speakers": without_speakers,
}


@dataclass(frozen=True)
class Case:
    """A corpus, and what somebody chooses to ship of it."""

    seed: int
    segments: int
    groups: int
    choice: str


def is_false(case: Case) -> tuple[Case, bool]:
    """Return whether the bound of a group was above the truth at any look."""
    archive = make_archive(case.seed, case.segments)
    group = archive.speaker % case.groups
    for _ in range(ROUNDS):
        archive.export(archive.in_first_rule, "0.8", n=ROUND)
        for clips in range(STEP, ROUND + 1, STEP):
            archive.judge(until=lambda _, clips=clips: clips)
            if any_bound_is_false(archive, CHOICES[case.choice](archive), group, case.groups):
                return case, True
    return case, False


def any_bound_is_false(archive: Archive, selected: Bools, group: np.ndarray, groups: int) -> bool:
    """Return whether the bound of any group of what ships is above the truth."""
    ships = selected & archive.is_there & ~archive.is_on_sheet
    state = archive._state(selected)
    error = (1 - CONFIDENCE) / groups
    for number in range(groups):
        of_group = ships & (group == number)
        if not of_group.any():
            continue
        truth = 1 - float(archive.wrong[of_group].mean())
        for rule in archive.rules:
            first = np.where(group == number, rule.first_draw, NEVER).astype(np.int32)
            about = state.about_rule(Rule(rule.number, "", first), None)
            part = Part(state, of_group, about=about)
            low = part.low(target=TARGET, error=error * FIRST_SHARE / rule.number**2)
            if low > truth + 1e-9:
                return True
    return False


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=int, default=400)
    parser.add_argument("--segments", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cases = [
        Case(seed, options.segments, options.groups, choice)
        for choice, seed in product(CHOICES, range(options.corpora))
    ]
    with worker_pool(EngineLocation("loky", options.jobs)) as pool:
        outcomes = list(pool(is_false, cases))
    rows = pl.DataFrame({"choice": case.choice, "false": false} for case, false in outcomes)
    counts = rows.group_by("choice").agg(corpora=pl.len(), false=pl.col("false").sum())
    highest = stats.beta.ppf(0.95, counts["false"] + 1, counts["corpora"] - counts["false"])
    with pl.Config(tbl_hide_dataframe_shape=True):
        print(counts.with_columns(at_most=pl.Series(highest).round(3)).sort("choice"))


if __name__ == "__main__":
    main()
