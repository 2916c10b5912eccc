"""`ingest --add`: the same source grown or changed, or a further one, into a workspace that keeps
what it has."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from specimens import LAYOUTS, format_of, librispeech_tree, lines, tone
from stores import register, unregister
from typer.testing import CliRunner
from web import serving

import nbaudio
from nbaudio import evidence, ingest, materialize, review, score, select
from nbaudio.cli import app
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.proof.evidence import ProofState
from nbaudio.review import Verdict, append_verdicts
from nbaudio.review.corrections import correct_bounds, correct_texts
from nbaudio.review.manual_decisions import import_decisions
from nbaudio.review.rounds import gold_ids
from nbaudio.review.state import Correction, ReviewState, append_corrections, content_hashes
from nbaudio.sources import grow as growth
from nbaudio.sources import recordings as probing
from nbaudio.tables.schemas import CORRECTED_TEXTS, EARLIER_SPLITS, GROWTH
from nbaudio.tables.tombstones import TOMBSTONES, WITHDRAWN, tombstone
from nbaudio.tables.workspace import Workspace

TABLES = ("recordings", "segments", "names", "problems")


def seg(file, start, end, text="dobar dan", asr=None, **more):
    return {
        "file": file,
        "start": start,
        "end": end,
        "words": text.split(),
        "asr": (asr or text).split(),
        **more,
    }


def write(path, rows):
    return lines(path, *(json.dumps(row) for row in rows))


def sentences(file, count, *, words="rečenica"):
    return [
        seg(file, n, n + 1, f"{words} {n} iz {Path(file).stem}", speaker=Path(file).stem)
        for n in range(count)
    ]


def contents(workspace):
    """The bytes of the tables."""
    return {path.name: path.read_bytes() for path in sorted(workspace.path.glob("*.parquet"))}


def by_id(workspace, *columns):
    return {
        row[0]: row[1] if len(columns) == 1 else row[1:]
        for row in workspace.segments.select("segment_id", *columns).iter_rows()
    }


def touch(path, seconds=10):
    """Change the time of a file, but not its bytes."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + seconds * 10**9))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder as `sittings` and `chosen` have it, which they copy."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "audio").mkdir()
    for number, (rate, channels) in enumerate([(8000, 1), (16000, 2), (11025, 1)]):
        samples = 0.1 * np.random.default_rng(number).normal(size=(6 * rate, channels))
        sf.write(folder / f"audio/s{number}.wav", samples, rate)
    write(folder / "asr.json", [*sentences("s0.wav", 5), *sentences("s1.wav", 5)])
    ingest("parlaspeech", folder / "asr.json", audio=folder / "audio", out=folder / "W", add=True)
    workspace = Workspace.open(folder / "W")
    score(workspace)
    select(workspace, dev=2, test=2, group_by="")
    return folder


@pytest.fixture
def sittings(template, tmp_path):
    """Three recordings at several rates and channels, and the transcripts of the first two."""
    shutil.copytree(template / "audio", tmp_path / "audio")
    shutil.copy2(template / "asr.json", tmp_path)
    return tmp_path


@pytest.fixture
def bring(sittings):
    def call(**options):
        options = {"audio": sittings / "audio", "out": sittings / "W", "add": True, **options}
        return ingest("parlaspeech", options.pop("source", sittings / "asr.json"), **options)

    return call


@pytest.fixture
def chosen(template, sittings):
    """The workspace of the first two recordings, scored and selected, as if made in this folder."""
    shutil.copytree(template / "W", sittings / "W")
    for path in (sittings / "W").rglob("*.json*"):
        content = path.read_text("utf8")
        path.write_text(content.replace(template.as_posix(), sittings.as_posix()), "utf8")
    return Workspace.open(sittings / "W")


@pytest.fixture
def probed(monkeypatch):
    """The files that are opened or hashed while recordings are probed."""
    found = []
    for module, name in ((probing, "probe"), (probing.atomic, "sha256_file")):
        real = getattr(module, name)

        def noted(path, real=real, **options):
            found.append(path.name)
            return real(path, **options)

        monkeypatch.setattr(module, name, noted)
    return found


# --- the same source, grown or changed


def test_new_segments_are_appended_and_old_rows_stay_unchanged(sittings, chosen, bring):
    before = chosen.segments
    write(
        sittings / "asr.json",
        [*sentences("s2.wav", 3), *sentences("s1.wav", 6), *sentences("s0.wav", 5)],
    )
    report = bring()
    after = chosen.segments
    assert after.head(10).equals(before)
    assert after["segment_id"].to_list()[10:] == ["s2_0-1", "s2_1-2", "s2_2-3", "s1_5-6"]
    new = after.tail(4)
    assert new["decision"].to_list() == ["pending"] * 4
    assert new["end_sample"].to_list() == [11025, 22050, 33075, 96000]
    assert new["similarity"].null_count() == new["split"].null_count() == 4
    assert {
        name: report.facts[name] for name in ("segments", "new", "changed", "unchanged", "removed")
    } == {"segments": 14, "new": 4, "changed": 0, "unchanged": 10, "removed": 0}
    assert report.facts["recordings_by_status"] == {
        "new": 1,
        "changed": 0,
        "arrived": 0,
        "lost": 0,
        "unchanged": 2,
    }
    assert "score and select again: 4 new or changed segments have no score" in report.warnings
    assert not [line for line in report.warnings if "is new" in line or "changed under" in line]
    assert chosen.recordings["recording_id"].to_list() == ["s0", "s1", "s2"]


def test_ingest_add_stores_the_splits_of_the_earlier_selection(sittings, chosen, bring):
    before = chosen.segments.filter(pl.col("split").is_not_null())
    write(
        sittings / "asr.json",
        [*sentences("s0.wav", 5), *sentences("s1.wav", 5), *sentences("s2.wav", 3)],
    )
    bring()
    kept = chosen.table(EARLIER_SPLITS)
    assert kept.select("segment_id", "split").equals(before.select("segment_id", "split"))
    assert kept["sentence"].to_list() == before["text"].to_list()
    assert kept.columns == ["segment_id", "split", "sentence"]


