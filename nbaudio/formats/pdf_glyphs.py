"""Read the glyphs of a PDF with their places on the page; needs the extra ``pdf``."""

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from nbaudio.core.errors import InputError, one_line, requires_extra

#: Most pages of a document and most glyphs of a page; more are no minutes.
MOST_PAGES = 20_000
MOST_GLYPHS = 100_000

_PDFIUM = Lock()  # the library is not thread-safe
_PASSWORD = "password"  # noqa: S105 - a word of the library's message for encrypted files
_FONT_NAME_BYTES = 256  # that are read of a name
_BOLD = re.compile(rb"(?i)bold|black|heavy|[-,_ ]demi|cmbx|sfbx|lmbx")
_MOST_SKEW = 0.1  # quarter turns that a line of a scan may be off
_OBLIQUE = -1  # direction that is no quarter turn, such as that of watermarks
_HYPHEN = 2  # character code of a hyphen at the end of a line
_UNMAPPED = 0xFFFD  # stands for a character that is not known
_MOST_ON_SCAN = 300  # glyphs of the running heads and stamps of a scanned page
_LEAST_IMAGE_SHARE = 0.5  # of the area of a scanned page that images cover
_MOST_UNMAPPED_SHARE = 0.3  # of glyphs without a character on a page that can be read


@dataclass(frozen=True, slots=True)
class Glyph:
    """A character on a page. The page is turned so that its text runs from left to right.

    Attributes:
        text: the character.
        left: left edge in points.
        right: right edge in points, where the next glyph begins.
        baseline: in points from an origin of the page; greater for lower lines.
        size: of the font, in points.
        is_bold: whether the font is bold.
    """

    text: str
    left: float
    right: float
    baseline: float
    size: float
    is_bold: bool = False


@dataclass(frozen=True)
class Page:
    """The glyphs of a page.

    Attributes:
        number: from 1.
        glyphs: in the order of the file, blanks included.
        num_turned: number of visible glyphs in another direction than most; they are left out.
        is_covered: whether it looks scanned: few glyphs or none, and images over most of it.
        is_damaged: whether the page cannot be opened.
        is_unmapped: whether too many glyphs have no character, so that it cannot be read.
    """

    number: int
    glyphs: list[Glyph]
    num_turned: int = 0
    is_covered: bool = False
    is_damaged: bool = False
    is_unmapped: bool = False


@dataclass(frozen=True, slots=True)
class _Placed:
    """A glyph where the file places it; the page is not turned yet.

    Attributes:
        glyph: without its place.
        turns: direction of its text in quarter turns to the left, or `_OBLIQUE`.
        box: left, bottom, right and top in points.
        origin: x and y of its start on the baseline, in points; y is greater for higher lines.
    """

    glyph: Glyph
    turns: int
    box: tuple[float, float, float, float]
    origin: tuple[float, float]


def read_pages(path: Path, content: bytes) -> list[Page]:
    """Read the pages of a PDF.

    Args:
        path: of the file, for messages.
        content: of the file.

    Raises:
        InputError: the file is encrypted, damaged, or too large.
        MissingExtraError: pypdfium2 is not installed.
    """
    with requires_extra("pdf"):
        import pypdfium2
    with _PDFIUM:
        try:
            document = pypdfium2.PdfDocument(content)
        except pypdfium2.PdfiumError as error:
            reason = _reason(error)
            if _PASSWORD in reason.lower():
                raise InputError(f"{path}: encrypted; save it without a password") from error
            raise InputError(f"{path}: a damaged PDF ({reason})") from error
        try:
            if len(document) > MOST_PAGES:
                raise InputError(f"{path}: more than {MOST_PAGES:,} pages, which are not read")
            return [_read_page(path, document, number) for number in range(len(document))]
        finally:
            document.close()


def _reason(error: Exception) -> str:
    """Return what the library says about a file, without the name of the call that failed."""
    return one_line(error).rpartition(": ")[2].rstrip(").")


def _read_page(path: Path, document: Any, number: int) -> Page:
    """Read a page by its number from 0; raise InputError if it has too many glyphs.

    Only glyphs inside of the crop box are read, and only those in the direction of most.
    """
    import pypdfium2

    try:
        page = document[number]
        text = page.get_textpage()
    except pypdfium2.PdfiumError:
        return Page(number + 1, [], is_damaged=True)
    num_glyphs = text.count_chars()
    visible_part = page.get_cropbox()
    if num_glyphs > MOST_GLYPHS:
        raise InputError(
            f"{path}: page {number + 1} has more than {MOST_GLYPHS:,} characters, "
            "which are not read"
        )
    placed = list(_placed_glyphs(text, num_glyphs))
    shown = [item for item in placed if _is_on_page(item.origin, visible_part)]
    visible = [item for item in shown if not item.glyph.text.isspace()]
    is_covered = len(visible) <= _MOST_ON_SCAN and _is_covered_by_image(page)
    if not visible:
        return Page(number + 1, [], is_covered=is_covered)
    num_unmapped = sum(_is_unmapped(item.glyph.text) for item in visible)
    if num_unmapped > _MOST_UNMAPPED_SHARE * len(visible):
        return Page(number + 1, [], is_unmapped=True, is_covered=is_covered)
    turns = _most_frequent_turns(visible)
    glyphs = [_turned(item) for item in shown if item.turns == turns]
    num_turned = sum(item.turns != turns for item in visible)
    return Page(number + 1, glyphs, num_turned, is_covered=is_covered)


