"""Readers that benchmarks/stream.py compares.

They are the prototypes that are its floors, nbaudio, and other libraries.

    python benchmarks/stream_readers.py READER FOLDER-OR-ADDRESS FOLDER WORKERS

Reads all clips once and prints a line of JSON: clips, seconds and seconds to the first batch of 16
clips, both from when the libraries are imported, seconds of these imports, the most memory that the
process itself held, and its seconds of CPU. Every reader imports what it uses itself, so that
nobody's memory includes the libraries of another.
"""

import http.client
import io
import json
import multiprocessing
import os
import resource
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

LINES = {
    "local": None,
    "40ms": ["--delay", "0.04", "--megabits", "1000"],
    "200Mbit": ["--delay", "0.04", "--megabits", "200"],
}
FIRST_BATCH = 16
PIECE_BYTES, IN_FLIGHT = 1_000_000, 8
IN_MEMORY: list[bytes] = []
Rows = list[tuple[str, int, int]]


class Source(NamedTuple):
    """What to read: a folder or its address, and the same folder on this machine.

    `workers` is by how many workers it is read.
    """

    where: str
    folder: Path
    workers: int

    @property
    def files(self) -> list[str]:
        """All files, relative to the folder."""
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if path.is_file()
        )

    @property
    def rows(self) -> Rows:
        """Shard, offset and length of each clip, in order.

        benchmarks/stream.py wrote them beside the folder.
        """
        return json.loads(self.folder.with_suffix(".json").read_text())

    def pieces(self) -> list[Rows]:
        """Neighbors in a shard, at most `PIECE_BYTES` together."""
        pieces: list[Rows] = []
        for row in self.rows:
            first = pieces[-1][0] if pieces else ("", 0, 0)
            if row[0] == first[0] and row[1] + row[2] - first[1] <= PIECE_BYTES:
                pieces[-1].append(row)
            else:
                pieces.append([row])
        return pieces


class Reader(NamedTuple):
    """A reader: the libraries that it imports, the container that it reads, and how.

    When `read` yields None, the clock starts anew.
    """

    libraries: tuple[str, ...]
    container: str
    read: Callable[[Source], Iterable[Any]]
    lines: tuple[str, ...] = tuple(LINES)


def decoded(encoded: bytes) -> Any:
    """As most readers decode."""
    import soundfile as sf

    return sf.read(io.BytesIO(encoded), dtype="float32")[0]


# --- floors


def prototype(source: Source, *, check: bool = False) -> Iterator[Any]:
    """Read without a library: ranges of 1 MB, eight in flight, decoded by dr_flac in threads.

    The places of all clips are known.
    """
    import hashlib

    import miniaudio
    import numpy as np

    mine = threading.local()
    address = urlsplit(source.where)
    pieces = source.pieces()
    yield None

    def fetch(piece: Rows) -> bytes:
        (shard, start, _), (_, last, length) = piece[0], piece[-1]
        if not address.netloc:
            with Path(source.where, shard).open("rb") as file:
                return os.pread(file.fileno(), last + length - start, start)
        if not hasattr(mine, "connection"):
            mine.connection = http.client.HTTPConnection(address.netloc)
        mine.connection.request(
            "GET", f"/{shard}", headers={"Range": f"bytes={start}-{last + length - 1}"}
        )
        return mine.connection.getresponse().read()

    def decode(piece: Rows, fetched: Any) -> list[Any]:
        clips, content = [], fetched.result()
        for _, offset, length in piece:
            clip = content[offset - piece[0][1] : offset - piece[0][1] + length]
            if check:
                hashlib.sha256(clip).hexdigest()
            clips.append(np.frombuffer(miniaudio.flac_read_s16(clip).samples, np.int16))
        return clips

    with (
        ThreadPoolExecutor(IN_FLIGHT if address.netloc else 1) as fetchers,
        ThreadPoolExecutor(source.workers) as decoders,
    ):
        fetching, decoding = deque[Any](), deque[Any]()
        for piece in chain(pieces, [None] * (IN_FLIGHT + source.workers + 1)):
            if piece:
                fetching.append((piece, fetchers.submit(fetch, piece)))
            if fetching and (len(fetching) > IN_FLIGHT or not piece):
                decoding.append(decoders.submit(decode, *fetching.popleft()))
            if decoding and (len(decoding) > source.workers or not fetching):
                yield from decoding.popleft().result()
        while decoding:
            yield from decoding.popleft().result()


def checked_prototype(source: Source) -> Iterator[Any]:
    """The same with the SHA-256 of each clip."""
    return prototype(source, check=True)


