"""Measure `select --avoid`: how fast segments are compared with the sentences of other data.

    python benchmarks/avoid.py [--segments 450000] [--sentences 1000000] [--planted 300] [--seed 42]

Sentences have words as frequent as in speech, 3 to 21 of them. A third of the planted segments has
a sentence of the other data, a third one with another letter, a third one with another last word.
Measured is a whole `select` in a process of its own. Required: all planted segments are left out,
in under 120 s and 1 GB of resident memory; the exit code is 1 where that fails.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from nbaudio.tables.workspace import Workspace

REQUIRED_SECONDS = 120
REQUIRED_MB = 1000
_SELECT = """
import json, sys
from pathlib import Path
import nbaudio
report = nbaudio.select(sys.argv[1], avoid=sys.argv[2], dev=0, test=0)
# Not ru_maxrss, which begins with what the parent had.
status = Path("/proc/self/status").read_text().splitlines()
most = next(line for line in status if line.startswith("VmHWM"))
print(json.dumps({"megabytes": int(most.split()[1]) / 1000, "rows": report.facts["avoided"]}))
"""


def make_sentences(number: int, lexicon: np.ndarray, rng: np.random.Generator) -> list[str]:
    """Make sentences of 3 to 21 words."""
    frequency = 1 / (np.arange(len(lexicon)) + 2.7)
    lengths = rng.integers(3, 22, number)
    words = lexicon[rng.choice(len(lexicon), lengths.sum(), p=frequency / frequency.sum())]
    parts = np.split(words, np.cumsum(lengths)[:-1])
    return [" ".join(part) for part in parts]


def planted(sentences: list[str], number: int) -> list[str]:
    """Return sentences that are equal to some of at least ten words, or near them."""
    long = [sentence for sentence in sentences if sentence.count(" ") > 9][:number]
    changed = []
    for place, sentence in enumerate(long):
        near = (
            sentence,
            f"{sentence[:20]}q{sentence[21:]}",
            f"{sentence.rpartition(' ')[0]} sasvimdrugariječ",
        )
        changed.append(near[place % 3])
    return changed


def make_inputs(folder: Path, options: argparse.Namespace) -> None:
    """Write the workspace ``W`` and the text file ``other.txt``."""
    rng = np.random.default_rng(options.seed)
    letters = list("aeioubcdgklmnprstvz")
    lexicon = np.array(["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(20_000)])
    sentences = make_sentences(options.sentences, lexicon, rng)
    (folder / "other.txt").write_text("\n".join(sentences), encoding="utf8")
    texts = make_sentences(options.segments, lexicon, rng)
    near = planted(sentences, options.planted)
    texts[: len(near)] = near
    number = pl.int_range(len(texts), eager=True)
    segments = pl.DataFrame(
        {
            "segment_id": pl.select(pl.format("s{}", number)).to_series(),
            "recording_id": pl.select(pl.format("r{}", number % 700)).to_series(),
            "speaker_id": pl.select(pl.format("p{}", number % 700)).to_series(),
            "source_start": (number * 5).cast(pl.String),
            "source_end": (number * 5 + 4).cast(pl.String),
            "text": texts,
        }
    )
    recordings = segments.select("recording_id").unique().sort("recording_id")
    Workspace.create(folder / "W").save(recordings=recordings, segments=segments)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Select, and return the seconds, the memory, and the planted segments that are left out."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _SELECT, str(folder / "W"), str(folder / "other.txt")],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.monotonic() - began
    reasons = Workspace.open(folder / "W").segments["reason"][: options.planted]
    return {
        "seconds": round(seconds, 1),
        "megabytes": round(json.loads(done.stdout)["megabytes"]),
        "left_out": int(reasons.str.starts_with("avoided_").sum() or 0),
    }


def main() -> int:
    """Measure and say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--segments", type=int, default=450_000)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--planted", type=int, default=300)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder), options)
        measured = measure(Path(folder), options)
    print(json.dumps(measured))
    is_as_required = (
        measured["seconds"] < REQUIRED_SECONDS
        and measured["megabytes"] < REQUIRED_MB
        and measured["left_out"] == options.planted
    )
    return 0 if is_as_required else 1


if __name__ == "__main__":
    sys.exit(main())
