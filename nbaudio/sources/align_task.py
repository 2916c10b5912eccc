"""Align one recording's hypothesis with its transcripts; runs in a worker."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl

from nbaudio.core import tables
from nbaudio.core.errors import InputError
from nbaudio.formats.documents import Document, read_documents
from nbaudio.formats.timed_words import TimedWords, read_timed_words
from nbaudio.text.normalization import normalize_column
from nbaudio.text.segmentation import Heard, Segments, Typed, cut_segments
from nbaudio.text.word_pairs import WordPairs, pair_words

VERSION = 1  # of the method: stored results of another one are not used

_TEXT, _SECONDS = pl.String(), pl.Float64()
#: Result of an alignment, by `kind`: segments, runs of words that are in no segment, and problems (`document` is the file).
ALIGNED = pl.Schema(
    {"kind": pl.Enum(("segment", "text", "audio", "problem")), "reason": _TEXT, "source_start": _SECONDS, "source_end": _SECONDS}
    | {"text": _TEXT, "asr_text": _TEXT, "speaker_id": _TEXT, "word_times": tables.WORD_TIMES}
    | {"utterance_id_start": _TEXT, "utterance_id_end": _TEXT, "edge_confidence": _SECONDS}
    | {"room_before_s": _SECONDS, "room_after_s": _SECONDS}
    | {"document": _TEXT, "document_start": pl.Int64(), "document_end": pl.Int64(), "words": pl.Int64()}
)

_LEAST_SHARE = 0.02  # of the words of the shorter side; less is what all speeches have in common
_TOKEN = re.compile(r"\S+")
_CLOSING, _ENDS = "\"'”’»«)]", ".!?…。؟।:;"
_SENTENCE_END = re.compile(rf"[{_ENDS})\]][{re.escape(_CLOSING)}]*$")
_MARKS = _CLOSING + _ENDS + ",،、"


class Item(NamedTuple):
    """A hypothesis or a transcript of a recording: its name without endings, the file as it is listed, and where it is read."""

    name: str
    file: str
    path: Path
    is_spooled: bool = False  # whether `path` holds it alone, as `spool` wrote it


class Task(NamedTuple):
    """A recording to align."""

    number: int
    hypothesis: Item
    transcripts: tuple[Item, ...]
    shortest: float  # seconds
    longest: float


class Words(NamedTuple):
    """The words of documents, one after the other."""

    documents: Sequence[Document]
    document: np.ndarray  # number of the document of each word
    utterance: np.ndarray  # number of its utterance in the document
    start: np.ndarray  # characters of the document
    end: np.ndarray  # with the punctuation after it
    typed: Typed


def spool(path: Path, item: TimedWords | Document) -> None:
    """Write the hypothesis or transcript of one recording, for `Item.is_spooled`."""
    fields = [each.tolist() if isinstance(each, np.ndarray) else each for each in item]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.msgpack.encode(fields))


def read_hypothesis(item: Item) -> TimedWords:
    """Read the timed words of a recording."""
    if item.is_spooled:
        name, words, *times = msgspec.msgpack.decode(item.path.read_bytes())
        return TimedWords(name, words, *(np.array(each, np.float64) for each in times))
    return next(read_timed_words(item.path, item.name))


def read_transcript(item: Item) -> list[Document]:
    """Read the documents of a file."""
    if item.is_spooled:
        return [msgspec.msgpack.decode(item.path.read_bytes(), type=Document)]
    return list(read_documents(item.path))


def align_recording(task: Task) -> tuple[int, pl.DataFrame]:
    """Return the number of a task and what it gives, as `ALIGNED`; files that cannot be used are problems."""
    rows: list[dict[str, Any]] = []
    documents: list[tuple[str, Document]] = []
    heard = None
    for item in (task.hypothesis, *task.transcripts):
        try:
            if item is task.hypothesis:
                heard = read_hypothesis(item)
            else:
                documents += [(item.file, document) for document in read_transcript(item)]
        except (InputError, OSError) as error:
            reason = str(error).removeprefix(str(item.path)).lstrip(":, ")
            rows.append({"kind": "problem", "reason": "unreadable", "document": item.file, "text": reason})
    if heard is not None and documents:
        rows += _align(task, heard, documents)
    return task.number, pl.DataFrame(rows, schema=ALIGNED)


def _align(task: Task, heard: TimedWords, documents: Sequence[tuple[str, Document]]) -> list[dict[str, Any]]:
    names = [file for file, _ in documents]
    words = _words([document for _, document in documents])
    heard, spoken = _spoken(heard)
    pairs = pair_words(words.typed.words, spoken.words)
    typed, said = len(words.start), len(heard.words)
    if len(pairs.left) < _LEAST_SHARE * min(typed, said):
        pairs = WordPairs(pairs.left[:0], pairs.right[:0], pairs.probability[:0])
    segments = cut_segments(pairs, words.typed, spoken, shortest=task.shortest, longest=task.longest)
    rows = [
        *sorted(_segment_rows(segments, pairs, words, names, heard), key=itemgetter("source_start")),
        *_text_rows(segments, pairs, words, names),
        *_audio_rows(segments, pairs, heard),
    ]
    if not len(segments.typed):
        reason = f"no segment: {len(pairs.left):,} of {said:,} words are in {', '.join(dict.fromkeys(names))} ({typed:,} words)"
        question = "; is this the transcript of this recording?" if not len(pairs.left) else ""
        rows.append({"kind": "problem", "reason": "unmatched", "document": task.hypothesis.file, "text": reason + question})
    return rows


def _words(documents: Sequence[Document]) -> Words:
    """Split documents into words; punctuation that stands alone after a word is part of it, other marks are left out."""
    columns: list[list[np.ndarray]] = [[], [], [], []]
    words: list[str] = []
    ends: list[bool] = []
    speakers: list[object] = []
    for number, document in enumerate(documents):
        spans = np.array([token.span() for token in _TOKEN.finditer(document.text)], np.int64).reshape(-1, 2)
        tokens = [document.text[start:end] for start, end in spans.tolist()]
        normal = _normalized(tokens)
        starts = np.array([utterance.start for utterance in document.utterances], np.int64)
        utterance = np.searchsorted(starts, spans[:, 0], side="right") - 1
        is_mark = np.array([not (word or token.strip(_MARKS)) for word, token in zip(normal, tokens, strict=True)], np.bool_)
        others = np.append(np.flatnonzero(~is_mark | (np.diff(utterance, prepend=-1) != 0)), len(tokens))
        place = np.flatnonzero([bool(word) for word in normal])
        after = others[np.searchsorted(others, place, side="right")]
        found = np.full(len(place), number), utterance[place], spans[place, 0], spans[after - 1, 1]
        for column, values in zip(columns, found, strict=True):
            column.append(values)
        words += [normal[each] for each in place]
        # Where the next word is not in lower case, as after "dr. Horvat", a full stop may end a sentence, or a bracket a remark.
        ends += [
            bool(is_last) or (_SENTENCE_END.search(tokens[stop - 1]) is not None and not tokens[stop][:1].islower())
            for stop, is_last in zip(after.tolist(), np.append(np.diff(utterance[place]) != 0, True), strict=False)
        ]
        speakers += [(number, document.utterances[each].speaker_id) for each in utterance[place].tolist()]
    turns = np.cumsum([a != b for a, b in itertools.pairwise([None, *speakers])])
    typed = Typed(words, np.array(ends, np.bool_), np.array(turns, np.int64))
    return Words(documents, *map(np.concatenate, columns), typed)


def _spoken(heard: TimedWords) -> tuple[TimedWords, Heard]:
    """Return the words of a hypothesis, as it has them and normalized; what is no word is part of the word before it."""
    normal = _normalized(heard.words)
    place = np.flatnonzero([bool(word) for word in normal])
    if not len(place):
        return TimedWords(heard.name, [], heard.starts[:0], heard.ends[:0]), Heard([], heard.starts[:0], heard.ends[:0])
    first = np.append(0, place[1:])
    words = [" ".join(heard.words[start:stop]) for start, stop in itertools.pairwise([*first, len(normal)])]
    found = TimedWords(heard.name, words, heard.starts[first], np.maximum.reduceat(heard.ends, first))
    return found, Heard([normal[each] for each in place], found.starts, found.ends)


def _normalized(words: Sequence[str]) -> list[str]:
    """Normalize words, ligatures as well; soft hyphens, zero-width characters and blanks in place of punctuation are removed."""
    different = list(dict.fromkeys(words))
    visible = pl.Series(different, dtype=pl.String).str.normalize("NFKC").str.replace_all(r"\p{Cf}", "")
    normal = normalize_column(visible).str.replace_all(" ", "", literal=True)
    lexicon = dict(zip(different, normal.to_list(), strict=True))
    return [lexicon[word] for word in words]


def _segment_rows(
    segments: Segments, pairs: WordPairs, words: Words, names: Sequence[str], heard: TimedWords
) -> Iterator[dict[str, Any]]:
    times = np.full((len(words.start), 2), np.nan)
    times[pairs.left] = np.stack((heard.starts[pairs.right], heard.ends[pairs.right]), axis=1)
    for (first, last), (begin, end), seconds, confidence, room in zip(
        segments.typed.tolist(),
        segments.heard.tolist(),
        segments.seconds.tolist(),
        segments.confidence.tolist(),
        segments.room.round(6).tolist(),
        strict=True,
    ):
        number = int(words.document[first])
        document = words.documents[number]
        start, stop = int(words.start[first]), int(words.end[last - 1])
        text = document.text[start:stop]
        tokens = [start + token.start() for token in _TOKEN.finditer(text)]
        token_times = np.full((len(tokens), 2), np.nan)
        token_times[np.searchsorted(tokens, words.start[first:last])] = times[first:last]
        utterances = [document.utterances[each] for each in (words.utterance[first], words.utterance[last - 1])]
        yield {
            "kind": "segment",
            "source_start": seconds[0],
            "source_end": seconds[1],
            "text": text,
            "asr_text": " ".join(heard.words[begin:end]),
            "speaker_id": utterances[0].speaker_id,
            "word_times": _word_times(token_times, seconds[0]),
            "utterance_id_start": utterances[0].utterance_id,
            "utterance_id_end": utterances[1].utterance_id,
            "edge_confidence": round(confidence, 6),
            "room_before_s": room[0],
            "room_after_s": room[1],
            "document": names[number],
            "document_start": start,
            "document_end": stop,
            "words": last - first,
        }


def _word_times(times: np.ndarray, start: float) -> list[dict[str, float]]:
    """Return the times of words from the start of their segment; words without a pair share the time between their neighbors."""
    edges = (times - start).ravel()
    known = ~np.isnan(edges)
    places = (np.arange(len(times))[:, None] + (0, 1)).ravel()
    starts, ends = np.where(known, edges, np.interp(places, places[known], edges[known])).reshape(-1, 2).T
    starts = np.minimum.accumulate(starts[::-1])[::-1]  # of words between two that overlap
    return [{"start": one, "end": max(one, other)} for one, other in zip(starts.tolist(), ends.tolist(), strict=True)]


def _text_rows(segments: Segments, pairs: WordPairs, words: Words, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield runs of words of the transcripts that are in no segment."""
    is_paired = np.zeros(len(words.start), np.bool_)
    is_paired[pairs.left] = True
    for first, last in _runs(len(words.start), segments.typed, words.document):
        number = int(words.document[first])
        start, stop = int(words.start[first]), int(words.end[last - 1])
        yield {
            "kind": "text",
            "reason": "in no segment" if is_paired[first:last].mean() > 1 / 2 else "not heard",
            "text": words.documents[number].text[start:stop],
            "document": names[number],
            "document_start": start,
            "document_end": stop,
            "words": last - first,
        }


