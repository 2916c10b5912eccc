"""Corpora, workspaces and reviews of an earlier version keep opening; tests/earlier/README.md says
what they are."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from earlier_data import RATE, TIME, clips_of, recording, rows_of, table, transcribe, without
from sheets import fill_in
from typer.testing import CliRunner

from nbaudio import (
    convert,
    diff,
    evidence,
    ingest,
    materialize,
    measure,
    open_corpus,
    recognize,
    review,
    score,
    select,
    stats,
    status,
)
from nbaudio.cli import app
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.tables.workspace import Workspace

EARLIER = Path(__file__).parent / "earlier"
CORPORA = (*CONTAINERS, "mds", "second")  # mds is read, and no longer written
QUICK = {"jobs": 1, "engine": "threading", "show_progress": False}
SELECTION = {"dev": 6, "test": 6, "group_by": ["speaker_id"], "gold": True}
READ = {"webdataset", "files", "second"}
BASES = {"webdataset"}  # the others are slow together
COUNTED = ("segments_kept", "segments_rejected", "reasons", "hours", "recordings", "train", "test")
WITHDRAWN = {"r0-01", *(f"r5-{n:02}" for n in range(12))}


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(EARLIER / "made.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def expected(unpacked):
    facts = json.loads((unpacked / "expected.json").read_text("utf8"))
    # Earlier versions called no split proven; all clips of test were found right.
    of_test = facts["evidence"]["test"]
    for amount in (of_test, of_test["by_hours"], of_test["by_words"]):
        amount["proven"] = True
    return facts


def copy(unpacked, folder):
    """Copy all that the earlier version made to a folder, as if it had been made there."""
    shutil.copytree(unpacked, folder)
    for path in folder.rglob("*.json"):
        content = path.read_text("utf8")
        if "@FOLDER@" in content:
            path.write_text(content.replace("@FOLDER@", folder.as_posix()), "utf8")


@pytest.fixture
def earlier_copy(unpacked, tmp_path, monkeypatch):
    """A copy of all that the earlier version made; the working directory."""
    copy(unpacked, tmp_path / "made")
    monkeypatch.chdir(tmp_path / "made")
    return tmp_path / "made"


def command(*words):
    """The report of a command that finds no problem."""
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# What earlier versions did not say.
NEW_FACTS = {"word_errors", "worst", "worst_groups", "reviewer_rates", "low_measured"}


def evidence_of(folder):
    facts = json.dumps(evidence(folder / "w").facts)
    return without_new_facts(json.loads(facts.replace(folder.as_posix(), "@FOLDER@")))


def without_new_facts(value):
    """Facts without those that earlier versions did not have."""
    if not isinstance(value, dict):
        return value
    return {name: without_new_facts(item) for name, item in value.items() if name not in NEW_FACTS}


def nearly(value):
    """A value of which numbers may differ by rounding: durations are summed as whole numbers."""
    if isinstance(value, dict):
        return {name: nearly(item) for name, item in value.items()}
    if isinstance(value, list):
        return [nearly(item) for item in value]
    return pytest.approx(value, rel=1e-9, abs=0) if isinstance(value, float) else value


def splits_of(rows):
    return dict(rows.drop_nulls("split").select("segment_id", "split").iter_rows())


def held_out(splits):
    return {key: split for key, split in splits.items() if split != "train"}


def samples_of(corpus):
    opened = open_corpus(corpus)
    ids = sorted(opened.segments["segment_id"])
    return {
        key: clip.samples.tolist() for key, clip in zip(ids, opened.read_many(ids), strict=True)
    }


def test_the_earlier_corpora_cover_all_containers(unpacked, expected):
    assert set(expected["corpora"]) == set(CORPORA)
    containers = {open_corpus(unpacked / name).info["parameters"]["container"] for name in CORPORA}
    assert containers == {*CONTAINERS, "mds"}
    (version,) = {open_corpus(unpacked / name).info["nbaudio"] for name in CORPORA}
    assert version


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in READ else pytest.mark.slow) for name in CORPORA]
)
def test_a_corpus_verifies_and_every_clip_is_read(unpacked, expected, name):
    command("verify", unpacked / name, "--jobs", 1, "--engine", "threading")
    was, now = expected["corpora"][name], clips_of(unpacked / name)
    assert was["problems"] == []
    assert {key: now[key] for key in now} == {key: was[key] for key in now}
    counted = json.loads(json.dumps(stats(unpacked / name).facts))
    assert {key: counted[key] for key in COUNTED} == {key: was["stats"][key] for key in COUNTED}
    assert command("status", unpacked / name)["facts"]["state"] == "finished"
    streamed = [
        clip.segment_id
        for split in open_corpus(unpacked / name).splits
        for clip in open_corpus(unpacked / name).stream(split, shuffle=False)
    ]
    assert sorted(streamed) == sorted(was["samples"])


def test_a_workspace_opens_with_its_tables(unpacked, expected):
    workspace = Workspace.open(unpacked / "w")
    rows = workspace.segments.select(
        "segment_id", "split", "decision", "reason", "similarity", "text", "snr_db"
    )
    assert {row[0]: list(row[1:]) for row in rows.iter_rows()} == expected["segments"]
    assert (workspace.generation, workspace.threshold) == (2, 0.7)
    assert workspace.recordings.height == 6
    assert not WITHDRAWN & set(workspace.segments["segment_id"])
    first = workspace.segments.row(0, named=True)
    assert first["asr_text_count"] == "6400 samples"
    assert first["text_other"] == f"{first['text'].upper()}."
    assert first["asr_text_small"] == first["text"][:-3]
    assert first["text_normalized"] == first["text"].lower()
    bounds = workspace.segments.row(by_predicate=pl.col("segment_id") == "r2-05", named=True)
    assert (bounds["start_sample"], bounds["end_sample"]) == (20000, 23600)


def test_evidence_and_verdicts_of_an_earlier_version_are_unchanged(earlier_copy, expected):
    assert (
        json.loads(json.dumps(review.verdicts("w").to_dicts(), default=str))
        == (expected["verdicts"])
    )
    facts, was = command("evidence", "w")["facts"], expected["evidence"]
    for key in ("target_proven", "how_right", "by_part", "reviewed", "rounds", "lowest_proven"):
        assert facts[key] == nearly(was[key]), key
    assert evidence_of(earlier_copy) == nearly(was)
    assert facts["reviewed"] == {"right": 13, "wrong": 1, "unsure": 2}
    assert facts["by_part"][0]["at_least"] == 0.218


@pytest.mark.slow
def test_a_partly_judged_sheet_of_an_earlier_version_is_continued(earlier_copy, expected):
    sheet = earlier_copy / "two-ben.xlsx"
    rows = list(openpyxl.load_workbook(sheet).worksheets[0].iter_rows(values_only=True))
    ids = [row[rows[0].index("segment_id")] for row in rows[1:]]
    was = {row["segment_id"]: row["verdict"] for row in expected["verdicts"]}
    assert was[ids[0]] == "ok"
    assert ids[1] in WITHDRAWN
    further = [key for key in ids[2:] if key not in WITHDRAWN][:1]
    fill_in(sheet, {ids[0]: "ok", further[0]: "noise"})
    report = command("review", "import", "w", sheet)
    assert (report["facts"]["new"], report["facts"]["known_already"]) == (1, 1)
    verdicts = {row["segment_id"]: row["verdict"] for row in review.verdicts("w").to_dicts()}
    assert verdicts == was | {further[0]: "noise"}

    taken_back = json.loads(next(Path("w/reviews/taken_back").glob("three.json")).read_text("utf8"))
    waiting = [key for key in taken_back["segment_ids"] if key not in {*WITHDRAWN, *verdicts}]
    assert len(waiting) == 2
    report = command("review", "export", "w", "--out", "four.csv", "--n", 4, "--seed", 9)
    drawn = json.loads(Path("w/reviews/four.json").read_text("utf8"))["segment_ids"]
    assert len(drawn) == 4
    assert not {*drawn} & {*WITHDRAWN, *verdicts}
    assert {*waiting} <= {*drawn}
    reviewed = evidence("w").facts["reviewed"]
    assert reviewed["wrong"] == expected["evidence"]["reviewed"]["wrong"] + 1


def test_a_sheet_imported_by_an_earlier_version_adds_no_verdicts(earlier_copy, expected):
    for name in ("one-ana", "one-ben"):
        os.utime(f"{name}.csv", (TIME + name.endswith("ben"), TIME + name.endswith("ben")))
    report = review.import_("w", ["one-ana.csv", "one-ben.csv"])
    assert report.facts["new"] == 0
    assert report.facts["known_already"] == 17
    assert all("verdicts on segments that were withdrawn" in p for p in report.problems)
    assert len(report.problems) == 2
    assert report.facts["adjudicators"] == "cy"
    assert review.disagreements("w").height == 0
    assert evidence_of(earlier_copy) == nearly(expected["evidence"])


@pytest.mark.slow
def test_evidence_is_equal_in_any_order_of_rows_and_with_any_number_of_threads(earlier_copy):
    def claims(threads):
        run = [sys.executable, "-m", "nbaudio", "evidence", "w", "--json"]
        environment = os.environ | {"POLARS_MAX_THREADS": str(threads)}
        return json.loads(subprocess.check_output(run, env=environment))["facts"]

    path = Path("w/segments.parquet")
    facts = claims(1)
    assert len(facts["curve"]) == 11
    assert claims(4) == facts
    rows = pl.read_parquet(path)
    rows.sample(fraction=1.0, shuffle=True, seed=5).write_parquet(path)
    assert not pl.read_parquet(path)["segment_id"].equals(rows["segment_id"])
    assert claims(4) == facts


def test_select_repeats_the_selection_of_an_earlier_version(earlier_copy, expected):
    was = {key: tuple(row[:3]) for key, row in expected["segments"].items()}
    report = command("select", "w", "--dev", 6, "--test", 6, "--group-by", "speaker_id", "--gold")
    rows = Workspace.open("w").segments.select("segment_id", "split", "decision", "reason")
    assert {row[0]: row[1:] for row in rows.iter_rows()} == was
    assert report["facts"]["train"]["segments"] == 20


def test_splits_of_a_source_are_selected_again(earlier_copy, expected):
    select("begun", splits="source", min_similarity=-1)
    assert splits_of(Workspace.open("begun").segments) == expected["begun"]


@pytest.fixture(scope="module")
def grown(unpacked, tmp_path_factory):
    """All that the earlier version made, after another recording came into the workspace."""
    folder = tmp_path_factory.mktemp("grown") / "made"
    copy(unpacked, folder)
    recording(folder / "audio/r7.flac", 7)
    new = [
        row
        | {
            "segment_id": f"r7-{n:02}",
            "audio": "r7.flac",
            "text": f"novo {n} {row['text']}",
            "asr_text": f"novo {n} {row['text'].lower()}",
            "speaker_id": "hana",
        }
        for n, row in enumerate(rows_of([6]))
    ]
    source = table(folder / "more.csv", without(new, "split"))
    w = folder / "w"
    report = ingest("table", source, audio=folder / "audio", out=w, add=True, jobs=1)
    assert report.problems == []
    score(w, normalize=["lower"])
    measure(w, jobs=1, engine="threading", show_progress=False)
    select(w, **SELECTION)
    return folder


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(name, marks=() if name in BASES else pytest.mark.slow)
        for name in (*CONTAINERS, "second")
    ],
)
def test_a_new_version_keeps_shards_and_what_is_held_out(
    grown, expected, tmp_path, monkeypatch, base
):
    monkeypatch.chdir(grown)
    new = tmp_path / "next"
    was = held_out({key: row[0] for key, row in expected["segments"].items() if row[0]})
    selected = splits_of(Workspace.open("w").segments)
    assert held_out(selected) == was
    assert {key for key in selected if key.startswith("r7")}

    report = materialize("w", out=new, base=base, **QUICK)
    assert report.problems == []
    command("verify", new, "--jobs", 1, "--engine", "threading")
    earlier = expected["corpora"][base]
    now = clips_of(new)
    assert now["version"] == earlier["version"] + 1
    assert now["split"] == selected
    equal = {
        name for name in earlier["shards"] if now["shards"].get(name) == earlier["shards"][name]
    }
    assert report.facts["shards_kept_from_before"] == len(equal)
    # Nothing of the second version has changed; of the first, what is held out has not.
    unchanged = {name for name in earlier["shards"] if base == "second" or "train" not in name}
    assert unchanged <= equal
    for name in unchanged:
        before, after = Path(base, name), new / name
        assert before.is_dir() or before.read_bytes() == after.read_bytes()
    assert (
        now["samples"].items()
        >= {key: count for key, count in earlier["samples"].items() if key in was}.items()
    )
    assert diff(base, new).facts["shards"]["equal"] == len(equal)


@pytest.mark.parametrize(("name", "container"), [("mds", "webdataset"), ("webdataset", "zip")])
def test_a_corpus_is_converted(earlier_copy, expected, name, container):
    report = command("convert", name, "--container", container, "--out", "other", "--jobs", 1)
    assert report["problems"] == []
    now, was = clips_of("other"), expected["corpora"][name]
    for key in ("samples", "give", "sha256", "split", "text"):
        assert now[key] == was[key], key
    assert samples_of("other") == samples_of(name)


@pytest.mark.slow
def test_an_unfinished_corpus_is_finished(earlier_copy, expected):
    assert len(list(Path("killed").glob("*/*.tar"))) == 3
    assert not Path("killed/corpus.json").exists()
    assert status("killed").facts["state"] == "killed"
    how = {"rate": RATE, "shard_count": 3} | QUICK
    assert materialize("w", out="killed", **how).problems == []
    materialize("w", out="whole", **how)
    now, whole = clips_of("killed"), clips_of("whole")
    assert {key: now[key] for key in ("samples", "sha256", "split", "text", "shards")} == {
        key: whole[key] for key in ("samples", "sha256", "split", "text", "shards")
    }
    assert now["split"] == expected["corpora"]["second"]["split"]
    assert now["sha256"] == expected["corpora"]["second"]["sha256"]
    assert not list(Path("killed").rglob("*.partial"))


def test_an_unfinished_measurement_is_finished(earlier_copy):
    measure("begun", jobs=1, engine="threading", show_progress=False)
    columns = ["segment_id", "rms_dbfs", "peak_dbfs", "snr_db", "bandwidth_hz", "cut_end"]
    measured, whole = (Workspace.open(name).segments.select(columns) for name in ("begun", "w"))
    # Bounds of one were corrected in w.
    both = measured.join(whole, on="segment_id").filter(pl.col("segment_id") != "r2-05")
    assert both.height == 46
    for name in columns[1:]:
        assert both[name].equals(both[f"{name}_right"], null_equal=True), name
    assert measured["rms_dbfs"].null_count() == 0


def test_an_unfinished_recognition_is_finished(earlier_copy):
    report = recognize(
        "begun", with_=transcribe, as_="count", engine="threading", show_progress=False
    )
    facts = report.facts
    assert facts["recognized_now"] + facts["already_recognized"] == 48
    assert Workspace.open("begun").segments["asr_text_count"].to_list() == ["6400 samples"] * 48


@pytest.mark.slow
def test_withdrawn_segments_are_not_in_the_next_version(earlier_copy):
    command("withdraw", "w", "--speaker", "goga", "--why", "asked for it")
    select("w", **SELECTION)
    report = materialize("w", out="next", base="second", **QUICK)
    opened = open_corpus("next")
    assert report.problems == []
    assert "goga" not in opened.segments["speaker_id"]
    assert "fran" not in opened.segments["speaker_id"]
    kinds = [row["kind"] for row in opened.info["tombstones"]]
    assert kinds == ["segment", "speaker", "speaker"]
    command("verify", "next", "--jobs", 1, "--engine", "threading")


def test_diff_and_stats_read_corpora_of_an_earlier_version(earlier_copy, expected):
    facts = command("diff", "webdataset", "second")["facts"]
    first, second = (expected["corpora"][name] for name in ("webdataset", "second"))
    added = len(second["samples"].keys() - first["samples"].keys())
    assert facts["added"]["segments"] == added == 11
    assert (facts["removed"]["segments"], facts["changed"]["bounds"]) == (9, 1)
    assert (facts["shards"]["equal"], facts["moved"]["segments"]) == (12, 0)
    now = json.loads(json.dumps(stats("w").facts, default=str))
    assert {key: now[key] for key in COUNTED} == {key: expected["stats"][key] for key in COUNTED}


def test_windows_of_a_corpus_are_converted_into_clips(earlier_copy):
    convert("tfrecord", container="parquet", out="other", jobs=1, show_progress=False)
    assert samples_of("other") == samples_of("tfrecord")
