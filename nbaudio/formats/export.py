"""Export the segments of a workspace as manifests for other toolkits.

These then read exactly the same samples of recordings.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
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
from nbaudio.storage.urls import is_url
from nbaudio.tables import schemas, segment_rules, split_names, workspace_tables
from nbaudio.tables.amounts import with_durations
from nbaudio.tables.workspace import Workspace

WRITERS: Mapping[str, Writer] = MappingProxyType(
    {"nemo": nemo.WRITER, "lhotse": lhotse.WRITER, "kaldi": kaldi.WRITER}
)

# Columns that writers and conditions need.
_WRITTEN = (
    *segment_rules.WINDOW,
    "source_channel",
    "segment_id",
    "text",
    "asr_text",
    "speaker_id",
    "similarity",
    "split",
    "decision",
)
_MARK = ".nbaudio-export.json"  # in a folder that an export wrote and may replace


@interruptible
def export(  # noqa: PLR0914
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
    counts = _counts(workspace)
    decision = "accept"
    warnings = list[str]()
    if decision not in counts["decision"]:
        decision = "pending"
        number = counts.filter(pl.col("decision") == "pending")["segments"].sum()
        warnings = [
            f"nothing is selected yet: these are all {number:,} segments that are not rejected"
        ]
    counts = counts.filter(pl.col("decision") == decision)
    recordings, problems = _named_recordings(
        workspace, counts, writer, out=out, relative=paths == "relative"
    )
    usable = counts.filter(pl.col("recording_id").is_in(recordings["recording_id"].implode()))
    if usable.is_empty():
        raise InputError(
            f"{workspace.path}: no segment to export; "
            f"{problems[0] if problems else 'all are rejected'}"
        )

    splits = usable["split"].drop_nulls().unique().to_list()
    earlier_files = _claim(out, format, splits)
    written: list[Path] = []
    for split in (*split_names.ordered_splits(splits), None):
        own = pl.col("split").eq_missing(pl.lit(split)) & (pl.col("decision") == decision)
        is_used = pl.col("recording_id").is_in(usable.filter(own)["recording_id"].implode())
        part_recordings = recordings.filter(is_used)
        if len(part_recordings):
            files, notes = writer.write(
                partial(_parts, workspace, own & is_used), part_recordings, out, split
            )
            written += files
            warnings += [f"{split}: {note}" if split else note for note in notes]
    for path in earlier_files - set(written):
        path.unlink()
    by_split = usable.group_by("split").agg(pl.col("segments").sum()).sort("split")
    report = Report(
        "export",
        {
            "format": format,
            "segments": usable["segments"].sum(),
            "recordings": len(recordings),
            "hours": round(float(usable["seconds"].sum()) / 3600, 6),
            "splits": {split or "none": count for split, count in by_split.iter_rows()},
            "files": [path.relative_to(out).as_posix() for path in written],
        },
        warnings,
        first_lines(problems, f"{workspace.path}/recordings.parquet"),
    )
    workspace.save_report("export", report.to_dict())
    return report


def _parts(
    workspace: Workspace, where: pl.Expr, names: Sequence[str] = _WRITTEN
) -> Iterator[pl.DataFrame]:
    """Read the segments that meet a condition, batch by batch."""
    workspace_tables.table_schema(workspace)  # checks that it has ids
    for part in workspace_tables.read_batches(workspace, columns=names):
        yield schemas.conform(
            part, schemas.SEGMENTS, str(workspace_tables.table_path(workspace))
        ).filter(where)


def _counts(workspace: Workspace) -> pl.DataFrame:
    """Count `segments` and `seconds` by decision, recording and split."""
    keys = ("decision", "recording_id", "split")
    recordings = workspace.recordings
    amounts = {"segments": pl.len(), "seconds": pl.col("duration_s").sum()}
    parts = _parts(workspace, pl.lit(value=True), ("decision", "split", *segment_rules.WINDOW))
    timed = (with_durations(part, recordings) for part in parts)
    counted = pl.concat(part.group_by(keys, maintain_order=True).agg(**amounts) for part in timed)
    return counted.group_by(keys, maintain_order=True).agg(pl.col(*amounts).sum())


def _named_recordings(
    workspace: Workspace, segments: pl.DataFrame, writer: Writer, *, out: Path, relative: bool
) -> tuple[pl.DataFrame, list[str]]:
    """Return the recordings of these segments, and why others cannot be named.

    Their `file` is the name that the manifests have.
    """
    counts = segments.group_by("recording_id").agg(pl.col("segments").sum())
    named = counts.join(
        workspace.recordings, on="recording_id", how="left", maintain_order="left"
    ).sort("recording_id")
    root = workspace.audio
    rows: list[dict[str, Any]] = []
    problems = []
    for row in named.iter_rows(named=True):
        file = ""
        wrong = None
        if root is None or row["num_samples"] is None:
            wrong = "there is no audio"
        else:
            place = root / row["path"]
            file = os.path.relpath(str(place), out) if relative and place.local else str(place)
            is_archived = "::" in file and is_url(file)
            wrong = (
                "is in an archive, which these toolkits do not read"
                if is_archived
                else writer.rejects(file)
            )
        if wrong:
            problems.append(
                f"{row['recording_id']}: {wrong}; {count(row['segments'], 'segments')} left out"
            )
        else:
            rows.append(row | {"file": file})
    return pl.DataFrame(rows, schema={**named.schema, "file": pl.String}), problems


def _claim(out: Path, format: str, splits: Sequence[str]) -> set[Path]:
    """Mark the folder as an export and return the files of an earlier one."""
    mark = out / _MARK
    if not mark.is_file() and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExistsError(f"{out}: exists and is not an export; choose another --out")
    earlier_files: set[Path] = set()
    earlier: list[str] = []
    if mark.is_file():
        atomic.remove_partials(out)
        try:
            held = json.loads(mark.read_text(encoding="utf8"))
            earlier = [
                name
                for name in held.get("splits", schemas.SPLITS)
                if split_names.is_split_name(name)
            ]
            writer = WRITERS[held["format"]]
            earlier_files = {
                path
                for split in (*earlier, None)
                for path in writer.files(out, split)
                if path.is_file()
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ExistsError(
                f"{mark}: not written by an export; choose another --out, or remove it"
            ) from error
    atomic.write_json(mark, {"format": format, "splits": sorted({*splits, *earlier})})
    return earlier_files
