"""What readers of foreign layouts return, and the helpers that several of them share."""

import codecs
import html
import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nbaudio.audio.name_matching import is_audio
from nbaudio.core import atomic, input_guards
from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import NOT_UNICODE, escape_surrogates
from nbaudio.tables import schemas, split_names
from nbaudio.tables.rows import Rows

#: The columns that every reader returns first.
TRANSCRIPTS = pl.Schema(
    dict.fromkeys(
        (
            "name",
            "segment_id",
            "source_start",
            "source_end",
            "text",
            "text_raw",
            "asr_text",
            "speaker_id",
        ),
        pl.String(),
    )
    | {"word_times": schemas.WORD_TIMES}
)

PROBLEMS = pl.Schema({"file": pl.String(), "line": pl.UInt32(), "reason": pl.String()})

#: As `source_end`: ingest writes the length of the recording, once it is known.
END_OF_RECORDING = "end"

# Numbers stay text, as written.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_NO_BLANK = re.compile(r"[^ \t\r\n]")

BATCH_ROWS = 10_000  # rows that are Python objects at once; columns take a tenth of their memory


class Problem(NamedTuple):
    """An unusable item of a source: its file, line and reason.

    Lines count from 1; the line is None where lines do not apply.
    """

    file: str
    line: int | None
    reason: str


@dataclass(frozen=True)
class NotRead:
    """A part of a source that was not read.

    Attributes:
        what: the part, for people, such as ``sheet 'test' of t.xlsx (rows)``.
        count: how many of it there are.
        option: what reads it, such as ``--option sheet=test``; empty where nothing does.
    """

    what: str
    count: int
    option: str = ""

    def sentence(self) -> str:
        """Return a line for reports that have no table of such parts."""
        remedy = f"; {self.option}" if self.option else ""
        return f"not read: {self.what}: {self.count:,}{remedy}"


@dataclass(frozen=True)
class Transcripts:
    """The transcripts of a source."""

    # One row per segment in source order: `name` of the recording, `segment_id` (null where the
    # source has none), `source_start` and `source_end` (seconds, the source's own characters; both
    # null mean the whole recording), `text` (NFC), `text_raw` (null if it is the same), `asr_text`
    # (null where there is no hypothesis), `speaker_id`, `word_times` (seconds from the segment's
    # start), and further columns. Known ones are `source_split`, `source_duration` (seconds,
    # checked against the audio), `source_recording` (the source's id of the recording) and
    # `source_channel` (see `nbaudio.audio.channels`).
    rows: Rows
    problems: pl.DataFrame  # one row per line that could not be read, as `PROBLEMS`
    # Where the source itself brings its recordings; `--audio` takes precedence.
    audio_root: Path | str | None = None
    # Names of all files of the intact archive that `audio_root` is in, where the reader read it.
    archive_members: Sequence[str] | None = None
    # Names and bytes of recordings, which ingest writes into the workspace.
    embedded: Iterable[tuple[str, bytes]] | None = None
    # Windows of whole recordings: seconds, and whether a shorter last one is kept.
    windows: tuple[Decimal, bool] | None = None
    # Columns that fields were read from, such as ``{"text": "sentence"}``.
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()  # what to report about how the source was read
    not_read: Sequence[NotRead] = ()  # parts of the source that were left out; see `with_not_read`
    on_picture_clock: bool = False  # times count from the start of a video, not of its sound
    in_samples: bool = False  # times are samples of the recording, not seconds
    # Option that says the unit of times, where the source does not say it; they are read as seconds
    # then, if they may be seconds.
    unit_option: str | None = None
    # Table of what `align` did not match, with `name` of the recording.
    unmatched: pl.DataFrame | None = None

    @property
    def frame(self) -> pl.DataFrame:
        """All rows, in memory."""
        return self.rows.frame()


#: Fields of JSON that may name the recording.
RECORDING_FIELDS = ("recording", "recording_id", "orig_file", "file", "audio", "audio_filepath")

_Parsed = Iterable[dict[str, Any] | tuple[int | None, str]]

#: Reads a source (a `Path`, or any `Location` for `sources.remote_sources.REMOTE_FORMATS`), with
#: the options of the format, keyword-only strings. A broken item becomes a `Problem`; a source
#: without any usable item raises an InputError.
Reader = Callable[..., Transcripts]


