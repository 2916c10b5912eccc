"""Damaged inputs and irregular files for every command: one line that names the file, and exit code
2.

What is no regular file may block whoever opens it, or never end; symbolic links to regular files
are files.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import click
import openpyxl
import polars as pl
import pytest
import soundfile as sf
from conftest import sweeps
from specimens import lines
from spreadsheets import as_ods, write_table_ods
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.formats import workbook_guard
from nbaudio.review.state import Verdict, append_verdicts

Damage = Callable[[Path], object]


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def random_bytes(path: Path) -> None:
    path.write_bytes(os.urandom(4000))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_schema(path: Path) -> None:
    match path.suffix:
        case ".parquet":
            pl.DataFrame({"unheard": [1, 2], "text": [[1], [2]]}).write_parquet(path)
        case ".xlsx":
            book = openpyxl.Workbook()
            book.active.append(["unheard", "of"])
            book.save(path)
        case ".ods":
            write_table_ods(path, [("unheard", "of")])
        case ".csv" | ".tsv":
            path.write_text("unheard,of\n1,2\n")
        case _:
            path.write_text('{"unheard": ["of"]}\n')


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


SPOILED: tuple[Damage, ...] = (truncated, random_bytes, empty, other_schema)
NO_FILES: tuple[Damage, ...] = (folder, loop, pipe, device)
ALL = (*SPOILED, *NO_FILES)
FEW: tuple[Damage, ...] = (truncated, loop, pipe)


@pytest.fixture(scope="module")
def sources_and_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sources, a workspace `W` with a review and verdicts, and a corpus `C`."""
    top = tmp_path_factory.mktemp("made")
    rows = []
    for number, name in enumerate("abcd"):
        (top / "audio").mkdir(exist_ok=True)
        sf.write(top / f"audio/{name}.wav", sweeps(8, 8000, channels=1, seed=number), 8000)
        for i in range(3):
            words = ["riječ", f"broj{name}{i}"]
            rows.append(
                {
                    "file": f"{name}.wav",
                    "start": 2 * i,
                    "end": 2 * i + 1.5,
                    "words": words,
                    "asr": words,
                    "speaker": name,
                }
            )
    lines(top / "asr.json", *(json.dumps(row) for row in rows))
    lines(top / "list.csv", "url,name", "http://127.0.0.1:9/a.wav,a.wav")
    lines(top / "wav.scp", "a a.wav")
    lines(top / "ids.txt", "no such segment")
    lines(top / "own.tsv", "hr\tRH\tRepublika Hrvatska")
    lines(top / "names.csv", "name,path", "a.wav,a.wav")
    lines(
        top / "heard.ctm",
        *(f"day 1 {second} 0.9 riječ{second}".replace("day", "a") for second in range(20)),
    )
    lines(top / "minutes.txt", " ".join(f"riječ{second}" for second in range(20)))
    lines(top / "pairs.csv", "recording,transcript", "a,minutes.txt")
    lines(top / "job.yaml", "source: asr.json", "audio: audio")
    table = pl.DataFrame(
        {"path": ["a.wav", "b.wav"], "start": ["0", "1"], "end": ["1", "2"], "text": ["da", "ne"]}
    )
    table.write_csv(top / "t.csv")
    table.write_parquet(top / "t.parquet")
    table.write_excel(top / "t.xlsx")
    write_table_ods(top / "t.ods", [table.columns, *table.rows()])
    nbaudio.ingest("parlaspeech", top / "asr.json", audio=top / "audio", out=top / "W")
    nbaudio.score(top / "W")
    for ending in ("xlsx", "csv"):
        nbaudio.review.export(top / "W", out=top / f"sheet.{ending}", n=2)
    as_ods(top / "sheet.xlsx", top / "sheet.ods")
    segment_id = json.loads((top / "W/reviews/sheet.json").read_text())["segment_ids"][0]
    append_verdicts(
        top / "W",
        [Verdict(segment_id, "c", "ok", "", None, "ana", "2026-11-21T03:00:00Z", "sheet")] * 2,
    )
    nbaudio.select(top / "W", dev=1, test=1, group_by=["recording_id"])
    nbaudio.materialize(top / "W", out=top / "C", jobs=1, show_progress=False)
    return top


