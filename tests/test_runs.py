"""Runs of the notebooks: parameters, the notebooks themselves, outputs of a run, and errors of a
cell."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import redirect_stderr
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from io import StringIO
from itertools import chain
from pathlib import Path

import nbformat
import pytest
import yaml
from click.testing import CliRunner
from papermill import cli as papermill_cli

import nbaudio
from nbaudio.audio.channels import CHANNELS
from nbaudio.audio.encoding import ENCODERS
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import InputError, NbaudioError
from nbaudio.core.report import Report
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.engine import ENGINES
from nbaudio.runs import execute, kernels, papermill_manifests
from nbaudio.runs.execute import LINKS_MARKER, PageWriter, link_pages
from nbaudio.runs.kernel_server import PRELOADED
from nbaudio.runs.kernels import run_kernels
from nbaudio.runs.made_pairs import prove_made_pairs
from nbaudio.runs.manifest_run import _how_to_continue
from nbaudio.runs.manifests import load_manifest
from nbaudio.runs.parameters import (
    PATHS,
    defaults,
    list_notebooks,
    parameters,
    parse_only,
    parse_settings,
    typed,
)
from nbaudio.runs.run import run
from nbaudio.runs.server_process import kernel_server

# openslr.yaml is a list for downloads.
MANIFESTS = sorted({path.stem for path in bundled("data_manifests").glob("*.yaml")} - {"openslr"})
NOTEBOOKS = list_notebooks()
KNOWN = {name: value for notebook in NOTEBOOKS for name, value in defaults(notebook).items()}


# parameters


@pytest.fixture
def manifest(tmp_path):
    def write(text):
        path = tmp_path / "manifest folder" / "m.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf8")
        return path

    return write


def test_unknown_parameter_of_a_manifest_is_an_error_that_names_it_and_the_known_ones(manifest):
    with pytest.raises(
        InputError,
        match=r"m\.yaml: unknown parameter min_similarty \(did you mean min_similarity\?\); known",
    ):
        run(manifest("source: a.jsonl\nmin_similarty: 0.9\n"))


@pytest.mark.parametrize(
    ("said", "value"), [("source", "source"), ("my.csv", "{}/my.csv"), ("s3://b/old", "s3://b/old")]
)
def test_splits_are_those_of_the_source_or_a_path_that_is_relative_to_the_manifest(
    manifest, said, value
):
    path = manifest(f"splits: {said}")
    assert parameters(path, {})["splits"] == value.format(path.parent)


def test_an_unknown_setting_is_refused_with_the_known_ones(manifest):
    with pytest.raises(
        InputError, match=r"setting: unknown parameter sead \(did you mean seed\?\); known are "
    ):
        run(manifest("seed: 1"), settings={"sead": 2})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "is a mapping of parameters, this is list"),
        ("", "this is NoneType"),
        ("seed: [1", "not YAML"),
        ("seed: 2024-99-99", "not YAML"),
        ("seed: !!python/object/apply:os.getcwd []", "not YAML"),
        ("audio: [a, b]", "audio must be a path"),
        ("1: 2", "unknown parameter 1"),
        ("audio: a\nseed: 1\naudio: b\n", "audio is given twice, in the lines 1 and 3"),
    ],
)
def test_an_invalid_manifest_is_refused(manifest, text, message):
    with pytest.raises(InputError, match=message):
        run(manifest(text))


def test_a_missing_manifest_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.yaml: No such file"):
        run(tmp_path / "nowhere.yaml")


def test_paths_of_a_manifest_are_relative_to_it_and_those_of_settings_to_the_current_folder(
    manifest, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = manifest(
        "source: a.jsonl\naudio: https://example.org/audio\nnames: null\ncorpus: "
        "/somewhere/corpus\n"
    )
    values = parameters(path, {"workspace": "w"})
    assert values == {
        "source": str(path.parent / "a.jsonl"),
        "audio": "https://example.org/audio",
        "names": None,
        "corpus": "/somewhere/corpus",
        "workspace": str(tmp_path / "w"),
    }


def test_settings_override_the_manifest(manifest):
    assert parameters(manifest("seed: 1\ndev: 5"), {"seed": 2}) == {"seed": 2, "dev": 5}


# the manifest of notebooks that are opened by hand


@pytest.fixture
def notebooks_folder(tmp_path, monkeypatch):
    """A folder of notebooks, which is the current one, as in JupyterLab."""
    folder = tmp_path / "project" / "notebooks"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "line", ["../my-corpus.yaml", "\ufeff# mine\r\n\r\n  ../my-corpus.yaml  \r\n"]
)
def test_manifest_txt_names_the_manifest_of_notebooks_opened_by_hand(notebooks_folder, line):
    project = notebooks_folder.parent
    (notebooks_folder / "manifest.txt").write_text(line, encoding="utf8", newline="")
    (project / "my-corpus.yaml").write_text("format: kaldi\nsource: data\nn: 8\n")
    assert load_manifest("manifest.txt") == {
        "format": "kaldi",
        "source": str(project / "data"),
        "n": 8,
        "workspace": str(project / "my-corpus-output/workspace"),
        "corpus": str(project / "my-corpus-output/corpus"),
    }


def test_a_corpus_is_beside_the_workspace_that_a_manifest_names(notebooks_folder):
    (notebooks_folder / "manifest.txt").write_text("m.yaml\n")
    (notebooks_folder / "m.yaml").write_text("workspace: ../other/w\n")
    values = load_manifest()
    assert os.path.normpath(values["workspace"]) == str(notebooks_folder.parent / "other/w")
    assert os.path.normpath(values["corpus"]) == str(notebooks_folder.parent / "other/corpus")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "manifest.txt: expected one line, .* it has 0"),
        ("a.yaml\nb.yaml\n", "manifest.txt: expected one line, .* it has 2"),
        ("absent.yaml\n", "manifest.txt: there is no manifest absent.yaml"),
    ],
)
def test_manifest_txt_that_names_no_manifest_is_an_error(notebooks_folder, line, message):
    (notebooks_folder / "manifest.txt").write_text(line)
    with pytest.raises(InputError, match=message):
        load_manifest()


def test_without_manifest_txt_there_are_no_values_but_folders(notebooks_folder):
    output = notebooks_folder / "nbaudio-output"
    assert load_manifest() == {
        "workspace": str(output / "workspace"),
        "corpus": str(output / "corpus"),
    }


def test_the_bundled_manifest_txt_names_the_demo(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS[0].parent)
    values = load_manifest()
    assert Path(values["source"]).samefile(bundled("data_manifests/demo/transcripts.jsonl"))
    assert values["title"] == "nbaudio demo"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: m.yaml", "format: not given; known are parlaspeech"),
        ("format: parlaspeech", "source: not given"),
    ],
)
def test_a_manifest_without_format_or_source_is_refused(tmp_path, manifest, text, message):
    with pytest.raises(NbaudioError, match=message):
        run(manifest(text), out=tmp_path / "out", only="1")


@pytest.mark.parametrize(
    ("value", "default", "expected"),
    [
        ("1e-3", 0.8, 0.001),
        ("1e3", 42, 1000),
        (".5", None, 0.5),
        ("2h", 8, "2h"),
        ("900GB", None, "900GB"),
        ("16", "500MB", "16"),
        ("flac", "flac", "flac"),
        ("nfc,lower", [], ["nfc", "lower"]),
        (None, [], []),
        (["nfc"], [], ["nfc"]),
        (None, 16000, None),
        (True, 0.8, True),
    ],
)
def test_manifest_values_are_converted_to_the_type_of_the_default(value, default, expected):
    found = typed(value, default)
    assert (found, type(found)) == (expected, type(expected))


def test_settings_are_parsed_as_yaml():
    assert parse_settings(["a=1", "b=x", "c=[x, y]", "d=null", "e= a=b"]) == {
        "a": 1,
        "b": "x",
        "c": ["x", "y"],
        "d": None,
        "e": "a=b",
    }


@pytest.mark.parametrize("setting", ["seed", "=1", " =1"])
def test_a_setting_without_a_name_or_value_is_refused(setting):
    with pytest.raises(InputError, match="name=value"):
        parse_settings([setting])


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("3", [3]),
        ("1-5", [1, 2, 3, 4, 5]),
        ("2,4-6", [2, 4, 5, 6]),
        ("7,1", [1, 7]),
        (None, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_option_only_selects_notebooks_by_number(only, expected):
    assert parse_only(only, 7) == expected


@pytest.mark.parametrize(
    ("failed", "numbers", "command"),
    [
        (1, [1, 2, 3], "again"),
        (6, [6, 7], "again"),
        (6, [1, 2, 6, 7, 8], "with --only 6-8"),
        (2, [1, 2, 6, 7], "with --only 2,6,7"),
        (3, [1, 2, 3], "with --only 3"),
    ],
)
def test_a_failure_names_the_notebooks_that_are_left_to_run(failed, numbers, command):
    assert _how_to_continue(failed, numbers) == f"run the same command {command} to continue"


@pytest.mark.parametrize("only", ["", "0", "8", "5-3", "1-", "a", "1;2", "-1", "1-9"])
def test_option_only_with_unknown_numbers_is_refused(only):
    with pytest.raises(InputError, match="numbers from 1 to 7"):
        parse_only(only, 7)


@pytest.mark.parametrize("name", MANIFESTS)
def test_bundled_manifests_hold_known_parameters(name):
    path = bundled(f"data_manifests/{name}.yaml")
    assert set(yaml.safe_load(path.read_text(encoding="utf8"))) == set(KNOWN) - {
        "workspace",
        "corpus",
    }


# the notebooks


def cells(notebook, kind):
    return [
        cell
        for cell in json.loads(notebook.read_text(encoding="utf8"))["cells"]
        if cell["cell_type"] == kind
    ]


def test_the_eight_notebooks_are_in_order():
    names = (
        "01_ingest 02_transcripts 03_listen 04_threshold 05_review_sheet 06_splits "
        "07_materialize 08_read_back"
    )
    assert [notebook.stem for notebook in NOTEBOOKS] == names.split()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stripped_and_well_formed(notebook):
    found = json.loads(notebook.read_text(encoding="utf8"))
    nbformat.validate(found)
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert set(found["metadata"]) == {"kernelspec", "language_info"}
    assert found["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in found["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in found["cells"]:
        assert cell["metadata"] in ({}, {"tags": ["parameters"]})
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
    assert sum(bool(cell["metadata"]) for cell in found["cells"]) == 1
    assert found["cells"][0]["cell_type"] == "markdown"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_cells_hold_calls_and_no_logic(notebook):
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr, ast.Await, ast.With)
    inside = (
        ast.Call,
        ast.keyword,
        ast.Name,
        ast.Attribute,
        ast.Constant,
        ast.Subscript,
        ast.List,
        ast.Tuple,
        ast.Dict,
        ast.alias,
        ast.Load,
        ast.Store,
        ast.withitem,
        ast.BinOp,
        ast.Div,
        ast.UnaryOp,
        ast.USub,
        ast.IfExp,  # what is shown while there is no audio
    )
    for cell in cells(notebook, "code"):
        for statement in ast.parse("".join(cell["source"])).body:
            assert isinstance(statement, allowed), ast.unparse(statement)
            other = [
                node for node in ast.walk(statement) if not isinstance(node, (*allowed, *inside))
            ]
            assert not other, (
                f"{notebook.stem}: {ast.unparse(statement)} holds {type(other[0]).__name__}"
            )


def test_no_default_names_a_file_or_value_of_the_demo():
    manifest = yaml.safe_load(bundled("data_manifests/demo.yaml").read_text(encoding="utf8"))
    own_values = {"format", "source", "audio", "names", "returned", "review_n", "dev", "test"}
    own_values |= {"shard_size", "batch_s", "title", "language", "license", "made_pairs", "minutes"}
    own_values |= {"seed"}
    assert {name for name, value in manifest.items() if value != KNOWN[name]} == own_values
    assert {name for name in own_values if KNOWN[name] is not None} == {
        "shard_size",
        "batch_s",
        "seed",
    }
    assert "demo" not in json.dumps(KNOWN)


def test_a_parameter_has_the_same_default_in_every_notebook():
    for notebook in NOTEBOOKS:
        assert {name: KNOWN[name] for name in defaults(notebook)} == defaults(notebook)


def test_readme_names_every_notebook():
    readme = (NOTEBOOKS[0].parent.parent / "README.md").read_text(encoding="utf8")
    assert re.findall(r"^\| \[`(\d\d_\w+)`\]", readme, re.MULTILINE) == [
        path.stem for path in NOTEBOOKS
    ]


# runs


class Addresses(HTMLParser):
    """Whatever a page would load by itself."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag in {"script", "link", "img", "audio", "iframe", "source", "video"}:
            self.found += [
                value
                for name, value in attrs
                if name in ("src", "href") and not value.startswith("data:")
            ]


