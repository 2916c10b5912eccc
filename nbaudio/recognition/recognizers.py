"""Models: a Python callable, or a command that reads and writes JSON lines.

An `Exchange` says what a model gets for each clip, and how its answers are read. Recognizers get
int16 samples at 16 kHz by key, and answer with texts.
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
from dataclasses import dataclass, replace
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

Clip = NDArray[np.int16]
Function = Callable[..., Any]

RATE = 16000
_DOTTED = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
# Most bytes of a file, such as a script, that is part of the version of the command that names it.
_HASHED_BYTES = 1 << 20
_RUNS = 32  # runs of a command in one task to find the clips that make it crash


class Failure(NamedTuple):
    """Why a clip has no text; `retry` if another clip of the batch may be the cause."""

    reason: str
    retry: bool = False


class Exchange:
    """What a model gets for the clips of a batch, and how its answers are read.

    `noun` is what its answers are, in messages.
    """

    noun = "values"

    def call(self, function: Function, items: Mapping[str, Any]) -> object:
        """Call a function on a batch; return what it returns."""
        raise NotImplementedError

    def read(self, returned: object) -> Any:
        """Return the answer in what a function returned for a clip, or a Failure."""
        raise NotImplementedError

    def write_lines(self, items: Mapping[str, Any], folder: Path) -> str:
        """Return the lines of JSON that a command reads; write its files to a folder."""
        raise NotImplementedError

    def read_line(self, line: dict[str, Any]) -> Any:
        """Return the answer in a line of a command, or a Failure; raise KeyError without one."""
        raise NotImplementedError


class TextExchange(Exchange):
    """The exchange with recognizers: a list of float32 samples at 16 kHz, and texts."""

    noun = "texts"

    def call(self, function: Function, items: Mapping[str, Clip]) -> object:
        """Call a function on the clips as a list of float32 arrays in [-1, 1]."""
        return function([to_float(clip) for clip in items.values()])

    def read(self, returned: object) -> str | Failure:
        """Return a text without blanks around it, in normalization form C."""
        return normalized_text(returned)

    def write_lines(self, items: Mapping[str, Clip], folder: Path) -> str:
        """Write clips as .wav files, each of which a line names."""
        lines = []
        for number, (key, clip) in enumerate(items.items()):
            line = {"id": key, **write_clip(clip, RATE, folder / f"{number}.wav")}
            lines.append(json.dumps(line) + "\n")
        return "".join(lines)

    def read_line(self, line: dict[str, Any]) -> str | Failure:
        """Return the field `text`."""
        return normalized_text(line["text"])


@dataclass(frozen=True)
class Recognizer:
    """A callable, the dotted name of one, or the words of a command.

    Attributes:
        name: of the callable, or of its module where that is named; empty for a command.
        version: of the callable, or a hash of the command and its small files.
        program: the callable, its dotted name, or the words of the command.
        folder: the working directory, where modules and files of a command are.
        exchange: what it gets and gives.
    """

    name: str
    version: str
    program: Function | str | tuple[str, ...]
    folder: str
    exchange: Exchange

    @classmethod
    def of(cls, program: str | Function, exchange: Exchange | None = None) -> "Recognizer":
        """Parse a recognizer; raise InputError where its module, function or program is missing."""
        folder = str(Path.cwd())
        exchange = exchange or TextExchange()
        if not isinstance(program, str):
            name = getattr(program, "__name__", "")
            return cls(name, _version(program), program, folder, exchange)
        if dotted := _DOTTED.fullmatch(program):
            module = dotted[1].rpartition(".")[2]
            return cls(module, _imported(program, folder)[1], program, folder, exchange)
        words = _command_words(program)
        return cls("", _command_version(words), words, folder, exchange)

    def with_exchange(self, exchange: Exchange) -> "Recognizer":
        """Return the same model with another exchange."""
        return replace(self, exchange=exchange)

    @property
    def is_command(self) -> bool:
        """Whether this is a command, which gets all clips of a task at once."""
        return isinstance(self.program, tuple)

    @property
    def function(self) -> Function | None:
        """The callable, imported where it is named; None for a command."""
        if isinstance(self.program, tuple):
            return None
        return _function_of(self.program, self.folder)

    def __call__(
        self, items: Mapping[str, Any], runs: Iterator[int] | None = None
    ) -> dict[str, Any]:
        """Return the answer, or a Failure, for each clip.

        Those of a failed batch are tried again, each by itself or, by a command, in halves.
        """
        runs = runs or (iter(range(_RUNS)) if self.is_command else count())
        answers = self._run_once(items)
        failed = [
            key
            for key, answer in answers.items()
            if isinstance(answer, Failure) and answer.retry and len(items) > 1
        ]
        half = -(-len(failed) // 2)
        size = half if self.is_command else 1
        for start in range(0, len(failed), size or 1):
            if next(runs, None) is not None:
                answers |= self({key: items[key] for key in failed[start : start + size]}, runs)
        return answers

    def _run_once(self, items: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self.program, tuple):
            return self._run(self.program, items)
        return self._call(self.program, items)

    def _call(self, program: Function | str, items: Mapping[str, Any]) -> dict[str, Any]:
        """Call a function once on all clips."""
        try:
            function = _function_of(program, self.folder)
            returned = _as_list(self.exchange.call(function, items))
        except Exception as error:  # noqa: BLE001 - whatever a recognizer raises
            failure = Failure(f"{type(error).__name__}: {one_line(error)}", retry=True)
            return dict.fromkeys(items, failure)
        is_list = isinstance(returned, list | tuple)
        if not is_list or len(returned) != len(items):
            what = f"{len(returned)} {self.exchange.noun}" if is_list else type(returned).__name__
            failure = Failure(f"it returned {what} for a list of {len(items)} clips", retry=True)
            return dict.fromkeys(items, failure)
        return {key: self.exchange.read(value) for key, value in zip(items, returned, strict=True)}

    def _run(self, words: tuple[str, ...], items: Mapping[str, Any]) -> dict[str, Any]:
        """Run a command once on all clips."""
        with tempfile.TemporaryDirectory(prefix="nbaudio-") as temporary:
            lines = self.exchange.write_lines(items, Path(temporary))
            try:
                process = subprocess.run(
                    words, input=lines.encode(), capture_output=True, cwd=self.folder, check=False
                )
            except OSError as error:
                return dict.fromkeys(items, Failure(f"{words[0]}: {error.strerror}"))
        output = _parse_output(process.stdout, self.exchange)
        reason = strip_queries(_exit_reason(process) + output.bad_line)
        failure = Failure(f"{Path(words[0]).name}: {reason}", retry=process.returncode != 0)
        return {key: output.answers.get(key, failure) for key in items}


def _command_words(command: str) -> tuple[str, ...]:
    """Return the words of a command; raise InputError if its program is not installed."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"command {command!r}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise InputError(
            f"{command!r}: neither package.module:function nor a command whose program is installed"
        )
    return tuple(words)


