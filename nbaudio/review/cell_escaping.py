"""Write texts into cells of .xlsx, .csv and .tsv files so that every program shows them as texts.

A text that looks like a formula, a number or markup is escaped, and restored when it is read.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, BinaryIO, NamedTuple

import polars as pl

from nbaudio.text import DiffPart, word_diff, word_spans

MAX_CELL = 32_767  # UTF-16 code units
#: The creation date of every workbook: with the real one, equal rows would give different bytes.
CREATION_DATE = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
#: By ending of the file.
SEPARATORS = {"csv": ",", "tsv": "\t"}

# The end of a text that was too long for its cell.
_TRUNCATED = re.compile(r" \[cut here: [\d,]+ characters in all\]$")
# XML cannot hold control characters, and LibreOffice drops tabs; Unicode has pictures of them.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) != "\n"} | {
    0x7F: 0x2421,
    0xFFFE: 0xFFFD,
    0xFFFF: 0xFFFD,
}
# Excel's escape of a character in a cell, such as _x0041_ for A.
_ESCAPED_CHARACTER = re.compile("_x([0-9A-Fa-f]{4})_")
# Positions in a text where xlsxwriter would take what follows for an escape of Excel, or the text
# for rich text of its own. A fragment is divided there, so that xlsxwriter sees neither.
_MISTAKEN_BY_XLSXWRITER = re.compile("(?<=_)(?=x)|(?<=^<)(?=r>)")

# The first character of a formula, also in full width or small, as programs of East Asia read them.
_FORMULA_SIGN = "[=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212]"
# What programs skip before a formula: blanks, line breaks, characters without width, separators.
_SKIPPED = r"[\s\u200b-\u200f\u2060\ufeff;,|]*"
# The beginning of a text that a program would change: a formula, an error such as #N/A, a number, a
# date, a constant. And an apostrophe, as `unescape_formula` removes one.
_INTERPRETED = re.compile(
    rf"[\t\r'#]|{_SKIPPED}{_FORMULA_SIGN}|\d[\d.,:/%eE-]*$|(true|false)$", re.IGNORECASE
)
# Within a text: a separator or a line break ends the cell where a program reads the file with
# another separator than it has. A formula behind it would be computed; apostrophes may precede it.
_FORMULA_FOLLOWS = rf"(?='*(?:{_FORMULA_SIGN}|\s+[=\uff1d]))"
_BEFORE_FORMULA_WITHIN = re.compile(rf"(?<=[;,|\t\n]){_FORMULA_FOLLOWS}")
_APOSTROPHE_WITHIN = re.compile(rf"(?<=[;,|\t\n])'{_FORMULA_FOLLOWS}")


class Fragment(NamedTuple):
    """A part of a text that is compared with another text; `differs` if its words do."""

    text: str
    differs: bool = False


class DiffFragments(NamedTuple):
    """Two texts that were compared, in fragments; joined, they are the texts again."""

    reference: list[Fragment]
    hypothesis: list[Fragment]


def new_workbook(out: BinaryIO, title: str) -> Any:
    """Return an xlsxwriter workbook in which texts stay texts; closing it writes it to `out`."""
    import xlsxwriter  # type: ignore[import-untyped]

    plain = {"strings_to_formulas": False, "strings_to_numbers": False, "strings_to_urls": False}
    book = xlsxwriter.Workbook(out, {"in_memory": True, **plain})
    book.set_properties({"title": cell_text(title), "created": CREATION_DATE})
    return book


def cell_text(text: str) -> str:
    """Return a text that a cell can hold.

    Control characters become pictures, and a text that is too long is truncated with a mark.
    """
    text = text.translate(_PICTURES)
    encoded = text.encode("utf-16-le")
    if len(encoded) <= 2 * MAX_CELL:
        return text
    mark = f" [cut here: {len(text):,} characters in all]"
    # A character beyond the basic plane takes two units; half a character is dropped.
    return encoded[: 2 * (MAX_CELL - len(mark))].decode("utf-16-le", "ignore") + mark


def is_truncated(text: str) -> bool:
    """Return whether a text has the mark of `cell_text` for a text that was too long."""
    return bool(_TRUNCATED.search(text))


def restore_controls(text: str, original: str) -> str:
    """Replace pictures by the control characters that the original text has.

    Pictures that the original text itself has stay as they are.
    """
    controls = {_PICTURES[ord(char)]: char for char in original if ord(char) in _PICTURES}
    return text.translate(
        {picture: char for picture, char in controls.items() if chr(picture) not in original}
    )


def normalize_cell(text: str) -> str:
    """Resolve the escapes of Excel, so that a cell can be compared with the text that was written.

    In a file, ``_x0041_`` is the escape of ``A``, and a text that has these characters is written
    as ``_x005F_x0041_``. Some programs resolve escapes, some do not, and some do it twice.

    Examples:
        >>> {normalize_cell(cell) for cell in ("_x005F_x0041_", "_x0041_", "A")}
        {'A'}
    """
    without_escaped_escapes = text.replace("x005F_", "")
    return _ESCAPED_CHARACTER.sub(lambda escape: chr(int(escape[1], 16)), without_escaped_escapes)


def diff_fragments(reference: str, hypothesis: str, **compared: Any) -> DiffFragments:
    """Compare two texts by `word_diff` with these options, and mark the words with errors."""
    parts = word_diff(reference, hypothesis, **compared)
    in_reference = [_is_error(part) for part in parts for _ in part.reference]
    in_hypothesis = [_is_error(part) for part in parts for _ in part.hypothesis]
    return DiffFragments(_fragments(reference, in_reference), _fragments(hypothesis, in_hypothesis))


def _is_error(part: DiffPart) -> bool:
    """Return whether words differ in more than formatting."""
    return part.kind not in ("equal", "formatting")


def _fragments(text: str, differs: Sequence[bool]) -> list[Fragment]:
    """Return a text as stretches of equal and of differing words; `differs` has a flag a word."""
    fragments: list[Fragment] = []
    position = 0
    words = zip(word_spans(text), differs, strict=True)
    for is_differing, stretch in groupby(words, key=itemgetter(1)):
        if is_differing:
            # The blanks between differing words are marked too: one stretch instead of many.
            spans = [span for span, _ in stretch]
            start = spans[0][0]
            end = spans[-1][1]
            fragments.append(Fragment(text[position:start]))
            fragments.append(Fragment(text[start:end], differs=True))
            position = end
    fragments.append(Fragment(text[position:]))
    return [fragment for fragment in fragments if fragment.text]


def put_fragments(
    sheet: Any,
    place: tuple[int, int],
    fragments: list[Fragment],
    fonts: Mapping[bool, Any],
    style: Any,
) -> None:
    """Write fragments into a cell of an xlsxwriter sheet as one text, each in its font.

    Args:
        sheet: the sheet.
        place: row and column of the cell, from 0.
        fragments: the text; without any, the cell is blank.
        fonts: xlsxwriter formats of fragments that differ (True) and that do not (False).
        style: the xlsxwriter format of the cell; None for the default.
    """
    text = "".join(fragment.text for fragment in fragments)
    # xlsxwriter writes a text with these tags as markup, without escaping it.
    looks_like_markup = text.startswith("<r>") and text.endswith("</r>")
    if not text:
        sheet.write_blank(*place, None, style)
    elif len(fragments) == 1 and not looks_like_markup:
        sheet.write_string(*place, text, style)
    else:
        # xlsxwriter takes fonts and texts in turn, two texts or more, and the style of the cell.
        tokens: list[Any] = []
        for fragment in fragments:
            for part in _MISTAKEN_BY_XLSXWRITER.split(fragment.text):
                tokens += [fonts[fragment.differs], part]
        if style is not None:
            tokens.append(style)
        sheet.write_rich_string(*place, *tokens)


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet computes or reads as a number.

    An apostrophe is put before what would be interpreted, as people write it by hand: at the
    beginning, and within the text before what would be a formula in a cell of its own.

    Examples:
        >>> [escape_formula(text) for text in ("=1+1", "da;=1", "da, ne")]
        ["'=1+1", "da;'=1", 'da, ne']
    """
    escaped_within = _BEFORE_FORMULA_WITHIN.sub("'", text)
    if _INTERPRETED.match(text):
        return f"'{escaped_within}"
    return escaped_within


