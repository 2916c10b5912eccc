"""Bombs of full size: one error each, and no more memory than the limits allow; a separate process
for each."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import soundfile as sf
from hostile import BOMBS, REFUSED, table_span

# What they would grow to, and what may be taken for them, with Python and all libraries in it.
SIZE = 1 << 30
MOST_MB = 600

INGEST = """
import json, sys
import nbaudio
from memory import most_mb
from nbaudio.core.errors import InputError

format, source, out, options = sys.argv[1:]
try:
    error = None
    problems = nbaudio.ingest(format, source, out=out, jobs=2, options=json.loads(options)).problems
except InputError as raised:
    error, problems = str(raised), []
print(json.dumps({"error": error, "problems": problems, "MB": most_mb()}))
"""

CUT = """
import json, sys
import nbaudio
from memory import most_mb

nbaudio.select(sys.argv[1], dev=0, test=0, max_duration=1e6)
report = nbaudio.materialize(
    sys.argv[1], out=sys.argv[2], jobs=1, engine="threading", show_progress=False
)
print(json.dumps({"problems": report.problems, "MB": most_mb()}))
"""


def run(code, *arguments):
    """What a program tells in its last line."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_decompression_bomb_is_one_error_and_takes_little_memory(tmp_path, bomb):
    (tmp_path / "source").mkdir()
    source = bomb(tmp_path / "source", SIZE)
    found = run(INGEST, bomb.__name__.partition("_")[0], source, tmp_path / "W", "{}")
    assert found["error"]
    assert any(word in found["error"] for word in REFUSED.split("|")), found
    assert "\n" not in found["error"]
    assert found["MB"] < MOST_MB


def test_a_returned_sheet_that_is_a_bomb_is_refused_in_little_memory(tmp_path):
    code = f"""
import json, sys
from memory import most_mb
from pathlib import Path
from nbaudio.core.errors import InputError
from nbaudio.review.sheet_reader import read_sheet
try:
    read_sheet(Path({str(table_span(tmp_path, 0))!r}))
except InputError as raised:
    print(json.dumps({{"error": str(raised), "MB": most_mb()}}))
"""
    found = run(code)
    assert "a bomb" in found["error"]
    assert found["MB"] < MOST_MB


def test_a_small_file_with_days_of_silence_is_probed_but_not_cut(tmp_path):
    """More samples than 31 bits tell, in some megabytes; the other clip is cut nevertheless."""
    silence = np.zeros(1 << 24, dtype=np.int16)
    (tmp_path / "audio").mkdir()
    with sf.SoundFile(tmp_path / "audio/a.flac", "w", 8000, 1, "PCM_16") as file:
        for _ in range(130):
            file.write(silence)
    sf.write(tmp_path / "audio/b.flac", np.sin(np.arange(8000) / 5) / 4, 8000)
    assert (tmp_path / "audio/a.flac").stat().st_size < 10 << 20
    found = run(INGEST, "folder", tmp_path / "audio", tmp_path / "W", "{}")
    assert (found["error"], found["problems"]) == (None, [])
    assert found["MB"] < MOST_MB
    found = run(CUT, tmp_path / "W", tmp_path / "C")
    assert [problem.partition(":")[0] for problem in found["problems"]] == ["a"]
    assert "too many for one clip" in found["problems"][0]
    assert found["MB"] < MOST_MB
