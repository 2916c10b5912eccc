"""Reviewers of one round with formats of their own: `--reviewers ana=xlsx,ben=html`."""

import csv
import json
import zipfile

import pytest
import soundfile
from sheets import fill_in, make_workspace
from test_review_page import data_of, verdict_file
from test_undo import run

import nbaudio
from nbaudio import review
from nbaudio.core.errors import InputError
from nbaudio.review.sheet_reader import read_sheet
from nbaudio.review.state import ReviewState

TEXTS = [f"rečenica broj {number}" for number in range(12)]


@pytest.fixture
def workspace(tmp_path):
    return make_workspace(tmp_path / "w", TEXTS, audio=tmp_path / "audio")


def names_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


def ids_of(path):
    """The segments of a sheet or page, in order."""
    if path.suffix == ".html":
        return [clip["segment_id"] for clip in data_of(path)["clips"]]
    return [row["segment_id"] for row in read_sheet(path).rows]


@pytest.mark.parametrize(
    "reviewers",
    [["ana=xlsx", "ben=html"], {"ana": "xlsx", "ben": "html"}, ("ana=XLSX", "ben=html")],
)
def test_both_files_are_of_one_round_and_one_draw(workspace, tmp_path, reviewers):
    out = tmp_path / "round"
    report = review.export(workspace, out=out, n=10, reviewers=reviewers, overlap=4)
    state = ReviewState.load(workspace)
    record = state.records["round"]
    assert state.records.keys() == {"round"}
    assert (record.reviewers, record.overlap) == (["ana", "ben"], 4)
    shares = record.shares()
    assert ids_of(out / "round-ana.xlsx") == shares["ana"]
    assert ids_of(out / "round-ben.html") == shares["ben"]
    assert {*shares["ana"], *shares["ben"]} == set(record.segment_ids)
    assert len({*shares["ana"]} & {*shares["ben"]}) == 4
    # A sheet has its clips beside it, a page inside.
    clips = [f"clips/{key}.wav" for key in sorted(shares["ana"])]
    assert names_in(out) == sorted([*clips, "round-ana.xlsx", "round-ben.html"])
    assert report.facts["clips"] == 10
    assert report.facts["files"] == f"{out / 'round-ana.xlsx'}, {out / 'round-ben.html'}"
    assert [*report.facts["reviewers"]] == [
        {"reviewer": "ana", "segments": 7},
        {"reviewer": "ben", "segments": 7},
    ]
    assert report.problems == []


def test_verdicts_of_both_are_imported_and_their_agreement_is_over_the_overlap(workspace, tmp_path):
    out = tmp_path / "round"
    review.export(workspace, out=out, n=10, reviewers=["ana=xlsx", "ben=html"], overlap=4)
    shares = ReviewState.load(workspace).records["round"].shares()
    both = [key for key in shares["ana"] if key in shares["ben"]]
    sheet = fill_in(out / "round-ana.xlsx", dict.fromkeys(shares["ana"], "ok"))
    said = dict.fromkeys(shares["ben"], "ok") | {both[0]: "noise"}
    page = verdict_file(out / "round-ben.html", said, reviewer="ben")
    report = review.import_(workspace, [sheet, page])
    assert (report.problems, report.facts["new"]) == ([], 14)
    assert report.facts["by_reviewer"] == [
        {"reviewer": "ana", "verdicts": 7},
        {"reviewer": "ben", "verdicts": 7},
    ]
    assert report.facts["disagreements"] == 1
    raw = report.facts["agreement"][0]
    assert (raw["segments"], raw["value"]) == (4, 0.75)
    assert report.facts["next"][0].startswith("round: all judged")
    facts = nbaudio.evidence(workspace).facts
    assert [(row["round"], row["rows"], row["reviewed"]) for row in facts["rounds"]] == [
        ("round", 10, 10)
    ]


def test_the_draw_is_that_of_the_same_call_without_formats(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "a.csv", n=10, reviewers=["ana", "ben"], overlap=2)
    other = make_workspace(tmp_path / "w2", TEXTS)
    options = {"n": 10, "reviewers": ["ana=csv", "ben=csv"], "overlap": 2}
    review.export(other, out=tmp_path / "a", **options)
    first, second = (ReviewState.load(each).records["a"] for each in (workspace, other))
    assert first.segment_ids == second.segment_ids
    assert first.shares() == second.shares()


