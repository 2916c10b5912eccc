"""Order of clips in an epoch: a pure function of the index, a seed and an epoch, without audio.

Clips are in their shards in the order of a hash, so that neighbors are unrelated. An epoch draws
*runs* of neighbors, which one request reads, groups them to *steps*, and shuffles these; a consumer
(a rank, or a worker of a rank) takes an equal part of that order, and shuffles its steps by the
*block*, as much as fits its memory. What is left can be divided among others at any time.

Clips are numbered by their position in the corpus. A *step* is one clip, a window of consecutive
ones, or a batch.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nbaudio.core.errors import InputError

IntArray = NDArray[np.signedinteger[Any]]

RUN = 16  # neighbors that are drawn together
BUFFER = 24 << 20  # bytes of encoded audio that a consumer shuffles at once
# The first block is small, so that the first clip comes soon; each block is twice as large as the
# one before.
_FIRST_BLOCK = 1 << 20
_HASHED_ROWS = 1 << 16  # rows whose texts are in memory at once


class Partition(NamedTuple):
    """The part of an epoch that a consumer takes.

    A consumer is a rank of `world_size`, and in it a worker of `num_workers`.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1

    def check(self) -> "Partition":
        """Return itself; raise InputError where a number is not below its count."""
        for number, count, name in (
            (self.rank, self.world_size, "rank"),
            (self.worker, self.num_workers, "worker"),
        ):
            if count <= 0:
                raise InputError(f"{count} {name}s")
            if not 0 <= number < count:
                raise InputError(f"{name} {number} of {count}: must be from 0 to {count - 1}")
        return self

    def part(self, worker: int, num_workers: int) -> "Partition":
        """Return a worker's part of a rank's; raise InputError where it is a worker's already."""
        if self.num_workers > 1:
            raise InputError(
                f"worker {self.worker} of {self.num_workers} has no workers: "
                "leave num_workers to the framework"
            )
        return self._replace(worker=worker, num_workers=num_workers)

    def of(self, size: int, *, pad: bool = False) -> slice:
        """Return its slice of so many steps.

        With `pad`, a rank with one step fewer than others also gets the first one of the next rank.
        """
        first, last = (size * edge // self.world_size for edge in (self.rank, self.rank + 1))
        if pad:
            last = first + -(-size // self.world_size)
        start, stop = (
            first + (last - first) * edge // self.num_workers
            for edge in (self.worker, self.worker + 1)
        )
        return slice(start, stop)


@dataclass(frozen=True)
class Groups:
    """Groups of consecutive `clips`, each from one of `starts` to one of `ends`.

    Groups may overlap, and none is empty.
    """

    clips: IntArray
    starts: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[IntArray]:
        return (
            self.clips[start:end]
            for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        )

    def __getitem__(self, which: slice | IntArray) -> "Groups":
        return Groups(self.clips, self.starts[which], self.ends[which])

    @property
    def first(self) -> IntArray:
        """The first clip of each group, which no other group begins with."""
        return self.clips[self.starts]

    @property
    def members(self) -> IntArray:
        """The clips of all groups, one group after the other."""
        sizes = self.ends - self.starts
        return self.clips[np.repeat(self.ends - np.cumsum(sizes), sizes) + np.arange(sizes.sum())]

    def sums(self, values: IntArray) -> IntArray:
        """Return the sum of a value of clips over each group.

        Clips that the group before has too are left out.
        """
        totals = np.zeros(len(self.clips) + 1, np.int64)
        np.cumsum(values[self.clips], out=totals[1:])
        before = self.starts[:-1]
        until = self.ends[:-1]
        new = self.starts.copy()
        new[1:] = np.where((before < new[1:]) & (new[1:] < until), until, new[1:])
        return totals[self.ends] - totals[new]


@dataclass(frozen=True)
class Epoch:
    """An epoch of a split: all that its order depends on.

    The parameters are those of `Corpus.stream`.
    """

    # Columns of the split's clips by name, in the order of the corpus: a data frame, or rows of the
    # corpus
    index: Any
    seed: int = 0
    epoch: int = 0
    shuffle: bool = True
    run: int = RUN
    buffer: int = BUFFER
    consecutive: int = 1
    step: int | None = None
    batch_s: float | None = None
    pad: bool = False

    def parameters(self) -> dict[str, Any]:
        """Return what a state must agree on.

        It includes `step` only where windows overlap, as states of older versions have none.
        """
        names = [
            "corpus",
            "seed",
            "epoch",
            "shuffle",
            "run",
            "buffer",
            "consecutive",
            "batch_s",
            "pad",
        ]
        if self.overlapping:
            names.append("step")
        return {"clips": len(self.index), **{name: getattr(self, name) for name in names}}

    @property
    def overlapping(self) -> bool:
        """Whether a clip is in several steps."""
        return self.step not in (None, self.consecutive)

    @cached_property
    def corpus(self) -> str:
        """Hash of the positions of all clips, on which the order depends."""
        digest = hashlib.blake2b(digest_size=8)
        for name in ("shard", "recording_id"):
            values = self._column(name)
            for start in range(0, len(values), _HASHED_ROWS):
                text = "\n".join(map(str, values[start : start + _HASHED_ROWS].tolist()))
                if start:
                    digest.update(b"\n")
                digest.update(text.encode("utf8", "surrogatepass"))
        for name in ("offset", "length", "start_sample"):
            digest.update(np.ascontiguousarray(self._column(name)).data)
        return digest.hexdigest()

    @cached_property
    def whole(self) -> Groups:
        """All steps of the epoch."""
        if self.consecutive > 1:
            windows = _windows(self.index, self.consecutive, self.step or self.consecutive)
            # Windows that overlap are drawn in runs, so that what they share is read and decoded
            # once.
            if self.overlapping:
                drawn = np.arange(len(windows)) // self.run
            else:
                drawn = windows.first
            if self.shuffle:
                return windows[self._order(drawn, "window")]
            return windows
        if self.batch_s is None:
            return Groups(self._drawn, _numbers(len(self._drawn)), _numbers(len(self._drawn)) + 1)
        pools = [0, *(np.flatnonzero(np.diff(self._pools[self._drawn], append=-1)) + 1).tolist()]
        batches = [
            self._batches(self._drawn[start:end], self.batch_s) for start, end in pairwise(pools)
        ]
        starts = np.concatenate(
            [start + firsts for start, (_, firsts) in zip(pools, batches, strict=False)]
        )
        return Groups(
            np.concatenate([clips for clips, _ in batches]),
            starts,
            np.append(starts[1:], pools[-1]),
        )

    def of(self, share: Partition, left: Groups) -> tuple[Groups, IntArray]:
        """Return a consumer's share of the steps that are left, and the edges of its blocks."""
        steps = left[share.of(len(left), pad=self.pad)]
        edges = [
            0,
            *_blocks(steps.sums(self._column("length")), self.buffer, self._pools[steps.first]),
        ]
        if self.shuffle and len(steps):
            first = steps.first
            steps = steps[
                np.concatenate(
                    [
                        start + self._order(first[start:end], "block")
                        for start, end in pairwise(edges)
                    ]
                )
            ]
        return steps, np.array(edges)

    def after(self, done: Sequence[Sequence[tuple[Partition, int]]]) -> Groups:
        """Return the steps that are left when consumers have taken so many each.

        `done` has one level per change of the number of consumers.
        """
        left = self.whole
        for level in done:
            is_gone = np.zeros(len(self.index), bool)
            for share, taken in level:
                is_gone[self.of(share, left)[0][:taken].first] = True
            left = left[np.flatnonzero(~is_gone[left.first])]
        return left

    @cached_property
    def _drawn(self) -> IntArray:
        """All clips, in shuffled runs of neighbors."""
        numbers = _numbers(len(self.index))
        if not self.shuffle:
            return numbers
        shard = self._column("shard")
        firsts = np.flatnonzero(np.append(True, shard[1:] != shard[:-1])[: len(shard)])
        places = numbers - np.repeat(firsts, np.diff(firsts, append=len(shard))).astype(np.int32)
        return self._order(np.cumsum(places % self.run == 0, dtype=np.int32), "run")

    @cached_property
    def _pools(self) -> IntArray:
        """For each clip, the part of the epoch from which its batch is made.

        So clips that are close are read together.
        """
        pools = np.zeros(len(self.index), np.int32)
        if self.batch_s is not None:
            ends = _blocks(self._column("length")[self._drawn], self.buffer, pools)
            pools[self._drawn] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        return pools

    def _batches(self, clips: IntArray, most: float) -> tuple[IntArray, IntArray]:
        """Return the clips by duration, and the first of each batch.

        The number of clips of a batch times its longest one is at most `most`, unless it is a
        single clip.
        """
        durations = self._column("duration_s")[clips]
        by_length = np.argsort(durations, kind="stable")
        firsts = [0]
        count = 0
        for place, duration in enumerate(durations[by_length].tolist()):
            if count and (count + 1) * duration > most:
                firsts.append(place)
                count = 0
            count += 1
        return clips[by_length], np.array(firsts)

    def _column(self, name: str) -> NDArray[Any]:
        return np.asarray(self.index[name])

    def _order(self, numbers: IntArray, purpose: str) -> IntArray:
        """Return the order of numbers by their hashes.

        The hash is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
        """
        key = f"{purpose} {self.seed} {self.epoch}".encode()
        salt = np.uint64(int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little"))
        with np.errstate(over="ignore"):
            z = numbers.astype(np.uint64)
            z += np.uint64(1)
            z *= np.uint64(0x9E3779B97F4A7C15)
            z += salt
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
                z ^= z >> np.uint64(shift)
                z *= np.uint64(factor)
            return np.argsort(z, kind="stable").astype(np.int32)


def _numbers(count: int) -> IntArray:
    """Return the numbers from 0 to count - 1."""
    return np.arange(count, dtype=np.int32)  # 32 bits take half the memory of 64


def _windows(index: Any, size: int, step: int) -> Groups:
    """Return windows of `size` consecutive clips of each recording.

    They begin at every `step`-th clip; at the recording's end there may be fewer clips.
    """
    _, codes = np.unique(np.asarray(index["recording_id"]), return_inverse=True)
    ordered = np.lexsort((np.asarray(index["start_sample"]), codes))
    recordings = codes[ordered]
    places = np.arange(len(recordings)) - np.searchsorted(recordings, recordings)
    left = np.bincount(recordings)[recordings] - places
    starts = np.flatnonzero((places % step == 0) & ((places == 0) | (left + step > size)))
    return Groups(ordered, starts, starts + np.minimum(size, left[starts]))


def _blocks(num_bytes: IntArray, most: int, pools: IntArray) -> list[int]:
    """Return where blocks end.

    Each block is as long as possible below its bound and in one pool, but never empty.
    """
    ends = []
    total = np.cumsum(num_bytes)
    start = 0
    changes = np.append(np.flatnonzero(np.diff(pools)) + 1, len(pools))
    bound = min(_FIRST_BLOCK, most)
    while start < len(total):
        before = int(total[start - 1]) if start else 0
        change = int(changes[np.searchsorted(changes, start, side="right")])
        start = min(
            change, max(start + 1, int(np.searchsorted(total, before + bound, side="right")))
        )
        ends.append(start)
        bound = min(2 * bound, most)
    return ends
