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
from nbaudio.tables.workspace import Workspace

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
def test_columns_with_usual_names_are_recognized_without_options(tmp_path, ending):
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


def test_an_option_replaces_a_guessed_column_or_leaves_the_field_out(tmp_path):
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
def test_the_choice_among_candidate_columns_does_not_depend_on_their_order(tmp_path, order):
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


def test_case_and_blanks_in_a_header_are_ignored(tmp_path):
    columns = {name.upper() if name != "id" else " Id ": values for name, values in PLAIN.items()}
    _, segments = taken(write_table(tmp_path / "t.jsonl", columns), tmp_path / "w")
    assert segments.select("segment_id", "speaker_id", "text", "source_end").row(0) == (
        "u1",
        "ana",
        "Dobar dan.",
        "1.5",
    )


@pytest.mark.parametrize("ids", [["r1", "r1"], ["r1", ""]])
def test_an_id_column_with_repeated_values_is_not_the_segment_id(tmp_path, ids):
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


def notes_that_start_with(report, start):
    """The notes that start with some words."""
    return [line for line in report.warnings if line.startswith(start)]


# --- names as the tools that write tables have them

TOOLS = {
    "nemo": (
        {
            "audio_filepath": ["a.wav"],
            "offset": ["1.5"],
            "duration": ["2"],
            "text": ["da"],
            "pred_text": ["ne"],
            "speaker": ["ana"],
        },
        ("a", "1.5", "3.5", "da", "ne", "ana"),
    ),
    "audformat": (
        {
            "file": ["a.wav"],
            "onset": ["1"],
            "offset": ["2.25"],
            "duration": ["1.25"],
            "transcription": ["da"],
            "speaker": ["ana"],
        },
        ("a", "1", "2.25", "da", None, "ana"),
    ),
    "common voice": (
        {"path": ["a.mp3"], "sentence": ["da"], "client_id": ["1f"], "duration[ms]": ["2500"]},
        ("a", None, None, "da", None, "1f"),
    ),
    "deepspeech": (
        {"wav_filename": ["a.wav"], "wav_filesize": ["44"], "transcript": ["da"]},
        ("a", None, None, "da", None, None),
    ),
    "praat": (
        {"filename": ["a.wav"], "tmin": ["0.5"], "text": ["da"], "tmax": ["1"]},
        ("a", "0.5", "1", "da", None, None),
    ),
    "a recognizer": (
        {
            "recording_id": ["a"],
            "begin": ["0.5"],
            "stop": ["1"],
            "reference": ["da"],
            "hypothesis": ["ne"],
            "spk": ["ana"],
        },
        ("a", "0.5", "1", "da", "ne", "ana"),
    ),
    "a spreadsheet": (
        {
            "File Name": ["a.wav"],
            "Start (s)": ["0.5"],
            "End (s)": ["1"],
            "Transcription": ["da"],
            "ASR": ["ne"],
            "Speaker ID": ["ana"],
        },
        ("a", "0.5", "1", "da", "ne", "ana"),
    ),
    "milliseconds": (
        {
            "audioPath": ["a.wav"],
            "startMs": ["1250"],
            "endMs": ["2000.5"],
            "normalized_text": ["da"],
            "prediction": ["ne"],
            "speaker_name": ["ana"],
        },
        ("a", "1.25", "2.0005", "da", "ne", "ana"),
    ),
    "ours": (
        {
            "recording_id": ["a"],
            "source_start": ["0.50"],
            "source_end": ["1"],
            "start_sample": ["8000"],
            "end_sample": ["16000"],
            "text": ["da"],
            "asr_text": ["ne"],
        },
        ("a", "0.50", "1", "da", "ne", None),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_tables_are_read_as_the_tools_that_write_them_name_their_columns(tmp_path, tool):
    columns, expected = TOOLS[tool]
    report, segments = taken(write_table(tmp_path / "t.csv", columns), tmp_path / "w")
    found = segments.select(
        "recording_id", "source_start", "source_end", "text", "asr_text", "speaker_id"
    )
    assert found.rows() == [expected]
    for row in report.facts["columns"]:
        guess = f"{row['name']} is taken from column {row['column']!r}"
        assert bool(notes_that_start_with(report, guess)) == (row["name"] != row["column"])


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "xlsx"])
@pytest.mark.parametrize("option", [{}, {"start": "start_ms", "duration": "duration_ms"}])
def test_columns_named_as_milliseconds_are_converted_exactly(tmp_path, ending, option):
    columns = {
        "file": ["a.wav", "a.wav", "b.wav"],
        "text": ["da", "ne", "evo"],
        "start_ms": [0, 1001, 33333],
        "duration_ms": [1000.5, 0.125, 1e-3],
    }
    if ending == "csv":
        columns["duration_ms"] = ["1000.5", "0.125", "0.001"]
    report, segments = taken(
        write_table(tmp_path / f"t.{ending}", columns), tmp_path / "w", **option
    )
    assert segments.select("source_start", "source_end").rows() == [
        ("0", "1.0005"),
        ("1.001", "1.001125"),
        ("33.333", "33.333001"),
    ]
    assert notes_that_start_with(
        report, "'start_ms' and 'duration_ms': read as milliseconds, as the name says"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"offset": ["1"]}, "is column 'offset' where segments start, or where they end?"),
        ({"offset": ["1"], "end": ["2"]}, "is column 'offset' where segments start"),
        ({"start": ["1"], "offset": ["2"]}, "is column 'offset' where segments start"),
        ({"start_us": ["8000"], "end_us": ["9000"]}, "column 'start_us' is in us, a unit of time"),
        ({"begin_frames": ["80"], "duration": ["1"]}, "column 'begin_frames' is in frames"),
        ({"start": ["1"], "end_frame": ["9"]}, "column 'end_frame' is in frame"),
        ({"start": ["0:01:02.5"], "end": ["0:01:03"]}, "column 'start' has times such as '0:01:02"),
        ({"onset": ["1"], "stop_time": ["00:01"]}, "column 'stop_time' has times such as '00:01'"),
        ({"start": ["00:00:01:12"], "end": ["3"]}, "column 'start' has times such as '00:00:01:12"),
        ({"start": ["1m30s"], "end": ["3"]}, "column 'start' has times such as '1m30s'"),
        ({"in": ["00:00:01:12"], "out": ["00:00:02;00"]}, "columns 'in' and 'out' look like times"),
        (
            {"start": ["0 days 00:00:01.5"], "end": ["0 days 00:00:02"]},
            "column 'start' has times such as '0 days 00:00:01.5'",
        ),
    ],
)
def test_ambiguous_columns_of_times_are_refused_with_the_options_to_choose(tmp_path, columns, said):
    table = {"file": ["a.wav"], "text": ["da"], **columns}
    source = write_table(tmp_path / "t.csv", table)
    done = CliRunner().invoke(
        app, ["ingest", "table", str(source), "--out", str(tmp_path / "w"), "--json"]
    )
    line = json.loads(done.stdout)["error"]
    assert done.exit_code == 2
    assert line.startswith(f"{source}: {said}")
    assert re.search(r"--option (start|end)=", line)
    # What it names helps.
    _, segments = taken(source, tmp_path / "v", start="none", end="none", duration="none")
    assert segments.select("source_start", "source_end").rows() == [(None, None)]


