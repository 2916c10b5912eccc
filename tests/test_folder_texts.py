"""`ingest folder`: texts in files beside recordings, and files that are not read."""

import json
import tarfile
import unicodedata

import polars as pl
import pytest
import stores
from specimens import lines, tone
from typer.testing import CliRunner

from nbaudio import ingest
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.tables.workspace import Workspace


@pytest.fixture
def talks(tmp_path):
    """A folder with recordings `a.wav` and `b.wav`."""
    for name in ("a.wav", "b.wav"):
        tone(tmp_path / "talks" / name, 1)
    return tmp_path / "talks"


def taken(source, out, **options):
    report = ingest("folder", source, out=out, options=options)
    return report, Workspace.open(out).segments


def texts(source, out, **options):
    """Texts by the id of the segment."""
    return dict(taken(source, out, **options)[1].select("segment_id", "text").iter_rows())


def warnings_with(report, part):
    """The warnings of a report that contain a text."""
    return [line for line in report.warnings if part in line]


def refused(report):
    """Problems with a file, without those of segments that have no text."""
    return [line for line in report.problems if not line.startswith("empty_text")]


def whisper(*words, text=None):
    """What Whisper writes about a recording."""
    timed = [{"word": word, "start": n, "end": n + 1} for n, word in enumerate(words)]
    spoken = " ".join(words) if text is None else text
    return json.dumps({"text": f" {spoken}", "segments": [{"start": 0, "words": timed}]})


def test_a_text_file_beside_each_recording_is_its_transcript(talks, tmp_path):
    lines(talks / "a.txt", " Dobar dan,", "", "kako ste? ")
    lines(talks / "b.lab", "DA")
    done = CliRunner().invoke(
        app, ["ingest", "folder", str(talks), "--out", str(tmp_path / "W"), "--json"]
    )
    report = json.loads(done.stdout)
    assert (done.exit_code, report["problems"]) == (0, [])
    assert report["facts"]["rejected"] == {}
    found = Workspace.open(tmp_path / "W").segments
    assert found.select("segment_id", "text", "start_sample", "end_sample").rows() == [
        ("a", "Dobar dan, kako ste?", 0, 8000),
        ("b", "DA", 0, 8000),
    ]
    assert (
        "texts are read from files beside the recordings, 1 .txt and 1 .lab: "
        "--option texts=no leaves them out"
    ) in report["warnings"]


def test_a_folder_without_texts_gives_no_message_about_texts(talks, tmp_path):
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == [None, None]
    assert found["decision"].to_list() == ["pending", "pending"]
    assert not warnings_with(report, "text")
    assert not warnings_with(report, "not read")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recording", "file"),
    [
        ("x/č [HlauTe_NK6U].wav", "x/č [HlauTe_NK6U].txt"),
        (f"x/{unicodedata.normalize('NFD', 'čaj')}.wav", "x/čaj.TXT"),
        ("čaj.wav", f"{unicodedata.normalize('NFD', 'čaj')}.Lab"),
        ("one  two .wav", "one two.txt"),
        ("one two.flac", "one\u00a0two.txt"),
        ("A.WAV", "A.JSON"),
        ("a.b.c.wav", "a.b.c.txt"),
        ("a.wav", "a.wav.txt"),
        ("a.wav", "a.Normalized.txt"),
        ("a.wav", "a.original.txt"),
    ],
)
def test_text_files_are_matched_by_the_rules_for_recording_names(tmp_path, recording, file):
    tone(tmp_path / "talks" / recording, 1)
    lines(tmp_path / "talks" / file, '{"text": "da"}' if file.endswith("JSON") else "da")
    report, found = taken(tmp_path / "talks", tmp_path / "W")
    assert found["text"].to_list() == ["da"]
    assert refused(report) == []
    assert not warnings_with(report, "not read")


def test_a_text_is_of_the_recordings_in_its_folder(tmp_path):
    for name in ("a.wav", "x/a.wav", "x/a.mp3", "y/a.wav"):
        tone(tmp_path / "talks" / name, 1)
    lines(tmp_path / "talks/x/a.txt", "da")
    lines(tmp_path / "talks/z/a.txt", "ne")
    report, found = taken(tmp_path / "talks", tmp_path / "W")
    paths = Workspace.open(tmp_path / "W").recordings.select("recording_id", "path")
    by_path = dict(found.join(paths, on="recording_id").select("path", "text").iter_rows())
    assert by_path == {"a.wav": None, "x/a.wav": "da", "x/a.mp3": "da", "y/a.wav": None}
    assert warnings_with(report, "2 of 4 recordings have no text beside them, such as a.wav")
    assert warnings_with(
        report,
        "1 .txt file has no recording of that name beside it: not read, such as z/a.txt",
    )


