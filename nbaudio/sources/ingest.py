"""Ingest: make a workspace of transcripts and recordings, the first step of every corpus."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.core import atomic, input_guards
from nbaudio.core.errors import ExistsError, InputError, get_by_name
from nbaudio.core.report import Report
from nbaudio.formats import (
    commonvoice,
    hf,
    kaldi,
    lhotse,
    librispeech,
    nemo,
    parlaspeech,
    structured,
    subtitles,
    table,
    textgrid,
)
from nbaudio.formats.transcripts import Reader, Transcripts, clean_columns
from nbaudio.sources import (
    folder,
    ingest_report,
    media_tracks,
    place_segments,
    remote_sources,
    speakers,
)
from nbaudio.sources.grow import (
    Before,
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
from nbaudio.sources.time_units import check_time_units
from nbaudio.storage.cache import LIMIT, Cache
from nbaudio.storage.location import LocalPath, Location, location
from nbaudio.storage.remote import Remote
from nbaudio.storage.urls import is_url
from nbaudio.tables import schemas, tombstones, workspace_tables
from nbaudio.tables.rows import Rows, rows_on_disk
from nbaudio.tables.workspace import Workspace, locks_workspace

_Probe = Callable[..., pl.DataFrame]  # `probe_recordings` with the options of ingest
_MODULES = (
    parlaspeech,
    librispeech,
    kaldi,
    commonvoice,
    folder,
    hf,
    nemo,
    lhotse,
    table,
    subtitles,
    textgrid,
)
#: The module of each format, which has its name: it has `read` and `detect`.
FORMATS: Mapping[str, ModuleType] = MappingProxyType(
    {module.__name__.rpartition(".")[2]: module for module in _MODULES}
)
#: The reader of each format.
READERS: Mapping[str, Reader] = MappingProxyType(
    {name: module.read for name, module in FORMATS.items()}
)


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

    Unusable lines, names and recordings are listed in ``problems.parquet``; segments that break a
    rule are listed there too and rejected. Ingesting the same source again replaces the tables and
    keeps the reviews. An interrupted run can be resumed. What was withdrawn stays out.

    Args:
        format: one of `READERS`.
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
    places = {"source": source, "audio": audio, "names": names, "out": out}
    return bring_in(
        format,
        partial(reader, **of_format),
        chosen,
        places,
        jobs=jobs,
        sha256=sha256,
        cache=cache,
        add=add,
        merged_speakers=merged,
        track=chosen.get(media_tracks.TRACK),
        clock=chosen.get(media_tracks.CLOCK),
    )


def bring_in(  # noqa: PLR0914
    format: str,
    read: Callable[[Any], Transcripts],
    options: Mapping[str, Any],
    places: Mapping[str, Any],
    **given: Any,
) -> Report:
    """Ingest what `read` returns for the source.

    `places` and `given` are the other parameters of `ingest`, `merged_speakers`, the ids of
    speakers that a table merges, and the options `track` and `clock`.
    """
    source, audio, names, out = (places[name] for name in ("source", "audio", "names", "out"))
    jobs, sha256, cache, add = (given[name] for name in ("jobs", "sha256", "cache", "add"))
    check_source_given(source)
    if is_url(str(out)):
        raise InputError(f"{out}: a workspace is a folder on this machine")
    _check_unicode(places)
    out = Path(out).absolute()
    store = Cache(out / "fetched", input_guards.parse_size(cache))
    origin = remote_sources.resolve_source(source, store)
    root = _audio_folder(audio, store)
    before = _check_free(out, format, origin, add=add)
    mapping = read_mapping(Path(names)) if names is not None else {}
    named = names and str(Path(names).absolute())
    settings: dict[str, Any] = {
        "format": format,
        "source": str(origin),
        "names": named,
        "options": dict(options),
    }

    def create_workspace(root: Location | None) -> None:
        """Store the settings of a new workspace.

        This precedes any data, so that a killed run can be run again.
        """
        limit = {"cache": store.limit} if root and root.local is None else {}
        settings.update(audio=root and str(root), **limit)
        if before is None:
            Workspace.create(out, **settings)

    with rows_on_disk(out):
        further = f"-{before.number + 1}" if before and before.number else ""
        if isinstance(origin, Remote):
            begin = partial(create_workspace, root)
            transcripts = remote_sources.read_remote(
                format, read, origin, folder=out / f"source{further}", begin=begin
            )
        else:
            transcripts = read(origin.local)
        if root is None and transcripts.embedded is not None:
            root = LocalPath(out / f"audio{further}")
            create_workspace(root)
            _write_embedded(transcripts.embedded, root.local)
        root = (
            root
            or _audio_folder(transcripts.audio_root, store)
            or _audio_folder(before.audio if before else None, store)
        )
        transcripts = _cleaned(out, origin.name, transcripts, given)
        resolved = _resolve_names(transcripts, mapping, root)
        create_workspace(root)
        has_ids = names is not None and Path(names).suffix.lower() not in TABLES
        probe = partial(
            probe_recordings, jobs=jobs, sha256=sha256, keep=out, track=given.get("track")
        )
        placed = _place(
            out,
            resolved,
            root,
            before,
            keys=resolved.mapping if has_ids else {},
            probe=probe,
            source=origin.name,
        )
        return ingest_report.save_tables(Workspace.open(out), origin.name, placed, before, settings)


def _check_unicode(places: Mapping[str, Any]) -> None:
    """Raise InputError for a path that is not Unicode."""
    for what, value in places.items():
        shown = input_guards.escape_surrogates(str(value))
        if value is not None and shown != str(value):
            raise InputError(f"{shown}: the {what} has a name that is not Unicode; rename it")


def _cleaned(
    out: Path, source: str, transcripts: Transcripts, given: Mapping[str, Any]
) -> Transcripts:
    """Return transcripts with columns of other names than ours, and one id for each speaker.

    Raise InputError if texts are lists or objects.
    """
    structured.check_texts(source, transcripts)
    named = replace(
        transcripts,
        rows=clean_columns(transcripts.rows),
        on_picture_clock=media_tracks.is_on_picture_clock(
            given.get("clock"), default=transcripts.on_picture_clock
        ),
    )
    merged_speakers = given.get("merged_speakers", {})
    return speakers.with_merged_speakers(named, merged_speakers, Workspace(out).withdrawn)


def _place(
    out: Path,
    resolved: Resolved,
    root: Location | None,
    before: Before | None,
    *,
    keys: Mapping[str, str],
    probe: _Probe,
    source: str,
) -> ingest_report.Placed:
    """Probe the recordings and place the segments in them, without what was withdrawn.

    `keys` are those of a ``wav.scp``, `source` is the name of the source for messages.
    """
    withdrawn = Workspace(out).withdrawn
    transcripts = resolved.transcripts
    audit = resolved.audit
    gone = _withdrawn_names(audit, transcripts.rows, withdrawn)
    facts = pl.DataFrame(schema=FACTS)
    audio = root
    status = pl.DataFrame()
    if root:
        facts = probe(
            root,
            audit.filter(~gone)["path"].drop_nulls().unique().sort(),
            before=before.probed() if before else None,
        )
    if before:
        audio, old, is_apart = rebase(before, root)
        if root and is_apart:
            facts, audit = (
                table.with_columns(absolute(table["path"], root)) for table in (facts, audit)
            )
        audit = keep_ids(before, old, audit, facts)
        gone |= _withdrawn_names(audit, transcripts.rows, withdrawn)
    kept = resolved._replace(audit=audit.filter(~gone))
    recordings = merged = _recordings_table(kept, facts, keys)
    if before:
        merged, status = merge_recordings(before, old, recordings)
    merged = media_tracks.without_empty_columns(merged)
    rows = _timed_rows(source, transcripts, audit, merged)
    timed = merged if transcripts.on_picture_clock else media_tracks.without_starts(merged)
    placed = place_segments.PlacedSegments(rows, audit, timed).numbered()
    if before:
        placed = placed.with_ids(own_segment_ids(before, placed))
    return ingest_report.Placed(kept, audio, recordings, merged, status, placed.compared(withdrawn))


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


def _withdrawn_names(audit: pl.DataFrame, rows: Rows, withdrawn: pl.DataFrame) -> pl.Series:
    """Return for each name of an audit whether it was withdrawn.

    It was if its recording was, or the speaker of all its segments.
    """
    if withdrawn.is_empty():
        return pl.Series([False] * len(audit), dtype=pl.Boolean)
    plain = pl.Series([name_matching.recording_id(name) for name in audit["name"]], dtype=pl.String)
    named, unnamed = (
        tombstones.reasons("recording", ids, withdrawn).is_not_null()
        for ids in (audit["recording_id"], plain)
    )
    spoken = rows.unique("name", "speaker_id")
    others = spoken.filter(
        tombstones.reasons("speaker", spoken["speaker_id"], withdrawn).is_null()
    )["name"].unique()
    return named | unnamed | ~audit["name"].is_in(others.implode())


def reader_of(format: str | None) -> Reader:
    """Return the reader of a format; raise InputError with the known formats for no such one."""
    if format is None:
        raise InputError(
            f"format: not given; known are {', '.join(READERS)}; in a manifest its key is format"
        )
    return get_by_name(READERS, format, "format")


def check_source_given(source: str | Path | None) -> None:
    """Raise InputError if no source is given."""
    if source is None:
        raise InputError(
            "source: not given; it is the file or folder of the transcripts, "
            "in a manifest its key source"
        )


def format_options(format: str, options: Mapping[str, object]) -> dict[str, str]:
    """Convert the options of a format to text (see `option_texts`)."""
    known = [
        name
        for name, each in signature(READERS[format]).parameters.items()
        if each.kind is Parameter.KEYWORD_ONLY
    ]
    return option_texts(format, options, known=(*known, *_COMMON_OPTIONS))


def option_texts(
    format: str, options: Mapping[str, object], *, known: Sequence[str]
) -> dict[str, str]:
    """Convert options to text: YAML reads yes and no as booleans, and null leaves an option out.

    Raise InputError for an option that is not `known`.
    """
    for name in options:
        if name not in known:
            raise InputError(
                f"option {name!r} is unknown to {format}; known are {', '.join(known) or 'none'}"
            )
    texts = {
        name: ("no", "yes")[value] if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
    return {name: text for name, text in texts.items() if options[name] is not None}


def _audio_folder(audio: str | Path | None, cache: Cache) -> Location | None:
    if audio is None:
        return None
    root = location(str(audio), cache)
    if root.local is None:
        return root
    if not root.is_folder():
        raise InputError(
            f"{audio}: there is no such audio folder; leave --audio out to ingest the "
            "transcripts only"
        )
    return LocalPath(root.local.absolute())


def _check_free(out: Path, format: str, source: Location, *, add: bool) -> Before | None:
    """Return the workspace that grows, if any.

    Raise ExistsError if the folder holds something else, or other sources.
    """
    if (out / "workspace.json").is_file():
        workspace = Workspace.open(out)
        if add:
            return (
                Before.load(workspace, format, str(source))
                if workspace_tables.table_path(out).is_file()
                else None
            )
        others = [
            settings["source"]
            for settings in sources_of(workspace)
            if settings["format"] != format or not is_same_place(settings["source"], str(source))
        ]
        if others:
            held = ", ".join(map(str, others))
            raise ExistsError(
                f"{out}: is the workspace of {held}; choose another --out, remove it, "
                "or bring in both with --add"
            )
    elif out.exists() and (
        not out.is_dir() or any(not path.name.startswith(".") for path in out.iterdir())
    ):
        raise ExistsError(f"{out}: exists and is not a workspace; choose another --out")
    return None


def _write_embedded(embedded: Iterable[tuple[str, bytes]], root: Path) -> None:
    """Write recordings to files of their names; unchanged files keep their modification time."""
    for name, data in embedded:
        path = root / name
        # A name that is not valid for a file, or is that of a folder: the recording is reported as
        # missing.
        with suppress(OSError):
            if not (
                path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
            ):
                atomic.write_bytes(path, data, sync=False)


def _resolve_names(
    transcripts: Transcripts, mapping: Mapping[str, str], root: Location | None
) -> Resolved:
    transcripts, mapping = redact_names(
        transcripts, mapping, fetches=root is not None and root.is_scheme
    )
    named = transcripts.rows.unique("name")["name"]
    mapping = mapping_of_names(mapping, named)
    wanted = (mapping.get(name, name) for name in named)
    available, rejected = list_audio(root, wanted) if root else (pl.Series(dtype=pl.String), [])
    return Resolved(
        transcripts, name_matching.resolve(named, available, mapping=mapping), rejected, mapping
    )


def _recordings_table(
    resolved: Resolved, facts: pl.DataFrame, keys: Mapping[str, str]
) -> pl.DataFrame:
    """Return the recordings table with `name` and `error`.

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
