import dataclasses
import itertools
import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nbaudio import evidence, review, select
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.proof.betting import Draws, Frame, Values, bet, fewest, most
from nbaudio.proof.claims import curve, min_sample_size
from nbaudio.proof.evidence import selection_claim
from nbaudio.proof.proof_state import THRESHOLDS, ProofState
from nbaudio.review.rounds import consensus
from nbaudio.review.state import ReviewState, Verdict, append_verdicts
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, conform
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import plots
from nbaudio.ui.widgets import ReviewPanel

WORDS = st.sampled_from(["ok", "noise", "unsure", None])
GRID = (np.arange(-100, 101) / 100).tolist()


def frame_of(strata, weights=(1.0,), valid=None):
    strata = np.asarray(strata)
    return Frame(
        strata,
        strata >= 0 if valid is None else np.asarray(valid),
        np.bincount(strata[strata >= 0], minlength=len(weights)).astype(float),
        np.asarray(weights, dtype=float),
    )


def draws_of(frames, rounds, items, wrong, *, unsure=(), replaced=(), outside=(), outside_wrong=()):
    """Draws of items, of which those in `wrong`, `unsure` and `replaced` are."""
    items, outside = np.asarray(items, dtype=np.int64), np.asarray(outside, dtype=np.int64)
    return Draws(
        replaced=np.isin(items, list(replaced)),
        first=pl.Series(items).is_first_distinct().to_numpy(),
        frames=tuple(frames),
        round=np.asarray(rounds, dtype=np.int64),
        item=items,
        wrong=np.isin(items, list(wrong)),
        unsure=np.isin(items, list(unsure)),
        outside=outside,
        outside_wrong=np.isin(outside, list(outside_wrong)),
        outside_unsure=np.zeros(len(outside), dtype=bool),
    )


def random_draws(rng, strata, weights, count):
    """Items drawn row by row as `review.sampling` does."""
    left = [
        rng.permutation(np.flatnonzero(strata == number)).tolist() for number in range(len(weights))
    ]
    items, count = [], min(count, len(strata))
    # A stratum that is exhausted is passed over, which leaves the others their proportions
    while len(items) < count:
        numbers = rng.choice(
            len(weights), size=count, p=np.array(weights) / np.sum(weights)
        ).tolist()
        items += [left[number].pop() for number in numbers if left[number]]
    return items[:count]


# --- bets: the capital of a true null is not expected to grow


@pytest.mark.parametrize(
    "case",
    [
        ([0] * 6, [1.0], {0, 1}, [1.0] * 6),
        ([0, 0, 0, 1, 1, 1], [0.2, 0.8], {0}, [1.0] * 6),
        ([0, 0, 1, 1, 2, 2], [0.5, 0.3, 0.2], {1, 4}, [1.0, 3.0, 0.5, 2.0, 1.0, 0.0]),
        ([0, 0, 0, 1, 1, -1], [0.6, 0.4], {2, 5}, [1.0] * 6),
    ],
)
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("less", [pytest.param(0.0, marks=pytest.mark.slow), 0.7])
def test_expected_capital_under_a_true_null_is_at_most_one(case, upper, less):
    strata, weights, wrong, value = case
    strata, value = np.array(strata), np.array(value)
    frame = frame_of(strata, weights)
    null = sum(value[item] for item in wrong) * ((1 - less / 3) if upper else (1 + less))
    if not upper:
        wrong = wrong & set(np.flatnonzero(strata >= 0).tolist())
    expected = 0.0
    drawable = np.flatnonzero(strata >= 0)
    number = 4 if less else 5
    for order in itertools.permutations(drawable.tolist(), number):
        draws = draws_of([frame], [0] * number, order, wrong)
        expected += math.exp(bet(draws, value, np.array([null]), upper=upper).capital[0]) / np.prod(
            draws.inverse
        )
    assert expected <= 1 + 1e-9
    # Bets are made: a null that is far off loses.
    far = bet(
        draws_of([frame], [0] * len(drawable), drawable, set()),
        value,
        np.array([value.sum() * 0.9]),
    )
    assert far.peak[0] > 0


@pytest.mark.parametrize("known", [4, 3, 2])
def test_expected_capital_is_at_most_one_if_items_are_wrong_in_part(known):
    """Somebody corrects only the first faults: shares of others may be any."""
    strata, weights = np.array([0, 0, 0, 1, 1, 1]), [0.4, 0.6]
    value, share = np.array([1.0, 3.0, 0.5, 2.0, 1.0, 1.0]), np.array([1.0, 0.3, 0, 0.5, 0, 0])
    frame = frame_of(strata, weights)
    number = 4
    amounts = np.sort(value * share)
    # What may be unknown is no part of the null.
    null = np.array([amounts.sum() - amounts[len(amounts) - (number - known) :].sum()])
    expected = 0.0
    for order in itertools.permutations(range(6), number):
        loss = np.where(np.arange(number) < known, share[list(order)], np.nan)
        draws = draws_of([frame], [0] * number, order, set(np.flatnonzero(share).tolist()))
        draws = dataclasses.replace(draws, loss=loss)
        expected += math.exp(bet(draws, value, null).capital[0]) / np.prod(draws.inverse)
        assert draws.wrong_value(Values.of(value), upper=True) == pytest.approx(
            (value[list(order)] * share[list(order)])[:known].sum()
        )
    assert expected <= 1 + 1e-9


