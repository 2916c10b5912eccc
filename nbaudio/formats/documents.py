"""Read transcripts as people have them, not cut: plain text, TEI, Word documents, web pages, JSON lines."""

import codecs
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.base import RECORDING_FIELDS, decode_text, json_values, split_lines, unescape
from nbaudio.formats.xml_events import read_xml


class Utterance(NamedTuple):
    """A paragraph or turn of a document: its characters in the text (half open), and what the source says about it."""

    start: int
    end: int
    speaker_id: str | None = None
    utterance_id: str | None = None
    columns: Mapping[str, str] = {}  # further fields of JSON, numbers as written


class Document(NamedTuple):
    """A transcript: the recording that it names itself, its text as typed, and utterances in order, which hold all words."""

    recording: str | None
    text: str
    utterances: list[Utterance]


_HEAD_BYTES = 4096
_PIECE_BYTES = 4 << 20
_MOST_XML_BYTES = 4 * input_guards.MAX_TEXT_BYTES  # of a Word document
_SAVE = "save it as .docx or as plain text"
_REFUSED = {
    codecs.decode("D0CF11E0A1B11AE1", "hex"): "an old or encrypted Word file; save it as .docx without a password",
    b"%PDF-": f"a PDF, which is not read; {_SAVE}",
    b"{\\rtf": f"an RTF file, which is not read; {_SAVE}",
}
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_XML = re.compile(r"\s*<(?:[?!]|(?:[\w.-]+:)?TEI\b|teiCorpus\b|[\w.:-]+\s+[\w.:-]+\s*=)")
_WRAPPED = re.compile(rb"\s*<([\w.-]+)>.*</\1>\s*", re.DOTALL)
_JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\]{])")

_ID = "http://www.w3.org/XML/1998/namespace}id"
_TEI_LEFT_OUT = frozenset({"teiHeader", "note", "kinesic", "vocal", "incident", "gap", "desc", "corr", "reg", "expan"})
_WORD_LEFT_OUT = frozenset({"del", "moveFrom", "Fallback"})
_WORD_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}

