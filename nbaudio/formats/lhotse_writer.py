"""Lhotse manifests: recordings, supervisions and a cut for every supervision, gzipped JSON lines, ``_<split>`` in their names.

Conventions: a segment that names no channel is on all of its recording's. What Lhotse has no field for is custom: `asr_text`,
`similarity`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.times import decimal_seconds
from nbaudio.formats.rows import TimedSegment, Writer, drop_none, timed_segments, write_lines
from nbaudio.storage.urls import is_url


def _files(out: Path, split: str | None) -> list[Path]:
    return [
        out / (f"{kind}_{split}.jsonl.gz" if split else f"{kind}.jsonl.gz") for kind in ("recordings", "supervisions", "cuts")
    ]


def _write(segments: pl.DataFrame, recordings: pl.DataFrame, out: Path, split: str | None) -> tuple[list[Path], list[str]]:
    written = {row["recording_id"]: _recording(row) for row in recordings.iter_rows(named=True)}
    parts: tuple[Iterator[dict[str, Any]], ...] = (
        iter(written.values()),
        (_supervision(each, each.start) for each in timed_segments(segments, recordings)),
        (_cut(each, written[each.row["recording_id"]]) for each in timed_segments(segments, recordings)),
    )
    return [write_lines(file, lines) for file, lines in zip(_files(out, split), parts, strict=True)], []


def _recording(row: dict[str, Any]) -> dict[str, Any]:
    channels = list(range(row["num_channels"]))
    return {
        "id": row["recording_id"],
        "sources": [{"type": "url" if is_url(row["file"]) else "file", "channels": channels, "source": row["file"]}],
        "sampling_rate": row["sampling_rate"],
        "num_samples": row["num_samples"],
        "duration": decimal_seconds(row["num_samples"], row["sampling_rate"]),
        "channel_ids": channels,
    }


def _supervision(each: TimedSegment, start: Any) -> dict[str, Any]:
    row = each.row
    custom = drop_none(asr_text=row["asr_text"], similarity=row["similarity"])
    return drop_none(
        id=row["segment_id"],
        recording_id=row["recording_id"],
        start=start,
        duration=each.duration,
        channel=_channel(each),
        text=row["text"],
        speaker=row["speaker_id"],
        custom=custom or None,
    )


def _cut(each: TimedSegment, recording: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": each.row["segment_id"],
        "start": each.start,
        "duration": each.duration,
        "channel": _channel(each),
        "supervisions": [_supervision(each, 0)],
        "recording": recording,
        "type": "MonoCut" if len(each.channels) == 1 else "MultiCut",
    }


def _channel(each: TimedSegment) -> int | list[int]:
    return each.channels[0] if len(each.channels) == 1 else each.channels


WRITER = Writer(_files, _write)
