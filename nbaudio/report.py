"""What a step says when it is done: the same facts for people, notebooks and machines."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Report:
    """The result of a step.

    Attributes:
        step: the command that made it, such as ``ingest``.
        facts: what was counted or decided, in the order to show; JSON values only.
        warnings: worth knowing, though nothing failed.
        problems: what could not be used, one line each; the command line exits with 1 when there are any.

    Examples:
        >>> print(Report("score", {"segments": 2, "mean similarity": 0.98765}))
        score
          segments         2
          mean similarity  0.988
    """

    step: str
    facts: dict[str, Any]
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)

    def to_pandas(self) -> "pd.DataFrame":
        """The facts as a pandas table: `fact`, with dots between the names of nested ones, and `value`.

        Examples:
            >>> Report("select", {"kept": 3, "train": {"hours": 1.5}}).to_pandas().values.tolist()
            [['kept', 3], ['train.hours', 1.5]]
        """
        import pandas as pd

        return pd.DataFrame(list(_flat(self.facts)), columns=["fact", "value"], dtype=object)

    def __str__(self) -> str:
        """As a terminal shows it, each fact and line in one line; what would steer it is written out."""
        width = max((len(name) for name in self.facts), default=0)
        lines = [self.step, *(f"  {name:<{width}}  {show(value)}" for name, value in self.facts.items())]
        lines += [f"  note: {line}" for line in self.warnings]
        lines += [f"  problem: {line}" for line in self.problems]
        return "\n".join(map(harmless, lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A plain table for notebooks; every value is escaped, transcripts and names come from outside."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(show(value))}</td></tr>"
            for name, value in self.facts.items()
        )
        notes = "".join(f"<p>note: {escape(line)}</p>" for line in self.warnings)
        notes += "".join(f"<p><b>problem:</b> {escape(line)}</p>" for line in self.problems)
        return f"<div><b>{escape(self.step)}</b><table>{rows}</table>{notes}</div>"


def _flat(facts: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{within}{name}.")
        else:
            yield within + name, value


def harmless(text: str) -> str:
    r"""A text without characters that steer a terminal or hide in it: they are written as Python writes them.

    Examples:
        >>> harmless("a\nb \x1b[31m č")
        'a\\nb \\x1b[31m č'
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def first_lines(lines: list[str], more_in: str, most: int = 20) -> list[str]:
    """The first `most` lines, and where the rest is.

    Examples:
        >>> first_lines(["a", "b", "c"], "problems.parquet", most=2)
        ['a', 'b', 'and 1 more: see problems.parquet']
    """
    rest = len(lines) - most
    return lines if rest <= 0 else [*lines[:most], f"and {rest:,} more: see {more_in}"]


def show(value: Any) -> str:
    """A fact as a person reads it: thousands apart, three decimals, nested facts on one line.

    Examples:
        >>> show(447542), show({"train": 3, "dev": 1.5})
        ('447,542', 'train 3, dev 1.5')
    """
    match value:
        case bool() | None:
            return {True: "yes", False: "no", None: "-"}[value]
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.3f}".rstrip("0").rstrip(".")
        case dict():
            return ", ".join(f"{name} {show(item)}" for name, item in value.items()) or "none"
        case list() | tuple():
            return ", ".join(show(item) for item in value) or "none"
        case _:
            return str(value)
