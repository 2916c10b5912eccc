"""Texts in files beside recordings: which file is of which recording, and what it says.

`a.txt`, `a.lab` and `a.json` are texts of `a.wav`, and so are LibriTTS's `a.normalized.txt` and
`a.original.txt`. A file is one text.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import polars as pl

from nbaudio.audio.name_matching import tidy_stem
from nbaudio.core import input_guards, threads
from nbaudio.core.errors import AudioError
from nbaudio.formats.recognizer_layouts import find_layout
from nbaudio.formats.source_columns import USUAL_NAMES
from nbaudio.formats.subtitle_cues import TIMES
from nbaudio.formats.timed_texts import find_timed_text, has_clock_times
from nbaudio.formats.transcripts import Problem, decode_text
from nbaudio.formats.web_pages import PAGE
from nbaudio.storage.location import Location, read_whole
from nbaudio.tables.split_names import split_of_folder

_NORMALIZED = "normalized.txt"
_ORIGINAL = "original.txt"
#: How names of text files end, after the name of the recording; the first one is preferred.
KINDS = (_NORMALIZED, "txt", "lab", "json", _ORIGINAL)
#: Columns of the segments with texts that differ from the preferred one, by kind.
FURTHER_TEXTS: Mapping[str, str] = {"txt": "text_txt", "lab": "text_lab", "json": "text_json"}

_FILE = rf"(?is)^(.*?)\.({'|'.join(re.escape(kind) for kind in KINDS)})$"
# A line of labels: start, end and what is labelled, in seconds, or as HTK has it in 100 ns.
_LABEL = re.compile(r"(-?\d+(?:[.,]\d+)?)[ \t]+(-?\d+(?:[.,]\d+)?)(?:[ \t]+\S.*)?")
_FREQUENCIES = "\\\t"  # beginning of a line about the label before, as Audacity has it
_RTF = "{\\rtf"
_END_OF_HEADER = "#"  # line that ends the header of Festival's labels
_MOST_SPOKEN = 1000  # numbers up to this one may be words in a line alone: "2 3 four"
# Lists in what recognizers write, beside the text of the whole.
_PARTS = ("segments", "words", "chunks", "result", "results", "monologues", "word_start_times")
_JOBS = 16  # remote files that are fetched at once

Row = dict[str, Any]  # of a recording, as of `Transcripts`

_State = Literal["text", "empty", "broken", "labels", "timed", "recognizer", "no text"]


@dataclass(frozen=True)
class Content:
    """What a text file holds."""

    state: _State
    text: str = ""  # of a broken file, the reason
    fields: tuple[str, ...] = ()  # of JSON, beside the text


@dataclass(frozen=True)
class TextFiles:
    """The text files of a folder."""

    # A row for each recording, in order: its `path`, and its file of each of `KINDS` or null.
    beside: pl.DataFrame
    apart: pl.Series  # those that are of no recording
    ambiguous: pl.Series  # those that may be of several, by the spelling of their names
    repeated: pl.Series  # those beside another of the same kind, such as `a.TXT` beside `a.txt`

    def names(self) -> pl.Series:
        """Return the files beside recordings, sorted."""
        read = [self.beside[kind].drop_nulls().alias("file") for kind in KINDS]
        return pl.concat([*read, self.ambiguous, self.repeated]).unique().sort()


@dataclass
class Tally:
    """How many files or recordings turned out to be something, with the first of them."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, name: str) -> None:
        """Count a file or recording."""
        self.counts[what] += 1
        self.first.setdefault(what, name)


def is_text_file(name: str) -> bool:
    """Return whether a file's name is that of a text file of a recording."""
    return re.fullmatch(_FILE, name) is not None


