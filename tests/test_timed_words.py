"""Readers of timed words: every layout gives the same words and times, and each unusable file one
reason."""

import json
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.formats import subtitles
from nbaudio.formats.timed_words import read_timed_words, stem

WORDS = [("Dobar", 0.5, 0.75), ("dan,", 0.75, 1.25), ("šest", 2.0, 2.5), ("kuća.", 2.5, 3.0)]


def read(
    folder: Path, content: object, name: str = "file"
) -> dict[str, list[tuple[str, float, float]]]:
    """Words of each recording with starts and ends in milliseconds' precision; what is not text is
    written as JSON."""
    path = folder / "hypotheses"
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(content)
    found = {}
    for name_, words, starts, ends, *_ in read_timed_words(path, name):
        assert len(words) == len(starts) == len(ends)
        assert starts.dtype == ends.dtype == np.float64
        assert (np.diff(starts) >= 0).all()
        assert (ends >= starts).all()
        assert all(word and word.split() == [word] for word in words)
        found[name_] = list(
            zip(words, starts.round(3).tolist(), ends.round(3).tolist(), strict=True)
        )
    return found


def refused(folder: Path, content: object) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, content)
    message = str(caught.value)
    assert message.startswith(str(folder / "hypotheses"))
    assert "\n" not in message
    return message.removeprefix(str(folder / "hypotheses"))


def clock(seconds: float, mark: str = ",") -> str:
    return f"00:00:{seconds:06.3f}".replace(".", mark)


def cues(*items: tuple[str, float, float], mark: str = ",") -> str:
    blocks = (
        f"{n}\n{clock(start, mark)} --> {clock(end, mark)}\n{text}\n"
        for n, (text, start, end) in enumerate(items, 1)
    )
    return ("WEBVTT\n\n" if mark == "." else "") + "\n".join(blocks)


DICTS = [{"word": word, "start": start, "end": end} for word, start, end in WORDS]
SPACED = [{**each, "word": f" {each['word']}"} for each in DICTS]
SEGMENTS = [
    {"id": 0, "start": 0.4, "end": 1.3, "text": " Dobar dan,", "words": SPACED[:2]},
    {"id": 1, "start": 1.9, "end": 3.1, "text": " šest kuća.", "words": SPACED[2:]},
]
PLAIN = [{key: segment[key] for key in ("id", "start", "end", "text")} for segment in SEGMENTS]
TEXT = " Dobar dan, šest kuća."
PARLASPEECH = [
    {
        "file": "file",
        "start": 0.25,
        "end": 1.3,
        "words": ["Dobar", "dan,"],
        "word_start_times": [0.25, 0.5],
    },
    {
        "orig_file": "file",
        "start": "1.9",
        "end": "3.1",
        "words": "šest kuća.",
        "word_start_times": [0.1, 0.6],
    },
]
PARLASPEECH[0]["word_end_times"], PARLASPEECH[1]["word_end_times"] = [0.5, 1.0], ["0.6", "1.1"]
CTM = "".join(f"file 1 {start} {end - start} {word} 0.9\n" for word, start, end in WORDS)
KARAOKE = [
    ("<00:00.500>Dobar <00:00:00.750>dan,", 0.5, 1.25),
    ("<i>šest</i><00:00:02.500><c.colorE5E5E5> kuća.</c>", 2.0, 3.0),
]

