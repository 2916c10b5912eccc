"""Errors and interrupts in notebooks: one line each, and all of the traceback by ``%tb``."""

import inspect
import os
import pickle
import re
import signal
import subprocess
import sys

import nbformat
import pytest
import soundfile
from nbclient import NotebookClient

import nbaudio
from nbaudio.audio.recording_reader import SoundfileRecording
from nbaudio.core import errors
from nbaudio.core.interrupts import interrupts_deferred
from nbaudio.core.tracebacks import STOPPED, interruptible
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.storage.range_file import RangeFile

WRONG_PATH = "import nbaudio\nnbaudio.score('no/such')"
NESTED = """
def outer():
    try:
        open('no/such')
    except OSError as error:
        raise nbaudio.NbaudioError('a\\x1b[2Jb\\n  https://host/x?token=secret') from error
outer()
"""
AGAIN = "import sys\nkept = sys.last_value\n1 / 0"
CAUSE = "raise ValueError('mine') from kept"
FOREIGN = "open('no/such')"
# Ctrl-C as soon as audio is read.
WATCHER = """
import signal
from nbaudio.core.progress import listen_to_progress
class Watcher:
    def stage(self, *_): signal.raise_signal(signal.SIGINT)
    def advance(self, *_): pass
    note = advance
with listen_to_progress(Watcher()):
"""
INTERRUPTED = f"{WATCHER}    nbaudio.measure('w', jobs=1, engine='threading')"
COMMAND_LINE = f"from nbaudio.cli import main\n{WATCHER}    main()"
COMPLETED = "nbaudio.measure('w', jobs=1, engine='threading').facts['measured_now']"
CELLS = {
    "wrong path": WRONG_PATH,
    "its traceback": "%tb",
    "plain": "%tb Plain",
    "nested": NESTED,
    "its causes": "%tb",
    "another error": AGAIN,
    "again": "raise kept",
    "as a cause": CAUSE,
    "foreign": FOREIGN,
    "interrupted": INTERRUPTED,
    "where it was": "%tb",
    "completed": COMPLETED,
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of each cell, as a kernel gives them."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "audio").mkdir()
    soundfile.write(folder / "audio/a.wav", [0.0, 0.1] * 8000, 16000)
    nbaudio.ingest("folder", folder / "audio", out=folder / "w", jobs=1)
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        kernel_name="python3",
        allow_errors=True,
        timeout=120,
        resources={"metadata": {"path": str(folder)}},
    )
    client.extra_arguments = ["--log-level=CRITICAL"]
    client.execute()
    return dict(zip(CELLS, (cell.outputs for cell in cells), strict=True))


def error_of(outputs):
    [error] = [output for output in outputs if output.output_type == "error"]
    return error


@pytest.mark.slow
def test_a_wrong_path_in_a_notebook_is_a_one_line_error(outputs):
    [error] = outputs["wrong path"]
    message = (
        "no/such: not a workspace (no workspace.json); "
        "make one with 'nbaudio ingest FORMAT SOURCE --out no/such'"
    )
    assert error.traceback == [f"InputError: {message}"]
    assert (error.ename, error.evalue) == ("InputError", message)  # papermill reads these


@pytest.mark.parametrize(
    ("cell", "frames"),
    [
        ("its traceback", ["nbaudio.score(", "workspace.py", "FileNotFoundError", "InputError"]),
        ("plain", ["nbaudio.score(", "workspace.py", "FileNotFoundError", "InputError"]),
        ("its causes", ["outer()", "open(", "FileNotFoundError", "NbaudioError"]),
        ("where it was", ["nbaudio.measure(", "measure.py", "raise_signal(", "KeyboardInterrupt"]),
    ],
)
def test_the_tb_magic_shows_the_full_traceback(outputs, cell, frames):
    shown = plain("\n".join(error_of(outputs[cell]).traceback))
    assert [frame for frame in frames if frame not in shown] == []
    assert len(shown.splitlines()) > 10


def plain(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_a_nested_error_is_one_line_without_control_characters_or_secrets(outputs):
    [error] = outputs["nested"]
    assert error.traceback == [r"NbaudioError: a\x1b[2Jb https://host/x?..."]


def test_only_errors_of_nbaudio_are_one_line_also_when_raised_again(outputs):
    assert error_of(outputs["again"]).traceback == error_of(outputs["nested"]).traceback
    for cell, name in {
        "another error": "ZeroDivisionError",
        "as a cause": "ValueError",
        "foreign": "FileNotFoundError",
    }.items():
        error = error_of(outputs[cell])
        assert error.ename == name
        assert len(error.traceback) > 1


def test_an_interrupt_is_one_line_and_the_cell_continues_when_it_is_run_again(outputs):
    error = error_of(outputs["interrupted"])
    assert (error.ename, error.traceback) == (
        "KeyboardInterrupt",
        ["stopped; run the cell again to continue"],
    )
    assert [output for output in outputs["interrupted"] if output.output_type == "stream"] == []
    assert outputs["completed"][-1].data["text/plain"] == "1"


@pytest.mark.slow
def test_ipython_in_a_terminal_shows_the_same_line(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"],
        input="import nbaudio\nnbaudio.score('none')\n%tb\n",
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"IPYTHONDIR": str(tmp_path)},
    )
    first, _, traceback = run.stdout.partition("In [3]: ")
    line = "InputError: none: not a workspace (no workspace.json); make one with"
    assert first.count("\n") == 3 + 1, first
    assert line in first
    assert "score.py" not in first
    assert line in traceback
    assert "score.py" in traceback


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], ("", "nbaudio: stopped; run the same command again to continue\n")),
        (["--json"], ('{"error": "stopped; run the same command again to continue"}\n', "")),
    ],
)
def test_an_interrupted_command_prints_one_line_and_exits_with_130(
    make_workspace, options, printed
):
    workspace = make_workspace({"a.wav": (3.0, 16000)})
    arguments = ["measure", str(workspace.path), "--engine", "threading", *options]
    run = subprocess.run(
        [sys.executable, "-c", COMMAND_LINE, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, *printed)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (errors.InputError("x.csv: line 3:\n\tbad"), "InputError: x.csv: line 3: bad"),
        (errors.WorkerLostError("lost", [1]), "WorkerLostError: lost"),
        (errors.AudioError(), "AudioError"),
        (errors.ExistsError("a\u202eb\udcff"), r"ExistsError: a\u202eb\udcff"),
        (errors.NbaudioError("a", 2), "NbaudioError: ('a', 2)"),
    ],
)
def test_an_error_is_rendered_as_one_line(error, line):
    assert error._render_traceback_() == [line]


