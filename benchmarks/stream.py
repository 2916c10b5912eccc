"""How fast a corpus is read back, against the floors of this machine and against other libraries, all in one run.

    python benchmarks/stream.py [--clips 6000] [--seconds 6] [--only READER ...] [--lines local,40ms,200Mbit] [--folder DIR]

Each reader gives every clip of a split once, shuffled, as float32, in a separate process. Samples per second count from when
its libraries are imported, so with what it takes to open. Memory is the most that the process and its children held at once.
`40ms` goes through benchmarks/delayed.py, `200Mbit` through the same line with that limit. Floors: clips that are in memory
decoded by soundfile in as many processes; over HTTP ranges of 16 clips by 4 kept connections, decoded as they come; of clips by
key, 16 and 64 requests at once. What is not installed is left out; who has no HTTP of its own is not asked for it. Exit code 1
where a required ratio is not reached.
"""

import argparse
import io
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import soundfile as sf
import urllib3
from convert import make_corpus

import nbaudio

TOP = Path(__file__).resolve().parent
RANDOM_CLIPS = 500
IN_MEMORY: list[bytes] = []
LINES = {"local": None, "40ms": ["--delay", "0.04"], "200Mbit": ["--delay", "0.04", "--megabits", "200"]}


class Source(NamedTuple):
    """What to read: a folder or its address, its files, and by how many workers."""

    where: str
    files: list[str]
    workers: int


class Reader(NamedTuple):
    """A reader: its library, the container that it reads, and how; None among the samples starts the clock anew."""

    library: str
    container: str
    read: Callable[[Source], Iterable[np.ndarray | None]]
    lines: tuple[str, ...] = tuple(LINES)


def decoded(data: bytes) -> np.ndarray:
    """As most readers decode."""
    return sf.read(io.BytesIO(data), dtype="float32")[0]


# --- readers


def ours(source: Source) -> Iterator[np.ndarray]:
    """One process that decodes in threads."""
    for clip in nbaudio.open_corpus(source.where).stream("train", threads=source.workers):
        yield clip.samples.astype(np.float32) / 32768


def memory(source: Source) -> Iterator[np.ndarray]:
    """The floor: every clip is in memory, one process or two decode them and give nothing back."""
    corpus = nbaudio.open_corpus(source.where)
    IN_MEMORY.extend(clip.encoded for clip in corpus.read_many(corpus.segments["segment_id"].to_list(), give="encoded"))
    # Processes that are forked have it all, and are not sent it.
    with ProcessPoolExecutor(source.workers, multiprocessing.get_context("fork")) as pool:
        list(pool.map(abs, range(source.workers)))
        yield None
        parts = [range(worker, len(IN_MEMORY), source.workers) for worker in range(source.workers)]
        for number in pool.map(decode_all, parts):
            yield from (np.zeros(0) for _ in range(number))


def decode_all(numbers: range) -> int:
    """How many."""
    return sum(len(decoded(IN_MEMORY[number])) > 0 for number in numbers)


def ranges(source: Source) -> Iterator[np.ndarray]:
    """The floor over HTTP: 16 clips by a request, 4 at a time."""
    pool = urllib3.PoolManager(maxsize=4)
    rows = nbaudio.open_corpus(source.where).segments.select("shard", "offset", "length").rows()
    parts = [[row for row in rows if row[0] == shard] for shard in dict.fromkeys(row[0] for row in rows)]
    parts = [part[at : at + 16] for part in parts for at in range(0, len(part), 16)]

    def read(part: list[tuple[str, int, int]]) -> list[np.ndarray]:
        first = part[0][1]
        data = ranged(pool, f"{source.where}/{part[0][0]}", first, part[-1][1] + part[-1][2])
        return [decoded(data[offset - first : offset - first + length]) for _, offset, length in part]

    with ThreadPoolExecutor(4) as threads:
        for some in threads.map(read, parts):
            yield from some


def ranged(pool: urllib3.PoolManager, url: str, start: int, stop: int) -> bytes:
    """Bytes of a file."""
    return pool.request("GET", url, headers={"Range": f"bytes={start}-{stop - 1}"}).data


def loaded(dataset: object, workers: int) -> Iterable[np.ndarray]:
    """By a torch DataLoader's workers."""
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=None, num_workers=workers)


