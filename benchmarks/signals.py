"""Measure what signals cost.

`measure` runs against cutting, `materialize --signals` against `materialize` without, and librosa
too, all in one run.

    python benchmarks/signals.py [--hours 3.5] [--recordings 12] [--formats wav,flac,mp3] [--jobs 2]
                                 [--rounds 3] [--folder DIR]

Recordings and segments are those of benchmarks/cut.py: 48 kHz stereo, segments of 4 to 20 s over
nine tenths of them. Contenders run one after the other in separate processes, in turns; times are
the least of all rounds, as other programs run beside.
    cut         `materialize`: decode, mix, resample, FLAC, pack, publish
    measure     `measure` alone: decode and all signals
    both        `materialize --signals`
    decode      every window read by soundfile, and nothing else: the least that a measure does
    librosa     a window read by soundfile; frame RMS, split of speech, spectral roll-off and STFT
                of librosa at the recording's own rate; peak, DC, runs at the rail, silence and
                correlation by NumPy; by one process, on a tenth of the segments, scaled up and
                divided by the jobs. Left out if librosa is not installed.
Wanted: measure at most 0.6 of cut, both at most 1.25 of cut, librosa at least 5 times measure.
"""

import argparse
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cut
import numpy as np
import soundfile as sf

import nbaudio

CONTENDERS = ("cut", "measure", "both", "decode", "librosa")
SHARE = 10


def main() -> None:
    """Make the recordings, run the contenders in turns, print a table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--hours", type=float, default=3.5)
    options.add_argument("--recordings", type=int, default=12)
    options.add_argument("--formats", default="wav,flac,mp3")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--folder", type=Path, help="where to work; a temporary folder unless given"
    )
    options.add_argument("--contender", nargs=3, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.contender:
        name, workspace, out = asked.contender
        run(name, Path(workspace), Path(out), asked.jobs)
        return
    names = [
        name for name in CONTENDERS if name != "librosa" or importlib.util.find_spec("librosa")
    ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        speech = cut.demo_speech()
        rows: list[dict[str, object]] = []
        for kind in asked.formats.split(","):
            workspace = cut.make_workspace(
                folder / kind, speech, kind, hours=asked.hours, recordings=asked.recordings
            )
            least = {name: (float("inf"), float("inf")) for name in names}
            for _ in range(asked.rounds):
                for name in names:
                    wall_and_cpu = seconds(name, workspace, folder / "out", asked.jobs)
                    least[name] = (
                        min(least[name][0], wall_and_cpu[0]),
                        min(least[name][1], wall_and_cpu[1]),
                    )
            if "librosa" in names:  # by one process
                least["librosa"] = (
                    least["librosa"][0] * SHARE / asked.jobs,
                    least["librosa"][1] * SHARE,
                )
            for name, pair in least.items():
                row: dict[str, object] = {"format": kind, "contender": name}
                for place, label in enumerate(("s", "CPU s")):
                    row |= {
                        label: pair[place],
                        f"{label} of cut": pair[place] / least["cut"][place],
                    }
                    row |= {f"{label} of measure": pair[place] / least["measure"][place]}
                rows.append(row)
        print(cut.table(rows))


def seconds(name: str, workspace: Path, out: Path, jobs: int) -> tuple[float, float]:
    """How long one contender takes from nothing, and CPU time with all its processes."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(workspace / "packs", ignore_errors=True)
    (workspace / "signals.parquet").unlink(missing_ok=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
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
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(name: str, workspace: Path, out: Path, jobs: int) -> None:
    """One contender."""
    if name == "librosa":
        by_librosa(workspace)
    elif name == "decode":
        cut.bare_decode(workspace, out, jobs)
    elif name == "measure":
        nbaudio.measure(workspace, jobs=jobs, show_progress=False)
    else:
        nbaudio.materialize(
            workspace, out=out, jobs=jobs, signals=name == "both", show_progress=False
        )


def by_librosa(workspace: Path) -> None:
    """The same measures as users of librosa write them."""
    import librosa

    for path, windows in cut.windows(workspace):
        for _, start, stop in windows[::SHARE]:
            channels, rate = sf.read(path, start=start, stop=stop, dtype="float32", always_2d=True)
            x = librosa.to_mono(channels.T)
            dc = x.mean()
            y = x - dc
            rms = librosa.feature.rms(y=y, frame_length=rate // 50, hop_length=rate // 100)[0]
            level = librosa.amplitude_to_db(rms, ref=1.0)
            floor = np.percentile(level, 10)
            snr = level[level > level.max() - 30].mean() - floor
            spectrum = np.abs(librosa.stft(y, n_fft=2048, hop_length=rate // 100))
            bandwidth = librosa.feature.spectral_rolloff(
                S=spectrum, sr=rate, roll_percent=0.99
            ).mean()
            speech = librosa.effects.split(
                y, top_db=35, frame_length=rate // 50, hop_length=rate // 100
            )
            share = sum(end - begin for begin, end in speech) / len(y)
            equal = np.diff(x) == 0
            clipped = (equal & ((x[1:] >= x.max()) | (x[1:] <= x.min()))).mean()
            correlation = np.corrcoef(channels.T)[0, 1]
            _ = (dc, snr, bandwidth, share, clipped, correlation, equal.mean(), np.abs(y).max())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
