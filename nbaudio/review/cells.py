"""Text for spreadsheet cells: nothing in it is interpreted, nothing that a cell cannot hold gets lost unseen."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from nbaudio.text import word_diff, word_spans

#: UTF-16 code units that a cell holds.
MAX_CELL = 32_767

#: The date in every workbook as it is made: without, equal rows would give other bytes.
MADE = dt.datetime(2000, 1, 1)  # noqa: DTZ001

#: How a text ends that was too long for its cell.
TRUNCATED = re.compile(r" \[cut here: [\d,]+ characters in all\]$")

# XML has no place for controls, and LibreOffice drops tabs; Unicode has pictures of them.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) != "\n"} | {
    0x7F: 0x2421,
    0xFFFE: 0xFFFD,
    0xFFFF: 0xFFFD,
}

# Where rich text is parted: xlsxwriter escapes twice what looks like Excel's own escape, _x0041_, and wants two parts or more.
_RICH_TRAPS = re.compile("(?<=_)(?=x)|(?<=^<)(?=r>)")

_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")

# A stretch of text, and whether its words differ from the other side.
Fragment = tuple[str, bool]


def new_workbook(out: BinaryIO, title: str) -> Any:
    """An xlsxwriter workbook to write into, in which texts stay texts; closing it writes it to `out`."""
    import xlsxwriter  # type: ignore[import-untyped]

    plain = {"strings_to_formulas": False, "strings_to_numbers": False, "strings_to_urls": False}
    book = xlsxwriter.Workbook(out, {"in_memory": True, **plain})
    book.set_properties({"title": cell_text(title), "created": MADE})
    return book


def cell_text(text: str) -> str:
    r"""A text as a cell can hold it: controls as pictures of them, and cut with a mark where it is too long.

    Examples:
        >>> cell_text("da\x07 =1+1")
        'da␇ =1+1'
        >>> cell_text("a" * 40_000)[-40:]
        'aaa [cut here: 40,000 characters in all]'
    """
    text = text.translate(_PICTURES)
    encoded = text.encode("utf-16-le")
    if len(encoded) <= 2 * MAX_CELL:
        return text
    mark = f" [cut here: {len(text):,} characters in all]"
    # A character beyond the basic plane takes two units; its first half alone is dropped.
    return encoded[: 2 * (MAX_CELL - len(mark))].decode("utf-16-le", "ignore") + mark


def restore_controls(text: str, original: str) -> str:
    r"""What was typed in a cell, with controls in place of their pictures where the original has the control, not the picture.

    Examples:
        >>> restore_controls("da␇ ne␊", "da\x07")
        'da\x07 ne␊'
    """
    back = {_PICTURES[code]: code for code in map(ord, original) if code in _PICTURES}
    return text.translate({picture: code for picture, code in back.items() if chr(picture) not in original})


def normalize_cell(text: str) -> str:
    """A text as far as every program brings it back: without Excel's escapes, which some read and some do not.

    Examples:
        >>> normalize_cell("_x005F_x0041_ da") == normalize_cell("_x0041_ da") == normalize_cell("A da")
        True
    """
    plain = text.replace("x005F_", "")
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), plain)


def diff_fragments(reference: str, hypothesis: str, *, steps: Sequence[str] = ()) -> tuple[list[Fragment], list[Fragment]]:
    """Both texts in fragments, words that differ after `steps` marked; each side's fragments make up its text again.

    Examples:
        >>> diff_fragments("evo blic odgovori", "evo blitz odgovori")[1]
        [('evo ', False), ('blitz', True), (' odgovori', False)]
    """
    parts = word_diff(reference, hypothesis, steps=steps)
    left = [part.kind != "equal" for part in parts for _ in part.reference]
    right = [part.kind != "equal" for part in parts for _ in part.hypothesis]
    return _fragments(reference, left), _fragments(hypothesis, right)


def _fragments(text: str, differs: Sequence[bool]) -> list[Fragment]:
    found: list[Fragment] = []
    position = 0
    for (start, stop), marks in zip(word_spans(text), differs, strict=True):
        # The blank between two differing words is marked with them: one stretch instead of many.
        inside = marks and bool(found) and found[-1][1]
        found += [(text[position:start], inside), (text[start:stop], marks)]
        position = stop
    merged: list[Fragment] = []
    for piece, marks in [*found, (text[position:], False)]:
        if merged and merged[-1][1] == marks:
            merged[-1] = (merged[-1][0] + piece, marks)
        elif piece:
            merged.append((piece, marks))
    return merged


def put_fragments(sheet: Any, place: tuple[int, int], fragments: list[Fragment], fonts: Mapping[bool, Any], style: Any) -> None:
    """Write fragments into a cell of an xlsxwriter sheet as one text, each in its font."""
    text = "".join(piece for piece, _ in fragments)
    # xlsxwriter takes a text like this for rich text of its own making, and writes its tags as they are.
    looks_rich = text.startswith("<r>") and text.endswith("</r>")
    if not text:
        sheet.write_blank(*place, None, style)
    elif len(fragments) == 1 and not looks_rich:
        sheet.write_string(*place, text, style)
    else:
        parts = [(part, differs) for piece, differs in fragments for part in _RICH_TRAPS.split(piece)]
        styles = () if style is None else (style,)
        sheet.write_rich_string(*place, *(token for part, differs in parts for token in (fonts[differs], part)), *styles)
