"""Which columns of a table hold which of our fields: by options, by usual names, and by values.

What two tools would read differently is decided by a rule that a note states, or asked for.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.audio.name_matching import is_audio
from nbaudio.core.errors import InputError
from nbaudio.formats.delimited import USUAL_SEPARATORS
from nbaudio.formats.source_columns import (
    MILLISECONDS,
    NONE,
    SAMPLES,
    UNITS,
    USUAL_NAMES,
    choose,
    plain_name,
    unit_of,
)
from nbaudio.tables.rows import Rows
from nbaudio.tables.split_names import split_role

_TIMES = ("start", "end", "duration")
_NAMES = {**USUAL_NAMES, "split": ("split", "set", "subset", "partition", "fold")}
# An offset is the start of a segment in NeMo's tables, and its end beside an onset.
_OFFSETS = frozenset(
    f"offset{ending}" for ending in ("", "s", "sec", "seconds", "ms", "sample", "samples")
)
_OTHER_UNIT = re.compile(r"[\W_](frames?|us|ns)[\W_]*$", re.IGNORECASE)
_READ_AS = {MILLISECONDS: "milliseconds", SAMPLES: "samples of the recording"}
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
# Times that are not read: clock times and timecodes, numbers with blanks or apostrophes between
# thousands, numbers with a unit, and durations of ISO 8601.
_UNREAD_TIME = (
    r"^(\d+ days?,? )?\d+:\d+(:\d+)?([.,:;]\d+)?$"
    r"|^\d{1,3}([ \u{a0}\u{202f}'’]\d{3})+([.,]\d+)?$"
    r"|^\d+([.,]\d+)? ?(ms|msec|s|sec|secs|seconds)$"
    r"|^(\d+ ?h ?)?\d+ ?m(in)?( ?\d+([.,]\d+)? ?s)?$"
    r"|^PT[\d.,HMS]+$"
)
# Words in the names of columns that look like times, whatever else is in the name.
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_START_WORDS = frozenset(
    ("start", "starts", "begin", "beg", "onset", "starttime", "begintime", "in")
)
_END_WORDS = frozenset(("end", "ends", "stop", "finish", "offset", "endtime", "stoptime", "out"))
_IDS_OF_TEN = 9  # of ten values in a column of ids, so many must be different

# By field: the column that an option names, ``none`` for no column, or None to find it.
_Chosen = Mapping[str, str | None]


@dataclass(frozen=True)
class TableColumns:
    """The column of each field that a table has, and what to report about the choice.

    Attributes:
        columns: the column of each field.
        notes: lines for the report.
        unit: the unit of all times, one of `UNITS`, where an option says it.
    """

    columns: Mapping[str, str]
    notes: Sequence[str]
    unit: str | None = None

    def units(self) -> dict[str, str | None]:
        """Return the unit of each field of times, None where neither option nor name says it."""
        return {
            key: self.unit or unit_of(self.columns[key]) for key in _TIMES if key in self.columns
        }


@dataclass(frozen=True)
class _Misfit:
    """A column that has a usual name of a field, and why it is not taken."""

    key: str
    column: str
    reason: str  # continues "column 'id' ..."

    def note(self) -> str:
        """Return a line for the report."""
        return (
            f"column {self.column!r} {self.reason} and is not used as {self.key}: "
            f"--option {self.key}={self.column} uses it"
        )


def choose_columns(
    source: Path, rows: Rows, chosen: _Chosen, unit: str | None = None
) -> TableColumns:
    """Find the column of each field of a table.

    Args:
        source: the table, for messages.
        rows: its rows, with the columns as they are called there.
        chosen: by field, the column that an option names, ``none`` for no column, or None to find
            it.
        unit: the unit of all times, one of `UNITS`; None to take what the columns' names say.

    Raises:
        InputError: there is no such unit, an option names no column, no column has the recordings
            or the texts, or the times can be read in several ways; the message names the option
            that says which.
    """
    _check_unit(unit)
    available = list(rows.schema)
    misfits = _misfits(rows, chosen)
    unfit = _unfit_by_field(misfits, chosen)
    names: dict[str, Sequence[str]] = {**_NAMES, **_names_of_offset(source, rows, chosen, unfit)}
    if unit is not None:  # whatever the names of columns say
        names |= {key: (*names[key], *_in_other_unit(rows, key).values()) for key in _TIMES}
    tentative, _ = choose(source, available, chosen, names, unfit)
    useless = [*_useless_times(tentative, chosen, unit), *_repeated_ids(rows, tentative, chosen)]
    dropped = {misfit.key for misfit in useless}
    if "end" in tentative and chosen["duration"] is None:
        dropped.add("duration")
    settled = {**chosen, **dict.fromkeys(dropped, NONE)}
    columns, notes = choose(source, available, settled, names, unfit)
    table_columns = TableColumns(columns, notes, unit)
    _check_columns(source, rows, table_columns, chosen)
    notes += [misfit.note() for misfit in (*misfits, *useless)]
    notes += _notes_on_units(table_columns)
    notes += _notes_on_unread_times(rows, columns)
    notes += _notes_on_unused(available, columns)
    return table_columns


def _misfits(rows: Rows, chosen: _Chosen) -> list[_Misfit]:
    """Return the columns that have a usual name of a field, but not values of it.

    A column that is called exactly as the field is taken as it is.
    """
    named = {*chosen.values()}
    misfits = []
    for key, names in _NAMES.items():
        if chosen[key] is not None:
            continue
        plain = {plain_name(name) for name in names}
        for column in rows.schema:
            is_usual = column != key and column not in named and plain_name(column) in plain
            if is_usual and (reason := _misfit(key, rows, column)):
                misfits.append(_Misfit(key, column, reason))
    return misfits


def _misfit(key: str, rows: Rows, column: str) -> str | None:
    """Return why a column does not hold values of a field, or None if it may."""
    if not _has_cells(rows.schema[column]):
        return "has neither texts nor numbers"
    if key in _TIMES:
        if _has_number(rows, column) or _unread_time(rows, column):
            return None
        return "has no numbers"
    if key == "split":
        unknown = [value for value in _values(rows, column) if split_role(value) is None]
        return f"has values that name no split, such as {unknown[0]!r}," if unknown else None
    if key == "asr_text" and not any(
        (~texts.str.contains(_NUMBER)).any() for texts in _texts(rows, column)
    ):
        return "has no words"
    return None


def _has_cells(dtype: pl.DataType) -> bool:
    """Return whether values are texts or numbers, rather than lists, structs or dates."""
    texts = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null)
    return dtype.is_numeric() or dtype in texts


def _texts(rows: Rows, column: str) -> Iterator[pl.Series]:
    """Yield the values of a column that are not blank, as texts, batch by batch."""
    for batch in rows.batches([column]):
        texts = batch[column].cast(pl.String).str.strip_chars().drop_nulls()
        yield texts.filter(texts != "")


def _values(rows: Rows, column: str) -> list[str]:
    """Return the different values of a column that are not blank, in order."""
    return list(
        dict.fromkeys(
            value for texts in _texts(rows, column) for value in texts.unique(maintain_order=True)
        )
    )


def _has_number(rows: Rows, column: str) -> bool:
    return any(texts.str.contains(_NUMBER).any() for texts in _texts(rows, column))


def _unread_time(rows: Rows, column: str) -> str | None:
    """Return a value such as 00:01:02.5 or 1 200, where a column of times has these."""
    for texts in _texts(rows, column):
        unread = texts.filter(texts.str.contains(_UNREAD_TIME))
        if len(unread):
            return str(unread[0])
    return None


def _unfit_by_field(misfits: Sequence[_Misfit], chosen: _Chosen) -> dict[str, set[str]]:
    """Return the columns that are not taken for each field without an option.

    They are its misfits, and what options name for other fields; but recordings and ids may share a
    column with another field.
    """
    named = {column for column in chosen.values() if column is not None}
    unfit: dict[str, set[str]] = {key: set(named) for key in chosen}
    unfit |= {"name": set(), "segment_id": set()}
    for misfit in misfits:
        unfit[misfit.key].add(misfit.column)
    return unfit


def _names_of_offset(
    source: Path, rows: Rows, chosen: _Chosen, unfit: Mapping[str, set[str]]
) -> dict[str, tuple[str]]:
    """Return whether an offset is the start or the end, as the name of that field.

    With a duration and no other start it is the start, beside an onset it is the end; it is not
    needed where start and end, or start and duration, are there.
    """
    named = {*chosen.values()}
    offsets = [column for column in rows.schema if plain_name(column) in _OFFSETS]
    usable = [
        column
        for column in offsets
        if column not in named and _misfit("start", rows, column) is None
    ]
    if not usable:
        return {}
    offset = usable[0]
    columns, _ = choose(source, list(rows.schema), chosen, _NAMES, unfit)
    has_start = "start" in columns
    has_end = "end" in columns
    if not has_start and "duration" in columns and not has_end and chosen["start"] is None:
        return {"start": (offset,)}
    if has_start and not has_end and chosen["end"] is None:
        if any(plain_name(column).startswith("onset") for column in rows.schema):
            return {"end": (offset,)}
        if "duration" in columns:
            return {}
    elif has_start or chosen["start"] is not None:
        return {}
    raise InputError(
        f"{source}: is column {offset!r} where segments start, or where they end? say it by "
        f"--option start={offset} or --option end={offset}; start=none and end=none leave it out"
    )


def _useless_times(
    columns: Mapping[str, str], chosen: _Chosen, unit: str | None
) -> Iterator[_Misfit]:
    """Yield a start without an end, and an end without a start, whose names are only similar.

    Also a duration in samples without a start: nothing but seconds is compared with recordings.
    """
    guessed = {
        key: column for key, column in columns.items() if chosen[key] is None and column != key
    }
    if "start" in guessed and "end" not in columns and "duration" not in columns:
        yield _Misfit("start", guessed["start"], "has neither an end nor a duration beside it")
    duration = guessed.get("duration")
    if duration and "start" not in columns and (unit or unit_of(duration)) == SAMPLES:
        yield _Misfit("duration", duration, "is in samples, has no start beside it")
    if "end" in guessed and "start" not in columns:
        yield _Misfit("end", guessed["end"], "has no start beside it")


def _repeated_ids(rows: Rows, columns: Mapping[str, str], chosen: _Chosen) -> Iterator[_Misfit]:
    """Yield a column whose name is only similar to that of ids, if its values repeat."""
    column = columns.get("segment_id")
    if column is None or column == "segment_id" or chosen["segment_id"] is not None:
        return
    # As hashes: ids take several times the memory.
    hashes = pl.concat(_hashes(batch[column]) for batch in rows.batches([column]))
    if 10 * hashes.drop_nulls().n_unique() < _IDS_OF_TEN * len(hashes):
        yield _Misfit("segment_id", column, "has repeated values")


def _hashes(column: pl.Series) -> pl.Series:
    """Return the hashes of values; null where they are blank."""
    texts = column.cast(pl.String).str.strip_chars()
    return pl.select(pl.when(texts != "").then(texts.hash())).to_series()


def _check_unit(unit: str | None) -> None:
    """Raise InputError for an option that names no unit of times."""
    if unit is not None and unit not in UNITS:
        raise InputError(f"option times={unit!r}: must be {', '.join(UNITS[:-1])} or {UNITS[-1]}")


def _check_columns(source: Path, rows: Rows, table_columns: TableColumns, chosen: _Chosen) -> None:
    """Raise InputError where the columns of a table are not enough, or not clear."""
    _check_needed(source, rows, table_columns.columns, chosen)
    _check_times(source, rows, table_columns.columns, chosen, table_columns.unit)
    _check_pairs(source, rows, table_columns.columns)
    _check_unread_times(source, rows, table_columns.columns, chosen)
    _check_units(source, table_columns)


def _check_needed(source: Path, rows: Rows, columns: Mapping[str, str], chosen: _Chosen) -> None:
    """Raise InputError where no column has the recordings, or the texts and no option says so."""
    has = f"it has {', '.join(rows.schema)}"
    for key in ("name", "text"):
        if key not in columns and (key == "name" or chosen[key] is None):
            hint = _hint_at_header(source, rows)
            if key == "name":
                hint = _hint_at_datasets(rows) + hint
            raise InputError(
                f"{source}: which column is {key}? name it by the option {key}; {has}{hint}"
            )


def _hint_at_header(source: Path, rows: Rows) -> str:
    """Return what to do where the names of the columns look like the cells of a row."""
    is_delimited = source.suffix.lower() in USUAL_SEPARATORS
    is_row = any(re.fullmatch(_NUMBER, name) or is_audio(name) for name in rows.schema)
    if not is_delimited or not is_row:
        return ""
    return (
        "; if the first line is no header, name all columns, such as --option "
        "header=name,start,end,text"
    )


def _hint_at_datasets(rows: Rows) -> str:
    for column, dtype in rows.schema.items():
        if isinstance(dtype, pl.Struct) and {"bytes", "path"} <= {f.name for f in dtype.fields}:
            return f"; {column} has recordings, as 'nbaudio ingest hf' reads them"
    return ""


def _check_times(
    source: Path, rows: Rows, columns: Mapping[str, str], chosen: _Chosen, unit: str | None
) -> None:
    """Raise InputError for times in units that are not read, by their names or values.

    That is also where no start or end is found, and a column has one in such a unit: without it,
    the row would be of the whole recording.
    """
    by_key = {key: column for key, column in columns.items() if key in _TIMES}
    spans = [key for key in ("end", "duration") if key in columns]
    if "start" not in columns and chosen["start"] is None:
        by_key |= _in_other_unit(rows, "start")
    elif not spans and chosen["end"] is None:
        by_key |= _in_other_unit(rows, "end")
    for key, column in by_key.items():
        leave_out = f"add a column in seconds, or leave it out by --option {key}=none"
        if unit is None and (other := _OTHER_UNIT.search(column)):
            remedy = leave_out
            if "frame" in other[1].lower():
                remedy = f"if these are samples, give --option times=samples; else {leave_out}"
            raise InputError(
                f"{source}: column {column!r} is in {other[1]}, a unit of time that is not read: "
                f"{remedy}"
            )
        is_number = not _has_cells(rows.schema[column]) or _has_number(rows, column)
        if not is_number and (unread := _unread_time(rows, column)):
            raise InputError(
                f"{source}: column {column!r} has times such as {unread!r}, which are not read: "
                f"{leave_out}"
            )


def _check_pairs(source: Path, rows: Rows, columns: Mapping[str, str]) -> None:
    """Raise InputError for a start without an end, or the other way around."""
    has = f"it has {', '.join(rows.schema)}"
    if "start" in columns and columns.keys().isdisjoint(("end", "duration")):
        raise InputError(f"{source}: a start needs an end or a duration; {has}")
    if "end" in columns and "start" not in columns:
        raise InputError(f"{source}: an end needs a start; {has}")


def _check_units(source: Path, table_columns: TableColumns) -> None:
    """Raise InputError where some times are samples and others are not."""
    units = table_columns.units()
    if "start" not in units or SAMPLES not in units.values():
        return
    others = [table_columns.columns[key] for key, unit in units.items() if unit != SAMPLES]
    if others:
        samples = next(table_columns.columns[key] for key, unit in units.items() if unit == SAMPLES)
        raise InputError(
            f"{source}: column {samples!r} is in samples, and {others[0]!r} is not: name columns "
            "of one unit by the options start, end and duration, and say it by --option "
            "times=samples, times=ms or times=s"
        )


def _check_unread_times(
    source: Path, rows: Rows, columns: Mapping[str, str], chosen: _Chosen
) -> None:
    """Raise InputError where two columns look like start and end, and no row would have times.

    Every row would be its whole recording without them.
    """
    if "start" in columns or chosen["start"] is not None or chosen["end"] is not None:
        return
    unused = [column for column in rows.schema if column not in columns.values()]
    starts, ends = (
        [column for column in unused if _has_word(column, words) and _has_times(rows, column)]
        for words in (_START_WORDS, _END_WORDS)
    )
    if starts and ends:
        raise InputError(
            f"{source}: columns {starts[0]!r} and {ends[0]!r} look like times of segments: if they "
            f"are, in seconds, give --option start={starts[0]} --option end={ends[0]}; start=none "
            "and end=none leave them out, and each row is a whole recording"
        )


def _has_word(column: str, words: frozenset[str]) -> bool:
    """Return whether the name of a column has one of the words, such as ``t_start``."""
    return any(word.lower() in words for word in _WORD.findall(column))


def _has_times(rows: Rows, column: str) -> bool:
    """Return whether a column has numbers, or times that are not read."""
    if not _has_cells(rows.schema[column]):
        return False
    return _has_number(rows, column) or _unread_time(rows, column) is not None


def _in_other_unit(rows: Rows, key: str) -> dict[str, str]:
    """Return a column that is called as a field in a unit that is not read, if there is one."""
    usual = {plain_name(name) for name in _NAMES[key]}
    for column in rows.schema:
        if plain_name(_OTHER_UNIT.sub("", column)) in usual and _OTHER_UNIT.search(column):
            return {key: column}
    return {}


def _notes_on_units(table_columns: TableColumns) -> Iterator[str]:
    """Yield a line on the columns of each unit that is not seconds."""
    why = "as --option times says" if table_columns.unit else "as the name says"
    for unit, words in _READ_AS.items():
        columns = [
            table_columns.columns[key]
            for key, column_unit in table_columns.units().items()
            if column_unit == unit
        ]
        if columns:
            yield f"{' and '.join(map(repr, columns))}: read as {words}, {why}"


def _notes_on_unread_times(rows: Rows, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each column of times of which some are no numbers; see `_check_times`."""
    for column in (columns[key] for key in _TIMES if key in columns):
        if rows.schema[column] != pl.String:
            continue
        unread = _unread_time(rows, column)
        if unread is not None:
            yield (
                f"column {column!r} has times such as {unread!r} in some rows, which are not read: "
                "write these as seconds"
            )


def _notes_on_unused(available: Sequence[str], columns: Mapping[str, str]) -> Iterator[str]:
    used = {*columns.values()}
    if unused := [name for name in available if name not in used]:
        yield f"columns of the source that are kept, but not used: {', '.join(unused)}"