@pytest.mark.slow
def test_the_columns_of_the_grouping_are_kept_with_it_and_held_out_segments_stay_held_out(
    sittings, bring
):
    workspace = Workspace(sittings / "W")
    write(
        sittings / "asr.json",
        [*sentences("s0.wav", 5), *sentences("s1.wav", 5), *sentences("s2.wav", 5)],
    )
    bring()
    assert not (workspace.path / "earlier_splits.parquet").exists()
    select(workspace, dev=1, test=1, group_by="speaker_id")
    held_out = {key for key, split in by_id(workspace, "split").items() if split in ("dev", "test")}
    more = [
        *sentences("s0.wav", 5),
        *sentences("s1.wav", 5),
        *sentences("s2.wav", 5),
        seg("s0.wav", 5, 6, "novo"),
    ]
    write(sittings / "asr.json", more)
    bring()
    first = workspace.table(EARLIER_SPLITS)
    assert first.columns == ["segment_id", "split", "sentence", "speaker_id"]
    assert first["speaker_id"].to_list() == [key[:2] for key in first["segment_id"]]

    everything = workspace.segments.with_columns(split=pl.lit("train"), decision=pl.lit("accept"))
    workspace.save(segments=everything)
    workspace.save_report("select", {"facts": {"parameters": {"group_by": ["recording_id"]}}})
    write(sittings / "asr.json", [*more, seg("s1.wav", 5, 6, "opet novo")])
    bring()
    second = workspace.table(EARLIER_SPLITS)
    assert second.columns == ["segment_id", "split", "sentence", "speaker_id", "recording_id"]
    assert second.filter(pl.col("segment_id").is_in(held_out)).equals(
        first.filter(pl.col("segment_id").is_in(held_out)).with_columns(
            recording_id=pl.lit(None, pl.String)
        )
    )
    others = second.filter(~pl.col("segment_id").is_in(held_out))
    assert len(second) == 16
    assert others["split"].unique().to_list() == ["train"]
    assert others["speaker_id"].null_count() == len(others)
    assert others["recording_id"].null_count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_an_identical_source_changes_nothing(tmp_path, name):
    made = LAYOUTS[name](tmp_path / "source")
    options = {"audio": made.audio, "options": made.options, "out": tmp_path / "W", "add": True}
    ingest(format_of(name), made.source, **options)
    workspace = Workspace.open(tmp_path / "W")
    before = contents(workspace)
    report = ingest(format_of(name), made.source, **options)
    assert contents(workspace) == before
    assert set(before) == {f"{table}.parquet" for table in TABLES}
    assert (report.facts["new"], report.facts["changed"], report.facts["removed"]) == (0, 0, 0)
    assert report.facts["unchanged"] == len(workspace.segments)
    assert not [line for line in report.warnings if "score and select" in line]


@pytest.mark.slow
def test_unchanged_recordings_are_not_read_again(sittings, bring, probed):
    bring()
    assert sorted(probed) == ["s0.wav", "s0.wav", "s1.wav", "s1.wav"]
    probed.clear()
    write(sittings / "asr.json", [*sentences("s0.wav", 5), *sentences("s2.wav", 3)])
    bring()
    assert probed == ["s2.wav", "s2.wav"]
    probed.clear()
    bring(sha256=False)
    assert probed == []
    assert Workspace(sittings / "W").recordings["sha256"].null_count() == 0
    touch(sittings / "audio/s0.wav")
    before = contents(Workspace(sittings / "W"))
    report = bring()
    assert probed == ["s0.wav", "s0.wav"]
    assert report.facts["recordings_by_status"]["unchanged"] == 2
    after = contents(Workspace(sittings / "W"))
    # Its time is another.
    assert {name for name in before if before[name] != after[name]} == {"recordings.parquet"}
    probed.clear()
    bring()
    assert probed == []


def test_without_hashes_changed_recordings_are_found_by_file_time(sittings, bring, probed):
    bring(sha256=False)
    probed.clear()
    bring(sha256=False)
    assert probed == []
    touch(sittings / "audio/s1.wav")
    report = bring(sha256=False)
    assert probed == ["s1.wav"]
    assert report.facts["recordings_by_status"]["changed"] == 1
    assert report.facts["changed_by"] == {"audio": 5}


@pytest.mark.slow
def test_other_words_times_or_hypotheses_under_the_same_id_are_changed_segments(
    sittings, chosen, bring
):
    names = {f"u{n}": row for n, row in enumerate(sentences("s0.wav", 5))}

    def table(rows):
        columns = ("id", "file", "start", "end", "text", "asr", "speaker")
        made = [
            [
                key,
                *(row[c] for c in ("file", "start", "end")),
                " ".join(row["words"]),
                " ".join(row["asr"]),
                row["speaker"],
            ]
            for key, row in rows.items()
        ]
        return lines(
            sittings / "t.csv", ",".join(columns), *(",".join(map(str, row)) for row in made)
        )

    out = sittings / "V"
    options = {"audio": sittings / "audio", "out": out, "add": True, "options": {"asr_text": "asr"}}
    ingest("table", table(names), **options)
    workspace = Workspace.open(out)
    score(workspace)
    select(workspace, dev=1, test=1, group_by="")
    before = workspace.segments
    names["u0"] = {**names["u0"], "words": ["drugo"]}
    names["u1"] = {**names["u1"], "end": 1.75}
    names["u2"] = {**names["u2"], "asr": ["nešto"]}
    names["u3"] = {**names["u3"], "speaker": "druga"}
    report = ingest("table", table(names), **options)
    assert report.facts["changed_by"] == {"text": 1, "times": 1, "hypothesis": 1, "metadata": 1}
    assert [
        line
        for line in report.warnings
        if "changed under the same id: 2 segments (u0, u1);" in line
    ]
    assert "score and select again: 3 new or changed segments have no score" in report.warnings
    after = by_id(
        workspace, "text", "end_sample", "asr_text", "speaker_id", "similarity", "split", "decision"
    )
    texts = dict(before.select("segment_id", "text").iter_rows())
    assert after["u0"] == ("drugo", 8000, texts["u0"], "s0", None, None, "pending")
    assert after["u1"] == (texts["u1"], 14000, texts["u1"], "s0", None, None, "pending")
    assert after["u2"] == (texts["u2"], 24000, "nešto", "s0", None, None, "pending")
    assert after["u3"] == (texts["u3"], 32000, texts["u3"], "druga", 1.0, None, "pending")
    assert workspace.segments.filter(segment_id="u4").equals(before.filter(segment_id="u4"))
    assert workspace.table(GROWTH).select("segment_id", "added_in").rows() == [("u0", 2), ("u1", 2)]
    score(workspace)
    assert workspace.segments["similarity"].null_count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_tables_of_many_row_groups_are_merged_row_by_row(
    sittings, chosen, bring, monkeypatch, rows
):
    before = chosen.segments
    monkeypatch.setattr("nbaudio.tables.parquet_files.ROWS_A_GROUP", rows)
    some = [*sentences("s0.wav", 5), *sentences("s1.wav", 5), *sentences("s2.wav", 5)]
    for number in (0, 3, 4, 9):
        some[number] = {**some[number], "words": ["promjena", str(number)]}
    write(sittings / "asr.json", some[::-1])
    bring()
    after = chosen.segments
    assert after["segment_id"].to_list()[:10] == before["segment_id"].to_list()
    texts = [
        "promjena 0",
        *before["text"][1:3],
        "promjena 3",
        "promjena 4",
        *before["text"][5:9],
        "promjena 9",
    ]
    assert after["text"].to_list()[:10] == texts
    assert [row is None for row in after["similarity"]] == [
        n in (0, 3, 4, 9) or n > 9 for n in range(15)
    ]


