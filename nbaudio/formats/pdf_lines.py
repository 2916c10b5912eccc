"""Put the glyphs of a page into words, lines and columns, in the order in which people read."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from nbaudio.formats.pdf_glyphs import Glyph
from nbaudio.formats.web_pages import raised_digits

Flags = npt.NDArray[np.bool_]

# Of the size of the font.
_SAME_BASELINE = 0.25  # distance of baselines of one row
_WORD_GAP = 0.15  # blank between words
_GUTTER = 0.8  # blank between columns
_SMALL = 0.8  # glyphs smaller than this beside others are raised or lowered
_RAISED = 0.6  # most distance of their baselines

# What columns have, which tables and names beside paragraphs do not.
_LEAST_ROWS = 4
_LEAST_CHARACTERS = 12  # of a row of a column, on average
_LEAST_WIDTH = 0.4  # of the wider column
_LEAST_DENSITY = 0.6  # of the rows that fit between the first and the last one

# Accents that some fonts set as glyphs of their own, with the characters that combine.
_ACCENTS = dict(zip("`´^ˆ¨˜¯˘˙˚¸˝˛ˇ", "̧̨̀́̂̂̈̃̄̆̇̊̋̌", strict=True))
_DOTLESS = {"ı": "i", "ȷ": "j"}
_LIGATURES = frozenset("ﬀﬁﬂﬃﬄﬅﬆ")


@dataclass(frozen=True, slots=True)
class Word:
    """A word on a page; places are in points, as in `Glyph`."""

    text: str
    left: float
    right: float
    baseline: float
    size: float
    is_bold: bool = False


@dataclass(frozen=True)
class Line:
    """Words of one line of a column, from left to right.

    Attributes:
        words: at least one.
        column: left and right edge of its column, in points.
        number: of the line on its page from 1, in the order in which people read.
    """

    words: list[Word]
    column: tuple[float, float] = (0.0, 0.0)
    number: int = 0

    @property
    def text(self) -> str:
        """The words with single blanks."""
        return " ".join(word.text for word in self.words)

    @property
    def left(self) -> float:
        """Where its first word begins, in points."""
        return self.words[0].left

    @property
    def right(self) -> float:
        """Where its last word ends, in points."""
        return self.words[-1].right

    @property
    def baseline(self) -> float:
        """Of most of its words, in points."""
        return median(word.baseline for word in self.words)

    @property
    def size(self) -> float:
        """Of the font of most of its words, in points."""
        return median(word.size for word in self.words)


def page_rows(glyphs: Sequence[Glyph]) -> list[Line]:
    """Return the rows of a page from top to bottom; a row spans all columns."""
    rows: list[list[Glyph]] = []
    for glyph in sorted(glyphs, key=lambda glyph: glyph.baseline):
        if rows:
            first = rows[-1][0]
            distance = _SAME_BASELINE * max(first.size, glyph.size)
        if not rows or glyph.baseline - first.baseline > distance:
            rows.append([])
        rows[-1].append(glyph)
    lines = [Line(words) for row in rows if (words := _words(row))]
    return _with_raised(lines)


def _words(row: Sequence[Glyph]) -> list[Word]:
    """Return the words of a row, between blanks and gaps."""
    words: list[Word] = []
    is_behind_blank = True
    last: Glyph | None = None
    for glyph in sorted(row, key=lambda glyph: glyph.left):
        if glyph.text.isspace():
            is_behind_blank = True
            continue
        if last and _is_repeated(last, glyph):
            continue
        gap = glyph.left - last.right if last else 0.0
        if is_behind_blank or gap > _WORD_GAP * glyph.size:
            words.append(_word(glyph))
        else:
            words[-1] = _longer(words[-1], glyph)
        is_behind_blank = False
        last = glyph
    return [replace(word, text=_composed(word.text)) for word in words]


def _is_repeated(glyph: Glyph, other: Glyph) -> bool:
    """Return whether a glyph is drawn again over itself, as for bold letters."""
    width = glyph.right - glyph.left
    return glyph.text == other.text and other.left - glyph.left < 0.3 * width


def _word(glyph: Glyph) -> Word:
    return Word(glyph.text, glyph.left, glyph.right, glyph.baseline, glyph.size, glyph.is_bold)


def _longer(word: Word, glyph: Glyph) -> Word:
    return replace(word, text=word.text + glyph.text, right=max(word.right, glyph.right))


def _composed(text: str) -> str:
    r"""Return a word with its accents and ligatures as letters, without soft hyphens inside.

    Example:
        >>> _composed("ˇcetiri"), _composed("ﬁrma"), _composed("od\xadbor")
        ('četiri', 'firma', 'odbor')
    """
    for accent, following in pairwise(text):
        base = _DOTLESS.get(following, following)
        letter = unicodedata.normalize("NFC", base + _ACCENTS.get(accent, ""))
        if accent in _ACCENTS and len(letter) == 1:
            text = text.replace(accent + following, letter)
    for ligature in _LIGATURES.intersection(text):
        text = text.replace(ligature, unicodedata.normalize("NFKC", ligature))
    return text[:-1].replace("\xad", "") + text[-1:].replace("\xad", "-")


def _with_raised(rows: list[Line]) -> list[Line]:
    """Return rows with the small words that are raised or lowered beside larger ones.

    Digits that are raised become those of Unicode.
    """
    additions: dict[int, list[Word]] = {}
    remaining: dict[int, list[Word]] = {}
    for number, row in enumerate(rows):
        for word in row.words:
            target = _row_beside(rows, number, word)
            if target is None:
                remaining.setdefault(number, []).append(word)
            else:
                additions.setdefault(target, []).append(word)
    joined = [
        Line(_joined_raised(remaining.get(number, []), additions.get(number, [])))
        for number in range(len(rows))
        if number in remaining
    ]
    return [row for row in joined if row.words]


def _row_beside(rows: Sequence[Line], number: int, word: Word) -> int | None:
    """Return the number of the row that has a larger word beside a small one, if there is one."""
    for other in (number + 1, number - 1):
        if not 0 <= other < len(rows):
            continue
        for neighbor in rows[other].words:
            is_near = abs(neighbor.baseline - word.baseline) <= _RAISED * neighbor.size
            gap = max(word.left - neighbor.right, neighbor.left - word.right)
            is_small = word.size < _SMALL * neighbor.size
            if is_near and is_small and gap < _WORD_GAP * neighbor.size:
                return other
    return None


def _joined_raised(words: Sequence[Word], additions: Sequence[Word]) -> list[Word]:
    """Return words from left to right; raised ones are joined with the word before them."""
    joined: list[Word] = []
    for word in sorted([*words, *additions], key=lambda word: word.left):
        is_raised = word in additions
        if is_raised and word.text.isdigit() and joined and word.baseline < joined[-1].baseline:
            word = replace(word, text=raised_digits(word.text))  # noqa: PLW2901
        if is_raised and joined and word.left - joined[-1].right < _WORD_GAP * joined[-1].size:
            text = joined[-1].text + word.text
            joined[-1] = replace(joined[-1], text=text, right=word.right)
        else:
            joined.append(word)
    return joined


@dataclass(frozen=True)
class _Gutter:
    """A blank between columns: its place in points, and the rows that it divides (half open)."""

    place: float
    start: int
    end: int


def reading_order(rows: Sequence[Line]) -> list[Line]:
    """Return the lines of a page in reading order, from its rows from top to bottom.

    Of columns side by side the left one is read first; what spans columns divides them.
    """
    lines = list(_column_lines(rows))
    return [replace(line, number=number) for number, line in enumerate(lines, 1)]


def _column_lines(rows: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines of rows, column after column."""
    if not rows:
        return
    gutter = _widest_gutter(rows)
    if gutter is None:
        edges = (min(row.left for row in rows), max(row.right for row in rows))
        yield from (replace(row, column=edges) for row in rows)
        return
    yield from _column_lines(rows[: gutter.start])
    for side in _sides(rows[gutter.start : gutter.end], gutter.place):
        yield from _column_lines(side)
    yield from _column_lines(rows[gutter.end :])


