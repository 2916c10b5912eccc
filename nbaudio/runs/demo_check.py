"""What is wrong with the demo corpus on purpose, and the proof that each of it was caught.

data_manifests/demo/README.md tells where each trouble sits.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.core.names import youtube_id
from nbaudio.reading import open_corpus
from nbaudio.selection.leakage import SENTENCE, leakage
from nbaudio.storage.workspace import Workspace
from nbaudio.ui import views

# Decision of the names audit, by trouble and id of the recording.
NAMES = {
    "the extension is in capitals on disk": ("h7Rk2_WzB0c", "extension"),
    "the transcripts say .wav, on disk is an .mp3": ("-fN3yUo9aKs", "extension"),
    "double blanks in the name on disk": ("eX_5gPd1JtM", "blanks"),
    "another title on disk": ("Z0bVq6-iCwE", "id"),
    "two files could be meant": ("uS8_nHj4TyA", "ambiguous"),
    "the file is not there": ("L1kGx9w-OdI", "missing"),
}
# Reason of segments that are out, by trouble, id of the recording (None: of all) and how many there are.
SEGMENTS = {
    "segments of recordings that are not there": (None, "no_audio", 8),
    "segments beyond the cut of a recording": ("Qm4vT-8_xLp", "past_the_end", 6),
    "a segment that ends after its recording": ("eX_5gPd1JtM", "past_the_end", 1),
    "the same line twice": ("h7Rk2_WzB0c", "duplicate", 1),
    "an empty transcript": ("Z0bVq6-iCwE", "empty_text", 1),
    "a segment longer than 20 s": ("eX_5gPd1JtM", "too_long", 1),
    "hypotheses of another sentence, and an empty one": (None, "below_similarity", 12),
}
ODD = "„“”–’"
FORMULA = "=2+3 nije proračun nego račun iz početnice"
# Problems of ingest that are meant to be there.
_MEANT = re.compile(r"ingest: (.*(\bline 53\b|uS8_nHj4TyA|L1kGx9w-OdI)|past_the_end: 7 |duplicate: 1 |empty_text: 1 )")


@dataclass(frozen=True)
class Evidence:
    """What a run left behind, to look for troubles in."""

    workspace: Workspace
    corpus: Path
    sheet: Path

    def decision(self, recording: str) -> str:
        """How the name of a recording was resolved."""
        audit = views.names(self.workspace).select("name", "decision")
        decisions = {youtube_id(name): decision for name, decision in audit.iter_rows()}
        return str(decisions.get(recording))

    def out(self, recording: str | None, reason: str) -> int:
        """How many segments of a recording, or of all, the finished corpus rejects for a reason."""
        rejected = pl.read_parquet(self.corpus / "rejected.parquet", glob=False)
        of_it = pl.lit(value=True) if recording is None else pl.col("recording_id") == recording
        return rejected.filter(of_it & (pl.col("reason") == reason)).height

    def said(self, step: str, kind: str, pattern: str) -> str | None:
        """The first line of a step's warnings or problems that has a pattern."""
        lines: Sequence[str] = self.workspace.report(step).get(kind, [])
        return next((line for line in lines if re.search(pattern, line)), None)


def check_demo(out: Path, problems: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Look for every trouble in what a run of the demo left behind.

    Args:
        out: the folder of the run.
        problems: those that the run told.

    Returns:
        How each trouble was caught; and the problems: troubles that were not, and problems that were not meant to be there.
    """
    evidence = Evidence(Workspace.open(out / "workspace"), out / "corpus", out / "review" / "sheet.xlsx")
    found = _in_names(evidence) | _in_lines(evidence) | _in_segments(evidence) | _in_texts(evidence)
    caught = {trouble: how for trouble, how in found.items() if how}
    missed = [f"not caught: {trouble}" for trouble in found if trouble not in caught]
    return caught, missed + [line for line in problems if not _MEANT.match(line)]


def _in_names(evidence: Evidence) -> dict[str, str | None]:
    return {
        trouble: f"names audit: {decision}" if evidence.decision(recording) == decision else None
        for trouble, (recording, decision) in NAMES.items()
    }


def _in_lines(evidence: Evidence) -> dict[str, str | None]:
    line = evidence.said("ingest", "problems", r"\bline 53\b")
    cut = evidence.said("ingest", "warnings", "truncated") or evidence.said("ingest", "problems", "truncated")
    rates = evidence.said("ingest", "warnings", r"\b48\b.*kHz|48,?000")
    return {
        "a line broken off in the middle": line and f"ingest: {line}",
        "a recording that declares more than it holds": cut and f"ingest: {cut}",
        "48 kHz stereo among the recordings": rates and f"ingest: {rates}",
    }


def _in_segments(evidence: Evidence) -> dict[str, str | None]:
    return {
        trouble: f"{count} out as {reason}" if evidence.out(recording, reason) == count else None
        for trouble, (recording, reason, count) in SEGMENTS.items()
    }


def _in_texts(evidence: Evidence) -> dict[str, str | None]:
    odd = set(views.characters(evidence.workspace)["character"])
    segments = evidence.workspace.segments
    shared = leakage(segments, keys=()).row(by_predicate=pl.col("check") == SENTENCE, named=True)
    tables = [open_corpus(evidence.corpus).segments, pl.read_parquet(evidence.corpus / "rejected.parquet", glob=False)]
    texts = {text for table in tables for text in table["text"]}
    # A formula would be read back as its value.
    sheet = pl.read_excel(evidence.sheet, sheet_name="review", engine="openpyxl")["transcript"]
    verbatim = FORMULA in texts and FORMULA in sheet.to_list()
    return {
        f"odd characters {' '.join(ODD)}": "score and 02_transcripts: listed with an example each" if odd >= set(ODD) else None,
        "one sentence in several recordings": f"leakage check: {', '.join(shared['examples'])}" if shared["shared"] else None,
        "a transcript that begins with =": "plain text everywhere, also in the review sheet" if verbatim else None,
    }
