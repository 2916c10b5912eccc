"""Recognizers: a Python callable, or a command that reads and writes JSON lines.

Clips are int16 samples at 16 kHz by key.
"""

import hashlib
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio import encode_clip
from nbaudio.core.atomic import sha256_file
from nbaudio.core.errors import InputError, one_line, strip_queries

Clips = Mapping[str, NDArray[np.int16]]
Function = Callable[[list[NDArray[np.float32]]], Sequence[str]]

RATE = 16000
_DOTTED = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
# A file of at most so many bytes that a command names, such as a script, is part of its version.
_HASHED_BYTES = 1 << 20
_RUNS = 32  # of a command that crashes, in one task, to find the clips that make it crash


class Failure(NamedTuple):
    """Why a clip has no text; `retry` if another clip of the batch may be the cause."""

    reason: str
    retry: bool = False


@dataclass(frozen=True)
class Recognizer:
    """A callable, the dotted name of one, or the words of a command.

    It gets all clips of a task at once.
    """

    name: str
    version: str
    given: Function | str | tuple[str, ...]
    folder: str

    @classmethod
    def of(cls, given: str | Function) -> "Recognizer":
        """Parse a recognizer; raise InputError where its module, function or program is missing."""
        folder = str(Path.cwd())
        if not isinstance(given, str):
            return cls(getattr(given, "__name__", ""), _version(given), given, folder)
        if found := _DOTTED.fullmatch(given):
            return cls(found[1].rpartition(".")[2], _imported(given, folder)[1], given, folder)
        try:
            words = shlex.split(given)
        except ValueError as error:
            raise InputError(f"command {given!r}: {error}") from error
        if not words or shutil.which(words[0]) is None:
            raise InputError(
                f"{given!r}: neither package.module:function nor a command whose program "
                "is installed"
            )
        files = [
            path
            for path in map(Path, words[1:])
            if path.is_file() and path.stat().st_size <= _HASHED_BYTES
        ]
        return cls("", _sha256([*words, *map(sha256_file, files)]), tuple(words), folder)

    def __call__(self, clips: Clips, runs: Iterator[int] | None = None) -> dict[str, str | Failure]:
        """Return the text of each clip.

        Those of a failed batch are tried again, each by itself or, by a command, in halves.
        """
        is_command = isinstance(self.given, tuple)
        runs = runs or (iter(range(_RUNS)) if is_command else count())
        answers = (
            _run(self.given, self.folder, clips)
            if isinstance(self.given, tuple)
            else self._called(self.given, clips)
        )
        failed = [
            key
            for key, answer in answers.items()
            if isinstance(answer, Failure) and answer.retry and len(clips) > 1
        ]
        size = -(-len(failed) // 2) if is_command else 1
        for start in range(0, len(failed), size or 1):
            if next(runs, None) is not None:
                answers |= self({key: clips[key] for key in failed[start : start + size]}, runs)
        return answers

    def _called(self, given: Function | str, clips: Clips) -> dict[str, str | Failure]:
        try:
            function = _imported(given, self.folder)[0] if isinstance(given, str) else given
            texts = function(
                [clip.astype(np.float32) / np.float32(32768) for clip in clips.values()]
            )
        except Exception as error:  # noqa: BLE001 - whatever a recognizer raises
            return dict.fromkeys(
                clips, Failure(f"{type(error).__name__}: {one_line(error)}", retry=True)
            )
        if not isinstance(texts, list | tuple) or len(texts) != len(clips):
            found = (
                f"{len(texts)} texts" if isinstance(texts, list | tuple) else type(texts).__name__
            )
            return dict.fromkeys(
                clips, Failure(f"it returned {found} for a list of {len(clips)} clips", retry=True)
            )
        return {key: _text(text) for key, text in zip(clips, texts, strict=True)}


def _sha256(parts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@cache  # as the module stays imported, its version stays, too
def _imported(dotted: str, folder: str) -> tuple[Function, str]:
    module, _, name = dotted.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function = getattr(import_module(module), name)
    except Exception as error:  # whatever the module raises
        raise InputError(
            f"{dotted}: cannot be imported in {folder} ({type(error).__name__}: {one_line(error)})"
        ) from error
    return function, _version(function)


def _version(function: Any) -> str:
    """Return the version that a callable or its module states, else the hash of its source.

    Raise InputError if there is neither.
    """
    if not callable(function):
        raise InputError(
            f"{function!r}: not callable; give a function, package.module:function or a command"
        )
    function = getattr(function, "func", function)  # of functools.partial
    module: Any = inspect.getmodule(function if hasattr(function, "__name__") else type(function))
    stated = getattr(function, "version", None) or getattr(module, "__version__", None)
    try:
        return str(
            stated
            or _sha256([inspect.getsource(module if hasattr(module, "__file__") else function)])
        )
    except (OSError, TypeError) as error:
        raise InputError(
            f"{function!r}: its source cannot be read; give it an attribute 'version'"
        ) from error


def _run(words: tuple[str, ...], folder: str, clips: Clips) -> dict[str, str | Failure]:
    with tempfile.TemporaryDirectory(prefix="nbaudio-") as temporary:
        lines = ""
        for number, (key, clip) in enumerate(clips.items()):
            path = Path(temporary, f"{number}.wav")
            path.write_bytes(encode_clip(clip, RATE, "wav"))
            lines += (
                json.dumps({"id": key, "audio": str(path), "duration_s": len(clip) / RATE}) + "\n"
            )
        try:
            done = subprocess.run(
                words, input=lines.encode(), capture_output=True, cwd=folder, check=False
            )
        except OSError as error:
            return dict.fromkeys(clips, Failure(f"{words[0]}: {error.strerror}"))
    texts = dict[str, str | Failure]()
    wrong = ""
    for number, line in enumerate(done.stdout.splitlines(), start=1):
        try:
            value = json.loads(line)
            texts[value["id"]] = _text(value["text"])
        except (ValueError, TypeError, KeyError, RecursionError):
            wrong = wrong or (
                f'; line {number} is not {{"id": ..., "text": ...}}: '
                f"{line[:80].decode(errors='replace')!r}"
            )
    said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    why = (
        ": ".join([f"exit code {done.returncode}", *said])
        if done.returncode
        else "it printed no line for this id"
    )
    missing = Failure(
        f"{Path(words[0]).name}: {strip_queries(why + wrong)}", retry=done.returncode != 0
    )
    return {key: texts.get(key, missing) for key in clips}


def _text(text: object) -> str | Failure:
    if not isinstance(text, str) or any("\ud800" <= each <= "\udfff" for each in text):
        return Failure("its text is not a string of valid Unicode")
    return normalize("NFC", text).strip()
