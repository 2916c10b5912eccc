"""Read transcripts as people have them, not cut.

They are plain text, subtitles, TEI, Word documents, PDFs, web pages or JSON lines.
"""

import codecs
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from io import BytesIO
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, ParseError, iterparse

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.pdf_pages import read_pdf
from nbaudio.formats.rolling_captions import show_once
from nbaudio.formats.subtitle_cues import TIMES, cue_text, cues
from nbaudio.formats.timed_texts import find_timed_text
from nbaudio.formats.transcripts import RECORDING_FIELDS, decode_text, json_values
from nbaudio.formats.web_pages import PAGE, page_paragraphs, raised_digits


class Utterance(NamedTuple):
    """A paragraph or turn of a document.

    Attributes:
        start: its first character in the text of the document.
        end: the character after its last one.
        speaker_id: as the source has it.
        utterance_id: as the source has it.
    """

    start: int
    end: int
    speaker_id: str | None = None
    utterance_id: str | None = None


class LeftOut(NamedTuple):
    """Parts of a file that are no transcript, such as notes, and how many they are."""

    what: str
    number: int


class DocumentLine(NamedTuple):
    """A line of a document.

    Attributes:
        start: its first character in the text of the document.
        number: from 1; in a PDF on its page, in reading order, as `PdfLine` has it.
        page: from 1, None where the format has no pages.
    """

    start: int
    number: int
    page: int | None = None


class Document(NamedTuple):
    """A transcript and its utterances.

    Attributes:
        recording: the name of its recording, if the file has one.
        text: as typed.
        utterances: in order; every word of the text is in one.
        left_out: what of the file is not in the text.
        lines: in order, where the format has lines of its own: plain text and PDF.
        problems: pages of a PDF that cannot be read, with reasons.
    """

    recording: str | None
    text: str
    utterances: list[Utterance]
    left_out: tuple[LeftOut, ...] = ()
    lines: Sequence[DocumentLine] = ()
    problems: tuple[str, ...] = ()


class _Spoken(NamedTuple):
    """The text of an utterance, before its place in the text of the document is known."""

    text: str
    speaker_id: str | None = None
    utterance_id: str | None = None


# How formats are recognized.
_SAVE_AS = "save it as .docx or as plain text"
_REFUSED_FORMATS = {  # first bytes of a file, and why it is not read
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": (
        "an old or encrypted Word file; save it as .docx without a password"
    ),
    b"{\\rtf": f"an RTF file, which is not read; {_SAVE_AS}",
}
_PDF = b"%PDF-"
_MOST_BEFORE_PDF = 1024  # bytes that readers of PDF allow in front of it
_STARTS_AS_XML = re.compile(r"\s*<(?:\?xml|!DOCTYPE|TEI\b|teiCorpus\b)")
# An object, or a list of objects or lists; a text may begin with a word in brackets or braces.
_STARTS_AS_JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\]{])")
_DECLARED_CHARSET = re.compile(
    r"(?:charset|encoding)\s*=\s*[\"']?\s*"
    r"(utf-8|windows-125[0-8]|iso-8859-(?:1[013-6]?|[2-9])|koi8-[ru])\b"
)

# Plain text.
_END_OF_FILE = "\x1a"  # character that programs of DOS write at the end of a file
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0e-\x1f]")  # all but kinds of blanks and line ends
_TEXT_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")  # lines up to a blank one

# Subtitles.
_UNREADABLE_CUES = "cues without readable times"

# JSON: for each value of an utterance, the fields that may have it, the preferred one first.
_TEXT_FIELDS = ("text", "transcript", "sentence", "content", "words")
_JSON_FIELDS = (
    _TEXT_FIELDS,
    RECORDING_FIELDS,
    ("speaker", "speaker_id"),
    ("id", "utterance_id", "segment_id"),
)

# TEI: local names of elements.
_TEI_ROOTS = {"TEI", "teiCorpus", "TEI.2"}
_TEI_BLOCKS = {"u", "seg", "p", "ab"}  # turns and paragraphs; each is an utterance
# Elements that are no speech, by what they are called in the report.
_TEI_NOTES = {
    "note": "notes of TEI",
    "kinesic": "incidents of TEI",
    "vocal": "incidents of TEI",
    "incident": "incidents of TEI",
    "gap": "gaps of TEI",
    "stage": "stage directions of TEI",
    "fw": "headers and footers of TEI",
    "del": "deleted texts of TEI",
}
# Further ones are left out without a count: what is about the text or an event in it, and second
# forms of words.
_TEI_LEFT_OUT = {*_TEI_NOTES, "teiHeader", "desc", "corr", "reg", "expan"}
# What is read or left out is emptied, so that the block around it does not have it again.
_TEI_CLEARED = _TEI_BLOCKS | _TEI_LEFT_OUT
_TEI_TOKENS = {"w", "pc"}  # a word, a punctuation mark
_TEI_SIGNS = {"lb": " "}  # elements that stand for a character
_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"

