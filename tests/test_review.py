import json
import re
import zipfile
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import openpyxl
import polars as pl
import pytest
import soundfile
from hostile import CELLS
from hypothesis import example, given
from hypothesis import strategies as st
from sheets import fill_in

import nbaudio
from nbaudio import review
from nbaudio.audio import read_clip
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.core.hashing import clip_file_names
from nbaudio.review import cell_escaping, sheet_writer
from nbaudio.review.population import Population
from nbaudio.review.state import ReviewRecord, ReviewState, Verdict, append_verdicts
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, conform
from nbaudio.tables.workspace import Workspace
from nbaudio.text import word_diff

# What polars can hold: no lone surrogates.
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.lists(
    st.sampled_from([*CELLS, "da", "ne", "_x", "x0041_", "<r>", "</r>"]), max_size=5
).map(" ".join)
XML = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@pytest.fixture
def workspace(tmp_path):
    """Two recordings with five segments each, 1 s long, and a third recording that is not there."""
    audio = tmp_path / "audio"
    audio.mkdir()
    rng = np.random.default_rng(1)
    for name, rate, channels in (("a.wav", 48000, 2), ("b.flac", 16000, 1)):
        soundfile.write(audio / name, rng.uniform(-0.5, 0.5, (6 * rate, channels)), rate)
    made = Workspace.create(tmp_path / "w", audio=str(audio))
    recordings = pl.DataFrame(
        {
            "recording_id": ["a", "b", "c"],
            "path": ["a.wav", "b.flac", None],
            "sampling_rate": [48000, 16000, None],
            "num_samples": [6 * 48000, 6 * 16000, None],
        }
    )
    rows = [
        {
            "segment_id": f"{recording}_{start}-{start + 1}",
            "recording_id": recording,
            "source_start": str(start),
            "source_end": str(start + 1),
            "start_sample": rate and start * rate,
            "end_sample": rate and (start + 1) * rate,
            "text": f"riječ {start} ovdje",
            "asr_text": f"rječ {start} ovdje",
            "speaker_id": f"spk {recording}",
            "similarity": 0.9,
        }
        for recording, rate in (("a", 48000), ("b", 16000), ("c", None))
        for start in range(5)
    ]
    made.save(
        recordings=conform(recordings, RECORDINGS, "recordings"),
        segments=conform(pl.DataFrame(rows), SEGMENTS, "segments"),
    )
    return made


def change(workspace, **columns):
    workspace.save(segments=workspace.segments.with_columns(**columns))


def cells_of(path, name="review"):
    """Rows of a sheet by the names in its first row."""
    table = openpyxl.load_workbook(path, rich_text=True)[name]
    header = [cell.value for cell in table[1]]
    return [dict(zip(header, row, strict=True)) for row in table.iter_rows(min_row=2)]


def strings_of(path):
    """The text of each cell of the first sheet as the format defines it: `_xHHHH_` stands for a
    character."""
    with zipfile.ZipFile(path) as book:
        shared = ET.fromstring(book.read("xl/sharedStrings.xml"))  # noqa: S314
        table = ET.fromstring(book.read("xl/worksheets/sheet1.xml"))  # noqa: S314

    def unescaped(text):
        return re.sub("_x([0-9A-Fa-f]{4})_", lambda match: chr(int(match[1], 16)), text)

    texts = ["".join(unescaped(t.text or "") for t in string.iter(f"{XML}t")) for string in shared]
    return {
        cell.get("r"): texts[int(cell[0].text)]
        for cell in table.iter(f"{XML}c")
        if cell.get("t") == "s"
    }


# --- samples


def test_strategies_cannot_be_changed_from_outside():
    with pytest.raises(TypeError):
        review.STRATEGIES["mine"] = review.STRATEGIES["random"]


def test_unusable_segments_are_not_reviewed_but_rejected_ones_are(workspace):
    ids = workspace.segments["segment_id"].to_list()
    key = pl.col("segment_id")
    change(
        workspace,
        text=pl.when(key == ids[0]).then(pl.lit(" ")).otherwise("text"),
        source_end=pl.when(key == ids[1]).then(pl.lit("0")).otherwise("source_end"),
        end_sample=pl.when(key == ids[2]).then(10**9).otherwise("end_sample"),
        asr_text=pl.when(key == ids[3]).then(None).otherwise("asr_text"),
        decision=pl.when(key.is_in(ids[4:6]))
        .then(pl.lit("reject"))
        .otherwise("decision")
        .cast(SEGMENTS["decision"]),
        reason=pl.when(key == ids[4])
        .then(pl.lit("below_similarity"))
        .when(key == ids[5])
        .then(pl.lit("no_times")),
    )
    known = Population(ReviewState.load(workspace))
    assert workspace.segments["segment_id"].filter(
        pl.Series(known.reviewable | known.without_audio)
    ).to_list() == [
        ids[3],
        ids[4],
        *ids[6:],
    ]