TURNS = [(0, 0, 1, 1), (1, 1, 0, 0), (1, 0, 1, 0)]


@pytest.mark.parametrize(
    "turns", [(0, 1, 0, 1), *(pytest.param(turns, marks=pytest.mark.slow) for turns in TURNS)]
)
def test_expected_capital_is_at_most_one_with_two_interleaved_stratified_sheets(
    turns,
):
    """Each sheet is a random order of its own; what one has reached, the other passes over."""
    strata, weights, wrong = np.array([0, 0, 1, 1]), [0.7, 0.3], {0, 3}
    frames, value = (
        [frame_of(np.zeros(4, dtype=np.int64)), frame_of(strata, weights)],
        np.array([1.0, 2.0, 1.0, 0.5]),
    )
    orders = list(itertools.permutations(range(4)))
    chances = [np.prod(1 / draws_of([frames[1]], [0] * 4, order, ()).inverse) for order in orders]
    assert sum(chances) == pytest.approx(1)
    expected = 0.0
    for one in orders:
        for two, chance in zip(orders, chances, strict=True):
            places, items = [0, 0], []
            for turn in turns:
                items.append((one, two)[turn][places[turn]])
                places[turn] += 1
            draws = draws_of(frames, turns, items, wrong)
            expected += (
                chance / len(orders) * math.exp(bet(draws, value, np.array([1.5])).capital[0])
            )
    assert expected <= 1 + 1e-9


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("uniform", marks=SLOW),
        "worst stratum is the rarest",
        pytest.param("hours", marks=SLOW),
    ],
)
def test_false_proofs_are_rare_if_evidence_is_read_after_every_verdict(name):
    """The least favourable case: one wrong segment more than is allowed."""
    rng, false, corpora, count = np.random.default_rng(5), 0, 150, 2000
    strata = (
        np.zeros(count, dtype=np.int64)
        if name != "worst stratum is the rarest"
        else (np.arange(count) < 300).astype(np.int64)
    )
    weights = [1.0] if strata.max() == 0 else [0.95, 0.05]
    value = rng.exponential(5, count) if name == "hours" else np.ones(count)
    for _ in range(corpora):
        allowed, items = 0.05 * value.sum(), rng.permutation(count if strata.max() == 0 else 300)
        wrong = set(
            items[: np.searchsorted(np.cumsum(value[items]), allowed, "right") + 1].tolist()
        )
        draws = draws_of(
            [frame_of(strata, weights)], [0] * 600, random_draws(rng, strata, weights, 600), wrong
        )
        null = allowed * (1 + 1e-9) if name == "hours" else np.floor(allowed) + 1
        false += bet(draws, value, np.array([null])).peak[0] >= math.log(10)
    # 10 % are allowed; three standard deviations more would be 0.17.
    assert false / corpora <= 0.17


