"""The benchmark of segment materialization.

It tells what cutting clips out of recordings costs, and whether the clips are right.

    python benchmarks/cut.py --entrants nbaudio,soundfile,ffmpeg,torchaudio,lhotse [--scale 1]
                             [--jobs 2] [--folder DIR]
    python benchmarks/cut.py --entrants "python my_entrant.py" ...

An entrant is a name of `cutting_entrants` or a command, called as ``COMMAND MANIFEST OUT JOBS``:

- MANIFEST has a JSON object per line: `path`, `sampling_rate`, `channels`, `kind`, and `windows`, a
  list of `id`, `start` and `stop` in samples, half open, in no order.
- For each window it writes ``OUT/<id>.flac`` or ``.wav``: the mean of the channels, 16 bits, at the
  recording's own rate.
- It uses at most JOBS processes or threads, exits with 0, prepares nothing before the call and
  keeps nothing after it.

A clip is exact if it has as many samples as its window, each equal to that of a full decode by
FFmpeg or libsndfile within, in steps of 16 bits, 0.5 for mono WAV and FLAC, 1.5 for stereo, 3.5 for
MP3 and Vorbis, 33.5 for Opus. Results with the same hash of recordings and windows compare.
docs/benchmarks.md has results.
"""

import contextlib
import hashlib
import importlib.util
import json
import resource
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import soundfile as sf
from numpy.typing import NDArray

ENTRANTS = ("nbaudio", "soundfile", "ffmpeg", "torchaudio", "lhotse")
STEP = 1 / 32768  # of 16 bits


class Kind(NamedTuple):
    """Recordings of one kind.

    `seconds` are at scale 1. `tolerance` is how far a clip may be from a full decode, in steps of
    16 bits.
    """

    suffix: str
    rate: int
    channels: int
    seconds: tuple[int, ...]
    tolerance: float
    encoder: tuple[str, ...] = ()  # options of ffmpeg; soundfile writes without


# A mean of two channels may be rounded either way; decoders of lossy formats differ by rounding.
KINDS = {
    "wav 16 kHz mono": Kind("wav", 16_000, 1, (7, 240, 1800), 0),
    "wav 44.1 kHz stereo": Kind("wav", 44_100, 2, (31, 600), 1),
    "flac 16 kHz mono": Kind("flac", 16_000, 1, (7, 240, 1800), 0),
    "flac 48 kHz stereo": Kind("flac", 48_000, 2, (31, 1200), 1),
    "mp3 44.1 kHz stereo": Kind(
        "mp3", 44_100, 2, (31, 1200), 3, ("-c:a", "libmp3lame", "-b:a", "128k")
    ),
    "vorbis 32 kHz mono": Kind("ogg", 32_000, 1, (31, 600), 3, ("-c:a", "libvorbis", "-q:a", "4")),
    "opus 48 kHz stereo": Kind(
        "opus", 48_000, 2, (31, 600), 33, ("-c:a", "libopus", "-b:a", "64k")
    ),
}


def make(folder: Path, scale: float) -> Path:
    """Make the corpus once, without chance; return its manifest, one line per recording."""
    manifest = folder / "manifest.jsonl"
    if manifest.is_file():
        return manifest
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, kind in KINDS.items():
        for number, seconds in enumerate(kind.seconds):
            rng = np.random.default_rng(len(lines))
            path = folder / f"{name.replace(' ', '_')}_{number}.{kind.suffix}"
            written = path if not kind.encoder else path.with_suffix(".wav")
            total = max(int(seconds * scale), 6) * kind.rate
            _write(written, rng, total, kind)
            if kind.encoder:
                quiet = [
                    "ffmpeg",
                    "-v",
                    "error",
                    "-y",
                    "-i",
                    str(written),
                    "-map_metadata",
                    "-1",
                    "-fflags",
                    "+bitexact",
                ]
                subprocess.run(
                    [*quiet, *kind.encoder, "-flags:a", "+bitexact", str(path)], check=True
                )
                written.unlink()
            windows, now = [], int(0.3 * kind.rate)
            while (stop := now + int(rng.uniform(0.7, 15) * kind.rate)) < total - kind.rate:
                windows.append(
                    {"id": f"{path.stem}-{len(windows):05d}", "start": now, "stop": stop}
                )
                now = stop + int(rng.uniform(0, 2) * kind.rate)
            rng.shuffle(windows)  # type: ignore[arg-type]
            facts = {"kind": name, "sampling_rate": kind.rate, "channels": kind.channels}
            lines.append(json.dumps({"path": str(path.absolute()), **facts, "windows": windows}))
    manifest.write_text("".join(f"{line}\n" for line in lines))
    return manifest


def _write(path: Path, rng: np.random.Generator, total: int, kind: Kind) -> None:
    """Write tones that glide and pause, with noise: no two places of a recording are equal."""
    with sf.SoundFile(path, "w", kind.rate, kind.channels, "PCM_16") as file:
        for begin in range(0, total, kind.rate):
            at = np.arange(begin, min(total, begin + kind.rate))
            pitch = 90 + 60 * rng.random() + 30 * np.sin(at / kind.rate)
            tone = sum(
                np.sin(2 * np.pi * pitch * part * at / kind.rate) / part for part in range(1, 6)
            )
            loudness = (
                0.2 * (0.05 + np.abs(np.sin(np.pi * 3.1 * at / kind.rate))) * (rng.random() > 0.1)
            )
            mono = tone * loudness + rng.normal(0, 0.002, len(at))
            shares = np.array([0.9, 0.6])[: kind.channels] if kind.channels > 1 else np.array([1.0])
            file.write(
                np.round(mono[:, None] * shares * 32767).clip(-32768, 32767).astype(np.int16)
            )


