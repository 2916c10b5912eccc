import itertools
import json
from math import comb

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv
from typer.testing import CliRunner

from nbaudio import evidence, review
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.core.tables import RECORDINGS, SEGMENTS, conform
from nbaudio.proof.evidence import THRESHOLDS, ProofState, selection_claim
from nbaudio.proof.precision_curves import KNOTS, Sums, add_up, band, curve, lower, min_sample_size, more_reviews, proven, upper
from nbaudio.proof.sampling_weights import Sample, weigh_rounds
from nbaudio.review.rounds import Round, consensus
from nbaudio.review.sampling import draw
from nbaudio.review.state import ReviewState, Verdict, append_verdicts
from nbaudio.storage.workspace import Workspace
from nbaudio.ui import plots
from nbaudio.ui.widgets import ReviewPanel

GRID = np.arange(-100, 101) / 100


def pool_of(scores):
    ids = [f"s{number}" for number in range(len(scores))]
    frame = pl.DataFrame(
        {"segment_id": ids, "similarity": scores, "duration_s": 3600.0}, schema_overrides={"similarity": pl.Float64}
    )
    return frame.with_columns(recording_id=pl.lit("r"), speaker_id=pl.lit("k"), text=pl.lit("da"))


def round_of(keys, probabilities, verdicts, *, strata="all", **further):
    rows = {"segment_id": keys, "stratum": strata, "probability": probabilities, "verdict": verdicts}
    rows = pl.DataFrame(rows, schema={name: pl.Float64 if name == "probability" else pl.String for name in rows})
    return Round(**({"name": "one", "strategy": "random", "n": len(keys), "threshold": 0.8} | further), rows=rows)


def sample_of(scores, verdicts, weights, population=None, rate=0.1):
    """A sample as `weigh_rounds` gives it, each judged segment in a cell of its own."""
    judged = pl.DataFrame({"similarity": scores, "verdict": verdicts, "weight": weights}, schema_overrides={"verdict": pl.String})
    judged = judged.with_columns(cell=pl.int_range(pl.len()).cast(pl.String), cell_size=pl.lit(1))
    population = scores if population is None else population
    return Sample(pl.DataFrame({"similarity": population, "hours": 1.0, "rate": rate}), judged.cast({"weight": pl.Float64}))


# --- the estimate, against all samples that there could have been


def wrong_total(pool, known):
    judged = weigh_rounds(pool, known).judged
    return judged.filter(pl.col("verdict") == "wrong")["weight"].sum()


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [{0}, {0, 1, 5}, {2, 3, 4, 5, 6}])
def test_rounds_that_learn_from_verdicts_give_an_unbiased_estimate(wrong):
    """Two at random; then one more of the upper and, if a fault was found, two of the lower scores, else one."""
    pool = pool_of([0.1, 0.3, 0.5, 0.7, 0.85, 0.9, 0.95])
    keys = pool["segment_id"].to_list()
    verdict = {key: "wrong" if number in wrong else "right" for number, key in enumerate(keys)}
    total, samples = 0.0, 0.0
    firsts = list(itertools.combinations(keys, 2))
    for first in firsts:
        one = round_of(first, 2 / 7, [verdict[key] for key in first])
        left = [[key for key in part if key not in first] for part in (keys[:4], keys[4:])]
        sizes = [min(2 if "wrong" in one.rows["verdict"] else 1, len(left[0])), min(1, len(left[1]))]
        seconds = [
            low + high for low in itertools.combinations(left[0], sizes[0]) for high in itertools.combinations(left[1], sizes[1])
        ]
        for second in seconds:
            side = [0 if key in left[0] else 1 for key in second]
            two = round_of(
                second,
                [sizes[of] / len(left[of]) for of in side],
                [verdict[key] for key in second],
                strata=[str(of) for of in side],
                name="two",
                strategy="stratified",
                n=3,
                after=("one",),
            )
            chance = 1 / len(firsts) / len(seconds)
            total += chance * wrong_total(pool, [one, two])
            samples += chance
    assert samples == pytest.approx(1)
    assert total == pytest.approx(len(wrong))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [{0}, {1, 4}, {0, 1, 2, 3, 4}])
@pytest.mark.parametrize("reached", [1, 2])
def test_a_sheet_that_was_not_finished_gives_an_unbiased_estimate(wrong, reached):
    """Three in random order, of which some have been reached; then one of the rest."""
    pool = pool_of([0.1, 0.5, 0.7, 0.85, 0.9])
    keys = pool["segment_id"].to_list()
    verdict = {key: "wrong" if number in wrong else "right" for number, key in enumerate(keys)}
    found = []
    for first in itertools.permutations(keys, 3):
        said = [verdict[key] if place < reached else None for place, key in enumerate(first)]
        for second in [key for key in keys if key not in first]:
            known = [round_of(first, 3 / 5, said), round_of([second], 1 / 2, [verdict[second]], name="two", after=("one",))]
            found.append(wrong_total(pool, known))
    assert np.mean(found) == pytest.approx(len(wrong))


