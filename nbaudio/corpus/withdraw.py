"""The command `withdraw`: remove speakers, recordings or segments from a workspace for good.

Hashes of their ids are kept.
"""

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nbaudio.core import hashing, input_guards
from nbaudio.core.atomic import atomic_write, parse_lines, read_json, write_bytes, write_json
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.core.report import Report, count, first_lines
from nbaudio.corpus.clip_keys import (
    RECOGNIZED_FOLDER,
    RECOGNIZER_FORMAT,
    ClipFormat,
    divide_keys,
    recording_facts,
    rows_without_key,
    segment_columns,
    with_clip_keys,
)
from nbaudio.corpus.packs import keep_clips
from nbaudio.corpus.withdrawal_ids import find_ids
from nbaudio.proof.judged_draws import ProofState
from nbaudio.review.export_files import exported_files
from nbaudio.review.sheet_clips import ENCODINGS
from nbaudio.review.state import CORRECTION_LOG, VERDICT_LOG, WAS_FAULTY, ReviewState
from nbaudio.storage import run_log
from nbaudio.storage.location import location
from nbaudio.tables import parquet_files, schemas, workspace_tables
from nbaudio.tables.amounts import amounts, with_durations
from nbaudio.tables.buckets import Buckets, store
from nbaudio.tables.dataframes import STREAMED, Ids, as_ids
from nbaudio.tables.tombstones import TOMBSTONES, WITHDRAWN, is_withdrawn, merged, tombstone
from nbaudio.tables.workspace import Workspace, locks_workspace

# Beside segments and recordings, the tables with rows of segments.
_BY_SEGMENT = (
    "decisions",
    schemas.CORRECTED_TEXTS,
    schemas.EARLIER_SPLITS,
    schemas.GROWTH,
    schemas.LEFT_OUT,
)
_EMPTY_LINES: dict[str, dict[str, Any]] = {
    VERDICT_LOG: {
        "segment_id": "",
        "content": "",
        "verdict": None,
        "comment": "",
        "corrected_text": None,
    },
    CORRECTION_LOG: {"segment_id": "", "start_sample": None, "end_sample": None},
}
# The columns that are read of the segments to withdraw.
_COLUMNS = (
    "segment_id",
    "recording_id",
    "speaker_id",
    "start_sample",
    "end_sample",
    "source_start",
    "source_end",
    "split",
)
_CORPORA_STAY = (
    "sources outside of the workspace are not changed, and corpora hold what is withdrawn "
    "until their next version"
)
_KEYS = pl.Schema({"clip_key": pl.String})
_WORD = re.compile(r"[\s:,;'\"()]+")
_encode_lines = msgspec.json.Encoder().encode_lines


