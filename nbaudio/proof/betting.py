"""Bounds of the number of wrong segments, by betting on verdicts in drawn order.

docs/evidence-method.md has the method and its sources.

A draw multiplies the capital of the null "m or more are wrong" by ``1 + mu A (c - e)``: e is its
loss, the share of it that is wrong (1 if it counts as wrong as a whole, 0 if it is right); A is its
value (segments, hours or words) over the probability of drawing it next; c is the loss that the
null expects in its bin (one or several strata). mu and c may depend on earlier draws alone. What no
draw could reach, and what is unsure, counts as wrong in upper bounds and as right in lower ones.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
_FIRST_NULL = 1e-4  # as a share of the total
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

    sums: Array  # the sum of the values of the items of each row
    counts: Ints  # how many items of each row count for more than 0
    largest: Array  # the greatest value of one item in each row

    @classmethod
    def of(cls, value: "Array | Values") -> "Values":
        """Return the values of rows that have one item each, or values as they are."""
        if isinstance(value, Values):
            return value
        return cls(value, (value > 0).astype(np.int64), value)

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

    def by_bin(self, rows: Bools, bins: Ints, num_bins: int) -> "Values":
        """Return the values of bins: those of some rows, of which `bins` has a number each."""
        sums = np.asarray(np.bincount(bins, self.sums[rows], num_bins), np.float64)
        counts = np.bincount(bins, self.counts[rows], num_bins)
        return Values(sums, counts.astype(np.int64), _largest(bins, self.largest[rows], num_bins))


@dataclass(frozen=True)
class Frame:
    """What a round could draw; arrays have a value for each row of items."""

    stratum: Ints  # the stratum of each row; -1 for rows that it could not draw
    valid: Bools  # whether each row could be drawn and has not changed since
    sizes: Array  # the number of items in each stratum
    weights: Array  # the probability of each stratum at a draw, as long as none is exhausted
    # The rate of wrong items in each stratum that is expected before the first draw.
    rates: Array | None = None

    @cached_property
    def bins(self) -> Ints:
        """The bin of each stratum: strata of similar sampling rates share one if there are many.

        No bin is empty: a stratum that is drawn more often than a bin may leave one out.
        """
        number = len(self.weights)
        if number <= _MOST_BINS:
            return np.arange(number)
        order = np.argsort(self.sizes / self.weights, kind="stable")
        bins = np.empty(number, dtype=np.int64)
        ends = np.cumsum(self.weights[order]) / self.weights.sum()
        bins[order] = np.minimum(_MOST_BINS * ends, _MOST_BINS - 1)
        return np.unique(bins, return_inverse=True)[1]

    @cached_property
    def num_bins(self) -> int:
        """The number of bins; 0 without strata."""
        return int(self.bins.max(initial=-1)) + 1

    def sums_by_bin(self, values: Array) -> Array:
        """Return the sums over the strata of each bin, of a value for each stratum."""
        return np.asarray(np.bincount(self.bins, values, self.num_bins), np.float64)


@dataclass(frozen=True)
class Draws:
    """Judged items in the order in which they were drawn."""

    frames: tuple[Frame, ...]
    round: Ints  # the place of the frame of each draw
    item: Ints  # the row of each draw; it has one item
    wrong: Bools
    unsure: Bools
    # Changed since drawn, or gone and wrong or unsure; a fault in upper bounds, since changes may
    # follow from verdicts.
    replaced: Bools
    first: Bools  # whether no earlier draw is of the same item
    outside: Ints  # items that were judged as they are now and that no frame holds as they are now
    outside_wrong: Bools
    outside_unsure: Bools
    # The share of each draw, and of each item outside, that is wrong if it was found wrong: NaN if
    # it may be any, also of what is unsure or replaced. None: all of it, of these as well.
    loss: Array | None = None
    outside_loss: Array | None = None

    @cached_property
    def valid(self) -> Bools:
        """Which draws are the first of items that have not changed since."""
        valid = np.zeros(len(self.item), dtype=bool)
        for number, frame in enumerate(self.frames):
            in_round = self.round == number
            valid[in_round] = frame.valid[self.item[in_round]]
        return valid & self.first

    @cached_property
    def is_replaced(self) -> Bools:
        """Which rows are replaced items."""
        num_items = len(self.frames[0].stratum) if self.frames else 0
        is_replaced = np.zeros(num_items, dtype=bool)
        is_replaced[self.item[self.replaced]] = True
        return is_replaced

    @cached_property
    def inverse(self) -> Array:
        """One over the probability of each draw, given all before it.

        A round passes over items that others have reached.
        """
        inverse = np.ones(len(self.item))
        for number in range(len(self.frames)):
            in_round = self.round == number
            inverse[in_round] = self._inverse_in_round(number)[in_round]
        return inverse

    def _inverse_in_round(self, number: int) -> Array:
        """Return one over the probability of each draw of a round, 1 for draws of other rounds."""
        frame = self.frames[number]
        inverse = np.ones(len(self.item))
        undrawn = frame.sizes.copy()
        unseen = frame.sizes.copy()
        strata = frame.stratum[self.item].tolist()
        in_round = (self.round == number).tolist()
        for place, is_first in enumerate(self.first.tolist()):
            stratum = strata[place]
            if in_round[place]:
                if is_first:
                    left = undrawn > 0
                    chance = frame.weights[left] / undrawn[left]
                    unseen_chance = chance @ unseen[left]
                    inverse[place] = unseen_chance * undrawn[stratum] / frame.weights[stratum]
                undrawn[stratum] -= 1
            if is_first and stratum >= 0:
                unseen[stratum] -= 1
        return inverse

    def last_of_round(self, number: int) -> int:
        """Return the place of the last draw of a round, -1 if it has none."""
        return int(np.flatnonzero(self.round == number).max(initial=-1))

    def worth(self, value: Values, *, upper: bool) -> Array:
        """Return what each draw counts for: for lower bounds, replaced items count for nothing."""
        counts = self.valid
        if upper:
            counts = self.valid | (self.replaced & self.first)
        return np.where(counts, value[self.item], 0.0)

    def faults(self, *, upper: bool) -> Bools:
        """Return which draws count as wrong."""
        if upper:
            return self.wrong | self.unsure | self.replaced
        return self.wrong

    def losses(self, *, upper: bool) -> Array:
        """Return the loss of each draw, in [0, 1]; 1 if it may be any."""
        losses = self.faults(upper=upper).astype(np.float64)
        if self.loss is None:
            return losses
        return np.where(self._is_partial, np.nan_to_num(self.loss, nan=1.0), losses)

    def sure_losses(self, *, upper: bool) -> Array:
        """Return the loss of each draw, 0 if it may be any.

        What a null leaves for later draws is less by sure losses only: whether a share is known may
        follow from verdicts.
        """
        if self.loss is None:
            return self.losses(upper=upper)
        return np.where(self._is_partial, np.nan_to_num(self.loss, nan=0.0), 0.0)

    @property
    def _is_partial(self) -> Bools:
        """Which draws may be wrong in part."""
        return self.wrong & ~self.unsure & ~self.replaced

    def is_used_outside(self, *, upper: bool) -> Bools:
        """Return which of the judged items outside the frames a bound uses."""
        if upper and self.frames:
            return ~self.is_replaced[self.outside]
        return np.ones(len(self.outside), dtype=bool)

    def outside_losses(self, *, upper: bool) -> Array:
        """Return the sure loss of each judged item outside the frames, 0 if it is not used."""
        is_usable = self.is_used_outside(upper=upper)
        is_faulty = self.outside_wrong
        if self.outside_loss is not None:
            return np.where(is_usable & is_faulty, np.nan_to_num(self.outside_loss, nan=0.0), 0.0)
        if upper:
            is_faulty = is_faulty | self.outside_unsure
        return (is_usable & is_faulty).astype(np.float64)

    def outside_wrong_value(self, value: Values, *, upper: bool) -> float:
        """Return the value that was found wrong outside the frames."""
        losses = self.outside_losses(upper=upper)
        is_faulty = losses > 0
        return float((value[self.outside[is_faulty]] * losses[is_faulty]).sum())

    def wrong_value(self, value: Values, *, upper: bool) -> float:
        """Return the value that was found wrong."""
        drawn_value = (self.worth(value, upper=upper) * self.sure_losses(upper=upper)).sum()
        return float(drawn_value + self.outside_wrong_value(value, upper=upper))

    def faulty_share(
        self, value: Array | Values, rounds: Sequence[int] | None = None
    ) -> tuple[float, float] | None:
        """Return the estimated share of the value that is wrong or unsure, and its standard error.

        The estimate is that of Hajek (1971). Return None if no draw counts for anything.
        """
        weight = self.worth(Values.of(value), upper=True)
        # The number of items that each draw stands for, on average.
        for number, frame in enumerate(self.frames):
            in_round = self.round == number
            stratum = frame.stratum[self.item[in_round]]
            weight[in_round] *= (frame.sizes / frame.weights)[stratum]
        if rounds is not None:
            weight = weight * np.isin(self.round, rounds)
        total = float(weight.sum())
        if total <= 0:
            return None
        losses = self.losses(upper=True)
        is_faulty = losses > 0
        share = float((weight[is_faulty] * losses[is_faulty]).sum()) / total
        return share, float(np.linalg.norm(weight * (losses - share))) / total


@dataclass(frozen=True)
class Path:
    """What became of the capital of each null."""

    peak: Array  # the largest logarithm of its capital so far
    capital: Array  # its logarithm now
    crossed: Ints  # after how many draws it was first at the level; -1 if never
    growth: float = 0.0  # the expected gain of the first null's logarithm at the next draw
    fastest: float = 0.0  # its gain at the next draw if that is right, on average

    @classmethod
    def begin(cls, number: int) -> "Path":
        """Return the path of so many nulls before the first draw."""
        return cls(np.zeros(number), np.zeros(number), np.full(number, -1))

    def after(self, gains: Array, start: int, level: float) -> "Path":
        """Return the path after the draws from number `start`, by the gains of null and draw."""
        steps = self.capital[:, None] + np.cumsum(gains, axis=1)
        peak = np.maximum(self.peak, steps.max(axis=1))
        is_first_time = (self.crossed < 0) & (peak >= level)
        place = start + 1 + (steps >= level).argmax(axis=1)
        crossed = np.where(is_first_time, place, self.crossed)
        return replace(self, peak=peak, capital=steps[:, -1], crossed=crossed)


def most(draws: Draws, value: Array | Values, alpha: float, *, also: float = 0.0) -> float:
    """Return the value that the wrong value is below, or the total if no less is proven.

    The probability that this is wrong at any time is at most `alpha`. `also` is one of the nulls.
    """
    value = Values.of(value)
    total = value.total
    if not len(draws.item):
        return total
    wrong = draws.wrong_value(value, upper=True)
    level = -np.log(alpha)
    grid = np.append(np.geomspace(_FIRST_NULL, 1.0, _GRID) * total, also)
    nulls = np.unique(np.append(wrong, grid[(grid > wrong) & (grid <= total)]))
    course = _Course.of(draws, value, upper=True)
    for _ in range(_PASSES):
        possible = np.flatnonzero(course.bet(nulls).peak < level)
        bound = possible[-1] + 1 if len(possible) else 0
        if bound == len(nulls):
            return total
        nulls = np.linspace(nulls[max(bound - 1, 0)], nulls[bound], _REFINED)
    return float(nulls[-1])


def fewest(draws: Draws, value: Array | Values, alpha: float) -> float:
    """Return a lower bound of the value that is wrong.

    The probability that it is too high at any time is at most `alpha`.
    """
    value = Values.of(value)
    total = value.total
    wrong = draws.wrong_value(value, upper=False)
    if wrong == 0 or not len(draws.item):
        return wrong  # no bet is against the null that no more is wrong
    level = -np.log(alpha)
    nulls = np.geomspace(_FIRST_NULL, 1.0, _GRID) * total
    nulls = np.append(wrong, nulls[nulls > wrong])
    course = _Course.of(draws, value, upper=False)
    for _ in range(_PASSES):
        possible = np.flatnonzero(course.bet(nulls).peak < level)
        if not len(possible):
            return float(nulls[-1])
        bound = possible[0]
        if bound == 0:
            return float(nulls[0])
        nulls = np.linspace(nulls[bound - 1], nulls[bound], _REFINED)
    return float(nulls[0])


def bet(
    draws: Draws, value: Array | Values, nulls: Array, *, upper: bool = True, level: float = np.inf
) -> Path:
    """Bet against nulls "the wrong value is m or more", or without `upper` "it is m or less".

    Args:
        draws: the judged items, in the order in which they were drawn.
        value: what items count for.
        nulls: the m of each null.
        upper: the direction of the bound.
        level: the logarithm of the capital at which a null counts as crossed.
    """
    return _Course.of(draws, Values.of(value), upper=upper).bet(nulls, level)


@dataclass(frozen=True)
class _Course:
    """The draws of a bet in one direction, with what all nulls share.

    Attributes:
        table: the draws.
        unseen_value: the value of all unseen items before the first draw.
        outside_wrong: the value that was found wrong outside the frames.
        books: the book of each frame, before each block of draws.
    """

    table: "_Table"
    unseen_value: float
    outside_wrong: float
    books: "list[list[_Book]]"

    @classmethod
    def of(cls, draws: Draws, value: Values, *, upper: bool) -> "_Course":
        """Return the course of draws."""
        table = _Table.of(draws, value, upper=upper)
        unseen_values = value.without(draws.outside[draws.is_used_outside(upper=upper)])
        books = [
            _Book.open(draws, number, unseen_values, upper=upper)
            for number in range(len(draws.frames))
        ]
        books_of_blocks = []
        for block in _blocks(len(table.round)):
            books_of_blocks.append(books)
            seen = (block, table.worth[block], table.wrong[block])
            books = [book.after(*seen) for book in books]
        outside_wrong = draws.outside_wrong_value(value, upper=upper)
        return cls(table, unseen_values.total, outside_wrong, books_of_blocks)

    def bet(self, nulls: Array, level: float = np.inf) -> Path:
        """Bet against nulls, see `bet`."""
        table = self.table
        unseen = _Unseen(nulls - self.outside_wrong, self.unseen_value)
        path = Path.begin(len(nulls))
        blocks = _blocks(len(table.round))
        for block, books in zip(blocks, self.books, strict=True):
            is_last = block.stop == len(table.round)
            # Draws that count for nothing place no bet; growth is that of the last draw.
            is_bet_on = (table.worth[block] > 0) | is_last
            places = block.start + np.flatnonzero(is_bet_on)
            numbers = dict.fromkeys(table.round[places].tolist())
            bets = [_bet_on_block(table, books[number], places, unseen) for number in numbers]
            later = unseen.after(table.worth[block], table.sure[block])
            is_impossible = later.is_impossible(unseen.value, upper=table.upper)
            if bets or is_impossible.any():
                gains = np.zeros(is_impossible.shape)
                gains[:, is_bet_on] = _gains_of_bets(bets, (len(nulls), len(places)))
                gains[is_impossible] = np.inf
                path = path.after(gains, block.start, level)
            if is_last:
                path = replace(path, growth=bets[-1].growth, fastest=bets[-1].fastest)
            unseen = later.last
        return path


@dataclass(frozen=True)
class _Unseen:
    """What is left of unseen items before a draw.

    Attributes:
        rest: the wrong value that each null leaves for them.
        value: their value in all.
    """

    rest: Array
    value: float

    def rest_within(self, value: Array, *, upper: bool) -> Array:
        """Return what each null leaves for the bins of a frame, whose unseen items have a `value`.

        What the frame cannot reach counts as wrong in upper bounds.
        """
        out_of_reach = 0.0
        if upper:
            out_of_reach = max(self.value - value.sum(), 0.0)
        return self.rest - out_of_reach

    def after(self, worth: Array, wrong: Array) -> "_UnseenAfter":
        """Return what is left after each draw of a block."""
        return _UnseenAfter(self.rest[:, None] - np.cumsum(wrong), self.value - np.cumsum(worth))


@dataclass(frozen=True)
class _UnseenAfter:
    """What is left after each draw: the rest of each null (nulls x draws), and the value."""

    rest: Array
    value: Array

    def is_impossible(self, value_before: float, *, upper: bool) -> Bools:
        """Return the nulls that want more wrong items than are left, or fewer than were seen."""
        if upper:
            return self.rest > self.value + _TINY * value_before
        return self.rest < -1e-9

    @property
    def last(self) -> _Unseen:
        """What is left after the last draw."""
        return _Unseen(self.rest[:, -1], float(self.value[-1]))


@dataclass(frozen=True)
class _Table:
    """The draws of a bet in one direction.

    Attributes:
        loss: the share of each draw that is wrong.
        worth: what each draw counts for.
        wrong: what is wrong of it, at most.
        sure: what is wrong of it, at least.
        inverse: one over the probability of each draw.
        round: the number of the book of each draw.
        upper: the direction of the bound.
    """

    loss: Array
    worth: Array
    wrong: Array
    sure: Array
    inverse: Array
    round: Ints
    upper: bool

    @classmethod
    def of(cls, draws: Draws, value: Values, *, upper: bool) -> "_Table":
        """Return the table of draws."""
        loss = draws.losses(upper=upper)
        worth = draws.worth(value, upper=upper)
        sure = worth * draws.sure_losses(upper=upper)
        return cls(loss, worth, worth * loss, sure, draws.inverse, draws.round, upper)

    @property
    def sign(self) -> float:
        """1 for upper bounds, else -1."""
        return 1.0 if self.upper else -1.0


@dataclass(frozen=True)
class _BlockBets:
    """Bets of a book on a block of draws.

    Attributes:
        gains: of the logarithm of the capital, by null and draw, where there is a bet.
        is_placed: whether there is a bet, by null and draw.
        growth: see `Path`; 0 but in the last block.
        fastest: see `Path`; 0 but in the last block.
    """

    gains: Array
    is_placed: Bools
    growth: float = 0.0
    fastest: float = 0.0


def _gains_of_bets(bets: Sequence[_BlockBets], shape: tuple[int, ...]) -> Array:
    """Return the gains of all books on a block, 0 where there is no bet."""
    gains = np.zeros(shape)
    for book_bets in bets:
        gains = np.where(book_bets.is_placed, book_bets.gains, gains)
    return gains


def _bet_on_block(table: _Table, book: "_Book", block: Ints, unseen: _Unseen) -> _BlockBets:
    """Bet on the draws of a block, given by their places, that are of one book."""
    worth = table.worth[block]
    rest = unseen.rest_within(book.value, upper=table.upper)
    odds = book.solve(rest, table.sign)
    rest_before = rest[:, None] - _sums_before(table.sure[block])
    share = odds.share[:, book.of_draws[block]]
    taken = share * worth * book.is_in_frame[block]
    expected = (odds.share @ book.value)[:, None] - _sums_before(taken)
    scale = np.maximum(rest_before, 0.0) / np.maximum(expected, _TINY)
    chances = odds.share[:, None, :] * scale[:, :, None]
    stakes = table.sign * _limited_stakes(odds.stake, chances, book.largest, upper=table.upper)
    factor = 1 + stakes * table.inverse[block] * worth * (share * scale - table.loss[block])
    bets = _BlockBets(
        gains=np.log(np.maximum(factor, _TINY)),
        is_placed=(table.round[block] == book.number) & (rest_before > 0) & (worth > 0),
    )
    is_last = block[-1] == len(table.round) - 1
    if is_last:
        return book.with_growth(bets, odds, float(stakes[0, -1]))
    return bets


def _sums_before(values: Array) -> Array:
    """Return the sum of the values before each one along the last axis."""
    sums: Array = np.cumsum(values, axis=-1) - values
    return sums


def _limited_stakes(stake: Array, chances: Array, largest: Array, *, upper: bool) -> Array:
    """Return stakes by null and draw at which no draw costs all of the capital.

    `chances` are those of a wrong item by null, draw and bin; a bet on `upper` loses by right ones.
    `largest` is the largest value of an item in each bin.
    """
    losses = 1 - chances if upper else chances
    greatest_loss: Array = (losses * largest).max(axis=2)
    limits: Array = _MOST_STAKED / np.maximum(greatest_loss, _TINY)
    return np.minimum(stake[:, None], limits)


def _blocks(count: int) -> Iterator[slice]:
    """Yield blocks of draws; bets change between blocks."""
    start = 0
    while start < count:
        end = min(count, start + max(4, start // 12))
        yield slice(start, end)
        start = end


@dataclass(frozen=True)
class _Odds:
    """The bet of a book against each null.

    Attributes:
        rates: the predicted rate of wrong items in each bin.
        stake: the stake mu of each null, 0 where no bet is wanted.
        share: the rate c of wrong items by null and bin.
    """

    rates: Array
    stake: Array
    share: Array


def _largest(bins: Ints, values: Array, num_bins: int) -> Array:
    """Return the largest value of each bin, 0 where it has none."""
    largest = np.zeros(num_bins)
    np.maximum.at(largest, bins, values)
    return largest


@dataclass(frozen=True)
class _Gaps:
    """How far the rest of each null is from what is expected, and to the limit: 0 or all."""

    from_expected: Array
    to_limit: Array

    def log_odds_to(self, wanted: "_Gaps") -> Array:
        """Return the logarithm of the odds of these gaps over those of the wanted ones."""
        odds = self.from_expected / self.to_limit * wanted.to_limit / wanted.from_expected
        return np.asarray(np.log(odds))

    @property
    def slope(self) -> Array:
        """The derivative of the logarithm of the odds by the rest."""
        return 1 / self.from_expected + 1 / self.to_limit


def _gaps(rest: Array, expected: float, total: float, sign: float) -> _Gaps:
    """Return how far each rest is from what is expected, and from the limit it can reach.

    Both are at least _TINY, as they are 0 where no unseen item has a value. `total` is all value.
    """
    from_expected = sign * (rest - expected)
    to_limit = rest
    if sign > 0:
        to_limit = total - rest
    return _Gaps(np.maximum(from_expected, _TINY), np.maximum(to_limit, _TINY))


@dataclass(frozen=True)
class _RatesAtStake:
    """Rates of wrong items by null and bin, and their slopes by the logarithm of the stake."""

    rates: Array
    slopes: Array


def _rates_at_stake(stake: Array, rates: Array, sign: float) -> _RatesAtStake:
    """Return the q with ``sign (q - p) / (q (1 - q)) = stake``, the closest rates at these odds.

    `stake` is by null and bin, `rates` are the predicted p of each bin.
    """
    part = 1 - sign * stake
    root = np.sqrt(np.maximum(part**2 + 4 * sign * stake * rates, _TINY))
    closest = np.minimum(2 * rates / np.maximum(part + root, _TINY), 1.0)
    return _RatesAtStake(closest, stake * closest * (1 - closest) / root)


def _expected_rates(frame: Frame) -> Array:
    """Return the rates of wrong items that a round expects, priors x bins: one prior or none.

    It expects none if earlier rounds gave it no rates.
    """
    if frame.rates is None:
        return np.zeros((0, frame.num_bins))
    wrong = frame.sums_by_bin(frame.sizes * frame.rates)
    rates = wrong / np.maximum(frame.sums_by_bin(frame.sizes), 1.0)
    return np.clip(_EXPECTED_PART * rates, _LEAST_RATE, 1 - _LEAST_RATE)[None, :]


@dataclass(frozen=True)
class _Book:
    """The bins of a frame in one domain before a block of draws: what is left and what was seen.

    Arrays have a value for each bin unless stated.

    Attributes:
        number: the place of the frame.
        last_draw: the place of its last draw; -1 without one.
        largest: the largest value of an item over the probability of drawing it next, at first.
        of_draws: the bin of each draw.
        is_in_frame: whether each draw is the first of an item in the frame.
        is_valid: whether each draw is of an item that bets are about.
        mean: the value of an item, on average.
        chance: the probability of a draw from each bin.
        expected: the rates of wrong items that the round expects, priors x bins.
        value: the value that is left.
        size: how many items are left.
        seen: how many items were seen, by their value.
        wrong: how many of them were wrong.
        log_weight: of each prior, how well it has predicted so far.
    """

    number: int
    last_draw: int
    largest: Array
    of_draws: Ints
    is_in_frame: Bools
    is_valid: Bools
    mean: Array
    chance: Array
    expected: Array
    value: Array
    size: Array
    seen: Array
    wrong: Array
    log_weight: Array

    @classmethod
    def open(cls, draws: Draws, number: int, value: Values, *, upper: bool) -> "_Book":
        """Open the book of a frame, by its `number`, for the `value` of unseen items."""
        frame = draws.frames[number]
        valid = frame.valid
        if upper:
            valid = frame.valid | draws.is_replaced
        inside = (frame.stratum >= 0) & valid
        unseen = value.by_bin(inside, frame.bins[frame.stratum[inside]], frame.num_bins)
        inverse = _largest(frame.bins, frame.sizes / frame.weights, frame.num_bins)
        strata = frame.stratum[draws.item]
        expected = _expected_rates(frame)
        expected_weights = np.full(len(expected), _EXPECTED_WEIGHT)
        return cls(
            number=number,
            last_draw=draws.last_of_round(number),
            largest=unseen.largest * inverse,
            of_draws=np.where(strata >= 0, frame.bins[strata], 0),
            is_in_frame=(strata >= 0) & draws.first,
            is_valid=(strata >= 0) & valid[draws.item],
            mean=np.maximum(unseen.sums / np.maximum(unseen.counts, 1), _TINY),
            chance=frame.sums_by_bin(frame.weights),
            expected=expected,
            value=unseen.sums,
            size=frame.sums_by_bin(frame.sizes),
            seen=np.zeros(frame.num_bins),
            wrong=np.zeros(frame.num_bins),
            log_weight=np.log(np.append(_PRIOR_WEIGHTS, expected_weights)),
        )

    def after(self, places: slice, value: Array, wrong: Array) -> "_Book":
        """Return the book after draws, which may be those of another round.

        A book without a further draw counts none.
        """
        if self.last_draw < places.stop:
            return self
        bins = self.of_draws[places]
        num_bins = len(self.value)
        is_valid = self.is_valid[places]
        drawn = np.bincount(bins, weights=self.is_in_frame[places], minlength=num_bins)
        size = self.size - drawn
        seen_value = np.bincount(bins, weights=value * is_valid, minlength=num_bins)
        if not seen_value.any():
            return replace(self, size=size)
        wrong_value = np.bincount(bins, weights=wrong * is_valid, minlength=num_bins)
        seen = seen_value / self.mean
        faulty = wrong_value / self.mean
        rates = self._predicted(self._scale_of(size))
        log_weight = self.log_weight + np.log(rates) @ faulty
        return replace(
            self,
            value=np.maximum(self.value - seen_value, 0.0),
            size=size,
            seen=self.seen + seen,
            wrong=self.wrong + faulty,
            log_weight=log_weight + np.log1p(-rates) @ (seen - faulty),
        )

    @cached_property
    def scale(self) -> Array:
        """A (see the module) of an average item of each bin."""
        return self._scale_of(self.size)

    def _scale_of(self, size: Array) -> Array:
        """Return `scale` where so many items of each bin are left."""
        return np.maximum(size, 1.0) / self.chance * self.mean

    @cached_property
    def rates(self) -> Array:
        """The rates of wrong items: of the priors, weighted by how well they have predicted."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        rates: Array = weight / weight.sum() @ self._predicted(self.scale)
        return rates

    @cached_property
    def total_value(self) -> float:
        """The value that is left, summed over all bins."""
        return float(self.value.sum())

    @cached_property
    def expected_wrong(self) -> float:
        """The wrong value that `rates` predict, summed over all bins."""
        return float(self.value @ self.rates)

    def _predicted(self, scale: Array) -> Array:
        """Return the rates of wrong items by prior and bin."""
        # The other bins, each weighted by what it stands for, are the prior of a bin.
        scaled = float(scale @ self.seen)
        correction = self.seen.sum() / scaled if scaled else 1.0
        weight = scale * correction
        wrong = weight * self.wrong
        seen = weight * self.seen
        rows = _PRIOR_ROWS[:, None]
        others = (wrong.sum() - wrong + (_PRIOR_RATES * _PRIOR_ROWS)[:, None]) / (
            seen.sum() - seen + rows
        )
        rows = np.maximum(rows / len(wrong), _LEAST_PRIOR_ROWS[:, None])
        learned: Array = (self.wrong + rows * others) / (self.seen + rows)
        expected = (self.wrong + _EXPECTED_ROWS * self.expected) / (self.seen + _EXPECTED_ROWS)
        return np.vstack([learned, expected])

    def solve(self, rest: Array, sign: float) -> "_Odds":
        """Return the bet against each null; `rest` is what each leaves for unseen items."""
        is_wanted = (
            (sign * (rest - self.expected_wrong) > 0) & (rest > 0) & (rest < self.total_value)
        )
        limit = self.total_value if sign > 0 else 0.0
        halfway = (self.expected_wrong + limit) / 2
        rest = np.where(is_wanted, rest, halfway)
        if len(self.value) > 1:
            return self._solve_bins(rest, is_wanted, sign)
        share = self._share_of_total(rest)[:, None]
        stake = sign * (share - self.rates) / (share * (1 - share)) / self.scale
        return _Odds(self.rates, np.where(is_wanted, stake[:, 0], 0.0), share)

    def _share_of_total(self, rest: Array) -> Array:
        """Return what each null leaves as a share of `total_value`, strictly between 0 and 1."""
        return np.clip(rest / max(self.total_value, _TINY), _TINY, 1 - _TINY)

    def _solve_bins(self, rest: Array, is_wanted: Bools, sign: float) -> "_Odds":
        """Find the stake mu of each null at which the rates c of all bins add up to its rest.

        Newton's method within bounds, by logarithms of the stake and of odds, one almost a line in
        the other. A null whose odds are near enough keeps its stake. A stake that is a little off
        is a slightly weaker bet.
        """
        wanted = _gaps(rest, self.expected_wrong, self.total_value, sign)
        log_stake = self._first_log_stake(rest, wanted)
        low, high = self._bounds_of_log_stake(len(rest))
        is_solved = ~is_wanted
        for step in range(_STEPS):
            is_inside = (low < log_stake) & (log_stake < high) & (step < _NEWTON_STEPS)
            log_stake = np.where(is_inside | is_solved, log_stake, (low + high) / 2)
            stake = np.exp(log_stake)[:, None] * self.scale
            rates_at_stake = _rates_at_stake(stake, self.rates, sign)
            wrong = rates_at_stake.rates @ self.value
            gaps = _gaps(wrong, self.expected_wrong, self.total_value, sign)
            error = gaps.log_odds_to(wanted)
            is_solved = (np.abs(error) < _NEAR) | ~is_wanted
            if is_solved.all():
                break
            low = np.where(error < 0, log_stake, low)
            high = np.where(error < 0, high, log_stake)
            slope = (rates_at_stake.slopes @ self.value) * gaps.slope
            newton = log_stake - error / np.maximum(slope, _TINY)
            log_stake = np.where(is_solved, log_stake, newton)
        stake_of_nulls = np.where(is_wanted, stake[:, 0] / self.scale[0], 0.0)
        return _Odds(self.rates, stake_of_nulls, rates_at_stake.rates)

    def _bounds_of_log_stake(self, num_nulls: int) -> tuple[Array, Array]:
        """Return the least and the largest logarithm of the stake of each null that is searched."""
        low = np.full(num_nulls, -30.0) - np.log(self.scale.max())
        high = np.full(num_nulls, 30.0) - np.log(self.scale.min())
        return low, high

    def _first_log_stake(self, rest: Array, wanted: _Gaps) -> Array:
        """Return the logarithm of the stake of each null if all bins had the same rates and scale.

        It is exact for a single bin: the stake times the scale is the gap over c (1 - c).
        """
        share = self._share_of_total(rest)
        spread = float(self.value @ self.scale) * share * (1 - share)
        return np.asarray(np.log(wanted.from_expected / np.maximum(spread, _TINY)))

    def with_growth(self, bets: "_BlockBets", odds: "_Odds", stake: float) -> "_BlockBets":
        """Return bets with the gains that are expected at the next draw against the first null.

        `stake` is that of an upper bound; it is negative for a lower one.
        """
        share = odds.share[0]
        chance = self.value / self.scale
        right = np.log(np.maximum(1 + stake * self.scale * share, _TINY))
        wrong = np.log(np.maximum(1 + stake * self.scale * (share - 1), _TINY))
        growth = chance @ (odds.rates * wrong + (1 - odds.rates) * right)
        return replace(bets, growth=float(growth), fastest=float(chance @ right))
