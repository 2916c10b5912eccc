"""LibriSpeech: ``split/speaker/chapter/`` with ``*.flac`` and one ``*.trans.txt``, and ``SPEAKERS.TXT`` at the top.

An archive (``.tar.gz`` or any tar) is not unpacked: to look and to cut it is read from its first byte to its last, as nothing
can be sought there. Who listens to many single clips has ``unpack=yes`` write its recordings into the workspace.

Conventions: the tree is gone through a file at a time, and what is kept of each is a row of a table. Every recording is one
utterance. Recordings are named ``split/speaker/chapter/file``, whether they are in a folder or in an archive.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core import guards
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.threads import ordered_map
from nbaudio.formats.base import Problem, Transcripts, check_link, collect_rows, escape_surrogates
from nbaudio.storage import archives
from nbaudio.storage.atomic import escapes_folder, trusted_root
from nbaudio.storage.remote import Remote

_WANTED = "a LibriSpeech tree: split/speaker/chapter/*.trans.txt"
_SPEAKERS = "SPEAKERS.TXT"
_TRANSCRIPTS = ".trans.txt"
_LINE = re.compile(r"(\S+)(?:[ \t]+(.*))?")
_MAX_AUDIO_BYTES = 256 << 20
# Chapters that are fetched at once from elsewhere.
_JOBS = 16
_NOT_UNICODE = "its name is not Unicode; rename it"

# A file of the tree by its path there, and its bytes where it is text.
_File = tuple[str, bytes | None]


def read(source: Path | Remote, *, unpack: str = "no") -> Transcripts:
    r"""Read LibriSpeech from its folder, a bucket or an archive.

    Args:
        source: the folder that holds the splits, or one of them, or the folder around ``LibriSpeech``, or where such a folder
            lies; or a tar, also compressed.
        unpack: ``yes`` writes the recordings of an archive into the workspace's folder ``audio``; ``no`` leaves them there.

    Returns:
        Utterances with their own ids, `source_split` (the split's name, such as ``train-clean-100``), `speaker_gender` and
        `speaker_name`. It brings its audio. Problems: recordings without a transcript and the other way round, lines of
        another form.

    Raises:
        InputError: there is no transcript, or an option is not usable.

    Examples:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp())
        >>> (source / "dev-clean/84/121123").mkdir(parents=True)
        >>> _ = (source / "dev-clean/84/121123/84-121123.trans.txt").write_text("84-121123-0000 GO DO YOU HEAR\n")
        >>> read(source).frame.select("name", "text", "speaker_id", "source_split").rows()
        [('dev-clean/84/121123/84-121123-0000.flac', 'GO DO YOU HEAR', '84', 'dev-clean')]
    """
    if unpack not in ("yes", "no"):
        raise InputError(f"option unpack={unpack!r}: must be yes or no")
    files: Iterable[_File | Problem]
    audio: dict[str, Any]
    root: Path | Remote = source
    if isinstance(source, Remote):
        root, files = _elsewhere(source)
        audio = {"audio_root": str(root)}
    elif source.is_dir():
        root = source / "LibriSpeech" if (source / "LibriSpeech").is_dir() else source
        check_link(root, source)
        # One split lies beside what is said of all of them.
        beside = root.parent / _SPEAKERS
        files = chain([(_SPEAKERS, guards.read_all(beside))] if beside.is_file() else [], _in_folder(root))
        audio = {"audio_root": root}
    elif source.is_file():
        files = _in_archive(source)
        audio = {"embedded": _recordings(source)} if unpack == "yes" else {"audio_root": _address(source)}
    else:
        raise InputError(f"{source}: there is no such folder or file; wanted is {_WANTED}")
    speakers: dict[str, tuple[str, str]] = {}
    found = collect_rows(source, _items(files, root, speakers), further=("segment_id", "source_split"), wanted=_WANTED)
    about = pl.DataFrame(
        [(speaker, *facts) for speaker, facts in speakers.items()],
        schema=dict.fromkeys(("speaker_id", "speaker_gender", "speaker_name"), pl.String),
        orient="row",
    )
    frame = found.frame.join(about, on="speaker_id", how="left", maintain_order="left") if speakers else found.frame
    return replace(found, frame=frame, **audio)


def _items(
    files: Iterable[_File | Problem], root: Path | Remote, speakers: dict[str, tuple[str, str]]
) -> Iterator[dict[str, Any] | Problem]:
    """Rows and problems of a tree; what it says of speakers goes into `speakers`, as that may come last in an archive."""
    # Recordings and lines cross each other out, so that this holds little more than one chapter.
    single: dict[str, str] = {}

    def meet(recording: str, kind: str) -> None:
        if single.pop(recording, kind) == kind:
            single[recording] = kind

    for file in files:
        if isinstance(file, Problem):
            yield file
            continue
        path, data = file
        if path.endswith(".flac"):
            meet(path, "a recording without a transcript")
        elif data is None:
            yield Problem(path, None, f"larger than {guards.MAX_TEXT_BYTES >> 20} MB: no transcript of a chapter")
        elif path.endswith(_SPEAKERS):
            speakers.update(_speakers(data))
        else:
            met = set()
            for item in _lines(path, data, root):
                if isinstance(item, dict) and item["name"] not in met:
                    met.add(item["name"])
                    meet(item["name"], "a transcript without a recording")
                yield item
    yield from (Problem(recording, None, reason) for recording, reason in single.items())


def _lines(path: str, data: bytes, root: Path | Remote) -> Iterator[dict[str, Any] | Problem]:
    """The utterances of one chapter."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        yield Problem(path, None, "not UTF-8 text")
        return
    folders = path.split("/")[:-1]
    # A split that is the source itself is named by its folder.
    split, speaker = ("", "", root.name, *folders)[-3:-1]
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.rstrip("\r"))
        if not found or "/" in found[1]:
            yield Problem(path, number, f"wanted are an id and a text, not {line.strip()[:80]!r}")
            continue
        yield {
            "name": "/".join((*folders, f"{found[1]}.flac")),
            "text": found[2] or "",
            "speaker_id": speaker or None,
            "segment_id": found[1],
            "source_split": split or None,
        }


