"""What killed steps leave in a workspace is removed by the next command; what living ones write
stays."""

import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from nbaudio.cli import app
from nbaudio.core.leftovers import remove_leftovers, scratch_folder
from nbaudio.tables.workspace import Workspace

RECOGNIZER = """
import time
def transcribe(clips):
    time.sleep(600)
"""
COMMANDS = {
    "measure": ["measure"],
    "measure with two jobs": ["measure", "--jobs", "2"],
    "recognize": ["recognize", "--with", "waiting:transcribe"],
}


@pytest.fixture
def workspace(make_workspace):
    made = make_workspace({f"r{n}.flac": (60.0, 48000) for n in range(6)}, every=0.5, length=0.4)
    (made.path / "waiting.py").write_text(RECOGNIZER, "utf8")
    return made


def partials(workspace):
    """Names of files and folders that a finished command does not leave."""
    hidden = [*workspace.path.rglob(".*.partial"), *workspace.path.rglob(".*.running")]
    return sorted(path.name for path in hidden if ".partial/" not in path.as_posix())


def start(workspace, command):
    """Start a command in a session of its own, and return it when its scratch folder is there."""
    name, *options = command
    run = subprocess.Popen(
        [sys.executable, "-m", "nbaudio", name, str(workspace.path), *options],
        cwd=workspace.path,
        env=os.environ | {"PYTHONPATH": str(workspace.path)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not list(workspace.path.glob(".scratch.*.partial/*")):
        assert run.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return run


def kill(run):
    """Kill a command with its processes, and wait for all of them to end."""
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + 60
    while is_there(run.pid):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def is_there(group):
    """Return whether a group has a process that has not ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def check(workspace):
    """Run the next command on the workspace, of another step."""
    done = CliRunner().invoke(app, ["select", str(workspace.path), "--min-similarity", "0"])
    assert done.exit_code in (0, 1), done.output


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_files_of_a_killed_command_are_removed_by_the_next(workspace, command):
    run = start(workspace, command)
    kill(run)
    assert any(name.startswith(".scratch.") for name in partials(workspace))
    assert any(name.endswith(".running") for name in partials(workspace))
    check(workspace)
    assert partials(workspace) == []


@pytest.mark.slow
def test_files_of_a_running_command_are_kept(workspace):
    dead = start(workspace, COMMANDS["measure"])
    kill(dead)
    left = {path.name for path in workspace.path.glob(".scratch.*")}
    Workspace.open(workspace.path)
    living = start(workspace, COMMANDS["recognize"])
    try:
        names = {path.name for path in workspace.path.glob(".scratch.*")}
        assert names
        assert not names & left
        check(workspace)
        assert {path.name for path in workspace.path.glob(".scratch.*")} == names
        assert (workspace.path / ".recognized.running").exists()
        assert living.poll() is None
    finally:
        kill(living)
    Workspace.open(workspace.path)
    assert partials(workspace) == []


HALF_WRITTEN = """
import os, sys
from nbaudio.tables.workspace import Workspace, locks_workspace
from nbaudio.core.atomic import atomic_write

@locks_workspace("score")
def step(workspace):
    with atomic_write(workspace.path / "segments.parquet") as partial:
        partial.write_bytes(b"half")
        (workspace.path / "saving").mkdir()
        print("ready", flush=True)
        sys.stdin.read()

step(Workspace.open(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_partly_written_table_is_kept_while_its_step_runs(workspace):
    run = subprocess.Popen(
        [sys.executable, "-c", HALF_WRITTEN, str(workspace.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with run:
        assert run.stdout.readline() == b"ready\n"
        Workspace.open(workspace.path)
        names = partials(workspace)
        assert [name.split(".")[1] for name in names] == ["segments", "tables"]
        assert (workspace.path / "saving").exists()
        kill(run)
    Workspace.open(workspace.path)
    assert partials(workspace) == []
    assert not (workspace.path / "saving").exists()
    assert len(workspace.segments)


@pytest.mark.slow
def test_a_scratch_folder_that_is_used_stays(workspace):
    with scratch_folder(workspace.path) as folder:
        (folder / "rows").write_text("1")
        remove_leftovers(workspace.path)
        assert (folder / "rows").read_text() == "1"
    assert not folder.exists()


def test_small_files_are_removed_once_nobody_can_be_writing_them(workspace):
    young = workspace.path / ".workspace.json.01234567.partial"
    old = workspace.path / "reports" / ".score.json.01234567.partial"
    old.parent.mkdir(exist_ok=True)
    for path in (young, old):
        path.write_text("{")
    os.utime(old, (time.time() - 3600,) * 2)
    Workspace.open(workspace.path)
    assert young.exists()
    assert not old.exists()
