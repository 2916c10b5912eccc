"""What was given to reviewers, kept in the workspace as ``W/reviews/<name>.json``.

Sheets come back sorted, renamed and through other programs: a row is known again by its segment id together with a hash of what
it showed, and a sheet by the corpus it was drawn from.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from nbaudio.errors import ExistsError, InputError
from nbaudio.files import write_json
from nbaudio.workspace import Workspace

_CONTENT = ("segment_id", "recording_id", "source_start", "source_end", "text", "asr_text")


@dataclass(frozen=True)
class ReviewRecord:
    """One sheet.

    Attributes:
        name: the sheet's name without its ending; unique in a workspace.
        strategy: how segments were drawn.
        n: how many were asked for.
        seed: the seed of the draw.
        corpus: the fingerprint of the segments that the workspace held.
        segment_ids: what was drawn, in the order of the sheet.
        probabilities: the inclusion probability of each.
        contents: a hash of each segment's recording, times and texts.
    """

    name: str
    strategy: str
    n: int
    seed: int
    corpus: str
    segment_ids: list[str]
    probabilities: list[float]
    contents: list[str]

    def path(self, workspace: Workspace) -> Path:
        """Where the workspace keeps it."""
        return workspace.path / "reviews" / f"{self.name}.json"

    def check_free(self, workspace: Workspace) -> None:
        """Let pass when the name is new, or names this very review.

        Raises:
            ExistsError: a review of that name has other parameters or other segments.
            InputError: the record that is there cannot be read.
        """
        path = self.path(workspace)
        if not path.exists():
            return
        try:
            known = json.loads(path.read_text(encoding="utf8"))
        except ValueError as error:
            raise InputError(f"{path}: cannot be read ({error})") from error
        differing = [name for name, value in asdict(self).items() if known.get(name) != value]
        if differing:
            asked = [f"{name} {known.get(name)}" for name in ("strategy", "n", "seed")]
            changed = [name for name in ("strategy", "n", "seed") if name in differing]
            why = f"another {' and '.join(changed)}" if changed else "segments that have changed since"
            raise ExistsError(f"review {self.name} was exported with {', '.join(asked)}; {why} wants another name")

    def save(self, workspace: Workspace) -> None:
        """Remember it: from now on its segments stay out of training."""
        write_json(self.path(workspace), asdict(self))


def fingerprint(segments: pl.DataFrame) -> str:
    """A hash of which segments there are, whatever their order and scores: 16 hex digits.

    Examples:
        >>> fingerprint(pl.DataFrame({"segment_id": ["a", "b"]})) == fingerprint(pl.DataFrame({"segment_id": ["b", "a"]}))
        True
    """
    return _short_hash(segments["segment_id"].sort().to_list())


def content_hashes(segments: pl.DataFrame) -> list[str]:
    """A hash of what a reviewer judges in each segment: recording, times and both texts; 16 hex digits each."""
    return [_short_hash(row) for row in segments.select(_CONTENT).iter_rows()]


def _short_hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
