"""Read and write NeMo manifests.

They are JSON lines with audio_filepath, offset, duration, text and, from a recognizer, pred_text.
In tarred manifests, audio_filepath is the name of a clip in a tar (see `nemo_tars`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core import times
from nbaudio.core.report import count
from nbaudio.formats import nemo_tars
from nbaudio.formats.jsonlines import NUMBER, TEXT, read_blocks
from nbaudio.formats.source_files import Layout, SourceFiles
from nbaudio.formats.transcripts import (
    NotRead,
    Problem,
    Transcripts,
    collect_rows,
    list_manifests,
    with_audio_root,
    with_not_read,
)
from nbaudio.formats.writers import Parts, Writer, drop_none, timed_segments, write_json_lines
from nbaudio.tables import split_names
from nbaudio.tables.provenance import PROVENANCE

_ENDINGS = (".json", ".jsonl")
_ALL_TARS = "tarred_audio_manifest.json"  # NeMo's name of the manifest of all tars
_NO_TARS = (
    "the clips are in tars (shard_id), and none of them is beside the manifest: of a manifest at a "
    "URL, name the URL of its folder instead, whose tars are fetched too; else "
    "--option tars=FOLDER/audio__OP_0..N_CL_.tar reads them, --audio FOLDER unpacked ones"
)
_KINDS = dict.fromkeys(
    ("audio_filepath", "text", "pred_text", "speaker", "lang", "segment_id", nemo_tars.SHARD), TEXT
)
_KINDS |= {"offset": NUMBER, "duration": NUMBER}
# Fields that are kept as they are called, where a manifest has them.
_ABOUT = tuple(name for names in PROVENANCE.values() for name in names)
_KINDS |= dict.fromkeys(_ABOUT, TEXT)


def detect(files: SourceFiles) -> list[Layout]:
    """Return the manifests among files; those of one folder are one source."""
    manifests: dict[str, list[str]] = {}
    first_paths: dict[str, str] = {}
    for name in files.ending(*_ENDINGS):
        first = files.first_object(name)
        is_manifest = isinstance(first.get("audio_filepath"), str) and "text" in first
        if is_manifest and not _repeats_lines(name, files):
            folder = str(Path(name).parent)
            manifests.setdefault(folder, []).append(name)
            first_paths.setdefault(folder, first["audio_filepath"])
    layouts: list[Layout] = []
    for folder, names in manifests.items():
        in_folder = [name for name in files.below(folder) if name.endswith(_ENDINGS)]
        groups = [[name] for name in names]
        if names == in_folder:
            groups = [names]  # a folder of manifests alone is read as a whole
        for group in groups:
            recording: str | None = first_paths[folder]
            if _has_tars(files, group):
                recording = None  # its paths are names of clips in the tars
            layouts.append(
                Layout(
                    "nemo",
                    files.path(group[0] if len(group) == 1 else folder),
                    f"{group[0]} has the fields audio_filepath and text",
                    frozenset([*group, *_further_files(files, folder, group)]),
                    recording=recording,
                )
            )
    return layouts


def _has_tars(files: SourceFiles, manifests: Sequence[str]) -> bool:
    """Return whether the clips of manifests are in tars beside them."""
    first = files.first_object(manifests[0])
    return nemo_tars.SHARD in first and bool(
        nemo_tars.tars_beside(files.path(name) for name in manifests)
    )


def _further_files(files: SourceFiles, folder: str, manifests: Sequence[str]) -> list[str]:
    """Return the tars of manifests, and NeMo's manifests of single tars with the same lines."""
    if not _has_tars(files, manifests):
        return []
    tars = [name for name in files.below(folder) if nemo_tars.tar_number(Path(name)) is not None]
    return tars + [name for name in files.names if _repeats_lines(name, files)]


def _repeats_lines(name: str, files: SourceFiles) -> bool:
    """Return whether a manifest is that of one tar, beside NeMo's manifest of all tars."""
    if not nemo_tars.is_shard_manifest(name):
        return False
    around = files.below(str(Path(name).parent.parent))
    return any(Path(other).name == _ALL_TARS for other in around)


