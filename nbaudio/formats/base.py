"""What a reader of a foreign layout gives: the transcripts as they stand in the source, before any audio is looked at.

Conventions: a reader is one function. Its first parameter is the source; its further ones are keyword-only strings, which are the
options of the format. A broken item is a `Problem` and stops nothing; a source of which nothing can be used is an `InputError`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nbaudio.core import guards
from nbaudio.core.errors import InputError
from nbaudio.core.guards import check_utf8
from nbaudio.core.tables import RESERVED, WORD_TIMES, WRITTEN
from nbaudio.storage.atomic import escapes_folder, trusted_root

#: The columns that every reader gives; further columns of a source are kept behind them.
TRANSCRIPTS = pl.Schema(
    {
        "name": pl.String(),
        "source_start": pl.String(),
        "source_end": pl.String(),
        "text": pl.String(),
        "text_raw": pl.String(),
        "asr_text": pl.String(),
        "speaker_id": pl.String(),
        "word_times": WORD_TIMES,
    }
)

PROBLEMS = pl.Schema({"file": pl.String(), "line": pl.UInt32(), "reason": pl.String()})

# Rows that are Python objects at once; as columns they take a tenth of the memory.
_BATCH = 10_000


class Problem(NamedTuple):
    """Something of a source that is of no use: its file, line (from 1; None where lines say nothing) and why."""

    file: str
    line: int | None
    reason: str


class Windows(NamedTuple):
    """Stretches that whole recordings are divided into: their length in seconds, and whether a shorter last one is kept."""

    seconds: Decimal
    partial: bool


@dataclass(frozen=True)
class Transcripts:
    """The transcripts of a source.

    Attributes:
        frame: one row per segment in source order: `name` of the recording, `source_start` and `source_end` (seconds, the
            source's own characters; both null mean the whole recording), `text` (NFC; null everywhere where the source has no
            transcripts), `text_raw` (null where the source has no other form), `asr_text` (null where there is no hypothesis),
            `speaker_id`, `word_times` (seconds from the segment's start), and what else the source has. Of that, some columns
            have a meaning: `segment_id` (the source's own), `source_split`, `source_duration` (seconds that the source says the
            recording lasts; the audio is checked against it), `source_channel` (the segment's own, see `nbaudio.core.channels`).
        problems: one row per line that could not be read: `file`, `line` (from 1), `reason`.
        audio_root: the folder of the recordings, or its address, where the source itself brings them; `--audio` goes before it.
        embedded: names and bytes of recordings that are inside the files of the source; ingest writes them into the workspace.
        windows: how to divide whole recordings, if at all.
        columns: of a source with columns, by what they hold, such as ``{"text": "sentence"}``.
        notes: what the user should know of how the source was read.
    """

    frame: pl.DataFrame
    problems: pl.DataFrame
    audio_root: Path | str | None = None
    embedded: Iterable[tuple[str, bytes]] | None = None
    windows: Windows | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


#: Reads a source of a foreign layout: a `Path`, or a `Remote` if the format is of `sources.BY_THEMSELVES`; and the options of the
#: format as keyword-only strings.
Reader = Callable[..., Transcripts]


def collect_rows(
    source: object, items: Iterable[Mapping[str, Any] | Problem], *, further: Sequence[str] = (), wanted: str
) -> Transcripts:
    """The transcripts out of rows and problems as a reader comes upon them, with few of them in memory at once.

    Args:
        source: for the message when there is nothing.
        items: rows by column, absent ones null; texts need not be in NFC yet. Or problems.
        further: columns besides those of `TRANSCRIPTS` that rows may have, all text; dropped when no row has any.
        wanted: what the source should have been, such as ``"a Kaldi data folder"``.

    Raises:
        InputError: there is no row at all; says what was wanted and the first problem.

    Examples:
        >>> found = collect_rows(Path("x"), [{"name": "a.wav"}, Problem("x", 2, "broken")], wanted="a list")
        >>> found.frame["name"].to_list(), found.problems.rows()
        (['a.wav'], [('x', 2, 'broken')])
    """
    schema = pl.Schema({**TRANSCRIPTS, **dict.fromkeys(further, pl.String())})
    problems: list[Problem] = []
    frames = []
    rows: list[Mapping[str, Any]] = []

    def columns() -> pl.DataFrame:
        frame = pl.DataFrame(rows, schema=schema)
        rows.clear()
        return frame.with_columns(pl.col("text", "asr_text").str.normalize("NFC"))

    for item in items:
        if isinstance(item, Problem):
            problems.append(item)
            continue
        rows.append(item)
        if len(rows) == _BATCH:
            frames.append(columns())
    frame = pl.concat([*frames, columns()], rechunk=True)
    if frame.is_empty():
        first = problems[0] if problems else None
        where = f"; {first.file}{f', line {first.line}' if first.line else ''}: {first.reason}" if first else ""
        raise InputError(f"{source}: nothing to take; wanted is {wanted}{where}")
    given = [name for name in schema if name in TRANSCRIPTS or frame[name].null_count() < len(frame)]
    return Transcripts(frame.select(given), pl.DataFrame(problems, schema=PROBLEMS, orient="row"))


def clean_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """What a source has, as tables can have it: see `RESERVED` and `WRITTEN` for names of columns; a blank speaker is none.

    Examples:
        >>> clean_columns(pl.DataFrame({"speaker_id": ["ana", " "], "audio": ["x", "y"]})).to_dict(as_series=False)
        {'speaker_id': ['ana', None], 'source_audio': ['x', 'y']}
    """
    names: dict[str, str] = {}
    for name in frame.columns:
        new = name
        while new in RESERVED | WRITTEN or (new != name and new in frame.columns):
            new = f"source_{new}"
        names[name] = new
    # As one of no name all of them would be one person.
    return frame.rename(names).with_columns(pl.when(pl.col("speaker_id").str.contains(r"\S")).then("speaker_id"))


def check_link(path: Path, folder: Path) -> None:
    """Let a file or folder of a source pass, unless it is a link out of its folder, to what belongs to somebody else, or a pipe.

    Raises:
        InputError: it is.
    """
    if escapes_folder(path, trusted_root(folder)):
        raise InputError(f"{path}: a link that leads out of its folder, which is not followed; copy the file, or name it itself")
    if not path.is_dir():
        with suppress(FileNotFoundError):
            guards.check_regular(path)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Lines of a UTF-8 file that are not blank, without their ends, numbered from 1; split at line feeds alone.

    Raises:
        InputError: it cannot be read, is a link that leads elsewhere, or a line is not UTF-8; names it.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "text"
        >>> _ = path.write_bytes(b"a\r\n\nb")
        >>> list(numbered_lines(path))
        [(1, 'a'), (3, 'b')]
    """
    number = 0
    check_link(path, path.parent)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(guards.lines(file, path), 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf8")
                if text.strip():
                    yield number, text.rstrip("\r\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from error


def escape_surrogates(name: str) -> str:
    r"""A name from the disk or an archive without the lone surrogates that stand for bytes that are no Unicode.

    Raises:
        InputError: it is not ASCII where names are not read as UTF-8, and may be another one than it seems.

    Examples:
        >>> escape_surrogates("caf\udce9.wav")
        'caf\\xe9.wav'
    """
    check_utf8(name)
    return name.encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
