"""Read transcripts as people have them, not cut.

They are plain text, TEI, Word documents, web pages or JSON lines.
"""

import codecs
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import ParseError, iterparse

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.base import RECORDING_FIELDS, decode_text, json_values, unescape


class Utterance(NamedTuple):
    """A paragraph or turn of a document.

    It has its characters in the text (half open), and what the source says about it.
    """

    start: int
    end: int
    speaker_id: str | None = None
    utterance_id: str | None = None


class Document(NamedTuple):
    """A transcript and its utterances.

    It has the recording that it names itself, its text as typed, and utterances in order, which
    hold all words.
    """

    recording: str | None
    text: str
    utterances: list[Utterance]


_Said = tuple[str, str | None, str | None]  # the text of an utterance, and its speaker and id

_SAVE = "save it as .docx or as plain text"
_REFUSED = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "an old or encrypted Word file; save it as .docx without a password"
    ),
    b"%PDF-": f"a PDF, which is not read; {_SAVE}",
    b"{\\rtf": f"an RTF file, which is not read; {_SAVE}",
}
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")
_JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\]{])")
_TEXT_FIELDS = ("text", "transcript", "sentence", "content", "words")
_FIELDS = (
    _TEXT_FIELDS,
    RECORDING_FIELDS,
    ("speaker", "speaker_id"),
    ("id", "utterance_id", "segment_id"),
)

_XML = re.compile(r"\s*<(?:\?xml|!DOCTYPE|TEI\b|teiCorpus\b)")
_ROOTS = {"TEI", "teiCorpus", "TEI.2", "w:document"}
_BLOCKS = {"u", "seg", "p", "ab", "w:p"}
_LEFT_OUT = {
    "teiHeader",
    "note",
    "kinesic",
    "vocal",
    "incident",
    "gap",
    "desc",
    "corr",
    "reg",
    "expan",
}
_LEFT_OUT |= {"w:del", "w:moveFrom", "Fallback"}
_CLEARED = _BLOCKS | _LEFT_OUT
_TOKENS = {"w", "pc"}
_SIGNS = {"lb": " ", "w:tab": "\t", "w:br": "\n", "w:cr": "\n", "w:noBreakHyphen": "-"}
_ID = "{http://www.w3.org/XML/1998/namespace}id"

_HTML = re.compile(
    r"(?is)\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*"
    r"<(?:!doctype\s+html|html|head|body|div|p|h\d|table|[uo]l|span|br)\b"
)
_CHARSET = re.compile(
    r"charset\s*=\s*[\"']?\s*(utf-8|windows-125[0-8]|iso-8859-(?:1[013-6]?|[2-9])|koi8-[ru])\b"
)
_INLINE = re.compile(r"/?(?:a|b|big|em|font|i|img|mark|q|s|small|span|strike|strong|su[bp]|tt|u)?")
_ATTRIBUTES = r"(?:[^>=]++|=\s*+(?:\"[^\"]*\"|'[^']*')?+)*+"
# Linear in time, which html.parser is not: what is not finished extends to the end of the page.
_MARKUP = re.compile(
    rf"""(?isx)<!--(?:-?>|.*?(?:-->|\Z))
    | <(script|style|title|template)(?=[\s/>]){_ATTRIBUTES}
      (?:(?<=/)>|.*?(?:</\1(?=[\s/>])[^>]*>?|\Z))
    | <(/?[a-z][^\s/>]*){_ATTRIBUTES}>? | <[!?/][^>]*>?"""
)


def read_documents(path: Path) -> Iterator[Document]:
    r"""Read the transcripts of a file, whose format is recognized by its content.

    Known are plain text (UTF-8 or marked UTF-16; blank lines separate paragraphs), TEI as ParlaMint
    has it, .docx, HTML, and JSON lines. Only JSON names recordings; its objects are grouped by
    recording, in order of first appearance.

    Raises:
        InputError: The file has no words, is too large, or cannot be read; the message has the file
            and the reason.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = path.write_text("Dobar dan\nsvima.\n\nHvala.\n")
        >>> [document] = read_documents(path)
        >>> [document.text[each.start : each.end] for each in document.utterances]
        ['Dobar dan\nsvima.', 'Hvala.']
    """
    try:
        documents = [
            document
            for document in _documents(path, input_guards.read_all(path))
            if document.utterances
        ]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not {error.encoding} text (byte {error.start + 1}); save it as UTF-8"
        ) from error
    except ParseError as error:
        raise InputError(
            f"{path}, line {error.position[0]}: not well-formed XML ({one_line(error)})"
        ) from error
    except (LookupError, ValueError) as error:
        raise InputError(
            f"{path}: XML in an encoding that is not read ({one_line(error)}); save it as UTF-8"
        ) from error
    except (zipfile.BadZipFile, EOFError, RuntimeError, zlib.error) as error:
        raise InputError(f"{path}: a damaged .docx ({one_line(error)})") from error
    if not documents:
        raise InputError(f"{path}: empty, it has no words")
    for document in documents:
        if found := _CONTROL.search(document.text):
            raise InputError(
                f"{path}: not text; it has the control character 0x{ord(found[0]):02x}"
            )
        yield document