@pytest.mark.slow
def test_the_audio_folder_of_a_source_may_be_left_out(sittings, chosen, bring):
    write(sittings / "asr.json", [*sentences("s0.wav", 5), *sentences("s2.wav", 1)])
    report = bring(audio=None)
    assert report.facts["recordings_by_status"] == {
        "new": 1,
        "changed": 0,
        "arrived": 0,
        "lost": 0,
        "unchanged": 1,
    }
    assert (
        chosen.settings["audio"]
        == chosen.settings["sources"][0]["audio"]
        == str(sittings / "audio")
    )


@pytest.mark.slow
def test_replaced_audio_updates_segments_also_those_removed_from_the_source(
    sittings, chosen, bring
):
    before = chosen.segments
    file = sittings / "audio/s1.wav"
    size = file.stat().st_size
    sf.write(file, 0.1 * np.random.default_rng(99).normal(size=(6 * 16000, 2)), 16000)
    assert file.stat().st_size == size
    write(sittings / "asr.json", [*sentences("s0.wav", 5), *sentences("s1.wav", 4)])
    report = bring()
    assert report.facts["changed_by"] == {"audio": 5}
    assert (report.facts["unchanged"], report.facts["removed"]) == (5, 1)
    after = chosen.segments
    assert after.head(5).equals(before.head(5))
    changed = after.tail(5)
    assert changed["decision"].unique().to_list() == ["pending"]
    assert changed["similarity"].null_count() == changed["split"].null_count() == 5
    same = ["segment_id", "start_sample", "end_sample", "text", "asr_text", "speaker_id"]
    assert changed.select(same).equals(before.tail(5).select(same))
    assert set(before.filter(pl.col("split").is_in(["dev", "test"]))["segment_id"]) <= set(
        chosen.table(EARLIER_SPLITS)["segment_id"]
    )


@pytest.mark.slow
def test_audio_of_another_rate_and_length_moves_and_rejects_segments(sittings, chosen, bring):
    sf.write(sittings / "audio/s1.wav", np.zeros(int(3.2 * 8000)), 8000)
    write(sittings / "asr.json", [*sentences("s0.wav", 5), *sentences("s1.wav", 4)])
    bring()
    assert by_id(chosen, "end_sample", "reason")["s1_2-3"] == (24000, None)
    assert by_id(chosen, "end_sample", "reason")["s1_3-4"] == (32000, "past_the_end")
    assert by_id(chosen, "end_sample", "reason")["s1_4-5"] == (40000, "past_the_end")


def test_segments_removed_from_the_source_are_listed_and_kept(sittings, chosen, bring):
    before = chosen.segments
    write(sittings / "asr.json", sentences("s0.wav", 4))
    report = bring()
    assert chosen.segments.equals(before)
    assert report.facts["removed"] == 6
    assert [
        line
        for line in report.warnings
        if line.startswith("removed from the source: 6 segments (s0_4-5, s1_0-1, s1_1-2, ...) of 2")
    ]
    assert len(chosen.recordings) == 2
    gone = chosen.table("problems").filter(
        pl.col("reason").str.starts_with("no longer in the source")
    )
    assert gone["item"].to_list() == [
        "s0_4-5",
        *(f"s1_{second}-{second + 1}" for second in range(5)),
    ]


@pytest.mark.slow
def test_missing_or_broken_recordings_keep_their_earlier_rows(sittings, chosen, bring):
    before = chosen.segments
    facts = chosen.recordings
    (sittings / "audio/s0.wav").unlink()
    (sittings / "audio/s1.wav").write_bytes(b"no audio")
    report = bring()
    assert chosen.segments.equals(before)
    assert chosen.recordings.equals(facts)
    assert report.facts["recordings_by_status"]["lost"] == 2
    assert [line for line in report.problems if "no such recording" in line]
    assert [
        line for line in report.problems if "s1.wav" in line and "no such recording" not in line
    ]


@pytest.mark.slow
def test_a_new_row_with_the_times_of_an_old_one_is_a_duplicate(sittings, chosen, bring):
    write(
        sittings / "asr.json",
        [seg("s0.wav", "0.0", 1, "isto vrijeme"), *sentences("s0.wav", 5), *sentences("s1.wav", 5)],
    )
    bring()
    assert by_id(chosen, "decision", "reason")["s0_0.0-1"] == ("reject", "duplicate")
    assert by_id(chosen, "decision")["s0_0-1"] == "accept"


@pytest.mark.slow
def test_audio_can_be_added_after_the_transcripts(sittings, bring):
    bring(audio=None)
    workspace = Workspace.open(sittings / "W")
    score(workspace)
    before = workspace.segments
    assert before["end_sample"].null_count() == 10
    (sittings / "audio/s1.wav").rename(sittings / "s1.wav")
    report = bring()
    assert report.facts["recordings_by_status"]["arrived"] == 1
    assert report.facts["changed_by"] == {"audio_arrived": 5}
    after = workspace.segments
    assert after["end_sample"].to_list() == [8000, 16000, 24000, 32000, 40000, *[None] * 5]
    assert after["similarity"].equals(before["similarity"])
    assert not (workspace.path / "growth.parquet").exists()
    (sittings / "s1.wav").rename(sittings / "audio/s1.wav")
    bring()
    once = Workspace(sittings / "V")
    bring(out=once.path)
    score(once)
    assert workspace.segments.equals(once.segments)
    assert workspace.recordings.equals(once.recordings)


def test_recording_ids_stay_when_a_later_file_has_the_same_name(sittings, bring):
    bring()
    tone(sittings / "audio/s0.flac", 3, rate=16000)
    write(
        sittings / "asr.json",
        [*sentences("s0.flac", 2), *sentences("s0.wav", 5), *sentences("s1.wav", 5)],
    )
    bring()
    workspace = Workspace.open(sittings / "W")
    assert dict(workspace.recordings.select("recording_id", "path").iter_rows()) == {
        "s0": "s0.wav", "s1": "s1.wav", "s0.flac": "s0.flac",
    }  # fmt: skip
    assert workspace.segments["segment_id"].to_list()[:5] == [f"s0_{n}-{n + 1}" for n in range(5)]
    before = contents(workspace)
    bring()
    assert contents(workspace) == before


