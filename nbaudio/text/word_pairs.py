"""Pair the words of a long transcript with those of a hypothesis.

The probability of each pair is estimated, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist, cpdist

from nbaudio.text.anchors import Ints, Pairs, find_anchors

Floats = npt.NDArray[np.float32]

_LEAST_SIMILARITY = 0.5  # two words may be the same word from this share of equal characters on
# Words of one text times those of the other, up to which they are aligned without anchors.
_MOST_CELLS = 40_000
# First characters of a word that are compared: a text without blanks is one long word.
_MOST_CHARACTERS = 100
_LOOP = 15  # words: a phrase repeated at once for so long was said only once
_LONGEST_LOOP = 30  # words of the longest phrase whose repetition is looked for
_NEAR = 60  # words at each end of a large gap that are aligned
_LEAST_PROBABILITY = 0.5  # pairs below this probability are dropped

# Odds that two words are the same.
_EQUAL = 0.8  # of equal words, to be divided by the frequency of the word
_CLOSE = 60.0  # of words with a similarity of at least `_CLOSE_SIMILARITY`
_SIMILAR = 4.0  # of words with a similarity of at least `_LEAST_SIMILARITY`
_OTHER = 0.05  # of other words
_CLOSE_SIMILARITY = 0.75
# Words that are added to those of a text, as frequencies in a short text are unreliable.
_PRIOR_WORDS = 1000
# Odds of the parts of an alignment.
_GAP = 0.03  # that a gap begins
_GAP_WORD = 0.5  # that a word is in a gap
_BOTH_SIDES = 0.5  # that a gap has words of both texts
# That two words of one text are one word of the other, to be divided by the frequency of that word.
_JOINED = 0.02
_CONTEXT = 5  # words on both sides of a pair
_WIDTH = 2 * _CONTEXT + 1
_PAIRS_AT_ONCE = 8192


class WordPairs(NamedTuple):
    """Pairs of words of a transcript and of a hypothesis, with their probabilities.

    The words are given by their numbers, in the order of the transcript.
    """

    left: Ints
    right: Ints
    probability: Floats


def pair_words(left: Sequence[str], right: Sequence[str]) -> WordPairs:
    """Pair normalized words of a transcript and of a hypothesis, each with one word at most.

    Empty words have no pair. What the hypothesis repeats at once, three times or for 15 words, has
    no pairs. Anchors are chains of rare n-grams (see `anchors`). Between anchors, words are aligned
    by `align_words`. The probability of a pair is its posterior probability in a pair HMM (Durbin
    et al., Biological Sequence Analysis, 1998, chapter 4) of the five words on both sides, whose
    states are a pair and a gap in either text. Pairs with less than 0.5 are left out.

    Examples:
        >>> left = "poštovane kolegice i kolege otvaram sjednicu hrvatskoga sabora".split()
        >>> pair_words(left, ["evo", *left[:5], "sjednica", *left[6:]]).right.tolist()
        [1, 2, 3, 4, 5, 6, 7, 8]
    """
    numbers: dict[str, int] = {"": -1}
    left_codes = _codes(left, numbers)
    right_codes = _codes(right, numbers)
    right_codes[_repeated(right_codes)] = -1
    transcript = _Text([word[:_MOST_CHARACTERS] for word in left], left_codes)
    hypothesis_words = [word[:_MOST_CHARACTERS] for word in right]
    for place in np.flatnonzero(right_codes < 0):  # which have no pair
        hypothesis_words[place] = ""
    hypothesis = _Text(hypothesis_words, right_codes)
    shorter = min(int((left_codes >= 0).sum()), int((right_codes >= 0).sum()))
    anchors = find_anchors(left_codes, right_codes, least=max(3, min(8, shorter // 3)))
    if not len(anchors[0]):
        return WordPairs(*anchors, np.empty(0, np.float32))
    pairs = _fill_gaps(transcript, hypothesis, anchors)
    probability = _probabilities(transcript, hypothesis, pairs)
    is_probable = probability >= _LEAST_PROBABILITY
    return WordPairs(pairs[0][is_probable], pairs[1][is_probable], probability[is_probable])


@dataclass(frozen=True)
class _Text:
    """The words of a text, and their codes: the same code for the same word, -1 for an empty one.

    A word that has no pair, such as one that is repeated, is empty.
    """

    words: Sequence[str]
    codes: Ints

    def part(self, start: int, stop: int) -> "_Text":
        """Return the words in a half-open range."""
        return _Text(self.words[start:stop], self.codes[start:stop])


def _codes(words: Sequence[str], numbers: dict[str, int]) -> Ints:
    """Return the codes of words, and add those of new words to `numbers`."""
    return np.array([numbers.setdefault(word, len(numbers) - 1) for word in words], np.int64)


def _repeated(codes: Ints) -> npt.NDArray[np.bool_]:
    """Return whether each word repeats a phrase that was just said."""
    is_repeated = np.zeros(len(codes), np.bool_)
    for period in range(1, _LONGEST_LOOP + 1):
        is_same = codes[period:] == codes[:-period]
        runs = np.flatnonzero(np.diff(is_same, prepend=False, append=False)).reshape(-1, 2)
        lengths = runs[:, 1] - runs[:, 0]
        for start, stop in runs[lengths >= min(3 * period, _LOOP)]:
            is_repeated[start + period : stop + period] = True
    return is_repeated


def align_words(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Align the words of two short texts with the least Levenshtein distance.

    Return the paired words.

    A pair costs twice the share of characters that differ (at most half of them), a word without a
    pair costs 1. Memory and time grow with the product of the numbers of words.

    Examples:
        >>> align_words(["na", "ulicu", "evo"], ["u", "licu", "evo"])
        [(1, 1), (2, 2)]
    """
    if not left or not right:
        return []
    same = cdist(
        left,
        right,
        scorer=Levenshtein.normalized_similarity,
        score_cutoff=_LEAST_SIMILARITY,
        dtype=np.float32,
    )
    # What pairs save, at most, in the first words of both texts, as a share of the cost of two
    # words without a pair.
    saved = np.zeros((len(left) + 1, len(right) + 1), np.float32)
    for row in range(len(left)):
        np.maximum.accumulate(
            np.maximum(saved[row, 1:], saved[row, :-1] + same[row]), out=saved[row + 1, 1:]
        )
    pairs = []
    row = len(left)
    column = len(right)
    while row and column:
        if saved[row, column] == saved[row - 1, column]:
            row -= 1
        elif saved[row, column] == saved[row, column - 1]:
            column -= 1
        else:
            row = row - 1
            column = column - 1
            pairs.append((row, column))
    return pairs[::-1]


