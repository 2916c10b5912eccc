"""Audits of datasets that others published, of workspaces and corpora: every planted fault is
found with its count, and clean data have no finding."""

import io
import json
import re
import shlex
import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from typer.main import get_command
from typer.testing import CliRunner
from web import serving

from nbaudio import review
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.core.report import percent
from nbaudio.proof.evidence import evidence
from nbaudio.recognition.measure import measure
from nbaudio.selection.audits.check_list import CHECKS
from nbaudio.sources.ingest import ingest
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.statistics.audit import audit

CARD = """---
license: cc-by-4.0
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
  - split: test
    path: data/test-*
- config_name: other
  data_files: other/*.parquet
dataset_info:
- config_name: default
  splits:
  - {name: train, num_examples: 8}
  - {name: test, num_examples: 4}
---
# A dataset
"""
WORDS = (
    "jedan",
    "dva tri",
    "četiri",
    "pet šest",
    "sedam",
    "osam",
    "devet",
    "deset",
    "sto",
    "tisuću",
)
AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
CLIP_BYTES = 40_000


def sentence(number):
    """A sentence that is not near any other."""
    return " ".join(WORDS[int(digit)] for digit in f"{number * 7919 % 10_000:04d}")


def clean_rows(split, first, count):
    """Rows without a fault."""
    return [
        {
            "id": f"{split}-{number}",
            "sentence": sentence(number),
            "client_id": f"{split}-speaker-{number % 3}",
            "duration": 2.5,
            "consent": "yes",
        }
        for number in range(first, first + count)
    ]


