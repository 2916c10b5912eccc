"""Join: a further transcript, hypothesis or fact of each segment from a table.

Segments are found by their ids, or by file and times.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core import dataframes, tables
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, first_lines
from nbaudio.core.rows import Rows, rows_on_disk, with_starts
from nbaudio.formats.decimal_comma import decimal_comma_columns, with_decimal_points
from nbaudio.formats.structured import check_values, with_fields
from nbaudio.formats.table import Cells, cell_texts, read_cells
from nbaudio.sources.joined_columns import check_name, store_column
from nbaudio.storage.workspace import Workspace, locks_workspace

IntArray = NDArray[np.int64]

BY_ID = ("segment_id",)
BY_TIMES = ("file", "start", "end")
_BY_DURATIONS = ("file", "start", "duration")
_NAMES = {
    "segment_id": ("segment_id", "id", "key", "utt_id", "utterance_id"),
    "file": ("file", "path", "name", "recording_id", "recording", "audio", "audio_filepath"),
    "start": ("start", "source_start", "start_time", "offset"),
    "end": ("end", "source_end", "end_time"),
    "duration": ("duration",),
    "text": ("text", "transcript", "sentence", "words"),
    "hypothesis": ("asr_text", "pred_text", "hypothesis", "asr", "text"),
    "column": (),
}
_UNMATCHED = "matches no segment"
_NO_KEY = "a key is empty or no number"
_NO_RECORDING = "no recording has this name"
_SEVERAL_RECORDINGS = "several recordings have this name"
_TWICE = "the table has this segment several times"
_SEVERAL = "matches several segments"
_EMPTY = "the text is empty"
_REASONS = ("", _UNMATCHED, _NO_KEY, _NO_RECORDING, _SEVERAL_RECORDINGS, _TWICE, _SEVERAL, _EMPTY)
_SECOND = 10**9  # times are compared in nanoseconds
_NO_TIME = np.iinfo(np.int64).min
# Matches the keys of some rows: pairs of a row and the number of a segment, and for each row why it
# has none (of `_REASONS`).
_Match = Callable[[Mapping[str, pl.Series]], tuple[IntArray, IntArray, NDArray[np.uint8]]]
_PROBLEMS = pl.Schema(
    {"file": pl.String, "line": pl.Int64, "key": pl.String, "reason": pl.String, "value": pl.String}
)


@locks_workspace("join")
def join(  # noqa: PLR0914
    workspace: Workspace | str | Path,
    table: Any,
    *,
    on: str | Sequence[str] = BY_ID,
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
            is given as COLUMN=KEY: ``hashname=segment_id``, ``path=file,from=start,to=end``.
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
    given = {
        kind: name
        for kind, name in (("text", text), ("hypothesis", hypothesis), ("column", column))
        if name is not None
    }
    if len(given) != 1:
        raise InputError("give one of text, hypothesis and column: the name of what is joined")
    [(kind, name)] = given.items()
    if (most := _decimal(str(tolerance))) is None or most < 0:
        raise InputError(f"tolerance={tolerance!r}: must be a number of seconds, 0 or more")
    target = check_name(workspace, kind, name)
    with rows_on_disk(workspace.path):
        keys = _split_keys(on)
        source, cells = _read(table, keys, kind, from_)
        used = _key_columns(source, cells.columns, keys)
        held = _value_column(
            source, cells.columns, (name, target, *_NAMES[kind]), from_, used.values()
        )
        joined = _Joined(source, cells, used, held, _converter(source, cells.rows, held, kind))
        total = tables.num_rows(tables.table_path(workspace))
        joined.match((_by_id if BY_ID[0] in used else _by_times)(workspace, total, most), total)
        values = Rows.ordered(joined.values(no_blanks=kind == "text"), "row")
        if not joined.matched:
            first = (
                f"; {joined.problems[0][2]!r} {joined.problems[0][3]}" if joined.problems else ""
            )
            raise InputError(
                f"{source}: none of its {len(cells.lines):,} rows can be joined{first}"
            )
        record = {"step": "join", "kind": kind, "file": str(source), "from": held, "on": list(used)}
        changes = store_column(workspace, target, values, record)
    problems = [
        (str(source), one.line, "", one.reason, None) for one in cells.problems
    ] + joined.problems
    _save_problems(workspace, f"joined/{target}", problems)
    facts: dict[str, Any] = {
        "column": target,
        "rows": len(cells.lines),
        "matched": joined.matched,
        "segments": total,
    }
    facts |= {
        "without": total - joined.given,
        **changes,
        "empty": joined.blank,
        "not_joined": len(problems),
    }
    lines = _problem_lines(problems, "line" if isinstance(table, str | Path) else "row")
    facts["next"] = (
        f"nbaudio score {workspace.path} --{kind} {name}"
        if kind != "column"
        else f"nbaudio stats {workspace.path}"
    )
    rest = f"{workspace.path}/joined/{target}.parquet"
    report = Report("join", facts, cells.all_notes(), first_lines(lines, rest))
    workspace.save_report(f"join_{target}", report.to_dict())
    return report


def _save_problems(
    workspace: Workspace,
    table: str,
    problems: Sequence[tuple[str, int | None, str, str, str | None]],
) -> None:
    """Write the rows that were not joined, or remove those of a call before."""
    if problems:
        rows = pl.DataFrame(problems, schema=_PROBLEMS, orient="row")
        tables.write(workspace, rows, table=table)
    else:
        tables.table_path(workspace, table).unlink(missing_ok=True)


def _problem_lines(
    problems: Sequence[tuple[str, int | None, str, str, str | None]], place: str
) -> list[str]:
    """Return what the report says of the rows of `_PROBLEMS`; `place` is ``line`` or ``row``."""
    return [
        f"{place} {line}: {f'{label}: ' if label else ''}{reason}"
        for _, line, label, reason, _ in problems
    ]


@dataclass
class _Joined:
    """The rows of a table: which segment each is of, or why none; in memory are only numbers."""

    source: Path
    cells: Cells
    used: Mapping[str, str]  # the columns of the keys
    held: str  # the column of the values
    convert: Callable[[pl.Series], pl.Series]
    problems: list[tuple[str, int, str, str, str | None]] = field(default_factory=list)
    matched: int = 0
    given: int = 0  # values that are not null
    blank: int = 0

    def match(self, match: _Match, total: int) -> None:
        """Find the segment that each row belongs to, and why others belong to none.

        The workspace has `total` segments.
        """
        self.why, self.segment = (
            np.zeros(len(self.cells.lines), np.uint8),
            np.zeros(len(self.cells.lines), np.uint32),
        )
        times = np.zeros(max(total, 1), np.uint8)  # that a segment is found, 2 for more
        for start, batch in with_starts(self.cells.rows.batches(self.used.values())):
            places, numbers, missed = match(self._keys(batch))
            missed[np.bincount(places, minlength=len(batch)) > 1] = _REASONS.index(_SEVERAL)
            self.why[start : start + len(batch)] = missed
            self.segment[start + places] = numbers
            segments, counts = np.unique(numbers, return_counts=True)
            times[segments] = np.minimum(times[segments] + counts, 2)
        self.why[(self.why == 0) & (times[self.segment] > 1)] = _REASONS.index(_TWICE)

    def values(self, *, no_blanks: bool) -> Iterator[pl.DataFrame]:
        """Yield the number of a segment (`row`) and its `value`, and count them.

        Add the other rows to `problems`.
        """
        for start, batch in with_starts(self.cells.rows.batches((self.held, *self.used.values()))):
            values = self.convert(batch[self.held])
            why = self.why[start : start + len(batch)]
            blank = (
                values.fill_null("").str.strip_chars() == ""
                if values.dtype == pl.String
                else values.is_null()
            )
            if no_blanks:
                why[(why == 0) & blank.to_numpy()] = _REASONS.index(_EMPTY)
            if why.any():
                keys = pl.DataFrame(self._keys(batch))
                shown = values.cast(pl.String)
                for row in np.flatnonzero(why).tolist():
                    label = " ".join(str(part) for part in keys.row(row) if part is not None)
                    self.problems.append(
                        (
                            str(self.source),
                            self.cells.lines[start + row],
                            label,
                            _REASONS[why[row]],
                            shown[row],
                        )
                    )
            found = pl.DataFrame(
                {"row": self.segment[start : start + len(batch)], "value": values}
            ).filter(why == 0)
            self.matched += len(found)
            self.blank += int(blank.sum())
            yield found.drop_nulls("value")
            self.given += len(found) - found["value"].null_count()

    def _keys(self, batch: pl.DataFrame) -> dict[str, pl.Series]:
        return {
            key: cell_texts(self.source, batch[column], empty=False)
            for key, column in self.used.items()
        }


def _split_keys(on: str | Sequence[str]) -> Sequence[str]:
    return on.split(",") if isinstance(on, str) else on


def _read(table: Any, keys: Sequence[str], kind: str, column: str | None) -> tuple[Path, Cells]:
    """Return the name of a table for messages, and its cells, with `column`.

    That may be a field of another column, such as ``text.de``.
    Times have decimal points, and so have the other numbers of a table if facts are joined.
    """
    if isinstance(table, str | Path):
        path = Path(table)
        ending = ".jsonl" if path.suffix.lower() == ".json" else None
        cells = read_cells(path, ending=ending, is_header=partial(_has_keys, keys))
        numbers = decimal_comma_columns(cells.rows) if kind == "column" else ()
        fielded = with_fields(path, cells.rows, [column])
        pointed = with_decimal_points(path, fielded, numbers)
        return path, cells._replace(rows=pointed.rows, notes=[*cells.notes, *pointed.notes])
    frame = dataframes.as_polars(table)
    rows = with_fields(Path("table"), Rows.collect([frame]), [column])
    return Path("table"), Cells(rows, range(1, len(frame) + 1), [])


def _has_keys(on: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether columns have the keys that segments are found by."""
    try:
        _key_columns(Path(), names, on)
    except InputError:
        return False
    return True


