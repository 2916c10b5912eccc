"""Formatting: words that are equal when they are read aloud; see docs/transcripts.md.

Examples are ``25 %`` and ``twenty-five percent``.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from itertools import chain, count, groupby, islice, pairwise, product
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from rapidfuzz.distance import Levenshtein, Opcode

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
_MAYBE_UNCOVERED = r"[\d½¼¾⅓⅔]|\p{L}\."  # fast search for texts that may have words without a rule
_ABBREVIATION = re.compile(r"[^\W\d_]{1,4}\.")
_QUOTES_AND_STOPS = "\"'()[]{}„“”‘’«»,;:!?…"
_JOINED = re.compile(r"[-‐‑–/]")
_MOST_DIGITS = 12
_MOST_READINGS = 24
_BETWEEN = 3  # differences with at most so many equal words between them are compared together
# Costs of an alignment. A pair of different words costs a little more than a word that only one
# text has, so that of alignments with equally many edits the one with more equal words is taken.
_EDIT = 1000
_OTHER = 1001


class Group(NamedTuple):
    """Words that correspond.

    It has their `numbers` in both texts, the words of both as they are read (`spoken`), and how
    many of those differ (`edits`).
    """

    numbers: tuple[tuple[int, ...], tuple[int, ...]]
    spoken: tuple[tuple[str, ...], tuple[str, ...]]
    edits: int


#: Place of a node: before a word, or after some steps of a reading of it.
_Place = tuple[int, int]


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
        """Read the rules of a language, and those of a further table.

        Raise InputError if the table cannot be read.
        """
        self.language = language.split(",")[0].strip() if language else None
        self._numerals = False  # whether num2words reads numbers
        self._endings: dict[str, list[str]] = {}
        self._spoken: dict[str, list[Reading]] = {}
        self._load(_TABLE)
        if table:
            self._load(Path(table))
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
        """Add the rules of a table for the language; raise InputError if it is unreadable."""
        try:
            lines = read_all(path, most=_MOST_TABLE_BYTES).decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: cannot be read as a table of formatting ({error})"
            ) from error
        for number, line in enumerate(lines, 1):
            is_header = number == 1 and line.startswith("language\t")
            if is_header or not line.strip() or line.startswith("#"):
                continue
            language, *rest = line.split("\t")
            if len(rest) != 2 or not all(map(str.strip, rest)):
                raise InputError(
                    f"{path}: line {number}: expected language, written and spoken, "
                    "separated by tabs"
                )
            if language in ("*", self.language):
                self._add_rule(*rest)

    def _add_rule(self, written: str, spoken: str) -> None:
        """Add a row of a table: a word with how it is read, or a class of endings."""
        written = unicodedata.normalize("NFKC", written).casefold().strip()
        if written.startswith("@"):
            self._endings[written] = spoken.split()
            return
        readings = [
            tuple(map(self._inflected, alternative.split())) for alternative in spoken.split("|")
        ]
        self._spoken.setdefault(written, []).extend(_merged(readings))

    def _inflected(self, word: str) -> frozenset[str]:
        """Return the forms of a word of a table, such as ``drug@a``: stem and class of endings."""
        stem, at, name = word.partition("@")
        return frozenset(fold(stem + ending) for ending in self._endings.get(at + name, [""]))

    def alternatives(self, written: str) -> list[Reading]:
        """Return how a word may be read besides as it is written; often empty.

        Several words with blanks between them may be given.
        """
        plain = unicodedata.normalize("NFKC", written).casefold().translate(_LIGATURES)
        plain = plain.strip(_QUOTES_AND_STOPS)
        readings = list(self._spoken.get(plain, []))
        if plain.endswith("."):
            readings += self._spoken.get(plain.rstrip("."), [])
        if plain[:1].isdigit() or plain[1:2].isdigit():
            readings += self._read_number(plain.replace(" ", ""))
        else:
            parts = [part for part in map(fold, _JOINED.split(plain)) if part]
            if len(parts) > 1:
                readings.append(tuple(frozenset([part]) for part in parts))
        return readings[:_MOST_READINGS]

    def _read_number(self, written: str) -> list[Reading]:
        """Return the readings of a number with its unit, or of a date or time of day."""
        if match := _NUMBER.fullmatch(written):
            symbol = match["after"] or match["before"]
            units = self._spoken.get(symbol, []) if symbol else [()]
            numbers = self._numbers(match["number"])
            if readings := [(*number, *unit) for number, unit in product(numbers, units)]:
                return readings
        if not _SEPARATED.fullmatch(written) or written in self._spoken:
            return []
        parts = [part for part in re.findall(r"\d+", written) if len(part) <= 4]
        combinations = product(*(self._cardinal(int(part)) for part in parts))
        return [tuple(chain(*readings)) for readings in islice(combinations, _MOST_READINGS)]

    def _numbers(self, written: str) -> list[Reading]:
        """Return the readings of digits with points and commas."""
        digits = re.sub(r"[.,]", "", written)
        if len(digits) > _MOST_DIGITS:
            return []
        readings: list[Reading] = []
        if digits == written or _THOUSANDS.fullmatch(written):
            readings += self._cardinal(int(digits))
        if digits == written and len(digits) > 1:
            readings += self._digit_by_digit(digits)
        readings += self._decimals(written)
        return [reading for reading in readings if reading]

    def _digit_by_digit(self, digits: str) -> list[Reading]:
        """Return the reading of each digit by itself; none if one cannot be read."""
        cardinals = [self._cardinal(int(digit))[:1] for digit in digits]
        return [tuple(chain(*readings)) for readings in product(*cardinals)]

    def _decimals(self, written: str) -> list[Reading]:
        """Return the readings of a number with a fraction; none of another."""
        whole, _, fraction = re.sub(r"[.,](?=\d+$)", " ", written).partition(" ")
        if not fraction or not whole.isdigit():
            return []
        readings: list[Reading] = []
        if self._numerals:
            readings.append(self._say(Decimal(f"{whole}.{fraction}"), "cardinal"))
        first_and_last = product(self._cardinal(int(whole))[:1], self._cardinal(int(fraction))[:1])
        readings += [
            (*first, *point, *last)
            for first, last in first_and_last
            for point in self._spoken.get("decimal", [])
        ]
        return readings

    def _cardinal(self, number: int) -> list[Reading]:
        """Return the readings of a whole number, also as an ordinal and as a year."""
        if self._numerals:
            return self._cardinal_of_library(number)
        parts = self._parts(number)
        if parts is None:
            return []
        before = tuple(word for part in parts[:-1] for word in self._spoken[str(part)][0])
        links: list[Reading] = [()]
        if before:
            links += [(word,) for word in self._link_words()]
        ends = _merged([*self._spoken[str(parts[-1])], *self._spoken.get(f"{parts[-1]}.", [])])
        readings = [(*before, *link, *end) for end in ends for link in links]
        if parts[0] == 1 and len(parts) > 1:  # one thousand is also a thousand
            readings += [reading[1:] for reading in readings]
        return readings

    def _cardinal_of_library(self, number: int) -> list[Reading]:
        """Return the readings of a whole number by num2words, with and without links."""
        kinds = ["cardinal", "ordinal"]
        if 1000 < number < 2100:
            kinds.append("year")
        readings = [reading for kind in kinds if (reading := self._say(number, kind))]
        links = self._link_words()
        without_links = [
            tuple(word for word in reading if word not in links) for reading in readings
        ]
        return list(dict.fromkeys([*readings, *without_links]))

    def _link_words(self) -> list[frozenset[str]]:
        """Return the words that may link the parts of a number, such as ``and``."""
        return [word for reading in self._spoken.get("link", []) for word in reading]

    def _parts(self, number: int) -> list[int] | None:
        """Return the numbers of the table that a number is made of.

        The result is None if they are not in the table.
        """
        if str(number) in self._spoken and number < 1000:
            return [number]
        for scale in (10**9, 10**6, 1000):
            if number >= scale:
                return self._multiple_parts(number, scale)
        for scale in (100, 10):
            multiple = number // scale * scale
            if number >= scale and str(multiple) in self._spoken:
                rest = self._parts(number % scale)
                if rest is None:
                    return None
                return [multiple, *rest]
        return None

    def _multiple_parts(self, number: int, scale: int) -> list[int] | None:
        """Return the parts of a number as so many thousands, say, and the rest; see `_parts`."""
        times, remainder = divmod(number, scale)
        multiple = self._parts(times)
        rest = self._parts(remainder) if remainder else []
        if multiple is None or rest is None or str(scale) not in self._spoken:
            return None
        return [*multiple, scale, *rest]

    def _say(self, number: int | Decimal, kind: str) -> Reading:
        """Return how num2words reads a number; empty if it cannot."""
        from num2words import num2words

        try:
            text = str(num2words(number, lang=self.language, to=kind))
        except Exception:  # noqa: BLE001 - a language raises anything for numbers it does not know
            return ()
        keys = map(fold, re.split(r"[\s-]+", text))
        return tuple(frozenset([key]) for key in keys if key)

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
        edges: dict[_Place, list[tuple[_Place, frozenset[str]]]] = {(0, 0): []}
        for start in range(len(written)):
            steps = count(1)
            for stop, reading in self._readings_from(written, start):
                inner = [(start, next(steps)) for _ in reading[1:]]
                places = [(start, 0), *inner, (stop, 0)]
                for (before, after), spoken in zip(pairwise(places), reading, strict=True):
                    edges.setdefault(after, []).append((before, spoken))
        nodes = {place: number for number, place in enumerate(sorted(edges))}
        return [
            Node(*place, [(nodes[before], spoken) for before, spoken in edges[place]])
            for place in nodes
        ]

    def _readings_from(self, written: Sequence[str], start: int) -> list[tuple[int, Reading]]:
        """Return readings of a word, alone or with those after it, and the number of the next."""
        word = written[start]
        as_written: Reading = (frozenset([self._key(word)]),)
        readings = [(start + 1, as_written)]
        readings += [(start + 1, reading) for reading in self._readings.get(word, [])]
        for stop in range(start + 2, min(start + self._longest, len(written)) + 1):
            joined = " ".join(written[start:stop])
            if joined.casefold() in self._spoken or _BLANK_THOUSANDS.fullmatch(joined):
                readings += [(stop, reading) for reading in self.alternatives(joined)]
        return readings

    def differences(self, left: str, right: str) -> set[tuple[int, int, tuple[str, ...]]]:
        """Return where other words are read.

        A place is the first and one past the last word of `left`, and the words of `right` as read.
        """
        left_keys, _, left_has_readings = self._split(left)
        right_keys, _, right_has_readings = self._split(right)
        has_readings = left_has_readings or right_has_readings
        if not has_readings and all(left_keys) and all(right_keys):  # fast
            return _plain_differences(left_keys, right_keys)
        places = set[tuple[int, int, tuple[str, ...]]]()
        end = 0
        for group in self._aligned(left, right):
            start = end  # of a group of words that are only on the right
            if numbers := group.numbers[0]:
                start = numbers[0]
                end = numbers[-1] + 1
            if group.edits:
                places.add((start, end, group.spoken[1]))
        return places

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
        _, left_plain, left_has_readings = self._split(left)
        _, right_plain, right_has_readings = self._split(right)
        if left_plain == right_plain or not (left_has_readings or right_has_readings):
            return left_plain, right_plain
        groups = self._aligned(left, right)
        left_spoken = " ".join(word for group in groups for word in group.spoken[0])
        right_spoken = " ".join(word for group in groups for word in group.spoken[1])
        return left_spoken, right_spoken

    def uncovered(self, texts: Column) -> Counter[str]:
        """Count words that should be covered by a rule, but that no rule reads.

        These are words with digits or fractions, and abbreviations within a text.
        """
        column = as_series(texts).cast(pl.String)
        column = column.filter(column.str.contains(_MAYBE_UNCOVERED).fill_null(value=False))
        codes, lengths, distinct = encode_words(tidy_blanks(column))
        last = (np.cumsum(lengths) - 1)[lengths > 0]
        totals = np.bincount(codes, minlength=len(distinct))
        totals_within = totals - np.bincount(codes[last], minlength=len(distinct))
        counts = Counter[str]()
        for word, total, total_within in zip(
            distinct.str.head(-1), totals.tolist(), totals_within.tolist(), strict=True
        ):
            times = 0
            if _UNCOVERED.search(word):
                times += total
            if _ABBREVIATION.fullmatch(word):
                times += total_within
            if times and not self.alternatives(word):
                counts[word] = times
        return counts


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
    rows: list[int] = []
    forms: list[tuple[str, str]] = []
    for row, written, asr_written in differ:
        spoken = formatting.spoken_forms(written, asr_written)
        if spoken != (written, asr_written):
            rows.append(row)
            forms.append(spoken)
    if not rows:
        return plain
    counts = edit_counts(*(pl.Series(side, dtype=pl.String) for side in zip(*forms, strict=True)))
    fewest = {
        name: pl.min_horizontal(plain[name].gather(rows), counts[name])
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
    if plain.isalnum():
        return plain
    return "".join(filter(_is_compared, plain))


def _is_compared(character: str) -> bool:
    """Return whether a character is a letter, a digit, a combining mark or a known symbol."""
    if character.isalnum() or character in _SYMBOLS:
        return True
    return unicodedata.category(character)[0] == "M"


def _plain_differences(
    left: Sequence[str], right: Sequence[str]
) -> set[tuple[int, int, tuple[str, ...]]]:
    """Return `Formatting.differences` of words without readings."""
    places = set[tuple[int, int, tuple[str, ...]]]()
    for edit in Levenshtein.editops(left, right):
        start = edit.src_pos
        stop = start if edit.tag == "insert" else start + 1
        spoken = () if edit.tag == "delete" else (right[edit.dest_pos],)
        places.add((start, stop, spoken))
    return places


@dataclass(frozen=True)
class _KeyedWords:
    """The words of a text that have a key.

    Attributes:
        written: these words.
        numbers: of each in the text.
        keys: what is compared of each.
    """

    written: list[str]
    numbers: list[int]
    keys: list[str]

    @classmethod
    def of(cls, written: Sequence[str], formatting: Formatting | None) -> "_KeyedWords":
        """Return the words of a text that have a key; without `formatting`, the key is the word."""
        keys = formatting.keys(written) if formatting else written
        numbers = [number for number, key in enumerate(keys) if key]
        return cls(
            [written[number] for number in numbers], numbers, [keys[number] for number in numbers]
        )


def align(
    left: Sequence[str], right: Sequence[str], formatting: Formatting | None = None
) -> list[Group]:
    """Align words with the fewest edits between them, or between words as they are read.

    Words without any key are left out.
    """
    left_words = _KeyedWords.of(left, formatting)
    right_words = _KeyedWords.of(right, formatting)
    blocks = Levenshtein.opcodes(left_words.keys, right_words.keys)
    groups: list[Group] = []
    # Differences with few equal words between them are aligned together.
    for _, run_of_blocks in groupby(blocks, _is_long_equal):
        run = list(run_of_blocks)
        lefts = slice(run[0].src_start, run[-1].src_end)
        rights = slice(run[0].dest_start, run[-1].dest_end)
        left_written = left_words.written[lefts]
        right_written = right_words.written[rights]
        if formatting and formatting.has_readings(left_written + right_written):
            groups += _compose(
                formatting.graph(left_written),
                formatting.graph(right_written),
                left_words.numbers[lefts],
                right_words.numbers[rights],
            )
        else:
            for block in run:
                groups += _pair_words(block, left_words, right_words)
    return groups


def _is_long_equal(block: Opcode) -> bool:
    """Return whether a block of equal words is so long that it divides the differences."""
    return block.tag == "equal" and block.src_end - block.src_start > _BETWEEN


def _pair_words(block: Opcode, left: _KeyedWords, right: _KeyedWords) -> Iterator[Group]:
    """Yield the words of a block in pairs, and one by one what one side has more of."""
    edits = int(block.tag != "equal")
    left_numbers = left.numbers[block.src_start : block.src_end]
    left_keys = left.keys[block.src_start : block.src_end]
    right_numbers = right.numbers[block.dest_start : block.dest_end]
    right_keys = right.keys[block.dest_start : block.dest_end]
    for place in range(max(len(left_numbers), len(right_numbers))):
        single = slice(place, place + 1)  # empty past the end of a side
        numbers = (tuple(left_numbers[single]), tuple(right_numbers[single]))
        spoken = (tuple(left_keys[single]), tuple(right_keys[single]))
        yield Group(numbers, spoken, edits)


class _Step(NamedTuple):
    """The last step of the cheapest alignment up to a node of each text.

    It has the cost of the whole alignment, the nodes before the step, and the words that may be
    said in it, which are empty where a text says nothing.
    """

    cost: int
    left: int
    right: int
    left_words: frozenset[str]
    right_words: frozenset[str]


_NO_WORD: frozenset[str] = frozenset()


def _compose(
    left: Sequence[Node], right: Sequence[Node], lefts: Sequence[int], rights: Sequence[int]
) -> list[Group]:
    """Return the readings of words with the fewest edits.

    `lefts` and `rights` are the numbers of the words. The result is divided wherever a written word
    ends in both texts.
    """
    last_steps = _cheapest_steps(left, right)
    groups: list[Group] = []  # from the last one to the first, as the steps of each
    steps: list[_Step] = []
    place = (len(left) - 1, len(right) - 1)
    end = place
    while place != (0, 0):
        step = last_steps[place]
        steps.append(step)
        place = (step.left, step.right)
        left_node = left[step.left]
        right_node = right[step.right]
        if left_node.step == 0 and right_node.step == 0:
            left_numbers = lefts[left_node.word : left[end[0]].word]
            right_numbers = rights[right_node.word : right[end[1]].word]
            edits = (last_steps[end].cost - last_steps[place].cost) // _EDIT
            groups.append(
                Group((tuple(left_numbers), tuple(right_numbers)), _spoken(steps[::-1]), edits)
            )
            steps = []
            end = place
    return groups[::-1]


def _cheapest_steps(left: Sequence[Node], right: Sequence[Node]) -> dict[tuple[int, int], _Step]:
    """Return the last step of the cheapest alignment up to each node of both texts.

    Of equal costs, a step of both texts is taken before one of the left, and that before one of the
    right.
    """
    start = _Step(0, 0, 0, _NO_WORD, _NO_WORD)
    costs = [[0] * len(right) for _ in left]
    last_steps: dict[tuple[int, int], _Step] = {}
    for i, left_node in enumerate(left):
        for j, right_node in enumerate(right):
            steps = [
                (costs[a][b] + _OTHER * word.isdisjoint(other), a, b, word, other)
                for a, word in left_node.edges
                for b, other in right_node.edges
            ]
            steps += [
                (costs[a][j] + _EDIT, a, j, spoken, _NO_WORD) for a, spoken in left_node.edges
            ]
            steps += [(costs[i][b] + _EDIT, i, b, _NO_WORD, other) for b, other in right_node.edges]
            last_step = _Step(*min(steps, key=itemgetter(0), default=start))
            costs[i][j] = last_step.cost
            last_steps[i, j] = last_step
    return last_steps


def _spoken(steps: Sequence[_Step]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of both texts as they are read: the same word where both may be."""
    left_words = []
    right_words = []
    for step in steps:
        shared = step.left_words & step.right_words
        if step.left_words:
            left_words.append(min(shared or step.left_words))
        if step.right_words:
            right_words.append(min(shared or step.right_words))
    return tuple(left_words), tuple(right_words)


def _merged(readings: Sequence[Reading]) -> list[Reading]:
    """Make one reading of all that have one word."""
    single = frozenset(word for reading in readings if len(reading) == 1 for word in reading[0])
    longer = [reading for reading in readings if len(reading) > 1]
    if not single:
        return longer
    return [(single,), *longer]
