"""Drawn clips of a workspace whose audio is still in the dataset that it was ingested from.

They are fetched into the workspace when a review draws them, and no others.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from nbaudio.audio import probe
from nbaudio.core.atomic import write_bytes
from nbaudio.core.errors import AudioError
from nbaudio.core.progress import progress
from nbaudio.formats.dataset import CLIP
from nbaudio.formats.published.clip_bytes import ClipBytes, fetch_clips
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.sources.audio_folder import has_dataset_clips
from nbaudio.storage.location import LocalPath, Location
from nbaudio.tables import workspace_tables
from nbaudio.tables.workspace import Workspace

_FOLDER = "dataset-clips"


def audio_of_clips(workspace: Workspace) -> Location | None:
    """Return the folder that the paths of `drawn_clips` are relative to; None without audio."""
    if has_dataset_clips(workspace):
        return LocalPath((workspace.path / _FOLDER).absolute())
    return workspace.audio


def drawn_clips(rows: pl.DataFrame, workspace: Workspace) -> pl.DataFrame:
    """Return rows of a review with the windows of their clips, fetched from the dataset if needed.

    Rows of a workspace with recordings are returned as they are.
    """
    if not has_dataset_clips(workspace):
        return rows
    folder = workspace.path / _FOLDER
    places = _places(rows, workspace)
    windows = _windows(folder, places, workspace)
    paths = {segment_id: windows[place][0] for segment_id, place in places.items()}
    lengths = {segment_id: windows[place][1] for segment_id, place in places.items()}
    segment_id = pl.col("segment_id")
    num_samples = segment_id.replace_strict(lengths, default=0, return_dtype=pl.Int64)
    return rows.with_columns(
        path=segment_id.replace_strict(paths, default=None, return_dtype=pl.String),
        start_sample=pl.lit(0, pl.Int64),
        end_sample=num_samples,
        num_samples=num_samples,
    )


def _places(rows: pl.DataFrame, workspace: Workspace) -> dict[str, str]:
    """Return where the clip of each row is in the dataset."""
    table = workspace_tables.read(workspace, ["segment_id", CLIP])
    drawn = table.filter(pl.col("segment_id").is_in(rows["segment_id"].implode()))
    return dict(drawn.drop_nulls(CLIP).iter_rows())


def _windows(
    folder: Path, places: Mapping[str, str], workspace: Workspace
) -> dict[str, tuple[str, int]]:
    """Return for each place the file of its clip in a folder, and its samples.

    Clips that are there already are not fetched again.
    """
    names = {place: hashlib.sha256(place.encode()).hexdigest()[:32] for place in places.values()}
    here = {path.stem: path.name for path in folder.glob("*.*")}
    missing = [place for place, name in names.items() if name not in here]
    here |= dict(_fetched(folder, missing, names, workspace))
    files = {place: here.get(name, f"{name}.wav") for place, name in names.items()}
    return {place: (file, _num_samples(folder / file)) for place, file in files.items()}


def _fetched(
    folder: Path, places: Sequence[str], names: Mapping[str, str], workspace: Workspace
) -> Iterator[tuple[str, str]]:
    """Fetch clips into a folder; yield the name of each without and with its ending.

    One that cannot be fetched is left out: the review says that it is not readable.
    """
    if not places:
        return
    files = DatasetFiles.at(str(workspace.settings["source"]))
    with progress("fetch clips", len(places), "clips") as advance:
        for clip in fetch_clips(files, places):
            if isinstance(clip, ClipBytes):
                name = names[clip.clip]
                write_bytes(folder / f"{name}{clip.ending}", clip.content)
                yield name, f"{name}{clip.ending}"
            advance(1)


def _num_samples(path: Path) -> int:
    """Return the samples of a clip; 0 if it cannot be decoded."""
    try:
        return probe(path).num_samples
    except AudioError:
        return 0
