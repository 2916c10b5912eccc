"""Make a corpus from a selected workspace: cut clips, pack them into shards, publish the tables."""

import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import codec_versions, encoder
from nbaudio.core import tables
from nbaudio.core.channels import check_channel, source_channel
from nbaudio.core.deprecated import renamed_parameter
from nbaudio.core.errors import InputError, NbaudioError
from nbaudio.core.input_guards import parse_size
from nbaudio.core.progress import progress, progress_note
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tables import RESERVED
from nbaudio.corpus.card import CARD, About, publish_card
from nbaudio.corpus.containers.base import Shard
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.corpus_tables import check_text, freeze_table, publish, selection_hash
from nbaudio.corpus.layout import Layout
from nbaudio.corpus.packs import cut_all, index_of
from nbaudio.corpus.plan import (
    ClipFormat,
    ShardLimits,
    assign_shards,
    assign_windows,
    clip_keys,
    cut_tasks,
    cut_windows,
    recording_facts,
    short_windows,
)
from nbaudio.corpus.shards import restore_records, shard_advice, write_shards
from nbaudio.corpus.status import next_step
from nbaudio.engine import EngineLocation, RunTasks, check_engine, worker_pool
from nbaudio.proof.evidence import selection_claim
from nbaudio.review.state import reviewed_ids
from nbaudio.storage.base import Location
from nbaudio.storage.location import location
from nbaudio.storage.urls import check_writable, is_url
from nbaudio.storage.workspace import Workspace

# A damaged pack is cut again; after the third time, give up on the disk.
_ATTEMPTS = 3


@dataclass(frozen=True)
class _Run:
    """Parameters of one run."""

    workspace: Workspace
    audio_root: Location
    packs: Location
    layout: Layout
    container: str
    format: ClipFormat
    limits: ShardLimits
    show: bool
    table: Path


@renamed_parameter("licence", "license")
def materialize(
    workspace: str | Path | Workspace,
    *,
    out: str | Path,
    container: str = "webdataset",
    text: str | None = None,
    rate: int | None = 16000,
    channel: str | int = "mix",
    encoding: str = "flac",
    shard_size: str | int = "500MB",
    shard_count: int | None = None,
    window: int = 1,
    title: str | None = None,
    language: str | None = None,
    license: str | None = None,
    jobs: int | None = None,
    engine: str | None = "loky",
    address: str | None = None,
    beam_options: str = "",
    packs: str | Path | None = None,
    show_progress: bool = True,
) -> Report:
    """Cut every accepted segment and write the corpus.

    The same workspace and parameters give the same bytes, whatever `jobs` and `engine`. If it is killed, the same call resumes.

    Args:
        workspace: with a selection (`select`).
        out: the corpus folder: new, or one of an unfinished run with the same parameters. Or its URL, such as
            ``s3://bucket/corpus``: then each shard is written in the workspace, uploaded and removed.
        container: a key of `nbaudio.corpus.containers.registry.CONTAINERS`, such as ``webdataset``, ``parquet`` or ``zip``.
        text: name of a further transcript to ship as `text`, such as ``normalized`` for `text_normalized`, which `score` writes;
            the source's own text then is `text_source`.
        rate: Hz of the clips; None keeps each recording's own.
        channel: ``mix`` (mean of all), ``left``, ``right`` or a number from 0, for segments that name none of their own.
        encoding: ``flac``, ``wav``, ``opus``, ``mp3``, or 256 levels: ``mulaw``, ``linear`` (see `nbaudio.audio.quantization`).
        shard_size: target size of a shard, such as ``"500MB"``.
        shard_count: number of shards of each split instead.
        window: how many consecutive segments of a recording stay together, in order; ``tfrecord`` then holds SequenceExamples.
        title: the corpus's name, for its data card, README.md.
        language: codes such as ``hr``, separated by commas, for the data card.
        license: for the data card, such as ``cc-by-4.0``; other words are kept as given.
        jobs: number of parallel tasks; None means one per core.
        engine: ``loky`` (processes), ``threading``, ``dask``, ``ray``, ``spark`` or ``beam``; None takes what
            ``joblib.parallel_config`` has set.
        address: of a running cluster, such as ``tcp://host:8786`` for Dask; by default workers are started here.
        beam_options: as on a command line, such as ``--runner=FlinkRunner --temp_location=hdfs://host/tmp``.
        packs: where clips are kept between cutting and packing; by default in the workspace. Workers without a shared disk need
            a URL here, such as ``s3://bucket/packs``, and recordings at a URL: they cut, this machine packs.
        show_progress: show progress with rate and time left on standard error.

    Returns:
        What was written; problems name every segment that could not be cut.

    Raises:
        InputError: nothing is selected, there is no audio, or a parameter is invalid.
        ExistsError: `out` holds something else, or another run is active there.
        DiskFullError: there is no space; call again when there is.
    """
    began = time.monotonic()
    workspace = Workspace.open(workspace)
    encoder(encoding).check_rate(rate)
    limits = ShardLimits(parse_size(shard_size), shard_count, window)
    layout = Layout.at(out, workspace.path)
    site = EngineLocation(jobs, address, beam_options)
    check_engine(engine, site)
    channel = str(channel)
    check_channel(channel)
    about = About(title, language, license)
    writer = container_named(container, encoding=encoding)
    if rate is not None and rate < 1:
        raise InputError(f"rate must be 1 Hz or more, not {rate}")
    clip_format = ClipFormat(rate, channel, encoding)
    audio_root, pack_folder = _locations(workspace, packs)
    table = tables.table_path(workspace)
    run = _Run(workspace, audio_root, pack_folder, layout, container, clip_format, limits, show_progress, table)
    recordings = workspace.recordings
    accepted = _accepted(run)  # raises before anything is written
    judged = reviewed_ids(workspace)
    check_text(workspace, text, judged=bool(judged))
    for own in recordings.join(accepted, on="recording_id", how="semi")["sampling_rate"].unique() if rate is None else ():
        encoder(encoding).check_rate(own)
    reviewed = accepted.filter((pl.col("split") == "train") & pl.col("segment_id").is_in(sorted(judged))).height
    claim = selection_claim(workspace)
    parameters = {"container": container, "rate": rate, "channel": channel, "encoding": encoding, **asdict(limits)}
    parameters |= {} if text is None else {"text": text}  # corpora of older versions have no such parameter
    identity = {**parameters, "selection": selection_hash(workspace, text)}
    logged = {**parameters, "workspace": str(workspace.path), "corpus": str(layout), "jobs": jobs, "engine": engine}
    with layout.claimed(identity, "materialize", logged) as is_whole, run.packs.shared():
        card = restore_records(layout) if is_whole else ""
        # The current table: a later selection replaces the file.
        run = replace(run, table=freeze_table(workspace, layout.work / "segments.parquet", text))
        results, lost, num_cut = _cut_and_pack(run, recording_facts(recordings), engine, site)
        with progress("publish", 1, "corpus", show=False) as advance:
            selected = workspace.report("select")
            info = publish(layout, results, writer, lost=lost, table=run.table, recordings=recordings, selection=selected)
            info |= {"identity": identity, "parameters": parameters, "versions": codec_versions(), "about": about.to_dict()}
            info["evidence"] = claim
            own_card = publish_card(layout.folder, info, before=card)
            layout.finish(info)
            advance(1)
    problems = [f"{segment_id}: {detail}" for segment_id, detail in lost.iter_rows()]
    notes = [] if own_card else [f"{layout}/{CARD} was edited and is not overwritten"]
    if reviewed:
        notes.append(f"{reviewed:,} clips of train were drawn for review after select: select again, then make a new corpus")
    notes += short_windows(accepted, window)
    facts = _facts(layout, info, results, num_cut=num_cut, num_lost=len(lost), took=time.monotonic() - began)
    report = Report("materialize", facts, notes, problems=first_lines(problems, f"{layout}/rejected.parquet"))
    workspace.save_report("materialize", report.to_dict())
    return report


