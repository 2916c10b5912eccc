"""Read the text of a PDF as people read it: columns, without running heads, pages and footnotes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from nbaudio.core.errors import InputError
from nbaudio.formats.pdf_glyphs import Page, read_pages
from nbaudio.formats.pdf_lines import Line, page_gutters, page_rows, reading_order
from nbaudio.formats.pdf_margins import running_heads, without_line_numbers
from nbaudio.text.hyphens import CONJUNCTIONS

#: What is left out, by what it is called in reports.
RUNNING_HEADS = "running heads and page numbers of PDFs"
FOOTNOTES = "footnotes of PDFs"
LINE_NUMBERS = "line numbers of PDFs"
TURNED = "letters of PDFs in another direction"

_OCR = "recognize their letters (OCR) first"

# Columns.
_SAME_GUTTER = 6.0  # points between gutters of one place
_LEAST_GUTTER_SHARE = 0.3  # of the pages that have a usual gutter

# Footnotes.
_SMALLER = 0.93  # of the size of most letters
_FOOTNOTE_MARK = re.compile(r"[\d⁰¹²³⁴-⁹*†‡§]")

# Paragraphs.
_PARAGRAPH_GAP = 1.35  # of the usual distance between lines
_INDENT = 0.8  # of the size of the font
_ENDS_SHORT = 0.05  # of the width of a column
_OTHER_SIZE = 1.1  # ratio of sizes of fonts that are not of one paragraph
_SENTENCE_END = re.compile(r"[.!?…:;]\W*$")

_LONGEST_SPEAKER_NAME = 80  # letters; more in bold are a heading or emphasis

# Hyphens at the end of a line behind a letter.
_BROKEN = re.compile(r"(?<=[^\W_])[-‐]$")
_FIRST_LETTERS = re.compile(r"[^\W\d_]+")
_LAST_LETTERS = re.compile(r"[^\W\d_]+(?=[-‐]$)")
_COMPOUND = re.compile(r"[^\W\d_]+(?:[-‐][^\W\d_]+)+")
_LETTERS = re.compile(r"[^\W\d_]+")


class PdfLine(NamedTuple):
    """A line of the text of a PDF.

    Attributes:
        start: its first character in the text.
        page: from 1.
        number: on its page from 1, in reading order, running heads not counted.
    """

    start: int
    page: int
    number: int


@dataclass(frozen=True)
class PdfText:
    """The text of a PDF.

    Attributes:
        text: blank lines separate paragraphs.
        lines: in order.
        left_out: what is no text of the minutes, with its numbers.
        problems: pages that cannot be read, with reasons.
    """

    text: str
    lines: list[PdfLine]
    left_out: Counter[str] = field(default_factory=Counter)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class _PageLine:
    """A line and the number of its page."""

    page: int
    line: Line


def read_pdf(path: Path, content: bytes) -> PdfText:
    """Read the text of a PDF.

    Columns are read one after the other; running heads, page numbers and footnotes are left out.
    A word that a hyphen divides at the end of a line is joined, and stays in the first line; see
    `_joined` for hyphens that stay.

    Args:
        path: of the file, for messages.
        content: of the file.

    Raises:
        InputError: the file is encrypted, damaged, too large, or has no text.
        MissingExtraError: pypdfium2 is not installed.
    """
    pages = read_pages(path, content)
    left_out = Counter({TURNED: sum(page.num_turned for page in pages)})
    numbered = {page.number: without_line_numbers(page_rows(page.glyphs)) for page in pages}
    left_out[LINE_NUMBERS] = sum(page.line_numbers for page in numbered.values())
    rows = {number: page.rows for number, page in numbered.items()}
    heads = running_heads(rows)
    left_out[RUNNING_HEADS] = sum(map(len, heads.values()))
    bodies = {
        number: [row for place, row in enumerate(page) if place not in heads[number]]
        for number, page in rows.items()
    }
    problems = tuple(_page_problems(pages, bodies))
    if not any(bodies.values()):
        raise InputError(f"{path}: {'; '.join(problems) or 'no text'}")
    gutters = _usual_gutters(bodies)
    lines = [
        _PageLine(number, line)
        for number, page in bodies.items()
        for line in reading_order(page, gutters)
    ]
    body = list(_without_footnotes(lines))
    left_out[FOOTNOTES] = len(lines) - len(body)
    return _text(body, left_out, problems)


def _usual_gutters(bodies: Mapping[int, Sequence[Line]]) -> list[float]:
    """Return the places between columns that many pages have, in points."""
    places = [(place, page) for page, rows in bodies.items() for place in page_gutters(rows)]
    least = _LEAST_GUTTER_SHARE * sum(bool(rows) for rows in bodies.values())
    usual = set[float]()
    for place, _ in places:
        pages = {page for other, page in places if abs(other - place) <= _SAME_GUTTER}
        if len(pages) >= least:
            usual.add(place)
    return sorted(usual)


def _page_problems(pages: Sequence[Page], bodies: Mapping[int, Sequence[Line]]) -> Iterator[str]:
    """Yield which pages are scanned, damaged, or have letters without characters.

    Scanned ones may have running heads, but no other rows (`bodies`, by the number of the page).
    """
    unmapped = [page.number for page in pages if page.is_unmapped]
    scanned = [
        page.number
        for page in pages
        if page.is_covered and not page.is_unmapped and not bodies[page.number]
    ]
    damaged = [page.number for page in pages if page.is_damaged]
    for numbers, reason, remedy in (
        (scanned, "scanned, without text", f"; {_OCR}"),
        (unmapped, "in fonts that do not say which letters they have", f"; {_OCR}"),
        (damaged, "damaged", ""),
    ):
        be = "is" if len(numbers) == 1 else "are"
        if len(numbers) == len(pages):
            every = "its page" if len(pages) == 1 else f"all {len(pages):,} pages"
            yield f"{every} {be} {reason}{remedy}"
        elif numbers:
            yield (
                f"{len(numbers):,} of {len(pages):,} pages {be} {reason}: "
                f"{_ranges(numbers)}{remedy}"
            )


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers in order as text.

    Example:
        >>> _ranges([3, 5, 6, 7])
        '3, 5-7'
    """
    ranges: list[list[int]] = []  # of the first and the last number, which may be equal
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(_range(first, last) for first, last in ranges)


