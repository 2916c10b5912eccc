"""Command line: functions of the same names.

Exit codes are 0 done, 1 done with problems, 2 wrong use or unusable input.
"""

from nbaudio.cli import commands  # noqa: F401  # they add themselves to the app
from nbaudio.cli.common import app, main

__all__ = ["app", "main"]
