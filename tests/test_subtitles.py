"""Subtitles as they are in the field: rolling, growing, without blank lines, without numbers."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf

import nbaudio
from nbaudio.core.errors import InputError
from nbaudio.formats.documents import read_documents
from nbaudio.tables.workspace import Workspace

RATE = 8000


def cue(number: int | str, start: str, end: str, *lines: str) -> str:
    """A cue of SubRip with a blank line behind it."""
    return "\n".join([f"{number}", f"00:00:{start} --> 00:00:{end}", *lines, "", ""])


def ingest(folder: Path, text: str, name: str = "a.srt", **options: str) -> nbaudio.Report:
    """Ingest one file of subtitles beside 20 s of sound."""
    source = folder / "source"
    source.mkdir(exist_ok=True)
    sound = np.sin(np.arange(20 * RATE) / 9) / 4
    sf.write(source / f"{name.partition('.')[0]}.wav", sound, RATE)
    (source / name).write_text(text, "utf8")
    return nbaudio.ingest("subtitles", source, out=folder / "W", options=options or None)


def rows(folder: Path) -> list[tuple[str, str, str]]:
    """Times and texts of the segments."""
    segments = Workspace.open(folder / "W").segments
    found: list[tuple[str, str, str]] = segments.select("source_start", "source_end", "text").rows()
    return found


YOUTUBE = """WEBVTT
Kind: captions
Language: en

00:00:00.500 --> 00:00:03.000 align:start position:0%
\x20
welcome<00:00:01.500><c> to</c><00:00:01.740><c> us</c>

00:00:03.000 --> 00:00:03.010 align:start position:0%
welcome to us
\x20

00:00:03.010 --> 00:00:05.000 align:start position:0%
welcome to us
about<00:00:03.500><c> &amp;</c><00:00:04.000><c> networks</c>

00:00:05.000 --> 00:00:05.010 align:start position:0%
about &amp; networks
\x20

