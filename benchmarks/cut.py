"""Measure how fast `materialize` is, against three ways of doing the same by hand.

All are measured in one run on the same recordings.

    python benchmarks/cut.py [--hours 3.5] [--recordings 12]
                             [--formats wav,flac,mp3,m4a,opus] [--jobs 2]
                             [--share 0.1] [--long 4] [--folder DIR]
    python benchmarks/cut.py --entrants nbaudio,soundfile,ffmpeg [--scale 1] [--jobs 2]
                             [--folder DIR]

The second form is the published benchmark, which others can enter: see `cutting` and
docs/benchmarks.md.

References, each with as many processes as nbaudio has jobs:
    bare loop   soundfile window read, mean of channels, soxr HQ, FLAC, tar; the fastest that is
                written in an afternoon
    pydub       every recording loaded whole, cut and exported clip by clip
    ffmpeg      one call a segment
pydub and ffmpeg are run on a share of the recordings and scaled up. Every contender runs in
separate processes; wall time, CPU time and the resident memory of all its processes together are
taken from outside. Recordings are the bundled demo speech, laid end to end in 48 kHz stereo. Needs
ffmpeg, to make the recordings and as a reference; numbers go to standard output as Markdown.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import soundfile as sf
import soxr
from cutting import benchmark

from nbaudio import ingest, materialize, score, select, verify
from nbaudio.audio import open_recording, probe
from nbaudio.core.bundled_files import bundled

RATE, CLIP_RATE = 48_000, 16_000


def main() -> None:
    """Make the recordings, run every contender on every format, print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--hours", type=float, default=3.5)
    options.add_argument("--recordings", type=int, default=12)
    options.add_argument("--formats", default="wav,flac,mp3,m4a,opus")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument(
        "--share",
        type=float,
        default=0.1,
        help="of the recordings, for pydub and ffmpeg; 0 leaves them out",
    )
    options.add_argument(
        "--long",
        type=float,
        default=4.0,
        help="hours of one long recording for the memory run; 0 leaves it out",
    )
    options.add_argument(
        "--folder", type=Path, help="where to work; a temporary folder unless given"
    )
    options.add_argument("--contender", nargs=3, help=argparse.SUPPRESS)
    options.add_argument(
        "--entrants",
        help="run the published benchmark (docs/benchmarks.md) with these instead",
    )
    options.add_argument(
        "--scale", type=float, default=1.0, help="of the lengths of its recordings"
    )
    asked = options.parse_args()
    if asked.entrants:
        with tempfile.TemporaryDirectory() as temporary:
            benchmark(
                asked.entrants.split(","), asked.folder or Path(temporary), asked.scale, asked.jobs
            )
        return
    if asked.contender:
        name, workspace, out = asked.contender
        CONTENDERS[name](Path(workspace), Path(out), asked.jobs)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        speech = demo_speech()
        size = {"hours": asked.hours, "recordings": asked.recordings}
        rows = []
        for kind in asked.formats.split(","):
            rows += compare(folder, speech, kind, jobs=asked.jobs, share=asked.share, **size)
        print(table(rows))
        if asked.long:
            workspace = make_workspace(
                folder / "long", speech, "wav", hours=asked.long, recordings=1
            )
            taken = measure("nbaudio", workspace, folder / "out", asked.jobs)
            print(
                f"\nOne recording of {asked.long} h: {taken['wall']:.1f} s, "
                f"{taken['memory'] / 1e6:.0f} MB in all processes."
            )


def demo_speech() -> np.ndarray:
    """A minute or more of every demo recording as 48 kHz stereo, int16, shape (samples, 2)."""
    parts = []
    for path in sorted(bundled("data_manifests/demo/audio").iterdir()):
        facts = probe(path)
        with open_recording(path) as recording:
            window = recording.read(0, facts.num_samples)
        scale = 32768 if window.dtype == np.int16 else 1
        mono = soxr.resample(window.mean(axis=1) / scale, facts.sampling_rate, RATE)
        parts.append(mono)
    mono = np.concatenate(parts)
    noise = np.random.default_rng(0).normal(0, 0.001, len(mono))
    return (np.stack([mono * 0.9, mono * 0.8 + noise], axis=1).clip(-1, 1) * 32767).astype(np.int16)


