"""Review: segments drawn into spreadsheets with clips, and the verdicts that come back.

Out: `exporting` is the step; `sampling` draws, `suspicion` knows what looks wrong, `clips` cuts, `sheet` and `cells` make the
workbook, `delimited` its plain tables. `records` are what the workspace remembers of each draw, `rounds` what came of it. Back:
`importing` is the step; `returned` finds rows and columns again, `verdicts` is the log of what reviewers said, `texts` and
`bounds` bring into the tables what they put right, and `agreement` says how far they agree. `deciding` takes decisions about
single segments, which `select` follows.
"""

from typing import TYPE_CHECKING

from nbaudio.core import lazy

if TYPE_CHECKING:
    from nbaudio.review.agreements import agreement as agreement
    from nbaudio.review.agreements import disagreements as disagreements
    from nbaudio.review.bound_corrections import correct_bounds as correct_bounds
    from nbaudio.review.deciding import decisions as decisions
    from nbaudio.review.deciding import import_decisions as import_decisions
    from nbaudio.review.log import VERDICTS as VERDICTS
    from nbaudio.review.log import Verdict as Verdict
    from nbaudio.review.log import append_verdicts as append_verdicts
    from nbaudio.review.log import verdict_log as verdict_log
    from nbaudio.review.log import verdicts as verdicts
    from nbaudio.review.review_export import export as export
    from nbaudio.review.review_import import import_ as import_
    from nbaudio.review.sampling import STRATEGIES as STRATEGIES
    from nbaudio.review.text_corrections import correct_texts as correct_texts
    from nbaudio.review.text_corrections import uncorrected as uncorrected

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "STRATEGIES": "nbaudio.review.sampling",
        "VERDICTS": "nbaudio.review.log",
        "Verdict": "nbaudio.review.log",
        "agreement": "nbaudio.review.agreements",
        "append_verdicts": "nbaudio.review.log",
        "correct_bounds": "nbaudio.review.bound_corrections",
        "correct_texts": "nbaudio.review.text_corrections",
        "decisions": "nbaudio.review.deciding",
        "disagreements": "nbaudio.review.agreements",
        "export": "nbaudio.review.review_export",
        "import_": "nbaudio.review.review_import",
        "import_decisions": "nbaudio.review.deciding",
        "uncorrected": "nbaudio.review.text_corrections",
        "verdict_log": "nbaudio.review.log",
        "verdicts": "nbaudio.review.log",
    },
)
