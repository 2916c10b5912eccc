"""Plain files that anything opens: a shard is a folder of clips, and each split has a `metadata.csv` as AudioFolder reads it.

Files are named after their segments, `[hash]_123.4-135.4.wav`. A CSV knows no types: nested values are JSON in a cell, and
`segments.parquet` holds them as they are.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.hashing import clip_file_names
from nbaudio.corpus.containers.base import ClipLocation, WrittenShard, as_json


def write(path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None) -> list[ClipLocation]:
    """Write the files of one shard; see `containers.WriteShard`."""
    del rate  # every clip's own header and metadata say it
    path.mkdir()
    places = []
    for name, clip in zip(clip_file_names(metadata["segment_id"].to_list(), extension), audio, strict=True):
        (path / name).write_bytes(clip)
        places.append(ClipLocation(0, len(clip), name))
    return places


def beside(shards: Sequence[WrittenShard]) -> Iterator[tuple[str, Iterable[bytes]]]:
    """The table of each split; see `containers.WriteBeside`."""
    for split in dict.fromkeys(shard.split for shard in shards):
        yield f"{split}/metadata.csv", _lines([shard for shard in shards if shard.split == split])


def _lines(shards: Sequence[WrittenShard]) -> Iterator[bytes]:
    for number, shard in enumerate(shards):
        rows = shard.metadata()
        file = io.StringIO()
        table = csv.DictWriter(file, ["file_name", *rows.drop("shard").columns], lineterminator="\n")
        if number == 0:
            table.writeheader()
        for row in rows.iter_rows(named=True):
            name = row.pop("shard").partition("/")[2]
            table.writerow({"file_name": name} | {column: _cell(value) for column, value in row.items()})
        yield file.getvalue().encode()


def _cell(value: Any) -> Any:
    return as_json(value).decode() if isinstance(value, dict | list) else value
