"""Functions by name, ``package.module:function``, with the folder of the module before it or not.

A folder is separated by a slash: ``models/package.module:function``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")


@dataclass(frozen=True)
class FunctionName:
    """The name of a function.

    Attributes:
        folder: where the module is, absolute; None if it is found as Python finds modules.
        module: such as ``package.module``.
        function: its name in the module.
    """

    folder: Path | None
    module: str
    function: str

    @property
    def dotted(self) -> str:
        """The name without the folder."""
        return f"{self.module}:{self.function}"

    @property
    def package(self) -> str:
        """The first part of the module's name."""
        return self.module.partition(".")[0]


def parse_function(program: str) -> FunctionName | None:
    """Return the parts of the name of a function; None if a text is no such name.

    What is before the last slash must be a folder, or the text may be a command.
    """
    folder, slash, name = program.rpartition("/")
    match = _NAME.fullmatch(name)
    if match is None or not (Path(f"{folder}/").is_dir() if slash else True):
        return None
    return FunctionName(Path(f"{folder}/").absolute() if slash else None, match[1], match[2])


def with_folder(program: str, folders: Iterable[Path]) -> str:
    """Return the name of a function with the first of some folders that has its module.

    It stays as it is if none has, if it names a folder, or if it is a command.
    """
    name = parse_function(program)
    if name is None or name.folder is not None:
        return program
    for folder in folders:
        path = folder.joinpath(*name.module.split("."))
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            return f"{folder.absolute()}/{name.dotted}"
    return program
