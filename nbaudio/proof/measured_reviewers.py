"""The bound of right segments if reviewers miss real faults as often as planted ones.

docs/evidence-method.md has the method.
"""

from collections.abc import Sequence
from functools import cached_property

import polars as pl

from nbaudio.proof.betting import Bools
from nbaudio.proof.claims import best_claim, what_ships
from nbaudio.proof.proof_state import ProofState
from nbaudio.proof.segment_sums import Kinds
from nbaudio.review.reviewer_rates import ReviewerRates, highest_rate, measured_reviewers
from nbaudio.review.state import OK, UNSURE

# How the error of the bound is divided: among the bet, the bound of the rate of missed faults, and
# chance in which faults are missed, once for segments that nobody judged and once for the others.
SHARE_OF_BET = 0.5
_SHARE_OF_RATE = 0.4
_SHARE_OF_CHANCE = 0.05


def most_faults(noticed: int, missed: float, error: float, *, total: int) -> int:
    """Return an upper bound of the number of faults of which reviewers would notice a number.

    Each fault is missed with the same probability, by itself.

    Args:
        noticed: the most faults that reviewers would notice if they judged all segments.
        missed: the probability that they miss one.
        error: the probability that there are more faults than the bound.
        total: the number of segments.
    """
    from scipy.special import bdtr

    low = min(noticed, total)
    high = total
    while low < high:
        middle = (low + high + 1) // 2
        if bdtr(min(noticed, middle), middle, 1 - missed) > error:
            low = middle
        else:
            high = middle - 1
    return low


class _FirstVerdicts(ProofState):
    """Review state in which the first verdict of each reviewer counts, whatever came later.

    What reviewers call right who were not measured is unsure.
    """

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """The first verdict of each reviewer on each segment and content."""
        is_measured = pl.col("reviewer").is_in(list(measured_reviewers(self)))
        is_right = pl.col("verdict") == OK
        verdict = pl.when(is_right & ~is_measured).then(pl.lit(UNSURE)).otherwise("verdict")
        return self.first_verdicts.with_columns(verdict=verdict)

    @cached_property
    def adjudicators(self) -> Sequence[str]:
        """No reviewer has the last word: it may have been given because of other verdicts."""
        return ()


def _with_first_verdicts(state: ProofState) -> ProofState:
    """Return a state in which first verdicts count: the same one if that changes nothing."""
    first = _FirstVerdicts(state.workspace, Kinds(without=state.kinds.without))
    if not state.adjudicators and first.verdicts.equals(state.verdicts):
        return state
    return first


def measured_low(
    state: ProofState, rates: ReviewerRates, *, target: float, confidence: float
) -> float | None:
    """Return the lower bound of the share of right segments if reviewers miss faults.

    They miss real faults as often as planted ones. None if no planted fault was judged.

    Args:
        state: the population and its draws.
        rates: what control rows say of the reviewers.
        target: the share that is to be right.
        confidence: of the bound.
    """
    if not rates.missed.judged:
        return None
    error = 1 - confidence
    first = _with_first_verdicts(state)
    ships = what_ships(first)
    total = first.count(ships)
    if not total:
        return None
    claim = best_claim(first, ships, target=target, error=SHARE_OF_BET * error)
    low = claim.part.low(target=target, error=claim.error)
    faults = faults_that_ship(
        first,
        ships,
        round((1 - low) * total),
        mistakes=rates.missed.mistakes,
        judged=rates.missed.judged,
        error=error,
    )
    return max(1 - faults / total, 0.0)


def faults_that_ship(
    state: ProofState, ships: Bools, noticed: int, *, mistakes: int, judged: int, error: float
) -> int:
    """Return an upper bound of the faults that ship, with those that reviewers miss.

    Args:
        state: the population, with the first verdicts.
        ships: what ships.
        noticed: the most faults among it that reviewers would notice; its bound has the share
            `SHARE_OF_BET` of the error.
        mistakes: how many planted faults reviewers missed.
        judged: how many planted faults they judged.
        error: the probability that there are more, at some time.
    """
    missed = highest_rate(mistakes, judged, _SHARE_OF_RATE * error)
    chance = _SHARE_OF_CHANCE * error
    most = most_faults(noticed, missed, chance, total=state.count(ships))
    return most + _missed_in_reviewed(state, ships, missed, chance)


def _missed_in_reviewed(state: ProofState, ships: Bools, missed: float, error: float) -> int:
    """Return an upper bound of the faults that ship because reviewers called them right.

    Args:
        state: the population and its draws.
        ships: what ships.
        missed: the probability that reviewers miss a fault.
        error: the probability that there are more.
    """
    called_right = state.count(ships & state.labelled("right"))
    if not called_right:
        return 0
    noticed = state.count(state.labelled("wrong", "unsure"))
    most = most_faults(noticed, missed, error, total=noticed + called_right)
    return most - noticed
