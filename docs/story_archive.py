"""Makes the archive of docs/story.md: sittings whose truth is known.

Nobody spoke these sentences: they are put together from phrases, and each segment is a tone of a
second. It is known which transcripts are wrong, so that verdicts can be simulated. Every choice
comes from a generator with a fixed seed.
"""

import csv
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

RATE = 16_000  # Hz
SEGMENTS_A_SITTING = 100
SEGMENT_S = 1.0
STEP_S = 1.2  # from the start of a segment to that of the next
MEMBERS = 60
MEMBERS_A_SITTING = 5

SHARE_OF_OTHER_SENTENCES = 0.04
SHARE_OF_CUT_SENTENCES = 0.03
SHARE_OF_WORDS_LEFT = (0.3, 0.7)  # of a cut sentence, which ends before its number
SHARE_OF_OTHER_WORDS = 0.002
SHARE_OF_FORMULAS = 0.02
SHARES_OF_MISHEARD_LETTERS = (0.02, 0.03, 0.05, 0.1, 0.2)  # by the noise of the hall

FORMULAS = ("thank you very much", "the sitting is adjourned")
WHO = (
    "the minister",
    "the member for the islands",
    "the chair of the committee",
    "our rapporteur",
    "the opposition",
    "the mayor of the port",
    "the auditor",
    "a secretary of state",
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
    "a bill on harbor dues",
    "the report on school meals",
    "our plan for the northern railway",
    "a grant for village libraries",
    "the contract for winter buses",
    "the rules on fishing in the bay",
    "an estimate for flood barriers",
    "the tax on empty houses",
    "the agreement with the hospitals",
)
REASONS = (
    "because prices have risen",
    "as the islands had asked",
    "although few were present",
    "while the audit went on",
    "since nobody objected",
    "before the election",
    "despite the late hour",
    "in spite of two petitions",
    "after a long debate",
    "by a narrow majority",
)
PLACES = (
    "in the northern counties",
    "along the whole coast",
    "for schools in the capital",
    "between the two rivers",
    "on every larger island",
    "at the eastern border",
    "near the old harbor",
    "where the railway ends",
    "across the hill villages",
    "around the national park",
)
PROMISES = (
    "and asked for a new reading",
    "and promised an answer by Monday",
    "but left the figures open",
    "and thanked the volunteers",
    "yet wanted further advice",
    "so that work can begin in May",
    "as far as the law allows",
    "without naming a date",
    "until the courts have ruled",
    "once the water has gone down",
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
PHRASES = (WHO, VERBS, OBJECTS, REASONS, PLACES, PROMISES)
ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True)
class Sentence:
    """A sentence as it is read aloud, and as a stenographer types it."""

    spoken: str
    typed: str


@dataclass(frozen=True)
class Line:
    """A line of the transcripts, and what its speaker said.

    Attributes:
        file: the name of the recording in the transcripts.
        start_s: in the recording, in seconds.
        end_s: likewise.
        speaker: the member who speaks.
        transcript: the normalized transcript of the archive.
        typed: the same words as the stenographer typed them.
        hypothesis: what a recognizer heard.
        spoken: what the member said.
    """

    file: str
    start_s: float
    end_s: float
    speaker: str
    transcript: str
    typed: str
    hypothesis: str
    spoken: str

    @property
    def segment_id(self) -> str:
        """The id that the segment gets: the id of the recording, and the times."""
        recording_id = self.file.rpartition("[")[2].partition("]")[0]
        return f"{recording_id}_{self.start_s:.1f}-{self.end_s:.1f}"

    @property
    def is_right(self) -> bool:
        """Whether the transcript is what was said."""
        return self.transcript == self.spoken


def sitting_name(number: int) -> str:
    """Return the name of a sitting in the transcripts."""
    return f"{number % 28 + 1} {number // 28 + 1} 2024 - {number}. sitting [sitting{number:04}].wav"


def make_sitting(number: int) -> list[Line]:
    """Return the lines of a sitting: most transcripts are what was said, some are not."""
    generator = random.Random(number)
    members = generator.sample(range(MEMBERS), MEMBERS_A_SITTING)
    share_of_misheard_letters = generator.choice(SHARES_OF_MISHEARD_LETTERS)
    turn_length = SEGMENTS_A_SITTING // MEMBERS_A_SITTING
    lines = []
    for position in range(SEGMENTS_A_SITTING):
        said = make_sentence(generator)
        written = transcribe(said, generator)
        start_s = round(position * STEP_S, 1)
        lines.append(
            Line(
                file=sitting_name(number),
                start_s=start_s,
                end_s=round(start_s + SEGMENT_S, 1),
                speaker=f"member {members[position // turn_length]:02}",
                transcript=written.spoken,
                typed=written.typed,
                hypothesis=mishear(said.spoken, share_of_misheard_letters, generator),
                spoken=said.spoken,
            )
        )
    return lines


