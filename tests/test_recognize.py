"""Recognizing: what a recognizer gets, what is kept, what fails, and that a second run does only
the rest."""

import json
import os
import shlex
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from recipes import write_recipe
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import InputError, WorkerLostError
from nbaudio.recognition.recognize import recognize
from nbaudio.sources.joined_columns import store_column
from nbaudio.tables import workspace_tables

TOP = Path(nbaudio.__file__).parent.parent


def heard(clips):
    """A text that only these very samples have."""
    return [f"heard {len(clip)} {float(np.abs(clip).sum()):.3f}" for clip in clips]


heard.version = "1"


class Counted:
    """A recognizer that counts calls and clips, and fails on clips that begin at some times."""

    version = "1"

    def __init__(self, broken=lambda clip: False):
        self.calls, self.broken = [], broken

    def __call__(self, clips):
        self.calls.append(len(clips))
        if any(self.broken(clip) for clip in clips):
            raise RuntimeError("a clip is broken\nfor a long reason")
        return heard(clips)


@pytest.fixture
def workspace(make_workspace):
    """Stereo at 48 kHz and mono-like at 16 kHz: 7 segments of 2.37 s."""
    return make_workspace({"a.wav": (12.0, 48000), "b.flac": (9.0, 16000)})


def run(workspace, with_=heard, as_="x", **options):
    return recognize(workspace, with_=with_, as_=as_, show_progress=False, **options)


def column(workspace, name="x"):
    return workspace.segments[f"asr_text_{name}"].to_list()


def ledger(workspace, name="x"):
    path = workspace.path / f"recognized/{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf8").splitlines()]


def problems(workspace, name="x"):
    return workspace.table(f"recognized/{name}.problems")


def test_a_recognizer_gets_the_clips_that_materialize_cuts(workspace, tmp_path):
    segments = workspace.segments.with_columns(
        source_channel=pl.Series(["0", "1", *[None] * (len(workspace.segments) - 2)])
    )
    workspace.save(segments=segments)
    got = []
    report = run(
        workspace,
        lambda clips: (
            [got.extend(clips) or f"clip {len(got)}" for _ in [0]] + [""] * (len(clips) - 1)
        ),
    )
    nbaudio.materialize(
        workspace,
        out=tmp_path / "c",
        encoding="wav",
        jobs=1,
        engine="threading",
        show_progress=False,
    )
    corpus = nbaudio.open_corpus(tmp_path / "c")
    made = {
        clip.segment_id: clip.samples for clip in corpus.read_many(segments["segment_id"].to_list())
    }
    assert all(
        clip.dtype == np.float32 and clip.ndim == 1 and np.abs(clip).max() <= 1 for clip in got
    )
    as_int16 = {(clip * 32768).astype(np.int16).tobytes() for clip in got}
    assert as_int16 == {np.asarray(clip, np.int16).tobytes() for clip in made.values()}
    assert (
        len(as_int16) == report.facts["recognized_now"] == len(segments) == report.facts["segments"]
    )


def test_texts_are_in_the_order_of_the_segments_and_of_unselected_ones_too(workspace):
    shuffled = workspace.segments.sample(fraction=1, shuffle=True, seed=3).with_columns(
        decision=pl.lit("reject")
    )
    workspace.save(segments=shuffled)
    report = run(workspace)
    for segment_id, text in workspace.segments.select("segment_id", "asr_text_x").iter_rows():
        assert (
            text
            == heard(
                [nbaudio.clip(workspace, segment_id, rate=16000).samples.astype(np.float32) / 32768]
            )[0]
        )
    assert workspace.segments.drop("asr_text_x").equals(
        shuffled.cast(workspace.segments.drop("asr_text_x").schema)
    )
    facts = report.facts
    names = (
        "column segments recognized_now already_recognized failed skipped texts hours seconds "
        "times_real_time next"
    )
    assert list(facts) == names.split()
    assert facts["next"] == f"nbaudio score {shlex.quote(str(workspace.path))} --hypothesis x"
    assert facts["hours"] == pytest.approx(7 * 2.37 / 3600, abs=1e-5)
    assert workspace.settings["joined"] == {
        "asr_text_x": {"step": "recognize", "with": "heard", "version": "1"}
    }


