"""Read recognizers' hypotheses with a time for every word: CTM, Whisper-style JSON, subtitles, ParlaSpeech JSON lines."""

import codecs
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.core.name_matching import AUDIO_EXTENSIONS
from nbaudio.formats.base import RECORDING_FIELDS, decode_text, parse_json
from nbaudio.formats.subtitles import INLINE_TIME, Cue, read_cues, seconds, strip_markup

_NEEDED = "word times are needed; Whisper writes them with the option word_timestamps"
_HEAD_BYTES = 1 << 16  # that tell the format
_MOST_SECONDS = 1e8  # what is later is no time
_SLIGHTLY = 0.1  # seconds that an end may precede its start
_SECONDS_A_CHARACTER = 0.07  # for a word without an end where nothing follows
_ENDINGS = re.compile(r"(?<=[^/])(?:\.ana)?\.(?:jsonl?|ctm|srt|vtt|txt|md|xml|docx|html?)$", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?<=\])\.[a-z]{2,3}(?:-\w+)*$")  # yt-dlp writes it after the id in brackets
_AUDIO = re.compile(rf"(?<=[^/])\.(?:{'|'.join(sorted(AUDIO_EXTENSIONS))})$", re.IGNORECASE)
_CUE = re.compile(r"^(?:WEBVTT|[ \t]*[\d:.,]+[ \t]*-->[ \t]*\d)", re.MULTILINE)
_LONG_CTM = re.compile(r"(.+)\s(\w)\s+([\d.]+)\s+([\d.]+)\s+(\S+)(\s+[\d.eE+-]+)?")  # names of recordings may have blanks
_MARK = re.compile(r"\[_\w+\]|<\|.*\|>")  # of whisper.cpp, no words
_HIGHLIGHTED = re.compile(r"(\S?)<u>([^<>]*)</u>")


class TimedWords(NamedTuple):
    """The words of one recording, sorted by start; none if the recognizer heard none."""

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
    return _AUDIO.sub("", _LANGUAGE.sub("", _ENDINGS.sub("", path)))


def read_timed_words(path: Path, name: str) -> Iterator[TimedWords]:
    r"""Read a file of hypotheses; its format is recognized by its content.

    Words whose times are missing or unusable get times between those of their neighbors; a token with blanks is several words.

    Args:
        path: The file: CTM, JSON or JSON lines as Whisper and its relatives write them, SRT or WebVTT with word times,
            ParlaSpeech JSON lines.
        name: The recording of words for which the file names none.

    Yields:
        The words of each recording, in order of first appearance.

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
        _read(found)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not {error.encoding} text (byte {error.start + 1})") from error
    yield from found.recordings()


class _Found:
    """The words of all recordings of a file; equal words are held once, times in arrays, NaN where unknown."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._words: dict[str, str] = {}
        self._recordings: dict[str, tuple[list[str], array[float]]] = {}
        self._timed, self._untimed = False, ""  # whether any word has times, and the first group where none has

    def open(self, name: str) -> tuple[list[str], "array[float]"]:
        """Return words and edges (start, end, start, ...) of a recording, to append to."""
        return self._recordings.setdefault(name, ([], array("d")))

    def add(
        self,
        name: str,
        where: str,
        tokens: Iterable[tuple[Any, Any, Any]],
        *,
        bounds: tuple[float, float] = (math.nan, math.nan),
        offset: float = 0.0,
        glued: bool = False,
    ) -> None:
        """Add neighboring tokens with their starts and ends; `bounds` limit times that are unknown.

        Where a token starts with a blank, as Whisper's do, one without continues the word before it; `glued`: always.
        """
        words: list[str] = []
        edges: list[float] = []
        tokens = [*tokens]
        glued = glued or any(isinstance(token, str) and token[:1].isspace() for token, _, _ in tokens[1:])
        is_open = False
        for token, *times in tokens:
            if not isinstance(token, str | None):
                raise InputError(f"{self.path}, {where}: a word that is not text: {token!r:.60}")
            parts = (token or "").split()
            start, end = map(_time, times)
            if end < start:
                start, end = (start, start) if start - end <= _SLIGHTLY else (math.nan, math.nan)
            if parts and glued and is_open and words and token and not token[0].isspace():
                words[-1] += parts.pop(0)
                edges[-1] = math.nan if parts else end
                start = math.nan
            is_open = not token[-1:].isspace() if token else is_open
            if parts:
                edges += [start, *[math.nan] * (2 * len(parts) - 2), end]
                words += parts
        if not words:
            self.open(name)
            return
        known = np.array(edges)
        if np.isnan(known).all():
            self._untimed = self._untimed or where
        else:
            self._timed = True
        held, times_held = self.open(name)
        held.extend(self.intern(word) for word in words)
        times_held.extend(_fill(words, known, *bounds) + offset)

    def intern(self, word: str) -> str:
        """Return the one object that stands for equal words."""
        if word not in self._words:
            try:  # whisper.cpp may cut a character in two, of which both halves are here
                word = word.encode("utf8", "surrogateescape").decode("utf8")
            except UnicodeError as error:
                raise InputError(f"{self.path}: a word that is not Unicode: {word!a:.60}") from error
        return self._words.setdefault(word, word)

    def recordings(self) -> Iterator[TimedWords]:
        """Yield the recordings, in order of first appearance."""
        if self._untimed and not self._timed:
            raise InputError(f"{self.path}, {self._untimed}: {_NEEDED}")
        while self._recordings:
            name = next(iter(self._recordings))
            words, edges = self._recordings.pop(name)
            times = _fill(words, np.array(edges), math.nan, math.nan).reshape(-1, 2)
            if np.isnan(times).any():
                raise InputError(f"{self.path}: {name}: the times of {words[0]!r} and of all other words are unusable; {_NEEDED}")
            order = np.argsort(times[:, 0], kind="stable")
            starts = times[order, 0]
            yield TimedWords(name, [words[row] for row in order], starts, np.maximum(starts, times[order, 1]))


