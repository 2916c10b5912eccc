#!/usr/bin/env python3
"""Speak the sentences beside this script into a small corpus.

It has the troubles of a real archive on purpose.

Usage: `make_demo.py [FOLDER]`; writes transcripts.jsonl, wav.scp and audio/ there (default: beside
the script). Needs espeak-ng and ffmpeg, which nbaudio itself does not need. README.md says which
trouble is where.

Conventions: times are seconds, waveforms are mono float32 at espeak-ng's own 22,050 Hz until a
recording is written. Nothing depends on the clock or on chance: every choice comes from a position
or from a generator with a fixed seed.
"""

import io
import json
import random
import string
import subprocess
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile
import soxr
import yaml

HERE = Path(__file__).resolve().parent
ESPEAK_RATE = 22050
SECONDS_DIGITS = 2


@dataclass(frozen=True)
class Recording:
    """One recording: its names, who speaks, and how it is encoded.

    `listed` is its name in the transcripts, `kaldi` that in wav.scp, and `on_disk` those of its
    files.
    """

    key: str
    listed: str
    kaldi: str
    on_disk: tuple[str, ...]
    speakers: tuple[str, ...]
    rate: int = 22050
    right: float | None = None  # loudness of the right channel against the left; None: mono
    encoder: tuple[str, ...] = ()


VOICES = {  # speaker: espeak-ng voice, words a minute, pitch
    "spk01": ("hr", 148, 45),
    "spk02": ("hr+f2", 152, 55),
    "spk03": ("hr+m7", 140, 40),
    "spk04": ("hr+f4", 148, 60),
    "spk05": ("en-gb+f3", 142, 55),
    "spk06": ("en-us+m3", 150, 40),
    "spk07": ("en-gb-scotland+m2", 145, 35),
    "spk08": ("en-us+f1", 146, 60),
}
RECORDINGS = (
    Recording(
        key="plenary_one",
        listed="17 1 2024 - 2. dio, 7. sjednica [Qm4vT-8_xLp].wav",
        kaldi="17 1 2024 -  2. dio, 7. sjednica [Qm4vT-8_xLp].wav",
        on_disk=("17 1 2024 - 2. dio, 7. sjednica [Qm4vT-8_xLp].wav",),
        speakers=("spk01",),
    ),
    Recording(
        key="budget_hearing",
        listed="6 2 2024 - Budget Hearing, Part 2 [h7Rk2_WzB0c].flac",
        kaldi="6 2 2024 - Budget Hearing,  Part 2 [h7Rk2_WzB0c].wav",
        on_disk=("6 2 2024 - Budget Hearing, Part 2 [h7Rk2_WzB0c].FLAC",),
        speakers=("spk05", "spk06"),
        rate=44100,
        right=0.0,
    ),
    Recording(
        key="plenary_two",
        listed=unicodedata.normalize(
            "NFD", "18 1 2024 - večernje zasjedanje, 7. sjednica [-fN3yUo9aKs].wav"
        ),
        kaldi="18 1 2024 -  večernje zasjedanje, 7. sjednica [-fN3yUo9aKs].wav",
        on_disk=("18 1 2024 - večernje zasjedanje, 7. sjednica [-fN3yUo9aKs].mp3",),
        speakers=("spk02", "spk03"),
        rate=48000,
        right=0.5,
        encoder=("-c:a", "libmp3lame", "-b:a", "64k"),
    ),
    Recording(
        key="harbour_debate",
        listed="12 3 2024 - Harbour Bill, 1. dio [eX_5gPd1JtM].mp3",
        kaldi="12 3 2024 -  Harbour Bill, 1. dio [eX_5gPd1JtM].mp3",
        on_disk=("12 3 2024 -  Harbour  Bill, 1. dio [eX_5gPd1JtM].mp3",),
        speakers=("spk07", "spk08"),
        rate=44100,
        right=0.5,
        encoder=("-c:a", "libmp3lame", "-b:a", "64k"),
    ),
    Recording(
        key="finance_committee",
        listed="21 2 2024 - Odbor za financije, 11. sjednica [Z0bVq6-iCwE].wav",
        kaldi="21 2 2024 - Odbor za financije,  11. sjednica [Z0bVq6-iCwE].wav",
        on_disk=("Odbor za financije i proračun (uživo) [Z0bVq6-iCwE].m4a",),
        speakers=("spk03", "spk04"),
        rate=48000,
        right=0.5,
        encoder=("-c:a", "aac", "-b:a", "64k"),
    ),
    Recording(
        key="forest_roads",
        listed="2 4 2024 - 8. sjednica [uS8_nHj4TyA].wav",
        kaldi="2 4 2024 - 8. sjednica [uS8_nHj4TyA].wav",
        on_disk=(
            "2 4 2024 - 8. sjednica [uS8_nHj4TyA].mp3",
            "2 4 2024 - 8. sjednica [uS8_nHj4TyA].m4a",
        ),
        speakers=("spk02",),
        encoder=("-b:a", "32k"),
    ),
    Recording(
        key="question_time",
        listed="3 4 2024 - 8. sjednica [L1kGx9w-OdI].wav",
        kaldi="3 4 2024 - 8. sjednica [L1kGx9w-OdI].wav",
        on_disk=(),
        speakers=("spk04",),
    ),
)

