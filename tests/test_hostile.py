"""Hostile input through every reader, container, export, sheet, page and widget: text stays text,
in its folder."""

import ast
import csv
import gzip
import io
import json
import os
import re
import sys
import tarfile
import unicodedata
import zipfile
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import openpyxl
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hostile import BOMBS, MANIFESTS, NAMES, PWNED, REFUSED, TEXTS, table_span, tar_of, zip_of
from papermill.translators import PythonTranslator
from specimens import SOURCES, put, tone

import nbaudio
from nbaudio import review
from nbaudio.audio import open_recording, resample_window
from nbaudio.core import input_guards
from nbaudio.core.atomic import read_json, sha256_file, write_json
from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.core.hashing import RESERVED_DEVICE_NAMES
from nbaudio.core.report import Report
from nbaudio.corpus.card import card
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.formats.export import WRITERS, export
from nbaudio.formats.workbooks import open_workbook
from nbaudio.review.sheet_reader import read_sheet
from nbaudio.runs.parameters import parameters, parse_settings
from nbaudio.sources.source_formats import READERS
from nbaudio.storage.folders import folder_at
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import widgets

# What runs something, or reads what may run something.
_RUNS = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.startfile",
    "pty.spawn",
    "pickle.find_class",
)
_OPENS = (
    "open",
    "os.scandir",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.link",
    "os.symlink",
)


class Watch:
    """What this process opens and runs while `on`; audit hooks stay for good, so there is one."""

    def __init__(self):
        self.on, self.opened, self.ran = False, [], []
        sys.addaudithook(self._note)

    def _note(self, event, arguments):
        if self.on and event in _OPENS:
            self.opened += [
                str(each)
                for each in arguments[: 2 if event in ("os.rename", "os.link") else 1]
                if isinstance(each, str)
            ]
        elif self.on and event in _RUNS:
            self.ran.append((event, *map(str, arguments)))


WATCH = Watch()


@contextmanager
def kept_inside(place, *roots):
    """Nothing is run meanwhile, and nothing of `place` is opened but what is in these folders or is
    one of these files."""
    WATCH.opened, WATCH.ran, WATCH.on = [], [], True
    try:
        yield
    finally:
        WATCH.on = False
    assert WATCH.ran == []
    touched = {
        Path(path).resolve()
        for path in WATCH.opened
        if PWNED in path or Path(path).is_relative_to(place)
    }
    assert [
        path for path in touched if not any(path.is_relative_to(root.resolve()) for root in roots)
    ] == []


# One text is nothing but blanks, and out for that.
SAID = [text for text in TEXTS if text != "\u2028"]

every_format = pytest.mark.parametrize("format", sorted(READERS))


def one_line(text):
    """What formats of lines hold of a text; None where it would be several."""
    return None if "\n" in text else text.rstrip("\r")


def collapsed(text):
    """A cue without its tags and marks of direction, which `text_raw` keeps."""
    if {"\n", "\r", "<", "{"} & set(text):
        return None
    visible = re.sub("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", "", text)
    return " ".join(visible.split()) or None


# Subtitles have character references, and tags that a converter escaped.
RESOLVED = {"&amp;": "&", "&lt;b&gt; &amp;": "&"}
# What a format holds of a text; all others hold all of it.
HELD = {
    "kaldi": lambda text: None if one_line(text) is None else one_line(text).strip(" \t"),
    "librispeech": lambda text: None if one_line(text) is None else one_line(text).lstrip(" \t"),
    "commonvoice": lambda text: None if "\t" in text else one_line(text),
    "subtitles": lambda text: RESOLVED.get(text, collapsed(text)),
    "textgrid": lambda text: text.replace("\r\n", "\n").replace("\r", "\n"),
    "folder": lambda text: None,
}


@pytest.fixture
def place(tmp_path):
    """A folder with recordings all around it, which nobody may open: below `inside` are audio,
    source and workspace."""
    inside = tmp_path / "a/b/inside"
    for folder in (tmp_path, tmp_path / "a", tmp_path / "a/b", inside):
        tone(folder / f"{PWNED}.wav", 0.1)
    tone(inside / "audio/a.wav", 2)
    return inside


