"""Read JSON of recognizers that are services: Google, AWS, Azure, Deepgram and others.

What they send while somebody speaks, and replace later, is not read.

The names of their fields of words are in `nbaudio.formats.word_items`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.formats.timed_tokens import (
    ALTERNATIVES,
    NO_SIDE,
    SOUNDS,
    Place,
    Side,
    Token,
    Utterance,
    needs_word_times,
    seconds,
)
from nbaudio.formats.word_items import (
    MILLISECONDS,
    TimeFields,
    has_words,
    numbered_side,
    objects,
    read_words,
)

_WRITES_WORDS = {
    "AssemblyAI": "AssemblyAI writes them in words",
    "AWS": "AWS Transcribe writes them in items",
    "ElevenLabs": "ElevenLabs writes them with timestamps_granularity",
    "Gladia": "Gladia writes them in words of each utterance",
    "Watson": "Watson writes them with timestamps=true",
    "Google": "Google writes them with enableWordTimeOffsets",
    "Azure": "Azure writes them with wordLevelTimestampsEnabled",
    "Deepgram": "Deepgram writes them in words of each alternative",
}
_WATSON_SOUND = "%HESITATION"
# Of a stream of Deepgram, without words.
_DEEPGRAM_MESSAGES = frozenset({"Metadata", "SpeechStarted", "UtteranceEnd"})


# Google


def google_results(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results of Google's JSON; none of other JSON.

    They may be of a finished operation, or of a batch of one file.
    """
    response = value.get("response")
    batch = value.get("results")
    if isinstance(batch, dict) and len(batch) == 1:
        (file,) = batch.values()
        response = _field(file, "transcript")
    results = objects(_field(response, "results")) or objects(batch)
    if any("alternatives" in result for result in results):
        return results
    return []