def test_a_moved_audio_folder_and_another_names_file_are_recorded(sittings, chosen, bring, probed):
    (sittings / "audio").rename(sittings / "elsewhere")
    names = lines(sittings / "names.csv", "name,path", "s0.wav,s0.wav")
    before = chosen.segments
    report = bring(audio=sittings / "elsewhere", names=names)
    assert report.facts["unchanged"] == 10
    assert chosen.segments.equals(before)
    assert chosen.audio_root == sittings / "elsewhere"
    assert chosen.settings["names"] == chosen.settings["sources"][0]["names"] == str(names)
    assert chosen.recordings["path"].to_list() == ["s0.wav", "s1.wav"]


def test_new_recordings_of_a_folder_add_windows(tmp_path):
    tone(tmp_path / "a/x.wav", 2.5)
    options = {"out": tmp_path / "W", "options": {"window": 1}, "add": True}
    ingest("folder", tmp_path / "a", **options)
    tone(tmp_path / "a/sub/y.flac", 1.5, rate=16000)
    report = ingest("folder", tmp_path / "a", **options)
    assert report.facts["new"] == 2
    workspace = Workspace.open(tmp_path / "W")
    assert workspace.segments["segment_id"].to_list() == [
        "x_0-1",
        "x_1-2",
        "x_2-2.5",
        "sub/y_0-1",
        "sub/y_1-1.5",
    ]


def test_kaldi_and_librispeech_sources_can_grow(tmp_path):
    tone(tmp_path / "k/a.wav", 3)
    lines(tmp_path / "k/wav.scp", "a a.wav")
    lines(tmp_path / "k/segments", "u1 a 0 1", "u2 a 1 2")
    lines(tmp_path / "k/text", "u1 jedan", "u2 dva")
    ingest("kaldi", tmp_path / "k", out=tmp_path / "W", add=True)
    lines(tmp_path / "k/segments", "u0 a 2 3", "u1 a 0 1", "u2 a 1 2")
    lines(tmp_path / "k/text", "u0 nula", "u1 jedan", "u2 dvije")
    report = ingest("kaldi", tmp_path / "k", out=tmp_path / "W", add=True)
    assert (report.facts["new"], report.facts["changed_by"]) == (1, {"text": 1})
    assert by_id(Workspace(tmp_path / "W"), "text") == {"u1": "jedan", "u2": "dvije", "u0": "nula"}

    librispeech_tree(tmp_path / "l/train-x", {"1-2-0000": "ONE"})
    ingest("librispeech", tmp_path / "l", out=tmp_path / "L", add=True)
    before = Workspace(tmp_path / "L").segments
    librispeech_tree(tmp_path / "l/dev-x", {"3-4-0000": "TWO"})
    ingest("librispeech", tmp_path / "l", out=tmp_path / "L", add=True)
    assert Workspace(tmp_path / "L").segments.head(1).equals(before)
    assert len(Workspace(tmp_path / "L").segments) == 2


# --- corrections, verdicts and decisions


def correct(workspace, segment_id, text):
    rows = workspace.segments.filter(segment_id=segment_id)
    [content] = content_hashes(rows)
    append_verdicts(
        workspace,
        [
            Verdict(
                segment_id, content, "wrong words", "", text, "ana", "2026-11-21T03:00:00Z", "panel"
            )
        ],
    )
    correct_texts(workspace)


def move_bounds(workspace, segment_id, start, end):
    _, was_start, was_end = (
        workspace.segments.filter(segment_id=segment_id)
        .select("segment_id", "start_sample", "end_sample")
        .row(0)
    )
    append_corrections(
        workspace,
        [Correction(segment_id, start, end, was_start, was_end, "ana", "2026-11-21T03:00:00Z")],
    )
    correct_bounds(workspace)


@pytest.mark.slow
def test_corrections_stay_while_the_source_text_is_unchanged(sittings, chosen, bring):
    correct(chosen, "s0_0-1", "ispravljeno")
    correct(chosen, "s0_1-2", "i ovo")
    move_bounds(chosen, "s0_1-2", 8100, 15900)
    move_bounds(chosen, "s0_2-3", 16100, 23900)
    before = chosen.segments
    originals = chosen.table(CORRECTED_TEXTS)
    rows = [*sentences("s0.wav", 5), *sentences("s1.wav", 5), *sentences("s2.wav", 2)]
    write(sittings / "asr.json", rows)
    report = bring()
    assert report.facts["changed"] == 0
    assert chosen.segments.head(10).equals(before)
    assert chosen.table(CORRECTED_TEXTS).equals(originals)

    rows[1] = {**rows[1], "words": ["sasvim", "drugo"]}
    write(sittings / "asr.json", rows)
    report = bring()
    assert report.facts["changed_by"] == {"text": 1}
    columns = (
        "text",
        "text_raw",
        "text_corrected",
        "text_origin",
        "start_sample",
        "end_sample",
        "corrected_by",
    )
    after = by_id(chosen, *columns)
    assert after["s0_0-1"][:3] == ("ispravljeno", "rečenica 0 iz s0", "ispravljeno")
    assert after["s0_1-2"] == ("sasvim drugo", None, None, None, 8100, 15900, "ana")
    assert after["s0_2-3"][4:] == (16100, 23900, "ana")
    assert chosen.table(CORRECTED_TEXTS)["segment_id"].to_list() == ["s0_0-1"]
    score(chosen)
    correct_texts(chosen)
    assert by_id(chosen, *columns) == after
    assert by_id(chosen, "similarity")["s0_0-1"] < 1


