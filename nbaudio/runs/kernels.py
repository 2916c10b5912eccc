"""Kernels of a run, for jupyter_client: the next starts while a notebook runs.

Those that a server forks are described in `nbaudio.runs.kernel_server`.
"""

import os
import signal
import sys
import time
from asyncio import Task
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_core.utils import ensure_event_loop

from nbaudio.core import atomic
from nbaudio.core.errors import NbaudioError
from nbaudio.runs.server_process import KernelServer

_LAUNCHER = "ipykernel_launcher"
_POLL_S = 0.01
# The kernel name in the notebooks; every Jupyter knows it when they are opened by hand.
KERNEL = "python3"
_ARGUMENTS = [
    # Kernels log only that a local connection is not encrypted, or that they were stopped.
    "--log-level=CRITICAL",
    "--IPKernelApp.kernel_class=nbaudio.runs.notebook_kernel.NotebookKernel",
    "--HistoryManager.hist_file=:memory:",
]
_START_TIMEOUT_S = 60.0
_REPLY_S = 1.0  # seconds after which a kernel is asked again
_OUTPUT_S = 0.2  # seconds after a reply in which its first output arrives
DIED_AT_START = "Kernel died before replying to kernel_info"
# What few notebooks import and takes long, by the name of the notebook: its kernel imports it while
# the notebook before runs.
IMPORTED_AHEAD = {
    "05_review_sheet": ("openpyxl", "scipy.sparse.csgraph"),
    "06_splits": ("pandas", "scipy.sparse.csgraph"),
    "08_read_back": ("torch.utils.data", "datasets"),
}
# An expression, as the names of a notebook are its cells' alone.
_IMPORT = "__import__('nbaudio.runs.notebook_kernel', fromlist=['import_all']).import_all({})"


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


@dataclass(frozen=True)
class RunningKernel:
    """A kernel that has answered, and what talks to it."""

    manager: AsyncKernelManager
    client: AsyncKernelClient


class RunKernels:
    """Kernels for the notebooks of a run, one each.

    The kernel of the next notebook starts while a notebook runs, and the kernel of the last one
    ends. Both happen whenever the event loop of this thread runs, which is that of nbclient.
    """

    def __init__(self, server: KernelServer | None, folder: Path, notebooks: Sequence[str]) -> None:
        """Begin to start the first kernel.

        `folder` is the current folder of the kernels. `server` forks them; None: each is a new
        interpreter. `notebooks` are the names of the notebooks, in their order.
        """
        self._manager_class = AsyncKernelManager if server is None else _manager_of(server)
        self._folder = folder
        self._notebooks = deque(notebooks)  # those without a kernel
        self._loop = ensure_event_loop()
        self._next: Task[RunningKernel] | None = None
        self._ending: list[Task[None]] = []
        self._begin_next()

    def take(self) -> RunningKernel:
        """Return the kernel of the next notebook, and begin to start the one after it.

        Raises:
            RuntimeError: the kernel died before it answered, or did not answer in time.
            NbaudioError: the server has ended.
        """
        starting = self._next or self._loop.create_task(self._start(""))
        self._next = starting  # to be ended if the run is interrupted now
        try:
            kernel = self._loop.run_until_complete(starting)
        except (RuntimeError, NbaudioError):
            self._next = None
            raise
        self._next = None
        self._begin_next()
        return kernel

    def release(self, kernel: RunningKernel) -> None:
        """Ask a kernel to end, and begin to wait for its end."""
        self._loop.run_until_complete(_ask_to_end(kernel))
        self._ending.append(self._loop.create_task(_wait_for_end(kernel)))

    def close(self) -> None:
        """End all kernels."""
        if self._next is not None:
            # One that could not be started has nothing to end.
            with suppress(RuntimeError, NbaudioError):
                self.release(self._loop.run_until_complete(self._next))
        for ending in self._ending:
            self._loop.run_until_complete(ending)

    def _begin_next(self) -> None:
        """Begin to start a kernel if a notebook is left."""
        if self._notebooks:
            self._next = self._loop.create_task(self._start(self._notebooks.popleft()))

    async def _start(self, notebook: str) -> RunningKernel:
        """Start the kernel of a notebook, wait until it answers, and let it import modules."""
        manager = self._manager_class(kernel_name=KERNEL)
        await manager.start_kernel(extra_arguments=_ARGUMENTS, cwd=str(self._folder))
        client = manager.client()
        kernel = RunningKernel(manager, client)
        try:
            client.start_channels()
            await _wait_until_ready(kernel)
        except BaseException:
            await _ask_to_end(kernel)
            await _wait_for_end(kernel)
            raise
        client.allow_stdin = False
        if modules := IMPORTED_AHEAD.get(notebook):
            client.execute(_IMPORT.format(modules), silent=True, stop_on_error=False)
        return kernel


async def _wait_until_ready(kernel: RunningKernel) -> None:
    """Wait until a kernel replies, and its outputs arrive.

    `wait_for_ready` of the client goes on to wait until no output arrives in 0.2 s; outputs of
    other requests than its cells' are nothing to a notebook.
    """
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        kernel.client.kernel_info()
        with suppress(Empty):
            await kernel.client.get_shell_msg(timeout=_REPLY_S)
            await kernel.client.get_iopub_msg(timeout=_OUTPUT_S)
            return
        if not await kernel.manager.is_alive():
            raise RuntimeError(DIED_AT_START)
    raise RuntimeError(f"Kernel didn't respond in {_START_TIMEOUT_S:g} seconds")


async def _ask_to_end(kernel: RunningKernel) -> None:
    """Interrupt a kernel, and ask it to end."""
    if await kernel.manager.is_alive():
        await kernel.manager.interrupt_kernel()
        await kernel.manager.request_shutdown()


async def _wait_for_end(kernel: RunningKernel) -> None:
    """Wait for the end of a kernel; one that does not end in seconds is killed."""
    try:
        await kernel.manager.finish_shutdown()
    finally:
        await kernel.manager.cleanup_resources()
        kernel.client.stop_channels()


@contextmanager
def run_kernels(
    server: KernelServer | None, folder: Path, notebooks: Sequence[str]
) -> Iterator[RunKernels]:
    """Provide the kernels of the notebooks of a run, by their names; end them afterwards.

    `folder` is the current folder of the kernels.
    """
    with _own_kernel():
        kernels = RunKernels(server, folder, notebooks)
        try:
            yield kernels
        finally:
            kernels.close()


@contextmanager
def _own_kernel() -> Iterator[None]:
    """Let `KERNEL` run this interpreter, whether or not a kernel of that name is installed."""
    before = os.environ.get("JUPYTER_PATH")
    command = [sys.executable, "-m", _LAUNCHER, "-f", "{connection_file}"]
    with TemporaryDirectory() as folder:
        spec = {"argv": command, "display_name": "Python 3 (ipykernel)", "language": "python"}
        atomic.write_json(Path(folder) / "kernels" / KERNEL / "kernel.json", spec)
        os.environ["JUPYTER_PATH"] = os.pathsep.join([folder, *([before] if before else [])])
        try:
            yield
        finally:
            os.environ.pop("JUPYTER_PATH")
            os.environ |= {"JUPYTER_PATH": before} if before else {}


def _manager_of(server: KernelServer) -> type[AsyncKernelManager]:
    """Return a class of kernel managers whose kernels a server forks."""
    return type("ForkingManager", (_ForkingManager,), {"server": server})
