"""An audio folder that is not there any more: one line with the command that brings it back."""

import json
import shlex
import shutil

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from click.testing import CliRunner
from faults import contents
from typer.main import get_command

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import AudioError, InputError
from nbaudio.review import Verdict, append_verdicts
from nbaudio.review.state import content_hashes
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import widgets

ROWS = 6  # of a recording


def record(path, seed, seconds=12):
    path.parent.mkdir(exist_ok=True)
    samples = 0.1 * np.random.default_rng(seed).normal(size=8000 * seconds)
    sf.write(path, samples, 8000)


def write_table(path, *names):
    lines = ["file\tstart\tend\tsaid\theard\tspeaker_id"]
    for name in names:
        lines += [
            f"{name}\t{2 * n}\t{2 * n + 1.5}\tdobar dan {name} {n}\tdobar dan {name}\tof {name}"
            for n in range(ROWS)
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


OPTIONS = {"text": "said", "asr_text": "heard"}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The folder that `reviewed_workspace` copies."""
    folder = tmp_path_factory.mktemp("template")
    for seed, name in enumerate("abc"):
        record(folder / f"my audio/{name}.wav", seed)
    source = write_table(folder / "a source.tsv", "a.wav", "b.wav", "c.wav")
    nbaudio.ingest(
        "table", source, audio=folder / "my audio", options=OPTIONS, out=folder / "W", jobs=1
    )
    workspace = Workspace.open(folder / "W")
    nbaudio.score(workspace)
    judge(workspace, {"a_0-1.5": "ok", "b_2-3.5": "wrong words"})
    nbaudio.select(workspace, dev=2, test=2, group_by="")
    cut(workspace, folder / "before")
    return folder


@pytest.fixture
def reviewed_workspace(template, tmp_path):
    """A scored, selected and reviewed workspace of options that a source needs, and a corpus, as if
    made in this folder."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.rglob("*.json*"):
        content = path.read_text("utf8")
        path.write_text(content.replace(template.as_posix(), tmp_path.as_posix()), "utf8")
    return Workspace.open(tmp_path / "W")


def judge(workspace, verdicts):
    rows = workspace.segments.filter(pl.col("segment_id").is_in(list(verdicts)))
    by = {"comment": "", "corrected_text": None, "reviewer": "ana", "review": "panel"}
    append_verdicts(
        workspace,
        [
            Verdict(key, content, verdicts[key], **by, time="2026-11-21T03:00:00Z")
            for key, content in zip(rows["segment_id"], content_hashes(rows), strict=True)
        ],
    )


def cut(workspace, out, **options):
    return nbaudio.materialize(
        workspace, out=out, jobs=1, engine="threading", show_progress=False, **options
    )


def measure(workspace):
    return nbaudio.measure(workspace, jobs=1, engine="threading", show_progress=False)


def line_of(call):
    """The message of an InputError, which is one line."""
    with pytest.raises(InputError) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def expected(workspace, folder, command):
    return (
        f"{folder}: the audio folder of {workspace.path} is not there; if it was moved: "
        f"nbaudio {command} --audio NEW --add --out {workspace.path}"
    )


def run_command(line, new):
    """Run the command that a line proposes, with a folder for NEW."""
    program, *arguments = shlex.split(line.partition("if it was moved: ")[2])
    assert program == "nbaudio"
    assert arguments.count("NEW") == 1
    arguments[arguments.index("NEW")] = str(new)
    return CliRunner().invoke(get_command(app), arguments)


def follow(line, new):
    run = run_command(line, new)
    assert run.exit_code == 0, run.output


def hear(clips):
    return ["dobar dan" for _ in clips]


COMMANDS = {
    "materialize": lambda w, out: cut(w, out / "c", rate=16000, encoding="wav"),
    "measure": lambda w, _: measure(w),
    "recognize": lambda w, _: nbaudio.recognize(
        w, with_=hear, as_="x", engine="threading", show_progress=False
    ),
    "sheet": lambda w, out: nbaudio.review.export(w, out=out / "s/sheet.xlsx", n=3),
    "page": lambda w, out: nbaudio.review.export(w, out=out / "s/page.html", n=3),
    "clip": lambda w, _: nbaudio.clip(w, "b_2-3.5"),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_its_audio_folder_names_the_ingest_call(
    reviewed_workspace, tmp_path, command
):
    (tmp_path / "my audio").rename(tmp_path / "moved")
    tables = {path.name: path.read_bytes() for path in reviewed_workspace.path.glob("*.parquet")}
    line = line_of(lambda: COMMANDS[command](reviewed_workspace, tmp_path))
    options = "--option asr_text=heard --option text=said"
    ingest = f"ingest table '{tmp_path}/a source.tsv' {options}"
    assert line == expected(reviewed_workspace, tmp_path / "my audio", ingest)
    assert {
        path.name: path.read_bytes() for path in reviewed_workspace.path.glob("*.parquet")
    } == tables
    assert reviewed_workspace.reviewed_ids() == set()  # no round was drawn
    follow(line, tmp_path / "moved")
    COMMANDS[command](reviewed_workspace, tmp_path)


@pytest.mark.slow
def test_ingest_of_a_moved_audio_folder_loses_no_work(reviewed_workspace, tmp_path):
    segments, recordings = reviewed_workspace.segments, reviewed_workspace.recordings
    verdicts = nbaudio.review.verdicts(reviewed_workspace)
    settings = reviewed_workspace.settings
    (tmp_path / "my audio").rename(tmp_path / "moved")
    follow(line_of(lambda: measure(reviewed_workspace)), tmp_path / "moved")
    assert reviewed_workspace.segments.equals(segments)
    assert segments["similarity"].null_count() == 0
    assert set(segments["split"].drop_nulls()) == {"train", "dev", "test"}
    assert reviewed_workspace.recordings.equals(recordings)  # no path of this machine
    assert nbaudio.review.verdicts(reviewed_workspace).equals(verdicts)
    moved = settings | {"audio": str(tmp_path / "moved")}
    assert {name: reviewed_workspace.settings[name] for name in moved} == moved
    report = cut(reviewed_workspace, tmp_path / "kept")
    assert report.facts["clips_cut_now"] == 0
    shutil.rmtree(reviewed_workspace.path / "packs")
    assert (
        cut(reviewed_workspace, tmp_path / "again").facts["clips_cut_now"] == report.facts["kept"]
    )
    assert contents(tmp_path / "again") == contents(tmp_path / "before")
    assert contents(tmp_path / "kept") == contents(tmp_path / "before")


@pytest.mark.slow
def test_a_command_whose_clips_are_cut_needs_no_audio(reviewed_workspace, tmp_path):
    measure(reviewed_workspace)
    (tmp_path / "my audio").rename(tmp_path / "moved")
    cut(reviewed_workspace, tmp_path / "other")
    assert contents(tmp_path / "other").keys() == contents(tmp_path / "before").keys()
    assert measure(reviewed_workspace).facts["measured_now"] == 0
    assert nbaudio.evidence(reviewed_workspace).problems == []


def test_single_files_that_are_missing_stay_in_the_ledger(reviewed_workspace, tmp_path):
    (tmp_path / "my audio/b.wav").unlink()
    shutil.rmtree(reviewed_workspace.path / "packs")
    report = measure(reviewed_workspace)
    assert report.facts["failed"] == ROWS
    reason = "b.wav: the file has disappeared since it was ingested"
    assert report.problems == [f"b_{2 * n}-{2 * n + 1.5}: {reason}" for n in range(ROWS)]
    with pytest.raises(AudioError, match=r"b\.wav: No such file"):
        nbaudio.clip(reviewed_workspace, "b_2-3.5")


def test_recordings_that_the_new_folder_lacks_stay_in_the_ledger(reviewed_workspace, tmp_path):
    (tmp_path / "my audio").rename(tmp_path / "moved")
    line = line_of(lambda: measure(reviewed_workspace))
    (tmp_path / "moved/b.wav").unlink()
    run = run_command(line, tmp_path / "moved")
    assert run.exit_code == 1
    assert "problem: b.wav: no such recording" in run.output
    assert reviewed_workspace.recordings["path"].to_list() == ["a.wav", "b.wav", "c.wav"]
    assert measure(reviewed_workspace).facts["failed"] == ROWS


@pytest.mark.slow
def test_ingest_without_the_folder_names_the_remedy_and_loses_nothing(reviewed_workspace, tmp_path):
    segments, recordings = reviewed_workspace.segments, reviewed_workspace.recordings
    (tmp_path / "my audio").rename(tmp_path / "moved")
    options = {"options": OPTIONS, "out": reviewed_workspace.path, "add": True, "jobs": 1}
    report = nbaudio.ingest("table", tmp_path / "a source.tsv", **options)
    [line] = [line for line in report.warnings if "is not there" in line]
    follow(line, tmp_path / "moved")
    assert reviewed_workspace.segments.equals(segments)
    assert reviewed_workspace.recordings.equals(recordings)


def test_widgets_without_audio_show_the_ingest_call(reviewed_workspace, tmp_path):
    player = widgets.Player(reviewed_workspace, reviewed_workspace.segments["segment_id"].head(3))
    assert "note" not in player._calls["clip"](number=0).answer
    (tmp_path / "my audio").rename(tmp_path / "moved")
    line = line_of(lambda: measure(reviewed_workspace))
    assert player._calls["clip"](number=1).answer == {"note": line}
    saved = player.static_html()
    assert saved.count("the audio folder of") == 1
    assert saved.count("no sound: its audio folder is not there") == 3
    follow(line, tmp_path / "moved")
    player = widgets.Player(reviewed_workspace, reviewed_workspace.segments["segment_id"].head(3))
    assert "note" not in player._calls["clip"](number=1).answer
    assert "no sound" not in player.static_html()


@pytest.mark.slow
def test_the_page_of_statistics_names_no_folder_but_the_report_does(reviewed_workspace, tmp_path):
    (tmp_path / "my audio").rename(tmp_path / "moved")
    report = nbaudio.stats(reviewed_workspace.path, out=tmp_path / "page.html")
    assert report.warnings == [line_of(lambda: measure(reviewed_workspace))]
    page = (tmp_path / "page.html").read_text()
    assert "no sound: its audio folder is not there" in page
    assert str(tmp_path) not in page
    assert (
        nbaudio.stats(reviewed_workspace.path, out=tmp_path / "page.html", audio=False).warnings
        == []
    )


@pytest.mark.slow
def test_of_several_sources_the_message_names_the_moved_one(tmp_path):
    for seed, name in enumerate(("one/a.wav", "two/b.wav")):
        record(tmp_path / name, seed)
    for name, audio in (("a", "one"), ("b", "two")):
        source = write_table(tmp_path / f"{name}.tsv", f"{name}.wav")
        options = {"options": OPTIONS, "out": tmp_path / "W", "add": True, "jobs": 1}
        nbaudio.ingest("table", source, audio=tmp_path / audio, **options)
    workspace = Workspace.open(tmp_path / "W")
    measured = measure(workspace) and workspace.segments
    options = "--option asr_text=heard --option text=said"
    for name, audio in (("b", "two"), ("a", "one")):
        (tmp_path / audio).rename(tmp_path / f"{audio} moved")
        line = line_of(lambda name=name: nbaudio.clip(workspace, f"{name}_2-3.5"))
        command = f"ingest table {tmp_path}/{name}.tsv {options}"
        assert line == expected(workspace, tmp_path / audio, command)
        other = "a" if name == "b" else None
        assert other is None or nbaudio.clip(workspace, f"{other}_2-3.5")
        follow(line, tmp_path / f"{audio} moved")
        assert nbaudio.clip(workspace, f"{name}_2-3.5")
    assert workspace.segments.equals(measured)
    assert workspace.recordings["path"].to_list() == ["a.wav", f"{tmp_path}/two moved/b.wav"]


@pytest.mark.slow
def test_sources_of_one_folder_are_brought_back_one_after_the_other(tmp_path):
    for seed, name in enumerate("ab"):
        record(tmp_path / f"audio/{name}.wav", seed)
    for name in "ab":
        source = write_table(tmp_path / f"{name}.tsv", f"{name}.wav")
        options = {"options": OPTIONS, "out": tmp_path / "W", "add": True, "jobs": 1}
        nbaudio.ingest("table", source, audio=tmp_path / "audio", **options)
    workspace = Workspace.open(tmp_path / "W")
    before = workspace.segments
    (tmp_path / "audio").rename(tmp_path / "moved")
    follow(line_of(lambda: nbaudio.clip(workspace, "a_2-3.5")), tmp_path / "moved")
    line = line_of(lambda: measure(workspace))
    assert f"{tmp_path}/b.tsv" in line
    follow(line, tmp_path / "moved")
    assert measure(workspace).facts["failed"] == 0
    assert workspace.segments.select(before.columns).equals(before)
    assert workspace.recordings["path"].to_list() == ["a.wav", "b.wav"]


def test_an_aligned_workspace_with_moved_audio_names_align(tmp_path):
    text = "Poštovane kolegice i kolege! Otvaram sjednicu Hrvatskoga sabora."
    words = enumerate(text.lower().replace("!", "").replace(".", "").split())
    heard = "\n".join(f"day1 1 {second} 0.8 {word}" for second, word in words)
    (tmp_path / "day1.ctm").write_text(heard, "utf8")
    (tmp_path / "day1.txt").write_text(text, "utf8")
    (tmp_path / "pairs.csv").write_text("recording,transcript\nday1,day1.txt\n")
    record(tmp_path / "audio/day1.wav", 0)
    nbaudio.align(
        tmp_path / "day1.ctm",
        tmp_path / "day1.txt",
        audio=tmp_path / "audio",
        pairs=tmp_path / "pairs.csv",
        min_duration=1.5,
        out=tmp_path / "W",
        jobs=1,
        engine="threading",
        sha256=False,
        show_progress=False,
    )
    workspace = Workspace.open(tmp_path / "W")
    measured = measure(workspace) and workspace.segments
    (tmp_path / "audio").rename(tmp_path / "moved")
    line = line_of(lambda: nbaudio.clip(workspace, measured["segment_id"][0]))
    command = (
        f"align {tmp_path}/day1.ctm {tmp_path}/day1.txt --pairs {tmp_path}/pairs.csv "
        "--min-duration 1.5 --max-duration 20 --no-sha256"
    )
    assert line == expected(workspace, tmp_path / "audio", command)
    follow(line, tmp_path / "moved")
    assert workspace.segments.equals(measured)
    assert nbaudio.clip(workspace, measured["segment_id"][0]).samples.shape == (16000 * 78 // 10,)


def test_a_line_has_no_secret_and_no_line_break(reviewed_workspace, tmp_path):
    settings = reviewed_workspace.settings | {
        "source": "https://me:pa55@host/x.tsv?token=hunter2",
        "names": "a\nb",
    }
    (reviewed_workspace.path / "workspace.json").write_text(json.dumps(settings))
    shutil.rmtree(tmp_path / "my audio")
    with pytest.raises(InputError) as caught:
        measure(reviewed_workspace)
    [shown] = caught.value._render_traceback_()
    assert "hunter2" not in shown
    assert "pa55" not in shown
    assert "https://host/x.tsv?..." in shown
    assert "\n" not in shown


def test_the_message_for_a_handmade_workspace_names_format_as_placeholder(make_workspace):
    workspace = make_workspace({"a.wav": (6.0, 16000)})
    audio = workspace.audio_root
    shutil.rmtree(audio)
    assert line_of(lambda: measure(workspace)) == (
        f"{audio}: the audio folder of {workspace.path} is not there; if it was moved: "
        f"nbaudio ingest FORMAT made --no-sha256 --audio NEW --add --out {workspace.path}"
    )
