"""Delimited text through every door: separators, encodings, headers, quotes and decimal commas.

Files are written as the programs write them that people use: pandas, R, Excel, Common Voice.
"""

import codecs
import csv
import io
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.formats import table
from nbaudio.sources.recording_names import read_mapping
from nbaudio.tables.workspace import Workspace

RATE = 8000


def written(path, text, encoding="utf8"):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def ingest(source, out=None, **options):
    return nbaudio.ingest("table", source, out=out or source.with_suffix(".W"), options=options)


def texts_of(source, **options):
    """The texts that a table gives, by names."""
    rows = table.read(source, **options).frame
    return dict(rows.select("name", "text").iter_rows())


@pytest.fixture
def workspace(tmp_path):
    source = "segment_id,name,text\n" + "".join(f"s{n},a{n}.wav,satz {n}\n" for n in range(3))
    (tmp_path / "audio").mkdir()
    for number in range(3):
        soundfile.write(tmp_path / f"audio/a{number}.wav", np.zeros(3 * RATE), RATE)
    path = written(tmp_path / "source.csv", source)
    nbaudio.ingest("table", path, audio=tmp_path / "audio", out=tmp_path / "W")
    return Workspace.open(tmp_path / "W")


# separators


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_and_reported(tmp_path, name, separator):
    rows = [["name", "text"], ["a.wav", "da, ne; ni"], ["b.wav", "eno"], ["c.wav", "da | ne"]]
    out = io.StringIO()
    csv.writer(out, delimiter=separator).writerows(rows)
    report = ingest(written(tmp_path / name, out.getvalue()))
    segments = Workspace.open(tmp_path / "t.W").segments
    assert segments.select("recording_id", "text").rows() == [
        ("a", "da, ne; ni"),
        ("b", "eno"),
        ("c", "da | ne"),
    ]
    usual = "," if name == "t.csv" else "\t"
    notes = [note for note in report.warnings if "cells are separated by" in note]
    assert len(notes) == (separator != usual)


def test_different_separators_of_header_and_rows_are_refused_with_the_option(tmp_path):
    text = "name;start;end;text\na.wav;0,5;1,25;da\na.wav;1,25;2,5;ne\n"
    source = written(tmp_path / "t.csv", text, "utf-8-sig")
    result = CliRunner().invoke(app, ["ingest", "table", str(source), "--out", str(tmp_path / "W")])
    assert result.exit_code == 2
    assert "separated by ';', as in the header, or by ',', as in the rows" in result.output
    assert "--option separator=;" in result.output
    rows = table.read(source, separator=";").frame
    assert rows["source_start"].to_list() == ["0.5", "1.25"]
    rows = table.read(written(tmp_path / "s.csv", f"sep=;\n{text}")).frame
    assert rows["source_end"].to_list() == ["1.25", "2.5"]


def test_a_separator_at_the_end_of_each_row_adds_no_column(tmp_path):
    source = written(tmp_path / "t.csv", "name;text;speaker\na.wav;eins;s1;\nb.wav;zwei;s2;\n")
    assert texts_of(source) == {"a.wav": "eins", "b.wav": "zwei"}
    with_names = written(tmp_path / "r.csv", "name;text;note\n1;a.wav;eins;\n2;b.wav;zwei;x\n")
    assert texts_of(with_names) == {"a.wav": "eins", "b.wav": "zwei"}


@pytest.mark.parametrize(
    "time", ["1 000", "1\u00a0000", "3'000.5", "2s", "0.5 sec", "PT1.5S", "1:02"]
)
def test_a_column_of_unreadable_times_is_refused(tmp_path, time):
    source = written(tmp_path / "t.csv", f"name;start;end;text\na.wav;{time};{time};eins\n")
    line = f"column 'start' has times such as {time!r}"
    with pytest.raises(InputError, match=re.escape(line)):
        ingest(source, tmp_path / "W")
    written(source, f"name;start;end;text\na.wav;0;900;eins\nb.wav;{time};{time};zwei\n")
    report = ingest(source, tmp_path / "W")
    assert any(f"{line} in some rows" in warning for warning in report.warnings)