def unescape_formula(text: str) -> str:
    """Return the text that `escape_formula` was given; other texts stay as they are."""
    unescaped_within = _APOSTROPHE_WITHIN.sub("", text)
    without_apostrophe = unescaped_within.removeprefix("'")
    if _INTERPRETED.match(without_apostrophe):
        return without_apostrophe
    return unescaped_within


def unescape_copy(text: str, transcript: str) -> str:
    """Return a correction that begins with a copy of an escaped transcript, without the escapes.

    Args:
        text: the correction. It need not be what `escape_formula` returns, as words may have been
            added or changed.
        transcript: the transcript before `escape_formula`.
    """
    unescaped_within = _APOSTROPHE_WITHIN.sub("", text)
    if _INTERPRETED.match(transcript):
        return unescaped_within.removeprefix("'")
    return unescaped_within


def write_delimited(rows: pl.DataFrame, kind: str) -> bytes:
    """Return a table of texts and numbers as the bytes of a .csv or .tsv file (`kind`).

    Nulls become empty cells.
    """
    texts = pl.col(pl.String).map_elements(
        lambda text: escape_formula(cell_text(text)), return_dtype=pl.String
    )
    table = rows.with_columns(texts).write_csv(separator=SEPARATORS[kind], line_terminator="\r\n")
    return table.encode("utf-8-sig")  # Excel needs the byte order mark
