"""The part of what ships that rounds with verdicts could draw, and what has arrived since."""

from dataclasses import dataclass

import numpy as np

from nbaudio.proof.betting import Bools
from nbaudio.proof.claims import best_claim
from nbaudio.proof.proof_state import ProofState


@dataclass(frozen=True)
class SampledPart:
    """What ships without the segments that are new or changed, and not sampled yet."""

    segments: int
    low: float | None  # the lower bound of the share that is right; None if there are no segments
    not_sampled: int  # segments that ship and that no round with verdicts could draw


def was_sampled(state: ProofState) -> Bools:
    """Return which segments are judged, or could be drawn as they are by a round with verdicts."""
    sampled = np.array(state.judged)
    for frame in state.draws.frames:
        sampled |= frame.valid
    return sampled


def sampled_part(
    state: ProofState, ships: Bools, *, target: float, error: float
) -> SampledPart | None:
    """Return the sampled part of what ships; None if it is all of it, or nothing was judged.

    Its bound holds together with that of all that ships: both rest on the same bounds of rules.

    Args:
        state: the segments in sums, and the draws.
        ships: what ships.
        target: the share that is to be right.
        error: of both bounds of the selection.
    """
    if not len(state.lines):
        return None
    sampled = was_sampled(state)
    not_sampled = state.count(ships & ~sampled)
    if not not_sampled:
        return None
    claim = best_claim(state, ships & sampled, target=target, error=error)
    facts = claim.part.by("segments", target=target, error=claim.error, high_error=claim.high_error)
    return SampledPart(facts["segments"], facts["low"], not_sampled)
