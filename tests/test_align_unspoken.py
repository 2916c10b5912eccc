"""Labels of align have no words that nobody spoke: citations, numbers, heads, names, remarks."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest
from sittings import make_sitting

from nbaudio.sources.align import align
from nbaudio.tables.workspace import Workspace

SPOKEN = (
    "Good morning everybody and welcome to this session of the committee on budgets. Today we will "
    "hear the report of the minister about the accounts of last year. After that there are "
    "questions from the members of the opposition and of the majority. Please keep your speeches "
    "short because the room is needed at noon. The first speaker on my list is the minister who "
    "has ten minutes for his introduction. Thank you very much chairman for the invitation to this "
    "important meeting."
)


def timed(text: str, pauses: dict[str, float] | None = None) -> list[dict[str, object]]:
    """Words of 0.08 s a letter, 0.05 s apart, 0.6 s after sentences, and pauses after words."""
    words = []
    now = 0.5
    for word in text.split():
        end = now + 0.08 * len(word)
        words.append({"word": f" {word}", "start": round(now, 3), "end": round(end, 3)})
        now = end + 0.05 + 0.6 * word.endswith(".") + (pauses or {}).get(word, 0)
    return words


def run(
    folder: Path, typed: str, heard: list[dict[str, object]], name: str = "a.txt"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Align a transcript with words; return segments and what is unmatched."""
    (folder / "h").mkdir()
    (folder / "t").mkdir()
    (folder / "h/a.json").write_text(json.dumps({"segments": [{"words": heard}]}), "utf8")
    (folder / "t" / name).write_text(typed, "utf8")
    align(
        folder / "h",
        folder / "t",
        out=folder / "W",
        engine="threading",
        jobs=1,
        show_progress=False,
    )
    workspace = Workspace.open(folder / "W")
    return workspace.segments, workspace.table("unmatched").filter(kind="text")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_a_fully_spoken_text_is_in_labels_as_a_whole(tmp_path):
    segments, unmatched = run(tmp_path, SPOKEN, timed(SPOKEN))
    assert words(" ".join(segments["text"])) == words(SPOKEN)
    assert not len(unmatched)
    assert segments["inner_confidence"].min() > 0.9


@pytest.mark.parametrize(("pause", "count"), [(0.6, 6), (0.45, 6), (0.1, 2)])
def test_sentences_with_a_pause_between_them_are_segments(tmp_path, pause, count):
    ends = {word for word in SPOKEN.split() if word.endswith(".")}
    segments, _ = run(tmp_path, SPOKEN, timed(SPOKEN, dict.fromkeys(ends, pause - 0.65)))
    assert len(segments) == count
    assert segments["text"].str.ends_with(".").all()


@pytest.mark.parametrize(
    ("before", "unspoken"),
    [
        ("of last", "(Official Gazette, numbers 12/2008 and 69/2017, as amended by COM(2019) 354)"),
        ("of last", "(ibid.)"),
        ("of last", "[Gazette 12]"),
        ("members", "008 033"),
        ("members", "17"),
        ("members", "XIV"),
        ("members", "00:01:12"),
        ("members", "7 00:00:25,700 --> 00:00:27,000"),
        ("members", "\n\n114\n\n"),
        ("After", "(Applause.)"),
        ("After", "[laughter]"),
        ("After", "12."),
        ("After", "\nMr SMITH (Labour):"),
        ("After", "\n\nThe President, Mr. Smith:\n"),
        ("questions", "Minutes of the sitting of the committee of Tuesday"),
        ("questions", "\nMinutes of the sitting 114\n"),
    ],
)
def test_unspoken_words_are_in_unmatched_with_reason_not_heard(tmp_path, before, unspoken):
    assert f" {before} " in SPOKEN
    typed = SPOKEN.replace(f" {before} ", f" {unspoken} {before} ", 1)
    segments, unmatched = run(tmp_path, typed, timed(SPOKEN))
    assert words(" ".join(segments["text"])) == words(SPOKEN)
    assert words(" ".join(unmatched["text"])) == words(unspoken)
    assert unmatched["reason"].to_list() == ["not heard"]
    assert segments["word_times"].list.len().to_list() == [
        len(text.split()) for text in segments["text"]
    ]