def read_google(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of the first alternative of each result.

    With speakers, the last result repeats the words of all: it alone is read.
    """
    by_side: dict[Side, list[Mapping[str, Any]]] = {}
    for result in google_results(value):
        if False in (result.get("isFinal"), result.get("is_final")):
            continue
        tag = result.get("channelTag", result.get("channel_tag"))
        by_side.setdefault(numbered_side(tag, first_channel=1), []).append(result)
    for side, results in by_side.items():
        further = sum(max(0, len(objects(result.get("alternatives"))) - 1) for result in results)
        if further:
            yield Utterance(place, left_out={ALTERNATIVES: further})
        for spoken in _without_repeats(results):
            yield from _read_alternative(place, side, spoken, "Google")


def _without_repeats(results: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the last result alone if it has the words of all others."""
    lists = [_words_of(result) for result in results]
    *before, last = lists
    spoken = [words for words in before if words]
    if not spoken or len(last) < sum(map(len, spoken)):
        return results
    if _start(last) > _start(spoken[0]):
        return results
    return results[-1:]


def _field(value: object, name: str) -> Any:
    """Return a field of an object; None for what is no object."""
    if isinstance(value, dict):
        return value.get(name)
    return None


def _words_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    alternatives = objects(result.get("alternatives"))
    if not alternatives:
        return []
    return objects(alternatives[0].get("words"))


def _start(words: Sequence[Mapping[str, Any]]) -> float:
    names = ("startTime", "start_time", "startOffset", "start_offset")
    time = next((words[0][name] for name in names if name in words[0]), "0")
    return seconds(time)


def _read_alternative(
    place: Place, side: Side, result: Mapping[str, Any], service: str
) -> Iterator[Utterance]:
    """Yield the words of the first alternative of a result or channel."""
    alternatives = objects(result.get("alternatives"))
    if not alternatives:
        return
    first = alternatives[0]
    words = _words_or_none(place, first.get("words"), [first.get("transcript")], service)
    yield from _of_side(read_words(place, words), side)


def _words_or_none(place: Place, words: Any, texts: Iterable[object], service: str) -> Any:
    """Return words, or an empty list if a result has neither words nor text.

    Raise InputError if it has a text without words.
    """
    if not words and any(map(has_words, texts)):
        needs_word_times(place, _WRITES_WORDS[service])
    return words or []


def _of_side(utterances: Sequence[Utterance], side: Side) -> Iterator[Utterance]:
    """Yield copies of utterances with another side."""
    for utterance in utterances:
        yield Utterance(
            utterance.place,
            utterance.tokens,
            utterance.start,
            utterance.end,
            side,
            left_out=utterance.left_out,
            has_unit=utterance.has_unit,
        )


# IBM Watson


def is_watson(value: Mapping[str, Any]) -> bool:
    """Return whether an object is of IBM Watson, whose words are lists of text, start and end."""
    return any(
        isinstance(alternative.get("timestamps"), list)
        for result in objects(value.get("results"))
        for alternative in objects(result.get("alternatives"))
    )


def read_watson(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of the first alternative of each final result."""
    for result in objects(value["results"]):
        alternatives = objects(result.get("alternatives"))
        if not alternatives or result.get("final") is False:
            continue
        times = alternatives[0].get("timestamps") or []
        words = _words_or_none(place, times, [alternatives[0].get("transcript")], "Watson")
        if not isinstance(words, list):
            raise InputError(f"{place.where}: timestamps that are no list: {words!r:.60}")
        tokens = [_watson_token(place, word) for word in words]
        spoken = [token for token in tokens if token.text != _WATSON_SOUND]
        sounds = len(tokens) - len(spoken)
        yield Utterance(place, spoken, left_out={SOUNDS: sounds} if sounds else {})
        if len(alternatives) > 1:
            yield Utterance(place, left_out={ALTERNATIVES: len(alternatives) - 1})


def _watson_token(place: Place, word: object) -> Token:
    match word:
        case [str(text), start, end]:
            return Token(text, seconds(start), seconds(end))
    raise InputError(f"{place.where}: expected a word, start and end, not {word!r:.60}")


# AWS Transcribe, AWS Call Analytics, Speechmatics


def is_aws(value: Mapping[str, Any]) -> bool:
    """Return whether an object is of AWS Transcribe."""
    results = value.get("results")
    return isinstance(results, dict) and not {"items", "channel_labels"}.isdisjoint(results)


def read_aws(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the items of AWS Transcribe; punctuation is part of the word before it."""
    results = value["results"]
    channels = objects(_field(results.get("channel_labels"), "channels"))
    if not channels:
        texts = (transcript.get("transcript") for transcript in objects(results.get("transcripts")))
        items = _words_or_none(place, results.get("items"), texts, "AWS")
        yield from read_words(place, items, first_channel=0)
    for channel in channels:
        label = str(channel.get("channel_label") or "")
        utterances = read_words(place.part(label), channel.get("items") or [])
        yield from _of_side(utterances, numbered_side(label, first_channel=0))


def is_call_analytics(value: Mapping[str, Any]) -> bool:
    """Return whether an object is of AWS Call Analytics."""
    return any("Items" in turn for turn in objects(value.get("Transcript")))


def read_call_analytics(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of each turn; agent and customer are the sides."""
    for turn in objects(value["Transcript"]):
        side = Side(str(turn.get("ParticipantRole") or ""), None)
        yield from _of_side(read_words(place, turn.get("Items") or []), side)


def is_speechmatics(value: Mapping[str, Any]) -> bool:
    """Return whether the results of an object are words, with times of their own."""
    return any("start_time" in result for result in objects(value.get("results")))


def read_speechmatics(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of Speechmatics; punctuation is part of the word before it."""
    yield from read_words(place, objects(value["results"]))


# Azure


def is_azure(value: Mapping[str, Any]) -> bool:
    """Return whether an object is of Azure: a batch, a fast transcription, or a single result."""
    is_batch = "recognizedPhrases" in value
    is_fast = "combinedPhrases" in value and "phrases" in value
    return is_batch or is_fast or not {"NBest", "RecognitionStatus"}.isdisjoint(value)


def read_azure(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of each phrase of Azure, of its first alternative."""
    phrases = value.get("recognizedPhrases", value.get("phrases", [value]))
    yield Utterance(place)
    for number, phrase in enumerate(objects(phrases), 1):
        yield from _read_phrase(place.part(f"phrase {number}"), phrase)


def _read_phrase(place: Place, phrase: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of the first alternative of a phrase."""
    channel = phrase.get("channel", phrase.get("Channel"))
    side = numbered_side(channel, first_channel=0)
    alternatives = objects(phrase.get("nBest", phrase.get("NBest"))) or [dict(phrase)]
    first = alternatives[0]
    names = ("words", "displayWords", "Words", "DisplayWords")
    words: Any = next((first[name] for name in names if first.get(name)), [])
    texts = (first.get(name) for name in ("display", "Display", "DisplayText", "lexical", "text"))
    words = _words_or_none(place, words, texts, "Azure")
    yield from _of_side(read_words(place, words), side)
    if len(alternatives) > 1:
        yield Utterance(place, left_out={ALTERNATIVES: len(alternatives) - 1})


# Deepgram


def is_deepgram(value: Mapping[str, Any]) -> bool:
    """Return whether an object is of Deepgram: of a file, or of a stream."""
    is_message = str(value.get("type")) in _DEEPGRAM_MESSAGES
    return bool(_deepgram_channels(value)) or isinstance(value.get("channel"), dict) or is_message


def read_deepgram(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of each channel; of a stream, those of final results."""
    channels = _deepgram_channels(value)
    is_message = str(value.get("type")) in _DEEPGRAM_MESSAGES
    if not channels and (is_message or value.get("is_final") is False):
        yield Utterance(place)
        return
    if not channels:
        match value.get("channel_index"):
            case [number, *_]:
                channels = {str(number): value["channel"]}
            case _:
                channels = {"0": value["channel"]}
    for label, channel in channels.items():
        side = numbered_side(label, first_channel=0)
        yield from _read_alternative(place.part(f"channel {label}"), side, channel, "Deepgram")
        further = len(objects(channel.get("alternatives"))) - 1
        if further > 0:
            yield Utterance(place, left_out={ALTERNATIVES: further})


def is_deepgram_utterances(value: Mapping[str, Any]) -> bool:
    """Return whether an object has Deepgram's utterances alone."""
    results = value.get("results")
    return isinstance(results, dict) and isinstance(results.get("utterances"), list)


def read_deepgram_utterances(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of each utterance; channels count from 0."""
    yield from _read_utterances(place, value["results"]["utterances"], "Deepgram", "transcript")


def _read_utterances(
    place: Place, utterances: object, service: str, text: str
) -> Iterator[Utterance]:
    """Yield the words of utterances, each of which names its channel; `text` is that of its text.

    There are sides only if there are several channels.
    """
    rows = objects(utterances)
    has_sides = len({str(row.get("channel")) for row in rows}) > 1
    yield Utterance(place)
    for number, row in enumerate(rows, 1):
        part = place.part(f"utterance {number}")
        words = _words_or_none(part, row.get("words"), [row.get(text)], service)
        side = NO_SIDE
        if has_sides:
            side = numbered_side(str(row.get("channel", "")), first_channel=0)
        yield from _of_side(read_words(part, words), side)


# Gladia


def is_gladia(value: Mapping[str, Any]) -> bool:
    """Return whether an object is of Gladia: the answer, its result, or the part with the words."""
    return _gladia_utterances(value) is not None


def read_gladia(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of each utterance; channels count from 0."""
    yield from _read_utterances(place, _gladia_utterances(value), "Gladia", "text")


def _gladia_utterances(value: Mapping[str, Any]) -> list[Any] | None:
    answer = value.get("result")
    body = answer if isinstance(answer, dict) else value
    utterances = _field(body.get("transcription"), "utterances")
    return utterances if isinstance(utterances, list) else None


def _deepgram_channels(value: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the channels of a file by their numbers, as text."""
    channels = objects(_field(value.get("results"), "channels"))
    return {str(number): channel for number, channel in enumerate(channels)}


# AssemblyAI, ElevenLabs


def is_assemblyai(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a transcript of AssemblyAI."""
    return "audio_url" in value and "status" in value


def read_assemblyai(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of AssemblyAI, whose times are milliseconds; channels count from 1."""
    if value["status"] != "completed":
        raise InputError(f"{place.where}: no timed words; its status is {value['status']!r}")
    unit = TimeFields("start", "end", per_second=MILLISECONDS)
    words = _words_or_none(place, value.get("words"), [value.get("text")], "AssemblyAI")
    yield from read_words(place, words, first_channel=1, unit=unit)


def is_elevenlabs_channels(value: Mapping[str, Any]) -> bool:
    """Return whether an object has a transcript for each channel, as ElevenLabs writes them."""
    return any("channel_index" in transcript for transcript in objects(value.get("transcripts")))


def read_elevenlabs_channels(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of each channel."""
    for transcript in objects(value["transcripts"]):
        side = numbered_side(str(transcript.get("channel_index")), first_channel=0)
        texts = [transcript.get("text")]
        words = _words_or_none(place, transcript.get("words"), texts, "ElevenLabs")
        yield from _of_side(read_words(place, words), side)


# YouTube


def is_youtube(value: Mapping[str, Any]) -> bool:
    """Return whether an object is YouTube's captions as json3."""
    return any("tStartMs" in event for event in objects(value.get("events")))


def read_youtube(place: Place, value: Mapping[str, Any]) -> Iterator[Utterance]:
    """Yield the words of automatic captions.

    A word ends where the next one begins, the last one of an event where the event ends or the
    next one begins: captions are shown longer than they are spoken.
    """
    events = [event for event in objects(value["events"]) if objects(event.get("segs"))]
    if not any("tOffsetMs" in part for event in events for part in objects(event["segs"])):
        _check_single_words(place, events)
    yield Utterance(place)
    for event, following in pairwise([*events, {}]):
        start = seconds(event.get("tStartMs"), MILLISECONDS)
        end = start + seconds(event.get("dDurationMs"), MILLISECONDS)
        next_start = seconds(following.get("tStartMs"), MILLISECONDS)
        bounds = [time for time in (end, next_start) if time >= start]
        yield Utterance(place, _event_tokens(event, start, min(bounds, default=start)))


def _check_single_words(place: Place, events: Sequence[Mapping[str, Any]]) -> None:
    for number, event in enumerate(events, 1):
        text = "".join(str(part.get("utf8") or "") for part in objects(event["segs"]))
        if len(text.split()) > 1:
            remedy = "YouTube has them in automatic captions only"
            needs_word_times(place.part(f"event {number}"), remedy)


def _event_tokens(event: Mapping[str, Any], start: float, end: float) -> list[Token]:
    """Return the words of an event from `start` to `end`, in seconds."""
    parts = objects(event["segs"])
    offsets = [seconds(part.get("tOffsetMs"), MILLISECONDS) for part in parts]
    offsets[0] = seconds(parts[0].get("tOffsetMs", "0"), MILLISECONDS)
    times = [*(start + offset for offset in offsets), end]
    return [
        Token(str(part.get("utf8") or ""), times[row], times[row + 1])
        for row, part in enumerate(parts)
    ]
