"""join: further texts, hypotheses and columns; what does not match exactly one segment is listed,
never guessed."""

import json
from decimal import Decimal

import pandas as pd
import polars as pl
import pytest
from spreadsheets import write_table_ods
from typer.testing import CliRunner

import nbaudio
from nbaudio import Workspace, views, widgets
from nbaudio.cli.commands import common
from nbaudio.core.errors import InputError
from nbaudio.tables.schemas import hypothesis_names, text_names


@pytest.fixture
def workspace(tmp_path):
    made = Workspace.create(tmp_path / "w", source="x")
    recordings = pl.DataFrame(
        {"recording_id": ["one", "two"], "path": ["a b/Sitting 1.wav", "a b/Sitting 2.mp3"]}
    )
    names = pl.DataFrame(
        {"name": ["raw/first.flac", "raw/second.flac"], "recording_id": ["one", "two"]}
    )
    segments = pl.DataFrame(
        {
            "segment_id": ["s1", "s2", "s3", "s4"],
            "recording_id": ["one", "one", "two", "two"],
            "source_start": ["0", "1.50", "0.0", "7.25"],
            "source_end": ["1.5", "3.2", "2", "9.000"],
            "text": ["evo blic", "dobar dan", "da", "ne"],
            "asr_text": ["evo blitz", "dobar dan", None, "ne"],
            "own": [1, 2, 3, 4],
        }
    )
    made.save(recordings=recordings, names=names, segments=segments)
    return made


def write(path, frame):
    match path.suffix:
        case ".csv":
            frame.write_csv(path)
        case ".tsv":
            frame.write_csv(path, separator="\t")
        case ".jsonl" | ".json":
            frame.write_ndjson(path)
        case ".parquet":
            frame.write_parquet(path)
        case ".xlsx":
            frame.write_excel(path)
        case ".ods":
            write_table_ods(path, [frame.columns, *frame.rows()])
    return path


@pytest.mark.parametrize(
    "ending", [".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx", ".ods", "polars", "pandas"]
)
def test_a_table_of_any_kind_is_joined_by_id(workspace, tmp_path, ending):
    frame = pl.DataFrame(
        {"segment_id": ["s4", "s1", "s2"], "text": ["Ne!", "Evo Blic.", "Dobar dan"]}
    )
    table = {"polars": frame, "pandas": frame.to_pandas()}.get(ending)
    report = nbaudio.join(
        workspace,
        write(tmp_path / f"t{ending}", frame) if table is None else table,
        text="verbatim",
    )
    assert workspace.segments["text_verbatim"].to_list() == ["Evo Blic.", "Dobar dan", None, "Ne!"]
    assert workspace.segments["text"].to_list() == ["evo blic", "dobar dan", "da", "ne"]
    assert (
        report.facts["matched"],
        report.facts["new"],
        report.facts["without"],
        report.problems,
    ) == (3, 3, 1, [])
    assert text_names(workspace.segments.columns) == {
        "raw": "text_raw",
        "verbatim": "text_verbatim",
    }


@pytest.mark.parametrize(
    "names",
    [
        ["one", "two"],
        ["a b/Sitting 1.wav", "a b/Sitting 2.mp3"],
        ["Sitting 1.wav", "x/y/Sitting 2"],
        ["first", "raw\\second.flac"],
    ],
)
def test_times_match_as_exact_decimals_in_any_notation(workspace, names):
    rows = [
        (names[0], "1.5", "3.20", "dobar dan"),
        (names[1], "0", "2.000", "da"),
        (names[0], 0.0, 1.5, "evo"),
        (names[1], "7.2500001", "9", "no"),
    ]
    frame = pl.DataFrame(
        [tuple(map(str, row)) for row in rows], schema=["file", "start", "end", "asr"], orient="row"
    )
    report = nbaudio.join(workspace, frame, on="file,start,end", hypothesis="big")
    assert workspace.segments["asr_text_big"].to_list() == ["evo", "dobar dan", "da", None]
    assert report.problems == [f"row 4: {names[1]} 7.2500001 9: matches no segment"]
    listed = workspace.table("joined/asr_text_big")
    assert listed.select("line", "reason", "value").rows() == [(4, "matches no segment", "no")]


def test_times_as_floats_and_durations_match(workspace):
    frame = pd.DataFrame(
        {
            "audio_filepath": ["one", "two"],
            "offset": [1.5, 7.25],
            "duration": [1.7, 1.75],
            "pred_text": ["dd", "n"],
        }
    )
    nbaudio.join(workspace, frame, on=("file", "start", "end"), hypothesis="nemo")
    assert workspace.segments["asr_text_nemo"].to_list() == [None, "dd", None, "n"]