# --- the step


def test_export_writes_a_sheet_with_clips_and_remembers_it(workspace, tmp_path):
    out = tmp_path / "round one" / "sheet.xlsx"
    report = review.export(workspace, out=out, n=15, blind=False)
    rows = cells_of(out)
    assert list(rows[0]) == list(sheet_writer.COLUMNS)
    assert [
        rows[0][name].value for name in ("duration s", "similarity", *sheet_writer.FILLED_IN)
    ] == [1, 0.9, *[None] * 4]
    heard = set(workspace.segments.filter(pl.col("recording_id") != "c")["segment_id"])
    assert {row["segment_id"].value for row in rows} == heard
    for row in rows:
        recording, start = row["segment_id"].value[0], int(row["segment_id"].value[2])
        assert row["speaker"].value == f"spk {recording}"
        assert str(row["transcript"].value) == f"riječ {start} ovdje"
        assert row["clip"].value == "play"
        assert row["clip"].hyperlink.target == f"clips/{row['segment_id'].value}.wav"
        samples, rate = soundfile.read(out.parent / row["clip"].hyperlink.target, dtype="int16")
        own = {"a": 48000, "b": 16000}[recording]
        source = tmp_path / "audio" / {"a": "a.wav", "b": "b.flac"}[recording]
        assert rate == 16000
        assert np.array_equal(
            samples, read_clip(source, start * own, (start + 1) * own, rate=16000)
        )
    assert (report.facts["drawn"], report.facts["clips"]) == (10, 10)
    assert report.warnings == [
        "15 were requested, only 10 segments can be reviewed: all are in the sheet",
        "not drawn from: 5 segments of 1 missing recording (c)",
        "10 of 10 segments that can be reviewed were given to reviewers and stay out of train; "
        "0 segments are left for training (0 s)",
    ]
    assert not report.problems
    assert workspace.reviewed_ids() == heard
    kept = json.loads((workspace.path / "reviews" / "sheet.json").read_text())
    assert kept["segment_ids"] == [row["segment_id"].value for row in rows]
    assert (kept["strategy"], kept["n"], kept["seed"], kept["probabilities"]) == (
        "random",
        15,
        42,
        [1 / 10] * 10,
    )
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


def choices(book, name):
    """The words of each drop-down of a sheet, by its cells."""
    lists = {
        str(choice.sqref): choice.formula1.split("!")
        for choice in book[name].data_validations.dataValidation
    }
    return {
        place: [cell.value for (cell,) in book[source][cells]]
        for place, (source, cells) in lists.items()
    }


def test_a_review_sheet_has_headers_widths_lists_and_instructions(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, blind=False)
    book = openpyxl.load_workbook(tmp_path / "s.xlsx")
    table = book["review"]
    visible = [("review", "visible"), ("summary", "visible"), ("instructions", "visible")]
    assert [(s.title, s.sheet_state) for s in book] == [*visible, ("nbaudio", "hidden")]
    assert table.freeze_panes == "A2"
    assert table.auto_filter.ref == "A1:M5"
    assert all(cell.font.bold for cell in table[1])
    assert table["D2"].alignment.wrap_text
    assert [table[f"{letter}2"].number_format for letter in "BCDEFG"] == ["@"] * 6
    assert [column for column, shape in table.column_dimensions.items() if shape.hidden] == ["M"]
    words = list(review.VERDICTS)
    assert choices(book, "review") == {"B2:B5": words, "C2:C5": words[1:-1]}
    assert choices(book, "summary") == {}
    marks = [
        (str(part), getattr(getattr(part, "font", None), "u", None))
        for part in cells_of(tmp_path / "s.xlsx")[0]["transcript"].value
    ]
    assert marks[0] == ("riječ", "single")
    assert [underlined for _, underlined in marks[1:]] == [None] * (len(marks) - 1)


