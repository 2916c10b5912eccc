"""Review: segments drawn into spreadsheets with clips, and the verdicts that come back.

Out: `sampling` draws, `clips` cuts, `cells`, `sheet` and `pages` make the workbook and `delimited` its plain tables, `record` is
what the workspace remembers, `handouts` who gets what, and `exporting` is the step. Back: `reading` finds rows and columns again,
`importing` is the step, `verdicts` the log of what reviewers said, `texts` and `corrections` bring into the tables what they put
right, and `agreement` says how far they agree.
"""

from nbaudio.review.agreement import agreement, disagreements
from nbaudio.review.corrections import correct_bounds
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
    "disagreements",
    "export",
    "import_",
    "uncorrected",
    "verdict_log",
    "verdicts",
]
