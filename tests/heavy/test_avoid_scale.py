"""`select --avoid` with many segments and sentences: what is planted is found in bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "avoid.py"
BOUND_MB = 600


def test_planted_sentences_are_left_out_among_many() -> None:
    sizes = ["--segments", "30000", "--sentences", "100000", "--planted", "150"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *sizes], capture_output=True, text=True, check=True
    )
    measured = json.loads(done.stdout)
    assert measured["left_out"] == 150
    assert measured["megabytes"] < BOUND_MB
