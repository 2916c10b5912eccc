"""Progress in a terminal, a log, a notebook, and a notebook that was saved."""

import fcntl
import os
import re
import select
import struct
import termios
import threading
import time
from contextlib import contextmanager, redirect_stderr, suppress

import nbformat
import pytest
from nbclient import NotebookClient

from nbaudio.core import progress as bars
from nbaudio.core import progress_bars
from nbaudio.core.progress import file_progress, progress
from nbaudio.core.progress_text import rate_and_time_left, speed_text, state_text

VERIFY = "from nbaudio.core.progress import progress\n"
VERIFY += "with progress('verify', 3, 'shards') as advance:\n    for _ in range(3): advance(1)"
FETCH = (
    "from nbaudio.core.progress import file_progress\nwith file_progress('fetch', 1) as meter:\n"
    "    meter.expect('a', 5000); meter.advance('a', 5000); meter.finish('a')"
)
FAILS = "with progress('cut ', 2.0, 'h of audio') as advance:\n    advance(0.5)\n    raise OSError"
THREAD = (
    "import threading\ndef run():\n    with progress('pack', 3, 'shards') as advance: advance(3)\n"
    "thread = threading.Thread(target=run); thread.start(); thread.join()"
)
SILENT = "with progress('verify', 3, 'shards', show=False) as advance: advance(3)"


@pytest.fixture(scope="module")
def ran():
    """A notebook of a cell each, run without a frontend, and the widgets that its kernel made."""
    cells = [nbformat.v4.new_code_cell(source) for source in (VERIFY, FETCH, FAILS, THREAD, SILENT)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, kernel_name="python3", allow_errors=True, timeout=120)
    client.extra_arguments = ["--log-level=CRITICAL"]
    client.execute()
    return cells, [state["_model_name"] for state in client.widget_state.values()]


def text(output):
    return output["data"]["text/plain"].rsplit(" in ", 1)[0]


@pytest.mark.slow
def test_a_notebook_has_an_ipywidgets_bar_and_keeps_one_line_of_it(ran):
    cells, models = ran
    assert models.count("FloatProgressModel") == 3
    for cell, line in zip(
        cells,
        ("verify: 3 shards", "fetch: 5 kB", "cut: 0.5 of 2 h of audio"),
        strict=False,
    ):
        [shown] = [output for output in cell.outputs if output.output_type != "error"]
        # Text and a picture of it, no widget that needs a kernel, nothing on standard error.
        assert sorted(shown["data"]) == ["text/html", "text/plain"]
        assert text(shown) == line
        assert line in shown["data"]["text/html"]
    assert cells[2].outputs[0]["data"]["text/plain"].endswith("then stopped")


@pytest.mark.slow
def test_a_thread_and_silent_work_show_nothing_in_a_notebook(ran):
    assert [cell.outputs for cell in ran[0][3:]] == [[], []]


@contextmanager
def terminal(columns=80, rows=24):
    """Standard error is a terminal inside; yields a function of its lines so far."""
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with os.fdopen(writer, "w") as screen, os.fdopen(reader, "rb", buffering=0) as shown:

        def lines():
            screen.flush()
            text = b""
            while select.select([shown], [], [], 0.1)[0]:
                text += shown.read(1 << 16)
            return [line for line in re.split(r"[\r\n]+", text.decode()) if line]

        with redirect_stderr(screen):
            yield lines


def test_a_terminal_has_a_bar_with_amount_speed_and_time_left(monkeypatch):
    monkeypatch.setattr(progress_bars, "_REDRAW_S", 0.0)
    with terminal() as lines:
        with progress("cut", 1800.0, "h of audio") as advance:
            advance(0.6)
            time.sleep(0.6)
            advance(0.6)
            time.sleep(0.1)
            advance(1798.8)
        _, first, second, *_, last = lines()
    assert first.rpartition("| ")[2] == "0.6 of 1,800 h of audio"
    bar, _, state = second.rpartition("| ")
    assert bar == "cut   0 % |          "
    assert re.fullmatch(r"1\.2 of 1,800 h of audio, [\d,]+ x real time, \d+ min left", state)
    assert re.match(r"cut 100 % \|={10}\| 1,800 h of audio in 0\.\d s, [\d,]+ x real time", last)


def test_a_terminal_shows_bytes_in_units_of_size_and_how_many_files_there_are():
    with terminal() as lines:
        with file_progress("fetch", 1) as meter:
            meter.expect("a", 5000)
            meter.advance("a", 5000)
            meter.finish("a")
        last = lines()[-1]
    assert re.match(r"fetch 100 % \|={10}\| 5 kB in 0(\.\d)? s, 1 of 1 files", last)


