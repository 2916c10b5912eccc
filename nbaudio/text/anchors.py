"""Find runs of words that a transcript and a hypothesis share, and chain them.

*Left* is the transcript, *right* the hypothesis. Blocks of either text may have moved.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view

Ints = npt.NDArray[np.int64]
# Positions of words of the left and of the right text, two arrays of equal length.
Pairs = tuple[Ints, Ints]
Flags = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.float64]

_NGRAM = 3
# Occurrences of an n-gram in the transcript times those in the hypothesis: a phrase that is in
# every speech is no anchor.
_MOST_PLACES = 16
_MOST_GAP = 120  # words of either text between two runs of a chain
_LOOK_BACK = 64  # runs before a run that may precede it in its chain
# Costs of a gap between two runs of a chain, in words that match.
_GAP_COST = 0.02  # of each word in the gap
_SHIFT_COST = 0.04  # of each word by which the gap is longer in one text
_LEAST_WORDS = 8  # least words in a chain: shorter phrases occur in several places


@dataclass(frozen=True)
class _Runs:
    """Runs of equal words, by their first words and their lengths."""

    left: Ints
    right: Ints
    size: Ints

    @cached_property
    def left_end(self) -> Ints:
        """One past the last word of each run in the left text."""
        return self.left + self.size

    @cached_property
    def right_end(self) -> Ints:
        """One past the last word of each run in the right text."""
        return self.right + self.size


def find_anchors(
    left: Ints,
    right: Ints,
    *,
    ngram: int = _NGRAM,
    most_places: int = _MOST_PLACES,
    least: int = _LEAST_WORDS,
) -> Pairs:
    """Return the pairs of equal words in chains of rare n-grams.

    Each word is in one pair at most, and the pairs are in the order of the left words. A chain goes
    forward in both texts. The longest chains are taken first: a moved block is a chain of its own,
    and of a repeated passage the copy in the longer chain is paired.

    Args:
        left: the words of the transcript as codes from 0, equal for equal words; negative ones
            match nothing.
        right: the words of the hypothesis in the same codes.
        ngram: the number of words in an n-gram.
        most_places: largest product of its occurrences in both texts for which an n-gram is rare.
        least: least number of words in a chain.

    Examples:
        >>> words = np.arange(30)
        >>> left, right = find_anchors(words, np.concatenate((words[20:], words[:12])))
        >>> left.tolist() == [*range(12), *range(20, 30)], right[:2].tolist(), right[-1].item()
        (True, [10, 11], 9)
    """
    runs = _shared_runs(left, right, ngram, most_places)
    if not len(runs.size):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    chains = _best_chains(runs)
    pairs = _longest_chains(runs, chains, _FreeWords.all_of(left, right), least)
    left_words = np.concatenate([np.empty(0, np.int64), *(words for words, _ in pairs)])
    right_words = np.concatenate([np.empty(0, np.int64), *(words for _, words in pairs)])
    order = np.argsort(left_words)
    return left_words[order], right_words[order]


@dataclass(frozen=True)
class _Chains:
    """The best chain that ends in each run.

    Attributes:
        score: words that match, less the costs of gaps.
        before: the run before in the chain, -1 for none.
    """

    score: Scores
    before: Ints


@dataclass(frozen=True)
class _FreeWords:
    """Whether each word of both texts is in no chain yet; both methods change the arrays."""

    left: Flags
    right: Flags

    @classmethod
    def all_of(cls, left: Ints, right: Ints) -> "_FreeWords":
        """Return the words of two texts, all free."""
        return cls(np.ones(len(left), np.bool_), np.ones(len(right), np.bool_))

    def take(self, left: Ints, right: Ints) -> Pairs:
        """Take the pairs of words of which both are free; return them."""
        are_free = self.left[left] & self.right[right]
        self.left[left[are_free]] = False
        self.right[right[are_free]] = False
        return left[are_free], right[are_free]

    def release(self, pairs: Pairs) -> None:
        """Make the words of pairs free again."""
        left, right = pairs
        self.left[left] = True
        self.right[right] = True


def _longest_chains(runs: _Runs, chains: _Chains, words: _FreeWords, least: int) -> list[Pairs]:
    """Return the pairs of each run of the longest chains, each word in one pair at most.

    A chain whose free words are fewer than `least` leaves them to other chains.
    """
    all_pairs: list[Pairs] = []
    is_used = np.zeros(len(chains.score), np.bool_)
    for end in np.argsort(-chains.score, kind="stable").tolist():
        chain: list[Pairs] = []
        run = end
        while run >= 0 and not is_used[run]:
            is_used[run] = True
            steps = np.arange(runs.size[run])
            chain.append(words.take(runs.left[run] + steps, runs.right[run] + steps))
            run = chains.before[run]
        if sum(len(left) for left, _ in chain) >= least:
            all_pairs += chain
        else:
            for pairs in chain:
                words.release(pairs)
    return all_pairs


def _shared_runs(left: Ints, right: Ints, ngram: int, most_places: int) -> _Runs:
    """Return the runs of n-grams that both texts share.

    They are sorted by their first word in the left text.
    """
    num_codes = int(max(left.max(initial=0), right.max(initial=0))) + 1
    left_grams = _ngrams(left, ngram, num_codes)
    right_grams = _ngrams(right, ngram, num_codes)
    places = _places_of_rare(left_grams, right_grams, most_places)
    return _runs_of(places["place"].to_numpy(), places["place_right"].to_numpy(), ngram, len(left))


def _ngrams(codes: Ints, ngram: int, num_codes: int) -> pl.DataFrame:
    """Return the n-grams of a text, each as one number in `gram`, and the `place` of each."""
    windows = sliding_window_view(np.append(codes, [-1] * ngram), ngram)
    places = np.flatnonzero((windows >= 0).all(axis=1))
    grams = windows[places] @ num_codes ** np.arange(ngram)
    return pl.DataFrame({"gram": grams, "place": places})


def _places_of_rare(left: pl.DataFrame, right: pl.DataFrame, most_places: int) -> pl.DataFrame:
    """Return the pairs of places, `place` and `place_right`, of n-grams that are rare."""
    left_counts = left.group_by("gram").agg(pl.len().cast(pl.Int64))
    right_counts = right.group_by("gram").agg(pl.len().cast(pl.Int64))
    is_rare = pl.col("len") * pl.col("len_right") <= most_places
    rare = left_counts.join(right_counts, on="gram").filter(is_rare)
    return left.join(rare, on="gram").join(right, on="gram")


def _runs_of(left: Ints, right: Ints, ngram: int, left_words: int) -> _Runs:
    """Return the runs of n-grams that follow each other in both texts.

    `left` and `right` are the places of n-grams; the left text has `left_words` words.
    """
    offset = right - left
    by_offset = np.lexsort((left, offset))
    left = left[by_offset]
    right = right[by_offset]
    offset = offset[by_offset]
    # No n-gram is at place -2, and no offset is below -left_words: the first n-gram begins a run.
    is_step = np.diff(left, prepend=-2) == 1
    is_same_offset = np.diff(offset, prepend=-left_words - 2) == 0
    starts = np.flatnonzero(~(is_step & is_same_offset))
    lengths = np.diff(np.append(starts, len(left))) + ngram - 1
    by_left = np.lexsort((right[starts], left[starts]))
    return _Runs(left[starts][by_left], right[starts][by_left], lengths[by_left])


def _best_chains(runs: _Runs) -> _Chains:
    """Return the best chain that ends in each run."""
    score = runs.size.astype(np.float64)
    before = np.full(len(score), -1)
    first = np.searchsorted(runs.left, runs.left - _MOST_GAP - int(runs.size.max()))
    for run in range(1, len(score)):
        earlier = slice(max(first[run], run - _LOOK_BACK), run)
        scores_before = score[earlier] - _join_costs(runs, earlier, run)
        if len(scores_before) and scores_before.max() > 0:
            score[run] += scores_before.max()
            before[run] = earlier.start + int(scores_before.argmax())
    return _Chains(score, before)


def _join_costs(runs: _Runs, earlier: slice, run: int) -> Scores:
    """Return the cost, in words that match, of a chain in which `run` follows each earlier run.

    It is infinite if `run` does not go forward in both texts, or is too far away. Words in which
    the runs overlap count once.
    """
    left_gap = runs.left[run] - runs.left_end[earlier]
    right_gap = runs.right[run] - runs.right_end[earlier]
    overlap = np.maximum(0, np.maximum(-left_gap, -right_gap))
    left_gap = left_gap + overlap
    right_gap = right_gap + overlap
    can_follow = (
        (runs.left[earlier] < runs.left[run])
        & (runs.right[earlier] < runs.right[run])
        & (overlap < runs.size[run])
        & (left_gap <= _MOST_GAP)
        & (right_gap <= _MOST_GAP)
    )
    cost = (
        overlap
        + _GAP_COST * np.minimum(left_gap, right_gap)
        + _SHIFT_COST * np.abs(left_gap - right_gap)
    )
    return np.where(can_follow, cost, np.inf)
