"""Make a corpus from a selected workspace: cut clips, pack them into shards, publish the tables."""

import time
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import polars as pl
from msgspec import UNSET, UnsetType

from nbaudio.audio import codec_versions, encoder
from nbaudio.core import atomic
from nbaudio.core.errors import InputError, NbaudioError
from nbaudio.core.progress import progress
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus import plan, status
from nbaudio.corpus.card import CARD, about_of, publish_card
from nbaudio.corpus.clip_keys import recording_facts, segment_columns, with_clip_keys
from nbaudio.corpus.clip_states import write_failures
from nbaudio.corpus.clips_in_packs import LocatedClips, locate_clips, with_existing_packs
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.containers.shard_files import Shard, version_of
from nbaudio.corpus.corpus_tables import (
    AddedIn,
    check_accepted,
    check_columns,
    check_text,
    freeze_table,
    publish,
    selection_hash,
)
from nbaudio.corpus.cut_runs import run_cut_tasks
from nbaudio.corpus.cut_tasks import (
    archived_recordings,
    cut_amount,
    cut_tasks,
    recordings_to_cut,
)
from nbaudio.corpus.cutting import ClipFormat, CutTask, cut
from nbaudio.corpus.layout import UNREADABLE_AUDIO, Layout
from nbaudio.corpus.measure import log_signals, measure_segments, signals_by_key
from nbaudio.corpus.packs import pack_names
from nbaudio.corpus.shard_names import shard_name
from nbaudio.corpus.shards import divide_by_shard, restore_records, shard_advice, write_shards
from nbaudio.corpus.versions import Base, KeptClips, corpus_parameters
from nbaudio.engine import EngineLocation, RunTasks, worker_pool
from nbaudio.proof.evidence import selection_claim
from nbaudio.proof.proof_state import ProofState
from nbaudio.review.state import reviewed_ids
from nbaudio.selection.avoid import notes_on_dropped
from nbaudio.sources.audio_folder import check_audio_folders, required_audio
from nbaudio.sources.grow import with_earlier
from nbaudio.storage.location import Location, location
from nbaudio.storage.urls import check_writable, is_url
from nbaudio.tables import parquet_files, schemas, tombstones, workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.workspace import Workspace, locks_workspace

# Below this, this process has written the shards before another one has imported Polars.
_MIN_BYTES_FOR_WORKERS = 32 << 20
_ATTEMPTS = 3  # a damaged pack is cut again; after the third time, give up on the disk


@dataclass(frozen=True)
class _Run:
    """Parameters of one run."""

    workspace: Workspace
    audio_root: Location
    packs: Location
    layout: Layout
    parameters: dict[str, Any]
    format: ClipFormat
    limits: plan.ShardLimits
    base: Base | None
    site: EngineLocation
    show: bool
    signals: bool

    @property
    def version(self) -> int:
        """Number of the version that is made, from 1."""
        return self.base.version + 1 if self.base else 1

    def shard_name(self, split: str, index: int, count: int) -> str:
        """Return the name of a new shard of a split, number `index` of `count`, from 0."""
        container = container_named(self.parameters["container"])
        taken = []
        if self.base:
            taken = [shard["name"] for shard in self.base.corpus_info["shards"]]
        return shard_name(container, split, index, count, version=self.version, taken=taken)


@dataclass(frozen=True)
class _Selection:
    """The accepted segments of a run, and the facts about them.

    `counts` are accepted segments of each split, `facts` those of recordings that planning needs,
    `report` the facts of the last `select`.
    """

    counts: Counter[str]
    recordings: pl.DataFrame
    facts: pl.DataFrame
    withdrawn: pl.DataFrame
    proof: ProofState
    report: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True)
class _NewClips:
    """Clips that are to be packed, and those that stay as the base has them.

    `new` has the columns of segments and `clip_key`; `from_base` is None without a base.
    """

    new: pl.LazyFrame
    from_base: pl.LazyFrame | None


