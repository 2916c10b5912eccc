"""Find near-duplicate sentences, folded by `sentences`, without comparing all pairs; none is missed, unlike with MinHash.

*Near*: edits of at most a tenth of the shorter length. Of e + 1 pieces, e edits leave one intact (Pass-Join, VLDB 2011).
"""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

NEAR = pl.Schema({"sentence": pl.UInt32, "text": pl.UInt32, "edits": pl.Int64})

_PART = 10  # near means at most one edit in so many characters
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits everywhere: neighbors spread over all 64
_FLAG_BITS = 22
# Texts, and candidate pairs, that are processed together: some 100 MB.
_TEXTS = 4096
_PAIRS = 1 << 20


# Each character is its own normal form C, and the lower case of its upper case is its lower case.
_PLAIN = "\\x00-\\x7FÀ-ÖØ-ÞàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿĀ-įĲ-ňŊ-ž"


def sentences(texts: pl.Expr) -> pl.Expr:
    """Fold texts: they are the same sentence if their folded forms are equal, for all steps; null where nothing is left.

    Case, punctuation, symbols, the number of blanks, the Unicode normal form and format characters (joiners, soft hyphens) are
    ignored. Combining marks are kept: vowel signs (Hindi, Thai, Arabic) and accents make other words.
    """
    return texts.map_batches(_folded, return_dtype=pl.String, is_elementwise=True)


def _folded(texts: pl.Series) -> pl.Series:
    text = pl.col("text")
    is_odd = texts.str.contains(f"[^{_PLAIN}]").fill_null(value=False)
    # Upper and then lower case folds ß and the two small sigmas; it decomposes some letters.
    composed = text.str.replace_all(r"\p{Cf}+", "").str.normalize("NFC")
    lower = composed.str.to_uppercase().str.to_lowercase().str.normalize("NFC")
    odd = texts.filter(is_odd).alias("text").to_frame().select(lower)["text"]
    # One pass is six times as fast, and most texts are plain.
    plain = texts.alias("text").to_frame().select(text.str.to_lowercase())["text"]
    both = plain.scatter(is_odd.arg_true(), odd) if len(odd) else plain
    words = text.str.replace_all(r"[^\p{L}\p{M}\p{N}]+", " ").str.strip_chars(" ")
    # Replacing takes ten times as long as the check whether there is anything but letters and single blanks.
    marked = both.str.contains(r"[^\p{L}\p{M}\p{N} ]|  |^ | $|^$").fill_null(value=False)
    tidy = both.filter(marked).alias("text").to_frame().select(pl.when(words != "").then(words))["text"]
    return (both.scatter(marked.arg_true(), tidy) if len(tidy) else both).alias(texts.name)


