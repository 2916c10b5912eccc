from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal, assert_series_equal

from nbaudio.core.errors import InputError
from nbaudio.review.rounds import Round
from nbaudio.review.sampling import STRATEGIES, allocate, anomaly_reasons, draw, inclusion_probabilities

EVERY = pytest.mark.parametrize("strategy", STRATEGIES)


def pool_of(count, seed=1):
    """Segments with all that strategies look at, some of it absent."""
    rng = np.random.default_rng(seed)
    start = np.arange(count) * 100
    return pl.DataFrame(
        {
            "segment_id": [f"s{number}" for number in range(count)],
            "recording_id": [f"r{number % 5}" for number in range(count)],
            "speaker_id": [None if number % 7 == 3 else f"k{number % 7}" for number in range(count)],
            "similarity": [None if number % 11 == 5 else 1 - value for number, value in enumerate(rng.exponential(0.1, count))],
            "start_sample": start,
            "end_sample": start + rng.integers(20, 100, count),
            "source_start": ["0"] * count,
            "source_end": [str(value) for value in rng.integers(2, 9, count)],
            "text": ["isti tekst u dva segmenta"] * min(2, count) + [f"riječ {n} {'…' * (n == 9)}" for n in range(2, count)],
        }
    )


def as_round(drawn, verdicts=None, **further):
    verdict = pl.Series("verdict", verdicts or ["right"] * len(drawn))
    options = {"name": "one", "strategy": "random", "n": len(drawn), "threshold": 0.8} | further
    return Round(rows=drawn.with_columns(verdict).select("segment_id", "stratum", "probability", "verdict"), **options)


@EVERY
def test_a_draw_depends_on_seed_and_segments_and_not_on_their_order(strategy):
    pool = pool_of(200)
    drawn = draw(pool, strategy=strategy, n=40, seed=3)
    assert drawn.height == drawn["segment_id"].n_unique() == 40
    assert_frame_equal(draw(pool.sample(fraction=1, shuffle=True, seed=5), strategy=strategy, n=40, seed=3), drawn)
    assert set(draw(pool, strategy=strategy, n=40, seed=4)["segment_id"]) != set(drawn["segment_id"])


@pytest.mark.slow
@EVERY
def test_stored_probabilities_are_those_with_which_segments_are_drawn(strategy):
    pool, seeds, n = pool_of(30), 150, 10
    expected = inclusion_probabilities(pool, strategy=strategy, n=n)
    assert expected.min() > 0
    assert expected.max() <= 1
    assert expected.sum() == pytest.approx(n)
    chance = dict(zip(pool["segment_id"], expected, strict=True))
    counts = Counter()
    for seed in range(seeds):
        drawn = draw(pool, strategy=strategy, n=n, seed=seed)
        assert drawn["probability"].to_list() == pytest.approx([chance[key] for key in drawn["segment_id"]])
        counts.update(drawn["segment_id"])
    for key, probability in chance.items():
        spread = np.sqrt(seeds * probability * (1 - probability))
        assert abs(counts[key] - seeds * probability) <= 5 * spread + 1e-9, key


@EVERY
@settings(max_examples=25)
@given(count=st.integers(1, 30), n=st.integers(1, 40))
def test_as_many_as_requested_or_all_that_there_are(strategy, count, n):
    drawn = draw(pool_of(count), strategy=strategy, n=n, seed=1)
    assert drawn["segment_id"].n_unique() == len(drawn) == min(n, count)
    assert drawn["probability"].is_between(0, 1, closed="right").all()


@EVERY
def test_later_rounds_draw_what_no_earlier_one_has_given_away(strategy):
    pool = pool_of(60)
    rounds, seen = [], set()
    for number in range(3):
        drawn = draw(pool, strategy=strategy, n=20, seed=1, rounds=rounds)
        assert not seen & set(drawn["segment_id"])
        seen |= set(drawn["segment_id"])
        rounds.append(as_round(drawn, name=str(number), strategy=strategy))
    assert len(seen) == 60
    assert draw(pool, strategy=strategy, n=20, seed=1, rounds=rounds).is_empty()


def test_a_second_round_is_as_random_as_the_first():
    pool, counts = pool_of(12).with_columns(similarity=pl.lit(0.9)), Counter()
    for seed in range(200):
        first = as_round(draw(pool, strategy="speaker", n=4, seed=seed))
        counts.update(draw(pool, strategy="random", n=4, seed=seed, rounds=[first])["segment_id"])
    expected = 200 * 4 / 8 * (1 - inclusion_probabilities(pool, strategy="speaker", n=4).to_numpy())
    found = np.array([counts[key] for key in pool["segment_id"]])
    assert np.abs(found - expected).max() < 5 * np.sqrt(200 * 0.25)


@given(n=st.integers(1, 30), seed=st.integers())
def test_a_larger_random_sample_only_adds_rows(n, seed):
    fewer, more = (draw(pool_of(30), strategy="random", n=size, seed=seed)["segment_id"].to_list() for size in (n, n + 1))
    assert more[: len(fewer)] == fewer