@dataclass(frozen=True)
class _Gap:
    """Words of the left text between two anchors, and the words of the right text they may be.

    All ranges are half open.

    Attributes:
        left: the words of the left text.
        behind: words of the right text that follow the anchor before the gap, up to any anchor.
        ahead: words of the right text that precede the anchor after the gap, back to any anchor.
    """

    left: tuple[int, int]
    behind: tuple[int, int]
    ahead: tuple[int, int]


def _fill_gaps(left: _Text, right: _Text, anchors: Pairs, *, is_inner: bool = False) -> Pairs:
    """Add pairs in the gaps of the left text between anchors.

    A gap is paired with what follows the anchor before it, and with what precedes the next one.
    A large gap has anchors of its own, unless it is one of those (`is_inner`).
    """
    added: list[tuple[int, int]] = []
    for gap in _gaps(left, right, anchors):
        if gap.behind != gap.ahead:
            added += _pairs_at_edges(left, right, gap)
        elif _is_small(gap):
            added += _aligned(left, right, gap.left, gap.behind)
        elif is_inner:
            added += _pairs_at_edges(left, right, gap)
        else:
            added += _pairs_by_inner_anchors(left, right, gap)
    pairs = np.array(added, np.int64).reshape(-1, 2)
    for side in (0, 1):  # what follows one anchor may precede another
        pairs = pairs[np.unique(pairs[:, side], return_index=True)[1]]
    all_pairs = np.concatenate((np.stack(anchors, axis=1), pairs))
    order = np.argsort(all_pairs[:, 0], kind="stable")
    return all_pairs[order, 0], all_pairs[order, 1]


def _gaps(left: _Text, right: _Text, anchors: Pairs) -> list[_Gap]:
    """Return the gaps of the left text before, between and behind anchors."""
    left_anchors, right_anchors = anchors
    in_order = np.sort(right_anchors)
    next_place = np.searchsorted(in_order, right_anchors, side="right")
    next_anchor = np.append(in_order, len(right.words))[next_place]
    previous_anchor = np.insert(in_order, 0, -1)[np.searchsorted(in_order, right_anchors)]
    edges = np.concatenate(([-1], left_anchors, [len(left.words)]))
    gaps = []
    for place in np.flatnonzero(np.diff(edges) > 1).tolist():
        behind = (0, 0)
        if place > 0:
            behind = (int(right_anchors[place - 1]) + 1, int(next_anchor[place - 1]))
        ahead = (0, 0)
        if place < len(left_anchors):
            ahead = (int(previous_anchor[place]) + 1, int(right_anchors[place]))
        gaps.append(_Gap((int(edges[place]) + 1, int(edges[place + 1])), behind, ahead))
    return gaps


