"""Measure what a new version of a corpus costs, against making all of it again, in one run.

The costs are time and bytes that are written.

    python benchmarks/growth.py [--hours 120] [--percent 1] [--jobs 2] [--runs 3]
                                [--container webdataset] [--folder DIR]

Recordings are an hour of noisy tones at 48 kHz in stereo FLAC, under as many names as there are
hours. A workspace with all of them is made into a corpus (the base) and grows by some percent of
its hours. Then `materialize --base` makes a new version of it, and `materialize` without packs the
whole corpus, in turns. Each time is that of the whole command. Hard links are not written. The
script fails if the new version takes more than 3 times the percentage of time or bytes of the
rebuild.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import soundfile as sf

from nbaudio.tables.workspace import Workspace

RATE = 48_000
HOUR, SECONDS = 3600, 6.0
MOST = 3.0


def main() -> None:
    """Make the recordings, the base, the new versions and the rebuilds; print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--hours", type=int, default=120)
    options.add_argument("--percent", type=float, default=1.0)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--container", default="webdataset")
    options.add_argument(
        "--folder", type=Path, help="where to work; a temporary folder unless given"
    )
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as temporary:
        folder = Path(temporary)
        record(folder, asked.hours + 1)
        clips = int(asked.hours * HOUR / SECONDS)
        more = int(clips * asked.percent / 100)
        select(folder, clips)
        run(folder, asked, "base", "--container", asked.container, "--shard-size", "100MB")
        times: dict[str, list[float]] = {"version": [], "rebuild": []}
        num_bytes = {}
        select(folder, clips + more)
        packs = folder / "w/packs"
        packs.rename(folder / "packs of the base")
        for _ in range(asked.runs):
            for name, arguments in {
                "version": ["--base", folder / "base"],
                "rebuild": ["--container", asked.container],
            }.items():
                shutil.rmtree(packs, ignore_errors=True)
                shutil.rmtree(folder / name, ignore_errors=True)
                times[name].append(run(folder, asked, name, *arguments))
                num_bytes[name] = written(folder / name, packs)
    share = {
        "time": median(a / b for a, b in zip(times["version"], times["rebuild"], strict=True)),
        "bytes": num_bytes["version"] / num_bytes["rebuild"],
    }
    print(
        f"{clips:,} clips of {asked.hours} hours, {more:,} more, {asked.container}, "
        f"{asked.jobs} jobs; medians of {asked.runs}\n"
    )
    print("| | new version | rebuild | share |\n|---|---|---|---|")
    print(
        f"| time | {median(times['version']):.1f} s | {median(times['rebuild']):.1f} s | "
        f"{share['time']:.2%} |"
    )
    print(
        f"| written | {num_bytes['version'] / 1e6:,.0f} MB | "
        f"{num_bytes['rebuild'] / 1e6:,.0f} MB | {share['bytes']:.2%} |"
    )
    sys.exit(any(value > MOST * asked.percent / 100 for value in share.values()))


def record(folder: Path, count: int) -> None:
    """Make one recording, under several names."""
    (folder / "audio").mkdir()
    random = np.random.default_rng(1)
    first = folder / "audio/r0.flac"
    loud = np.abs(np.sin(np.arange(60 * RATE) / RATE * 2.1)) * 1500
    with sf.SoundFile(first, "w", RATE, 2) as file:
        for _ in range(HOUR // 60):
            file.write((loud[:, None] * random.normal(size=(60 * RATE, 2))).astype(np.int16))
    for number in range(1, count):
        os.link(first, folder / f"audio/r{number}.flac")


def select(folder: Path, clips: int) -> None:
    """Save a workspace in which so many clips are accepted."""
    hour = int(HOUR / SECONDS)
    status = (folder / "audio/r0.flac").stat()
    facts = {"sampling_rate": RATE, "num_channels": 2, "num_samples": HOUR * RATE, "codec": "flac"}
    facts |= {"num_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
    recordings, segments = [], []
    for number in range(-(-clips // hour)):
        key = f"r{number}"
        # As if they were of several recordings, since equal clips are cut once.
        recordings.append(
            {
                "recording_id": key,
                "path": f"{key}.flac",
                "sha256": hashlib.sha256(key.encode()).hexdigest(),
                **facts,
            }
        )
        for place in range(min(hour, clips - number * hour)):
            start, end = int(place * SECONDS * RATE), int((place + 1) * SECONDS * RATE)
            row = {
                "segment_id": f"{key}_{place * SECONDS}-{(place + 1) * SECONDS}",
                "recording_id": key,
                "text": f"{number} i {place}",
            }
            row |= {
                "start_sample": start,
                "end_sample": end,
                "speaker_id": f"s{number}",
                "decision": "accept",
            }
            segments.append(row | {"split": {0: "dev", 1: "test"}.get(number, "train")})
    workspace = Workspace.create(folder / "w", source="made", audio=str(folder / "audio"))
    workspace.save(recordings=pl.DataFrame(recordings), segments=pl.DataFrame(segments))


def run(folder: Path, asked: argparse.Namespace, out: str, *arguments: object) -> float:
    """Run the command `materialize`; return its seconds."""
    command = [
        sys.executable,
        "-m",
        "nbaudio",
        "materialize",
        folder / "w",
        "--out",
        folder / out,
        "--jobs",
        asked.jobs,
        *arguments,
    ]
    began = time.monotonic()
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return time.monotonic() - began


def written(*folders: Path) -> int:
    """Sum the bytes of files that are no links to others."""
    files = (path.stat() for folder in folders for path in folder.rglob("*") if path.is_file())
    return sum(status.st_size for status in files if status.st_nlink == 1)


if __name__ == "__main__":
    main()
