"""Report of a step: the same facts for people, notebooks and machines."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from nbaudio.core.report_words import (
    LABELS,
    NAME_MATCHES,
    NEWS,
    NOUNS,
    SINGULAR,
    STEP_LABELS,
    TABLES,
)

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
        sentences: lines that people read in place of the value of a fact, by its name.

    Facts that are zero or empty are not shown to people, unless that is the news: see
    `nbaudio.core.report_words.NEWS`.

    Examples:
        >>> train = {"segments": 1, "hours": 0.001, "speakers": 0}
        >>> facts = {"segments": 2, "failed": 0, "mean_similarity": 0.98765, "train": train}
        >>> print(Report("score", facts))
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
    sentences: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        only_for_people = ("hidden", "sentences")
        return {name: value for name, value in asdict(self).items() if name not in only_for_people}

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
        shown = list(self._shown_facts())
        width = max((len(fact.label) for fact in shown), default=0)
        lines = [self.step]
        for fact in shown:
            if fact.table:
                lines.append(f"  {fact.label}")
                lines += [f"    {row}" for row in _aligned(fact.table)]
            else:
                lines.append(f"  {fact.label:<{width}}  {fact.text}")
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
        for fact in self._shown_facts():
            cells = "".join(
                f"<tr>{''.join(f'<td {left}>{escape(cell)}</td>' for cell in row)}</tr>"
                for row in fact.table
            )
            shown = f"<table>{cells}</table>" if fact.table else escape(fact.text)
            rows += f"<tr><th {left}>{escape(fact.label)}</th><td {left}>{shown}</td></tr>"
        notes = "".join(f"<p>note: {escape(line)}</p>" for line in self.warnings)
        notes += "".join(f"<p><b>problem:</b> {escape(line)}</p>" for line in self.problems)
        return f"<div><b>{escape(self.step)}</b><table>{rows}</table>{notes}</div>"

    def _shown_facts(self) -> Iterator["_ShownFact"]:
        """Yield the facts that people read, in their order."""
        for name, value in self.facts.items():
            if name in self.hidden:
                continue
            label = STEP_LABELS.get(self.step, {}).get(name) or fact_label(name)
            lines = self.sentences.get(name, ())
            if len(lines) == 1:
                yield _ShownFact(label, lines[0], [])
            elif lines:
                yield _ShownFact(label, "", [[line] for line in lines])
            elif not _is_silent(name, value):
                yield _ShownFact(label, show(value, name), _cells(name, value))


@dataclass(frozen=True)
class _ShownFact:
    """A fact as people read it: a `label`, and a `text` or, if there are rows, a `table`."""

    label: str
    text: str
    table: list[list[str]]


def _aligned(table: list[list[str]]) -> list[str]:
    """Return the rows of a table as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]


def _is_silent(name: str, value: Any) -> bool:
    """Return whether a fact is zero or empty, and that is no news."""
    return name not in NEWS and _is_nothing(value)


def _is_nothing(value: Any) -> bool:
    """Return whether a value is zero, missing or empty, or has only such items."""
    if isinstance(value, bool):
        return False
    if isinstance(value, Mapping):
        return all(map(_is_nothing, value.values()))
    return value is None or value in (0, "", [], ())


