"""Any table: CSV, TSV, JSON lines, Parquet or Excel, with options that say which column is which.

Conventions: a column is found by its own name (`name`, `start`, `end` or `duration`, `text`, `asr_text`, `speaker_id`,
`segment_id`, `split`, `source_channel`) or a plain one (see `columns.NAMES`) unless an option names another, or ``none``. Guesses
are reported. A column called `id` is that of the segments where it tells them apart. Numbers keep the source's
characters; binary floats become the shortest decimal that means the same float. Without a start each row is a whole recording. An
empty `asr_text` is a hypothesis of no words, an absent one is none. Further columns are kept; those that are called like one of
ours get ``source_`` before their name.
"""

from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.tables import RECORDINGS, SEGMENTS
from nbaudio.core.times import add_seconds
from nbaudio.formats.base import PROBLEMS, TRANSCRIPTS, Problem, Transcripts
from nbaudio.formats.cells import read_cells
from nbaudio.formats.columns import are_ids, choose
from nbaudio.formats.manifests import innermost_root

_OURS = frozenset((*TRANSCRIPTS, *SEGMENTS, *RECORDINGS, "source_split", "source_channel", "source_duration", "duration_s"))
_YES_NO = {"yes": True, "no": False, None: None}


def read(
    source: Path,
    *,
    name: str | None = None,
    start: str | None = None,
    end: str | None = None,
    duration: str | None = None,
    text: str | None = None,
    asr_text: str | None = None,
    speaker_id: str | None = None,
    segment_id: str | None = None,
    split: str | None = None,
    source_channel: str | None = None,
    separator: str | None = None,
    quotes: str | None = None,
    sheet: str | None = None,
) -> Transcripts:
    r"""Read a table of segments.

    Args:
        source: a file that ends in .csv, .tsv, .jsonl, .parquet or .xlsx.
        name: the column of the recordings' names or paths. All options up to `source_channel` are names of columns; ``none``
            leaves one out, also where a column has its name.
        start: seconds; without such a column every row is a whole recording.
        end: seconds.
        duration: seconds, for tables without an end; of whole recordings the audio is checked against it.
        text: the words.
        asr_text: those that a recogniser heard.
        speaker_id: who speaks.
        segment_id: the segments' own ids.
        split: the source's own splits.
        source_channel: which channels of the recording a segment is on; see `nbaudio.core.channels`.
        separator: between the fields of .csv and .tsv, such as ``;`` or ``tab``; comma and tab unless given.
        quotes: whether these fields may stand in quotes, ``yes`` or ``no``; yes in .csv and no in .tsv unless given.
        sheet: of an .xlsx; the first unless given.

    Returns:
        The transcripts. The recordings' own folder where the first is found.

    Raises:
        InputError: the file cannot be read, has no rows, or lacks a column; names those that it has.

    Examples:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp()) / "segments.csv"
        >>> _ = source.write_text("file,start,end,sentence\na.wav,3207.70,3227.54,Dobar dan.\n")
        >>> read(source).frame.select("name", "source_start", "source_end", "text").rows()
        [('a.wav', '3207.70', '3227.54', 'Dobar dan.')]
    """
    if quotes not in _YES_NO:
        raise InputError(f"option quotes={quotes!r}: must be yes or no")
    cells = read_cells(source, separator="\t" if separator == "tab" else separator, quotes=_YES_NO[quotes], sheet=sheet)
    if cells.frame.is_empty():
        first = f"; line {cells.problems[0].line}: {cells.problems[0].reason}" if cells.problems else ""
        raise InputError(f"{source}: no rows that can be read{first}")
    chosen = {
        "name": name,
        "start": start,
        "end": end,
        "duration": duration,
        "text": text,
        "asr_text": asr_text,
        "speaker_id": speaker_id,
        "segment_id": segment_id,
        "split": split,
        "source_channel": source_channel,
    }
    columns, notes = _columns(source, cells.frame, chosen)
    ours = _timed(
        {key: _strings(source, cells.frame[column], empty=key in ("text", "asr_text")) for key, column in columns.items()}
    )
    kept = [column.alias(_kept(column.name, cells.frame.columns)) for column in cells.frame.drop(columns.values())]
    given = pl.DataFrame([*(values.alias(key) for key, values in ours.items()), *kept])
    absent = [pl.lit(None, dtype=dtype).alias(key) for key, dtype in TRANSCRIPTS.items() if key not in ours]
    frame = given.with_columns(absent).with_columns(pl.col("text", "asr_text").str.normalize("NFC"))

    named = frame["name"].is_not_null()
    if not named.any():
        raise InputError(f"{source}: the column {columns['name']!r} is empty")
    nameless = [Problem(source.name, line, f"{columns['name']} is empty") for line in cells.lines.filter(~named)]
    problems = pl.DataFrame(sorted([*cells.problems, *nameless]), schema=PROBLEMS, orient="row")
    found = frame.filter(named).select(*TRANSCRIPTS, pl.exclude(*TRANSCRIPTS))
    return innermost_root(Transcripts(found, problems, columns=columns, notes=notes), source.parent)


