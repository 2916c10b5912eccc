"""Parse the cues of subtitles: SubRip (.srt), WebVTT (.vtt) and SubViewer as YouTube has it (.sbv).

The first two may be mixed up.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nbaudio.formats.transcripts import unescape

_TIME = r"(?:(\d+):)?([0-5]?\d):([0-5]?\d)(?:[,.](\d+))?"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_TIME_OF_SBV = r"\d+:[0-5]\d:[0-5]\d\.\d{3}"
_TIMES_OF_SBV = re.compile(rf"(?m)^({_TIME_OF_SBV}),({_TIME_OF_SBV})[^\S\n]*$")
_LINE_END_OF_SBV = "[br]"
#: A line of times, which subtitles have and other texts have not.
TIMES = re.compile(
    rf"(?m)^[^\S\n]*{_TIME}[^\S\n]*(?:[-=]+|[–—])(?:>|&gt;)[^\S\n]*{_TIME}"
    rf"|{_TIMES_OF_SBV.pattern.removeprefix('(?m)')}"
)
_ARROW = "-->"
_OTHER_ARROW = re.compile(
    rf"(?m)^([^\S\n]*{_TIME})[^\S\n]*(?:[-=]+|[–—])(?:>|&gt;)[^\S\n]*(?={_TIME})"
)
_EXPECTED = "expected times such as 00:00:01,500 --> 00:00:02,750"
TAG = re.compile(
    r"</?[A-Za-z][^<>]*>|<\d[^<>]*>|</>|\{\\[^{}]*\}|\{/?[bius]\}|\{[ycfsop]:[^{}]*\}",
    re.IGNORECASE,
)
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
# The small letters beside a word that say how it is read.
_RUBY = re.compile(r"<r[tp]\b[^<>]*>[^<>]*(?:</r[tp]>|(?=<))", re.IGNORECASE)
# Marks of the direction of writing, and of bytes.
_INVISIBLE = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
# Tags that a converter escaped, and line ends and blanks of SubStation Alpha that it left.
_ESCAPED_TAG = re.compile(r"</?(?:i|b|u|s|font|c|v)\b[^<>]*>|\{\\[^{}]*\}", re.IGNORECASE)
_LINE_END = re.compile(r"\\[Nnh]")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_HEADER = "WEBVTT"
_COMMENTS = ("NOTE", "STYLE", "REGION")
_NUMBER = re.compile(r"\s*\d{1,9}\s*", re.ASCII)
_SHOWN_CHARACTERS = 60  # characters of a line that a problem shows


@dataclass(frozen=True)
class _Block:
    """Lines without a blank line between them.

    Attributes:
        first: number of the first line, from 0.
        lines: the lines.
        is_apart: a blank line is before them.
    """

    first: int
    lines: list[str]
    is_apart: bool


@dataclass(frozen=True)
class _Style:
    """How a file is written.

    Attributes:
        is_vtt: it has the header of WebVTT, hence comments and names of cues.
        is_numbered: a number, which counts the cues, stands before most of the times.
        is_named: something else stands before most of the times, after a blank line.
    """

    is_vtt: bool
    is_numbered: bool
    is_named: bool


def cues(text: str) -> Iterator[dict[str, Any] | tuple[int, str]]:
    r"""Yield cues as rows, or the line and the reason where one cannot be read.

    A line of times begins a cue, as players read it: neither a blank line nor a number must stand
    before it. What follows a blank line, without times of its own, belongs to the cue before. Rows
    also have the first `line` of a cue, and all its `lines` with markup.

    Examples:
        >>> found = list(cues("1\n0:01,5 --> 0:02,0\nda\n2\n0:02,0 --> 0:03,0\nTom &amp; Ana"))
        >>> [(cue["source_start"], cue["text"]) for cue in found]
        [('1.5', 'da'), ('2.0', 'Tom & Ana')]
    """
    lines = _with_arrows(text).rstrip("\x1a").split("\n")
    arrows = [number for number, line in enumerate(lines) if _ARROW in line]
    style = _style(lines, arrows)
    firsts = [_first_line(lines, arrow, style) for arrow in arrows]
    header = range(firsts[0] if firsts else len(lines))
    yield from _header_problems(_blocks(lines, header), style)
    for first, arrow, stop in zip(firsts, arrows, [*firsts, len(lines)][1:], strict=True):
        times = _TIMES.fullmatch(lines[arrow])
        if times:
            yield from _cue(first, times, [*_blocks(lines, range(arrow + 1, stop))], style)
        else:
            yield arrow + 1, f"{_EXPECTED}, not {lines[arrow].strip()[:_SHOWN_CHARACTERS]!r}"


def _with_arrows(text: str) -> str:
    """Return subtitles of YouTube's format, or with other arrows, with the times of the others."""
    text = _OTHER_ARROW.sub(rf"\1 {_ARROW} ", text)
    if _ARROW in text or not _TIMES_OF_SBV.search(text):
        return text
    return _TIMES_OF_SBV.sub(rf"\1 {_ARROW} \2", text.replace(_LINE_END_OF_SBV, " "))


