"""Find near-duplicate sentences, folded by `sentences`, without comparing all pairs.

None is missed, unlike with MinHash.

*Near*: edits of at most a tenth, or less, of the shorter length. Of e + 1 disjoint pieces, e edits
leave one intact (Pass-Join, VLDB 2011); pieces are found by their hash, the length of the text and
their place in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]

NEAR = pl.Schema({"sentence": pl.UInt32, "text": pl.UInt32, "edits": pl.Int64})

#: By default, texts are near with at most one edit in so many characters.
TENTH = 10
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits everywhere: neighbors spread over all 64
_PLACE_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)
# Characters of texts, and candidate pairs, that are processed together: some 25 and 50 MB.
_CHARACTERS = 1 << 18
_PAIRS = 1 << 20
_CLASSES = 32

# Each character is its own normal form C, and the lower case of its upper case is its lower case.
_PLAIN = "\\x00-\\x7FÀ-ÖØ-ÞàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿĀ-įĲ-ňŊ-ž"

_MARKS = ".,;:?!"


def sentences(texts: pl.Expr) -> pl.Expr:
    """Fold texts: they are the same sentence if their folded forms are equal, for all steps.

    A folded text is null where nothing is left.

    Case, punctuation, symbols, the number of blanks, the Unicode normal form and format characters
    (joiners, soft hyphens) are ignored. Combining marks are kept: vowel signs (Hindi, Thai, Arabic)
    and accents make other words.
    """
    return texts.map_batches(_folded, return_dtype=pl.String, is_elementwise=True)


def _folded(texts: pl.Series) -> pl.Series:
    """Return the folded texts; see `sentences`."""
    text = pl.col("text")
    is_odd = texts.str.contains(f"[^{_PLAIN}]").fill_null(value=False)
    # Upper and then lower case folds ß and the two small sigmas; it decomposes some letters.
    composed = text.str.replace_all(r"\p{Cf}+", "").str.normalize("NFC")
    lower = composed.str.to_uppercase().str.to_lowercase().str.normalize("NFC")
    odd = texts.filter(is_odd).alias("text").to_frame().select(lower)["text"]
    # One pass is six times as fast, and most texts are plain.
    plain = texts.alias("text").to_frame().select(text.str.to_lowercase())["text"]
    folded = plain
    if len(odd):
        folded = plain.scatter(is_odd.arg_true(), odd)
    # Most marks are these, and a pass for them alone takes a tenth of the time.
    usual = text.str.replace_all(f"[{_MARKS}] ", " ").str.strip_chars(f"{_MARKS} ")
    folded = folded.alias("text").to_frame().select(usual)["text"]
    words = text.str.replace_all(r"[^\p{L}\p{M}\p{N}]+", " ").str.strip_chars(" ")
    # Replacing takes ten times as long as the check whether there is anything but letters and
    # single blanks.
    has_marks = folded.str.contains(r"[^\p{L}\p{M}\p{N} ]|  |^ | $|^$").fill_null(value=False)
    stripped = (
        folded.filter(has_marks)
        .alias("text")
        .to_frame()
        .select(pl.when(words != "").then(words))["text"]
    )
    if len(stripped):
        folded = folded.scatter(has_marks.arg_true(), stripped)
    return folded.alias(texts.name)


@dataclass(frozen=True)
class _Texts:
    """The characters of texts, one text after the other, each followed by a line end.

    Attributes:
        codes: the code point of each character.
        starts: for each text, the place of its first character.
        lengths: characters of each text.
    """

    codes: Hashes
    starts: Integers
    lengths: Integers


@dataclass(frozen=True)
class _Pieces:
    """The pieces of all sentences that are long enough to allow an edit.

    A sentence that allows e edits is divided into e + 1 pieces, so that at least one is intact in a
    near text. A near text is searched for a piece only where at most as many edits as the piece's
    number lie before it, and at most `edits_after` behind its start: with more edits on one side,
    the text has another intact piece, which finds it.

    Attributes:
        sentence: number of the sentence.
        number: of the piece in its sentence, from 0.
        start: its first character in the sentence.
        size: its characters.
        rest: characters of the sentence from its first one on.
        edits_after: edits that may be behind the piece.
    """

    sentence: Integers
    number: Integers
    start: Integers
    size: Integers
    rest: Integers
    edits_after: Integers

    def can_begin(self, piece: Integers, characters_before: Integers) -> Flags:
        """Return which pieces a near text can have behind so many of its characters."""
        is_possible: Flags = np.abs(characters_before - self.start[piece]) <= self.number[piece]
        return is_possible

    def can_end(self, piece: Integers, rest: Integers) -> Flags:
        """Return which pieces a near text can have where the rest of it has so many characters."""
        is_possible: Flags = np.abs(rest - self.rest[piece]) <= self.edits_after[piece]
        return is_possible


@dataclass(frozen=True)
class _PieceTable:
    """Hash table of the pieces of one size.

    The hash is of the characters of a piece, the class of the length of a text, and the place in
    it. A piece has an entry for each class and place at which a near text may have it.

    Attributes:
        size: characters of a piece.
        hashes: of the entries, each once, in order.
        first_entry: for each hash, the first of its entries, and at the end their number.
        pieces: of the entries, in the order of their hashes.
        flags: a Bloom filter of the hashes.
        shortest: least characters of a near text.
        longest: most characters of a near text.
    """

    size: int
    hashes: Hashes
    first_entry: Integers
    pieces: Integers
    flags: Flags
    shortest: int
    longest: int

    def places_of(self, hashes: Hashes) -> tuple[Integers, Integers]:
        """Return which of some hashes are in the table, and their numbers in it."""
        place = np.flatnonzero(self.flags[_flag(hashes, len(self.flags))])
        place = place[self.flags[_flag(hashes[place] * _FACTOR, len(self.flags))]]
        number = np.searchsorted(self.hashes[:-1], hashes[place])
        is_equal = self.hashes[number] == hashes[place]
        return place[is_equal], number[is_equal]


class NearIndex:
    """Index of folded sentences, each once and without nulls, to search in any number of texts."""

    def __init__(self, sentences: Sequence[str] | pl.Series, *, part: int = TENTH) -> None:
        """Index the pieces of folded sentences.

        Texts are near with at most one edit in `part` characters. Fewer edits are found faster.
        """
        self.sentences = pl.Series(sentences, dtype=pl.String)
        self._part = part
        texts = _texts(self.sentences)
        self._lengths = texts.lengths
        self._letters = _letters(texts)
        self._pieces = _divided(self._lengths, part)
        sums, powers = _sums(texts.codes)
        self._tables = []
        for size in np.unique(self._pieces.size).tolist():
            of_size = np.flatnonzero(self._pieces.size == size)
            first = texts.starts[self._pieces.sentence[of_size]] + self._pieces.start[of_size]
            hashes = (sums[first + size] - sums[first]) * powers[first]
            reach = _reach(self._lengths[self._pieces.sentence[of_size]], part)
            self._tables.append(_piece_table(size, self._pieces, of_size, hashes, reach))

    def among(self, texts: Sequence[str] | pl.Series) -> pl.DataFrame:
        """Return the near pairs of a sentence and a folded text.

        The columns are their numbers from 0, in order, and their `edits`.
        """
        texts = pl.Series(texts, dtype=pl.String)
        # By length, so that texts for pieces of a size are next to each other.
        lengths = texts.str.len_chars().to_numpy()
        by_length = np.argsort(lengths, kind="stable")
        chunk = np.cumsum(lengths[by_length], dtype=np.int64) // _CHARACTERS
        chunks = np.split(by_length, np.flatnonzero(np.diff(chunk)) + 1)
        near = pl.concat([self._among(texts.gather(numbers), numbers) for numbers in chunks])
        return near.sort("sentence", "text")

    def _among(self, texts: pl.Series, numbers: Integers) -> pl.DataFrame:
        """Return the near pairs of sentences and some texts, which have these numbers."""
        characters = _texts(texts)
        candidates = [np.empty(0, dtype=np.int64), *self._candidates(characters)]
        pairs = np.sort(np.concatenate(candidates))  # np.unique takes five times as long
        different_pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        sentence, text = np.divmod(different_pairs, max(len(texts), 1))
        allowed = np.minimum(self._lengths[sentence], characters.lengths[text]) // self._part
        is_possible = self._letter_differences(characters, sentence, text) <= 2 * allowed
        sentence = sentence[is_possible]
        text = text[is_possible]
        allowed = allowed[is_possible]
        edits = cpdist(
            self.sentences.gather(sentence).to_list(),
            texts.gather(text).to_list(),
            scorer=Levenshtein.distance,
            score_cutoff=int(allowed.max(initial=0)),  # which is much faster
            dtype=np.int64,
            workers=1,
        )
        is_near = (edits > 0) & (edits <= allowed)
        columns = (sentence[is_near], numbers[text[is_near]], edits[is_near])
        return pl.DataFrame(dict(zip(NEAR, columns, strict=True))).cast(NEAR)

    def _letter_differences(self, texts: _Texts, sentence: Integers, text: Integers) -> Integers:
        """Return for pairs by how much the counts of letters differ, in all.

        An edit changes them by two at most.
        """
        different_texts, place = np.unique(text, return_inverse=True)
        letters = _letters(
            _Texts(texts.codes, texts.starts[different_texts], texts.lengths[different_texts])
        )
        differences: Integers = np.abs(self._letters[sentence] - letters[place]).sum(axis=1)
        return differences

    def _candidates(self, texts: _Texts) -> Iterator[Integers]:
        """Yield pairs that share a piece at a possible position, with duplicates.

        A pair is the number sentence * texts + text. Texts are sorted by length.
        """
        sums, powers = _sums(texts.codes)
        place_keys = _place_keys(texts.lengths)
        for table in self._tables:
            first_text = np.searchsorted(texts.lengths, table.shortest)
            end_text = np.searchsorted(texts.lengths, table.longest, "right")
            if first_text == end_text:
                continue
            last_character = texts.starts[end_text - 1] + texts.lengths[end_text - 1]
            begin = int(texts.starts[first_text])
            end = int(last_character) - table.size + 1
            window_sums = sums[begin + table.size : end + table.size] - sums[begin:end]
            hashes = window_sums * powers[begin:end] + place_keys[begin:end]
            place, number = table.places_of(hashes)
            yield from self._pairs(texts, table, place + begin, number)

    def _pairs(
        self, texts: _Texts, table: _PieceTable, place: Integers, number: Integers
    ) -> Iterator[Integers]:
        """Yield the pairs of texts that have pieces of a table where a near text can have them.

        `place` are places of characters at which the pieces with the hash `number` begin.
        """
        first_entry = table.first_entry[number]
        entries = table.first_entry[number + 1] - first_entry
        text = np.searchsorted(texts.starts, place, side="right") - 1
        characters_before = place - texts.starts[text]
        rest = texts.lengths[text] - characters_before
        # A common phrase is a piece of many sentences, so pairs are made a bounded number at a
        # time.
        bounds = np.flatnonzero(np.diff(np.cumsum(entries) // _PAIRS)) + 1
        for part in np.split(np.arange(len(place)), bounds):
            repeated, step = _expanded(entries[part])
            window = part[repeated]
            piece = table.pieces[first_entry[window] + step]
            can_begin = self._pieces.can_begin(piece, characters_before[window])
            window = window[can_begin]
            piece = piece[can_begin]
            can_end = self._pieces.can_end(piece, rest[window])
            sentence = self._pieces.sentence[piece[can_end]]
            yield sentence * len(texts.lengths) + text[window[can_end]]


def _divided(lengths: Integers, part: int) -> _Pieces:
    """Divide each sentence into one piece more than the edits that its length allows."""
    edits = lengths // part
    # Shorter sentences allow no edit, so that they can only be equal.
    can_change = np.flatnonzero(edits)
    counts = edits[can_change] + 1
    sentence = np.repeat(can_change, counts)
    number = _counted(counts)
    length = lengths[sentence]
    count = np.repeat(counts, counts)
    start = number * length // count
    return _Pieces(sentence, number, start, length // count, length - start, count - 1 - number)


class _Reach(NamedTuple):
    """For each piece, the least and the most characters of a text that is near its sentence."""

    shortest: Integers
    longest: Integers


def _reach(lengths: Integers, part: int) -> _Reach:
    """Return the reach of sentences of these lengths, with an edit in `part` characters at most."""
    return _Reach(lengths * part // (part + 1), lengths + lengths // part)


def _piece_table(
    size: int, pieces: _Pieces, of_size: Integers, hashes: Hashes, reach: _Reach
) -> _PieceTable:
    """Return the table of the pieces `of_size`, whose characters have these hashes."""
    entries = _entries(pieces, of_size, _length_class(reach.shortest), _length_class(reach.longest))
    entry_hashes = hashes[entries.number] + entries.place_key
    order = np.argsort(entry_hashes, kind="stable")
    different_hashes, first_entry = np.unique(entry_hashes[order], return_index=True)
    return _PieceTable(
        size,
        different_hashes,
        np.append(first_entry, len(order)),
        of_size[entries.number[order]],
        _bloom_filter(different_hashes),
        int(reach.shortest.min()),
        int(reach.longest.max()),
    )


@dataclass(frozen=True)
class _Entries:
    """An entry for each class of lengths and place at which a near text may have some pieces.

    Attributes:
        number: which of these pieces it is.
        place_key: what is added to the hash of its characters.
    """

    number: Integers
    place_key: Hashes


def _entries(
    pieces: _Pieces, of_size: Integers, first_class: Integers, last_class: Integers
) -> _Entries:
    """Return the entries of the pieces `of_size`, whose near texts are of classes in a range."""
    number, step = _expanded(last_class - first_class + 1)
    length_class = first_class[number] + step
    width = _place_width(length_class)
    start = pieces.start[of_size[number]]
    shift = pieces.number[of_size[number]]
    first_place = np.maximum(start - shift, 0) // width
    last_place = (start + shift) // width
    by_place, step = _expanded(last_place - first_place + 1)
    place_key = _place_key(length_class[by_place], first_place[by_place] + step)
    return _Entries(number[by_place], place_key)


def _bloom_filter(hashes: Hashes) -> Flags:
    """Return flags, two of them set for each hash: one in eight at most, and up to 16 MB."""
    flags = np.zeros(1 << min(24, len(hashes).bit_length() + 4), dtype=np.bool_)
    flags[_flag(hashes, len(flags))] = True
    flags[_flag(hashes * _FACTOR, len(flags))] = True
    return flags


def _place_keys(lengths: Integers) -> Hashes:
    """Return the key of each character of texts of these lengths, which are in order."""
    different_lengths, counts = np.unique(lengths, return_counts=True)
    classes = _length_class(different_lengths)
    widths = _place_width(classes)
    keys = [np.empty(0, dtype=np.uint64)]
    for length_class, width, length, count in zip(
        classes, widths, different_lengths, counts, strict=True
    ):
        keys_of_text = _place_key(length_class, np.arange(length + 1) // width)
        keys.append(np.tile(keys_of_text, count))
    return np.concatenate(keys)


def _length_class(lengths: Integers) -> Integers:
    """Return the class of each length; the lengths of a class differ by a tenth at most."""
    classes: NDArray[np.float64] = np.log(np.maximum(lengths, 1)) / np.log(1 + 1 / TENTH)
    return classes.astype(np.int64)


def _place_width(classes: Integers) -> Integers:
    """Return how many characters of texts in a class of lengths count as one place.

    They are a quarter of the shortest.
    """
    width: NDArray[np.float64] = (1 + 1 / TENTH) ** classes / 8
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


def _letters(texts: _Texts) -> NDArray[np.int32]:
    """Return how often each of 32 classes of characters occurs in each text."""
    owner, step = _expanded(texts.lengths)
    letters = (texts.codes[texts.starts[owner] + step] % np.uint64(_CLASSES)).astype(np.int64)
    count = len(texts.lengths)
    counts = np.bincount(owner * _CLASSES + letters, minlength=count * _CLASSES)
    return counts.astype(np.int32).reshape(count, _CLASSES)


def _texts(texts: pl.Series) -> _Texts:
    """Return the characters of texts, none of which contains a line end."""
    lengths = texts.str.len_chars().to_numpy().astype(np.int64)
    joined = texts.str.join("\n").item()
    if len(texts):
        joined += "\n"
    codes = np.frombuffer(joined.encode("utf-32-le"), dtype="<u4").astype(np.uint64)
    return _Texts(codes, np.cumsum(lengths + 1) - lengths - 1, lengths)


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