def test_unjudged_items_given_as_sums_or_arrays_have_the_same_bounds():
    rng = np.random.default_rng(4)
    strata, value = rng.integers(-1, 3, 100), rng.integers(0, 9, 100) / 4
    weights = [0.2, 0.5, 0.3]
    items = random_draws(rng, strata, weights, 60)
    known = np.setdiff1d(np.flatnonzero(strata < 0), items)[:4]
    frame = frame_of(strata, weights)
    draws = draws_of([frame], [0] * 60, items, items[:9], replaced=items[9:12], outside=known)
    alone = [*items, *known.tolist()]
    others = np.setdiff1d(np.arange(100), alone)
    groups = [others[strata[others] == number] for number in (-1, 0, 1, 2)]
    rows = [*([item] for item in alone), *(group for group in groups if len(group))]
    summed = Values(
        np.array([value[row].sum() for row in rows]),
        np.array([(value[row] > 0).sum() for row in rows]),
        np.array([value[row].max() for row in rows]),
    )
    of_rows = strata[[row[0] for row in rows]]
    in_rows = draws_of(
        [Frame(of_rows, of_rows >= 0, frame.sizes, frame.weights)],
        [0] * 60,
        range(60),
        range(9),
        replaced=range(9, 12),
        outside=range(60, len(alone)),
    )
    for bound in (most, fewest):
        assert bound(in_rows, summed, 0.05) == pytest.approx(bound(draws, value, 0.05))
    assert 0 < fewest(draws, value, 0.05) < most(draws, value, 0.05) < value.sum()
    assert in_rows.faulty_share(summed) == pytest.approx(draws.faulty_share(value))


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(data=st.data(), count=st.integers(1, 60))
def test_bounds_enclose_the_seen_faults_and_right_verdicts_never_widen_them(data, count):
    wrong = data.draw(st.sets(st.integers(0, count - 1), max_size=6))
    order = data.draw(st.permutations(range(count)))
    strata = np.array(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    value, before = np.ones(count), math.inf
    for seen in range(0, count + 1, max(1, count // 4)):
        draws = draws_of([frame_of(strata, [0.5, 0.3, 0.2])], [0] * seen, order[:seen], wrong)
        high, low = most(draws, value, 0.05), fewest(draws, value, 0.05)
        found = len(wrong & set(order[:seen]))
        assert found <= high <= min(before * 1.2 + 1, count)
        assert -1e-9 <= low <= high
        before = high
    if count % max(1, count // 4) == 0:
        assert math.ceil(high - 1e-6) - 1 <= len(wrong) or high == count == len(wrong)


def test_right_verdicts_never_take_a_proof_away():
    rng, count = np.random.default_rng(2), 5000
    order = rng.permutation(count)
    frame, value = frame_of(np.zeros(count, dtype=np.int64)), np.ones(count)
    peaks = []
    for seen in range(100, 500, 40):
        draws = draws_of([frame], [0] * seen, order[:seen], set(order[:2]))
        peaks.append(bet(draws, value, np.array([101.0])).peak[0])
    assert peaks == sorted(peaks)
    assert peaks[-1] > math.log(20)


def test_segments_outside_the_frame_count_as_wrong_until_they_are_judged():
    count, seen = 400, 300
    strata = np.where(np.arange(count) < 380, 0, -1)
    order = np.arange(seen)
    outside = most(draws_of([frame_of(strata)], [0] * seen, order, set()), np.ones(count), 0.05)
    assert 20 < outside < 40
    judged = draws_of([frame_of(strata)], [0] * seen, order, set(), outside=range(380, 400))
    assert most(judged, np.ones(count), 0.05) <= outside - 19


def test_unsure_is_wrong_in_upper_bounds_and_right_in_lower_ones():
    order = np.random.default_rng(1).permutation(1000)[:300]
    frame, value = frame_of(np.zeros(1000, dtype=np.int64)), np.ones(1000)
    unsure = draws_of([frame], [0] * 300, order, set(), unsure=order[:60])
    wrong = draws_of([frame], [0] * 300, order, order[:60])
    right = draws_of([frame], [0] * 300, order, set())
    assert most(unsure, value, 0.05) == most(wrong, value, 0.05)
    assert fewest(unsure, value, 0.05) == fewest(right, value, 0.05) == 0
    assert fewest(wrong, value, 0.05) > 60
    assert unsure.faulty_share(value)[0] == pytest.approx(0.2)


def test_a_drawn_item_that_changed_counts_as_a_fault():
    order = np.random.default_rng(1).permutation(1000)[:300]
    value, changed = np.ones(1000), set(order[:15].tolist())
    frame = frame_of(np.zeros(1000, dtype=np.int64))
    wrong = draws_of([frame], [0] * 300, order, changed)
    now = frame_of(np.zeros(1000, dtype=np.int64), valid=~np.isin(np.arange(1000), list(changed)))
    mended = draws_of([now], [0] * 300, order, set(), replaced=changed)
    assert most(mended, value, 0.05) == pytest.approx(most(wrong, value, 0.05), rel=1e-6)
    assert mended.faulty_share(value) == wrong.faulty_share(value)
    assert wrong.faulty_share(value)[0] == pytest.approx(0.05)
    assert fewest(mended, value, 0.05) == 0


def test_weighted_draws_estimate_the_share_of_faults():
    rng, count = np.random.default_rng(3), 4000
    strata = (np.arange(count) < 400).astype(np.int64)
    wrong = set(range(0, 400, 2))
    shares = []
    for _ in range(60):
        items = random_draws(rng, strata, [0.5, 0.5], 200)
        shares.append(
            draws_of([frame_of(strata, [0.5, 0.5])], [0] * 200, items, wrong).faulty_share(
                np.ones(count)
            )
        )
    estimates, errors = np.transpose(shares)
    assert estimates.mean() == pytest.approx(0.05, abs=4 * estimates.std() / 60**0.5)
    assert 0.5 < errors.mean() / estimates.std() < 2


def test_without_a_fault_a_precision_takes_the_rule_of_three():
    assert min_sample_size(precision=0.98, confidence=0.95) == 149


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 1},
        {"precision": 0},
        {"precision": "0.98"},
        {"precision": None},
        {"confidence": 1.0},
        {"confidence": True},
    ],
)
def test_a_precision_or_confidence_outside_0_to_1_is_refused(options, workspace):
    name = next(iter(options))
    with pytest.raises(InputError, match=f"{name} must be between 0 and 1, not"):
        evidence(workspace, **options)


# --- a workspace


@pytest.fixture
def workspace(tmp_path):
    """2,000 segments without audio, wrong where their number is a multiple of three and the
    similarity is below 0.6."""
    rng = np.random.default_rng(1)
    scores = np.where(rng.random(2000) < 0.1, rng.uniform(0, 0.6, 2000), rng.uniform(0.6, 1, 2000))
    made = Workspace.create(tmp_path / "w", audio=None)
    ids = [f"s{number}" for number in range(2000)]
    segments = {
        "segment_id": ids,
        "recording_id": "r",
        "source_start": [str(20 * n) for n in range(2000)],
    }
    segments |= {
        "source_end": [str(20 * n + 10) for n in range(2000)],
        "text": [f"riječ {n}" for n in range(2000)],
    }
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
        [
            Verdict(key, content, word, "", None, reviewer, "2026-11-21T03:00:00Z", name)
            for key, content, word in words
            if word
        ],
    )


def judge(workspace):
    score = dict(workspace.segments.select("segment_id", "similarity").iter_rows())
    return lambda key: "wrong words" if score[key] < 0.6 and int(key[1:]) % 3 == 0 else "ok"


