"""Ingest reads transcripts and recordings exactly, and reports all that it could not read."""

import json
import os
import unicodedata

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st
from table_checks import check_tables

from nbaudio.core.atomic import sha256_file
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.formats import jsonlines, parlaspeech
from nbaudio.formats.transcripts import clean_columns
from nbaudio.sources.ingest import ingest
from nbaudio.sources.recording_names import read_mapping
from nbaudio.sources.recordings import list_audio, list_folder, probe_recordings
from nbaudio.sources.source_formats import READERS
from nbaudio.storage.location import location
from nbaudio.tables.rows import Rows
from nbaudio.tables.workspace import Workspace

ID = "HlauTe_NK6U"
LINE = {
    "file": "a.wav",
    "start": 0.5,
    "end": 1.5,
    "words": ["dobar", "dan"],
    "asr": ["dobar", "don"],
}


def write(path, *lines):
    """Lines into a file: objects as JSON, text and bytes as they are."""
    whole = [
        line
        if isinstance(line, bytes)
        else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    path.write_bytes(b"\n".join(whole))
    return path


def read(path, *lines):
    return parlaspeech.read(write(path / "asr.json", *lines))


def tone(path, seconds, rate=16000, channels=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(
        path,
        np.full((int(seconds * rate), channels), 0.1),
        rate,
        format="WAV" if path.suffix == "" else None,
    )


# the reader


def test_parlaspeech_lines_with_a_file_field_are_read(tmp_path):
    times = {"word_start_times": [0, 0.5], "word_end_times": [0.5, 1], "speaker": "spk07"}
    [row] = read(tmp_path, LINE | times).frame.rows(named=True)
    assert row == {
        "name": "a.wav",
        "segment_id": None,
        "source_start": "0.5",
        "source_end": "1.5",
        "text": "dobar dan",
        "text_raw": None,
        "asr_text": "dobar don",
        "speaker_id": "spk07",
        "word_times": [{"start": 0.0, "end": 0.5}, {"start": 0.5, "end": 1.0}],
    }


def test_parlaspeech_lines_of_version_1_0_are_read(tmp_path):
    speaker = {
        "Speaker_role": "Regular",
        "Speaker_name": "Maras, Gordan",
        "Speaker_gender": "M",
        "Speaker_birth": "1974",
    }
    line = {
        "path": "seg.HlauTe_NK6U_1.0-2.5.flac",
        "orig_file": f"sjednica [{ID}].wav",
        "start": 1.0,
        "end": 2.5,
        "words": ["Dobar", "dan,", "2018."],
        "word_start_times": [0, 0.5, 1],
        "norm_words": ["dobar", "dan", "dvije", "tisuće"],
        "norm_words_start_times": [0, 0.5, 1, 1.25],
        "utterance_id_start": "ParlaMint-HR_S01.u1",
        "utterance_id_end": "ParlaMint-HR_S01.u2",
        "speaker_info": speaker,
        "split": "train",
    }
    one, many = read(tmp_path, line, line | {"speaker_info": None, "split": "null"}).frame.rows(
        named=True
    )
    assert one == {
        "name": f"sjednica [{ID}].wav",
        "segment_id": None,
        "source_start": "1.0",
        "source_end": "2.5",
        "text": "dobar dan dvije tisuće",
        "text_raw": "Dobar dan, 2018.",
        "asr_text": None,
        "speaker_id": "Maras, Gordan",
        "word_times": [{"start": start, "end": None} for start in (0, 0.5, 1, 1.25)],
        "source_path": "seg.HlauTe_NK6U_1.0-2.5.flac",
        "source_split": "train",
        "utterance_id_start": "ParlaMint-HR_S01.u1",
        "utterance_id_end": "ParlaMint-HR_S01.u2",
        "speaker_gender": "M",
        "speaker_birth": "1974",
    }
    assert (many["speaker_id"], many["source_split"], many["speaker_gender"]) == (None, None, None)


def test_a_file_may_mix_both_parlaspeech_versions(tmp_path):
    other = {
        "orig_file": "b.wav",
        "start": 1,
        "end": 2,
        "words": ["Da!"],
        "norm_words": ["da"],
        "norm_words_start_times": [0],
    }
    frame = read(
        tmp_path, LINE | {"word_start_times": [0, 1], "word_end_times": [1, 2]}, other
    ).frame
    assert frame["name"].to_list() == ["a.wav", "b.wav"]
    assert frame["text"].to_list() == ["dobar dan", "da"]
    assert frame["word_times"].list.len().to_list() == [2, 1]


@pytest.mark.parametrize(
    "written",
    ["3207.70", "3207", "0.1", "1e-3", "-1.50", "100000000000000000000.000000000000000000001"],
)
def test_times_keep_the_characters_of_the_source(tmp_path, written):
    line = f'{{"file": "a.wav", "start": {written} , "end":"{written}", "words": ["a"]}}'
    assert read(tmp_path, line).frame.select("source_start", "source_end").row(0) == (
        written,
        written,
    )


def test_times_that_are_nan_or_null_keep_their_segments(tmp_path):
    line = (
        '{"file": "a.wav", "start": NaN, "end": null, "words": ["č", "b"], "asr": ["a"], '
        '"word_start_times": [NaN, 3.20]}'
    )
    found = read(tmp_path, line, line.replace("NaN, 3", "-Infinity, 3").replace("č", "\\u010d"))
    assert found.problems.is_empty()
    assert found.frame["source_start"].to_list() == ["NaN", "NaN"]
    assert found.frame["source_end"].to_list() == ["null", "null"]
    assert found.frame["text"].to_list() == ["č b", "č b"]
    assert found.frame["word_times"].list.last().struct.field("start").to_list() == pytest.approx(
        [3.2, 3.2]
    )


def test_a_missing_hypothesis_is_null_and_an_empty_one_is_empty(tmp_path):
    without = {key: value for key, value in LINE.items() if key != "asr"}
    assert read(tmp_path, without, LINE | {"asr": []}, LINE | {"asr": None}).frame[
        "asr_text"
    ].to_list() == [None, "", None]


def test_texts_are_composed_and_the_original_is_kept_as_text_raw(tmp_path):
    lines = [
        LINE | {"words": ["c\u030cas"], "asr": ["s\u030cto"]},
        json.dumps(LINE | {"words": ["c\u030c"]}, ensure_ascii=False),
    ]
    frame = read(tmp_path, *lines).frame
    assert frame["text"].to_list() == ["čas", "č"]
    assert frame["text_raw"].to_list() == ["c\u030cas", "c\u030c"]
    assert frame["asr_text"][0] == "što"


def test_unreadable_lines_are_reported_and_the_rest_is_processed(tmp_path):
    bad = {
        2: (b'{"file": "a.wav", "start": 1,', "not JSON"),
        3: (b'{"file": "a.wav", "start": 1, "end": 2, "words": ["\xff"]}', "not UTF-8: byte 0xff"),
        4: (b'{"file": "a\x00.wav", "start": 1, "end": 2, "words": []}', "not JSON"),
        5: (b"[1, 2]", "expected an object, not list"),
        7: (b'{"start": 1, "end": 2, "words": ["a"]}', "file or orig_file is missing"),
        8: (b'{"file": "a.wav", "end": 2, "words": ["a"]}', "start is missing"),
        9: (b'{"file": "a.wav", "start": 1, "end": 2}', "words is missing"),
        10: (b'{"file": "a.wav", "start": [1], "end": 2, "words": ["a"]}', "start: "),
        11: (b'{"file": "a.wav", "start": 1, "end": 2, "words": ["a", 3]}', "words: "),
        12: (b'{"file": "a.wav", "start": 1, "end": 2, "words": ["\\ud800"]}', "not Unicode"),
        13: (b'{"file": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        14: (
            b'{"file": "a.wav", "start": 1, "end": 2, "words": ["a"], "speaker_info": [1]}',
            "speaker_info: ",
        ),
    }
    lines = {
        1: json.dumps(LINE).encode(),
        6: b"  ",
        **{number: line for number, (line, _) in bad.items()},
    }
    found = read(
        tmp_path,
        *(lines[number] for number in sorted(lines)),
        b'{"file": "b.wav", "start": 1, "end": 2, "words": ["a"]}\r',
    )
    assert found.frame["name"].to_list() == ["a.wav", "b.wav"]
    assert found.problems["line"].to_list() == sorted(bad)
    for line, reason in found.problems.select("line", "reason").iter_rows():
        assert bad[line][1] in reason
    assert set(found.problems["file"]) == {"asr.json"}


def test_line_numbers_hold_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonlines, "_BLOCK_BYTES", 200)
    lines = [
        json.dumps(LINE | {"start": number}) if number % 7 else "broken" for number in range(1, 101)
    ]
    found = read(tmp_path, *lines)
    assert found.frame["source_start"].to_list() == [
        str(number) for number in range(1, 101) if number % 7
    ]
    assert found.problems["line"].to_list() == list(range(7, 101, 7))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "it is empty"),
        (["", " "], "it is empty"),
        (["<html>", "</html>"], "line 1: not JSON"),
        (["["] + [json.dumps(LINE) + ","] * 1500, "line 1: not JSON"),
        ([b"\xff\xfe{\x00"], "line 1: not UTF-8"),
    ],
)
def test_a_file_without_transcripts_is_refused_with_the_reason(tmp_path, lines, reason):
    with pytest.raises(InputError, match=reason) as raised:
        read(tmp_path, *lines)
    assert "asr.json" in str(raised.value)


