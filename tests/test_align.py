"""Align finds uncut transcripts in timed words: what it cuts is right, and what it leaves out is
listed."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from sittings import Sitting, make_sitting
from table_checks import check_tables

import nbaudio
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.sources import pairing
from nbaudio.sources.align import align
from nbaudio.sources.align_task import Item
from nbaudio.tables.workspace import Workspace
from nbaudio.text.edit_distance import similarity, words

ID = "HlauTe_NK6U"


def write(folder: Path, sitting: Sitting, name: str = "day 1") -> Path:
    """Write hypothesis and transcript of a sitting to two folders."""
    for part in ("h", "t"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "h" / f"{name}.json").write_text(json.dumps(sitting.whisper()), "utf8")
    (folder / "t" / f"{name}.txt").write_text(sitting.text, "utf8")
    return folder


def run(folder: Path, **options: object) -> tuple[nbaudio.Report, pl.DataFrame, pl.DataFrame]:
    """Align both folders; return report, segments and what is in no segment."""
    given = {"hypotheses": folder / "h", "transcripts": folder / "t", "out": folder / "W"} | options
    report = align(**given, engine="threading", jobs=1, show_progress=False)  # type: ignore[arg-type]
    workspace = Workspace.open(given["out"])  # type: ignore[arg-type]
    return report, workspace.segments, workspace.table("unmatched")


def seconds(segments: pl.DataFrame) -> np.ndarray:
    return segments.select(pl.col("source_start", "source_end").cast(pl.Float64)).to_numpy()


def plain(text: str) -> list[str]:
    return text.lower().replace(".", "").split()


def spans_of(table: pl.DataFrame) -> list[tuple[int, int]]:
    """Characters of the document, in order."""
    spans: list[tuple[int, int]] = table.select("document_start", "document_end").rows()
    return sorted(spans)


def check_spans(text: str, segments: pl.DataFrame, unmatched: pl.DataFrame) -> None:
    """Check that each word of a document is in a label or unmatched.

    Unmatched words may be within the characters of a segment, in whose text they are not.
    """
    labels, rest = spans_of(segments), spans_of(unmatched)
    for spans in (labels, rest):
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    outside = [
        (start, end)
        for start, end in rest
        if not any(first <= start and end <= last for first, last in labels)
    ]
    both = sorted(labels + outside)
    assert all(end <= start for (_, end), (start, _) in pairwise(both))
    said = segments["text"].str.split(" ").list.len().sum()
    assert said + sum(len(text[start:end].split()) for start, end in rest) == len(text.split())


def judge(sitting: Sitting, segments: pl.DataFrame) -> tuple[float, float]:
    """Share of typed and spoken words that are in segments where they were spoken, and share of
    wrong edges."""
    middle = sitting.times.mean(axis=1)
    found = wrong = 0
    for text, (start, end) in zip(segments["text"], seconds(segments), strict=True):
        first, last = np.searchsorted(middle, (start, end))
        spoken = sitting.words[first:last]
        wrong += (spoken[:2] != plain(text)[:2]) + (spoken[-2:] != plain(text)[-2:])
        found += len(spoken) if similarity(" ".join(spoken), " ".join(plain(text))) > 0.8 else 0
    typed = sum(np.isin(sitting.sentence, sitting.numbers))
    return found / int(typed), wrong / max(1, 2 * len(segments))


# what it finds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "least", "most"),
    [
        ({}, 0.93, 0.01),
        ({"pauses": False}, 0.93, 0.01),
        ({"moves": 6}, 0.9, 0.01),
        ({"not_typed": 0.3, "not_spoken": 0.2}, 0.85, 0.015),
        ({"not_typed": 0, "not_spoken": 0}, 0.97, 0.01),
        ({"errors": 0.25}, 0.85, 0.03),
    ],
)
def test_segments_have_the_words_that_are_spoken_in_them(tmp_path, made, least, most):
    sitting = make_sitting(1, 250, **made)
    _, segments, _ = run(write(tmp_path, sitting))
    found, wrong = judge(sitting, segments)
    assert found >= least
    assert wrong <= most


def test_the_check_of_segment_edges_in_these_tests_detects_wrong_edges():
    sitting = make_sitting(1, 20)
    shifted = pl.DataFrame(
        {"text": [" ".join(sitting.words[5:20])], "source_start": ["0"], "source_end": ["9"]}
    )
    assert judge(sitting, shifted)[1] == 1


def test_every_word_is_in_a_segment_or_in_unmatched(tmp_path):
    sitting = make_sitting(2, 200, not_typed=0.2, not_spoken=0.2, moves=3)
    _, segments, unmatched = run(write(tmp_path, sitting))
    check_spans(sitting.text, segments, unmatched.filter(kind="text"))
    heard = [*segments["asr_text"], *unmatched.filter(kind="audio")["text"]]
    assert sum(len(text.split()) for text in heard) == len(sitting.heard)
    assert set(unmatched["kind"]) == {"text", "audio"}


def test_segments_keep_texts_as_typed_with_their_document_offsets(tmp_path):
    sitting = make_sitting(3, 80)
    report, segments, unmatched = run(write(tmp_path, sitting))
    check_tables(Workspace.open(tmp_path / "W").recordings, segments)
    places = ("document", "document_start", "document_end")
    for text, raw, document, start, end in segments.select(
        "text", pl.coalesce("text_raw", "text"), *places
    ).iter_rows():
        assert raw == sitting.text[start:end]
        assert text == " ".join(raw.split())
        assert document == "day 1.txt"
    assert segments["text"].str.contains(r"[A-ZČŠ].*\.").any()
    for text, times, start, end in segments.select(
        "text", "word_times", "source_start", "source_end"
    ).iter_rows():
        assert len(times) == len(words(text))
        edges = np.array([(one["start"], one["end"]) for one in times])
        assert (edges[:, 0] <= edges[:, 1] + 1e-4).all()
        assert (edges[1:, 0] >= edges[:-1, 0] - 1e-4).all()
        assert edges[0, 0] >= -1e-4
        assert edges[-1, 1] <= float(end) - float(start) + 1e-4
    assert segments["edge_confidence"].is_between(0.9, 1).all()
    assert unmatched.columns[:8] == [
        "recording_id",
        "kind",
        "source_start",
        "source_end",
        "text",
        *places,
    ]
    assert report.facts["recordings"] == 1
    assert (
        report.facts["typed_in_segments"]
        <= report.facts["typed_words"]
        == len(sitting.text.split())
    )
    assert report.facts["heard_in_segments"] <= report.facts["heard_words"] == len(sitting.heard)


@pytest.mark.slow
@pytest.mark.parametrize(("shortest", "longest"), [(2, 20), (1, 5), (8, 9.5), (0.5, 60)])
def test_boundaries_are_in_silence_and_never_in_a_word(tmp_path, shortest, longest):
    sitting = make_sitting(4, 120)
    _, segments, _ = run(write(tmp_path, sitting), min_duration=shortest, max_duration=longest)
    assert len(segments) > 3
    heard, middles = sitting.heard_times, 0
    for (start, end), before, after in zip(
        seconds(segments), segments["room_before_s"], segments["room_after_s"], strict=True
    ):
        assert shortest <= round(end - start, 6) <= longest
        assert not ((heard[:, 0] < start - 1e-6) & (start + 1e-6 < heard[:, 1])).any()
        assert not ((heard[:, 0] < end - 1e-6) & (end + 1e-6 < heard[:, 1])).any()
        # the silence at the start: what is outside, and the part of it that the segment has
        last = heard[heard[:, 1] <= start + 1e-6, 1].max(initial=0)
        first = heard[heard[:, 0] >= start - 1e-6, 0].min()
        assert before == pytest.approx(start - last, abs=1e-3)
        assert first - start <= 0.5 + 1e-6
        # the middle, unless it may hold a word that was not heard, or is longer than a second
        is_middle = start - last == pytest.approx(first - start, abs=1e-3)
        middles += is_middle
        assert is_middle or first - start <= 0.1 + 1e-6 or first - start == pytest.approx(0.5)
        assert after >= 0
    assert middles > len(segments) / 2
    starts = seconds(segments)
    assert (starts[1:, 0] >= starts[:-1, 1] - 1e-6).all()


def test_segments_are_whole_sentences_where_possible(tmp_path):
    sitting = make_sitting(5, 150, not_typed=0, not_spoken=0, errors=0)
    _, segments, _ = run(write(tmp_path, sitting))
    whole = segments.filter(pl.col("text").str.contains(r"^[A-ZČŠ].*\.$"))
    assert len(whole) > 0.95 * len(segments)


def test_speakers_and_ids_of_tei_are_kept_apart(tmp_path):
    sitting = make_sitting(6, 120)
    folder = write(tmp_path, sitting)
    (folder / "t" / "day 1.txt").unlink()
    turns = "".join(
        f'<u who="#Speaker{number // 3 % 4}"><note>APPLAUSE</note><seg '
        f'xml:id="s{number}">{line}</seg></u>'
        for number, line in enumerate(sitting.lines)
    )
    whole = f'<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body>{turns}</body></text></TEI>'
    (folder / "t" / "day 1.xml").write_text(whole, "utf8")
    _, segments, unmatched = run(folder)
    found, wrong = judge(sitting, segments)
    assert found > 0.85
    assert wrong <= 0.02
    of_line = {line: f"Speaker{number // 3 % 4}" for number, line in enumerate(sitting.lines)}
    for text, speaker in segments.select("text", "speaker_id").iter_rows():
        spoken = {who for line, who in of_line.items() if line in text}
        assert spoken <= {speaker}
    assert segments["utterance_id_start"].str.starts_with("s").all()
    assert not unmatched["text"].str.contains("APPLAUSE").any()


def test_a_number_typed_in_digits_and_spoken_in_words_is_in_a_segment(tmp_path):
    sitting = make_sitting(7, 30, not_typed=0, not_spoken=0, errors=0)
    heard, times = sitting.heard, sitting.heard_times
    middle = len(heard) // 2
    lines = sitting.text.split()
    typed = [*lines[:middle], "1995.", *lines[middle + 5 :]]
    folder = write(tmp_path, sitting)
    (folder / "t" / "day 1.txt").write_text(" ".join(typed), "utf8")
    _, segments, _ = run(folder)
    assert segments["text"].str.contains("1995").any()
    assert len(times) == len(heard)


# what it does not find


@pytest.mark.parametrize("size", [5, 200])
def test_a_transcript_of_another_recording_gives_no_segments_and_a_problem(tmp_path, size):
    folder = write(tmp_path, make_sitting(8, 150))
    (folder / "t" / "day 1.txt").write_text(make_sitting(9, size).text, "utf8")
    report, segments, unmatched = run(folder)
    assert segments.is_empty()
    [problem] = report.problems
    assert "day 1.json" in problem
    assert "day 1.txt" in problem
    assert "is this the transcript of this recording?" in problem
    assert set(unmatched["kind"]) == {"text", "audio"}


def test_a_shared_formula_alone_does_not_match_a_transcript(tmp_path):
    sitting, other = make_sitting(10, 150), make_sitting(11, 150)
    folder = write(tmp_path, sitting)
    formula = " ".join(sitting.words[40:52])
    (folder / "t" / "day 1.txt").write_text(f"{other.text}\n{formula}", "utf8")
    report, segments, _ = run(folder)
    assert segments.is_empty()
    assert report.problems


def test_words_in_moved_blocks_are_used_once(tmp_path):
    sitting = make_sitting(12, 120, not_typed=0, not_spoken=0)
    folder = write(tmp_path, sitting)
    (folder / "t" / "day 1.txt").write_text(
        sitting.text + "\n" + "\n".join(sitting.lines[20:60]), "utf8"
    )
    _, segments, unmatched = run(folder)
    starts = seconds(segments)
    assert (starts[1:, 0] >= starts[:-1, 1] - 1e-6).all()
    repeated = unmatched.filter(kind="text")["text"].str.split(" ").list.len().sum()
    assert repeated >= 0.9 * len(" ".join(sitting.lines[20:60]).split())


# what belongs together


def test_transcripts_are_paired_with_recordings_by_their_names(tmp_path):
    first, second = make_sitting(13, 80), make_sitting(14, 80)
    write(tmp_path, first, f"Sitting one  [{ID}]")
    write(tmp_path, second, "two")
    halves = second.text.split("\n")
    (tmp_path / "t" / "two.txt").write_text("\n".join(halves[:40]), "utf8")
    (tmp_path / "t" / "Minutes").mkdir()
    (tmp_path / "t" / "two.html").write_text(f"<p>{' '.join(halves[40:])}</p>", "utf8")
    (tmp_path / "t" / f"Sitting one  [{ID}].txt").rename(
        tmp_path / "t" / "Minutes" / f"another title [{ID}].txt"
    )
    (tmp_path / "t" / "three.txt").write_text("nobody spoke this", "utf8")
    report, segments, _ = run(tmp_path)
    assert segments["recording_id"].unique().sort().to_list() == [ID, "two"]
    assert segments["segment_id"].str.starts_with(f"{ID}_").any()
    assert set(segments.filter(recording_id="two")["document"]) == {"two.txt", "two.html"}
    for sitting, name in ((first, ID), (second, "two")):
        found, wrong = judge(sitting, segments.filter(recording_id=name))
        assert found > 0.85
        assert wrong <= 0.01
    assert [
        problem for problem in report.problems if "three.txt" in problem and "--pairs" in problem
    ]


def test_a_transcript_of_the_name_goes_before_those_in_a_folder_of_the_name():
    def item(name):
        return Item(name, f"{name}.txt", Path(f"{name}.txt"))

    hypotheses = [item("a"), item("b")]
    transcripts = [item("a"), item("a/1"), item("b/1"), item("b/2")]
    problems = []
    pairs = pairing.pair(hypotheses, transcripts, None, problems)
    assert [[other.name for other in others] for _, others in pairs] == [["a"], ["b/1", "b/2"]]
    assert [(file, reason.split(" of ")[0]) for file, reason in problems] == [
        ("a/1.txt", "there is no hypothesis")
    ]


def test_a_table_of_pairs_assigns_one_document_to_two_recordings(tmp_path):
    sitting = make_sitting(15, 160, not_typed=0)
    half = len(sitting.heard) // 2
    (tmp_path / "h").mkdir()
    (tmp_path / "t").mkdir()
    parts = []
    for name, part in (("morning", slice(0, half)), ("evening", slice(half, None))):
        times = sitting.heard_times[part] - sitting.heard_times[part][0, 0]
        parts.append(
            Sitting(sitting.words, sitting.times, sitting.sentence, sitting.heard[part], times)
        )
        (tmp_path / "h" / f"{name}.ctm").write_text(parts[-1].ctm(name), "utf8")
    (tmp_path / "t" / "minutes.txt").write_text(sitting.text, "utf8")
    (tmp_path / "pairs.csv").write_text(
        "Recording,Transcript\nmorning,minutes.txt\nevening.ctm,minutes\n", "utf8"
    )
    _, segments, unmatched = run(tmp_path, pairs=tmp_path / "pairs.csv")
    assert segments["recording_id"].n_unique() == 2
    for name in ("morning", "evening"):
        own = pl.col("recording_id") == name
        check_spans(sitting.text, segments.filter(own), unmatched.filter(own, kind="text"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("recording,transcript\nnobody,day 1.txt\n", "line 2: there is no recording 'nobody'"),
        ("recording,transcript\nday 1,other.txt\n", "line 2: there is no transcript 'other.txt'"),
        ("recording,transcript\nday 1,\n", "line 2: there is no transcript ''"),
        (
            "one,two\nday 1,day 1.txt\n",
            "expected the columns recording and transcript; it has one, two",
        ),
        ("", "no readable rows"),
    ],
)
def test_invalid_tables_of_pairs_are_refused(tmp_path, table, message):
    folder = write(tmp_path, make_sitting(16, 20))
    (folder / "pairs.csv").write_text(table, "utf8")
    with pytest.raises(InputError, match=message):
        run(folder, pairs=folder / "pairs.csv")
    assert not (folder / "W").exists()


def test_one_file_may_hold_hypotheses_of_several_recordings(tmp_path):
    sittings = {f"day {number}": make_sitting(17 + number, 60) for number in range(3)}
    for name, sitting in sittings.items():
        write(tmp_path, sitting, name)
        (tmp_path / "h" / f"{name}.json").unlink()
    lines = [
        {
            "file": f"{name}.wav",
            "start": 0,
            "end": float(one.heard_times[-1, 1]),
            "words": one.heard,
            "asr": [],
        }
        | {
            "word_start_times": one.heard_times[:, 0].tolist(),
            "word_end_times": one.heard_times[:, 1].tolist(),
        }
        for name, one in sittings.items()
    ]
    (tmp_path / "h" / "all.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf8")
    _, segments, _ = run(tmp_path)
    for name, sitting in sittings.items():
        found, wrong = judge(sitting, segments.filter(recording_id=name))
        assert found > 0.85
        assert wrong <= 0.02


# the workspace


@pytest.mark.slow
def test_an_aligned_workspace_becomes_a_corpus(tmp_path):
    sitting = make_sitting(21, 40)
    folder = write(tmp_path, sitting)
    rate = 8000
    noise = np.random.default_rng(0).normal(0, 0.05, int((sitting.times[-1, 1] + 0.5) * rate))
    (folder / "a").mkdir()
    sf.write(folder / "a" / "day 1.flac", noise, rate)
    _, segments, _ = run(folder, audio=folder / "a")
    assert segments["decision"].to_list() == ["pending"] * len(segments)
    assert segments["start_sample"].to_list() == [
        round(rate * start) for start in seconds(segments)[:, 0]
    ]
    nbaudio.score(folder / "W")
    nbaudio.review.export(folder / "W", out=folder / "sheet.xlsx", n=5)
    nbaudio.select(folder / "W", min_similarity=0.8, dev=2, test=2, group_by=[])
    nbaudio.materialize(folder / "W", out=folder / "C", engine="threading", show_progress=False)
    assert not nbaudio.verify(folder / "C", engine="threading", show_progress=False).problems
    kept = nbaudio.open_corpus(folder / "C").segments
    assert {"edge_confidence", "room_before_s", "document", "document_start"} <= set(kept.columns)


@pytest.mark.slow
def test_a_second_run_aligns_what_is_new_or_changed(tmp_path):
    write(tmp_path, make_sitting(22, 60), "a")
    run(tmp_path)
    stored = {
        path.name: path.stat().st_mtime_ns for path in (tmp_path / "W" / ".aligned").iterdir()
    }
    write(tmp_path, make_sitting(23, 60), "b")
    before = Workspace.open(tmp_path / "W").segments
    _, segments, _ = run(tmp_path, add=True)
    assert segments.filter(recording_id="a").equals(before)
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "W" / ".aligned").iterdir()}
    assert len(now) == 2
    assert stored.items() <= now.items()
    (tmp_path / "t" / "a.txt").write_text(make_sitting(22, 60).text.upper(), "utf8")
    _, segments, _ = run(tmp_path, add=True)
    assert segments.filter(recording_id="a")["text"].str.contains("^[^a-z]+$").all()


def test_stored_alignments_of_changed_files_are_removed_and_damaged_ones_refused(tmp_path):
    write(tmp_path, make_sitting(24, 30))
    run(tmp_path)
    (tmp_path / "t" / "day 1.txt").write_text(make_sitting(24, 30).text.upper(), "utf8")
    run(tmp_path)
    [stored] = (tmp_path / "W" / ".aligned").iterdir()
    stored.write_bytes(stored.read_bytes()[:100])
    with pytest.raises(
        InputError, match=r"damaged .*; remove it and run the command again"
    ) as caught:
        run(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_workspace_of_the_same_source_in_another_format_is_not_replaced(tmp_path):
    folder = write(tmp_path, make_sitting(25, 30))
    run(folder)
    with pytest.raises(ExistsError, match="is the workspace of"):
        nbaudio.ingest("folder", folder / "h", out=folder / "W")


@pytest.mark.slow
def test_align_gives_the_same_tables_for_any_jobs_and_engine(tmp_path):
    for number in range(4):
        write(tmp_path, make_sitting(30 + number, 40), f"day {number}")
    run(tmp_path)
    align(
        tmp_path / "h",
        tmp_path / "t",
        out=tmp_path / "W2",
        jobs=2,
        engine="loky",
        show_progress=False,
    )
    for table in ("segments", "unmatched", "recordings", "names"):
        one, two = (Workspace.open(tmp_path / name).table(table) for name in ("W", "W2"))
        assert one.equals(two)


# bad input


def test_unreadable_files_are_problems_and_the_rest_is_aligned(tmp_path):
    sitting = make_sitting(40, 60)
    for name in ("good", "bad", "worse"):
        write(tmp_path, sitting, name)
    (tmp_path / "t" / "bad.txt").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "h" / "worse.json").write_text(
        '{"segments": [{"text": "no times", "start": 0, "end": 2}]}', "utf8"
    )
    report, segments, _ = run(tmp_path)
    assert segments["recording_id"].unique().to_list() == ["good"]
    assert [problem for problem in report.problems if problem.startswith("bad.txt")]
    assert [
        problem
        for problem in report.problems
        if problem.startswith("worse.json") and "word" in problem
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"PK\x03\x04 no archive", "day 1.txt"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "encrypted"),
        (b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><TEI>&b;</TEI>', "day 1.txt"),
    ],
)
def test_a_single_bad_transcript_is_an_error_of_one_line(tmp_path, content, message):
    folder = write(tmp_path, make_sitting(41, 20))
    (folder / "t" / "day 1.txt").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        run(folder)
    assert "day 1.txt" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (folder / "W" / "workspace.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_duration": 0}, "min_duration must be above 0"),
        ({"min_duration": 5, "max_duration": 4}, "below max_duration"),
        ({"max_duration": float("nan")}, "below max_duration"),
        ({"transcripts": "https://example.org/minutes"}, "nbaudio download"),
        ({"hypotheses": "absent"}, "there is no such file"),
        ({"transcripts": "absent"}, "there is no such file"),
    ],
)
def test_invalid_options_of_align_are_refused(tmp_path, options, message):
    folder = write(tmp_path, make_sitting(42, 10))
    with pytest.raises(InputError, match=message):
        run(folder, **options)
    assert not (folder / "W").exists()


def test_an_output_folder_that_is_no_workspace_is_left_unchanged(tmp_path):
    folder = write(tmp_path, make_sitting(43, 10))
    (folder / "W").mkdir()
    (folder / "W" / "notes.txt").write_text("mine")
    with pytest.raises(ExistsError, match="is not a workspace"):
        run(folder)
    assert [path.name for path in (folder / "W").iterdir()] == ["notes.txt"]
