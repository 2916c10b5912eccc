"""The contract of every layout: exact segments, reported problems, and a corpus at the end."""

import io
import json
import os
import re
import tarfile
import unicodedata
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import datasets
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specimens import LAYOUTS, Made, format_of, librispeech_archive, lines, tone
from table_checks import check_tables
from typer.testing import CliRunner

import nbaudio
from nbaudio.audio import read_clip
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.core.times import to_samples
from nbaudio.formats.transcripts import PROBLEMS, TRANSCRIPTS, collect_rows
from nbaudio.sources.place_segments import fill_times
from nbaudio.sources.source_formats import READERS
from nbaudio.tables.workspace import Workspace

FORMATS = sorted(READERS)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    """By format: what was made, the report, and the workspace; each made once."""
    done = {}

    def ingest(name: str) -> tuple[Made, nbaudio.Report, Workspace]:
        if name not in done:
            # What is beside it is this test's own.
            fill_times = tmp_path_factory.mktemp(name) / "place"
            made = LAYOUTS[name](fill_times / "source")
            report = nbaudio.ingest(
                format_of(name),
                made.source,
                audio=made.audio,
                out=fill_times / "W",
                jobs=1,
                options=made.options,
            )
            done[name] = made, report, Workspace.open(fill_times / "W")
        return done[name]

    return ingest


def test_every_reader_has_a_source_to_be_tested_with():
    assert {format_of(name) for name in LAYOUTS} == set(FORMATS)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_layout_gives_segments_sample_exactly(ingested, name):
    made, _, workspace = ingested(name)
    segments = workspace.segments.join(
        workspace.recordings.select("recording_id", "path"), on="recording_id", how="left"
    )
    kept = segments.filter((pl.col("decision") == "pending") & pl.col("end_sample").is_not_null())
    found = kept.select(
        "segment_id", "path", "start_sample", "end_sample", "text", "speaker_id"
    ).rows()
    assert {key: tuple(values) for key, *values in found} == made.segments
    first = segments.filter(pl.col("segment_id") == next(iter(made.segments))).row(0, named=True)
    assert {column: first[column] for column in made.further} == made.further


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_layout_reports_problems_and_reads_the_rest(ingested, name):
    made, report, workspace = ingested(name)
    problems = workspace.table("problems").select("item", "reason").rows()
    for item, reason in made.problems:
        assert [told for told in problems if told[0] == item and reason in told[1]], (item, reason)
    assert len(problems) == len(made.problems)
    for warning in made.warnings:
        assert [line for line in report.warnings if warning in line], warning
    assert bool(report.problems) == bool(made.problems)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_tables_of_every_layout_pass_the_table_checks(ingested, name):
    _, _, workspace = ingested(name)
    segments = workspace.segments
    assert segments["segment_id"].is_unique().all()
    assert segments["segment_id"].null_count() == 0
    assert workspace.recordings["recording_id"].is_unique().all()
    assert all(unicodedata.is_normalized("NFC", text) for text in segments["text"].drop_nulls())
    for column in ("source_start", "source_end"):
        for time in segments.filter(pl.col("decision") == "pending")[column].drop_nulls():
            assert re.fullmatch(r"\d+(\.\d+)?", time)
            assert Decimal(time) >= 0
    failing = set(check_tables(workspace.recordings, segments)["key"])
    assert failing == set(segments.filter(pl.col("decision") == "reject")["segment_id"])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_layout_becomes_a_verified_corpus(ingested, name, tmp_path):
    made, _, workspace = ingested(name)
    scored = nbaudio.score(workspace)
    assert workspace.segments["similarity"].null_count() == len(workspace.segments)
    silent = all(text is None for *_, text, _ in made.segments.values())
    missing = "a transcript (text)" if silent else "a hypothesis (asr_text)"
    assert [line for line in scored.problems if line.startswith(f"no segment has {missing}: ")]
    selected = nbaudio.select(workspace, dev=0, test=0)
    assert selected.facts["kept"] == len(made.segments)
    report = nbaudio.materialize(
        workspace, out=tmp_path / "C", jobs=1, engine="threading", show_progress=False
    )
    assert report.problems == []
    verified = nbaudio.verify(tmp_path / "C", jobs=1, engine="threading", show_progress=False)
    assert verified.problems == []
    assert verified.facts["clips_decoded"] == len(made.segments)
    corpus = pl.read_parquet(tmp_path / "C/segments.parquet")
    assert dict(corpus.select("segment_id", "text").iter_rows()) == {
        key: row[3] for key, row in made.segments.items()
    }
    assert nbaudio.stats(tmp_path / "C").facts["segments_kept"] == len(made.segments)
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")} == {"C"}


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_ingest_writes_nothing_outside_the_workspace(ingested, name):
    _, _, workspace = ingested(name)
    fill_times = workspace.path.parent
    assert list(Path(fill_times).parent.iterdir()) == [fill_times]
    assert {path.name for path in fill_times.iterdir()} == {"source", "W"}


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_ingest_twice_gives_the_same_tables(ingested, name, tmp_path):
    made, report, workspace = ingested(name)
    before = {
        path.name: path.read_bytes()
        for path in workspace.path.glob("*.parquet")
        if path.name != "segments.parquet"
    }
    again = nbaudio.ingest(
        format_of(name),
        made.source,
        audio=made.audio,
        out=workspace.path,
        jobs=2,
        options=made.options,
    )
    assert {path: (workspace.path / path).read_bytes() for path in before} == before
    assert again.facts == report.facts
    assert workspace.segments["decision"].to_list().count("pending") == report.facts[
        "segments"
    ] - len(workspace.segments.filter(pl.col("reason").is_not_null()))


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_reader_gives_the_transcript_columns_with_their_types(name, tmp_path):
    made = LAYOUTS[name](tmp_path)
    found = READERS[format_of(name)](made.source, **made.options)
    assert dict(list(found.frame.schema.items())[: len(TRANSCRIPTS)]) == dict(TRANSCRIPTS)
    assert found.problems.schema == PROBLEMS


