"""Failing rows are returned with the rule's name, and types are kept."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from table_checks import check_tables

from nbaudio.core.errors import InputError
from nbaudio.tables import parquet_files, workspace_tables
from nbaudio.tables.dataframes import IN_ORDER, STREAMED
from nbaudio.tables.schemas import (
    RECORDINGS,
    SEGMENTS,
    WORD_TIMES,
    WRITTEN,
    conform,
    hypothesis_names,
    is_score,
    text_names,
)
from nbaudio.tables.workspace import Workspace

RECORDING = {
    "recording_id": "r",
    "path": "r.wav",
    "sampling_rate": 16000,
    "num_channels": 1,
    "num_samples": 160_000,
}
SEGMENT = {
    "segment_id": "s",
    "recording_id": "r",
    "start_sample": 0,
    "end_sample": 16_000,
    "source_start": "0",
    "source_end": "1",
    "text": "da",
}


def failures(
    recordings: list[dict[str, object]], segments: list[dict[str, object]]
) -> list[tuple[str, str]]:
    found = check_tables(pl.DataFrame(recordings), pl.DataFrame(segments, infer_schema_length=None))
    return found.select("key", "rule").rows()


def test_valid_tables_give_no_failures() -> None:
    assert failures([RECORDING], [SEGMENT]) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"recording_id": "x"}, "unknown_recording"),
        ({"recording_id": None}, "unknown_recording"),
        ({"source_start": None}, "no_times"),
        ({"source_end": "NaN"}, "no_times"),
        ({"source_end": "Infinity"}, "no_times"),
        ({"source_start": "soon"}, "no_times"),
        ({"source_start": "-0.5"}, "negative_start"),
        ({"source_start": "1.0"}, "end_before_start"),
        ({"source_start": "2"}, "end_before_start"),
        ({"end_sample": 160_001}, "past_the_end"),
        ({"text": ""}, "empty_text"),
        ({"text": " \t"}, "empty_text"),
        ({"text": None}, "empty_text"),
        ({"text": "c\u030caj"}, "text_not_nfc"),
        ({"similarity": 1.5}, "similarity_range"),
    ],
)
def test_a_bad_segment_is_named_with_its_rule(change: dict[str, object], rule: str) -> None:
    bad = SEGMENT | {"segment_id": "bad", "source_end": "1.0"} | change
    good = SEGMENT | {"source_end": "0.9", "similarity": 0.5}
    assert failures([RECORDING], [good, bad]) == [("bad", rule)]


def test_a_repeated_window_fails_once_per_repeat() -> None:
    again = SEGMENT | {"segment_id": "again", "source_start": "0.00", "source_end": "1.0"}
    assert failures([RECORDING], [SEGMENT, SEGMENT | {"segment_id": "twin"}, again]) == [
        ("twin", "duplicate"),
        ("again", "duplicate"),
    ]
    unread = {"source_start": "x", "source_end": "y"}
    assert failures(
        [RECORDING],
        [SEGMENT | unread, SEGMENT | {"segment_id": "b", "source_start": None, "source_end": None}],
    ) == [("s", "no_times")]


def test_repeated_ids_fail_on_every_row() -> None:
    other = SEGMENT | {"source_start": "0.5"}
    assert failures([RECORDING], [SEGMENT, other]) == [("s", "duplicate_id")] * 2
    assert ("r", "duplicate_id") in failures([RECORDING, RECORDING], [SEGMENT])


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"sampling_rate": 0}, "sampling_rate"),
        ({"num_channels": 0}, "num_channels"),
        ({"num_samples": 0}, "no_samples"),
    ],
)
def test_a_bad_recording_is_named_with_its_rule(change: dict[str, object], rule: str) -> None:
    assert failures([RECORDING, RECORDING | {"recording_id": "bad"} | change], [SEGMENT]) == [
        ("bad", rule)
    ]


def test_a_table_without_its_key_is_refused() -> None:
    with pytest.raises(
        InputError, match="segments: the key column segment_id is missing; columns are text"
    ):
        check_tables(pl.DataFrame([RECORDING]), pl.DataFrame({"text": ["a"]}))


def test_conform_orders_casts_and_keeps_further_columns() -> None:
    frame = conform(
        pl.DataFrame({"mine": [1], "sampling_rate": ["16000"], "recording_id": ["r"]}),
        RECORDINGS,
        "recordings",
    )
    assert frame.columns == [*RECORDINGS, "mine"]
    assert frame.schema["sampling_rate"] == pl.Int32
    assert frame["sampling_rate"].item() == 16000
    with pytest.raises(
        InputError, match="segments: column decision is String and cannot be read as Enum"
    ):
        conform(pl.DataFrame({"segment_id": ["s"], "decision": ["maybe"]}), SEGMENTS, "segments")


def test_columns_that_nbaudio_writes_are_no_further_transcripts_or_hypotheses() -> None:
    written = [*WRITTEN, "text_source", "asr_text_raw", "text", "speaker_id"]
    assert text_names([*written, "text_raw", "text_b"]) == {"raw": "text_raw", "b": "text_b"}
    assert hypothesis_names([*written, "asr_text_b", "asr_text"]) == {
        "asr": "asr_text",
        "b": "asr_text_b",
    }


@pytest.mark.parametrize("name", ["similarity", "spoken_wer", "cer_raw_b", "agreement_text"])
def test_scores_are_recognized_by_name(name: str) -> None:
    assert is_score(name)
    assert not is_score(f"my_{name}")


def test_saved_tables_are_read_back_unchanged(tmp_path: Path) -> None:
    segments = conform(
        pl.DataFrame(
            [
                SEGMENT
                | {
                    "word_times": [{"start": 0.25, "end": 0.5}],
                    "split": "dev",
                    "decision": "accept",
                    "mine": "ž",
                }
            ]
        ),
        SEGMENTS,
        "segments",
    )
    workspace = Workspace.create(tmp_path / "w", audio=None)
    workspace.save(recordings=pl.DataFrame([RECORDING]), segments=segments)
    assert workspace.segments.equals(segments)
    assert workspace.segments.schema == segments.schema
    assert workspace.recordings.schema == RECORDINGS
    assert Workspace.open(tmp_path / "w").audio_root is None


def test_a_folder_that_is_no_workspace_is_refused_with_the_ingest_call(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nbaudio ingest FORMAT SOURCE --out"):
        Workspace.open(tmp_path)
    workspace = Workspace.create(tmp_path)
    with pytest.raises(InputError, match=r"segments\.parquet: missing"):
        _ = workspace.segments
    (tmp_path / "segments.parquet").write_bytes(b"PAR?")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        _ = workspace.segments
    (tmp_path / "workspace.json").write_text("{")
    with pytest.raises(InputError, match=r"workspace\.json: cannot be read"):
        _ = workspace.settings


@pytest.mark.parametrize("rows", [0, 1, 40_000])
@pytest.mark.slow
def test_replacing_columns_equals_saving_the_whole_table(tmp_path: Path, rows: int) -> None:
    """Tables of earlier versions lack columns or hold them in other types; a source has further
    columns."""
    stored = pl.DataFrame(
        {
            "segment_id": [f"s{i}" for i in range(rows)],
            "chamber": ["upper", "lower"] * (rows // 2) + ["upper"] * (rows % 2),
            "similarity": pl.Series([0.25] * rows, dtype=pl.Float32),
            "split": pl.Series(["train"] * rows, dtype=pl.String),
            "word_times": pl.Series([[{"start": 0.5, "end": None}]] * rows, dtype=WORD_TIMES),
        },
        schema_overrides={"segment_id": pl.String, "chamber": pl.String},
    )
    new = pl.DataFrame(
        {"split": ["dev"] * rows, "reason": [None] * rows},
        schema={n: SEGMENTS[n] for n in ("split", "reason")},
    )
    partly, whole = Workspace.create(tmp_path / "[1]*"), Workspace.create(tmp_path / "whole")
    for workspace in (partly, whole):
        workspace.save(segments=stored)
    workspace_tables.replace_columns(partly, new)
    whole.save(segments=whole.segments.with_columns(new))
    assert partly.table("segments").equals(whole.table("segments"))
    assert partly.table("segments").schema == whole.table("segments").schema


def test_a_table_with_a_damaged_column_is_not_replaced(
    tmp_path: Path,
) -> None:
    workspace = Workspace.create(tmp_path / "w")
    workspace.save(
        segments=pl.DataFrame(
            {"segment_id": ["a", "b"], "text": ["dobar dan " * 40, "hvala " * 50]}
        )
    )
    path = workspace.path / "segments.parquet"
    start = pq.read_metadata(path).row_group(0).column(1).data_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[start : start + 24] = b"\xff" * 24
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=r"segments\.parquet: not a readable Parquet file"):
        workspace_tables.replace_columns(workspace, pl.DataFrame({"similarity": [0.5, 1.0]}))
    assert path.read_bytes() == damaged
    assert sorted(each.name for each in workspace.path.iterdir()) == [
        "segments.parquet",
        "workspace.json",
    ]


@pytest.mark.parametrize("form", ["frame", "lazy", "batches"])
def test_a_table_is_written_from_a_frame_a_lazy_frame_or_batches(tmp_path: Path, form: str) -> None:
    rows = [
        SEGMENT | {"segment_id": f"s{number}", "split": "dev", "mine": number}
        for number in range(70)
    ]
    whole = conform(pl.DataFrame(rows), SEGMENTS, "segments")
    forms = {"frame": whole, "lazy": whole.lazy(), "batches": whole.iter_slices(32)}
    workspace_tables.write(tmp_path, forms[form])
    assert workspace_tables.read(tmp_path).equals(whole)
    assert workspace_tables.read(tmp_path).schema == whole.schema


def test_batches_that_fail_leave_the_table_as_it_was(tmp_path: Path) -> None:
    workspace_tables.write(tmp_path, pl.DataFrame([SEGMENT]))
    before = (tmp_path / "segments.parquet").read_bytes()

    def batches() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame([SEGMENT])
        raise InputError("line 7: no text")

    with pytest.raises(InputError, match=r"^line 7: no text$"):
        workspace_tables.write(tmp_path, batches())
    assert (tmp_path / "segments.parquet").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["segments.parquet"]


@pytest.mark.parametrize(
    "columns", [["split", "mine"], ["text", "segment_id"], ["reason"], ["none such"], None]
)
def test_scan_and_read_give_the_same_columns(tmp_path: Path, columns: list[str] | None) -> None:
    """The file has other types than the schema, lacks columns of it and has one more."""
    workspace_tables.write(
        tmp_path,
        pl.DataFrame(
            {"mine": [1, 2], "segment_id": ["a", "b"], "text": ["A", "B"], "split": ["dev", None]}
        ),
    )
    found = workspace_tables.scan(tmp_path, columns).collect()
    assert found.equals(workspace_tables.read(tmp_path, columns))
    assert found.columns == (
        [*SEGMENTS, "mine"]
        if columns is None
        else [name for name in columns if name != "none such"]
    )
    assert found.schema == workspace_tables.read(tmp_path, columns).schema


def test_a_table_without_key_or_with_another_type_is_named(tmp_path: Path) -> None:
    workspace_tables.write(tmp_path, pl.DataFrame({"text": ["a"]}))
    for reader in (workspace_tables.scan, workspace_tables.read):
        with pytest.raises(
            InputError,
            match=r"segments\.parquet: the key column segment_id is missing; columns are text",
        ):
            reader(tmp_path)
    workspace_tables.write(tmp_path, pl.DataFrame({"segment_id": ["a"], "start_sample": ["soon"]}))
    with pytest.raises(
        InputError,
        match=r"segments\.parquet: column start_sample is String and cannot be read as Int64",
    ):
        workspace_tables.read(tmp_path)
    assert workspace_tables.scan(tmp_path, ["segment_id"]).collect().item() == "a"


def test_streamed_joins_keep_the_order_of_rows(tmp_path):
    count, names = 600_000, [f"r{number}" for number in range(700)]
    owner = pl.int_range(count, eager=True) % len(names)
    rows = pl.select(key=pl.lit(pl.Series(names)).gather(owner), text=pl.lit("x" * 30))
    rows.write_parquet(tmp_path / "rows.parquet", row_group_size=parquet_files.ROWS_A_GROUP)
    facts = pl.LazyFrame({"key": names, "number": range(len(names))})
    joined = pl.scan_parquet(tmp_path / "rows.parquet").join(
        facts, on="key", how="left", maintain_order="left"
    )
    only_literals = joined.select(reason=pl.when(pl.col("number") < 300).then(pl.lit("short")))
    workspace_tables.write(tmp_path, only_literals)
    found = [
        only_literals.collect(**STREAMED),
        pl.concat(only_literals.collect_batches(**IN_ORDER)),
    ]
    for one in (*found, pl.read_parquet(tmp_path / "segments.parquet")):
        assert one["reason"].is_not_null().equals((owner < 300).alias("reason"))


def test_rows_are_looked_up_with_columns_of_all_types_in_several_row_groups(tmp_path):
    workspace, number = Workspace.create(tmp_path / "W"), pl.int_range(100, eager=True)
    columns = {
        "segment_id": pl.select(pl.format("s{}", number % 90)).to_series(),
        "words": pl.Series([[{"w": f"č{i}", "at": i / 3}] * (i % 3) for i in range(100)]),
        "x": number.cast(pl.Int8),
        "x.y": number.cast(pl.String).cast(pl.Categorical),
        "day": pl.select(pl.date(2026, 1, 1) + pl.duration(days=number)).to_series(),
        "at": pl.select(
            pl.datetime(2026, 1, 1, time_zone="Europe/Zagreb") + pl.duration(hours=number)
        ).to_series(),
        "took": pl.select(pl.duration(milliseconds=number)).to_series(),
        "price": number.cast(pl.Decimal(10, 2)),
        "raw": pl.Series([bytes([i]) * (i % 5) or None for i in range(100)]),
        "kind": pl.Series(["a", None] * 50, dtype=pl.Enum(["b", "a"])),
        "vector": pl.Series([[i, i] for i in range(100)], dtype=pl.Array(pl.Float32, 2)),
        "none": pl.Series([None] * 100),
    }
    pl.DataFrame(columns).write_parquet(workspace_tables.table_path(workspace), row_group_size=7)
    every = workspace_tables.read(workspace, row="row")
    for ids in (["s3", "s50", "s89"], [], [f"s{i}" for i in range(90)], ["other"]):
        found = workspace_tables.read(
            workspace, where=workspace_tables.has_id(pl.Series(ids, dtype=pl.String)), row="row"
        )
        assert found.equals(every.filter(pl.col("segment_id").is_in(ids)))
        assert found.schema == every.schema
    assert workspace_tables.read(workspace, ["x"], where=pl.col("price") > 97).to_dict(
        as_series=False
    ) == {"x": [98, 99]}


def test_rows_come_from_the_opened_table_if_it_is_replaced_meanwhile(tmp_path, monkeypatch):
    workspace, ids, opened = (
        Workspace.create(tmp_path / "W"),
        pl.Series([f"s{i}" for i in range(50)]),
        [],
    )
    workspace_tables.write(workspace, pl.DataFrame({"segment_id": ids, "text": ids}))
    open_parquet = parquet_files.open_parquet

    def replace_when_opened(path):
        opened.append(open_parquet(path))
        if len(opened) == 1:
            workspace_tables.write(
                workspace, pl.DataFrame({"segment_id": ids.reverse(), "text": ids.reverse()})
            )
        return opened[-1]

    monkeypatch.setattr(parquet_files, "open_parquet", replace_when_opened)
    found = workspace_tables.read(
        workspace, ["segment_id", "text"], where=workspace_tables.has_id(pl.Series(["s3", "s40"]))
    )
    assert found.rows() == [("s40", "s40"), ("s3", "s3")]