@dataclass(frozen=True)
class _Cut:
    """Result of cutting: the number of clips, and why others failed, by their keys."""

    num_clips: int
    failures: dict[str, str]


@dataclass(frozen=True)
class _Packed:
    """Shards of the corpus, `segment_id` and `detail` of failures, and the number of clips cut."""

    shards: list[Shard]
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
    requested = dict(
        zip(
            names,
            (container, text, rate, channel, encoding, shard_size, shard_count, window),
            strict=True,
        )
    )
    with Base.opened(base) if base is not None else nullcontext() as earlier:
        if earlier is not None and str(earlier).rstrip("/") == str(layout).rstrip("/"):
            raise InputError(f"{layout}: a new version needs another folder than its base")
        used = corpus_parameters(requested, earlier)
        container_named(used["container"], encoding=used["encoding"])
        audio, pack_folder = _locations(workspace, packs)
        run = _Run(
            workspace=workspace,
            audio_root=audio,
            packs=pack_folder,
            layout=layout,
            parameters=used,
            format=ClipFormat(used["rate"], used["channel"], used["encoding"]),
            limits=plan.ShardLimits(used["shard_size"], used["shard_count"], used["window"]),
            base=earlier,
            site=site,
            show=show_progress,
            signals=signals,
        )
        about_base: dict[str, Any] = {}
        if earlier is not None:
            about_base = earlier.corpus_info.get("about") or {}
        about = about_of({"title": title, "language": language, "license": license}, about_base)
        return _materialize(run, about, began)


def _materialize(run: _Run, about: dict[str, str | None], began: float) -> Report:
    """Make the corpus, or the version, of a run whose parameters are validated."""
    layout = run.layout
    with ExitStack() as stack:
        workers = stack.enter_context(ExitStack())
        run_tasks = workers.enter_context(worker_pool(_site(run)))
        selection = _select(run)  # raises before anything is written
        stated = {"identity": _identity(run), "evidence": selection_claim(selection.proof)}
        selection.proof.population.release()
        is_whole = stack.enter_context(
            layout.claimed(stated["identity"], "materialize", _logged(run))
        )
        stack.enter_context(run.packs.shared())
        card = restore_records(layout) if is_whole else ""
        packed = _cut_and_pack(run, selection, run_tasks)
        workers.close()  # they need no memory while tables are written
        notes_on_base = [*_notes_on_base(run, packed), *_notes_on_avoided(run, selection)]
        if len(packed.lost):
            stated["evidence"] = selection_claim(
                selection.proof, without=packed.lost["segment_id"].to_list()
            )
        corpus_info = _publish(run, selection, packed, about, stated)
        card_notes = _publish_card(layout, corpus_info, card)
        layout.finish(corpus_info)
    if run.base:
        _keep_splits(run.workspace, run.base)
    notes = selection.notes + card_notes + notes_on_base
    facts = _facts(layout, corpus_info, packed, took=time.monotonic() - began)
    report = Report("materialize", facts, notes, problems=_problems(layout, packed))
    run.workspace.save_report("materialize", report.to_dict())
    return report


def _site(run: _Run) -> EngineLocation:
    """Return where tasks run; workers start at once if there are clips to cut in any case."""
    is_first_run = run.packs.local is not None and not pack_names(run.packs)
    if is_first_run:
        return replace(run.site, preload=cut)
    return run.site


def _select(run: _Run) -> _Selection:
    """Check what ships; raise InputError if it cannot."""
    workspace = run.workspace
    check_columns(workspace)
    counts = check_accepted(workspace)
    recordings = workspace.recordings
    withdrawn = workspace.withdrawn
    report = workspace.report("select").get("facts", {})
    notes = _held_out_notes(run, withdrawn, report)
    notes += _check_clips(run, reviewed_ids(workspace))
    return _Selection(
        counts=counts,
        recordings=recordings,
        facts=recording_facts(recordings),
        withdrawn=withdrawn,
        proof=ProofState.load(workspace),
        report=report,
        notes=notes,
    )


