"""Claims about the clips that ship, and about all segments above a threshold.

docs/evidence-method.md has the method and its sources.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.proof.betting import Array, Bools, Ints, Path, Values, bet, fewest, most
from nbaudio.proof.proof_state import THRESHOLDS, ProofState
from nbaudio.proof.rule_segments import FIRST_SHARE, RuleDraws
from nbaudio.proof.segment_sums import Kinds
from nbaudio.review.allocation import least_divergence
from nbaudio.review.fixed_rules import next_number
from nbaudio.review.sampling import Strata
from nbaudio.review.state import ReviewState
from nbaudio.tables.workspace import Workspace

_AMOUNTS = {"by_hours": "hours", "by_words": "words"}
_MOST_KNOTS = 24
# A rule bounds what ships well if at most this share of it is not in the rule.
_FEW_BEYOND = 0.01


def min_sample_size(*, precision: float, confidence: float) -> int:
    """Return how many reviews prove a precision if none of them finds a fault."""
    return math.ceil(-math.log(1 - confidence) / -math.log(precision))


def check_target(precision: float, confidence: float) -> None:
    """Raise InputError unless both are between 0 and 1."""
    for name, value in (("precision", precision), ("confidence", confidence)):
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not 0 < value < 1:
            raise InputError(f"{name} must be between 0 and 1, not {value}")


class Part:
    """What ships of a part of the corpus, within segments that bets are about.

    Masks are by row of `ProofState.rows`. Its methods give bounds of the share that is right.
    Without a rule, bets are about what ships
    itself with what was left out of it because it was reviewed. With one they are about all
    segments of the rule: then the bounds hold however what ships was chosen.
    """

    def __init__(
        self,
        state: ProofState,
        ships: Bools,
        left_out: Bools | None = None,
        *,
        about: RuleDraws | None = None,
    ) -> None:
        self.state = state
        self.ships = ships
        self.about = about
        none = np.broadcast_to(np.False_, len(ships))
        self.out: Bools = none
        self.beyond: Bools = none  # what ships and is not in the rule
        self.draws = state.draws
        self.inside = ships
        self._most_wrong_of: dict[tuple[str, float, float], float] = {}
        if about is not None:
            self.draws = about.draws
            self.inside = about.rule.inside
            self.out = self.inside & ~ships
            self.beyond = ships & ~self.inside
        elif left_out is not None and left_out.any():
            self.out = left_out & ~ships
            self.inside = self.ships | self.out

    def claim(self, *, target: float, error: float, high_error: float) -> dict[str, Any]:
        """Return the claim by segments, with `by_hours` and `by_words`.

        The bounds by hours and by words are two-sided with the same confidence. Each holds by
        itself, so that their `proven` is None (`evidence` sets it).
        """
        claim = self.by("segments", target=target, error=error, high_error=high_error)
        side = (error + high_error) / 2
        for key, what in _AMOUNTS.items():
            amount = self.by(what, target=target, error=side, high_error=side)
            claim[key] = amount | {"proven": None}
        return claim

    def by(self, what: str, *, target: float, error: float, high_error: float) -> dict[str, Any]:
        """Return the claim by segments, hours or words."""
        state = self.state
        ships = state.sum(what, self.ships)
        facts = {
            "segments": state.count(self.ships),
            "hours": round(self._sum("hours", self.ships), 6),
            "reviewed": state.count((self.ships | self.out) & state.judged),
        }
        if ships <= 0:
            return facts | {
                "precision": None,
                "low": None,
                "high": None,
                "target": target,
                "proven": False,
            }
        highest = self._most_wrong(what, target=target, error=error)
        lowest = min(self._fewest_wrong(what, error=high_error), highest)
        low, high = (
            min(max(1 - wrong_amount / ships, 0.0), 1.0) for wrong_amount in (highest, lowest)
        )
        precision = None
        if facts["reviewed"] and (estimate := self._estimate(what)) is not None:
            precision = min(max(estimate, low), high)
        return facts | {
            "precision": precision,
            "low": low,
            "high": high,
            "target": target,
            "proven": low >= target - 1e-12,
        }

    def low(self, *, target: float, error: float) -> float:
        """Return the lower bound of the share of segments that is right, of those that ship."""
        highest = self._most_wrong("segments", target=target, error=error)
        return min(max(1 - highest / self.state.count(self.ships), 0.0), 1.0)

    def _most_wrong(self, what: str, *, target: float, error: float) -> float:
        """Return an upper bound of what is wrong in what ships, computed once."""
        parameters = (what, target, error)
        if parameters not in self._most_wrong_of:
            bound = self._bet_on_most_wrong(what, target=target, error=error)
            self._most_wrong_of[parameters] = bound
        return self._most_wrong_of[parameters]

    def _bet_on_most_wrong(self, what: str, *, target: float, error: float) -> float:
        """Compute an upper bound of what is wrong in what ships."""
        inside = self.value(what)
        least_not_allowed = max(self.least_not_allowed(what, target), 0.0)
        bound = most(self.draws, inside, error, also=least_not_allowed)
        if what == "segments" and bound < inside.total:
            bound = math.ceil(bound - 1e-6) - 1
        bound += self._unproven_beyond(what) - self._excess_faults(what)
        faulty = self._sum(what, self.ships & self.state.labelled("wrong", "unsure"))
        right = self._sum(what, self.ships & self.state.labelled("right"))
        return min(max(bound, faulty), self._sum(what, self.ships) - right)

    def _fewest_wrong(self, what: str, *, error: float) -> float:
        """Return a lower bound of what is wrong in what ships."""
        inside = self.value(what, upper=False)
        not_right_out = self._sum(what, self.out & ~self.state.labelled("right"))
        removed = float(self._removed(what, upper=False).sum())
        bound = fewest(self.draws, inside, error) - not_right_out - removed
        return max(bound, self._sum(what, self.ships & self.state.labelled("wrong")))

    def _estimate(self, what: str) -> float | None:
        """Return the estimated share of what ships that is right.

        It takes what ships, and what reviews left out of it, as a random sample of all of it.
        """
        ships = self._sum(what, self.ships)
        if self.about is not None:
            left_out = self.state.left_out & self.inside
            return Part(self.state, self.ships, left_out)._estimate(what)
        share = self.state.draws.faulty_share(self.value(what))
        if share is None:
            return None
        return 1 - (share[0] * self.value(what).total - self._excess_faults(what)) / ships

    def value(self, what: str, *, upper: bool = True) -> Values:
        """Return what each item of the population counts for."""
        return self._amounts(what).plus(self._removed(what, upper=upper))

    def _amounts(self, what: str) -> Values:
        """Return the amounts of the segments inside that have not been removed."""
        return self.state.amounts(what, self.inside)

    def _removed(self, what: str, *, upper: bool) -> Array:
        """Return what removed segments count for, by row.

        Those of a rule count for what they were. Without one, those that were replaced count for
        the average in upper bounds.
        """
        if self.about is not None:
            return self.about.rule.removed_amounts(what)
        if not self.draws.replaced.any():
            return np.zeros(len(self.ships))
        size = self.state.count(self.inside)
        average = 0.0
        if upper and size:
            average = self._amounts(what).total / size
        is_removed = np.zeros(len(self.ships), dtype=np.bool_)
        is_removed[self.draws.item[self.draws.replaced]] = True
        return np.where(is_removed & ~self.state.flags("is_there"), average, 0.0)

    def least_not_allowed(self, what: str, target: float) -> float:
        """Return the least wrong value inside for which less than the target is right.

        The value includes the faults of what does not ship.
        """
        allowed = (1 - target) * self._sum(what, self.ships) - self._unproven_beyond(what)
        if what == "segments":
            not_allowed: float = math.floor(allowed + 1e-6) + 1
        else:
            not_allowed = allowed * (1 + 1e-9) + 1e-12
        return self._excess_faults(what) + not_allowed

    def _unproven_beyond(self, what: str) -> float:
        """Return what ships, is not inside, and was not found right: it counts as wrong."""
        if not self.beyond.any():
            return 0.0
        return self._sum(what, self.beyond & ~self.state.labelled("right"))

    def _excess_faults(self, what: str) -> float:
        """Return the part of an upper bound that does not count faults of what ships.

        It counts faults that were left out or removed, and faults that were mended since.
        """
        state = self.state
        drawn = np.zeros(len(self.ships), dtype=np.bool_)
        drawn[self.draws.item] = True
        replaced = np.zeros(len(self.ships), dtype=np.bool_)
        replaced[self.draws.item[self.draws.replaced]] = True
        # What is unsure and was not drawn may be right: a bound does not count it as wrong.
        faulty_out = self.out & (state.labelled("wrong") | (drawn & state.labelled("unsure")))
        mended = self.inside & replaced & state.labelled("right")
        if self.about is None:
            removed = float(self._removed(what, upper=True).sum())
        else:
            removed = self.about.found_removed(what)
        return self._sum(what, faulty_out | mended) + removed

    def path(self, target: float, error: float) -> Path:
        """Return what became of the capital of the null that just too many segments are wrong."""
        null = np.array([self.least_not_allowed("segments", target)])
        return bet(self.draws, self.value("segments"), null, level=-math.log(error))

    def further_reviews(self, strata: Strata, *, target: float, error: float) -> int | None:
        """Predict how many more reviews the target takes if strata with rates are drawn from.

        Return None if the target is not within reach: more segments would have to be drawn than
        are left, or too many are expected to be wrong. The strata are those of the column
        `next_stratum`, or all of them merged into one.
        """
        number = self.state.rows["next_stratum"].to_numpy()
        inside = self.inside & (number >= 0)
        number = np.minimum(number[inside], len(strata.names) - 1)
        sizes = np.bincount(
            number, self.state.rows["segments"].to_numpy()[inside], minlength=len(strata.names)
        ).astype(float)
        if strata.rates is None or not sizes.any():
            return None
        left = self.least_not_allowed("segments", target) - self.draws.wrong_value(
            self.value("segments"), upper=True
        )
        if float(sizes @ strata.rates) >= left or len(self.draws.frames) == 0:
            return None
        chance = strata.weights @ (sizes / np.maximum(strata.counts, 1))
        growth = least_divergence(sizes, strata.rates, left) * float(chance)
        missing = max(-math.log(error) - float(self.path(target, error).capital[0]), 0.0)
        reviews = _at_rate(missing, growth)
        if reviews > int(strata.counts.sum()):
            return None
        return reviews

    def progress(self, *, target: float, error: float) -> dict[str, Any]:
        """Return when the target was proven, or how many more verdicts it is expected to take.

        If it is proven, `verdicts` says after how many verdicts, and `since` at what time. If not,
        `expected` and `least` are numbers of further verdicts, at most the `unreviewed` clips.
        `expected` is None if no number is expected to prove it. `least`, if all of them are right,
        is None if more clips are `faulty` than are `allowed`.
        """
        state = self.state
        path = self.path(target, error)
        if path.crossed[0] >= 0:
            number = int(path.crossed[0])
            since = state.verdict_log["time"][int(state.lines[number - 1])]
            return {"verdicts": int(self.draws.first[:number].sum()), "since": since}
        faulty = state.count(self.ships & state.labelled("wrong", "unsure"))
        allowed = math.floor((1 - target) * state.count(self.ships) + 1e-6)
        unreviewed = state.count((self.ships | self.out) & ~state.judged)
        counts = {"unreviewed": unreviewed, "faulty": faulty, "allowed": allowed}
        if faulty > allowed:
            return {"expected": None, "least": None, **counts}
        missing = -math.log(error) - float(path.capital[0])
        if not len(state.lines):
            least = math.ceil(-math.log(error) / -math.log(target))
            return {"expected": None, "least": min(least, unreviewed), **counts}
        least = _at_rate(missing, path.fastest)
        expected = _at_rate(missing, path.growth)
        if expected > unreviewed and not self._is_reached_by_estimate(target):
            return {"expected": None, "least": min(least, unreviewed), **counts}
        return {"expected": min(expected, unreviewed), "least": min(least, unreviewed), **counts}

    def _is_reached_by_estimate(self, target: float) -> bool:
        """Return whether at least the target share of what ships is right, by the estimate."""
        estimate = self._estimate("segments")
        return estimate is not None and estimate >= target - 1e-9

    def _sum(self, what: str, where: Bools) -> float:
        """Return the segments, hours or words of some segments."""
        return self.state.sum(what, where)


def _at_rate(missing: float, rate: float) -> int:
    """Return how many verdicts make up what is missing at a rate; very many if there is none."""
    return math.ceil(missing / rate) if rate > 1e-9 else sys.maxsize


@dataclass(frozen=True)
class Claim:
    """A part with the fixed rule that bounds what is wrong in it best, and the shares of errors."""

    part: Part
    error: float  # the error of the lower bound of the share that is right
    high_error: float  # the error of its upper bound

    @property
    def is_serving(self) -> bool:
        """Whether hardly anything ships that is not in the rule."""
        part = self.part
        return part.state.count(part.beyond) <= _FEW_BEYOND * part.state.count(part.ships)

    def facts(self, target: float) -> dict[str, Any]:
        """Return the claim as in ``corpus.json``, with the `rule` that it rests on."""
        claim = self.part.claim(target=target, error=self.error, high_error=self.high_error)
        return claim | {"rule": self._rule()}

    def is_proven(self, what: str, *, target: float, error: float) -> bool:
        """Return whether the target share of segments, hours or words is proven to be right.

        `error` is that of the claim, by all rules.
        """
        part = self.part
        ships = part._sum(what, part.ships)
        if ships <= 0:
            return False
        share = error * FIRST_SHARE
        if part.about is not None:
            share = part.about.rule.error(error)
        highest = part._most_wrong(what, target=target, error=share)
        return 1 - highest / ships >= target - 1e-12

    def _rule(self) -> dict[str, Any]:
        """Return the rule, and how what ships differs from it.

        `left_out` segments are in the rule and do not ship, without those that are left out because
        they were reviewed. `added` segments ship and are not in the rule.
        """
        about = self.part.about
        state = self.part.state
        if about is None:
            return {"number": 1, "of": 0, "error": self.error}
        left_out = state.count(self.part.out & ~state.left_out)
        return {
            "number": about.rule.number,
            "of": len(state.rules),
            "error": self.error,
            "segments": state.count(self.part.inside),
            "left_out": left_out + int(about.rule.removed.sum()),
            "added": state.count(self.part.beyond),
        }

    def fresh_reviews(self, target: float, whole_error: float) -> int | None:
        """Return how many reviews of what ships are expected to prove the target by a new rule.

        The next round fixes it. None if too many are wrong by the estimate, or more reviews are
        needed than there are segments that nobody has reviewed.
        """
        part = self.part
        state = part.state
        judged = (part.ships | state.left_out) & state.judged
        faults = judged & ~state.labelled("right")
        rate = (state.count(faults) + 0.5) / (state.count(judged) + 1)
        allowed = 1 - target
        if rate >= allowed:
            return None
        divergence = rate * math.log(rate / allowed) + (1 - rate) * math.log((1 - rate) / target)
        number = next_number(state.rules)
        reviews = math.ceil(-math.log(whole_error * FIRST_SHARE / number**2) / divergence)
        if reviews <= state.count(part.ships & ~state.judged):
            return reviews
        return None


def best_claim(
    state: ProofState, ships: Bools, *, target: float, error: float, split: str | None = None
) -> Claim:
    """Return the claim about what ships, by the rule that bounds what is wrong in it best.

    The bounds of all rules hold together, as they share the error: the best one may be taken.

    Args:
        state: the population and its draws.
        ships: what ships.
        target: the share that is to be right.
        error: of the claim: of both bounds of the selection, or of each bound of a split.
        split: the split that ships; None: the whole selection.
    """
    if not state.usable:
        return _prospective_claim(state, ships, error, split)
    of_fixed_rules = _claims_of_fixed_rules(state, ships, error, split)
    best = _narrowest((claim for claim in of_fixed_rules if claim.is_serving), target)
    if best is not None:
        return best
    every_claim = claims_by_rule(state, ships, error=error, split=split)
    narrowest = _narrowest(every_claim, target)
    return narrowest or _claim(state, ships, state.about_all_segments(), error, split)


def claims_by_rule(
    state: ProofState, ships: Bools, *, error: float, split: str | None = None
) -> Iterator[Claim]:
    """Yield the claim about what ships by each rule, first by that of all segments.

    Parameters are those of `best_claim`.
    """
    yield _claim(state, ships, state.about_all_segments(), error, split)
    yield from _claims_of_fixed_rules(state, ships, error, split)


def _claims_of_fixed_rules(
    state: ProofState, ships: Bools, error: float, split: str | None
) -> Iterator[Claim]:
    """Yield the claim about what ships by each rule that a round has fixed."""
    for rule in state.rules:
        yield _claim(state, ships, state.about_rule(rule, split), error, split)


def _narrowest(claims: Iterable[Claim], target: float) -> Claim | None:
    """Return the claim with the lowest bound of what is wrong; None if there are no claims."""
    narrowest = None
    lowest = math.inf
    for claim in claims:
        bound = claim.part._most_wrong("segments", target=target, error=claim.error)
        if bound < lowest:
            narrowest = claim
            lowest = bound
    return narrowest


def _prospective_claim(state: ProofState, ships: Bools, error: float, split: str | None) -> Claim:
    """Return the claim about what ships as the rule that the first round will fix."""
    part = Part(state, ships, state.left_out)
    if split is None:
        low_error = error * FIRST_SHARE
        return Claim(part, low_error, error - low_error)
    return Claim(part, error, error)


def _claim(
    state: ProofState, ships: Bools, about: RuleDraws, error: float, split: str | None
) -> Claim:
    """Return the claim about what ships by one rule."""
    part = Part(state, ships, about=about)
    if split is None:
        low_error = about.rule.error(error)
        return Claim(part, low_error, error - low_error)
    side = error / about.rule.number**2
    return Claim(part, side, error)


def what_ships(state: ProofState) -> Bools:
    """Return what ships, or all segments `above` the threshold of `select` if nothing is selected.

    The segments in `Kinds.without` do not ship.
    """
    ships = state.accepted & ~state.flags("without")
    if ships.any():
        return ships
    return above(state, state.selection_threshold).ships


def ships_by_split(state: ProofState, ships: Bools) -> dict[str, Bools]:
    """Return what ships of each split; empty if nothing is selected."""
    if not state.accepted.any():
        return {}
    split = state.rows["split"]
    names = split.filter(pl.Series(ships)).drop_nulls().unique().sort()
    return {name: ships & split.eq_missing(name).to_numpy() for name in names}


def above(state: ProofState, threshold: float, *, has_duration: bool = False) -> Part:
    """Return all segments at or above a threshold of `Kinds.cuts`, whether they ship or not.

    Segments without a similarity are taken too; of another column, those without a number are not.
    With `has_duration`, only those are taken whose duration `select` takes.
    """
    place = list(state.cuts).index(threshold)
    cut = state.rows["cut"].to_numpy()
    is_at_least = cut > place
    if state.kinds.column == "similarity":
        is_at_least = is_at_least | (cut < 0)
    keeps = is_at_least & state.flags("reviewable")
    if has_duration:
        keeps &= state.flags("has_duration")
    return Part(state, keeps)


def curve(
    source: str | FilePath | Workspace | ReviewState,
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    precision: float = 0.98,
    confidence: float = 0.95,
    column: str = "similarity",
    sign: int = 1,
) -> pl.DataFrame:
    """Compute `curve_of` a workspace at thresholds on a column, of any duration.

    Claims about another column than the similarity hold only if it was what it is before the
    verdicts. With the sign -1, thresholds are on the negated numbers.
    """
    grid = sorted(thresholds)
    state = ProofState(ReviewState.load(source).workspace, Kinds(column, sign, grid))
    return curve_of(state, grid, precision=precision, confidence=confidence)


def curve_of(
    state: ProofState,
    grid: Sequence[float],
    *,
    precision: float = 0.98,
    confidence: float = 0.95,
    has_duration: bool = False,
) -> pl.DataFrame:
    """Compute the claim about all segments at or above each threshold (ascending).

    Segments without a similarity are taken too. `low` and `high` hold for each threshold by itself,
    `proven` for all at once (docs/evidence-method.md). Of more than 24 thresholds, the bounds of
    some serve those between them, which is cautious.

    Args:
        state: the segments in sums, and the draws.
        grid: thresholds of `Kinds.cuts`.
        precision: the target share.
        confidence: of the claims.
        has_duration: take only segments with a duration that is selected.
    """
    check_target(precision, confidence)
    side = (1 - confidence) / 2
    parts = [above(state, threshold, has_duration=has_duration) for threshold in grid]
    sizes = np.array([state.count(part.ships) for part in parts])
    knots = _knots(sizes)
    for k in knots:
        parts[k] = _about_fixed_rule(parts[k], grid[k], has_duration=has_duration)
    # Thresholds that keep the same segments have the same claim.
    lowest_of_size = {sizes[k]: parts[k] for k in reversed(knots)}
    by_size = {
        size: part.by("segments", target=precision, error=side, high_error=side)
        for size, part in lowest_of_size.items()
    }
    claims = {int(k): by_size[sizes[k]] for k in knots}
    proven = _proven(parts, sizes, precision, confidence, knots.tolist())
    rows = []
    for place, threshold in enumerate(grid):
        below = knots[np.searchsorted(knots, place, "right") - 1]
        over = knots[np.searchsorted(knots, place, "left")]
        row = _row(parts[place], claims, place, int(below), int(over))
        rows.append({"threshold": threshold, **row, "target": precision, "proven": place in proven})
    return pl.DataFrame(rows, infer_schema_length=None)


def _about_fixed_rule(part: Part, threshold: float, *, has_duration: bool) -> Part:
    """Return the segments at or above a threshold, with the draws of its fixed rule.

    A threshold on the similarity is a rule that each round has fixed; one on another column is
    none.
    """
    state = part.state
    if state.kinds.column != "similarity" or not state.usable:
        return part
    place = list(state.cuts).index(threshold)
    return Part(state, part.ships, about=state.about_threshold(place, has_duration=has_duration))


def _knots(sizes: Ints) -> Ints:
    """Return the places of the thresholds that get bounds of their own, ascending.

    `sizes` is the number of segments at each threshold. The knots are those nearest to evenly
    spaced sizes, with the first and the last threshold.
    """
    if len(sizes) <= _MOST_KNOTS:
        return np.arange(len(sizes))
    wanted = np.linspace(sizes.max(), 0, _MOST_KNOTS)
    nearest = [int(np.abs(sizes - size).argmin()) for size in wanted]
    return np.unique([0, len(sizes) - 1, *nearest])


def _row(
    part: Part, claims: Mapping[int, Mapping[str, Any]], place: int, below: int, over: int
) -> dict[str, Any]:
    """Return the claim at a threshold from those at the nearest thresholds with bounds."""
    state = part.state
    size = state.count(part.ships)
    judged = part.ships & state.judged
    right = state.labelled("right")
    wrong = state.labelled("wrong")
    counts = {"reviewed": judged, "wrong": judged & wrong, "unsure": judged & ~right & ~wrong}
    names = {"segments": size, "hours": round(part._sum("hours", part.ships), 6)}
    names |= {name: state.count(where) for name, where in counts.items()}
    if place in claims:
        return names | {name: claims[place][name] for name in ("precision", "low", "high")}
    low = None
    high = None
    share = state.draws.faulty_share(Part(state, part.ships).value("segments"))
    if size:
        # What is wrong above a threshold is no more than above a lower one, and no less than above
        # a higher one.
        low = max(0.0, 1 - (1 - claims[below]["low"]) * claims[below]["segments"] / size)
        if claims[over]["segments"]:
            high = 1 - (1 - (claims[over]["high"] or 1.0)) * claims[over]["segments"] / size
        else:
            high = 1.0
    if share is None or low is None:
        precision = None
    else:
        precision = min(max(1 - share[0], low), high or 1.0)
    return names | {"precision": precision, "low": low, "high": high}


def _proven(
    parts: Sequence[Part],
    sizes: Array,
    precision: float,
    confidence: float,
    knots: Sequence[int],
) -> list[int]:
    """Return the thresholds that are proven to keep the target precision.

    The confidence is that of all of them together.
    """
    order = [place for place in reversed(knots) if sizes[place]]
    if not order or not len(parts[0].state.lines):
        return []
    starts = [
        next(n for n, place in enumerate(order) if sizes[place] >= sizes.max() / 2**power)
        for power in (3, 2, 1, 0)
    ]
    proven = []
    error = 0.0
    for start, end in pairwise([*sorted(set(starts)), len(order)]):
        error += (1 - confidence) / len(set(starts))
        for place in order[start:end]:
            part = parts[place]
            path = bet(
                part.draws,
                part.value("segments"),
                np.array([part.least_not_allowed("segments", precision)]),
            )
            if path.peak[0] < -math.log(error):
                error = 0.0
                break
            proven.append(place)
    return proven