@locks_workspace("withdraw")
def withdraw(
    workspace: str | Path | Workspace,
    *,
    speaker: str | Sequence[str] = (),
    recording: str | Sequence[str] = (),
    segments: str | Path | Ids = (),
    why: str,
) -> Report:
    """Remove speakers, recordings or segments from a workspace.

    They are removed from all tables, logs, packs, caches and review clips, and `ingest` does not
    bring them back. Corpora keep them until their next version: ``materialize --base`` needs no new
    `select`, and rewrites only the shards that held them. Records of reviews keep the ids of the
    segments that were drawn.

    Args:
        workspace: the workspace or its folder.
        speaker: one or several values of `speaker_id`. Spellings that differ only in blanks, in the
            form of Unicode, or as 12 and 12.0, are one speaker.
        recording: one or several ids of recordings.
        segments: a file with an id in each line, or a table with a column `segment_id`; or ids.
        why: the reason, in a few words without personal data: later versions of corpora state it.

    Returns:
        What was removed, the corpora that still hold it, and what to do next; problems are sheets
        and pages that hold clips, and speakers that stay and look like one that is withdrawn.

    Raises:
        InputError: nothing was named, an id is unknown, or there is no reason; then nothing is
            removed. The message names spellings that look like an unknown id.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> rows = {"segment_id": ["a", "b"], "recording_id": "r", "speaker_id": ["ana", "ben"]}
        >>> recordings = pl.DataFrame({"recording_id": ["r"]})
        >>> workspace.save(segments=pl.DataFrame(rows), recordings=recordings)
        >>> withdraw(workspace, speaker="ana", why="consent withdrawn").facts["segments"]
        1
        >>> workspace.segments["segment_id"].to_list()
        ['b']
    """
    workspace = Workspace.open(workspace)
    reason = " ".join(why.split())
    if not reason:
        raise InputError("why is empty: give a reason, such as 'consent withdrawn'")
    ids = find_ids(
        workspace,
        {
            "speaker": as_ids(speaker, "speaker"),
            "recording": as_ids(recording, "recording"),
            "segment": _segment_ids(segments),
        },
        set(workspace.withdrawn["sha256"]),
    )
    withdrawal = _withdrawal(workspace, ids.by_kind, reason)
    corpora, formats = _logged(workspace)
    # First, so that no later step brings the segments back.
    workspace.save(**{WITHDRAWN: withdrawal.tombstones})
    sheets = _forget_reviews(workspace, withdrawal)
    _forget_recordings(workspace, withdrawal.recordings)
    num_clips, unread = _forget_clips(
        workspace,
        withdrawal.segments["segment_id"],
        recording_facts(workspace.recordings),
        formats,
    )
    _forget_rows(workspace, withdrawal)  # last, so that an interrupted run can be repeated
    report = Report(
        "withdraw",
        _facts(workspace, withdrawal, num_clips, corpora),
        [*ids.warnings, _CORPORA_STAY],
        first_lines([*ids.look_alikes, *sheets, *unread], "the folders named"),
    )
    workspace.save_report("withdraw", {**report.to_dict(), "problems": []})
    return report


@dataclass(frozen=True)
class _Withdrawal:
    """What is withdrawn.

    Attributes:
        tombstones: those of the workspace, with those of what is withdrawn now.
        segments: the segments, with `_COLUMNS`.
        hours: their hours.
        recordings: rows of the recordings that no other segment is in.
    """

    tombstones: pl.DataFrame
    segments: pl.DataFrame
    hours: float
    recordings: pl.DataFrame

    @property
    def segment_ids(self) -> set[str]:
        """The ids of the segments."""
        return set(self.segments["segment_id"])


def _withdrawal(workspace: Workspace, ids: Mapping[str, Sequence[str]], reason: str) -> _Withdrawal:
    """Return what is withdrawn by ids of each kind."""
    marks = [(kind, tombstone(kind, key), reason) for kind, keys in ids.items() for key in keys]
    tombstones = merged(workspace.withdrawn, pl.DataFrame(marks, schema=TOMBSTONES, orient="row"))
    withdrawn = list[pl.DataFrame]()
    remaining = set[str]()  # recordings
    for part in _parts(workspace, _COLUMNS):
        is_gone = is_withdrawn(part, tombstones)
        withdrawn.append(part.filter(is_gone))
        remaining.update(part["recording_id"].filter(~is_gone))
    segments = pl.concat(withdrawn)
    recordings = workspace.recordings
    lost = {*segments["recording_id"], *ids["recording"]} - remaining
    hours = amounts(with_durations(segments, recordings))["hours"]
    is_lost = pl.col("recording_id").is_in(sorted(lost))
    return _Withdrawal(tombstones, segments, hours, recordings.filter(is_lost))