def test_texts_that_pandas_writes_for_missing_values_are_kept_and_counted(tmp_path):
    source = written(
        tmp_path / "t.csv", "name,text\na.wav,nan\nb.wav,eins\nc.wav,nan\nd.wav,#NAME?\n"
    )
    report = ingest(source, tmp_path / "W")
    [line] = [line for line in report.warnings if "a text such as pandas" in line]
    assert line.startswith("3 segments have a text")
    assert "('#NAME?', 'nan')" in line
    assert Workspace.open(tmp_path / "W").segments["text"].to_list() == [
        "nan",
        "eins",
        "nan",
        "#NAME?",
    ]


@pytest.mark.parametrize(
    "misread", ["Å¡to Å¾ele", "Ĺˇto Ĺľele", "ja Å¡to", "ja Ä\x8desto Å¡to", "â€žjaâ€œ", "Ð´Ð°"]
)
def test_texts_in_a_wrong_encoding_are_counted_and_kept(tmp_path, misread):
    lines = f"name,text\na.wav,{misread}\nb.wav,što žele\nc.wav,Ăn â ÄÅ да\nd.wav,{misread}\n"
    report = ingest(written(tmp_path / "t.csv", lines), tmp_path / "W")
    [line] = [line for line in report.warnings if "Windows code page" in line]
    assert line.startswith("2 segments have a text that looks like UTF-8")
    [word, letters] = re.findall(r"'([^']*)'", line)[:2]
    assert word in repr(misread)
    assert word != letters
    texts = Workspace.open(tmp_path / "W").segments["text"].to_list()
    assert texts == [misread, "što žele", "Ăn â ÄÅ да", misread]


def test_marks_that_nobody_speaks_are_counted(tmp_path):
    texts = ["da [smijeh]", "<unk> ne", "sil", "((nejasno)) da", "1 < 2", "(da)", "silos", "#da"]
    lines = "".join(f"{number}.wav,{text}\n" for number, text in enumerate(texts))
    report = ingest(written(tmp_path / "t.csv", f"name,text\n{lines}"), tmp_path / "W")
    [line] = [line for line in report.warnings if "nobody speaks" in line]
    assert line == "4 segments have a mark in the text that nobody speaks, such as '((nejasno))'"


def test_quoted_cells_tell_separators_apart(tmp_path):
    text = '"name";"start";"end";"text"\n"a.wav";"0,5";"1,25";"da; ""ne"""\n'
    found = table.read(written(tmp_path / "t.csv", text))
    assert found.frame.select("source_start", "source_end", "text").rows() == [
        ("0.5", "1.25", 'da; "ne"')
    ]


def test_the_sep_line_of_excel_sets_the_separator(tmp_path):
    source = written(tmp_path / "t.csv", "sep=|\r\nname|text\r\na.wav|da, ne\r\n", "utf-8-sig")
    found = table.read(source)
    assert found.frame["text"].to_list() == ["da, ne"]
    assert found.not_read == []


def test_every_command_detects_semicolons_as_separator(workspace, tmp_path):
    rows = "segment_id;text\ns0;eins, zwei\ns2;drei\n"
    nbaudio.join(workspace, written(tmp_path / "t.csv", rows), text="other")
    assert workspace.segments["text_other"].to_list() == ["eins, zwei", None, "drei"]
    splits = written(
        tmp_path / "splits.csv", "Round 1, of May\nsegment_id;split\ns0;dev\ns1;train\n"
    )
    nbaudio.select(workspace, splits=splits, min_similarity=-1)
    assert workspace.segments["split"].to_list()[:2] == ["dev", "train"]
    names = written(tmp_path / "names.csv", "name;path\na.wav;x, y.wav\n", "utf-16")
    assert read_mapping(names) == {"a.wav": "x, y.wav"}
    gone = written(tmp_path / "gone.csv", "segment_id;why\ns1;asked, twice\n")
    nbaudio.withdraw(workspace, segments=gone, why="consent withdrawn")
    assert workspace.segments["segment_id"].to_list() == ["s0", "s2"]


def sheet_of(workspace, folder):
    """The rows of a review sheet of three segments that are all right."""
    nbaudio.review.export(workspace, out=folder / "s.csv", n=3)
    rows = list(csv.DictReader(io.StringIO((folder / "s.csv").read_text("utf-8-sig"), newline="")))
    return pd.DataFrame([row | {"verdict": "ok", "comment": "da, ne; ni"} for row in rows])


