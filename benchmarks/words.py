"""Count words and errors of large tables (`views.words`, `views.error_rates`).

Against plain Python, of 450,000 made-up segments of 20 words in a workspace that was scored.

    python benchmarks/words.py [--segments 450000] [--sample 20000] [--runs 3] [--seed 42]

Transcripts have capitals and punctuation, hypotheses have none. One word in ten is misheard, words
are as frequent as in a natural language. Three pairs run in turns in one process:

- Words: what NeMo's Speech Data Explorer does for its vocabulary, in plain Python, without
  normalization and without examples: each pair of texts is split, aligned by
  difflib.SequenceMatcher, and the words of matching blocks are counted.
- Error rates by speaker: each text is normalized, and each pair is compared by rapidfuzz, one after
  the other.
- Words once more, as the workspace has kept them, against counting them.

Plain Python runs on the first `--sample` segments, and its time is scaled to all. The best run
counts, in seconds of wall time and of all processors, as other work on the machine hits them
unequally.
"""

import argparse
import difflib
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from rapidfuzz.distance import Levenshtein

from nbaudio.tables.workspace import Workspace
from nbaudio.text import DEFAULT_STEPS, normalize
from nbaudio.ui import views

Texts = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Seconds:
    """How long some work took."""

    wall: float
    processors: float


def main() -> None:
    """Run all in turns and print their times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("segments", 450_000), ("sample", 20_000), ("runs", 3), ("seed", 42)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = make_workspace(Path(folder), options.segments, options.seed)
        sample = views.segments(workspace).head(options.sample)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        works: dict[str, Callable[[], object]] = {
            "words, plain": lambda: plain_words(sample),
            "words": lambda: views.words(workspace),
            "words, kept": lambda: views.words(workspace),
            "error rates, plain": lambda: plain_errors(sample),
            "error rates": lambda: views.error_rates(workspace, by="speaker_id"),
        }
        best = dict.fromkeys(works, Seconds(np.inf, np.inf))
        for _ in range(options.runs):
            shutil.rmtree(workspace.path / ".words", ignore_errors=True)
            for name, work in works.items():
                taken = measure(work)
                print(f"{name}: {taken.wall:.1f} s, {taken.processors:.1f} s of processors")
                best[name] = Seconds(
                    min(best[name].wall, taken.wall), min(best[name].processors, taken.processors)
                )
    scale = options.segments / len(sample)
    print_ratio("words", best["words"], best["words, plain"], scale)
    print_ratio("error rates", best["error rates"], best["error rates, plain"], scale)
    print_ratio("words, kept", best["words, kept"], best["words"], 1)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(f"{more:.1f} GB more at the peak than before")


def make_workspace(folder: Path, segments: int, seed: int) -> Workspace:
    """Make a workspace of 100 speakers with transcripts and hypotheses."""
    number = np.arange(segments)
    speakers = np.char.add("spk", (number * 100 // segments).astype(str))
    text, heard = make_texts(segments, seed)
    scored = {"scored": {"": {"normalize": DEFAULT_STEPS}}}
    workspace = Workspace.create(folder, source="made", audio=None, **scored)
    workspace.save(
        recordings=pl.DataFrame({"recording_id": np.unique(speakers)}),
        segments=pl.DataFrame(
            {
                "segment_id": np.char.add("s", number.astype(str)),
                "recording_id": speakers,
                "speaker_id": speakers,
                "text": text,
                "asr_text": heard,
            }
        ),
    )
    return workspace


def make_texts(segments: int, seed: int) -> tuple[list[str], list[str]]:
    """Make transcripts, with capitals and punctuation, and hypotheses."""
    rng = np.random.default_rng(seed)
    lexicon = np.array([f"riječ{number:x}" for number in range(60_000)])
    frequency = 1 / (np.arange(len(lexicon)) + 3)
    sizes = np.clip(rng.normal(20, 8, segments), 1, 60).astype(int)
    spoken = rng.choice(len(lexicon), sizes.sum(), p=frequency / frequency.sum())
    is_heard = rng.random(len(spoken)) > 0.1
    heard = np.where(is_heard, spoken, rng.integers(0, len(lexicon), len(spoken)))
    written = lexicon[spoken]
    written = np.where(rng.random(len(spoken)) < 0.1, np.char.capitalize(written), written)
    written = np.where(rng.random(len(spoken)) < 0.1, np.char.add(written, ","), written)
    return join_words(written, sizes), join_words(lexicon[heard], sizes)


def join_words(words: Texts, sizes: npt.NDArray[np.int64]) -> list[str]:
    """Join words to texts of so many words."""
    return [" ".join(part) for part in np.split(words, np.cumsum(sizes)[:-1])]


def plain_words(frame: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """Count occurrences of each word, and those that match."""
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


def plain_errors(frame: pl.DataFrame) -> Counter[tuple[str, str]]:
    """Count words, characters and their errors by speaker."""
    counts: Counter[tuple[str, str]] = Counter()
    for speaker, *texts in frame.select("speaker_id", "text", "asr_text").iter_rows():
        reference, hypothesis = map(normalize, texts)
        sides = reference.split(), hypothesis.split()
        counts[speaker, "words"] += len(sides[0])
        counts[speaker, "word errors"] += Levenshtein.distance(*sides)
        counts[speaker, "characters"] += len(reference)
        counts[speaker, "character errors"] += Levenshtein.distance(reference, hypothesis)
    return counts


def measure(work: Callable[[], object]) -> Seconds:
    """Do some work and return how long it took."""
    wall = time.perf_counter()
    processors = time.process_time()
    work()
    return Seconds(time.perf_counter() - wall, time.process_time() - processors)


def print_ratio(name: str, seconds: Seconds, reference: Seconds, scale: float) -> None:
    """Print the times of a work, and their ratios to those of a reference of which they are."""
    wall = seconds.wall / (reference.wall * scale)
    processors = seconds.processors / (reference.processors * scale)
    print(
        f"{name}: {seconds.wall:.1f} s, {seconds.processors:.1f} s of processors; "
        f"ratio {wall:.2f} of wall time, {processors:.2f} of processors"
    )


if __name__ == "__main__":
    main()
