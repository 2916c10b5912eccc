"""Join: a further transcript, hypothesis or other value of each segment, from a table.

A row of the table names its segment by id, by file and times, or all segments of a recording.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.core.report import Report, first_lines
from nbaudio.formats.decimal_comma import decimal_comma_columns, with_decimal_points
from nbaudio.formats.structured import check_values, with_fields
from nbaudio.formats.table import Cells, cell_texts, read_cells
from nbaudio.sources.join_matching import decimal, match_ids, match_times
from nbaudio.sources.joined_columns import check_name, store_column
from nbaudio.tables import dataframes, parquet_files, workspace_tables
from nbaudio.tables.buckets import joined_schema, store, write_row_buckets
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.rows import Rows, rows_on_disk, with_starts
from nbaudio.tables.workspace import Workspace, locks_workspace

_BY_ID = ("segment_id",)
_BY_TIMES = ("file", "start", "end")
_BY_DURATIONS = ("file", "start", "duration")
_BY_RECORDING = ("recording_id",)
# Usual names of the column of a key, and of the values of a kind, the first that is there counts.
_USUAL_NAMES = {
    "segment_id": ("segment_id", "id", "key", "utt_id", "utterance_id"),
    "recording_id": ("recording_id", "recording", "file", "path", "name", "audio_filepath"),
    "file": ("file", "path", "name", "recording_id", "recording", "audio", "audio_filepath"),
    "start": ("start", "source_start", "start_time", "offset"),
    "end": ("end", "source_end", "end_time"),
    "duration": ("duration",),
    "text": ("text", "transcript", "sentence", "words"),
    "hypothesis": ("asr_text", "pred_text", "hypothesis", "asr", "text"),
    "column": (),
}
_EMPTY = "the text is empty"
# Columns beside those of a table of recordings: the id of a segment, and the number of the row that
# names its recording.
_SEGMENT = "segment_id of the recording"
_ROW = "row of the table"
_PROBLEMS = pl.Schema(
    {"file": pl.String, "line": pl.Int64, "key": pl.String, "reason": pl.String, "value": pl.String}
)


@locks_workspace("join")
def join(
    workspace: Workspace | str | Path,
    table: Any,
    *,
    on: str | Sequence[str] = _BY_ID,
    text: str | None = None,
    hypothesis: str | None = None,
    column: str | None = None,
    from_: str | None = None,
    tolerance: float | str = 0,
) -> Report:
    """Bring a further transcript, hypothesis or fact of each segment into a workspace.

    It becomes a column of the segments table. What matches no segment, or not exactly one, is
    listed in the table ``joined/COLUMN`` of the workspace and not used. Called again, it replaces
    what `join` wrote before.

    Args:
        workspace: the workspace or its folder.
        table: a .csv, .tsv, .jsonl, .parquet, .xlsx or .ods file, or a pandas or polars frame.
        on: ``segment_id``, or ``file,start,end`` (or ``duration`` instead of ``end``): the
            recording's id, path or file name, and seconds, equal to the nanosecond. Columns have
            these or usual names such as ``id``, ``audio_filepath``, ``offset``; one of another name
            is given as COLUMN=KEY: ``hashname=segment_id``, ``path=file,from=start,to=end``. Or
            ``recording_id``: all segments of a recording, named by its id or path, get the value.
        text: name of a transcript: the column is `text_NAME`.
        hypothesis: name of a hypothesis: the column is `asr_text_NAME`. An empty one is a
            hypothesis of no words.
        column: name of the column of anything else; numbers and true or false are recognized. Give
            one of these three.
        from_: column of `table` that has the values; by default one with a usual name.
        tolerance: most seconds by which start and end each may differ, where no times are equal.

    Raises:
        InputError: the table cannot be read, nothing matches, or a source brought a column of this
            name.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> segments = pl.DataFrame({"segment_id": ["a", "b"], "text": ["evo blic", "da"]})
        >>> workspace.save(segments=segments)
        >>> heard = pl.DataFrame({"segment_id": ["b", "a", "z"], "text": ["da", "evo blitz", "ne"]})
        >>> report = join(workspace, heard, hypothesis="large")
        >>> report.facts["matched"], report.problems
        (2, ['row 3: z: matches no segment'])
        >>> workspace.segments["asr_text_large"].to_list()
        ['evo blitz', 'da']
    """
    workspace = Workspace.open(workspace)
    requested = _requested(text=text, hypothesis=hypothesis, column=column)
    max_difference = _parse_tolerance(tolerance)
    target = check_name(workspace, requested.kind, requested.name)
    keys = _split_keys(on)
    with rows_on_disk(workspace.path), scratch_folder(workspace.path) as folder:
        source = _read(table, keys, requested.kind, from_)
        columns = _columns(source, keys, requested, target, from_)
        joined = _join_rows(workspace, source, columns, max_difference, folder)
        changes = store_column(workspace, target, joined.values, columns.record(requested.kind))
    problems = _problems(joined.source, joined.problems)
    _save_problems(workspace, f"joined/{target}", problems)
    num_segments = parquet_files.num_rows(workspace_tables.table_path(workspace))
    facts = {
        "column": target,
        "rows": source.num_rows,
        "matched": joined.counts.matched,
        "segments": num_segments,
        "without": num_segments - joined.counts.values,
        **changes,
        "empty": joined.counts.empty,
        "not_joined": len(problems),
        "next": requested.next_command(workspace),
    }
    place = "line" if isinstance(table, str | Path) else "row"
    lines = first_lines(
        [problem.line_of_report(place) for problem in problems],
        f"{workspace.path}/joined/{target}.parquet",
    )
    report = Report("join", facts, source.cells.all_notes(), lines)
    workspace.save_report(f"join_{target}", report.to_dict())
    return report


@dataclass(frozen=True)
class _Requested:
    """What is joined: the `kind` is ``text``, ``hypothesis`` or ``column``."""

    kind: str
    name: str

    def next_command(self, workspace: Workspace) -> str:
        """Return the command that uses what was joined."""
        if self.kind == "column":
            return f"nbaudio stats {workspace.path}"
        return f"nbaudio score {workspace.path} --{self.kind} {self.name}"


def _requested(**names: str | None) -> _Requested:
    """Return the kind and name of what is joined; raise InputError unless there is one name."""
    requested = [_Requested(kind, name) for kind, name in names.items() if name is not None]
    if len(requested) != 1:
        raise InputError("give one of text, hypothesis and column: the name of what is joined")
    return requested[0]


def _parse_tolerance(tolerance: float | str) -> Decimal:
    """Return a tolerance in seconds; raise InputError if it is none."""
    seconds = decimal(str(tolerance))
    if seconds is None or seconds < 0:
        raise InputError(f"tolerance={tolerance!r}: must be a number of seconds, 0 or more")
    return seconds


@dataclass(frozen=True)
class _Source:
    """A table that is joined.

    Attributes:
        path: its name for messages.
        cells: its rows, their lines in the file, and the lines that could not be read.
    """

    path: Path
    cells: Cells

    @property
    def num_rows(self) -> int:
        """The number of rows that could be read."""
        return len(self.cells.lines)


@dataclass(frozen=True)
class _Columns:
    """The columns of the table that are used.

    Attributes:
        source: the name of the table for messages.
        keys: the column of each key, such as ``segment_id``, by the key.
        values: the column of the values.
        convert: converts values as they were read to those of the segments table.
        needs_text: whether a row with an empty value is a problem, as of transcripts.
    """

    source: Path
    keys: Mapping[str, str]
    values: str
    convert: Callable[[pl.Series], pl.Series]
    needs_text: bool

    def record(self, kind: str) -> dict[str, Any]:
        """Return what the workspace records of a joined column."""
        return {
            "step": "join",
            "kind": kind,
            "file": str(self.source),
            "from": self.values,
            "on": list(self.keys),
        }


def _columns(
    source: _Source, keys: Sequence[str], requested: _Requested, target: str, from_: str | None
) -> _Columns:
    """Return the columns that are used; the values become the column `target`.

    Raise InputError for a column that is missing, or whose values are unusable.
    """
    names = source.cells.columns
    key_columns = _key_columns(source.path, names, keys)
    usual = (requested.name, target, *_USUAL_NAMES[requested.kind])
    values = _value_column(source.path, names, usual, from_, key_columns.values())
    convert = _converter(source.path, source.cells.rows, values, requested.kind)
    return _Columns(source.path, key_columns, values, convert, requested.kind == "text")


@dataclass(frozen=True)
class _Counts:
    """Rows of the table that match a segment, those of them with a value, and empty values."""

    matched: int
    values: int
    empty: int


@dataclass(frozen=True)
class _Joined:
    """The outcome of matching the rows of a table with segments.

    Attributes:
        values: `row`, that of the segments table, and its `value`.
        problems: `table_row`, the row of `source`, `key`, `reason` and `value` of rows that are
            not used, in the order of the table.
        counts: how many rows are matched.
        source: the table; where it names recordings, with a row for each segment of theirs.
    """

    values: pl.LazyFrame
    problems: pl.DataFrame
    counts: _Counts
    source: _Source


def _by_segment(workspace: Workspace, source: _Source, columns: _Columns) -> _Source:
    """Return a table of recordings with a row for each segment of theirs, named in `_SEGMENT`."""
    frame = source.cells.frame
    ids = workspace.recordings.select("recording_id", "path")
    names = pl.concat(
        [ids.select("recording_id", name=name) for name in ids.columns], how="vertical_relaxed"
    )
    # A name that is the id of one recording and the path of another is that of the first.
    names = names.drop_nulls().unique("name", keep="first", maintain_order=True)
    segments = workspace_tables.scan(workspace, ["segment_id", "recording_id"]).collect()
    keyed = (
        _key_texts(frame, columns)
        .select(name="recording_id")
        .with_row_index(_ROW)
        .join(names, on="name", how="left", maintain_order="left")
        .join(segments, on="recording_id", how="left", maintain_order="left")
    )
    # An unknown recording, or one without segments, has a key that matches none, for the message.
    segment = pl.coalesce("segment_id", pl.lit("recording ") + pl.col("name"))
    rows = frame[keyed[_ROW]].with_columns(keyed.select(segment.alias(_SEGMENT)).to_series())
    lines = [source.cells.lines[row] for row in keyed[_ROW]]
    return _Source(source.path, source.cells._replace(rows=Rows.collect([rows]), lines=lines))


def _join_rows(
    workspace: Workspace, source: _Source, columns: _Columns, tolerance: Decimal, folder: Path
) -> _Joined:
    """Find the segment of each row of a table; intermediate tables are written to the folder.

    Raise InputError if no row has one.
    """
    if "recording_id" in columns.keys:
        source = _by_segment(workspace, source, columns)
        columns = replace(columns, keys={"segment_id": _SEGMENT})
    matches = _matches(workspace, source, columns, tolerance, folder / "matching")
    rows = _store_values(source.cells, columns, folder / "values")
    outcomes = _beside_matches(rows, matches, source.num_rows, folder)
    if columns.needs_text:
        outcomes = _without_empty(outcomes)
    is_matched = pl.col("reason").is_null()
    has_value = is_matched & pl.col("value").is_not_null()
    counts = outcomes.select(
        matched=is_matched.sum(), values=has_value.sum(), empty=pl.col("is_blank").sum()
    ).collect(**STREAMED)
    problems = (
        outcomes.filter(~is_matched)
        .select("table_row", "key", "reason", pl.col("value").cast(pl.String))
        .collect(**STREAMED)
        .sort("table_row")
    )
    if not counts["matched"].item():
        raise InputError(
            f"{source.path}: none of its {source.num_rows:,} rows can be joined{_example(problems)}"
        )
    values_of_segments = outcomes.filter(has_value).select("row", "value")
    return _Joined(values_of_segments, problems, _Counts(*counts.row(0)), source)


def _without_empty(outcomes: pl.LazyFrame) -> pl.LazyFrame:
    """Return rows of which those with an empty text have that as their reason."""
    is_empty = pl.col("reason").is_null() & pl.col("is_blank")
    return outcomes.with_columns(reason=pl.when(is_empty).then(pl.lit(_EMPTY)).otherwise("reason"))


def _matches(
    workspace: Workspace, source: _Source, columns: _Columns, tolerance: Decimal, folder: Path
) -> pl.LazyFrame:
    """Match the rows of a table with segments, by id or by recording and times."""
    keys = _keys(source.cells, columns)
    if "segment_id" in columns.keys:
        return match_ids(workspace, keys, folder)
    return match_times(workspace, keys, tolerance, folder)


def _beside_matches(
    rows: pl.LazyFrame, matches: pl.LazyFrame, num_rows: int, folder: Path
) -> pl.LazyFrame:
    """Return the rows of the table with `row`, that of the segment, and `reason` of their matches.

    Both tables are divided by `table_row`, so that the buckets at the same place have the same
    rows. The column by which `write_row_buckets` divides is named `row`.
    """
    numbered = rows.rename({"table_row": "row"})
    rows_by_row = write_row_buckets(numbered, num_rows=num_rows, folder=folder / "rows")
    of_segments = matches.rename({"row": "segment", "table_row": "row"})
    matches_by_row = write_row_buckets(of_segments, num_rows=num_rows, folder=folder / "matched")
    joined = (
        part.join(matched, on="row").rename({"row": "table_row", "segment": "row"})
        for part, matched in zip(rows_by_row, matches_by_row, strict=True)
    )
    schema = joined_schema(rows.collect_schema(), matches.collect_schema())
    return store(joined, folder / "outcomes", schema)


def _keys(cells: Cells, columns: _Columns) -> Iterator[pl.DataFrame]:
    """Yield `table_row` and the keys of the rows of a table, as texts."""
    for start, batch in with_starts(cells.rows.batches(columns.keys.values())):
        yield _key_texts(batch, columns).with_row_index("table_row", offset=start)


def _store_values(cells: Cells, columns: _Columns, folder: Path) -> pl.LazyFrame:
    """Store `_values` in a folder; values of all parts have the type of the first."""
    parts = _values(cells, columns)
    first = next(parts)
    return store(chain([first], parts), folder, first.schema)


def _values(cells: Cells, columns: _Columns) -> Iterator[pl.DataFrame]:
    """Yield `table_row`, `key` (all keys, for messages), `value` and `is_blank`."""
    used = (columns.values, *columns.keys.values())
    for start, batch in with_starts(cells.rows.batches(used)):
        values = columns.convert(batch[columns.values])
        is_blank = values.is_null()
        if values.dtype == pl.String:
            is_blank = values.fill_null("").str.strip_chars() == ""
        key = pl.concat_str(pl.all(), separator=" ", ignore_nulls=True)
        keys = _key_texts(batch, columns).select(key=key)
        yield keys.with_columns(values.alias("value"), is_blank.alias("is_blank")).with_row_index(
            "table_row", offset=start
        )


def _key_texts(batch: pl.DataFrame, columns: _Columns) -> pl.DataFrame:
    """Return the keys of rows as texts, null where they are blank."""
    return pl.DataFrame(
        {
            key: cell_texts(columns.source, batch[column], empty=False)
            for key, column in columns.keys.items()
        }
    )


def _example(problems: pl.DataFrame) -> str:
    """Return the end of a message: why the first row is not joined, or nothing without a row."""
    return "".join(f"; {key!r} {reason}" for _, key, reason, _ in problems.head(1).iter_rows())


class _Problem(NamedTuple):
    """A row of `_PROBLEMS`: a line that could not be read, or a row without a segment."""

    file: str
    line: int | None
    key: str
    reason: str
    value: str | None

    def line_of_report(self, place: str) -> str:
        """Return the line for the report; `place` is ``line`` or ``row``."""
        key = f"{self.key}: " if self.key else ""
        return f"{place} {self.line}: {key}{self.reason}"


def _problems(source: _Source, problems: pl.DataFrame) -> list[_Problem]:
    """Return the lines that could not be read, then the rows without a segment."""
    file = str(source.path)
    unread = [
        _Problem(file, problem.line, "", problem.reason, None) for problem in source.cells.problems
    ]
    unused = [
        _Problem(file, source.cells.lines[row], key, reason, value)
        for row, key, reason, value in problems.iter_rows()
    ]
    return [*unread, *unused]


def _save_problems(workspace: Workspace, table: str, problems: Sequence[_Problem]) -> None:
    """Write the rows that were not joined, or remove those of a call before."""
    if problems:
        rows = pl.DataFrame(problems, schema=_PROBLEMS, orient="row")
        workspace_tables.write(workspace, rows, table=table)
    else:
        workspace_tables.table_path(workspace, table).unlink(missing_ok=True)


def _split_keys(on: str | Sequence[str]) -> Sequence[str]:
    """Return the keys of the option ``on``."""
    return on.split(",") if isinstance(on, str) else on


def _read(table: Any, keys: Sequence[str], kind: str, from_: str | None) -> _Source:
    """Read a table with `from_`, which may be a field of another column, such as ``text.de``.

    Times have decimal points, and so have the other numbers of a table if facts are joined.
    """
    if isinstance(table, str | Path):
        path = Path(table)
        ending = ".jsonl" if path.suffix.lower() == ".json" else None
        cells = read_cells(path, ending=ending, is_header=partial(_has_keys, keys))
        numbers = decimal_comma_columns(cells.rows) if kind == "column" else ()
        fielded = with_fields(path, cells.rows, [from_])
        pointed = with_decimal_points(path, fielded, numbers)
        notes = [*cells.notes, *pointed.notes]
        return _Source(path, cells._replace(rows=pointed.rows, notes=notes))
    frame = dataframes.as_polars(table)
    rows = with_fields(Path("table"), Rows.collect([frame]), [from_])
    return _Source(Path("table"), Cells(rows, range(1, len(frame) + 1), []))


def _has_keys(on: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether columns have the keys that segments are found by."""
    try:
        _key_columns(Path(), names, on)
    except InputError:
        return False
    return True