def write_parquet(folder, name, rows, *, group=2):
    """A file with embedded audio, as Hugging Face writes them."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    noise = [bytes([number]) * CLIP_BYTES for number in range(len(rows))]
    audio = [
        {"bytes": content, "path": f"{row['id']}.wav"}
        for content, row in zip(noise, rows, strict=True)
    ]
    table = table.append_column("audio", pa.array(audio, AUDIO))
    pq.write_table(table, path, row_group_size=group, compression="none", use_dictionary=False)


def make_dataset(folder, *, train=(), test=()):
    """A dataset of eight and four clean rows, some of which are replaced by faulty ones."""
    folder.mkdir(exist_ok=True)
    (folder / "README.md").write_text(CARD, encoding="utf8")
    rows = {"train": clean_rows("train", 0, 8), "test": clean_rows("test", 8, 4)}
    for split, faults in (("train", train), ("test", test)):
        for number, fault in enumerate(faults):
            rows[split][number] |= fault
        write_parquet(folder, f"data/{split}-00000-of-00001.parquet", rows[split])
    return folder


def counts(report):
    """The count of each check that has a finding above its limit."""
    return {row["check"]: row["count"] for row in report.facts["findings"] if row["ok"] is False}


def test_clean_dataset_has_no_finding_and_its_audio_is_not_read(tmp_path):
    report = audit(make_dataset(tmp_path / "D"))
    assert counts(report) == {}
    assert report.problems == []
    assert report.facts["splits"] == {"train": 8, "test": 4}
    assert report.facts["hours"] == pytest.approx(12 * 2.5 / 3600, abs=1e-4)
    assert report.facts["bytes_of_data"] > 12 * CLIP_BYTES
    # Two small files: mostly their last 64 kB, which the footer is read with
    assert report.facts["bytes_read"] < 2 * 80_000


@pytest.mark.parametrize(
    ("check", "faults", "count"),
    [
        ("splits share speakers", {"test": [{"client_id": "train-speaker-0"}]}, 1),
        ("splits share sentences", {"test": [{"sentence": sentence(0).upper() + "!"}]}, 1),
        ("splits share near sentences", {"test": [{"sentence": sentence(3)[:-1] + "x"}]}, 1),
        (
            "splits share recordings",
            {"train": [{"recording_id": "r"}], "test": [{"recording_id": "r"}]},
            1,
        ),
        (
            "splits share clips",
            {"train": [{"audio_sha256": "h"}], "test": [{"audio_sha256": "h"}]},
            1,
        ),
        ("repeated clips", {"train": [{"audio_sha256": "h"}, {"audio_sha256": "h"}]}, 1),
        ("ids that collide", {"train": [{"id": "train-1"}]}, 2),
        ("repeated sentences", {"train": [{}, {}, {}, {"sentence": sentence(0)}]}, 1),
        ("empty texts", {"train": [{"sentence": " ... "}, {"sentence": None}]}, 2),
        ("texts too long for their clips", {"train": [{"duration": 0.2}]}, 1),
        ("texts too short for their clips", {"train": [{"sentence": "a"}]}, 1),
        ("another script", {"train": [{"sentence": "добар дан свима овде"}]}, 1),
        ("odd characters", {"train": [{"sentence": "dobar dan ☃ svima"}]}, 1),
        ("markup in texts", {"train": [{"sentence": "dobar <i>dan</i> svima"}]}, 1),
        ("digits beside words", {"train": [{"sentence": "dobar dan 2020 svima"}]}, 1),
        (
            "clips longer than a model takes",
            {"train": [{"duration": 31.0, "sentence": "da " * 40}]},
            1,
        ),
        ("no duration", {"train": [{"duration": 0.0}, {"duration": -1.0}]}, 2),
        ("no speaker", {"train": [{"client_id": " "}], "test": [{"client_id": " "}]}, 2),
        ("no consent", {"train": [{"consent": "withdrawn"}]}, 1),
    ],
)
def test_each_planted_fault_is_found_alone(tmp_path, check, faults, count):
    report = audit(make_dataset(tmp_path / "D", **faults))
    assert counts(report) == {check: count}
    (row,) = [row for row in report.facts["findings"] if row["check"] == check]
    assert 0 < len(row["examples"]) <= 5
    assert len(report.problems) == 1


def test_card_without_license_and_with_other_counts(tmp_path):
    folder = make_dataset(tmp_path / "D")
    text = CARD.replace("license: cc-by-4.0\n", "").replace("num_examples: 4", "num_examples: 9")
    (folder / "README.md").write_text(text, encoding="utf8")
    report = audit(folder)
    assert counts(report) == {"no license": 12, "declared against real rows": 5}
    (row,) = [
        row for row in report.facts["findings"] if row["check"] == "declared against real rows"
    ]
    assert row["examples"] == ["test: 9 declared, 4 there"]


def test_command_prints_findings_and_exits_with_1_above_a_limit(tmp_path):
    folder = str(make_dataset(tmp_path / "D", test=[{"client_id": "train-speaker-0"}]))
    done = CliRunner().invoke(app, ["audit", folder, "--json"])
    assert done.exit_code == 1
    printed = json.loads(done.stdout)
    assert len(printed["problems"]) == 1
    assert printed["problems"][0].startswith("splits share speakers: 1 (25 %, limit 0 %)")
    allowed = ["audit", folder, "--limit", "splits share speakers=0.3", "--max-duration", "20"]
    assert CliRunner().invoke(app, allowed).exit_code == 0


def test_unusable_target_and_options_exit_with_2_and_one_line(tmp_path):
    folder = str(make_dataset(tmp_path / "D"))
    empty = tmp_path / "empty"
    empty.mkdir()
    for words in (
        [str(empty)],
        [str(tmp_path / "absent")],
        [folder, "--limit", "speakers=0.1"],
        [folder, "--limit", "no speaker=7"],
        [folder, "--column", "texts=sentence"],
        [folder, "--config", "german"],
    ):
        done = CliRunner().invoke(app, ["audit", *words])
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), words


def test_option_column_names_the_column_of_a_field(tmp_path):
    folder = make_dataset(tmp_path / "D")
    report = audit(folder, columns={"speaker_id": "id"})
    assert {"name": "speaker_id", "column": "id"} in report.facts["columns"]


@pytest.mark.parametrize(("ids", "shared"), [("ab", 2), (("clip17", "clip18"), None)])
def test_paths_of_clips_name_recordings_unless_they_are_running_numbers(ids, shared, tmp_path):
    for split in ("train", "test"):
        rows = clean_rows(split, 0, 2)
        for row, key in zip(rows, ids, strict=True):
            row["id"] = key  # also the name of the path
        write_parquet(tmp_path, f"{split}-00000-of-00001.parquet", rows)
    findings = {row["check"]: row for row in audit(tmp_path).facts["findings"]}
    assert findings["splits share recordings"]["count"] == shared


def test_segments_that_a_selection_left_out_are_counted_apart(tmp_path):
    workspace = Workspace.create(tmp_path / "W")
    segments = {
        "segment_id": ["a", "b", "c", "d"],
        "recording_id": "r",
        "text": ["jedan", "dva", "tri", "pet"],
        "decision": ["accept", "reject", "reject", "reject"],
        "reason": [None, "low_similarity", "too_short", "too_short"],
        "split": ["train", None, None, None],
    }
    workspace.save(
        segments=pl.DataFrame(segments), recordings=pl.DataFrame({"recording_id": ["r"]})
    )
    facts = audit(tmp_path / "W").facts
    assert (facts["rows"], facts["left_out"]) == (1, 3)
    assert list(facts["left_out_by_reason"].items()) == [("too_short", 2), ("low_similarity", 1)]


def test_another_configuration_is_named_and_can_be_chosen(tmp_path):
    folder = make_dataset(tmp_path / "D")
    write_parquet(folder, "other/a.parquet", clean_rows("train", 0, 3))
    assert any("1 files of other configurations" in line for line in audit(folder).warnings)
    assert audit(folder, config="other").facts["rows"] == 3


def test_damaged_file_is_a_problem_and_the_others_are_read(tmp_path):
    folder = make_dataset(tmp_path / "D")
    (folder / "data/test-00000-of-00001.parquet").write_bytes(b"PAR1 no footer")
    report = audit(folder)
    assert report.facts["rows"] == 8
    assert "data/test-00000-of-00001.parquet" in report.problems[0]


def test_rows_without_a_speaker_are_not_one_speaker(tmp_path):
    rows = clean_rows("train", 0, 4)
    for row in rows:
        row["sentence"] = sentence(0)
        row["client_id"] = None
    rows[3]["client_id"] = "train-speaker-0"
    write_parquet(tmp_path, "train-00000-of-00001.parquet", rows)
    (row,) = [
        row for row in audit(tmp_path).facts["findings"] if row["check"] == "repeated sentences"
    ]
    assert (row["count"], row["share"]) == (0, 0.0)


def test_spellings_of_one_speaker_are_compared_as_ingest_reads_them(tmp_path):
    """A column of numbers with a gap is one of floats: 1 is 1.0 there, and the gap is NaN."""
    for split, speakers in (("train", [1, 2, 3]), ("test", [1.0, 4.0, float("nan")])):
        rows = clean_rows(split, 10 * len(split), 3)
        for row, speaker in zip(rows, speakers, strict=True):
            row["client_id"] = speaker
        write_parquet(tmp_path, f"{split}-00000-of-00001.parquet", rows)
    report = audit(tmp_path)
    assert counts(report) == {"splits share speakers": 1, "no speaker": 1, "no license": 6}
    notes = "\n".join(report.warnings)
    assert "2 spellings of speakers count as the same speaker, such as '1.0' as '1'" in notes
    assert "speakers that are read as missing: 'NaN'" in notes


@pytest.mark.parametrize(
    "spelling", ["Ana\u00a0Juri\u0107", " Ana  Juric\u0301", "Ana Juri\u0107\u200b"]
)
def test_blanks_and_compositions_of_unicode_make_no_other_speaker(tmp_path, spelling):
    folder = make_dataset(
        tmp_path / "D", train=[{"client_id": spelling}], test=[{"client_id": "Ana Juri\u0107"}]
    )
    assert counts(audit(folder)) == {"splits share speakers": 1}


def test_rows_of_a_split_that_is_not_declared_count_and_shares_stay_within_100_percent(tmp_path):
    folder = make_dataset(tmp_path / "D")
    text = CARD.replace("num_examples: 8", "num_examples: 1")
    text = text.replace("  - {name: test, num_examples: 4}\n", "")
    (folder / "README.md").write_text(text, encoding="utf8")
    (row,) = [
        row
        for row in audit(folder).facts["findings"]
        if row["check"] == "declared against real rows"
    ]
    assert (row["count"], row["share"]) == (11, round(11 / 12, 6))
    assert row["examples"] == ["test: 0 declared, 4 there", "train: 1 declared, 8 there"]


@pytest.mark.parametrize(("durations", "num_open"), [("", 2), ("r 9.5\n", 0)])
def test_an_end_of_minus_1_in_kaldi_is_that_of_the_recording(tmp_path, durations, num_open):
    tables = {
        "wav.scp": "r r.wav\n",
        "segments": "a r 0 2.5\nb r 2.5 -1\nc r 4 -1.0\nd r 3 3\n",
        "text": "".join(f"{key} {sentence(n)}\n" for n, key in enumerate("abcd")),
        "reco2dur": durations,
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(text, encoding="utf8")
    report = audit(tmp_path)
    (row,) = [row for row in report.facts["findings"] if row["check"] == "no duration"]
    assert (row["count"], row["share"]) == (1, round(1 / (4 - num_open), 6))
    assert any(f"not declared: {num_open}" in note for note in report.warnings) == bool(num_open)


def make_lj_speech(folder, *, normalized):
    """LJSpeech: ids and texts between pipes without a header, beside clips in wavs."""
    lines = []
    (folder / "wavs").mkdir(parents=True)
    for number in range(4):
        name = f"LJ001-000{number}"
        soundfile.write(folder / "wavs" / f"{name}.wav", np.zeros(800), 8_000)
        texts = [f'{sentence(number)} "dva 2', sentence(number)][: 1 + normalized]
        lines.append("|".join([name, *texts]))
    (folder / "metadata.csv").write_text("\n".join(lines), encoding="utf8")
    return folder


@pytest.mark.parametrize("normalized", [True, False])
def test_lj_speech_is_read_by_its_folder_or_table(tmp_path, normalized):
    folder = make_lj_speech(tmp_path / "LJ", normalized=normalized)
    for target in (folder, folder / "metadata.csv"):
        report = audit(target, audio=1)
        rows = {row["check"]: row for row in report.facts["findings"]}
        assert report.facts["rows"] == 4
        assert rows["digits beside words"]["count"] == (0 if normalized else 4)
        assert (rows["unreadable audio"]["count"], rows["digital silence"]["count"]) == (0, 1)
        assert any("has no header, as in LJSpeech" in note for note in report.warnings)
        assert not any("are no files" in line for line in report.problems)
    ingest("table", folder / "metadata.csv", audio=folder / "wavs", out=tmp_path / "W")
    first = Workspace.open(tmp_path / "W").segments.row(0, named=True)
    assert (first["segment_id"], first["end_sample"]) == ("LJ001-0000", 800)
    assert first["text"] == sentence(0) + ("" if normalized else ' "dva 2')


def test_a_column_of_speakers_is_no_text_of_lj_speech(tmp_path):
    lines = [f"u{number}|{sentence(number)}|ana" for number in range(4)]
    (tmp_path / "metadata.csv").write_text("\n".join(lines), encoding="utf8")
    done = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1


def make_mls(folder):
    """Multilingual LibriSpeech: ids and texts between tabs, a folder for each split."""
    for split, first in (("train", 0), ("test", 2)):
        ids = [f"1_2_{number:06}" for number in range(first, first + 2)]
        clips = folder / split / "audio/1/2"
        clips.mkdir(parents=True)
        for name in ids:
            soundfile.write(clips / f"{name}.flac", np.zeros(800), 8_000)
        lines = [f"{name}\t{sentence(int(name[-2:]))}\n" for name in ids]
        (folder / split / "transcripts.txt").write_text("".join(lines), encoding="utf8")
    return folder


def test_mls_is_read_with_its_splits(tmp_path):
    report = audit(make_mls(tmp_path / "MLS"), audio=4)
    assert report.facts["splits"] == {"train": 2, "test": 2}
    rows = {row["check"]: row for row in report.facts["findings"]}
    assert (rows["unreadable audio"]["count"], rows["digital silence"]["count"]) == (0, 4)


def test_texts_that_are_not_beside_their_recordings_are_named(tmp_path):
    for name in ("wav48/p1/p1_1.wav", "txt/p1/p1_1.txt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("dobar dan", encoding="utf8")
    notes = audit(tmp_path).warnings
    assert any("1 .txt file has no recording of that name beside it" in note for note in notes)


def write_tar(path, members):
    """A tar of names with their bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def make_webdataset(folder):
    """Tars with a clip, a text and JSON for each key; test has a speaker of train."""
    for split, first, count in (("train", 0, 8), ("test", 8, 4)):
        members = []
        for row in clean_rows(split, first, count):
            facts = {"speaker": row["client_id"], "duration": row["duration"], "id": row["id"]}
            if row["id"] == "test-9":
                facts["speaker"] = "train-speaker-2"
            members += [
                (f"{row['id']}.flac", b"f" * CLIP_BYTES),
                (f"{row['id']}.json", json.dumps(facts).encode()),
                (f"{row['id']}.txt", row["sentence"].encode()),
            ]
        write_tar(folder / f"{split}-000000.tar", members)


