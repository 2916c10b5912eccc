"""Sentences that are nearly the same, found among hundreds of thousands without comparing each with each.

Conventions: sentences are compared by `sentences`, which leaves case, punctuation and the number of blanks aside. Two are *near*
when the edits between them (Levenshtein, in characters) are at most a tenth of the shorter one; equal ones are not counted.

Nothing near is missed, unlike with MinHash: a sentence of which e characters may change is cut into e + 1 pieces, and e edits
leave one of them whole and not far from its place (the pigeonhole argument of Pass-Join: Li, Deng, Wang, Feng, VLDB 2011). Whole
pieces are found by a rolling hash; what they point to is then compared in full.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

NEAR = pl.Schema({"sentence": pl.UInt32, "text": pl.UInt32, "edits": pl.Int64})

_PART = 10  # one edit in so many characters is near
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits everywhere: neighbours spread over all 64
_FLAG_BITS = 22
# Texts, and places where pieces may lie, that are looked at together: some 100 MB.
_TEXTS = 4096
_PLACES = 1 << 20


def sentences(texts: pl.Expr) -> pl.Expr:
    """Fold texts for comparison: two texts are the same sentence when their folded forms are equal. All steps use this function.

    Case, punctuation, symbols, the number of blanks and the Unicode normal form (composed or decomposed) do not count, nor do
    invisible format characters such as joiners, soft hyphens and direction marks. Combining marks count: vowel signs (Hindi,
    Thai, Arabic) and accents make other words.

    Returns:
        The folded texts in NFC, lower case, single blanks between words; null where nothing is left.

    Examples:
        >>> pl.select(sentences(pl.Series(["„Hvala,  lijepa!“", "HVALA LIJEPA", "–"]).implode().explode())).to_series().to_list()
        ['hvala lijepa', 'hvala lijepa', None]
    """
    composed = texts.str.replace_all(r"\p{Cf}+", "").str.normalize("NFC")
    # Upper and then lower case folds ß and the two small sigmas; some letters come out of it decomposed.
    lower = composed.str.to_uppercase().str.to_lowercase().str.normalize("NFC")
    folded = lower.str.replace_all(r"[^\p{L}\p{M}\p{N}]+", " ").str.strip_chars(" ")
    return pl.when(folded != "").then(folded)


class _Pieces(NamedTuple):
    """All pieces of one size, ordered by hash: which sentence each is of, where it begins, and which piece of it it is."""

    hashes: Hashes
    sentence: Integers
    start: Integers
    number: Integers
    flags: NDArray[np.bool_]


class NearIndex:
    """Sentences, ready to be looked for among any number of texts.

    Args:
        sentences: as `sentences` gives them, each once, without nulls.

    Examples:
        >>> index = NearIndex(["hvala lijepa svima", "dobar dan"])
        >>> index.among(["hvala ljepa svima", "dobar dan", "hvala svima"]).rows()
        [(0, 0, 1)]
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self._sentences = list(sentences)
        codes, starts, self._lengths = _codes(self._sentences)
        self._edits = self._lengths // _PART
        # Of shorter ones no character may change: equal is all that they can be.
        can_change = np.flatnonzero(self._edits)
        pieces = self._edits[can_change] + 1
        sentence = np.repeat(can_change, pieces)
        number = _counted(pieces)
        count, length = np.repeat(pieces, pieces), self._lengths[sentence]
        start = number * length // count
        size = (number + 1) * length // count - start
        self._pieces: dict[int, _Pieces] = {}
        for each in np.unique(size).tolist():
            some = np.flatnonzero(size == each)
            places = starts[sentence[some]] + start[some]
            hashes = np.zeros(len(some), dtype=np.uint64)
            for step in range(each):
                hashes = hashes * _FACTOR + codes[places + step]
            order = np.argsort(hashes, kind="stable")
            some, hashes = some[order], hashes[order]
            flags = np.zeros(1 << _FLAG_BITS, dtype=np.bool_)
            flags[_flag(hashes)] = True
            self._pieces[each] = _Pieces(hashes, sentence[some], start[some], number[some], flags)

    def among(self, texts: Sequence[str]) -> pl.DataFrame:
        """The pairs of a sentence and a text that are near and not equal.

        Args:
            texts: as `sentences` gives them, without nulls.

        Returns:
            `sentence` and `text` (numbers from 0), `edits`; ordered by both.
        """
        texts = list(texts)
        parts = [self._among(texts[at : at + _TEXTS], at) for at in range(0, len(texts), _TEXTS)]
        return pl.concat([pl.DataFrame(schema=NEAR), *parts]).sort("sentence", "text")

    def _among(self, texts: list[str], offset: int) -> pl.DataFrame:
        candidates = [np.empty(0, dtype=np.int64), *self._candidates(texts)]
        sentence, text = np.divmod(np.unique(np.concatenate(candidates)), len(texts))
        left, right = [self._sentences[i] for i in sentence], [texts[i] for i in text]
        allowed = np.minimum(self._lengths[sentence], [len(one) for one in right]) // _PART
        most = int(allowed.max(initial=0))  # to count no further is much quicker
        edits = cpdist(left, right, scorer=Levenshtein.distance, score_cutoff=most, dtype=np.int64, workers=1)
        near = (edits > 0) & (edits <= allowed)
        return pl.DataFrame({"sentence": sentence[near], "text": text[near] + offset, "edits": edits[near]}).cast(NEAR)

    def _candidates(self, texts: list[str]) -> Iterator[Integers]:
        """Pairs that share a piece in the right place, as sentence * len(texts) + text; some of them more than once."""
        codes, starts, lengths = _codes(texts)
        owner = np.repeat(np.arange(len(texts)), lengths + 1)
        hashes = np.zeros(len(codes), dtype=np.uint64)
        for size in range(1, max(self._pieces, default=0) + 1):
            # The hash of every stretch of `size` characters, from those one character shorter.
            hashes = hashes[: max(len(codes) - size + 1, 0)] * _FACTOR + codes[size - 1 :]
            if size not in self._pieces:
                continue
            pieces = self._pieces[size]
            place = np.flatnonzero(pieces.flags[_flag(hashes)])
            first = np.searchsorted(pieces.hashes, hashes[place], "left")
            number = np.searchsorted(pieces.hashes, hashes[place], "right") - first
            # A phrase that everybody uses is a piece of many: pairs are made a bounded number at a time.
            for some in np.split(np.arange(len(place)), _bounds(number)):
                piece = np.repeat(first[some], number[some]) + _counted(number[some])
                position = np.repeat(place[some], number[some])
                text, sentence, nth = owner[position], pieces.sentence[piece], pieces.number[piece]
                allowed = self._edits[sentence]
                shift = position - starts[text] - pieces.start[piece]
                longer = lengths[text] - self._lengths[sentence]
                # Edits before the piece number at most its number, else an earlier piece is whole too; likewise behind it.
                right = (np.abs(shift) <= nth) & (np.abs(longer - shift) <= allowed - nth) & (np.abs(longer) <= allowed)
                yield sentence[right] * len(texts) + text[right]


def _codes(texts: Sequence[str]) -> tuple[Hashes, Integers, Integers]:
    """The code points of all texts, each followed by a line end, which no sentence holds; where each begins, and its length."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    ended = "".join(f"{text}\n" for text in texts).encode("utf-32-le")
    return np.frombuffer(ended, dtype="<u4").astype(np.uint64), np.cumsum(lengths + 1) - lengths - 1, lengths


def _flag(hashes: Hashes) -> Integers:
    """A small number for each hash, to rule out most of those that no piece has."""
    return (hashes * _FACTOR >> np.uint64(64 - _FLAG_BITS)).astype(np.int64)


def _counted(numbers: Integers) -> Integers:
    """From 0 up to each number, one after the other: 2, 3 gives 0, 1, 0, 1, 2."""
    ends = np.cumsum(numbers)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - numbers, numbers)


def _bounds(numbers: Integers) -> Integers:
    """Where to split numbers so that no part has a sum much above `_PLACES`."""
    return np.flatnonzero(np.diff(np.cumsum(numbers) // _PLACES)) + 1
