"""What is installed, locked and shipped, and which module may import which library."""

import ast
import csv
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from functools import cache
from pathlib import Path, PurePosixPath

import pytest
import yaml
from jupyterlab_server.config import get_federated_extensions
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import nbaudio
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import InputError
from nbaudio.core.version import __version__

TOP = Path(nbaudio.__file__).parent.parent
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LABEXTENSION = f"nbaudio-{__version__}.data/data/share/jupyter/labextensions/nbaudio"
PYTHONS = ("3.11", "3.12", "3.13")


def same(lines):
    """Requirements in one spelling, so that 'a >= 1' equals 'a>=1'."""
    return {str(Requirement(line)) for line in lines}


# conda and the lock


def environment():
    """Python and pip, the libraries of conda-forge, those of PyPI, and the project, as
    environment.yml lists them."""
    (python, pip, *conda, further) = yaml.safe_load(
        (TOP / "environment.yml").read_text(encoding="utf8")
    )["dependencies"]
    constraints, *pypi, project = further["pip"]
    assert constraints == "--constraint constraints.txt"
    return (python, pip), conda, pypi, project


def test_environment_yml_asks_once_for_each_dependency_of_pyproject_within_the_same_bounds():
    (python, pip), conda, pypi, project = environment()
    assert (pip, project) == ("pip", "--editable .")
    assert (
        Requirement(python).specifier
        == Requirement(f"python{PROJECT['requires-python']}").specifier
    )
    named = [*conda, *pypi]
    asked = same(line.replace("matplotlib-base", "matplotlib") for line in named)
    assert asked == same(PROJECT["dependencies"])
    assert len(named) == len(asked), "a library is named twice"


def test_environment_yml_takes_from_conda_forge_what_it_has_in_conda_s_spelling():
    _, conda, pypi, _ = environment()
    assert [line for line in conda if not re.fullmatch(r"[a-z0-9_-]+ >=[\d.]+(,<\d+)?", line)] == []
    assert {Requirement(line).name for line in pypi} == {
        "audioop-lts",
        "av",
        "miniaudio",
        "soundfile",
        "soxr",
    }


LOCKS = ("requirements.lock", "docs/requirements.txt")


def lock_lines(lock="requirements.lock"):
    lines = (TOP / lock).read_text(encoding="utf8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_holds_exact_versions_and_neither_addresses_nor_paths(lock):
    for line in lock_lines(lock):
        requirement = Requirement(line)
        assert requirement.url is None, line
        assert [spec.operator for spec in requirement.specifier] == ["=="], line
    assert not [
        line for line in lock_lines(lock) if "/" in line or line.startswith("-") or "torch" in line
    ]


@pytest.fixture
def lock_script():
    """.ci/lock.py as a module."""
    spec = importlib.util.spec_from_file_location("lock", TOP / ".ci/lock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lock", LOCKS)
def test_make_lock_keeps_the_lines_of_a_python_that_is_not_installed(lock, lock_script):
    lines = (TOP / lock).read_text(encoding="utf8").splitlines()
    earlier = {python: lock_script.locked(lines, python) for python in PYTHONS}
    assert lock_script.merge(earlier) == lock_lines(lock)


def test_make_lock_finds_interpreters_by_running_them(lock_script):
    here = "{}.{}".format(*sys.version_info)
    assert lock_script.interpreter(here) in (f"python{here}", sys.executable)
    assert lock_script.interpreter("3.0") is None


def test_make_lock_fails_only_without_any_interpreter(lock_script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lock_script, "TOP", tmp_path)
    assert lock_script.main(["3.0", "3.1"]) == 1
    assert "none of Python 3.0, 3.1 is installed" in capsys.readouterr().out
    (tmp_path / "docs").mkdir()
    for file in LOCKS:
        (tmp_path / file).write_text("# header\na==1\n", encoding="utf8")
    for wanted in ("requirements", "docs_requirements"):
        monkeypatch.setattr(lock_script, wanted, list)
    monkeypatch.setattr(lock_script, "resolve", lambda *_: {"a": "2"})
    here = "{}.{}".format(*sys.version_info)
    assert lock_script.main([here, "3.0"]) == 0
    assert "Python 3.0 is not installed" in capsys.readouterr().out
    written = ['a==1 ; python_version == "3.0"', f'a==2 ; python_version == "{here}"']
    assert [
        line
        for line in (tmp_path / "requirements.lock").read_text(encoding="utf8").splitlines()
        if not line.startswith("#")
    ] == written


def test_documentation_is_built_with_the_versions_of_the_lock():
    locked = {
        Requirement(line).name.lower(): str(Requirement(line).specifier)
        for line in lock_lines()
        if ";" not in line
    }
    built = {
        Requirement(line).name.lower(): str(Requirement(line).specifier)
        for line in lock_lines("docs/requirements.txt")
    }
    assert {
        name: version for name, version in built.items() if locked.get(name, version) != version
    } == {}
    group = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf8"))["dependency-groups"][
        "docs"
    ]
    for wanted in map(Requirement, group):
        assert wanted.specifier.contains(built[wanted.name].removeprefix("==")), (
            f"{wanted}: run make lock"
        )