def _key_columns(source: Path, held: Sequence[str], on: Sequence[str]) -> dict[str, str]:
    """Return the column of each key; a duration stands for a missing end."""
    named = _named_columns(source, held, on)
    has = f"it has {', '.join(held)}"
    if absent := [column for column in named.values() if column and column not in held]:
        raise InputError(f"{source}: on={','.join(on)}: there is no column {absent[0]!r}; {has}")
    found = {key: column or _usual_column(key, held) for key, column in named.items()}
    if "end" in found and found["end"] is None and (duration := _usual_column("duration", held)):
        del found["end"]
        found["duration"] = duration
    if missing := [key for key, column in found.items() if column is None]:
        key = missing[0]
        usual = ", ".join(_NAMES[key])
        raise InputError(
            f"{source}: no column {key} (or {usual}); {has}; one of another name is COLUMN={key}"
        )
    return {key: column for key, column in found.items() if column}


def _usual_column(key: str, held: Sequence[str]) -> str | None:
    return next((name for name in _NAMES[key] if name in held), None)


def _named_columns(source: Path, held: Sequence[str], on: Sequence[str]) -> dict[str, str | None]:
    """Return the keys of ``segment_id``, or of ``file,start,end``, in this order.

    Each has the column that is named for it, as in ``hashname=segment_id``, or None.
    """
    pairs = [part.rpartition("=") for part in on]
    named = {key.strip(): column.strip() or None for column, _, key in pairs}
    for keys in (BY_ID, BY_TIMES, _BY_DURATIONS):
        if len(on) == len(keys) and named.keys() == {*keys}:
            return {key: named[key] for key in keys}
    raise InputError(
        f"on={','.join(on)}: must be segment_id or file,start,end (or file,start,duration); a "
        f"column of another name is COLUMN=KEY, such as hashname=segment_id; {source} has "
        f"{', '.join(held)}"
    )


