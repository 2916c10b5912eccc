"""The sentences of reports, as a user reads them: what they count, of what, and what to do."""

import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.report import Report, percent_down
from nbaudio.review import Verdict, append_verdicts
from nbaudio.review.state import ReviewState
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, conform


def make_workspace(folder: Path, number: int) -> nbaudio.Workspace:
    """Segments of 20 speakers in 7 recordings without audio, all similar enough to ship."""
    workspace = nbaudio.Workspace.create(folder)
    names = [f"r{place}" for place in range(7)]
    places = range(number)
    segments = {
        "segment_id": [f"s{place}" for place in places],
        "recording_id": [names[place % 7] for place in places],
        "source_start": [str(20 * place) for place in places],
        "source_end": [str(20 * place + 10) for place in places],
        "text": [f"riječ {place}" for place in places],
        "speaker_id": [f"spk{place % 20}" for place in places],
        "similarity": [0.9 + place % 10 / 100 for place in places],
    }
    workspace.save(
        recordings=conform(pl.DataFrame({"recording_id": names}), RECORDINGS, "recordings"),
        segments=conform(pl.DataFrame(segments), SEGMENTS, "segments"),
    )
    nbaudio.select(workspace, dev=0, test=0)
    return workspace


def review_some(workspace: nbaudio.Workspace, number: int, wrong: int) -> None:
    """Draw a round; `wrong` segments at equal distances are wrong, and the rest right."""
    nbaudio.review.export(workspace, out=workspace.path.parent / "one.csv", n=number)
    record = ReviewState.load(workspace).records["one"]
    rows = zip(record.segment_ids, record.contents, strict=True)
    faults = {place * number // wrong for place in range(wrong)}
    append_verdicts(
        workspace,
        [
            Verdict(key, content, "noise" if place in faults else "ok", "", None, "ana", "", "one")
            for place, (key, content) in enumerate(rows)
        ],
    )


def read_facts(report: Report) -> dict[str, str]:
    """Return the facts of a report as its text shows them, by their labels."""
    rows = [re.split(r" {2,}", line.strip(), maxsplit=1) for line in str(report).splitlines()[1:]]
    return {row[0]: row[1] for row in rows if len(row) == 2}


def evidence_of(folder: Path, number: int, *, reviewed: int, wrong: int) -> Report:
    workspace = make_workspace(folder / "w", number)
    if reviewed:
        review_some(workspace, reviewed, wrong)
    return nbaudio.evidence(workspace)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "reviewed", "wrong", "answer"),
    [
        (1500, 0, 0, "no, nothing was reviewed yet; to prove 98 %, it takes 173 reviews if all "),
        (60, 0, 0, "no, nothing was reviewed yet; to prove 98 %, all 60 clips have to be reviewed"),
        (
            60,
            20,
            3,
            "no; even if all 60 clips were reviewed and the others right, 98 % would not be ",
        ),
        (60, 20, 2, "are wrong or unsure, and 98 % allows 1; judge unsure clips again, "),
        (1500, 200, 14, "no; even if all 1,500 clips were reviewed, fewer than 98 % are expected "),
        (1500, 200, 14, "(estimate: 9"),
        (1500, 100, 0, " of the 1,400 clips that are left are expected to prove 98 %, "),
        (1500, 600, 0, "yes, at least 98 % are right"),
    ],
)
def test_evidence_never_asks_for_more_reviews_than_there_are_clips(
    tmp_path: Path, number: int, reviewed: int, wrong: int, answer: str
) -> None:
    report = evidence_of(tmp_path, number, reviewed=reviewed, wrong=wrong)
    sentence = read_facts(report)["is the target proven"]
    assert answer in sentence
    assert report.facts["target_proven"] == sentence
    assert "rule" not in sentence
    progress = report.facts["selection"]["progress"]
    for name in ("expected", "least"):
        assert (progress.get(name) or 0) <= number - reviewed


@pytest.mark.slow
def test_evidence_gives_percentages_and_says_what_unsure_verdicts_count_as(tmp_path: Path) -> None:
    report = evidence_of(tmp_path, 1500, reviewed=200, wrong=1)
    facts = read_facts(report)
    low = report.facts["selection"]["low"]
    assert facts["target"] == "98 % right, with 95 % confidence"
    assert facts["how many are right"] == report.facts["how_right"]
    assert f"at least {int(1000 * low) / 10:g} % are right (95 % confidence)." in str(report)
    assert facts["lowest proven threshold"] == "none of those below"
    assert "rounds taken back" not in str(report)


