"""Find near-duplicate sentences, folded by `sentences`, without comparing all pairs.

None is missed, unlike with MinHash.

*Near*: edits of at most a tenth of the shorter length. Of e + 1 disjoint pieces, e edits leave one
intact (Pass-Join, VLDB 2011); pieces are found by their hash, the length of the text and their
place in it.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

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
_PLACE_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)
# Characters of texts, and candidate pairs, that are processed together: some 25 and 50 MB.
_CHARACTERS = 1 << 18
_PAIRS = 1 << 20
_CLASSES = 32

# Each character is its own normal form C, and the lower case of its upper case is its lower case.
_PLAIN = "\\x00-\\x7FÀ-ÖØ-ÞàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿĀ-įĲ-ňŊ-ž"


def sentences(texts: pl.Expr) -> pl.Expr:
    """Fold texts: they are the same sentence if their folded forms are equal, for all steps.

    A folded text is null where nothing is left.

    Case, punctuation, symbols, the number of blanks, the Unicode normal form and format characters
    (joiners, soft hyphens) are ignored. Combining marks are kept: vowel signs (Hindi, Thai, Arabic)
    and accents make other words.
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
    # Replacing takes ten times as long as the check whether there is anything but letters and
    # single blanks.
    marked = both.str.contains(r"[^\p{L}\p{M}\p{N} ]|  |^ | $|^$").fill_null(value=False)
    tidy = (
        both.filter(marked)
        .alias("text")
        .to_frame()
        .select(pl.when(words != "").then(words))["text"]
    )
    return (both.scatter(marked.arg_true(), tidy) if len(tidy) else both).alias(texts.name)


