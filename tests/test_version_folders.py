"""Versions beside each other: which one is the latest, which one is made next, and from what."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import stores
from test_versions import QUIET, contents, first, grown, recording, save, start

from nbaudio import versions, views
from nbaudio.core.atomic import sha256_file
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.corpus.convert import convert
from nbaudio.corpus.diff import diff
from nbaudio.corpus.layout import IDENTITY
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.verify import verify
from nbaudio.tables.workspace import Workspace


@pytest.fixture
def archive(tmp_path):
    """A workspace of three recordings of several rates and channels; `grow` adds further ones."""

    class Archive:
        def __init__(self):
            self.workspace, *self.tables = start(tmp_path, 3)

        def grow(self, *numbers):
            self.tables = grown(tmp_path, self.workspace, *self.tables, *numbers)

        def next(self, corpus):
            return versions.next_version(self.workspace.path, corpus)

        def bring_up_to_date(self, corpus, **options):
            out, base = self.next(corpus)
            if base is None:
                return first(self.workspace, out, **options)
            return materialize(self.workspace, out=out, base=base, **options, **QUIET)

    return Archive()


@pytest.mark.parametrize("name", ["corpus-v7", pytest.param("a.b (c)+", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_grown_archive_makes_versions_beside_each_other_and_an_unchanged_one_makes_none(
    archive, tmp_path, name
):
    corpus = tmp_path / name
    assert archive.next(corpus) == (str(corpus), None)
    made = {}
    for number, out in enumerate((corpus, tmp_path / f"{name}-v2", tmp_path / f"{name}-v3")):
        archive.bring_up_to_date(corpus)
        made[out] = contents(out)
        assert versions.latest_version(f"{corpus}/") == str(out)
        earlier = list(made)[-2] if number else None
        assert archive.next(corpus) == (str(out), earlier and str(earlier))
        archive.bring_up_to_date(corpus)
        assert {folder: contents(folder) for folder in made} == made
        archive.grow(3 + number)
        assert archive.next(corpus) == (str(tmp_path / f"{name}-v{number + 2}"), str(out))
    assert sorted(path.name for path in tmp_path.iterdir() if name in path.name) == [
        name,
        f"{name}-v2",
        f"{name}-v3",
    ]


@pytest.mark.slow
def test_optional_keys_of_corpus_json_may_be_missing(archive, tmp_path):
    archive.bring_up_to_date(tmp_path / "c")
    info = json.loads((tmp_path / "c/corpus.json").read_text(encoding="utf8"))
    kept = {
        name: value
        for name, value in info.items()
        if name not in ("about", "leakage", "sources", "evidence", "card")
    }
    (tmp_path / "c/corpus.json").write_text(json.dumps(kept), encoding="utf8")
    assert archive.next(tmp_path / "c") == (str(tmp_path / "c"), None)
    assert diff(tmp_path / "c", archive.workspace.path).facts["changed"]["segments"] == 0
    assert (
        convert(tmp_path / "c", out=tmp_path / "zip", container="zip", show_progress=False).problems
        == []
    )
    archive.grow(3)
    archive.bring_up_to_date(tmp_path / "c")
    assert verify(tmp_path / "c-v2", **QUIET).problems == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recording_id", "split", "num_samples", "shard", "text", None])
def test_a_base_with_a_damaged_segments_table_is_refused(archive, tmp_path, name):
    archive.bring_up_to_date(tmp_path / "c")
    archive.grow(3)
    table = tmp_path / "c/segments.parquet"
    odd = pl.col("split").replace("train", None)
    (
        pl.read_parquet(table).drop(name) if name else pl.read_parquet(table).with_columns(odd)
    ).write_parquet(table)
    info = json.loads((tmp_path / "c/corpus.json").read_text(encoding="utf8"))
    info["tables"][table.name] = sha256_file(table)
    (tmp_path / "c/corpus.json").write_text(json.dumps(info), encoding="utf8")
    message = (
        f"the column {name} is missing; is .* a corpus" if name else "of split None is not valid"
    )
    with pytest.raises(InputError, match=message):
        materialize(archive.workspace, out=tmp_path / "d", base=tmp_path / "c", **QUIET)
    with pytest.raises(InputError, match=message):
        convert(tmp_path / "c", out=tmp_path / "zip", container="zip", show_progress=False)


def test_versions_are_found_by_relative_paths(archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "audio")
    archive.bring_up_to_date("../c")
    archive.grow(3)
    assert archive.next("../c") == ("../c-v2", "../c")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["decision", "text", "audio", "window", "speaker"])
def test_every_change_of_shipped_content_makes_a_new_version(archive, tmp_path, how):
    archive.bring_up_to_date(tmp_path / "c")
    recordings, segments = archive.tables
    row = segments[5]
    if how == "audio":
        recordings[0] = recording(tmp_path, 0, seed=99)
    else:
        new = {"decision": {"decision": "reject", "split": None}, "text": {"text": "drugi tekst"}}
        segments[5] = (
            row
            | (
                new
                | {"window": {"end_sample": row["end_sample"] - 7}, "speaker": {"speaker_id": "x"}}
            )[how]
        )
    save(archive.workspace, recordings, segments)
    assert archive.next(tmp_path / "c") == (str(tmp_path / "c-v2"), str(tmp_path / "c"))
    save(archive.workspace, recordings[::-1], [*segments[:5], row, *segments[6:]])
    if how != "audio":  # as before, whatever the order of recordings
        assert archive.next(tmp_path / "c") == (str(tmp_path / "c"), None)


def test_another_transcript_that_ships_is_compared(archive, tmp_path):
    recordings, segments = archive.tables
    segments = [row | {"text_plain": row["text"].upper()} for row in segments]
    save(archive.workspace, recordings, segments)
    archive.bring_up_to_date(tmp_path / "c", text="plain")
    assert archive.next(tmp_path / "c") == (str(tmp_path / "c"), None)
    segments[3] = segments[3] | {"text_plain": "ANOTHER"}
    save(archive.workspace, recordings, segments)
    assert archive.next(tmp_path / "c") == (str(tmp_path / "c-v2"), str(tmp_path / "c"))
    save(archive.workspace, recordings, archive.tables[1])
    with pytest.raises(InputError, match="text 'plain': no column text_plain"):
        archive.bring_up_to_date(tmp_path / "c")


@pytest.mark.slow
@pytest.mark.parametrize("grown_before", [False, True])
def test_an_unfinished_version_is_continued(archive, tmp_path, monkeypatch, grown_before):
    corpus = tmp_path / "c"
    if grown_before:
        archive.bring_up_to_date(corpus)
        archive.grow(3)
    asked = archive.next(corpus)
    with monkeypatch.context() as patch:
        patch.setattr("nbaudio.corpus.materialize.publish", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            archive.bring_up_to_date(corpus)
    assert Path(asked[0], IDENTITY).is_file()
    assert archive.next(corpus) == asked
    assert archive.bring_up_to_date(corpus).facts["clips_cut_now"] == 0
    assert versions.latest_version(corpus) == asked[0]


@pytest.mark.slow
def test_the_latest_version_is_the_base_when_earlier_ones_are_deleted(archive, tmp_path):
    corpus = tmp_path / "c"
    for number in (3, 4):
        archive.bring_up_to_date(corpus)
        archive.grow(number)
    archive.bring_up_to_date(corpus)
    shutil.rmtree(corpus)
    assert archive.next(corpus) == (str(tmp_path / "c-v3"), str(tmp_path / "c-v2"))
    # Without its base a version cannot be made again: the next one has all its shards.
    shutil.rmtree(tmp_path / "c-v2")
    assert archive.next(corpus) == (str(tmp_path / "c-v4"), str(tmp_path / "c-v3"))
    report = archive.bring_up_to_date(corpus)
    assert report.facts["shards_kept_from_before"] == report.facts["shards"]
    assert archive.next(corpus) == (str(tmp_path / "c-v4"), str(tmp_path / "c-v3"))


def test_other_folders_beside_a_corpus_are_no_versions_of_it(archive, tmp_path):
    corpus = tmp_path / "c"
    archive.bring_up_to_date(corpus)
    for name in ("c-v2", "c-v03", "c-v1", "cc-v3", "c-v4-old"):
        shutil.copytree(corpus, tmp_path / name)  # each says that it is version 1
    (tmp_path / "c-v5").mkdir()
    (tmp_path / "c-v6").write_text("")
    assert versions.latest_version(corpus) == str(corpus)
    archive.grow(3)
    with pytest.raises(ExistsError, match="c-v2: holds a corpus with other parameters"):
        archive.bring_up_to_date(corpus)


def test_parameters_that_differ_from_the_base_are_refused(archive, tmp_path):
    archive.bring_up_to_date(tmp_path / "c")
    archive.grow(3)
    with pytest.raises(InputError, match=r"rate is 16000 in the base .*c, not 8000"):
        archive.bring_up_to_date(tmp_path / "c", rate=8000)


@pytest.mark.parametrize(
    "corpus", ["gs://bucket/corpus", pytest.param("hdfs://bucket/a/corpus", marks=pytest.mark.slow)]
)
def test_versions_are_made_and_found_in_a_store(archive, tmp_path, corpus):
    stores.register(tmp_path / "store")
    try:
        for number, (out, base) in enumerate(
            ((corpus, None), (f"{corpus}-v2", corpus), (f"{corpus}-v3", f"{corpus}-v2"))
        ):
            assert archive.next(corpus) == (out, base)
            archive.bring_up_to_date(corpus)
            assert archive.next(corpus) == (out, base)
            archive.grow(3 + number)
        assert versions.latest_version(corpus) == f"{corpus}-v3"
    finally:
        stores.unregister()


def test_views_show_new_segments_but_nothing_on_a_first_run(tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="made", audio=None)
    workspace.save_report("ingest", {"facts": {"segments": 3, "withdrawn": 1}})
    workspace.save_report("select", {"facts": {"kept": 3}})
    assert (len(views.growth(workspace)), len(views.kept_and_new(workspace))) == (0, 0)
    grown_by = {
        "new": 2,
        "changed": 3,
        "changed_by": {"text": 2, "audio_arrived": 1},
        "unchanged": 5,
        "removed": 4,
        "withdrawn": 1,
    }
    statuses = {"new": 1, "changed": 0, "arrived": 1, "lost": 0, "unchanged": 6}
    workspace.save_report("ingest", {"facts": grown_by | {"recordings_by_status": statuses}})
    workspace.save_report(
        "select",
        {"facts": {"kept_from_earlier": {"dev": 2, "train": 5}, "new": {"test": 1, "train": 4}}},
    )
    assert views.growth(workspace).rows() == [
        ("new", 2, 1),
        ("changed", 3, 0),
        ("unchanged", 5, 6),
        ("removed", 4, None),
        ("withdrawn", 1, None),
        ("changed: audio arrived", 1, None),
        ("changed: text", 2, None),
    ]
    assert views.kept_and_new(workspace).rows() == [("train", 5, 4), ("dev", 2, 0), ("test", 0, 1)]
    assert views.growth(workspace).schema["recordings"] == pl.Int64