def test_all_formats_can_be_exported_with_zip_clips_and_open_review(workspace, tmp_path):
    out = tmp_path / "all"
    reviewers = ["ana=xlsx", "ben=html", "cy=csv", "dan=tsv"]
    options = {"n": 8, "overlap": 2, "clips": "mp3", "zip": True, "blind": False}
    report = review.export(workspace, out=out, reviewers=reviewers, **options)
    shares = ReviewState.load(workspace).records["all"].shares()
    expected = [f"clips/{key}.mp3" for name in ("ana", "cy", "dan") for key in shares[name]]
    for name, kind in zip(shares, ("xlsx", "html", "csv", "tsv"), strict=True):
        path = out / f"all-{name}.{kind}"
        assert ids_of(path) == shares[name]
        with zipfile.ZipFile(path.with_suffix(".zip")) as archive:
            clips = (
                [] if kind == "html" else [f"all-{name}/clips/{key}.mp3" for key in shares[name]]
            )
            assert sorted(archive.namelist()) == sorted([f"all-{name}/{path.name}", *clips])
        expected += [path.name, path.with_suffix(".zip").name]
    assert names_in(out) == sorted(set(expected))
    assert {soundfile.info(path).format for path in (out / "clips").iterdir()} == {"MP3"}
    page = data_of(out / "all-ben.html")
    assert (page["blind"], page["media"]) == (False, "audio/mpeg")
    with (out / "all-cy.csv").open(encoding="utf-8-sig", newline="") as file:
        assert "hypothesis" in next(csv.reader(file))
    before = {path: path.read_bytes() for path in out.rglob("*.*")}
    again = review.export(workspace, out=out, reviewers=reviewers, **options)
    assert again.to_dict() == report.to_dict()
    assert {path: path.read_bytes() for path in out.rglob("*.*")} == before


def test_each_format_has_its_default_clip_encoding(workspace, tmp_path):
    out = tmp_path / "round"
    review.export(workspace, out=out, n=4, reviewers=["ana=html", "ben=csv"])
    assert data_of(out / "round-ana.html")["media"] == "audio/mpeg"
    assert {path.suffix for path in (out / "clips").iterdir()} == {".wav"}


@pytest.mark.parametrize(
    ("out", "reviewers", "message"),
    [
        ("r", ["ana=xlsx", "ben"], r"reviewer 'ben' has no format, others have one: give one for"),
        ("r", ["ana=doc"], r"reviewer 'ana': format 'doc' is unknown; known are xlsx, csv, tsv, h"),
        ("r", ["ana="], r"reviewer 'ana': format '' is unknown; known are xlsx, csv, tsv, html$"),
        ("r", ["ana=xlsx", "Ana=html"], r"reviewers ana, Ana: one is given twice$"),
        ("r", ["=xlsx"], r"reviewer '': letters, digits and"),
        ("r.xlsx", ["ana=xlsx"], r"r\.xlsx: reviewers with formats \(ana=xlsx,ben=html\) need a f"),
        ("r.html", ["ana=xlsx"], r"r\.html: reviewers with formats \(.*\) need a folder, not a fi"),
        ("file", ["ana=xlsx"], r"file: reviewers with formats \(.*\) need a folder, not a file$"),
        ("r", ["ana", "ben"], r"r: the file must end in \.xlsx, \.csv, \.tsv for a sheet, or in"),
    ],
)
def test_an_invalid_list_of_reviewer_formats_is_refused(
    workspace, tmp_path, out, reviewers, message
):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=message):
        review.export(workspace, out=tmp_path / out, n=4, reviewers=reviewers)
    assert workspace.reviewed() == {}


def test_reviewer_formats_can_be_given_on_the_command_line(
    workspace, tmp_path, capsys, monkeypatch
):
    words = ("review", "export", workspace.path, "--n", 6, "--overlap", 2, "--json")
    out = tmp_path / "round"
    code, lines, _ = run(
        capsys, monkeypatch, *words, "--out", out, "--reviewers", "ana=xlsx,ben=html"
    )
    assert code == 0
    assert json.loads("\n".join(lines))["facts"]["seen_by_all"] == 2
    assert (out / "round-ana.xlsx").exists()
    assert (out / "round-ben.html").exists()
    for place, reviewers in (("x", "ana=xlsx,ben"), ("x", "ana=odt"), ("x.csv", "ana=csv")):
        code, [line], _ = run(
            capsys, monkeypatch, *words, "--out", tmp_path / place, "--reviewers", reviewers
        )
        assert code == 2
        assert json.loads(line)["error"]


def test_a_round_with_several_formats_can_be_taken_back(workspace, tmp_path):
    out = tmp_path / "round"
    options = {"n": 6, "reviewers": ["ana=xlsx", "ben=html"]}
    review.export(workspace, out=out, **options)
    before = {path: path.read_bytes() for path in out.rglob("*.*")}
    report = review.export(workspace, undo="round")
    assert "round-ana.xlsx" in report.warnings[0]
    assert "round-ben.html" in report.warnings[0]
    review.export(workspace, out=out, **options)
    assert {path: path.read_bytes() for path in out.rglob("*.*")} == before
