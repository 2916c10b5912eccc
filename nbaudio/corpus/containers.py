"""The containers that a corpus can be written in: one writer each, all of one shape.

A writer gets a path, a table of metadata and encoded clips, writes one shard, and gives for each clip, in order, the byte offset
and length of its audio inside the file. It copies bytes and never decodes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import polars as pl

from nbaudio.corpus import parquet, webdataset
from nbaudio.errors import look_up


class WriteShard(Protocol):
    """Writes one shard."""

    def __call__(
        self, path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None
    ) -> list[tuple[int, int]]:
        """Write clips to `path`.

        Args:
            path: the file to write.
            metadata: one row per clip, ``segment_id`` among the columns.
            audio: the encoded clips in the order of the rows, asked for one by one.
            extension: of the audio's own format, such as ``flac``.
            rate: Hz of all clips, None when they differ.

        Returns:
            Offset and length in bytes of each clip's audio.
        """
        ...


class Container(NamedTuple):
    """A container: the extension of its files and its writer."""

    extension: str
    write: WriteShard


CONTAINERS: Mapping[str, Container] = MappingProxyType(
    {
        "webdataset": Container("tar", webdataset.write),
        "parquet": Container("parquet", parquet.write),
    }
)


def container_named(name: str) -> Container:
    """The container of that name.

    Raises:
        InputError: there is none; names those that are.
    """
    return look_up(CONTAINERS, name, "container")