@pytest.mark.parametrize(
    "on", ["hashname=segment_id", ["hashname=segment_id"], " hashname = segment_id "]
)
def test_a_column_of_another_name_holds_the_ids(workspace, on):
    frame = pl.DataFrame(
        {"segment_id": ["s2", "s2"], "hashname": ["s4", "s1"], "text": ["Ne!", "Evo."]}
    )
    nbaudio.join(workspace, frame, on=on, text="verbatim")
    assert workspace.segments["text_verbatim"].to_list() == ["Evo.", None, None, "Ne!"]


@pytest.mark.parametrize(
    "on",
    [
        "clip=file,from=start,to=end",
        "to=end,clip=file,from=start",
        "clip=file,from=start,dur=duration",
        "clip=file,start,to=end",
        ["clip=file", "from=start", "a=b,c=end"],
    ],
)
def test_columns_of_other_names_hold_files_and_times(workspace, tmp_path, on):
    table = pl.DataFrame(
        {
            "clip": ["one", "two"],
            "from": ["1.5", "7.25"],
            "to": ["3.2", "9"],
            "dur": ["1.7", "1.75"],
            "start_time": ["1.5", "7.25"],
            "a=b,c": ["3.2", "9"],
            "pred_text": ["dd", "n"],
        }
    )
    report = nbaudio.join(workspace, write(tmp_path / "t.csv", table), on=on, hypothesis="m")
    assert report.problems == []
    assert workspace.segments["asr_text_m"].to_list() == [None, "dd", None, "n"]


def test_a_column_of_ids_is_named_on_the_command_line(workspace, tmp_path):
    table = pl.DataFrame({"hashname": ["s1", "zz"], "words": ["Evo.", "Ne."]})
    path = write(tmp_path / "t.tsv", table)
    call = ["join", str(workspace.path), str(path), "--text", "v", "--json"]
    done = CliRunner().invoke(common.app, [*call, "--on", "hashname=segment_id"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["problems"] == ["line 3: zz: matches no segment"]
    assert workspace.segments["text_v"].to_list() == ["Evo.", None, None, None]
    for on, said in (
        (
            "name=segment_id",
            "on=name=segment_id: there is no column 'name'; it has hashname, words",
        ),
        (
            "segment_id",
            "no column segment_id (or segment_id, id, key, utt_id, utterance_id); it has "
            "hashname, words; one of another name is COLUMN=segment_id",
        ),
        (
            "segment_id=hashname",
            "on=segment_id=hashname: must be segment_id or file,start,end "
            "(or file,start,duration), or recording_id; a column of another name is COLUMN=KEY, "
            "such as hashname=segment_id; "
            f"{path} has hashname, words",
        ),
        ("hashname=segment_id,hashname=segment_id", "must be segment_id or file,start,end"),
        ("hashname=file,start", "must be segment_id or file,start,end"),
    ):
        wrong = CliRunner().invoke(common.app, [*call, "--on", on])
        assert wrong.exit_code == 2
        assert said in json.loads(wrong.stdout)["error"]


def test_a_row_within_tolerance_of_two_segments_is_not_joined(workspace):
    near = pl.DataFrame(
        {
            "file": ["one", "two", "two"],
            "start": ["1.49", "0.02", "7.2"],
            "end": ["3.21", "2.0", "9.1"],
            "text": ["a", "b", "c"],
        }
    )
    assert (
        nbaudio.join(
            workspace, near, on="file,start,end", text="near", tolerance=Decimal("0.02")
        ).facts["matched"]
        == 2
    )
    assert workspace.segments["text_near"].to_list() == [None, "a", "b", None]
    wide = nbaudio.join(workspace, near, on="file,start,end", text="near", tolerance=1.72)
    assert workspace.segments["text_near"].to_list() == [None, None, "b", "c"]
    assert wide.facts["gone"] == 1
    assert wide.problems == ["row 1: one 1.49 3.21: matches several segments"]


def test_two_rows_of_one_segment_are_listed_and_not_used(workspace, tmp_path):
    frame = pl.DataFrame(
        {"id": ["s1", "s2", "s1", "zz", ""], "asr_text": ["x", "y", "z", "q", "r"]}
    )
    report = nbaudio.join(workspace, write(tmp_path / "t.csv", frame), hypothesis="b")
    assert workspace.segments["asr_text_b"].to_list() == [None, "y", None, None]
    assert report.problems == [
        "line 2: s1: the table has this segment several times",
        "line 4: s1: the table has this segment several times",
        "line 5: zz: matches no segment",
        "line 6: a key is empty or no number",
    ]
    assert workspace.table("joined/asr_text_b")["value"].to_list() == ["x", "z", "q", "r"]


def test_a_recording_with_an_ambiguous_or_unknown_name_is_listed(workspace):
    workspace.save(
        recordings=pl.DataFrame(
            {"recording_id": ["one", "two"], "path": ["x/same.wav", "y/same.wav"]}
        )
    )
    frame = pl.DataFrame(
        {
            "file": ["same.wav", "other", "x/same.wav"],
            "start": ["0"] * 3,
            "end": ["1.5"] * 3,
            "text": list("abc"),
        }
    )
    report = nbaudio.join(workspace, frame, on="file,start,end", text="t")
    assert workspace.segments["text_t"].to_list() == ["c", None, None, None]
    assert [line.rpartition(": ")[2] for line in report.problems] == [
        "several recordings have this name",
        "no recording has this name",
    ]


def test_files_in_different_folders_are_not_one_recording(workspace):
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["one", "two"], "path": ["x/1.wav", "2.wav"]})
    )
    rows = [
        ("/old/x/1.mp3", "0", "1.5", "a"),
        ("/old/y/1.mp3", "1.50", "3.2", "b"),
        ("v/2.wav", "0.0", "2", "c"),
        ("w/2.wav", "7.25", "9", "d"),
    ]
    frame = pl.DataFrame(rows, schema=["file", "start", "end", "text"], orient="row")
    report = nbaudio.join(workspace, frame, on="file,start,end", text="t")
    assert workspace.segments["text_t"].to_list() == ["a", None, None, None]
    assert [line.rpartition(": ")[2] for line in report.problems] == [
        "no recording has this name"
    ] * 3