def match_texts(recordings: pl.Series, others: pl.Series) -> TextFiles:
    """Find the text files beside each recording.

    A file is beside a recording of the same folder and name, also if its name has the recording's
    ending (`a.wav.txt`), or differs in its Unicode form or in blanks. Several recordings of one
    name, such as `a.wav` and `a.mp3`, have the same text.

    Args:
        recordings: paths relative to the folder.
        others: paths of all other files.
    """
    texts = _parse_names(others)
    named = recordings.alias("path").to_frame()
    named = named.with_columns(stem=pl.col("path").str.replace(r"(?s)\.[^./]*$", ""))
    by_stem = texts.join(named, on="stem").select("file", "kind", "path")
    by_path = texts.join(named.select(stem="path", path="path"), on="stem").select(by_stem.columns)
    matched = pl.concat([by_stem, by_path])
    left = texts.join(matched, on="file", how="anti")
    loose = _match_loosely(left, named)
    ambiguous = loose.filter(pl.col("stems") > 1)["file"].unique().sort()
    matched = pl.concat([matched, loose.filter(pl.col("stems") == 1).select(by_stem.columns)])
    apart = _without(left["file"], pl.concat([matched["file"], ambiguous]))
    preferred = matched.sort("file").unique(["path", "kind"], keep="first")
    repeated = _without(matched["file"].unique().sort(), preferred["file"])
    beside = recordings.alias("path").to_frame()
    for kind in KINDS:
        files = preferred.filter(kind=kind).select("path", pl.col("file").alias(kind))
        beside = beside.join(files, on="path", how="left", maintain_order="left")
    return TextFiles(beside, apart, ambiguous, repeated)


def _parse_names(others: pl.Series) -> pl.DataFrame:
    """Return the text files among others, as `file`, `stem` and `kind`."""
    parts = pl.col("file").str.extract_groups(_FILE)
    names = others.alias("file").to_frame().select("file", parts=parts).unnest("parts")
    texts = names.rename({"1": "stem", "2": "kind"}).drop_nulls()
    return texts.with_columns(pl.col("kind").str.to_lowercase())


def _without(names: pl.Series, others: pl.Series) -> pl.Series:
    return names.filter(~names.is_in(others.implode()))