def memory(source: Source) -> Iterator[Any]:
    """Decode clips that are all in memory by soundfile, and give nothing back.

    One process or two do so.
    """
    for shard, offset, length in source.rows:
        with (source.folder / shard).open("rb") as file:
            IN_MEMORY.append(os.pread(file.fileno(), length, offset))
    # Processes that are forked have it all, and are not sent it.
    with ProcessPoolExecutor(source.workers, multiprocessing.get_context("fork")) as pool:
        list(pool.map(abs, range(source.workers)))
        yield None
        parts = [range(worker, len(IN_MEMORY), source.workers) for worker in range(source.workers)]
        for number in pool.map(decode_all, parts):
            yield from range(number)


def decode_all(numbers: range) -> int:
    """How many."""
    return sum(len(decoded(IN_MEMORY[number])) > 0 for number in numbers)


# --- readers


def ours(source: Source) -> Iterator[Any]:
    """One process that decodes in threads."""
    import nbaudio

    for clip in nbaudio.open_corpus(source.where).stream("train", threads=source.workers):
        yield clip.samples


def loaded(dataset: object, workers: int) -> Iterable[Any]:
    """By a torch DataLoader's workers."""
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=None, num_workers=workers)


def adapter(source: Source) -> Iterator[Any]:
    """Our torch adapter: DataLoader's workers hand over batches."""
    import nbaudio
    from nbaudio.reading.adapters.torch import stream_dataset

    stream = nbaudio.open_corpus(source.where).stream("train", batch_s=96.0, threads=1)
    for batch in loaded(stream_dataset(stream, dtype="int16"), source.workers):
        for samples, length in zip(batch["samples"], batch["lengths"], strict=True):
            yield samples[:length].numpy()


def webdataset(source: Source) -> Iterable[Any]:
    """By curl over HTTP, as the documentation advises."""
    import webdataset as wds

    urls = [
        f"pipe:curl -s {source.where}/{file}" if "://" in source.where else f"{source.where}/{file}"
        for file in source.files
        if file.endswith(".tar")
    ]
    shuffled = wds.WebDataset(urls, shardshuffle=100, seed=1, empty_check=False).shuffle(1000)
    return loaded(shuffled.map(lambda sample: decoded(sample["flac"])), source.workers)


def torchcodec(source: Source) -> Iterable[Any]:
    """Shards of webdataset, decoded by torchcodec."""
    import webdataset as wds
    from torchcodec.decoders import AudioDecoder

    urls = [f"{source.where}/{file}" for file in source.files if file.endswith(".tar")]
    shuffled = wds.WebDataset(urls, shardshuffle=100, seed=1, empty_check=False).shuffle(1000)
    return loaded(
        shuffled.map(lambda sample: AudioDecoder(sample["flac"]).get_all_samples().data),
        source.workers,
    )


def energon(source: Source) -> Iterable[Any]:
    """Megatron-Energon, which indexes the same tars."""
    import megatron.energon as en
    from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator

    tars = [file for file in source.files if file.endswith(".tar")]
    WebdatasetPreparator.prepare_dataset(
        source.folder, tars, split_parts_ratio=[("train", 1.0)], workers=source.workers
    )
    (source.folder / ".nv-meta/dataset.yaml").write_text(
        "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
    )

    @en.stateless
    def cook(
        sample: dict[str, Any],
    ) -> en.CaptioningSample:  # a class of its own, as workers pickle them
        return en.CaptioningSample(
            **en.basic_sample_keys(sample), image=decoded(sample["flac"]), caption=""
        )

    class Encoder(en.DefaultTaskEncoder):
        cookers = (en.Cooker(cook),)
        decoder = None

    yield None
    workers = en.WorkerConfig(rank=0, world_size=1, num_workers=source.workers)
    options = {
        "batch_size": None,
        "shuffle_buffer_size": 1000,
        "max_samples_per_sequence": 100,
        "repeat": False,
    }
    train_dataset = en.get_train_dataset(
        source.folder, worker_config=workers, task_encoder=Encoder(), **options
    )
    yield from (sample.image for sample in en.get_loader(train_dataset))


def grain(source: Source) -> Iterable[Any]:
    """Its own container, ArrayRecord, written by itself."""
    import grain as gr

    files = gr.sources.ArrayRecordDataSource(
        [str(path) for path in sorted(source.folder.iterdir())]
    )
    shuffled = gr.MapDataset.source(files).shuffle(seed=1).map(decoded)
    return shuffled.to_iter_dataset(
        gr.ReadOptions(num_threads=source.workers, prefetch_buffer_size=64)
    )


