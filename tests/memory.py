"""Memory of processes that tests start."""

from pathlib import Path


def most_mb() -> int:
    """The most MB that this process held; `ru_maxrss` begins with what the parent held."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1000