@pytest.mark.parametrize(("columns", "rows"), [(0, 0), (0, 24), (80, 0)])
def test_a_terminal_without_a_size_has_the_lines_of_a_log(columns, rows):
    with terminal(columns, rows) as lines:
        with progress("verify", 3, "shards") as advance:
            advance(3)
        assert lines() == ["verify: 3 shards in 0 s"]


def test_progress_in_a_log_is_printed_as_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress_bars, "_LINE_S", 0.6)
    with progress("verify", 30, "shards") as advance:
        advance(3)
        time.sleep(0.7)
        advance(3)
        advance(24)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\r" not in err
    during, final = err.splitlines()
    assert re.fullmatch(r"verify: 6 of 30 shards, [\d.]+ shards/s, \d s left", during)
    assert re.fullmatch(r"verify: 30 shards in 0\.\d s, [\d.]+ shards/s", final)


def test_a_log_says_where_the_work_has_stopped_and_which_host_it_waits_for(capsys, monkeypatch):
    monkeypatch.setattr(progress_bars, "_WAITING_LINE_S", 0.0)
    with suppress(TimeoutError), file_progress("fetch", 2) as meter:
        meter.expect("a", 5000)
        meter.advance("a", 2000)
        meter.show_waiting("waiting for a.example, 12 s")
        raise TimeoutError
    waiting, final = capsys.readouterr().err.splitlines()
    assert waiting == "fetch: 2 kB of 10 kB, 0 of 2 files, waiting for a.example, 12 s"
    assert final.startswith("fetch: 2 kB of 10 kB in 0 s, then stopped, 0 of 2 files")


@pytest.mark.parametrize(
    ("unit", "done", "total", "seconds", "text"),
    [
        ("h of audio", 0, 1800.0, 0.0, "0 of 1,800 h of audio"),
        (
            "h of audio",
            12.3,
            1800.0,
            107.5,
            "12.3 of 1,800 h of audio, 412 x real time, 4.3 h left",
        ),
        ("h of audio", 0.5, 1.5, 60, "30 of 90 min of audio, 30 x real time, 2 min left"),
        ("h of audio", 0.001, 0.02, 1, "3.6 of 72 s of audio, 3.6 x real time, 19 s left"),
        ("h of audio", 1799.9999, 1800.0, 3600, "1,800 h of audio in 1 h, 1,800 x real time"),
        (
            "GB of recordings",
            3.2,
            95.0,
            8,
            "3.2 GB of 95 GB of recordings, 400 MB/s, 4 min left",
        ),
        ("bytes", 0, 0, 0.1, "0 bytes"),
        ("clips", 412, 450_000, 4, "412 of 450,000 clips, 103 clips/s, 73 min left"),
        ("recordings", 7, 7, 840, "7 recordings in 14 min, 30 recordings an hour"),
    ],
)
def test_the_state_text_has_amount_rate_and_time_left(unit, done, total, seconds, text):
    assert state_text(unit, done, total, seconds) == text


def test_slow_rates_are_given_per_minute_or_hour():
    speeds = [speed_text("shards", rate) for rate in (2.0, 0.35, 1 / 3600)]
    assert speeds == ["2 shards/s", "21 shards a minute", "1 shards an hour"]


def test_names_in_a_progress_bar_are_escaped(monkeypatch):
    shown = []

    class Kernel:
        kernel = None

        class display_pub:  # noqa: N801 - as IPython's shell has it
            @staticmethod
            def publish(data, **_options):
                shown.append(data)

    monkeypatch.setattr(bars, "kernel_shell", lambda: Kernel)
    assert threading.current_thread() is threading.main_thread()
    with progress("<b>x</b>", 1, "<i>") as advance:
        advance(1)
    assert "<b>" not in shown[-1]["text/html"]
    assert shown[-1]["text/plain"].startswith("<b>x</b>: 1 <i> in ")


@pytest.mark.parametrize(
    ("done", "seconds", "remaining", "expected"),
    [
        (40.0, 3600.0, 60.0, (40 / 3600, 5400)),
        (2, 1.0, 0, (2.0, 0.0)),
        (0, 1.0, 3, (None, None)),
        (1, 0.0, 3, (None, None)),
    ],
)
def test_rate_and_time_left_are_computed_from_amount_and_seconds(
    done, seconds, remaining, expected
):
    rate, left_s = rate_and_time_left(done, seconds, remaining)
    assert (rate, left_s) == pytest.approx(expected)
