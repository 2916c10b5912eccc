"""A tree of many small files: the benchmark runs, in bounded memory."""

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks/librispeech.py"


def test_many_small_files_are_ingested_in_bounded_memory(tmp_path):
    command = [sys.executable, str(BENCHMARK), "--files", "8000", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ingest of a folder" in done.stdout