def datasets(source: Source) -> Iterable[Any]:
    """Streaming parquet."""
    import datasets as hf

    hf.disable_progress_bars()
    data_files = {
        "train": [f"{source.where}/{file}" for file in source.files if file.startswith("train/")]
    }
    streamed = hf.load_dataset("parquet", data_files=data_files, split="train", streaming=True)
    streamed = streamed.cast_column("audio", hf.Audio(decode=False)).shuffle(
        seed=1, buffer_size=1000
    )
    streamed = streamed.map(
        lambda row: {"samples": decoded(row["audio"]["bytes"])},
        remove_columns=streamed.column_names,
    )
    return loaded(streamed, source.workers)


def opened_zip(source: Source) -> Iterator[Any]:
    """Every file of ZIP shards opened by its address, 60 of them: the case that began it."""
    import fsspec

    shard = next(file for file in source.files if file.endswith(".zip"))
    names = [
        name
        for name in fsspec.filesystem("zip", fo=f"{source.where}/{shard}").find("")
        if name.endswith(".flac")
    ]
    for name in names[:60]:
        with fsspec.open(f"zip://{name}::{source.where}/{shard}") as file:
            yield decoded(file.read())


def lhotse(source: Source) -> Iterable[Any]:
    """Shar, by curl over HTTP."""
    from lhotse import CutSet
    from torch.utils.data import IterableDataset

    def opened(file: str) -> str:
        unpacked = " | gunzip -c" if file.endswith(".gz") else ""
        if "://" in source.where:
            return f"pipe:curl -s {source.where}/{file}{unpacked}"
        return f"{source.where}/{file}"

    kinds = {
        kind: sorted(
            file for file in source.files if file.rpartition("/")[2].startswith(f"{kind}.")
        )
        for kind in ("cuts", "recording")
    }
    fields = {kind: [opened(file) for file in names] for kind, names in kinds.items()}
    cuts = CutSet.from_shar(
        fields=fields, shuffle_shards=True, split_for_dataloading=source.workers > 1, seed=1
    )

    class Samples(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return (cut.load_audio()[0] for cut in cuts)

    return loaded(Samples(), source.workers)


def litdata(source: Source) -> Iterable[Any]:
    """Its own container, written by itself."""
    from litdata import StreamingDataLoader, StreamingDataset

    streaming = StreamingDataset(
        source.where, shuffle=True, transform=lambda row: decoded(row["audio"])
    )
    return chain.from_iterable(
        StreamingDataLoader(streaming, batch_size=16, num_workers=source.workers, collate_fn=list)
    )


DR_FLAC, OURS = ("miniaudio", "numpy"), ("nbaudio.reading", "miniaudio", "urllib3")
READERS = {
    "floor: prototype": Reader(DR_FLAC, "webdataset", prototype),
    "floor: prototype with SHA-256": Reader(DR_FLAC, "webdataset", checked_prototype),
    "floor: soundfile from memory": Reader(("soundfile",), "webdataset", memory, ("local",)),
    **{
        f"nbaudio, {container}": Reader(OURS, container, ours)
        for container in ("webdataset", "zip", "parquet", "tfrecord", "lhotse", "files")
    },
    "nbaudio, torch DataLoader": Reader(("torch.utils.data", *OURS), "webdataset", adapter),
    "webdataset": Reader(("webdataset", "torch.utils.data"), "webdataset", webdataset),
    "webdataset, torchcodec": Reader(
        ("webdataset", "torchcodec", "torch.utils.data"), "webdataset", torchcodec, ("local",)
    ),
    "Megatron-Energon": Reader(("megatron.energon", "soundfile"), "energon", energon, ("local",)),
    "Grain, ArrayRecord": Reader(("grain", "soundfile"), "array_record", grain, ("local",)),
    "datasets, parquet": Reader(("datasets", "torch.utils.data"), "parquet", datasets),
    "lhotse Shar": Reader(("lhotse", "torch.utils.data"), "lhotse", lhotse),
    "litdata": Reader(("litdata",), "litdata", litdata, ("local",)),
    "zip opened file by file": Reader(("fsspec", "aiohttp"), "zip", opened_zip, ("40ms",)),
}


def main() -> None:
    """Read all and print what it took."""
    name, where, folder, workers = sys.argv[1:]
    reader = READERS[name]
    started = time.perf_counter()
    for library in reader.libraries:
        __import__(library)
    began = time.perf_counter()
    imports_s, first_s, count = began - started, 0.0, 0
    for samples in reader.read(Source(where, Path(folder), int(workers))):
        if samples is None:
            began = time.perf_counter()
            continue
        count += 1
        if count == FIRST_BATCH:
            first_s = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    facts = {
        "count": count,
        "seconds": time.perf_counter() - began,
        "first_s": first_s,
        "imports_s": imports_s,
    }
    # Not ru_maxrss, which a program inherits from the one that starts it.
    most = next(
        (
            line.split()[1]
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmHWM")
        ),
        "0",
    )
    print(json.dumps(facts | {"own_mb": int(most) / 1e3, "cpu_s": used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main()
