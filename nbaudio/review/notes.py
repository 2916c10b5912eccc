"""Notes on segments, appended to the log ``reviews/notes.jsonl``: the last note on a segment counts, an empty one removes it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import polars as pl

from nbaudio.core.atomic import append_lines, read_lines
from nbaudio.storage.workspace import Workspace

NOTE_LOG = "reviews/notes.jsonl"


@dataclass(frozen=True)
class Note:
    """A remark on a segment; it does not count as a verdict."""

    segment_id: str
    note: str
    reviewer: str
    time: str  # ISO 8601 in UTC


def append_notes(workspace: Workspace | str | Path, rows: Iterable[Note]) -> None:
    """Append notes to the log, in order; they are on disk when this returns."""
    append_lines(Workspace.open(workspace).path / NOTE_LOG, map(msgspec.json.Encoder().encode, rows))


def notes(workspace: Workspace | str | Path) -> pl.DataFrame:
    """Return the last note on each segment, in the order made: the attributes of `Note` as columns of strings."""
    path = Workspace.open(workspace).path / NOTE_LOG
    lines = [asdict(line) for line in read_lines(path, msgspec.json.Decoder(Note).decode, "a note")]
    log = pl.DataFrame(lines, schema=dict.fromkeys(Note.__annotations__, pl.String))
    return log.unique("segment_id", keep="last", maintain_order=True).filter(pl.col("note") != "")
