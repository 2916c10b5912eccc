"""Join: a further transcript, hypothesis or fact of each segment from a table, by the segment's id or by file and times."""

import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nbaudio.core import dataframes, tables
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, first_lines
from nbaudio.formats.table import Cells, cell_texts, read_cells
from nbaudio.sources.joined_columns import check_name, store_column
from nbaudio.storage.workspace import Workspace, locks_workspace

BY_ID, BY_TIMES = ("segment_id",), ("file", "start", "end")
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
_UNMATCHED, _NO_KEY = "matches no segment", "a key is empty or no number"
_PROBLEMS = pl.Schema({"file": pl.String, "line": pl.Int64, "key": pl.String, "reason": pl.String, "value": pl.String})


@locks_workspace("join")
def join(
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
    """Bring a further transcript, hypothesis or fact of each segment into a workspace, as a column of the segments table.

    What matches no segment, or not exactly one, is listed in the table ``joined/COLUMN`` of the workspace and not used. Called
    again, it replaces what `join` wrote before.

    Args:
        workspace: the workspace or its folder.
        table: a .csv, .tsv, .jsonl, .parquet or .xlsx file, or a pandas or polars frame.
        on: ``segment_id``, or ``file,start,end``: the recording's id, path or file name, and seconds, equal as decimals. Columns
            have these or usual names such as ``id``, ``audio_filepath``, ``offset``, ``duration``.
        text: name of a transcript: the column is `text_NAME`.
        hypothesis: name of a hypothesis: the column is `asr_text_NAME`. An empty one is a hypothesis of no words.
        column: name of the column of anything else; numbers and true or false are recognized. Give one of these three.
        from_: column of `table` that has the values; by default one with a usual name.
        tolerance: most seconds by which start and end each may differ, where no times are equal.

    Raises:
        InputError: the table cannot be read, nothing matches, or a source brought a column of this name.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> workspace.save(segments=pl.DataFrame({"segment_id": ["a", "b"], "text": ["evo blic", "da"]}))
        >>> heard = pl.DataFrame({"segment_id": ["b", "a", "z"], "text": ["da", "evo blitz", "ne"]})
        >>> report = join(workspace, heard, hypothesis="large")
        >>> report.facts["matched"], report.problems
        (2, ['row 3: z: matches no segment'])
        >>> workspace.segments["asr_text_large"].to_list()
        ['evo blitz', 'da']
    """
    workspace = Workspace.open(workspace)
    given = {kind: name for kind, name in (("text", text), ("hypothesis", hypothesis), ("column", column)) if name is not None}
    if len(given) != 1:
        raise InputError("give one of text, hypothesis and column: the name of what is joined")
    [(kind, name)] = given.items()
    keys = tuple(part.strip() for part in on.split(",")) if isinstance(on, str) else tuple(on)
    if keys not in (BY_ID, BY_TIMES):
        raise InputError(f"on={','.join(keys)}: must be segment_id or file,start,end")
    if (most := _decimal(str(tolerance))) is None or most < 0:
        raise InputError(f"tolerance={tolerance!r}: must be a number of seconds, 0 or more")
    target = check_name(workspace, kind, name)
    source, (frame, row_lines, unread) = _read(table)
    used = _key_columns(source, frame.columns, keys)
    held = _value_column(source, frame.columns, (name, target, *_NAMES[kind]), from_, used.values())
    values = _values(source, frame[held], kind)
    located = {key: cell_texts(source, frame[key_column], empty=False) for key, key_column in used.items()}
    labels = [" ".join(str(part) for part in row if part is not None) for row in zip(*located.values(), strict=True)]
    matches, reasons = (_by_id if keys == BY_ID else _by_times)(workspace, located, most)
    row_numbers, segments = matches["row"], matches["segment"]
    reasons |= dict.fromkeys(row_numbers.filter(segments.is_duplicated()), "the table has this segment several times")
    reasons |= dict.fromkeys(row_numbers.filter(row_numbers.is_duplicated()), "matches several segments")
    blank = values.fill_null("").str.strip_chars() == "" if values.dtype == pl.String else values.is_null()
    if kind == "text":
        reasons |= dict.fromkeys(set(blank.arg_true()) - set(reasons), "the text is empty")
    good = matches.filter(~pl.col("row").is_in(list(reasons)))
    if good.is_empty():
        first = f"; {labels[row]!r} {reasons[row]}" if (row := min(reasons, default=None)) is not None else ""
        raise InputError(f"{source}: none of its {len(values):,} rows can be joined{first}")
    ids = tables.read(workspace, ["segment_id"])["segment_id"]
    found = pl.DataFrame({"segment_id": ids[good["segment"]], "value": values[good["row"]]}).drop_nulls("value")
    record = {"step": "join", "kind": kind, "file": str(source), "from": values.name, "on": list(keys)}
    changes = store_column(workspace, target, found, record)
    shown = values.cast(pl.String)
    problems: list[tuple[Any, ...]] = [(str(source), one.line, "", one.reason, None) for one in unread]
    problems += [(str(source), row_lines[row], labels[row], reasons[row], shown[row]) for row in sorted(reasons)]
    if problems:
        tables.write(workspace, pl.DataFrame(problems, schema=_PROBLEMS, orient="row"), table=f"joined/{target}")
    else:
        tables.table_path(workspace, f"joined/{target}").unlink(missing_ok=True)
    facts: dict[str, Any] = {"column": target, "rows": len(values), "matched": len(good), "segments": len(ids)}
    facts |= {"without": len(ids) - len(found), **changes, "empty": int(blank.sum()), "not_joined": len(problems)}
    place = "line" if isinstance(table, str | Path) else "row"
    lines = [f"{place} {line}: {f'{label}: ' if label else ''}{reason}" for _, line, label, reason, _ in problems]
    facts["next"] = f"nbaudio score {workspace.path} --{kind} {name}" if kind != "column" else f"nbaudio stats {workspace.path}"
    report = Report("join", facts, problems=first_lines(lines, f"{workspace.path}/joined/{target}.parquet"))
    workspace.save_report(f"join_{target}", report.to_dict())
    return report


def _read(table: Any) -> tuple[Path, Cells]:
    """Return the name of a table for messages, and its cells."""
    if isinstance(table, str | Path):
        path = Path(table)
        return path, read_cells(path, ending=".jsonl" if path.suffix.lower() == ".json" else None)
    frame = dataframes.as_polars(table)
    return Path("table"), Cells(frame, range(1, len(frame) + 1), [])


def _key_columns(source: Path, held: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
    """Return the column of each key; a duration stands for a missing end."""
    found = {key: next((name for name in _NAMES[key] if name in held), None) for key in (*keys, "duration")}
    without_end = "end" in keys and found["end"] is None and found["duration"] is not None
    wanted = [key for key in found if key != ("end" if without_end else "duration")]
    if missing := [key for key in wanted if found[key] is None]:
        usual = ", ".join(_NAMES[missing[0]])
        raise InputError(f"{source}: no column {missing[0]} (or {usual}); it has {', '.join(held)}")
    return {key: name for key in wanted if (name := found[key])}


def _value_column(source: Path, held: Sequence[str], names: Sequence[str], from_: str | None, used: Iterable[str]) -> str:
    others = [name for name in held if name not in used]
    if from_ is not None:
        if from_ not in held:
            raise InputError(f"{source}: no column {from_!r}; it has {', '.join(held)}")
        return from_
    for name in (*names, *(others if len(others) == 1 else [])):
        if name in others:
            return name
    raise InputError(f"{source}: which column has the values? name it by from; it has {', '.join(others) or 'no others'}")


def _values(source: Path, column: pl.Series, kind: str) -> pl.Series:
    """Return the values to join: texts composed, lists of words joined; of other columns numbers, true or false."""
    if column.dtype == pl.List(pl.String):
        column = column.list.join(" ")
    elif column.dtype == pl.String and (lists := column.str.starts_with('["')).any():
        column = column.scatter(lists.arg_true(), [_joined(one) for one in column.filter(lists)])
    if kind != "column":
        return cell_texts(source, column, empty=True).str.normalize("NFC")
    if column.dtype == pl.Boolean or column.dtype.is_numeric():
        return column
    plain = cell_texts(source, column, empty=False)
    if column.dtype != pl.String or plain.str.contains(r"^[+-]?0\d").any():  # ids, such as 007
        return plain
    lower = plain.str.to_lowercase()
    is_boolean = lower.drop_nulls().is_in(["true", "false"]).all() and lower.count()
    written = (lower if is_boolean else plain).to_frame().write_csv().encode()
    return pl.read_csv(written, infer_schema_length=None, raise_if_empty=False).to_series()


def _joined(words: str) -> str:
    try:
        return " ".join(msgspec.json.decode(words, type=list[str]))
    except msgspec.MsgspecError:
        return words


def _by_id(workspace: Workspace, located: Mapping[str, pl.Series], _tolerance: Decimal) -> tuple[pl.DataFrame, dict[int, str]]:
    """Return pairs of a row of the table and of a segment (numbers), and why rows match none."""
    ids = tables.read(workspace, ["segment_id"]).with_row_index("segment")
    rows = located["segment_id"].alias("segment_id").to_frame().with_row_index("row")
    matches = rows.join(ids, on="segment_id", maintain_order="left").select("row", "segment")
    missed = rows.join(matches, on="row", how="anti")
    empty = missed.filter(pl.col("segment_id").is_null())["row"]
    return matches, dict.fromkeys(missed["row"], _UNMATCHED) | dict.fromkeys(empty, _NO_KEY)


def _by_times(workspace: Workspace, located: Mapping[str, pl.Series], tolerance: Decimal) -> tuple[pl.DataFrame, dict[int, str]]:
    known = _recording_names(workspace)
    times = {key: [_decimal(one) for one in located[key]] for key in ("start", "end", "duration") if key in located}
    if "end" not in times:
        pairs = zip(times["start"], times["duration"], strict=True)
        times["end"] = [None if start is None or length is None else start + length for start, length in pairs]
    segments = defaultdict(list)
    for number, (owner, *bounds) in enumerate(tables.read(workspace, ["recording_id", "source_start", "source_end"]).iter_rows()):
        first, last = map(_decimal, bounds)
        if first is not None and last is not None:
            segments[owner].append((first, last, number))
    for some in segments.values():
        some.sort()
    matches, reasons = [], {}
    for row, (name, start, end) in enumerate(zip(located["file"], times["start"], times["end"], strict=True)):
        recording = next((known[key] for key in _spellings(name or "") if key in known), None)
        if name and not isinstance(recording, str):
            reasons[row] = "no recording has this name" if recording is None else "several recordings have this name"
        elif not isinstance(recording, str) or start is None or end is None:
            reasons[row] = _NO_KEY
        elif found := _near(segments[recording], start, end, tolerance):
            matches += [(row, number) for number in found]
        else:
            reasons[row] = _UNMATCHED
    return pl.DataFrame(matches, schema=dict.fromkeys(("row", "segment"), pl.UInt32), orient="row"), reasons


def _near(segments: Sequence[tuple[Decimal, Decimal, int]], start: Decimal, end: Decimal, tolerance: Decimal) -> list[int]:
    """Return the numbers of the segments with equal times, or else of those whose times differ by `tolerance` at most."""
    first = bisect_left(segments, start - tolerance, key=itemgetter(0))
    last = bisect_right(segments, start + tolerance, key=itemgetter(0))
    near = [one for one in segments[first:last] if abs(one[1] - end) <= tolerance]
    return [one[2] for one in near if one[:2] == (start, end)] or [one[2] for one in near]


def _recording_names(workspace: Workspace) -> dict[str, str | int]:
    """Return the recording of each id, path and name in the source, and of each file name; a number for several recordings."""
    pairs = workspace.recordings.select("recording_id", "path").rows()
    if tables.table_path(workspace, "names").exists():
        pairs += workspace.table("names").select("recording_id", "name").rows()
    found: dict[str, set[str]] = defaultdict(set)
    for key, name in pairs:
        for spelling in _spellings(name) if name and key else ():
            found[spelling].add(key)
    unique = {name: len(keys) if len(keys) > 1 else next(iter(keys)) for name, keys in found.items()}
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
    return value if value.is_finite() and -30 <= value.adjusted() <= 12 else None