@pytest.mark.parametrize("name", FORMATS)
def test_a_source_of_another_layout_is_refused(name, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"\x00\xff of something else")
    for source in ("none", "empty", "file"):
        with pytest.raises(InputError, match=source):
            nbaudio.ingest(name, tmp_path / source, out=tmp_path / "W")
    assert not (tmp_path / "W").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_an_unknown_option_names_the_known_ones(name, tmp_path):
    with pytest.raises(InputError, match=rf"option 'windwo' is unknown to {name}; known are"):
        nbaudio.ingest(name, tmp_path, out=tmp_path / "W", options={"windwo": "10"})


# rows on their way into columns


class CountedRow(dict):
    """A row that knows how many of its kind are alive."""

    alive = most = 0

    def __init__(self, **values):
        super().__init__(**values)
        CountedRow.alive += 1
        CountedRow.most = max(CountedRow.most, CountedRow.alive)

    def __del__(self):
        CountedRow.alive -= 1


def test_rows_are_collected_in_batches_of_10000(tmp_path):
    rows = (
        CountedRow(name=f"{number}.wav", text="c\u030c", source_split="x")
        for number in range(35_000)
    )
    found = collect_rows(tmp_path, rows, further=("source_split", "language"), expected="rows")
    assert found.frame["name"].to_list() == [f"{number}.wav" for number in range(35_000)]
    assert found.frame.columns == [*TRANSCRIPTS, "source_split"]
    assert found.frame["text"].unique().to_list() == ["č"]
    assert CountedRow.most <= 10_001


# whole recordings and windows


def segments_of_recording(tmp_path, seconds, rate, **options):
    """Segments of a folder with one recording."""
    tone(tmp_path / "audio/a.wav", seconds, rate=rate)
    nbaudio.ingest("folder", tmp_path / "audio", out=tmp_path / "W", options=options)
    return Workspace.open(tmp_path / "W").segments


