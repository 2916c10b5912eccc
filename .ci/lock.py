#!/usr/bin/env python3
"""Write requirements.lock and docs/requirements.txt.

They hold exact versions for development and for the documentation site.

Usage: `lock.py PYTHON...` with one interpreter per supported version. Each resolves pyproject's
dependencies and its `dev` extra in a fresh environment; a version that is not the same, or not
there, on all of them gets a marker. The group `docs` is resolved likewise, with the versions of
requirements.lock where both have a package.
"""

import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

TOP = Path(__file__).resolve().parent.parent
HEADER = (
    "# Exact versions of nbaudio's dependencies and its dev extra, made by `make lock`; "
    "no index addresses.\n"
    "# pip install -r requirements.lock, or as constraints: "
    "pip install -c requirements.lock 'nbaudio[webdataset]'\n"
)
DOCS_HEADER = (
    "# Exact versions for the documentation site, made by `make lock`; "
    "no index addresses. `make docs` installs them.\n"
)


def requirements() -> list[str]:
    """Everything to resolve: pyproject's core and its dev extra, own extras spelled out."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf8"))["project"]
    extras = project["optional-dependencies"]
    dev = [line for line in extras["dev"] if not line.startswith("nbaudio[")]
    return [*project["dependencies"], *extras["webdataset"], *dev]


def docs_requirements() -> list[str]:
    """What the documentation site needs."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf8"))
    return [*project["dependency-groups"]["docs"], "--constraint", str(TOP / "requirements.lock")]


def resolve(python: str, requirements: list[str]) -> tuple[str, dict[str, str]]:
    """Return the version of the interpreter, as ``3.11``, and that of each package.

    The versions of packages are those that pip picks for it.
    """
    with TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", *requirements], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
        ask = "import sys; print('{}.{}'.format(*sys.version_info))"
        version = subprocess.run(
            [python, "-c", ask], check=True, capture_output=True, text=True
        ).stdout.strip()
    return version, dict(
        line.split("==")
        for line in frozen.splitlines()
        if line.split("==")[0] not in {"setuptools", "wheel"}
    )


def merge(resolved: dict[str, dict[str, str]]) -> list[str]:
    """Lines of the lock, by name; with a marker where the interpreters do not agree."""
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for python, packages in resolved.items():
        for name, version in packages.items():
            users[name, version].append(python)
    lines = []
    for (name, version), pythons in sorted(
        users.items(), key=lambda item: (item[0][0].lower(), item[0][1])
    ):
        marker = " or ".join(f'python_version == "{python}"' for python in pythons)
        lines.append(
            f"{name}=={version}" + (f" ; {marker}" if len(pythons) < len(resolved) else "")
        )
    return lines


def main(pythons: list[str]) -> None:
    """Resolve for every interpreter and write the locks."""
    for file, header, wanted in (
        ("requirements.lock", HEADER, requirements),
        ("docs/requirements.txt", DOCS_HEADER, docs_requirements),
    ):
        resolved = dict(resolve(python, wanted()) for python in pythons)
        (TOP / file).write_text(header + "\n".join(merge(resolved)) + "\n", encoding="utf8")


if __name__ == "__main__":
    main(sys.argv[1:])
