"""Measure the comparison without formatting, and that of several hypotheses.

The references are jiwer with whisper-normalizer, and one hypothesis; all in one run.

    pip install whisper-normalizer
    python benchmarks/formatting.py [TRANSCRIPTS.jsonl] [--pairs 100000] [--language hr]
                                    [--hypotheses 3] [--runs 3]

Pairs are those of the file (JSON lines with `words` and `asr`, as in ParlaSpeech) over and over, or
made up. In every fourth transcript a number word becomes digits, so that there is something to
compare.

1. Ours: similarity, WER and CER, plain and without formatting. Reference: whisper-normalizer
   (BasicTextNormalizer) on both texts, and `jiwer.process_words` pair by pair, which gives the WER
   alone. Required: at most its time.
2. `score` of k hypotheses (further ones with other words in places) and their agreement against
   `score` of one. Required: at most k times its time.

CPU seconds of all threads, sides in turns, the best of the runs. The exit code is 1 where a
requirement fails.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

import polars as pl
from score import make_up

from nbaudio import Workspace, score
from nbaudio.tables.schemas import WORD_TIMES
from nbaudio.text.edit_distance import edit_counts
from nbaudio.text.formatting import Formatting, spoken_counts

DIGITS = {
    "dva": "2",
    "tri": "3",
    "pet": "5",
    "deset": "10",
    "dvadeset": "20",
    "sto": "100",
    "prvi": "1.",
    "posto": "%",
}


def pairs(path: Path, number: int) -> Iterator[tuple[str, str]]:
    """Yield transcripts, every fourth with digits, and hypotheses.

    Pairs that are repeated end in other words, so that none is cached.
    """
    lines = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    lexicon = sorted({word for line in lines for word in line["words"]})
    for count, line in enumerate(islice(cycle(lines), number)):
        if count % 4 == 0:
            words = [DIGITS.get(word, word) for word in line["words"]]
        else:
            words = line["words"]
        last = lexicon[count // len(lines) % len(lexicon)]
        yield " ".join([*words, last]), " ".join([*line["asr"], last])


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def ours(texts: list[str], heard: list[str], language: str) -> None:
    """Compute all measures, plain and without formatting."""
    columns = pl.Series(texts), pl.Series(heard)
    spoken_counts(*columns, Formatting(language), edit_counts(*columns))


def reference(texts: list[str], heard: list[str]) -> None:
    """Normalize both texts and compute the WER of each pair."""
    import jiwer
    from whisper_normalizer.basic import BasicTextNormalizer

    normalize = BasicTextNormalizer()
    for text, hypothesis in zip(texts, heard, strict=True):
        jiwer.process_words(normalize(text) or "-", normalize(hypothesis))


def another(heard: list[str], seed: int) -> list[str]:
    """Return the hypotheses of another recognizer: one word in twenty is another one."""
    draw = random.Random(seed)
    lexicon = sorted({word for hypothesis in heard[:2000] for word in hypothesis.split()})
    return [
        " ".join(
            draw.choice(lexicon) if draw.random() < 0.05 else word for word in hypothesis.split()
        )
        for hypothesis in heard
    ]


def scoring(texts: list[str], heard: list[list[str]], language: str) -> float:
    """Return the CPU seconds that `score` takes for some hypotheses of all texts."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create(folder)
        names = ["asr", *(f"more{n}" for n in range(1, len(heard)))]
        columns = {
            "asr_text" if name == "asr" else f"asr_text_{name}": hypotheses
            for name, hypotheses in zip(names, heard, strict=True)
        }
        ids = [str(n) for n in range(len(texts))]
        times = pl.Series(
            [
                [{"start": n / 4, "end": n / 4 + 0.2} for n in range(len(text.split()))]
                for text in texts
            ]
        )
        workspace.save(
            segments=pl.DataFrame(
                {"segment_id": ids, "text": texts, **columns, "word_times": times.cast(WORD_TIMES)}
            )
        )
        return cpu(lambda: score(workspace, hypothesis=names, language=language))


def main() -> int:
    """Measure all sides and say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("transcripts", nargs="?", type=Path)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--language", default="hr")
    parser.add_argument("--hypotheses", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.transcripts or Path(folder) / "transcripts.jsonl"
        if options.transcripts is None:
            make_up(path, min(options.pairs, 20_000), 42)
        texts, heard = map(list, zip(*pairs(path, options.pairs), strict=True))
    several = [heard, *(another(heard, seed) for seed in range(1, options.hypotheses))]
    took: dict[str, list[float]] = {}
    for _ in range(options.runs):
        sides = {
            "without formatting": lambda: cpu(lambda: ours(texts, heard, options.language)),
            "jiwer": lambda: cpu(lambda: reference(texts, heard)),
            "one hypothesis": lambda: scoring(texts, several[:1], options.language),
            "hypotheses": lambda: scoring(texts, several, options.language),
        }
        for side, measure in sides.items():
            took.setdefault(side, []).append(measure())
            print(f"{side}: {took[side][-1]:.1f} s", flush=True)
    best = {side: min(seconds) for side, seconds in took.items()}
    ratios = best["without formatting"] / best["jiwer"], best["hypotheses"] / best["one hypothesis"]
    print(
        f"{options.pairs:,} pairs: {ratios[0]:.2f} of jiwer's time; "
        f"{options.hypotheses} hypotheses {ratios[1]:.2f} times one"
    )
    return int(ratios[0] > 1 or ratios[1] > options.hypotheses)


if __name__ == "__main__":
    sys.exit(main())
