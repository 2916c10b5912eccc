"""Measure what a large corpus costs the machine that plans it.

The corpus has 300,000 tiny recordings, and is materialized with any engine.

    python benchmarks/scale.py [--recordings 300000] [--each 1] [--seconds 5]
                               [--sizes 75000,150000,300000] [--engine loky] [--jobs 2]
                               [--folder DIR] [--required-mb 1000] [--driver-mb 700]
    python benchmarks/scale.py --plan-only [--segments 1000000] [--each 600] [--seconds 5]
                               [--no-words] [--step measure]

Recordings have `--each` segments of `--seconds` of noise, and are all names of one file: what is
planned, opened, cut, packed and published is what as many files would be, only the disk has less to
hold. For each size one run in a separate process; its peak of resident memory and that of all its
processes together are taken from outside. Required: all together stay under `--required-mb`, the
driver under `--driver-mb`; the exit code is 1 where they do not. Numbers go to standard output as
Markdown.

With `--plan-only` there is no audio: workers declare clips and shards of the size that FLAC would
have. Tables, indexes of packs, tasks and everything else are real; of a review, no clip can be cut,
and `ingest` reads the segments from a manifest of NeMo. Segments have a text of 12 words, and times
of 20, eight recordings are held out, and a tenth more segments are rejected. *Temporary disk* is
the most that is in hidden folders of the corpus and the workspace, as a multiple of the segments
table.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import psutil
import soundfile as sf

import nbaudio
from nbaudio import Workspace
from nbaudio.audio import probe
from nbaudio.review.state import ReviewState, Verdict, append_verdicts
from nbaudio.tables import schemas, workspace_tables

RATE = 16_000
BYTES_A_SECOND = 19_000  # of FLAC
ROWS = 16_384
SOURCE = "source.jsonl"
STEPS = (
    "ingest",
    "join",
    "score",
    "measure",
    "select",
    "materialize",
    "verify",
    "diff",
    "convert",
    "review",
    "evidence",
    "stats",
)


def main() -> int:
    """Run every size and print a line for each."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--recordings", type=int, default=300_000)
    options.add_argument("--sizes", help="several numbers of recordings, by commas")
    options.add_argument("--each", type=int, dest="per_recording")
    options.add_argument("--plan-only", action="store_true")
    options.add_argument(
        "--segments", default="1000000", help="several numbers of segments, by commas"
    )
    options.add_argument(
        "--no-words", dest="words", action="store_false", help="without texts and times of words"
    )
    options.add_argument("--step", choices=STEPS, nargs="+", default=["materialize"])
    options.add_argument("--planned", nargs=4, help=argparse.SUPPRESS)
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--engine", default="loky")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument(
        "--folder", type=Path, help="where to work; a temporary folder unless given"
    )
    options.add_argument("--required-mb", type=float, default=1000.0)
    options.add_argument("--driver-mb", type=float, default=700.0)
    asked = options.parse_args()
    if asked.planned:
        return run_planned(*asked.planned)
    if asked.plan_only:
        return plan_only(asked)
    asked.per_recording = asked.per_recording or 1
    sizes = [int(size) for size in (asked.sizes or str(asked.recordings)).split(",")]
    columns = (
        "recordings",
        "segments",
        "hours",
        "engine",
        "seconds",
        "driver MB",
        "all processes MB",
    )
    print("| " + " | ".join([*columns, "core-seconds an hour of audio"]) + " |")
    print("|---" * (len(columns) + 1) + "|")
    within = True
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            workspace = make_workspace(Path(folder), size, asked.per_recording, asked.seconds)
            run = [
                sys.executable,
                "-m",
                "nbaudio",
                "materialize",
                str(workspace),
                "--out",
                f"{folder}/corpus",
            ]
            taken = measure([*run, "--engine", asked.engine, "--jobs", str(asked.jobs)])
        hours = size * asked.per_recording * asked.seconds / 3600
        print(
            (
                f"| {size:,} | {size * asked.per_recording:,} | {hours:.0f} | {asked.engine} | "
                f"{taken['wall']:.0f} | "
            ),
            end="",
        )
        print(
            f"{taken['driver']:.0f} | {taken['all']:.0f} | {taken['cpu'] / hours:.2f} |", flush=True
        )
        within &= taken["all"] <= asked.required_mb and taken["driver"] <= asked.driver_mb
    return int(not within)


