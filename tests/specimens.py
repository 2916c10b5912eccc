"""Small sources of every layout that `ingest` reads, for all tests; a test whose point is one line
writes that line itself.

By format there are

- in `LAYOUTS`, a source with real audio, its troubles, and what ingest is to make of it;
- in `SOURCES`, a function that makes one from rows of names and texts;
- in `CALLS`, for formats that name channels, two speakers on two channels of one recording;
- from `one_segment`, a file with a single segment.
"""

import csv
import gzip
import json
import tarfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile as sf
from openpyxl import Workbook
from spreadsheets import write_table_ods

RATE = 8000
# Not in NFC; a formula, a tag and a path must stay what they are: text.
HOSTILE = "=1+1 <b>c\u030c</b> ../../x"
COMPOSED = "=1+1 <b>č</b> ../../x"

CALL, CALL_RATE = "call.wav", 16000


@dataclass(frozen=True)
class Made:
    """A source and what is in it.

    Attributes:
        source: to ingest.
        segments: by id: path of the recording below its root, first sample, end, text, speaker.
        problems: item and a part of the reason for everything that is of no use.
        audio: the folder of the recordings where the layout does not bring it.
        options: of the format.
        further: columns and values of the first segment.
        warnings: parts of the notes that the report must have.
    """

    source: Path
    segments: dict[str, tuple[str, int, int, str | None, str | None]]
    problems: list[tuple[str, str]]
    audio: Path | None = None
    options: dict[str, str] = field(default_factory=dict)
    further: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


Make = Callable[[Path], Made]
LAYOUTS: dict[str, Make] = {}
SOURCES: dict[str, Callable[[Path, list[tuple[str, str]]], Path]] = {}
CALLS: dict[str, Make] = {}


def layout(make: Make) -> Make:
    """Register a builder under the name of its format, or that and ``_`` and which of its forms it
    is."""
    LAYOUTS[make.__name__] = make
    return make


def from_rows(make):
    """Register a builder from rows of (name, text), called ``FORMAT_rows``, under its format."""
    SOURCES[make.__name__.removesuffix("_rows")] = make
    return make


def call_layout(make: Make) -> Make:
    """Register a builder of two speakers on two channels: segments `ana`, `ivo` and `both`, and
    others that are of no use."""
    CALLS[make.__name__] = make
    return make


def format_of(name: str) -> str:
    """The format that a layout is ingested as."""
    return name.partition("_")[0]


def tone(path: Path, seconds: float, *, rate: int = RATE, seed: int = 0, channels: int = 1) -> Path:
    """A recording of noise in the format of its extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    size = (int(seconds * rate), channels)[: 1 + (channels > 1)]
    sf.write(path, 0.1 * np.random.default_rng(seed).normal(size=size), rate)
    return path


def lines(path: Path, *rows: str) -> Path:
    """Write a text file of lines, with its folders; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf8")
    return path


def gzipped(path: Path, *rows: str) -> Path:
    """Write lines as a gzip file, with its folders; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode()))
    return path


def put(folder, name, data):
    """Write a file below a folder where the disk takes its name and it stays there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = Path(folder, name.decode("utf8"))
    fits = b"\0" not in name and max(map(len, name.split(b"/"))) < 256
    if fits and path.resolve().is_relative_to(folder.resolve()) and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def call(folder: Path, channels: int = 2) -> Path:
    """A recording of 3 s of noise, other noise on each channel."""
    folder.mkdir(parents=True, exist_ok=True)
    sf.write(
        folder / CALL,
        0.1 * np.random.default_rng(5).normal(size=(3 * CALL_RATE, channels)),
        CALL_RATE,
    )
    return folder / CALL


# parlaspeech


@layout
def parlaspeech(folder: Path) -> Made:
    """Transcripts of ParlaSpeech with a missing recording and a broken line."""
    tone(folder / "audio/a.wav", 3)
    lines(
        folder / "asr.json",
        f'{{"file": "a.wav", "start": 0.5, "end": 1.5, "words": ["{HOSTILE}"], "speaker": "s1"}}',
        '{"file": "a.wav", "start": 2, "end": 3, "words": ["dobar", "dan"]}',
        '{"file": "gone.wav", "start": 0, "end": 1, "words": ["da"]}',
        "{",
    )
    segments = {
        "a_0.5-1.5": ("a.wav", 4000, 12000, COMPOSED, "s1"),
        "a_2-3": ("a.wav", 16000, 24000, "dobar dan", None),
    }
    problems = [("line 4", "not JSON"), ("gone.wav", "no such recording")]
    return Made(folder / "asr.json", segments, problems, audio=folder / "audio")


@from_rows
def parlaspeech_rows(folder, rows):
    """Transcripts of ParlaSpeech with a segment for each row of name and text."""
    return lines(
        folder / "asr.json",
        *(
            json.dumps({"file": name, "start": n, "end": n + 0.5, "words": text})
            for n, (name, text) in enumerate(rows)
        ),
    )


# nemo