00:00:09.000 --> 00:00:11.000 align:start position:0%
about &amp; networks
and<00:00:10.000><c> speech</c>
"""
ONCE = [
    ("0.500", "3.000", "welcome to us"),
    ("3.010", "5.000", "about & networks"),
    ("9.000", "11.000", "and speech"),
]


def test_each_line_of_rolling_captions_is_one_segment(tmp_path):
    report = ingest(tmp_path, YOUTUBE, "a.vtt")
    assert rows(tmp_path) == ONCE
    assert "1 file has rolling captions" in " ".join(report.warnings)
    assert "2 cues only repeat what another cue shows" in " ".join(report.warnings)


def test_rolling_captions_saved_as_srt_give_each_line_once(tmp_path):
    ingest(
        tmp_path,
        cue(1, "00,500", "03,000", "welcome to us")
        + cue(2, "03,000", "03,010", "welcome to us")
        + cue(3, "03,010", "05,000", "welcome to us", "about networks")
        + cue(4, "05,000", "05,010", "about networks")
        + cue(5, "05,010", "08,000", "about networks", "and speech"),
    )
    assert [text for _, _, text in rows(tmp_path)] == [
        "welcome to us",
        "about networks",
        "and speech",
    ]


def test_rolling_captions_with_joined_lines_give_each_line_once(tmp_path):
    ingest(
        tmp_path,
        cue(1, "00,500", "03,000", "welcome to us")
        + cue(2, "03,000", "03,010", "welcome to us")
        + cue(3, "03,010", "05,000", "welcome to us about networks")
        + cue(4, "05,000", "05,010", "about networks")
        + cue(5, "05,010", "08,000", "about networks and speech"),
    )
    assert [text for _, _, text in rows(tmp_path)] == [
        "welcome to us",
        "about networks",
        "and speech",
    ]


def test_captions_rolling_up_by_three_lines_give_each_line_once(tmp_path):
    ingest(
        tmp_path,
        cue(1, "01,000", "02,000", "A")
        + cue(2, "02,000", "03,000", "A", "B")
        + cue(3, "03,000", "04,000", "A", "B", "C")
        + cue(4, "04,000", "05,000", "B", "C", "<i>D</i>"),
    )
    assert rows(tmp_path) == [
        ("1.000", "2.000", "A"),
        ("2.000", "3.000", "B"),
        ("3.000", "4.000", "C"),
        ("4.000", "5.000", "D"),
    ]


def test_captions_growing_word_by_word_give_one_segment_per_line(tmp_path):
    ingest(
        tmp_path,
        cue(1, "01,000", "01,500", "good")
        + cue(2, "01,500", "02,000", "good morning")
        + cue(3, "02,000", "03,000", "good morning all")
        + cue(4, "03,000", "03,500", "we")
        + cue(5, "03,500", "04,000", "we begin"),
    )
    assert rows(tmp_path) == [
        ("1.000", "3.000", "good morning all"),
        ("3.000", "4.000", "we begin"),
    ]


def test_a_sentence_said_twice_in_sequence_gives_two_segments(tmp_path):
    report = ingest(
        tmp_path,
        cue(1, "01,000", "02,000", "No.")
        + cue(2, "02,000", "03,000", "No.")
        + cue(3, "03,000", "04,000", "No.")
        + cue(4, "05,000", "06,000", "Yes.")
        + cue(5, "05,000", "06,000", "Yes."),
    )
    assert [text for _, _, text in rows(tmp_path)] == ["No.", "No.", "No.", "Yes."]
    assert "1 cue only repeats what another cue shows" in " ".join(report.warnings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "1\n00:00:00,5 --> 00:00:01,0\neins\n2\n00:00:01,5 --> 00:00:02,0\nzwei\n",
            ["eins", "zwei"],
        ),
        (
            "00:00:00,5 --> 00:00:01,0\n1984\n00:00:01,5 --> 00:00:02,0\n2\n"
            "00:00:03,5 --> 00:00:04,0\ndrei",
            ["1984", "2", "drei"],
        ),
        (
            cue(1, "00,5", "01,0", "eins", "", "noch eins", "", "12") + cue(2, "01,5", "02,0", "x"),
            ["eins noch eins 12", "x"],
        ),
        ("1\n\n00:00:00,5 --> 00:00:01,0\n\neins\n\n2\n\n00:00:01,5 --> 00:00:02,0\n\nzwei", None),
        ("WEBVTT\n\n00:00:00,5 --> 00:00:01,0\neins\n00:01.5 --> 00:02.0\nzwei\n", None),
        (
            "1\n00:00:00.5 --> 00:00:01.0 align:start\neins\n\n"
            "2\n00:01,5 --> 00:02,0\n<c.x>zwei</c>",
            None,
        ),
        (
            "WEBVTT\n\nSTYLE\n::cue{}\n\nfirst\n00:00.5 --> 00:01.0\neins\n\nNOTE\nno\n\n"
            "second\n00:01.5 --> 00:02.0\nzwei\n\nREGION\nid:1\n",
            None,
        ),
    ],
)
def test_cues_begin_at_lines_of_times(tmp_path, text, expected):
    report = ingest(tmp_path, text)
    assert [text for _, _, text in rows(tmp_path)] == (expected or ["eins", "zwei"])
    assert not report.problems


def test_a_cue_without_times_is_listed_and_not_text_of_the_cue_before(tmp_path):
    report = ingest(
        tmp_path, cue(1, "00,5", "01,0", "eins") + "2\nzwei\n\n" + cue(3, "02", "03", "x")
    )
    assert [text for _, _, text in rows(tmp_path)] == ["eins", "x"]
    assert "line 5: no times: '2'" in " ".join(map(str, report.problems))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("Tom &amp; Ana &gt; los&nbsp;geht&#39;s", "Tom & Ana > los geht's"),
        ("&lt;i&gt;da&lt;/i&gt; ne", "da ne"),
        (r"{\an8}da\Nne", "da ne"),
        ("1 &lt; 2", "1 < 2"),
        ("{b}da{/b} {y:i}ne", "da ne"),
        ("da<br>ne<br />da", "da ne da"),
        (r"da\nne\hda", "da ne da"),
        ("<ruby>da<rt>ne</rt></ruby> da", "da da"),
        ("\u200eda &rlm;ne", "da ne"),
        ("R&D; &unknown;", "R&D; &unknown;"),
    ],
)
def test_character_references_and_tags_of_srt_are_decoded(tmp_path, written, text):
    ingest(tmp_path, cue(1, "00,5", "02,0", written))
    assert [found for _, _, found in rows(tmp_path)] == [text]


@pytest.mark.parametrize("arrow", ["->", "=>", "—>", "–>", "--&gt;", "--->"])
def test_other_arrows_between_times_are_read(tmp_path, arrow):
    text = cue(1, "01", "02", "da") + cue(2, "02", "03", "a -> b")
    ingest(tmp_path, text.replace("-->", arrow))
    assert rows(tmp_path) == [("1", "2", "da"), ("2", "3", "a -> b")]
    assert [each.text for each in read_documents(tmp_path / "source/a.srt")] == ["da\na -> b"]


def test_concatenated_webvtt_files_of_a_stream_are_read(tmp_path):
    head = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n\n"
    text = f"{head}00:01.000 --> 00:02.000\nda\n\n{head}00:02.000 --> 00:03.000\nne\n"
    report = ingest(tmp_path, text, "a.vtt")
    assert rows(tmp_path) == [("1.000", "2.000", "da"), ("2.000", "3.000", "ne")]
    note = "1 file has X-TIMESTAMP-MAP of a stream: times are read as written, without it"
    assert note in report.warnings


def test_the_dos_end_of_file_character_is_not_read_as_text(tmp_path):
    ingest(tmp_path, cue(1, "01", "02", "da") + "\x1a")
    assert rows(tmp_path) == [("1", "2", "da")]


def test_a_folder_of_other_subtitles_alone_is_refused_with_their_number(tmp_path):
    (tmp_path / "a.ass").write_text("[Script Info]\n")
    reason = r"there are 1 \.ass: save them as \.srt or \.vtt, such as by ffmpeg"
    with pytest.raises(InputError, match=reason):
        nbaudio.ingest("subtitles", tmp_path, out=tmp_path / "W")


def test_a_cue_that_overlaps_the_next_ends_where_the_next_begins(tmp_path):
    text = "".join(cue(n, f"0{n},000", f"0{n + 2},000", f"word {n}") for n in range(1, 8))
    report = ingest(tmp_path, text)
    found = Workspace.open(tmp_path / "W").segments.select(
        pl.col("source_start", "source_end").cast(pl.Float64)
    )
    assert found.rows() == [(float(n), n + 1.0) for n in range(1, 7)] + [(7.0, 9.0)]
    assert "6 cues overlap the next one" in " ".join(report.warnings)


def test_two_cues_that_overlap_are_counted(tmp_path):
    report = ingest(
        tmp_path,
        cue(1, "01", "03", "a") + cue(2, "02", "04", "b") + cue(3, "05", "06", "c"),
    )
    assert rows(tmp_path)[0] == ("1", "3", "a")
    assert "1 cue begins before the end of the cue before" in " ".join(report.warnings)


def test_cue_times_above_99_hours_are_read(tmp_path):
    report = ingest(tmp_path, "1\n100:00:01,000 --> 100:00:02,000\nlate\n")
    assert rows(tmp_path) == [("360001.000", "360002.000", "late")]
    assert "past_the_end" in " ".join(map(str, report.problems))


def test_other_subtitles_of_the_folder_are_named(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.hr.srt").write_text(cue(1, "01", "02", "da"))
    (source / "a.ass").write_text("[Script Info]\n")
    (source / "b.ASS").write_text("[Script Info]\n")
    report = ingest(tmp_path, cue(1, "01", "02", "yes"), "a.en.srt", language="en")
    assert report.facts["not_read"] == [
        {
            "what": "subtitles in the language hr (files)",
            "count": 1,
            "option": "--option language=hr",
        },
        {
            "what": "subtitles that end in .ass (files)",
            "count": 2,
            "option": "save them as .srt or .vtt, such as by ffmpeg",
        },
    ]
    assert rows(tmp_path) == [("1", "2", "yes")]


def test_fully_read_subtitles_report_nothing_unread(tmp_path):
    assert "not_read" not in ingest(tmp_path, cue(1, "01", "02", "yes")).facts


def test_sounds_and_music_are_counted_and_the_condition_leaves_them_out(tmp_path):
    text = "".join(
        [
            cue(1, "01", "02", "[Musik]"),
            cue(2, "03", "04", "♪ la la ♪"),
            cue(3, "05", "06", "da (laughs)"),
            cue(4, "07", "08", "ne *2 = 3"),
        ]
    )
    [warning] = [line for line in ingest(tmp_path, text).warnings if "in brackets" in line]
    assert warning.startswith("3 cues have words in brackets")
    assert "; of 2 these are the whole text" in warning
    condition = warning.rpartition('--where "')[2].removesuffix('"')
    nbaudio.select(tmp_path / "W", where=condition)
    kept = Workspace.open(tmp_path / "W").segments.filter(decision="accept")
    assert kept["text"].to_list() == ["♪ la la ♪", "da (laughs)", "ne *2 = 3"]


SBV = """0:00:00.599,0:00:04.160
>> ANA: Dobar dan[br]svima.