class NearIndex:
    """Index of folded sentences, each once and without nulls, to search in any number of texts."""

    def __init__(self, sentences: Sequence[str] | pl.Series) -> None:  # noqa: PLR0914
        self.sentences = pl.Series(sentences, dtype=pl.String)
        codes, starts, self._lengths = _codes(self.sentences)
        self._letters = _letters(codes, starts, self._lengths)
        self._edits = self._lengths // _PART
        # Shorter sentences allow no edit, so that they can only be equal.
        can_change = np.flatnonzero(self._edits)
        pieces = self._edits[can_change] + 1
        self._sentence = np.repeat(can_change, pieces)  # by piece, as the following
        self._number = _counted(pieces)
        length = self._lengths[self._sentence]
        count = np.repeat(pieces, pieces)
        self._start = self._number * length // count
        sizes = length // count
        # As many edits as its number lie before a piece at most, else an earlier piece is intact
        # too; likewise after it.
        self._rest = length - self._start
        self._spare = count - 1 - self._number
        sums, powers = _sums(codes)
        # By size: hashes of pieces and places, in order; where their pieces begin; the pieces;
        # flags of hashes; lengths of texts.
        self._pieces: dict[int, tuple[Hashes, Integers, Integers, NDArray[np.bool_], int, int]] = {}
        for size in np.unique(sizes).tolist():
            of_size = np.flatnonzero(sizes == size)
            at = starts[self._sentence[of_size]] + self._start[of_size]
            hashes = (sums[at + size] - sums[at]) * powers[at]
            shortest = length[of_size] * _PART // (_PART + 1)
            longest = length[of_size] + self._edits[self._sentence[of_size]]
            first_class = _length_class(shortest)
            some, step = _expanded(_length_class(longest) - first_class + 1)
            classes = first_class[some] + step
            piece = of_size[some]
            width = _place_width(classes)
            first = np.maximum(self._start[piece] - self._number[piece], 0) // width
            more, step = _expanded((self._start[piece] + self._number[piece]) // width - first + 1)
            hashes = hashes[some][more] + _place_key(classes[more], first[more] + step)
            order = np.argsort(hashes, kind="stable")
            known, firsts = np.unique(hashes[order], return_index=True)
            # A Bloom filter: two flags of each hash, of which one in eight at most is set; up to 16
            # MB.
            flags = np.zeros(1 << min(24, len(known).bit_length() + 4), dtype=np.bool_)
            flags[_flag(known, len(flags))] = flags[_flag(known * _FACTOR, len(flags))] = True
            firsts = np.append(firsts, len(order))
            self._pieces[size] = (
                known,
                firsts,
                piece[more][order],
                flags,
                int(shortest.min()),
                int(longest.max()),
            )

    def among(self, texts: Sequence[str] | pl.Series) -> pl.DataFrame:
        """Return the near pairs of a sentence and a folded text.

        The columns are their numbers from 0, in order, and their `edits`.
        """
        # By length, so that texts for pieces of a size are next to each other.
        texts = pl.Series(texts, dtype=pl.String)
        lengths = texts.str.len_chars().to_numpy()
        order = np.argsort(lengths, kind="stable")
        parts = np.split(
            order,
            np.flatnonzero(np.diff(np.cumsum(lengths[order], dtype=np.int64) // _CHARACTERS)) + 1,
        )
        found = np.concatenate([self._among(texts.gather(part), part) for part in parts], axis=1)
        return pl.DataFrame(dict(zip(NEAR, found, strict=True))).cast(NEAR).sort("sentence", "text")

    def _among(self, texts: pl.Series, numbers: Integers) -> Integers:  # noqa: PLR0914
        codes, starts, lengths = _codes(texts)
        candidates = [np.empty(0, dtype=np.int64), *self._candidates(codes, starts, lengths)]
        pairs = np.sort(np.concatenate(candidates))  # np.unique takes five times as long
        sentence, text = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], max(len(texts), 1))
        allowed = np.minimum(self._lengths[sentence], lengths[text]) // _PART
        # An edit changes the counts of letters by two at most.
        own, place = np.unique(text, return_inverse=True)
        letters = np.abs(
            self._letters[sentence] - _letters(codes, starts[own], lengths[own])[place]
        ).sum(axis=1)
        some = np.flatnonzero(letters <= 2 * allowed)
        sentence = sentence[some]
        text = text[some]
        allowed = allowed[some]
        left = self.sentences.gather(sentence).to_list()
        right = texts.gather(text).to_list()
        most = int(allowed.max(initial=0))  # a cutoff is much faster
        edits = cpdist(
            left, right, scorer=Levenshtein.distance, score_cutoff=most, dtype=np.int64, workers=1
        )
        near = (edits > 0) & (edits <= allowed)
        return np.stack([sentence[near], numbers[text[near]], edits[near]])

    def _candidates(self, codes: Hashes, starts: Integers, lengths: Integers) -> Iterator[Integers]:  # noqa: PLR0914
        """Yield pairs that share a piece at a possible position, with duplicates.

        A pair is the number sentence * texts + text. Texts are sorted by length.
        """
        sums, powers = _sums(codes)
        known_lengths, counts = np.unique(lengths, return_counts=True)
        classes = _length_class(known_lengths)
        own = zip(classes, _place_width(classes), known_lengths, counts, strict=True)
        of_length = (
            np.tile(_place_key(group, np.arange(length + 1) // width), count)
            for group, width, length, count in own
        )
        keys = np.concatenate([np.empty(0, dtype=np.uint64), *of_length])
        for size, (known, firsts, pieces, flags, shortest, longest) in self._pieces.items():
            low = np.searchsorted(lengths, shortest)
            high = np.searchsorted(lengths, longest, "right")
            if low == high:
                continue
            begin = int(starts[low])
            end = int(starts[high - 1] + lengths[high - 1]) - size + 1
            hashes = (sums[begin + size : end + size] - sums[begin:end]) * powers[begin:end] + keys[
                begin:end
            ]
            place = np.flatnonzero(flags[_flag(hashes, len(flags))])
            place = place[flags[_flag(hashes[place] * _FACTOR, len(flags))]]
            at = np.searchsorted(known[:-1], hashes[place])
            is_known = known[at] == hashes[place]
            at = at[is_known]
            place = place[is_known] + begin
            first = firsts[at]
            number = firsts[at + 1] - firsts[at]
            text = np.searchsorted(starts, place, side="right") - 1
            before = place - starts[text]
            # A common phrase is a piece of many sentences, so pairs are made a bounded number at a
            # time.
            bounds = np.flatnonzero(np.diff(np.cumsum(number) // _PAIRS)) + 1
            for part in np.split(np.arange(len(place)), bounds):
                some, step = _expanded(number[part])
                some, piece = part[some], pieces[first[part][some] + step]
                possible = np.abs(before[some] - self._start[piece]) <= self._number[piece]
                some = some[possible]
                piece = piece[possible]
                after = lengths[text[some]] - before[some]
                possible = np.abs(after - self._rest[piece]) <= self._spare[piece]
                yield self._sentence[piece[possible]] * len(lengths) + text[some[possible]]


def _length_class(lengths: Integers) -> Integers:
    """Return the class of each length; the lengths of a class differ by a tenth at most."""
    classes: NDArray[np.float64] = np.log(np.maximum(lengths, 1)) / np.log(1 + 1 / _PART)
    return classes.astype(np.int64)


def _place_width(classes: Integers) -> Integers:
    """Return how many characters of texts in a class of lengths count as one place.

    They are a quarter of the shortest.
    """
    width: NDArray[np.float64] = (1 + 1 / _PART) ** classes / 8
    return np.maximum(width.astype(np.int64), 1)


def _place_key(classes: Integers, places: Integers) -> Hashes:
    """Return what is added to the hash of a piece.

    It makes hashes equal only for the same class and place.
    """
    return (classes << 32 | places).astype(np.uint64) * _PLACE_FACTOR


def _sums(codes: Hashes) -> tuple[Hashes, Hashes]:
    """Return sums and powers, modulo 2^64.

    ``(sums[i + size] - sums[i]) * powers[i]`` is a hash of `size` characters from `i`.
    """
    inverse, powers = _powers(max(len(codes), _CHARACTERS).bit_length())
    return np.concatenate([[np.uint64(0)], np.cumsum(codes * inverse[: len(codes)])]), powers


@lru_cache(maxsize=2)
def _powers(bits: int) -> Hashes:
    """Return 2^bits powers of the inverse of the factor, and of the factor, as two rows."""
    factors = np.array([[pow(int(_FACTOR), -1, 2**64)], [_FACTOR]], dtype=np.uint64)
    return np.cumprod(np.repeat(factors, 1 << bits, axis=1), axis=1, dtype=np.uint64)


def _letters(codes: Hashes, starts: Integers, lengths: Integers) -> NDArray[np.int32]:
    """Return how often each of 32 classes of characters occurs in each text."""
    owner, step = _expanded(lengths)
    letters = (codes[starts[owner] + step] % np.uint64(_CLASSES)).astype(np.int64)
    counts = np.bincount(owner * _CLASSES + letters, minlength=len(lengths) * _CLASSES)
    return counts.astype(np.int32).reshape(len(lengths), _CLASSES)


def _codes(texts: pl.Series) -> tuple[Hashes, Integers, Integers]:
    """Return the code points of all texts, and the starts and lengths of the texts.

    Each text is followed by a line end, which no sentence contains.
    """
    lengths = texts.str.len_chars().to_numpy().astype(np.int64)
    ended = (texts.str.join("\n").item() + "\n" * bool(len(texts))).encode("utf-32-le")
    return (
        np.frombuffer(ended, dtype="<u4").astype(np.uint64),
        np.cumsum(lengths + 1) - lengths - 1,
        lengths,
    )


def _flag(hashes: Hashes, flags: int) -> Integers:
    """Return the number of the flag of each hash, of 2^n flags.

    The flags rule out most hashes that no piece has.
    """
    return (hashes * _FACTOR >> np.uint64(65 - flags.bit_length())).view(np.int64)


def _expanded(numbers: Integers) -> tuple[Integers, Integers]:
    """Return each place as often as its number says, and a count from 0 of its repetitions.

    For example, 2, 1 gives 0, 0, 1 and 0, 1, 0.
    """
    return np.repeat(np.arange(len(numbers)), numbers), _counted(numbers)


def _counted(numbers: Integers) -> Integers:
    """Count from 0 up to each number in turn: 2, 3 gives 0, 1, 0, 1, 2."""
    ends = np.cumsum(numbers)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - numbers, numbers)
