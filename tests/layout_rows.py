"""Minimal sources of every layout: from rows of names and texts, with a single segment, and tables in every file format."""

import csv
import json
from collections import defaultdict
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from layout_kinds import lines
from openpyxl import Workbook

# Rows of (name, text) as a source of each format.


def parlaspeech(folder, rows):
    return lines(
        folder / "asr.json",
        *(json.dumps({"file": name, "start": n, "end": n + 0.5, "words": text}) for n, (name, text) in enumerate(rows)),
    )


def nemo(folder, rows):
    return lines(
        folder / "train.json",
        *(
            json.dumps({"audio_filepath": name, "offset": n, "duration": 0.5, "text": text})
            for n, (name, text) in enumerate(rows)
        ),
    )


def lhotse(folder, rows):
    recordings = [
        json.dumps({"id": f"r{n}", "sources": [{"type": "file", "channels": [0], "source": name}]})
        for n, (name, _) in enumerate(rows)
    ]
    lines(folder / "recordings.jsonl", *recordings)
    supervisions = [
        json.dumps({"id": f"u{n}", "recording_id": f"r{n}", "start": n, "duration": 0.5, "text": text})
        for n, (_, text) in enumerate(rows)
    ]
    return lines(folder / "supervisions.jsonl", *supervisions).parent


def kaldi(folder, rows):
    lines(folder / "wav.scp", *(f"r{n} {name}" for n, (name, _) in enumerate(rows)))
    lines(folder / "segments", *(f"u{n} r{n} {n} {n + 0.5}" for n in range(len(rows))))
    return lines(folder / "text", *(f"u{n} {text}" for n, (_, text) in enumerate(rows))).parent


def commonvoice(folder, rows):
    return lines(folder / "train.tsv", "client_id\tpath\tsentence", *(f"c\t{name}\t{text}" for name, text in rows)).parent


def librispeech(folder, rows):
    return lines(folder / "dev/1/2/1-2.trans.txt", *(f"{name.removesuffix('.wav')} {text}" for name, text in rows)).parents[3]


def folder(folder, rows):
    for number, (name, _) in enumerate(rows):
        put(folder, name.encode("utf8"), str(number).encode())
    return folder


def hf(folder, rows):
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    audio = pa.array([{"bytes": b"RIFF", "path": name} for name, _ in rows], kind)
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"audio": audio, "text": [text for _, text in rows]}), folder / "a.parquet")
    return folder


def table(folder, rows):
    folder.mkdir()
    with (folder / "a.csv").open("w", encoding="utf8", newline="") as file:
        csv.writer(file).writerows(
            [("name", "start", "end", "text"), *((name, n, n + 0.5, text) for n, (name, text) in enumerate(rows))]
        )
    return folder / "a.csv"


def subtitles(folder, rows):
    for name, texts in by_name(rows):
        cues = "".join(
            f"{n}\n00:00:0{n // 1000},{n % 1000:03} --> 00:00:0{n // 1000},{n % 1000 + 9:03}\n{t}\n\n" for n, t in texts
        )
        put(folder, f"{name}.srt".encode(), cues.encode())
    return folder


def textgrid(folder, rows):
    for name, texts in by_name(rows):
        intervals = "".join(f"{n / 100:f} {n / 100 + 0.01:f} {quoted(text)}\n" for n, text in texts)
        head = f'"ooTextFile" "TextGrid" 0 99 <exists> 1 "IntervalTier" "words" 0 99 {len(texts)}'
        put(folder, f"{name}.TextGrid".encode(), f"{head}\n{intervals}".encode())
    return folder


def by_name(rows):
    """Numbered texts by the name of a recording without its extension."""
    found = defaultdict(list)
    for number, (name, text) in enumerate(rows):
        found[name.removesuffix(".wav")].append((number * 10, text))
    return found.items()


def quoted(text):
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def put(folder, name, data):
    """Write a file below a folder where the disk takes its name and it stays there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = Path(folder, name.decode("utf8"))
    fits = b"\0" not in name and max(map(len, name.split(b"/"))) < 256
    if fits and path.resolve().is_relative_to(folder.resolve()) and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


SOURCES = {
    each.__name__: each
    for each in (parlaspeech, nemo, lhotse, kaldi, commonvoice, librispeech, folder, hf, table, subtitles, textgrid)
}


# A file with a single segment.

HEARD = {"id": "a-1", "recording_id": "a", "start": 0, "duration": 1, "text": "da"}
RECORDING = {"id": "a", "sources": [{"type": "file", "channels": [0], "source": "a.wav"}]}
ONE_SEGMENT = {
    "commonvoice": "client_id\tpath\tsentence\n1f\ta.mp3\tDa\n",
    "folder": "",
    "kaldi": "r1 a.wav\n",
    "lhotse": json.dumps({"id": "c", "duration": 1, "supervisions": [HEARD], "recording": RECORDING}),
    "librispeech": "84-1-0000 DA\n",
    "nemo": json.dumps({"audio_filepath": "a.wav", "duration": 1, "text": "da"}),
    "parlaspeech": json.dumps({"file": "a.wav", "start": 0, "end": 1, "words": ["da"], "split": "test"}),
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


# Tables.


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
        case ".xlsx":
            book = Workbook()
            for row in (tuple(columns), *rows):
                book.active.append(row)
            for cell in (cell for row in book.active for cell in row if isinstance(cell.value, str)):
                cell.data_type = "s"  # also a text that begins with =
            book.save(path)
    return path