def test_every_reader_has_a_hostile_source():
    assert set(SOURCES) == set(READERS)


@every_format
def test_names_that_point_outside_the_audio_folder_are_not_used(place, format):
    source = SOURCES[format](place / "source", [(f"{name}.wav", "da") for name in NAMES])
    with kept_inside(place.parents[2], place / "source", place / "audio", place / "W"):
        nbaudio.ingest(format, source, audio=place / "audio", out=place / "W", jobs=1)
    workspace = Workspace.open(place / "W")
    found = workspace.recordings["path"].drop_nulls().to_list()
    assert set(found) <= {"a.wav"}
    told = (
        workspace.table("problems")
        .filter(pl.col("reason").str.contains("no such recording|could mean"))["item"]
        .to_list()
    )
    assert set(told) == set(workspace.table("names").filter(pl.col("path").is_null())["name"])
    ids = workspace.segments["segment_id"]
    assert ids.is_unique().all()
    assert not ids.is_in(["", None]).any()


@every_format
def test_every_reader_keeps_or_reports_hostile_texts(place, format):
    source = SOURCES[format](place / "source", [("a.wav", text) for text in TEXTS])
    with kept_inside(place.parents[2], place / "source", place / "audio", place / "W"):
        report = nbaudio.ingest(format, source, audio=place / "audio", out=place / "W", jobs=1)
    segments = Workspace.open(place / "W").segments
    held = {HELD.get(format, str)(text) for text in TEXTS} - {None}
    wanted = {
        unicodedata.normalize("NFC", text)
        for text in held
        if text.strip() or format not in ("textgrid",)
    }
    assert wanted - set(segments["text"]) == set()
    lost = len(TEXTS) - len(segments) - len(Workspace.open(place / "W").table("problems"))
    assert lost <= 0 or format == "folder", report


@every_format
def test_zip_members_that_point_outside_are_not_extracted(place, format):
    """A source in a zip, among members that would lie elsewhere, and links."""
    source = SOURCES[format](place / "source", [("a.wav", "da"), ("b.wav", "ne")])
    root = source if source.is_dir() else source.parent
    held = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    harm = {
        f"{name}{ending}": b"x"
        for name in NAMES
        for ending in (".wav", source.suffix)
        if "\0" not in name
    }
    zip_of(place / "s.zip", harm | held)
    address = f"zip://{'' if source.is_dir() else source.name}::{place / 's.zip'}"
    with kept_inside(place.parents[2], place / "s.zip", place / "audio", place / "W"):
        nbaudio.ingest(format, address, audio=place / "audio", out=place / "W", jobs=1)
    # Names of their own
    assert "a.wav" in Workspace.open(place / "W").recordings["path"].to_list() or format in (
        "librispeech",
        "folder",
        "hf",
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["s.tar", "s.gz"])
@pytest.mark.parametrize("elsewhere", [f"../{PWNED}.wav", f"/{PWNED}.wav"])
def test_tar_members_links_and_devices_write_nothing_outside(place, name, elsewhere):
    data = (place / "audio/a.wav").read_bytes()
    harm = {f"{each}.wav": data for each in NAMES if "\0" not in each}
    archive = tar_of(place / name, {"a.wav": data} | harm, links=elsewhere).rename(
        place / name.replace(".gz", ".tar.gz")
    )
    with kept_inside(place.parents[2], archive, place / "W", place / "V"):
        report = nbaudio.ingest("folder", f"tar://::{archive}", out=place / "W", jobs=1)
        with pytest.raises(InputError, match="no usable item"):
            nbaudio.ingest("librispeech", archive, out=place / "V")
    found = (
        Workspace.open(place / "W")
        .recordings.filter(pl.col("num_samples").is_not_null())["path"]
        .to_list()
    )
    assert "a.wav" in found
    assert not [
        path
        for path in found
        if path.startswith(("/", "symlink", "hardlink", "fifo", "device"))
        or ".." in path.split("/")
    ]
    assert [line for line in report.problems if "points outside the audio folder" in line]


# links


LINKED = {  # by format: a file of its source that a link takes the place of
    "nemo": "train.json",
    "lhotse": "supervisions.jsonl",
    "kaldi": "text",
    "commonvoice": "train.tsv",
    "librispeech": "LibriSpeech",
    "hf": "a.parquet",
    "subtitles": "a.srt",
    "textgrid": "a.TextGrid",
}