def frames_of_rows(rows: Iterable[Mapping[str, Any]], schema: pl.Schema) -> Iterator[pl.DataFrame]:
    """Yield frames of `BATCH_ROWS` rows."""
    left = iter(rows)
    while len(frame := pl.DataFrame(list(islice(left, BATCH_ROWS)), schema=schema)):
        yield frame


def frame_of_rows(rows: Iterable[Mapping[str, Any]], schema: pl.Schema) -> pl.DataFrame:
    """Collect rows in a frame, with at most `BATCH_ROWS` of them in memory as objects."""
    return pl.concat([pl.DataFrame(schema=schema), *frames_of_rows(rows, schema)], rechunk=True)


def collect_rows(
    source: object,
    items: Iterable[Mapping[str, Any] | Problem],
    *,
    further: Sequence[str] = (),
    expected: str,
) -> Transcripts:
    """Collect the rows and problems of a source.

    Empty `further` columns are dropped. Without any row, raise InputError with what is `expected`.
    """
    schema = pl.Schema({**TRANSCRIPTS, **dict.fromkeys(further, pl.String())})
    problems: list[Problem] = []

    def only_rows() -> Iterator[Mapping[str, Any]]:
        for item in items:
            if isinstance(item, Problem):
                problems.append(item)
            else:
                yield item

    def frames() -> Iterator[pl.DataFrame]:
        """Yield the rows as frames, texts in NFC, without optional columns that are all null."""
        for frame in frames_of_rows(only_rows(), schema):
            composed = frame.with_columns(pl.col("text", "asr_text").str.normalize("NFC"))
            yield composed.select(
                name
                for name in schema
                if name in TRANSCRIPTS or composed[name].null_count() < len(frame)
            )

    rows = Rows.collect(frames(), schema)
    if not rows.parts:
        where = ""
        if problems:
            first = problems[0]
            line = f", line {first.line}" if first.line else ""
            where = f"; {first.file}{line}: {first.reason}"
        raise InputError(f"{source}: no usable item; expected {expected}{where}")
    return Transcripts(rows, pl.DataFrame(problems, schema=PROBLEMS, orient="row"))


def with_not_read(transcripts: Transcripts, *parts: NotRead) -> Transcripts:
    """Record parts of a source that were not read, which the report lists; counts of 0 are none."""
    counted = [part for part in parts if part.count]
    return replace(transcripts, not_read=[*transcripts.not_read, *counted])


def clean_columns(rows: Rows) -> Rows:
    """Prefix reserved names of columns with ``source_``, and make blank speakers null.

    The names in `RESERVED` and `WRITTEN` of `nbaudio.tables.schemas` are reserved.
    """
    names = {
        name: source_column(name, schemas.RESERVED | schemas.WRITTEN, rows.schema)
        for name in rows.schema
    }
    # All segments of a blank speaker would count as one person.

    def cleaned(frame: pl.DataFrame) -> pl.DataFrame:
        renamed = frame.rename(names, strict=False)
        spoken = pl.when(pl.col("speaker_id").str.contains(r"\S")).then("speaker_id")
        if "speaker_id" in renamed.columns:
            return renamed.with_columns(spoken)
        return renamed

    return rows.map(cleaned)


def source_column(name: str, reserved: Container[str], taken: Container[str]) -> str:
    """Prefix a column's name with ``source_`` until it is neither reserved nor taken.

    A name that is not reserved stays as it is, also if it is in `taken`.
    """
    new = name
    while new in reserved or (new != name and new in taken):
        new = f"source_{new}"
    return new


def check_link(path: Path, folder: Path) -> None:
    """Raise InputError if a file or folder of a source must not be read.

    It must not if it is a link to outside its folder, or neither a folder nor a regular file.
    """
    if atomic.escapes_folder(path, atomic.trusted_root(folder)):
        raise InputError(
            f"{path}: a link that points outside its folder is not followed; "
            "copy the file, or give its path"
        )
    if not path.is_dir():
        with suppress(FileNotFoundError):
            input_guards.check_regular(path)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Iterate over the lines of a UTF-8 file that are not blank, numbered from 1.

    Only line feeds separate lines. The lines come without their ends.
    """
    check_link(path, path.parent)
    number = 0
    try:
        for number, line in enumerate(_lines(path), 1):
            text = line.decode("utf-8-sig" if number == 1 else "utf8")
            if text.strip():
                yield number, text.rstrip("\r\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from error


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file."""
    with path.open("rb") as file:
        yield from input_guards.lines(file, path)