@layout
def nemo(folder: Path) -> Made:
    """A NeMo manifest beside its clips."""
    source = folder / "manifests"
    tone(source / "clips/one two.wav", 3)
    tone(source / "clips/b.flac", 2)
    row = (
        '{"audio_filepath": "%s", "offset": %s, "duration": %s, "text": "%s", "speaker": '
        '"%s", "segment_id": "%s"}'
    )
    lines(
        source / "train.jsonl",
        row % ("clips/one two.wav", "0.50", "1.0", HOSTILE, "s1", "u1"),
        row % ("clips/one two.wav", "1.1", "0.2", "0.1 i 0.2", "s1", "u2"),
        '{"audio_filepath": "clips/b.flac", "offset": 0.5, "text": "da"}',
        '{"offset": 0, "duration": 1, "text": "da"}',
        "{",
    )
    lines(
        source / "dev.json",
        '{"audio_filepath": "clips/b.flac", "duration": 1.25, "text": "do 1.25", "lang": "hr"}',
        (
            '{"audio_filepath": "clips/b.flac", "offset": null, "duration": null, "text": '
            '"sve", "speaker": 7}'
        ),
        '{"audio_filepath": "clips/gone.flac", "duration": 1, "text": "ne"}',
        '{"audio_filepath": "clips/b.flac", "offset": 1, "duration": 0.5}',
    )
    segments = {
        "u1": ("one two.wav", 4000, 12000, COMPOSED, "s1"),
        "u2": ("one two.wav", 8800, 10400, "0.1 i 0.2", "s1"),
        "clips/b_0-1.25": ("b.flac", 0, 10000, "do 1.25", None),
        "clips/b": ("b.flac", 0, 16000, "sve", "7"),
    }
    problems = [
        ("line 3", "duration is missing"),
        ("line 4", "audio_filepath is missing"),
        ("line 5", "not JSON"),
        ("clips/gone.flac", "no such recording"),
        ("clips/b_1-1.5", "empty_text"),
    ]
    return Made(
        source,
        segments,
        problems,
        further={"source_split": "train", "source_start": "0.50", "source_end": "1.50"},
    )


@from_rows
def nemo_rows(folder, rows):
    """A NeMo manifest with a segment for each row of name and text."""
    return lines(
        folder / "train.json",
        *(
            json.dumps({"audio_filepath": name, "offset": n, "duration": 0.5, "text": text})
            for n, (name, text) in enumerate(rows)
        ),
    )


# lhotse


@layout
def lhotse(folder: Path) -> Made:
    """Lhotse manifests of recordings and supervisions."""
    source = folder / "manifests"
    tone(folder / "clips/one two.wav", 3)
    tone(folder / "clips/b.flac", 2)
    file = (
        '{"id": "%s", "sources": [{"type": "%s", "channels": [0], "source": "%s"}], '
        '"sampling_rate": 8000}'
    )
    rows = [
        file % ("r1", "file", "../clips/one two.wav"),
        file % ("r2", "command", "touch PWNED; cat ../clips/b.flac"),
        file % ("r3", "url", "file:///b.flac"),
        '{"id": "r4", "sources": []}',
        file.replace("8000}", '8000, "transforms": [{"name": "Speed"}]}')
        % ("r5", "file", "../clips/b.flac"),
    ]
    gzipped(source / "x_recordings_train.jsonl.gz", *rows)
    row = (
        '{"id": "%s", "recording_id": "%s", "start": %s, "duration": %s, "channel": 0, '
        '"text": "%s"%s}'
    )
    more = (
        ', "speaker": "s1", "language": "hr", "gender": "F", "custom": {"snr": 20.50, "tags": '
        '["a"]}'
    )
    gzipped(
        source / "x_supervisions_train.jsonl.gz",
        row % ("u1", "r1", "0.50", "1.0", HOSTILE, more),
        row % ("u2", "r1", "1.1", "0.2", "0.1 i 0.2", ""),
        row % ("u3", "r2", "0", "1", "da", ""),
        row % ("u4", "r9", "0", "1", "da", ""),
        row % ("u5", "r1", '"0"', "1", "da", ""),
        "{",
    )
    cut = (
        '{"id": "%s", "start": %s, "duration": 1, "channel": 0, "type": "%s", "supervisions": '
        '[%s], "recording": %s}'
    )
    recording = file % ("r6", "file", "../clips/b.flac")
    two = (
        f"{row % ('u6', 'r6', '0', '0.5', 'u6', '')}, {row % ('u7', 'r6', '0.70', '0.5', 'u7', '')}"
    )
    lines(
        source / "x_cuts_dev.jsonl",
        cut % ("c1", "0.25", "MonoCut", two, recording),
        cut % ("c2", "0", "MonoCut", "", recording),
        '{"id": "c3", "type": "MixedCut", "tracks": []}',
    )
    segments = {
        "u1": ("one two.wav", 4000, 12000, COMPOSED, "s1"),
        "u2": ("one two.wav", 8800, 10400, "0.1 i 0.2", None),
        "u6": ("b.flac", 2000, 6000, "u6", None),
        "u7": ("b.flac", 7600, 11600, "u7", None),
    }
    problems = [
        ("line 2", "'r2' is a command; commands are not executed"),
        ("line 3", "'url'"),
        ("line 4", "'r4' has 0 files"),
        ("line 5", "'r5' is transformed"),
        ("line 3", "'r2' is a command; commands are not executed"),
        ("line 4", "'r9' is not among the recordings"),
        ("line 5", "start: expected a number"),
        ("line 6", "Input data was truncated"),
        ("line 2", "'c2' has no supervision"),
        ("line 3", "'c3' is a MixedCut"),
    ]
    custom = '{"snr":20.50,"tags":["a"]}'
    further = {"source_split": "train", "language": "hr", "speaker_gender": "F", "custom": custom}
    return Made(source, segments, problems, further=further)


