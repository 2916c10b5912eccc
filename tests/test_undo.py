"""`review export --undo` takes a round back of which nothing was judged; it stays on record."""

import json
import sys

import numpy as np
import polars as pl
import pytest
from sheets import RATE, fill_in, make_workspace
from test_review_page import verdict_file
from test_widget_tables import ask

import nbaudio
from nbaudio import review
from nbaudio.cli import main
from nbaudio.core.errors import ExistsError, InputError, NbaudioError
from nbaudio.proof.betting import bet
from nbaudio.proof.proof_state import ProofState
from nbaudio.review.state import (
    Correction,
    ReviewState,
    Verdict,
    append_corrections,
    append_verdicts,
)
from nbaudio.storage.run_log import step_lock
from nbaudio.tables import workspace as workspaces
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, conform
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.widgets import ReviewPanel

TIME = "2026-11-21T03:00:00Z"


def make_segments(folder, count):
    """A workspace without audio of segments s0, s1 and so on, of ten recordings."""
    rng = np.random.default_rng(count)
    numbers = range(count)
    frame = pl.DataFrame(
        {
            "segment_id": [f"s{number}" for number in numbers],
            "recording_id": [f"r{number % 10}" for number in numbers],
            "source_start": [str(20 * number) for number in numbers],
            "source_end": [str(20 * number + 10) for number in numbers],
            "text": [f"riječ broj {number}" for number in numbers],
            "speaker_id": [f"p{number % 10}" for number in numbers],
            "similarity": rng.uniform(0.6, 1.0, count),
        }
    )
    workspace = Workspace.create(folder, audio=None)
    recordings = pl.DataFrame({"recording_id": [f"r{number}" for number in range(10)]})
    workspace.save(
        recordings=conform(recordings, RECORDINGS, "recordings"),
        segments=conform(frame, SEGMENTS, "segments"),
    )
    return workspace


@pytest.fixture
def workspace(tmp_path):
    return make_segments(tmp_path / "w", 200)


def rows_of(workspace, name):
    return ReviewState.load(workspace).records[name].segment_ids


def say(workspace, name, *, rows=None, wrong=()):
    """Judge the first rows of a review as the import of a sheet does."""
    record = ReviewState.load(workspace).records[name]
    given = list(zip(record.segment_ids, record.contents, strict=True))[:rows]
    append_verdicts(
        workspace,
        [
            Verdict(key, content, "noise" if key in wrong else "ok", "", None, "ana", TIME, name)
            for key, content in given
        ],
    )


def reviewed_by_select(workspace):
    """The segments that `select` leaves out as they were given to reviewers."""
    nbaudio.select(workspace, min_similarity=0.0, dev=0, test=0)
    segments = workspace.segments.filter(reason="reviewed")
    return set(segments["segment_id"])


# --- what is taken back


def test_undo_returns_segments_to_training_and_reports_their_number(workspace, tmp_path):
    report = review.export(workspace, out=tmp_path / "round.csv", n=40)
    assert report.facts["kept_out_of_training"] == (
        "40 segments of 200 from now on; "
        f"'nbaudio review export {workspace.path} --undo round' takes this back as long as "
        "nothing is judged"
    )
    assert reviewed_by_select(workspace) == set(rows_of(workspace, "round"))
    report = review.export(workspace, undo="round")
    assert {name: report.facts[name] for name in ("taken_back", "segments")} == {
        "taken_back": "round",
        "segments": 40,
    }
    assert report.facts["back_for_training"] == 40
    assert report.facts["rounds_taken_back"] == 1
    assert report.warnings == [
        f"do not send or judge {tmp_path / 'round.csv'}: verdicts in them are not imported"
    ]
    assert report.problems == []
    assert (tmp_path / "round.csv").exists()
    assert workspace.reviewed_ids() == set()
    assert reviewed_by_select(workspace) == set()


def test_segments_of_another_round_stay_out_of_train_after_undo(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=100)
    review.export(workspace, out=tmp_path / "two.csv", n=100)
    one, two = (set(rows_of(workspace, name)) for name in ("one", "two"))
    assert one & two
    again = review.export(workspace, out=tmp_path / "two.csv", n=100)
    assert again.facts["kept_out_of_training"].startswith(f"{len(two - one)} segments of 200 from")
    report = review.export(workspace, undo="two")
    assert report.facts["back_for_training"] == len(two - one)
    assert reviewed_by_select(workspace) == one