_HTML = re.compile(  # a page, or a fragment
    r"\s*(?:<\?xml[^>]*>\s*)?(?><!--.*?-->\s*)*+<(?:!doctype\s+html"
    r"|(?:html|head|body|title|meta|p|div|h[1-6]|table|[uo]l|article|section|main|center|font|pre|span|br?|i)(?=[\s/>]))",
    re.IGNORECASE | re.DOTALL,
)
_BLOCK = re.compile(
    r"/?(?:address|article|aside|blockquote|body|caption|center|d[dlt]|details|div|fieldset|figcaption|figure|footer|form|h[1-6r]"
    r"|header|html|legend|li|main|nav|[ou]l|option|p|pre|section|summary|table|t[dhr])"
)
_ATTRIBUTES = r"(?:[^>=]++|=\s*+(?:\"[^\"]*\"|'[^']*')?+)*+"
# Linear in time, which html.parser is not: what is not finished extends to the end of the page.
_MARKUP = re.compile(
    rf"""<!--(?:-?>|.*?(?:-->|\Z))
    | <(script|style|title|template)(?=[\s/>]){_ATTRIBUTES}(?:(?<=/)>|.*?(?:</\1(?=[\s/>])[^>]*>?|\Z))
    | <(/?[a-z][^\s/>]*){_ATTRIBUTES}>?
    | <[!?/][^>]*>?
    | \Z""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_CHARSET = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)")
_CHARSETS = re.compile(r"utf-?8|cp125\d|windows-125\d|iso-8859-\d+|latin-?\d+|koi8-[ru]")

_TEXT_FIELDS = ("text", "transcript", "sentence", "content", "words")
_FIELDS = (_TEXT_FIELDS, RECORDING_FIELDS, ("speaker", "speaker_id"), ("id", "utterance_id", "segment_id"))


def read_documents(path: Path) -> Iterator[Document]:
    r"""Read the transcripts of a file, whose format is recognized by its content.

    Known are plain text (UTF-8 or marked UTF-16; blank lines separate paragraphs), TEI as ParlaMint has it, .docx, HTML, and
    JSON lines. Only JSON names recordings; its objects are grouped by recording, in order of first appearance.

    Raises:
        InputError: The file has no words, is too large, or cannot be read; the message has the file and the reason.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = path.write_text("Dobar dan\nsvima.\n\nHvala.\n")
        >>> [document] = read_documents(path)
        >>> [document.text[each.start : each.end] for each in document.utterances]
        ['Dobar dan\nsvima.', 'Hvala.']
    """
    try:
        documents = [document for document in _documents(path, input_guards.read_all(path)) if document.utterances]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not {error.encoding} text (byte {error.start + 1}); save it as UTF-8") from error
    if not documents:
        raise InputError(f"{path}: empty, it has no words")
    for document in documents:
        if found := _CONTROL.search(document.text):
            raise InputError(f"{path}: not text; it has the control character 0x{ord(found[0]):02x}")
    yield from documents


def _documents(path: Path, data: bytes) -> Iterator[Document]:
    for start, reason in _REFUSED.items():
        if data.startswith(start):
            raise InputError(f"{path}: {reason}")
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    head = decode_text(data[:_HEAD_BYTES], errors="replace")
    if data.startswith((b"PK\3\4", b"PK\5\6")):
        yield _read_docx(path, data)
    elif b"\0" in data and not is_utf16:
        raise InputError(f"{path}: binary data, not text")
    elif _HTML.match(head):
        yield _read_html(decode_text(data, None if is_utf16 or data.startswith(codecs.BOM_UTF8) else _charset(path, data)))
    elif _XML.match(head) or _WRAPPED.fullmatch(data):
        yield _read_tei(path, data)
    else:
        text = decode_text(data)
        yield from _read_json(path, text) if _JSON.match(text) else [_read_plain(text)]


class _Utterances:
    """The utterances of one document while it is read."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._size = 0
        self.found: list[Utterance] = []

    def add(self, text: str, *about: Any) -> None:
        """Add an utterance without blanks around it, with the further fields of `Utterance`; nothing if it has no words."""
        text = text.strip()
        if re.search(r"\w", text):
            self.found.append(Utterance(self._size, self._size + len(text), *about))
            self._texts.append(text)
            self._size += len(text) + 1

    def document(self, recording: str | None = None) -> Document:
        """Return the document, in which line ends separate utterances."""
        return Document(recording, "\n".join(self._texts), self.found)


def _read_plain(text: str) -> Document:
    utterances = []
    start, end, place = -1, 0, 0
    for line in [*text.split("\n"), ""]:
        if line.strip():
            start = place + len(line) - len(line.lstrip()) if start < 0 else start
            end = place + len(line.rstrip())
        elif start >= 0:
            utterances += [Utterance(start, end)] if re.search(r"\w", text[start:end]) else []
            start = -1
        place += len(line) + 1
    return Document(None, text, utterances)


def _read_json(path: Path, text: str) -> Iterator[Document]:
    recordings: dict[str | None, _Utterances] = {}
    # Digits of numbers stay as they are.
    for where, item in json_values(path, split_lines(text), lambda: text, parse_int=str, parse_float=str, parse_constant=str):
        if not isinstance(item, dict) or not any(field in item for field in _TEXT_FIELDS):
            raise InputError(f"{path}, {where}: expected an object with one of {', '.join(_TEXT_FIELDS)}")
        strings = {field: said for field, said in item.items() if isinstance(said, str)}
        if isinstance(words := item.get("words"), list) and all(isinstance(word, str) for word in words):
            strings["words"] = " ".join(words)
        try:
            "".join((*strings, *strings.values())).encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{path}, {where}: half a surrogate pair, which is not Unicode") from error
        said, recording, *about = (next((strings.pop(field) for field in some if field in strings), None) for some in _FIELDS)
        strings.pop("words", None)
        recordings.setdefault(recording, _Utterances()).add(said or "", *about, strings)
    for recording, found in recordings.items():
        yield found.document(recording)


def _charset(path: Path, data: bytes) -> str:
    """Return the encoding that an HTML page declares, by default UTF-8."""
    found = _CHARSET.search(data[:_HEAD_BYTES].lower())
    name = found[1].decode() if found else "utf-8"
    if name in {"iso-8859-1", "latin1", "us-ascii", "ascii"}:
        return "cp1252"  # as browsers do
    if not _CHARSETS.fullmatch(name):
        raise InputError(f"{path}: a page in the encoding {name[:40]!r}, which is not read; save it as UTF-8")
    return name


def _read_html(text: str) -> Document:
    found, pieces, place = _Utterances(), list[str](), 0
    for markup in _MARKUP.finditer(text):
        pieces.append(unescape(text[place : markup.start()]))
        place = markup.end()
        name = (markup[2] or "").lower()
        if name == "br":
            pieces.append("\0")
        elif _BLOCK.fullmatch(name) or place == len(text):
            for paragraph in re.split(r"\0\s*\0[\0\s]*", "".join(pieces)):
                found.add(" ".join(paragraph.replace("\0", " ").split()))
            pieces.clear()
    return found.document()


def _read_tei(path: Path, data: bytes) -> Document:
    """Read turns (``u``, with ``seg``), or paragraphs where there are no turns."""
    turns, paragraphs = _Utterances(), _Utterances()
    open_blocks: list[tuple[_Utterances, str | None, str | None]] = []  # with speaker and id
    pieces: list[str] = []
    tokens, has_tokens, join, is_root = 0, False, "", True
    events = read_xml(path, (data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES)), _TEI_LEFT_OUT)
    for tag, attributes, text in events:
        space, _, name = tag.rpartition("}")
        if is_root and name not in {"TEI", "teiCorpus", "TEI.2"} and "tei-c.org" not in space:
            raise InputError(f"{path}: XML that is not TEI; its root is <{name}>")
        is_root = False
        found, speaker, own = open_blocks[-1] if open_blocks else (paragraphs, None, None)
        if name in {"u", "seg", "p", "ab"}:
            found.add(" ".join("".join(pieces).split()), speaker, own)
            pieces, has_tokens = [], False
            if attributes is None:
                open_blocks.pop()
                continue
            if name == "u":
                who = attributes.get("who", "").split()  # several have no single speaker
                found, speaker = turns, who[0].rpartition("#")[2] if len(who) == 1 else None
            open_blocks.append((found, speaker, attributes.get(_ID, own)))
        elif name in {"w", "pc"}:
            has_tokens, tokens = True, tokens + (1 if attributes is not None else -1)
            if attributes is not None and tokens == 1:
                join = attributes.get("join", "")
                if join in {"left", "both"} and pieces[-1:] == [" "]:
                    pieces.pop()
            elif not tokens and join not in {"right", "both"}:
                pieces.append(" ")
        elif name == "lb" and attributes is not None and attributes.get("break") != "no":
            pieces.append(" ")
        elif open_blocks and not (has_tokens and text.isspace()):  # blanks between tokens are layout
            pieces.append(text.strip() if tokens else text)
    return (turns if turns.found else paragraphs).document()