@from_rows
def lhotse_rows(folder, rows):
    """Lhotse manifests with a segment for each row of name and text."""
    recordings = [
        json.dumps({"id": f"r{n}", "sources": [{"type": "file", "channels": [0], "source": name}]})
        for n, (name, _) in enumerate(rows)
    ]
    lines(folder / "recordings.jsonl", *recordings)
    supervisions = [
        json.dumps(
            {"id": f"u{n}", "recording_id": f"r{n}", "start": n, "duration": 0.5, "text": text}
        )
        for n, (_, text) in enumerate(rows)
    ]
    return lines(folder / "supervisions.jsonl", *supervisions).parent


@call_layout
def lhotse_call(folder: Path) -> Made:
    """Lhotse manifests of a call whose channels have numbers of their own."""
    call(folder)
    # Channels as the recording names them, not as they are counted.
    recording = {
        "id": "r",
        "sources": [{"type": "file", "channels": [4, 7], "source": CALL}],
        "sampling_rate": CALL_RATE,
    }
    lines(folder / "recordings.jsonl", json.dumps(recording))
    heard = {"ana": 4, "ivo": 7, "both": [4, 7], "twin": 7, "nobody": 1}
    common = {"recording_id": "r", "start": 0.5, "duration": 1.5, "text": "dobar dan"}
    lines(
        folder / "supervisions.jsonl",
        *(json.dumps({"id": key, "channel": each, **common}) for key, each in heard.items()),
    )
    return Made(
        folder,
        {},
        [("line 5", "the recording has no channel 1; it has 4, 7"), ("twin", "duplicate")],
    )


# kaldi


@layout
def kaldi(folder: Path) -> Made:
    """A Kaldi folder with `segments`, with a path of another machine and a command."""
    tone(folder / "audio/one two.wav", 3)
    tone(folder / "audio/b.flac", 2)
    data = folder / "data"
    lines(
        data / "wav.scp",
        "r1 /mnt/audio/one two.wav",
        "r2 audio/b.flac",
        "r3 touch PWNED; cat b.wav |",
        "r4",
    )
    lines(
        data / "segments",
        "u1 r1 0.5 1.5",
        "u2 r1 1.50 3.00 A",
        "u3 r2 0 1",
        "u4 r3 0 1",
        "u5 r1 0",
        "u6 r2 1 1.5",
    )
    lines(data / "text", f"u1 {HOSTILE}", "u2 dobar  dan", "u3 \u00a0evo", "u9 nigdje")
    lines(data / "utt2spk", "u1 s1", "u2 s1", "u3 s2")
    lines(data / "spk2gender", "s1 f")
    lines(data / "reco2dur", "r1 3.00", "r2 9.5")
    segments = {
        "u1": ("one two.wav", 4000, 12000, COMPOSED, "s1"),
        "u2": ("one two.wav", 12000, 24000, "dobar  dan", "s1"),
        "u3": ("b.flac", 0, 8000, "\u00a0evo", "s2"),
    }
    problems = [
        ("line 3", "'r3' is a command; commands are not executed"),
        ("line 4", "'r4' has no file name"),
        ("line 4", "'u4': no usable recording 'r3'"),
        ("line 5", "'u5': expected utterance, recording"),
        ("as a whole", "'u9' is not an utterance"),
        ("u6", "empty_text"),
    ]
    further = {"source_recording": "r1", "speaker_gender": "f", "source_duration": "3.00"}
    warnings = ["b.flac: lasts 2.0 s, the source says 9.5 s"]
    return Made(
        data, segments, problems, audio=folder / "audio", further=further, warnings=warnings
    )


@from_rows
def kaldi_rows(folder, rows):
    """A Kaldi folder with a segment for each row of name and text."""
    lines(folder / "wav.scp", *(f"r{n} {name}" for n, (name, _) in enumerate(rows)))
    lines(folder / "segments", *(f"u{n} r{n} {n} {n + 0.5}" for n in range(len(rows))))
    return lines(folder / "text", *(f"u{n} {text}" for n, (_, text) in enumerate(rows))).parent


