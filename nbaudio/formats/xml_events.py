"""Read XML from anywhere as events: no tree, so no depth takes memory; no document types, so no entities."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from xml.parsers import expat

from nbaudio.core.errors import InputError, one_line

#: The start of an element (tag, attributes), its end (tag), or text (without a tag); names are ``namespace}name``.
Event = tuple[str, dict[str, str] | None, str]


def read_xml(path: Path, pieces: Iterable[bytes], left_out: frozenset[str]) -> Iterator[Event]:
    """Yield events, without a tree, so that no depth takes memory; elements `left_out` are skipped with all that they hold."""
    events: list[Event] = []
    skipped = 0

    def doctype(*_: object) -> None:  # before it declares entities
        raise InputError(f"{path}: XML with a document type or entities, which are not read; remove <!DOCTYPE ...>")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal skipped
        if skipped or tag.rpartition("}")[2] in left_out:
            skipped += 1
        else:
            events.append((tag, attributes, ""))

    def end(tag: str) -> None:
        nonlocal skipped
        if skipped:
            skipped -= 1
        else:
            events.append((tag, None, ""))

    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = doctype, start, end
    parser.CharacterDataHandler = lambda text: None if skipped else events.append(("", None, text))
    try:
        for piece in chain(pieces, [b""]):
            parser.Parse(piece, not piece)
            yield from events
            events.clear()
    except expat.ExpatError as error:
        raise InputError(f"{path}, line {error.lineno}: not well-formed XML ({one_line(error)})") from error
    except (LookupError, ValueError) as error:
        raise InputError(f"{path}: XML in an encoding that is not read ({one_line(error)}); save it as UTF-8") from error
