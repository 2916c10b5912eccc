"""What a large corpus costs the machine that plans it: 300,000 tiny recordings, materialized with any engine.

    python benchmarks/scale.py [--recordings 300000] [--each 1] [--seconds 5] [--sizes 75000,150000,300000]
                               [--engine loky] [--jobs 2] [--folder DIR] [--required-mb 1000] [--driver-mb 700]

Recordings have `--each` segments of `--seconds` of noise, and are all names of one file: what is planned, opened, cut, packed and
published is what as many files would be, only the disk has less to hold. For each size one run in a separate process; its peak
of resident memory and that of all its processes together are taken from outside. Required: all together stay under
`--required-mb`, the driver under `--driver-mb`; the exit code is 1 where they do not. Numbers go to standard output as Markdown.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import soundfile as sf

from nbaudio import Workspace
from nbaudio.audio import probe

RATE = 16_000


def main() -> int:
    """Run every size and print a line for each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--recordings", type=int, default=300_000)
    options.add_argument("--sizes", help="several numbers of recordings, by commas")
    options.add_argument("--each", type=int, default=1)
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--engine", default="loky")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--folder", type=Path, help="where to work; a temporary folder unless given")
    options.add_argument("--required-mb", type=float, default=1000.0)
    options.add_argument("--driver-mb", type=float, default=700.0)
    asked = options.parse_args()
    sizes = [int(size) for size in (asked.sizes or str(asked.recordings)).split(",")]
    columns = ("recordings", "segments", "hours", "engine", "seconds", "driver MB", "all processes MB")
    print("| " + " | ".join([*columns, "core-seconds an hour of audio"]) + " |")
    print("|---" * (len(columns) + 1) + "|")
    within = True
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            workspace = make_workspace(Path(folder), size, asked.each, asked.seconds)
            run = [sys.executable, "-m", "nbaudio", "materialize", str(workspace), "--out", f"{folder}/corpus"]
            taken = measure([*run, "--engine", asked.engine, "--jobs", str(asked.jobs)])
        hours = size * asked.each * asked.seconds / 3600
        print(f"| {size:,} | {size * asked.each:,} | {hours:.0f} | {asked.engine} | {taken['wall']:.0f} | ", end="")
        print(f"{taken['driver']:.0f} | {taken['all']:.0f} | {taken['cpu'] / hours:.2f} |", flush=True)
        within &= taken["all"] <= asked.required_mb and taken["driver"] <= asked.driver_mb
    return int(not within)


def make_workspace(folder: Path, recordings: int, each: int, seconds: float) -> Path:
    """A workspace of so many recordings with so many accepted segments each."""
    audio = folder / "noise.flac"
    length = round(seconds * RATE)
    sf.write(audio, np.random.default_rng(0).normal(0, 0.05, each * length), RATE)
    found, status = probe(audio), audio.stat()
    facts = {
        "sampling_rate": found.sampling_rate,
        "num_channels": found.num_channels,
        "num_samples": found.num_samples,
        "codec": found.codec,
        "num_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
    }
    same = [pl.lit(value).alias(name) for name, value in facts.items()]
    # Hashes that differ make clips that differ.
    number = pl.int_range(recordings, eager=True)
    table = pl.select(recording_id=pl.format("sjednica [{}]", number.cast(pl.String).str.zfill(11))).select(
        "recording_id", pl.lit(audio.name).alias("path"), *same, sha256=pl.col("recording_id").str.zfill(64)
    )
    place = pl.int_range(recordings * each, eager=True)
    start = place % each * length
    said = pl.format("ovo je rečenica broj {} od mnogih koje je netko u saboru rekao dok su ga drugi slušali", place)
    segments = pl.select(
        recording_id=table["recording_id"].gather(place // each),
        start_sample=start,
        end_sample=start + length,
        text=said,
        asr_text=said,
        speaker_id=pl.format("spk{}", place // each % 1000),
        similarity=pl.lit(1.0),
        split=pl.lit("train"),
        decision=pl.lit("accept"),
    ).with_columns(segment_id=pl.format("{}_{}-{}", pl.col("recording_id").str.slice(10, 11), "start_sample", "end_sample"))
    workspace = Workspace.create(folder / "workspace", source="made", audio=str(folder))
    workspace.save(recordings=table, segments=segments)
    return workspace.path


def measure(command: list[str]) -> dict[str, float]:
    """Run a command: seconds, CPU seconds of all its processes, most MB of the first and of all together."""
    began, driver, everything = time.monotonic(), 0, 0
    cpu: dict[int, float] = {}
    run = psutil.Popen(command, stdout=subprocess.DEVNULL)
    while run.poll() is None:
        held = 0
        for process in [run, *run.children(recursive=True)]:
            try:
                memory, times = process.memory_info().rss, process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            held += memory
            cpu[process.pid] = times.user + times.system
            driver = max(driver, memory) if process.pid == run.pid else driver
        everything = max(everything, held)
        time.sleep(0.1)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {run.returncode}")
    return {"wall": time.monotonic() - began, "cpu": sum(cpu.values()), "driver": driver / 1e6, "all": everything / 1e6}


if __name__ == "__main__":
    sys.exit(main())