@call_layout
def kaldi_call(folder: Path) -> Made:
    """A Kaldi folder of a call with the channel in the last field of `segments`."""
    call(folder)
    lines(folder / "wav.scp", f"r {CALL}")
    windows = (
        "ana r 0.5 2 A",
        "ivo r 0.5 2 1",
        "both r 0.5 2",
        "twin r 0.5 2 B",
        "nobody r 0.5 2 C",
        "gone r 0.5 2 2",
    )
    lines(folder / "segments", *windows)
    lines(
        folder / "text",
        *(
            f"{window.split()[0]} dobar dan"
            for window in windows
            if not window.startswith("nobody")
        ),
    )
    problems = [
        ("line 5", "channel 'C' is unknown"),
        ("twin", "duplicate"),
        ("gone", "unknown_channel"),
    ]
    return Made(folder, {}, problems)


@call_layout
def kaldi_sides(folder: Path) -> Made:
    """A Kaldi folder of a call with `reco2file_and_channel`."""
    call(folder)
    lines(folder / "wav.scp", f"r-A {CALL}", f"r-B {CALL}", f"r {CALL}")
    lines(
        folder / "reco2file_and_channel", "r-A call A", "r-B call B", "r call 7", "x call 2", "r-B"
    )
    lines(folder / "segments", "ana r-A 0.5 2", "ivo r-B 0.5 2", "both r 0.5 2", "twin r-A 0.5 2 1")
    lines(folder / "text", *(f"{key} dobar dan" for key in ("ana", "ivo", "both", "twin")))
    return Made(folder, {}, [("twin", "duplicate")])


# librispeech


@layout
def librispeech(folder: Path) -> Made:
    """A LibriSpeech folder of two splits."""
    root = folder / "LibriSpeech"
    chapter = root / "dev-clean/84/121123"
    for number, seconds in enumerate((1, 1.5, 1)):
        tone(chapter / f"84-121123-000{number}.flac", seconds, seed=number)
    tone(root / "train-clean-100/19/198/19-198-0000.flac", 1)
    lines(
        chapter / "84-121123.trans.txt",
        f"84-121123-0000 {HOSTILE}",
        "84-121123-0001 GO",
        "84-121123-0007 GONE",
        "../../x Y",
        "",
    )
    lines(root / "train-clean-100/19/198/19-198.trans.txt", "19-198-0000 NORTHANGER ABBEY")
    lines(
        root / "SPEAKERS.TXT",
        ";ID |SEX| SUBSET |MINUTES| NAME",
        "84 | F | dev-clean | 8.02 | Christie | Nowak",
        "19 | F | x",
    )
    segments = {
        "84-121123-0000": ("dev-clean/84/121123/84-121123-0000.flac", 0, 8000, COMPOSED, "84"),
        "84-121123-0001": ("dev-clean/84/121123/84-121123-0001.flac", 0, 12000, "GO", "84"),
        "19-198-0000": (
            "train-clean-100/19/198/19-198-0000.flac",
            0,
            8000,
            "NORTHANGER ABBEY",
            "19",
        ),
    }
    problems = [
        ("as a whole", "a recording without a transcript"),
        ("as a whole", "a transcript without a recording"),
        ("line 4", "expected an id and a text"),
        ("dev-clean/84/121123/84-121123-0007.flac", "no such recording"),
    ]
    further = {
        "source_split": "dev-clean",
        "speaker_gender": "F",
        "speaker_name": "Christie | Nowak",
    }
    return Made(root, segments, problems, further=further)


def librispeech_archive(folder: Path, *, mode: str = "w:gz") -> Path:
    """The tree of `librispeech` as its archives have it: the folder's own name first."""
    made = librispeech(folder)
    with tarfile.open(folder / "dev-clean.tar.gz", mode) as archive:
        archive.add(made.source, "LibriSpeech")
    return folder / "dev-clean.tar.gz"


@from_rows
def librispeech_rows(folder, rows):
    """A LibriSpeech folder with a segment for each row of name and text."""
    return lines(
        folder / "dev/1/2/1-2.trans.txt",
        *(f"{name.removesuffix('.wav')} {text}" for name, text in rows),
    ).parents[3]


def librispeech_tree(
    root: Path, texts: dict[str, str], *, seconds: float = 0.5, rate: int = RATE
) -> Path:
    """Recordings and transcripts of utterances by their ids, ``SPEAKER-CHAPTER-NUMBER``, below a
    part such as dev-clean."""
    chapters = defaultdict(list)
    for seed, (key, text) in enumerate(texts.items()):
        speaker, chapter, _ = key.split("-")
        tone(root / speaker / chapter / f"{key}.flac", seconds, rate=rate, seed=seed)
        chapters[speaker, chapter].append(f"{key} {text}")
    for (speaker, chapter), rows in chapters.items():
        lines(root / speaker / chapter / f"{speaker}-{chapter}.trans.txt", *rows)
    return root


# commonvoice


