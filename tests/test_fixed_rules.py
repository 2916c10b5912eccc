"""Rules that rounds fix, and bounds of selections that were chosen after verdicts were heard."""

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import nbaudio
from nbaudio.proof.claims import Part
from nbaudio.proof.judged_draws import ProofState
from nbaudio.review.fixed_rules import ALL_SEGMENTS, fixed_rules
from nbaudio.review.state import ReviewState
from nbaudio.storage.workspace import Workspace

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import choosing

SIZE = 600
_AMOUNTS = ("by_hours", "by_words")


@pytest.fixture
def archive(tmp_path):
    """A workspace of 600 segments of 12 speakers; the first three speakers have the faults."""
    generator = np.random.default_rng(7)
    speaker = generator.integers(0, 12, SIZE)
    similarity = np.where(generator.random(SIZE) < 0.1, 0.5, 0.9 + 0.1 * generator.random(SIZE))
    wrong = (generator.random(SIZE) < np.where(speaker < 3, 0.12, 0.0)) | (similarity < 0.8)
    workspace = Workspace.create(tmp_path / "w", audio=None)
    ids = [f"s{number:03d}" for number in range(SIZE)]
    segments = {
        "segment_id": ids,
        "recording_id": [f"r{number}" for number in speaker],
        "speaker_id": [f"p{number}" for number in speaker],
        "text": [f"sentence {number}" for number in range(SIZE)],
        "source_start": [f"{10 * number}" for number in range(SIZE)],
        "source_end": [f"{10 * number + 5}" for number in range(SIZE)],
        "similarity": similarity,
    }
    recordings = pl.DataFrame({"recording_id": [f"r{number}" for number in range(12)]})
    workspace.save(segments=pl.DataFrame(segments), recordings=recordings)
    return workspace, {key for key, fault in zip(ids, wrong.tolist(), strict=True) if fault}


def take(workspace, where=(), **parameters):
    """Select without dev and test."""
    nbaudio.select(workspace, where=where, dev=0, test=0, **parameters)


def review(workspace, wrong, name, n, *, rows=None, reviewers=()):
    """Export a round and import the verdicts of somebody who knows, on the first `rows` rows."""
    sheet = workspace.path.parent / f"{name}.csv"
    exported = nbaudio.review.export(workspace, out=sheet, n=n, reviewers=reviewers)
    return_sheet(sheet, workspace, wrong, rows)
    return exported


def return_sheet(sheet, workspace, wrong, rows=None):
    drawn = pl.read_csv(sheet)
    verdicts = ["wrong words" if key in wrong else "ok" for key in drawn["segment_id"]]
    judged = pl.int_range(pl.len()) < (len(drawn) if rows is None else rows)
    drawn.with_columns(verdict=pl.when(judged).then(pl.Series(verdicts))).write_csv(sheet)
    nbaudio.review.import_(workspace, sheet)


def claim(workspace):
    return nbaudio.evidence(workspace).facts["selection"]


def share_right(workspace, wrong):
    rows = workspace.segments.filter(pl.col("decision") == "accept")
    return 1 - rows["segment_id"].is_in(list(wrong)).mean()


def found_faults(workspace, wrong):
    """The speakers with a fault among what was judged and passes the threshold."""
    judged = ReviewState.load(workspace).verdict_log["segment_id"].to_list()
    rows = workspace.segments.filter(
        pl.col("segment_id").is_in(judged),
        pl.col("segment_id").is_in(list(wrong)),
        pl.col("similarity") >= 0.8,
    )
    return sorted(rows["speaker_id"].unique().to_list())


def not_in(column, values):
    return f"{column} not in ({', '.join(repr(value) for value in values)})"