def _cut_and_pack(
    run: _Run, facts: pl.DataFrame, engine: str | None, site: EngineLocation
) -> tuple[list[Shard], pl.DataFrame, int]:
    """Return the shards, `segment_id` and `detail` of what cannot be cut, and how many clips were cut; recut damaged packs."""
    num_cut = 0
    # Workers without a shared disk have neither the table nor the corpus's folder: shards are written here.
    here = EngineLocation(site.jobs) if run.packs.local is None else None
    with worker_pool(engine, site) as run_tasks:
        for _ in range(_ATTEMPTS):
            assigned, lost, cut_now = _cut_missing(run, run_tasks, facts)
            num_cut += cut_now
            with worker_pool("loky", here) if here else nullcontext(run_tasks) as packing:
                results = write_shards(
                    run.layout, assigned, run.container, run.format, table=run.table, run_tasks=packing, show=run.show
                )
            damaged = {result.damaged for result in results if result.damaged}
            if not damaged:
                return results, lost, num_cut
            for pack_path in damaged:
                location(pack_path).remove()
    raise NbaudioError(f"{min(damaged)}: damaged again after recutting; check the disk and run the same command again")


def _locations(workspace: Workspace, packs: str | Path | None) -> tuple[Location, Location]:
    """Return where workers find recordings and packs; raise `InputError` if they cannot."""
    audio = workspace.audio
    if audio is None:
        raise InputError(f"{workspace.path}: ingested without audio; run 'nbaudio ingest' again with --audio")
    if packs is None or not is_url(str(packs)):
        return audio, location(Path(packs or workspace.path / "packs").absolute())
    check_writable(str(packs))
    if audio.local is not None:
        raise InputError(
            f"{packs}: workers without a shared disk cannot read {audio}; ingest with --audio at a URL, or name a shared folder"
        )
    return location(str(audio)), location(str(packs))  # without a cache of fetched files


