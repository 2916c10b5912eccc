"""Stakes of bets against nulls: those at which the rates of all bins add up to what a null says."""

import numpy as np
import pytest

from nbaudio.proof import betting

BINS = 21
TOTAL = 17_000.0


def open_book(seed: int, *, rate: float, spread: float) -> betting._Book:
    """Return a book of bins whose scales differ by a factor of up to `spread`, before any draw."""
    rng = np.random.default_rng(seed)
    chance = rng.dirichlet(np.ones(BINS))
    value = TOTAL * rng.dirichlet(np.ones(BINS))
    mean = spread ** rng.random(BINS)
    nothing = np.zeros(BINS)
    return betting._Book(
        number=0,
        last_draw=0,
        largest=value / chance,
        of_draws=np.zeros(1, dtype=np.int64),
        is_in_frame=np.ones(1, dtype=np.bool_),
        is_valid=np.ones(1, dtype=np.bool_),
        mean=mean,
        chance=chance,
        expected=np.full((1, BINS), rate),
        value=value,
        size=value / mean,
        seen=nothing,
        wrong=nothing,
        log_weight=np.log(np.append(betting._PRIOR_WEIGHTS, [1e9])),
    )


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("rate", [0.001, 0.02, 0.3])
@pytest.mark.parametrize("spread", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_rates_at_the_stake_add_up_to_what_each_null_leaves(upper, rate, spread, seed):
    book = open_book(seed, rate=rate, spread=spread)
    expected = book.value @ book.rates
    limit = TOTAL if upper else 0.0
    rest = expected + np.linspace(0.001, 0.9, 40) * (limit - expected)
    odds = book.solve(rest, 1.0 if upper else -1.0)
    gap = np.abs(odds.share @ book.value - expected)
    wanted_gap = np.abs(rest - expected)
    room = abs(limit - expected)
    log_odds = np.log(gap / (room - gap)) - np.log(wanted_gap / (room - wanted_gap))
    assert np.abs(log_odds).max() < 0.03
    assert (odds.stake > 0).all()
