"""Read recognizers' hypotheses with a time for every word: CTM, Whisper-style JSON, subtitles, ParlaSpeech JSON lines."""

import codecs
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.core.name_matching import AUDIO_EXTENSIONS
from nbaudio.formats.base import RECORDING_FIELDS, decode_text, json_values, read_lines, split_lines
from nbaudio.formats.subtitles import timed_tokens

_EXPECTED = "expected CTM, Whisper-style JSON, word-timed SRT or WebVTT, or ParlaSpeech JSON lines"
_NEEDED = "word times are needed; Whisper writes them with the option word_timestamps"
_HEAD_BYTES = 1 << 16  # that tell the format
_MOST_SECONDS = 1e8  # what is later is no time
_SLIGHTLY = 0.1  # seconds that an end may precede its start, or a cue the end of the one before
_SECONDS_A_CHARACTER = 0.07  # of words without times before the first or after the last that has one

_ENDING = re.compile(r"(?<=[^/])(?:\.ana)?\.(?:jsonl?|ctm|srt|vtt|txt|md|xml|docx|html?)$", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?<=\])\.[a-z]{2,3}(?:-\w+)*$")  # yt-dlp writes it after the id in brackets
_AUDIO = re.compile(rf"(?<=[^/])\.(?:{'|'.join(sorted(AUDIO_EXTENSIONS))})$", re.IGNORECASE)

_JSON = re.compile(r"\{\s*(?:\"|\}|$)|\[\s*(?:[\[{\]]|$)")
_CUES = re.compile(r"^(?:WEBVTT|[ \t]*[\d:.,]+[ \t]*-->[ \t]*\d)", re.MULTILINE)
_LONG_CTM = re.compile(r"(.+)\s(\w)\s+([\d.]+)\s+([\d.]+)\s+(\S+)(?:\s+[\d.eE+-]+)?")  # the recording's name has blanks
_NO_WORD = re.compile(r"\[_\w+\]|<\|.*\|>")  # tokens of whisper.cpp

_Token = tuple[Any, Any, Any]  # with start and end
_UNKNOWN = math.nan, math.nan


class TimedWords(NamedTuple):
    """The words of one recording, sorted by start; there are none where the recognizer heard none."""

    name: str  # of the recording, as the file says it, else as the caller does
    words: list[str]  # as written, without blanks, none empty
    starts: npt.NDArray[np.float64]  # seconds from the start of the recording
    ends: npt.NDArray[np.float64]  # no end precedes its start


def stem(path: str) -> str:
    """Return a path without the ending of a text file, and without one of `AUDIO_EXTENSIONS` that is last then.

    Example:
        >>> stem("2024/day 1 [HlauTe_NK6U].wav.json")
        '2024/day 1 [HlauTe_NK6U]'
    """
    return _AUDIO.sub("", _LANGUAGE.sub("", _ENDING.sub("", path)))


def read_timed_words(path: Path, name: str) -> Iterator[TimedWords]:
    r"""Read CTM, JSON of Whisper and its relatives, SRT or WebVTT with word times, or ParlaSpeech JSON lines.

    Words whose times are missing or unusable get times between those of their neighbors; a token with blanks is several words.
    Recordings come in order of first appearance; `name` is that of words for which the file names none.

    Raises:
        InputError: The file has no timed words, or cannot be read; the message has the file, the item and the reason.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.ctm")
        >>> _ = path.write_text("day1 1 0.50 0.25 Dobar\nday1 1 0.75 0.50 dan\n")
        >>> [found] = read_timed_words(path, "a")
        >>> found.name, found.words, found.ends.tolist()
        ('day1', ['Dobar', 'dan'], [0.75, 1.25])
    """
    found = _Found(path, name)
    try:
        input_guards.check_regular(path)
        with path.open("rb") as file:
            head = decode_text(file.read(_HEAD_BYTES), errors="replace")
        first = next((line for line in head.split("\n") if line.strip() and not line.startswith(";;")), "").strip()
        if _JSON.match(first):
            _read_json(found)
        elif _ctm_fields(first):
            _read_ctm(found)
        elif _CUES.search(head):
            _read_subtitles(found)
        else:
            raise InputError(f"{path}: no timed words; {_EXPECTED}")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not {error.encoding} text (byte {error.start + 1})") from error
    yield from found.recordings()


