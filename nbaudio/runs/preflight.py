"""Check what a run needs before its first notebook starts."""

from collections.abc import Collection, Mapping
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbaudio.core.dotted_names import parse_function
from nbaudio.core.errors import InputError, MissingExtraError
from nbaudio.corpus.containers.registry import container_named
from nbaudio.corpus.versions import corpus_parameters
from nbaudio.engine import EngineLocation
from nbaudio.runs.read_source import check_recognizer
from nbaudio.selection.given_splits import SOURCE
from nbaudio.selection.parameters import Parameters
from nbaudio.sources.ingest import check_source_given, format_options, reader_of
from nbaudio.sources.other_data import split_address
from nbaudio.storage.urls import is_url

# Packages of the engines that are extras, by engine.
_ENGINE_PACKAGES = {"dask": "distributed", "ray": "ray", "spark": "pyspark", "beam": "apache_beam"}
_SELECTION = (
    *("min_similarity", "max_duration", "min_duration", "hours", "disk", "dev", "test"),
    *("look_alikes", "near_held_out"),
)
_CLIPS = ("container", "rate", "channel", "encoding", "shard_size")
_WHAT = {
    "source": "file or folder of transcripts",
    "documents": "file or folder of documents",
    "audio": "audio folder",
    "names": "file of names",
    "returned": "folder of returned sheets",
    "minutes": "folder of a recording's words and minutes",
    "made_pairs": "folder of made pairs",
    "splits": "table or corpus with splits",
}


def check_run(values: Mapping[str, Any], needed: Collection[str]) -> None:
    """Check the parameters of the notebooks that will run.

    Args:
        values: parameters by name; paths are absolute.
        needed: names of the parameters of these notebooks.

    Raises:
        InputError: a path does not exist, or a value is missing or not allowed.
        MissingExtraError: an optional package is not installed.
    """
    used = {name: value for name, value in values.items() if name in needed}
    for name, what in _WHAT.items():
        _check_path(name, used.get(name), what)
    for other in used.get("avoid") or ():
        _check_path("avoid", split_address(other)[0], "data to avoid")
    if "source" in needed:
        _check_source(used)
    Parameters(**{name: used[name] for name in _SELECTION if used.get(name) is not None})
    corpus_parameters({name: used[name] for name in _CLIPS if name in used}, None)
    if "container" in used:
        container_named(used["container"], encoding=used.get("encoding"))
    _check_engine(used)


def _check_source(values: Mapping[str, Any]) -> None:
    """Raise InputError if source or format is missing, or an option is unknown."""
    recognizer = values.get("recognizer")
    check_recognizer(recognizer, *(values.get(name) for name in ("source", "documents", "audio")))
    if recognizer is None:
        check_source_given(values.get("source"))
    if values.get("documents") is None:
        format = values.get("format")
        reader_of(format)
        format_options(str(format), values.get("options") or {})


def check_modules(values: Mapping[str, Any], needed: Collection[str], folder: Path) -> None:
    """Raise InputError if the module of a function is missing, before hours of work need it.

    Args:
        values: parameters by name.
        needed: names of the parameters of the notebooks that will run.
        folder: the current folder of the notebooks, where modules are found as well.
    """
    for name in ("recognizer", "measure_with"):
        program = values.get(name) if name in needed else None
        function = parse_function(program or "")
        if function is None or function.folder is not None:
            continue
        package = function.package
        if find_spec(package) is None and PathFinder.find_spec(package, [str(folder)]) is None:
            raise InputError(
                f"{name}: {program}: there is no module {package} beside the manifest, in the "
                "current folder, or on PYTHONPATH, which has to name folders as full paths"
            )


def _check_path(name: str, value: str | None, what: str) -> None:
    """Raise InputError if a path on this machine does not exist, or is no folder of audio."""
    if value is None or is_url(value) or (name == "splits" and value == SOURCE):
        return
    path = Path(value)
    if not path.exists():
        raise InputError(f"{name}: {value}: there is no such {what}")
    if name == "audio" and not path.is_dir():
        raise InputError(f"{name}: {value}: is a file; expected the folder of the recordings")


def _check_engine(values: Mapping[str, Any]) -> None:
    """Raise an error if the engine is unknown, or its package is not installed."""
    engine = values.get("engine")
    EngineLocation(engine, values.get("jobs"))
    package = _ENGINE_PACKAGES.get(engine or "")
    if package and find_spec(package) is None:
        raise MissingExtraError.naming(package, str(engine))
