"""How fast `convert` writes each container, against `cp` of what it wrote, all in one run.

    python benchmarks/convert.py [--clips 12000] [--seconds 6] [--jobs 2] [--runs 5] [--folder DIR]

The corpus is made of noisy tones in 16 kHz FLAC and packed as WebDataset first. `cp` copies each
new corpus and calls `sync` for its files, as `convert` does for every file it writes. Both take
turns, as a disk's speed changes from one moment to the next: medians of several runs. Everything is
in the page cache when it is read.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import soundfile as sf

from nbaudio import convert, materialize
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.tables.workspace import Workspace

RATE = 16_000


def main() -> None:
    """Make the corpus, copy it, convert it, print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--clips", type=int, default=12_000)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument(
        "--folder", type=Path, help="where to work; a temporary folder unless given"
    )
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as temporary:
        folder = Path(temporary)
        corpus = make_corpus(folder, asked.clips, asked.seconds, asked.jobs)
        print(f"{asked.clips:,} clips, {asked.jobs} jobs\n")
        print(
            "| container | MB | s | MB/s | cp and sync, s | times cp |\n|---|---|---|---|---|---|"
        )
        for name in (name for name, container in CONTAINERS.items() if not container.levels_only):
            out, taken, copying = folder / "out", [], []
            for _ in range(asked.runs):
                shutil.rmtree(out, ignore_errors=True)
                taken.append(timed(write, corpus, out, name, asked.jobs))
                copying.append(timed(copy, out, folder / "copy"))
                shutil.rmtree(folder / "copy")
            num_mb = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
            seconds, plain = median(taken), median(copying)
            times = median(
                conversion / copied for conversion, copied in zip(taken, copying, strict=True)
            )
            print(
                (
                    f"| {name} | {num_mb:,.0f} | {seconds:.2f} | {num_mb / seconds:,.0f} | "
                    f"{plain:.2f} | {times:.2f} |"
                ),
                flush=True,
            )


def make_corpus(folder: Path, clips: int, seconds: float, jobs: int) -> Path:
    """A corpus of clips that compress about as speech does."""
    (folder / "audio").mkdir()
    random = np.random.default_rng(1)
    hour = int(3600 // seconds)
    recordings, segments = [], []
    for number in range(-(-clips // hour)):
        samples = int(hour * seconds * RATE)
        loud = np.abs(np.sin(np.arange(samples) / RATE * 2.1)) * 1500
        sound = (loud * random.normal(size=samples)).astype(np.int16)
        path = folder / f"audio/r{number}.wav"
        sf.write(path, sound, RATE)
        status = path.stat()
        facts = {
            "recording_id": f"r{number}",
            "path": path.name,
            "sampling_rate": RATE,
            "num_channels": 1,
            "num_samples": samples,
        }
        recordings.append(
            facts
            | {"codec": "pcm_s16le", "num_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
        )
        for start in range(min(hour, clips - number * hour)):
            first, last = int(start * seconds * RATE), int((start + 1) * seconds * RATE)
            key = {
                "segment_id": f"r{number}_{start * seconds}-{(start + 1) * seconds}",
                "recording_id": f"r{number}",
            }
            labels = {
                "text": f"rečenica {start}",
                "speaker_id": f"s{start % 50}",
                "split": "train",
                "decision": "accept",
            }
            segments.append(key | {"start_sample": first, "end_sample": last} | labels)
    workspace = Workspace.create(folder / "w", source="made", audio=str(folder / "audio"))
    workspace.save(recordings=pl.DataFrame(recordings), segments=pl.DataFrame(segments))
    materialize(workspace, out=folder / "corpus", shard_size="70MB", jobs=jobs, show_progress=False)
    shutil.rmtree(folder / "w")
    shutil.rmtree(folder / "audio")
    return folder / "corpus"


def copy(corpus: Path, out: Path) -> None:
    """What a person would do."""
    subprocess.run(["cp", "-r", corpus, out], check=True)
    for path in out.rglob("*"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def write(corpus: Path, out: Path, container: str, jobs: int) -> None:
    """The same corpus in another container."""
    convert(corpus, container=container, out=out, shard_size="71MB", jobs=jobs, show_progress=False)


def timed(step, corpus: Path, out: Path, *options) -> float:
    """Seconds of a step that writes `out`."""
    os.sync()
    began = time.perf_counter()
    step(corpus, out, *options)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
