"""Review: segments drawn into spreadsheets with clips, and the verdicts that come back.

Out: `exporting` is the step; `sampling` draws, `suspicion` knows what looks wrong, `clips` cuts, `sheet` and `cells` make the
workbook, `delimited` its plain tables. `records` are what the workspace remembers of each draw, `rounds` what came of it. Back:
`importing` is the step; `returned` finds rows and columns again, `verdicts` is the log of what reviewers said, `texts` and
`bounds` bring into the tables what they put right, and `agreement` says how far they agree. `deciding` takes decisions about
single segments, which `select` follows.
"""

from nbaudio.review.agreement import agreement, disagreements
from nbaudio.review.bounds import correct_bounds
from nbaudio.review.deciding import decisions, import_decisions
from nbaudio.review.exporting import export
from nbaudio.review.importing import import_
from nbaudio.review.sampling import STRATEGIES
from nbaudio.review.texts import correct_texts, uncorrected
from nbaudio.review.verdicts import VERDICTS, Verdict, append_verdicts, verdict_log, verdicts

__all__ = [
    "STRATEGIES",
    "VERDICTS",
    "Verdict",
    "agreement",
    "append_verdicts",
    "correct_bounds",
    "correct_texts",
    "decisions",
    "disagreements",
    "export",
    "import_",
    "import_decisions",
    "uncorrected",
    "verdict_log",
    "verdicts",
]