@pytest.mark.slow
def test_jobs_and_engines_give_the_same(workspace):
    tasks = {
        "one": {},
        "two": {"jobs": 2},
        "threads": {"jobs": 2, "engine": "threading"},
        "batches": {"batch": 1},
    }
    for name, options in tasks.items():
        assert run(workspace, as_=name, **options).problems == []
    first = (workspace.path / "recognized/one.jsonl").read_bytes()
    for name in tasks:
        assert column(workspace, name) == column(workspace, "one")
        assert (workspace.path / f"recognized/{name}.jsonl").read_bytes() == first


def test_a_closure_runs_in_one_job_with_full_batches(workspace):
    counted = Counted()
    run(workspace, counted, batch=4)
    assert sorted(counted.calls) == [3, 4]


def test_equal_clips_are_recognized_once(workspace):
    twice = pl.concat(
        [
            workspace.segments,
            workspace.segments.with_columns(segment_id=pl.col("segment_id") + " again"),
        ]
    )
    workspace.save(segments=twice)
    counted = Counted()
    report = run(workspace, counted)
    assert sum(counted.calls) == 7
    assert (report.facts["recognized_now"], report.facts["failed"]) == (14, 0)
    assert column(workspace)[:7] == column(workspace)[7:]


def test_texts_are_in_nfc_and_no_words_are_an_empty_text(workspace):
    decomposed = unicodedata.normalize("NFD", " čšž ")
    run(workspace, lambda clips: [decomposed if len(clips) > 3 else " "] * len(clips), batch=4)
    assert set(column(workspace)) == {"čšž", ""}


def test_the_second_run_does_nothing_and_another_version_does_all(workspace):
    counted = Counted()
    run(workspace, counted)
    again = run(workspace, counted)
    assert (
        again.facts["recognized_now"],
        again.facts["already_recognized"],
        sum(counted.calls),
    ) == (0, 7, 7)
    assert again.facts["texts"] == {"new": 0, "changed": 0, "gone": 0, "unchanged": 7}
    counted.version = "2"
    assert run(workspace, counted).facts["recognized_now"] == 7
    assert {line["version"] for line in ledger(workspace)} == {"2"}


def test_new_segments_are_recognized_and_lines_of_gone_ones_are_dropped(workspace):
    whole = workspace.segments
    workspace.save(segments=whole.head(4))
    counted = Counted()
    run(workspace, counted)
    workspace.save(segments=whole.tail(5))
    report = run(workspace, counted)
    assert (report.facts["recognized_now"], report.facts["already_recognized"]) == (3, 2)
    assert (sum(counted.calls), len(ledger(workspace))) == (7, 5)


