"""Read the paragraphs of a web page as a browser shows them, without navigation and hidden text."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from nbaudio.formats.transcripts import unescape

#: Whether a text begins like a web page.
PAGE = re.compile(
    r"(?is)\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*"
    r"<(?:!doctype\s+html|html|head|body|div|p|h\d|table|[uo]l|span|br)\b"
)

#: What is left out, by what it is called in reports.
NAVIGATION = "navigation, headers and footers of web pages"
HIDDEN = "hidden texts of web pages"
DELETED = "deleted texts of web pages"

_INLINE = re.compile(
    r"/?(?:a|abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|mark|q|ruby|s|samp"
    r"|small|span|strike|strong|su[bp]|time|tt|u|var|wbr)?"
)
_ATTRIBUTES = r"(?:[^>=]++|=\s*+(?:\"[^\"]*\"|'[^']*')?+)*+"
# Linear in time, which html.parser is not: what is not finished extends to the end of the page.
_MARKUP = re.compile(
    rf"""(?isx)<!--(?:-?>|.*?(?:-->|\Z))
    | <(script|style|title|template)(?=[\s/>]){_ATTRIBUTES}
      (?:(?<=/)>|.*?(?:</\1(?=[\s/>])[^>]*>?|\Z))
    | <(/?[a-z][^\s/>]*)({_ATTRIBUTES})>? | <[!?/][^>]*>?"""
)
_LEFT_OUT = {
    **dict.fromkeys(
        ("nav", "header", "footer", "aside", "menu", "button", "select", "dialog"), NAVIGATION
    ),
    "noscript": HIDDEN,
    **dict.fromkeys(("del", "s", "strike"), DELETED),
}
_NAVIGATION_ROLE = re.compile(
    r"(?i)\brole\s*=\s*[\"']?(?:navigation|banner|contentinfo|search|menu|menubar|toolbar)\b"
)
_HIDDEN_BY_VALUE = re.compile(
    r"(?i)\baria-hidden\s*=\s*[\"']?true\b"
    r"|\bstyle\s*=[^>]*?(?:display\s*:\s*none|visibility\s*:\s*hidden)"
)
_HIDDEN_BY_NAME = re.compile(r"(?i)\shidden(?=[\s/=]|$)")
_VALUE = re.compile("\"[^\"]*\"|'[^']*'")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
)
# The number of a footnote, which may be a link.
_RAISED_NUMBER = re.compile(r"(?i)<sup\b[^<>]*>((?:<[^<>]*>|[\s\[\]()\d]){1,40})</sup>")
# A name in bold letters at the start of a paragraph, before others.
_BOLD_NAME = re.compile(
    r"(?i)(<(?:p|div|td|li|dd)\b[^<>]{0,200}>\s?<(b|strong)\b[^<>]{0,200}>"
    r"(?:</?a\b[^<>]{0,200}>|[^<>]){1,80}(?:</\2>(?=\s)|\s</\2>))(?=\s?[^\s<])"
)
_RAISED_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# Characters of attributes that are looked at; longer ones are data of scripts.
_MOST_ATTRIBUTES = 2000


@dataclass(frozen=True)
class _Element:
    """An element that is left out: its place in the page, half open, and what it is."""

    start: int
    end: int
    what: str


@dataclass(frozen=True)
class _Opened:
    """The start of an element, and what it is if it is left out."""

    start: int
    what: str | None


def page_paragraphs(text: str, left_out: Counter[str]) -> Iterator[str]:
    """Yield the paragraphs of a page; count the elements with text that are `left_out`.

    A tab stands behind a name in bold letters at the start of a paragraph.

    Left out are scripts and styles, which do not count, and navigation, headers, footers, deleted
    and hidden elements: by their names, roles, ``hidden``, ``aria-hidden="true"``, ``display:none``
    and ``visibility:hidden``. An element that has no end tag stays.
    """
    page = _RAISED_NUMBER.sub(_raised, " ".join(text.split()))
    page = _BOLD_NAME.sub(r"\1\t", page)
    markups = [*_MARKUP.finditer(page)]
    elements = _outermost(_elements_left_out(markups))
    starts = [element.start for element in elements]
    with_words = set[int]()
    pieces: list[str] = []
    position = 0
    for start, end, line_end in _line_ends(markups, len(page)):
        place = bisect_right(starts, position) - 1
        piece = page[position:start]
        if place < 0 or position >= elements[place].end:
            pieces.append(piece)
        elif _has_word(piece):
            with_words.add(place)
        pieces.append(line_end)
        position = end
    left_out.update(elements[place].what for place in sorted(with_words))
    spoken = unescape("".join(pieces))
    paragraphs = re.split(r"\n\s*\n", spoken)
    return (re.sub(r"[^\S\t]+", " ", paragraph).strip() for paragraph in paragraphs)


def raised_digits(text: str) -> str:
    """Return the digits of a text as those of footnotes and powers.

    Example:
        >>> raised_digits("[12]")
        '¹²'
    """
    return "".join(filter(str.isdigit, text)).translate(_RAISED_DIGITS)


def _raised(number: re.Match[str]) -> str:
    return raised_digits(re.sub(r"<[^<>]*>", "", number[1]))


def _has_word(text: str) -> bool:
    return re.search(r"\w", unescape(text)) is not None


def _line_ends(markups: list[re.Match[str]], length: int) -> Iterator[tuple[int, int, str]]:
    """Yield start and end of each markup, and the line ends that it stands for.

    The last one is the end of the page, of some `length`.
    """
    for markup in markups:
        yield markup.start(), markup.end(), _line_end((markup[2] or "").lower())
    yield length, length, ""


def _line_end(name: str) -> str:
    """Return the line ends that a tag stands for: none in a line, two between paragraphs."""
    if _INLINE.fullmatch(name):
        return ""
    return "\n" if name == "br" else "\n\n"


def _elements_left_out(markups: list[re.Match[str]]) -> Iterator[_Element]:
    """Yield the elements that are left out and have an end tag."""
    opened: dict[str, list[_Opened]] = {}
    for markup in markups:
        name = (markup[2] or "").lower()
        if not name or name in _VOID or markup[0].endswith("/>"):
            continue
        if name.startswith("/"):
            yield from _closed(opened.get(name[1:]), markup.end())
            continue
        if name == "p":  # the next paragraph ends one without an end tag
            yield from _closed(opened.get(name), markup.start())
        opened.setdefault(name, []).append(_Opened(markup.start(), _reason(name, markup[3])))


def _closed(opened: list[_Opened] | None, end: int) -> Iterator[_Element]:
    """Close the last of the open elements of a name; yield it if it is left out."""
    if opened:
        element = opened.pop()
        if element.what is not None:
            yield _Element(element.start, end, element.what)


def _reason(name: str, attributes: str) -> str | None:
    """Return what an element is, if it is left out."""
    inspected = attributes[:_MOST_ATTRIBUTES]
    if _HIDDEN_BY_VALUE.search(inspected) or _HIDDEN_BY_NAME.search(_VALUE.sub("", inspected)):
        return HIDDEN
    if _NAVIGATION_ROLE.search(inspected):
        return NAVIGATION
    return _LEFT_OUT.get(name)


def _outermost(elements: Iterator[_Element]) -> list[_Element]:
    """Return the elements that are in no other one, in order."""
    outer: list[_Element] = []
    for element in sorted(elements, key=lambda element: (element.start, -element.end)):
        if not outer or element.start >= outer[-1].end:
            outer.append(element)
    return outer