def test_pre_commit_runs_what_make_lint_runs():
    (repository,) = yaml.safe_load((TOP / ".pre-commit-config.yaml").read_text(encoding="utf8"))[
        "repos"
    ]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    recipe = re.search(
        r"^lint: .*\n((?:\t.*\n)+)", (TOP / "Makefile").read_text(encoding="utf8"), re.MULTILINE
    )
    lint = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    assert [hook["entry"] for hook in repository["hooks"]] == lint


def test_citation_is_of_this_version():
    citation = yaml.safe_load((TOP / "CITATION.cff").read_text(encoding="utf8"))
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_satisfies_pyproject_on(python):
    here = {"python_version": python, "python_full_version": f"{python}.0"}
    locked = {}
    for requirement in map(Requirement, lock_lines()):
        if requirement.marker is None or requirement.marker.evaluate(here):
            assert requirement.name.lower() not in locked, (
                f"{requirement.name} is locked twice on Python {python}"
            )
            locked[requirement.name.lower()] = next(iter(requirement.specifier)).version
    dev = [line for line in EXTRAS["dev"] if not line.startswith("nbaudio[")]
    for wanted in map(Requirement, [*PROJECT["dependencies"], *EXTRAS["webdataset"], *dev]):
        if wanted.marker is None or wanted.marker.evaluate(here):
            version = locked.get(wanted.name.lower())
            assert version, (
                f"{wanted.name} is not in requirements.lock for Python {python}; run make lock"
            )
            assert wanted.specifier.contains(version), (
                f"{wanted}: requirements.lock has {version}; run make lock"
            )


def test_lock_holds_nothing_that_no_requirement_brings():
    """On this Python, by what the installed versions require."""
    dev = [line for line in EXTRAS["dev"] if not line.startswith("nbaudio[")]
    wanted, needed = (
        [Requirement(line) for line in (*PROJECT["dependencies"], *EXTRAS["webdataset"], *dev)],
        set(),
    )
    while wanted:
        requirement = wanted.pop()
        extras = ("", *sorted(requirement.extras))
        key = (canonicalize_name(requirement.name), extras)
        if key not in needed and (requirement.marker is None or requirement.marker.evaluate()):
            needed.add(key)
            for line in importlib.metadata.requires(requirement.name) or ():
                further = Requirement(line)
                if further.marker is None or any(
                    further.marker.evaluate({"extra": extra}) for extra in extras
                ):
                    further.marker = None
                    wanted.append(further)
    locked = [Requirement(line) for line in lock_lines()]
    here = {
        canonicalize_name(each.name)
        for each in locked
        if each.marker is None or each.marker.evaluate()
    }
    assert here - {name for name, _ in needed} == set(), "run make lock"


