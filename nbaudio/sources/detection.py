"""Find out which format a source has that a person names by its folder or file alone."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from nbaudio.audio import name_matching
from nbaudio.core.errors import InputError, get_by_name
from nbaudio.formats import timed_words
from nbaudio.formats.source_files import (
    Layout,
    SourceFiles,
    common_folder,
    list_source_files,
    list_words,
)
from nbaudio.sources.source_formats import FORMATS

_Detect = Callable[[SourceFiles], list[Layout]]

# What each format recognizes as its own.
_DETECTORS: Mapping[str, _Detect] = MappingProxyType(
    {name: module.detect for name, module in FORMATS.items()} | {"align": timed_words.detect}
)
# Formats whose readers take the recordings from the source, and those that never find them.
_BRING_AUDIO = frozenset({"librispeech", "commonvoice", "hf", "subtitles", "textgrid", "folder"})
_NEED_AUDIO = frozenset({"parlaspeech", "align"})
_MOST_NAMED = 4  # layouts that a message names


@dataclass(frozen=True)
class Detected:
    """The layout of a source, where its recordings are, and what is left over."""

    layout: Layout
    audio: Path | None  # the folder of the recordings; None if the reader finds them, or none is
    recordings: int
    unread: tuple[tuple[str, str, int], ...]  # an ending, one of its files, and their number

    def describe_unread(self) -> str | None:
        """Return a phrase that names the files that are not read, or None if all are read."""
        if not self.unread:
            return None
        listed = [f"{count:,} {ending} ({name})" for ending, name, count in self.unread]
        return list_words(listed)


def detect_source(
    source: str | Path,
    *,
    format: str | None = None,
    answers: Iterable[str] = (),
    skip: Iterable[Path] = (),
) -> Detected:
    """Return what a folder or file looks like.

    Args:
        source: a folder or file of transcripts and recordings on this machine.
        format: only this format.
        answers: keys of a manifest that the person sets, which answer a layout's question.
        skip: folders to leave out, such as that of the output.

    Raises:
        InputError: there is no such file or folder, it looks like none of the formats or like
            several, or a question is open.
    """
    source = Path(source)
    files = list_source_files(source, skip=skip)
    detectors = _DETECTORS
    if format is not None:
        detectors = {format: get_by_name(_DETECTORS, format, "format")}
    layouts = _layouts(files, detectors)
    if not layouts:
        raise InputError(_none_text(source, files, format))
    if len(layouts) > 1:
        raise InputError(_several_text(source, layouts))
    (layout,) = layouts
    if layout.question and {"options", "documents"}.isdisjoint(answers):
        raise InputError(f"{source}: {layout.question}")
    around = list_source_files(source.parent, skip=skip) if source.is_file() else files
    return Detected(
        layout, _audio_folder(layout, around), len(around.audio()), _unread(files, layout)
    )


def list_layouts(source: Path) -> list[Layout]:
    """Return all layouts of one format in a folder, such as the data folders of Kaldi's splits.

    Raise InputError if no format is recognized, or several are.
    """
    files = list_source_files(source)
    layouts = _layouts(files, _DETECTORS)
    if not layouts:
        raise InputError(_none_text(source, files, None))
    if len({layout.format for layout in layouts}) > 1:
        raise InputError(_several_text(source, layouts))
    return layouts


def _layouts(files: SourceFiles, detectors: Mapping[str, _Detect]) -> list[Layout]:
    """Return the layouts of the formats that fit.

    Files of other formats are tables, too: a table is one that no other format reads. Recordings
    are a folder only where nothing else fits.
    """
    special = [name for name in detectors if name not in {"table", "folder"}]
    layouts = [layout for name in special for layout in detectors[name](files)]
    if "table" in detectors:
        read = frozenset[str]().union(*(layout.files for layout in layouts))
        rest = tuple(name for name in files.names if name not in read)
        layouts += detectors["table"](replace(files, names=rest))
    if "folder" in detectors and not layouts:
        layouts += detectors["folder"](files)
    return layouts


def _none_text(source: Path, files: SourceFiles, format: str | None) -> str:
    reason = f"looks like no source of {format}" if format else "no format is recognized in it"
    listed = [f"{count:,} {ending}" for ending, _, count in _by_ending(files.names)]
    return (
        f"{source}: {reason}; it has {list_words(listed)}. A manifest with format and source says "
        "how to read it (docs/ingest.md), such as table with options for the columns"
    )


def _several_text(source: Path, layouts: Sequence[Layout]) -> str:
    """Return the message on a source that several formats could read."""
    fitting = [f"{layout.format} ({layout.reason})" for layout in layouts]
    if len(fitting) > _MOST_NAMED:
        fitting[_MOST_NAMED:] = [f"{len(fitting) - _MOST_NAMED:,} others"]
    formats = {layout.format for layout in layouts}
    if len(formats) == len(layouts):
        choice = f"choose with --set format={layouts[0].format}"
    else:
        choice = (
            f"name one of them, such as {layouts[0].source}, and bring in others with "
            "'nbaudio ingest --add'"
        )
    return f"{source}: looks like {list_words(fitting, 'and like')}; {choice}"


def _audio_folder(layout: Layout, files: SourceFiles) -> Path | None:
    """Return the folder of all recordings, unless the reader finds them by itself."""
    recordings = files.audio()
    if layout.format in _BRING_AUDIO or not recordings:
        return None
    folder = layout.source if layout.source.is_dir() else layout.source.parent
    recording = layout.recording
    has_file = recording is not None and os.path.isfile(folder / recording)  # noqa: PTH113
    if has_file and layout.format not in _NEED_AUDIO:
        return None
    return files.path(common_folder(recordings))


def _unread(files: SourceFiles, layout: Layout) -> tuple[tuple[str, str, int], ...]:
    """Return the endings of files that are neither read nor recordings."""
    names = [
        name
        for name in files.names
        if name not in layout.files and not name_matching.is_audio(name)
    ]
    return _by_ending(names)


def _by_ending(names: Iterable[str]) -> tuple[tuple[str, str, int], ...]:
    """Return each ending with its first file and the number of its files, the most first."""
    first_names: dict[str, str] = {}
    counts = Counter[str]()
    for name in names:
        ending = PurePosixPath(name).suffix.lower() or "without an ending"
        first_names.setdefault(ending, name)
        counts[ending] += 1
    return tuple((ending, first_names[ending], count) for ending, count in counts.most_common(8))
