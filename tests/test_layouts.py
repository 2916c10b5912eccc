"""Every layout keeps one contract: its segments are there to the sample, its troubles are told, and a corpus comes out of it."""

import re
import unicodedata
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from layout_kinds import LAYOUTS, Made

import nbaudio
from nbaudio.errors import InputError
from nbaudio.ingest import READERS
from nbaudio.ingest.transcripts import PROBLEMS, TRANSCRIPTS
from nbaudio.tables import check_tables
from nbaudio.workspace import Workspace

FORMATS = sorted(READERS)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    """By format: what was made, the report, and the workspace; each made once."""
    done = {}

    def ingest(name: str) -> tuple[Made, nbaudio.Report, Workspace]:
        if name not in done:
            place = tmp_path_factory.mktemp(name)
            made = LAYOUTS[name](place / "source")
            report = nbaudio.ingest(name, made.source, audio=made.audio, out=place / "W", jobs=1, options=made.options)
            done[name] = made, report, Workspace.open(place / "W")
        return done[name]

    return ingest


def test_every_reader_has_a_source_to_be_tested_with():
    assert sorted(LAYOUTS) == FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_segments_are_there_to_the_sample(ingested, name):
    made, _, workspace = ingested(name)
    segments = workspace.segments.join(workspace.recordings.select("recording_id", "path"), on="recording_id", how="left")
    kept = segments.filter((pl.col("decision") == "pending") & pl.col("end_sample").is_not_null())
    found = kept.select("segment_id", "path", "start_sample", "end_sample", "text", "speaker_id").rows()
    assert {key: tuple(values) for key, *values in found} == made.segments
    first = segments.filter(pl.col("segment_id") == next(iter(made.segments))).row(0, named=True)
    assert {column: first[column] for column in made.further} == made.further


@pytest.mark.parametrize("name", FORMATS)
def test_troubles_are_told_and_stop_nothing(ingested, name):
    made, report, workspace = ingested(name)
    problems = workspace.table("problems").select("item", "reason").rows()
    for item, reason in made.problems:
        assert [told for told in problems if told[0] == item and reason in told[1]], (item, reason)
    assert len(problems) == len(made.problems)
    for warning in made.warnings:
        assert [line for line in report.warnings if warning in line], warning
    assert bool(report.problems) == bool(made.problems)


@pytest.mark.parametrize("name", FORMATS)
def test_tables_keep_their_rules(ingested, name):
    _, _, workspace = ingested(name)
    segments = workspace.segments
    assert segments["segment_id"].is_unique().all()
    assert segments["segment_id"].null_count() == 0
    assert workspace.recordings["recording_id"].is_unique().all()
    assert all(unicodedata.is_normalized("NFC", text) for text in segments["text"].drop_nulls())
    for column in ("source_start", "source_end"):
        for time in segments.filter(pl.col("decision") == "pending")[column].drop_nulls():
            assert re.fullmatch(r"\d+(\.\d+)?", time)
            assert Decimal(time) >= 0
    failing = set(check_tables(workspace.recordings, segments)["key"])
    assert failing == set(segments.filter(pl.col("decision") == "reject")["segment_id"])


@pytest.mark.parametrize("name", FORMATS)
def test_a_corpus_comes_out_of_it(ingested, name, tmp_path):
    made, _, workspace = ingested(name)
    scored = nbaudio.score(workspace)
    assert workspace.segments["similarity"].null_count() == len(workspace.segments)
    silent = all(text is None for *_, text, _ in made.segments.values())
    said = "no segment has a transcript" if silent else "no segment has both a transcript and a hypothesis"
    assert [line for line in scored.warnings if line.startswith(said)]
    selected = nbaudio.select(workspace, dev=0, test=0)
    assert selected.facts["kept"] == len(made.segments)
    report = nbaudio.materialize(workspace, out=tmp_path / "C", jobs=1, engine="threading", show_progress=False)
    assert report.problems == []
    verified = nbaudio.verify(tmp_path / "C", jobs=1, engine="threading", show_progress=False)
    assert verified.problems == []
    assert verified.facts["clips decoded"] == len(made.segments)
    corpus = pl.read_parquet(tmp_path / "C/segments.parquet")
    assert dict(corpus.select("segment_id", "text").iter_rows()) == {key: row[3] for key, row in made.segments.items()}
    assert nbaudio.stats(tmp_path / "C").facts["segments kept"] == len(made.segments)
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")} == {"C"}


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_leaves_its_place(ingested, name):
    _, _, workspace = ingested(name)
    place = workspace.path.parent
    assert not list(Path(place).parent.rglob("*PWNED*"))
    assert {path.name for path in place.iterdir()} == {"source", "W"}


@pytest.mark.parametrize("name", FORMATS)
def test_ingest_twice_gives_the_same_tables(ingested, name, tmp_path):
    made, report, workspace = ingested(name)
    before = {path.name: path.read_bytes() for path in workspace.path.glob("*.parquet") if path.name != "segments.parquet"}
    again = nbaudio.ingest(name, made.source, audio=made.audio, out=workspace.path, jobs=2, options=made.options)
    assert {path: (workspace.path / path).read_bytes() for path in before} == before
    assert again.facts == report.facts
    assert workspace.segments["decision"].to_list().count("pending") == report.facts["segments"] - len(
        workspace.segments.filter(pl.col("reason").is_not_null())
    )


@pytest.mark.parametrize("name", FORMATS)
def test_readers_give_the_columns_of_transcripts(name, tmp_path):
    made = LAYOUTS[name](tmp_path)
    found = READERS[name](made.source, **made.options)
    assert dict(list(found.frame.schema.items())[: len(TRANSCRIPTS)]) == dict(TRANSCRIPTS)
    assert found.problems.schema == PROBLEMS


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_not_the_layout_is_one_clear_error(name, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"\x00\xff of something else")
    for source in ("none", "empty", "file"):
        with pytest.raises(InputError, match=source):
            nbaudio.ingest(name, tmp_path / source, out=tmp_path / "W")
    assert not (tmp_path / "W").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_an_unknown_option_names_the_known_ones(name, tmp_path):
    with pytest.raises(InputError, match=rf"option 'windwo' is unknown to {name}; known are"):
        nbaudio.ingest(name, tmp_path, out=tmp_path / "W", options={"windwo": "10"})
