"""Measure what `nbaudio align` recovers of a sitting.

How much is it, how many of its edges are wrong, and how long does it take?

    python benchmarks/align.py --pairs asr.json [--seeds 5] [--show]

`--pairs` has real transcripts and hypotheses as JSON lines: ``words`` with ``word_start_times`` and
``word_end_times``, ``start`` and ``end`` of their segment, and ``asr``, as in ParlaSpeech. For each
seed the pairs are put in another order and glued to one sitting, without pauses, so that the truth
is known. Words of the hypothesis have the times of the words of the transcript that they are most
similar to; those without one are between their neighbors.

- cut: 10 % of the pairs are spoken and not in the transcript; text of further pairs, 5 % of all, is
  in it and was not spoken.
- moved: as cut, and ten blocks of 13 pairs are somewhere else in the transcript.
- hard: 30 % are not in the transcript, and 20 % was not spoken.

Entrants:

- known: every pair is cut where it is known to begin and end.
- naive: one Levenshtein alignment of all words (rapidfuzz) finds each pair of the transcript, whose
  bounds it is given, from its first to its last word that is found.
- align: nbaudio, which is given no bounds.

Columns:

- accepted: segments with a similarity of 0.8 or more; the other columns are about these.
- words: of their texts, those that are spoken within the segment, in order, as a share of those of
  `known`.
- wrong: the share of edges where the first or the last two words that are spoken in the segment are
  not those of its text; a word counts as spoken where its middle is.
- far: the share of edges that are more than half a second from the pause before the first word of
  the text, or after its last.
- seconds: CPU time of the alignment of words and the segmentation, without reading and writing.

The last table has the share of edges that are right, in the sense of `wrong`, by `edge_confidence`.

    python benchmarks/align.py --pairs asr.json --hours 10

prints time and memory of the command for one recording of so many hours; pairs are repeated in
another order.

    python benchmarks/align.py --pairs asr.json --unspoken

writes into the transcript of each sitting what nobody speaks, at random places between words: 20
citations in brackets, 40 numbers of verses, and 30 running heads with the number of the page, on
lines of their own or not. The command aligns the transcript with and without it. Columns:

- labels: words of the texts of segments, a sitting.
- unspoken: the share of them that was written in.
- yield: words of labels that were spoken, as a share of those of labels of the transcript without.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

import nbaudio
from nbaudio.text.edit_distance import similarity
from nbaudio.text.segmentation import Heard, Typed, cut_segments
from nbaudio.text.word_pairs import align_words, pair_words

CASES = {"cut": (0.1, 0.05, 0), "moved": (0.1, 0.05, 10), "hard": (0.3, 0.2, 0)}
LEAST_SIMILARITY = 0.8
FAR_S = 0.5
BLOCK = 13  # pairs of a moved block
CITATIONS = (
    "(Narodne novine, broj {0}/{4}, {1}/{4} i {2}/{4})",
    "(vidi prilog {0} na stranici {1})",
    "[dokument COM({4}) {0} final]",
    "(SL L {0}, 12.3.{4}., str. {1})",
)


class Sitting(NamedTuple):
    """A sitting of known truth: what was spoken, typed and heard."""

    spoken: list[str]
    spoken_start: np.ndarray
    spoken_end: np.ndarray
    typed: list[list[str]]  # pairs of the transcript, in its order
    pair: list[int]  # of each of them: the place in the sitting; -1 if it was not spoken
    heard: list[str]
    heard_start: np.ndarray
    heard_end: np.ndarray
    bounds: list[tuple[int, int]]  # of each pair of the sitting, in words that were spoken
    hypotheses: list[str]


def heard_times(row: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return the words of a hypothesis with times.

    The times are those of the most similar words of the transcript; other words are between them.
    """
    words, heard = row["words"], row["asr"]
    time: list[tuple[float, float] | None] = [None] * len(heard)
    for typed_place, heard_place in align_words(words, heard):
        time[heard_place] = row["word_start_times"][typed_place], row["word_end_times"][typed_place]
    timed_words, at = [], 0.0
    place = 0
    while place < len(heard):
        if (word_time := time[place]) is not None:
            timed_words.append((heard[place], *word_time))
            at, place = word_time[1], place + 1
            continue
        stop = next((later for later in range(place, len(heard)) if time[later]), len(heard))
        end = time[stop][0] if stop < len(heard) else row["end"] - row["start"]
        word_s = min((max(end - at, 0.02)) / (stop - place), 0.5)
        for number in range(place, stop):
            timed_words.append((heard[number], at, at + word_s))
            at += word_s
        place = stop
    return timed_words


