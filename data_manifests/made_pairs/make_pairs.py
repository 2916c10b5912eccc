#!/usr/bin/env python3
"""Make 2,000 pairs of a transcript and a hypothesis, and the sheets of two returned rounds.

The pairs are texts alone: nobody spoke them. It is known which transcripts are wrong, and the
verdicts are those of a reviewer who never errs. README.md says what the pairs are for.

Usage: `make_pairs.py [FOLDER]`; writes pairs.csv, round-1.csv and round-2.csv there (default:
beside the script). Every choice comes from a generator with a fixed seed.
"""

import csv
import random
import string
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import nbaudio

HERE = Path(__file__).resolve().parent
PAIRS = 2000
SPEAKERS = 24
SEGMENTS_A_RECORDING = 50
SESSIONS = ("spring", "summer", "autumn")  # with a third of the pairs each
SEGMENT_S = 6
SHARE_OF_OTHER_SENTENCES = 0.06
SHARE_OF_OTHER_WORDS = 0.003
SHARE_OF_MISHEARD_LETTERS = 0.02
REVIEWED_PAIRS = 150  # in each round
ROUNDS = {"round-1": 0, "round-2": 40}  # with the number of planted faults

SPEAKER_TITLES = (
    "the minister",
    "the member for the islands",
    "the chair of the committee",
    "the rapporteur",
    "the opposition",
    "the mayor of the port",
    "the auditor",
    "the secretary of state",
    "the delegation",
    "the working group",
    "the deputy speaker",
    "the county council",
)
VERBS = (
    "proposed",
    "rejected",
    "amended",
    "supported",
    "withdrew",
    "questioned",
    "presented",
    "postponed",
    "approved",
    "criticized",
)
OBJECTS = (
    "the budget for forest roads",
    "the bill on harbour dues",
    "the report on school meals",
    "the plan for the northern railway",
    "the grant for village libraries",
    "the contract for winter buses",
    "the rules on fishing in the bay",
    "the estimate for flood barriers",
    "the tax on empty houses",
    "the agreement with the hospitals",
)
TIMES = (
    "after the first reading",
    "before the summer recess",
    "in the second sitting",
    "at the request of the committee",
    "without a debate",
    "by a narrow majority",
    "for the third time this year",
    "on behalf of the coast",
)
WRONG_WORDS = {"first": "last", "second": "seventh", "narrow": "large", "third": "tenth"}


@dataclass(frozen=True)
class Pair:
    """A segment as the archive has it, and what its speaker said."""

    segment_id: str
    recording: str
    session: str
    start_s: int
    speaker: str
    transcript: str
    hypothesis: str
    spoken: str


def make_all_pairs() -> list[Pair]:
    """Return all pairs, the same ones each time."""
    generator = random.Random(2000)
    return [make_pair(number, generator) for number in range(PAIRS)]


def make_pair(number: int, generator: random.Random) -> Pair:
    """Return the pair of a number: most transcripts are what was spoken, some are not."""
    recording = f"sitting-{number // SEGMENTS_A_RECORDING + 1:02d}"
    session = SESSIONS[number * len(SESSIONS) // PAIRS]
    speaker = f"speaker-{generator.randrange(SPEAKERS) + 1:02d}"
    spoken = make_sentence(generator)
    transcript = spoken
    chance = generator.random()
    if chance < SHARE_OF_OTHER_SENTENCES:
        transcript = make_sentence(generator)
    elif chance < SHARE_OF_OTHER_SENTENCES + SHARE_OF_OTHER_WORDS:
        transcript = replace_word(spoken, generator)
    start_s = number % SEGMENTS_A_RECORDING * SEGMENT_S
    return Pair(
        segment_id=f"{recording}_{start_s:03d}",
        recording=recording,
        session=session,
        start_s=start_s,
        speaker=speaker,
        transcript=transcript,
        hypothesis=mishear(spoken, generator),
        spoken=spoken,
    )


def make_sentence(generator: random.Random) -> str:
    """Return a sentence of a sitting."""
    number = generator.randrange(2, 400)
    parts = [generator.choice(words) for words in (SPEAKER_TITLES, VERBS, OBJECTS, TIMES)]
    return f"{' '.join(parts)}, item {number}"


def replace_word(sentence: str, generator: random.Random) -> str:
    """Return a sentence with one other word, as a stenographer may hear it."""
    words = sentence.split()
    position = generator.randrange(len(words))
    words[position] = WRONG_WORDS.get(words[position], "not")
    return " ".join(words)


def mishear(sentence: str, generator: random.Random) -> str:
    """Return a sentence with some other letters, as a recognizer hears it."""
    return "".join(
        generator.choice(string.ascii_lowercase)
        if letter.isalpha() and generator.random() < SHARE_OF_MISHEARD_LETTERS
        else letter
        for letter in sentence
    )


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write the table that `nbaudio ingest table` reads."""
    header = (
        "segment_id",
        "recording_id",
        "session",
        "start",
        "end",
        "speaker_id",
        "text",
        "asr_text",
    )
    rows = [
        (
            pair.segment_id,
            pair.recording,
            pair.session,
            pair.start_s,
            pair.start_s + SEGMENT_S,
            pair.speaker,
            pair.transcript,
            pair.hypothesis,
        )
        for pair in pairs
    ]
    write_rows(path, header, rows)


def write_rows(path: Path, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file with line feeds."""
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_returned_rounds(folder: Path, pairs: Iterable[Pair]) -> None:
    """Draw the rounds as the demo does, and write the verdicts of a reviewer who never errs.

    Rows that are repeated are not returned twice.
    """
    spoken = {pair.segment_id: pair.spoken for pair in pairs}
    with TemporaryDirectory() as temporary:
        workspace = Path(temporary) / "workspace"
        nbaudio.ingest("table", folder / "pairs.csv", out=workspace)
        nbaudio.score(workspace)
        nbaudio.select(workspace, min_similarity=0.8)
        for name, planted in ROUNDS.items():
            sheet = Path(temporary) / f"{name}.csv"
            nbaudio.review.export(
                workspace,
                out=sheet,
                n=REVIEWED_PAIRS,
                strategy="stratified",
                by="session",
                planted=planted,
            )
            rows = pl.read_csv(sheet).unique("segment_id", keep="first", maintain_order=True)
            verdicts = [
                (segment_id, "ok" if transcript == spoken[segment_id] else "wrong words")
                for segment_id, transcript in rows.select("segment_id", "transcript").iter_rows()
            ]
            returned = folder / f"{name}.csv"
            write_rows(returned, ("segment_id", "verdict"), verdicts)
            nbaudio.review.import_(workspace, returned)


def main(folder: Path) -> None:
    """Write the three files into a folder."""
    pairs = make_all_pairs()
    write_pairs(folder / "pairs.csv", pairs)
    write_returned_rounds(folder, pairs)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