@pytest.mark.parametrize("rate", [8000, 11025, 44100, 48000, 192000])
@pytest.mark.parametrize("num_samples", [1, 7, 8000, 12347])
def test_a_whole_recording_ends_at_its_last_sample(tmp_path, rate, num_samples):
    tone(tmp_path / "audio/a.wav", Fraction(num_samples, rate), rate=rate)
    nbaudio.ingest("folder", tmp_path / "audio", out=tmp_path / "W")
    [row] = Workspace.open(tmp_path / "W").segments.rows(named=True)
    assert (row["segment_id"], row["start_sample"], row["end_sample"], row["source_start"]) == (
        "a",
        0,
        num_samples,
        "0",
    )
    assert to_samples(row["source_end"], rate) == num_samples
    assert row["reason"] is None


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 400),
    st.sampled_from([7, 10, 11025, 44100]),
    st.decimals("0.05", 5, places=3),
    st.booleans(),
)
def test_windows_cover_a_recording_without_gap_or_overlap(tenths, rate, seconds, partial):
    num_samples = max(1, tenths * rate // 100)
    frame = pl.DataFrame([{"name": "a.wav"}], schema=TRANSCRIPTS)
    audit = pl.DataFrame({"name": ["a.wav"], "recording_id": ["a"]})
    recordings = pl.DataFrame(
        {"recording_id": ["a"], "sampling_rate": [rate], "num_samples": [num_samples]}
    )
    placed = fill_times(frame, audit, recordings, (seconds, partial))
    found = [
        (to_samples(start, rate), min(to_samples(end, rate), num_samples))
        for start, end in placed.select("source_start", "source_end").iter_rows()
    ]
    cuts = [
        to_samples(str(seconds * number), rate)
        for number in range(int(num_samples / rate / float(seconds)) + 3)
    ]
    expected = [(one, min(two, num_samples)) for one, two in pairwise(cuts) if one < num_samples]
    if not partial and expected and seconds * len(expected) * rate > num_samples:
        expected = expected[:-1]
    assert found == expected


def test_option_window_divides_recordings_into_windows(tmp_path):
    assert segments_of_recording(tmp_path, 2.5, 8000, window="1")["segment_id"].to_list() == [
        "a_0-1",
        "a_1-2",
        "a_2-2.5",
    ]
    assert segments_of_recording(tmp_path, 2.5, 8000, window=1, partial="drop")[
        "segment_id"
    ].to_list() == [
        "a_0-1",
        "a_1-2",
    ]
    assert segments_of_recording(tmp_path, 3, 8000, window="1.50")["source_end"].to_list() == [
        "1.5",
        "3",
    ]
    assert segments_of_recording(tmp_path, 3, 8000, window="0.1", partial="drop").height == 30


@pytest.mark.parametrize(
    "options",
    [{"window": "0"}, {"window": "1e1"}, {"window": "-1"}, {"window": "ten"}, {"partial": "no"}],
)
def test_invalid_options_of_the_folder_format_are_refused(tmp_path, options):
    tone(tmp_path / "a.wav", 1)
    [name] = options
    with pytest.raises(InputError, match=f"option {name}="):
        nbaudio.ingest("folder", tmp_path, out=tmp_path / "W", options=options)


def test_whole_recordings_can_be_ingested_before_their_audio(tmp_path):
    made = LAYOUTS["librispeech"](tmp_path)
    source = tmp_path / "transcripts.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        archive.add(
            made.source,
            "LibriSpeech",
            filter=lambda entry: None if entry.name.endswith(".flac") else entry,
        )
    nbaudio.ingest("librispeech", source, out=tmp_path / "W")
    before = Workspace.open(tmp_path / "W").segments
    assert before["source_end"].null_count() == len(before)
    assert before["reason"].null_count() == len(before)
    assert set(made.segments) < set(before["segment_id"])
    nbaudio.score(tmp_path / "W")
    assert nbaudio.select(tmp_path / "W", dev=0, test=0).facts["rejected"] == {
        "no_audio": len(before)
    }
    nbaudio.ingest("librispeech", source, audio=made.source, out=tmp_path / "W")
    after = Workspace.open(tmp_path / "W").segments
    assert after["segment_id"].to_list() == before["segment_id"].to_list()
    assert after["end_sample"].count() == len(made.segments)


# librispeech


def test_a_repeated_line_of_librispeech_is_rejected_as_duplicate(tmp_path):
    tone(tmp_path / "L/dev-clean/1/2/1-2-0000.flac", 1)
    lines(tmp_path / "L/dev-clean/1/2/1-2.trans.txt", "1-2-0000 DA", "1-2-0000 NE")
    report = nbaudio.ingest("librispeech", tmp_path / "L", out=tmp_path / "W")
    assert Workspace.open(tmp_path / "W").segments["reason"].to_list() == [None, "duplicate"]
    assert report.problems[-1] == "duplicate: 1 segment rejected, the first is 1-2-0000#2"


@pytest.mark.parametrize("mode", ["w:gz", "w", "w:xz"])
def test_an_archive_gives_the_segments_of_its_folder(tmp_path, mode):
    source = librispeech_archive(tmp_path, mode=mode)
    nbaudio.ingest("librispeech", source, audio=tmp_path / "LibriSpeech", out=tmp_path / "W")
    nbaudio.ingest("librispeech", tmp_path / "LibriSpeech", out=tmp_path / "V")
    one, two = (Workspace.open(tmp_path / name).segments.sort("segment_id") for name in "WV")
    assert one.equals(two)
    assert not list((tmp_path / "W").rglob("*.flac"))


