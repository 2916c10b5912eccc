"""Cut paired words into segments.

Cuts are where the pairs are sure, at pauses, and at ends of sentences first.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nbaudio.text.anchors import Ints
from nbaudio.text.edit_distance import similarity
from nbaudio.text.word_pairs import WordPairs

Seconds = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_LEAST_CONFIDENCE = 0.8  # of the pairs at both edges of a segment
_MOST_ROOM = 0.5  # seconds between a word and the boundary of its segment
# The same where the pause may hold a word that was not recognized: what is left of it, in seconds.
_UNHEARD_ROOM = (0.03, 0.1)
_FASTEST, _USUAL = 0.04, 0.08  # seconds per character of such a word

_TOLERANCE = 1e-9  # seconds, of sums of decimals

# Costs of the segmentation, in words that are lost: of a segment, so little below zero that what a
# clear pause between sentences divides is in two; of an edge within a sentence, at an edge without
# a pause, next to a word that has no pair, and for a probability of 0 of its pair; of each word
# without a pair inside a segment.
_SEGMENT = -0.05
_IN_SENTENCE = 0.8
_NO_PAUSE = 0.4
_NEXT_UNPAIRED = 2.0
_UNSURE = 10.0
_UNPAIRED = 0.15
_PAUSE = 0.4  # seconds of a pause that costs nothing

# A segment may span so many words without a pair, one more for each digit (numbers are spoken in
# several words), or any number of words whose characters are as similar as this.
_SPAN_WORDS = 3
_SPAN_SIMILARITY = 0.2
_SHORTEST_CHARACTER = 0.01  # seconds: what has more characters than a segment can have is in none


class Typed(NamedTuple):
    """The words of a transcript, normalized.

    It also has whether each ends a sentence, and the turn of each, which segments do not leave.
    Words that nobody spoke are not among them; `left_out` has the letters of those before each.
    """

    words: Sequence[str]
    ends_sentence: Flags
    turn: Ints
    left_out: Ints | None = None


class Heard(NamedTuple):
    """The words of a hypothesis, normalized.

    It also has their times in seconds. The words are in the order of their starts.
    """

    words: Sequence[str]
    start: Seconds
    end: Seconds


class Segments(NamedTuple):
    """Segments in the order of the transcript; ranges are n x 2 and half open."""

    typed: Ints  # words of the transcript
    heard: Ints  # words of the hypothesis
    seconds: Seconds
    confidence: Seconds  # probability of the less sure of both edges
    room: Seconds  # n x 2: seconds of silence outside of the segment, before and after it


class _Edges(NamedTuple):
    """For each pair, the edge of a segment there.

    An edge has a cost, and the seconds of silence inside and outside of the segment.
    """

    cost: Seconds
    room: Seconds
    outside: Seconds


def cut_segments(  # noqa: PLR0914
    pairs: WordPairs, typed: Typed, heard: Heard, *, shortest: float, longest: float
) -> Segments:
    """Cut paired words into segments of `shortest` to `longest` seconds.

    What fits in no segment is left out.

    Dynamic programming finds the segmentation of the least cost. A boundary is in the middle of the
    silence between two words, at most half a second from its word, and never inside a word.

    Examples:
        >>> words, start = ["dobar", "dan", "evo", "blic"], np.array([0.5, 1, 3, 4.0])
        >>> pairs = WordPairs(np.arange(4), np.arange(4), np.ones(4, np.float32))
        >>> typed = Typed(words, np.array([False, True, False, True]), np.zeros(4, np.int64))
        >>> heard = Heard(words, start, start + 0.5)
        >>> cut_segments(pairs, typed, heard, shortest=1, longest=3).seconds.tolist()
        [[0.25, 2.0], [2.5, 4.5]]
    """
    if not len(pairs.left):
        none = np.empty((0, 2), np.int64)
        return Segments(none, none, none.astype(np.float64), np.empty(0), none.astype(np.float64))
    one = pairs.left
    other = pairs.right
    sure = pairs.probability.astype(np.float64)
    joint, unpaired = _joints(pairs, typed, heard, longest / _SHORTEST_CHARACTER)
    spoken_until = np.maximum.accumulate(heard.end)
    # Before each word; negative where words overlap
    silence = heard.start - np.concatenate(([0.0], spoken_until[:-1]))
    # The end of the recording is not known: its last segment ends with its last word.
    silences = (
        silence[other],
        np.where(heard.end < spoken_until, -1.0, np.append(silence[1:], 0.0))[other],
    )
    skipped = np.diff(one) != 1
    tidy = ~skipped & (np.diff(other) == 1)
    missing = _missing_letters(one, skipped, typed)
    breaks = np.concatenate(([True], typed.ends_sentence))
    first_edges = _edges(
        silences[0], missing[0], tidy=np.concatenate(([True], tidy)), sentence=breaks[one]
    )
    last_edges = _edges(
        silences[1], missing[1], tidy=np.append(tidy, True), sentence=breaks[one + 1]
    )
    unsure = np.where(sure < _LEAST_CONFIDENCE, np.inf, _UNSURE * (1 - sure))
    begin = heard.start[other] - first_edges.room
    end = heard.end[other] + last_edges.room
    first, last = _choose(
        (begin, end),
        (first_edges.cost + unsure, last_edges.cost + unsure),
        np.concatenate(([0.0], np.cumsum(unpaired * _UNPAIRED))),
        np.concatenate(([False], ~joint)),
        (shortest, longest),
    ).T
    return Segments(
        np.stack((one[first], one[last] + 1), axis=1),
        np.stack((other[first], other[last] + 1), axis=1),
        np.stack((begin[first], end[last]), axis=1),
        np.minimum(sure[first], sure[last]),
        np.stack((first_edges.outside[first], last_edges.outside[last]), axis=1),
    )


def _missing_letters(one: Ints, skipped: Flags, typed: Typed) -> tuple[Ints, Ints]:
    """Return the letters of the words without a pair before and after each pair.

    They are those of the word next to it, and of words that nobody spoke.
    """
    letters = np.array([0, *map(len, typed.words), 0])
    left_out = np.zeros(len(typed.words) + 1, np.int64)
    if typed.left_out is not None:
        left_out[:-1] = typed.left_out
    return (
        letters[one] * np.concatenate(([True], skipped)) + left_out[one],
        letters[one + 2] * np.append(skipped, True) + left_out[one + 1],
    )


def _joints(pairs: WordPairs, typed: Typed, heard: Heard, most: float) -> tuple[Flags, Ints]:
    """Return whether a segment may span each two consecutive pairs, and the gap between them.

    The gap is the number of words without a pair; 0 where no segment may span it. What is between
    the pairs has at most `most` characters, no word with a pair elsewhere, and no whole sentence
    that was not heard, such as the name of a speaker.
    """
    between = [(side[:-1] + 1, side[1:]) for side in (pairs.left, pairs.right)]
    rank = np.argsort(np.argsort(pairs.right))
    joint = (np.diff(rank) == 1) & (typed.turn[pairs.left[1:]] == typed.turn[pairs.left[:-1]])
    sizes = []
    for words, (first, last) in zip((typed.words, heard.words), between, strict=True):
        characters = np.cumsum([0, *map(len, words)])
        sizes.append(characters[last] - characters[first])
    ends = np.cumsum([0, *typed.ends_sentence])
    has_sentence = ends[pairs.left[1:]] - ends[pairs.left[:-1]] > 1
    joint &= (np.max(sizes, axis=0) <= most) & ~(has_sentence & (sizes[0] > 2 * sizes[1]))
    unpaired = np.max([last - first for first, last in between], axis=0)
    for place in np.flatnonzero(joint & (unpaired > _SPAN_WORDS)).tolist():
        text, asr_text = (
            " ".join(words[first[place] : last[place]])
            for words, (first, last) in zip((typed.words, heard.words), between, strict=True)
        )
        digits = sum(map(str.isdigit, text + asr_text))
        few = digits > 0 and unpaired[place] <= _SPAN_WORDS + digits
        joint[place] = few or bool(
            text and asr_text and similarity(text, asr_text) >= _SPAN_SIMILARITY
        )
    return joint, np.where(joint, unpaired, 0)


def _edges(silence: Seconds, missing: Ints, *, tidy: Flags, sentence: Flags) -> _Edges:
    """Return edges next to a silence.

    It may hold a word without a pair that has so many `missing` letters.
    """
    is_unheard = (missing > 0) & (silence >= missing * _FASTEST)
    most = np.where(is_unheard, np.clip(silence - missing * _USUAL, *_UNHEARD_ROOM), _MOST_ROOM)
    room = np.clip(np.minimum(silence / 2, most), 0, None)
    cost = (
        _IN_SENTENCE * ~sentence
        + _NO_PAUSE * (1 - np.clip(silence / _PAUSE, 0, 1))
        + _NEXT_UNPAIRED * ~tidy
    )
    return _Edges(np.where(silence < 0, np.inf, cost), room, np.clip(silence, 0, None) - room)


def _choose(  # noqa: PLR0914
    times: tuple[Seconds, Seconds],
    costs: tuple[Seconds, Seconds],
    inner: Seconds,
    breaks: Flags,
    lengths: tuple[float, float],
) -> Ints:
    """Return first and last pair (n x 2) of the segments of the least cost in all.

    A pair in no segment costs 1.

    `inner` is the cumulative cost of what segments span, and `breaks` are the pairs before which a
    segment must end.
    """
    (begin, end) = times
    (first_cost, last_cost) = costs
    (shortest, longest) = lengths
    count = len(begin)
    least = np.zeros(count + 1)  # cost of so many pairs
    first_of = np.full(count, -1)  # of the segment that ends in each pair
    opened = np.empty(count)
    low = 0
    for last in range(count):
        low = last if breaks[last] else low
        opened[last] = least[last] + first_cost[last] - inner[last]
        least[last + 1] = least[last] + 1
        if last_cost[last] == np.inf:
            continue
        starts = begin[low : last + 1]
        earliest = low + int(np.searchsorted(starts, end[last] - longest - _TOLERANCE))
        latest = low + int(np.searchsorted(starts, end[last] - shortest + _TOLERANCE, side="right"))
        if earliest < latest:
            first = earliest + int(opened[earliest:latest].argmin())
            cost = opened[first] + inner[last] + last_cost[last] + _SEGMENT
            if cost < least[last + 1]:
                least[last + 1], first_of[last] = cost, first
    chosen = []
    last = count - 1
    while last >= 0:
        if first_of[last] >= 0:
            chosen.append((first_of[last], last))
            last = first_of[last]
        last -= 1
    return np.array(chosen[::-1], np.int64).reshape(-1, 2)
