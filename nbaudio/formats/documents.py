"""Read transcripts as people have them, not cut: plain text, TEI, Word documents, web pages, JSON lines."""

import codecs
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple
from xml.etree import ElementTree as ET

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.base import RECORDING_FIELDS, decode_text, parse_json, unescape


class Utterance(NamedTuple):
    """A paragraph or turn of a document: its characters in the text (half open), and what the source says about it."""

    start: int
    end: int
    speaker_id: str | None = None
    utterance_id: str | None = None
    columns: Mapping[str, str] = MappingProxyType({})  # further fields of JSON, numbers as written


class Document(NamedTuple):
    """A transcript: the recording that it names itself, its text as typed, and utterances in order, which hold all words."""

    recording: str | None
    text: str
    utterances: list[Utterance]


_HEAD_BYTES = 4096
_PIECE_BYTES = 16 << 20  # few pieces: expat may start an unfinished token again with each
_MOST_XML_BYTES = 4 * input_guards.MAX_TEXT_BYTES
_SAVE = "save it as .docx or as plain text"
_REFUSED = {
    codecs.decode("D0CF11E0A1B11AE1", "hex"): "an old or encrypted Word file; save it as .docx without a password",
    b"%PDF-": f"a PDF, which is not read; {_SAVE}",
    b"{\\rtf": f"an RTF file, which is not read; {_SAVE}",
}
_WORD = re.compile(r"\w")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_XML = re.compile(r"\s*<(?:[?!]|TEI\b|teiCorpus\b|[\w.-]+:|[\w.-]+\s+[\w.:-]+\s*=)")
_JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\]{])")

_CHARSETS = re.compile(r"utf-?8|cp125\d|windows-125\d|iso-8859-\d+|latin-?\d+|koi8-[ru]")
_ID = "{http://www.w3.org/XML/1998/namespace}id"

# Elements of HTML that may begin a fragment of a page, and further ones that separate paragraphs.
_FIRST = "html head body title meta p div h[1-6] table ul ol article section main center font pre span b i br"
_HTML = re.compile(
    rf"\s*(?:<\?xml[^>]*>\s*)?(?><!--.*?-->\s*)*+<(?:!doctype\s+html|(?:{_FIRST.replace(' ', '|')})(?=[\s/>]))", re.I | re.S
)
_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|caption|center|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6r]|"
    "header|html|legend|li|main|nav|ol|option|p|pre|section|summary|table|t[dhr]|ul"
)
_TAG = re.compile(r"<(?:(!--)|[!?]|/(?![a-z])|(/?)([a-z][^\s/>]*))", re.IGNORECASE)
_ATTRIBUTES = re.compile(r"(?:[^>=]++|=\s*+(?:\"[^\"]*\"|'[^']*')?+)*+>")
_CHARSET = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:-]+)")

_TEXT_FIELDS = ("text", "transcript", "sentence", "content", "words")


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
    if data.startswith((b"PK\3\4", b"PK\5\6")):
        yield _read_docx(path, data)
        return
    is_marked = data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in data and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}: binary data, not text")
    head = decode_text(data[:_HEAD_BYTES], errors="replace")
    if _HTML.match(head):
        yield _read_html(decode_text(data, None if is_marked else _charset(path, data)))
    elif _XML.match(head):
        yield _read_tei(path, data)
    else:
        text = decode_text(data)
        yield from _read_json(path, text) if _JSON.match(text) else [_read_plain(text)]


class _Utterances:
    """The utterances of one document while it is read."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._size = 0
        self._found: list[Utterance] = []

    def add(self, text: str, *about: Any) -> None:
        """Add an utterance without blanks around it, with the further fields of `Utterance`; nothing if it has no words."""
        text = text.strip()
        if _WORD.search(text):
            self._found.append(Utterance(self._size, self._size + len(text), *about))
            self._texts.append(text)
            self._size += len(text) + 1

    def document(self, recording: str | None = None) -> Document:
        """Return the document, with one utterance on each line or more."""
        return Document(recording, "\n".join(self._texts), self._found)


def _read_plain(text: str) -> Document:
    utterances = []
    start, end, place = -1, 0, 0
    for line in [*text.split("\n"), ""]:
        if line.strip():
            start = place + len(line) - len(line.lstrip()) if start < 0 else start
            end = place + len(line.rstrip())
        elif start >= 0:
            utterances += [Utterance(start, end)] if _WORD.search(text, start, end) else []
            start = -1
        place += len(line) + 1
    return Document(None, text, utterances)


class _Target:
    """Receives the events of an XML parser, without a tree; elements in `left_out` are skipped with all that they hold."""

    left_out: frozenset[str]

    def __init__(self, path: Path) -> None:
        self.path, self.skipped = path, 0
        self.found = _Utterances()

    def doctype(self, *_: object) -> None:
        """Refuse a document type before it declares entities."""
        raise InputError(f"{self.path}: XML with a document type or entities, which are not read; remove <!DOCTYPE ...>")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element."""
        if self.skipped or tag.rpartition("}")[2] in self.left_out:
            self.skipped += 1
        else:
            self.open(tag, attributes)

    def end(self, tag: str) -> None:
        """Close an element."""
        if self.skipped:
            self.skipped -= 1
        else:
            self.shut(tag)

    def data(self, text: str) -> None:
        """Receive some of the text of an element."""
        if not self.skipped:
            self.read(text)

    def open(self, tag: str, attributes: dict[str, str]) -> None: ...
    def shut(self, tag: str) -> None: ...
    def read(self, text: str) -> None: ...