def test_a_sheet_that_nobody_has_opened_takes_nothing_away_from_the_estimate():
    pool = pool_of([0.1, 0.5, 0.7, 0.85, 0.9])
    keys = pool["segment_id"].to_list()
    found = []
    for first in itertools.combinations(keys, 2):
        for second in itertools.combinations([key for key in keys if key not in first], 2):
            verdicts = ["wrong" if key in ("s0", "s3") else "right" for key in second]
            known = [round_of(first, 2 / 5, None), round_of(second, 2 / 3, verdicts, name="two", after=("one",))]
            found.append(wrong_total(pool, known))
    assert np.mean(found) == pytest.approx(2)


def test_one_round_at_random_gives_every_segment_the_same_weight():
    pool = pool_of([0.5] * 10)
    sample = weigh_rounds(pool, [round_of(["s1", "s2"], 0.2, ["right", "wrong"])])
    assert sample.judged["weight"].to_list() == pytest.approx([5, 5])
    assert sample.population["rate"].to_list() == pytest.approx([0.2] * 10)


def test_everything_reviewed_in_any_rounds_is_known_exactly():
    pool = pool_of([0.1, 0.5, 0.7, 0.85, 0.9, 1.0])
    one = round_of(["s0", "s3", "s5"], 0.5, ["wrong", "right", "right"])
    two = round_of(["s1", "s2", "s4"], 1.0, ["wrong", "right", "wrong"], name="two", strategy="stratified", after=("one",))
    found = curve(weigh_rounds(pool, [one, two]), thresholds=np.array([0.0, 0.6]))
    for name in ("precision", "low", "high", "low_all", "high_all", "at_least"):
        assert found[name].to_list() == pytest.approx([3 / 6, 3 / 4]), name


# --- the intervals, against all samples


def hypergeometric(population, events, drawn, seen):
    return comb(events, seen) * comb(population - events, drawn - seen) / comb(population, drawn)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("strata", [[(10, 4)], [(12, 1)], [(6, 3), (9, 2)], [(4, 4), (12, 2)], [(3, 1), (4, 2), (8, 2)]])
def test_intervals_hold_for_every_small_population(strata, confidence):
    """Strata of (segments, reviews): each number of faults in each, each outcome."""
    scores = np.concatenate([np.full(size, 0.5) for size, _ in strata])
    rate = np.concatenate([np.full(size, n / size) for size, n in strata])
    bounds = {}
    for seen in itertools.product(*(range(n + 1) for _, n in strata)):
        judged = pl.DataFrame(
            [
                {
                    "similarity": 0.5,
                    "verdict": "wrong" if k < wrong else "right",
                    "weight": size / n,
                    "cell": str(place),
                    "cell_size": n,
                }
                for place, ((size, n), wrong) in enumerate(zip(strata, seen, strict=True))
                for k in range(n)
            ]
        )
        population = pl.DataFrame({"similarity": scores, "hours": 1.0, "rate": rate})
        row = curve(Sample(population, judged), confidence=confidence, thresholds=np.array([0.0])).row(0, named=True)
        bounds[seen] = row["low"], row["high"], row["at_least"], row["low_all"], row["high_all"]
    for events in itertools.product(*(range(size + 1) for size, _ in strata)):
        truth = 1 - sum(events) / len(scores)
        covered = np.zeros(3)
        for seen, (low, high, least, low_all, high_all) in bounds.items():
            parts = zip(strata, events, seen, strict=True)
            chance = np.prod([hypergeometric(size, wrong, n, k) for (size, n), wrong, k in parts])
            near = 1e-9
            holds = low - near <= truth <= high + near, least - near <= truth, low_all - near <= truth <= high_all + near
            covered += chance * np.array(holds)
        assert covered.min() >= confidence - 1e-9, (events, covered)


