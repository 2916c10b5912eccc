"""Risk: learned from verdicts, cross-fitted by recording, and frozen where a selection uses it."""

import json
import math

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from nbaudio import evidence, review, select
from nbaudio.core.errors import InputError
from nbaudio.review import risk
from nbaudio.review.risk import area_under_curve, ranking, refresh
from nbaudio.review.state import ReviewState, Verdict, append_verdicts, content_hashes, frame_table
from nbaudio.tables import workspace_tables
from nbaudio.tables.workspace import Workspace

COUNT, RECORDINGS = 3000, 30


def make_segments(path, *, shift=10.0, seed=0, wrong=None, **columns):
    """Segments of which one in ten is wrong, and noisier by `shift` dB if it is."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(COUNT) < 0.1 if wrong is None else wrong
    number = np.arange(COUNT)
    frame = pl.DataFrame(
        {
            "segment_id": [f"s{n:04}" for n in number],
            "recording_id": [f"r{n % RECORDINGS}" for n in number],
            "speaker_id": [
                None if n % RECORDINGS == 3 else f"k{n % RECORDINGS % 7}" for n in number
            ],
            "source_start": [str(10 * n) for n in number],
            "source_end": [str(10 * n + 5) for n in number],
            "text": [f"riječ broj {n}" for n in number],
            "similarity": 1 - rng.exponential(0.05, COUNT),
            "snr_db": rng.normal(20, 5, COUNT) - shift * wrong,
            "cut_end": rng.random(COUNT) < 0.05,
            "bandwidth_hz": pl.Series(
                np.where(rng.random(COUNT) < 0.1, np.nan, rng.normal(7000, 300, COUNT))
            ).fill_nan(None),
            **columns,
        }
    )
    workspace = Workspace.create(path, audio=None)
    recordings = pl.DataFrame({"recording_id": [f"r{n}" for n in range(RECORDINGS)]})
    workspace.save(segments=frame, recordings=recordings)
    return workspace, wrong


def verdict_of(key, content, wrong, name):
    """The verdict of a reviewer on a segment, from the truth `wrong`."""
    return Verdict(
        key,
        content,
        "noise" if wrong[int(key[1:])] else "ok",
        "",
        None,
        "ana",
        "2026-11-21T03:00:00Z",
        name,
    )


def judge(workspace, wrong, numbers):
    """Verdicts in the panel."""
    rows = workspace.segments[np.sort(numbers)]
    append_verdicts(
        workspace,
        [
            verdict_of(*row, wrong, "panel")
            for row in zip(rows["segment_id"], content_hashes(rows), strict=True)
        ],
    )


def answer(workspace, wrong, name):
    """Verdicts on all rows of a review."""
    record = ReviewState.load(workspace).records[name]
    append_verdicts(
        workspace,
        [
            verdict_of(*row, wrong, name)
            for row in zip(record.segment_ids, record.contents, strict=True)
        ],
    )


def some(count, seed=1):
    return np.random.default_rng(seed).permutation(COUNT)[:count]


def true_area(workspace, wrong):
    return area_under_curve(
        workspace.segments["risk"].to_numpy(), wrong.astype(float), np.arange(COUNT)
    )[0]


def test_the_auc_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(2)
    wrong, score = rng.random(300) < 0.2, rng.integers(0, 8, 300).astype(float)
    above = score[wrong][:, None] - score[~wrong]
    area, low, high = area_under_curve(score, wrong.astype(float), np.arange(300))
    assert area == pytest.approx((above > 0).mean() + (above == 0).mean() / 2)
    assert low < area < high
    # Ten copies of each item are no more information.
    again = area_under_curve(
        np.repeat(score, 10), np.repeat(wrong, 10).astype(float), np.repeat(np.arange(300), 10)
    )
    assert again == pytest.approx((area, low, high), rel=1e-6)


def test_the_interval_of_the_auc_has_the_stated_coverage():
    rng, held = np.random.default_rng(3), 0
    truth = 0.5 * (1 + math.erf(1 / 2))  # of normal scores one standard deviation apart
    for _ in range(200):
        wrong = rng.random(400) < 0.15
        low, high = area_under_curve(
            rng.normal(0, 1, 400) + wrong, wrong.astype(float), rng.integers(0, 40, 400)
        )[1:]
        held += low <= truth <= high
    assert held >= 180  # 190 are expected, with a standard deviation of 3


def test_import_learns_a_risk_that_finds_noisy_segments(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w")
    state, before = workspace.fingerprint(), content_hashes(workspace.segments)
    assert (
        "so far 0 right and 0 wrong, of 0 recordings"
        in review.import_(workspace, None).facts["risk"]
    )
    assert "risk" not in workspace.segments.columns
    judge(workspace, wrong, some(400))
    assert (
        "snr_db"
        in review.import_(workspace, None)
        .facts["risk"]
        .partition("weighs most: ")[2]
        .split(", ")[0]
    )
    found = refresh(workspace)
    assert true_area(workspace, wrong) > 0.85
    assert found["auc_low"] < true_area(workspace, wrong) < found["auc_high"] + 0.02
    assert 0.5 < found["calibration"]["slope"] < 2
    assert workspace.segments["risk"].mean() == pytest.approx(0.1, abs=0.03)
    # Risk changes nothing that reviews and claims rest on.
    assert workspace.fingerprint() == state
    assert content_hashes(workspace.segments) == before


@pytest.mark.slow
def test_without_informative_columns_risk_stays_near_the_base_rate(tmp_path):
    areas = []
    for seed in range(4):
        workspace, wrong = make_segments(tmp_path / str(seed), shift=0.0, seed=seed)
        judge(workspace, wrong, some(300, seed))
        found = refresh(workspace)
        areas.append(found["auc"])
        assert workspace.segments["risk"].mean() == pytest.approx(
            found["wrong"] / found["judged"], abs=0.02
        )
        assert workspace.segments["risk"].quantile(0.95) < 0.25
        assert not evidence(workspace, precision=0.8).facts["risk"]["useful"]
    assert np.mean(areas) == pytest.approx(0.5, abs=0.08)


def test_risk_of_a_segment_does_not_use_verdicts_on_its_recording(tmp_path):
    """A column that names the recording predicts perfectly within recordings, and nothing across
    them."""
    bad = np.isin(
        np.arange(COUNT) % RECORDINGS, np.random.default_rng(4).permutation(RECORDINGS)[:10]
    )
    workspace, wrong = make_segments(
        tmp_path / "w", shift=0.0, wrong=bad, speech_rate=np.arange(COUNT) % RECORDINGS * 1.0
    )
    judge(workspace, wrong, some(600))
    assert refresh(workspace)["auc"] < 0.75
    # Other verdicts on one recording change the risk of others only.
    own = pl.col("recording_id") == "r5"
    first = workspace.segments
    other = np.where(np.arange(COUNT) % RECORDINGS == 5, ~wrong, wrong)
    judge(workspace, other, [n for n in some(600) if n % RECORDINGS == 5])
    refresh(workspace)
    assert_frame_equal(workspace.segments.filter(own), first.filter(own))
    assert (workspace.segments["risk"] != first["risk"]).any()


def test_the_risk_does_not_depend_on_the_order_of_rows_and_verdicts(tmp_path):
    found = []
    for name in ("a", "b"):
        workspace, wrong = make_segments(tmp_path / name)
        judged = some(300)
        if name == "b":
            workspace.save(segments=workspace.segments.sample(fraction=1.0, shuffle=True, seed=3))
            order = {key: place for place, key in enumerate(workspace.segments["segment_id"])}
            judged = [order[f"s{n:04}"] for n in judged]
        judge(workspace, wrong, judged)
        refresh(workspace)
        found.append(workspace.segments.select("segment_id", "risk").sort("segment_id"))
    assert_frame_equal(*found, check_exact=True)
    assert (tmp_path / "a/risk.json").read_bytes() == (tmp_path / "b/risk.json").read_bytes()


def test_risk_is_learned_again_only_if_verdicts_or_columns_change(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w")
    judge(workspace, wrong, some(200))
    one = refresh(workspace)
    assert refresh(workspace) == one
    judge(workspace, wrong, some(300))
    two = refresh(workspace)
    assert two["judged"] > one["judged"]
    workspace_tables.replace_columns(workspace, workspace.segments.select(pl.col("snr_db") * 0.5))
    assert refresh(workspace)["id"] != two["id"]
    # Segments without a risk get one.
    half = pl.when(pl.int_range(COUNT) % 2 == 0).then("risk")
    workspace_tables.replace_columns(workspace, workspace.segments.select(half.alias("risk")))
    assert refresh(workspace)["judged"] == two["judged"]
    assert not workspace.segments["risk"].has_nulls()


def test_too_few_verdicts_give_no_risk_and_remove_an_earlier_one(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w")
    judge(workspace, wrong, np.flatnonzero(~wrong)[:50])
    with pytest.raises(
        InputError,
        match=(
            r"takes 5 right and 5 wrong segments of 2 recordings; "
            r"so far 50 right and 0 wrong, .* until then use --strategy stratified"
        ),
    ):
        review.export(workspace, out=tmp_path / "s.xlsx", n=5, strategy="risk")
    assert not (tmp_path / "s.xlsx").exists()
    judge(workspace, wrong, np.flatnonzero(wrong)[:20])
    assert "auc" in refresh(workspace)
    (workspace.path / "reviews/verdicts.jsonl").unlink()
    assert "missing" in refresh(workspace)
    assert workspace.segments["risk"].null_count() == COUNT
    assert not (workspace.path / "risk.json").exists()


def test_the_ranking_names_the_columns_that_make_a_segment_suspicious(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w")
    judged = some(400)
    judge(workspace, wrong, judged)
    refresh(workspace)
    found = ranking(workspace, 30)
    assert found["risk"].is_sorted(descending=True)
    assert not set(found["segment_id"]) & {f"s{n:04}" for n in judged}
    assert np.mean([wrong[int(key[1:])] for key in found["segment_id"]]) > 0.6
    snr = dict(workspace.segments.select("segment_id", "snr_db").iter_rows())
    assert found["reason"].str.starts_with("snr_db ").mean() > 0.8
    first = found.row(0, named=True)
    assert f"snr_db {snr[first['segment_id']]:.3g}" in first["reason"]


def test_the_risk_model_stores_speakers_without_their_names(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w")
    judge(workspace, wrong, some(300))
    speakers = refresh(workspace)["speakers"]
    assert len(speakers) == 7
    assert not {f"k{n}" for n in range(7)} & set(speakers)


# --- a threshold on risk


@pytest.mark.slow
def test_a_selection_by_risk_freezes_the_model_until_one_without_it(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w")
    review.export(workspace, out=tmp_path / "one.csv", n=300)
    answer(workspace, wrong, "one")
    assert evidence(workspace).facts["selection"]["reviewed"] > 200
    model = json.loads((workspace.path / "risk.json").read_bytes())
    used = select(workspace, where="risk < 0.05", dev=0, test=0).facts["parameters"]
    assert used["risk"] == {"id": model["id"]}
    report = evidence(workspace)
    assert report.facts["risk"]["frozen"].startswith("by the last select")
    chosen = report.facts["selection"]
    assert chosen["rule"]["number"] == 1
    assert chosen["rule"]["left_out"] > 0
    ids = workspace_tables.read(workspace, ["segment_id", "risk"])
    review.export(workspace, out=tmp_path / "two.csv", n=200, strategy="risk")
    assert "rate" in workspace.table(frame_table("two")).columns
    answer(workspace, wrong, "two")
    review.import_(workspace, None)
    assert_frame_equal(workspace_tables.read(workspace, ["segment_id", "risk"]), ids)
    later = evidence(workspace).facts
    assert later["selection"]["low"] > 0.85
    assert later["selection"]["low"] > chosen["low"]
    assert later["selection"]["rule"]["number"] == 2  # which the second round has fixed
    # The same again keeps the freeze; without risk, all verdicts teach.
    assert (
        select(workspace, where="risk < 0.05", dev=0, test=0).facts["parameters"]["risk"]
        == used["risk"]
    )
    select(workspace, where="snr_db > 1 and text <> 'risk'", dev=0, test=0)
    assert evidence(workspace).facts["risk"]["frozen"].startswith("no")
    assert json.loads((workspace.path / "risk.json").read_bytes())["judged"] > model["judged"]


def test_a_frozen_model_gives_a_risk_to_segments_that_came_later(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w")
    judge(workspace, wrong, some(300))
    model = refresh(workspace)
    select(workspace, where='"risk" < 0.5', dev=0, test=0)
    before = workspace.segments["risk"]
    workspace_tables.replace_columns(
        workspace,
        workspace.segments.select(pl.when(pl.int_range(COUNT) % 2 == 0).then("risk").alias("risk")),
    )
    judge(workspace, wrong, some(500))
    assert refresh(workspace) == model
    assert workspace.segments["risk"].equals(before)


def test_a_selection_by_risk_without_its_stored_model_is_refused(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w")
    judge(workspace, wrong, some(300))
    refresh(workspace)
    (workspace.path / risk.RECORD).unlink()
    with pytest.raises(
        InputError, match=r"risk.json: missing; without it nothing says which verdicts"
    ):
        select(workspace, where="risk < 0.5", dev=0, test=0)


@pytest.mark.slow
def test_the_report_advises_risk_if_it_saves_reviews(tmp_path):
    workspace, wrong = make_segments(
        tmp_path / "w", shift=25.0, wrong=np.random.default_rng(5).random(COUNT) < 0.02
    )
    review.export(workspace, out=tmp_path / "one.csv", n=400)
    answer(workspace, wrong, "one")
    facts = evidence(workspace, precision=0.97).facts
    left = facts["risk"]["reviews_left"]
    assert not facts["selection"]["proven"]
    assert left["left"] == COUNT - 400
    assert 0 < left["risk"] < 0.8 * left["left"]
    assert left["one stratum"] is None  # it takes more than are left
    assert facts["risk"]["within_reach"] == "within reach"
    assert "--strategy risk" in facts["review_next"]


@pytest.mark.slow
def test_a_target_that_reviews_cannot_prove_is_not_within_reach(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w", shift=0.0)
    review.export(workspace, out=tmp_path / "one.csv", n=1000)
    answer(workspace, wrong, "one")
    facts = evidence(workspace, precision=0.93).facts["risk"]
    assert facts["within_reach"] == "not within reach"
    assert facts["reviews_left"] == {
        "risk": None,
        "one stratum": None,
        "expected": None,
        "left": COUNT - 1000,
    }
