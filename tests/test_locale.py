"""Names are UTF-8 whatever the locale: the command line under LC_ALL=C with UTF-8 mode off."""

import hashlib
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from nbaudio import Workspace, ingest
from nbaudio.cli import app
from nbaudio.core.errors import InputError

_OURS = ("LANG", "LC_", "PYTHONIOENCODING", "PYTHONUTF8")
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
POSIX = PLAIN | {"LC_ALL": "C", "PYTHONUTF8": "0"}
UTF8 = PLAIN | {"PYTHONUTF8": "1"}
NAMES = ["čaša.wav", unicodedata.normalize("NFD", "žaba.wav"), "लोकसभा की बैठक.wav", "plain.wav"]


def nbaudio(folder, environment, *arguments):
    command = [sys.executable, "-m", "nbaudio", *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=300, check=False
    )


def make(folder, recorded):
    """Recordings whose names the locale C knows not, and transcripts that spell them composed."""
    audio = folder / "zvuk č"
    audio.mkdir(parents=True)
    lines = []
    for number, name in enumerate(NAMES):
        (audio / name).write_bytes(recorded(".wav", 12, 16000, seed=number).read_bytes())
        os.utime(audio / name, ns=(10**18, 10**18))
        said = {"file": unicodedata.normalize("NFC", name), "speaker": f"govornik š{number}"}
        said |= {"words": [f"rečenica {number}"], "asr": ["rečenica"]}
        lines += [json.dumps(said | {"start": 2 * i, "end": 2 * i + 1.5}) for i in range(5)]
    (folder / "prijepis č.jsonl").write_text("\n".join(lines), encoding="utf8")


def steps():
    """From ingest to verify."""
    workspace, corpus = "radni č", "korpus č"
    return [
        ("ingest", "parlaspeech", "prijepis č.jsonl", "--audio", "zvuk č", "--out", workspace),
        ("score", workspace),
        ("select", workspace, "--min-similarity", "-1", "--dev", "3", "--test", "3"),
        ("materialize", workspace, "--out", corpus, "--jobs", "2", "--engine", "loky"),
        ("verify", corpus, "--jobs", "2"),
    ]


def hashes(corpus):
    return {
        path.relative_to(corpus).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(corpus.rglob("*"))
        if path.is_file() and "log" not in path.name
    }


@pytest.mark.slow
def test_a_corpus_is_the_same_under_the_posix_locale(tmp_path, recorded, monkeypatch):
    reports = {"posix": [], "utf8": []}
    for name, told in reports.items():
        make(tmp_path / name, recorded)
        monkeypatch.chdir(tmp_path / name)
        for step in steps():
            if name == "posix":
                done = nbaudio(tmp_path / name, POSIX, *step, "--json")
                assert done.returncode == 0, (step[0], done.stdout.decode(), done.stderr.decode())
                told.append(json.loads(done.stdout))
            else:
                told.append(json.loads(CliRunner().invoke(app, [*step, "--json"]).stdout))
        assert told[0]["facts"]["recordings_with_audio"] == len(NAMES)
        assert told[0]["facts"]["names"] == {"exact": 3, "unicode": 1}
        assert told[0]["problems"] == []
        assert told[-1]["facts"]["whole"]
    recordings = Workspace.open(tmp_path / "posix/radni č").recordings
    assert sorted(recordings["path"]) == sorted(NAMES)
    one, other = (hashes(tmp_path / name / "korpus č") for name in ("posix", "utf8"))
    assert one == other
    assert "segments.parquet" in one


@pytest.mark.slow
def test_unusable_files_are_reported_with_their_utf8_names(tmp_path, recorded):
    make(tmp_path, recorded)
    (tmp_path / "zvuk č" / NAMES[0]).write_bytes(b"no audio")
    for extra in ([], ["--json"]):
        arguments = ["parlaspeech", "prijepis č.jsonl", "--audio", "zvuk č", "--out", "w č", *extra]
        done = nbaudio(tmp_path, POSIX, "ingest", *arguments)
        assert done.returncode == 1, done.stderr.decode()
        assert NAMES[0] in done.stdout.decode("utf8")
    problems = pl.read_parquet(tmp_path / "w č" / "problems.parquet")
    assert problems.filter(pl.col("file") == NAMES[0]).height == 1
    wrong = nbaudio(tmp_path, POSIX, "score", "nema č")
    assert wrong.returncode == 2
    assert wrong.stderr.decode("utf8").startswith("nbaudio: nema č: not a workspace")


@pytest.mark.slow
def test_reports_can_be_printed_to_ascii_output(tmp_path):
    (tmp_path / "č.jsonl").write_text(
        '{"file": "č.wav", "start": 0, "end": 1, "words": ["da"]}\nčč\n', encoding="utf8"
    )
    arguments = ("ingest", "parlaspeech", "č.jsonl", "--out", "w č")
    as_text = nbaudio(tmp_path, POSIX | {"PYTHONIOENCODING": "ascii"}, *arguments)
    assert (as_text.returncode, as_text.stderr) == (1, b"")
    assert b"jsonl line 2" in as_text.stdout
    as_json = nbaudio(tmp_path, UTF8 | {"PYTHONIOENCODING": "ascii"}, *arguments, "--json")
    [problem] = json.loads(as_json.stdout.decode("ascii"))["problems"]
    assert problem.startswith("č.jsonl line 2")


@pytest.mark.slow
def test_subtitles_with_utf8_names_are_found_under_the_posix_locale(tmp_path):
    (tmp_path / "titlovi č").mkdir()
    text = "1\n00:00:00,000 --> 00:00:01,000\nDobar dan č\n"
    (tmp_path / "titlovi č" / "सभा.srt").write_text(text, encoding="utf8")
    done = nbaudio(tmp_path, POSIX, "ingest", "subtitles", "titlovi č", "--out", "w")
    assert (done.returncode, done.stderr) == (1, b"")
    assert "problem: सभा: no such recording" in done.stdout.decode("utf8")
    segments = Workspace.open(tmp_path / "w").segments
    assert segments.select("recording_id", "text").rows() == [("सभा", "Dobar dan č")]


@pytest.mark.slow
def test_a_python_program_with_ascii_file_names_is_refused_with_the_remedy(tmp_path, recorded):
    make(tmp_path, recorded)
    program = (
        "import os, sys, nbaudio; nbaudio.ingest('parlaspeech', os.fsdecode('s.jsonl'), "
        "audio='zvuk', out='w')"
    )
    (tmp_path / "zvuk č").rename(tmp_path / "zvuk")
    (tmp_path / "prijepis č.jsonl").rename(tmp_path / "s.jsonl")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=POSIX,
        capture_output=True,
        timeout=300,
        check=False,
    )
    last = done.stderr.decode().strip().splitlines()[-1]
    assert "InputError" in last
    assert "names of files are read as ascii here, not as UTF-8; start Python with -X utf8" in last


@pytest.mark.parametrize("format", ["subtitles", "nemo"])
def test_names_that_are_no_unicode_are_reported(tmp_path, format):
    folder = tmp_path / "source"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.srt")).write_text(
        "1\n00:00:00,000 --> 00:00:01,000\nda\n", encoding="utf8"
    )
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.json")).write_text("{}", encoding="utf8")
    with pytest.raises(InputError, match=r"caf\\xe9.*not Unicode; rename it"):
        ingest(format, folder, out=tmp_path / "w")
    with pytest.raises(InputError, match=r"caf\\xe9: the out has a name that is not Unicode"):
        ingest(format, folder, out=os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
