"""Report of a step: the same facts for people, notebooks and machines."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Report:
    """Result of a step.

    Attributes:
        step: the command that made it, such as ``ingest``.
        facts: counts and decisions, in the order to show; JSON values only, keys in snake_case. A
            list of mappings with equal keys is a table; so are counts by untrusted names, which
            cannot be keys of facts.
        warnings: worth knowing, though nothing failed.
        problems: items that could not be used, one line each; the command line exits with 1 when
            there are any.
        hidden: facts that are only for machines, as others show the same.

    Examples:
        >>> train = {"segments": 1, "hours": 0.001}
        >>> print(Report("score", {"segments": 2, "mean_similarity": 0.98765, "train": train}))
        score
          segments         2
          mean similarity  0.988
          train            1 segment, 3.6 s of audio
    """

    step: str
    facts: dict[str, Any]
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    hidden: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "hidden"}

    def to_pandas(self) -> "pd.DataFrame":
        """Return the facts as a pandas table.

        Its columns are `fact`, with dots between the names of nested facts, and `value`.

        Examples:
            >>> Report("select", {"kept": 3, "train": {"hours": 1.5}}).to_pandas().values.tolist()
            [['kept', 3], ['train.hours', 1.5]]
        """
        import pandas as pd

        return pd.DataFrame(list(_flat(self.facts)), columns=["fact", "value"], dtype=object)

    def __str__(self) -> str:
        """Format for a terminal, one line per fact; control characters are escaped."""
        facts = {name: value for name, value in self.facts.items() if name not in self.hidden}
        width = max((len(fact_label(name)) for name in facts), default=0)
        lines = [self.step]
        for name, value in facts.items():
            if table := _cells(value):
                widths = [max(map(len, column)) for column in zip(*table, strict=True)]
                lines += [
                    f"  {fact_label(name)}",
                    *("    " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in table),
                ]
            else:
                lines.append(f"  {fact_label(name):<{width}}  {show(value, name)}")
        lines += [f"  note: {line}" for line in self.warnings]
        lines += [f"  problem: {line}" for line in self.problems]
        return "\n".join(map(escape_control, lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Format as an HTML table for notebooks.

        Every value is escaped, since transcripts and names are untrusted.
        """
        left = "style='text-align:left'"
        rows = ""
        for name, value in self.facts.items():
            if name in self.hidden:
                continue
            table = _cells(value)
            cells = "".join(
                f"<tr>{''.join(f'<td {left}>{escape(cell)}</td>' for cell in row)}</tr>"
                for row in table
            )
            shown = f"<table>{cells}</table>" if table else escape(show(value, name))
            rows += f"<tr><th {left}>{escape(fact_label(name))}</th><td {left}>{shown}</td></tr>"
        notes = "".join(f"<p>note: {escape(line)}</p>" for line in self.warnings)
        notes += "".join(f"<p><b>problem:</b> {escape(line)}</p>" for line in self.problems)
        return f"<div><b>{escape(self.step)}</b><table>{rows}</table>{notes}</div>"


def _flat(facts: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{within}{name}.")
        else:
            yield within + name, value


def escape_control(text: str) -> str:
    """Escape the characters that control a terminal or hide in it, as Python writes them."""
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    )


def first_lines(lines: list[str], more_in: str, most: int = 20) -> list[str]:
    """Return the first `most` lines, and where the rest is."""
    rest = len(lines) - most
    return lines if rest <= 0 else [*lines[:most], f"and {rest:,} more: see {more_in}"]


_LABELS = {
    "hours": "audio",
    "minutes": "audio",
    "seconds": "time",
    "bytes": "size",
    "above_0_8": "above 0.8",
}
_LABELS["above_0_8_without_formatting"] = "above 0.8 without formatting"


def fact_label(name: str) -> str:
    """Return the name of a fact for people.

    It is ``mean similarity`` for `mean_similarity`, and ``audio`` for `hours`.
    """
    return _LABELS.get(name, name.replace("_", " "))


def show(value: Any, name: str = "") -> str:
    """Format a fact for people, by the units of its `name`.

    Numbers have separated thousands and at most three decimals; nested facts are a sentence.
    """
    match value:
        case bool() | None:
            return {True: "yes", False: "no", None: "-"}[value]
        case int() | float() if name in _UNITS:
            return _UNITS[name](value)
        case int() | float():
            return (
                f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".")
            )
        case dict():
            write = _FORMATS.get(name, _phrase)
            return ", ".join(write(key, item) for key, item in value.items()) or "none"
        case list() | tuple():
            return ", ".join(show(item) for item in value) or "none"
        case _:
            return str(value)


def _phrase(name: str, value: Any) -> str:
    """Format a nested fact: ``3 segments``, ``4 s of audio``, ``share 0.25``."""
    if value is not None and name in ("hours", "minutes"):
        return f"{show(value, name)} of audio"
    if isinstance(value, int) and not isinstance(value, bool) and name not in _LABELS:
        word = fact_label(name)
        return f"{show(value)} {word.removesuffix('s') if value == 1 and ' ' not in word else word}"
    return f"{fact_label(name)} {show(value, name)}"


def _cells(value: Any) -> list[list[str]]:
    """Return head and rows of a fact that is a table; empty for any other fact."""
    if not isinstance(value, list) or not value or not all(isinstance(row, dict) for row in value):
        return []
    return [
        [fact_label(name) for name in value[0]],
        *([show(row.get(name), name) for name in value[0]] for row in value),
    ]


def fact_key(text: str) -> str:
    """Return a text as the key of a fact.

    It is ``near_identical_sentence`` for ``near-identical sentence``.
    """
    return text.replace(" ", "_").replace("-", "_")


def duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 3599.5:
        return "{} min {} s".format(*divmod(round(seconds), 60)).removesuffix(" 0 s")
    return f"{seconds / 3600:,.1f}".removesuffix(".0") + " h"


def size(num_bytes: float) -> str:
    """Format a number of bytes."""
    if num_bytes < 1000:
        return f"{num_bytes:,.0f} bytes"
    for unit in ("kB", "MB", "GB", "TB"):
        num_bytes /= 1000
        if num_bytes < 999.5 or unit == "TB":
            break
    return f"{num_bytes:,.0f} {unit}" if num_bytes >= 10 else f"{num_bytes:.2g} {unit}"


# Nested facts with names as in tables or calls.
_FORMATS: Mapping[str, Callable[[str, Any], str]] = {
    "parameters": lambda name, value: (
        f"{name}={','.join(map(show, value)) if isinstance(value, list) else show(value)}"
    ),
    **dict.fromkeys(("rejected", "reasons", "names"), lambda name, count: f"{show(count)} {name}"),
}
_UNITS: Mapping[str, Callable[[float], str]] = {
    "hours": lambda hours: duration(3600 * hours),
    "minutes": lambda minutes: duration(60 * minutes),
    "seconds": duration,
    "bytes": size,
}
