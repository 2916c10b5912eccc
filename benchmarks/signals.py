"""What signals cost: `measure` against cutting, `materialize --signals` against without, and librosa, all in one run.

    python benchmarks/signals.py [--hours 3.5] [--recordings 12] [--formats wav,flac,mp3] [--jobs 2] [--rounds 3] [--folder DIR]

Recordings and segments are those of benchmarks/cut.py: 48 kHz stereo, segments of 4 to 20 s over nine tenths of them. Contenders
run one after the other in separate processes, in turns; CPU times are the least of all rounds, as other programs run beside.
    cut         `materialize`: decode, mix, resample, FLAC, pack, publish
    measure     `measure` alone: decode and all signals
    both        `materialize --signals`
    librosa     a window read by soundfile; frame RMS, split of speech, spectral roll-off and STFT of librosa at the recording's
                own rate; peak, DC, runs at the rail, silence and correlation by NumPy; by one process, on a tenth of the
                segments, scaled up. Left out if librosa is not installed.
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
from pathlib import Path

import cut
import numpy as np
import soundfile as sf

import nbaudio

CONTENDERS = ("cut", "measure", "both", "librosa")
SHARE = 10


def main() -> None:
    """Make the recordings, run the contenders in turns, print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hours", type=float, default=3.5)
    options.add_argument("--recordings", type=int, default=12)
    options.add_argument("--formats", default="wav,flac,mp3")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--folder", type=Path, help="where to work; a temporary folder unless given")
    options.add_argument("--contender", nargs=3, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.contender:
        name, workspace, out = asked.contender
        run(name, Path(workspace), Path(out), asked.jobs)
        return
    names = [name for name in CONTENDERS if name != "librosa" or importlib.util.find_spec("librosa")]
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        speech = cut.demo_speech()
        rows: list[dict[str, object]] = []
        for kind in asked.formats.split(","):
            workspace = cut.make_workspace(folder / kind, speech, kind, hours=asked.hours, recordings=asked.recordings)
            least = dict.fromkeys(names, float("inf"))
            for _ in range(asked.rounds):
                for name in names:
                    least[name] = min(least[name], cpu_seconds(name, workspace, folder / "out", asked.jobs))
            scaled = {name: seconds * (SHARE if name == "librosa" else 1) for name, seconds in least.items()}
            rows += [
                {"format": kind, "contender": name, "CPU s": seconds, "of cut": seconds / scaled["cut"]}
                | {"of measure": seconds / scaled["measure"]}
                for name, seconds in scaled.items()
            ]
        print(cut.table(rows))


def cpu_seconds(name: str, workspace: Path, out: Path, jobs: int) -> float:
    """CPU time of one contender from nothing, with all its processes."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(workspace / "packs", ignore_errors=True)
    (workspace / "signals.parquet").unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, "--jobs", str(jobs), "--contender", name, str(workspace), str(out)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(name: str, workspace: Path, out: Path, jobs: int) -> None:
    """One contender."""
    if name == "librosa":
        by_librosa(workspace)
    elif name == "measure":
        nbaudio.measure(workspace, jobs=jobs, show_progress=False)
    else:
        nbaudio.materialize(workspace, out=out, jobs=jobs, signals=name == "both", show_progress=False)


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
            bandwidth = librosa.feature.spectral_rolloff(S=spectrum, sr=rate, roll_percent=0.99).mean()
            speech = librosa.effects.split(y, top_db=35, frame_length=rate // 50, hop_length=rate // 100)
            share = sum(end - begin for begin, end in speech) / len(y)
            equal = np.diff(x) == 0
            clipped = (equal & ((x[1:] >= x.max()) | (x[1:] <= x.min()))).mean()
            correlation = np.corrcoef(channels.T)[0, 1]
            _ = (dc, snr, bandwidth, share, clipped, correlation, equal.mean(), np.abs(y).max())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
