"""The demo's second act: what it says is proven, of which clips, and by which verdicts."""

import re
import runpy
import shutil
from pathlib import Path

import polars as pl
import pytest

import nbaudio
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import InputError
from nbaudio.proof.evidence import FirstAnswer, first_answer
from nbaudio.runs.made_pairs import prove_made_pairs

MADE_PAIRS = bundled("data_manifests/demo.yaml").parent / "made_pairs"


@pytest.fixture(scope="module")
def second_act(tmp_path_factory):
    """The folder of the second act, and its report."""
    out = tmp_path_factory.mktemp("demo") / "made-pairs"
    return out, prove_made_pairs(MADE_PAIRS, out)


@pytest.fixture(scope="module")
def pairs():
    """What `make_pairs.py` makes, before it is written."""
    script = runpy.run_path(str(MADE_PAIRS / "make_pairs.py"))
    return script["make_all_pairs"]()


@pytest.mark.slow
def test_the_second_round_proves_98_percent_and_the_first_does_not(second_act):
    _, report = second_act
    lowest = [
        float(re.search(r"at least ([\d.]+) % are right", report.facts[name])[1])
        for name in ("after_round_1", "after_round_2")
    ]
    assert lowest[0] < 98 <= lowest[1]
    assert report.facts["pairs"] == 2000
    assert report.facts["target_proven"].startswith("yes")
    assert "simulated" in report.facts["verdicts"]
    assert report.facts["reviewers"].startswith("Reviewers missed 0 of 40 planted faults")


@pytest.mark.slow
def test_the_documentation_has_the_figures_of_the_rounds(second_act):
    _, report = second_act
    page = (Path(__file__).parents[1] / "docs" / "evidence.md").read_text("utf8")
    quoted = " ".join(page.replace("\n> ", " ").split())
    assert report.facts["worst_group"] in quoted
    for name in ("after_round_1", "after_round_2"):
        reviewed, wrong, statement = re.fullmatch(
            r"(\d+) reviewed, (\d+) wrong\. (.*)", report.facts[name]
        ).groups()
        assert f"| {reviewed} | {wrong} | {statement} |" in page


@pytest.mark.slow
def test_the_proven_share_of_the_demo_pairs_is_true(second_act, pairs):
    out, _ = second_act
    is_right = {pair.segment_id: pair.transcript == pair.spoken for pair in pairs}
    segments = pl.read_parquet(out / "workspace" / "segments.parquet")
    shipped = segments.filter(pl.col("decision") == "accept")["segment_id"].to_list()
    share = sum(is_right[segment_id] for segment_id in shipped) / len(shipped)
    proof = nbaudio.evidence(out / "workspace").facts
    # The report adds what control rows say of the reviewers.
    claim, _, reviewers = proof["how_right"].partition(" Reviewers missed ")
    assert reviewers.startswith("0 of 40 planted faults")
    assert first_answer(out / "workspace") == FirstAnswer(
        claim, right=proof["reviewed"]["right"], wrong=proof["reviewed"]["wrong"]
    )
    assert proof["selection"]["segments"] == len(shipped)
    assert 0.98 <= proof["selection"]["low"] <= share < 1


@pytest.mark.slow
def test_the_bound_of_the_worst_session_is_true_of_each_session(second_act, pairs):
    out, report = second_act
    is_right = {pair.segment_id: pair.transcript == pair.spoken for pair in pairs}
    shipped = pl.read_parquet(out / "workspace" / "segments.parquet").filter(decision="accept")
    shares = shipped.group_by("session").agg(
        right=pl.col("segment_id").replace_strict(is_right, return_dtype=pl.Boolean).mean()
    )
    assert len(shares) == 3
    [worst] = nbaudio.evidence(out / "workspace").facts["selection"]["worst"]
    assert (worst["by"], worst["groups"], worst["not_sampled"]) == ("session", 3, 0)
    assert 0.9 < worst["low"] <= shares["right"].min()
    assert report.facts["worst_group"] == worst["sentence"]


@pytest.mark.slow
def test_the_returned_sheets_have_the_verdicts_of_the_drawn_rows(second_act, pairs):
    out, _ = second_act
    spoken = {pair.segment_id: pair.spoken for pair in pairs}
    for name, rows in (("round-1.csv", 150), ("round-2.csv", 190)):
        returned = pl.read_csv(MADE_PAIRS / name)
        drawn = pl.read_csv(out / "sheets" / name)
        drawn = drawn.unique("segment_id", keep="first", maintain_order=True)
        assert len(drawn) == rows
        assert returned["segment_id"].to_list() == drawn["segment_id"].to_list()
        assert (returned["verdict"] == "ok").to_list() == [
            spoken[segment_id] == transcript
            for segment_id, transcript in drawn.select("segment_id", "transcript").iter_rows()
        ]


def test_the_stored_pairs_equal_the_output_of_the_script(pairs, tmp_path):
    script = runpy.run_path(str(MADE_PAIRS / "make_pairs.py"))
    script["write_pairs"](tmp_path / "pairs.csv", pairs)
    assert (tmp_path / "pairs.csv").read_bytes() == (MADE_PAIRS / "pairs.csv").read_bytes()


@pytest.mark.slow
def test_made_pairs_are_proven_again_only_if_a_file_changed(second_act, tmp_path):
    out, report = second_act
    copy = tmp_path / "made_pairs"
    shutil.copytree(MADE_PAIRS, copy)
    evidence_report = out / "workspace" / "reports" / "evidence.json"
    written = evidence_report.stat().st_mtime_ns
    assert prove_made_pairs(copy, out).facts == report.facts
    assert evidence_report.stat().st_mtime_ns == written
    returned = copy / "round-2.csv"
    returned.write_text(returned.read_text("utf8").replace(",ok\n", ",wrong words\n", 30), "utf8")
    shutil.copytree(out, tmp_path / "out")
    changed = prove_made_pairs(copy, tmp_path / "out")
    assert changed.facts["target_proven"].startswith("no")


def test_data_other_than_the_demo_has_no_made_pairs(tmp_path):
    assert prove_made_pairs(None, tmp_path / "made-pairs") is None
    assert not (tmp_path / "made-pairs").exists()


def test_a_missing_file_of_made_pairs_is_reported(tmp_path):
    with pytest.raises(InputError, match=r"pairs\.csv: there is no such file of made pairs"):
        prove_made_pairs(tmp_path, tmp_path / "made-pairs")
