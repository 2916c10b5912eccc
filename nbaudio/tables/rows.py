"""Rows of a table in order, read batch by batch.

Where they are many, they are kept in temporary files.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TypeVar

import polars as pl

from nbaudio.core import atomic

_Batch = TypeVar("_Batch", bound=Sized)

_FOLDER = ".rows.partial"
_PART_BYTES = 32 << 20  # bytes of a part on disk; rows of fewer bytes stay in memory
_numbers = count()
_folder: ContextVar[Path | None] = ContextVar("_folder", default=None)


def _write(folder: Path, frame: pl.DataFrame) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{next(_numbers)}.arrow"
    with atomic.raise_disk_full(folder):
        frame.write_ipc(path, compression="zstd")
    return path


def with_starts(batches: Iterable[_Batch]) -> Iterator[tuple[int, _Batch]]:
    """Yield the batches of a table or an array, each with the number of its first row, from 0."""
    start = 0
    for batch in batches:
        yield start, batch
        start += len(batch)


@contextmanager
def rows_on_disk(folder: Path) -> Iterator[None]:
    """Keep `Rows` that are collected meanwhile below `folder` where they are many.

    Remove them in the end.
    """
    temporary = folder / _FOLDER
    is_new = not folder.exists()
    atomic.remove(temporary)  # of a killed run
    token = _folder.set(temporary)
    try:
        yield
    finally:
        _folder.reset(token)
        atomic.remove(temporary)
        if is_new:
            with suppress(OSError):  # it has other files
                folder.rmdir()


@dataclass(frozen=True)
class Rows:
    """Rows of a table, which can be read several times.

    Functions are applied to each batch of them.

    Examples:
        >>> frames = [pl.DataFrame({"name": ["a", "a"]}), pl.DataFrame({"text": ["da"]})]
        >>> upper = pl.col("name").str.to_uppercase()
        >>> Rows.collect(frames).map(lambda batch: batch.with_columns(upper)).frame().rows()
        [('A', None), ('A', None), (None, 'da')]
    """

    parts: tuple[pl.DataFrame | Path, ...]
    schema: pl.Schema  # of the parts together
    functions: tuple[Callable[[pl.DataFrame], pl.DataFrame], ...] = ()

    @classmethod
    def collect(cls, frames: Iterable[pl.DataFrame], first: Iterable[str] = ()) -> "Rows":
        """Collect frames, whose columns may differ; the columns `first` come before the others."""
        folder = _folder.get()
        parts: list[pl.DataFrame | Path] = []
        dtypes: dict[str, pl.DataType] = {}
        pending: list[pl.DataFrame] = []
        size = 0.0
        for frame in frames:
            dtypes = {
                **dtypes,
                **{name: dtype for name, dtype in frame.schema.items() if name not in dtypes},
            }
            pending.append(frame)
            size += frame.estimated_size()
            if folder is not None and size > _PART_BYTES:
                parts.append(_write(folder, pl.concat(pending, how="diagonal")))
                pending = []
                size = 0.0
        if pending:
            parts.append(pl.concat(pending, how="diagonal", rechunk=True))
        order = dict.fromkeys((*(name for name in first if name in dtypes), *dtypes))
        return cls(tuple(parts), pl.Schema({name: dtypes[name] for name in order}))

    @property
    def height(self) -> int:
        """Number of the rows."""
        return sum(map(len, self.batches([next(iter(self.schema), "")])))

    def map(self, function: Callable[[pl.DataFrame], pl.DataFrame]) -> "Rows":
        """Return the rows as `function` changes them, batch by batch."""
        return replace(self, functions=(*self.functions, function))

    def batches(self, columns: Collection[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield the rows in order, at least one batch.

        If `columns` are given, only these of the collected columns are read, as far as they are
        there.
        """
        schema = {
            name: dtype for name, dtype in self.schema.items() if columns is None or name in columns
        }
        for part in self.parts or [pl.DataFrame()]:
            part_schema = (
                part.schema if isinstance(part, pl.DataFrame) else pl.read_ipc_schema(part)
            )
            # The first column gives the number of rows.
            names = [name for name in schema if name in part_schema] or list(part_schema)[:1]
            rows = part if isinstance(part, pl.DataFrame) else pl.read_ipc(part, columns=names)
            absent = (
                pl.lit(None, dtype).alias(name)
                for name, dtype in schema.items()
                if name not in part_schema
            )
            batch = rows.with_columns(absent).select(*schema)
            for function in self.functions:
                batch = function(batch)
            yield batch

    def frame(self) -> pl.DataFrame:
        """Return all rows in memory."""
        return pl.concat(self.batches(), how="vertical", rechunk=True)

    def unique(self, *columns: str) -> pl.DataFrame:
        """Return the different rows of some columns, in the order in which they come first."""
        distinct = pl.DataFrame()
        for batch in self.batches(columns):
            distinct = pl.concat(
                [distinct, batch.select(name for name in columns if name in batch.columns)],
                how="diagonal",
            )
            distinct = distinct.unique(maintain_order=True)
        return distinct