@layout
def commonvoice(folder: Path) -> Made:
    """A folder of Common Voice with quotes in sentences."""
    source = folder / "hr"
    for number in range(3):
        tone(source / f"clips/common_voice_hr_{number}.mp3", 1 + number, rate=16000, seed=number)
    header = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale"
    rows = {
        0: f"c1\tcommon_voice_hr_0.mp3\t{HOSTILE}\t2\t0\ttwenties\tfemale\t\thr",
        1: 'c1\tcommon_voice_hr_1.mp3\t"Da", kaže on.\t2\t0\t\t\t\thr',
        2: 'c2\tcommon_voice_hr_2.mp3\t"\t2\t1\t\t\tistarski, "čakavski"\thr',
        7: "c2\t../../../etc/passwd.mp3\tNe.\t2\t1\t\t\t\thr",
    }
    lines(source / "validated.tsv", header, *rows.values(), "c3\tshort.mp3")
    lines(source / "train.tsv", header, rows[0])
    lines(source / "dev.tsv", header, rows[1])
    lines(source / "test.tsv", header, rows[1])
    lines(
        source / "clip_durations.tsv",
        "clip\tduration[ms]",
        "common_voice_hr_0.mp3\t1000",
        "common_voice_hr_1.mp3\t7100",
    )
    segments = {
        "common_voice_hr_0": ("common_voice_hr_0.mp3", 0, 16000, COMPOSED, "c1"),
        "common_voice_hr_1": ("common_voice_hr_1.mp3", 0, 32000, '"Da", kaže on.', "c1"),
        "common_voice_hr_2": ("common_voice_hr_2.mp3", 0, 48000, '"', "c2"),
    }
    problems = [
        ("line 2", "'common_voice_hr_1.mp3' is in dev.tsv too"),
        ("line 6", "2 fields, the header has 9"),
        ("../../../etc/passwd.mp3", "no such recording"),
    ]
    further = {
        "source_split": "train",
        "source_duration": "1",
        "speaker_age": "twenties",
        "up_votes": "2",
        "locale": "hr",
    }
    warnings = ["common_voice_hr_1.mp3: lasts 2.0 s, the source says 7.1 s"]
    return Made(source, segments, problems, further=further, warnings=warnings)


@from_rows
def commonvoice_rows(folder, rows):
    """A folder of Common Voice with a segment for each row of name and text."""
    return lines(
        folder / "train.tsv",
        "client_id\tpath\tsentence",
        *(f"c\t{name}\t{text}" for name, text in rows),
    ).parent


# folder


@layout
def folder(folder: Path) -> Made:
    """A folder of recordings without transcripts, divided into windows."""
    source = folder / "music"
    tone(source / "000/a, =1+1.mp3", 2.5)
    tone(source / "b.wav", 1.00103, rate=44100)
    lines(source / "text named.wav", "no audio")
    (source / "cover.jpg").touch()
    segments = {
        "000/a, =1+1_0-1": ("000/a, =1+1.mp3", 0, 8000, None, None),
        "000/a, =1+1_1-2": ("000/a, =1+1.mp3", 8000, 16000, None, None),
        "000/a, =1+1_2-2.5": ("000/a, =1+1.mp3", 16000, 20000, None, None),
        "b_0-1": ("b.wav", 0, 44100, None, None),
        "b_1-1.00102": ("b.wav", 44100, 44145, None, None),
    }
    return Made(source, segments, [("text named", "text named.wav")], options={"window": "1.0"})


@layout
def folder_texts(folder: Path) -> Made:
    """A folder of recordings with texts in files beside them."""
    source = folder / "talks"
    for name in ("a/one two.wav", "b.flac", "c.WAV", "d.wav", "e.wav", "f.wav", "g.wav"):
        tone(source / name, 1.5, seed=len(name))
    lines(source / "a/one two.txt", HOSTILE)
    (source / "b.LAB").write_bytes(b"\xef\xbb\xbf dobar\r\n\r\ndan \r\n")
    (source / "c.json").write_text('{"transcript": "evo\\nnas", "speaker": "ana"}')
    (source / "d.txt").write_bytes("točno".encode("cp1250"))
    lines(source / "e.txt", "", " ")
    lines(source / "g.normalized.txt", "dvadeset")
    lines(source / "g.original.txt", "20")
    lines(source / "README.txt", "about")
    lines(source / "b.eaf", "<ANNOTATION_DOCUMENT/>")
    segments = {
        "a/one two": ("a/one two.wav", 0, 12000, COMPOSED, None),
        "b": ("b.flac", 0, 12000, "dobar dan", None),
        "c": ("c.WAV", 0, 12000, "evo nas", None),
        "g": ("g.wav", 0, 12000, "dvadeset", None),
    }
    problems = [
        ("as a whole", "not utf-8 text (byte 3); name the encoding by --option encoding=NAME"),
        ("as a whole", "the file is empty"),
        *((name, "empty_text") for name in "def"),
    ]
    warnings = [
        "texts are read from files beside the recordings, 1 .normalized.txt and 1 .txt and 1 .lab "
        "and 1 .json: --option texts=no leaves them out",
        "3 of 7 recordings have no text beside them, such as d.wav",
        "fields of .json files that are not read: speaker",
        "1 .eaf file is not read, such as b.eaf: no format reads them",
        "1 .txt file has no recording of that name beside it: not read, such as README",
    ]
    return Made(source, segments, problems, warnings=warnings)


@from_rows
def folder_rows(folder, rows):
    """A folder with a file for each name; texts are ignored."""
    for number, (name, _) in enumerate(rows):
        put(folder, name.encode("utf8"), str(number).encode())
    return folder


# hf


