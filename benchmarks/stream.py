"""Measure how fast a corpus is read back.

It is compared with a bare prototype on the same machine and with other libraries, all in one run.

    python benchmarks/stream.py [--clips 3120] [--seconds 6] [--runs 5] [--only READER ...]
                                [--lines local,40ms,200Mbit] [--folder DIR]

Each reader gives every clip of a split once, shuffled where it can, in a separate process
(benchmarks/stream_readers.py). Clips per second count from when its libraries are imported, so with
what it takes to open; so does the first batch of 16 clips. Memory is the most that the process and
its children held at once. `40ms` goes through benchmarks/delayed.py at 1 Gbit/s, `200Mbit` through
the same line with that limit. The floor is a prototype without a library: ranges of 1 MB, eight in
flight, decoded by dr_flac in two threads, without the hashes that nbaudio checks; of clips by key,
64 plain requests at once. nbaudio and the floor take turns, as a machine's speed changes from one
moment to the next; ratios are of neighboring runs. What does not install is named. Exit code 1
where a required ratio is not reached.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
import psutil
from convert import make_corpus
from stream_readers import LINES, READERS, Reader

import nbaudio

TOP = Path(__file__).resolve().parent
RANDOM_CLIPS = 500
FLOOR = "floor: prototype"
# A share of the floor's clips per second, a multiple of its first batch, and memory.
REQUIRED, FIRST, LOCAL_MB = 0.95, 1.3, 150


# --- one reader, in a separate process


def measured(name: str, where: str, folder: Path, workers: int = 2) -> dict[str, float]:
    """What a reader took, and the most memory that it held."""
    command = [
        sys.executable,
        str(TOP / "stream_readers.py"),
        name,
        where,
        str(folder),
        str(workers),
    ]
    most = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            most = max(most, resident_bytes(process.pid))
            time.sleep(0.05)
        out, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{name} failed on {where}:\n{errors[-2000:]}")
    figures = json.loads(out.splitlines()[-1])
    return figures | {
        "rate": figures["count"] / figures["seconds"],
        "mb": max(most / 1e6, figures["own_mb"]),
    }


def resident_bytes(pid: int) -> int:
    """Bytes of a process and its children."""
    try:
        family = [process := psutil.Process(pid), *process.children(recursive=True)]
        return sum(member.memory_info().rss for member in family)
    except psutil.NoSuchProcess:
        return 0


# --- clips by key


def by_key(where: str, corpus: Path, seed: int) -> dict[str, float]:
    """Clips per second of plain requests and of `read_many`, both decoded by dr_flac."""
    import http.client
    import threading
    from urllib.parse import urlsplit

    import miniaudio

    opened = nbaudio.open_corpus(where)
    rows = json.loads(corpus.with_suffix(".json").read_text())
    chosen = random.Random(seed).sample(range(len(rows)), min(RANDOM_CLIPS, len(rows)))
    ids = [opened.table["segment_id"][number] for number in chosen]
    address, mine = urlsplit(where), threading.local()

    def read(number: int) -> bytes:
        shard, offset, length = rows[number]
        if not hasattr(mine, "connection"):
            mine.connection = http.client.HTTPConnection(address.netloc)
        mine.connection.request(
            "GET", f"/{shard}", headers={"Range": f"bytes={offset}-{offset + length - 1}"}
        )
        return mine.connection.getresponse().read()

    with ThreadPoolExecutor(64) as fetchers, ThreadPoolExecutor(2) as decoders:
        began = time.perf_counter()
        fetched = [fetchers.submit(read, number) for number in chosen]
        list(
            decoders.map(
                lambda response: np.frombuffer(
                    miniaudio.flac_read_s16(response.result()).samples, np.int16
                ),
                fetched,
            )
        )
        floor = len(chosen) / (time.perf_counter() - began)
    began = time.perf_counter()
    opened.read_many(ids)
    return {
        "floor: 64 requests at once": floor,
        "nbaudio": len(chosen) / (time.perf_counter() - began),
    }


# --- all


@contextmanager
def served(folder: Path, options: list[str] | None) -> Iterator[str]:
    """Its address behind a line; the folder itself where there is none."""
    if options is None:
        yield str(folder)
        return
    with subprocess.Popen(
        [sys.executable, str(TOP / "delayed.py"), str(folder), *options],
        stdout=subprocess.PIPE,
        text=True,
    ) as line:
        try:
            yield line.stdout.readline().strip()
        finally:
            line.kill()


def make(folder: Path, container: str, corpus: Path) -> Path:
    """The corpus in a container."""
    out = folder / container
    if container == "energon":  # adds its own files
        shutil.copytree(corpus / "train", out)
    elif container == "array_record":
        from array_record.python.array_record_module import ArrayRecordWriter

        out.mkdir()
        writer = ArrayRecordWriter(str(out / "clips.array_record"), "group_size:1")
        opened = nbaudio.open_corpus(corpus)
        for clip in opened.stream("train", shuffle=False, give="encoded"):
            writer.write(clip.encoded)
        writer.close()
    elif container == "litdata":
        from litdata import optimize

        ids = nbaudio.open_corpus(corpus).segments["segment_id"].to_list()
        inputs = [(str(corpus), ids[at : at + 100]) for at in range(0, len(ids), 100)]
        optimize(
            fn=litdata_rows, inputs=inputs, output_dir=str(out), chunk_bytes="64MB", num_workers=1
        )
    else:
        nbaudio.convert(
            corpus, container=container, out=out, shard_size="71MB", jobs=2, show_progress=False
        )
    note_places(out)
    return out


def note_places(corpus: Path) -> None:
    """Write where all clips are beside a corpus, for the floors."""
    if (corpus / "segments.parquet").is_file():
        rows = nbaudio.open_corpus(corpus).segments.select("shard", "offset", "length").rows()
        corpus.with_suffix(".json").write_text(json.dumps(rows))


def litdata_rows(part: tuple[str, list[str]]) -> Iterator[dict[str, bytes]]:
    """Rows for litdata's writer."""
    for clip in nbaudio.open_corpus(part[0]).read_many(part[1], give="encoded"):
        yield {"audio": clip.encoded, "segment_id": clip.segment_id}


