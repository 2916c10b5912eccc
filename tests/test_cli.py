"""The command line: commands end to end on real audio, help, exit codes, errors in one line."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf
import typer
from conftest import sweeps

import nbaudio as package_of
from nbaudio.audio.channels import CHANNELS
from nbaudio.audio.encoding import ENCODERS
from nbaudio.cli import app, main
from nbaudio.core.version import __version__
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.engine import ENGINES
from nbaudio.formats.export import WRITERS as EXPORT_WRITERS
from nbaudio.review.sampling import STRATEGIES
from nbaudio.review.sheet_clips import ENCODINGS as CLIP_ENCODINGS
from nbaudio.selection.look_alikes import APART, TOGETHER
from nbaudio.sources.source_formats import READERS
from nbaudio.text.normalization import NORMALIZERS
from nbaudio.ui.statistics.stats import PAGE_SUFFIXES


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
        sf.write(
            audio / f"{name.replace(' - ', ' -  ')}.wav", sweeps(20, 16000, seed=number), 16000
        )
        for i in range(8):
            words = ["prva", "druga", f"riječ{i}", f"snimka{number}"]
            heard = words if i != 3 else ["sasvim", "nešto", "drugo"]
            line = {
                "file": f"{name}.wav",
                "start": 2.4 * i,
                "end": 2.4 * i + 2.0,
                "words": words,
                "asr": heard,
            }
            lines.append(json.dumps(line | {"speaker": f"spk{number}{i % 2}"}, ensure_ascii=False))
    (tmp_path / "asr.json").write_text("\n".join(lines), encoding="utf8")
    return tmp_path


@pytest.mark.slow
def test_commands_run_from_ingest_to_verify_unattended(
    source: Path, nbaudio: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    steps = [
        ("ingest", "parlaspeech", "asr.json", "--audio", "audio", "--out", "W"),
        ("score", "W"),
        ("evidence", "W"),
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


@pytest.mark.slow
def test_output_that_cannot_be_written_is_one_line_and_exit_code_2(
    source: Path, nbaudio: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (source / "f").write_text("a file")
    assert (
        nbaudio("ingest", "parlaspeech", "asr.json", "--audio", "audio", "--out", "W").returncode
        == 0
    )
    assert (
        nbaudio("score", "W").returncode
        == nbaudio("select", "W", "--dev", "1", "--test", "1", "--group-by", "").returncode
        == 0
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


def test_problems_are_listed_and_exit_with_1(
    source: Path, nbaudio: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
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
        "publish",
        "stats",
    ],
)
def test_every_command_has_help_with_an_example(
    nbaudio: Callable[..., subprocess.CompletedProcess[str]], command: str
) -> None:
    done = nbaudio(*command.split(), "--help")
    assert done.returncode == 0
    assert f"nbaudio {command}" in done.stdout
    assert "Example: " in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("materialise",),
        ("select", "W", "--min-similarity", "much"),
        ("score",),
        ("verify", "C", "--x"),
    ],
)
def test_wrong_use_is_exit_code_2(
    nbaudio: Callable[..., subprocess.CompletedProcess[str]], words: tuple[str, ...]
) -> None:
    done = nbaudio(*words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("nbaudio: ")
    assert "--help' has the options" in done.stderr
    as_json = nbaudio(*words, "--json")
    assert as_json.returncode == 2
    assert json.loads(as_json.stdout)["error"]


def test_a_call_without_arguments_shows_the_help(tmp_path: Path) -> None:
    for words, heading in (((), "Make a corpus:"), (("review",), "Commands:")):
        command = [sys.executable, "-m", "nbaudio", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 2
        assert heading in done.stdout + done.stderr


HEADING = re.compile(r"^(\S.*):$", re.MULTILINE)
GROUPS = {
    "Start, and bring data in": "demo run download align ingest join recognize",
    "Inspect a workspace": "score measure stats audit",
    "Review labels": "review evidence",
    "Make a corpus": "select materialize status convert export wheel",
    "Keep a corpus": "verify diff withdraw publish",
}


def sections(help_text: str) -> dict[str, str]:
    """The text below each heading of a help, without the example at its end."""
    parts = HEADING.split(help_text.partition("\n  Example: ")[0])
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("columns", [80, 120])
def test_the_help_shows_the_commands_in_groups_by_step(
    nbaudio: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    help_text = nbaudio("--help").stdout
    groups = sections(help_text)
    assert groups.pop("Options")
    listed = {
        heading: " ".join(re.findall(r"^  (\S+)", body, re.MULTILINE))
        for heading, body in groups.items()
    }
    assert listed == GROUPS
    assert [*listed] == [*GROUPS]
    assert max(map(len, help_text.splitlines())) < columns
    assert "..." not in help_text.partition("COMMAND [ARGS]...")[2]  # nothing is cut
    assert "\x1b" not in help_text


PANELS = {
    "Network": {
        "timeout",
        "tries",
        "max_wait",
        "max_size",
        "cache",
        "connections",
        "per_host",
        "per_second",
    },
    "Parallel work": {"jobs", "engine", "address", "beam_options"},
}


def test_options_of_requests_and_of_engines_have_panels_of_their_own(
    nbaudio: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    seen = set()
    for name, command in commands(typer.main.get_command(app)):
        panels = sections(nbaudio(*name.split(), "--help").stdout)
        for parameter in command.params:
            headings = [
                heading
                for heading, body in panels.items()
                if re.search(rf"^  {parameter.opts[0]}(?![\w-])", body, re.MULTILINE)
            ]
            panel = next((key for key, names in PANELS.items() if parameter.name in names), None)
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert headings == [panel or "Options"], (name, parameter.name)
                seen.add(parameter.name)
    assert set().union(*PANELS.values()) <= seen


def test_the_version_option_prints_the_version(
    nbaudio: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = nbaudio("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"nbaudio {__version__}\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_completes(
    monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    def completion_script(**variables: str) -> str:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        run = "import sys; sys.argv[0] = 'nbaudio'; from nbaudio.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", run], capture_output=True, text=True, check=True
        ).stdout

    assert "_NBAUDIO_COMPLETE=complete_" in completion_script(_NBAUDIO_COMPLETE=f"source_{shell}")
    asked = {"_TYPER_COMPLETE_ARGS": "nbaudio mat", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    if shell == "bash":
        asked = {"COMP_WORDS": "nbaudio mat", "COMP_CWORD": "1"}
    assert "materialize" in completion_script(_NBAUDIO_COMPLETE=f"complete_{shell}", **asked)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_shell_completion_can_be_shown_and_installed(tmp_path: Path) -> None:
    run = "import sys; sys.argv[0] = 'nbaudio'; from nbaudio.cli import main; main()"
    command = f'"{sys.executable}" -c "{run}" "$@"; exit $?'
    for option in ("--show-completion", "--install-completion"):
        words = ["bash", "-c", command, "bash", option]
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
    assert "complete_bash" in (tmp_path / ".bash_completions" / "nbaudio.sh").read_text()
    assert "nbaudio.sh" in (tmp_path / ".bashrc").read_text()


WITHOUT_HOME = """
import os, pwd, sys
from pathlib import Path
pwd.getpwuid = lambda number: {}[number]
sys.argv = ["nbaudio", "--version"]
from nbaudio.cli import main
try:
    main()
