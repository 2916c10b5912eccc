"""Find what is around the text of the pages of a PDF: running heads, and numbers of lines."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from statistics import median

from nbaudio.formats.pdf_lines import Line, Word

# Running heads.
_EDGE_ROWS = 3  # rows at the top and at the bottom of a page that may be running heads
_SAME_PLACE = 3.0  # points; largest distance between the places of a head on different pages
_LEAST_SHARE = 0.3  # share of pages on which a head repeats
_GAP = 1.2  # least distance between a head and the text, in usual distances of rows
_APART = 1.7  # the same for a head whose text changes
_LEAST_APART_SHARE = 0.5  # share of pages that have a head whose text changes
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_PAGE_NUMBER = re.compile(
    r"[-–—|•·\s]*(?:\d{1,4}(?:\s?/\s?\d{1,4})?|[ivx]{1,6}|[IVX]{1,6})[-–—|•·\s]*"
)

# Numbers of lines.
_MARGIN_GAP = 0.6  # blank between a number and its line, of the size of the font
_LEAST_NUMBERS = 4


@dataclass(frozen=True)
class NumberedRows:
    """The rows of a page without numbers of lines, and how many these are."""

    rows: list[Line]
    line_numbers: int


def without_line_numbers(rows: Sequence[Line]) -> NumberedRows:
    """Return rows without the numbers that count them in the left or right margin."""
    for edge in (0, -1):
        numbers = {
            place: row.words[edge] for place, row in enumerate(rows) if _has_number(row, edge)
        }
        if _are_line_numbers(list(numbers.values())):
            remaining = [
                replace(row, words=[word for word in row.words if word is not numbers.get(place)])
                for place, row in enumerate(rows)
            ]
            return NumberedRows([row for row in remaining if row.words], len(numbers))
    return NumberedRows(list(rows), 0)


def _has_number(row: Line, edge: int) -> bool:
    """Return whether the first or last word of a row is a number with a gap beside it."""
    word = row.words[edge]
    if not word.text.isdecimal():
        return False
    if len(row.words) == 1:
        return True
    neighbor = row.words[1] if edge == 0 else row.words[-2]
    gap = max(neighbor.left - word.right, word.left - neighbor.right)
    return gap > _MARGIN_GAP * neighbor.size


def _are_line_numbers(numbers: Sequence[Word]) -> bool:
    """Return whether numbers, from top to bottom, rise by one step and are in one column."""
    if len(numbers) < _LEAST_NUMBERS:
        return False
    steps = {int(after.text) - int(word.text) for word, after in pairwise(numbers)}
    edges = [[word.left for word in numbers], [word.right for word in numbers]]
    is_aligned = min(max(edge) - min(edge) for edge in edges) <= _SAME_PLACE
    return len(steps) == 1 and steps <= {1, 2, 5, 10} and is_aligned


def running_heads(rows: dict[int, list[Line]]) -> dict[int, set[int]]:
    """Return for each page the rows that are running heads or page numbers.

    Running heads are first or last rows of a page, with a gap between them and the text. They
    repeat at the same place of other pages with a text that differs only in numbers; or with any
    text if half of the pages have such a row there. A page number may be the first or last row.
    What a gap divides from the text on half of its pages is a head on the others, too, where a
    footnote may be close to it.

    Args:
        rows: the rows of each page, by page, from top to bottom.
    """
    groups = _repeated_rows(rows)
    repeated = set[tuple[int, int]]().union(*groups) | _apart_rows(rows)
    spacing = _row_spacing(rows.values())
    heads: dict[int, set[int]] = {}
    for page, lines in rows.items():
        is_head = [(page, number) in repeated for number in range(len(lines))]
        if len(lines) > 2:
            is_head[0] |= _is_number(lines[0])
            is_head[-1] |= _is_number(lines[-1])
        places = [line.baseline for line in lines]
        top = _count_heads(is_head, places, spacing)
        bottom = _count_heads(is_head[::-1], [-place for place in reversed(places)], spacing)
        heads[page] = {*range(top), *range(len(lines) - bottom, len(lines))}
    for page, number in [row for group in groups for row in _heads_of_group(group, heads)]:
        if number in (0, len(rows[page]) - 1):
            heads[page].add(number)
    return heads


def _heads_of_group(
    group: set[tuple[int, int]], heads: dict[int, set[int]]
) -> set[tuple[int, int]]:
    """Return all pages and rows of a group if half of its rows are heads, else none."""
    num_heads = sum(number in heads[page] for page, number in group)
    if 2 * num_heads >= len(group):
        return group
    return set()


def _count_heads(is_head: Sequence[bool], places: Sequence[float], spacing: float) -> int:
    """Return how many rows at an edge are heads: up to the last one that a gap divides from text.

    Args:
        is_head: which rows may be heads, from the edge of the page.
        places: of the baselines in points, rising.
        spacing: the usual distance of rows in points.
    """
    steps = [*(after - place for place, after in pairwise(places)), math.inf]
    num_heads = 0
    for number in takewhile(lambda number: is_head[number], range(len(is_head))):
        if steps[number] > _GAP * spacing:
            num_heads = number + 1
    return num_heads


def _row_spacing(rows: Iterable[Sequence[Line]]) -> float:
    """Return the usual distance of the rows of pages in points."""
    steps = [after.baseline - line.baseline for lines in rows for line, after in pairwise(lines)]
    return median(steps) if steps else 0.0


def _repeated_rows(rows: dict[int, list[Line]]) -> list[set[tuple[int, int]]]:
    """Return rows at an edge of their page that repeat on other pages.

    Each set has the pages and numbers of rows with one text at one place.
    """
    groups = defaultdict[tuple[str, int], set[tuple[int, int]]](set)
    for page, lines in rows.items():
        for number in _edge_rows(len(lines)):
            line = lines[number]
            text = _NUMBER.sub("#", line.text.casefold())
            for place in (round(line.baseline / _SAME_PLACE) + step for step in (0, 1)):
                groups[text, place].add((page, number))
    pages = sum(bool(lines) for lines in rows.values())
    least = max(2, min(3, pages), _LEAST_SHARE * pages)
    return [group for group in groups.values() if len(group) >= least]


def _apart_rows(rows: dict[int, list[Line]]) -> set[tuple[int, int]]:
    """Return pages and numbers of first and last rows with a wide gap, at one place of pages."""
    groups = defaultdict[tuple[int, int], set[tuple[int, int]]](set)
    spacing = _row_spacing(rows.values())
    for page, lines in rows.items():
        steps = [after.baseline - line.baseline for line, after in pairwise(lines)]
        for edge in (0, -1):
            if len(steps) > 2 and steps[edge] > _APART * spacing:
                place = round(lines[edge].baseline / _SAME_PLACE)
                row = (page, edge % len(lines))
                groups[edge, place].add(row)
                groups[edge, place + 1].add(row)
    least = max(3, _LEAST_APART_SHARE * sum(bool(lines) for lines in rows.values()))
    return {row for group in groups.values() if len(group) >= least for row in group}


def _edge_rows(count: int) -> list[int]:
    """Return the numbers of the rows at the top and at the bottom of `count` rows."""
    return [number for number in range(count) if not _EDGE_ROWS <= number < count - _EDGE_ROWS]


def _is_number(line: Line) -> bool:
    return bool(_PAGE_NUMBER.fullmatch(line.text))