def test_extras_leave_the_version_of_torch_to_the_constraints_that_ci_installs_with():
    assert all("torch" in EXTRAS[extra] for extra in ("torch", "lhotse", "datasets"))
    assert "torchcodec" in EXTRAS["datasets"]
    constraints = lock_lines("constraints.txt")
    assert [Requirement(line).name for line in constraints] == ["torch", "torchcodec"]
    run = (TOP / ".ci/run").read_text(encoding="utf8").splitlines()
    for line in constraints:
        assert re.fullmatch(r"\w+==[\d.]+", line)
        (install,) = [command for command in run if line in command]
        assert "-c constraints.txt" in install


def test_changelog_begins_with_this_version():
    lines = (TOP / "CHANGELOG.md").read_text(encoding="utf8").splitlines()
    sections = [line for line in lines if line.startswith("## ") and line != "## [Unreleased]"]
    assert sections[0].startswith(f"## [{__version__}] - ")


# what is shipped


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-t",
        "sdist",
        "-d",
        str(folder),
    ]
    subprocess.run(command, cwd=TOP, check=True, capture_output=True)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def source_files(folder):
    """Files of a source folder, as POSIX paths below it, without what running leaves behind."""
    paths = (path.relative_to(TOP / folder) for path in (TOP / folder).rglob("*") if path.is_file())
    return {
        path.as_posix()
        for path in paths
        if not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
    }


@pytest.mark.slow
def test_wheel_is_the_package_the_notebooks_and_the_manifests_and_nothing_else(built):
    wheel, _ = built
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {f"nbaudio/{name}" for name in source_files("nbaudio")}
    for folder in ("notebooks", "data_manifests"):
        expected |= {f"nbaudio/_bundled/{folder}/{name}" for name in source_files(folder)}
    expected |= {
        f"{LABEXTENSION}/{name}" for name in source_files("nbaudio/ui/widgets/labextension")
    }
    assert names == expected
    assert "nbaudio/py.typed" in names


@pytest.mark.slow
def test_jupyterlab_finds_the_extension_in_wheels_and_in_editable_installs(built, tmp_path):
    command = [
        sys.executable,
        "-c",
        f"from hatchling.build import build_editable; build_editable({str(tmp_path)!r})",
    ]
    subprocess.run(command, cwd=TOP, check=True, capture_output=True)
    for wheel in (built[0], *tmp_path.glob("*.whl")):
        prefix = tmp_path / f"prefix-{wheel.parent.name}"
        shutil.unpack_archive(wheel, prefix, "zip")
        extensions = prefix / PurePosixPath(LABEXTENSION).parent
        (found,) = get_federated_extensions([str(extensions)]).values()
        assert (found["name"], found["ext_path"]) == ("nbaudio", str(extensions / "nbaudio"))
        assert (extensions / "nbaudio" / found["jupyterlab"]["_build"]["load"]).is_file()


@pytest.mark.slow
def test_wheel_for_workers_is_the_one_that_is_built(built, tmp_path):
    report = nbaudio.wheel(out=tmp_path)
    with zipfile.ZipFile(report.facts["wheel"]) as ours, zipfile.ZipFile(built[0]) as theirs:
        assert sorted(ours.namelist()) == sorted(theirs.namelist())
        # An editable install may know older metadata than the checkout; RECORD holds its hash.
        older = ("METADATA", "RECORD", "entry_points.txt")
        names = [
            name
            for name in ours.namelist()
            if not name.endswith(tuple(f".dist-info/{name}" for name in older))
        ]
        assert all(ours.read(name) == theirs.read(name) for name in names)
        record = ours.read(
            next(name for name in ours.namelist() if name.endswith("/RECORD"))
        ).decode()
    assert sorted(line[0] for line in csv.reader(record.splitlines())) == sorted(theirs.namelist())
    again = nbaudio.wheel(out=tmp_path / "again").facts["wheel"]
    assert Path(again).read_bytes() == Path(report.facts["wheel"]).read_bytes()


