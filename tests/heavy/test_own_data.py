"""Own data in all eight notebooks: with format, source and audio alone, and from a folder."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
import yaml
from click.testing import CliRunner
from IPython.core.interactiveshell import InteractiveShell
from papermill import cli as papermill_cli
from specimens import LAYOUTS, format_of, tone

import nbaudio
from nbaudio.core.bundled_files import bundled
from nbaudio.sources.source_formats import READERS

# Formats whose tables differ in what the notebooks that only look at them use: with and without
# speakers and texts, and source columns of every type. Tables of the others are like those of one
# of these, or of the demo, which is parlaspeech.
DIFFERENT_TABLES = ("folder", "lhotse", "textgrid")
# The notebooks without which there is no corpus.
WRITING = ("01", "06", "07")
# What the demo has and no other data.
OF_THE_DEMO = ("nbaudio demo", "license: mit", "- hr", "transcripts.jsonl")


def write_manifest(made, name, path):
    """A manifest of a layout with the keys that it cannot do without."""
    values = {
        "format": format_of(name),
        "source": str(made.source),
        "audio": made.audio and str(made.audio),
        "options": made.options,
    }
    path.write_text(yaml.safe_dump({key: value for key, value in values.items() if value}))


@pytest.fixture(scope="module", autouse=True)
def main_module():
    """The module `__main__`, which IPython replaces, is back for the tests of other files."""
    module = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = module


def run_cells(notebook):
    """Run the cells of a notebook in this process, in its folder."""
    shell = InteractiveShell.instance()
    shell.reset(new_session=False)
    os.chdir(notebook.parent)
    for cell in json.loads(notebook.read_text(encoding="utf8"))["cells"]:
        if cell["cell_type"] == "code":
            shell.run_cell("".join(cell["source"]), store_history=False).raise_error()


def check_corpus(corpus, made):
    """The clips are those of the source, and nothing on the card is the demo's."""
    info = nbaudio.open_corpus(corpus)
    kept = set(info.segments["segment_id"])
    rejected = nbaudio.Workspace.open(corpus.parent / "workspace").segments.drop_nulls("reason")
    assert kept | set(rejected["segment_id"]) >= {*made.segments}
    card = (corpus / "README.md").read_text(encoding="utf8")
    assert not [text for text in OF_THE_DEMO if text in card]
    header = yaml.safe_load(card.split("---")[1])
    assert header.keys().isdisjoint({"license", "language"})
    assert info.info["parameters"]["shard_size"] == 500 * 10**6


def run_notebooks(name, folder, wanted):
    """Run the notebooks whose names begin with one of `wanted` on a source of a format, in a copy
    of a checkout; check the corpus."""
    made = LAYOUTS[name](folder / "archive")
    shutil.copytree(bundled("notebooks"), folder / "notebooks")
    write_manifest(made, name, folder / "mine.yaml")
    (folder / "notebooks/manifest.txt").write_text("../mine.yaml\n")
    for notebook in sorted((folder / "notebooks").glob("*.ipynb")):
        if notebook.stem.startswith(wanted):
            run_cells(notebook)
    check_corpus(folder / "mine-output/corpus", made)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


@pytest.mark.parametrize("name", DIFFERENT_TABLES)
def test_format_source_and_audio_run_all_notebooks_from_a_checkout(name, checkout):
    run_notebooks(name, checkout, ("0",))


@pytest.mark.parametrize("name", sorted({*READERS}.difference(DIFFERENT_TABLES)))
def test_format_source_and_audio_of_every_other_format_make_a_corpus_by_the_notebooks(
    name, checkout
):
    run_notebooks(name, checkout, WRITING)


def test_papermill_alone_runs_a_manifest_with_format_source_and_audio(tmp_path, monkeypatch):
    made = LAYOUTS["kaldi"](tmp_path / "archive")
    write_manifest(made, "kaldi", tmp_path / "mine.yaml")
    shutil.copytree(bundled("notebooks"), tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)
    for number in ("01", "06", "07"):
        (notebook,) = (tmp_path / "notebooks").glob(f"{number}_*.ipynb")
        words = [str(notebook), "executed.ipynb", "-f", "mine.yaml", "-k", "python3"]
        done = CliRunner().invoke(papermill_cli.papermill, [*words, "--no-progress-bar"])
        assert done.exit_code == 0, done.output
    check_corpus(tmp_path / "mine-output/corpus", made)


def test_an_installed_wheel_runs_on_a_folder_without_an_edited_file(tmp_path):
    nbaudio.wheel(out=tmp_path / "built")
    (wheel,) = (tmp_path / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    folder = tmp_path / "moja građa"
    for number in range(4):
        tone(folder / f"{number}.wav", 2, seed=number)
    rows = [f"{n}.wav,{n % 2},{n % 2 + 1},dobar dan {'abcd'[n]}\n" for n in range(4)]
    (folder / "list.csv").write_text("file,start,end,sentence\n" + "".join(rows))
    words = ["-m", "nbaudio", "run", "moja građa", "--only", "1,6-8", "--json"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = tmp_path / "moja građa-output"
    written = yaml.safe_load((out / "manifest.yaml").read_text(encoding="utf8"))
    assert written["source"] == "../moja građa/list.csv"
    assert len(list((out / "html").glob("0*.html"))) == 4
    assert nbaudio.verify(out / "corpus", jobs=1, show_progress=False).problems == []
