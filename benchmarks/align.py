"""How much of a sitting does `nbaudio align` recover, how many of its edges are wrong, and how long does it take?

    python benchmarks/align.py --pairs asr.json [--seeds 5]

`--pairs` has real transcripts and hypotheses as JSON lines: ``words`` with ``word_start_times`` and ``word_end_times``, and
``asr``, as in ParlaSpeech. For each seed they are put in another order and glued to one sitting without pauses, so that the truth
is known. The hypothesis's words get their times from an alignment of its characters with those of the words.

- cut: 10 % of the pairs are spoken and not in the transcript; text of 5 % of the pairs is in the transcript and not spoken.
- moved: as cut, and ten blocks of the transcript are elsewhere.
- hard: 30 % are not in the transcript, and 20 % is not spoken.

Rows: `known` cuts every pair where it is known to begin and end; `naive` finds each pair of the transcript with one Levenshtein
alignment of all words (rapidfuzz), and accepts it if the first and last words are found; `align` is nbaudio.

Columns: `accepted` segments have a similarity of 0.8 or more; `words` are those of their transcripts that are spoken within them,
as a share of those of `known`; `wrong` is the share of their edges where the first or the last two words that are spoken are not
those of the text (a word counts as spoken where its middle is); `seconds` is the CPU time of the alignment.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from nbaudio.text.edit_distance import similarity
from nbaudio.text.word_pairs import align_words

CASES = {"cut": (0.1, 0.05, 0), "moved": (0.1, 0.05, 10), "hard": (0.3, 0.2, 0)}
LEAST_SIMILARITY = 0.8


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
    """Return the words of a hypothesis with times: those of the most similar words of the transcript, others between them."""
    words, heard = row["words"], row["asr"]
    time: list[tuple[float, float] | None] = [None] * len(heard)
    for one, other in align_words(words, heard):
        time[other] = row["word_start_times"][one], row["word_end_times"][one]
    found, at = [], 0.0
    place = 0
    while place < len(heard):
        if (known := time[place]) is not None:
            found.append((heard[place], *known))
            at, place = known[1], place + 1
            continue
        stop = next((later for later in range(place, len(heard)) if time[later]), len(heard))
        end = time[stop][0] if stop < len(heard) else row["end"] - row["start"]
        each = min((max(end - at, 0.02)) / (stop - place), 0.5)
        for number in range(place, stop):
            found.append((heard[number], at, at + each))
            at += each
        place = stop
    return found


def glue(rows: list[dict[str, Any]], seed: int, not_typed: float, not_spoken: float, moves: int) -> Sitting:
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
    kept = [number for number in range(len(pairs)) if rng.random() >= not_typed]
    for _ in range(moves):
        start, size = int(rng.integers(0, len(kept) - 13)), 13
        block = kept[start : start + size]
        rest = kept[:start] + kept[start + size :]
        place = int(rng.integers(0, len(rest)))
        kept = rest[:place] + block + rest[place:]
    typed = [(pairs[number]["words"], number) for number in kept]
    for row in others:
        typed.insert(int(rng.integers(0, len(typed) + 1)), (row["words"], -1))
    heard.sort(key=lambda each: each[1])
    said, hyp = list(zip(*spoken, strict=True)), list(zip(*heard, strict=True))
    return Sitting(
        list(said[0]), np.array(said[1]), np.array(said[2]), [words for words, _ in typed], [number for _, number in typed],
        list(hyp[0]), np.array(hyp[1]), np.array(hyp[2]), bounds, [" ".join(row["asr"]) for row in pairs],
    )  # fmt: skip


class Score(NamedTuple):
    accepted: int
    words: int
    wrong: int


def judge(sitting: Sitting, segments: list[tuple[list[str], list[str], float, float]], *, show: bool = False) -> Score:
    """Count the accepted segments (text, hypothesis, start, end), their words and their wrong edges."""
    middle = (sitting.spoken_start + sitting.spoken_end) / 2
    accepted = words = wrong = 0
    for text, heard, start, end in segments:
        if similarity(" ".join(text), " ".join(heard)) < LEAST_SIMILARITY:
            continue
        accepted += 1
        first, last = np.searchsorted(middle, (start, end))
        truth = sitting.spoken[first:last]
        bad = (truth[:2] != text[:2]) + (truth[-2:] != text[-2:])
        if bad and show:
            (
                print("  T", *text[:6], "...", *text[-6:]),
                print("  S", *truth[:6], "...", *truth[-6:]),
                print("  H", *heard[:6], "...", *heard[-6:]),
            )
        wrong += bad
        words += sum(block.size for block in Levenshtein.opcodes(text, truth).as_matching_blocks())
    return Score(accepted, words, wrong)


def known(sitting: Sitting) -> Score:
    """Cut every pair of the transcript that was spoken where it is known to be."""
    numbers = [number for number in sitting.pair if number >= 0]
    found = 0
    words = 0
    for number in numbers:
        start, end = sitting.bounds[number]
        if similarity(" ".join(sitting.spoken[start:end]), sitting.hypotheses[number]) >= LEAST_SIMILARITY:
            found += 1
            words += end - start
    return Score(found, words, 0)


def naive(sitting: Sitting) -> list[tuple[list[str], list[str], float, float]]:
    """Find the pairs of the transcript by one alignment of all words."""
    typed = [word for words in sitting.typed for word in words]
    place = np.full(len(typed), -1)
    for block in Levenshtein.opcodes(typed, sitting.heard).as_matching_blocks():
        place[block.a : block.a + block.size] = np.arange(block.b, block.b + block.size)
    found, at = [], 0
    for words in sitting.typed:
        inside = place[at : at + len(words)]
        at += len(words)
        if (inside >= 0).any():
            first, last = inside[inside >= 0][[0, -1]]
            heard = sitting.heard[first : last + 1]
            before = sitting.heard_end[first - 1] if first else 0.0
            after = sitting.heard_start[last + 1] if last + 1 < len(sitting.heard) else sitting.heard_end[last]
            found.append((words, heard, (before + sitting.heard_start[first]) / 2, (sitting.heard_end[last] + after) / 2))
    return found
