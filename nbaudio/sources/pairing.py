"""Find hypotheses and transcripts in folders, and which of them belong together."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath

from nbaudio.audio import name_matching
from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.formats.delimited import DelimitedRow, open_delimited
from nbaudio.formats.documents import Document, read_documents
from nbaudio.formats.timed_words import choose_side, read_timed_words, stem
from nbaudio.formats.transcripts import RECORDING_FIELDS, Problem, check_link
from nbaudio.sources.align_task import Item
from nbaudio.sources.download_ledger import LEDGER

Problems = list[tuple[str, str]]  # files with the reason why they cannot be used

# Columns of a table of pairs, by their names.
_RECORDING = ("recording", "recording_id", "hypothesis", "hypotheses", "audio", "file", "name")
_TRANSCRIPT = ("transcript", "transcripts", "document", "text")

_HEAD_BYTES = 1 << 16
_NAMED = re.compile(rf'"(?:{"|".join(RECORDING_FIELDS)})"\s*:\s*"'.encode())
# JSON without names, and subtitles.
_ONE_RECORDING = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*[\[{]|(?s:.*)-->|WEBVTT")


def list_items(
    source: Path,
    problems: Problems,
    *,
    hypotheses: bool,
    apart: Collection[Path],
    side: str | None = None,
) -> list[Item]:
    """List the hypotheses or transcripts of a file or folder.

    Files that name several recordings are read, of hypotheses one `side` of calls. Files and
    folders of the absolute paths `apart` are left out.
    """
    items: list[Item] = []
    for file, path in _files(source, problems):
        name = stem(file)
        if not {path.absolute(), *path.absolute().parents}.isdisjoint(apart):
            continue
        try:
            input_guards.check_regular(path)
            with path.open("rb") as stream:
                head = stream.read(_HEAD_BYTES)
            if hypotheses and (_NAMED.search(head) or not _ONE_RECORDING.match(head)):
                items += _hypotheses(file, path, side, problems)
            elif not hypotheses and _NAMED.search(head):
                items += [_document(file, path, document) for document in read_documents(path)]
            else:
                items.append(Item(name, file, path))
        except (InputError, OSError) as error:
            problems.append((file, str(error).removeprefix(str(path)).lstrip(":, ")))
    return items


def _hypotheses(file: str, path: Path, side: str | None, problems: Problems) -> list[Item]:
    """Return the hypotheses of a file that names recordings, one side of each.

    Recordings without that side, or with several where none is named, are problems.
    """
    items: list[Item] = []
    heard = read_timed_words(path, stem(file))
    for name, sides in groupby(heard, key=lambda words: words.name):
        try:
            words = choose_side([*sides], side)
        except InputError as error:
            problems.append((f"{file}#{name}", str(error)))
        else:
            items.append(Item(stem(name), f"{file}#{name}", path, words))
    return items


def _document(file: str, path: Path, document: Document) -> Item:
    """Return a document of a file that has several, each with the name of its recording."""
    if document.recording:
        return Item(stem(document.recording), f"{file}#{document.recording}", path, document)
    return Item(stem(file), file, path, document)


def _files(source: Path, problems: Problems) -> Iterator[tuple[str, Path]]:
    """Yield the files of a source with their names in it.

    Hidden files, audio, and the ledger of `download` are left out.
    """
    if not source.exists():
        raise InputError(f"{source}: there is no such file or folder")
    if source.is_dir():
        folder = source
        paths = sorted(source.rglob("*"))
    else:
        folder = source.parent
        paths = [source]
    for path in paths:
        file = path.relative_to(folder).as_posix()
        if (
            path.is_dir()
            or (path != source and re.search(r"(^|/)\.", file))
            or name_matching.is_audio(file)
            or file == LEDGER
        ):
            continue
        if (shown := input_guards.escape_surrogates(file)) != file:
            problems.append((shown, input_guards.NOT_UNICODE))
            continue
        try:
            check_link(path, folder)
        except (InputError, OSError) as error:
            problems.append((file, str(error).removeprefix(str(path)).lstrip(":, ")))
        else:
            yield file, path


def pair(
    hypotheses: Sequence[Item], transcripts: Sequence[Item], table: Path | None, problems: Problems
) -> list[tuple[Item, tuple[Item, ...]]]:
    """Return each hypothesis that has transcripts, with its transcripts.

    They are paired by a table or by name. Names are compared as those of recordings are (see
    `name_matching.resolve`), also those of the folders of transcripts. One recording and one
    transcript need no names.
    """
    names = [item.name for item in hypotheses]
    if table is not None:
        pairs = _read_pairs(table, hypotheses, transcripts)
    elif len(hypotheses) == len(transcripts) == 1:
        pairs = {0: [0]}
    else:
        pairs = _match(names, [item.name for item in transcripts])
        folders = _match(names, [str(PurePosixPath(item.name).parent) for item in transcripts])
        pairs = folders | pairs
    used = {number for numbers in pairs.values() for number in numbers}
    missing = "of the same name; --pairs takes a table of recording and transcript"
    problems += [
        (item.file, f"there is no transcript {missing}")
        for n, item in enumerate(hypotheses)
        if n not in pairs
    ]
    problems += [
        (item.file, f"there is no hypothesis {missing}")
        for n, item in enumerate(transcripts)
        if n not in used
    ]
    first: dict[str, int] = {}  # hypothesis of each recording
    for n, item in enumerate(hypotheses):
        if n not in pairs:
            continue
        used_number = first.setdefault(name_matching.recording_id(item.name), n)
        if used_number != n:
            file = hypotheses[used_number].file
            reason = f"another hypothesis of a recording; that in {file} is used"
            problems.append((item.file, reason))
    return [
        (hypotheses[n], tuple(transcripts[place] for place in pairs[n])) for n in first.values()
    ]


def _match(names: Sequence[str], others: Sequence[str]) -> dict[int, list[int]]:
    """Map the index of each name to the indices of the other names that match it."""
    numbers = defaultdict(list)
    for number, other in enumerate(others):
        numbers[f"{other}.wav"].append(number)
    audit = name_matching.resolve(names, list(numbers)).select("name", "candidates")
    numbers_by_name = {
        name: sorted(place for path in paths for place in numbers[path])
        for name, paths in audit.iter_rows()
    }
    return {
        number: numbers_by_name[name] for number, name in enumerate(names) if numbers_by_name[name]
    }


def _read_pairs(path: Path, *sides: Sequence[Item]) -> dict[int, list[int]]:
    """Read a .csv or .tsv with a recording and a transcript in each row."""
    try:
        delimited = open_delimited(path, is_header=lambda names: all(_pair_columns(names)))
        rows = list(delimited.rows())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a table of pairs ({error})") from error
    header = [name.strip().lower() for name in delimited.header]
    columns = _pair_columns(header)
    if not all(columns):
        raise InputError(
            f"{path}: expected the columns recording and transcript; "
            f"it has {', '.join(header) or 'none'}"
        )
    table = [_pair(path, header, columns, row) for row in rows]
    numbers_of_sides = [
        _find([names[side] for _, names in table], items) for side, items in enumerate(sides)
    ]
    pairs: dict[int, list[int]] = defaultdict(list)
    for (line, names), *item_numbers in zip(table, *numbers_of_sides, strict=True):
        for column, name, numbers in zip(columns, names, item_numbers, strict=True):
            if not numbers:
                raise InputError(f"{path}, line {line}: there is no {column} {name!r}")
        for number in item_numbers[0]:
            pairs[number] = sorted({*pairs[number], *item_numbers[1]})
    return pairs


def _pair_columns(header: Sequence[str]) -> list[str]:
    """Return the columns of recordings and transcripts; empty texts where there are none."""
    names = [name.strip().lower() for name in header]
    return [
        next((name for name in names if name in usual), "") for usual in (_RECORDING, _TRANSCRIPT)
    ]


def _pair(
    path: Path, header: Sequence[str], columns: Sequence[str], row: DelimitedRow | Problem
) -> tuple[int, list[str]]:
    """Return the line of a row, and its recording and transcript."""
    if isinstance(row, Problem):
        raise InputError(f"{path}, line {row.line}: {row.reason}")
    cells = dict(zip(header, row.cells, strict=True))
    return row.line, [cells[column].strip() for column in columns]


def _find(names: Sequence[str], items: Sequence[Item]) -> list[list[int]]:
    """Return the numbers of the items that each name means.

    A name is that of a file, a path or its last part, or that of a recording.
    """
    exact: dict[str, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        path = f"/{item.path}"
        for name in {item.file, *(path[slash.end() :] for slash in re.finditer("/", path))}:
            exact[name].append(number)
    alike = _match([stem(name) for name in names], [item.name for item in items])
    return [exact.get(name) or alike.get(row, []) for row, name in enumerate(names)]
