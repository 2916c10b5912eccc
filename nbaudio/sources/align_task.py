"""Align the hypothesis of one recording with its transcripts; runs in a worker."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.formats.base import TRANSCRIPTS
from nbaudio.formats.documents import Document, read_documents
from nbaudio.formats.timed_words import TimedWords, read_timed_words
from nbaudio.text.normalization import normalize_column
from nbaudio.text.segmentation import Heard, Segments, Typed, cut_segments
from nbaudio.text.word_pairs import WordPairs, pair_words

VERSION = 1  # of the method: stored results of another one are not used

_FURTHER = ("kind", "reason", "utterance_id_start", "utterance_id_end", "document")
#: Columns of what a recording gives: rows of the kinds ``segment``, ``text`` and ``audio`` (runs of
#: words in no segment), and ``unmatched`` or ``unreadable`` (problems, whose `document` is the
#: file); `words` has the numbers of words.
ALIGNED = pl.Schema(
    {**TRANSCRIPTS, **dict.fromkeys(_FURTHER, pl.String())}
    | dict.fromkeys(("edge_confidence", "room_before_s", "room_after_s"), pl.Float64())
    | dict.fromkeys(("document_start", "document_end", "words"), pl.Int64())
)

# Of the words of the shorter side that match; less is what all speeches have in common.
_LEAST_SHARE = 0.02
_TOKEN = re.compile(r"\S+")
_SENTENCE_END = re.compile(r"[.!?…:;。؟।)\]][\"'”’»«)\]]*$")  # or that of a remark
# Marks that belong to the word before them, after a blank as well.
_MARKS = re.compile(r"[.!?…:;。؟।,،%\"'”’»)\]]+")


class Item(NamedTuple):
    """A hypothesis or transcript of a recording.

    It has its name without endings, its file as listed, and what is read there.
    """

    name: str
    file: str
    path: Path
    content: TimedWords | Document | None = None  # where the file has several recordings


class Task(NamedTuple):
    """A recording to align, and the shortest and longest segment in seconds."""

    number: int
    hypothesis: Item
    transcripts: tuple[Item, ...]
    shortest: float
    longest: float


class _Words(NamedTuple):
    """The words of documents, one after the other."""

    typed: Typed
    # Of each word with its marks: document, utterance, start and end in characters.
    spans: list[tuple[int, int, int, int]]


def align_recording(task: Task) -> tuple[int, pl.DataFrame]:
    """Return the number of a task and what it gives, as `ALIGNED`."""
    rows: list[dict[str, Any]] = []
    heard: list[TimedWords] = []
    documents: list[tuple[str, Document]] = []
    for item in (task.hypothesis, *task.transcripts):
        try:
            if item is task.hypothesis:
                heard += (
                    [item.content]
                    if isinstance(item.content, TimedWords)
                    else read_timed_words(item.path, item.name)
                )
            else:
                found = (
                    [item.content]
                    if isinstance(item.content, Document)
                    else read_documents(item.path)
                )
                documents += [(item.file, document) for document in found]
        except (InputError, OSError) as error:
            reason = str(error).removeprefix(str(item.path)).lstrip(":, ")
            rows.append({"kind": "unreadable", "document": item.file, "text": reason})
    if heard and documents:
        rows += _align(task, heard[0], documents)
    return task.number, pl.DataFrame(rows, schema=ALIGNED)


def _align(
    task: Task, heard: TimedWords, documents: Sequence[tuple[str, Document]]
) -> list[dict[str, Any]]:
    words = _split([document for _, document in documents])
    heard, spoken = _spoken(heard)
    pairs = pair_words(words.typed.words, spoken.words)
    typed = len(words.spans)
    said = len(heard.words)
    if len(pairs.left) < _LEAST_SHARE * min(typed, said):
        pairs = WordPairs(pairs.left[:0], pairs.right[:0], pairs.probability[:0])
    segments = cut_segments(
        pairs, words.typed, spoken, shortest=task.shortest, longest=task.longest
    )
    rows = sorted(
        _segments(segments, pairs, words, heard, documents),
        key=lambda row: float(row["source_start"]),
    )
    rows += [*_typed_only(segments, pairs, words, documents), *_heard_only(segments, pairs, heard)]
    if not len(segments.typed):
        names = ", ".join(dict.fromkeys(file for file, _ in documents))
        reason = (
            f"no segment: {len(pairs.left):,} of its {said:,} words are in {names} ({typed:,} "
            "words)"
        )
        question = "" if len(pairs.left) else "; is this the transcript of this recording?"
        rows.append(
            {"kind": "unmatched", "document": task.hypothesis.file, "text": reason + question}
        )
    return rows


def _split(documents: Sequence[Document]) -> _Words:
    """Split documents into words; a segment does not leave the turn of its speaker."""
    words: list[str] = []
    spans: list[tuple[int, int, int, int]] = []
    for number, document in enumerate(documents):
        starts = [utterance.start for utterance in document.utterances]
        tokens = _TOKEN.findall(document.text)
        for token, word, text in zip(
            _TOKEN.finditer(document.text), _normalized(tokens), tokens, strict=True
        ):
            utterance = max(0, bisect_right(starts, token.start()) - 1)
            if word:
                words.append(word)
                spans.append((number, utterance, *token.span()))
            elif spans and spans[-1][:2] == (number, utterance) and _MARKS.fullmatch(text):
                spans[-1] = (*spans[-1][:3], token.end())
    texts = [documents[number].text[start:end] for number, _, start, end in spans]
    speakers = [
        (number, documents[number].utterances[each].speaker_id) for number, each, *_ in spans
    ]
    # Where the next word is in lower case, as after "str. 5", a full stop ends no sentence.
    ends = [
        one[:2] != other[:2]
        or (bool(_SENTENCE_END.search(text[-9:])) and not following[:1].islower())
        for (one, other), (text, following) in zip(
            pairwise([*spans, (-1, -1)]), pairwise([*texts, ""]), strict=True
        )
    ]
    turns = np.cumsum([one != other for one, other in pairwise([None, *speakers])])
    return _Words(Typed(words, np.array(ends, np.bool_), turns.astype(np.int64)), spans)


def _spoken(heard: TimedWords) -> tuple[TimedWords, Heard]:
    """Return the words of a hypothesis, as it has them and normalized.

    What is no word is part of the word before it.
    """
    normal = _normalized(heard.words)
    first = np.flatnonzero([bool(word) for word in normal])
    first[:1] = 0  # with what precedes the first word
    words = [" ".join(heard.words[start:stop]) for start, stop in pairwise([*first, len(normal)])]
    ends = np.maximum.reduceat(heard.ends, first) if len(first) else heard.ends[:0]
    found = TimedWords(heard.name, words, heard.starts[first], ends)
    return found, Heard([word for word in normal if word], found.starts, ends)


def _normalized(words: Sequence[str]) -> list[str]:
    """Normalize words, also their ligatures.

    Soft hyphens, zero-width characters and blanks in place of punctuation are removed.
    """
    different = [*dict.fromkeys(words)]
    visible = (
        pl.Series(different, dtype=pl.String).str.normalize("NFKC").str.replace_all(r"\p{Cf}", "")
    )
    normal = normalize_column(visible).str.replace_all(" ", "", literal=True)
    lexicon = dict(zip(different, normal, strict=True))
    return [lexicon[word] for word in words]


def _segments(
    segments: Segments,
    pairs: WordPairs,
    words: _Words,
    heard: TimedWords,
    documents: Sequence[tuple[str, Document]],
) -> Iterator[dict[str, Any]]:
    times = np.full((len(words.spans), 2), np.nan)
    times[pairs.left] = np.stack((heard.starts[pairs.right], heard.ends[pairs.right]), axis=1)
    facts = (
        segments.typed,
        segments.heard,
        segments.seconds,
        segments.room.round(6),
        segments.confidence.round(6),
    )
    for (first, last), (begin, end), (start, stop), room, confidence in zip(
        *(fact.tolist() for fact in facts), strict=True
    ):
        (number, one, from_, _) = words.spans[first]
        (_, other, _, to) = words.spans[last - 1]
        file, document = documents[number]
        typed = document.text[from_:to]
        tokens = [from_ + token.start() for token in _TOKEN.finditer(typed)]
        token_times = np.full((len(tokens), 2), np.nan)
        token_times[np.searchsorted(tokens, [span[2] for span in words.spans[first:last]])] = (
            times[first:last] - start
        )
        text = " ".join(typed.split())
        yield {
            "kind": "segment",
            "source_start": _decimal(start),
            "source_end": _decimal(stop),
            "text": text,
            "text_raw": typed if typed != text else None,
            "asr_text": " ".join(heard.words[begin:end]),
            "speaker_id": document.utterances[one].speaker_id,
            "word_times": _word_times(token_times),
            "utterance_id_start": document.utterances[one].utterance_id,
            "utterance_id_end": document.utterances[other].utterance_id,
            "edge_confidence": confidence,
            "room_before_s": room[0],
            "room_after_s": room[1],
            **{
                "document": file,
                "document_start": from_,
                "document_end": to,
                "words": last - first,
            },
        }


def _decimal(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _word_times(times: np.ndarray) -> list[dict[str, float]]:
    """Return starts and ends of words and marks.

    Those without a pair share the time between their neighbors.
    """
    edges = times.ravel()
    places = (np.arange(len(times))[:, None] + (0, 1)).ravel()
    known = ~np.isnan(edges)
    starts, ends = (
        np.where(known, edges, np.interp(places, places[known], edges[known])).reshape(-1, 2).T
    )
    starts = np.minimum.accumulate(starts[::-1])[::-1]  # of words between two that overlap
    return [
        {"start": start, "end": max(start, end)}
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _typed_only(
    segments: Segments, pairs: WordPairs, words: _Words, documents: Sequence[tuple[str, Document]]
) -> Iterator[dict[str, Any]]:
    for run, is_paired in _runs([span[0] for span in words.spans], segments.typed, pairs.left):
        (number, _, start, _) = words.spans[run[0]]
        (*_, end) = words.spans[run[-1]]
        yield {
            "kind": "text",
            "reason": "in no segment" if is_paired else "not heard",
            "text": documents[number][1].text[start:end],
            **{
                "document": documents[number][0],
                "document_start": start,
                "document_end": end,
                "words": len(run),
            },
        }


def _heard_only(
    segments: Segments, pairs: WordPairs, heard: TimedWords
) -> Iterator[dict[str, Any]]:
    for run, is_paired in _runs([0] * len(heard.words), segments.heard, pairs.right):
        yield {
            "kind": "audio",
            "reason": "in no segment" if is_paired else "not typed",
            "source_start": _decimal(heard.starts[run[0]]),
            "source_end": _decimal(heard.ends[run].max()),
            "text": " ".join(heard.words[run[0] : run[-1] + 1]),
            "words": len(run),
        }


def _runs(
    groups: Sequence[int], ranges: np.ndarray, paired: np.ndarray
) -> Iterator[tuple[list[int], bool]]:
    """Yield runs of words of one group outside of `ranges` (n x 2).

    Each comes with whether most of its words are `paired`.
    """
    covered = np.zeros(len(groups), np.bool_)
    is_paired = np.zeros(len(groups), np.bool_)
    for start, end in ranges:
        covered[start:end] = True
    is_paired[paired] = True
    for (is_covered, _), run in groupby(
        range(len(groups)), lambda word: (covered[word], groups[word])
    ):
        if not is_covered:
            numbers = [*run]
            yield numbers, bool(is_paired[numbers].mean() > 1 / 2)
