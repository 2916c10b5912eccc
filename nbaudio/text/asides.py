"""Find what a transcript has and nobody reads aloud: remarks in brackets, labels, numbers.

What is found may have been spoken all the same; `nbaudio.text.unspoken` compares it with what was
heard.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BRACKET = re.compile(r"[()\[\]{}]|\n[^\S\n]*\n")
_MOST_CHARACTERS = 1000  # of a remark in brackets
# A name at the start of a line and a colon, such as "Mr SMITH (Labour):"
_LABEL = re.compile(r"(?m)^[^\S\n]*[^\W\d_](?:[^\n:.!?…]|\.(?!\s*$)){0,80}:(?=\s)")
_SPOKEN_SIGN = re.compile(r"[%‰&+@§°=$€£¥]")
_ROMAN = re.compile(r"[IVXLC]{2,}")
# The number of a footnote that is written without a blank, such as "[12]" in "word[12]."
_FOOTNOTE = re.compile(r"(?<=\S)\[\d{1,4}\]|(?<=[^\W\d_]{3})[⁰¹²³⁴-⁹]+")


@dataclass(frozen=True)
class Asides:
    """The asides of a text.

    Attributes:
        group: for each word the number of its aside, from 0, or -1.
        labels: the asides that are names of speakers.
        line: for each word the number of its line.
    """

    group: Ints
    labels: frozenset[int]
    line: Ints


@dataclass(frozen=True)
class _Span:
    """Characters of a remark or label (half open)."""

    start: int
    end: int
    is_label: bool = False


def find_asides(text: str, starts: Sequence[int], words: Sequence[str]) -> Asides:
    """Find the asides among the words of a text.

    An aside is what is in brackets, with brackets inside; the name of a speaker, which begins a
    line and ends in a colon; or a number: a word of which at least half is digits, Roman digits, or
    signs such as an arrow.

    Args:
        text: the transcript.
        starts: where each word begins in it, in order.
        words: the words as typed.

    Examples:
        >>> text = "ANA: Good day (Applause) 12 all"
        >>> found = find_asides(text, [0, 5, 10, 14, 25, 28], text.split())
        >>> found.group.tolist(), found.labels
        ([0, -1, -1, 1, 2, -1], frozenset({0}))
    """
    group = np.full(len(words), -1)
    labels = set[int]()
    places = np.array(starts, np.int64)
    number = 0
    for span in sorted([*_labels(text), *_brackets(text)], key=lambda span: span.start):
        first, last = np.searchsorted(places, (span.start, span.end)).tolist()
        free = first + np.flatnonzero(group[first:last] < 0)
        if len(free):
            group[free] = number
            if span.is_label:
                labels.add(number)
            number += 1
    for place, word in enumerate(words):
        if group[place] < 0 and _is_number(word):
            group[place] = number
            number += 1
    line_ends = np.array([end.start() for end in re.finditer("\n", text)], np.int64)
    return Asides(group, frozenset(labels), np.searchsorted(line_ends, places))


def join_asides(parts: Sequence[Asides]) -> Asides:
    """Return the asides of texts, one after the other."""
    groups = [np.empty(0, np.int64)]
    lines = [np.empty(0, np.int64)]
    labels = set[int]()
    group_count = 0
    line_count = 0
    for part in parts:
        groups.append(np.where(part.group < 0, -1, part.group + group_count))
        lines.append(part.line + line_count)
        labels |= {label + group_count for label in part.labels}
        group_count += int(part.group.max(initial=-1)) + 1
        line_count += int(part.line.max(initial=-1)) + 1
    return Asides(np.concatenate(groups), frozenset(labels), np.concatenate(lines))


def _labels(text: str) -> Iterator[_Span]:
    for label in _LABEL.finditer(text):
        yield _Span(label.start(), label.end(), is_label=True)


def _brackets(text: str) -> Iterator[_Span]:
    """Yield what is in brackets; a bracket that is not closed in its paragraph is none."""
    opened: list[re.Match[str]] = []
    for sign in _BRACKET.finditer(text):
        if sign[0] in _CLOSING:
            opened.append(sign)
        elif sign[0][0] == "\n":
            opened = []
        elif opened and _CLOSING[opened[-1][0]] == sign[0]:
            first = opened.pop()
            if sign.end() - first.start() <= _MOST_CHARACTERS:
                yield _Span(first.start(), sign.end())


def _is_number(word: str) -> bool:
    """Return whether a word is a number, or a sign that has no name, such as an arrow or a note."""
    signs = [sign for sign in word if sign.isalnum()]
    if not signs:
        return not _SPOKEN_SIGN.search(word)
    digits = sum(sign.isdigit() for sign in signs)
    return (digits > 0 and 2 * digits >= len(signs)) or bool(_ROMAN.fullmatch("".join(signs)))


def split_footnotes(token: str) -> list[str]:
    """Split a token of a text before and behind numbers of footnotes.

    Examples:
        >>> split_footnotes("word[12].")
        ['word', '[12]', '.']
    """
    marks = [mark.span() for mark in _FOOTNOTE.finditer(token)]
    if not marks:
        return [token]
    edges = {0, len(token)}.union(*marks)
    return [token[start:end] for start, end in pairwise(sorted(edges))]