def test_an_error_without_a_usable_message_shows_its_class():
    class UnwritableError(errors.NbaudioError):
        def __str__(self):
            raise RuntimeError

    assert UnwritableError("x")._render_traceback_() == ["UnwritableError"]


def wait(seconds: float, *, jobs: int = 1) -> float:
    """Wait."""
    return seconds * jobs


waits = interruptible(wait)


def test_an_interruptible_function_keeps_name_signature_and_pickling():
    assert waits(1.5, jobs=2) == 3.0
    assert (waits.__name__, waits.__doc__) == ("wait", "Wait.")
    assert inspect.signature(waits) == inspect.signature(wait)
    for command in (nbaudio.ingest, nbaudio.verify):
        assert pickle.loads(pickle.dumps(command)) is command  # noqa: S301


def test_an_interrupt_is_raised_as_the_same_keyboard_interrupt():
    raised = KeyboardInterrupt("x")

    @interruptible
    def stopped():
        raise raised

    with pytest.raises(KeyboardInterrupt) as caught:
        stopped()
    assert caught.value is raised
    assert caught.type is KeyboardInterrupt  # Python chooses the exit code of a program by it
    assert caught.value._render_traceback_() == [STOPPED]


def test_two_interrupts_of_one_ctrl_c_are_one_line(monkeypatch):
    """Polars raises one itself, before Python raises its own."""
    shown = []

    def mark(interrupt, first=interruptible.__globals__["_show_as_stopped"]):
        shown.append(interrupt)
        if len(shown) == 1:
            raise KeyboardInterrupt("second")
        first(interrupt)

    monkeypatch.setitem(interruptible.__globals__, "_show_as_stopped", mark)

    @interruptible
    def stopped():
        raise KeyboardInterrupt("first")

    with pytest.raises(KeyboardInterrupt, match="second") as caught:
        stopped()
    assert caught.value._render_traceback_() == [STOPPED]


def test_every_command_is_interruptible():
    functions = {
        f"{package.__name__}.{name}": getattr(package, name)
        for package in (nbaudio, nbaudio.review)
        for name in package.__all__
    }
    commands = {
        name: function
        for name, function in functions.items()
        if inspect.isfunction(function)
        and inspect.signature(function).return_annotation in (nbaudio.Report, "Report")
    }
    assert len(commands) > 20
    plain_ones = {
        function.__name__
        for function in commands.values()
        if function.__code__ is not waits.__code__
    }
    assert plain_ones == set()


def interrupt_itself(number: int) -> int:
    signal.raise_signal(signal.SIGINT)
    return number


@pytest.mark.slow
def test_worker_processes_ignore_an_interrupt():
    with worker_pool(EngineLocation("loky", 2)) as run:
        assert sorted(run(interrupt_itself, range(4))) == [0, 1, 2, 3]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


# A process of its own: Ctrl-C comes at any moment, also between two tests.
ENCODE = """
import os, signal, sys, threading, time
import numpy as np
from nbaudio.audio import decode_clip, encode_clip
clip, encoding = np.zeros(16000, np.int16), sys.argv[1]
decode_clip(encode_clip(clip, 16000, encoding), encoding)
caught = 0
for number in range(12):
    timer = threading.Timer(0.01 + 0.003 * number, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            decode_clip(encode_clip(clip, 16000, encoding), encoding)
    except KeyboardInterrupt:
        caught += 1
print(caught, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["flac", "opus"])
def test_no_encoder_drops_an_interrupt(encoding):
    """Those in C did, in every other case, and went on."""
    run = subprocess.run(
        [sys.executable, "-c", ENCODE, encoding], capture_output=True, text=True, check=True
    )
    assert (run.stdout, run.stderr) == ("12 True\n", "")


def test_a_deferred_interrupt_comes_at_the_end():
    steps = []

    @interrupts_deferred()
    def work():
        signal.raise_signal(signal.SIGINT)
        steps.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["after"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_read_over_a_network_does_not_drop_an_interrupt(tmp_path):
    soundfile.write(tmp_path / "a.wav", [0.0, 0.1] * 80_000, 16000)
    data = (tmp_path / "a.wav").read_bytes()

    def read(start, stop):
        if start:
            raise KeyboardInterrupt
        return data[start:stop]

    file = RangeFile(read, lambda: None, len(data), block_bytes=4096)
    recording = SoundfileRecording("a.wav", file)
    with pytest.raises(KeyboardInterrupt):
        recording.read(100_000, 110_000)
