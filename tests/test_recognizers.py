"""Output of recognizers, as each of them writes it, gives the same words and times: units, what is
no word, alternatives and sides of calls."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nbaudio.core.errors import InputError
from nbaudio.formats.timed_words import TimedWords, read_timed_words

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


def each(write: Callable[[str, float, float], Any]) -> list[Any]:
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
CPP_WORDS = whisper_cpp([cpp("", 0, 0.5), *each(lambda w, s, e: cpp(f" {w}", s, e))])

# Others on one's own machine

NEMO_WORDS = each(
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
GENTLE = each(
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
    {"alternatives": [{"transcript": "x", "words": each(google_word)[:2]}], "languageCode": "hr"},
    {"alternatives": [{"transcript": "y", "words": each(google_word)[2:]}]},
]
SPOKEN_BY = [{**word, "speakerTag": 1} for word in each(google_word)]
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
    for word in each(azure_word)
]
DISPLAY_WORDS = [{"displayText": word.pop("word"), **word} for word in each(azure_word)]


def deepgram_channel(words: list[Any]) -> dict[str, Any]:
    return {"alternatives": [{"transcript": TEXT, "confidence": 0.9, "words": words}]}


DEEPGRAM_WORDS = each(
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


ASSEMBLYAI = each(
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
        "chunks": each(lambda w, s, e: {"text": f" {w}", "timestamp": [s, e]}),
    },
    "faster-whisper, named tuples": {
        "segments": [{"start": 0, "end": 3, "words": each(lambda w, s, e: [s, e, f" {w}", 0.9])}]
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
                "terms": each(
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
                "words": each(
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
                        "words": each(
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
                        "words": each(
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
                "Items": each(
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
        azure_phrase(each(azure_word)[:2]),
        {"recognitionStatus": "NoMatch", "channel": 0},
        azure_phrase(each(azure_word)[2:]),
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
                "words": each(
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
                        "Words": each(
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
    "times in ms by name": {
        "tokens": [],
        "words": each(lambda w, s, e: {"text": w, "start_ms": ms(s), "end_ms": ms(e)}),
    },
}


@pytest.mark.parametrize("recognizer", RECOGNIZERS)
def test_words_and_times(recognizer: str, tmp_path: Path) -> None:
    assert read(tmp_path, RECOGNIZERS[recognizer]) == WORDS
