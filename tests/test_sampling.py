from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal, assert_series_equal
from sampled import draw, sampling_frame

from nbaudio.core.errors import InputError
from nbaudio.review.rounds import OUTCOMES, Round
from nbaudio.review.sampling import STRATEGIES, anomaly_facts, anomaly_reasons
from nbaudio.tables.schemas import SEGMENTS, WORD_TIMES, conform

# The last two are columns.
EVERY = pytest.mark.parametrize("strategy", [*STRATEGIES, "similarity", "is_odd"])


def pool_of(count, seed=1):
    """Segments with all that strategies look at, some of it absent."""
    rng = np.random.default_rng(seed)
    start = np.arange(count) * 100
    return pl.DataFrame(
        {
            "segment_id": [f"s{number}" for number in range(count)],
            "recording_id": [f"r{number % 5}" for number in range(count)],
            "speaker_id": [
                None if number % 7 == 3 else f"k{number % 7}" for number in range(count)
            ],
            "similarity": [
                None if number % 11 == 5 else 1 - value
                for number, value in enumerate(rng.exponential(0.1, count))
            ],
            "risk": [
                None if number % 13 == 7 else value
                for number, value in enumerate(rng.beta(0.3, 10, count))
            ],
            "is_odd": [number % 2 == 1 for number in range(count)],
            "start_sample": start,
            "end_sample": start + rng.integers(20, 100, count),
            "source_start": ["0"] * count,
            "source_end": [str(value) for value in rng.integers(2, 9, count)],
            "text": ["isti tekst u dva segmenta"] * min(2, count)
            + [f"riječ {n} {'…' * (n == 9)}" for n in range(2, count)],
            "word_times": pl.Series([None] * count, dtype=WORD_TIMES),
        }
    )


def as_round(drawn, verdicts=None, reached=None, **further):
    rows = drawn.select(
        "segment_id", verdict=pl.Series(verdicts or ["right"] * len(drawn), dtype=OUTCOMES)
    ).with_row_index("row")
    line = (
        pl.when(pl.col("row") < (len(drawn) if reached is None else reached))
        .then("row")
        .cast(pl.Int64)
    )
    rows = rows.with_columns(line=line, skipped=pl.lit(value=False), ended=pl.lit(value=False))
    rows = rows.with_columns(verdict=pl.when(pl.col("line").is_not_null()).then("verdict"))
    return Round(**({"name": "one", "strategy": "random"} | further), rows=rows)


def first_chances(pool, **options):
    """The probability of each segment of being drawn first."""
    frame = sampling_frame(pool, **options)
    chances = frame.with_columns(chance=pl.col("weight") / pl.len().over("stratum"))
    return pool.join(chances, on="segment_id", how="left", maintain_order="left")["chance"]


@EVERY
def test_a_draw_depends_on_seed_and_segments_and_not_on_their_order(strategy):
    pool = pool_of(200)
    drawn = draw(pool, strategy=strategy, n=40, seed=3)
    assert drawn.height == drawn["segment_id"].n_unique() == 40
    assert_frame_equal(
        draw(pool.sample(fraction=1, shuffle=True, seed=5), strategy=strategy, n=40, seed=3), drawn
    )
    assert set(draw(pool, strategy=strategy, n=40, seed=4)["segment_id"]) != set(
        drawn["segment_id"]
    )


@pytest.mark.slow
@EVERY
def test_stored_probabilities_are_those_with_which_segments_are_drawn_first(strategy):
    pool, seeds = pool_of(30), 150
    expected = first_chances(pool, strategy=strategy)
    assert expected.min() > 0
    assert expected.sum() == pytest.approx(1)
    chance = dict(zip(pool["segment_id"], expected, strict=True))
    counts = Counter()
    for seed in range(seeds):
        drawn = draw(pool, strategy=strategy, n=3, seed=seed)
        assert drawn["probability"].to_list() == pytest.approx(
            [chance[key] for key in drawn["segment_id"]]
        )
        counts[drawn["segment_id"][0]] += 1
    for key, probability in chance.items():
        spread = np.sqrt(seeds * probability * (1 - probability))
        assert abs(counts[key] - seeds * probability) <= 5 * spread + 1e-9, key


@EVERY
@settings(max_examples=25)
@given(count=st.integers(1, 30), n=st.integers(1, 40))
def test_a_draw_has_the_requested_number_or_all_segments(strategy, count, n):
    drawn = draw(pool_of(count), strategy=strategy, n=n, seed=1)
    assert drawn["segment_id"].n_unique() == len(drawn) == min(n, count)
    assert drawn["probability"].is_between(0, 1, closed="right").all()


