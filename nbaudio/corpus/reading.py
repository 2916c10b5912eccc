"""Clips read back out of a corpus by the byte offsets that its segments.parquet gives, without any container's own reader."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from nbaudio.corpus.layout import MANIFEST
from nbaudio.errors import AudioError, InputError
from nbaudio.folders import folder_at, read_object


def clips(corpus: str | Path) -> pl.DataFrame:
    """The clips of a corpus, as its segments.parquet lists them: metadata, `shard`, `offset` and `length` (bytes).

    Raises:
        InputError: there is no such table.
    """
    try:
        with folder_at(corpus).local("segments.parquet") as path:
            return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError, InputError) as error:
        raise InputError(f"{corpus}/segments.parquet: cannot be read; is {corpus} a corpus? ({error})") from error


def shards(corpus: str | Path) -> pl.DataFrame:
    """The shards of a corpus, as its corpus.json lists them: `name`, `split`, `segments`, `bytes`, `sha256`.

    Raises:
        InputError: there is no such list.
    """
    manifest = read_object(folder_at(corpus), MANIFEST)
    try:
        return pl.DataFrame(manifest["shards"]).select("name", "split", "segments", "bytes", "sha256")
    except (KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{corpus}/{MANIFEST}: lists no shards; is {corpus} a corpus?") from error


def read_audio(corpus: str | Path, segment_ids: Sequence[str]) -> list[bytes]:
    """The encoded audio of clips, each a complete file, checked against its hash.

    Args:
        corpus: the corpus folder, or its address: only the clips are fetched then.
        segment_ids: which clips; the result has their order.

    Raises:
        InputError: a clip is not in the corpus, or its shard is not inside the corpus folder.
        AudioError: a shard does not hold what the table says.
    """
    folder = folder_at(corpus)
    columns = ("segment_id", "shard", "offset", "length", "audio_sha256")
    places = {row[0]: row[1:] for row in clips(corpus).select(columns).iter_rows()}
    found = []
    for segment_id in segment_ids:
        if segment_id not in places:
            raise InputError(f"{corpus}: no clip {segment_id!r} in its segments.parquet")
        shard, offset, length, sha256 = places[segment_id]
        try:
            data = folder.read(shard, offset, offset + length)
        except InputError as error:
            raise InputError(f"{corpus}: shard {shard!r} is not there") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise AudioError(f"{corpus}: clip {segment_id!r} is damaged in {shard}; 'nbaudio verify {corpus}' shows all that is")
        found.append(data)
    return found