# The troubles in the transcripts, by (recording, sentence from 0).
TURN = 3  # sentences until another speaker has the floor
BAD_ALIGNMENT_EVERY, BAD_ALIGNMENT_AT = 10, 4
EMPTY_HYPOTHESIS = ("plenary_two", 8)
UNREADABLE_AFTER = ("plenary_two", 16)
DUPLICATE = ("budget_hearing", 7)
EMPTY_TRANSCRIPT = ("finance_committee", 11)
PAST_THE_END = ("harbour_debate", 27)
CUT_INSIDE = ("plenary_one", 12)

# The troubles in the audio, all in the recording that is neither resampled nor compressed.
CLIPPED, NOISY, TELEPHONE, HALF_SILENT, CUT_END, OFFSET = (
    ("plenary_one", index) for index in (1, 2, 3, 5, 9, 10)
)
CUT_SECONDS = 0.4

# The recording that has minutes, and what they lack or have besides (sentences from 0).
MINUTES_OF = "budget_hearing"
MINUTES_TITLE = "BUDGET HEARING, PART 2"
MINUTES_NAMES = {"spk05": "FIRST MEMBER", "spk06": "SECOND MEMBER"}
NOT_TYPED = range(7, 10)
NOT_SPOKEN_BEHIND = 12
NOT_SPOKEN = "(Laughter.) The committee takes note of the figures of the regional office."


