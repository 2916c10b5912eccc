"""The command `measure`: write what the samples of each segment say about it as columns, such as `snr_db` and `cut_end`."""

import json
import shlex
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio.signals import SIGNALS, VERSION
from nbaudio.core import tables
from nbaudio.core.atomic import append_lines, parse_lines
from nbaudio.core.channels import check_channel
from nbaudio.core.errors import InputError
from nbaudio.core.progress import progress
from nbaudio.core.report import Report, first_lines
from nbaudio.corpus.packs import cut_all, measure_windows
from nbaudio.corpus.plan import ClipFormat, clip_keys, cut_tasks, cut_windows, recording_facts, with_audio
from nbaudio.engine import EngineLocation, RunTasks, worker_pool
from nbaudio.storage.location import location
from nbaudio.storage.workspace import Workspace, locks_workspace

LOG = "signals.jsonl"  # of a run that is not finished
_TABLE = "signals"
_MEASURED = pl.Schema(
    {"clip_key": pl.String} | {name: tables.SIGNALS[name] for signal in SIGNALS.values() for name in signal.columns}
)


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
    """Measure the audio of all segments, selected or not, and write the columns of `nbaudio.core.tables.SIGNALS`.

    Each recording is read once, in order, at its own rate. Values are the same for any number of jobs and any engine. They
    are kept by recording, window and channel: after a kill or growth, the same call does the rest. Formulas: docs/signals.md.

    Args:
        workspace: the workspace or its folder; with audio.
        channel: as in `materialize`, which should cut the same; a channel that a segment names takes precedence.
        jobs: number of parallel tasks; None means one per core.
        engine: as in `materialize`.
        address: as in `materialize`.
        beam_options: as in `materialize`.
        show_progress: show progress with rate and time left on standard error.

    Returns:
        Counts of segments, how fast they were measured, and how many are cut off or clipped; problems name those that failed.

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
    workspace, site = Workspace.open(workspace), EngineLocation(engine, jobs, address, beam_options)
    with worker_pool(site) as run_tasks:
        counts, lost = measure_segments(workspace, run_tasks, channel=channel, show=show_progress)
    seconds = time.monotonic() - began
    found = tables.read(workspace, ["clipped_share", "cut_start", "cut_end"])
    facts: dict[str, Any] = {
        **counts,
        "seconds": round(seconds, 1),
        "times_real_time": round(counts["hours"] * 3600 / seconds, 1),
    }
    facts |= {"clipped": int((found["clipped_share"] > 0).sum()), **{name: int(found[name].sum()) for name in found.columns[1:]}}
    facts["next"] = f"nbaudio select {shlex.quote(str(workspace.path))} --where 'snr_db > 10 and not cut_end'"
    problems = [f"{segment_id}: {reason}" for segment_id, reason in lost.iter_rows()]
    workspace.save_report("measure", Report("measure", facts, problems=problems).to_dict())
    return Report("measure", facts, problems=first_lines(problems, f"{workspace.path}/reports/measure.json"))


@locks_workspace("measure", "signals")
def measure_segments(
    workspace: Workspace, run_tasks: RunTasks, *, channel: str, show: bool, only: pl.Series | None = None
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Measure the segments of a workspace, or `only` these, and write the columns; return counts, and why segments failed."""
    check_channel(channel)
    if (audio := workspace.audio) is None:
        raise InputError(f"{workspace.path}: ingested without audio; run 'nbaudio ingest' again with --audio")
    columns = tables.table_schema(workspace)
    if "measured" not in workspace.settings and (taken := [name for name in columns if name in tables.SIGNALS]):
        raise InputError(f"{workspace.path}: the source has a column {taken[0]}, which stays; ingest it under another name")
    facts, segments = recording_facts(workspace.recordings), with_audio(workspace)
    segments = segments.with_columns(signal_keys(segments, facts, channel))
    held = _held(workspace, segments["clip_key"])
    missing = segments.join(held, on="clip_key", how="anti", maintain_order="left")
    missing = missing if only is None else missing.filter(pl.col("segment_id").is_in(only.implode()))
    windows = cut_windows(missing, facts, signal_format(channel))
    hours, failures = float(windows["seconds"].sum()) / 3600, dict[str, str]()
    if len(windows):
        tasks = cut_tasks(windows, facts, audio, location(workspace.path))
        with progress("measure", hours, "h of audio", show=show) as advance:
            for result in cut_all(run_tasks, tasks, measure_windows, advance):
                log_signals(workspace, result.values)
                failures |= result.failures
        held = _held(workspace, segments["clip_key"])
    if held.is_empty():
        why = next(iter(failures.values()), "no segment has audio; ingest with --audio")
        raise InputError(f"{workspace.path}: none of {len(segments):,} segments can be measured; {why}")
    tables.write(workspace, held, table=_TABLE)
    (workspace.path / LOG).unlink(missing_ok=True)
    _write_columns(workspace, segments, held, channel)
    reasons = pl.DataFrame(list(failures.items()), schema={"clip_key": pl.String, "reason": pl.String}, orient="row")
    lost = segments.join(reasons, on="clip_key").select("segment_id", "reason")
    total, now = tables.read(workspace, ["segment_id"]).height, len(missing) - len(lost)
    counts = {"segments": total, "measured_now": now, "already_measured": len(segments) - len(missing), "failed": len(lost)}
    return counts | {"skipped": total - len(segments), "hours": round(hours, 6)}, lost


