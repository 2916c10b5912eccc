"""The command `measure`: equal values whatever the jobs, kills and growth; sources keep their
columns; failures are listed."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile as sf

import nbaudio
from nbaudio import views
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import InputError
from nbaudio.corpus import measure as step
from nbaudio.review.state import Correction, append_corrections
from nbaudio.tables.schemas import SIGNALS
from nbaudio.tables.workspace import Workspace

TIME = "2026-11-21T03:00:00Z"
DEMO = bundled("data_manifests/demo")


def demo(folder: Path, **options: Any) -> Workspace:
    options = {"audio": DEMO / "audio", "names": DEMO / "wav.scp"} | options
    nbaudio.ingest("parlaspeech", DEMO / "transcripts.jsonl", out=folder, **options)
    return Workspace.open(folder)


def values(workspace: Workspace | Path) -> pl.DataFrame:
    return Workspace.open(workspace).segments.select("segment_id", *SIGNALS)


def measured(workspace: Workspace, **options: Any) -> pl.DataFrame:
    nbaudio.measure(workspace, show_progress=False, **{"jobs": 1} | options)
    return values(workspace)


@pytest.fixture(scope="module")
def measured_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, measured by one job."""
    folder = tmp_path_factory.mktemp("whole") / "w"
    measured(demo(folder))
    return folder


def copy(workspace: Path, folder: Path) -> Workspace:
    shutil.copytree(workspace, folder)
    return Workspace.open(folder)


def test_all_columns_have_the_types_of_the_schema_and_other_columns_stay(
    measured_demo: Path, tmp_path: Path
) -> None:
    table = Workspace.open(measured_demo).segments
    assert {name: table.schema[name] for name in SIGNALS} == dict(SIGNALS)
    assert table.drop(*SIGNALS).equals(demo(tmp_path / "w").segments)
    with_audio = table.filter(pl.col("end_sample").is_not_null() & pl.col("rms_dbfs").is_not_null())
    assert len(with_audio) == 106
    floats = with_audio.select(pl.col(pl.Float64))
    assert floats.select(pl.all().drop_nulls().is_finite().all()).row(0) == (True,) * floats.width


def test_measure_finds_exactly_the_planted_faults_of_the_demo(measured_demo: Path) -> None:
    table = Workspace.open(measured_demo).segments
    found = {
        "clipped": table.filter(pl.col("clipped_share") > 0),
        "cut": table.filter(pl.col("cut_start") | pl.col("cut_end")),
        "noisy": table.filter(pl.col("snr_db") < 10),
        "telephone": table.filter(pl.col("bandwidth_hz") < 4000),
        "half silent": table.filter(pl.col("silence_share") > 0.3),
        "offset": table.filter(pl.col("dc_offset").abs() > 0.02),
    }
    assert {name: rows["recording_id"].to_list() for name, rows in found.items()} == {
        name: ["Qm4vT-8_xLp"] for name in found
    }
    # The right channel is dead, so are both of the mono recording.
    dead = table.filter(pl.col("rms_dbfs").is_not_null() & pl.col("channel_correlation").is_null())
    assert set(dead["recording_id"]) == {"Qm4vT-8_xLp", "h7Rk2_WzB0c"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"jobs": 2}, {"jobs": 3, "engine": "threading"}])
def test_values_do_not_depend_on_jobs_and_engine(
    options: dict[str, Any], measured_demo: Path, tmp_path: Path
) -> None:
    workspace = demo(tmp_path / "w")
    shuffled = workspace.segments.sample(fraction=1, shuffle=True, seed=3)
    workspace.save(segments=shuffled)
    assert (
        measured(workspace, **options)
        .sort("segment_id")
        .equals(values(measured_demo).sort("segment_id"))
    )


def test_values_do_not_depend_on_the_other_segments(measured_demo: Path, tmp_path: Path) -> None:
    workspace = demo(tmp_path / "w")
    workspace.save(segments=workspace.segments.gather_every(3))
    found = measured(workspace)
    assert found.equals(
        values(measured_demo).join(found.select("segment_id"), on="segment_id", how="semi")
    )