def test_librispeech_is_read_from_its_parent_folder_or_one_split(tmp_path):
    root = LAYOUTS["librispeech"](tmp_path).source
    around, split = READERS["librispeech"](tmp_path), READERS["librispeech"](root / "dev-clean")
    assert around.audio_root == root
    assert around.frame.equals(READERS["librispeech"](root).frame)
    first = split.frame.row(0, named=True)
    assert (first["name"], first["source_split"], first["speaker_gender"]) == (
        "84/121123/84-121123-0000.flac",
        "dev-clean",
        "F",
    )


def test_a_transcript_of_librispeech_that_is_too_large_is_a_problem(tmp_path, monkeypatch):
    lines(tmp_path / "L/dev/1/2/1-2.trans.txt", "1-2-0000 DA")
    lines(tmp_path / "L/dev/1/3/1-3.trans.txt", "1-3-0000 DA DA")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "L", "LibriSpeech")
    monkeypatch.setattr("nbaudio.core.input_guards.MAX_TEXT_BYTES", 13)
    for source in (tmp_path / "L", tmp_path / "x.tar"):
        transcripts = READERS["librispeech"](source)
        assert transcripts.frame["segment_id"].to_list() == ["1-2-0000"]
        large = ("dev/1/3/1-3.trans.txt", None, "larger than 0 MB: no transcript of a chapter")
        assert large in transcripts.problems.rows()


def corpus_of(source, out, **options):
    """What ingest reported, what materialize reported, and the bytes of all files of the corpus."""
    first = nbaudio.ingest("librispeech", source, out=out / "W", jobs=2)
    nbaudio.select(out / "W", dev=0, test=0, group_by=())
    report = nbaudio.materialize(out / "W", out=out / "C", show_progress=False, **options)
    return (
        first,
        report,
        {path.name: path.read_bytes() for path in (out / "C").rglob("*") if path.is_file()},
    )


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_corpus_out_of_an_archive_is_that_of_its_folder(tmp_path, monkeypatch, jobs):
    archive = librispeech_archive(tmp_path)
    first, report, made = corpus_of(archive, tmp_path / "archive", jobs=jobs)
    folder_first, folder_report, wanted = corpus_of(
        tmp_path / "LibriSpeech", tmp_path / "folder", jobs=1
    )
    assert made == wanted
    assert len(first.problems) == len(folder_first.problems) == 4
    assert first.facts == folder_first.facts
    assert report.facts["kept"] == folder_report.facts["kept"] == 3
    held = {
        path.suffix
        for out in ("archive", "folder")
        for path in (tmp_path / out / "W").rglob("*")
        if path.is_file()
    }
    assert held == {".json", ".jsonl", ".parquet", ".pack"}


def test_an_archive_is_read_once_to_cut_and_no_further_than_it_must(tmp_path, monkeypatch):
    archive = librispeech_archive(tmp_path)
    nbaudio.ingest("librispeech", archive, out=tmp_path / "W")
    nbaudio.select(tmp_path / "W", dev=0, test=0, group_by=())
    opened, names = [], []
    real_open, real_read = tarfile.open, tarfile.TarInfo.fromtarfile

    def noted(*args, **options):
        opened.append(args)
        return real_open(*args, **options)

    def next_entry(kind, archive):
        entry = real_read.__func__(kind, archive)
        names.append(entry.name)
        return entry

    monkeypatch.setattr(tarfile, "open", noted)
    monkeypatch.setattr(tarfile.TarInfo, "fromtarfile", classmethod(next_entry))
    monkeypatch.setattr("nbaudio.corpus.cut_tasks._TAR_TASK_BYTES", 1)  # a task a recording
    report = nbaudio.materialize(tmp_path / "W", out=tmp_path / "C", jobs=1, show_progress=False)
    assert report.facts["clips_cut_now"] == 3
    assert len(opened) == 1
    assert names[-1].endswith(".flac")
    opened.clear()
    nbaudio.materialize(
        tmp_path / "W", out=tmp_path / "D", jobs=1, container="parquet", show_progress=False
    )
    assert not opened


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["changed", "cut short"])
def test_an_archive_that_changes_after_ingest_gives_no_wrong_sample(tmp_path, harm):
    archive = librispeech_archive(tmp_path)
    nbaudio.ingest("librispeech", archive, out=tmp_path / "W")
    nbaudio.select(tmp_path / "W", dev=0, test=0, group_by=())
    if harm == "changed":
        tone(tmp_path / "LibriSpeech/dev-clean/84/121123/84-121123-0001.flac", 1.5, seed=9)
        with tarfile.open(archive, "w:gz") as opened:
            opened.add(tmp_path / "LibriSpeech", "LibriSpeech")
    else:
        archive.write_bytes(archive.read_bytes()[:20_000])
    report = nbaudio.materialize(tmp_path / "W", out=tmp_path / "C", jobs=1, show_progress=False)
    lost = pl.read_parquet(tmp_path / "C/rejected.parquet").filter(
        pl.col("reason") == "unreadable_audio"
    )
    assert (len(report.problems), lost["segment_id"].to_list()) == (1, ["84-121123-0001"])
    assert "changed since it was ingested" in lost["detail"][0]