def test_replaced_audio_voids_corrections_and_verdicts(sittings, chosen, bring):
    correct(chosen, "s1_0-1", "ispravljeno")
    move_bounds(chosen, "s1_2-3", 32100, 47900)
    for key in ("s0_0-1", "s1_1-2"):
        [content] = content_hashes(chosen.segments.filter(segment_id=key))
        append_verdicts(
            chosen, [Verdict(key, content, "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel")]
        )
    assert gold_ids(chosen, chosen.segments) == {"s0_0-1", "s1_1-2"}
    sf.write(sittings / "audio/s1.wav", np.zeros((6 * 16000, 2)), 16000)
    bring()
    after = by_id(chosen, "text", "text_corrected", "start_sample", "end_sample", "corrected_by")
    assert after["s1_0-1"] == ("rečenica 0 iz s1", None, 0, 16000, None)
    assert after["s1_2-3"] == ("rečenica 2 iz s1", None, 32000, 48000, None)
    assert len(chosen.table(CORRECTED_TEXTS)) == 0
    correct_texts(chosen)
    correct_bounds(chosen)
    assert (
        by_id(chosen, "text", "text_corrected", "start_sample", "end_sample", "corrected_by")
        == after
    )
    assert gold_ids(chosen, chosen.segments) == {"s0_0-1"}
    [content] = content_hashes(chosen.segments.filter(segment_id="s1_1-2"))
    append_verdicts(
        chosen, [Verdict("s1_1-2", content, "ok", "", None, "ana", "2026-11-23T03:00:00Z", "panel")]
    )
    assert gold_ids(chosen, chosen.segments) == {"s0_0-1", "s1_1-2"}


@pytest.mark.slow
def test_verdicts_on_replaced_audio_do_not_apply_to_the_new_audio(sittings, chosen, bring):
    review.export(chosen, out=sittings / "one.csv", n=10)
    record = ReviewState.load(chosen).records["one"]
    said = [
        Verdict(key, content, "ok", "", None, "ana", "2026-11-24T03:00:00Z", "one")
        for key, content in zip(record.segment_ids, record.contents, strict=True)
    ]
    sf.write(sittings / "audio/s1.wav", np.zeros((6 * 16000, 2)), 16000)
    bring()
    append_verdicts(chosen, said)
    assert gold_ids(chosen, chosen.segments) == {f"s0_{n}-{n + 1}" for n in range(5)}
    assert evidence(chosen).facts["reviewed"] == {"right": 5, "wrong": 0, "unsure": 5}


def test_a_column_with_another_type_is_refused_and_changes_nothing(sittings, chosen, bring):
    chosen.save(segments=chosen.segments.with_columns(speaker_note=pl.lit([1], pl.List(pl.Int64))))
    rows = lines(sittings / "t.csv", "file,start,end,text,speaker_note", "s2.wav,0,1,da,x")
    before = contents(chosen)
    with pytest.raises(
        InputError,
        match=(
            r"segments\.parquet: column speaker_note is List\(Int64\) and cannot be read as "
            r"String"
        ),
    ):
        ingest("table", rows, audio=sittings / "audio", out=chosen.path, add=True)
    assert contents(chosen) == before
    assert not (chosen.path / "saving").exists()


def test_decisions_and_the_chosen_threshold_are_kept(sittings, chosen, bring):
    import_decisions(
        chosen,
        pl.DataFrame({"segment_id": ["s0_3-4"], "decision": ["reject"], "reason": ["aplauz"]}),
    )
    chosen.choose_threshold(0.5)
    write(
        sittings / "asr.json",
        [*sentences("s0.wav", 5), *sentences("s1.wav", 5), *sentences("s2.wav", 2)],
    )
    bring()
    assert by_id(chosen, "decision", "reason")["s0_3-4"] == ("reject", "aplauz")
    score(chosen)
    select(chosen, dev=1, test=1, group_by="")
    assert by_id(chosen, "decision", "reason")["s0_3-4"] == ("reject", "aplauz")
    assert chosen.threshold == 0.5


@pytest.fixture
def reviewed(tmp_path):
    """Two hundred segments without audio, of which a review has drawn and judged eighty: all are
    right."""
    rows = [seg("a.wav", n, n + 1, f"rečenica {n}") for n in range(200)]
    write(tmp_path / "asr.json", rows)
    ingest("parlaspeech", tmp_path / "asr.json", out=tmp_path / "W", add=True)
    workspace = Workspace.open(tmp_path / "W")
    score(workspace)
    review.export(workspace, out=tmp_path / "one.csv", n=80)
    record = ReviewState.load(workspace).records["one"]
    said = zip(record.segment_ids, record.contents, strict=True)
    append_verdicts(
        workspace,
        [
            Verdict(key, content, "ok", "", None, "ana", "2026-11-21T03:00:00Z", "one")
            for key, content in said
        ],
    )
    return workspace, rows, record


def least(workspace):
    """The lower bound of precision of all segments, and what is counted."""
    report = evidence(workspace, precision=0.9)
    [row] = [
        row for row in workspace.report("evidence")["facts"]["curve"] if row["threshold"] == -1.0
    ]
    return row, report


def grow(workspace, rows):
    report = ingest(
        "parlaspeech", write(workspace.path.parent / "asr.json", rows), out=workspace.path, add=True
    )
    score(workspace)
    return report


@pytest.mark.slow
def test_verdicts_prove_after_growth_what_they_proved_of_the_segments_that_could_be_drawn(reviewed):
    workspace, rows, _ = reviewed
    alone, _ = least(workspace)
    grow(workspace, [*rows, *(seg("b.wav", n, n + 1, f"nova {n}") for n in range(50))])
    row, report = least(workspace)
    assert (row["segments"], row["reviewed"], row["wrong"]) == (250, 80, 0)
    assert row["low"] == pytest.approx(alone["low"] * 200 / 250)
    assert row["precision"] == 1
    assert [
        line
        for line in report.warnings
        if "50 of 250 segments could not be drawn by any round" in line
    ]
    assert not [line for line in report.warnings if "replaced" in line]
    grow(workspace, [*rows, *(seg("b.wav", n, n + 1, f"nova {n}") for n in range(60))])
    assert least(workspace)[0]["low"] == pytest.approx(alone["low"] * 200 / 260)


@pytest.mark.slow
def test_a_round_after_growth_covers_all_segments_and_adds_to_evidence(reviewed, tmp_path):
    workspace, rows, _ = reviewed
    grow(workspace, [*rows, *(seg("b.wav", n, n + 1, f"nova {n}") for n in range(50))])
    review.export(workspace, out=tmp_path / "two.csv", n=60)
    state = ReviewState.load(workspace)
    record = state.records["two"]
    said = list(zip(record.segment_ids, record.contents, strict=True))
    word = {key: "wrong words" if key.startswith("b") else "ok" for key, _ in said}
    append_verdicts(
        workspace,
        [
            Verdict(key, content, word[key], "", None, "ana", "2026-11-22T03:00:00Z", "two")
            for key, content in said
        ],
    )
    row, report = least(workspace)
    assert not [line for line in report.warnings if "could not be drawn" in line]
    assert row["low"] <= 200 / 250 <= row["high"]
    draws = ProofState.load(workspace).draws
    # 170 were left to draw from.
    assert draws.inverse[80:].tolist() == pytest.approx([170 - n for n in range(60)])
    # A second export writes the same sheet; the first one still holds as well.
    for name, n in (("one", 80), ("two", 60)):
        assert review.export(workspace, out=tmp_path / f"{name}.csv", n=n).facts["drawn"] == n


