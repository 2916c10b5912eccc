"""README and docs: the size of README, links, pictures, the index, commands and their options, and the code in README."""

import ast
import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
import typer

import nbaudio
from nbaudio.cli import app
from nbaudio.core.resources import bundled

TOP = Path(nbaudio.__file__).parent.parent
DOCS = sorted((TOP / "docs").glob("*.md"))
PAGES = [TOP / "README.md", TOP / "SECURITY.md", TOP / "data_manifests/demo/README.md", *DOCS]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def name(path):
    return path.relative_to(TOP).as_posix()


def text(path):
    return path.read_text(encoding="utf8")


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
    lines = [line.strip() for line in (code + prose).splitlines() if line.startswith("    nbaudio ")]
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


def test_every_picture_is_shown_and_small():
    shown = {(page.parent / target).resolve() for page in PAGES for target in links(page)}
    pictures = set((TOP / "docs/img").iterdir())
    assert pictures - shown == set()
    assert [path.name for path in pictures if path.stat().st_size >= 300_000] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_their_options_exist(page):
    unknown = []
    for words in commands(page):
        command, rest = typer.main.get_command(app), words[1:]
        while rest and hasattr(command, "commands") and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        options = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
        asked = {word.partition("=")[0].strip("[]") for word in rest if word.strip("[").startswith("-")}
        if (hasattr(command, "commands") and not asked) or asked - options - {"--help"}:
            unknown.append(" ".join(words))
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_code_is_python(page):
    for language, body in FENCED.findall(text(page)):
        if language == "python":
            ast.parse(body)


def test_the_code_of_readme_makes_a_corpus_that_the_code_of_reading_md_reads(tmp_path, monkeypatch):
    (code,) = (body for language, body in FENCED.findall(text(TOP / "README.md")) if language == "python")
    assert len([line for line in code.splitlines() if line and not line.startswith(("import", "from"))]) <= 10
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code.replace("data_manifests/demo", str(bundled("data_manifests/demo.yaml").with_suffix(""))), names)  # noqa: S102
    frame, batch = names["frame"], names["batch"]
    assert isinstance(frame, pd.DataFrame)
    assert set(frame["split"]) == {"train", "dev", "test"}
    assert len(batch["samples"]) == len(batch["text"]) > 1
    assert set(batch["segment_id"]) <= set(frame["segment_id"])
    for block in re.findall(r"```python\n(.*?)```", text(TOP / "docs/reading.md"), re.DOTALL)[:2]:  # the others need frameworks
        exec(block, names)  # noqa: S102
    assert names["clip"].segment_id in set(frame["segment_id"])
    assert names["batch"]["samples"].shape[1] % 16000 == 0


COPIES = sorted((TOP / "docs/notebooks").glob("*.ipynb"))


def test_executed_notebooks_are_those_that_there_are():
    assert [path.name for path in COPIES] == sorted(path.name for path in (TOP / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", COPIES, ids=name)
def test_executed_notebooks_are_small_and_show_the_cells_with_outputs(path):
    copy, source = (json.loads(text(each))["cells"] for each in (path, TOP / "notebooks" / path.name))
    assert path.stat().st_size <= 300_000
    assert [(cell["id"], "".join(cell["source"])) for cell in copy] == [(cell["id"], "".join(cell["source"])) for cell in source]
    outputs = [output for cell in copy for output in cell.get("outputs", [])]
    kinds = {kind for output in outputs for kind in output.get("data", ())}
    assert kinds <= {"image/png", "text/html", "text/plain"}
    assert len(outputs) >= 4
    assert str(Path.home()) not in text(path)
