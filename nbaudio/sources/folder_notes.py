"""Notes of `ingest folder` about files that are no recordings: what is read, and what is not."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import polars as pl

from nbaudio.core.report import count
from nbaudio.sources.folder_texts import FURTHER_TEXTS, KINDS, Tally

_SUBTITLES = "'nbaudio ingest subtitles' reads them"
_TABLE = "'nbaudio ingest table' reads such a table of recordings and texts"
_DOCUMENTS = "'nbaudio align' reads them as transcripts of long recordings"
# By what is counted: what the files have, and what becomes of them.
_UNREAD: Mapping[str, tuple[str, str]] = {
    "labels": (
        "with times, as labels of Audacity, HTK or Festival",
        "not read; save them as TextGrids for 'nbaudio ingest textgrid'",
    ),
    "timed": (
        "with times, as subtitles or transcripts of services",
        "not read; save their texts alone, or as .srt for 'nbaudio ingest subtitles'",
    ),
    "recognizer": (
        "with the words of a recognizer and their times",
        "not read; 'nbaudio align' reads them as hypotheses",
    ),
    "heard": (
        "with the same text as a recognizer's .json beside them",
        "no person may have written it",
    ),
    "no text": ("without text", "not read"),
}
# By ending: who reads files of other formats.
_READERS: Mapping[str, str] = {
    ".trans.txt": "'nbaudio ingest librispeech' reads them",
    ".textgrid": "'nbaudio ingest textgrid' reads them",
    ".srt": _SUBTITLES,
    ".vtt": _SUBTITLES,
    ".sbv": _SUBTITLES,
    ".ctm": "'nbaudio align' reads them as hypotheses",
    ".eaf": "no format reads them; export TextGrids from ELAN for 'nbaudio ingest textgrid'",
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx"), _TABLE),
    **dict.fromkeys((".docx", ".pdf", ".html", ".htm", ".xml", ".md"), _DOCUMENTS),
    ".scp": "'nbaudio ingest kaldi' reads a folder with it",
}
_KNOWN = re.compile(
    rf"({'|'.join(re.escape(ending) for ending in sorted(_READERS, key=len, reverse=True))})$",
    re.IGNORECASE,
)
_TEXT_ENDINGS = (".txt", ".lab", ".json")
_MOST_FIELDS = 10


def notes_on_texts(tally: Tally, recordings: int) -> Iterator[str]:
    """Say which texts were read for some of all `recordings`, and which text files were not."""
    read = [(kind, tally.counts[f"from {kind}"]) for kind in KINDS if tally.counts[f"from {kind}"]]
    if read:
        listed = " and ".join(f"{count:,} .{kind}" for kind, count in read)
        yield (
            f"texts are read from files beside the recordings, {listed}: "
            "--option texts=no leaves them out"
        )
    for kind, column in FURTHER_TEXTS.items():
        if number := tally.counts[f"other {kind}"]:
            first = tally.first[f"other {kind}"]
            yield (
                f"{count(number, f'.{kind} files', 'have')} another text than the one that is "
                f"read, such as {first}: it is kept as {column}"
            )
    if read and (number := tally.counts["without text"]):
        first = tally.first["without text"]
        yield f"{number:,} of {recordings:,} recordings have no text beside them, such as {first}"
    yield from _notes_on_unread(tally)


def _notes_on_unread(tally: Tally) -> Iterator[str]:
    """Yield a line for each kind of text files, and of JSON fields, that were not read."""
    for what, (kind, reason) in _UNREAD.items():
        if number := tally.counts[what]:
            yield f"{count(number, 'files')} {kind}, such as {tally.first[what]}: {reason}"
    fields = sorted(name.removeprefix("field ") for name in tally.counts if name[:6] == "field ")
    if fields:
        more = f" and {len(fields) - _MOST_FIELDS:,} more" if len(fields) > _MOST_FIELDS else ""
        yield f"fields of .json files that are not read: {', '.join(fields[:_MOST_FIELDS])}{more}"


def notes_on_others(others: pl.Series, texts: pl.Series) -> Iterator[str]:
    """Name the files that are neither recordings nor `texts` beside one, and what reads them."""
    rest = Tally()
    for name in others.filter(~others.is_in(texts.implode())):
        rest.add(_ending(name), name)
    for ending, reader in _READERS.items():
        if number := rest.counts.pop(ending, 0):
            first = rest.first[ending]
            written = first[-len(ending) :]
            yield f"{count(number, f'{written} files', 'are')} not read, such as {first}: {reader}"
    for ending in _TEXT_ENDINGS:
        if number := rest.counts.pop(ending, 0):
            yield (
                f"{count(number, f'{ending} files', 'have')} no recording of that name beside "
                f"it: not read, such as {rest.first[ending]}"
            )
    if rest.counts:
        listed = ", ".join(
            f"{count:,} {ending or 'without an ending'} ({rest.first[ending]})"
            for ending, count in sorted(rest.counts.items())
        )
        yield f"other files are not read: {listed}"


def _ending(name: str) -> str:
    match = _KNOWN.search(name)
    return match[1].lower() if match else PurePosixPath(name).suffix.lower()