def glue(
    rows: list[dict[str, Any]], seed: int, not_typed: float, not_spoken: float, moves: int
) -> Sitting:
    """Glue pairs to a sitting."""
    rng = np.random.default_rng(seed)
    order = [rows[number] for number in rng.permutation(len(rows))]
    extra = round(len(order) * not_spoken / (1 + not_spoken))
    others, pairs = order[:extra], order[extra:]
    spoken, heard, bounds, offset = [], [], [], 0.0
    for row in pairs:
        bounds.append((len(spoken), len(spoken) + len(row["words"])))
        times = zip(row["words"], row["word_start_times"], row["word_end_times"], strict=True)
        spoken += [(word, start + offset, end + offset) for word, start, end in times]
        heard += [(word, start + offset, end + offset) for word, start, end in heard_times(row)]
        offset += row["end"] - row["start"]
    pair_order = [number for number in range(len(pairs)) if rng.random() >= not_typed]
    for _ in range(moves):
        start = int(rng.integers(0, len(pair_order) - BLOCK))
        block, rest = (
            pair_order[start : start + BLOCK],
            pair_order[:start] + pair_order[start + BLOCK :],
        )
        place = int(rng.integers(0, len(rest)))
        pair_order = rest[:place] + block + rest[place:]
    typed = [(pairs[number]["words"], number) for number in pair_order]
    for row in others:
        typed.insert(int(rng.integers(0, len(typed) + 1)), (row["words"], -1))
    heard.sort(key=lambda timed_word: timed_word[1])
    spoken_columns, heard_columns = list(zip(*spoken, strict=True)), list(zip(*heard, strict=True))
    return Sitting(
        list(spoken_columns[0]), np.array(spoken_columns[1]), np.array(spoken_columns[2]),
        [words for words, _ in typed], [number for _, number in typed],
        list(heard_columns[0]), np.array(heard_columns[1]), np.array(heard_columns[2]),
        bounds, [" ".join(row["asr"]) for row in pairs],
    )  # fmt: skip


class Segment(NamedTuple):
    """A segment: words of the transcript (half open), what was heard, and seconds.

    `confidence` is that of the less sure edge.
    """

    first: int
    last: int
    heard: list[str]
    start: float
    end: float
    confidence: float = 1.0


class Score(NamedTuple):
    """Accepted segments, the words in them, and wrong and far edges.

    `edges` has the confidence of each edge and whether it is right.
    """

    accepted: int
    words: int
    wrong: int = 0
    far: int = 0
    edges: tuple[tuple[float, bool], ...] = ()


def typed_words(sitting: Sitting) -> tuple[list[str], np.ndarray]:
    """Return the words of the transcript, and the number of each among those spoken.

    The number is -1 for a word that was not spoken.
    """
    places = [
        np.arange(*sitting.bounds[number]) if number >= 0 else np.full(len(words), -1)
        for words, number in zip(sitting.typed, sitting.pair, strict=True)
    ]
    return [word for words in sitting.typed for word in words], np.concatenate(places)


