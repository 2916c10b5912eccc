"""Times of sources are read as the tools do that write them: see docs/ingest.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf

import nbaudio
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report

RATE = 8000


def _recording(path: Path, seconds: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.random.default_rng(0).normal(0, 0.1, round(seconds * RATE))
    sf.write(path, samples, RATE)


def _ingest(format: str, source: Path, **options: object) -> tuple[Report, pl.DataFrame]:
    out = source.parent / "W"
    report = nbaudio.ingest(format, source, out=out, options=options)
    return report, nbaudio.Workspace.open(out).segments


def _samples(segments: pl.DataFrame) -> list[tuple[int, int]]:
    assert segments["decision"].unique().to_list() == ["pending"]
    return segments.select("start_sample", "end_sample").rows()


def _kaldi(folder: Path, *segments: str) -> Path:
    source = folder / "d"
    source.mkdir()
    lines = [f"u{number} {line}" for number, line in enumerate(segments)]
    (source / "segments").write_text("\n".join(lines))
    (source / "text").write_text("\n".join(f"u{n} satz" for n in range(len(lines))))
    (source / "wav.scp").write_text("rec1 a.wav\nrec2 b.wav\n")
    return source


def _grid(path: Path, start: float, end: float, rows: Sequence[tuple[float, float, str]]) -> Path:
    intervals = "".join(f'{first}\n{last}\n"{text}"\n' for first, last, text in rows)
    span = f"{start}\n{end}\n"
    tier = f'"IntervalTier"\n"words"\n{span}{len(rows)}\n{intervals}'
    path.parent.mkdir(parents=True, exist_ok=True)
    head = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n'
    path.write_text(f"{head}{span}<exists>\n1\n{tier}")
    return path


def _has(lines: Sequence[str], words: str) -> bool:
    return any(words in line for line in lines)


@pytest.mark.parametrize("end", ["-1", "-1.0", "-1.00"])
@pytest.mark.parametrize("channel", ["", " 0"])
def test_kaldi_end_of_the_recording(tmp_path: Path, end: str, channel: str) -> None:
    source = _kaldi(tmp_path, f"rec1 0 2{channel}", f"rec1 2 {end}{channel}", f"rec2 0.5 {end}")
    _recording(source / "a.wav", 5)
    _recording(source / "b.wav", 3.0005)
    _, segments = _ingest("kaldi", source)
    assert _samples(segments) == [(0, 16000), (16000, 40000), (4000, 24004)]
    assert segments["source_end"].to_list() == ["2", "5", "3.0005"]


def test_kaldi_end_of_a_recording_that_arrives_later(tmp_path: Path) -> None:
    source = _kaldi(tmp_path, "rec1 2 -1")
    _, segments = _ingest("kaldi", source)
    assert segments.select("source_end", "reason").row(0) == ("end", "no_times")
    _recording(source / "a.wav", 5)
    report = nbaudio.ingest("kaldi", source, out=tmp_path / "W", add=True)
    assert report.problems == ["b.wav: no such recording"] or not report.problems
    assert _samples(nbaudio.Workspace.open(tmp_path / "W").segments) == [(16000, 40000)]


def test_other_negative_ends_are_rejected(tmp_path: Path) -> None:
    source = _kaldi(tmp_path, "rec1 2 -2", "rec1 2 -1.5")
    _recording(source / "a.wav", 5)
    _, segments = _ingest("kaldi", source)
    assert segments["reason"].to_list() == ["end_before_start"] * 2


@pytest.mark.parametrize(
    ("options", "span", "samples"),
    [
        ({}, (5, 15), [(0, 16000), (16000, 36000)]),
        ({}, (-1, 9), [(48000, 64000), (64000, 84000)]),
        ({"start": "keep"}, (5, 15), [(40000, 56000), (56000, 76000)]),
    ],
)
def test_start_of_a_textgrid(
    tmp_path: Path,
    options: Mapping[str, str],
    span: tuple[float, float],
    samples: list[tuple[int, int]],
) -> None:
    grid = _grid(tmp_path / "t" / "a.TextGrid", *span, [(5, 7, "eins"), (7, 9.5, "zwei")])
    _recording(grid.with_suffix(".wav"), 11)
    report, segments = _ingest("textgrid", grid.parent, **options)
    if not options:
        assert _has(report.warnings, "1 TextGrid whose xmin is not 0")
    assert [
        (start, end) for start, end in segments.select("start_sample", "end_sample").rows()
    ] == samples


def test_start_option_of_textgrids(tmp_path: Path) -> None:
    grid = _grid(tmp_path / "t" / "a.TextGrid", 0, 2, [(0, 2, "eins")])
    with pytest.raises(InputError, match="option start='5': must be zero or keep"):
        _ingest("textgrid", grid.parent, start=5)


@pytest.mark.parametrize(("end", "is_warned"), [(10, False), (10.05, False), (60, True), (4, True)])
def test_length_of_a_textgrid(tmp_path: Path, end: float, is_warned: bool) -> None:
    grid = _grid(tmp_path / "t" / "a.TextGrid", 0, end, [(0, 2, "eins")])
    _recording(grid.with_suffix(".wav"), 10)
    report, _ = _ingest("textgrid", grid.parent)
    assert _has(report.warnings, f"a.wav: lasts 10.0 s, the source says {end} s") == is_warned


@pytest.mark.parametrize(
    ("end", "end_sample", "reason"),
    [
        ("10.0004", 80000, None),
        ("10.0499", 80000, None),
        ("10.0500", 80400, "past_the_end"),
        ("10.0600", 80480, "past_the_end"),
    ],
)
@pytest.mark.parametrize("format", ["table", "kaldi", "nemo"])
def test_ends_slightly_past_the_recording(
    tmp_path: Path, format: str, end: str, end_sample: int, reason: str | None
) -> None:
    source = _kaldi(tmp_path, f"rec1 2 {end}", "rec1 0 2")
    _recording(source / "a.wav", 10)
    if format == "table":
        source /= "t.csv"
        source.write_text(f"name,start,end,text\na.wav,2,{end},eins\na.wav,0,2,zwei\n")
    if format == "nemo":
        source /= "t.jsonl"
        line = '{"audio_filepath": "a.wav", "offset": %s, "duration": %s, "text": "eins"}\n'
        source.write_text(line % (2, f"{float(end) - 2:.4f}") + line % (0, 2))
    report, segments = _ingest(format, source)
    assert segments.select("end_sample", "reason").rows()[0] == (end_sample, reason)
    assert _has(report.warnings, "1 segment ends less than 50 ms past the end") == (not reason)


@pytest.mark.parametrize(
    ("columns", "times"),
    [
        ("start_time,end_time", (1.5, 3.25)),
        ("Start Time,End Time", (1.5, 3.25)),
        ("begin,stop", (1.5, 3.25)),
        ("from,to", (1.5, 3.25)),
        ("offset,duration", (1.5, 1.75)),
        ("start_ms,end_ms", (1500, 3250)),
        ("startTime,endTime", (1.5, 3.25)),
        ("xmin,xmax", (1.5, 3.25)),
        ("start_seconds,end_seconds", (1.5, 3.25)),
        ("segment_start,segment_end", (1.5, 3.25)),
        ("starttime,stoptime", (1.5, 3.25)),
    ],
)
def test_columns_of_times(tmp_path: Path, columns: str, times: tuple[float, float]) -> None:
    _recording(tmp_path / "a.wav", 8)
    source = tmp_path / "t.csv"
    source.write_text(f"path,{columns},text\na.wav,{times[0]},{times[1]},eins\n")
    _, segments = _ingest("table", source)
    assert _samples(segments) == [(12000, 26000)]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("t_start", "t_end"),
        ("start_timestamp", "end_timestamp"),
        ("clipStart", "clipEnd"),
        ("utt_begin", "utt_stop"),
        ("word.onset", "word.offset"),
    ],
)
def test_columns_that_look_like_times_are_asked_for(tmp_path: Path, start: str, end: str) -> None:
    _recording(tmp_path / "a.wav", 8)
    source = tmp_path / "t.csv"
    source.write_text(f"path,{start},{end},text\na.wav,1.5,3.25,eins\n")
    with pytest.raises(InputError, match=f"give --option start={start} --option end={end};"):
        _ingest("table", source)
    _, segments = _ingest("table", source, start=start, end=end)
    assert _samples(segments) == [(12000, 26000)]
    _, segments = _ingest("table", source, start="none", end="none")
    assert _samples(segments) == [(0, 64000)]


def test_columns_of_other_facts_are_kept(tmp_path: Path) -> None:
    _recording(tmp_path / "a.wav", 8)
    source = tmp_path / "t.csv"
    source.write_text("path,start_place,end_place,text,starter,gender\na.wav,Wien,Graz,eins,1,2\n")
    _, segments = _ingest("table", source)
    assert _samples(segments) == [(0, 64000)]


@pytest.mark.parametrize(("offset", "is_warned"), [("", True), ('"offset": 0, ', False)])
def test_declared_durations_of_nemo(tmp_path: Path, offset: str, is_warned: bool) -> None:
    _recording(tmp_path / "a.wav", 8)
    source = tmp_path / "t.jsonl"
    source.write_text(f'{{"audio_filepath": "a.wav", {offset}"duration": 2.5, "text": "eins"}}\n')
    report, segments = _ingest("nemo", source)
    assert _samples(segments) == [(0, 20000)]
    assert _has(report.warnings, "a.wav: lasts 8.0 s, the source says 2.5 s") == is_warned
