"""Pair the words of a long transcript with those of a hypothesis.

The probability of each pair is estimated, too.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist, cpdist

from nbaudio.text.anchors import Ints, Pairs, find_anchors

Floats = npt.NDArray[np.float32]

_LEAST_SIMILARITY = 0.5  # of the characters of two words that may be the same word
_MOST_CELLS = 40_000  # words of one text times those of the other that are aligned without anchors
_MOST_CHARACTERS = (
    100  # of a word that are compared with those of another: text without blanks is one long word
)
# Words that are repeated, and of the phrase: recognizers repeat what was said once
_LOOP, _LONGEST_LOOP = (
    15,
    30,
)
_NEAR = 60  # words at both ends of a larger gap that are aligned
_LEAST_PROBABILITY = 0.5  # of a pair that is kept

# Odds that two words are the same: equal words (divided by the frequency of the word), similar
# ones, others; and the odds of a gap in the alignment, of each word in it, and of words of both
# texts in it.
_EQUAL = 0.8
_CLOSE = 60.0
_SIMILAR = 4.0
_OTHER = 0.05
_CLOSE_SIMILARITY = 0.75
_PRIOR_WORDS = 1000  # that frequencies have in addition, as those of a short text say little
_GAP = 0.03
_GAP_WORD = 0.5
_BOTH_SIDES = 0.5
_JOINED = (
    0.02  # that two words of one text are one word of the other, over the frequency of that word
)
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
    codes = [
        np.array([numbers.setdefault(word, len(numbers) - 1) for word in side], np.int64)
        for side in (left, right)
    ]
    codes[1][_repeated(codes[1])] = -1
    left, right = ([word[:_MOST_CHARACTERS] for word in side] for side in (left, right))
    right = ["" if code < 0 else word for word, code in zip(right, codes[1].tolist(), strict=True)]
    shorter = min(int((side >= 0).sum()) for side in codes)
    anchors = find_anchors(codes[0], codes[1], least=max(3, min(8, shorter // 3)))
    if not len(anchors[0]):
        return WordPairs(*anchors, np.empty(0, np.float32))
    one, other = _fill_gaps((left, right), (codes[0], codes[1]), anchors)
    probability = _probabilities((left, right), (codes[0], codes[1]), (one, other))
    kept = probability >= _LEAST_PROBABILITY
    return WordPairs(one[kept], other[kept], probability[kept])


def _repeated(codes: Ints) -> npt.NDArray[np.bool_]:
    """Return whether each word repeats a phrase that was just said."""
    found = np.zeros(len(codes), np.bool_)
    for period in range(1, _LONGEST_LOOP + 1):
        same = codes[period:] == codes[:-period]
        runs = np.flatnonzero(np.diff(same, prepend=False, append=False)).reshape(-1, 2)
        for start, stop in runs[np.diff(runs)[:, 0] >= min(3 * period, _LOOP)]:
            found[start + period : stop + period] = True
    return found


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


def _fill_gaps(  # noqa: PLR0914
    words: tuple[Sequence[str], Sequence[str]],
    codes: Pairs,
    anchors: Pairs,
    *,
    is_inner: bool = False,
) -> Pairs:
    """Add pairs in the gaps of the left text between anchors.

    A gap is paired with what follows the anchor before it, and with what precedes the next one.
    """
    left, right = words
    one, other = anchors
    taken = np.sort(other)
    following = np.append(taken, len(right))[np.searchsorted(taken, other, side="right")]
    preceding = np.insert(taken, 0, -1)[np.searchsorted(taken, other)] + 1
    edges = np.concatenate(([-1], one, [len(left)]))
    found: list[tuple[int, int]] = []

    def align(start: int, stop: int, first: int, last: int) -> int:
        """Align two ranges of words; return the word of the left text after the last pair."""
        pairs = align_words(left[start:stop], right[first:last])
        found.extend((start + row, first + column) for row, column in pairs)
        return start + pairs[-1][0] + 1 if pairs else start

    for gap in np.flatnonzero(np.diff(edges) > 1).tolist():
        start = int(edges[gap]) + 1
        stop = int(edges[gap + 1])
        behind = (int(other[gap - 1]) + 1, int(following[gap - 1])) if gap else (0, 0)
        ahead = (int(preceding[gap]), int(other[gap])) if gap < len(one) else (0, 0)
        (first, last) = behind
        is_whole = behind == ahead
        if is_whole and (stop - start) * (last - first) <= _MOST_CELLS:
            align(start, stop, first, last)
            continue
        if is_whole and not is_inner:
            texts = (left[start:stop], right[first:last])
            inner = (codes[0][start:stop], codes[1][first:last])
            rows, columns = _fill_gaps(
                texts, inner, find_anchors(*inner, ngram=2, most_places=1, least=3), is_inner=True
            )
            found += zip((rows + start).tolist(), (columns + first).tolist(), strict=True)
            continue
        begin = align(start, min(stop, start + _NEAR), first, min(last, first + _NEAR))
        align(max(begin, stop - _NEAR), stop, max(ahead[0], ahead[1] - _NEAR), ahead[1])
    pairs = np.array(found, np.int64).reshape(-1, 2)
    for side in (0, 1):  # what follows one anchor may precede another
        pairs = pairs[np.unique(pairs[:, side], return_index=True)[1]]
    both = np.concatenate((np.stack(anchors, axis=1), pairs))
    one, other = both[np.argsort(both[:, 0], kind="stable")].T
    return one, other


def _probabilities(  # noqa: PLR0914
    words: tuple[Sequence[str], Sequence[str]], codes: Pairs, pairs: Pairs
) -> Floats:
    """Return the posterior probability of each pair."""
    together = np.concatenate(codes)
    counts = np.bincount(together[together >= 0])
    equal_odds = (_EQUAL * (counts.sum() + _PRIOR_WORDS) / (counts + 1)).astype(np.float32)
    outside = np.full(_CONTEXT, -1)
    padded = [np.concatenate((outside, side, outside)) for side in (*codes, *_joined(words, codes))]
    lexicon = np.empty(len(counts) + 1, dtype=object)
    for side, text in zip(codes, words, strict=True):
        lexicon[side] = text  # the empty word, -1, is last; it is compared with nothing
    steps = np.arange(_WIDTH)[:, None]
    found = np.empty(len(pairs[0]), np.float32)
    for start in range(0, len(found), _PAIRS_AT_ONCE):
        places = [place[start : start + _PAIRS_AT_ONCE] + steps for place in pairs]
        left, right, joined_left, joined_right = (
            side[places[number % 2]] for number, side in enumerate(padded)
        )
        odds = _odds(left, right, equal_odds, lexicon)
        joined = (
            _JOINED * _equal_odds(joined_left, right, equal_odds),
            _JOINED * _equal_odds(left, joined_right, equal_odds),
        )
        before = _path_weights(odds, *joined)
        # Backwards, two words are joined at the first of them.
        ends = slice(None, _CONTEXT, -1)
        rows = np.zeros_like(joined[0])
        columns = np.zeros_like(joined[1])
        rows[:-1], columns[:, :-1] = joined[0][1:], joined[1][:, 1:]
        backwards = (each[ends, ends].swapaxes(0, 1) for each in (odds, columns, rows))
        behind = _path_weights(*backwards)
        total = before[-1].sum(axis=0) + before[:-1, -1].sum(axis=0)
        through = before[_CONTEXT, _CONTEXT] * odds[_CONTEXT, _CONTEXT] * behind[-1, -1]
        found[start : start + _PAIRS_AT_ONCE] = through / total
    return found


def _joined(words: tuple[Sequence[str], Sequence[str]], codes: Pairs) -> Iterator[Ints]:
    """Yield for each text the codes of the other text's words that join two of its words.

    Each word has the code of the word that equals the one before it and itself, joined, or -1.
    """
    for text, other, numbers in ((*words, codes[1]), (*words[::-1], codes[0])):
        known = dict(zip(other, numbers.tolist(), strict=True))
        joined = [
            known.get(first + second, -1) if first and second else -1
            for first, second in pairwise(text)
        ]
        yield np.array([-1, *joined][: len(text)], np.int64)


def _equal_odds(left: Ints, right: Ints, equal_odds: Floats) -> Floats:
    """Return the odds (width x width x pairs) of equal words, 0 for others.

    Codes of words are width x pairs.
    """
    return np.stack(
        [np.where((word == right) & (word >= 0), equal_odds[word], 0) for word in left]
    ).astype(np.float32)


def _odds(left: Ints, right: Ints, equal_odds: Floats, lexicon: npt.NDArray[np.object_]) -> Floats:
    """Return the odds (width x width x pairs) that words around pairs are the same.

    Codes of words are width x pairs.
    """
    odds: Floats = np.maximum(
        _equal_odds(left, right, equal_odds),
        _OTHER * ((left >= 0)[:, None] & (right >= 0)).astype(np.float32),
    )
    for shift in (-1, 0, 1):
        rows = np.arange(max(0, -shift), _WIDTH - max(0, shift))
        one = left[rows]
        other = right[rows + shift]
        at, pair = np.nonzero((one != other) & (one >= 0) & (other >= 0))
        keys, inverse = np.unique(
            one[at, pair] * len(lexicon) + other[at, pair], return_inverse=True
        )
        texts = [lexicon[code].tolist() for code in np.divmod(keys, len(lexicon))]
        alike = cpdist(
            *texts,
            scorer=Levenshtein.normalized_similarity,
            score_cutoff=_LEAST_SIMILARITY,
            dtype=np.float32,
        )
        value = np.select(
            [alike >= _CLOSE_SIMILARITY, alike >= _LEAST_SIMILARITY], [_CLOSE, _SIMILAR], _OTHER
        )
        odds[rows[at], rows[at] + shift, pair] = value[inverse]
    return odds


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
