"""Words of a transcript aligned with those of a hypothesis.

They are given as edits, or word by word with times, as players show them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any, Literal, NamedTuple

from nbaudio.text.edit_distance import words
from nbaudio.text.formatting import Formatting, Group, align
from nbaudio.text.normalization import normalize

Kind = Literal["equal", "formatting", "insert", "delete", "replace"]

# A longer text is no sentence, and would freeze the page.
MOST_CHARACTERS = 2000


@dataclass(frozen=True)
class DiffPart:
    """A run of words in reference and hypothesis.

    They are equal, are read alike (``formatting``), or differ.
    """

    kind: Kind
    reference: tuple[str, ...]
    hypothesis: tuple[str, ...]


class WordPair(NamedTuple):
    """Aligned words of transcript and hypothesis.

    The kind is that of `word_diff`; the times are seconds from the segment's start.
    """

    kind: str
    reference: str | None
    hypothesis: str | None
    start: float | None = None
    end: float | None = None


def word_diff(
    reference: str,
    hypothesis: str,
    *,
    steps: Sequence[str] = (),
    formatting: Formatting | None = None,
) -> list[DiffPart]:
    """Return the edits that turn the reference into the hypothesis, word by word.

    They are as few as `wer` counts. With `steps` of normalization (see `normal.NORMALIZERS`) words
    are equal where their normal forms are, and words with an empty normal form, such as a lone
    dash, do not differ. With `formatting` words that are read alike are of the kind ``formatting``.
    The parts have the original words.

    Examples:
        >>> parts = word_diff("evo blic", "evo blitz na")
        >>> [(part.kind, part.reference, part.hypothesis) for part in parts]
        [('equal', ('evo',), ('evo',)), ('insert', (), ('blitz',)), ('replace', ('blic',), ('na',))]
        >>> parts = word_diff("Evo – blic.", "evo blic", steps=["lower", "punctuation"])
        >>> [(part.kind, part.reference) for part in parts]
        [('equal', ('Evo',)), ('equal', ('–',)), ('equal', ('blic.',))]
    """
    sides = words(reference), words(hypothesis)
    keys = [*sides]
    if steps:
        keys = [[normalize(word, ("nfc", *steps)) for word in side] for side in sides]
    groups = align(*sides, formatting) if formatting else align(keys[0], keys[1])
    # Words that are not compared, such as a lone dash, are before the next one that is.
    for side in (0, 1):
        for number in sorted(
            {*range(len(sides[side]))}.difference(*(group.numbers[side] for group in groups))
        ):
            behind = (
                place for place, group in enumerate(groups) if group.numbers[side][:1] > (number,)
            )
            numbers = ((number,), ()) if side == 0 else ((), (number,))
            groups.insert(next(behind, len(groups)), Group(numbers, ((), ()), 0))
    parts = []
    for (kind, _), run in groupby(
        groups, lambda group: (_kind(group, keys), [*map(bool, group.numbers)])
    ):
        chosen = zip(sides, zip(*(group.numbers for group in run), strict=True), strict=True)
        parts.append(
            DiffPart(
                kind,
                *(
                    tuple(side[number] for group_numbers in numbers for number in group_numbers)
                    for side, numbers in chosen
                ),
            )
        )
    return parts


def _kind(group: Group, keys: Sequence[Sequence[str]]) -> Kind:
    """Return the kind of a group of aligned words; `keys` are the normal forms of both sides."""
    left, right = group.numbers
    if group.edits and left and right:
        return "replace"
    if group.edits:
        return "delete" if left else "insert"
    same = not (left and right) or [keys[0][number] for number in left] == [
        keys[1][number] for number in right
    ]
    return "equal" if same else "formatting"


def align_words(
    text: str,
    asr_text: str | None,
    times: Sequence[tuple[float, float]] | None = None,
    **compared: Any,
) -> list[WordPair]:
    """Align the words of a transcript with a hypothesis, as `word_diff` does.

    The pairs have `times` if these are as many as the words of the transcript. Long texts are cut.
    """
    if times is not None and len(times) != len(words(text)):
        times = None
    text = text[:MOST_CHARACTERS]
    asr_text = asr_text and asr_text[:MOST_CHARACTERS]
    if asr_text is None:
        pairs = [WordPair("equal", word, None) for word in words(text)]
    else:
        parts = word_diff(text, asr_text, **compared)
        pairs = [
            WordPair(part.kind, *pair)
            for part in parts
            for pair in zip_longest(part.reference, part.hypothesis)
        ]
    if not times:
        return pairs
    timed: list[WordPair] = []
    place = 0
    end = 0.0
    for pair in pairs:
        if pair.reference is not None:
            (start, end) = times[place]
            place = place + 1
            timed.append(pair._replace(start=start, end=end))
        else:
            later = times[place][0] if place < len(times) else end
            timed.append(pair._replace(start=end, end=max(end, later)))
    return timed
