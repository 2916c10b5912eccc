"""The formats that `ingest` reads, by the names that users give."""

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from nbaudio.formats import (
    commonvoice,
    dataset,
    hf,
    kaldi,
    lhotse,
    librispeech,
    nemo,
    parlaspeech,
    subtitles,
    table,
    textgrid,
)
from nbaudio.formats.transcripts import Reader
from nbaudio.sources import folder

_MODULES = (
    parlaspeech,
    librispeech,
    kaldi,
    commonvoice,
    folder,
    hf,
    nemo,
    lhotse,
    table,
    subtitles,
    textgrid,
)
#: The module of each format, which has its name: it has `read` and `detect`.
FORMATS: Mapping[str, ModuleType] = MappingProxyType(
    {module.__name__.rpartition(".")[2]: module for module in _MODULES}
)
#: The reader of each format.
READERS: Mapping[str, Reader] = MappingProxyType(
    {name: module.read for name, module in FORMATS.items()}
)
#: Readers that bring in tables alone: the audio stays where it is, and is not detected.
TABLE_READERS: Mapping[str, Reader] = MappingProxyType({"dataset": dataset.read})
#: All readers that `ingest` takes, by the names that users give.
ALL_READERS: Mapping[str, Reader] = MappingProxyType({**READERS, **TABLE_READERS})
