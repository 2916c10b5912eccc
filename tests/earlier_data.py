"""Recordings and transcripts of the files of an earlier version, which `make_earlier.py` makes and
`test_earlier.py` reads; both take only what users take from the package."""

import csv
import hashlib
import os
from pathlib import Path

import numpy as np
import soundfile

from nbaudio import open_corpus

RATE = 8000
LENGTH, STEP = 0.4, 0.5  # seconds of a segment, and from one to the next
SEGMENTS = 12  # of a recording
SPEAKERS = ("ana", "Ben", "čedo", "dora", "eva", "fran")
LATER = "goga"  # who is added after the first corpora
TIME = 1_600_000_000  # files are as old as this
WORDS = (
    *("da", "ne", "dobar", "dan", "kuća", "voda", "grad", "more", "škola", "žena"),
    *("„brod”", "čaj", "=1+1", "<b>", "sunce", "mjesec"),
)


def recording(path: Path, number: int) -> None:
    """Tones of another pitch for each segment, with pauses and hardly any noise; the second
    recording is stereo."""
    path.parent.mkdir(exist_ok=True)
    rng = np.random.default_rng(number)
    time = np.arange(int(SEGMENTS * STEP * RATE)) / RATE
    pitch = np.repeat(100 * (2 + (np.arange(SEGMENTS) + number) % 15), int(STEP * RATE))
    is_loud = (time % STEP > 0.06) & (time % STEP < 0.34)
    samples = np.where(is_loud, 6000 * np.sin(2 * np.pi * pitch * time), 0).round()
    samples += rng.integers(-1, 2, len(samples))
    if number == 1:
        samples = np.stack([samples, 0.5 * samples], axis=1)
    soundfile.write(path, samples.astype(np.int16), RATE)
    os.utime(path, (TIME, TIME))


def rows_of(numbers) -> list[dict[str, object]]:
    """The rows of a transcript; the hypothesis of every ninth is of another sentence."""
    names = [*SPEAKERS, LATER]
    rows = []
    for number in numbers:
        for n in range(SEGMENTS):
            place = number * SEGMENTS + n
            words = [WORDS[(place * 7 + k * (3 + number)) % len(WORDS)] for k in range(5)]
            text = " ".join([*words, f"{names[number]}{n}"])
            rows.append(
                {
                    "segment_id": f"r{number}-{n:02}",
                    "audio": f"r{number}.flac",
                    "start": f"{n * STEP:.2f}",
                    "end": f"{n * STEP + LENGTH:.2f}",
                    "text": text,
                    "asr_text": "sasvim drugo" if place % 9 == 4 else text.lower(),
                    "speaker_id": names[number],
                    "split": ("train", "train", "dev", "test")[number % 4],
                    "topic": f"topic {place % 3}",
                }
            )
    return rows


def table(path: str, rows: list[dict[str, object]]) -> str:
    """Write rows as a CSV file with a fixed file time; return its path."""
    with Path(path).open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.utime(path, (TIME, TIME))
    return path


def without(rows, *names):
    """Copies of rows that lack some columns."""
    return [{key: value for key, value in row.items() if key not in names} for row in rows]


def transcribe(clips):
    """A recognizer whose texts tell the number of samples."""
    return [f"{len(clip)} samples" for clip in clips]


transcribe.version = "1"


def clips_of(corpus: str) -> dict[str, object]:
    """What is in a corpus: number of samples of each clip, and hashes."""
    opened = open_corpus(corpus)
    ids = sorted(opened.segments["segment_id"])
    encoding = opened.info["parameters"]["encoding"]
    give = "samples" if encoding in {"flac", "wav"} else "encoded"
    clips = opened.read_many(ids)
    exact = opened.read_many(ids, give=give)
    values = b"".join(c.samples.tobytes() if give == "samples" else bytes(c.encoded) for c in exact)
    rows = opened.segments.sort("segment_id")
    return {
        "samples": {key: len(clip.samples) for key, clip in zip(ids, clips, strict=True)},
        "give": give,
        "sha256": hashlib.sha256(values).hexdigest(),
        "split": dict(rows.select("segment_id", "split").iter_rows()),
        "text": dict(rows.select("segment_id", "text").iter_rows()),
        "version": opened.info.get("version"),
        "shards": {shard["name"]: shard["sha256"] for shard in opened.info["shards"]},
    }