@pytest.mark.slow
def test_evidence_reports_segments_left_out_since_the_round(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "w", 300)
    review_some(workspace, 50, 0)
    assert nbaudio.evidence(workspace).facts["chosen_since"] == ""
    nbaudio.select(workspace, min_similarity=0.95, dev=0, test=0)
    chosen_since = nbaudio.evidence(workspace).facts["chosen_since"]
    assert "were left out since the rule was fixed that the verdicts are about" in chosen_since
    assert "A new round" in chosen_since


@pytest.mark.slow
def test_evidence_states_an_upper_bound_below_the_target(tmp_path: Path) -> None:
    report = evidence_of(tmp_path / "a", 200, reviewed=20, wrong=20)
    high = report.facts["selection"]["high"]
    assert 0.1 < high < 0.6
    percent = f"{math.ceil(1000 * high - 1e-6) / 10:g} %"
    expected = f"clips that ship, at most {percent} are right (95 % confidence)."
    assert report.facts["how_right"].endswith(expected)
    both = evidence_of(tmp_path / "b", 200, reviewed=60, wrong=30)
    assert re.search(r"at least \S+ % and at most \S+ % are right", both.facts["how_right"])


@pytest.mark.slow
def test_evidence_separates_new_segments_from_sampled_ones(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "w", 214)
    review_some(workspace, 60, 2)
    nbaudio.select(workspace, dev=0, test=0)
    before = nbaudio.evidence(workspace).facts["selection"]
    assert before["sampled"] is None
    more = make_workspace(tmp_path / "v", 362).segments[214:]
    workspace.save(segments=pl.concat([workspace.segments, more]))
    nbaudio.select(workspace, dev=0, test=0)
    report = nbaudio.evidence(workspace)
    selection = report.facts["selection"]
    number = before["segments"]
    sampled = selection["sampled"]
    assert selection["segments"] == number + 148
    assert sampled == {"segments": number, "low": before["low"], "not_sampled": 148}
    assert selection["low"] == pytest.approx(before["low"] * number / (number + 148))
    assert report.facts["how_right"] == (
        f"Of the {number + 148} clips that ship, 148 are new or changed since they could be drawn, "
        f"and not sampled yet. Of the other {number}, at least {percent_down(before['low'])} are "
        "right (95 % confidence). With the 148 counted as wrong, at least "
        f"{percent_down(selection['low'])} of all are right."
    )
    assert report.facts["chosen_since"].startswith("A new round")


def test_evidence_suggests_no_review_once_all_segments_are_drawn(tmp_path: Path) -> None:
    report = evidence_of(tmp_path, 20, reviewed=20, wrong=20)
    assert report.facts["how_right"].endswith("at most 0 % are right (95 % confidence).")
    assert read_facts(report)["review next"] == "nothing: all segments have been drawn"


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        ({"segments": 3, "failed": 0, "language": None, "rejected": {}}, ["segments  3"]),
        ({"kept": 0}, ["kept  0"]),
        ({"whole": True}, ["complete and undamaged  yes, 0 problems"]),
        (
            {"train": {"segments": 1, "speakers": 2, "recordings": 0}},
            ["train  1 segment, 2 speake"],
        ),
        ({"leakage": {"speaker": 0, "recording": 2}}, ["shared between splits (leakage)  2 recor"]),
        ({"leakage": {"speaker": 0}}, ["shared between splits (leakage)  none"]),
        ({"splits": {"train": 65, "dev": 8}}, ["splits  65 in train, 8 in dev"]),
        ({"times_real_time": 193.6}, ["speed  194 x real time"]),
        ({"word_error_rate": 0.1839}, ["word error rate  18.4 %"]),
        ({"value": -0.0001}, ["value  0"]),
        ({"parameters": {"seed": 42, "dev": 0, "hours": None}}, ["parameters  seed=42, dev=0"]),
    ],
)
def test_a_report_omits_zero_counts_except_informative_ones(
    facts: dict[str, Any], lines: list[str]
) -> None:
    report = Report("step", facts)
    shown = [re.sub(" {2,}", "  ", line.strip()) for line in str(report).splitlines()[1:]]
    assert len(shown) == len(lines)
    assert all(line.startswith(start) for line, start in zip(shown, lines, strict=True))
    assert report.to_dict()["facts"] == facts
    assert report._repr_html_().count("<th") == len(lines)


