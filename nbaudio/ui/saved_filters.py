"""Named filters of a table, kept in the workspace so that other notebooks and later kernels have them."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from nbaudio.core.atomic import read_json, write_json
from nbaudio.core.errors import InputError
from nbaudio.core.locks import lock
from nbaudio.storage.workspace import Workspace

_LONGEST_NAME = 100
_MOST = 500
_EMPTY = {"where": "", "find": "", "sort": "", "descending": False}


class SavedFilters:
    """Filters by name: condition, text to find and order; in memory only without a workspace."""

    def __init__(self, workspace: Workspace | None) -> None:
        self._path = None if workspace is None else workspace.path / "filters.json"
        self._held: dict[str, dict[str, Any]] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        """Return the filters by name, in alphabetical order; entries that are no filters are left out."""
        if self._path is None or not os.path.lexists(self._path):
            return dict(sorted(self._held.items()))
        found = read_json(self._path)
        return {name: each for name, each in sorted(found.items()) if _is_filter(each)}

    def save(self, name: str, arrangement: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Save a filter, in place of one of the same name; return all."""
        name = name.strip()
        if not name or len(name) > _LONGEST_NAME:
            raise InputError(f"filters: a name has 1 to {_LONGEST_NAME} characters")
        return self._change(lambda held: held.update({name: {key: arrangement[key] for key in _EMPTY}}))

    def delete(self, name: str) -> dict[str, dict[str, Any]]:
        """Delete a filter; return the others."""
        return self._change(lambda held: held.pop(name, None))

    def _change(self, change: Callable[[dict[str, dict[str, Any]]], object]) -> dict[str, dict[str, Any]]:
        with ExitStack() as held_open:
            if self._path is not None:  # so that two notebooks do not undo each other's changes
                folder = os.open(self._path.parent, os.O_RDONLY)
                held_open.callback(os.close, folder)
                lock(folder, required=False)
            held = self.all()
            change(held)
            if len(held) > _MOST:
                raise InputError(f"filters: at most {_MOST} can be saved; delete some")
            self._held = held
            if self._path is not None:
                write_json(self._path, held)
        return self.all()


def _is_filter(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), type(empty)) for key, empty in _EMPTY.items())
