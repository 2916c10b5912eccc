"""Progress in a terminal, in a notebook, and in a notebook that was saved."""

import threading

import nbformat
import pytest
from nbclient import NotebookClient

from nbaudio.core import progress as bars
from nbaudio.core.progress import progress, rate_and_time_left
from nbaudio.storage.download.download import byte_progress

VERIFY = "from nbaudio.core.progress import progress\n"
VERIFY += "with progress('verify', 3, 'shards') as advance:\n    for _ in range(3): advance(1)"
FETCH = (
    "from nbaudio.storage.download.download import byte_progress\nwith byte_progress(1) as meter:\n"
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


def test_a_notebook_has_an_ipywidgets_bar_and_keeps_one_line_of_it(ran):
    cells, models = ran
    assert models.count("FloatProgressModel") == 3
    for cell, line in zip(
        cells,
        ("verify: 3 shards", "fetch: 5.00kB", "cut: 0.50 h of audio of 2.00 h of audio"),
        strict=False,
    ):
        [shown] = [output for output in cell.outputs if output.output_type != "error"]
        # Text and a picture of it, no widget that needs a kernel, nothing on standard error.
        assert sorted(shown["data"]) == ["text/html", "text/plain"]
        assert text(shown) == line
        assert line in shown["data"]["text/html"]
    assert cells[2].outputs[0]["data"]["text/plain"].endswith("then stopped")


def test_a_thread_and_silent_work_show_nothing_in_a_notebook(ran):
    assert [cell.outputs for cell in ran[0][3:]] == [[], []]


def test_a_terminal_has_text_on_standard_error(capsys):
    with progress("verify", 3, "shards") as advance:
        advance(3)
    with byte_progress(1) as meter:
        meter.expect("a", 5000)
        meter.advance("a", 5000)
        meter.finish("a")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.replace("\r", "\n").split("\n")
    assert any(
        line.startswith("verify 100% |========================| 3/3 shards  ") for line in lines
    )
    assert any(
        line.startswith("fetch 100% |========================| 5.00k/5.00k  ") for line in lines
    )


def test_words_of_a_name_are_no_markup(monkeypatch):
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
def test_rate_and_time_left(done, seconds, remaining, expected):
    rate, left_s = rate_and_time_left(done, seconds, remaining)
    assert (rate, left_s) == pytest.approx(expected)
