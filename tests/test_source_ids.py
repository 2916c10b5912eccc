"""Ids of recordings and segments match across the files of a source in any Unicode composition."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf

import nbaudio
from nbaudio.core.report import Report

RATE = 8000
COMPOSED = "žana"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
TEXT = "guten tag"


def _recording(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, np.random.default_rng(0).normal(0, 0.1, 2 * RATE), RATE)


def _write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
    return path


def _ingest(format: str, source: Path, **places: Path) -> tuple[Report, pl.DataFrame]:
    out = source.parent / "W"
    report = nbaudio.ingest(format, source, out=out, **places)
    assert report.problems == []
    return report, nbaudio.Workspace.open(out).segments


def _has(report: Report, words: str) -> bool:
    return any(words in line for line in report.warnings)


@pytest.mark.parametrize("spellings", [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
@pytest.mark.parametrize("has_segments", [True, False])
def test_kaldi_ids_match_in_any_unicode_composition(
    tmp_path: Path, spellings: tuple[str, str], has_segments: bool
) -> None:
    first, second = spellings
    source = tmp_path / "d"
    _recording(source / "a.wav")
    _write(source / "wav.scp", f"{first} a.wav")
    if has_segments:
        _write(source / "segments", f"{first} {second} 0 1")
    _write(source / "text", f"{second} {TEXT}")
    _write(source / "utt2spk", f"{second} {first}")
    _write(source / "spk2gender", f"{second} f")
    _write(source / "reco2dur", f"{second} 9")
    report, segments = _ingest("kaldi", source)
    columns = ("segment_id", "text", "speaker_id", "speaker_gender", "decision")
    assert segments.select(columns).rows() == [(first, TEXT, COMPOSED, "f", "pending")]
    assert _has(report, "a.wav: lasts 2.0 s, the source says 9 s")


def test_lhotse_ids_match_in_any_unicode_composition(tmp_path: Path) -> None:
    source = tmp_path / "l"
    _recording(source / "a.wav")
    files = [{"type": "file", "channels": [0], "source": "a.wav"}]
    recording = {"id": DECOMPOSED, "sources": files}
    supervision = {"id": "s", "recording_id": COMPOSED, "start": 0, "duration": 1, "text": TEXT}
    _write(source / "recordings.jsonl", json.dumps(recording))
    _write(source / "supervisions.jsonl", json.dumps(supervision))
    _, segments = _ingest("lhotse", source)
    assert segments["end_sample"].to_list() == [RATE]


def test_commonvoice_paths_match_in_any_unicode_composition(tmp_path: Path) -> None:
    source = tmp_path / "hr"
    _recording(source / "clips" / f"{DECOMPOSED}.wav")
    header = "client_id\tpath\tsentence"
    _write(source / "validated.tsv", header, f"c\t{COMPOSED}.wav\t{TEXT}")
    _write(source / "train.tsv", header, f"c\t{DECOMPOSED}.wav\t{TEXT}")
    _write(source / "clip_durations.tsv", "clip\tduration[ms]", f"{COMPOSED}.wav\t9000")
    report, segments = _ingest("commonvoice", source)
    assert segments.select("text", "source_split", "decision").rows() == [
        (TEXT, "train", "pending")
    ]
    assert _has(report, "lasts 2.0 s, the source says 9 s")


def test_librispeech_ids_match_in_any_unicode_composition(tmp_path: Path) -> None:
    source = tmp_path / "libri"
    folder = source / "dev-clean/1/2"
    _recording(folder / f"1-2-{DECOMPOSED}.flac")
    _write(folder / "1-2.trans.txt", f"1-2-{COMPOSED} GUTEN TAG")
    _, segments = _ingest("librispeech", source)
    assert segments["end_sample"].to_list() == [2 * RATE]


@pytest.mark.parametrize("kind", ["csv", "scp"])
def test_names_files_match_in_any_unicode_composition(tmp_path: Path, kind: str) -> None:
    _recording(tmp_path / "audio/b.wav")
    source = _write(tmp_path / "t.csv", "name,text", f"{COMPOSED},{TEXT}")
    lines = ["name,path", f"{DECOMPOSED},b.wav"] if kind == "csv" else [f"{DECOMPOSED} b.wav"]
    names = _write(tmp_path / f"names.{kind}", *lines)
    _, segments = _ingest("table", source, audio=tmp_path / "audio", names=names)
    assert segments["end_sample"].to_list() == [2 * RATE]


def test_join_and_splits_match_ids_in_any_unicode_composition(tmp_path: Path) -> None:
    _recording(tmp_path / "a.wav")
    source = _write(tmp_path / "t.csv", "name,segment_id,text", f"a.wav,{COMPOSED},{TEXT}")
    _ingest("table", source)
    rooms = _write(tmp_path / "rooms.csv", "segment_id,room", f"{DECOMPOSED},7")
    report = nbaudio.join(tmp_path / "W", rooms, column="room")
    assert report.problems == []
    assert nbaudio.Workspace.open(tmp_path / "W").segments["room"].to_list() == [7]
    splits = _write(tmp_path / "splits.csv", "segment_id,split", f"{DECOMPOSED},test")
    nbaudio.select(tmp_path / "W", splits=splits, dev=0, test=0)
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    assert segments["split"].to_list() == ["test"]


@pytest.mark.parametrize(
    ("ids", "alike"),
    [
        (("Ab1", "aB1", "ab2"), "'Ab1' and 'aB1'"),
        ((COMPOSED, DECOMPOSED, "ab2"), f"{DECOMPOSED!r} and {COMPOSED!r}"),
        (("ab1", "ab2", "ab-1"), None),
    ],
)
def test_ids_that_differ_only_in_case_or_composition_give_a_warning(
    tmp_path: Path, ids: tuple[str, ...], alike: str | None
) -> None:
    for number in range(len(ids)):
        _recording(tmp_path / f"{number}.wav")
    rows = [f"{number},{name},{TEXT}" for number, name in enumerate(ids)]
    source = _write(tmp_path / "t.csv", "name,segment_id,text", *rows)
    report, segments = _ingest("table", source)
    assert segments["segment_id"].to_list() == list(ids)
    lines = [line for line in report.warnings if "differ only in case or Unicode" in line]
    assert len(lines) == (alike is not None)
    assert all(f"composition: 1, such as {alike}:" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("container", ["files", "webdataset", "zip"])
def test_clips_of_ids_that_differ_in_case_stay_apart(tmp_path: Path, container: str) -> None:
    for number, seed in enumerate((1, 2)):
        samples = np.random.default_rng(seed).normal(0, 0.1, RATE)
        sf.write(tmp_path / f"{number}.wav", samples, RATE)
    source = _write(tmp_path / "t.csv", "name,segment_id,text", "0.wav,Ab,eins", "1.wav,aB,drei")
    _ingest("table", source)
    nbaudio.select(tmp_path / "W", dev=0, test=0)
    corpus = tmp_path / "C"
    nbaudio.materialize(tmp_path / "W", out=corpus, container=container, rate=RATE, jobs=1)
    clips = nbaudio.open_corpus(corpus).read_many(["Ab", "aB"])
    first, second = (np.asarray(clip.samples) for clip in clips)
    assert not np.array_equal(first, second)
    names = [path.name.casefold() for path in corpus.rglob("*") if path.is_file()]
    assert len(set(names)) == len(names)