def test_an_option_makes_an_offset_column_the_end(tmp_path):
    source = write_table(
        tmp_path / "t.csv", {"file": ["a.wav"], "text": ["da"], "begin": ["1"], "offset": ["2"]}
    )
    report, segments = taken(source, tmp_path / "w", end="offset")
    assert segments.select("source_start", "source_end").rows() == [("1", "2")]
    assert not notes_that_start_with(report, "columns of the source that are kept")


def test_an_offset_beside_start_and_end_or_duration_is_kept(tmp_path):
    plain = {"file": ["a.wav"], "text": ["da"], "start": ["1"]}
    for span in ({"end": ["2"]}, {"duration": ["1"]}):
        source = write_table(tmp_path / "t.csv", {**plain, **span, "offset": ["7"]})
        report, segments = taken(source, tmp_path / "w")
        found = segments.select("source_start", "source_end", "source_offset")
        assert found.rows() == [("1", "2", "7")]
        assert notes_that_start_with(
            report, "columns of the source that are kept, but not used: offset"
        )


@pytest.mark.parametrize(
    ("column", "values", "splits"),
    [
        ("subset", ["train-clean-360", "dev_other"], ["train-clean-360", "dev_other"]),
        ("Partition", ["TRAIN", "Test"], ["TRAIN", "Test"]),
        ("set", ["train", ""], ["train", None]),
        ("fold", ["valid", "test"], ["valid", "test"]),
        ("split", ["clean", "other"], ["clean", "other"]),
        ("subset", ["clean", "test"], None),
        ("fold", ["1", "2"], None),
        ("set", ["", ""], [None, None]),
    ],
)
def test_a_column_is_the_split_if_its_values_are_split_names(tmp_path, column, values, splits):
    report, segments = taken(
        write_table(tmp_path / "t.csv", PLAIN | {column: values}), tmp_path / "w"
    )
    has_splits = "source_split" in segments.columns
    assert (segments["source_split"].to_list() if has_splits else None) == splits
    if splits is None:
        assert segments[column].to_list() == values
        assert notes_that_start_with(
            report,
            f"column {column!r} has values that name no split, such as {values[0]!r}, and is not "
            f"used as split: --option split={column} uses it",
        )
        _, segments = taken(tmp_path / "t.csv", tmp_path / "v", split=column)
        assert segments["source_split"].to_list() == values