def test_words_around_omitted_text_keep_their_times(tmp_path):
    heard = timed(SPOKEN)
    segments, _ = run(tmp_path, SPOKEN.replace("hear the", "hear (page 12 of 13) the"), heard)
    row = segments.filter(pl.col("text").str.contains("hear the report")).row(0, named=True)
    place = row["text"].split().index("hear")
    start = float(row["source_start"])
    first = next(number for number, word in enumerate(heard) if word["word"] == " hear")
    for shift in (0, 1, 2):
        time = row["word_times"][place + shift]
        assert time["start"] + start == pytest.approx(heard[first + shift]["start"], abs=1e-4)
        assert time["end"] + start == pytest.approx(heard[first + shift]["end"], abs=1e-4)
    assert row["text_raw"] == row["text"].replace("hear the", "hear (page 12 of 13) the")


@pytest.mark.parametrize(
    ("typed", "label"),
    [
        ("of last year (see annex 3).", "of last year."),
        ("of last year[12].", "of last year."),
        ("of last year¹².", "of last year."),
        ("of last[3] year.", "of last year."),
    ],
)
def test_punctuation_after_omitted_text_stays_in_the_label(tmp_path, typed, label):
    segments, _ = run(tmp_path, SPOKEN.replace("of last year.", typed), timed(SPOKEN))
    text = " ".join(segments["text"])
    assert f"{label} After" in text
    assert words(text) == words(SPOKEN)


def test_page_numbers_and_running_heads_in_every_sentence_are_omitted(tmp_path):
    parts = SPOKEN.split()
    typed = " ".join(
        f"{'The Committee on Budgets, page ' if n % 2 else ''}{n} {word}" if n % 8 == 5 else word
        for n, word in enumerate(parts)
    )
    segments, _ = run(tmp_path, typed, timed(SPOKEN))
    assert words(" ".join(segments["text"])) == words(SPOKEN)


def test_a_running_head_typed_where_speakers_pause_is_omitted(tmp_path):
    heard = timed(SPOKEN, {"the": 1.5})
    typed = SPOKEN.replace(" the ", " the Budget committee 114 ")
    segments, unmatched = run(tmp_path, typed, heard)
    assert "committee 114" not in " ".join(segments["text"])
    assert words(" ".join(segments["text"])).count("budget") == 0
    assert len(unmatched) > 3


def test_a_word_missed_by_the_recognizer_stays_if_time_remains_for_it(tmp_path):
    heard = [word for word in timed(SPOKEN) if word["word"] not in (" questions", " minister")]
    segments, unmatched = run(tmp_path, SPOKEN, heard)
    assert words(" ".join(segments["text"])) == words(SPOKEN)
    assert not len(unmatched)
    assert segments["inner_confidence"].min() > 0.9


def test_a_word_missed_by_the_recognizer_is_omitted_if_no_time_remains(tmp_path):
    heard = timed(SPOKEN.replace("questions ", ""))
    segments, unmatched = run(tmp_path, SPOKEN, heard)
    assert words(" ".join(segments["text"])) == words(SPOKEN.replace("questions ", ""))
    assert unmatched["text"].to_list() == ["questions"]


@pytest.mark.parametrize(
    ("typed", "heard"),
    [
        ("20 000 members", "20000 members"),
        ("5 kg members", "5kg members"),
        ("12/2008 members", "twelve from two thousand eight members"),
        ("the (honourable and learned) members", "the honourable and learned members"),
        ("119 members", "119 members"),
        ("members 12 %", "members twelve percent"),
    ],
)
def test_spoken_numbers_and_remarks_stay_in_labels(tmp_path, typed, heard):
    segments, unmatched = run(
        tmp_path,
        SPOKEN.replace("the members", typed),
        timed(SPOKEN.replace("the members", heard)),
    )
    assert typed in " ".join(segments["text"])
    assert not len(unmatched)