def adapter(source: Source) -> Iterator[np.ndarray]:
    """Our torch adapter: DataLoader's workers hand over batches."""
    from nbaudio.reading.adapters.torch import stream_dataset

    stream = nbaudio.open_corpus(source.where).stream("train", batch_s=96.0, threads=1)
    for batch in loaded(stream_dataset(stream, dtype="int16"), source.workers):
        for samples, length in zip(batch["samples"], batch["lengths"], strict=True):
            yield samples[:length].numpy().astype(np.float32) / 32768


def webdataset(source: Source) -> Iterable[np.ndarray]:
    """By curl over HTTP, as the documentation advises."""
    import webdataset as wds

    urls = [
        f"pipe:curl -s {source.where}/{file}" if "://" in source.where else f"{source.where}/{file}"
        for file in source.files
        if file.endswith(".tar")
    ]
    shuffled = wds.WebDataset(urls, shardshuffle=100, seed=1, empty_check=False).shuffle(1000)
    return loaded(shuffled.map(lambda sample: decoded(sample["flac"])), source.workers)


def datasets(source: Source) -> Iterable[np.ndarray]:
    """Streaming parquet."""
    import datasets as hf

    hf.disable_progress_bars()
    data_files = {"train": [f"{source.where}/{file}" for file in source.files if file.startswith("train/")]}
    found = hf.load_dataset("parquet", data_files=data_files, split="train", streaming=True)
    found = found.cast_column("audio", hf.Audio(decode=False)).shuffle(seed=1, buffer_size=1000)
    found = found.map(lambda row: {"samples": decoded(row["audio"]["bytes"])}, remove_columns=found.column_names)
    return loaded(found, source.workers)


def opened_zip(source: Source) -> Iterator[np.ndarray]:
    """Every file of ZIP shards opened by its address, 60 of them: the case that began it."""
    import fsspec

    rows = nbaudio.open_corpus(source.where).segments["segment_id", "shard"].rows()[:60]
    shard = rows[0][1]
    names = [name for name in fsspec.filesystem("zip", fo=f"{source.where}/{shard}").find("") if name.endswith(".flac")]
    for name in names[:60]:
        with fsspec.open(f"zip://{name}::{source.where}/{shard}") as file:
            yield decoded(file.read())


def lhotse(source: Source) -> Iterable[np.ndarray]:
    """Shar, by curl over HTTP."""
    from lhotse import CutSet
    from torch.utils.data import IterableDataset

    def opened(file: str) -> str:
        unpacked = " | gunzip -c" if file.endswith(".gz") else ""
        return f"pipe:curl -s {source.where}/{file}{unpacked}" if "://" in source.where else f"{source.where}/{file}"

    kinds = {
        kind: sorted(file for file in source.files if file.rpartition("/")[2].startswith(f"{kind}."))
        for kind in ("cuts", "recording")
    }
    fields = {kind: [opened(file) for file in found] for kind, found in kinds.items()}
    cuts = CutSet.from_shar(fields=fields, shuffle_shards=True, split_for_dataloading=source.workers > 1, seed=1)

    class Samples(IterableDataset):
        def __iter__(self) -> Iterator[np.ndarray]:
            return (cut.load_audio()[0] for cut in cuts)

    return loaded(Samples(), source.workers)


def streaming(source: Source) -> Iterable[np.ndarray]:
    """MDS."""
    from streaming import StreamingDataset

    class Samples(StreamingDataset):
        def __getitem__(self, at: int) -> np.ndarray:
            return decoded(super().__getitem__(at)["audio"])

    return loaded(Samples(local=source.where, split="train", shuffle=True, batch_size=1), source.workers)


def litdata(source: Source) -> Iterable[np.ndarray]:
    """Its own container, written by itself."""
    from litdata import StreamingDataLoader, StreamingDataset

    found = StreamingDataset(source.where, shuffle=True, transform=lambda row: decoded(row["audio"]))
    return chain.from_iterable(StreamingDataLoader(found, batch_size=16, num_workers=source.workers, collate_fn=list))


