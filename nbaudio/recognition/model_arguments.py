"""What a model gets: its parameters by name, or lines of JSON for a command."""

import inspect
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.corpus.model_inputs import DURATION, ModelInputs, sample_format
from nbaudio.recognition.model_values import Values, values_of
from nbaudio.recognition.recognizers import (
    RATE,
    AnswerForm,
    Failure,
    Function,
    to_float,
    write_clip,
)

SAMPLES, RATES, COMMON_RATE = "samples", "rates", "rate"
_AUDIO = (SAMPLES, RATES, COMMON_RATE)
# What parameters of these names get.
_NAMED = {name: name for name in _AUDIO} | {
    "texts": "text",
    "ids": "segment_id",
    "durations": DURATION,
    DURATION: DURATION,
}
_PASSED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ModelItem(NamedTuple):
    """What a model gets for a clip: samples and their rate in Hz, and values by column."""

    samples: NDArray[np.int16] | None
    rate: int | None
    values: dict[str, Any]


@dataclass(frozen=True)
class ModelArguments:
    """What a model gets, and how.

    Attributes:
        parameters: what each parameter of a function gets, by its name: `SAMPLES`, `RATES`,
            `COMMON_RATE` or a column. Empty if the samples are the only argument, and for commands.
        inputs: what has to be read for it.
    """

    parameters: dict[str, str]
    inputs: ModelInputs


def command_arguments(*, has_audio: bool, rate: int | None, channel: str) -> ModelArguments:
    """Return what a command gets: the text, and a file of audio if the workspace has audio."""
    clip_format = sample_format(rate or RATE, channel) if has_audio else None
    return ModelArguments({}, ModelInputs(clip_format, ("text",)))


def function_arguments(
    function: Function, columns: Collection[str], *, rate: int | None, channel: str
) -> ModelArguments:
    """Return what a function gets by the names of its parameters.

    A parameter that nothing has the name of gets the samples if there is no other one.

    Args:
        function: any callable.
        columns: the columns that a parameter can get.
        rate: of the samples in Hz; None is the attribute `rate` of the function, or 16 kHz. 0 is
            the rate of each recording.
        channel: of the samples, as in `materialize`.

    Raises:
        InputError: it requires a parameter that nothing has the name of.
    """
    parameters = _parameters(function, columns)
    stated_rate = getattr(function, "rate", RATE) if rate is None else rate
    if not isinstance(stated_rate, int) or stated_rate < 0:
        raise InputError(f"rate {stated_rate!r}: must be a number of Hz, or 0 for the recording's")
    if COMMON_RATE in parameters.values() and not stated_rate:
        raise InputError("the rates of recordings differ: the function must take 'rates'")
    has_samples = not parameters or not parameters.keys().isdisjoint(_AUDIO)
    clip_format = sample_format(stated_rate or None, channel) if has_samples else None
    names = (name for name in parameters.values() if name not in _AUDIO)
    return ModelArguments(parameters, ModelInputs(clip_format, tuple(sorted(set(names)))))


def _parameters(function: Function, columns: Collection[str]) -> dict[str, str]:
    """Return what each parameter of a function gets; empty if samples are the only argument.

    A parameter with a default gets no column: its name may be one by chance.
    """
    try:
        signature = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of some functions in C
        return {}
    parameters: dict[str, str] = {}
    unknown = []
    for name, parameter in signature.items():
        is_required = parameter.default is parameter.empty
        if parameter.kind in _PASSED and name in _NAMED:
            parameters[name] = _NAMED[name]
        elif parameter.kind in _PASSED and is_required and name in columns:
            parameters[name] = name
        elif is_required and parameter.kind not in _COLLECTING:
            unknown.append(name)
    if not unknown and (parameters or signature):
        return parameters
    if len(unknown) == 1 and not parameters:
        return {}
    names = ", ".join(unknown) or "no parameter"
    raise InputError(
        f"the function takes {names}: parameters are samples, rates, rate, texts, ids, durations, "
        "or columns of the segments table"
    )


def call_by_name(
    function: Function, batch: Mapping[str, ModelItem], *, parameters: Mapping[str, str]
) -> object:
    """Call a function with lists that have an element for each clip.

    `parameters` are those of `ModelArguments`.
    """
    items = [*batch.values()]
    if not parameters:
        return function(_samples(items))
    return function(**{name: _argument(items, what) for name, what in parameters.items()})


def write_items(batch: Mapping[str, ModelItem], folder: Path) -> str:
    """Write clips as .wav files; return lines of JSON that name the files and have the texts."""
    lines = []
    for number, (key, item) in enumerate(batch.items()):
        line: dict[str, Any] = {"id": key}
        if item.samples is not None and item.rate is not None:
            line |= write_clip(item.samples, item.rate, folder / f"{number}.wav")
        lines.append(json.dumps(line | item.values) + "\n")
    return "".join(lines)


def _values_of_line(line: Mapping[str, Any]) -> Values | Failure:
    """Return the field `value`, or else all fields but `id` as a record."""
    fields = {name: value for name, value in line.items() if name != "id"}
    if not fields:
        raise KeyError("value")
    return values_of(fields["value"] if [*fields] == ["value"] else fields)


#: Answers that are a value or a record for each clip.
VALUES = AnswerForm(values_of, _values_of_line, '{"id": ..., "value": ...}')


def _argument(batch: list[ModelItem], what: str) -> Any:
    """Return what a parameter gets for a batch."""
    if what == SAMPLES:
        return _samples(batch)
    if what == RATES:
        return [item.rate for item in batch]
    if what == COMMON_RATE:
        return batch[0].rate
    return [item.values[what] for item in batch]


def _samples(batch: list[ModelItem]) -> list[Any]:
    """Return the samples of each clip as float32 in [-1, 1]."""
    return [to_float(item.samples) for item in batch if item.samples is not None]
