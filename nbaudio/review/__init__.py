"""Review: draw segments into spreadsheets or pages with clips, and import the verdicts."""

from typing import TYPE_CHECKING

from nbaudio.core import lazy_imports

if TYPE_CHECKING:
    from nbaudio.review.annotator_agreement import agreement as agreement
    from nbaudio.review.annotator_agreement import disagreements as disagreements
    from nbaudio.review.corrections import correct_bounds as correct_bounds
    from nbaudio.review.corrections import correct_texts as correct_texts
    from nbaudio.review.corrections import uncorrected as uncorrected
    from nbaudio.review.manual_decisions import decisions as decisions
    from nbaudio.review.manual_decisions import import_decisions as import_decisions
    from nbaudio.review.review_export import export as export
    from nbaudio.review.review_import import import_ as import_
    from nbaudio.review.risk import ranking as ranking
    from nbaudio.review.sampling import STRATEGIES as STRATEGIES
    from nbaudio.review.state import VERDICTS as VERDICTS
    from nbaudio.review.state import Verdict as Verdict
    from nbaudio.review.state import append_verdicts as append_verdicts
    from nbaudio.review.state import verdict_log as verdict_log
    from nbaudio.review.state import verdicts as verdicts

__getattr__, __dir__, __all__ = lazy_imports.attach(__name__)