def test_what_is_not_read_of_tars_is_named(tmp_path):
    """Values in an object of JSON have names with a dot; a text without audio is no row."""
    members = []
    for row in clean_rows("train", 0, 3):
        facts = {"text": row["sentence"], "speaker": {"id": row["client_id"]}, "gender": "f"}
        members += [
            (f"./clips/{row['id']}.flac", b"f"),
            (f"./clips/{row['id']}.json", json.dumps(facts).encode()),
        ]
    write_tar(tmp_path / "train-0.tar", [*members, ("./clips/lost.txt", b"text")])
    report = audit(tmp_path)
    assert report.facts["rows"] == 3
    notes = [note for note in report.warnings if note.startswith("not read")]
    assert notes == [
        "not read: columns: gender, speaker.id",
        "not read: texts or JSON without audio of the same name: 1",
    ]
    report = audit(tmp_path, columns={"speaker_id": "speaker.id"})
    assert "no speaker" not in counts(report)
    assert "not read: columns: gender" in report.warnings


def make_audio_folder(folder):
    """Two folders with a table each; test has a speaker of train."""
    for split, first, count in (("train", 0, 8), ("test", 8, 4)):
        lines = ["file_name,transcription,speaker_id"]
        (folder / split).mkdir(parents=True)
        for row in clean_rows(split, first, count):
            speaker = "train-speaker-2" if row["id"] == "test-9" else row["client_id"]
            lines.append(f"{row['id']}.wav,{row['sentence']},{speaker}")
            (folder / split / f"{row['id']}.wav").write_bytes(b"RIFF")
        (folder / split / "metadata.csv").write_text("\n".join(lines), encoding="utf8")