def _range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}"


def _without_footnotes(lines: Sequence[_PageLine]) -> Iterator[_PageLine]:
    """Yield lines without those of footnotes.

    These are in smaller letters at the end of a column, and the first of them begins with a mark.
    """
    sizes = Counter(round(item.line.size, 1) for item in lines for _ in item.line.text)
    body = max(sizes, key=lambda size: (sizes[size], size))
    column: list[_PageLine] = []
    for item in lines:
        if column and not _are_in_one_column(column[-1], item):
            yield from _column_without_footnotes(column, body)
            column = []
        column.append(item)
    yield from _column_without_footnotes(column, body)


def _are_in_one_column(item: _PageLine, following: _PageLine) -> bool:
    return item.page == following.page and item.line.column == following.line.column


def _column_without_footnotes(column: list[_PageLine], body: float) -> list[_PageLine]:
    """Return the lines of a column above its footnotes; `body` is the size of most letters."""
    start = len(column)
    while start and column[start - 1].line.size < _SMALLER * body:
        start -= 1
    for number in range(start, len(column)):
        if _FOOTNOTE_MARK.match(column[number].line.text):
            return column[:number]
    return column


def _text(lines: Sequence[_PageLine], left_out: Counter[str], problems: tuple[str, ...]) -> PdfText:
    """Return the text of lines, with words that line ends divide joined."""
    spacing = _line_spacing(lines)
    begins = [True, *(_begins_paragraph(*pair, spacing) for pair in pairwise(lines))]
    texts = []
    for item, is_first in zip(lines, begins, strict=True):
        text = item.line.text
        if is_first:
            text = _with_marked_name(item.line)
        texts.append(text)
    joined = _joined(texts, begins)
    parts: list[str] = []
    places: list[PdfLine] = []
    length = 0
    for item, line_text, is_first in zip(lines, joined, begins, strict=True):
        if not line_text:
            continue
        separator = "\n\n" if is_first else "\n"
        if not parts:
            separator = ""
        length += len(separator)
        places.append(PdfLine(length, item.page, item.line.number))
        parts += (separator, line_text)
        length += len(line_text)
    return PdfText("".join(parts), places, left_out, problems)