def speak(speaker: str, text: str) -> np.ndarray:
    """Return one sentence as mono float32 at 22,050 Hz.

    The silence that espeak-ng leaves at the end is cut off.
    """
    voice, speed, pitch = VOICES[speaker]
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout"]
    wav = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
    sound, _ = soundfile.read(io.BytesIO(wav), dtype="float32")
    return sound[: np.flatnonzero(np.abs(sound) > 0.003)[-1] + ESPEAK_RATE // 20]


def written(sentence: str | dict[str, str]) -> list[str]:
    """Return a sentence's words as a stenographer of this corpus writes them.

    They are in lower case, without punctuation unless it is spelled out.
    """
    if isinstance(sentence, dict):
        return sentence["write"].split()
    return [word.strip(string.punctuation) for word in sentence.lower().split()]


def misheard_word(word: str, chance: float) -> str:
    """Return one word as a recogniser hears it.

    Most chances leave it, and the others cost a mark, an ending, a vowel or a short word.
    """
    if chance < 0.06:
        return unicodedata.normalize("NFD", word).encode("ascii", "ignore").decode()
    if chance < 0.10 and len(word) > 4:
        return word[:-1]
    if chance < 0.14 and len(word) > 3:
        return word.translate(str.maketrans("aeo", "eoa"))
    return "" if chance < 0.18 and len(word) < 3 else word


def misheard(words: list[str], rng: random.Random) -> list[str]:
    """What a recogniser makes of `words`: mostly the same, never the marks."""
    heard = [misheard_word(word.strip("„“”–="), rng.random()) for word in words]
    return [word for word in heard if word]


def word_times(words: list[str], duration: float) -> tuple[list[float], list[float]]:
    """Return starts and ends of words in seconds from the segment's start.

    They are shares by length, since espeak-ng's command tells no times.
    """
    borders = np.cumsum([0] + [len(word) + 1 for word in words])
    seconds = [
        round(float(border), SECONDS_DIGITS) for border in borders / max(1, borders[-1]) * duration
    ]
    return seconds[:-1], seconds[1:]


def damaged(sound: np.ndarray, place: tuple[str, int]) -> np.ndarray:
    """A sentence with the trouble that its place has, if any."""
    if place == CLIPPED:
        return np.clip(5 * sound, -1, 1)
    if place == NOISY:
        noise = np.random.default_rng(0).normal(0, np.sqrt(np.square(sound).mean() / 2), len(sound))
        return (0.7 * (sound + noise)).astype("float32")
    if place == TELEPHONE:
        spectrum, frequency = np.fft.rfft(sound), np.fft.rfftfreq(len(sound), 1 / ESPEAK_RATE)
        return np.fft.irfft(
            np.where((frequency > 300) & (frequency < 3400), spectrum, 0), len(sound)
        ).astype("float32")
    if place == HALF_SILENT:
        return np.where(np.arange(len(sound)) > len(sound) / 2, 0, sound).astype("float32")
    return sound + np.float32(0.1) if place == OFFSET else sound


def lay_out(recording: Recording, sentences: list, seed: int) -> tuple[np.ndarray, list[dict]]:
    """Return all sentences of one recording, end to end with pauses.

    The second result is their lines for the transcripts.
    """
    rng = random.Random(seed)
    parts, lines, now = [], [], 0
    texts = [written(sentence) for sentence in sentences]
    for index, sentence in enumerate(sentences):
        speaker = recording.speakers[index // TURN % len(recording.speakers)]
        sound = speak(speaker, sentence["say"] if isinstance(sentence, dict) else sentence)
        sound = damaged(sound, (recording.key, index))
        pause = np.zeros(round(rng.uniform(0.3, 0.9) * ESPEAK_RATE), "float32")
        start, end = now + len(pause), now + len(pause) + len(sound)
        parts += [pause, sound]
        now = end
        words, place = texts[index], (recording.key, index)
        heard = misheard(words, rng)
        if index % BAD_ALIGNMENT_EVERY == BAD_ALIGNMENT_AT or place == EMPTY_HYPOTHESIS:
            heard = (
                [] if place == EMPTY_HYPOTHESIS else misheard(texts[(index + 3) % len(texts)], rng)
            )
        if place == EMPTY_TRANSCRIPT:
            words = []
        late = 4.0 if place == PAST_THE_END else -CUT_SECONDS if place == CUT_END else 0.0
        starts, ends = word_times(words, len(sound) / ESPEAK_RATE + min(0.0, late))
        lines.append(
            {
                "file": recording.listed,
                "start": round(start / ESPEAK_RATE, SECONDS_DIGITS),
                "end": round(end / ESPEAK_RATE + late, SECONDS_DIGITS),
                "words": words,
                "word_start_times": starts,
                "word_end_times": ends,
                "asr": heard,
                "speaker": speaker,
            }
        )
    parts.append(np.zeros(ESPEAK_RATE // 2, "float32"))
    return 0.7 * np.concatenate(parts), lines


def write_audio(recording: Recording, mono: np.ndarray, folder: Path) -> None:
    """Write every file of one recording.

    The right channel of a stereo one is weaker or silent, as from a second microphone.
    """
    sound = soxr.resample(mono, ESPEAK_RATE, recording.rate)
    if recording.right is not None:
        sound = np.stack([sound, recording.right * sound], axis=1)
    for name in recording.on_disk:
        target = folder / name
        if not recording.encoder:
            soundfile.write(
                target, sound, recording.rate, "PCM_16", format=target.suffix[1:].upper()
            )
            continue
        with TemporaryDirectory() as scratch:
            wav = Path(scratch) / "sound.wav"
            soundfile.write(wav, sound, recording.rate, "PCM_16")
            bare = ("-map_metadata", "-1", "-fflags", "+bitexact", "-flags:a", "+bitexact")
            subprocess.run(
                ["ffmpeg", "-v", "error", "-y", "-i", wav, *recording.encoder, *bare, target],
                check=True,
            )


def cut_off(wav: Path, seconds: float, rate: int) -> None:
    """Drop the end of a mono 16-bit WAV as a full disk would.

    The header goes on declaring all of it.
    """
    header = 44
    with wav.open("r+b") as file:
        file.truncate(header + 2 * round(seconds * rate))


def write_minutes(recording: Recording, sentences: list, lines: list[dict], folder: Path) -> None:
    """Write the minutes of a recording, and the words of a recognizer with their times.

    No recognizer has heard it: the words are those that were spoken, some of them misheard, and
    their times are shares of the sentence. The minutes lack the sentences `NOT_TYPED`, and have a
    remark and a sentence that nobody spoke.
    """
    rng = random.Random(len(RECORDINGS))
    heard = []
    turns = [f"{MINUTES_TITLE}\n"]
    for index, (sentence, line) in enumerate(zip(sentences, lines, strict=True)):
        spoken = sentence["say"] if isinstance(sentence, dict) else sentence
        words = misheard(written(spoken), rng)
        starts, ends = word_times(words, line["end"] - line["start"])
        heard += [
            {
                "word": word,
                "start": round(line["start"] + start, SECONDS_DIGITS),
                "end": round(line["start"] + end, SECONDS_DIGITS),
            }
            for word, start, end in zip(words, starts, ends, strict=True)
        ]
        if index % TURN == 0:
            turns.append(f"\n{MINUTES_NAMES[line['speaker']]}: ")
        if index not in NOT_TYPED:
            turns[-1] += f"{spoken}\n"
        if index == NOT_SPOKEN_BEHIND:
            turns[-1] += f"{NOT_SPOKEN}\n"
    name = recording.listed.rpartition(".")[0]
    for kind, ending, text in (
        ("hypotheses", ".json", json.dumps({"words": heard}, ensure_ascii=False, indent=1) + "\n"),
        ("documents", ".txt", "".join(turns)),
    ):
        target = folder.with_name("demo_minutes") / kind / f"{name}{ending}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf8")


def main(folder: Path) -> None:
    """Make the whole corpus in `folder`."""
    sentences = yaml.safe_load((HERE / "sentences.yaml").read_text(encoding="utf8"))
    audio = folder / "audio"
    audio.mkdir(parents=True, exist_ok=True)
    out = []
    for number, recording in enumerate(RECORDINGS):
        mono, lines = lay_out(recording, sentences[recording.key], seed=number)
        write_audio(recording, mono, audio)
        for index, line in enumerate(lines):
            text = json.dumps(line, ensure_ascii=False)
            out.append(text)
            if (recording.key, index) == DUPLICATE:
                out.append(text)
            if (recording.key, index) == UNREADABLE_AFTER:
                out.append(text[: len(text) // 2])
        if recording.key == MINUTES_OF:
            write_minutes(recording, sentences[recording.key], lines, folder)
        if recording.key == CUT_INSIDE[0]:
            inside = lines[CUT_INSIDE[1]]
            cut_off(
                audio / recording.on_disk[0], (inside["start"] + inside["end"]) / 2, recording.rate
            )
    (folder / "transcripts.jsonl").write_text("\n".join(out) + "\n", encoding="utf8")
    scp = [
        f"reco{number:03d} {recording.kaldi}"
        for number, recording in enumerate(RECORDINGS, start=1)
    ]
    (folder / "wav.scp").write_text("\n".join(scp) + "\n", encoding="utf8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