def make_nemo(folder):
    """A manifest of each split; test has a speaker of train."""
    folder.mkdir()
    for split, first, count in (("train", 0, 8), ("test", 8, 4)):
        lines = [
            {
                "audio_filepath": f"{row['id']}.wav",
                "duration": 2.5,
                "text": row["sentence"],
                "speaker": "train-speaker-2" if row["id"] == "test-9" else row["client_id"],
            }
            for row in clean_rows(split, first, count)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{split}.json").write_text(text, encoding="utf8")


def make_kaldi(folder):
    """A data folder for each split; test has a speaker of train."""
    for split, first, count in (("train", 0, 8), ("test", 8, 4)):
        inside = folder / split
        inside.mkdir(parents=True)
        rows = clean_rows(split, first, count)
        speakers = {row["id"]: row["client_id"] for row in rows} | {"test-9": "train-speaker-2"}
        tables = {
            "wav.scp": [f"{row['id']} {row['id']}.wav" for row in rows],
            "text": [f"{row['id']} {row['sentence']}" for row in rows],
            "utt2spk": [f"{row['id']} {speakers[row['id']]}" for row in rows],
            "utt2dur": [f"{row['id']} 2.5" for row in rows],
        }
        for name, lines in tables.items():
            (inside / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf8")


def make_lhotse(folder):
    """Supervisions and recordings; test has a speaker of train."""
    folder.mkdir()
    for split, first, count in (("train", 0, 8), ("test", 8, 4)):
        rows = clean_rows(split, first, count)
        supervisions = [
            {
                "id": row["id"],
                "recording_id": row["id"],
                "start": 0.0,
                "duration": 2.5,
                "channel": 0,
                "text": row["sentence"],
                "speaker": "train-speaker-2" if row["id"] == "test-9" else row["client_id"],
            }
            for row in rows
        ]
        recordings = [
            {
                "id": row["id"],
                "sources": [{"type": "file", "channels": [0], "source": f"{row['id']}.wav"}],
                "sampling_rate": 16000,
                "num_samples": 40000,
                "duration": 2.5,
            }
            for row in rows
        ]
        for name, lines in (("supervisions", supervisions), ("recordings", recordings)):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / f"x_{name}_{split}.jsonl").write_text(text, encoding="utf8")


LAYOUTS = {
    "WebDataset": make_webdataset,
    "AudioFolder": make_audio_folder,
    "nemo": make_nemo,
    "kaldi": make_kaldi,
    "lhotse": make_lhotse,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shared_speaker_is_found_in_every_layout(tmp_path, layout):
    LAYOUTS[layout](tmp_path / "D")
    report = audit(tmp_path / "D", limits={"no license": 1, "no duration": 1})
    assert report.facts["layout"] == layout
    assert report.facts["splits"] == {"train": 8, "test": 4}
    assert counts(report) == {"splits share speakers": 1}
    if layout != "AudioFolder":
        assert report.facts["hours"] == pytest.approx(12 * 2.5 / 3600, abs=1e-4)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_commands_that_mend_have_options_that_there_are(check):
    for line in re.findall(r"nbaudio [a-z].*?(?=[,;.] |[,;.]?$)", check.mend):
        command = get_command(app)
        _, *words = shlex.split(line)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(line, words)


def test_punctuation_of_scripts_is_not_odd(tmp_path):
    texts = [
        "¿Cómo estás hoy? ¡Bien!",
        "La col·lecció",
        "今天天气很好，我们去公园吧。「好！」",
        "كيف حالك اليوم؟ أنا بخير، شكرا",
        "आज मौसम बहुत अच्छा है।",
        "Լավ եմ, ինչպե՞ս ես։",
        "odd ☃ • ＃ here",
    ]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "train.parquet")
    rows = {row["check"]: row for row in audit(tmp_path).facts["findings"]}
    assert rows["odd characters"]["count"] == 1
    assert rows["odd characters"]["examples"][0] == "characters U+2022 U+2603 U+FF03"


def test_files_of_equal_names_in_two_folders_are_several_recordings(tmp_path):
    for split, text in (("train", "jedan dva tri"), ("test", "sasvim druga rečenica")):
        folder = tmp_path / split
        folder.mkdir()
        (folder / "0001.wav").touch()
        metadata = pl.DataFrame(
            {"file_name": ["0001.wav"], "text": [text], "sha256": [split], "license": ["CC0"]}
        )
        metadata.write_csv(folder / "metadata.csv")
    report = audit(tmp_path)
    assert counts(report) == {}
    checked = {finding["check"]: finding["ok"] for finding in report.facts["findings"]}
    assert checked["splits share recordings"] is checked["splits share clips"] is True
    assert not report.problems


@pytest.mark.parametrize("layout", ["NeMo", "lhotse", "WebDataset"])
def test_license_and_consent_of_rows_are_read_in_every_layout(tmp_path, layout):
    about = [{"license": "CC0", "consent": "yes"}, {"license": "CC0", "consent": "no"}]
    if layout == "NeMo":
        rows = [
            {"audio_filepath": f"{n}.wav", "duration": 2.0, "text": sentence(n), **about[n]}
            for n in range(2)
        ]
        (tmp_path / "manifest.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif layout == "lhotse":
        source = {"type": "file", "channels": [0], "source": "a.wav"}
        recording = {"id": "a", "sources": [source], "sampling_rate": 16000, "num_samples": 64000}
        spoken = [
            {
                "id": f"s{n}",
                "recording_id": "a",
                "start": 2 * n,
                "duration": 2,
                "text": sentence(n),
                "custom": about[n],
            }
            for n in range(2)
        ]
        cut = {"id": "c", "start": 0, "recording": recording, "supervisions": spoken}
        (tmp_path / "cuts.jsonl").write_text(json.dumps(cut) + "\n")
    else:
        members = []
        for n in range(2):
            row = {"text": sentence(n), **about[n]}
            members += [(f"{n}.wav", b""), (f"{n}.json", json.dumps(row).encode())]
        write_tar(tmp_path / "a.tar", members)
    report = audit(tmp_path)
    assert counts(report) == {"no consent": 1}
    if layout == "WebDataset":
        assert {"name": "license", "column": "license"} in report.facts["columns"]


def test_drawn_clips_of_common_voice_are_in_its_folder_of_clips(tmp_path):
    (tmp_path / "clips").mkdir()
    soundfile.write(tmp_path / "clips" / "a.wav", np.zeros(16_000), 16_000)
    row = {"client_id": "s", "path": "a.wav", "sentence": sentence(1)}
    pl.DataFrame([row]).write_csv(tmp_path / "train.tsv", separator="\t")
    rows = {row["check"]: row for row in audit(tmp_path, audio=1).facts["findings"]}
    assert (rows["unreadable audio"]["count"], rows["digital silence"]["count"]) == (0, 1)


def test_options_of_published_datasets_are_errors_for_a_workspace(tmp_path):
    folder = make_dataset(tmp_path / "D")
    ingest("dataset", folder, out=tmp_path / "W")
    for options in ({"config": "default"}, {"columns": {"text": "sentence"}}):
        with pytest.raises(InputError, match=f"{next(iter(options))}: is for datasets that others"):
            audit(tmp_path / "W", **options)


def test_segments_of_a_workspace_are_drawn_and_decoded_if_it_is_not_measured(tmp_path):
    (tmp_path / "clips").mkdir()
    noise = 0.1 * np.random.default_rng(3).normal(size=16_000)
    for number in range(4):
        sound = np.zeros(16_000) if number == 0 else noise
        soundfile.write(tmp_path / "clips" / f"{number}.wav", sound, 16_000)
        (tmp_path / "clips" / f"{number}.txt").write_text(sentence(number), encoding="utf8")
    ingest("folder", tmp_path / "clips", out=tmp_path / "W")

    def findings(number):
        report = audit(tmp_path / "W", audio=number)
        return {row["check"]: row for row in report.facts["findings"]}, report.warnings

    (tmp_path / "clips" / "1.wav").write_bytes(b"RIFF")
    rows, _ = findings(4)
    assert (rows["digital silence"]["count"], rows["digital silence"]["share"]) == (1, 0.333333)
    assert (rows["unreadable audio"]["count"], rows["unreadable audio"]["share"]) == (1, 0.25)
    rows, _ = findings(2)
    shares = {row["share"] for name, row in rows.items() if name == "unreadable audio"}
    assert shares <= {0.0, 0.5}
    workspace = Workspace.open(tmp_path / "W")
    workspace.save(segments=workspace.segments.with_columns(silence_share=pl.lit(0.0)))
    rows, notes = findings(4)
    assert (rows["digital silence"]["count"], rows["unreadable audio"]["ok"]) == (0, None)
    assert any("--audio draws nothing" in note for note in notes)


def test_segments_of_a_dataset_without_its_audio_are_fetched_to_be_decoded(tmp_path):
    folder = make_dataset(tmp_path / "D")
    ingest("dataset", folder, out=tmp_path / "W")
    rows = {row["check"]: row for row in audit(tmp_path / "W", audio=5).facts["findings"]}
    assert (rows["unreadable audio"]["count"], rows["unreadable audio"]["share"]) == (5, 1.0)


def test_of_a_dataset_without_its_audio_nobody_is_told_to_bring_in_recordings(tmp_path):
    report = ingest("dataset", make_dataset(tmp_path / "D"), out=tmp_path / "W")
    assert report.warnings[0].startswith("the audio stays in the dataset")
    assert not any("--audio" in line for line in report.warnings)
    with pytest.raises(InputError, match="stays in the dataset; 'nbaudio ingest hf' reads"):
        measure(tmp_path / "W", show_progress=False)


def test_column_that_is_in_no_file_is_an_error_in_every_layout(tmp_path):
    make_nemo(tmp_path / "nemo")
    make_webdataset(tmp_path / "tars")
    for folder in ("nemo", "tars"):
        with pytest.raises(InputError, match="license=rights: there is no such column"):
            audit(tmp_path / folder, columns={"license": "rights"})


def test_remote_dataset_is_audited_by_ranges(tmp_path):
    make_dataset(tmp_path / "D", test=[{"client_id": "train-speaker-0"}])
    local = audit(tmp_path / "D")
    with serving(tmp_path) as web:
        remote = audit(f"{web.url}/D")
        assert web.sent < local.facts["bytes_of_data"] / 2
    assert counts(remote) == counts(local) == {"splits share speakers": 1}
    assert remote.facts["bytes_read"] == local.facts["bytes_read"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "notes.pdf",
            "x",
            "/D: none of its files is Parquet, a tar, a table or a manifest: notes.pdf",
        ),
        ("numbers.csv", "a,b\n1,2\n", "/D/numbers.csv: no format is recognized in it"),
    ],
)
def test_remote_files_that_are_no_dataset_are_named_by_their_address(
    tmp_path, name, content, message
):
    (tmp_path / "D").mkdir()
    (tmp_path / "D" / name).write_text(content)
    with serving(tmp_path) as web, pytest.raises(InputError) as caught:
        audit(f"{web.url}/D")
    assert str(caught.value).startswith(f"{web.url}{message}")


