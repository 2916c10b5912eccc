"""`nbaudio run FOLDER_OR_FILE`: the format, audio folder and options that are found out."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml
from openpyxl import Workbook
from specimens import CALLS, LAYOUTS, SOURCES, format_of, librispeech_archive, lines, tone

import nbaudio
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.runs.manifests import load_manifest
from nbaudio.runs.own_data import manifest_of_data
from nbaudio.runs.parameters import parameters
from nbaudio.sources.detection import detect_source
from nbaudio.sources.source_formats import READERS


def ingest_assumed(data, out, **settings):
    """Ingest data as the manifest says that is found out for them."""
    own = manifest_of_data(data, out, settings)
    values = parameters(own.path, settings)
    workspace = out / "workspace"
    nbaudio.ingest(
        values["format"],
        values["source"],
        audio=values["audio"],
        names=values.get("names"),
        options=values.get("options"),
        out=workspace,
        jobs=1,
    )
    return values, nbaudio.Workspace.open(workspace)


# Of a table, the columns must have usual names; its specimen has others.
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "table"])
def test_every_format_is_detected_from_its_folder(name, tmp_path):
    made = LAYOUTS[name](tmp_path / "archive")
    settings = {"options": made.options} if name in ("folder", "textgrid") else {}
    values, workspace = ingest_assumed(tmp_path / "archive", tmp_path / "R", **settings)
    assert values["format"] == format_of(name)
    found = workspace.segments.filter(decision="pending").drop_nulls("end_sample")
    assert len(found) == len(made.segments)
    assert sorted(found["text"].fill_null("")) == sorted(
        text or "" for _, _, _, text, _ in made.segments.values()
    )


def test_every_reader_has_a_layout_in_these_tests():
    assert {*READERS} <= {format_of(name) for name in LAYOUTS}


@pytest.mark.parametrize("name", CALLS)
def test_a_source_with_channels_is_detected_as_its_format(name, tmp_path):
    CALLS[name](tmp_path)
    expected = "table" if name == "table_call" else name.split("_", maxsplit=1)[0]
    assert detect_source(tmp_path).layout.format == expected


def test_a_table_of_segments_is_detected_by_its_columns(tmp_path):
    tone(tmp_path / "audio/a.wav", 3)
    lines(tmp_path / "speakers.csv", "speaker,gender", "ana,f")
    lines(tmp_path / "list.csv", "file;start;end;sentence", "a.wav;0;1.5;dobar, dan")
    (tmp_path / "notes.docx").touch()
    values, workspace = ingest_assumed(tmp_path, tmp_path / "R")
    assert values["source"].endswith("list.csv")
    assert workspace.segments.select("text", "end_sample").row(0) == ("dobar, dan", 12000)
    unread = detect_source(tmp_path, skip=[tmp_path / "R"]).describe_unread()
    assert unread == "1 .docx (notes.docx) and 1 .csv (speakers.csv)"


def test_columns_that_depend_on_values_are_left_to_the_table_reader(tmp_path):
    tone(tmp_path / "a.wav", 3)
    lines(tmp_path / "list.csv", "wav,ref,begin,prediction,spk", "a.wav,da,7,0.93,ana")
    values, workspace = ingest_assumed(tmp_path, tmp_path / "R")
    assert values["options"] == {"name": "wav", "text": "ref", "speaker_id": "spk"}
    found = workspace.segments.select("text", "asr_text", "speaker_id", "end_sample")
    assert found.rows() == [("da", None, "ana", 24000)]


def test_a_workbook_is_detected_by_its_columns(tmp_path):
    tone(tmp_path / "a.wav", 3)
    book = Workbook()
    book.active.append(["path", "start", "end", "text"])
    book.active.append(["a.wav", 0.5, 2, "dobar dan"])
    book.save(tmp_path / "list.xlsx")
    _, workspace = ingest_assumed(tmp_path / "list.xlsx", tmp_path / "R")
    assert workspace.segments["end_sample"].to_list() == [16000]


def test_the_demo_is_detected_and_described_in_ten_lines(tmp_path, capsys):
    shutil.copytree(bundled("data_manifests/demo"), tmp_path / "demo")
    own = manifest_of_data(tmp_path / "demo", tmp_path / "R", {})
    assert len(own.lines) <= 10
    assert yaml.safe_load(own.path.read_text(encoding="utf8")) == {
        "format": "parlaspeech",
        "source": "../demo/transcripts.jsonl",
        "audio": "../demo/audio",
        "names": "../demo/wav.scp",
        "workspace": "workspace",
        "corpus": "corpus",
    }
    told = "\n".join(own.lines)
    for fact in ("format parlaspeech", "7 recordings", "README.md", "returned/sheet.csv"):
        assert fact in told


def test_a_librispeech_archive_is_detected_and_other_archives_are_refused(tmp_path):
    archive = librispeech_archive(tmp_path / "made")
    shutil.move(archive, tmp_path / "x.tar.gz")
    assert detect_source(tmp_path / "x.tar.gz").layout.format == "librispeech"
    with tarfile.open(tmp_path / "y.tar", "w") as other:
        other.add(bundled("data_manifests/demo.yaml"), "demo.yaml")
    with pytest.raises(InputError, match=r"no format is recognized in it; it has 1 \.tar"):
        detect_source(tmp_path / "y.tar")


def test_two_formats_are_both_named_and_one_can_be_chosen(tmp_path):
    row = {"file": "a.wav", "start": 0, "end": 1, "words": ["da"]}
    lines(tmp_path / "asr.json", json.dumps(row))
    lines(tmp_path / "list.csv", "file,start,end,text", "a.wav,0,1,da")
    tone(tmp_path / "a.wav", 2)
    message = r"parlaspeech \(asr\.json .*and like table \(list\.csv .*--set format=parlaspeech"
    with pytest.raises(InputError, match=message):
        manifest_of_data(tmp_path, tmp_path / "R", {})
    assert not (tmp_path / "R").exists()
    for format, file in (("table", "list.csv"), ("parlaspeech", "asr.json")):
        out = tmp_path / f"R-{format}"
        own = manifest_of_data(tmp_path, out, {"format": format})
        assert yaml.safe_load(own.path.read_text(encoding="utf8"))["source"] == f"../{file}"


def test_two_sources_of_one_format_are_both_named(tmp_path):
    for name in ("a", "b"):
        lines(tmp_path / f"{name}.csv", "file,text", f"{name}.wav,da")
    with pytest.raises(InputError, match=r"a\.csv has .*b\.csv has .*name one of them"):
        detect_source(tmp_path)
    assert detect_source(tmp_path / "b.csv").layout.source == tmp_path / "b.csv"


def test_several_tiers_or_languages_are_refused_with_the_option_to_choose(tmp_path):
    LAYOUTS["textgrid"](tmp_path / "grids")
    with pytest.raises(InputError, match=r"tiers words and phones: .*options=\{tier: words\}"):
        manifest_of_data(tmp_path / "grids", tmp_path / "R", {})
    own = manifest_of_data(tmp_path / "grids", tmp_path / "R", {"options": {"tier": "words"}})
    written = yaml.safe_load(own.path.read_text(encoding="utf8"))
    assert written["options"] == {"tier": "words"}
    cue = "1\n00:00:00,000 --> 00:00:01,000\nda\n"
    tone(tmp_path / "films/a.wav", 2)
    lines(tmp_path / "films/a.hr.srt", cue)
    assert dict(detect_source(tmp_path / "films").layout.options) == {"language": "hr"}
    lines(tmp_path / "films/a.en.srt", cue)
    with pytest.raises(InputError, match="in en and hr: choose one language"):
        detect_source(tmp_path / "films")


def test_subtitles_with_the_names_of_their_recordings_need_no_language(tmp_path):
    cue = "1\n00:00:00,000 --> 00:00:01,000\nda\n"
    for name in ("a", "b"):
        tone(tmp_path / f"films/{name}.wav", 2)
        lines(tmp_path / f"films/{name}.srt", cue)
    values, workspace = ingest_assumed(tmp_path / "films", tmp_path / "R")
    assert values.get("options") is None
    assert workspace.segments["text"].to_list() == ["da", "da"]
    # Some in a language of their own: those without one are read, as the report says.
    lines(tmp_path / "films/a.en.srt", cue)
    assert dict(detect_source(tmp_path / "films").layout.options) == {}


def test_a_folder_with_one_file_is_detected_as_a_folder(tmp_path):
    tone(tmp_path / "songs/a.wav", 1)
    detected = detect_source(tmp_path / "songs")
    assert (detected.layout.format, detected.layout.source) == ("folder", tmp_path / "songs")
    shard = SOURCES["hf"](tmp_path / "dataset", [("a.wav", "da")])
    assert detect_source(shard).layout.source == tmp_path / "dataset"
    (file,) = shard.glob("*.parquet")
    assert detect_source(file).layout.source == file


def test_the_message_counts_further_candidate_tables(tmp_path):
    for number in range(7):
        lines(tmp_path / f"{number}.csv", "file,text", "a.wav,da")
    with pytest.raises(InputError, match=r"table \(3\.csv .* and like 3 others; name one of them"):
        detect_source(tmp_path)


def test_text_that_a_recognizer_wrote_is_not_detected_as_transcript(tmp_path):
    word = {"word": "da", "start": 0.0, "end": 0.5}
    heard = {"segments": [{"start": 0, "end": 1, "text": "da", "words": [word]}]}
    tone(tmp_path / "a.wav", 2)
    lines(tmp_path / "a.json", json.dumps(heard))
    lines(tmp_path / "a.txt", "da")
    with pytest.raises(InputError, match=r"a\.txt may be the recognizer's own text"):
        detect_source(tmp_path)
    (tmp_path / "minutes").mkdir()
    shutil.move(tmp_path / "a.txt", tmp_path / "minutes/day.txt")
    detected = detect_source(tmp_path)
    assert detected.layout.format == "align"
    assert detected.layout.documents == tmp_path / "minutes"
    assert detected.audio == tmp_path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "gone", "there is no such file or folder"),
        (lambda folder: folder, "there is no file in it"),
        (lambda folder: lines(folder / "a.pdf", "x"), r"no format is recognized.*1 \.pdf"),
        (lambda folder: tone(folder / "a.wav", 1), "no format is recognized"),
        (lambda folder: lines(folder / "a.json", "[" * 9000), "no format is recognized"),
    ],
)
def test_a_path_without_a_known_format_is_refused_in_one_line(make, message, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        detect_source(make(tmp_path))
    assert "\n" not in str(error.value)


def test_an_existing_manifest_is_reused_only_for_the_same_data(tmp_path):
    made = LAYOUTS["kaldi"](tmp_path / "mine")
    out = tmp_path / "R"
    own = manifest_of_data(tmp_path / "mine", out, {})
    changed = own.path.read_text(encoding="utf8") + "title: Mine\n"
    own.path.write_text(changed, encoding="utf8")
    again = manifest_of_data(tmp_path / "mine", out, {})
    assert again.path.read_text(encoding="utf8") == changed
    assert "used as it is" in again.lines[0]
    # By a link, and as the source itself.
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    assert manifest_of_data(tmp_path / "link", out, {}).path == own.path
    assert manifest_of_data(made.source, out, {}).path == own.path
    LAYOUTS["nemo"](tmp_path / "other")
    with pytest.raises(ExistsError, match="is the manifest of"):
        manifest_of_data(tmp_path / "other", out, {})


def test_workspaces_and_runs_are_not_detected_as_sources(tmp_path):
    made = LAYOUTS["parlaspeech"](tmp_path)
    nbaudio.ingest("parlaspeech", made.source, audio=made.audio, out=tmp_path / "W", jobs=1)
    assert detect_source(tmp_path).layout.source == made.source
    manifest_of_data(tmp_path, tmp_path / "R", {})
    assert detect_source(tmp_path, skip=[tmp_path / "R"]).describe_unread() is None


def test_settings_that_do_not_exist_leave_no_manifest(tmp_path):
    LAYOUTS["parlaspeech"](tmp_path / "mine")
    with pytest.raises(InputError, match=r"audio: .*there is no such audio folder"):
        manifest_of_data(tmp_path / "mine", tmp_path / "R", {"audio": str(tmp_path / "nowhere")})
    assert not (tmp_path / "R").exists()


def test_manifest_txt_may_name_a_folder_of_data(tmp_path, capsys):
    LAYOUTS["kaldi"](tmp_path / "mine")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/manifest.txt").write_text("../mine\n")
    values = load_manifest(tmp_path / "notebooks/manifest.txt")
    assert values["format"] == "kaldi"
    assert values["workspace"] == str(tmp_path / "mine-output/workspace")
    assert values["corpus"] == str(tmp_path / "mine-output/corpus")
    assert "read as format kaldi" in capsys.readouterr().out
    assert load_manifest(tmp_path / "notebooks/manifest.txt") == values
    assert "used as it is" in capsys.readouterr().out


def test_paths_with_blanks_and_links_resolve(tmp_path):
    LAYOUTS["parlaspeech"](tmp_path / "moja građa")
    (tmp_path / "disk/out").mkdir(parents=True)
    (tmp_path / "R").symlink_to(tmp_path / "disk/out")
    values, workspace = ingest_assumed(tmp_path / "moja građa", tmp_path / "R")
    assert Path(values["source"]).is_file()
    assert len(workspace.segments.drop_nulls("end_sample")) == 2


CONTENTS = (
    b"",
    b"\n\n",
    b"\xff\xfe\x00d",
    b"\x00" * 300,
    b"PK\x03\x04broken",
    b"PAR1",
    b'{"file": 1, "start": null, "words": {}, "audio_filepath": ["a"], "text": 2}\n',
    b'{"id": 1, "sources": [], "supervisions": 3, "recording": {"sources": {}}}\n',
    b'{"id": 1, "recording_id": 2, "start": 3, "duration": 4}\n',
    b'["a"]\n[1, 2]\n"x"\nnull\n',
    b"file,text\n",
    b"file;text;text\na;b\n",
    b'"file,text\n',
    b"client_id\tpath\tsentence\n",
    b"r1\n\nr2 touch x |\n",
    b"WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nda\n",
    b'"ooTextFile"\n"TextGrid"\n0\n3\n<exists>\n1\n"IntervalTier"\n"wo""rds"\n',
    "čšž".encode("utf-16"),
)
NAMES = (
    *("a.json", "a.jsonl", "a.csv", "a.tsv", "a.xlsx", "a.ods", "a.parquet", "a.arrow", "a.srt"),
    *("a.hr.vtt", "a.TextGrid", "a.ctm", "a.txt", "a.docx", "a.tar", "a.tar.gz", "a.trans.txt"),
    *("recordings.jsonl.gz", "supervisions.jsonl", "cuts_train.jsonl", "wav.scp", "text"),
    *("segments", "train.tsv", "state.json", "dataset_dict.json", "SPEAKERS.TXT", "a.wav"),
)


@pytest.mark.parametrize("content", CONTENTS)
def test_files_of_any_content_are_detected_or_refused_in_one_line(content, tmp_path):
    names = [name for name in NAMES if name != "a.wav" or content]
    for number, name in enumerate(names):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (folder / name).write_bytes(content)
        if number % 2:
            (folder / "a.flac").touch()
    for source in (*(tmp_path / f"{number}" for number in range(len(names))), tmp_path):
        try:
            shown = detect_source(source).layout.format
        except InputError as error:
            shown = str(error)
        assert "\n" not in shown
        assert shown in {*READERS, "align"} or shown.startswith(str(source))
