"""Deprecated names still work, and say what to use instead."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml
from test_runs import NOTEBOOKS, papermill  # noqa: F401 - a fixture

import nbaudio
from nbaudio import widgets
from nbaudio.cli import main
from nbaudio.core.bundled_files import bundled
from nbaudio.runs.manifests import defaults, parameters
from nbaudio.storage.workspace import Workspace

OPTIONS = {"jobs": 1, "engine": "threading", "show_progress": False}
MATERIALIZE = next(notebook for notebook in NOTEBOOKS if "license" in defaults(notebook))


@pytest.fixture
def workspace(make_workspace: Callable[..., Workspace]) -> Workspace:
    return make_workspace({"one.wav": (9.0, 16000)}, channels=1)


def files(corpus: Path) -> dict[str, bytes]:
    return {path.relative_to(corpus).as_posix(): path.read_bytes() for path in corpus.rglob("*") if path.is_file()}


def test_both_keywords_make_the_same_corpus_whose_info_keeps_its_key(workspace: Workspace, tmp_path: Path) -> None:
    nbaudio.materialize(workspace, out=tmp_path / "a", license="mit", **OPTIONS)
    with pytest.warns(DeprecationWarning, match="licence is deprecated; use license") as caught:
        nbaudio.materialize(workspace, out=tmp_path / "b", licence="mit", **OPTIONS)
    assert [warning.filename for warning in caught] == [__file__]
    assert files(tmp_path / "a") == files(tmp_path / "b")
    about = json.loads((tmp_path / "a/corpus.json").read_text("utf8"))["about"]
    assert about == {"title": None, "language": None, "licence": "mit"}
    with pytest.raises(TypeError, match="give license alone"):
        nbaudio.materialize(workspace, out=tmp_path / "b", licence="mit", license="mit", **OPTIONS)


def test_panel_takes_the_old_keyword(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="use license"):
        panel = widgets.MaterializePanel(workspace, out=tmp_path / "c", licence="mit", jobs=1, engine="threading")
    assert panel.result().facts["corpus"] == str(tmp_path / "c")
    assert "license: mit" in (tmp_path / "c/README.md").read_text("utf8")


def test_old_option_works_with_a_notice_and_is_not_in_the_help(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> tuple[int, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["nbaudio", *words])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        return int(end.value.code or 0), out, [line for line in err.splitlines() if "deprecated" in line]

    words = ("materialize", str(workspace.path), "--jobs", "1", "--engine", "threading", "--json", "--out")
    assert run(*words, str(tmp_path / "a"), "--license", "mit")[::2] == (0, [])
    code, out, notices = run(*words, str(tmp_path / "b"), "--licence", "mit")
    assert (code, notices) == (0, ["nbaudio: --licence is deprecated; use --license"])
    assert json.loads(out)["problems"] == []
    assert files(tmp_path / "a") == files(tmp_path / "b")
    shown = run("materialize", "--help")[1]
    assert "--license" in shown
    assert "licence" not in shown


def test_manifests_and_settings_take_the_old_key(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("licence: mit\nseed: 1\n")
    new.write_text("license: mit\nseed: 1\n")
    assert parameters(old, {}) == parameters(new, {}) == {"license": "mit", "seed": 1}
    for name in ("licence", "license"):
        assert parameters(old, {name: "cc0-1.0"}) == parameters(new, {name: "cc0-1.0"}) == {"license": "cc0-1.0", "seed": 1}


@pytest.mark.parametrize("key", ["licence", "license"])
@pytest.mark.parametrize("parameter", ["licence", "license"])
def test_papermill_takes_old_and_new_manifests_for_old_and_new_notebooks(
    tmp_path: Path,
    papermill: Callable[..., dict[str, object]],  # noqa: F811 - the fixture
    key: str,
    parameter: str,
) -> None:
    notebook = nbformat.read(MATERIALIZE, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("license", parameter)
    nbformat.write(notebook, tmp_path / "own.ipynb")
    said = yaml.safe_load(bundled("data_manifests/demo.yaml").read_text("utf8"))
    said[key] = said.pop("license")
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(said))
    given = papermill("own.ipynb", tmp_path / "m.yaml", tmp_path)
    assert given[parameter] == "mit"
    assert len({"licence", "license"} & set(given)) == 1


def test_old_names_of_audio_functions() -> None:
    samples = np.array([-32768, 0, 100], dtype=np.int16)
    with pytest.warns(DeprecationWarning, match=r"nbaudio\.audio\.quantise is deprecated; use quantize"):
        levels = nbaudio.audio.quantise(samples)
    with pytest.warns(DeprecationWarning, match=r"nbaudio\.audio\.restore is deprecated; use dequantize"):
        restored = nbaudio.audio.restore(levels, "mulaw")
    assert np.array_equal(restored, nbaudio.audio.dequantize(nbaudio.audio.quantize(samples)))
    with pytest.raises(AttributeError, match=r"module 'nbaudio\.audio' has no attribute 'requantise'"):
        nbaudio.audio.requantise  # noqa: B018
