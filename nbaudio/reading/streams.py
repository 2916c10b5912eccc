"""Stream clips, which threads of this process read one block ahead and decode.

Two blocks and a few clips bound the memory.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np

from nbaudio.core import allocator
from nbaudio.core.errors import InputError
from nbaudio.core.threads import ordered_map
from nbaudio.reading.clips import Clip, ClipReader, ClipRequests
from nbaudio.reading.order import Epoch, Groups, Partition

_AT_ONCE = 8  # clips per decoding task

_Level = list[tuple[Partition, int]]
# Clips to decode: their numbers, and what waits for their bytes.
_Task = list[tuple[int, Callable[[], bytes | memoryview]]]


class Stream:
    """One epoch of a split, or a consumer's part of it, as returned by `Corpus.stream`.

    Iteration continues from its state: a `state_dict` taken between two steps determines exactly
    which come next. To continue with another number of ranks or workers, pass the states of all of
    them to `load_state_dict`.
    """

    def __init__(self, clips: ClipReader, epoch: Epoch, share: Partition, *, threads: int) -> None:
        self.epoch = epoch
        self.share = share.check()
        self.clips = clips
        self.threads = threads
        self._start_over([], 0)

    def __len__(self) -> int:
        """Return the number of steps that are left."""
        return len(self._steps) - self._taken

    def __iter__(self) -> Iterator[Any]:
        """Yield the steps that are left: clips, or lists of clips if `listed`."""
        allocator.reuse_memory()
        with ClipRequests(self.clips) as requests, ExitStack() as cleanup:
            decoded = cleanup.enter_context(
                closing(ordered_map(self._decode, self._tasks(requests), jobs=self.threads))
            )
            # Requests are canceled first, as decoding tasks wait for them.
            cleanup.callback(requests.cancel)
            ahead = chain.from_iterable(decoded)
            listed = self.listed
            overlapping = self.epoch.overlapping
            for block in self._blocks():
                if overlapping:
                    lists = _windows(block, ahead)
                else:
                    lists = (list(islice(ahead, len(step))) for step in block)
                for step in lists if listed else islice(ahead, len(block)):
                    # Counted before the yield, so that a state taken by the consumer includes this
                    # step.
                    self._taken += 1
                    yield step

    def of(self, share: Partition, *, epoch: int | None = None, worker: Any = None) -> "Stream":
        """Return the same stream for another consumer or epoch, from its beginning.

        For a DataLoader's `worker` it is that worker's part.
        """
        if epoch in (None, self.epoch.epoch):
            order = self.epoch
        else:
            order = replace(self.epoch, epoch=epoch)
        if worker is None:
            return Stream(self.clips, order, share, threads=self.threads)
        part = share.part(worker.id, worker.num_workers)
        return Stream(self.clips, order, part, threads=max(1, self.threads // worker.num_workers))

    def state_dict(self) -> dict[str, Any]:
        """Return this consumer's position: plain numbers and text, for JSON or a checkpoint."""
        done = [[[*share, taken] for share, taken in level] for level in self._done]
        return {
            "version": 1,
            "epoch": self.epoch.parameters(),
            "done": done,
            "share": [*self.share],
            "taken": self._taken,
        }

    def load_state_dict(self, state: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
        """Resume from a state of the same share, or from those of all shares, of any number.

        Raise InputError for other states.
        """
        try:
            states = [_ShareState.of(item) for item in _listed(state)]
            done = [_level(rows) for rows in states[0].done]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"not the state of a stream: {error!r}") from error
        for share_state in states:
            self._check_same_stream(share_state)
            if share_state.done != states[0].done:
                raise InputError(
                    "the states do not belong together: take them from all consumers at "
                    "the same time"
                )
        if len(states) == 1 and states[0].share == self.share:
            self._start_over(done, states[0].taken)
            return
        _check_complete([share_state.share for share_state in states])
        level = [(share_state.share, share_state.taken) for share_state in states]
        self._start_over([*done, level], 0)

    def _check_same_stream(self, state: "_ShareState") -> None:
        """Raise InputError for a state of another format, or of a stream with other parameters."""
        parameters = {"step": self.epoch.consecutive, **self.epoch.parameters()}
        stored = {"step": state.epoch.get("consecutive"), **state.epoch}
        differing = [
            f"{name} {stored.get(name)}, not {value}"
            for name, value in parameters.items()
            if stored.get(name) != value
        ]
        if state.version != 1 or differing:
            reason = ", ".join(differing) or f"version {state.version}"
            raise InputError(f"the state is of another stream: {reason}")

    def check_fresh(self) -> "Stream":
        """Return itself, for adapters that start at the beginning.

        Raise InputError for a stream that has begun.
        """
        if len(self) and (self._done or self._taken):
            raise InputError(
                "the stream has started, adapters start at the beginning: "
                "pass a new one and load the state into it"
            )
        return self

    @property
    def listed(self) -> bool:
        """Whether steps are lists of clips: consecutive ones or batches."""
        return self.epoch.consecutive > 1 or self.epoch.batch_s is not None

    @property
    def padding(self) -> float:
        """Share of padding in all batches, from 0 to 1, if each is padded to its longest clip.

        It is known before anything is read.
        """
        durations = np.asarray(self.epoch.index["duration_s"])
        real = padded = 0.0
        for step in self._steps:
            real += float(durations[step].sum())
            padded += float(durations[step].max()) * len(step)
        return 1 - real / padded if padded else 0.0

    def _start_over(self, done: list[_Level], taken: int) -> None:
        """Continue after steps that consumers had `done`, and so many that this one has taken."""
        self._done = done
        self._taken = taken
        vars(self).pop("_steps", None)  # before others are made, so that both are never in memory
        self._steps, self._edges = self.epoch.of(self.share, self.epoch.after(done))
        if not 0 <= taken <= len(self._steps):
            raise InputError(f"the state is at step {taken:,} of {len(self._steps):,}")

    def _blocks(self) -> list[Groups]:
        """Return the steps that are left, in blocks that are read at once."""
        edges = [max(edge, self._taken) for edge in self._edges.tolist()]
        return [self._steps[start:end] for start, end in pairwise(edges) if end > start]

    def _tasks(self, requests: ClipRequests) -> Iterator[_Task]:
        """Yield decoding tasks in order, and keep none, as each holds its bytes.

        Requests are made one block ahead.
        """
        tasks: deque[_Task] = deque()
        for number, block in enumerate(self._blocks()):
            # Many small requests would delay the first batch.
            if number in (2, 3) and requests.small:
                while tasks:
                    yield tasks.popleft()
                if number == 2:
                    wait(requests.small)
            of_block_before = len(tasks)
            needed = list(dict.fromkeys(block.members.tolist()))
            parts = requests.parts(np.array(needed))
            tasks += (
                [(clip, parts.pop(clip)) for clip in needed[at : at + _AT_ONCE]]
                for at in range(0, len(needed), _AT_ONCE)
            )
            for _ in range(of_block_before):
                yield tasks.popleft()
        while tasks:
            yield tasks.popleft()

    def _decode(self, task: _Task) -> list[Clip]:
        """Decode clips; samples that several steps share are read-only."""
        clips = [self.clips.decoded(clip, wait_for_bytes()) for clip, wait_for_bytes in task]
        if self.epoch.overlapping:
            for clip in clips:
                # Several steps share this array, so it is read-only.
                if clip.samples is not None:
                    clip.samples.flags.writeable = False
        return clips