LAYOUTS = {
    "ctm": CTM,
    "ctm without confidence, with comments": ";; a comment\n\n" + CTM.replace(" 0.9\n", "\n"),
    "ctm, out of order": "".join(reversed(CTM.splitlines(keepends=True))),
    "whisper": {"text": TEXT, "segments": SEGMENTS, "language": "hr"},
    "whisperx": {
        "segments": [{**SEGMENTS[0], "words": DICTS[:2]}, {**SEGMENTS[1], "words": DICTS[2:]}],
        "word_segments": DICTS,
    },
    "whisper_timestamped": {
        "segments": [{"words": [{"text": w, "start": s, "end": e} for w, s, e in WORDS]}]
    },
    "openai": {
        "task": "transcribe",
        "duration": 3.1,
        "text": TEXT,
        "segments": PLAIN,
        "words": DICTS,
    },
    "openai without segments": {"text": TEXT, "words": DICTS},
    "list of segments": SEGMENTS,
    "list of words": DICTS,
    "lines of segments": "\n".join(map(json.dumps, SEGMENTS)),
    "lines of words": "\n".join(map(json.dumps, DICTS)),
    "one line": json.dumps({"segments": SEGMENTS}),
    "indented": json.dumps({"segments": SEGMENTS}, indent=2, ensure_ascii=False),
    "parlaspeech": "\n".join(map(json.dumps, PARLASPEECH)),
    "parlaspeech, other order": "\n\n".join(map(json.dumps, reversed(PARLASPEECH))),
    "parlaspeech in a list": PARLASPEECH,
    "srt": cues(*WORDS),
    "vtt": cues(*WORDS, mark="."),
    "karaoke": cues(*KARAOKE, mark="."),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_words_and_times(layout, tmp_path):
    assert read(tmp_path, LAYOUTS[layout]) == {"file": WORDS}


@pytest.mark.parametrize(
    ("layout", "encoding"),
    [
        *product(
            ("ctm", "indented", "parlaspeech", "lines of segments", "srt", "vtt"),
            ("utf8", "utf-8-sig", "crlf"),
        ),
        *product(("indented", "srt", "vtt"), ("utf-16",)),
    ],
)
def test_every_layout_is_read_in_any_encoding_and_line_end(layout, encoding, tmp_path):
    text = LAYOUTS[layout]
    data = text.replace("\n", "\r\n").encode() if encoding == "crlf" else text.encode(encoding)
    assert read(tmp_path, data) == {"file": WORDS}


# Recordings


def test_entries_of_several_recordings_may_alternate(tmp_path):
    text = "b 1 1 0.5 dva\na 1 0 1 x\nb 1 0.5 0.5 jedan\na 1 1 1 y\n"
    assert list(read(tmp_path, text).items()) == [
        ("b", [("jedan", 0.5, 1.0), ("dva", 1.0, 1.5)]),
        ("a", [("x", 0.0, 1.0), ("y", 1.0, 2.0)]),
    ]
    rows = [
        {"file": name, "words": [name], "word_start_times": [start], "word_end_times": [2]}
        for name, start in (("b", 1), ("a", 0), ("b", 0.5))
    ]
    found = read(tmp_path, "\n".join(map(json.dumps, rows)))
    assert list(found.items()) == [
        ("b", [("b", 0.5, 2.0), ("b", 1.0, 2.0)]),
        ("a", [("a", 0.0, 2.0)]),
    ]


def test_words_without_a_recording_name_get_the_given_name(tmp_path):
    assert list(read(tmp_path, cues(*WORDS), "2024/day 1")) == ["2024/day 1"]
    assert list(read(tmp_path, {"audio": "x.wav", "words": DICTS}, "y")) == ["x.wav"]
    assert list(
        read(tmp_path, {"recording": None, "audio": {"path": "x.wav"}, "words": DICTS}, "y")
    ) == ["y"]


@pytest.mark.parametrize(
    "content", [{"text": "", "segments": []}, [], "WEBVTT\n", {"text": " ", "words": []}]
)
def test_a_recording_in_which_nothing_was_heard_has_no_words(content, tmp_path):
    assert read(tmp_path, content) == {"file": []}


def test_stem_removes_extensions_of_audio_and_text_files():
    for ending in (
        ".json",
        ".CTM",
        ".srt",
        ".vtt",
        ".jsonl",
        ".txt",
        ".wav.json",
        ".MP3",
        ".xml",
        ".ana.xml",
        ".docx",
        ".html",
    ):
        assert stem(f"a.b/day 1.5 [HlauTe_NK6U]{ending}") == "a.b/day 1.5 [HlauTe_NK6U]"
    assert (
        stem("a [HlauTe_NK6U].hr.vtt") == stem("a [HlauTe_NK6U].sr-Latn.vtt") == "a [HlauTe_NK6U]"
    )
    assert [
        stem(name) for name in ("a.hr", "a", ".wav", "a/.json", "a.json.wav", "2024.05.01")
    ] == [
        "a.hr",
        "a",
        ".wav",
        "a/.json",
        "a.json",
        "2024.05.01",
    ]


# Times that are missing or unusable


@pytest.mark.parametrize("start", [None, "NaN", float("nan"), -1, "soon", 1e300, True, [1]])
def test_a_word_with_unusable_times_lies_between_its_neighbors(start, tmp_path):
    words = [dict(DICTS[0]), {"word": "2024.", "start": start, "end": start}, dict(DICTS[2])]
    assert read(tmp_path, {"segments": [{"start": 0, "end": 3, "words": words}]})["file"][1] == (
        "2024.",
        0.75,
        2.0,
    )
    assert read(tmp_path, {"words": words})["file"][1] == ("2024.", 0.75, 2.0)


def test_words_without_times_share_the_gap_by_characters(tmp_path):
    words = [{"word": "1"}, {"word": "222"}, dict(DICTS[2]), {"word": "3"}]
    segment = {"start": 1.0, "end": 3.0, "text": "1 222 šest 3", "words": words}
    expected = [("1", 1.0, 1.25), ("222", 1.25, 2.0), ("šest", 2.0, 2.5), ("3", 2.5, 3.0)]
    assert read(tmp_path, {"segments": [segment]}) == {"file": expected}
    (_, low, _), *_, (_, start, high) = read(tmp_path, {"words": words})["file"]
    assert 1 < low < 2  # without bounds, at the rate of speech
    assert start == 2.5 < high < 3


def test_a_segment_that_whisperx_could_not_align_shares_its_times(tmp_path):
    digits = {"start": 4.0, "end": 5.0, "text": " 20 24", "words": []}
    assert read(tmp_path, {"segments": [*SEGMENTS, digits]}) == {
        "file": [*WORDS, ("20", 4.0, 4.5), ("24", 4.5, 5.0)]
    }
    assert "segment 1: word times are needed" in refused(tmp_path, {"segments": [digits]})


def test_reversed_and_overlapping_word_times_are_repaired(tmp_path):
    text = "a 1 1.0 0.5 c\na 1 0.9 1 b\na 1 0.2 0.2 a\n"
    assert read(tmp_path, text) == {"a": [("a", 0.2, 0.4), ("b", 0.9, 1.9), ("c", 1.0, 1.5)]}
    words = [
        *DICTS[:1],
        {"word": "x", "start": 0.9, "end": 0.85},
        {"word": "y", "start": 1.9, "end": 0.1},
        *DICTS[2:],
    ]
    assert read(tmp_path, {"words": words})["file"][1:3] == [("x", 0.9, 0.9), ("y", 0.9, 2.0)]


def test_unusable_times_in_ctm_are_interpolated_or_refused(tmp_path):
    text = "a 1 0 1 x\na 1 nan 0.3 y\na 1 3 -1 z\na 1 5 1 w\na 1 6 1\n"
    assert read(tmp_path, text) == {
        "a": [("x", 0.0, 1.0), ("y", 1.0, 3.0), ("z", 3.0, 5.0), ("w", 5.0, 6.0)]
    }
    assert "a: the times of 'x' and of all other words are unusable" in refused(
        tmp_path, "b 1 1 1 y\na 1 nan 0.3 x\n"
    )


def test_parlaspeech_words_without_ends_or_start_get_times(tmp_path):
    row = {"file": "a", "words": ["x", "y"], "word_start_times": [0.5, 1]}
    assert read(tmp_path, row | {"start": 10, "end": 12})["a"] == [
        ("x", 10.5, 11.0),
        ("y", 11.0, 12.0),
    ]
    [x, (y, start, end)] = read(tmp_path, row)["a"]
    assert (x, y, start) == (("x", 0.5, 1.0), "y", 1.0)
    assert 1 < end < 1.5
    assert read(tmp_path, {"file": "a", "words": [], "word_start_times": []}) == {"a": []}


# Tokens


def test_a_token_with_blanks_is_several_words(tmp_path):
    words = [
        {"word": " New\u00a0York City ", "start": 1, "end": 2.1},
        {"word": "  ", "start": 2.1, "end": 2.2},
        {"word": None},
    ]
    assert read(tmp_path, {"words": words}) == {
        "file": [("New", 1.0, 1.3), ("York", 1.3, 1.7), ("City", 1.7, 2.1)]
    }


def test_a_token_without_a_blank_continues_a_word_where_others_begin_with_one(tmp_path):
    tokens = [(" well", 0, 1), ("-known", 1, 2), (" 20", 2, 3), ("%", None, None), (" x", 4, 5)]
    segment = {
        "start": 0,
        "end": 5,
        "words": [{"word": w, "start": s, "end": e} for w, s, e in tokens],
    }
    assert read(tmp_path, {"segments": [segment]}) == {
        "file": [("well-known", 0.0, 2.0), ("20%", 2.0, 4.0), ("x", 4.0, 5.0)]
    }
    bare = [{"word": word.strip(), "start": 0, "end": 1} for word, _, _ in tokens]
    assert [word for word, _, _ in read(tmp_path, {"words": bare})["file"]] == [
        "well",
        "-known",
        "20",
        "%",
        "x",
    ]


# Subtitles

ROLLING = """WEBVTT
Kind: captions
Language: hr

00:00:00.160 --> 00:00:02.389 align:start position:0%
\x20
da<00:00:00.480><c> da</c><00:00:00.960><c> idemo</c>

00:00:02.389 --> 00:00:02.399 align:start position:0%
da da idemo
\x20

00:00:02.399 --> 00:00:05.000 align:start position:0%
da da idemo
to<00:00:02.600><c> &amp;</c><00:00:02.800><c> to</c>

00:00:05.000 --> 00:00:05.010 align:start position:0%
to &amp; to
\x20

00:00:05.010 --> 00:00:06.000 align:start position:0%
to &amp; to
[Glazba]

00:00:06.000 --> 00:00:06.010 align:start position:0%
[Glazba]
\x20

00:00:06.010 --> 00:00:07.000 align:start position:0%
[Glazba]
[Glazba]

00:00:09.000 --> 00:00:10.000 align:start position:0%
[Glazba]
kraj<00:00:09.500><c> kraj</c>
"""


def test_rolling_captions_give_each_word_once(tmp_path):
    found = read(tmp_path, ROLLING)["file"]
    assert " ".join(word for word, _, _ in found) == "da da idemo to & to kraj kraj"
    assert found[:4] == [
        ("da", 0.16, 0.48),
        ("da", 0.48, 0.96),
        ("idemo", 0.96, 2.389),
        ("to", 2.399, 2.6),
    ]
    assert found[-2:] == [("kraj", 9.0, 9.5), ("kraj", 9.5, 10.0)]


def test_ingest_reads_a_line_of_blanks_after_the_times_as_part_of_the_cue(tmp_path):
    (tmp_path / "a.vtt").write_text(ROLLING)
    found = subtitles.read(tmp_path)
    assert found.frame["text"][0] == "da da idemo"
    assert len(found.problems) == 0


def test_cues_with_the_same_word_are_several_words(tmp_path):
    words = [("da", 0.0, 0.5), ("da", 0.5, 1.0), ("- da", 1.0, 1.5)]
    assert [word for word, _, _ in read(tmp_path, cues(*words))["file"]] == ["da", "da", "-", "da"]


@pytest.mark.parametrize("mark", [",", "."])
def test_underlined_words_of_cues_give_word_times(mark, tmp_path):
    items = [
        ("Dobar e-mail da", 0.0, 0.2),
        ("<u>Dobar</u> e-mail da", 0.2, 0.5),
        ("Dobar <u>e</u>-mail da", 0.5, 0.6),
        ("Dobar e<u>-mail</u> da", 0.6, 0.9),
        ("Dobar e-mail da", 0.9, 1.0),
        ("Dobar e-mail <u>da</u>", 1.0, 1.2),
        ("<u>Da.</u>", 1.2, 1.5),
        ("Da.", 1.5, 1.8),
        ("<u>Da.</u>", 1.8, 2.0),
    ]
    expected = [
        ("Dobar", 0.2, 0.5),
        ("e-mail", 0.5, 0.9),
        ("da", 1.0, 1.2),
        ("Da.", 1.2, 1.5),
        ("Da.", 1.8, 2.0),
    ]
    assert read(tmp_path, cues(*items, mark=mark)) == {"file": expected}
    assert "line 1: underlined words are not the words of the cue" in refused(
        tmp_path, cues(("<u>Vrlo</u> važno", 0, 1))
    )


# Refused files

EXPECTED = (
    ": no timed words; expected CTM, JSON of a recognizer with words and their times, "
    "word-timed SRT or WebVTT, or ParlaSpeech JSON lines"
)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "Dobar dan svima.\n",
        b"RIFF\x00\x00WAVE",
        b"%PDF-1.7",
        "\n\n",
        ";; a\n",
        "[Smijeh] da",
        "{\\rtf1",
    ],
)
def test_files_without_timed_words_are_refused(content, tmp_path):
    assert refused(tmp_path, content) == EXPECTED


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            {"segments": PLAIN},
            (
                ", line 1, segment 1: word times are needed; Whisper writes them with the "
                "option word_timestamps"
            ),
        ),
        ({"segments": [SEGMENTS[0], PLAIN[1]]}, ", line 1, segment 2: word times are needed"),
        ([{"text": "one two", "start": 0, "end": 1}], ", line 1, item 1: word times are needed"),
        ({"words": [{"word": "a"}, {"word": "b"}]}, ", line 1: word times are needed"),
        ({"text": "a b", "words": ["a", "b"]}, ", line 1: word times are needed"),
        ({"file": "a", "words": ["a"], "start": 0}, ", line 1: word times are needed"),
        (
            {"file": "a", "words": ["a"], "word_start_times": None},
            ", line 1: word times are needed",
        ),
        (
            {"file": "a", "words": ["a"], "word_start_times": [1, 2]},
            ", line 1: words, word_start_times and word_end_times are",
        ),
        (
            {"file": "a", "words": ["a"], "word_start_times": [1], "start": "x"},
            ", line 1: the start is not a time: 'x'",
        ),
        ({"segments": ["a"]}, ", line 1, segment 1: no timed words; expected"),
        ({"other": 1}, ", line 1: no timed words; expected"),
        ([[1, 2]], ", line 1, item 1: no timed words; expected"),
        ({"words": [{"word": {}, "start": 0, "end": 1}]}, ", line 1: a word that is not text: {}"),
        (
            '{"words": [{"word": "\\ud800", "start": 0, "end": 1}]}',
            ", line 1: half a surrogate pair, which is not Unicode",
        ),
        ('{"words": [}', ", line 1: not JSON: Expecting value (character 12 of the line)"),
        ('{\n"words": [\n}', ", line 3: not JSON: Expecting value"),
        (f"{json.dumps(SEGMENTS[0])}\n{{]\n", ", line 2: not JSON"),
        ("[" * 100_000, ", line 1: JSON that is nested too deeply"),
        (
            "a 1 0 1 x\nDobar dan\n",
            ", line 2: expected recording, channel, start, duration and word, not 'Dobar dan'",
        ),
        (b"a 1 0 1 x\na 1 1 1 \xff\n", ", line 2: not UTF-8 text"),
        (
            cues(WORDS[0], ("dva tri", 1, 2)),
            ", line 5: several words in one cue; word times are needed",
        ),
        (cues(*WORDS) + "\n5\nx --> y\nda\n", ", line 18: expected times such as"),
        (cues(*WORDS).encode("cp1250"), ": not utf-8 text (byte"),
    ],
)
def test_unusable_content_is_refused_with_the_reason(content, reason, tmp_path):
    assert refused(tmp_path, content).startswith(reason)