def test_a_text_file_that_matches_several_recordings_is_a_problem(tmp_path):
    for name in ("one two.wav", "one  two.wav"):
        tone(tmp_path / "talks" / name, 1)
    lines(tmp_path / "talks/one   two.txt", "da")
    report, found = taken(tmp_path / "talks", tmp_path / "W")
    assert found["text"].to_list() == [None, None]
    assert refused(report) == [
        "one   two.txt as a whole: several recordings have this name, but for its spelling"
    ]
    # With a file of exactly that name, there is no doubt.
    lines(tmp_path / "talks/one two.txt", "ne")
    assert sorted(texts(tmp_path / "talks", tmp_path / "V").values(), key=str) == [None, "ne"]


def test_a_second_file_with_the_same_ending_is_a_problem(talks, tmp_path):
    lines(talks / "a.TXT", "da")
    lines(talks / "a.txt", "ne")
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == ["da", None]
    assert refused(report) == [
        "a.txt as a whole: another file with this ending is read for the same recording"
    ]


# --- several texts of a recording


def test_texts_of_several_files_that_differ_are_all_kept(talks, tmp_path):
    lines(talks / "a.txt", "Dobar  dan")
    lines(talks / "a.lab", "DOBAR DAN")
    lines(talks / "a.json", '{"sentence": "Dobar\\ndan"}')
    lines(talks / "b.txt", "da")
    lines(talks / "b.lab", "da")
    report, found = taken(talks, tmp_path / "W")
    assert found.select("text", "text_lab").rows() == [
        ("Dobar  dan", "DOBAR DAN"),
        ("da", None),
    ]
    assert "text_json" not in found.columns
    assert warnings_with(
        report,
        "1 .lab file has another text than the one that is read, such as a.lab: it is kept as "
        "text_lab",
    )


def test_for_libritts_text_is_normalized_and_text_raw_original(talks, tmp_path):
    lines(talks / "a.normalized.txt", "Mister Twenty")
    lines(talks / "a.original.txt", "Mr. 20")
    lines(talks / "b.normalized.txt", "Yes.")
    lines(talks / "b.original.txt", "Yes.")
    report, found = taken(talks, tmp_path / "W")
    assert found.select("text", "text_raw").rows() == [("Mister Twenty", "Mr. 20"), ("Yes.", None)]
    assert warnings_with(report, "2 .normalized.txt: --option texts=no")


# --- files that are no plain texts

HTK = "0 3500000 sil -12.5\n3500000 9100000 dobar\n9100000 12000000 dan\n"
FESTIVAL = "separator ;\nnfields 1\n#\n    0.1250 100 pau\n    0.9000 100 d\n"
AUDACITY = "0.000000\t1.500000\tdobar dan\n"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("a.lab", HTK),
        ("a.lab", HTK.splitlines()[1]),
        ("a.lab", FESTIVAL),
        ("a.txt", AUDACITY),
        ("a.txt", "0.5 1.5\n1.5 2 da\n"),
        ("a.txt", "-0,500000\t1,500000\tda\n1,500000\t2,000000\tne\n"),
        ("a.txt", "0.500000\t1.500000\tda\n\\\t100.0\t200.0\n"),
    ],
)
def test_label_files_with_times_are_reported_and_not_read_as_text(talks, tmp_path, file, content):
    (talks / file).write_text(content, encoding="utf8")
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == [None, None]
    assert warnings_with(
        report, f"1 file with times, as labels of Audacity, HTK or Festival, such as {file}: "
    )
    # A text beside it is read.
    (talks / f"a.{'txt' if file == 'a.lab' else 'lab'}").write_text("da")
    assert texts(talks, tmp_path / "W")["a"] == "da"


@pytest.mark.parametrize(
    "content",
    [
        "1\n00:00:00,000 --> 00:00:02,000\nda\n",
        "[00:00:00.000 --> 00:00:02.000]  da\n[00:00:02.000 --> 00:00:03.000]  ne\n",
        "0:00\nda\n0:15\nne\n",
        "[00:00:01] Ana: da\n[00:00:04] Ivo: ne\n",
        "Ana  0:01\nda\n\nIvo (00:04):\nne\n",
        "[00:01.50]da\n[00:02.50]ne\n",
    ],
)
def test_texts_with_times_are_reported_and_not_read_as_text(talks, tmp_path, content):
    (talks / "a.txt").write_text(content, encoding="utf8")
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == [None, None]
    assert warnings_with(
        report, "1 file with times, as subtitles or transcripts of services, such as a.txt: "
    )


