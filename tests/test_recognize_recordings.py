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
from recipes import write_recipe
from typer.testing import CliRunner
from web import serving

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
    """Recordings: 40 s at 48 kHz, one of the same name in another folder, and silence."""
    folder = tmp_path / "audio"
    (folder / "one").mkdir(parents=True)
    (folder / "two").mkdir()
    sf.write(folder / "one/a.flac", speech(40, 48000), 48000)
    sf.write(folder / "two/a.wav", speech(3, seed=2), RATE)
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
    assert list(written) == ["one/a.json", "silence.json", "two/a.json"]
    assert written["silence.json"] == {
        "duration": 2.0,
        "recognizer": written["one/a.json"]["recognizer"],
        "failed": [],
        "segments": [],
    }
    [segment] = written["two/a.json"]["segments"]
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
    segments = hypotheses(tmp_path / "h")["one/a.json"]["segments"]
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
    segments = hypotheses(tmp_path / "one")["one/a.json"]["segments"]
    assert sum(int(segment["words"][0]["word"][1:]) for segment in segments) == 40 * RATE


def test_a_workspace_and_recordings_take_other_options(audio, tmp_path, make_workspace):
    workspace = make_workspace({"a.wav": (4.0, RATE)})
    for place, options, why in (
        (workspace.path, ["--out", "h"], "a workspace, whose segments get a column"),
        (audio, [], r"no workspace, as it has no recordings.parquet; recordings need --out DIR"),
        (audio, ["--out", "h", "--as", "x"], "--as names a column of a workspace"),
        (audio, ["--out", "h", "--chunk", "1"], "chunk must be from 5 to 600 s, not 1"),
        (tmp_path / "none", ["--out", "h"], "there is no such file or folder"),
        (audio / "two", ["--out", str(audio)], "the folder is not empty and has no hypotheses"),
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
    assert not (tmp_path / "h/one/a.json").exists()
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
        for segment in hypotheses(tmp_path / "whole")["one/a.json"]["segments"][1:]
    )
    report = run(audio, tmp_path / "h", Broken({length}), chunk=10)
    written = hypotheses(tmp_path / "h")["one/a.json"]
    [failed] = written["failed"]
    assert failed["reason"] == "RuntimeError: out of memory"
    assert failed["end"] - failed["start"] == pytest.approx(length / RATE)
    assert report.problems == [
        f"one/a.flac, {failed['start']:.2f}-{failed['end']:.2f} s: RuntimeError: out of memory"
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
    with pytest.raises(InputError, match=r"none of 1 recording can be recognized; text.wav: not"):
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
    sf.write(audio / "two/a.wav", speech(4, seed=3), RATE)
    report = run(audio, tmp_path / "h")
    assert (report.facts["recognized_now"], report.facts["already_recognized"]) == (1, 2)
    shutil.copy(audio / "two/a.wav", audio / "one/a.wav")
    report = run(audio, tmp_path / "h")
    assert (report.facts["recognized_now"], report.facts["already_recognized"]) == (1, 3)
    written = contents(tmp_path / "h")
    assert sorted(map(str, written)) == [
        "one/a.flac.json",
        "one/a.wav.json",
        "silence.json",
        "two/a.json",
    ]
    assert written[Path("one/a.flac.json")] == before[Path("one/a.json")]
    (audio / "one/a.wav").unlink()
    assert run(audio, tmp_path / "h").warnings[-1] == (
        "hypotheses of 1 recording that are not there, such as one/a.wav, stay in the folder"
    )


def test_names_that_differ_in_case_alone_keep_their_endings(audio, tmp_path):
    shutil.copy(audio / "two/a.wav", audio / "one/A.wav")
    run(audio, tmp_path / "h")
    assert [str(path) for path in contents(tmp_path / "h")] == [
        "one/A.wav.json",
        "one/a.flac.json",
        "silence.json",
        "two/a.json",
    ]


def test_a_changed_or_lost_file_of_hypotheses_is_made_again(audio, tmp_path):
    run(audio, tmp_path / "h")
    whole = contents(tmp_path / "h")
    (tmp_path / "h/one/a.json").write_text("{}")
    (tmp_path / "h/two/a.json").unlink()
    assert run(audio, tmp_path / "h").facts["recognized_now"] == 2
    assert contents(tmp_path / "h") == whole


class Item:
    """An object with some attributes, as recognizers return."""

    def __init__(self, **fields):
        vars(self).update(fields)


DOBAR = {"word": "dobar", "start": 0.5, "end": 1.0}
DAN = {"word": "dan", "start": 1.0, "end": 1.25}
SEGMENT = {"start": 0.5, "end": 1.25, "text": "dobar dan", "words": [DOBAR, DAN]}
WITHOUT_WORDS = {"start": 0.5, "end": 1.25, "text": "dobar dan"}
CHUNK = {"start": 0.0, "end": 2.0, "text": "dobar dan"}
#: What a recognizer returns for a chunk of 2 s, and the segments in the file.
ANSWERS = {
    "text": (" dobar dan\n", [CHUNK]),
    "no text": ("", []),
    "object with text": ({"text": "dobar dan"}, [CHUNK]),
    "words": ({"words": [DOBAR, DAN]}, [SEGMENT]),
    "text and words": (
        {"text": "Dobar dan.", "words": [DOBAR, DAN]},
        [SEGMENT | {"text": "Dobar dan."}],
    ),
    "list of words": ([DOBAR, DAN], [SEGMENT]),
    "no words": ({"words": []}, []),
    "segments": ({"segments": [WITHOUT_WORDS]}, [WITHOUT_WORDS]),
    "segments with words": ([{**WITHOUT_WORDS, "words": [DOBAR, DAN]}], [SEGMENT]),
    "faster-whisper": (
        [
            Item(
                start=0.5,
                end=1.25,
                text=" dobar dan",
                words=[
                    Item(word=" dobar", start=np.float64(0.5), end=1.0, probability=0.91239),
                    Item(word=" dan", start=1.0, end=1.25, probability=np.float32(0.5)),
                ],
            )
        ],
        [SEGMENT | {"words": [DOBAR | {"confidence": 0.9124}, DAN | {"confidence": 0.5}]}],
    ),
    "transformers, words": (
        {
            "text": " dobar dan",
            "chunks": [
                {"text": " dobar", "timestamp": (0.5, 1.0)},
                {"text": " dan", "timestamp": (1.0, 1.25)},
            ],
        },
        [SEGMENT],
    ),
    "transformers, segments": (
        {"text": "", "chunks": [{"text": " dobar dan", "timestamp": (0.5, 1.25)}]},
        [WITHOUT_WORDS],
    ),
    "transformers, no end": (
        {"chunks": [{"text": " dobar dan", "timestamp": (0.5, None)}]},
        [WITHOUT_WORDS | {"end": 2.0}],
    ),
    "onnx-asr": (
        Item(
            text="dobar dan",
            tokens=[" do", "bar", " d", "an"],
            timestamps=[0.5, 1.0, 1.0, 1.25],
        ),
        [SEGMENT],
    ),
    "NeMo": (
        Item(
            text="dobar dan",
            timestamp={"word": [DOBAR | {"start_offset": 6}, DAN], "segment": []},
        ),
        [SEGMENT],
    ),
    "end precedes start": (
        [DOBAR, DAN | {"end": 0.75}],
        [SEGMENT | {"end": 1.0, "words": [DOBAR, {"word": "dan"}]}],
    ),
    "no number": (
        [DOBAR, DAN | {"start": "1.0"}],
        [SEGMENT | {"end": 1.0, "words": [DOBAR, {"word": "dan"}]}],
    ),
    "no finite number": (
        [DOBAR | {"start": float("nan")}, DAN | {"end": float("inf")}],
        [CHUNK | {"words": [{"word": "dobar"}, {"word": "dan"}]}],
    ),
    "beyond the end": (
        [DOBAR | {"start": -0.25}, DAN | {"end": 2.5}],
        [
            {
                "start": 0.0,
                "end": 2.0,
                "text": "dobar dan",
                "words": [DOBAR | {"start": 0.0}, DAN | {"end": 2.0}],
            }
        ],
    ),
}


class Answering:
    """A recognizer that gives each chunk the same answer."""

    version = "1"

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, clips):
        return [self.answer] * len(clips)