def make_workspace(folder: Path, recordings: int, per_recording: int, seconds: float) -> Path:
    """A workspace of so many recordings with so many accepted segments each."""
    audio = folder / "noise.flac"
    length = round(seconds * RATE)
    sf.write(audio, np.random.default_rng(0).normal(0, 0.05, per_recording * length), RATE)
    facts_of_audio, status = probe(audio), audio.stat()
    facts = {
        "sampling_rate": facts_of_audio.sampling_rate,
        "num_channels": facts_of_audio.num_channels,
        "num_samples": facts_of_audio.num_samples,
        "codec": facts_of_audio.codec,
        "num_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
    }
    same = [pl.lit(value).alias(name) for name, value in facts.items()]
    # Hashes that differ make clips that differ.
    number = pl.int_range(recordings, eager=True)
    table = pl.select(
        recording_id=pl.format("sjednica [{}]", number.cast(pl.String).str.zfill(11))
    ).select(
        "recording_id",
        pl.lit(audio.name).alias("path"),
        *same,
        sha256=pl.col("recording_id").str.zfill(64),
    )
    place = pl.int_range(recordings * per_recording, eager=True)
    start = place % per_recording * length
    text = pl.format(
        "ovo je rečenica broj {} od mnogih koje je netko u saboru rekao dok su ga drugi slušali",
        place,
    )
    segments = pl.select(
        recording_id=table["recording_id"].gather(place // per_recording),
        start_sample=start,
        end_sample=start + length,
        text=text,
        asr_text=text,
        speaker_id=pl.format("spk{}", place // per_recording % 1000),
        similarity=pl.lit(1.0),
        split=pl.lit("train"),
        decision=pl.lit("accept"),
    ).with_columns(
        segment_id=pl.format(
            "{}_{}-{}", pl.col("recording_id").str.slice(10, 11), "start_sample", "end_sample"
        )
    )
    workspace = Workspace.create(folder / "workspace", source="made", audio=str(folder))
    workspace.save(recordings=table, segments=segments)
    return workspace.path


def plan_only(asked: argparse.Namespace) -> int:
    """Run steps over so many segments without audio, and print a line for each."""
    columns = (
        "segments",
        "step",
        "seconds",
        "CPU seconds",
        "us per segment",
        "driver MB",
        "all processes MB",
        "table MB",
        "temporary disk",
    )
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    within = True
    for size in map(int, asked.segments.split(",")):
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            workspace = made_segments(
                Path(folder), size, asked.per_recording or 600, asked.seconds, words=asked.words
            )
            table = (workspace / "segments.parquet").stat().st_size
            if not {"ingest", "join"}.isdisjoint(asked.step):
                write_source(workspace, Path(folder) / SOURCE)
            for step in asked.step:
                command = [
                    sys.executable,
                    __file__,
                    "--planned",
                    step,
                    str(workspace),
                    f"{folder}/corpus",
                    str(asked.jobs),
                ]
                taken = measure(command, work=Path(folder))
                print(
                    (
                        f"| {size:,} | {step} | {taken['wall']:.0f} | "
                        f"{taken['cpu']:.0f} | "
                        f"{taken['wall'] / size * 1e6:.0f} | {taken['driver']:.0f} | "
                    ),
                    end="",
                )
                print(
                    f"{taken['all']:.0f} | {table / 1e6:,.0f} | {taken['disk'] / table:.2f} |",
                    flush=True,
                )
                within &= taken["all"] <= asked.required_mb
    return int(not within)


def made_segments(
    folder: Path, segments: int, per_recording: int, seconds: float, *, words: bool
) -> Path:
    """Make a workspace of so many accepted segments, and a tenth more that are rejected.

    The table is written in parts.
    """
    total, length = segments + segments // 10, round(seconds * RATE)
    number = pl.int_range(-(-total // per_recording), eager=True)
    table = pl.select(
        recording_id=pl.format("sjednica [{}]", number.cast(pl.String).str.zfill(11))
    ).with_columns(
        path=pl.format("{}.flac", "recording_id"),
        sampling_rate=pl.lit(RATE),
        num_channels=pl.lit(1),
        num_samples=pl.lit(per_recording * length),
        codec=pl.lit("flac"),
        sha256=pl.col("recording_id").str.zfill(64),
    )
    random = np.random.default_rng(0)
    lexicon = pl.Series(
        [
            "".join(random.choice(list("aeioubcdkprstv"), size))
            for size in random.integers(2, 9, 5000)
        ]
    )

    def parts() -> Iterator[pl.DataFrame]:
        for start in range(0, total, ROWS):
            place = pl.int_range(start, min(start + ROWS, total), eager=True)
            of, at = place // per_recording, place % per_recording * length
            columns = [
                lexicon.gather(random.integers(0, len(lexicon), len(place))) for _ in range(12)
            ]
            if words:
                text = pl.select(pl.concat_str(columns, separator=" ")).to_series()
            else:
                text = pl.Series([None] * len(place), dtype=pl.String)
            times = np.sort(
                random.uniform(0, seconds, (len(place), 40)).astype(np.float32)
            ).reshape(-1, 20, 2)
            rejected = place % 11 == 10
            rows = {
                "recording_id": table["recording_id"].gather(of),
                "start_sample": at,
                "end_sample": at + length,
                "text": text,
                "asr_text": text,
                "speaker_id": pl.select(pl.format("spk{}", of % 5000)).to_series(),
                "word_times": times if words else [None] * len(place),
                "similarity": random.uniform(0.8, 1, len(place)),
            }
            made = pl.DataFrame(
                {name: values for name, values in rows.items() if name != "word_times"}
            ).with_columns(
                split=pl.when(rejected)
                .then(None)
                .when(of < 4)
                .then(pl.lit("dev"))
                .when(of < 8)
                .then(pl.lit("test"))
                .otherwise(pl.lit("train")),
                decision=pl.when(rejected).then(pl.lit("reject")).otherwise(pl.lit("accept")),
                reason=pl.when(rejected).then(pl.lit("below_similarity")),
                segment_id=pl.format(
                    "{}_{}-{}", rows["recording_id"].str.slice(10, 11), "start_sample", "end_sample"
                ),
                **{
                    f"source_{edge}": (pl.col(f"{edge}_sample") / RATE).cast(pl.String)
                    for edge in ("start", "end")
                },
            )
            if words:
                pairs = pl.DataFrame(
                    {"start": times[:, :, 0].ravel(), "end": times[:, :, 1].ravel()}
                ).to_struct()
                made = made.with_columns(word_times=pairs.reshape((len(place), 20)).arr.to_list())
            yield schemas.conform(made, schemas.SEGMENTS, "made")

    (folder / "audio").mkdir()
    workspace = Workspace.create(folder / "workspace", source="made", audio=str(folder / "audio"))
    workspace.save(recordings=table)
    workspace_tables.write(workspace, parts())
    return workspace.path


def write_source(workspace: Path, path: Path) -> None:
    """Write the segments as a manifest of NeMo: JSON lines."""
    start, end = (pl.col(name) / RATE for name in ("start_sample", "end_sample"))
    with path.open("wb") as file:
        for part in workspace_tables.read_batches(workspace):
            nemo_names = {"pred_text": "asr_text", "speaker": "speaker_id"}
            audio = {
                "audio_filepath": pl.format("{}.flac", "recording_id"),
                "offset": start,
                "duration": end - start,
            }
            part.select("segment_id", "text", **nemo_names, **audio).write_ndjson(file)


def run_planned(step: str, workspace: str, corpus: str, jobs: str) -> int:
    """Run a step with workers that declare what they would write or measure."""
    from nbaudio.corpus import materialize, measure, shards, verify

    same = {"jobs": int(jobs), "show_progress": False}
    materialize.cut, shards.write_shard, measure.measure_windows, verify._check_shard = (
        declared_cut,
        declared_shard,
        declared_signals,
        declared_check,
    )
    if step == "materialize":
        materialize.materialize(workspace, out=corpus, **same)
    elif step == "measure":
        measure.measure(workspace, **same)
    elif step == "ingest":
        nbaudio.ingest("nemo", Path(corpus).with_name(SOURCE), out=f"{corpus}-ingested")
    elif step == "join":
        nbaudio.join(
            workspace, Path(corpus).with_name(SOURCE), hypothesis="large", from_="pred_text"
        )
    elif step in ("score", "select", "stats"):
        getattr(nbaudio, step)(workspace)
    elif step == "verify":
        verify.verify(corpus, **same)
    elif step == "diff":
        nbaudio.diff(workspace, corpus)
    elif step == "review":
        nbaudio.review.export(workspace, out=f"{corpus}-review.xlsx", n=300)
    elif step == "evidence":
        record = ReviewState.load(workspace).records[f"{Path(corpus).name}-review"]
        rows = zip(record.segment_ids, record.contents, strict=True)
        append_verdicts(
            workspace,
            (
                Verdict(*row, "ok", "", None, "ana", "2026-11-26T03:00:00Z", record.name)
                for row in rows
            ),
        )
        nbaudio.evidence(workspace)
    else:
        nbaudio.convert(corpus, container="zip", out=f"{corpus}-zip", engine="loky", **same)
    return 0


def declared_cut(_format: Any, task: Any, **_: object) -> Any:
    """Write a pack with an index and no clips."""
    from nbaudio.corpus import cutting, pack_index

    index, end = [], 0
    for source in task.sources:
        for key, start, stop, _ in source.windows:
            size = (stop - start) * BYTES_A_SECOND // RATE
            index.append((key, end, size, stop - start, hashlib.sha256(key.encode()).hexdigest()))
            end += size
    with task.pack.new() as path:
        path.write_bytes(pack_index.index_bytes(index))
    return cutting.CutResult(task.seconds, {}, {})


def declared_shard(layout: Any, container: str, clip_format: Any, task: Any) -> Any:
    """Write what belongs to a shard, but not the shard."""
    from nbaudio.corpus import shards
    from nbaudio.corpus.containers.shard_files import ClipLocation

    def write(
        path: Path, _metadata: pl.DataFrame, lengths: list[int], **_: object
    ) -> list[ClipLocation]:
        path.write_text(path.name)
        return [
            ClipLocation(end - size, size)
            for end, size in zip(accumulate(lengths), lengths, strict=True)
        ]

    shards.container_named = lambda *_, **__: SimpleNamespace(write=write)
    shards.read_clips = lambda clips: clips["length"].to_list()
    return shards.write_shard(layout, container, clip_format, task)


def declared_signals(task: Any) -> Any:
    """Make up the signals of a task's windows."""
    from nbaudio.audio.signals import SIGNALS
    from nbaudio.corpus import cutting

    names = [name for signal in SIGNALS.values() for name in signal.columns]
    signals = {name: schemas.SIGNALS[name] == pl.Boolean or len(name) / 7 for name in names}
    return cutting.CutResult(
        task.seconds, {}, {key: signals for source in task.sources for key, *_ in source.windows}
    )


def declared_check(_folder: Any, _encoding: str, task: Any) -> Any:
    """Say that every clip is as it was written."""
    from nbaudio.corpus import verify

    return verify._CheckedShard([], task[1].select("row", "audio_sha256"), 0.0)


def measure(command: list[str], *, work: Path | None = None) -> dict[str, float]:
    """Run a command, and return what it took.

    That is seconds, CPU seconds of all its processes, the most MB of the first one and of all
    together, and temporary bytes.
    """
    began, driver, everything, disk, looked = time.monotonic(), 0, 0, 0, 0.0
    cpu: dict[int, float] = {}
    run = psutil.Popen(command, stdout=subprocess.DEVNULL)
    while run.poll() is None:
        resident = 0
        for process in [run, *run.children(recursive=True)]:
            try:
                memory, times = process.memory_info().rss, process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            resident += memory
            cpu[process.pid] = times.user + times.system
            driver = max(driver, memory) if process.pid == run.pid else driver
        everything = max(everything, resident)
        if work is not None and time.monotonic() - looked > 1:
            disk, looked = max(disk, temporary_bytes(work)), time.monotonic()
        time.sleep(0.1)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {run.returncode}")
    figures = {
        "wall": time.monotonic() - began,
        "cpu": sum(cpu.values()),
        "driver": driver / 1e6,
        "all": everything / 1e6,
    }
    return figures | {"disk": disk}


def temporary_bytes(folder: Path) -> int:
    """Return the bytes of temporary files: in hidden folders, and with hidden names.

    Hard links to the segments table do not count.
    """
    num_bytes = 0
    for path in folder.glob("*/.*"):
        for file in (path, *path.rglob("*")):
            with suppress(OSError):
                status = file.stat()
                num_bytes += status.st_size if file.is_file() and status.st_nlink == 1 else 0
    return num_bytes


if __name__ == "__main__":
    sys.exit(main())
