"""Count words by frequency and accuracy (`views.words`), against plain Python.

They are those of 450,000 made-up segments of 20 words.

    python benchmarks/words.py [--segments 450000] [--sample 20000] [--runs 3] [--seed 42]

Reference: what NeMo's Speech Data Explorer does for its vocabulary, in plain Python: each pair of
texts is split, aligned by difflib.SequenceMatcher, and the words of matching blocks are counted;
without normalization and without examples. It runs on the first `--sample` segments, and its time
is scaled to all. Both run in turns in one process; the best run counts, in seconds of wall time and
of all processors, as other work on the machine hits them unequally. One word in thirty is misheard;
words are as frequent as in a natural language.
"""

import argparse
import difflib
import resource
import time
from collections import Counter

import numpy as np
import polars as pl

from nbaudio.ui import views


def make_up(segments: int, seed: int) -> pl.DataFrame:
    """Segments with a transcript and a hypothesis."""
    rng = np.random.default_rng(seed)
    lexicon = np.array([f"riječ{number:x}" for number in range(60_000)])
    frequency = 1 / (np.arange(len(lexicon)) + 3)
    sizes = np.clip(rng.normal(20, 8, segments), 1, 60).astype(int)
    said = rng.choice(len(lexicon), sizes.sum(), p=frequency / frequency.sum())
    heard = np.where(rng.random(len(said)) < 1 / 30, rng.integers(0, len(lexicon), len(said)), said)
    bounds = np.cumsum(sizes)[:-1]
    texts = (
        [" ".join(words) for words in np.split(lexicon[side], bounds)] for side in (said, heard)
    )
    facts = {"segment_id": [f"s{number}" for number in range(segments)], "duration_s": 8.0}
    return pl.DataFrame({**facts, **dict(zip(("text", "asr_text"), texts, strict=True))})


def plain(frame: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """Occurrences of each word, and those that match."""
    count: Counter[str] = Counter()
    right: Counter[str] = Counter()
    matcher = difflib.SequenceMatcher()
    for text, heard in frame.select("text", "asr_text").iter_rows():
        reference, hypothesis = text.split(), heard.split()
        count.update(reference)
        matcher.set_seqs(reference, hypothesis)
        for start, _, size in matcher.get_matching_blocks():
            right.update(reference[start : start + size])
    return {word: (number, right[word]) for word, number in count.items()}


def main() -> None:
    """Run both in turns and print their times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("segments", 450_000), ("sample", 20_000), ("runs", 3), ("seed", 42)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    frame = make_up(options.segments, options.seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sample = frame.head(options.sample)
    scale = len(frame) / len(sample)
    best = {"plain": (np.inf, np.inf), "nbaudio": (np.inf, np.inf)}
    for _ in range(options.runs):
        for name, work in (
            ("plain", lambda: plain(sample)),
            ("nbaudio", lambda: views.words(frame)),
        ):
            begun = time.perf_counter(), time.process_time()
            result = work()
            taken = time.perf_counter() - begun[0], time.process_time() - begun[1]
            best[name] = tuple(min(pair) for pair in zip(best[name], taken, strict=True))
            print(
                f"{name}: {taken[0]:.1f} s, {taken[1]:.1f} s of processors, {len(result):,} words"
            )
    wall, processors = (best["nbaudio"][i] / (best["plain"][i] * scale) for i in (0, 1))
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(
        f"plain, all {len(frame):,} segments: {best['plain'][0] * scale:.0f} s; nbaudio: "
        f"{best['nbaudio'][0]:.1f} s"
    )
    print(
        f"ratio {wall:.2f} of wall time, {processors:.2f} of processors; "
        f"{more:.1f} GB more at the peak than the table"
    )


if __name__ == "__main__":
    main()
