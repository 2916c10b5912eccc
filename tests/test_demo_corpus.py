"""The demo corpus has the problems that its README lists, and each is caught by the rule named
there."""

import re
from collections import Counter

import polars as pl
import pytest
import yaml

from nbaudio.audio.name_matching import youtube_id
from nbaudio.core.bundled_files import bundled
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.measure import measure
from nbaudio.selection.select import select
from nbaudio.sources.ingest import ingest
from nbaudio.tables.workspace import Workspace
from nbaudio.text.score import score
from nbaudio.ui.statistics.audit import audit

SENTENCES = yaml.safe_load(bundled("data_manifests/demo/sentences.yaml").read_text(encoding="utf8"))
IDS = {
    "plenary_one": "Qm4vT-8_xLp",
    "budget_hearing": "h7Rk2_WzB0c",
    "plenary_two": "-fN3yUo9aKs",
    "harbour_debate": "eX_5gPd1JtM",
    "finance_committee": "Z0bVq6-iCwE",
    "forest_roads": "uS8_nHj4TyA",
    "question_time": "L1kGx9w-OdI",
}


@pytest.fixture(scope="module")
def reports_and_workspace(tmp_path_factory):
    folder = bundled("data_manifests/demo")
    out = tmp_path_factory.mktemp("demo") / "workspace"
    report = ingest(
        "parlaspeech",
        folder / "transcripts.jsonl",
        audio=folder / "audio",
        names=folder / "wav.scp",
        out=out,
        jobs=1,
    )
    score(out)
    select(out, dev=8, test=8)
    return report, Workspace.open(out)


@pytest.fixture(scope="module")
def workspace(reports_and_workspace):
    return reports_and_workspace[1]


def out_of(workspace, recording, reason):
    """Sentences of a recording, from 1, that are out for that reason; a duplicate has the number of
    its first."""
    segments = workspace.segments.filter(pl.col("recording_id") == IDS[recording])
    times = segments["source_start"].unique(maintain_order=True).to_list()
    return [
        times.index(start) + 1
        for start in segments.filter(pl.col("reason") == reason)["source_start"]
    ]


def test_the_demo_has_every_kind_of_name_decision(workspace):
    decisions = {
        youtube_id(row["name"]): row["decision"]
        for row in workspace.table("names").iter_rows(named=True)
    }
    assert decisions == {
        IDS["plenary_one"]: "exact",
        IDS["budget_hearing"]: "extension",
        IDS["plenary_two"]: "extension",
        IDS["harbour_debate"]: "blanks",
        IDS["finance_committee"]: "id",
        IDS["forest_roads"]: "ambiguous",
        IDS["question_time"]: "missing",
    }


def test_every_line_is_a_segment_or_a_problem(reports_and_workspace):
    report, workspace = reports_and_workspace
    assert workspace.segments.height == sum(map(len, SENTENCES.values())) + 1  # the duplicate
    assert [line for line in report.problems if re.search(r"\b53\b", line)]
    assert [
        line
        for line in report.problems + report.warnings
        if "truncated" in line and IDS["plenary_one"] in line
    ]


@pytest.mark.parametrize(
    ("recording", "reason", "sentences"),
    [
        ("forest_roads", "no_audio", [1, 2, 3, 4]),
        ("question_time", "no_audio", [1, 2, 3, 4]),
        ("plenary_one", "past_the_end", [13, 14, 15, 16, 17, 18]),
        ("harbour_debate", "past_the_end", [28]),
        ("budget_hearing", "duplicate", [8]),
        ("finance_committee", "empty_text", [12]),
        ("harbour_debate", "too_long", [21]),
        ("plenary_one", "below_similarity", [5]),
        ("budget_hearing", "below_similarity", [5, 15]),
        ("plenary_two", "below_similarity", [5, 9, 15, 25]),
        ("harbour_debate", "below_similarity", [5, 15, 25]),
        ("finance_committee", "below_similarity", [5, 15]),
    ],
)
def test_each_problem_is_rejected_by_the_documented_rule(workspace, recording, reason, sentences):
    assert out_of(workspace, recording, reason) == sentences


def test_no_other_segments_of_the_demo_are_rejected(workspace):
    reasons = Counter(workspace.segments["reason"].drop_nulls())
    troubles = {
        "no_audio": 8,
        "past_the_end": 7,
        "duplicate": 1,
        "empty_text": 1,
        "too_long": 1,
        "below_similarity": 12,
    }
    assert {reason: count for reason, count in reasons.items() if reason in troubles} == troubles
    assert (
        not set(reasons)
        - set(troubles)
        - {
            "crosses_splits",
            "beyond_split_size",
            "near_held_out",
        }
    )
    kept = workspace.segments.filter(pl.col("decision") == "accept")
    assert kept["similarity"].min() > 0.8
    assert dict(kept["split"].value_counts().iter_rows()).keys() == {"train", "dev", "test"}


def test_odd_texts_are_kept_as_they_are(workspace):
    texts = workspace.segments["text"].to_list()
    assert [text for text in texts if text.startswith("=")] == [
        "=2+3 nije proračun nego račun iz početnice"
    ]
    assert set("„“”–’") <= set("".join(texts))


@pytest.mark.slow
def test_an_audit_finds_what_is_planted_and_nothing_else(tmp_path):
    folder = bundled("data_manifests/demo")
    recordings = {"audio": folder / "audio", "names": folder / "wav.scp"}
    workspace, corpus = tmp_path / "W", tmp_path / "C"
    ingest("parlaspeech", folder / "transcripts.jsonl", **recordings, out=workspace, jobs=1)
    score(workspace)
    measure(workspace, jobs=1)
    select(workspace, dev=8, test=8)
    report = audit(workspace, max_duration=20)
    findings = {
        row["check"]: row["count"] + row["left_out"]
        for row in report.facts["findings"]
        if row["count"] or row["left_out"]
    }
    planted = {
        "empty texts": 1,
        "clips longer than a model takes": 1,
        "texts unlike the hypothesis": 14,
        "odd characters": 1,
        **dict.fromkeys(("clipped audio", "noisy audio", "telephone band"), 1),
        **dict.fromkeys(("digital silence", "offset of the signal", "cut at the end"), 1),
    }
    assert planted.items() <= findings.items()
    # The empty text is too short for its clip; two texts have digits; of these one begins with =.
    assert findings.keys() - planted.keys() == {
        "texts too short for their clips",
        "digits beside words",
        "splits share recordings",
        "no license",
    }
    left_out = report.facts["left_out_by_reason"]
    assert [left_out[name] for name in ("past_the_end", "duplicate", "no_audio")] == [7, 1, 8]
    materialize(workspace, out=corpus, jobs=1, license="mit")
    problems = [line.partition(":")[0] for line in audit(corpus, max_duration=20).problems]
    assert problems == ["odd characters", "digits beside words", "digital silence"]
