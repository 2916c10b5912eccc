"""How many words of what ships are wrong: the word error rate of the labels.

A segment that was found wrong counts with the words that its corrected text changes, and with all
of its words without one. docs/evidence-method.md has the method.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from nbaudio.proof.betting import Array, Bools, Draws, most
from nbaudio.proof.claims import Claim, Part
from nbaudio.proof.proof_state import ProofState
from nbaudio.proof.rule_segments import FIRST_SHARE
from nbaudio.review.word_errors import wrong_shares

_WORDS = "words"


@dataclass(frozen=True)
class WordShares:
    """The shares of words that are wrong, by row of `ProofState.rows`; NaN without a correction."""

    shown: Array  # of the text that reviewers were given
    now: Array  # of the text as it is now

    @classmethod
    def of(cls, state: ProofState) -> "WordShares":
        """Return the shares of the segments of a workspace."""
        if state.verdicts["corrected_text"].is_null().all():
            without = np.full(len(state.rows), np.nan)
            return cls(shown=without, now=without)
        return cls(
            shown=_by_row(state, state.segments_of_reviews),
            now=_by_row(state, state.rows_of_reviews),
        )


def _by_row(state: ProofState, segments: pl.DataFrame) -> Array:
    """Return `wrong_shares` of segments by row, NaN elsewhere."""
    shares = wrong_shares(state, segments).select("wrong_share", key=pl.col("segment_id").hash())
    rows = state.rows.select("key").join(shares, on="key", how="left", maintain_order="left")
    return rows["wrong_share"].fill_null(np.nan).to_numpy()


@dataclass(frozen=True)
class WordErrors:
    """The word error rate of the labels of what ships, all shares in [0, 1]."""

    wer: float | None  # estimate; None if nothing was reviewed
    wer_high: float | None  # upper bound; None if no words ship
    words: int  # words that ship
    clips_without_corrected_text: int  # wrong ones, which count with all of their words


def word_error_facts(claim: Claim, shares: WordShares, *, error: float) -> dict[str, Any]:
    """Return the word errors of what a claim is about, as in ``corpus.json``.

    `error` is that of the upper bound, which holds by itself; all rules share it.
    """
    about = claim.part.about
    share_of_rule = FIRST_SHARE if about is None else about.rule.error(1.0)
    return asdict(word_errors(claim.part, shares, error=error * share_of_rule))


def word_errors(part: Part, shares: WordShares, *, error: float) -> WordErrors:
    """Return the word errors of what ships; the upper bound is false with this probability."""
    state = part.state
    words = state.sum(_WORDS, part.ships)
    judged = JudgedWords.of(part, shares)
    num_uncorrected = state.count(judged.is_uncorrected)
    if words <= 0:
        return WordErrors(None, None, 0, num_uncorrected)
    bound = most(judged.draws, part.value(_WORDS), error)
    least, greatest = judged.limits()
    highest = min(max(bound + judged.shipped() - judged.seen(), least), greatest)
    wer = None
    if state.count((part.ships | part.out) & state.judged):
        wer = _estimate(part, shares, words)
    if wer is not None:
        wer = min(max(wer, least / words), highest / words)
    return WordErrors(wer, min(highest / words, 1.0), round(words), num_uncorrected)


def _estimate(part: Part, shares: WordShares, words: float) -> float | None:
    """Return the estimated share of wrong words in what ships; None if no draw counts.

    It takes what ships, and what reviews left out of it, as a random sample of all of it.
    """
    left_out = part.state.left_out & part.inside
    sample = part
    if part.about is not None:
        sample = Part(part.state, part.ships, left_out)
    judged = JudgedWords.of(sample, shares)
    value = sample.value(_WORDS)
    share = judged.draws.faulty_share(value)
    if share is None:
        return None
    drawn = (judged.draws.worth(value, upper=True) * judged.draws.losses(upper=True)).sum()
    total = value.without(judged.draws.outside).total
    return float(share[0] * total - drawn + judged.shipped()) / words


@dataclass(frozen=True)
class JudgedWords:
    """The wrong words of what was judged in a part; arrays by row.

    Attributes:
        part: the part.
        draws: its draws, with the share of wrong words of each.
        words: the words of each row.
        now: the share of wrong words in the text as it is now, 1 if that is not known.
        is_seen: which rows the bets have seen: they are no part of what a null leaves.
        is_uncorrected: which segments were found wrong, and have no corrected text.
    """

    part: Part
    draws: Draws
    words: Array
    now: Array
    is_seen: Bools
    is_uncorrected: Bools

    @classmethod
    def of(cls, part: Part, shares: WordShares) -> "JudgedWords":
        """Return the wrong words in the judged segments of a part."""
        state = part.state
        draws = replace(
            part.draws,
            loss=shares.shown[part.draws.item],
            outside_loss=shares.now[part.draws.outside],
        )
        words = part.value(_WORDS).sums
        now = np.where(state.labelled("right"), 0.0, 1.0)
        now = np.where(state.labelled("wrong"), np.nan_to_num(shares.now, nan=1.0), now)
        is_seen = _rows_of(part, draws.worth(part.value(_WORDS), upper=True) > 0)
        is_seen[draws.outside[draws.is_used_outside(upper=True)]] = True
        is_wrong = state.labelled("wrong") & np.isnan(shares.now)
        was_wrong = _rows_of(part, draws.wrong) & np.isnan(shares.shown)
        is_uncorrected = (part.ships | part.out) & (is_wrong | was_wrong)
        return cls(part, draws, words, now, is_seen, is_uncorrected)

    def seen(self) -> float:
        """Return the wrong words that a bound counts of what the bets have seen."""
        return self.draws.wrong_value(self.part.value(_WORDS), upper=True)

    def shipped(self) -> float:
        """Return the wrong words of what ships and the bets have not to bound."""
        part = self.part
        seen = float((self.words * self.now)[part.ships & self.is_seen].sum())
        return seen + part.state.sum(_WORDS, part.beyond & ~part.state.labelled("right"))

    def limits(self) -> tuple[float, float]:
        """Return the least and the greatest number of wrong words in what ships, by verdicts."""
        state = self.part.state
        ships = self.part.ships
        words = state.amounts(_WORDS, ships).sums
        is_judged = state.labelled("right", "wrong", "unsure")
        wrong = words * self.now
        return float(wrong[is_judged].sum()), float(wrong.sum())


def _rows_of(part: Part, where: Bools) -> Bools:
    """Return which rows some draws are of."""
    rows = np.zeros(len(part.ships), dtype=np.bool_)
    rows[part.draws.item[where]] = True
    return rows