@pytest.mark.parametrize("format", sorted(LINKED))
def test_links_out_of_a_source_are_not_followed(place, format):
    SOURCES[format](place / "source", [("a.wav", "da")])
    source = place / "source"
    held, elsewhere = source / LINKED[format], place.parent / PWNED
    if format == "librispeech":
        (source / "dev").rename(elsewhere)
    else:
        held.rename(elsewhere)
    held.symlink_to(elsewhere)
    with pytest.raises(InputError, match=r"a link that points outside (its|the audio) folder"):
        nbaudio.ingest(format, source, audio=place / "audio", out=place / "W")


PIPES = {
    "nemo": "dev.json",
    "hf": "b.parquet",
    "librispeech": "dev/1/3/1-3.trans.txt",
    "subtitles": "b.srt",
}


@pytest.mark.parametrize(("format", "name"), PIPES.items())
def test_ingest_reports_a_named_pipe_without_waiting(place, format, name):
    SOURCES[format](place / "source", [("a.wav", "da")])
    pipe = place / "source" / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    try:
        told = nbaudio.ingest(
            format, place / "source", audio=place / "audio", out=place / "W"
        ).problems
    except InputError as error:
        told = [str(error)]
    # The format of subtitles takes files alone.
    assert format == "subtitles" or [line for line in told if "a pipe" in line]


def test_a_linked_audio_folder_is_used_only_if_given_with_audio(place):
    source = SOURCES["commonvoice"](place / "source", [("a.wav", "da")])
    (source / "clips").symlink_to(place / "audio")
    report = nbaudio.ingest("commonvoice", source, out=place / "W")
    assert report.facts["recordings_with_audio"] == 0
    assert [
        line for line in report.problems if "clips as a whole: a link that points outside" in line
    ]
    assert (
        nbaudio.ingest("commonvoice", source, audio=place / "audio", out=place / "W").facts[
            "recordings_with_audio"
        ]
        == 1
    )


def test_a_snapshot_of_hugging_faces_cache_is_read(place):
    """Its files are links to blobs beside it."""
    source = SOURCES["hf"](place / "hub/snapshots/1f", [("a.wav", "da")])
    (place / "hub/blobs").mkdir()
    (source / "a.parquet").rename(place / "hub/blobs/0a")
    (source / "a.parquet").symlink_to("../../blobs/0a")
    assert nbaudio.ingest("hf", source, out=place / "W").facts["segments"] == 1


@pytest.mark.parametrize("format", ["nemo", "lhotse", "kaldi", "table"])
def test_a_manifest_may_name_recordings_in_any_folder(place, format):
    """Whoever writes the list chooses its recordings; they are looked at as audio, and nothing
    else."""
    (place.parent / "secret.txt").write_text(PWNED)
    source = SOURCES[format](
        place / "source",
        [(str(place.parent / f"{PWNED}.wav"), "da"), (str(place.parent / "secret.txt"), "ne")],
    )
    nbaudio.ingest(format, source, out=place / "W")
    assert Workspace.open(place / "W").recordings["path"].drop_nulls().to_list() == [f"{PWNED}.wav"]


