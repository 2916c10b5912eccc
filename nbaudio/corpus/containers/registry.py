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
    """A container."""

    extension: str  # that of its shards; empty if a shard is a folder of files
    write: WriteShard
    # Python code that reads the corpus with the usual library of the container.
    reader: str = _DATASETS
    side_files: SideFiles = lambda _: iter(())
    # The names of shards, without the extension, see `shard_names.shard_name`.
    stem: str = "{split}-{index:05d}-of-{count:05d}"
    levels_only: bool = False  # holds only quantized audio
    encoded: str = _TABLE  # how `datasets` reads it without decoding
    # The column of the audio; None if it has the name of the encoding's extension.
    column: str | None = "audio"

    def readers(self, encoding: str) -> list[str]:
        """Return code that reads the corpus with the usual libraries.

        The first needs neither torchcodec nor PyTorch.
        """
        if not self.for_datasets:
            return [self.reader]
        if encoding in QUANTIZATIONS:  # not audio to `datasets`, and AudioFolder needs audio files
            reader = self.encoded.format() if self.encoded == _TABLE else self.reader
            return [reader]
        return [
            code.format(column=self.column or encoder(encoding).extension)
            for code in (self.encoded, _DECODED)
        ]

    @property
    def for_datasets(self) -> bool:
        """Whether Hugging Face's `datasets` reads it."""
        return self.reader == _DATASETS

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
        "tfrecord": Container("tfrecord", tfrecord.write, _TENSORFLOW, tfrecord.side_files),
        "lhotse": Container(
            "tar", lhotse_shar.write, _LHOTSE, lhotse_shar.side_files, stem="recording.{index:06d}"
        ),
        "arrow": Container("arrow", arrow.write, levels_only=True, encoded=_ENCODED_ROWS),
        "files": Container("", files.write, side_files=files.side_files),
    }
)


def container_named(name: str, *, encoding: str | None = None) -> Container:
    """Return the container of that name.

    Raise `InputError` if there is none, or it cannot hold clips of `encoding`.
    """
    container = get_by_name(CONTAINERS, name, "container")
    if encoding is not None and container.levels_only and encoding not in QUANTIZATIONS:
        raise InputError(
            f"container {name} stores levels: encoding must be "
            f"{' or '.join(QUANTIZATIONS)}, not {encoding}"
        )
    return container
