"""Plan of a corpus, made without reading audio.

It has clip keys, tasks that cut windows into packs of clips, and the shard of each clip.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import polars as pl

from nbaudio.core import atomic, hashing, tables
from nbaudio.core.errors import InputError
from nbaudio.core.rows import with_starts
from nbaudio.corpus.partitions import BUCKET_ROWS, Buckets, append_stream, read_streams
from nbaudio.storage.archives import all_in_order, is_in_archive
from nbaudio.storage.location import Location
from nbaudio.storage.remote import Content, Remote
from nbaudio.storage.workspace import Workspace

# Changed whenever the same window of the same source would give other bytes: old packs are then not
# used
_CLIP_VERSION = 4
_OLDER_CLIP_VERSION = 3  # clips of these codecs are the same as in version 3
_UNCHANGED_CODECS = r"^(pcm_.*|float|double|ulaw|alaw|flac|alac.*|wavpack|tta|mp3|gsm.*|amrnb)$"
# Audio in one cut task: short enough to balance the load and to lose little when killed, long
# enough to open few files.
_TASK_SECONDS = 1200.0
_MIN_TASK_SECONDS = 60.0
_MIN_TASKS = 16
# Recordings in one task of a compressed tar; twice as many tasks as there are workers wait at a
# time.
_TAR_TASK_BYTES = 16 << 20
# Stands for a recording that the archive lacks: its clips fail, as those of a recording that
# changed.
_NO_CONTENT = Content(b"", None)
# What a recording's clips depend on, beside its id.
_FACTS = (
    "path",
    "sampling_rate",
    "num_samples",
    "sha256",
    "num_bytes",
    "mtime_ns",
    "version",
    "codec",
)
# Rows whose keys are computed together: as Python strings, all at once would be most of a driver's
# memory
_ROWS = 20_000
_WINDOW = ("clip_key", "recording_id", "start_sample", "end_sample")
# Numbers of shards: of rows that are in no shard, and in one that is kept from another corpus.
OUTSIDE, KEPT = -1, -2
# Columns of the clips of a shard: the row in the segments table, facts, and where the bytes are.
_CLIP = (
    "row",
    "segment_id",
    "split",
    "num_samples",
    "sampling_rate",
    "duration_s",
    "pack",
    "offset",
    "length",
    "clip_sha256",
)
_CLIP_OVERHEAD_BYTES = 2048  # metadata and headers of a clip in a shard, for sizing only


@dataclass(frozen=True)
class ClipFormat:
    """Format of the clips.

    It is the rate in Hz (None keeps that of the recording), the channel of segments that name none,
    and the encoding.
    """

    rate: int | None
    channel: str
    encoding: str


RECOGNIZED = ClipFormat(16000, "mix", "wav")
RECOGNIZED_FOLDER = "recognized"
"""Format of the clips that recognizers get, and the folder of a workspace that keeps their texts.

