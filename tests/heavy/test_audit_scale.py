"""An audit of 10,000 rows with embedded audio reads under one part in a hundred of their bytes, in
bounded memory, also from an object store."""

import hashlib
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nbaudio.ui.statistics.audit import audit

ROWS = 10_000
SHARDS = 4
CLIP_BYTES = 20_000
LETTERS = str.maketrans("0123456789", "ghijklmnop")
AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def sentence(number):
    """Eight words of letters that no other number has."""
    letters = hashlib.sha256(str(number).encode()).hexdigest().translate(LETTERS)
    return " ".join(letters[start : start + 6] for start in range(0, 48, 6))


def make_dataset(folder):
    """Shards with row groups of 100 rows, as `datasets` writes them; the last one is test."""
    (folder / "data").mkdir(parents=True)
    clip = bytes(range(250)) * (CLIP_BYTES // 250)
    for shard in range(SHARDS):
        split = "test" if shard == SHARDS - 1 else "train"
        numbers = range(shard * ROWS // SHARDS, (shard + 1) * ROWS // SHARDS)
        table = pa.table(
            {
                "audio": pa.array([{"bytes": clip, "path": f"{n}.wav"} for n in numbers], AUDIO),
                "sentence": [sentence(n) for n in numbers],
                "client_id": [f"{split}-{n % 50}" for n in numbers],
                "duration": [5.0] * len(numbers),
            }
        )
        path = folder / f"data/{split}-{shard:05d}-of-{SHARDS:05d}.parquet"
        pq.write_table(table, path, row_group_size=100, compression="none", use_dictionary=False)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    return folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("audit") / "D")


def test_less_than_one_part_in_a_hundred_of_the_bytes_is_read(dataset):
    facts = audit(dataset).facts
    assert facts["rows"] == ROWS
    assert facts["bytes_of_data"] > ROWS * CLIP_BYTES
    assert facts["bytes_read"] < facts["bytes_of_data"] / 100


def test_memory_does_not_grow_with_the_audio(dataset):
    # Of `getrusage`, the peak begins with that of the process that forks.
    code = (
        "import re, sys, pathlib, nbaudio; nbaudio.audit(sys.argv[1]);"
        "status = pathlib.Path('/proc/self/status').read_text();"
        "print(re.search(r'VmHWM:\\s+(\\d+)', status)[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(dataset)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 600 * 1024


def test_an_object_store_sends_ranges(dataset, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(f"{dataset}/", "/audit-scale/", recursive=True)
    sent = []
    cat_file = type(memory).cat_file

    def counted(self, path, start=None, end=None, **options):
        content = cat_file(self, path, start=start, end=end, **options)
        sent.append(len(content))
        return content

    monkeypatch.setattr(type(memory), "cat_file", counted)
    report = audit("memory://audit-scale")
    assert report.facts["rows"] == ROWS
    assert 0 < sum(sent) < report.facts["bytes_of_data"] / 100
    memory.rm("/audit-scale", recursive=True)
