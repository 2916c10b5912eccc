"""From transcripts and recordings to a workspace: the first step of every corpus.

A foreign layout is one function, `Reader`, and one line in `READERS`; everything after reading is the same for all of them.
The keyword-only parameters of that function are the options of the format.
Conventions: the source's own decimals are kept and turned into samples here, once. An end that lies past the end of its
recording by no more than half a unit of its last decimal means that end and is taken so: decimals are rounded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import polars as pl

from nbaudio.core.channels import source_channel
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.core.guards import parse_size
from nbaudio.core.names import resolve, segment_ids
from nbaudio.core.report import Report
from nbaudio.core.tables import RECORDINGS, SEGMENTS, conform, segment_failures, with_recordings
from nbaudio.core.times import to_samples_column
from nbaudio.formats import commonvoice, hf, kaldi, lhotse, librispeech, nemo, parlaspeech, subtitles, table, textgrid
from nbaudio.formats.base import Reader, Transcripts, clean_columns, escape_surrogates
from nbaudio.formats.mapping import TABLES, read_mapping, source_ids
from nbaudio.formats.redaction import redacted
from nbaudio.sources import folder, remote_sources, reporting
from nbaudio.sources.recordings import FACTS, list_audio, list_remote, probe_recordings
from nbaudio.sources.windows import fill_times
from nbaudio.storage.atomic import atomic_write
from nbaudio.storage.cache import LIMIT, Cache
from nbaudio.storage.remote import Remote, remote
from nbaudio.storage.urls import is_url
from nbaudio.storage.workspace import Workspace

__all__ = ["PROBLEMS", "READERS", "Reader", "Transcripts", "ingest"]

READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "parlaspeech": parlaspeech.read,
        "librispeech": librispeech.read,
        "kaldi": kaldi.read,
        "commonvoice": commonvoice.read,
        "folder": folder.read,
        "hf": hf.read,
        "nemo": nemo.read,
        "lhotse": lhotse.read,
        "table": table.read,
        "subtitles": subtitles.read,
        "textgrid": textgrid.read,
    }
)

PROBLEMS = pl.Schema({"file": pl.String, "item": pl.String, "reason": pl.String})

# fmt: off
_TOLD = (
    "segment_id", "recording_id", "start_sample", "end_sample", "source_start", "source_end", "source_duration", "decision",
    "reason",
)
# fmt: on


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
) -> Report:
    """Read transcripts, find their recordings and look at each; write the tables of a workspace.

    Nothing vanishes: lines, names and recordings that are of no use are in ``problems.parquet``, segments that break a rule
    are there and rejected. A workspace of the same source is made anew, its reviews stay. A run that was killed goes on.

    Args:
        format: one of `READERS`.
        source: the transcripts: a file or folder, or its address. What of it is needed is fetched into the workspace; recordings
            stay where they are.
        audio: the folder of the recordings, or its address, such as ``s3://bucket/folder`` (see `nbaudio.storage.urls`); it
            may come later, then samples are null until it does. A format that brings its recordings needs none.
        names: which file a name means: a Kaldi wav.scp, whose keys are kept as `source_recording` of the recordings, or a .csv
            or .tsv with the columns name and path.
        out: the workspace folder.
        jobs: recordings that are looked at at once; one a core unless given.
        sha256: hash every recording, so that a change is noticed.
        cache: bytes, or a size such as ``"20GB"``, for recordings that lie elsewhere and are kept in the workspace.
        options: of the format, by name, such as ``{"window": "10"}`` for ``folder``.

    Returns:
        Counts, hours, what the recordings are and how large the corpus will be; problems one line each.

    Raises:
        InputError: format, source, audio folder, names file or an option are not usable; says what is wanted.
        ExistsError: `out` holds something else.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> line = '{"file": "a [HlauTe_NK6U].wav", "start": 0.5, "end": 2, "words": ["dobar", "dan"], "asr": ["dobar"]}'
        >>> _ = (folder / "asr.json").write_text(line)
        >>> ingest("parlaspeech", folder / "asr.json", out=folder / "W").facts["segments"]
        1
        >>> Workspace.open(folder / "W").segments["segment_id"].to_list()
        ['HlauTe_NK6U_0.5-2']
    """
    if format not in READERS:
        raise InputError(f"format {format!r} is unknown; known are {', '.join(READERS)}")
    if is_url(str(out)):
        raise InputError(f"{out}: a workspace is a folder on this machine")
    chosen = _options(format, options or {})
    for what, given in {"source": source, "audio": audio, "names": names, "out": out}.items():
        if given is not None and escape_surrogates(str(given)) != str(given):
            raise InputError(f"{escape_surrogates(str(given))}: the {what} has a name that is not Unicode; rename it")
    out = Path(out).absolute()
    kept = Cache(out / "fetched", parse_size(cache))
    origin = remote_sources.origin(source, kept)
    root = _audio_folder(audio, kept)
    _check_free(out, origin)
    mapping = read_mapping(Path(names)) if names is not None else {}
    settings: dict[str, Any] = {
        "format": format,
        "source": str(origin),
        "names": names and str(Path(names).absolute()),
        "options": chosen,
    }
    if isinstance(origin, Remote):
        transcripts = remote_sources.read_elsewhere(
            format,
            READERS[format],
            origin,
            chosen,
            folder=out / "source",
            begin=lambda: Workspace.create(out, **settings, audio=root and str(root)),
        )
    else:
        transcripts = READERS[format](origin, **chosen)
    if root is None and transcripts.embedded is not None:
        root = out / "audio"
        # Noted before anything is written, so that a killed run can be run again.
        Workspace.create(out, **settings, audio=str(root))
        _write_embedded(transcripts.embedded, root)
    root = root or _audio_folder(transcripts.audio_root, kept)

    transcripts = replace(transcripts, frame=clean_columns(transcripts.frame))
    transcripts, mapping = redacted(transcripts, mapping, fetches=isinstance(root, Remote) and root.is_scheme)
    named = transcripts.frame["name"].unique()
    if isinstance(root, Remote):
        settings["cache"] = kept.limit
        available, refused = list_remote(root, [mapping.get(name, name) for name in named])
    else:
        available, refused = list_audio(root) if root else (pl.Series(dtype=pl.String), [])
    Workspace.create(out, **settings, audio=root and str(root))  # before the recordings: a killed run can be run again
    audit = resolve(named, available, mapping=mapping)
    found = audit["path"].drop_nulls().unique().sort()
    facts = probe_recordings(root, found, jobs=jobs, sha256=sha256, keep=out) if root else pl.DataFrame(schema=FACTS)
    ids = source_ids({} if Path(names or "").suffix.lower() in TABLES else mapping, audit, transcripts.frame)
    recordings = _recordings(audit, facts, ids)
    frame = fill_times(transcripts.frame, audit, recordings, transcripts.windows)
    segments = _segments(frame, audit, recordings)

    # What is told about segments is told without their texts: filters copy what they let through.
    told = segments.select(name for name in _TOLD if name in segments.columns)
    problems = {
        "names": _name_problems(origin.name, audit, refused, mapping) if root else pl.DataFrame(schema=PROBLEMS),
        "files": pl.DataFrame([(path, path, reason) for path, reason in refused], schema=PROBLEMS, orient="row"),
        "recordings": recordings.filter(pl.col("error").is_not_null()).select(file="path", item="recording_id", reason="error"),
        "lines": transcripts.problems.select(
            "file", item=pl.coalesce(pl.format("line {}", "line"), pl.lit("as a whole")), reason="reason"
        ),
        "ids": _repeated(origin.name, transcripts.frame),
        "segments": told.filter(pl.col("reason").is_not_null()).select(
            file=pl.lit(origin.name), item="segment_id", reason="reason"
        ),
    }
    workspace = Workspace.open(out)
    workspace.save(
        recordings=recordings.drop("error"), segments=segments, names=audit, problems=pl.concat(problems.values(), how="vertical")
    )
    report = Report(
        "ingest",
        reporting.ingest_facts(transcripts, audit, recordings, told, with_audio=root is not None),
        [*transcripts.notes, *reporting.warnings(workspace, recordings, told)],
        [line for kind, frame in problems.items() for line in reporting.lines(kind, frame)],
    )
    workspace.save_report("ingest", report.to_dict())
    return report


def _audio_folder(audio: str | Path | None, cache: Cache) -> Path | Remote | None:
    if audio is None:
        return None
    if is_url(str(audio)) and not str(audio).startswith("file://"):
        return remote(str(audio), cache)
    if str(audio).startswith("file://"):
        audio = url2pathname(urlsplit(str(audio)).path)
    if not Path(audio).is_dir():
        raise InputError(f"{audio}: there is no such audio folder; leave --audio out to look at the transcripts alone")
    return Path(audio).absolute()


def _options(format: str, options: Mapping[str, object]) -> dict[str, str]:
    """The options as their reader takes them: text; YAML reads yes and no as truth values, and null leaves an option out."""
    known = [name for name, each in signature(READERS[format]).parameters.items() if each.kind is Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise InputError(f"option {name!r} is unknown to {format}; known are {', '.join(known) or 'none'}")
    texts = {name: ("no", "yes")[value] if isinstance(value, bool) else str(value) for name, value in options.items()}
    return {name: text for name, text in texts.items() if options[name] is not None}


def _write_embedded(embedded: Iterable[tuple[str, bytes]], root: Path) -> None:
    """Write recordings to files of their names; those that are there keep their time of change."""
    for name, data in embedded:
        path = root / name
        try:
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                continue
            with atomic_write(path, sync=False) as partial:
                partial.write_bytes(data)
        except OSError:
            # A name that no file can have, or that another has as its folder: that recording is missing, and told as such.
            continue


def _check_free(out: Path, source: Path | Remote) -> None:
    """Let pass a new or empty folder, or the workspace of the same source."""
    if (out / "workspace.json").is_file():
        held = Workspace.open(out).settings.get("source")
        if held != str(source):
            raise ExistsError(f"{out}: is the workspace of {held}; choose another --out, or remove it")
    elif out.exists() and (not out.is_dir() or any(not path.name.startswith(".") for path in out.iterdir())):
        raise ExistsError(f"{out}: exists and is no workspace; choose another --out")


def _recordings(audit: pl.DataFrame, facts: pl.DataFrame, ids: pl.DataFrame) -> pl.DataFrame:
    """The recordings table with `name` (one of the source's spellings) and the facts of `FACTS`; null where there is no file.

    Where the source has ids of its own, they are `source_recording`.
    """
    found = audit.group_by("recording_id", maintain_order=True).agg(pl.first("path", "name"))
    for known, on in ((facts, "path"), *([(ids, "recording_id")] if len(ids) else [])):
        found = found.join(known, on=on, how="left", maintain_order="left")
    return conform(found, RECORDINGS, "recordings")


def _segments(transcripts: pl.DataFrame, audit: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """The segments table: samples where the recording is there, and the first rule that a segment breaks."""
    # Joins copy what goes through them: only the columns that the rules look at do.
    own = [name for name in ("segment_id",) if name in transcripts.columns]
    looked_at = transcripts.select("name", "source_start", "source_end", "text", source_channel(transcripts), *own)
    named = looked_at.join(audit.select("name", "recording_id"), on="name", how="left", maintain_order="left")
    joined = with_recordings(named, recordings)
    rate, length = joined["sampling_rate"], pl.col("num_samples")
    samples = joined.with_columns(
        segment_ids(
            joined["recording_id"], joined["source_start"], joined["source_end"], own=joined["segment_id"] if own else None
        ),
        to_samples_column(joined["source_start"], rate).alias("start_sample"),
        to_samples_column(joined["source_end"], rate).alias("end_sample"),
    )
    over = pl.col("end_sample") - length
    places = pl.col("source_end").str.extract(r"^[0-9]+\.?([0-9]{0,6})$", 1).str.len_bytes().cast(pl.Int64)
    rounded = (
        (over > 0) & (2 * over * pl.lit(10, pl.Int64).pow(places) <= pl.col("sampling_rate")) & (pl.col("start_sample") < length)
    )
    clamped = samples.with_columns(end_sample=pl.when(rounded).then(length).otherwise("end_sample"))
    rules = segment_failures(recordings).items()
    decided = clamped.with_columns(
        reason=pl.coalesce(pl.when(broken.fill_null(value=False)).then(pl.lit(rule)) for rule, broken in rules)
    ).with_columns(decision=pl.when(pl.col("reason").is_null()).then(pl.lit("pending")).otherwise(pl.lit("reject")))
    found = decided.select("segment_id", "recording_id", "start_sample", "end_sample", "decision", "reason")
    return conform(pl.concat([found, transcripts.drop("name", *own)], how="horizontal"), SEGMENTS, "segments")


def _name_problems(
    source: str, audit: pl.DataFrame, refused: Iterable[tuple[str, str]], mapping: Mapping[str, str]
) -> pl.DataFrame:
    """Names that no recording was found for; where what they mean is among the refused, why it is."""
    missing = audit.filter(pl.col("decision") == "missing")["name"].to_list()
    why = dict(refused)
    there = resolve(missing, list(why), mapping=mapping).filter(pl.col("path").is_not_null())
    reasons = {name: f"no such recording ({path}: {why[path]})" for name, path in there.select("name", "path").iter_rows()}
    reason = (
        pl.when(pl.col("decision") == "ambiguous")
        .then(pl.format("could mean {}; settle it with a names file", pl.col("candidates").list.join(", ")))
        .otherwise(pl.col("name").replace_strict(reasons, default="no such recording", return_dtype=pl.String))
    )
    return audit.filter(pl.col("path").is_null()).select(file=pl.lit(source), item="name", reason=reason)


def _repeated(source: str, transcripts: pl.DataFrame) -> pl.DataFrame:
    """The source's own ids that it gives more than once."""
    if "segment_id" not in transcripts.columns:
        return pl.DataFrame(schema=PROBLEMS)
    counts = transcripts.select("segment_id").filter(pl.col("segment_id") != "").group_by("segment_id", maintain_order=True).len()
    reason = pl.format("an id of {} segments: all but the first get a number, #2 and so on", "len")
    return counts.filter(pl.col("len") > 1).select(file=pl.lit(source), item="segment_id", reason=reason)