def targets(page):
    """Where the links of a page to other pages lead."""
    return re.findall(r'href="([^"#:]+)"', page.read_text(encoding="utf8"))


def list_items(index):
    """The texts of each notebook on the index of a run: its title, lines and sentence.

    Its time is replaced by ``TIME``.
    """
    page = index.read_text(encoding="utf8")
    assert not re.search(
        r"[*`]|\]\(|\.\./docs", re.sub(r"(?s)<style>.*?</style>|base64,[^\"]*", "", page)
    )
    items = re.findall(r"(?s)<li><div>(.*?)</div>", page)
    return [
        [
            re.sub(r"^\d+\.\d s · \d+ %$", "TIME", re.sub("<[^>]*>", "", part))
            for part in re.split("</h2>|</p>", item)[:-1]
        ]
        for item in items
    ]


def test_links_between_run_pages_are_updated_when_pages_are_added(tmp_path):
    for name in ("03_listen", "01_ingest"):
        page = tmp_path / "html" / f"{name}.html"
        page.parent.mkdir(exist_ok=True)
        page.write_bytes(f"<body>{LINKS_MARKER}a\r\n{LINKS_MARKER}</body>".encode())
        index = link_pages(tmp_path, NOTEBOOKS)
    assert targets(index) == ["01_ingest.html", "03_listen.html"]
    assert targets(index.with_name("01_ingest.html")) == ["index.html", "03_listen.html"] * 2
    assert targets(index.with_name("03_listen.html")) == ["01_ingest.html", "index.html"] * 2
    assert b"a\r\n" in page.read_bytes()
    assert "01 · Ingest" in index.read_text(encoding="utf8")
    (tmp_path / "report.html").touch()
    assert targets(link_pages(tmp_path, NOTEBOOKS))[2:] == ["../report.html"]