def test_the_hidden_sheet_stores_review_and_corpus(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, seed=7, blind=False)
    origin = list(openpyxl.load_workbook(tmp_path / "s.xlsx")["nbaudio"].values)
    kept = json.loads((workspace.path / "reviews" / "s.json").read_text())
    assert [row[:2] for row in origin[:3]] == [
        ("review", "s"),
        ("corpus", kept["corpus"]),
        ("reviewer", None),
    ]
    assert kept["probabilities"] == [1 / 10] * 4
    assert len(set(kept["contents"])) == 4


def test_sheets_print_one_page_wide(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, blind=False)
    book = openpyxl.load_workbook(tmp_path / "s.xlsx")
    for name in ("review", "summary", "instructions"):
        table = book[name]
        assert table.sheet_properties.pageSetUpPr.fitToPage
        setup = table.page_setup
        assert (setup.orientation, setup.paperSize) == ("landscape", 9)
        assert (int(setup.fitToWidth or 1), int(setup.fitToHeight)) == (1, 0)
    table = book["review"]
    assert table.print_title_rows == "$1:$1"
    assert table.print_area == "'review'!$A$1:$L$5"
    assert (table["L1"].value, table["M1"].value) == ("segment_id", "key")


def test_sheets_have_the_name_of_the_recording_at_its_source(tmp_path):
    rows = [
        {"file": name, "start": 0, "end": 1, "words": [word], "asr": [word], "speaker": "s"}
        for name, word in (("day one.wav", "prvi"), ("deep/day2.wav", "drugi"))
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "asr.json").write_text(lines, encoding="utf8")
    (tmp_path / "audio/deep").mkdir(parents=True)
    for row in rows:
        soundfile.write(tmp_path / "audio" / row["file"], np.zeros(8000), 8000)
    (tmp_path / "wav.scp").write_text("2016-04-01.u0001 day one.wav\n")
    audio = tmp_path / "audio"
    nbaudio.ingest(
        "parlaspeech",
        tmp_path / "asr.json",
        audio=audio,
        names=tmp_path / "wav.scp",
        out=tmp_path / "W",
    )
    named = {"prvi": "2016-04-01.u0001", "drugi": "day2.wav"}
    review.export(tmp_path / "W", out=tmp_path / "s.xlsx", n=2)
    for row in cells_of(tmp_path / "s.xlsx"):
        assert row["recording"].value == named[str(row["transcript"].value)]
    review.export(tmp_path / "W", out=tmp_path / "t.csv", n=2, segment_ids=["day one_0-1"])
    table = pl.read_csv(tmp_path / "t.csv")
    assert table["recording"].to_list() == ["2016-04-01.u0001"]
    fill_in(tmp_path / "s.xlsx", {"day one_0-1": "ok", "deep/day2_0-1": "noise"}, reviewer="ana")
    report = review.import_(tmp_path / "W", tmp_path / "s.xlsx")
    assert (report.facts["new"], report.problems) == (2, [])


def test_the_same_export_gives_the_same_bytes_and_other_parameters_are_refused(workspace, tmp_path):
    out = tmp_path / "s.xlsx"
    review.export(workspace, out=out, n=4)
    first, record = out.read_bytes(), (workspace.path / "reviews" / "s.json").read_bytes()
    change(workspace, similarity=pl.col("similarity"))
    workspace.save(segments=workspace.segments.reverse())
    review.export(workspace, out=out, n=4)
    assert out.read_bytes() == first
    out.unlink()
    review.export(workspace, out=out, n=4)
    assert out.read_bytes() == first
    for other, named in (({"n": 5}, "n"), ({"n": 4, "seed": 1}, "seed")):
        with pytest.raises(
            ExistsError,
            match=f"with strategy random, n 4, seed 42; another {named} needs another name",
        ):
            review.export(workspace, out=out, **other)
    change(workspace, text=pl.col("text") + "!")
    with pytest.raises(ExistsError, match="segments that have changed since: give another name"):
        review.export(workspace, out=out, n=4)
    assert out.read_bytes() == first
    assert (workspace.path / "reviews" / "s.json").read_bytes() == record


def test_a_sheet_that_was_filled_in_is_left_as_it_is(workspace, tmp_path):
    out = tmp_path / "s.xlsx"
    review.export(workspace, out=out, n=4)
    book = openpyxl.load_workbook(out)
    book["review"]["B2"] = "ok"
    book.save(out)
    filled = out.read_bytes()
    assert review.export(workspace, out=out, n=4).warnings[0].endswith("not overwritten")
    assert out.read_bytes() == filled