# Word: names of parts of the package, and local names of elements.
_WORD_DOCUMENT = "word/document.xml"
_WORD_STYLES = "word/styles.xml"
_WORD_PAGE_PART = re.compile(r"word/(?:header|footer)\d*\.xml")
_WORD_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_WORD_DELETED = {"del", "moveFrom"}  # text that a tracked change removed
_WORD_STRUCK_OUT = ("strike", "dstrike")
_WORD_FALSE = {"0", "false", "off"}  # values that turn a property off
_WORD_REFERENCES = {
    "footnoteReference": "footnotes of Word documents",
    "endnoteReference": "footnotes of Word documents",
    "commentReference": "comments of Word documents",
}
_HEADERS_AND_FOOTERS = "headers and footers of Word documents"
_HIDDEN_TEXT = "hidden texts of Word documents"
_DELETED_TEXT = "deleted texts of Word documents"
_LONGEST_SPEAKER_NAME = 80  # letters; more in bold are a heading or emphasis


def read_documents(path: Path) -> Iterator[Document]:
    r"""Read the transcripts of a file, whose format is recognized by its content.

    Known are plain text (UTF-8 or marked UTF-16; blank lines separate paragraphs), SRT and WebVTT
    (each line once; cues of one speaker are one utterance), TEI as ParlaMint has it, .docx, PDF,
    HTML, and JSON lines. Only JSON names recordings; its objects are grouped by recording, in order
    of first appearance.

    Raises:
        InputError: The file has no words, is too large, or cannot be read; the message has the file
            and the reason.
        MissingExtraError: It is a PDF, and the extra ``pdf`` is not installed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> _ = path.write_text("Dobar dan\nsvima.\n\nHvala.\n")
        >>> [document] = read_documents(path)
        >>> [document.text[part.start : part.end] for part in document.utterances]
        ['Dobar dan\nsvima.', 'Hvala.']
    """
    try:
        documents = [
            document
            for document in _recognized_documents(path, input_guards.read_all(path))
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
        if match := _CONTROL_CHARACTER.search(document.text):
            raise InputError(
                f"{path}: not text; it has the control character 0x{ord(match[0]):02x}"
            )
        yield document


def _recognized_documents(path: Path, content: bytes) -> Iterable[Document]:
    """Return the documents of a file's content; raise InputError for a refused format."""
    if document := _binary_document(path, content):
        return [document]
    is_marked = content.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    head = decode_text(content[:4096], errors="replace")
    if b"\0" in content and not is_marked:
        raise InputError(f"{path}: binary data, not text")
    if PAGE.match(head):
        declared = _DECLARED_CHARSET.search(head.lower())
        encoding = declared[1] if declared and not is_marked else None
        if encoding == "iso-8859-1":
            encoding = "cp1252"  # as browsers read it
        return [_read_html(decode_text(content, encoding))]
    if timed_text := find_timed_text(head):
        reason = f"{timed_text.name}, not read as a transcript; {timed_text.remedy}"
        raise InputError(f"{path}: {reason}")
    if _STARTS_AS_XML.match(head):
        return [_read_xml(path, content)]
    if _STARTS_AS_JSON.match(head):
        return _read_json(path)
    text = decode_text(content).rstrip(_END_OF_FILE)
    if head.startswith("WEBVTT") or TIMES.search(head):
        return [_read_subtitles(text)]
    return [_read_text(text)]


def _binary_document(path: Path, content: bytes) -> Document | None:
    """Return a Word document or a PDF, None for others; raise InputError for a refused format."""
    for start, reason in _REFUSED_FORMATS.items():
        if content.startswith(start):
            raise InputError(f"{path}: {reason}")
    if content.startswith(b"PK\3\4"):
        return _read_word(path, content)
    if _PDF in content[:_MOST_BEFORE_PDF]:
        return _read_pdf(path, content)
    return None


def _read_text(text: str) -> Document:
    """Read plain text, whose paragraphs blank lines separate."""
    paragraphs = (
        paragraph for paragraph in _TEXT_PARAGRAPH.finditer(text) if re.search(r"\w", paragraph[0])
    )
    utterances = [
        Utterance(paragraph.start(), paragraph.start() + len(paragraph[0].rstrip()))
        for paragraph in paragraphs
    ]
    starts = [0, *(end.end() for end in re.finditer("\n", text))]
    lines = [DocumentLine(start, number) for number, start in enumerate(starts, 1)]
    return Document(None, text, utterances, lines=lines)


def _read_pdf(path: Path, content: bytes) -> Document:
    """Read a PDF, whose text has blank lines between paragraphs."""
    pdf = read_pdf(path, content)
    document = _read_text(pdf.text)
    parts = tuple(LeftOut(what, number) for what, number in pdf.left_out.items() if number)
    lines = [DocumentLine(line.start, line.number, line.page) for line in pdf.lines]
    return document._replace(left_out=parts, lines=lines, problems=pdf.problems)


def _read_subtitles(text: str) -> Document:
    """Read cues; consecutive ones of one speaker are one utterance.

    Rolling captions repeat the lines of the cue before; each line is read once.
    """
    items = list(cues(text))
    readable = [item for item in items if isinstance(item, dict)]
    captions = show_once(sorted(readable, key=lambda cue: Decimal(cue["source_start"])))
    utterances = [
        _Spoken("\n".join(line for cue in run for line in _cue_lines(cue)), speaker)
        for speaker, run in groupby(captions.cues, key=lambda cue: cue["speaker_id"])
    ]
    unreadable = sum(isinstance(item, tuple) for item in items)  # line and reason of each
    return _document_of_utterances(utterances, left_out=Counter({_UNREADABLE_CUES: unreadable}))


def _cue_lines(cue: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a cue without tags."""
    for line in cue["lines"]:
        yield cue_text([line])["text"] or ""


def _document_of_utterances(
    spoken: Iterable[_Spoken], recording: str | None = None, left_out: Counter[str] | None = None
) -> Document:
    """Return the document of utterances, which line ends separate.

    Utterances without words are left out. `left_out` may be filled by the iterator `spoken`: it is
    complete once all utterances are read.
    """
    worded = [
        utterance._replace(text=utterance.text.strip())
        for utterance in spoken
        if re.search(r"\w", utterance.text)
    ]
    # Each text is followed by a line end; the last start is that of no utterance.
    starts = accumulate((len(utterance.text) + 1 for utterance in worded), initial=0)
    utterances = [
        Utterance(start, start + len(text), speaker_id, utterance_id)
        for start, (text, speaker_id, utterance_id) in zip(starts, worded, strict=False)
    ]
    parts = tuple(LeftOut(what, number) for what, number in (left_out or {}).items() if number)
    text = "\n".join(utterance.text for utterance in worded)
    return Document(recording, text, utterances, parts)


def _read_json(path: Path) -> Iterable[Document]:
    """Read JSON objects, grouped by recording; raise InputError for one without a text."""
    recordings: dict[str | None, list[_Spoken]] = {}
    for where, item in json_values(path):
        if not isinstance(item, dict) or not any(field in item for field in _TEXT_FIELDS):
            raise InputError(f"{where}: expected an object with one of {', '.join(_TEXT_FIELDS)}")
        if isinstance(words := item.get("words"), list):
            item["words"] = " ".join(word for word in words if isinstance(word, str))
        strings_by_field = (
            (item[field] for field in fields if isinstance(item.get(field), str))
            for fields in _JSON_FIELDS
        )
        text, recording, speaker, utterance_id = (
            next(strings, None) for strings in strings_by_field
        )
        recordings.setdefault(recording, []).append(_Spoken(text or "", speaker, utterance_id))
    return (_document_of_utterances(spoken, recording) for recording, spoken in recordings.items())


def _read_html(text: str) -> Document:
    """Read a web page, without its navigation and hidden text."""
    left_out = Counter[str]()
    paragraphs = page_paragraphs(text, left_out)
    return _document_of_utterances(map(_Spoken, paragraphs), left_out=left_out)


def _read_word(path: Path, content: bytes) -> Document:
    """Read the paragraphs of a Word document, without hidden and deleted text."""
    with zipfile.ZipFile(BytesIO(content)) as book:
        if _WORD_DOCUMENT not in book.namelist():
            raise InputError(
                f"{path}: a zip file without {_WORD_DOCUMENT}, so no .docx; {_SAVE_AS}"
            )
        text = _unpack(path, book, _WORD_DOCUMENT)
        hidden_styles = set[str]()
        if _WORD_STYLES in book.namelist():
            hidden_styles = _hidden_styles(_unpack(path, book, _WORD_STYLES))
        parts = [name for name in book.namelist() if _WORD_PAGE_PART.fullmatch(name)]
        running = sum(_has_words(_unpack(path, book, name)) for name in parts)
    left_out = Counter({_HEADERS_AND_FOOTERS: running})
    return _document_of_utterances(
        _word_paragraphs(text, hidden_styles, left_out), left_out=left_out
    )


def _has_words(xml: bytes) -> bool:
    """Return whether a part of a Word document shows words."""
    texts = (
        element.text or ""
        for _, element in iterparse(BytesIO(xml))  # noqa: S314  # no entities
        if _name_in_word(element) == "t"
    )
    return any(re.search(r"\w", text) for text in texts)


def _unpack(path: Path, book: zipfile.ZipFile, name: str) -> bytes:
    """Return a part of a Word document.

    Its size according to the header is checked; zipfile unpacks no more than that.
    """
    member = book.getinfo(name)
    if member.flag_bits & 1:
        raise InputError(f"{path}: encrypted; save it without a password")
    # zipfile unpacks other methods all at once, without a limit.
    if member.compress_type > zipfile.ZIP_DEFLATED:
        raise zipfile.BadZipFile(f"compressed by method {member.compress_type}")
    packed = min(member.compress_size, path.stat().st_size, 1 << 20)
    input_guards.check_expansion(path, packed, member.file_size)
    content = book.read(member)
    _check_document_type(path, content)
    return content


def _check_document_type(path: Path, xml: bytes) -> None:
    """Raise InputError for XML with a document type, which may define entities."""
    if b"<!DOCTYPE" in xml.replace(b"\0", b""):  # in UTF-16 as well
        raise InputError(
            f"{path}: XML with a document type or entities, which are not read; "
            "remove <!DOCTYPE ...>"
        )


def _local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _hidden_styles(xml: bytes) -> set[str]:
    """Return the ids of the styles of a Word document whose text is hidden."""
    hidden = set[str]()
    for _, element in iterparse(BytesIO(xml)):  # noqa: S314  # no entities
        if _local_name(element) == "style" and _is_hidden(element, set()):
            hidden |= {value for name, value in element.items() if name.endswith("}styleId")}
    return hidden


def _is_hidden(element: Element, hidden_styles: set[str]) -> bool:
    """Return whether the properties of a run, paragraph or style hide its text."""
    for properties in element:
        if _local_name(properties) not in {"rPr", "pPr"}:
            continue
        for setting in properties:
            value = next((text for name, text in setting.items() if name.endswith("}val")), "")
            is_vanish = _local_name(setting) == "vanish" and value not in _WORD_FALSE
            if is_vanish or (
                _local_name(setting) in {"rStyle", "pStyle"} and value in hidden_styles
            ):
                return True
    return False


def _name_in_word(element: Element) -> str:
    """Return the local name of an element of Word; "" for others, such as those of drawings."""
    return _local_name(element) if "wordprocessingml" in element.tag else ""


def _word_paragraphs(
    xml: bytes, hidden_styles: set[str], left_out: Counter[str]
) -> Iterator[_Spoken]:
    """Yield the paragraphs of a Word document.

    Hidden and deleted texts, and references to notes, are counted in `left_out`. What is read is
    removed from the tree, so that a paragraph around others, as of a text box, has its own text.
    """
    num_skipped = 0  # elements around this one whose text is skipped
    for event, element in iterparse(BytesIO(xml), ("start", "end")):  # noqa: S314  # no entities
        name = _name_in_word(element)
        # A fallback repeats what is beside it, for older programs.
        is_skipped = name in _WORD_DELETED or _local_name(element) == "Fallback"
        if event == "start":
            num_skipped += is_skipped
            continue
        num_skipped -= is_skipped
        left_out[_DELETED_TEXT] += name in _WORD_DELETED
        if name in _WORD_REFERENCES:
            left_out[_WORD_REFERENCES[name]] += 1
        if name == "r":
            _clear_unshown_run(element, hidden_styles, left_out)
        elif name == "p" and not num_skipped:
            if _is_hidden(element, hidden_styles):
                left_out[_HIDDEN_TEXT] += 1
            else:
                _mark_bold_name(element)
                yield _Spoken("".join(child.text or "" for child in element.iter()))
            del element[:]
        elif is_skipped:
            del element[:]
        elif name != "t":  # only these have text
            element.text = _WORD_SIGNS.get(name, "")


def _mark_bold_name(paragraph: Element) -> None:
    """Write a tab behind bold letters at the start of a paragraph of Word, before other words.

    They are often the name of a speaker, which the tab tells from the words.
    """
    runs = [run for run in paragraph.iter() if _name_in_word(run) == "r" and len(run)]
    texts = ["".join(run.itertext()) for run in runs]
    is_bold = [_run_properties(run).get("b", "0") not in _WORD_FALSE for run in runs]
    num_bold = is_bold.index(False) if False in is_bold else len(runs)
    name = "".join(texts[:num_bold])
    others = "".join(texts[num_bold:])
    is_separate = name[-1:].isspace() or others[:1].isspace()
    if name.strip() and is_separate and others.strip() and len(name) <= _LONGEST_SPEAKER_NAME:
        last = runs[num_bold - 1][-1]
        last.text = f"{(last.text or '').rstrip()}\t"


def _run_properties(run: Element) -> dict[str, str]:
    """Return the properties of a run with their values, empty where they have none."""
    return {
        _local_name(setting): next(
            (text for name, text in setting.items() if name.endswith("}val")), ""
        )
        for properties in run
        if _local_name(properties) == "rPr"
        for setting in properties
    }


def _clear_unshown_run(run: Element, hidden_styles: set[str], left_out: Counter[str]) -> None:
    """Clear a run of a Word document that is hidden or struck out.

    Digits that are set high, such as those of footnotes, become the raised digits of Unicode.
    """
    properties = _run_properties(run)
    if _is_hidden(run, hidden_styles):
        left_out[_HIDDEN_TEXT] += 1
        del run[:]
    elif any(properties.get(name, "0") not in _WORD_FALSE for name in _WORD_STRUCK_OUT):
        left_out[_DELETED_TEXT] += 1
        del run[:]
    elif properties.get("vertAlign") == "superscript":
        for child in run:
            if (child.text or "").strip().isdigit():
                child.text = raised_digits(child.text or "")


def _read_xml(path: Path, xml: bytes) -> Document:
    """Read TEI, or the text of a Word document that is no package."""
    _check_document_type(path, xml)
    (_, root) = next(iter(iterparse(BytesIO(xml), ("start",))))  # noqa: S314  # no entities
    left_out = Counter[str]()
    if "wordprocessingml" in root.tag and _local_name(root) == "document":
        return _document_of_utterances(_word_paragraphs(xml, set(), left_out), left_out=left_out)
    if _local_name(root) not in _TEI_ROOTS:
        raise InputError(f"{path}: XML that is not TEI; its root is <{_local_name(root)}>")
    return _document_of_utterances(_tei_utterances(xml, left_out), left_out=left_out)


def _tei_utterances(xml: bytes, left_out: Counter[str]) -> Iterator[_Spoken]:
    """Yield the paragraphs of TEI with the speaker of the turn, and their id or that of the turn.

    Those of `_TEI_NOTES` are counted in `left_out`. What is read is removed from the tree: at its
    end, a turn has only the text that is in none of its paragraphs.
    """
    num_left_out = 0  # elements around this one that are no speech
    turn = dict[str, str]()  # the attributes of the element <u> around this one
    for event, element in iterparse(BytesIO(xml), ("start", "end")):  # noqa: S314  # no entities
        name = _local_name(element)
        if event == "start":
            num_left_out += name in _TEI_LEFT_OUT
            if name == "u":
                turn = element.attrib
            continue
        num_left_out -= name in _TEI_LEFT_OUT
        if name in _TEI_NOTES:
            left_out[_TEI_NOTES[name]] += 1
        if name in _TEI_BLOCKS and not num_left_out:
            text = " ".join("".join(element.itertext()).split())
            who = turn.get("who", "").split()
            # Several are no single speaker.
            speaker = who[0].rpartition("#")[2] if len(who) == 1 else None
            joined = re.sub(" ?\0 ?", "", text)  # see `_joined_token`
            yield _Spoken(joined, speaker, element.get(_XML_ID, turn.get(_XML_ID)))
        if name in _TEI_TOKENS:
            element.text = _joined_token(element)
        elif name in _TEI_CLEARED or name in _TEI_SIGNS:
            element.text = _TEI_SIGNS.get(name, "")
        if name in _TEI_CLEARED or name in _TEI_TOKENS:
            del element[:]
        if name == "u":
            turn = {}


def _joined_token(element: Element) -> str:
    """Return a token of TEI between blanks; a null character joins it with its neighbor."""
    join = element.get("join")
    token = "".join(part.strip() for part in element.itertext())
    left = "\0" if join in {"left", "both"} else " "
    right = "\0" if join in {"right", "both"} else ""
    return left + token + right
