"""Quick versions of all rows of `benchmarks/evidence.py`; docs/benchmarks.md has its tables."""

import math
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from evidence import CASES, CURVES, EVERY, NOT_VALID, WITH_RISK, Task, row_of, simulate
from reviews_needed import compare

pytestmark = pytest.mark.slow


def outcomes_of(case):
    """What a small corpus of a case gives, by strategy."""
    found = {}
    for outcome in simulate(Task(case, 0, 1, 4000, 400, 7, None)):
        found.setdefault(outcome.strategy, []).append(outcome)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_benchmark_cases_make_no_false_claims(case):
    for strategy, outcomes in outcomes_of(case).items():
        row = row_of(outcomes)
        assert row["corpora"] == 1
        if strategy != NOT_VALID:
            assert (row["false"], row["covered"]) == (0, 1), strategy


@pytest.mark.parametrize("case", [*CURVES, *WITH_RISK])
def test_the_benchmark_counts_the_reviews_until_a_proof(case):
    for strategy, outcomes in outcomes_of(case).items():
        row = row_of(outcomes)
        assert row["proven"] in {0, 1}, strategy
        most = 4300  # all segments; `model alone` may take those of the first round twice
        assert all(one.reviews == math.inf or 0 < one.reviews <= most for one in outcomes)


def test_every_case_of_the_benchmark_is_tested():
    assert set(EVERY) == {*CASES, *CURVES, *WITH_RISK}


def test_the_benchmark_compares_versions_on_the_same_corpora(tmp_path):
    for name, factor in (("earlier", 1.0), ("now", 1.1)):
        lines = [
            f'{{"case": "flat", "strategy": "random", "corpus": {number}, '
            f'"reviews": {"null" if number == 9 else round(factor * (500 + 10 * number))}}}'
            for number in range(10 if name == "now" else 11)
        ]
        (tmp_path / name).write_text("\n".join(lines))
    [row] = compare(tmp_path / "earlier", tmp_path / "now").to_dicts()
    assert (row["case"], row["strategy"], row["corpora"]) == ("flat", "random", 10)
    assert (row["earlier"], row["now"]) == (545, 599.5)
    # Nine corpora take 1.1 times as many; the one without a proof counts as 4,000 in both.
    assert (row["low"], row["ratio"], row["high"]) == (1.07, 1.09, 1.11)