def _accepted(run: _Run) -> pl.DataFrame:
    """Return accepted segments: keys, windows of samples, split; raise `InputError` if there are none or some cannot be cut."""
    where = run.workspace.path
    for name, dtype in tables.table_schema(run.workspace).items():
        if name in RESERVED:
            raise InputError(f"{run.table}: the column {name!r} has a name that is reserved in corpora; rename it")
        if dtype in (pl.Binary, pl.Object):
            raise InputError(f"{run.table}: the column {name!r} holds bytes, which metadata cannot store; convert them to text")
    columns = ("segment_id", "recording_id", "start_sample", "end_sample", "split", "decision", "source_channel")
    segments = tables.read(run.workspace, columns)
    if pending := (segments["decision"] == "pending").sum():
        raise InputError(f"{where}: {pending} of {segments.height} segments are not decided; run 'nbaudio select {where}' first")
    accepted = segments.filter(pl.col("decision") == "accept").drop("decision").with_columns(source_channel(segments))
    if accepted.is_empty():
        raise InputError(f"{where}: no segment is accepted; 'nbaudio stats {where}' shows the reasons")
    uncut = accepted.filter(pl.any_horizontal(pl.col("start_sample", "end_sample").is_null()))["segment_id"]
    if len(uncut):
        remedy = "ingest with --audio and select again"
        raise InputError(f"{where}: {len(uncut)} accepted segments have no audio, {uncut[0]} the first; {remedy}")
    return accepted


def _cut_missing(run: _Run, run_tasks: RunTasks, facts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Cut what no pack holds; return clips with their shards, `segment_id` and `detail` of failures, and how many were cut."""
    accepted = assign_windows(_accepted(run), run.limits.window)
    accepted = accepted.with_columns(clip_keys(accepted, facts, run.format))
    have = index_of(run.packs)
    keys = ("clip_key", "recording_id", "start_sample", "end_sample", "source_channel")
    missing = accepted.select(keys).join(have, on="clip_key", how="anti", maintain_order="left")
    num_missing = len(missing)
    failures: dict[str, str] = {}
    if num_missing:
        windows = cut_windows(missing, facts, run.format)
        del missing
        tasks = cut_tasks(windows, facts, run.audio_root, run.packs, run.format)
        with progress("cut ", float(windows["seconds"].sum()) / 3600, "h of audio", show=run.show) as advance:
            for result in cut_all(run_tasks, tasks):
                failures |= result.failures
                for detail in result.failures.values():
                    progress_note(detail)
                advance(result.seconds / 3600)
        have = index_of(run.packs)
    accepted = accepted.drop("start_sample", "end_sample", "source_channel")
    gone = accepted.select("segment_id", "clip_key").join(have, on="clip_key", how="anti", maintain_order="left")
    reasons = pl.DataFrame(list(failures.items()), schema={"clip_key": pl.String, "detail": pl.String}, orient="row")
    lost = gone.join(reasons, on="clip_key", how="left", maintain_order="left").drop("clip_key")
    if lost["detail"].null_count():
        first = lost.filter(pl.col("detail").is_null())["segment_id"]
        raise NbaudioError(f"{run.packs}: {len(first)} clips were cut but are missing, {first[0]} the first")
    if len(lost) == len(accepted):
        detail = next(iter(failures.values()))
        raise InputError(f"{run.workspace.path}: none of the {accepted.height:,} accepted segments can be cut; {detail}")
    rate = (pl.col("sampling_rate") if run.format.rate is None else pl.lit(run.format.rate)).cast(pl.Int32)
    clips = (
        accepted.join(have, on="clip_key", how="inner", maintain_order="left")
        .join(facts.select("recording_id", sampling_rate=rate), on="recording_id", how="left", maintain_order="left")
        .rename({"clip_samples": "num_samples"})
        .with_columns(duration_s=pl.col("num_samples") / pl.col("sampling_rate"))
        .drop("recording_id", "clip_key")
    )
    return assign_shards(clips, run.limits), lost, num_missing - len(failures)


def _facts(
    layout: Layout, info: dict[str, Any], results: list[Shard], *, num_cut: int, num_lost: int, took: float
) -> dict[str, Any]:
    splits = info["splits"]
    hours, kept = (sum(split[what] for split in splits.values()) for what in ("hours", "segments"))
    return {
        "corpus": str(layout),
        "kept": kept,
        "hours": round(hours, 6),
        "splits": {name: split["segments"] for name, split in splits.items()},
        "rejected": sum(info["rejected"].values()),
        "reasons": info["rejected"],
        "shards": len(results),
        "shards_of_train": shard_advice(results),
        "bytes": sum(result.num_bytes for result in results),
        "clips_cut_now": num_cut,
        "clips_already_cut": kept - num_cut,
        "shards_kept_from_before": sum(result.kept for result in results),
        "seconds": round(took, 1),
        "times_real_time": round(hours * 3600 / took),
        "log": str(layout.finished_log),
        "next": next_step(layout, failed=num_lost),
    }