@pytest.fixture
def two_seconds(tmp_path):
    """A recording of 2 s."""
    sf.write(tmp_path / "a.wav", speech(2), RATE)
    return tmp_path / "a.wav"


@pytest.mark.parametrize("form", ANSWERS)
def test_answers_of_many_forms_give_the_same_segments(form, two_seconds, tmp_path):
    answer, segments = ANSWERS[form]
    report = run(two_seconds, tmp_path / "h", Answering(answer), engine="threading")
    assert hypotheses(tmp_path / "h")["a.json"]["segments"] == segments
    words = [word for segment in segments for word in segment.get("words", ())]
    without_words = sum("words" not in segment for segment in segments)
    assert report.facts["words"] == len(words)
    assert report.facts["words_without_times"] == sum("start" not in word for word in words)
    assert report.facts["words_clipped"] == (2 if form == "beyond the end" else 0)
    assert report.facts["segments_without_word_times"] == without_words
    note = "1 segment has no times of words, which align needs: the recognizer gives none"
    assert (note in report.warnings) == bool(without_words)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (3, "its answer is neither a string, words with start .* but int '3'"),
        ({"sentence": "a"}, "its answer is neither a string"),
        ([{"start": 1, "end": 2}], "a segment has neither text nor words"),
        ({"words": [{"start": 1}]}, "a word has no text"),
        ({"words": "dobar dan"}, "its words are no list, but str 'dobar dan'"),
        ({"words": [{"word": 3}]}, "its text is not a string of valid Unicode"),
        ("\ud800", "its text is not a string of valid Unicode"),
        (
            [DOBAR | {"start": 500, "end": 1000}, DAN | {"start": 1000, "end": 1250}],
            "most times are outside of the chunk of 2 s, such as 500; "
            "they have to be seconds from its start",
        ),
        (Item(tokens=["a"], timestamps=[]), "it has 1 tokens and 0 timestamps"),
    ],
)
def test_answers_of_other_forms_are_refused_with_the_reason(answer, why, two_seconds, tmp_path):
    with pytest.raises(InputError, match=f"none of 1 recording can be recognized; a.wav, .*{why}"):
        run(two_seconds, tmp_path / "h", Answering(answer), engine="threading")
    assert not (tmp_path / "h/a.json").exists()