def make_workspace(
    folder: Path,
    speech: np.ndarray,
    kind: str,
    *,
    hours: float,
    recordings: int,
    encoded: int | None = None,
) -> Path:
    """Make a workspace of recordings in one format, ingested and selected.

    Segments of 4 to 20 s cover nine tenths of the recordings. Of many hours, only the first
    `encoded` recordings are encoded, and the others are copies of them.
    """
    if (folder / "w/reports/select.json").is_file():
        return folder / "w"
    audio = folder / "audio"
    audio.mkdir(parents=True, exist_ok=True)
    length = int(hours * 3600 / recordings * RATE)
    wavs = [audio / f"recording {number}.wav" for number in range(recordings)]
    originals = wavs[:encoded]
    with ThreadPoolExecutor(2) as pool:  # an encoder is one thread of a separate process
        tasks = [
            pool.submit(write_recording, wav, speech, number * 7 * RATE, length, kind)
            for number, wav in enumerate(originals)
        ]
        for task in tasks:
            task.result()
    for number, copy in enumerate(wavs[len(originals) :]):
        original = originals[number % len(originals)]
        shutil.copy(original.with_suffix(f".{kind}"), copy.with_suffix(f".{kind}"))
    rng = np.random.default_rng(1)
    with (folder / "asr.json").open("w") as lines:
        for number, wav in enumerate(wavs):
            now = 0.5
            while (end := now + rng.uniform(4, 20)) < length / RATE:
                words = [f"word{i}" for i in rng.integers(0, 500, 30)]
                line = {
                    "file": wav.name,
                    "start": round(now, 2),
                    "end": round(end, 2),
                    "words": words,
                    "asr": words,
                }
                lines.write(json.dumps(line | {"speaker": f"spk{number}"}) + "\n")
                now = end + rng.uniform(0.2, 2.4)
    ingest("parlaspeech", folder / "asr.json", audio=audio, out=folder / "w", sha256=False)
    score(folder / "w")
    select(folder / "w", group_by=(), dev=0, test=0)
    return folder / "w"


def write_recording(wav: Path, speech: np.ndarray, offset: int, length: int, kind: str) -> None:
    """Write `length` samples of the speech, from `offset` on, as a recording beside `wav`."""
    shifted = np.roll(speech, -offset, axis=0)
    with sf.SoundFile(wav, "w", RATE, 2, "PCM_16") as file:
        for begin in range(0, length, len(speech)):
            file.write(shifted[: length - begin])
    if kind != "wav":
        target = wav.with_suffix(f".{kind}")
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", wav, target], check=True)
        wav.unlink()


def compare(
    folder: Path,
    speech: np.ndarray,
    kind: str,
    *,
    hours: float,
    recordings: int,
    jobs: int,
    share: float,
) -> list[dict[str, object]]:
    """Run every contender on one format.

    Wall times of nbaudio and the bare loop are the better of two, run in turn.
    """
    workspace = make_workspace(folder / kind, speech, kind, hours=hours, recordings=recordings)
    accepted = pl.read_parquet(workspace / "segments.parquet").filter(
        pl.col("decision") == "accept"
    )
    audio_hours = (
        accepted.select((pl.col("end_sample") - pl.col("start_sample")).sum()).item() / RATE / 3600
    )
    # libsndfile has no AAC.
    names = ["nbaudio"] if kind == "m4a" else ["bare loop", "nbaudio", "bare loop", "nbaudio"]
    best: dict[str, dict[str, float]] = {}
    for name in names:
        taken = measure(name, workspace, folder / "out", jobs)
        best[name] = min(best.get(name, taken), taken, key=lambda run: run["wall"])
    problems = verify(folder / "out", show_progress=False).problems
    if problems:
        sys.exit(f"{kind}: the corpus is not whole: {problems[0]}")
    if share:
        part = make_workspace(
            folder / f"{kind} share",
            speech,
            kind,
            hours=hours * share,
            recordings=max(1, round(recordings * share)),
        )
        some = pl.read_parquet(part / "segments.parquet").filter(pl.col("decision") == "accept")
        times = audio_hours / (
            some.select((pl.col("end_sample") - pl.col("start_sample")).sum()).item() / RATE / 3600
        )
        for name in ("pydub", "ffmpeg"):
            taken = measure(name, part, folder / "out", jobs)
            best[name] = {
                "wall": taken["wall"] * times,
                "cpu": taken["cpu"] * times,
                "memory": taken["memory"],
            }
    bare = best.get("bare loop")
    return [
        {
            "format": kind,
            "contender": name,
            "hours": audio_hours,
            "wall s": run["wall"],
            "of bare loop": run["wall"] / bare["wall"] if bare else None,
            "hours per core-hour": audio_hours / (run["cpu"] / 3600),
            "MB": run["memory"] / 1e6,
        }
        for name, run in best.items()
    ]