def _parse(target: _Target, pieces: Iterable[bytes]) -> None:
    parser = ET.XMLParser(target=target)  # noqa: S314 - document types, and so entities, are refused
    try:
        for piece in pieces:
            parser.feed(piece)
        parser.close()
    except ET.ParseError as error:
        raise InputError(f"{target.path}, line {error.position[0]}: not well-formed XML ({one_line(error)})") from error
    except (LookupError, ValueError) as error:
        raise InputError(f"{target.path}: XML in an encoding that is not read ({one_line(error)}); save it as UTF-8") from error


class _Tei(_Target):
    """Reads turns (``u``, with ``seg``), and paragraphs for where there are no turns."""

    left_out = frozenset({"teiHeader", "note", "kinesic", "vocal", "incident", "gap", "desc", "corr", "reg", "expan"})
    blocks = frozenset({"u", "seg", "p", "ab"})

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.paragraphs = _Utterances()
        self.root = self.join = ""
        self.turns, self.speaker = 0, ""  # open ones, and who speaks in the last
        self.ids: list[str | None] = []  # of open blocks
        self.pieces: list[str] = []
        self.tokens, self.has_tokens = 0, False  # open ones, and whether the block has any

    def open(self, tag: str, attributes: dict[str, str]) -> None:
        space, _, name = tag.rpartition("}")
        self.root = self.root or tag
        if self.root == tag and name not in {"TEI", "teiCorpus", "TEI.2"} and "tei-c.org" not in space:
            raise InputError(f"{self.path}: XML that is not TEI; its root is <{name}>")
        if name in self.blocks:
            self.flush()
            self.ids.append(attributes.get(_ID) or (self.ids[-1] if self.ids else None))
            if name == "u":
                self.turns += 1
                self.speaker = attributes.get("who", "")
        elif name in {"w", "pc"}:
            self.tokens += 1
            self.has_tokens = True
            if self.tokens == 1:
                self.join = attributes.get("join", "")
                if self.join in {"left", "both"} and self.pieces[-1:] == [" "]:
                    self.pieces.pop()
        elif name == "lb" and attributes.get("break") != "no":
            self.pieces.append(" ")

    def shut(self, tag: str) -> None:
        name = tag.rpartition("}")[2]
        if name in self.blocks:
            self.flush()
            self.ids.pop()
            self.turns -= name == "u"
        elif name in {"w", "pc"}:
            self.tokens -= 1
            if not self.tokens and self.join not in {"right", "both"}:
                self.pieces.append(" ")

    def read(self, text: str) -> None:
        if self.ids and not (self.has_tokens and text.isspace()):  # between tokens, blanks are layout
            self.pieces.append(text.strip() if self.tokens else text)

    def flush(self) -> None:
        """Add what was read since the last block began or ended."""
        if self.pieces:
            who = self.speaker.split() if self.turns else []
            speaker = who[0].rpartition("#")[2] if len(who) == 1 else None  # several have no single speaker
            (self.found if self.turns else self.paragraphs).add(" ".join("".join(self.pieces).split()), speaker, self.ids[-1])
        self.pieces, self.has_tokens = [], False


class _Docx(_Target):
    """Reads the paragraphs of Word, those of tables and text boxes as well."""

    left_out = frozenset({"del", "moveFrom", "Fallback"})
    signs: ClassVar = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.paragraphs: list[list[str]] = []  # open ones; a text box is in another
        self.is_text = False

    def open(self, tag: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        space, _, name = tag.rpartition("}")
        if "wordprocessingml" in space:
            self.is_text = name == "t"
            if name == "p":
                self.paragraphs.append([])
            elif name in self.signs and self.paragraphs:
                self.paragraphs[-1].append(self.signs[name])

    def shut(self, tag: str) -> None:
        self.is_text = False
        if tag.endswith("}p") and "wordprocessingml" in tag:
            self.found.add("".join(self.paragraphs.pop()))

    def read(self, text: str) -> None:
        if self.is_text and self.paragraphs:
            self.paragraphs[-1].append(text)


def _read_docx(path: Path, data: bytes) -> Document:
    target = _Docx(path)
    try:
        with zipfile.ZipFile(BytesIO(data)) as book:
            member = next((each for each in book.infolist() if each.filename == "word/document.xml"), None)
            if member is None:
                raise InputError(f"{path}: a zip file without word/document.xml, so no .docx; {_SAVE}")
            if member.flag_bits & 1:
                raise InputError(f"{path}: encrypted; save it without a password")

            def check(unpacked: int) -> None:
                input_guards.check_expansion(path, min(member.compress_size, len(data)), unpacked)
                if unpacked > _MOST_XML_BYTES:
                    raise InputError(f"{path}: more than {_MOST_XML_BYTES >> 20} MB of XML, which is not read")

            check(member.file_size)
            with book.open(member) as file:

                def pieces() -> Iterator[bytes]:
                    unpacked = 0
                    while piece := file.read(_PIECE_BYTES):
                        check(unpacked := unpacked + len(piece))
                        yield piece

                _parse(target, pieces())
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, zlib.error) as error:
        raise InputError(f"{path}: a damaged .docx ({one_line(error)})") from error
    return target.found.document()