def test_a_command_may_print_other_json(two_seconds, tmp_path):
    (tmp_path / "command.py").write_text("print('[]'); print(3)")
    with pytest.raises(InputError, match="printed no line for this id; line 1 is not"):
        run(two_seconds, tmp_path / "h", f"{sys.executable} {tmp_path / 'command.py'}")


def test_the_next_command_after_a_file_names_its_folder(audio, tmp_path):
    report = run(audio / "two/a.wav", tmp_path / "h", engine="threading")
    assert f"--audio {audio / 'two'} --out W" in report.facts["next"]


def test_a_command_writes_timed_words(audio, tmp_path):
    code = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    clip = json.loads(line)\n"
        "    word = {'word': 'a', 'start': 0.5, 'end': clip['duration_s']}\n"
        "    print(json.dumps({'id': clip['id'], 'words': [word]}))\n"
    )
    (tmp_path / "command.py").write_text(code)
    command = f"{sys.executable} {tmp_path / 'command.py'}"
    report = run(audio, tmp_path / "h", command, chunk=10)
    segments = hypotheses(tmp_path / "h")["one/a.json"]["segments"]
    assert report.facts["words"] == report.facts["chunks"] == len(segments) + 1
    assert [segment["start"] for segment in segments[1:]] == pytest.approx(
        [segment["end"] + 0.5 for segment in segments[:-1]]
    )


def test_hypotheses_of_recordings_are_aligned_with_minutes(audio, tmp_path):
    run(audio, tmp_path / "h", read_aloud, chunk=10)
    heard = [
        word["word"]
        for segment in hypotheses(tmp_path / "h")["one/a.json"]["segments"]
        for word in segment["words"]
    ]
    (tmp_path / "minutes/one").mkdir(parents=True)
    (tmp_path / "minutes/one/a.txt").write_text("Zapisnik. " + " ".join(heard).capitalize() + ".")
    report = nbaudio.align(
        tmp_path / "h", tmp_path / "minutes", audio=audio, out=tmp_path / "w", show_progress=False
    )
    segments = nbaudio.Workspace.open(tmp_path / "w").segments
    assert report.facts["heard_in_segments"] == len(heard)
    assert segments["recording_id"].unique().to_list() == ["one/a"]
    assert segments["end_sample"].max() > 35 * 48000


