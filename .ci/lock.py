#!/usr/bin/env python3
"""Write requirements.lock and docs/requirements.txt.

They hold exact versions for development and for the documentation site.

Usage: `lock.py VERSION...` with the supported versions of Python, such as 3.11. The interpreter of
each resolves pyproject's dependencies and its `dev` extra in a fresh environment; a package that
has not the same version on all of them, or is not on all, gets a marker. The group `docs` is
resolved likewise, with the versions of requirements.lock where both have a package.

Where an interpreter is not installed, its name is printed and its lines of the lock stay as they
are. Without any interpreter nothing is written, and the exit code is 1.
"""

import re
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


def interpreter(version: str) -> str | None:
    """The command of a Python of this version; None where there is none that runs."""
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    for command in (f"python{version}", sys.executable):
        try:
            shown = subprocess.run(
                [command, "-c", code], check=True, capture_output=True, text=True
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        if shown.stdout.strip() == version:
            return command
    return None


def resolve(python: str, requirements: list[str]) -> dict[str, str]:
    """Return the version of each package that pip picks for an interpreter."""
    with TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", *requirements], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
    packages = dict(line.split("==") for line in frozen.splitlines())
    return {name: packages[name] for name in packages if name not in {"setuptools", "wheel"}}


def locked(lines: list[str], version: str) -> dict[str, str]:
    """Return the version of each package that a lock has for a version of Python.

    >>> locked(["# made", "a==1", 'b==2 ; python_version == "3.11"'], "3.12")
    {'a': '1'}
    """
    packages = {}
    for line in lines:
        requirement, _, marker = line.partition(" ; ")
        pythons = re.findall(r'python_version == "([\d.]+)"', marker)
        if "==" in requirement and (not marker or version in pythons):
            name, _, number = requirement.partition("==")
            packages[name] = number
    return packages


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


def main(versions: list[str]) -> int:
    """Resolve for every version of Python that is installed, and write the locks."""
    pythons = {version: interpreter(version) for version in versions}
    missing = [version for version, python in pythons.items() if python is None]
    if missing == versions:
        print(f"none of Python {', '.join(versions)} is installed; no lock was written")
        return 1
    if missing:
        print(f"Python {', '.join(missing)} is not installed; its lines of the locks stay")
    for file, header, wanted in (
        ("requirements.lock", HEADER, requirements),
        ("docs/requirements.txt", DOCS_HEADER, docs_requirements),
    ):
        earlier = (TOP / file).read_text(encoding="utf8").splitlines()
        resolved = {
            version: resolve(python, wanted()) if python else locked(earlier, version)
            for version, python in pythons.items()
        }
        (TOP / file).write_text(header + "\n".join(merge(resolved)) + "\n", encoding="utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
