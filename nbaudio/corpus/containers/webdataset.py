"""WebDataset shards: tars with `<key>.<extension>` and `<key>.json`; keys are escaped, as readers split at dots and slashes."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from nbaudio.corpus.containers.base import ClipLocation, as_json, escape_key
from nbaudio.corpus.containers.tar import write_tar


def write(path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, **_: object) -> list[ClipLocation]:
    """Write one tar; see `registry.WriteShard`."""
    rows = zip(metadata.iter_rows(named=True), audio, strict=True)
    return write_tar(path, ((escape_key(row["segment_id"]), clip, as_json(row)) for row, clip in rows), extension)