def _charset(path: Path, data: bytes) -> str:
    """Return the encoding that an HTML page declares, by default UTF-8."""
    found = _CHARSET.search(data[:_HEAD_BYTES].lower())
    name = found[1].decode() if found else "utf-8"
    if name in {"iso-8859-1", "latin1", "us-ascii", "ascii"}:
        return "cp1252"  # as browsers do
    if not _CHARSETS.fullmatch(name):
        raise InputError(f"{path}: the encoding {name[:40]!r} of a page is not read; save it as UTF-8")
    return name


def _read_html(text: str) -> Document:
    """Read the paragraphs of a page in one pass, as the tokenizer of the standard does; html.parser may take quadratic time."""
    found, pieces, templates, place = _Utterances(), list[str](), 0, 0

    def flush() -> None:
        for paragraph in re.split(r"\n *\n[\n ]*", "".join(pieces)):  # two <br>
            found.add(" ".join(paragraph.split()))
        pieces.clear()

    while markup := _TAG.search(text, place):
        if not templates:
            pieces.append(re.sub(r"\s+", " ", unescape(text[place : markup.start()])))
        opening, is_end, name = markup[1], markup[2], (markup[3] or "").lower()
        rest = _ATTRIBUTES.match(text, markup.end()) if name else None
        ending = "-->" if opening else ">"
        place = rest.end() if rest else text.find(ending, markup.start() + 2) + len(ending) if not name else 0
        if place < len(ending):
            place = len(text)  # an unfinished tag or comment hides the rest
        elif not is_end and name in {"script", "style", "title"} and text[place - 2] != "/":
            close = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, place)
            place = close.start() if close else len(text)
        elif name == "template":
            templates = max(0, templates + (-1 if is_end else 1))
        elif name == "br":
            pieces.append("\n")
        elif _BLOCKS.fullmatch(name):
            flush()
    if not templates:
        pieces.append(re.sub(r"\s+", " ", unescape(text[place:])))
    flush()
    return found.document()


def _read_json(path: Path, text: str) -> Iterator[Document]:
    """Read objects, one on each line or all in one list; digits of numbers stay as they are."""
    read = partial(parse_json, path=path, parse_int=str, parse_float=str, parse_constant=str)
    lines = ((f"line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    where, first = next(lines)
    try:
        values = [(where, read(first))]
    except InputError:
        values = [("line 1", read(text))]
    else:
        values += [(where, read(line, line=int(where[5:]))) for where, line in lines]
    recordings: dict[str | None, _Utterances] = {}
    for where, value in values:
        for number, item in enumerate(value if isinstance(value, list) else [value], 1):
            place = f"{path}, {where}" + (f", item {number}" if isinstance(value, list) else "")
            if not isinstance(item, dict) or not any(field in item for field in _TEXT_FIELDS):
                raise InputError(f"{place}: expected an object with one of {', '.join(_TEXT_FIELDS)}")
            strings = {field: said for field, said in item.items() if isinstance(said, str)}
            if isinstance(words := item.get("words"), list) and all(isinstance(word, str) for word in words):
                strings["words"] = " ".join(words)
            try:
                "".join((*strings, *strings.values())).encode()
            except UnicodeEncodeError as error:
                raise InputError(f"{place}: half a surrogate pair, which is not Unicode") from error
            said, recording, speaker, own = (
                next((strings.pop(field) for field in fields if field in strings), None)
                for fields in (_TEXT_FIELDS, RECORDING_FIELDS, ("speaker", "speaker_id"), ("id", "utterance_id", "segment_id"))
            )
            strings.pop("words", None)
            recordings.setdefault(recording, _Utterances()).add(said or "", speaker, own, strings)
    for recording, found in recordings.items():
        yield found.document(recording)


def _read_tei(path: Path, data: bytes) -> Document:
    target = _Tei(path)
    _parse(target, [data])
    found = target.found.document()
    return found if found.utterances else target.paragraphs.document()
