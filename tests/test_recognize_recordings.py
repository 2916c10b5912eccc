"""Recognizing whole recordings: chunks, forms of answers, files of hypotheses, failures, resuming,
and the way to aligned segments."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app

TOP = Path(nbaudio.__file__).parent.parent
RATE = 16000


def speech(seconds, rate=RATE, *, seed=1, period=3.7):
    """A tone of 180 Hz that stops for a third of each period, with noise; int16."""
    time = np.arange(int(seconds * rate)) / rate
    is_on = time % period < period * 2 / 3
    noise = np.random.default_rng(seed).standard_normal(len(time))
    return (8000 * is_on * np.sin(2 * np.pi * 180 * time) + 20 * noise).astype(np.int16)


def spell(clips):
    """Words with times that say where the clip begins: its samples, and its first sample."""
    return [
        [
            {"word": f"n{len(clip)}", "start": 0.25, "end": 0.5, "confidence": 0.75},
            {"word": f"x{round(float(clip[0]) * 32768)}", "start": 0.5, "end": 1.0},
        ]
        for clip in clips
    ]


spell.version = "1"


@pytest.fixture
def audio(tmp_path):
    """A folder of recordings: 40 s at 48 kHz, the same name in a folder, and silence."""
    folder = tmp_path / "audio"
    (folder / "sub").mkdir(parents=True)
    sf.write(folder / "a.flac", speech(40, 48000), 48000)
    sf.write(folder / "sub/a.wav", speech(3, seed=2), RATE)
    sf.write(folder / "silence.wav", np.zeros(2 * RATE, np.int16), RATE)
    return folder


def run(audio, out, with_=spell, **options):
    return nbaudio.recognize(audio, with_=with_, out=out, show_progress=False, **options)


def hypotheses(out):
    return {
        path.relative_to(out).as_posix(): json.loads(path.read_text("utf8"))
        for path in sorted(out.rglob("*.json"))
    }


def contents(out):
    return {path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*.json"))}


def test_each_recording_gets_a_file_with_timed_words(audio, tmp_path):
    report = run(audio, tmp_path / "h", chunk=10)
    written = hypotheses(tmp_path / "h")
    assert list(written) == ["a.json", "silence.json", "sub/a.json"]
    assert written["silence.json"] == {
        "duration": 2.0,
        "recognizer": written["a.json"]["recognizer"],
        "failed": [],
        "segments": [],
    }
    [segment] = written["sub/a.json"]["segments"]
    assert segment["text"] == "n48000 x" + segment["words"][1]["word"][1:]
    assert segment["words"][0] == {"word": "n48000", "start": 0.25, "end": 0.5, "confidence": 0.75}
    assert (segment["start"], segment["end"]) == (0.25, 1.0)
    facts = report.facts
    assert (facts["recordings"], facts["recognized_now"], facts["failed"]) == (3, 3, 0)
    assert facts["words"] == 2 * facts["chunks"] >= 12
    assert report.warnings == ["nothing was heard in 1 recording, such as silence.wav"]
    assert run(audio, tmp_path / "h", chunk=10).facts["already_recognized"] == 3


def test_chunks_are_cut_in_pauses_and_cover_the_recording(audio, tmp_path):
    run(audio, tmp_path / "h", chunk=10)
    segments = hypotheses(tmp_path / "h")["a.json"]["segments"]
    starts = [segment["words"][0]["start"] - 0.25 for segment in segments]
    lengths = [int(segment["words"][0]["word"][1:]) / RATE for segment in segments]
    ends = np.add(starts, lengths)
    assert starts[0] == 0
    assert ends[-1] == pytest.approx(40)
    assert starts[1:] == pytest.approx(ends[:-1])
    assert max(lengths) <= 10
    # The tone stops 2.47 s after the start of each period of 3.7 s.
    assert all(start % 3.7 > 2.47 for start in starts[1:])


def test_jobs_and_engines_write_equal_bytes(audio, tmp_path, monkeypatch):
    monkeypatch.setattr("nbaudio.recognition.recording_parts.PART_S", 12)
    run(audio, tmp_path / "one", chunk=5, batch=3)
    run(audio, tmp_path / "two", chunk=5, jobs=3, engine="threading")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    segments = hypotheses(tmp_path / "one")["a.json"]["segments"]
    assert sum(int(segment["words"][0]["word"][1:]) for segment in segments) == 40 * RATE


def test_a_workspace_and_recordings_take_other_options(audio, tmp_path, make_workspace):
    workspace = make_workspace({"a.wav": (4.0, RATE)})
    for place, options, why in (
        (workspace.path, ["--out", "h"], "a workspace, whose segments get a column"),
        (audio, [], r"no workspace, as it has no recordings.parquet; recordings need --out DIR"),
        (audio, ["--out", "h", "--as", "x"], "--as names a column of a workspace"),
        (audio, ["--out", "h", "--chunk", "1"], "chunk must be 5 s or more"),
        (tmp_path / "none", ["--out", "h"], "there is no such file or folder"),
        (audio / "sub", ["--out", str(audio)], "the folder is not empty and has no hypotheses"),
    ):
        words = ["recognize", str(place), "--with", "cat", *options]
        ended = CliRunner().invoke(app, words)
        assert ended.exit_code == 2, ended.output
        assert why in ended.output
        assert ended.output.count("\n") == 1
    assert not (audio / ".recognition").exists()
