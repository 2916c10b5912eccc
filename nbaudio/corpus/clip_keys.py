"""Keys of clips: hashes of the recording, the window, the channel and the format.

Clips with equal keys have equal bytes, so a clip that is already cut is found by its key.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from nbaudio.corpus.cutting import ClipFormat
from nbaudio.tables import rejection_reasons, workspace_tables
from nbaudio.tables.buckets import Buckets, bucket_count, hex_bucket, write_buckets
from nbaudio.tables.schemas import columns_or_nulls
from nbaudio.tables.workspace import Workspace

# Increased whenever the same window of the same recording would give other bytes: the keys change
# then, and clips cut by an earlier version are not used.
_CLIP_VERSION = 4
# Version 4 changed the bytes of some codecs only. Clips of recordings in these codecs keep the keys
# of version 3.
_OLDER_CLIP_VERSION = 3
_UNCHANGED_CODECS = r"^(pcm_.*|float|double|ulaw|alaw|flac|alac.*|wavpack|tta|mp3|gsm.*|amrnb)$"
# Columns of the recordings table that decide which bytes a clip has.
_RECORDING_COLUMNS = (
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
_REASONS_NOT_ABOUT_AUDIO = ("duplicate", "empty_text")


RECOGNIZER_FORMAT = ClipFormat(16000, "mix", "wav")
"""Format of the clips that recognizers get."""

RECOGNIZED_FOLDER = "recognized"
"""Folder of a workspace with the texts of recognizers, each with the key of its clip."""


def recording_facts(recordings: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of recordings that keys and cutting need, and `recording_id`.

    A column that `recordings` does not have is null.
    """
    nulls = [pl.lit(None).alias(name) for name in _RECORDING_COLUMNS if name not in recordings]
    return recordings.with_columns(nulls).select("recording_id", *_RECORDING_COLUMNS)


def segments_with_audio(workspace: Workspace, further: Iterable[str] = ()) -> pl.LazyFrame:
    """Return the segments whose window can be read from a recording, in the order of the table.

    Segments without text and duplicates are included. The columns are `row`, `segment_id`,
    `recording_id`, `start_sample`, `end_sample`, `source_channel`, `decision` and `further` ones.
    """
    recordings = workspace.recordings
    failures = rejection_reasons.segment_failures(recordings)
    audio_failures = [
        is_failure
        for reason, is_failure in failures.items()
        if reason not in _REASONS_NOT_ABOUT_AUDIO
    ]
    has_no_window = pl.col("start_sample", "end_sample", "num_samples").is_null()
    lacks_audio = pl.any_horizontal(*audio_failures, has_no_window)
    # `segment_failures` compares the times of the source and the text, too.
    compared = (*_WINDOW, "source_channel", "source_start", "source_end", "text", "decision")
    selected = tuple(dict.fromkeys((*_WINDOW, "source_channel", "decision", *further)))
    columns = tuple(dict.fromkeys((*compared, *further)))
    lengths = recordings.lazy().select("recording_id", "num_channels", "num_samples")
    return (
        segment_columns(workspace, columns)
        .join(lengths, on="recording_id", how="left", maintain_order="left")
        .filter(~lacks_audio.fill_null(value=False))
        .select("row", *selected)
    )


def segment_columns(
    folder: workspace_tables.WorkspacePath, columns: tuple[str, ...]
) -> pl.LazyFrame:
    """Return columns of the segments table in a folder, and `row`, the number of the row from 0.

    A column that the table does not have is null.
    """
    scanned = workspace_tables.scan(folder, columns)
    # Only some sources have the column, and `scan` leaves it out where the table has none.
    if "source_channel" in columns:
        channel = columns_or_nulls({"source_channel": pl.String()}, scanned.collect_schema())
        scanned = scanned.with_columns(channel)
    return scanned.with_row_index("row")


def with_clip_keys(
    segments: pl.LazyFrame, facts: pl.DataFrame, clip_format: ClipFormat, name: str = "clip_key"
) -> pl.LazyFrame:
    """Add the key of the clip of each segment as column `name`, in order.

    A key is a hash, in 32 hex digits, of the source, the window, the channel and the format.

    Args:
        segments: with the columns `recording_id`, `start_sample`, `end_sample`, `source_channel`.
        facts: `recording_facts` of all recordings.
        clip_format: the format of the clips.
        name: the name of the new column.
    """
    hashed_text = pl.format(
        "{}|{}|{}|{}|{}|{}|{}",
        _source_identity(),
        "start_sample",
        "end_sample",
        pl.lit(str(clip_format.rate)),
        pl.col("source_channel").fill_null(clip_format.channel),
        pl.lit(clip_format.encoding),
        _clip_version(),
    )
    key = hashed_text.map_batches(text_hashes, return_dtype=pl.String, is_elementwise=True)
    return (
        segments.join(facts.lazy(), on="recording_id", how="left", maintain_order="left")
        .with_columns(key.alias(name))
        .select(*segments.collect_schema().names(), name)
    )


def _source_identity() -> pl.Expr:
    """Return a text that is another one when the file of the recording has changed.

    It is the SHA-256 of the file. For a file that was not hashed it is path, size and the version
    that the store gives, and where there is no version, path, size and modification time.
    """
    # `pl.format` is null where one of its values is null.
    path_and_version = pl.format("{}|{}|{}", "path", "num_bytes", "version")
    path_and_time = pl.format(
        "{}|{}|{}", "path", pl.col("num_bytes").fill_null(-1), pl.col("mtime_ns").fill_null(-1)
    )
    return pl.coalesce("sha256", path_and_version, path_and_time)


def _clip_version() -> pl.Expr:
    """Return the version of the clips of a recording, by its codec."""
    codec = pl.col("codec").cast(pl.String)
    is_unchanged = codec.str.contains(_UNCHANGED_CODECS).fill_null(value=False)
    return pl.when(is_unchanged).then(_OLDER_CLIP_VERSION).otherwise(_CLIP_VERSION)


def text_hashes(texts: pl.Series) -> pl.Series:
    """Return the first 32 hex digits of the SHA-256 of each text."""
    keys = [
        None if text is None else hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts
    ]
    return pl.Series(keys, dtype=pl.String)


def divide_keys(keys: pl.LazyFrame, *, num_rows: int, folder: Path) -> Buckets:
    """Divide keys of clips, in the column `clip_key`, into buckets in a new `folder`.

    `num_rows`, about the number of keys, decides how many buckets there are.
    """
    count = bucket_count(num_rows)
    return write_buckets(keys, hex_bucket("clip_key", count), count=count, folder=folder)


def rows_without_key(rows: pl.LazyFrame, keys: Buckets, folder: Path) -> pl.DataFrame:
    """Return the rows whose `clip_key` is not in `keys`, the result of `divide_keys`.

    The rows are divided into a new `folder`, and are returned in any order.
    """
    bucket = hex_bucket("clip_key", keys.count)
    divided_rows = write_buckets(rows, bucket, count=keys.count, folder=folder)
    return pl.concat(
        bucket_rows.join(bucket_keys, on="clip_key", how="anti")
        for bucket_rows, bucket_keys in zip(divided_rows, keys, strict=True)
    )