def measure(name: str, workspace: Path, out: Path, jobs: int) -> dict[str, float]:
    """Run one contender from nothing.

    Return wall and CPU seconds, and the most resident bytes that its processes held together.
    """
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(workspace / "packs", ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = [
        sys.executable,
        __file__,
        "--jobs",
        str(jobs),
        "--contender",
        name,
        str(workspace),
        str(out),
    ]
    run = psutil.Popen(command, stderr=subprocess.DEVNULL)
    most = 0
    while run.poll() is None:
        with contextlib.suppress(psutil.Error):
            most = max(
                most,
                sum(process.memory_info().rss for process in [run, *run.children(recursive=True)]),
            )
        time.sleep(0.02)
    wall = time.monotonic() - began
    if run.returncode:
        sys.exit(f"{name} failed on {workspace}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu, "memory": float(most)}


def table(rows: list[dict[str, object]]) -> str:
    """Rows as Markdown."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
        return "-" if value is None else str(value)

    lines = [" | ".join(rows[0]), "|".join("---" for _ in rows[0])]
    lines += [" | ".join(map(cell, row.values())) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def windows(workspace: Path) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """Files and their windows, as every reference wants them."""
    root = Path(json.loads((workspace / "workspace.json").read_text())["audio"])
    recordings = pl.read_parquet(workspace / "recordings.parquet").select("recording_id", "path")
    accepted = pl.read_parquet(workspace / "segments.parquet").filter(
        pl.col("decision") == "accept"
    )
    accepted = accepted.join(recordings, on="recording_id").sort("path", "start_sample")
    parts = accepted.partition_by("path", maintain_order=True)
    return [
        (
            str(root / part["path"][0]),
            part.select("segment_id", "start_sample", "end_sample").rows(),
        )
        for part in parts
    ]


def ours(workspace: Path, out: Path, jobs: int) -> None:
    """The contender."""
    materialize(workspace, out=out, jobs=jobs, show_progress=False)


def bare_loop(workspace: Path, out: Path, jobs: int) -> None:
    """One tar a recording; `jobs` processes."""
    _in_processes(_bare_one, workspace, out, jobs)


def _bare_one(path: str, cuts: list[tuple[str, int, int]], out: Path) -> None:
    with sf.SoundFile(path) as file, tarfile.open(out.with_suffix(".tar"), "w") as tar:
        for key, start, stop in cuts:
            file.seek(start)
            mono = file.read(stop - start, dtype="float32", always_2d=True).mean(axis=1)
            clip = io.BytesIO()
            sf.write(
                clip,
                soxr.resample(mono, file.samplerate, CLIP_RATE, "HQ"),
                CLIP_RATE,
                format="FLAC",
            )
            member = tarfile.TarInfo(f"{key}.flac")
            member.size = clip.tell()
            clip.seek(0)
            tar.addfile(member, clip)


def bare_decode(workspace: Path, out: Path, jobs: int) -> None:
    """Every window read by soundfile, nothing else; `jobs` processes. benchmarks/signals.py."""
    _in_processes(_decode_one, workspace, out, jobs)


def _decode_one(path: str, cuts: list[tuple[str, int, int]], _out: Path) -> None:
    with sf.SoundFile(path) as file:
        for _, start, stop in cuts:
            file.seek(start)
            file.read(stop - start, dtype="float32", always_2d=True)


def pydub(workspace: Path, out: Path, jobs: int) -> None:
    """Every recording loaded whole."""
    _in_processes(_pydub_one, workspace, out, jobs)


def _pydub_one(path: str, cuts: list[tuple[str, int, int]], out: Path) -> None:
    from pydub import AudioSegment

    whole = AudioSegment.from_file(path)
    out.mkdir()
    for key, start, stop in cuts:
        clip = (
            whole[start * 1000 / RATE : stop * 1000 / RATE]
            .set_channels(1)
            .set_frame_rate(CLIP_RATE)
        )
        clip.export(out / f"{key}.flac", format="flac").close()


def ffmpeg(workspace: Path, out: Path, jobs: int) -> None:
    """One process a segment."""
    _in_processes(_ffmpeg_one, workspace, out, jobs)


def _ffmpeg_one(path: str, cuts: list[tuple[str, int, int]], out: Path) -> None:
    out.mkdir()
    for key, start, stop in cuts:
        place = ["-ss", f"{start / RATE:.6f}", "-t", f"{(stop - start) / RATE:.6f}"]
        target = ["-ac", "1", "-ar", str(CLIP_RATE), str(out / f"{key}.flac")]
        subprocess.run(
            ["ffmpeg", "-v", "error", "-threads", "1", *place, "-i", path, *target], check=True
        )


def _in_processes(function: object, workspace: Path, out: Path, jobs: int) -> None:
    out.mkdir()
    tasks = [
        (path, cuts, out / str(number)) for number, (path, cuts) in enumerate(windows(workspace))
    ]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        pool.starmap(function, tasks, chunksize=1)


CONTENDERS = {"nbaudio": ours, "bare loop": bare_loop, "pydub": pydub, "ffmpeg": ffmpeg}

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