def test_the_parlaspeech_reader_refuses_folders_and_missing_files(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        parlaspeech.read(tmp_path / "none.json")
    with pytest.raises(InputError, match="a folder"):
        parlaspeech.read(tmp_path)


def test_byte_order_mark_is_no_problem(tmp_path):
    found = read(tmp_path, b"\xef\xbb\xbf" + json.dumps(LINE).encode())
    assert (len(found.frame), len(found.problems)) == (1, 0)


TEXTS = st.text(st.characters(codec="utf8"), max_size=6) | st.sampled_from(
    ['"', "\\", '", "', "a, b", "č", "c\u030c", "[", "", "\n"]
)
FLOATS = st.lists(
    st.floats(0, 30, width=32).map(lambda value: round(value, 2)) | st.integers(0, 30), max_size=4
)
RECORDS = st.fixed_dictionaries(
    {
        "file": TEXTS,
        "start": st.integers(0, 99) | st.floats(0, 99),
        "end": st.just(1.5),
        "words": st.lists(TEXTS, max_size=4),
    },
    optional={
        "asr": st.lists(TEXTS, max_size=4) | st.none(),
        "speaker": TEXTS | st.none(),
        "word_start_times": FLOATS,
        "word_end_times": FLOATS,
        "another": st.none() | TEXTS,
    },
)
WRITERS = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)