# writers


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A workspace whose recordings, ids, speakers and texts all mean harm, and its corpus."""
    folder = tmp_path_factory.mktemp("full")
    data = tone(folder / "a.wav", 1).read_bytes()
    for name in NAMES:
        put(folder / "audio", f"{name}.wav".encode(), data)
    names = sorted(
        path.relative_to(folder / "audio").as_posix() for path in (folder / "audio").rglob("*.wav")
    )
    visible = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
    rows = {
        "name": [visible[i % len(visible)] for i in range(len(SAID))],
        "start": [str(i // len(visible) / 10) for i in range(len(SAID))],
        "duration": ["0.1"] * len(SAID),
        "segment_id": [(*NAMES, *SAID)[i] for i in range(len(SAID))],
        "speaker_id": [SAID[-i] for i in range(len(SAID))],
        "asr_text": [text[::-1] for text in SAID],
    }
    pq.write_table(pa.table(rows | {"text": SAID}), folder / "table.parquet")
    assert (
        nbaudio.ingest(
            "table", folder / "table.parquet", audio=folder / "audio", out=folder / "W", jobs=1
        ).facts["rejected"]
        == {}
    )
    nbaudio.score(folder / "W")
    nbaudio.select(folder / "W", dev=5, test=5, group_by="", min_similarity=-1)
    nbaudio.materialize(
        folder / "W",
        out=folder / "C",
        encoding="mulaw",
        jobs=1,
        engine="threading",
        show_progress=False,
    )
    return Workspace.open(folder / "W")


def accepted_texts(workspace):
    """Id and text of all that is accepted."""
    return dict(
        workspace.segments.filter(pl.col("decision") == "accept")
        .select("segment_id", "text")
        .iter_rows()
    )


def test_hostile_file_names_are_stored_as_names(full):
    assert len(accepted_texts(full)) == len(SAID)
    assert full.segments["text"].to_list() == [unicodedata.normalize("NFC", text) for text in SAID]
    assert full.recordings["num_samples"].to_list() == [8000] * len(full.recordings)


def members(path):
    """Names in an archive."""
    if path.suffix == ".tar":
        with tarfile.open(path) as archive:
            return archive.getnames()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    return []


def stored(corpus, container):
    """All text in the files of a container, as far as no library of the field's is needed."""
    files = [path for path in sorted(corpus.rglob("*")) if path.is_file() and path.parent != corpus]
    if container == "parquet":
        return [
            text
            for path in files
            for text in pq.read_table(path, columns=["text"])["text"].to_pylist()
        ]
    if container == "files":
        tables = [path.read_bytes().decode() for path in files if path.name == "metadata.csv"]
        return [
            row["text"]
            for table in tables
            for row in csv.DictReader(io.StringIO(table, newline=""))
        ]
    held = b"".join(
        gzip.decompress(data) if path.suffix == ".gz" else data
        for path in files
        for data in [path.read_bytes()]
    )
    forms = {text: unicodedata.normalize("NFC", text) for text in SAID}
    return [
        text
        for text, form in forms.items()
        if any(each.encode() in held for each in (json.dumps(form, ensure_ascii=False), form))
    ]


@pytest.mark.parametrize("container", list(CONTAINERS))
def test_containers_hold_ids_and_texts_as_they_are(full, tmp_path, container):
    with kept_inside(full.path.parent, full.path.parent / "C", tmp_path / "C"):
        nbaudio.convert(
            full.path.parent / "C",
            container=container,
            out=tmp_path / "C",
            engine="threading",
            jobs=1,
            show_progress=False,
        )
    corpus = nbaudio.open_corpus(tmp_path / "C")
    assert dict(corpus.segments.select("segment_id", "text").iter_rows()) == accepted_texts(full)
    assert {
        unicodedata.normalize("NFC", text) for text in stored(tmp_path / "C", container)
    } == set(accepted_texts(full).values())
    for path in tmp_path.rglob("*"):
        assert path.name.isascii()
        assert len(path.name) < 200
        assert not [
            name
            for name in (path.name, *members(path))
            if RESERVED_DEVICE_NAMES.fullmatch(name.rpartition("/")[2])
        ]
        assert not [
            name
            for name in members(path)
            if ".." in name.split("/") or name.startswith("/") or not name.isascii() or "\\" in name
        ]


@pytest.mark.parametrize("format", sorted(WRITERS))
def test_exported_hostile_texts_are_ingested_unchanged(full, tmp_path, format):
    with kept_inside(full.path.parent, full.path, full.path.parent / "audio"):
        report = export(full, format, out=tmp_path / "out")
    texts = {}
    for split in report.facts["splits"]:
        source = (
            tmp_path
            / "out"
            / (f"{split}.jsonl" if format == "nemo" else split if format == "kaldi" else "")
        )
        nbaudio.ingest(format, source, audio=full.path.parent / "audio", out=tmp_path / split)
        texts |= dict(
            Workspace.open(tmp_path / split).segments.select("segment_id", "text").iter_rows()
        )
    left_out = {line.partition(":")[0] for line in report.problems}
    rows = full.segments.filter(~pl.col("recording_id").is_in(list(left_out)))
    wanted = rows["text"].to_list()
    if format == "kaldi":
        assert [line for line in report.warnings if "which Kaldi's lines cannot hold" in line]
        assert sorted(texts.values()) == sorted(" ".join(text.split()) for text in wanted)
    else:
        assert texts == dict(zip(rows["segment_id"], wanted, strict=True))


