"""Detect processes that were forked after polars ran: they lack the threads of polars, and most calls would hang."""

import os
from pathlib import Path

from nbaudio.core.errors import InputError

_state = {"ran": False, "lost": False}


def check_not_forked(what: str) -> None:
    """Raise InputError, with a remedy, in a process that was forked from one in which polars had run."""
    if _state["lost"]:
        raise InputError(
            f"{what}: cannot run in a process that was forked after polars was used, since it would hang; "
            "open the corpus before the fork and hand it over, or start processes by 'spawn' or 'forkserver'"
        )


def _before_fork() -> None:
    # Only Linux shows the names of threads; elsewhere processes are spawned by default.
    names = (path.read_bytes() for path in Path("/proc/self/task").glob("*/comm"))
    _state["ran"] = any(name.startswith(b"polars-0") for name in names)


def _after_fork_in_child() -> None:
    _state["lost"] |= _state["ran"]


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