def make_sentence(generator: random.Random) -> Sentence:
    """Return a sentence of a sitting; some are formulas that many members say."""
    if generator.random() < SHARE_OF_FORMULAS:
        formula = generator.choice(FORMULAS)
        return Sentence(formula, f"{formula.capitalize()}.")
    words = " ".join(generator.choice(phrases) for phrases in PHRASES)
    tens = generator.randrange(len(TENS))
    ones = generator.randrange(len(ONES))
    return Sentence(
        f"{words} for {TENS[tens]} {ONES[ones]} percent of the cost",
        f"{words.capitalize()}, for {10 * (tens + 2) + ones + 1} % of the cost.",
    )


def transcribe(said: Sentence, generator: random.Random) -> Sentence:
    """Return what the archive has for a sentence: another one, a part of it, or what was said."""
    chance = generator.random()
    if chance < SHARE_OF_OTHER_SENTENCES:
        return make_sentence(generator)
    chance -= SHARE_OF_OTHER_SENTENCES
    if chance < SHARE_OF_CUT_SENTENCES:
        share_of_words = generator.uniform(*SHARE_OF_WORDS_LEFT)
        words_left = max(1, int(share_of_words * len(said.spoken.split())))
        return Sentence(cut(said.spoken, words_left), cut(said.typed, words_left))
    chance -= SHARE_OF_CUT_SENTENCES
    if chance < SHARE_OF_OTHER_WORDS:
        return Sentence(negate(said.spoken), negate(said.typed))
    return said


def cut(words: str, words_left: int) -> str:
    """Return the first words."""
    return " ".join(words.split()[:words_left])


def negate(words: str) -> str:
    """Return the words with a `not` that nobody said."""
    first, *others = words.split()
    return " ".join([first, "not", *others])


def mishear(words: str, share_of_letters: float, generator: random.Random) -> str:
    """Return the words with some other letters, as a recognizer hears them."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "".join(
        generator.choice(letters)
        if letter != " " and generator.random() < share_of_letters
        else letter
        for letter in words
    )


def make_audio(number: int) -> NDArray[np.float64]:
    """Return the samples of a sitting, mono: a tone for each segment, in a little noise."""
    generator = np.random.default_rng(number)
    samples = 0.002 * generator.normal(size=round(SEGMENTS_A_SITTING * STEP_S * RATE))
    time_s = np.arange(round(SEGMENT_S * RATE)) / RATE
    envelope = np.hanning(len(time_s))
    for position in range(SEGMENTS_A_SITTING):
        start = round(position * STEP_S * RATE)
        tone = np.sin(2 * np.pi * generator.uniform(100, 400) * time_s)
        samples[start : start + len(time_s)] += 0.2 * envelope * tone
    return samples


def write_recording(path: Path, number: int) -> None:
    """Write a sitting in the format of the extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, make_audio(number), RATE, format=path.suffix[1:].upper())


def truncate_recording(path: Path, share: float) -> None:
    """Cut a share of the bytes off, as a download that was broken off leaves a file."""
    content = path.read_bytes()
    path.write_bytes(content[: round(len(content) * (1 - share))])


def write_transcripts(path: Path, lines: Iterable[Line], broken_line: str = "") -> None:
    """Write JSON lines as ParlaSpeech has them, and a line that ends in the middle."""
    with path.open("w", encoding="utf8") as file:
        for line in lines:
            row = {
                "file": line.file,
                "start": line.start_s,
                "end": line.end_s,
                "words": line.transcript.split(),
                "asr": line.hypothesis.split(),
                "speaker": line.speaker,
            }
            file.write(json.dumps(row) + "\n")
        file.write(broken_line)


def write_typed_transcripts(path: Path, lines: Iterable[Line]) -> None:
    """Write the table of the stenographers: file, times and typed words."""
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("file", "start", "end", "text"))
        writer.writerows((line.file, line.start_s, line.end_s, line.typed) for line in lines)
