"""Samples for reviewers: segments drawn at random into a spreadsheet with clips, and a record of what was given away.

`sampling` draws, `clips` cuts, `cells` and `sheet` make the workbook, `record` is what the workspace remembers, and `exporting`
is the step. `verdicts` is the log of what reviewers said.
"""

from nbaudio.review.exporting import export
from nbaudio.review.sampling import STRATEGIES
from nbaudio.review.verdicts import VERDICTS, Verdict, append_verdicts, verdict_log, verdicts

__all__ = ["STRATEGIES", "VERDICTS", "Verdict", "append_verdicts", "export", "verdict_log", "verdicts"]
