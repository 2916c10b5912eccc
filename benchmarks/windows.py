"""Measure what windows of 10 consecutive clips take to read, also sliding by one.

The reference is every clip once; all is measured in one run.

    python benchmarks/windows.py [--clips 3000] [--seconds 6] [--tries 2] [--lines local,40ms]
                                 [--folder DIR]

Two corpora of the same clips: as materialized, and with `--window 10`, where windows are stored
together. Each is read shuffled, by two threads, in turns; the least of the tries counts. Exit code
1 if sliding windows of local clips take more than 2.5 times the CPU time of the clips, though they
have each of them 10 times.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from convert import make_corpus
from stream import LINES, served

import nbaudio

WAYS = {
    "clips": {},
    "windows of 10": {"consecutive": 10},
    "sliding by 1": {"consecutive": 10, "step": 1},
}


def seconds(where: str, way: dict[str, int]) -> tuple[float, float, int]:
    """CPU time and time of an epoch, and how many steps it has."""
    stream = nbaudio.open_corpus(where).stream("train", threads=2, **way)
    began, used = time.perf_counter(), time.process_time()
    steps = sum(1 for _ in stream)
    return time.process_time() - used, time.perf_counter() - began, steps


def main() -> None:
    """Make the corpora, read them, print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--clips", type=int, default=3000)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--tries", type=int, default=2)
    options.add_argument("--lines", default="local,40ms")
    options.add_argument(
        "--folder", type=Path, help="where to work; a temporary folder unless given"
    )
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as temporary:
        corpora = {"as materialized": make_corpus(Path(temporary), asked.clips, asked.seconds, 2)}
        corpora["--window 10"] = Path(temporary) / "windows"
        origin, out = corpora.values()
        nbaudio.convert(
            origin,
            container="webdataset",
            out=out,
            shard_size="70MB",
            window=10,
            show_progress=False,
        )
        print(
            "| line | corpus | "
            f"{' | '.join(f'{way}: steps/s, time, CPU time' for way in WAYS)} "
            f"|\n|{'---|' * (2 + len(WAYS))}"
        )
        missed = False
        for line in asked.lines.split(","):
            for name, corpus in corpora.items():
                with served(corpus, LINES[line]) as where:
                    tries = [
                        [seconds(where, way) for way in WAYS.values()] for _ in range(asked.tries)
                    ]
                used, took, steps = np.moveaxis(np.array(tries), 2, 0).min(axis=1)
                of_clips = zip(steps / took, took / took[0], used / used[0], strict=True)
                cells = [
                    f"{rate:,.0f}, {longer:.2f}, {more:.2f}" for rate, longer, more in of_clips
                ]
                print(f"| {line} | {name} | {' | '.join(cells)} |", flush=True)
                missed |= line == "local" and used[-1] > 2.5 * used[0]
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