def _value_column(
    source: Path, held: Sequence[str], names: Sequence[str], from_: str | None, used: Iterable[str]
) -> str:
    others = [name for name in held if name not in used]
    if from_ is not None:
        if from_ not in held:
            raise InputError(f"{source}: no column {from_!r}; it has {', '.join(held)}")
        return from_
    for name in (*names, *(others if len(others) == 1 else [])):
        if name in others:
            return name
    raise InputError(
        f"{source}: which column has the values? name it by from; "
        f"it has {', '.join(others) or 'no others'}"
    )


def _converter(source: Path, rows: Rows, held: str, kind: str) -> Callable[[pl.Series], pl.Series]:
    """Return a function that converts a column's values.

    It composes texts and joins lists of words. In columns of other kinds it recognizes numbers, and
    true or false.
    """
    dtype = rows.schema[held]
    if kind != "column":

        def text(column: pl.Series) -> pl.Series:
            return cell_texts(source, _words(column), empty=True).str.normalize("NFC")

        check_values(source, held, (text(batch[held]) for batch in rows.batches([held])))
        return text
    if dtype == pl.Boolean or dtype.is_numeric():
        return lambda column: column

    def plain(column: pl.Series) -> pl.Series:
        return cell_texts(source, _words(column), empty=False)

    found: set[object] = set()
    for batch in rows.batches([held]) if dtype in (pl.String, pl.List(pl.String)) else ():
        given = plain(batch[held]).drop_nulls()
        if given.str.contains(r"^[+-]?0\d").any():  # ids, such as 007
            return plain
        found |= {_parsed(given).dtype} if len(given) else set()
    kinds = (
        (pl.Boolean(), {pl.Boolean}),
        (pl.Int64(), {pl.Int64}),
        (pl.Float64(), {pl.Int64, pl.Float64}),
    )
    fits = [kind for kind, of_batches in kinds if found and found <= of_batches]
    return (lambda column: _parsed(plain(column), fits[0])) if fits else plain


