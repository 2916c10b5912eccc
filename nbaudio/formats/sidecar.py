"""Text files that lie beside their recordings: ``2018/a.srt`` beside ``2018/a.wav``, one format each.

Conventions: UTF-8, or UTF-16 where the file begins with its mark; another encoding is an option of the format and never guessed.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbaudio.core import guards
from nbaudio.core.errors import InputError
from nbaudio.core.source_splits import split_of_folder
from nbaudio.formats.base import Problem, Transcripts, check_link, collect_rows, escape_surrogates

#: From the text of a file to rows without `name`, and problems as line and reason.
Parse = Callable[[str], Iterable[dict[str, Any] | tuple[int | None, str]]]


def read_sidecars(source: Path, endings: tuple[str, ...], parse: Parse, *, encoding: str | None, wanted: str) -> Transcripts:
    """Read every such file of a folder, or a single one; the recordings are looked for in the same folder.

    Args:
        source: a file, or a folder that may have folders.
        endings: of the names, with the dot, in lower case; what stands before is the name of the recording. A folder that
            has the name of a split, such as ``test``, is the `source_split`.
        parse: reads the text of one file.
        encoding: of all files; UTF-8, or UTF-16 where a file says so, unless given.
        wanted: what the source should have been, for the message when there is nothing.

    Raises:
        InputError: the encoding is unknown, there is no such file, or nothing in any of them can be used.
    """
    try:
        "".encode(encoding or "utf8")  # some codecs are known, and are none of texts
    except LookupError as error:
        raise InputError(f"option encoding: {encoding!r} is unknown; known are such as utf8, utf16, cp1250, latin1") from error
    root = source if source.is_dir() else source.parent
    files = sorted(path for path in source.rglob("*") if _is_one(path, endings)) if source.is_dir() else [source]

    def items() -> Iterator[dict[str, Any] | Problem]:
        for file in files:
            path = file.relative_to(root).as_posix()
            if escape_surrogates(path) != path:
                yield Problem(escape_surrogates(path), None, "its name is not Unicode; rename it")
                continue
            ending = next((ending for ending in endings if path.lower().endswith(ending)), file.suffix)
            name = path.removesuffix(path[len(path) - len(ending) :])
            try:
                if file != source:
                    check_link(file, root)
                text = _text(guards.read_all(file), encoding)
            except (OSError, InputError) as error:
                yield Problem(path, None, str(error))
                continue
            except UnicodeDecodeError as error:
                yield Problem(path, None, f"not {error.encoding} text (byte {error.start + 1}); name the encoding in an option")
                continue
            split = split_of_folder(path)
            for item in parse(text):
                yield Problem(path, *item) if isinstance(item, tuple) else {"name": name, "source_split": split, **item}

    return replace(collect_rows(source, items(), further=("source_split",), wanted=wanted), audio_root=root)


def _is_one(path: Path, endings: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(endings) and not path.name.startswith(".") and path.is_file()


def _text(data: bytes, encoding: str | None) -> str:
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode(encoding or ("utf-16" if utf16 else "utf-8"))
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
