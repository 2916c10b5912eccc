"""Samples for reviewers: segments drawn at random into a spreadsheet with clips, and a record of what was given away.

`sampling` draws, `clips` cuts, `cells` and `sheet` make the workbook, `record` is what the workspace remembers, and `exporting`
is the step. Reading verdicts back will be its counterpart.
"""

from nbaudio.review.exporting import export
from nbaudio.review.sampling import STRATEGIES
from nbaudio.review.sheet import VERDICTS

__all__ = ["STRATEGIES", "VERDICTS", "export"]
