"""What the writers of containers share: the metadata of a clip as JSON, names of its file, and where its audio went."""

import hashlib
import io
import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nbaudio.core.hashing import clip_file_names, hash_column


class ClipLocation(NamedTuple):
    """Where a clip's audio is: byte offset and length, and in which file of a shard that is a folder."""

    offset: int
    length: int
    file: str = ""


def clips_in(shard: str) -> pl.Expr:
    """Which rows of a corpus's table are of clips in a shard, itself a file or a folder of files."""
    return (pl.col("shard") == shard) | pl.col("shard").str.starts_with(f"{shard}/")


def verified_clip(data: bytes, sha256: str) -> bytes | None:
    """The clip whose bytes these are, or whose levels alone, as some containers hold them; None where its hash is another."""
    if hashlib.sha256(data).hexdigest() == sha256:
        return data
    whole = _npy_header(len(data)) + data
    return whole if hashlib.sha256(whole).hexdigest() == sha256 else None


def raw_levels(clip: bytes) -> bytes:
    """The levels of a quantised clip without the header of its .npy file."""
    file = io.BytesIO(clip)
    np.lib.format.read_magic(file)
    np.lib.format.read_array_header_1_0(file)
    return clip[file.tell() :]


def _npy_header(samples: int) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (samples,)})
    return file.getvalue()


class WrittenShard(NamedTuple):
    """A shard that is written.

    Attributes:
        name: its path inside the corpus.
        split: which it belongs to.
        segments: how many clips it holds.
        num_bytes: of its files.
        sha256: of its file, or of the list of its files.
        rows: a Parquet file of this machine with a row for each of its clips, as in segments.parquet.
    """

    name: str
    split: str
    segments: int
    num_bytes: int
    sha256: str
    rows: Path

    def metadata(self) -> pl.DataFrame:
        """Its rows without what was found while writing, but for `shard`, the file of the clip."""
        return pl.read_parquet(self.rows, glob=False).drop("offset", "length", "audio_sha256")


def as_json(value: Any) -> bytes:
    """A row of metadata, or a value of one, as JSON in one line: the same row gives the same bytes.

    Examples:
        >>> as_json({"text": "čaša", "cer": None}).decode()
        '{"cer":null,"text":"čaša"}'
        >>> as_json({"snr": float("nan")}).decode()
        '{"snr":null}'
    """
    try:
        return _encode(value).encode()
    except ValueError:  # JSON has no NaN and no infinity
        return _encode(_finite(value)).encode()


_encode = partial(json.dumps, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str, allow_nan=False)


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {key: _finite(one) for key, one in value.items()}
        case list():
            return [_finite(one) for one in value]
        case float() if not math.isfinite(value):
            return None
    return value


def spread_names(metadata: pl.DataFrame, extension: str) -> Iterator[str]:
    """A name for each clip's file that is safe everywhere, in one of 256 folders that are named after a hash of its segment.

    Decimals have a comma: `datasets` takes everything between dots for an extension when it guesses what an archive holds.

    Examples:
        >>> list(spread_names(pl.DataFrame({"segment_id": ["HlauTe_NK6U_3207.7-3227.54", "../x"]}), "flac"))
        ['db/HlauTe_NK6U_3207,7-3227,54.flac', 'fe/___x-d6b96a97d147daaa.flac']
    """
    hashes = hash_column(metadata["segment_id"], "folder")
    names = clip_file_names(metadata["segment_id"].to_list(), extension)
    return (
        f"{number >> 56:02x}/{name.replace('.', ',', name.count('.') - 1)}" for number, name in zip(hashes, names, strict=True)
    )
