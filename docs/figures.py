"""Prints the figures of README.md: each is from a run of the command beside it, on made audio.

    python docs/figures.py [--beam PYTHON] [--spark]

The job on Beam runs by another interpreter, which has nbaudio and Beam; that on Spark needs the
extra. Recordings are noise of changing loudness. Everything is made in a temporary folder of 3 GB.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile as sf

import nbaudio

TOP = Path(__file__).resolve().parents[1]
DELAY_S = 0.04  # of the connection over which shards are streamed


@dataclass(frozen=True)
class Row:
    """One row of the table in README.md."""

    job: str
    command: str
    measured: str

    def __str__(self) -> str:
        return f"| {self.job} | `{self.command}` | {self.measured} |"


def run(command: str, folder: Path, python: str = sys.executable) -> float:
    """Run a command of nbaudio in a folder, by an interpreter that has it; return its seconds."""
    words = [python, "-m", *shlex.split(command)]
    began = time.perf_counter()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: done, with listed problems
        sys.exit(f"{command}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - began


def write_recording(
    path: Path, seconds: float, rate: int, channels: int = 1, seed: int = 0
) -> None:
    """Write noise under a changing loudness, in the format of the extension."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    second = 0.1 * rng.normal(size=(rate, channels)) * np.hanning(rate)[:, None]
    with sf.SoundFile(path, "w", rate, channels) as file:
        for _ in range(int(seconds)):
            file.write(second)