@pytest.mark.slow
def test_segments_that_changed_after_the_draw_count_as_wrong(reviewed, tmp_path):
    workspace, rows, record = reviewed
    drawn, spared = (
        next(n for n in range(200) if (f"a_{n}-{n + 1}" in record.segment_ids) is wanted)
        for wanted in (True, False)
    )
    rows = list(rows)
    rows[drawn], rows[spared] = (
        {**rows[n], "words": ["promijenjeno"], "asr": ["promijenjeno"]} for n in (drawn, spared)
    )
    assert grow(workspace, rows).facts["changed_by"] == {"text": 2, "hypothesis": 2}
    row, report = least(workspace)
    assert (row["segments"], row["reviewed"], row["unsure"]) == (200, 80, 1)
    assert [line for line in report.warnings if "1 of 200 segments could not be drawn" in line]
    assert [
        line for line in report.warnings if "one: 1 judged row has other words or times now" in line
    ]
    state = ReviewState.load(workspace)
    changed = f"a_{drawn}-{drawn + 1}"
    [content] = content_hashes(workspace.segments.filter(segment_id=changed))
    append_verdicts(
        workspace, [Verdict(changed, content, "ok", "", None, "ana", "2026-11-23T03:00:00Z", "one")]
    )
    again, _ = least(workspace)
    assert again["low"] == row["low"]
    with pytest.raises(ExistsError, match="changed since"):
        review.export(state.workspace, out=tmp_path / "one.csv", n=80)


def test_a_plain_ingest_of_the_same_segments_keeps_what_was_proven(reviewed):
    workspace, rows, _ = reviewed
    grow(workspace, [*rows, seg("b.wav", 0, 1, "nova")])
    ingest("parlaspeech", workspace.path.parent / "asr.json", out=workspace.path)
    _, report = least(workspace)
    assert not [line for line in report.warnings if "prove nothing" in line]
    assert report.facts["selection"]["reviewed"] == 80


# --- further sources


