"""Align the hypothesis of one recording with its transcripts; runs in a worker."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.formats.documents import Document, read_documents
from nbaudio.formats.timed_words import TimedWords, choose_side, read_timed_words
from nbaudio.formats.transcripts import TRANSCRIPTS
from nbaudio.sources.transcript_words import (
    Label,
    TranscriptWords,
    label,
    leave_out_unspoken,
    normalize_words,
    split_documents,
)
from nbaudio.text.scripts import WITHOUT_BLANKS, script_of
from nbaudio.text.segmentation import Heard, Segments, cut_segments
from nbaudio.text.unspoken import Spoken, find_unspoken
from nbaudio.text.word_pairs import WordPairs, pair_words

VERSION = 5  # version of the method; stored results of other versions are not used

_FURTHER = (
    "kind",
    "reason",
    "utterance_id_start",
    "utterance_id_end",
    "document",
    "source_channel",
)
_PLACES = ("document_start", "document_end", "document_page", "document_line")
_FIGURES = ("edge_confidence", "inner_confidence", "room_before_s", "room_after_s")
#: Columns of what a recording gives: rows of the kinds ``segment``, ``text`` and ``audio`` (runs of
#: words in no segment), ``left out`` (parts of a file that are not read, in `text`, and the option
#: that reads them, in `reason`), and ``unmatched``, ``unread pages`` or ``unreadable`` (problems,
#: whose `document` is the file); `words` has the numbers of words or parts.
ALIGNED = pl.Schema(
    {**TRANSCRIPTS, **dict.fromkeys(_FURTHER, pl.String())}
    | dict.fromkeys(_FIGURES, pl.Float64())
    | dict.fromkeys((*_PLACES, "words"), pl.Int64())
)

# Of the words of the shorter side that match; less is what all speeches have in common.
_LEAST_SHARE = 0.02


class Item(NamedTuple):
    """A hypothesis or transcript of a recording.

    It has its name without endings, its file as listed, and what is read there.
    """

    name: str
    file: str
    path: Path
    content: TimedWords | Document | None = None  # where the file has several recordings


class Task(NamedTuple):
    """A recording to align, the shortest and longest segment in seconds, and the side of calls."""

    number: int
    hypothesis: Item
    transcripts: tuple[Item, ...]
    shortest: float
    longest: float
    side: str | None = None


@dataclass(frozen=True)
class _Alignment:
    """A hypothesis that was aligned with transcripts.

    Attributes:
        documents: the transcripts, with their files.
        words: of the transcripts.
        heard: the words of the hypothesis.
        spoken: what is known of the words of the transcripts.
        numbers: the numbers of the words that were spoken, which `segments` count.
        segments: cut from them.
    """

    documents: Sequence[tuple[str, Document]]
    words: TranscriptWords
    heard: TimedWords
    spoken: Spoken
    numbers: npt.NDArray[np.int64]
    segments: Segments


def align_recording(task: Task) -> tuple[int, pl.DataFrame]:
    """Return the number of a task and what it gives, as `ALIGNED`."""
    rows: list[dict[str, Any]] = []
    heard: list[TimedWords] = []
    documents: list[tuple[str, Document]] = []
    for item in (task.hypothesis, *task.transcripts):
        try:
            if item is task.hypothesis:
                heard.append(_hypothesis(item, task.side))
            else:
                documents += [(item.file, document) for document in _documents(item)]
        except (InputError, OSError) as error:
            reason = str(error).removeprefix(str(item.path)).lstrip(":, ")
            rows.append({"kind": "unreadable", "document": item.file, "text": reason})
    rows += [
        {"kind": "left out", "document": file, "text": part.what, "words": part.number}
        for file, document in documents
        for part in document.left_out
    ]
    rows += [
        {"kind": "unread pages", "document": file, "text": reason}
        for file, document in documents
        for reason in document.problems
    ]
    rows += [
        {
            "kind": "left out",
            "document": task.hypothesis.file,
            "text": part.what,
            "words": part.number,
            "reason": part.option or None,
        }
        for words in heard
        for part in words.left_out
    ]
    if heard and documents:
        rows += _align(task, heard[0], documents)
    return task.number, pl.DataFrame(rows, schema=ALIGNED)


def _hypothesis(item: Item, side: str | None) -> TimedWords:
    """Return the words of a recording, of one side of a call."""
    if isinstance(item.content, TimedWords):
        return item.content
    heard = read_timed_words(item.path, item.name)
    _, sides = next(groupby(heard, key=lambda words: words.name))
    return choose_side([*sides], side)


def _documents(item: Item) -> Iterable[Document]:
    if isinstance(item.content, Document):
        return [item.content]
    return read_documents(item.path)


def _align(
    task: Task, heard: TimedWords, documents: Sequence[tuple[str, Document]]
) -> list[dict[str, Any]]:
    """Align a hypothesis with its transcripts; return rows of `ALIGNED`."""
    words = split_documents([document for _, document in documents])
    heard, heard_words = _heard_words(heard)
    pairs = pair_words(words.words, heard_words.words)
    typed = len(words.words)
    if len(pairs.left) < _LEAST_SHARE * min(typed, len(heard.words)):
        pairs = WordPairs(pairs.left[:0], pairs.right[:0], pairs.probability[:0])
    spoken = find_unspoken(pairs, words.words, words.asides, heard_words)
    spoken_words = leave_out_unspoken(words, spoken)
    segments = cut_segments(
        spoken_words.pairs,
        spoken_words.typed,
        heard_words,
        shortest=task.shortest,
        longest=task.longest,
    )
    aligned = _Alignment(documents, words, heard, spoken, spoken_words.numbers, segments)
    rows = sorted(_segments(aligned), key=lambda row: float(row["source_start"]))
    rows += [*_typed_only(aligned), *_heard_only(aligned)]
    if not len(segments.typed):
        names = ", ".join(dict.fromkeys(file for file, _ in documents))
        reason = (
            f"no segment: {len(pairs.left):,} of its {len(heard.words):,} words are in {names} "
            f"({typed:,} words)"
        )
        if not len(pairs.left):
            reason += _question(words.words, heard.words)
        rows.append({"kind": "unmatched", "document": task.hypothesis.file, "text": reason})
    return rows


def _question(typed: Sequence[str], heard: Sequence[str]) -> str:
    """Return why no word of a transcript may have been heard."""
    typed_script = script_of(typed)
    heard_script = script_of(heard)
    if typed_script in WITHOUT_BLANKS:
        return f"; no blanks separate its words ({typed_script.title()}), which is not supported"
    if typed_script and heard_script and typed_script != heard_script:
        scripts = f"{typed_script.title()}, the hypothesis in {heard_script.title()}"
        return f"; the transcript is in {scripts}: transliterate one of them"
    return "; is this the transcript of this recording?"


def _heard_words(heard: TimedWords) -> tuple[TimedWords, Heard]:
    """Return the words of a hypothesis, as it has them and normalized.

    What is no word is part of the word before it.
    """
    normal = normalize_words(heard.words)
    first = np.flatnonzero([bool(word) for word in normal])
    first[:1] = 0  # with what precedes the first word
    words = [" ".join(heard.words[start:stop]) for start, stop in pairwise([*first, len(normal)])]
    ends = np.maximum.reduceat(heard.ends, first) if len(first) else heard.ends[:0]
    words_with_times = heard._replace(words=words, starts=heard.starts[first], ends=ends)
    return words_with_times, Heard([word for word in normal if word], words_with_times.starts, ends)


def _segments(aligned: _Alignment) -> Iterator[dict[str, Any]]:
    """Yield the row of each segment, as in `ALIGNED`."""
    words = aligned.words
    times = _times_of_words(aligned)
    segments = aligned.segments
    facts = (
        segments.typed,
        segments.heard,
        segments.seconds,
        segments.room.round(6),
        segments.confidence.round(6),
    )
    for typed, (begin, end), (start, stop), room, confidence in zip(
        *(fact.tolist() for fact in facts), strict=True
    ):
        numbers = aligned.numbers[slice(*typed)]
        segment_label = _label(aligned, numbers.tolist())
        inner = aligned.spoken.confidence[numbers[0] : numbers[-1] + 1].min()
        yield {
            "kind": "segment",
            "source_start": _decimal(start),
            "source_end": _decimal(stop),
            "text": segment_label.text,
            "text_raw": segment_label.raw_text(),
            "asr_text": " ".join(aligned.heard.words[begin:end]),
            "speaker_id": words.speakers[numbers[0]],
            "word_times": _word_times(segment_label, times[numbers] - start),
            "source_channel": _channel(aligned.heard),
            "edge_confidence": confidence,
            "inner_confidence": round(float(inner), 6),
            "room_before_s": room[0],
            "room_after_s": room[1],
            "words": len(numbers),
        } | _place_in_document(aligned, numbers)


def _place_in_document(aligned: _Alignment, numbers: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return where the words of a segment are: document, characters and utterances."""
    first = aligned.words.spans[numbers[0]]
    last = aligned.words.spans[numbers[-1]]
    (file, document) = aligned.documents[first.document]
    return {
        "utterance_id_start": document.utterances[first.utterance].utterance_id,
        "utterance_id_end": document.utterances[last.utterance].utterance_id,
        "document": file,
    } | _place(document, first.start, last.end)


