"""`import nbaudio`, the command line and workers import no more than they use."""

import importlib.metadata
import json
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from conftest import packed_clips

import nbaudio
from nbaudio.corpus.cutting import ClipFormat, CutTask, Source, cut
from nbaudio.storage.location import location

HEAVY = {
    "IPython", "av", "ipykernel", "ipywidgets", "joblib", "jupyterlab", "matplotlib", "numpy",
    "pandas", "polars", "pyarrow", "pydub", "scipy", "soundfile", "soxr",
}  # fmt: skip


def imported(code: str, *arguments: str, cwd: Path | None = None) -> set[str]:
    """Top-level modules that a program of its own has imported when it ends."""
    tail = (
        "\nimport sys, json; print('\\n' + json.dumps(sorted({name.partition('.')[0] for name "
        "in sys.modules})))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code + tail, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


ENDING = """
import atexit, gc, weakref
from nbaudio.core.processes import skip_garbage_collection_at_exit
class Owner: pass
owner = Owner()
owner.itself = owner
weakref.finalize(owner, print, "finalized")
atexit.register(lambda: print("frozen" if gc.get_freeze_count() else "collected"))
skip_garbage_collection_at_exit()
atexit.register(print, "ended")
"""


def test_a_process_that_skips_garbage_collection_at_exit_calls_what_was_registered() -> None:
    run = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["ended", "frozen", "finalized"]


def test_import_is_lazy() -> None:
    assert not imported("import nbaudio; nbaudio.__version__; dir(nbaudio)") & HEAVY


COMMANDS = """
import sys
from contextlib import suppress
from nbaudio.cli import main
for line in sys.argv[1:]:
    sys.argv = ["nbaudio", *line.split()]
    with suppress(SystemExit):
        main()
"""


@pytest.mark.slow
def test_help_errors_and_status_import_neither_tables_nor_audio(tmp_path: Path) -> None:
    commands = ("demo", "download", "ingest", "select", "materialize", "verify", "wheel")
    lines = [
        "--help",
        "--version",
        "nothing",
        "select",
        "review --help",
        "status .",
        *(f"{name} --help" for name in commands),
    ]
    (tmp_path / "corpus.json").write_text("{}")
    assert not imported(COMMANDS, *lines, cwd=tmp_path) & HEAVY


EXPORTS = """
import importlib, types
import nbaudio
for module in ("proof.evidence", "selection.select", "sources.ingest", "ui.statistics.stats",
               "corpus.materialize"):
    importlib.import_module("nbaudio." + module)
for package in (nbaudio, nbaudio.review):
    for name in package.__all__:
        exec(f"from {package.__name__} import {name} as found")
        assert found is getattr(package, name), name
        assert isinstance(found, types.ModuleType) == (name == "review"), name
"""


@pytest.mark.slow
def test_schemas_are_imported_where_numpy_is_missing() -> None:
    """The site of the docs is built without it."""
    assert "polars" in imported(
        "import sys; sys.modules['numpy'] = None; from nbaudio.tables import schemas"
    )


@pytest.mark.slow
def test_exported_names_exist_after_any_earlier_import() -> None:
    assert "nbaudio" in imported(EXPORTS)


STREAM = """
import sys
import nbaudio
corpus = nbaudio.open_corpus(sys.argv[1])
clips = list(corpus.stream("train"))
assert corpus.read(clips[0].segment_id).metadata == clips[0].metadata
"""


def test_streams_import_no_more_than_they_use(make_workspace, tmp_path: Path) -> None:
    workspace = make_workspace({"a.flac": (30.0, 16000)})
    nbaudio.materialize(
        workspace, out=tmp_path / "corpus", jobs=1, engine="threading", show_progress=False
    )
    assert imported(STREAM, str(tmp_path / "corpus")) & {*HEAVY, "urllib3", "fsspec"} == {
        "numpy",
        "pyarrow",
    }


CUT = """
import pathlib, pickle, sys
cut_task = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
assert not cut_task().failures
"""


def test_a_worker_that_cuts_imports_no_tables(make_workspace, tmp_path: Path) -> None:
    audio = make_workspace({"a.flac": (3.0, 44100)}).audio_root / "a.flac"
    source = Source("a", location(audio), 3 * 44100, None, None, None, (("key", 0, 44100, "mix"),))
    task = CutTask(location(tmp_path / "a.pack"), (source,), 1.0)
    pickled = tmp_path / "task"
    pickled.write_bytes(pickle.dumps(partial(cut, ClipFormat(16000, "mix", "flac"), task)))
    assert imported(CUT, str(pickled)) & HEAVY == {"numpy", "soundfile", "soxr"}
    assert len(packed_clips(location(tmp_path))) == 1


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'nbaudio' has no attribute 'materialise'"):
        nbaudio.materialise  # noqa: B018


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))  # as if they were not installed
import nbaudio
assert not nbaudio.materialize(sys.argv[2], out=sys.argv[3], jobs=2, engine="threading").problems
assert not nbaudio.verify(sys.argv[3], jobs=2, engine="threading").problems
"""


@pytest.mark.slow
def test_workers_run_with_the_packages_of_their_requirements_alone(
    make_workspace, tmp_path: Path
) -> None:
    requirements = (
        Path(nbaudio.wheel(out=tmp_path / "dist").facts["requirements"]).read_text().splitlines()
    )
    names = {line.partition("=")[0].partition(">")[0] for line in requirements}
    assert {"polars", "soundfile", "joblib"} <= names
    assert {
        f"{name}=={importlib.import_module(name).__version__}" for name in ("polars", "soundfile")
    } <= set(requirements)
    plain = importlib.metadata.requires("nbaudio") or []
    required = {
        name for line in plain if "extra ==" not in line for name in [line.partition(">")[0]]
    }
    absent = {name.replace("-", "_") for name in required - names}
    assert {"jupyterlab", "ipywidgets", "pandas", "matplotlib"} <= absent
    workspace = make_workspace({"a.flac": (30.0, 16000), "b.mp3": (30.0, 44100)})
    code, out = WITHOUT, tmp_path / "corpus"
    used = imported(
        code,
        ",".join({*absent, "IPython", "click", "ipykernel", "nbclient", "notebook"}),
        str(workspace.path),
        str(out),
    )
    assert "polars" in used
    assert (out / "corpus.json").exists()
