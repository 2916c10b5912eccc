"""What the card of a dataset declares: README.md with a YAML header, as Hugging Face reads it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import yaml

from nbaudio.core.errors import InputError
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.transcripts import decode_text

CARD = "README.md"


@dataclass(frozen=True)
class CardHeader:
    """The header of a card.

    Attributes:
        license: as it is declared; None if it is not.
        patterns: by configuration, the split and pattern of its files.
        examples: by configuration, the rows of each split.
        problem: why the header cannot be read; None if it can.
    """

    license: str | None = None
    patterns: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    examples: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    problem: str | None = None

    def configuration(self, name: str | None) -> str | None:
        """Return a configuration, by default the first; None if the card lists none.

        Raise InputError for an unknown one.
        """
        names = [*dict.fromkeys([*self.patterns, *self.examples])]
        if name is None:
            return names[0] if names else None
        if name not in names:
            listed = ", ".join(names) or "none"
            raise InputError(f"configuration {name!r} is unknown; the card lists {listed}")
        return name

    def splits(self, names: Sequence[str], configuration: str | None) -> dict[str, str]:
        """Return the split of each file that the patterns of a configuration name."""
        by_file: dict[str, str] = {}
        for split, pattern in self.patterns.get(configuration or "", ()):
            matching = [name for name in names if _matches(name, pattern)]
            by_file |= dict.fromkeys(matching, split)
        return by_file


def _matches(name: str, pattern: str) -> bool:
    """Return whether a pattern, in which ``**`` is any folders, names a file."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, pattern.replace("**/", ""))


def read_card(files: DatasetFiles) -> CardHeader:
    """Read the header of the card of a dataset; it is empty if there is none."""
    if CARD not in files.names:
        return CardHeader()
    try:
        text = decode_text(files.whole(CARD), errors="replace")
        header = yaml.safe_load(_front_matter(text)) or {}
    except (yaml.YAMLError, InputError, RecursionError) as error:
        return CardHeader(problem=f"{CARD}: {' '.join(str(error).split())}")
    if not isinstance(header, dict):
        return CardHeader(problem=f"{CARD}: its header is no table of names and values")
    return CardHeader(_license(header), dict(_patterns(header)), dict(_examples(header)))


def _front_matter(text: str) -> str:
    """Return the YAML between the first two lines of three dashes."""
    parts = text.split("---\n", 2)
    return parts[1] if text.startswith("---\n") and len(parts) == 3 else ""


def _license(header: Mapping[str, Any]) -> str | None:
    """Return the license that a header declares; None for none, unknown and other without name."""
    declared = header.get("license")
    names = declared if isinstance(declared, list) else [declared]
    text = ", ".join(str(name) for name in names if name)
    if text == "other":
        text = str(header.get("license_name") or "")
    return None if text.casefold() in ("", "unknown", "none") else text


def _patterns(header: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each configuration with the splits and patterns of its files."""
    for config in _tables(header.get("configs")):
        patterns: list[tuple[str, str]] = []
        declared = config.get("data_files")
        if isinstance(declared, str):
            patterns.append(("train", declared))
        for files in _tables(declared):
            paths = files.get("path")
            listed = paths if isinstance(paths, list) else [paths]
            split = str(files.get("split") or "train")
            patterns += [(split, path) for path in listed if isinstance(path, str)]
        yield str(config.get("config_name") or "default"), patterns


def _examples(header: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield each configuration with the numbers of rows of its splits."""
    for facts in _tables(header.get("dataset_info")):
        counts = {
            str(split.get("name")): split["num_examples"]
            for split in _tables(facts.get("splits"))
            if isinstance(split.get("num_examples"), int)
        }
        if counts:
            yield str(facts.get("config_name") or "default"), counts


def _tables(value: Any) -> list[dict[str, Any]]:
    """Return a table, or the tables of a list."""
    listed = value if isinstance(value, list) else [value]
    return [item for item in listed if isinstance(item, dict)]
