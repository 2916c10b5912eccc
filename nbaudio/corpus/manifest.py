"""corpus.json as it is read: a corpus may be a stranger's, so that what the code goes by is of the right types, or refused."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.corpus.layout import MANIFEST, TABLES
from nbaudio.storage.folders import Folder, read_object

_PLACED: Mapping[str, pl.DataType] = {
    **dict.fromkeys(("segment_id", "shard", "audio_sha256"), pl.String()),
    **dict.fromkeys(("offset", "length"), pl.Int64()),
}
_MOST_BYTES, _MOST_CLIP_BYTES = 1 << 50, 1 << 32


class _Parameters(msgspec.Struct):
    container: str
    rate: int | None
    channel: str
    encoding: str


class _Split(msgspec.Struct):
    segments: int
    hours: float
    speakers: int
    recordings: int


class _Splits(msgspec.Struct):
    train: _Split
    dev: _Split
    test: _Split


class _Shard(msgspec.Struct):
    name: str
    split: Literal["train", "dev", "test"]
    segments: int
    bytes: int
    sha256: str
    plan: str


class _Check(msgspec.Struct):
    shared: int
    segments: int


class _Asked(msgspec.Struct):
    group_by: list[str] = []


class _Selection(msgspec.Struct):
    parameters: _Asked = msgspec.field(default_factory=_Asked)


class _About(msgspec.Struct, forbid_unknown_fields=True):
    title: str | None = None
    language: str | None = None
    licence: str | None = None


class _Manifest(msgspec.Struct):
    nbaudio: str
    identity: dict[str, Any]
    parameters: _Parameters
    splits: _Splits
    shards: list[_Shard]
    tables: dict[str, str]
    rejected: dict[str, int]
    selection: _Selection
    leakage: dict[str, _Check] = {}
    sources: list[dict[str, Any]] = []
    table_bytes: dict[str, int] = {}
    card: str = ""
    evidence: dict[str, Any] | None = None
    about: _About | None = None


def read_manifest(folder: Folder) -> dict[str, Any]:
    """What corpus.json holds; further keys are kept.

    Raises:
        InputError: it is missing, or something in it is not as nbaudio writes it; says what.
    """
    manifest = read_object(folder, MANIFEST)
    try:
        tables = msgspec.convert(manifest, _Manifest).tables
    except msgspec.ValidationError as error:
        raise InputError(f"{folder}/{MANIFEST}: {error}; is {folder} a corpus?") from error
    if missing := [name for name in TABLES if name not in tables]:
        raise InputError(f"{folder}/{MANIFEST}: tables lack {missing[0]}; is {folder} a corpus?")
    return manifest


def check_places(folder: Folder, segments: pl.DataFrame) -> None:
    """Let pass a table of clips that lie where bytes can be.

    Args:
        folder: of the corpus, for the message.
        segments: with `segment_id`, `shard`, `offset`, `length` and `audio_sha256`.

    Raises:
        InputError: a clip cannot lie where the table says; names it.
    """
    table = f"{folder}/segments.parquet"
    if missing := [name for name in _PLACED if name not in segments.columns]:
        raise InputError(f"{table}: the column {missing[0]} is missing; is {folder} a corpus?")
    try:
        placed = segments.select(pl.col(name).cast(dtype) for name, dtype in _PLACED.items())
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{table}: {' '.join(str(error).split())}; is {folder} a corpus?") from error
    within = pl.col("offset").is_between(0, _MOST_BYTES) & pl.col("length").is_between(1, _MOST_CLIP_BYTES)
    odd = placed.filter(pl.any_horizontal(pl.col(*_PLACED).is_null()) | ~within)
    if len(odd):
        key, shard, _, offset, length = odd.row(0)
        raise InputError(f"{table}: {key!r} cannot lie in {shard} at byte {offset}, {length} bytes long; is {folder} a corpus?")
