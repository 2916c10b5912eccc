"""Read and reduce packs: encoded clips end to end, then their index (`pack_index`).

The index is verified when it is read, and every clip when it is copied.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from nbaudio.core import threads
from nbaudio.core.errors import AudioError, NbaudioError
from nbaudio.corpus.clip_keys import rows_without_key
from nbaudio.corpus.clip_locations import verified_clip
from nbaudio.corpus.pack_index import IndexRow, index_bytes, read_rows
from nbaudio.storage.location import Location, LocationLike, location
from nbaudio.storage.network import RemoteNotFoundError
from nbaudio.storage.urls import is_url
from nbaudio.tables.buckets import Buckets, joined_schema, store

_READERS = 16  # concurrent requests of remote packs

_COUNTS = dict.fromkeys(("offset", "length", "clip_samples"), pl.Int64)
_INDEX_ROW = pl.Schema({"clip_key": pl.String, **_COUNTS, "clip_sha256": pl.String})
INDEX = joined_schema(_INDEX_ROW, {"pack": pl.String()})
"""The clips of a pack as in its `IndexRow`s, and the path or URL of the pack."""

_KEYS_OF_PACKS = pl.Schema({"clip_key": pl.String, "pack": pl.UInt32})


class PackDamagedError(NbaudioError):
    """A clip's bytes are not those that were written.

    The only argument is the path of the pack, which must be cut again.
    """


def read_index(pack: LocationLike) -> pl.DataFrame | None:
    """Read the clips of a pack, as `INDEX`; None if the pack is incomplete or damaged."""
    rows = read_rows(location(pack))
    if rows is None:
        return None
    index = pl.DataFrame(rows, schema=_INDEX_ROW, orient="row")
    return index.with_columns(pack=pl.lit(str(pack)))


def pack_names(packs: Location) -> list[str]:
    """Return the names of the packs in a folder."""
    return [name for name in packs.files() if name.endswith(".pack")]


def indexes(packs: LocationLike, names: Iterable[str] | None = None) -> Iterator[pl.DataFrame]:
    """Yield the index of each pack in a folder, after an empty one: there is always a table.

    `names` are those of some packs, in any order; None means all packs of the folder. Skip packs
    that are absent, incomplete or damaged.
    """
    folder = location(packs)
    yield pl.DataFrame(schema=INDEX)
    if names is None:
        names = pack_names(folder)
    places = (folder / name for name in names)
    tables: Iterator[pl.DataFrame | None]
    if folder.local is None:
        tables = threads.ordered_map(read_index, places, jobs=_READERS)
    else:  # threads would only wait for each other
        tables = map(read_index, places)
    yield from (index for index in tables if index is not None)


def keep_clips(packs: Location, keys: Buckets, folder: Path) -> int:
    """Remove all clips but some, and damaged packs, from a folder.

    Packs that lose no clip are not written again.

    Args:
        packs: the folder of packs.
        keys: the keys of the clips that stay; see `clip_keys.divide_keys`.
        folder: a new folder for buckets.

    Returns:
        how many clips were removed.
    """
    names = pack_names(packs)
    places = [packs / name for name in names]
    clips = store(_keys_of_packs(places), folder / "clips", _KEYS_OF_PACKS)
    removed = rows_without_key(clips, keys, folder / "clips-by-key")
    readable = {*clips.select(pl.col("pack").unique()).collect()["pack"]}
    unchanged = readable - {*removed["pack"]}
    return sum(
        _remove_clips(place, removed.filter(pack=number)["clip_key"])
        for number, place in enumerate(places)
        if number not in unchanged
    )


def _keys_of_packs(places: Iterable[Location]) -> Iterator[pl.DataFrame]:
    """Yield the keys of the clips of packs, with the number of the pack, from 0."""
    for number, place in enumerate(places):
        index = read_index(place)
        if index is not None:
            yield index.select("clip_key", pack=pl.lit(number, pl.UInt32))


def _remove_clips(pack: Location, removed_keys: pl.Series) -> int:
    """Remove clips from a pack; remove the pack if no other is left, or if it is damaged.

    Return how many clips were removed, which are all clips of a pack that turns out to be damaged
    while it is copied, and 0 if its index is damaged.
    """
    index = read_index(pack)
    clips = INDEX.to_frame() if index is None else index
    remaining = clips.filter(~pl.col("clip_key").is_in(removed_keys.implode()))
    try:
        if remaining.is_empty():
            pack.remove()
        else:
            _rewrite(pack, remaining)
    except PackDamagedError:
        remaining = INDEX.to_frame()
        pack.remove()
    return len(clips) - len(remaining)


def _rewrite(pack: Location, clips: pl.DataFrame) -> None:
    """Write a pack with some of its clips; columns as in `INDEX`."""
    index: list[IndexRow] = []
    with pack.new() as path, path.open("wb") as file:
        for row, content in zip(clips.iter_rows(named=True), read_clips(clips), strict=True):
            place = (file.tell(), len(content))
            index.append((row["clip_key"], *place, row["clip_samples"], row["clip_sha256"]))
            file.write(content)
        file.write(index_bytes(index))


def read_clips(clips: pl.DataFrame) -> Iterator[bytes]:
    """Yield the encoded bytes of each row's clip, verified by hash.

    All packs are remote, or none is. Raise `PackDamagedError` at the first clip that differs.
    """
    places = clips.select("pack", "offset", "length").rows()
    # Remote packs are read several at once, to hide latency.
    contents: Iterator[bytes]
    if places and is_url(places[0][0]):
        contents = threads.ordered_map(_read, places, jobs=_READERS)
    else:
        contents = map(_read, places)
    for (pack, *_), sha256, content in zip(places, clips["clip_sha256"], contents, strict=True):
        clip = verified_clip(content, sha256)
        if clip is None:
            raise PackDamagedError(pack)
        yield bytes(clip)


def _read(place: tuple[str, int, int]) -> bytes:
    """Read the bytes of a clip: its pack, offset and length.

    Raise `PackDamagedError` if the pack is missing or too short. An error of the network is raised
    as it is: the pack may be whole.
    """
    pack, offset, length = place
    file = location(pack)
    try:
        return file.read(offset, offset + length)
    except (AudioError, OSError) as error:
        if file.local is None and not isinstance(error, RemoteNotFoundError):
            raise
        raise PackDamagedError(pack) from error
