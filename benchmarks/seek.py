"""Read windows out of hours-long recordings, against decoding them whole.

How long does a window take, and is it the same?

    python benchmarks/seek.py [--hours 2] [--work DIR] [--only TEXT]

Recordings are a minute of gliding tones over and over: encoded once, its packets repeated. Windows
of 10 s are asked for out of order; a window's time includes its run-up, the first one's the index
where there is one. torchcodec, where it is installed, reads the same windows near the end with one
open decoder.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import av
import numpy as np
import soundfile as sf

from nbaudio.audio import Recording, open_recording, probe
from nbaudio.audio.ffmpeg import AvRecording

RATE = 48000
MINUTE = 60
WINDOW_S = 10
WINDOWS = 12

# name, suffix, codec as FFmpeg names it (None: libsndfile writes it), options of the codec
KINDS = (
    ("WAV, PCM 16", ".wav", None, "PCM_16"),
    ("FLAC", ".flac", None, "PCM_16"),
    ("MP3, constant rate", ".mp3", "libmp3lame", "128k"),
    ("Vorbis in Ogg", ".ogg", "vorbis", None),
    ("Vorbis in WebM", ".webm", "vorbis", None),
    ("Opus in Ogg", ".opus", "libopus", "64k"),
    ("Opus in WebM", ".webm", "libopus", "64k"),
    ("AAC in MP4", ".m4a", "aac", "128k"),
    ("AAC in Matroska", ".mka", "aac", "128k"),
    ("AAC, bare (ADTS)", ".aac", "aac", "128k"),
)


def tones(seconds: int) -> np.ndarray:
    """Gliding tones and noise, one channel, float32."""
    t = np.arange(seconds * RATE) / RATE
    tone = np.sin(2 * np.pi * 200 * t + 30 * np.sin(2 * np.pi * 0.7 * t)) * (
        1.1 + np.sin(2 * np.pi * 1.3 * t)
    )
    return (0.25 * tone + 0.01 * np.random.default_rng(0).normal(size=len(t))).astype(np.float32)


def make(path: Path, codec: str | None, option: str | None, hours: float) -> None:
    """Write a long recording."""
    minutes, minute = round(hours * 60), tones(MINUTE)
    if codec is None:
        with sf.SoundFile(path, "w", RATE, 1, subtype=option) as file:
            for _ in range(minutes):
                file.write(minute)
        return
    # Matroska's own milliseconds would add up to a clock that goes wrong.
    short = path.with_name(
        f"short{'.ogg' if codec == 'vorbis' else {'.mka': '.m4a'}.get(path.suffix, path.suffix)}"
    )
    if codec == "vorbis":  # its packets lean on one another, so all of it is encoded
        with sf.SoundFile(short, "w", RATE, 1, format="OGG", subtype="VORBIS") as file:
            for _ in range(minutes):
                # libsndfile crashes when it gets a minute at once.
                for second in np.split(minute, MINUTE):
                    file.write(second)
    else:
        encode(short, minute, codec, option)
    with av.open(str(short)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.audio[0])
        # The last packets may be shorter than the others.
        packets = [
            (packet, bytes(packet)) for packet in source.demux(audio=0) if packet.dts is not None
        ]
        packets = packets if codec == "vorbis" else packets[:-3]
        length = packets[-1][0].pts - packets[1][0].pts + 2 * packets[1][0].duration
        for number in range(1 if codec == "vorbis" else minutes):
            for packet, content in packets:
                again = av.Packet(content)
                again.pts = again.dts = packet.pts + number * length
                again.duration, again.time_base, again.stream = (
                    packet.duration,
                    packet.time_base,
                    stream,
                )
                again.is_keyframe = True
                target.mux(again)
    short.unlink()


def encode(path: Path, samples: np.ndarray, codec: str, option: str | None) -> None:
    """Encode one channel."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream(
            codec, rate=RATE, layout="mono", options={"b": option} if option else {}
        )
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, 0, Fraction(1, RATE)
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))


def whole(recording: Recording, path: Path) -> Iterator[tuple[int, np.ndarray]]:
    """Yield a recording decoded from its first sample to its last, block by block.

    A block is a position and samples.
    """
    if isinstance(recording, AvRecording):
        yield from ((position, samples[0]) for position, samples in recording._decode_from(0))
        return
    # In one call: python-soundfile seeks after each, and that is what is measured.
    with sf.SoundFile(path) as file:
        yield 0, file.read(dtype="int16" if file.subtype == "PCM_16" else "float32")


