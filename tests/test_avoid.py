"""`select --avoid`: what other people's data holds stays out of train."""

import json
import os
import tarfile
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from specimens import tone
from typer.testing import CliRunner
from web import serving

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.runs.parameters import parameters
from nbaudio.selection.avoid import notes_on_dropped
from nbaudio.sources.other_data import read_other
from nbaudio.tables.workspace import Workspace

SENTENCE = "Sutra ujutro otvaramo raspravu o zakonu"
TEXTS = {
    "equal": "sutra, ujutro otvaramo RASPRAVU o zakonu!",
    "last word": "Sutra ujutro otvaramo raspravu o proračunu",
    "look-alikes": "Sutr\u0430 ujutro otvaramo raspravu o zakonu",
    "one letter": "Sutra ujutro otvaramo rasprave o zakonu",
    "short": "Hvala lijepa",
    "short and near": "Hvala ljepa",
    "other": "Danas popodne nastavljamo sjednicu s drugom točkom",
}
REASONS = {
    "equal": "avoided_sentence",
    "last word": "avoided_near_sentence",
    "look-alikes": "avoided_near_sentence",
    "one letter": "avoided_near_sentence",
    "short": "avoided_sentence",
    "short and near": None,
    "other": None,
}


def make(folder, texts=TEXTS, **columns):
    """A workspace with a recording and a speaker for each text."""
    ids = list(texts)
    segments = pl.DataFrame(
        {
            "segment_id": ids,
            "recording_id": ids,
            "speaker_id": ids,
            "source_start": ["0"] * len(ids),
            "source_end": ["3"] * len(ids),
            "text": list(texts.values()),
            "similarity": [1.0] * len(ids),
            **columns,
        }
    )
    workspace = Workspace.create(folder, source="x", audio=None)
    workspace.save(recordings=pl.DataFrame({"recording_id": ids}), segments=segments)
    return workspace


def select(workspace, *others, **arguments):
    sizes = {"dev": 0, "test": 0}
    return nbaudio.select(workspace, avoid=others, **(sizes | arguments))


def reasons(workspace):
    segments = workspace.segments
    return dict(zip(segments["segment_id"], segments["reason"].cast(pl.String), strict=True))


def write_lines(folder):
    path = folder / "sentences.txt"
    path.write_text(f"{SENTENCE}.\n\nHvala lijepa\n", encoding="utf8")
    return path


def write_csv(folder):
    path = folder / "table.csv"
    path.write_text(f'path,sentence\na.wav,"{SENTENCE}"\nb.wav,hvala lijepa\n', encoding="utf8")
    return path


def write_xlsx(folder):
    path = folder / "table.xlsx"
    pl.DataFrame({"Transcript": [SENTENCE, "hvala lijepa"]}).write_excel(path)
    return path


def write_json_lines(folder):
    path = folder / "table.jsonl"
    lines = [json.dumps({"text": text}) for text in (SENTENCE, "hvala lijepa")]
    path.write_text("\n".join(lines), encoding="utf8")
    return path


def write_parquet(folder):
    path = folder / "data" / "test-00000-of-00001.parquet"
    path.parent.mkdir()
    audio = [{"bytes": b"x", "path": "a.wav"}] * 2
    rows = pl.DataFrame({"sentence": [SENTENCE, "hvala lijepa"], "audio": audio})
    rows.write_parquet(path)
    train = pl.DataFrame({"sentence": [TEXTS["other"]], "audio": audio[:1]})
    train.write_parquet(folder / "data" / "train-00000-of-00001.parquet")
    return folder / "data"


def write_audio_folder(folder):
    for split, texts in {"test": [SENTENCE, "hvala lijepa"], "train": [TEXTS["other"]]}.items():
        (folder / "set" / split).mkdir(parents=True)
        rows = {"file_name": [f"{n}.wav" for n in range(len(texts))], "transcription": texts}
        pl.DataFrame(rows).write_csv(folder / "set" / split / "metadata.csv")
    return folder / "set"


