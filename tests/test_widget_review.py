"""ReviewPanel without a browser: verdicts are on disk at once, undone, continued, by several
reviewers."""

import json
from zipfile import ZipFile

import numpy as np
import polars as pl
import pytest
from test_widget_tables import ask
from test_widgets import Page, sounds

from nbaudio import review
from nbaudio.core.errors import InputError
from nbaudio.review.rounds import gold_ids
from nbaudio.review.state import VERDICTS, Verdict, content_hashes, verdict_log, verdicts
from nbaudio.ui.widgets import ReviewPanel

GIVE = {"comment": "", "corrected_text": None}
TIME = "2031-01-01T00:00:00Z"


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"a.wav": (9.0, 44100), "b.flac": (6.0, 16000)})


def lines(workspace):
    return [
        json.loads(line)
        for line in (workspace.path / "reviews" / "verdicts.jsonl").read_text().splitlines()
    ]


def test_a_verdict_is_in_the_log_before_the_panel_answers(workspace):
    panel = ReviewPanel(workspace, reviewer=" ana ")
    opened, _ = ask(panel, "review.open")
    assert [word["word"] for word in opened["words"]] == list(VERDICTS)
    assert (opened["done"], opened["total"], opened["reviewer"]) == (0, 5, "ana")
    state, _ = ask(
        panel, "review.give", number=2, verdict="cut off", comment="end", corrected_text="riječi"
    )
    assert (state["done"], state["counts"], state["undo"]) == (1, {"cut off": 1}, True)
    [line] = lines(workspace)
    segment = workspace.segments[2]
    assert (line["segment_id"], [line["content"]]) == (
        segment["segment_id"][0],
        content_hashes(segment),
    )
    expected = {
        "verdict": "cut off",
        "comment": "end",
        "corrected_text": "riječi",
        "reviewer": "ana",
        "review": "panel",
    }
    assert {name: line[name] for name in expected} == expected
    rows, _ = ask(panel, "table.rows", first=0, last=5, columns=["verdict"])
    assert [row["cells"][0] for row in rows["rows"]] == [None, None, "cut off", None, None]
    assert ask(panel, "review.said", number=2)[0]["said"] == {
        "verdict": "cut off",
        "comment": "end",
        "corrected_text": "riječi",
    }


def test_the_transcript_comes_second_and_verdicts_once_there_are_any(workspace):
    panel = ReviewPanel(workspace, reviewer="ana")
    shown, _ = ask(panel, "table.columns")
    assert shown["shown"][:2] == ["segment_id", "text"]
    assert "verdict" not in shown["shown"]
    ask(panel, "review.give", number=0, verdict="ok", comment="", corrected_text=None)
    assert ask(panel, "table.columns")[0]["shown"][:3] == ["segment_id", "text", "verdict"]


def test_verdicts_that_are_not_on_the_list_are_refused(workspace):
    panel = ReviewPanel(workspace, reviewer="ana")
    answer, _ = ask(panel, "review.give", number=0, verdict="fine", **GIVE)
    assert answer["error"].startswith("verdict 'fine' is unknown; known are ok, wrong words")
    assert len(verdict_log(workspace)) == 0


def test_a_word_that_is_no_longer_on_the_list_is_counted_last(workspace):
    for number, word in enumerate(["inaudible", "ok"]):
        row = workspace.segments[number]
        [content] = content_hashes(row)
        segment_id = row["segment_id"].item()
        earlier = Verdict(segment_id, content, word, "", None, "ana", TIME, "panel")
        review.append_verdicts(workspace, [earlier])
    counts = ReviewPanel(workspace, reviewer="ana").progress["counts"]
    assert list(counts.items()) == [("ok", 1), ("inaudible", 1)]


def test_undo_withdraws_a_verdict_or_restores_the_earlier_one(workspace):
    panel = ReviewPanel(workspace, reviewer="ana")
    ask(panel, "review.give", number=1, verdict="ok", **GIVE)
    ask(panel, "review.give", number=1, verdict="noise", **GIVE)
    state, _ = ask(panel, "review.undo")
    assert (state["number"], state["position"], state["counts"]) == (1, 1, {"ok": 1})
    assert verdicts(workspace)["verdict"].to_list() == ["ok"]
    state, _ = ask(panel, "review.undo")
    assert (state["done"], state["undo"]) == (0, False)
    assert len(verdicts(workspace)) == 0
    assert ask(panel, "review.undo")[0]["number"] is None
    assert [line["verdict"] for line in lines(workspace)] == ["ok", "noise", "ok", None]