class NearIndex:
    """Index of folded sentences, each once and without nulls, to search in any number of texts."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.sentences = pl.Series(sentences, dtype=pl.String)
        codes, starts, self._lengths = _codes(sentences)
        self._edits = self._lengths // _PART
        # Shorter sentences allow no edit, so that they can only be equal.
        can_change = np.flatnonzero(self._edits)
        pieces = self._edits[can_change] + 1
        self._sentence = np.repeat(can_change, pieces)  # by piece, as the following
        self._number = _counted(pieces)
        count, length = np.repeat(pieces, pieces), self._lengths[self._sentence]
        self._start = self._number * length // count
        size = (self._number + 1) * length // count - self._start
        # By size: the hashes of pieces, in order, the pieces, and flags of these hashes.
        self._pieces: dict[int, tuple[Hashes, Integers, NDArray[np.bool_]]] = {}
        for each in np.unique(size).tolist():
            some = np.flatnonzero(size == each)
            places = starts[self._sentence[some]] + self._start[some]
            hashes = np.zeros(len(some), dtype=np.uint64)
            for step in range(each):
                hashes = hashes * _FACTOR + codes[places + step]
            order = np.argsort(hashes, kind="stable")
            flags = np.zeros(1 << _FLAG_BITS, dtype=np.bool_)
            flags[_flag(hashes)] = True
            self._pieces[each] = hashes[order], some[order], flags

    def among(self, texts: Sequence[str]) -> pl.DataFrame:
        """Return the near pairs of a sentence and a folded text: their numbers from 0, in order, and their `edits`."""
        texts = list(texts)
        parts = [self._among(texts[at : at + _TEXTS], at) for at in range(0, len(texts), _TEXTS)]
        return pl.concat([pl.DataFrame(schema=NEAR), *parts]).sort("sentence", "text")

    def _among(self, texts: list[str], offset: int) -> pl.DataFrame:
        candidates = [np.empty(0, dtype=np.int64), *self._candidates(texts)]
        sentence, text = np.divmod(np.unique(np.concatenate(candidates)), len(texts))
        left, right = self.sentences.gather(sentence).to_list(), [texts[i] for i in text]
        allowed = np.minimum(self._lengths[sentence], [len(one) for one in right]) // _PART
        most = int(allowed.max(initial=0))  # a cutoff is much faster
        edits = cpdist(left, right, scorer=Levenshtein.distance, score_cutoff=most, dtype=np.int64, workers=1)
        near = (edits > 0) & (edits <= allowed)
        return pl.DataFrame({"sentence": sentence[near], "text": text[near] + offset, "edits": edits[near]}).cast(NEAR)

    def _candidates(self, texts: list[str]) -> Iterator[Integers]:
        """Yield pairs that share a piece at a possible position, as sentence * len(texts) + text, with duplicates."""
        codes, starts, lengths = _codes(texts)
        owner = np.repeat(np.arange(len(texts)), lengths + 1)
        hashes = np.zeros(len(codes), dtype=np.uint64)
        for size in range(1, max(self._pieces, default=0) + 1):
            # Rolling hash of every run of `size` characters, from those one character shorter.
            hashes = hashes[: max(len(codes) - size + 1, 0)] * _FACTOR + codes[size - 1 :]
            if size not in self._pieces:
                continue
            known, pieces, flags = self._pieces[size]
            place = np.flatnonzero(flags[_flag(hashes)])
            first = np.searchsorted(known, hashes[place], "left")
            number = np.searchsorted(known, hashes[place], "right") - first
            # A common phrase is a piece of many sentences, so pairs are made a bounded number at a time.
            bounds = np.flatnonzero(np.diff(np.cumsum(number) // _PAIRS)) + 1
            for some in np.split(np.arange(len(place)), bounds):
                piece = pieces[np.repeat(first[some], number[some]) + _counted(number[some])]
                position = np.repeat(place[some], number[some])
                text, sentence, nth = owner[position], self._sentence[piece], self._number[piece]
                allowed = self._edits[sentence]
                shift = position - starts[text] - self._start[piece]
                longer = lengths[text] - self._lengths[sentence]
                # At most as many edits lie before a piece as its number, else an earlier piece is intact too; likewise after it.
                right = (np.abs(shift) <= nth) & (np.abs(longer - shift) <= allowed - nth) & (np.abs(longer) <= allowed)
                yield sentence[right] * len(texts) + text[right]


def _codes(texts: Sequence[str]) -> tuple[Hashes, Integers, Integers]:
    """Return the code points of all texts, each followed by a line end, which no sentence contains; starts; and lengths."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    ended = "".join(f"{text}\n" for text in texts).encode("utf-32-le")
    return np.frombuffer(ended, dtype="<u4").astype(np.uint64), np.cumsum(lengths + 1) - lengths - 1, lengths


def _flag(hashes: Hashes) -> Integers:
    """Return a small number for each hash, which rules out most hashes that no piece has."""
    return (hashes * _FACTOR >> np.uint64(64 - _FLAG_BITS)).astype(np.int64)


def _counted(numbers: Integers) -> Integers:
    """Count from 0 up to each number in turn: 2, 3 gives 0, 1, 0, 1, 2."""
    ends = np.cumsum(numbers)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - numbers, numbers)
