"""What the verdicts of reviewers prove: precision against the threshold on similarity, with intervals that hold.

`weights` turns rounds of review into one weighted sample, `intervals` bounds weighted sums, `curves` puts both together for every
threshold at once, and `step` is the command. docs/evidence.md has the method and how it was tested.
"""

from nbaudio.evidence.curves import curve, smallest_sample
from nbaudio.evidence.step import claim, evidence, next_reviews, precision_curve, workspace_sample
from nbaudio.evidence.weights import Sample, collect

__all__ = [
    "Sample",
    "claim",
    "collect",
    "curve",
    "evidence",
    "next_reviews",
    "precision_curve",
    "smallest_sample",
    "workspace_sample",
]
