"""Answers of recognizers with the times of words or segments, and their places in a recording.

`read_answer` reads the forms that recognizers return for a chunk. `place_answer` moves the times of
a chunk into the recording; it states what it does with unusable ones.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbaudio.recognition.chunks import RATE
from nbaudio.recognition.recognizers import AnswerForm, Failure, read_text

#: Counts of an answer, by the names in reports.
WORDS = "words"
WORDS_WITHOUT_TIMES = "words_without_times"
WORDS_CLIPPED = "words_clipped"
SEGMENTS_WITHOUT_WORDS = "segments_without_word_times"

_CONFIDENCES = ("confidence", "probability", "score", "conf")
_WORD_TEXTS = ("word", "text")
_SAMPLES_PER_MS = RATE // 1000
# A time before the first, or after both the second and the end of the chunk, is in another unit or
# counts from elsewhere. Whisper pads chunks to 30 s with silence, and hears words in it.
_BEFORE_MS = -1000
_BEHIND_MS = 31_000
_EXPECTED = "a string, words with start and end, or segments with start and end"


class _FormError(Exception):
    """An answer has none of the forms that are read; the message is the reason of a failure."""


@dataclass(frozen=True)
class TimedWord:
    """A word of a chunk.

    Attributes:
        text: not empty.
        start: seconds from the start of the chunk; NaN if it is missing or no number.
        end: likewise.
        confidence: as the recognizer returns it; None without one.
    """

    text: str
    start: float
    end: float
    confidence: float | None


@dataclass(frozen=True)
class TimedSegment:
    """A text of a chunk, with times as in `TimedWord`.

    `words` is None if the recognizer returns no words with times.
    """

    text: str
    start: float
    end: float
    words: tuple[TimedWord, ...] | None


Answer = tuple[TimedSegment, ...]


@dataclass(frozen=True)
class PlacedAnswer:
    """The segments of a chunk as JSON values, times in seconds of the recording, with counts."""

    segments: list[dict[str, Any]]
    counts: dict[str, int]


def read_answer(value: object) -> Answer | Failure:
    """Read the answer of a recognizer for a chunk; return a failure if it has another form.

    Times are seconds from the start of the chunk. An answer is a string, a list, or a dict or an
    object with attributes:

    - a string: a text without times;
    - `words`, each with `word` (or `text`), `start`, `end` and perhaps `confidence`,
      `probability` or `score`; or a list of such words;
    - `segments`, each with `text`, `start`, `end` and perhaps `words`; or a list of such segments;
    - `chunks`, each with `text` and `timestamp`, of transformers: words if no text has a blank
      inside, else segments;
    - `tokens` with `timestamps`, of onnx-asr: a token with a leading blank begins a word;
    - `timestamp` with lists `word` or `segment`, of NeMo;
    - `text` alone.
    """
    try:
        return _answer(value)
    except _FormError as error:
        return Failure(str(error))


def _read_line(line: Mapping[str, Any]) -> Answer | Failure:
    """Return the answer in a line of a command."""
    if line.keys().isdisjoint({"text", "words", "segments", "chunks"}):
        raise KeyError("text")
    return read_answer(line)


#: Answers with times.
TIMED = AnswerForm(read_answer, _read_line, '{"id": ..., "words": ...} or "segments" or "text"')


def _answer(value: object) -> Answer:
    """Return an answer; raise _FormError if it has none of the forms."""
    if isinstance(value, str):
        return (TimedSegment(_text(value), math.nan, math.nan, None),)
    if isinstance(value, list | tuple):
        return _answer_of_list(value)
    for name, read in _READERS.items():
        items = _field(value, name)
        if items is not None:
            return read(value, items)
    raise _FormError(f"its answer is neither {_EXPECTED}, but {_shown(value)}")


def _answer_of_list(items: Sequence[object]) -> Answer:
    """Return the answer that is a list of words, or of segments."""
    if items and all(_field(item, "word") is not None for item in items):
        return (_segment_of_words("", items),)
    return tuple(map(_segment, items))


def _of_words(value: object, words: object) -> Answer:
    return (_segment_of_words(_optional_text(_field(value, "text")), _list(words, "words")),)


def _of_segments(_value: object, segments: object) -> Answer:
    return tuple(map(_segment, _list(segments, "segments")))


def _of_chunks(value: object, chunks: object) -> Answer:
    """Return the answer of a pipeline of transformers."""
    items = _list(chunks, "chunks")
    texts = [_text(_field(item, "text")) for item in items]
    times = [_pair(_field(item, "timestamp")) for item in items]
    if any(" " in text for text in texts):
        return tuple(
            TimedSegment(text, start, end, None)
            for text, (start, end) in zip(texts, times, strict=True)
        )
    words = [
        TimedWord(text, start, end, None)
        for text, (start, end) in zip(texts, times, strict=True)
        if text
    ]
    return (_with_words(_optional_text(_field(value, "text")), words),)


def _of_tokens(value: object, tokens: object) -> Answer:
    """Return the answer of onnx-asr; the end of a word is the time of its last token."""
    texts = [str(token) for token in _list(tokens, "tokens")]
    times = [_number(time) for time in _list(_field(value, "timestamps"), "timestamps")]
    if len(times) != len(texts):
        raise _FormError(f"it has {len(texts)} tokens and {len(times)} timestamps")
    words: list[TimedWord] = []
    for text, time in zip(texts, times, strict=True):
        part = text.replace("\N{LOWER ONE EIGHTH BLOCK}", " ")  # the blank of SentencePiece
        if not words or part[:1].isspace():
            words.append(TimedWord(part.strip(), time, time, None))
        else:
            last = words[-1]
            words[-1] = TimedWord(last.text + part, last.start, time, None)
    spoken = [word for word in words if word.text]
    return (_with_words(_optional_text(_field(value, "text")), spoken),)


def _of_nemo(value: object, timestamp: object) -> Answer:
    """Return the answer of NeMo's hypotheses."""
    words = _field(timestamp, "word")
    if words is not None:
        return _of_words(value, words)
    segments = _field(timestamp, "segment")
    if segments is None:
        raise _FormError("its timestamp has neither word nor segment")
    return tuple(
        TimedSegment(_text(_field(item, "segment")), *_times(item), None)
        for item in _list(segments, "segment")
    )


