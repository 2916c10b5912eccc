"""Texts are read with a byte order mark and line ends of Windows, in every format."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

import nbaudio

TEXT = "guten tag"
SECONDS = 2


def _recording(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, np.random.default_rng(0).normal(0, 0.1, SECONDS * 8000), 8000)


def _write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\r\n" for line in ("\ufeff" + lines[0], *lines[1:])).encode())
    return path


def _kaldi(folder: Path) -> Path:
    _write(folder / "wav.scp", "rec a.wav")
    _write(folder / "segments", "utt rec 0 2")
    _write(folder / "text", f"utt {TEXT}")
    _write(folder / "utt2spk", "utt Ana")
    return folder


def _common_voice(folder: Path) -> Path:
    """Write the columns of releases since 17.0."""
    columns = (
        *("client_id", "path", "sentence_id", "sentence", "sentence_domain", "up_votes"),
        *("down_votes", "age", "gender", "accents", "variant", "locale", "segment"),
    )
    cells = ("Ana", "a.wav", "1f", TEXT, "news", "2", "0", "", "", "Wien", "de-AT", "de", "")
    _recording(folder / "clips/a.wav")
    _write(folder / "validated.tsv", "\t".join(columns), "\t".join(cells))
    return folder


def _lhotse(folder: Path) -> Path:
    recording = {"id": "r", "sources": [{"type": "file", "channels": [0], "source": "a.wav"}]}
    times = {"start": 0, "duration": 2}
    supervision = {"id": "s", "recording_id": "r", "text": TEXT, "speaker": "Ana", **times}
    _write(folder / "recordings.jsonl", json.dumps(recording))
    _write(folder / "supervisions.jsonl", json.dumps(supervision))
    return folder


def _librispeech(folder: Path) -> Path:
    _recording(folder / "dev-clean/Ana/2/a.flac")
    _write(folder / "dev-clean/Ana/2/Ana-2.trans.txt", f"a {TEXT}")
    return folder


def _nemo(folder: Path) -> Path:
    line = {"audio_filepath": "a.wav", "duration": 2, "text": TEXT, "speaker": "Ana"}
    return _write(folder / "m.json", json.dumps(line))


def _parlaspeech(folder: Path) -> Path:
    line = {"file": "a.wav", "start": 0, "end": 2, "words": TEXT.split(), "speaker": "Ana"}
    return _write(folder / "m.jsonl", json.dumps(line))


def _table(folder: Path) -> Path:
    return _write(folder / "t.csv", "path,text,speaker", f"a.wav,{TEXT},Ana")


def _json_table(folder: Path) -> Path:
    line = {"path": "a.wav", "text": TEXT, "speaker": "Ana"}
    return _write(folder / "t.jsonl", json.dumps(line))


def _subtitles(folder: Path) -> Path:
    _write(folder / "a.srt", "1", "00:00:00,000 --> 00:00:02,000", TEXT)
    return folder


def _webvtt(folder: Path) -> Path:
    _write(folder / "a.vtt", "WEBVTT", "", "00:00.000 --> 00:02.000", TEXT)
    return folder


def _textgrid(folder: Path) -> Path:
    head = ('File type = "ooTextFile"', 'Object class = "TextGrid"', "", "0", "2", "<exists>", "1")
    _write(folder / "a.TextGrid", *head, '"IntervalTier"', '"words"', *"0210", "2", f'"{TEXT}"')
    return folder


def _text_file(folder: Path) -> Path:
    _write(folder / "a.txt", TEXT)
    return folder


SOURCES = {
    "kaldi": _kaldi,
    "commonvoice": _common_voice,
    "lhotse": _lhotse,
    "librispeech": _librispeech,
    "nemo": _nemo,
    "parlaspeech": _parlaspeech,
    "table": _table,
    "table of JSON lines": _json_table,
    "subtitles": _subtitles,
    "subtitles of the web": _webvtt,
    "textgrid": _textgrid,
    "folder": _text_file,
}
WITHOUT_SPEAKERS = (_subtitles, _webvtt, _textgrid, _text_file)


@pytest.mark.parametrize("kind", SOURCES)
def test_byte_order_marks_and_windows_line_ends_are_not_read_as_text(
    tmp_path: Path, kind: str
) -> None:
    write: Callable[[Path], Path] = SOURCES[kind]
    folder = tmp_path / "s"
    _recording(folder / "a.wav")
    source = write(folder)
    out = tmp_path / "W"
    audio = folder if write in (_parlaspeech, _table, _json_table) else None
    report = nbaudio.ingest(kind.partition(" ")[0], source, audio=audio, out=out)
    assert report.problems == []
    [row] = nbaudio.Workspace.open(out).segments.to_dicts()
    assert (row["text"], row["text_raw"], row["reason"]) == (TEXT, None, None)
    assert row["end_sample"] == SECONDS * 8000
    assert row["speaker_id"] == (None if write in WITHOUT_SPEAKERS else "Ana")
    assert not any("\ufeff" in str(value) or "\r" in str(value) for value in row.values())
    if kind == "commonvoice":
        about = ("sentence_id", "sentence_domain", "speaker_accent", "variant")
        assert [row[name] for name in about] == ["1f", "news", "Wien", "de-AT"]