def test_missing_special_and_too_large_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "a"
    with pytest.raises(InputError, match="No such file"):
        next(read_timed_words(path, "a"))
    os.mkfifo(path)
    with pytest.raises(InputError, match="a pipe, not a regular file"):
        next(read_timed_words(path, "a"))
    with pytest.raises(InputError, match="a folder, not a regular file"):
        next(read_timed_words(tmp_path, "a"))
    monkeypatch.setattr(input_guards, "MAX_TEXT_BYTES", 100)
    monkeypatch.setattr(input_guards.read_all, "__kwdefaults__", {"most": 100})
    assert read(tmp_path, CTM) == {"file": WORDS}  # by lines
    assert "which is not read" in refused(tmp_path, LAYOUTS["srt"])
    assert "which is not read" in refused(tmp_path, LAYOUTS["whisper"])


def test_json_with_a_name_of_numbers_is_not_taken_for_ctm(tmp_path):
    row = {
        "file": "12 3 2024 - Harbour Bill.mp3",
        "start": 2,
        "words": ["a"],
        "word_start_times": [0],
        "word_end_times": [1],
    }
    (tmp_path / "words.jsonl").write_text(json.dumps(row), "utf8")
    [found] = read_timed_words(tmp_path / "words.jsonl", "x")
    assert (found.name, found.words, found.starts.tolist()) == (row["file"], ["a"], [2.0])


@pytest.mark.parametrize("further", ["", " 0.93", " NA lex spk1"])
def test_ctm_with_blanks_in_the_recording_name_is_read(tmp_path, further):
    name = "17 1 2018 - 2. dio, 7. sjednica [HlauTe_NK6U].wav"
    (tmp_path / "a.ctm").write_text(
        f"{name} 1 0.50 0.25 Dobar{further}\n{name} 1 0.75 0.50 dan{further}\n", "utf8"
    )
    [found] = read_timed_words(tmp_path / "a.ctm", "a")
    assert (found.name, found.words, found.ends.tolist()) == (name, ["Dobar", "dan"], [0.75, 1.25])