@pytest.mark.parametrize("content", ["{\\rtf1\\ansi Da.}", "<html><body>Da.</body></html>"])
def test_formatted_text_is_a_problem(talks, tmp_path, content):
    (talks / "a.txt").write_text(content, encoding="utf8")
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == [None, None]
    assert refused(report) == ["a.txt as a whole: RTF or HTML, no plain text: not read"]


@pytest.mark.parametrize(
    "content",
    [
        "2 3 four",
        "1 2",
        "20 30 godina",
        "dobar\ndan",
        "3 2 1\n1 2 3",
        "-5 3 stupnja",
        "u 9:30\ni u 10:30",
        "1984.",
        "10.30 sati",
    ],
)
def test_a_text_of_numbers_is_read_as_text(talks, tmp_path, content):
    (talks / "a.txt").write_text(content, encoding="utf8")
    assert texts(talks, tmp_path / "W")["a"] == content.replace("\n", " ")


def test_the_output_of_a_recognizer_is_named_with_the_command_that_reads_it(talks, tmp_path):
    (talks / "a.json").write_text(whisper("dobar", "dan"))
    (talks / "b.json").write_text(
        '{"result": [{"word": "da", "start": 0, "end": 1}], "text": "da"}'
    )
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == [None, None]
    assert warnings_with(
        report,
        "2 files with the words of a recognizer and their times, such as a.json: not read; "
        "'nbaudio align' reads them as hypotheses",
    )


def test_a_text_equal_to_the_output_of_a_recognizer_is_reported(talks, tmp_path):
    (talks / "a.json").write_text(whisper("Dobar", "dan"))
    lines(talks / "a.txt", "Dobar", "dan")
    (talks / "b.json").write_text(whisper("blic"))
    lines(talks / "b.txt", "Blitz")
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == ["Dobar dan", "Blitz"]
    assert warnings_with(
        report, "1 file with the same text as a recognizer's .json beside them, such as a.txt"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"text": "da", "sentence": "ne"}', "it has different texts, text and sentence; keep one"),
        ('{"text": " "}', "its text is empty"),
        ("", "the file is empty"),
        ('{"text": ', "not JSON that can be read: "),
        ('{"text": "\\ud800"}', "not JSON that can be read: "),
        ("[" * 100_000, "not JSON that can be read: "),
    ],
    ids=["two texts", "blank", "empty", "cut off", "half a character", "nested"],
)
def test_json_that_has_no_single_text_is_a_problem(talks, tmp_path, content, reason):
    (talks / "a.json").write_text(content)
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == [None, None]
    [problem] = refused(report)
    assert problem.startswith(f"a.json as a whole: {reason}")


def test_json_files_without_text_and_unread_json_fields_are_reported(talks, tmp_path):
    (talks / "a.json").write_text('{"text": "da", "text_id": 7, "speaker": "ana"}')
    (talks / "b.json").write_text('{"title": "da"}')
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == ["da", None]
    assert warnings_with(report, "1 file without text, such as b.json: not read")
    assert warnings_with(report, "fields of .json files that are not read: speaker, text_id")


def test_text_files_are_utf8_utf16_or_in_the_encoding_option(talks, tmp_path):
    (talks / "a.txt").write_bytes("točno".encode("cp1250"))
    (talks / "b.txt").write_bytes("točno".encode("utf-16"))
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == [None, "točno"]
    [problem] = refused(report)
    assert problem == (
        "a.txt as a whole: not utf-8 text (byte 3); name the encoding by --option encoding=NAME"
    )
    (talks / "b.txt").unlink()
    assert texts(talks, tmp_path / "W", encoding="cp1250")["a"] == "točno"
    # The option is about texts that are in no UTF.
    for codec in ("utf8", "utf-8-sig", "utf-16"):
        (talks / "b.txt").write_bytes("kava i čaj".encode(codec))
        found = texts(talks, tmp_path / "W", encoding="cp1250")
        assert found == {"a": "točno", "b": "kava i čaj"}
    (talks / "a.txt").write_bytes("模".encode("gbk"))  # also valid UTF-8
    assert texts(talks, tmp_path / "W", encoding="gbk")["a"] == "模"
    with pytest.raises(InputError, match="option encoding: 'cp0' is unknown"):
        taken(talks, tmp_path / "W", encoding="cp0")