def digest(manifest: Path) -> str:
    """Return a hash of the recordings and windows: results with different ones do not compare."""
    hashed = hashlib.sha256()
    for line in map(json.loads, manifest.read_text().splitlines()):
        hashed.update(hashlib.sha256(Path(line["path"]).read_bytes()).digest())
        hashed.update(json.dumps(line["windows"]).encode())
    return hashed.hexdigest()[:12]


def run(entrant: str, manifest: Path, out: Path, jobs: int) -> dict[str, float]:
    """Run an entrant from nothing.

    Return wall and CPU seconds, and the most resident bytes of its processes together.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [sys.executable, str(Path(__file__).with_name("cutting_entrants.py")), entrant]
    process_line = [
        *(command if entrant in ENTRANTS else shlex.split(entrant)),
        str(manifest),
        str(out),
        str(jobs),
    ]
    before, began, most = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0
    process = psutil.Popen(process_line)
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            most = max(
                most,
                sum(
                    member.memory_info().rss
                    for member in [process, *process.children(recursive=True)]
                ),
            )
        time.sleep(0.05)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        sys.exit(f"{entrant}: exit code {process.returncode}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "cpu": cpu, "memory": float(most)}


def decoded(path: str, channels: int) -> list[NDArray[np.float32]]:
    """Return full decodes, as the mean of the channels, by the decoders that count.

    These are FFmpeg and, where it can, libsndfile.
    """
    command = ["ffmpeg", "-v", "error", "-i", path, "-f", "f32le", "-c:a", "pcm_f32le", "-"]
    raw = np.frombuffer(subprocess.run(command, capture_output=True, check=True).stdout, np.float32)
    decodes = [raw.reshape(-1, channels).mean(axis=1)]
    with contextlib.suppress(sf.LibsndfileError):
        decodes.append(sf.read(path, dtype="float32", always_2d=True)[0].mean(axis=1))
    return decodes


def check(manifest: Path, out: Path) -> dict[str, tuple[int, int]]:
    """Return by kind how many clips are right, and how many there should be.

    A clip is right if it equals the same window of a full decode.
    """
    counts: dict[str, tuple[int, int]] = {}
    for line in map(json.loads, manifest.read_text().splitlines()):
        wholes = decoded(line["path"], line["channels"])
        limit = (KINDS[line["kind"]].tolerance + 0.5) * STEP
        exact = sum(_is_exact(out, line, window, wholes, limit) for window in line["windows"])
        before = counts.get(line["kind"], (0, 0))
        counts[line["kind"]] = (before[0] + exact, before[1] + len(line["windows"]))
    return counts


def _is_exact(
    out: Path,
    line: dict[str, Any],
    window: dict[str, Any],
    wholes: list[NDArray[np.float32]],
    limit: float,
) -> bool:
    for path in (out / f"{window['id']}.flac", out / f"{window['id']}.wav"):
        if path.is_file():
            clip, rate = sf.read(path, dtype="float32", always_2d=True)
            parts = [whole[window["start"] : window["stop"]] for whole in wholes]
            same = [
                len(part) == len(clip) and float(np.abs(part - clip[:, 0]).max()) <= limit
                for part in parts
            ]
            return rate == line["sampling_rate"] and clip.shape[1] == 1 and any(same)
    return False


def benchmark(entrants: list[str], folder: Path, scale: float, jobs: int) -> None:
    """Run the entrants in turn and print a line for each."""
    manifest = make(folder / f"cutting {scale:g}", scale)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    hours = (
        sum(
            (w["stop"] - w["start"]) / line["sampling_rate"]
            for line in lines
            for w in line["windows"]
        )
        / 3600
    )
    clips = sum(len(line["windows"]) for line in lines)
    print(
        f"corpus {digest(manifest)}: {len(lines)} recordings, {clips:,} clips, "
        f"{hours:.2f} h; {jobs} jobs\n"
    )
    print(
        "| entrant | hours per core-hour | wall s | MB | exact clips | not exact "
        "|\n|---|---|---|---|---|---|"
    )
    for entrant in entrants:
        needed = {"torchaudio": "torchaudio", "lhotse": "lhotse"}.get(entrant)
        if needed and importlib.util.find_spec(needed) is None:
            print(f"| {entrant} | not installed | | | | |")
            continue
        taken = run(entrant, manifest, folder / "out", jobs)
        kinds = check(manifest, folder / "out")
        wrong = ", ".join(
            f"{kind}: {total - exact} of {total}"
            for kind, (exact, total) in kinds.items()
            if exact < total
        )
        exact = sum(num_exact for num_exact, _ in kinds.values())
        rate = hours / (taken["cpu"] / 3600)
        cells = (
            entrant,
            f"{rate:,.0f}",
            f"{taken['wall']:.1f}",
            f"{taken['memory'] / 1e6:,.0f}",
            f"{exact:,} of {clips:,}",
            wrong,
        )
        print(f"| {' | '.join(cells)} |", flush=True)