def judge(sitting: Sitting, segments: list[Segment], *, show: bool = False) -> Score:
    """Compare segments with the truth."""
    typed, place = typed_words(sitting)
    middle = (sitting.spoken_start + sitting.spoken_end) / 2
    # Where the pause before each word begins.
    before = np.concatenate(([0.0], sitting.spoken_end[:-1]))
    after = np.append(sitting.spoken_start[1:], sitting.spoken_end[-1])
    accepted = words = far = 0
    edges: list[tuple[float, bool]] = []
    for segment in segments:
        text = typed[segment.first : segment.last]
        if similarity(" ".join(text), " ".join(segment.heard)) < LEAST_SIMILARITY:
            continue
        accepted += 1
        spoken = sitting.spoken[slice(*np.searchsorted(middle, (segment.start, segment.end)))]
        right = spoken[:2] == text[:2], spoken[-2:] == text[-2:]
        edges += [(segment.confidence, is_right) for is_right in right]
        first, last = place[segment.first], place[segment.last - 1]
        if first >= 0:
            far += not before[first] - FAR_S <= segment.start <= sitting.spoken_start[first] + FAR_S
        if last >= 0:
            far += not sitting.spoken_end[last] - FAR_S <= segment.end <= after[last] + FAR_S
        words += sum(block.size for block in Levenshtein.opcodes(text, spoken).as_matching_blocks())
        if show and not all(right):
            for name, printed in (("text", text), ("spoken", spoken), ("heard", segment.heard)):
                print(f"    {name:7}", *printed[:6], "...", *printed[-6:])
    return Score(accepted, words, sum(not right for _, right in edges), far, tuple(edges))


def score_of_known_bounds(sitting: Sitting) -> Score:
    """Cut every pair of the transcript that was spoken where it is known to be."""
    bounds = [
        (sitting.bounds[number], sitting.hypotheses[number])
        for number in sitting.pair
        if number >= 0
    ]
    lengths = [
        end - start
        for (start, end), heard in bounds
        if similarity(" ".join(sitting.spoken[start:end]), heard) >= LEAST_SIMILARITY
    ]
    return Score(len(lengths), sum(lengths))


def naive(sitting: Sitting) -> list[Segment]:
    """Find the pairs of the transcript by one alignment of all words."""
    typed, _ = typed_words(sitting)
    place = np.full(len(typed), -1)
    for block in Levenshtein.opcodes(typed, sitting.heard).as_matching_blocks():
        place[block.a : block.a + block.size] = np.arange(block.b, block.b + block.size)
    segments, at = [], 0
    for words in sitting.typed:
        inside = place[at : at + len(words)]
        if (inside >= 0).any():
            first, last = inside[inside >= 0][[0, -1]]
            before = sitting.heard_end[first - 1] if first else 0.0
            if last + 1 < len(sitting.heard):
                after = sitting.heard_start[last + 1]
            else:
                after = sitting.heard_end[last]
            start, end = (
                (before + sitting.heard_start[first]) / 2,
                (sitting.heard_end[last] + after) / 2,
            )
            segments.append(
                Segment(at, at + len(words), sitting.heard[first : last + 1], start, end)
            )
        at += len(words)
    return segments


def aligned(sitting: Sitting) -> list[Segment]:
    """Return the segments of nbaudio."""
    words, _ = typed_words(sitting)
    typed = Typed(words, np.zeros(len(words), np.bool_), np.zeros(len(words), np.int64))
    heard = Heard(sitting.heard, sitting.heard_start, sitting.heard_end)
    table = cut_segments(pair_words(words, sitting.heard), typed, heard, shortest=2, longest=20)
    rows = zip(
        table.typed.tolist(),
        table.heard.tolist(),
        table.seconds.tolist(),
        table.confidence.tolist(),
        strict=True,
    )
    return [
        Segment(*words, sitting.heard[slice(*heard)], *seconds, sure)
        for words, heard, seconds, sure in rows
    ]