def write_nemo(folder):
    path = folder / "test_manifest.json"
    lines = [
        json.dumps({"audio_filepath": f"{n}.wav", "duration": 1.5, "text": text})
        for n, text in enumerate((SENTENCE, "hvala lijepa"))
    ]
    path.write_text("\n".join(lines), encoding="utf8")
    return path


def write_kaldi(folder):
    data = folder / "kaldi"
    data.mkdir()
    (data / "text").write_text(f"u1 {SENTENCE}\nu2 hvala lijepa\n", encoding="utf8")
    (data / "wav.scp").write_text("u1 a.wav\nu2 b.wav\n", encoding="utf8")
    (data / "utt2spk").write_text("u1 s\nu2 s\n", encoding="utf8")
    return data


def write_kaldi_splits(folder):
    """Data folders of two splits, of which the one that is held out counts."""
    write_kaldi(folder).rename(folder / "test")
    train = write_kaldi(folder)
    (train / "text").write_text(f"u1 {TEXTS['other']}\n", encoding="utf8")
    data = folder / "splits"
    data.mkdir()
    train.rename(data / "train")
    (folder / "test").rename(data / "test")
    return data


def write_kaldi_text(folder):
    return write_kaldi(folder) / "text"


def write_lj_speech(folder):
    path = folder / "LJ/metadata.csv"
    path.parent.mkdir()
    lines = [f"LJ001-0001|{SENTENCE} 2|{SENTENCE}", "LJ001-0002|Hvala lijepa!|hvala lijepa"]
    path.write_text("\n".join(lines), encoding="utf8")
    return path.parent


def write_mls_split(folder):
    path = folder / "transcripts.txt"
    path.write_text(f"1_2_000003\t{SENTENCE}\n1_2_000004\thvala lijepa\n", encoding="utf8")
    return path


def write_webdataset(folder):
    (folder / "shards").mkdir()
    texts = {"test": [SENTENCE, "hvala lijepa"], "train": [TEXTS["other"]]}
    for split, lines in texts.items():
        with tarfile.open(folder / "shards" / f"{split}-000000.tar", "w") as tar:
            for number, text in enumerate(lines):
                for ending, content in {"flac": b"fLaC", "txt": text.encode()}.items():
                    path = folder / "member"
                    path.write_bytes(content)
                    tar.add(path, f"{number:04}.{ending}")
    return folder / "shards"


def write_frame(folder):
    return pl.DataFrame({"text": [SENTENCE, "hvala lijepa", None]})


WRITERS = [
    write_lines,
    write_csv,
    write_xlsx,
    write_json_lines,
    write_parquet,
    write_audio_folder,
    write_nemo,
    write_kaldi,
    write_kaldi_splits,
    write_kaldi_text,
    write_lj_speech,
    write_mls_split,
    write_webdataset,
    write_frame,
]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__[6:])
def test_shared_sentences_are_left_out_of_train_whatever_the_data_is(tmp_path, write):
    workspace = make(tmp_path / "w")
    report = select(workspace, write(tmp_path))
    assert reasons(workspace) == REASONS
    (row,) = report.facts["avoided"]
    counts = {"avoided_sentence": 2, "avoided_near_sentence": 3, "avoided_audio": 0}
    assert {name: row[name] for name in counts} == counts
    assert (row["sentences"], row["held_out"]) == (2, 0)
    assert report.facts["rejected"] == {"avoided_near_sentence": 3, "avoided_sentence": 2}