def test_joining_again_replaces_and_says_what_changed(workspace):
    first = pl.DataFrame({"segment_id": ["s1", "s2", "s3"], "text": ["a", "b", "c"]})
    nbaudio.join(workspace, first, hypothesis="m")
    nbaudio.score(workspace, hypothesis="m")
    assert "wer_m" in workspace.segments.columns
    again = nbaudio.join(
        workspace,
        pl.DataFrame({"segment_id": ["s1", "s2", "s4"], "text": ["a", "B", "d"]}),
        hypothesis="m",
    )
    assert {name: again.facts[name] for name in ("new", "changed", "gone", "unchanged")} == {
        "new": 1,
        "changed": 1,
        "gone": 1,
        "unchanged": 1,
    }
    assert workspace.segments["asr_text_m"].to_list() == ["a", "B", None, "d"]
    assert "wer_m" not in workspace.segments.columns  # it was about other words


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"column": "own"},
            "the source has a column own, which stays; choose another name, such as own_2",
        ),
        ({"column": "text"}, "other steps write such a column"),
        ({"column": "similarity"}, "other steps write such a column"),
        ({"column": "asr_text_x"}, "other steps write such a column"),
        ({"text": "normalized"}, "other steps write such a column"),
        ({"text": "disputed"}, "other steps write such a column"),
        ({"hypothesis": "asr"}, "another text has this name"),
        ({"text": "no blanks"}, "a name has letters from a to z"),
        ({"text": "a", "hypothesis": "b"}, "give one of text, hypothesis and column"),
        ({}, "give one of text, hypothesis and column"),
        ({"text": "a", "on": "start"}, "on=start: must be segment_id or file,start,end"),
        ({"text": "a", "from_": "nope"}, "no column 'nope'; it has segment_id, text, more"),
        ({"column": "a"}, "which column has the values\\? name it by from; it has text, more"),
        ({"text": "a", "tolerance": -1}, "tolerance=-1: must be a number of seconds"),
        ({"text": "a", "on": "file,start,end"}, "no column file \\(or file, path"),
    ],
)
def test_an_invalid_join_is_refused_and_changes_nothing(workspace, given, message):
    before = workspace.segments
    frame = pl.DataFrame({"segment_id": ["s1"], "text": ["x"], "more": ["y"]})
    with pytest.raises(InputError, match=message) as caught:
        nbaudio.join(workspace, frame, **given)
    assert "\n" not in str(caught.value)
    assert workspace.segments.equals(before)


def test_names_of_texts_and_hypotheses_are_one_namespace(workspace):
    frame = pl.DataFrame({"segment_id": ["s1"], "text": ["x"]})
    nbaudio.join(workspace, frame, hypothesis="big")
    with pytest.raises(
        InputError, match="another text has this name; choose another name, such as big_2"
    ):
        nbaudio.join(workspace, frame, text="big")


