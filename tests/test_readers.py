"""Variants of each foreign format: equal content is read as equal, and each problem is reported."""

import gzip
import json
import os
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook
from specimens import lines, one_segment, praat_textgrid, write_table

from nbaudio.core.errors import InputError
from nbaudio.formats import lhotse, nemo, subtitles, table, textgrid
from nbaudio.sources.source_formats import READERS

TIMES = ["name", "source_start", "source_end"]


# A source's own splits


@pytest.mark.parametrize(
    ("format_", "source", "file", "split"),
    [
        ("kaldi", "data/test_clean", "wav.scp", "test_clean"),
        ("kaldi", "data/hr", "wav.scp", None),
        ("nemo", "all", "dev.json", "dev"),
        ("nemo", "test_manifest.json", "", "test_manifest"),
        ("nemo", "session.json", "", None),
        ("lhotse", "all", "cuts_test-clean.jsonl", "test-clean"),
        ("lhotse", "hr_cuts_dev.jsonl", "", "dev"),
        ("lhotse", "cuts.jsonl", "", None),
        ("hf", "all", "test-00000-of-00001.parquet", "test"),
        ("hf", "all", "hr/validation/0000.parquet", "validation"),
        ("hf", "all", "data/test.parquet", "test"),
        ("hf", "test.parquet", "", "test"),
        ("hf", "all", "test/data-00000-of-00001.arrow", "test"),
        ("hf", "all", "data/0000.parquet", None),
        ("subtitles", "all", "test/a.srt", "test"),
        ("subtitles", "all", "2018/test.srt", None),
        ("textgrid", "all", "DEV/x/a.TextGrid", "DEV"),
        ("folder", "all", "test/a.wav", "test"),
        ("folder", "all", "2018/test.wav", None),
        ("commonvoice", "hr", "test.tsv", "test"),
        ("commonvoice", "hr", "validated.tsv", None),
        ("librispeech", "all", "test-other/84/1/84-1.trans.txt", "test-other"),
        ("table", "a.csv", "", "test"),
        ("parlaspeech", "asr.json", "", "test"),
    ],
)
def test_every_reader_keeps_the_split_of_the_source(tmp_path, format_, source, file, split):
    one_segment(format_, tmp_path / source / file)
    frame = READERS[format_](tmp_path / source).frame
    assert (frame["source_split"].to_list() if "source_split" in frame.columns else [None]) == [
        split
    ]


# NeMo

SECONDS = st.decimals(0, 10**6, allow_nan=False, places=7).map(
    lambda value: f"{value.normalize():f}"
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=5))
def test_nemo_ends_are_exact_sums(tmp_path_factory, times):
    row = '{"audio_filepath": "a.wav", "offset": %s, "duration": %s, "text": "da"}'
    found = nemo.read(
        lines(tmp_path_factory.mktemp("nemo") / "m.json", *(row % each for each in times))
    ).frame
    assert found["source_start"].to_list() == [start for start, _ in times]
    assert [Decimal(end) for end in found["source_end"]] == [
        Decimal(start) + Decimal(duration) for start, duration in times
    ]


def test_fields_of_nemo_manifests_are_read(tmp_path):
    row = {
        "audio_filepath": "a.wav",
        "duration": 1.5,
        "text": "c\u030c",
        "pred_text": "c",
        "speaker": 3,
        "lang": "hr",
        "x": [1],
    }
    source = lines(
        tmp_path / "train.json",
        json.dumps(row),
        json.dumps(row | {"offset": "0.5", "duration": float("nan")}),
    )
    found = nemo.read(source).frame
    assert found.columns[-1] == "language"
    assert found.select(*TIMES, "text", "asr_text", "speaker_id", "language").rows() == [
        ("a.wav", "0", "1.5", "č", "c", "3", "hr"),
        ("a.wav", "0.5", "NaN", "č", "c", "3", "hr"),
    ]


