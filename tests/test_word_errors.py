"""Words that are wrong in what ships, by corrected texts."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import nbaudio
from nbaudio import review
from nbaudio.proof.betting import most
from nbaudio.proof.proof_state import ProofState
from nbaudio.review.state import ReviewState, Verdict, append_verdicts, content_hashes
from nbaudio.tables.workspace import Workspace

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import word_errors as simulated

TEXT = "one two three four five six seven eight nine ten"


def make_workspace(folder, size):
    """A workspace of segments of ten words each, with a similarity of 0.9."""
    workspace = Workspace.create(folder / "w", audio=None)
    segments = {
        "segment_id": [f"s{number}" for number in range(size)],
        "recording_id": "r",
        "text": TEXT,
        "asr_text": TEXT,
        "source_start": [f"{10 * number}" for number in range(size)],
        "source_end": [f"{10 * number + 5}" for number in range(size)],
        "similarity": 0.9,
    }
    recordings = pl.DataFrame({"recording_id": ["r"]})
    workspace.save(segments=pl.DataFrame(segments), recordings=recordings)
    return workspace


def judge(workspace, name, faults, *, reviewers=()):
    """Export and import a round; `faults` are corrected texts by segment and reviewer."""
    folder = workspace.path.parent
    size = workspace.segments.height
    options = {"reviewers": reviewers, "overlap": size} if reviewers else {}
    out = folder / name if reviewers else folder / f"{name}.csv"
    review.export(workspace, out=folder / f"{name}.csv", n=min(size, 80), **options)
    for sheet in sorted(folder.glob(f"{name}*.csv")) or [out]:
        rows = pl.read_csv(sheet)
        who = sheet.stem.removeprefix(name).strip("-_ ")
        of_reviewer = [faults.get(key, {}) for key in rows["segment_id"]]
        verdicts = ["wrong words" if who in texts else "ok" for texts in of_reviewer]
        corrected = [texts.get(who) for texts in of_reviewer]
        rows = rows.with_columns(
            pl.Series("verdict", verdicts), pl.Series("corrected text", corrected, dtype=pl.String)
        )
        rows.write_csv(sheet)
        review.import_(workspace, sheet)


def word_errors(workspace):
    return nbaudio.evidence(workspace).facts["selection"]["word_errors"]


def test_words_of_faults_count_by_their_corrected_text(tmp_path):
    workspace = make_workspace(tmp_path, 40)
    # Reviewers who correct a text differently leave the transcript as it is.
    faults = {
        "s1": {"ana": TEXT.replace("two", "too"), "ben": TEXT.replace("one two three", "a b c")},
        "s2": {"ana": "One, two: " + TEXT[8:], "ben": "ONE two, " + TEXT[8:]},
        "s3": {"ana": "x " * 25, "ben": "y " * 25},
        "s4": {"ana": None, "ben": None},
        "s5": {"ana": TEXT.replace("ten", "tan")},
    }
    judge(workspace, "one", faults, reviewers=("ana", "ben"))
    # Three words of s1, none of s2, all of s3 and s4; s5 is unsure.
    assert word_errors(workspace) == {
        "wer": pytest.approx(33 / 400),
        "wer_high": pytest.approx(33 / 400),
        "words": 400,
        "clips_without_corrected_text": 1,
    }
    sentence = (
        "Of the 400 words that ship, at most 8.3 % are wrong (95 % confidence); estimate 8.2 %. "
        "1 wrong clip without a corrected text counts with all words: corrected texts lower the "
        "bound."
    )
    report = nbaudio.evidence(workspace)
    assert report.facts["word_errors"] == sentence
    assert sentence in str(report)


@pytest.mark.slow
def test_a_text_that_was_corrected_counts_with_all_words_until_it_is_judged_again(tmp_path):
    workspace = make_workspace(tmp_path, 40)
    judge(workspace, "one", {"s1": {"": TEXT.replace("two", "too")}})
    assert workspace.segments["text_corrected"].count() == 1
    assert word_errors(workspace)["wer_high"] == pytest.approx(10 / 400)
    segment = workspace.segments.filter(segment_id="s1")
    [content] = content_hashes(segment)
    again = Verdict("s1", content, "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel")
    append_verdicts(workspace, [again])
    assert word_errors(workspace)["wer_high"] == 0


@pytest.mark.slow
def test_bounds_of_what_ships_count_shares_of_what_was_left_out(tmp_path):
    workspace = make_workspace(tmp_path, 200)
    nbaudio.select(workspace, dev=0, test=0)
    # Two words of ten are wrong in every tenth segment.
    corrected = TEXT.replace("two three", "2nd 3rd")
    faults = {f"s{number}": {"": corrected} for number in range(0, 200, 10)}
    judge(workspace, "one", faults)
    nbaudio.select(workspace, dev=0, test=0)
    errors = word_errors(workspace)
    state = ProofState.load(ReviewState.load(workspace).workspace)
    draws = state.about_rule(state.rules[0]).draws
    num_wrong = int(draws.wrong.sum())
    assert num_wrong >= 4
    error = 0.05 * 6 / np.pi**2
    in_part = replace(draws, loss=np.full(len(draws.item), 0.2))
    value = state.amounts("words", state.flags("is_there"))
    bound = most(in_part, value, error) - 2 * num_wrong
    assert errors["words"] == 1200
    assert errors["clips_without_corrected_text"] == 0
    assert errors["wer_high"] == pytest.approx(bound / 1200)
    assert errors["wer"] == pytest.approx(0.2 * num_wrong / 80)
    # By clips, all words of a fault are wrong.
    by_words = nbaudio.evidence(workspace).facts["train"]["by_words"]
    assert errors["wer_high"] < 0.6 * (1 - by_words["low"])
    of_split = nbaudio.evidence(workspace).facts["train"]["word_errors"]
    assert of_split == errors


def test_a_fault_counts_with_all_words_if_no_verdict_has_a_corrected_text(tmp_path):
    workspace = make_workspace(tmp_path, 40)
    judge(workspace, "one", {"s1": {"": None}})
    assert word_errors(workspace) == {
        "wer": pytest.approx(10 / 400),
        "wer_high": pytest.approx(10 / 400),
        "words": 400,
        "clips_without_corrected_text": 1,
    }


def test_nothing_is_said_of_words_before_a_verdict(tmp_path):
    workspace = make_workspace(tmp_path, 5)
    report = nbaudio.evidence(workspace)
    assert report.facts["word_errors"] == ""
    unknown = {"wer": None, "wer_high": 1.0, "words": 50, "clips_without_corrected_text": 0}
    assert report.facts["selection"]["word_errors"] == unknown


@pytest.mark.slow
@pytest.mark.parametrize("row", simulated.ROWS)
def test_simulated_bounds_are_true(row):
    outcomes = [simulated.outcome(simulated.Task(row, seed, 400)) for seed in range(2)]
    assert not any(outcome.is_false for outcome in outcomes)
    assert all(outcome.wer <= outcome.bound + 1e-9 for outcome in outcomes)