def _of_text(_value: object, text: object) -> Answer:
    return (TimedSegment(_text(text), math.nan, math.nan, None),)


# The readers of objects, by the field that an object must have; the first that it has decides.
# A reader gets the object and the value of the field.
_READERS = {
    "segments": _of_segments,
    "words": _of_words,
    "chunks": _of_chunks,
    "tokens": _of_tokens,
    "timestamp": _of_nemo,
    "text": _of_text,
}


def _segment(item: object) -> TimedSegment:
    """Return a segment; raise _FormError if it has no text."""
    words = _field(item, "words")
    text = _field(item, "text")
    if words is None:
        if text is None:
            raise _FormError(f"a segment has neither text nor words: {_shown(item)}")
        return TimedSegment(_text(text), *_times(item), None)
    with_words = _segment_of_words(_optional_text(text), _list(words, "words"))
    return TimedSegment(with_words.text, *_times(item), with_words.words)


def _segment_of_words(text: str, items: Sequence[object]) -> TimedSegment:
    """Return a segment with the words of a list, and without times of its own."""
    words = [_word(item) for item in items]
    return _with_words(text, [word for word in words if word.text])


def _with_words(text: str, words: Sequence[TimedWord]) -> TimedSegment:
    """Return a segment with words and without times; an empty text is that of the words."""
    joined = text or " ".join(word.text for word in words)
    return TimedSegment(joined, math.nan, math.nan, tuple(words))


def _word(item: object) -> TimedWord:
    """Return a word; raise _FormError if it has no text."""
    text = _first_field(item, _WORD_TEXTS)
    if text is None:
        raise _FormError(f"a word has no text: {_shown(item)}")
    start, end = _times(item)
    confidence = _number(_first_field(item, _CONFIDENCES))
    return TimedWord(_text(text), start, end, None if math.isnan(confidence) else confidence)


def _times(item: object) -> tuple[float, float]:
    """Return start and end of a word or segment in seconds, NaN if missing or no numbers."""
    pair = _field(item, "timestamp")
    if pair is not None:
        return _pair(pair)
    return _number(_field(item, "start")), _number(_field(item, "end"))


def _pair(times: object) -> tuple[float, float]:
    """Return a pair of times in seconds, both NaN if there are not two."""
    if isinstance(times, list | tuple) and len(times) == 2:
        return _number(times[0]), _number(times[1])
    return math.nan, math.nan


def _number(value: Any) -> float:
    """Return a number, also of NumPy or a tensor; NaN for anything else."""
    if value is None or isinstance(value, str | bytes | bool):
        return math.nan
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - whatever the class of a value raises
        return math.nan
    return number if math.isfinite(number) else math.nan


def _field(value: object, name: str) -> Any:
    """Return a field of a dict or an attribute of an object, None without it."""
    if isinstance(value, Mapping):
        return value.get(name)
    if isinstance(value, str | bytes | int | float | list | tuple) and not hasattr(
        value, "_fields"
    ):
        return None  # their methods are no fields
    return getattr(value, name, None)


def _first_field(value: object, names: Sequence[str]) -> Any:
    """Return the first of some fields that is not None; None without any."""
    fields = (_field(value, name) for name in names)
    return next((field for field in fields if field is not None), None)