def _documents(path: Path, data: bytes) -> Iterable[Document]:
    for start, reason in _REFUSED.items():
        if data.startswith(start):
            raise InputError(f"{path}: {reason}")
    is_marked = data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    head = decode_text(data[:4096], errors="replace")
    if data.startswith(b"PK\3\4"):
        return [_document(_read_xml(path, _unpack(path, data)))]
    if b"\0" in data and not is_marked:
        raise InputError(f"{path}: binary data, not text")
    if _HTML.match(head):
        declared = _CHARSET.search(head.lower())
        name = declared[1] if declared and not is_marked else None
        # Browsers read Latin-1 as cp1252.
        return [
            _document(_read_html(decode_text(data, "cp1252" if name == "iso-8859-1" else name)))
        ]
    if _XML.match(head):
        return [_document(_read_xml(path, data))]
    if _JSON.match(head):
        return _read_json(path)
    text = decode_text(data)
    paragraphs = (
        paragraph for paragraph in _PARAGRAPH.finditer(text) if re.search(r"\w", paragraph[0])
    )
    return [
        Document(
            None,
            text,
            [Utterance(each.start(), each.start() + len(each[0].rstrip())) for each in paragraphs],
        )
    ]


def _document(said: Iterable[_Said], recording: str | None = None) -> Document:
    """Return the document of utterances, which line ends separate.

    Utterances without words are left out.
    """
    kept = [(text.strip(), speaker, own) for text, speaker, own in said if re.search(r"\w", text)]
    starts = accumulate((len(text) + 1 for text, _, _ in kept), initial=0)
    utterances = [
        Utterance(start, start + len(text), *about)
        for start, (text, *about) in zip(starts, kept, strict=False)
    ]
    return Document(recording, "\n".join(text for text, _, _ in kept), utterances)


def _read_json(path: Path) -> Iterable[Document]:
    recordings: dict[str | None, list[_Said]] = {}
    for where, item in json_values(path):
        if not isinstance(item, dict) or not any(field in item for field in _TEXT_FIELDS):
            raise InputError(f"{where}: expected an object with one of {', '.join(_TEXT_FIELDS)}")
        if isinstance(words := item.get("words"), list):
            item["words"] = " ".join(word for word in words if isinstance(word, str))
        known = (
            (item[field] for field in fields if isinstance(item.get(field), str))
            for fields in _FIELDS
        )
        text, recording, speaker, own = (next(strings, None) for strings in known)
        recordings.setdefault(recording, []).append((text or "", speaker, own))
    return (_document(said, recording) for recording, said in recordings.items())


def _read_html(text: str) -> Iterator[_Said]:
    def line_ends(markup: re.Match[str]) -> str:
        name = (markup[2] or "").lower()
        return "" if _INLINE.fullmatch(name) else "\n" if name == "br" else "\n\n"

    spoken = unescape(_MARKUP.sub(line_ends, " ".join(text.split())))
    return ((" ".join(paragraph.split()), None, None) for paragraph in re.split(r"\n\s*\n", spoken))


def _unpack(path: Path, data: bytes) -> bytes:
    """Return the XML of a Word document's text.

    Its size according to the header is checked; zipfile unpacks no more than that.
    """
    with zipfile.ZipFile(BytesIO(data)) as book:
        if "word/document.xml" not in book.namelist():
            raise InputError(f"{path}: a zip file without word/document.xml, so no .docx; {_SAVE}")
        member = book.getinfo("word/document.xml")
        if member.flag_bits & 1:
            raise InputError(f"{path}: encrypted; save it without a password")
        if member.compress_type > zipfile.ZIP_DEFLATED:  # unpacks all at once
            raise zipfile.BadZipFile(f"compressed by method {member.compress_type}")
        input_guards.check_expansion(
            path, min(member.compress_size, len(data), 1 << 20), member.file_size
        )
        return book.read(member)


def _read_xml(path: Path, data: bytes) -> Iterator[_Said]:
    """Yield the paragraphs of TEI or Word, in TEI with speaker and id.

    What is read is removed from the tree.
    """
    if b"<!DOCTYPE" in data.replace(b"\0", b""):  # in UTF-16 as well
        raise InputError(
            f"{path}: XML with a document type or entities, which are not read; "
            "remove <!DOCTYPE ...>"
        )
    root = ""
    left_out = 0
    turn = dict[str, str]()
    for event, element in iterparse(BytesIO(data), ("start", "end")):  # noqa: S314  # no entities
        space, _, local = element.tag.rpartition("}")
        name = f"w:{local}" if "wordprocessingml" in space else local
        root = root or name
        if root not in _ROOTS:
            raise InputError(f"{path}: XML that is not TEI; its root is <{local}>")
        if event == "start":
            left_out += name in _LEFT_OUT
            turn = element.attrib if name == "u" else turn
            continue
        left_out -= name in _LEFT_OUT
        if root == "w:document" and name in _BLOCKS and not left_out:
            yield "".join(each.text or "" for each in element.iter()), None, None
        elif name in _BLOCKS and not left_out:
            text = " ".join("".join(element.itertext()).split())
            who = turn.get("who", "").split()
            # Several are no single speaker.
            speaker = who[0].rpartition("#")[2] if len(who) == 1 else None
            yield re.sub(" ?\0 ?", "", text), speaker, element.get(_ID, turn.get(_ID))
        if name in _TOKENS:  # a null character joins two of them
            join = element.get("join")
            token = "".join(part.strip() for part in element.itertext())
            element.text = (
                ("\0" if join in {"left", "both"} else " ")
                + token
                + ("\0" if join in {"right", "both"} else "")
            )
        elif name in _CLEARED or name in _SIGNS or (root == "w:document" and name != "w:t"):
            element.text = _SIGNS.get(name, "")
        if name in _CLEARED or name in _TOKENS:
            del element[:]
        turn = {} if name == "u" else turn
