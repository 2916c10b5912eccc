"""Put the glyphs of a page into words, lines and columns, in the order in which people read."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from nbaudio.formats.pdf_glyphs import Glyph
from nbaudio.formats.web_pages import raised_digits

Flags = npt.NDArray[np.bool_]

# As shares of the size of the font.
_SAME_BASELINE = 0.25  # largest distance of baselines in a row
_WORD_GAP = 0.15  # a wider blank divides words
_GUTTER = 0.8  # a wider blank may divide columns
_SMALL = 0.8  # a smaller word beside another one may be raised or lowered
_RAISED = 0.6  # largest distance of its baseline from that of the other one

_WIDEST = 10_000  # points; a wider page is not searched for columns

# Columns have all of these; tables, and names beside paragraphs, do not.
_LEAST_ROWS = 4
_LEAST_CHARACTERS = 12  # in a row, on average
_LEAST_WIDTH = 0.4  # of the narrower column, as a share of the wider one
_LEAST_DENSITY = 0.6  # rows, as a share of those that fit between the first and the last one

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
        """Median of its words, in points."""
        return median(word.baseline for word in self.words)

    @property
    def size(self) -> float:
        """Median size of the font of its words, in points."""
        return median(word.size for word in self.words)


def page_rows(glyphs: Sequence[Glyph]) -> list[Line]:
    """Return the rows of a page from top to bottom; a row spans all columns."""
    rows: list[list[Glyph]] = []
    for glyph in sorted(glyphs, key=lambda glyph: glyph.baseline):
        if not rows or not _is_in_row(glyph, rows[-1][0]):
            rows.append([])
        rows[-1].append(glyph)
    lines = [Line(words) for row in rows if (words := _words(row))]
    return _with_raised(lines)


def _is_in_row(glyph: Glyph, first: Glyph) -> bool:
    """Return whether a glyph is in the row whose first glyph, the highest one, is `first`."""
    distance = glyph.baseline - first.baseline
    return distance <= _SAME_BASELINE * max(first.size, glyph.size)


def _words(row: Sequence[Glyph]) -> list[Word]:
    """Return the words of a row, between blanks and gaps."""
    words: list[list[Glyph]] = []
    is_after_blank = True
    for glyph in sorted(row, key=lambda glyph: glyph.left):
        if glyph.text.isspace():
            is_after_blank = True
            continue
        if words and _is_repeated(words[-1][-1], glyph):
            continue
        if is_after_blank or glyph.left - words[-1][-1].right > _WORD_GAP * glyph.size:
            words.append([])
        words[-1].append(glyph)
        is_after_blank = False
    return [_word(glyphs) for glyphs in words]


def _is_repeated(glyph: Glyph, other: Glyph) -> bool:
    """Return whether `other` draws a glyph again over itself, as some files do for bold."""
    width = glyph.right - glyph.left
    return glyph.text == other.text and other.left - glyph.left < 0.3 * width


def _word(glyphs: Sequence[Glyph]) -> Word:
    """Return the word of glyphs from left to right; the first one has its size and baseline."""
    first = glyphs[0]
    return Word(
        _composed("".join(glyph.text for glyph in glyphs)),
        first.left,
        max(glyph.right for glyph in glyphs),
        first.baseline,
        first.size,
        first.is_bold,
    )


def _composed(text: str) -> str:
    r"""Return a word with composed letters in place of its separate accents and its ligatures.

    Soft hyphens are removed; one at the end becomes a hyphen.

    Example:
        >>> _composed("ˇcetiri"), _composed("ﬁrma"), _composed("od\xadbor"), _composed("od\xad")
        ('četiri', 'firma', 'odbor', 'od-')
    """
    if text.isascii():
        return text
    for accent, following in pairwise(text):
        base = _DOTLESS.get(following, following)
        letter = unicodedata.normalize("NFC", base + _ACCENTS.get(accent, ""))
        if accent in _ACCENTS and len(letter) == 1:
            text = text.replace(accent + following, letter)
    for ligature in _LIGATURES.intersection(text):
        text = text.replace(ligature, unicodedata.normalize("NFKC", ligature))
    return text[:-1].replace("\xad", "") + text[-1:].replace("\xad", "-")


def _with_raised(rows: list[Line]) -> list[Line]:
    """Move raised and lowered words, such as exponents, into the rows of the words beside them.

    Raised digits become those of Unicode, such as ².
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
    """Return the number of the row before or after that has a larger word beside a word.

    `number` is that of the row of the word. Return None if there is no such row.
    """
    for other in (number + 1, number - 1):
        if not 0 <= other < len(rows) or not _is_near(rows[number], rows[other]):
            continue
        for neighbor in rows[other].words:
            is_near = abs(neighbor.baseline - word.baseline) <= _RAISED * neighbor.size
            gap = max(word.left - neighbor.right, neighbor.left - word.right)
            is_small = word.size < _SMALL * neighbor.size
            if is_near and is_small and gap < _WORD_GAP * neighbor.size:
                return other
    return None


def _is_near(row: Line, other: Line) -> bool:
    """Return whether words of a row may be raised or lowered words of another."""
    size = max(word.size for word in other.words)
    return abs(row.words[0].baseline - other.words[0].baseline) <= (_RAISED + _SAME_BASELINE) * size


def _joined_raised(words: Sequence[Word], additions: Sequence[Word]) -> list[Word]:
    """Return words from left to right; join each of `additions` with the word that it touches."""
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
    """A blank between columns.

    Attributes:
        place: x in points.
        start: first row that it divides.
        end: one past the last row that it divides.
    """

    place: float
    start: int
    end: int


