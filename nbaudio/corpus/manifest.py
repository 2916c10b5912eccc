"""corpus.json as it is read: a corpus may be a stranger's, so that what the code goes by is of the right types, or refused."""

from typing import Any, Literal

import msgspec

from nbaudio.corpus.layout import MANIFEST, TABLES
from nbaudio.errors import InputError
from nbaudio.places.folders import Folder, read_object


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
    evidence: dict[str, Any] | None = None
    about: dict[str, str | None] = {}


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
