"""Help in panels of plain text: commands by step of the work, options by what they are for.

Typer prints the panels of `rich_help_panel` only with rich, whose import would double the time of
``--help``, and whose boxes wrap badly in narrow terminals.
"""

from enum import StrEnum
from typing import Any

from typer.core import TyperCommand, TyperGroup

# What click writes: a name and its help.
_Row = tuple[str, str]
_WIDEST_HELP = 1000  # characters; longer than any, so that click does not cut it


class CommandPanel(StrEnum):
    """Headings of `nbaudio --help`, in their order."""

    START = "Start, and bring data in"
    INSPECT = "Inspect a workspace"
    REVIEW = "Review labels"
    MAKE = "Make a corpus"
    KEEP = "Keep a corpus"


class OptionPanel(StrEnum):
    """Headings below "Options" in the help of a command, in their order."""

    PARALLEL = "Parallel work"
    NETWORK = "Network"


class PanelCommand(TyperCommand):
    """A command whose help has a section for each panel of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options without a panel, then each panel."""
        _write_sections(formatter, _option_sections(self, ctx))


class PanelGroup(TyperGroup):
    """A group of commands whose help has a section for each panel of commands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the group's own options, then its commands."""
        _write_sections(formatter, _option_sections(self, ctx))
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel; groups, such as `review`, come first in theirs."""
        sections: dict[str, list[_Row]] = {str(panel): [] for panel in CommandPanel}
        names = sorted(self.list_commands(ctx), key=self._is_plain_command)
        for name in names:
            command = self.commands[name]
            if not command.hidden:
                panel = getattr(command, "rich_help_panel", None) or "Commands"
                sections.setdefault(panel, []).append((name, _first_sentence(command)))
        _write_sections(formatter, sections)

    def _is_plain_command(self, name: str) -> bool:
        return not hasattr(self.commands[name], "commands")


def _option_sections(command: Any, ctx: Any) -> dict[str, list[_Row]]:
    """Rows of the help of a command's parameters by heading, in the order of the headings."""
    sections: dict[str, list[_Row]] = {"Arguments": [], "Options": []}
    sections |= {str(panel): [] for panel in OptionPanel}
    for parameter in command.get_params(ctx):
        row = parameter.get_help_record(ctx)
        if row is None:
            continue
        if parameter.param_type_name == "argument":
            default_panel = "Arguments"
        else:
            default_panel = "Options"
        sections[getattr(parameter, "rich_help_panel", None) or default_panel].append(row)
    return sections


def _write_sections(formatter: Any, sections: dict[str, list[_Row]]) -> None:
    """Write the sections of the help, each with its heading."""
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def _first_sentence(command: Any) -> str:
    """Return the summary of a command without the cut that click makes at the width of a line."""
    return str(command.get_short_help_str(_WIDEST_HELP))
