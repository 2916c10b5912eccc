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

UnusableFiles = list[tuple[str, str]]  # names of files, with the reasons

# Columns of a table of pairs, by their names.
_RECORDING = ("recording", "recording_id", "hypothesis", "hypotheses", "audio", "file", "name")
_TRANSCRIPT = ("transcript", "transcripts", "document", "text")

_HEAD_BYTES = 1 << 16
# A field of JSON with the name of a recording.
_RECORDING_FIELD = re.compile(rf'"(?:{"|".join(RECORDING_FIELDS)})"\s*:\s*"'.encode())
_JSON_OR_SUBTITLES = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*[\[{]|(?s:.*)-->|WEBVTT")


def list_items(
    source: Path,
    problems: UnusableFiles,
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
        if not {path.absolute(), *path.absolute().parents}.isdisjoint(apart):
            continue
        try:
            input_guards.check_regular(path)
            with path.open("rb") as stream:
                head = stream.read(_HEAD_BYTES)
            if not _names_recordings(head, hypotheses=hypotheses):
                items.append(Item(stem(file), file, path))
            elif hypotheses:
                items += _hypotheses(file, path, side, problems)
            else:
                items += [_document(file, path, document) for document in read_documents(path)]
        except (InputError, OSError) as error:
            problems.append((file, _reason(error, path)))
    return items


def _names_recordings(head: bytes, *, hypotheses: bool) -> bool:
    """Return whether a file that begins with `head` names its recordings, perhaps several.

    JSON and subtitles do so in a field only. Other formats of hypotheses name a recording in each
    row; other transcripts name none.
    """
    if _RECORDING_FIELD.search(head):
        return True
    return hypotheses and not _JSON_OR_SUBTITLES.match(head)


def _reason(error: Exception, path: Path) -> str:
    """Return the message of an error without the path that it begins with."""
    return str(error).removeprefix(str(path)).lstrip(":, ")


def _hypotheses(file: str, path: Path, side: str | None, problems: UnusableFiles) -> list[Item]:
    """Return the hypotheses of a file that names recordings, one side of each.

    Recordings without the side that `side` names, or with several where it is None, are problems.
    """
    items: list[Item] = []
    words_of_sides = read_timed_words(path, stem(file))
    for name, sides in groupby(words_of_sides, key=lambda words: words.name):
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


def _files(source: Path, problems: UnusableFiles) -> Iterator[tuple[str, Path]]:
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
            problems.append((file, _reason(error, path)))
        else:
            yield file, path


def pair(
    hypotheses: Sequence[Item],
    transcripts: Sequence[Item],
    table: Path | None,
    problems: UnusableFiles,
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
        by_folder = _match(names, [str(PurePosixPath(item.name).parent) for item in transcripts])
        by_name = _match(names, [item.name for item in transcripts])
        pairs = by_folder | by_name  # a recording with a transcript of its name has no other
    used = {number for numbers in pairs.values() for number in numbers}
    missing = "of the same name; --pairs takes a table of recording and transcript"
    problems += [
        (item.file, f"there is no transcript {missing}")
        for number, item in enumerate(hypotheses)
        if number not in pairs
    ]
    problems += [
        (item.file, f"there is no hypothesis {missing}")
        for number, item in enumerate(transcripts)
        if number not in used
    ]
    first_of_recording: dict[str, int] = {}  # number of the hypothesis that is used
    for number, item in enumerate(hypotheses):
        if number not in pairs:
            continue
        recording = name_matching.recording_id(item.name)
        used_number = first_of_recording.setdefault(recording, number)
        if used_number != number:
            file = hypotheses[used_number].file
            reason = f"another hypothesis of a recording; that in {file} is used"
            problems.append((item.file, reason))
    return [
        (hypotheses[number], tuple(transcripts[other] for other in pairs[number]))
        for number in first_of_recording.values()
    ]


def _match(names: Sequence[str], others: Sequence[str]) -> dict[int, list[int]]:
    """Map the number of each name to the numbers of the other names that match it.

    Names without a match are left out.
    """
    # `resolve` finds the audio files of recordings, so the other names get the ending of one.
    numbers_by_path = defaultdict(list)
    for number, other in enumerate(others):
        numbers_by_path[f"{other}.wav"].append(number)
    resolved = name_matching.resolve(names, list(numbers_by_path)).select("name", "candidates")
    numbers_by_name = {
        name: sorted(number for path in paths for number in numbers_by_path[path])
        for name, paths in resolved.iter_rows()
    }
    return {
        number: numbers_by_name[name] for number, name in enumerate(names) if numbers_by_name[name]
    }


def _read_pairs(
    path: Path, hypotheses: Sequence[Item], transcripts: Sequence[Item]
) -> dict[int, list[int]]:
    """Map the number of each hypothesis to the numbers of its transcripts, as a table says.

    It is a .csv or .tsv with a recording and a transcript in each row.
    """
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
    table = [_names_of_row(path, header, columns, row) for row in rows]
    numbers_of_sides = [
        _find_items([names[side] for _, names in table], items)
        for side, items in enumerate((hypotheses, transcripts))
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


def _names_of_row(
    path: Path, header: Sequence[str], columns: Sequence[str], row: DelimitedRow | Problem
) -> tuple[int, list[str]]:
    """Return the line of a row, and its recording and transcript."""
    if isinstance(row, Problem):
        raise InputError(f"{path}, line {row.line}: {row.reason}")
    cells = dict(zip(header, row.cells, strict=True))
    return row.line, [cells[column].strip() for column in columns]


def _find_items(names: Sequence[str], items: Sequence[Item]) -> list[list[int]]:
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