def read_aloud(clips):
    """Words that differ from chunk to chunk, a word each half second."""
    letters = "abcdefghijklmnoprstuvz"
    return [
        [
            {
                "word": f"{letters[n % 22]}{letters[n // 22]}{letters[len(clip) // 320 % 22]}",
                "start": n / 2,
                "end": n / 2 + 0.4,
            }
            for n in range(len(clip) // 8000)
        ]
        for clip in clips
    ]


read_aloud.version = "1"


@pytest.mark.slow
def test_words_of_pocketsphinx_are_aligned_with_minutes(tmp_path, monkeypatch):
    """A real recognizer, by its recipe, on sentences of the demo; the minutes are what it hears,
    typed with an error in ten words."""
    pytest.importorskip("pocketsphinx")
    (tmp_path / "audio").mkdir()
    (tmp_path / "minutes").mkdir()
    samples, rate = sf.read(next((TOP / "data_manifests/demo/audio").glob("*.FLAC")))
    sf.write(tmp_path / "audio/budget.flac", samples[12 * rate : 26 * rate], rate)
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path, "sphinx.py")
    report = run(tmp_path / "audio", tmp_path / "h", "sphinx:transcribe_words", chunk=7)
    assert report.problems == report.warnings == []
    chunks = hypotheses(tmp_path / "h")["budget.json"]["segments"]
    words = [word["word"] for chunk in chunks for word in chunk["words"]]
    assert {"brief", "road"} <= set(words)
    assert not any({*word} & {*"<[("} for word in words)
    typed = [word if number % 10 else "typo" for number, word in enumerate(words, 5)]
    (tmp_path / "minutes/budget.txt").write_text(" ".join(typed))
    nbaudio.align(
        tmp_path / "h",
        tmp_path / "minutes",
        audio=tmp_path / "audio",
        out=tmp_path / "w",
        show_progress=False,
    )
    segments = nbaudio.Workspace.open(tmp_path / "w").segments
    assert len(segments) > 0
    assert segments["end_sample"].max() <= 14 * rate


def test_recordings_of_a_folder_on_the_web(audio, tmp_path):
    run(audio, tmp_path / "local")
    with serving(audio) as web:
        report = run(web.url, tmp_path / "remote", jobs=2, engine="threading")
    assert report.problems == []
    assert contents(tmp_path / "remote") == contents(tmp_path / "local")
    assert not (tmp_path / "remote/.recognition/fetched").exists()


def test_fetched_recordings_stay_until_no_chunk_fails(audio, tmp_path):
    with serving(audio) as web:
        report = run(web.url, tmp_path / "h", Broken({3 * RATE}), engine="threading")
        assert report.facts["failed_chunks"] == 1
        web.asked.clear()
        assert run(web.url, tmp_path / "h", Broken(set()), engine="threading").problems == []
    assert web.asked["GET", "a.wav"] == 0
    assert not (tmp_path / "h/.recognition/fetched").exists()


KILLER = """
import os, signal
version = "1"

def transcribe(clips):
    if any(len(clip) < 16000 * 4 for clip in clips):
        os.kill(os.getpid(), signal.SIGKILL)
    return [f"{len(clip)} samples" for clip in clips]
"""


@pytest.mark.slow
def test_a_recording_that_kills_its_worker_fails_and_the_rest_is_recognized(
    audio, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "killer.py").write_text(KILLER)
    report = run(audio, tmp_path / "h", "killer:transcribe", jobs=2, batch=1)
    assert report.problems == [
        "two/a.wav, 0.00-3.00 s: the worker that recognizes it is killed: it crashes a library, "
        "or needs too much memory"
    ]
    assert list(hypotheses(tmp_path / "h")) == ["one/a.json", "silence.json"]


def test_another_recognizer_or_chunk_recognizes_all_again(audio, tmp_path):
    run(audio, tmp_path / "h")
    before = contents(tmp_path / "h")
    assert run(audio, tmp_path / "h", chunk=10).facts["recognized_now"] == 3
    assert run(audio, tmp_path / "h", Answering("")).facts["recognized_now"] == 3
    (tmp_path / "h/.recognition/done.jsonl").write_text('{"path": 3}\nno json\n')
    assert run(audio, tmp_path / "h").facts["recognized_now"] == 3
    assert contents(tmp_path / "h") == before


def test_channels_that_cancel_in_their_mix_are_heard(tmp_path):
    sound = speech(3)
    sf.write(tmp_path / "a.wav", np.stack([sound, -sound], axis=1), RATE)
    report = run(tmp_path / "a.wav", tmp_path / "h")
    assert report.facts["words"] == 2
    assert "its channels cancel in their mix" in report.warnings[0]
