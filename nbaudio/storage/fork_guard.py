"""Whether this process was forked from one in which polars had run.

The threads of polars are not there in such a process, and most of what it does waits for them for ever.
"""

import os
from pathlib import Path

from nbaudio.core.errors import InputError

_state = {"ran": False, "lost": False}


def check_not_forked(what: str) -> None:
    """Refuse what would never end.

    Raises:
        InputError: this process was forked from one in which polars had run; says what to do instead.
    """
    if _state["lost"]:
        raise InputError(
            f"{what}: not in a process that was forked from one in which polars had run, it would wait for ever; "
            "open the corpus before the fork and hand it over, or start processes by 'spawn' or 'forkserver'"
        )


def _look() -> None:
    # Only Linux tells of threads by name; elsewhere processes are spawned unless somebody asks for a fork.
    names = (path.read_bytes() for path in Path("/proc/self/task").glob("*/comm"))
    _state["ran"] = any(name.startswith(b"polars-0") for name in names)


def _note() -> None:
    _state["lost"] |= _state["ran"]


os.register_at_fork(before=_look, after_in_child=_note)
