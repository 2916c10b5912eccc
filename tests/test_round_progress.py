"""A round at work: `views.round`, and the page of an adjudicator."""

import polars as pl
import pytest
from sheets import fill_in, make_workspace
from test_review_page import data_of, verdict_file

import nbaudio
from nbaudio import review, views
from nbaudio.core.errors import InputError
from nbaudio.review.state import ReviewState

TEXTS = [f"rečenica broj {number}" for number in range(20)]


@pytest.fixture
def round_at_work(tmp_path):
    """Ana has judged her first rows, ben all of his but one; they disagree on a shared segment."""
    workspace = make_workspace(tmp_path / "w", TEXTS)
    out = tmp_path / "one.xlsx"
    review.export(workspace, out=out, n=12, reviewers=["ana", "ben"], overlap=4)
    shares = ReviewState.load(workspace).records["one"].shares()
    both = [key for key in shares["ana"] if key in shares["ben"]]
    of_ana = dict.fromkeys(shares["ana"], "ok")
    of_ben = dict.fromkeys(shares["ben"], "ok") | {both[0]: "noise"}
    alone = next(key for key in shares["ben"][:-1] if key not in both)
    del of_ben[alone]
    fill_in(tmp_path / "one-ana.xlsx", of_ana)
    fill_in(tmp_path / "one-ben.xlsx", of_ben)
    return workspace, shares, both, alone


def test_each_reviewer_has_a_row_with_what_is_judged_skipped_and_agreed(round_at_work, tmp_path):
    workspace, shares, both, _ = round_at_work
    review.import_(workspace, tmp_path / "one-ben.xlsx")
    table = views.round(workspace, "one")
    assert table["reviewer"].to_list() == ["ana", "ben", "all"]
    assert table["rows"].to_list() == [8, 8, 16]
    assert table["judged"].to_list() == [0, 7, 7]
    assert table["left"].to_list() == [8, 1, 9]
    assert table["skipped"].to_list() == [0, 1, 1]
    # Verdicts came from ben, and ana's first row has none: she may have heard it.
    first = next(key for key in shares["ana"] if key not in both)
    assert table["stopped_at"].to_list() == [first, None, None]
    review.import_(workspace, tmp_path / "one-ana.xlsx")
    table = views.round(workspace, "one")
    assert table["judged"].to_list() == [8, 7, 15]
    assert table["stopped_at"].to_list() == [None, None, None]
    assert table["shared"].to_list()[:2] == [4, 4]
    assert table["agreement"].to_list()[:2] == [0.75, 0.75]


@pytest.mark.slow
def test_the_last_row_says_how_many_verdicts_are_expected_to_prove_the_target(tmp_path):
    workspace = make_workspace(tmp_path / "w", [f"rečenica broj {i}" for i in range(300)])
    workspace.save(segments=workspace.segments.with_columns(similarity=1.0))
    out = tmp_path / "one.xlsx"
    review.export(workspace, out=out, n=60, reviewers=["ana", "ben"], overlap=0)
    assert views.round(workspace, "one")["expected"].to_list() == [None, None, None]
    nbaudio.evidence(workspace, precision=0.95)
    expected = []
    for name in ("ana", "ben"):
        sheet = tmp_path / f"one-{name}.xlsx"
        fill_in(sheet, dict.fromkeys(ReviewState.load(workspace).records["one"].segment_ids, "ok"))
        review.import_(workspace, sheet)
        # It follows the verdicts, without another report.
        expected.append(views.round(workspace, "one")["expected"].to_list()[-1])
        progress = nbaudio.evidence(workspace, precision=0.95).facts["selection"]["progress"]
        assert expected[-1] == progress["expected"]
    assert expected[0] > expected[1] > 0


def test_an_unknown_round_is_refused_with_the_names_of_the_others(round_at_work):
    workspace, *_ = round_at_work
    with pytest.raises(InputError, match="there is no review 'two'; known are one"):
        views.round(workspace, "two")


def test_an_adjudicator_gets_a_page_of_undecided_segments_and_has_the_last_word(
    round_at_work, tmp_path
):
    workspace, _, both, _ = round_at_work
    review.import_(workspace, [tmp_path / "one-ana.xlsx", tmp_path / "one-ben.xlsx"])
    assert len(review.disagreements(workspace)) == 1
    review.export(workspace, out=tmp_path / "undecided.html", adjudicator="cy")
    page = tmp_path / "undecided-cy.html"
    assert [clip["segment_id"] for clip in data_of(page)["clips"]] == [both[0]]
    review.import_(workspace, verdict_file(page, {both[0]: "ok"}, reviewer="cy"))
    assert review.disagreements(workspace).is_empty()
    facts = nbaudio.evidence(workspace).facts
    assert facts["reviewed"]["right"] == 11


def test_an_adjudicator_takes_no_other_reviewers_or_strategy(round_at_work, tmp_path):
    workspace, *_ = round_at_work
    for options in ({"reviewers": ["ana"]}, {"strategy": "stratified"}):
        with pytest.raises(InputError, match="leave out strategy and reviewers"):
            review.export(workspace, out=tmp_path / "u.html", adjudicator="cy", **options)


def test_one_sheet_without_a_name_has_a_row_for_everybody_who_judged(tmp_path):
    workspace = make_workspace(tmp_path / "w", TEXTS)
    out = tmp_path / "one.xlsx"
    review.export(workspace, out=out, n=5)
    table = views.round(workspace, "one")
    assert table.select("reviewer", "rows", "judged").rows() == [("", 5, 0), ("all", 5, 0)]
    assert table.schema["expected"] == pl.Int64
    ids = ReviewState.load(workspace).records["one"].segment_ids
    for name, number in (("ana", 5), ("ben", 3)):
        said = dict.fromkeys(ids[:number], "ok")
        review.import_(workspace, fill_in(out, said, to=tmp_path / f"{name}.xlsx", reviewer=name))
    table = views.round(workspace, "one")
    assert table.select("reviewer", "judged", "left", "shared", "agreement").rows() == [
        ("ana", 5, 0, 3, 1.0),
        ("ben", 3, 2, 3, 1.0),
        ("all", 8, 2, None, None),
    ]
    assert table["last_verdict"].str.len_chars().to_list() == [19, 19, 19]
