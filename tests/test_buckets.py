"""Steps whose rows are in many buckets on disk give the bytes of one bucket."""

import os
import subprocess
import sys

import polars as pl
import pytest

import nbaudio
from nbaudio import Workspace, convert, diff, export, ingest, materialize, measure, verify
from nbaudio.corpus import measure as measure_module
from nbaudio.corpus import plan
from nbaudio.corpus import verify as verify_module
from nbaudio.sources import joined_columns
from nbaudio.tables import buckets
from nbaudio.tables.schemas import SIGNALS


@pytest.fixture
def tiny(monkeypatch):
    """Call it for buckets of a few rows, in parts of a few rows."""

    def switch():
        monkeypatch.setattr(buckets, "BUCKET_ROWS", 5)
        for module in (buckets, joined_columns, measure_module, verify_module):
            monkeypatch.setattr(module, "PART_ROWS", 5)
        monkeypatch.setattr(buckets, "_FILE_BYTES", 200)
        monkeypatch.setattr(buckets, "_MOST_BYTES_IN_MEMORY", 100)
        monkeypatch.setattr(plan, "_ROWS", 7)

    return switch


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({f"r{i}.flac": (20.0, 16000) for i in range(3)})


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_each_row_is_written_to_the_bucket_of_its_key(tmp_path):
    rows = pl.LazyFrame({"n": range(100), "name": [f"é{n}" for n in range(100)]})
    divided = buckets.write_buckets(rows, pl.col("n") % 3, count=4, folder=tmp_path / "b")
    assert [sorted(bucket["n"]) for bucket in divided] == [
        [n for n in range(100) if n % 3 == rest] for rest in range(4 - 1)
    ] + [[]]
    assert divided.read(3).schema == rows.collect_schema()


def test_equal_values_are_in_one_bucket_of_two_tables(tmp_path):
    tables = [pl.LazyFrame({"key": [f"k{n % 7}" for n in range(size)]}) for size in (50, 9)]
    bucket = buckets.hash_bucket("key", 4)
    sides = [
        buckets.write_buckets(table, bucket, count=4, folder=tmp_path / str(number))
        for number, table in enumerate(tables)
    ]
    for long, short in zip(*sides, strict=True):
        assert long.join(short, on="key", how="anti").is_empty()


def test_parts_are_stored_in_order_and_have_the_types_of_the_schema(tmp_path, tiny):
    tiny()
    parts = [pl.DataFrame({"n": [n, n + 1], "more": "x"}) for n in range(0, 60, 2)]
    stored = buckets.store(parts, tmp_path / "parts", pl.Schema({"n": pl.UInt32}))
    assert stored.collect().equals(pl.DataFrame({"n": range(60)}, schema={"n": pl.UInt32}))
    assert len(list((tmp_path / "parts").iterdir())) > 1
    none = buckets.store([], tmp_path / "none", pl.Schema({"n": pl.UInt32}))
    assert none.collect().schema == {"n": pl.UInt32}


def test_a_small_table_is_not_written(tmp_path):
    parts = [pl.DataFrame({"n": [n, n + 1]}) for n in range(0, 60, 2)]
    stored = buckets.store(parts, tmp_path / "parts", pl.Schema({"n": pl.Int64}))
    assert stored.collect()["n"].to_list() == list(range(60))
    single = buckets.write_buckets(stored, pl.lit(0), count=1, folder=tmp_path / "b")
    assert sorted(single.read(0)["n"]) == list(range(60))
    single.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_single_bucket_leaves_out_rows_of_others_as_several_do(tmp_path):
    rows = pl.LazyFrame({"n": range(7), "bucket_of_row": [0, 1, None, 0, 2, 0, 1]})
    for count in (1, 2):
        bucket = pl.col("bucket_of_row")
        divided = buckets.write_buckets(rows, bucket, count=count, folder=tmp_path / str(count))
        assert sorted(divided.read(0)["n"]) == [0, 3, 5]
        assert divided.read(0).schema == divided.schema == rows.collect_schema()


@pytest.mark.parametrize("is_tiny", [False, True])
def test_parts_that_are_added_after_a_scan_are_read_by_the_next(tmp_path, tiny, is_tiny):
    if is_tiny:
        tiny()
    writer = buckets.PartWriter(tmp_path / "parts", pl.Schema({"n": pl.Int64}))
    for n in range(0, 40, 10):
        writer.add(pl.DataFrame({"n": range(n, n + 10)}))
        assert writer.scan().collect()["n"].to_list() == list(range(n + 10))
    assert (tmp_path / "parts").exists() == is_tiny


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"container": "tfrecord", "window": 3}, marks=pytest.mark.slow),
        {"shard_count": 2, "rate": None},
    ],
)
@pytest.mark.slow
def test_corpora_made_in_many_buckets_have_the_bytes_of_one(workspace, tmp_path, tiny, options):
    def make_corpora(name):
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

    ordinary = make_corpora("c")
    second = contents(tmp_path / "c-v2")
    assert ordinary[1]["segments"] == ordinary[1]["text"] > 0
    for suffix in ("", "-zip", "-v2"):
        (tmp_path / f"c{suffix}").rename(tmp_path / f"was{suffix}")
    tiny()
    assert make_corpora("c") == ordinary
    assert contents(tmp_path / "c-v2") == second


def test_measure_stores_signals_in_the_right_rows_with_many_buckets(workspace, tiny):
    measure(workspace, jobs=1, show_progress=False)
    ordinary = workspace.segments
    workspace.save(segments=ordinary.drop(SIGNALS.names()))
    (workspace.path / "signals.parquet").unlink()
    tiny()
    measure(workspace, jobs=1, show_progress=False)
    assert workspace.segments.equals(ordinary)
    assert ordinary["rms_dbfs"].n_unique() > 5


