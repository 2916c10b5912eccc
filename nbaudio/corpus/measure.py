"""The command `measure`: measure the samples of each segment, write columns such as `snr_db`.

Signals are stored by key: segments with the same window and channel of a recording share one.
While a run works, they are appended to a log, which a killed run leaves. At its end, the log and
the table of the last complete run become the new table of signals, then columns of the segments.
"""

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nbaudio.audio import channels
from nbaudio.audio.signals import SIGNALS, VERSION, Value
from nbaudio.core import atomic
from nbaudio.core.errors import InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.clip_keys import (
    recording_facts,
    segments_with_audio,
    with_clip_keys,
)
from nbaudio.corpus.cut_runs import run_cut_tasks
from nbaudio.corpus.cut_tasks import PlannedCut, plan_cut
from nbaudio.corpus.cutting import ClipFormat, MeasuredClip, measure_windows
from nbaudio.engine import EngineLocation, RunTasks, worker_pool
from nbaudio.sources.audio_folder import required_audio
from nbaudio.tables import parquet_files, schemas, workspace_tables
from nbaudio.tables.buckets import (
    PART_ROWS,
    Buckets,
    PartWriter,
    bucket_count,
    hex_bucket,
    joined_schema,
    store,
    write_buckets,
    write_row_buckets,
)
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.workspace import Workspace, locks_workspace

LOG = "signals.jsonl"  # the log of signals of a run that is not finished
_LOG_BYTES = 2 << 20  # bytes of the log that are read at once
_SIGNALS_TABLE = "signals"  # the table that keeps the signals, by key, between runs
# Columns of the signals of a clip, in the table, the log and while a run works. `clip_key` is the
# key of the signals, see `signal_format`.
_SIGNALS_BY_KEY = pl.Schema(
    {"clip_key": pl.String}
    | {name: schemas.SIGNALS[name] for signal in SIGNALS.values() for name in signal.columns}
)


@interruptible
def measure(
    workspace: str | Path | Workspace,
    *,
    channel: str = "mix",
    jobs: int | None = None,
    engine: str | None = "loky",
    address: str | None = None,
    beam_options: str = "",
    show_progress: bool = True,
) -> Report:
    """Measure the audio of all segments, selected or not.

    The measures are the columns of `nbaudio.tables.schemas.SIGNALS`, which are written to the
    workspace.

    Each recording is read once, in order, at its own rate. Values are the same for any number of
    jobs and any engine. They are kept by recording, window and channel: after a kill or growth, the
    same call does the rest. Formulas: docs/audio.md.

    Args:
        workspace: the workspace or its folder; with audio.
        channel: as in `materialize`, which should cut the same; a channel that a segment names
            takes precedence.
        jobs: number of parallel tasks; None means one per core.
        engine: as in `materialize`.
        address: as in `materialize`.
        beam_options: as in `materialize`.
        show_progress: show progress with rate and time left on standard error.

    Returns:
        Counts of segments, how fast they were measured, and how many are cut off or clipped;
        problems name those that failed.

    Raises:
        InputError: no audio, the source has a column of such a name, or no segment can be measured.

    Examples:
        >>> import numpy, soundfile, tempfile
        >>> from nbaudio.sources.ingest import ingest
        >>> folder = tempfile.mkdtemp()
        >>> soundfile.write(f"{folder}/a.wav", 0.5 * numpy.sin(numpy.arange(16000) / 5), 16000)
        >>> _ = ingest("folder", folder, out=f"{folder}/w")
        >>> _ = measure(f"{folder}/w", show_progress=False)
        >>> Workspace.open(f"{folder}/w").segments["rms_dbfs"].to_list()
        [-9.03]
    """
    began = time.monotonic()
    workspace = Workspace.open(workspace)
    # In a first run, workers start at once, as there are segments to measure in any case.
    preload = None if _has_signals(workspace) else measure_windows
    site = EngineLocation(engine, jobs, address, beam_options, preload)
    outcome = measure_segments(workspace, worker_pool(site), channel=channel, show=show_progress)
    seconds = time.monotonic() - began
    segments = workspace_tables.scan(workspace, ["clipped_share", "cut_start", "cut_end"])
    num_damaged = segments.select(
        clipped=(pl.col("clipped_share") > 0).sum(),
        cut_start=pl.sum("cut_start"),
        cut_end=pl.sum("cut_end"),
    )
    facts: dict[str, Any] = {
        **outcome.counts,
        "seconds": round(seconds, 1),
        "times_real_time": round(outcome.counts["hours"] * 3600 / seconds, 1),
    }
    facts |= num_damaged.collect(**STREAMED).row(0, named=True)
    # A segment without a pause has no SNR, and is not to be left out for that.
    facts["next"] = (
        f"nbaudio select {shlex.quote(str(workspace.path))} --where 'not cut_end' "
        "--where 'snr_db > 10 or snr_db is null'"
    )
    problems = [f"{segment_id}: {reason}" for segment_id, reason in outcome.failed.iter_rows()]
    workspace.save_report("measure", Report("measure", facts, problems=problems).to_dict())
    return Report(
        "measure", facts, problems=first_lines(problems, f"{workspace.path}/reports/measure.json")
    )