def plainly(record):
    """One record, the slow and simple way."""
    raw, asr = " ".join(record["words"]), record.get("asr")
    starts = record.get("word_start_times")
    ends = record.get("word_end_times", [None] * len(starts or []))
    times = None
    if starts is not None and len(starts) == len(ends):
        times = [
            {"start": np.float32(a), "end": None if b is None else np.float32(b)}
            for a, b in zip(starts, ends, strict=True)
        ]
    text = unicodedata.normalize("NFC", raw)
    return {
        "name": record["file"],
        "segment_id": None,
        "source_start": json.dumps(record["start"]),
        "source_end": json.dumps(record["end"]),
        "text": text,
        "text_raw": None if raw == text else raw,
        "asr_text": None if asr is None else unicodedata.normalize("NFC", " ".join(asr)),
        "speaker_id": record.get("speaker"),
        "word_times": times,
    }


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(RECORDS, WRITERS), min_size=1, max_size=12))
def test_reading_by_column_equals_reading_record_by_record(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("property")
    found = read(path, *(json.dumps(record, **writer) for record, writer in written))
    assert found.problems.is_empty()
    assert found.frame.rows(named=True) == [plainly(record) for record, _ in written]


# the list of names


def test_scp_keeps_the_blanks_of_names(tmp_path):
    text = "reco1 a  b - c.wav\n\nreco2\t d\u00a0e.wav \r\nreco1 a  b - c.wav\n"
    assert read_mapping(write(tmp_path / "wav.scp", text)) == {
        "reco1": "a  b - c.wav",
        "reco2": "d\u00a0e.wav",
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("wav.scp", "a a.wav\nb sph2pipe -f wav b.sph |", "line 2.*'b' is a command"),
        ("wav.scp", "a a.wav\nb touch x |  ", "line 2.*command"),
        ("wav.scp", "alone", "line 1.*a key, a space and a file name"),
        ("wav.scp", "a a.wav\na b.wav", "line 2: 'a' is 'b.wav' here and 'a.wav' before"),
        ("names.csv", "name,file\na,b", "expected the columns name and path; it has name, file"),
        ("names.csv", "name,path\na,", "line 2: the path is empty"),
        ("names.tsv", "name\tpath\na\tb\na\tc", "line 3"),
        ("names.csv", "", "no readable rows"),
        ("names.csv", b"name,path\n\xff,b", "cannot be read"),
        ("wav.scp", b"a \xff.wav", "cannot be read"),
        ("names.xlsx", b"PK\x03\x04", "a workbook or another archive.*save its sheet as .csv"),
        ("names.csv", b"PK\x03\x04", "a workbook or another archive.*save its sheet as .csv"),
    ],
)
def test_invalid_names_files_are_refused(tmp_path, name, text, message):
    with pytest.raises(InputError, match=message) as raised:
        read_mapping(write(tmp_path / name, text))
    assert name in str(raised.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_mapping(tmp_path / f"no {name}")


def test_names_files_of_csv_and_tsv_are_read(tmp_path):
    assert read_mapping(write(tmp_path / "a.csv", 'path,name,why\n"b, c.wav",a.wav,x\n')) == {
        "a.wav": "b, c.wav"
    }
    assert read_mapping(write(tmp_path / "a.TSV", "\ufeffname\tpath\na  b\tc d")) == {"a  b": "c d"}


# the audio folder


def test_audio_files_are_listed_by_relative_path(tmp_path):
    root = tmp_path / "audio"
    for name in (
        "b.wav",
        "a/x.MP3",
        "a/x  y.flac",
        ".hidden.wav",
        ".cache/z.wav",
        "notes.txt",
        "b.wav.part",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    paths, refused = list_audio(root)
    assert (paths.to_list(), refused) == (["a/x  y.flac", "a/x.MP3", "b.wav"], [])


def test_links_and_special_files_of_the_audio_folder_are_reported(tmp_path):
    root = tmp_path / "audio"
    (root / "inside").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.wav").touch()
    (root / "inside/a.wav").touch()
    (root / "link out.wav").symlink_to(tmp_path / "outside/secret.wav")
    (root / "link in.wav").symlink_to("inside/a.wav")
    (root / "folder out").symlink_to(tmp_path / "outside")
    (root / "folder.wav").mkdir()
    (root / "gone.wav").symlink_to("nothing.wav")
    os.mkfifo(root / "pipe.wav")
    os.close(os.open(os.fsencode(root) + b"/\xff.wav", os.O_CREAT))
    paths, refused = list_audio(root)
    assert paths.to_list() == ["inside/a.wav", "link in.wav"]
    assert dict(refused) == {
        "\\xff.wav": "its name is not Unicode; rename it",
        "folder out": "a link that points outside the audio folder",
        "folder.wav": "a folder with the name of a recording; recordings in it are read",
        "gone.wav": "a broken link",
        "link out.wav": "a link that points outside the audio folder",
        "pipe.wav": "a pipe, socket or device, not a file",
    }


def test_a_refused_folder_is_refused_audio_as_it_may_have_recordings(tmp_path):
    root = tmp_path / "audio"
    (root / "inside").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for name in ("inside/a.wav", "notes.txt"):
        (root / name).touch()
    (root / "folder out").symlink_to(tmp_path / "outside")
    (root / "gone.wav").symlink_to("nothing.wav")
    (root / "gone.txt").symlink_to("nothing.txt")
    files = list_folder(location(root))
    assert (files.audio.to_list(), files.others.to_list()) == (["inside/a.wav"], ["notes.txt"])
    assert sorted(name for name, _ in files.refused_audio) == ["folder out", "gone.wav"]
    assert files.refused_others == [("gone.txt", "a broken link")]


def test_clean_columns_makes_blank_speakers_null():
    frame = clean_columns(
        Rows.collect([pl.DataFrame({"speaker_id": ["ana", " "], "audio": ["x", "y"]})])
    ).frame()
    assert frame.to_dict(as_series=False) == {
        "speaker_id": ["ana", None],
        "source_audio": ["x", "y"],
    }


def test_probing_continues_past_files_that_are_no_audio(tmp_path):
    tone(tmp_path / "a.wav", 1.0, rate=22050, channels=2)
    (tmp_path / "b.wav").write_bytes(b"RIFF")
    (tmp_path / "c.wav").touch()
    facts = probe_recordings(tmp_path, ["c.wav", "a.wav", "b.wav"], jobs=2, keep=tmp_path)
    assert facts["path"].to_list() == ["c.wav", "a.wav", "b.wav"]
    assert facts["num_samples"].to_list() == [None, 22050, None]
    assert facts["error"].is_null().to_list() == [False, True, False]
    row = facts.row(1, named=True)
    assert (row["sampling_rate"], row["num_channels"], row["codec"]) == (22050, 2, "pcm_16")
    assert row["sha256"] == sha256_file(tmp_path / "a.wav")
    assert (row["num_bytes"], row["mtime_ns"]) == (
        (tmp_path / "a.wav").stat().st_size,
        (tmp_path / "a.wav").stat().st_mtime_ns,
    )
    assert probe_recordings(tmp_path, ["a.wav"], sha256=False, keep=tmp_path)[
        "sha256"
    ].to_list() == [None]
    assert "gone.wav" in probe_recordings(tmp_path, ["gone.wav"], keep=tmp_path)["error"].item()


def test_many_recordings_are_probed_in_order(tmp_path):
    for number in range(600):
        (tmp_path / f"{number}.wav").write_bytes(b"text")
    tone(tmp_path / "599.wav", 1)
    paths = [f"{number}.wav" for number in range(600)]
    facts = probe_recordings(tmp_path, paths, jobs=3, keep=tmp_path)
    assert facts["path"].to_list() == paths
    assert facts["error"].is_null().arg_true().to_list() == [599]


# the step


def segment(start, end, **more):
    return LINE | {"start": start, "end": end} | more


@pytest.fixture
def archive(tmp_path):
    """Transcripts and recordings with their troubles."""
    tone(tmp_path / "audio/a.wav", 10, rate=8000, channels=2)
    tone(tmp_path / f"audio/b  [{ID}].flac", 4, rate=16000)
    tone(tmp_path / "audio/twice.flac", 1)
    tone(tmp_path / "audio/twice.ogg", 1)
    (tmp_path / "audio/broken.wav").write_bytes(b"no audio at all")
    lines = [
        segment(0.5, 1.5, speaker="spk1"),
        segment(9, 10.0),
        segment("9.0", "10.04"),
        segment(9, 10.06),
        segment(9, 12),
        segment(2, 1),
        segment(-1, 1),
        segment(float("nan"), 1),
        segment(0.5, 1.5),
        segment(3, 4, words=[]),
        segment(0.25, 2, file=f"b [{ID}].wav"),
        segment(0, 1, file="twice.wav"),
        segment(0, 1, file="broken.wav"),
        segment(0, 1, file="gone.wav"),
        "{",
    ]
    return write(tmp_path / "asr.json", *lines)


def test_every_line_becomes_a_segment_or_a_problem(archive, tmp_path):
    report = ingest("parlaspeech", archive, audio=tmp_path / "audio", out=tmp_path / "W", jobs=2)
    workspace = Workspace.open(tmp_path / "W")
    segments = workspace.segments
    key = ["start_sample", "end_sample", "decision", "reason"]
    assert dict(zip(segments["segment_id"], segments.select(key).rows(), strict=True)) == {
        "a_0.5-1.5": (4000, 12000, "pending", None),
        "a_9-10.0": (72000, 80000, "pending", None),
        "a_9.0-10.04": (72000, 80000, "pending", None),
        "a_9-10.06": (72000, 80480, "reject", "past_the_end"),
        "a_9-12": (72000, 96000, "reject", "past_the_end"),
        "a_2-1": (16000, 8000, "reject", "end_before_start"),
        "a_-1-1": (-8000, 8000, "reject", "negative_start"),
        "a_NaN-1": (None, 8000, "reject", "no_times"),
        "a_0.5-1.5#2": (4000, 12000, "reject", "duplicate"),
        "a_3-4": (24000, 32000, "reject", "empty_text"),
        f"{ID}_0.25-2": (4000, 32000, "pending", None),
        "twice_0-1": (None, None, "pending", None),
        "broken_0-1": (None, None, "pending", None),
        "gone_0-1": (None, None, "pending", None),
    }
    assert segments["speaker_id"][0] == "spk1"
    names = workspace.table("names")
    assert dict(names.select("name", "decision").iter_rows()) == {
        "a.wav": "exact",
        f"b [{ID}].wav": "blanks",
        "broken.wav": "exact",
        "gone.wav": "missing",
        "twice.wav": "ambiguous",
    }
    recordings = workspace.recordings
    assert dict(recordings.select("recording_id", "num_samples").iter_rows()) == {
        "a": 80000,
        ID: 64000,
        "broken": None,
        "gone": None,
        "twice": None,
    }
    problems = dict(workspace.table("problems").select("item", "reason").iter_rows())
    assert "twice.flac, twice.ogg" in problems["twice.wav"]
    assert problems["gone.wav"] == "no such recording"
    assert problems["line 15"].startswith("not JSON")
    assert "broken.wav" in problems["broken"]
    assert problems["a_2-1"] == "end_before_start"
    for telling in (
        "twice.wav: could mean",
        "gone.wav: no such",
        "asr.json line 15",
        "broken",
        "past_the_end: 2",
        "no_times: 1",
    ):
        assert [line for line in report.problems if telling in line], telling
    assert workspace.report("ingest") == report.to_dict()
    assert report.facts["segments"] == 14
    assert report.facts["unreadable_lines"] == 1
    assert (report.facts["recordings"], report.facts["recordings_with_audio"]) == (5, 2)
    assert report.facts["names"] == {"exact": 2, "blanks": 1, "ambiguous": 1, "missing": 1}
    assert report.facts["hours"] == pytest.approx((1 + 1 + 1 + 1.75 + 3) / 3600, abs=1e-3)


def test_only_rejected_segments_fail_the_table_checks(archive, tmp_path):
    ingest("parlaspeech", archive, audio=tmp_path / "audio", out=tmp_path / "W")
    workspace = Workspace.open(tmp_path / "W")
    failures = check_tables(workspace.recordings, workspace.segments)
    rejected = workspace.segments.filter(pl.col("decision") == "reject")
    assert set(failures["key"]) == set(rejected["segment_id"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "num_samples", "end_sample"),
    [
        ("1.00", 7960, 7960),  # half of 0.01 s at 8 kHz is 40 samples
        ("1.00", 7959, 7959),  # less than 50 ms
        ("1.00", 7601, 7601),
        ("1.00", 7600, 8000),
        ("1.0", 7600, 7600),
        ("1.0", 7599, 8000),
        ("1.000000", 8000, 8000),
        ("1", 4000, 4000),
        ("1e0", 7999, 7999),
        ("1e0", 7600, 8000),
        ("0.5", 8000, 4000),
    ],
)
def test_an_end_that_was_rounded_past_the_recording_means_its_end(
    tmp_path, end, num_samples, end_sample
):
    tone(tmp_path / "audio/a.wav", num_samples / 8000, rate=8000)
    source = write(
        tmp_path / "asr.json", f'{{"file": "a.wav", "start": 0.1, "end": {end}, "words": ["a"]}}'
    )
    ingest("parlaspeech", source, audio=tmp_path / "audio", out=tmp_path / "W")
    [row] = Workspace.open(tmp_path / "W").segments.rows(named=True)
    assert (row["end_sample"], row["reason"]) == (
        end_sample,
        "past_the_end" if end_sample > num_samples else None,
    )
    assert row["source_end"] == end


def test_ingest_estimates_the_size_of_the_corpus(tmp_path):
    tone(tmp_path / "audio/a.wav", 30, rate=48000, channels=2)
    tone(tmp_path / "audio/b.wav", 3, rate=16000)
    source = write(tmp_path / "asr.json", segment(0, 25), segment(0, 2, file="b.wav"))
    report = ingest("parlaspeech", source, audio=tmp_path / "audio", out=tmp_path / "W")
    [warning, _] = report.warnings
    assert (
        "of 2 recordings: 1 at 48,000 Hz with 2 channels, 1 at 16,000 Hz with 1 channel; "
    ) in warning
    # 25 s of 48,000 * 2 * 2 bytes and 2 s of 16,000 * 2; 27 s of 16,000 * 2
    assert "4.9 MB as they are, 864 kB as 16,000 Hz mono WAV, about 492 kB as FLAC" in warning


@pytest.mark.slow
def test_a_blank_speaker_name_becomes_null(tmp_path):
    rows = [segment(n, n + 1, speaker=name) for n, name in enumerate(["", " ", "ana"])]
    ingest("parlaspeech", write(tmp_path / "asr.json", *rows), out=tmp_path / "W")
    assert Workspace.open(tmp_path / "W").segments["speaker_id"].to_list() == [None, None, "ana"]


def test_source_columns_with_reserved_names_are_prefixed(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("name,start,end,text,audio,source_audio,shard,snr\na.wav,0,1,da,x,y,z,3\n")
    ingest("table", source, out=tmp_path / "W")
    row = Workspace.open(tmp_path / "W").segments.row(0, named=True)
    kept = {
        name: row.get(name)
        for name in ("audio", "source_source_audio", "source_audio", "source_shard", "snr")
    }
    assert kept == {
        "audio": None,
        "source_source_audio": "x",
        "source_audio": "y",
        "source_shard": "z",
        "snr": "3",
    }


def test_a_wrong_header_is_a_warning(tmp_path):
    tone(tmp_path / "audio/a.wav", 3, rate=8000)
    whole = (tmp_path / "audio/a.wav").read_bytes()
    (tmp_path / "audio/a.wav").write_bytes(whole[: len(whole) // 3])
    source = write(tmp_path / "asr.json", segment(0, 0.9), segment(0, 2))
    report = ingest("parlaspeech", source, audio=tmp_path / "audio", out=tmp_path / "W")
    assert [line for line in report.warnings if line.startswith("a.wav: truncated")]
    assert Workspace.open(tmp_path / "W").segments["reason"].to_list() == [None, "past_the_end"]


def test_transcripts_can_be_ingested_before_their_audio(archive, tmp_path):
    report = ingest("parlaspeech", archive, out=tmp_path / "W")
    workspace = Workspace.open(tmp_path / "W")
    before = workspace.segments
    assert (
        before["start_sample"].null_count()
        == before["end_sample"].null_count()
        == len(before)
        == 14
    )
    reasons = before["reason"].drop_nulls().to_list()
    assert reasons == ["end_before_start", "negative_start", "no_times", "duplicate", "empty_text"]
    assert workspace.audio_root is None
    assert [
        line for line in report.warnings if "5 recordings are missing" in line and "--audio" in line
    ]
    assert not [line for line in report.problems if "no such recording" in line]
    (workspace.path / "reviews").mkdir()
    (workspace.path / "reviews/sheet.json").write_text('{"segment_ids": ["a_0.5-1.5"]}')

    ingest("parlaspeech", archive, audio=tmp_path / "audio", out=tmp_path / "W")
    after = workspace.segments
    assert after["segment_id"].to_list() == before["segment_id"].to_list()
    assert after["start_sample"].count() == 10
    assert workspace.audio_root == tmp_path / "audio"
    assert workspace.reviewed_ids() == {"a_0.5-1.5"}


def test_a_names_file_settles_what_is_ambiguous(archive, tmp_path):
    names = write(tmp_path / "names.csv", "name,path\ntwice.wav,twice.ogg\n")
    ingest("parlaspeech", archive, audio=tmp_path / "audio", names=names, out=tmp_path / "W")
    assert (
        Workspace.open(tmp_path / "W")
        .recordings.filter(pl.col("recording_id") == "twice")["path"]
        .item()
        == "twice.ogg"
    )


def test_two_ingests_give_the_same_tables(archive, tmp_path):
    for out, jobs in (("W", 1), ("V", 4)):
        ingest("parlaspeech", archive, audio=tmp_path / "audio", out=tmp_path / out, jobs=jobs)
    for name in ("recordings", "segments", "names", "problems"):
        assert (tmp_path / f"W/{name}.parquet").read_bytes() == (
            tmp_path / f"V/{name}.parquet"
        ).read_bytes()


def test_the_report_lists_20_problems_and_counts_the_rest(tmp_path):
    source = write(tmp_path / "asr.json", LINE, *["broken"] * 30)
    report = ingest("parlaspeech", source, out=tmp_path / "W")
    assert len(report.problems) == 21
    assert report.problems[-1] == "and 10 more: see problems.parquet"
    assert len(Workspace.open(tmp_path / "W").table("problems")) == 30


def test_a_workspace_of_another_source_is_left_unchanged(archive, tmp_path):
    other = write(tmp_path / "other.json", LINE)
    ingest("parlaspeech", archive, out=tmp_path / "W")
    with pytest.raises(ExistsError, match=r"asr\.json; choose another --out"):
        ingest("parlaspeech", other, out=tmp_path / "W")
    assert len(Workspace.open(tmp_path / "W").segments) == 14


def test_an_output_folder_that_is_no_workspace_is_refused(archive, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.txt").touch()
    for out in ("full", "asr.json"):
        with pytest.raises(ExistsError, match="is not a workspace"):
            ingest("parlaspeech", archive, out=tmp_path / out)
    (tmp_path / "empty").mkdir()
    ingest("parlaspeech", archive, out=tmp_path / "empty")


def test_an_unusable_source_is_refused_with_the_reason(archive, tmp_path):
    out = tmp_path / "W"
    with pytest.raises(InputError, match="'parlspeech' is unknown; known are parlaspeech"):
        ingest("parlspeech", archive, out=out)
    with pytest.raises(InputError, match=r"no such file"):
        ingest("parlaspeech", tmp_path / "none.json", out=out)
    with pytest.raises(InputError, match="no such audio folder"):
        ingest("parlaspeech", archive, audio=tmp_path / "none", out=out)
    with pytest.raises(InputError, match="a file, not a folder of recordings"):
        ingest("parlaspeech", archive, audio=archive, out=out)
    with pytest.raises(InputError, match="is unknown; known are"):
        ingest("parlaspeech", archive, audio="ftp://host/audio", out=out)
    with pytest.raises(InputError, match="list of names"):
        ingest("parlaspeech", archive, names=tmp_path / "none.scp", out=out)
    assert not out.exists()


def test_the_mapping_of_readers_is_read_only():
    with pytest.raises(TypeError):
        READERS["mine"] = parlaspeech.read