def cue_text(lines: Sequence[str]) -> dict[str, str | None]:
    """Return the `text` of lines with markup, `text_raw` where it differs, and the `speaker_id`.

    Tags are removed and character references are resolved. With two voices in one cue there is no
    speaker.
    """
    raw = " ".join(" ".join(lines).split())
    spoken = without_tags(_LINE_END.sub(" ", raw))
    spoken = _ESCAPED_TAG.sub("", unescape(spoken))
    spoken = " ".join(_INVISIBLE.sub("", spoken).split())
    voices = {unescape(voice).strip() for voice in _VOICE.findall(raw)}
    return {
        "text": spoken,
        "text_raw": raw if raw != spoken else None,
        "speaker_id": next(iter(voices)) if len(voices) == 1 else None,
    }


def without_tags(text: str) -> str:
    """Return text without tags, and without the small letters of ruby; line breaks are blanks."""
    return TAG.sub("", _RUBY.sub("", _LINE_BREAK.sub(" ", text)))


def _style(lines: Sequence[str], arrows: Sequence[int]) -> _Style:
    """Return how a file is written, by the lines before its times; `arrows` are their numbers."""
    heads = {head for arrow in arrows if (head := _head(lines, arrow)) is not None}
    numbers = {head for head in heads if _NUMBER.fullmatch(lines[head])}
    others = heads - numbers
    names = [
        arrow - 1
        for arrow in arrows
        if arrow - 1 in others and _is_first_of_block(lines, arrow - 1)
    ]
    least = max(1, len(arrows) / 2)
    return _Style(
        is_vtt=bool(lines) and lines[0].startswith(_HEADER),
        is_numbered=len(numbers) >= least and _is_counting(lines, arrows, sorted(numbers)),
        is_named=len(names) >= least,
    )


def _is_counting(lines: Sequence[str], arrows: Sequence[int], numbers: Sequence[int]) -> bool:
    """Return whether numbers before times count cues, and are not the texts of other cues."""
    if numbers[0] < arrows[0]:
        return True
    return any(
        lines[number].strip().lstrip("0") == str(int(lines[before]) + 1)
        for before, number in pairwise(numbers)
    )


def _head(lines: Sequence[str], arrow: int) -> int | None:
    """Return the last line before the times of a cue that is not blank; none at the start."""
    before = range(arrow - 1, -1, -1)
    return next((number for number in before if lines[number].strip()), None)


def _is_first_of_block(lines: Sequence[str], number: int) -> bool:
    return number == 0 or not lines[number - 1].strip()


def _first_line(lines: Sequence[str], arrow: int, style: _Style) -> int:
    """Return the line where a cue begins: that of its times, or of the number or name before."""
    head = _head(lines, arrow)
    if head is None:
        return arrow
    if _NUMBER.fullmatch(lines[head]):
        is_number = style.is_numbered or (head == arrow - 1 and _is_first_of_block(lines, head))
        return head if is_number else arrow
    is_name = head == arrow - 1 and _is_first_of_block(lines, head)
    if is_name and (style.is_vtt or style.is_named):
        return head
    return arrow


def _header_problems(blocks: Iterator[_Block], style: _Style) -> Iterator[tuple[int, str]]:
    """Yield a problem for each block before the first cue that is neither header nor comment."""
    for block in blocks:
        if not (style.is_vtt and block.lines[0].startswith((_HEADER, *_COMMENTS))):
            yield _no_times(block)


def _cue(
    first: int, times: re.Match[str], blocks: Sequence[_Block], style: _Style
) -> Iterator[dict[str, Any] | tuple[int, str]]:
    """Yield the row of a cue, and a problem for each block in it that is a cue without times.

    The `first` line is numbered from 0. The first block is text, also after a blank line.
    """
    shown: list[str] = []
    problems: list[tuple[int, str]] = []
    for place, block in enumerate(blocks):
        is_comment = block.lines[0].startswith(
            (_HEADER, *_COMMENTS)
        )  # or of a file behind this one
        if style.is_vtt and is_comment and (place or block.is_apart):
            continue
        if shown and len(block.lines) > 1 and _NUMBER.fullmatch(block.lines[0]):
            problems.append(_no_times(block))
        else:
            shown += block.lines
    yield {
        "line": first + 1,
        "lines": shown,
        "source_start": _seconds(*times.groups()[:4]),
        "source_end": _seconds(*times.groups()[4:]),
        **cue_text(shown),
    }
    yield from problems


def _no_times(block: _Block) -> tuple[int, str]:
    return block.first + 1, f"no times: {block.lines[0].strip()[:_SHOWN_CHARACTERS]!r}"


def _blocks(lines: Sequence[str], numbers: range) -> Iterator[_Block]:
    """Yield the blocks of a range of lines, which blank lines separate."""
    block: list[str] = []
    for number in numbers:
        if lines[number].strip():
            block.append(lines[number])
        elif block:
            first = number - len(block)
            yield _Block(first, block, is_apart=first > numbers.start)
            block = []
    if block:
        first = numbers.stop - len(block)
        yield _Block(first, block, is_apart=first > numbers.start)


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str | None) -> str:
    whole = str(int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds))
    return f"{whole}.{fraction}" if fraction else whole