@dataclass(frozen=True)
class FirstRun:
    """A run of the first two notebooks: its folder, its report, and the lines that it printed."""

    out: Path
    report: Report
    printed: list[str]


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A run of the demo's first two notebooks; an installed kernel of the same name, which cannot
    start, must not be taken."""
    folder = tmp_path_factory.mktemp("first run")
    spec = folder / "jupyter" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(
        json.dumps({"argv": ["/no/such/python"], "display_name": "other", "language": "python"})
    )
    out = folder / "out {braces}"
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(StringIO()) as printed:
        patch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
        report = run(
            bundled("data_manifests/demo.yaml"),
            out=out,
            only="1-2",
            settings={"normalize": "lower"},
        )
        assert os.environ["JUPYTER_PATH"] == str(folder / "jupyter")
    return FirstRun(out, report, printed.getvalue().splitlines())


def outputs(notebook):
    return [output for cell in cells(notebook, "code") for output in cell["outputs"]]


@pytest.mark.slow
def test_a_run_of_some_notebooks_writes_only_their_pages(first_run):
    out, report = first_run.out, first_run.report
    assert report.facts["ran"] == ["01_ingest", "02_transcripts"]
    assert report.facts["workspace"] == str(out / "workspace")
    assert "corpus" not in report.facts
    assert (report.facts["ingest"]["segments"], report.facts["score"]["scored"]) == (121, 121)
    assert [line for line in report.problems if line.startswith("ingest: ") and "line 53" in line]
    assert [line.rsplit(" … ", 1)[0] for line in first_run.printed] == [
        "1/8 01_ingest",
        "2/8 02_transcripts",
    ]

    assert sorted(
        path.name for path in out.glob("*/*") if path.is_file() and path.parent.name != "workspace"
    ) == [
        "01_ingest.html",
        "01_ingest.ipynb",
        "02_transcripts.html",
        "02_transcripts.ipynb",
        "index.html",
    ]
    assert report.facts["open"] == str(out / "html" / "index.html")
    assert targets(out / "html" / "index.html") == ["01_ingest.html", "02_transcripts.html"]
    assert targets(out / "html" / "01_ingest.html") == ["index.html", "02_transcripts.html"] * 2
    assert targets(out / "html" / "02_transcripts.html") == ["01_ingest.html", "index.html"] * 2
    assert list_items(out / "html" / "index.html") == [
        [
            "01 · Ingest",
            "TIME",
            "121 segments, 7 recordings, 7 min 53 s, 2 names without a file",
            "Reads the transcripts, finds the file for each name in them, and probes every "
            "recording.",
        ],
        [
            "02 · Transcripts",
            "TIME",
            "median similarity 0.982, 121 of 121 segments scored",
            "Compares each transcript with the hypothesis of a recognizer, and shows both texts.",
        ],
    ]
    assert (out / "html" / "index.html").read_text("utf8").count('src="data:image/png;base64,') == 2
    shown = re.sub(" {2,}", "  ", str(report))
    assert "\n  score  median similarity 0.982, 121 of 121 segments scored\n" in shown
    for name in report.facts["ran"]:
        executed = out / "notebooks" / f"{name}.ipynb"
        assert not [output for output in outputs(executed) if output["output_type"] == "error"]
        assert [output for output in outputs(executed) if "image/png" in output.get("data", {})]
        assert "widgets" not in json.loads(executed.read_text())["metadata"]
        page = (out / "html" / f"{name}.html").read_text(encoding="utf8")
        assert Addresses(page).found == []
        assert "data:image/png" in page
        assert "glossary.md" not in page
    injected = [
        "".join(cell["source"])
        for cell in cells(out / "notebooks" / "02_transcripts.ipynb", "code")
    ][2]
    assert 'normalize = ["lower"]' in injected
    assert "source" not in injected


def test_a_run_page_shows_parameters_once_and_no_absolute_paths(first_run):
    page = (first_run.out / "html" / "01_ingest.html").read_text("utf8")
    words = unescape(re.sub(r"<[^>]*>", "", page))
    assert words.count("folder of the tables; all notebooks share it") == 1
    assert 'workspace = "out {braces}/workspace"' in words
    assert 'format = "parlaspeech"  # layout of the transcripts' in words
    assert 'source = "…/demo/transcripts.jsonl"' in words
    for folder in (first_run.out.parent, bundled("data_manifests"), Path.home()):
        assert str(folder) not in page
    kept = "".join(
        "".join(cell["source"])
        for cell in cells(first_run.out / "notebooks" / "01_ingest.ipynb", "code")
    )
    assert str(first_run.out / "workspace") in kept


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"source": "gone"}, "source: .*gone: there is no such file or folder of transcripts"),
        ({"audio": "gone"}, "audio: .*gone: there is no such audio folder"),
        ({"audio": __file__}, "audio: .*: is a file; expected the folder of the recordings"),
        ({"returned": "gone"}, "returned: .*gone: there is no such folder of returned sheets"),
        ({"splits": "gone.csv"}, "splits: .*gone.csv: there is no such table or corpus"),
        ({"format": "kaldy"}, "format 'kaldy' is unknown; known are parlaspeech"),
        ({"options": {"tier": "a"}}, "option 'tier' is unknown to parlaspeech"),
        ({"min_similarity": 80}, "min_similarity=80: must be a number from -1 to 1"),
        ({"dev": "some"}, "dev='some': allowed are"),
        ({"container": "rar"}, "container 'rar' is unknown"),
        ({"encoding": "wma"}, "encoding 'wma' is unknown"),
        ({"channel": "up"}, "channel"),
        ({"shard_size": "big"}, "big"),
        ({"rate": 0}, "rate must be 1 Hz or more"),
        ({"engine": "slurm"}, "engine 'slurm' is unknown"),
        ({"jobs": 0}, "jobs must be 1 or more"),
    ],
)
def test_what_a_run_needs_is_checked_before_the_first_notebook(setting, message, tmp_path):
    with pytest.raises(NbaudioError, match=message):
        run(bundled("data_manifests/demo.yaml"), out=tmp_path / "out", settings=setting)
    assert not (tmp_path / "out").exists()


def test_run_of_a_url_is_refused_without_its_secret(tmp_path):
    with pytest.raises(NbaudioError, match=r"https://host/x.*: is a URL; name its") as error:
        run("https://ana:secret@host/x?token=secret", out=tmp_path / "out")
    assert "secret" not in str(error.value)


@pytest.mark.slow
def test_only_what_the_chosen_notebooks_need_is_checked(tmp_path):
    settings = {"source": "gone", "container": "rar"}
    with pytest.raises(NbaudioError, match=r"04_threshold.*no workspace"):
        run(bundled("data_manifests/demo.yaml"), out=tmp_path / "out", settings=settings, only="4")


def test_an_engine_without_its_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("nbaudio.runs.preflight.find_spec", lambda package: None)
    with pytest.raises(NbaudioError, match=r"pyspark is not installed.*nbaudio\[spark\]"):
        run(bundled("data_manifests/demo.yaml"), out=tmp_path / "out", settings={"engine": "spark"})


@pytest.mark.slow
def test_a_failing_cell_is_named_and_its_notebook_is_kept(tmp_path, manifest, capsys):
    out = tmp_path / "out"
    (tmp_path / "manifest folder").mkdir(exist_ok=True)
    (tmp_path / "manifest folder/nowhere.jsonl").touch()
    with pytest.raises(
        NbaudioError,
        match=r"01_ingest, cell \d+: InputError: .*nowhere\.jsonl.*kept: .*01_ingest\.ipynb",
    ):
        run(manifest("format: parlaspeech\nsource: nowhere.jsonl\naudio: null"), out=out)
    executed = out / "notebooks" / "01_ingest.ipynb"
    assert [
        output["ename"] for output in outputs(executed) if output["output_type"] == "error"
    ] == ["InputError"]
    assert "nowhere.jsonl" in (out / "html" / "01_ingest.html").read_text(encoding="utf8")
    [[title, seconds, stopped, sentence]] = list_items(out / "html" / "index.html")
    assert (title, seconds, sentence[:22]) == ("01 · Ingest", "TIME", "Reads the transcripts,")
    assert stopped.startswith("stopped: InputError: …/manifest folder/nowhere.jsonl")
    assert [path.name for path in (out / "notebooks").iterdir()] == ["01_ingest.ipynb"]
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_sizes_that_leave_nothing_for_train_are_refused_in_the_first_notebook(tmp_path):
    message = (
        r"01_ingest, cell \d+: InputError: dev: 2,000 segments and test: 2,000 segments: nothing "
        r"would be left for train, as 112 segments are usable; .*; run the same command again to "
        r"continue"
    )
    with pytest.raises(NbaudioError, match=message):
        run(
            bundled("data_manifests/demo.yaml"),
            out=tmp_path / "out",
            settings={"dev": 2000, "test": 2000},
        )


@pytest.mark.slow
def test_sizes_that_the_selection_cannot_fill_are_refused_with_the_way_to_continue(
    first_run, tmp_path
):
    shutil.copytree(first_run.out, tmp_path / "out")
    message = (
        r"06_splits, cell \d+: InputError: dev: 60 segments requested, but of the 91 segments that "
        r"pass the filters.*; run the same command with --only 6-8 to continue"
    )
    with pytest.raises(NbaudioError, match=message):
        run(
            bundled("data_manifests/demo.yaml"),
            out=tmp_path / "out",
            settings={"dev": 60, "test": 50},
            only="2,6-8",
        )


@pytest.fixture
def one_cell(tmp_path):
    """Write a notebook of one cell, and make the folders of a run, `out`."""

    def write(code):
        for name in ("notebooks", "html"):
            (tmp_path / "out" / name).mkdir(parents=True)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
        nbformat.write(notebook, tmp_path / "cell.ipynb")
        return tmp_path / "cell.ipynb"

    return write


@pytest.mark.slow
def test_a_kernel_whose_port_is_taken_is_started_again(one_cell, tmp_path, monkeypatch):
    real = execute.papermill.execute_notebook
    starts = []

    def start(*args, **options):
        starts.append(args)
        if len(starts) < 3:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return real(*args, **options)

    monkeypatch.setattr(execute.papermill, "execute_notebook", start)
    source = one_cell("print('started')")
    out = tmp_path / "out"
    with run_kernels(None, out, ["cell"]) as kernels:
        execute.execute(source, {}, pages=PageWriter(out), kernels=kernels)
    assert len(starts) == 3
    [output] = outputs(tmp_path / "out/notebooks/cell.ipynb")
    assert "".join(output["text"]) == "started\n"
    starts.clear()
    monkeypatch.setattr(execute, "_STARTS", 2)
    message = r"cell: no kernel can be started \(Kernel died"
    with run_kernels(None, out, []) as kernels, pytest.raises(NbaudioError, match=message):
        execute.execute(source, {}, pages=PageWriter(out), kernels=kernels)


@pytest.fixture(scope="module")
def server():
    """A server of kernels; tests leave no kernel of theirs."""
    with kernel_server() as made:
        yield made


forked_or_new = pytest.mark.parametrize("is_forked", [True, False], ids=["forked", "new"])


@pytest.mark.slow
@forked_or_new
def test_a_kernel_that_dies_is_named_and_its_notebook_is_kept(
    is_forked, server, one_cell, tmp_path
):
    source = one_cell("import os; os._exit(1)")
    out = tmp_path / "out"
    pages = PageWriter(out)
    message = r"cell: its kernel died; .* \(kept: .*cell\.ipynb\)"
    with (
        run_kernels(server if is_forked else None, out, ["cell"]) as kernels,
        pytest.raises(NbaudioError, match=message),
    ):
        execute.execute(source, {}, pages=pages, kernels=kernels)
    pages.finish()
    assert (tmp_path / "out/notebooks/cell.ipynb").exists()
    assert "_exit" in (tmp_path / "out/html/cell.html").read_text("utf8")


# What a kernel has: its process, names, environment, draws, session, and Polars.
STATE = """import os, sys
import numpy as np, polars as pl
was_left = ("left" in globals(), "LEFT" in os.environ, hasattr(sys, "left"))
left = sys.left = os.environ["LEFT"] = "1"
frame = pl.LazyFrame({"a": [1, 1, 2]}).group_by("a").len().sort("a").collect(engine="streaming")
counts = frame["len"].to_list()
print(os.getpid(), os.getsid(0), was_left, np.random.random(), counts, os.getcwd())"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")
def test_forked_kernels_share_nothing_and_end(server, one_cell, tmp_path):
    source = one_cell(STATE)
    out = tmp_path / "out"
    pages = PageWriter(out)
    lines = []
    with run_kernels(server, out, ["cell", "cell"]) as kernels:
        for _ in range(2):
            execute.execute(source, {}, pages=pages, kernels=kernels)
            [output] = outputs(out / "notebooks/cell.ipynb")
            lines.append("".join(output["text"]))
    for line in lines:
        assert not Path(f"/proc/{line.split()[0]}").exists()
        process, session, rest = line.split(maxsplit=2)
        assert process == session
        assert rest.startswith("(False, False, False) ")
        assert rest.endswith(f" [2, 1] {tmp_path / 'out'}\n")
    assert len({line.split()[0] for line in lines}) == 2
    assert len({line.split()[5] for line in lines}) == 2