The texts are kept by the keys of these clips.
"""


@dataclass(frozen=True)
class Source:
    """One recording and the windows to cut from it, in order.

    The other fields hold what is known of its file since it was ingested.
    """

    path: Location
    num_samples: int
    sha256: str | None
    num_bytes: int | None
    version: str | int | None
    # Each: clip key, first sample, one past the last, channel.
    windows: tuple[tuple[str, int, int, str], ...]


@dataclass(frozen=True)
class CutTask:
    """Windows to cut into one pack."""

    pack: Location
    sources: tuple[Source, ...]
    seconds: float


def recording_facts(recordings: pl.DataFrame) -> pl.DataFrame:
    """Return `recording_id` and the columns of recordings that planning needs.

    Columns that are missing are null.
    """
    return recordings.select(
        "recording_id",
        *(name if name in recordings else pl.lit(None).alias(name) for name in _FACTS),
    )


def with_audio_parts(workspace: Workspace) -> Iterator[pl.DataFrame]:
    """Yield the segments that can be cut, whatever their text.

    The columns are `row`, key, recording, window, channel and decision.
    """
    recordings = workspace.recordings
    names = ("segment_id", "recording_id", "start_sample", "end_sample", "decision")
    rules = {
        name: rule
        for name, rule in tables.segment_failures(recordings).items()
        if name not in ("duplicate", "empty_text")
    }
    broken = pl.any_horizontal(
        *rules.values(), pl.col("start_sample", "end_sample", "num_samples").is_null()
    )
    columns = (*names, "source_channel", "source_start", "source_end", "text")
    for start, part in with_starts(tables.read_batches(workspace, columns=columns)):
        rows = tables.with_recordings(tables.conform(part, tables.SEGMENTS, "segments"), recordings)
        numbered = rows.with_row_index("row", offset=start).filter(~broken.fill_null(value=False))
        yield numbered.select("row", *names, "source_channel")


def clip_keys(segments: pl.DataFrame, facts: pl.DataFrame, clip_format: ClipFormat) -> pl.Series:
    """Hash source, window, channel and format of every segment.

    Path, size and time or version stand for an unhashed source.
    """
    source = pl.coalesce(
        pl.col("sha256"),
        pl.format("{}|{}|{}", "path", "num_bytes", "version"),
        pl.format(
            "{}|{}|{}", "path", pl.col("num_bytes").fill_null(-1), pl.col("mtime_ns").fill_null(-1)
        ),
    )
    unchanged = (
        pl.col("codec").cast(pl.String).str.contains(_UNCHANGED_CODECS).fill_null(value=False)
    )
    version = pl.when(unchanged).then(_OLDER_CLIP_VERSION).otherwise(_CLIP_VERSION)
    pattern = f"{{}}|{{}}|{{}}|{clip_format.rate}|{{}}|{clip_format.encoding}|{{}}"
    channel = pl.col("source_channel").fill_null(clip_format.channel)
    described = pl.format(pattern, source, "start_sample", "end_sample", channel, version)
    keys = [pl.Series("clip_key", dtype=pl.String)]
    for part in segments.iter_slices(_ROWS):
        texts = (
            part.join(facts, on="recording_id", how="left", maintain_order="left")
            .select(described)
            .to_series()
        )
        keys.append(
            pl.Series(
                "clip_key",
                [hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts],
                dtype=pl.String,
            )
        )
    return pl.concat(keys)


class Windows:
    """What to cut, each clip once, by recording and position.

    They are frames on disk; `segments` and `seconds` are their amounts.
    """

    def __init__(
        self,
        missing: Iterable[pl.DataFrame],
        facts: pl.DataFrame,
        clip_format: ClipFormat,
        *,
        folder: Path,
        most: int,
    ) -> None:
        """List the windows of at most `most` segments.

        Segments with the same clip must be in the same frame of `missing`.
        """
        self.segments = 0
        self.seconds = 0.0
        self._folder = folder / "windows"
        self._buckets = Buckets(self._folder, most)
        known = (
            facts.select("recording_id", rate="sampling_rate")
            .sort("recording_id")
            .with_row_index("number")
        )
        seconds = (pl.col("end_sample") - pl.col("start_sample")) / pl.col("rate")
        channel = pl.col("source_channel").fill_null(clip_format.channel)
        number = (
            pl.col("number").fill_null(0).cast(pl.Int64) * self._buckets.count // max(1, len(known))
        )
        for part in missing:
            # Two segments with the same window of the same channel share a clip.
            once = part.unique("clip_key", keep="first", maintain_order=True)
            rated = once.join(known, on="recording_id", how="left", maintain_order="left")
            windows = rated.select(
                *_WINDOW, "^signal_key$", "number", channel=channel, seconds=seconds
            )
            self._buckets.add(windows, number)
            self.segments += len(part)
            self.seconds += float(windows["seconds"].sum())

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Yield the windows; those of a recording are in one frame."""
        return (
            windows.sort("recording_id", "start_sample", "end_sample", "channel")
            for windows in self._buckets
        )

    def recording_ids(self) -> Iterator[str]:
        """Yield the recordings that have windows."""
        for windows in self._buckets:
            yield from windows["recording_id"].unique(maintain_order=True)

    def remove(self) -> None:
        """Remove the windows from the disk."""
        atomic.remove(self._folder)


