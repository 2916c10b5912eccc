"""Formatting: words that are equal when they are read aloud; see docs/hypotheses.md.

Examples are ``25 %`` and ``twenty-five percent``.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from itertools import chain, count, groupby, islice, pairwise, product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from rapidfuzz.distance import Levenshtein

from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import read_all
from nbaudio.tables.dataframes import Column, as_series
from nbaudio.text.edit_distance import edit_counts, encode_words, tidy_blanks, words

#: One way to read a word: the words that may be said, one after the other.
Reading = tuple[frozenset[str], ...]

_TABLE = Path(__file__).with_name("formatting.tsv")
_MOST_TABLE_BYTES = 1 << 20
_LIGATURES = str.maketrans({"œ": "oe", "æ": "ae", "\u2044": "/"})
_SYMBOLS = frozenset("%‰€$£¥&+@§°/=")
_NUMBER = re.compile(
    r"(?P<before>[€$£¥]?)(?P<number>\d+(?:[.,]\d+)*)(?:[.]|st|nd|rd|th)?(?P<after>%|‰|°|€|\$|£|¥)?"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]?\d{3})+")
_BLANK_THOUSANDS = re.compile(r"\d{1,3}( \d{3})+")
_SEPARATED = re.compile(r"\d+(?:[./:–-]\d+)+\.?")
_UNCOVERED = re.compile(r"\d|[½¼¾⅓⅔]")
_MAYBE_UNCOVERED = r"[\d½¼¾⅓⅔]|\p{L}\."  # texts that may have any, searched fast
_ABBREVIATION = re.compile(r"[^\W\d_]{1,4}\.")
_MOST_DIGITS = 12
_MOST_READINGS = 24
_BETWEEN = 3  # equal words between two differences that are compared together
# Costs of a word too many and of another word: of alignments with as few edits, the one with more
# equal words.
_EDIT = 1000
_OTHER = 1001


class Group(NamedTuple):
    """Words that correspond.

    It has their numbers in both texts, the words as they are read, and how many of those differ.
    """

    numbers: tuple[tuple[int, ...], tuple[int, ...]]
    said: tuple[tuple[str, ...], tuple[str, ...]]
    edits: int


class Node(NamedTuple):
    """A place in the readings of some words, and the edges into it.

    The place is before a word, or after some steps of a reading of it.
    """

    word: int
    step: int
    # Number of the node before, and what may be said from there
    edges: list[tuple[int, frozenset[str]]]


class Formatting:
    """Rules of a language, such as ``hr`` or ``en``: which words are read alike.

    Without a language, there are only the rules of all languages.

    `table` is a file of tab-separated lines `language`, `written`, `spoken` that extend
    ``nbaudio/text/formatting.tsv``: alternatives are separated by ``|``, the language ``*`` is any.
    Languages that num2words does not know read numbers by rows for 0 to 20, the tens, hundreds,
    1000 and so on; `has_numbers` is whether there are any. Raises InputError for an unreadable
    table. Of several languages, such as ``hr,en``, the first counts.

    Examples:
        >>> Formatting("hr").edits("25 % od 5. članka", "Dvadeset i pet posto od petog članka.")
        0
        >>> Formatting("en").edits("chapter 21", "chapter twenty two")
        1
    """

    def __init__(self, language: str | None = None, table: str | Path | None = None) -> None:
        self.language = language.split(",")[0].strip() if language else None
        self._numerals = False  # whether num2words reads numbers
        self._endings: dict[str, list[str]] = {}
        self._spoken: dict[str, list[Reading]] = {}
        for path in (_TABLE, *([Path(table)] if table else [])):
            self._load(path)
        self.has_numbers = "1000" in self._spoken
        if self.language is not None and not self.has_numbers:
            from num2words import CONVERTER_CLASSES

            self._numerals = self.has_numbers = self.language in CONVERTER_CLASSES
        self._longest = max((len(written.split()) for written in self._spoken), default=1)
        self._key = cache(self._read)
        # Of the words that have others than as they are written
        self._readings: dict[str, list[Reading]] = {}
        # Texts are compared with several others, and twice: how much they differ, and where.
        self._split = lru_cache(maxsize=1 << 15)(self._split_text)
        self._aligned = lru_cache(maxsize=1 << 14)(
            lambda left, right: align(words(left), words(right), self)
        )

    def _load(self, path: Path) -> None:
        try:
            lines = read_all(path, most=_MOST_TABLE_BYTES).decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: cannot be read as a table of formatting ({error})"
            ) from error
        for number, line in enumerate(lines, 1):
            if (
                not line.strip()
                or line.startswith("#")
                or (number == 1 and line.startswith("language\t"))
            ):
                continue
            language, *rest = line.split("\t")
            if len(rest) != 2 or not all(map(str.strip, rest)):
                raise InputError(
                    f"{path}: line {number}: expected language, written and spoken, "
                    "separated by tabs"
                )
            written = unicodedata.normalize("NFKC", rest[0]).casefold().strip()
            spoken = rest[1]
            if language not in ("*", self.language):
                continue
            if written.startswith("@"):
                self._endings[written] = spoken.split()
                continue
            readings = [
                tuple(map(self._inflected, alternative.split()))
                for alternative in spoken.split("|")
            ]
            self._spoken.setdefault(written, []).extend(_merged(readings))

    def _inflected(self, word: str) -> frozenset[str]:
        stem, at, name = word.partition("@")
        return frozenset(fold(stem + ending) for ending in self._endings.get(at + name, [""]))

    def alternatives(self, written: str) -> list[Reading]:
        """Return how a word may be read besides as it is written; often empty.

        Several words with blanks between them may be given.
        """
        plain = (
            unicodedata.normalize("NFKC", written)
            .casefold()
            .translate(_LIGATURES)
            .strip("\"'()[]{}„“”‘’«»,;:!?…")
        )
        found = [
            *self._spoken.get(plain, []),
            *(self._spoken.get(plain.rstrip("."), []) if plain.endswith(".") else []),
        ]
        if plain[:1].isdigit() or plain[1:2].isdigit():
            found += self._read_number(plain.replace(" ", ""))
        elif len(parts := [fold(part) for part in re.split(r"[-‐‑–/]", plain) if fold(part)]) > 1:
            found.append(tuple(frozenset([part]) for part in parts))
        return found[:_MOST_READINGS]

    def _read_number(self, written: str) -> list[Reading]:
        if match := _NUMBER.fullmatch(written):
            symbol = match["after"] or match["before"]
            units = self._spoken.get(symbol, []) if symbol else [()]
            if found := [
                (*number, *unit) for number, unit in product(self._numbers(match["number"]), units)
            ]:
                return found
        if _SEPARATED.fullmatch(written) and written not in self._spoken:  # dates and times of day
            each = [
                self._cardinal(int(part)) for part in re.findall(r"\d+", written) if len(part) <= 4
            ]
            return [tuple(chain(*parts)) for parts in islice(product(*each), _MOST_READINGS)]
        return []

    def _numbers(self, written: str) -> list[Reading]:
        digits = re.sub(r"[.,]", "", written)
        if len(digits) > _MOST_DIGITS:
            return []
        found: list[Reading] = []
        if digits == written or _THOUSANDS.fullmatch(written):
            found += self._cardinal(int(digits))
        if digits == written and len(digits) > 1:
            found += [
                tuple(chain(*parts))
                for parts in product(*(self._cardinal(int(digit))[:1] for digit in digits))
            ]
        whole, _, fraction = re.sub(r"[.,](?=\d+$)", " ", written).partition(" ")
        if fraction and whole.isdigit():
            if self._numerals:
                found.append(self._say(Decimal(f"{whole}.{fraction}"), "cardinal"))
            sides = (self._cardinal(int(side))[:1] for side in (whole, fraction))
            found += [
                (*first, *point, *last)
                for first, last in product(*sides)
                for point in self._spoken.get("decimal", [])
            ]
        return [reading for reading in found if reading]

    def _cardinal(self, number: int) -> list[Reading]:
        """Return the readings of a whole number, also as an ordinal and as a year."""
        link = [word for row in self._spoken.get("link", []) for word in row]
        if self._numerals:
            kinds = ("cardinal", "ordinal", *(["year"] if 1000 < number < 2100 else []))
            said = [reading for kind in kinds if (reading := self._say(number, kind))]
            return list(
                dict.fromkeys(
                    [*said, *(tuple(word for word in one if word not in link) for one in said)]
                )
            )
        if (parts := self._parts(number)) is None:
            return []
        before = tuple(word for part in parts[:-1] for word in self._spoken[str(part)][0])
        ends = _merged([*self._spoken[str(parts[-1])], *self._spoken.get(f"{parts[-1]}.", [])])
        found = [
            (*before, *linked, *end)
            for end in ends
            for linked in ((), *([(word,) for word in link] if before else []))
        ]
        # One thousand is also a thousand.
        return found + (
            [reading[1:] for reading in found] if parts[0] == 1 and len(parts) > 1 else []
        )

    def _parts(self, number: int) -> list[int] | None:
        """Return the numbers of the table that a number is made of.

        The result is None if they are not in the table.
        """
        if str(number) in self._spoken and number < 1000:
            return [number]
        for scale in (10**9, 10**6, 1000):
            if number >= scale:
                count, rest = divmod(number, scale)
                many = self._parts(count)
                few = self._parts(rest) if rest else []
                return (
                    None
                    if many is None or few is None or str(scale) not in self._spoken
                    else [*many, scale, *few]
                )
        for scale in (100, 10):
            if number >= scale and str(number // scale * scale) in self._spoken:
                few = self._parts(number % scale)
                return None if few is None else [number // scale * scale, *few]
        return None

    def _say(self, number: int | Decimal, kind: str) -> Reading:
        from num2words import num2words

        try:
            said = str(num2words(number, lang=self.language, to=kind))
        except Exception:  # noqa: BLE001 - whatever a language raises for a number that it does not know
            return ()
        return tuple(frozenset([key]) for word in re.split(r"[\s-]+", said) if (key := fold(word)))

    # comparison

    def _read(self, word: str) -> str:
        """Return what of a word is compared, and keep its readings."""
        if readings := self.alternatives(word):
            self._readings[word] = readings
        return fold(word)

    def keys(self, written: Sequence[str]) -> list[str]:
        """Return what is compared of each word."""
        return [*map(self._key, written)]

    def has_readings(self, written: Iterable[str]) -> bool:
        """Return whether any of the words may be read besides as it is written.

        `keys` must have been called with the words before.
        """
        return not self._readings.keys().isdisjoint(written)

    def graph(self, written: Sequence[str]) -> list[Node]:
        """Return the ways to read words, each or a few together, as a graph.

        Its nodes are in order from its start to its end.
        """
        edges: dict[tuple[int, int], list[tuple[tuple[int, int], frozenset[str]]]] = {(0, 0): []}
        for start, key in enumerate(self.keys(written)):
            readings = [
                (start + 1, reading)
                for reading in ((frozenset([key]),), *self._readings.get(written[start], []))
            ]
            for stop in range(start + 2, min(start + self._longest, len(written)) + 1):
                joined = " ".join(written[start:stop])
                if joined.casefold() in self._spoken or _BLANK_THOUSANDS.fullmatch(joined):
                    readings += [(stop, reading) for reading in self.alternatives(joined)]
            steps = count(1)
            for stop, reading in readings:
                places = [(start, 0), *((start, next(steps)) for _ in reading[1:]), (stop, 0)]
                for (before, after), said in zip(pairwise(places), reading, strict=True):
                    edges.setdefault(after, []).append((before, said))
        nodes = {place: number for number, place in enumerate(sorted(edges))}
        return [
            Node(*place, [(nodes[before], said) for before, said in edges[place]])
            for place in nodes
        ]

    def differences(self, left: str, right: str) -> set[tuple[int, int, tuple[str, ...]]]:
        """Return where other words are read.

        A place is the first and one past the last word of `left`, and the words of `right` as read.
        """
        found = set[tuple[int, int, tuple[str, ...]]]()
        at = 0
        (one, _, has_readings) = self._split(left)
        (other, _, has_others) = self._split(right)
        if not (has_readings or has_others) and all(one) and all(other):  # fast
            for op in Levenshtein.editops(one, other):
                at = op.src_pos
                found.add(
                    (
                        at,
                        at + (op.tag != "insert"),
                        () if op.tag == "delete" else (other[op.dest_pos],),
                    )
                )
            return found
        for group in self._aligned(left, right):
            numbers = group.numbers[0]
            start, stop = (numbers[0], numbers[-1] + 1) if numbers else (at, at)
            if group.edits:
                found.add((start, stop, group.said[1]))
            at = stop
        return found

    def _split_text(self, text: str) -> tuple[list[str], str, bool]:
        """Return what is compared of a text, and whether any word has readings.

        What is compared is given for each word, then joined as a text.
        """
        written = words(text)
        keys = self.keys(written)
        return keys, " ".join(filter(None, keys)), self.has_readings(written)

    def edits(self, left: str, right: str) -> int:
        """Return how many words differ, formatting aside."""
        return sum(group.edits for group in self._aligned(left, right))

    def spoken_forms(self, left: str, right: str) -> tuple[str, str]:
        """Return two texts as they are read, where they agree best.

        The results are equal if the texts differ in formatting only.
        """
        if left == right:
            return left, right
        (_, one, has_readings) = self._split(left)
        (_, other, has_others) = self._split(right)
        if one == other or not (has_readings or has_others):
            return one, other
        groups = self._aligned(left, right)
        one, other = (
            " ".join(word for group in groups for word in group.said[side]) for side in (0, 1)
        )
        return one, other

    def uncovered(self, texts: Column) -> Counter[str]:
        """Count words that should be covered by a rule, but that no rule reads.

        These are words with digits or fractions, and abbreviations within a text.
        """
        column = as_series(texts).cast(pl.String)
        column = column.filter(column.str.contains(_MAYBE_UNCOVERED).fill_null(value=False))
        codes, lengths, distinct = encode_words(tidy_blanks(column))
        last = (np.cumsum(lengths) - 1)[lengths > 0]
        number = np.bincount(codes, minlength=len(distinct))
        within = number - np.bincount(codes[last], minlength=len(distinct))
        found = Counter[str]()
        for word, total, inner in zip(
            distinct.str.head(-1), number.tolist(), within.tolist(), strict=True
        ):
            times = (_UNCOVERED.search(word) is not None) * total + (
                _ABBREVIATION.fullmatch(word) is not None
            ) * inner
            if times and not self.alternatives(word):
                found[word] = times
        return found


def spoken_counts(
    text: Column, asr_text: Column, formatting: Formatting, plain: pl.DataFrame
) -> pl.DataFrame:
    """Return `edit_counts` of two columns with formatting aside.

    There are fewer edits than the `plain` ones, over the same lengths.
    """
    pairs = pl.DataFrame(
        {"text": as_series(text), "asr_text": as_series(asr_text)}
    ).with_row_index()
    differ = pairs.filter(pl.col("text") != pl.col("asr_text")).iter_rows()
    other = [
        (row, *form) for row, a, b in differ if (form := formatting.spoken_forms(a, b)) != (a, b)
    ]
    if not other:
        return plain
    rows, *said = zip(*other, strict=True)
    counts = edit_counts(*(pl.Series(side, dtype=pl.String) for side in said))
    fewest = {
        name: pl.min_horizontal(plain[name].gather(list(rows)), counts[name])
        for name in ("edits", "word_edits", "inner_edits")
    }
    return plain.with_columns(
        plain[column.name].scatter(rows, column) for column in counts.select(**fewest)
    )


def fold(word: str) -> str:
    """Return what of a word is compared.

    It is composed and in lower case, without ligatures, punctuation and hyphens.
    """
    plain = unicodedata.normalize("NFKC", word).casefold().translate(_LIGATURES)
    return (
        plain
        if plain.isalnum()
        else "".join(
            c for c in plain if c.isalnum() or c in _SYMBOLS or unicodedata.category(c)[0] == "M"
        )
    )


def align(
    left: Sequence[str], right: Sequence[str], formatting: Formatting | None = None
) -> list[Group]:
    """Align words with the fewest edits between them, or between words as they are read.

    Words without any key are left out.
    """
    keys = [formatting.keys(side) if formatting else side for side in (left, right)]
    kept = [[number for number, key in enumerate(side) if key] for side in keys]
    blocks = Levenshtein.opcodes(
        *([side[number] for number in some] for side, some in zip(keys, kept, strict=True))
    )
    groups: list[Group] = []
    # Differences with few equal words between them are aligned together.
    for _, run in groupby(
        blocks, lambda block: block.tag == "equal" and block.src_end - block.src_start > _BETWEEN
    ):
        some = list(run)
        spans = (
            kept[0][some[0].src_start : some[-1].src_end],
            kept[1][some[0].dest_start : some[-1].dest_end],
        )
        written = [
            [side[number] for number in span]
            for side, span in zip((left, right), spans, strict=True)
        ]
        if formatting and formatting.has_readings(written[0] + written[1]):
            groups += _compose(formatting.graph(written[0]), formatting.graph(written[1]), *spans)
            continue
        for block in some:
            sides = (
                kept[0][block.src_start : block.src_end],
                kept[1][block.dest_start : block.dest_end],
            )
            for place in range(max(map(len, sides))):
                one, other = (tuple(side[place : place + 1]) for side in sides)
                said = (
                    tuple(keys[0][number] for number in one),
                    tuple(keys[1][number] for number in other),
                )
                groups.append(Group((one, other), said, int(block.tag != "equal")))
    return groups


def _compose(
    left: Sequence[Node], right: Sequence[Node], lefts: Sequence[int], rights: Sequence[int]
) -> list[Group]:
    """Return the readings of words with the fewest edits.

    `lefts` and `rights` are the numbers of the words. The result is divided wherever a written word
    ends in both texts.
    """
    best = [[0] * len(right) for _ in left]
    came: dict[tuple[int, int], Any] = {}
    nobody: frozenset[str] = frozenset()
    for i, (_, _, into_left) in enumerate(left):
        for j, (_, _, into_right) in enumerate(right):
            options = [
                (best[a][b] + _OTHER * one.isdisjoint(other), a, b, one, other)
                for a, one in into_left
                for b, other in into_right
            ]
            options += [(best[a][j] + _EDIT, a, j, one, nobody) for a, one in into_left]
            options += [(best[i][b] + _EDIT, i, b, nobody, other) for b, other in into_right]
            best[i][j], *came[i, j] = min(options, key=itemgetter(0), default=(0,))
    groups: list[Group] = []
    i, j = end = len(left) - 1, len(right) - 1
    said: list[tuple[frozenset[str], frozenset[str]]] = []
    while i or j:
        i, j, one, other = came[i, j]
        # Both sides say the same word if both may.
        said.insert(0, (one & other or one, one & other or other))
        if left[i].step == right[j].step == 0:
            numbers = (
                lefts[left[i].word : left[end[0]].word],
                rights[right[j].word : right[end[1]].word],
            )
            spoken = (
                tuple(min(one) for one, _ in said if one),
                tuple(min(other) for _, other in said if other),
            )
            edits = (best[end[0]][end[1]] - best[i][j]) // _EDIT
            groups.insert(0, Group((tuple(numbers[0]), tuple(numbers[1])), spoken, edits))
            end = (i, j)
            said = []
    return groups


def _merged(readings: Sequence[Reading]) -> list[Reading]:
    """Make one reading of all that have one word."""
    single = frozenset(word for reading in readings if len(reading) == 1 for word in reading[0])
    return [
        *([(single,)] if single else []),
        *(reading for reading in readings if len(reading) > 1),
    ]