@pytest.mark.slow
def test_a_killed_run_continues(
    measured_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, done = demo(tmp_path / "w"), []
    log = step.log_signals

    def killed(*args: Any) -> None:
        log(*args)
        done.append(args)
        if len(done) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(step, "log_signals", killed)
    with pytest.raises(KeyboardInterrupt):
        measured(workspace)
    monkeypatch.undo()
    assert not set(SIGNALS) & set(workspace.segments.columns)
    with (workspace.path / step.LOG).open("ab") as file:
        file.write(b'{"clip_key": "half a li')
    report = nbaudio.measure(workspace, jobs=1, show_progress=False)
    assert 0 < report.facts["already_measured"] < 106
    assert report.facts["already_measured"] + report.facts["measured_now"] == 106
    assert values(workspace).equals(values(measured_demo))
    assert not (workspace.path / step.LOG).exists()


def test_a_second_run_decodes_nothing_and_changes_nothing(
    measured_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = copy(measured_demo, tmp_path / "w")
    before = {path: path.read_bytes() for path in workspace.path.glob("*.parquet")}
    monkeypatch.setattr(step, "measure_windows", lambda _: pytest.fail("decoded again"))
    report = nbaudio.measure(workspace, jobs=1, show_progress=False)
    assert (
        report.facts["measured_now"],
        report.facts["already_measured"],
        report.facts["hours"],
    ) == (0, 106, 0)
    assert {path: path.read_bytes() for path in workspace.path.glob("*.parquet")} == before


def test_measure_covers_new_segments_and_changed_texts(measured_demo: Path, tmp_path: Path) -> None:
    lines = (DEMO / "transcripts.jsonl").read_text(encoding="utf8").splitlines()
    grown = tmp_path / "transcripts.jsonl"
    grown.write_text("\n".join(lines[:40]) + "\n", encoding="utf8")
    options: dict[str, Any] = {
        "audio": DEMO / "audio",
        "names": DEMO / "wav.scp",
        "out": tmp_path / "w",
    }
    nbaudio.ingest("parlaspeech", grown, **options)
    workspace = Workspace.open(tmp_path / "w")
    before = len(measured(workspace).drop_nulls("rms_dbfs"))
    grown.write_text("\n".join(lines) + "\n", encoding="utf8")
    nbaudio.ingest("parlaspeech", grown, **options, add=True)
    report = nbaudio.measure(workspace, jobs=1, show_progress=False)
    assert 20 < before < 80
    assert (report.facts["already_measured"], report.facts["measured_now"]) == (
        before,
        106 - before,
    )
    assert values(workspace).sort("segment_id").equals(values(measured_demo).sort("segment_id"))
    text = (
        pl.when(pl.col("segment_id") == "Qm4vT-8_xLp_7.2-12.28")
        .then(pl.lit(" ab "))
        .otherwise("text")
        .alias("text")
    )
    workspace.save(segments=workspace.segments.with_columns(text))
    changed = measured(workspace).sort("segment_id")
    assert changed.drop("speech_rate").equals(
        values(measured_demo).sort("segment_id").drop("speech_rate")
    )
    [row] = changed.filter(segment_id="Qm4vT-8_xLp_7.2-12.28").rows(named=True)
    assert row["speech_rate"] == pytest.approx(2 / (5.08 * row["speech_share"]), abs=0.01)


def test_speech_rate_is_characters_per_second_of_speech(measured_demo: Path) -> None:
    table = Workspace.open(measured_demo).segments.filter(pl.col("speech_share") > 0)
    rates = {
        row["recording_id"]: row["sampling_rate"]
        for row in Workspace.open(measured_demo).recordings.iter_rows(named=True)
    }
    for row in table.iter_rows(named=True):
        seconds = (
            row["speech_share"]
            * (row["end_sample"] - row["start_sample"])
            / rates[row["recording_id"]]
        )
        assert row["speech_rate"] == pytest.approx(
            len((row["text"] or "").strip()) / seconds, abs=0.01
        )


@pytest.mark.slow
def test_a_recording_that_cannot_be_read_is_listed_and_the_others_are_measured(
    tmp_path: Path,
) -> None:
    audio = shutil.copytree(DEMO / "audio", tmp_path / "audio")
    workspace = demo(tmp_path / "w", audio=audio)
    broken = next(path for path in audio.iterdir() if "h7Rk2_WzB0c" in path.name)
    broken.write_bytes(broken.read_bytes()[:-1000] + b"x" * 1000)
    report = nbaudio.measure(workspace, jobs=2, show_progress=False)
    table = workspace.segments
    failed = table.filter(
        pl.col("rms_dbfs").is_null()
        & pl.col("end_sample").is_not_null()
        & (pl.col("recording_id") == "h7Rk2_WzB0c")
    )
    assert report.facts["failed"] >= 16
    assert len(failed) >= 16
    assert broken.name in report.problems[0]
    # The report in the workspace has all of them, however many are shown.
    stored = json.loads((workspace.path / "reports/measure.json").read_text(encoding="utf8"))[
        "problems"
    ]
    assert len(stored) == report.facts["failed"]
    assert table.filter(pl.col("recording_id") == "eX_5gPd1JtM")["rms_dbfs"].count() == 27


def test_a_segment_beside_damaged_audio_is_measured(tmp_path: Path) -> None:
    """What is around a segment is read as well, but only the segment must be readable."""
    x = np.random.default_rng(0).normal(0, 3000, 8 * 16000).astype(np.int16)
    sf.write(tmp_path / "a.flac", x, 16000)
    data = bytearray((tmp_path / "a.flac").read_bytes())
    damage = int(len(data) * 5.15 / 8)
    data[damage : damage + 300] = bytes(300)
    (tmp_path / "a.flac").write_bytes(data)
    lines = [
        {"id": "s", "name": "a.flac", "start": 1, "end": 4.85, "text": "da"},
        {"id": "t", "name": "a.flac", "start": 4.5, "end": 7, "text": "da"},
    ]
    pl.DataFrame(lines).write_csv(tmp_path / "t.csv")
    nbaudio.ingest("table", tmp_path / "t.csv", audio=tmp_path, out=tmp_path / "w")
    report = nbaudio.measure(tmp_path / "w", jobs=1, show_progress=False)
    assert report.facts["failed"] == 1
    assert values(tmp_path / "w")["rms_dbfs"].is_null().to_list() == [False, True]


def test_a_signal_column_of_the_source_is_not_replaced(tmp_path: Path) -> None:
    sf.write(tmp_path / "a.wav", np.zeros(16000, np.int16), 16000)
    pl.DataFrame({"name": "a.wav", "start": 0, "end": 1, "text": "da", "snr_db": 99}).write_csv(
        tmp_path / "t.csv"
    )
    nbaudio.ingest("table", tmp_path / "t.csv", audio=tmp_path, out=tmp_path / "w")
    workspace = Workspace.open(tmp_path / "w")
    assert float(workspace.segments["source_snr_db"][0]) == 99
    nbaudio.measure(workspace, jobs=1, show_progress=False)
    assert float(workspace.segments["source_snr_db"][0]) == 99
    # A column that something else wrote under this name is not overwritten.
    workspace.save(segments=workspace.segments.drop(*SIGNALS).with_columns(snr_db=pl.lit(99.0)))
    settings = workspace.settings
    del settings["measured"]
    (workspace.path / "workspace.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="the source has a column snr_db, which stays"):
        nbaudio.measure(workspace, show_progress=False)


def test_without_audio_it_says_what_is_missing(tmp_path: Path) -> None:
    nbaudio.ingest("parlaspeech", DEMO / "transcripts.jsonl", out=tmp_path / "w")
    with pytest.raises(
        InputError, match="ingested without audio; run 'nbaudio ingest' again with --audio"
    ):
        nbaudio.measure(tmp_path / "w")
    with pytest.raises(InputError, match="channel 'centre' is unknown; known are mix, left, right"):
        nbaudio.measure(tmp_path / "w", channel="centre")


@pytest.mark.slow
def test_measuring_another_channel_replaces_the_values(measured_demo: Path, tmp_path: Path) -> None:
    workspace = copy(measured_demo, tmp_path / "w")
    right = measured(workspace, channel="right", jobs=2).join(
        workspace.segments.select("segment_id", "recording_id"), on="segment_id"
    )
    dead = right.filter(pl.col("recording_id") == "h7Rk2_WzB0c")
    assert dead["silence_share"].drop_nulls().unique().to_list() == [1.0]
    assert dead["snr_db"].null_count() == len(dead)
    # A mono recording has no right channel.
    assert right.filter(pl.col("recording_id") == "Qm4vT-8_xLp")["silence_share"].null_count() == 18
    assert measured(workspace).equals(values(measured_demo))


@pytest.mark.slow
def test_materialize_measures_in_the_same_pass(measured_demo: Path, tmp_path: Path) -> None:
    workspace = demo(tmp_path / "w")
    nbaudio.score(workspace)
    nbaudio.select(workspace, dev=5, test=5)
    plain = copy(workspace.path, tmp_path / "plain")
    report = nbaudio.materialize(
        workspace, out=tmp_path / "c", signals=True, jobs=1, show_progress=False
    )
    assert report.facts["clips_cut_now"] == report.facts["kept"]
    accepted = workspace.segments.filter(pl.col("decision") == "accept").select(
        "segment_id", *SIGNALS
    )
    expected = values(measured_demo).join(
        accepted.select("segment_id"), on="segment_id", how="semi", maintain_order="left"
    )
    assert accepted.equals(expected)
    assert nbaudio.open_corpus(tmp_path / "c").segments["rms_dbfs"].null_count() == 0
    # The same as measure, then materialize; a second call has nothing to do.
    nbaudio.measure(plain, jobs=1, show_progress=False)
    nbaudio.materialize(plain, out=tmp_path / "d", jobs=2, show_progress=False)
    shards = {
        path.relative_to(tmp_path / "c"): path.read_bytes()
        for path in (tmp_path / "c").rglob("*.tar")
    }
    assert shards == {
        path.relative_to(tmp_path / "d"): path.read_bytes()
        for path in (tmp_path / "d").rglob("*.tar")
    }
    assert (
        nbaudio.materialize(workspace, out=tmp_path / "c", signals=True, show_progress=False).facts[
            "clips_cut_now"
        ]
        == 0
    )


def test_conditions_over_signals_select(measured_demo: Path, tmp_path: Path) -> None:
    workspace = copy(measured_demo, tmp_path / "w")
    nbaudio.score(workspace)
    conditions = ["snr_db > 10 or snr_db is null", "not cut_end", "clipped_share < 0.001"]
    report = nbaudio.select(workspace, dev=0, test=0, where=conditions)
    # Segments without a pause stay; two more were not measured.
    assert workspace.segments.filter(decision="accept")["snr_db"].null_count() == 26
    assert report.facts["rejected"]["where snr_db > 10 or snr_db is null"] == 1
    assert report.facts["rejected"]["where not cut_end"] == 1
    assert report.facts["rejected"]["where clipped_share < 0.001"] == 1
    with pytest.raises(InputError, match="there is no column snr; did you mean"):
        nbaudio.select(workspace, where="snr > 10")


def test_corrected_boundaries_are_measured_anew(measured_demo: Path, tmp_path: Path) -> None:
    workspace = copy(measured_demo, tmp_path / "w")
    key = "Qm4vT-8_xLp_45.55-48.57"
    clipped = "Qm4vT-8_xLp_7.2-12.28"
    assert set(views.cut_or_clipped(workspace)["segment_id"]) == {key, clipped}
    segment = workspace.segments.row(by_predicate=pl.col("segment_id") == key, named=True)
    assert segment["cut_end"]
    start, end = segment["start_sample"], segment["end_sample"]
    silence = end + 3371  # 50 ms of the nearest silence after it
    append_corrections(workspace, [Correction(key, start, silence, start, end, "ana", TIME)])
    assert values(workspace).equals(values(measured_demo))  # nothing is applied yet
    nbaudio.review.correct_bounds(workspace)
    assert values(workspace).filter(segment_id=key).select(pl.all().null_count()).row(0)[1:] == (
        1,
    ) * len(SIGNALS)
    assert (
        values(workspace)
        .filter(pl.col("segment_id") != key)
        .equals(values(measured_demo).filter(pl.col("segment_id") != key))
    )
    report = nbaudio.measure(workspace, jobs=1, show_progress=False)
    assert (report.facts["measured_now"], report.facts["already_measured"]) == (1, 105)
    assert not workspace.segments.row(by_predicate=pl.col("segment_id") == key, named=True)[
        "cut_end"
    ]
    assert views.cut_or_clipped(workspace)["segment_id"].to_list() == [clipped]


def test_without_signals_no_segment_counts_as_cut_or_clipped(tmp_path: Path) -> None:
    assert views.cut_or_clipped(demo(tmp_path / "w")).is_empty()


@pytest.mark.slow
def test_a_clip_that_cannot_be_measured_is_cut_as_without_signals(tmp_path: Path) -> None:
    folder = tmp_path / "audio"
    folder.mkdir()
    for name, value in (("a", 0.0), ("b", np.inf), ("c", 1e30)):
        x = (0.3 * np.sin(np.arange(32000) / 7)).astype(np.float32)
        x[9000] = value
        sf.write(folder / f"{name}.wav", x, 16000, subtype="FLOAT")
    nbaudio.ingest("folder", folder, out=tmp_path / "w")
    nbaudio.select(tmp_path / "w", min_similarity=-1, dev=0, test=0)
    shards = []
    for name, signals in (("measured", True), ("plain", False)):
        nbaudio.materialize(
            tmp_path / "w",
            out=tmp_path / name,
            jobs=1,
            signals=signals,
            container="files",
            show_progress=False,
        )
        shutil.rmtree(tmp_path / "w/packs", ignore_errors=True)
        shards.append({path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.flac")})
    assert len(shards[0]) == 3
    assert shards[0] == shards[1]
    found = Workspace.open(tmp_path / "w").segments.sort("recording_id")["rms_dbfs"]
    assert found.is_null().to_list() == [False, True, True]