@pytest.mark.slow
def test_shipped_files_are_of_known_kinds(built):
    wheel, sdist = built
    text = {
        ".cff",
        ".css",
        ".csv",
        ".ipynb",
        ".js",
        ".json",
        ".jsonl",
        ".lock",
        ".md",
        ".py",
        ".scp",
        ".toml",
        ".txt",
        ".typed",
    }
    text |= {".tsv", ".yaml", ".yml"}
    known = text | {".flac", ".m4a", ".mp3", ".png", ".svg", ".wav", ".xlsx", ".xz"}
    bare = {
        "LICENSE",
        "METADATA",
        "Makefile",
        "PKG-INFO",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        ".gitignore",
    }
    with zipfile.ZipFile(wheel) as one, tarfile.open(sdist) as other:
        names = [PurePosixPath(name) for name in (*one.namelist(), *other.getnames())]
    assert not [
        str(path) for path in names if path.suffix.lower() not in known and path.name not in bare
    ]


def test_installed_wheel_finds_its_notebooks_and_its_demo(built, tmp_path):
    wheel, _ = built
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    code = (
        "from nbaudio.core.bundled_files import bundled as b; print(b('notebooks')); "
        "print(b('data_manifests/demo.yaml'))"
    )
    environment = {"PYTHONPATH": str(tmp_path / "site"), "PATH": ""}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    notebooks, manifest = map(Path, run.stdout.splitlines())
    inside = tmp_path / "site/nbaudio/_bundled"
    assert notebooks == inside / "notebooks"
    assert sorted(path.name for path in notebooks.glob("*.ipynb")) == sorted(
        path.name for path in (TOP / "notebooks").glob("*.ipynb")
    )
    settings = yaml.safe_load(manifest.read_text(encoding="utf8"))
    for key in ("source", "audio", "names"):
        assert (manifest.parent / settings[key]).exists(), key
    assert len(list((manifest.parent / settings["audio"]).iterdir())) == 7


def test_manifests_have_the_same_keys():
    demo, parlaspeech = (
        yaml.safe_load(bundled(f"data_manifests/{name}.yaml").read_text("utf8"))
        for name in ("demo", "parlaspeech")
    )
    assert list(demo) == list(parlaspeech)


@pytest.mark.parametrize(
    "name",
    [
        "data_manifests/demo.yml",
        "data_manifests/../pyproject.toml",
        "pyproject.toml",
        "/etc/hostname",
        "",
    ],
)
def test_bundled_refuses_what_does_not_come_with_nbaudio(name):
    with pytest.raises(InputError, match="is not bundled with nbaudio"):
        bundled(name)


# which module may import what: each library behind one door

DOORS = {
    **dict.fromkeys(("fsspec", "huggingface_hub", "urllib3"), frozenset({"storage"})),
    **dict.fromkeys(("av", "miniaudio", "pydub", "soundfile", "soxr"), frozenset({"audio"})),
    **dict.fromkeys(("num2words", "rapidfuzz"), frozenset({"text"})),
    **dict.fromkeys(
        ("apache_beam", "distributed", "joblib", "py4j", "pyspark", "ray"), frozenset({"engine"})
    ),
    **dict.fromkeys(("openpyxl", "python_calamine"), frozenset({"formats"})),
    "pypdfium2": {"formats"},
    "xlsxwriter": {"review"},
    "scipy": {"audio", "proof", "selection", "ui"},
    "ipywidgets": {"ui"},
    "google_crc32c": {"corpus"},
    **dict.fromkeys(("datasets", "lhotse", "tensorflow", "torch"), frozenset({"reading"})),
    **dict.fromkeys(("anywidget", "matplotlib", "traitlets"), frozenset({"ui"})),
    **dict.fromkeys(("nbconvert", "papermill"), frozenset({"runs"})),
    "typer": {"cli"},
    "tqdm": {"core"},
    "pyarrow": {"corpus", "formats", "reading", "tables", "text"},
    "yaml": {"corpus", "formats", "runs", "sources"},
    "msgspec": {"core", "corpus", "formats", "recognition", "review", "sources", "tables"},
    "pandas": {"core", "reading", "tables"},
}
OPTIONAL = {
    "apache_beam",
    "dask",
    "datasets",
    "distributed",
    "lhotse",
    "pypdfium2",
    "pyspark",
    "ray",
    "tensorflow",
    "torch",
    "webdataset",
}
OPTIONAL |= {"huggingface_hub"}
OPTIONAL |= {"py4j"}  # of pyspark
OPTIONAL |= {"botocore"}  # of s3fs