def _with_marked_name(line: Line) -> str:
    """Return the first line of a paragraph, with a tab behind bold words before others.

    They are often the name of a speaker, which the tab tells from the words.
    """
    bold = list(takewhile(lambda word: word.is_bold, line.words))
    name = " ".join(word.text for word in bold)
    others = " ".join(word.text for word in line.words[len(bold) :])
    if name and others and len(name) <= _LONGEST_SPEAKER_NAME:
        return f"{name}\t{others}"
    return line.text


def _line_spacing(lines: Sequence[_PageLine]) -> float:
    """Return the usual distance between baselines of a column, in sizes of the font."""
    steps = [
        (after.line.baseline - before.line.baseline) / before.line.size
        for before, after in pairwise(lines)
        if _are_in_one_column(before, after)
    ]
    return median(steps) if steps else 1.2


def _begins_paragraph(before: _PageLine, after: _PageLine, spacing: float) -> bool:
    """Return whether a line begins a paragraph behind the line before it.

    That is where letters are larger or smaller, or a gap is above it; and, unless it begins in
    lower case, where it is indented or the line before has room for its first word.
    """
    size = before.line.size
    if not 1 / _OTHER_SIZE <= after.line.size / size <= _OTHER_SIZE:
        return True
    is_in_column = _are_in_one_column(before, after)
    step = after.line.baseline - before.line.baseline
    if is_in_column and step > _PARAGRAPH_GAP * spacing * size:
        return True
    if after.line.text[:1].islower():
        return False
    (left, _) = after.line.column
    is_first_indented = is_in_column and before.line.left > left + _INDENT * size
    is_indented = after.line.left > left + _INDENT * size and not is_first_indented
    return is_indented or _has_room(before.line, after.line)


def _has_room(line: Line, following: Line) -> bool:
    """Return whether the first word of the following line fits behind a line."""
    left, right = line.column
    word = following.words[0]
    return line.right + word.right - word.left < right - _ENDS_SHORT * (right - left)


def _joined(texts: Sequence[str], begins: Sequence[bool]) -> list[str]:
    """Return lines with the words joined that a hyphen at a line end divides.

    The second part moves to the first line. Within a paragraph, the hyphen stays where the
    document has the word with a hyphen elsewhere, and not without one; or else before a capital
    letter, unless the letters before it are capitals too, or a digit. Both parts stay where they
    are if the second one is a conjunction, as in "Haus- und Hofmeister".
    """
    lexicon = _Lexicon.of(texts)
    joined = [*texts]
    for number in range(1, len(joined)):
        line, following = joined[number - 1 : number + 1]
        first, _, rest = following.partition(" ")
        letters = _FIRST_LETTERS.match(first)
        is_continued = first[:1].isalnum() and not (letters and letters[0] in CONJUNCTIONS)
        if is_continued and not begins[number] and _BROKEN.search(line):
            if not lexicon.keeps_hyphen(line, first):
                line = line[:-1]
            joined[number - 1] = line + first
            joined[number] = rest
    return joined


@dataclass(frozen=True)
class _Lexicon:
    """Words of a document that are within its lines, in lower case: whole, and with hyphens."""

    words: frozenset[str]
    compounds: frozenset[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "_Lexicon":
        """Return the words of lines."""
        words = (word.casefold() for text in texts for word in _LETTERS.findall(text))
        compounds = (word.casefold() for text in texts for word in _COMPOUND.findall(text))
        return cls(frozenset(words), frozenset(compounds))

    def keeps_hyphen(self, line: str, following: str) -> bool:
        """Return whether a word that a line end divides has a hyphen; see `_joined`."""
        head = _LAST_LETTERS.search(line)
        tail = _FIRST_LETTERS.match(following)
        if not head or not tail:
            return True
        if (head[0] + tail[0]).casefold() in self.words:
            return False
        if f"{head[0]}-{tail[0]}".casefold() in self.compounds:
            return True
        return tail[0][0].isupper() and not (head[0].isupper() and tail[0].isupper())