@pytest.mark.parametrize("form", ["{}. {}", "({}) {}", "{}: {}", "{}\t{}", "{} {}", "  {}) {}"])
def test_numbers_of_lines_are_no_part_of_sentences(tmp_path, form):
    path = tmp_path / "sentences.txt"
    lists = [[SENTENCE, "hvala lijepa"], ["hvala lijepa"]]
    lines = [
        line
        for texts in lists
        for line in ["Popis", *(form.format(number, text) for number, text in enumerate(texts, 1))]
    ]
    path.write_text("\n".join(lines), encoding="utf8")
    workspace = make(tmp_path / "w")
    report = select(workspace, path)
    assert reasons(workspace) == REASONS
    assert report.facts["avoided"][0]["sentences"] == 3  # with "Popis"


@pytest.mark.parametrize(
    "lines",
    [
        ["12 ljudi je došlo", "3. svibnja", "hvala"],
        ["1. svibnja", "1. lipnja"],
        ["1. svibnja", "hvala"],
        ["2. svibnja", "4. svibnja"],
    ],
)
def test_numbers_that_count_no_lines_stay(tmp_path, lines):
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(lines), encoding="utf8")
    assert read_other(path).rows["text"].to_list() == lines


def test_held_out_splits_count_and_others_can_be_named(tmp_path):
    data = write_parquet(tmp_path)
    workspace = make(tmp_path / "w")
    report = select(workspace, data)
    assert report.facts["avoided"][0]["data"] == "data:test"
    select(workspace, f"{data}:train")
    assert [name for name, reason in reasons(workspace).items() if reason] == ["other"]
    report = select(workspace, f"{data}:all")
    assert report.facts["kept"] == 1  # short and near
    assert report.facts["avoided"][0]["data"] == "data"
    with pytest.raises(InputError, match="data: there is no split 'dev'; there are train, test"):
        select(workspace, f"{data}:dev")


def test_a_workspace_and_a_corpus_are_avoided_by_what_they_hold_out(tmp_path):
    other = make(tmp_path / "other", {"t": SENTENCE, "u": "hvala lijepa", "v": TEXTS["other"]})
    segments = other.segments.with_columns(split=pl.Series(["test", "dev", "train"]))
    other.save(segments=segments)
    workspace = make(tmp_path / "w")
    report = select(workspace, tmp_path / "other")
    assert reasons(workspace) == REASONS
    assert report.facts["avoided"][0]["data"] == "other:dev,test"


def test_the_workspace_itself_cannot_be_avoided(tmp_path):
    workspace = make(tmp_path / "w")
    with pytest.raises(InputError, match="is the workspace itself"):
        select(workspace, f"{tmp_path / 'w'}:all")


def test_ids_to_avoid_need_other_data(tmp_path):
    with pytest.raises(InputError, match="avoid_by: needs other data"):
        select(make(tmp_path / "w"), avoid_by="speaker_id")


def test_held_out_segments_of_this_corpus_stay_and_are_counted(tmp_path):
    splits = ["test", "train", "train", "train", "dev", "train", "train"]
    workspace = make(tmp_path / "w", source_split=splits)
    report = nbaudio.select(workspace, splits="source", avoid=write_lines(tmp_path))
    kept = reasons(workspace)
    assert [kept["equal"], kept["short"]] == [None, None]
    assert kept["one letter"] == "avoided_near_sentence"  # also where train is given
    assert report.facts["avoided"][0]["held_out"] == 2


def test_near_held_out_1_compares_equal_sentences_only(tmp_path):
    workspace = make(tmp_path / "w")
    select(workspace, write_lines(tmp_path), near_held_out=1)
    assert [name for name, reason in reasons(workspace).items() if reason] == ["equal", "short"]


def test_ids_are_compared_only_if_they_are_asked_for(tmp_path):
    other = pl.DataFrame({"text": ["Nešto treće"], "speaker_id": ["other"]})
    workspace = make(tmp_path / "w")
    assert select(workspace, other).facts["rejected"] == {}
    report = select(workspace, other, avoid_by="speaker_id")
    assert report.facts["rejected"] == {"avoided_id": 1}
    assert report.facts["parameters"]["avoid_by"] == ["speaker_id"]
    with pytest.raises(InputError, match="avoid_by='text': must be speaker_id or recording_id"):
        select(workspace, other, avoid_by="text")