def _flat(facts: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{within}{name}.")
        else:
            yield within + name, value


def escape_control(text: str) -> str:
    """Escape the characters that control a terminal or hide in it, as Python writes them."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


def first_lines(lines: list[str], more_in: str, most: int = 20) -> list[str]:
    """Return the first `most` lines, and where the rest is."""
    rest = len(lines) - most
    if rest <= 0:
        return lines
    return [*lines[:most], f"and {rest:,} more: see {more_in}"]


def fact_label(name: str) -> str:
    """Return the name of a fact for people.

    It is ``mean similarity`` for `mean_similarity`, and ``audio`` for `hours`.
    """
    return LABELS.get(name, name.replace("_", " "))


def show(value: Any, name: str = "") -> str:
    """Format a fact for people, by the units of its `name`.

    Numbers have separated thousands and at most three decimals; nested facts are a sentence.
    """
    match value:
        case bool() | None:
            return _WORDS.get((name, value)) or {True: "yes", False: "no", None: "-"}[value]
        case int() | float():
            return _UNITS.get(name, _number)(value)
        case dict():
            return _show_nested(value, name)
        case list() | tuple():
            return ", ".join(show(item) for item in value) or "none"
        case _:
            return str(value)


def _number(value: float) -> str:
    """Format a number with at most three decimals; what rounds to zero has no sign."""
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:,.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _show_nested(facts: Mapping[str, Any], name: str) -> str:
    """Format nested facts without what is zero or empty; parameters may be zero."""
    write = _FORMATS.get(name, _phrase)
    is_left_out = _is_not_set if name == "parameters" else _is_nothing
    parts = (write(key, item) for key, item in facts.items() if not is_left_out(item))
    return ", ".join(parts) or "none"


def _is_not_set(value: Any) -> bool:
    """Return whether a parameter is off or has no value."""
    return value is None or value is False


def _phrase(name: str, value: Any) -> str:
    """Format a nested fact: ``3 segments``, ``4 s of audio``, ``median 0.25``."""
    if value is not None and name in ("hours", "minutes"):
        return f"{show(value, name)} of audio"
    if name in _PHRASES:
        return _PHRASES[name](value)
    if isinstance(value, int) and not isinstance(value, bool) and name not in LABELS:
        return count(value, fact_label(name).removesuffix(" id"))
    return f"{fact_label(name)} {show(value, name)}"


def count(number: int, noun: str, verb: str = "") -> str:
    """Format a number of things, with the noun and the verb in singular or plural.

    Args:
        number: how many.
        noun: what, such as ``segments``.
        verb: what they do, in the plural, such as ``are`` or ``have``; none unless given.

    Examples:
        >>> count(1, "segments"), count(2, "recording"), count(1200, "clip")
        ('1 segment', '2 recordings', '1,200 clips')
        >>> count(1, "segments", "are"), count(2, "segments", "are")
        ('1 segment is', '2 segments are')
    """
    if number == 1:
        noun = noun.removesuffix("s")
        verb = SINGULAR.get(verb, verb)
    elif noun in NOUNS:
        noun = f"{noun}s"
    return f"{number:,} {noun} {verb}".rstrip()


def shorten(text: str, most: int, mark: str = "…") -> str:
    """Cut a text after `most` characters; `mark` stands for the rest.

    Examples:
        >>> shorten("recording", 9), shorten("recordings", 9)
        ('recording', 'recording…')
    """
    if len(text) <= most:
        return text
    return text[:most] + mark


def percent(share: float) -> str:
    """Format a share in percent, with at most one decimal.

    Examples:
        >>> percent(0.5), percent(0.9873)
        ('50 %', '98.7 %')
    """
    return f"{_number(round(100 * share, 1))} %"


def percent_down(share: float) -> str:
    """Format a lower bound in percent, rounded down to one decimal.

    Examples:
        >>> percent_down(0.9819), percent_down(0.982)
        ('98.1 %', '98.2 %')
    """
    return f"{_number(math.floor(1000 * share + _NEARLY) / 10)} %"


def _cells(name: str, value: Any) -> list[list[str]]:
    """Return head and rows of a fact that is a table; empty for any other fact."""
    if not isinstance(value, list) or not value or not all(isinstance(row, dict) for row in value):
        return []
    columns = TABLES.get(name, {})
    names = [column for column in value[0] if columns.get(column) != ""]
    return [
        [columns.get(column, fact_label(column)) for column in names],
        *([_show_cell(row.get(column), column, name) for column in names] for row in value),
    ]


def _show_cell(value: Any, column: str, table: str) -> str:
    """Format a value of a table; shares of labels that are right are percentages."""
    if table in _TABLES_OF_SHARES and column in _SHARES and value is not None:
        return _SHARES[column](value)
    return show(value, column)


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
    if num_bytes >= 10:
        return f"{num_bytes:,.0f} {unit}"
    return f"{num_bytes:.2g} {unit}"


def _show_parameter(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(show, value))
    return show(value)


_NEARLY = 1e-6
# Nested facts with names as in tables or calls.
_FORMATS: Mapping[str, Callable[[str, Any], str]] = {
    "parameters": lambda name, value: f"{name}={_show_parameter(value)}",
    "splits": lambda name, number: f"{show(number)} in {name}",
    "names": lambda name, number: f"{show(number)} {NAME_MATCHES.get(name, name)}",
    **dict.fromkeys(("rejected", "reasons"), lambda name, number: f"{show(number)} {name}"),
}
_PHRASES: Mapping[str, Callable[[Any], str]] = {
    "share": percent,
    "of": str,
    "bytes_equal": lambda number: f"{size(number)} equal",
    "bytes_other": lambda number: f"{size(number)} new or rewritten",
    "p5": lambda value: f"5 % are below {show(value)}",
    "p95": lambda value: f"95 % are below {show(value)}",
}
_UNITS: Mapping[str, Callable[[float], str]] = {
    **dict.fromkeys(("hours", "before_hours", "after_hours"), lambda hours: duration(3600 * hours)),
    "minutes": lambda minutes: duration(60 * minutes),
    "seconds": duration,
    "seconds_moved_now": duration,
    **dict.fromkeys(("bytes", "bytes_equal", "bytes_other"), size),
    "times_real_time": lambda factor: f"{factor:,.0f} x real time",
    "megabytes_per_second": lambda rate: f"{rate:,.0f} MB/s",
    "word_error_rate": percent,
    "word_error_rate_without_formatting": percent,
}
_WORDS: Mapping[tuple[str, Any], str] = {
    ("whole", True): "yes, 0 problems",
    ("whole", False): "no, see the problems",
}
# Tables whose columns of `_SHARES` are shares, in percent.
_TABLES_OF_SHARES = (
    "by_part",
    "curve",
    "evidence",
    "findings",
    "grouping_alternatives",
    "model_against_label",
    "signals",
)
_SHARES: Mapping[str, Callable[[float], str]] = {
    **dict.fromkeys(("right", "precision", "share", "limit"), percent),
    **dict.fromkeys(("high", "at_most"), percent),
    **dict.fromkeys(("low", "at_least"), percent_down),
    **dict.fromkeys(("wer", "wer_low", "wer_high", "missing", "true"), percent),
}
