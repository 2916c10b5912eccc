"""Make a corpus from a selected workspace: cut clips, pack them into shards, publish the tables."""

import time
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from msgspec import UNSET, UnsetType

from nbaudio.audio import codec_versions, encoder
from nbaudio.core import atomic, tables, tombstones
from nbaudio.core.errors import InputError, NbaudioError
from nbaudio.core.progress import progress
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus import plan, status
from nbaudio.corpus.card import CARD, about_of, publish_card
from nbaudio.corpus.containers.base import Shard, version_of
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.corpus_tables import (
    check_accepted,
    check_text,
    freeze_table,
    publish,
    segment_parts,
    selection_hash,
)
from nbaudio.corpus.layout import UNREADABLE_AUDIO, Layout
from nbaudio.corpus.measure import log_signals, measure_segments, signal_keys
from nbaudio.corpus.packs import cut, cut_all, indexes
from nbaudio.corpus.partitions import Buckets
from nbaudio.corpus.shards import restore_records, shard_advice, write_shards
from nbaudio.corpus.versions import Base, corpus_parameters
from nbaudio.engine import EngineLocation, RunTasks, worker_pool
from nbaudio.proof.evidence import selection_claim
from nbaudio.proof.judged_draws import ProofState
from nbaudio.review.state import reviewed_ids
from nbaudio.sources.audio_folder import check_audio_folders, required_audio
from nbaudio.sources.grow import with_earlier
from nbaudio.storage.location import Location, location
from nbaudio.storage.urls import check_writable, is_url
from nbaudio.storage.workspace import Workspace, locks_workspace

_ATTEMPTS = 3  # a damaged pack is cut again; after the third time, give up on the disk


@dataclass(frozen=True)
class _Run:
    """Parameters of one run."""

    workspace: Workspace
    audio_root: Location
    packs: Location
    layout: Layout
    parameters: dict[str, Any]
    format: plan.ClipFormat
    limits: plan.ShardLimits
    base: Base | None
    site: EngineLocation
    show: bool
    table: Path
    signals: bool
    counts: Counter[str] = field(default_factory=Counter)  # accepted segments of each split


class _Cut(NamedTuple):
    """Result of cutting.

    The fields are the clips by shard, the shards that are kept from the base, `segment_id` and
    `detail` of failures, and the number of clips cut.
    """

    shards: plan.ShardPlan
    kept: list[Shard]
    lost: pl.DataFrame
    num_cut: int


