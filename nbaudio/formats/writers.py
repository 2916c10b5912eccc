"""What writers of manifests for other toolkits share.

These are the type `Writer`, segments with exact times, and JSON lines.
"""

import gzip
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from nbaudio.audio.channels import channel_numbers, split_track
from nbaudio.core.atomic import atomic_write
from nbaudio.core.errors import InputError
from nbaudio.core.times import decimal_seconds
from nbaudio.tables.rejection_reasons import source_channel

_encode = msgspec.json.Encoder(decimal_format="number").encode


Parts = Callable[[], Iterable[pl.DataFrame]]  # reads segments from the beginning, batch by batch


class Writer(NamedTuple):
    """A format of manifests for other toolkits."""

    # Lists the files of a split (None: of segments without one) in a folder.
    files: Callable[[Path, str | None], list[Path]]
    # Writes segments and their recordings (with `file`), and returns files and notes to the user.
    write: Callable[[Parts, pl.DataFrame, Path, str | None], tuple[list[Path], list[str]]]
    rejects: Callable[[str], str | None] = lambda _: None  # tells why it cannot name such a file


def timed_segments(parts: Parts, recordings: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Iterate over segments with the facts of their recordings.

    Each row also has `start`, `end` and `duration` (seconds, exact), `channels` and `partly`.
    """
    facts = recordings.select(
        "recording_id", "file", "sampling_rate", "num_channels", "num_samples"
    )
    columns = (
        "segment_id",
        "recording_id",
        "start_sample",
        "end_sample",
        "text",
        "asr_text",
        "speaker_id",
        "similarity",
    )
    chosen = (part.select(*columns, source_channel(part)) for part in parts())
    joined = (
        part.join(facts, on="recording_id", how="left", maintain_order="left") for part in chosen
    )
    for row in chain.from_iterable(part.iter_rows(named=True) for part in joined):
        start, end = (
            decimal_seconds(row[edge], row["sampling_rate"])
            for edge in ("start_sample", "end_sample")
        )
        own_channel = row["source_channel"] or "mix"
        if split_track(own_channel)[0] is not None:
            raise InputError(
                f"{row['segment_id']}: it is on an audio track of {row['file']}, which manifests "
                "cannot name; extract the track, such as by ffmpeg -map 0:a:1, and ingest that"
            )
        channels = channel_numbers(own_channel, row["num_channels"])
        partly = len(channels) < row["num_channels"]
        yield row | {
            "start": start,
            "end": end,
            "duration": end - start,
            "channels": channels,
            "partly": partly,
        }


def drop_none(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def write_json_lines(target: Path, values: Iterable[dict[str, Any]]) -> Path:
    """Write JSON lines atomically, gzipped if the name ends in .gz.

    Decimals become numbers with all their digits.
    """
    lines = (_encode(value) + b"\n" for value in values)
    with atomic_write(target) as partial, partial.open("wb") as file:
        if target.suffix == ".gz":
            # Neither name nor time, so that equal lines are equal bytes.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as zipped:
                zipped.writelines(lines)
        else:
            file.writelines(lines)
    return target
