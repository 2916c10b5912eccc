"""Ingest: make a workspace of transcripts and recordings, the first step of every corpus."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.core import atomic, input_guards
from nbaudio.core.errors import ExistsError, InputError, get_by_name
from nbaudio.core.report import Report
from nbaudio.formats import structured
from nbaudio.formats.transcripts import Reader, Transcripts, clean_columns
from nbaudio.sources import (
    ingest_report,
    media_tracks,
    place_segments,
    remote_sources,
    speakers,
)
from nbaudio.sources.grow import (
    Before,
    MergedRecordings,
    absolute,
    is_same_place,
    keep_ids,
    merge_recordings,
    own_segment_ids,
    rebase,
    sources_of,
)
from nbaudio.sources.recording_names import (
    TABLES,
    Resolved,
    mapping_of_names,
    read_mapping,
    redact_names,
    source_ids,
)
from nbaudio.sources.recordings import FACTS, list_audio, probe_recordings
from nbaudio.sources.source_formats import ALL_READERS
from nbaudio.sources.time_units import check_time_units
from nbaudio.storage.cache import LIMIT, Cache
from nbaudio.storage.location import LocalPath, Location, location
from nbaudio.storage.remote import Remote
from nbaudio.storage.urls import is_url
from nbaudio.tables import schemas, tombstones, workspace_tables
from nbaudio.tables.rows import Rows, rows_on_disk
from nbaudio.tables.workspace import Workspace, locks_workspace

#: Options that every format has.
_COMMON_OPTIONS = (speakers.OPTION, media_tracks.TRACK, media_tracks.CLOCK)


@locks_workspace("ingest", new="out")
def ingest(
    format: str,
    source: str | Path,
    *,
    audio: str | Path | None = None,
    names: str | Path | None = None,
    out: str | Path,
    jobs: int | None = None,
    sha256: bool = True,
    cache: str | int = LIMIT,
    options: Mapping[str, object] | None = None,
    add: bool = False,
) -> Report:
    """Read transcripts, find and probe their recordings, and write the tables of a workspace.

    Unusable lines, names and recordings are listed in ``problems.parquet``; segments that cannot
    be used are listed there too and rejected. Ingesting the same source again replaces the tables
    and keeps the reviews. An interrupted run can be resumed. What was withdrawn stays out.

    Args:
        format: one of `ALL_READERS`.
        source: the transcripts: a file or folder, or its URL. What is needed of a URL is fetched
            into the workspace; recordings stay where they are.
        audio: the folder of the recordings, or its URL, such as ``s3://bucket/folder`` (see
            `nbaudio.storage.urls`). It may follow in a later ingest; samples are null until then. A
            format that brings its recordings needs none.
        names: file of each name: a Kaldi wav.scp, whose keys are kept as `source_recording` of the
            recordings, or a .csv or .tsv with the columns name and path.
        out: the workspace folder.
        jobs: recordings that are probed at once; one per core unless given.
        sha256: hash every recording, to detect changes.
        cache: bytes, or a size such as ``"20GB"``, for remote recordings that are kept in the
            workspace.
        options: of the format, by name, such as ``{"window": "10"}`` for ``folder``; and for every
            format ``speakers``, a table with the columns speaker_id and same_as, which merges
            speakers that are one person; ``track``, the number or language of the audio track to
            read of containers with several; and ``clock``, whether times count from the first
            ``picture`` of a video or from its ``sound``.
        add: keep what the workspace has, and bring in the same source grown or changed, or a
            further one. Unchanged recordings are not read again; ids, scores, verdicts, corrections
            and splits stay. Without a workspace it makes one.

    Returns:
        Counts, hours, a summary of the recordings and the size of the corpus; one line per problem.

    Raises:
        InputError: format, source, audio folder, names file or an option are not usable; the
            message has what is expected.
        ExistsError: `out` holds something else, or other sources and `add` is false.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> line = (
        ...     '{"file": "a [HlauTe_NK6U].wav", "start": 0.5, "end": 2, '
        ...     '"words": ["dobar", "dan"], "asr": ["dobar"]}'
        ... )
        >>> _ = (folder / "asr.json").write_text(line)
        >>> ingest("parlaspeech", folder / "asr.json", out=folder / "W").facts["segments"]
        1
        >>> Workspace.open(folder / "W").segments["segment_id"].to_list()
        ['HlauTe_NK6U_0.5-2']
    """
    reader = reader_of(format)
    chosen = format_options(format, options or {})
    of_format = {name: value for name, value in chosen.items() if name not in _COMMON_OPTIONS}
    speaker_table = chosen.get(speakers.OPTION)
    merged = speakers.read_speaker_table(Path(speaker_table)) if speaker_table else {}
    request = Request(
        format=format,
        source=source,
        audio=audio,
        names=names,
        out=out,
        jobs=jobs,
        sha256=sha256,
        cache=cache,
        add=add,
        options=chosen,
        merged_speakers=merged,
    )
    return bring_in(request, partial(reader, **of_format))


@dataclass(frozen=True)
class Request:
    """What `bring_in` is to ingest; the attributes are as the arguments of `ingest`.

    Attributes:
        options: what the settings of the workspace have as those of the source.
        merged_speakers: the id of each speaker that a table merges with another one.
    """

    format: str
    source: str | Path
    audio: str | Path | None
    names: str | Path | None
    out: str | Path
    jobs: int | None
    sha256: bool
    cache: str | int
    add: bool
    options: Mapping[str, Any]
    merged_speakers: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise InputError if there is no source, or if a path cannot be used."""
        check_source_given(self.source)
        if is_url(str(self.out)):
            raise InputError(f"{self.out}: a workspace is a folder on this machine")
        paths = {"source": self.source, "audio": self.audio, "names": self.names, "out": self.out}
        for option, path in paths.items():
            shown = input_guards.escape_surrogates(str(path))
            if path is not None and shown != str(path):
                raise InputError(f"{shown}: the {option} has a name that is not Unicode; rename it")

    def read_names(self) -> dict[str, str]:
        """Return the file of each name; empty without a table of names."""
        return read_mapping(Path(self.names)) if self.names is not None else {}

    @property
    def has_source_ids(self) -> bool:
        """Whether names are a wav.scp, whose keys are ids of the source's recordings."""
        return self.names is not None and Path(self.names).suffix.lower() not in TABLES


