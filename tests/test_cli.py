"""The command line: every command end to end on real audio, its exit codes, and one line for what is wrong."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from conftest import sweeps

from nbaudio.cli import main


@pytest.fixture
def nbaudio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command in an empty folder, in this process, which has imported what it needs."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["nbaudio", *words])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return subprocess.CompletedProcess(words, int(end.value.code or 0), *capfd.readouterr())

    return run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two recordings of 20 s with irregular blanks, and their transcripts."""
    audio = tmp_path / "audio"
    audio.mkdir()
    names = ["17 1 2018 - 2. dio [HlauTe_NK6U]", "18 1 2018 - 1. dio [abcdefghij_]"]
    lines = []
    for number, name in enumerate(names):
        sf.write(audio / f"{name.replace(' - ', ' -  ')}.wav", sweeps(20, 16000, seed=number), 16000)
        for i in range(8):
            words = ["prva", "druga", f"riječ{i}", f"snimka{number}"]
            heard = words if i != 3 else ["sasvim", "nešto", "drugo"]
            line = {"file": f"{name}.wav", "start": 2.4 * i, "end": 2.4 * i + 2.0, "words": words, "asr": heard}
            lines.append(json.dumps(line | {"speaker": f"spk{number}{i % 2}"}, ensure_ascii=False))
    (tmp_path / "asr.json").write_text("\n".join(lines), encoding="utf8")
    return tmp_path


def test_from_ingest_to_verify_without_a_hand(source: Path, nbaudio: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    steps = [
        ("ingest", "parlaspeech", "asr.json", "--audio", "audio", "--out", "W"),
        ("score", "W"),
        ("review", "export", "W", "--out", "sheets/sheet.xlsx", "--n", "3"),
        ("select", "W", "--dev", "2", "--test", "2", "--group-by", "", "--max-duration", "20"),
        ("export", "nemo", "W", "--out", "M", "--paths", "relative"),
        ("materialize", "W", "--out", "C", "--jobs", "2", "--shard-size", "100kB"),
        ("status", "C"),
        ("verify", "C"),
        ("stats", "W"),
        ("stats", "C"),
    ]
    for step in steps:
        done = nbaudio(*step)
        assert (step, done.returncode, done.stderr if done.returncode else "") == (step, 0, "")
        report = nbaudio(*step, "--json")
        assert report.returncode == 0
        assert json.loads(report.stdout)["problems"] == []
    kept = pl.read_parquet(source / "C/segments.parquet")
    out = pl.read_parquet(source / "C/rejected.parquet")
    assert kept.height + out.height == 16
    assert dict(out.group_by("reason").len().iter_rows())["below_similarity"] == 2
    assert {key.rsplit("_", 1)[0] for key in kept["segment_id"]} == {"HlauTe_NK6U", "abcdefghij_"}
    reviewed = json.loads((source / "W/reviews/sheet.json").read_text())["segment_ids"]
    assert len(reviewed) == 3
    assert not set(reviewed) & set(kept.filter(pl.col("split") == "train")["segment_id"])
    assert len(list((source / "sheets/clips").iterdir())) == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("score", "nowhere"), "nowhere: not a workspace"),
        (("verify", "nowhere"), "nowhere: no corpus.json"),
        (("status", "nowhere"), "nowhere: no corpus.json"),
        (("stats", "nowhere"), "neither a workspace"),
        (("ingest", "kaldii", "x", "--out", "W"), "parlaspeech"),
        (("ingest", "parlaspeech", "absent.json", "--out", "W"), "absent.json"),
        (("run", "absent.yaml"), "absent.yaml"),
    ],
)
def test_unusable_input_is_one_line_and_exit_code_2(
    nbaudio: Callable[..., subprocess.CompletedProcess[str]], words: tuple[str, ...], says: str
) -> None:
    done = nbaudio(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("nbaudio: ")
    assert says in done.stderr
    as_json = nbaudio(*words, "--json")
    assert as_json.returncode == 2
    assert says in json.loads(as_json.stdout)["error"]


def test_what_cannot_be_written_is_one_line_and_exit_code_2(
    source: Path, nbaudio: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (source / "f").write_text("a file")
    assert nbaudio("ingest", "parlaspeech", "asr.json", "--audio", "audio", "--out", "W").returncode == 0
    assert (
        nbaudio("score", "W").returncode == nbaudio("select", "W", "--dev", "1", "--test", "1", "--group-by", "").returncode == 0
    )
    for words in (
        ("ingest", "parlaspeech", "asr.json", "--out", "f/W"),
        ("materialize", "W", "--out", "f/C"),
        ("review", "export", "W", "--out", "f/s.xlsx", "--n", "2"),
        ("export", "nemo", "W", "--out", "f/n"),
        ("stats", "W", "--out", "f/p.html"),
        ("wheel", "--out", "f/w"),
        ("score", "x" * 300),
        ("select", "W", "--dev", "²"),
    ):
        done = nbaudio(*words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        # Behind what the bar of progress drew.
        assert done.stderr.splitlines()[-1].startswith("nbaudio: ")
        assert "Traceback" not in done.stderr


def test_problems_are_listed_and_exit_with_1(source: Path, nbaudio: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    with (source / "asr.json").open("a") as file:
        file.write('\n{"file": "broken\n')
    np.save(source / "audio/18 1 2018 -  1. dio [abcdefghij_].npy", np.zeros(3))
    (source / "audio/18 1 2018 -  1. dio [abcdefghij_].wav").unlink()
    done = nbaudio("ingest", "parlaspeech", "asr.json", "--audio", "audio", "--out", "W")
    assert done.returncode == 1
    assert "line 17" in done.stdout
    assert "abcdefghij_" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "run",
        "download",
        "ingest",
        "score",
        "review export",
        "review import",
        "review correct-bounds",
        "review correct-texts",
        "evidence",
        "select",
        "materialize",
        "status",
        "verify",
        "stats",
    ],
)
def test_every_command_has_help_with_an_example(nbaudio: Callable[..., subprocess.CompletedProcess[str]], command: str) -> None:
    done = nbaudio(*command.split(), "--help")
    assert done.returncode == 0
    assert f"nbaudio {command}" in done.stdout
    assert "Example: " in done.stdout


@pytest.mark.parametrize(
    "words", [("materialise",), ("select", "W", "--min-similarity", "much"), ("score",), ("verify", "C", "--x")]
)
def test_wrong_use_is_exit_code_2(nbaudio: Callable[..., subprocess.CompletedProcess[str]], words: tuple[str, ...]) -> None:
    done = nbaudio(*words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("nbaudio: ")
    assert "--help' tells more" in done.stderr
    as_json = nbaudio(*words, "--json")
    assert as_json.returncode == 2
    assert json.loads(as_json.stdout)["error"]


def test_nothing_asked_for_is_the_help(tmp_path: Path) -> None:
    for words in ((), ("review",)):
        command = [sys.executable, "-m", "nbaudio", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 2
        assert "Commands" in done.stdout + done.stderr
