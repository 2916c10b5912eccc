"""Words of a transcript aligned with those of a hypothesis, with their times, as players show them."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from nbaudio.text.edit_distance import word_diff, words

# A longer text is no sentence, and would freeze the page.
MOST_CHARACTERS = 2000


class WordPair(NamedTuple):
    """Aligned words of transcript and hypothesis; kind is that of `word_diff`, times are seconds from the segment's start."""

    kind: str
    reference: str | None
    hypothesis: str | None
    start: float | None = None
    end: float | None = None


def align_words(
    text: str, asr_text: str | None, times: Sequence[tuple[float, float]] | None = None, **compared: Any
) -> list[WordPair]:
    """Align the words of a transcript, and `times` if they are as many, with a hypothesis, as `word_diff`; long texts are cut."""
    if times is not None and len(times) != len(words(text)):
        times = None
    text, asr_text = text[:MOST_CHARACTERS], asr_text and asr_text[:MOST_CHARACTERS]
    if asr_text is None:
        pairs = [WordPair("equal", word, None) for word in words(text)]
    else:
        parts = word_diff(text, asr_text, **compared)
        pairs = [WordPair(part.kind, *pair) for part in parts for pair in zip_longest(part.reference, part.hypothesis)]
    if not times:
        return pairs
    timed: list[WordPair] = []
    place, end = 0, 0.0
    for pair in pairs:
        if pair.reference is not None:
            (start, end), place = times[place], place + 1
            timed.append(pair._replace(start=start, end=end))
        else:
            later = times[place][0] if place < len(times) else end
            timed.append(pair._replace(start=end, end=max(end, later)))
    return timed
