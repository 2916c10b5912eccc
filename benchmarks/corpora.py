"""Run a simulation on many corpora at once, and store what each of them gives.

`choosing.py`, `word_errors.py`, `groups.py` and `reviewers.py` use this. A row of their tables is
one kind of corpora and people; it has many corpora, which differ in the seed. With `--outcomes
FILE`, what each corpus gives is appended to a file as a line of JSON, and a later run with the same
file leaves out the corpora that are in it, so that a run may end at any time.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scipy import stats

from nbaudio.engine import EngineLocation, worker_pool

BATCH = 10  # corpora of each row before the next row

OutcomeT = TypeVar("OutcomeT", bound=Any)


@dataclass(frozen=True)
class Task:
    """A corpus of a row."""

    row: str
    seed: int
    segments: int


def parse_options(usage: str, rows: Sequence[str], *, segments: int) -> argparse.Namespace:
    """Return the options of the command line.

    Args:
        usage: the docstring of the script, whose first line is its description.
        rows: the names of all rows.
        segments: the default number of segments in a corpus.
    """
    options = argparse.ArgumentParser(description=usage.partition("\n")[0])
    options.add_argument("--corpora", type=int, default=400, help="corpora of each row")
    options.add_argument("--segments", type=int, default=segments)
    options.add_argument("--rows", nargs="*", default=list(rows), choices=rows, metavar="ROW")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--seed", type=int, default=0, help="of the first corpus")
    options.add_argument("--outcomes", type=Path, help="a file to append to, and to go on from")
    return options.parse_args()


def run_corpora(
    simulate: Callable[[Task], OutcomeT], kind: type[OutcomeT], asked: argparse.Namespace
) -> list[OutcomeT]:
    """Return what all corpora give, with those that the file of outcomes has already.

    Args:
        simulate: runs a row on a corpus.
        kind: the class of what it returns, with `row` and `seed`.
        asked: the options, see `parse_options`.
    """
    outcomes = _read(asked.outcomes, kind)
    done = {(outcome.row, outcome.seed) for outcome in outcomes}
    last = asked.seed + asked.corpora
    with worker_pool(EngineLocation("loky", asked.jobs)) as run:
        for first in range(asked.seed, last, BATCH):
            tasks = [
                Task(row, seed, asked.segments)
                for row in asked.rows
                for seed in range(first, min(first + BATCH, last))
                if (row, seed) not in done
            ]
            for outcome in run(simulate, tasks):
                _append(asked.outcomes, outcome)
                outcomes.append(outcome)
    return outcomes


def _read(path: Path | None, kind: type[OutcomeT]) -> list[OutcomeT]:
    """Return the outcomes that an earlier run has appended to a file."""
    if path is None or not path.exists():
        return []
    return [kind(**json.loads(line)) for line in path.read_text("utf8").splitlines()]


def _append(path: Path | None, outcome: Any) -> None:
    """Append an outcome to a file."""
    if path is not None:
        with path.open("a", encoding="utf8") as file:
            file.write(json.dumps(vars(outcome)) + "\n")


def most_false(num_false: int, corpora: int, confidence: float = 0.95) -> float:
    """Return the upper limit of a share (Clopper and Pearson, 1934)."""
    if num_false == corpora:
        return 1.0
    return float(stats.beta.ppf(confidence, num_false + 1, corpora - num_false))