def hf_table(folder: Path) -> pa.Table:
    """Rows of a dataset with all that may be wrong with one."""
    flac = tone(folder / "x.flac", 1, seed=1).read_bytes()
    wav = tone(folder / "x.wav", 1.5, seed=2).read_bytes()
    audio = [
        {"bytes": flac, "path": "../../../PWNED.flac"},
        {"bytes": wav, "path": None},
        {"bytes": None, "path": "gone.wav"},
        {"bytes": b"no audio", "path": "x.wav"},
        {"bytes": flac, "path": "x.FLAC"},
    ]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    columns = {
        "audio": pa.array(audio, kind),
        "sentence": [HOSTILE, "dobar dan", "da", "ne", "evo"],
        "speaker_id": [7, 8, None, None, 7],
        "id": ["one", "../two", "three", "four", "one"],
    }
    return pa.table(columns)


@layout
def hf(folder: Path) -> Made:
    """A dataset of the Hugging Face Hub in Parquet files, one of which is broken."""
    source = folder / "dataset"
    (source / "data").mkdir(parents=True)
    pq.write_table(hf_table(folder), source / "data/train-00000-of-00002.parquet", row_group_size=2)
    (source / "data/train-00001-of-00002.parquet").write_bytes(b"PAR1 no table")
    return hf_made(source, "data/train-00000-of-00002", "Parquet")


@layout
def hf_saved(folder: Path) -> Made:
    """A dataset as `save_to_disk` of the library datasets writes it."""
    source = folder / "dataset"
    table = hf_table(folder)
    lines(source / "dataset_dict.json", '{"splits": ["train"]}')
    files = ("data-00000-of-00002.arrow", "data-00001-of-00002.arrow")
    state = {"_data_files": [{"filename": file} for file in files], "_split": None}
    lines(source / "train/state.json", json.dumps(state))
    for file in (files[0], "cache-1.arrow"):
        with pa.ipc.new_stream(source / "train" / file, table.schema) as stream:
            stream.write_table(table, max_chunksize=2)
    (source / "train" / files[1]).write_bytes(b"no stream of tables")
    return hf_made(source, "train/data-00000-of-00002", "no Arrow stream")


def hf_made(source: Path, stem: str, broken: str) -> Made:
    """What ingest makes of `hf_table`; `stem` and `broken` are names in its messages."""
    segments = {
        "one": (f"{stem}/00000000.flac", 0, 8000, COMPOSED, "7"),
        "../two": (f"{stem}/00000001.wav", 0, 12000, "dobar dan", "8"),
        "one#2": (f"{stem}/00000004.flac", 0, 8000, "evo", "7"),
    }
    problems = [
        ("as a whole", broken),
        (f"{stem}/00000002.wav", "no such recording"),
        (f"{stem}/00000003", "00000003.wav"),
        ("one", "an id of 2 segments"),
    ]
    return Made(source, segments, problems, further={"source_split": "train"})


@from_rows
def hf_rows(folder, rows):
    """A dataset in Parquet with a segment for each row of name and text."""
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    audio = pa.array([{"bytes": b"RIFF", "path": name} for name, _ in rows], kind)
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"audio": audio, "text": [text for _, text in rows]}), folder / "a.parquet"
    )
    return folder


# table


@layout
def table(folder: Path) -> Made:
    """A CSV table with column names of its own, and its recordings."""
    tone(folder / "corpus/audio/one two.wav", 3)
    tone(folder / "corpus/audio/b.flac", 2)
    hostile = HOSTILE.replace('"', '""')
    source = lines(
        folder / "corpus/segments.csv",
        "file,from,lasts,words,who,id,split,decision",
        f'audio/one two.wav,0.50,1.0,"{hostile}",s1,u1,train,good',
        "audio/one two.wav,1.1,0.2,0.1 i 0.2,s1,u2,dev,",
        'audio/b.flac,,,"sve,',
        'i ""drugo""",,,,',
        "audio/b.flac,0,1",
        ",0,1,da,,,,",
        "gone.wav,0,1,da,,,,",
        "audio/b.flac,x,1,da,,,,",
    )
    segments = {
        "u1": ("one two.wav", 4000, 12000, COMPOSED, "s1"),
        "u2": ("one two.wav", 8800, 10400, "0.1 i 0.2", "s1"),
        "audio/b": ("b.flac", 0, 16000, 'sve,\ni "drugo"', None),
    }
    problems = [
        ("line 6", "3 fields, the header has 8"),
        ("line 7", "file is empty"),
        ("gone.wav", "no such recording"),
        ("audio/b_x-NaN", "no_times"),
    ]
    options = {
        "name": "file",
        "start": "from",
        "duration": "lasts",
        "text": "words",
        "speaker_id": "who",
        "segment_id": "id",
    }
    further = {
        "source_split": "train",
        "source_decision": "good",
        "source_start": "0.50",
        "source_end": "1.50",
    }
    return Made(source, segments, problems, options=options, further=further)