# Whether the process that forked this kernel has another one, now or within 30 s.
SIBLING = """import os, time
import psutil
end = time.monotonic() + 30
def is_alone():
    processes = psutil.Process(os.getppid()).children()
    return [process.pid for process in processes if process.status() != "zombie"] == [os.getpid()]
while (alone := is_alone()) and time.monotonic() < end:
    time.sleep(0.05)
print(not alone)"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")
def test_the_next_kernel_starts_while_a_notebook_runs(server, one_cell, tmp_path):
    source = one_cell(SIBLING)
    out = tmp_path / "out"
    with run_kernels(server, out, ["cell", "cell"]) as kernels:
        execute.execute(source, {}, pages=PageWriter(out), kernels=kernels)
    [output] = outputs(out / "notebooks/cell.ipynb")
    assert "".join(output["text"]) == "True\n"


@pytest.mark.slow
def test_a_kernel_that_ends_before_it_answers_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "_ARGUMENTS", ["--IPKernelApp.kernel_class=no.such.Kernel"])
    with (
        run_kernels(None, tmp_path, ["cell"]) as run,
        pytest.raises(RuntimeError, match="died before replying"),
    ):
        run.take()


# Which modules a kernel has before its first cell imports any, and the names in this cell.
IMPORTED = 'print("imaplib" in __import__("sys").modules, sorted(globals()))'


@pytest.mark.slow
@forked_or_new
def test_a_kernel_imports_packages_ahead_and_gets_no_names(
    is_forked, server, one_cell, tmp_path, monkeypatch
):
    source = one_cell(IMPORTED)
    out = tmp_path / "out"
    lines = []
    for packages in ((), ("no_such_package", "imaplib")):
        monkeypatch.setattr(kernels, "IMPORTED_AHEAD", {"cell": packages})
        with run_kernels(server if is_forked else None, out, ["cell"]) as run:
            execute.execute(source, {}, pages=PageWriter(out), kernels=run)
        [output] = outputs(out / "notebooks/cell.ipynb")
        lines.append("".join(output["text"]))
    names = lines[0].removeprefix("False ")
    assert lines == [f"False {names}", f"True {names}"]


def test_what_is_imported_ahead_is_of_notebooks_and_not_of_all():
    notebooks = {notebook.stem for notebook in list_notebooks()}
    assert set(kernels.IMPORTED_AHEAD) <= notebooks
    assert not set(chain.from_iterable(kernels.IMPORTED_AHEAD.values())) & set(PRELOADED)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")
def test_what_the_server_of_kernels_imports_starts_no_threads_of_polars(server, one_cell, tmp_path):
    source = one_cell("import os; print(os.getppid())")
    out = tmp_path / "out"
    with run_kernels(server, out, ["cell"]) as kernels:
        execute.execute(source, {}, pages=PageWriter(out), kernels=kernels)
    [output] = outputs(out / "notebooks/cell.ipynb")
    threads = Path("/proc", "".join(output["text"]).strip(), "task").glob("*/comm")
    names = {path.read_text().strip() for path in threads}
    assert names
    assert not [name for name in names if name.startswith("polars-0")]


@pytest.mark.slow
@forked_or_new
def test_a_notebook_of_a_run_shows_plots_of_pyplot(is_forked, server, one_cell, tmp_path):
    source = one_cell("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.title('a'); None")
    out = tmp_path / "out"
    with run_kernels(server if is_forked else None, out, ["cell"]) as kernels:
        execute.execute(source, {}, pages=PageWriter(out), kernels=kernels)
    [output] = outputs(tmp_path / "out/notebooks/cell.ipynb")
    assert "image/png" in output["data"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_leaves_no_kernel(signum, one_cell, tmp_path):
    source = one_cell("import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)")
    script = f"""