@pytest.mark.slow
def test_a_further_source_brings_its_own_audio_folder(sittings, chosen, bring):
    before = chosen.segments
    (sittings / "more").mkdir()
    tone(sittings / "more/m.flac", 4, rate=11025)
    other = write(sittings / "other.json", sentences("m.wav", 3, words="druga"))
    with pytest.raises(ExistsError, match=r"is the workspace of .*asr\.json; .* --add"):
        bring(source=other, audio=sittings / "more", add=False)
    report = bring(source=other, audio=sittings / "more")
    assert (report.facts["new"], report.facts["removed"], report.facts["segments"]) == (3, 0, 13)
    assert chosen.segments.head(10).equals(before)
    assert chosen.recordings["path"].to_list() == [
        "s0.wav",
        "s1.wav",
        str(sittings / "more/m.flac"),
    ]
    assert [one["source"] for one in chosen.settings["sources"]] == [
        str(sittings / "asr.json"),
        str(other),
    ]
    assert chosen.settings["source"] == str(sittings / "asr.json")
    assert chosen.table("names").select("name", "source_number").rows() == [
        ("s0.wav", 0),
        ("s1.wav", 0),
        ("m.wav", 1),
    ]
    with pytest.raises(ExistsError, match="--add"):
        bring(add=False)

    score(chosen)
    select(chosen, dev=1, test=1, group_by="")
    assert nbaudio.clip(chosen, "m_0-1", rate=None).samples.shape == (11025,)
    assert materialize(chosen, out=sittings / "C", jobs=1, show_progress=False).facts["kept"] == 13
    exported = nbaudio.export(chosen, "kaldi", out=sittings / "K")
    assert exported.problems == []
    assert f"{sittings}/more/m.flac" in "".join(
        path.read_text() for path in (sittings / "K").rglob("wav.scp")
    )

    # Each source grows by itself.
    tables = contents(chosen)
    for source, audio in ((other, "more"), (sittings / "asr.json", "audio")):
        assert bring(source=source, audio=sittings / audio).facts["removed"] == 0
        assert contents(chosen) == tables
    write(other, sentences("m.wav", 2, words="druga"))
    write(
        sittings / "asr.json",
        [*sentences("s0.wav", 5), *sentences("s1.wav", 4), *sentences("s2.wav", 1)],
    )
    assert bring(source=other, audio=sittings / "more").facts["removed"] == 1
    report = bring()
    assert (report.facts["new"], report.facts["removed"]) == (1, 1)
    assert chosen.table("names").select("name", "source_number").rows() == [
        ("s0.wav", 0), ("s1.wav", 0), ("s2.wav", 0), ("m.wav", 1),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_same_recording_in_two_sources_is_one_and_another_of_its_name_gets_a_number(
    sittings, chosen, bring
):
    (sittings / "more").mkdir()
    shutil.copy(sittings / "audio/s0.wav", sittings / "more/s0.wav")
    tone(sittings / "more/s1.wav", 4, rate=22050, seed=7)
    rows = [
        seg("s0.wav", 0, 1, "rečenica 0 iz s0", speaker="s0"),
        seg("s0.wav", 1, 2, "drugi tekst"),
        seg("s1.wav", 0, 1, "treći"),
    ]
    other = write(sittings / "other.json", rows)
    before = chosen.segments
    report = bring(source=other, audio=sittings / "more")
    assert chosen.segments.head(10).equals(before)
    assert report.facts["unchanged"] == 1
    assert chosen.segments["segment_id"].to_list()[10:] == ["s0_1-2#2", "s1#2_0-1"]
    assert by_id(chosen, "decision", "reason")["s0_1-2#2"] == ("reject", "duplicate")
    facts = dict(chosen.recordings.select("recording_id", "path").iter_rows())
    assert facts == {"s0": "s0.wav", "s1": "s1.wav", "s1#2": str(sittings / "more/s1.wav")}
    tables = contents(chosen)
    assert bring(source=other, audio=sittings / "more").facts["new"] == 0
    assert bring().facts["removed"] == 0
    assert contents(chosen) == tables


@pytest.mark.slow
def test_sources_of_several_layouts_share_a_workspace(tmp_path):
    out = tmp_path / "W"
    counts = []
    for name in ("kaldi", "table", "librispeech", "hf", "folder"):
        made = LAYOUTS[name](tmp_path / name)
        ingest(
            format_of(name), made.source, audio=made.audio, options=made.options, out=out, add=True
        )
        counts.append(len(Workspace.open(out).segments))
    workspace = Workspace.open(out)
    assert counts == sorted(set(counts))
    assert workspace.segments["segment_id"].is_unique().all()
    assert workspace.recordings["recording_id"].is_unique().all()
    score(workspace)
    select(workspace, dev=0, test=0, group_by="")
    assert not materialize(workspace, out=tmp_path / "C", jobs=1, show_progress=False).problems


@pytest.mark.slow
def test_a_workspace_can_have_remote_and_local_audio_folders(
    sittings, chosen, bring, probed, tmp_path
):
    other = write(sittings / "other.json", sentences("m.wav", 3, words="druga"))
    tone(tmp_path / "www/far/m.wav", 4, rate=11025)
    with serving(tmp_path / "www") as web:
        probed.clear()
        bring(source=other, audio=f"{web.url}/far")
        assert chosen.recordings["path"].to_list() == ["s0.wav", "s1.wav", f"{web.url}/far/m.wav"]
        assert len(probed) == 2
        asked = web.asked["GET", "m.wav"]
        probed.clear()
        bring(source=other, audio=f"{web.url}/far")
        assert (probed, web.asked["GET", "m.wav"]) == ([], asked)
        score(chosen)
        select(chosen, dev=1, test=1, group_by="")
        assert (
            materialize(chosen, out=sittings / "C", jobs=1, show_progress=False).facts["kept"] == 13
        )
        assert nbaudio.clip(chosen, "m_0-1", rate=None).samples.shape == (11025,)

        # The other way round, the folder on this machine becomes the one that paths are relative
        # to.
        out = sittings / "V"
        bring(source=other, audio=f"{web.url}/far", out=out)
        assert Workspace.open(out).recordings["path"].to_list() == ["m.wav"]
        bring(out=out)
        workspace = Workspace.open(out)
        assert workspace.recordings["path"].to_list() == [
            f"{web.url}/far/m.wav",
            "s0.wav",
            "s1.wav",
        ]
        assert workspace.audio_root == sittings / "audio"
        tone(tmp_path / "www/far/n.wav", 2, rate=8000)
        write(other, [*sentences("m.wav", 3, words="druga"), *sentences("n.wav", 2)])
        report = bring(source=other, audio=f"{web.url}/far", out=out)
        assert (report.facts["new"], report.facts["changed"]) == (2, 0)
        assert nbaudio.clip(workspace, "n_1-2", rate=None).samples.shape == (8000,)


@pytest.mark.slow
def test_a_remote_source_can_grow(sittings, tmp_path, probed):
    store = tmp_path / "store"
    shutil.copytree(sittings / "audio", store / "b/audio")
    write(store / "b/asr.json", sentences("s0.wav", 2))
    register(store)
    try:
        options = {"audio": "gs://b/audio", "out": sittings / "W", "add": True}
        ingest("parlaspeech", "gs://b/asr.json", **options)
        write(store / "b/asr.json", [*sentences("s0.wav", 2), *sentences("s1.wav", 2)])
        probed.clear()
        report = ingest("parlaspeech", "gs://b/asr.json", **options)
        assert (report.facts["new"], len(probed)) == (2, 2)
        tone(store / "b/audio/s0.wav", 3, rate=16000)
        report = ingest("parlaspeech", "gs://b/asr.json", **options)
        assert report.facts["changed_by"] == {"audio": 2}
        before = contents(Workspace(sittings / "W"))
        ingest("parlaspeech", "gs://b/asr.json", **options)
        assert contents(Workspace(sittings / "W")) == before
    finally:
        unregister()


def test_relative_paths_and_another_order_of_the_source_make_no_difference(
    sittings, chosen, bring, monkeypatch
):
    before = contents(chosen)
    monkeypatch.chdir(sittings)
    rows = [*sentences("s0.wav", 5), *sentences("s1.wav", 5)]
    write(sittings / "asr.json", rows[::-1])
    report = bring(source="asr.json", audio="audio", out="W")
    assert (report.facts["new"], report.facts["changed"]) == (0, 0)
    assert contents(chosen) == before


# --- what was withdrawn


def withdraw(workspace, *pairs):
    """Tombstones, as `withdraw` leaves them, and tables without these rows."""
    stones = [
        {"kind": kind, "sha256": tombstone(kind, key), "reason": "opoziv"} for kind, key in pairs
    ]
    workspace.save(**{WITHDRAWN: pl.DataFrame(stones, schema=TOMBSTONES)})


def spell(path, spelling):
    """Another spelling of the path of a file in `sittings`."""
    if spelling == "dots":
        return path.parent / "audio" / ".." / path.name
    if spelling == "relative":
        return os.path.relpath(path)
    link = path.with_name("linked")
    link.symlink_to(path.parent)
    return link / path.name


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["dots", "relative", "link"])
def test_a_source_is_the_same_however_its_path_is_spelled(sittings, monkeypatch, spelling):
    monkeypatch.chdir(sittings / "audio")
    with (sittings / "asr.json").open("a") as file:
        file.write("not JSON\n")
    source = sittings / "asr.json"
    other = spell(source, spelling)
    runner = CliRunner()
    words = ["ingest", "parlaspeech", str(source), "--audio", str(sittings / "audio")]
    words += ["--out", str(sittings / "W")]
    assert runner.invoke(app, words).exit_code == 1
    workspace = Workspace.open(sittings / "W")
    before = {name: workspace.table(name) for name in TABLES}
    words[2] = str(other)
    for added in (["--add"], []):
        done = runner.invoke(app, [*words, *added])
        assert (done.exit_code, "Traceback" in done.output) == (1, False)
        for name, table in before.items():
            assert workspace.table(name).equals(table), (name, added)
    assert len(workspace.settings.get("sources", [1])) == 1


