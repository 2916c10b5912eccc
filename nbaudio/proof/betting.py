"""Bounds of the number of wrong segments, by betting on verdicts in drawn order.

docs/evidence.md has the method and its sources.

A draw multiplies the capital of the null "m or more are wrong" by ``1 + mu A (c - e)``: e is 1 if
it is wrong, else 0; A is its value (segments, hours or words) over the probability of drawing it
next; c is what the null expects in its bin (one or several strata). mu and c may depend on earlier
draws alone. What no draw could reach, and what is unsure, counts as wrong in upper bounds and as
right in lower ones.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.signedinteger[Any]]
Bools = NDArray[np.bool_]

_MOST_BINS = 24
_GRID = 24
_REFINED = 32
_PASSES = 2
_FIRST_NULL = 1e-4  # of the total
_MOST_STAKED = 0.999
# Rates of wrong segments before there are verdicts, how many rows they count for, in a bin at
# least, and their own weights. The last prior takes all bins for nearly alike.
_PRIOR_RATES = np.array([0.007, 0.1, 0.007])
_PRIOR_ROWS = np.array([150.0, 5.0, 150.0])
_LEAST_PRIOR_ROWS = np.array([5.0, 1.0, 150.0])
_PRIOR_WEIGHTS = np.array([0.45, 0.1, 0.45])
# Of the rates that a round expects before its first draw; somewhat lower ones give the earlier
# proof in most corpora.
_EXPECTED_ROWS = 400.0
_EXPECTED_WEIGHT = 1.0
_EXPECTED_PART = 0.7
_LEAST_RATE = 1e-4
_STEPS = 16
_NEWTON_STEPS = 6
_NEAR = 0.02
_TINY = 1e-12


@dataclass(frozen=True)
class Values:
    """What the items of each row count for; a row has one item, or several that nobody judged."""

    sums: Array  # over the items of each row
    counts: Ints  # how many items of each row count for more than 0
    largest: Array  # what the item that counts most counts for

    @classmethod
    def of(cls, value: "Array | Values") -> "Values":
        """Return the values of rows that have one item each, or values as they are."""
        return (
            value if isinstance(value, Values) else cls(value, (value > 0).astype(np.int64), value)
        )

    def __getitem__(self, rows: Ints) -> Array:
        """Return what the items of some rows count for."""
        return self.sums[rows]

    @cached_property
    def total(self) -> float:
        """The sum over all items."""
        return math.fsum(self.sums)

    def within(self, rows: Bools) -> "Values":
        """Return values that are 0 outside of some rows."""
        return Values(self.sums * rows, self.counts * rows, self.largest * rows)

    def plus(self, amounts: Array) -> "Values":
        """Return values with those of further items, at most one in each row."""
        return Values(
            self.sums + amounts,
            self.counts + (amounts > 0),
            np.maximum(self.largest, amounts),
        )

    def without(self, rows: Ints) -> "Values":
        """Return values that are 0 for some rows."""
        return self.within(~np.isin(np.arange(len(self.sums)), rows))


@dataclass(frozen=True)
class Frame:
    """What a round could draw; arrays have a value for each row of items."""

    stratum: Ints  # of each row; -1 for those that it could not draw
    valid: Bools  # of each row: it could be drawn, and has not changed since
    sizes: Array  # the number of items in each stratum
    weights: Array  # the probability of each stratum at a draw, as long as none is exhausted
    rates: Array | None = None  # of wrong items in each stratum, as expected before the first draw

    @cached_property
    def bins(self) -> Ints:
        """The bin of each stratum: strata of similar sampling rates share one if there are many.

        No bin is empty: a stratum that is drawn more often than a bin may leave one out.
        """
        number = len(self.weights)
        if number <= _MOST_BINS:
            return np.arange(number)
        order = np.argsort(self.sizes / self.weights, kind="stable")
        found = np.empty(number, dtype=np.int64)
        ends = np.cumsum(self.weights[order]) / self.weights.sum()
        found[order] = np.minimum(_MOST_BINS * ends, _MOST_BINS - 1)
        return np.unique(found, return_inverse=True)[1]


@dataclass(frozen=True)
class Draws:
    """Judged items in the order in which they were drawn."""

    frames: tuple[Frame, ...]
    round: Ints  # of each draw, the place of its frame
    item: Ints  # of each draw, the row that has its item alone
    wrong: Bools
    unsure: Bools
    # Changed since drawn, or gone and wrong or unsure; a fault in upper bounds, since changes may
    # follow from verdicts.
    replaced: Bools
    first: Bools  # of each draw: no draw before it is of the same item
    known: Ints  # items that were judged as they are now and that no frame holds as they are now
    known_wrong: Bools
    known_unsure: Bools

    @cached_property
    def valid(self) -> Bools:
        """Which draws are the first of items that have not changed since."""
        found = np.zeros(len(self.item), dtype=bool)
        for number, frame in enumerate(self.frames):
            own = self.round == number
            found[own] = frame.valid[self.item[own]]
        return found & self.first

    @cached_property
    def is_replaced(self) -> Bools:
        """Which rows are replaced items."""
        found = np.zeros(len(self.frames[0].stratum) if self.frames else 0, dtype=bool)
        found[self.item[self.replaced]] = True
        return found

    @cached_property
    def inverse(self) -> Array:
        """One over the probability of each draw, given all before it.

        A round passes over items that others have reached.
        """
        found = np.ones(len(self.item))
        for number, frame in enumerate(self.frames):  # noqa: PLR1702
            undrawn = frame.sizes.copy()
            unseen = frame.sizes.copy()
            strata = frame.stratum[self.item].tolist()
            own = (self.round == number).tolist()
            for place, first in enumerate(self.first.tolist()):
                stratum = strata[place]
                if own[place]:
                    if first:
                        left = undrawn > 0
                        chance = frame.weights[left] / undrawn[left]
                        found[place] = (
                            chance @ unseen[left] * undrawn[stratum] / frame.weights[stratum]
                        )
                    undrawn[stratum] -= 1
                if first and stratum >= 0:
                    unseen[stratum] -= 1
        return found

    def worth(self, value: Values, *, upper: bool) -> Array:
        """Return what each draw counts for: for lower bounds, replaced items count for nothing."""
        return np.where(
            self.valid | (self.replaced & self.first) if upper else self.valid,
            value[self.item],
            0.0,
        )

    def faults(self, *, upper: bool) -> Bools:
        """Return which draws count as wrong."""
        return self.wrong | self.unsure | self.replaced if upper else self.wrong

    def known_items(self, *, upper: bool) -> tuple[Ints, Ints]:
        """Return known items that bounds take as judged, and those of them that count as wrong."""
        kept = (
            ~self.is_replaced[self.known]
            if upper and self.frames
            else np.ones(len(self.known), dtype=bool)
        )
        faulty = self.known_wrong | self.known_unsure if upper else self.known_wrong
        return self.known[kept], self.known[kept & faulty]

    def found(self, value: Values, *, upper: bool) -> float:
        """Return the value that was found wrong."""
        known = value[self.known_items(upper=upper)[1]].sum()
        return float((self.worth(value, upper=upper) * self.faults(upper=upper)).sum() + known)

    def faulty_share(
        self, value: Array | Values, rounds: Sequence[int] | None = None
    ) -> tuple[float, float] | None:
        """Return the estimated share of the value that is wrong or unsure, and its standard error.

        The estimate is that of Hajek (1971). Return None if no draw counts for anything.
        """
        weight = self.worth(Values.of(value), upper=True)
        # The number of items that each draw stands for, on average.
        for number, frame in enumerate(self.frames):
            own = self.round == number
            weight[own] *= (frame.sizes / frame.weights)[frame.stratum[self.item[own]]]
        weight = weight if rounds is None else weight * np.isin(self.round, rounds)
        every = float(weight.sum())
        if every <= 0:
            return None
        faults = self.faults(upper=True)
        share = float(weight[faults].sum()) / every
        return share, float(np.linalg.norm(weight * (faults - share))) / every


@dataclass(frozen=True)
class Path:
    """What became of the capital of each null."""

    peak: Array  # the largest logarithm of its capital so far
    capital: Array  # its logarithm now
    crossed: Ints  # after how many draws it was first at the level; -1 if never
    growth: float  # the expected gain of the first null's logarithm at the next draw
    fastest: float  # its gain at the next draw if that is right, on average


def most(draws: Draws, value: Array | Values, alpha: float, *, also: float = 0.0) -> float:
    """Return the value that the wrong value is below, or the total if no less is proven.

    The probability that this is wrong at any time is at most `alpha`. `also` is one of the nulls.
    """
    value = Values.of(value)
    total = value.total
    found = draws.found(value, upper=True)
    level = -np.log(alpha)
    grid = np.append(np.geomspace(_FIRST_NULL, 1.0, _GRID) * total, also)
    nulls = np.unique(np.append(found, grid[(grid > found) & (grid <= total)]))
    for _ in range(_PASSES):
        kept = np.flatnonzero(bet(draws, value, nulls).peak < level)
        if len(kept) and kept[-1] + 1 == len(nulls):
            return total
        bound = kept[-1] + 1 if len(kept) else 0
        nulls = np.linspace(nulls[max(bound - 1, 0)], nulls[bound], _REFINED)
    return float(nulls[-1])


def fewest(draws: Draws, value: Array | Values, alpha: float) -> float:
    """Return a lower bound of the value that is wrong.

    The probability that it is too high at any time is at most `alpha`.
    """
    value = Values.of(value)
    total = value.total
    wrong = draws.found(value, upper=False)
    level = -np.log(alpha)
    nulls = np.geomspace(_FIRST_NULL, 1.0, _GRID) * total
    nulls = np.append(wrong, nulls[nulls > wrong])
    for _ in range(_PASSES):
        kept = np.flatnonzero(bet(draws, value, nulls, upper=False).peak < level)
        if not len(kept):
            return float(nulls[-1])
        if kept[0] == 0:
            return float(nulls[0])
        nulls = np.linspace(nulls[kept[0] - 1], nulls[kept[0]], _REFINED)
    return float(nulls[0])


def bet(  # noqa: PLR0914, PLR0915
    draws: Draws, value: Array | Values, nulls: Array, *, upper: bool = True, level: float = np.inf
) -> Path:
    """Bet against nulls "the wrong value is m or more", or without `upper` "it is m or less"."""
    value = Values.of(value)
    sign = 1.0 if upper else -1.0
    fault = draws.faults(upper=upper)
    worth = draws.worth(value, upper=upper)
    known, known_faults = draws.known_items(upper=upper)
    rest = nulls - value[known_faults].sum()  # what each null leaves for unseen items
    unseen = value.without(known)
    books = [
        _Book(frame, unseen, draws, frame.valid | draws.is_replaced if upper else frame.valid)
        for frame in draws.frames
    ]
    last_draws = _last_draws(draws)
    left = unseen.total
    capital = np.zeros(len(nulls))
    peak = np.zeros(len(nulls))
    crossed = np.full(len(nulls), -1)
    growth = fastest = 0.0
    for start, end in _blocks(len(draws.round)):
        places = slice(start, end)
        own = worth[places]
        wrong = worth[places] * fault[places]
        gains = np.zeros((len(nulls), end - start))
        for number in dict.fromkeys(draws.round[places].tolist()):
            book = books[number]
            of_round = draws.round[places] == number
            out_of_reach = max(left - book.value.sum(), 0.0) if upper else 0.0
            rates, stake, share = book.solve(rest - out_of_reach, sign)
            shares = share[:, book.of_draws[places]]
            now = (rest - out_of_reach)[:, None] - (np.cumsum(wrong) - wrong)
            taken = shares * own * book.held[places]
            expected = np.maximum(
                (share @ book.value)[:, None] - (np.cumsum(taken, axis=1) - taken), _TINY
            )
            scale = np.maximum(now, 0.0) / expected
            staked = _limited_stakes(
                stake, share[:, None, :] * scale[:, :, None], book.largest, upper=upper
            )
            factor = 1 + sign * staked * draws.inverse[places] * own * (
                shares * scale - fault[places]
            )
            gains = np.where(
                of_round & (now > 0) & (own > 0), np.log(np.maximum(factor, _TINY)), gains
            )
            if end == len(draws.round):
                growth, fastest = book.growth(rates, staked[0, -1], share[0], sign)
        # A null is impossible if it wants more wrong items than are left, or fewer than were seen.
        after = rest[:, None] - np.cumsum(wrong)
        unseen_after = left - np.cumsum(own)
        gains = np.where(
            (after > unseen_after + _TINY * left) if upper else (after < -1e-9), np.inf, gains
        )
        steps = capital[:, None] + np.cumsum(gains, axis=1)
        hit = np.maximum(peak, steps.max(axis=1)) >= level
        crossed = np.where(
            (crossed < 0) & hit, start + 1 + (steps >= level).argmax(axis=1), crossed
        )
        capital = steps[:, -1]
        peak = np.maximum(peak, steps.max(axis=1))
        for book, last_draw in zip(books, last_draws, strict=True):
            if last_draw >= end:  # a book without a further draw needs to know no more
                book.see(places, own, wrong)
        rest = after[:, -1]
        left = float(unseen_after[-1])
    return Path(peak, capital, crossed, growth, fastest)


def _limited_stakes(stake: Array, chances: Array, largest: Array, *, upper: bool) -> Array:
    """Return stakes by null and draw at which no draw costs all of the capital.

    `chances` are those of a wrong item by null, draw and bin; a bet on `upper` loses by right ones.
    `largest` is the largest value of an item in each bin.
    """
    losses = 1 - chances if upper else chances
    greatest_loss: Array = (losses * largest).max(axis=2)
    limits: Array = _MOST_STAKED / np.maximum(greatest_loss, _TINY)
    return np.minimum(stake[:, None], limits)


def _last_draws(draws: Draws) -> list[int]:
    """Return the place of the last draw from each frame, -1 where there is none."""
    last_draws = np.full(len(draws.frames), -1)
    np.maximum.at(last_draws, draws.round, np.arange(len(draws.round)))
    return [int(place) for place in last_draws]


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    """Yield blocks of draws; bets change between blocks."""
    start = 0
    while start < count:
        end = min(count, start + max(4, start // 12))
        yield start, end
        start = end


class _Book:
    """What is known about the bins of a frame in one domain, draw by draw."""

    def __init__(self, frame: Frame, value: Values, draws: Draws, valid: Bools) -> None:
        number = int(frame.bins.max(initial=-1)) + 1
        inside = (frame.stratum >= 0) & valid
        bins = frame.bins[frame.stratum[inside]]
        # Of unseen items.
        self.value = np.bincount(bins, value.sums[inside], number)
        self.largest = np.zeros(number)
        np.maximum.at(self.largest, bins, value.largest[inside])
        hits = np.bincount(bins, value.counts[inside], number)
        self._mean = np.maximum(self.value / np.maximum(hits, 1), _TINY)
        self._size = np.bincount(frame.bins, weights=frame.sizes, minlength=number)
        self._chance = np.bincount(frame.bins, weights=frame.weights, minlength=number)
        rate = np.zeros(number)
        np.maximum.at(rate, frame.bins, frame.sizes / frame.weights)
        self.largest *= rate
        strata = frame.stratum[draws.item]
        self.of_draws = np.where(strata >= 0, frame.bins[strata], 0)
        self.held = (strata >= 0) & draws.first
        self._ours = (strata >= 0) & valid[draws.item]
        self._wrong = np.zeros(number)
        self._seen = np.zeros(number)
        self._expected = np.zeros((0, number))
        if frame.rates is not None:
            rates = np.bincount(
                frame.bins, weights=frame.sizes * frame.rates, minlength=number
            ) / np.maximum(self._size, 1.0)
            self._expected = np.clip(_EXPECTED_PART * rates, _LEAST_RATE, 1 - _LEAST_RATE)[None, :]
        self._log_weight = np.log(
            np.append(_PRIOR_WEIGHTS, [_EXPECTED_WEIGHT] * len(self._expected))
        )

    def see(self, places: slice, value: Array, wrong: Array) -> None:
        """Count draws, which may be those of another round."""
        bins = self.of_draws[places]
        number = len(self.value)
        ours = self._ours[places]
        self._size = self._size - np.bincount(bins, weights=self.held[places], minlength=number)
        self.value = np.maximum(
            self.value - np.bincount(bins, weights=value * ours, minlength=number), 0.0
        )
        seen, faulty = (
            np.bincount(bins, weights=each * ours, minlength=number) / self._mean
            for each in (value, wrong)
        )
        rates = self._predicted()
        self._log_weight = (
            self._log_weight + np.log(rates) @ faulty + np.log1p(-rates) @ (seen - faulty)
        )
        self._seen = self._seen + seen
        self._wrong = self._wrong + faulty

    @property
    def _scale(self) -> Array:
        """A (see the module) of an average item of each bin."""
        return np.maximum(self._size, 1.0) / self._chance * self._mean

    def _predicted(self) -> Array:
        """Return the rates of wrong items by prior and bin."""
        # The other bins, each weighted by what it stands for, are the prior of a bin.
        scaled = float(self._scale @ self._seen)
        weight = self._scale * (self._seen.sum() / scaled if scaled else 1.0)
        wrong = weight * self._wrong
        seen = weight * self._seen
        rows = _PRIOR_ROWS[:, None]
        others = (wrong.sum() - wrong + (_PRIOR_RATES * _PRIOR_ROWS)[:, None]) / (
            seen.sum() - seen + rows
        )
        rows = np.maximum(rows / len(wrong), _LEAST_PRIOR_ROWS[:, None])
        found: Array = (self._wrong + rows * others) / (self._seen + rows)
        expected = (self._wrong + _EXPECTED_ROWS * self._expected) / (self._seen + _EXPECTED_ROWS)
        return np.vstack([found, expected])

    def solve(self, rest: Array, sign: float) -> tuple[Array, Array, Array]:  # noqa: PLR0914
        """Return the predicted rates of wrong items by bin, and the bet against each null.

        The bet is the stake mu of the null, and its rates c by bin.
        """
        # Rates of the priors, weighted by how well they have predicted so far.
        weight = np.exp(self._log_weight - self._log_weight.max())
        rates: Array = weight / weight.sum() @ self._predicted()
        scale = self._scale
        total = self.value.sum()
        expected = self.value @ rates
        wants = (sign * (rest - expected) > 0) & (rest > 0) & (rest < total)
        rest = np.where(wants, rest, (expected + (total if sign > 0 else 0.0)) / 2)
        if len(scale) == 1:
            share = np.clip(rest / max(total, _TINY), _TINY, 1 - _TINY)[:, None]
            stake = sign * (share - rates) / (share * (1 - share)) / scale
            return rates, np.where(wants, stake[:, 0], 0.0), share
        # Newton's method within bounds, by logarithms of the stake and of odds, one almost a line
        # in the other. A stake that is a little off is a slightly weaker bet. Both are at least
        # _TINY, as they are 0 where no unseen item has a value.
        apart, beyond = (
            np.maximum(each, _TINY)
            for each in (sign * (rest - expected), total - rest if sign > 0 else rest)
        )
        at = np.log(apart / np.maximum(self.value * scale @ (rates * (1 - rates)), _TINY))
        low = np.full(len(rest), -30.0) - np.log(scale.max())
        high = np.full(len(rest), 30.0) - np.log(scale.min())
        for step in range(_STEPS if wants.any() else 1):
            at = np.where((low < at) & (at < high) & (step < _NEWTON_STEPS), at, (low + high) / 2)
            stake = np.exp(at)[:, None] * scale
            # The q with ``sign (q - p) / (q (1 - q)) = stake``, the closest rate to p at these
            # odds.
            part = 1 - sign * stake
            root = np.sqrt(np.maximum(part**2 + 4 * sign * stake * rates, _TINY))
            share = np.minimum(2 * rates / np.maximum(part + root, _TINY), 1.0)
            got = share @ self.value
            away, other = (
                np.maximum(each, _TINY)
                for each in (sign * (got - expected), total - got if sign > 0 else got)
            )
            error = np.log(away / other * beyond / apart)
            if np.abs(error[wants]).max(initial=0.0) < _NEAR:
                break
            low = np.where(error < 0, at, low)
            high = np.where(error < 0, high, at)
            slope = (stake * share * (1 - share) / root) @ self.value * (1 / away + 1 / other)
            at = at - error / np.maximum(slope, _TINY)
        return rates, np.where(wants, stake[:, 0] / scale[0], 0.0), share

    def growth(self, rates: Array, stake: float, share: Array, sign: float) -> tuple[float, float]:
        """Return the expected gain of the logarithm of the capital at the next draw.

        The second number is the expected gain if that draw is right.
        """
        chance = self.value / self._scale
        right = np.log(np.maximum(1 + sign * stake * self._scale * share, _TINY))
        wrong = np.log(np.maximum(1 + sign * stake * self._scale * (share - 1), _TINY))
        return float(chance @ (rates * wrong + (1 - rates) * right)), float(chance @ right)
