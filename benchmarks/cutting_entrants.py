"""Reference entrants of the cutting benchmark.

Call it as ``python cutting_entrants.py NAME MANIFEST OUT JOBS``; see `cutting`.

nbaudio      what `materialize` does with a window
soundfile    seek, read, mean of the channels, FLAC; soxr where another rate is asked for, which is
             nowhere here
ffmpeg       one process per segment
torchaudio   load with offset and length
lhotse       a cut of a recording
"""

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile as sf

Line = dict[str, Any]


def with_nbaudio(line: Line, out: Path) -> None:
    """Windows in order of time, as `materialize` cuts them."""
    from nbaudio.audio import encode_clip, open_recording, probe, resample_window

    windows = sorted(line["windows"], key=lambda window: window["start"])
    total = probe(Path(line["path"])).num_samples
    with open_recording(Path(line["path"]), windows=len(windows)) as recording:
        for window in windows:
            bounds = (window["start"], window["stop"])
            clip = resample_window(recording, *bounds, num_samples=total, rate=None, channel="mix")
            (out / f"{window['id']}.flac").write_bytes(
                encode_clip(clip, line["sampling_rate"], "flac")
            )


def with_soundfile(line: Line, out: Path) -> None:
    """The fastest loop that is written in an afternoon."""
    with sf.SoundFile(line["path"]) as file:
        for window in line["windows"]:
            file.seek(window["start"])
            read = file.read(window["stop"] - window["start"], dtype="float32", always_2d=True)
            sf.write(out / f"{window['id']}.flac", read.mean(axis=1), file.samplerate)


def with_ffmpeg(line: Line, out: Path) -> None:
    """Seek by seconds."""
    rate = line["sampling_rate"]
    for window in line["windows"]:
        place = [
            "-ss",
            f"{window['start'] / rate:.6f}",
            "-t",
            f"{(window['stop'] - window['start']) / rate:.6f}",
        ]
        mixed = ["-ac", "1", "-sample_fmt", "s16", str(out / f"{window['id']}.flac")]
        subprocess.run(
            ["ffmpeg", "-v", "error", "-threads", "1", *place, "-i", line["path"], *mixed],
            check=True,
        )


def with_torchaudio(line: Line, out: Path) -> None:
    """Offset and length in samples."""
    import torch
    import torchaudio

    torch.set_num_threads(1)
    for window in line["windows"]:
        samples, rate = torchaudio.load(
            line["path"], frame_offset=window["start"], num_frames=window["stop"] - window["start"]
        )
        sf.write(out / f"{window['id']}.flac", samples.mean(dim=0).numpy(), rate)


def with_lhotse(line: Line, out: Path) -> None:
    """A truncated cut."""
    from lhotse import Recording

    recording = Recording.from_file(line["path"])
    for window in line["windows"]:
        seconds = (window["stop"] - window["start"]) / line["sampling_rate"]
        samples = recording.load_audio(
            offset=window["start"] / line["sampling_rate"], duration=seconds
        )
        sf.write(out / f"{window['id']}.flac", np.mean(samples, axis=0), line["sampling_rate"])


CUT: dict[str, Callable[[Line, Path], None]] = {
    "nbaudio": with_nbaudio,
    "soundfile": with_soundfile,
    "ffmpeg": with_ffmpeg,
    "torchaudio": with_torchaudio,
    "lhotse": with_lhotse,
}


def main(name: str, manifest: str, out: str, jobs: str) -> None:
    """Cut each recording in one of `jobs` processes.

    A format that a library does not have is left out.
    """
    lines = [json.loads(line) for line in Path(manifest).read_text().splitlines()]
    with multiprocessing.get_context("fork").Pool(int(jobs)) as pool:
        for failed in pool.starmap(
            _cut_line, [(name, line, Path(out)) for line in lines], chunksize=1
        ):
            if failed:
                print(f"{name}: {failed}", file=sys.stderr)


def _cut_line(name: str, line: Line, out: Path) -> str:
    try:
        CUT[name](line, out)
    except (OSError, RuntimeError, ValueError, subprocess.CalledProcessError) as error:
        return f"{line['kind']}: {error}"
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