from pathlib import Path
from nbaudio.runs.execute import PageWriter, execute
from nbaudio.runs.kernels import run_kernels
from nbaudio.runs.server_process import kernel_server
out = Path({str(tmp_path / "out")!r})
with kernel_server() as server, run_kernels(server, out, ["cell", "cell"]) as kernels:
    execute(Path({str(source)!r}), {{}}, pages=PageWriter(out), kernels=kernels)
"""
    run_of_cell = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    pid = tmp_path / "out" / "pid"
    wait_until(lambda: pid.exists() and pid.read_text())
    kernel = Path("/proc", pid.read_text())
    server_process = Path("/proc", re.search(r"PPid:\s(\d+)", (kernel / "status").read_text())[1])
    run_of_cell.send_signal(signum)
    assert run_of_cell.wait(60) != 0
    wait_until(lambda: not is_running(kernel) and not is_running(server_process))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_made_pairs_are_proven_while_the_first_notebooks_run(tmp_path):
    made_pairs = bundled("data_manifests/demo.yaml").parent / "made_pairs"
    out = tmp_path / "made-pairs"
    log = out / ".running"
    with kernel_server() as server:
        process = server.request("prove", str(made_pairs), str(out))
        wait_until(lambda: log.exists() and log.read_text("utf8").endswith("\n"))
        assert json.loads(log.read_text("utf8"))["pid"] == process
        report = prove_made_pairs(made_pairs, out)  # waits
        wait_until(lambda: server.request("poll", process) == 0)
    assert not log.exists()
    assert report.facts["after_round_2"].startswith("300 reviewed, 25 wrong. ")


def is_running(process):
    """Whether a process of /proc exists and is no zombie."""
    try:
        return "State:\tZ" not in (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition):
    """Wait until a condition holds, at most two minutes."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_output_path_that_is_a_file_is_refused(tmp_path, manifest):
    (tmp_path / "out").touch()
    with pytest.raises(NbaudioError, match="out"):
        run(manifest("seed: 1"), out=tmp_path / "out", only="3")