def _command_version(words: Sequence[str]) -> str:
    """Return the hash of a command and of the small files that it names."""
    small_files = [
        path
        for path in map(Path, words[1:])
        if path.is_file() and path.stat().st_size <= _HASHED_BYTES
    ]
    return _sha256([*words, *map(sha256_file, small_files)])


def _sha256(parts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@cache  # as the module stays imported, its version stays, too
def _imported(dotted: str, folder: str) -> tuple[Function, str]:
    """Return the function of a dotted name, and its version; raise InputError without one."""
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


def _function_of(program: Function | str, folder: str) -> Function:
    """Return a callable, or that of a dotted name."""
    return _imported(program, folder)[0] if isinstance(program, str) else program


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


def to_float(clip: Clip) -> NDArray[np.float32]:
    """Return int16 samples as float32 in [-1, 1]."""
    return clip.astype(np.float32) / np.float32(32768)


def write_clip(clip: Clip, rate: int, path: Path) -> dict[str, str | float]:
    """Write a clip as a .wav file; return what a line of JSON says of it."""
    path.write_bytes(encode_clip(clip, rate, "wav"))
    return {"audio": str(path), "duration_s": len(clip) / rate}


@dataclass(frozen=True)
class _Output:
    """The output of a command: answers by key, and a remark on the first line that has none."""

    answers: dict[str, Any]
    bad_line: str


def _parse_output(output: bytes, exchange: Exchange) -> _Output:
    """Parse the lines that a command printed."""
    answers = dict[str, Any]()
    bad_line = ""
    for number, line in enumerate(output.splitlines(), start=1):
        try:
            value = json.loads(line)
            answers[value["id"]] = exchange.read_line(value)
        except (ValueError, TypeError, KeyError, RecursionError):
            bad_line = bad_line or (
                f'; line {number} is not {{"id": ..., "{exchange.noun.removesuffix("s")}": ...}}: '
                f"{line[:80].decode(errors='replace')!r}"
            )
    return _Output(answers, bad_line)


def _exit_reason(process: subprocess.CompletedProcess[bytes]) -> str:
    """Return why a clip has no line in the output of a command."""
    if not process.returncode:
        return "it printed no line for this id"
    last_error = process.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return ": ".join([f"exit code {process.returncode}", *last_error])


def _as_list(returned: object) -> Any:
    """Return an array, a tensor or a column of a table as a list; other values as they are."""
    to_list = getattr(returned, "tolist", None)
    return to_list() if callable(to_list) else returned


def normalized_text(text: object) -> str | Failure:
    """Return what a recognizer gave for a clip as normalized text."""
    if not isinstance(text, str) or any("\ud800" <= letter <= "\udfff" for letter in text):
        return Failure("its text is not a string of valid Unicode")
    return normalize("NFC", text).strip()