@pytest.mark.slow
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("above", ["", "Round 1, Ana, 3 May\r\n", "Round;1;\n\n", "sep={}\r\n"])
def test_review_sheets_come_back_with_any_separator_and_lines_above(
    workspace, tmp_path, separator, above
):
    text = sheet_of(workspace, tmp_path).to_csv(sep=separator, index=False)
    back = written(tmp_path / "back.csv", above.format(separator) + text, "utf-16")
    report = nbaudio.review.import_(workspace, back)
    assert report.problems == []
    verdicts = nbaudio.review.verdicts(workspace)
    assert sorted(verdicts["segment_id"]) == ["s0", "s1", "s2"]
    assert set(verdicts["comment"]) == {"da, ne; ni"}


def test_a_review_sheet_with_a_stray_quote_is_refused_with_its_line(workspace, tmp_path):
    text = sheet_of(workspace, tmp_path).to_csv(index=False)
    back = written(tmp_path / "back.csv", text.rstrip("\n") + ',"and\n')
    with pytest.raises(InputError, match=r"back\.csv: line 4: nothing closes the quote of a cell"):
        nbaudio.review.import_(workspace, back)


# encodings and ends of lines


@pytest.mark.parametrize("encoding", ["utf8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_marked_encodings_and_all_ends_of_lines_are_read(tmp_path, encoding, end):
    mark = {"utf-16-be": codecs.BOM_UTF16_BE, "utf-16-le": codecs.BOM_UTF16_LE}.get(encoding, b"")
    text = end.join(["name\ttext", "a.wav\tGrüße, Äpfel", "", "b.wav\tčao", ""])
    source = written(tmp_path / "t.tsv", mark + text.encode(encoding))
    assert texts_of(source) == {"a.wav": "Grüße, Äpfel", "b.wav": "čao"}


@pytest.mark.parametrize("encoding", ["cp1250", "cp1252", "utf-16-le"])
def test_a_table_that_is_not_utf8_is_refused_with_the_encoding_option(tmp_path, encoding):
    source = written(tmp_path / "t.csv", "name,text\na.wav,ö, ž\n".replace(", ", " "), encoding)
    with pytest.raises(InputError, match=r"line [12]: not UTF-8 text.*--option encoding="):
        table.read(source)
    assert texts_of(source, encoding=encoding) == {"a.wav": "ö ž"}
    with pytest.raises(InputError, match="option encoding: 'cp1' is unknown"):
        table.read(source, encoding="cp1")


def test_a_table_in_utf8_is_read_so_whatever_the_encoding_option_says(tmp_path):
    source = written(tmp_path / "t.csv", "name,text\na.wav,čaj\n", "utf8")
    assert texts_of(source, encoding="cp1250") == {"a.wav": "čaj"}


# lines above the header


@pytest.mark.parametrize(
    "title", ["Sitting of May\n\n", "Sitting;;\n", ";;\nSitting;;\n", "Round 1, Ana, 3 May;\n"]
)
def test_lines_above_the_header_are_skipped_and_reported(tmp_path, title):
    source = written(tmp_path / "t.csv", f"{title}name;text;note\na.wav;da;\nb.wav;ne, ni;x\n")
    report = ingest(source)
    assert report.facts["not_read"] == [
        {"what": "lines above the header of t.csv", "count": 1, "option": ""}
    ]
    assert Workspace.open(tmp_path / "t.W").segments["text"].to_list() == ["da", "ne, ni"]


HEADERLESS = 'a.wav;0;1;da\na.wav;1;2,5;ne, ni\n\nb.wav;0;1;"eno; to"\n'
COLUMNS = "name,start,end,text"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "sep=;\n"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt"])
def test_a_table_without_a_header_gets_the_names_of_an_option(tmp_path, first, name):
    source = written(tmp_path / name, first + HEADERLESS)
    report = ingest(source, header=COLUMNS)
    assert report.problems == []
    segments = Workspace.open(tmp_path / "t.W").segments
    assert segments.select("recording_id", "source_start", "source_end", "text").rows() == [
        ("a", "0", "1", "da"),
        ("a", "1", "2.5", "ne, ni"),
        ("b", "0", "1", "eno; to"),
    ]


def test_a_table_without_a_header_names_the_option(tmp_path):
    source = written(tmp_path / "t.csv", "a.wav,0,1,da\nb.wav,1,2,ne\n")
    with pytest.raises(InputError, match=r"name all columns, such as --option header=name,start"):
        ingest(source)
    with pytest.raises(InputError, match=r"it names 3 columns, the first row has 4: a.wav, 0"):
        ingest(source, header="name,start,text")
    with pytest.raises(InputError, match="several columns are called 'name'"):
        ingest(source, header="name,name,end,text")
    titled = written(tmp_path / "u.csv", "file;words\na.wav;da\n")
    with pytest.raises(InputError) as error:
        ingest(titled)
    assert "--option header" not in str(error.value)
    lines = written(tmp_path / "t.jsonl", '{"name": "a.wav", "text": "da"}\n')
    with pytest.raises(InputError, match="option header: it is for delimited text"):
        ingest(lines, header="name,text")


def test_a_column_name_may_have_line_breaks(tmp_path):
    source = written(tmp_path / "t.csv", 'name,text,"loudness\n(dB)"\na.wav,da,2\n')
    assert table.read(source).frame["loudness\n(dB)"].to_list() == ["2"]


def test_row_names_written_by_r_become_a_separate_column(tmp_path):
    source = written(tmp_path / "t.tsv", '"name"\t"text"\n"1"\t"a.wav"\t"da"\n"2"\t"b.wav"\t"ne"\n')
    assert texts_of(source) == {"a.wav": "da", "b.wav": "ne"}
    assert table.read(source).frame["column A"].to_list() == ["1", "2"]


# quotes


TEXTS = ['er sagte "ja"', "plain", "a\tb", '"ganz"', "zwei\nZeilen, ja", "a;b, c", "5 | 6"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC, csv.QUOTE_ALL])
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_tables_of_pandas_come_back_as_they_were(tmp_path, separator, quoting, ending):
    names = [f"a{number}.wav" for number in range(len(TEXTS))]
    frame = pd.DataFrame({"name": names, "text": TEXTS, "n": range(len(TEXTS))})
    path = tmp_path / f"t{ending}"
    frame.to_csv(path, sep=separator, quoting=quoting, index=False)
    assert texts_of(path) == dict(zip(names, TEXTS, strict=True))
    assert table.read(path).problems.is_empty()


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    texts=st.lists(
        st.text(st.sampled_from("ab \",;\t\n'|ž."), min_size=1, max_size=12).filter(str.strip),
        min_size=1,
        max_size=5,
    ),
    separator=st.sampled_from(",\t"),
)
@example(['"'], "\t")
@example(['""'], "\t")
def test_every_text_written_by_pandas_is_read_unchanged(tmp_path_factory, texts, separator):
    path = tmp_path_factory.mktemp("pandas") / f"t{'.csv' if separator == ',' else '.tsv'}"
    frame = pd.DataFrame({"name": [f"a{n}.wav" for n in range(len(texts))], "text": texts})
    frame.to_csv(path, sep=separator, index=False, quoting=csv.QUOTE_ALL)
    assert table.read(path).frame["text"].to_list() == texts


