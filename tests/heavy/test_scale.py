"""Slow tests: hours of audio in bounded memory, and the benchmarks as they are committed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest
import soundfile as sf
from conftest import sweeps

import nbaudio
from nbaudio.tables import schemas, workspace_tables
from nbaudio.tables.workspace import Workspace

TOP = Path(__file__).resolve().parents[2]
BOUND_MB = 1000


def most_memory(command: list[str]) -> float:
    """Run a command; the most MB that it and all its processes held together."""
    run, most = psutil.Popen(command), 0
    while run.poll() is None:
        held = 0
        for process in [run, *run.children(recursive=True)]:
            try:
                held += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        most = max(most, held)
        try:
            run.wait(0.05)
        except psutil.TimeoutExpired:
            continue
    assert run.returncode == 0
    return most / 1e6


def test_a_recording_of_four_hours_is_cut_in_bounded_memory(tmp_path: Path) -> None:
    rate, hours, minute = 48000, 4, (sweeps(60, 48000) * 32767).astype(np.int16)
    (tmp_path / "audio").mkdir()
    with sf.SoundFile(tmp_path / "audio/long.wav", "w", rate, 2, "PCM_16") as file:
        for _ in range(60 * hours):
            file.write(minute)
    lines = [
        {"file": "long.wav", "start": s, "end": s + 9.5, "words": [f"w{s}"], "asr": [f"w{s}"]}
        for s in range(0, hours * 3600 - 10, 10)
    ]
    (tmp_path / "asr.json").write_text("\n".join(map(json.dumps, lines)))
    nbaudio.ingest(
        "parlaspeech", tmp_path / "asr.json", audio=tmp_path / "audio", out=tmp_path / "w"
    )
    nbaudio.score(tmp_path / "w")
    nbaudio.select(tmp_path / "w", dev=0, test=0)
    command = [
        sys.executable,
        "-m",
        "nbaudio",
        "materialize",
        str(tmp_path / "w"),
        "--out",
        str(tmp_path / "c"),
        "--jobs",
        "2",
    ]
    assert most_memory(command) < BOUND_MB
    assert (
        most_memory([sys.executable, "-m", "nbaudio", "verify", str(tmp_path / "c"), "--jobs", "2"])
        < BOUND_MB
    )
    assert pl.read_parquet(tmp_path / "c/segments.parquet").height == len(lines)


def test_half_a_million_segments_are_read_scored_and_selected_in_bounded_memory(
    tmp_path: Path,
) -> None:
    # As long as ParlaSpeech's lines: about 1,250 bytes each, with the times of every word.
    rng = np.random.default_rng(0)
    lexicon = np.array([f"ri{i}č" for i in range(500)])
    times = [round(0.38 * i, 2) for i in range(35)]
    said = []
    for _ in range(1000):
        words = lexicon[rng.integers(0, 500, 34)].tolist()
        known = {
            "words": words,
            "asr": words[1:],
            "word_start_times": times[:-1],
            "word_end_times": times[1:],
        }
        said.append(json.dumps(known, ensure_ascii=False)[1:])
    with (tmp_path / "asr.json").open("w", encoding="utf8") as file:
        for i in range(447_542):
            start = 20 * (i // 742)
            where = (
                f'"file": "sjednica {i % 742}.wav", "start": {start}.25, "end": '
                f'{start + 19.5}, "speaker": "spk{i % 300}"'
            )
            file.write(f"{{{where}, {said[i % 1000]}\n")
    here = [sys.executable, "-m", "nbaudio"]
    ingest = [
        *here,
        "ingest",
        "parlaspeech",
        str(tmp_path / "asr.json"),
        "--out",
        str(tmp_path / "w"),
    ]
    assert most_memory(ingest) < BOUND_MB
    assert most_memory([*here, "score", str(tmp_path / "w")]) < BOUND_MB
    # The table alone would take more: select streams it.
    assert (
        most_memory(
            [*here, "select", str(tmp_path / "w"), "--hours", "200", "--group-by", "recording_id"]
        )
        < 580
    )


def test_a_million_segments_are_counted_plotted_and_tuned_in_bounded_memory(tmp_path: Path) -> None:
    def part(first: int) -> pl.DataFrame:
        number = pl.int_range(first, first + 100_000)
        texts = pl.concat_str(
            [pl.format("riječ{} i još druga", number * step % 9973) for step in range(1, 6)],
            separator=" ",
        )
        times = pl.lit(
            [{"start": 0.5 * word, "end": 0.5 * word + 0.4} for word in range(20)],
            dtype=schemas.WORD_TIMES,
        )
        recording = pl.format("sjednica {}.wav", number // 600)
        facts = {
            "speaker_id": pl.format("spk{}", number // 600 % 997),
            "text": texts,
            "text_raw": texts,
            "word_times": times,
        }
        facts |= {
            "source_start": (number % 600 * 20).cast(pl.String),
            "source_end": (number % 600 * 20 + 9).cast(pl.String),
        }
        facts |= {
            "split": pl.when(number % 11 > 0).then(pl.lit("train")),
            "decision": pl.lit("accept"),
        }
        made = pl.select(
            segment_id=pl.format("sjednica_{}_{}", number // 600, number),
            recording_id=recording,
            **facts,
        )
        return schemas.conform(made, schemas.SEGMENTS, "segments")

    workspace = Workspace.create(tmp_path / "w", source="asr.json", audio=None)
    workspace.save(
        recordings=pl.DataFrame({"recording_id": [f"sjednica {i}.wav" for i in range(1834)]})
    )
    workspace_tables.write(workspace, map(part, range(0, 1_100_000, 100_000)))
    # The table in memory takes more than 1,000 MB.
    assert most_memory([sys.executable, "-m", "nbaudio", "stats", str(tmp_path / "w")]) < 320
    for made in (
        "from nbaudio import plots; plots.splits",
        "from nbaudio.widgets import ThresholdTuner; ThresholdTuner",
    ):
        assert (
            most_memory(
                [sys.executable, "-c", f"import sys; {made}(sys.argv[1])", str(tmp_path / "w")]
            )
            < 450
        )


def test_a_million_segments_are_measured_in_bounded_memory(tmp_path: Path) -> None:
    # Workers that only declare signals are faster than the driver: results that wait would take
    # more, and so would idle workers.
    run = [
        sys.executable,
        str(TOP / "benchmarks/scale.py"),
        "--plan-only",
        "--segments",
        "1000000",
        "--no-words",
    ]
    run += ["--step", "measure", "--folder", str(tmp_path), "--required-mb", "700"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            [
                "cut.py",
                "--hours",
                "0.02",
                "--recordings",
                "2",
                "--formats",
                "wav",
                "--share",
                "0.5",
                "--long",
                "0",
            ],
            "| wav | nbaudio |",
        ),
        (["cut.py", "--entrants", "nbaudio,soundfile", "--scale", "0.01"], "| nbaudio |"),
        (["score.py", "--segments", "2000", "--runs", "1"], "ratio"),
        (
            [
                "stream.py",
                "--clips",
                "60",
                "--runs",
                "1",
                "--lines",
                "local",
                "--only",
                "nbaudio",
                "webdataset",
            ],
            "| nbaudio, tfrecord |",
        ),
        (["convert.py", "--clips", "60", "--runs", "1"], "| lhotse |"),
        (["bench.py", "--print", "--turns", "1", "--only", "ingest-files"], "| `ingest-files` |"),
    ],
    ids=["cut", "entrants", "score", "stream", "convert", "bench"],
)
def test_the_benchmarks_run(command: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, str(TOP / "benchmarks" / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
    )
    # A benchmark says by its exit code whether it met its aim; here it only has to run to its end.
    # Those that make corpora show progress.
    assert (
        "Traceback" not in done.stderr
        if command[0] in ("stream.py", "convert.py")
        else not done.stderr
    )
    assert said in done.stdout