def _parsed(texts: pl.Series, dtype: pl.DataType | None = None) -> pl.Series:
    """Parse numbers, and true and false in any case, as polars reads CSV."""
    lower = texts.str.to_lowercase()
    is_boolean = lower.drop_nulls().is_in(["true", "false"]).all() and lower.count()
    written = (lower if is_boolean else texts).alias("value").to_frame().write_csv().encode()
    schema = None if dtype is None else {"value": dtype}
    return pl.read_csv(
        written, schema=schema, infer_schema_length=None, raise_if_empty=False
    ).to_series()


def _words(column: pl.Series) -> pl.Series:
    """Join each list of words with blanks; lists may also be JSON texts.

    A list of sentences is no list of words, and stays as it is.
    """
    if column.dtype == pl.List(pl.String):
        has_sentence = column.list.eval(pl.element().str.contains(r"\S\s+\S")).list.any().any()
        return column if has_sentence else column.list.join(" ")
    if column.dtype == pl.String and (lists := column.str.starts_with('["')).any():
        return column.scatter(lists.arg_true(), [_joined(one) for one in column.filter(lists)])
    return column


def _joined(words: str) -> str:
    try:
        items = msgspec.json.decode(words, type=list[str])
    except msgspec.MsgspecError:
        return words
    return words if any(len(item.split()) > 1 for item in items) else " ".join(items)


def _id_hashes(ids: pl.Series, seed: int) -> NDArray[np.uint64]:
    """Return hashes of ids, which are the same in every Unicode composition."""
    return ids.str.normalize("NFC").hash(seed).to_numpy()


def _by_id(workspace: Workspace, total: int, _tolerance: Decimal) -> _Match:
    """Return the function that matches ids, by 128-bit hashes."""
    first, second = np.empty((2, total), np.uint64)
    for at, part in with_starts(tables.read_batches(workspace, columns=["segment_id"])):
        for seed, hashes in enumerate((first, second)):
            hashes[at : at + len(part)] = _id_hashes(part["segment_id"], seed)
    order = np.argsort(first, kind="stable").astype(np.uint32)
    first = first[order]
    second = second[order]

    def match(located: Mapping[str, pl.Series]) -> tuple[IntArray, IntArray, NDArray[np.uint8]]:
        ids = located["segment_id"]
        own = _id_hashes(ids, 0)
        start, end = (np.searchsorted(first, own, side=side) for side in ("left", "right"))
        counts = np.where(ids.is_null().to_numpy(), 0, end - start)
        row = np.repeat(np.arange(len(ids)), counts)
        place = np.arange(len(row)) + np.repeat(start - (np.cumsum(counts) - counts), counts)
        same = second[place] == _id_hashes(ids, 1)[row]
        missed = np.full(len(ids), _REASONS.index(_UNMATCHED), np.uint8)
        missed[ids.is_null().to_numpy()] = _REASONS.index(_NO_KEY)
        missed[row[same]] = 0
        return row[same], order[place[same]].astype(np.int64), missed

    return match