JOINS = {
    "by id": ("segment_id", 0),
    "by times": ("file,start,end", 0),
    "near times": ("file,start,end", "0.02"),
}


@pytest.mark.parametrize("how", JOINS)
def test_join_matches_the_right_segments_with_many_buckets(workspace, tiny, how):
    on, tolerance = JOINS[how]
    segments = workspace.segments
    moved = pl.col("source_start").cast(pl.Float64) + 0.01 * (pl.int_range(pl.len()) % 3)
    table = segments.select(
        "segment_id",
        file="recording_id",
        start=moved if tolerance else "source_start",
        end="source_end",
        note=pl.format("note of {}", "segment_id"),
    ).sample(fraction=1, shuffle=True, seed=3)
    others = table.head(3).with_columns(
        segment_id=pl.lit("nobody"), start=pl.lit("999").cast(table.schema["start"])
    )
    twice = table.tail(2)
    rows = pl.concat([table, others, twice])

    def joined(name):
        report = nbaudio.join(
            workspace, rows, on=on, column=name, from_="note", tolerance=tolerance
        )
        return report.facts, report.problems, workspace.segments[name]

    facts, problems, notes = joined("ordinary")
    assert facts["matched"] == len(segments) - 2
    assert len(problems) == 3 + 4
    expected = [
        None if key in twice["segment_id"] else f"note of {key}" for key in segments["segment_id"]
    ]
    assert notes.to_list() == expected
    tiny()
    again, problems_again, notes_again = joined("tiny")
    assert (again["matched"], again["without"]) == (facts["matched"], facts["without"])
    assert problems_again == problems
    assert notes_again.to_list() == expected


BYTES = """
import sys
from nbaudio import materialize
from nbaudio.tables import buckets
buckets.BUCKET_ROWS = 5
materialize(sys.argv[1], out=sys.argv[2], packs=sys.argv[3], jobs=1, show_progress=False)
"""


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_number_of_threads(workspace, tmp_path):
    for threads in ("1", "4"):
        subprocess.run(
            [
                sys.executable,
                "-c",
                BYTES,
                workspace.path,
                tmp_path / threads,
                tmp_path / f"packs-{threads}",
            ],
            check=True,
            env=os.environ | {"POLARS_MAX_THREADS": threads},
        )
    assert contents(tmp_path / "1") == contents(tmp_path / "4")


@pytest.mark.slow
def test_ingest_add_gives_the_same_tables_with_many_buckets(tmp_path, tiny):
    def grown(name):
        source = tmp_path / name / "source.jsonl"
        out = tmp_path / name / "W"
        rows = pl.DataFrame(
            {
                "segment_id": [f"s{n:02d}" for n in range(60)],
                "audio_filepath": [f"r{n % 3}.wav" for n in range(60)],
                "offset": [2.5 * n for n in range(60)],
                "duration": 2.0,
                "text": [f"tekst {n}" for n in range(60)],
            }
        )
        number = pl.int_range(pl.len())
        source.parent.mkdir()
        rows.write_ndjson(source)
        ingest("nemo", source, out=out)
        rows.with_columns(
            segment_id=pl.when(number % 10 == 1)
            .then(pl.format("new {}", "segment_id"))
            .otherwise("segment_id"),
            offset=pl.when(number % 10 == 2).then(pl.col("offset") + 0.25).otherwise("offset"),
            text=pl.when(number % 10 == 3).then(pl.lit("drugo")).otherwise("text"),
        ).filter(number % 10 != 4).reverse().write_ndjson(source)
        report = ingest("nemo", source, out=out, add=True)
        return Workspace.open(out), report.facts

    workspace, facts = grown("one")
    assert (facts["new"], facts["changed_by"]) == (6, {"text": 6, "times": 6})
    problems = workspace.table("problems")
    absent = problems.filter(pl.col("reason").str.contains("no longer in the source"))
    assert absent["item"].to_list() == [f"s{n:02d}" for n in range(60) if n % 10 in (1, 4)]
    ids = workspace.segments["segment_id"].to_list()
    assert ids[:60] == [f"s{n:02d}" for n in range(60)]
    assert ids[60:] == [f"new s{n}1" if n else "new s01" for n in (5, 4, 3, 2, 1, 0)]
    tiny()
    other, other_facts = grown("several")
    assert other.segments.equals(workspace.segments)
    assert other.table("problems").drop("file").equals(problems.drop("file"))
    assert {**other_facts, "next": ""} == {**facts, "next": ""}


@pytest.mark.parametrize("number", [0, 1, 3, 200])
def test_texts_are_sorted_across_buckets(tmp_path, tiny, number):
    tiny()
    texts = [f"{n * 7919 % 1000:03d} č"[n % 2 :] for n in range(number)]
    rows = pl.LazyFrame({"text": texts, "row": range(number)}, schema_overrides={"text": pl.String})
    parts = list(buckets.in_order(rows, "text", folder=tmp_path / "b"))
    assert pl.concat(parts).equals(rows.sort("text").collect())
    assert len(parts) > number // 100


def test_a_kaldi_export_has_the_same_files_with_many_buckets(workspace, tmp_path, tiny):
    export(workspace, "kaldi", out=tmp_path / "one")
    tiny()
    export(workspace, "kaldi", out=tmp_path / "several")
    files = contents(tmp_path / "one")
    assert contents(tmp_path / "several") == files
    lines = files["train/utt2spk"].decode().splitlines()
    assert len(lines) == len(set(lines)) > 5
    assert lines == sorted(lines)