@pytest.mark.parametrize("layout", ["WebDataset", "nemo"])
def test_remote_tars_and_manifests_are_audited_without_audio(tmp_path, layout):
    LAYOUTS[layout](tmp_path / "D")
    with serving(tmp_path) as web:
        report = audit(f"{web.url}/D", limits={"no license": 1, "no duration": 1})
        assert web.sent < 100_000
    assert counts(report) == {"splits share speakers": 1}


def make_speech(folder):
    """A dataset in Parquet, with clips of 1 s that can be decoded."""
    for split, first, count in (("train", 0, 8), ("test", 8, 4)):
        rows = clean_rows(split, first, count)
        clips = []
        for number, row in enumerate(rows):
            sound = io.BytesIO()
            tone = np.sin(np.arange(16000) * (0.05 + 0.01 * number)) * 0.3
            soundfile.write(sound, tone, 16000, format="FLAC")
            clips.append({"bytes": sound.getvalue(), "path": f"{row['id']}.flac"})
        table = pa.Table.from_pylist([row | {"duration": 1.0} for row in rows])
        table = table.append_column("audio", pa.array(clips, AUDIO))
        path = folder / f"data/{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=2, compression="none")
    (folder / "README.md").write_text(CARD, encoding="utf8")
    return clips


@pytest.mark.slow
def test_drawn_clips_of_a_remote_dataset_are_fetched_and_nothing_else(tmp_path):
    """ingest dataset, review export, verdicts, evidence: as docs/audit.md has it."""
    make_speech(tmp_path / "D")
    workspace = tmp_path / "W"
    with serving(tmp_path) as web:
        report = ingest("dataset", f"{web.url}/D", out=workspace)
        assert report.facts["segments"] == 12
        assert not (workspace / "dataset-clips").exists()
        before = web.sent
        review.export(workspace, out=tmp_path / "sheet.csv", n=3, strategy="random", seed=1)
        fetched = web.sent - before
    clips = sorted((workspace / "dataset-clips").iterdir())
    assert len(clips) == 3
    # Row groups have two clips, and of each file the footer is read.
    assert fetched < 2 * sum(clip.stat().st_size for clip in clips) + 2 * 70_000
    sheet = pl.read_csv(tmp_path / "sheet.csv")
    written = [soundfile_info(tmp_path / name) for name in sheet["clip"]]
    assert written == [(16000, 16000)] * 3
    sheet.with_columns(verdict=pl.lit("ok")).write_csv(tmp_path / "sheet.csv")
    review.import_(workspace, tmp_path / "sheet.csv", reviewer="ana")
    facts = evidence(workspace).to_dict()["facts"]
    assert facts["selection"]["reviewed"] == 3


