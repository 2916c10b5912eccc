"""Find hypotheses and transcripts in folders, and which of them belong together."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from nbaudio.core import input_guards, name_matching
from nbaudio.core.errors import InputError
from nbaudio.formats.base import RECORDING_FIELDS, check_link
from nbaudio.formats.documents import Document, read_documents
from nbaudio.formats.timed_words import TimedWords, read_timed_words, stem
from nbaudio.sources.align_task import Item, spool

Problems = list[tuple[str, str]]  # files with the reason why they cannot be used

#: Columns of a table of pairs, by the names that they may have.
COLUMNS = {
    "recording": ("recording", "recording_id", "hypothesis", "hypotheses", "audio", "file", "name"),
    "transcript": ("transcript", "transcripts", "document", "text"),
}
_HEAD_BYTES = 1 << 16
_NAMED = re.compile(rf'"(?:{"|".join(RECORDING_FIELDS)})"\s*:\s*"'.encode())
_JSON, _CUES = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*[\[{]"), re.compile(rb"-->|WEBVTT")


def list_hypotheses(source: Path, folder: Path, problems: Problems) -> list[Item]:
    """List the hypotheses of a file or folder; of a file with several recordings, each is written to a file below `folder`."""
    found: list[Item] = []
    for file, path in _files(source, problems):
        head = _head(path)
        if _NAMED.search(head) or not (_JSON.match(head) or _CUES.search(head)):
            found += _spooled(file, ((each.name, each) for each in read_timed_words(path, stem(file))), folder, problems)
        else:
            found.append(Item(stem(file), file, path))
    return found


def list_transcripts(source: Path, folder: Path, problems: Problems) -> list[Item]:
    """List the transcripts of a file or folder, as `list_hypotheses`."""
    found: list[Item] = []
    for file, path in _files(source, problems):
        head = _head(path)
        if _JSON.match(head) and _NAMED.search(head):
            found += _spooled(file, ((each.recording, each) for each in read_documents(path)), folder, problems)
        else:
            found.append(Item(stem(file), file, path))
    return found


def _files(source: Path, problems: Problems) -> Iterator[tuple[str, Path]]:
    """Yield the files of a source that are no audio, with their names in it."""
    if source.is_file():
        yield source.name, source
        return
    if not source.is_dir():
        if not source.exists():
            raise InputError(f"{source}: there is no such file or folder")
        input_guards.check_regular(source)
    for path in sorted(source.rglob("*")):
        file = path.relative_to(source).as_posix()
        if path.is_dir() or any(part.startswith(".") for part in PurePosixPath(file).parts) or name_matching.is_audio(file):
            continue
        if (shown := input_guards.escape_surrogates(file)) != file:
            problems.append((shown, input_guards.NOT_UNICODE))
            continue
        try:
            check_link(path, source)
        except (InputError, OSError) as error:
            problems.append((file, str(error)))
        else:
            yield file, path


def _head(path: Path) -> bytes:
    input_guards.check_regular(path)
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def _spooled(
    file: str, items: Iterable[tuple[str | None, TimedWords | Document]], folder: Path, problems: Problems
) -> Iterator[Item]:
    """Write what a file has of each recording to a file of its own."""
    try:
        for number, (name, item) in enumerate(items):
            path = folder / f"{file.replace('/', '_')[-100:]}-{number}"
            spool(path, item)
            yield Item(stem(name or file), f"{file}#{name}" if name else file, path, is_spooled=True)
    except InputError as error:
        problems.append((file, str(error)))


def pair(
    hypotheses: Sequence[Item], transcripts: Sequence[Item], table: Path | None, problems: Problems
) -> list[tuple[Item, tuple[Item, ...]]]:
    """Return the hypotheses that have transcripts, with these: by a table of pairs, else by their names.

    Names are compared as those of recordings are (see `name_matching.resolve`), and where no file has the name of a recording,
    those of the folders that transcripts are in. One recording and one transcript need no names.
    """
    if table is not None:
        pairs = _pairs_of_table(table, hypotheses, transcripts)
    elif len(hypotheses) == len(transcripts) == 1:
        pairs = {0: [0]}
    else:
        names = [item.name for item in hypotheses]
        pairs = _match(names, [item.name for item in transcripts])
        lacking = [number for number in range(len(names)) if number not in pairs]
        used = {each for numbers in pairs.values() for each in numbers}
        free = [number for number in range(len(transcripts)) if number not in used]
        folders = [str(PurePosixPath(transcripts[number].name).parent) for number in free]
        for number, found in _match([names[each] for each in lacking], folders).items():
            pairs[lacking[number]] = [free[each] for each in found]
    paired = {each for numbers in pairs.values() for each in numbers}
    missing = "of the same name; a table of both is given with --pairs"
    problems += [(item.file, f"there is no transcript {missing}") for n, item in enumerate(hypotheses) if n not in pairs]
    problems += [(item.file, f"there is no hypothesis {missing}") for n, item in enumerate(transcripts) if n not in paired]
    return [(item, tuple(transcripts[each] for each in pairs[n])) for n, item in enumerate(hypotheses) if n in pairs]


def _match(names: Sequence[str], others: Sequence[str]) -> dict[int, list[int]]:
    """Return the numbers of the other names that each name means."""
    numbers = defaultdict(list)
    for number, other in enumerate(others):
        numbers[f"{other}.wav"].append(number)
    audit = name_matching.resolve(list(dict.fromkeys(names)), list(numbers))
    meant = {
        name: sorted(each for path in paths for each in numbers[path])
        for name, paths in audit.select("name", "candidates").iter_rows()
    }
    return {number: meant[name] for number, name in enumerate(names) if meant[name]}


def _pairs_of_table(path: Path, hypotheses: Sequence[Item], transcripts: Sequence[Item]) -> dict[int, list[int]]:
    """Read a .csv or .tsv with a recording and a transcript in each row."""
    try:
        text = input_guards.read_all(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a table of pairs ({error})") from error
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    header = [name.strip().lower() for name in rows.fieldnames or ()]
    rows.fieldnames = header
    chosen = [next((name for name in header if name in names), None) for names in COLUMNS.values()]
    if None in chosen or chosen[0] == chosen[1]:
        raise InputError(f"{path}: expected the columns recording and transcript; it has {', '.join(header) or 'none'}")
    pairs: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        both = [(row.get(str(name)) or "").strip() for name in chosen]
        found = [_find(name, items) for name, items in zip(both, (hypotheses, transcripts), strict=True)]
        for name, numbers, what in zip(both, found, ("hypothesis", "transcript"), strict=True):
            if not numbers:
                raise InputError(f"{path}, line {rows.line_num}: there is no {what} {name!r}")
        for number in found[0]:
            pairs[number] += [each for each in found[1] if each not in pairs[number]]
    return dict(pairs)


def _find(name: str, items: Sequence[Item]) -> list[int]:
    """Return the numbers of the items that a name means: a file, its path, or a recording."""
    exact = [n for n, item in enumerate(items) if name in (item.file, str(item.path)) or str(item.path).endswith(f"/{name}")]
    return exact or _match([stem(name)], [item.name for item in items]).get(0, [])