def test_quotes_in_texts_are_kept_if_cells_are_not_quoted(tmp_path):
    lines = [
        "name\ttext",
        'a.wav\t"Da", rekla je.',
        'b.wav\t"Ne"',
        'c.wav\tdulj 5", da',
        'd.wav\t"Da',
    ]
    source = written(tmp_path / "t.tsv", "\n".join(lines))
    assert list(texts_of(source).values()) == ['"Da", rekla je.', '"Ne"', 'dulj 5", da', '"Da']
    assert texts_of(source, quotes="yes")["b.wav"] == "Ne"


def test_cells_that_excel_quoted_for_their_commas_are_unquoted(tmp_path):
    rows = 'name\ttext\r\na.wav\t"Grüße, Äpfel"\r\nb.wav\tBirnen\r\n'
    report = ingest(written(tmp_path / "t.tsv", rows, "utf-16"))
    assert Workspace.open(tmp_path / "t.W").segments["text"].to_list() == ["Grüße, Äpfel", "Birnen"]
    assert [note for note in report.warnings if "quotes around cells are those of the file" in note]


def test_quotes_that_may_be_those_of_the_file_are_noted(tmp_path):
    lines = ['a.wav\t"Ja" sagte er', 'b.wav\t"Ja"" und"', 'c.wav\tnein "', 'd.wav\t"und']
    report = ingest(written(tmp_path / "t.tsv", "\n".join(["name\ttext", *lines])))
    texts = Workspace.open(tmp_path / "t.W").segments["text"].to_list()
    assert texts == [line.partition("\t")[2] for line in lines]
    [note] = [note for note in report.warnings if "quotes are part of the texts" in note]
    assert "but 1 cell may be: --option quotes=yes" in note


