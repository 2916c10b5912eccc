"""The process that forks the kernels of a run: it imports once what all notebooks import.

Every kernel is a fork of this process, which runs nothing but imports: a notebook finds the modules
in memory, and nothing of another notebook. So is a process that proves the demo's made pairs while
the first notebooks run, which have nothing to do with them. Polars starts the threads of its
queries with the first query, so that it can be forked before.

The process ends when the run closes its connection, also when the run is killed.
"""

import gc
import os
import runpy
import sys
import warnings
from importlib import import_module
from multiprocessing.connection import Connection
from typing import NoReturn

import numpy as np

from nbaudio.core.processes import exit_with_driver, skip_garbage_collection_at_exit

_LAUNCHER = "ipykernel_launcher"
_OUTPUTS = (1, 2)  # the standard output and the standard error
# What the notebooks import, directly and in the functions that they call. A module that is missing
# here is imported by each kernel that needs it; a run begins when all of these are imported.
PRELOADED = (
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "nbaudio.audio.ffmpeg",
    "nbaudio.core.notebook_bar",
    "nbaudio.corpus.diff",
    "nbaudio.corpus.materialize",
    "nbaudio.corpus.measure",
    "nbaudio.corpus.verify",
    "nbaudio.corpus.versions",
    "nbaudio.proof.evidence",
    "nbaudio.proof.rate_intervals",
    "nbaudio.recognition.measure",
    "nbaudio.reading.adapters",
    "nbaudio.review.annotator_agreement",
    "nbaudio.review.manual_decisions",
    "nbaudio.review.review_export",
    "nbaudio.review.review_import",
    "nbaudio.runs.made_pairs",
    "nbaudio.runs.manifests",
    "nbaudio.runs.minutes_example",
    "nbaudio.runs.notebook_kernel",
    "nbaudio.runs.read_source",
    "nbaudio.selection.select",
    "nbaudio.text.score",
    "nbaudio.selection.leakage",
    "nbaudio.ui.plots",
    "nbaudio.ui.statistics.audit",
    "nbaudio.ui.statistics.stats",
    "nbaudio.ui.statistics.stats_page",
    "nbaudio.ui.views",
    "nbaudio.ui.widgets",
    "scipy.special",
    "xlsxwriter",
)


def serve(connection: Connection) -> None:
    """Fork a kernel for each request ``("start", arguments, folder, environment)``.

    The answer is its process id. ``("poll", process id)`` is answered by its exit code, None while
    it runs. ``("prove", made pairs, folder)`` forks a process that calls `prove_made_pairs`, and is
    answered by its process id. Returns when the connection is closed.
    """
    skip_garbage_collection_at_exit()  # forked processes inherit it
    # Matplotlib reads it when it is imported; a kernel sets it, too, before it imports anything.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    gc.disable()  # modules stay loaded; collections take a fifth of the time of imports
    for module in PRELOADED:
        import_module(module)
    gc.freeze()  # no kernel collects, and so copies, what it shares with this process
    gc.enable()
    while True:
        try:
            command, *values = connection.recv()
        except EOFError:
            return
        if command == "poll":
            connection.send(_exit_code(*values))
            continue
        with warnings.catch_warnings():
            # Python 3.12 warns where a process with threads forks; those of libraries are idle.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if process == 0:
            connection.close()
            if command == "prove":
                _prove(*values)
            _run_kernel(*values)
        connection.send(process)


def _exit_code(process: int) -> int | None:
    """Return the exit code of a kernel, None while it runs.

    A kernel that a signal ended has the negative number of the signal.
    """
    ended, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _run_kernel(arguments: list[str], folder: str, environment: dict[str, str]) -> NoReturn:
    """Run a kernel in this process as ``python -m ipykernel_launcher`` does, in its own session."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    np.random.seed()  # else all kernels would draw equal numbers
    sys.path.insert(0, folder)  # the launcher removes the current folder
    # The kernel ends as soon as its parent is another process.
    parent = f"--IPKernelApp.parent_handle={os.getppid()}"
    sys.argv = [_LAUNCHER, *arguments, parent]
    runpy.run_module(_LAUNCHER, run_name="__main__", alter_sys=True)
    sys.exit()


def _prove(made_pairs: str, out: str) -> NoReturn:
    """Prove made pairs in this process, which prints nothing and ends with the server.

    If it fails, the notebook that shows the proof begins it anew, and reports why.
    """
    from nbaudio.runs.made_pairs import prove_made_pairs

    exit_with_driver(os.getppid())
    silent = os.open(os.devnull, os.O_WRONLY)
    for descriptor in _OUTPUTS:
        os.dup2(silent, descriptor)
    prove_made_pairs(made_pairs, out)
    sys.exit()


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