def test_audio_is_compared_by_the_hash_and_window_of_a_recording(tmp_path):
    workspace = make(tmp_path / "w", {"a": "Prvo", "b": "Drugo", "c": "Treće"})
    recordings = pl.DataFrame(
        {"recording_id": ["a", "b", "c"], "sha256": ["one", "one", "two"], "num_samples": [90] * 3}
    ).with_columns(path="recording_id", sampling_rate=10, num_channels=1)
    windows = {"start_sample": [0, 40, 0], "end_sample": [30, 80, 30]}
    segments = workspace.segments.with_columns(pl.Series(name, v) for name, v in windows.items())
    workspace.save(recordings=recordings, segments=segments)
    rows = {"text": ["Nešto četvrto"], "sha256": ["one"], "start_sample": [70], "end_sample": [90]}
    select(workspace, pl.DataFrame(rows))
    assert reasons(workspace) == {"a": None, "b": "avoided_audio", "c": None}
    select(workspace, pl.DataFrame(rows).drop("start_sample", "end_sample"))
    assert reasons(workspace) == {"a": "avoided_audio", "b": "avoided_audio", "c": None}


def test_the_selection_is_the_same_from_another_folder_and_names_no_path(tmp_path, monkeypatch):
    workspace = make(tmp_path / "w")
    write_lines(tmp_path)
    first = select(workspace, tmp_path / "sentences.txt").to_dict()
    (tmp_path / "other").mkdir()
    moved = (tmp_path / "sentences.txt").rename(tmp_path / "other" / "sentences.txt")
    monkeypatch.chdir(moved.parent)
    assert select(workspace, "sentences.txt").to_dict() == first
    assert first["facts"]["parameters"]["avoid"] == ["sentences.txt"]
    assert str(tmp_path) not in json.dumps(first)
    moved.write_text("Nešto drugo\n", encoding="utf8")
    changed = select(workspace, "sentences.txt").facts["parameters"]
    assert changed["avoid_sha256"] != first["facts"]["parameters"]["avoid_sha256"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, "there is no such file or folder"),
        ("empty.txt", "", "empty.txt: has no sentences to avoid; every text is empty"),
        ("dots.txt", "...\n?\n", "dots.txt: has no sentences to avoid; every text is empty"),
        ("speakers.csv", "speaker,age\nana,40\n", "no column has sentences; expected one called"),
        ("broken.parquet", "no table", "not a readable Parquet file"),
        ("notes.pdf", "%PDF", "no format is recognized in it"),
        ("clips/a.wav", "RIFF", "recordings without texts in files beside them; name a table"),
    ],
)
def test_data_without_sentences_is_one_line_and_exit_code_2(tmp_path, name, content, message):
    workspace = make(tmp_path / "w")
    other = tmp_path / name.partition("/")[0]
    if content is not None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    done = CliRunner().invoke(app, ["select", str(workspace.path), "--avoid", str(other)])
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1


def test_a_table_of_which_a_part_is_not_read_is_refused(tmp_path):
    """What is not read is not avoided: its sentences would be in train."""
    workspace = make(tmp_path / "w")
    book = openpyxl.Workbook()
    for row in (("text",), ("Nešto sasvim drugo",)):
        book.active.append(row)
    test_sheet = book.create_sheet("test")
    book.save(tmp_path / "a.xlsx")
    assert select(workspace, tmp_path / "a.xlsx").facts["avoided"]
    test_sheet.append((SENTENCE,))
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(
        InputError, match=r"a\.xlsx: not read: rows of the sheet 'test' .*: 1; save"
    ):
        select(workspace, tmp_path / "a.xlsx")
    (tmp_path / "b.csv").write_text(f"text,speaker_id\n{SENTENCE},ana\n{SENTENCE}, ana,ben\n")
    with pytest.raises(InputError, match=r"b\.csv: line 3: "):
        select(workspace, tmp_path / "b.csv")