def _columns(source: Path, frame: pl.DataFrame, chosen: dict[str, str | None]) -> tuple[dict[str, str], list[str]]:
    """Which column holds what, and what the user should know of it."""
    has = f"it has {', '.join(frame.columns)}"
    columns, guessed, notes = choose(source, frame.columns, chosen)
    for key in ("name", "text"):
        if key not in columns and (key == "name" or chosen[key] is None):
            raise InputError(f"{source}: which column is {key}? say so by the option {key}; {has}")
    if "end" in columns and chosen["duration"] is None:
        columns.pop("duration", None)  # kept as a column of the source
    if "start" in columns and not {"end", "duration"} & set(columns):
        raise InputError(f"{source}: besides the start an end or a duration is wanted; {has}")
    if "end" in columns and "start" not in columns:
        raise InputError(f"{source}: besides the end a start is wanted; {has}")
    if "segment_id" in guessed and not are_ids(_strings(source, frame[column := columns["segment_id"]], empty=False)):
        del columns["segment_id"]
        notes = [note for note in notes if not note.startswith("segment_id ")]
        notes.append(f"column {column!r} repeats and is not taken for the ids of segments: --option segment_id={column} takes it")
    return columns, notes


def _strings(source: Path, column: pl.Series, *, empty: bool) -> pl.Series:
    """A column as text; what is blank becomes null unless it may be empty."""
    match column.dtype:
        case pl.String | pl.Categorical | pl.Enum | pl.Boolean | pl.Decimal | pl.Null:
            texts = column.cast(pl.String)
        case dtype if dtype.is_integer():
            texts = column.cast(pl.String)
        case dtype if dtype.is_float():
            # numpy writes the shortest decimal of either width.
            written = pl.Series(column.name, column.to_numpy().astype(str).tolist(), dtype=pl.String)
            texts = pl.select(pl.when(column.is_not_null()).then(written).alias(column.name)).to_series()
        case dtype:
            raise InputError(f"{source}: column {column.name!r} is {dtype}; texts or numbers are wanted")
    if empty:
        return texts
    tidy = texts.str.strip_chars() if column.dtype == pl.String else texts
    return pl.select(pl.when(tidy != "").then(texts).alias(column.name)).to_series()


def _timed(given: dict[str, pl.Series]) -> dict[str, pl.Series]:
    """Columns under the names of `Transcripts`; the end computed, or the duration that of whole recordings."""
    names = {"start": "source_start", "end": "source_end", "split": "source_split"}
    given |= {key: given[key].str.strip_chars() for key in ("start", "end", "duration") if key in given}
    ours = {names.get(key, key): values for key, values in given.items() if key != "duration"}
    duration = given.get("duration")
    if duration is not None and "start" not in given:
        ours["source_duration"] = duration
    elif duration is not None and "end" not in given:
        pairs = zip(given["start"], duration, strict=True)
        ends = [
            None if start is None and lasting is None else add_seconds(start or "0", lasting or "NaN") for start, lasting in pairs
        ]
        ours["source_end"] = pl.Series(ends, dtype=pl.String)
    return ours


def _kept(name: str, taken: list[str]) -> str:
    """What a further column is called: its own name, with ``source_`` before it where that is one of ours."""
    if name in _OURS:
        name = f"source_{name}"
        while name in _OURS or name in taken:
            name = f"source_{name}"
    return name
