"""Kernels that a server forks, for jupyter_client: see `nbaudio.runs.kernel_server`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from nbaudio.core.errors import NbaudioError

_LAUNCHER = "ipykernel_launcher"
_POLL_S = 0.01


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
    ):
        theirs.close()
        try:
            yield KernelServer(ours)
        finally:
            ours.close()


class _ForkedKernel:
    """The process of a kernel, with what jupyter_client calls of a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, server: KernelServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, None while the kernel runs."""
        if self._exit_code is None:
            self._exit_code = self._server.request("poll", self.pid)
        return self._exit_code

    def wait(self) -> int:
        """Return the exit code as soon as the kernel has ended."""
        while (exit_code := self.poll()) is None:
            time.sleep(_POLL_S)
        return exit_code

    def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        """End the kernel at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the kernel to end."""
        self.send_signal(signal.SIGTERM)


class _ForkingProvisioner(LocalProvisioner):
    """Launches kernels as forks of the process of a server."""

    server: KernelServer

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Fork a kernel with the arguments of a command ``python -m ipykernel_launcher ...``."""
        arguments = cmd[cmd.index(_LAUNCHER) + 1 :]
        folder = str(kwargs.get("cwd") or Path.cwd())
        pid = self.server.request("start", arguments, folder, dict(kwargs["env"]))
        self.process = _ForkedKernel(self.server, pid)  # type: ignore[assignment]
        self.pid = pid
        self.pgid = pid
        self.cwd = folder
        return self.connection_info


class _ForkingManager(AsyncKernelManager):
    """Manages a kernel that the server of its class forks."""

    server: KernelServer

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.provisioner = _ForkingProvisioner(
            kernel_id="", kernel_spec=self.kernel_spec, parent=self
        )
        self.provisioner.server = self.server


def manager_of(server: KernelServer) -> type[AsyncKernelManager]:
    """Return a class of kernel managers, as nbclient wants it, whose kernels a server forks."""
    return type("ForkingManager", (_ForkingManager,), {"server": server})
