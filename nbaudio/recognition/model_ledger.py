"""The values of a model by key: a log of JSON lines that a run appends to and then replaces."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nbaudio.core.atomic import append_lines, atomic_write, parse_lines
from nbaudio.recognition.model_values import Values
from nbaudio.tables.dataframes import STREAMED

LINES = pl.Schema({"clip_key": pl.String, "fields": pl.String, "not_finite": pl.Int64})
"""A key, its values as a JSON object by field, and how many of them were NaN or infinite."""

_LOG_BYTES = 2 << 20  # bytes of the log that are read at once
_ROWS = 1 << 16


@dataclass(frozen=True)
class Ledger:
    """The values of a model, a line of JSON for each key.

    Attributes:
        path: the file, which may be missing.
        version: that of the model; lines of other versions are not read.
    """

    path: Path
    version: str

    def read(self) -> Iterator[pl.DataFrame]:
        """Yield the lines of this version as `LINES`; damaged lines are left out."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            while block := file.readlines(_LOG_BYTES):
                lines = parse_lines(b"".join(block), msgspec.json.decode)
                rows = [row for line in lines if (row := self._row(line))]
                yield pl.DataFrame(rows, schema=LINES, orient="row")

    def _row(self, line: Mapping[str, Any]) -> tuple[str, str, int] | None:
        """Return a line as a row of `LINES`; None if it is of another version, or no such line."""
        fields = line.get("values")
        if line.get("version") != self.version or not isinstance(fields, dict):
            return None
        encoded = msgspec.json.encode(fields).decode()
        return str(line.get("clip_key")), encoded, int(line.get("not_finite", 0))

    def append(self, values: Mapping[str, Values]) -> None:
        """Append the values of clips, by key."""
        append_lines(
            self.path,
            [self._line(key, clip.fields, clip.not_finite) for key, clip in values.items()],
        )

    def replace(self, lines: pl.LazyFrame) -> None:
        """Replace the file by lines with the columns of `LINES`, in their order."""
        with atomic_write(self.path) as partial, partial.open("wb") as file:
            for part in slices(lines):
                for key, fields, not_finite in part.iter_rows():
                    file.write(self._line(key, msgspec.json.decode(fields), not_finite) + b"\n")

    def _line(self, clip_key: str, fields: Mapping[str, Any], not_finite: int) -> bytes:
        line: dict[str, Any] = {"clip_key": clip_key, "version": self.version, "values": fields}
        if not_finite:
            line["not_finite"] = not_finite
        return json.dumps(line, ensure_ascii=False).encode()


def slices(rows: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Yield the rows of a stored table in order, some at a time."""
    start = 0
    while len(part := rows.slice(start, _ROWS).collect(**STREAMED)):
        yield part
        start += _ROWS
