"""Command line: every command calls the Python function of the same name and prints its report.

Exit codes: 0 done, 1 done with problems that the report lists, 2 wrong use or unusable input.
"""

from nbaudio.cli import runs, sources, review, corpus  # noqa: F401, I001  # in the order of the help
from nbaudio.cli.common import app, main

__all__ = ["app", "main"]