def test_a_table_of_another_corpus_is_refused(workspace, tmp_path):
    other = write(
        tmp_path / "other.csv", pl.DataFrame({"segment_id": ["q1", "q2"], "text": ["x", "y"]})
    )
    with pytest.raises(
        InputError, match=r"other\.csv: none of its 2 rows can be joined; 'q1' matches no segment"
    ):
        nbaudio.join(workspace, other, text="t")
    assert "text_t" not in workspace.segments.columns


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1250"])
def test_lines_in_another_encoding_are_listed(workspace, tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes("segment_id,text\ns1,č\ns2,dobar\n".replace("č", "é").encode(encoding))
    if encoding == "utf-16":
        assert nbaudio.join(workspace, path, text="t").problems == []
        assert workspace.segments["text_t"].to_list() == ["é", "dobar", None, None]
        return
    report = nbaudio.join(workspace, path, text="t")
    assert report.problems == ["line 2: not UTF-8 text"]
    assert workspace.segments["text_t"].to_list() == [None, "dobar", None, None]


def test_empty_texts_are_listed_and_empty_hypotheses_are_kept(workspace, tmp_path):
    path = write(
        tmp_path / "t.csv", pl.DataFrame({"segment_id": ["s1", "s2"], "text": ["", "dobar"]})
    )
    report = nbaudio.join(workspace, path, text="t")
    assert report.problems == ["line 2: s1: the text is empty"]
    assert workspace.segments["text_t"].to_list() == [None, "dobar", None, None]
    report = nbaudio.join(workspace, path, hypothesis="h")
    assert report.problems == []
    assert report.facts["empty"] == 1
    assert workspace.segments["asr_text_h"].to_list() == ["", "dobar", None, None]


def test_joined_columns_get_numeric_boolean_or_text_types(workspace, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "segment_id,snr,ok,ward,count\ns1,3.5,True,007,1\ns2,,false,012,2\n", encoding="utf8"
    )
    for name in ("snr", "ok", "ward", "count"):
        nbaudio.join(workspace, path, column=name)
    found = workspace.segments.select("snr", "ok", "ward", "count")
    assert found.head(2).rows() == [(3.5, True, "007", 1), (None, False, "012", 2)]
    assert found.dtypes == [pl.Float64, pl.Boolean, pl.String, pl.Int64]


def test_lists_of_words_are_joined(workspace, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"id": "s1", "words": ["Evo", "čaj"]}\n{"id": "s2", "words": "[a"}\n', encoding="utf8"
    )
    nbaudio.join(workspace, path, text="t")
    assert workspace.segments["text_t"].to_list() == ["Evo čaj", "[a", None, None]


def test_a_hypothesis_column_of_the_source_is_kept_and_can_be_scored(workspace):
    workspace.save(segments=workspace.segments.with_columns(asr_text_theirs=pl.lit("da")))
    with pytest.raises(InputError, match="the source has a column asr_text_theirs, which stays"):
        nbaudio.join(
            workspace, pl.DataFrame({"segment_id": ["s1"], "text": ["x"]}), hypothesis="theirs"
        )
    nbaudio.score(workspace, hypothesis="theirs")
    assert workspace.segments["similarity_theirs"].to_list()[2] == 1.0
    assert hypothesis_names(workspace.segments.columns) == {
        "asr": "asr_text",
        "theirs": "asr_text_theirs",
    }


def test_scores_of_pairs_and_agreement(workspace):
    heard = {
        "a": ["evo blitz", "dobar dan", "da", "ne"],
        "b": ["Evo blitz!", "dobar van", "da", "na"],
    }
    for name, said in heard.items():
        nbaudio.join(
            workspace,
            pl.DataFrame({"segment_id": ["s1", "s2", "s3", "s4"], "text": said}),
            hypothesis=name,
        )
    nbaudio.join(workspace, pl.DataFrame({"segment_id": ["s1"], "text": ["Evo blic"]}), text="v")
    assert "agreement" not in workspace.segments.columns
    nbaudio.score(workspace)
    report = nbaudio.score(workspace, hypothesis=["a", "b"])
    found = workspace.segments
    assert found["wer_a"].to_list() == [0.5, 0, 0, 0]
    assert found["spoken_wer_b"].to_list() == [0.5, 0.5, 0, 1]
    assert found["text_disputed"].to_list() == [True, False, False, False]
    assert found["disputed_words"].to_list() == ["blic → blitz", None, None, None]
    assert found["agreement"][0] == pytest.approx((1 + 2 * (1 - 2 * 2 / 19)) / 3)
    assert found["agreement_text"][1] == pytest.approx((1 + 1 + (1 - 2 / 18)) / 3)
    assert report.facts["a"]["text_disputed"] == 1
    assert text_names(found.columns) == {"raw": "text_raw", "v": "text_v"}
    nbaudio.score(workspace, text="v", hypothesis="a")
    assert workspace.segments["similarity_v_a"].null_count() == 3
    with pytest.raises(InputError, match="no hypothesis 'c'; there are asr, a, b"):
        nbaudio.score(workspace, hypothesis="c")
    with pytest.raises(InputError, match="no text 'c'; there are text, v"):
        nbaudio.score(workspace, text="c")