def _is_small(gap: _Gap) -> bool:
    """Return whether all words of a gap are aligned at once."""
    left_words = gap.left[1] - gap.left[0]
    right_words = gap.behind[1] - gap.behind[0]
    return left_words * right_words <= _MOST_CELLS


def _aligned(
    left: _Text, right: _Text, left_range: tuple[int, int], right_range: tuple[int, int]
) -> list[tuple[int, int]]:
    """Align the words of two ranges; return the pairs."""
    pairs = align_words(left.words[slice(*left_range)], right.words[slice(*right_range)])
    return [(left_range[0] + row, right_range[0] + column) for row, column in pairs]


def _pairs_at_edges(left: _Text, right: _Text, gap: _Gap) -> list[tuple[int, int]]:
    """Align the words near the anchors at both ends of a gap; return the pairs."""
    start, stop = gap.left
    first, last = gap.behind
    pairs_behind = _aligned(
        left, right, (start, min(stop, start + _NEAR)), (first, min(last, first + _NEAR))
    )
    unpaired = pairs_behind[-1][0] + 1 if pairs_behind else start
    first, last = gap.ahead
    pairs_ahead = _aligned(
        left, right, (max(unpaired, stop - _NEAR), stop), (max(first, last - _NEAR), last)
    )
    return pairs_behind + pairs_ahead


def _pairs_by_inner_anchors(left: _Text, right: _Text, gap: _Gap) -> list[tuple[int, int]]:
    """Return pairs of a large gap, found by anchors that are rare within the gap."""
    left_part = left.part(*gap.left)
    right_part = right.part(*gap.behind)
    anchors = find_anchors(left_part.codes, right_part.codes, ngram=2, most_places=1, least=3)
    rows, columns = _fill_gaps(left_part, right_part, anchors, is_inner=True)
    rows = rows + gap.left[0]
    columns = columns + gap.behind[0]
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


@dataclass(frozen=True)
class _OddsModel:
    """What says how likely two words are the same.

    Attributes:
        equal_odds: by code, the odds that two equal words are the same word.
        lexicon: words by code. The empty word, -1, is last; it is compared with nothing.
    """

    equal_odds: Floats
    lexicon: npt.NDArray[np.object_]


@dataclass(frozen=True)
class _Surroundings:
    """The words around pairs: arrays of codes, shape (width, pairs).

    Attributes:
        left, right: the words of both texts.
        joined_left: for each left word, the right word that it is with the word before it.
        joined_right: for each right word, the left word that it is with the word before it.
    """

    left: Ints
    right: Ints
    joined_left: Ints
    joined_right: Ints