@from_rows
def table_rows(folder, rows):
    """A CSV table with a segment for each row of name and text."""
    folder.mkdir()
    with (folder / "a.csv").open("w", encoding="utf8", newline="") as file:
        csv.writer(file).writerows(
            [
                ("name", "start", "end", "text"),
                *((name, n, n + 0.5, text) for n, (name, text) in enumerate(rows)),
            ]
        )
    return folder / "a.csv"


@call_layout
def table_call(folder: Path) -> Made:
    """A CSV table of a call with a column of channels."""
    call(folder)
    rows = ("ana,left", "ivo,1", "both,", "twin,1", "nobody,2", "none,ear")
    source = lines(
        folder / "a.csv",
        "segment_id,ch,name,start,end,text",
        *(f"{row},{CALL},0.5,2,dobar dan" for row in rows),
    )
    problems = [("twin", "duplicate"), ("nobody", "unknown_channel"), ("none", "unknown_channel")]
    return Made(source, {}, problems, options={"source_channel": "ch"})


def write_table(path, columns):
    """A table in the format of the file's ending."""
    rows = list(zip(*columns.values(), strict=True))
    match path.suffix:
        case ".csv":
            pl.DataFrame(columns, strict=False).write_csv(path)
        case ".tsv":
            pl.DataFrame(columns, strict=False).write_csv(path, separator="\t", quote_style="never")
        case ".jsonl":
            lines(path, *(json.dumps(dict(zip(columns, row, strict=True))) for row in rows))
        case ".parquet":
            pl.DataFrame(columns, strict=False).write_parquet(path)
        case ".ods":
            write_table_ods(path, [tuple(columns), *rows])
        case ".xlsx":
            book = Workbook()
            for row in (tuple(columns), *rows):
                book.active.append(row)
            for cell in (
                cell for row in book.active for cell in row if isinstance(cell.value, str)
            ):
                cell.data_type = "s"  # also a text that begins with =
            book.save(path)
    return path


# subtitles


@layout
def subtitles(folder: Path) -> Made:
    """A folder with subtitles beside recordings."""
    source = folder / "films"
    tone(source / "2018/one two.wav", 3)
    tone(source / "b.flac", 2)
    (source / "2018/one two.srt").write_bytes(
        f"1\r\n00:00:00,500 --> 00:00:01,500 X1:1\r\n{HOSTILE}\r\n\r\n2\r\n0:00:01,5 --> "
        "0:00:03\r\n- Da.\r\n- 1 < 2\r\n\r\n\r\n"
        "3\r\nnikad\r\n\r\n4\r\n00:00:61,0 --> x\r\n\r\n5\r\n00:00:00,000 --> "
        "00:00:00,500\r\n<i></i>\r\n".encode()
    )
    (source / "b.vtt").write_text(
        "WEBVTT - x\n\nNOTE ne\ni ovo\n\nSTYLE\n::cue{}\n\n"
        "kraj\n00:00.250 --> 00:01.000\n<v.x Ana B>1 &lt; <c.a>2</c> &amp; 3</v>\n"
    )
    (source / "b.hr.srt").write_bytes("1\n00:00:00,000 --> 00:00:01,000\nšto\n".encode("cp1250"))
    segments = {
        "2018/one two_0.500-1.500": ("2018/one two.wav", 4000, 12000, "=1+1 č ../../x", None),
        "2018/one two_1.5-3": ("2018/one two.wav", 12000, 24000, "- Da. - 1 < 2", None),
        "b_0.250-1.000": ("b.flac", 2000, 8000, "1 < 2 & 3", "Ana B"),
    }
    problems = [
        ("line 11", "no times: '3'"),
        ("line 15", "expected times such as 00:00:01,500 --> 00:00:02,750, not '00:00:61,0 --> x'"),
        ("2018/one two_0.000-0.500", "empty_text"),
        ("as a whole", "not utf-8 text"),
    ]
    return Made(source, segments, problems, further={"text_raw": HOSTILE})


@from_rows
def subtitles_rows(folder, rows):
    """A folder of subtitles with a segment for each row of name and text."""
    for name, texts in by_name(rows):
        cues = "".join(
            f"{n}\n00:00:0{n // 1000},{n % 1000:03} --> "
            f"00:00:0{n // 1000},{n % 1000 + 9:03}\n{t}\n\n"
            for n, t in texts
        )
        put(folder, f"{name}.srt".encode(), cues.encode())
    return folder


# textgrid


