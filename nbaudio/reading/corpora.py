"""Open a corpus: its table, clips by id, and streams."""

import operator
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio.encoding import decode_levels, encoder
from nbaudio.audio.quantization import QUANTIZATIONS
from nbaudio.core.errors import InputError, get_by_name
from nbaudio.core.input_guards import parse_size
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.layout import read_corpus_info
from nbaudio.reading.clip_table import TABLE, ClipTable, SplitRows
from nbaudio.reading.clips import Clip, ClipReader, ClipRequests
from nbaudio.reading.order import BUFFER, RUN, Epoch, Partition
from nbaudio.reading.streams import Stream
from nbaudio.storage.cache import LIMIT, Cache
from nbaudio.storage.folders import Folder, folder_at
from nbaudio.storage.remote import Remote

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from nbaudio.tables.dataframes import Ids

Give = Literal["samples", "levels", "encoded"]

# Concurrent requests: of a stream, whose requests are large, and of clips by id.
_STREAM_REQUESTS, _CLIP_REQUESTS = 8, 64
# Opened with a corpus, besides those that read its index: the first two blocks of files then come
# at once
_CONNECTIONS = 20
_PIECE_BYTES = 1 << 20  # size of a file in the cache


@dataclass(frozen=True, eq=False)
class Corpus:
    """An open corpus, as returned by `open_corpus`.

    It can be pickled and used after a fork, as it keeps no files open.

    Attributes:
        table: the places of all clips; further columns are read when they are needed.
        info: the content of its corpus.json, with the parameters with which it was made, such as
            ``encoding`` and ``rate``.
        cache: of fetched parts of its shards; None for no cache.
    """

    folder: Folder
    table: ClipTable
    info: dict[str, Any]
    cache: Cache | None = None

    def __repr__(self) -> str:
        clips = ", ".join(f"{split}: {count:,}" for split, count in self.splits.items())
        return f"Corpus({str(self.folder)!r}, {clips or 'empty'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.folder, self.table, self.info, self.cache)

    @cached_property
    def segments(self) -> "pl.DataFrame":
        """One row per clip: its metadata, and `shard`, `offset` and `length` (bytes).

        Rows are sorted by these three.
        """
        _check_not_forked("Corpus.segments")
        return self.table.frame()

    def to_pandas(self) -> "pd.DataFrame":
        """Return `segments` as a pandas frame."""
        return self.segments.to_pandas()

    @property
    def shards(self) -> "pl.DataFrame":
        """`name`, `split`, `segments`, `bytes` and `sha256` of each shard."""
        import polars as pl

        _check_not_forked("Corpus.shards")
        return pl.DataFrame(self.info["shards"]).select(
            "name", "split", "segments", "bytes", "sha256"
        )

    @property
    def splits(self) -> dict[str, int]:
        """Clips of each split."""
        return {
            name: len(rows)
            for name, rows in sorted(self.table.splits.items(), key=lambda item: -len(item[1]))
        }

    def rows(self, split: str) -> "pl.DataFrame":
        """Return the rows of a split; raise InputError where there is no such split."""
        numbers = self._rows(split).numbers
        return self.segments.slice(numbers.start, len(numbers))

    def read(self, segment_id: str, *, give: Give = "samples") -> Clip:
        """Read one clip by its id, as `read_many` does.

        From a remote corpus, only the bytes of this clip are fetched.
        """
        return self.read_many([segment_id], give=give)[0]

    def read_many(self, segment_ids: "Ids", *, give: Give = "samples") -> list[Clip]:
        """Read clips by their ids, in that order, with concurrent requests.

        Args:
            segment_ids: the ids, also as a pandas or polars Series, or a table with a column
                `segment_id`.
            give: ``samples`` (int16), ``levels`` (uint8, of a quantized corpus) or ``encoded`` (the
                bytes alone).

        Raises:
            InputError: one is not in the corpus.
            AudioError: bytes cannot be read, or are damaged.
        """
        if isinstance(segment_ids, list):
            wanted = segment_ids
        else:
            from nbaudio.tables.dataframes import as_ids  # imports polars

            wanted = as_ids(segment_ids)
        places = self.table.find(wanted)
        numbers = [number for number in places if number is not None]
        if len(numbers) < len(wanted):
            raise InputError(
                f"{self.folder}: no clip {wanted[places.index(None)]!r} in its {TABLE}"
            )
        clips = self._clips(
            SplitRows(self.table, range(len(self.table))),
            give,
            min(_CLIP_REQUESTS, max(1, len(numbers))),
        )
        with ClipRequests(clips) as requests, ThreadPoolExecutor(os.cpu_count() or 1) as decoders:
            try:
                parts = requests.parts(np.array(sorted({*numbers}), dtype=np.int64))
                clip_of = dict(
                    zip(
                        parts,
                        decoders.map(lambda number: clips.decoded(number, parts[number]()), parts),
                        strict=True,
                    )
                )
            finally:
                requests.cancel()
        return [clip_of[number] for number in numbers]

    def stream(
        self,
        split: str,
        *,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        worker: int = 0,
        num_workers: int = 1,
        consecutive: int = 1,
        step: int | None = None,
        batch_s: float | None = None,
        pad: bool = False,
        buffer: int = BUFFER,
        run: int = RUN,
        give: Give = "samples",
        threads: int | None = None,
    ) -> Stream:
        """Stream one epoch of a split, or a consumer's part of it.

        Steps are clips, or lists of them, that threads read ahead and decode.

        Every step comes exactly once per epoch over all ranks and workers, whatever their numbers,
        and so does every clip, unless windows overlap; ranks differ by at most one step, and with
        `pad` by none. Equal arguments give equal orders anywhere.

        Args:
            split: such as ``train``.
            seed: determines the order, with `epoch`.
            epoch: number of the epoch, to be counted up.
            shuffle: False keeps the order of the corpus.
            rank: of this process, from 0 to `world_size` - 1.
            world_size: processes that share an epoch.
            worker: of this rank, from 0 to `num_workers` - 1.
            num_workers: processes that share the part of a rank.
            consecutive: steps are windows: lists of so many consecutive clips of a recording; its
                last may be shorter.
            step: clips from the beginning of a window to that of the next, at most `consecutive`,
                which is the default; with less, windows overlap (sliding windows), and the arrays
                of samples that they share are read-only.
            batch_s: steps are lists of clips of similar durations, at most so many seconds with
                padding; see `Stream.padding`.
            pad: ranks with one step fewer than others also get the first one of the next rank.
            buffer: bytes of audio that are shuffled at once; memory is about four times as much.
            run: neighbors in a shard, or windows that overlap, that are drawn together, so that
                they are read together.
            give: as for `read_many`.
            threads: that decode; by default one per core, at most 4.

        Raises:
            InputError: there is no such split, or a number is out of range.
        """
        clips = self._rows(split)
        if consecutive > 1 and batch_s is not None:
            raise InputError("give consecutive or batch_s, not both")
        if batch_s is not None and not batch_s >= 1:
            raise InputError(f"batch_s must be 1 or more, not {batch_s}")
        consecutive = _whole("consecutive", consecutive, least=1)
        if step is not None:
            step = _whole("step", step, least=1)
        if step is not None and (consecutive == 1 or step > consecutive):
            values = f"step={step}, consecutive={consecutive}"
            raise InputError(
                f"step must be at most consecutive, which must be 2 or more; got {values}"
            )
        order = Epoch(
            clips,
            seed=_whole("seed", seed),
            epoch=_whole("epoch", epoch),
            shuffle=bool(shuffle),
            run=_whole("run", run, least=1),
            buffer=_whole("buffer", buffer, least=1),
            consecutive=consecutive,
            step=step,
            batch_s=None if batch_s is None else float(batch_s),
            pad=bool(pad),
        )
        part = {
            "rank": rank,
            "world_size": world_size,
            "worker": worker,
            "num_workers": num_workers,
        }
        share = Partition(**{name: _whole(name, value) for name, value in part.items()})
        if threads is None:
            threads = min(4, os.cpu_count() or 1)
        else:
            threads = _whole("threads", threads, least=1)
        # A container with a file for each clip gets requests as small as those of single clips.
        if self.info["parameters"]["container"] == "files":
            in_flight = _CLIP_REQUESTS
        else:
            in_flight = _STREAM_REQUESTS
        return Stream(self._clips(clips, give, in_flight), order, share, threads=threads)

    def _rows(self, split: str) -> SplitRows:
        """Return the rows of a split; raise InputError if there is none."""
        if split not in self.table.splits:
            raise InputError(
                f"{self.folder}: no split {split!r}; there are {', '.join(self.splits) or 'none'}"
            )
        return SplitRows(self.table, self.table.splits[split])

    def _clips(self, rows: SplitRows, give: Give, in_flight: int) -> ClipReader:
        """Return a reader of rows that decodes as `give` says, with so many requests at once."""
        encoding = self.info["parameters"]["encoding"]
        ways: dict[str, Any] = {"samples": None, "levels": decode_levels, "encoded": None}
        decode = get_by_name(ways, give, "way to give clips")
        if give == "samples":
            decode = partial(_samples, encoder(encoding).decode)
        if give == "levels" and encoding not in QUANTIZATIONS:
            raise InputError(f"{self.folder}: its clips are {encoding}, which has no levels")
        local = self.folder.place.local is not None
        if local or self.cache is None:
            read = self.folder.read
        else:
            read = partial(self._cached, self.cache)
        return ClipReader(rows, self.folder, read, decode, in_flight, self._read_uncached)

    def _read_uncached(self, name: str, start: int, stop: int) -> bytes:
        """Read the bytes [start, stop) of a file past the cache, which forgets them."""
        if self.cache is not None and self.folder.place.local is None:
            for identity, _, _ in self._pieces(name, start, stop):
                self.cache.forget(identity)
        return self.folder.read(name, start, stop)

    def _cached(self, cache: Cache, name: str, start: int, stop: int) -> bytes:
        """Read bytes [start, stop) of a shard by way of the cache."""
        pieces = []
        for identity, first, end in self._pieces(name, start, stop):

            def fetch(path: Path, first: int = first, end: int = end) -> None:
                path.write_bytes(self.folder.read(name, first, end))

            with cache.pinned(identity, end - first, fetch) as path, path.open("rb") as file:
                file.seek(max(0, start - first))
                pieces.append(file.read(min(stop, end) - max(start, first)))
        return b"".join(pieces)

    def _pieces(self, name: str, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
        """Yield the cache keys of the pieces of a file that hold the bytes [start, stop).

        Each comes with the positions where the piece begins and ends.
        """
        # A shard that is a folder has files of one clip each, which are one piece each; its hash is
        # that of all files.
        sha256, size = self._sizes.get(name, (None, stop))
        step = _PIECE_BYTES if sha256 else stop
        whole = sha256 or self._sizes.get("/".join(name.split("/")[:2]), ("", 0))[0]
        for first in range(start // step * step, stop, step):
            end = min(first + step, size)
            yield f"{self.folder}\n{name}\n{whole}\n{first}-{end}", first, end

    @cached_property
    def _sizes(self) -> dict[str, tuple[str, int]]:
        """Hash and bytes of each shard."""
        return {shard["name"]: (shard["sha256"], shard["bytes"]) for shard in self.info["shards"]}


@interruptible
def open_corpus(
    where: str | Path, *, cache: str | Path | None = None, cache_limit: int | str = LIMIT
) -> Corpus:
    """Open a corpus in a folder or at a URL; its table is read at once, its shards on demand.

    Args:
        where: the corpus folder or its URL (see `nbaudio.storage.urls`).
        cache: a local folder that keeps what is fetched from a URL, for further epochs and other
            processes.
        cache_limit: its size in bytes, or a text such as ``"20GB"``; the least recently used files
            are evicted.

    Raises:
        InputError: there is no corpus, or its tables are implausible.

    Examples:
        >>> open_corpus("no such folder")
        Traceback (most recent call last):
        nbaudio.core.errors.InputError: .../no such folder/segments.parquet: ...
    """
    folder = folder_at(where)
    with ThreadPoolExecutor(2) as pool:  # concurrently: from a URL each takes several round trips
        pending = pool.submit(read_corpus_info, folder)
        if isinstance(folder.place, Remote):
            pool.submit(folder.place.connect, _CONNECTIONS)  # for the first batch of a stream
        table = ClipTable(folder)
        corpus_info = pending.result()
    if cache is None:
        return Corpus(folder, table, corpus_info, None)
    clip_cache = Cache(Path(cache).absolute(), parse_size(cache_limit))
    return Corpus(folder, table, corpus_info, clip_cache)


def _whole(name: str, value: Any, *, least: int | None = None) -> int:
    """Convert an integer of any kind, such as NumPy's, to Python's.

    States and JSON can hold no others.
    """
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InputError(f"{name} must be a whole number, not {value!r}") from error
    if least is not None and number < least:
        raise InputError(f"{name} must be {least} or more, not {number}")
    return number


def _samples(
    decode: Callable[[Any], tuple[NDArray[np.int16], int | None]], content: bytes | memoryview
) -> NDArray[np.int16]:
    """Return the samples alone of what a function decodes."""
    return decode(content)[0]


# A process that was forked after polars ran lacks the threads of polars, and most calls would hang.
_forked = {"ran": False, "lost": False}


def _check_not_forked(what: str) -> None:
    """Raise InputError in a process that was forked after Polars had started its threads."""
    if _forked["lost"]:
        raise InputError(
            f"{what}: cannot run in a process that was forked after polars was used, "
            "since it would hang; "
            "open the corpus before the fork and hand it over, "
            "or start processes by 'spawn' or 'forkserver'"
        )


def _before_fork() -> None:
    """Note whether threads of Polars run now, as a child will lack them."""
    # Only Linux shows the names of threads; elsewhere processes are spawned by default.
    names = (path.read_bytes() for path in Path("/proc/self/task").glob("*/comm"))
    _forked["ran"] = any(name.startswith(b"polars-0") for name in names)


def _after_fork_in_child() -> None:
    """Note that this process lacks the threads that ran before the fork."""
    _forked["lost"] |= _forked["ran"]


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