def _identity(run: _Run) -> dict[str, Any]:
    """Return what identifies the corpus of a run: parameters, selection and base."""
    selection = selection_hash(run.workspace, run.parameters.get("text"))
    identity = {**run.parameters, "selection": selection}
    if run.base is None:
        return identity
    return {**identity, "base": run.base.to_json()}


def _logged(run: _Run) -> dict[str, Any]:
    """Return the parameters of a run as its log has them."""
    logged = run.parameters | {
        "workspace": str(run.workspace.path),
        "corpus": str(run.layout),
        "jobs": run.site.jobs,
        "engine": run.site.engine,
    }
    if run.packs.local != run.workspace.path / "packs":
        logged["packs"] = str(run.packs)
    return logged


def _check_clips(run: _Run, judged: Set[str]) -> list[str]:
    """Raise InputError if text or rates cannot ship.

    Return notes on reviewed clips of train, and on short windows.
    """
    columns = ("segment_id", "recording_id", "split", "decision")
    accepted = workspace_tables.scan(run.workspace, columns).filter(pl.col("decision") == "accept")
    check_text(run.workspace, run.parameters.get("text"), judged=bool(judged))
    if run.format.rate is None:
        used = accepted.select(pl.col("recording_id").unique()).collect(engine="streaming")
        for own_rate in run.workspace.recordings.join(used, on="recording_id", how="semi")[
            "sampling_rate"
        ].unique():
            encoder(run.format.encoding).check_rate(own_rate)
    in_train = (pl.col("split") == "train") & pl.col("segment_id").is_in(sorted(judged))
    number = accepted.filter(in_train).select(pl.len()).collect(engine="streaming").item()
    notes = []
    if number:
        notes.append(
            f"{number:,} of the clips of train were drawn for review after select: select again, "
            "then make a new corpus"
        )
    return notes + plan.short_windows(accepted, run.limits.window)


def _held_out_notes(run: _Run, withdrawn: pl.DataFrame, selected: dict[str, Any]) -> list[str]:
    """Raise InputError if train is not separate from what the base holds out.

    Return a note instead if given splits cause that.
    """
    if run.base is None:
        return []
    moved, shared = run.base.shared_with_train(
        workspace_tables.table_path(run.workspace), withdrawn
    )
    if moved or (shared and not selected.get("parameters", {}).get("splits")):
        remedy = (
            f"'nbaudio select {run.workspace.path} --splits {run.base}', "
            f"or splits: {run.base} in a manifest, keeps what it holds out"
        )
        raise InputError(f"{moved or shared}; {remedy}")
    if shared:
        return [f"the given splits let train share something with held-out data: {shared}"]
    return []


def _publish_card(layout: Layout, corpus_info: dict[str, Any], before: str) -> list[str]:
    """Write the data card; return a note if it was edited since, as its hash `before` shows."""
    if publish_card(layout.folder, corpus_info, before=before):
        return []
    return [f"{layout}/{CARD} was edited and is not overwritten"]


def _notes_on_base(run: _Run, packed: _Packed) -> list[str]:
    """Return notes on columns that the base lacks, and on a base of which nothing is kept.

    The frozen segments table is in the work folder.
    """
    if run.base is None:
        return []
    notes = []
    left_out = run.base.left_out(workspace_tables.table_path(run.layout.work))
    if left_out:
        notes.append(f"columns that the base does not have are left out: {', '.join(left_out)}")
    if not any(version_of(shard.name) < run.version for shard in packed.shards):
        notes.append(
            f"no clip of the base {run.base} is unchanged: was it made from this workspace?"
        )
    return notes


def _notes_on_avoided(run: _Run, selection: _Selection) -> list[str]:
    """Return a note if the selection does not avoid the data that that of the base does."""
    if run.base is None:
        return []
    earlier = run.base.corpus_info.get("selection", {}).get("parameters", {})
    later = selection.report.get("parameters", {})
    return notes_on_dropped(earlier, later, (f"the base {run.base}", "this selection"))