@pytest.mark.slow
def test_duplicate_rows_in_names_of_an_earlier_version_are_merged(sittings, bring, monkeypatch):
    with (sittings / "asr.json").open("a") as file:
        file.write("not JSON\n")
    bring()
    workspace = Workspace.open(sittings / "W")
    names, problems = workspace.table("names"), workspace.table("problems")
    other = sittings / "audio" / ".." / "asr.json"
    with monkeypatch.context() as earlier:
        earlier.setattr(growth, "is_same_place", lambda a, b: a == b)
        bring(source=other)
        with (sittings / "asr.json").open("a") as file:
            file.write(json.dumps(seg("s2.wav", 0, 1, "nova")) + "\n")
        bring(source=other)
    assert len(workspace.table("names")) == 2 * len(names) + 1
    grown = workspace.segments
    for source in (sittings / "asr.json", other):
        bring(source=source)
        assert sorted(workspace.table("names")["name"]) == ["s0.wav", "s1.wav", "s2.wav"]
        assert workspace.table("problems")["reason"].to_list() == problems["reason"].to_list()
        assert workspace.segments.equals(grown)
    write(sittings / "asr.json", [*sentences("s0.wav", 5), *sentences("s1.wav", 5)])
    removed = bring().facts["removed"]
    assert removed == 1  # of s2.wav: it is not taken for a segment of another source


@pytest.mark.parametrize("add", [True, False])
def test_withdrawn_segments_are_not_ingested_again(sittings, bring, probed, add):
    write(
        sittings / "asr.json",
        [
            *sentences("s0.wav", 3),
            *sentences("s1.wav", 3),
            *sentences("s2.wav", 3),
            seg("s0.wav", 3, 4, "ana", speaker="ana"),
        ],
    )
    workspace = Workspace(sittings / "W")
    bring(
        source=write(sittings / "first.json", [seg("s0.wav", 5, 6, "prvo")])
        if add
        else sittings / "asr.json",
        add=add,
    )
    withdraw(
        workspace, ("recording", "s1"), ("segment", "s0_1-2"), ("speaker", "s2"), ("speaker", "ana")
    )
    probed.clear()
    report = bring(add=add)
    assert report.facts["withdrawn"] == 8
    ids = workspace.segments["segment_id"].to_list()
    assert ids == ["s0_5-6", "s0_0-1", "s0_2-3"] if add else ["s0_0-1", "s0_2-3"]
    assert workspace.recordings["recording_id"].to_list() == ["s0"]
    assert set(workspace.table("names")["name"]) == {"s0.wav"}
    assert {"s1.wav", "s2.wav"}.isdisjoint(probed)
    for table in ("problems", *([GROWTH] if add else [])):
        assert "s1" not in str(workspace.table(table).rows())


# --- kills


class Killed(BaseException):
    pass


@pytest.fixture
def kill_at(monkeypatch):
    """Stop at the n-th time that a file gets its name, before or after it has it."""
    real = Path.replace

    def arm(number, *, after):
        calls = iter(range(10**6))

        def replace(path, target):
            if next(calls) == number:
                if after:
                    real(path, target)
                raise Killed
            return real(path, target)

        monkeypatch.setattr(Path, "replace", replace)

    yield arm
    monkeypatch.setattr(Path, "replace", real)


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_killed_anywhere_and_run_again_the_tables_are_those_of_one_run(
    sittings, chosen, bring, kill_at, after
):
    correct(chosen, "s0_0-1", "ispravljeno")
    review.export(chosen, out=sittings / "one.csv", n=3)
    rows = [
        *sentences("s0.wav", 5, words="promjena"),
        *sentences("s1.wav", 4),
        *sentences("s2.wav", 3),
    ]
    write(sittings / "asr.json", rows)
    sf.write(sittings / "audio/s1.wav", np.zeros((6 * 16000, 2)), 16000)
    shutil.copytree(sittings / "W", sittings / "start")
    bring()
    wanted = contents(chosen) | {"workspace.json": (chosen.path / "workspace.json").read_bytes()}
    assert {"growth.parquet", "earlier_splits.parquet", "corrected_texts.parquet"} <= wanted.keys()
    number, killed = int(after), True  # every second file; the other case has the others
    while killed:
        shutil.rmtree(sittings / "W")
        shutil.copytree(sittings / "start", sittings / "W")
        kill_at(number, after=after)
        try:
            bring()
            killed = False
        except Killed:
            kill_at(-1, after=False)
            bring()
        assert (
            contents(chosen) | {"workspace.json": (chosen.path / "workspace.json").read_bytes()}
            == wanted
        ), number
        assert not [path for path in chosen.path.iterdir() if path.name in ("saved", "saving")]
        number += 2
    assert number > 12


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["saving/segments.parquet", "saving", "saved", "probes.jsonl"])
def test_a_killed_process_is_finished_by_another_with_the_same_tables(
    sittings, chosen, bring, moment
):
    write(
        sittings / "asr.json",
        [
            *sentences("s0.wav", 5, words="promjena"),
            *sentences("s1.wav", 4),
            *sentences("s2.wav", 3),
        ],
    )
    shutil.copytree(sittings / "W", sittings / "start")
    bring()
    wanted = contents(chosen)
    code = (
        "import sys; from nbaudio import ingest; ingest('parlaspeech', sys.argv[1], "
        "audio=sys.argv[2], out=sys.argv[3], add=True)"
    )
    shutil.rmtree(sittings / "W")
    shutil.copytree(sittings / "start", sittings / "W")
    call = [sys.executable, "-c", code, sittings / "asr.json", sittings / "audio", sittings / "W"]
    run = subprocess.Popen(call, start_new_session=True, stderr=subprocess.DEVNULL)
    while run.poll() is None and not (chosen.path / moment).exists():
        time.sleep(0.0002)
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    bring()
    assert contents(chosen) == wanted


@pytest.mark.slow
def test_a_step_after_a_kill_finishes_what_was_saved(sittings, chosen, bring, kill_at):
    write(
        sittings / "asr.json",
        [*sentences("s0.wav", 5), *sentences("s1.wav", 5), *sentences("s2.wav", 3)],
    )
    for number in range(30):
        kill_at(number, after=True)
        with suppress(Killed):
            bring()
        kill_at(-1, after=False)
        if (chosen.path / "saved").exists():
            break
    report = score(Workspace.open(sittings / "W").path)
    assert report.facts["segments"] == 13
    assert not (chosen.path / "saved").exists()


# --- the command line


def test_ingest_add_on_the_command_line_reports_new_segments(sittings):
    runner = CliRunner()
    call = [
        "ingest",
        "parlaspeech",
        str(sittings / "asr.json"),
        "--audio",
        str(sittings / "audio"),
        "--out",
        str(sittings / "W"),
        "--add",
    ]
    assert runner.invoke(app, call).exit_code == 0
    write(sittings / "asr.json", [*sentences("s0.wav", 5), *sentences("s2.wav", 1)])
    made = runner.invoke(app, [*call, "--json"])
    assert made.exit_code == 0
    facts = json.loads(made.stdout)["facts"]
    assert (facts["new"], facts["changed"], facts["unchanged"], facts["removed"]) == (1, 0, 5, 5)
