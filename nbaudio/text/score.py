"""Score hypotheses: how well each segment's hypothesis agrees with its transcript."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import Report
from nbaudio.core.tables import CORRECTED_TEXTS, NORMALIZED, table_path
from nbaudio.storage.workspace import Workspace
from nbaudio.text.characters import vocabulary
from nbaudio.text.edit_distance import edit_counts, error_rates
from nbaudio.text.normalization import normalize_column

_SHOWN_ODD = 8


def score(workspace: Workspace | str | Path, *, normalize: Sequence[str] = ()) -> Report:
    """Write similarity, WER and CER of every segment to the segments table, whose rows and order of columns stay.

    `text` and `asr_text` never change. With normalization steps their normal forms are compared and stored as `text_normalized`
    and `asr_text_normalized`; without steps these columns are removed and the texts are compared as they are. Unicode normal form
    C is applied first in any case. Each call starts from the texts, so only the last call counts.

    Args:
        workspace: the workspace or its folder.
        normalize: names of steps from `text.NORMALIZERS`, in order.

    Raises:
        InputError: there is no workspace, its table cannot be read, or a step is unknown.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> segments = pl.DataFrame({"segment_id": ["a", "b"], "text": ["evo blic", "da"], "asr_text": ["evo blitz", None]})
        >>> workspace.save(segments=segments)
        >>> score(workspace).facts["above_0_8"]
        0
        >>> workspace.segments["similarity"].round(3).to_list()
        [0.765, None]
    """
    workspace = Workspace.open(workspace)
    segments, counts = _compared(workspace.segments, normalize)
    originals = {}
    if table_path(workspace, CORRECTED_TEXTS).exists():
        # Texts that corrections replaced are scored too, so that a withdrawn correction restores the right scores.
        before = workspace.table(CORRECTED_TEXTS).drop("asr_text", strict=False)
        hypotheses = segments.select("segment_id", "asr_text").unique("segment_id", keep="first")
        before = before.join(hypotheses, on="segment_id", how="left", maintain_order="left")
        originals[CORRECTED_TEXTS] = score_table(before, normalize).drop("asr_text", "asr_text_normalized", strict=False)
    workspace.save(**originals, segments=segments)
    report = _report(segments, counts, normalize)
    workspace.save_report(report.step, report.to_dict())
    return report


def normalization_steps(workspace: Workspace) -> tuple[str, ...]:
    """Return the normalization steps of the last `score`; none before any."""
    facts = workspace.report("score").get("facts", {})
    return tuple(facts.get("normalized_by", facts.get("normalised by", ())))  # the second is by earlier versions


def score_table(segments: pl.DataFrame, steps: Sequence[str]) -> pl.DataFrame:
    """Return segments with similarity, WER and CER of `text` and `asr_text`, and the compared normal forms, if any."""
    return _compared(segments, steps)[0]


def _compared(segments: pl.DataFrame, steps: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return `score_table` and the counts behind the scores."""
    names = list(NORMALIZED) if steps else ["text", "asr_text"]
    if steps:
        forms = (normalize_column(segments[source], ("nfc", *steps)).alias(name) for name, source in NORMALIZED.items())
        segments = segments.with_columns(forms)
    else:
        segments = segments.drop(NORMALIZED, strict=False)
    counts = edit_counts(*(segments[name] for name in names))
    return segments.with_columns(error_rates(counts)), counts


def _report(segments: pl.DataFrame, counts: pl.DataFrame, steps: Sequence[str]) -> Report:
    similarity = segments["similarity"]
    scored = similarity.count()
    edits, words = counts.select(pl.sum("word_edits", "words")).row(0)
    odd = vocabulary(segments["text_normalized" if steps else "text"], segment_ids=segments["segment_id"]).odd
    named = [
        f"{name.lower()} {c if c.isprintable() else code} {count:,}"
        for c, code, name, count in odd.select("character", "code_point", "name", "count").rows()
    ]
    hidden = len(named) - _SHOWN_ODD
    facts: dict[str, Any] = {"segments": len(segments), "scored": scored, "without_hypothesis": segments["asr_text"].null_count()}
    facts |= {"mean_similarity": similarity.mean(), "median_similarity": similarity.median()}
    facts |= {"above_0_8": int((similarity > 0.8).sum()), "word_error_rate": edits / words if words else None}
    facts["odd_characters"] = named[:_SHOWN_ODD] + ([f"and {hidden} more"] if hidden > 0 else [])
    facts["normalized_by"] = list(steps)
    warnings = []
    if not segments["text"].count():
        warnings.append("no segment has a transcript: nothing can be compared, only audio can be cut")
    elif not scored:
        warnings.append("no segment has both a transcript and a hypothesis: similarity, wer and cer are empty")
    if "asr_text_raw" in segments.columns:
        warnings.append("an older version normalized the texts of this workspace in place: ingest again to have the source's own")
    return Report("score", facts, warnings=warnings)