@interruptible
def materialize(
    workspace: str | Path | Workspace,
    *,
    out: str | Path,
    base: str | Path | None = None,
    container: str | UnsetType = UNSET,
    text: str | UnsetType | None = UNSET,
    rate: int | UnsetType | None = UNSET,
    channel: str | int | UnsetType = UNSET,
    encoding: str | UnsetType = UNSET,
    shard_size: str | int | UnsetType = UNSET,
    shard_count: int | UnsetType | None = UNSET,
    window: int | UnsetType = UNSET,
    signals: bool = False,
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

    The same workspace and parameters give the same bytes, whatever `jobs` and `engine`. If it is
    killed, the same call resumes.

    Args:
        workspace: with a selection (`select`).
        out: the corpus folder: new, or one of an unfinished run with the same parameters. Or its
            URL, such as ``s3://bucket/corpus``: then each shard is written in the workspace,
            uploaded and removed.
        base: an earlier version of the corpus, a folder or URL. Its shards whose clips are
            unchanged are kept, by a hard link if possible; new and changed clips are in shards of
            their own, such as ``train/train-v2-00000-of-00001.tar``. Columns and the parameters up
            to `window` are those of the base, and may be left out; any other value is an error.
        container: a key of `nbaudio.corpus.containers.registry.CONTAINERS`; ``webdataset`` by
            default.
        text: name of a further transcript to ship as `text`, such as ``normalized`` for
            `text_normalized`, which `score` writes; the source's own text then is `text_source`.
        rate: Hz of the clips, by default 16000; None keeps each recording's own.
        channel: ``mix`` (mean of all, the default), ``left``, ``right`` or a number from 0;
            segments may name one of their own.
        encoding: ``flac`` (the default), ``wav``, ``opus``, ``mp3``, or 256 levels
            (`audio.quantize`): ``mulaw``, ``linear``.
        shard_size: target size of a shard, by default ``"500MB"``.
        shard_count: number of shards of each split instead.
        window: how many consecutive segments of a recording stay together, in order; ``tfrecord``
            then holds SequenceExamples.
        signals: measure the segments in the same pass, as `measure` does, for columns of the corpus
            and the workspace.
        title: the corpus's name, for its data card, README.md.
        language: codes such as ``hr``, separated by commas, for the data card.
        license: for the data card, such as ``cc-by-4.0``; other words are kept as given.
        jobs: number of parallel tasks; None means one per core.
        engine: ``loky`` (processes), ``threading``, ``dask``, ``ray``, ``spark``, ``beam``; None:
            as ``joblib.parallel_config``.
        address: of a running cluster, such as ``tcp://host:8786`` for Dask; by default workers are
            started here.
        beam_options: as on a command line, such as ``--runner=FlinkRunner
            --temp_location=hdfs://host/tmp``.
        packs: where clips are kept between cutting and packing; by default in the workspace.
            Workers without a shared disk need a URL here, such as ``s3://bucket/packs``, and
            recordings at a URL. They pack, too, if `out` is at a URL, as is `base`; otherwise this
            machine packs.
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
    layout = Layout.at(out, workspace.path)
    site = EngineLocation(engine, jobs, address, beam_options)
    names = (
        "container",
        "text",
        "rate",
        "channel",
        "encoding",
        "shard_size",
        "shard_count",
        "window",
    )
    given = dict(
        zip(
            names,
            (container, text, rate, channel, encoding, shard_size, shard_count, window),
            strict=True,
        )
    )
    with Base.opened(base) if base is not None else nullcontext() as earlier:
        if earlier is not None and str(earlier).rstrip("/") == str(layout).rstrip("/"):
            raise InputError(f"{layout}: a new version needs another folder than its base")
        used = corpus_parameters(given, earlier)
        container_named(used["container"], encoding=used["encoding"])
        clip_format = plan.ClipFormat(used["rate"], used["channel"], used["encoding"])
        limits = plan.ShardLimits(used["shard_size"], used["shard_count"], used["window"])
        (audio, pack_folder) = _locations(workspace, packs)
        table = tables.table_path(workspace)
        run = _Run(
            workspace,
            audio,
            pack_folder,
            layout,
            used,
            clip_format,
            limits,
            earlier,
            site,
            show_progress,
            table,
            signals,
        )
        held = (earlier.info.get("about") if earlier else None) or {}
        return _materialize(
            run, about_of({"title": title, "language": language, "license": license}, held), began
        )


def _materialize(run: _Run, about: dict[str, str | None], began: float) -> Report:  # noqa: PLR0914, PLR0915
    """Make the corpus, or the version, of a run whose parameters are validated."""
    workspace = run.workspace
    layout = run.layout
    base = run.base
    site = run.site
    container = run.parameters["container"]
    text = run.parameters.get("text")
    recordings = workspace.recordings
    judged = reviewed_ids(workspace)
    run = replace(run, counts=check_accepted(workspace))  # raises before anything is written
    facts = plan.recording_facts(recordings)
    reviewed, short = _check_clips(run, judged)
    proof = ProofState.load(workspace)
    claim = selection_claim(proof)
    proof.population.release()
    selected = workspace.report("select").get("facts", {})
    identity = {
        **run.parameters,
        "selection": selection_hash(workspace, text),
        **({"base": base.to_json()} if base else {}),
    }
    logged = run.parameters | {
        "workspace": str(workspace.path),
        "corpus": str(layout),
        "jobs": site.jobs,
        "engine": site.engine,
    }
    if run.packs.local != workspace.path / "packs":
        logged["packs"] = str(run.packs)
    withdrawn = workspace.withdrawn
    notes = _held_out_notes(run, withdrawn, selected)
    with layout.claimed(identity, "materialize", logged) as is_whole, run.packs.shared():
        card = restore_records(layout) if is_whole else ""
        with worker_pool(site) as run_tasks:
            cut_before = _cut_missing(run, run_tasks, facts).num_cut if run.signals else 0
            if run.signals:  # measured while they were cut
                measure_segments(
                    workspace,
                    nullcontext(run_tasks),
                    channel=run.format.channel,
                    show=run.show,
                    accepted=True,
                )
            # The current table: a later selection replaces the file.
            run = replace(
                run,
                signals=False,
                table=freeze_table(workspace, layout.work / "segments.parquet", text),
            )
            others = base.left_out(run.table) if base else []
            results, found = _cut_and_pack(run, facts, run_tasks)
        lost = found.lost
        claim = selection_claim(proof, without=lost["segment_id"].to_list()) if len(lost) else claim
        of_base = pl.DataFrame(
            base.info.get("tombstones", []) if base else [], schema=tombstones.TOMBSTONES
        )
        told: dict[str, Any] = {
            "identity": identity,
            "parameters": run.parameters,
            "versions": codec_versions(),
            "about": about,
        }
        told |= {
            "evidence": claim,
            "tombstones": tombstones.merged(withdrawn, of_base).to_dicts(),
            "version": base.version + 1 if base else 1,
            "base": base and base.to_json(),
        }
        with progress("publish", 1, "corpus", show=False) as advance:
            tables_of = {
                "table": run.table,
                "inside": found.shards.shard_of != plan.OUTSIDE,
                "recordings": recordings,
            }
            info = (
                publish(layout, results, container, lost=lost, selection=selected, **tables_of)
                | told
            )
            if not publish_card(layout.folder, info, before=card):
                notes.append(f"{layout}/{CARD} was edited and is not overwritten")
            layout.finish(info)
            advance(1)
    if base:
        _keep_splits(workspace, base)
    notes += reviewed
    if others:
        notes.append(f"columns that the base does not have are left out: {', '.join(others)}")
    if base and not any(version_of(shard.name) <= base.version for shard in results):
        notes.append(f"no clip of the base {base} is unchanged: was it made from this workspace?")
    notes += short
    shown = _facts(
        layout,
        info,
        results,
        num_cut=cut_before + found.num_cut,
        took=time.monotonic() - began,
    )
    problems = first_lines(
        [f"{segment_id}: {why}" for segment_id, why in lost.iter_rows()],
        f"{layout}/rejected.parquet",
    )
    report = Report("materialize", shown, notes, problems=problems)
    workspace.save_report("materialize", report.to_dict())
    return report


def _check_clips(run: _Run, judged: Set[str]) -> tuple[list[str], list[str]]:
    """Raise InputError if text or rates cannot ship.

    Return notes on reviewed clips of train, and on short windows.
    """
    columns = ("segment_id", "recording_id", "split", "decision")
    accepted = tables.scan(run.workspace, columns).filter(pl.col("decision") == "accept")
    check_text(run.workspace, run.parameters.get("text"), judged=bool(judged))
    if run.format.rate is None:
        used = accepted.select(pl.col("recording_id").unique()).collect(engine="streaming")
        for own in run.workspace.recordings.join(used, on="recording_id", how="semi")[
            "sampling_rate"
        ].unique():
            encoder(run.format.encoding).check_rate(own)
    in_train = (pl.col("split") == "train") & pl.col("segment_id").is_in(sorted(judged))
    number = accepted.filter(in_train).select(pl.len()).collect(engine="streaming").item()
    note = (
        f"{number:,} of the clips of train were drawn for review after select: select again, "
        "then make a new corpus"
    )
    return [note] if number else [], plan.short_windows(accepted, run.limits.window)


def _held_out_notes(run: _Run, withdrawn: pl.DataFrame, selected: dict[str, Any]) -> list[str]:
    """Raise InputError if train is not separate from what the base holds out.

    Return a note if given splits say so.
    """
    if run.base is None:
        return []
    moved, shared = run.base.shared_with_train(tables.table_path(run.workspace), withdrawn)
    if moved or (shared and not selected.get("parameters", {}).get("splits")):
        remedy = (
            f"'nbaudio select {run.workspace.path} --splits {run.base}', "
            f"or splits: {run.base} in a manifest, keeps what it holds out"
        )
        raise InputError(f"{moved or shared}; {remedy}")
    return (
        [f"the given splits let train share something with held-out data: {shared}"]
        if shared
        else []
    )


@locks_workspace("materialize")
def _keep_splits(workspace: Workspace, base: Base) -> None:
    """Count the base as an earlier version of the workspace.

    Later selections keep what it holds out.
    """
    held = base.earlier_splits().join(
        tables.read(workspace, ["segment_id"]), on="segment_id", how="semi", maintain_order="left"
    )
    if (kept := with_earlier(workspace, held.lazy())) is not None:
        workspace.save(**{tables.EARLIER_SPLITS: kept})


def _cut_and_pack(run: _Run, facts: pl.DataFrame, run_tasks: RunTasks) -> tuple[list[Shard], _Cut]:
    """Return the shards, and what was cut, altogether; recut damaged packs."""
    num_cut = 0
    for _ in range(_ATTEMPTS):
        found = _cut_missing(run, run_tasks, facts)
        num_cut += found.num_cut
        how = (run.parameters["container"], run.format)
        rows = run.base.conformed if run.base else None
        # Workers without a shared disk can write to an address; what is in a folder of this machine
        # is written or read here.
        there = run.layout.folder.place.local is None and not (
            run.base and run.base.folder.place.local
        )
        alone = run.packs.local is None and not there
        records = (
            run.packs / f"records-{run.layout.work.parent.name}"
            if run.packs.local is None and there
            else None
        )
        same: dict[str, Any] = {
            "table": run.table,
            "show": run.show,
            "conformed": rows,
            "records": records,
        }
        with (
            worker_pool(EngineLocation("loky", run.site.jobs))
            if alone
            else nullcontext(run_tasks) as pool
        ):
            written = write_shards(run.layout, found.shards, *how, run_tasks=pool, **same)
        damaged = {result.damaged for result in written if result.damaged}
        if not damaged:
            return [*found.kept, *written], found._replace(num_cut=num_cut)
        for pack_path in damaged:
            if run.base and pack_path.startswith(f"{run.base}/"):
                raise InputError(
                    f"{pack_path}: a clip is damaged; 'nbaudio verify {run.base}' lists "
                    "all damage of the base"
                )
            location(pack_path).remove()
    raise NbaudioError(
        f"{min(damaged)}: damaged again after recutting; check the disk and run the same "
        "command again"
    )


def _locations(workspace: Workspace, packs: str | Path | None) -> tuple[Location, Location]:
    """Return where workers find recordings and packs; raise `InputError` if they cannot."""
    audio = required_audio(workspace)
    if packs is None or not is_url(str(packs)):
        return audio, location(Path(packs or workspace.path / "packs").absolute())
    check_writable(str(packs))
    if audio.local is not None:
        raise InputError(
            f"{packs}: workers without a shared disk cannot read {audio}; "
            "ingest with --audio at a URL, or name a shared folder"
        )
    return location(str(audio)), location(str(packs))  # without a cache of fetched files


def _cut_missing(run: _Run, run_tasks: RunTasks, facts: pl.DataFrame) -> _Cut:  # noqa: PLR0914, PLR0915
    """Cut what neither packs nor the base hold, and divide the clips into shards.

    Rows are on disk, by a hash of their key.
    """
    clip_format = run.format
    limits = run.limits
    base = run.base
    version, taken = (
        (base.version + 1, [shard["name"] for shard in base.info["shards"]]) if base else (1, [])
    )
    folder = run.layout.work / "plan"
    atomic.remove(folder)
    same = base.unchanged(run.table, run.workspace.recordings, folder) if base else None
    total = sum(run.counts.values())
    wanted = Buckets(folder / "wanted", total)

    def new() -> Iterator[pl.DataFrame]:
        for part in segment_parts(run.table):
            accepted = part.filter(pl.col("decision") == "accept").drop("decision", "speaker_id")
            yield accepted if same is None else accepted.filter(~same.is_sure(accepted["row"]))

    for part in plan.windows_on_disk(
        new(), limits.window, folder=folder, most=total, label=f" v{version}" if base else ""
    ):
        keys = [plan.clip_keys(part, facts, clip_format)]
        keys += (
            [signal_keys(part, facts, clip_format.channel).alias("signal_key")]
            if run.signals
            else []
        )
        wanted.add_by_key(part.with_columns(keys))

    def matched(*, last: bool = False) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        atomic.remove(folder / "packed")
        packed = Buckets(folder / "packed", total)
        for index in indexes(run.packs):
            packed.add_by_key(index)
        for number in range(wanted.count):
            held = packed.read(number, remove=True).unique(
                "clip_key", keep="first", maintain_order=True
            )
            yield wanted.read(number, remove=last), held

    missing = (
        rows.join(held, on="clip_key", how="anti", maintain_order="left")
        for rows, held in matched()
    )
    windows = plan.Windows(missing, facts, clip_format, folder=folder, most=total)
    failures = _cut(run, run_tasks, windows, facts)
    reasons = pl.DataFrame(
        list(failures.items()), schema={"clip_key": pl.String, "detail": pl.String}, orient="row"
    )
    rate = (pl.col("sampling_rate") if clip_format.rate is None else pl.lit(clip_format.rate)).cast(
        pl.Int32
    )
    rates = facts.select("recording_id", sampling_rate=rate)
    # Not divided by a constant: polars then multiplies, unless there is one row, and durations
    # would depend on other clips.
    own_rate = clip_format.rate
    seconds = (
        pl.col("num_samples") / pl.col("sampling_rate")
        if own_rate is None
        else pl.col("num_samples") * (1 / own_rate)
    )
    losses = list[pl.DataFrame]()

    def clips() -> Iterator[pl.DataFrame]:
        for rows, held in matched(last=True):
            gone = rows.join(held, on="clip_key", how="anti", maintain_order="left").select(
                "row", "segment_id", "clip_key"
            )
            losses.append(
                gone.join(reasons, on="clip_key", how="left", maintain_order="left").drop(
                    "clip_key"
                )
            )
            found = rows.join(held, on="clip_key", how="inner", maintain_order="left").rename(
                {"clip_samples": "num_samples"}
            )
            if same is not None:
                # Without the hash of a recording, only the clip shows whether its audio has
                # changed.
                found = found.filter(~same.keep_equal(found))
            found = found.join(rates, on="recording_id", how="left", maintain_order="left")
            yield found.with_columns(duration_s=seconds)

    name_of = partial(
        container_named(run.parameters["container"]).shard_name, version=version, taken=taken
    )
    shards = plan.ShardPlan(folder, tables.num_rows(run.table))
    shards.assign(clips(), run.counts, base.shard_limits(limits) if base else limits, name_of)
    lost = pl.concat(losses).sort("row").drop("row")
    if lost["detail"].null_count():
        first = lost.filter(pl.col("detail").is_null())["segment_id"]
        raise NbaudioError(
            f"{run.packs}: {len(first)} clips were cut but are missing, {first[0]} the first"
        )
    if len(lost) == total:
        detail = next(iter(failures.values()))
        raise InputError(
            f"{run.workspace.path}: none of the {total:,} accepted segments can be cut; {detail}"
        )
    kept = base.keep_shards(run.layout, shards, same) if base and same else []
    return _Cut(shards, kept, lost, windows.segments - len(failures))


def _cut(
    run: _Run, run_tasks: RunTasks, windows: plan.Windows, facts: pl.DataFrame
) -> dict[str, str]:
    """Cut windows into packs; return by clip key why clips failed."""
    failures: dict[str, str] = {}
    measured_as: dict[str, str] = {}  # keys of the signals of clips in tasks underway

    def used(own: pl.DataFrame) -> None:
        measured_as.update(own.select("clip_key", "signal_key").iter_rows() if run.signals else ())

    check_audio_folders(run.workspace, windows.recording_ids())
    tasks = plan.cut_tasks(windows, facts, run.audio_root, run.packs, used=used)
    for result in cut_all(
        run_tasks,
        "cut ",
        partial(cut, run.format, measured=run.signals),
        windows,
        tasks,
        show=run.show,
    ):
        if run.signals:
            log_signals(
                run.workspace,
                {measured_as.pop(key): values for key, values in result.values.items()},
            )
        failures |= result.failures
    return failures


def _facts(
    layout: Layout,
    info: dict[str, Any],
    results: list[Shard],
    *,
    num_cut: int,
    took: float,
) -> dict[str, Any]:
    splits = info["splits"]
    hours, kept = (sum(split[what] for split in splits.values()) for what in ("hours", "segments"))
    facts: dict[str, Any] = {"corpus": str(layout), "kept": kept, "hours": round(hours, 6)}
    facts["splits"] = {name: split["segments"] for name, split in splits.items()}
    facts |= {"rejected": sum(info["rejected"].values()), "reasons": info["rejected"]}
    facts |= {
        "shards": len(results),
        "shards_of_train": shard_advice(results),
        "bytes": sum(each.num_bytes for each in results),
    }
    facts |= {"clips_cut_now": num_cut, "clips_already_cut": kept - num_cut}
    facts |= {
        "shards_kept_from_before": sum(each.kept for each in results),
        "seconds": round(took, 1),
    }
    facts |= {"times_real_time": round(hours * 3600 / took), "log": str(layout.finished_log)}
    unreadable = info["rejected"].get(UNREADABLE_AUDIO, 0)
    return facts | {"next": status.next_step(layout, failed=unreadable)}
