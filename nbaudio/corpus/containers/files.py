"""Plain files: a shard is a folder of clips.

Each split has a `metadata.csv` as AudioFolder reads it, with nested values as JSON.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from nbaudio.core.hashing import clip_file_names
from nbaudio.corpus.containers.shard_files import ClipLocation, Shard, as_json, group_by_split


def write(
    path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, **_: object
) -> list[ClipLocation]:
    """Write the files of one shard; see `registry.WriteShard`."""
    path.mkdir()
    places = []
    for name, clip in zip(
        clip_file_names(metadata["segment_id"].to_list(), extension), audio, strict=True
    ):
        (path / name).write_bytes(clip)
        places.append(ClipLocation(0, len(clip), name))
    return places


def side_files(shards: Sequence[Shard]) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Make the table of each split; see `registry.SideFiles`."""
    return (
        (f"{split}/metadata.csv", _lines(split_shards))
        for split, split_shards in group_by_split(shards).items()
    )


def _lines(shards: Sequence[Shard]) -> Iterator[bytes]:
    """Yield metadata.csv of a split in parts, one for each shard, the header first."""
    for number, shard in enumerate(shards):
        rows = shard.metadata()
        file = io.StringIO()
        table = csv.DictWriter(
            file, ["file_name", *rows.drop("shard").columns], lineterminator="\n"
        )
        if number == 0:
            table.writeheader()
        for row in rows.iter_rows(named=True):
            name = row.pop("shard").partition("/")[2]
            nested = {
                column: as_json(value).decode()
                for column, value in row.items()
                if isinstance(value, dict | list)
            }
            table.writerow({"file_name": name, **row, **nested})
        yield file.getvalue().encode()