def test_no_segment_spans_speakers_whose_names_are_left_out(tmp_path):
    typed = SPOKEN.replace("After that", "ANA: After that").replace("Please", "IVO: Please")
    segments, _ = run(tmp_path, typed, timed(SPOKEN))
    assert words(" ".join(segments["text"])) == words(SPOKEN)
    starts = [text.split()[0] for text in segments["text"]]
    assert {"After", "Please"} <= set(starts)


def test_inner_confidence_falls_with_the_pause_where_text_is_omitted(tmp_path):
    confidence = []
    for number, pause in enumerate((0.0, 0.3, 0.9)):
        folder = tmp_path / str(number)
        folder.mkdir()
        typed = SPOKEN.replace("questions from", "questions 17 from")
        segments, _ = run(folder, typed, timed(SPOKEN, {"questions": pause}))
        row = segments.filter(pl.col("text").str.contains("questions from"))
        confidence += row["inner_confidence"].to_list()
    assert len(confidence) == 3
    assert confidence == sorted(confidence, reverse=True)
    assert confidence[0] > 0.8
    assert confidence[2] < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_labels_of_a_sitting_with_much_unspoken_text_are_clean(tmp_path, seed):
    plain = make_sitting(seed, 120, not_spoken=0)
    for name in ("plain", "full"):
        (tmp_path / name).mkdir()
    heard = plain.whisper()["segments"][0]["words"]  # type: ignore[index]
    clean, _ = run(tmp_path / "plain", plain.text, heard)
    lines = []
    for number, line in enumerate(plain.lines):
        parts = line.split()
        middle = len(parts) // 2
        unspoken = (
            f"(QQX {number}, qqx {number}/2019)",
            f"{number:03} 777{number}",
            f"\nQQX Qqxqqx {number}\n",
        )[number % 3]
        lines.append(" ".join([*parts[:middle], unspoken, *parts[middle:]]))
    segments, _ = run(tmp_path / "full", "\n".join(lines), heard)
    labels = " ".join(segments["text"])
    wrong = len(re.findall(r"(?i)qqx|\d", labels))
    assert wrong <= 0.001 * len(labels.split())
    said = clean["text"].str.split(" ").list.len().sum()
    assert len(labels.split()) >= 0.97 * said


def cue(number: int, part: list[dict[str, object]]) -> str:
    """A cue of SubRip with words."""
    edges = [
        f"00:00:{second:06.3f}".replace(".", ",") for second in (part[0]["start"], part[-1]["end"])
    ]
    text = "".join(str(word["word"]) for word in part).strip()
    return f"{number}\n{edges[0]} --> {edges[1]}\n{text}\n"