def _probabilities(left: _Text, right: _Text, pairs: Pairs) -> Floats:
    """Return the posterior probability of each pair."""
    model = _odds_model(left, right)
    left_codes = _padded(left.codes)
    right_codes = _padded(right.codes)
    joined_left = _padded(_joined(left, right))
    joined_right = _padded(_joined(right, left))
    steps = np.arange(_WIDTH)[:, None]
    probability = np.empty(len(pairs[0]), np.float32)
    for start in range(0, len(probability), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        left_places = pairs[0][part] + steps
        right_places = pairs[1][part] + steps
        surroundings = _Surroundings(
            left_codes[left_places],
            right_codes[right_places],
            joined_left[left_places],
            joined_right[right_places],
        )
        probability[part] = _posterior(surroundings, model)
    return probability


def _odds_model(left: _Text, right: _Text) -> _OddsModel:
    """Return the odds of words by their frequency in both texts."""
    codes = np.concatenate((left.codes, right.codes))
    counts = np.bincount(codes[codes >= 0])
    equal_odds = (_EQUAL * (counts.sum() + _PRIOR_WORDS) / (counts + 1)).astype(np.float32)
    lexicon = np.empty(len(counts) + 1, dtype=object)
    lexicon[left.codes] = left.words
    lexicon[right.codes] = right.words
    return _OddsModel(equal_odds, lexicon)


def _padded(codes: Ints) -> Ints:
    """Return codes with empty words on both sides, for the surroundings of the first and last."""
    outside = np.full(_CONTEXT, -1)
    return np.concatenate((outside, codes, outside))


def _posterior(words: _Surroundings, model: _OddsModel) -> npt.NDArray[np.float64]:
    """Return the probabilities of pairs: the share of the paths through each, of all paths."""
    odds = _odds(words.left, words.right, model)
    joined_rows = _JOINED * _equal_odds(words.joined_left, words.right, model)
    joined_columns = _JOINED * _equal_odds(words.left, words.joined_right, model)
    weights_before = _path_weights(odds, joined_rows, joined_columns)
    # Backwards, two words are joined at the first of them.
    next_rows = np.zeros_like(joined_rows)
    next_rows[:-1] = joined_rows[1:]
    next_columns = np.zeros_like(joined_columns)
    next_columns[:, :-1] = joined_columns[:, 1:]
    weights_behind = _path_weights(
        _backwards(odds), _backwards(next_columns), _backwards(next_rows)
    )
    all_paths = weights_before[-1].sum(axis=0) + weights_before[:-1, -1].sum(axis=0)
    pair_odds = odds[_CONTEXT, _CONTEXT]
    through_pair = weights_before[_CONTEXT, _CONTEXT] * pair_odds * weights_behind[-1, -1]
    posterior: npt.NDArray[np.float64] = through_pair / all_paths
    return posterior


def _backwards(odds: Floats) -> Floats:
    """Return the odds of the words behind pairs from the last word on, columns as rows."""
    behind = slice(None, _CONTEXT, -1)
    return odds[behind, behind].swapaxes(0, 1)


def _joined(text: _Text, other: _Text) -> Ints:
    """Return for each word the code of the other text's word that joins the one before and itself.

    The code is -1 where there is none.
    """
    code_of_word = dict(zip(other.words, other.codes.tolist(), strict=True))
    joined = [
        code_of_word.get(first + second, -1) if first and second else -1
        for first, second in pairwise(text.words)
    ]
    return np.array([-1, *joined][: len(text.words)], np.int64)


def _equal_odds(left: Ints, right: Ints, model: _OddsModel) -> Floats:
    """Return the odds (width x width x pairs) of equal words, 0 for others.

    Codes of words are width x pairs.
    """
    odds_of_rows = [
        np.where((word == right) & (word >= 0), model.equal_odds[word], 0) for word in left
    ]
    return np.stack(odds_of_rows).astype(np.float32)


def _odds(left: Ints, right: Ints, model: _OddsModel) -> Floats:
    """Return the odds (width x width x pairs) that words around pairs are the same.

    Codes of words are width x pairs. Different words are compared where they are at most one word
    apart.
    """
    are_words = (left >= 0)[:, None] & (right >= 0)
    odds: Floats = np.maximum(
        _equal_odds(left, right, model), _OTHER * are_words.astype(np.float32)
    )
    for shift in (-1, 0, 1):
        rows = np.arange(max(0, -shift), _WIDTH - max(0, shift))
        left_words = left[rows]
        right_words = right[rows + shift]
        is_different = (left_words != right_words) & (left_words >= 0) & (right_words >= 0)
        place, pair = np.nonzero(is_different)
        odds[rows[place], rows[place] + shift, pair] = _odds_of_different(
            left_words[place, pair], right_words[place, pair], model.lexicon
        )
    return odds


def _odds_of_different(
    left: Ints, right: Ints, lexicon: npt.NDArray[np.object_]
) -> npt.NDArray[np.float64]:
    """Return the odds of pairs of different words, given by codes, that they are the same."""
    keys, inverse = np.unique(left * len(lexicon) + right, return_inverse=True)
    left_codes, right_codes = np.divmod(keys, len(lexicon))
    similarity = cpdist(
        lexicon[left_codes].tolist(),
        lexicon[right_codes].tolist(),
        scorer=Levenshtein.normalized_similarity,
        score_cutoff=_LEAST_SIMILARITY,
        dtype=np.float32,
    )
    odds = np.select(
        [similarity >= _CLOSE_SIMILARITY, similarity >= _LEAST_SIMILARITY],
        [_CLOSE, _SIMILAR],
        _OTHER,
    )
    return odds[inverse]


def _path_weights(
    odds: Floats, joined_rows: Floats, joined_columns: Floats
) -> npt.NDArray[np.float64]:
    """Return the weights of all paths to the nodes of a lattice of words by words.

    Paths start at any node of the first border.

    A row with the one before it, or a column, may be joined. In a gap, words of the left text come
    before those of the right one, so that each alignment is one path.
    """
    height, width, count = odds.shape
    total = np.empty((height + 1, width + 1, count))
    pair = np.ones((width + 1, count))
    down = np.zeros((width + 1, count))
    for row in range(height + 1):
        if row:
            down = _GAP_WORD * (down + _GAP * pair)
            pair = np.ones((width + 1, count))
            pair[1:] = odds[row - 1] * total[row - 1, :-1]
            pair[2:] += joined_columns[row - 1, 1:] * total[row - 1, :-2]
            if row > 1:
                pair[1:] += joined_rows[row - 1] * total[row - 2, :-1]
        across = np.zeros(count)
        total[row, 0] = pair[0] + down[0]
        for column in range(1, width + 1):
            across = _GAP_WORD * (across + _GAP * pair[column - 1] + _BOTH_SIDES * down[column - 1])
            total[row, column] = pair[column] + down[column] + across
    return total