def test_a_rule_that_ships_as_it_was_fixed_keeps_its_whole_error(archive):
    workspace, wrong = archive
    take(workspace)
    review(workspace, wrong, "one", 200)
    take(workspace)
    after = claim(workspace)
    state = ProofState.load(workspace)
    alone = Part(state, state.accepted, state.population.mask(state.left_out["segment_id"]))
    error = 0.05 * 6 / np.pi**2
    assert after["low"] == alone.by("segments", target=0.98, error=error, high_error=0.02)["low"]
    assert (after["rule"]["number"], after["rule"]["left_out"], after["rule"]["added"]) == (1, 0, 0)
    assert after["rule"]["error"] == pytest.approx(error)
    assert "chosen since" not in str(nbaudio.evidence(workspace))


def test_speakers_left_out_after_hearing_them_count_against_what_ships(archive):
    workspace, wrong = archive
    take(workspace)
    review(workspace, wrong, "one", 200)
    whole = claim(workspace)
    left_out = found_faults(workspace, wrong)
    assert left_out
    take(workspace, not_in("speaker_id", left_out))
    report = nbaudio.evidence(workspace, precision=0.9)
    chosen = report.facts["selection"]
    assert chosen["rule"]["number"] == 1
    assert chosen["rule"]["left_out"] > 50
    assert chosen["low"] < whole["low"] + 0.02
    assert "were left out since the rule was fixed" in report.facts["chosen_since"]
    assert "A new round fixes what ships now" in report.facts["chosen_since"]
    review(workspace, wrong, "two", 150)
    take(workspace, not_in("speaker_id", left_out))
    fresh = claim(workspace)
    assert fresh["rule"]["number"] == 2
    assert fresh["rule"]["left_out"] == 0
    assert chosen["low"] < fresh["low"] <= share_right(workspace, wrong)


def test_only_the_selection_by_segments_and_the_curve_are_called_proven(archive):
    workspace, wrong = archive
    nbaudio.select(workspace, dev=30, test=30)
    review(workspace, wrong, "one", 200)
    facts = nbaudio.evidence(workspace).facts
    assert facts["selection"]["proven"] is False
    assert {row["proven"] for row in facts["curve"]} <= {True, False}
    others = [facts[split] for split in ("train", "dev", "test")]
    others += [claim[key] for claim in (facts["selection"], *others) for key in _AMOUNTS]
    assert [claim["proven"] for claim in others] == [None] * 11


@pytest.mark.parametrize("door", ["where", "joined", "by_hand", "splits", "threshold"])
def test_outside_is_outside_by_any_door(archive, tmp_path, door):
    workspace, wrong = archive
    take(workspace)
    review(workspace, wrong, "one", 200)
    speakers = found_faults(workspace, wrong)
    heard = workspace.segments.filter(pl.col("speaker_id").is_in(speakers))["segment_id"]
    if door == "where":
        take(workspace, not_in("speaker_id", speakers))
    elif door == "joined":
        table = tmp_path / "keep.csv"
        keep = (~workspace.segments["segment_id"].is_in(heard.implode())).cast(pl.Int64)
        pl.DataFrame({"segment_id": workspace.segments["segment_id"], "keep": keep}).write_csv(
            table
        )
        nbaudio.join(workspace, table, on="segment_id", column="keep")
        take(workspace, "keep = 1")
    elif door == "by_hand":
        table = pl.DataFrame({"segment_id": heard, "decision": "reject"})
        nbaudio.review.import_decisions(workspace, table)
        take(workspace)
    elif door == "splits":
        table = pl.DataFrame({"speaker_id": speakers, "split": "left_alone"})
        take(workspace, splits=table)
        nbaudio.select(workspace, where=not_in("speaker_id", speakers), splits=table)
    else:
        take(workspace, min_similarity=0.97)
    ships = claim(workspace)
    assert ships["rule"]["number"] == 1
    is_hand_rejected = door == "by_hand"  # these are left out as reviews leave out
    assert ships["rule"]["left_out"] > 0 or is_hand_rejected
    assert ships["low"] <= share_right(workspace, wrong)


