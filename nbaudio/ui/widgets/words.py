"""The words of a transcript beside those of a hypothesis, pair by pair, with the times of the transcript's words."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from nbaudio.text import word_diff, words
from nbaudio.ui.widgets.html import MOST_CHARACTERS


class WordPair(NamedTuple):
    """Two words that stand for each other.

    Attributes:
        kind: ``equal``, ``replace``, ``delete`` (only in the transcript) or ``insert`` (only in the hypothesis).
        reference: the transcript's word; None where there is none.
        hypothesis: the recogniser's; None where there is none.
        start: seconds from the segment's start; None where it is not known. An inserted word has the time between its neighbours.
        end: as `start`.
    """

    kind: str
    reference: str | None
    hypothesis: str | None
    start: float | None = None
    end: float | None = None


def align_words(
    text: str, asr_text: str | None, times: Sequence[tuple[float, float]] | None = None, *, steps: Sequence[str] = ()
) -> list[WordPair]:
    """Pairs of words, in order.

    Args:
        text: the human words.
        asr_text: the recogniser's; None where nothing was recognised, and the words are then taken as they are.
        times: start and end of each word of `text`, in seconds; left out where there are more or fewer of them than words.
        steps: of normalisation, as of `word_diff`.

    Returns:
        The pairs, with the fewest edits; very long texts are cut.

    Examples:
        >>> align_words("evo blic", "evo blitz na", [(0.0, 0.5), (0.5, 1.0)])[-1]
        WordPair(kind='replace', reference='blic', hypothesis='na', start=0.5, end=1.0)
    """
    if times is not None and len(times) != len(words(text)):
        times = None
    text, asr_text = text[:MOST_CHARACTERS], asr_text and asr_text[:MOST_CHARACTERS]
    if asr_text is None:
        pairs = [WordPair("equal", word, None) for word in words(text)]
    else:
        pairs = [
            WordPair(part.kind, *pair)
            for part in word_diff(text, asr_text, steps=steps)
            for pair in zip_longest(part.reference, part.hypothesis)
        ]
    return _timed(pairs, times) if times else pairs


def _timed(pairs: Sequence[WordPair], times: Sequence[tuple[float, float]]) -> list[WordPair]:
    found: list[WordPair] = []
    following, passed = iter(times), 0.0
    place = 0
    for pair in pairs:
        if pair.reference is not None:
            start, passed = next(following)
            place += 1
            found.append(pair._replace(start=start, end=passed))
        else:
            later = times[place][0] if place < len(times) else passed
            found.append(pair._replace(start=passed, end=max(passed, later)))
    return found
