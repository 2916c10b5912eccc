"""Cut tasks: which windows of which recordings a worker cuts into one pack."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from nbaudio.corpus.cutting import CutTask, Source
from nbaudio.corpus.plan import PLAN, pack_name, plan_slices, scan_plan, write_plan
from nbaudio.sources.audio_folder import required_audio
from nbaudio.storage.archives import all_in_order, is_in_archive
from nbaudio.storage.location import Location, location
from nbaudio.storage.remote import Content, Remote
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.workspace import Workspace

# Recordings in one task of a compressed tar; twice as many tasks as there are workers wait at a
# time.
_TAR_TASK_BYTES = 16 << 20
# Stands for a recording that the archive lacks: its clips fail, as those of a recording that
# changed.
_NO_CONTENT = Content(b"", None)


@dataclass(frozen=True)
class CutAmount:
    """How much of a plan is to be cut: its clips, and seconds of audio."""

    num_clips: int
    seconds: float


def cut_amount(plan: Path, facts: pl.DataFrame) -> CutAmount:
    """Return how much of a plan is to be cut: all its clips, and the audio of different ones."""
    rates = facts.select("recording_id", "sampling_rate")
    samples = pl.col("end_sample") - pl.col("start_sample")
    num_clips = 0
    samples_at: Counter[int] = Counter()  # by the rate of the recording
    previous_key = ""
    for part in plan_slices(plan):
        new = part.filter(~pl.col("is_cut"))
        num_clips += len(new)
        # Segments with the same window share a clip, and follow each other in the plan.
        is_repeated = pl.col("clip_key") == pl.col("clip_key").shift(1, fill_value=previous_key)
        sums = (
            new.filter(~is_repeated)
            .join(rates, on="recording_id", how="left")
            .group_by("sampling_rate")
            .agg(samples.sum())
        )
        samples_at.update(dict(sums.drop_nulls().iter_rows()))
        if len(new):
            previous_key = new["clip_key"][-1]
    return CutAmount(num_clips, sum(number / rate for rate, number in sorted(samples_at.items())))


def recordings_to_cut(plan: Path) -> list[str]:
    """Return the ids of the recordings that have clips to cut, in order."""
    rows = scan_plan(plan).filter(~pl.col("is_cut"))
    ids = rows.select(pl.col("recording_id").unique())
    return ids.collect(**STREAMED).to_series().sort().to_list()


@dataclass(frozen=True)
class PlannedCut:
    """Tasks that cut or measure all clips of a plan, and how much they are."""

    amount: CutAmount
    tasks: Iterator[CutTask]


def plan_cut(
    workspace: Workspace, clips: pl.LazyFrame, facts: pl.DataFrame, *, folder: Path
) -> PlannedCut:
    """Write the plan of clips that are not kept in packs; return its tasks.

    Raise InputError if the workspace has no audio, or an audio folder does not exist.

    Args:
        workspace: the workspace.
        clips: as for `write_plan`.
        facts: `recording_facts` of all recordings.
        folder: a folder for plan.parquet and buckets.
    """
    plan = folder / "plan.parquet"
    archived = archived_recordings(facts, required_audio(workspace))
    write_plan(plan, clips, facts=facts, archived=archived, folder=folder)
    audio = required_audio(workspace, recordings_to_cut(plan))
    tasks = cut_tasks(plan, facts, audio_root=audio, packs=location(workspace.path))
    return PlannedCut(cut_amount(plan, facts), tasks)


def archived_recordings(facts: pl.DataFrame, audio_root: Location) -> pl.Series:
    """Return the ids of recordings in a compressed tar, which is read in its own order."""
    if not is_in_archive(audio_root):
        return pl.Series("recording_id", dtype=pl.String)
    inside = ~pl.col("path").str.contains("://", literal=True)
    return facts.filter(inside)["recording_id"]


def cut_tasks(
    plan: Path, facts: pl.DataFrame, *, audio_root: Location, packs: Location
) -> Iterator[CutTask]:
    """Yield the tasks that cut clips of a plan, the longest of some first.

    Args:
        plan: the file plan.parquet.
        facts: `recording_facts` of all recordings.
        audio_root: the folder of the recordings.
        packs: the folder of the packs.
    """
    is_new = ~pl.col("is_cut")
    inside = pl.col("pack").is_null()
    if is_in_archive(audio_root):
        yield from _tar_cut_tasks(_rows(plan, is_new & inside), facts, audio_root, packs)
    for frame in _whole_packs(plan, is_new & ~inside):
        windows = frame.unique("clip_key", keep="first", maintain_order=True).join(
            facts, on="recording_id", how="left", maintain_order="left"
        )
        tasks = [
            CutTask(packs / name, _sources_of(part, audio_root), _seconds(part))
            for (name,), part in windows.partition_by(
                "pack", as_dict=True, maintain_order=True
            ).items()
        ]
        # The longest tasks come first, so that all workers end at about the same time.
        yield from sorted(tasks, key=lambda task: -task.seconds)


def _rows(plan: Path, wanted: pl.Expr) -> pl.DataFrame:
    """Return the wanted rows of a plan."""
    parts = (part.filter(wanted) for part in plan_slices(plan))
    return pl.concat(parts)


def _whole_packs(plan: Path, wanted: pl.Expr) -> Iterator[pl.DataFrame]:
    """Yield the wanted rows of a plan in its order; the rows of a pack are in one frame."""
    waiting = pl.DataFrame(schema=PLAN)
    for part in plan_slices(plan):
        rows = pl.concat([waiting, part.filter(wanted)])
        if rows.is_empty():
            continue
        is_last = pl.col("pack") == rows["pack"][-1]
        yield rows.filter(~is_last)
        waiting = rows.filter(is_last)
    yield waiting


def _tar_cut_tasks(
    windows: pl.DataFrame, facts: pl.DataFrame, audio_root: Remote, packs: Location
) -> Iterator[CutTask]:
    """Make cut tasks that hold the bytes of the recordings of a compressed tar.

    They are in the order of the tar, which is read once, up to the last recording wanted.
    """
    ordered = (
        windows.unique("clip_key", keep="first", maintain_order=True)
        .join(facts, on="recording_id", how="left", maintain_order="left")
        .sort("path", maintain_order=True)
    )
    # The rows of each recording: few bytes each, as there may be some 100,000.
    places = (
        ordered.with_row_index()
        .group_by("path", maintain_order=True)
        .agg(pl.first("index"), pl.len())
    )
    rows_of = {path: (start, length) for path, start, length in places.iter_rows()}
    sources: list[Source] = []
    size = 0
    seconds = 0.0
    for place in all_in_order(audio_root, rows_of, _NO_CONTENT):
        frame = ordered.slice(*rows_of[place.path])
        source = _source_of(frame, audio_root)
        sources.append(replace(source, path=place.with_sha256(source.sha256)))
        if place.content:
            size += len(place.content.file_bytes)
        seconds += _seconds(frame)
        if size >= _TAR_TASK_BYTES:
            yield named_task(sources, packs, seconds)
            sources = []
            size = 0
            seconds = 0.0
    if sources:
        yield named_task(sources, packs, seconds)


def named_task(sources: Sequence[Source], packs: Location, seconds: float) -> CutTask:
    """Make a task whose pack is named after its clips."""
    name = pack_name(key for source in sources for key, *_ in source.windows)
    return CutTask(packs / name, tuple(sources), seconds)


def _sources_of(windows: pl.DataFrame, audio_root: Location) -> tuple[Source, ...]:
    """Make the sources of some windows, in their order."""
    parts = windows.partition_by("recording_id", maintain_order=True)
    return tuple(_source_of(part, audio_root) for part in parts)


def _source_of(windows: pl.DataFrame, audio_root: Location) -> Source:
    """Make the source of some windows of one recording, which carry its facts."""
    first = windows.row(0, named=True)
    path = (audio_root / first["path"]).with_sha256(first["sha256"])
    version = first["mtime_ns"] if path.local else first["version"]
    return Source(
        recording_id=first["recording_id"],
        path=path,
        num_samples=first["num_samples"],
        sha256=first["sha256"],
        num_bytes=first["num_bytes"],
        version=version,
        windows=tuple(
            windows.select("clip_key", "start_sample", "end_sample", "channel").iter_rows()
        ),
        inputs=tuple(windows["inputs"].drop_nulls()),
    )


def _seconds(windows: pl.DataFrame) -> float:
    """Return the seconds of audio in some windows."""
    samples = pl.col("end_sample") - pl.col("start_sample")
    return float(windows.select((samples / pl.col("sampling_rate")).sum()).item())