@dataclass(frozen=True)
class _Target:
    """The workspace that a source is brought into.

    Attributes:
        out: its folder.
        origin: the source.
        audio: the audio folder that is named, None if none is.
        cache: of remote recordings.
        before: the workspace before it grows; None if this source is the first, or replaces what is
            there.
        settings: those of the source, but for its audio folder.
    """

    out: Path
    origin: LocalPath | Remote
    audio: Location | None
    cache: Cache
    before: Before | None
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, request: Request) -> "_Target":
        """Return the target of a request; nothing is written.

        Raise ExistsError if the folder holds something else, or other sources.
        """
        out = Path(request.out).absolute()
        cache = Cache(out / "fetched", input_guards.parse_size(request.cache))
        origin = remote_sources.resolve_source(request.source, cache)
        audio = _existing_folder(request.audio, cache)
        settings = {
            "format": request.format,
            "source": str(origin),
            "names": request.names and str(Path(request.names).absolute()),
            "options": dict(request.options),
        }
        before = _workspace_before(out, request.format, origin, add=request.add)
        return cls(out, origin, audio, cache, before, settings)

    def settings_with(self, root: Location | None) -> dict[str, Any]:
        """Return the settings of the source with its audio folder `root`."""
        settings = {**self.settings, "audio": root and str(root)}
        if root and root.local is None:
            settings["cache"] = self.cache.limit
        return settings

    def create(self, root: Location | None) -> None:
        """Store the settings of a new workspace with the audio folder `root`.

        This precedes any data: a killed run can be run again, since its folder is then known as the
        workspace of this source.
        """
        if self.before is None:
            Workspace.create(self.out, **self.settings_with(root))

    def folder(self, name: str) -> Path:
        """Return the folder of the workspace for what this source brings: NAME, NAME-2 and so on.

        The number is that of the source among all sources of the workspace.
        """
        if self.before and self.before.number:
            return self.out / f"{name}-{self.before.number + 1}"
        return self.out / name


def bring_in(request: Request, read: Callable[[Any], Transcripts]) -> Report:
    """Ingest what `read` returns for the source; see `ingest` for errors.

    Nothing is written before the request was checked and the source was found.
    """
    request.check()
    target = _Target.of(request)
    mapping = request.read_names()
    with rows_on_disk(target.out):
        transcripts = _read_source(request.format, read, target)
        root = target.audio or _audio_of_source(transcripts, target)
        transcripts = _prepared(request, target, transcripts)
        resolved = _resolve_names(transcripts, mapping, root)
        target.create(root)
        placed = _place_in_recordings(request, target, resolved, root)
        workspace = Workspace.open(target.out)
        settings = target.settings_with(root)
        return ingest_report.save_tables(workspace, placed, target.before, settings)