def _most_frequent_turns(placed: Iterable[_Placed]) -> int | None:
    """Return the direction of most glyphs, the smaller of equals; None if all are oblique."""
    counts = Counter(item.turns for item in placed if item.turns != _OBLIQUE)
    return max(sorted(counts), key=counts.__getitem__, default=None)


def _placed_glyphs(text: Any, num_glyphs: int) -> Iterator[_Placed]:
    """Yield the glyphs of a page, without those that the library adds, such as blanks."""
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    box = pdfium.FS_RECTF()
    x, y = ctypes.c_double(), ctypes.c_double()
    fonts = _Fonts()
    for number in range(num_glyphs):
        code = pdfium.FPDFText_GetUnicode(text, number)
        if pdfium.FPDFText_IsGenerated(text, number) == 1:
            continue
        pdfium.FPDFText_GetMatrix(text, number, matrix)
        pdfium.FPDFText_GetLooseCharBox(text, number, box)
        pdfium.FPDFText_GetCharOrigin(text, number, x, y)
        size = pdfium.FPDFText_GetFontSize(text, number) * math.hypot(matrix.c, matrix.d)
        if not 0 < size < math.inf:
            continue
        if not code or pdfium.FPDFText_HasUnicodeMapError(text, number) == 1:
            code = _UNMAPPED
        character = "-" if code == _HYPHEN else chr(code)
        font = pdfium.FPDFTextObj_GetFont(pdfium.FPDFText_GetTextObject(text, number))
        yield _Placed(
            Glyph(character, 0, 0, 0, size, is_bold=fonts.is_bold(font)),
            _quarter_turns(matrix.a, matrix.b),
            (box.left, box.bottom, box.right, box.top),
            (x.value, y.value),
        )


class _Fonts:
    """Which fonts are bold, by their names."""

    def __init__(self) -> None:
        self._is_bold: dict[int | None, bool] = {}

    def is_bold(self, font: Any) -> bool:
        """Return whether a font of the library is bold."""
        import pypdfium2.raw as pdfium

        key = ctypes.cast(font, ctypes.c_void_p).value
        if key not in self._is_bold:
            name = ctypes.create_string_buffer(_FONT_NAME_BYTES)
            if font:
                pdfium.FPDFFont_GetBaseFontName(font, name, _FONT_NAME_BYTES)
            self._is_bold[key] = _BOLD.search(name.value) is not None
        return self._is_bold[key]


def _quarter_turns(cosine: float, sine: float) -> int:
    """Return the quarter turns to the left (0 to 3) of a direction, or `_OBLIQUE`."""
    turns = math.atan2(sine, cosine) / (math.pi / 2)
    if abs(turns - round(turns)) >= _MOST_SKEW:
        return _OBLIQUE
    return round(turns) % 4


def _is_unmapped(character: str) -> bool:
    """Return whether a glyph has no character, or one that is no text: control or private use."""
    return unicodedata.category(character) in {"Cc", "Co", "Cs"} or character == chr(_UNMAPPED)


def _is_on_page(origin: tuple[float, float], box: tuple[float, float, float, float]) -> bool:
    """Return whether a point is in a box of left, bottom, right and top."""
    x, y = origin
    left, bottom, right, top = box
    return left <= x <= right and bottom <= y <= top


def _turned(placed: _Placed) -> Glyph:
    """Return a glyph with its place on the page turned so that its text runs to the right."""
    left, bottom, right, top = placed.box
    x, y = placed.origin
    places_by_turns = (  # start, end and baseline of text that runs
        (left, right, -y),  # to the right
        (bottom, top, x),  # upwards
        (-right, -left, y),  # to the left
        (-top, -bottom, -x),  # downwards
    )
    start, end, baseline = places_by_turns[placed.turns]
    return replace(placed.glyph, left=start, right=end, baseline=baseline)


def _is_covered_by_image(page: Any) -> bool:
    """Return whether images cover most of a page; where they overlap, both count."""
    import pypdfium2.raw as pdfium

    width, height = page.get_size()
    covered = 0.0
    for image in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = image.get_bounds()
        covered += (right - left) * (top - bottom)
    return bool(covered >= _LEAST_IMAGE_SHARE * width * height)
