"""From a selected workspace to a corpus: cut, pack, publish."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import codec_versions, encoder
from nbaudio.core.channels import check_channel, source_channel
from nbaudio.core.errors import InputError, NbaudioError
from nbaudio.core.guards import parse_size
from nbaudio.core.progress import progress, progress_note
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tables import RESERVED, parquet_schema
from nbaudio.corpus.card import CARD, About, publish_card
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.layout import MANIFEST, Layout
from nbaudio.corpus.packs import Failure, cut_all, index_of, remove_pack
from nbaudio.corpus.plan import (
    ClipFormat,
    ShardLimits,
    assign_shards,
    assign_windows,
    clip_keys,
    cut_tasks,
    cut_windows,
    recording_facts,
)
from nbaudio.corpus.publish import publish
from nbaudio.corpus.selected import check_text, freeze_table, selection_hash
from nbaudio.corpus.shard_advice import shard_advice_lines
from nbaudio.corpus.shards import ShardResult, restore_records, write_shards
from nbaudio.corpus.status import what_next
from nbaudio.corpus.tar_source import tasks_from_tar
from nbaudio.engine import EngineLocation, RunTasks, check_engine, worker_pool
from nbaudio.proof.evidence import selection_claim
from nbaudio.review.log import reviewed_ids
from nbaudio.storage import upload
from nbaudio.storage.archives import is_in_archive
from nbaudio.storage.atomic import raise_disk_full, remove_partials
from nbaudio.storage.folders import read_object
from nbaudio.storage.remote import Remote, remote
from nbaudio.storage.urls import is_url
from nbaudio.storage.workspace import Workspace

# A damaged pack is cut again; a disk that damages it a third time is not worth more tries.
_ATTEMPTS = 3


@dataclass(frozen=True)
class _Run:
    """What does not change while a corpus is made."""

    workspace: Workspace
    audio_root: Path | Remote
    packs: Path | Remote
    layout: Layout
    container: str
    format: ClipFormat
    sharding: ShardLimits
    show: bool
    began: float
    table: Path


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
    licence: str | None = None,
    jobs: int | None = None,
    engine: str | None = "loky",
    address: str | None = None,
    beam_options: str = "",
    packs: str | Path | None = None,
    show_progress: bool = True,
) -> Report:
    """Cut every accepted segment and write the corpus.

    Killed at any moment it leaves nothing half-written under a final name; called again it keeps what is done and does the rest.
    The same workspace and parameters give the same bytes, whatever `jobs` and `engine`.

    Args:
        workspace: with a selection (`select`).
        out: the corpus folder: new, or one of an unfinished run with the same parameters. Or its address, such as
            ``s3://bucket/corpus``: then each shard is made in the workspace, sent and removed.
        container: a key of `nbaudio.corpus.containers.registry.CONTAINERS`, such as ``webdataset``, ``parquet`` or ``zip``.
        text: name of a further transcript to ship as `text`, such as ``normalized`` for `text_normalized`, which `score` writes;
            the source's own text then is `text_source`.
        rate: Hz of the clips; None keeps each recording's own.
        channel: ``mix`` (mean of all), ``left``, ``right`` or a number from 0, for segments that name none of their own.
        encoding: ``flac``, ``wav``, ``opus``, ``mp3``, or 256 levels: ``mulaw``, ``linear`` (see `nbaudio.audio.quantization`).
        shard_size: wanted size of a shard, such as ``"500MB"``.
        shard_count: how many shards each split has instead.
        window: how many consecutive segments of a recording lie together, in order; ``tfrecord`` then holds SequenceExamples.
        title: the corpus's name, for its data card, README.md.
        language: codes such as ``hr``, with commas between, likewise.
        licence: likewise, such as ``cc-by-4.0``; other words are given as they are.
        jobs: how many tasks at once; None means one a core.
        engine: ``loky`` (processes), ``threading``, ``dask``, ``ray``, ``spark`` or ``beam``; None takes what
            ``joblib.parallel_config`` has set.
        address: of a cluster that runs already, such as ``tcp://host:8786`` for Dask; unless given, workers are started here.
        beam_options: as on a command line, such as ``--runner=FlinkRunner --temp_location=hdfs://host/tmp``.
        packs: where clips are kept between cutting and packing; the workspace, unless given. Workers that share no disk need an
            address here, such as ``s3://bucket/packs``, and recordings at an address: they cut, this machine packs.
        show_progress: progress with rate and time left, on standard error.

    Returns:
        What was written; problems name every segment that could not be cut.

    Raises:
        InputError: nothing is selected, there is no audio, or a parameter is not known.
        ExistsError: `out` holds something else, or another run is at work there.
        DiskFullError: no space; call again when there is.
    """
    began = time.monotonic()
    workspace = Workspace.open(workspace)
    encoder(encoding).check_rate(rate)
    sharding = ShardLimits(parse_size(shard_size), shard_count, window)
    sharding.check()
    layout = Layout.at(out, workspace.path)
    site = EngineLocation(jobs, address, beam_options)
    check_engine(engine, site)
    channel = str(channel)
    check_channel(channel)
    about = About(title, language, licence)
    container_named(container, encoding=encoding)
    if rate is not None and rate < 1:
        raise InputError(f"rate must be 1 Hz or more, not {rate}")
    audio_root, packs_root = _places(workspace, packs)
    run = _Run(
        workspace,
        audio_root,
        packs_root,
        layout,
        container,
        ClipFormat(rate, channel, encoding),
        sharding,
        show_progress,
        began,
        workspace.path / "segments.parquet",
    )
    recordings = workspace.recordings
    accepted = _accepted(run)  # refused before anything is touched
    check_text(run.table, text, judged=bool(reviewed_ids(workspace)))
    for own in recordings.join(accepted, on="recording_id", how="semi")["sampling_rate"].unique() if rate is None else ():
        encoder(encoding).check_rate(own)
    seen = _reviewed_in_train(workspace, accepted)
    proven = selection_claim(workspace)
    parameters = {"container": container, "rate": rate, "channel": channel, "encoding": encoding, **sharding.to_json()}
    parameters |= {} if text is None else {"text": text}  # corpora of older versions have no such parameter
    identity = {**parameters, "selection": selection_hash(run.table, text)}
    told = {**parameters, "workspace": str(workspace.path), "corpus": str(layout), "jobs": jobs, "engine": engine}
    with layout.claimed(identity, "materialize", told) as is_whole, _sharing(run.packs):
        if is_whole:
            restore_records(layout)
        before = read_object(layout.folder, MANIFEST).get("card", "") if is_whole else ""
        # The table as it is now: a selection that is made meanwhile is a file of its own.
        run = replace(run, table=freeze_table(run.table, layout.work / "segments.parquet", text))
        results, lost, num_cut = _cut_and_pack(run, recording_facts(recordings), engine, site)
        with progress("publish", 1, "corpus", show=False) as advance:
            manifest = publish(
                layout,
                results,
                container=container_named(run.container),
                lost=lost,
                table=run.table,
                recordings=recordings,
                selection=workspace.report("select"),
            )
            manifest |= {"identity": identity, "parameters": parameters, "versions": codec_versions(), "about": about.to_json()}
            manifest["evidence"] = proven
            own_card = publish_card(layout.folder, manifest, before=before)
            layout.finish(manifest)
            advance(1)
    problems = [f"{segment_id}: {detail}" for segment_id, detail in lost.iter_rows()]
    notes = [] if own_card else [f"{layout}/{CARD} was edited and stays as it is"]
    if seen:
        notes.append(f"{seen:,} clips of train went to reviewers after the selection: select again, then make a corpus anew")
    report = replace(_report(run, manifest, results, problems, num_cut), warnings=notes)
    workspace.save_report("materialize", report.to_dict())
    return report


@contextmanager
def _sharing(packs: Path | Remote) -> Iterator[None]:
    """Use packs, perhaps while other runs do; what killed ones left half-written goes when nobody else is there."""
    if isinstance(packs, Remote):
        upload.tidy(packs)
        yield
        return
    with raise_disk_full(packs):
        packs.mkdir(parents=True, exist_ok=True)
    folder = os.open(packs, os.O_RDONLY)
    try:
        _tidy_alone(folder, packs)
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_SH)
        yield
        _tidy_alone(folder, packs)
    finally:
        os.close(folder)


def _tidy_alone(descriptor: int, packs: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError:  # a filesystem without locks
        pass
    remove_partials(packs)


def _cut_and_pack(
    run: _Run, facts: pl.DataFrame, engine: str | None, site: EngineLocation
) -> tuple[list[ShardResult], pl.DataFrame, int]:
    """The shards, `segment_id` and `detail` of what cannot be cut, and how many clips were cut now.

    What a disk has damaged is cut again.
    """
    num_cut = 0
    with worker_pool(engine, site) as run_tasks:
        for _ in range(_ATTEMPTS):
            dealt, lost, cut_now = _cut_missing(run, run_tasks, facts)
            num_cut += cut_now
            # Who shares no disk has neither the table nor the corpus' folder: shards are written here, out of what they have cut.
            with (
                worker_pool("loky", EngineLocation(site.jobs))
                if isinstance(run.packs, Remote)
                else nullcontext(run_tasks) as packing
            ):
                results = write_shards(
                    run.layout,
                    dealt,
                    container=run.container,
                    clip_format=run.format,
                    table=run.table,
                    run_tasks=packing,
                    show=run.show,
                )
            damaged = {result.damaged for result in results if result.damaged}
            if not damaged:
                return results, lost, num_cut
            for pack_path in damaged:
                remove_pack(pack_path)
    raise NbaudioError(f"{min(damaged)}: damaged again after it was cut anew; check the disk and run the same again")


def _places(workspace: Workspace, packs: str | Path | None) -> tuple[Path | Remote, Path | Remote]:
    """Where recordings are, and packs, for whoever cuts.

    Raises:
        InputError: there is no audio; nothing can be written to `packs`, or who cuts there has no recordings.
    """
    audio = workspace.audio_root
    if audio is None:
        raise InputError(f"{workspace.path}: ingested without audio; run 'nbaudio ingest' again with --audio")
    if packs is None or not is_url(str(packs)):
        return audio, Path(packs or workspace.path / "packs").absolute()
    upload.check_writable(str(packs))
    if not isinstance(audio, Remote):
        raise InputError(
            f"{packs}: who shares no disk has no {audio}; ingest with --audio at an address, or name a shared folder"
        )
    return replace(audio, cache=None), remote(str(packs))


def _accepted(run: _Run) -> pl.DataFrame:
    """Accepted segments: keys, windows of samples, split.

    Raises:
        InputError: there are none, or some cannot be cut.
    """
    where = run.workspace.path
    for name, dtype in parquet_schema(run.table).items():
        if name in RESERVED:
            raise InputError(f"{run.table}: the column {name!r} has a name that corpora give to their own; rename it")
        if dtype in (pl.Binary, pl.Object):
            raise InputError(f"{run.table}: the column {name!r} holds bytes, which metadata cannot; write them as text")
    columns = ("segment_id", "recording_id", "start_sample", "end_sample", "split", "decision", "source_channel")
    segments = run.workspace.segment_columns(*columns)
    pending = segments.filter(pl.col("decision") == "pending").height
    if pending:
        raise InputError(f"{where}: {pending} of {segments.height} segments are not decided; run 'nbaudio select {where}' first")
    accepted = segments.filter(pl.col("decision") == "accept").drop("decision").with_columns(source_channel(segments))
    if accepted.is_empty():
        raise InputError(f"{where}: no segment is accepted; 'nbaudio stats {where}' shows the reasons")
    uncut = accepted.filter(pl.col("start_sample").is_null() | pl.col("end_sample").is_null())
    if not uncut.is_empty():
        raise InputError(
            f"{where}: {uncut.height} accepted segments have no audio, {uncut['segment_id'][0]} the first; "
            "ingest with --audio and select again"
        )
    return accepted


def _reviewed_in_train(workspace: Workspace, accepted: pl.DataFrame) -> int:
    reviewed = pl.Series(sorted(reviewed_ids(workspace)), dtype=pl.String)
    return accepted.filter((pl.col("split") == "train") & pl.col("segment_id").is_in(reviewed.implode())).height


def _cut_missing(run: _Run, run_tasks: RunTasks, facts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Cut what no pack holds: clips dealt out to shards, `segment_id` and `detail` of what failed, and how many were cut."""
    accepted = assign_windows(_accepted(run), run.sharding.window)
    accepted = accepted.with_columns(clip_keys(accepted, facts, run.format))
    have = index_of(run.packs)
    keys = ("clip_key", "recording_id", "start_sample", "end_sample", "source_channel")
    missing = accepted.select(keys).join(have, on="clip_key", how="anti", maintain_order="left")
    num_missing = len(missing)
    failures: dict[str, Failure] = {}
    if num_missing:
        failures = _cut(run, run_tasks, cut_windows(missing, facts, run.format), facts)
        del missing
        have = index_of(run.packs)
    accepted = accepted.drop("start_sample", "end_sample", "source_channel")
    gone = accepted.select("segment_id", "clip_key").join(have, on="clip_key", how="anti", maintain_order="left")
    details = {"clip_key": list(failures), "detail": [failure.detail for failure in failures.values()]}
    told = pl.DataFrame(details, schema={"clip_key": pl.String, "detail": pl.String})
    lost = gone.join(told, on="clip_key", how="left", maintain_order="left").drop("clip_key")
    if lost["detail"].null_count():
        first = lost.filter(pl.col("detail").is_null())["segment_id"]
        raise NbaudioError(f"{run.packs}: {len(first)} clips were cut and are not there, {first[0]} the first")
    if len(lost) == len(accepted):
        detail = next(iter(failures.values())).detail
        raise InputError(f"{run.workspace.path}: none of the {accepted.height:,} accepted segments can be cut; {detail}")
    clips = (
        accepted.join(have, on="clip_key", how="inner", maintain_order="left")
        .join(facts.select("recording_id", sampling_rate=_rate(run)), on="recording_id", how="left", maintain_order="left")
        .rename({"clip_samples": "num_samples"})
        .with_columns(duration_s=pl.col("num_samples") / pl.col("sampling_rate"))
        .drop("recording_id", "clip_key")
    )
    return assign_shards(clips, run.sharding), lost, num_missing - len(failures)