@pytest.mark.slow
def test_three_rounds_that_were_taken_back_leave_all_segments_for_training(workspace, tmp_path):
    sizes = {"one": 40, "two": 50, "three": 50}
    tries = {}
    for name, n in sizes.items():
        review.export(workspace, out=tmp_path / f"{name}.csv", n=n)
        tries[name] = rows_of(workspace, name)
    for name in ("two", "one", "three"):
        review.export(workspace, undo=name)
    assert workspace.reviewed_ids() == set()
    every = list(dict.fromkeys([*tries["one"], *tries["two"], *tries["three"]]))
    assert len(every) < 140  # later tries drew what nobody had judged of earlier ones
    report = review.export(workspace, out=tmp_path / "four.csv", n=len(every) + 10)
    assert rows_of(workspace, "four")[: len(every)] == every
    assert [(row["taken_back"], row["rows"]) for row in report.facts["begins_with"]] == [
        *sizes.items()
    ]
    assert len(set(rows_of(workspace, "four"))) == len(every) + 10
    assert nbaudio.evidence(workspace).facts["rounds_taken_back"] == 3


# --- what the next round begins with


@pytest.mark.parametrize("name", ["round", "other"])
def test_the_same_call_brings_back_the_same_rows(workspace, tmp_path, name):
    options = {"n": 40, "strategy": "stratified", "reviewers": ["ana", "ben"], "overlap": 4}
    review.export(workspace, out=tmp_path / "round.csv", **options)
    rows = rows_of(workspace, "round")
    sheet = (tmp_path / "round-ana.csv").read_bytes()
    review.export(workspace, undo="round")
    report = review.export(workspace, out=tmp_path / f"{name}.csv", **options)
    assert rows_of(workspace, name) == rows
    assert report.facts["drawn"] == 40
    assert ((tmp_path / f"{name}-ana.csv").read_bytes() == sheet) == (name == "round")
    again = review.export(workspace, out=tmp_path / f"{name}.csv", **options)
    assert again.to_dict() == report.to_dict()


@pytest.mark.parametrize(
    "options",
    [
        {"n": 70},
        {"n": 70, "seed": 7},
        {"n": 70, "strategy": "speaker"},
        {"n": 70, "strategy": "stratified", "threshold": 0.9},
        {"n": 200, "strategy": "similarity"},
    ],
)
def test_a_new_round_begins_with_rows_taken_back_for_any_strategy(workspace, tmp_path, options):
    review.export(workspace, out=tmp_path / "round.csv", n=40)
    rows = rows_of(workspace, "round")
    review.export(workspace, undo="round")
    report = review.export(workspace, out=tmp_path / "next.csv", **options)
    found = rows_of(workspace, "next")
    assert found[:40] == rows
    assert len(set(found)) == len(found) == options["n"]
    assert report.facts["begins_with"] == [
        {"taken_back": "round", "strategy": "random", "rows": 40}
    ]


def test_a_smaller_round_leaves_the_remaining_rows_to_the_next(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "round.csv", n=40)
    rows = rows_of(workspace, "round")
    review.export(workspace, undo="round")
    review.export(workspace, out=tmp_path / "a.csv", n=5, seed=1)
    review.export(workspace, out=tmp_path / "b.csv", n=30, strategy="near")
    review.export(workspace, out=tmp_path / "c.csv", n=20)
    assert rows_of(workspace, "a") == rows[:5]
    assert rows_of(workspace, "b") == rows[5:35]
    assert rows_of(workspace, "c")[:5] == rows[35:]
    # Those in between are owed again once their round is taken back, too.
    review.export(workspace, undo="b")
    review.export(workspace, undo="a")
    review.export(workspace, out=tmp_path / "d.csv", n=10)
    assert rows_of(workspace, "d") == [*rows[:10]]
    assert ReviewState.load(workspace).taken_back.keys() == {
        "taken_back/a",
        "taken_back/b",
        "taken_back/round",
    }


def test_a_round_with_resumed_and_new_rows_is_taken_back_as_a_whole(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=20)
    review.export(workspace, undo="one")
    review.export(workspace, out=tmp_path / "two.csv", n=50, strategy="speaker")
    rows = rows_of(workspace, "two")
    review.export(workspace, undo="two")
    review.export(workspace, out=tmp_path / "three.csv", n=60, strategy="stratified")
    assert rows_of(workspace, "three")[:50] == rows
    assert nbaudio.evidence(workspace).facts["rounds_taken_back"] == 2


