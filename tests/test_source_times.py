"""Times of sources are read as the tools do that write them: see docs/ingest.md."""

import json
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
def test_kaldi_end_minus_one_means_the_end_of_the_recording(
    tmp_path: Path, end: str, channel: str
) -> None:
    source = _kaldi(tmp_path, f"rec1 0 2{channel}", f"rec1 2 {end}{channel}", f"rec2 0.5 {end}")
    _recording(source / "a.wav", 5)
    _recording(source / "b.wav", 3.0005)
    _, segments = _ingest("kaldi", source)
    assert _samples(segments) == [(0, 16000), (16000, 40000), (4000, 24004)]
    assert segments["source_end"].to_list() == ["2", "5", "3.0005"]


def test_kaldi_end_minus_one_is_resolved_when_the_recording_arrives(tmp_path: Path) -> None:
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
def test_textgrid_times_count_from_xmin_or_zero_by_option(
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


def test_an_invalid_start_option_of_textgrids_is_refused(tmp_path: Path) -> None:
    grid = _grid(tmp_path / "t" / "a.TextGrid", 0, 2, [(0, 2, "eins")])
    with pytest.raises(InputError, match="option start='5': must be zero or keep"):
        _ingest("textgrid", grid.parent, start=5)


@pytest.mark.parametrize(("end", "is_warned"), [(10, False), (10.05, False), (60, True), (4, True)])
def test_a_textgrid_longer_or_shorter_than_its_recording_gives_a_warning(
    tmp_path: Path, end: float, is_warned: bool
) -> None:
    grid = _grid(tmp_path / "t" / "a.TextGrid", 0, end, [(0, 2, "eins")])
    _recording(grid.with_suffix(".wav"), 10)
    report, _ = _ingest("textgrid", grid.parent)
    assert _has(report.warnings, f"a.wav: lasts 10.0 s, the source says {end} s") == is_warned


@pytest.mark.slow
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
def test_an_end_less_than_50_ms_past_the_recording_means_its_end(
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
        ("Begin Time - ss.msec,End Time - ss.msec", (1.5, 3.25)),
    ],
)
def test_times_are_read_from_columns_with_usual_names(
    tmp_path: Path, columns: str, times: tuple[float, float]
) -> None:
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
        ("tc_in", "tc_out"),
    ],
)
def test_columns_that_look_like_times_are_refused_with_the_options(
    tmp_path: Path, start: str, end: str
) -> None:
    _recording(tmp_path / "a.wav", 8)
    source = tmp_path / "t.csv"
    source.write_text(f"path,{start},{end},text\na.wav,1.5,3.25,eins\n")
    with pytest.raises(InputError, match=f"give --option start={start} --option end={end};"):
        _ingest("table", source)
    _, segments = _ingest("table", source, start=start, end=end)
    assert _samples(segments) == [(12000, 26000)]
    _, segments = _ingest("table", source, start="none", end="none")
    assert _samples(segments) == [(0, 64000)]


def test_columns_named_like_times_with_other_values_are_kept(tmp_path: Path) -> None:
    _recording(tmp_path / "a.wav", 8)
    source = tmp_path / "t.csv"
    source.write_text("path,start_place,end_place,text,starter,gender\na.wav,Wien,Graz,eins,1,2\n")
    _, segments = _ingest("table", source)
    assert _samples(segments) == [(0, 64000)]


@pytest.mark.parametrize(("offset", "is_warned"), [("", True), ('"offset": 0, ', False)])
def test_nemo_durations_that_differ_from_the_recording_give_a_warning(
    tmp_path: Path, offset: str, is_warned: bool
) -> None:
    _recording(tmp_path / "a.wav", 8)
    source = tmp_path / "t.jsonl"
    source.write_text(f'{{"audio_filepath": "a.wav", {offset}"duration": 2.5, "text": "eins"}}\n')
    report, segments = _ingest("nemo", source)
    assert _samples(segments) == [(0, 20000)]
    assert _has(report.warnings, "a.wav: lasts 8.0 s, the source says 2.5 s") == is_warned


def _timed_table(folder: Path, columns: str, rows: Sequence[tuple[object, object, str]]) -> Path:
    """Write a table of segments of a recording of 8 s, 8 kHz."""
    _recording(folder / "a.wav", 8)
    source = folder / "t.csv"
    lines = "".join(f"a.wav,{start},{end},{text}\n" for start, end, text in rows)
    source.write_text(f"path,{columns},text\n{lines}")
    return source


@pytest.mark.parametrize(
    "columns",
    [
        "start_samples,end_samples",
        "start_sample,end_sample",
        "startSample,endSample",
        "segment_start_samples,segment_end_samples",
        "Start [samples],End [samples]",
    ],
)
def test_times_in_columns_named_samples_are_read_as_samples(tmp_path: Path, columns: str) -> None:
    rows = [(0, 12345, "guten tag"), ("12345.0", 26001, "danke schoen")]
    report, segments = _ingest("table", _timed_table(tmp_path, columns, rows))
    assert _samples(segments) == [(0, 12345), (12345, 26001)]
    assert segments["source_end"].to_list() == ["1.543125", "3.250125"]
    assert _has(report.warnings, "read as samples of the recording, as the name says")


