"""Which column of a table holds which field, and the source's ids of recordings."""

import json
import re

import polars as pl
import pytest
from specimens import SOURCES, write_table
from typer.testing import CliRunner

from nbaudio import ingest
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.formats import kaldi, lhotse
from nbaudio.storage.workspace import Workspace

PLAIN = {
    "id": ["u1", "u2"],
    "file": ["a.wav", "b.wav"],
    "speaker": ["ana", "ben"],
    "start": ["0", "1"],
    "duration": ["1.5", "2"],
    "sentence": ["Dobar dan.", "Da."],
}


def columns_of(facts):
    return {row["name"]: row["column"] for row in facts["columns"]}


def taken(source, out, **options):
    report = ingest("table", source, out=out, options=options)
    return report, Workspace.open(out).segments


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "xlsx"])
def test_plainly_called_columns_are_known_without_an_option(tmp_path, ending):
    report, segments = taken(write_table(tmp_path / f"t.{ending}", PLAIN), tmp_path / "w")
    found = segments.select(
        "segment_id", "recording_id", "speaker_id", "source_start", "source_end", "text"
    ).rows()
    assert found == [
        ("u1", "a", "ana", "0", "1.5", "Dobar dan."),
        ("u2", "b", "ben", "1", "3", "Da."),
    ]
    guesses = {"name": "file", "text": "sentence", "speaker_id": "speaker", "segment_id": "id"}
    assert columns_of(report.facts) == guesses | {"start": "start", "duration": "duration"}
    for key, column in guesses.items():
        assert [
            line
            for line in report.warnings
            if line.startswith(f"{key} is taken from column {column!r}: --option {key}=")
        ]


def test_the_guesses_are_reported_as_text_and_as_json(tmp_path):
    source = write_table(tmp_path / "t.csv", PLAIN)
    told = CliRunner().invoke(app, ["ingest", "table", str(source), "--out", str(tmp_path / "w")])
    assert "speaker_id is taken from column 'speaker'" in told.stdout
    assert re.search("^ *speaker_id +speaker$", told.stdout, re.MULTILINE)
    as_json = CliRunner().invoke(
        app, ["ingest", "table", str(source), "--out", str(tmp_path / "w"), "--json"]
    )
    assert columns_of(json.loads(as_json.stdout)["facts"])["speaker_id"] == "speaker"


def test_a_guess_can_be_overruled_by_another_column_and_by_none(tmp_path):
    columns = PLAIN | {"who": ["eva", "eva"]}
    report, segments = taken(
        write_table(tmp_path / "t.csv", columns),
        tmp_path / "w",
        speaker_id="who",
        segment_id="none",
    )
    assert segments["speaker_id"].to_list() == ["eva", "eva"]
    assert segments["segment_id"].to_list() == ["a_0-1.5", "b_1-3"]
    # What was not taken stays as a column of the source.
    assert segments.select("speaker", "id").rows() == [("ana", "u1"), ("ben", "u2")]
    assert not [line for line in report.warnings if line.startswith(("speaker_id", "segment_id"))]
    _, segments = taken(tmp_path / "t.csv", tmp_path / "w", speaker_id="none", text="none")
    assert segments.select("speaker_id", "text").rows() == [(None, None), (None, None)]
    with pytest.raises(InputError, match="which column is name"):
        taken(tmp_path / "t.csv", tmp_path / "w", name="none")


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_columns_the_same_is_taken_whatever_their_order_and_the_others_are_named(
    tmp_path, order
):
    further = {"path": ["c.wav", "d.wav"], "transcript": ["ne", "ni"], "text": ["da", "do"]}
    columns = dict([*PLAIN.items(), *further.items()][::order])
    report, segments = taken(write_table(tmp_path / "t.csv", columns), tmp_path / "w")
    assert segments["text"].to_list() == ["da", "do"]
    assert segments["recording_id"].to_list() == ["c", "d"]
    assert segments.select("sentence", "transcript").row(0) == ("Dobar dan.", "ne")
    said = (
        "text is taken from column 'text', not from 'transcript' or 'sentence': "
        "--option text=COLUMN selects another"
    )
    assert [line for line in report.warnings if line.startswith(said)]


def test_upper_case_and_blanks_in_a_header_do_not_count(tmp_path):
    columns = {name.upper() if name != "id" else " Id ": values for name, values in PLAIN.items()}
    _, segments = taken(write_table(tmp_path / "t.jsonl", columns), tmp_path / "w")
    assert segments.select("segment_id", "speaker_id", "text", "source_end").row(0) == (
        "u1",
        "ana",
        "Dobar dan.",
        "1.5",
    )


@pytest.mark.parametrize("ids", [["r1", "r1"], ["r1", ""]])
def test_an_id_that_does_not_tell_segments_apart_is_not_theirs(tmp_path, ids):
    report, segments = taken(write_table(tmp_path / "t.csv", PLAIN | {"id": ids}), tmp_path / "w")
    assert segments["segment_id"].to_list() == ["a_0-1.5", "b_1-3"]
    assert segments["id"].to_list() == ids
    assert report.problems == []
    assert "segment_id" not in columns_of(report.facts)
    assert [
        line
        for line in report.warnings
        if line.startswith("column 'id' has repeated values and is not used")
    ]
    _, segments = taken(tmp_path / "t.csv", tmp_path / "w", segment_id="id")
    assert segments["segment_id"][0] == "r1"


