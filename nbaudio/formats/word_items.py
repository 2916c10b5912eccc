"""Read lists of words from the JSON of recognizers, which name the fields of a word differently."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.formats.timed_tokens import (
    NO_SIDE,
    NOT_FOUND,
    SOUNDS,
    TRANSLATIONS,
    Place,
    Side,
    Token,
    Utterance,
    seconds,
)

# How many units a second has.
MILLISECONDS = 1e3
TICKS = 1e7  # of 100 ns


@dataclass(frozen=True)
class TimeFields:
    """The names of the fields with the times of a word: its start, and its end or duration.

    Names are empty where there is no such field. `per_second` is how many units of time a second
    has.
    """

    start: str
    end: str = ""
    duration: str = ""
    per_second: float = 1.0

    def read(self, item: Mapping[str, Any]) -> tuple[float, float]:
        """Return start and end of a word in seconds, NaN where they are unknown."""
        start = seconds(item.get(self.start), self.per_second)
        end = seconds(item.get(self.end), self.per_second)
        if math.isnan(end):
            end = start + seconds(item.get(self.duration), self.per_second)
        return start, end


_START_AND_END = TimeFields("start", "end", "duration")
_START_TIME = TimeFields("start_time", "end_time", "duration")
_START_TIME_CAMEL = TimeFields("startTime", "endTime")
_OFFSET = TimeFields("offset", "", "duration")
#: Fields whose names do not state the unit: seconds, unless the words are too long for that.
_UNIT_UNKNOWN = (_START_AND_END, _START_TIME, _START_TIME_CAMEL, _OFFSET)
#: In the order of precedence: the first ones that a word has are read.
_TIME_FIELDS = (
    _START_AND_END,
    _START_TIME,
    _START_TIME_CAMEL,
    TimeFields("start_ms", "end_ms", "duration_ms", MILLISECONDS),
    TimeFields("startMs", "endMs", "durationMs", MILLISECONDS),
    TimeFields("start_time_ms", "end_time_ms", "", MILLISECONDS),
    TimeFields("startTimeMs", "endTimeMs", "", MILLISECONDS),
    TimeFields("ts", "end_ts"),  # Rev.ai
    TimeFields("BeginOffsetMillis", "EndOffsetMillis", "", MILLISECONDS),  # AWS Call Analytics
    TimeFields("offsetMilliseconds", "", "durationMilliseconds", MILLISECONDS),  # Azure
    TimeFields("offsetInTicks", "", "durationInTicks", TICKS),
    TimeFields("Offset", "", "Duration", TICKS),
    _OFFSET,
    TimeFields("startOffset", "endOffset"),  # Google, version 2
)
#: In the order of precedence.
_TEXT_FIELDS = (
    "punctuated_word",
    "word",
    "text",
    "Word",
    "displayText",
    "value",
    "content",
    "Content",
)
_CHANNEL_FIELDS = ("channel", "channel_index", "channel_label")
#: By the kind of an item (see `_kind`) that is no word of the recording, what is left out with it.
_LEFT_OUT = {
    **dict.fromkeys(("audio_event", "event", "sound", "noise", "music", "silence"), SOUNDS),
    "not-found-in-audio": NOT_FOUND,
    "translation": TRANSLATIONS,
}
_PUNCTUATION = frozenset({"punctuation", "punct"})


def read_words(
    place: Place,
    items: object,
    *,
    bounds: Mapping[str, Any] | None = None,
    side: Side = NO_SIDE,
    first_channel: int | None = None,
    unit: TimeFields | None = None,
) -> list[Utterance]:
    """Return the words of a list: an utterance for each side of the call.

    One without words has `side`. If items are left out, another utterance has their numbers.

    Args:
        place: of the list.
        items: words as objects, as text without times, or as lists of start, end and text.
        bounds: an object with the `start` and `end`, or `duration`, of all words.
        side: of words that name none.
        first_channel: the number that the file gives to the first channel; None if unknown.
        unit: the fields of times where the format states them; else they are those of each word.

    Raises:
        InputError: the words are no list, or one has no text.
    """
    if not isinstance(items, list):
        raise InputError(f"{place.where}: words that are no list: {items!r:.60}")
    tokens: dict[Side, list[Token]] = {}
    left_out = Counter[str]()
    has_stated_unit = unit is not None
    are_joined = _are_joined(items)
    for item in items:
        fields = _fields_of(item)
        if kind := _LEFT_OUT.get(_kind(fields)):
            left_out[kind] += 1
            continue
        side_of_word = side_of(fields, first_channel, side)
        times = unit or _time_fields(fields)
        has_stated_unit = has_stated_unit or times not in _UNIT_UNKNOWN
        token = _token(place, fields, times)
        if are_joined and _kind(fields) not in _PUNCTUATION:
            token = token._replace(text=f" {token.text}")
        tokens.setdefault(side_of_word, []).append(token)
    if not tokens:
        tokens[side] = []
    start, end = _START_AND_END.read(bounds or {})
    utterances = [
        Utterance(place, words, start, end, side_of_words, has_unit=has_stated_unit)
        for side_of_words, words in tokens.items()
    ]
    if left_out:
        utterances.append(Utterance(place, left_out=left_out))
    return utterances


def text_of(fields: Mapping[str, Any]) -> object:
    """Return the text of a word, or of the best of its `alternatives`; None if it has none."""
    if alternatives := objects(fields.get("alternatives")):
        return text_of(alternatives[0])
    name = next((name for name in _TEXT_FIELDS if name in fields), "")
    return fields.get(name)


def side_of(
    fields: Mapping[str, Any], first_channel: int | None = None, default: Side = NO_SIDE
) -> Side:
    """Return the side that an object names in a field of its channel, else `default`.

    `first_channel` is as for `numbered_side`.
    """
    for name in _CHANNEL_FIELDS:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return numbered_side(value, first_channel)
    return default


def numbered_side(label: object, first_channel: int | None) -> Side:
    """Return the side of a label such as ``1`` or ``ch_1``; NO_SIDE if it is not a string.

    Its channel counts from 0. It is None if the label has no number, or `first_channel`, the number
    that the file gives to the first channel, is unknown.
    """
    if not isinstance(label, str):
        return NO_SIDE
    number = label.removeprefix("ch_")
    if number.isascii() and number.isdigit() and first_channel is not None:
        return Side(label, max(0, int(number) - first_channel))
    return Side(label, None)


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; none if the value is no list."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    return []


def has_words(value: object) -> bool:
    """Return whether a value is text, and not blank."""
    return isinstance(value, str) and bool(value.strip())


def _fields_of(item: object) -> Mapping[str, Any]:
    """Return an item of a list of words as an object."""
    if isinstance(item, dict):
        return item
    if isinstance(item, list) and len(item) > 2:  # a named tuple of faster-whisper
        return {"start": item[0], "end": item[1], "word": item[2]}
    return {"word": item}


def _kind(fields: Mapping[str, Any]) -> str:
    """Return what an item says that it is, such as ``punctuation``; empty if it does not."""
    names = ("translation_status", "case", "type", "Type")
    kind = next((fields[name] for name in names if fields.get(name)), "")
    return kind if isinstance(kind, str) else ""


def _are_joined(items: Sequence[Any]) -> bool:
    """Return whether words come without blanks, and are to be joined by them.

    Then punctuation is an item of its own, which follows a word directly, and no item is a blank.
    """
    kinds = {_kind(item) for item in objects(items)}
    if kinds.isdisjoint(_PUNCTUATION):
        return False
    return not any(str(text_of(item)).isspace() for item in objects(items))


def _time_fields(fields: Mapping[str, Any]) -> TimeFields:
    """Return the fields of times that a word has; the usual ones if it has none."""
    for times in _TIME_FIELDS:
        if times.start in fields or (times.end and times.end in fields):
            return times
    return _START_AND_END


def _token(place: Place, fields: Mapping[str, Any], times: TimeFields) -> Token:
    """Return the word of an object; raise InputError if it has no text."""
    text = text_of(fields)
    if fields.keys().isdisjoint((*_TEXT_FIELDS, "alternatives")):
        names = ", ".join(map(str, fields)) or "none"
        raise InputError(f"{place.where}: a word without a text; its fields are {names}")
    if not isinstance(text, str | None):
        raise InputError(f"{place.where}: a word that is not text: {text!r:.60}")
    if _kind(fields) == "spacing":
        text = " "
    return Token(text or "", *times.read(fields))
