"""Recognizing whole recordings: chunks, forms of answers, files of hypotheses, failures, resuming,
and the way to aligned segments."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import InputError

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


SLOW = """
import os
version = "1"

def transcribe(clips):
    with open("calls", "a") as file:
        file.write("".join(f"{len(clip)}\\n" for clip in clips))
    if "KILLED" in os.environ and os.path.getsize("calls") > 60:
        os.kill(os.getpid(), 9)
    return [f"{len(clip)} samples" for clip in clips]
"""


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_in_the_middle_of_a_recording(audio, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    code = (
        "import nbaudio.recognition.recording_parts as p; p.PART_S = 8; import nbaudio\n"
        "nbaudio.recognize('audio', with_='slow:transcribe', out='h', chunk=5, batch=1, "
        "engine='threading', show_progress=False)"
    )
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    command = [sys.executable, "-c", code]
    first = subprocess.run(command, env={**environment, "KILLED": "1"}, check=False, cwd=tmp_path)
    assert first.returncode == -signal.SIGKILL
    assert not (tmp_path / "h/a.json").exists()
    calls = (tmp_path / "calls").read_text().split()
    subprocess.run(command, env=environment, check=True, cwd=tmp_path)
    again = (tmp_path / "calls").read_text().split()[len(calls) :]
    shutil.move(tmp_path / "h", tmp_path / "resumed")
    (tmp_path / "calls").unlink()
    subprocess.run(command, env=environment, check=True, cwd=tmp_path)
    whole = (tmp_path / "calls").read_text().split()
    assert contents(tmp_path / "resumed") == contents(tmp_path / "h")
    # Two parts were done, and the third had begun.
    assert 0 < len(again) < len(whole) <= len(calls) + len(again) <= len(whole) + 3
    assert sorted(path.name for path in (tmp_path / "resumed/.recognition").iterdir()) == [
        "done.jsonl",
        "problems.txt",
    ]


class Broken:
    """A recognizer that fails where a chunk has a number of samples, until it is repaired."""

    version = "1"

    def __init__(self, lengths):
        self.lengths, self.calls = lengths, []

    def __call__(self, clips):
        self.calls += [len(clip) for clip in clips]
        if any(len(clip) in self.lengths for clip in clips):
            raise RuntimeError("out of memory")
        return spell(clips)


def test_failed_chunks_are_listed_and_tried_again(audio, tmp_path):
    run(audio, tmp_path / "whole", chunk=10)
    length = next(
        int(segment["words"][0]["word"][1:])
        for segment in hypotheses(tmp_path / "whole")["a.json"]["segments"][1:]
    )
    report = run(audio, tmp_path / "h", Broken({length}), chunk=10)
    written = hypotheses(tmp_path / "h")["a.json"]
    [failed] = written["failed"]
    assert failed["reason"] == "RuntimeError: out of memory"
    assert failed["end"] - failed["start"] == pytest.approx(length / RATE)
    assert report.problems == [
        f"a.flac, {failed['start']:.2f}-{failed['end']:.2f} s: RuntimeError: out of memory"
    ]
    assert (report.facts["failed_chunks"], report.facts["failed"]) == (1, 0)
    repaired = Broken(set())
    report = run(audio, tmp_path / "h", repaired, chunk=10)
    assert repaired.calls == [length]
    assert (report.problems, report.facts["recognized_now"]) == ([], 1)
    assert contents(tmp_path / "h") == contents(tmp_path / "whole")


def test_a_broken_recording_is_a_problem_and_the_rest_is_recognized(audio, tmp_path):
    (audio / "text.wav").write_text("no audio")
    report = run(audio, tmp_path / "h")
    assert report.problems == [
        "text.wav: not audio but text (Invalid data found when processing input)"
    ]
    assert (report.facts["recognized_now"], report.facts["failed"]) == (3, 1)
    assert "text.json" not in hypotheses(tmp_path / "h")
    with pytest.raises(InputError, match="none of 1 recording can be recognized; text.wav: not"):
        run(audio / "text.wav", tmp_path / "other")


def test_a_damaged_stretch_is_listed_and_what_is_around_it_is_recognized(tmp_path):
    (tmp_path / "audio").mkdir()
    path = tmp_path / "audio/a.flac"
    sf.write(path, speech(200), RATE)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20000] = bytes(20000)
    path.write_bytes(content)
    report = run(tmp_path / "audio", tmp_path / "h")
    written = hypotheses(tmp_path / "h")["a.json"]
    assert len(report.problems) == len(written["failed"]) > 0
    starts = [segment["start"] for segment in written["segments"]]
    assert min(starts) < 50
    assert max(starts) > 150


def test_recordings_that_changed_or_moved_within_the_folder(audio, tmp_path):
    run(audio, tmp_path / "h")
    before = contents(tmp_path / "h")
    sf.write(audio / "sub/a.wav", speech(4, seed=3), RATE)
    report = run(audio, tmp_path / "h")
    assert (report.facts["recognized_now"], report.facts["already_recognized"]) == (1, 2)
    shutil.copy(audio / "sub/a.wav", audio / "a.wav")
    report = run(audio, tmp_path / "h")
    assert (report.facts["recognized_now"], report.facts["already_recognized"]) == (1, 3)
    written = contents(tmp_path / "h")
    assert sorted(map(str, written)) == [
        "a.flac.json",
        "a.wav.json",
        "silence.json",
        "sub/a.json",
    ]
    assert written[Path("a.flac.json")] == before[Path("a.json")]
    (audio / "a.wav").unlink()
    assert run(audio, tmp_path / "h").warnings[-1] == (
        "hypotheses of 1 recording that are not there, such as a.wav, stay in the folder"
    )


def test_a_changed_or_lost_file_of_hypotheses_is_made_again(audio, tmp_path):
    run(audio, tmp_path / "h")
    whole = contents(tmp_path / "h")
    (tmp_path / "h/a.json").write_text("{}")
    (tmp_path / "h/sub/a.json").unlink()
    assert run(audio, tmp_path / "h").facts["recognized_now"] == 2
    assert contents(tmp_path / "h") == whole