def main() -> None:
    """Make the containers, read them, print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--clips", type=int, default=3120)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--only", nargs="+", help="readers, by the beginnings of their names")
    options.add_argument("--lines", default=",".join(LINES))
    options.add_argument(
        "--folder", type=Path, help="where to work; a temporary folder unless given"
    )
    asked = options.parse_args()
    wanted = {
        name: reader
        for name, reader in READERS.items()
        if not asked.only or name.startswith(("floor", *asked.only))
    }
    chosen = {name: reader for name, reader in wanted.items() if not absent(reader)}
    for name in wanted.keys() - chosen.keys():
        print(f"not installed: {', '.join(absent(wanted[name]))} ({name})")
    with tempfile.TemporaryDirectory(dir=asked.folder) as temporary:
        folder = Path(temporary)
        corpus = make_corpus(folder, asked.clips, asked.seconds, 2)
        note_places(corpus)
        made = {"webdataset": corpus}
        for reader in chosen.values():
            if reader.container not in made:
                made[reader.container] = make(folder, reader.container, corpus)
        missed = []
        for line in asked.lines.split(","):
            missed += compare(line, chosen, made, asked.clips, asked.runs)
            missed += [] if line == "local" else compare_by_key(line, corpus, asked.runs)
    for problem in missed:
        print(f"missed: {problem}")
    sys.exit(bool(missed))


def absent(reader: Reader) -> list[str]:
    """Libraries of a reader that are not installed."""
    return [name for name in reader.libraries if not find_spec(name.partition(".")[0])]


def compare(
    line: str, readers: dict[str, Reader], made: dict[str, Path], clips: int, runs: int
) -> list[str]:
    """Print the table of a line; return what is required and was not reached."""
    print(
        f"\n{line}\n\n| reader | clips/s | of the floor, median (least) | first batch, "
        "s (times the floor) | imports, s | MB |"
    )
    print("|---|---|---|---|---|---|")
    names = [name for name, reader in readers.items() if line in reader.lines]
    facts_of: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for turn in range(runs):
        for name in names:
            paired = name.startswith(("floor: prototype", "nbaudio"))
            if turn and not paired:
                continue  # once is enough to see how far another library is
            reader = readers[name]
            try:
                with served(made[reader.container], LINES[line]) as where:
                    facts = measured(name, where, made[reader.container])
            except RuntimeError as error:
                if paired:
                    raise
                sys.stderr.write(f"{error}\n")
                continue
            if facts["count"] != clips and "file by file" not in name:
                raise SystemExit(f"{name} gave {facts['count']:,} of {clips:,} clips")
            facts_of[name].append(facts)
    missed = []
    for name in names:
        if not facts_of[name]:
            print(f"| {name} | failed | | | | |")
            continue
        pairs = list(zip(facts_of[name], facts_of[FLOOR], strict=False))
        ratios = [measured_facts["rate"] / floor["rate"] for measured_facts, floor in pairs]
        firsts = [measured_facts["first_s"] / floor["first_s"] for measured_facts, floor in pairs]
        rate, first, imports, mb = (
            median(measured_facts[key] for measured_facts in facts_of[name])
            for key in ("rate", "first_s", "imports_s", "mb")
        )
        shown = (
            f"{rate:,.0f} | {median(ratios):.2f} ({min(ratios):.2f}) | {first:.2f} "
            f"({median(firsts):.1f})"
        )
        print(f"| {name} | {shown} | {imports:.2f} | {mb:,.0f} |", flush=True)
        if name.startswith("nbaudio") and "DataLoader" not in name:
            facts = (
                ("of the floor", median(ratios), REQUIRED),
                ("first batch, times the floor", -median(firsts), -FIRST),
            )
            facts += (("MB", -mb, -LOCAL_MB),) if line == "local" else ()
            missed += [
                f"{line}, {name}: {abs(has):.2f} {what}, {abs(needs)} is required"
                for what, has, needs in facts
                if has < needs
            ]
    return missed


def compare_by_key(line: str, corpus: Path, runs: int) -> list[str]:
    """Print what clips by key take; return what is required and was not reached."""
    with served(corpus, LINES[line]) as where:
        turns = [by_key(where, corpus, seed) for seed in range(runs)]
    print(f"\n{RANDOM_CLIPS} clips by key, {line}\n\n| reader | clips/s |\n|---|---|")
    rates = {name: median(turn[name] for turn in turns) for name in turns[0]}
    print("\n".join(f"| {name} | {rate:,.0f} |" for name, rate in rates.items()), flush=True)
    if line == "40ms" and rates["nbaudio"] < 500:
        return [f"{line}, by key: {rates['nbaudio']:,.0f}/s, 500 are required"]
    return []


if __name__ == "__main__":
    main()
