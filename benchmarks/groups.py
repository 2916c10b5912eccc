"""Measure how often bounds of all groups of a column are false at once.

    python benchmarks/groups.py [--corpora 400] [--segments 1000] [--rows all faults speakers]
                                [--jobs 2] [--seed 0] [--outcomes FILE]

Corpora, rules, draws and bets are those of choosing.py; speakers are put into groups, which differ
in their share of wrong segments. After every 50 clips of four rounds, the bounds of all groups are
looked at. A corpus counts as false if the bound of any group was above the truth of that group at
any look.

- all: what the first rule takes ships.
- faults: faults that were found are left out.
- speakers: speakers with a fault are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from choosing import (
    CONFIDENCE,
    MARGIN,
    NEVER,
    TARGET,
    Archive,
    Rule,
    make_archive,
    speakers_with_faults,
)
from corpora import Task, most_false, parse_options, run_corpora

from nbaudio.proof.betting import Bools
from nbaudio.proof.claims import Part
from nbaudio.proof.rule_segments import FIRST_SHARE

ROUND = 150
STEP = 50
ROUNDS = 4
GROUPS = 10


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
class Outcome:
    """Whether a bound was false in one corpus of a row."""

    row: str
    seed: int
    is_false: bool


def outcome(task: Task) -> Outcome:
    """Look at the bounds of all groups of a corpus, until one is above the truth."""
    archive = make_archive(task.seed, task.segments)
    group = archive.speaker % GROUPS
    for _ in range(ROUNDS):
        archive.export(archive.in_first_rule, "0.8", n=ROUND)
        for clips in range(STEP, ROUND + 1, STEP):
            archive.judge(until=lambda _, clips=clips: clips)
            if any_bound_is_false(archive, CHOICES[task.row](archive), group):
                return Outcome(task.row, task.seed, is_false=True)
    return Outcome(task.row, task.seed, is_false=False)


def any_bound_is_false(archive: Archive, selected: Bools, group: np.ndarray) -> bool:
    """Return whether the bound of any group of what ships is above the truth."""
    ships = selected & archive.is_there & ~archive.is_on_sheet
    state = archive._state(selected)
    error = (1 - CONFIDENCE) / GROUPS
    for number in range(GROUPS):
        of_group = ships & (group == number)
        wrong = int(archive.wrong[of_group].sum())
        if not wrong:
            continue  # no bound is above 1
        for rule in archive.rules:
            first = np.where(group == number, rule.first_draw, NEVER).astype(np.int32)
            about = state.about_rule(Rule(rule.number, "", first), None)
            part = Part(state, of_group, about=about)
            if is_false(part, wrong, error * FIRST_SHARE / rule.number**2):
                return True
    return False


def is_false(part: Part, wrong: int, error: float) -> bool:
    """Return whether the bound of what ships is above the truth.

    A bet against one fault less than there are, which takes a hundredth of the time, tells most
    that are not.
    """
    ships = int(part.ships.sum())
    capital = part.path(1 - (wrong - 1) / ships, error).peak[0]
    if capital <= -np.log(error) - MARGIN:
        return False
    return part.low(target=TARGET, error=error) > 1 - wrong / ships + 1e-9


def main() -> None:
    """Run all rows and print the table."""
    asked = parse_options(__doc__, list(CHOICES), segments=1000)
    outcomes = run_corpora(outcome, Outcome, asked)
    rows = pl.DataFrame([vars(outcome_) for outcome_ in outcomes])
    counts = rows.group_by("row").agg(corpora=pl.len(), false=pl.col("is_false").sum())
    limits = [most_false(*row) for row in counts.select("false", "corpora").iter_rows()]
    with pl.Config(tbl_hide_dataframe_shape=True):
        print(counts.with_columns(at_most=pl.Series(limits).round(3)).sort("row"))


if __name__ == "__main__":
    main()