def test_before_any_verdict_the_report_claims_nothing_and_says_what_to_review(workspace):
    report = evidence(workspace)
    assert report.facts["lowest_proven"] is None
    claim = report.facts["selection"]
    assert (claim["precision"], claim["low"], claim["high"], claim["proven"]) == (
        None,
        0.0,
        1.0,
        False,
    )
    assert "none was reviewed: how many are right is not known" in report.facts["how_right"]
    assert report.warnings == ["nothing has been judged yet: the quality of the labels is unknown"]
    assert "review export" in report.facts["review_next"]
    assert "--strategy stratified --n 300 --threshold 0.8" in report.facts["review_next"]


@pytest.mark.slow
def test_rounds_of_several_kinds_prove_a_threshold_that_holds(workspace, tmp_path):
    verdict_of = judge(workspace)
    plan = [("random", 100), ("near", 60), ("suspicious", 40), ("stratified", 200)]
    for strategy, n in plan:
        review.export(
            workspace, out=tmp_path / f"{strategy}.csv", strategy=strategy, n=n, threshold=0.6
        )
        say(workspace, strategy, verdict_of)
    state = ProofState.load(workspace)
    assert [(one.name, state.records[one.name].after) for one in state.rounds] == [
        (name, [before for before, _ in plan[:place]]) for place, (name, _) in enumerate(plan)
    ]
    report = evidence(workspace, precision=0.95)
    found = curve(ProofState.load(workspace), GRID, precision=0.95)
    truth = [
        np.mean(
            [
                verdict_of(key) == "ok"
                for key in workspace.segments.filter(pl.col("similarity") >= t)["segment_id"]
            ]
        )
        for t in found.filter(pl.col("segments") > 0)["threshold"]
    ]
    kept = found.filter(pl.col("segments") > 0).with_columns(truth=pl.Series(truth))
    assert kept.filter(
        (pl.col("low") > pl.col("truth") + 1e-9) | (pl.col("high") < pl.col("truth") - 1e-9)
    ).is_empty()
    lowest = report.facts["lowest_proven"]
    assert lowest is not None
    assert lowest <= 0.6
    assert kept.filter(pl.col("threshold") >= lowest)["truth"].min() >= 0.95
    assert kept.filter("proven")["truth"].min() >= 0.95
    assert report.facts["reviewed"]["right"] + report.facts["reviewed"]["wrong"] == 400
    saved = json.loads((workspace.path / "reports" / "evidence.json").read_text())
    assert saved["facts"]["curve"] == report.facts["curve"]
    given = {
        key for record in ReviewState.load(workspace).records.values() for key in record.segment_ids
    }
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
def test_the_label_is_the_majority_verdict_or_that_of_the_adjudicator(said, label, adjudicated):
    words = [one.split(" ", 1) for one in said.split(", ")]
    votes = pl.DataFrame(
        {
            "segment_id": "a",
            "reviewer": [who for who, _ in words],
            "verdict": [word for _, word in words],
        }
    )
    merged = consensus(votes, [])["verdict"]
    assert merged.dtype == pl.Enum(["right", "wrong", "unsure"])
    assert merged.to_list() == [label]
    assert consensus(votes, ["ben", "fay"])["verdict"].to_list() == [adjudicated]


@pytest.mark.slow
def test_what_to_review_next_is_what_export_draws(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=50)
    say(workspace, "one", judge(workspace))
    words = evidence(workspace).facts["review_next"].split()
    asked = {
        "n": int(words[words.index("--n") + 1]),
        "threshold": float(words[words.index("--threshold") + 1]),
    }
    expected = workspace.report("evidence")["next"]
    review.export(workspace, out=tmp_path / "two.csv", strategy="stratified", **asked)
    assert ReviewState.load(workspace).records["two"].segment_ids == expected


def test_export_again_after_verdicts_gives_the_same_sample(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=50, strategy="stratified")
    before = (workspace.path / "reviews" / "one.json").read_bytes()
    say(workspace, "one", judge(workspace))
    review.export(workspace, out=tmp_path / "two.csv", n=50, strategy="stratified")
    review.export(workspace, out=tmp_path / "one.csv", n=50, strategy="stratified")
    assert (workspace.path / "reviews" / "one.json").read_bytes() == before


def verdicts_of(workspace):
    [one] = ProofState.load(workspace).rounds
    return one.rows["verdict"].to_list()


def test_rows_after_the_last_judged_one_have_not_been_reached_and_rows_before_it_are_unsure(
    workspace, tmp_path
):
    review.export(workspace, out=tmp_path / "one.csv", n=20)
    skipped = ReviewState.load(workspace).records["one"].segment_ids[3]
    say(workspace, "one", lambda key: None if key == skipped else "ok", rows=10)
    assert verdicts_of(workspace) == ["right"] * 3 + ["unsure"] + ["right"] * 6 + [None] * 10
    [warning] = evidence(workspace).warnings
    assert warning.startswith(
        "one: 1 row was skipped before the last judged one; "
        "skipped rows count as unsure until they are judged."
    )
    assert "100 % of the rows before them, 90 % of all rows" in warning


def test_skipped_rows_give_a_warning_also_if_another_row_was_removed(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=20)
    drawn = ReviewState.load(workspace).records["one"].segment_ids
    say(workspace, "one", lambda key: None if key in (drawn[1], drawn[3]) else "ok", rows=10)
    workspace.save(segments=workspace.segments.filter(pl.col("segment_id") != drawn[1]))
    [warning] = [line for line in evidence(workspace).warnings if "skipped" in line]
    assert warning.startswith("one: 1 row was skipped before the last judged one;")
    assert "100 % of the rows before them, 88.9 % of all rows" in warning


