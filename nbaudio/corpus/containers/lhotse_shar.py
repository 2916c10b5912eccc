"""Lhotse Shar: `recording.NNNNNN.tar` with the audio, and `cuts.NNNNNN.jsonl.gz`.

Names are escaped, because they are paths to Lhotse.
"""

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from nbaudio.corpus.containers.shard_files import ClipLocation, Shard, as_json, escape_device
from nbaudio.corpus.containers.webdataset import write_tar


def write(
    path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, **_: object
) -> list[ClipLocation]:
    """Write one tar; see `registry.WriteShard`."""
    rows = zip(metadata.iter_rows(named=True), audio, strict=True)
    return write_tar(
        path, ((_cut_id(row), clip, as_json(_recording(row))) for row, clip in rows), extension
    )


def side_files(shards: Sequence[Shard]) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Make the cuts of each shard; see `registry.SideFiles`."""
    for shard in shards:
        lines = (
            as_json(_cut(row)) + b"\n"
            for row in shard.metadata().drop("shard").iter_rows(named=True)
        )
        name = shard.name.replace("/recording.", "/cuts.").replace(".tar", ".jsonl.gz")
        yield name, [gzip.compress(b"".join(lines), compresslevel=6, mtime=0)]


def _cut_id(row: dict[str, Any]) -> str:
    """Return the id of the cut of a row, which is usable as a file name."""
    return escape_device(quote(row["segment_id"], safe=""))


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    """Return the cut of a row as Lhotse writes it in JSON."""
    window = {"start": 0, "duration": row["duration_s"], "channel": 0}
    supervision = {
        "id": row["segment_id"],
        "recording_id": _cut_id(row),
        "text": row["text"],
        "speaker": row["speaker_id"],
    }
    cut = {"id": _cut_id(row), "type": "MonoCut", "recording": _recording(row)}
    return {**window, **cut, "supervisions": [{**window, **supervision, "custom": row}]}


def _recording(row: dict[str, Any]) -> dict[str, Any]:
    """Return the recording of a row's clip as Lhotse writes it in JSON."""
    facts = {
        "sampling_rate": row["sampling_rate"],
        "num_samples": row["num_samples"],
        "duration": row["duration_s"],
    }
    return {
        "id": _cut_id(row),
        "sources": [{"type": "shar", "channels": [0], "source": ""}],
        **facts,
        "channel_ids": [0],
    }
