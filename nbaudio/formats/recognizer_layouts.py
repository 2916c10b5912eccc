"""Find out which recognizer wrote a JSON file, and read its words."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.formats import recognizer_json, service_json
from nbaudio.formats.timed_tokens import NO_SIDE, Place, Side, Utterance
from nbaudio.formats.transcripts import RECORDING_FIELDS, json_values
from nbaudio.formats.word_items import side_of

# Seconds by which results of one recording may be out of order.
_SLIGHTLY = 0.5


@dataclass(frozen=True)
class RecognizerLayout:
    """How a recognizer writes JSON.

    Attributes:
        name: of the recognizer.
        matches: whether a JSON object is one of its results.
        read: yields the words of such an object.
    """

    name: str
    matches: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Place, Mapping[str, Any]], Iterator[Utterance]]


def _has_list(name: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that says whether an object has a list of that name."""
    return lambda value: isinstance(value.get(name), list)


#: The first one that matches is read; what none matches is read as Whisper writes it, which the
#: words of Gentle and ElevenLabs are, too (see `nbaudio.formats.word_items`).
LAYOUTS = (
    RecognizerLayout(
        "ParlaSpeech", _has_list("word_start_times"), recognizer_json.read_parlaspeech
    ),
    RecognizerLayout("whisper.cpp", _has_list("transcription"), recognizer_json.read_whisper_cpp),
    RecognizerLayout("transformers", _has_list("chunks"), recognizer_json.read_transformers),
    RecognizerLayout("AssemblyAI", service_json.is_assemblyai, service_json.read_assemblyai),
    RecognizerLayout("NeMo", recognizer_json.is_nemo, recognizer_json.read_nemo),
    RecognizerLayout("Deepgram", service_json.is_deepgram, service_json.read_deepgram),
    RecognizerLayout(
        "Deepgram", service_json.is_deepgram_utterances, service_json.read_deepgram_utterances
    ),
    RecognizerLayout("Gladia", service_json.is_gladia, service_json.read_gladia),
    RecognizerLayout("IBM Watson", service_json.is_watson, service_json.read_watson),
    RecognizerLayout("AWS Transcribe", service_json.is_aws, service_json.read_aws),
    RecognizerLayout(
        "AWS Call Analytics", service_json.is_call_analytics, service_json.read_call_analytics
    ),
    RecognizerLayout("Speechmatics", service_json.is_speechmatics, service_json.read_speechmatics),
    RecognizerLayout(
        "Google", lambda value: bool(service_json.google_results(value)), service_json.read_google
    ),
    RecognizerLayout("Azure", service_json.is_azure, service_json.read_azure),
    RecognizerLayout(
        "ElevenLabs", service_json.is_elevenlabs_channels, service_json.read_elevenlabs_channels
    ),
    RecognizerLayout("YouTube", service_json.is_youtube, service_json.read_youtube),
    RecognizerLayout("Rev.ai", _has_list("monologues"), recognizer_json.read_monologues),
    RecognizerLayout("DeepSpeech", _has_list("transcripts"), recognizer_json.read_transcripts),
    RecognizerLayout("Vosk", recognizer_json.is_vosk, recognizer_json.read_vosk),
    RecognizerLayout(
        "Montreal Forced Aligner", lambda value: "tiers" in value, recognizer_json.read_tiers
    ),
)


def find_layout(value: object) -> RecognizerLayout | None:
    """Return the layout of a JSON value; None if it is none, or such as Whisper's."""
    if not isinstance(value, dict):
        return None
    return next((layout for layout in LAYOUTS if layout.matches(value)), None)


def read_recognizer_json(path: Path) -> Iterator[Utterance]:
    """Yield the words of a JSON file.

    Raises:
        InputError: the file is not JSON, has no words with times, or a part has none; or it has
            results of several recordings without their names.
    """
    latest: dict[Side, float] = {}  # starts of words of an unnamed recording
    for where, value in json_values(path, errors="surrogateescape"):
        place = Place(_recording(value), where)
        layout = find_layout(value)
        if layout is None:
            utterances = recognizer_json.read_whisper(place, value)
        else:
            utterances = layout.read(place, value)
        utterances = _with_side(utterances, value)
        if place.recording is None and isinstance(value, dict):
            yield from _in_order(utterances, latest)
        else:
            yield from utterances


def _with_side(utterances: Iterator[Utterance], value: object) -> Iterator[Utterance]:
    """Yield the words of a result, which are of the side that it names unless they name theirs."""
    side = side_of(value) if isinstance(value, dict) else NO_SIDE
    if side == NO_SIDE:
        yield from utterances
        return
    for utterance in utterances:
        if utterance.side == NO_SIDE:
            yield replace(utterance, side=side)
        else:
            yield utterance


def _in_order(utterances: Iterator[Utterance], latest: dict[Side, float]) -> Iterator[Utterance]:
    """Yield the words of a result, unless it starts before the end of the result in front of it.

    Results of one recording, such as phrases, follow each other. `latest` has the start of the last
    word of each side, and is updated.
    """
    starts: dict[Side, list[float]] = {}
    for utterance in utterances:
        token_starts = [token.start for token in utterance.tokens if token.start >= 0]
        if len(token_starts) > 1 and utterance.side not in starts:
            _check_order(utterance.place, token_starts[0], latest.get(utterance.side, 0.0))
        if token_starts:
            starts.setdefault(utterance.side, []).append(max(token_starts))
        yield utterance
    latest |= {side: max(times) for side, times in starts.items()}


def _check_order(place: Place, start: float, latest: float) -> None:
    if start < latest - _SLIGHTLY:
        reason = (
            f"it starts at {start:.2f} s, before the end of the result in front of it: results of "
            "several recordings need names (a field recording), or a file each"
        )
        raise InputError(f"{place.where}: {reason}")


def _recording(value: object) -> str | None:
    """Return the name of the recording that a JSON object gives, None if it gives none."""
    fields = value if isinstance(value, dict) else {}
    names = (fields.get(field) for field in RECORDING_FIELDS)
    return next((name for name in names if isinstance(name, str) and name), None)