def test_the_audio_root_is_derived_from_manifest_paths(tmp_path):
    for name in ("x/a.wav", "x/y/b.wav", "m/c.wav"):
        lines(tmp_path / name)
    there, row = tmp_path / "x/a.wav", '{"audio_filepath": "%s", "duration": 1, "text": "da"}'
    assert (
        nemo.read(lines(tmp_path / "m/1.json", row % there, row % "../x/y/b.wav")).audio_root
        == tmp_path / "x"
    )
    assert (
        nemo.read(lines(tmp_path / "m/2.json", row % "c.wav", row % "gone/d.wav")).audio_root
        == tmp_path / "m"
    )
    assert (
        nemo.read(
            lines(tmp_path / "m/3.json", row % "gone.wav", row % ("x" * 5000), row % "a\\u0000.wav")
        ).audio_root
        is None
    )


# Lhotse

RECORDING = {
    "id": "r",
    "sources": [{"type": "file", "channels": [0, 1], "source": "r.wav"}],
    "sampling_rate": 8000,
}
SUPERVISION = {
    "id": "u",
    "recording_id": "r",
    "start": 10.5,
    "duration": 2.25,
    "channel": [0, 1],
    "text": "dobar dan",
}


def of_lhotse(folder, *supervisions, name="recordings.jsonl"):
    lines(folder / name, json.dumps(RECORDING))
    lines(folder / "supervisions.jsonl", *map(json.dumps, supervisions))
    return lhotse.read(folder)


def test_lhotse_alignments_and_hypotheses_are_read(tmp_path):
    words = {"word": [["dobar", 10.5, 1, 0.9], ["dan", 12.0, 0.5]], "phone": [["d", 10.5, 0.1]]}
    more = {"alignment": words, "custom": {"asr_text": "dobar don", "n": 1}}
    [row] = of_lhotse(tmp_path, SUPERVISION | more).frame.rows(named=True)
    assert row["word_times"] == [{"start": 0.0, "end": 1.0}, {"start": 1.5, "end": 2.0}]
    assert (row["asr_text"], row["source_end"]) == ("dobar don", "12.75")
    assert json.loads(row["custom"]) == more["custom"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"start": "a"}, "start: expected a number"),
        ({"duration": None}, "duration: expected a number, not null"),
        ({"start": [1]}, "start: expected a number"),
        ({"text": 5}, "Expected `str | null`"),
        ({"alignment": {"word": [["a", "b", 1]]}}, "alignment: expected a word"),
        ({"alignment": {"word": [["a"]]}}, "alignment: expected a word"),
    ],
)
def test_invalid_lhotse_supervisions_are_problems(tmp_path, change, reason):
    found = of_lhotse(tmp_path, SUPERVISION | change, SUPERVISION)
    assert len(found.frame) == 1
    assert found.problems.select("file", "line").rows() == [("supervisions.jsonl", 1)]
    assert reason in found.problems["reason"][0]