def _key_columns(source: Path, names: Sequence[str], on: Sequence[str]) -> dict[str, str]:
    """Return the column of each key, of columns with `names`; a duration stands for a missing end.

    Raise InputError if a key has no column.
    """
    requested = _named_columns(source, names, on)
    listed = f"it has {', '.join(names)}"
    if absent := [column for column in requested.values() if column and column not in names]:
        raise InputError(f"{source}: on={','.join(on)}: there is no column {absent[0]!r}; {listed}")
    # A key for which no column was named has one with a usual name, or None.
    columns = {key: column or _usual_column(key, names) for key, column in requested.items()}
    if "end" in columns and columns["end"] is None:
        duration = _usual_column("duration", names)
        if duration:
            del columns["end"]
            columns["duration"] = duration
    if missing := [key for key, column in columns.items() if column is None]:
        key = missing[0]
        usual = ", ".join(_USUAL_NAMES[key])
        raise InputError(
            f"{source}: no column {key} (or {usual}); {listed}; one of another name is COLUMN={key}"
        )
    return {key: column for key, column in columns.items() if column}


def _usual_column(key: str, names: Sequence[str]) -> str | None:
    """Return the column of `names` that usually has a key, None if there is none."""
    return next((name for name in _USUAL_NAMES[key] if name in names), None)


