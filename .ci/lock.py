#!/usr/bin/env python3
"""Write requirements.lock: exact versions of everything that nbaudio and its development need, for every Python it supports.

Usage: `lock.py PYTHON...` with one interpreter per supported version. Each resolves pyproject's dependencies and its `dev`
extra in a fresh environment; a version that is not the same, or not there, on all of them gets a marker.
"""

import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

TOP = Path(__file__).resolve().parent.parent
HEADER = """\
# Exact versions of nbaudio's dependencies and its dev extra, made by `make lock`; no index addresses.
# pip install -r requirements.lock, or as constraints: pip install -c requirements.lock 'nbaudio[webdataset]'
"""


def requirements() -> list[str]:
    """Everything to resolve: pyproject's core and its dev extra, own extras spelled out."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf8"))["project"]
    extras = project["optional-dependencies"]
    dev = [line for line in extras["dev"] if not line.startswith("nbaudio[")]
    return [*project["dependencies"], *extras["webdataset"], *dev]


def resolve(python: str) -> tuple[str, dict[str, str]]:
    """Version of the interpreter as ``3.11``, and the version of each package that pip picks for it."""
    with TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", *requirements()], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
        ask = "import sys; print('{}.{}'.format(*sys.version_info))"
        version = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()
    return version, dict(line.split("==") for line in frozen.splitlines() if line.split("==")[0] not in {"setuptools", "wheel"})


def merge(resolved: dict[str, dict[str, str]]) -> list[str]:
    """Lines of the lock, by name; with a marker where the interpreters do not agree."""
    users: dict[tuple[str, str], list[str]] = defaultdict(list)
    for python, packages in resolved.items():
        for name, version in packages.items():
            users[name, version].append(python)
    lines = []
    for (name, version), pythons in sorted(users.items(), key=lambda item: (item[0][0].lower(), item[0][1])):
        marker = " or ".join(f'python_version == "{python}"' for python in pythons)
        lines.append(f"{name}=={version}" + (f" ; {marker}" if len(pythons) < len(resolved) else ""))
    return lines


def main(pythons: list[str]) -> None:
    """Resolve for every interpreter and write the lock."""
    resolved = dict(resolve(python) for python in pythons)
    (TOP / "requirements.lock").write_text(HEADER + "\n".join(merge(resolved)) + "\n", encoding="utf8")


if __name__ == "__main__":
    main(sys.argv[1:])