def test_a_duration_beside_start_and_end_is_kept(tmp_path):
    _, segments = taken(
        write_table(tmp_path / "t.csv", PLAIN | {"end": ["1", "2"]}), tmp_path / "w"
    )
    assert segments.select("source_end", "duration").rows() == [("1", "1.5"), ("2", "2")]


def test_ids_of_which_few_repeat_are_ids(tmp_path):
    columns = {
        "id": [f"u{n // 2 if n == 1 else n}" for n in range(20)],
        "file": ["a.wav"] * 20,
        "text": ["da"] * 20,
    }
    report, segments = taken(write_table(tmp_path / "t.csv", columns), tmp_path / "w")
    assert segments["segment_id"][:3].to_list() == ["u0", "u0#2", "u2"]
    assert [line for line in report.problems if line.startswith("u0: an id of 2 segments")]


def test_columns_of_a_dataset_are_reported_and_can_be_left_out(tmp_path):
    clip = {"bytes": None, "path": "a.wav"}
    rows = {"audio": [clip, clip], "sentence": ["da", "ne"], "speaker": ["x", "y"], "id": [7, 8]}
    pl.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    report = ingest("hf", tmp_path / "t.parquet", out=tmp_path / "w")
    assert columns_of(report.facts) == {
        "text": "sentence",
        "speaker_id": "speaker",
        "segment_id": "id",
    }
    assert [
        line for line in report.warnings if line.startswith("text is taken from column 'sentence'")
    ]
    ingest("hf", tmp_path / "t.parquet", out=tmp_path / "w", options={"speaker": "none"})
    assert Workspace.open(tmp_path / "w").segments["speaker_id"].to_list() == [None, None]


# --- ids of recordings

NAME = "7. sjednica [HlauTe_NK6U].wav"


def recordings(out):
    return Workspace.open(out).recordings.select("recording_id", "source_recording").rows()


@pytest.mark.parametrize("with_audio", [True, False])
@pytest.mark.parametrize("said", [NAME, "7.  sjednica [HlauTe_NK6U]", "reco000"])
def test_ids_of_a_wav_scp_are_kept(tmp_path, recorded, said, with_audio):
    audio = tmp_path / "audio"
    audio.mkdir()
    for name in (NAME, "other.wav"):
        (audio / name).write_bytes(recorded(".wav", 2, 16000).read_bytes())
    lines = [{"file": name, "start": 0, "end": 1, "words": ["da"]} for name in (said, "other.wav")]
    (tmp_path / "asr.json").write_text("\n".join(map(json.dumps, lines)), encoding="utf8")
    (tmp_path / "wav.scp").write_text(
        f"reco000 {NAME}\nreco001 unused.wav\nreco002 {NAME}\n", encoding="utf8"
    )
    folder = {"audio": audio} if with_audio else {}
    ingest(
        "parlaspeech",
        tmp_path / "asr.json",
        names=tmp_path / "wav.scp",
        out=tmp_path / "w",
        **folder,
    )
    assert sorted(recordings(tmp_path / "w")) == [
        ("HlauTe_NK6U", "reco000 reco002"),
        ("other", None),
    ]


def test_names_of_a_table_are_no_ids(tmp_path):
    (tmp_path / "asr.json").write_text(
        '{"file": "x", "start": 0, "end": 1, "words": ["da"]}', encoding="utf8"
    )
    (tmp_path / "names.csv").write_text("name,path\nx,a.wav\n", encoding="utf8")
    ingest("parlaspeech", tmp_path / "asr.json", names=tmp_path / "names.csv", out=tmp_path / "w")
    assert "source_recording" not in Workspace.open(tmp_path / "w").recordings.columns


def test_ids_of_kaldi_and_lhotse_are_kept(tmp_path):
    folder = SOURCES["kaldi"](tmp_path / "kaldi", [("a.wav", "da")])
    assert kaldi.read(folder).frame["source_recording"].to_list() == ["r0"]
    cut = {
        "id": "c",
        "start": 0,
        "recording": {
            "id": "reco1",
            "sources": [{"type": "file", "channels": [0], "source": "a.wav"}],
        },
    }
    cut["supervisions"] = [
        {"id": "u1", "recording_id": "reco1", "start": 0, "duration": 1, "text": "da"}
    ]
    (tmp_path / "cuts.jsonl").write_text(json.dumps(cut), encoding="utf8")
    assert lhotse.read(tmp_path / "cuts.jsonl").frame["source_recording"].to_list() == ["reco1"]
    for format, source, key in (
        ("kaldi", folder, "r0"),
        ("lhotse", tmp_path / "cuts.jsonl", "reco1"),
    ):
        ingest(format, source, out=tmp_path / format / "w")
        assert recordings(tmp_path / format / "w") == [("a", key)]