def test_sentences_replace_a_fact_in_text_and_html_but_not_in_json(tmp_path: Path) -> None:
    report = Report("step", {"rows": 7}, sentences={"rows": ["first <b>", "second"]})
    assert str(report).splitlines() == ["step", "  rows", "    first <b>", "    second"]
    assert "first &lt;b&gt;" in report._repr_html_()
    assert report.to_dict() == {
        "step": "step",
        "facts": {"rows": 7},
        "warnings": [],
        "problems": [],
    }


def test_the_command_line_prints_the_sentences(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "w", 60)
    done = CliRunner().invoke(app, ["evidence", str(workspace.path)])
    assert "is the target proven" in done.stdout
    assert "all 60 clips have to be reviewed" in done.stdout


def judge(workspace: nbaudio.Workspace, words: dict[str, list[str]]) -> None:
    """Store verdicts of reviewers on the first segments."""
    ids = workspace.segments["segment_id"].to_list()
    append_verdicts(
        workspace,
        [
            Verdict(ids[place], "", word, "", None, reviewer, "", "sheet")
            for reviewer, verdicts in words.items()
            for place, word in enumerate(verdicts)
        ],
    )


def test_agreement_is_a_sentence_for_each_pair_and_kappa_has_no_sign_at_zero(
    tmp_path: Path,
) -> None:
    workspace = make_workspace(tmp_path / "w", 60)
    judge(workspace, {"ana": ["ok"] * 20, "ben": ["ok"] * 19 + ["noise"]})
    kappas = nbaudio.review.agreement(workspace).filter(measure="kappa")["value"]
    assert [str(value) for value in kappas] == ["0.0", "0.0"]
    report = nbaudio.review.import_(workspace, None)
    [line, other] = [line.strip() for line in str(report).splitlines() if "kappa" in line]
    assert line == (
        "ana, ben: agree on the verdict for 19 of 20 segments; Cohen's kappa 0 (-0.08 to 0.88), "
        "which says little, as nearly all verdicts are the same"
    )
    assert other.startswith("ana, ben: agree on ok or not ok for 19 of 20 segments; ")
    assert read_facts(report)["verdicts by word"] == "39 ok, 1 noise"
    assert read_facts(report)["verdicts by reviewer"] == "ana 20, ben 20"
    assert [row["measure"] for row in report.facts["agreement"]][:2] == ["agreement", "kappa"]


def test_agreement_of_equal_verdicts_and_of_three_reviewers(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "w", 60)
    words = ["ok", "ok", "noise", "ok"]
    judge(workspace, {"ana": ["ok"] * 4, "ben": ["ok"] * 4, "cia": words})
    shown = str(nbaudio.review.import_(workspace, None))
    assert (
        "ana, ben: agree on the verdict for 4 of 4 segments; Cohen's kappa is not defined, as all "
        "verdicts are the same"
    ) in shown
    assert "ana, ben, cia: Krippendorff's alpha 0" in shown


def test_scores_have_counts_in_parentheses_and_several_hypotheses_a_line_each(
    tmp_path: Path,
) -> None:
    workspace = make_workspace(tmp_path / "w", 20)
    rows = workspace.segments.select("segment_id", hypothesis=pl.lit("riječ 1, 2"))
    nbaudio.join(workspace, rows, on="segment_id", hypothesis="large")
    facts = read_facts(nbaudio.score(workspace, hypothesis="large"))
    assert facts["word error rate"].endswith(" %")
    assert "without hypothesis" not in facts
    nbaudio.join(workspace, rows, on="segment_id", hypothesis="small")
    facts = read_facts(nbaudio.score(workspace, hypothesis=["large", "small"]))
    assert facts["large"] == facts["small"]
    assert facts["small"].startswith("20 of 20 segments scored, median similarity 0.")


@pytest.mark.slow
def test_diff_of_equal_selections_says_that_nothing_differs(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path / "w", 60)
    report = nbaudio.diff(workspace.path, workspace.path)
    assert report.warnings == ["no segment was added, removed, moved or changed"]
    assert "added" not in read_facts(report)
    other = make_workspace(tmp_path / "v", 61)
    assert nbaudio.diff(workspace.path, other.path).warnings == []
