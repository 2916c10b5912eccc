"""A program for tests: damages recordings and reads the results, in a separate process.

    python fuzzing.py SPECIMENS SCRATCH MUTATIONS SEED

The last line on standard output names the case at hand, so that a crash or a hang can be told and
done again. Each case may take a few seconds and the process 3 GB of addresses; AudioError is the
only way out of an unusable file.
"""

import resource
import signal
import sys
from pathlib import Path

import numpy as np
from audio_kinds import full_scale
from memory import most_mb

from nbaudio.audio import open_recording, probe, resample_window
from nbaudio.core.errors import AudioError

# A damaged header may turn a second into minutes of a codec that is decoded from its start for
# every window.
SECONDS_A_CASE = 60
ADDRESS_SPACE = 3 << 30
HEADER = 700
ANYWHERE = 1 << 30
WINDOWS = 12
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
    """The file with some of its first bytes changed, a field made extreme, a part removed, doubled
    or cut off."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, min(within, len(out))))
        match rng.integers(0, 6):
            case 0:
                out[at] = int(rng.integers(0, 256))
            case 1 | 2:
                size = int(rng.choice([2, 4, 8]))
                value = int(FIELDS[rng.integers(0, len(FIELDS))]) % (1 << 8 * size)
                out[at : at + size] = value.to_bytes(size, ("little", "big")[rng.integers(0, 2)])
            case 3:
                del out[at : at + int(rng.integers(1, 40))]
            case 4:
                out[at:at] = out[at : at + int(rng.integers(1, 40))]
            case 5:
                del out[int(rng.integers(1, len(out))) :]
    return bytes(out)


def read(path: Path, rng: np.random.Generator) -> str:
    """Probe a file, read all that it promises, compare windows with that, and cut a clip."""
    try:
        found = probe(path)
        with open_recording(path) as recording:
            whole = full_scale(recording.read(0, found.num_samples))
            assert len(whole) == found.num_samples, (
                f"{found} promises more than the {len(whole)} samples that decode"
            )
        with open_recording(path) as recording:
            for start in rng.integers(0, found.num_samples, WINDOWS).tolist():
                stop = min(start + int(rng.integers(1, 3000)), found.num_samples)
                window = full_scale(recording.read(start, stop))
                assert len(window) == stop - start
                with np.errstate(invalid="ignore"):
                    off = np.abs(window - whole[start:stop])
                assert not (off > (0.001 if found.codec in ("opus", "amrnb") else 0)).any(), (
                    f"{found}: window {start} to {stop}"
                )
            end = min(found.num_samples, found.sampling_rate)
            resample_window(recording, 0, end, num_samples=found.num_samples)
    except AudioError:
        return "refused"
    return "read"


def main(specimens: Path, scratch: Path, mutations: int, seed: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    files = sorted(path for path in specimens.iterdir() if path.is_file())
    count = {"read": 0, "refused": 0}
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
    print(f"done: {count['read']} read, {count['refused']} refused, {most_mb()} MB", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