def signal_format(channel: str) -> ClipFormat:
    """Return what stands for the format of clips in the keys of signals."""
    return ClipFormat(None, channel, f"signals {VERSION}")


def signal_keys(segments: pl.DataFrame, facts: pl.DataFrame, channel: str) -> pl.Series:
    """Return the keys under which signals are kept: hashes of recording, window and channel."""
    return clip_keys(segments, facts, signal_format(channel))


def log_signals(workspace: Workspace, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Append signals by key to the log of the run."""
    append_lines(workspace.path / LOG, (json.dumps({"clip_key": key, **found}).encode() for key, found in values.items()))


def _held(workspace: Workspace, keys: pl.Series) -> pl.DataFrame:
    """Return the signals of these keys that this run or an earlier one measured."""
    log, path = workspace.path / LOG, tables.table_path(workspace, _TABLE)
    lines: Iterable[dict[str, Any]] = parse_lines(log.read_bytes()) if log.exists() else ()
    whole = [line for line in lines if line.keys() == _MEASURED.keys()]
    parts = [pl.DataFrame(whole, schema=_MEASURED), *([workspace.table(_TABLE)] if path.exists() else [])]
    found = pl.concat([part for part in parts if part.schema == _MEASURED])
    return found.filter(pl.col("clip_key").is_in(keys.implode())).unique("clip_key", keep="first", maintain_order=True)


@locks_workspace("measure")
def _write_columns(workspace: Workspace, segments: pl.DataFrame, held: pl.DataFrame, channel: str) -> None:
    """Write the signals of segments as columns; `speech_rate` is in characters of `text` per second of speech."""
    workspace.save_together(settings=workspace.settings | {"measured": {"version": VERSION, "channel": channel}})
    rates = workspace.recordings.select("recording_id", "sampling_rate")
    rows = tables.read(workspace, ["segment_id", "recording_id", "start_sample", "end_sample", "text"])
    own = segments.select("segment_id", "clip_key").join(held, on="clip_key", how="left").unique("segment_id", keep="first")
    rows = rows.join(rates, on="recording_id", how="left", maintain_order="left")
    rows = rows.join(own, on="segment_id", how="left", maintain_order="left")
    seconds = pl.col("speech_share") * (pl.col("end_sample") - pl.col("start_sample")) / pl.col("sampling_rate")
    characters = pl.col("text").str.strip_chars().str.len_chars().fill_null(0)
    rate = pl.when(seconds > 0).then((characters / seconds).round(2)).cast(pl.Float64)
    tables.replace_columns(workspace, rows.with_columns(speech_rate=rate).select(tables.SIGNALS.names()))
