"""Export the segments of a workspace as manifests for other toolkits.

These then read exactly the same samples of recordings.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from nbaudio.core import atomic
from nbaudio.core.errors import ExistsError, InputError, get_by_name
from nbaudio.core.report import Report, count, first_lines
from nbaudio.core.tracebacks import interruptible
from nbaudio.formats import kaldi, lhotse, nemo
from nbaudio.formats.writers import Writer
from nbaudio.storage.location import Location
from nbaudio.storage.urls import is_url
from nbaudio.tables import rejection_reasons, schemas, split_names, workspace_tables
from nbaudio.tables.amounts import with_durations
from nbaudio.tables.workspace import Workspace

WRITERS: Mapping[str, Writer] = MappingProxyType(
    {"nemo": nemo.WRITER, "lhotse": lhotse.WRITER, "kaldi": kaldi.WRITER}
)

# Columns that writers and conditions need.
_WRITTEN = (
    *rejection_reasons.WINDOW,
    "source_channel",
    "segment_id",
    "text",
    "asr_text",
    "speaker_id",
    "similarity",
    "split",
    "decision",
)
# File that marks a folder as an export, which another export may replace.
_MARK = ".nbaudio-export.json"


@interruptible
def export(
    workspace: str | Path | Workspace, format: str, *, out: str | Path, paths: str = "absolute"
) -> Report:
    """Write manifests of the accepted segments.

    If nothing is selected yet, the manifests have all segments that are not rejected.

    Args:
        workspace: the folder that `ingest` made; its recordings must be there.
        format: one of `WRITERS`.
        out: the folder to write: new, empty, or an earlier export, which is replaced.
        paths: of the recordings: ``absolute``, or ``relative`` to `out`; remote recordings keep
            their URLs.

    Returns:
        Counts, hours and the files; problems are recordings whose segments are left out.

    Raises:
        InputError: format or paths are unknown, there is no audio, or no segment is left.
        ExistsError: `out` holds something else.

    Examples:
        >>> import tempfile
        >>> from nbaudio.core.bundled_files import bundled
        >>> from nbaudio import ingest
        >>> demo, folder = bundled("data_manifests/demo"), Path(tempfile.mkdtemp())
        >>> _ = ingest(
        ...     "parlaspeech",
        ...     demo / "transcripts.jsonl",
        ...     audio=demo / "audio",
        ...     names=demo / "wav.scp",
        ...     out=folder / "W",
        ... )
        >>> export(folder / "W", "nemo", out=folder / "manifests").facts["files"]
        ['manifest.jsonl']
    """
    writer = get_by_name(WRITERS, format, "format")
    if paths not in ("absolute", "relative"):
        raise InputError(f"paths {paths!r} is unknown; known are absolute, relative")
    workspace = Workspace.open(workspace)
    out = Path(out).absolute()
    selection = _select(workspace)
    relative_to = out if paths == "relative" else None
    named = _name_recordings(workspace, selection.counts, writer, relative_to=relative_to)
    selection = selection.of(named.recordings)
    counts = selection.counts
    if counts.is_empty():
        reason = named.problems[0] if named.problems else "all are rejected"
        raise InputError(f"{workspace.path}: no segment to export; {reason}")

    earlier_files = _claim(out, format, counts["split"].drop_nulls().unique().to_list())
    manifests = _write_manifests(workspace, selection, named.recordings, writer, out)
    for path in earlier_files - set(manifests.files):
        path.unlink()
    report = Report(
        "export",
        {
            "format": format,
            "segments": counts["segments"].sum(),
            "recordings": len(named.recordings),
            "hours": round(float(counts["seconds"].sum()) / 3600, 6),
            "splits": _count_by_split(counts),
            "files": [path.relative_to(out).as_posix() for path in manifests.files],
        },
        [*selection.warnings, *manifests.warnings],
        first_lines(named.problems, f"{workspace.path}/recordings.parquet"),
    )
    workspace.save_report("export", report.to_dict())
    return report


@dataclass(frozen=True)
class _Selection:
    """The segments to export.

    Attributes:
        decision: which they have.
        counts: how many they are, as `_count` returns it.
        warnings: for the report.
    """

    decision: str
    counts: pl.DataFrame
    warnings: list[str]

    def of(self, recordings: pl.DataFrame) -> "_Selection":
        """Return the segments of these recordings."""
        is_of_these = pl.col("recording_id").is_in(recordings["recording_id"].implode())
        return replace(self, counts=self.counts.filter(is_of_these))


def _select(workspace: Workspace) -> _Selection:
    """Return the accepted segments, or if nothing is selected yet, all that are not rejected."""
    counts = _count(workspace)
    accepted = counts.filter(pl.col("decision") == "accept")
    if len(accepted):
        return _Selection("accept", accepted, [])
    pending = counts.filter(pl.col("decision") == "pending")
    number = pending["segments"].sum()
    warning = f"nothing is selected yet: these are all {number:,} segments that are not rejected"
    return _Selection("pending", pending, [warning])


@dataclass(frozen=True)
class _Manifests:
    """The files that were written, and warnings for the report."""

    files: list[Path]
    warnings: list[str]


def _write_manifests(
    workspace: Workspace,
    selection: _Selection,
    recordings: pl.DataFrame,
    writer: Writer,
    out: Path,
) -> _Manifests:
    """Write the manifests of each split, and of the segments without one."""
    manifests = _Manifests([], [])
    splits = selection.counts["split"].drop_nulls().unique().to_list()
    for split in (*split_names.ordered_splits(splits), None):
        is_in_split = pl.col("split").eq_missing(pl.lit(split))
        is_chosen = is_in_split & (pl.col("decision") == selection.decision)
        ids = selection.counts.filter(is_chosen)["recording_id"]
        is_used = pl.col("recording_id").is_in(ids.implode())
        recordings_of_split = recordings.filter(is_used)
        if recordings_of_split.is_empty():
            continue
        segments = partial(_read_parts, workspace, is_chosen & is_used)
        files, notes = writer.write(segments, recordings_of_split, out, split)
        manifests.files.extend(files)
        prefix = f"{split}: " if split else ""
        manifests.warnings.extend(prefix + note for note in notes)
    return manifests


def _read_parts(
    workspace: Workspace, where: pl.Expr, names: Sequence[str] = _WRITTEN
) -> Iterator[pl.DataFrame]:
    """Read the segments that meet a condition, batch by batch."""
    workspace_tables.table_schema(workspace)  # checks that it has ids
    for part in workspace_tables.read_batches(workspace, columns=names):
        yield schemas.conform(
            part, schemas.SEGMENTS, str(workspace_tables.table_path(workspace))
        ).filter(where)


def _count(workspace: Workspace) -> pl.DataFrame:
    """Count `segments` and `seconds` by decision, recording and split."""
    keys = ("decision", "recording_id", "split")
    recordings = workspace.recordings
    amounts = {"segments": pl.len(), "seconds": pl.col("duration_s").sum()}
    columns = ("decision", "split", *rejection_reasons.WINDOW)
    parts = _read_parts(workspace, pl.lit(value=True), columns)
    timed = (with_durations(part, recordings) for part in parts)
    counts = pl.concat(part.group_by(keys, maintain_order=True).agg(**amounts) for part in timed)
    return counts.group_by(keys, maintain_order=True).agg(pl.col(*amounts).sum())


def _count_by_split(counts: pl.DataFrame) -> dict[str, int]:
    """Return the number of segments of each split, and of ``none``."""
    by_split = counts.group_by("split").agg(pl.col("segments").sum()).sort("split")
    return {split or "none": segments for split, segments in by_split.iter_rows()}


@dataclass(frozen=True)
class _NamedRecordings:
    """Recordings that manifests can name, and why others cannot be named.

    The column `file` of `recordings` is the name that the manifests have.
    """

    recordings: pl.DataFrame
    problems: list[str]


def _name_recordings(
    workspace: Workspace, segments: pl.DataFrame, writer: Writer, *, relative_to: Path | None
) -> _NamedRecordings:
    """Name the recordings of these segments, local ones absolutely or relative to a folder."""
    counts = segments.group_by("recording_id").agg(pl.col("segments").sum())
    recordings = counts.join(
        workspace.recordings, on="recording_id", how="left", maintain_order="left"
    ).sort("recording_id")
    root = workspace.audio
    rows: list[dict[str, Any]] = []
    problems = []
    for row in recordings.iter_rows(named=True):
        file = ""
        problem: str | None = "there is no audio"
        if root is not None and row["num_samples"] is not None:
            file = _file_name(root / row["path"], relative_to)
            problem = _problem_of_name(file, writer)
        if problem:
            left_out = f"{count(row['segments'], 'segments')} left out"
            problems.append(f"{row['recording_id']}: {problem}; {left_out}")
        else:
            rows.append(row | {"file": file})
    named = pl.DataFrame(rows, schema={**recordings.schema, "file": pl.String})
    return _NamedRecordings(named, problems)


def _file_name(place: Location, relative_to: Path | None) -> str:
    """Return the path or URL of a recording, a local one perhaps relative to a folder."""
    if relative_to is not None and place.local:
        return os.path.relpath(str(place), relative_to)
    return str(place)


def _problem_of_name(file: str, writer: Writer) -> str | None:
    """Return why manifests cannot have the path or URL of a recording; None if they can."""
    if "::" in file and is_url(file):
        return "is in an archive, which these toolkits do not read"
    return writer.rejects(file)


def _claim(out: Path, format: str, splits: Sequence[str]) -> set[Path]:
    """Mark the folder as an export and return the files of an earlier one."""
    mark = out / _MARK
    if not mark.is_file() and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExistsError(f"{out}: exists and is not an export; choose another --out")
    earlier = _Export(set(), [])
    if mark.is_file():
        atomic.remove_partials(out)
        earlier = _read_mark(mark)
    all_splits = sorted({*splits, *earlier.splits})
    atomic.write_json(mark, {"format": format, "splits": all_splits})
    return earlier.files


@dataclass(frozen=True)
class _Export:
    """The files of an earlier export, and its splits."""

    files: set[Path]
    splits: list[str]


def _read_mark(mark: Path) -> _Export:
    """Return the export that a mark is of; raise ExistsError if no export wrote it."""
    try:
        facts = json.loads(mark.read_text(encoding="utf8"))
        names = facts.get("splits", schemas.SPLITS)
        splits = [name for name in names if split_names.is_split_name(name)]
        writer = WRITERS[facts["format"]]
        paths = [path for split in (*splits, None) for path in writer.files(mark.parent, split)]
        return _Export({path for path in paths if path.is_file()}, splits)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExistsError(
            f"{mark}: not written by an export; choose another --out, or remove it"
        ) from error