def test_an_archive_that_has_disappeared_is_reported_in_one_line(tmp_path):
    archive = librispeech_archive(tmp_path)
    nbaudio.ingest("librispeech", archive, out=tmp_path / "W")
    nbaudio.select(tmp_path / "W", dev=0, test=0, group_by=())
    archive.unlink()
    with pytest.raises(
        InputError,
        match=r"none of the 3 accepted segments can be cut; tar://.*changed since it was ingested",
    ):
        nbaudio.materialize(tmp_path / "W", out=tmp_path / "C", jobs=1, show_progress=False)


def test_clips_of_an_archive_are_played(tmp_path):
    nbaudio.ingest("librispeech", librispeech_archive(tmp_path), out=tmp_path / "W")
    root = Workspace.open(tmp_path / "W").audio_root
    for name in (
        "dev-clean/84/121123/84-121123-0001.flac",
        "dev-clean/84/121123/84-121123-0000.flac",
    ):
        assert np.array_equal(
            read_clip(root / name, 100, 7000), read_clip(tmp_path / "LibriSpeech" / name, 100, 7000)
        )


def test_a_truncated_archive_gives_the_segments_before_the_break(tmp_path):
    source = librispeech_archive(tmp_path, mode="w")
    source.write_bytes(source.read_bytes()[:70_000])
    found = READERS["librispeech"](source)
    assert len(found.frame) > 0
    assert [reason for reason in found.problems["reason"] if "truncated" in reason]


def test_archive_members_that_point_outside_write_nothing(tmp_path):
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        for name in ("../../../dev/1/2/1-2.trans.txt", "/dev/1/2/1-2.trans.txt"):
            data = b"1-2-0000 HELLO\n"
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        recordings = (
            "../../../../1-2-0000.flac",
            "/dev/1/2/1-2-0000.flac",
            "d/2.flac",
            "d/2.flac/x.flac",
            f"{'x' * 300}.flac",
        )
        for name in recordings:
            archive.addfile(tarfile.TarInfo(name))
    nbaudio.ingest("librispeech", tmp_path / "x.tar.gz", out=tmp_path / "W")
    segments = Workspace.open(tmp_path / "W").segments
    assert segments["segment_id"].to_list() == ["1-2-0000", "1-2-0000#2"]
    assert {path.name for path in tmp_path.iterdir()} == {"x.tar.gz", "W"}
    assert not list(tmp_path.rglob("*.flac"))


def test_names_that_are_no_unicode_are_reported_and_the_rest_is_processed(tmp_path):
    made = LAYOUTS["librispeech"](tmp_path)
    folder = os.fsencode(made.source / "dev-clean/84/121123")
    os.close(os.open(folder + b"/\xff.flac", os.O_CREAT))
    (made.source / "dev-clean/84/121123/out.trans.txt").symlink_to(tmp_path / "secret")
    lines(tmp_path / "secret", "root x:0:0")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(made.source, "LibriSpeech")
    for source in (made.source, tmp_path / "x.tar"):
        found = READERS["librispeech"](source)
        assert (
            "dev-clean/84/121123/\\xff.flac",
            None,
            "its name is not Unicode; rename it",
        ) in found.problems.rows()
        assert not found.frame["text"].str.contains("x:0:0").any()
        assert set(made.segments) < set(found.frame["segment_id"])


def test_a_line_that_is_no_unicode_is_named(tmp_path):
    lines(tmp_path / "wav.scp", "a a.wav")
    (tmp_path / "text").write_bytes(b"a da\nb caf\xe9\n")
    with pytest.raises(InputError, match=r"text, line 2: not UTF-8"):
        nbaudio.ingest("kaldi", tmp_path, out=tmp_path / "W")


# kaldi


