"""What readers of recognizers' output yield: tokens with times, and how they become words."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from nbaudio.core.errors import InputError

#: Of JSON and subtitles without the times of words, and what to do for Whisper.
NEEDED = "word times are needed; Whisper writes them with the option word_timestamps"

#: What is left out of a hypothesis, as reports name it.
SOUNDS = "sounds and silences in hypotheses"
NOT_FOUND = "words of hypotheses that were not found in the audio"
TRANSLATIONS = "translations in hypotheses"
ALTERNATIVES = "further alternatives of hypotheses"

_LATEST = 1e8  # seconds; a later time counts as unknown
_SLIGHTLY = 0.1  # seconds by which a word may end before it starts, as recognizers round times
_DURATION = re.compile(r"PT(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?")
_MOST_WORDS_OF_SOUND = 6  # most words of a sound in brackets
_UNKNOWN_WORDS = ("[unk]", "<unk>")


class Place(NamedTuple):
    """Where words are.

    Attributes:
        recording: as the file names it; None where it does not.
        where: file, line and item, for messages.
    """

    recording: str | None
    where: str

    def part(self, name: str) -> "Place":
        """Return the place of a part, such as ``segment 3``."""
        return Place(self.recording, f"{self.where}, {name}")


class Token(NamedTuple):
    """A word, or a part of one; `start` and `end` are in seconds, NaN where they are unknown."""

    text: str
    start: float
    end: float


class Side(NamedTuple):
    """A side of a call: its label in the file, and the channel it was recorded on, from 0."""

    label: str
    channel: int | None


#: Of files that name no sides.
NO_SIDE = Side("", None)


@dataclass(frozen=True)
class Utterance:
    """Tokens of one recording and side, in the order of the file.

    Attributes:
        place: of the tokens.
        tokens: where they begin with blanks, one that does not continues the word before it.
        start: seconds where the first token starts, if that has no time; NaN if unknown.
        end: seconds where the last token ends, if that has no time; NaN if unknown.
        side: of the call.
        left_out: numbers of what is no word, by what it is.
        has_unit: whether the format states the unit of times; if not, words that would last for
            minutes are in milliseconds.
    """

    place: Place
    tokens: Sequence[Token] = ()
    start: float = math.nan
    end: float = math.nan
    side: Side = NO_SIDE
    left_out: Mapping[str, int] = field(default_factory=dict)
    has_unit: bool = True


@dataclass(frozen=True)
class Words:
    """Words without blanks, and their edges in seconds: start, end, start, ...; NaN if unknown."""

    texts: list[str]
    edges: list[float]


def needs_word_times(place: Place, remedy: str = "") -> NoReturn:
    """Raise InputError for words without times; `remedy` says how a recognizer writes them."""
    reason = f"word times are needed; {remedy}" if remedy else NEEDED
    raise InputError(f"{place.where}: {reason}")


def seconds(value: object, per_second: float = 1.0) -> float:
    """Return a time in seconds, NaN if it is not usable.

    Times are numbers, clocks (``1:02:03.5``), ``1.5s``, ISO durations (``PT1M2.5S``), or
    ``{"seconds": 1, "nanos": 500000000}``.

    Args:
        value: the time, as a JSON file has it; numbers may be text.
        per_second: the units that a second has.
    """
    time = math.nan
    if isinstance(value, dict):
        time = _number(value.get("seconds", 0)) + _number(value.get("nanos", 0)) / 1e9
    elif isinstance(value, str) and (parts := _DURATION.fullmatch(value)):
        hours, minutes, rest = (_number(part or 0) for part in parts.groups())
        time = hours * 3600 + minutes * 60 + rest
    elif isinstance(value, str) and ":" in value:
        for part in value.replace(",", ".").split(":"):
            time = _number(part) + (0 if math.isnan(time) else time * 60)
    elif isinstance(value, str | float):
        time = _number(str(value).removesuffix("s")) / per_second
    return time if 0 <= time < _LATEST else math.nan


def _number(value: object) -> float:
    with suppress(ValueError):
        return float(str(value))
    return math.nan


def split_tokens(tokens: Sequence[Token]) -> Words:
    """Return the words of tokens.

    A token with blanks is several words, whose inner edges are unknown. Where tokens begin with
    blanks, one that does not continues the word before it; a token of blanks ends a word.
    """
    texts: list[str] = []
    edges: list[float] = []
    are_spaced = any(token.text[:1].isspace() for token in tokens[1:])
    is_open = False  # whether the last word may be continued
    for token in tokens:
        start, end = _ordered(token)
        parts = token.text.split()
        if parts and is_open and are_spaced and not token.text[0].isspace():
            if math.isnan(end) and not re.search(r"\w|%", token.text):
                end = edges[-1]  # punctuation has no time
            parts[0] = texts.pop() + parts[0]
            start = edges[-2]
            del edges[-2:]
        if parts:
            texts += parts
            edges += [start, *[math.nan] * (2 * len(parts) - 2), end]
        if token.text:
            is_open = bool(parts) and not token.text[-1].isspace()
    return Words(texts, edges)


def _ordered(token: Token) -> tuple[float, float]:
    """Return start and end of a token; unknown ones if it ends before it starts."""
    if not token.end < token.start:
        return token.start, token.end
    if token.start - token.end <= _SLIGHTLY:
        return token.start, token.start
    return math.nan, math.nan


def leave_out_sounds(words: Words) -> tuple[Words, int]:
    """Return words without sounds in square brackets, such as ``[Music]``, and their number.

    An unknown word, ``[unk]``, is a word.
    """
    if not any(text.startswith("[") for text in words.texts):
        return words, 0
    texts: list[str] = []
    edges: list[float] = []
    sounds = 0
    row = 0
    while row < len(words.texts):
        if stop := _end_of_sound(words.texts, row):
            sounds += 1
            row = stop
            continue
        texts.append(words.texts[row])
        edges += words.edges[2 * row : 2 * row + 2]
        row += 1
    return Words(texts, edges), sounds


def _end_of_sound(texts: Sequence[str], start: int) -> int:
    """Return the row behind a sound in brackets that begins at a row; 0 if none begins there."""
    if not texts[start].startswith("[") or texts[start].lower() in _UNKNOWN_WORDS:
        return 0
    stops = range(start + 1, min(len(texts), start + _MOST_WORDS_OF_SOUND) + 1)
    return next((stop for stop in stops if "]" in texts[stop - 1]), 0)


def is_mark(text: str) -> bool:
    """Return whether a word of CTM is a mark of silence or noise, as Kaldi writes them.

    Example:
        >>> [is_mark(text) for text in ("<eps>", "[noise]", "!SIL", "<unk>", "sil")]
        [True, True, True, False, False]
    """
    is_enclosed = re.fullmatch(r"\[.*\]|<.*>", text) is not None
    is_silence = text.upper() in {"!SIL", "!ENTER", "!EXIT"}
    return is_silence or (is_enclosed and text.lower() not in _UNKNOWN_WORDS)


def decode_split_characters(texts: Iterable[str], place: Place) -> list[str]:
    """Return words whose bytes were escaped because a token ends inside of a character.

    Raise InputError if their bytes are not UTF-8 either.
    """
    try:
        return [text.encode("utf8", "surrogateescape").decode("utf8") for text in texts]
    except UnicodeDecodeError as error:
        raise InputError(f"{place.where}: not utf-8 text") from error