def _read_source(format: str, read: Callable[[Any], Transcripts], target: _Target) -> Transcripts:
    """Read the transcripts; those of a remote source are fetched into the workspace.

    That needs a workspace to fetch into, before the audio folder of the source is known.
    """
    origin = target.origin
    if isinstance(origin, Remote):
        folder = target.folder("source")
        begin = partial(target.create, target.audio)
        return remote_sources.read_remote(format, read, origin, folder=folder, begin=begin)
    return read(origin.local)


def _audio_of_source(transcripts: Transcripts, target: _Target) -> Location | None:
    """Return the audio folder of a source for which none is named.

    Recordings that are embedded in the transcripts are written to a folder of the workspace.
    Otherwise it is the folder that the reader found beside the transcripts, or that of an earlier
    ingest of this source; None if there is none of these.
    """
    if transcripts.embedded is not None:
        root = LocalPath(target.folder("audio"))
        target.create(root)
        _write_embedded(transcripts.embedded, root.local)
        return root
    if root_of_source := _existing_folder(transcripts.audio_root, target.cache):
        return root_of_source
    if target.before:
        return _existing_folder(target.before.audio, target.cache)
    return None


def _prepared(request: Request, target: _Target, transcripts: Transcripts) -> Transcripts:
    """Return the transcripts as the tables need them.

    No column has a name of ours, merged speakers have one id, and the option for the clock is
    applied. Raise InputError if texts are lists or objects.
    """
    structured.check_texts(target.origin.name, transcripts)
    named = replace(
        transcripts,
        rows=clean_columns(transcripts.rows),
        on_picture_clock=media_tracks.is_on_picture_clock(
            request.options.get(media_tracks.CLOCK), default=transcripts.on_picture_clock
        ),
    )
    withdrawn = Workspace(target.out).withdrawn
    return speakers.with_merged_speakers(named, request.merged_speakers, withdrawn)


def _place_in_recordings(
    request: Request, target: _Target, resolved: Resolved, root: Location | None
) -> ingest_report.Placed:
    """Probe the recordings and place the segments in them, without what was withdrawn."""
    before = target.before
    withdrawn = Workspace(target.out).withdrawn
    rows = resolved.transcripts.rows
    # What was withdrawn is not even read.
    is_withdrawn = _names_withdrawn(resolved.audit, rows, withdrawn)
    facts = _probe(request, target, root, resolved.audit.filter(~is_withdrawn)["path"])
    identified = _with_earlier_ids(before, root, resolved.audit, facts)
    if before:  # recordings may have been withdrawn by the ids that they had
        is_withdrawn |= _names_withdrawn(identified.audit, rows, withdrawn)
    usable = resolved._replace(audit=identified.audit.filter(~is_withdrawn))
    keys = resolved.mapping if request.has_source_ids else {}
    recordings = _recordings_table(usable, identified.facts, keys)
    merged = MergedRecordings(recordings, pl.DataFrame())
    if before:
        merged = merge_recordings(before, identified.earlier, recordings)
    in_workspace = media_tracks.without_empty_columns(merged.recordings)
    segments = _place_segments(target, resolved.transcripts, identified.audit, in_workspace)
    return ingest_report.Placed(
        source=target.origin.name,
        resolved=usable,
        audio=identified.audio,
        recordings=recordings,
        merged=in_workspace,
        status=merged.status,
        segments=segments.compared(withdrawn),
    )


def _probe(
    request: Request, target: _Target, root: Location | None, paths: pl.Series
) -> pl.DataFrame:
    """Return the facts of recordings below an audio folder; unchanged ones are not read again.

    There are none without a folder.
    """
    if root is None:
        return pl.DataFrame(schema=FACTS)
    before = target.before.probed() if target.before else None
    return probe_recordings(
        root,
        paths.drop_nulls().unique().sort(),
        jobs=request.jobs,
        sha256=request.sha256,
        keep=target.out,
        before=before,
        track=request.options.get(media_tracks.TRACK),
    )


