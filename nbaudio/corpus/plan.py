"""Every decision about clips and shards, made without touching audio: tasks that any engine can carry.

*Cut* tasks turn windows of recordings into packs of encoded clips, in the order of the recordings. *Pack* tasks copy clips into
shards. A clip is known by its key, a hash of source, window and format: what has been cut once is never cut again.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.hashing import hash_column
from nbaudio.storage.folders import Folder
from nbaudio.storage.remote import Remote

# Changes whenever the same window of the same source would give other bytes: old packs are then not used.
_CLIP_VERSION = 4
# Clips of these codecs are the same as in version 3.
_OLDER_CLIP_VERSION = 3
_UNCHANGED_CODECS = r"^(pcm_.*|float|double|ulaw|alaw|flac|alac.*|wavpack|tta|mp3|gsm.*|amrnb)$"
# Audio in one cut task: short enough to share out evenly and to lose little when killed, long enough to open few files.
_TASK_SECONDS = 1200.0
_LEAST_TASK_SECONDS = 60.0
_FEWEST_TASKS = 16
# What is known of a recording, beside its key, that its clips depend on.
_FACTS = ("path", "sampling_rate", "num_samples", "sha256", "num_bytes", "mtime_ns", "version", "codec")
# Rows that are looked at together: as Python strings, all keys at once would be most of a driver's memory.
_ROWS = 20_000
# Metadata and headers beside a clip's audio in a shard, for sizing only.
_CLIP_OVERHEAD_BYTES = 2048


@dataclass(frozen=True)
class ClipFormat:
    """What a clip is: rate in Hz (None keeps the recording's own), channel where a segment names none, encoding."""

    rate: int | None
    channel: str
    encoding: str


@dataclass(frozen=True)
class Source:
    """One recording and the windows to cut from it, in order.

    Attributes:
        recording_id: its key.
        path: the file, or where it lies.
        num_samples: its true length; nothing behind it is read.
        sha256: of the file's bytes when it was ingested, if taken.
        num_bytes: its size then, if known.
        mtime_ns: its time of change then, if known.
        version: what its server called it then, if it lies elsewhere.
        windows: (clip key, first sample, one past the last, channel).
    """

    recording_id: str
    path: Path | Remote
    num_samples: int
    sha256: str | None
    num_bytes: int | None
    mtime_ns: int | None
    version: str | None
    windows: tuple[tuple[str, int, int, str], ...]


@dataclass(frozen=True)
class CutTask:
    """Windows to cut into one pack."""

    pack: Path | Remote
    format: ClipFormat
    sources: tuple[Source, ...]
    seconds: float


@dataclass(frozen=True)
class PackTask:
    """One shard to write.

    Attributes:
        folder: of the corpus.
        name: of the shard in it.
        container: a key of `containers.CONTAINERS`.
        format: of the clips.
        clips: one row per clip in the order of the shard: `segment_id`, `split`, what the clip is (`num_samples`,
            `sampling_rate`, `duration_s`) and where it lies (`pack`, `offset`, `length`, `clip_sha256`).
        rows: a file with all further metadata of these segments; too large to be sent to every worker.
        record: where to note what the shard holds.
    """

    folder: Folder
    name: str
    container: str
    format: ClipFormat
    clips: pl.DataFrame
    rows: Path
    record: Path


def recording_facts(recordings: pl.DataFrame) -> pl.DataFrame:
    """`recording_id` and what planning needs to know of recordings: path, rate, length, hash, size, time, version, codec."""
    absent = [pl.lit(None).alias(name) for name in _FACTS if name not in recordings.columns]
    return recordings.with_columns(absent).select("recording_id", *_FACTS)


def join_recording_facts(segments: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Segments with the facts of their recordings, in their order."""
    return segments.join(recordings, on="recording_id", how="left", maintain_order="left")


def clip_keys(segments: pl.DataFrame, recordings: pl.DataFrame, clip_format: ClipFormat) -> pl.Series:
    """The key of every segment's clip: hex of a SHA-256 over source, window, channel and format.

    `segments` has `recording_id`, `start_sample`, `end_sample` and `source_channel`; `recordings` is from `recording_facts`.
    Where no hash was taken, path, size and time of change or version stand for the source.
    """
    source = pl.coalesce(
        pl.col("sha256"),
        pl.format("{}|{}|{}", "path", "num_bytes", "version"),
        pl.format("{}|{}|{}", "path", pl.col("num_bytes").fill_null(-1), pl.col("mtime_ns").fill_null(-1)),
    )
    unchanged = pl.col("codec").cast(pl.String).str.contains(_UNCHANGED_CODECS).fill_null(value=False)
    version = pl.when(unchanged).then(_OLDER_CLIP_VERSION).otherwise(_CLIP_VERSION)
    pattern = f"{{}}|{{}}|{{}}|{clip_format.rate}|{{}}|{clip_format.encoding}|{{}}"
    described = pl.format(pattern, source, "start_sample", "end_sample", _channel(clip_format), version)
    parts = (join_recording_facts(part, recordings) for part in segments.iter_slices(_ROWS))
    keys = [_short_hashes(part.select(described).to_series()) for part in parts]
    return pl.concat([pl.Series(dtype=pl.String), *keys]).alias("clip_key")


def _channel(clip_format: ClipFormat) -> pl.Expr:
    """The channel to cut: a segment's own goes before that of the corpus."""
    return pl.col("source_channel").fill_null(clip_format.channel)


def _short_hashes(texts: pl.Series) -> pl.Series:
    return pl.Series([hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts], dtype=pl.String)


def cut_tasks(
    windows: pl.DataFrame, recordings: pl.DataFrame, audio_root: Path | Remote, packs: Path | Remote, clip_format: ClipFormat
) -> Iterator[CutTask]:
    """Cut tasks for clips, longest first so that the last workers end together.

    Args:
        windows: as of `cut_windows`.
        recordings: as of `recording_facts`.
        audio_root: the folder that recordings' paths are relative to.
        packs: the folder for packs.
        clip_format: what to make.
    """
    # A recording stays in one task unless it is longer than one; short recordings share a task.
    wanted = min(max(float(windows["seconds"].sum()) / _FEWEST_TASKS, _LEAST_TASK_SECONDS), _TASK_SECONDS)
    part_of = _bin(pl.col("seconds"), wanted).over("recording_id").alias("part")
    parts = windows.group_by("recording_id", part_of, maintain_order=True).agg(pl.len(), pl.col("seconds").sum())
    tasks = (
        parts.group_by(task=_bin(pl.col("seconds"), wanted), maintain_order=True)
        .agg(pl.col("len").sum(), pl.col("seconds").sum())
        .with_columns(start=pl.col("len").cum_sum() - pl.col("len"))
        .sort("seconds", "task", descending=[True, False])
    )
    for start, length, seconds in tasks.select("start", "len", "seconds").iter_rows():
        part = join_recording_facts(windows.slice(start, length), recordings)
        sources = [source_of(frame, audio_root) for frame in part.partition_by("recording_id", maintain_order=True)]
        yield cut_task(sources, packs, clip_format, seconds)


def cut_windows(missing: pl.DataFrame, recordings: pl.DataFrame, clip_format: ClipFormat) -> pl.DataFrame:
    """What to cut, each clip once, by recording and place.

    Args:
        missing: `clip_key`, `recording_id`, `start_sample`, `end_sample` and `source_channel` of segments without clips.
        recordings: as of `recording_facts`.
        clip_format: what to make.

    Returns:
        `clip_key`, `recording_id`, `start_sample`, `end_sample`, `channel`, `seconds`.
    """
    rates = recordings.select("recording_id", rate="sampling_rate")
    seconds = (pl.col("end_sample") - pl.col("start_sample")) / pl.col("rate")
    return (
        missing.lazy()
        # Two segments with the same window of the same channel share a clip.
        .unique("clip_key", keep="first", maintain_order=True)
        .join(rates.lazy(), on="recording_id", how="left", maintain_order="left")
        .select("clip_key", "recording_id", "start_sample", "end_sample", channel=_channel(clip_format), seconds=seconds)
        .sort("recording_id", "start_sample", "end_sample", "channel")
        .collect()
    )


def cut_task(sources: Sequence[Source], packs: Path | Remote, clip_format: ClipFormat, seconds: float) -> CutTask:
    """A task whose pack is named after its clips."""
    keys = "\n".join(key for source in sources for key, *_ in source.windows)
    return CutTask(packs / f"{hashlib.sha256(keys.encode()).hexdigest()[:24]}.pack", clip_format, tuple(sources), seconds)


def _bin(seconds: pl.Expr, wanted: float) -> pl.Expr:
    """The number of the bin of `wanted` seconds that each row begins in, with all rows laid end to end."""
    return ((seconds.cum_sum() - seconds) // wanted).cast(pl.Int64)


def source_of(windows: pl.DataFrame, audio_root: Path | Remote) -> Source:
    """The recording of some windows, all of the same, which carry its facts."""
    first = windows.row(0, named=True)
    path = audio_root / first["path"]
    return Source(
        recording_id=first["recording_id"],
        path=replace(path, sha256=first["sha256"]) if isinstance(path, Remote) else path,
        num_samples=first["num_samples"],
        sha256=first["sha256"],
        num_bytes=first["num_bytes"],
        mtime_ns=first["mtime_ns"],
        version=first["version"],
        windows=tuple(windows.select("clip_key", "start_sample", "end_sample", "channel").iter_rows()),
    )


@dataclass(frozen=True)
class ShardLimits:
    """How clips are dealt out to shards.

    Attributes:
        size: wanted bytes of a shard.
        count: how many shards each split has instead, if given; no more than it has clips.
        window: how many consecutive segments of a recording stay together, in order.
    """

    size: int
    count: int | None = None
    window: int = 1

    def to_json(self) -> dict[str, int | None]:
        """As corpus.json holds it."""
        return {"shard_size": self.size, "shard_count": self.count, "window": self.window}

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            InputError: a number is less than 1.
        """
        for name, number in (("shard_size", self.size), ("shard_count", self.count), ("window", self.window)):
            if number is not None and number < 1:
                raise InputError(f"{name} must be 1 or more, not {number}")


def assign_windows(segments: pl.DataFrame, size: int) -> pl.DataFrame:
    """Give every segment its window: `window`, a name, and `position` in it, from 0; none where `size` is 1.

    A window holds up to `size` segments of one recording and one split that follow each other.

    Args:
        segments: with `segment_id`, `recording_id`, `split`, `start_sample`, `end_sample`; the order is kept.
        size: segments in a window.

    Examples:
        >>> table = pl.DataFrame({"segment_id": ["b", "a", "c"], "start_sample": [9, 0, 12], "end_sample": [12, 9, 20]})
        >>> assign_windows(table.with_columns(recording_id=pl.lit("r"), split=pl.lit("dev")), 2)["window"].to_list()
        ['r 0', 'r 0', 'r 1']
    """
    if size == 1:
        return segments
    number = pl.int_range(pl.len()).over("split", "recording_id")
    ordered = segments.select("segment_id", "recording_id", "split", "start_sample", "end_sample").sort(
        "split", "recording_id", "start_sample", "end_sample", "segment_id"
    )
    windows = ordered.select(
        "segment_id", pl.format("{} {}", "recording_id", number // size).alias("window"), (number % size).alias("position")
    )
    return segments.join(windows, on="segment_id", how="left", maintain_order="left")


def assign_shards(clips: pl.DataFrame, sharding: ShardLimits) -> pl.DataFrame:
    """Give every clip its shard: `shard` (from 0) and `shards` (how many its split has), rows in the order inside shards.

    Inside a split, clips are ordered by a hash of their key and dealt out at equal bytes: every shard is a random sample of its
    split, none is empty, none is much larger than wanted. Of windows the same is true.

    Args:
        clips: with `segment_id`, `split` and `length` (bytes of audio), and where there are windows `window` and `position`.
        sharding: how.
    """
    unit, *inside = ("window", "position") if "window" in clips.columns else ("segment_id",)
    size = (pl.col("length") + _CLIP_OVERHEAD_BYTES).sum().over("split", unit)
    first = pl.col(unit).is_first_distinct().over("split")
    ordered = clips.with_columns(hash_column(clips[unit], "shard").alias("order")).sort("split", "order", unit, *inside)
    total = size.filter(first).sum().over("split")
    wanted = (total + (sharding.size - 1)) // sharding.size if sharding.count is None else pl.lit(sharding.count)
    count = pl.min_horizontal(wanted, pl.col(unit).n_unique().over("split"))
    end = pl.when(first).then(size).otherwise(0).cum_sum().over("split")
    shard = pl.min_horizontal(((end - size / 2) * count / total).floor().cast(pl.Int64), count - 1)
    # Where one clip is as large as several shards, fewer are needed than bytes alone would ask for.
    number = (shard.rank("dense").over("split") - 1).cast(pl.Int64)
    dealt = ordered.with_columns(shard=number).drop("order", *inside)
    return dealt.with_columns(shards=pl.col("shard").n_unique().over("split").cast(pl.Int64))


def digest(parts: Iterable[pl.DataFrame]) -> str:
    """A hash of all cells, columns and rows in order, of a table that comes in parts: hex SHA-256 over the rows as JSON lines.

    Examples:
        >>> whole, parts = pl.DataFrame({"a": [1, 2]}), [pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})]
        >>> digest([whole]) == digest(parts)
        True
    """
    state = hashlib.sha256()
    for number, part in enumerate(parts):
        if number == 0:
            state.update(",".join(part.columns).encode())
        state.update(part.write_ndjson().encode())
    return state.hexdigest()
