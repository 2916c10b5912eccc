"""Text in spreadsheet cells and in CSV and TSV files.

It is escaped so that no program interprets it, and restored when read.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, BinaryIO

import polars as pl

from nbaudio.text import word_diff, word_spans

MAX_CELL = 32_767  # UTF-16 code units
#: The creation date of every workbook: with the real one, equal rows would give different bytes.
MADE = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
# Ends a text that was too long for its cell.
TRUNCATED = re.compile(r" \[cut here: [\d,]+ characters in all\]$")
SEPARATORS = {"csv": ",", "tsv": "\t"}

# XML cannot hold control characters, and LibreOffice drops tabs; Unicode has pictures of them.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) != "\n"} | {
    0x7F: 0x2421,
    0xFFFE: 0xFFFD,
    0xFFFF: 0xFFFD,
}
# Where rich text is split: xlsxwriter escapes what looks like Excel's own escape, _x0041_, twice,
# and needs two parts or more.
_RICH_TRAPS = re.compile("(?<=_)(?=x)|(?<=^<)(?=r>)")
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
# What begins a formula, also in full width or small, as programs of East Asia read them.
_FORMULA = "[=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212]"
# What programs skip before a formula: blanks, line breaks, characters without width, separators.
_SKIPPED = r"[\s\u200b-\u200f\u2060\ufeff;,|]*"
# A formula, number, date or constant; and the apostrophe itself, or a text that begins with one
# would lose it.
_COMPUTED = re.compile(
    rf"[\t\r'#]|{_SKIPPED}{_FORMULA}|\d[\d.,:/%eE-]*$|(true|false)$", re.IGNORECASE
)
# Within a text: a separator or line break that ends the cell where the file is read with another
# separator than it has, and what would be a formula then, behind any apostrophes.
_FORMULA_AHEAD = rf"(?='*(?:{_FORMULA}|\s+[=\uff1d]))"
_NEXT_CELL = re.compile(rf"(?<=[;,|\t\n]){_FORMULA_AHEAD}")
_ESCAPED_NEXT_CELL = re.compile(rf"(?<=[;,|\t\n])'{_FORMULA_AHEAD}")

Fragment = tuple[str, bool]  # a stretch of text, and whether its words differ from the other side


def new_workbook(out: BinaryIO, title: str) -> Any:
    """Return an xlsxwriter workbook in which texts stay texts; closing it writes it to `out`."""
    import xlsxwriter  # type: ignore[import-untyped]

    plain = {"strings_to_formulas": False, "strings_to_numbers": False, "strings_to_urls": False}
    book = xlsxwriter.Workbook(out, {"in_memory": True, **plain})
    book.set_properties({"title": cell_text(title), "created": MADE})
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


def restore_controls(text: str, original: str) -> str:
    """Replace pictures by the control characters that the original text has.

    Pictures that the original text itself has stay as they are.
    """
    back = {_PICTURES[code]: code for code in map(ord, original) if code in _PICTURES}
    return text.translate(
        {picture: code for picture, code in back.items() if chr(picture) not in original}
    )


def normalize_cell(text: str) -> str:
    """Return a text without Excel's escapes, which some programs resolve and some do not."""
    return _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), text.replace("x005F_", ""))


def diff_fragments(
    reference: str, hypothesis: str, **compared: Any
) -> tuple[list[Fragment], list[Fragment]]:
    """Split texts into fragments, marked where `word_diff` with these options finds errors.

    Joined, they are the texts again.
    """
    parts = word_diff(reference, hypothesis, **compared)
    left = [part.kind not in ("equal", "formatting") for part in parts for _ in part.reference]
    right = [part.kind not in ("equal", "formatting") for part in parts for _ in part.hypothesis]
    return _fragments(reference, left), _fragments(hypothesis, right)


def _fragments(text: str, differs: Sequence[bool]) -> list[Fragment]:
    """Return a text as stretches of equal and of differing words; `differs` has a flag a word."""
    fragments: list[Fragment] = []
    position = 0
    for marked, words in groupby(zip(word_spans(text), differs, strict=True), key=itemgetter(1)):
        if marked:
            # The blanks between differing words are marked too: one stretch instead of many.
            spans = [span for span, _ in words]
            start = spans[0][0]
            stop = spans[-1][1]
            fragments += [(text[position:start], False), (text[start:stop], True)]
            position = stop
    return [fragment for fragment in (*fragments, (text[position:], False)) if fragment[0]]


def put_fragments(
    sheet: Any,
    place: tuple[int, int],
    fragments: list[Fragment],
    fonts: Mapping[bool, Any],
    style: Any,
) -> None:
    """Write fragments into a cell of an xlsxwriter sheet as one text, each in its font."""
    text = "".join(piece for piece, _ in fragments)
    # xlsxwriter takes such a text for its own rich text, and writes the tags unescaped.
    looks_rich = text.startswith("<r>") and text.endswith("</r>")
    if not text:
        sheet.write_blank(*place, None, style)
    elif len(fragments) == 1 and not looks_rich:
        sheet.write_string(*place, text, style)
    else:
        parts = [
            (part, differs) for piece, differs in fragments for part in _RICH_TRAPS.split(piece)
        ]
        styles = () if style is None else (style,)
        sheet.write_rich_string(
            *place, *(token for part, differs in parts for token in (fonts[differs], part)), *styles
        )


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet computes or reads as a number.

    Where it is needed, an apostrophe is put in front, as people write it by hand.

    Examples:
        >>> [escape_formula(text) for text in ("=1+1", "da;=1", "da, ne")]
        ["'=1+1", "da;'=1", 'da, ne']
    """
    within = _NEXT_CELL.sub("'", text)
    return f"'{within}" if _COMPUTED.match(text) else within


def unescape_formula(text: str) -> str:
    """Invert `escape_formula`; return other texts as they are."""
    inner = _ESCAPED_NEXT_CELL.sub("", text)
    if inner.startswith("'") and _COMPUTED.match(inner[1:]):
        return inner[1:]
    return inner


def unescape_copy(text: str, transcript: str) -> str:
    """Return a text that was copied from an escaped transcript, and perhaps changed."""
    inner = _ESCAPED_NEXT_CELL.sub("", text)
    return inner.removeprefix("'") if _COMPUTED.match(transcript) else inner


def write_delimited(rows: pl.DataFrame, kind: str) -> bytes:
    """Return a table of texts and numbers as the bytes of a .csv or .tsv file (`kind`).

    Nulls become empty cells.
    """
    texts = pl.col(pl.String).map_elements(
        lambda text: escape_formula(cell_text(text)), return_dtype=pl.String
    )
    table = rows.with_columns(texts).write_csv(separator=SEPARATORS[kind], line_terminator="\r\n")
    return table.encode("utf-8-sig")  # Excel needs the byte order mark
