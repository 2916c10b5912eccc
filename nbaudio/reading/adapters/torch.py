"""PyTorch adapter: a stream as an IterableDataset, and a split as a map-style dataset.

The stream resumes exactly. Both work with any start method of processes.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from nbaudio.core.errors import InputError, requires_extra
from nbaudio.reading import Corpus, Stream
from nbaudio.reading.adapters.arrays import ArrayForm, Dtype, array_form, padded
from nbaudio.reading.order import Partition

States = dict[str, Any] | Sequence[dict[str, Any]]


def stream_dataset(
    stream: Stream, *, dtype: Dtype = "float32", columns: Sequence[str] = ("text",)
) -> Any:
    """Return a stream as an IterableDataset.

    Each iteration starts over, and after ``set_epoch`` in another order.

    ``state_dict`` and ``load_state_dict`` are those of the stream: torchdata's StatefulDataLoader
    collects them from its workers and resumes exactly. A plain DataLoader does not; with
    ``num_workers=0`` use the dataset's own. ``load_state_dict`` also takes a list of the states of
    all consumers (ranks times workers); there may be more or fewer consumers than before.

    Pass the whole stream: the dataset divides it among the workers. A stream without a rank takes
    that of torch.distributed, if that is initialized when an epoch begins.

    Items are dictionaries whose arrays are tensors; see `nbaudio.reading.adapters`, also on `dtype`
    and `columns`.

    Raises:
        MissingExtraError: torch is not installed.
        InputError: an unknown type or column, a stream of encoded clips, or one that has begun.
    """
    dataset_class = _dataset_class()
    return dataset_class(stream.check_fresh(), array_form(stream, dtype=dtype, columns=columns))


class ClipDataset:
    """A split as a map-style dataset, indexed by position in the corpus; batches are read at once.

    Attributes:
        segments: rows of the split in segments.parquet, one for each item, in the same order.

    Raises:
        MissingExtraError: torch is not installed.
        InputError: an unknown split, type or column.
    """

    def __init__(
        self,
        corpus: Corpus,
        split: str,
        *,
        dtype: Dtype = "float32",
        columns: Sequence[str] = ("text",),
    ) -> None:
        _torch()
        self.segments = corpus.rows(split)
        self._corpus = corpus
        self._form = ArrayForm(dtype, columns).check(corpus.table.columns)

    def __len__(self) -> int:
        return len(self.segments)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return clips by their numbers, as DataLoader requests them, with concurrent reads."""
        ids = self.segments["segment_id"]
        return [
            _tensors(self._form.clip(clip))
            for clip in self._corpus.read_many([ids[number] for number in numbers])
        ]


def collate(clips: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Collate clips of either dataset to a padded batch.

    It is for ``DataLoader(dataset, batch_size=16, collate_fn=collate)``.
    """
    return _tensors(padded([clip | {"samples": clip["samples"].numpy()} for clip in clips]))


def states_of(loader: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the states of workers; `loader` is what `state_dict` of a StatefulDataLoader returns.

    Pass the states of all ranks together to ``load_state_dict`` of a new dataset to resume with any
    number of ranks and workers.

    Raises:
        InputError: the state is older than the last step, as the loader asks its workers only
            every ``snapshot_every_n_steps``; or it is not that of a StatefulDataLoader.
    """
    # The keys are those of torchdata, which has no public function for the states of workers.
    if loader.get("_steps_since_snapshot"):
        raise InputError(
            "the state is older than the last step: make the StatefulDataLoader with "
            "snapshot_every_n_steps=1"
        )
    try:
        if "_snapshot" in loader:
            workers = loader["_snapshot"]["_worker_snapshots"].values()
        else:
            workers = [loader]  # num_workers=0: the loader iterates the dataset itself
        return [worker["dataset_state"] for worker in workers]
    except KeyError as error:
        raise InputError(f"not the state of a StatefulDataLoader: {error!r}") from error


class _StreamDataset:
    """Implementation of `stream_dataset`.

    `_dataset_class` adds torch's base class after torch is imported.
    """

    def __init__(
        self, stream: Stream, form: ArrayForm, epoch: Any = None, states: States | None = None
    ) -> None:
        """Take a whole stream; `epoch` and `states` are those of a dataset that was pickled.

        The epoch is a tensor in shared memory, so that persistent workers see `set_epoch`.
        """
        self._stream = stream
        self._form = form
        self._states = states
        if epoch is None:
            epoch = _torch().tensor(stream.epoch.epoch).share_memory_()
        self._epoch = epoch
        self._running: Stream | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Spawned workers have no torch.distributed, so they get the rank.
        return _unpickled, (
            self._stream.of(_ranked(self._stream.share)),
            self._form,
            self._epoch,
            self._states,
        )

    def __iter__(self) -> Any:
        self._running = self._part()
        self._states = None  # loaded states are for one iteration; the next one starts over
        return (_tensors(self._form.step(step)) for step in self._running)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, and with it the order, from the next iteration on."""
        self._epoch.fill_(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this process in its part of the stream."""
        if self._running is None:
            return self._part().state_dict()
        return self._running.state_dict()

    def load_state_dict(self, states: States) -> None:
        """Resume from the state of a stream, or of all consumers, in the next iteration."""
        try:
            first = states if isinstance(states, dict) else states[0]
            self.set_epoch(first["epoch"]["epoch"])
        except (KeyError, IndexError, TypeError) as error:
            raise InputError(f"not the state of a stream: {error!r}") from error
        self._running = None
        self._states = states

    def _part(self) -> Stream:
        """Return the part of this rank and worker, from the loaded states or from its start."""
        worker = _torch().utils.data.get_worker_info()
        stream = self._stream.of(_ranked(self._stream.share), epoch=int(self._epoch), worker=worker)
        if self._states is not None:
            stream.load_state_dict(self._states)
        return stream


@cache
def _dataset_class() -> Any:
    """Return the class of stream datasets, made on demand: its base needs torch."""
    return type("StreamDataset", (_StreamDataset, _torch().utils.data.IterableDataset), {})


def _unpickled(*arguments: Any) -> Any:
    """Return a dataset from its pickled arguments."""
    return _dataset_class()(*arguments)


def _tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return arrays as tensors; other values stay."""
    tensor = _torch().from_numpy
    return {
        name: tensor(value) if isinstance(value, np.ndarray) else value
        for name, value in arrays.items()
    }


def _ranked(share: Partition) -> Partition:
    """Return a share with the rank of torch.distributed, unless it has one."""
    distributed = _torch().distributed
    if share.world_size == 1 and distributed.is_available() and distributed.is_initialized():
        return Partition(distributed.get_rank(), distributed.get_world_size())
    return share


def _torch() -> Any:
    """Return the module torch; raise MissingExtraError if it is not installed."""
    with requires_extra("torch"):
        import torch
    return torch