@settings(max_examples=200)
@given(n=st.integers(1, 2000), data=st.data(), level=st.sampled_from([0.8, 0.95, 0.975, 0.999]))
def test_bounds_of_one_stratum_contain_those_of_clopper_and_pearson(n, data, level):
    wrong = data.draw(st.integers(0, n))
    squares = wrong - (1 - 1 / n) * wrong**2 / n
    exact = float(betaincinv(wrong + 1, n - wrong, level)) if wrong < n else 1.0
    assert min(float(upper(wrong, squares, 1.0, level=level)), n) >= n * exact * (1 - 1e-9)
    exact = float(betaincinv(wrong, n - wrong + 1, 1 - level)) if wrong else 0.0
    # Of a single event the bound of a Poisson count is a little higher: -log(level) against n (1 - level^(1/n)).
    assert float(lower(wrong, wrong, level=level)) <= (n * exact if wrong != 1 else -np.log(level)) * (1 + 1e-9)


sums_of = st.builds(
    lambda rows, extra: add_up(
        sample_of(
            [score for score, _, _ in rows],
            [verdict for _, verdict, _ in rows],
            [weight for _, _, weight in rows],
            population=[score for score, _, weight in rows for _ in range(int(weight) + 1)] + [0.3] * extra,
        ),
        GRID,
    ),
    st.lists(
        st.tuples(
            st.integers(-100, 100).map(lambda number: number / 100),
            st.sampled_from(["right", "right", "right", "right", "wrong", "unsure"]),
            st.integers(1, 60),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(0, 50),
)


@settings(max_examples=50, deadline=None)
@given(sums_of)
def test_bounds_enclose_the_estimate_and_widen_with_the_confidence(sums):
    before = None
    for level in (0.6, 0.9, 0.99):
        most, fewest = sums.most(level), sums.fewest(level)
        assert (fewest <= np.clip(sums.total[0], sums.wrong, sums.segments - sums.right) + 1e-9).all()
        assert (fewest >= 0).all()
        assert (most <= sums.segments).all()
        if before:
            assert (most >= before[0] - 1e-9).all()
            assert (fewest <= before[1] + 1e-9).all()
        before = most, fewest


@settings(max_examples=50, deadline=None)
@given(sums_of, st.sampled_from([0.8, 0.95]))
def test_the_band_is_that_of_its_knots_one_by_one(sums, confidence):
    most, fewest = band(sums, confidence)
    judged = sums.judged
    wanted = [judged.max() * part / KNOTS for part in range(1, KNOTS + 1)]
    knots = sorted({0} | {max(place for place in range(len(GRID)) if judged[place] >= count) for count in wanted})
    level = 1 - (1 - confidence) / 2 / len(knots)
    high, low = sums.most(level), sums.fewest(level)
    for place in range(len(GRID)):
        above = min((high[knot] for knot in knots if knot <= place), default=np.inf)
        below = max((low[knot] for knot in knots if knot >= place), default=0.0)
        assert most[place] == pytest.approx(min(above, sums.segments[place] - sums.right[place]))
        assert fewest[place] == pytest.approx(max(below, sums.wrong[place]))


@settings(max_examples=50, deadline=None)
@given(sums_of, st.sampled_from([0.5, 0.8]), st.sampled_from([0.6, 0.9]))
def test_thresholds_are_tested_one_by_one_from_above(sums, precision, confidence):
    least = min_sample_size(precision=precision, confidence=confidence)
    sizes = [0.0 if not heavy else kept / heavy for kept, heavy in zip(sums.segments, sums.possible, strict=True)]
    descending = range(len(GRID) - 1, -1, -1)

    def first(size):
        return next((place for place in descending if sizes[place] >= size), None)

    starts = [first(1.5 * least * 2**power) for power in range(30)]
    starts = {place for place in starts if place is not None} or {place for place in [first(least)] if place is not None}
    expected, error, running = [], 0.0, False
    for place in descending:
        if place in starts:
            error = (error if running else 0.0) + (1 - confidence) / len(starts)
            running = True
        running = running and bool(sums.most(1 - error)[place] <= (1 - precision) * sums.segments[place])
        expected.append(running)
    assert proven(sums, precision=precision, confidence=confidence).tolist() == expected[::-1]


def test_so_many_more_reviews_of_the_same_kind_are_enough():
    scores, verdicts = [0.9] * 200, ["wrong"] * 2 + ["right"] * 198
    few = add_up(sample_of(scores, verdicts, 100.0, population=[0.9] * 20_000, rate=0.01), np.array([0.5]))
    [more] = more_reviews(few, precision=0.98, confidence=0.95)
    assert few.most(0.95)[0] > 0.02 * 20_000
    for factor, enough in ((1 + more / 200, True), (1 + 0.95 * more / 200, False)):
        times = Sums(
            **{
                **few.__dict__,
                "squares": (few.squares[0] / factor,) * 2,
                "largest": few.largest / factor,
                "possible": few.possible / factor,
            }
        )
        assert (times.most(0.95)[0] <= 0.02 * 20_000) == enough
    assert np.isnan(more_reviews(few, precision=0.995, confidence=0.95)[0])
    assert more_reviews(few, precision=0.9, confidence=0.95)[0] == 0


# --- what the sample cannot bear


def test_unsure_is_wrong_in_estimates_and_lower_bounds_and_right_in_upper_ones():
    scores = [0.9] * 100

    def row(verdicts):
        return curve(sample_of(scores, verdicts, 10.0, population=[0.9] * 1000), thresholds=np.array([0.5])).row(0, named=True)

    unsure, wrong, right = (row([word] * 5 + ["right"] * 95) for word in ("unsure", "wrong", "right"))
    assert (unsure["precision"], unsure["low"], unsure["at_least"]) == (wrong["precision"], wrong["low"], wrong["at_least"])
    assert unsure["high"] == right["high"] > wrong["high"]
    assert (unsure["unsure"], unsure["wrong"], unsure["reviewed"]) == (5, 0, 100)


def test_what_no_round_could_have_drawn_counts_against_the_claim():
    population = pl.DataFrame({"similarity": [0.9] * 1000, "hours": 1.0, "rate": [0.2] * 900 + [0.0] * 100})
    judged = sample_of([0.9] * 180, ["right"] * 180, 5.0).judged
    row = curve(Sample(population, judged), precision=0.85, thresholds=np.array([0.5])).row(0, named=True)
    assert row["precision"] == 1
    assert row["low"] < row["at_least"] < 0.9
    assert row["high"] == 1
    assert (row["proven"], row["more"]) == (True, 0)
    assert not curve(Sample(population, judged), precision=0.95, thresholds=np.array([0.5]))["proven"].any()


def test_what_was_judged_whole_is_known_however_little_it_is():
    population = pl.DataFrame({"segment_id": list("abcd"), "similarity": [0.5, 0.9, 0.9, 0.9], "hours": 1.0, "rate": 1.0})
    judged = pl.DataFrame({"segment_id": list("abcd"), "similarity": [0.5, 0.9, 0.9, 0.9], "weight": 1.0})
    judged = judged.with_columns(verdict=pl.Series(["wrong", *["right"] * 3]), cell=pl.lit("all"), cell_size=4)
    found = curve(Sample(population, judged), thresholds=np.array([0.4, 0.8]))
    assert found["proven"].to_list() == [False, True]


def test_without_verdicts_nothing_is_known():
    found = curve(weigh_rounds(pool_of([0.2, None, 0.9]), []))
    assert found["precision"].null_count() == len(found)
    assert set(found["low"].drop_nulls()) | set(found["low_all"].drop_nulls()) == {0.0}
    assert set(found["high"].drop_nulls()) == {1.0}
    assert not found["proven"].any()
    assert found["more"].null_count() == len(found)
    assert found["segments"].to_list()[-1] == 1  # what has no similarity passes every threshold


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["one round", "another round after growth"])
def test_bounds_hold_after_growth_though_all_new_segments_are_wrong_and_what_was_found_wrong_was_mended(again):
    """Of 300 segments 6 % are wrong; 60 more come, all wrong; those of the first round that were found wrong are right now."""
    rng = np.random.default_rng(7)
    held, proved, estimates = 0, 0, []
    for seed in range(400):
        wrong = np.concatenate([rng.random(300) < 0.06, np.ones(60, dtype=bool)])
        pool = pool_of(np.concatenate([np.full(300, 0.9), np.full(60, 0.95)])).with_columns(added_in=pl.lit(1, pl.Int32))
        verdict = dict(zip(pool["segment_id"], np.where(wrong, "wrong", "right"), strict=True))
        drawn = draw(pool.head(300), strategy="random", n=100, seed=seed)
        mended = [key for key in drawn["segment_id"] if verdict[key] == "wrong"]
        said = ["unsure" if key in mended else "right" for key in drawn["segment_id"]]
        known = [round_of(drawn["segment_id"], drawn["probability"], said, generation=1)]
        later = pl.Series(mended + [f"s{n}" for n in range(300, 360)])
        pool = pool.with_columns(added_in=1 + pool["segment_id"].is_in(later.implode()).cast(pl.Int32))
        verdict |= dict.fromkeys(mended, "right")
        if again:
            more = draw(pool, strategy="stratified", n=80, seed=seed, rounds=known)
            said = [verdict[key] for key in more["segment_id"]]
            more = {"keys": more["segment_id"], "probabilities": more["probability"], "verdicts": said, "strata": more["stratum"]}
            known.append(round_of(**more, name="two", strategy="stratified", n=80, after=("one",), generation=2))
        sample = weigh_rounds(pool, known)
        truth = sum(word == "right" for word in verdict.values()) / 360
        row = curve(sample, precision=0.9, thresholds=np.array([0.0])).row(0, named=True)
        held += row["low"] <= truth
        proved += row["proven"]
        estimates.append(
            sample.judged.filter(pl.col("verdict") != "right")["weight"].sum() - (360 * (1 - truth) - 60 * (not again))
        )
        assert (sample.population["rate"] == 0).sum() == (0 if again else 60)
    assert proved == 0
    assert held >= 0.97 * 400
    # What was mended counts as wrong with all that it stands for.
    assert np.mean(estimates) > -1


def test_a_round_from_other_segments_proves_nothing_but_its_segments_are_known():
    pool = pool_of([0.9] * 10)
    old = round_of(["s0", "s1"], 0.5, ["right", "wrong"], corpus="old")
    assert weigh_rounds(pool, [old], corpus="new").judged["weight"].to_list() == [0, 0]
    new = round_of(["s2", "s3"], 0.25, ["right", "wrong"], name="two", corpus="new", after=("one",))
    weights = weigh_rounds(pool, [old, new], corpus="new").judged
    assert dict(weights.select("segment_id", "weight").iter_rows()) == pytest.approx({"s0": 1, "s1": 1, "s2": 4, "s3": 4})


@pytest.mark.parametrize("options", [{"precision": 1}, {"precision": 0}, {"confidence": 1.0}, {"confidence": True}])
def test_shares_that_are_none_are_refused(options):
    with pytest.raises(InputError, match="must be between 0 and 1"):
        curve(weigh_rounds(pool_of([0.5]), []), **options)


# --- a workspace


@pytest.fixture
def workspace(tmp_path):
    """2,000 segments without audio, wrong where their number is a multiple of three and the similarity is below 0.6."""
    rng = np.random.default_rng(1)
    scores = np.where(rng.random(2000) < 0.1, rng.uniform(0, 0.6, 2000), rng.uniform(0.6, 1, 2000))
    made = Workspace.create(tmp_path / "w", audio=None)
    ids = [f"s{number}" for number in range(2000)]
    segments = {"segment_id": ids, "recording_id": "r", "source_start": [str(20 * n) for n in range(2000)]}
    segments |= {"source_end": [str(20 * n + 10) for n in range(2000)], "text": [f"riječ {n}" for n in range(2000)]}
    frame = pl.DataFrame({**segments, "similarity": scores})
    made.save(
        recordings=conform(pl.DataFrame({"recording_id": ["r"]}), RECORDINGS, "recordings"),
        segments=conform(frame, SEGMENTS, "segments"),
    )
    return made


def say(workspace, name, verdict_of, *, reviewer="ana", rows=None):
    """Verdicts on the rows of a review."""
    record = ReviewState.load(workspace).records[name]
    pairs = list(zip(record.segment_ids, record.contents, strict=True))[:rows]
    words = [(key, content, verdict_of(key)) for key, content in pairs]
    append_verdicts(
        workspace,
        [Verdict(key, content, word, "", None, reviewer, "2026-11-21T03:00:00Z", name) for key, content, word in words if word],
    )


def judge(workspace):
    score = dict(workspace.segments.select("segment_id", "similarity").iter_rows())
    return lambda key: "wrong words" if score[key] < 0.6 and int(key[1:]) % 3 == 0 else "ok"


def test_before_any_verdict_the_report_claims_nothing_and_says_what_to_review(workspace):
    report = evidence(workspace)
    assert report.facts["lowest_proven"] is None
    assert report.facts["thresholds"][0]["precision"] is None
    assert report.warnings == ["nothing has been judged yet: the quality of the labels is unknown"]
    assert "review export" in report.facts["review_next"]
    assert "--strategy stratified --n 300 --threshold 0.8" in report.facts["review_next"]


def test_rounds_of_several_kinds_prove_a_threshold_that_holds(workspace, tmp_path):
    verdict_of = judge(workspace)
    plan = [("random", 100), ("near", 60), ("suspicious", 40), ("stratified", 200)]
    for strategy, n in plan:
        review.export(workspace, out=tmp_path / f"{strategy}.xlsx", strategy=strategy, n=n, threshold=0.6)
        say(workspace, strategy, verdict_of)
    assert [(one.name, one.after) for one in ProofState.load(workspace).parts[0]] == [
        (name, tuple(before for before, _ in plan[:place])) for place, (name, _) in enumerate(plan)
    ]
    report = evidence(workspace, precision=0.95)
    found = curve(ProofState.load(workspace).sample(), precision=0.95)
    truth = [
        np.mean([verdict_of(key) == "ok" for key in workspace.segments.filter(pl.col("similarity") >= t)["segment_id"]])
        for t in found.filter(pl.col("segments") > 0)["threshold"]
    ]
    kept = found.filter(pl.col("segments") > 0).with_columns(truth=pl.Series(truth))
    assert kept.filter((pl.col("low") > pl.col("truth") + 1e-9) | (pl.col("high") < pl.col("truth") - 1e-9)).is_empty()
    lowest = report.facts["lowest_proven"]
    assert lowest == kept.filter("proven")["threshold"].min() < 0.6
    assert kept.filter("proven")["truth"].min() >= 0.95
    assert report.facts["reviewed"]["right"] + report.facts["reviewed"]["wrong"] == 400
    assert next(row for row in report.facts["thresholds"] if row["threshold"] == lowest)["at_least"] >= 0.95
    saved = json.loads((workspace.path / "reports" / "evidence.json").read_text())
    assert [row["threshold"] for row in saved["curve"]] == GRID.tolist()
    given = {key for record in ReviewState.load(workspace).records.values() for key in record.segment_ids}
    assert saved["next"]
    assert not given & set(saved["next"])


@pytest.mark.parametrize(
    ("said", "label", "adjudicated"),
    [
        ("ana ok, ben ok", "right", "right"),
        ("ana ok, ben noise", "unsure", "wrong"),
        ("ana noise, ben cut off", "wrong", "wrong"),
        ("ana unsure", "unsure", "unsure"),
        ("ana ok, ben noise, cy ok", "right", "wrong"),
        ("ana ok, ben noise, cy unsure", "unsure", "wrong"),
        ("ana ok, cy ok, dan noise, eva noise", "unsure", "unsure"),
        ("ana ok, cy ok, ben unsure", "right", "unsure"),
        ("ben noise, ana noise, fay ok", "wrong", "right"),
        ("fay ok, ana noise, ben noise", "wrong", "wrong"),
    ],
)
def test_the_label_is_what_most_reviewers_say_or_the_last_word_of_an_adjudicator(said, label, adjudicated):
    words = [one.split(" ", 1) for one in said.split(", ")]
    votes = pl.DataFrame({"segment_id": "a", "reviewer": [who for who, _ in words], "verdict": [word for _, word in words]})
    assert consensus(votes, [])["verdict"].to_list() == [label]
    assert consensus(votes, ["ben", "fay"])["verdict"].to_list() == [adjudicated]


def test_without_a_fault_a_precision_takes_the_rule_of_three():
    assert min_sample_size(precision=0.98, confidence=0.95) == 150
    assert float(upper(0.0, 0.0, 1.0, level=0.95)) == pytest.approx(-np.log(0.05))


def test_what_to_review_next_is_what_export_draws(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=50)
    say(workspace, "one", judge(workspace))
    words = evidence(workspace).facts["review_next"].split()
    asked = {"n": int(words[words.index("--n") + 1]), "threshold": float(words[words.index("--threshold") + 1])}
    expected = workspace.report("evidence")["next"]
    review.export(workspace, out=tmp_path / "two.xlsx", strategy="stratified", **asked)
    assert ReviewState.load(workspace).records["two"].segment_ids == expected


def test_export_again_after_verdicts_gives_the_same_sample(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=50, strategy="stratified")
    before = (workspace.path / "reviews" / "one.json").read_bytes()
    say(workspace, "one", judge(workspace))
    review.export(workspace, out=tmp_path / "two.xlsx", n=50, strategy="stratified")
    review.export(workspace, out=tmp_path / "one.xlsx", n=50, strategy="stratified")
    assert (workspace.path / "reviews" / "one.json").read_bytes() == before


def verdicts_of(workspace):
    [one] = ProofState.load(workspace).parts[0]
    return one.rows["verdict"].to_list()


def test_rows_after_the_last_judged_one_have_not_been_reached_and_rows_before_it_are_unsure(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20)
    skipped = ReviewState.load(workspace).records["one"].segment_ids[3]
    say(workspace, "one", lambda key: None if key == skipped else "ok", rows=10)
    assert verdicts_of(workspace) == ["right"] * 3 + ["unsure"] + ["right"] * 6 + [None] * 10
    assert ProofState.load(workspace).parts[0][0].reached == 0.5
    assert "one: 1 rows before the last judged one were skipped; they count as unsure" in evidence(workspace).warnings
    assert ProofState.load(workspace).sample().judged["weight"].to_list() == pytest.approx([200.0] * 10)


def test_of_two_reviewers_each_has_reached_the_beginning_of_their_own_rows(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20, reviewers=["ana", "ben"], overlap=4)
    own = ReviewState.load(workspace).records["one"].shares()["ben"]
    say(workspace, "one", lambda key: "ok" if key in own[:5] else None, reviewer="ben")
    [one] = ProofState.load(workspace).parts[0]
    assert set(one.rows.filter(pl.col("verdict") == "right")["segment_id"]) == set(own[:5])
    assert one.rows["verdict"].null_count() == 15


def test_whatever_name_reviewers_write_their_sheet_tells_how_far_they_have_come(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20, reviewers=["ana", "ben"], overlap=4)
    shares = ReviewState.load(workspace).records["one"].shares()
    say(workspace, "one", lambda key: "ok" if key in shares["ana"] else None, reviewer="Ana K.")
    [one] = ProofState.load(workspace).parts[0]
    assert one.rows["verdict"].value_counts().sort("verdict").rows() == [(None, 8), ("right", 12)]
    assert one.passed == 0
    say(workspace, "one", lambda key: "ok" if key in shares["ben"][:6] else None, reviewer="Ana K.")
    judged = ProofState.load(workspace).parts[0][0].rows["verdict"].to_list()
    assert judged.count("right") == len({*shares["ana"], *shares["ben"][:6]})


def test_what_was_said_elsewhere_does_not_tell_how_far_a_review_has_come(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20)
    record = ReviewState.load(workspace).records["one"]
    say(workspace, "one", lambda _: "ok", rows=5)
    elsewhere = [(record.segment_ids[place], record.contents[place]) for place in (2, 19)]
    append_verdicts(
        workspace,
        [Verdict(key, content, "noise", "", None, "ben", "2026-11-21T03:00:00Z", "panel") for key, content in elsewhere],
    )
    assert verdicts_of(workspace) == ["right", "right", "unsure", "right", "right", *[None] * 15]
    assert any(
        line.startswith("1 judged segments were not drawn by a review, or are beyond") for line in evidence(workspace).warnings
    )


def test_what_has_other_words_now_is_unsure_until_it_is_judged_anew(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=5)
    say(workspace, "one", lambda _: "ok")
    as_it_was = workspace.segments
    workspace.save(segments=as_it_was.with_columns(text=pl.col("text").str.to_uppercase() + "!"))
    assert verdicts_of(workspace) == ["right"] * 5
    workspace.save(segments=as_it_was.with_columns(text=pl.lit("sasvim ") + pl.col("text")))
    assert verdicts_of(workspace) == ["unsure"] * 5
    assert any(line.startswith("one: 5 judged rows have other words") for line in evidence(workspace).warnings)
    panel = ReviewPanel(workspace, reviewer="ana", review="one")
    assert panel.progress["done"] == 0
    for number, word in enumerate(["ok", "noise", "ok"]):
        panel._give(number=number, verdict=word, comment="", corrected_text=None)
    assert verdicts_of(workspace) == ["right", "wrong", "right", "unsure", "unsure"]
    workspace.save(segments=as_it_was)
    assert verdicts_of(workspace) == ["right"] * 5


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["ok", "ok"], "right"),
        (["noise", "wrong words"], "wrong"),
        (["ok", "noise"], "unsure"),
        (["ok", "unsure"], "unsure"),
        (["noise", "unsure"], "unsure"),
    ],
)
def test_reviewers_who_do_not_agree_are_unsure(workspace, tmp_path, words, verdict):
    review.export(workspace, out=tmp_path / "one.xlsx", n=1)
    for reviewer, word in zip(("ana", "ben"), words, strict=True):
        say(workspace, "one", lambda _, word=word: word, reviewer=reviewer)
    assert verdicts_of(workspace) == [verdict]


