"""Measure what `recognize` of recordings costs beside the recognizer.

    python benchmarks/recordings.py [--hours 10] [--burned 0.5] [--speed 12] [--channels 1]
                                    [--jobs 2] [--folder DIR]

The recordings are made-up speech, FLAC at 48 kHz: tones that come and go, with noise.
    nothing     a function that returns no text, on one recording of `--hours`: the speed, CPU time,
                and the resident memory of all processes
    burn        a function that takes fixed CPU time for each second of audio, `--speed` times
                faster than real time, on one recording of `--burned` hours: the time of `recognize`
                against that of the function alone, which `--jobs` processes call with as much audio
Wanted: 400 times real time for nothing, below 600 MB for 10 hours; for burn, at most 5 % more.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import soundfile as sf

import nbaudio

RATE = 48000
CHUNK_S = 25

version = "1"


def nothing(clips):
    """A recognizer that hears nothing."""
    return [""] * len(clips)


def burn(clips, speed=None):
    """A recognizer that takes CPU time in proportion to the audio."""
    speed = speed or float(Path("speed").read_text())
    for clip in clips:
        end = time.process_time() + len(clip) / 16000 / speed
        while time.process_time() < end:
            pass
    return [""] * len(clips)


def main() -> None:
    """Make the recordings, run the functions, print the figures."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--hours", type=float, default=10)
    options.add_argument("--burned", type=float, default=0.5)
    options.add_argument("--speed", type=float, default=12)
    options.add_argument("--channels", type=int, default=1)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--folder", type=Path, help="a temporary folder unless given")
    options.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--alone", type=float, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.run:
        function, audio = asked.run
        sys.path.insert(0, str(Path(__file__).parent))
        nbaudio.recognize(
            audio,
            with_=f"recordings:{function}",
            out=f"{audio} {function}",
            jobs=asked.jobs,
            show_progress=False,
        )
        return
    if asked.alone:
        clips = [np.zeros(16000 * CHUNK_S, np.float32)]
        for _ in range(round(asked.alone / CHUNK_S)):
            burn(clips, asked.speed)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        if asked.hours:
            make_recording(folder / "long/day.flac", asked.hours, asked.channels)
            wall, cpu, memory = measured(["--run", "nothing", "long"], asked.jobs, folder)
            real_time = asked.hours * 3600 / wall
            print(f"nothing: {real_time:,.0f} x real time, {cpu:.1f} CPU s, {memory:.0f} MB")
        if not asked.burned:
            return
        make_recording(folder / "short/day.flac", asked.burned, asked.channels)
        (folder / "speed").write_text(str(asked.speed))
        seconds = asked.burned * 3600
        share = ["--alone", str(seconds / asked.jobs), "--speed", str(asked.speed)]
        alone = measured(share, asked.jobs, folder, copies=asked.jobs)
        burned = measured(["--run", "burn", "short"], asked.jobs, folder)
        for name, figures in (("alone", alone), ("recognize", burned)):
            print(f"{name}: {figures[0]:.1f} s, {figures[1]:.1f} CPU s")
        print(f"more: {burned[0] / alone[0] - 1:.1%} time, {burned[1] / alone[1] - 1:.1%} CPU time")


def make_recording(path: Path, hours: float, channels: int) -> None:
    """Write tones that come and go, with noise."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    minutes = [_minute(seed, channels) for seed in range(4)]
    with sf.SoundFile(path, "w", RATE, channels, "PCM_16", format="FLAC") as file:
        for number in range(round(hours * 60)):
            file.write(minutes[(7 * number + number // 5) % 4])


def _minute(seed: int, channels: int) -> np.ndarray:
    """A minute of sound, shape (samples, channels), int16."""
    chance = np.random.default_rng(seed)
    seconds = np.arange(60 * RATE) / RATE
    loudness = np.maximum(0, chance.uniform(-0.3, 0.6, 244))
    envelope = np.interp(seconds, np.arange(0, 61, 0.25), loudness)
    tones = sum(
        np.sin(2 * np.pi * (110 + 10 * seed) * harmonic * seconds) / harmonic
        for harmonic in (1, 2, 3, 5, 9, 14)
    )
    noise = 15 * chance.standard_normal((len(seconds), channels))
    return (6000 * (envelope * tones)[:, None] + noise).astype(np.int16)


def measured(
    words: list[str], jobs: int, folder: Path, copies: int = 1
) -> tuple[float, float, float]:
    """Seconds, CPU seconds and the most MB of this script with other arguments."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, str(Path(__file__).absolute()), "--jobs", str(jobs), *words]
    runs = [psutil.Popen(command, cwd=folder) for _ in range(copies)]
    ended = threading.Event()
    most = [0.0]
    watcher = threading.Thread(target=_watch, args=(runs, ended, most))
    watcher.start()
    codes = [run.wait() for run in runs]
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    ended.set()
    watcher.join()
    if any(codes):
        raise subprocess.CalledProcessError(max(codes), command)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, cpu, most[0] / 1e6


def _watch(runs: list[psutil.Popen], ended: threading.Event, most: list[float]) -> None:
    """Note the most resident memory of processes with their children."""
    while not ended.wait(0.2):
        try:
            family = [member for run in runs for member in (run, *run.children(recursive=True))]
            most[0] = max(most[0], sum(member.memory_info().rss for member in family))
        except psutil.Error:
            continue


if __name__ == "__main__":
    main()