def _by_times(workspace: Workspace, total: int, tolerance: Decimal) -> _Match:
    """Return the function that matches recordings and times.

    Times match if they are equal, or else if they differ by `tolerance` at most.
    """
    known = _recording_names(workspace)
    most = int(tolerance * _SECOND)
    numbers: dict[str, int] = {}
    owner = np.empty(total, np.int32)
    start = np.empty(total, np.int64)
    end = np.empty(total, np.int64)
    for at, part in with_starts(
        tables.read_batches(workspace, columns=("recording_id", "source_start", "source_end"))
    ):
        own = slice(at, at + len(part))
        owner[own] = [numbers.setdefault(key, len(numbers)) for key in part["recording_id"]]
        start[own], end[own] = _times(part["source_start"]), _times(part["source_end"])
    owner[(start == _NO_TIME) | (end == _NO_TIME)] = -1
    order = np.lexsort((start, owner)).astype(np.uint32)
    owner = owner[order]
    start = start[order]
    end = end[order]
    first_of, end_of = (
        np.searchsorted(owner, np.arange(len(numbers)), side=side).tolist()
        for side in ("left", "right")
    )

    def match(located: Mapping[str, pl.Series]) -> tuple[IntArray, IntArray, NDArray[np.uint8]]:
        begins = _times(located["start"])
        ends = _times(located["end" if "end" in located else "duration"])
        if "end" not in located:
            ends = np.where((begins == _NO_TIME) | (ends == _NO_TIME), _NO_TIME, begins + ends)
        pairs = list[tuple[int, int]]()
        missed = np.zeros(len(begins), np.uint8)
        for row, (name, begin, stop) in enumerate(
            zip(located["file"], begins.tolist(), ends.tolist(), strict=True)
        ):
            recording = next((known[key] for key in _spellings(name or "") if key in known), None)
            if name and not isinstance(recording, str):
                missed[row] = _REASONS.index(
                    _NO_RECORDING if recording is None else _SEVERAL_RECORDINGS
                )
                continue
            if not isinstance(recording, str) or _NO_TIME in (begin, stop):
                missed[row] = _REASONS.index(_NO_KEY)
                continue
            number = numbers.get(recording, -1)
            first, last = (first_of[number], end_of[number]) if number >= 0 else (0, 0)
            first, last = first + np.searchsorted(
                start[first:last], [begin - most, begin + most + 1]
            )
            near = first + np.flatnonzero(np.abs(end[first:last] - stop) <= most)
            exact = near[(start[near] == begin) & (end[near] == stop)]
            found = exact if len(exact) else near
            pairs += [(row, int(order[place])) for place in found]
            missed[row] = 0 if len(found) else _REASONS.index(_UNMATCHED)
        rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return rows[:, 0], rows[:, 1], missed

    return match


def _times(texts: pl.Series) -> IntArray:
    """Convert seconds to whole nanoseconds; `_NO_TIME` where a text is no number."""
    values = (_decimal(text) for text in texts)
    return np.array(
        [_NO_TIME if value is None else round(value * _SECOND) for value in values], dtype=np.int64
    )


def _recording_names(workspace: Workspace) -> dict[str, str | int]:
    """Return the recording of each id, path and name in the source, and of each file name.

    For a name that several recordings share, return the number of these recordings instead.
    """
    pairs = workspace.recordings.select("recording_id", "path").rows()
    if tables.table_path(workspace, "names").exists():
        pairs += workspace.table("names").select("recording_id", "name").rows()
    found: dict[str, set[str]] = defaultdict(set)
    for key, name in pairs:
        for spelling in _spellings(name) if name and key else ():
            found[spelling].add(key)
    unique = {
        name: len(keys) if len(keys) > 1 else next(iter(keys)) for name, keys in found.items()
    }
    return unique | {key: key for key, _ in pairs if key}


def _spellings(name: str) -> list[str]:
    """Return a name of a file as it is, without its folders, and without its ending."""
    name = unicodedata.normalize("NFC", name)
    last = name.replace("\\", "/").rpartition("/")[2]
    return [name, last, last.rpartition(".")[0] or last]


def _decimal(text: str | None) -> Decimal | None:
    try:
        value = Decimal((text or "").strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() and -30 <= value.adjusted() <= 9 else None