def _place(document: Document, start: int, end: int) -> dict[str, int | None]:
    """Return the characters of a text (half open), and its page and line where there are some."""
    place: dict[str, int | None] = {"document_start": start, "document_end": end}
    behind = bisect_right(document.lines, start, key=lambda line: line.start)
    if behind:
        line = document.lines[behind - 1]
        place |= {"document_page": line.page, "document_line": line.number}
    return place


def _channel(heard: TimedWords) -> str | None:
    """Return the channel of a side, as `source_channel` has it; None where the mix was heard."""
    return None if heard.channel is None else str(heard.channel)


def _times_of_words(aligned: _Alignment) -> npt.NDArray[np.float64]:
    """Return start and end in seconds of each word of the transcripts (n x 2), NaN without pair."""
    pairs = aligned.spoken.pairs
    times = np.full((len(aligned.words.words), 2), np.nan)
    times[pairs.left, 0] = aligned.heard.starts[pairs.right]
    times[pairs.left, 1] = aligned.heard.ends[pairs.right]
    return times


def _decimal(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _label(aligned: _Alignment, numbers: list[int]) -> Label:
    """Return the label of the segment that has these words of the transcripts."""
    (_, document) = aligned.documents[aligned.words.spans[numbers[0]].document]
    behind = numbers[-1] + 1
    is_left_out_behind = bool(aligned.spoken.is_unspoken[behind : behind + 1].any())
    return label(document.text, aligned.words, numbers, is_left_out_behind=is_left_out_behind)


def _word_times(segment_label: Label, times: npt.NDArray[np.float64]) -> list[dict[str, float]]:
    """Return starts and ends of the tokens of a label, from the times of its words (n x 2).

    Tokens without a pair share the time between their neighbors.
    """
    token_times = np.full((segment_label.text.count(" ") + 1, 2), np.nan)
    np.fmin.at(token_times[:, 0], segment_label.tokens, times[:, 0])
    np.fmax.at(token_times[:, 1], segment_label.tokens, times[:, 1])
    times = token_times
    edges = times.ravel()
    places = (np.arange(len(times))[:, None] + (0, 1)).ravel()
    is_timed = ~np.isnan(edges)
    starts, ends = (
        np.where(is_timed, edges, np.interp(places, places[is_timed], edges[is_timed]))
        .reshape(-1, 2)
        .T
    )
    starts = np.minimum.accumulate(starts[::-1])[::-1]  # of words between two that overlap
    return [
        {"start": start, "end": max(start, end)}
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _typed_only(aligned: _Alignment) -> Iterator[dict[str, Any]]:
    """Yield the rows of runs of typed words that are in no segment."""
    words = aligned.words
    covered = np.zeros(len(words.words), np.bool_)
    for start, end in aligned.segments.typed:
        covered[aligned.numbers[start:end]] = True
    documents = [span.document for span in words.spans]
    for run, is_paired in _runs(documents, covered, aligned.spoken.pairs.left):
        first = words.spans[run[0]]
        (file, document) = aligned.documents[first.document]
        end = words.spans[run[-1]].end
        yield {
            "kind": "text",
            "reason": "in no segment" if is_paired else "not heard",
            "text": document.text[first.start : end],
            "document": file,
            "words": len(run),
        } | _place(document, first.start, end)


def _heard_only(aligned: _Alignment) -> Iterator[dict[str, Any]]:
    """Yield the rows of runs of words of the hypothesis that are in no segment."""
    heard = aligned.heard
    covered = np.zeros(len(heard.words), np.bool_)
    for start, end in aligned.segments.heard:
        covered[start:end] = True
    recording = [0] * len(heard.words)
    for run, is_paired in _runs(recording, covered, aligned.spoken.pairs.right):
        yield {
            "kind": "audio",
            "reason": "in no segment" if is_paired else "not typed",
            "source_start": _decimal(heard.starts[run[0]]),
            "source_end": _decimal(heard.ends[run].max()),
            "text": " ".join(heard.words[run[0] : run[-1] + 1]),
            "words": len(run),
        }


def _runs(
    groups: Sequence[int], covered: npt.NDArray[np.bool_], paired: npt.NDArray[np.int64]
) -> Iterator[tuple[list[int], bool]]:
    """Yield runs of words of one group that are not `covered`.

    Each comes with whether most of its words are `paired`.
    """
    is_paired = np.zeros(len(groups), np.bool_)
    is_paired[paired] = True
    for (is_covered, _), run in groupby(
        range(len(groups)), lambda word: (covered[word], groups[word])
    ):
        if not is_covered:
            numbers = [*run]
            yield numbers, bool(is_paired[numbers].mean() > 1 / 2)
