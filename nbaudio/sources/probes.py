"""Cache of probe results, appended as recordings are probed, so that an interrupted run resumes where it stopped.

Conventions: ``probes.jsonl`` holds one row per recording and look: the facts of the recordings table, the address or path of the
file, and an error where it failed. The last row of a file counts, if its size and version (or time of change) are the same.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nbaudio.core.version import __version__
from nbaudio.storage.atomic import append_lines, raise_disk_full

PROBES = "probes.jsonl"
_BATCH = 4096
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Probes:
    """The rows of one workspace; threads may add at the same time.

    Args:
        folder: of the workspace.
        schema: of the facts.
        sha256: whether rows without a hash are of no use.
    """

    def __init__(self, folder: Path, schema: pl.Schema, *, sha256: bool) -> None:
        self.path = folder / PROBES
        self._schema = pl.Schema({**schema, "file": pl.String(), "nbaudio": pl.String()})
        self._sha256 = sha256
        known = self._read(self.path.read_bytes() if self.path.is_file() else b"")
        usable = pl.col("error").is_null() & (pl.col("nbaudio") == __version__)
        usable &= pl.col("sha256").is_not_null() if sha256 else pl.lit(value=True)
        # A column of facts and a number for each file: as objects, rows would take several times the memory.
        self._known = known.unique("file", keep="last", maintain_order=True).filter(usable)
        self._numbers = {file: number for number, file in enumerate(self._known["file"])}

    def get(self, file: object, **now: object) -> dict[str, Any] | None:
        """The facts of a file, if they are known and it is still the one that was looked at.

        Args:
            file: its path or address.
            now: `num_bytes`, and `mtime_ns` or `version`, which is not None.
        """
        number = self._numbers.get(str(file))
        if number is None or None in now.values():
            return None
        row = self._known.row(number, named=True)
        if any(row[name] != value for name, value in now.items()):
            return None
        return {name: row[name] for name in self._schema if name not in ("file", "nbaudio")} | (
            {} if self._sha256 else {"sha256": None}
        )

    def add(self, rows: Iterable[tuple[object, Mapping[str, Any]]]) -> None:
        """Keep what was found of files; it is on the disk when this returns."""
        with raise_disk_full(self.path):
            append_lines(self.path, [_encode({**row, "file": str(file), "nbaudio": __version__}) for file, row in rows])

    def remove(self) -> None:
        """Forget all."""
        self.path.unlink(missing_ok=True)

    def _read(self, data: bytes) -> pl.DataFrame:
        frames = [pl.DataFrame(schema=self._schema)]
        rows: list[dict[str, Any]] = []
        for line in data.splitlines():
            with suppress(msgspec.MsgspecError):  # a line that is damaged is looked up again
                rows.append(_decode(line))
            if len(rows) == _BATCH:
                frames.append(self._frame(rows))
                rows = []
        return pl.concat([*frames, self._frame(rows)])

    def _frame(self, rows: list[dict[str, Any]]) -> pl.DataFrame:
        try:
            return pl.DataFrame(rows, schema=self._schema)
        except (pl.exceptions.PolarsError, TypeError, OverflowError):  # of another version: all is looked at again
            return pl.DataFrame(schema=self._schema)
