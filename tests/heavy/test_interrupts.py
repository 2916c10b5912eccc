"""A command that a person stops in a notebook, by the kernel's own interrupt, and runs again."""

import asyncio
import shutil
import threading
import time
from contextlib import contextmanager

import nbformat
import pytest
from faults import contents
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError

import nbaudio

RECORDINGS = {f"r{number}.flac": (240.0, 16000) for number in range(12)}
_LONGEST_S = 120
# A cell that hangs writes there where its threads are.
_STACKS = "stacks.txt"
# Commands, and how many seconds after their start they are stopped: while workers start, too.
COMMANDS = {
    "materialize": ("nbaudio.materialize('w', out='c', jobs=2).facts['kept']", (0.4, 0.8, 1.6)),
    "measure": ("nbaudio.measure('w', jobs=2).facts['segments']", (0.3, 0.6, 0.9)),
    "verify": ("nbaudio.verify('made', jobs=2).facts['clips_decoded']", (0.2, 0.4, 0.6)),
}


@contextmanager
def notebook(folder):
    """Run cells in one kernel: a function that gives the outputs of a source."""
    book = nbformat.v4.new_notebook()
    client = NotebookClient(
        book,
        kernel_name="python3",
        allow_errors=True,
        timeout=_LONGEST_S,
        resources={"metadata": {"path": str(folder)}},
    )
    client.extra_arguments = ["--log-level=CRITICAL"]

    def run(source):
        book.cells.append(nbformat.v4.new_code_cell(source))
        return client.execute_cell(book.cells[-1], len(book.cells) - 1).outputs

    with client.setup_kernel():
        run("import nbaudio; nbaudio.materialize, nbaudio.measure, nbaudio.verify")
        run(f"import faulthandler; stacks = open({_STACKS!r}, 'w')")
        yield run, client


def interrupt_after(client, seconds):
    time.sleep(seconds)
    asyncio.run(client.km.interrupt_kernel())


@pytest.mark.parametrize(("command", "call", "times"), [(k, *v) for k, v in COMMANDS.items()])
def test_an_interrupt_is_one_line_and_the_cell_continues(
    make_workspace, tmp_path, command, call, times
):
    workspace = make_workspace(RECORDINGS)
    if command != "measure":
        nbaudio.materialize(
            workspace, out=tmp_path / "made", jobs=2, engine="threading", show_progress=False
        )
        shutil.rmtree(workspace.path / "packs")
    with notebook(tmp_path) as (run, client):
        for seconds in times:
            stop = threading.Thread(target=interrupt_after, args=(client, seconds))
            stop.start()
            outputs = run(call)
            stop.join()
            [error] = [output for output in outputs if output.output_type != "display_data"]
            assert (error.output_type, error.ename) == ("error", "KeyboardInterrupt")
            assert error.traceback == ["stopped; run the cell again to continue"]
            [full] = run("%tb")
            assert f"nbaudio.{command}" in "".join(full.traceback)
        run(f"faulthandler.dump_traceback_later({_LONGEST_S - 20}, file=stacks)")
        try:
            result = run(call)[-1]
        except CellTimeoutError:
            pytest.fail((tmp_path / _STACKS).read_text())
    assert int(result.data["text/plain"]) == workspace.segments.height
    if command == "materialize":
        assert contents(tmp_path / "c") == contents(tmp_path / "made")