def test_rows_shared_by_two_rounds_are_reported_also_after_undo(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=100)
    review.export(workspace, undo="one")
    review.export(workspace, out=tmp_path / "two.csv", n=100)
    report = review.export(workspace, out=tmp_path / "three.csv", n=100)
    shared = len({*rows_of(workspace, "two")} & {*rows_of(workspace, "three")})
    assert report.warnings[0].startswith(f"{shared} of them are also in an earlier review")
    records = ReviewState.load(workspace).records
    assert records["two"].after == ["taken_back/one"]
    assert records["three"].after == ["taken_back/one", "two"]


def test_a_round_of_picked_segments_leaves_no_rows_when_taken_back(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "picked.csv", segment_ids=["s3", "s1"])
    report = review.export(workspace, undo="picked")
    assert report.facts["back_for_training"] == 2
    assert "next_round" not in report.facts
    review.export(workspace, out=tmp_path / "next.csv", n=10)
    record = ReviewState.load(workspace).records["next"]
    assert (record.resumes, record.new_ids, record.after) == ([], None, [])


def test_picked_segments_are_drawn_before_rows_taken_back(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "round.csv", n=10)
    rows = rows_of(workspace, "round")
    review.export(workspace, undo="round")
    review.export(workspace, out=tmp_path / "picked.csv", segment_ids=["s3"])
    assert rows_of(workspace, "picked") == ["s3"]
    review.export(workspace, out=tmp_path / "next.csv", n=10)
    assert rows_of(workspace, "next") == rows


def test_rows_that_can_no_longer_be_reviewed_are_skipped(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "round.csv", n=10)
    rows = rows_of(workspace, "round")
    review.export(workspace, undo="round")
    gone, blank, *rest = rows
    segments = workspace.segments.filter(pl.col("segment_id") != gone)
    text = pl.when(pl.col("segment_id") == blank).then(pl.lit("")).otherwise("text")
    workspace.save(segments=segments.with_columns(text=text))
    review.export(workspace, out=tmp_path / "next.csv", n=10)
    assert rows_of(workspace, "next")[:8] == rest
    say(workspace, "next")
    resumed, new = ProofState.load(workspace).rounds
    assert resumed.rows["line"].to_list() == [0, 0, *range(8)]
    assert resumed.rows["listed"].to_list() == [False, False, *[True] * 8]
    assert resumed.rows["verdict"].to_list() == [None, "unsure", *["right"] * 8]
    assert new.rows.filter("listed")["segment_id"].to_list() == rows_of(workspace, "next")[8:]


# --- what is refused


def judge_by_sheet(workspace, folder):
    key = rows_of(workspace, "round")[3]
    review.import_(workspace, fill_in(folder / "round.xlsx", {key: "noise"}), reviewer="ana")


def judge_by_page(workspace, folder):
    review.export(workspace, out=folder / "round.html", n=4)
    key = rows_of(workspace, "round")[0]
    review.import_(workspace, verdict_file(folder / "round.html", {key: "ok"}))


def judge_in_panel(workspace, _):
    panel = ReviewPanel(workspace, reviewer="ana", review="round")
    ask(panel, "review.give", number=0, verdict="ok", comment="", corrected_text=None)


def judge_and_withdraw(workspace, folder):
    judge_in_panel(workspace, folder)
    [row] = review.verdict_log(workspace).iter_rows(named=True)
    append_verdicts(workspace, [Verdict(**{**row, "verdict": None})])


def correct_bounds(workspace, _):
    key = rows_of(workspace, "round")[2]
    append_corrections(workspace, [Correction(key, 5, RATE, 0, RATE, "ana", TIME)])


@pytest.mark.parametrize(
    "judge", [judge_by_sheet, judge_by_page, judge_in_panel, judge_and_withdraw, correct_bounds]
)
def test_a_round_with_verdicts_cannot_be_taken_back(tmp_path, judge):
    workspace = make_workspace(tmp_path / "w", audio=tmp_path / "audio")
    review.export(workspace, out=tmp_path / "round.xlsx", n=4)
    judge(workspace, tmp_path)
    before = workspace.reviewed()
    message = "review 'round' cannot be taken back: 1 of its 4 segments were judged or corrected"
    with pytest.raises(InputError, match=message):
        review.export(workspace, undo="round")
    assert workspace.reviewed() == before
    assert ReviewState.load(workspace).taken_back == {}