def decode_text(content: bytes, encoding: str | None = None, *, errors: str = "strict") -> str:
    """Decode a text file: UTF-16 with a byte order mark, UTF-8, or else text in `encoding`.

    The text has no byte order mark, and its lines end in line feeds. Raise UnicodeDecodeError if
    the bytes are no such text.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif not encoding or content.startswith(codecs.BOM_UTF8) or are_utf8([content], encoding):
        encoding = "utf-8"
    text = content.decode(encoding, errors).removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def are_utf8(blocks: Iterable[bytes], encoding: str) -> bool:
    """Return whether a text is UTF-8, although an option says another `encoding`.

    Only characters beyond ASCII show it, and only where each of the other encoding is one byte:
    short words of Chinese may be valid UTF-8 by chance.
    """
    if len(bytes(range(256)).decode(encoding, "replace")) < 256:
        return False
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_ascii = True
    try:
        for block in blocks:
            is_ascii = decoder.decode(block).isascii() and is_ascii
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return not is_ascii


def check_encoding(encoding: str | None) -> None:
    """Raise InputError where an option names no encoding of text."""
    try:
        "".encode(encoding or "utf8")  # some known codecs are not for text
    except LookupError as error:
        raise InputError(
            f"option encoding: {encoding!r} is unknown; known are such as utf8, utf16, "
            "cp1250, latin1"
        ) from error


def unescape(text: str) -> str:
    """Resolve the character references of HTML.

    Numbers that are too long for `html.unescape` stay as they are.
    """
    return re.sub(r"&#?\w{1,40}\b;?", lambda match: html.unescape(match[0]), text)


def json_values(path: Path, *, errors: str = "strict") -> Iterator[tuple[str, Any]]:
    """Yield the values of a file of JSON and their places in it.

    The file has JSON lines, or is read as a whole if its first line is not JSON; it may have
    several values then. Lists are yielded item by item. Numbers are text, as written.

    Args:
        path: of the file.
        errors: what is done with bytes that are not UTF-8 in a file that is read as a whole, as
            for `bytes.decode`.

    Raises:
        InputError: the file is not JSON, or not Unicode.
    """
    lines = numbered_lines(path.resolve())
    try:
        first = next(lines)
        json.loads(first[1])
    except (InputError, ValueError, RecursionError):
        first = (1, decode_text(input_guards.read_all(path), errors=errors))
        lines = iter(())
    for number, text in chain([first], lines):
        for line, value in _decoded_values(path, number, text, errors):
            where = f"{path}, line {line}"
            if isinstance(value, list):
                yield from ((f"{where}, item {place}", item) for place, item in enumerate(value, 1))
            else:
                yield where, value


def _decoded_values(path: Path, number: int, text: str, errors: str) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of a text that begins in a line, and the lines that they begin in."""
    has_surrogates = "\\ud" in text.lower()
    line = number
    end = 0
    try:
        while end == 0 or _NO_BLANK.search(text, end):
            position = _NO_BLANK.search(text, end)
            start = position.start() if position else len(text)
            line += text.count("\n", end, start)
            value, after = _DECODER.raw_decode(text, start)
            if has_surrogates:
                json.dumps(value, ensure_ascii=False).encode(errors=errors)
            yield line, value
            line += text.count("\n", start, after)
            end = after
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} (character {error.colno} of the line)"
        raise InputError(f"{path}, line {number + error.lineno - 1}: {reason}") from error
    except UnicodeEncodeError as error:
        reason = "half a surrogate pair, which is not Unicode"
        raise InputError(f"{path}, line {line}: {reason}") from error
    except RecursionError as error:
        raise InputError(f"{path}, line {line}: JSON that is nested too deeply") from error