def _publish(
    run: _Run,
    selection: _Selection,
    packed: _Packed,
    about: dict[str, str | None],
    stated: dict[str, Any],
) -> dict[str, Any]:
    """Write the tables of the corpus; return corpus.json, with what is `stated`."""
    base = run.base
    added = AddedIn()
    tombstones_of_base = pl.DataFrame(schema=tombstones.TOMBSTONES)
    if base:
        added = AddedIn(run.version, base.added_in())
        tombstones_of_base = pl.DataFrame(
            base.corpus_info.get("tombstones", []), schema=tombstones.TOMBSTONES
        )
    with progress("publish", 1, "corpus", show=False) as advance:
        corpus_info = publish(
            run.layout,
            packed.shards,
            run.parameters["container"],
            lost=packed.lost,
            table=workspace_tables.table_path(run.layout.work),
            recordings=selection.recordings,
            selection=selection.report,
            measured=run.workspace.measured_columns,
            added=added,
        )
        advance(1)
    return {
        **corpus_info,
        "identity": stated["identity"],
        "parameters": run.parameters,
        "versions": codec_versions(),
        "about": about,
        "evidence": stated["evidence"],
        "tombstones": tombstones.merged(selection.withdrawn, tombstones_of_base).to_dicts(),
        "version": run.version,
        "base": base and base.to_json(),
    }


@locks_workspace("materialize")
def _keep_splits(workspace: Workspace, base: Base) -> None:
    """Count the base as an earlier version of the workspace.

    Later selections keep what it holds out.
    """
    splits = base.earlier_splits().join(
        workspace_tables.read(workspace, ["segment_id"]),
        on="segment_id",
        how="semi",
        maintain_order="left",
    )
    earlier = with_earlier(workspace, splits.lazy())
    if earlier is not None:
        workspace.save(**{schemas.EARLIER_SPLITS: earlier})


def _cut_and_pack(run: _Run, selection: _Selection, run_tasks: RunTasks) -> _Packed:
    """Measure if asked, freeze the segments table, cut its accepted clips, and pack them."""
    num_measured = _cut_measured(run, selection, run_tasks) if run.signals else 0
    # The current table: a later selection replaces the file.
    freeze_table(
        run.workspace, workspace_tables.table_path(run.layout.work), run.parameters.get("text")
    )
    packed = _plan_cut_pack(run, selection, run_tasks)
    return replace(packed, num_cut=num_measured + packed.num_cut)


def _plan_cut_pack(run: _Run, selection: _Selection, run_tasks: RunTasks) -> _Packed:
    """Plan the clips, cut what is in no pack, and pack all; recut damaged packs.

    The frozen segments table is in the work folder.
    """
    num_cut = 0
    for attempt in range(_ATTEMPTS):
        folder = run.layout.work / f"buckets-{attempt}"
        atomic.remove(folder)
        packed = _attempt(run, selection, run_tasks, folder)
        atomic.remove(folder)
        num_cut += packed.num_cut
        damaged = {shard.damaged for shard in packed.shards if shard.damaged}
        if not damaged:
            return replace(packed, num_cut=num_cut)
        _remove_damaged(run, damaged)
    raise NbaudioError(
        f"{min(damaged)}: damaged again after recutting; check the disk and run the same "
        "command again"
    )