def test_withdrawn_segments_stay_in_the_rule(archive):
    workspace, wrong = archive
    take(workspace)
    review(workspace, wrong, "one", 200)
    speakers = found_faults(workspace, wrong)
    for speaker in speakers:
        nbaudio.withdraw(workspace, speaker=speaker, why="asked for it")
    after = claim(workspace)
    assert after["rule"]["number"] == 1
    assert after["rule"]["left_out"] > 0
    assert after["low"] <= share_right(workspace, wrong)
    stored = (workspace.path / "reviews" / "rules" / "1.frame.parquet").read_bytes()
    gone = [key for key in wrong if key not in set(workspace.segments["segment_id"])]
    assert gone
    assert not [key for key in gone if key.encode() in stored]


def test_segments_that_are_added_after_looking_count_as_wrong_until_a_new_round(archive):
    workspace, wrong = archive
    narrow = "speaker_id in ('p0', 'p4', 'p5', 'p6')"
    take(workspace, narrow)
    review(workspace, wrong, "one", 250)
    before = claim(workspace)
    wide = "speaker_id in ('p0', 'p4', 'p5', 'p6', 'p7', 'p8', 'p9')"
    take(workspace, wide)
    report = nbaudio.evidence(workspace)
    added = report.facts["selection"]
    assert added["low"] < before["low"] - 0.1
    review(workspace, wrong, "two", 150)
    take(workspace, wide)
    fresh = claim(workspace)
    assert fresh["rule"]["added"] == 0
    assert added["low"] < fresh["low"] <= share_right(workspace, wrong)


def test_a_second_export_of_the_same_review_fixes_nothing_anew(archive):
    workspace, wrong = archive
    take(workspace)
    review(workspace, wrong, "one", 50)
    sheet = workspace.path.parent / "again" / "one.csv"
    take(workspace, "similarity > 0.95")
    nbaudio.review.export(workspace, out=sheet, n=50)
    assert [rule.number for rule in fixed_rules(ReviewState.load(workspace))] == [1]


def test_the_third_place_is_that_of_all_segments(archive):
    workspace, wrong = archive
    for number, least in enumerate((0.8, 0.93, 0.96), 1):
        take(workspace, min_similarity=least)
        review(workspace, wrong, f"round{number}", 20)
    state = ProofState.load(workspace)
    assert [rule.number for rule in fixed_rules(state)] == [1, 2, 4]
    errors = [state.about_rule(rule).rule.error(0.05) for rule in state.rules]
    assert errors == pytest.approx([0.0304, 0.0076, 0.0019], abs=1e-5)
    assert sum(errors) + state.about_all_segments().rule.error(0.05) < 0.05
    assert state.about_all_segments().rule.number == ALL_SEGMENTS == 3


def test_without_a_fixed_rule_all_segments_are_the_rule(archive):
    """A round of an earlier version has fixed none."""
    workspace, wrong = archive
    review(workspace, wrong, "one", 300)
    for path in (workspace.path / "reviews" / "rules").iterdir():
        path.unlink()
    take(workspace)
    ships = claim(workspace)
    assert ships["rule"]["number"] == ALL_SEGMENTS
    assert 0 < ships["low"] <= share_right(workspace, wrong)


def test_the_next_row_of_a_sheet_that_ended_counts_as_unsure_until_it_is_judged(archive):
    workspace, wrong = archive
    take(workspace)
    review(workspace, wrong, "one", 120, rows=60)
    alone = nbaudio.evidence(workspace)
    assert alone.facts["selection"]["sheets_ended"] == 0
    review(workspace, wrong, "two", 120)
    ended = nbaudio.evidence(workspace)
    assert ended.facts["selection"]["sheets_ended"] == 1
    assert [
        line for line in ended.warnings if line.startswith("one: a sheet ended before its last")
    ]
    [one, _] = ProofState.load(workspace).rounds
    assert one.rows["ended"].arg_true().to_list() == [60]
    assert one.rows["verdict"][60] == "unsure"
    return_sheet(workspace.path.parent / "one.csv", workspace, wrong)
    finished = claim(workspace)
    assert finished["sheets_ended"] == 0
    assert finished["low"] > ended.facts["selection"]["low"]