def test_verdicts_on_what_was_not_drawn_or_has_changed_are_not_counted(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=5)
    drawn = ReviewState.load(workspace).records["one"].segment_ids
    other = next(key for key in workspace.segments["segment_id"] if key not in drawn)
    append_verdicts(
        workspace, [Verdict(key, "0", "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel") for key in (drawn[0], other)]
    )
    report = evidence(workspace)
    assert report.facts["reviewed"] == {"right": 0, "wrong": 0, "unsure": 0}
    assert any(line.startswith("2 judged segments were not drawn by a review, or") for line in report.warnings)


def test_segments_that_came_later_make_older_rounds_worthless(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=500)
    say(workspace, "one", lambda _: "ok")
    assert evidence(workspace).facts["lowest_proven"] is not None
    more = workspace.segments.head(1).with_columns(segment_id=pl.lit("new"), source_start=pl.lit("5"))
    workspace.save(segments=pl.concat([workspace.segments, more]))
    report = evidence(workspace)
    assert report.facts["lowest_proven"] is None
    assert "drawn from segments that have been replaced since, so they prove nothing: one" in report.warnings


def test_durations_are_those_of_select(workspace):
    assert evidence(workspace).facts["of"]["segments"] == 2000
    assert evidence(workspace, max_duration=10).facts["of"]["segments"] == 2000
    assert evidence(workspace, min_duration=10.1).facts["of"]["segments"] == 0
    with pytest.raises(InputError, match="min_duration=5, max_duration=2"):
        evidence(workspace, min_duration=5, max_duration=2)