def _time(value: object) -> float:
    """Return a time in seconds, NaN if it is not usable."""
    try:
        time = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except ValueError:
        return math.nan
    return time if 0 <= time < _MOST_SECONDS else math.nan


def _fill(words: Sequence[str], edges: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.float64]:
    """Interpolate unknown edges (start, end, start, ...) over characters; unchanged where nothing at all is known."""
    known = ~np.isnan(edges)
    if known.all() or not (known.any() or math.isfinite(low + high)):
        return edges
    after = np.cumsum([len(word) for word in words])
    places = np.column_stack((np.concatenate(([0], after[:-1])), after)).ravel()
    if known.any():
        (first, *_), (*_, last) = np.flatnonzero(known)[:1], np.flatnonzero(known)[-1:]
        early = max(0.0, edges[first] - _SECONDS_A_CHARACTER * places[first])
        late = edges[last] + _SECONDS_A_CHARACTER * (places[-1] - places[last])
        low = early if math.isnan(low) else min(low, edges[first])
        high = late if math.isnan(high) else max(high, edges[last])
    between = np.interp(places, [0, *places[known], places[-1]], [low, *edges[known], high])
    return np.where(known, edges, between)


def _read(found: _Found) -> None:
    path = found.path
    input_guards.check_regular(path)
    with path.open("rb") as file:
        data = file.read(_HEAD_BYTES)
    head = decode_text(data, errors="replace")
    first = next((line for line in head.split("\n") if line.strip() and not line.startswith(";;")), "").strip()
    if _ctm_fields(first):
        _read_ctm(found)
    elif re.match(r"\{\s*(\"|\}|$)|\[\s*([\[{\]]|$)", first):
        _read_json(found)
    elif _CUE.search(head):
        _read_subtitles(found)
    else:
        expected = "expected CTM, Whisper-style JSON, word-timed SRT or WebVTT, or ParlaSpeech JSON lines"
        raise InputError(f"{path}: no timed words; {expected}")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, numbered from 1, without holding a UTF-8 file."""
    with path.open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            lines: Iterable[str] = decode_text(input_guards.read_all(path)).split("\n")
        else:
            file.seek(0)
            text = (decode_text(line).removesuffix("\n") for line in input_guards.lines(file, path))
            lines = (line for part in text for line in part.split("\n"))
        number = 0
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line
        except UnicodeDecodeError as error:
            raise InputError(f"{path}, line {number + 1}: not UTF-8 text (byte {error.start + 1} of the line)") from error


def _ctm_fields(line: str) -> Sequence[str]:
    """Return recording, channel, start, duration and word (which may be missing) of a line of CTM, or nothing."""
    fields: Sequence[str] = line.split()
    if 6 < len(fields) < 99 and (long := _LONG_CTM.fullmatch(line.strip())):
        fields = long.groups("")
    try:
        _ = [float(time) for time in fields[2:4]]
    except ValueError:
        return ()
    return fields[:5] if len(fields) >= 4 else ()


def _read_ctm(found: _Found) -> None:
    for number, line in _lines(found.path):
        if line.startswith(";;"):
            continue
        fields = _ctm_fields(line)
        if not fields:
            expected = "expected recording, channel, start, duration and word"
            raise InputError(f"{found.path}, line {number}: {expected}, not {line.strip()[:60]!r}")
        words, edges = found.open(fields[0])
        if word := "".join(fields[4:]):
            start, duration = map(_time, fields[2:4])
            words.append(found.intern(word))
            edges.extend((start, start + duration))


def _read_json(found: _Found) -> None:
    """Read one JSON value, or one on each line."""
    lines = _lines(found.path)
    try:
        number, line = next(lines)
        value = parse_json(line, found.path, number, parse_int=float)
    except InputError:
        text = decode_text(input_guards.read_all(found.path), errors="surrogateescape")
        _add_value(found, parse_json(text, found.path, parse_int=float), found.name, "")
        return
    _add_value(found, value, found.name, f"line {number}")
    for number, line in lines:
        _add_value(found, parse_json(line, found.path, number, parse_int=float), found.name, f"line {number}")


def _add_value(found: _Found, value: Any, name: str, where: str) -> None:
    """Add a result, a segment or a word, or a list of these."""
    if isinstance(value, list):
        found.open(name)
        for number, part in enumerate(value, 1):
            add = _add_value if isinstance(part, dict) else _add_segment
            add(found, part, name, _within(where, "item", number))
        return
    if not isinstance(value, dict):
        raise InputError(f"{found.path}, {where}: expected an object of JSON, not {value!r:.60}")
    name = next((said for field in RECORDING_FIELDS if isinstance(said := value.get(field), str) and said), name)
    if "word_start_times" in value:
        _add_parlaspeech(found, value, name, where)
        return
    parts = next((value[field] for field in ("segments", "transcription", "chunks") if isinstance(value.get(field), list)), None)
    words = next((value[field] for field in ("words", "word_segments") if isinstance(value.get(field), list)), None)
    if parts is None:
        _add_segment(found, value if words is None else value | {"words": words}, name, where)
    elif words and not any(isinstance(part, dict) and part.get("words") for part in parts):
        found.add(name, where or "words", map(_token, words))
    else:
        found.open(name)
        for number, part in enumerate(parts, 1):
            _add_segment(found, part, name, _within(where, "segment", number))


def _within(where: str, what: str, number: int) -> str:
    return f"{where}, {what} {number}" if where else f"{what} {number}"


def _token(item: Any) -> tuple[Any, Any, Any]:
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


def _add_segment(found: _Found, segment: Any, name: str, where: str) -> None:
    match segment:
        case [_, _, start, end, str(text), *others]:  # faster-whisper's named tuple
            words = next(
                (field for field in others if isinstance(field, list) and field and isinstance(field[0], list | dict)), None
            )
            segment = {"start": start, "end": end, "text": text, "words": words}
        case [_, _, str()] | [_, _, str(), _]:
            segment = {"words": [segment]}
        case dict() if {"words", "word", "text"} & segment.keys():
            pass
        case _:
            raise InputError(f"{found.path}, {where}: expected words, not {segment!r:.60}")
    text, start, end = _token(segment)
    bounds = (_time(start), _time(end))
    match segment:
        case {"tokens": [{}, *_] as tokens}:  # of whisper.cpp, with marks such as [_BEG_]
            spoken = (_token(token) for token in tokens)
            found.add(name, where, (token for token in spoken if not _MARK.fullmatch(str(token[0]))), bounds=bounds, glued=True)
        case {"words": [_, *_] as words}:
            found.add(name, where, map(_token, words), bounds=bounds)
        case {"words": []}:  # of WhisperX, for what it cannot align, such as digits
            found.add(name, where, [(text, None, None)], bounds=bounds)
        case _ if isinstance(text, str) and len(text.split()) > 1:
            raise InputError(f"{found.path}, {where}: {_NEEDED}")
        case _:
            found.add(name, where, [(text, start, end)])


def _add_parlaspeech(found: _Found, value: dict[str, Any], name: str, where: str) -> None:
    words, starts, ends, start = (value.get(key) for key in ("words", "word_start_times", "word_end_times", "start"))
    words = words.split() if isinstance(words, str) else words
    if not words or not starts:
        if words:
            raise InputError(f"{found.path}, {where}: {_NEEDED}")
        found.open(name)
        return
    ends = [None] * len(starts) if ends is None else ends
    if not all(isinstance(values, list) for values in (words, starts, ends)) or not len(words) == len(starts) == len(ends):
        raise InputError(f"{found.path}, {where}: words, word_start_times and word_end_times are not lists of equal length")
    offset = _time(0 if start is None else start)
    if math.isnan(offset):
        raise InputError(f"{found.path}, {where}: start is not a time: {start!r:.60}")
    bounds = (0.0, _time(value.get("end")) - offset)
    found.add(name, where, zip(words, starts, ends, strict=True), bounds=bounds, offset=offset)


def _read_subtitles(found: _Found) -> None:
    text = decode_text(input_guards.read_all(found.path))
    found.open(found.name)
    rolls = bool(INLINE_TIME.search(text))  # each line is shown again, without times, above the next one
    shown: list[str] = []
    until = 0.0

    def plain(line: str) -> str:
        return " ".join(strip_markup(line, is_vtt=text.startswith("WEBVTT")).split())

    def cues() -> Iterator[Cue]:
        for cue in read_cues(text):
            if not isinstance(cue, Cue):
                raise InputError(f"{found.path}, line {cue[0]}: {cue[1]}")
            yield cue

    for shared, run in groupby(cues(), key=lambda cue: plain(" ".join(cue.text))):
        same = list(run)
        marked = [(cue, mark) for cue in same for mark in _HIGHLIGHTED.findall(" ".join(cue.text))]
        if marked:  # one word after the other of a text that stays
            spoken, whole = "".join("".join(plain(word).split()) for _, (_, word) in marked), shared.replace(" ", "")
            if spoken != whole * (len(spoken) // max(len(whole), 1)):
                raise InputError(f"{found.path}, line {same[0].line}: several words are marked at once; {_NEEDED}")
            tokens = [(f"{'' if before else ' '}{plain(word)}", cue.start, cue.end) for cue, (before, word) in marked]
            found.add(found.name, f"line {same[0].line}", tokens)
            continue
        for cue in same:
            lines = [line for line in cue.text if plain(line)]
            visible = [plain(line) for line in lines]
            repeated = 0
            if rolls and float(cue.start) <= until + _SLIGHTLY:
                untimed = len(list(takewhile(lambda line: not INLINE_TIME.search(line), lines)))
                repeated = next((n for n in range(min(untimed, len(shown)), 0, -1) if visible[:n] == shown[-n:]), 0)
            shown, until = visible, float(cue.end)
            pieces = INLINE_TIME.split(" ".join(lines[repeated:]))
            times = [cue.start, *(seconds(*pieces[n : n + 4]) for n in range(1, len(pieces), 5)), cue.end]
            texts = [strip_markup(piece, is_vtt=text.startswith("WEBVTT")) for piece in pieces[::5]]
            timed = [token for token in zip(texts, times[:-1], times[1:], strict=True) if token[0].strip()]
            if len(timed) == 1 and len(re.findall(r"\w\S*", timed[0][0])) > 1:
                raise InputError(f"{found.path}, line {cue.line}: several words in one cue; {_NEEDED}")
            found.add(found.name, f"line {cue.line}", timed)
