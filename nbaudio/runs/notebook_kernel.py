"""The kernel of an unattended run, which ends without waiting for resource trackers."""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ipykernel.ipkernel import IPythonKernel

_TRACKER = b"resource_tracker"  # in the command of those of multiprocessing and of loky


class NotebookKernel(IPythonKernel):
    """An IPython kernel that leaves resource trackers to end by themselves.

    A kernel ends its child processes first. Resource trackers ignore SIGTERM, so that a kernel
    waits more than two seconds for them. They end, with what they track, when the kernel has ended.
    """

    def _process_children(self) -> list[Any]:
        """Return the child processes to end, as `psutil.Process`."""
        children = super()._process_children()  # type: ignore[no-untyped-call]
        return [child for child in children if not _is_tracker(child.pid)]


def _is_tracker(pid: int) -> bool:
    """Return whether a process is a resource tracker; False where that cannot be found out."""
    with suppress(OSError):
        return _TRACKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def import_all(modules: Sequence[str]) -> None:
    """Import modules; the cell that imports one again reports why it cannot be imported."""
    for module in modules:
        with suppress(Exception):
            import_module(module)