@dataclass(frozen=True)
class MeasureOutcome:
    """What `measure_segments` did.

    Attributes:
        counts: facts of the report. All but `hours`, which were measured now, are of segments.
        failed: the segments that could not be measured, with `segment_id` and `reason`.
    """

    counts: dict[str, Any]
    failed: pl.DataFrame


@locks_workspace("measure", "signals")
def measure_segments(
    workspace: Workspace,
    pool: AbstractContextManager[RunTasks],
    *,
    channel: str,
    show: bool,
    accepted: bool = False,
) -> MeasureOutcome:
    """Measure all segments, or all accepted ones, and write the columns.

    Segments whose signals are known from an earlier run are not measured again.

    Args:
        workspace: the workspace.
        pool: left before the tables are written, so that workers need no memory meanwhile.
        channel: the channel of segments that name none.
        show: show progress.
        accepted: measure accepted segments only.

    Raises:
        InputError: no audio, the source has a column with the name of a signal, or no segment can
            be measured.
    """
    channels.check_channel(channel)
    required_audio(workspace)
    _check_source_columns(workspace)
    facts = recording_facts(workspace.recordings)
    with scratch_folder(workspace.path) as folder, ExitStack() as workers:
        run_tasks = workers.enter_context(pool)
        segments = _keyed_segments(workspace, facts, channel, folder / "segments")
        to_measure = _without_signals(workspace, segments, folder / "before", accepted=accepted)
        planned = plan_cut(workspace, to_measure, facts, folder=folder)
        failures = _measure_clips(workspace, planned, run_tasks, show=show)
        workers.close()
        collected = _collect_signals(workspace, segments, failures, folder / "now")
        if not collected.num_segments:
            reason = next(iter(failures.values()), "no segment has audio; ingest with --audio")
            raise InputError(
                f"{workspace.path}: none of {segments.num_segments:,} segments can be measured; "
                f"{reason}"
            )
        workspace_tables.write(workspace, collected.signals, table=_SIGNALS_TABLE)
        (workspace.path / LOG).unlink(missing_ok=True)
        _write_columns(workspace, collected.by_row, channel)
    counts = {
        "segments": segments.num_rows,
        "measured_now": planned.amount.num_clips - len(collected.failed),
        "already_measured": segments.num_segments - planned.amount.num_clips,
        "failed": len(collected.failed),
        "skipped": segments.num_rows - segments.num_segments,
        "hours": round(planned.amount.seconds / 3600, 6),
    }
    return MeasureOutcome(counts, collected.failed)


def signal_format(channel: str) -> ClipFormat:
    """Return the format to compute the keys of signals from, in place of the format of clips.

    So a clip and its signals have different keys, both in columns called `clip_key`. Signals are
    measured at the rate of the recording, and the version of their formulas stands in the place of
    the encoding: another version has other keys, and all is measured again.

    Args:
        channel: the channel of segments that name none.
    """
    return ClipFormat(None, channel, f"signals {VERSION}")


def signals_by_key(
    measured: Mapping[str, MeasuredClip], facts: pl.DataFrame, channel: str
) -> dict[str, dict[str, Value]]:
    """Return the signals of clips that were measured while they were cut, by the keys of signals.

    Args:
        measured: the clips by the keys of clips to cut, which are other keys: see `signal_format`.
        facts: `recording_facts` of all recordings.
        channel: the channel of segments that name none.
    """
    columns = ("recording_id", "start_sample", "end_sample", "source_channel")
    rows = [(key, *(getattr(clip, name) for name in columns)) for key, clip in measured.items()]
    windows = pl.LazyFrame(rows, schema=("clip_key", *columns), orient="row")
    keyed = with_clip_keys(windows, facts, signal_format(channel), "signal_key")
    keys = keyed.select("clip_key", "signal_key").collect()
    return {signal_key: measured[clip_key].signals for clip_key, signal_key in keys.iter_rows()}