def test_of_several_candidate_columns_the_one_with_split_names_is_used(tmp_path):
    further = {"set": ["a", "b"], "subset": ["clean", "other"], "partition": ["train", "test"]}
    report, segments = taken(write_table(tmp_path / "t.csv", PLAIN | further), tmp_path / "w")
    assert segments["source_split"].to_list() == ["train", "test"]
    assert notes_that_start_with(
        report, "columns of the source that are kept, but not used: set, subset"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("prediction", ["0.93", "1"], "has no words and is not used as asr_text"),
        ("pred", ["", ""], "has no words and is not used as asr_text"),
        ("from", ["librivox", "radio"], "has no numbers and is not used as start"),
        ("begin", ["1", "2"], "has neither an end nor a duration beside it and is not used as sta"),
        ("to", ["1", "2"], "has no start beside it and is not used as end"),
        ("length", ["long", "short"], "has no numbers and is not used as duration"),
    ],
)
def test_a_column_whose_values_do_not_fit_its_field_is_reported(tmp_path, column, values, reason):
    table = {"file": ["a.wav", "b.wav"], "text": ["da", "ne"], column: values}
    report, segments = taken(write_table(tmp_path / "t.csv", table), tmp_path / "w")
    kept = column if column in segments.columns else f"source_{column}"
    assert segments.select("source_start", "source_end", "asr_text", kept).rows() == [
        (None, None, None, value) for value in values
    ]
    assert notes_that_start_with(report, f"column {column!r} {reason}")
    assert notes_that_start_with(
        report, f"columns of the source that are kept, but not used: {column}"
    )


def test_columns_of_dates_and_lists_are_not_used_as_times_or_texts(tmp_path):
    frame = pl.DataFrame(
        {
            "file": ["a.wav"],
            "text": ["da"],
            "start_time": ["2020-01-01"],
            "end_time": ["2020-01-02"],
            "hypothesis": [["da"]],
        }
    ).with_columns(pl.col("start_time", "end_time").str.to_datetime("%Y-%m-%d"))
    frame.write_parquet(tmp_path / "t.parquet")
    report, segments = taken(tmp_path / "t.parquet", tmp_path / "w")
    assert segments.select("source_start", "source_end", "asr_text").rows() == [(None, None, None)]
    for column in ("start_time", "end_time", "hypothesis"):
        assert notes_that_start_with(
            report, f"column {column!r} has neither texts nor numbers and is not used"
        )


def test_a_column_assigned_by_an_option_is_used_for_no_other_field(tmp_path):
    table = {"file": ["a.wav"], "prediction": ["da"], "id": ["u1"]}
    source = write_table(tmp_path / "t.csv", table)
    _, segments = taken(source, tmp_path / "w", text="prediction", speaker_id="file")
    assert segments.select("text", "asr_text", "speaker_id", "recording_id").rows() == [
        ("da", None, "a.wav", "a")
    ]


@pytest.mark.slow
def test_every_column_that_is_not_used_is_named(tmp_path):
    further = {"snr": ["3", "4"], "decision": ["x", "y"], "narrator": ["eva", "iva"]}
    report, segments = taken(
        write_table(tmp_path / "t.csv", PLAIN | {"end": ["1", "2"]} | further), tmp_path / "w"
    )
    [line] = notes_that_start_with(report, "columns of the source that are kept")
    assert line == (
        "columns of the source that are kept, but not used: duration, snr, decision, narrator"
    )
    assert segments.select("duration", "snr", "source_decision", "narrator").row(0) == (
        "1.5",
        "3",
        "x",
        "eva",
    )
    report, _ = taken(write_table(tmp_path / "u.csv", PLAIN), tmp_path / "v")
    assert not notes_that_start_with(report, "columns of the source that are kept")


def test_a_table_of_recordings_in_parquet_names_the_format_that_reads_it(tmp_path):
    clip = {"bytes": b"RIFF", "path": "a.wav"}
    pl.DataFrame({"audio": [clip], "text": ["da"]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="audio has recordings, as 'nbaudio ingest hf' reads them"):
        taken(tmp_path / "t.parquet", tmp_path / "w")


def test_an_id_column_with_few_repeats_is_used_and_repeats_are_numbered(tmp_path):
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


@pytest.mark.slow
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


def test_names_in_a_names_file_are_not_stored_as_recording_ids(tmp_path):
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
