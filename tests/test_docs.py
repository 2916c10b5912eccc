"""README and docs: links, pictures, the index, commands, options and names that exist, and code
blocks that run."""

import ast
import importlib
import json
import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
import typer
import yaml
from pages import FENCED, TOP, blocks, text
from sittings import make_sitting
from specimens import LAYOUTS, tone

import nbaudio
from nbaudio.cli import app, main
from nbaudio.core.bundled_files import bundled
from nbaudio.tables import schemas

DOCS = sorted((TOP / "docs").glob("*.md"))
PAGES = [
    TOP / "README.md",
    TOP / "CONTRIBUTING.md",
    TOP / "SECURITY.md",
    TOP / "data_manifests/demo/README.md",
    *DOCS,
]


def name(path):
    return path.relative_to(TOP).as_posix()


def links(path):
    """Targets of links and pictures, without those in code."""
    prose = re.sub(r"`[^`\n]*`", "code", FENCED.sub("", text(path)))
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose)


def anchors(path):
    """What headings are called in addresses on GitHub."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(path):
    """Every nbaudio command in code: the words of each."""
    code = "\n".join(body for language, body in FENCED.findall(text(path)) if language != "python")
    prose = FENCED.sub("", text(path))
    lines = [
        line.strip() for line in (code + prose).splitlines() if line.startswith("    nbaudio ")
    ]
    spans = re.findall(r"`(nbaudio [^`\n]+)`", prose)
    return [shlex.split(line.replace("\\|", "|"), comments=True) for line in (*lines, *spans)]


def test_readme_is_short():
    assert len((TOP / "README.md").read_bytes()) <= 9000


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page):
    lost = []
    for target in links(page):
        if re.match(r"[a-z]+://", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            lost.append(target)
    assert lost == []


def test_the_index_links_every_page_once():
    assert sorted(target for target in links(TOP / "docs/README.md") if "/" not in target) == [
        path.name for path in DOCS if path.name != "README.md"
    ]


def test_every_picture_is_linked_from_a_page_and_below_300_kb():
    shown = {(page.parent / target).resolve() for page in PAGES for target in links(page)}
    pictures = set((TOP / "docs/img").iterdir())
    assert pictures - shown == set()
    assert [path.name for path in pictures if path.stat().st_size >= 300_000] == []


@cache
def root():
    return typer.main.get_command(app)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_their_options_exist(page):
    unknown = []
    for words in commands(page):
        command, rest = root(), words[1:]
        while rest and hasattr(command, "commands") and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        options = {
            option
            for parameter in command.params
            for option in parameter.opts + parameter.secondary_opts
        }
        asked = {
            word.partition("=")[0].strip("[]") for word in rest if word.strip("[").startswith("-")
        }
        if (hasattr(command, "commands") and not asked) or asked - options - {"--help"}:
            unknown.append(" ".join(words))
    assert unknown == []


def test_the_reference_has_the_groups_of_the_help():
    section = text(TOP / "docs/reference.md").split("\n## Commands\n")[1].split("\n## ")[0]
    parts = re.split(r"^### (.+)$", section, flags=re.MULTILINE)
    page = {
        heading: set(re.findall(r"^\| `nbaudio (\w+)", table, re.MULTILINE))
        for heading, table in zip(parts[1::2], parts[2::2], strict=True)
    }
    panels = {}
    for command_name, command in root().commands.items():
        panels.setdefault(str(command.rich_help_panel), set()).add(command_name)
    assert page == panels


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_targets_of_make_exist(page):
    targets = set(re.findall(r"^(\w+):", text(TOP / "Makefile"), re.MULTILINE))
    assert (
        set(re.findall(r"(?:^    |`)(?:\w+=\w+ )*make (\w+)", text(page), re.MULTILINE)) <= targets
    )


PREFIXES = ("adapters", "audio", "leakage", "plots", "review", "text", "views", "widgets")


def public_names(page):
    """Dotted names of nbaudio in code spans and Python blocks, such as `widgets.Player`, with
    `nbaudio.` before them."""
    code = "\n".join(body for language, body in FENCED.findall(text(page)) if language == "python")
    spans = "\n".join(re.findall(r"`([^`\n]+)`", FENCED.sub("", text(page))))
    found = re.findall(
        rf"(?<![\w./-])(?:nbaudio|{'|'.join(PREFIXES)})(?:\.[A-Za-z_]+)+(?![\w/-])",
        f"{code}\n{spans}",
    )
    return {
        each if each.startswith("nbaudio.") else f"nbaudio.{each}"
        for each in found
        if not each.endswith(".md")
    }


def exists(dotted):
    """Whether a dotted name leads somewhere, through modules and attributes."""
    found, path = nbaudio, "nbaudio"
    for part in dotted.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(path)
            except ModuleNotFoundError as error:
                # An adapter whose framework is not installed is there all the same.
                return error.name is not None and not error.name.startswith("nbaudio")
    return True


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_public_names_exist(page):
    assert {each for each in public_names(page) if not exists(each)} == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_of_the_repository_that_are_named_exist(page):
    named = re.findall(
        r"`((?:nbaudio|tests|benchmarks|docs|notebooks|data_manifests)/[\w./-]+)`", text(page)
    )
    assert [each for each in named if not (TOP / each).exists()] == []


def test_the_reference_has_every_name_that_nbaudio_exports():
    names = text(TOP / "docs/reference.md").split("\n## Python API\n")[1]
    listed = set(re.findall(r"`(\w+)", names))
    assert set(nbaudio.__all__) - {"__version__"} <= listed


@pytest.mark.parametrize("table", ["RECORDINGS", "SEGMENTS"])
def test_the_page_of_tables_has_every_column(table):
    section = text(TOP / "docs/tables.md").split(f"<!-- types: {table} -->")[1].split("\n## ")[0]
    columns = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert columns[: len(getattr(schemas, table))] == list(getattr(schemas, table))


def test_the_site_shows_every_page_once():
    def pages(entries):
        for entry in entries:
            value = next(iter(entry.values())) if isinstance(entry, dict) else entry
            yield from [value] if isinstance(value, str) else pages(value)

    class Loader(yaml.SafeLoader):
        pass

    nav = list(pages(yaml.load(text(TOP / "mkdocs.yml"), Loader)["nav"]))  # noqa: S506 - derived from SafeLoader
    assert len(nav) == len(set(nav))
    assert {path.name for path in DOCS} - {"README.md"} <= set(nav)
    assert nav[:2] == ["index.md", "pages.md"]  # README of the repository, and the list of pages


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_code_is_python(page):
    for language, body in FENCED.findall(text(page)):
        if language == "python":
            ast.parse(body)


# Code blocks that run


DEMO = bundled("data_manifests/demo.yaml").with_suffix("")
RUN = [page for page in PAGES if any(not block.reason for block in blocks(page))]
# Pages whose results have a test of their own, and those that take seconds: workbooks with clips,
# pages with plots.
RESULTS = (TOP / "README.md", TOP / "docs/reading.md")
SLOW = {"evidence.md", "review.md", "tables.md"}
# Where a step makes a folder that the pages before it have made, it makes it anew.
MAKES = {"align", "ingest", "materialize", "convert", "export"}


def call(words, monkeypatch):
    """Run a command in this process, with one job; its exit code."""
    step = root()
    for word in words[1:3]:
        step = getattr(step, "commands", {}).get(word, step)
    if any("--jobs" in parameter.opts for parameter in step.params):
        words = [*words, "--jobs", "1"]  # the last one holds
    if words[1] in MAKES and Path(words[words.index("--out") + 1]).is_dir():
        shutil.rmtree(words[words.index("--out") + 1])
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code or 0


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with what the pages assume: the demo corpus as `W` and `CORPUS`, and small
    sources."""
    folder = tmp_path_factory.mktemp("prepared")
    for file in ("transcripts.jsonl", "wav.scp"):
        shutil.copy(DEMO / file, folder)
    shutil.copytree(DEMO / "audio", folder / "audio")
    sources = {"audio": folder / "audio", "names": folder / "wav.scp"}
    nbaudio.ingest("parlaspeech", folder / "transcripts.jsonl", **sources, out=folder / "W")
    nbaudio.score(folder / "W")
    nbaudio.select(folder / "W", min_similarity=0.8, dev=8, test=8)
    nbaudio.materialize(folder / "W", out=folder / "CORPUS", shard_size="1MB", jobs=1)
    (folder / "demo-output").mkdir()
    for name_, there in (("workspace", "W"), ("corpus", "CORPUS")):
        (folder / "demo-output" / name_).symlink_to(f"../{there}")
    for number, seconds in enumerate((21, 12)):
        tone(folder / f"songs/{seconds}.wav", seconds, seed=number)
    foreign_layouts(folder)
    sitting = make_sitting(1, 40)
    for part, file, text_ in (
        ("hypotheses", "21.ctm", sitting.ctm("21")),
        ("minutes", "21.txt", sitting.text),
    ):
        (folder / part).mkdir()
        (folder / part / file).write_text(text_, encoding="utf8")
    (folder / "recordings").symlink_to("songs")
    (folder / "pairs.csv").write_text("recording,transcript\n21,21.txt\n", encoding="utf8")
    return folder