# Command -> file that it reads -> how that is spoiled. Each file is spoiled in every way for one of
# the commands.
TABLES = {"W/segments.parquet": FEW, "W/recordings.parquet": FEW}
CORPUS = {"C/corpus.json": FEW, "C/segments.parquet": FEW}
INGEST = "ingest parlaspeech asr.json --audio audio --out V"
TABLE = (
    "--audio audio --out V --option name=path --option start=start --option end=end "
    "--option text=text"
)
CASES: dict[str, dict[str, Iterable[Damage]]] = {
    "join W t.csv --text x --from text": {
        "t.csv": (empty, other_schema, *NO_FILES),
        "W/segments.parquet": FEW,
    },
    "join W t.parquet --hypothesis x": {"t.parquet": ALL},
    "recognize W --with cat --as x": {**TABLES, "W/workspace.json": NO_FILES},
    "measure W --jobs 1": {**TABLES, "W/workspace.json": NO_FILES},
    "score W --formatting own.tsv": {"own.tsv": (random_bytes, other_schema, *NO_FILES)},
    "score W": {"W/segments.parquet": FEW, "W/workspace.json": NO_FILES},
    "evidence W": {
        "W/segments.parquet": FEW,
        "W/reviews/verdicts.jsonl": (random_bytes, other_schema, *NO_FILES),
    }
    | {"W/reviews/sheet.json": ALL, "W/workspace.json": NO_FILES},
    "select W --dev 1 --test 1 --group-by recording_id": {**TABLES, "W/reviews/sheet.json": ALL},
    "review export W --out n.xlsx --n 2": TABLES,
    "review import W sheet.xlsx": {
        "W/segments.parquet": FEW,
        "sheet.xlsx": (*SPOILED, loop, pipe, device),
    },
    "review import W sheet.ods": {"sheet.ods": (*SPOILED, loop, pipe, device)},
    "review import W sheet.csv": {
        "sheet.csv": (random_bytes, empty, other_schema, loop, pipe, device)
    },
    "review correct-texts W": {"W/segments.parquet": FEW},
    "review correct-bounds W": {"W/segments.parquet": FEW},
    "materialize W --out D --jobs 1": {
        "W/segments.parquet": ALL,
        "W/recordings.parquet": ALL,
        "W/workspace.json": ALL[:3],
    }
    | {"W/reports/select.json": (*ALL[:3], *NO_FILES)},
    "materialize W --base C --out D --jobs 1": {"C/corpus.json": ALL, "C/segments.parquet": ALL},
    "withdraw W --segments ids.txt --why x": {
        "ids.txt": (random_bytes, empty, *NO_FILES),
        "W/segments.parquet": FEW,
    },
    "diff C W": {
        **TABLES,
        "C/corpus.json": ALL,
        "C/segments.parquet": ALL,
        "C/rejected.parquet": ALL,
    },
    "publish C hf://datasets/a/b --consent x": {"C/corpus.json": ALL},
    "audit W": TABLES,
    "audit C": {"C/corpus.json": SPOILED, "C/segments.parquet": ALL, "C/rejected.parquet": ALL},
    "stats W": TABLES,
    "stats C": {"C/corpus.json": ALL, "C/segments.parquet": ALL, "C/rejected.parquet": ALL},
    "status C": {"C/corpus.json": (truncated, random_bytes, empty, other_schema)},
    "verify C --jobs 1": {"C/corpus.json": ALL},
    "convert C --container zip --out D --jobs 1": {"C/corpus.json": ALL, "C/segments.parquet": ALL},
    "export nemo W --out E": TABLES,
    "export lhotse W --out E": TABLES,
    "export kaldi W --out E": TABLES,
    INGEST: {"asr.json": (random_bytes, empty, other_schema, *NO_FILES)},
    f"{INGEST} --names wav.scp": {"wav.scp": (random_bytes, *NO_FILES)},
    f"{INGEST} --names names.csv": {"names.csv": (random_bytes, empty, other_schema, *NO_FILES)},
    f"ingest table t.csv {TABLE}": {"t.csv": (empty, other_schema, *NO_FILES)},
    f"ingest table t.parquet {TABLE}": {"t.parquet": ALL},
    f"ingest table t.xlsx {TABLE}": {"t.xlsx": ALL},
    f"ingest table t.ods {TABLE}": {"t.ods": ALL},
    "align heard.ctm minutes.txt --out V": {"heard.ctm": (random_bytes, other_schema, *NO_FILES)}
    | {"minutes.txt": (random_bytes, empty, *NO_FILES)},
    "align heard.ctm minutes.txt --pairs pairs.csv --out V": {
        "pairs.csv": (random_bytes, empty, other_schema, *NO_FILES)
    },
    "download list.csv --out files --tries 1": {
        "list.csv": (random_bytes, empty, other_schema, *NO_FILES)
    },
    "run job.yaml --only 1": {"job.yaml": (random_bytes, other_schema, *NO_FILES)},
}