def test_review_sheets_store_hostile_texts_as_strings(full, tmp_path):
    workspace = Workspace.create(tmp_path / "W", audio=None)
    workspace.save(
        segments=full.segments.with_columns(start_sample=None, end_sample=None),
        recordings=full.recordings,
    )
    for ending in ("xlsx", "csv", "tsv"):
        review.export(workspace, out=tmp_path / f"s.{ending}", n=len(SAID))
    book = openpyxl.load_workbook(tmp_path / "s.xlsx")
    assert {
        cell.data_type
        for row in book["review"].iter_rows()
        for cell in row
        if cell.value is not None
    } <= {"s", "n"}
    assert not [cell for row in book["review"].iter_rows() for cell in row if cell.hyperlink]
    for ending, delimiter in (("csv", ","), ("tsv", "\t")):
        data = io.StringIO((tmp_path / f"s.{ending}").read_bytes().decode("utf-8-sig"), newline="")
        cells = [cell for row in csv.reader(data, delimiter=delimiter) for cell in row]
        assert not [cell for cell in cells if re.match(r"[=+@\t\r]|-(?![\d.]+$)", cell)]
    for number in range(2, len(SAID) + 2):
        book["review"].cell(number, 2).value = "ok"
    book.save(tmp_path / "back.xlsx")
    with kept_inside(tmp_path, workspace.path, tmp_path / "back.xlsx"):
        report = review.import_(workspace, tmp_path / "back.xlsx")
    assert report.facts["new"] == len(SAID), report