def test_the_next_kernel_continues_where_this_one_stopped(workspace):
    panel = ReviewPanel(workspace, reviewer="ana")
    for number in (0, 1, 3):
        ask(panel, "review.give", number=number, verdict="ok", **GIVE)
    again = ReviewPanel(workspace, reviewer="ana")
    assert ask(again, "table.open")[0]["cursor"] == 2
    assert ask(again, "review.next", position=2)[0] == {"position": 4, "number": 4}
    assert ask(again, "review.next", position=4)[0] == {"position": 2, "number": 2}
    assert again.progress["done"] == 3
    unjudged = {"where": "verdict is null", "find": "", "sort": "", "descending": False}
    assert ask(ReviewPanel(workspace, reviewer="ana"), "table.arrange", **unjudged)[0]["total"] == 2
    for number in (2, 4):
        ask(again, "review.give", number=number, verdict="ok", **GIVE)
    assert ask(again, "review.next", position=0)[0] is None


def test_reviewers_do_not_see_or_overwrite_each_other(workspace):
    ask(ReviewPanel(workspace, reviewer="ana"), "review.give", number=0, verdict="ok", **GIVE)
    panel = ReviewPanel(workspace, reviewer=" ivo ")
    assert (panel.progress["done"], panel.progress["undo"], panel.progress["reviewer"]) == (
        0,
        False,
        "ivo",
    )
    ask(panel, "review.give", number=0, verdict="noise", **GIVE)
    assert verdicts(workspace).select("reviewer", "verdict").rows() == [
        ("ana", "ok"),
        ("ivo", "noise"),
    ]
    with pytest.raises(InputError, match="a name is needed"):
        ReviewPanel(workspace, reviewer=" ")


def test_a_review_that_was_exported_is_reviewed_in_its_order(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "round one.xlsx", n=3)
    drawn = json.loads((workspace.path / "reviews/round one.json").read_text())["segment_ids"]
    panel = ReviewPanel(workspace, review="round one", reviewer="ana")
    assert panel._rows.frame["segment_id"].to_list() == drawn
    ask(panel, "review.give", number=0, verdict="ok", **GIVE)
    assert verdicts(workspace).select("segment_id", "review").rows() == [(drawn[0], "round one")]
    with pytest.raises(InputError, match="no review 'two'"):
        ReviewPanel(workspace, review="two", reviewer="ana")
    with pytest.raises(InputError, match="not both"):
        ReviewPanel(workspace, drawn, review="round one", reviewer="ana")


def test_a_second_reviewer_sees_the_text_before_corrections(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "sheet.xlsx", n=1)
    record = json.loads((workspace.path / "reviews/sheet.json").read_text())
    ana = ReviewPanel(workspace, review="sheet", reviewer="ana")
    shown = ask(ana, "review.said", number=0)[0]["text"]
    ask(
        ana,
        "review.give",
        number=0,
        verdict="wrong words",
        comment="",
        corrected_text="druge riječi",
    )
    assert review.correct_texts(workspace).facts["corrected_now"] == 1
    ivo = ReviewPanel(workspace, review="sheet", reviewer="ivo")
    assert ask(ivo, "review.said", number=0)[0]["text"] == shown != "druge riječi"
    ask(ivo, "review.give", number=0, verdict="noise", **GIVE)
    assert verdicts(workspace)["content"].to_list() == record["contents"] * 2


def test_the_panel_shows_each_reviewer_their_share_of_a_review(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "sheet.xlsx", n=5, reviewers=["ana", "ivo"], overlap=1)
    shares = [
        ReviewPanel(workspace, review="sheet", reviewer=name)._rows.frame["segment_id"]
        for name in ("ana", "ivo")
    ]
    assert [len(share) for share in shares] == [3, 3]
    assert len(set(pl.concat(shares))) == 5
    with pytest.raises(
        InputError, match="no segment was assigned to 'eva'; its reviewers are ana, ivo"
    ):
        ReviewPanel(workspace, review="sheet", reviewer="eva")


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_correction_equal_to_the_text_is_ignored(workspace, blank):
    panel = ReviewPanel(workspace, reviewer="ana")
    shown = ask(panel, "review.said", number=0)[0]["text"]
    for text in (blank, shown, f" {shown} "):
        ask(panel, "review.give", number=0, verdict="wrong words", comment="", corrected_text=text)
        assert verdicts(workspace)["corrected_text"].to_list() == [None]
    ask(panel, "review.give", number=0, verdict="ok", comment="", corrected_text=shown)
    assert verdicts(workspace)["verdict"].to_list() == ["ok"]


def test_ok_with_a_corrected_text_is_refused(workspace):
    panel = ReviewPanel(workspace, reviewer="ana")
    answer, _ = ask(
        panel, "review.give", number=0, verdict="ok", comment="", corrected_text="druge riječi"
    )
    assert answer["error"].startswith(
        "'ok' says that the transcript is right, but there is a corrected text"
    )
    assert len(verdict_log(workspace)) == 0


