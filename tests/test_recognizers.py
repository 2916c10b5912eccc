"""Output of recognizers, as each of them writes it, gives the same words and times: units, what is
no word, alternatives and sides of calls."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile as sf

import nbaudio
from nbaudio.core.errors import InputError
from nbaudio.formats.timed_words import TimedWords, choose_side, read_timed_words
from nbaudio.sources.detection import detect_source

WORDS = [("Dobar", 0.5, 0.75), ("dan,", 0.75, 1.25), ("šest", 2.0, 2.5), ("kuća.", 2.5, 3.0)]
TEXT = "Dobar dan, šest kuća."


def heard(folder: Path, content: object) -> list[TimedWords]:
    path = folder / "a.json"
    if not isinstance(content, bytes | str):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_timed_words(path, "a"))


def rows(words: TimedWords) -> list[tuple[str, float, float]]:
    starts = words.starts.round(3).tolist()
    return list(zip(words.words, starts, words.ends.round(3).tolist(), strict=True))


def read(folder: Path, content: object) -> list[tuple[str, float, float]]:
    """Words with starts and ends of the only side of the only recording."""
    (words,) = heard(folder, content)
    return rows(words)


def refused(folder: Path, content: object) -> str:
    with pytest.raises(InputError) as caught:
        heard(folder, content)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(str(folder / "a.json"))


def clock(milliseconds: int) -> str:
    return f"00:00:{milliseconds // 1000:02},{milliseconds % 1000:03}"


def ms(time: float) -> int:
    return round(time * 1000)


def written_words(write: Callable[[str, float, float], Any]) -> list[Any]:
    """Each of `WORDS` as `write` writes it."""
    return [write(*word) for word in WORDS]


def lines(values: list[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


# Whisper.cpp


def cpp(text: str, start: float, end: float, **fields: Any) -> dict[str, Any]:
    return {
        "timestamps": {"from": clock(ms(start)), "to": clock(ms(end))},
        "offsets": {"from": ms(start), "to": ms(end)},
        "text": text,
        **fields,
    }


def whisper_cpp(segments: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "systeminfo": "AVX = 1",
        "model": {"type": "base"},
        "params": {"language": "hr"},
        "result": {"language": "hr"},
        "transcription": segments,
    }


CPP_TOKENS = [
    cpp("[_BEG_]", 0.0, 0.0, id=50364, p=0.9, t_dtw=-1),
    cpp(" Dob", 0.5, 0.6, id=1, p=0.9, t_dtw=55),
    cpp("ar", 0.6, 0.75, id=2, p=0.9, t_dtw=60),
    cpp(" dan", 0.75, 1.2, id=3, p=0.9, t_dtw=90),
    cpp(",", 1.2, 1.25, id=4, p=0.9, t_dtw=120),
    cpp(" šest", 2.0, 2.5, id=5, p=0.9, t_dtw=210),
    cpp("[_TT_125]", 2.5, 2.5, id=50489, p=0.1, t_dtw=-1),
]
CPP_FULL = whisper_cpp(
    [
        cpp(" Dobar dan, šest", 0.0, 2.5, tokens=CPP_TOKENS),
        cpp(" kuća.", 2.5, 3.0, tokens=[cpp(" kuća", 2.5, 2.9), cpp(".", 2.9, 3.0)]),
    ]
)
CPP_WORDS = whisper_cpp([cpp("", 0, 0.5), *written_words(lambda w, s, e: cpp(f" {w}", s, e))])

# Others on one's own machine

NEMO_WORDS = written_words(
    lambda w, s, e: {
        "word": w,
        "start_offset": int(s / 0.08),
        "end_offset": int(e / 0.08),
        "start": s,
        "end": e,
    }
)
VOSK = [{"conf": 1.0, "end": end, "start": start, "word": word} for word, start, end in WORDS]
VOSK_LINES = [
    {"partial": "dobar"},
    {"result": VOSK[:2], "text": "Dobar dan,"},
    {"partial": ""},
    {"result": VOSK[2:], "text": "šest kuća."},
    {"text": ""},
]
MFA = [
    [0, 0.5, ""],
    [0.5, 0.75, "Dobar"],
    [0.75, 1.25, "dan,"],
    [1.25, 2, "<eps>"],
    [2, 2.5, "šest"],
    [2.5, 3, "kuća."],
]
GENTLE = written_words(
    lambda w, s, e: {
        "alignedWord": w.lower(),
        "case": "success",
        "start": s,
        "end": e,
        "startOffset": 0,
        "endOffset": 5,
        "phones": [{"phone": "d_B", "duration": 0.1}],
        "word": w,
    }
)

# Services


def google_word(word: str, start: float, end: float) -> dict[str, Any]:
    return {"startTime": f"{start:.3f}s", "endTime": f"{end:g}s", "word": word, "confidence": 0.9}


def google_duration(time: float) -> dict[str, Any]:
    duration: dict[str, Any] = {"seconds": str(int(time))} if time >= 1 else {}
    return duration | ({"nanos": round(time % 1 * 1e9)} if time % 1 else {})


GOOGLE = [
    {
        "alternatives": [{"transcript": "x", "words": written_words(google_word)[:2]}],
        "languageCode": "hr",
    },
    {"alternatives": [{"transcript": "y", "words": written_words(google_word)[2:]}]},
]
SPOKEN_BY = [{**word, "speakerTag": 1} for word in written_words(google_word)]
AWS = [
    {
        "start_time": "0.5",
        "end_time": "0.75",
        "alternatives": [{"confidence": "0.99", "content": "Dobar"}],
        "type": "pronunciation",
    },
    {
        "start_time": "0.75",
        "end_time": "1.25",
        "alternatives": [{"confidence": "0.99", "content": "dan"}],
        "type": "pronunciation",
    },
    {"alternatives": [{"confidence": "0.0", "content": ","}], "type": "punctuation"},
    {
        "start_time": "2.0",
        "end_time": "2.5",
        "alternatives": [{"confidence": "0.99", "content": "šest"}],
        "type": "pronunciation",
    },
    {
        "start_time": "2.5",
        "end_time": "3.0",
        "alternatives": [{"confidence": "0.99", "content": "kuća"}],
        "type": "pronunciation",
    },
    {"alternatives": [{"confidence": "0.0", "content": "."}], "type": "punctuation"},
]


def aws(results: dict[str, Any]) -> dict[str, Any]:
    fields = {"jobName": "job", "accountId": "1", "status": "COMPLETED"}
    return {**fields, "results": {"transcripts": [{"transcript": TEXT}], **results}}


def azure_word(word: str, start: float, end: float) -> dict[str, Any]:
    return {
        "word": word,
        "offset": f"PT{start:g}S",
        "duration": f"PT{end - start:g}S",
        "offsetInTicks": start * 1e7,
        "durationInTicks": (end - start) * 1e7,
        "confidence": 0.9,
    }


def azure_phrase(words: list[Any], channel: int = 0, name: str = "words") -> dict[str, Any]:
    best = {"confidence": 0.9, "lexical": "x", "display": "X.", name: words}
    return {
        "recognitionStatus": "Success",
        "channel": channel,
        "offset": "PT0.5S",
        "offsetInTicks": 5000000.0,
        "nBest": [best],
    }


def azure(*phrases: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": "https://host/a.wav",
        "durationInTicks": 31000000,
        "combinedRecognizedPhrases": [{"channel": 0, "display": TEXT}],
        "recognizedPhrases": list(phrases),
    }


AZURE_WITHOUT_TICKS = [
    {name: value for name, value in word.items() if not name.endswith("Ticks")}
    for word in written_words(azure_word)
]
DISPLAY_WORDS = [{"displayText": word.pop("word"), **word} for word in written_words(azure_word)]


def deepgram_channel(words: list[Any]) -> dict[str, Any]:
    return {"alternatives": [{"transcript": TEXT, "confidence": 0.9, "words": words}]}


DEEPGRAM_WORDS = written_words(
    lambda w, s, e: {
        "word": w.strip(",.").lower(),
        "start": s,
        "end": e,
        "confidence": 0.9,
        "punctuated_word": w,
    }
)


def deepgram_line(words: list[Any], channel: int = 0, *, is_final: bool = True) -> dict[str, Any]:
    return {
        "type": "Results",
        "channel_index": [channel, 2],
        "duration": 1.0,
        "start": 0.0,
        "is_final": is_final,
        "channel": deepgram_channel(words),
    }


def assemblyai(words: list[Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "audio_url": "https://host/a.wav",
        "status": "completed",
        "text": TEXT,
        "words": words,
        **fields,
    }


ASSEMBLYAI = written_words(
    lambda w, s, e: {"text": w, "start": ms(s), "end": ms(e), "confidence": 0.9, "speaker": None}
)


def elevenlabs() -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for (word, start, end), (_, following, _) in pairwise([*WORDS, ("", 3.0, 3.0)]):
        items.append({"text": word, "start": start, "end": end, "type": "word"})
        items.append({"text": " ", "start": end, "end": following, "type": "spacing"})
    event = {"text": "(smijeh)", "start": 1.4, "end": 1.8, "type": "audio_event"}
    return [*items[:4], event, items[3], *items[4:-1]]


YOUTUBE = {
    "wireMagic": "pb3",
    "pens": [{}],
    "wsWinStyles": [{}],
    "events": [
        {"tStartMs": 0, "dDurationMs": 9000, "id": 1, "wpWinPosId": 1, "wsWinStyleId": 1},
        {
            "tStartMs": 500,
            "dDurationMs": 4000,
            "wWinId": 1,
            "segs": [
                {"utf8": "Dobar", "acAsrConf": 0},
                {"utf8": " dan,", "tOffsetMs": 250, "acAsrConf": 0},
            ],
        },
        {"tStartMs": 1250, "dDurationMs": 750, "wWinId": 1, "aAppend": 1, "segs": [{"utf8": "\n"}]},
        {"tStartMs": 1300, "dDurationMs": 700, "wWinId": 1, "segs": [{"utf8": "[Glazba]"}]},
        {
            "tStartMs": 2000,
            "dDurationMs": 1000,
            "wWinId": 1,
            "segs": [{"utf8": "šest"}, {"utf8": " kuća.", "tOffsetMs": 500}],
        },
    ],
}
REV = [
    {"type": "text", "value": "Dobar", "ts": 0.5, "end_ts": 0.75, "confidence": 1},
    {"type": "punct", "value": " "},
    {"type": "text", "value": "dan", "ts": 0.75, "end_ts": 1.25, "confidence": 1},
    {"type": "punct", "value": ", "},
    {"type": "text", "value": "šest", "ts": 2.0, "end_ts": 2.5, "confidence": 1},
    {"type": "punct", "value": " "},
    {"type": "text", "value": "kuća", "ts": 2.5, "end_ts": 3.0, "confidence": 1},
    {"type": "punct", "value": "."},
]

RECOGNIZERS = {
    "whisper.cpp, full": CPP_FULL,
    "whisper.cpp, words": CPP_WORDS,
    "whisper.cpp, indented": json.dumps(CPP_FULL, indent="\t", ensure_ascii=False),
    "transformers": {
        "text": TEXT,
        "chunks": written_words(lambda w, s, e: {"text": f" {w}", "timestamp": [s, e]}),
    },
    "faster-whisper, named tuples": {
        "segments": [
            {"start": 0, "end": 3, "words": written_words(lambda w, s, e: [s, e, f" {w}", 0.9])}
        ]
    },
    "NeMo manifest": {"audio_filepath": "a", "pred_text": TEXT, "timestamps_word": NEMO_WORDS},
    "NeMo hypothesis": {"text": TEXT, "timestamp": {"char": [], "word": NEMO_WORDS}},
    "NeMo words": NEMO_WORDS,
    "NeMo manifest of windows": lines(
        [
            {
                "audio_filepath": "a",
                "offset": offset,
                "duration": 1.5,
                "pred_text": "x",
                "timestamps_word": [
                    {"word": w, "start": round(s - offset, 3), "end": round(e - offset, 3)}
                    for w, s, e in WORDS[part]
                ],
            }
            for offset, part in ((0.25, slice(2)), (1.75, slice(2, 4)))
        ]
    ),
    "Vosk": {"result": VOSK, "text": TEXT},
    "Vosk lines": lines(VOSK_LINES),
    "Vosk, printed one after the other": "\n".join(
        json.dumps(value, indent=2) for value in VOSK_LINES
    ),
    "Vosk alternatives": {"alternatives": [{"confidence": 9.1, "result": VOSK, "text": TEXT}]},
    "vosk-transcriber": {
        "schemaVersion": "2.0",
        "monologues": [
            {
                "speaker": {"id": "unknown", "name": None},
                "start": 0.5,
                "end": 3.0,
                "terms": written_words(
                    lambda w, s, e: {
                        "confidence": 1,
                        "start": s,
                        "end": e,
                        "text": w,
                        "type": "WORD",
                    }
                ),
            }
        ],
        "text": [TEXT],
    },
    "DeepSpeech": {
        "transcripts": [
            {
                "confidence": -9.1,
                "words": written_words(
                    lambda w, s, e: {"word": w, "start_time": s, "duration": round(e - s, 2)}
                ),
            }
        ]
    },
    "Gentle": {"transcript": TEXT, "words": GENTLE},
    "Montreal Forced Aligner": {
        "start": 0,
        "end": 3.0,
        "tiers": {
            "words": {"type": "interval", "entries": MFA},
            "phones": {"type": "interval", "entries": [[0.5, 0.6, "d"]]},
        },
    },
    "Montreal Forced Aligner, speakers": {
        "start": 0,
        "end": 3.0,
        "tiers": {
            "ana - words": {"type": "interval", "entries": MFA[:4]},
            "ana - phones": {"type": "interval", "entries": []},
            "ivo - words": {"type": "interval", "entries": MFA[4:]},
        },
    },
    "Google": {"results": GOOGLE},
    "Google operation": {"name": "1", "done": True, "response": {"results": GOOGLE}},
    "Google, seconds and nanos": {
        "results": [
            {
                "alternatives": [
                    {
                        "words": written_words(
                            lambda w, s, e: {
                                "word": w,
                                "start_time": google_duration(s),
                                "end_time": google_duration(e),
                            }
                        )
                    }
                ]
            }
        ]
    },
    "Google, version 2": {
        "results": [
            {
                "alternatives": [
                    {
                        "transcript": TEXT,
                        "words": written_words(
                            lambda w, s, e: {
                                "startOffset": f"{s}s",
                                "endOffset": f"{e}s",
                                "word": w,
                            }
                        ),
                    }
                ],
                "resultEndOffset": "3s",
            }
        ]
    },
    "Google with speakers": {
        "results": [*GOOGLE, {"alternatives": [{"transcript": "", "words": SPOKEN_BY}]}]
    },
    "AWS Transcribe": aws({"items": AWS}),
    "AWS Transcribe, one channel": aws(
        {
            "channel_labels": {
                "channels": [
                    {"channel_label": "ch_0", "items": AWS},
                    {"channel_label": "ch_1", "items": []},
                ],
                "number_of_channels": 2,
            },
            "items": AWS,
        }
    ),
    "AWS Call Analytics": {
        "Transcript": [
            {
                "ParticipantRole": "AGENT",
                "Items": written_words(
                    lambda w, s, e: {
                        "Content": w,
                        "BeginOffsetMillis": ms(s),
                        "EndOffsetMillis": ms(e),
                        "Type": "pronunciation",
                    }
                ),
            }
        ]
    },
    "Speechmatics": {"format": "2.9", "results": AWS},
    "Azure batch": azure(
        azure_phrase(written_words(azure_word)[:2]),
        {"recognitionStatus": "NoMatch", "channel": 0},
        azure_phrase(written_words(azure_word)[2:]),
    ),
    "Azure batch, durations": azure(azure_phrase(AZURE_WITHOUT_TICKS)),
    "Azure batch, display words": azure(azure_phrase(DISPLAY_WORDS, name="displayWords")),
    "Azure fast": {
        "durationMilliseconds": 3100,
        "combinedPhrases": [{"text": TEXT}],
        "phrases": [
            {
                "offsetMilliseconds": 500,
                "text": TEXT,
                "words": written_words(
                    lambda w, s, e: {
                        "text": w,
                        "offsetMilliseconds": ms(s),
                        "durationMilliseconds": ms(e - s),
                    }
                ),
            }
        ],
    },
    "Azure SDK": lines(
        [
            {
                "RecognitionStatus": "Success",
                "Offset": 5000000,
                "Duration": 25000000,
                "DisplayText": TEXT,
                "NBest": [
                    {
                        "Lexical": "x",
                        "Display": TEXT,
                        "Words": written_words(
                            lambda w, s, e: {
                                "Word": w,
                                "Offset": int(s * 1e7),
                                "Duration": int((e - s) * 1e7),
                            }
                        ),
                    }
                ],
            },
            {"RecognitionStatus": "NoMatch", "Offset": 31000000},
        ]
    ),
    "Deepgram": {
        "metadata": {"channels": 1},
        "results": {"channels": [deepgram_channel(DEEPGRAM_WORDS)]},
    },
    "Deepgram stream": lines(
        [
            deepgram_line(DEEPGRAM_WORDS[:1], is_final=False),
            deepgram_line(DEEPGRAM_WORDS[:2]),
            deepgram_line(DEEPGRAM_WORDS[2:]),
            {"type": "Metadata", "channels": 1},
        ]
    ),
    "AssemblyAI": assemblyai(ASSEMBLYAI),
    "AssemblyAI, words alone": ASSEMBLYAI,
    "AssemblyAI, sentences": {
        "id": "x",
        "confidence": 0.9,
        "sentences": [
            {"text": "x", "start": 500, "end": 1250, "words": ASSEMBLYAI[:2]},
            {"text": "y", "start": 2000, "end": 3000, "words": ASSEMBLYAI[2:]},
        ],
    },
    "ElevenLabs": {"language_code": "hrv", "text": TEXT, "words": elevenlabs()},
    "YouTube": YOUTUBE,
    "Rev.ai": {"monologues": [{"speaker": 0, "elements": REV}]},
    "Gladia": {
        "id": "x",
        "status": "done",
        "result": {
            "metadata": {"audio_duration": 3.5},
            "transcription": {
                "full_transcript": TEXT,
                "utterances": [
                    {
                        "text": TEXT,
                        "start": 0.5,
                        "end": 3.0,
                        "channel": 0,
                        "words": written_words(
                            lambda w, s, e: {"word": f" {w}", "start": s, "end": e}
                        ),
                    }
                ],
            },
        },
    },
    "Soniox": {
        "text": TEXT,
        "tokens": [
            token
            for text, start, end in WORDS
            for token in (
                {"text": f" {text[:2]}", "start_ms": ms(start), "end_ms": ms(start) + 90},
                {"text": text[2:], "start_ms": ms(start) + 90, "end_ms": ms(end)},
            )
        ],
    },
    "IBM Watson": {
        "result_index": 0,
        "results": [
            {
                "final": True,
                "alternatives": [
                    {"transcript": TEXT, "timestamps": written_words(lambda *word: [*word])}
                ],
            },
            {"final": False, "alternatives": [{"transcript": "ne", "timestamps": []}]},
        ],
    },
    "Google, batch of one file": {
        "results": {"gs://bucket/a.wav": {"transcript": {"results": GOOGLE}}},
        "totalBilledDuration": "4s",
    },
    "Google, stream": lines(
        [
            {"results": [{"alternatives": [{"transcript": "Dobar"}], "isFinal": False}]},
            {"results": [GOOGLE[0] | {"isFinal": True}]},
            {"results": [GOOGLE[1] | {"isFinal": True}]},
        ]
    ),
    "Deepgram, utterances alone": {
        "results": {
            "utterances": [
                {
                    "channel": 0,
                    "transcript": TEXT,
                    "words": written_words(
                        lambda w, s, e: {"word": "x", "punctuated_word": w, "start": s, "end": e}
                    ),
                }
            ]
        }
    },
    "Riva, milliseconds": {
        "words": written_words(lambda w, s, e: {"word": w, "start_time": ms(s), "end_time": ms(e)}),
    },
    "Parakeet, tokens of sentences": {
        "sentences": [
            {
                "text": TEXT,
                "start": 0.5,
                "tokens": written_words(lambda w, s, e: {"text": f" {w}", "start": s, "end": e}),
            }
        ]
    },
    "times in ms by name": {
        "tokens": [],
        "words": written_words(lambda w, s, e: {"text": w, "start_ms": ms(s), "end_ms": ms(e)}),
    },
}


@pytest.mark.parametrize("recognizer", RECOGNIZERS)
def test_output_of_every_recognizer_gives_words_and_times(recognizer: str, tmp_path: Path) -> None:
    assert read(tmp_path, RECOGNIZERS[recognizer]) == WORDS


# What is no word


def test_control_tokens_of_whisper_cpp_are_no_words(tmp_path: Path) -> None:
    tokens = written_words(lambda w, s, e: cpp(f" {w}", s, e))
    control = [cpp(text, 3.0, 3.0) for text in ("<|endoftext|>", "[_TT_150]")]
    content = whisper_cpp([cpp(TEXT, 0.5, 3.0, tokens=[cpp("<|hr|>", 0, 0), *tokens, *control])])
    assert read(tmp_path, content) == WORDS


def left_out(words: TimedWords) -> dict[str, int]:
    return {part.what: part.number for part in words.left_out}


SOUNDS = "sounds and silences in hypotheses"
NOT_FOUND = "words of hypotheses that were not found in the audio"
ALTERNATIVES = "further alternatives of hypotheses"


def test_words_that_gentle_did_not_find_are_left_out_and_counted(tmp_path: Path) -> None:
    missing = {"case": "not-found-in-audio", "word": "svima", "startOffset": 1, "endOffset": 6}
    typed_only = {"case": "not-found-in-transcript", "alignedWord": "x", "start": 1.5, "end": 1.6}
    further = {**typed_only, "word": "ovaj"}
    content = {"transcript": TEXT, "words": [*GENTLE[:2], missing, further, missing, *GENTLE[2:]]}
    (words,) = heard(tmp_path, content)
    assert rows(words) == [*WORDS[:2], ("ovaj", 1.5, 1.6), *WORDS[2:]]
    assert left_out(words) == {NOT_FOUND: 2}


@pytest.mark.parametrize(
    ("content", "number"),
    [
        ({"words": elevenlabs()}, 1),
        ({"words": [*elevenlabs()[:3], *elevenlabs()[6:]]}, 0),
        (YOUTUBE, 1),
        ({"tiers": {"words": {"entries": [*MFA, [3, 4, "[noise]"]]}}}, 2),
    ],
)
def test_sounds_and_silences_are_counted(content: object, number: int, tmp_path: Path) -> None:
    (words,) = heard(tmp_path, content)
    assert left_out(words) == ({SOUNDS: number} if number else {})


def test_bracketed_sounds_of_several_tokens_are_left_out(tmp_path: Path) -> None:
    tokens = ["Dobar", "[zvuk", "grla]", "[unk]", "[x", "dan,", "šest", "kuća.", "a", "b", "c", "d"]
    words = [{"word": word, "start": row, "end": row + 1} for row, word in enumerate(tokens)]
    (found,) = heard(tmp_path, {"words": words})
    assert found.words == [*tokens[:1], *tokens[3:]]
    assert left_out(found) == {SOUNDS: 1}


def test_translations_and_hesitations_are_counted(tmp_path: Path) -> None:
    token = {"text": " Good", "start_ms": 500, "end_ms": 700, "translation_status": "translation"}
    own = written_words(lambda w, s, e: {"text": f" {w}", "start_ms": ms(s), "end_ms": ms(e)})
    (words,) = heard(tmp_path, {"tokens": [*own, token]})
    assert rows(words) == WORDS
    assert left_out(words) == {"translations in hypotheses": 1}
    times = [*written_words(lambda *word: [*word]), ["%HESITATION", 3.1, 3.3]]
    (words,) = heard(tmp_path, {"results": [{"alternatives": [{"timestamps": times}]}]})
    assert rows(words) == WORDS
    assert left_out(words) == {"sounds and silences in hypotheses": 1}


@pytest.mark.parametrize("service", ["Deepgram", "Gladia"])
def test_channels_of_utterances_become_sides(service: str, tmp_path: Path) -> None:
    utterances = [
        {"channel": number % 2, "words": [{"word": w, "start": s, "end": e}]}
        for number, (w, s, e) in enumerate(WORDS)
    ]
    name = {"Deepgram": "results", "Gladia": "transcription"}[service]
    sides = heard(tmp_path, {name: {"utterances": utterances}})
    assert [(side.side, side.channel, rows(side)) for side in sides] == [
        ("0", 0, WORDS[::2]),
        ("1", 1, WORDS[1::2]),
    ]


@pytest.mark.parametrize(
    "content",
    [
        {"results": [{"alternatives": [*GOOGLE[0]["alternatives"], {"transcript": "z"}]}]},
        {"alternatives": [{"result": VOSK[:2]}, {"result": VOSK}]},
        azure(
            {
                **azure_phrase([]),
                "nBest": [{"words": written_words(azure_word)[:2]}, {"display": "Z"}],
            }
        ),
        {
            "results": {
                "channels": [{"alternatives": [{"words": DEEPGRAM_WORDS[:2]}, {"transcript": "z"}]}]
            }
        },
        {"transcripts": [{"words": GENTLE[:2]}, {"words": GENTLE}]},
    ],
)
def test_the_first_alternative_is_read_and_others_are_counted(
    content: object, tmp_path: Path
) -> None:
    (words,) = heard(tmp_path, content)
    assert rows(words) == WORDS[:2]
    assert left_out(words) == {ALTERNATIVES: 1}


@pytest.mark.parametrize("kind", ["event", "noise", "silence"])
def test_items_that_are_no_words_are_counted_as_sounds(kind: str, tmp_path: Path) -> None:
    items = [*DEEPGRAM_WORDS[:2], {"text": "x", "start": 1.5, "end": 1.9, "type": kind}]
    (words,) = heard(tmp_path, {"words": items})
    assert rows(words) == WORDS[:2]
    assert left_out(words) == {SOUNDS: 1}


def test_a_file_of_no_known_recognizer_is_refused_with_its_fields(tmp_path: Path) -> None:
    message = refused(tmp_path, {"metadata": {}, "speech": []})
    assert message.endswith("; its fields are metadata, speech")


def test_whisper_cpp_output_without_offsets_is_read_by_timestamps(tmp_path: Path) -> None:
    content = json.loads(json.dumps(CPP_WORDS))
    for segment in content["transcription"]:
        del segment["offsets"]
    assert read(tmp_path, content) == WORDS


# Characters and tokens


def test_a_character_split_by_whisper_cpp_is_joined(tmp_path: Path) -> None:
    content = json.dumps(CPP_FULL, ensure_ascii=False, indent="\t").encode()
    first, second = "š".encode()[:1], "š".encode()[1:]
    whole = '"text": " šest",'.encode()
    assert content.count(whole) == 1
    start, end = content.split(whole)
    split = b'"text": " ' + first + b'"},\n{"text": "' + second + b'est",'
    assert read(tmp_path, start + split + end) == WORDS
    message = refused(tmp_path, start + b'"text": " ' + first + b'est",' + end)
    assert message == ", line 1: not utf-8 text"


def test_characters_of_a_ctc_model_are_joined_to_words(tmp_path: Path) -> None:
    characters = [("d", 0.5), ("a", 0.6), (" ", 0.8), ("n", 1.0), ("e", 1.2)]
    chunks = [
        {"text": character, "timestamp": [start, round(start + 0.1, 1)]}
        for character, start in characters
    ]
    assert read(tmp_path, {"text": "da ne", "chunks": chunks}) == [
        ("da", 0.5, 0.7),
        ("ne", 1.0, 1.3),
    ]


def test_a_chunk_without_an_end_ends_at_the_usual_rate(tmp_path: Path) -> None:
    chunks = [{"text": " da", "timestamp": [0.5, 1.0]}, {"text": " ne", "timestamp": [1.0, None]}]
    (_, (word, start, end)) = read(tmp_path, {"text": "da ne", "chunks": chunks})
    assert (word, start) == ("ne", 1.0)
    assert 1 < end < 1.5


def test_punctuation_keeps_the_time_of_its_word(tmp_path: Path) -> None:
    content = aws({"items": [*AWS[:3], AWS[5], *AWS[3:5]]})
    assert read(tmp_path, content)[1] == ("dan,.", 0.75, 1.25)


def test_youtube_words_without_offsets_are_spread_between_others(tmp_path: Path) -> None:
    parts = [{"utf8": "a"}, {"utf8": " b"}, {"utf8": " c", "tOffsetMs": 800}]
    event = {"tStartMs": 1000, "dDurationMs": 2000, "segs": parts}
    assert read(tmp_path, {"events": [event]}) == [
        ("a", 1.0, 1.4),
        ("b", 1.4, 1.8),
        ("c", 1.8, 3.0),
    ]


# Times


def test_times_in_milliseconds_are_recognized_over_minutes(tmp_path: Path) -> None:
    content = {"words": [{"word": w, "start": ms(s), "end": ms(e)} for w, s, e in WORDS]}
    assert read(tmp_path, content) == WORDS
    ctm = "".join(f"a 1 {ms(s)} {ms(e - s)} {w}\n" for w, s, e in WORDS)
    assert read(tmp_path, ctm) == WORDS


def test_a_long_word_does_not_change_the_unit_from_seconds(tmp_path: Path) -> None:
    words = [{"word": "a", "start": 0, "end": 9}, {"word": "b", "start": 9, "end": 500}]
    words.append({"word": "c", "start": 500, "end": 501})
    assert read(tmp_path, {"words": words})[1] == ("b", 9.0, 500.0)


@pytest.mark.parametrize("per_second", [100, 16000])
def test_times_in_other_units_are_refused(per_second: int, tmp_path: Path) -> None:
    content = {
        "words": [{"word": w, "start": s * per_second, "end": e * per_second} for w, s, e in WORDS]
    }
    message = refused(tmp_path, content)
    assert message.startswith(", line 1: a word would last ")
    assert message.endswith("s (median): times are neither seconds nor milliseconds")


@pytest.mark.parametrize("per_second", [1 / 60, 1 / 3600])
def test_times_in_minutes_or_hours_are_refused(per_second: float, tmp_path: Path) -> None:
    words = [{"word": "da", "start": row * per_second / 2} for row in range(20)]
    message = refused(tmp_path, {"words": words})
    assert message.startswith(", line 1: a word would follow another after ")
    assert message.endswith("s (median): times are neither seconds nor milliseconds")


@pytest.mark.parametrize("field", ["start", "offset"])
def test_times_without_ends_may_be_milliseconds_but_no_other_unit(
    field: str, tmp_path: Path
) -> None:
    def content(per_second: int) -> dict[str, object]:
        return {"words": [{"word": "da", field: row * per_second // 2} for row in range(20)]}

    assert read(tmp_path, content(1000))[2][1] == 1.0
    assert refused(tmp_path, content(10_000_000)).startswith(
        ", line 1: a word would last 5000000 s (median)"
    )


@pytest.mark.parametrize("first", [0, 1000])
def test_a_ctm_with_ends_in_place_of_durations_is_refused(first: float, tmp_path: Path) -> None:
    times = [(first + row / 2, first + row / 2 + 0.4) for row in range(20)]
    message = refused(tmp_path, "".join(f"a 1 {start} {end} da\n" for start, end in times))
    assert message == (
        ", a: most words last beyond the start of the word after the next one: are their "
        "durations ends?"
    )
    durations = "".join(f"a 1 {start} {end - start:.1f} da\n" for start, end in times)
    assert read(tmp_path, durations)[0] == ("da", first, first + 0.4)


def test_words_that_count_from_the_start_of_their_segment_are_refused(tmp_path: Path) -> None:
    segments = [{"start": start, "end": start + 4, "words": VOSK} for start in (0, 10)]
    assert refused(tmp_path, {"segments": segments}) == (
        ", line 1, segment 2: its words end at 3 s, and it starts at 10 s: "
        "times of words have to count from the start of the recording"
    )


def test_results_of_several_recordings_without_names_are_refused(tmp_path: Path) -> None:
    result = {"text": TEXT, "chunks": RECOGNIZERS["transformers"]["chunks"]}
    reason = "it starts at 0.50 s, before the end of the result in front of it: results of several"
    assert refused(tmp_path, [result, result]).startswith(f", line 1, item 2: {reason}")
    vosk = lines([{"result": VOSK, "text": TEXT}] * 2)
    assert refused(tmp_path, vosk).startswith(f", line 2: {reason}")
    named = [{**result, "audio": name} for name in ("x.wav", "y.wav")]
    assert [words.name for words in heard(tmp_path, named)] == ["x.wav", "y.wav"]


# What has no word times is refused, with what the recognizer needs


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (whisper_cpp([cpp(TEXT, 0.5, 3.0)]), "segment 1: word times are needed; whisper.cpp"),
        (
            {"text": TEXT, "chunks": [{"text": TEXT, "timestamp": [0.5, 3.0]}]},
            "chunk 1: word times are needed; transformers writes them with return_timestamps",
        ),
        ({"audio_filepath": "a", "pred_text": TEXT}, "word times are needed; NeMo writes them"),
        (
            {"pred_text": TEXT, "timestamps_word": [{"word": "Dobar", "start_offset": 6}]},
            "word times are needed; NeMo's start_offset counts frames",
        ),
        ({"text": TEXT}, "word times are needed"),
        (
            {"results": [{"alternatives": [{"transcript": TEXT}]}]},
            "word times are needed; Google writes them with enableWordTimeOffsets",
        ),
        (azure(azure_phrase([])), "phrase 1: word times are needed; Azure writes them with word"),
        (
            {"results": {"channels": [deepgram_channel([])]}},
            "channel 0: word times are needed; Deepgram writes them",
        ),
        (assemblyai([]), "word times are needed; AssemblyAI writes them in words"),
        (aws({"items": []}), "word times are needed; AWS Transcribe writes them in items"),
        (
            {"transcripts": [{"channel_index": 0, "text": TEXT, "words": []}]},
            "word times are needed; ElevenLabs writes them with timestamps_granularity",
        ),
        ({"text": TEXT, "words": []}, "word times are needed; Whisper writes them"),
        (assemblyai([], status="error"), "no timed words; its status is 'error'"),
        (
            {"events": [{"tStartMs": 0, "dDurationMs": 9, "segs": [{"utf8": TEXT}]}]},
            "event 1: word times are needed; YouTube has them in automatic captions only",
        ),
        ({"tiers": {"phones": {"entries": []}}}, "no tier of words; it has the tiers phones"),
        ({"tiers": {"words": {"entries": [[1, 2]]}}}, "tier words: expected start, end and label"),
        ({"speakers": [{"id": 1}]}, "no timed words; expected CTM, JSON of a recognizer"),
        (
            {"words": [{"w": "da", "start": 0, "end": 1}]},
            "a word without a text; its fields are w, start, end",
        ),
        (
            {"words": [{"word": "da"}, {"word": "ne"}]},
            "word times are needed; Whisper writes them",
        ),
    ],
)
def test_missing_fields_are_named_in_the_refusal(
    content: object, reason: str, tmp_path: Path
) -> None:
    assert refused(tmp_path, content).removeprefix(", line 1").lstrip(":, ").startswith(reason)


@pytest.mark.parametrize(
    "content",
    [
        whisper_cpp([]),
        {"text": "", "chunks": []},
        {"audio_filepath": "a", "pred_text": ""},
        {"partial": ""},
        {"results": [{"alternatives": [{"transcript": "", "words": []}]}]},
        azure(),
        {"results": {"channels": [deepgram_channel([]) | {"alternatives": []}]}},
        {"results": {"transcripts": [{"transcript": ""}], "items": []}},
        assemblyai([], text=""),
        {"events": [{"tStartMs": 0}]},
        {"tiers": {"words": {"entries": []}}},
        {"monologues": [{"elements": []}]},
    ],
)
def test_output_without_words_gives_no_words(content: object, tmp_path: Path) -> None:
    assert read(tmp_path, content) == []


# CTM


def test_kaldi_marks_such_as_silence_are_not_read_as_words(tmp_path: Path) -> None:
    marks = ["<eps>", "[noise]", "!SIL", "<unk>", "da", "<s>"]
    content = ";; comment\n" + "".join(f"a 1 {row} 0.5 {mark}\n" for row, mark in enumerate(marks))
    (words,) = heard(tmp_path, content)
    assert rows(words) == [("<unk>", 3.0, 3.5), ("da", 4.0, 4.5)]
    assert left_out(words) == {SOUNDS: 4}


def test_nist_ctm_types_and_alternatives_are_read(tmp_path: Path) -> None:
    content = """;; NIST