def test_times_in_samples_use_the_rate_of_each_recording(tmp_path: Path) -> None:
    sf.write(tmp_path / "b.wav", np.full(44100, 0.1), 44100)
    source = _timed_table(tmp_path, "offset_samples,duration_samples", [(8000, 4001, "eins zwei")])
    with source.open("a") as table:
        table.write("b.wav,10001,20003,drei vier\n")
    _, segments = _ingest("table", source)
    assert _samples(segments) == [(8000, 12001), (10001, 30004)]


def test_invalid_sample_numbers_are_rejected_as_no_times(tmp_path: Path) -> None:
    rows = [(0, "0.5", "eins"), (-5, 8000, "zwei"), ("", 9000, "drei"), (0, 9000, "vier")]
    _, segments = _ingest("table", _timed_table(tmp_path, "start_sample,end_sample", rows))
    assert segments["reason"].to_list() == ["no_times"] * 3 + [None]


def test_times_in_samples_without_audio_are_refused(tmp_path: Path) -> None:
    source = _timed_table(tmp_path, "start_sample,end_sample", [(0, 8000, "eins")])
    (tmp_path / "a.wav").unlink()
    with pytest.raises(InputError, match=r"t.csv: the times are samples, .* give --audio"):
        _ingest("table", source)


LABELS = [(500, 2500, "das ist ein ganzer satz"), (2500, 4250, "und noch ein ganzer satz")]


@pytest.mark.parametrize("columns", ["start,end", "begin,stop", "start_time,end_time"])
@pytest.mark.parametrize("length", [8, 7200])
def test_times_that_may_be_milliseconds_are_refused_with_the_option(
    tmp_path: Path, columns: str, length: int
) -> None:
    source = _timed_table(tmp_path, columns, LABELS)
    if length > 8:  # all labels would fit into it
        sf.write(tmp_path / "a.wav", np.zeros(length * 100, np.int16), 100)
    with pytest.raises(
        InputError, match=r"whole numbers up to 4,250, .* --option times=ms or --opt"
    ):
        _ingest("table", source)
    report, segments = _ingest("table", source, times="ms")
    rate = 100 if length > 8 else RATE
    assert _samples(segments) == [
        (round(0.5 * rate), round(2.5 * rate)),
        (round(2.5 * rate), round(4.25 * rate)),
    ]
    assert _has(report.warnings, "read as milliseconds, as --option times says")


def test_times_that_may_be_samples_are_refused_with_the_option(tmp_path: Path) -> None:
    rows = [(1000, 9000, "guten tag"), (9000, 40000, "danke schoen und auf wiedersehen")]
    source = _timed_table(tmp_path, "start,end", rows)
    with pytest.raises(InputError, match=r"2 of 2 segments end far beyond their recordings"):
        _ingest("table", source)
    _, segments = _ingest("table", source, times="samples")
    assert _samples(segments) == [(1000, 9000), (9000, 40000)]
    _, segments = _ingest("table", source, times="s")
    assert segments["reason"].to_list() == ["past_the_end"] * 2


def test_times_in_frames_are_refused_with_the_option(tmp_path: Path) -> None:
    source = _timed_table(tmp_path, "start_frame,end_frame", [(1000, 9000, "guten tag")])
    with pytest.raises(InputError, match=r"'start_frame' is in frame, .* --option times=samples"):
        _ingest("table", source)
    _, segments = _ingest("table", source, times="samples")
    assert _samples(segments) == [(1000, 9000)]


def test_times_that_may_be_milliseconds_are_refused_without_audio_too(tmp_path: Path) -> None:
    source = _timed_table(tmp_path, "start,end", LABELS)
    (tmp_path / "a.wav").unlink()
    with pytest.raises(InputError, match="2 of 2 have less than a character in five seconds"):
        _ingest("table", source)


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 2, "das ist ein ganzer satz"), (2, 8, "und noch ein ganzer satz")],
        [(0, 8, ""), (0, 4, "ja das stimmt")],
        [("0.5", "300.25", "eins"), (0, 3000, "zwei")],
    ],
)
def test_plausible_times_are_read_as_seconds(
    tmp_path: Path, rows: list[tuple[object, object, str]]
) -> None:
    _, segments = _ingest("table", _timed_table(tmp_path, "start,end", rows))
    assert segments["source_end"].to_list() == [str(end) for _, end, _ in rows]