def test_kaldi_without_segments_has_one_segment_per_recording(tmp_path):
    tone(tmp_path / "audio/a.wav", 1)
    tone(tmp_path / "audio/b.wav", 2)
    lines(tmp_path / "data/wav.scp", "u1 a.wav", "u2 b.wav")
    lines(tmp_path / "data/text", "u1 da", "u2 ne")
    lines(tmp_path / "data/hyp", "u1 da")
    options = {"asr": "hyp"}
    nbaudio.ingest(
        "kaldi", tmp_path / "data", audio=tmp_path / "audio", out=tmp_path / "W", options=options
    )
    nbaudio.score(tmp_path / "W")
    segments = Workspace.open(tmp_path / "W").segments
    assert segments.select("segment_id", "end_sample", "text", "similarity").rows() == [
        ("u1", 8000, "da", 1.0),
        ("u2", 16000, "ne", None),
    ]
    with pytest.raises(InputError, match="there is no such file; the option asr"):
        nbaudio.ingest("kaldi", tmp_path / "data", out=tmp_path / "W", options={"asr": "none"})


@pytest.mark.parametrize("above", [True, False])
def test_kaldi_finds_its_recordings_by_their_paths(tmp_path, above):
    audio = tmp_path / ("audio" if above else "data/audio")
    tone(audio / "x/a.wav", 1)
    tone(audio / "y/b.wav", 2)
    named = audio if above else Path("audio")
    lines(
        tmp_path / "data/wav.scp",
        f"u1 {named}/x/a.wav",
        f"u2 {named}/y/b.wav",
        f"u3 {named}/gone.wav",
    )
    lines(tmp_path / "data/text", "u1 da", "u2 ne", "u3 možda")
    report = nbaudio.ingest("kaldi", tmp_path / "data", out=tmp_path / "W")
    workspace = Workspace.open(tmp_path / "W")
    assert workspace.audio_root == audio
    assert workspace.segments["end_sample"].to_list() == [8000, 16000, None]
    assert report.problems == [f"{named}/gone.wav: no such recording"]


def test_a_repeated_kaldi_id_is_reported_and_keeps_the_first_text(tmp_path):
    tone(tmp_path / "data/a.wav", 4)
    lines(tmp_path / "data/wav.scp", "r a.wav")
    lines(tmp_path / "data/segments", "u r 0 1", "u r 2 3")
    lines(tmp_path / "data/text", "u prvi", "u drugi")
    report = nbaudio.ingest("kaldi", tmp_path / "data", out=tmp_path / "W")
    assert Workspace.open(tmp_path / "W").segments.select("segment_id", "text").rows() == [
        ("u", "prvi"),
        ("u#2", "prvi"),
    ]
    assert report.problems == [
        "text line 2: 'u' was 'prvi' before, which is kept",
        "u: an id of 2 segments: all but the first get a number, #2 and so on",
    ]


def test_kaldi_commands_in_wav_scp_are_refused(tmp_path):
    lines(tmp_path / "data/wav.scp", f"u1 touch {tmp_path}/PWNED |")
    with pytest.raises(
        InputError, match=r"wav\.scp, line 1: 'u1' is a command; commands are not executed"
    ):
        nbaudio.ingest("kaldi", tmp_path / "data", out=tmp_path / "W")
    assert not (tmp_path / "PWNED").exists()


# subtitles


def test_a_cue_of_two_voices_has_no_speaker(tmp_path):
    tone(tmp_path / "a/a.wav", 9)
    cues = [
        "<v Ana>Da.",
        "<v Ana>Da.</v> <v Ivo>Ne.</v>",
        "<v.loud Ana>Da.</v> <v Ana>Da.</v>",
        "Da.",
    ]
    timed = [
        f"00:0{number}.000 --> 00:0{number + 1}.000\n{cue}\n" for number, cue in enumerate(cues)
    ]
    lines(tmp_path / "a/a.vtt", "WEBVTT", "", *timed)
    nbaudio.ingest("subtitles", tmp_path / "a", out=tmp_path / "W")
    assert Workspace.open(tmp_path / "W").segments["speaker_id"].to_list() == [
        "Ana",
        None,
        "Ana",
        None,
    ]


# commonvoice


def test_commonvoice_without_a_sentence_column_is_refused(tmp_path):
    lines(tmp_path / "train.tsv", "client_id\tpath", "c\ta.mp3")
    with pytest.raises(
        InputError, match=r"train\.tsv: the column sentence is missing; it has client_id, path"
    ):
        nbaudio.ingest("commonvoice", tmp_path, out=tmp_path / "W")


# hf