def test_bounds_that_were_corrected_before_the_export_do_not_count(tmp_path):
    workspace = make_workspace(tmp_path / "w", audio=tmp_path / "audio")
    append_corrections(workspace, [Correction("s0", 5, RATE, 0, RATE, "ana", TIME)])
    review.export(workspace, out=tmp_path / "round.xlsx", n=4)
    assert review.export(workspace, undo="round").facts["segments"] == 4


def test_a_verdict_of_another_round_on_the_same_segments_does_not_count(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=150)
    review.export(workspace, out=tmp_path / "two.csv", n=150)
    say(workspace, "one")
    report = review.export(workspace, undo="two")
    assert report.facts["back_for_training"] == 150 - len(
        {*rows_of(workspace, "one")}
        & {*ReviewState.load(workspace).taken_back["taken_back/two"].segment_ids}
    )


def test_unknown_rounds_and_further_options_are_refused(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=5)
    review.export(workspace, out=tmp_path / "two.csv", n=5)
    with pytest.raises(InputError, match=r"there is no review 'on'; known are one, two$"):
        review.export(workspace, undo="on")
    review.export(workspace, undo="one")
    with pytest.raises(InputError, match=r"review 'one' has been taken back already$"):
        review.export(workspace, undo="one")
    for options, named in (
        ({"out": tmp_path / "two.csv"}, "out"),
        ({"n": 5, "zip": True}, "n, zip"),
        ({"reviewers": ["ana"], "blind": False}, "reviewers, blind"),
        ({"segment_ids": ["s1"]}, "segment_ids"),
    ):
        with pytest.raises(InputError, match=f"^undo=two: nothing is drawn; leave out {named}$"):
            review.export(workspace, undo="two", **options)
    with pytest.raises(InputError, match="out is missing: name a sheet or page to write"):
        review.export(workspace)
    assert workspace.reviewed().keys() == {"two"}