class _Found:
    """The words of all recordings of a file: equal words are one object, times are in arrays, NaN where unknown."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._words: dict[str, str] = {}
        self._recordings: dict[str, tuple[list[str], array[float]]] = {}  # words; start, end, start, ...
        self._has_times, self._untimed = False, ""  # whether any word has times, and the first group where none has

    def error(self, where: str, reason: str) -> InputError:
        """Return the error of an item of the file."""
        return InputError(f"{self.path}, {where}: {reason}")

    def add(self, name: str, where: str, tokens: Iterable[_Token], bounds: tuple[float, float] = _UNKNOWN) -> None:
        """Add neighboring tokens of a recording, between `bounds`; if some begin with a blank, others may continue a word."""
        words: list[str] = []
        edges: list[float] = []
        tokens, before = list(tokens), " "
        is_cut = any(str(token)[:1].isspace() for token, _, _ in tokens[1:])
        for token, *times in tokens:
            if token is not None and not isinstance(token, str):
                raise self.error(where, f"a word that is not text: {token!r:.60}")
            start, end = map(_time, times)
            if end < start:
                start, end = (start, start) if start - end <= _SLIGHTLY else (math.nan, math.nan)
            parts = (token or "").split()
            if words and parts and is_cut and token and not (before.isspace() or token[0].isspace()):
                words[-1] += parts.pop(0)
                start, edges[-1] = math.nan, math.nan if parts else end
            words += parts
            edges += [start, *[math.nan] * (2 * len(parts) - 2), end][: 2 * len(parts)]
            before = (token or before)[-1]
        known = np.array(edges)
        if words and np.isnan(known).all():
            self._untimed = self._untimed or where
        self._has_times |= not np.isnan(known).all()
        all_words, all_edges = self._recordings.setdefault(name, ([], array("d")))
        all_edges.extend(_fill(words, known, *bounds))
        try:  # whisper.cpp cuts even characters, whose bytes are together again
            words = [word.encode("utf8", "surrogateescape").decode("utf8") for word in words]
        except UnicodeError as error:
            raise self.error(where, "a word that is not Unicode") from error
        all_words.extend(self._words.setdefault(word, word) for word in words)

    def recordings(self) -> Iterator[TimedWords]:
        """Yield the recordings, in order of first appearance; the file's own without words if there is none."""
        if self._untimed and not self._has_times:
            raise self.error(self._untimed, _NEEDED)
        self._recordings = self._recordings or {self.name: ([], array("d"))}
        while self._recordings:
            name = next(iter(self._recordings))
            words, edges = self._recordings.pop(name)
            times = _fill(words, np.array(edges), *_UNKNOWN).reshape(-1, 2)
            if np.isnan(times).any():
                raise self.error(name, f"the times of {words[0]!r} and of all other words are unusable; {_NEEDED}")
            order = np.argsort(times[:, 0], kind="stable")
            starts = times[order, 0]
            yield TimedWords(name, [words[row] for row in order], starts, np.maximum(starts, times[order, 1]))


def _time(value: Any) -> float:
    """Return a time in seconds, NaN if it is not usable."""
    try:
        time = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan
    return time if 0 <= time < _MOST_SECONDS else math.nan


def _fill(words: Sequence[str], edges: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.float64]:
    """Interpolate unknown edges (start, end, start, ...) over characters; unchanged where nothing at all is known."""
    known = ~np.isnan(edges)
    if known.all() or not (known.any() or math.isfinite(low + high)):
        return edges
    after = np.cumsum([len(word) for word in words])
    places = np.column_stack((np.append(0, after[:-1]), after)).ravel()
    if known.any():
        first, last = np.flatnonzero(known)[[0, -1]]
        early, late = edges[[first, last]] + _SECONDS_A_CHARACTER * (places[[0, -1]] - places[[first, last]])
        low = min(max(0.0, early if math.isnan(low) else low), edges[first])
        high = max(late if math.isnan(high) else high, edges[last])
    between = np.interp(places, [0, *places[known], places[-1]], [low, *edges[known], high])
    return np.where(known, edges, between)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        is_utf16 = file.read(2) in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}
    return split_lines(decode_text(input_guards.read_all(path))) if is_utf16 else read_lines(path)


def _ctm_fields(line: str) -> Sequence[str]:
    """Return recording, channel, start, duration and word (which may be missing) of a line of CTM, or nothing."""
    fields: Sequence[str] = line.split()
    if 6 < len(fields) < 99 and (long := _LONG_CTM.fullmatch(line.strip())):
        fields = long.groups()
    try:
        _ = [float(time) for time in fields[2:4]]
    except ValueError:
        return ()
    return (*fields[:5], "")[:5] if len(fields) >= 4 else ()