def parquet(path, audio, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    pq.write_table(pa.table({"audio": pa.array(audio, kind), **columns}), path)
    return path


def test_a_dataset_with_paths_alone_needs_no_copy(tmp_path):
    tone(tmp_path / "set/clips/a.wav", 1)
    parquet(
        tmp_path / "set/train.parquet",
        [{"bytes": None, "path": "clips/a.wav"}, None],
        text=["da", "ne"],
    )
    report = nbaudio.ingest("hf", tmp_path / "set", out=tmp_path / "W")
    workspace = Workspace.open(tmp_path / "W")
    assert workspace.audio_root == tmp_path / "set"
    assert workspace.segments.select("segment_id", "end_sample", "text").rows() == [
        ("clips/a", 8000, "da")
    ]
    assert report.problems == ["train.parquet line 2: neither bytes nor a path"]
    assert not (tmp_path / "W/audio").exists()


def test_columns_of_a_dataset_are_requested_by_name(tmp_path):
    data = tone(tmp_path / "a.wav", 1).read_bytes()
    columns = {"words": ["da"], "guess": ["da"], "text": ["x"], "who": [3]}
    source = parquet(tmp_path / "x.parquet", [{"bytes": data, "path": None}], **columns)
    options = {"text": "words", "asr": "guess", "speaker": "who"}
    nbaudio.ingest("hf", source, out=tmp_path / "W", options=options)
    [row] = Workspace.open(tmp_path / "W").segments.rows(named=True)
    assert (row["segment_id"], row["text"], row["asr_text"], row["speaker_id"]) == (
        "x/00000000",
        "da",
        "da",
        "3",
    )
    with pytest.raises(
        InputError, match=r"no column 'wrods'; it has audio, guess, text, who, words"
    ):
        nbaudio.ingest("hf", source, out=tmp_path / "W", options={"text": "wrods"})
    with pytest.raises(InputError, match="0 Audio columns called 'sound'"):
        nbaudio.ingest("hf", source, out=tmp_path / "W", options={"audio": "sound"})


def test_embedded_recordings_are_not_written_again(tmp_path):
    data = tone(tmp_path / "a.wav", 1).read_bytes()
    source = parquet(tmp_path / "x.parquet", [{"bytes": data, "path": "a.wav"}], text=["da"])
    nbaudio.ingest("hf", source, out=tmp_path / "W")
    written = tmp_path / "W/audio/x/00000000.wav"
    before = written.stat().st_mtime_ns
    nbaudio.ingest("hf", source, out=tmp_path / "W")
    assert written.stat().st_mtime_ns == before
    written.write_bytes(b"")
    nbaudio.ingest("hf", source, out=tmp_path / "W")
    assert written.read_bytes() == data


def test_parquet_and_saved_datasets_written_by_datasets_are_read(tmp_path):
    tone(tmp_path / "a.wav", 1)
    dataset = datasets.Dataset.from_dict(
        {"audio": [str(tmp_path / "a.wav")] * 2, "text": ["da", "ne"]}
    )
    dataset = dataset.cast_column("audio", datasets.Audio())
    dataset.to_parquet(tmp_path / "paths/train-00000-of-00001.parquet")
    # What push_to_hub does before it writes.
    embedded = dataset.with_format("arrow").map(datasets.table.embed_table_storage, batched=True)
    embedded.to_parquet(tmp_path / "bytes/train-00000-of-00001.parquet")
    for name, audio in (("paths", tmp_path), ("bytes", None)):
        nbaudio.ingest("hf", tmp_path / name, audio=audio, out=tmp_path / f"W of {name}")
        segments = Workspace.open(tmp_path / f"W of {name}").segments
        found = segments.select("end_sample", "text", "source_split", "reason").rows()
        duplicate = "duplicate" if name == "paths" else None
        assert found == [(8000, "da", "train", None), (8000, "ne", "train", duplicate)]


def saved(folder):
    """A `DatasetDict` on disk: three recordings in two files of train, one in test, and what a
    cache leaves beside them."""
    for number in range(4):
        tone(folder / f"{number}.wav", 1, seed=number)
    parts = {
        name: datasets.Dataset.from_dict(
            {
                "audio": [str(folder / f"{each}.wav") for each in which],
                "text": [f"da {each}" for each in which],
            }
        )
        for name, which in (("train", (0, 1, 2)), ("test", (3,)))
    }
    whole = datasets.DatasetDict(parts).cast_column("audio", datasets.Audio())
    whole.save_to_disk(folder / "dict", num_shards={"train": 2, "test": 1})
    (folder / "dict/train/cache-0123.arrow").write_bytes(
        (folder / "dict/test/data-00000-of-00001.arrow").read_bytes()
    )
    return folder / "dict"


def test_datasets_saved_to_disk_are_read(tmp_path):
    source = saved(tmp_path / "x")
    nbaudio.ingest("hf", source, out=tmp_path / "W")
    workspace = Workspace.open(tmp_path / "W")
    found = workspace.segments.select("text", "source_split", "end_sample").sort("text").rows()
    assert found == [
        ("da 0", "train", 8000),
        ("da 1", "train", 8000),
        ("da 2", "train", 8000),
        ("da 3", "test", 8000),
    ]
    names = workspace.recordings["path"].sort().to_list()
    assert names[0] == "test/data-00000-of-00001/00000000.wav"
    assert [path.split("/")[1] for path in names[1:]] == ["data-00000-of-00002"] * 2 + [
        "data-00001-of-00002"
    ]
    for name in names:
        sound = (workspace.audio_root / name).read_bytes()
        assert sound in {path.read_bytes() for path in (tmp_path / "x").glob("*.wav")}
    nbaudio.ingest("hf", source / "train", out=tmp_path / "V")
    assert Workspace.open(tmp_path / "V").segments["text"].to_list() == ["da 0", "da 1", "da 2"]
    assert Workspace.open(tmp_path / "V").segments["source_split"].unique().to_list() == ["train"]


def test_damaged_saved_datasets_are_reported_or_refused(tmp_path):
    source = saved(tmp_path / "x")
    test = source / "test/data-00000-of-00001.arrow"
    test.write_bytes(test.read_bytes()[:200])
    report = nbaudio.ingest("hf", source, out=tmp_path / "W")
    assert report.facts["segments"] == 3
    assert [problem for problem in report.problems if problem.startswith(test.name)]
    state = json.loads((source / "test/state.json").read_text())
    for change, said in (
        ({"_indices_data_files": [{"filename": "indices.arrow"}]}, "picks rows by indices"),
        ({"_data_files": [{"filename": "../../x.arrow"}]}, "names no data files"),
        ({"_data_files": None}, "names no data files"),
    ):
        (source / "test/state.json").write_text(json.dumps(state | change))
        with pytest.raises(InputError, match=said):
            nbaudio.ingest("hf", source, out=tmp_path / "V")


def test_arrow_and_parquet_of_a_dataset_give_the_same(tmp_path):
    made = LAYOUTS["hf"](tmp_path)
    [whole] = (made.source / "data").glob("*-00000-*.parquet")
    table = pq.read_table(whole)
    (tmp_path / "arrow/data").mkdir(parents=True)
    with pa.ipc.new_stream(tmp_path / f"arrow/data/{whole.stem}.arrow", table.schema) as stream:
        stream.write_table(table, max_chunksize=2)
    one, two = READERS["hf"](made.source), READERS["hf"](tmp_path / "arrow")
    assert two.frame.equals(one.frame.select(two.frame.columns))
    assert list(two.embedded) == list(one.embedded)


# options


def test_reader_options_accept_yaml_booleans(tmp_path):
    source, times = tmp_path / "asr.json", '"word_start_times": [0.1], "word_end_times": [0.4]'
    source.write_text(
        f'{{"file": "a.wav", "start": 0, "end": 1, "words": ["da"], "asr": ["da"], {times}}}'
    )
    for word_times, count in ((None, 1), (False, 0), (True, 1)):
        nbaudio.ingest(
            "parlaspeech", source, out=tmp_path / "W", options={"word_times": word_times}
        )
        assert Workspace.open(tmp_path / "W").segments["word_times"].count() == count
    with pytest.raises(InputError, match="option word_times='maybe': must be yes or no"):
        nbaudio.ingest("parlaspeech", source, out=tmp_path / "W", options={"word_times": "maybe"})


def test_reader_options_can_be_given_on_the_command_line(tmp_path):
    tone(tmp_path / "audio/a.wav", 2)
    call = ["ingest", "folder", str(tmp_path / "audio"), "--out", str(tmp_path / "W"), "--json"]
    done = CliRunner().invoke(app, [*call, "--option", "window=0.5", "--option", "partial=drop"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["facts"]["segments"] == 4
    assert Workspace.open(tmp_path / "W").settings["options"] == {
        "window": "0.5",
        "partial": "drop",
    }
    wrong = CliRunner().invoke(app, [*call, "--option", "window"])
    assert wrong.exit_code == 2
    assert "expected name=value" in json.loads(wrong.stdout)["error"]