def test_clips_of_a_batch_that_fails_are_tried_one_by_one(workspace):
    long = workspace.segments["end_sample"].arg_max()
    first = [
        nbaudio.clip(workspace, key, rate=16000).samples for key in workspace.segments["segment_id"]
    ][long]
    broken = Counted(lambda clip: np.array_equal((clip * 32768).astype(np.int16), first))
    report = run(workspace, broken, batch=8)
    segment_id = workspace.segments["segment_id"][long]
    file = "a.wav" if segment_id.startswith("a") else "b.flac"
    assert report.problems == [f"{segment_id}: {file}: RuntimeError: a clip is broken"]
    assert problems(workspace).rows() == [
        (segment_id, file[0], f"{file}: RuntimeError: a clip is broken")
    ]
    assert [text is None for text in column(workspace)] == [row == long for row in range(7)]
    assert (report.facts["failed"], report.facts["recognized_now"], len(ledger(workspace))) == (
        1,
        6,
        6,
    )
    # Failures are tried again.
    fixed = Counted()
    report = run(workspace, fixed)
    assert (fixed.calls, report.facts["recognized_now"], report.problems) == ([1], 1, [])
    assert problems(workspace).is_empty()
    assert None not in column(workspace)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda clips: heard(clips)[1:], r"it returned \d+ texts for a list of \d+ clip"),
        (lambda clips: "text", "it returned str for a list of"),
        (lambda clips: None, "it returned NoneType for a list of"),
        (lambda clips: [1] * len(clips), "its text is not a string of valid Unicode"),
        (lambda clips: ["\ud800"] * len(clips), "its text is not a string of valid Unicode"),
        (lambda clips: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_if_no_clip_can_be_recognized_nothing_changes(workspace, answer, why):
    before = workspace.segments
    with pytest.raises(
        InputError, match=rf"none of 7 clips can be recognized; (a.wav|b.flac): {why}"
    ):
        run(workspace, answer)
    assert workspace.segments.equals(before)


def test_segments_that_cannot_be_cut_are_skipped_and_recordings_that_changed_fail(workspace):
    segments = workspace.segments
    odd = segments.head(4).with_columns(
        segment_id=pl.Series(["no samples", "unknown", "too long", "no words"]),
        recording_id=pl.Series(["a", "nowhere", "a", "a"]),
        start_sample=pl.Series([None, 0, 0, 99]),
        end_sample=pl.Series([None, 999, 48000 * 13, 99999]),
        text=pl.Series(["a", "b", "c", ""]),
    )
    workspace.save(segments=pl.concat([odd, segments]))
    sf.write(workspace.audio.local / "b.flac", np.zeros(9 * 16000), 16000)
    report = run(workspace)
    assert (report.facts["segments"], report.facts["skipped"], report.facts["failed"]) == (11, 3, 3)
    assert column(workspace)[:3] == [None] * 3
    assert column(workspace)[3].startswith("heard")
    assert all("b.flac: the file" in line or "b.flac" in line for line in report.problems)


def test_a_recording_that_kills_the_worker_fails_and_the_rest_is_recognized(workspace, monkeypatch):
    from nbaudio import engine

    run_joblib = engine._run_joblib

    def dying(function, tasks, **options):
        for task in tasks:
            if any(source.path.name == "b.flac" for source in task.sources):
                raise WorkerLostError("lost 3 times", [task])
            yield from run_joblib(function, [task], **options)

    monkeypatch.setattr(engine, "_run_joblib", dying)
    report = run(workspace)
    assert report.facts["failed"] == 3
    assert all("b.flac: the worker that decodes it is killed" in line for line in report.problems)
    assert [text is None for text in column(workspace)] == [False] * 4 + [True] * 3


def python_path(workspace, code, name):
    (workspace.path / f"{name}.py").write_text(code, "utf8")
    return f"{name}:transcribe"


SLOW = """
import os, time
def transcribe(clips):
    with open("calls", "a") as file:
        file.write("".join(f"{len(clip)}\\n" for clip in clips))
    if "KILLED" in os.environ and os.path.getsize("calls") > 12:
        os.kill(os.getpid(), 9)
    return ["text"] * len(clips)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_resumes(workspace, monkeypatch):
    """A module in the current directory; the process dies in the second task."""
    monkeypatch.chdir(workspace.path)
    name = python_path(workspace, SLOW, "slow_recognizer")
    code = "import nbaudio.corpus.plan as p; p._MIN_TASK_SECONDS = 3.0; import nbaudio\n"
    code += f"nbaudio.recognize('.', with_={name!r}, batch=1, show_progress=False)"
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    first = subprocess.run(
        [sys.executable, "-c", code], env={**environment, "KILLED": "1"}, check=False
    )
    assert first.returncode == -signal.SIGKILL
    done = (workspace.path / "recognized/slow_recognizer.jsonl").read_bytes()
    kept = done.count(b"\n")
    assert 0 < kept < 7
    assert "asr_text_slow_recognizer" not in workspace.segments.columns
    (workspace.path / "recognized/slow_recognizer.jsonl").write_bytes(done + b'{"clip_key":"torn')
    calls = (workspace.path / "calls").read_text().count("\n")
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert (workspace.path / "calls").read_text().count("\n") == calls + 7 - kept
    assert column(workspace, "slow_recognizer") == ["text"] * 7
    assert len(ledger(workspace, "slow_recognizer")) == 7


def test_modules_are_found_in_the_current_directory_by_workers_too(workspace, monkeypatch):
    monkeypatch.chdir(workspace.path)
    (workspace.path / "my_package").mkdir()
    code = (
        "class Nested:\n    pass\ndef transcribe(clips):\n    return [str(len(clip)) for clip "
        "in clips]\n"
    )
    (workspace.path / "my_package/__init__.py").write_text("")
    (workspace.path / "my_package/tiny.py").write_text(code)
    for jobs in (1, 2):
        run(workspace, "my_package.tiny:transcribe", None, jobs=jobs)
    assert column(workspace, "tiny") == ["37920"] * 7
    assert workspace.settings["joined"]["asr_text_tiny"]["with"] == "my_package.tiny:transcribe"


def test_a_recognizer_that_cannot_be_imported_is_refused_before_audio_is_read(
    workspace, monkeypatch
):
    monkeypatch.chdir(workspace.path)
    (workspace.path / "broken_module.py").write_text("import no_such_library")
    (workspace.path / "other_module.py").write_text("transcribe = 3")
    for path in workspace.audio.local.iterdir():
        path.unlink()
    refused = {
        "no_module:f": (
            "no_module:f: cannot be imported in .*ModuleNotFoundError: No module named 'no_module'"
        ),
        "json:no_function": "json:no_function: cannot be imported .*has no attribute 'no_function'",
        "broken_module:f": "No module named 'no_such_library'",
        "other_module:transcribe": "3: not callable",
        "no-such-program --x": (
            "neither package.module:function nor a command whose program is installed"
        ),
        "cat 'x": "No closing quotation",
        "": "neither package.module:function nor a command",
        5: "5: not callable",
    }
    for given, why in refused.items():
        with pytest.raises(InputError, match=why):
            run(workspace, given)


def test_the_version_of_a_recognizer_comes_from_attribute_module_or_source(
    workspace, monkeypatch, tmp_path
):
    from nbaudio.recognition.recognizers import Recognizer

    monkeypatch.chdir(tmp_path)
    (tmp_path / "with_version.py").write_text(
        "__version__ = '7'\ndef f(clips): ...\ndef g(clips): ...\ng.version = 8"
    )
    (tmp_path / "without_version.py").write_text("def f(clips): ...")
    assert Recognizer.of("with_version:f").version == "7"
    assert Recognizer.of("with_version:g").version == "8"
    assert len(Recognizer.of("without_version:f").version) == 16
    (tmp_path / "script.py").write_text("1")
    command = f"{sys.executable} script.py --beam 5"
    first = Recognizer.of(command).version
    assert Recognizer.of(command.replace("5", "6")).version != first
    (tmp_path / "script.py").write_text("2")
    assert Recognizer.of(command).version != first
    with pytest.raises(
        InputError, match="its source cannot be read; give it an attribute 'version'"
    ):
        Recognizer.of(eval("lambda clips: clips", {"__name__": "nowhere"}))  # noqa: S307


COMMAND = """
import json, os, sys, wave
lines = [json.loads(line) for line in sys.stdin]
open("runs", "a").write(f"{len(lines)}\\n")
for line in reversed(lines):
    with wave.open(line["audio"]) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        assert line["duration_s"] == file.getnframes() / 16000
        first = file.readframes(1600)
    EACH
    print(json.dumps({"id": line["id"], "text": f"čuo {file.getnframes()}"}))
"""


@pytest.fixture
def command(workspace, monkeypatch):
    monkeypatch.chdir(workspace.path)

    def write_command(each="", code=COMMAND):
        (workspace.path / "recognizer with blanks.py").write_text(
            code.replace("EACH", each), "utf8"
        )
        return f"{shlex.quote(sys.executable)} 'recognizer with blanks.py' '$(touch x); `touch x`'"

    return write_command


def test_a_command_gets_files_and_writes_lines_in_any_order(workspace, command):
    report = run(workspace, command())
    assert column(workspace) == ["čuo 37920"] * 7
    assert report.problems == []
    assert not (workspace.path / "x").exists()
    assert sum(map(int, (workspace.path / "runs").read_text().split())) == 7
    assert workspace.settings["joined"]["asr_text_x"]["with"] == sys.executable
    assert run(workspace, command()).facts["recognized_now"] == 0
    with pytest.raises(InputError, match="has no name: give one with --as NAME"):
        run(workspace, command(), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("each", "why"),
    [
        ("if BAD: continue", "it printed no line for this id"),
        ("if BAD: print('Loading'); continue", "it printed no line for this id; line 2 is not {"),
        ("if BAD: print('[1]'); continue", "it printed no line for this id; line 2 is not {"),
        (
            "if BAD: print(json.dumps({'id': line['id'], 'text': 3})); continue",
            "its text is not a string of valid Unicode",
        ),
        ("if BAD: sys.exit('this clip crashes me')", "exit code 1: this clip crashes me"),
        ("if BAD: os.kill(os.getpid(), 9)", "exit code -9"),
    ],
)
def test_the_clip_on_which_a_command_fails_is_reported(workspace, command, each, why):
    key = workspace.segments["segment_id"][5]
    first = nbaudio.clip(workspace, key, rate=16000).samples[:1600].astype("<i2").tobytes()
    report = run(workspace, command(each.replace("BAD", f"first == {first!r}")))
    assert [text is None for text in column(workspace)] == [row == 5 for row in range(7)]
    [line] = report.problems
    assert line.startswith(f"{key}: b.flac: ")
    assert why in line


@pytest.mark.slow
def test_a_command_that_always_crashes_is_not_run_for_each_of_many_clips(
    make_workspace, monkeypatch
):
    workspace = make_workspace({"a.wav": (30.0, 16000)}, every=0.3, length=0.3)
    monkeypatch.chdir(workspace.path)
    (workspace.path / "crash.py").write_text("open('runs', 'a').write('x'); raise SystemExit(3)")
    with pytest.raises(
        InputError, match=r"none of 100 clips can be recognized; a.wav: .*: exit code 3"
    ):
        run(workspace, f"{sys.executable} crash.py")
    assert len((workspace.path / "runs").read_text()) <= 33


def test_names_of_hypotheses_are_checked_before_recognizing(workspace):
    workspace.save(
        segments=workspace.segments.with_columns(text_fine=pl.lit("a"), asr_text_theirs=pl.lit("b"))
    )
    refused = {
        "fine": "another text has this name",
        "theirs": "the source has a column asr_text_theirs",
        "a-b": "letters",
    }
    for name, why in refused.items():
        with pytest.raises(InputError, match=why):
            run(workspace, as_=name)
    with pytest.raises(InputError, match="'<lambda>': a name has letters"):
        run(workspace, lambda clips: clips, None)
    store_column(
        workspace,
        "asr_text_x",
        workspace.segments.select("segment_id", value=pl.lit("joined")),
        {"step": "join"},
    )
    assert run(workspace).facts["texts"]["changed"] == 7
    assert workspace.settings["joined"]["asr_text_x"]["step"] == "recognize"


def test_recognize_refuses_a_workspace_without_audio(tmp_path):
    (tmp_path / "t.csv").write_text("file,start,end,text\na.wav,0,1,a\n")
    nbaudio.ingest("table", tmp_path / "t.csv", out=tmp_path / "w")
    with pytest.raises(
        InputError, match="ingested without audio; run 'nbaudio ingest' again with --audio"
    ):
        run(tmp_path / "w")
    with pytest.raises(InputError, match="batch must be 1 or more"):
        run(tmp_path / "w", batch=0)


def test_withdrawn_clips_leave_the_ledger(workspace):
    segments = workspace.segments
    keys = segments["segment_id"]
    broken = Counted(lambda clip: len(clip) == 16000)
    workspace.save(
        segments=segments.with_columns(
            end_sample=pl.when(pl.col("segment_id") == keys[6])
            .then(pl.col("start_sample") + 16000)
            .otherwise("end_sample")
        )
    )
    run(workspace, broken)
    assert problems(workspace)["segment_id"].to_list() == [keys[6]]
    before = ledger(workspace)
    nbaudio.withdraw(workspace, segments=[keys[0], keys[6]], why="consent withdrawn")
    assert ledger(workspace) == [line for line in before if line["text"] != before[0]["text"]]
    assert len(ledger(workspace)) == 5
    assert problems(workspace).is_empty()
    assert workspace_tables.table_path(workspace, "recognized/x.problems").exists()


def test_recognize_works_on_the_command_line(workspace, monkeypatch):
    monkeypatch.chdir(workspace.path)
    (workspace.path / "cli_recognizer.py").write_text(
        "def transcribe(clips): return ['a'] * len(clips)"
    )
    words = [
        "recognize",
        str(workspace.path),
        "--with",
        "cli_recognizer:transcribe",
        "--jobs",
        "1",
        "--json",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["facts"]["column"] == "asr_text_cli_recognizer"
    assert column(workspace, "cli_recognizer") == ["a"] * 7


@pytest.mark.slow
def test_the_pocketsphinx_recipe_recognizes_english(tmp_path, monkeypatch):
    """A real recognizer, by its recipe, on a sentence of the demo."""
    pytest.importorskip("pocketsphinx")
    demo = TOP / "data_manifests/demo"
    nbaudio.ingest(
        "parlaspeech",
        demo / "transcripts.jsonl",
        audio=demo / "audio",
        names=demo / "wav.scp",
        out=tmp_path / "w",
    )
    workspace = nbaudio.Workspace.open(tmp_path / "w")
    workspace.save(
        segments=workspace.segments.filter(text="thank you chair i will try to be brief")
    )
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path, "sphinx.py")
    for name in ("sphinx", "again"):
        assert run(workspace, "sphinx:transcribe", name).problems == []
    [text] = column(workspace, "sphinx")
    assert {"you", "be", "brief"} <= set(text.split())
    assert column(workspace, "again") == [text]