def test_every_beginning_of_a_sheet_is_a_sample_of_the_same_kind():
    drawn = draw(pool_of(3000), strategy="speaker", n=300, seed=1)
    whole, half = (Counter(part["stratum"]) for part in (drawn, drawn.head(150)))
    assert max(abs(half[stratum] - whole[stratum] / 2) for stratum in whole) <= 2


@pytest.mark.parametrize("wrong_below", [0.9, 0.97])
def test_stratified_looks_where_verdicts_say_that_errors_are(wrong_below):
    pool = pool_of(4000).with_columns(pl.col("similarity").fill_null(1.0))
    score = dict(zip(pool["segment_id"], pool["similarity"], strict=True))
    first = draw(pool, strategy="stratified", n=400, seed=1)
    verdicts = ["wrong" if score[key] < wrong_below and int(key[1:]) % 2 else "right" for key in first["segment_id"]]
    second = draw(pool, strategy="stratified", n=400, seed=1, rounds=[as_round(first, verdicts)])
    shares = [(drawn["segment_id"].replace_strict(score) < wrong_below).mean() for drawn in (first, second)]
    assert shares[1] > shares[0]


def test_stratified_draws_a_tenth_at_most_from_below_the_threshold():
    pool = pool_of(4000).with_columns(pl.col("similarity").fill_null(1.0))
    for threshold in (0.8, 0.9):
        chance = inclusion_probabilities(pool, strategy="stratified", n=400, threshold=threshold)
        assert chance.filter(pool["similarity"] < threshold - 0.02).sum() == pytest.approx(40, abs=2)
        assert chance.min() > 0


def test_what_near_and_suspicious_look_at_is_three_quarters_of_the_sample():
    pool = pool_of(4000)
    near = inclusion_probabilities(pool, strategy="near", n=100, threshold=0.9)
    assert near.filter(((pool["similarity"] - 0.9).abs() <= 0.05).fill_null(value=False)).sum() == pytest.approx(75)
    pool = pool.with_columns(text=pl.when(pl.int_range(4000) < 100).then(pl.lit("dvaput isti tekst, i dulji")).otherwise("text"))
    why = anomaly_reasons(pool)["reason"]
    suspicious = inclusion_probabilities(pool, strategy="suspicious", n=40)
    assert suspicious.filter(why.is_not_null()).sum() == pytest.approx(30)


@given(
    st.lists(st.tuples(st.floats(0.01, 100), st.integers(1, 20)), min_size=1, max_size=8),
    st.integers(1, 100),
)
def test_allocation_is_proportional_where_nothing_is_exhausted(strata, n):
    sizes, counts = (np.array(values) for values in zip(*strata, strict=True))
    shares = allocate(sizes.astype(float), counts, n)
    # Slowly: the factor at which capped shares sum to n.
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if np.minimum(middle * sizes, counts).sum() >= n else (middle, high)
    assert shares == pytest.approx(np.minimum(high * sizes, counts), rel=1e-6, abs=1e-6)


def test_an_unknown_strategy_names_those_that_are_known():
    with pytest.raises(InputError, match="strategy 'best' is unknown; known are random, stratified, speaker"):
        draw(pool_of(3), strategy="best", n=1, seed=1)


# --- what looks wrong


def test_each_reason_is_found_where_it_is_and_nowhere_else():
    plain = [f"sasvim obična rečenica broj {number} bez ičega" for number in range(300)]
    texts = dict(enumerate(plain))
    texts |= {3: "Jednom rečeno, dvaput napisano!", 4: "jednom rečeno dvaput napisano", 5: "da" * 150, 6: "a", 7: plain[7] + " ¤"}
    gap = [{"start": 0.0, "end": 0.5}, {"start": 2.6, "end": 3.0}]
    pool = pl.DataFrame(
        {
            "segment_id": [str(number) for number in texts],
            "recording_id": "r",
            "start_sample": [700 if n == 1 else n * 1000 for n in texts],
            "end_sample": [1700 if n == 1 else n * 1000 + 500 for n in texts],
            "source_start": "0",
            "source_end": "4",
            "text": list(texts.values()),
            "word_times": [gap if n == 8 else [{"start": 0.0, "end": 3.9}] for n in texts],
        }
    ).with_columns(end_sample=pl.when(pl.col("segment_id") == "0").then(1500).otherwise("end_sample"))
    found = dict(zip(pool["segment_id"], anomaly_reasons(pool)["reason"], strict=True))
    assert {key: why for key, why in found.items() if why} == {
        "0": "duplicate audio",
        "1": "duplicate audio",
        "3": "duplicate text",
        "4": "duplicate text",
        "5": "fast",
        "6": "slow",
        "7": "odd characters",
        "8": "long silence",
    }


def test_reasons_do_without_columns_and_values_that_are_missing():
    pool = pl.DataFrame({"segment_id": ["a", "b"], "text": [None, "da"], "source_start": [None, "x"], "source_end": ["1", "2"]})
    assert_series_equal(anomaly_reasons(pool)["reason"], pl.Series("reason", [None, None], dtype=pl.String))
    assert anomaly_reasons(pl.DataFrame({"segment_id": ["a"]}))["reason"].to_list() == [None]
