"""Find the words of a transcript that nobody spoke between words that were heard.

A word that the recognizer missed took time, which is between its neighbors. Citations, numbers of
verses and pages, running heads, names of speakers and remarks did not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nbaudio.text.asides import Asides
from nbaudio.text.edit_distance import similarity
from nbaudio.text.segmentation import Heard
from nbaudio.text.word_pairs import WordPairs

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Seconds = npt.NDArray[np.float64]

_LETTERS_A_DIGIT = 3  # letters of a spoken digit: "five" for 5, "two thousand nineteen" for 2019
_RATE_PAIRS = 20  # pairs on each side of a gap whose words give the local speaking rate
_LONGEST_WORD = 1.5  # seconds; a word that lasts longer has silence in it
_USUAL_SHARE = 0.8  # least time of a paired word, as a share of its time at the local speaking rate
# Least time of spoken words in a gap, as a share of their time at the local speaking rate.
_LEAST_SHARE = 0.5
_NUMBER_SHARE = 0.6  # the same for numbers where other words were heard in the gap
_SHORT_LETTERS = 3  # a gap with at most so many letters may always have been spoken
# A remark this similar to the words that were heard in its place was spoken.
_LEAST_SIMILARITY = 0.2
_MOST_PAIRED = 1 / 3  # an aside with a greater share of paired words was spoken
# A running head is missing in this many gaps, and has this many words and letters with its numbers.
_HEAD_TIMES = 3
_HEAD_WORDS, _HEAD_LETTERS = 2, 6


@dataclass(frozen=True)
class Spoken:
    """What is known of the words of a transcript.

    Attributes:
        pairs: the pairs, without those of single words of an aside that was not spoken.
        is_unspoken: for each word, whether nobody spoke it.
        is_break: for each word, whether no segment may span the gap before it.
        confidence: for each word, how sure that is, from 0 to 1: for a pair its probability; for a
            word without a pair the share of its time at the local speaking rate that is there; for
            an unspoken word the share of it that is no silence.
    """

    pairs: WordPairs
    is_unspoken: Flags
    is_break: Flags
    confidence: Seconds


@dataclass(frozen=True)
class _Gap:
    """Words of the transcript between two pairs that follow each other in the audio.

    Attributes:
        words: their numbers.
        heard: the words that were heard there and have no pair, by their numbers.
        silence: seconds between the pairs in which nothing was heard.
        room: seconds from the start of the first to the end of the second pair, without those that
            both need at least.
        rate: seconds a letter.
        is_joined: the words are part of a heard word that is paired with a neighbor, as "5" is of
            "5kg".
    """

    words: range
    heard: range
    silence: float
    room: float
    rate: float
    is_joined: bool


def find_unspoken(pairs: WordPairs, words: Sequence[str], asides: Asides, heard: Heard) -> Spoken:
    """Find the words that nobody spoke, in gaps between two pairs.

    Words in a gap where nothing else was heard are unspoken if there is less than half of the time
    that they need at the local speaking rate. Asides are unspoken also where there is time, and so
    are words that are missing in three gaps or more, and more often than they are paired (running
    heads). Where something else was heard, remarks are spoken if they are similar to it, and
    numbers if there is time. An aside of which more than a third has pairs was spoken. No segment
    spans a gap without time for what is left of its words, nor one with words left beside unspoken
    ones.

    Args:
        pairs: of the words of the transcript and of the hypothesis.
        words: of the transcript, normalized.
        asides: of the transcript (see `find_asides`).
        heard: the words of the hypothesis, normalized, with their times.

    Examples:
        >>> words = "good day 12 to you all".split()
        >>> starts = np.arange(5) * 0.4
        >>> heard = Heard("good day to you all".split(), starts, starts + 0.4)
        >>> pairs = WordPairs(np.array([0, 1, 3, 4, 5]), np.arange(5), np.ones(5, np.float32))
        >>> groups = np.array([-1, -1, 0, -1, -1, -1])
        >>> asides = Asides(groups, frozenset(), np.zeros(6, int), np.zeros(6, bool))
        >>> find_unspoken(pairs, words, asides, heard).is_unspoken.tolist()
        [False, False, True, False, False, False]
    """
    letters = np.array([spoken_letters(word) for word in words], np.int64)
    is_aside = _unpaired_asides(pairs, asides)
    outside = ~is_aside[pairs.left]
    pairs = WordPairs(pairs.left[outside], pairs.right[outside], pairs.probability[outside])
    is_unspoken = np.zeros(len(words), np.bool_)
    is_break = np.zeros(len(words) + 1, np.bool_)
    confidence = np.ones(len(words))
    confidence[pairs.left] = pairs.probability
    gaps = _gaps(pairs, words, letters, heard)
    heads = _running_heads(gaps, words, letters, pairs)
    for gap in gaps:
        numbers = np.array(gap.words)
        aside = is_aside[numbers] | _in_heads(gap, words, heads)
        missing = _missing(gap, letters[numbers], aside, words, heard.words)
        is_break[gap.words.stop] = _is_break(gap, letters, missing, asides)
        is_unspoken[numbers] = missing
        confidence[numbers] = _confidence(gap, letters[numbers], missing)
    return Spoken(pairs, is_unspoken, is_break[:-1], confidence)


def spoken_letters(word: str) -> int:
    """Return how many letters a word has when it is spoken, digits as words."""
    digits = sum(map(str.isdigit, word))
    return len(word) + (_LETTERS_A_DIGIT - 1) * digits


def _unpaired_asides(pairs: WordPairs, asides: Asides) -> Flags:
    """Return for each word whether it is in an aside of which few words have pairs."""
    inside = asides.group >= 0
    count = int(asides.group.max(initial=-1)) + 1
    sizes = np.bincount(asides.group[inside], minlength=count)
    groups = asides.group[pairs.left]
    paired = np.bincount(groups[groups >= 0], minlength=count)
    is_unpaired = paired <= _MOST_PAIRED * sizes
    is_flagged = np.zeros(len(asides.group), np.bool_)
    is_flagged[inside] = is_unpaired[asides.group[inside]]
    return is_flagged


def _gaps(pairs: WordPairs, words: Sequence[str], letters: Ints, heard: Heard) -> list[_Gap]:
    """Return the gaps with words of the transcript, in order."""
    rates = _rates(pairs, letters, heard)
    rank = np.argsort(np.argsort(pairs.right))
    is_gap = (np.diff(pairs.left) > 1) & (np.diff(rank) == 1)
    gaps = []
    for place in np.flatnonzero(is_gap).tolist():
        (left, next_left) = pairs.left[place : place + 2].tolist()
        (right, next_right) = pairs.right[place : place + 2].tolist()
        rate = float(rates[place])
        between = slice(right + 1, next_right)
        spoken = float((heard.end[between] - heard.start[between]).sum())
        least = _USUAL_SHARE * rate * (letters[left] + letters[next_left])
        gaps.append(
            _Gap(
                range(left + 1, next_left),
                range(right + 1, next_right),
                silence=max(0.0, float(heard.start[next_right] - heard.end[right]) - spoken),
                room=max(0.0, float(heard.end[next_right] - heard.start[right] - least)),
                rate=rate,
                is_joined=_is_joined(
                    words[left : next_left + 1], heard.words[right], heard.words[next_right]
                ),
            )
        )
    return gaps


def _rates(pairs: WordPairs, letters: Ints, heard: Heard) -> Seconds:
    """Return for each pair the seconds per letter of the words around it."""
    seconds = np.clip(heard.end - heard.start, 0, _LONGEST_WORD)[pairs.right]
    sums = [np.concatenate(([0.0], np.cumsum(values))) for values in (seconds, letters[pairs.left])]
    places = np.arange(len(pairs.left))
    first = np.maximum(places - _RATE_PAIRS, 0)
    last = np.minimum(places + _RATE_PAIRS + 1, len(places))
    (time, size) = (values[last] - values[first] for values in sums)
    return np.asarray(time / np.maximum(size, 1), np.float64)


def _is_joined(typed: Sequence[str], first: str, last: str) -> bool:
    """Return whether typed words, with a neighbor at one end, are one word that was heard."""
    before = "".join(typed[:-1])
    behind = "".join(typed[1:])
    return similarity(before, first) > similarity(typed[0], first) or similarity(
        behind, last
    ) > similarity(typed[-1], last)


def _head(gap: _Gap, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a gap without numbers, which differ from page to page."""
    missing = (words[number] for number in gap.words)
    return tuple(word for word in missing if not any(map(str.isdigit, word)))


