"""How many faults reviewers miss, and how often they call right clips wrong.

Control rows measure both (`control_rows`). docs/evidence-method.md has the method.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from nbaudio.review.state import OK, UNSURE, ReviewState
from nbaudio.tables.workspace import REPEATED

# The prior of rates, a Beta distribution with a mean of a tenth.
_PRIOR = (0.5, 4.5)
_STEPS = 60  # of the bisection that finds a bound


@dataclass(frozen=True)
class Rate:
    """A rate of mistakes, by the first verdicts that reviewers gave.

    Attributes:
        judged: the number of cases in which a mistake was possible.
        mistakes: the number of these that were mistakes.
        high: an upper bound of the rate that holds after any number of cases; None without cases.
    """

    judged: int
    mistakes: int
    high: float | None


@dataclass(frozen=True)
class ReviewerRates:
    """Rates of mistakes of the reviewers, from control rows.

    Attributes:
        missed: planted faults that were called right.
        false_alarms: repeated clips that were called wrong, and right the first time.
        missed_by_kind: `judged` and `mistakes` of planted faults, by kind of fault.
        right_by_others: verdicts "right" of reviewers who judged no planted fault.
    """

    missed: Rate
    false_alarms: Rate
    missed_by_kind: dict[str, dict[str, int]]
    right_by_others: int

    def facts(self) -> dict[str, Any]:
        """Return the rates as in ``corpus.json``."""
        return asdict(self)

    def sentence(self) -> str:
        """Return how many planted faults reviewers missed, as text; empty if none was judged."""
        missed = self.missed
        if missed.high is None:
            return ""
        sentence = (
            f"Reviewers missed {missed.mistakes:,} of {missed.judged:,} planted faults: up to "
            f"{_percent_up(missed.high)}."
        )
        alarms = self.false_alarms
        if alarms.high is not None:
            sentence += (
                f" Of {alarms.judged:,} clips that they called right and heard again, they "
                f"called {alarms.mistakes:,} wrong: up to {_percent_up(alarms.high)}."
            )
        if self.right_by_others:
            sentence += (
                f" What others call right, who judged no planted fault ({self.right_by_others:,} "
                "verdicts), is unsure beside this."
            )
        return sentence


def _percent_up(share: float) -> str:
    """Format an upper bound in whole percent, rounded up."""
    return f"{math.ceil(100 * share - 1e-6)} %"


def reviewer_rates(state: ReviewState, confidence: float = 0.95) -> ReviewerRates | None:
    """Return the rates of mistakes of all reviewers together; None if no control row was judged.

    The first verdict of each reviewer counts, so that a second look at the clips that were called
    wrong, which control rows may not get, changes nothing.
    """
    kinds = {
        row.content: row.kind for record in state.records.values() for row in record.control_rows
    }
    if not kinds:
        return None
    rows = _judged_rows(state, kinds)
    if rows.is_empty():
        return None
    planted = rows.filter(pl.col("kind") != REPEATED)
    repeated = _right_the_first_time(state, rows.filter(kind=REPEATED))
    error = 1 - confidence
    return ReviewerRates(
        missed=_rate(planted["verdict"] == OK, error),
        false_alarms=_rate(~repeated["verdict"].is_in([OK, UNSURE]), error),
        missed_by_kind=_missed_by_kind(planted),
        right_by_others=_right_by_others(state),
    )


def _missed_by_kind(planted: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Return how many planted faults of each kind were judged, and how many called right."""
    is_missed = pl.col("verdict") == OK
    by_kind = planted.group_by("kind").agg(judged=pl.len(), mistakes=is_missed.sum())
    return {
        kind: {"judged": judged, "mistakes": mistakes}
        for kind, judged, mistakes in by_kind.sort("kind").iter_rows()
    }


def _right_by_others(state: ReviewState) -> int:
    """Return the number of verdicts "right" of reviewers who judged no planted fault."""
    is_measured = pl.col("reviewer").is_in(list(measured_reviewers(state)))
    return len(state.first_verdicts.filter(~is_measured, verdict=OK))


def measured_reviewers(state: ReviewState) -> set[str]:
    """Return the names of the reviewers who judged a planted fault."""
    planted = {
        row.content
        for record in state.records.values()
        for row in record.control_rows
        if row.kind != REPEATED
    }
    judged = state.control_verdict_log.drop_nulls("verdict")
    return set(judged.filter(pl.col("content").is_in(list(planted)))["reviewer"])


def _judged_rows(state: ReviewState, kinds: Mapping[str, str]) -> pl.DataFrame:
    """Return the control rows that were judged, with the first verdict of each reviewer.

    The columns are `review`, `reviewer`, `segment_id`, `verdict` and `kind`.

    Args:
        state: the reviews.
        kinds: the kind of each control row by its content.
    """
    log = state.control_verdict_log.drop_nulls("verdict")
    first = log.unique(["reviewer", "content"], keep="first", maintain_order=True)
    rows = first.filter(pl.col("content").is_in(list(kinds)))
    kind = pl.col("content").replace_strict(kinds, return_dtype=pl.String)
    return rows.select("review", "reviewer", "segment_id", "verdict", kind=kind)


def _right_the_first_time(state: ReviewState, repeated: pl.DataFrame) -> pl.DataFrame:
    """Return the repeated rows that the same reviewer called right the first time."""
    log = state.verdict_log.drop_nulls("verdict")
    first = log.unique(["review", "reviewer", "segment_id"], keep="first", maintain_order=True)
    right = first.filter(verdict=OK)
    return repeated.join(right, on=["review", "reviewer", "segment_id"], how="semi")


def _rate(is_mistake: pl.Series, error: float) -> Rate:
    """Return the rate of mistakes, a Boolean for each case, with its upper bound."""
    judged = len(is_mistake)
    if not judged:
        return Rate(0, 0, None)
    mistakes = int(is_mistake.sum())
    return Rate(judged, mistakes, highest_rate(mistakes, judged, error))


def highest_rate(mistakes: int, judged: int, error: float) -> float:
    """Return an upper bound of a rate that holds at all numbers of cases at once.

    It is the highest rate whose likelihood ratio against a Beta mixture of rates stays below one
    over the error (Ville's inequality; Robbins, 1970).

    Args:
        mistakes: how many of the cases were mistakes.
        judged: the number of cases.
        error: the probability that the rate is above the bound at some time.
    """
    a, b = _PRIOR
    log_mixture = _log_beta(a + mistakes, b + judged - mistakes) - _log_beta(a, b)
    limit = log_mixture + math.log(error)
    # The likelihood falls from the observed rate on: the bound is found by bisection.
    low = mistakes / judged if judged else 0.0
    high = 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _log_likelihood(mistakes, judged, middle) >= limit:
            low = middle
        else:
            high = middle
    return high


def _log_beta(a: float, b: float) -> float:
    """Return the logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _log_likelihood(mistakes: int, judged: int, rate: float) -> float:
    """Return the logarithm of the likelihood of a rate in (0, 1)."""
    if rate >= 1.0:
        return 0.0 if mistakes == judged else -math.inf
    return mistakes * math.log(rate) + (judged - mistakes) * math.log1p(-rate)