def test_each_reviewer_has_a_separate_place_in_their_rows(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=20, reviewers=["ana", "ben"], overlap=4)
    own = ReviewState.load(workspace).records["one"].shares()["ben"]
    say(workspace, "one", lambda key: "ok" if key in own[:5] else None, reviewer="ben")
    [one] = ProofState.load(workspace).rounds
    assert set(one.rows.filter(pl.col("verdict") == "right")["segment_id"]) == set(own[:5])
    # The first row of a sheet that stays out counts as unsure.
    assert one.rows["ended"].sum() == 1
    assert one.rows["verdict"].null_count() == 14


def test_progress_is_known_by_sheet_under_any_reviewer_name(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=20, reviewers=["ana", "ben"], overlap=4)
    shares = ReviewState.load(workspace).records["one"].shares()
    say(workspace, "one", lambda key: "ok" if key in shares["ana"] else None, reviewer="Ana K.")
    [one] = ProofState.load(workspace).rounds
    assert one.rows["verdict"].value_counts().sort("verdict").rows() == [
        (None, 7),
        ("right", 12),
        ("unsure", 1),
    ]
    assert not one.rows["skipped"].any()
    say(workspace, "one", lambda key: "ok" if key in shares["ben"][:6] else None, reviewer="Ana K.")
    judged = ProofState.load(workspace).rounds[0].rows["verdict"].to_list()
    assert judged.count("right") == len({*shares["ana"], *shares["ben"][:6]})


def test_a_review_named_panel_is_not_mixed_with_verdicts_outside_reviews(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "panel.csv", n=20)
    drawn = ReviewState.load(workspace).records["panel"].segment_ids
    [other] = workspace.segments.filter(~pl.col("segment_id").is_in(drawn))["segment_id"].head(1)
    ReviewPanel(workspace, [drawn[1], other], reviewer="ana")._give(
        number=1, verdict="ok", comment="", corrected_text=None
    )
    assert verdicts_of(workspace) == [None] * 20
    ReviewPanel(workspace, [drawn[1], other], reviewer="ana")._give(
        number=0, verdict="ok", comment="", corrected_text=None
    )
    assert verdicts_of(workspace) == ["unsure", "right", *[None] * 18]


def test_verdicts_from_elsewhere_do_not_advance_a_round(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=20)
    record = ReviewState.load(workspace).records["one"]
    say(workspace, "one", lambda _: "ok", rows=5)
    elsewhere = [(record.segment_ids[place], record.contents[place]) for place in (2, 19)]
    append_verdicts(
        workspace,
        [
            Verdict(key, content, "noise", "", None, "ben", "2026-11-21T03:00:00Z", "panel")
            for key, content in elsewhere
        ],
    )
    assert verdicts_of(workspace) == ["right", "right", "unsure", "right", "right", *[None] * 15]
    assert any(
        line.startswith("1 judged segment was not drawn by a round, or is beyond")
        for line in evidence(workspace).warnings
    )


def test_a_segment_whose_words_changed_is_unsure_until_judged_again(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=5)
    say(workspace, "one", lambda _: "ok")
    as_it_was = workspace.segments
    workspace.save(segments=as_it_was.with_columns(text=pl.col("text").str.to_uppercase() + "!"))
    assert verdicts_of(workspace) == ["right"] * 5
    workspace.save(segments=as_it_was.with_columns(text=pl.lit("sasvim ") + pl.col("text")))
    assert verdicts_of(workspace) == ["unsure"] * 5
    assert any(
        line.startswith("one: 5 judged rows have other words")
        for line in evidence(workspace).warnings
    )
    panel = ReviewPanel(workspace, reviewer="ana", review="one")
    assert panel.progress["done"] == 0
    for number, word in enumerate(["ok", "noise", "ok"]):
        panel._give(number=number, verdict=word, comment="", corrected_text=None)
    assert verdicts_of(workspace) == ["right", "wrong", "right", "unsure", "unsure"]
    workspace.save(segments=as_it_was)
    assert verdicts_of(workspace) == ["right"] * 5


@pytest.mark.slow
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
    review.export(workspace, out=tmp_path / "one.csv", n=1)
    for reviewer, word in zip(("ana", "ben"), words, strict=True):
        say(workspace, "one", lambda _, word=word: word, reviewer=reviewer)
    assert verdicts_of(workspace) == [verdict]


def test_verdicts_on_what_was_not_drawn_or_has_changed_are_not_counted(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=5)
    drawn = ReviewState.load(workspace).records["one"].segment_ids
    other = next(key for key in workspace.segments["segment_id"] if key not in drawn)
    append_verdicts(
        workspace,
        [
            Verdict(key, "0", "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel")
            for key in (drawn[0], other)
        ],
    )
    report = evidence(workspace)
    assert report.facts["reviewed"] == {"right": 0, "wrong": 0, "unsure": 0}
    assert any(
        line.startswith("2 judged segments were not drawn by a round, or")
        for line in report.warnings
    )


def grown(workspace, count, first=0):
    """Add segments that nobody has drawn."""
    numbers = range(first, first + count)
    more = {
        "segment_id": [f"new{n}" for n in numbers],
        "recording_id": "r",
        "text": "novo",
        "similarity": 0.9,
    }
    more |= {
        "source_start": [str(90000 + 20 * n) for n in numbers],
        "source_end": [str(90010 + 20 * n) for n in numbers],
    }
    workspace.save(
        segments=pl.concat([workspace.segments, conform(pl.DataFrame(more), SEGMENTS, "segments")])
    )


