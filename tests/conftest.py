"""Small, real audio for tests: made with the package's requirements, not with programs of the
machine."""

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

# Each of many processes would compile the package anew
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

# As many workers as cores: further threads wait for each other
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # for calls that leave the number of jobs open

import av
import numpy as np
import polars as pl
import pytest
import soundfile as sf

from nbaudio.audio import probe
from nbaudio.corpus.packs import indexes
from nbaudio.reading import open_corpus
from nbaudio.storage.location import Location
from nbaudio.tables.workspace import Workspace

# Tests do not simulate a power loss, so they need not wait for the disk.
os.fsync = lambda _descriptor: None


def pytest_collection() -> None:
    """Disable the garbage collector: objects of modules and collected tests stay until the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt what collection has made from garbage collection, and enable it again."""
    gc.freeze()
    gc.enable()


WriteAudio = Callable[[Path, np.ndarray, int], None]


def sweeps(seconds: float, rate: int, *, channels: int = 2, seed: int = 0) -> np.ndarray:
    """Something like speech for a codec: gliding tones under a changing loudness, and noise; shape
    (samples, channels)."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    parts = []
    for channel in range(channels):
        tone = np.sin(
            2 * np.pi * (200 + 40 * channel) * t + 30 * np.sin(2 * np.pi * 0.7 * t + seed)
        )
        tone += 0.4 * np.sin(2 * np.pi * (900 + 100 * seed) * t + 60 * np.sin(2 * np.pi * 0.3 * t))
        loud = 0.25 * (1.1 + np.sin(2 * np.pi * 1.3 * t + channel))
        parts.append(loud * tone + 0.01 * rng.normal(size=len(t)))
    return np.stack(parts, axis=1).clip(-0.99, 0.99).astype(np.float32)


def packed_clips(packs: Path | Location) -> pl.DataFrame:
    """All clips in a folder of packs, each once."""
    return pl.concat(indexes(packs)).unique("clip_key", keep="first", maintain_order=True)


def encoded(corpus: Path | str, segment_ids: Iterable[str]) -> list[bytes]:
    """The bytes of clips, read back out of a corpus."""
    return [
        clip.encoded for clip in open_corpus(corpus).read_many(list(segment_ids), give="encoded")
    ]


def write_with_av(path: Path, samples: np.ndarray, rate: int, codec: str) -> None:
    """Encode with FFmpeg's libraries, as PyAV brings them."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(
            codec, rate=rate, layout="stereo" if samples.shape[1] == 2 else "mono"
        )
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(samples.T), format="fltp", layout=stream.layout.name
        )
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def write_audio(path: Path, samples: np.ndarray, rate: int) -> None:
    """Write samples in the format of the extension."""
    match path.suffix.lower():
        case ".m4a":
            write_with_av(path, samples, rate, "aac")
        case ".opus":
            write_with_av(path, samples, rate, "libopus")
        case _:
            sf.write(path, samples, rate)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A recording of `sweeps`, over and over, made once a session; copy it before changing it."""
    folder = tmp_path_factory.mktemp("recorded")

    def path(suffix: str, seconds: float, rate: int, *, channels: int = 2, seed: int = 0) -> Path:
        made = folder / f"{seconds}_{rate}_{channels}_{seed}{suffix}"
        if not made.exists():
            some = sweeps(min(seconds, 20.0), rate, channels=channels, seed=seed)
            write_audio(made, np.resize(some, (int(seconds * rate), channels)), rate)
        return made

    return path


@pytest.fixture
def nothing_left_open() -> Iterator[None]:
    """What another library leaves open is closed while the test allows it; later, anywhere, it
    would be an error."""
    yield
    gc.collect()


def build_workspace(
    folder: Path,
    recorded: Callable[..., Path],
    recordings: dict[str, tuple[float, int]],
    *,
    every: float = 3.0,
    length: float = 2.37,
    channels: int = 2,
    name: str = "w",
) -> Workspace:
    """Make the workspace of `make_workspace` in a folder."""
    audio = folder / f"audio of {name}"
    audio.mkdir()
    facts, segments = [], []
    for number, (file, (seconds, rate)) in enumerate(recordings.items()):
        path = audio / file
        shutil.copy(recorded(path.suffix, seconds, rate, channels=channels, seed=number), path)
        found, status = probe(path), path.stat()
        key = path.stem
        facts.append(
            {
                "recording_id": key,
                "path": file,
                "sampling_rate": found.sampling_rate,
                "num_channels": found.num_channels,
                "num_samples": found.num_samples,
                "codec": found.codec,
                "num_bytes": status.st_size,
                "mtime_ns": status.st_mtime_ns,
            }
        )
        for i in range(int((seconds - length) / every) + 1):
            start, end = round(i * every, 2), round(i * every + length, 2)
            segments.append(
                {
                    "segment_id": f"{key}_{start}-{end}",
                    "recording_id": key,
                    "start_sample": round(start * rate),
                    "end_sample": round(end * rate),
                    "source_start": str(start),
                    "source_end": str(end),
                    "text": f"rečenica {i} iz {key}",
                    "asr_text": f"rečenica {i} iz {key}",
                    "speaker_id": f"spk{i % 3}",
                    "similarity": 1.0,
                    "split": "test" if i % 7 == 6 else "dev" if i % 5 == 4 else "train",
                    "decision": "accept",
                }
            )
    workspace = Workspace.create(folder / name, source="made", audio=str(audio))
    workspace.save(recordings=pl.DataFrame(facts), segments=pl.DataFrame(segments))
    return workspace


@pytest.fixture
def make_workspace(tmp_path: Path, recorded: Callable[..., Path]) -> Callable[..., Workspace]:
    """A workspace over real recordings: `make_workspace({"a.wav": (seconds, rate)}, every=3.0)`,
    all segments accepted.

    Segments of `length` seconds begin every `every` seconds; every fifth goes to dev, every seventh
    to test.
    """
    return partial(build_workspace, tmp_path, recorded)
