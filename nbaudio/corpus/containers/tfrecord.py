"""TFRecord shards of clips, or of windows of consecutive segments.

A clip is a `tf.train.Example`, a window is a `tf.train.SequenceExample`.
"""

import math
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import polars as pl
from google_crc32c import extend

from nbaudio.corpus.containers.shard_files import (
    ClipLocation,
    Shard,
    as_json,
    group_by_split,
    version_of,
)
from nbaudio.tables.parquet_files import scan_rows
from nbaudio.tables.schemas import WORD_TIMES

# Reserved names, and columns that are only known when the shard is written.
_NOT_FEATURES = ("audio", "json", "window", "shard", "offset", "length", "audio_sha256")
_CRC_MASK = 0xA282EAD8
_CRC_BYTES = 4
_LENGTH_DELIMITED = 2  # the wire type of texts, bytes and messages
# Clips whose features are made at once.
_ROWS = 1000
_MODULES = "tensorflow_datasets.core.features"


class _Kind(NamedTuple):
    """The features of a column, and its description for tfds.

    Each feature is a function of a value, by the suffix of the feature's name.
    """

    features: Mapping[str, Callable[[Any], bytes]]
    tfds: Mapping[str, Any]


# Sources: https://protobuf.dev/programming-guides/encoding, TensorFlow's example.proto,
# feature.proto and record_writer.h.
def _varint(number: int) -> bytes:
    """Encode a number of at most 64 bits; negative ones as two's complement."""
    rest = number & 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def _field(number: int, *parts: bytes) -> bytes:
    """Encode a field that holds bytes, a text or a message."""
    return b"".join(_wrap(number, parts))


def _wrap(number: int, parts: Sequence[bytes]) -> list[bytes]:
    """Return the parts of a field without joining them.

    Those of a clip are too large to be joined again at every level.
    """
    return [_head(number, sum(map(len, parts))), *parts]


@lru_cache(maxsize=4096)  # most are short and repeat
def _head(number: int, size: int) -> bytes:
    """Return the tag and the size of field `number` with a value of `size` bytes."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(size)


@lru_cache(maxsize=256)  # null values, for example, repeat in every clip
def _map_entry(key: str, value: bytes) -> bytes:
    """Encode an entry of a map from texts to messages, as `Features` and `FeatureLists` hold it."""
    return _field(1, _field(1, key.encode()), _field(2, value))


def _bytes(value: bytes) -> bytes:
    """Return a Feature of one byte string."""
    return _field(1, _field(1, value))


def _floats(values: Sequence[float]) -> bytes:
    """Return a Feature of floats."""
    return _field(2, _field(1, array("f", values).tobytes()))


def _tensor(dtype: str) -> dict[str, Any]:
    """Return the JSON of a tensor feature of TensorFlow Datasets."""
    return {
        "pythonClassName": f"{_MODULES}.tensor_feature.Tensor",
        "tensor": {"shape": {}, "dtype": dtype, "encoding": "none"},
    }


def _features_dict(features: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a FeaturesDict of TensorFlow Datasets."""
    return {
        "pythonClassName": f"{_MODULES}.features_dict.FeaturesDict",
        "featuresDict": {"features": features},
    }


def _times(side: str) -> Callable[[list[dict[str, float]] | None], bytes]:
    """Return a function that encodes the start or end of each word."""
    return lambda words: _floats([word[side] for word in words or []])


@lru_cache(maxsize=4096)  # speakers, recordings and rates repeat
def _text(text: str | None) -> bytes:
    """Return a Feature of a text; null becomes empty."""
    return _bytes((text or "").encode())


@lru_cache(maxsize=4096)
def _integer(number: int | None) -> bytes:
    """Return a Feature of a whole number; null becomes -1."""
    if number is None:
        number = -1
    return _field(3, _field(1, _varint(number)))


def _float(number: float | None) -> bytes:
    """Return a Feature of a number; null becomes NaN."""
    if number is None:
        number = math.nan
    return _floats([number])


_TEXT = _Kind({"": _text}, {"pythonClassName": f"{_MODULES}.text_feature.Text", "text": {}})
_INTEGER = _Kind({"": _integer}, _tensor("int64"))
_FLOAT = _Kind({"": _float}, _tensor("float32"))
_TIMES = _Kind(
    {f"/{side}": _times(side) for side in ("start", "end")},
    {
        "pythonClassName": f"{_MODULES}.sequence_feature.Sequence",
        "sequence": {
            "feature": _features_dict(dict.fromkeys(("start", "end"), _tensor("float32"))),
            "length": "-1",
        },
    },
)


def write(
    path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], **_: object
) -> list[ClipLocation]:
    """Write one TFRecord file; see `registry.WriteShard`.

    If rows have a `window`, each window is a SequenceExample.
    """
    has_windows = "window" in metadata.columns
    clips = iter(audio)
    locations: list[ClipLocation] = []
    with path.open("wb") as file:
        rows = _features(metadata, _kinds(metadata.schema))
        for window, rows_of_window in groupby(rows, key=itemgetter(0)):
            features = [features_of_clip for _, features_of_clip in rows_of_window]
            clips_of_window = list(islice(clips, len(features)))
            sounds = [_wrap(1, _wrap(1, [clip])) for clip in clips_of_window]
            if has_windows:
                record = _sequence_example(window, features, sounds)
            else:
                record = _example(features[0], sounds[0])
            _write_record(file, record)
            # A clip is the end of its feature, and the last feature is the end of the record.
            sizes = [sum(map(len, _wrap(1, sound))) for sound in sounds]
            ends = file.tell() - _CRC_BYTES - sum(sizes) + np.cumsum(sizes)
            locations += [
                ClipLocation(int(end) - len(clip), len(clip))
                for end, clip in zip(ends, clips_of_window, strict=True)
            ]
    return locations