def _running_heads(
    gaps: Sequence[_Gap], words: Sequence[str], letters: Ints, pairs: WordPairs
) -> frozenset[tuple[str, ...]]:
    """Return what is missing in several gaps, and is missing more often than it is paired."""
    counts = Counter(
        _head(gap, words)
        for gap in gaps
        if len(gap.words) >= _HEAD_WORDS
        and letters[gap.words.start : gap.words.stop].sum() >= _HEAD_LETTERS
    )
    repeated = {head: count for head, count in counts.items() if head and count >= _HEAD_TIMES}
    spoken = _count_paired(repeated, words, pairs)
    return frozenset(head for head, count in repeated.items() if spoken[head] < count)


def _count_paired(
    phrases: Iterable[tuple[str, ...]], words: Sequence[str], pairs: WordPairs
) -> Counter[tuple[str, ...]]:
    """Return how often phrases are in the transcript with a pair for each of their words."""
    is_paired = np.zeros(len(words), np.bool_)
    is_paired[pairs.left] = True
    spoken = [word if paired else "" for word, paired in zip(words, is_paired, strict=True)]
    by_first_word: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for phrase in phrases:
        by_first_word[phrase[0]].append(phrase)
    counts = Counter[tuple[str, ...]]()
    for place, word in enumerate(spoken):
        for phrase in by_first_word.get(word, ()):
            counts[phrase] += tuple(spoken[place : place + len(phrase)]) == phrase
    return counts


