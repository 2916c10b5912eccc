"""Read and write NeMo manifests.

They are JSON lines with audio_filepath, offset, duration, text and, from a recognizer, pred_text.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core import source_splits, times
from nbaudio.core.report import count
from nbaudio.formats.base import Problem, Transcripts, collect_rows, list_manifests, with_audio_root
from nbaudio.formats.jsonlines import NUMBER, TEXT, read_blocks
from nbaudio.formats.source_files import Layout, SourceFiles
from nbaudio.formats.writers import Parts, Writer, drop_none, timed_segments, write_json_lines

_ENDINGS = (".json", ".jsonl")
_KINDS = dict.fromkeys(
    ("audio_filepath", "text", "pred_text", "speaker", "lang", "segment_id"), TEXT
)
_KINDS |= {"offset": NUMBER, "duration": NUMBER}


def detect(files: SourceFiles) -> list[Layout]:
    """Return the manifests among files; those of one folder are one source."""
    manifests: dict[str, list[str]] = {}
    first_paths: dict[str, str] = {}
    for name in files.ending(*_ENDINGS):
        first = files.first_object(name)
        if isinstance(first.get("audio_filepath"), str) and "text" in first:
            folder = str(Path(name).parent)
            manifests.setdefault(folder, []).append(name)
            first_paths.setdefault(folder, first["audio_filepath"])
    layouts: list[Layout] = []
    for folder, names in manifests.items():
        in_folder = [name for name in files.below(folder) if name.endswith(_ENDINGS)]
        read_together = [names] if names == in_folder else [[name] for name in names]
        layouts += [
            Layout(
                "nemo",
                files.path(group[0] if len(group) == 1 else folder),
                f"{group[0]} has the fields audio_filepath and text",
                frozenset(group),
                recording=first_paths[folder],
            )
            for group in read_together
        ]
    return layouts


def read(source: Path) -> Transcripts:
    """Read a NeMo manifest, or a folder of them, named after splits.

    A line without a duration is the whole recording.
    """
    files = list_manifests(source, _ENDINGS)
    found = collect_rows(
        source,
        (item for file in files for item in _items(file, source)),
        further=("source_split", "source_duration", "language"),
        expected="a NeMo manifest, one JSON object a line with audio_filepath, duration and text",
    )
    return with_audio_root(found, files[0].parent)


def _items(file: Path, source: Path) -> Iterator[dict[str, Any] | Problem]:
    named = file.stem != "manifest" if file != source else source_splits.split_role(file.stem)
    split = file.stem if named else None
    for block in read_blocks(file, _KINDS):
        yield from (Problem(file.name, *problem) for problem in block.problems)
        for row in block.values.iter_rows(named=True):
            offset, duration = (
                None if row[key] == "null" else row[key] for key in ("offset", "duration")
            )
            if not row["audio_filepath"]:
                yield Problem(file.name, row["line"], "audio_filepath is missing")
            elif duration is None and offset is not None:
                yield Problem(file.name, row["line"], "duration is missing")
            else:
                start = offset or "0"
                yield {
                    "name": row["audio_filepath"],
                    "source_start": None if duration is None else start,
                    "source_end": None if duration is None else times.add_seconds(start, duration),
                    "text": row["text"],
                    "asr_text": row["pred_text"],
                    "speaker_id": row["speaker"],
                    "segment_id": row["segment_id"],
                    "source_split": split,
                    # Without an offset it is that of the whole file.
                    "source_duration": duration if offset is None else None,
                    "language": row["lang"],
                }


def _files(out: Path, split: str | None) -> list[Path]:
    return [out / f"{split or 'manifest'}.jsonl"]


def _write(
    parts: Parts, recordings: pl.DataFrame, out: Path, split: str | None
) -> tuple[list[Path], list[str]]:
    partly = 0

    def lines() -> Iterator[dict[str, Any]]:
        nonlocal partly
        for row in timed_segments(parts, recordings):
            partly += row["partly"]
            yield drop_none(
                audio_filepath=row["file"],
                offset=row["start"],
                duration=row["duration"],
                text=row["text"],
                pred_text=row["asr_text"],
                speaker=row["speaker_id"],
                segment_id=row["segment_id"],
            )

    files = [write_json_lines(file, lines()) for file in _files(out, split)]
    note = (
        f"{count(partly, 'segments', 'are')} on some channels of their recording, "
        "which NeMo's manifests cannot express"
    )
    return files, [note] if partly else []


WRITER = Writer(_files, _write)
