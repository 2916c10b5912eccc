"""Find runs of words that a transcript and a hypothesis share, and chain them.

This also works where blocks of either text were moved.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view

Ints = npt.NDArray[np.int64]
# Numbers of words of the transcript and of the hypothesis, of equal length
Pairs = tuple[Ints, Ints]

_NGRAM = 3
# Of an n-gram, in the transcript times in the hypothesis: a phrase of every speech is no anchor
_MOST_PLACES = 16
_MOST_GAP = 120  # words of either side between two runs of a chain
_LOOK_BACK = 64  # runs that may precede a run in its chain
_GAP_COST = 0.02  # of a word that is between two runs, and
_SHIFT_COST = 0.04  # of a word that only one side has there, in words that match
_LEAST_WORDS = 8  # that a chain matches: shorter formulas are said and typed in several places


class _Runs(NamedTuple):
    """Runs of equal words, by their first words and their lengths."""

    left: Ints
    right: Ints
    size: Ints


def find_anchors(
    left: Ints,
    right: Ints,
    *,
    ngram: int = _NGRAM,
    most_places: int = _MOST_PLACES,
    least: int = _LEAST_WORDS,
) -> Pairs:
    """Return the pairs of equal words in chains of rare n-grams.

    Each word is in one pair at most, and the pairs are in the order of the left words. Words are
    codes from 0, the same for the same word; negative ones match nothing. A chain goes forward in
    both texts; chains of at least `least` words are taken in the order of their lengths, so that
    moved blocks are found, and of repeats the one in the longer chain.

    Examples:
        >>> words = np.arange(30)
        >>> left, right = find_anchors(words, np.concatenate((words[20:], words[:12])))
        >>> left.tolist() == [*range(12), *range(20, 30)], right[:2].tolist(), right[-1].item()
        (True, [10, 11], 9)
    """
    runs = _shared_runs(left, right, ngram, most_places)
    if not len(runs.size):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    score, before = _chain_scores(runs)
    free = np.ones(len(left), np.bool_), np.ones(len(right), np.bool_)
    used = np.zeros(len(score), np.bool_)
    found: list[Pairs] = []
    for end in np.argsort(-score, kind="stable").tolist():
        chain: list[Pairs] = []
        run = end
        while run >= 0 and not used[run]:
            used[run] = True
            steps = np.arange(runs.size[run])
            one = runs.left[run] + steps
            other = runs.right[run] + steps
            both = free[0][one] & free[1][other]
            one = one[both]
            other = other[both]
            free[0][one], free[1][other] = False, False
            chain.append((one, other))
            run = before[run]
        matched = sum(len(one) for one, _ in chain)
        if matched >= least:
            found += chain
        else:  # too few words: they are free for other chains
            for one, other in chain:
                free[0][one], free[1][other] = True, True
    pairs = [
        np.concatenate([each[side] for each in found] or [np.empty(0, np.int64)]) for side in (0, 1)
    ]
    order = np.argsort(pairs[0])
    return pairs[0][order], pairs[1][order]


def _shared_runs(left: Ints, right: Ints, ngram: int, most_places: int) -> _Runs:
    """Return the runs of n-grams that both texts share.

    They are sorted by their first word in the left text.
    """
    size = int(max(left.max(initial=0), right.max(initial=0))) + 1
    sides = []
    for codes in (left, right):
        parts = sliding_window_view(np.append(codes, [-1] * ngram), ngram)
        places = np.flatnonzero((parts >= 0).all(axis=1))
        sides.append(
            pl.DataFrame({"gram": parts[places] @ size ** np.arange(ngram), "place": places})
        )
    counts = [side.group_by("gram").agg(pl.len().cast(pl.Int64)) for side in sides]
    rare = (
        counts[0]
        .join(counts[1], on="gram")
        .filter(pl.col("len") * pl.col("len_right") <= most_places)
    )
    pairs = sides[0].join(rare, on="gram").join(sides[1], on="gram")
    one = pairs["place"].to_numpy()
    other = pairs["place_right"].to_numpy()
    order = np.lexsort((one, other - one))
    one = one[order]
    other = other[order]
    starts = np.flatnonzero(
        np.diff(one, prepend=-2) - 1 | np.diff(other - one, prepend=-len(left) - 2)
    )
    lengths = np.diff(np.append(starts, len(one))) + ngram - 1
    order = np.lexsort((other[starts], one[starts]))
    return _Runs(one[starts][order], other[starts][order], lengths[order])


def _chain_scores(runs: _Runs) -> tuple[npt.NDArray[np.float64], Ints]:
    """Return for each run the best chain that ends in it: its score, and the run before.

    The run before is the one that precedes it in the chain, -1 for none.
    """
    score = runs.size.astype(np.float64)
    before = np.full(len(score), -1)
    left_end = runs.left + runs.size
    right_end = runs.right + runs.size
    first = np.searchsorted(runs.left, runs.left - _MOST_GAP - int(runs.size.max()))
    for run in range(1, len(score)):
        near = slice(max(first[run], run - _LOOK_BACK), run)
        gap = runs.left[run] - left_end[near]
        other_gap = runs.right[run] - right_end[near]
        overlap = np.maximum(0, np.maximum(-gap, -other_gap))
        gap = gap + overlap
        other_gap = other_gap + overlap
        fits = (
            (runs.left[near] < runs.left[run])
            & (runs.right[near] < runs.right[run])
            & (overlap < runs.size[run])
        )
        fits &= (gap <= _MOST_GAP) & (other_gap <= _MOST_GAP)
        cost = (
            overlap + _GAP_COST * np.minimum(gap, other_gap) + _SHIFT_COST * np.abs(gap - other_gap)
        )
        total = np.where(fits, score[near] - cost, 0)
        if len(total) and (best := total.max()) > 0:
            score[run] += best
            before[run] = near.start + int(total.argmax())
    return score, before
