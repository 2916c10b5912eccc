"""Cut paired words into segments.

Cuts are where the pairs are sure, at pauses, and at ends of sentences first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from nbaudio.text.anchors import Ints
from nbaudio.text.edit_distance import similarity
from nbaudio.text.word_pairs import WordPairs

Seconds = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_Number = TypeVar("_Number", np.int64, np.float64)

_LEAST_CONFIDENCE = 0.8  # least probability of the pairs at both edges of a segment
_MOST_ROOM = 0.5  # most seconds between a word and the boundary of its segment
# Least and most seconds of the same where the silence may hold a word that was not recognized.
_UNHEARD_ROOM = (0.03, 0.1)
# Seconds per character of such a word: fewest possible, and usual ones.
_FASTEST, _USUAL = 0.04, 0.08

_TOLERANCE = 1e-9  # seconds by which sums of decimals may be off

# Costs of the segmentation. The unit is the cost of a pair that is in no segment.
# Of a segment: a little below zero, so that a clear pause between sentences makes two segments.
_SEGMENT = -0.05
_IN_SENTENCE = 0.8  # of an edge within a sentence
_NO_PAUSE = 0.4  # of an edge without a pause
_NEXT_UNPAIRED = 2.0  # of an edge next to a word without a pair
_UNSURE = 10.0  # of an edge, times the probability that its pair is wrong
_UNPAIRED = 0.15  # of each word without a pair inside a segment
_PAUSE = 0.4  # seconds of a pause that costs nothing

# A segment may span this many words without a pair, and one more for each digit, since numbers are
# spoken in several words.
_SPAN_WORDS = 3
# It may span any number of them if typed and heard ones are this similar.
_SPAN_SIMILARITY = 0.2
_SHORTEST_CHARACTER = 0.01  # seconds per character, which limit the characters of a segment


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


@dataclass(frozen=True)
class _Edges:
    """For each pair, the edge of a segment there.

    Attributes:
        cost: of an edge, in words that are lost; infinite where a segment cannot have one.
        room: seconds of silence inside the segment.
        outside: seconds of silence outside the segment.
    """

    cost: Seconds
    room: Seconds
    outside: Seconds


@dataclass(frozen=True)
class _Candidates:
    """Segments that begin and end at any pair.

    Attributes:
        begin: seconds at which a segment begins whose first pair is this one.
        end: seconds at which a segment ends whose last pair is this one.
        first_cost: of the edge before each pair.
        last_cost: of the edge after each pair.
        inner_cost: of the words without a pair between the first pair and each pair.
        is_break: whether a segment must end before each pair.
    """

    begin: Seconds
    end: Seconds
    first_cost: Seconds
    last_cost: Seconds
    inner_cost: Seconds
    is_break: Flags


@dataclass(frozen=True)
class _Gaps:
    """What is between each two consecutive pairs; each array is one shorter than the pairs.

    Attributes:
        can_be_spanned: whether a segment may have both pairs.
        unpaired: words without a pair between them, of the side that has more; 0 where no segment
            may span the gap.
    """

    can_be_spanned: Flags
    unpaired: Ints


def cut_segments(
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
        no_ranges = np.empty((0, 2), np.int64)
        no_seconds = np.empty((0, 2), np.float64)
        return Segments(no_ranges, no_ranges, no_seconds, np.empty(0), no_seconds)
    gaps = _gaps(pairs, typed, heard, longest / _SHORTEST_CHARACTER)
    first_edges = _first_edges(pairs, typed, heard)
    last_edges = _last_edges(pairs, typed, heard)
    probability = pairs.probability.astype(np.float64)
    unsure_cost = _unsure_cost(probability)
    candidates = _Candidates(
        begin=heard.start[pairs.right] - first_edges.room,
        end=heard.end[pairs.right] + last_edges.room,
        first_cost=first_edges.cost + unsure_cost,
        last_cost=last_edges.cost + unsure_cost,
        inner_cost=np.concatenate(([0.0], np.cumsum(gaps.unpaired * _UNPAIRED))),
        is_break=np.concatenate(([False], ~gaps.can_be_spanned)),
    )
    first, last = _choose(candidates, shortest, longest).T
    return Segments(
        _ranges(pairs.left[first], pairs.left[last] + 1),
        _ranges(pairs.right[first], pairs.right[last] + 1),
        _ranges(candidates.begin[first], candidates.end[last]),
        np.minimum(probability[first], probability[last]),
        _ranges(first_edges.outside[first], last_edges.outside[last]),
    )


def _unsure_cost(probability: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the cost of an edge by the probability of its pair; infinite where it is too low."""
    return np.where(probability < _LEAST_CONFIDENCE, np.inf, _UNSURE * (1 - probability))