# plain papermill


PAPERMILL = "from papermill.__main__ import papermill; papermill()"
WHERE = ("", "notebooks", "elsewhere")


@pytest.fixture
def papermill(monkeypatch):
    """What papermill writes for a notebook and a manifest without executing it: the parameters that
    it injects."""
    assert papermill_manifests.handler.read  # registered
    monkeypatch.setattr("papermill.cli.INPUT_PIPED", False)

    def prepare(notebook, manifest, folder, *options):
        monkeypatch.chdir(folder)
        words = [
            str(notebook),
            "prepared.ipynb",
            "-f",
            str(manifest),
            "--prepare-only",
            "--no-progress-bar",
            *options,
        ]
        done = CliRunner().invoke(papermill_cli.papermill, words)
        assert not isinstance(done.exception, Exception), done.exception
        if done.exit_code:
            return done
        found = nbformat.read(folder / "prepared.ipynb", as_version=4)
        return found.metadata["papermill"]["parameters"]

    return prepare


@pytest.fixture
def checkout(tmp_path):
    """Notebooks and manifests in a folder of their own, and another folder."""
    top = tmp_path / "checkout"
    for name in ("notebooks", "data_manifests"):
        (top / name).mkdir(parents=True)
        for path in bundled(name).iterdir():
            if path.is_file():
                (top / name / path.name).write_bytes(path.read_bytes())
    (top / "elsewhere").mkdir()
    return top


