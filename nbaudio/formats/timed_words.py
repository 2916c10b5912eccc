"""Read recognizers' hypotheses with a time for every word.

They are CTM, Whisper-style JSON, subtitles or ParlaSpeech JSON lines.
"""

import math
import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.core.name_matching import AUDIO_EXTENSIONS
from nbaudio.formats.base import (
    RECORDING_FIELDS,
    decode_text,
    json_values,
    numbered_lines,
    unescape,
)
from nbaudio.formats.source_files import Layout, SourceFiles, common_folder
from nbaudio.formats.subtitle_cues import TAG, cues

_EXPECTED = "expected CTM, Whisper-style JSON, word-timed SRT or WebVTT, or ParlaSpeech JSON lines"
_NEEDED = "word times are needed; Whisper writes them with the option word_timestamps"
# Of words without times before the first or after the last that has one.
_SECONDS_A_CHARACTER = 0.07
_ENDING = re.compile(
    r"(?<=[^/])(?:\.ana)?\.(?:jsonl?|ctm|srt|vtt|txt|md|xml|docx|html?)$", re.IGNORECASE
)
# Yt-dlp writes the language after the id in brackets.
_LANGUAGE = re.compile(r"(?<=\])\.[a-z]{2,3}(?:-\w+)*$")
_AUDIO = re.compile(rf"(?<=[^/])\.(?:{'|'.join(sorted(AUDIO_EXTENSIONS))})$", re.IGNORECASE)
# The name of a recording may have blanks; a confidence, a type and a speaker may follow the word.
_CTM = re.compile(
    r"\s*(\S.{0,300}?)\s+\S+\s+(nan|-?[\d.]+)\s+(nan|-?[\d.]+)"
    r"(?:\s+(\S+)(?:\s+(?:NA|nan|[-+\d.eE]+)(?:\s+\S+){0,2})?)?\s*$"
)
_JSON = re.compile(r"\{\s*(?:[\"}]|$)|\[\s*(?:[\[{\]]|$)")
_CUES = re.compile(r"(?m)^(?:WEBVTT|[ \t]*[\d:.,]+[ \t]*-->[ \t]*\d)")
_CLOCK = re.compile(r"<((?:\d+:)?\d+:\d+\.?\d*)>")
_UNDERLINED = re.compile(r"(\S?)<u>([^<>]*)</u>")

_Token = tuple[Any, Any, Any]  # text, start and end, as found
# Recording, place in the file, neighbors, and start and end of all.
_Group = tuple[str | None, str, list[_Token], Any, Any]

# Endings of transcripts that are not cut (`nbaudio.formats.documents`).
_DOCUMENTS = (".txt", ".docx", ".html", ".htm", ".xml")


class TimedWords(NamedTuple):
    """The words of one recording, sorted by start.

    There are none where the recognizer heard none.
    """

    name: str  # of the recording, as the file says it, else as the caller does
    words: list[str]  # as written, without blanks, none empty
    starts: npt.NDArray[np.float64]  # seconds from the start of the recording
    ends: npt.NDArray[np.float64]  # no end precedes its start


def stem(path: str) -> str:
    """Return a path without the ending of a text file.

    One of `AUDIO_EXTENSIONS` that is last then is removed as well.

    Example:
        >>> stem("2024/day 1 [HlauTe_NK6U].wav.json")
        '2024/day 1 [HlauTe_NK6U]'
    """
    return _AUDIO.sub("", _LANGUAGE.sub("", _ENDING.sub("", path)))


def detect(files: SourceFiles) -> list[Layout]:
    """Return the hypotheses with word times and the documents that files have, if both are there.

    A recognizer such as Whisper writes its own text beside its word times. Whether documents in the
    folder of the hypotheses are that text is a question.
    """
    documents = files.ending(*_DOCUMENTS)
    hypotheses = [
        *files.ending(".ctm"),
        *(name for name in files.ending(".json") if _has_timed_words(files, name)),
    ]
    if not hypotheses or not documents:
        return []
    heard = common_folder(hypotheses)
    typed = common_folder(documents)
    question = (
        f"{documents[0]} may be the recognizer's own text: put the transcripts into a folder of "
        "their own, or name them, such as --set documents=FOLDER"
    )
    is_own = {*map(stem, hypotheses)} & {*map(stem, documents)}
    return [
        Layout(
            "align",
            files.path(heard),
            f"{hypotheses[0]} has words with times, {documents[0]} is a text that is not cut",
            frozenset([*hypotheses, *documents]),
            recording=hypotheses[0],
            documents=files.path(typed),
            question=question if is_own else None,
        )
    ]


def _has_timed_words(files: SourceFiles, name: str) -> bool:
    """Return whether JSON is a recognizer's, and not lines of segments as ParlaSpeech has them."""
    head = files.head(name)
    is_timed = b'"start"' in head and (b'"words"' in head or b'"word"' in head)
    return is_timed and files.first_object(name).keys().isdisjoint(RECORDING_FIELDS)


