"""The process that forks the kernels of a run, as the run sees it: it starts, answers, and ends.

This imports nothing large, so that the process imports while the run itself does.
`nbaudio.runs.kernel_server` describes what it does.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from nbaudio.core.errors import NbaudioError


class KernelServer:
    """A process that forks kernels, started by `kernel_server`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def request(self, *request: Any) -> Any:
        """Send a request and return its answer; raise NbaudioError if the server has ended."""
        try:
            self._connection.send(request)
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise NbaudioError("the process that starts the kernels has ended") from error


@contextmanager
def kernel_server() -> Iterator[KernelServer | None]:
    """Run a server of kernels; None where processes cannot be forked safely: all but Linux.

    The server imports while this process goes on. It has a session of its own, so that Ctrl-C does
    not reach it.
    """
    if sys.platform != "linux":
        yield None
        return
    ours, theirs = Pipe()
    # -P: a file in the current folder must not be imported in place of a module.
    command = [sys.executable, "-P", "-m", "nbaudio.runs.kernel_server", str(theirs.fileno())]
    with subprocess.Popen(
        command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
    ) as process:
        theirs.close()
        try:
            yield KernelServer(ours)
        finally:
            ours.close()
            process.kill()  # a run that failed at once does not wait for the end of its imports
