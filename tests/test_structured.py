"""Lists and objects where texts are expected: refused with the column, or a part is chosen."""

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from conftest import sweeps

import nbaudio
from nbaudio.core.errors import InputError
from nbaudio.formats.structured import structure

NAMES = [f"x{number}.wav" for number in range(3)]
LISTS = [["eins", "ein"], ["zwei"], ["drei"]]
OBJECTS = [{"de": word, "en": "one"} for word in ("eins", "zwei", "drei")]


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    folder = tmp_path / "audio"
    folder.mkdir()
    for name in NAMES:
        sf.write(folder / name, sweeps(1, 8000, channels=1), 8000)
    return folder


def write_csv(path: Path, texts: list[str]) -> Path:
    with path.open("w", newline="", encoding="utf8") as file:
        csv.writer(file).writerows([["name", "text"], *zip(NAMES, texts, strict=True)])
    return path


def write_lines(path: Path, values: list[Any], key: str = "name") -> Path:
    rows = [{key: name, "text": value} for name, value in zip(NAMES, values, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf8")
    return path


def write_dataset(path: Path, audio: Path, **columns: Any) -> Path:
    clips = [{"bytes": (audio / name).read_bytes(), "path": name} for name in NAMES]
    pq.write_table(pa.table({"audio": clips, **columns}), path)
    return path


def texts(workspace: Path) -> list[str | None]:
    return nbaudio.Workspace.open(workspace).segments["text"].to_list()


@pytest.mark.parametrize(("values", "part"), [(LISTS, "0"), (OBJECTS, "de")])
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "json.csv", "python.csv"])
def test_a_table_refuses_lists_and_objects_and_reads_a_part(
    tmp_path: Path, audio: Path, values: list[Any], part: str, kind: str
) -> None:
    source = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"name": NAMES, "text": values}), source)
    elif kind == "jsonl":
        write_lines(source, values)
    else:
        write_csv(source, [json.dumps(v) if kind == "json.csv" else str(v) for v in values])
    with pytest.raises(InputError, match=rf"column 'text' .*such as text\.{part}"):
        nbaudio.ingest("table", source, audio=audio, out=tmp_path / "W", jobs=1)
    chosen = {"text": f"text.{part}"}
    nbaudio.ingest("table", source, audio=audio, out=tmp_path / "W2", jobs=1, options=chosen)
    assert texts(tmp_path / "W2") == ["eins", "zwei", "drei"]
    with pytest.raises(InputError, match=r"no value at 'text\.fr'"):
        nbaudio.ingest(
            "table", source, audio=audio, out=tmp_path / "W3", options={"text": "text.fr"}
        )


@pytest.mark.parametrize(("values", "part"), [(LISTS, "0"), (OBJECTS, "de")])
def test_a_dataset_refuses_lists_and_objects_and_reads_a_part(
    tmp_path: Path, audio: Path, values: list[Any], part: str
) -> None:
    source = write_dataset(tmp_path / "d.parquet", audio, transcription=values)
    with pytest.raises(InputError, match=rf"'transcription' is .*such as transcription\.{part}"):
        nbaudio.ingest("hf", source, out=tmp_path / "W", jobs=1)
    chosen = {"text": f"transcription.{part}"}
    nbaudio.ingest("hf", source, out=tmp_path / "W2", jobs=1, options=chosen)
    assert texts(tmp_path / "W2") == ["eins", "zwei", "drei"]


def test_a_binary_text_column_is_refused(tmp_path: Path, audio: Path) -> None:
    source = write_dataset(tmp_path / "d.parquet", audio, text=pa.array([b"eins"] * 3))
    with pytest.raises(InputError, match="'text' is binary; expected texts or numbers"):
        nbaudio.ingest("hf", source, out=tmp_path / "W", jobs=1)


def test_speakers_that_are_lists_are_left_out_with_a_note(tmp_path: Path, audio: Path) -> None:
    source = write_dataset(
        tmp_path / "d.parquet", audio, text=["a"] * 3, speaker_id=LISTS, id=OBJECTS
    )
    report = nbaudio.ingest("hf", source, out=tmp_path / "W", jobs=1)
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    assert segments["speaker_id"].to_list() == [None] * 3
    notes = "\n".join(report.warnings)
    assert "column 'speaker_id' is list<element: string> and is not used as speaker" in notes
    assert "column 'id' is struct<de: string, en: string> and is not used as id" in notes
    with pytest.raises(InputError, match=r"such as speaker_id\.0"):
        nbaudio.ingest("hf", source, out=tmp_path / "W2", options={"speaker": "speaker_id"})
    chosen = {"speaker": "speaker_id.0", "id": "id.de"}
    nbaudio.ingest("hf", source, out=tmp_path / "W3", jobs=1, options=chosen)
    segments = nbaudio.Workspace.open(tmp_path / "W3").segments
    assert segments["speaker_id"].to_list() == ["eins", "zwei", "drei"]
    assert segments["segment_id"].to_list() == ["eins", "zwei", "drei"]


def test_join_refuses_objects_and_sentences_and_reads_a_part(tmp_path: Path, audio: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("segment_id,name\n" + "".join(f"{name},{name}\n" for name in NAMES))
    nbaudio.ingest("table", source, audio=audio, out=tmp_path / "W", options={"text": "none"})
    objects = write_lines(tmp_path / "o.jsonl", OBJECTS, "segment_id")
    with pytest.raises(InputError, match=r"column 'text' has objects, .*such as text\.de"):
        nbaudio.join(tmp_path / "W", objects, on="segment_id", text="other")
    nbaudio.join(tmp_path / "W", objects, on="segment_id", text="other", from_="text.de")
    other = nbaudio.Workspace.open(tmp_path / "W").segments["text_other"].to_list()
    assert other == ["eins", "zwei", "drei"]
    sentences = [["ein Satz", "noch ein Satz"], ["zwei"], ["drei"]]
    for kind in ("jsonl", "parquet"):
        path = tmp_path / f"s.{kind}"
        if kind == "jsonl":
            write_lines(path, sentences, "segment_id")
        else:
            pl.DataFrame({"segment_id": NAMES, "text": sentences}).write_parquet(path)
        if kind == "parquet":
            with pytest.raises(InputError, match=r"List\(String\).*such as text\.0"):
                nbaudio.join(tmp_path / "W", path, on="segment_id", text=kind)
        nbaudio.join(tmp_path / "W", path, on="segment_id", text=kind, from_="text.0")
        joined = nbaudio.Workspace.open(tmp_path / "W").segments[f"text_{kind}"].to_list()
        assert joined == ["ein Satz", "zwei", "drei"]


@pytest.mark.parametrize(
    "text",
    ["[applause]", "[1]", "[]", "{}", "{laughter}", "[Beifall] danke", "['unfinished", "12", "a"],
)
def test_texts_with_brackets_are_read_as_plain_text(tmp_path: Path, audio: Path, text: str) -> None:
    assert structure(text) is None
    source = write_csv(tmp_path / "t.csv", [text] * 3)
    nbaudio.ingest("table", source, audio=audio, out=tmp_path / "W", jobs=1)
    assert texts(tmp_path / "W") == [text] * 3


def test_texts_beside_recordings_may_not_be_objects(tmp_path: Path, audio: Path) -> None:
    for name in NAMES:
        (audio / name).with_suffix(".txt").write_text(json.dumps({"text": "eins"}), "utf8")
    with pytest.raises(InputError, match="column 'text' has objects"):
        nbaudio.ingest("folder", audio, out=tmp_path / "W", jobs=1)
