"""How often a hypothesis has each word of the transcripts, counted over a corpus."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from rapidfuzz.distance import Levenshtein

from nbaudio.core.threads import in_threads
from nbaudio.text.edit_distance import encode_words, letters_of_words
from nbaudio.text.normalization import normalize_words

MOST_EXAMPLES = 3
# Occurrences among which examples are found: a segment can have a word several times
_SEARCHED = 4 * MOST_EXAMPLES

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def word_accuracy(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return what `views.words` does.

    The parts have `segment_id`, `text` and `heard`, str without nulls; threads compare a few at
    once. In memory are these, the distinct words, up to 24 occurrences of each, and the ids.
    """
    counter = _WordCounter()
    for compared in in_threads(_compare, parts):
        counter.add(compared)
    return counter.table()


@dataclass(frozen=True)
class _NormalWords:
    """Normal words of several texts.

    `codes` are the words of all texts, one text after the other, as numbers of the distinct
    `words`; `ends` has as many values as there are texts, and a leading 0: text i has the codes
    from ends[i] to ends[i + 1].
    """

    codes: Ints
    ends: Ints
    words: pl.Series


@dataclass(frozen=True)
class _ComparedWords:
    """The words of the transcripts of a part.

    `codes` are numbers of the distinct `words`; `rows` are the segments of the part that they are
    in, and `right` says which of them the hypothesis has at their place.
    """

    segment_ids: pl.Series
    words: pl.Series
    codes: Ints
    rows: Ints
    right: Bools


def _compare(pairs: pl.DataFrame) -> _ComparedWords:
    """Compare the transcripts of a part with their hypotheses."""
    normal = _encode_normal_words(pl.concat([pairs["text"], pairs["heard"].alias("text")]))
    ends = normal.ends[: len(pairs) + 1]
    return _ComparedWords(
        pairs["segment_id"],
        normal.words,
        codes=normal.codes[: ends[-1]],
        rows=np.repeat(np.arange(len(pairs)), np.diff(ends)),
        right=~_wrong_words(normal),
    )


