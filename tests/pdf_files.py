"""PDFs for tests, written operator by operator: texts at places, in the order of the file."""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 595, 842  # points of a page

# Letters that WinAnsi lacks, at codes that it does not use, with the names of their glyphs.
_FURTHER = {
    **dict(zip("čćđČĆĐ", range(1, 7), strict=True)),
    **{"ﬁ": 7, "ﬂ": 8, "ˇ": 11, "ı": 12},
}
_NAMES = "/ccaron /cacute /dcroat /Ccaron /Cacute /Dcroat /fi /fl 11 /caron /dotlessi"
_WIDTHS = {**dict.fromkeys("ijl.,:;'|!ftI ", 280), **dict.fromkeys("mwMW—", 840)}
_FONTS = {"plain": b"Helvetica", "bold": b"Helvetica-Bold", "italic": b"Helvetica-Oblique"}


@dataclass(frozen=True)
class Text:
    """A text on a page: where its baseline begins, in points from the top left corner."""

    x: float
    y: float
    text: str
    size: float = 10.0
    font: str = "plain"
    turns: float = 0  # quarter turns to the left
    spacing: float = 0.0  # points between words, beyond the blank
    form: str = "Tm"  # the size is that of the font; or that of the matrix ("scaled")


def width(text: str, size: float = 10.0) -> float:
    """The width of a text in points."""
    return sum(_WIDTHS.get(letter, 560) for letter in text) * size / 1000


def lines(x: float, y: float, texts: Iterable[str], *, size: float = 10.0) -> list[Text]:
    """Lines of one column, 1.2 sizes apart."""
    return [Text(x, y + number * 1.2 * size, text, size) for number, text in enumerate(texts)]


def wrapped(text: str, column: float, size: float = 10.0) -> list[str]:
    """The lines of a text in a column of so many points."""
    out = [""]
    for word in text.split():
        longer = f"{out[-1]} {word}".strip()
        if width(longer, size) > column:
            out.append(word)
        else:
            out[-1] = longer
    return out


def make_pdf(
    pages: Sequence[Sequence[Text]],
    *,
    images: Sequence[int] = (),
    has_unicode: bool = True,
    rotate: int = 0,
    trailer: bytes = b"",
) -> bytes:
    """A PDF with texts on its pages.

    Pages with the indices `images` are covered by one. Without `has_unicode` the letters are codes
    of a font that has neither names nor a table of characters.
    """
    objects = [b"", b""]

    def add(content: bytes) -> int:
        objects.append(content)
        return len(objects)

    def add_stream(head: bytes, content: bytes) -> int:
        packed = zlib.compress(content)
        head = b"%s /Filter /FlateDecode /Length %d" % (head, len(packed))
        return add(b"<< %s >>\nstream\n%s\nendstream" % (head, packed))

    fonts = b" ".join(
        b"/%s %d 0 R" % (name.encode(), add(_font(base, has_unicode=has_unicode)))
        for name, base in _FONTS.items()
    )
    image = add_stream(
        b"/Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceGray"
        b" /BitsPerComponent 8",
        b"\x00\xff\xff\x00",
    )
    kids = []
    for number, texts in enumerate(pages):
        drawn = b"q %d 0 0 %d 0 0 cm /Scan Do Q\n" % (WIDTH, HEIGHT) if number in images else b""
        contents = add_stream(b"", drawn + b"\n".join(map(_operators, texts)))
        kids.append(
            add(
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Rotate %d /Contents %d 0 R"
                b" /Resources << /Font << %s >> /XObject << /Scan %d 0 R >> >> >>"
                % (WIDTH, HEIGHT, rotate, contents, fonts, image)
            )
        )
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), listed)
    return _file(objects, trailer)


def _font(base: bytes, *, has_unicode: bool) -> bytes:
    if not has_unicode:
        descendant = (
            b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /%s"
            b" /CIDSystemInfo << /Registry (Made) /Ordering (Own) /Supplement 0 >> >>" % base
        )
        return (
            b"<< /Type /Font /Subtype /Type0 /BaseFont /%s /Encoding /Identity-H"
            b" /DescendantFonts [%s] >>" % (base, descendant)
        )
    widths = b" ".join(b"%d" % _WIDTHS.get(letter, 560) for letter in map(_letter, range(256)))
    return (
        b"<< /Type /Font /Subtype /Type1 /BaseFont /%s /FirstChar 0 /LastChar 255 /Widths [%s]"
        b" /Encoding << /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [1 %s] >> >>"
        % (base, widths, _NAMES.encode())
    )


def _letter(code: int) -> str:
    further = {number: letter for letter, number in _FURTHER.items()}
    return further.get(code) or bytes([code]).decode("cp1252", "replace")


def _operators(text: Text) -> bytes:
    codes = bytes(
        _FURTHER[letter] if letter in _FURTHER else letter.encode("cp1252")[0]
        for letter in text.text
    )
    cosine = math.cos(text.turns * math.pi / 2)
    sine = math.sin(text.turns * math.pi / 2)
    scale = text.size if text.form == "scaled" else 1.0
    matrix = (cosine * scale, sine * scale, -sine * scale, cosine * scale)
    place = (text.x, HEIGHT - text.y)
    numbers = b" ".join(b"%.2f" % number for number in (*matrix, *place))
    font = b"/%s %.2f Tf" % (text.font.encode(), text.size / scale)
    spacing = b"%.2f Tw" % (text.spacing / scale)
    return b"BT %s %s %s Tm <%s> Tj ET" % (font, spacing, numbers, codes.hex().encode())


def _file(objects: Sequence[bytes], trailer: bytes) -> bytes:
    content = b"%PDF-1.7\n"
    places = []
    for number, item in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return content + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R %s >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (size, table, size, trailer, len(content))
    )