def test_a_sheet_that_has_not_come_back_is_named(archive):
    workspace, wrong = archive
    sheet = workspace.path.parent / "one.csv"
    nbaudio.review.export(workspace, out=sheet, n=80, reviewers=["ana", "ben"])
    return_sheet(sheet.with_name("one-ana.csv"), workspace, wrong)
    report = nbaudio.evidence(workspace)
    assert report.facts["selection"]["sheets_not_returned"] == 1
    assert [line for line in report.warnings if "one (ben)" in line]


def test_the_benchmark_computes_what_the_command_says(archive):
    workspace, wrong = archive
    take(workspace)
    review(workspace, wrong, "one", 150, rows=100)
    review(workspace, wrong, "two", 120)
    speakers = found_faults(workspace, wrong)
    take(workspace, not_in("speaker_id", speakers))
    said = claim(workspace)

    segments = workspace.segments
    ids = segments["segment_id"].to_list()
    simulated = choosing.Archive(
        segments["similarity"].to_numpy(),
        segments["speaker_id"].str.slice(1).cast(pl.Int64).to_numpy(),
        np.array([key in wrong for key in ids]),
        np.zeros((2, SIZE)),
        np.random.default_rng(0),
        np.ones(SIZE, dtype=bool),
    )
    records = ReviewState.load(workspace).records
    for name, judged in (("one", 100), ("two", 120)):
        simulated.export(simulated.kept, "0.8")
        rows = np.array([ids.index(key) for key in records[name].segment_ids])
        simulated.sheets[-1].rows = rows
        simulated.judge(until=lambda _, judged=judged: judged)
    left_out = [int(speaker[1:]) for speaker in speakers]
    simulated.look(simulated.kept & ~np.isin(simulated.speaker, left_out))
    assert simulated.bound == pytest.approx(said["low"], abs=1e-9)
    assert simulated.truth == pytest.approx(share_right(workspace, wrong))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", choosing.SCENARIOS)
def test_no_bound_of_a_few_corpora_is_false_whatever_people_do(scenario):
    """A quick version of the benchmark, with fixed seeds.

    Where bets are about what ships, and not about a fixed rule, 12 of these 128 bounds are false,
    in six of the scenarios.
    """
    assert [choosing.outcome((scenario, seed, 600)).is_false for seed in range(8)] == [False] * 8


def test_a_speaker_with_most_segments_leaves_no_bin_of_the_bets_empty(tmp_path):
    """By speaker, one stratum is drawn more often than several bins of the others together."""
    speaker = ["p0"] * 900 + [f"p{1 + number % 40}" for number in range(360)]
    workspace = Workspace.create(tmp_path / "w", audio=None)
    size = len(speaker)
    segments = {
        "segment_id": [f"s{number:04d}" for number in range(size)],
        "recording_id": "r",
        "speaker_id": speaker,
        "text": [f"sentence {number}" for number in range(size)],
        "source_start": [f"{10 * number}" for number in range(size)],
        "source_end": [f"{10 * number + 5}" for number in range(size)],
        "similarity": 0.9,
    }
    recordings = pl.DataFrame({"recording_id": ["r"]})
    workspace.save(segments=pl.DataFrame(segments), recordings=recordings)
    wrong = {f"s{number:04d}" for number in range(0, size, 5)}
    sheet = tmp_path / "one.csv"
    nbaudio.review.export(workspace, out=sheet, n=150, strategy="speaker")
    return_sheet(sheet, workspace, wrong)
    claim_of_all = claim(workspace)
    assert 0.4 < claim_of_all["low"] < 0.8 < claim_of_all["high"] < 0.98
