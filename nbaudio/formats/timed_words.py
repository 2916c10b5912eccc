"""Read recognizers' hypotheses with a time for every word.

They are CTM, JSON of recognizers and aligners, subtitles or ParlaSpeech JSON lines.
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nbaudio.audio.name_matching import AUDIO_EXTENSIONS
from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.formats.ctm import is_ctm, read_ctm
from nbaudio.formats.recognizer_json import no_words
from nbaudio.formats.recognizer_layouts import find_layout, read_recognizer_json
from nbaudio.formats.source_files import Layout, SourceFiles, common_folder
from nbaudio.formats.timed_cues import CUES, read_timed_cues
from nbaudio.formats.timed_tokens import (
    NEEDED,
    NO_SIDE,
    SOUNDS,
    Side,
    Utterance,
    Words,
    decode_split_characters,
    leave_out_sounds,
    split_tokens,
)
from nbaudio.formats.transcripts import RECORDING_FIELDS, decode_text
from nbaudio.formats.word_items import numbered_side

#: As a side: the words of all sides, by their times.
MIX = "mix"

# Of words without times before the first or after the last that has one.
_SECONDS_A_CHARACTER = 0.07
# The median length of words, in seconds, from which times are in another unit, and up to which they
# are milliseconds.
_LONGEST_WORD = 10.0
_SHORTEST_IN_MILLISECONDS = 60.0
_LONGEST_IN_MILLISECONDS = 2000.0
_SHORTEST_STEP = 0.02  # seconds from one word to the next
# With this many words, times are wrong if most words last beyond the start of the next but one.
_FEWEST_TO_OVERLAP = 8
_ENDING = re.compile(
    r"(?<=[^/])(?:\.ana)?\.(?:jsonl?|json3|ctm|srt|vtt|txt|md|xml|docx|pdf|html?)$", re.IGNORECASE
)
# Yt-dlp writes the language after the id in brackets.
_LANGUAGE = re.compile(r"(?<=\])\.[a-z]{2,3}(?:-\w+)*$")
_AUDIO = re.compile(rf"(?<=[^/])\.(?:{'|'.join(sorted(AUDIO_EXTENSIONS))})$", re.IGNORECASE)
# What the beginnings of JSON with timed words have, also where it is indented.
_HEADS = (
    re.compile(rb'"start"(?s:.*)"words?"|"words?"(?s:.*)"start"'),
    re.compile(rb'"transcription"\s*:\s*\['),
    re.compile(rb'"chunks"\s*:\s*\['),
    re.compile(rb'"tStartMs"'),
    re.compile(rb'"(?:offsetInTicks|offsetMilliseconds|BeginOffsetMillis)"'),
    re.compile(rb'"words"(?s:.*)"(?:start_ms|startMs)"'),
    re.compile(rb'"tokens"\s*:\s*\[\s*\{(?s:.*)"(?:start|start_ms)"'),
    re.compile(rb'"timestamps"\s*:\s*\[\s*\['),
    re.compile(rb'"(?:word|alternatives)"(?s:.*)"(?:start_time|startTime|startOffset)"'),
    re.compile(rb'"(?:start_time|startTime|startOffset)"(?s:.*)"(?:word|alternatives)"'),
    re.compile(rb'"monologues"\s*:\s*\['),
    re.compile(rb'"tiers"\s*:'),
)
_JSON = re.compile(r"\{\s*(?:[\"}]|$)|\[\s*(?:[\[{\]]|$)")

# Endings of transcripts that are not cut (`nbaudio.formats.documents`).
_DOCUMENTS = (".txt", ".pdf", ".docx", ".html", ".htm", ".xml")


class LeftOut(NamedTuple):
    """What is no word of a hypothesis, how much of it there is, and the option that reads it."""

    what: str
    number: int
    option: str = ""


class TimedWords(NamedTuple):
    """The words of one recording, and of one side of a call, sorted by start.

    There are none where the recognizer heard none.
    """

    name: str  # of the recording, as the file says it, else as the caller does
    words: list[str]  # as written, without blanks, none empty
    starts: npt.NDArray[np.float64]  # seconds from the start of the recording
    ends: npt.NDArray[np.float64]  # no end precedes its start
    side: str = ""  # as the file labels it; empty where it names no sides
    channel: int | None = None  # of the recording that the side is on, from 0
    left_out: tuple[LeftOut, ...] = ()


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
        *(name for name in files.ending(".json", ".json3") if _has_timed_words(files, name)),
    ]
    if not hypotheses or not documents:
        return []
    heard = common_folder(hypotheses)
    typed = common_folder(documents)
    question = None
    if {*map(stem, hypotheses)} & {*map(stem, documents)}:
        question = (
            f"{documents[0]} may be the recognizer's own text: put the transcripts into a folder "
            "of their own, or name them, such as --set documents=FOLDER"
        )
    return [
        Layout(
            "align",
            files.path(heard),
            f"{hypotheses[0]} has words with times, {documents[0]} is a text that is not cut",
            frozenset([*hypotheses, *documents]),
            recording=hypotheses[0],
            documents=files.path(typed),
            question=question,
        )
    ]


def _has_timed_words(files: SourceFiles, name: str) -> bool:
    """Return whether JSON is a recognizer's, and not lines of segments as ParlaSpeech has them."""
    first = files.first_object(name)
    if not first.keys().isdisjoint(RECORDING_FIELDS):
        return False
    layout = find_layout(first)
    head = files.head(name)
    return layout is not None or any(pattern.search(head) for pattern in _HEADS)