def compare(rows: list[dict[str, Any]], seeds: int, *, show: bool) -> None:
    """Print a row for each case and entrant, in turns of seeds.

    Print the share of right edges by confidence too.
    """
    print(
        f"{'case':6} {'entrant':8} {'accepted':>9} {'words':>7} {'wrong':>7} {'far':>7} "
        f"{'seconds':>8}"
    )
    edges: list[tuple[float, bool]] = []
    for case, shares in CASES.items():
        totals: dict[str, list[tuple[Score, int, float]]] = {"known": [], "naive": [], "align": []}
        for seed in range(seeds):
            sitting = glue(rows, seed, *shares)
            most = score_of_known_bounds(sitting)
            totals["known"].append((most, most.words, 0.0))
            for name, entrant in (("naive", naive), ("align", aligned)):
                start = time.process_time()
                segments = entrant(sitting)
                seconds = time.process_time() - start
                totals[name].append(
                    (judge(sitting, segments, show=show and name == "align"), most.words, seconds)
                )
        edges += [edge for score, _, _ in totals["align"] for edge in score.edges]
        for name, scores in totals.items():
            accepted = sum(score.accepted for score, _, _ in scores)
            words = sum(score.words for score, _, _ in scores) / sum(
                words for _, words, _ in scores
            )
            wrong, far = (
                sum(count) / (2 * accepted)
                for count in zip(*((s.wrong, s.far) for s, _, _ in scores), strict=True)
            )
            seconds = sum(count for _, _, count in scores) / seeds
            print(
                f"{case:6} {name:8} {accepted / seeds:9.1f} {words:7.1%} {wrong:7.2%} "
                f"{far:7.2%} {seconds:8.2f}"
            )
    print("\nedge_confidence   edges   right")
    for low, high in ((0.8, 0.9), (0.9, 0.95), (0.95, 0.99), (0.99, 0.999), (0.999, 1.01)):
        inside = [right for confidence, right in edges if low <= confidence < high]
        print(
            f"{low:5.3f} to {min(high, 1):5.3f} {len(inside):9,} "
            f"{np.mean(inside) if inside else 0:7.2%}"
        )


