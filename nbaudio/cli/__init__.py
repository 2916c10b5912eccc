"""Command line: every command calls the Python function of the same name and prints its report.

Exit codes: 0 done, 1 done with problems that the report lists, 2 wrong use or unusable input.
"""

from nbaudio.cli import commands  # noqa: F401  # they add themselves to the app
from nbaudio.cli.common import app, main

__all__ = ["app", "main"]