@dataclass(frozen=True)
class _Identified:
    """The recordings of a source, by the ids that they have in the workspace.

    Attributes:
        audit: that of `name_matching.resolve`, with these ids.
        facts: of recordings with audio. Paths are relative to `audio`, or absolute if the audio
            folder of the source is another one.
        audio: the audio folder of the workspace.
        earlier: the recordings that the workspace had before; empty if it is new.
    """

    audit: pl.DataFrame
    facts: pl.DataFrame
    audio: Location | None
    earlier: pl.DataFrame


def _with_earlier_ids(
    before: Before | None, root: Location | None, audit: pl.DataFrame, facts: pl.DataFrame
) -> _Identified:
    """Give recordings the ids that they had before; `root` is the audio folder of the source."""
    if before is None:
        return _Identified(audit, facts, root, pl.DataFrame())
    rebased = rebase(before, root)
    # Paths in the workspace are relative to its own audio folder.
    if root and rebased.is_apart:
        facts = facts.with_columns(absolute(facts["path"], root))
        audit = audit.with_columns(absolute(audit["path"], root))
    audit = keep_ids(before, rebased.recordings, audit, facts)
    return _Identified(audit, facts, rebased.audio, rebased.recordings)


def _place_segments(
    target: _Target, transcripts: Transcripts, audit: pl.DataFrame, recordings: pl.DataFrame
) -> place_segments.PlacedSegments:
    """Place the segments of a source in the recordings of the workspace."""
    rows = _timed_rows(target.origin.name, transcripts, audit, recordings)
    on_picture_clock = transcripts.on_picture_clock
    timed = recordings if on_picture_clock else media_tracks.without_starts(recordings)
    placed = place_segments.PlacedSegments(rows, audit, timed).numbered()
    if target.before is None:
        return placed
    return placed.with_ids(own_segment_ids(target.before, placed))


def _timed_rows(
    source: str, transcripts: Transcripts, audit: pl.DataFrame, recordings: pl.DataFrame
) -> Rows:
    """Return the rows of transcripts with times in seconds, and the tracks and channels to read.

    See `check_time_units` for errors.
    """
    check_time_units(source, transcripts, audit, recordings)
    rows = place_segments.with_known_times(
        transcripts.rows,
        audit,
        recordings,
        transcripts.windows,
        in_samples=transcripts.in_samples,
    )
    rows = media_tracks.with_uncancelled_channels(rows, audit, recordings)
    return media_tracks.with_tracks(rows, audit, recordings)


def _names_withdrawn(audit: pl.DataFrame, rows: Rows, withdrawn: pl.DataFrame) -> pl.Series:
    """Return for each name of an audit whether it was withdrawn.

    It was if its recording was, by its id in the audit or by the id that the name alone gives, or
    if the speakers of all its segments were.
    """
    if withdrawn.is_empty():
        return pl.Series([False] * len(audit), dtype=pl.Boolean)
    ids_of_names = pl.Series(
        [name_matching.recording_id(name) for name in audit["name"]], dtype=pl.String
    )
    is_withdrawn = tombstones.reasons("recording", audit["recording_id"], withdrawn).is_not_null()
    is_withdrawn |= tombstones.reasons("recording", ids_of_names, withdrawn).is_not_null()
    spoken = rows.unique("name", "speaker_id")
    speaker_reasons = tombstones.reasons("speaker", spoken["speaker_id"], withdrawn)
    with_other_speakers = spoken.filter(speaker_reasons.is_null())["name"].unique()
    return is_withdrawn | ~audit["name"].is_in(with_other_speakers.implode())


def reader_of(format: str | None) -> Reader:
    """Return the reader of a format; raise InputError with the known formats for no such one."""
    if format is None:
        formats = ", ".join(ALL_READERS)
        raise InputError(f"format: not given; known are {formats}; in a manifest its key is format")
    return get_by_name(ALL_READERS, format, "format")


def check_source_given(source: str | Path | None) -> None:
    """Raise InputError if no source is given."""
    if source is None:
        raise InputError(
            "source: not given; it is the file or folder of the transcripts, "
            "in a manifest its key source"
        )


def format_options(format: str, options: Mapping[str, object]) -> dict[str, str]:
    """Convert the options of a format to text (see `option_texts`)."""
    of_format = [
        name
        for name, parameter in signature(ALL_READERS[format]).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    ]
    return option_texts(format, options, allowed=(*of_format, *_COMMON_OPTIONS))