def test_an_empty_file_and_a_link_outside_are_problems(talks, tmp_path):
    (talks / "a.txt").touch()
    lines(tmp_path / "secret.txt", "da")
    (talks / "b.txt").symlink_to(tmp_path / "secret.txt")
    (talks / "cover.jpg").symlink_to(tmp_path / "secret.txt")
    report, found = taken(talks, tmp_path / "W")
    assert found["text"].to_list() == [None, None]
    assert refused(report) == [
        "a.txt as a whole: the file is empty",
        "b.txt as a whole: a link that points outside the audio folder",
    ]


# --- windows, and texts that are not wanted


def test_option_window_refuses_texts_of_whole_recordings(talks, tmp_path):
    lines(talks / "b.txt", "da")
    lines(talks / "README.txt", "about")
    done = CliRunner().invoke(
        app,
        ["ingest", "folder", str(talks), "--out", str(tmp_path / "W"), "--option", "window=0.5"],
    )
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"nbaudio: {talks}: option window=0.5 divides recordings, but the text beside b.wav is "
        "that of the whole; leave window out, or the texts by --option texts=no"
    ]
    report, found = taken(talks, tmp_path / "W", window="0.5", texts=False)
    assert found["text"].to_list() == [None] * 4
    assert warnings_with(report, "1 text file beside the recordings: not read, texts=no")
    (talks / "b.txt").unlink()
    assert len(taken(talks, tmp_path / "W", window="0.5")[1]) == 4
    with pytest.raises(InputError, match="option texts='maybe': must be yes or no"):
        taken(talks, tmp_path / "W", texts="maybe")


# --- files of other formats

OTHERS = {
    "a.TextGrid": "1 .TextGrid file is not read, such as a.TextGrid: 'nbaudio ingest textgrid'",
    "a.srt": "1 .srt file is not read, such as a.srt: 'nbaudio ingest subtitles' reads them",
    "x/b.VTT": "1 .VTT file is not read, such as x/b.VTT: 'nbaudio ingest subtitles' reads them",
    "all.ctm": "1 .ctm file is not read, such as all.ctm: 'nbaudio align' reads them as hypot",
    "a.eaf": "1 .eaf file is not read, such as a.eaf: no format reads them; export TextGrids",
    "list.csv": "1 .csv file is not read, such as list.csv: 'nbaudio ingest table' reads such a",
    "84-1.trans.txt": "1 .trans.txt file is not read, such as 84-1.trans.txt: 'nbaudio ingest li",
    "minutes.docx": "1 .docx file is not read, such as minutes.docx: 'nbaudio align' reads them",
    "cover.jpg": "other files are not read: 1 .jpg (cover.jpg)",
    "LICENSE": "other files are not read: 1 without an ending (LICENSE)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_named_with_the_format_that_reads_them(talks, tmp_path, name):
    lines(talks / name, "da")
    lines(talks / ".hidden.jpg", "da")
    report, _ = taken(talks, tmp_path / "W")
    [line] = warnings_with(report, "not read")
    assert line.startswith(OTHERS[name])


# --- elsewhere


def test_texts_in_a_store_are_read_too(talks, tmp_path):
    lines(talks / "a.txt", "da")
    lines(talks / "b.json", '{"text": "ne"}')
    stores.register(tmp_path)
    try:
        assert texts("gs://talks", tmp_path / "W") == {"a": "da", "b": "ne"}
    finally:
        stores.unregister()


@pytest.mark.parametrize("ending", ["tar.gz", "tar"])
def test_texts_in_an_archive_are_read_or_counted(talks, tmp_path, ending):
    lines(talks / "a.txt", "da")
    with tarfile.open(
        tmp_path / f"talks.{ending}", f"w:{'gz' if ending == 'tar.gz' else ''}"
    ) as tar:
        tar.add(talks, "talks")
    address = f"tar://talks::{tmp_path}/talks.{ending}"
    report, found = taken(address, tmp_path / "W")
    assert found.height == 2
    if ending == "tar":
        assert found["text"].to_list() == ["da", None]
    else:
        assert found["text"].to_list() == [None, None]
        assert warnings_with(
            report, "1 text file beside the recordings: not read, unpack the archive"
        )


def test_ingest_add_takes_in_texts_that_changed(talks, tmp_path):
    lines(talks / "a.txt", "da")
    ingest("folder", talks, out=tmp_path / "W", add=True)
    lines(talks / "b.txt", "ne")
    report = ingest("folder", talks, out=tmp_path / "W", add=True)
    assert report.facts["changed"] == 1
    found = Workspace.open(tmp_path / "W").segments
    assert found.select("text", "decision").rows() == [("da", "pending"), ("ne", "pending")]
    assert found.schema["text"] == pl.String