def _named_columns(source: Path, names: Sequence[str], on: Sequence[str]) -> dict[str, str | None]:
    """Return the keys of ``segment_id``, ``recording_id`` or ``file,start,end``, in this order.

    Each has the column that is named for it, as in ``hashname=segment_id``, or None.
    """
    pairs = [part.rpartition("=") for part in on]
    named = {key.strip(): column.strip() or None for column, _, key in pairs}
    for keys in (_BY_ID, _BY_RECORDING, _BY_TIMES, _BY_DURATIONS):
        if len(on) == len(keys) and named.keys() == {*keys}:
            return {key: named[key] for key in keys}
    raise InputError(
        f"on={','.join(on)}: must be segment_id or file,start,end (or file,start,duration), or "
        "recording_id; a column of another name is COLUMN=KEY, such as hashname=segment_id; "
        f"{source} has {', '.join(names)}"
    )


def _value_column(
    source: Path,
    names: Sequence[str],
    usual: Sequence[str],
    from_: str | None,
    keys: Collection[str],
) -> str:
    """Return the column of the values, of columns with `names`.

    It is `from_`, else the first of the `usual` ones, else the only one beside the `keys`. Raise
    InputError if there is none of these.
    """
    if from_ is not None:
        if from_ not in names:
            raise InputError(f"{source}: no column {from_!r}; it has {', '.join(names)}")
        return from_
    others = [name for name in names if name not in keys]
    candidates = [name for name in usual if name in others]
    if candidates:
        return candidates[0]
    if len(others) == 1:
        return others[0]
    raise InputError(
        f"{source}: which column has the values? name it by from; "
        f"it has {', '.join(others) or 'no others'}"
    )