@dataclass(frozen=True)
class _ShareState:
    """The state of a consumer, as `Stream.state_dict` returns it.

    Attributes:
        version: of the format.
        epoch: the parameters of the epoch.
        done: rows of what consumers had taken before each change of their number.
        share: the part of the consumer.
        taken: how many of its steps it has taken.
    """

    version: Any
    epoch: dict[str, Any]
    done: Any
    share: Partition
    taken: int

    @classmethod
    def of(cls, state: dict[str, Any]) -> "_ShareState":
        """Read a state; raise KeyError, TypeError or ValueError for something else."""
        return cls(
            version=state["version"],
            epoch=dict(state["epoch"]),
            done=state["done"],
            share=Partition(*state["share"]).check(),
            taken=int(state["taken"]),
        )


def _listed(state: dict[str, Any] | Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one state or several as a list."""
    return [state] if isinstance(state, dict) else list(state)


def _level(rows: Sequence[Sequence[Any]]) -> _Level:
    """Return what each consumer had taken, from rows of its share and the number of steps."""
    return [(Partition(*row[:-1]).check(), int(row[-1])) for row in rows]


def _windows(block: Groups, ahead: Iterator[Clip]) -> Iterator[list[Clip]]:
    """Yield windows that overlap.

    `ahead` has a clip once per block; it is kept until the last step that has it.
    """
    uses = Counter(block.members.tolist())
    shared = dict[int, Clip]()
    for step in block:
        clips = []
        for number in step.tolist():
            clip = shared.pop(number) if number in shared else next(ahead)
            clips.append(clip)
            uses[number] -= 1
            if uses[number]:
                shared[number] = clip
        yield clips


def _check_complete(shares: list[Partition]) -> None:
    """Raise InputError unless these are the parts of all consumers, each once."""
    worlds = {(share.world_size, share.num_workers) for share in shares}
    world_size, num_workers = next(iter(worlds))
    wanted = {
        Partition(rank, world_size, worker, num_workers)
        for rank in range(world_size)
        for worker in range(num_workers)
    }
    if len(worlds) > 1 or len(shares) != len(wanted) or set(shares) != wanted:
        raise InputError(
            f"to resume with other consumers, pass the states of all {len(wanted)} "
            f"earlier ones, one each; got {len(shares)}"
        )