READERS = {
    "floor: soundfile from memory": Reader("soundfile", "webdataset", memory, ("local",)),
    "floor: ranges, 4 connections": Reader("urllib3", "webdataset", ranges, ("40ms", "200Mbit")),
    "nbaudio, tar": Reader("nbaudio", "webdataset", ours),
    "nbaudio, zip": Reader("nbaudio", "zip", ours),
    "nbaudio, parquet": Reader("nbaudio", "parquet", ours),
    "nbaudio, tfrecord": Reader("nbaudio", "tfrecord", ours),
    "nbaudio, torch DataLoader": Reader("torch", "webdataset", adapter),
    "webdataset": Reader("webdataset", "webdataset", webdataset),
    "datasets, parquet": Reader("datasets", "parquet", datasets),
    "lhotse Shar": Reader("lhotse", "lhotse", lhotse),
    "MDS": Reader("streaming", "mds", streaming, ("local",)),
    "litdata": Reader("litdata", "litdata", litdata, ("local",)),
    "zip opened file by file": Reader("fsspec", "zip", opened_zip, ("40ms",)),
}


# --- one reader, in a separate process


def run_reader(name: str, where: str, folder: str, workers: int) -> None:
    """Read all and print what it took."""
    reader = READERS[name]
    __import__(reader.library)
    files = sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())
    began = time.perf_counter()
    first, count = 0.0, 0
    for samples in reader.read(Source(where, files, workers)):
        if samples is None:
            began = time.perf_counter()
            continue
        first = first or time.perf_counter() - began
        count += 1
    print(json.dumps({"first_s": first, "count": count, "seconds": time.perf_counter() - began}))


def measured(name: str, where: str, folder: Path, workers: int) -> dict[str, float]:
    """What a reader took, and the most memory that it held."""
    command = [sys.executable, __file__, "--run", name, where, str(folder), str(workers)]
    most = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            most = max(most, held(process.pid))
            time.sleep(0.05)
        out, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{name} failed on {where}:\n{errors[-2000:]}")
    found = json.loads(out.splitlines()[-1])
    return {"rate": found["count"] / found["seconds"], "first_s": found["first_s"], "mb": most / 1e6, "count": found["count"]}


def held(pid: int) -> int:
    """Bytes of a process and its children."""
    try:
        family = [process := psutil.Process(pid), *process.children(recursive=True)]
        return sum(each.memory_info().rss for each in family)
    except psutil.NoSuchProcess:
        return 0


# --- clips by key


def by_key(where: str, corpus: Path) -> dict[str, float]:
    """Clips per second of plain requests and of `read_many`, decoded."""
    table = nbaudio.open_corpus(corpus).segments.sample(fraction=1.0, shuffle=True, seed=1).head(RANDOM_CLIPS)
    rows = table.select("shard", "offset", "length").rows()
    found = {}
    for at_once in (16, 64):
        pool = urllib3.PoolManager(maxsize=at_once)

        def read(row: tuple[str, int, int], pool: urllib3.PoolManager = pool) -> np.ndarray:
            return decoded(ranged(pool, f"{where}/{row[0]}", row[1], row[1] + row[2]))

        with ThreadPoolExecutor(at_once) as threads:
            began = time.perf_counter()
            list(threads.map(read, rows))
            found[f"floor: {at_once} requests at once"] = len(rows) / (time.perf_counter() - began)
    opened = nbaudio.open_corpus(where)
    began = time.perf_counter()
    opened.read_many(table["segment_id"].to_list())
    return found | {"nbaudio": len(rows) / (time.perf_counter() - began)}


# --- all


@contextmanager
def served(folder: Path, options: list[str] | None) -> Iterator[str]:
    """Its address behind a line; the folder itself where there is none."""
    if options is None:
        yield str(folder)
        return
    with subprocess.Popen(
        [sys.executable, str(TOP / "delayed.py"), str(folder), *options], stdout=subprocess.PIPE, text=True
    ) as line:
        try:
            yield line.stdout.readline().strip()
        finally:
            line.kill()


def make(folder: Path, container: str, corpus: Path) -> Path:
    """The corpus in a container."""
    out = folder / container
    if container == "litdata":
        from litdata import optimize

        ids = nbaudio.open_corpus(corpus).segments["segment_id"].to_list()
        inputs = [(str(corpus), ids[at : at + 100]) for at in range(0, len(ids), 100)]
        optimize(fn=litdata_rows, inputs=inputs, output_dir=str(out), chunk_bytes="64MB", num_workers=1)
    else:
        nbaudio.convert(corpus, container=container, out=out, shard_size="71MB", jobs=2, show_progress=False)
    return out


