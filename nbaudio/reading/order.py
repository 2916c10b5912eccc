"""In which order clips are read: a pure function of the index, a seed and an epoch. Pointers only, no audio.

Clips lie in their shards in the order of a hash, so that neighbours have nothing to do with each other. An epoch draws *runs* of
neighbours, which one request reads, makes them up to *steps*, and puts these in order; a consumer (a rank, or a worker of a rank)
takes an equal part of that order, and mixes its steps by the *block*, as much as it holds in memory. So nothing is read twice,
and what is left can be parted anew among any number of consumers.

Conventions: clips are numbered by their place in the corpus (by shard, then offset); a *step* is what a consumer gets at once:
one clip, several consecutive ones of a recording, or a batch.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.errors import InputError

IntArray = NDArray[np.int64]

#: Neighbours that are drawn together.
RUN = 16
#: Bytes of encoded audio that a consumer mixes at once.
BUFFER = 24 << 20
# The first blocks are small, so that the first clip comes soon; each is twice as large as the one before.
_FIRST_BLOCK = 1 << 20


class Partition(NamedTuple):
    """Which part of an epoch a consumer takes: its rank of so many, and its worker of so many in that rank."""

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1

    def check(self) -> "Partition":
        """Itself.

        Raises:
            InputError: a number is not below its count.
        """
        for number, count, name in ((self.rank, self.world_size, "rank"), (self.worker, self.num_workers, "worker")):
            if not 0 <= number < count:
                raise InputError(
                    f"{name} {number} of {count}: must be from 0 to {count - 1}" if count > 0 else f"{count} {name}s"
                )
        return self

    def part(self, worker: int, num_workers: int) -> "Partition":
        """A worker's part of a rank's.

        Raises:
            InputError: it is a worker's already.
        """
        if self.num_workers > 1:
            raise InputError(f"worker {self.worker} of {self.num_workers} has no workers: leave num_workers to the framework")
        return self._replace(worker=worker, num_workers=num_workers)

    def of(self, size: int, *, pad: bool = False) -> slice:
        """Its part of so many steps: ranks differ by one at most, and so do the workers of a rank.

        Args:
            size: steps.
            pad: ranks get equally many; who would have one fewer gets the next rank's first one as well.

        Examples:
            >>> [Partition(rank, 3).of(10) for rank in range(3)]
            [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
            >>> [Partition(rank, 3).of(10, pad=True) for rank in range(3)]
            [slice(0, 4, None), slice(3, 7, None), slice(6, 10, None)]
        """
        first, last = (size * edge // self.world_size for edge in (self.rank, self.rank + 1))
        if pad:
            last = first + -(-size // self.world_size)
        start, stop = (first + (last - first) * edge // self.num_workers for edge in (self.worker, self.worker + 1))
        return slice(start, stop)


@dataclass(frozen=True)
class Groups:
    """Groups of clips, one after the other.

    Attributes:
        clips: numbers of all their clips.
        edges: where each step begins in `clips`, and behind them where the last ends.
    """

    clips: IntArray
    edges: IntArray

    @classmethod
    def single(cls, clips: IntArray) -> "Groups":
        """Each clip a step."""
        return cls(clips, np.arange(len(clips) + 1))

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __iter__(self) -> Iterator[IntArray]:
        return (self.clips[start:end] for start, end in zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True))

    def __getitem__(self, which: slice | IntArray) -> "Groups":
        if isinstance(which, slice):
            which = np.arange(len(self))[which]
        sizes = np.diff(self.edges)[which]
        edges = np.concatenate(([0], np.cumsum(sizes)))
        inner = np.arange(edges[-1]) - np.repeat(edges[:-1], sizes)
        return Groups(self.clips[np.repeat(self.edges[:-1][which], sizes) + inner], edges)

    @property
    def first(self) -> IntArray:
        """The first clip of each step."""
        return self.clips[self.edges[:-1]]

    def sums(self, values: IntArray) -> IntArray:
        """Sum of a value of clips over each step; no step is empty."""
        return np.add.reduceat(values[self.clips], self.edges[:-1]) if len(self) else np.zeros(0, np.int64)


@dataclass(frozen=True)
class Epoch:
    """An epoch of a split: all that its order depends on.

    Attributes:
        index: of the split's clips in the order of the corpus: `shard`, `offset`, `length` (bytes), `recording_id`,
            `start_sample` and `duration_s`.
        seed: another one gives another order.
        epoch: likewise.
        shuffle: False keeps the order of the corpus.
        run: neighbours that are drawn together.
        buffer: bytes of audio that are mixed at once.
        consecutive: clips of a recording that a step gives, in their order.
        batch_s: seconds of a batch with its padding; None where steps are no batches.
        pad: ranks get equally many steps, some of them twice.
    """

    index: pl.DataFrame
    seed: int = 0
    epoch: int = 0
    shuffle: bool = True
    run: int = RUN
    buffer: int = BUFFER
    consecutive: int = 1
    batch_s: float | None = None
    pad: bool = False

    def parameters(self) -> dict[str, Any]:
        """What a state must agree on."""
        names = ("corpus", "seed", "epoch", "shuffle", "run", "buffer", "consecutive", "batch_s", "pad")
        return {"clips": len(self.index), **{name: getattr(self, name) for name in names}}

    @cached_property
    def corpus(self) -> str:
        """A hash of which clips lie where: the order goes by their places."""
        found = hashlib.blake2b(digest_size=8)
        for name in ("shard", "recording_id"):
            found.update("\n".join(map(str, self.index[name].to_list())).encode("utf8", "surrogatepass"))
        for name in ("offset", "length", "start_sample"):
            found.update(self.index[name].to_numpy().tobytes())
        return found.hexdigest()

    @cached_property
    def lengths(self) -> IntArray:
        """Bytes of each clip's audio."""
        return self.index["length"].to_numpy()

    @cached_property
    def whole(self) -> Groups:
        """All steps of the epoch."""
        if self.consecutive > 1:
            windows = _windows(self.index, self.consecutive)
            return windows[self._order(windows, "window")] if self.shuffle else windows
        if self.batch_s is None:
            return Groups.single(self._drawn)
        ends = np.flatnonzero(np.diff(self._pools[self._drawn], append=-1)) + 1
        return _joined([self._batches(self._drawn[start:end]) for start, end in pairwise([0, *ends.tolist()])])

    def of(self, share: Partition, left: Groups) -> tuple[Groups, IntArray]:
        """What a consumer is given of steps that are left: its own, and where its blocks begin among them, and end."""
        own = left[share.of(len(left), pad=self.pad)]
        ends = _blocks(own.sums(self.lengths), self.buffer, self._pools[own.first])
        blocks = [own[start:end] for start, end in pairwise([0, *ends])]
        if self.shuffle:
            blocks = [block[self._order(block, "block")] for block in blocks]
        return _joined(blocks), np.array([0, *ends])

    def after(self, done: Sequence[Sequence[tuple[Partition, int]]]) -> Groups:
        """Groups that are left when consumers have taken so many each; once for each time that they were parted anew."""
        left = self.whole
        for level in done:
            gone = [self.of(share, left)[0][:taken].first for share, taken in level]
            left = left[np.flatnonzero(~np.isin(left.first, np.concatenate(gone)))]
        return left

    @cached_property
    def _drawn(self) -> IntArray:
        """All clips, runs of neighbours after each other."""
        numbers = np.arange(len(self.index))
        if not self.shuffle:
            return numbers
        shards = self.index["shard"].rle_id().to_numpy().astype(np.int64)
        places = numbers - np.searchsorted(shards, shards)
        return np.argsort(self._mixed(np.cumsum(places % self.run == 0), "run"), kind="stable")

    @cached_property
    def _pools(self) -> IntArray:
        """Of each clip, out of which part of the epoch its batch is made: what lies together is read together."""
        pools = np.zeros(len(self.index), np.int64)
        if self.batch_s is not None:
            ends = _blocks(self.lengths[self._drawn], self.buffer, pools)
            pools[self._drawn] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        return pools

    def _batches(self, clips: IntArray) -> Groups:
        """Batches of clips of about equal durations."""
        durations = self.index["duration_s"].to_numpy()[clips]
        by_length = np.argsort(durations, kind="stable")
        return Groups(clips[by_length], _batch_edges(durations[by_length], self.batch_s or 0.0))

    def _order(self, steps: Groups, purpose: str) -> IntArray:
        return np.argsort(self._mixed(steps.first, purpose), kind="stable")

    def _mixed(self, numbers: IntArray, purpose: str) -> NDArray[np.uint64]:
        return mixed(numbers, f"{purpose} {self.seed} {self.epoch}")


def mixed(numbers: IntArray, key: str) -> NDArray[np.uint64]:
    """A hash of each number under a key, the same in every version of NumPy: the finaliser of SplitMix64.

    Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.

    Examples:
        >>> len({*mixed(np.arange(3), "seed 1").tolist(), *mixed(np.arange(3), "seed 2").tolist()})
        6
    """
    salt = np.uint64(int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little"))
    with np.errstate(over="ignore"):
        z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + salt
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _windows(index: pl.DataFrame, size: int) -> Groups:
    """Consecutive clips of each recording, so many to a step; what a recording has left over is a shorter one."""
    _, codes = np.unique(index["recording_id"].to_numpy(), return_inverse=True)
    ordered = np.lexsort((index["start_sample"].to_numpy(), codes))
    recordings = codes[ordered]
    places = np.arange(len(recordings)) - np.searchsorted(recordings, recordings)
    return Groups(ordered, np.append(np.flatnonzero(places % size == 0), len(places)))


def _blocks(num_bytes: IntArray, most: int, pools: IntArray) -> list[int]:
    """Where blocks end: each as long as it stays below its bound and in its pool, but never empty."""
    ends, total, start = [], np.cumsum(num_bytes), 0
    changes = np.append(np.flatnonzero(np.diff(pools)) + 1, len(pools))
    bound = min(_FIRST_BLOCK, most)
    while start < len(total):
        before = int(total[start - 1]) if start else 0
        change = int(changes[np.searchsorted(changes, start, side="right")])
        start = min(change, max(start + 1, int(np.searchsorted(total, before + bound, side="right"))))
        ends.append(start)
        bound = min(2 * bound, most)
    return ends


def _batch_edges(durations: NDArray[np.float64], most: float) -> IntArray:
    """Where batches of sorted durations begin, and the last ends: clips times the longest is at most `most`, unless it is one."""
    edges, count = [0], 0
    for place, duration in enumerate(durations.tolist()):
        if count and (count + 1) * duration > most:
            edges.append(place)
            count = 0
        count += 1
    return np.array([*edges, len(durations)])


def _joined(blocks: Sequence[Groups]) -> Groups:
    if not blocks:
        return Groups(np.zeros(0, np.int64), np.zeros(1, np.int64))
    offsets = np.cumsum([0, *(len(block.clips) for block in blocks)])
    edges = [block.edges[:-1] + offset for block, offset in zip(blocks, offsets[:-1], strict=True)]
    return Groups(np.concatenate([block.clips for block in blocks]), np.concatenate([*edges, offsets[-1:]]))
