"""Height of a row of the review sheet: not every program computes it for wrapped texts."""

from collections.abc import Iterable
from unicodedata import category, east_asian_width

from nbaudio.review.cell_escaping import Fragment

#: Points of one line, and what a row is higher than its lines.
LINE_POINTS, ROOM_POINTS = 15.0, 5.0
# A spreadsheet has no higher rows.
_MOST_POINTS = 409.0
_NARROW, _WIDE = frozenset("fijlrtI.,;:'!|()[]-/ "), frozenset("mwMW@%—…")
# East Asian letters come from a font with higher lines.
_EAST_ASIAN_LINE = 1.15
_BOLD = 1.1


def row_height(cells: Iterable[tuple[list[Fragment], float]]) -> float:
    """Return the height in points for cells that wrap, given as fragments (marked ones are bold) and column width."""
    heights = (count_lines(fragments, width) * _line(fragments) for fragments, width in cells)
    return min(max(heights, default=LINE_POINTS) + ROOM_POINTS, _MOST_POINTS)


def count_lines(fragments: list[Fragment], width: float) -> int:
    """Count the lines of a text that wraps at blanks and between East Asian letters; words longer than a line are broken.

    `width` is that of the column, in digits.
    """
    lines, line, word = 1, 0.0, 0.0
    for letter, size in ((letter, _size(letter) * (_BOLD if bold else 1.0)) for text, bold in fragments for letter in text):
        if letter == "\n":
            lines, line, word = lines + 1, 0.0, 0.0
        elif letter.isspace():
            line, word = line + word + size, 0.0
        elif line + word + size > width:
            # The word goes to the next line, or is broken if it began this one.
            lines += 1
            line, word = 0.0, (word if line and word + size <= width and not _is_wide(letter) else 0.0) + size
        elif _is_wide(letter):
            line, word = line + word + size, 0.0
        else:
            word += size
    return lines


def _line(fragments: list[Fragment]) -> float:
    """Return the height of a line of these letters in points."""
    high = any(_is_wide(letter) for text, _ in fragments for letter in text)
    return LINE_POINTS * (_EAST_ASIAN_LINE if high else 1.0)


def _is_wide(letter: str) -> bool:
    """Return whether a letter is as wide as East Asian ones."""
    return east_asian_width(letter) in "WF"


def _size(letter: str) -> float:
    """Return the width of a letter in digits, the unit of column widths: that of wide fonts, so that no line is cut."""
    if _is_wide(letter):
        return 2.0
    if category(letter).startswith("M"):
        return 0.0
    if letter in _NARROW:
        return 0.65
    return 1.6 if letter in _WIDE else 1.25 if letter.isupper() or letter > "\u024f" else 1.0