def test_every_command_that_reads_files_is_tested() -> None:
    def names(group: click.Group) -> set[str]:
        own = {name for name, each in group.commands.items() if not hasattr(each, "commands")}
        return own | {
            f"{name} {sub}"
            for name, each in group.commands.items()
            if hasattr(each, "commands")
            for sub in names(each)
        }

    import typer

    known = names(typer.main.get_command(app))  # type: ignore[arg-type]
    tried = {name for name in known if any(case.startswith(f"{name} ") for case in CASES)}
    assert known - tried == {"demo", "wheel"}  # these read nothing


@pytest.mark.slow
@pytest.mark.parametrize("command", CASES)
def test_a_damaged_file_is_a_one_line_error_that_names_it(
    sources_and_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name, damages in CASES[command].items():
        for number, damage in enumerate(damages):
            place = tmp_path / f"{name.replace('/', '_')}{number}"
            shutil.copytree(sources_and_corpus, place, copy_function=os.link)
            spoiled = place / name
            # No hard link: the others keep theirs.
            shutil.copy(sources_and_corpus / name, copy := spoiled.with_name("copy"))
            copy.replace(spoiled)
            damage(spoiled)
            monkeypatch.chdir(place)
            done = CliRunner().invoke(app, command.split())
            case = (name, getattr(damage, "__name__", ""), done.output)
            assert isinstance(done.exception, SystemExit), (*case, repr(done.exception))
            assert (done.exit_code, done.stdout) == (2, ""), case
            [line] = done.stderr.splitlines()
            assert line.startswith("nbaudio: "), case
            assert spoiled.name in line, case
            assert len(line.replace(str(place), "")) < 500, case
            monkeypatch.chdir(tmp_path)
            shutil.rmtree(place)


@pytest.mark.slow
def test_a_link_to_a_regular_file_is_accepted(sources_and_corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(sources_and_corpus / "W", tmp_path / "W")
    for name in ("segments.parquet", "workspace.json"):
        (tmp_path / "W" / name).rename(tmp_path / name)
        (tmp_path / "W" / name).symlink_to(tmp_path / name)
    assert nbaudio.stats(tmp_path / "W").facts["recordings"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("damage", NO_FILES)
def test_a_shard_or_recording_that_is_no_regular_file_is_a_problem(
    sources_and_corpus: Path, tmp_path: Path, damage: Damage
) -> None:
    shutil.copytree(sources_and_corpus, tmp_path / "m")
    shard = next((tmp_path / "m/C/train").glob("*.tar"))
    damage(shard)
    told = nbaudio.verify(tmp_path / "m/C", jobs=1, show_progress=False).problems
    assert [line for line in told if line.startswith(f"train/{shard.name}: ")]
    settings = json.loads((tmp_path / "m/W/workspace.json").read_text())
    (tmp_path / "m/W/workspace.json").write_text(
        json.dumps(settings | {"audio": str(tmp_path / "m/audio")})
    )
    shutil.rmtree(tmp_path / "m/W/packs")
    damage(tmp_path / "m/audio/a.wav")
    told = nbaudio.materialize(
        tmp_path / "m/W", out=tmp_path / "m/D", jobs=1, show_progress=False
    ).problems
    assert told
    assert all("a.wav" in line for line in told)


def test_a_workbook_is_of_limited_size(
    sources_and_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(sources_and_corpus / "sheet.xlsx", tmp_path)
    monkeypatch.setattr(workbook_guard, "MOST_WORKBOOK_BYTES", 1 << 10)
    for read in (
        lambda: nbaudio.review.import_(sources_and_corpus / "W", tmp_path / "sheet.xlsx"),
        lambda: nbaudio.ingest("table", tmp_path / "sheet.xlsx", out=tmp_path / "V"),
    ):
        with pytest.raises(InputError, match=r"sheet\.xlsx: [0-9,]+ bytes; a workbook of at most"):
            read()


def test_running_out_of_memory_is_a_one_line_error(
    sources_and_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(*_: object, **__: object) -> None:
        raise MemoryError

    for where, said in (
        ("nbaudio.score", "not enough memory"),
        ("polars.scan_parquet", "segments.parquet: not enough memory"),
    ):
        monkeypatch.setattr(where, greedy)
        done = CliRunner().invoke(app, ["score", str(sources_and_corpus / "W")])
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert said in done.stderr
        monkeypatch.undo()
