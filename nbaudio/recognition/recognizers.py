"""Recognizers: a Python callable, or a command that reads and writes JSON lines.

Clips are int16 samples at 16 kHz by key.
"""

import hashlib
import inspect
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import count
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio import encode_clip
from nbaudio.core.atomic import sha256_file
from nbaudio.core.dotted_names import FunctionName, parse_function
from nbaudio.core.errors import InputError, one_line, redact_urls
from nbaudio.core.report import count as counted

Clips = Mapping[str, NDArray[np.int16]]
Function = Callable[..., Any]

RATE = 16000
# Most bytes of a file, such as a script, that is part of the version of the command that names it.
_HASHED_BYTES = 1 << 20
# Types of arguments and variables that are part of the version of a function.
_SETTINGS = (bool, int, float, str, PurePath)
_RUNS = 32  # runs of a command in one task to find the clips that make it crash


class Failure(NamedTuple):
    """Why a clip has no text; `retry` if another clip of the batch may be the cause."""

    reason: str
    retry: bool = False


@dataclass(frozen=True)
class AnswerForm:
    """What a recognizer gives for a clip.

    Attributes:
        read: returns the checked answer of a function, or a `Failure`.
        read_line: the same of the JSON object that a command wrote; it raises KeyError or TypeError
            if that has another form.
        line: that form, for messages.
    """

    read: Callable[[object], Any]
    read_line: Callable[[Mapping[str, Any]], Any]
    line: str


def call_with_samples(function: Function, clips: Clips) -> object:
    """Call a function on clips as a list of float32 arrays in [-1, 1]."""
    return function([to_float(clip) for clip in clips.values()])


def to_float(clip: NDArray[np.int16]) -> NDArray[np.float32]:
    """Return int16 samples as float32 in [-1, 1]."""
    return clip.astype(np.float32) / np.float32(32768)


def write_clips(clips: Clips, folder: Path) -> str:
    """Write clips as .wav files; return the lines of JSON that a command reads."""
    lines = []
    for number, (key, clip) in enumerate(clips.items()):
        line = {"id": key, **write_clip(clip, RATE, folder / f"{number}.wav")}
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)


def write_clip(clip: NDArray[np.int16], rate: int, path: Path) -> dict[str, str | float]:
    """Write a clip as a .wav file; return what a line of JSON says of it."""
    path.write_bytes(encode_clip(clip, rate, "wav"))
    return {"audio": str(path), "duration_s": len(clip) / rate}