def _facts(
    workspace: Workspace, withdrawal: _Withdrawal, num_clips: int, corpora: list[str]
) -> dict[str, Any]:
    """Return the facts of the report."""
    splits = withdrawal.segments["split"].cast(pl.String).drop_nulls()
    kinds = withdrawal.tombstones["kind"]
    return {
        "segments": len(withdrawal.segments),
        "hours": withdrawal.hours,
        "recordings": len(withdrawal.recordings),
        "splits": dict(splits.value_counts().sort("split").iter_rows()),
        "clips_removed_from_packs": num_clips,
        "withdrawn_in_all": dict(kinds.value_counts().sort("kind").iter_rows()),
        "corpora_of_this_workspace": corpora,
        "next": f"nbaudio materialize {shlex.quote(str(workspace.path))} --base CORPUS --out NEW",
    }


def _segment_ids(listed: str | Path | Ids) -> list[str]:
    """Return the ids that a file lists, or ids as they are."""
    if not isinstance(listed, str | Path):
        return as_ids(listed)
    path = Path(listed)
    try:
        if path.suffix.lower() in ("", ".txt", ".list"):
            lines = (
                input_guards.read_all(path, most=input_guards.MOST_JSON_BYTES)
                .decode("utf-8-sig")
                .splitlines()
            )
        else:
            from nbaudio.formats.table import read_cells

            cells = read_cells(path, is_header={"segment_id"}.issubset)
            unread = [f"line {problem.line}: {problem.reason}" for problem in cells.problems]
            for what in (*unread, *(part.sentence() for part in cells.not_read)):
                raise InputError(f"{path}: not read whole, so nothing is withdrawn: {what}")
            if "segment_id" not in cells.frame.columns:
                has = ", ".join(cells.frame.columns)
                raise InputError(f"{path}: no column segment_id; it has {has}")
            lines = cells.frame["segment_id"].cast(pl.String).drop_nulls().to_list()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a list of segment ids ({error})") from error
    if not (ids := [key for line in lines if (key := line.strip())]):
        raise InputError(f"{path}: lists no segment; expected an id in each line")
    return ids


