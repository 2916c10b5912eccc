"""Text for spreadsheet cells: nothing in it is interpreted, nothing that a cell cannot hold gets lost unseen."""

from collections.abc import Sequence

from nbaudio.text import word_diff, word_spans

#: UTF-16 code units that a cell holds.
MAX_CELL = 32_767

# XML has no place for controls, except tab and line feed; Unicode has pictures of them.
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {
    0x7F: 0x2421,
    0xFFFE: 0xFFFD,
    0xFFFF: 0xFFFD,
}

# A stretch of text, and whether its words differ from the other side.
Fragment = tuple[str, bool]


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


def marked(reference: str, hypothesis: str) -> tuple[list[Fragment], list[Fragment]]:
    """Both texts in fragments, differing words marked; each side's fragments make up its text again.

    Examples:
        >>> marked("evo blic odgovori", "evo blitz odgovori")[1]
        [('evo ', False), ('blitz', True), (' odgovori', False)]
    """
    parts = word_diff(reference, hypothesis)
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