def test_a_truncated_lhotse_manifest_is_read_up_to_the_break(tmp_path):
    rows = "".join(
        json.dumps(SUPERVISION | {"id": str(number), "text": os.urandom(30).hex()}) + "\n"
        for number in range(2000)
    )
    whole = gzip.compress(rows.encode())
    lines(tmp_path / "recordings.jsonl", json.dumps(RECORDING))
    (tmp_path / "supervisions.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    found = lhotse.read(tmp_path)
    assert 500 < len(found.frame) < 1500
    assert found.problems.row(0) == (
        "supervisions.jsonl.gz",
        found.problems["line"][0],
        found.problems["reason"][0],
    )
    assert "cannot be read on" in found.problems["reason"][0]


def test_lhotse_needs_one_manifest_of_each_kind_per_split(tmp_path):
    with pytest.raises(InputError, match="of one split"):
        of_lhotse(tmp_path / "a", SUPERVISION, name="x_recordings_train.jsonl")
    lines(tmp_path / "b/my_recordings.jsonl")
    with pytest.raises(
        InputError,
        match=r"my_recordings\.jsonl and recordings\.jsonl are the same|are the same; keep one",
    ):
        of_lhotse(tmp_path / "b", SUPERVISION)
    with pytest.raises(InputError, match="no file here ends in"):
        lhotse.read(lines(tmp_path / "c/x.txt").parent)


def test_lhotse_manifests_without_counterpart_are_reported(tmp_path):
    lines(tmp_path / "recordings_dev.jsonl", json.dumps(RECORDING))
    found = of_lhotse(tmp_path, SUPERVISION)
    assert len(found.frame) == 1
    assert found.problems.select("file", "line").rows() == [("recordings_dev.jsonl", None)]


# tables

ROWS = [
    {
        "name": "a.wav",
        "start": 3207.7,
        "end": 3227.54,
        "text": '=1+1, "č"',
        "asr_text": "",
        "n": "7",
    },
    {"name": "b.wav", "start": 0.1 + 0.2, "end": 12, "text": "da", "asr_text": "ne", "n": ""},
]


def as_file(path):
    """The same table in the format of the ending."""
    return write_table(path, {key: [row[key] for row in ROWS] for key in ROWS[0]})


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet", ".xlsx", ".ods"])
def test_a_table_is_the_same_in_every_format(tmp_path, ending):
    found = table.read(as_file(tmp_path / f"t{ending}"))
    assert found.problems.is_empty()
    ends = found.frame["source_end"].to_list()
    assert (ends[0], float(ends[1])) == ("3227.54", 12)
    starts = found.frame["source_start"].to_list()
    assert starts == ["3207.7", "0.3" if ending == ".xlsx" else "0.30000000000000004"]
    assert found.frame["text"].to_list() == ['=1+1, "č"', "da"]
    assert [text or "" for text in found.frame["asr_text"]] == ["", "ne"]
    assert found.frame["n"][0] == "7"


def test_parquet_keeps_types_of_further_columns_and_writes_floats_short(tmp_path):
    columns = {
        "name": pl.Series(["a", "b", "c"], dtype=pl.Categorical),
        "start": pl.Series([np.float32(0.1), None, np.nan], dtype=pl.Float32),
        "end": pl.Series([Decimal("1.50"), None, None], dtype=pl.Decimal(10, 2)),
        "text": ["a", None, "c"],
        "speaker_id": [1, 2, None],
        "tags": [["x"], [], None],
        "similarity": [0.5, None, None],
    }
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet")
    found = table.read(tmp_path / "t.parquet").frame
    assert found.select(*TIMES).rows() == [
        ("a", "0.1", "1.50"),
        ("b", None, None),
        ("c", "nan", None),
    ]
    assert found["speaker_id"].to_list() == ["1", "2", None]
    assert found["tags"].to_list() == [["x"], [], None]
    assert found["source_similarity"].to_list() == [0.5, None, None]
    with pytest.raises(
        InputError, match=r"column 'tags' is List\(String\); expected texts or numbers"
    ):
        table.read(tmp_path / "t.parquet", text="tags")


def test_json_lines_keep_characters_and_may_differ_in_keys(tmp_path):
    source = lines(
        tmp_path / "t.jsonl",
        '{"name": "a", "start": 1.50, "duration": 1e-3, "text": "\\u010d"}',
        '{"name": "b", "start": 1, "duration": 2, "text": "d", "meta": {"x": 1.50}, "ok": true}',
        "[1]",
        '{"name": 5, "start": "1", "duration": null, "text": "d"}',
    )
    found = table.read(source)
    assert found.frame.select(*TIMES).rows() == [
        ("a", "1.50", "1.501"),
        ("b", "1", "3"),
        ("5", "1", "NaN"),
    ]
    assert found.frame.select("text", "meta", "ok").rows()[:2] == [
        ("č", None, None),
        ("d", '{"x": 1.50}', "true"),
    ]
    assert found.problems["line"].to_list() == [3]


def test_invalid_lines_of_a_csv_are_problems(tmp_path):
    good = b"a,0,1,da\n"
    bad = {2: b"\xff,0,1,da\n", 3: b"a,0,1\n", 5: b'a,0,1,"da" x\n', 7: b'a,0,1,"da\n'}
    rows = [bad.get(number, good) for number in range(2, 8)]
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfname,start,end,text\r\n" + b"".join(rows))
    found = table.read(tmp_path / "t.csv")
    assert len(found.frame) == 2
    assert found.problems["line"].to_list() == [2, 3, 5, 7]
    for reason, said in zip(
        found.problems["reason"],
        ("not UTF-8", "3 fields, the header has 4", "goes on behind", "nothing closes the quote"),
        strict=True,
    ):
        assert said in reason


def test_separator_and_quotes_can_be_set_by_options(tmp_path):
    source = lines(tmp_path / "t.csv", "name;start;end;text", 'a;0;1;"da;ne"')
    assert table.read(source, separator=";").frame["text"].to_list() == ["da;ne"]
    source = lines(tmp_path / "tabs.csv", "name\tstart\tend\ttext", "a\t0\t1\tda")
    assert table.read(source, separator="tab").frame["text"].to_list() == ["da"]
    source = lines(tmp_path / "t.tsv", "name\tstart\tend\ttext", 'a\t0\t1\t"da')
    assert table.read(source).frame["text"].to_list() == ['"da']
    source = lines(tmp_path / "q.tsv", "name\tstart\tend\ttext", 'a\t0\t1\t"d\ta"')
    assert table.read(source, quotes="yes").frame["text"].to_list() == ["d\ta"]


def test_a_sheet_of_a_workbook_is_chosen_by_option(tmp_path):
    book = Workbook()
    book.active.append(["other"])
    sheet = book.create_sheet("segments")
    sheet.append(["name", "text"])
    sheet.append(["a.wav", "da"])
    book.save(tmp_path / "t.xlsx")
    assert table.read(tmp_path / "t.xlsx", sheet="segments").frame.select(
        *TIMES, "text"
    ).rows() == [("a.wav", None, None, "da")]
    with pytest.raises(InputError, match=r"t\.xlsx: cannot be read as a table"):
        table.read(tmp_path / "t.xlsx", sheet="none")


def test_whole_recordings_are_checked_against_a_duration(tmp_path):
    found = table.read(lines(tmp_path / "t.csv", "name,text,duration", "a.wav,da,1.5")).frame
    assert found.select(*TIMES, "source_duration").rows() == [("a.wav", None, None, "1.5")]


@pytest.mark.parametrize(
    ("header", "options", "said"),
    [
        (
            "name,start,end,words",
            {},
            "which column is text.*by the option text; it has name, start, end, words",
        ),
        ("wave,start,end,text", {}, "which column is name"),
        (
            "name,start,end,text",
            {"text": "txt"},
            "option text: there is no column 'txt'; it has name, start",
        ),
        ("name,start,text,x", {}, "a start needs an end or a duration"),
        ("name,end,text,x", {}, "an end needs a start"),
        ("name,start,end,name", {}, "several columns are called 'name'"),
        ("name,start,end,text", {"separator": "::"}, "option separator: expected one character"),
        ("name,start,end,text", {"quotes": "maybe"}, "option quotes='maybe': must be yes or no"),
    ],
)
def test_ambiguous_or_missing_columns_are_refused(tmp_path, header, options, said):
    source = lines(tmp_path / "t.csv", header, "a,0,1,da")
    with pytest.raises(InputError, match=said):
        table.read(source, **options)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.xlsx", "t.ods"])
@pytest.mark.parametrize("data", [b"", b"\x00\xff\xfe PK\x03\x04", b"name,start,end,text\n"])
def test_a_file_that_is_no_table_is_refused(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=name):
        table.read(tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".xlsx", ".ods"])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_broken_table_is_one_error_or_has_problems(tmp_path_factory, ending, data):
    path = as_file(tmp_path_factory.mktemp("broken") / f"t{ending}")
    whole = bytearray(path.read_bytes())
    # A workbook holds the time, and its size depends on it.
    place = data.draw(st.integers(0, 1 << 20)) % len(whole)
    whole[place : place + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=4))
    path.write_bytes(whole)
    try:
        found = table.read(path)
    except InputError:
        return
    assert 0 < len(found.frame) <= len(ROWS) + whole.count(b"\n")


