"""Rows on disk: what is too large for memory gives the same tables, whatever the parts' size."""

import json

import polars as pl
import pytest
from specimens import LAYOUTS, format_of

import nbaudio
from nbaudio.core.errors import InputError
from nbaudio.tables import rows
from nbaudio.tables.rows import Rows, rows_on_disk
from nbaudio.tables.workspace import Workspace

TABLES = ("segments", "recordings", "names", "problems")


@pytest.fixture
def small_parts(monkeypatch):
    """Write every few rows to a file of their own."""

    def shrink(size=400):
        monkeypatch.setattr(rows, "_PART_BYTES", size)

    return shrink


def tables_of(workspace):
    return {name: workspace.table(name) for name in TABLES}


def test_parts_with_different_columns_are_combined(tmp_path, small_parts):
    small_parts(1)
    frames = [
        pl.DataFrame({"b": [1, 2]}),
        pl.DataFrame({"a": ["x"], "c": [[0.5]]}),
        pl.DataFrame({"b": [3], "a": [None]}),
    ]
    expected = pl.concat(frames, how="diagonal_relaxed")
    assert Rows.collect(frames).frame().equals(expected)
    with rows_on_disk(tmp_path / "W"):
        found = Rows.collect(iter(frames), first=["c", "z"])
        assert found.frame().equals(expected.select("c", "b", "a"))
        assert [batch.columns for batch in found.batches(["a", "z"])] == [["a"]] * 3
        assert found.unique("a")["a"].to_list() == [None, "x"]
        assert found.height == 4
    assert not (tmp_path / "W").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_layout_gives_the_same_tables_with_small_parts(tmp_path, small_parts, name):
    made = LAYOUTS[name](tmp_path / "source")
    options = {"audio": made.audio, "options": made.options, "jobs": 1}
    whole = nbaudio.ingest(format_of(name), made.source, out=tmp_path / "whole", **options)
    small_parts(1)
    parts = nbaudio.ingest(format_of(name), made.source, out=tmp_path / "parts", **options)
    assert parts.facts == whole.facts
    assert [line.replace("/parts/", "/whole/") for line in parts.problems] == whole.problems
    for table, expected in tables_of(Workspace.open(tmp_path / "whole")).items():
        found = Workspace.open(tmp_path / "parts").table(table)
        in_text = pl.selectors.string().str.replace("/parts/", "/whole/", literal=True)
        untimed = [
            frame.drop("mtime_ns", strict=False)
            for frame in (found.with_columns(in_text), expected)
        ]
        assert untimed[0].equals(untimed[1]), table
    assert not list(tmp_path.rglob(".rows*"))


def source(path, numbers, **extra):
    """Segments with repeated ids and windows that are far apart in the file, and lines that cannot
    be read."""
    lines = []
    for n in numbers:
        row = {
            "id": f"s{n % 5}" if n % 4 == 0 else f"s{n % 3}#2" if n % 9 == 0 else f"u{n}",
            "file": f"r{n % 3}.wav",
        }
        row |= {
            "start": str(n % 17),
            "end": str(n % 17 + (n % 13 > 0)),
            "text": f"riječ {n}",
            "speaker": f"p{n % 2}",
        }
        lines.append(json.dumps(row | extra) if n % 11 else "{")
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


def test_duplicates_and_problems_do_not_depend_on_the_size_of_parts(tmp_path, small_parts):
    made = source(tmp_path / "t.jsonl", range(1, 200))
    options = {"options": {"segment_id": "id", "name": "file"}}
    whole = nbaudio.ingest("table", made, out=tmp_path / "whole", **options)
    assert whole.facts["rejected"].keys() == {"duplicate", "end_before_start"}
    ids = Workspace.open(tmp_path / "whole").segments["segment_id"]
    assert ids.n_unique() == len(ids)
    assert ids.str.contains("#3").any()
    for size in (1, 2000):
        small_parts(size)
        parts = nbaudio.ingest("table", made, out=tmp_path / f"parts {size}", **options)
        assert (parts.facts, parts.problems) == (whole.facts, whole.problems)
        for table, expected in tables_of(Workspace.open(tmp_path / "whole")).items():
            assert Workspace.open(tmp_path / f"parts {size}").table(table).equals(expected), table