def read_timed_words(path: Path, name: str) -> Iterator[TimedWords]:
    r"""Read the words of recordings from a recognizer's file with word times.

    The file is CTM, JSON of Whisper and its relatives, SRT or WebVTT with word times, or
    ParlaSpeech JSON lines.

    Words whose times are missing or unusable get times between those of their neighbors; a token
    with blanks is several words. Recordings come in order of first appearance; `name` is that of
    words for which the file names none.

    Raises:
        InputError: The file has no timed words, or cannot be read; the message has the file, the
            item and the reason.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.ctm")
        >>> _ = path.write_text("day1 1 0.50 0.25 Dobar\nday1 1 0.75 0.50 dan\n")
        >>> [found] = read_timed_words(path, "a")
        >>> found.name, found.words, found.ends.tolist()
        ('day1', ['Dobar', 'dan'], [0.75, 1.25])
    """
    recordings: dict[str, tuple[list[str], array[float]]] = {}  # words; start, end, start, ...
    places: dict[str, str] = {}  # of the first words of recordings, empty once any words have times
    once: dict[str, str] = {}  # equal words are one object
    try:
        for own, where, tokens, *bounds in _groups(path):
            words, edges = _split(where, tokens)
            if words:
                places[own or name] = (
                    places.get(own or name, where) if all(map(math.isnan, edges)) else ""
                )
                edges[0] = _time(bounds[0]) if math.isnan(edges[0]) else edges[0]
                edges[-1] = _time(bounds[1]) if math.isnan(edges[-1]) else edges[-1]
            all_words, all_edges = recordings.setdefault(own or name, ([], array("d")))
            all_words += (once.setdefault(word, word) for word in words)
            all_edges.extend(edges)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not {error.encoding} text (byte {error.start + 1})") from error
    for own, (words, known) in (recordings or {name: ([], array("d"))}).items():
        if place := places.get(own):
            reason = f"{own}: the times of {words[0]!r} and of all other words are unusable"
            raise InputError(f"{place}: {_NEEDED} ({reason})")
        starts, ends = _interpolate(words, np.array(known)).reshape(-1, 2).T
        order = np.argsort(starts, kind="stable")
        yield TimedWords(
            own, [words[row] for row in order], starts[order], np.maximum(starts, ends)[order]
        )