def _converter(source: Path, rows: Rows, name: str, kind: str) -> Callable[[pl.Series], pl.Series]:
    """Return a function that converts a column's values; raise InputError for unusable ones.

    It composes transcripts and hypotheses, and joins lists of words. In columns of the kind
    ``column`` it recognizes numbers, and true or false; to choose one type, all values are read.
    """
    if kind != "column":
        convert = partial(_composed_texts, source)
        check_values(source, name, (convert(batch[name]) for batch in rows.batches([name])))
        return convert
    dtype = rows.schema[name]
    if dtype == pl.Boolean or dtype.is_numeric():
        return lambda column: column
    plain = partial(_plain_texts, source)  # unlike transcripts: not composed, empty ones null
    recognized = None
    if dtype in (pl.String, pl.List(pl.String)):
        recognized = _recognized_type(plain(batch[name]) for batch in rows.batches([name]))
    if recognized is None:
        return plain
    return lambda column: _parse(plain(column), recognized)


def _composed_texts(source: Path, column: pl.Series) -> pl.Series:
    """Return texts in Unicode NFC; empty ones stay."""
    return cell_texts(source, _join_lists(column), empty=True).str.normalize("NFC")


def _plain_texts(source: Path, column: pl.Series) -> pl.Series:
    """Return texts as they were read; empty ones are null."""
    return cell_texts(source, _join_lists(column), empty=False)


