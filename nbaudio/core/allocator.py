"""Settings of glibc's memory allocator; other C libraries are left as they are."""

import ctypes
from contextlib import suppress
from functools import cache

# Parameters of mallopt(3).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


@cache
def reuse_memory() -> None:
    """Keep up to 128 MB of freed memory: windows in fresh pages take a tenth more CPU time."""
    _set({_M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 128 << 20})


@cache
def share_arenas() -> None:
    """Let all threads allocate from one arena.

    Each arena keeps what is freed in it, and short threads use ever new ones.
    """
    _set({_M_ARENA_MAX: 1})


def _set(options: dict[int, int]) -> None:
    with suppress(AttributeError, OSError, TypeError):  # another C library
        for name, value in options.items():
            ctypes.CDLL(None).mallopt(name, value)