def _interpolate(words: list[str], edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Replace unknown edges (start, end, start, ...) by times between the known ones.

    The times are in proportion to characters.
    """
    known = np.flatnonzero(~np.isnan(edges))
    if len(known) == len(edges):
        return edges
    places = np.repeat(np.cumsum([0, *map(len, words)]), 2)[1:-1]
    low, high = edges[known[[0, -1]]] + _SECONDS_A_CHARACTER * (
        places[[0, -1]] - places[known[[0, -1]]]
    )
    times = np.interp(
        places, np.r_[0, places[known], places[-1]], np.r_[max(0, low), edges[known], high]
    )
    return np.where(np.isnan(edges), times, edges)


def _split(where: str, tokens: list[_Token]) -> tuple[list[str], list[float]]:
    """Return words and their edges.

    Where tokens begin with a blank, a token that does not continues the word before it.
    """
    words: list[str] = []
    edges: list[float] = []
    is_cut = any(str(text)[:1].isspace() for text, _, _ in tokens[1:])
    for text, *times in tokens:
        if not isinstance(text, str | None):
            raise InputError(f"{where}: a word that is not text: {text!r:.60}")
        start, end = map(_time, times)
        if end < start:
            start, end = (start, start) if start - end <= 0.1 else (math.nan, math.nan)
        parts = (text or "").split()
        if is_cut and words and text and not text[0].isspace():
            parts[0], start = words.pop() + parts[0], edges[-2]
            del edges[-2:]
        words += parts
        edges += [start, *[math.nan] * (2 * len(parts) - 2), end] if parts else []
    return words, edges


def _time(value: object) -> float:
    """Return a time in seconds, also of a clock, or NaN if it is not usable."""
    time = math.nan
    if isinstance(value, str | float):
        with suppress(ValueError):
            time = sum(
                float(part) * 60**power
                for power, part in enumerate(reversed(str(value).split(":")))
            )
    return time if 0 <= time < 1e8 else math.nan


def _groups(path: Path) -> Iterator[_Group]:
    input_guards.check_regular(path)
    with path.open("rb") as file:
        head = decode_text(file.read(1 << 16), errors="replace")
    first = next(
        (line for line in head.split("\n") if line.strip() and not line.startswith(";;")), ""
    ).strip()
    for found, read in (
        (_JSON.match(first), _read_json),
        (_CTM.match(first), _read_ctm),
        (_CUES.search(head), _read_subtitles),
    ):
        if found:
            return read(path)
    raise InputError(f"{path}: no timed words; {_EXPECTED}")


def _read_ctm(path: Path) -> Iterator[_Group]:
    for number, line in numbered_lines(path.resolve()):
        if row := _CTM.match(line):
            name, start, duration, word = row.groups()
            yield (
                name,
                f"{path}, {name}",
                [(word, start, _time(start) + _time(duration))],
                None,
                None,
            )
        elif not line.startswith(";;"):
            expected = "expected recording, channel, start, duration and word"
            raise InputError(f"{path}, line {number}: {expected}, not {line.strip()[:60]!r}")


def _read_json(path: Path) -> Iterator[_Group]:
    for where, value in json_values(path):
        fields = value if isinstance(value, dict) else {}
        name = next(
            (
                said
                for field in RECORDING_FIELDS
                if isinstance(said := fields.get(field), str) and said
            ),
            None,
        )
        parts = [(where, value)]
        if isinstance(segments := fields.get("segments"), list) and not fields.get("words"):
            parts = [
                (f"{where}, segment {number}", segment)
                for number, segment in enumerate(segments, 1)
            ]
            yield name, where, [], None, None
        for place, part in parts:
            match part:
                case {"word_start_times": list()}:
                    yield name, place, *_parlaspeech(place, part)
                case {"words": [*words]}:  # WhisperX aligns no words such as digits
                    tokens = [_token(word) for word in words or [part.get("text")]]
                    yield name, place, tokens, part.get("start"), part.get("end")
                case {"word": text} | {"text": text} if len(str(text).split()) < 2:
                    yield name, place, [_token(part)], None, None
                case {"word": _} | {"text": _}:
                    raise InputError(f"{place}: {_NEEDED}")
                case _:
                    raise InputError(f"{place}: no timed words; {_EXPECTED}")


def _token(item: Any) -> _Token:
    fields = item if isinstance(item, dict) else {"word": item}
    return fields.get("word", fields.get("text")), fields.get("start"), fields.get("end")


def _parlaspeech(where: str, row: dict[str, Any]) -> tuple[list[_Token], Any, Any]:
    words = row.get("words")
    starts = row["word_start_times"]
    start = row.get("start")
    ends = row.get("word_end_times") or [None] * len(starts)
    lists = [words.split() if isinstance(words, str) else words, starts, ends]
    if not all(isinstance(each, list) and len(each) == len(starts) for each in lists):
        raise InputError(
            f"{where}: words, word_start_times and word_end_times are not lists of one length"
        )
    offset = 0.0 if start is None else _time(start)
    if math.isnan(offset):
        raise InputError(f"{where}: the start is not a time: {start!r:.60}")
    tokens = [
        (word, offset + _time(start), offset + _time(end))
        for word, start, end in zip(*lists, strict=True)
    ]
    return tokens, offset, row.get("end")


def _read_subtitles(path: Path) -> Iterator[_Group]:
    """Yield the words of cues.

    Words that several cues show, as they are underlined in turn or lines roll up, come only once.
    """
    text = decode_text(input_guards.read_all(path))
    has_clocks = bool(_CLOCK.search(text))
    shown = ""
    rows: list[Any] = list(cues(text))
    if bad := next((row for row in rows if isinstance(row, tuple)), None):
        raise InputError(f"{path}, line {bad[0]}: {bad[1]}")
    for spoken, run in groupby(rows, key=lambda cue: cue["text"]):
        underlined = []
        tokens = []
        for cue in run:
            where = f"{path}, line {cue['line']}"
            start = cue["source_start"]
            end = cue["source_end"]
            lines = cue["lines"]
            marks = _UNDERLINED.findall(" ".join(lines))
            underlined += [
                (" " * (not before) + _plain(word), start, end) for before, word in marks
            ]
            visible = [_plain(line).strip() for line in lines]
            is_repeated = has_clocks and visible[:1] == [shown] and not _CLOCK.search(lines[0])
            shown = next(filter(None, reversed(visible)), shown)
            pieces = _CLOCK.split(" ".join(lines[is_repeated:]))
            times = [start, *pieces[1::2], end]
            tokens += [
                (_plain(piece), *times[row : row + 2]) for row, piece in enumerate(pieces[::2])
            ]
        if underlined and set("".join(word for word, _, _ in underlined).split()) != set(
            spoken.split()
        ):
            raise InputError(
                f"{where}: underlined words are not the words of the cue, one after the other"
            )
        if not (has_clocks or underlined) and len(re.findall(r"\w\S*", spoken)) > 1:
            raise InputError(f"{where}: several words in one cue; {_NEEDED}")
        yield None, where, underlined or tokens, None, None


def _plain(text: str) -> str:
    return unescape(TAG.sub("", text))