def litdata_rows(given: tuple[str, list[str]]) -> Iterator[dict[str, bytes]]:
    """Rows for litdata's writer."""
    for clip in nbaudio.open_corpus(given[0]).read_many(given[1], give="encoded"):
        yield {"audio": clip.encoded, "segment_id": clip.segment_id}


def main() -> None:
    """Make the containers, read them, print the tables."""
    if sys.argv[1:2] == ["--run"]:
        name, where, folder, workers = sys.argv[2:]
        run_reader(name, where, folder, int(workers))
        return
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clips", type=int, default=6000)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--only", nargs="+", help="readers, by the beginnings of their names")
    options.add_argument("--lines", default=",".join(LINES))
    options.add_argument("--folder", type=Path, help="where to work; a temporary folder unless given")
    asked = options.parse_args()
    chosen = {
        name: reader
        for name, reader in READERS.items()
        if find_spec(reader.library) and (not asked.only or name.startswith(("floor", *asked.only)))
    }
    with tempfile.TemporaryDirectory(dir=asked.folder) as temporary:
        folder = Path(temporary)
        corpus = make_corpus(folder, asked.clips, asked.seconds, 2)
        made = {"webdataset": corpus}
        for reader in chosen.values():
            if reader.container not in made:
                made[reader.container] = make(folder, reader.container, corpus)
        lines = asked.lines.split(",")
        missed = [problem for line in lines for problem in compare(line, chosen, made, asked.clips)]
        missed += [problem for line in lines if line != "local" for problem in compare_by_key(line, corpus)]
    for problem in missed:
        print(f"missed: {problem}")
    sys.exit(bool(missed))


def compare(line: str, readers: dict[str, Reader], made: dict[str, Path], clips: int) -> list[str]:
    """Print the table of a line; what is required and was not reached."""
    print(f"\n{line}\n\n| reader | 1 worker | 2 workers | first sample s | MB, 2 workers |\n|---|---|---|---|---|")
    rates = {}
    for name, reader in readers.items():
        if line not in reader.lines:
            continue
        try:
            with served(made[reader.container], LINES[line]) as where:
                one, two = (measured(name, where, made[reader.container], workers) for workers in (1, 2))
        except RuntimeError as error:
            if name.startswith(("floor", "nbaudio")):
                raise
            print(f"| {name} | failed | | | |", flush=True)
            sys.stderr.write(f"{error}\n")
            continue
        if one["count"] != clips and "file by file" not in name:
            raise SystemExit(f"{name} gave {one['count']:,} of {clips:,} clips")
        rates[name] = max(one["rate"], two["rate"])
        print(f"| {name} | {one['rate']:,.0f} | {two['rate']:,.0f} | {one['first_s']:.2f} | {two['mb']:,.0f} |", flush=True)
    floor, required = ("floor: soundfile from memory", 0.9) if line == "local" else ("floor: ranges, 4 connections", 0.95)
    ratio = rates["nbaudio, tar"] / rates[floor]
    print(f"\nnbaudio, tar: {ratio:.2f} of the floor; {required} is required")
    return [] if ratio >= required else [f"{line}: {ratio:.2f} of {floor}, {required} is required"]


def compare_by_key(line: str, corpus: Path) -> list[str]:
    """Print what clips by key take; what is required and was not reached."""
    with served(corpus, LINES[line]) as where:
        rates = by_key(where, corpus)
    print(f"\nClips by key, {line}\n\n| reader | clips/s |\n|---|---|")
    print("\n".join(f"| {name} | {rate:,.0f} |" for name, rate in rates.items()))
    ratio = rates["nbaudio"] / rates["floor: 16 requests at once"]
    print(f"\nnbaudio: {ratio:.2f} of 16 requests at once; 0.9 is required", flush=True)
    return [] if ratio >= 0.9 else [f"{line}, by key: {ratio:.2f} of 16 requests at once, 0.9 is required"]


if __name__ == "__main__":
    main()
