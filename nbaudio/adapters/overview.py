"""Every way of reading a corpus that is installed here: what it gives, how fast, and how much of its batches is padding."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nbaudio.adapters import arrays, huggingface, lhotse, tensorflow, torch
from nbaudio.errors import InputError
from nbaudio.reading import Corpus, Stream

_STDERR = 2
# Ids of the clips of each step, and its samples as the framework has them.
_Steps = Generator[tuple[Sequence[Any], Any], None, None]


class _Way(NamedTuple):
    """A way of reading: the package that it needs (and its extra), whether it takes batches, and how it is done."""

    name: str
    package: str
    batches: bool
    read: Callable[[Stream], _Steps]


def readers(corpus: Corpus, split: str, *, batch_s: float = 120.0, seed: int = 0, seconds: float = 1.0) -> pl.DataFrame:
    """Each way of reading, tried for a moment in this process.

    Args:
        corpus: to read.
        split: of it.
        batch_s: seconds of a batch, for those that take batches.
        seed: of the order.
        seconds: for which each reads.

    Returns:
        `reader`, `version` of its package, `gives` (type and shape of the first samples), `clips_per_s` and `first_ms`, until
        the first step is there; `note` says what to install where the package is missing, and the rest is null.

    Raises:
        InputError: there is no such split, or a number makes no sense.
    """
    if not seconds > 0:
        raise InputError(f"seconds must be more than 0, not {seconds}")
    streams = {batches: corpus.stream(split, seed=seed, batch_s=batch_s if batches else None) for batches in (True, False)}
    with _quiet():
        tried = [_tried(way, streams[way.batches], seconds) for way in _WAYS]
    return pl.DataFrame(tried, schema=_SCHEMA)


def padding(corpus: Corpus, split: str, *, batch_s: float = 120.0) -> pl.DataFrame:
    """How much of all batches is padding: of clips as they come, and of clips of about equal durations.

    Args:
        corpus: to read; no audio is.
        split: of it.
        batch_s: seconds of a batch with its padding.

    Returns:
        `batches_of`, `batches`, `clips` (of a batch, the mean), `most_s` (seconds of the largest, padding included), `padding`
        (share).

    Raises:
        InputError: there is no such split, or `batch_s` makes no sense.
    """
    stream = corpus.stream(split, batch_s=batch_s)
    clips = stream.epoch.index.height
    size = max(1, round(clips / len(stream)))
    # By their hashes, which is as good as at random.
    durations = stream.epoch.index["duration_s"].to_numpy()
    plain = [durations[start : start + size] for start in range(0, clips, size)]
    equal = [durations[step] for step in stream.epoch.whole]
    rows = []
    for name, batches in ((f"{size} clips as they come", plain), (f"clips of about equal durations, {batch_s:g} s", equal)):
        with_padding = np.array([batch.max() * len(batch) for batch in batches])
        share = 1 - durations.sum() / with_padding.sum()
        rows.append((name, len(batches), clips / len(batches), with_padding.max(), share))
    return pl.DataFrame(rows, schema=["batches_of", "batches", "clips", "most_s", "padding"], orient="row")


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is shown of what libraries write past Python, such as TensorFlow's thoughts on the processor."""
    shown = os.dup(_STDERR)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), _STDERR)
        yield
    finally:
        os.dup2(shown, _STDERR)
        os.close(shown)


def _tried(way: _Way, stream: Stream, seconds: float) -> dict[str, Any]:
    try:
        row = {"reader": way.name, "version": import_module(way.package).__version__}
    except ImportError:
        return {"reader": way.name, "note": f"not installed: pip install 'nbaudio[{way.package}]'"}
    start = perf_counter()
    clips, ends = 0, start + seconds
    while perf_counter() < ends:
        with closing(way.read(stream.of(stream.share))) as steps:
            for ids, samples in steps:
                if not clips:
                    row |= {"gives": _described(samples), "first_ms": round(1000 * (perf_counter() - start))}
                clips += len(ids)
                if perf_counter() > ends:
                    break
    return row | {"clips_per_s": round(clips / (perf_counter() - start))}


def _described(samples: Any) -> str:
    kind, dtype = type(samples), getattr(samples.dtype, "name", str(samples.dtype)).removeprefix("torch.")
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__} {dtype} {tuple(samples.shape)}"


def _decoding(stream: Stream) -> _Steps:
    """What one thread decodes when all is in memory: nothing is faster on one core."""
    rows = stream.clips.frame.head(64).iter_rows(named=True)
    encoded = [stream.clips.read(row["shard"], row["offset"], row["offset"] + row["length"]) for row in rows]
    for data in cycle(encoded):
        yield [""], stream.clips.decode(data) if stream.clips.decode else None


def _clips(stream: Stream) -> _Steps:
    for clip in stream:
        yield [clip.segment_id], clip.samples


def _each(batches: Iterable[Any]) -> _Steps:
    for batch in batches:
        ids = batch["segment_id"]
        yield [ids] if isinstance(ids, str) else ids, batch["samples"]


def _loaded(stream: Stream, *, workers: int) -> _Steps:
    from torch.utils.data import DataLoader

    yield from _each(DataLoader(torch.stream_dataset(stream), batch_size=None, num_workers=workers))


def _cut(stream: Stream) -> _Steps:
    for cut in lhotse.cuts(stream):
        yield [cut.id], cut.load_audio()


_WAYS = (
    _Way("decoding alone, one thread", "nbaudio", batches=False, read=_decoding),
    _Way("Corpus.stream", "nbaudio", batches=False, read=_clips),
    _Way("NumPy batches", "numpy", batches=True, read=lambda stream: _each(arrays.batches(stream))),
    _Way("torch DataLoader", "torch", batches=True, read=lambda stream: _loaded(stream, workers=0)),
    _Way("torch DataLoader, 2 workers", "torch", batches=True, read=lambda stream: _loaded(stream, workers=2)),
    _Way("tf.data", "tensorflow", batches=True, read=lambda stream: _each(tensorflow.dataset(stream))),
    _Way("datasets", "datasets", batches=False, read=lambda stream: _each(huggingface.dataset(stream, shards=1))),
    _Way("Lhotse", "lhotse", batches=False, read=_cut),
)
_SCHEMA = {
    "reader": pl.String,
    "version": pl.String,
    "gives": pl.String,
    "clips_per_s": pl.Int64,
    "first_ms": pl.Int64,
    "note": pl.String,
}