@pytest.mark.slow
@pytest.mark.parametrize("where", WHERE)
def test_papermill_takes_every_manifest_for_every_notebook_from_every_folder(
    checkout, papermill, caplog, where
):
    for number, manifest in enumerate(MANIFESTS):
        said = yaml.safe_load(
            (checkout / "data_manifests" / f"{manifest}.yaml").read_text(encoding="utf8")
        )
        # Every two of manifest, notebook and folder meet.
        for notebook in NOTEBOOKS[(number + WHERE.index(where)) % len(WHERE) :: len(WHERE)]:
            folder = checkout / where
            path = Path(os.path.relpath(checkout / "data_manifests" / f"{manifest}.yaml", folder))
            given = papermill(
                os.path.relpath(checkout / "notebooks" / notebook.name, folder), path, folder
            )
            assert set(given) == set(defaults(notebook))
            for name, value in given.items():
                if name in ("workspace", "corpus"):
                    assert value == str(checkout / f"{manifest}-output" / name)
                elif name in PATHS and said[name] not in (None, "source"):
                    assert value == str(checkout / "data_manifests" / said[name])
                else:
                    assert value == typed(said[name], KNOWN[name])
    assert "unknown parameter" not in caplog.text


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_papermill_takes_nothing_from_the_manifest_that_manifest_txt_names(
    checkout, papermill, notebook
):
    (checkout / "own.yaml").write_text("format: kaldi\nsource: data\naudio: recordings\n")
    values = papermill(notebook.name, Path("../own.yaml"), checkout / "notebooks")
    expected = defaults(notebook) | {
        name: str(checkout / f"own-output/{name}") for name in ("workspace", "corpus")
    }
    expected |= {
        "format": "kaldi",
        "source": str(checkout / "data"),
        "audio": str(checkout / "recordings"),
    }
    assert values == {name: expected[name] for name in defaults(notebook)}