def test_a_selection_that_no_longer_avoids_data_warns(tmp_path):
    workspace = make(tmp_path / "w")
    report = select(workspace, write_lines(tmp_path))
    assert not any("avoided" in line for line in report.warnings)
    report = select(workspace)
    assert "avoid" not in report.facts["parameters"]
    assert any("the last select avoided sentences.txt" in line for line in report.warnings)


def test_a_manifest_names_data_relative_to_itself(tmp_path):
    manifest = tmp_path / "corpus.yaml"
    manifest.write_text("avoid: [tests/cv:test, hf://datasets/a/b]\n")
    values = parameters(manifest, {})
    assert values["avoid"] == [str(tmp_path / "tests/cv:test"), "hf://datasets/a/b"]
    assert parameters(manifest, {"avoid": "a.txt,b.txt"})["avoid"] == [
        str(Path("a.txt").absolute()),
        str(Path("b.txt").absolute()),
    ]
    manifest.write_text("avoid: [3]\n")
    with pytest.raises(InputError, match="avoid must be a path, not 3"):
        parameters(manifest, {})


def test_of_a_dataset_at_an_address_only_texts_are_read(tmp_path):
    (tmp_path / "www/data").mkdir(parents=True)
    audio = [{"bytes": os.urandom(1 << 20), "path": f"{number}.wav"} for number in range(8)]
    rows = pl.DataFrame({"sentence": [SENTENCE, "hvala lijepa"] * 4, "audio": audio})
    path = tmp_path / "www/data/test-00000-of-00001.parquet"
    rows.write_parquet(path, row_group_size=4)
    workspace = make(tmp_path / "w")
    with serving(tmp_path / "www") as web:
        report = select(workspace, f"{web.url}/data/{path.name}")
    assert reasons(workspace) == REASONS
    assert report.facts["avoided"][0]["data"].endswith(f"/data/{path.name}:test")
    assert web.sent < path.stat().st_size // 4


@pytest.mark.slow
def test_a_version_that_no_longer_avoids_the_data_of_its_base_says_so(tmp_path):
    tone(tmp_path / "clips" / "a.wav", 1.0)
    nbaudio.ingest("folder", tmp_path / "clips", out=tmp_path / "w", jobs=1)
    workspace = Workspace.open(tmp_path / "w")
    segments = workspace.segments
    workspace.save(segments=segments.with_columns(text=pl.lit("Dobro"), similarity=pl.lit(1.0)))

    def notes_of_version(name, base=None):
        options = {"jobs": 1, "engine": "threading", "show_progress": False}
        report = nbaudio.materialize(workspace, out=tmp_path / name, base=base, **options)
        return [note for note in report.warnings if "avoids" in note]

    select(workspace, write_lines(tmp_path))
    notes_of_version("v1")
    select(workspace)
    note = "avoids sentences.txt, {} does not: what shares sentences with it may be in train now"
    base = tmp_path / "v1"
    assert notes_of_version("v2", base) == [f"the base {base} {note.format('this selection')}"]
    later = tmp_path / "v2"
    assert f"{base} {note.format(later)}" in nbaudio.diff(base, later).warnings


def test_other_content_of_avoided_data_is_noticed():
    first = {"avoid": ["a.txt"], "avoid_sha256": "1"}
    assert notes_on_dropped(first, first, ("A", "B")) == []
    assert notes_on_dropped({}, first, ("A", "B")) == []
    further = {"avoid": ["a.txt", "b.txt"], "avoid_sha256": "3"}
    assert notes_on_dropped(first, further, ("A", "B")) == []
    (note,) = notes_on_dropped(first, first | {"avoid_sha256": "2"}, ("A", "B"))
    assert note.startswith("A avoids a.txt with other content than B: what shares sentences")
