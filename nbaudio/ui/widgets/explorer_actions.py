"""Buttons of the explorer: verdict, note, review sheet and rule for the marked rows, or for all that are shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from nbaudio.ui.widgets.base import BaseWidget, Handler, esm

#: The rows that an action applies to.
MARKED, SHOWN = "marked", "shown"


class ActionBar(BaseWidget):
    """Actions on rows; `counts` are how many rows are marked and shown."""

    _esm = esm("core", "explorer_actions")
    counts = traitlets.List(traitlets.Int(), [0, 0]).tag(sync=True)

    def __init__(self, words: Sequence[str], most_verdicts: int, actions: Mapping[str, Handler]) -> None:
        opened: dict[str, Any] = {"words": list(words), "most_verdicts": most_verdicts}
        super().__init__({"actions.open": lambda: opened, **{f"actions.{name}": action for name, action in actions.items()}})

    def static_html(self) -> str:
        """Return nothing: there are no actions without a kernel."""
        return ""
