"""Keys of clips: hashes of the recording, the window, the channel and the format."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.tables import segment_rules, workspace_tables
from nbaudio.tables.buckets import Buckets, bucket_count, hex_bucket, write_buckets
from nbaudio.tables.workspace import Workspace

# Changed whenever the same window of the same source would give other bytes: old packs are then not
# used
_CLIP_VERSION = 4
_OLDER_CLIP_VERSION = 3  # clips of these codecs are the same as in version 3
_UNCHANGED_CODECS = r"^(pcm_.*|float|double|ulaw|alaw|flac|alac.*|wavpack|tta|mp3|gsm.*|amrnb)$"
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
_WINDOW = ("segment_id", "recording_id", "start_sample", "end_sample")


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


def recording_facts(recordings: pl.DataFrame) -> pl.DataFrame:
    """Return `recording_id` and the columns of recordings that planning needs.

    Columns that are missing are null.
    """
    return recordings.select(
        "recording_id",
        *(name if name in recordings else pl.lit(None).alias(name) for name in _FACTS),
    )


def segments_with_audio(workspace: Workspace) -> pl.LazyFrame:
    """Return the segments that can be cut, whatever their text, in the order of the table.

    The columns are `row`, `segment_id`, `recording_id`, `start_sample`, `end_sample`,
    `source_channel` and `decision`.
    """
    recordings = workspace.recordings
    rules = [
        is_failure
        for name, is_failure in segment_rules.segment_failures(recordings).items()
        if name not in ("duplicate", "empty_text")
    ]
    lacks_audio = pl.any_horizontal(
        *rules, pl.col("start_sample", "end_sample", "num_samples").is_null()
    )
    columns = (*_WINDOW, "source_channel", "source_start", "source_end", "text", "decision")
    facts = recordings.lazy().select("recording_id", "num_channels", "num_samples")
    return (
        segment_columns(workspace, columns)
        .join(facts, on="recording_id", how="left", maintain_order="left")
        .filter(~lacks_audio.fill_null(value=False))
        .select("row", *_WINDOW, "source_channel", "decision")
    )


def segment_columns(
    folder: workspace_tables.WorkspacePath, columns: tuple[str, ...]
) -> pl.LazyFrame:
    """Return `row`, from 0, and columns of the segments table in a folder, null where absent."""
    scanned = workspace_tables.scan(folder, columns)
    if "source_channel" in columns:
        has_channel = "source_channel" in scanned.collect_schema()
        channel = pl.col("source_channel") if has_channel else pl.lit(None)
        scanned = scanned.with_columns(source_channel=channel.cast(pl.String))
    return scanned.with_row_index("row")


def with_clip_keys(
    segments: pl.LazyFrame, facts: pl.DataFrame, clip_format: ClipFormat, name: str = "clip_key"
) -> pl.LazyFrame:
    """Add the key of the clip of each segment as column `name`, in order.

    It is a hash of source, window, channel and format. Path, size and time or version stand for an
    unhashed source.

    Args:
        segments: with the columns `recording_id`, `start_sample`, `end_sample`, `source_channel`.
        facts: `recording_facts` of all recordings.
        clip_format: the format of the clips.
        name: the name of the new column, 32 hex digits.
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
    key = described.map_batches(_hashes, return_dtype=pl.String, is_elementwise=True)
    return (
        segments.join(facts.lazy(), on="recording_id", how="left", maintain_order="left")
        .with_columns(key.alias(name))
        .select(*segments.collect_schema().names(), name)
    )


def _hashes(texts: pl.Series) -> pl.Series:
    """Return the first 32 hex digits of the SHA-256 of each text."""
    keys = [
        None if text is None else hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts
    ]
    return pl.Series(keys, dtype=pl.String)


def divide_keys(keys: pl.LazyFrame, *, num_rows: int, folder: Path) -> Buckets:
    """Divide about `num_rows` keys of clips, in the column `clip_key`, into a new `folder`."""
    count = bucket_count(num_rows)
    return write_buckets(keys, hex_bucket("clip_key", count), count=count, folder=folder)


def rows_without_key(rows: pl.LazyFrame, keys: Buckets, folder: Path) -> pl.DataFrame:
    """Return the rows whose `clip_key` is not among keys, which `divide_keys` divided.

    The rows are divided into a new `folder`, and are returned in any order.
    """
    bucket = hex_bucket("clip_key", keys.count)
    by_key = write_buckets(rows, bucket, count=keys.count, folder=folder)
    pairs = zip(by_key, keys, strict=True)
    return pl.concat(part.join(among, on="clip_key", how="anti") for part, among in pairs)
