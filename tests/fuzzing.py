"""A program for tests: damages recordings and reads the results, in a separate process.

    python fuzzing.py SPECIMENS SCRATCH MUTATIONS SEED

The last line on standard output names the case at hand, so that a crash or a hang can be told and
done again. Each case may take a few seconds and the process 3 GB of addresses; AudioError is the
only way out of an unusable file.
"""

import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
from audio_kinds import full_scale
from memory import most_mb

from nbaudio.audio import open_recording, probe, resample_window
from nbaudio.audio.recording_reader import Recording
from nbaudio.core.errors import AudioError

# A damaged header may turn a second into minutes of a codec that is decoded from its start for
# every window.
SECONDS_A_CASE = 60
ADDRESS_SPACE = 3 << 30
HEADER = 700
ANYWHERE = 1 << 30
END = 3000
WINDOWS = 12
TOLERANCE = {"opus": 0.001, "amrnb": 0.001}
NAMES = (b"data", b"fmt ", b"RIFF", b"fact", b"SSND", b"desc", b"moov", b"fLaC", b"OggS", b"\0" * 4)
FIELDS = [
    0,
    1,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0x7FFFFFFFFFFFFFFF,
    0xFFFFFFFFFFFFFFFF,
]


def mutated(data: bytes, rng: np.random.Generator, within: int) -> bytes:
    """The file with one to three changes that begin in its first bytes, or anywhere; every third
    change anywhere is near the end."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, min(within, len(out))))
        if within == ANYWHERE and not rng.integers(0, 3):
            at = int(rng.integers(max(0, len(out) - END), len(out)))
        change = CHANGES[rng.integers(0, len(CHANGES))]
        change(out, at, rng)
        if not out:
            break
    return bytes(out)


def another_byte(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Replace one byte by a random one."""
    out[at] = int(rng.integers(0, 256))


def flipped_bits(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Flip a bit of every seventh byte in a stretch."""
    for place in range(at, min(at + int(rng.integers(1, 200)), len(out)), 7):
        out[place] ^= 1 << int(rng.integers(0, 8))


def extreme_field(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Replace a number of 2, 4 or 8 bytes by an extreme value, in either byte order."""
    size = int(rng.choice([2, 4, 8]))
    value = int(FIELDS[rng.integers(0, len(FIELDS))]) % (1 << 8 * size)
    out[at : at + size] = value.to_bytes(size, ("little", "big")[rng.integers(0, 2)])


def another_name(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Replace a name of four bytes, such as that of a chunk, by another one."""
    at -= at % 4
    out[at : at + 4] = NAMES[rng.integers(0, len(NAMES))]


def removed(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Remove a stretch of bytes."""
    del out[at : at + int(rng.choice([1, 2, 40, 500]))]


def doubled(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Repeat a stretch of bytes."""
    out[at:at] = out[at : at + int(rng.choice([1, 40, 4096]))]


def inserted(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Insert random bytes."""
    out[at:at] = rng.bytes(int(rng.choice([1, 7, 3000])))


def zeroed(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Set a stretch of bytes to zero."""
    stop = min(len(out), at + int(rng.choice([16, 1000, 10_000])))
    out[at:stop] = bytes(stop - at)


def swapped(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Two blocks change places."""
    size = int(rng.choice([64, 512, 4096]))
    other = int(rng.integers(0, len(out)))
    first = min(at, other)
    second = max(at, other)
    if first + size <= second and second + size <= len(out):
        blocks = out[first : first + size], out[second : second + size]
        out[second : second + size], out[first : first + size] = blocks


def cut_off(out: bytearray, at: int, rng: np.random.Generator) -> None:
    """Remove all bytes from a place on."""
    del out[max(1, at) :]


CHANGES = (
    another_byte,
    flipped_bits,
    extreme_field,
    another_name,
    removed,
    doubled,
    inserted,
    zeroed,
    swapped,
    cut_off,
)


def read(path: Path, rng: np.random.Generator) -> str:
    """Probe a file, read all that it promises, compare windows with that, and cut a clip."""
    try:
        facts = probe(path)
    except AudioError as error:
        if "\n" in str(error):
            raise
        return "refused"
    length = facts.num_samples
    whole = window_of(path, 0, length)
    if whole is not None:
        assert len(whole) == length, (
            f"{facts} promises more than the {len(whole)} samples that decode"
        )
    with open_recording(path) as recording:
        for number, (start, stop) in enumerate(spans(length, rng)):
            window = window_of(path, start, stop, recording if number % 3 else None)
            case = f"{facts}: window {start} to {stop}"
            if window is None:
                assert whole is None, f"{case} cannot be read, the whole can"
                continue
            assert len(window) == stop - start, f"{case} has {len(window)} samples"
            if whole is not None:
                with np.errstate(invalid="ignore"):
                    off = np.abs(window - whole[start:stop])
                assert not (off > TOLERANCE.get(facts.codec, 0)).any(), case
        end = min(length, facts.sampling_rate)
        with suppress(AudioError):
            resample_window(recording, 0, end, num_samples=length)
    return "read" if whole is not None else "read in parts"


def spans(length: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Windows in random order; every third one is near the end."""
    windows = [(max(0, length - 1), length)]
    for number in range(WINDOWS):
        first = 0 if number % 3 else max(0, length - 3000)
        start = int(rng.integers(first, length))
        windows.append((start, min(length, start + int(rng.integers(1, 3000)))))
    return windows


def window_of(
    path: Path, start: int, stop: int, recording: Recording | None = None
) -> np.ndarray | None:
    """A window of an open recording, or of one opened for it; None where it cannot be decoded."""
    try:
        if recording is not None:
            return full_scale(recording.read(start, stop))
        with open_recording(path) as opened:
            return full_scale(opened.read(start, stop))
    except AudioError:
        return None


def main(specimens: Path, scratch: Path, mutations: int, seed: int) -> None:
    """Read damaged copies of the specimens; print each case and, at the end, the counts."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    files = sorted(path for path in specimens.iterdir() if path.is_file())
    count = {"read": 0, "read in parts": 0, "refused": 0}
    for case in range(mutations):
        source = files[case % len(files)]
        rng = np.random.default_rng([seed, case])
        # Half of the files are damaged in their headers, half anywhere.
        data = mutated(source.read_bytes(), rng, HEADER if case // len(files) % 2 else ANYWHERE)
        path = scratch / f"case{source.suffix}"
        path.write_bytes(data)
        print(f"case {case} of seed {seed}: {source.name}", flush=True)
        signal.alarm(SECONDS_A_CASE)
        count[read(path, rng)] += 1
        signal.alarm(0)
    print(
        f"done: {count['read']} read, {count['read in parts']} read in parts, "
        f"{count['refused']} refused, {most_mb()} MB",
        flush=True,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