@EVERY
def test_later_rounds_draw_segments_not_reached_in_earlier_ones(strategy):
    pool = pool_of(60)
    rounds, seen = [], set()
    for number in range(3):
        drawn = draw(pool, strategy=strategy, n=20, seed=1, rounds=rounds)
        assert not seen & set(drawn["segment_id"])
        seen |= set(drawn["segment_id"])
        rounds.append(as_round(drawn, name=str(number), strategy=strategy))
    assert len(seen) == 60
    assert draw(pool, strategy=strategy, n=20, seed=1, rounds=rounds).is_empty()
    unfinished = [*rounds[:2], as_round(drawn, name="2", strategy=strategy, reached=5)]
    assert set(draw(pool, strategy=strategy, n=60, seed=1, rounds=unfinished)["segment_id"]) == set(
        drawn["segment_id"][5:]
    )


@pytest.mark.slow
def test_an_unstarted_sheet_does_not_bias_a_later_draw():
    """It holds nearly all of a small stratum, and nobody has opened it."""
    pool, counts = pool_of(12).with_columns(similarity=pl.lit(0.9)), Counter()
    for seed in range(200):
        first = as_round(draw(pool, strategy="speaker", n=6, seed=seed), reached=0)
        counts.update(draw(pool, strategy="random", n=4, seed=seed, rounds=[first])["segment_id"])
    found = np.array([counts[key] for key in pool["segment_id"]])
    assert np.abs(found - 200 * 4 / 12).max() < 5 * np.sqrt(200 * 2 / 9)


@given(n=st.integers(1, 30), seed=st.integers())
@pytest.mark.slow
def test_a_larger_random_sample_only_adds_rows(n, seed):
    fewer, more = (
        draw(pool_of(30), strategy="random", n=size, seed=seed)["segment_id"].to_list()
        for size in (n, n + 1)
    )
    assert more[: len(fewer)] == fewer


def test_the_first_rows_of_a_sheet_are_sampled_like_the_whole():
    drawn = draw(pool_of(3000), strategy="speaker", n=300, seed=1)
    whole, half = (Counter(part["stratum"]) for part in (drawn, drawn.head(150)))
    assert (
        max(abs(half[stratum] - whole[stratum] / 2) / np.sqrt(whole[stratum]) for stratum in whole)
        <= 2
    )


@pytest.mark.parametrize("wrong_below", [0.9, 0.97])
def test_stratified_draws_more_where_verdicts_found_errors(wrong_below):
    pool = pool_of(4000).with_columns(pl.col("similarity").fill_null(1.0))
    score = dict(zip(pool["segment_id"], pool["similarity"], strict=True))
    first = draw(pool, strategy="stratified", n=400, seed=1)
    verdicts = [
        "wrong" if score[key] < wrong_below and int(key[1:]) % 2 else "right"
        for key in first["segment_id"]
    ]
    below = pool["similarity"] < wrong_below
    odds = []
    for rounds in ([], [as_round(first, verdicts)]):
        chance = first_chances(pool, strategy="stratified", rounds=rounds)
        odds.append(chance.filter(below).mean() / chance.filter(~below).mean())
    # Most of the sample is even, whatever verdicts say.
    assert odds[1] > 1.05 * odds[0]


def test_stratified_draws_a_tenth_at_most_from_below_the_threshold():
    pool = pool_of(4000).with_columns(pl.col("similarity").fill_null(1.0))
    for threshold in (0.8, 0.9):
        chance = first_chances(pool, strategy="stratified", threshold=threshold)
        assert chance.filter(pool["similarity"] < threshold - 0.02).sum() == pytest.approx(
            0.1, abs=0.005
        )
        assert chance.min() > 0


def test_near_and_suspicious_draw_three_quarters_from_their_segments():
    pool = pool_of(4000)
    near = first_chances(pool, strategy="near", threshold=0.9)
    assert near.filter(
        ((pool["similarity"] - 0.9).abs() <= 0.05).fill_null(value=False)
    ).sum() == pytest.approx(0.75)
    pool = pool.with_columns(
        text=pl.when(pl.int_range(4000) < 100)
        .then(pl.lit("dvaput isti tekst, i dulji"))
        .otherwise("text")
    )
    why = anomaly_reasons(anomaly_facts(pool))["reason"]
    suspicious = first_chances(pool, strategy="suspicious")
    assert suspicious.filter(why.is_not_null()).sum() == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "xyz",
            (
                "known are random, stratified, risk, speaker, recording, near, suspicious, "
                "and columns with numbers"
            ),
        ),
        ("similarty", r"did you mean similarity\?"),
        ("text", "strategy 'text' is unknown"),
    ],
)
def test_an_unknown_strategy_is_refused_with_known_or_similar_names(name, said):
    with pytest.raises(InputError, match=said):
        draw(pool_of(3), strategy=name, n=1, seed=1)