def test_undo_puts_back_a_verdict_as_it_was_given(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "sheet.xlsx", n=5)
    sheet = ReviewPanel(workspace, review="sheet", reviewer="ana")
    ask(sheet, "review.give", number=0, verdict="ok", **GIVE)
    [first] = lines(workspace)
    number = workspace.segments["segment_id"].to_list().index(first["segment_id"])
    panel = ReviewPanel(workspace, reviewer="ana")
    ask(panel, "review.give", number=number, verdict="noise", **GIVE)
    ask(panel, "review.undo")
    [held] = verdicts(workspace).drop("time").to_dicts()
    assert held == {name: value for name, value in first.items() if name != "time"}


def test_a_verdict_on_another_text_is_not_put_back_onto_this_one(workspace):
    ask(ReviewPanel(workspace, reviewer="ana"), "review.give", number=0, verdict="ok", **GIVE)
    workspace.save(segments=workspace.segments.with_columns(text=pl.lit("nešto drugo")))
    panel = ReviewPanel(workspace, reviewer="ana")
    assert panel.progress["done"] == 0
    ask(panel, "review.give", number=0, verdict="noise", **GIVE)
    ask(panel, "review.undo")
    assert gold_ids(workspace, workspace.segments) == set()
    assert panel.progress["done"] == 0


def test_rate_and_time_left_are_those_of_the_last_verdicts(workspace, monkeypatch):
    panel = ReviewPanel(workspace, reviewer="ana")
    clock = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr("nbaudio.ui.widgets.review_panel.time.monotonic", lambda: next(clock))
    assert panel.progress["per_hour"] is None
    for number in range(3):
        ask(panel, "review.give", number=number, verdict="ok", **GIVE)
    assert panel.progress["per_hour"] == pytest.approx(360)
    assert panel.progress["left_s"] == pytest.approx(20)


def test_the_saved_panel_shows_progress_and_plays_open_segments(workspace):
    panel = ReviewPanel(workspace, reviewer="ana")
    ask(panel, "review.give", number=0, verdict="other speaker", **GIVE)
    html = panel.static_html()
    texts = Page(html).check_harmless().texts
    assert "1 of 5 judged" in texts
    assert "other speaker" in texts
    assert len(sounds(html)) == 3
    state = {
        name: value for name, value in panel.get_state().items() if name not in ("_esm", "_css")
    }
    assert len(json.dumps(state)) < 2000


def test_the_next_unjudged_segment_is_found_as_by_a_loop(workspace):
    panel = ReviewPanel(workspace, reviewer="ana")
    rng = np.random.default_rng(0)
    for number in rng.permutation(5):
        order = rng.permutation(5).astype(np.uint32)
        panel._rows.order, judged = order, panel._rows.frame["verdict"].is_not_null().to_numpy()
        for position in range(-1, 5):
            ahead = [i for i in [*range(position + 1, 5), *range(5)] if not judged[order[i]]]
            assert panel._unjudged_after(position) == ahead[0]
        ask(panel, "review.give", number=int(number), verdict="ok", **GIVE)


def test_several_faults_are_one_verdict_and_are_counted_separately(workspace):
    panel = ReviewPanel(workspace, reviewer="ana")
    ask(panel, "review.give", number=0, verdict="noise", **GIVE)
    state, _ = ask(panel, "review.give", number=0, verdict="noise, cut off", **GIVE)
    assert state["counts"] == {"cut off": 1, "noise": 1}
    assert verdicts(workspace)["verdict"].to_list() == ["cut off, noise"]
    again = ReviewPanel(workspace, reviewer="ana")
    assert ask(again, "review.said", number=0)[0]["said"]["verdict"] == "cut off, noise"
    assert ask(again, "table.rows", first=0, last=1, columns=["verdict"])[0]["rows"][0][
        "cells"
    ] == ["cut off, noise"]
    assert (
        "'ok' cannot stand beside"
        in ask(panel, "review.give", number=1, verdict="ok, noise", **GIVE)[0]["error"]
    )
    state, _ = ask(panel, "review.give", number=0, verdict=None, **GIVE)
    assert (state["done"], len(verdicts(workspace))) == (0, 0)
    ask(panel, "review.undo")
    assert verdicts(workspace)["verdict"].to_list() == ["cut off, noise"]