def cut_tasks(
    windows: Windows,
    facts: pl.DataFrame,
    audio_root: Location,
    packs: Location,
    *,
    used: Callable[[pl.DataFrame], object] = lambda _: None,
) -> Iterator[CutTask]:
    """Make the cut tasks of windows, the longest of a frame first so that workers end together.

    `used` gets the windows of each task.
    """
    archived = facts.clear()
    if is_in_archive(audio_root):
        archived = facts.filter(~pl.col("path").str.contains("://", literal=True))
        inside = pl.concat(part.join(archived, on="recording_id", how="semi") for part in windows)
        used(inside)
        yield from _tar_cut_tasks(inside, archived, audio_root, packs)

    def others() -> Iterator[pl.DataFrame]:
        return (
            part.join(archived, on="recording_id", how="anti", maintain_order="left")
            for part in windows
        )

    # A recording stays in one task unless it is longer than one; short recordings share a task.
    total = (
        windows.seconds
        if archived.is_empty()
        else sum(float(part["seconds"].sum()) for part in others())
    )
    wanted = min(max(total / _MIN_TASKS, _MIN_TASK_SECONDS), _TASK_SECONDS)
    part_of = _bin(pl.col("seconds"), wanted).over("recording_id").alias("part")
    sums = (pl.len(), pl.col("seconds").sum())
    ordered = facts.sort("recording_id")
    for own in others():
        parts = own.group_by("recording_id", part_of, maintain_order=True).agg(sums)[:, 2:]
        tasks = parts.group_by(task=_bin(pl.col("seconds"), wanted), maintain_order=True).agg(
            pl.col("len", "seconds").sum()
        )
        tasks = tasks.with_columns(start=pl.col("len").cum_sum() - pl.col("len"))
        longest_first = tasks.sort("seconds", "task", descending=[True, False])
        for start, length, seconds in longest_first.select("start", "len", "seconds").iter_rows():
            used(inside := own.slice(start, length))
            # A join with all recordings would take longer than the task.
            near = ordered[inside["number"][0] : inside["number"][-1] + 1]
            part = inside.join(near, on="recording_id", how="left", maintain_order="left")
            sources = [
                _source_of(frame, audio_root)
                for frame in part.partition_by("recording_id", maintain_order=True)
            ]
            yield cut_task(sources, packs, seconds)


