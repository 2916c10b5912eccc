"""The command `measure`.

It writes what the samples of each segment say about it as columns, such as `snr_db` and `cut_end`.
"""

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nbaudio.audio.signals import SIGNALS, VERSION
from nbaudio.core import atomic, channels, tables
from nbaudio.core.dataframes import STREAMED
from nbaudio.core.errors import InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.core.report import Report, first_lines
from nbaudio.core.rows import with_starts
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.packs import cut_all, measure_windows
from nbaudio.corpus.partitions import BUCKET_ROWS, Buckets
from nbaudio.corpus.plan import (
    ClipFormat,
    Windows,
    clip_keys,
    cut_tasks,
    recording_facts,
    with_audio_parts,
)
from nbaudio.engine import EngineLocation, RunTasks, worker_pool
from nbaudio.sources.audio_folder import required_audio
from nbaudio.storage.location import location
from nbaudio.storage.workspace import Workspace, locks_workspace

LOG = "signals.jsonl"  # of a run that is not finished
_ROW = "\0row"
_LOG_BYTES = 2 << 20  # of it that are read at once
_TABLE = "signals"
_MEASURED = pl.Schema(
    {"clip_key": pl.String}
    | {name: tables.SIGNALS[name] for signal in SIGNALS.values() for name in signal.columns}
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

    The measures are the columns of `nbaudio.core.tables.SIGNALS`, which are written to the
    workspace.

    Each recording is read once, in order, at its own rate. Values are the same for any number of
    jobs and any engine. They are kept by recording, window and channel: after a kill or growth, the
    same call does the rest. Formulas: docs/signals.md.

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
    site = EngineLocation(engine, jobs, address, beam_options)
    counts, lost = measure_segments(
        workspace, worker_pool(site), channel=channel, show=show_progress
    )
    seconds = time.monotonic() - began
    found = tables.scan(workspace, ["clipped_share", "cut_start", "cut_end"])
    sums = found.select(
        clipped=(pl.col("clipped_share") > 0).sum(),
        cut_start=pl.sum("cut_start"),
        cut_end=pl.sum("cut_end"),
    )
    facts: dict[str, Any] = {
        **counts,
        "seconds": round(seconds, 1),
        "times_real_time": round(counts["hours"] * 3600 / seconds, 1),
    }
    facts |= sums.collect(**STREAMED).row(0, named=True)
    # A segment without a pause has no SNR, and is not to be left out for that.
    facts["next"] = (
        f"nbaudio select {shlex.quote(str(workspace.path))} --where 'not cut_end' "
        "--where 'snr_db > 10 or snr_db is null'"
    )
    problems = [f"{segment_id}: {reason}" for segment_id, reason in lost.iter_rows()]
    workspace.save_report("measure", Report("measure", facts, problems=problems).to_dict())
    return Report(
        "measure", facts, problems=first_lines(problems, f"{workspace.path}/reports/measure.json")
    )


@locks_workspace("measure", "signals")
def measure_segments(  # noqa: PLR0914
    workspace: Workspace,
    pool: AbstractContextManager[RunTasks],
    *,
    channel: str,
    show: bool,
    accepted: bool = False,
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Measure all segments, or all accepted ones, and write the columns.

    Return counts, and why segments failed.
    """
    channels.check_channel(channel)
    required_audio(workspace)
    columns = tables.table_schema(workspace)
    if "measured" not in workspace.settings and (
        taken := [name for name in columns if name in tables.SIGNALS]
    ):
        raise InputError(
            f"{workspace.path}: the source has a column {taken[0]}, which stays; "
            "ingest it under another name"
        )
    facts = recording_facts(workspace.recordings)
    total = tables.num_rows(tables.table_path(workspace))
    with scratch_folder(workspace.path) as folder:
        failures = dict[str, str]()
        num_segments = 0
        wanted = Buckets(folder / "wanted", total)
        for part in with_audio_parts(workspace):
            wanted.add_by_key(part.with_columns(signal_keys(part, facts, channel)))
            num_segments += len(part)
        is_asked = pl.col("decision") == "accept" if accepted else pl.lit(value=True)
        held = _held(workspace, folder / "before", total)
        missing = (
            rows.join(known, on="clip_key", how="anti", maintain_order="left").filter(is_asked)
            for rows, known in _matched(wanted, held)
        )
        windows = Windows(missing, facts, signal_format(channel), folder=folder, most=total)
        tasks = cut_tasks(
            windows,
            facts,
            required_audio(workspace, windows.recording_ids()),
            location(workspace.path),
        )
        with pool as run_tasks:  # the memory of its workers is free before tables are written
            for result in cut_all(run_tasks, "measure", measure_windows, windows, tasks, show=show):
                log_signals(workspace, result.values)
                failures |= result.failures
        reasons = pl.DataFrame(
            list(failures.items()),
            schema={"clip_key": pl.String, "reason": pl.String},
            orient="row",
        )
        held = _held(workspace, folder / "now", total)
        by_row = Buckets(folder / "rows", total)
        num_held = 0
        losses = list[pl.DataFrame]()
        for rows, known in _matched(wanted, held):
            by_row.add(
                own := rows.select("row", "clip_key", measured="segment_id").join(
                    known, on="clip_key"
                ),
                pl.col("row") // BUCKET_ROWS,
            )
            num_held += len(own)
            losses.append(rows.join(reasons, on="clip_key").select("row", "segment_id", "reason"))
        if not num_held:
            why = next(iter(failures.values()), "no segment has audio; ingest with --audio")
            raise InputError(
                f"{workspace.path}: none of {num_segments:,} segments can be measured; {why}"
            )
        kept = (
            known.join(rows, on="clip_key", how="semi").sort("clip_key")
            for rows, known in _matched(wanted, held)
        )
        tables.write(workspace, kept, table=_TABLE)
        (workspace.path / LOG).unlink(missing_ok=True)
        _write_columns(workspace, by_row, channel)
    lost = pl.concat(losses).sort("row").drop("row")
    counts = {"segments": total, "measured_now": windows.segments - len(lost)}
    counts |= {
        "already_measured": num_segments - windows.segments,
        "failed": len(lost),
        "skipped": total - num_segments,
    }
    return {**counts, "hours": round(windows.seconds / 3600, 6)}, lost


def signal_format(channel: str) -> ClipFormat:
    """Return what stands for the format of clips in the keys of signals."""
    return ClipFormat(None, channel, f"signals {VERSION}")


def signal_keys(segments: pl.DataFrame, facts: pl.DataFrame, channel: str) -> pl.Series:
    """Return the keys under which signals are kept: hashes of recording, window and channel."""
    return clip_keys(segments, facts, signal_format(channel))


def log_signals(workspace: Workspace, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Append signals by key to the log of the run."""
    atomic.append_lines(
        workspace.path / LOG,
        (msgspec.json.encode({"clip_key": key, **found}) for key, found in values.items()),
    )


def _held(workspace: Workspace, folder: Path, rows: int) -> Buckets:
    """Return the signals that this run or an earlier one measured, by key."""
    log = workspace.path / LOG
    path = tables.table_path(workspace, _TABLE)
    held = Buckets(folder, rows)
    held.add_by_key(pl.DataFrame(schema=_MEASURED))
    if log.exists():
        with log.open("rb") as file:
            while lines := file.readlines(_LOG_BYTES):
                found = atomic.parse_lines(b"".join(lines), msgspec.json.decode)
                held.add_by_key(
                    pl.DataFrame(
                        [row for row in found if row.keys() == _MEASURED.keys()], schema=_MEASURED
                    )
                )
    for part in tables.read_batches(workspace, _TABLE) if path.exists() else ():
        if part.schema == _MEASURED:
            held.add_by_key(part)
    return held


def _matched(wanted: Buckets, held: Buckets) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield segments, and the signals with keys of the same bucket, each key once."""
    for rows, known in zip(wanted, held, strict=True):
        yield rows, known.unique("clip_key", keep="first", maintain_order=True)


@locks_workspace("measure")
def _write_columns(workspace: Workspace, by_row: Buckets, channel: str) -> None:
    workspace.save_together(
        settings=workspace.settings | {"measured": {"version": VERSION, "channel": channel}}
    )
    tables.write(workspace, _with_signals(workspace, by_row))


def _with_signals(workspace: Workspace, by_row: Buckets) -> Iterator[pl.DataFrame]:
    """Yield the segments with their signals as columns.

    `speech_rate` is in characters of `text` per second of speech.
    """
    rates = workspace.recordings.select("recording_id", "sampling_rate")
    seconds = (
        pl.col("speech_share")
        * (pl.col("end_sample") - pl.col("start_sample"))
        / pl.col("sampling_rate")
    )
    characters = pl.col("text").str.strip_chars().str.len_chars().fill_null(0)
    rate = pl.when(seconds > 0).then((characters / seconds).round(2)).cast(pl.Float64)
    order = dict.fromkeys((*tables.SEGMENTS, *tables.table_schema(workspace), *tables.SIGNALS))
    for row, part in with_starts(tables.read_batches(workspace)):
        if row % BUCKET_ROWS == 0:
            own = by_row.read(row // BUCKET_ROWS, remove=True).drop("clip_key")
        rows = tables.conform(part, tables.SEGMENTS, "segments").drop(
            tables.SIGNALS.names(), strict=False
        )
        rows = rows.with_row_index(_ROW, offset=row).join(
            rates, on="recording_id", how="left", maintain_order="left"
        )
        rows = rows.join(own, left_on=_ROW, right_on="row", how="left", maintain_order="left")
        if (rows["measured"] != rows["segment_id"]).any():
            raise InputError(
                f"{workspace.path}: its segments changed while they were measured; "
                "measure again, what is done is kept"
            )
        yield rows.with_columns(speech_rate=rate).select(*order)