0:00:04.160,0:00:06.770
i hvala
lijepa

1:00:06.770,1:00:08.000
Jedan, dva
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_youtube_sbv_subtitles_are_read(tmp_path, end, mark):
    source = tmp_path / "talks"
    source.mkdir()
    (source / "a.sbv").write_bytes((mark + SBV.replace("\n", end)).encode())
    nbaudio.ingest("subtitles", source, out=tmp_path / "W")
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    assert segments.select("source_start", "source_end", "text").rows() == [
        ("0.599", "4.160", ">> ANA: Dobar dan svima."),
        ("4.160", "6.770", "i hvala lijepa"),
        ("3606.770", "3608.000", "Jedan, dva"),
    ]


def test_youtube_sbv_subtitles_are_read_as_a_transcript(tmp_path):
    path = tmp_path / "a.sbv"
    path.write_text(SBV)
    [document] = read_documents(path)
    words = " ".join(document.text.split())
    assert words == ">> ANA: Dobar dan svima. i hvala lijepa Jedan, dva"


def test_sbv_times_in_an_srt_file_are_text(tmp_path):
    text = "1\n00:00:00,000 --> 00:00:01,000\nda\n0:00:01.000,0:00:02.000\n"
    (tmp_path / "a.srt").write_text(text)
    nbaudio.ingest("subtitles", tmp_path / "a.srt", out=tmp_path / "W")
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    assert segments["text"].to_list() == ["da 0:00:01.000,0:00:02.000"]


