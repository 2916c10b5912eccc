"""The leakage check of the splits over as many segments as ParlaSpeech has."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl

SEGMENTS, PLANTED = 447_542, 200
BOUND_MB = 1000
RUN = """
import json, sys
from pathlib import Path
import polars as pl
from nbaudio.selection.leakage import leakage_record
found = leakage_record(pl.scan_parquet(sys.argv[1]))
# Not ru_maxrss, which begins with what the parent held.
status = Path("/proc/self/status").read_text().splitlines()
most = next(line for line in status if line.startswith("VmHWM"))
used = {"MB": int(most.split()[1]) / 1000}
print(json.dumps({check: [one["shared"], one["segments"]] for check, one in found.items()} | used))
"""


def test_planted_leakage_is_found_among_half_a_million_segments(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # Words as frequent as in speech, so that phrases recur; about 200 characters a sentence.
    lexicon = np.array(
        [
            "".join(rng.choice(list("aeioubcdgklmnprstvz"), rng.integers(2, 10)))
            for _ in range(20_000)
        ]
    )
    frequency = 1 / (np.arange(len(lexicon)) + 2.7)
    drawn = rng.choice(len(lexicon), SEGMENTS * 30, p=frequency / frequency.sum())
    said = [" ".join(words) for words in lexicon[drawn].reshape(SEGMENTS, 30).tolist()]
    split = np.where(
        np.arange(SEGMENTS) % 224 == 0,
        "dev",
        np.where(np.arange(SEGMENTS) % 224 == 1, "test", "train"),
    )
    held = np.flatnonzero(split != "train")[: 3 * PLANTED]
    train = np.flatnonzero(split == "train")[: 3 * PLANTED]
    for number, (here, there) in enumerate(zip(held, train, strict=True)):
        said[there] = (
            said[here]
            if number % 3 == 0
            else _changed(said[here], rng)
            if number % 3 == 1
            else said[there]
        )
    audio = [f"{number}" for number in range(SEGMENTS)]
    audio[int(train[0])] = audio[int(held[0])]
    table = pl.DataFrame(
        {
            "segment_id": [f"s{n}" for n in range(SEGMENTS)],
            "text": said,
            "split": split,
            "audio_sha256": audio,
        }
    )
    groups = {
        "speaker_id": pl.format("{} {}", "split", pl.int_range(pl.len()) % 300),
        "recording_id": "segment_id",
    }
    table.with_columns(**groups).write_parquet(tmp_path / "s.parquet", row_group_size=16_384)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "s.parquet")],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found.pop("MB") < BOUND_MB
    assert found == {
        "speaker_id": [0, 0],
        "recording_id": [0, 0],
        "identical sentence": [PLANTED, PLANTED],
        "near-identical sentence": [PLANTED, PLANTED],
        "identical audio": [1, 1],
    }


def _changed(text: str, rng: np.random.Generator) -> str:
    """With one character in twelve another one."""
    letters = list(text)
    for at in rng.choice(len(letters), len(letters) // 12, replace=False):
        letters[at] = "x"
    return "".join(letters)