def test_a_parquet_whose_text_is_no_utf8_is_one_error(tmp_path):
    broken = pa.array([b"\xff\xfe", b"b"]).view(pa.string())
    pq.write_table(pa.table({"name": broken, "text": ["a", "b"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet: cannot be read as a table \(.*[Uu][Tt][Ff]"):
        table.read(tmp_path / "t.parquet")


# subtitles

CUES = "1\n00:00:00,500 --> 00:00:01,500\nšto\n"


@pytest.mark.parametrize(
    "text",
    [
        CUES,
        CUES.replace("\n", "\r\n"),
        CUES.replace("\n", "\r"),
        CUES[2:],
        f"\ufeff{CUES}",
        CUES.rstrip(),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_subtitles_are_read_in_every_notation(tmp_path, text, encoding):
    (tmp_path / "a.SRT").write_bytes(text.encode(encoding))
    found = subtitles.read(tmp_path)
    assert found.frame.select(*TIMES, "text", "text_raw").rows() == [
        ("a", "0.500", "1.500", "što", None)
    ]
    assert found.problems.is_empty()
    assert found.audio_root == tmp_path


def test_options_choose_language_and_encoding_of_subtitles(tmp_path):
    for name, word in (("a.srt", "uvijek"), ("a.hr.srt", "što"), ("a.b.HR.vtt", "šta")):
        (tmp_path / name).write_bytes(CUES.replace("što", word).encode("cp1250"))
    found = subtitles.read(tmp_path, language="hr", encoding="cp1250").frame
    assert found.select("name", "text").rows() == [("a.b", "šta"), ("a", "što")]
    with pytest.raises(InputError, match="option encoding: 'cp999' is unknown"):
        subtitles.read(tmp_path, encoding="cp999")
    with pytest.raises(InputError, match=r"subtitles that end in \.de\.srt"):
        subtitles.read(tmp_path, language="de")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("<i>da</i>", "da"),
        ("<00:00:01.000><c.x>da</c> ne", "da ne"),
        (r"{\an8}da", "da"),
        ("{da}", "{da}"),
        ("1 < 2 > 1", "1 < 2 > 1"),
        ("<3 da", "<3 da"),
        ('<font color="#fff">da</font>', "da"),
        ("a &amp; b", "a & b"),
    ],
)
def test_tags_are_removed_from_subtitles_and_kept_in_text_raw(tmp_path, written, text):
    found = subtitles.read(lines(tmp_path / "a.srt", CUES.replace("što", written))).frame
    assert found.select("text", "text_raw").row(0) == (text, written if written != text else None)


# TextGrids

TEXTS = st.text(st.sampled_from('ač" !\n<1 2>=[]'), max_size=6).filter(str.strip)
TIERS = st.lists(
    st.lists(st.tuples(st.integers(0, 99).map(lambda n: f"{n / 8}"), TEXTS), max_size=3),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(
    TIERS,
    st.booleans(),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_textgrids_are_read_in_every_notation(tmp_path_factory, tiers, long, encoding, end):
    source = tmp_path_factory.mktemp("grid") / "a.TextGrid"
    source.write_bytes(praat_textgrid(tiers, long=long).replace("\n", end).encode(encoding))
    wanted = [("a", start, "100.0", text) for start, text in tiers[0]]
    if not wanted:
        with pytest.raises(InputError, match="no usable item; expected TextGrids"):
            textgrid.read(source, tier="0")
        return
    found = textgrid.read(source, tier="0" if len(tiers) > 1 else None)
    assert found.frame.select(*TIMES, "text").rows() == wanted
    assert found.problems.is_empty()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("<exists>", "<absent>"), "no tier of intervals"),
        (("xmin = 0.5", "xmin = half"), "line 18: .*expected a number"),
        (
            ('"IntervalTier"', '"PitchTier"'),
            "expected an IntervalTier or a TextTier, not 'PitchTier'",
        ),
        (('"TextGrid"', '"Pitch"'), 'expected "ooTextFile" and "TextGrid" first'),
        (("intervals: size = 1", "intervals: size = -1"), "expected a count"),
        (("intervals: size = 1", "intervals: size = 999999999999"), "expected a number, not"),
    ],
)
def test_invalid_textgrids_are_refused(tmp_path, change, said):
    text = praat_textgrid([[("0.5", "da")]], long=True)
    assert change[0] in text
    source = lines(tmp_path / "a.TextGrid", text.replace(*change))
    with pytest.raises(InputError, match=said):
        textgrid.read(source)


def test_a_tier_must_be_chosen_among_several(tmp_path):
    source = lines(
        tmp_path / "a.TextGrid", praat_textgrid([[("0", "da")], [("0", "ne")]], long=False)
    )
    with pytest.raises(
        InputError,
        match="several tiers of intervals; it has '0', '1': choose one by the option tier",
    ):
        textgrid.read(source)