def _attempt(run: _Run, selection: _Selection, run_tasks: RunTasks, folder: Path) -> _Packed:
    """Plan, cut and pack once; shards whose pack is damaged are not written."""
    clips = _clips(run, selection, run.layout.work, folder / "clips")
    num_compared = 0
    if clips.from_base is not None:
        compared = _compare_with_base(run, selection, run_tasks, clips, folder / "compared")
        clips = compared.clips
        num_compared = compared.num_cut
    shards = _plan(run, selection, clips.new, folder / "plan")
    atomic.remove(folder / "plan")
    cut_clips = _cut(run, selection, run_tasks)
    located = _locate(run, selection, cut_clips, folder / "located")
    if len(located.lost) == selection.counts.total():
        detail = next(iter(cut_clips.failures.values()))
        raise InputError(
            f"{run.workspace.path}: none of the {len(located.lost):,} accepted segments can "
            f"be cut; {detail}"
        )
    in_shards = plan.without_empty_shards(located.clips, shards, run.shard_name)
    of_base = _keep_shards(run, clips)
    written = _pack(run, pl.concat([in_shards, of_base.clips]), run_tasks, folder / "shards")
    num_cut = num_compared + cut_clips.num_clips
    return _Packed([*of_base.shards, *written], located.lost, num_cut)


def _keep_shards(run: _Run, clips: _NewClips) -> KeptClips:
    """Copy the shards of the base all of whose clips are kept."""
    if run.base is None or clips.from_base is None:
        return KeptClips.none()
    return run.base.keep_shards(run.layout, clips.from_base)


def _clips(run: _Run, selection: _Selection, table_folder: Path, folder: Path) -> _NewClips:
    """Return the accepted clips of the segments table in a folder.

    With a base, `from_base` has all clips whose rows are unchanged, and `new` those of other rows
    and of recordings that are not known to be the same.
    """
    columns = ("segment_id", "recording_id", "start_sample", "end_sample", "source_channel")
    accepted = (
        segment_columns(table_folder, (*columns, "split", "decision"))
        .filter(pl.col("decision") == "accept")
        .drop("decision")
    )
    clips = with_clip_keys(accepted, selection.facts, run.format).with_columns(
        channel=pl.col("source_channel").fill_null(run.format.channel)
    )
    if run.base is None:
        return _NewClips(clips, None)
    table = workspace_tables.table_path(table_folder)
    most = max(parquet_files.num_rows(table), parquet_files.num_rows(run.base.table))
    unchanged = run.base.unchanged(table, selection.recordings, num_rows=most, folder=folder)
    sure_rows = unchanged.filter(pl.col("is_sure")).select("row")
    return _NewClips(clips.join(sure_rows, on="row", how="anti"), unchanged)


@dataclass(frozen=True)
class _Compared:
    """Clips after the comparison of recordings without a hash, and how many were cut for it."""

    clips: _NewClips
    num_cut: int


def _compare_with_base(
    run: _Run, selection: _Selection, run_tasks: RunTasks, clips: _NewClips, folder: Path
) -> _Compared:
    """Cut the clips that may be as in the base, and keep those that are.

    Without the hash of a recording, only the clip shows whether its audio has changed.
    """
    unchanged = cast(pl.LazyFrame, clips.from_base)
    sure = unchanged.filter(pl.col("is_sure"))
    unsure = unchanged.filter(~pl.col("is_sure"))
    num_unsure = int(unsure.select(pl.len()).collect().item())
    if not num_unsure:
        return _Compared(_NewClips(clips.new, sure), 0)
    candidates = clips.new.join(unsure.select("row"), on="row", how="semi")
    packed = with_existing_packs(
        candidates, run.packs, num_clips=num_unsure, folder=folder / "existing"
    )
    _write_plan(run, selection, packed, folder)
    cut_clips = _cut(run, selection, run_tasks)
    located = _locate(run, selection, cut_clips, folder / "located")
    equal = unsure.join(
        located.clips.select("row", "clip_sha256"), on=["row", "clip_sha256"], how="semi"
    )
    new = clips.new.join(equal.select("row"), on="row", how="anti")
    return _Compared(_NewClips(new, pl.concat([sure, equal])), cut_clips.num_clips)


def _write_plan(run: _Run, selection: _Selection, clips: pl.LazyFrame, folder: Path) -> None:
    """Write the plan of a run; see `plan.write_plan`."""
    plan.write_plan(
        run.layout.plan,
        clips,
        facts=selection.facts,
        archived=archived_recordings(selection.facts, run.audio_root),
        folder=folder,
    )


