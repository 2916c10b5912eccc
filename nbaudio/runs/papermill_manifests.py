"""Manifests for plain papermill, which reads every file through `handler`.

The entry point ``papermill.io`` registers it.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from papermill.iorw import papermill_io


class ManifestHandler:
    """Handler of `papermill.iorw` that resolves manifests.

    It delegates all other files to the handlers that were registered before it.
    """

    def __init__(self) -> None:
        others = self._others = copy.deepcopy(papermill_io)
        self.write = lambda text, path: others.get_handler(path).write(text, path)
        self.listdir = lambda path: others.get_handler(path).listdir(path)
        self.pretty_path = lambda path: others.get_handler(path).pretty_path(path)

    def __getattr__(self, name: str) -> Any:
        """Delegate further methods of the handler of local files, such as `cwd`."""
        return getattr(self._others.get_handler("local"), name)

    def read(self, path: str) -> Any:
        """Return the text of a file; for a manifest, the YAML of its resolved parameters."""
        from papermill.cli import click  # the one whose context papermill's command is in

        from nbaudio.core.errors import InputError
        from nbaudio.runs.manifests import notebook_parameters

        context = click.get_current_context(silent=True)
        options: Mapping[str, Any] = context.params if context else {}
        files: Sequence[str] = options.get("parameters_file") or ()
        notebook = options.get("notebook_path")
        if path not in files or "://" in path or not notebook or not _is_ours(Path(notebook)):
            return self._others.get_handler(path).read(path)
        try:
            values = notebook_parameters(Path(path), Path(notebook), fill=path == files[0])
        except InputError as error:  # papermill prints this in one line
            raise click.ClickException(str(error)) from error
        return yaml.safe_dump(values, allow_unicode=True, sort_keys=False)


def _is_ours(notebook: Path) -> bool:
    """Return whether a notebook has a cell tagged ``parameters`` and imports nbaudio."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
        lines = [line for cell in cells for line in "".join(cell["source"]).splitlines()]
        tagged = any("parameters" in cell["metadata"].get("tags", ()) for cell in cells)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return tagged and any(line.startswith(("import nbaudio", "from nbaudio")) for line in lines)


handler = ManifestHandler()
# A prefix of every path; handlers registered later take precedence
papermill_io.register("", handler)