def test_an_edited_zip_of_a_review_is_not_overwritten(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, zip=True)
    with zipfile.ZipFile(tmp_path / "s.zip", "a") as archive:
        archive.writestr("s/letter.txt", "Dear Ana")
    packed = (tmp_path / "s.zip").read_bytes()
    assert (
        review.export(workspace, out=tmp_path / "s.xlsx", n=4, zip=True)
        .warnings[0]
        .endswith("not overwritten")
    )
    assert (tmp_path / "s.zip").read_bytes() == packed


@pytest.mark.parametrize("name", ["s.xlsx", "s.csv", "s.tsv", "s.zip"])
def test_what_is_no_sheet_of_the_review_is_never_overwritten(workspace, tmp_path, name):
    other = tmp_path / name
    book = openpyxl.Workbook()
    book.active.append(["budget", 3])
    book.save(other)
    before = other.read_bytes()
    with pytest.raises(ExistsError, match="exists and is not a sheet of review s"):
        review.export(
            workspace, out=other if other.suffix != ".zip" else tmp_path / "s.csv", n=4, zip=True
        )
    assert other.read_bytes() == before
    assert [path.name for path in tmp_path.glob("s.*")] == [name]
    assert not workspace.reviewed_ids()


def test_a_clip_of_another_export_is_never_overwritten(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=15)
    other = tmp_path / "clips" / "a_0-1.wav"
    other.write_bytes(b"something else")
    (workspace.path / "reviews" / "s.json").unlink()  # else nothing would be left to draw
    with pytest.raises(ExistsError, match="holds another clip"):
        review.export(workspace, out=tmp_path / "t.xlsx", n=15)
    assert other.read_bytes() == b"something else"
    assert not (tmp_path / "t.xlsx").exists()


def test_export_warns_of_drawn_segments_that_are_in_train(workspace, tmp_path):
    train = pl.lit("train", dtype=SEGMENTS["split"])
    change(workspace, split=pl.when(pl.col("recording_id") == "a").then(train))
    report = review.export(workspace, out=tmp_path / "s.xlsx", n=10)
    assert (
        "5 of them are in train, where they must not be: run select again before materialize"
        in report.warnings
    )
    change(workspace, split=pl.lit(None, dtype=SEGMENTS["split"]))
    assert not [
        line
        for line in review.export(workspace, out=tmp_path / "s.xlsx", n=10).warnings
        if "are in train" in line
    ]


def many(workspace, number):
    """A workspace with so many segments of four seconds, without audio."""
    rows = {
        "segment_id": [f"x{at:04d}" for at in range(number)],
        "recording_id": "a",
        "text": "riječ",
    }
    times = {
        "source_start": [str(5 * at) for at in range(number)],
        "source_end": [str(5 * at + 4) for at in range(number)],
    }
    made = Workspace.create(workspace.path, audio=None)
    made.save(
        segments=pl.DataFrame({**rows, **times}), recordings=pl.DataFrame({"recording_id": ["a"]})
    )
    return made


@pytest.mark.parametrize(("number", "drawn"), [(200, 20), (7, 1), (10_001, 1000), (20_000, 1000)])
def test_without_a_number_a_tenth_is_drawn_and_at_most_a_thousand(
    workspace, tmp_path, number, drawn
):
    workspace = many(workspace, number)
    report = review.export(workspace, out=tmp_path / "s.xlsx")
    assert report.facts["drawn"] == drawn == len(workspace.reviewed_ids())
    assert report.facts["left_for_train"] == {
        "segments": number - drawn,
        "hours": round((number - drawn) * 4 / 3600, 4),
    }
    assert [line for line in report.warnings if "stay out of train" in line and number > 10] == []


def test_without_a_number_a_later_round_takes_a_tenth_of_the_rest_and_the_same_call_is_the_same(
    workspace, tmp_path
):
    workspace = many(workspace, 200)
    review.export(workspace, out=tmp_path / "one.xlsx", n=100)
    second = review.export(workspace, out=tmp_path / "two.xlsx")
    both = len(
        set.intersection(
            *(set(record.segment_ids) for record in ReviewState.load(workspace).records.values())
        )
    )
    assert (second.facts["drawn"], second.facts["left_for_train"]["segments"]) == (10, 90 + both)
    assert any(
        f"{both:,} of them are also in an earlier review" in line for line in second.warnings
    ) == bool(both)
    before = (tmp_path / "two.xlsx").read_bytes()
    again = review.export(workspace, out=tmp_path / "two.xlsx")
    assert (tmp_path / "two.xlsx").read_bytes() == before
    assert again.to_dict() == second.to_dict()