def test_recordings_that_were_not_there_are_not_covered():
    pool = pool_of([0.9] * 10).with_columns(recording_id=pl.Series(["here"] * 6 + ["gone"] * 4))
    sample = weigh_rounds(pool, [round_of(["s0", "s1"], 1 / 3, ["right", "right"], missing=("gone",))])
    assert sample.population["rate"].to_list() == pytest.approx([1 / 3] * 6 + [0] * 4)
    assert sample.judged["weight"].to_list() == pytest.approx([3, 3])


def test_a_claim_is_that_of_the_verdicts_there_are_now(workspace, tmp_path):
    assert selection_claim(workspace) == {}
    review.export(workspace, out=tmp_path / "one.xlsx", n=300)
    say(workspace, "one", lambda _: "ok")
    evidence(workspace, precision=0.95)
    workspace.save_report("select", {"facts": {"parameters": {"min_similarity": 0.805}}})
    first = selection_claim(workspace)
    assert (first["threshold"], first["precision"], first["wrong"]) == (0.805, 1.0, 0)
    assert first["segments"] == workspace.segments.filter(pl.col("similarity") >= 0.805).height
    assert first["wanted"] == "0.95 right, with confidence 0.95"
    assert first["lowest proven"] == evidence(workspace, precision=0.95).facts["lowest_proven"]
    assert {row["threshold"] for row in first["curve"]} <= set(THRESHOLDS)
    # The bounds are those of the whole curve, which hold for all its thresholds at once.
    assert all(row in workspace.report("evidence")["curve"] for row in first["curve"])
    assert first["curve"]
    say(workspace, "one", lambda _: "noise")
    assert (selection_claim(workspace)["precision"], selection_claim(workspace)["lowest proven"]) == (0.0, None)


