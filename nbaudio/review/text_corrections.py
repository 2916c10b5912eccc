"""Corrected texts: what reviewers wrote in place of a transcript goes into the segments table, what was there stays known.

Conventions: of a corrected segment, `text_corrected` is the correction as it was written, `text_origin` says whose it is,
`text_raw` keeps the source's own words, and `text`, its normal form and the scores follow the correction.
``W/corrected_texts.parquet`` holds them as they were, so that a correction can be taken back and `uncorrected` gives what
reviewers judged. All of it follows from the log of verdicts: applied again, nothing changes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from nbaudio.core.report import Report, first_lines
from nbaudio.core.tables import CORRECTED_TEXTS, text_column
from nbaudio.review.bound_corrections import uncorrected_bounds
from nbaudio.review.log import verdicts
from nbaudio.review.records import OK, content_hashes
from nbaudio.storage.workspace import Workspace
from nbaudio.text.normal import nfc
from nbaudio.text.score import normalization_steps, score_table

# What a correction changes, and `uncorrected` brings back.
_CHANGED = ("text", "text_normalized", "similarity", "wer", "cer")
_WANTED = {"segment_id": pl.String, "text_corrected": pl.String, "text_origin": pl.String}


def correct_texts(workspace: Workspace | str | Path) -> Report:
    """Bring the corrected texts that hold now into the segments table, and take back those that do not any more.

    A correction is applied where it is the only one, nobody says that the transcript is ok, and the segment is still the one
    that was judged; one that is applied stays. It is scored with the normalisation steps of the last `score`.

    Args:
        workspace: the workspace or its folder.

    Returns:
        How many hold and how many rows changed just now; its problems are the segments whose correction was not applied.

    Examples:
        >>> import tempfile
        >>> from nbaudio.review.log import Verdict, append_verdicts
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> workspace.save(segments=pl.DataFrame({"segment_id": ["s"], "text": ["evo blic"], "asr_text": ["evo blitz"]}))
        >>> [content] = content_hashes(workspace.segments)
        >>> said = Verdict("s", content, "wrong words", "", "evo blitz", "ana", "2026-11-21T03:00:00Z", "sheet")
        >>> append_verdicts(workspace, [said])
        >>> correct_texts(workspace).facts["corrected_now"]
        1
        >>> workspace.segments.select("text", "text_raw", "text_origin").rows()
        [('evo blitz', 'evo blic', 'ana (sheet)')]
        >>> uncorrected(workspace, workspace.segments)["text"].to_list()
        ['evo blic']
    """
    workspace = Workspace.open(workspace)
    segments = workspace.segments
    before = uncorrected(workspace, segments)
    held = {key: text for key, text in zip(segments["segment_id"], text_column(segments, "text_corrected"), strict=True) if text}
    wanted, problems = _wanted(before, segments, verdicts(workspace), held)
    before = before.drop("text_corrected", "text_origin", strict=False)
    before = before.join(wanted, on="segment_id", how="left", maintain_order="left")
    rows = text_column(segments, "text_corrected").ne_missing(before["text_corrected"]).arg_true()
    if len(rows):
        after = _rewritten(segments, before, rows, normalization_steps(workspace))
        changed = [name for name in _CHANGED if name in segments.columns]
        fresh = before[rows].filter(pl.col("text_corrected").is_not_null()).select("segment_id", *changed)
        # First what was there, then what takes its place: a kill in between loses neither.
        known = pl.concat([fresh, _known(workspace)], how="diagonal")
        there = known.unique("segment_id", keep="first", maintain_order=True)
        workspace.save(**{CORRECTED_TEXTS: there})
        workspace.save(segments=after)
    facts = {"corrected_texts": before["text_corrected"].count(), "corrected_now": len(rows)}
    report = Report("review correct-texts", facts, problems=first_lines(problems, "reviews/verdicts.jsonl"))
    workspace.save_report("correct_texts", report.to_dict())
    return report


def uncorrected(workspace: Workspace, segments: pl.DataFrame) -> pl.DataFrame:
    """Segments as they were given to reviewers: corrected ones with the texts, scores and bounds from before.

    Args:
        workspace: whose segments they are.
        segments: its segments table, or some of its rows, with at least `segment_id` and `text_corrected` where there is one.

    Returns:
        The same rows; `text`, its normal form, scores and bounds, as far as they are there, are those from before.
    """
    segments = uncorrected_bounds(workspace, segments)
    if not text_column(segments, "text_corrected").count():
        return segments
    known = _known(workspace)
    names = [name for name in _CHANGED if name in segments.columns and name in known.columns]
    old = known.select("segment_id", *(pl.col(name).alias(f"{name} before") for name in names), there=True)
    joined = segments.join(old, on="segment_id", how="left", maintain_order="left")
    back = pl.col("text_corrected").is_not_null() & pl.col("there").fill_null(value=False)
    return joined.select(
        pl.when(back).then(f"{name} before").otherwise(name).alias(name) if name in names else name for name in segments.columns
    )


def _wanted(
    before: pl.DataFrame, now: pl.DataFrame, said: pl.DataFrame, held: Mapping[str, str]
) -> tuple[pl.DataFrame, list[str]]:
    """`segment_id`, `text_corrected` and `text_origin` of the corrections to apply, and why others are not."""
    corrected = said.filter(pl.col("corrected_text").is_not_null()).select("segment_id").unique()
    contents, corrected_contents = _contents(before, corrected), _contents(now, corrected)
    votes = said.join(corrected, on="segment_id", how="semi", maintain_order="left")
    rows, problems = [], []
    for (segment_id,), of_one in votes.group_by("segment_id", maintain_order=True):
        # A correction of what was corrected takes the place of the first.
        given = of_one.filter(pl.col("corrected_text").is_not_null()).unique("reviewer", keep="last", maintain_order=True)
        texts = {nfc(text) for text in given["corrected_text"]}
        # Whoever calls the corrected text ok does not contradict it.
        judged = pl.col("content") == contents.get(str(segment_id), "")
        known = {contents.get(str(segment_id)), corrected_contents.get(str(segment_id))}
        happy = sorted(of_one.filter((pl.col("verdict") == OK) & judged)["reviewer"])
        who = ", ".join(sorted(given["reviewer"]))
        if len(texts) > 1:
            problems.append(f"{segment_id}: {who} correct its text differently: not applied until they agree")
        elif happy:
            problems.append(f"{segment_id}: {', '.join(happy)} says ok, {who} corrects the text: not applied until they agree")
        elif {held.get(str(segment_id))} != texts and not set(given["content"]) <= known:
            problems.append(f"{segment_id}: is not any more what {who} corrected: not applied")
        else:
            reviews = ", ".join(sorted(set(given["review"])))
            rows.append((segment_id, texts.pop(), f"{who} ({reviews})"))
    return pl.DataFrame(rows, schema=_WANTED, orient="row"), problems


def _contents(segments: pl.DataFrame, wanted: pl.DataFrame) -> dict[str, str]:
    involved = segments.join(wanted, on="segment_id", how="semi").unique("segment_id", keep="first")
    return dict(zip(involved["segment_id"], content_hashes(involved), strict=True))


def _rewritten(segments: pl.DataFrame, before: pl.DataFrame, rows: pl.Series, steps: Sequence[str]) -> pl.DataFrame:
    """The table with some rows set back, and corrected where `before` has a correction for them.

    Args:
        segments: the table.
        before: its rows as they were judged, with `text_corrected` and `text_origin` as they are to be.
        rows: numbers of those that change.
        steps: of normalisation, before corrected texts are scored.
    """
    corrected = pl.col("text_corrected").is_not_null()
    new = before[rows].with_columns(
        text=pl.coalesce("text_corrected", "text"),
        text_raw=pl.when(corrected).then(pl.coalesce("text_raw", "text")).otherwise("text_raw"),
    )
    scores = score_table(new, steps)
    names = [name for name in _CHANGED[1:] if name in segments.columns]
    # What has never been scored stays so; a normal form follows its text in any case.
    follows = {name: corrected & (pl.col("similarity").is_not_null() | (name == "text_normalized")) for name in names}
    new = new.with_columns(pl.when(follows[name]).then(text_column(scores, name)).otherwise(name).alias(name) for name in names)
    written = ("text", *names, "text_raw", "text_corrected", "text_origin")
    return segments.with_columns(text_column(segments, name).scatter(rows, new[name]) for name in written)


def _known(workspace: Workspace) -> pl.DataFrame:
    """What stood in the table before corrections; empty when there has been none."""
    if (workspace.path / f"{CORRECTED_TEXTS}.parquet").exists():
        return workspace.table(CORRECTED_TEXTS)
    segments = workspace.segments
    return segments.select("segment_id", *(name for name in _CHANGED if name in segments.columns)).clear()
