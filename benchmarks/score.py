"""Load and score 447,542 transcript pairs, against polars and rapidfuzz used plainly.

Both are measured in the same run.

    python benchmarks/score.py [TRANSCRIPTS.jsonl] [--segments 447542] [--runs 3] [--seed 42]

Reference: polars.read_ndjson, list.join of both word lists,
rapidfuzz.process.cpdist(scorer=Levenshtein.distance): distances alone; `reference*` lets cpdist use
all processors. Ours: the same work, which is the pairs (ingest's reader with word_times=no) and
their similarity, each block scored while the next is read; `ours*` is all that ingest and score do
one after the other, word times, WER and CER included. The sides take turns, each in a separate
process; the best of its runs counts, and the highest of its peaks of resident memory. Required:
ours at most 0.8 of the reference's time, all under 1 GB; the exit code is 1 where that fails. Other
work on the machine hits the sides unequally: the seconds of all processors tell how much there was.

Without a file the transcripts are made up: words of a seeded generator as frequent as in a natural
language, 35 a segment on average as in ParlaSpeech, one in thirty misheard, lost or split. With a
file its lines are repeated.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

SEGMENTS = 447_542
REQUIRED_RATIO = 0.8
REQUIRED_BYTES = 1_000_000_000
CHUNK = 1000


def make_up(path: Path, segments: int, seed: int) -> None:
    """Write made-up segments in ParlaSpeech's shape."""
    rng = np.random.default_rng(seed)
    syllables = [
        a + b + c
        for a in "bcčćdđgklmnprsštvzž"
        for b in "aeiou"
        for c in ("", "", "n", "r", "s", "j")
    ]
    lexicon = np.array(
        ["".join(rng.choice(syllables, size)) for size in rng.integers(1, 5, 60_000)]
    )
    frequency = 1 / (np.arange(len(lexicon)) + 3)
    frequency /= frequency.sum()
    with path.open("w", encoding="utf8") as file:
        for first in range(0, segments, CHUNK):
            sizes = np.clip(rng.normal(35, 14, min(CHUNK, segments - first)), 1, 80).astype(int)
            words = lexicon[rng.choice(len(lexicon), sizes.sum(), p=frequency)].tolist()
            errors = rng.choice(4, sizes.sum(), p=[29 / 30, 1 / 90, 1 / 90, 1 / 90]).tolist()
            lengths = rng.integers(8, 60, sizes.sum())
            ends = np.cumsum(sizes)
            for number, (start, end) in enumerate(zip(ends - sizes, ends, strict=True), first):
                times = (np.cumsum(lengths[start:end]) / 100).tolist()
                line = {
                    "file": f"{number % 742:03} made up [{number % 742:011}].wav",
                    "start": number / 100,
                    "end": round(number / 100 + times[-1], 2),
                    "words": words[start:end],
                    "word_start_times": [0, *times[:-1]],
                    "word_end_times": times,
                    "asr": misheard(words[start:end], errors[start:end]),
                }
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


def misheard(words: list[str], errors: list[int]) -> list[str]:
    """Return what a recognizer might make of words.

    An error of 0 leaves a word as it is, 1 changes its end, 2 loses it, 3 splits it.
    """
    heard = []
    for word, error in zip(words, errors, strict=True):
        heard += ([word], [word[:-1] + "o"], [], [word[:2], word[2:] or "a"])[error]
    return heard


def repeat(source: Path, path: Path, segments: int) -> None:
    """Write the lines of a file over and over."""
    lines = source.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.writelines(islice(cycle(lines), segments))


def reference(path: Path, workers: int = 1) -> tuple[float, float]:
    """Load and score plainly: seconds to load and to score."""
    import polars as pl
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cpdist

    start = time.perf_counter()
    frame = pl.read_ndjson(path)
    left, right = (frame[name].list.join(" ").to_list() for name in ("words", "asr"))
    loaded = time.perf_counter()
    cpdist(left, right, scorer=Levenshtein.distance, workers=workers)
    return loaded - start, time.perf_counter() - loaded


def ours(path: Path) -> tuple[float, float]:
    """Load and score the pairs with nbaudio, scoring what has been read while more is read.

    Return the seconds until all is read, and the seconds after that.
    """
    from nbaudio.formats import parlaspeech
    from nbaudio.text import similarity_column

    start = time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        scores = [
            pool.submit(similarity_column, block.transcripts["text"], block.transcripts["asr_text"])
            for block in parlaspeech.transcript_blocks(path, word_times="no")
        ]
        loaded = time.perf_counter()
        for score in scores:
            score.result()
    return loaded - start, time.perf_counter() - loaded


def ours_all(path: Path) -> tuple[float, float]:
    """Load everything and score by all measures with nbaudio.

    One comes after the other, as with its commands.
    """
    from nbaudio.formats import parlaspeech
    from nbaudio.text import score_columns

    start = time.perf_counter()
    frame = parlaspeech.read(path).frame
    loaded = time.perf_counter()
    score_columns(frame["text"], frame["asr_text"])
    return loaded - start, time.perf_counter() - loaded


SIDES = {
    "reference": reference,
    "reference*": partial(reference, workers=-1),
    "ours": ours,
    "ours*": ours_all,
}


class Run(NamedTuple):
    """What a run of one side took.

    It has the seconds to load and to score, those of all processors, and the peak resident bytes.
    """

    load: float
    score: float
    processors: float
    peak: int


def measure(side: str, path: Path) -> Run:
    """Run one side in a separate process."""
    command = [sys.executable, __file__, str(path), "--side", side]
    return Run(
        *json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    )


def main() -> int:
    """Measure both sides and say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("transcripts", nargs="?", type=Path)
    parser.add_argument("--segments", type=int, default=SEGMENTS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        seconds = SIDES[options.side](options.transcripts)
        used = resource.getrusage(resource.RUSAGE_SELF)
        # Linux counts resident memory in KiB.
        print(json.dumps([*seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
        return 0

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transcripts.jsonl"
        if options.transcripts:
            repeat(options.transcripts, path, options.segments)
        else:
            make_up(path, options.segments, options.seed)
        print(f"{options.segments:,} segments, {path.stat().st_size / 1e6:,.0f} MB", flush=True)
        runs: dict[str, list[Run]] = {side: [] for side in SIDES}
        for side in list(SIDES) * options.runs:
            run = measure(side, path)
            runs[side].append(run)
            print(
                f"  {side:<10}  load {run.load:6.2f} s  score {run.score:5.2f} s  both "
                f"{run.load + run.score:6.2f} s"
                f"  processors {run.processors:6.2f} s  {run.peak / 1e6:6,.0f} MB",
                flush=True,
            )
    best = {side: min(run.load + run.score for run in results) for side, results in runs.items()}
    peak = max(run.peak for side in ("ours", "ours*") for run in runs[side])
    ratio = best["ours"] / best["reference"]
    for mine in ("ours", "ours*"):
        for theirs in ("reference", "reference*"):
            print(
                f"{mine} {best[mine]:.2f} s, {theirs} {best[theirs]:.2f} s: "
                f"ratio {best[mine] / best[theirs]:.2f}"
            )
    print(
        f"ours at most {peak / 1e6:,.0f} MB resident; required: "
        f"{REQUIRED_RATIO} of reference, {REQUIRED_BYTES / 1e6:,.0f} MB"
    )
    return int(ratio > REQUIRED_RATIO or peak > REQUIRED_BYTES)


if __name__ == "__main__":
    sys.exit(main())