def read_timed_words(path: Path, name: str) -> Iterator[TimedWords]:
    r"""Read the words of recordings from a recognizer's file with word times.

    The file is CTM, JSON of a recognizer or aligner, SRT or WebVTT with word times, or ParlaSpeech
    JSON lines. Recordings come in order of first appearance, the sides of a call one after the
    other; `name` is that of words for which the file names none. Words whose times are missing or
    unusable get times between those of their neighbors; a token with blanks is several words.

    Raises:
        InputError: The file has no timed words, or cannot be read; the message has the file, the
            item and the reason.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.ctm")
        >>> _ = path.write_text("day1 1 0.50 0.25 Dobar\nday1 1 0.75 0.50 dan\n")
        >>> [heard] = read_timed_words(path, "a")
        >>> heard.name, heard.words, heard.ends.tolist()
        ('day1', ['Dobar', 'dan'], [0.75, 1.25])
    """
    recordings: dict[str, _Recording] = {}
    try:
        for utterance in _utterances(path):
            recording_name = utterance.place.recording or name
            recordings.setdefault(recording_name, _Recording()).add(utterance)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not {error.encoding} text (byte {error.start + 1})") from error
    for recording_name, recording in (recordings or {name: _Recording()}).items():
        yield from recording.timed_words(recording_name)


def choose_side(sides: Sequence[TimedWords], wanted: str | None) -> TimedWords:
    """Return the words of one side of a recording.

    Args:
        sides: of one recording, as `read_timed_words` yields them.
        wanted: a side, as the file labels it; ``left`` or ``right``; or ``mix``, all sides
            together, by their times. None where there is one side only.

    Raises:
        InputError: there are several sides and none is wanted, or there is no such side.
    """
    listed = " and ".join(f"{side.side} ({len(side.words):,} words)" for side in sides)
    if wanted == MIX:
        return _mixed(sides)
    if wanted is None:
        if len(sides) > 1:
            option = f"--side {sides[0].side}"
            reason = f"words of {len(sides)} sides of a call, {listed}"
            raise InputError(f"{reason}: {option} reads one of them, --side mix all together")
        return sides[0]._replace(channel=None)
    if len(sides) == 1 and not sides[0].side:
        return sides[0]
    is_wanted = [_is_side(side, wanted) for side in sides]
    if not any(is_wanted):
        raise InputError(f"no words of side {wanted!r}; there are {listed}")
    chosen = sides[is_wanted.index(True)]
    others = tuple(
        LeftOut(f"words of side {side.side} in hypotheses", len(side.words), f"--side {side.side}")
        for side in sides
        if side is not chosen
    )
    if others and chosen.channel is None:
        what = f"channel of side {chosen.side}, which hypotheses do not say"
        others += (LeftOut(what, 1, "materialize --channel left or right"),)
    return chosen._replace(left_out=chosen.left_out + others)