def measure(path: Path) -> tuple[float, float, float, float, float, float]:
    """Measure the windows of a recording.

    Return the seconds to probe, for the first window, for one at the start, for one near the end
    and for all, and the largest difference.
    """
    began = time.perf_counter()
    length = probe(path).num_samples
    probed = time.perf_counter() - began
    rng = np.random.default_rng(1)
    starts = rng.integers(0, 600 * RATE - WINDOW_S * RATE, WINDOWS).tolist()
    ends = rng.integers(length - 600 * RATE, length - WINDOW_S * RATE, WINDOWS).tolist()
    times: dict[int, float] = {}
    windows: dict[int, np.ndarray] = {}
    with open_recording(path) as recording:
        for start in (ends[0], *starts, *ends[1:]):
            began = time.perf_counter()
            windows[start] = recording.read(start, start + WINDOW_S * RATE)[:, 0]
            times[start] = time.perf_counter() - began
    largest = 0.0
    began = time.perf_counter()
    compared = 0.0
    with open_recording(path) as recording:
        for position, samples in whole(recording, path):
            paused = time.perf_counter()
            for start, window in windows.items():
                first, last = (
                    max(start, position),
                    min(start + len(window), position + len(samples)),
                )
                if first < last:
                    theirs = samples[first - position : last - position].astype(np.float64)
                    scale = 32768 if samples.dtype == np.int16 else 1
                    largest = max(
                        largest,
                        float(np.abs(window[first - start : last - start] - theirs).max()) / scale,
                    )
            compared += time.perf_counter() - paused
    decoded = time.perf_counter() - began - compared
    at_start, at_end = (
        float(np.median([times[start] for start in group])) for group in (starts, ends[1:])
    )
    return probed, times[ends[0]], at_start, at_end, decoded, largest


def torchcodec_near_the_end(path: Path) -> str:
    """Time of a window by torchcodec, and its largest difference from ours; why there is none."""
    if not find_spec("torchcodec"):
        return "not installed"
    from torchcodec.decoders import AudioDecoder

    length = probe(path).num_samples
    starts = (
        np.random.default_rng(1)
        .integers(length - 600 * RATE, length - WINDOW_S * RATE, WINDOWS)
        .tolist()
    )
    times, largest = [], 0.0
    try:
        decoder = AudioDecoder(str(path))
        for start in starts:
            began = time.perf_counter()
            samples = (
                decoder.get_samples_played_in_range(start / RATE, (start + WINDOW_S * RATE) / RATE)
                .data[0]
                .numpy()
            )
            times.append(time.perf_counter() - began)
            with open_recording(path) as recording:
                window = recording.read(start, start + WINDOW_S * RATE)[:, 0]
            scale = 32768 if window.dtype == np.int16 else 1
            shared = min(len(samples), len(window))
            largest = max(
                largest,
                float(np.abs(window[:shared] / scale - samples[:shared]).max()),
                float(len(samples) != len(window)),
            )
    except (RuntimeError, ValueError) as error:
        return f"fails: {str(error).splitlines()[0][:60]}"
    return f"{1000 * float(np.median(times)):.0f} ms, {largest:.2g}"


def main() -> None:
    """Make, measure, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", default="", help="kinds whose names hold this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        print(
            (
                f"| {options.hours:g} h of | look at it | first window | at the start | near "
                "the end | all of it | difference |"
            ),
            end="",
        )
        print(" torchcodec near the end, difference |\n|---|---|---|---|---|---|---|---|")
        for name, suffix, codec, option in KINDS:
            if options.only not in name:
                continue
            path = Path(folder) / f"long{suffix}"
            make(path, codec, option, options.hours)
            probed, first, at_start, at_end, decoded, largest = measure(path)
            shown = (f"{1000 * seconds:.0f} ms" for seconds in (probed, first, at_start, at_end))
            print(
                (
                    f"| {name} | {' | '.join(shown)} | {decoded:.1f} s | {largest:.2g} | "
                    f"{torchcodec_near_the_end(path)} |"
                ),
                flush=True,
            )
            path.unlink()


if __name__ == "__main__":
    main()