def _speakers(data: bytes) -> Iterator[tuple[str, tuple[str, str]]]:
    """Gender and name by speaker, from lines such as ``14 | F | train-clean-360 | 25.03 | Kristin LeMoine``."""
    for line in data.decode(errors="replace").splitlines():
        parts = [part.strip() for part in line.split("|", 4)]
        if len(parts) == 5 and not line.startswith(";"):
            yield parts[0], (parts[1], parts[4])


def _wanted(name: str) -> bool:
    return name.endswith((".flac", _TRANSCRIPTS)) or name == _SPEAKERS


def _in_folder(root: Path) -> Iterator[_File | Problem]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        where = Path(folder).relative_to(root).parts
        for name in sorted(filter(_wanted, names)):
            relative = "/".join((*where, name))
            if escape_surrogates(relative) != relative:
                yield Problem(escape_surrogates(relative), None, _NOT_UNICODE)
                continue
            if name.endswith(".flac"):
                yield relative, None
                continue
            path = Path(folder, name)
            try:
                if path.is_symlink() and escapes_folder(path, trusted_root(root)):
                    yield Problem(relative, None, "a link that leads out of the folder")
                    continue
                if not path.is_file():
                    yield Problem(relative, None, "no file but a pipe, socket, device or folder")
                    continue
                yield relative, path.read_bytes() if path.stat().st_size <= guards.MAX_TEXT_BYTES else None
            except OSError as error:
                yield Problem(relative, None, error.strerror or str(error))


def _elsewhere(source: Remote) -> tuple[Remote, Iterator[_File | Problem]]:
    """The folder that holds the splits, and its files."""
    listed = source.listing(lambda path: _wanted(path.rpartition("/")[2]))
    if listed is None:
        raise InputError(f"{source}: the server does not list what is in this folder")
    paths, refused = listed
    inner = "LibriSpeech/"
    if paths and all(path.startswith(inner) for path in paths):
        return _elsewhere(source / inner.rstrip("/"))
    if _SPEAKERS not in paths and "/" in str(source).partition("://")[2]:
        paths = [f"../{_SPEAKERS}", *paths]  # one split lies beside what is said of all of them

    def files() -> Iterator[_File | Problem]:
        yield from (Problem(path, None, reason) for path, reason in refused)
        chapters = (list(group) for _, group in groupby(paths, lambda path: path.rpartition("/")[0]))
        for chapter in ordered_map(partial(_fetched, source), chapters, jobs=_JOBS):
            yield from chapter

    return source, files()


def _fetched(root: Remote, paths: list[str]) -> list[_File | Problem]:
    """Files of a chapter that lies elsewhere."""
    found: list[_File | Problem] = []
    for path in paths:
        if path.endswith(".flac"):
            found.append((path, None))
            continue
        place = root.parent / _SPEAKERS if path.startswith("../") else root / path
        try:
            found.append((path, place.whole(guards.MAX_TEXT_BYTES)))
        except AudioError as error:
            if not path.startswith("../"):
                found.append(Problem(path, None, str(error)))
    return found


def _in_archive(source: Path, *, audio: bool = False) -> Iterator[_File | Problem]:
    """Files of a tar from its first byte to its last, under the last four parts of their names.

    With the bytes of its texts, or of its `audio` instead.
    """
    most = _MAX_AUDIO_BYTES if audio else guards.MAX_TEXT_BYTES
    try:
        for member in archives.members(source):
            path = "/".join([part for part in member.name.split("/") if part != ".."][-4:])
            if escape_surrogates(path) != path:
                yield Problem(escape_surrogates(path), None, _NOT_UNICODE)
            elif _wanted(path.rpartition("/")[2]):
                read = path.endswith(".flac") == audio and member.entry.size <= most
                yield path, member.read() if read else None
    except archives.BROKEN as error:
        yield Problem(source.name, None, f"the archive breaks off or is none ({error}); what comes before it is taken")


def _address(source: Path) -> str | None:
    """The folder in an archive that holds the splits, as of its first recording; None where it has none."""
    with suppress(*archives.BROKEN):
        for member in archives.members(source):
            if member.name.endswith(".flac"):
                return f"tar://{'/'.join(member.name.split('/')[:-4])}::{source}"
    return None


def _recordings(source: Path) -> Iterator[tuple[str, bytes]]:
    """The recordings of an archive; reading the transcripts has told what is wrong with it."""
    for file in _in_archive(source, audio=True):
        if not isinstance(file, Problem) and file[1] is not None:
            yield file[0], file[1]