a 1 0.0 0.5 da 0.9 lex spk1
a 1 0.5 0.5 dah 0.9 non-lex spk1
a 1 * * <ALT_BEGIN>
a 1 1.0 0.5 uh 0.9 fp spk1
a 1 * * <ALT>
a 1 1.0 0.5 ah 0.9 fp spk1
a 1 * * <ALT_END>
a 1 2.0 0.5 ne NA frag
"""
    (words,) = heard(tmp_path, content)
    assert rows(words) == [("da", 0.0, 0.5), ("uh", 1.0, 1.5), ("ne", 2.0, 2.5)]
    assert left_out(words) == {SOUNDS: 1, ALTERNATIVES: 1}


def test_segments_of_nemos_aligner_are_several_words(tmp_path: Path) -> None:
    content = "a 1 1.0 1.0 da<space>ne NA lex NA\n"
    assert read(tmp_path, content) == [("da", 1.0, 1.5), ("ne", 1.5, 2.0)]


# Sides of calls

ANSWERS = [("halo", 0.6, 0.9), ("da", 1.4, 1.6)]


def both(write: Callable[..., Any], *labels: Any) -> list[Any]:
    """Words of two sides, each with its label."""
    sides = zip((WORDS, ANSWERS), labels, strict=True)
    return [write(*word, label) for words, label in sides for word in words]


def azure_call() -> dict[str, Any]:
    return azure(
        azure_phrase([azure_word(*word) for word in WORDS[:2]], 0),
        azure_phrase([azure_word(*word) for word in ANSWERS], 1),
        azure_phrase([azure_word(*word) for word in WORDS[2:]], 0),
    )


def google_call() -> dict[str, Any]:
    return {
        "results": [
            {
                "alternatives": [{"transcript": "x", "words": [google_word(*w) for w in words]}],
                "channelTag": tag,
            }
            for tag, words in ((1, WORDS[:2]), (2, ANSWERS), (1, WORDS[2:]))
        ]
    }


def deepgram_words(words: list[tuple[str, float, float]]) -> list[dict[str, Any]]:
    return [{"word": word, "start": start, "end": end} for word, start, end in words]


CALLS: dict[str, tuple[object, str, str]] = {
    "segments with channels": (
        {
            "segments": [
                {"channel": number, "words": deepgram_words(words)}
                for number, words in ((0, WORDS[:2]), (1, ANSWERS), (0, WORDS[2:]))
            ]
        },
        "0",
        "1",
    ),
    "lines of Vosk with channels": (
        lines(
            [
                {"channel": number, "text": "x", "result": deepgram_words(words)}
                for number, words in ((1, WORDS[:2]), (2, ANSWERS), (1, WORDS[2:]))
            ]
        ),
        "1",
        "2",
    ),
    "CTM": ("".join(both(lambda w, s, e, x: f"a {x} {s} {e - s:.2f} {w}\n", "A", "B")), "A", "B"),
    "CTM, numbers": (
        "".join(both(lambda w, s, e, x: f"a {x} {s} {e - s:.2f} {w}\n", 1, 2)),
        "1",
        "2",
    ),
    "AWS Transcribe": (
        aws(
            {
                "channel_labels": {
                    "channels": [
                        {"channel_label": "ch_0", "items": AWS},
                        {
                            "channel_label": "ch_1",
                            "items": [
                                {
                                    "start_time": str(start),
                                    "end_time": str(end),
                                    "alternatives": [{"content": word}],
                                    "type": "pronunciation",
                                }
                                for word, start, end in ANSWERS
                            ],
                        },
                    ]
                }
            }
        ),
        "ch_0",
        "ch_1",
    ),
    "Azure": (azure_call(), "0", "1"),
    "Google": (google_call(), "1", "2"),
    "Deepgram": (
        {"results": {"channels": [deepgram_channel(deepgram_words(w)) for w in (WORDS, ANSWERS)]}},
        "0",
        "1",
    ),
    "Deepgram stream": (
        lines([deepgram_line(deepgram_words(w), n) for n, w in enumerate((WORDS, ANSWERS))]),
        "0",
        "1",
    ),
    "AssemblyAI": (
        assemblyai(
            both(
                lambda w, s, e, x: {"text": w, "start": ms(s), "end": ms(e), "channel": x},
                "1",
                "2",
            ),
            audio_channels=2,
        ),
        "1",
        "2",
    ),
    "ElevenLabs": (
        {
            "transcripts": [
                {
                    "channel_index": number,
                    "text": "x",
                    "words": [
                        {"text": w, "start": s, "end": e, "type": "word", "channel_index": number}
                        for w, s, e in words
                    ],
                }
                for number, words in enumerate((WORDS, ANSWERS))
            ]
        },
        "0",
        "1",
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_sides_of_a_call_are_separated_by_channel(call: str, tmp_path: Path) -> None:
    content, first, second = CALLS[call]
    sides = heard(tmp_path, content)
    assert [words.side for words in sides] == [first, second]
    assert [rows(words) for words in sides] == [WORDS, ANSWERS]
    assert [words.channel for words in sides] == [0, 1]
    assert rows(choose_side(sides, "right")) == ANSWERS
    assert choose_side(sides, second.lower()).left_out[-1][1:] == (4, f"--side {first}")
    mixed = choose_side(sides, "mix")
    assert rows(mixed) == sorted([*WORDS, *ANSWERS], key=lambda word: word[1])
    assert (mixed.side, mixed.channel) == ("", None)


def test_agent_and_customer_are_sides(tmp_path: Path) -> None:
    turns = [
        {
            "ParticipantRole": role,
            "Items": [
                {"Content": word, "BeginOffsetMillis": ms(start), "EndOffsetMillis": ms(end)}
                for word, start, end in words
            ],
        }
        for role, words in (("AGENT", WORDS[:2]), ("CUSTOMER", ANSWERS), ("AGENT", WORDS[2:]))
    ]
    sides = heard(tmp_path, {"Channel": "VOICE", "Transcript": turns})
    assert rows(choose_side(sides, "agent")) == WORDS
    customer = choose_side(sides, "customer")
    assert rows(customer) == ANSWERS
    assert left_out(customer) == {
        "words of side AGENT in hypotheses": 4,
        "channel of side CUSTOMER, which hypotheses do not say": 1,
    }


def test_a_side_without_words_is_ignored(tmp_path: Path) -> None:
    channels = [deepgram_channel(DEEPGRAM_WORDS), {"alternatives": [{"words": []}]}]
    sides = heard(tmp_path, {"results": {"channels": channels}})
    assert rows(choose_side(sides, None)) == WORDS


# By the command

SPEECH = (
    "Good morning everybody and welcome to this session of the committee. Today we will hear the "
    "report of the minister about the accounts of last year. After that there are questions from "
    "the members of the opposition and of the majority. Please keep your speeches short."
)


def spoken() -> list[tuple[str, float, float]]:
    return [
        (word, round(0.5 + 0.45 * row, 3), round(0.9 + 0.45 * row, 3))
        for row, word in enumerate(SPEECH.split())
    ]


def call_ctm(name: str) -> str:
    lines_of_a = [f"{name} A {s} {e - s:.2f} {w}\n" for w, s, e in spoken()]
    lines_of_b = [f"{name} B {s + 0.1:.2f} 0.2 aha\n" for w, s, e in spoken()[::3]]
    return "".join(lines_of_a + lines_of_b)


def call(folder: Path, channels: int = 2) -> tuple[Path, Path, Path]:
    for name in ("h", "t", "audio"):
        (folder / name).mkdir()
    samples = np.random.default_rng(1).normal(0, 0.1, (8000 * 30, channels))
    sf.write(folder / "audio/a.wav", samples, 8000)
    (folder / "h/a.ctm").write_text(call_ctm("a"))
    (folder / "t/a.txt").write_text(SPEECH)
    return folder / "h", folder / "t", folder / "audio"


def test_align_refuses_a_call_without_option_side(tmp_path: Path) -> None:
    hypotheses, transcripts, audio = call(tmp_path)
    reason = (
        r"a\.ctm#a: words of 2 sides of a call, A \(46 words\) and B \(16 words\): "
        r"--side A reads one of them, --side mix all together"
    )
    with pytest.raises(InputError, match=reason):
        nbaudio.align(hypotheses, transcripts, audio=audio, out=tmp_path / "W")
    with pytest.raises(InputError, match="no words of side 'C'; there are A"):
        nbaudio.align(hypotheses, transcripts, audio=audio, side="C", out=tmp_path / "W")


@pytest.mark.parametrize("side", ["A", "left"])
def test_align_takes_one_side_and_its_channel(side: str, tmp_path: Path) -> None:
    hypotheses, transcripts, audio = call(tmp_path)
    report = nbaudio.align(hypotheses, transcripts, audio=audio, side=side, out=tmp_path / "W")
    segments = pl.read_parquet(tmp_path / "W/segments.parquet")
    assert " ".join(segments["asr_text"]) == SPEECH
    assert segments["source_channel"].to_list() == ["0"] * len(segments)
    assert report.facts["not_read"] == [
        {"what": "words of side B in hypotheses", "count": 16, "option": "--side B"}
    ]


def test_align_of_the_mix_has_no_channel(tmp_path: Path) -> None:
    hypotheses, transcripts, audio = call(tmp_path, channels=1)
    report = nbaudio.align(hypotheses, transcripts, audio=audio, side="mix", out=tmp_path / "W")
    segments = pl.read_parquet(tmp_path / "W/segments.parquet")
    assert "aha" in " ".join(segments["asr_text"])
    assert "source_channel" not in segments.columns
    assert "not_read" not in report.facts


def test_a_call_among_other_recordings_is_a_problem_of_its_own(tmp_path: Path) -> None:
    hypotheses, transcripts, _ = call(tmp_path)
    plain = "".join(f"b 1 {s} {e - s:.2f} {w}\n" for w, s, e in spoken())
    (hypotheses / "a.ctm").write_text(call_ctm("a") + plain)
    (transcripts / "b.txt").write_text(SPEECH)
    report = nbaudio.align(hypotheses, transcripts, out=tmp_path / "W")
    assert set(pl.read_parquet(tmp_path / "W/segments.parquet")["recording_id"]) == {"b"}
    assert any("words of 2 sides of a call, A (46 words)" in line for line in report.problems)


def test_align_counts_what_gentle_did_not_find(tmp_path: Path) -> None:
    hypotheses, transcripts, _ = call(tmp_path)
    (hypotheses / "a.ctm").unlink()
    words = [
        {"case": "not-found-in-audio", "word": word}
        if 16 <= row < 26
        else {"case": "success", "alignedWord": word.lower(), "word": word, "start": s, "end": e}
        for row, (word, s, e) in enumerate(spoken())
    ]
    (hypotheses / "a.json").write_text(json.dumps({"transcript": SPEECH, "words": words}))
    report = nbaudio.align(hypotheses, transcripts, out=tmp_path / "W")
    segments = pl.read_parquet(tmp_path / "W/segments.parquet")
    missing = " ".join(SPEECH.split()[17:25])
    assert missing not in " ".join(segments["asr_text"])
    assert missing not in " ".join(segments["text"])
    assert report.facts["not_read"] == [{"what": NOT_FOUND, "count": 10, "option": ""}]


OBJECTS = [
    name
    for name, content in RECOGNIZERS.items()
    if isinstance(content, dict) and "audio_filepath" not in content
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("recognizer", OBJECTS)
def test_a_folder_of_hypotheses_and_documents_is_detected_for_align(
    recognizer: str, indent: int | None, tmp_path: Path
) -> None:
    for name in ("h", "t"):
        (tmp_path / name).mkdir()
    (tmp_path / "h/a.json").write_text(json.dumps(RECOGNIZERS[recognizer], indent=indent))
    (tmp_path / "t/b.docx").touch()
    assert detect_source(tmp_path).layout.format == "align"


@pytest.mark.parametrize("recognizer", OBJECTS)
def test_hypotheses_beside_recordings_are_named(recognizer: str, tmp_path: Path) -> None:
    sf.write(tmp_path / "a.wav", np.zeros(8000), 8000)
    (tmp_path / "a.json").write_text(json.dumps(RECOGNIZERS[recognizer]))
    report = nbaudio.ingest("folder", tmp_path, out=tmp_path / "W")
    told = "with the words of a recognizer and their times, such as a.json: not read"
    assert any(told in line for line in report.warnings)


def test_captions_of_youtube_are_paired_by_the_id_in_their_name(tmp_path: Path) -> None:
    hypotheses, transcripts, _ = call(tmp_path)
    (hypotheses / "a.ctm").unlink()
    parts = [{"utf8": f" {word}", "tOffsetMs": ms(start)} for word, start, _ in spoken()]
    event = {"tStartMs": 0, "dDurationMs": 30000, "segs": parts}
    (hypotheses / "talk [HlauTe_NK6U].en.json3").write_text(json.dumps({"events": [event]}))
    (transcripts / "a.txt").rename(transcripts / "minutes [HlauTe_NK6U].txt")
    nbaudio.align(hypotheses, transcripts, out=tmp_path / "W")
    segments = pl.read_parquet(tmp_path / "W/segments.parquet")
    assert " ".join(segments["text"]) == SPEECH
    assert segments["segment_id"][0].startswith("HlauTe_NK6U_0.25-")


WRONG_VALUES: list[Any] = [None, True, "x", "", -1, 1e300, [], {}, [1], [[]], {"words": 3}]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys and indices that lead to each value of JSON, but for the whole."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*place, key)
        if isinstance(item, dict | list):
            yield from places(item, (*place, key))


@pytest.mark.parametrize("recognizer", [*OBJECTS, "NeMo manifest"])
def test_damaged_json_is_read_or_refused(recognizer: str, tmp_path: Path) -> None:
    rng = random.Random(recognizer)
    text = json.dumps(RECOGNIZERS[recognizer])
    messages: list[str] = []
    for _ in range(60):
        content = json.loads(text)
        *way, last = rng.choice([*places(content)])
        inner = content
        for key in way:
            inner = inner[key]
        inner[last] = rng.choice(WRONG_VALUES)
        try:
            sides = heard(tmp_path, content)
        except InputError as error:
            messages.append(str(error))
        else:
            assert all((words.ends >= words.starts).all() for words in sides)
    assert messages
    assert not any("\n" in message for message in messages)
