"""Registry of the containers that a corpus can be written in.

Each has a writer, and all writers have the same signature.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import polars as pl

from nbaudio.audio import encoder
from nbaudio.audio.quantization import QUANTIZATIONS
from nbaudio.core.errors import InputError, get_by_name
from nbaudio.corpus.containers import (
    arrow,
    files,
    lhotse_shar,
    parquet,
    tfrecord,
    webdataset,
    zip,
)
from nbaudio.corpus.containers.shard_files import ClipLocation, Shard


class WriteShard(Protocol):
    """Write one shard: copy bytes, never decode."""

    def __call__(
        self,
        path: Path,
        metadata: pl.DataFrame,
        audio: Iterable[bytes],
        *,
        extension: str,
        rate: int | None,
    ) -> list[ClipLocation]:
        """Write clips to `path`, a file or a new folder, and return where each clip's audio is.

        `metadata` has one row per clip, ``segment_id`` among the columns; `audio` has the encoded
        clips in the order of the rows, read one by one; `extension` is that of the audio format,
        such as ``flac``; `rate` in Hz is None if clips differ.
        """


# Yields the path in the corpus of each file beside the shards, and its bytes in parts; a split may
# have no shards.
SideFiles = Callable[[Sequence[Shard]], Iterator[tuple[str, Iterable[bytes]]]]

# Code that a data card shows. `{column}` is the column of the audio; braces that stay are doubled.
_DATASETS = 'import datasets\n\ncorpus = datasets.load_dataset("path/to/this/folder")'
_DECODED = (
    f'{_DATASETS}\nsamples = corpus["train"][0]["{{column}}"].get_all_samples().data  # a '
    "tensor of one row"
)
# Without torchcodec, which `datasets` needs for any audio column.
_ENCODED_ROWS = (
    f'{_DATASETS}.cast_column("{{column}}", datasets.Audio(decode=False))\nencoded = '
    f'corpus["train"][0]["{{column}}"]["bytes"]'
)
_ENCODED_MEMBERS = (
    "import datasets\nfrom datasets import Json, Value\n\n"
    'columns = {{"__key__": Value("string"), "{column}": Value("binary"), "json": Json()}}\n'
    'corpus = datasets.load_dataset("path/to/this/folder", features=datasets.Features(columns))\n'
    'encoded = corpus["train"][0]["{column}"]'
)
_TABLE = (
    "import datasets\n\n"
    'clips = datasets.load_dataset("parquet", '
    'data_files="path/to/this/folder/segments.parquet", split="train")\n'
    "clip = clips[0]  # its `split` says which it belongs to\n"
    'with open(f"path/to/this/folder/{{clip[\'shard\']}}", "rb") as shard:\n'
    '    shard.seek(clip["offset"])\n'
    '    encoded = shard.read(clip["length"])'
)
_TENSORFLOW = (
    "import tensorflow_datasets as tfds\n\nsplits = "
    'tfds.builder_from_directory("path/to/this/folder").as_dataset()'
)
_LHOTSE = 'import lhotse\n\ntrain = lhotse.CutSet.from_shar(in_dir="path/to/this/folder/train")'


class Container(NamedTuple):
    """How a corpus is written in a container, and read with the usual library of the container.

    Attributes:
        extension: of its shards; empty if a shard is a folder of files.
        write: writes a shard.
        reader: Python code that reads the corpus; None if Hugging Face's `datasets` reads it.
        side_files: the files beside the shards.
        stem: names of shards without the extension, see `shard_names.shard_name`.
        levels_only: it holds only quantized audio.
        encoded: code by which `datasets` reads clips without decoding; None if it has to read them
            from the shards, at the offsets in segments.parquet.
        column: the column that `datasets` gives the audio; None if it has the name of the
            encoding's extension.
    """

    extension: str
    write: WriteShard
    reader: str | None = None
    side_files: SideFiles = lambda _: iter(())
    stem: str = "{split}-{index:05d}-of-{count:05d}"
    levels_only: bool = False
    encoded: str | None = None
    column: str | None = "audio"

    @property
    def for_datasets(self) -> bool:
        """Whether Hugging Face's `datasets` reads it."""
        return self.reader is None

    def readers(self, encoding: str) -> list[str]:
        """Return code that reads the corpus with the usual libraries.

        The first needs neither torchcodec nor PyTorch.
        """
        if self.reader is not None:
            return [self.reader]
        if encoding in QUANTIZATIONS:
            # Levels are not audio to `datasets`, and its AudioFolder needs audio files.
            return [_TABLE.format() if self.encoded is None else _DATASETS]
        column = self.column or encoder(encoding).extension
        encoded = self.encoded or _TABLE
        return [encoded.format(column=column), _DECODED.format(column=column)]

    def pattern(self, split: str) -> str:
        """Return a glob pattern of the files of a split."""
        if self.extension:
            return f"{split}/{split}-*.{self.extension}"
        return f"{split}/**"


CONTAINERS: Mapping[str, Container] = MappingProxyType(
    {
        "webdataset": Container("tar", webdataset.write, encoded=_ENCODED_MEMBERS, column=None),
        "parquet": Container("parquet", parquet.write, encoded=_ENCODED_ROWS),
        "zip": Container("zip", zip.write),
        "tfrecord": Container(
            "tfrecord", tfrecord.write, reader=_TENSORFLOW, side_files=tfrecord.side_files
        ),
        "lhotse": Container(
            "tar",
            lhotse_shar.write,
            reader=_LHOTSE,
            side_files=lhotse_shar.side_files,
            stem="recording.{index:06d}",
        ),
        "arrow": Container("arrow", arrow.write, levels_only=True, encoded=_ENCODED_ROWS),
        "files": Container("", files.write, side_files=files.side_files),
    }
)


def container_named(name: str, *, encoding: str | None = None) -> Container:
    """Return the container of a name.

    Raise InputError if there is none, or it cannot hold clips of `encoding`.
    """
    container = get_by_name(CONTAINERS, name, "container")
    if encoding is not None and container.levels_only and encoding not in QUANTIZATIONS:
        raise InputError(
            f"container {name} stores levels: encoding must be "
            f"{' or '.join(QUANTIZATIONS)}, not {encoding}"
        )
    return container
