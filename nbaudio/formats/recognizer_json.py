"""Read JSON of recognizers and aligners that run on one's own machines.

Those of services are in `nbaudio.formats.service_json`, which of them a file is in
`nbaudio.formats.recognizer_layouts`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.formats.timed_tokens import (
    ALTERNATIVES,
    SOUNDS,
    Place,
    Token,
    Utterance,
    is_mark,
    needs_word_times,
    seconds,
)
from nbaudio.formats.word_items import MILLISECONDS, has_words, objects, read_words, side_of

#: Lists of parts of a recording that have words.
PARTS = ("segments", "utterances", "sentences", "paragraphs", "word_segments")

# Of whisper.cpp, such as [_BEG_] and <|endoftext|>
_CONTROL_TOKEN = re.compile(r"\s*(?:\[_\w+\]|<\|[^|<>]*\|>)\s*")
_WORD_TIER = re.compile(r"(?:.* - )?words?", re.IGNORECASE)
_MOST_BEFORE = 1.0  # seconds by which the words of a segment may end before the segment starts
_EXPECTED = (
    "expected CTM, JSON of a recognizer with words and their times, word-timed SRT or WebVTT, "
    "or ParlaSpeech JSON lines"
)


def no_words(where: str, fields: Iterable[str] = ()) -> InputError:
    """Return the error for a file or item, with those fields, that has no timed words."""
    names = ", ".join(fields)
    has = f"; its fields are {names:.200}" if names else ""
    return InputError(f"{where}: no timed words; {_EXPECTED}{has}")


def read_parlaspeech(place: Place, row: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of a line of ParlaSpeech, whose times count from its `start`."""
    words = row.get("words")
    starts = row["word_start_times"]
    start = row.get("start")
    ends = row.get("word_end_times") or [None] * len(starts)
    if isinstance(words, str):
        words = words.split()
    lists = [words, starts, ends]
    if not all(isinstance(values, list) and len(values) == len(starts) for values in lists):
        reason = "words, word_start_times and word_end_times are not lists of one length"
        raise InputError(f"{place.where}: {reason}")
    offset = 0.0 if start is None else seconds(start)
    if math.isnan(offset):
        raise InputError(f"{place.where}: the start is not a time: {start!r:.60}")
    tokens = [
        Token(_text(place, word), offset + seconds(word_start), offset + seconds(word_end))
        for word, word_start, word_end in zip(*lists, strict=True)
    ]
    yield Utterance(place, tokens, offset, seconds(row.get("end")))


def read_whisper(place: Place, value: object) -> Iterator[Utterance]:
    """Yield the words of Whisper and all that write as it does.

    There are `words`, or `segments` or other `PARTS` with `words`; or the value is a segment or
    a word itself. Words without times, such as WhisperX's digits, share the time between others.
    """
    parts = [(place, value)]
    if isinstance(value, dict) and not value.get("words"):
        name = next((name for name in PARTS if isinstance(value.get(name), list)), None)
        if name is not None:
            yield Utterance(place)
            part = name.removesuffix("s").replace("_", " ")
            parts = [
                (place.part(f"{part} {number}"), item) for number, item in enumerate(value[name], 1)
            ]
    for place_of_part, item in parts:
        yield from _read_part(place_of_part, item)


def _read_part(place: Place, part: object) -> Iterator[Utterance]:
    """Yield the words of a segment, or of a word itself; raise InputError if there are none."""
    fields = part if isinstance(part, dict) else {}
    words = _words_or_tokens(fields)
    if isinstance(words, list):
        spoken = words or [fields.get("text")]
        for utterance in read_words(place, spoken, bounds=fields, side=side_of(fields)):
            _check_start(utterance)
            yield utterance
    elif fields.keys().isdisjoint({"word", "text"}):
        raise no_words(place.where, fields)
    elif len(str(fields.get("word", fields.get("text"))).split()) > 1:
        needs_word_times(place)
    else:
        yield from read_words(place, [fields])


def _words_or_tokens(fields: Mapping[str, Any]) -> object:
    """Return the words of a part, or its tokens if these have texts and times."""
    words = fields.get("words")
    tokens = objects(fields.get("tokens"))
    is_timed = any(not token.keys().isdisjoint({"start", "start_ms"}) for token in tokens)
    if is_timed and not isinstance(words, list):
        return tokens
    return words


def _check_start(utterance: Utterance) -> None:
    """Raise InputError if all words are in front of their segment: they count from its start."""
    ends = [token.end for token in utterance.tokens if token.end >= 0]
    if ends and max(ends) < utterance.start - _MOST_BEFORE:
        reason = (
            f"its words end at {max(ends):g} s, and it starts at {utterance.start:g} s: "
            "times of words have to count from the start of the recording"
        )
        raise InputError(f"{utterance.place.where}: {reason}")


