"""The audio folders of a workspace, and the command that brings in one that was moved."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbaudio.core.errors import InputError, redact_urls
from nbaudio.sources.grow import is_missing, is_same_place, sources_of
from nbaudio.storage.location import Location, location
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_path


def has_dataset_clips(workspace: Workspace) -> bool:
    """Return whether the audio of a workspace is in a dataset from which clips are fetched."""
    return workspace.settings.get("format") == "dataset" and workspace.audio is None


def required_audio(workspace: Workspace, recording_ids: Iterable[str] = ()) -> Location:
    """Return the audio folder or address of a workspace, to read some recordings.

    Raise InputError if it has none, and as `check_audio_folders`.
    """
    if has_dataset_clips(workspace):
        raise InputError(
            f"{workspace.path}: its audio stays in the dataset; 'nbaudio ingest hf' reads "
            "a dataset in Parquet with its audio"
        )
    if (audio := workspace.audio) is None:
        raise InputError(
            f"{workspace.path}: ingested without audio; run 'nbaudio ingest' again with --audio"
        )
    check_audio_folders(workspace, recording_ids)
    return audio


def check_audio_folders(workspace: Workspace, recording_ids: Iterable[str]) -> None:
    """Raise InputError, with the line of `missing_folder`, if there is one."""
    if line := missing_folder(workspace, recording_ids):
        raise InputError(line)


def missing_folder(workspace: Workspace, recording_ids: Iterable[str]) -> str | None:
    """Return a line if one of these recordings is in an audio folder that does not exist.

    It names the folder of the first of them, and the command to run after a move. Single files that
    are missing from a folder are no reason.
    """
    if not (missing := _missing_folders(workspace)):
        return None
    folders = _folders_of_recordings(workspace, missing)
    for recording_id in recording_ids:
        if folder := folders.get(recording_id):
            command = _ingest_command(workspace, _source_of(workspace, recording_id, folder))
            return redact_urls(
                f"{folder}: the audio folder of {workspace.path} is not there; "
                f"if it was moved: {command}"
            )
    return None


def _missing_folders(workspace: Workspace) -> list[Path]:
    """Return the audio folders of all sources on this machine that do not exist."""
    named = [workspace.settings, *sources_of(workspace)]
    places = [location(settings["audio"]) for settings in named if settings.get("audio")]
    folders = dict.fromkeys(place.local.absolute() for place in places if place.local)
    return [folder for folder in folders if is_missing(folder)]


def _folders_of_recordings(workspace: Workspace, folders: Sequence[Path]) -> dict[str, Path]:
    """Return by id which of these folders a recording with audio is in, if any."""
    folder_of_recording: dict[str, Path] = {}
    if (root := workspace.audio) is None:
        return folder_of_recording
    recordings = workspace.recordings.drop_nulls(["path", "num_samples"])
    for recording_id, path in recordings.select("recording_id", "path").iter_rows():
        file = (root / path).local
        above = [folder for folder in folders if file and file.is_relative_to(folder)]
        if above:
            folder_of_recording[recording_id] = above[0]
    return folder_of_recording


def _source_of(workspace: Workspace, recording_id: str, folder: Path) -> Mapping[str, Any]:
    """Return the settings of the source that has a recording, first of one with this folder."""
    sources = sources_of(workspace)
    if len(sources) > 1 and table_path(workspace, "names").exists():
        names = workspace.table("names").filter(recording_id=recording_id)
        numbers = names["source_number"].unique().sort().to_list()
        sources = [sources[number] for number in numbers] or sources
    with_folder = (
        source for source in sources if is_same_place(source.get("audio") or "", str(folder))
    )
    return next(with_folder, sources[0])


def _ingest_command(workspace: Workspace, source: Mapping[str, Any]) -> str:
    """Return the command that ingests a source again with another audio folder, NEW."""
    options = source.get("options") or {}
    if source.get("format") == "align":
        shortest, longest = options["durations"]
        words = ["align", source["source"], options["transcripts"]]
        if options["pairs"]:
            words += ["--pairs", options["pairs"]]
        words += ["--min-duration", f"{shortest:g}", "--max-duration", f"{longest:g}"]
    else:
        words = ["ingest", source.get("format") or "FORMAT", source.get("source") or "SOURCE"]
        if source.get("names"):
            words += ["--names", source["names"]]
        for name, value in options.items():
            words += ["--option", f"{name}={value}"]
    recordings = workspace.recordings
    if "sha256" in recordings and recordings["sha256"].is_null().all():
        words.append("--no-sha256")
    return shlex.join(["nbaudio", *words, "--audio", "NEW", "--add", "--out", str(workspace.path)])
