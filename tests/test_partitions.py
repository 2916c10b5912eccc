"""Steps whose rows are in many buckets on disk give the bytes of one bucket."""

import polars as pl
import pytest

from nbaudio import convert, diff, materialize, measure, verify
from nbaudio.core.tables import SIGNALS
from nbaudio.corpus import partitions, plan, shards
from nbaudio.corpus.partitions import Buckets, append_stream, read_streams


@pytest.fixture
def tiny(monkeypatch):
    """Call it for buckets of a few rows, which are appended a few rows at a time."""

    def switch():
        for module in (partitions, plan, shards):
            monkeypatch.setattr(module, "BUCKET_ROWS", 5)
        monkeypatch.setattr(partitions, "_BLOCK_BYTES", 2000)

    return switch


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({f"r{i}.flac": (30.0, 16000) for i in range(4)})


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_rows_keep_their_order_in_a_bucket(tmp_path, tiny):
    tiny()
    rows = pl.DataFrame({"n": range(100), "name": [f"é{n}" for n in range(100)]})
    buckets = Buckets(tmp_path / "b", 15)
    for part in rows.iter_slices(7):
        buckets.add(part, pl.when(pl.col("n") != 50).then(pl.col("n") % 3))
    assert [part["n"].to_list() for part in buckets] == [
        [n for n in range(100) if n % 3 == rest and n != 50] for rest in range(3)
    ]
    assert buckets.read(1, remove=True)["name"][0] == "é1"
    assert buckets.read(1).is_empty()
    assert buckets.read(1).schema == rows.schema


def test_frames_are_read_in_the_order_in_which_they_are_appended(tmp_path):
    frames = [pl.DataFrame({"n": numbers}) for numbers in ([1, 2, 3], [4], [5, 6])]
    for frame in frames:
        append_stream(tmp_path / "f", frame)
    assert [
        found.equals(frame)
        for found, frame in zip(read_streams(tmp_path / "f"), frames, strict=True)
    ] == [True] * 3


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"container": "tfrecord", "window": 3}, marks=pytest.mark.slow),
        {"shard_count": 2, "rate": None},
    ],
)
def test_the_bytes_are_those_of_one_bucket(workspace, tmp_path, tiny, options):
    def made(name):
        same = {"jobs": 1, "show_progress": False}
        materialize(
            workspace,
            out=tmp_path / name,
            packs=tmp_path / f"packs-{name}",
            shard_size="60kB",
            **same,
            **options,
        )
        convert(
            tmp_path / name,
            container="zip",
            out=tmp_path / f"{name}-zip",
            shard_size="50kB",
            **same,
        )
        changed = (
            pl.when(pl.col("segment_id").str.contains("r1_0"))
            .then(pl.lit("drugo"))
            .otherwise("text")
            .alias("text")
        )
        before = workspace.segments
        workspace.save(segments=before.with_columns(changed))
        materialize(
            workspace,
            out=tmp_path / f"{name}-v2",
            base=tmp_path / name,
            packs=tmp_path / f"packs-{name}",
            **same,
        )
        report = diff(tmp_path / name, tmp_path / f"{name}-v2").facts
        workspace.save(segments=before)
        assert verify(tmp_path / f"{name}-v2", **same).problems == []
        return (
            [contents(tmp_path / f"{name}{suffix}") for suffix in ("", "-zip")],
            report["changed"],
            report["by_split"],
        )

    ordinary = made("c")
    second = contents(tmp_path / "c-v2")
    assert ordinary[1]["segments"] == ordinary[1]["text"] > 0
    for suffix in ("", "-zip", "-v2"):
        (tmp_path / f"c{suffix}").rename(tmp_path / f"was{suffix}")
    tiny()
    assert made("c") == ordinary
    assert contents(tmp_path / "c-v2") == second


def test_signals_come_to_their_rows(workspace, tiny):
    measure(workspace, jobs=1, show_progress=False)
    ordinary = workspace.segments
    workspace.save(segments=ordinary.drop(SIGNALS.names()))
    (workspace.path / "signals.parquet").unlink()
    tiny()
    measure(workspace, jobs=1, show_progress=False)
    assert workspace.segments.equals(ordinary)
    assert ordinary["rms_dbfs"].n_unique() > 10