def _is_side(words: TimedWords, wanted: str) -> bool:
    channels = {"left": 0, "right": 1}
    is_labeled = words.side.casefold() == wanted.casefold()
    return is_labeled or (words.channel is not None and channels.get(wanted) == words.channel)


def _mixed(sides: Sequence[TimedWords]) -> TimedWords:
    """Return the words of all sides together, in the order of their starts."""
    words = [word for side in sides for word in side.words]
    starts = np.concatenate([side.starts for side in sides])
    ends = np.concatenate([side.ends for side in sides])
    order = np.argsort(starts, kind="stable")
    left_out = tuple(part for side in sides for part in side.left_out)
    name = sides[0].name
    mixed = [words[row] for row in order]
    return TimedWords(name, mixed, starts[order], ends[order], left_out=left_out)


@dataclass
class _SideWords:
    """Words of a side, as they are read: edges are start, end, start, ... in seconds."""

    words: list[str] = field(default_factory=list)
    edges: "array[float]" = field(default_factory=lambda: array("d"))
    has_unit: bool = True
    # Of the first words, while none have times.
    where: str = ""
    has_times: bool = False

    def add(self, utterance: Utterance, words: Words) -> None:
        """Add the words of an utterance; its bounds are those of words without times."""
        edges = words.edges
        is_known = not all(map(math.isnan, edges))
        if not self.words:
            self.where = utterance.place.where
        if math.isnan(edges[0]):
            edges[0] = utterance.start
        if math.isnan(edges[-1]):
            edges[-1] = utterance.end
        self.words += words.texts
        self.edges.extend(edges)
        self.has_unit = self.has_unit and utterance.has_unit
        self.has_times = self.has_times or is_known


class _Recording:
    """The words of a recording, as they are read."""

    def __init__(self) -> None:
        self.sides: dict[Side, _SideWords] = {}
        self.left_out = Counter[str]()

    def add(self, utterance: Utterance) -> None:
        """Add the words of an utterance."""
        words, sounds = leave_out_sounds(_split(utterance))
        if sounds:
            self.left_out[SOUNDS] += sounds
        self.left_out.update(utterance.left_out)
        if words.texts:
            self.sides.setdefault(utterance.side, _SideWords()).add(utterance, words)

    def timed_words(self, name: str) -> Iterator[TimedWords]:
        """Yield the words of each side.

        Raises:
            InputError: no word of a side has a usable time, or the unit of times is unknown.
        """
        left_out = tuple(LeftOut(*part) for part in self.left_out.items())
        sides = self.sides or {NO_SIDE: _SideWords()}
        first_channel = 0 if "0" in {side.label for side in sides} else 1
        for side, words in sides.items():
            numbered = numbered_side(side.label, first_channel) if side.channel is None else side
            yield _sorted_words(name, numbered, words)._replace(left_out=left_out)
            left_out = ()


def _split(utterance: Utterance) -> Words:
    """Return the words of an utterance."""
    words = split_tokens(utterance.tokens)
    try:
        "".join(words.texts).encode()
    except UnicodeEncodeError:
        return Words(decode_split_characters(words.texts, utterance.place), words.edges)
    return words


