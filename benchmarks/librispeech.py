"""Ingest a LibriSpeech tree: files per second against os.scandir and header reads, and peak memory.

    python benchmarks/librispeech.py [--files 300000] [--chapter 100] [--sha256] [--folder FOLDER]

The tree is made up: chapters of hard links to one short flac, each with its transcripts. Measured,
each in a separate process: the least that any program does (os.scandir all the way down, the first
42 bytes of every flac: its STREAMINFO), the reader, all of ingest from the folder, and the
transcripts alone from a .tar.gz. Aimed at: 1,000 files a second on two idle cores. Required: ingest
stays under 1 GB; the exit code is 1 where that fails.
"""

import argparse
import multiprocessing
import os
import resource
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


def read(root: Path) -> int:
    """The reader alone."""
    return len(librispeech.read(root).frame)


def ingest(source: Path, out: Path, *, sha256: bool) -> int:
    """The whole step."""
    return int(nbaudio.ingest("librispeech", source, out=out, sha256=sha256).facts["segments"])


def measured(work: Callable[[], int]) -> tuple[int, float, float]:
    """Count, seconds and peak memory in bytes of `work` in a fresh process."""
    receiver, sender = multiprocessing.Pipe()

    def run() -> None:
        start = time.perf_counter()
        count = work()
        seconds = time.perf_counter() - start
        sender.send((count, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    figures: tuple[int, float, float] = receiver.recv()
    process.join()
    return figures


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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        measured(lambda: make_up(folder, options.files, options.chapter))
        # This lets all that is measured find the same cache.
        measured(lambda: scan(folder / "LibriSpeech"))
        works = {
            "os.scandir and headers": lambda: scan(folder / "LibriSpeech"),
            "reader": lambda: read(folder / "LibriSpeech"),
            "ingest of a folder": lambda: ingest(
                folder / "LibriSpeech", folder / "W", sha256=options.sha256
            ),
            "ingest of a .tar.gz": lambda: ingest(
                folder / "librispeech.tar.gz", folder / "V", sha256=options.sha256
            ),
        }
        missed = False
        for name, work in works.items():
            count, seconds, peak = measured(work)
            print(
                f"{name:24} {count:9,} files {seconds:8.2f} s {count / seconds:11,.0f} "
                f"files/s {peak / 1e6:8,.0f} MB"
            )
            if name == "ingest of a folder":
                missed = peak > REQUIRED_BYTES
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