def _ranges(first: npt.NDArray[_Number], last: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return two values of each segment as the columns of an array (n x 2)."""
    return np.stack((first, last), axis=1)


def _first_edges(pairs: WordPairs, typed: Typed, heard: Heard) -> _Edges:
    """Return the edges before the pairs."""
    spoken_until = np.maximum.accumulate(heard.end)
    # Negative where words overlap
    silence = heard.start - np.concatenate(([0.0], spoken_until[:-1]))
    is_sentence_start = np.concatenate(([True], typed.ends_sentence))
    has_typed_gap = np.concatenate(([True], np.diff(pairs.left) != 1))
    has_heard_gap = np.concatenate(([False], np.diff(pairs.right) != 1))
    # The first pair has no pair before it: its edge is as sure as that of a pair without a gap.
    is_next_to_unpaired = (has_typed_gap | has_heard_gap) & (np.arange(len(pairs.left)) > 0)
    letters = np.array([0, *map(len, typed.words)])
    return _edges(
        silence[pairs.right],
        letters[pairs.left] * has_typed_gap + _letters_left_out(typed)[pairs.left],
        is_next_to_unpaired=is_next_to_unpaired,
        is_sentence_edge=is_sentence_start[pairs.left],
    )


def _last_edges(pairs: WordPairs, typed: Typed, heard: Heard) -> _Edges:
    """Return the edges after the pairs."""
    spoken_until = np.maximum.accumulate(heard.end)
    # The end of the recording is not known: its last segment ends with its last word.
    following = np.append(heard.start[1:], spoken_until[-1])
    silence = np.where(heard.end < spoken_until, -1.0, following - spoken_until)
    has_typed_gap = np.append(np.diff(pairs.left) != 1, True)
    has_heard_gap = np.append(np.diff(pairs.right) != 1, False)
    is_last = np.arange(len(pairs.left)) == len(pairs.left) - 1
    letters = np.array([*map(len, typed.words), 0])
    return _edges(
        silence[pairs.right],
        letters[pairs.left + 1] * has_typed_gap + _letters_left_out(typed)[pairs.left + 1],
        is_next_to_unpaired=(has_typed_gap | has_heard_gap) & ~is_last,
        is_sentence_edge=typed.ends_sentence[pairs.left],
    )


def _letters_left_out(typed: Typed) -> Ints:
    """Return the letters of words that nobody spoke before each word, and behind the last one."""
    letters = np.zeros(len(typed.words) + 1, np.int64)
    if typed.left_out is not None:
        letters[:-1] = typed.left_out
    return letters


def _gaps(pairs: WordPairs, typed: Typed, heard: Heard, most_characters: float) -> _Gaps:
    """Return what is between the pairs.

    What a segment spans has at most `most_characters`, no word with a pair elsewhere, no change of
    the turn, and no whole sentence that was not heard, such as the name of a speaker.
    """
    heard_rank = np.argsort(np.argsort(pairs.right))
    is_next_heard = np.diff(heard_rank) == 1
    turn = typed.turn[pairs.left]
    is_same_turn = turn[1:] == turn[:-1]
    typed_characters = _characters_between(typed.words, pairs.left)
    heard_characters = _characters_between(heard.words, pairs.right)
    is_short = np.maximum(typed_characters, heard_characters) <= most_characters
    sentences = np.cumsum([0, *typed.ends_sentence])
    has_sentence = np.diff(sentences[pairs.left]) > 1
    is_unheard_sentence = has_sentence & (typed_characters > 2 * heard_characters)
    can_be_spanned = is_next_heard & is_same_turn & is_short & ~is_unheard_sentence
    unpaired = np.maximum(np.diff(pairs.left), np.diff(pairs.right)) - 1
    for gap in np.flatnonzero(can_be_spanned & (unpaired > _SPAN_WORDS)).tolist():
        text = " ".join(typed.words[pairs.left[gap] + 1 : pairs.left[gap + 1]])
        asr_text = " ".join(heard.words[pairs.right[gap] + 1 : pairs.right[gap + 1]])
        can_be_spanned[gap] = _is_same_speech(text, asr_text, int(unpaired[gap]))
    return _Gaps(can_be_spanned, np.where(can_be_spanned, unpaired, 0))


def _characters_between(words: Sequence[str], numbers: Ints) -> Ints:
    """Return the characters of the words between each two consecutive ones of `numbers`."""
    characters: Ints = np.cumsum([0, *map(len, words)])
    return characters[numbers[1:]] - characters[numbers[:-1] + 1]


def _is_same_speech(text: str, asr_text: str, unpaired: int) -> bool:
    """Return whether two texts may be the same although so many of their words have no pair."""
    digits = sum(map(str.isdigit, text + asr_text))
    if digits and unpaired <= _SPAN_WORDS + digits:
        return True
    if not text or not asr_text:
        return False
    return similarity(text, asr_text) >= _SPAN_SIMILARITY


def _edges(
    silence: Seconds, missing_letters: Ints, *, is_next_to_unpaired: Flags, is_sentence_edge: Flags
) -> _Edges:
    """Return edges next to silences, in seconds.

    A silence may hold a word without a pair that has so many letters.
    """
    is_unheard = (missing_letters > 0) & (silence >= missing_letters * _FASTEST)
    unheard_room = np.clip(silence - missing_letters * _USUAL, *_UNHEARD_ROOM)
    most_room = np.where(is_unheard, unheard_room, _MOST_ROOM)
    room = np.clip(np.minimum(silence / 2, most_room), 0, None)
    cost = (
        _IN_SENTENCE * ~is_sentence_edge
        + _NO_PAUSE * (1 - np.clip(silence / _PAUSE, 0, 1))
        + _NEXT_UNPAIRED * is_next_to_unpaired
    )
    is_inside_word = silence < 0
    return _Edges(np.where(is_inside_word, np.inf, cost), room, np.clip(silence, 0, None) - room)


def _choose(candidates: _Candidates, shortest: float, longest: float) -> Ints:
    """Return first and last pair (n x 2) of the segments of the least cost in all.

    A pair in no segment costs 1.
    """
    count = len(candidates.begin)
    least_cost = np.zeros(count + 1)  # of so many pairs
    first_of = np.full(count, -1)  # of the segment that ends in each pair
    open_cost = np.empty(count)  # of what is before a segment that begins in each pair
    earliest_first = 0
    for last in range(count):
        if candidates.is_break[last]:
            earliest_first = last
        open_cost[last] = (
            least_cost[last] + candidates.first_cost[last] - candidates.inner_cost[last]
        )
        least_cost[last + 1] = least_cost[last] + 1
        if candidates.last_cost[last] == np.inf:
            continue
        firsts = _firsts_in_time(candidates, earliest_first, last, shortest, longest)
        if not len(firsts):
            continue
        first = firsts.start + int(open_cost[firsts.start : firsts.stop].argmin())
        cost = (
            open_cost[first] + candidates.inner_cost[last] + candidates.last_cost[last] + _SEGMENT
        )
        if cost < least_cost[last + 1]:
            least_cost[last + 1] = cost
            first_of[last] = first
    return _segments_backward(first_of)


def _firsts_in_time(
    candidates: _Candidates, earliest_first: int, last: int, shortest: float, longest: float
) -> range:
    """Return the pairs from `earliest_first` on whose segment to `last` has a fitting length."""
    begins = candidates.begin[earliest_first : last + 1]
    end = candidates.end[last]
    start = np.searchsorted(begins, end - longest - _TOLERANCE)
    stop = np.searchsorted(begins, end - shortest + _TOLERANCE, side="right")
    return range(earliest_first + int(start), earliest_first + int(stop))


def _segments_backward(first_of: Ints) -> Ints:
    """Return first and last pair (n x 2) of segments, found from the last pair to the first one.

    `first_of` has the first pair of the segment that ends in each pair, -1 where none ends.
    """
    segments = []
    last = len(first_of) - 1
    while last >= 0:
        first = first_of[last]
        if first >= 0:
            segments.append((first, last))
            last = first
        last -= 1
    return np.array(segments[::-1], np.int64).reshape(-1, 2)