def _sides(rows: Sequence[Line], place: float) -> tuple[list[Line], list[Line]]:
    """Return what rows have to the left and to the right of a place."""
    left = [[word for word in row.words if word.right <= place] for row in rows]
    right = [[word for word in row.words if word.right > place] for row in rows]
    return [Line(words) for words in left if words], [Line(words) for words in right if words]


def _widest_gutter(rows: Sequence[Line]) -> _Gutter | None:
    """Return the gutter that divides most rows, None where there are no columns."""
    size = median(row.size for row in rows)
    start = min(row.left for row in rows)
    width = int(max(row.right for row in rows) - start) + 1
    is_free = _free_places(rows, start, width, _GUTTER * size / 2)
    gutters = [
        _Gutter(start + place + 0.5, first, end)
        for place, first, end in _free_runs(is_free)
        if end - first >= _LEAST_ROWS
    ]
    gutters.sort(key=lambda gutter: gutter.start - gutter.end)
    return next((gutter for gutter in gutters if _are_columns(rows, gutter)), None)


def _free_places(rows: Sequence[Line], start: float, width: int, margin: float) -> Flags:
    """Return for each row and each point from `start` whether no word is within `margin` of it."""
    is_free = np.ones((len(rows), width), np.bool_)
    for row, line in zip(is_free, rows, strict=True):
        for word in line.words:
            left = max(0, int(word.left - start - margin))
            right = max(0, int(word.right - start + margin) + 1)
            row[left:right] = False
    return is_free


def _free_runs(is_free: Flags) -> Iterator[tuple[int, int, int]]:
    """Yield places with the rows in which they are free: the middle of each blank, its rows."""
    runs: dict[tuple[int, int], list[int]] = {}
    for place, column in enumerate(is_free.T.tolist()):
        row = 0
        for free, group in groupby(column):
            end = row + len(list(group))
            if free:
                runs.setdefault((row, end), []).append(place)
            row = end
    for (first, end), places in runs.items():
        yield places[len(places) // 2], first, end


def _are_columns(rows: Sequence[Line], gutter: _Gutter) -> bool:
    """Return whether a gutter has columns on both sides, and no cells of a table or names."""
    sides = _sides(rows[gutter.start : gutter.end], gutter.place)
    if min(map(len, sides)) < _LEAST_ROWS:
        return False
    widths = [max(row.right for row in side) - min(row.left for row in side) for side in sides]
    return min(widths) >= _LEAST_WIDTH * max(widths) and all(map(_is_column, sides))


def _is_column(lines: Sequence[Line]) -> bool:
    """Return whether lines are long and close enough for a column of text."""
    steps = [after.baseline - line.baseline for line, after in pairwise(lines)]
    height = lines[-1].baseline - lines[0].baseline
    density = (len(lines) - 1) * median(steps) / height if height else 1.0
    is_long = fmean(len(line.text) for line in lines) >= _LEAST_CHARACTERS
    return is_long and density >= _LEAST_DENSITY