def read(source: Path, *, tars: str | None = None) -> Transcripts:
    """Read a NeMo manifest, or a folder of them, named after splits.

    A line without a duration is the whole recording. `source` may be a pattern of manifests, one
    for each tar, such as ``manifest__OP_0..3_CL_.json``.

    Args:
        source: the manifest, folder or pattern.
        tars: the tars with the clips, such as ``audio__OP_0..3_CL_.tar``; those beside the
            manifest unless given.
    """
    files = _manifests(source)
    transcripts = collect_rows(
        source,
        (item for file in files for item in _items(file, source)),
        further=("source_split", "source_duration", "language", nemo_tars.SHARD, *_ABOUT),
        expected="a NeMo manifest, one JSON object a line with audio_filepath, duration and text",
    )
    beside = with_audio_root(transcripts, files[0].parent)
    beside = with_not_read(beside, _fields_not_read(files))
    if tars is not None:
        named_tars = nemo_tars.tars_of_option(tars, files[0].parent)
        return nemo_tars.with_clips_of_tars(replace(beside, audio_root=None), named_tars)
    if nemo_tars.SHARD not in transcripts.rows.schema:
        return beside
    if tars_there := nemo_tars.tars_of_lines(beside, files):
        return nemo_tars.with_clips_of_tars(replace(beside, audio_root=None), tars_there)
    unpacked = nemo_tars.with_unpacked_clips(beside)
    if beside.audio_root is not None:
        return unpacked
    return replace(unpacked, notes=[*beside.notes, _NO_TARS])


def _fields_not_read(manifests: Sequence[Path]) -> NotRead:
    """Return the fields of the first line of each manifest that are not read."""
    fields: set[str] = set()
    for manifest in manifests:
        files = SourceFiles(manifest.parent, (manifest.name,), is_single_file=True)
        fields.update(files.first_object(manifest.name))
    unread = sorted(fields - {*_KINDS})
    return NotRead(
        f"fields of the lines: {', '.join(unread)}",
        len(unread),
        "nbaudio join W FILE --on segment_id --column NAME",
    )


def _manifests(source: Path) -> list[Path]:
    """Return the manifests of a file, folder or pattern."""
    if source.exists():
        return list_manifests(source, _ENDINGS)
    return [
        file
        for name in nemo_tars.expand_braces(str(source))
        for file in list_manifests(Path(name), _ENDINGS)
    ]


def _items(file: Path, source: Path) -> Iterator[dict[str, Any] | Problem]:
    """Yield the rows and problems of a manifest."""
    number = nemo_tars.number_of_tar_beside(file)
    split = _split_of(file, source)
    for block in read_blocks(file, _KINDS):
        yield from (Problem(file.name, *problem) for problem in block.problems)
        for row in block.values.iter_rows(named=True):
            offset = _time(row["offset"])
            duration = _time(row["duration"])
            if not row["audio_filepath"]:
                yield Problem(file.name, row["line"], "audio_filepath is missing")
            elif duration is None and offset is not None:
                yield Problem(file.name, row["line"], "duration is missing")
            else:
                yield {
                    "name": row["audio_filepath"],
                    **_span(offset, duration),
                    "text": row["text"],
                    "asr_text": row["pred_text"],
                    "speaker_id": row["speaker"],
                    "segment_id": row["segment_id"],
                    "source_split": split,
                    "language": row["lang"],
                    nemo_tars.SHARD: row[nemo_tars.SHARD] or number,
                    **{name: row[name] for name in _ABOUT},
                }


def _time(number: str | None) -> str | None:
    """Return the digits of a time; None where a line has none, or null."""
    return None if number == "null" else number


def _span(offset: str | None, duration: str | None) -> dict[str, str | None]:
    """Return the times of a line; a line without a duration means the whole file."""
    if duration is None:
        return {}
    start = offset or "0"
    span: dict[str, str | None] = {
        "source_start": start,
        "source_end": times.add_seconds(start, duration),
    }
    if offset is None:  # the duration of a line without an offset is that of the whole file
        span["source_duration"] = duration
    return span


def _split_of(file: Path, source: Path) -> str | None:
    """Return the split that a manifest is named after, if it is."""
    is_of_tars = nemo_tars.manifest_number(file) is not None or file.name == _ALL_TARS
    if is_of_tars or file.stem == "manifest":
        return None
    is_named = file != source or split_names.split_role(file.stem)
    return file.stem if is_named else None


def _files(out: Path, split: str | None) -> list[Path]:
    return [out / f"{split or 'manifest'}.jsonl"]


def _write(
    parts: Parts, recordings: pl.DataFrame, out: Path, split: str | None
) -> tuple[list[Path], list[str]]:
    """Write the manifest of a split; return it, and notes on what it cannot express."""
    partly = 0

    def lines() -> Iterator[dict[str, Any]]:
        """Yield the lines of the segments, and count those on some channels only."""
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
    if not partly:
        return files, []
    note = (
        f"{count(partly, 'segments', 'are')} on some channels of their recording, "
        "which NeMo's manifests cannot express"
    )
    return files, [note]


WRITER = Writer(_files, _write)
