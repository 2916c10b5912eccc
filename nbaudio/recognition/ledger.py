"""The ledger of a recognizer: its answers as they come, so that a run goes on after a kill."""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbaudio.core.atomic import append_lines, atomic_write, parse_lines


@dataclass(frozen=True)
class AnswerLedger:
    """Answers of a recognizer, a line of JSON for each clip: `clip_key`, `version` and the answer.

    Attributes:
        path: the file, which may be missing.
        version: that of the recognizer; lines of other versions are not read.
        field: the name of the answer in a line.
        type: that of the answers; lines with others are damaged, and not read.
    """

    path: Path
    version: str
    field: str = "text"
    type: type = str

    def read(self, clip_keys: Container[str] | None = None) -> dict[str, Any]:
        """Return the answers by clip key, of all clips or of some."""
        lines = parse_lines(self.path.read_bytes()) if self.path.exists() else ()
        return {
            str(line.get("clip_key")): line[self.field]
            for line in lines
            if line.get("version") == self.version
            and isinstance(line.get(self.field), self.type)
            and (clip_keys is None or str(line.get("clip_key")) in clip_keys)
        }

    def append(self, answers: Mapping[str, Any]) -> None:
        """Append answers, by clip key."""
        append_lines(self.path, self._lines(answers.items()))

    def replace(self, answers: Iterable[tuple[str, Any]]) -> None:
        """Replace the file by answers with their clip keys."""
        lines = b"".join(line + b"\n" for line in self._lines(answers))
        with atomic_write(self.path) as target:
            target.write_bytes(lines)

    def _lines(self, answers: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
        for clip_key, answer in answers:
            row = {"clip_key": clip_key, "version": self.version, self.field: answer}
            yield json.dumps(row, ensure_ascii=False).encode()