finally:
    assert Path.home().is_dir()
    print(Path.home())
"""


def test_users_without_a_home_get_a_temporary_one(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    words = [sys.executable, "-c", WITHOUT_HOME]
    ran = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=True,
        env=environment | {"TMPDIR": str(tmp_path)},
    )
    version, home = ran.stdout.splitlines()
    assert version.startswith("nbaudio ")
    assert Path(home).parent == tmp_path
    assert not Path(home).exists()


# Options and arguments with a fixed set of values, by name; `FREE` takes any text.
FIXED = {
    "container": [*CONTAINERS],
    "engine": [*ENGINES],
    "encoding": [*ENCODERS],
    "channel": [*CHANNELS],
    "strategy": [*STRATEGIES, "disagreements"],
    "clips": [*CLIP_ENCODINGS],
    "normalize": [*NORMALIZERS],
    "paths": ["absolute", "relative"],
    "look_alikes": [TOGETHER, APART],
    ("ingest", "format"): [*READERS],
    ("export", "format"): [*EXPORT_WRITERS],
    ("stats", "out"): [*PAGE_SUFFIXES],
}
FREE = {
    "out",
    "source",
    "workspace",
    "corpus",
    "path",
    "manifest",
    "sheets",
    "packs",
    "names",
    "audio",
    "address",
    "beam_options",
    "max_size",
    "cache",
    "shard_size",
    "disk",
    "avoid",
    "avoid_by",
    "dev",
    "test",
    "splits",
    "group_by",
    "text",
    "title",
    "language",
    "license",
    "reviewers",
    "undo",
    "reviewer",
    "adjudicator",
    "verdict_map",
    "verdicts",
    "only",
    "settings",
    "options",
    "url",
    "consent",
    "with_",
    "as_",
    "table",
    "on",
    "hypothesis",
    "column",
    "from_",
    "where",
    "target",
    "config",
    "columns",
    "limits",
    "formatting",
    "hypotheses",
    "transcripts",
    "pairs",
    "side",
    "base",
    "why",
    "by",
    "speaker",
    "recording",
    "segments",
    "a",
    "b",
}


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def takes_text(parameter):
    if hasattr(parameter, "type_descriptor"):  # newer versions of typer
        return parameter.type_descriptor.annotation in (str, list[str])
    return parameter.type.name == "text"


def test_help_lists_the_values_of_every_option_with_a_fixed_set() -> None:
    seen = set()
    for name, command in commands(typer.main.get_command(app)):
        for parameter in command.params:
            key = (name, parameter.name) if (name, parameter.name) in FIXED else parameter.name
            if key in FIXED:
                said = f"{parameter.help} {parameter.metavar or ''}"
                missing = [
                    value
                    for value in FIXED[key]
                    if not re.search(rf"(?<!\w){re.escape(value)}(?!\w)", said)
                ]
                assert missing == [], (name, key)
                seen.add(key)
            else:
                is_free = parameter.name in FREE or getattr(parameter, "hidden", False)
                assert not takes_text(parameter) or is_free, (
                    f"{name}: is {parameter.name} a fixed set?"
                )
    assert seen == set(FIXED)


SHARED = {"as_json", "timeout", "tries", "max_wait", "max_size"}


def test_every_option_is_a_parameter_of_the_function_of_the_same_name() -> None:
    for name, command in commands(typer.main.get_command(app)):
        *package, last = name.replace("-", "_").split()
        function = getattr(
            package_of.review if package else package_of, "import_" if last == "import" else last
        )
        shown = {
            parameter.name
            for parameter in command.params
            if not getattr(parameter, "hidden", False)
        }
        assert shown - SHARED <= set(inspect.signature(function).parameters), name