@pytest.mark.slow
def test_ingest_add_does_not_depend_on_the_size_of_parts(tmp_path, small_parts):
    options = {"options": {"segment_id": "id", "name": "file"}, "add": True}
    steps = [
        ("first.jsonl", range(1, 60), {}),
        ("second.jsonl", range(40, 90), {}),  # a further source with some ids of the first
        # Grown, changed, and without its first rows.
        ("first.jsonl", range(20, 100), {"note": "x"}),
    ]
    found = {}
    for size in (1 << 20, 1):
        small_parts(size)
        reports = []
        for name, numbers, extra in steps:
            reports.append(
                nbaudio.ingest(
                    "table",
                    source(tmp_path / name, numbers, **extra),
                    out=tmp_path / f"{size}",
                    **options,
                )
            )
        workspace = Workspace.open(tmp_path / f"{size}")
        found[size] = (
            [report.facts for report in reports],
            tables_of(workspace) | {"growth": workspace.growth},
        )
    (facts, expected), (other_facts, other) = found.values()
    assert facts == other_facts
    assert facts[1]["new"] > 0
    assert facts[2]["changed"] > 0
    assert facts[2]["removed"] > 0
    assert {name: table.equals(other[name]) for name, table in expected.items()} == dict.fromkeys(
        expected, True
    )


@pytest.mark.slow
def test_join_does_not_depend_on_the_size_of_parts(tmp_path, small_parts):
    made = source(tmp_path / "t.jsonl", range(1, 200))
    results = {}
    for size in (1 << 20, 1):
        small_parts(size)
        workspace = tmp_path / f"W{size}"
        nbaudio.ingest("table", made, out=workspace, options={"name": "file", "segment_id": "none"})
        held = Workspace.open(workspace).segments
        heard = held.select("segment_id", asr_text=pl.col("text").str.to_uppercase()).sample(
            fraction=1, shuffle=True, seed=3
        )
        timed = held.select(
            "source_start",
            "source_end",
            file="recording_id",
            age=pl.int_range(pl.len()).cast(pl.String),
        )
        reports = [nbaudio.join(workspace, heard.extend(heard[:5]), hypothesis="b")]
        reports.append(nbaudio.join(workspace, timed.reverse(), on="file,start,end", column="age"))
        results[size] = (
            [(report.facts["matched"], report.problems[:9]) for report in reports],
            Workspace.open(workspace).segments,
        )
    (reports, expected), (other_reports, other) = results.values()
    assert reports == other_reports
    assert other.equals(expected)
    assert expected["age"].dtype == pl.Int64
    assert 0 < expected["asr_text_b"].null_count() <= 5
    assert (
        expected.drop_nulls("asr_text_b")
        .select((pl.col("text").str.to_uppercase() == pl.col("asr_text_b")).all())
        .item()
    )


def test_a_failed_or_killed_ingest_leaves_no_rows(tmp_path, small_parts):
    small_parts(1)
    bad = tmp_path / "t.csv"
    bad.write_text("file,text\n,da\n,ne\n", encoding="utf8")
    with pytest.raises(InputError, match="is empty"):
        nbaudio.ingest("table", bad, out=tmp_path / "W")
    assert not (tmp_path / "W").exists()
    (tmp_path / "W/.rows.partial").mkdir(parents=True)
    (tmp_path / "W/.rows.partial/0.arrow").write_bytes(b"of a killed run")
    nbaudio.ingest(
        "table",
        source(tmp_path / "t.jsonl", range(1, 20)),
        out=tmp_path / "W",
        options={"name": "file"},
    )
    assert not list((tmp_path / "W").glob(".rows*"))