def _list(value: object, name: str) -> Sequence[object]:
    if isinstance(value, list | tuple):
        return value
    raise _FormError(f"its {name} are no list, but {_shown(value)}")


def _text(value: object) -> str:
    """Return normalized text; raise _FormError if a value is none."""
    text = read_text(value)
    if isinstance(text, Failure):
        raise _FormError(text.reason)
    return text


def _optional_text(value: object) -> str:
    return "" if value is None else _text(value)


def _shown(value: object) -> str:
    return f"{type(value).__name__} {str(value)[:60]!r}"


def place_answer(answer: Answer, start: int, stop: int) -> PlacedAnswer | Failure:
    """Return an answer with times in seconds of the recording, rounded to milliseconds.

    The chunk is from sample `start` to `stop`, at 16 kHz. Times beyond its edges are set to the
    edge. A word has no times if one of them is no number, or if the end precedes the start. A
    segment without usable times has those of its words, or else of the chunk.

    The answer is a failure if most words (segments, if there are no words) start more than a second
    before the chunk, or after both its end and 31 s: their times are in another unit or count from
    elsewhere.
    """
    bounds = _Bounds(start // _SAMPLES_PER_MS, stop // _SAMPLES_PER_MS)
    words = [word for segment in answer for word in segment.words or ()]
    timed_items: Sequence[TimedWord | TimedSegment] = words or answer
    num_outside = sum(bounds.is_outside(item.start) for item in timed_items)
    if 2 * num_outside > len(timed_items):
        return Failure(
            f"most times are outside of the chunk of {bounds.length_ms / 1000:g} s, "
            f"such as {_first_outside(timed_items, bounds):g}; "
            "they have to be seconds from its start"
        )
    counts = Counter[str]()
    segments = [_placed_segment(segment, bounds, counts) for segment in answer]
    return PlacedAnswer([segment for segment in segments if segment], dict(counts))


@dataclass(frozen=True)
class _Bounds:
    """The times of a chunk in milliseconds of the recording."""

    start_ms: int
    stop_ms: int

    @property
    def length_ms(self) -> int:
        """The length of the chunk."""
        return self.stop_ms - self.start_ms

    def is_outside(self, time: float) -> bool:
        """Return whether a time in seconds cannot be one of the chunk."""
        return 1000 * time < _BEFORE_MS or 1000 * time > max(self.length_ms, _BEHIND_MS)

    def clip(self, time: float) -> float:
        """Return a time of the chunk, in seconds, moved to its edge if it is outside."""
        return min(max(time, 0.0), self.length_ms / 1000)

    def place(self, time: float) -> float:
        """Return a time of the chunk as seconds of the recording, rounded to milliseconds."""
        return (self.start_ms + round(1000 * self.clip(time))) / 1000


def _first_outside(items: Sequence[TimedWord | TimedSegment], bounds: _Bounds) -> float:
    return next(item.start for item in items if bounds.is_outside(item.start))


def _placed_segment(
    segment: TimedSegment, bounds: _Bounds, counts: Counter[str]
) -> dict[str, Any] | None:
    """Return a segment as JSON values, None without text; add its words to `counts`."""
    if not segment.text and not segment.words:
        return None
    words = [_placed_word(word, bounds, counts) for word in segment.words or ()]
    timed_words = [word for word in words if "start" in word]
    start = bounds.start_ms / 1000
    end = bounds.stop_ms / 1000
    # A segment may have a start alone; comparisons with NaN are false.
    if segment.end >= segment.start:
        start = bounds.place(segment.start)
        end = bounds.place(segment.end)
    elif math.isnan(segment.end) and not math.isnan(segment.start):
        start = bounds.place(segment.start)
    elif timed_words:
        start = min(word["start"] for word in timed_words)
        end = max(word["end"] for word in timed_words)
    placed: dict[str, Any] = {"start": start, "end": end, "text": segment.text}
    if segment.words is None:
        counts[SEGMENTS_WITHOUT_WORDS] += 1
    else:
        placed["words"] = words
    return placed


def _placed_word(word: TimedWord, bounds: _Bounds, counts: Counter[str]) -> dict[str, Any]:
    """Return a word as JSON values; add it to `counts`."""
    counts[WORDS] += 1
    placed: dict[str, Any] = {"word": word.text}
    if word.end >= word.start:  # false if one of them is NaN
        if bounds.clip(word.start) != word.start or bounds.clip(word.end) != word.end:
            counts[WORDS_CLIPPED] += 1
        placed["start"] = bounds.place(word.start)
        placed["end"] = bounds.place(word.end)
    else:
        counts[WORDS_WITHOUT_TIMES] += 1
    if word.confidence is not None:
        placed["confidence"] = round(word.confidence, 4)
    return placed