def soundfile_info(path):
    """The sampling rate and the number of samples of a file."""
    info = soundfile.info(path)
    return info.samplerate, info.frames


@pytest.mark.slow
def test_drawn_clips_are_decoded_and_compared_with_their_rows(tmp_path):
    make_speech(tmp_path / "D")
    report = audit(tmp_path / "D", audio=12)
    rows = {row["check"]: row for row in report.facts["findings"]}
    assert rows["unreadable audio"]["ok"]
    assert rows["declared against decoded durations"]["count"] == 0
    assert rows["digital silence"]["count"] == 0
    # The clips of this one say nothing but noise, and are no audio.
    report = audit(make_dataset(tmp_path / "broken"), audio=5)
    (row,) = [row for row in report.facts["findings"] if row["check"] == "unreadable audio"]
    assert (row["count"], row["share"]) == (5, 1.0)


def test_avoid_reports_what_training_shares_with_other_data(tmp_path):
    folder = make_dataset(tmp_path / "D")
    test_set = tmp_path / "other.txt"
    test_set.write_text(f"{sentence(2)}\n{sentence(9)}\nnešto posve drugo\n", encoding="utf8")
    report = audit(folder, avoid=[test_set], out=tmp_path / "page.html")
    # The ninth sentence is in test, which nobody trains on.
    assert counts(report) == {"shared with other.txt": 1}
    assert counts(audit(folder, avoid=test_set)) == counts(report)
    page = (tmp_path / "page.html").read_text(encoding="utf8")
    assert sentence(2) in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_texts_of_a_dataset_are_escaped_in_its_page(tmp_path):
    markup = "<script>alert(1)</script> dobar dan svima"
    folder = make_dataset(tmp_path / "D", train=[{"sentence": markup}])
    audit(folder, out=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_page_of_the_docs_has_every_check_with_its_limit():
    page = (Path(__file__).parents[1] / "docs/audit.md").read_text(encoding="utf8")
    for check in CHECKS:
        assert f"| {check.name} | {check.means} | {percent(check.limit)} |" in page


def test_a_text_that_is_stored_once_and_stands_in_a_million_rows_is_refused(tmp_path):
    index = pa.array(np.zeros(1_000_000, dtype=np.int32))
    texts = pa.DictionaryArray.from_arrays(index, pa.array(["dobar dan " * 100_000]))
    pq.write_table(pa.table({"text": texts}), tmp_path / "bomb.parquet")
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "bomb.parquet")])
    assert done.exit_code == 2
    assert "a bomb" in done.stderr