def _read_ctm(found: _Found) -> None:
    def rows() -> Iterator[tuple[int, Sequence[str]]]:
        for number, line in _lines(found.path):
            if not line.startswith(";;"):
                if not (fields := _ctm_fields(line)):
                    expected = "expected recording, channel, start, duration and word"
                    raise found.error(f"line {number}", f"{expected}, not {line.strip()[:60]!r}")
                yield number, fields

    for name, some in groupby(rows(), key=lambda row: row[1][0]):
        tokens = ((word, start, _time(start) + _time(duration)) for _, (_, _, start, duration, word) in some)
        found.add(name, name, tokens)


def _read_json(found: _Found) -> None:
    def whole() -> str:
        return decode_text(input_guards.read_all(found.path), errors="surrogateescape")

    values = json_values(found.path, _lines(found.path), whole, parse_int=float)
    for where, value in values:
        if not isinstance(value, dict):
            _add_segment(found, found.name, where, value)
            continue
        name = next((said for field in RECORDING_FIELDS if isinstance(said := value.get(field), str) and said), found.name)
        lists = {field: said for field, said in value.items() if isinstance(said, list)}
        parts = lists.get("segments", lists.get("transcription", lists.get("chunks")))
        words = lists.get("words", lists.get("word_segments"))
        if "word_start_times" in value:
            _add_parlaspeech(found, name, where, value)
        elif parts is None:
            _add_segment(found, name, where, value if words is None else value | {"words": words})
        elif words and not any(isinstance(part, dict) and part.get("words") for part in parts):
            found.add(name, where, map(_token, words))
        else:
            found.add(name, where, [])
            for number, part in enumerate(parts, 1):
                _add_segment(found, name, f"{where}, segment {number}", part)


def _token(item: Any) -> _Token:
    """Return word, start and end of an object, or of a list of start, end and word."""
    match item:
        case [start, end, word, *_]:
            return word, start, end
        case {"offsets": {"from": start, "to": end}}:  # milliseconds
            return item.get("text"), _time(start) / 1000, _time(end) / 1000
        case {"timestamp": [start, end]}:
            return item.get("text"), start, end
        case dict():
            return item.get("word", item.get("text")), item.get("start"), item.get("end")
    return item, None, None


def _add_segment(found: _Found, name: str, where: str, segment: Any) -> None:
    if not (isinstance(segment, dict) and {"words", "word", "text"} & segment.keys()):
        raise found.error(where, f"no timed words; {_EXPECTED}")
    text, start, end = _token(segment)
    bounds = _time(start), _time(end)
    match segment:
        case {"tokens": [{}, *_] as tokens}:  # of whisper.cpp
            spoken = [_token(token) for token in tokens if not _NO_WORD.fullmatch(str(token.get("text")))]
            found.add(name, where, [*spoken, (" ", None, None)], bounds)
        case {"words": [_, *_] as words}:
            found.add(name, where, map(_token, words), bounds)
        case {"words": []}:  # of WhisperX, for what it cannot align, such as digits
            found.add(name, where, [(text, None, None)], bounds)
        case _ if isinstance(text, str) and len(text.split()) > 1:
            raise found.error(where, _NEEDED)
        case _:
            found.add(name, where, [(text, start, end)])


def _add_parlaspeech(found: _Found, name: str, where: str, value: dict[str, Any]) -> None:
    words, starts, ends, start = (value.get(field) for field in ("words", "word_start_times", "word_end_times", "start"))
    words = words.split() if isinstance(words, str) else words or []
    starts = [] if starts is None else starts
    ends = [None] * len(starts) if ends is None else ends
    offset = _time(0 if start is None else start)
    if words and not starts:
        raise found.error(where, _NEEDED)
    if not all(isinstance(values, list) and len(values) == len(words) for values in (words, starts, ends)):
        raise found.error(where, "words, word_start_times and word_end_times are not lists of one length")
    if math.isnan(offset):
        raise found.error(where, f"the start is not a time: {start!r:.60}")
    tokens = [(word, offset + _time(start), offset + _time(end)) for word, start, end in zip(words, starts, ends, strict=True)]
    found.add(name, where, tokens, (offset, _time(value.get("end"))))


def _read_subtitles(found: _Found) -> None:
    for line, tokens in timed_tokens(found.path, decode_text(input_guards.read_all(found.path))):
        if len(tokens) == 1 and len(re.findall(r"\w\S*", tokens[0][0])) > 1:
            raise found.error(f"line {line}", f"several words in one cue; {_NEEDED}")
        found.add(found.name, f"line {line}", tokens)
