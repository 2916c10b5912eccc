"""Rows of segments in a workspace, a corpus or a frame; columns are read on demand."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError, one_line
from nbaudio.corpus.layout import CORPUS_JSON, read_corpus_info
from nbaudio.storage.folders import Folder
from nbaudio.tables import parquet_files, schemas, workspace_tables
from nbaudio.tables.amounts import with_durations
from nbaudio.tables.conditions import parse_condition, rows_that_meet
from nbaudio.tables.workspace import Workspace

ROWS = 1 << 17  # rows that are read at once
_JOINED = ("sampling_rate", "duration_s")
_TIMES = ("recording_id", "start_sample", "end_sample", "source_start", "source_end")
# The decision of the rows of each table of a corpus.
_FILES = {"segments.parquet": "accept", "rejected.parquet": "reject"}

Columns = Sequence[str]
Parts = Callable[[Columns], Iterator[pl.DataFrame]]


@dataclass(frozen=True)
class SegmentRows:
    """Rows with the columns of `schema`.

    `parts` takes some of these columns and yields the rows, `ROWS` at a time, in at least one part.
    `measured` are the columns that models wrote, each with its unit; empty if it has none.
    """

    schema: pl.Schema
    parts: Parts
    measured: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_frame(cls, frame: pl.DataFrame) -> "SegmentRows":
        """Return the rows of a frame."""
        starts = range(0, max(1, len(frame)), ROWS)
        return cls(
            frame.schema,
            lambda names: (frame[start : start + ROWS].select(names) for start in starts),
        )

    def read(self, *columns: str, codes: bool = False) -> pl.DataFrame:
        """Return some columns of all rows, each once; with `codes`, texts as categories."""
        parts = self.parts(list(dict.fromkeys(columns)))
        if codes:
            parts = (part.with_columns(pl.col(pl.String).cast(pl.Categorical)) for part in parts)
        return pl.concat(parts, rechunk=True)

    def in_memory(self) -> "SegmentRows":
        """Return the rows with all columns read, once."""
        return replace(SegmentRows.of_frame(self.read(*self.schema)), measured=self.measured)

    def count(self, column: str) -> int:
        """Return the number of rows with a value."""
        return sum(part[column].count() for part in self.parts((column,)))

    def filter(self, condition: pl.Expr) -> "SegmentRows":
        """Return the rows that meet a condition on some columns."""
        mask = self.read(*condition.meta.root_names()).select(condition).to_series()
        return self._passing(mask)

    def where(self, text: str) -> "SegmentRows":
        """Return the rows that meet an SQL condition, or all for none.

        Raise InputError as `parse_condition` does.
        """
        if not text.strip():
            return self
        condition = parse_condition(text.strip(), self.schema)
        columns = condition.columns or list(self.schema)[:1]
        return self._passing(rows_that_meet(condition, self.read(*columns)))

    def _passing(self, mask: pl.Series) -> "SegmentRows":
        """Return the rows where a mask, which has a value for each row, is true."""

        def parts(names: Columns) -> Iterator[pl.DataFrame]:
            done = 0
            for part in self.parts(names):
                yield part.filter(mask.slice(done, len(part)))
                done += len(part)

        return SegmentRows(self.schema, parts, self.measured)


def units_of(measured: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the unit of each column that a model wrote; empty if it has none."""
    return {column: record.get("unit", "") for column, record in measured.items()}


def workspace_rows(
    workspace: Workspace, columns: Callable[[Columns], Columns] | None = None
) -> SegmentRows:
    """Return the segments of a workspace with their durations.

    They have all columns, or those that `columns` chooses from the names and those of models.
    """
    measured = units_of(workspace.measured_columns)
    path = workspace_tables.table_path(workspace)
    stored_schema = workspace_tables.table_schema(workspace)
    types = {**schemas.SEGMENTS, **stored_schema, **schemas.SEGMENTS}
    names = list(types)
    if columns is not None:
        names = [*columns(list(stored_schema)), *measured]
    schema = pl.Schema({name: types[name] for name in names if name in types})
    rates = workspace_tables.read(workspace, ["recording_id", "sampling_rate"], table="recordings")
    return _stored(
        schema,
        lambda names: (
            (str(path), part) for part in parquet_files.parquet_slices(path, names, rows=ROWS)
        ),
        rates,
        measured,
    )


def corpus_rows(folder: Folder, columns: Callable[[Columns], Columns]) -> SegmentRows:
    """Return the segments of a corpus and those that it rejected, with their durations.

    They have the columns that `columns` chooses from the names and those of models.
    """
    recordings = _corpus_recordings(folder)
    measured = units_of(read_corpus_info(folder).get("measured", {}))

    def read(names: Columns | None, stop: int | None = None) -> Iterator[tuple[str, pl.DataFrame]]:
        for name in _FILES:
            yield from _read_corpus_table(folder, name, names, stop)

    heads = []
    for name, head in read(None, stop=0):
        if "segment_id" not in head:
            raise InputError(
                f"{folder}/{name}: the key column segment_id is missing; "
                f"columns are {', '.join(head.columns)}"
            )
        names = dict.fromkeys((*columns(head.columns), *measured))
        chosen = head.select(column for column in names if column in head)
        heads.append(schemas.conform(chosen, schemas.SEGMENTS, name).drop("word_times"))
    rows = _stored(pl.concat(heads, how="diagonal_relaxed").schema, read, recordings, measured)
    if folder.place.local is not None:
        return rows
    return rows.in_memory()


def _corpus_recordings(folder: Folder) -> pl.DataFrame:
    """Return the recordings that corpus.json lists; raise InputError if they are not a table."""
    sources = read_corpus_info(folder).get("sources", [])
    place = f"{folder}/{CORPUS_JSON}: sources"
    try:
        return schemas.conform(pl.DataFrame(sources), schemas.RECORDINGS, place)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InputError(f"{place} are not a table ({one_line(error)})") from error


def _read_corpus_table(
    folder: Folder, name: str, columns: Columns | None, stop: int | None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the name of a table of a corpus with the rows before `stop`, `ROWS` at a time.

    Rows have the `decision` that the table is of. Raise InputError if it cannot be read.
    """
    decision = pl.lit(_FILES[name])
    try:
        with folder.local(name) as path:
            for part in parquet_files.parquet_slices(path, columns, rows=ROWS, stop=stop):
                yield name, part.with_columns(decision=decision)
    except InputError as error:
        raise InputError(
            f"{folder}: the tables of the corpus cannot be read ({error}); "
            f"'nbaudio verify {folder}'"
        ) from error


def _stored(
    schema: pl.Schema,
    read: Callable[[Columns], Iterator[tuple[str, pl.DataFrame]]],
    recordings: pl.DataFrame,
    measured: Mapping[str, str],
) -> SegmentRows:
    """Return rows of these types, with the columns that `tables.with_durations` adds.

    `read` yields the names of files, and rows with those of the columns that they hold. `measured`
    are the columns of models with their units.
    """

    def parts(names: Columns) -> Iterator[pl.DataFrame]:
        is_joined = not {*_JOINED}.isdisjoint(names)
        needed = dict.fromkeys(name for name in names if name not in _JOINED)
        if is_joined:
            needed |= dict.fromkeys(_TIMES)
        types = pl.Schema({name: schema[name] for name in needed})
        for file, part in read(list(needed)):
            rows = schemas.conform(part, types, file)
            if is_joined:
                rows = with_durations(rows, recordings)
            yield rows.select(names)

    return SegmentRows(
        with_durations(pl.DataFrame(schema=schema), recordings.clear()).schema, parts, measured
    )
