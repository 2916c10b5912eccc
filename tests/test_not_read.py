"""Columns, fields and files of a source that its reader does not read are named and counted."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile as sf

import nbaudio

JOINED_BY_ID = "nbaudio join W FILE --on segment_id --column NAME"


def not_read(format: str, source: Path, **options: str) -> list[dict[str, Any]]:
    """Ingest a source; return the parts that were not read."""
    report = nbaudio.ingest(format, source, out=source.parent / "W", jobs=1, options=options)
    rows: list[dict[str, Any]] = report.facts.get("not_read", [])
    return rows


def write_dataset(path: Path, **columns: list[object]) -> None:
    audio = io.BytesIO()
    sf.write(audio, np.full(8000, 0.1), 8000, format="WAV")
    cells = [{"bytes": audio.getvalue(), "path": "a.wav"}]
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"audio": cells, **columns}), path)


def test_unread_columns_of_a_dataset_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "data/train-00000-of-00001.parquet"
    write_dataset(path, sentence=["eins"], normalized=["EINS"], start=[0.5], speaker=[{"id": "s"}])
    assert not_read("hf", tmp_path / "data") == [
        {
            "what": "columns of the dataset: normalized, speaker, start",
            "count": 3,
            "option": JOINED_BY_ID,
        }
    ]


def test_a_fully_read_dataset_reports_no_unread_columns(tmp_path: Path) -> None:
    path = tmp_path / "data/train-00000-of-00001.parquet"
    write_dataset(path, text=[{"de": "eins"}], duration=[1.0], speaker_id=["s"])
    assert not_read("hf", tmp_path / "data", text="text.de") == []


def test_unread_fields_of_a_nemo_manifest_are_reported(tmp_path: Path) -> None:
    line = {"audio_filepath": "a.wav", "duration": 1, "text": "eins"}
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(line) + "\n")
    assert not_read("nemo", plain) == []
    further = tmp_path / "m/further.json"
    further.parent.mkdir()
    further.write_text(json.dumps(line | {"text_pnc": "Eins.", "start_time": 3}) + "\n")
    assert not_read("nemo", further) == [
        {"what": "fields of the lines: start_time, text_pnc", "count": 2, "option": JOINED_BY_ID}
    ]


def test_unread_files_of_a_kaldi_folder_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "k"
    folder.mkdir()
    (folder / "wav.scp").write_text("u1 a.wav\nu2 b.wav\n")
    (folder / "text").write_text("u1 eins\nu2 zwei\n")
    (folder / "README.txt").write_text("not a table\n")
    (folder / "a.wav").write_bytes(b"")
    assert not_read("kaldi", folder) == []
    (folder / "utt2lang").write_text("u1 hr\nu2 hr\n")
    (folder / "feats.scp").write_text("u1 a.ark:7\n")
    (folder / "text_asr").write_text("u1 ein\n")
    (folder / "text.small").write_text("u1 ein\n")
    rows = not_read("kaldi", folder)
    assert {(row["what"], row["count"], row["option"]) for row in rows} == {
        ("lines of the file feats.scp", 1, ""),
        ("lines of the file text.small", 1, "--option asr=text.small"),
        ("lines of the file text_asr", 1, "--option asr=text_asr"),
        ("lines of the file utt2lang", 2, ""),
    }
    assert "lines of the file text_asr" not in str(not_read("kaldi", folder, asr="text_asr"))