class _WordCounter:
    """Counts of the words of all parts so far.

    Arrays have a value for each word, whose number is its place in `_numbers`.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._counts = np.zeros(0, np.int64)
        self._right_counts = np.zeros(0, np.int64)
        self._segments = np.zeros(0, np.int64)
        self._wrong_occurrences = [_occurrences()]
        self._right_occurrences = [_occurrences()]
        self._segment_ids = [pl.Series("segment_id", [], pl.String)]
        self._num_rows = 0

    def add(self, part: _ComparedWords) -> None:
        """Count the words of the transcripts of a part, and collect occurrences for examples."""
        numbers = self._number(part.words)
        self._collect_examples(numbers[part.codes], part.rows, part.right)
        num_words = len(part.words)
        in_rows = pl.Series(part.rows * num_words + part.codes).unique().to_numpy() % max(
            num_words, 1
        )
        self._counts[numbers] += np.bincount(part.codes, minlength=num_words)
        self._right_counts[numbers] += np.bincount(part.codes[part.right], minlength=num_words)
        self._segments[numbers] += np.bincount(in_rows, minlength=num_words)
        self._segment_ids.append(part.segment_ids)
        self._num_rows += len(part.segment_ids)

    def _collect_examples(self, numbers: Ints, rows: Ints, right: Bools) -> None:
        """Collect the occurrences of words that have too few of their kind so far."""
        wrong_counts = self._counts - self._right_counts
        for is_kind, counts, occurrences in (
            (~right, wrong_counts, self._wrong_occurrences),
            (right, self._right_counts, self._right_occurrences),
        ):
            is_new = is_kind & (counts < _SEARCHED)[numbers]
            occurrences.append(_occurrences(numbers[is_new], self._num_rows + rows[is_new]))

    def _number(self, words: pl.Series) -> Ints:
        """Return the numbers of words, new ones for those that no part had."""
        numbers = self._numbers
        places = [numbers.setdefault(word, len(numbers)) for word in words.to_list()]
        growth = (0, len(numbers) - len(self._counts))
        self._counts = np.pad(self._counts, growth)
        self._right_counts = np.pad(self._right_counts, growth)
        self._segments = np.pad(self._segments, growth)
        return np.array(places, np.int64)

    def table(self) -> pl.DataFrame:
        """Return the words of the transcripts, the most frequent ones first."""
        counted = pl.DataFrame(
            {
                "word": pl.Series([*self._numbers], dtype=pl.String),
                "number": np.arange(len(self._numbers), dtype=np.uint32),
                "count": self._counts,
                "right": self._right_counts,
                "accuracy": self._right_counts / np.maximum(self._counts, 1),
                "segments": self._segments,
            }
        )
        reference_words = counted.filter(pl.col("count") > 0).join(self._examples(), on="number")
        return reference_words.sort("count", "word", descending=[True, False]).drop("number")

    def _examples(self) -> pl.DataFrame:
        """Return up to three segments of each word, first those with an error, in their order."""
        occurrences = pl.concat([*self._wrong_occurrences, *self._right_occurrences])
        rows = pl.col("row").head(_SEARCHED).unique(maintain_order=True).head(MOST_EXAMPLES)
        chosen = occurrences.group_by("number", maintain_order=True).agg(rows).explode("row")
        ids = pl.concat(self._segment_ids).gather(chosen["row"])
        by_word = chosen.select("number", examples=ids).group_by("number", maintain_order=True)
        return by_word.agg("examples")


def _occurrences(numbers: Ints | None = None, rows: Ints | None = None) -> pl.DataFrame:
    """Return the numbers of words and the rows of segments that have them, as a frame."""
    empty = np.zeros(0, np.int64)
    columns = {
        "number": empty if numbers is None else numbers,
        "row": empty if rows is None else rows,
    }
    return pl.DataFrame(columns).cast(pl.UInt32)


def _encode_normal_words(texts: pl.Series) -> _NormalWords:
    """Return the words of texts as they are compared, see `text.DEFAULT_STEPS`."""
    codes, lengths, distinct = encode_words(texts)
    pieces = normalize_words(distinct).str.split(" ")
    encoded = pieces.drop_nulls().explode().to_arrow().dictionary_encode()
    piece_codes = encoded.indices.to_numpy()
    text_ends = np.concatenate(([0], np.cumsum(lengths)))
    words = pl.Series(pl.from_arrow(encoded.dictionary)).cast(pl.String)
    # A word has as many normal words as its form has pieces, which begin at `first_pieces`.
    counts = pieces.list.len().fill_null(0).cast(pl.Int32).to_numpy()
    if (counts == 1).all():
        return _NormalWords(piece_codes[codes], text_ends, words)
    first_pieces = np.cumsum(counts, dtype=np.int32) - counts
    normal_counts = counts[codes]
    word_ends = np.concatenate(([0], np.cumsum(normal_counts)))
    # The pieces of each word, one after the other.
    places = np.repeat(first_pieces[codes], normal_counts)
    for number in range(1, counts.max()):
        places[word_ends[:-1][normal_counts > number] + number] += number
    return _NormalWords(piece_codes[places], word_ends[text_ends], words)


def _wrong_words(normal: _NormalWords) -> Bools:
    """Return which words of the transcripts the hypothesis does not have at their place.

    The first half of the texts are transcripts, the other one their hypotheses.
    """
    ends = normal.ends.tolist()
    half = len(ends) // 2
    letters = letters_of_words(normal.codes)
    places: list[int] = []
    for row in range(half):
        start = ends[row]
        reference = letters[start : ends[row + 1]]
        hypothesis = letters[ends[half + row] : ends[half + row + 1]]
        if reference != hypothesis:
            edits = Levenshtein.editops(reference, hypothesis)
            places += [start + edit.src_pos for edit in edits if edit.tag != "insert"]
    wrong = np.zeros(ends[half], dtype=bool)
    wrong[places] = True
    return wrong
