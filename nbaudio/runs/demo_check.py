"""Check that each problem in the corpus of the demo ("trouble") is caught.

The README.md in data_manifests/demo lists them.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.reading import open_corpus
from nbaudio.tables import conditions
from nbaudio.tables.parquet_files import read_parquet
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import views

# Problem -> id of the recording, decision of the names audit.
NAMES = {
    "the extension is in upper case on disk": ("h7Rk2_WzB0c", "extension"),
    ".wav in the transcripts, .mp3 on disk": ("-fN3yUo9aKs", "extension"),
    "double spaces in the name on disk": ("eX_5gPd1JtM", "blanks"),
    "another title on disk": ("Z0bVq6-iCwE", "id"),
    "two files match the name": ("uS8_nHj4TyA", "ambiguous"),
    "the file is missing": ("L1kGx9w-OdI", "missing"),
}
# Problem -> id of the recording (None: all), reason of the rejected segments, their number.
SEGMENTS = {
    "segments of missing recordings": (None, "no_audio", 8),
    "segments beyond the end of a truncated recording": ("Qm4vT-8_xLp", "past_the_end", 6),
    "a segment that ends after its recording": ("eX_5gPd1JtM", "past_the_end", 1),
    "the same line twice": ("h7Rk2_WzB0c", "duplicate", 1),
    "an empty transcript": ("Z0bVq6-iCwE", "empty_text", 1),
    "a segment longer than 20 s": ("eX_5gPd1JtM", "too_long", 1),
    "hypotheses of another sentence, and an empty one": (None, "below_similarity", 12),
    "one sentence in several recordings": (None, "near_held_out", 2),
}
# Problem -> pattern of the note or problem of ingest.
LINES = {
    "a line that ends in the middle": r"\bline 53\b",
    "a recording that declares more than it holds": "truncated",
    "48 kHz stereo among the recordings": r"\b48\b.*kHz|48,?000",
}
# Problem -> condition over signals that holds for one segment, of this recording.
SIGNALS = {
    "a clipped segment": "clipped_share > 0.001",
    "a noisy segment": "snr_db < 10",
    "a segment in telephone quality": "bandwidth_hz < 4000",
    "a segment that is half silent": "silence_share > 0.3",
    "a segment that ends in a word": "cut_end",
    "a segment with an offset": "abs(dc_offset) > 0.02",
}
_DAMAGED = "Qm4vT-8_xLp"
_DEAD_CHANNEL = "h7Rk2_WzB0c"
_ODD = "„“”–’"
_FORMULA = "=2+3 nije proračun nego račun iz početnice"
# Problems of ingest that the corpus contains on purpose.
_MEANT = re.compile(
    r"ingest: (.*(\bline 53\b|uS8_nHj4TyA|L1kGx9w-OdI)|past_the_end: 7 |duplicate: "
    r"1 |empty_text: 1 )"
)

# Problem -> how it was caught; None if it was not.
_Evidence = dict[str, str | None]


def _recordings_that_meet(where: str, segments: pl.DataFrame) -> list[str]:
    """Return the recording of each segment that meets a condition."""
    condition = conditions.parse_condition(where, segments.schema)
    return segments.filter(conditions.rows_that_meet(condition, segments))["recording_id"].to_list()


def check_demo(out: Path, problems: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return how each problem of the corpus was caught, and the problems of the run.

    The latter are problems that were not caught, and those that the corpus does not contain on
    purpose.

    Args:
        out: the folder of a run of the demo.
        problems: what the run has reported.
    """
    workspace = Workspace.open(out / "workspace")
    rejected = read_parquet(out / "corpus/rejected.parquet")
    evidence: _Evidence = {
        **_evidence_of_names(workspace),
        **_evidence_of_lines(workspace),
        **_evidence_of_rejections(rejected),
        **_evidence_of_signals(workspace.segments),
        **_evidence_of_texts(workspace, out, rejected),
    }
    caught = {trouble: how for trouble, how in evidence.items() if how}
    missed = [f"not caught: {trouble}" for trouble in evidence if trouble not in caught]
    return caught, missed + [line for line in problems if not _MEANT.match(line)]


def _evidence_of_names(workspace: Workspace) -> _Evidence:
    """Return which problems of file names the names audit has decided as expected."""
    audit = views.names(workspace).select("name", "decision")
    decisions = {name_matching.youtube_id(name): decision for name, decision in audit.iter_rows()}
    return {
        trouble: f"names audit: {decision}" if decisions.get(recording) == decision else None
        for trouble, (recording, decision) in NAMES.items()
    }


def _evidence_of_lines(workspace: Workspace) -> _Evidence:
    """Return the first line of the report of ingest about each problem in `LINES`."""
    report = workspace.report("ingest")
    lines = [
        f"ingest: {line}" for kind in ("warnings", "problems") for line in report.get(kind, [])
    ]
    return {
        trouble: next((line for line in lines if re.search(pattern, line)), None)
        for trouble, pattern in LINES.items()
    }


def _evidence_of_rejections(rejected: pl.DataFrame) -> _Evidence:
    """Return which problems in `SEGMENTS` are rejected, as many segments as there are."""
    evidence: _Evidence = {}
    for trouble, (recording, reason, number) in SEGMENTS.items():
        rows = rejected.filter(pl.col("reason") == reason)
        if recording is not None:
            rows = rows.filter(pl.col("recording_id") == recording)
        evidence[trouble] = f"{number} rejected as {reason}" if len(rows) == number else None
    return evidence


def _evidence_of_signals(segments: pl.DataFrame) -> _Evidence:
    """Return which problems of the audio signals show, each in its segment alone."""
    evidence: _Evidence = {}
    for trouble, where in SIGNALS.items():
        is_caught = _recordings_that_meet(where, segments) == [_DAMAGED]
        evidence[trouble] = f"measure: {where}" if is_caught else None
    measured = segments.filter(
        pl.col("recording_id") == _DEAD_CHANNEL, pl.col("rms_dbfs").is_not_null()
    )
    is_caught = len(measured) == measured["channel_correlation"].null_count() > 0
    evidence["a dead channel of two"] = "measure: no channel_correlation" if is_caught else None
    return evidence


def _evidence_of_texts(workspace: Workspace, out: Path, rejected: pl.DataFrame) -> _Evidence:
    """Return whether odd characters are listed, and a formula stays text."""
    characters = set(views.characters(workspace)["character"])
    texts = {*open_corpus(out / "corpus").segments["text"], *rejected["text"]}
    # A formula cell is read back as its value.
    sheet = pl.read_excel(out / "review/sheet.xlsx", sheet_name="review", engine="openpyxl")
    is_verbatim = _FORMULA in texts and _FORMULA in sheet["transcript"].to_list()
    listed = "score and 02_transcripts: listed with an example each"
    verbatim = "plain text everywhere, also in the review sheet"
    return {
        f"odd characters {' '.join(_ODD)}": listed if characters >= set(_ODD) else None,
        "a transcript that begins with =": verbatim if is_verbatim else None,
    }