def finding_on_languages(target):
    findings = audit(target).facts["findings"]
    return next(row for row in findings if row["check"] == "another language")


def test_rows_in_another_language_are_counted_by_a_column_of_the_data_or_of_a_model(tmp_path):
    languages = ["en-US", "EN", "en", None, "hr"] * 4
    rows = [
        {"id": f"c{number}", "text": sentence(number), "language": language}
        for number, language in enumerate(languages)
    ]
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    frame = pl.DataFrame(rows)
    frame.write_parquet(tmp_path / "with" / "train-00000-of-00001.parquet")
    finding = finding_on_languages(tmp_path / "with")
    assert (finding["count"], finding["share"], finding["ok"]) == (4, 0.25, False)
    assert finding["examples"][0].endswith(f": hr, {sentence(14)}")

    frame.drop("language").write_parquet(tmp_path / "without" / "train-00000-of-00001.parquet")
    assert finding_on_languages(tmp_path / "without")["ok"] is None
    ingest("dataset", tmp_path / "without", out=tmp_path / "W")

    def code(texts):
        return [{"code": "hr" if text == sentence(3) else "en"} for text in texts]

    measure(tmp_path / "W", with_=code, as_="language", show_progress=False)
    assert finding_on_languages(tmp_path / "W")["count"] == 1