def _sorted_words(name: str, side: Side, words: _SideWords) -> TimedWords:
    """Return the words of a side in the order of their starts, in seconds.

    Raise InputError if no time of a word is usable.
    """
    if words.words and not words.has_times:
        reason = f"{name}: the times of {words.words[0]!r} and of all other words are unusable"
        raise InputError(f"{words.where}: {NEEDED} ({reason})")
    edges = np.array(words.edges, dtype=np.float64)
    if not words.has_unit:
        _check_overlaps(edges, words.where)
        edges = _in_seconds(edges, words.where)
    starts, ends = _interpolate(words.words, edges).reshape(-1, 2).T
    order = np.argsort(starts, kind="stable")
    texts = [words.words[row] for row in order]
    latest = np.maximum(starts, ends)[order]
    return TimedWords(name, texts, starts[order], latest, side.label, side.channel)


def _check_overlaps(edges: npt.NDArray[np.float64], where: str) -> None:
    """Raise InputError if most words overlap others, as where ends are read as durations."""
    starts, ends = edges[::2], edges[1::2]
    order = np.argsort(starts, kind="stable")
    overlaps = ends[order][:-2] > starts[order][2:]
    if len(starts) >= _FEWEST_TO_OVERLAP and overlaps.mean() > 1 / 2:
        reason = "most words last beyond the start of the word after the next one"
        raise InputError(f"{where}: {reason}: are their durations ends?")


def _in_seconds(edges: npt.NDArray[np.float64], where: str) -> npt.NDArray[np.float64]:
    """Return edges in seconds, whose unit is milliseconds if words would last for minutes.

    A word without an end lasts to the next one.
    """
    starts = edges[::2]
    steps = np.diff(np.sort(starts[~np.isnan(starts)]))
    lengths = edges[1::2] - starts
    lengths = lengths[~np.isnan(lengths)]
    median = _median(lengths if len(lengths) else steps)
    reason = f"a word would last {median:.0f} s (median)"
    if len(steps) >= _FEWEST_TO_OVERLAP and 0 < _median(steps) < _SHORTEST_STEP:
        reason = f"a word would follow another after {_median(steps):.2g} s (median)"
    elif median < _LONGEST_WORD:
        return edges
    elif _SHORTEST_IN_MILLISECONDS <= median <= _LONGEST_IN_MILLISECONDS:
        return edges / 1000
    raise InputError(f"{where}: {reason}: times are neither seconds nor milliseconds")


def _median(seconds: npt.NDArray[np.float64]) -> float:
    return float(np.median(seconds)) if len(seconds) else 0.0


def _interpolate(words: list[str], edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Replace unknown edges (start, end, start, ...) by times between the known ones.

    The times are in proportion to characters.
    """
    known_edges = np.flatnonzero(~np.isnan(edges))
    if len(known_edges) == len(edges):
        return edges
    places = np.repeat(np.cumsum([0, *map(len, words)]), 2)[1:-1]
    low, high = edges[known_edges[[0, -1]]] + _SECONDS_A_CHARACTER * (
        places[[0, -1]] - places[known_edges[[0, -1]]]
    )
    times = np.interp(
        places,
        np.r_[0, places[known_edges], places[-1]],
        np.r_[max(0, low), edges[known_edges], high],
    )
    return np.where(np.isnan(edges), times, edges)


def _utterances(path: Path) -> Iterator[Utterance]:
    """Yield the utterances of a file, whose first lines tell its format.

    Raise InputError if no format fits.
    """
    input_guards.check_regular(path)
    with path.open("rb") as file:
        head = decode_text(file.read(1 << 16), errors="replace")
    first = next(
        (line for line in head.split("\n") if line.strip() and not line.startswith(";;")), ""
    ).strip()
    if _JSON.match(first):
        return read_recognizer_json(path)
    if is_ctm(first):
        return read_ctm(path)
    if CUES.search(head):
        return read_timed_cues(path)
    raise no_words(str(path))
