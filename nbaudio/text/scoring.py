"""The scoring step: how well each segment's hypothesis agrees with its transcript."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from nbaudio.report import Report
from nbaudio.text.characters import vocabulary
from nbaudio.text.distance import edit_counts, rates
from nbaudio.text.normal import normalize_column
from nbaudio.workspace import Workspace

_SHOWN_ODD = 8


def score(workspace: Workspace | str | Path, *, normalize: Sequence[str] = ()) -> Report:
    """Write similarity, WER and CER of every segment into the segments table; its rows and the order of its columns stay.

    With normalisation steps, `text` becomes the normal form of `text_raw` and `asr_text` that of `asr_text_raw`; both raw
    columns are filled from the texts the first time, so that scoring again, with the same or other steps, starts from what was
    ingested. Unicode normal form C comes first in any case. Without steps the texts stay as they are.

    Args:
        workspace: the workspace or its folder.
        normalize: names of steps from `text.NORMALIZERS`, in order.

    Returns:
        A report with the numbers of segments and scores, mean and median similarity, how many are above 0.8, the word error rate
        over all words, and the odd characters.

    Raises:
        InputError: there is no workspace, its table cannot be read, or a step is not known.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> segments = pl.DataFrame({"segment_id": ["a", "b"], "text": ["evo blic", "da"], "asr_text": ["evo blitz", None]})
        >>> workspace.save(segments=segments)
        >>> score(workspace).facts["above 0.8"]
        0
        >>> workspace.segments["similarity"].round(3).to_list()
        [0.765, None]
    """
    workspace = Workspace.open(workspace)
    segments = workspace.segments
    if normalize:
        segments = _normalized(segments, ("nfc", *normalize))
    counts = edit_counts(segments["text"], segments["asr_text"])
    segments = segments.with_columns(rates(counts))
    workspace.save(segments=segments)
    report = _report(segments, counts, normalize)
    workspace.save_report(report.step, report.to_dict())
    return report


def _normalized(segments: pl.DataFrame, steps: Sequence[str]) -> pl.DataFrame:
    if "asr_text_raw" not in segments.columns:
        segments = segments.with_columns(asr_text_raw=pl.lit(None, dtype=pl.String))
    segments = segments.with_columns(pl.coalesce(f"{name}_raw", name).alias(f"{name}_raw") for name in ("text", "asr_text"))
    # What reviewers put right goes before what the source says.
    right = [name for name in ("text_corrected", "text_raw") if name in segments.columns]
    sources = {"text": segments.select(pl.coalesce(right)).to_series(), "asr_text": segments["asr_text_raw"]}
    return segments.with_columns(normalize_column(texts, steps).alias(name) for name, texts in sources.items())


def _report(segments: pl.DataFrame, counts: pl.DataFrame, steps: Sequence[str]) -> Report:
    similarity = segments["similarity"]
    scored = similarity.count()
    edits, words = counts.select(pl.sum("word_edits", "words")).row(0)
    odd = vocabulary(segments["text"], segment_ids=segments["segment_id"]).odd
    named = [
        f"{name.lower()} {c if c.isprintable() else code} {count:,}"
        for c, code, name, count in odd.select("character", "code_point", "name", "count").rows()
    ]
    hidden = len(named) - _SHOWN_ODD
    facts = {
        "segments": len(segments),
        "scored": scored,
        "without hypothesis": segments["asr_text"].null_count(),
        "mean similarity": similarity.mean(),
        "median similarity": similarity.median(),
        "above 0.8": int((similarity > 0.8).sum()),
        "word error rate": edits / words if words else None,
        "odd characters": named[:_SHOWN_ODD] + ([f"and {hidden} more"] if hidden > 0 else []),
        "normalised by": list(steps),
    }
    warnings = []
    if not segments["text"].count():
        warnings.append("no segment has a transcript: there is nothing to compare or to learn from, only audio to cut")
    elif not scored:
        warnings.append("no segment has both a transcript and a hypothesis: similarity, wer and cer are empty")
    return Report("score", facts, warnings=warnings)