def foreign_layouts(folder):
    """Make the sources that docs/ingest.md reads."""
    rows = (
        "name,start,end,sentence,narrator\n21.wav,0,1.5,dobar dan,ana\n12.wav,2,3.5,dobra noć,ben\n"
    )
    (folder / "segments.csv").write_text(rows, encoding="utf8")
    made = LAYOUTS["subtitles"](folder / "made").source
    made.rename(folder / "talks")
    workspace = nbaudio.Workspace.open(folder / "W")
    rows = workspace.segments.join(workspace.recordings, on="recording_id").filter(
        pl.col("text").str.contains(r"\w")
    )
    heard = rows.select(
        "segment_id",
        file="path",
        start="source_start",
        end="source_end",
        text=pl.col("text") + "!",
        snr=pl.lit(9.5),
    )
    heard.select("segment_id", "text").write_csv(folder / "verbatim.tsv", separator="\t")
    heard.select("text", hashname="segment_id").write_csv(folder / "small.csv")
    heard.select("segment_id", "snr").write_csv(folder / "snr.csv")
    heard.drop("segment_id", "snr").write_ndjson(folder / "large.jsonl")
    (folder / "own.tsv").write_text("hr\tRH\tRepublika Hrvatska\n", encoding="utf8")


def run(page, monkeypatch):
    """Run the blocks of a page in the current folder; the names that its Python code has made."""
    names = {}
    for block in blocks(page):
        if block.reason:
            continue
        if block.kind == "python":
            exec(block.code.replace('"data_manifests/demo"', repr(str(DEMO))), names)  # noqa: S102
            continue
        for line in block.code.splitlines():
            words = shlex.split(line, comments=True)
            # Sources have broken lines
            assert call(words, monkeypatch) in (
                {0, 1} if words[1] in ("align", "ingest", "join") else {0}
            ), line
    return names


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW))
        for page in RUN
        if page not in RESULTS
    ],
    ids=name,
)
def test_code_blocks_run(page, prepared, tmp_path, monkeypatch):
    shutil.copytree(prepared, tmp_path / "page", symlinks=True)
    monkeypatch.chdir(tmp_path / "page")
    run(page, monkeypatch)