@pytest.mark.parametrize(
    ("lines", "lost", "texts"),
    [
        (['a0.wav,"Hallo', 'a1.wav,er sagte ja"', "a2.wav,drei"], [2], ['er sagte ja"', "drei"]),
        (['a0.wav,"Hallo', "a1.wav,eins", "a2.wav,zwei", 'a3.wav,"drei"'], [2], None),
        (["a0.wav,eins", 'a1.wav,"zwei" und drei', "a2.wav,vier"], [3], ["eins", "vier"]),
        (["a0.wav,eins", "a1.wav,zwei", 'a2.wav,"drei'], [4], ["eins", "zwei"]),
        (['a0.wav,"eins', "und zwei", "a1.wav,drei"], [2, 3], ["drei"]),
        (['a0.wav,"eins', "", 'zwei"', "a1.wav,drei"], [], ["eins\n\nzwei", "drei"]),
        (['a0.wav,"eins', 'und zwei, ja"', "a1.wav,drei"], [], ["eins\nund zwei, ja", "drei"]),
    ],
)
def test_a_stray_quote_affects_only_its_own_line(tmp_path, lines, lost, texts):
    source = written(tmp_path / "t.csv", "\n".join(["name,text", *lines, "a8.wav,x", "a9.wav,y"]))
    found = table.read(source)
    assert found.problems["line"].to_list() == lost
    wanted = texts or ["eins", "zwei", "drei"]
    assert found.frame["text"].to_list() == [*wanted, "x", "y"]
    for line, reason in found.problems.select("line", "reason").iter_rows():
        assert lines[line - 2] in reason or "fields" in reason


def test_option_quotes_yes_reads_a_quoted_cell_over_several_lines(tmp_path):
    source = written(tmp_path / "t.csv", 'name,text\na.wav,"da\nb.wav,ne"\nc.wav,ni\n')
    assert texts_of(source) == {"b.wav": 'ne"', "c.wav": "ni"}
    assert texts_of(source, quotes="yes") == {"a.wav": "da\nb.wav,ne", "c.wav": "ni"}
    assert texts_of(source, quotes="no") == {"a.wav": '"da', "b.wav": 'ne"', "c.wav": "ni"}


# decimal commas


@pytest.mark.parametrize(
    ("starts", "ends", "found"),
    [
        (["0,5", "1,25"], ["1,25", "2"], ["0.5", "1.25"]),
        (["0,000", "1,250"], ["1,250", "2,500"], ["0.000", "1.250"]),
        (["1.250,5", "1.260"], ["1.260", "1.270"], ["1250.5", "1260"]),
        (["1,250.5", "1,260"], ["1,260", "1,270"], ["1250.5", "1260"]),
    ],
)
def test_commas_in_times_are_read_as_decimal_or_thousands_separators(tmp_path, starts, ends, found):
    frame = pd.DataFrame({"name": "a.wav", "start_time": starts, "end_time": ends, "text": "da"})
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.tsv", "t.parquet"):
        read = table.read(tmp_path / name)
        assert read.frame["source_start"].to_list() == found
        assert read.frame["source_end"].to_list()[0] == found[1]
        assert [note for note in read.notes if "numbers such as" in note and "comma" in note]


def test_ambiguous_commas_in_times_are_refused_with_the_decimal_option(tmp_path):
    source = written(tmp_path / "t.tsv", "name\tstart\tend\ttext\na.wav\t1,250\t2,500\tda\n")
    with pytest.raises(InputError, match=r"times such as 1,250 can be read.*--option decimal=,"):
        table.read(source)
    for sign, start in ((",", "1.250"), (".", "1250")):
        assert table.read(source, decimal=sign).frame["source_start"].to_list() == [start]
    with pytest.raises(InputError, match="option decimal='x': must be , or"):
        table.read(source, decimal="x")


def test_decimal_commas_are_replaced_in_times_but_not_in_texts(tmp_path):
    source = written(tmp_path / "t.tsv", "name\tstart\tend\ttext\na.wav\t0,5\t2\t3,5\n")
    assert texts_of(source) == {"a.wav": "3,5"}