def run(capsys, monkeypatch, *words):
    """Exit code, and lines of standard output and error."""
    monkeypatch.setattr(sys, "argv", ["nbaudio", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out.splitlines(), err.splitlines()


def test_undo_works_on_the_command_line(workspace, tmp_path, capsys, monkeypatch):
    export = ("review", "export", workspace.path)
    out = tmp_path / "round.csv"
    code, lines, _ = run(capsys, monkeypatch, *export, "--out", out, "--n", 5)
    assert code == 0
    assert any("5 segments of 200 from now on" in line for line in lines)
    for words in (("--undo", "other"), (), ("--undo", "round", "--out", out)):
        code, _, [line] = run(capsys, monkeypatch, *export, *words)
        assert code == 2
        assert line.startswith("nbaudio: ")
    code, lines, _ = run(capsys, monkeypatch, *export, "--undo", "round", "--json")
    assert code == 0
    assert json.loads("\n".join(lines))["facts"]["back_for_training"] == 5
    code, _, [line] = run(capsys, monkeypatch, *export, "--undo", "round")
    assert (code, "has been taken back already" in line) == (2, True)


# --- sheets of a round that was taken back


def test_verdicts_of_a_round_that_was_taken_back_do_not_count_until_it_is_exported_again(tmp_path):
    workspace = make_workspace(tmp_path / "w")
    options = {"n": 3, "reviewers": ["ana"]}
    review.export(workspace, out=tmp_path / "round.xlsx", **options)
    keys = rows_of(workspace, "round")
    returned = fill_in(
        tmp_path / "round-ana.xlsx", dict.fromkeys(keys, "ok"), to=tmp_path / "back.xlsx"
    )
    review.export(workspace, undo="round")
    review.export(workspace, out=tmp_path / "other.csv", n=1)
    report = review.import_(workspace, returned)
    assert report.problems == [
        "back.xlsx: review round was taken back: its 3 rows are not imported; 'nbaudio review "
        "export' with the same name and options brings it back, then import this file again"
    ]
    assert review.verdict_log(workspace).is_empty()
    review.export(workspace, undo="other")
    review.export(workspace, out=tmp_path / "round.xlsx", **options)
    report = review.import_(workspace, returned)
    assert (report.problems, report.facts["new"]) == ([], 3)


def test_rows_of_other_rounds_in_the_same_table_are_imported(tmp_path):
    workspace = make_workspace(tmp_path / "w")
    review.export(workspace, out=tmp_path / "a.csv", n=2)
    review.export(workspace, out=tmp_path / "b.csv", n=3)
    both = pl.concat([pl.read_csv(tmp_path / f"{name}.csv") for name in "ab"])
    review.export(workspace, undo="a")
    report = review.import_(workspace, both.with_columns(verdict=pl.lit("ok")), reviewer="ana")
    assert [line.partition(";")[0] for line in report.problems] == [
        "table: review a was taken back: its 2 rows are not imported"
    ]
    assert report.facts["new"] == 3


def test_a_plain_table_of_verdicts_on_a_taken_back_round_is_a_problem(tmp_path):
    workspace = make_workspace(tmp_path / "w")
    review.export(workspace, out=tmp_path / "a.csv", n=4)
    review.export(workspace, undo="a")
    table = pl.DataFrame({"segment_id": ["s1", "s2"], "verdict": "ok"})
    report = review.import_(workspace, table, reviewer="ana")
    assert "review a was taken back: its 2 rows are not imported" in report.problems[0]


def test_an_open_panel_refuses_verdicts_on_a_taken_back_round(tmp_path):
    workspace = make_workspace(tmp_path / "w", audio=tmp_path / "audio")
    review.export(workspace, out=tmp_path / "round.xlsx", n=4)
    panel = ReviewPanel(workspace, reviewer="ana", review="round")
    review.export(workspace, undo="round")
    with pytest.raises(InputError, match="review round was taken back"):
        panel._give(number=0, verdict="ok", comment="", corrected_text=None)
    assert review.verdict_log(workspace).is_empty()
    with pytest.raises(InputError, match="no review 'round'"):
        ReviewPanel(workspace, reviewer="ana", review="round")


@pytest.mark.slow
@pytest.mark.parametrize("blind", [True, False])
@pytest.mark.parametrize("name", ["round.xlsx", "round.csv", "round.html"])
def test_a_file_of_the_same_name_with_other_rows_is_never_overwritten(tmp_path, name, blind):
    workspace = make_workspace(tmp_path / "w")
    out = tmp_path / name
    review.export(workspace, out=out, n=2, blind=blind)
    before = out.read_bytes()
    review.export(workspace, undo="round")
    with pytest.raises(ExistsError, match=r"\(one of that name was taken back\); move it away"):
        review.export(workspace, out=out, n=3, blind=blind)
    assert out.read_bytes() == before
    assert workspace.reviewed() == {}
    out.rename(tmp_path / f"old-{name}")
    review.export(workspace, out=out, n=3, blind=blind)
    assert workspace.reviewed().keys() == {"round"}
    assert review.export(workspace, undo="round").facts["segments"] == 3
    records = ReviewState.load(workspace).taken_back
    assert {key: record.name for key, record in records.items()} == {
        "taken_back/round": "round",
        "taken_back/round-2": "round",
    }


# --- evidence


def claim_of(workspace):
    claim = nbaudio.evidence(workspace, precision=0.9).facts["selection"]
    return {key: value for key, value in claim.items() if key != "rounds_taken_back"}


@pytest.mark.slow
def test_undo_changes_only_the_count_of_rounds_in_evidence(workspace, tmp_path):
    report = nbaudio.evidence(workspace)
    assert report.facts["rounds_taken_back"] == 0
    assert "rounds taken back" not in str(report)
    before = claim_of(workspace)
    review.export(workspace, out=tmp_path / "round.csv", n=40)
    review.export(workspace, undo="round")
    report = nbaudio.evidence(workspace)
    assert report.facts["rounds"] == []
    assert report.facts["rounds_taken_back"] == 1
    assert report.facts["selection"]["rounds_taken_back"] == 1
    assert "rounds taken back" in str(report)
    assert claim_of(workspace) == before


@pytest.mark.slow
def test_a_round_that_was_taken_back_proves_what_it_would_have_proven(tmp_path):
    """Also where another strategy draws what comes after its rows."""
    there, again = (make_segments(tmp_path / name, 400) for name in ("there", "again"))
    wrong = {f"s{number}" for number in range(0, 400, 40)}
    for workspace in (there, again):
        review.export(workspace, out=workspace.path / "round.csv", n=150)
    review.export(again, undo="round")
    review.export(again, out=tmp_path / "next.csv", n=200, strategy="stratified")
    for rows in (30, 150):
        say(there, "round", rows=rows, wrong=wrong)
        say(again, "next", rows=rows, wrong=wrong)
        assert claim_of(again) == claim_of(there)
    assert claim_of(there)["low"] > 0.8
    facts = nbaudio.evidence(again).facts
    assert facts["rounds"] == [
        {"round": "next", "strategy": "random", "rows": 150, "reviewed": 150},
        {"round": "next", "strategy": "stratified", "rows": 50, "reviewed": 0},
    ]
    say(again, "next", wrong=wrong)
    facts = nbaudio.evidence(again, precision=0.9).facts
    assert [row["reviewed"] for row in facts["rounds"]] == [150, 50]
    assert sum(facts["reviewed"].values()) == 200
    assert facts["selection"]["low"] > claim_of(there)["low"]


@pytest.mark.slow
def test_rows_of_one_draw_in_two_rounds_prove_as_one_draw(tmp_path):
    there, again = (make_segments(tmp_path / name, 400) for name in ("there", "again"))
    for workspace in (there, again):
        review.export(workspace, out=workspace.path / "round.csv", n=100, strategy="speaker")
    review.export(again, undo="round")
    review.export(again, out=tmp_path / "a.csv", n=60)
    review.export(again, out=tmp_path / "b.csv", n=40)
    say(there, "round")
    say(again, "a")
    say(again, "b")
    assert claim_of(again) == claim_of(there)
    [one] = ProofState.load(again).rounds
    assert (one.name, one.draw) == ("a, b", "taken_back/round")


def test_shared_rows_of_a_draw_are_reached_with_its_next_row(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=100)
    first = rows_of(workspace, "one")
    review.export(workspace, undo="one")
    review.export(workspace, out=tmp_path / "two.csv", n=150)
    state = ReviewState.load(workspace)
    drawn = state.records["two"].new_ids
    shared = [key for key in drawn if key in first]
    assert 20 < len(shared) < 80
    # The second draw is one from all that nobody had reached, as any later round's.
    assert [key for key in drawn if key not in first] == rows_of(workspace, "two")[100:]
    say(workspace, "two", rows=120)
    _, second = ProofState.load(workspace).rounds
    places = {key: place for place, key in enumerate(rows_of(workspace, "two"))}
    expected = []
    after = None
    for key in reversed(drawn):
        if places[key] >= 100:
            after = places[key] if places[key] < 120 else None
        expected.append(after)
    assert second.rows["line"].to_list() == expected[::-1]
    assert second.rows["listed"].sum() == 50


def test_what_to_review_next_begins_with_rows_that_were_taken_back(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "round.csv", n=20)
    rows = rows_of(workspace, "round")
    review.export(workspace, undo="round")
    words = nbaudio.evidence(workspace).facts["review_next"].split()
    n = int(words[words.index("--n") + 1])
    expected = workspace.report("evidence")["next"]
    assert expected[:20] == rows
    review.export(workspace, out=tmp_path / "next.csv", strategy="stratified", n=n)
    assert rows_of(workspace, "next") == expected


def test_a_round_without_its_frame_leaves_no_rows(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "round.csv", n=20)
    (workspace.path / "reviews/round.frame.parquet").unlink()
    review.export(workspace, undo="round")
    review.export(workspace, out=tmp_path / "next.csv", n=20)
    assert ReviewState.load(workspace).records["next"].resumes == []


@pytest.mark.slow
def test_expected_capital_under_a_true_null_stays_one_after_undo(tmp_path):
    """Two rounds are taken back, and a third one of other strata begins with their rows."""
    wrong = {"s0", "s3", "s7"}
    found = []
    for seed in range(20):
        workspace = make_segments(tmp_path / str(seed), 12)
        options = {"seed": seed, "threshold": 0.8}
        review.export(workspace, out=tmp_path / f"{seed}/one.csv", n=3, **options)
        review.export(workspace, out=tmp_path / f"{seed}/two.csv", n=4, **options, strategy="near")
        review.export(workspace, undo="one")
        review.export(workspace, undo="two")
        speaker = {**options, "strategy": "speaker"}
        review.export(workspace, out=tmp_path / f"{seed}/three.csv", n=9, **speaker)
        say(workspace, "three", wrong=wrong)
        state = ProofState.load(workspace)
        value = state.amounts("segments", np.ones(len(state.rows), dtype=bool))
        found.append(np.exp(bet(state.draws, value, np.array([len(wrong)])).capital[0]))
    assert np.mean(found) <= 1 + 3 * np.std(found) / np.sqrt(len(found))


# --- kills and other writers


@pytest.mark.slow
@pytest.mark.parametrize("call", ["mkdir", "copyfile", "replace", "unlink", "save_report"])
def test_a_kill_leaves_the_round_in_force_or_taken_back(workspace, tmp_path, monkeypatch, call):
    class KilledError(BaseException):
        pass

    def killed(*_, **__):
        raise KilledError

    review.export(workspace, out=tmp_path / "round.csv", n=20)
    rows = rows_of(workspace, "round")
    owner = {"copyfile": review.take_back.shutil, "save_report": Workspace}.get(
        call, review.take_back.Path
    )
    with monkeypatch.context() as patch:
        patch.setattr(owner, call, killed)
        with pytest.raises(KilledError):
            review.export(workspace, undo="round")
    in_force = call in {"mkdir", "copyfile", "replace"}
    assert workspace.reviewed().keys() == ({"round"} if in_force else set())
    assert len(ReviewState.load(workspace).taken_back) == (0 if in_force else 1)
    if in_force:
        review.export(workspace, undo="round")
    review.export(workspace, out=tmp_path / "round.csv", n=20)
    assert rows_of(workspace, "round") == rows
    say(workspace, "round")
    assert nbaudio.evidence(workspace).facts["reviewed"]["right"] == 20


def test_undo_waits_for_a_running_export_and_then_fails(workspace, tmp_path, monkeypatch):
    review.export(workspace, out=tmp_path / "round.csv", n=20)
    monkeypatch.setattr(workspaces, "_LOCK_WAIT_S", 0.2)
    with (
        step_lock(workspace.path / ".reviews.running", "review export", of="w", wait_s=1),
        pytest.raises(NbaudioError, match="review export"),
    ):
        review.export(workspace, undo="round")
    assert workspace.reviewed().keys() == {"round"}


# --- other steps


def test_withdrawn_segments_are_removed_from_taken_back_rounds(tmp_path):
    workspace = make_workspace(tmp_path / "w", audio=tmp_path / "audio")
    review.export(workspace, out=tmp_path / "round.xlsx", n=4)
    review.export(workspace, undo="round")
    clip = tmp_path / "clips/s2.wav"
    assert clip.exists()
    report = nbaudio.withdraw(workspace, segments=["s2"], why="consent withdrawn")
    assert not clip.exists()
    assert "round.xlsx: holds 1 withdrawn segment;" in report.problems[0]
    frame = workspace.table("reviews/taken_back/round.frame")
    assert "s2" not in frame["segment_id"].to_list()
    assert len(frame) == 4
    rows = ReviewState.load(workspace).taken_back["taken_back/round"].segment_ids
    review.export(workspace, out=tmp_path / "next.xlsx", n=4)
    assert rows_of(workspace, "next") == [key for key in rows if key != "s2"]


def test_rounds_drawn_before_a_rule_never_count_for_it(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "learn.csv", n=60)
    say(workspace, "learn", wrong={f"s{number}" for number in range(0, 200, 3)})
    review.export(workspace, out=tmp_path / "round.csv", n=10)
    nbaudio.select(workspace, where="segment_id < 's15'", dev=0, test=0)
    review.export(workspace, undo="round")
    review.export(workspace, out=tmp_path / "next.csv", n=30)
    state = ProofState.load(workspace)
    assert [one.draw for one in state.usable] == ["learn", "taken_back/round", "next"]
    first, second = (state.about_rule(rule).rule for rule in state.rules)
    assert set(first.first_draw[first.inside].tolist()) == {0}
    assert set(second.first_draw[second.inside].tolist()) == {2}
    assert state.draw_order.tolist() == [0, 1, 2]


def test_evidence_counts_a_reviewer_who_judged_rows_of_another_sheet_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workspace = make_workspace("w", [f"riječ {number}" for number in range(40)])
    review.export(workspace, out="s.csv", n=10, reviewers=["ana", "ivo"])
    record = ReviewState.load(workspace).records["s"]
    content = dict(zip(record.segment_ids, record.contents, strict=True))
    time = "2026-11-26T03:00:00Z"
    append_verdicts(
        workspace,
        [
            Verdict(key, content[key], "ok", "", None, "ivo", time, "s")
            for key in record.shares()["ana"][:3]
        ],
    )
    reviewed = nbaudio.evidence(workspace).facts["reviewed"]
    assert (reviewed["right"], reviewed["wrong"]) == (3, 0)
