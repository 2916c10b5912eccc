"""Tell texts with times of their own, which are not read as transcripts, from plain text.

They are subtitles of formats that are not read, labels of annotation tools, and tables of segments.
"""

import re
from dataclasses import dataclass

_AS_SUBTITLES = "save them as .srt"
_AS_TABLE = "read it with 'nbaudio ingest', or save its texts alone"
_LEAST_LINES = 2  # least lines of a layout that is recognized by its lines


@dataclass(frozen=True)
class TimedText:
    """A layout of texts with times.

    Attributes:
        name: what it is, in messages.
        remedy: what to do with a file.
        pattern: what its beginning has, or each of its lines.
    """

    name: str
    remedy: str
    pattern: re.Pattern[str]


_BY_BEGINNING = (
    TimedText(
        "SubStation Alpha subtitles",
        _AS_SUBTITLES,
        re.compile(r"(?m)^\[Script Info\]|^Dialogue:[^,\n]*,\d+:\d\d:\d\d"),
    ),
    TimedText(
        "TTML subtitles", _AS_SUBTITLES, re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:\w+:)?tt[\s>]")
    ),
    TimedText("SAMI subtitles", _AS_SUBTITLES, re.compile(r"(?i)\s*<SAMI\b")),
    TimedText(
        "SubViewer subtitles",
        _AS_SUBTITLES,
        re.compile(r"(?m)^\[INFORMATION\]\s*$|^(?:\d+:\d\d:\d\d\.\d\d,?){2}\s*$"),
    ),
    TimedText("captions of YouTube as XML", _AS_SUBTITLES, re.compile(r"[^<]*<\?xml.*?<timedtext")),
    TimedText("a TextGrid of Praat", _AS_TABLE, re.compile(r'\s*File type = "ooTextFile')),
    TimedText("LaTeX", "save it as plain text", re.compile(r"(?m)^\s*\\documentclass\b")),
    TimedText(
        "a table of segments",
        _AS_TABLE,
        re.compile(r"(?i)[^\n]*\b(?:start|begin)(?:_?time)?\"?[,;\t|]\"?(?:end|stop)(?:_?time)?\b"),
    ),
)
_BY_LINES = (
    TimedText("MicroDVD subtitles", _AS_SUBTITLES, re.compile(r"\{\d+\}\{\d*\}")),
    TimedText("MPL2 subtitles", _AS_SUBTITLES, re.compile(r"\[\d+\]\[\d*\]")),
    TimedText("LRC lyrics", _AS_SUBTITLES, re.compile(r"(?:\[\d+:\d\d[.:]\d{2,3}\])+\S")),
    TimedText(
        "lines that Whisper prints",
        _AS_SUBTITLES,
        re.compile(r"\[(?:\d+:)?\d\d:\d\d\.\d+ --> (?:\d+:)?\d\d:\d\d\.\d+\]"),
    ),
    TimedText("labels of Audacity", _AS_TABLE, re.compile(r"-?\d+[.,]\d+\t-?\d+[.,]\d+\t")),
    TimedText("RTTM", "it has no texts", re.compile(r"(?:SPEAKER|LEXEME) \S+ \S+ [\d.]+ [\d.]+ ")),
    TimedText("STM", _AS_TABLE, re.compile(r"\S+ \S+ \S+ \d+(?:\.\d+)? \d+\.\d+ \D")),
    TimedText("CTM", "give it as a hypothesis", re.compile(r"\S+ \S+ \d+\.\d+ \d+\.\d+ \S+( |$)")),
)
_CLOCK_TIME = r"[\[(]?(?:\d+:)?\d{1,2}:\d\d(?:[.,:;]\d+)?[\])]?"
_BEGINS_WITH_TIME = re.compile(rf"\s*{_CLOCK_TIME}(?:\s|$)")
_ENDS_WITH_TIME = re.compile(rf".*\S\s+{_CLOCK_TIME}:?\s*$")


def find_timed_text(head: str) -> TimedText | None:
    r"""Return the layout of a text with times of its own by its beginning; None for other texts.

    A layout of lines is that of at least half of the lines.

    Example:
        >>> find_timed_text("[00:01.50]Good day\n[00:03.00]to all\n").name
        'LRC lyrics'
    """
    for layout in _BY_BEGINNING:
        if layout.pattern.match(head) or _has_line(layout, head):
            return layout
    lines = [line for line in head.split("\n") if line.strip()]
    for layout in _BY_LINES:
        count = sum(layout.pattern.match(line) is not None for line in lines)
        if count >= _LEAST_LINES and 2 * count >= len(lines):
            return layout
    return None


def has_clock_times(text: str) -> bool:
    r"""Return whether a text is a transcript with times, as services and video pages show it.

    Times are at the beginnings of half of its lines, or at the ends of lines before the texts.

    Examples:
        >>> has_clock_times("0:00 Good day\n0:15 to all\n")
        True
        >>> has_clock_times("Speaker 1  0:00\nGood day\n\nSpeaker 2 (00:15):\nto all\n")
        True
        >>> has_clock_times("We meet at 10:30\nand have lunch at 12:00\n")
        False
    """
    lines = [line for line in text.split("\n") if line.strip()]
    begun = sum(_BEGINS_WITH_TIME.match(line) is not None for line in lines)
    if begun >= _LEAST_LINES and 2 * begun >= len(lines):
        return True
    ended = [number for number, line in enumerate(lines) if _ENDS_WITH_TIME.match(line)]
    return ended[:1] == [0] and _LEAST_LINES <= len(ended) <= len(lines) // 2


def _has_line(layout: TimedText, head: str) -> bool:
    """Return whether a layout that is recognized by a line has such a line anywhere."""
    is_of_lines = layout.pattern.flags & re.MULTILINE
    return bool(is_of_lines) and layout.pattern.search(head) is not None