def _cut(run: _Run, run_tasks: RunTasks, windows: pl.DataFrame, facts: pl.DataFrame) -> dict[str, Failure]:
    """Cut windows into packs; what failed, by clip key."""
    hours = windows["seconds"].sum() / 3600
    root = run.audio_root
    if isinstance(root, Remote) and is_in_archive(root):
        tasks = tasks_from_tar(windows, facts, root, run.packs, run.format)
    else:
        tasks = cut_tasks(windows, facts, root, run.packs, run.format)
    failures: dict[str, Failure] = {}
    with progress("cut ", float(hours), "h of audio", show=run.show) as advance:
        for result in cut_all(run_tasks, tasks):
            failures |= {failure.clip_key: failure for failure in result.failures}
            for failure in result.failures:
                progress_note(failure.detail)
            advance(result.seconds / 3600)
    return failures


def _rate(run: _Run) -> pl.Expr:
    """Hz of the clips of each recording."""
    return (pl.col("sampling_rate") if run.format.rate is None else pl.lit(run.format.rate)).cast(pl.Int32)


def _report(run: _Run, manifest: dict[str, Any], results: list[ShardResult], lost: list[str], num_cut: int) -> Report:
    splits = manifest["splits"]
    took = time.monotonic() - run.began
    hours = sum(split["hours"] for split in splits.values())
    kept = sum(split["segments"] for split in splits.values())
    facts = {
        "corpus": str(run.layout),
        "kept": kept,
        "hours": round(hours, 6),
        "splits": {name: split["segments"] for name, split in splits.items()},
        "rejected": sum(manifest["rejected"].values()),
        "reasons": manifest["rejected"],
        "shards": len(results),
        "shards_of_train": shard_advice_lines([result.num_bytes for result in results if result.split == "train"]),
        "bytes": sum(result.num_bytes for result in results),
        "clips_cut_now": num_cut,
        "clips_already_cut": kept - num_cut,
        "shards_kept_from_before": sum(result.kept for result in results),
        "seconds": round(took, 1),
        "times_real_time": round(hours * 3600 / took),
        "log": str(run.layout.log_kept),
        "next": what_next(run.layout, failed=len(lost)),
    }
    return Report("materialize", facts, problems=first_lines(lost, f"{run.layout}/rejected.parquet"))