def test_a_number_is_honored_up_to_all_and_what_is_left_for_training_is_reported(
    workspace, tmp_path
):
    workspace = many(workspace, 200)
    report = review.export(workspace, out=tmp_path / "one.xlsx", n=150)
    [line] = [line for line in report.warnings if "stay out of train" in line]
    assert line.startswith("150 of 200 segments that can be reviewed were given to reviewers")
    assert line.endswith("50 segments are left for training (3 min 20 s)")

    def records():
        return ReviewState.load(workspace).records

    judge_all(workspace, records()["one"])
    review.export(workspace, out=tmp_path / "two.xlsx", n=1000)
    assert not set(records()["one"].segment_ids) & set(records()["two"].segment_ids)
    assert len(workspace.reviewed_ids()) == 200
    review.export(workspace, out=tmp_path / "three.xlsx", n=1000)
    assert sorted(records()["three"].segment_ids) == sorted(records()["two"].segment_ids)
    judge_all(workspace, records()["two"])
    with pytest.raises(
        InputError,
        match="all 200 segments that can be reviewed have been judged or passed: 150 in one, 50 in",
    ):
        review.export(workspace, out=tmp_path / "four.xlsx")


def judge_all(workspace, record):
    rows = zip(record.segment_ids, record.contents, strict=True)
    time = "2026-11-21T03:00:00Z"
    append_verdicts(
        workspace,
        [Verdict(key, content, "ok", "", None, "ana", time, record.name) for key, content in rows],
    )


def test_bad_audio_is_a_problem_and_a_row_without_link(workspace, tmp_path):
    (tmp_path / "audio" / "b.flac").write_bytes(b"no audio")
    recordings = workspace.recordings.with_columns(num_samples=10**9)
    workspace.save(recordings=recordings)
    # The header said it was there
    change(
        workspace,
        end_sample=pl.when(pl.col("segment_id") == "a_4-5").then(7 * 48000).otherwise("end_sample"),
    )
    report = review.export(workspace, out=tmp_path / "s.xlsx", n=15)
    rows = {row["segment_id"].value: row["clip"] for row in cells_of(tmp_path / "s.xlsx")}
    failed = ["a_4-5", *(f"b_{start}-{start + 1}" for start in range(5))]
    assert [line.split(":")[0] for line in report.problems] == failed
    assert all(rows[key].value == "not readable" and rows[key].hyperlink is None for key in failed)
    assert report.facts["clips"] == 4
    assert "b.flac" in report.problems[-1]


def test_without_audio_or_hypothesis_transcripts_are_still_reviewed(workspace, tmp_path):
    workspace = Workspace.create(workspace.path, audio=None)
    change(
        workspace, asr_text=pl.lit(None, dtype=pl.String), similarity=pl.lit(None, dtype=pl.Float64)
    )
    report = review.export(workspace.path, out=tmp_path / "s.xlsx", n=100, blind=False)
    assert (
        report.warnings[0]
        == "100 were requested, only 15 segments can be reviewed: all are in the sheet"
    )
    assert report.warnings[1] == "no audio yet: the sheet has no clips"
    row = cells_of(tmp_path / "s.xlsx")[0]
    assert (row["clip"].value, row["hypothesis"].value, row["similarity"].value) == (
        "no audio yet",
        "no hypothesis",
        None,
    )
    assert not (tmp_path / "clips").exists()