def test_join_reads_times_with_decimal_commas(tmp_path):
    (tmp_path / "audio").mkdir()
    soundfile.write(tmp_path / "audio/a.wav", np.zeros(3 * RATE), RATE)
    text = "name,start,end,text\na.wav,0.5,1.25,da\na.wav,1.25,2.5,ne\n"
    ingest(written(tmp_path / "t.csv", text), tmp_path / "W")
    workspace = Workspace.open(tmp_path / "W")
    heard = written(tmp_path / "h.csv", "file;start;end;text\na.wav;0,5;1,25;da\n")
    nbaudio.join(workspace, heard, on="file,start,end", hypothesis="large")
    assert workspace.segments["asr_text_large"].to_list() == ["da", None]


@pytest.mark.slow
def test_joined_facts_with_decimal_commas_are_numbers_and_joined_texts_are_not(workspace, tmp_path):
    facts = written(tmp_path / "f.csv", "segment_id;snr;note\ns0;3,5;1,5 dB\ns1;-4;x\ns2;;y\n")
    report = nbaudio.join(workspace, facts, column="snr")
    assert workspace.segments["snr"].to_list() == [3.5, -4.0, None]
    assert [note for note in report.warnings if note.startswith("'snr': numbers such as 3,5 are")]
    nbaudio.join(workspace, facts, column="note")
    assert workspace.segments["note"].to_list() == ["1,5 dB", "x", "y"]
    nbaudio.join(workspace, facts, text="said", from_="snr")
    assert workspace.segments["text_said"].to_list() == ["3,5", "-4", None]


# Common Voice


HEAD = (
    "client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tdown_votes\tage\tgender\t"
    "accents\tvariant\tlocale\tsegment"
)


def common_voice(folder, sentences, *, is_quoted=False, name="validated"):
    """A table of a language, with the columns of release 17, with quoted cells or without."""
    folder.mkdir(exist_ok=True)
    rows = [
        [f"p{n}", f"c{n}.mp3", f"id{n}", text, "", "2", "0", "", "", "", "north", "en", ""]
        for n, text in enumerate(sentences)
    ]
    out = io.StringIO()
    csv.writer(out, delimiter="\t").writerows(rows)
    plain = "".join("\t".join(row) + "\n" for row in rows)
    written(folder / f"{name}.tsv", f"{HEAD}\n{out.getvalue() if is_quoted else plain}")
    return folder


SENTENCES = ['"Good-bye," said the boy.', "He left.", 'He said "no" twice.', '"Yes!"']


@pytest.mark.slow
@pytest.mark.parametrize("is_quoted", [False, True])
def test_sentences_of_common_voice_with_and_without_quoted_cells(tmp_path, is_quoted):
    source = common_voice(tmp_path / "en", SENTENCES, is_quoted=is_quoted)
    report = nbaudio.ingest("commonvoice", source, out=tmp_path / "W")
    segments = Workspace.open(tmp_path / "W").segments
    assert segments["text"].to_list() == SENTENCES
    assert segments["variant"].to_list() == ["north"] * 4
    assert segments["sentence_id"].to_list() == ["id0", "id1", "id2", "id3"]
    notes = [note for note in report.warnings if "quotes around cells" in note]
    assert len(notes) == is_quoted


def test_clips_of_common_voice_that_listeners_did_not_accept_are_counted(tmp_path):
    source = common_voice(tmp_path / "en", SENTENCES)
    common_voice(source, SENTENCES[:3], name="other")
    report = nbaudio.ingest("commonvoice", source, out=tmp_path / "W")
    assert report.facts["not_read"] == [
        {"what": "clips of other.tsv", "count": 3, "option": "ingest table other.tsv"}
    ]
    assert "clips of other.tsv" in str(report)


def test_a_text_with_a_carriage_return_stays_in_one_row(tmp_path):
    source = written(tmp_path / "t.tsv", "name\ttext\na.wav\tda\rne\nb.wav\tni\n")
    assert texts_of(source) == {"a.wav": "da\rne", "b.wav": "ni"}


def test_tables_of_polars_come_back_as_they_were(tmp_path):
    frame = pl.DataFrame({"name": ["a.wav", "b.wav"], "text": ['"da", ne', ""]})
    frame.write_csv(tmp_path / "t.tsv", separator="\t")
    assert texts_of(tmp_path / "t.tsv") == {"a.wav": '"da", ne', "b.wav": ""}