def _plan(run: _Run, selection: _Selection, clips: pl.LazyFrame, folder: Path) -> pl.DataFrame:
    """Write the plan of the clips that are packed; return its shards, as `plan.Shards.table`."""
    rates = selection.facts.lazy().select("recording_id", "sampling_rate")
    if run.format.rate is None:
        rate = pl.col("sampling_rate")
    else:
        rate = pl.lit(run.format.rate)
    num_bytes = plan.typical_bytes(plan.clip_samples(run.format), rate, run.format.encoding)
    sized = (
        clips.join(rates, on="recording_id", how="left")
        .with_columns(num_bytes=num_bytes)
        .drop("sampling_rate")
    )
    num_clips = selection.counts.total()
    label = ""
    limits = run.limits
    if run.base:
        label = f" v{run.version}"
        limits = run.base.shard_limits(run.limits)
    windowed = plan.with_windows(
        sized, run.limits.window, num_clips=num_clips, folder=folder, label=label
    )
    packed = with_existing_packs(
        windowed, run.packs, num_clips=num_clips, folder=folder / "existing"
    )
    counts = packed.group_by("split").len().collect(**STREAMED)
    shards = plan.assign_shards(
        packed,
        dict(counts.iter_rows()),
        limits,
        run.shard_name,
        folder=folder,
    )
    _write_plan(run, selection, shards.clips, folder)
    return shards.table


def _cut(run: _Run, selection: _Selection, run_tasks: RunTasks, *, measured: bool = False) -> _Cut:
    """Cut the clips of the plan that are in no pack; if `measured`, log their signals, too."""
    amount = cut_amount(run.layout.plan, selection.facts)
    tasks = _cut_tasks(run, selection)
    failures: dict[str, str] = {}
    function = partial(cut, run.format, measured=measured)
    atomic.remove(run.layout.failures)
    for cut_result in run_cut_tasks(run_tasks, "cut ", function, amount, tasks, show=run.show):
        write_failures(run.layout.failures, cut_result.failures)
        failures |= cut_result.failures
        if cut_result.values:
            signals = signals_by_key(cut_result.values, selection.facts, run.format.channel)
            log_signals(run.workspace, signals)
    return _Cut(amount.num_clips - len(failures), failures)


def _cut_tasks(run: _Run, selection: _Selection) -> Iterator[CutTask]:
    """Return the tasks of the plan; raise InputError if an audio folder does not exist."""
    check_audio_folders(run.workspace, recordings_to_cut(run.layout.plan))
    return cut_tasks(run.layout.plan, selection.facts, audio_root=run.audio_root, packs=run.packs)


def _cut_measured(run: _Run, selection: _Selection, run_tasks: RunTasks) -> int:
    """Cut and measure the accepted clips; write their signals to the workspace.

    Return the number of clips that were cut.
    """
    folder = run.layout.work / "buckets-signals"
    atomic.remove(folder)
    clips = _clips(run, selection, run.workspace.path, folder / "clips")
    num_clips = selection.counts.total()
    packed = with_existing_packs(
        clips.new, run.packs, num_clips=num_clips, folder=folder / "existing"
    )
    _write_plan(run, selection, packed, folder)
    cut_clips = _cut(run, selection, run_tasks, measured=True)
    atomic.remove(folder)
    measure_segments(
        run.workspace,
        nullcontext(run_tasks),
        channel=run.format.channel,
        show=run.show,
        accepted=True,
    )
    return cut_clips.num_clips