def _bin(seconds: pl.Expr, wanted: float) -> pl.Expr:
    """Return the number of the bin of `wanted` seconds in which each row begins.

    The rows are laid end to end.
    """
    return ((seconds.cum_sum() - seconds) // wanted).cast(pl.Int64)


def _tar_cut_tasks(
    windows: pl.DataFrame, facts: pl.DataFrame, audio_root: Remote, packs: Location
) -> Iterator[CutTask]:
    """Make cut tasks that hold the bytes of the recordings of a compressed tar.

    They are in the order of the tar, which is read once, up to the last recording wanted.
    """
    ordered = windows.join(facts, on="recording_id", how="left", maintain_order="left").sort(
        "path", maintain_order=True
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
        size += len(place.content.data) if place.content else 0
        seconds += float(frame["seconds"].sum())
        if size >= _TAR_TASK_BYTES:
            yield cut_task(sources, packs, seconds)
            sources = []
            size = 0
            seconds = 0.0
    if sources:
        yield cut_task(sources, packs, seconds)


def cut_task(sources: Sequence[Source], packs: Location, seconds: float) -> CutTask:
    """Make a task whose pack is named after its clips."""
    keys = "\n".join(key for source in sources for key, *_ in source.windows)
    return CutTask(
        packs / f"{hashlib.sha256(keys.encode()).hexdigest()[:24]}.pack", tuple(sources), seconds
    )


def _source_of(windows: pl.DataFrame, audio_root: Location) -> Source:
    """Make the source of some windows of one recording, which carry its facts."""
    first = windows.row(0, named=True)
    path = (audio_root / first["path"]).with_sha256(first["sha256"])
    facts = {name: first[name] for name in ("num_samples", "sha256", "num_bytes")}
    own = tuple(windows.select("clip_key", "start_sample", "end_sample", "channel").iter_rows())
    return Source(
        path=path, version=first["mtime_ns" if path.local else "version"], windows=own, **facts
    )


@dataclass(frozen=True)
class ShardLimits:
    """Target bytes of a shard, or the number of shards of each split.

    `window` is how many consecutive segments stay together.
    """

    shard_size: int
    shard_count: int | None = None
    window: int = 1

    def __post_init__(self) -> None:
        for name, number in asdict(self).items():
            if number is not None and number < 1:
                raise InputError(f"{name} must be 1 or more, not {number}")


def assign_windows(segments: pl.DataFrame, size: int, *, label: str = "") -> pl.DataFrame:
    """Add the window of each segment and its `position` in it.

    A `window` is up to `size` consecutive segments of a recording and split.
    """
    number = pl.int_range(pl.len()).over("split", "recording_id")
    name = pl.format("{}{} {}", "recording_id", pl.lit(label), number // size)
    order = ("split", "recording_id", "start_sample", "end_sample", "segment_id")
    windows = (
        segments.select(order).sort(order).select("segment_id", window=name, position=number % size)
    )
    return segments.join(windows, on="segment_id", how="left", maintain_order="left")


def windows_on_disk(
    parts: Iterable[pl.DataFrame], size: int, *, folder: Path, most: int, label: str = ""
) -> Iterator[pl.DataFrame]:
    """Do the same as `assign_windows` for at most `most` segments in frames, on disk.

    The order of the segments changes. If `size` is 1, the frames are yielded as they are.
    """
    if size == 1:
        yield from parts
        return
    buckets = Buckets(folder / "recordings", most)
    for part in parts:
        buckets.add(part, pl.col("recording_id").hash() % buckets.count)
    for number in range(buckets.count):
        yield assign_windows(buckets.read(number, remove=True), size, label=label)


def short_windows(segments: pl.DataFrame | pl.LazyFrame, size: int) -> list[str]:
    """Return a note if recordings have fewer segments in a `split` than a window of this `size`.

    Otherwise the list is empty.
    """
    if size == 1:
        return []
    lengths = (
        segments.lazy()
        .group_by("split", "recording_id")
        .len("segments")
        .collect(engine="streaming")
    )
    short = lengths.filter(pl.col("segments") < size)["recording_id"].n_unique()
    if not short:
        return []
    recordings = lengths["recording_id"].n_unique()
    counts = lengths["segments"].to_list()
    partial = sum(count % size > 0 for count in counts)
    windows = sum(-(-count // size) for count in counts)
    return [
        f"window {size:,}: {short:,} of {recordings:,} recordings have fewer than "
        f"{size:,} segments in a split; "
        f"{partial:,} of {windows:,} windows are shorter, ends of longer recordings included"
    ]


class ShardPlan:
    """Shards with name and number of clips, and the clips of each, on disk."""

    def __init__(self, folder: Path, num_rows: int) -> None:
        self.folder = folder
        self._path = folder / "shards.arrows"
        self.shards: list[tuple[str, int]] = []
        # By row of the segments table; or `KEPT`.
        self.shard_of = np.full(num_rows, OUTSIDE, dtype=np.int32)

    def add(self, clips: pl.DataFrame, name: str = "") -> None:
        """Add a shard with these clips, in order.

        `row` is the number of each row in the segments table.
        """
        self.shard_of[clips["row"].to_numpy()] = len(self.shards)
        append_stream(self._path, clips.select(*_CLIP[1:], "^window$"))
        self.shards.append((name, len(clips)))

    def clips(self) -> Iterator[pl.DataFrame]:
        """Yield the clips of each shard, in the order of `shards`."""
        return read_streams(self._path)

    def assign(
        self,
        clips: Iterable[pl.DataFrame],
        expected: Mapping[str, int],
        limits: ShardLimits,
        name_of: Callable[[str, int, int], str],
    ) -> None:
        """Add shards of windows or clips in the order of a hash, divided at equal bytes.

        `expected` is how many clips each split has at most.
        """
        splits = sorted(expected)
        counts = [-(-expected[split] // BUCKET_ROWS) for split in splits]
        starts = [0, *accumulate(counts)]
        buckets = Buckets(self.folder / "order", starts[-1] * BUCKET_ROWS)
        known = pl.DataFrame({"split": splits, "start": starts[:-1], "count": counts})
        unit = "segment_id"
        inside = list[str]()
        for part in clips:
            unit, *inside = ("window", "position") if "window" in part.columns else ("segment_id",)
            placed = part.with_columns(hashing.hash_column(part[unit], "shard").alias("order"))
            placed = placed.join(known, on="split", how="left", maintain_order="left")
            place = (pl.col("order") // 2**32).cast(pl.Int64) * pl.col("count") // 2**32 + pl.col(
                "start"
            )
            buckets.add(
                placed.select(*_CLIP, "^(window|position)$", "order"),
                placed.select(place).to_series(),
            )
        for split, start, stop in zip(splits, starts[:-1], starts[1:], strict=True):
            made = len(self.shards)
            self._assign_split(buckets, range(start, stop), limits, (unit, *inside))
            count = len(self.shards) - made
            names = (name_of(split, index, count) for index in range(count))
            self.shards[made:] = [
                (name, length) for name, (_, length) in zip(names, self.shards[made:], strict=True)
            ]

    def _assign_split(
        self, buckets: Buckets, places: Iterable[int], limits: ShardLimits, order: Sequence[str]
    ) -> None:
        """Add the shards of a split, without names."""
        unit, *inside = order
        num_bytes = pl.col("length") + _CLIP_OVERHEAD_BYTES
        total = units = before = 0
        for place in places:
            sums = buckets.read(place).select(num_bytes.sum(), units=pl.col(unit).n_unique())
            total = total + sums.item(0, 0)
            units = units + sums.item(0, 1)
        count = min(
            -(-total // limits.shard_size) if limits.shard_count is None else limits.shard_count,
            units,
        )
        size = num_bytes.sum().over(unit)
        first = pl.col(unit).is_first_distinct()
        number = None
        held = list[pl.DataFrame]()
        for place in places:
            own = buckets.read(place, remove=True).sort("order", unit, *inside)
            end = pl.when(first).then(size).otherwise(0).cum_sum() + before
            shard = pl.min_horizontal(
                ((end - size / 2) * count / total).floor().cast(pl.Int64), count - 1
            )
            own = own.with_columns(end=end).with_columns(shard=shard).drop("order", *inside)
            before = own["end"][-1] if len(own) else before
            # If one clip is as large as several shards, there are fewer than bytes alone would ask
            # for.
            for (found,), part in (
                own.drop("end").partition_by("shard", as_dict=True, include_key=False).items()
            ):
                if held and found != number:
                    self.add(pl.concat(held))
                    held = []
                held.append(part)
                number = found
        if held:
            self.add(pl.concat(held))


def digest(parts: Iterable[pl.DataFrame]) -> str:
    """Hash a table that comes in parts.

    Return the hex SHA-256 of its column names and of its rows, in order, as JSON lines.
    """
    state = hashlib.sha256()
    for number, part in enumerate(parts):
        state.update(b"" if number else ",".join(part.columns).encode())
        state.update(part.write_ndjson().encode())
    return state.hexdigest()
