"""The containers that a corpus can be written in: one writer each, all of one shape.

A writer gets a path, a table of metadata and encoded clips, writes one shard, and says for each clip, in order, where its audio
is. It copies bytes and never decodes. What a container wants beside its shards is made at the end, from what the shards hold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import polars as pl

from nbaudio.audio import encoder
from nbaudio.audio.quantization import QUANTIZATIONS
from nbaudio.core.errors import InputError, get_by_name
from nbaudio.corpus.containers import arrow, files, lhotse_shar, mds, parquet, tfrecord, webdataset, zip
from nbaudio.corpus.containers.base import ClipLocation, WrittenShard


class WriteShard(Protocol):
    """Writes one shard."""

    def __call__(
        self, path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None
    ) -> list[ClipLocation]:
        """Write clips to `path`.

        Args:
            path: the file to write, or the folder to make.
            metadata: one row per clip, ``segment_id`` among the columns.
            audio: the encoded clips in the order of the rows, asked for one by one.
            extension: of the audio's own format, such as ``flac``.
            rate: Hz of all clips, None when they differ.

        Returns:
            Where each clip's audio is.
        """
        ...


class WriteBeside(Protocol):
    """Makes the files that lie beside the shards."""

    def __call__(self, shards: Sequence[WrittenShard]) -> Iterator[tuple[str, Iterable[bytes]]]:
        """Make them.

        Args:
            shards: all that there are, in order; of some splits there may be none.

        Yields:
            The path of a file inside the corpus, and its bytes in parts.
        """
        ...


_DATASETS = 'import datasets\n\ncorpus = datasets.load_dataset("path/to/this/folder")'
_DECODED = f'{_DATASETS}\nsamples = corpus["train"][0]["{{column}}"].get_all_samples().data  # a tensor of one row'
# What works without torchcodec, which `datasets` wants for any column that it takes for audio.
_ENCODED_ROWS = (
    f'{_DATASETS}.cast_column("{{column}}", datasets.Audio(decode=False))\nencoded = corpus["train"][0]["{{column}}"]["bytes"]'
)
_ENCODED_MEMBERS = (
    "import datasets\nfrom datasets import Json, Value\n\n"
    'columns = {{"__key__": Value("string"), "{column}": Value("binary"), "json": Json()}}\n'
    'corpus = datasets.load_dataset("path/to/this/folder", features=datasets.Features(columns))\n'
    'encoded = corpus["train"][0]["{column}"]'
)
_TABLE = (
    "import datasets\n\n"
    'clips = datasets.load_dataset("parquet", data_files="path/to/this/folder/segments.parquet", split="train")\n'
    "clip = clips[0]  # its `split` says which it belongs to\n"
    'with open(f"path/to/this/folder/{{clip[\'shard\']}}", "rb") as shard:\n'
    '    shard.seek(clip["offset"])\n'
    '    encoded = shard.read(clip["length"])'
)
_TENSORFLOW = 'import tensorflow_datasets as tfds\n\nsplits = tfds.builder_from_directory("path/to/this/folder").as_dataset()'

_LHOTSE = 'import lhotse\n\ntrain = lhotse.CutSet.from_shar(in_dir="path/to/this/folder/train")'
_STREAMING = (
    "from streaming import StreamingDataset\n\n"
    'train = StreamingDataset(local="path/to/this/folder", split="train", batch_size=1, shuffle=True)'
)


def _nothing(shards: Sequence[WrittenShard]) -> Iterator[tuple[str, Iterable[bytes]]]:
    del shards
    yield from ()


class Container(NamedTuple):
    """A container.

    Attributes:
        extension: of its shards; empty where a shard is a folder of files.
        write: its writer.
        reader: how the field's own library reads the corpus, in Python.
        beside: what makes the files beside the shards.
        stem: the pattern of the shards' names in the folder of their split.
        levels_only: it holds quantised audio and no other.
        encoded: how `datasets` reads it without decoding; ``{column}`` stands for the column of the audio.
        column: of the audio; the extension of the encoding unless given.
    """

    extension: str
    write: WriteShard
    reader: str = _DATASETS
    beside: WriteBeside = _nothing
    stem: str = "{split}-{index:05d}-of-{count:05d}"
    levels_only: bool = False
    encoded: str = _TABLE
    column: str | None = "audio"

    def readers(self, encoding: str) -> list[str]:
        """Code that reads the corpus with the field's own library; the first needs neither torchcodec nor PyTorch.

        Args:
            encoding: of the clips.

        Examples:
            >>> len(CONTAINERS["parquet"].readers("flac")), len(CONTAINERS["parquet"].readers("mulaw"))
            (2, 1)
        """
        if not self.for_datasets:
            return [self.reader]
        if encoding in QUANTIZATIONS:  # no audio to `datasets`; of AudioFolder's files it wants some
            return [self.encoded.format() if self.encoded == _TABLE else self.reader]
        column = self.column or encoder(encoding).extension
        return [code.format(column=column) for code in (self.encoded, _DECODED)]

    @property
    def is_folders(self) -> bool:
        """Whether a shard is a folder of files."""
        return not self.extension

    @property
    def for_datasets(self) -> bool:
        """Whether Hugging Face's `datasets` reads it."""
        return self.reader == _DATASETS

    def pattern(self, split: str) -> str:
        """The files of a split, as a pattern."""
        return f"{split}/{split}-*.{self.extension}" if self.extension else f"{split}/**"

    def shard_name(self, split: str, index: int, count: int) -> str:
        """The path of a shard inside a corpus.

        Examples:
            >>> CONTAINERS["webdataset"].shard_name("train", 3, 12)
            'train/train-00003-of-00012.tar'
        """
        stem = self.stem.format(split=split, index=index, count=count)
        return f"{split}/{stem}.{self.extension}" if self.extension else f"{split}/{stem}"


CONTAINERS: Mapping[str, Container] = MappingProxyType(
    {
        "webdataset": Container("tar", webdataset.write, encoded=_ENCODED_MEMBERS, column=None),
        "parquet": Container("parquet", parquet.write, encoded=_ENCODED_ROWS),
        "zip": Container("zip", zip.write),
        "tfrecord": Container("tfrecord", tfrecord.write, _TENSORFLOW, tfrecord.beside),
        "lhotse": Container("tar", lhotse_shar.write, _LHOTSE, lhotse_shar.beside, stem="recording.{index:06d}"),
        "mds": Container("mds", mds.write, _STREAMING, mds.beside),
        "arrow": Container("arrow", arrow.write, levels_only=True, encoded=_ENCODED_ROWS),
        "files": Container("", files.write, beside=files.beside),
    }
)


def container_named(name: str, *, encoding: str | None = None) -> Container:
    """The container of that name.

    Args:
        name: a key of `CONTAINERS`.
        encoding: of the clips that it is to hold, if it is to be written.

    Raises:
        InputError: there is none, which names those that are; or it does not hold such clips.
    """
    found = get_by_name(CONTAINERS, name, "container")
    if encoding is not None and found.levels_only and encoding not in QUANTIZATIONS:
        raise InputError(f"container {name} holds levels: encoding {' or '.join(QUANTIZATIONS)}, not {encoding}")
    return found