def log_signals(workspace: Workspace, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Append signals by their keys to the log of the run."""
    atomic.append_lines(
        workspace.path / LOG,
        (msgspec.json.encode({"clip_key": key, **signals}) for key, signals in values.items()),
    )


def _check_source_columns(workspace: Workspace) -> None:
    """Raise InputError if a column of the source has the name of a signal.

    Once the workspace was measured, as its settings tell, such columns are those of `measure`.
    """
    if "measured" in workspace.settings:
        return
    columns = workspace_tables.table_schema(workspace)
    taken = [name for name in columns if name in schemas.SIGNALS]
    if taken:
        raise InputError(
            f"{workspace.path}: the source has a column {taken[0]}, which stays; "
            "ingest it under another name"
        )


@dataclass(frozen=True)
class _KeyedSegments:
    """Segments that can be cut, with the keys of their signals.

    Attributes:
        by_key: the segments in buckets by key; the columns are those of `segments_with_audio`,
            `channel` and `clip_key`.
        num_segments: how many they are.
        num_rows: how many segments the workspace has, with those that cannot be cut.
    """

    by_key: Buckets
    num_segments: int
    num_rows: int


@dataclass(frozen=True)
class _CollectedSignals:
    """The signals of the segments, after all clips were measured.

    Attributes:
        by_row: the signals of each segment, with `row`, `clip_key` and `measured_id` (the id of the
            segment when it was measured), in buckets by row, see `write_row_buckets`.
        num_segments: how many segments have signals.
        signals: the same signals, each key once, in the order of keys.
        failed: the segments that could not be measured, with `segment_id` and `reason`.
    """

    by_row: Buckets
    num_segments: int
    signals: pl.LazyFrame
    failed: pl.DataFrame


def _keyed_segments(
    workspace: Workspace, facts: pl.DataFrame, channel: str, folder: Path
) -> _KeyedSegments:
    """Return the segments that can be cut, with the keys of their signals."""
    num_rows = parquet_files.num_rows(workspace_tables.table_path(workspace))
    keyed = with_clip_keys(segments_with_audio(workspace), facts, signal_format(channel))
    rows = keyed.with_columns(channel=pl.col("source_channel").fill_null(channel))
    count = bucket_count(num_rows)
    by_key = write_buckets(rows, hex_bucket("clip_key", count), count=count, folder=folder)
    num_segments = sum(len(bucket) for bucket in by_key)
    return _KeyedSegments(by_key, num_segments, num_rows)


def _without_signals(
    workspace: Workspace, segments: _KeyedSegments, folder: Path, *, accepted: bool
) -> pl.LazyFrame:
    """Return the segments, or accepted ones only, that no earlier run has measured."""
    is_wanted = pl.col("decision") == "accept" if accepted else pl.lit(value=True)
    unmeasured = (
        pair.segments.join(pair.signals, on="clip_key", how="anti").filter(is_wanted)
        for pair in _pair_with_signals(workspace, segments, folder)
    )
    return store(unmeasured, folder / "missing", segments.by_key.schema)


def _measure_clips(
    workspace: Workspace, planned: PlannedCut, run_tasks: RunTasks, *, show: bool
) -> dict[str, str]:
    """Measure the clips of a plan and log their signals; return by key the reasons of failures."""
    failures: dict[str, str] = {}
    for measured in run_cut_tasks(
        run_tasks, "measure", measure_windows, planned.amount, planned.tasks, show=show
    ):
        log_signals(workspace, measured.values)
        failures |= measured.failures
    return failures


def _collect_signals(
    workspace: Workspace, segments: _KeyedSegments, failures: Mapping[str, str], folder: Path
) -> _CollectedSignals:
    """Return the signals of all segments that have them, and the segments that failed.

    `failures` are reasons by key.
    """
    reasons = pl.DataFrame(
        list(failures.items()), schema={"clip_key": pl.String, "reason": pl.String}, orient="row"
    )
    schema = joined_schema({"row": pl.UInt32(), "measured_id": pl.String()}, _SIGNALS_BY_KEY)
    with_signals = PartWriter(folder / "rows", schema)
    used_signals = PartWriter(folder / "used", _SIGNALS_BY_KEY)
    failed = [pl.DataFrame(schema={"row": pl.UInt32, "segment_id": pl.String, "reason": pl.String})]
    num_segments = 0
    for pair in _pair_with_signals(workspace, segments, folder / "matched"):
        keys_of_rows = pair.segments.select("row", "clip_key", measured_id="segment_id")
        rows = keys_of_rows.join(pair.signals, on="clip_key")
        num_segments += len(rows)
        with_signals.add(rows)
        used = pair.signals.join(pair.segments, on="clip_key", how="semi")
        used_signals.add(used.sort("clip_key"))
        failed_here = pair.segments.join(reasons, on="clip_key")
        failed.append(failed_here.select("row", "segment_id", "reason"))
    by_row = write_row_buckets(
        with_signals.scan(), num_rows=segments.num_rows, folder=folder / "by-row"
    )
    failed_in_order = pl.concat(failed).sort("row").drop("row")
    return _CollectedSignals(by_row, num_segments, used_signals.scan(), failed_in_order)


def _has_signals(workspace: Workspace) -> bool:
    """Return whether an earlier run, complete or killed, has measured segments."""
    table = workspace_tables.table_path(workspace, _SIGNALS_TABLE)
    return table.exists() or (workspace.path / LOG).exists()


@dataclass(frozen=True)
class _SegmentsAndSignals:
    """Segments and stored signals whose keys are in the same bucket.

    Attributes:
        segments: as in `_KeyedSegments.by_key`.
        signals: as in `_SIGNALS_BY_KEY`, each key once, also of segments that are no more.
    """

    segments: pl.DataFrame
    signals: pl.DataFrame


def _pair_with_signals(
    workspace: Workspace, segments: _KeyedSegments, folder: Path
) -> Iterator[_SegmentsAndSignals]:
    """Yield the segments of each bucket with the signals that log and table have of its keys.

    A key that is in both has the signals of the log.
    """
    count = segments.by_key.count
    stored = store(_read_signals(workspace), folder / "signals", _SIGNALS_BY_KEY)
    by_key = write_buckets(
        stored.with_row_index("order"),
        hex_bucket("clip_key", count),
        count=count,
        folder=folder / "by-key",
    )
    for rows, bucket in zip(segments.by_key, by_key, strict=True):
        signals = bucket.sort("order").unique("clip_key", keep="first", maintain_order=True)
        yield _SegmentsAndSignals(rows, signals.drop("order"))


def _read_signals(workspace: Workspace) -> Iterator[pl.DataFrame]:
    """Yield the signals that are stored: first those of the log, then those of the table.

    The log is of this run and of killed ones, the table of the last complete run. Signals that do
    not have exactly the columns of this version of nbaudio are left out.
    """
    log = workspace.path / LOG
    if log.exists():
        with log.open("rb") as file:
            while lines := file.readlines(_LOG_BYTES):
                rows = atomic.parse_lines(b"".join(lines), msgspec.json.decode)
                current = [row for row in rows if row.keys() == _SIGNALS_BY_KEY.keys()]
                yield pl.DataFrame(current, schema=_SIGNALS_BY_KEY)
    if workspace_tables.table_path(workspace, _SIGNALS_TABLE).exists():
        for part in workspace_tables.read_batches(workspace, _SIGNALS_TABLE):
            if part.schema == _SIGNALS_BY_KEY:
                yield part


@locks_workspace("measure")
def _write_columns(workspace: Workspace, by_row: Buckets, channel: str) -> None:
    """Write the signals to the segments table, and version and channel to the settings.

    Settings come first: columns without them would count as columns of the source after a kill.
    """
    workspace.save_together(
        settings=workspace.settings | {"measured": {"version": VERSION, "channel": channel}}
    )
    workspace_tables.write(workspace, _with_signals(workspace, by_row))


def _with_signals(workspace: Workspace, by_row: Buckets) -> Iterator[pl.DataFrame]:
    """Yield the segments with their signals as columns, null for segments that have none.

    `speech_rate` is in characters of `text` per second of speech.

    Raises:
        InputError: a row is now another segment than the one that was measured.
    """
    rates = workspace.recordings.select("recording_id", "sampling_rate")
    seconds = (
        pl.col("speech_share")
        * (pl.col("end_sample") - pl.col("start_sample"))
        / pl.col("sampling_rate")
    )
    characters = pl.col("text").str.strip_chars().str.len_chars().fill_null(0)
    rate = pl.when(seconds > 0).then((characters / seconds).round(2)).cast(pl.Float64)
    order = dict.fromkeys(
        (*schemas.SEGMENTS, *workspace_tables.table_schema(workspace), *schemas.SIGNALS)
    )
    # Part n has the rows of bucket n: both have `PART_ROWS` rows, see `write_row_buckets`.
    for number, part in enumerate(workspace_tables.read_batches(workspace, rows=PART_ROWS)):
        signals = by_row.read(number).drop("clip_key")
        rows = (
            schemas.conform(part, schemas.SEGMENTS, "segments")
            .drop(schemas.SIGNALS.names(), strict=False)
            .with_row_index("row", offset=number * PART_ROWS)
            .join(rates, on="recording_id", how="left", maintain_order="left")
            .join(signals, on="row", how="left", maintain_order="left")
        )
        # Null without signals, which is neither equal nor different.
        is_other_segment = rows["measured_id"] != rows["segment_id"]
        if is_other_segment.any():
            raise InputError(
                f"{workspace.path}: its segments changed while they were measured; "
                "measure again, what is done is kept"
            )
        yield rows.with_columns(speech_rate=rate).select(*order)
