"""Measure how fast the names of 447,542 segments are resolved.

They are names of 742 recordings whose spelling differs between transcripts and disk.

    python benchmarks/names.py [--segments 447542] [--names 742] [--seed 42]

Measured is all that ingest does for it: the distinct names, their files, their recordings' ids
joined to the segments. Required: under 0.5 s; the exit code is 1 where that fails.
"""

import argparse
import random
import sys
import time

import polars as pl

from nbaudio.audio.name_matching import resolve

REQUIRED_SECONDS = 0.5
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def make_up(names: int, rng: random.Random) -> tuple[list[str], list[str]]:
    """Make names as in transcripts, and files on disk.

    Some files have the same names, some have other blanks, extensions or titles.
    """
    wanted, available = [], []
    for number in range(names):
        key = "".join(rng.choices(ALPHABET, k=11))
        title = (
            f"{number % 28 + 1} {number % 12 + 1} 2018 - {number % 4 + 1}. dio, {number}. "
            "sjednica, 9. saziv"
        )
        wanted.append(f"{title} [{key}].wav")
        available.append(
            (
                f"{title} [{key}].wav",
                f"{title.replace(' - ', ' -  ')} [{key}].mp3",
                f"{title} [{key}].MP3",
                f"{title} (2) [{key}].wav",
            )[number % 4]
        )
    return wanted, available


def main() -> int:
    """Measure and say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--segments", type=int, default=447_542)
    parser.add_argument("--names", type=int, default=742)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    wanted, available = make_up(options.names, rng)
    segments = pl.DataFrame({"name": rng.choices(wanted, k=options.segments)})
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        audit = resolve(segments["name"].unique().to_list(), available)
        named = segments.join(
            audit.select("name", "recording_id"), on="name", how="left", maintain_order="left"
        )
        best = min(best, time.perf_counter() - start)
    decisions = ", ".join(
        f"{decision} {count}"
        for decision, count in audit["decision"].value_counts(sort=True).iter_rows()
    )
    print(
        f"{len(named):,} segments, {len(audit)} names ({decisions}): "
        f"{best:.3f} s (required {REQUIRED_SECONDS})"
    )
    return int(best > REQUIRED_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