def list_manifests(source: Path, endings: tuple[str, ...]) -> list[Path]:
    """List the source itself, or the files in it with one of `endings`.

    Files are sorted; hidden ones are left out.
    """
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise InputError(f"{source}: there is no such file or folder")
    files = sorted(
        path
        for path in source.iterdir()
        if path.name.endswith(endings) and not path.name.startswith(".")
    )
    if not files:
        raise InputError(f"{source}: no file here ends in {' or '.join(endings)}")
    for file in files:
        check_link(file, source)
        if escape_surrogates(file.name) != file.name:
            raise InputError(f"{source}: {escape_surrogates(file.name)}: {NOT_UNICODE}")
    return files


def with_audio_root(transcripts: Transcripts, folder: Path) -> Transcripts:
    """Set `audio_root` to the innermost folder that holds all existing recordings.

    Names of recordings are absolute, or relative to `folder`.
    """
    paths = (os.path.normpath(folder / name) for name in transcripts.rows.unique("name")["name"])
    files = filter(os.path.isfile, paths)  # which accepts any name
    folders = set(map(os.path.dirname, files))
    if not folders:
        return transcripts
    root = Path(os.path.commonpath(folders))
    if root == Path(root.anchor):
        return transcripts
    return replace(transcripts, audio_root=root)


def _sidecar_text(file: Path, path: str, encoding: str | None, root: Path | None) -> str | Problem:
    """Return the text of a file, or why it cannot be read.

    `path` is its name in problems; links must not leave the folder `root`, if it is given.
    """
    try:
        if root is not None:
            check_link(file, root)
        return decode_text(input_guards.read_all(file), encoding)
    except (OSError, InputError) as error:
        return Problem(path, None, str(error))
    except UnicodeDecodeError as error:
        where = f"not {error.encoding} text (byte {error.start + 1})"
        return Problem(path, None, f"{where}; name the encoding in an option")


class _FilesByRecording:
    """The file that was read for each recording, which may name it with its ending or without."""

    def __init__(self) -> None:
        self._by_name: dict[str, str] = {}
        self._by_stem: dict[str, str] = {}  # by names without the ending of a recording

    def add(self, name: str, path: str) -> str | None:
        """Add the file of a recording; return that which was added for it before, if any.

        c.wav is the recording of c, but not of c.mp3.
        """
        if is_audio(name):
            stem = name.rpartition(".")[0]
            before = self._by_name.get(name) or self._by_name.get(stem)
        else:
            stem = name
            before = self._by_stem.get(name)
        if before is None:
            self._by_name[name] = path
            self._by_stem[stem] = path
        return before


def read_sidecars(
    source: Path,
    endings: tuple[str, ...],
    parse: Callable[[str], _Parsed],
    *,
    encoding: str | None,
    further: Sequence[str] = (),
    expected: str,
) -> Transcripts:
    """Read text files beside recordings of the same name, or one such file.

    `parse` yields rows without `name`, with `further` columns, or the line and the reason of what
    cannot be read.
    """
    check_encoding(encoding)
    root = source.parent
    files = [source]
    if source.is_dir():
        named = (path for path in source.rglob("[!.]*") if path.name.lower().endswith(endings))
        root = source
        files = sorted(path for path in named if path.is_file())

    def items() -> Iterator[dict[str, Any] | Problem]:
        """Yield the rows of each file, and the problems of files and lines."""
        read = _FilesByRecording()
        for file in files:
            path = file.relative_to(root).as_posix()
            if escape_surrogates(path) != path:
                yield Problem(escape_surrogates(path), None, NOT_UNICODE)
                continue
            ending = next(
                (ending for ending in endings if path.lower().endswith(ending)), file.suffix
            )
            text = _sidecar_text(file, path, encoding, root if file != source else None)
            if isinstance(text, Problem):
                yield text
                continue
            name = path[: len(path) - len(ending)]
            before = read.add(name, path)
            if before is not None:
                yield Problem(path, None, f"{before} is read for the same recording; keep one")
                continue
            row = {
                "name": name,
                "source_split": split_names.split_of_folder(path),
            }
            for item in parse(text):
                if isinstance(item, tuple):
                    yield Problem(path, *item)
                else:
                    yield row | item

    return replace(
        collect_rows(source, items(), further=("source_split", *further), expected=expected),
        audio_root=root,
    )