def _audio_rows(segments: Segments, pairs: WordPairs, heard: TimedWords) -> Iterator[dict[str, Any]]:
    """Yield runs of words of the hypothesis that are in no segment."""
    is_paired = np.zeros(len(heard.words), np.bool_)
    is_paired[pairs.right] = True
    order = np.argsort(segments.heard[:, 0])
    for first, last in _runs(len(heard.words), segments.heard[order], np.zeros(len(heard.words), np.int64)):
        yield {
            "kind": "audio",
            "reason": "in no segment" if is_paired[first:last].mean() > 1 / 2 else "not typed",
            "source_start": float(heard.starts[first]),
            "source_end": float(heard.ends[first:last].max()),
            "text": " ".join(heard.words[first:last]),
            "words": last - first,
        }


def _runs(count: int, ranges: np.ndarray, group: np.ndarray) -> Iterable[tuple[int, int]]:
    """Return the ranges between half open, sorted `ranges` of a number of words, divided where their `group` changes."""
    inside = np.zeros(count + 1, np.int64)
    np.add.at(inside, ranges[:, 0], 1)
    np.add.at(inside, ranges[:, 1], -1)
    covered = np.cumsum(inside)[:count] > 0
    changes = np.flatnonzero(np.append(True, (covered[1:] != covered[:-1]) | (group[1:] != group[:-1])))[:count]
    for first, last in itertools.pairwise([*changes.tolist(), count]):
        if not covered[first]:
            yield first, last