@pytest.mark.parametrize(("name", "between"), [("a.srt", "\n"), ("a.vtt", "\n"), ("a.srt", "")])
def test_align_takes_subtitles_as_transcripts(tmp_path, name, between):
    heard = timed(SPOKEN)
    cues = [cue(n // 7 + 1, heard[n : n + 7]) for n in range(0, len(heard), 7)]
    text = ("WEBVTT\n\n" if name == "a.vtt" else "") + between.join(cues)
    segments, unmatched = run(tmp_path, text, heard, name)
    assert words(" ".join(segments["text"])) == words(SPOKEN)
    assert not len(unmatched)
    # Segments end where sentences do, and not where cues do.
    assert segments["text"].str.ends_with(".").all()


def test_parts_of_a_transcript_that_are_not_read_are_reported(tmp_path):
    sentences = "".join(f"<seg>{part}.</seg>" for part in SPOKEN.rstrip(".").split(". "))
    text = f'<TEI><text><u who="#A"><note>(Noise.)</note>{sentences}<gap/></u></text></TEI>'
    run(tmp_path, text, timed(SPOKEN), "a.xml")
    report = json.loads((tmp_path / "W/reports/align.json").read_text("utf8"))
    assert report["facts"]["not_read"] == [
        {"what": "notes of TEI", "count": 1, "option": ""},
        {"what": "gaps of TEI", "count": 1, "option": ""},
    ]


PARTS = SPOKEN.split()
EVERYWHERE = {
    "numbers": " ".join(f"{n} {word}" if n % 6 == 4 else word for n, word in enumerate(PARTS)),
    "pages": " ".join(f"page {n} {word}" if n % 20 == 4 else word for n, word in enumerate(PARTS)),
    "footnotes": " ".join(f"{word}[{n}]" if n % 6 == 4 else word for n, word in enumerate(PARTS)),
    "remarks": " ".join(
        f"(Noise and applause) {word}" if n % 12 == 4 else word for n, word in enumerate(PARTS)
    ),
    "numbered lines": "\n".join(
        f"{n:3}  " + " ".join(PARTS[n : n + 8]) for n in range(0, len(PARTS), 8)
    ),
    "heads": "\n".join(
        (f"Minutes 12 March - page {n}\n" if n % 24 == 16 else "") + " ".join(PARTS[n : n + 8])
        for n in range(0, len(PARTS), 8)
    ),
    "speakers": re.sub(r"\. (\w)", r". Mr SMITH: \1", SPOKEN),
    "diarized": re.sub(r"\. (\w)", r".\n[00:12:33] SPEAKER_01: \1", SPOKEN),
    "stars": re.sub(r"(committee|majority|first) ", r"\1 *coughs* ", SPOKEN),
    "notes": re.sub(r"(committee|majority|first) ", r"\1 ♪ ", SPOKEN),
    "words around": SPOKEN.replace("report of", "report (the report of the court of the EU) of"),
}


@pytest.mark.slow
@pytest.mark.parametrize("typed", EVERYWHERE.values(), ids=EVERYWHERE)
@pytest.mark.parametrize("shape", ["pauses", "no pauses", "equal words"])
def test_unspoken_text_is_omitted_from_labels_for_any_word_timing(tmp_path, typed, shape):
    heard = timed(SPOKEN)
    if shape != "pauses":
        now = 0.5
        for word in heard:
            length = 0.3 if shape == "equal words" else 0.08 * len(str(word["word"]).strip())
            word |= {"start": round(now, 3), "end": round(now + length, 3)}
            now += length
    segments, _ = run(tmp_path, typed, heard)
    assert " ".join(segments["text"]).split() == PARTS


REMARKS = ("Applause", "Laughter", "The minister shows a document", "Shouts", "Noise")
NAMES = ("Ana Kovač", "Charles de Smith", "Dr. Ivana Horvat", "Emil Novak", "Franz Huber")


def between_sentences(make: Callable[[str], str], inserted: Sequence[str]) -> str:
    """The spoken text with something before each sentence but the first."""
    first, *others = SPOKEN.rstrip(".").split(". ")
    parts = [make(text) + sentence for text, sentence in zip(inserted, others, strict=True)]
    return ". ".join([first, *parts]) + "."


def in_labels(folder: Path, typed: str) -> str:
    """The words of labels where long pauses have time for what is typed between sentences."""
    ends = {word for word in SPOKEN.split() if word.endswith(".")}
    segments, _ = run(folder, typed, timed(SPOKEN, dict.fromkeys(ends, 2.4)))
    return " ".join(segments["text"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "marks",
    ["* *", "** **", "_ _", "/ /", "// //", "~ ~", "| |", "< >", "<< >>", "‹ ›", "（ ）", "【 】",
     "— —", "<i> </i>"],
)  # fmt: skip
@pytest.mark.parametrize("end", [" ", "\n"])
def test_remarks_in_brackets_or_other_marks_are_in_no_label(tmp_path, marks, end):
    before, behind = marks.split()
    typed = between_sentences(lambda remark: f"{before}{remark}{behind}{end}", REMARKS)
    assert in_labels(tmp_path, typed) == SPOKEN


@pytest.mark.parametrize("mark", ["", "."])
def test_no_segment_spans_an_unspoken_line(tmp_path, mark):
    typed = between_sentences(lambda remark: f"\n{remark}{mark}\n", REMARKS)
    assert not {*words(in_labels(tmp_path, typed))} & {"applause", "laughter", "shouts", "noise"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    ["\n**{}:** ", "\n**{}**: ", "\n{}： ", "\n{}\t", "\n<{}> ", "\n[{}] ", "\n{} – ",
     "\n>> {}: ", "\n• {}: ", "\n{} (SPD): "],
)  # fmt: skip
def test_names_of_speakers_are_in_no_label(tmp_path, layout):
    assert in_labels(tmp_path, between_sentences(layout.format, NAMES)) == SPOKEN


def test_names_in_capital_letters_are_in_no_label(tmp_path):
    typed = between_sentences(lambda name: f"\n{name.upper()} ", NAMES)
    assert in_labels(tmp_path, typed) == SPOKEN


def test_marks_around_spoken_words_stay_in_labels(tmp_path):
    typed = SPOKEN.replace("the minister about", "*the minister* <about>").replace("on", "_on_")
    assert in_labels(tmp_path, typed) == typed


@pytest.mark.parametrize(
    ("written", "number"),
    [("year", "year12"), ("year.", "year.12"), ("year.", "year.¹²"), ("to", "to¹²"),
     ("year", "year^3"), ("to", "to^12"), ("noon.", "noon.⁷")],
)  # fmt: skip
def test_footnote_numbers_after_words_are_in_no_label(tmp_path, written, number):
    assert in_labels(tmp_path, SPOKEN.replace(written, number, 1)) == SPOKEN


@pytest.mark.parametrize("heard", ["covid19", "covid 19", "m2", "m²"])
def test_numbers_that_are_part_of_a_word_stay(tmp_path, heard):
    written = "m²" if heard.startswith("m") else "covid19"
    typed = SPOKEN.replace("minister about", f"minister {written} about")
    segments, _ = run(tmp_path, typed, timed(SPOKEN.replace("er about", f"er {heard} about")))
    assert " ".join(segments["text"]) == typed


@pytest.mark.parametrize("hyphen", ["-\n", "-\n    ", "- \n", "‐\n", "\u00ad\n"])
def test_words_that_line_ends_divide_are_joined(tmp_path, hyphen):
    typed = SPOKEN.replace("session", f"ses{hyphen}sion").replace("chairman", f"chair{hyphen}man")
    segments, unmatched = run(tmp_path, f"No-\nbody.\n\n{typed}", timed(SPOKEN))
    assert " ".join(segments["text"]) == SPOKEN
    assert unmatched["text"].to_list() == ["No-\nbody."]


def test_hyphens_at_line_ends_that_are_part_of_a_word_stay(tmp_path):
    spoken = SPOKEN.replace("session", "pre- and session").replace("minister", "Smith-Jones", 1)
    typed = spoken.replace("pre- ", "pre-\n").replace("Smith-", "Smith-\n")
    segments, _ = run(tmp_path, typed, timed(spoken))
    assert " ".join(segments["text"]) == spoken


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("Добро јутро свима и добро дошли на ову седницу.", "transliterate one of them"),
        ("大家早上好欢迎参加预算委员会的这次会议。", "no blanks separate its words (Cjk)"),
        ("Something else was said on quite another day.", "is this the transcript"),
    ],
)
def test_a_transcript_that_pairs_with_no_word_is_reported_with_the_reason(tmp_path, typed, reason):
    heard = timed("Dobro jutro svima ovdje danas kolegice kolege.")
    run(tmp_path, typed, heard)
    report = json.loads((tmp_path / "W/reports/align.json").read_text("utf8"))
    (problem,) = report["problems"]
    assert reason in problem


def test_names_in_bold_letters_are_in_no_label(tmp_path):
    first, *others = SPOKEN.rstrip(".").split(". ")
    turns = [f"<p><b>{name}</b> {turn}.</p>" for name, turn in zip(NAMES, others, strict=True)]
    ends = {word for word in SPOKEN.split() if word.endswith(".")}
    heard = timed(SPOKEN, dict.fromkeys(ends, 2.4))
    segments, _ = run(tmp_path, f"<p>{first}.</p>{''.join(turns)}", heard, "a.html")
    assert " ".join(segments["text"]) == SPOKEN