@dataclass(frozen=True)
class Recognizer:
    """A callable, the dotted name of one, or the words of a command.

    Attributes:
        name: of the callable, or of its module where that is named; empty for a command.
        version: of the callable, or a hash of the command and its small files.
        program: the callable, its dotted name, or the words of the command.
        folder: the working directory, where modules and files of a command are.
        form: of its answers.
        call: calls a function on a batch of clips, and returns what it returns.
        write: writes the files of a batch to a folder, and returns the lines that a command reads.
    """

    name: str
    version: str
    program: Function | str | tuple[str, ...]
    folder: str
    form: AnswerForm
    call: Callable[[Function, Mapping[str, Any]], object] = call_with_samples
    write: Callable[[Mapping[str, Any], Path], str] = write_clips

    @classmethod
    def of(cls, program: str | Function, form: AnswerForm | None = None) -> "Recognizer":
        """Parse a recognizer whose answers have a form, by default `TEXTS`.

        Raise InputError where its module, function or program is missing.
        """
        form = form or TEXTS
        folder = str(Path.cwd())
        if not isinstance(program, str):
            return cls(getattr(program, "__name__", ""), _version(program), program, folder, form)
        if name := parse_function(program):
            folder = str(name.folder or folder)
            version = _imported(name.dotted, folder)[1]
            _check_folder(name)
            return cls(name.module.rpartition(".")[2], version, name.dotted, folder, form)
        words = _command_words(program)
        return cls("", _command_version(words), words, folder, form)

    @property
    def function(self) -> Function | None:
        """The callable, imported where it is named; None for a command."""
        if isinstance(self.program, tuple):
            return None
        return _function_of(self.program, self.folder)

    @property
    def is_command(self) -> bool:
        """Whether this is a command, which gets all clips of a task at once."""
        return isinstance(self.program, tuple)

    def __call__(
        self, clips: Mapping[str, Any], runs: Iterator[int] | None = None
    ) -> dict[str, Any]:
        """Return the answer for each clip, or a `Failure`.

        Those of a failed batch are tried again, each by itself or, by a command, in halves.
        """
        runs = runs or (iter(range(_RUNS)) if self.is_command else count())
        answers = self._run_once(clips)
        failed = [
            key
            for key, answer in answers.items()
            if isinstance(answer, Failure) and answer.retry and len(clips) > 1
        ]
        half = -(-len(failed) // 2)
        size = half if self.is_command else 1
        for start in range(0, len(failed), size or 1):
            if next(runs, None) is not None:
                answers |= self({key: clips[key] for key in failed[start : start + size]}, runs)
        return answers

    def _run_once(self, clips: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self.program, tuple):
            return self._run(self.program, clips)
        return self._call(self.program, clips)

    def _call(self, program: Function | str, clips: Mapping[str, Any]) -> dict[str, Any]:
        """Call a function once on all clips."""
        try:
            answers: Any = self.call(_function_of(program, self.folder), clips)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a recognizer raises
            failure = Failure(f"{type(error).__name__}: {one_line(error)}", retry=True)
            return dict.fromkeys(clips, failure)
        if callable(to_list := getattr(answers, "tolist", None)):
            answers = to_list()  # of an array, a tensor or a column of a table
        is_list = isinstance(answers, list | tuple)
        if not is_list or len(answers) != len(clips):
            noun = "texts" if self.form == TEXTS else "values"
            returned = counted(len(answers), noun) if is_list else type(answers).__name__
            # Clip by clip, a function that answers once for a whole batch would pass.
            failure = Failure(
                f"it returned {returned} for a list of {counted(len(clips), 'clips')}"
            )
            return dict.fromkeys(clips, failure)
        return {key: self.form.read(answer) for key, answer in zip(clips, answers, strict=True)}

    def _run(self, words: tuple[str, ...], clips: Mapping[str, Any]) -> dict[str, Any]:
        """Run a command once on all clips."""
        with tempfile.TemporaryDirectory(prefix="nbaudio-") as temporary:
            lines = self.write(clips, Path(temporary))
            try:
                process = subprocess.run(
                    words, input=lines.encode(), capture_output=True, cwd=self.folder, check=False
                )
            except OSError as error:
                return dict.fromkeys(clips, Failure(f"{words[0]}: {error.strerror}"))
        output = _parse_output(process.stdout, self.form)
        reason = redact_urls(_exit_reason(process) + output.bad_line)
        failure = Failure(f"{Path(words[0]).name}: {reason}", retry=process.returncode != 0)
        return {key: output.answers.get(key, failure) for key in clips}


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
    except (Exception, SystemExit) as error:  # whatever the module raises
        raise InputError(
            f"{dotted}: cannot be imported in {folder} ({type(error).__name__}: {one_line(error)})"
        ) from error
    return function, _version(function)


def _check_folder(name: FunctionName) -> None:
    """Raise InputError if a module of another folder has been imported under the same name."""
    path = getattr(sys.modules[name.module], "__file__", None)
    if name.folder and not (path and Path(path).resolve().is_relative_to(name.folder.resolve())):
        raise InputError(
            f"{name.dotted}: a module {name.module} of another place is imported, not that of "
            f"{name.folder}; rename it"
        )


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
    bound = _bound_settings(function)
    function = getattr(function, "func", function)  # of functools.partial
    module: Any = inspect.getmodule(function if hasattr(function, "__name__") else type(function))
    stated = getattr(function, "version", None) or getattr(module, "__version__", None)
    try:
        version = str(
            stated
            or _sha256([inspect.getsource(module if hasattr(module, "__file__") else function)])
        )
    except (OSError, TypeError) as error:
        raise InputError(
            f"{function!r}: its source cannot be read; give it an attribute 'version'"
        ) from error
    return _sha256([version, *bound]) if bound else version


def _bound_settings(function: Any) -> list[str]:
    """Return the arguments of `functools.partial`, and the variables that a closure uses.

    Only numbers, texts and paths count: the text of another object, such as a model, may differ
    from process to process.
    """
    settings: dict[Any, Any] = {}
    if isinstance(function, partial):
        settings = dict(enumerate(function.args)) | function.keywords
        function = function.func
    if inspect.isfunction(function):
        settings |= inspect.getclosurevars(function).nonlocals
    return [f"{name}={value!r}" for name, value in settings.items() if isinstance(value, _SETTINGS)]


@dataclass(frozen=True)
class _Output:
    """The output of a command: answers by key, and a remark on the first line that has none."""

    answers: dict[str, Any]
    bad_line: str


def _parse_output(output: bytes, form: AnswerForm) -> _Output:
    """Parse the lines that a command printed."""
    answers: dict[str, Any] = {}
    bad_line = ""
    for number, line in enumerate(output.splitlines(), start=1):
        try:
            answer = json.loads(line)
            key = answer["id"]  # fails for what is no object, which `read_line` needs
            answers[key] = form.read_line(answer)
        except (ValueError, TypeError, KeyError, RecursionError):
            bad_line = bad_line or (
                f"; line {number} is not {form.line}: {line[:80].decode(errors='replace')!r}"
            )
    return _Output(answers, bad_line)


def _exit_reason(process: subprocess.CompletedProcess[bytes]) -> str:
    """Return why a clip has no line in the output of a command."""
    if not process.returncode:
        return "it printed no line for this id"
    last_error = process.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return ": ".join([f"exit code {process.returncode}", *last_error])


def read_text(text: object) -> str | Failure:
    """Return what a recognizer gave for a clip as normalized text."""
    if not isinstance(text, str) or any("\ud800" <= letter <= "\udfff" for letter in text):
        return Failure("its text is not a string of valid Unicode")
    return normalize("NFC", text).strip()


def _text_of_line(line: Mapping[str, Any]) -> str | Failure:
    return read_text(line["text"])


#: Answers that are one text for each clip.
TEXTS = AnswerForm(read_text, _text_of_line, '{"id": ..., "text": ...}')