def test_score_computes_agreement_again_after_scores_were_dropped(workspace):
    rows = pl.DataFrame({"segment_id": ["s1", "s2"], "text": ["evo blitz", "dobar dan"]})
    nbaudio.join(workspace, rows, hypothesis="a")
    nbaudio.score(workspace, hypothesis=["asr", "a"])
    assert workspace.segments["agreement"].to_list()[:2] == [1, 1]
    nbaudio.join(workspace, rows.with_columns(text=pl.lit("ne")), hypothesis="a")
    assert not {"similarity_a", "agreement"} & {*workspace.segments.columns}
    nbaudio.score(workspace)
    assert "agreement" not in workspace.segments.columns
    nbaudio.score(workspace, hypothesis="a")
    assert workspace.segments["agreement"][0] < 0
    # As withdraw does with emptied columns.
    workspace.save(segments=workspace.segments.drop("asr_text_a", "similarity_a"))
    nbaudio.score(workspace)
    assert "agreement" not in workspace.segments.columns


def test_a_column_of_numbers_is_no_hypothesis(workspace):
    workspace.save(segments=workspace.segments.with_columns(asr_text_confidence=pl.lit(0.5)))
    nbaudio.score(workspace)
    rates = views.error_rates(workspace)
    assert rates["hypothesis"].to_list() == ["asr"]
    html = widgets.TranscriptDiff(workspace).static_html()
    assert "confidence" not in html


def test_a_score_never_replaces_a_column_of_the_source_or_of_another_pair(workspace):
    table = pl.DataFrame({"segment_id": ["s1"], "text": ["x"]})
    nbaudio.join(workspace, table, hypothesis="a")
    workspace.save(segments=workspace.segments.with_columns(similarity_a=pl.lit(5)))
    with pytest.raises(InputError, match="the source has a column similarity_a, which stays"):
        nbaudio.score(workspace, hypothesis="a")
    for kind, name in (("text", "x"), ("text", "x_y"), ("hypothesis", "y_z"), ("hypothesis", "z")):
        nbaudio.join(workspace, table, **{kind: name})
    nbaudio.score(workspace, text="x", hypothesis="y_z")
    with pytest.raises(InputError, match="similarity_x_y_z compares text_x with asr_text_y_z"):
        nbaudio.score(workspace, text="x_y", hypothesis="z")


def test_join_and_score_work_on_the_command_line(workspace, tmp_path):
    path = write(
        tmp_path / "t.csv", pl.DataFrame({"segment_id": ["s1", "q"], "text": ["evo 2", "x"]})
    )
    result = CliRunner().invoke(
        common.app,
        ["join", str(workspace.path), str(path), "--on", "segment_id", "--text", "v", "--json"],
    )
    assert result.exit_code == 1, result.output
    assert json.loads(result.output)["problems"] == ["line 3: q: matches no segment"]
    result = CliRunner().invoke(
        common.app, ["score", str(workspace.path), "--text", "v", "--language", "hr", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["facts"]["language"] == "hr"
    assert "spoken_wer_v" in workspace.segments.columns


def test_a_table_of_recordings_gives_its_value_to_all_their_segments(workspace, tmp_path):
    table = tmp_path / "licenses.csv"
    table.write_text("recording_id,license\none,CC0-1.0\na b/Sitting 2.mp3,\nthree,MIT\n")
    report = nbaudio.join(workspace, table, on="recording_id", column="license")
    assert workspace.segments["license"].to_list() == ["CC0-1.0", "CC0-1.0", None, None]
    assert (report.facts["rows"], report.facts["matched"]) == (3, 4)
    assert report.problems == ["line 4: recording three: matches no segment"]
    twice = pl.DataFrame({"file": ["one", "one", "two"], "license": ["a", "b", "c"]})
    nbaudio.join(workspace, twice, on="recording_id", column="license")
    assert workspace.segments["license"].to_list() == [None, None, "c", "c"]
