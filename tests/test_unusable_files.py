"""Files that are damaged, or no files at all, in front of every command: one line that names the file, exit code 2 or a ledger.

Every command is given every input that it reads, spoiled in every way; reading what is no regular file would wait or never end.
"""

import json
import os
import shutil
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from conftest import sweeps
from layout_kinds import LAYOUTS, format_of
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.report import Report
from nbaudio.review.verdicts import verdicts

import soundfile as sf


def truncated(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def random_bytes(path):
    path.write_bytes(os.urandom(max(4000, path.stat().st_size)))


def empty(path):
    path.write_bytes(b"")


def other_schema(path):
    match path.suffix:
        case ".parquet":
            pl.DataFrame({"unheard": [1, 2], "text": [[1], [2]]}).write_parquet(path)
        case ".xlsx":
            book = openpyxl.Workbook()
            book.active.append(["unheard", "of"])
            book.save(path)
        case ".csv" | ".tsv":
            path.write_text("unheard\tof\n1\t2\n")
        case _:
            path.write_text('{"unheard": ["of"]}\n')


def a_list(path):
    path.write_text("[1, [2]]\n")


def folder(path):
    path.unlink()
    path.mkdir()


def loop(path):
    path.unlink()
    path.symlink_to(path.name)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


DAMAGE = (truncated, random_bytes, empty, other_schema, a_list)
NO_FILES = (folder, loop, pipe, device)
