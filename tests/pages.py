"""The code of README and of the pages in docs/: Python, and commands of nbaudio."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbaudio

TOP = Path(nbaudio.__file__).parent.parent
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


class Block(NamedTuple):
    """A block of code.

    Attributes:
        kind: ``python``, or ``shell`` where each line is a command of nbaudio.
        code: its lines.
        reason: why tests/test_docs.py does not run it; empty if it does.
        heading: the heading that it is below.
    """

    kind: str
    code: str
    reason: str
    heading: str


def text(path: Path) -> str:
    """The text of a page."""
    return path.read_text(encoding="utf8")


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order.

    Indented lines are a block of commands if all of them are commands of nbaudio.
    """
    heading = ""
    reason = ""
    body: list[str] = []
    language = None  # of the fenced block that a line is in
    for line in [*text(page).splitlines(), ""]:
        if language is not None:
            if line != "```":
                body.append(line)
                continue
            if language == "python":
                yield Block("python", "\n".join(body), reason, heading)
            reason, body, language = "", [], None
        elif line.startswith("```"):
            language = line.removeprefix("```")
        elif line.startswith("    "):
            body.append(line.strip())
        else:
            if body and all(each.startswith("nbaudio ") for each in body):
                yield Block("shell", "\n".join(body), reason, heading)
            if body or line:
                comment = _NOT_RUN.fullmatch(line)
                reason = comment[1] if comment else ""
                body = []
            if line.startswith("#"):
                heading = line.lstrip("# ")