def _parts(workspace: Workspace, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Read columns of the segments, batch by batch."""
    workspace_tables.table_schema(workspace)  # checks that the table has ids
    schema = pl.Schema({name: schemas.SEGMENTS[name] for name in columns})
    for part in workspace_tables.read_batches(workspace, columns=(*columns, "source_channel")):
        yield schemas.conform(part, schema, str(workspace_tables.table_path(workspace)))


def _logged(workspace: Workspace) -> tuple[list[str], list[tuple[ClipFormat, str]]]:
    """Return the corpora that were made from a workspace, and the formats of their clips.

    Each format comes with the folder of the packs that hold the clips.
    """
    corpora = list[str]()
    formats = dict[tuple[ClipFormat, str], None]()
    for path in sorted((workspace.path / "logs").glob("*.jsonl")):
        for line in run_log.read(path):
            if line.get("event") == "began":
                logged_values = line.get("parameters")
            else:
                logged_values = None
            if (
                isinstance(logged_values, dict)
                and {"rate", "channel", "encoding", "corpus"} <= logged_values.keys()
            ):
                corpora.append(str(logged_values["corpus"]))
                packs = str(logged_values.get("packs") or workspace.path / "packs")
                formats[
                    ClipFormat(
                        logged_values["rate"], logged_values["channel"], logged_values["encoding"]
                    ),
                    packs,
                ] = None
    return list(dict.fromkeys(corpora)), list(formats)


def _emptied_columns(workspace: Workspace, ids: Set[str]) -> list[str]:
    """Return the columns of the source in which only withdrawn segments have values."""
    source_columns = [
        name
        for name in workspace_tables.table_schema(workspace)
        if name not in (*schemas.SEGMENTS, *schemas.NORMALIZED)
    ]
    is_gone = pl.col("segment_id").is_in(pl.Series([*ids], dtype=pl.String).implode())
    counts = (
        workspace_tables.scan(workspace, ["segment_id", *source_columns])
        .group_by(gone=is_gone)
        .agg(pl.col(source_columns).count())
        .collect(**STREAMED)
    )
    num_values: dict[bool, dict[str, int]] = {
        row["gone"]: row for row in counts.iter_rows(named=True)
    }
    return [
        name
        for name in source_columns
        if num_values.get(True, {}).get(name) and not num_values.get(False, {}).get(name)
    ]


def _forget_rows(workspace: Workspace, withdrawal: _Withdrawal) -> None:
    """Remove what is withdrawn from all tables together; reviews hold for the segments left."""
    emptied = _emptied_columns(workspace, withdrawal.segment_ids)
    is_drawn = any((workspace.path / "reviews").rglob("*.json"))
    states = {"generations": workspace.known_states()} if is_drawn else {}
    workspace.save_together(
        settings=workspace.settings | states,
        recordings=workspace.recordings.join(
            withdrawal.recordings, on="recording_id", how="anti", maintain_order="left"
        ),
        segments=(
            part.filter(~is_withdrawn(part, withdrawal.tombstones)).drop(emptied)
            for part in workspace_tables.read_batches(workspace)
        ),
        **_other_tables(workspace, withdrawal.segment_ids, withdrawal.recordings),
    )


def _other_tables(
    workspace: Workspace, ids: Set[str], lost: pl.DataFrame
) -> dict[str, Iterator[pl.DataFrame]]:
    """Return all other tables with rows of segments and recordings, without those withdrawn.

    The tables are read batch by batch.
    """
    withdrawn = pl.Series([*ids, *lost["recording_id"], *lost["path"]], dtype=pl.String)
    columns = {
        **dict.fromkeys(_BY_SEGMENT, ("segment_id", withdrawn)),
        "problems": ("item", withdrawn),
    }
    columns["names"] = ("recording_id", lost["recording_id"])
    return {
        name: _without_rows(workspace, name, pl.col(column).is_in(out.implode()))
        for name, (column, out) in columns.items()
        if workspace_tables.table_path(workspace, name).exists()
    }


def _without_rows(workspace: Workspace, table: str, is_out: pl.Expr) -> Iterator[pl.DataFrame]:
    """Yield a table without the rows that an expression marks."""
    return (
        part.filter(~is_out.fill_null(value=False))
        for part in workspace_tables.read_batches(workspace, table)
    )


def _forget_reviews(workspace: Workspace, withdrawal: _Withdrawal) -> list[str]:
    """Remove segments from records of reviews, reports and review clips.

    Return a line for each sheet, page or archive that still holds segments.
    """
    ids = withdrawal.segment_ids
    _forget_frames(workspace, ids)  # before the verdicts are gone
    _forget_logs(workspace, ids)
    _forget_reports(workspace, ids | set(withdrawal.recordings["recording_id"]))
    return _forget_review_clips(workspace, ids)


def _forget_logs(workspace: Workspace, ids: Set[str]) -> None:
    """Empty the lines about segments in the logs of verdicts and corrections.

    Lines keep their numbers.
    """
    for name, empty in _EMPTY_LINES.items():
        path = workspace.path / name
        if path.exists():
            lines = [
                {**line, **empty} if line.get("segment_id") in ids else line
                for line in parse_lines(path.read_bytes())
            ]
            write_bytes(path, _encode_lines(lines))


def _faulty_ids(workspace: Workspace, ids: Set[str]) -> set[str]:
    """Return the segments that a round has reached, and that were wrong or unsure there."""
    faulty = pl.col("verdict").is_in(["wrong", "unsure"])
    rounds = ProofState.load(workspace).rounds
    return {key for round_ in rounds for key in round_.rows.filter(faulty)["segment_id"]} & ids


def _forget_frames(workspace: Workspace, ids: Set[str]) -> None:
    """Replace segments by their tombstones where reviews could draw them, and in fixed rules.

    How likely others were drawn stays known, and what a rule took, and which of them were faulty:
    whoever withdraws the faults that were found has not made the others right.
    """
    faulty = _faulty_ids(workspace, ids)
    is_removed = pl.col("segment_id").is_in(list(ids))
    hashes = {key: tombstone("segment", key) for key in ids}
    columns = {
        "segment_id": pl.col("segment_id").replace(hashes),
        "content": pl.when(~is_removed).then("content"),
    }
    for path in sorted((workspace.path / "reviews").rglob("*.frame.parquet")):
        table = path.relative_to(workspace.path).as_posix().removesuffix(".parquet")
        schema = workspace_tables.table_schema(workspace, table)
        changed = {name: value for name, value in columns.items() if name in schema}
        if "stratum" in schema:
            if WAS_FAULTY in schema:
                before = pl.col(WAS_FAULTY)
            else:
                before = pl.lit(None, pl.Boolean)
            is_faulty = pl.col("segment_id").is_in(list(faulty))
            changed[WAS_FAULTY] = pl.when(is_removed).then(is_faulty).otherwise(before)
        parts = (
            part.with_columns(**changed) for part in workspace_tables.read_batches(workspace, table)
        )
        workspace_tables.write(workspace, parts, table=table)


def _forget_reports(workspace: Workspace, names: Set[str]) -> None:
    """Remove lines and rows of reports that name a segment or a recording."""
    for path in sorted((workspace.path / "reports").glob("*.json")):
        before = read_json(path)
        if (after := _without(before, names)) != before:
            write_json(path, after)


def _without(value: Any, names: Set[str]) -> Any:
    """Return a value of JSON without the objects and texts that have one of some names."""

    def is_about(part: Any) -> bool:
        texts = part.values() if isinstance(part, dict) else [part]
        return any(
            isinstance(text, str) and not {text, *_WORD.split(text)}.isdisjoint(names)
            for text in texts
        )

    if isinstance(value, dict):
        return {name: _without(part, names) for name, part in value.items()}
    if isinstance(value, list):
        return [_without(part, names) for part in value if not is_about(part)]
    return value


def _forget_review_clips(workspace: Workspace, ids: Set[str]) -> list[str]:
    """Remove the clips beside exported sheets.

    Return a line for each sheet, page or archive that still holds segments.
    """
    lines = []
    state = ReviewState.load(workspace)
    for review, files in exported_files(workspace).items():
        withdrawn_ids: set[str] = set()
        for drawn in state.ids_exported_as(review):
            withdrawn_ids |= ids & set(drawn)
            _forget_clips_beside(map(Path, files), drawn, ids)
        lines += [
            f"{file}: holds {count(len(withdrawn_ids), 'withdrawn segments')}; "
            "delete it, here and where it was sent"
            for file in files
            if withdrawn_ids and Path(file).exists()
        ]
    return lines


def _forget_clips_beside(files: Iterable[Path], drawn: Sequence[str], ids: Set[str]) -> None:
    """Remove the clips of segments in `ids` beside the files of a review that drew `drawn`."""
    names = [
        name
        for encoding in ENCODINGS
        for key, name in zip(drawn, hashing.clip_file_names(drawn, encoding), strict=True)
        if key in ids
    ]
    for file in files:
        for name in names:
            (file.parent / "clips" / name).unlink(missing_ok=True)


def _forget_recordings(workspace: Workspace, lost: pl.DataFrame) -> None:
    """Remove recordings that the workspace holds itself.

    These are fetched and embedded ones, and transcripts that are fetched anew.
    """
    if root := workspace.audio:
        for row in lost.drop_nulls("path").iter_rows(named=True):
            place = root / row["path"]
            if place.local is None:
                place.forget(row.get("num_bytes"), row.get("version"))
            elif place.local.is_relative_to(workspace.path / "audio"):
                place.local.unlink(missing_ok=True)
    for folder in ("source", "joined"):  # the second lists rows of tables that could not be joined
        shutil.rmtree(workspace.path / folder, ignore_errors=True)
    (workspace.path / "probes.jsonl").unlink(missing_ok=True)


def _forget_clips(
    workspace: Workspace,
    withdrawn_ids: pl.Series,
    facts: pl.DataFrame,
    formats: Sequence[tuple[ClipFormat, str]],
) -> tuple[int, list[str]]:
    """Keep only clips of remaining segments, in the formats of finished corpora, in all packs.

    What recognizers heard in other clips, and rows about withdrawn segments where they failed, are
    removed too. Return how many clips are removed, and a line for each folder that cannot be read.
    """
    num_removed = 0
    problems = []
    with scratch_folder(workspace.path) as scratch:
        heard = _remaining_keys(
            workspace, withdrawn_ids, facts, [RECOGNIZER_FORMAT], scratch / "heard"
        )
        _forget_recognized(workspace, withdrawn_ids, heard, scratch / "recognized")
        folders = dict.fromkeys([str(workspace.path / "packs"), *(packs for _, packs in formats)])
        for number, packs in enumerate(folders):
            formats_in_packs = [clip_format for clip_format, folder in formats if folder == packs]
            folder = scratch / str(number)
            keys = _remaining_keys(
                workspace, withdrawn_ids, facts, formats_in_packs, folder / "keys"
            )
            try:
                num_removed += keep_clips(location(packs), keys, folder)
            except (AudioError, OSError) as error:
                problems.append(
                    f"{packs}: its packs may hold withdrawn clips ({error}); "
                    "run the same command again"
                )
    return num_removed, problems


def _remaining_keys(
    workspace: Workspace,
    withdrawn_ids: pl.Series,
    facts: pl.DataFrame,
    formats: Sequence[ClipFormat],
    folder: Path,
) -> Buckets:
    """Return the keys of the clips of remaining segments in some formats."""
    columns = ("segment_id", "recording_id", "start_sample", "end_sample", "source_channel")
    segments = segment_columns(workspace, columns)
    remaining = segments.filter(~workspace_tables.has_id(withdrawn_ids)).drop_nulls("start_sample")
    keys = [with_clip_keys(remaining, facts, clip_format) for clip_format in formats]
    none = pl.LazyFrame(schema=_KEYS)
    num_rows = len(formats) * parquet_files.num_rows(workspace_tables.table_path(workspace))
    all_keys = pl.concat([none, *(rows.select("clip_key") for rows in keys)])
    return divide_keys(all_keys, num_rows=num_rows, folder=folder)


def _forget_recognized(
    workspace: Workspace, withdrawn_ids: pl.Series, keys: Buckets, scratch: Path
) -> None:
    """Keep only texts of clips with some keys, and problems of remaining segments."""
    for path in sorted((workspace.path / RECOGNIZED_FOLDER).glob("*.jsonl")):
        folder = scratch / path.stem
        rows = store(_keys_of_lines(path), folder / "rows", _KEYS)
        removed = set(rows_without_key(rows, keys, folder / "by-key")["clip_key"])
        with atomic_write(path) as partial, partial.open("wb") as target, path.open("rb") as source:
            lines = (line for line in parse_lines(source) if _clip_key(line) not in removed)
            while batch := list(islice(lines, parquet_files.ROWS_A_GROUP)):
                target.write(_encode_lines(batch))
        table = f"{RECOGNIZED_FOLDER}/{path.stem}.problems"
        if workspace_tables.table_path(workspace, table).exists():
            remaining = _without_rows(workspace, table, workspace_tables.has_id(withdrawn_ids))
            workspace_tables.write(workspace, remaining, table=table)


def _keys_of_lines(path: Path) -> Iterator[pl.DataFrame]:
    """Yield the keys of the clips that the lines of a file are about."""
    with path.open("rb") as source:
        keys = map(_clip_key, parse_lines(source))
        while batch := list(islice(keys, parquet_files.ROWS_A_GROUP)):
            yield pl.DataFrame({"clip_key": batch}, schema=_KEYS)


def _clip_key(line: Mapping[str, Any]) -> str:
    """Return the key of the clip that a line of a log is about."""
    return str(line.get("clip_key"))