def notes_on_speakers(folder: Path, *texts: str) -> list[str]:
    """Notes on speakers in the texts of cues."""
    items = [cue(n, f"0{n}", f"0{n + 1}", *text.split("\n")) for n, text in enumerate(texts, 1)]
    report = ingest(folder, "".join(items))
    return [note for note in report.warnings if "speaker" in note]


@pytest.mark.parametrize(
    "text", ["ANNA: da", ">> Anna: da", "- MR. SMITH (TV): da", "ČEDO KOS: da", ">> ANNA KOS:\nda"]
)
def test_names_of_speakers_in_texts_are_counted(tmp_path, text):
    (note,) = notes_on_speakers(tmp_path, text, "ne", text)
    assert note.startswith("2 cues begin a line with the name of a speaker")


def test_names_of_speakers_that_many_cues_begin_with_are_counted(tmp_path):
    texts = [
        "Ana Marić: da",
        "Ana Marić: ne",
        "to",
        "i to",
        "Note: evo",
        "Ana Marić: da",
        "ne",
        "pa",
    ]
    (note,) = notes_on_speakers(tmp_path, *texts)
    assert note.startswith("3 cues begin a line with the name of a speaker")


def test_names_that_most_cues_begin_with_are_counted(tmp_path):
    (note,) = notes_on_speakers(tmp_path, "Ana: da", "Ivo: ne", "to", "Tea: evo")
    assert note.startswith("3 cues begin a line with the name of a speaker")


def test_times_that_programs_read_differently_are_counted(tmp_path):
    report = ingest(tmp_path, cue(1, "01,5", "02,000", "da") + cue(2, "03,000", "04,0500", "ne"))
    assert [row[:2] for row in rows(tmp_path)] == [("1.5", "2.000"), ("3.000", "4.0500")]
    assert any(
        line.startswith("2 cues have times without three decimals") for line in report.warnings
    )


def test_cues_that_go_back_in_time_are_counted(tmp_path):
    text = cue(1, "05,000", "06,000", "da") + cue(1, "01,000", "02,000", "ne")
    report = ingest(tmp_path, text)
    assert any(line.startswith("1 cue begins before the one before") for line in report.warnings)


def test_cues_of_several_speakers_are_counted(tmp_path):
    (note,) = notes_on_speakers(tmp_path, "- da\n- ne", ">> da\n>> ne", "- da", "da - ne\n- da")
    assert note.startswith("2 cues have the words of several speakers")


@pytest.mark.parametrize(
    "text", ["Here it is: da", "at 10:30", "EU and UN", "Note: da", "-5: da", "Многи: да"]
)
def test_colons_that_follow_no_name_are_not_counted_as_speakers(tmp_path, text):
    assert not notes_on_speakers(tmp_path, text)


@pytest.mark.parametrize("second", ["a.vtt", "a.wav.srt"])
def test_of_two_files_of_a_recording_the_first_is_read_and_the_other_listed(
    tmp_path: Path, second: str
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / second).write_text("WEBVTT\n\n00:01.040 --> 00:03.010\nprvi\n", "utf8")
    report = ingest(tmp_path, cue(1, "01,000", "03,000", "prvi"))
    assert rows(tmp_path) == [("1.000", "3.000", "prvi")]
    assert report.problems == [
        f"{second} as a whole: a.srt is read for the same recording; keep one"
    ]