def _example(features: Mapping[str, bytes], sound: list[bytes]) -> list[bytes]:
    """Return the parts of a `tf.train.Example`: the features of a clip, the audio last."""
    entries = b"".join([_map_entry(name, feature) for name, feature in features.items()])
    return _wrap(1, [entries, *_audio(sound)])


def _sequence_example(
    window: str, features: Sequence[Mapping[str, bytes]], sounds: Sequence[list[bytes]]
) -> list[bytes]:
    """Return the parts of a `tf.train.SequenceExample`: the clips of a window, the audio last."""
    context = _field(1, _map_entry("window", _text(window)))
    lists = [
        _map_entry(name, b"".join(_field(1, of_clip[name]) for of_clip in features))
        for name in features[0]
    ]
    audio = _audio([part for sound in sounds for part in _wrap(1, sound)])
    return [context, *_wrap(2, [*lists, *audio])]


def side_files(shards: Sequence[Shard]) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Make the files that TensorFlow Datasets needs; see `registry.SideFiles`."""
    schema = scan_rows(shards[0].rows).collect_schema()
    if "window" in schema:
        return
    features = {"audio": _tensor("string"), "json": _TEXT.tfds} | {
        name: kind.tfds for name, kind in _kinds(schema).items()
    }
    dataset_info = {
        "name": "corpus",
        "version": "1.0.0",
        "fileFormat": "tfrecord",
        "splits": [*_splits(shards)],
    }
    yield "dataset_info.json", [as_json(dataset_info)]
    yield "features.json", [as_json(_features_dict(features))]


def _splits(shards: Sequence[Shard]) -> Iterator[dict[str, Any]]:
    """Describe the splits for tfds.

    Shards of a later version are a split of their own, such as ``train_v2``.
    """
    for split, shards_of_split in group_by_split(shards).items():
        for version in sorted({version_of(shard.name) for shard in shards_of_split}):
            part = [shard for shard in shards_of_split if version_of(shard.name) == version]
            sizes = {shard.name: shard.segments for shard in part}
            # A shard all of whose clips were withdrawn is missing, which is none of zero examples
            # to tfds.
            first, _, count = Path(part[0].name).stem.rpartition("-of-")
            stem = first.rpartition("-")[0]
            names = (
                f"{split}/{stem}-{number:05d}-of-{count}.tfrecord" for number in range(int(count))
            )
            name = split if version == 1 else f"{split}_v{version}"
            yield {
                "name": name,
                "filepathTemplate": f"{split}/{stem}-{{SHARD_X_OF_Y}}.{{FILEFORMAT}}",
                "numBytes": str(sum(shard.num_bytes for shard in part)),
                "shardLengths": [str(sizes.get(name, 0)) for name in names],
            }


def _kinds(schema: Mapping[str, pl.DataType]) -> dict[str, _Kind]:
    """Return the columns that become features of their own."""
    return {
        name: kind
        for name, dtype in schema.items()
        if name not in _NOT_FEATURES and (kind := _kind(dtype)) is not None
    }


def _kind(dtype: pl.DataType) -> _Kind | None:
    """Return how a column is encoded; None for one that is only in the JSON metadata."""
    if dtype == WORD_TIMES:
        return _TIMES
    if dtype in (pl.String, pl.Enum, pl.Categorical):
        return _TEXT
    if dtype.is_integer():
        return _INTEGER
    if dtype.is_float():
        return _FLOAT
    return None


def _features(
    metadata: pl.DataFrame, kinds: Mapping[str, _Kind]
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the window of each clip and all its features except the audio.

    If there are no windows, the id of the clip stands for its window.
    """
    for part in metadata.iter_slices(_ROWS):
        columns = {"json": [_bytes(as_json(row)) for row in part.iter_rows(named=True)]}
        for name, kind in kinds.items():
            values = part[name].to_list()
            columns |= {
                f"{name}{suffix}": [feature(value) for value in values]
                for suffix, feature in kind.features.items()
            }
        windows = part["window" if "window" in part.columns else "segment_id"]
        for window, *features in zip(windows.to_list(), *columns.values(), strict=True):
            yield window, dict(zip(columns, features, strict=True))


def _audio(value: list[bytes]) -> list[bytes]:
    return _wrap(1, [_field(1, b"audio"), *_wrap(2, value)])


def _write_record(file: BinaryIO, record: list[bytes]) -> None:
    """Write the parts of a record with its length and both checksums."""
    length = struct.pack("<Q", sum(map(len, record)))
    file.writelines((length, _checksum([length]), *record, _checksum(record)))


def _checksum(parts: list[bytes]) -> bytes:
    """Return the masked CRC-32C."""
    crc = reduce(extend, parts, 0)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _CRC_MASK) & 0xFFFFFFFF)