@pytest.mark.slow
def test_blind_and_open_reviews_are_compared(workspace, tmp_path):
    bad = set(workspace.segments["segment_id"].to_list()[::4])
    review.export(workspace, out=tmp_path / "one.csv", n=200)
    say(workspace, "one", lambda key: "noise" if key in bad else "ok")
    report = evidence(workspace)
    assert report.facts["reviewers"].startswith(
        "taken to be always right, as no segment was judged by two of them"
    )
    assert not [line for line in report.warnings if "blind" in line]
    review.export(workspace, out=tmp_path / "two.csv", n=200, blind=False)
    say(workspace, "two", lambda _: "ok")
    say(workspace, "two", lambda _: "ok", reviewer="ben", rows=3)
    report = evidence(workspace)
    assert (
        report.facts["reviewers"]
        == "3 segments were judged by two or more; nbaudio.review.agreement(W) compares them"
    )
    [line] = [line for line in report.warnings if "blind" in line]
    assert line.startswith("right are 8")
    assert "and 100 % by reviews that showed the hypothesis: a difference of +1" in line


@pytest.mark.slow
def test_correcting_or_removing_reviewed_faults_proves_nothing(workspace, tmp_path):
    """Every tenth segment is wrong; what reviewers find wrong is mended, or leaves the source."""
    bad = set(workspace.segments["segment_id"].to_list()[::10])
    review.export(workspace, out=tmp_path / "one.csv", n=600)
    say(workspace, "one", lambda key: "noise" if key in bad else "ok")
    select(workspace, min_similarity=0, dev=300, test=300, group_by=())
    before = selection_claim(workspace)["selection"]
    found = bad & set(ReviewState.load(workspace).records["one"].segment_ids)
    mended, removed = sorted(found)[::2], sorted(found)[1::2]
    text = pl.when(pl.col("segment_id").is_in(mended)).then(pl.lit("drugo")).otherwise("text")
    workspace.save(
        segments=workspace.segments.with_columns(text=text).filter(
            ~pl.col("segment_id").is_in(removed)
        )
    )
    after = selection_claim(workspace)["selection"]
    ships = workspace.segments.filter(decision="accept")["segment_id"]
    truth = 1 - ships.is_in(list(bad - set(mended))).mean()
    assert before["low"] <= truth <= before["high"]
    assert after["low"] <= truth
    assert after["low"] == pytest.approx(before["low"], abs=0.03)


@pytest.mark.slow
def test_verdicts_count_after_segments_are_added_or_removed(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=500)
    say(workspace, "one", lambda _: "ok")
    before = selection_claim(workspace)["selection"]
    assert before["proven"]
    grown(workspace, 1)
    after = evidence(workspace)
    assert after.facts["selection"]["proven"]
    assert after.facts["selection"]["reviewed"] == before["reviewed"]
    assert 0 < before["low"] - after.facts["selection"]["low"] < 0.002
    assert any(line.startswith("1 of ") and "could not be drawn" in line for line in after.warnings)
    drawn = ReviewState.load(workspace).records["one"].segment_ids
    gone = next(key for key in workspace.segments["segment_id"] if key not in drawn)
    workspace.save(
        segments=workspace.segments.filter(~pl.col("segment_id").is_in([gone, drawn[0]]))
    )
    fewer = selection_claim(workspace)["selection"]
    assert fewer["proven"]
    assert fewer["reviewed"] in (before["reviewed"], before["reviewed"] - 1)