@layout
def textgrid(folder: Path) -> Made:
    """A folder with TextGrids in the long and the short form."""
    source = folder / "grids"
    for name in ("one two.wav", "b.flac", "c.wav"):
        tone(source / "x" / name, 3)
    quoted = HOSTILE.replace('"', '""')
    long = f"""File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 3
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "TextTier"
        name = "clicks"
        xmin = 0
        xmax = 3
        points: size = 1
        points [1]:
            number = 1.5
            mark = "click ""x"" 7"
    item [2]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 3
        intervals: size = 3
        intervals [1]:
            xmin = 0
            xmax = 0.50
            text = ""
        intervals [2]:
            xmin = 0.50
            xmax = 1.5
            text = "{quoted}"
        intervals [3]:
            xmin = 1.5
            xmax = 3
            text = "rekao je ""da"" ! 5
xmin = 7"
"""
    (source / "x/one two.TextGrid").write_bytes(long.encode("utf-16"))
    head = '"ooTextFile"\n"TextGrid"\n0\n3\n<exists>\n'
    words = '"IntervalTier"\n"words"\n0\n3\n2\n0\n0.1\n" "\n0.1\n0.300000000000000004\n"č"\n'
    lines(source / "x/b.textgrid", f"{head}2\n{words}{words.replace('words', 'phones')}")
    lines(source / "x/c.TextGrid", f"{head}1\n{words.replace('words', 'phones')}")
    lines(source / "x/d.TextGrid", f"{head}1\n{words[:40]}")
    (source / "x/e.TextGrid").write_bytes(b"ooBinaryFile\x08TextGrid\x00")
    segments = {
        "x/one two_0.50-1.5": ("x/one two.wav", 4000, 12000, COMPOSED, None),
        "x/one two_1.5-3": ("x/one two.wav", 12000, 24000, 'rekao je "da" ! 5\nxmin = 7', None),
        "x/b_0.1-0.300000000000000004": ("x/b.flac", 800, 2400, "č", None),
    }
    problems = [
        ("as a whole", "called 'words'; it has 'phones'"),
        ("line 16", "expected a number, not the end of the file"),
        ("as a whole", "a binary TextGrid"),
    ]
    return Made(source, segments, problems, options={"tier": "words"})


@from_rows
def textgrid_rows(folder, rows):
    """A folder of TextGrids with a segment for each row of name and text."""
    for name, texts in by_name(rows):
        intervals = "".join(f"{n / 100:f} {n / 100 + 0.01:f} {quoted(text)}\n" for n, text in texts)
        head = f'"ooTextFile" "TextGrid" 0 99 <exists> 1 "IntervalTier" "words" 0 99 {len(texts)}'
        put(folder, f"{name}.TextGrid".encode(), f"{head}\n{intervals}".encode())
    return folder


def praat_textgrid(tiers, *, long):
    """A TextGrid in one of the two text forms, as Praat writes it."""
    out = ['File type = "ooTextFile"', 'Object class = "TextGrid"', ""]

    def put(depth, name, value):
        out.append("    " * depth + (f"{name} = {value} " if long else str(value)))

    put(0, "xmin", 0)
    put(0, "xmax", 100)
    out.append("tiers? <exists> " if long else "<exists>")
    put(0, "size", len(tiers))
    out.extend(["item []: "] if long else [])
    for number, rows in enumerate(tiers):
        out.extend([f"    item [{number + 1}]:"] if long else [])
        for name, value in (
            ("class", '"IntervalTier"'),
            ("name", f'"{number}"'),
            ("xmin", 0),
            ("xmax", 100),
        ):
            put(2, name, value)
        put(2, "intervals: size", len(rows))
        for place, (start, text) in enumerate(rows):
            out.extend([f"        intervals [{place + 1}]:"] if long else [])
            put(3, "xmin", start)
            put(3, "xmax", "100.0")
            put(3, "text", '"' + text.replace('"', '""') + '"')
    return "\n".join(out) + "\n"


# rows by recording, of subtitles and textgrid


def by_name(rows):
    """Numbered texts by the name of a recording without its extension."""
    found = defaultdict(list)
    for number, (name, text) in enumerate(rows):
        found[name.removesuffix(".wav")].append((number * 10, text))
    return found.items()


def quoted(text):
    """A text in quotes as Praat writes it: quotes in it are doubled."""
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


# a file with a single segment


HEARD = {"id": "a-1", "recording_id": "a", "start": 0, "duration": 1, "text": "da"}
RECORDING = {"id": "a", "sources": [{"type": "file", "channels": [0], "source": "a.wav"}]}
ONE_SEGMENT = {
    "commonvoice": "client_id\tpath\tsentence\n1f\ta.mp3\tDa\n",
    "folder": "",
    "kaldi": "r1 a.wav\n",
    "lhotse": json.dumps(
        {"id": "c", "duration": 1, "supervisions": [HEARD], "recording": RECORDING}
    ),
    "librispeech": "84-1-0000 DA\n",
    "nemo": json.dumps({"audio_filepath": "a.wav", "duration": 1, "text": "da"}),
    "parlaspeech": json.dumps(
        {"file": "a.wav", "start": 0, "end": 1, "words": ["da"], "split": "test"}
    ),
    "subtitles": "1\n00:00:00,000 --> 00:00:01,000\nda\n",
    "table": "name,text,split\na.wav,da,test\n",
    "textgrid": '"ooTextFile" "TextGrid" 0 1 <exists> 1 "IntervalTier" "words" 0 1 1  0 1 "da"',
}


def one_segment(format_, path):
    """A file with one segment, as each format has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = pa.table({"audio": [{"bytes": b"RIFF", "path": "x.wav"}], "text": ["da"]})
    if format_ in ONE_SEGMENT:
        path.write_text(ONE_SEGMENT[format_])
    elif path.suffix == ".parquet":
        pq.write_table(columns, path)
    else:
        with pa.ipc.new_stream(path, columns.schema) as stream:
            stream.write_table(columns)