def test_command_line(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=400)
    say(workspace, "one", judge(workspace))
    done = CliRunner().invoke(app, ["evidence", str(workspace.path), "--precision", "0.9", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == evidence(workspace, precision=0.9).to_dict()
    assert CliRunner().invoke(app, ["evidence", str(workspace.path), "--precision", "98"]).exit_code == 2


@pytest.mark.parametrize("n", [0, 6, 40, 400])
@pytest.mark.parametrize("asked", [0.98, 0.5])
def test_the_plot_shows_estimate_and_bounds_within_its_frame_and_says_what_is_missing(workspace, tmp_path, n, asked):
    if n:
        review.export(workspace, out=tmp_path / "one.xlsx", n=n)
        say(workspace, "one", judge(workspace))
    [axes] = plots.evidence(workspace, precision=asked).axes
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    known = curve(ProofState.load(workspace).sample(), precision=asked).filter(
        pl.col("precision").is_not_null() & pl.col("threshold").is_between(left, right)
    )
    values = known.select("precision", "low", "high", "low_all", "high_all").to_numpy()
    assert (len(known) > 0) == (n > 0)
    assert ((values > bottom) & (values < top)).all()
    assert bottom < asked < top
    _, _, words = axes.get_xlabel().partition("\n\n")
    proven = evidence(workspace, precision=asked).facts["lowest_proven"] is not None
    assert bool(words) != proven
    if not n:
        assert "No segment has been reviewed yet: the quality of the labels is unknown." in words
    elif n == 6 and not proven:
        assert "6 segments have been reviewed: no threshold is proven to keep" in words
        assert f"needs at least {min_sample_size(precision=asked, confidence=0.95)} reviewed segments" in words


def test_the_plot_marks_what_is_proven(workspace, tmp_path):
    assert plots.evidence(workspace).axes[0].get_title(loc="left") == "Precision above each threshold, 0 segments reviewed"
    review.export(workspace, out=tmp_path / "one.xlsx", n=500)
    say(workspace, "one", judge(workspace))
    lowest = evidence(workspace, precision=0.95).facts["lowest_proven"]
    labels = plots.evidence(workspace, precision=0.95).axes[0].get_legend_handles_labels()[1]
    assert [label for label in labels if label.startswith(f"lowest proven: {lowest:g}, ")]