def test_further_hypotheses_and_their_scores_do_not_leak_into_a_blind_review(workspace, tmp_path):
    secret, segments = "tajna riječ", workspace.segments
    scores = dict.fromkeys(("wer_big", "similarity_big", "cer_big", "agreement"), pl.lit(0.137137))
    workspace.save(segments=segments.with_columns(asr_text_big=pl.lit(secret), **scores))
    for name in ("sheet.xlsx", "sheet.csv", "page.html"):
        review.export(workspace, out=tmp_path / name, n=3, blind=True)
    for path in (path for path in tmp_path.glob("*.*") if path.is_file()):
        data = path.read_bytes()
        if path.suffix == ".xlsx":
            with ZipFile(path) as book:
                data = b"".join(map(book.read, book.namelist()))
        assert not [
            word for word in ("tajna", "0.137", "asr_text_big", "wer_big") if word.encode() in data
        ], path
    panel = ReviewPanel(workspace, reviewer="ana", review="sheet")
    opened, _ = ask(panel, "table.open")
    assert not [
        column["name"]
        for column in opened["columns"]
        if column["name"].endswith("_big") or column["name"] == "agreement"
    ]
    assert "error" in ask(panel, "table.rows", first=0, last=1, columns=["asr_text_big"])[0]
    shown, _ = ask(panel, "segment", number=0)
    assert shown["lines"] == []
    assert {word["hypothesis"] for word in shown["words"]} == {None}
    assert "tajna" not in panel.static_html()
    # Without a blind review they are there.
    shown, _ = ask(ReviewPanel(workspace, reviewer="ana"), "segment", number=0)
    assert [name for name, _ in shown["lines"]] == ["big"]


def test_a_blind_review_shows_neither_hypothesis_nor_similarity_and_logs_that(workspace, tmp_path):
    heard = pl.concat_str(pl.lit("čulo se Zvrk "), "segment_id")
    workspace.save(
        segments=workspace.segments.with_columns(
            asr_text=heard, similarity=pl.lit(0.123), asr_score=pl.lit(0.77)
        )
    )
    review.export(workspace, out=tmp_path / "sheet.xlsx", n=5, blind=True)
    record = json.loads((workspace.path / "reviews/sheet.json").read_text())
    panel = ReviewPanel(workspace, review="sheet", reviewer="ana")
    names = [column["name"] for column in ask(panel, "table.open")[0]["columns"]]
    assert not {
        "asr_text",
        "similarity",
        "wer",
        "cer",
        "decision",
        "reason",
        "split",
        "asr_score",
    } & {
        *names,
        *panel.selected.columns,
    }
    shown = [
        ask(panel, "segment", number=0)[0],
        ask(panel, "table.rows", first=0, last=5, columns=names)[0],
        panel.static_html(),
    ]
    assert not [word for word in ("Zvrk", "0.12", "0.77") if word in json.dumps(shown)]
    for call in (
        {"where": "similarity > 0.1"},
        {"where": "asr_text is null"},
        {"where": "", "sort": "similarity"},
    ):
        asked = {"where": "", "find": "", "sort": "", "descending": False} | call
        assert "no column" in ask(panel, "table.arrange", **asked)[0]["error"]
    ask(panel, "review.give", number=0, verdict="ok", **GIVE)
    ask(ReviewPanel(workspace, reviewer="ben"), "review.give", number=0, verdict="ok", **GIVE)
    assert verdict_log(workspace).select("review", "blind").rows() == [
        ("sheet", True),
        ("panel", False),
    ]
    assert verdict_log(workspace)["content"][0] == record["contents"][0]
    assert ReviewPanel(workspace, review="sheet", reviewer="ana").progress["done"] == 1


def test_a_fully_judged_review_names_the_next_step(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "sheet.xlsx", n=5, reviewers=["ana", "ivo"], overlap=3)
    ana, ivo = (ReviewPanel(workspace, review="sheet", reviewer=name) for name in ("ana", "ivo"))
    for number in range(4):
        assert ana.progress["next"] == ""
        state, _ = ask(ana, "review.give", number=number, verdict="ok", **GIVE)
    assert state["next"] == "still to come: ivo (4 of 4 segments)"
    for number in range(4):
        state, _ = ask(ivo, "review.give", number=number, verdict="noise", **GIVE)
    apart = review.disagreements(workspace)
    assert len(apart) == 3
    told = (
        "reviewers disagree on 3 segments: nbaudio.review.disagreements(W) lists them; next: "
        "nbaudio evidence "
    )
    assert state["next"].startswith(told)
    assert str(workspace.path) in state["next"]
    assert ask(ana, "review.open")[0]["next"] == state["next"]
    free = ReviewPanel(workspace, apart, reviewer="eva")
    for number in range(3):
        state, _ = ask(free, "review.give", number=number, verdict="ok", **GIVE)
    assert "'nbaudio review export' draws a sample" in state["next"]
