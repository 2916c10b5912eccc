"""Claims about the clips that ship, and about all segments above a threshold.

docs/evidence.md has the method and its sources.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core.atomic import append_lines, read_lines
from nbaudio.core.errors import InputError
from nbaudio.proof.betting import Array, Bools, Path, Values, bet, fewest, most
from nbaudio.proof.judged_draws import ProofState
from nbaudio.review.allocation import least_divergence
from nbaudio.review.sampling import Strata

#: Thresholds on similarity that tables show.
THRESHOLDS = (-1.0, 0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
RULES = "reviews/rules.jsonl"
_AMOUNTS = {"by_hours": "hours", "by_words": "words"}
_MOST_KNOTS = 24


def min_sample_size(*, precision: float, confidence: float) -> int:
    """Return how many reviews prove a precision if none of them finds a fault."""
    return math.ceil(-math.log(1 - confidence) / -math.log(precision))


def check_target(precision: float, confidence: float) -> None:
    """Raise InputError unless both are between 0 and 1."""
    for name, value in (("precision", precision), ("confidence", confidence)):
        if isinstance(value, bool) or not 0 < value < 1:
            raise InputError(f"{name} must be between 0 and 1, not {value}")


class Part:
    """What ships of a part of the corpus, with what was left out of it.

    Its methods give bounds of the share that is right.
    """

    def __init__(self, state: ProofState, ships: Bools, left_out: Bools | None = None) -> None:
        self.state = state
        self.ships = ships
        self.out: Bools = np.broadcast_to(np.False_, len(ships))
        if left_out is not None and left_out.any():
            self.out = left_out & ~ships
        self.inside = self.ships | self.out if self.out.any() else self.ships

    def claim(self, *, target: float, error: float, high_error: float) -> dict[str, Any]:
        """Return the claim by segments, with `by_hours` and `by_words`.

        The bounds by hours and by words are two-sided with the same confidence.
        """
        found = self.by("segments", target=target, error=error, high_error=high_error)
        side = (error + high_error) / 2
        return found | {
            key: self.by(what, target=target, error=side, high_error=side)
            for key, what in _AMOUNTS.items()
        }

    def by(self, what: str, *, target: float, error: float, high_error: float) -> dict[str, Any]:  # noqa: PLR0914
        """Return the claim by segments, hours or words."""
        state = self.state
        ships = self._sum(what, self.ships)
        inside = self.value(what)
        facts = {
            "segments": int(self.ships.sum()),
            "hours": round(self._sum("hours", self.ships), 6),
            "reviewed": int((self.inside & state.judged).sum()),
        }
        if ships <= 0:
            return facts | {
                "precision": None,
                "low": None,
                "high": None,
                "target": target,
                "proven": False,
            }
        wrong, faulty, right = (
            state.labelled(*words) for words in (("wrong",), ("wrong", "unsure"), ("right",))
        )
        found = self._found(what)
        unknown_out = self._sum(what, self.out & ~right)
        bound = most(state.draws, inside, error, also=self.least_not_allowed(what, target))
        if what == "segments" and bound < inside.total:
            bound = math.ceil(bound - 1e-6) - 1
        highest = min(
            max(bound - found, self._sum(what, self.ships & faulty)),
            ships - self._sum(what, self.ships & right),
        )
        lowest = fewest(state.draws, self.value(what, upper=False), high_error) - unknown_out
        lowest = min(max(lowest, self._sum(what, self.ships & wrong)), highest)
        low, high = (min(max(1 - each / ships, 0.0), 1.0) for each in (highest, lowest))
        share = state.draws.faulty_share(inside)
        precision = None
        if share is not None or facts["reviewed"]:
            precision = min(
                max(1 - ((share[0] if share else 0.0) * inside.total - found) / ships, low), high
            )
        return facts | {
            "precision": precision,
            "low": low,
            "high": high,
            "target": target,
            "proven": low >= target - 1e-12,
        }

    def value(self, what: str, *, upper: bool = True) -> Values:
        """Return what each item of the population counts for."""
        return self.state.value(what, self.inside, upper=upper)

    def least_not_allowed(self, what: str, target: float) -> float:
        """Return the least wrong value for which less than the target is right.

        The value includes the faults of what does not ship.
        """
        allowed = (1 - target) * self._sum(what, self.ships)
        return self._found(what) + (
            math.floor(allowed + 1e-6) + 1 if what == "segments" else allowed * (1 + 1e-9) + 1e-12
        )

    def _found(self, what: str) -> float:
        """Return the part of an upper bound that is no fault of what ships.

        These are faults that were left out or are gone, and those mended since.
        """
        state = self.state
        size = len(self.ships)
        replaced = self.state.draws.is_replaced
        if not len(replaced):
            return self._sum(what, self.out & state.labelled("wrong"))
        drawn = np.zeros(len(replaced), dtype=bool)
        drawn[state.draws.item] = True
        # What is unsure and was not drawn may be right: a bound does not count it as wrong.
        faulty_out = self.out & (
            state.labelled("wrong") | (drawn[:size] & state.labelled("unsure"))
        )
        mended = self.inside & replaced[:size] & state.labelled("right")
        return self._sum(what, faulty_out | mended) + float(self.value(what).further.sum())

    def path(self, target: float, error: float) -> Path:
        """Return what became of the capital of the null that just too many segments are wrong."""
        null = np.array([self.least_not_allowed("segments", target)])
        return bet(self.state.draws, self.value("segments"), null, level=-math.log(error))

    def further_reviews(self, strata: Strata, *, target: float, error: float) -> int | None:
        """Predict how many more reviews the target takes if strata with rates are drawn from.

        Return None if the target is out of reach.
        """
        state = self.state
        number = strata.number[self.inside & (strata.number >= 0)]
        sizes = np.bincount(number, minlength=len(strata.names)).astype(float)
        if strata.rates is None or not sizes.any():
            return None
        left = self.least_not_allowed("segments", target) - state.draws.found(
            self.value("segments"), upper=True
        )
        if float(sizes @ strata.rates) >= left or len(state.draws.frames) == 0:
            return None
        chance = strata.weights @ (sizes / np.maximum(strata.counts, 1))
        growth = least_divergence(sizes, strata.rates, left) * float(chance)
        return math.ceil(
            max(-math.log(error) - float(self.path(target, error).capital[0]), 0.0) / growth
        )

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
            return {"verdicts": int(state.draws.first[:number].sum()), "since": since}
        faulty = int((self.ships & state.labelled("wrong", "unsure")).sum())
        allowed = math.floor((1 - target) * int(self.ships.sum()) + 1e-6)
        unreviewed = int((self.inside & ~state.judged).sum())
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
        inside = self.value("segments")
        share = self.state.draws.faulty_share(inside)
        allowed = (1 - target) * int(self.ships.sum())
        return share is not None and share[0] * inside.total - self._found("segments") <= allowed

    def _sum(self, what: str, where: Bools) -> float:
        return self.state.amounts(what, where).total


def _at_rate(missing: float, rate: float) -> int:
    """Return how many verdicts make up what is missing at a rate; very many if there is none."""
    return math.ceil(missing / rate) if rate > 1e-9 else sys.maxsize


def selected(state: ProofState, threshold: float, ships: Bools) -> Part:
    """Return what ships with what was left out, or all `above` a threshold if nothing ships."""
    return (
        Part(state, ships, state.population.mask(state.left_out["segment_id"]))
        if ships.any()
        else above(state, threshold)
    )


def parts(state: ProofState, threshold: float, *, without: Sequence[str] = ()) -> dict[str, Part]:
    """Return what is `selected` as `selection`, and what ships of each split.

    The segments in `without` do not ship.
    """
    ships = state.accepted & ~state.population.mask(pl.Series(list(without), dtype=pl.String))
    found = {"selection": selected(state, threshold, ships)}
    if not ships.any():
        return found
    out = state.left_out
    split = state.population.column(pl.col("split").cast(pl.Categorical))
    for name in split.filter(pl.Series(ships)).drop_nulls().unique().cast(pl.String).sort():
        # What was rejected by hand is left out of every split.
        out_of = out.filter(pl.col("split").fill_null(name) == name)["segment_id"]
        found[name] = Part(
            state,
            ships & split.eq(name).fill_null(value=False).to_numpy(),
            state.population.mask(out_of),
        )
    return found


def above(
    state: ProofState, threshold: float, where: Bools | None = None, values: Array | None = None
) -> Part:
    """Return all segments at or above a threshold on values, whether they ship or not.

    By default the values are similarities, and segments without one are taken too.
    """
    # A similarity that is NaN is not below the threshold.
    keeps = (
        ~(state.population.numbers["similarity"] < threshold)
        if values is None
        else values >= threshold
    )
    keeps &= state.population.reviewable
    return Part(state, keeps if where is None else keeps & where)


def rule_error(
    state: ProofState, rule: Mapping[str, Any], confidence: float
) -> tuple[int, int, float]:
    """Return a rule's place among those asked about, their number, and its share of errors.

    A new rule is logged once there are verdicts and accepted segments.
    """
    path = state.workspace.path / RULES
    known = read_lines(path, json.loads, "a rule")
    rules = [json.dumps(each["rule"], sort_keys=True) for each in known]
    own = json.dumps(rule, sort_keys=True)
    if own not in rules:
        rules.append(own)
        if not state.verdicts.is_empty() and state.accepted.any():
            append_lines(
                path,
                [
                    json.dumps(
                        {"rule": rule, "verdicts": len(state.verdict_log)}, sort_keys=True
                    ).encode()
                ],
            )
    number = rules.index(own) + 1
    return number, len(rules), (1 - confidence) * 6 / (math.pi * number) ** 2


def curve(
    state: ProofState,
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    precision: float = 0.98,
    confidence: float = 0.95,
    where: Bools | None = None,
    values: Array | None = None,
) -> pl.DataFrame:
    """Compute the claim about all segments at or above each threshold (ascending).

    By default, segments without a similarity are taken too. `low` and `high` hold for each
    threshold by itself, `proven` for all at once (docs/evidence.md). Of more than 24 thresholds,
    the bounds of some serve those between them, which is cautious.
    """
    check_target(precision, confidence)
    grid = sorted(thresholds)
    side = (1 - confidence) / 2

    def at(place: int) -> Part:
        return above(state, grid[place], where, values)

    sizes = np.array([at(place).ships.sum() for place in range(len(grid))])
    knots = np.arange(len(grid))
    if len(grid) > _MOST_KNOTS:
        wanted = np.linspace(sizes.max(), 0, _MOST_KNOTS)
        knots = np.unique(
            [0, len(grid) - 1, *(int(np.abs(sizes - each).argmin()) for each in wanted)]
        )
    # Thresholds that keep the same segments have the same claim.
    by_size = {
        sizes[k]: at(k).by("segments", target=precision, error=side, high_error=side)
        for k in reversed(knots)
    }
    claims = {int(k): by_size[sizes[k]] for k in knots}
    proven = _proven(at, sizes, precision, confidence, knots.tolist())
    rows = []
    for place, threshold in enumerate(grid):
        below = knots[np.searchsorted(knots, place, "right") - 1]
        over = knots[np.searchsorted(knots, place, "left")]
        row = _row(at(place), claims, place, int(below), int(over))
        rows.append({"threshold": threshold, **row, "target": precision, "proven": place in proven})
    return pl.DataFrame(rows, infer_schema_length=None)


def _row(
    part: Part, claims: Mapping[int, Mapping[str, Any]], place: int, below: int, over: int
) -> dict[str, Any]:
    """Return the claim at a threshold from those at the nearest thresholds with bounds."""
    state = part.state
    size = int(part.ships.sum())
    judged = part.ships & state.judged
    right = state.labelled("right")
    wrong = state.labelled("wrong")
    counts = {"reviewed": judged, "wrong": judged & wrong, "unsure": judged & ~right & ~wrong}
    names = {"segments": size, "hours": round(part._sum("hours", part.ships), 6)}
    names |= {name: int(where.sum()) for name, where in counts.items()}
    if place in claims:
        return names | {name: claims[place][name] for name in ("precision", "low", "high")}
    low = None
    high = None
    share = state.draws.faulty_share(part.value("segments"))
    if size:
        # What is wrong above a threshold is no more than above a lower one, and no less than above
        # a higher one.
        low = max(0.0, 1 - (1 - claims[below]["low"]) * claims[below]["segments"] / size)
        high = (
            1 - (1 - (claims[over]["high"] or 1.0)) * claims[over]["segments"] / size
            if claims[over]["segments"]
            else 1.0
        )
    precision = None if share is None or low is None else min(max(1 - share[0], low), high or 1.0)
    return names | {"precision": precision, "low": low, "high": high}


def _proven(
    at: Callable[[int], Part],
    sizes: Array,
    precision: float,
    confidence: float,
    knots: Sequence[int],
) -> list[int]:
    """Return the thresholds that are proven to keep the target precision.

    The confidence is that of all of them together.
    """
    order = [place for place in reversed(knots) if sizes[place]]
    if not order or not len(at(order[0]).state.lines):
        return []
    starts = [
        next(n for n, place in enumerate(order) if sizes[place] >= sizes.max() / 2**power)
        for power in (3, 2, 1, 0)
    ]
    found = []
    error = 0.0
    for start, end in pairwise([*sorted(set(starts)), len(order)]):
        error += (1 - confidence) / len(set(starts))
        for place in order[start:end]:
            part = at(place)
            path = bet(
                part.state.draws,
                part.value("segments"),
                np.array([part.least_not_allowed("segments", precision)]),
            )
            if path.peak[0] < -math.log(error):
                error = 0.0
                break
            found.append(place)
    return found
