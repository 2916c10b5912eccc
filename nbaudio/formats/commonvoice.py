"""Read Common Voice: the folder of a language, with tables separated by tabs.

``validated.tsv`` has all splits. Tables of older releases have quoted cells, others have none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from nbaudio.audio.name_matching import composed
from nbaudio.core.atomic import escapes_folder, trusted_root
from nbaudio.core.errors import InputError
from nbaudio.formats.delimited import DelimitedTable, open_delimited
from nbaudio.formats.source_files import Layout, SourceFiles, list_words
from nbaudio.formats.transcripts import (
    TRANSCRIPTS,
    NotRead,
    Problem,
    Transcripts,
    check_link,
    collect_rows,
    with_not_read,
)

_SPLITS = ("train", "dev", "test")
_NEEDED = ("path", "sentence")
_NOT_ACCEPTED = ("other", "invalidated")
_DURATIONS = "clip_durations.tsv"
_MILLISECONDS = re.compile(r"[0-9]{1,12}")
# Names of columns here, and in the releases.
_ABOUT = {
    "speaker_age": ("age",),
    "speaker_gender": ("gender",),
    "speaker_accent": ("accents", "accent"),
}
_ABOUT |= {name: (name,) for name in ("up_votes", "down_votes", "locale")}
_OURS = frozenset((*TRANSCRIPTS, "source_split", "source_duration", *_ABOUT))


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folders of languages among files."""
    tables: dict[str, list[str]] = {}
    for name in files.ending(".tsv"):
        path = Path(name)
        if path.stem in {*_SPLITS, "validated"}:
            header = [cell.strip('"') for cell in files.first_line(name).split("\t")]
            if {"client_id", "path", "sentence"} <= {*header}:
                tables.setdefault(str(path.parent), []).append(name)
    layouts = []
    for folder, names in tables.items():
        have = "have" if len(names) > 1 else "has"
        layouts.append(
            Layout(
                "commonvoice",
                files.path(folder),
                f"{list_words(names)} {have} the columns client_id, path and sentence",
                frozenset(name for name in files.below(folder) if name.endswith(".tsv")),
            )
        )
    return layouts


def read(source: Path) -> Transcripts:
    """Read one language of Common Voice from its folder.

    Such a folder is ``cv-corpus-17.0-2024-03-15/hr``.
    """
    tables = [name for name in (*_SPLITS, "validated") if (source / f"{name}.tsv").is_file()]
    if not tables:
        raise InputError(
            f"{source}: there is no validated.tsv, train.tsv, dev.tsv or test.tsv; "
            "expected the folder of a language"
        )
    opened = {table: _open_table(source / f"{table}.tsv", _NEEDED) for table in tables}
    others = _other_columns(opened.values())
    further = ("segment_id", "source_split", "source_duration", *_ABOUT, *others)
    transcripts = collect_rows(
        source,
        _items(source, opened, others),
        further=further,
        expected="a language of Common Voice",
    )
    clips = source / "clips"
    notes = [note for table in opened.values() for note in table.notes]
    transcripts = replace(transcripts, notes=notes)
    if clips.is_dir() and not escapes_folder(clips, trusted_root(source)):
        transcripts = replace(transcripts, audio_root=clips)
    skipped = [part for table in opened.values() for part in table.not_read]
    return with_not_read(transcripts, *skipped, *_tables_not_read(source))


def _other_columns(tables: Iterable[DelimitedTable]) -> list[str]:
    """Return the columns of all tables that have no use here, such as ``sentence_domain``."""
    used = {"path", "sentence", "client_id", *(key for keys in _ABOUT.values() for key in keys)}
    names = dict.fromkeys(name for table in tables for name in table.header if name)
    return [name for name in names if name not in used and name not in _OURS]


def _tables_not_read(source: Path) -> Iterator[NotRead]:
    """Yield the tables of clips that listeners have not accepted."""
    for name in _NOT_ACCEPTED:
        path = source / f"{name}.tsv"
        if path.is_file():
            table = open_delimited(path)
            count = sum(1 for _ in table.rows())
            yield NotRead(f"clips of {path.name}", count, f"ingest table {path.name}")


def _items(
    source: Path, tables: Mapping[str, DelimitedTable], others: Sequence[str]
) -> Iterator[dict[str, Any] | Problem]:
    """Yield the rows of clips, each in the first table that has it, and problems."""
    if escapes_folder(source / "clips", trusted_root(source)):
        yield Problem(
            "clips",
            None,
            (
                "a link that points outside the folder, which is not followed; "
                "--audio may name its target"
            ),
        )
    durations = _durations(source / _DURATIONS)
    splits: dict[str, str] = {}
    for name, table in tables.items():
        for row in table.rows():
            if isinstance(row, Problem):
                yield row
                continue
            cells = dict(zip(table.header, row.cells, strict=True))
            clip = cells["path"]
            first = splits.setdefault(composed(clip), name)
            if not clip:
                yield Problem(f"{name}.tsv", row.line, "path is empty")
            elif first == name:
                yield _item(cells, name, others) | {
                    "source_duration": durations.get(composed(clip))
                }
            elif name in _SPLITS:
                yield Problem(f"{name}.tsv", row.line, f"{clip!r} is in {first}.tsv too")


def _item(cells: Mapping[str, str], table: str, others: Sequence[str]) -> dict[str, Any]:
    """Return the row of a clip, without its duration."""
    about = {
        name: next((cells[key] for key in keys if cells.get(key)), None)
        for name, keys in _ABOUT.items()
    }
    return {
        "name": cells["path"],
        "text": cells["sentence"],
        "speaker_id": cells.get("client_id") or None,
        "segment_id": cells["path"].removesuffix(".mp3"),
        "source_split": table if table in _SPLITS else None,
        **about,
        **{name: cells.get(name) or None for name in others},
    }


def _durations(path: Path) -> dict[str, str]:
    """Return the seconds of each clip, none without the file; its header says duration[ms]."""
    if not path.is_file():
        return {}
    durations = {}
    table = _open_table(path)
    for row in table.rows():
        if not isinstance(row, Problem) and _MILLISECONDS.fullmatch(row.cells[-1]):
            clip = dict(zip(table.header, row.cells, strict=True)).get("clip", "")
            durations[composed(clip)] = str(Decimal(row.cells[-1]) / 1000)
    return durations


def _open_table(path: Path, needed: Sequence[str] = ()) -> DelimitedTable:
    """Open a table; raise InputError where it lacks one of the columns that are `needed`."""
    check_link(path, path.parent)
    try:
        table = open_delimited(path, separator="\t")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if missing := [name for name in needed if name not in table.header]:
        raise InputError(
            f"{path}: the column {missing[0]} is missing; it has {', '.join(table.header)}"
        )
    return table
