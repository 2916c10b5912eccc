"""Clips read back out of a corpus by the byte offsets that its segments.parquet gives, without any container's own reader."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from nbaudio.corpus.layout import Layout
from nbaudio.errors import AudioError, InputError
from nbaudio.files import read_json


def clips(corpus: str | Path) -> pl.DataFrame:
    """The clips of a corpus, as its segments.parquet lists them: metadata, `shard`, `offset` and `length` (bytes).

    Raises:
        InputError: there is no such table.
    """
    path = Path(corpus) / "segments.parquet"
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read; is {corpus} a corpus? ({error})") from error


def shards(corpus: str | Path) -> pl.DataFrame:
    """The shards of a corpus, as its corpus.json lists them: `name`, `split`, `segments`, `bytes`, `sha256`.

    Raises:
        InputError: there is no such list.
    """
    path = Layout(Path(corpus)).manifest
    try:
        return pl.DataFrame(read_json(path)["shards"]).select("name", "split", "segments", "bytes", "sha256")
    except (KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: lists no shards; is {corpus} a corpus?") from error


def read_audio(corpus: str | Path, segment_ids: Sequence[str]) -> list[bytes]:
    """The encoded audio of clips, each a complete file, checked against its hash.

    Args:
        corpus: the corpus folder.
        segment_ids: which clips; the result has their order.

    Raises:
        InputError: a clip is not in the corpus, or its shard is not inside the corpus folder.
        AudioError: a shard does not hold what the table says.
    """
    root = Path(corpus).resolve()
    columns = ("segment_id", "shard", "offset", "length", "audio_sha256")
    places = {row[0]: row[1:] for row in clips(corpus).select(columns).iter_rows()}
    found = []
    for segment_id in segment_ids:
        if segment_id not in places:
            raise InputError(f"{corpus}: no clip {segment_id!r} in its segments.parquet")
        shard, offset, length, sha256 = places[segment_id]
        path = (root / shard).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            raise InputError(f"{corpus}: shard {shard!r} is not there")
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(length)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise AudioError(f"{corpus}: clip {segment_id!r} is damaged in {shard}; 'nbaudio verify {corpus}' shows all that is")
        found.append(data)
    return found