class Page(HTMLParser):
    """Tags and attributes of some HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes = set(), []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def check_harmless(self, *allowed):
        assert (
            not {"script", "iframe", "object", "embed", "form", "link", "base", "b", "i"}
            - set(allowed)
            & self.tags
        )
        assert not [name for name, _ in self.attributes if name.startswith("on")]
        addresses = [
            value
            for name, value in self.attributes
            if name in ("src", "href", "action", "formaction", "srcdoc", "data")
        ]
        assert all(value.startswith(("data:audio/", "data:image/png;", "#")) for value in addresses)


@pytest.mark.slow
def test_html_pages_show_hostile_texts_without_running_them(full, tmp_path):
    nbaudio.stats(full.path, out=tmp_path / "p.html")
    Page((tmp_path / "p.html").read_text(encoding="utf8")).check_harmless()
    nbaudio.stats(full.path.parent / "C", out=tmp_path / "c.html")
    Page((tmp_path / "c.html").read_text(encoding="utf8")).check_harmless()


def test_the_data_card_escapes_hostile_texts(full):
    manifest = read_json(full.path.parent / "C/corpus.json")
    for text in SAID:
        manifest |= {
            "about": {"title": text, "licence": text},
            "selection": {"parameters": {text: text}},
        }
        written = card(manifest, transcribed=True)
        header, _, body = written.removeprefix("---\n").partition("\n---\n\n")
        assert yaml.safe_load(header)["pretty_name"] == text if text else True
        assert "<" not in body.replace("<K", "")
        assert "](" not in body.replace("\\](", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", widgets.__all__)
def test_widgets_show_hostile_texts_without_running_them(full, name):
    corpus, ids = full.path.parent / "C", full.segments["segment_id"].to_list()
    make = {
        "Clips": lambda: widgets.Player(full, ids).clips,
        "Table": lambda: widgets.table(full.segments),
        "table": lambda: widgets.table(full.segments),
        "corpus_player": lambda: widgets.corpus_player(corpus, limit=12),
        "Player": lambda: widgets.Player(full, ids),
        "TranscriptDiff": lambda: widgets.TranscriptDiff(full, ids),
        "ReviewPanel": lambda: widgets.ReviewPanel(full, reviewer="ana"),
        "SegmentTable": lambda: widgets.SegmentTable(full),
        "Explorer": lambda: widgets.Explorer(full),
        "ThresholdTuner": lambda: widgets.ThresholdTuner(full, 0.5),
        "Vocabulary": lambda: widgets.Vocabulary(full),
    }[name]
    made = make()
    Page(
        made.static_html() if hasattr(made, "static_html") else made._repr_html_()
    ).check_harmless()


# a stranger's corpus


@pytest.mark.parametrize("shard", ["../../PWNED", "/PWNED", "train/../../PWNED", "a\0b"])
@pytest.mark.parametrize("split", ["train", "../../PWNED"])
def test_a_corpus_whose_shards_point_outside_is_refused(full, tmp_path, shard, split):
    corpus = tmp_path / "C"
    corpus.mkdir()
    (tmp_path / PWNED).write_bytes(b"x" * 1000)
    clips = nbaudio.open_corpus(full.path.parent / "C").segments.with_columns(
        shard=pl.lit(shard), split=pl.lit(split), offset=0
    )
    clips.write_parquet(corpus / "segments.parquet")
    for name in ("rejected.parquet", "vocab.json"):
        (corpus / name).write_bytes((full.path.parent / "C" / name).read_bytes())
    manifest = read_json(full.path.parent / "C/corpus.json")
    manifest["tables"] = {
        name: sha256_file(corpus / name)
        for name in ("segments.parquet", "rejected.parquet", "vocab.json")
    }
    manifest["shards"] = [each | {"name": shard} for each in manifest["shards"]]
    write_json(corpus / "corpus.json", manifest)
    with kept_inside(tmp_path, corpus, tmp_path / "out"):
        with pytest.raises(NbaudioError):
            nbaudio.convert(
                corpus,
                container="files",
                out=tmp_path / "out",
                engine="threading",
                jobs=1,
                show_progress=False,
            )
        with pytest.raises(NbaudioError):
            nbaudio.open_corpus(corpus).read(clips["segment_id"][0])
        assert nbaudio.verify(corpus, jobs=1, engine="threading", show_progress=False).problems


@pytest.mark.parametrize(
    "key",
    ["parameters", "shards", "splits", "tables", "identity", "selection", "leakage", "rejected"],
)
@pytest.mark.parametrize("value", [None, 1, "x", [1]])
def test_a_corpus_without_corpus_json_is_refused(full, tmp_path, key, value):
    corpus = tmp_path / "C"
    corpus.mkdir()
    for name in ("segments.parquet", "rejected.parquet", "vocab.json"):
        (corpus / name).symlink_to(full.path.parent / "C" / name)
    write_json(corpus / "corpus.json", read_json(full.path.parent / "C/corpus.json") | {key: value})
    for use in (
        nbaudio.verify,
        nbaudio.open_corpus,
        lambda where: nbaudio.convert(where, container="zip", out=tmp_path / "out"),
    ):
        with pytest.raises(InputError, match=r"corpus\.json: "):
            use(corpus)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a\0", ""])
def test_a_corpus_folder_refuses_names_that_point_outside(tmp_path, name):
    folder = folder_at(tmp_path / "folder")
    for use in (
        folder.exists,
        folder.remove,
        folder.new,
        lambda name: folder.holds(name, ""),
        lambda name: folder.read(name, 0, 1),
    ):
        with pytest.raises(InputError, match="points outside the folder"):
            use(name)


# manifests, terminals, pickles


@pytest.mark.parametrize("kind", sorted(MANIFESTS))
def test_a_yaml_manifest_with_tags_or_aliases_is_refused(tmp_path, kind):
    path = tmp_path / "m.yaml"
    path.write_bytes(MANIFESTS[kind].encode("utf8", "surrogateescape"))
    with kept_inside(tmp_path, path), pytest.raises(InputError, match=r"m\.yaml") as raised:
        parameters(path, {})
    assert len(str(raised.value)) < 1000
    name, _, value = MANIFESTS[kind].strip().rpartition("\n")[2].partition(":")
    if kind not in ("NUL", "bytes that are no UTF-8", "a merge", "a billion laughs"):
        with pytest.raises(InputError):
            parse_settings([f"{name}={value}"])


def test_hostile_manifest_values_stay_literals_in_notebooks():
    for text in TEXTS:
        source = PythonTranslator.codify({"title": text, "normalise": [text]})
        titles, steps = ast.parse(source).body
        assert (ast.literal_eval(titles.value), ast.literal_eval(steps.value)) == (text, [text])


def test_reports_print_no_control_characters():
    told = str(Report(TEXTS[0], {text: text for text in SAID}, SAID, SAID))
    assert all(line.isprintable() for line in told.split("\n"))
    assert len(told.split("\n")) == 1 + 3 * len(SAID) - (len(SAID) - len(set(SAID)))


def test_only_the_engine_and_recognizers_run_code_from_outside():
    """But for the engine, which hands its own tasks to workers, the process that forks kernels, and
    the command of a recognizer, which the caller names."""
    modules, names = (
        {"pickle", "marshal", "shelve", "subprocess"},
        {"eval", "exec", "compile", "__import__"},
    )
    attributes = {"system", "popen", "unsafe_load", "full_load", "read_pickle"}
    found = set()
    for path in Path(nbaudio.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            match node:
                case ast.Import(names=aliases) if modules & {alias.name for alias in aliases}:
                    found.add((path.name, "import"))
                case ast.ImportFrom(module=module) if module in modules:
                    found.add((path.name, "import"))
                case ast.Name(id=name) if name in names:
                    found.add((path.name, name))
                case ast.Attribute(attr=name) if name in attributes:
                    found.add((path.name, name))
                case ast.keyword(arg="shell" | "allow_pickle", value=ast.Constant(value=True)):
                    found.add((path.name, node.arg))
    files = ("engine.py", "recognizers.py", "server_process.py")
    assert found == {(file, "import") for file in files}


# bombs: small ones, where limits are small; the large ones are in heavy/test_hostile.py


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_decompression_bomb_is_a_one_line_error(tmp_path, monkeypatch, bomb):
    for limit in ("MAX_TEXT_BYTES", "FREE_BYTES"):
        monkeypatch.setattr(input_guards, limit, 1 << 20)
    monkeypatch.setattr(input_guards, "MOST_TIMES", 2)
    (tmp_path / "source").mkdir()
    source = bomb(tmp_path / "source", 8 << 20)
    with pytest.raises(InputError, match=REFUSED) as raised:
        nbaudio.ingest(bomb.__name__.partition("_")[0], source, out=tmp_path / "W")
    assert "\n" not in str(raised.value)


def test_a_returned_sheet_that_is_a_bomb_is_refused(tmp_path):
    with pytest.raises(InputError, match="a bomb"):
        read_sheet(table_span(tmp_path, 0))


def read_rows(path):
    with open_workbook(path) as book:
        return [row for sheet in book.sheets.values() for row in sheet.rows()]


@pytest.mark.parametrize(
    ("rows", "bomb"),
    [
        ('<row r="1048576" customFormat="false"></row>', False),  # as LibreOffice ends a sheet
        ('<row r="9"><c r="L9"/></row>', False),
        ('<row r="999999999"></row>', True),
        ('<row r="1048576"><c r="XFD1048576"/></row>', True),
        ('</sheetData><mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells><sheetData>', True),
    ],
)
def test_a_sheet_that_spans_far_more_cells_than_it_has_is_refused(tmp_path, rows, bomb):
    book = openpyxl.Workbook()
    book.active.append(["name", "text"])
    book.save(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as old:
        members = {
            name: old.read(name).replace(b"</sheetData>", f"{rows}</sheetData>".encode())
            for name in old.namelist()
        }
    changed = zip_of(tmp_path / "b.xlsx", members)
    if bomb:
        with pytest.raises(InputError, match="a bomb"):
            read_rows(changed)
    else:
        read_rows(changed)


def test_a_clip_with_too_many_samples_is_refused(place, monkeypatch):
    monkeypatch.setattr("nbaudio.audio.recording_reader.MOST_SAMPLES", 1000)
    with open_recording(place / "audio/a.wav") as recording:
        assert len(resample_window(recording, 0, 1000, rate=None)) == 1000
        with pytest.raises(
            AudioError, match="samples 0 to 1001 are 0 minutes, too many for one clip"
        ):
            resample_window(recording, 0, 1001)