def _recognized_type(batches: Iterable[pl.Series]) -> pl.DataType | None:
    """Return the type of the numbers or truth values that all texts are, None for other texts."""
    dtypes: set[pl.DataType] = set()
    for batch in batches:
        texts = batch.drop_nulls()
        if texts.str.contains(r"^[+-]?0\d").any():  # ids, such as 007
            return None
        if len(texts):
            dtypes.add(_parse(texts).dtype)
    if not dtypes:
        return None
    if dtypes == {pl.Boolean()}:
        return pl.Boolean()
    if dtypes == {pl.Int64()}:
        return pl.Int64()
    if dtypes <= {pl.Int64(), pl.Float64()}:
        return pl.Float64()
    return None


def _parse(texts: pl.Series, dtype: pl.DataType | None = None) -> pl.Series:
    """Parse numbers, and true and false in any case, as polars reads CSV.

    They become the type `dtype`, by default that which polars recognizes.
    """
    lower = texts.str.to_lowercase()
    if lower.count() and lower.drop_nulls().is_in(["true", "false"]).all():
        texts = lower  # the only spelling that polars reads
    written = texts.alias("value").to_frame().write_csv().encode()
    schema = None if dtype is None else {"value": dtype}
    return pl.read_csv(
        written, schema=schema, infer_schema_length=None, raise_if_empty=False
    ).to_series()


def _join_lists(column: pl.Series) -> pl.Series:
    """Join each list of words with blanks; lists may also be JSON texts.

    A list of sentences is no list of words, and stays as it is.
    """
    if column.dtype == pl.List(pl.String):
        has_sentence = column.list.eval(pl.element().str.contains(r"\S\s+\S")).list.any().any()
        return column if has_sentence else column.list.join(" ")
    if column.dtype == pl.String and (lists := column.str.starts_with('["')).any():
        joined = [_join_words(words) for words in column.filter(lists)]
        return column.scatter(lists.arg_true(), joined)
    return column


def _join_words(words: str) -> str:
    """Join a JSON list of words with blanks; another text, or a list of sentences, stays."""
    try:
        items = msgspec.json.decode(words, type=list[str])
    except msgspec.MsgspecError:
        return words
    if any(len(item.split()) > 1 for item in items):
        return words
    return " ".join(items)