def long(rows: list[dict[str, Any]], hours: float) -> None:
    """Print the time and memory of the command for one long recording."""
    length = sum(row["end"] - row["start"] for row in rows) / 3600
    times = rows * (1 + int(hours / length))
    sitting = glue(times[: round(len(rows) * hours / length * 1.05)], 0, *CASES["moved"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = zip(
            sitting.heard,
            sitting.heard_start.round(3).tolist(),
            sitting.heard_end.round(3).tolist(),
            strict=True,
        )
        timed = [
            {"word": word, "start": start, "end": end, "probability": 1.0}
            for word, start, end in words
        ]
        (folder / "day.json").write_text(json.dumps({"segments": [{"words": timed}]}), "utf8")
        (folder / "day.txt").write_text(
            "\n\n".join(" ".join(words) + "." for words in sitting.typed), "utf8"
        )
        command = [
            sys.executable,
            "-m",
            "nbaudio",
            "align",
            "day.json",
            "day.txt",
            "--out",
            "W",
            "--jobs",
            "1",
        ]
        start = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        seconds = time.perf_counter() - start
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        hours = sitting.heard_end[-1] / 3600
        print(
            f"{hours:.1f} h, {len(sitting.heard):,} words: {seconds:.1f} s, "
            f"{most:.0f} MB in the largest process"
        )


@dataclass(frozen=True)
class FullTranscript:
    """A transcript with what nobody speaks in it, by characters (half open)."""

    text: str
    unspoken: list[tuple[int, int]]


def unspoken_texts(rng: np.random.Generator, *, own_lines: bool) -> list[str]:
    """Return citations, numbers of verses and running heads."""
    citations = [
        CITATIONS[number % len(CITATIONS)].format(
            *rng.integers(1, 400, 4), rng.integers(1990, 2022)
        )
        for number in range(20)
    ]
    verses = [f"{number // 10 + 1:03} {number:03}" for number in range(40)]
    end = "\n" if own_lines else ""
    heads = [f"{end}Hrvatski sabor, {number}. sjednica {number + 9}{end}" for number in range(30)]
    return [*citations, *verses, *heads]


def write_in(sitting: Sitting, rng: np.random.Generator, texts: list[str]) -> FullTranscript:
    """Write texts at random places between the words of a transcript."""
    words = [f"{word}." if last else word for row in sitting.typed for word, last in _marked(row)]
    places = sorted(rng.choice(len(words), len(texts), replace=False).tolist())
    order = rng.permutation(len(texts)).tolist()
    by_place = dict(zip(places, [texts[number] for number in order], strict=True))
    parts: list[str] = []
    unspoken: list[tuple[int, int]] = []
    length = 0
    for place, word in enumerate(words):
        if text := by_place.get(place):
            unspoken.append((length, length + len(text)))
            parts.append(text)
            length += len(text) + 1
        parts.append(word)
        length += len(word) + 1
    return FullTranscript(" ".join(parts), unspoken)


def _marked(row: list[str]) -> list[tuple[str, bool]]:
    return [(word, place == len(row) - 1) for place, word in enumerate(row)]


def label_words(sitting: Sitting, transcript: FullTranscript) -> tuple[int, int]:
    """Return how many words the command takes into labels, and how many of them are unspoken."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        heard = zip(
            sitting.heard, sitting.heard_start.tolist(), sitting.heard_end.tolist(), strict=True
        )
        timed = [{"word": word, "start": start, "end": end} for word, start, end in heard]
        (folder / "day.json").write_text(json.dumps({"segments": [{"words": timed}]}), "utf8")
        (folder / "day.txt").write_text(transcript.text, "utf8")
        nbaudio.align(
            folder / "day.json",
            folder / "day.txt",
            out=folder / "W",
            engine="threading",
            jobs=1,
            show_progress=False,
        )
        workspace = nbaudio.Workspace.open(folder / "W")
        inside = np.zeros(len(transcript.text), np.bool_)
        spans = ["document_start", "document_end"]
        for start, end in workspace.segments.select(spans).iter_rows():
            inside[start:end] = True
        for start, end in (
            workspace.table("unmatched").filter(kind="text").select(spans).iter_rows()
        ):
            inside[start:end] = False
    is_unspoken = np.zeros(len(transcript.text), np.bool_)
    for start, end in transcript.unspoken:
        is_unspoken[start:end] = True
    starts = [word.start() for word in re.finditer(r"\S*\w\S*", transcript.text)]
    return int(inside[starts].sum()), int((inside & is_unspoken)[starts].sum())


def unspoken(rows: list[dict[str, Any]], seeds: int) -> None:
    """Print how much of what nobody speaks is in labels."""
    print(f"{'case':6} {'heads':10} {'labels':>8} {'unspoken':>9} {'yield':>7}")
    for case, shares in CASES.items():
        for own_lines in (False, True):
            totals = np.zeros(3)
            for seed in range(seeds):
                sitting = glue(rows, seed, *shares)
                rng = np.random.default_rng(seed)
                plain, _ = label_words(sitting, write_in(sitting, rng, []))
                texts = unspoken_texts(rng, own_lines=own_lines)
                totals += (plain, *label_words(sitting, write_in(sitting, rng, texts)))
            (plain_words, words, wrong) = totals
            print(
                f"{case:6} {'own lines' if own_lines else 'in lines':10} {words / seeds:8.0f} "
                f"{wrong / words:9.3%} {(words - wrong) / plain_words:7.2%}"
            )


def main() -> None:
    """Compare entrants, or measure the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--show", action="store_true", help="print the wrong edges of nbaudio")
    parser.add_argument("--unspoken", action="store_true", help="measure words nobody speaks")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.pairs.read_text("utf8").splitlines()]
    if options.hours:
        long(rows, options.hours)
    elif options.unspoken:
        unspoken(rows, options.seeds)
    else:
        compare(rows, options.seeds, show=options.show)


if __name__ == "__main__":
    main()
