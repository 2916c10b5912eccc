"""Ingest a LibriSpeech tree: files per second against two bare ways to read it, and peak memory.

    python benchmarks/librispeech.py [--files 300000] [--chapter 100] [--sha256] [--folder FOLDER]

The tree is made up: chapters of hard links to one short flac, each with its transcripts. Measured,
each in a separate process: the least that any program does (os.scandir all the way down, the first
42 bytes of every flac: its STREAMINFO), every flac opened by soundfile, the reader, all of ingest
from the folder, and the transcripts alone from a .tar.gz. Aimed at: 1,000 files a second on two
idle cores. Required: ingest stays under 1 GB; the exit code is 1 where that fails.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile as sf

import nbaudio
from nbaudio.formats import librispeech

REQUIRED_BYTES = 1e9
HEADER_BYTES = 42


def make_up(place: Path, files: int, chapter: int) -> int:
    """The tree, `chapter` files in each folder, and its archive."""
    root = place / "LibriSpeech"
    noise = 0.05 * np.random.default_rng(0).normal(size=1600)
    for first in range(0, files, chapter):
        number = first // chapter
        folder = root / f"train-{number % 3}" / str(number // 20) / str(number)
        folder.mkdir(parents=True)
        names = [f"{number // 20}-{number}-{i:04d}" for i in range(min(chapter, files - first))]
        sf.write(folder / f"{names[0]}.flac", noise, 16000)
        for name in names[1:]:
            (folder / f"{name}.flac").hardlink_to(folder / f"{names[0]}.flac")
        text = "".join(
            f"{name} CHAPTER {number} AND THE WORDS OF AN UTTERANCE AS LONG AS THEY ARE\n"
            for name in names
        )
        (folder / f"{number // 20}-{number}.trans.txt").write_text(text)
    with tarfile.open(
        place / "librispeech.tar.gz", "w:gz", compresslevel=1, dereference=True
    ) as archive:
        archive.add(root, "LibriSpeech")
    return files


def scan(root: Path) -> int:
    """What any program has to do: see every file and read its header."""
    count = 0
    folders = [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(".flac"):
                    with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123  # nothing on top
                        count += file.read(HEADER_BYTES).startswith(b"fLaC")
    return count


def open_all(root: Path) -> int:
    """Open every flac by soundfile, which reads its length and rate."""
    return sum(sf.info(path).frames > 0 for path in root.rglob("*.flac"))


def read(root: Path) -> int:
    """The reader alone."""
    return len(librispeech.read(root).frame)


def ingest(source: Path, out: Path, *, sha256: bool) -> int:
    """The whole step."""
    return int(nbaudio.ingest("librispeech", source, out=out, sha256=sha256).facts["segments"])


# By folder, and whether recordings are hashed.
WORKS: dict[str, Callable[[Path, bool], int]] = {
    "os.scandir and headers": lambda folder, _: scan(folder / "LibriSpeech"),
    "soundfile": lambda folder, _: open_all(folder / "LibriSpeech"),
    "reader": lambda folder, _: read(folder / "LibriSpeech"),
    "ingest of a folder": lambda folder, sha256: ingest(
        folder / "LibriSpeech", folder / "W", sha256=sha256
    ),
    "ingest of a .tar.gz": lambda folder, sha256: ingest(
        folder / "librispeech.tar.gz", folder / "V", sha256=sha256
    ),
}


def measured(name: str, folder: Path, *, sha256: bool = False) -> dict[str, float]:
    """Files, seconds and peak memory in bytes of a work in a separate process."""
    hashing = ["--sha256"] if sha256 else []
    command = [sys.executable, __file__, "--work", name, str(folder), *hashing]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def work(name: str, folder: Path, *, sha256: bool) -> None:
    """Do a work on the tree in `folder`; print as JSON what it took."""
    start = time.perf_counter()
    count = WORKS[name](folder, sha256)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"files": count, "seconds": seconds, "peak_bytes": peak}))


def main() -> int:
    """Measure and say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=300_000)
    parser.add_argument("--chapter", type=int, default=100)
    parser.add_argument("--sha256", action="store_true", help="hash every recording too")
    parser.add_argument(
        "--folder", type=Path, help="where to make the tree; a temporary folder unless given"
    )
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], Path(options.work[1]), sha256=options.sha256)
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        make_up(folder, options.files, options.chapter)
        scan(folder / "LibriSpeech")  # so that all works read from the same cache
        missed = False
        for name in WORKS:
            figures = measured(name, folder, sha256=options.sha256)
            count, seconds, peak = figures["files"], figures["seconds"], figures["peak_bytes"]
            print(
                f"{name:24} {count:9,} files {seconds:8.2f} s {count / seconds:11,.0f} "
                f"files/s {peak / 1e6:8,.0f} MB",
                flush=True,
            )
            if name == "ingest of a folder":
                missed = peak > REQUIRED_BYTES
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