def _docx_pieces(path: Path, data: bytes) -> Iterator[bytes]:
    """Yield the XML of a Word document's text; neither what its header says nor what comes may be a bomb."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as book:
            member = next((each for each in book.infolist() if each.filename == "word/document.xml"), None)
            if member is None:
                raise InputError(f"{path}: a zip file without word/document.xml, so no .docx; {_SAVE}")
            if member.flag_bits & 1:
                raise InputError(f"{path}: encrypted; save it without a password")
            packed = min(member.compress_size, len(data), _MOST_XML_BYTES // input_guards.MOST_TIMES)
            input_guards.check_expansion(path, packed, member.file_size)
            unpacked = 0
            with book.open(member) as file:
                while piece := file.read(_PIECE_BYTES):
                    unpacked += len(piece)
                    input_guards.check_expansion(path, packed, unpacked)
                    yield piece
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, zlib.error) as error:
        raise InputError(f"{path}: a damaged .docx ({one_line(error)})") from error


def _read_docx(path: Path, data: bytes) -> Document:
    """Read the paragraphs of Word, those of tables and text boxes as well."""
    found, is_text = _Utterances(), False
    paragraphs: list[list[str]] = [[]]  # open ones: a text box is inside another
    for tag, attributes, text in read_xml(path, _docx_pieces(path, data), _WORD_LEFT_OUT):
        space, _, name = tag.rpartition("}")
        if not tag:
            paragraphs[-1] += [text] if is_text else []
            continue
        is_text = name == "t" and attributes is not None and "wordprocessingml" in space
        if name == "p" and "wordprocessingml" in space:
            if attributes is not None:
                paragraphs.append([])
            else:
                found.add("".join(paragraphs.pop()))
        elif attributes is not None and "wordprocessingml" in space:
            paragraphs[-1] += _WORD_SIGNS.get(name, "")
    return found.document()
