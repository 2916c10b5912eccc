"""Read Common Voice: the folder of a language, with tables separated by tabs without quotes.

``validated.tsv`` has all splits.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from nbaudio.core.atomic import escapes_folder, trusted_root
from nbaudio.core.errors import InputError
from nbaudio.formats.base import Problem, Transcripts, collect_rows, numbered_lines
from nbaudio.formats.source_files import Layout, SourceFiles, list_words

_SPLITS = ("train", "dev", "test")
_DURATIONS = "clip_durations.tsv"
_MILLISECONDS = re.compile(r"[0-9]{1,12}")
# Names of columns here, and in the releases.
_ABOUT = {
    "speaker_age": ("age",),
    "speaker_gender": ("gender",),
    "speaker_accent": ("accents", "accent"),
}
_ABOUT |= {name: (name,) for name in ("up_votes", "down_votes", "locale")}


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folders of languages among files."""
    tables: dict[str, list[str]] = {}
    for name in files.ending(".tsv"):
        path = Path(name)
        if path.stem in {*_SPLITS, "validated"}:
            header = files.first_line(name).split("\t")
            if {"client_id", "path", "sentence"} <= {*header}:
                tables.setdefault(str(path.parent), []).append(name)
    return [
        Layout(
            "commonvoice",
            files.path(folder),
            f"{list_words(names)} have the columns client_id, path and sentence"
            if len(names) > 1
            else f"{names[0]} has the columns client_id, path and sentence",
            frozenset(name for name in files.below(folder) if name.endswith(".tsv")),
        )
        for folder, names in tables.items()
    ]


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
    further = ("segment_id", "source_split", "source_duration", *_ABOUT)
    found = collect_rows(
        source, _items(source, tables), further=further, expected="a language of Common Voice"
    )
    clips = source / "clips"
    return replace(
        found,
        audio_root=clips
        if clips.is_dir() and not escapes_folder(clips, trusted_root(source))
        else None,
    )


def _items(source: Path, tables: list[str]) -> Iterator[dict[str, Any] | Problem]:
    if escapes_folder(source / "clips", trusted_root(source)):
        yield Problem(
            "clips",
            None,
            (
                "a link that points outside the folder, which is not followed; "
                "--audio may name its target"
            ),
        )
    durations = {}
    if (source / _DURATIONS).is_file():
        for item in _rows(source / _DURATIONS):
            # The header calls it duration[ms].
            if not isinstance(item, Problem) and _MILLISECONDS.fullmatch(
                milliseconds := [*item[1].values()][-1]
            ):
                durations[item[1].get("clip", "")] = str(Decimal(milliseconds) / 1000)
    splits: dict[str, str] = {}
    for table in tables:  # noqa: PLR1702
        for item in _rows(source / f"{table}.tsv", "path", "sentence"):
            if isinstance(item, Problem):
                yield item
                continue
            line, row = item
            clip = row["path"]
            if splits.setdefault(clip, table) != table or not clip:
                if table in _SPLITS or not clip:
                    yield Problem(
                        f"{table}.tsv",
                        line,
                        f"{clip!r} is in {splits[clip]}.tsv too" if clip else "path is empty",
                    )
                continue
            yield {
                "name": clip,
                "text": row["sentence"],
                "speaker_id": row.get("client_id") or None,
                "segment_id": clip.removesuffix(".mp3"),
                "source_split": table if table in _SPLITS else None,
                "source_duration": durations.get(clip),
                **{
                    name: next((row[key] for key in keys if row.get(key)), None)
                    for name, keys in _ABOUT.items()
                },
            }


def _rows(path: Path, *needed: str) -> Iterator[tuple[int, dict[str, str]] | Problem]:
    header: list[str] = []
    for number, line in numbered_lines(path):
        fields = line.split("\t")
        if not header:
            header = fields
            if missing := [name for name in needed if name not in header]:
                raise InputError(
                    f"{path}: the column {missing[0]} is missing; it has {', '.join(header)}"
                )
        elif len(fields) != len(header):
            yield Problem(path.name, number, f"{len(fields)} fields, the header has {len(header)}")
        else:
            yield number, dict(zip(header, fields, strict=True))