@pytest.mark.slow
def test_added_segments_count_as_wrong_in_lower_bounds_until_sampled(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=500)
    say(workspace, "one", lambda _: "ok")
    before = len(workspace.segments)
    grown(workspace, before // 9)
    claim = selection_claim(workspace)["selection"]
    assert claim["low"] < 0.9
    assert claim["precision"] == 1.0
    assert not claim["proven"]
    review.export(workspace, out=tmp_path / "two.csv", n=500)
    say(workspace, "two", lambda _: "ok")
    assert selection_claim(workspace)["selection"]["proven"]


def test_bounds_are_valid_if_all_rows_above_the_threshold_are_judged(workspace, tmp_path):
    few = workspace.segments.head(60).with_columns(similarity=pl.int_range(60) / 60)
    workspace.save(segments=few)
    review.export(workspace, out=tmp_path / "one.csv", n=1)
    workspace.save(
        segments=few.filter(~pl.col("segment_id").is_in(few["segment_id"][[0, 51]].implode()))
    )
    review.export(workspace, out=tmp_path / "two.csv", n=13, strategy="stratified")
    say(workspace, "two", lambda _: "ok")
    for claim in evidence(workspace).facts["curve"]:
        assert 0 <= claim["low"] <= claim["high"] <= 1


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_estimates_and_bounds_lie_between_0_and_1_after_any_edits(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("history")
    made = Workspace.create(folder / "w", audio=None)
    rows = {
        "segment_id": [f"s{n}" for n in range(60)],
        "recording_id": "r",
        "text": "da",
        "similarity": [n / 60 for n in range(60)],
    }
    rows |= {
        "source_start": [str(9 * n) for n in range(60)],
        "source_end": [str(9 * n + 5) for n in range(60)],
    }
    made.save(
        recordings=conform(pl.DataFrame({"recording_id": ["r"]}), RECORDINGS, "recordings"),
        segments=conform(pl.DataFrame(rows), SEGMENTS, "segments"),
    )
    steps = data.draw(
        st.lists(
            st.sampled_from(["draw", "judge", "add", "remove", "change", "select"]),
            min_size=2,
            max_size=7,
        )
    )
    for number, step in enumerate(steps):
        segments = made.segments
        some = data.draw(st.integers(0, len(segments) - 2))
        records = list(ReviewState.load(made).records)
        if step == "draw" and len(made.reviewed_ids()) < len(segments) - 5:
            how = data.draw(st.sampled_from(["random", "stratified"]))
            review.export(
                made, out=folder / f"{number}.csv", n=data.draw(st.integers(1, 20)), strategy=how
            )
        elif step == "judge" and records:
            say(made, records[-1], lambda _: data.draw(WORDS))
        elif step == "add":
            grown(made, data.draw(st.integers(1, 20)), 100 * number)
        elif step == "remove":
            made.save(segments=segments.filter(pl.int_range(pl.len()) != some))
        elif step == "change":
            made.save(
                segments=segments.with_columns(
                    text=pl.when(pl.int_range(pl.len()) == some)
                    .then(pl.lit("ne"))
                    .otherwise("text")
                )
            )
        elif step == "select":
            select(made, min_similarity=data.draw(st.sampled_from([0.0, 0.5])), dev=0, test=0)
        facts = evidence(made).facts
        claims = [
            facts["selection"],
            *facts["curve"],
            *([facts["train"]] if "train" in facts else []),
        ]
        claims += [claim[by] for claim in claims for by in ("by_hours", "by_words") if by in claim]
        for claim in claims:
            low, high, precision = (claim[name] for name in ("low", "high", "precision"))
            assert (low is None) == (high is None)
            assert low is None or 0 <= low <= high <= 1
            assert precision is None or low <= precision <= high


def test_the_curve_is_about_the_durations_that_select_takes(workspace):
    assert evidence(workspace).facts["curve"][0]["segments"] == 2000
    select(workspace, max_duration=10, dev=0, test=0)
    assert evidence(workspace).facts["curve"][0]["segments"] == 2000
    select(workspace, max_duration=30, min_duration=9.5, dev=0, test=0)
    first = workspace.segments["segment_id"][0]
    changed = pl.when(pl.col("segment_id") == first).then(pl.lit("9")).otherwise("source_end")
    workspace.save(segments=workspace.segments.with_columns(source_end=changed))
    assert evidence(workspace).facts["curve"][0]["segments"] == 1999


@pytest.mark.slow
def test_a_claim_is_about_the_selected_segments_and_current_verdicts(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=300)
    say(workspace, "one", lambda _: "ok")
    evidence(workspace, precision=0.95)
    kept = select(workspace, min_similarity=0.805, dev=40, test=40, group_by=()).facts["kept"]
    first = selection_claim(workspace)
    claim = first["selection"]
    assert (claim["segments"], claim["precision"], claim["target"]) == (kept, 1.0, 0.95)
    assert set(first) == {"selection", "train", "dev", "test", "curve"}
    assert sum(first[name]["segments"] for name in ("train", "dev", "test")) == kept
    assert claim["statement"] == (
        f"Of the {kept:,} clips that ship, at least "
        f"{math.floor(1000 * claim['low']) / 10:g} % are right (95 % confidence)."
    )
    assert {row["threshold"] for row in first["curve"]} <= {*THRESHOLDS, 0.805}
    say(workspace, "one", lambda _: "noise")
    again = selection_claim(workspace)["selection"]
    assert (again["precision"], again["proven"]) == (0.0, False)
    without = workspace.segments.filter(decision="accept")["segment_id"].head(10).to_list()
    assert selection_claim(workspace, without=without)["selection"]["segments"] == kept - 10


@pytest.mark.slow
def test_reviews_of_all_segments_prove_nothing_of_a_biased_selection(tmp_path):
    """Eight large clean speakers, 150 small ones with 30 % wrong; 1,000 random reviews; four hours,
    spread over speakers."""
    rng = np.random.default_rng(0)
    names = [f"B{n}" for n in range(8) for _ in range(1500)] + [
        f"S{n}" for n in range(150) for _ in range(20)
    ]
    rows = pl.DataFrame(
        {
            "segment_id": [f"x{n}" for n in range(len(names))],
            "speaker_id": names,
            "similarity": 0.9,
            "text": "da",
        }
    )
    rows = rows.with_columns(
        recording_id="speaker_id", place=pl.int_range(pl.len()).over("speaker_id") * 6
    )
    rows = rows.with_columns(
        source_start=pl.col("place").cast(pl.String),
        source_end=(pl.col("place") + 5).cast(pl.String),
    )
    wrong = {
        key
        for key, who in rows.select("segment_id", "speaker_id").iter_rows()
        if who[0] == "S" and rng.random() < 0.3
    }
    made = Workspace.create(tmp_path / "w", audio=None)
    recordings = pl.DataFrame({"recording_id": rows["recording_id"].unique().sort()})
    made.save(
        recordings=conform(recordings, RECORDINGS, "recordings"),
        segments=conform(rows.drop("place"), SEGMENTS, "segments"),
    )
    review.export(made, out=tmp_path / "one.csv", n=1000)
    say(made, "one", lambda key: "noise" if key in wrong else "ok")
    select(made, hours=4, dev=0, test=0)
    facts = evidence(made).facts
    claim = facts["selection"]
    ships = made.segments.filter(decision="accept")["segment_id"]
    truth = 1 - ships.is_in(list(wrong)).mean()
    assert truth < 0.8
    assert claim["low"] <= truth <= claim["high"]
    assert claim["low"] > 0.3
    assert not claim["proven"]
    # The curve is about all segments, and says so.
    assert facts["curve"][0]["precision"] > 0.9


@pytest.mark.slow
def test_evidence_gives_the_date_of_a_proof_or_the_missing_reviews(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=700)
    say(workspace, "one", lambda _: "ok", rows=100)
    progress = selection_claim(workspace)["selection"]["progress"]
    assert 20 < progress["least"] <= progress["expected"] < 1000
    say(workspace, "one", lambda _: "ok")
    claim = selection_claim(workspace)["selection"]
    assert claim["proven"]
    assert 300 < claim["progress"]["verdicts"] < 700
    assert claim["progress"]["since"] == "2026-11-21T03:00:00Z"


def test_a_threshold_keeps_segments_at_and_above_its_similarity(tmp_path):
    made = Workspace.create(tmp_path / "w", audio=None)
    number = pl.int_range(11, eager=True)
    segments = pl.select(
        segment_id=pl.format("s{}", number),
        recording_id=pl.lit("r"),
        source_start=(5 * number).cast(pl.String),
        source_end=(5 * number + 4).cast(pl.String),
        text=pl.format("riječ {}", number),
        similarity=(number / 10).set(number == 10, 0.8 - 1e-12),
    )
    made.save(segments=segments, recordings=pl.DataFrame({"recording_id": ["r"]}))
    kept = {row["threshold"]: row["segments"] for row in evidence(made).facts["curve"]}
    assert {threshold: kept[threshold] for threshold in (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)} == {
        0.0: 11,
        0.5: 6,
        0.6: 5,
        0.7: 4,
        0.8: 2,
        0.9: 1,
    }


@pytest.mark.slow
def test_curve_between_the_thresholds_that_are_computed_is_cautious(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=300)
    say(workspace, "one", judge(workspace))
    state = ProofState.load(workspace)
    many = curve(state, GRID).filter(pl.col("threshold").is_in([0.63, 0.77, 0.91]))
    few = curve(state, [0.63, 0.77, 0.91])
    assert (many["low"] <= few["low"] + 1e-9).all()
    assert (many["high"] >= few["high"] - 1e-9).all()
    assert many["precision"].to_list() == pytest.approx(few["precision"].to_list(), abs=0.01)
    [kept] = curve(state, [0.63])["segments"]
    assert kept == few["segments"][0]


@pytest.mark.slow
def test_evidence_on_the_command_line_prints_the_facts_as_json(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=400)
    say(workspace, "one", judge(workspace))
    done = CliRunner().invoke(
        app, ["evidence", str(workspace.path), "--precision", "0.9", "--json"]
    )
    assert done.exit_code == 0
    assert json.loads(done.stdout) == evidence(workspace, precision=0.9).to_dict()
    assert (
        CliRunner().invoke(app, ["evidence", str(workspace.path), "--precision", "98"]).exit_code
        == 2
    )


@pytest.mark.parametrize(
    ("n", "asked"),
    [
        (0, 0.98),
        (6, 0.98),
        (40, 0.98),
        pytest.param(400, 0.98, marks=pytest.mark.slow),
        pytest.param(400, 0.5, marks=pytest.mark.slow),
    ],
)
def test_the_plot_shows_estimate_and_bounds_within_its_frame_and_says_what_is_missing(
    workspace, tmp_path, n, asked
):
    if n:
        review.export(workspace, out=tmp_path / "one.csv", n=n)
        say(workspace, "one", judge(workspace))
    [axes] = plots.evidence(workspace, precision=asked).axes
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    rows = curve(ProofState.load(workspace), precision=asked)
    known = rows.filter(
        pl.col("precision").is_not_null() & pl.col("threshold").is_between(left, right)
    )
    values = known.select("precision", "low", "high").to_numpy()
    assert (len(known) > 0) == (n > 0)
    assert ((values > bottom) & (values < top)).all()
    assert bottom < asked < top
    _, _, words = axes.get_xlabel().partition("\n\n")
    assert bool(words) != rows["proven"].any()
    if not n:
        assert "No segment has been reviewed yet: the quality of the labels is unknown." in words
    elif n == 6 and asked == 0.98:
        assert "6 segments have been reviewed: no threshold is proven to keep" in words
        assert (
            f"needs at least {min_sample_size(precision=asked, confidence=0.95)} reviewed segments"
            in words
        )


@pytest.mark.slow
def test_the_plot_marks_what_is_proven(workspace, tmp_path):
    assert (
        plots.evidence(workspace).axes[0].get_title(loc="left")
        == "Precision of all segments above each threshold, 0 reviewed"
    )
    review.export(workspace, out=tmp_path / "one.csv", n=500)
    say(workspace, "one", judge(workspace))
    lowest = evidence(workspace, precision=0.95).facts["lowest_proven"]
    labels = plots.evidence(workspace, precision=0.95).axes[0].get_legend_handles_labels()[1]
    assert [label for label in labels if label.startswith(f"lowest proven: {lowest:g}, ")]
