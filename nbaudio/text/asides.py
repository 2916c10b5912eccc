"""Find what a transcript has and nobody reads aloud: remarks in brackets, labels, numbers.

What is found may have been spoken all the same; `nbaudio.text.unspoken` compares it with what was
heard.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_CLOSING = {"(": ")", "[": "]", "{": "}", "（": "）", "【": "】", "［": "］"}
_BRACKET = re.compile(rf"[{re.escape(''.join([*_CLOSING, *_CLOSING.values()]))}]|\n[^\S\n]*\n")
_MOST_CHARACTERS = 1000  # longest remark in brackets
# Remarks between other marks: "*applause*", "/laughter/", "<laughter>", "<i>Laughter</i>", and
# behind a sentence "– applause –".
_MARKED = re.compile(
    r"""(?mx)
    (?<![\w*_/~\#=|]) ([*_~\#=|]{1,3}|//?) (?=\w) [^\n*_/~\#=|]{1,200} (?<=[\w.!?…]) \1
        (?![\w*_/~\#=|])
    | (?<!\w) (?: <<?[^\W\d_][^<>\n]{1,200}>>? | ‹[^‹›\n]{1,200}› ) (?!\w)
    | <(i|b|u|em|strong)>[^<>\n]{1,200}</\2>
    | (?:^|(?<=[.!?…]\s)) [–—][^\S\n]? \w [^\n–—]{0,80} (?<=[\w\s]) [–—] (?!\S)
    """
)
_LEAD = r"(?m)^[^\S\n]*(?:[-–—•*_\#>@|][^\S\n]*)*"  # marks of lists and markup
_LABELS = (
    # A name at the start of a line and a colon, such as "Mr SMITH (Labour):"
    re.compile(rf"{_LEAD}[^\W\d_](?:[^\n:：.!?…]|\.(?!\s*$)){{0,80}}(?::[*_]*(?=\s)|：)"),
    # A name at the start of a line in brackets, or before a tab
    re.compile(rf"{_LEAD}\[[^\W\d_][^\[\]\n]{{0,80}}\]:?(?=[^\S\n]+\S)"),
    re.compile(rf"{_LEAD}<[^\W\d_][^<>\n]{{0,80}}>:?(?=[^\S\n]+\S)"),
    re.compile(r"(?m)^[^\W\d_][^\n\t]{0,80}\t[^\S\n]*(?=\S)"),
)
_LINE = re.compile(rf"{_LEAD}(?=[^\W\d_])")
_TOKEN = re.compile(r"[^\S\n]*(\S+)")
_MOST_NAMES = 6  # most words in the name of a speaker that no colon ends
_CAPITAL_LETTERS = 4  # least letters of a name in capital letters
_PARTICLES = frozenset(("da", "de", "del", "den", "der", "di", "la", "le", "of", "van", "von"))
_DASHES = frozenset("-–—")
_SENTENCE_MARKS = (".", "!", "?", "…", "۔", "。")
_QUOTES = "\"'”’»«“)]"
_SPOKEN_SIGN = re.compile(r"[%‰&+@§°=$€£¥]")
_ROMAN = re.compile(r"[IVXLC]{2,}")
_RAISED = "[⁰¹²³⁴-⁹]"
# The number of a footnote that is written without a blank, such as "[12]" in "word[12].", and no
# power, as in "m²".
_FOOTNOTE = re.compile(
    rf"(?<=\S)\[\d{{1,4}}\]"
    rf"|(?<=[^\W\d_]{{3}}){_RAISED}+|(?<=[^\W\d_]){_RAISED}{{2,}}|(?<=[.,;:!?…\"”’»)]){_RAISED}+"
    r"|(?<=[^\W\d_]{3})\^\d{1,3}|(?<=[^\W\d_])\^\d{2,3}"
    r"|(?<=[^\W\d_]{4})\d{1,3}(?=\W*\Z)|(?<=[^\W\d_]{3}[.,;:!?…])\d{1,3}\Z"
)


@dataclass(frozen=True)
class Asides:
    """The asides of a text.

    Attributes:
        group: for each word the number of its aside, from 0, or -1.
        labels: the asides that are names of speakers.
        line: for each word the number of its line.
        is_sentence: for each word, whether its line is a sentence of its own.
    """

    group: Ints
    labels: frozenset[int]
    line: Ints
    is_sentence: Flags


@dataclass(frozen=True)
class _Span:
    """Characters of a remark or label (half open)."""

    start: int
    end: int
    is_label: bool = False


def find_asides(text: str, starts: Sequence[int], words: Sequence[str]) -> Asides:
    """Find the asides among the words of a text.

    An aside is what is in brackets, with brackets inside, or between other marks of remarks, such
    as asterisks; the name of a speaker, which begins a line and ends in a colon, a tab or a dash,
    is in square or angle brackets, or in capital letters before others; or a number: a word of
    which at least half is digits, Roman digits, or signs such as an arrow.

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
    remarks = [*_brackets(text), *_between_marks(text)]
    for span in sorted([*_labels(text), *remarks], key=lambda span: span.start):
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
    line = np.searchsorted(line_ends, places)
    return Asides(group, frozenset(labels), line, _are_sentences(text)[line])


def join_asides(parts: Sequence[Asides]) -> Asides:
    """Return the asides of texts, one after the other."""
    groups = [np.empty(0, np.int64)]
    lines = [np.empty(0, np.int64)]
    sentences = [np.empty(0, np.bool_)]
    labels = set[int]()
    group_count = 0
    line_count = 0
    for part in parts:
        groups.append(np.where(part.group < 0, -1, part.group + group_count))
        lines.append(part.line + line_count)
        sentences.append(part.is_sentence)
        labels |= {label + group_count for label in part.labels}
        group_count += int(part.group.max(initial=-1)) + 1
        line_count += int(part.line.max(initial=-1)) + 1
    return Asides(
        np.concatenate(groups),
        frozenset(labels),
        np.concatenate(lines),
        np.concatenate(sentences),
    )


def _are_sentences(text: str) -> Flags:
    """Return for each line whether it is a sentence of its own, behind the end of another one.

    A sentence ends in a mark, or the next line begins with a capital letter.
    """
    lines = [line.strip() for line in text.split("\n")]
    is_end = [line.rstrip(_QUOTES).endswith(_SENTENCE_MARKS) for line in lines]
    is_behind_end = [True, *(end or not line for end, line in zip(is_end, lines, strict=True))]
    is_before_capital = [*(not line or line[0].isupper() for line in lines[1:]), True]
    is_closed = np.logical_or(is_end, is_before_capital)
    return np.asarray(np.logical_and(is_behind_end[:-1], is_closed), np.bool_)


def _labels(text: str) -> Iterator[_Span]:
    """Yield the names of speakers at the starts of lines."""
    for layout in _LABELS:
        for label in layout.finditer(text):
            yield _Span(label.start(), label.end(), is_label=True)
    for line in _LINE.finditer(text):
        end = _end_of_name(text, line.end())
        if end:
            yield _Span(line.start(), end, is_label=True)


def _end_of_name(text: str, start: int) -> int:
    """Return where a name ends that begins at a place and that no colon ends; 0 if there is none.

    The name is in capital letters, and other letters follow; or all of its words begin with one,
    and a dash follows.
    """
    names: list[re.Match[str]] = []
    following = ""
    place = start
    while len(names) <= _MOST_NAMES and (token := _TOKEN.match(text, place)):
        following = token[1]
        if not following[:1].isupper() and (not names or following not in _PARTICLES):
            break
        names.append(token)
        place = token.end()
    capitals = list(takewhile(lambda name: name[1].isupper(), names))
    if names and following in _DASHES:
        return names[-1].end()
    letters = sum(map(str.isalpha, "".join(name[1] for name in capitals)))
    behind = names[len(capitals)][1] if len(capitals) < len(names) else following
    is_other = any(map(str.islower, behind))
    is_initial = bool(capitals) and len(capitals[0][1].strip(".")) < 2  # such as "I"
    if letters >= _CAPITAL_LETTERS and is_other and not is_initial:
        return capitals[-1].end()
    return 0


def _between_marks(text: str) -> Iterator[_Span]:
    for remark in _MARKED.finditer(text):
        yield _Span(remark.start(), remark.end())


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