@pytest.mark.parametrize("parts", [86400, 3600, 60])
def test_times_that_may_be_days_hours_or_minutes_are_refused(tmp_path: Path, parts: int) -> None:
    texts = ["das ist ein ganzer satz", "und noch ein ganzer satz"]
    rows = [
        (number / parts, (number + 1.5) / parts, text) for number, text in enumerate(texts, start=1)
    ]
    source = _timed_table(tmp_path, "start,end", rows)
    with pytest.raises(InputError, match="2 of 2 have more than 200 characters a second"):
        _ingest("table", source)
    _, segments = _ingest("table", source, times="s")
    assert segments["source_end"].to_list() == [str(end) for _, end, _ in rows]


def test_a_segment_of_no_sample_is_rejected(tmp_path: Path) -> None:
    source = _timed_table(
        tmp_path, "start,end", [(0, 2, "das ist ein satz"), (2.00001, 2.00002, "ja")]
    )
    _, segments = _ingest("table", source)
    assert segments["reason"].to_list() == [None, "end_before_start"]


def test_unknown_or_different_units_of_times_are_refused(tmp_path: Path) -> None:
    source = _timed_table(tmp_path, "start_sample,end", [(0, 8000, "eins")])
    with pytest.raises(InputError, match="'start_sample' is in samples, and 'end' is not"):
        _ingest("table", source)
    with pytest.raises(InputError, match="option times='min': must be s, ms or samples"):
        _ingest("table", source, times="min")


@pytest.mark.parametrize(
    ("texts", "warned"),
    [
        (
            ("ja", "das ist ein ganzer satz"),
            "of 2 labels, 1 with less than 1 character a second and 0 with",
        ),
        (
            ("das ist ein ganzer satz", "wort " * 40),
            "0 with less than 1 character a second and 1 with more than 40",
        ),
        (("das ist ein ganzer satz", "und noch ein ganzer satz"), None),
    ],
)
def test_implausible_numbers_of_characters_per_second_give_a_warning(
    tmp_path: Path, texts: tuple[str, str], warned: str | None
) -> None:
    _recording(tmp_path / "a.wav", 8)
    _recording(tmp_path / "b.wav", 4)
    source = tmp_path / "t.csv"
    source.write_text(f"path,text\na.wav,{texts[0]}\nb.wav,{texts[1]}\n")
    report, _ = _ingest("table", source)
    lines = [line for line in report.warnings if "a second" in line]
    assert len(lines) == (warned is not None)
    assert all(warned in line for line in lines if warned)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("duration", [8.0, 2.5], ["b.wav: lasts 4.0 s, the source says 2.5 s"]),
        ("audio_duration", [8.01, 4.0], []),
        ("duration", ["long", "short"], []),
        ("duration_ms", [8000, 2500], []),
    ],
)
def test_dataset_durations_that_differ_from_the_recording_give_a_warning(
    tmp_path: Path, column: str, values: list[object], said: list[str]
) -> None:
    source = tmp_path / "dataset"
    _recording(source / "a.wav", 8)
    _recording(source / "b.wav", 4)
    audio = [{"bytes": None, "path": name} for name in ("a.wav", "b.wav")]
    schema = {"audio": pl.Struct({"bytes": pl.Binary, "path": pl.String})}
    texts = ["guten tag zusammen", "danke schoen"]
    columns = {"audio": audio, "text": texts, column: values}
    pl.DataFrame(columns, schema_overrides=schema).write_parquet(source / "a.parquet")
    report, segments = _ingest("hf", source)
    assert _samples(segments) == [(0, 64000), (0, 32000)]
    assert [line for line in report.warnings if "the source says" in line] == said


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"duration": 2.5}, "2.5"),
        ({"duration": 60, "num_samples": 480000, "sampling_rate": 8000}, "60"),
        ({"num_samples": 20000, "sampling_rate": 8000}, "2.5"),
        ({"duration": 8.02, "num_samples": 64000, "sampling_rate": 8000}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("kind", ["recordings", "cuts"])
def test_lhotse_durations_that_differ_from_the_recording_give_a_warning(
    tmp_path: Path, kind: str, declared: Mapping[str, float], said: str | None
) -> None:
    source = tmp_path / "l"
    _recording(source / "a.wav", 8)
    sources = [{"type": "file", "channels": [0], "source": "a.wav"}]
    recording = {"id": "a", "sources": sources, **declared}
    supervision = {"id": "s", "recording_id": "a", "start": 0, "duration": 2, "text": "guten tag"}
    cut = {"id": "c", "type": "MonoCut", "supervisions": [supervision], "recording": recording}
    lines = (
        {"recordings": recording, "supervisions": supervision} if kind != "cuts" else {kind: cut}
    )
    for name, line in lines.items():
        (source / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    report, segments = _ingest("lhotse", source)
    assert _samples(segments) == [(0, 16000)]
    assert _has(report.warnings, f"a.wav: lasts 8.0 s, the source says {said} s") == bool(said)
    assert _has(report.warnings, "the source says") == bool(said)
