"""Make corpora, workspaces and reviews with the nbaudio that is installed, to be read by later
versions: `python tests/make_earlier.py FOLDER`, as tests/earlier/README.md says.

It writes FOLDER.tar.xz, in which FOLDER is called @FOLDER@, and no machine is named.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tarfile
from contextlib import nullcontext
from pathlib import Path

import openpyxl
import polars as pl
from earlier_data import (
    RATE,
    SPEAKERS,
    TIME,
    clips_of,
    recording,
    rows_of,
    table,
    transcribe,
    without,
)

from nbaudio import (
    evidence,
    ingest,
    join,
    materialize,
    measure,
    recognize,
    review,
    score,
    select,
    stats,
    verify,
    withdraw,
)
from nbaudio.tables.workspace import Workspace

SAME = {"rate": RATE, "shard_count": 6, "jobs": 1, "engine": "threading", "show_progress": False}
FURTHER = {
    "parquet": {"text": "normalized"},
    "tfrecord": {"window": 4},
    "lhotse": {"shard_count": None, "shard_size": "20kB"},
}


def fill_in(sheet: str, verdicts: dict[int, dict[str, str]], seconds: int) -> None:
    """Write verdicts into rows of a sheet in CSV, by number."""
    with Path(sheet).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, cells in verdicts.items():
        rows[number] |= cells
    table(sheet, rows)
    os.utime(sheet, (TIME + seconds, TIME + seconds))


def make_workspace() -> Workspace:
    """A workspace with texts, hypotheses, scores, signals and a first selection."""
    for number in range(len(SPEAKERS)):
        recording(Path(f"audio/r{number}.flac"), number)
    rows = rows_of(range(len(SPEAKERS)))
    ingest("table", table("first.csv", without(rows, "split")), audio="audio", out="w", jobs=1)
    other = [
        {"segment_id": row["segment_id"], "text": f"{row['text'].upper()}."} for row in rows[::2]
    ]
    join("w", table("other.csv", other), text="other", from_="text")
    heard = [{"segment_id": row["segment_id"], "asr_text": row["text"][:-3]} for row in rows]
    join("w", table("heard.csv", heard), hypothesis="small", from_="asr_text")
    recognize("w", with_=transcribe, as_="count", engine="threading", show_progress=False)
    score("w", normalize=["lower"])
    score("w", text="other", hypothesis="small")
    measure("w", jobs=1, engine="threading", show_progress=False)
    workspace = Workspace.open("w")
    workspace.choose_threshold(0.7)
    select("w", dev=6, test=6, group_by=["speaker_id"])
    return workspace


def judge(workspace: Workspace) -> None:
    """A round of two reviewers with faults, rows without a verdict and a disagreement that a third
    decides; decisions by hand."""
    ok = {"verdict": "ok"}
    review.export(
        "w", out="one.csv", n=20, reviewers=["ana", "ben"], overlap=4, seed=1, verdicts=VERDICTS
    )
    sheets = {name: pl.read_csv(f"one-{name}.csv") for name in ("ana", "ben")}
    both = set(sheets["ana"]["segment_id"]) & set(sheets["ben"]["segment_id"])
    disputed = min(both)
    for seconds, (name, sheet) in enumerate(sheets.items()):
        verdicts = {number: dict(ok) for number in range(sheet.height - 1)}
        ids = sheet["segment_id"].to_list()
        alone = [number for number in verdicts if ids[number] not in both]
        if name == "ana":
            verdicts[alone[0]] = {
                "verdict": "wrong words",
                "corrected text": "ispravljen tekst",
                "comment": "-5",
            }
            verdicts[alone[1]] = {"verdict": "unsure"}
            del verdicts[alone[2]]
            verdicts[alone[3]] = {"verdict": "cut off", "second verdict": "noise"}
        verdicts[ids.index(disputed)] = ok if name == "ana" else {"verdict": "noise"}
        fill_in(f"one-{name}.csv", verdicts, seconds)
    review.import_("w", ["one-ana.csv", "one-ben.csv"])
    review.export("w", out="undecided.csv", strategy="disagreements")
    fill_in("undecided.csv", {0: ok}, 10)
    review.import_("w", "undecided.csv", reviewer="cy", adjudicator="cy")
    accepted = workspace.segments.filter(decision="accept", split="train")["segment_id"]
    by_hand = {
        "segment_id": [accepted[3], accepted[5]],
        "decision": ["reject", "accept"],
        "reason": ["applause", None],
    }
    review.import_decisions("w", pl.DataFrame(by_hand))


VERDICTS = ("ok", "wrong words", "cut off", "noise", "unsure")


def begin_round() -> None:
    """A round by risk whose sheet was begun: two verdicts are imported; the sheet stays as it was
    exported."""
    review.export("w", out="two.xlsx", n=8, strategy="stratified", reviewers=["ben"], seed=2)
    sheet = next(Path().glob("two*.xlsx"))
    book = openpyxl.load_workbook(sheet)
    column = {cell.value: cell.column for cell in book.worksheets[0][1]}["verdict"]
    for row in (2, 3):
        book.worksheets[0].cell(row, column).value = "ok"
    rows = list(book.worksheets[0].iter_rows(values_only=True))
    header = [str(name) for name in rows[0]]
    begun = [dict(zip(header, ["" if v is None else v for v in row], strict=True)) for row in rows]
    table("begun.csv", begun[1:])
    os.utime("begun.csv", (TIME + 20, TIME + 20))
    review.import_("w", "begun.csv", reviewer="ben")


def begin_workspace() -> None:
    """A second workspace with the splits of its source, whose measurement and recognition are
    stopped."""
    rows = without(rows_of(range(4)), "topic")
    ingest("table", table("split.csv", rows), audio="audio", out="begun", jobs=1)
    select("begun", splits="source", min_similarity=-1)
    for step, log in (("measure", "signals.jsonl"), ("recognize", "recognized/count.jsonl")):
        stop(step)
        # All is one task, whose lines are appended at once: the first half of them was written.
        lines = Path("begun", log).read_bytes().splitlines(keepends=True)
        Path("begun", log).write_bytes(b"".join(lines[: len(lines) // 2]))


def stop(step: str) -> None:
    """Run a step in a process that ends in the middle of it."""
    done = subprocess.run([sys.executable, __file__, "stop", step], check=False)
    if done.returncode != 9:
        raise RuntimeError(f"{step} was not stopped: it ended with {done.returncode}")


def stopped(step: str) -> None:
    """Exit after so many renamed shards, or appended lines."""
    import nbaudio.corpus.measure as measuring
    import nbaudio.recognition.recognize as recognizing

    def ending(function, at, counts=lambda *_: True):
        left = [at]

        def wrapper(*args, **more):
            result = function(*args, **more)
            left[0] -= counts(*args)
            if left[0] == 0:
                os._exit(9)
            return result

        return wrapper

    if step == "materialize":
        os.replace = ending(os.replace, 3, lambda _, to: str(to).endswith(".tar"))
        materialize("w", out="killed", **SAME | {"shard_count": 3})
    elif step == "measure":
        measuring.log_signals = ending(measuring.log_signals, 1)
        measure("begun", jobs=1, engine="threading", show_progress=False)
    else:
        recognizing.append_lines = ending(recognizing.append_lines, 1)
        recognize(
            "begun",
            with_=transcribe,
            as_="count",
            engine="threading",
            show_progress=False,
        )


def tidy() -> None:
    """Remove logs and clips of sheets, and what names a folder, a machine or a process."""
    for path in [*Path().rglob("logs"), Path("clips")]:
        shutil.rmtree(path)
    for log in Path().rglob("log.jsonl"):
        lines = [json.loads(line) for line in log.read_text("utf8").splitlines()]
        lines[0] |= {"host": "host", "pid": 1}
        log.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf8")
    here = os.fsencode(Path.cwd())
    for path in (path for path in Path().rglob("*") if path.is_file()):
        content = path.read_bytes()
        if here in content:
            is_text = path.suffix in {".json", ".jsonl"}
            # Of Arrow, strings keep their lengths.
            new = b"@FOLDER@" if is_text else b"/x".ljust(len(here), b"x")
            path.write_bytes(content.replace(here, new))


def pack(folder: Path) -> None:
    """Write all files into one archive, whose equal parts take no place."""
    with tarfile.open(f"{folder}.tar.xz", "w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(path, path.relative_to(folder).as_posix())
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            with path.open("rb") if entry.isreg() else nullcontext() as file:
                archive.addfile(entry, file)


def main(name: str) -> None:
    """Make the folder `name` with corpora, workspaces and reviews, and pack it."""
    # Of that version; a later one may have them elsewhere.
    from nbaudio.corpus.containers.registry import CONTAINERS
    from nbaudio.review.state import Correction, append_corrections

    folder = Path(name).absolute()
    folder.mkdir()
    os.chdir(folder)
    workspace = make_workspace()
    judge(workspace)
    select("w", dev=6, test=6, group_by=["speaker_id"], gold=True)
    for container in CONTAINERS:
        encoding = {"arrow": "mulaw", "files": "opus", "zip": "wav"}.get(container, "flac")
        how = SAME | {"encoding": encoding} | FURTHER.get(container, {})
        materialize("w", out=container, container=container, **how)
    begin_round()
    review.export("w", out="three.csv", n=4, seed=3)
    review.export("w", undo="three")
    bounds = Correction("r2-05", 20000, 23600, 20000, 23200, "ana", "2020-09-14T00:00:00Z")
    append_corrections(workspace, [bounds])
    review.correct_bounds("w")
    recording(Path(f"audio/r{len(SPEAKERS)}.flac"), len(SPEAKERS))
    rows = without(rows_of(range(len(SPEAKERS) + 1)), "split")
    ingest("table", table("first.csv", rows), audio="audio", out="w", add=True, jobs=1)
    score("w", normalize=["lower"])
    measure("w", jobs=1, engine="threading", show_progress=False)
    withdraw("w", segments=["r0-01"], why="not for the public")
    withdraw("w", speaker="fran", why="consent withdrawn")
    select("w", dev=6, test=6, group_by=["speaker_id"], gold=True)
    proof = evidence("w").facts
    materialize(
        "w",
        out="second",
        base="webdataset",
        title="Second",
        license="cc-by-4.0",
        **{k: v for k, v in SAME.items() if k not in {"rate", "shard_count"}},
    )
    stop("materialize")
    begin_workspace()
    expected = {
        "evidence": proof,
        "segments": {
            row[0]: row[1:]
            for row in workspace.segments.select(
                "segment_id", "split", "decision", "reason", "similarity", "text", "snr_db"
            ).iter_rows()
        },
        "verdicts": review.verdicts("w").to_dicts(),
        "stats": stats("w").facts,
        "begun": dict(Workspace.open("begun").segments.select("segment_id", "split").iter_rows()),
        "corpora": {
            name: clips_of(name)
            | {
                "problems": verify(name, jobs=1, engine="threading", show_progress=False).problems,
                "stats": stats(name).facts,
            }
            for name in (*CONTAINERS, "second")
        },
    }
    Path("expected.json").write_text(
        json.dumps(expected, indent=1, ensure_ascii=False, default=str) + "\n", "utf8"
    )
    tidy()
    pack(folder)


if __name__ == "__main__":
    if sys.argv[1] == "stop":
        stopped(sys.argv[2])
    else:
        main(sys.argv[1])