def test_a_column_is_drawn_evenly_over_its_quantiles_equal_values_together_and_nulls_apart():
    pool = pool_of(1100).with_columns(level=pl.Series(np.arange(1100) % 50 // 2).cast(pl.Float64))
    pool = pool.with_columns(level=pl.when(pl.int_range(1100) >= 100).then("level"))
    frame = sampling_frame(pool, strategy="level").join(
        pool.select("segment_id", "level"), on="segment_id"
    )
    weight = frame.group_by("stratum").agg(
        pl.col("weight").first(), pl.col("level").null_count(), pl.len()
    )
    assert weight["weight"].to_list() == pytest.approx([1 / 11] * 11)
    assert weight.filter(pl.col("level") > 0).select("level", "len").rows() == [(100, 100)]
    assert (
        frame.drop_nulls("level")
        .group_by("level")
        .agg(pl.col("stratum").n_unique())["stratum"]
        .max()
        == 1
    )


def test_risk_draws_suspicious_segments_more_often_and_a_tenth_at_most_from_outside_of_the_selection():  # noqa: E501
    pool = pool_of(4000).with_columns(
        pl.col("similarity").fill_null(1.0), pl.col("risk").fill_null(0.01)
    )
    for part in (
        pool,
        pool.with_columns(
            decision=pl.when(pl.int_range(4000) < 1000).then(pl.lit("accept")), reason=pl.lit("x")
        ),
    ):
        inside = part["similarity"] >= 0.8 if part is pool else part["decision"].is_not_null()
        chance = first_chances(part, strategy="risk")
        assert chance.filter(~inside).sum() == pytest.approx(min(0.1, (~inside).mean()), abs=1e-9)
        high, low = (
            chance.filter(inside & mask).mean()
            for mask in (part["risk"] > 0.1, part["risk"] < 0.001)
        )
        assert 1.3 * low < high < 10 * low
        assert chance.min() > 0.3 * chance.filter(inside).sum() / inside.sum() * (
            1 if part is pool else 0.1
        )


def test_a_risk_that_predicts_badly_loses_its_influence_on_the_draws():
    pool = pool_of(4000).with_columns(
        pl.lit(0.9).alias("similarity"), pl.col("risk").fill_null(0.01)
    )
    first = draw(pool, strategy="random", n=1500, seed=1)
    risk = dict(pool.select("segment_id", "risk").iter_rows())
    spread = []
    for is_wrong in (
        lambda key: risk[key] > 0.1 and int(key[1:]) % 2,
        lambda key: risk[key] < 0.001 and int(key[1:]) % 40 == 0,
    ):
        verdicts = ["wrong" if is_wrong(key) else "right" for key in first["segment_id"]]
        chance = first_chances(pool, strategy="risk", rounds=[as_round(first, verdicts)])
        spread.append(
            chance.filter(pool["risk"] > 0.1).mean() / chance.filter(pool["risk"] < 0.001).mean()
        )
    assert spread[0] > 1.3
    assert spread[1] < 1.15


def test_strategy_risk_without_the_column_names_the_step_that_makes_it():
    with pytest.raises(InputError, match="there is no column risk; review import learns it"):
        draw(pool_of(3).drop("risk"), strategy="risk", n=1, seed=1)


# --- what looks wrong


def test_each_anomaly_is_found_in_its_segments_only():
    plain = [f"sasvim obična rečenica broj {number} bez ičega" for number in range(300)]
    texts = dict(enumerate(plain))
    texts |= {
        3: "Jednom rečeno, dvaput napisano!",
        4: "jednom rečeno dvaput napisano",
        5: "da" * 150,
        6: "a",
        7: plain[7] + " ¤",
    }
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
    ).with_columns(
        end_sample=pl.when(pl.col("segment_id") == "0").then(1500).otherwise("end_sample")
    )
    found = dict(
        zip(pool["segment_id"], anomaly_reasons(anomaly_facts(pool))["reason"], strict=True)
    )
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


def test_missing_values_have_no_anomalies():
    pool = pl.DataFrame(
        {
            "segment_id": ["a", "b"],
            "text": [None, "da"],
            "source_start": [None, "x"],
            "source_end": ["1", "2"],
        }
    )
    none = pl.Series("reason", [None, None], dtype=pl.Categorical)
    assert_series_equal(
        anomaly_reasons(anomaly_facts(conform(pool, SEGMENTS, "segments")))["reason"], none
    )
    assert_series_equal(
        anomaly_reasons(anomaly_facts(conform(pool.select("segment_id"), SEGMENTS, "segments")))[
            "reason"
        ],
        none,
    )