def _locate(run: _Run, selection: _Selection, cut_clips: _Cut, folder: Path) -> LocatedClips:
    """Find the clips of the plan in packs."""
    located = locate_clips(
        run.layout.plan,
        run.packs,
        cut_clips.failures,
        facts=selection.facts,
        clip_format=run.format,
        num_clips=parquet_files.num_rows(run.layout.plan),
        folder=folder,
    )
    without_reason = located.lost.filter(pl.col("detail").is_null())["segment_id"]
    if len(without_reason):
        raise NbaudioError(
            f"{run.packs}: {len(without_reason)} clips were cut but are missing, "
            f"{without_reason[0]} the first"
        )
    return located


def _pack(run: _Run, clips: pl.LazyFrame, run_tasks: RunTasks, folder: Path) -> list[Shard]:
    """Write the shards of located clips.

    Workers without a shared disk can write to an address; what is in a folder of this machine is
    written or read here.
    """
    is_base_local = run.base is not None and run.base.folder.place.local is not None
    is_out_remote = run.layout.folder.place.local is None
    are_packs_remote = run.packs.local is None
    workers_can_write = is_out_remote and not is_base_local
    records = None
    if are_packs_remote and workers_can_write:
        records = run.packs / f"records-{run.layout.work.parent.name}"
    sharded = divide_by_shard(
        clips,
        workspace_tables.table_path(run.layout.work),
        columns=run.base.columns if run.base else None,
        folder=folder,
    )
    with ExitStack() as stack:
        if are_packs_remote and not workers_can_write:
            here = EngineLocation("loky", run.site.jobs)
            run_tasks = stack.enter_context(worker_pool(here))
        elif run.site.engine == "loky" and sharded.num_bytes < _MIN_BYTES_FOR_WORKERS:
            threads = EngineLocation("threading", run.site.jobs)
            run_tasks = stack.enter_context(worker_pool(threads))
        return write_shards(
            run.layout,
            sharded,
            run.parameters["container"],
            run.format,
            run_tasks=run_tasks,
            show=run.show,
            records=records,
        )


def _remove_damaged(run: _Run, packs: Set[str]) -> None:
    """Remove damaged packs, to cut their clips again; raise InputError if the base is damaged."""
    for pack_path in packs:
        if run.base and pack_path.startswith(f"{run.base}/"):
            raise InputError(
                f"{pack_path}: a clip is damaged; 'nbaudio verify {run.base}' lists "
                "all damage of the base"
            )
        location(pack_path).remove()


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


def _problems(layout: Layout, packed: _Packed) -> list[str]:
    """Return a line for each segment that could not be cut, or for the first ones of many."""
    failures = [f"{segment_id}: {why}" for segment_id, why in packed.lost.iter_rows()]
    return first_lines(failures, f"{layout}/rejected.parquet")


def _facts(
    layout: Layout,
    corpus_info: dict[str, Any],
    packed: _Packed,
    *,
    took: float,
) -> dict[str, Any]:
    """Return the facts of the report; `took` is in seconds."""
    shards = packed.shards
    splits = corpus_info["splits"]
    hours, num_clips = (
        sum(split[what] for split in splits.values()) for what in ("hours", "segments")
    )
    facts: dict[str, Any] = {"corpus": str(layout), "kept": num_clips, "hours": round(hours, 6)}
    facts["splits"] = {name: split["segments"] for name, split in splits.items()}
    facts |= {"rejected": sum(corpus_info["rejected"].values()), "reasons": corpus_info["rejected"]}
    facts |= {
        "shards": len(shards),
        "shards_of_train": shard_advice(shards),
        "bytes": sum(shard.num_bytes for shard in shards),
    }
    facts |= {
        "clips_cut_now": packed.num_cut,
        "clips_already_cut": num_clips - packed.num_cut,
    }
    facts |= {
        "shards_kept_from_before": sum(shard.was_whole for shard in shards),
        "seconds": round(took, 1),
    }
    facts |= {"times_real_time": round(hours * 3600 / took), "log": str(layout.finished_log)}
    unreadable = corpus_info["rejected"].get(UNREADABLE_AUDIO, 0)
    return facts | {"next": status.next_step(layout, failed=unreadable)}