@pytest.mark.slow
def test_the_code_of_readme_makes_a_corpus_that_the_code_of_reading_md_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(TOP / "README.md", monkeypatch)
    frame, batch = names["frame"], names["batch"]
    assert isinstance(frame, pd.DataFrame)
    assert set(frame["split"]) == {"train", "dev", "test"}
    assert len(batch["samples"]) == len(batch["text"]) > 1
    assert set(batch["segment_id"]) <= set(frame["segment_id"])
    names = run(TOP / "docs/reading.md", monkeypatch)
    assert names["clip"].segment_id in set(frame["segment_id"])
    assert names["batch"]["samples"].shape[1] % 16000 == 0


def test_the_code_of_readme_is_ten_lines():
    (code,) = (block.code for block in blocks(TOP / "README.md") if block.kind == "python")
    assert (
        len(
            [line for line in code.splitlines() if line and not line.startswith(("import", "from"))]
        )
        <= 10
    )


COPIES = sorted((TOP / "docs/notebooks").glob("*.ipynb"))


def test_every_notebook_has_an_executed_copy():
    assert [path.name for path in COPIES] == sorted(
        path.name for path in (TOP / "notebooks").glob("*.ipynb")
    )


@pytest.mark.parametrize("path", COPIES, ids=name)
def test_executed_notebooks_are_small_and_show_the_cells_with_outputs(path):
    copy, source = (
        json.loads(text(each))["cells"] for each in (path, TOP / "notebooks" / path.name)
    )
    assert path.stat().st_size <= 300_000
    # Copies are in docs/notebooks, the notebooks beside docs.
    assert [(cell["id"], "".join(cell["source"])) for cell in copy] == [
        (cell["id"], "".join(cell["source"]).replace("](../docs/", "](../")) for cell in source
    ]
    outputs = [output for cell in copy for output in cell.get("outputs", [])]
    kinds = {kind for output in outputs for kind in output.get("data", ())}
    assert kinds <= {"image/png", "text/html", "text/plain"}
    assert len(outputs) >= 4
    assert str(Path.home()) not in text(path)
