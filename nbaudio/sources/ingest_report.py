"""Save the tables of `ingest` and its report: counts, sizes, warnings and missing items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl
import polars.selectors as cs

from nbaudio.core.report import Report, count, duration, first_lines, size
from nbaudio.sources import media_tracks
from nbaudio.sources.audio_folder import has_dataset_clips, missing_folder
from nbaudio.sources.grow import Before, grown_settings, grown_tables, sources_of
from nbaudio.sources.merge_segments import KINDS, Merge, is_, merge_segments
from nbaudio.sources.place_segments import PlacedSegments, is_rounded, is_slightly_over
from nbaudio.sources.recording_names import Resolved, name_problems
from nbaudio.sources.speakers import speaker_warnings
from nbaudio.sources.time_units import rate_warning
from nbaudio.storage.location import Location
from nbaudio.tables import rejection_reasons, schemas, workspace_tables
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.dataframes import IN_ORDER, STREAMED
from nbaudio.tables.row_values import repeated
from nbaudio.tables.rows import Rows
from nbaudio.tables.workspace import Workspace
from nbaudio.text import mojibake
from nbaudio.text.speaker_names import MISSING

_REMOVED = "no longer in the source; kept until 'nbaudio withdraw'"
_NARROW = (
    "^((segment|recording)_id|(start|end)_sample|source_(start|end|duration)|decision|reason)$"
)

_PROBLEMS = pl.Schema({"file": pl.String, "item": pl.String, "reason": pl.String})
_SUBTITLES = "subtitles"  # format whose reader counts marks
# Marks such as <unk>, [noise] and ((unclear)), and silence in labels of annotation tools.
_MARK = r"(<[^<>\s]{1,30}>|\[[^\[\]]{1,40}\]|\(\([^()]{0,40}\)\)|^\s*(?i:sil|spn?|pau|xxx|#)\s*$)"
_RATE = 16_000
_BYTES_PER_SAMPLE = 2
_SAME_SECONDS = 0.1  # durations that differ by less are equal: sources round them, and codecs pad
_FLAC_SHARE = 0.57  # size of speech in FLAC at 16 kHz, about, as a share of that in WAV


@dataclass(frozen=True)
class Placed:
    """What a source brings: its names, recordings and placed segments.

    Attributes:
        source: the name of the source, which problems have as their file.
        resolved: its transcripts, with the recording of each name.
        audio: the folder that paths of recordings are relative to.
        recordings: those of the source, with `error`.
        merged: those of the workspace.
        status: of the source's recordings, see `grow.MergedRecordings`.
        segments: those of the source.
    """

    source: str
    resolved: Resolved
    audio: Location | None
    recordings: pl.DataFrame
    merged: pl.DataFrame
    status: pl.DataFrame
    segments: PlacedSegments


def save_tables(
    workspace: Workspace, placed: Placed, before: Before | None, settings: Mapping[str, Any]
) -> Report:
    """Save the tables of a workspace and the report of its ingest.

    `before` is the workspace before it grows, None if it is new; `settings` are those of the
    source.
    """
    problems = _problems(placed)
    tables: dict[str, Any] = {
        "recordings": placed.merged.drop("error", strict=False),
        "names": placed.resolved.audit,
        "problems": pl.concat(problems.values(), how="vertical"),
        **_unmatched_table(placed.resolved),
    }
    if before is None:
        workspace_tables.table_path(workspace, schemas.GROWTH).unlink(missing_ok=True)
        workspace.save_together(segments=placed.segments.judged(), **tables)
        growth = _Growth()
    else:
        growth = _save_grown(workspace, placed, before, tables, settings)
    segments = workspace_tables.scan(workspace).select(cs.matches(_NARROW))
    facts = _facts(workspace, placed, segments) | growth.facts
    if len(placed.segments.withdrawn):
        facts["withdrawn"] = len(placed.segments.withdrawn)
    warnings = [
        *placed.resolved.transcripts.notes,
        *growth.warnings,
        *_warnings(workspace, placed.merged, segments, is_new=before is None),
    ]
    lines = [line for kind, table in problems.items() for line in _lines(kind, table)]
    report = Report("ingest", facts, warnings, lines)
    workspace.save_report("ingest", report.to_dict())
    return report


def _unmatched_table(resolved: Resolved) -> dict[str, pl.DataFrame]:
    """Return the table `unmatched` by its name, if `align` made one."""
    unmatched = resolved.transcripts.unmatched
    if unmatched is None:
        return {}
    ids = resolved.audit.select("name", "recording_id")
    rows = unmatched.join(ids, on="name", how="left", maintain_order="left")
    return {"unmatched": rows.select("recording_id", pl.exclude("name", "recording_id"))}


@dataclass(frozen=True)
class _Growth:
    """Facts and warnings of a workspace that has grown; there are none of a new one."""

    facts: dict[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def _save_grown(
    workspace: Workspace,
    placed: Placed,
    before: Before,
    tables: Mapping[str, pl.DataFrame],
    settings: Mapping[str, Any],
) -> _Growth:
    """Save a workspace that has grown by what a source brings; unchanged tables stay as they are.

    `tables` and `settings` are those of the source.
    """
    merge = merge_segments(workspace, placed.segments, placed.status, before.segments_of_others())
    removed = merge.missing.select(
        file=pl.lit(placed.source), item="segment_id", reason=pl.lit(_REMOVED)
    )
    with_removed = {**tables, "problems": pl.concat([tables["problems"], removed])}
    changed = grown_tables(before, merge)
    for name, table in with_removed.items():
        rows = table if name == "recordings" else before.all_rows(name, table)
        if not _is_stored(workspace, name, rows):
            changed[name] = rows
    grown = grown_settings(before, settings, placed.audio, replaced=len(merge.replaced) > 0)
    if changed or grown != workspace.settings:
        workspace.save_together(settings=grown, **changed)
    return _Growth(_growth(placed, merge), list(_growth_warnings(merge)))


def _is_stored(workspace: Workspace, name: str, table: pl.DataFrame) -> bool:
    """Return whether a workspace has a table with these rows."""
    path = workspace_tables.table_path(workspace, name)
    return path.exists() and workspace.table(name).equals(table)


def _growth(placed: Placed, merge: Merge) -> dict[str, Any]:
    """Return how many segments and recordings are new, changed or removed."""
    counts = dict(placed.status["status"].value_counts().iter_rows())
    kinds = {kind: int(merge.rows.select(is_(kind).sum()).item()) for kind in KINDS}
    new = kinds.pop("new")
    return {
        "new": new,
        "changed": len(merge.rows) - new,
        "changed_by": {kind: number for kind, number in kinds.items() if number},
        "unchanged": merge.unchanged,
        "removed": len(merge.missing),
        "recordings_by_status": {
            name: counts.get(name, 0) for name in ("new", "changed", "arrived", "lost", "unchanged")
        },
    }


def _growth_warnings(merge: Merge) -> Iterator[str]:
    """Warn of what changed under the same id, of what the source has no more, and of no scores."""
    changed = merge.replaced.filter(~is_("new"))["segment_id"]
    if len(changed):
        yield (
            f"changed under the same id: {_listed(changed)}; their scores, "
            "splits and verdicts no longer hold"
        )
    if len(merge.missing):
        recordings = merge.missing["recording_id"].n_unique()
        removed = _listed(merge.missing["segment_id"])
        yield (
            f"removed from the source: {removed} of {count(recordings, 'recordings')}, "
            "listed in problems.parquet; they are kept"
        )
    if len(merge.rows):
        unscored = merge.rows.filter(is_("new", "text", "times", "audio", "hypothesis")).height
        yield (
            f"score and select again: {count(unscored, 'new or changed segments', 'have')} no score"
        )


def _listed(ids: pl.Series) -> str:
    """Return the number of segments with the first ids."""
    shown = ids.head(3).to_list()
    if len(ids) > len(shown):
        shown.append("...")
    return f"{count(len(ids), 'segments')} ({', '.join(shown)})"


def _problems(placed: Placed) -> dict[str, pl.DataFrame]:
    """Return tables of what is unusable in a source, by kind.

    Their columns are `file`, `item` and `reason`.
    """
    source = placed.source
    resolved = placed.resolved
    recordings = placed.recordings
    line = pl.coalesce(pl.format("line {}", "line"), pl.lit("as a whole"))
    names = pl.DataFrame(schema=_PROBLEMS)
    if placed.audio:
        names = name_problems(source, resolved)
    return {
        "names": names,
        "files": pl.DataFrame(
            [(path, path, reason) for path, reason in resolved.rejected],
            schema=_PROBLEMS,
            orient="row",
        ),
        "recordings": recordings.filter(pl.col("error").is_not_null()).select(
            file="path", item="recording_id", reason="error"
        ),
        "lines": resolved.transcripts.problems.select("file", item=line, reason="reason"),
        "ids": _repeated_ids(source, resolved.transcripts.rows),
        "segments": placed.segments.broken().select(
            file=pl.lit(source), item="segment_id", reason="reason"
        ),
    }


def _repeated_ids(source: str, rows: Rows) -> pl.DataFrame:
    """Return the problem of each id that several rows have."""
    ids = rows.map(lambda batch: batch.select("segment_id").filter(pl.col("segment_id") != ""))
    needed = ("name", "segment_id")
    hashes = repeated(pl.concat(batch["segment_id"].hash() for batch in ids.batches(needed)))
    is_candidate = pl.col("segment_id").hash().is_in(hashes.implode())
    candidates = pl.concat(batch.filter(is_candidate) for batch in ids.batches(needed))
    counts = candidates.group_by("segment_id", maintain_order=True).len().filter(pl.col("len") > 1)
    reason = pl.format("an id of {} segments: all but the first get a number, #2 and so on", "len")
    return counts.select(file=pl.lit(source), item="segment_id", reason=reason)


def _lines(kind: str, problems: pl.DataFrame) -> list[str]:
    """Format problems of one kind as lines: one each, but one per reason for segments."""
    if kind == "segments":
        by_reason = problems.group_by("reason", maintain_order=True).agg(pl.len(), pl.first("item"))
        return [
            f"{reason}: {count(number, 'segments')} rejected, the first is {first}"
            for reason, number, first in by_reason.iter_rows()
        ]
    where = pl.format("{} {}", "file", "item")
    if kind in ("names", "files", "ids"):
        where = pl.col("item")
    return first_lines(
        problems.select(pl.format("{}: {}", where, "reason")).to_series().to_list(),
        "problems.parquet",
    )


def _not_read(placed: Placed) -> list[dict[str, Any]]:
    """Return the parts of the source, and of its recordings, that were left out."""
    tracks = media_tracks.tracks_not_read(placed.merged)
    sound = media_tracks.sound_not_read(placed.merged)
    parts = (*placed.resolved.transcripts.not_read, *tracks, *sound)
    return [asdict(part) for part in parts if part.count]


def _facts(workspace: Workspace, placed: Placed, segments: pl.LazyFrame) -> dict[str, Any]:
    """Count segments, recordings and names; hours are those of segments that are not rejected."""
    recordings = placed.merged
    resolved = placed.resolved
    is_broken = (
        pl.col("reason")
        .is_in(list(rejection_reasons.segment_failures(recordings)))
        .fill_null(value=False)
    )
    rates = recordings.select("recording_id", "sampling_rate").lazy()
    seconds = pl.when(~is_broken).then(seconds_column())
    timed = segments.join(rates, on="recording_id", how="left").with_columns(
        reason=pl.when(is_broken).then("reason")
    )
    kinds = (
        timed.group_by("reason").agg(pl.len(), seconds.sum().alias("seconds")).collect(**STREAMED)
    )
    names = dict(resolved.audit["decision"].value_counts().sort("decision").iter_rows())
    reasons = (
        kinds.drop_nulls("reason")
        .sort("len", "reason", descending=[True, False])
        .select("reason", "len")
    )
    facts: dict[str, Any] = {
        "segments": int(kinds["len"].sum()),
        "rejected": dict(reasons.iter_rows()),
        "unreadable_lines": len(resolved.transcripts.problems),
        "hours": round(float(kinds["seconds"].sum()) / 3600, 6),
        "recordings": len(recordings),
        "recordings_with_audio": recordings["num_samples"].count(),
        "names": names if workspace.audio_root else "no audio yet",
    }
    columns = [
        {"name": name, "column": column} for name, column in resolved.transcripts.columns.items()
    ]
    if columns:
        facts["columns"] = columns
    if not_read := _not_read(placed):
        facts["not_read"] = not_read
    return facts


def _warnings(
    workspace: Workspace, recordings: pl.DataFrame, segments: pl.LazyFrame, *, is_new: bool
) -> list[str]:
    """Return the sizes of recordings, and warnings; times that are doubtful come first."""
    present = recordings.filter(pl.col("num_samples").is_not_null())
    lines = [_sizes(present, len(recordings), segments)] if len(present) else []
    if line := missing_folder(workspace, present["recording_id"]):
        lines.append(line)
    if workspace.audio_root is None and not has_dataset_clips(workspace):
        absent = len(recordings) - len(present)
        lines.append(
            f"no audio yet: {count(absent, 'recordings', 'are')} missing; view, "
            "score and sample the segments, and ingest again with --audio"
        )
    lines += first_lines(_other_durations(segments, present), "segments.parquet")
    lines += _moved_ends(segments, present)
    lines += rate_warning(workspace_tables.scan(workspace), present)
    doubtful = present.filter(pl.col("probe_warning").is_not_null()).select(
        pl.format("{}: {}", "path", "probe_warning")
    )
    lines += first_lines(doubtful.to_series().to_list(), "recordings.parquet")
    lines += _look_alike_ids("segments", segments.select("segment_id"))
    lines += _look_alike_ids("recordings", recordings.lazy().select("recording_id"))
    lines += _texts_of_missing_values(workspace_tables.scan(workspace))
    lines += _texts_with_mojibake(workspace_tables.scan(workspace))
    if {settings["format"] for settings in sources_of(workspace)} != {_SUBTITLES}:
        lines += _texts_with_marks(workspace_tables.scan(workspace))
    lines += speaker_warnings(workspace_tables.scan(workspace))
    if is_new and workspace.report("score"):
        lines.append("the workspace is new: score and select again")
    return lines


def _other_durations(segments: pl.LazyFrame, present: pl.DataFrame) -> list[str]:
    """Return a line for each recording whose duration is not the one that the source states."""
    if "source_duration" not in segments.collect_schema():
        return []
    stated = pl.col("source_duration").cast(pl.Float64, strict=False)
    actual = pl.col("num_samples") / pl.col("sampling_rate")
    durations = pl.DataFrame()
    for batch in segments.select("recording_id", "source_duration").collect_batches(**IN_ORDER):
        durations = pl.concat([durations, batch]).unique(
            "recording_id", keep="first", maintain_order=True
        )
    other = durations.join(present, on="recording_id", maintain_order="left").filter(
        (stated - actual).abs() > _SAME_SECONDS
    )
    line = pl.format(
        "{}: lasts {} s, the source says {} s", "path", actual.round(2), "source_duration"
    )
    return other.select(line).to_series().to_list()


def _moved_ends(segments: pl.LazyFrame, present: pl.DataFrame) -> Iterator[str]:
    """Count the ends that were moved to that of their recording; rounded ones do not count."""
    lengths = present.select("recording_id", "sampling_rate", "num_samples").lazy()
    rate = pl.col("sampling_rate").cast(pl.Int64)
    stated = (pl.col("source_end").cast(pl.Float64, strict=False) * rate).round()
    over = stated.cast(pl.Int64, strict=False) - pl.col("num_samples")
    is_moved = is_slightly_over(over) & ~is_rounded(over)
    at_the_end = segments.join(lengths, on="recording_id").filter(
        pl.col("end_sample") == pl.col("num_samples")
    )
    moved = int(at_the_end.select(is_moved.sum()).collect(**STREAMED).item())
    if moved:
        yield (
            f"{count(moved, 'segments', 'end')} less than 50 ms past the end of the recording, "
            "where they now end"
        )


def _texts_of_missing_values(segments: pl.LazyFrame) -> Iterator[str]:
    """Warn of texts that are written as missing values are; they stay, as people say such words."""
    text = pl.col("text").str.strip_chars()
    counts = (
        segments.filter(text.is_in(MISSING))
        .group_by(text)
        .agg(pl.len().alias("segments"))
        .sort("text")
        .collect(**STREAMED)
    )
    if counts.is_empty():
        return
    number = int(counts["segments"].sum())
    spellings = ", ".join(map(repr, counts["text"]))
    condition = f"text != '{counts['text'][0]}'"
    yield (
        f"{count(number, 'segments', 'have')} a text such as pandas, R, databases or spreadsheets "
        f'write for a missing one ({spellings}): it stays, and --where "{condition}" leaves it '
        "out of a selection"
    )


def _texts_with_mojibake(segments: pl.LazyFrame) -> Iterator[str]:
    """Warn of texts that another program decoded with a wrong encoding; they stay as they are."""
    number = 0
    example = ""
    candidates = segments.select("text").filter(pl.col("text").str.contains(mojibake.PATTERN))
    for batch in candidates.collect_batches(**IN_ORDER):
        misread = [text for text in batch["text"] if mojibake.repaired(text) is not None]
        number += len(misread)
        if misread and not example:
            words = misread[0].split(" ")
            example = next(filter(mojibake.repaired, words), misread[0])
    if number:
        yield (
            f"{count(number, 'segments', 'have')} a text that looks like UTF-8 read in a Windows "
            f"code page, such as {example!r} for {mojibake.repaired(example)!r}: it stays; correct "
            "the source, or its --option encoding"
        )


def _texts_with_marks(segments: pl.LazyFrame) -> Iterator[str]:
    """Warn of texts with marks of noise, silence or doubt; they stay, as some models learn them."""
    marks = segments.select(mark=pl.col("text").str.extract(_MARK)).drop_nulls()
    counts = marks.select(segments=pl.len(), mark=pl.col("mark").min()).collect(**STREAMED)
    number, mark = counts.row(0)
    if number:
        yield (
            f"{count(number, 'segments', 'have')} a mark in the text that nobody speaks, such as "
            f"{mark!r}"
        )


def _look_alike_ids(what: str, ids: pl.LazyFrame) -> Iterator[str]:
    """Warn of ids, the only column, that differ only in case or in Unicode composition."""
    name = ids.collect_schema().names()[0]
    plain = pl.col(name).str.normalize("NFC").str.to_lowercase()
    hashes = repeated(ids.select(plain.hash()).collect(**STREAMED).to_series())
    if hashes.is_empty():
        return
    alike = ids.filter(plain.hash().is_in(hashes.implode())).select(name, plain=plain)
    groups = alike.collect(**STREAMED).group_by("plain").agg(pl.col(name).sort()).sort("plain")
    spellings = groups.filter(pl.col(name).list.len() > 1)[name].to_list()
    if spellings:
        yield (
            f"ids of {what} that differ only in case or Unicode composition: {len(spellings):,}, "
            f"such as {' and '.join(map(repr, spellings[0][:2]))}: they stay apart here, but files "
            "of these names overwrite each other where a file system ignores case, as on macOS and "
            "Windows"
        )


def _sizes(present: pl.DataFrame, num_recordings: int, segments: pl.LazyFrame) -> str:
    """Summarize the recordings, and the size of their segments now and in a corpus."""
    kinds = (
        present.group_by("sampling_rate", "num_channels")
        .len()
        .sort("len", "sampling_rate", descending=True)
    )
    summary = ", ".join(
        f"{number:,} at {rate:,} Hz with {count(channels, 'channels')}"
        for rate, channels, number in kinds.iter_rows()
    )
    is_broken = (
        pl.col("reason")
        .is_in(list(rejection_reasons.segment_failures(present)))
        .fill_null(value=False)
    )
    usable = segments.filter(~is_broken).join(present.lazy(), on="recording_id")
    span = pl.col("end_sample") - pl.col("start_sample")
    amounts = usable.select(
        seconds=(span / pl.col("sampling_rate")).sum(),
        as_is=(span * pl.col("num_channels")).sum() * _BYTES_PER_SAMPLE,
    )
    seconds, as_is = amounts.collect(**STREAMED).row(0)
    wav = seconds * _RATE * _BYTES_PER_SAMPLE
    return (
        f"of {count(num_recordings, 'recordings')}: {summary}; {duration(seconds)} of segments "
        f"take {size(as_is)} as they are, "
        f"{size(wav)} as {_RATE:,} Hz mono WAV, "
        f"about {size(wav * _FLAC_SHARE)} as FLAC"
    )
