"""Workspaces to review, and functions that fill in review sheets."""

import datetime as dt
import os
import re

import numpy as np
import openpyxl
import polars as pl
import soundfile
from hostile import CELLS
from hypothesis import strategies as st

from nbaudio.tables.schemas import SEGMENTS, conform
from nbaudio.tables.workspace import Workspace

RATE = 8000

#: What polars can hold: no lone surrogates.
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.lists(
    st.sampled_from([*CELLS, "da", "ne", "_x", "x0041_", "<r>", "</r>"]), max_size=5
).map(" ".join)


def typed_text():
    """What a person can type into a cell, which is neither blank nor of characters that XML has no
    place for."""
    return any_text.map(
        lambda text: re.sub(
            "[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]|x005F_|_x[0-9A-Fa-f]{4}_", "", text
        )
    ).filter(str.strip)


def make_workspace(
    folder, texts=("prvi", "drugi", "treći", "četvrti"), heard=None, *, ids=None, audio=None
):
    """A workspace of one recording with segments of a second, s0, s1 and so on; `audio` is a folder
    for the recording."""
    workspace = Workspace.create(folder, audio=audio and str(audio))
    count = len(texts)
    segments = pl.DataFrame(
        {
            "segment_id": list(ids or (f"s{number}" for number in range(count))),
            "recording_id": ["r"] * count,
            "source_start": [str(number) for number in range(count)],
            "source_end": [str(number + 1) for number in range(count)],
            "start_sample": [audio and number * RATE for number in range(count)],
            "end_sample": [audio and (number + 1) * RATE for number in range(count)],
            "text": list(texts),
            "asr_text": list(heard or texts),
            "speaker_id": list(texts),
            "similarity": [0.5] * count,
        },
        schema_overrides=SEGMENTS,
    )
    recordings = pl.DataFrame({"recording_id": ["r"]})
    if audio:
        audio.mkdir()
        soundfile.write(audio / "r.wav", np.zeros(count * RATE), RATE)
        recordings = recordings.with_columns(
            path=pl.lit("r.wav"), sampling_rate=RATE, num_samples=count * RATE
        )
    workspace.save(recordings=recordings, segments=conform(segments, SEGMENTS, "segments"))
    return workspace


def columns_of(table, row=1):
    """Numbers of the columns by what is in a row of an openpyxl sheet."""
    return {cell.value: cell.column for cell in table[row]}


def fill_in(sheet, said, *, to=None, reviewer=None, saved=None):
    """Fill in a sheet as openpyxl can: `said` has a verdict, or a dict of columns, by segment id.

    Args:
        sheet: the .xlsx file.
        said: what is said of which segment.
        to: another file to save it to.
        reviewer: who writes their name into the summary.
        saved: when, in UTC; now unless given.
    """
    book = openpyxl.load_workbook(sheet)
    table = book.worksheets[0]
    column = columns_of(table)
    for row in range(2, table.max_row + 1):
        words = said.get(table.cell(row, column["segment_id"]).value, {})
        for name, text in ({"verdict": words} if isinstance(words, str) else words).items():
            cell = table.cell(row, column[name])
            cell.value = text
            # openpyxl takes a text with = before it for a formula, as no spreadsheet does in a cell
            # of text.
            cell.data_type = "s"
    if reviewer is not None:
        book["summary"]["B3"] = reviewer
    target = to or sheet
    book.save(target)
    if saved is not None:
        set_time(target, saved)
    return target


def set_time(path, saved):
    """Give a file the time at which it was saved, as it has no time inside that is later."""
    moment = dt.datetime.fromisoformat(saved).timestamp()
    os.utime(path, (moment, moment))