def test_a_number_may_be_one_of_numpy(workspace, tmp_path):
    report = review.export(
        workspace, out=tmp_path / "s.xlsx", n=np.int64(3), overlap=np.int64(1), reviewers=["a", "b"]
    )
    assert report.facts["drawn"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"out": "s.ods"},
            (
                r"s\.ods: the file must end in \.xlsx, \.csv, \.tsv for a sheet, "
                r"or in \.html for a page"
            ),
        ),
        ({"out": "s.xlsx", "n": 0}, "n must be 1 or more, not 0"),
        ({"out": "s.xlsx", "n": 5.5}, "n=5.5: must be a whole number"),
        ({"out": "s.xlsx", "n": "5"}, "n='5': must be a whole number"),
        ({"out": "s.xlsx", "n": 5, "overlap": 1.5}, "overlap=1.5: must be a whole number"),
        ({"out": "s.xlsx", "strategy": "guess"}, "strategy 'guess' is unknown; known are random"),
    ],
)
def test_invalid_parameters_of_export_are_refused(workspace, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        review.export(workspace, **(options | {"out": tmp_path / options["out"]}))
    assert workspace.reviewed_ids() == set()


def test_export_without_reviewable_segments_is_refused(workspace, tmp_path):
    change(workspace, text=pl.lit(""))
    with pytest.raises(InputError, match="none of its 15 segments can be reviewed"):
        review.export(workspace, out=tmp_path / "s.xlsx")


# --- texts in cells


def rows_of(pairs):
    return pl.DataFrame(
        [
            {
                "segment_id": f"s{number}",
                "clip": None,
                "note": "no audio yet",
                "speaker_id": text,
                "source_name": "a.wav",
                "duration_s": 1.0,
                "text": text,
                "asr_text": asr,
                "similarity": None,
                "probability": 1.0,
                "content": f"{number:016x}",
            }
            for number, (text, asr) in enumerate(pairs)
        ],
        schema_overrides={"clip": pl.String, "asr_text": pl.String, "similarity": pl.Float64},
    )


def record_of(count):
    ids = [f"s{n}" for n in range(count)]
    return ReviewRecord(
        "r", "random", count, 1, "f", ids, [1.0] * count, ["c"] * count, words=["w"] * count
    )


@given(st.lists(st.tuples(any_text, st.none() | any_text), min_size=1, max_size=4))
@example([(text, text) for text in CELLS])
@example([(text, "") for text in CELLS])
@example([(f"{text} da", f"{text} ne") for text in CELLS])
@example(
    [
        ("<r><t>ne</t></r>", "x"),
        ("x", "<r><t>ne</t></r>"),
        ("da <r>_x0041_</r>", "<r>_x0041_</r> da"),
    ]
)
@pytest.mark.slow
def test_random_texts_are_stored_in_sheets_as_strings(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("hostile") / "s.xlsx"
    path.write_bytes(sheet_writer.write_sheet(rows_of(pairs), record_of(len(pairs))))
    found = strings_of(path)
    for number, (text, asr) in enumerate(pairs, start=2):
        assert found.get(f"H{number}", "") == cell_escaping.cell_text(text)
        assert found.get(f"D{number}", "") == cell_escaping.cell_text(text)
        assert found.get(f"E{number}", "") == (
            "no hypothesis" if asr is None else cell_escaping.cell_text(asr)
        )
    with zipfile.ZipFile(path) as book:
        assert b"<f>" not in book.read("xl/worksheets/sheet1.xml")


def test_words_that_differ_after_normalization_alone_are_marked():
    said, heard = "MISTER – Quilter, is", "mister quilter his"
    both = cell_escaping.diff_fragments(said, heard, steps=["lower", "punctuation"])
    assert both == (
        [("MISTER – Quilter, ", False), ("is", True)],
        [("mister quilter ", False), ("his", True)],
    )
    assert cell_escaping.diff_fragments(said, heard)[0] == [(said, True)]


def test_texts_like_formulas_dates_and_links_are_stored_as_strings(tmp_path):
    (tmp_path / "s.xlsx").write_bytes(
        sheet_writer.write_sheet(rows_of([(text, "da") for text in CELLS[:6]]), record_of(6))
    )
    for row, text in zip(cells_of(tmp_path / "s.xlsx"), CELLS, strict=False):
        assert row["transcript"].data_type == "s"
        assert row["transcript"].hyperlink is None
        assert str(row["transcript"].value) == text


@given(any_text)
def test_cell_text_changes_only_what_a_cell_cannot_hold(text):
    shown = cell_escaping.cell_text(text)
    assert len(shown) == len(text)
    for before, after in zip(text, shown, strict=True):
        if before != after:
            assert before < " " or before in "\x7f\ufffe\uffff"
            assert after.isprintable()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]", shown)


@pytest.mark.parametrize("letter", ["a", "č", "😀"])
def test_long_texts_are_cut_with_a_mark(letter):
    units = len(letter.encode("utf-16-le")) // 2
    longest = letter * (32_767 // units)
    assert cell_escaping.cell_text(longest) == longest
    cut = cell_escaping.cell_text(letter * 40_000)
    assert cut.endswith(" [cut here: 40,000 characters in all]")
    assert 32_765 <= len(cut.encode("utf-16-le")) // 2 <= 32_767
    assert set(cut[:-40]) == {letter}


@given(any_text, any_text)
def test_marked_fragments_make_up_the_texts_and_mark_the_words_that_differ(reference, hypothesis):
    for side, text, fragments in zip(
        ("reference", "hypothesis"),
        (reference, hypothesis),
        cell_escaping.diff_fragments(reference, hypothesis),
        strict=True,
    ):
        assert "".join(piece for piece, _ in fragments) == text
        assert all(piece for piece, _ in fragments)
        assert all(a[1] != b[1] for a, b in pairwise(fragments))
        differing = [
            getattr(part, side) for part in word_diff(reference, hypothesis) if part.kind != "equal"
        ]
        marked = "".join(piece for piece, differs in fragments if differs)
        assert "".join(marked.split()) == "".join(
            "".join(word for words in differing for word in words).split()
        )


def test_a_sheet_beyond_the_limits_of_excel_is_refused():
    sheet_writer.check_size(1_048_575, 65_530)
    with pytest.raises(InputError, match=r"1,048,575 rows, not 1,048,576"):
        sheet_writer.check_size(1_048_576, 0)
    with pytest.raises(InputError, match=r"65,530 links to clips, not 65,531"):
        sheet_writer.check_size(70_000, 65_531)


# --- clip names


@given(
    st.lists(
        any_text | st.text("aA.-_/", max_size=3) | st.just("../" * 100), max_size=6, unique=True
    )
)
def test_clip_names_are_plain_and_tell_segments_apart_everywhere(ids):
    names = clip_file_names(ids)
    assert len({name.casefold() for name in names}) == len(ids)
    for key, name in zip(ids, names, strict=True):
        assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.wav", name)
        assert len(name) <= 130
        assert name == f"{key}.wav" or re.search(r"-[0-9a-f]{16}\.wav$", name)


def test_clip_file_names_of_plain_ids_are_the_ids():
    assert clip_file_names(["HlauTe_NK6U_3207.7-3227.54", "-abc"]) == [
        "HlauTe_NK6U_3207.7-3227.54.wav",
        "-abc.wav",
    ]
    assert len({name.casefold() for name in clip_file_names(["a", "A"])}) == 2


def test_all_reviewers_get_the_overlap_and_share_the_other_segments():
    ids = ["a", "b", "c", "d"]
    record = ReviewRecord(
        "r", "random", 4, 42, "", ids, [1.0] * 4, [""] * 4, [], ["ana", "ben"], 2, words=[""] * 4
    )
    assert record.shares() == {"ana": ["a", "b", "c"], "ben": ["a", "b", "d"]}


# --- blind


@pytest.mark.parametrize("strategy", ["random", "stratified", "near"])
def test_a_blind_sheet_reveals_neither_hypothesis_nor_similarity(workspace, tmp_path, strategy):
    heard = pl.format("čuo Zvrk{}", pl.col("source_start")) + pl.lit(" vrlo dugo" * 40)
    change(workspace, asr_text=heard, similarity=pl.lit(0.123456))
    drawn = {"n": 6, "strategy": strategy, "threshold": 0.654321, "blind": True}
    for ending in ("csv", "xlsx"):
        review.export(workspace, out=tmp_path / f"s.{ending}", **drawn, zip=ending == "xlsx")
    record = json.loads((workspace.path / "reviews/s.json").read_text())
    with zipfile.ZipFile(tmp_path / "s.zip") as packed:
        files = {
            name: packed.read(name) for name in packed.namelist() if not name.startswith("s/clips/")
        }
    assert files == {"s/s.xlsx": (tmp_path / "s.xlsx").read_bytes()}
    with zipfile.ZipFile(tmp_path / "s.xlsx") as book:
        parts = {
            "s.csv": (tmp_path / "s.csv").read_bytes(),
            **{name: book.read(name) for name in book.namelist()},
        }
    known = [
        *workspace.segments["asr_text"],
        "Zvrk",
        "0.123",
        "0.654",
        strategy,
        *record["strata"],
        *map(repr, record["probabilities"]),
    ]
    known += ["hypothesis", "similarity", "recognizer", *record["contents"]]
    told = {
        (name, word)
        for name, data in parts.items()
        for word in set(known) - {"all"}
        if word in data.decode()
    }
    assert told == set()
    assert b"<b/>" not in parts["xl/sharedStrings.xml"]
    heights = {
        row.height
        for row in list(
            openpyxl.load_workbook(tmp_path / "s.xlsx")["review"].row_dimensions.values()
        )[1:]
    }
    assert len(heights) == 1


def test_a_blind_sheet_depends_on_hypothesis_and_similarity_in_nothing_but_its_keys(
    workspace, tmp_path
):
    written = []
    # Which rows are drawn depends on what is selected: a similarity of 0.8 or more.
    for heard, similarity in (("riječ 1 ovdje", 0.99), ("druga", 0.81)):
        change(workspace, asr_text=pl.lit(heard), similarity=pl.lit(similarity))
        review.export(workspace, out=tmp_path / "s.xlsx", n=5, blind=True)
        with zipfile.ZipFile(tmp_path / "s.xlsx") as book:
            parts = {name: book.read(name).decode() for name in book.namelist()}
        hashes = ReviewState.load(workspace).records["s"].row_hashes()
        written.append({name: re.sub("|".join(hashes), "-", part) for name, part in parts.items()})
        (tmp_path / "s.xlsx").unlink()
        (workspace.path / "reviews/s.json").unlink()
    assert written[0] == written[1]


def test_a_second_export_of_a_review_cannot_change_blind(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, blind=True)
    with pytest.raises(ExistsError, match="blind True; another blind needs another name"):
        review.export(workspace, out=tmp_path / "s.xlsx", n=4, blind=False)


@pytest.mark.parametrize("blind", [True, False, None])
def test_a_review_is_blind_unless_the_user_or_its_first_export_says_otherwise(
    workspace, tmp_path, blind
):
    for choice in (blind, None):
        review.export(workspace, out=tmp_path / "s.xlsx", n=4, blind=choice)
        assert json.loads((workspace.path / "reviews" / "s.json").read_text())["blind"] is (
            blind is not False
        )
        assert ("hypothesis" in cells_of(tmp_path / "s.xlsx")[0]) is (blind is False)


# --- lists and rows


def test_faults_and_reviewers_are_lists_to_choose_from(workspace, tmp_path):
    words = ["noise", "ok", "bad/odd", "unsure", "it's off"]
    review.export(
        workspace, out=tmp_path / "s.xlsx", n=4, reviewers=["ana", "007"], overlap=4, verdicts=words
    )
    book = openpyxl.load_workbook(tmp_path / "s-ana.xlsx")
    assert choices(book, "review") == {"B2:B5": words, "C2:C5": ["noise", "bad/odd", "it's off"]}
    assert choices(book, "summary") == {"B3": ["ana", "007"]}
    assert book["summary"]["B3"].value == "ana"
    review.export(workspace, out=tmp_path / "t.xlsx", n=2, verdicts=["ok", "unsure"])
    assert list(choices(openpyxl.load_workbook(tmp_path / "t.xlsx"), "review")) == ["B2:B3"]


def test_rows_are_as_high_as_their_wrapped_texts(tmp_path):
    equal, other = "da " * 30, "ne " * 30
    pairs = [
        ("da", "da"),
        (equal, equal),
        (equal, other),
        ("x" * 200, "da"),
        ("今日は天気" * 20, "da"),
        ("da\nne\nda", "da"),
        ("da " * 9999, ""),
    ]
    rows = rows_of(pairs).with_columns(speaker_id=pl.lit("ana"), clip=pl.lit("clips/a.wav"))
    (tmp_path / "s.xlsx").write_bytes(sheet_writer.write_sheet(rows, record_of(len(pairs))))
    table = openpyxl.load_workbook(tmp_path / "s.xlsx")["review"]
    lines = [
        round((table.row_dimensions[row].height - 5) / 15, 1) for row in range(2, len(pairs) + 2)
    ]
    assert lines[0] == 1
    assert 2 <= lines[1] <= lines[2] <= 3
    assert 4 <= lines[3] <= 6
    assert lines[4] >= 4
    assert lines[5] == 3
    assert 400 < table.row_dimensions[8].height <= 409