def reading_order(rows: Sequence[Line], gutters: Sequence[float] = ()) -> list[Line]:
    """Return the lines of a page in reading order, from its rows from top to bottom.

    Columns are read from left to right; a row that spans columns ends them. At `gutters`, the
    places of gutters on other pages in points, columns may have few lines.
    """
    lines = list(_column_lines(rows, gutters))
    return [replace(line, number=number) for number, line in enumerate(lines, 1)]


def page_gutters(rows: Sequence[Line]) -> Iterator[float]:
    """Yield the places between the columns of a page, in points."""
    gutter = _longest_gutter(rows)
    if gutter:
        yield gutter.place
        for side in _sides(rows[gutter.start : gutter.end], gutter.place):
            yield from page_gutters(side)


def _column_lines(rows: Sequence[Line], gutters: Sequence[float]) -> Iterator[Line]:
    """Yield the lines of rows, column after column."""
    if not rows:
        return
    gutter = _longest_gutter(rows, gutters)
    if gutter is None:
        edges = (min(row.left for row in rows), max(row.right for row in rows))
        yield from (replace(row, column=edges) for row in rows)
        return
    yield from _column_lines(rows[: gutter.start], gutters)
    for side in _sides(rows[gutter.start : gutter.end], gutter.place):
        yield from _column_lines(side, gutters)
    yield from _column_lines(rows[gutter.end :], gutters)


def _sides(rows: Sequence[Line], place: float) -> tuple[list[Line], list[Line]]:
    """Return the parts of rows to the left and to the right of a place, without empty ones."""
    left = [[word for word in row.words if word.right <= place] for row in rows]
    right = [[word for word in row.words if word.right > place] for row in rows]
    return [Line(words) for words in left if words], [Line(words) for words in right if words]


def _longest_gutter(rows: Sequence[Line], gutters: Sequence[float] = ()) -> _Gutter | None:
    """Return the gutter that divides most rows, None if there are no columns.

    A gutter at one of `gutters`, places in points, needs only one line on each side.
    """
    if not rows:
        return None
    size = median(row.size for row in rows)
    start = min(row.left for row in rows)
    width = int(max(row.right for row in rows) - start) + 1
    if width > _WIDEST:
        return None
    is_free = _free_places(rows, start, width, _GUTTER * size / 2)
    places = [round(gutter - start) for gutter in gutters]
    blanks = [
        _Gutter(start + place + 0.5, first, end)
        for place, first, end in (*_free_runs(is_free), *_free_runs(is_free, places))
    ]
    blanks.sort(key=lambda blank: (blank.start - blank.end, blank.place))
    usual_places = {start + place + 0.5 for place in places}
    for blank in blanks:
        if _are_columns(rows, blank):
            return blank
        if blank.place in usual_places and all(_sides(rows[blank.start : blank.end], blank.place)):
            return blank
    return None


def _free_places(rows: Sequence[Line], start: float, width: int, margin: float) -> Flags:
    """Return for each row and each point from `start` whether no word is within `margin` of it."""
    is_free = np.ones((len(rows), width), np.bool_)
    for row, line in zip(is_free, rows, strict=True):
        for word in line.words:
            left = max(0, int(word.left - start - margin))
            right = max(0, int(word.right - start + margin) + 1)
            row[left:right] = False
    return is_free


def _free_runs(
    is_free: Flags, places: Sequence[int] | None = None
) -> Iterator[tuple[int, int, int]]:
    """Yield a place, a first row and an end row for each run of rows in which the place is free.

    Of neighboring places that are free in the same rows, only the middle one is yielded.

    Args:
        is_free: by row and point, see `_free_places`.
        places: the points to look at; all by default.
    """
    width = is_free.shape[1]
    chosen = np.arange(width) if places is None else np.array(places, np.int64)
    chosen = chosen[(chosen >= 0) & (chosen < width)]
    is_edge = np.diff(is_free.T[chosen], axis=1, prepend=False, append=False)
    numbers, rows = np.nonzero(is_edge)  # the begin and the end of each run, alternating
    runs: dict[tuple[int, int], list[int]] = {}
    for number, first, end in zip(numbers[::2], rows[::2], rows[1::2], strict=True):
        runs.setdefault((int(first), int(end)), []).append(int(chosen[number]))
    for (first, end), blank in runs.items():
        yield blank[len(blank) // 2], first, end


def _are_columns(rows: Sequence[Line], gutter: _Gutter) -> bool:
    """Return whether both sides of a gutter are columns of text, not cells of a table or names."""
    if gutter.end - gutter.start < _LEAST_ROWS:
        return False
    sides = _sides(rows[gutter.start : gutter.end], gutter.place)
    if min(map(len, sides)) < _LEAST_ROWS:
        return False
    widths = [max(row.right for row in side) - min(row.left for row in side) for side in sides]
    return min(widths) >= _LEAST_WIDTH * max(widths) and all(map(_is_column, sides))


def _is_column(lines: Sequence[Line]) -> bool:
    """Return whether two lines or more are long and close enough for a column of text."""
    steps = [after.baseline - line.baseline for line, after in pairwise(lines)]
    height = lines[-1].baseline - lines[0].baseline
    density = (len(lines) - 1) * median(steps) / height if height else 1.0
    is_long = fmean(len(line.text) for line in lines) >= _LEAST_CHARACTERS
    return is_long and density >= _LEAST_DENSITY