def _match_loosely(texts: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Match text files and recordings whose names differ in their Unicode form or in blanks.

    Return `file`, `kind`, `path`, and the number of recordings' names that agree as `stems`.
    """
    recordings = named if len(texts) else named.clear()
    keys, wanted = (
        pl.Series("key", [tidy_stem(stem) for stem in frame["stem"]], dtype=pl.String)
        for frame in (recordings, texts)
    )
    matches = texts.with_columns(wanted).join(recordings.with_columns(keys), on="key")
    return matches.with_columns(stems=pl.col("stem_right").n_unique().over("file"))


def read_texts(
    place: Location, files: TextFiles, tally: Tally, *, encoding: str | None
) -> Iterator[Row | Problem]:
    """Yield a row for each recording, with its texts, and what cannot be read as a problem.

    What is not read is counted in `tally`.
    """
    read = partial(_read_row, place, encoding)
    rows = files.beside.iter_rows(named=True)
    jobs = 1 if place.local is not None else _JOBS
    for row, contents in threads.ordered_map(read, rows, jobs=jobs):
        for kind, content in contents.items():
            if content.state in ("empty", "broken"):
                yield Problem(row[kind], None, content.text)
            elif content.state != "text":
                tally.add(content.state, row[kind])
            for name in content.fields:
                tally.add(f"field {name}", row[kind])
        yield _segment(row, contents, tally)
    for name in files.ambiguous:
        yield Problem(name, None, "several recordings have this name, but for its spelling")
    for name in files.repeated:
        yield Problem(name, None, "another file with this ending is read for the same recording")


def _read_row(
    place: Location, encoding: str | None, row: dict[str, str | None]
) -> tuple[dict[str, str], dict[str, Content]]:
    """Return a recording's path and text files, and what these hold, by kind."""
    named = {kind: name for kind, name in row.items() if name is not None}
    contents = {
        kind: _read_file(place, name, kind, encoding)
        for kind, name in named.items()
        if kind != "path"
    }
    return named, contents


def _read_file(place: Location, name: str, kind: str, encoding: str | None) -> Content:
    """Read a text file; content that cannot be read has the reason."""
    try:
        content = read_whole(place / name, input_guards.MAX_TEXT_BYTES)
    except (AudioError, OSError) as error:
        return Content("broken", str(error))
    if content is None:
        return Content("broken", f"larger than {input_guards.MAX_TEXT_BYTES >> 20} MB: not read")
    try:
        text = decode_text(content, encoding)
    except UnicodeDecodeError as error:
        where = f"not {error.encoding} text (byte {error.start + 1})"
        return Content("broken", f"{where}; name the encoding by --option encoding=NAME")
    return _json_content(text) if kind == "json" else _plain_content(text)


def _plain_content(text: str) -> Content:
    """Return the text of a file, its lines joined by blanks."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return Content("empty", "the file is empty")
    if text.startswith(_RTF) or PAGE.match(text):
        return Content("broken", "RTF or HTML, no plain text: not read")
    if _are_labels(lines):
        return Content("labels")
    if TIMES.search(text) or find_timed_text(text) or has_clock_times(text):
        return Content("timed")
    return Content("text", _one_line(lines))


def _one_line(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def _are_labels(lines: Sequence[str]) -> bool:
    """Return whether lines have times, as HTK, Festival and Audacity write labels."""
    if _END_OF_HEADER in lines:
        lines = lines[lines.index(_END_OF_HEADER) + 1 :]
    lines = [line for line in lines if not line.startswith(_FREQUENCIES)]
    labels = [_LABEL.fullmatch(line) for line in lines]
    times = [(_seconds(label[1]), _seconds(label[2])) for label in labels if label]
    if len(times) < len(lines) or any(start > end for start, end in times):
        return False
    # A single line of numbers may be words.
    return len(lines) > 1 or "\t" in lines[0] or "." in lines[0] or times[0][1] > _MOST_SPOKEN


def _seconds(written: str) -> float:
    return float(written.replace(",", "."))


def _json_content(text: str) -> Content:
    """Return the one text of a JSON object."""
    if not text.strip():
        return Content("empty", "the file is empty")
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        return Content("broken", f"not JSON that can be read: {error}")
    if isinstance(value, dict):
        return _object_content(value)
    if _has_parts({"parts": value}):
        return Content("recognizer")
    return Content("no text")


def _object_content(value: Mapping[str, Any]) -> Content:
    """Return the text of a JSON object, or why it has none; see `Content`."""
    texts = {
        name: _one_line(value[name].split("\n"))
        for name in USUAL_NAMES["text"]
        if isinstance(value.get(name), str)
    }
    is_recognized = find_layout(value) is not None and "pred_text" not in value
    if is_recognized or _has_parts(value):
        return Content("recognizer", next(iter(texts.values()), ""))
    if not texts:
        return Content("no text")
    if len({*map(plain, texts.values())}) > 1:
        return Content("broken", f"it has different texts, {' and '.join(texts)}; keep one")
    text = next(iter(texts.values()))
    fields = tuple(name for name in value if name not in texts)
    if text:
        return Content("text", text, fields)
    return Content("empty", "its text is empty")


def _has_parts(value: Mapping[str, Any]) -> bool:
    """Return whether an object has a list of words or segments, rather than one text."""
    lists = {name: items for name, items in value.items() if isinstance(items, list)}
    return any(
        name in _PARTS or (items and isinstance(items[0], dict)) for name, items in lists.items()
    )


def plain(text: str) -> str:
    """Return a text in NFC, with single blanks between its words."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _segment(row: Mapping[str, str], contents: Mapping[str, Content], tally: Tally) -> Row:
    """Return the row of a recording with its texts.

    `text` is that of the first kind, `text_raw` LibriTTS's original one; other kinds keep a text
    that differs in a column of their own.
    """
    path = row["path"]
    segment: Row = {"name": path, "source_split": split_of_folder(path)}
    texts = {kind: contents[kind].text for kind in KINDS if _has_text(contents.get(kind))}
    if not texts:
        tally.add("without text", path)
        return segment
    first, *others = texts
    tally.add(f"from {first}", row[first])
    segment["text"] = texts[first]
    for kind in others:
        if plain(texts[kind]) == plain(texts[first]):
            continue
        if kind == _ORIGINAL:
            segment["text_raw"] = texts[kind]
        else:
            segment[FURTHER_TEXTS[kind]] = texts[kind]
            tally.add(f"other {kind}", row[kind])
    heard = contents.get("json")
    if heard and heard.state == "recognizer" and plain(heard.text) == plain(texts[first]):
        tally.add("heard", row[first])
    return segment


def _has_text(content: Content | None) -> bool:
    return content is not None and content.state == "text"
