"""Commands that run on clusters succeed with the options that name one; tests/test_options.py has
all other options."""

import subprocess
import sys

import pytest
from clusters import WORKER, checkout_environment, dask_cluster, environment
from test_options import ELSEWHERE, all_commands, make_archive

PREPARE = ["ingest parlaspeech asr.json --audio audio --out W", "select W --dev 2 --test 2"]
LINES = [
    "align H T --audio sitting --out A",
    "measure W",
    "recognize W --with recognizer:transcribe",
    "recognize sitting --with recognizer:transcribe --out H2",
    "materialize W --out C",
    "verify C",
]
# All in one process, as Python and the package take longer to start than a line to run.
RUN = """
import shlex, sys
from nbaudio.cli import app
for line in sys.argv[1:]:
    assert not app(shlex.split(line), standalone_mode=False), line
"""


def run(folder, lines, *, python=sys.executable):
    """Run lines of the command line in a folder, which has the recognizer."""
    if python == WORKER:
        variables = environment() | {"PYTHONPATH": str(folder)}
    else:
        variables = checkout_environment(folder)
    done = subprocess.run(
        [python, "-c", RUN, *lines],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"


@pytest.fixture
def folder(tmp_path):
    make_archive(tmp_path)
    return tmp_path


def test_each_command_with_an_engine_option_has_a_test_line():
    names = {line.split()[0] for line in LINES}
    for option in [each for each in ELSEWHERE if isinstance(each, str)]:
        there = {
            name
            for name, command in all_commands().items()
            if option in {parameter.name for parameter in command.params}
        }
        assert there == names


def test_each_command_takes_the_address_of_a_cluster(folder):
    with dask_cluster(folder) as address:
        options = f"--engine dask --address {address}"
        run(folder, [*PREPARE, *(f"{line} {options}" for line in LINES)])


def test_each_command_takes_options_of_beam(folder):
    options = "--engine beam --beam-options --job_name=nbaudio"
    run(folder, [*PREPARE, *(f"{line} {options}" for line in LINES)], python=WORKER)