def _in_heads(gap: _Gap, words: Sequence[str], heads: frozenset[tuple[str, ...]]) -> Flags:
    """Return for each word of a gap whether it is part of a running head, or a number in it."""
    is_in_head = np.zeros(len(gap.words), np.bool_)
    missing = _head(gap, words)
    places = [
        place for place, number in enumerate(gap.words) if not any(map(str.isdigit, words[number]))
    ]
    sizes = {len(head) for head in heads if len(head) <= len(missing)}
    for size in sizes:
        for start in range(len(missing) - size + 1):
            if missing[start : start + size] in heads:
                is_in_head[places[start] : places[start + size - 1] + 1] = True
    return is_in_head


def _has_room(gap: _Gap, letters: Ints) -> bool:
    """Return whether words of so many letters fit into a gap at the local speaking rate."""
    size = int(letters.sum())
    return size <= _SHORT_LETTERS or gap.room >= _LEAST_SHARE * gap.rate * size


def _missing(
    gap: _Gap, letters: Ints, aside: Flags, words: Sequence[str], heard: Sequence[str]
) -> Flags:
    """Return for each word of a gap whether nobody spoke it."""
    if gap.is_joined:
        return np.zeros(len(aside), np.bool_)
    if not gap.heard:
        return aside | (not _has_room(gap, letters[~aside]))
    remark = " ".join(words[number] for number in gap.words)
    spoken = " ".join(heard[number] for number in gap.heard)
    is_number = any(map(str.isdigit, remark))
    has_time = gap.room >= _NUMBER_SHARE * gap.rate * letters.sum()
    is_similar = similarity(remark, spoken) >= _LEAST_SIMILARITY
    return aside & (not ((is_number and has_time) or is_similar))


def _is_break(gap: _Gap, letters: Ints, missing: Flags, asides: Asides) -> bool:
    """Return whether no segment may span a gap.

    There is no time for its words although others were heard; or nothing was heard where words are
    left that stand beside words that nobody spoke, or fill their lines.
    """
    spoken = np.array(gap.words)[~missing]
    size = int(letters[spoken].sum())
    if gap.is_joined or size <= _SHORT_LETTERS:
        return False
    if gap.heard:
        return not _has_room(gap, letters[spoken])
    (first, last) = (gap.words.start, gap.words.stop - 1)
    line = asides.line
    is_whole_line = line[first - 1] != line[first] and line[last] != line[last + 1]
    are_several = len(spoken) > 1 or bool(asides.is_sentence[first])
    return bool(missing.any()) or (is_whole_line and are_several)


def _confidence(gap: _Gap, letters: Ints, missing: Flags) -> Seconds:
    """Return for each word of a gap how sure it is that it was spoken, or that it was not."""
    needed = gap.rate * max(1, int(letters[~missing].sum()))
    needed_by_missing = gap.rate * max(1, int(letters[missing].sum()))
    spoken = min(1.0, gap.room / needed) if needed else 1.0
    unspoken = 1 - min(1.0, gap.silence / needed_by_missing) if needed_by_missing else 1.0
    return np.where(missing, unspoken, spoken)