def make_parliament(folder: Path, recordings: int, minutes: int) -> int:
    """Write sittings with transcripts in JSON lines, a segment every 6 s; return their number."""
    lines = []
    for number in range(recordings):
        name = f"sitting {number}"
        write_recording(folder / f"audio/{name}.wav", 60 * minutes, 16_000, seed=number)
        for start in range(0, 60 * minutes - 6, 6):
            words = ["words", "of", f"speaker{start % 20}", f"at{start}", f"in{number}"]
            line = {"file": f"{name}.wav", "start": start, "end": start + 5.5, "words": words}
            lines.append(line | {"asr": words, "speaker": f"speaker {number} {start % 20}"})
    (folder / "asr.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines)


def make_librispeech(folder: Path, utterances: int, seconds: int) -> None:
    """Write a tree of utterances as LibriSpeech has them, ten in a chapter."""
    for chapter in range(utterances // 10):
        path = folder / f"LibriSpeech/train-clean-100/{100 + chapter}/1"
        texts = []
        for number in range(10):
            key = f"{100 + chapter}-1-{number:04}"
            write_recording(path / f"{key}.flac", seconds, 16_000, seed=10 * chapter + number)
            texts.append(f"{key} THE WORDS OF UTTERANCE {number} OF CHAPTER {chapter}\n")
        (path / f"{100 + chapter}-1.trans.txt").write_text("".join(texts))


@contextmanager
def delayed_server(folder: Path) -> Iterator[str]:
    """Serve a folder over a connection with a delay; yield its address."""
    script = str(TOP / "benchmarks/delayed.py")
    command = [sys.executable, script, str(folder), "--delay", str(DELAY_S), "--megabits", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip() if server.stdout else ""
        finally:
            server.terminate()


def measure_demo(folder: Path) -> str:
    """Run the demo; return what README says of it."""
    return f"the demo takes {run('nbaudio demo --out demo', folder):.0f} s"


def measure_parliament(folder: Path) -> Row:
    """Make the workspace of a parliament and export sheets for two reviewers."""
    segments = make_parliament(folder, recordings=10, minutes=30)
    run("nbaudio ingest parlaspeech asr.json --audio audio --out W", folder)
    run("nbaudio score W", folder)
    command = "nbaudio review export W --out round.xlsx --n 1000 --reviewers ana,ben"
    seconds = run(command, folder)
    measured = f"two sheets with 1,000 clips of {segments:,} segments in {seconds:.0f} s"
    return Row("a parliament, reviewed in Excel", command, measured)


def make_sittings(folder: Path) -> int:
    """Write two sittings of half an hour with PDF minutes; return the pages of the minutes."""
    sys.path.insert(0, str(TOP / "tests"))
    import heard_tones
    from pdf_files import Text, lines, make_pdf, wrapped

    (folder / "minutes").mkdir()
    (folder / "my_recognizer.py").write_text(heard_tones.recognizer_code())
    num_pages = 0
    for number in range(2):
        sentences = heard_tones.make_sentences(300, seed=number)
        recording = folder / f"sittings/day {number}.flac"
        heard_tones.write_recording(recording, sentences, rate=48_000)
        text = wrapped(heard_tones.typed(sentences), 220)
        columns = [text[start : start + 60] for start in range(0, len(text), 60)]
        pages = [
            [
                Text(60, 30, f"Minutes of day {number}, page {page}"),
                *lines(320, 70, columns[2 * page + 1] if 2 * page + 1 < len(columns) else []),
                *lines(60, 70, columns[2 * page]),
            ]
            for page in range((len(columns) + 1) // 2)
        ]
        (folder / f"minutes/day {number}.pdf").write_bytes(make_pdf(pages))
        num_pages += len(pages)
    return num_pages


def measure_minutes(folder: Path) -> Row:
    """Recognize recordings, align them with PDF minutes, and make a corpus of them."""
    pages = make_sittings(folder)
    recognize = "nbaudio recognize sittings --with my_recognizer:recognize --out heard --jobs 2"
    align = "nbaudio align heard minutes --audio sittings --out W"
    heard_s = run(recognize, folder)
    aligned_s = run(align, folder)
    corpus_s = sum(
        run(f"nbaudio {command}", folder)
        for command in ("score W", "select W --min-similarity 0.8", "materialize W --out CORPUS")
    )
    segments = nbaudio.Workspace.open(folder / "W").segments.height
    measured = (
        f"two sittings of half an hour and {pages} pages: {heard_s:.0f} s by a recognizer that "
        f"takes no time, {segments} segments in {aligned_s:.1f} s, the corpus in {corpus_s:.0f} s"
    )
    return Row("a parliament from nothing, with PDF minutes", align, measured)


def measure_beam(folder: Path, python: str) -> Row:
    """Pack a tree of utterances into TFRecord shards on Beam."""
    make_librispeech(folder, utterances=1000, seconds=12)
    run("nbaudio ingest librispeech LibriSpeech --out W", folder)
    run("nbaudio score W", folder)
    run("nbaudio select W --splits source", folder)
    command = "nbaudio materialize W --out C --container tfrecord --engine beam"
    seconds = run(command, folder, python)
    return Row("LibriSpeech to TFRecord on Beam", command, f"3.3 h of FLAC in {seconds:.0f} s")


def measure_stream(folder: Path) -> Row:
    """Pack the clips of the parliament into ZIP shards and stream them from a distant server."""
    run("nbaudio select W", folder)
    command = "nbaudio materialize W --out C --container zip"
    seconds = run(command, folder)
    with delayed_server(folder) as address:
        corpus = nbaudio.open_corpus(f"{address}/C")
        began = time.perf_counter()
        clips = sum(1 for _ in corpus.stream("train", seed=1))
        rate = clips / (time.perf_counter() - began)
    measured = (
        f"{clips:,} clips packed in {seconds:.0f} s; read by `nbaudio.open_corpus(URL)` over a "
        f"connection with {1000 * DELAY_S:.0f} ms of delay: {rate:,.0f} clips/s"
    )
    return Row("ZIP shards streamed over HTTP", command, measured)


def measure_convert(folder: Path) -> Row:
    """Copy the clips of the parliament into shards for tf.data."""
    command = "nbaudio convert C --container tfrecord --shard-count 64 --out D"
    clips = nbaudio.open_corpus(folder / "C").segments.height
    seconds = run(command, folder)
    return Row(
        "shards for tf.data", command, f"{clips:,} clips into 64 shards a split in {seconds:.1f} s"
    )


def measure_spark(folder: Path) -> Row:
    """Run the notebooks on songs, with Spark for cutting."""
    for number in range(20):
        write_recording(folder / f"songs/{number}.mp3", 180, 48_000, channels=2, seed=number)
    (folder / "data_manifests").symlink_to(TOP / "data_manifests")
    command = (
        "nbaudio run data_manifests/wavenet.yaml --out R --set source=songs --set engine=spark"
    )
    seconds = run(command, folder)
    return Row("mp3 songs to mu-law on Spark", command, f"20 songs of 3 min in {seconds:.0f} s")


def main() -> None:
    """Run the jobs in folders of their own and print the rows of the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beam", metavar="PYTHON", help="an interpreter with nbaudio and Beam")
    parser.add_argument("--spark", action="store_true", help="run the job on Spark, too")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        names = ("demo", "parliament", "minutes", "beam", "spark")
        folders = {name: Path(scratch) / name for name in names}
        for folder in folders.values():
            folder.mkdir()
        print(f"{os.cpu_count()} cores: {measure_demo(folders['demo'])}")
        rows.append(measure_parliament(folders["parliament"]))
        rows.append(measure_minutes(folders["minutes"]))
        if arguments.beam:
            rows.append(measure_beam(folders["beam"], str(Path(arguments.beam).absolute())))
        rows.append(measure_stream(folders["parliament"]))
        if arguments.spark:
            rows.append(measure_spark(folders["spark"]))
        rows.append(measure_convert(folders["parliament"]))
    print("| job | command | measured |\n|---|---|---|")
    print("\n".join(map(str, rows)))


if __name__ == "__main__":
    main()
