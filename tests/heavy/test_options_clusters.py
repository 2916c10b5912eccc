"""Commands that run on clusters succeed with the options that name one; tests/test_options.py has
all other options."""

import shlex
import subprocess
import sys

import pytest
from test_engines import WORKER, dask_cluster, environment
from test_options import ELSEWHERE, all_commands, make_archive

LINES = """
align H T --audio sitting --out A
measure W
recognize W --with recognizer:transcribe
materialize W --out C
verify C
"""


def run(folder, command, *, python=sys.executable):
    words = [python, "-m", "nbaudio", *shlex.split(command)]
    variables = environment() | {"PYTHONPATH": str(folder)}  # of the recognizer
    done = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-3000:]}"


@pytest.fixture
def folder(tmp_path):
    make_archive(tmp_path)
    run(tmp_path, "ingest parlaspeech asr.json --audio audio --out W")
    run(tmp_path, "select W --dev 2 --test 2")
    return tmp_path


def test_each_command_with_an_engine_option_has_a_test_line():
    names = {line.split()[0] for line in LINES.strip().split("\n")}
    for option in [each for each in ELSEWHERE if isinstance(each, str)]:
        there = {
            name
            for name, command in all_commands().items()
            if option in {parameter.name for parameter in command.params}
        }
        assert there == names


def test_each_command_takes_the_address_of_a_cluster(folder):
    with dask_cluster(folder) as address:
        for line in LINES.strip().split("\n"):
            run(folder, f"{line} --engine dask --address {address}")


def test_each_command_takes_options_of_beam(folder):
    for line in LINES.strip().split("\n"):
        run(folder, f"{line} --engine beam --beam-options --job_name=nbaudio", python=WORKER)