def test_papermill_leaves_other_notebooks_and_files_alone(tmp_path, manifest, papermill):
    other = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "", "language": "python"}}
    )
    other.cells.append(nbformat.v4.new_code_cell("source = 1", metadata={"tags": ["parameters"]}))
    nbformat.write(other, tmp_path / "other.ipynb")
    assert papermill("other.ipynb", manifest("source: a\nanything: b"), tmp_path) == {
        "source": "a",
        "anything": "b",
    }


def test_papermill_says_which_key_of_a_manifest_is_unknown_in_one_line(
    tmp_path, manifest, papermill
):
    done = papermill(NOTEBOOKS[2], manifest("sead: 1"), tmp_path)
    assert done.exit_code == 1
    assert re.fullmatch(
        r"Error: .*m\.yaml: unknown parameter sead \(did you mean seed\?\); known are .*\n",
        done.output,
    )


def test_papermill_passes_parameters_of_own_notebooks_and_command_line(
    tmp_path, manifest, papermill
):
    own = nbformat.read(NOTEBOOKS[2], as_version=4)
    own.cells[2].source += "\nloud: bool = False\nwhen = list('ab')\n"
    nbformat.write(own, tmp_path / "own.ipynb")
    path = manifest("seed: 1\nloud: true\nwhen: [c]\nworkspace: w\nrate: 8000")
    values = {name: KNOWN[name] for name in ("n", "where", "ids", "channel", "measure_with")}
    values |= {"seed": 1, "loud": True, "when": ["c"], "workspace": str(path.parent / "w")}
    assert papermill("own.ipynb", path, tmp_path) == values
    assert papermill(
        "own.ipynb", path, tmp_path, "-p", "seed", "2", "-p", "workspace", "v"
    ) == values | {
        "seed": 2,
        "workspace": "v",
    }
    more = tmp_path / "more.yaml"
    more.write_text("seed: 3")
    assert papermill("own.ipynb", path, tmp_path, "-f", str(more)) == values | {"seed": 3}


@pytest.mark.slow
def test_papermill_finds_the_handler_by_its_entry_point_and_executes(tmp_path):
    """As installed: a folder of metadata with the entry points that pyproject.toml declares."""
    top = Path(nbaudio.__file__).parent.parent
    metadata = tmp_path / "site" / "declared-1.dist-info"
    metadata.mkdir(parents=True)
    declared = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf8"))["project"][
        "entry-points"
    ]["papermill.io"]
    lines = [f"{name} = {value}\n" for name, value in declared.items()]
    (metadata / "entry_points.txt").write_text("[papermill.io]\n" + "".join(lines))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1\n")
    words = [
        str(NOTEBOOKS[0]),
        "out.ipynb",
        "-f",
        str(bundled("data_manifests/demo.yaml")),
        "-p",
        "workspace",
        "W",
    ]
    paths = os.pathsep.join([str(top), str(metadata.parent)])
    done = subprocess.run(
        [sys.executable, "-c", PAPERMILL, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "unknown parameter" not in done.stderr
    assert (tmp_path / "W" / "segments.parquet").is_file()


def test_comments_of_notebook_parameters_list_the_allowed_values():
    known = {"container": CONTAINERS, "encoding": ENCODERS, "engine": ENGINES, "channel": CHANNELS}
    lines = [
        line
        for path in NOTEBOOKS
        for cell in cells(path, "code")
        if cell["metadata"]
        for line in cell["source"]
    ]
    told = {}
    for line in lines:
        if found := re.fullmatch(r"(\w+) = manifest\.get\(.*\)  # or (.*)\n?", line):
            told[found[1]] = {KNOWN[found[1]], *re.findall(r'"(\w+)"', found[2])}
        elif found := re.fullmatch(r"# (\w+): (.*)\n?", line):
            told[found[1]] = {*re.findall(r'"(\w+)"', found[2])}
    assert {name: told[name] for name in known} == {
        name: set(values) for name, values in known.items()
    }