def read_whisper_cpp(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the tokens of whisper.cpp, or its segments where each is a word.

    All are one utterance, since words may continue behind the end of a segment.
    """
    segments = objects(value["transcription"])
    items = [token for segment in segments for token in objects(segment.get("tokens"))]
    if not items:
        items = segments
        for number, segment in enumerate(segments, 1):
            if len(str(segment.get("text")).split()) > 1:
                remedy = "whisper.cpp writes them with --output-json-full, or --max-len 1"
                needs_word_times(place.part(f"segment {number}"), remedy)
    spoken = [item for item in items if not _CONTROL_TOKEN.fullmatch(str(item.get("text")))]
    yield Utterance(place, [_whisper_cpp_token(place, item) for item in spoken])


def _whisper_cpp_token(place: Place, item: Mapping[str, Any]) -> Token:
    """Return a token, whose times are milliseconds or clocks."""
    offsets = item.get("offsets")
    if isinstance(offsets, dict):
        start, end = (seconds(offsets.get(name), MILLISECONDS) for name in ("from", "to"))
    else:
        clocks = item.get("timestamps") or {}
        start, end = (seconds(clocks.get(name)) for name in ("from", "to"))
    return Token(_text(place, item.get("text")), start, end)


def read_transformers(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of a pipeline of transformers."""
    tokens: list[Token] = []
    for number, chunk in enumerate(objects(value["chunks"]), 1):
        text = _text(place, chunk.get("text"))
        if len(text.split()) > 1:
            remedy = 'transformers writes them with return_timestamps="word"'
            needs_word_times(place.part(f"chunk {number}"), remedy)
        times = chunk.get("timestamp")
        if not isinstance(times, list) or len(times) != 2:
            times = [None, None]
        tokens.append(Token(text, seconds(times[0]), seconds(times[1])))
    yield Utterance(place, tokens)


def is_nemo(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a line of NeMo's manifests, or one of its hypotheses."""
    names = {"pred_text", "timestamps_word", "words_level_ctm_filepath"}
    return not names.isdisjoint(value) or isinstance(_nemo_words(value), list)


def read_nemo(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of a line that NeMo wrote; its times count from the line's `offset`."""
    words = _nemo_words(value)
    if not isinstance(words, list):
        if has_words(value.get("pred_text")):
            remedy = "NeMo writes them with timestamps=true, its forced aligner as CTM"
            needs_word_times(place, remedy)
        words = []
    if words and not any("start" in word for word in objects(words)):
        reason = "NeMo's start_offset counts frames of the model; later versions write start, too"
        needs_word_times(place, reason)
    offset = seconds(value.get("offset") or "0")
    for utterance in read_words(place, words):
        tokens = [
            Token(token.text, offset + token.start, offset + token.end)
            for token in utterance.tokens
        ]
        yield Utterance(place, tokens, left_out=utterance.left_out)


def _nemo_words(value: Mapping[str, Any]) -> object:
    for name in ("timestamp", "timestep", "timestamps"):
        times = value.get(name)
        if isinstance(times, dict) and "word" in times:
            return times["word"]
    return value.get("timestamps_word")


def is_vosk(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a result of Vosk: a whole one, or a partial one."""
    is_partial = isinstance(value.get("partial"), str) and "text" not in value
    return is_partial or any(
        isinstance(result.get("result"), list)
        for result in (value, *objects(value.get("alternatives")))
    )


def read_vosk(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of a result of Vosk, the first one of alternatives.

    Partial results have no words: they are repeated in a whole one.
    """
    alternatives = objects(value.get("alternatives")) or [dict(value)]
    yield from read_words(place, alternatives[0].get("result") or [])
    if len(alternatives) > 1:
        yield Utterance(place, left_out={ALTERNATIVES: len(alternatives) - 1})


def read_monologues(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of Rev.ai, or of vosk-transcriber."""
    for number, monologue in enumerate(objects(value["monologues"]), 1):
        items = monologue.get("elements") or monologue.get("terms") or []
        yield from read_words(place.part(f"monologue {number}"), items)


def read_transcripts(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of the first of DeepSpeech's or Coqui's transcripts."""
    transcripts = objects(value["transcripts"])
    words: list[Any] = []
    if transcripts:
        words = transcripts[0].get("words") or []
    yield from read_words(place, words)
    if len(transcripts) > 1:
        yield Utterance(place, left_out={ALTERNATIVES: len(transcripts) - 1})


def read_tiers(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of the Montreal Forced Aligner: tiers of words, of each speaker."""
    tiers = value["tiers"]
    if isinstance(tiers, list):
        tiers = {str(tier.get("name")): tier for tier in objects(tiers)}
    if not isinstance(tiers, dict):
        raise InputError(f"{place.where}: tiers that are no object: {tiers!r:.60}")
    names = [name for name in tiers if _WORD_TIER.fullmatch(name)]
    if not names:
        has = ", ".join(tiers) or "none"
        raise InputError(f"{place.where}: no tier of words; it has the tiers {has}")
    for name in names:
        match tiers[name]:
            case {"entries": [*entries]}:
                yield from _read_entries(place.part(f"tier {name}"), entries)
            case _:
                raise InputError(f"{place.where}: the entries of tier {name} are no list")


def _read_entries(place: Place, entries: list[object]) -> Iterator[Utterance]:
    """Yield the intervals of a tier, which are start, end and label."""
    tokens: list[Token] = []
    sounds = 0
    for entry in entries:
        match entry:
            case [start, end, str(label)] if not label.strip():
                continue
            case [start, end, str(label)] if is_mark(label):
                sounds += 1
            case [start, end, str(label)]:
                tokens.append(Token(label.strip(), seconds(start), seconds(end)))
            case _:
                expected = "expected start, end and label"
                raise InputError(f"{place.where}: {expected}, not {entry!r:.60}")
    left_out = {SOUNDS: sounds} if sounds else {}
    yield Utterance(place, tokens, left_out=left_out)


def _text(place: Place, value: object) -> str:
    if not isinstance(value, str | None):
        raise InputError(f"{place.where}: a word that is not text: {value!r:.60}")
    return value or ""