def imports(tree):
    """The top names that a syntax tree imports, anywhere in it, with line numbers; relative imports
    are its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0], node.lineno


def outside_functions(tree):
    """The statements that run when the module is imported: all but the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from outside_functions(node)


@cache
def imported():
    return [(path, part, list(imports(tree))) for path, part, tree in modules()]


@cache
def modules():
    return list(_modules())


def _modules():
    for path in sorted((TOP / "nbaudio").rglob("*.py")):
        part = path.relative_to(TOP / "nbaudio").parts[0].removesuffix(".py")
        yield path.relative_to(TOP), part, ast.parse(path.read_text(encoding="utf8"))


def test_the_import_check_sees_nested_and_aliased_imports():
    tree = ast.parse(
        "import a.b as c\nfrom . import d\ndef f():\n    from e.g import h\nclass K:\n    "
        "import m\n"
    )
    assert list(imports(tree)) == [("a", 1), ("e", 4), ("m", 6)]
    at_import = ast.Module(
        [node for node in outside_functions(tree) if isinstance(node, ast.stmt)], []
    )
    assert {name for name, _ in imports(at_import)} == {"a", "m"}


@pytest.mark.parametrize(("library", "doors"), DOORS.items())
def test_each_library_is_imported_only_in_its_assigned_modules(library, doors):
    found = [
        f"{path}:{line}"
        for path, part, names in imported()
        for name, line in names
        if name == library and part not in doors
    ]
    assert not found, (
        f"{library} belongs to nbaudio/{' or '.join(sorted(doors))}, "
        f"but is imported at {', '.join(found)}"
    )


@pytest.mark.slow
def test_optional_libraries_are_never_imported_with_nbaudio():
    found = []
    for path, _, tree in modules():
        at_import = {
            node.lineno
            for node in outside_functions(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        found += [
            f"{path}:{line} {name}"
            for name, line in imports(tree)
            if name in OPTIONAL and line in at_import
        ]
    assert not found, f"import these inside the function that needs them: {', '.join(found)}"


@pytest.mark.slow
def test_every_import_is_a_declared_dependency():
    core = {Requirement(line).name.lower() for line in PROJECT["dependencies"]}
    distributions = importlib.metadata.packages_distributions()
    undeclared = {
        f"{path}:{line} {name}"
        for path, _, tree in modules()
        for name, line in imports(tree)
        if name not in sys.stdlib_module_names | OPTIONAL | {"nbaudio"}
        and not core & {distribution.lower() for distribution in distributions.get(name, [])}
    }
    assert not undeclared, f"not in pyproject's dependencies: {', '.join(sorted(undeclared))}"


# Requirements that no module imports, and what needs them.
NOT_IMPORTED = {
    "audioop-lts": "pydub, on Python 3.13",
    "jupyterlab": "whoever opens the notebooks; its kernel runs them",
}


@pytest.mark.slow
def test_every_dependency_is_imported_or_has_a_reason():
    distributions = importlib.metadata.packages_distributions()
    imported = {name for _, _, tree in modules() for name, _ in imports(tree)}
    used = {canonicalize_name(each) for name in imported for each in distributions.get(name, ())}
    declared = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert declared - used == set(NOT_IMPORTED)