def option_texts(
    format: str, options: Mapping[str, object], *, allowed: Sequence[str]
) -> dict[str, str]:
    """Convert options to the text that the command line would have.

    YAML reads yes and no as booleans; null leaves an option out. Raise InputError for an option
    that is not `allowed`.
    """
    for name in options:
        if name not in allowed:
            raise InputError(
                f"option {name!r} is unknown to {format}; known are {', '.join(allowed) or 'none'}"
            )
    texts = {}
    for name, value in options.items():
        if isinstance(value, bool):
            texts[name] = "yes" if value else "no"
        elif value is not None:
            texts[name] = str(value)
    return texts


def _existing_folder(audio: str | Path | None, cache: Cache) -> Location | None:
    """Return the location of an audio folder; raise InputError for a local one that is missing."""
    if audio is None:
        return None
    root = location(str(audio), cache)
    if root.local is None:
        return root
    if root.local.is_file():
        raise InputError(
            f"{audio}: a file, not a folder of recordings; an archive is named as in zip://::a.zip"
        )
    if not root.is_folder():
        raise InputError(
            f"{audio}: there is no such audio folder; leave --audio out to ingest the "
            "transcripts only"
        )
    return LocalPath(root.local.absolute())


def _workspace_before(out: Path, format: str, source: Location, *, add: bool) -> Before | None:
    """Return the workspace in `out` that grows by a source; None if it is to be made or replaced.

    Only with `add` a workspace grows. Raise ExistsError if the folder holds something else, or if
    other sources would be lost.
    """
    if (out / "workspace.json").is_file():
        workspace = Workspace.open(out)
        if add:
            if not workspace_tables.table_path(out).is_file():
                return None  # its first ingest was interrupted
            return Before.load(workspace, format, str(source))
        others = [
            settings["source"]
            for settings in sources_of(workspace)
            if settings["format"] != format or not is_same_place(settings["source"], str(source))
        ]
        if others:
            listed = ", ".join(map(str, others))
            raise ExistsError(
                f"{out}: is the workspace of {listed}; choose another --out, remove it, "
                "or bring in both with --add"
            )
    elif out.exists() and (
        not out.is_dir() or any(not path.name.startswith(".") for path in out.iterdir())
    ):
        raise ExistsError(f"{out}: exists and is not a workspace; choose another --out")
    return None


def _write_embedded(embedded: Iterable[tuple[str, bytes]], root: Path) -> None:
    """Write recordings to files of their names; unchanged files keep their modification time."""
    for name, content in embedded:
        path = root / name
        # A name may be no valid one for a file, or that of a folder. The recording is then missing,
        # and reported as such.
        with suppress(OSError):
            is_unchanged = (
                path.is_file()
                and path.stat().st_size == len(content)
                and path.read_bytes() == content
            )
            if not is_unchanged:
                atomic.write_bytes(path, content, sync=False)


def _resolve_names(
    transcripts: Transcripts, mapping: Mapping[str, str], root: Location | None
) -> Resolved:
    """Find the recording of each name in transcripts below `root`; without a folder, none."""
    fetches = root is not None and root.is_scheme
    redacted = redact_names(transcripts, mapping, fetches=fetches)
    transcripts = redacted.transcripts
    named = transcripts.rows.unique("name")["name"]
    mapping = mapping_of_names(redacted.mapping, named)
    wanted = (mapping.get(name, name) for name in named)
    available = pl.Series(dtype=pl.String)
    rejected: list[tuple[str, str]] = []
    if root:
        is_of_source = str(root) == str(transcripts.audio_root)
        members = transcripts.archive_members if is_of_source else None
        available, rejected = list_audio(root, wanted, members)
    return Resolved(
        transcripts, name_matching.resolve(named, available, mapping=mapping), rejected, mapping
    )


def _recordings_table(
    resolved: Resolved, facts: pl.DataFrame, keys: Mapping[str, str]
) -> pl.DataFrame:
    """Return the recordings table of a source, with `name` and `error`.

    `name` is one of the source's spellings. If the source has ids, the table has them as
    `source_recording`.
    """
    recordings = resolved.audit.group_by("recording_id", maintain_order=True).agg(
        pl.first("path", "name")
    )
    recordings = recordings.join(facts, on="path", how="left", maintain_order="left")
    ids = source_ids(keys, resolved.audit, resolved.transcripts.rows)
    if len(ids):
        recordings = recordings.join(ids, on="recording_id", how="left", maintain_order="left")
    return schemas.conform(recordings, schemas.RECORDINGS, "recordings")
