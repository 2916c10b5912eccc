"""Read subtitles with times of words: SRT and WebVTT."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.formats.subtitle_cues import cues, without_tags
from nbaudio.formats.timed_tokens import NEEDED, Place, Token, Utterance, seconds
from nbaudio.formats.transcripts import decode_text, unescape

#: What the beginning of a file of subtitles has.
CUES = re.compile(r"(?m)^(?:WEBVTT|[ \t]*[\d:.,]+[ \t]*-->[ \t]*\d)")

_CLOCK = re.compile(r"<((?:\d+:)?\d+:\d+\.?\d*)>")
_UNDERLINED = re.compile(r"(\S?)<u>([^<>]*)</u>")

_Cue = Mapping[str, Any]


def read_timed_cues(path: Path) -> Iterator[Utterance]:
    """Yield the words of cues: one a cue, with clocks between them, or underlined in turn.

    Words that several cues show, as they are underlined in turn or lines roll up, come only once.

    Raises:
        InputError: a cue is broken, or has several words without times.
    """
    text = decode_text(input_guards.read_all(path))
    has_clocks = bool(_CLOCK.search(text))
    shown = ""
    for spoken, repeats in groupby(_cues(path, text), key=lambda cue: str(cue["text"])):
        run = list(repeats)
        underlined: list[Token] = []
        tokens: list[Token] = []
        for cue in run:
            underlined += _underlined_tokens(cue)
            lines, shown = _new_lines(cue, shown if has_clocks else None)
            tokens += _clocked_tokens(cue, lines)
        place = Place(None, f"{path}, line {run[-1]['line']}")
        _check_words(place, spoken, underlined, has_clocks=has_clocks)
        yield Utterance(place, underlined or tokens)


def _cues(path: Path, text: str) -> list[_Cue]:
    rows: list[_Cue] = []
    for row in cues(text):
        if isinstance(row, tuple):
            raise InputError(f"{path}, line {row[0]}: {row[1]}")
        rows.append(row)
    return rows


def _underlined_tokens(cue: _Cue) -> Iterator[Token]:
    start, end = (seconds(cue[name]) for name in ("source_start", "source_end"))
    for before, word in _UNDERLINED.findall(" ".join(cue["lines"])):
        blank = "" if before else " "
        yield Token(blank + _plain(word), start, end)


def _new_lines(cue: _Cue, shown: str | None) -> tuple[list[str], str]:
    """Return the lines of a cue that the one before did not show, and the last line that is shown.

    `shown` is the last line of the cue before; None where lines do not roll up.
    """
    lines = list(cue["lines"])
    visible = [_plain(line).strip() for line in lines]
    is_repeated = shown is not None and visible[:1] == [shown] and not _CLOCK.search(lines[0])
    last = next(filter(None, reversed(visible)), shown or "")
    return lines[is_repeated:], last


def _clocked_tokens(cue: _Cue, lines: Iterable[str]) -> Iterator[Token]:
    """Yield what is between the clocks of a cue."""
    pieces = _CLOCK.split(" ".join(lines))
    times = [seconds(time) for time in (cue["source_start"], *pieces[1::2], cue["source_end"])]
    for row, piece in enumerate(pieces[::2]):
        yield Token(_plain(piece), times[row], times[row + 1])


def _check_words(
    place: Place, spoken: str, underlined: Iterable[Token], *, has_clocks: bool
) -> None:
    """Raise InputError if not every word of a cue has a time."""
    words = "".join(token.text for token in underlined).split()
    if words and set(words) != set(spoken.split()):
        reason = "underlined words are not the words of the cue, one after the other"
        raise InputError(f"{place.where}: {reason}")
    if not (has_clocks or words) and len(re.findall(r"\w\S*", spoken)) > 1:
        raise InputError(f"{place.where}: several words in one cue; {NEEDED}")


def _plain(text: str) -> str:
    return unescape(without_tags(text))
