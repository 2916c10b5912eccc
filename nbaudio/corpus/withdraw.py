"""The command `withdraw`: remove speakers, recordings or segments from a workspace for good.

The hashes of their ids stay, as tombstones: by them `ingest` leaves the same ids out later.
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

from nbaudio.core import input_guards
from nbaudio.core.atomic import atomic_write, parse_lines, read_json, write_bytes, write_json
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.core.report import Report, count, first_lines
from nbaudio.corpus.clip_keys import (
    RECOGNIZED_FOLDER,
    RECOGNIZER_FORMAT,
    divide_keys,
    recording_facts,
    rows_without_key,
    segment_columns,
    with_clip_keys,
)
from nbaudio.corpus.cutting import ClipFormat
from nbaudio.corpus.model_inputs import DURATION, MEASURED_FOLDER, ModelInputs, keyed_segments
from nbaudio.corpus.packs import keep_clips
from nbaudio.corpus.withdrawal_ids import find_ids
from nbaudio.proof.proof_state import ProofState
from nbaudio.review.export_files import exported_files
from nbaudio.review.sheet_clips import ENCODINGS, clip_files
from nbaudio.review.state import (
    CONTROL_LOG,
    CORRECTION_LOG,
    VERDICT_LOG,
    WAS_FAULTY,
    ReviewRecord,
    ReviewState,
)
from nbaudio.storage import run_log
from nbaudio.storage.location import location
from nbaudio.tables import parquet_files, schemas, workspace_tables
from nbaudio.tables.amounts import amounts, with_durations
from nbaudio.tables.buckets import Buckets, store
from nbaudio.tables.dataframes import STREAMED, Ids, as_ids
from nbaudio.tables.tombstones import TOMBSTONES, WITHDRAWN, is_withdrawn, merged, tombstone
from nbaudio.tables.workspace import Workspace, locks_workspace

# The tables with rows of segments, besides the tables of segments and recordings.
_BY_SEGMENT = (
    "decisions",
    schemas.CORRECTED_TEXTS,
    schemas.EARLIER_SPLITS,
    schemas.GROWTH,
    schemas.LEFT_OUT,
)
# The fields that are emptied in the lines of a log about withdrawn segments.
_EMPTY_VERDICT = {
    "segment_id": "",
    "content": "",
    "verdict": None,
    "comment": "",
    "corrected_text": None,
}
_EMPTY_FIELDS: dict[str, dict[str, Any]] = {
    VERDICT_LOG: _EMPTY_VERDICT,
    CONTROL_LOG: _EMPTY_VERDICT,
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
_WORD_BORDER = re.compile(r"[\s:,;'\"()]+")
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
    made = _made_corpora(workspace)
    # The tombstones come first, so that no later step brings the segments back. The rows come last:
    # an interrupted run finds them, and does the rest, when it is repeated.
    workspace.save(**{WITHDRAWN: withdrawal.tombstones})
    lines_of_sheets = _remove_from_reviews(workspace, withdrawal)
    _remove_recordings(workspace, withdrawal.recordings)
    removed_clips = _remove_clips(workspace, withdrawal, made.packs)
    _remove_rows(workspace, withdrawal)
    problems = [*ids.look_alikes, *lines_of_sheets, *removed_clips.problems]
    report = Report(
        "withdraw",
        _facts(workspace, withdrawal, removed_clips.num_clips, made.corpora),
        [*ids.warnings, _CORPORA_STAY],
        first_lines(problems, "the folders named"),
    )
    # The report names what is withdrawn in its problems only. These are not stored.
    workspace.save_report("withdraw", {**report.to_dict(), "problems": []})
    return report


@dataclass(frozen=True)
class _Withdrawal:
    """What is withdrawn.

    Attributes:
        tombstones: all of the workspace, those of this withdrawal included.
        segments: the withdrawn segments, with `_COLUMNS`.
        hours: the hours of these segments.
        recordings: rows of the recordings that have no other segments.
        speakers: the speakers who have no other segments.
    """

    tombstones: pl.DataFrame
    segments: pl.DataFrame
    hours: float
    recordings: pl.DataFrame
    speakers: set[str]

    @property
    def segment_ids(self) -> set[str]:
        """The ids of the segments."""
        return set(self.segments["segment_id"])


def _withdrawal(workspace: Workspace, ids: Mapping[str, Sequence[str]], reason: str) -> _Withdrawal:
    """Return what is withdrawn.

    Args:
        workspace: the workspace; it is only read.
        ids: the ids to withdraw, by kind: ``speaker``, ``recording`` and ``segment``.
        reason: of the new tombstones.
    """
    new_tombstones = [
        (kind, tombstone(kind, key), reason) for kind, keys in ids.items() for key in keys
    ]
    tombstones = merged(
        workspace.withdrawn, pl.DataFrame(new_tombstones, schema=TOMBSTONES, orient="row")
    )
    withdrawn = list[pl.DataFrame]()
    remaining_recordings = set[str]()
    remaining_speakers = set[str]()
    for part in _segment_batches(workspace, _COLUMNS):
        is_out = is_withdrawn(part, tombstones)
        withdrawn.append(part.filter(is_out))
        remaining_recordings.update(part["recording_id"].filter(~is_out))
        remaining_speakers.update(part["speaker_id"].filter(~is_out).drop_nulls())
    segments = pl.concat(withdrawn)
    recordings = workspace.recordings
    hours = amounts(with_durations(segments, recordings))["hours"]
    recording_ids = {*segments["recording_id"], *ids["recording"]} - remaining_recordings
    has_no_segment = pl.col("recording_id").is_in(sorted(recording_ids))
    speakers = set(segments["speaker_id"].drop_nulls()) - remaining_speakers
    return _Withdrawal(tombstones, segments, hours, recordings.filter(has_no_segment), speakers)


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
            contents = input_guards.read_all(path, most=input_guards.MOST_JSON_BYTES)
            lines = contents.decode("utf-8-sig").splitlines()
        else:
            lines = _ids_of_table(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a list of segment ids ({error})") from error
    ids = [line.strip() for line in lines if line.strip()]
    if not ids:
        raise InputError(f"{path}: lists no segment; expected an id in each line")
    return ids


def _ids_of_table(path: Path) -> list[str]:
    """Return the column `segment_id` of a table; raise InputError unless all of it can be read."""
    from nbaudio.formats.table import read_cells

    cells = read_cells(path, is_header={"segment_id"}.issubset)
    unread = [f"line {problem.line}: {problem.reason}" for problem in cells.problems]
    unread += [part.sentence() for part in cells.not_read]
    if unread:
        raise InputError(f"{path}: not read whole, so nothing is withdrawn: {unread[0]}")
    if "segment_id" not in cells.frame.columns:
        columns = ", ".join(cells.frame.columns)
        raise InputError(f"{path}: no column segment_id; it has {columns}")
    return cells.frame["segment_id"].cast(pl.String).drop_nulls().to_list()


def _segment_batches(workspace: Workspace, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Read columns of the segments, batch by batch."""
    workspace_tables.table_schema(workspace)  # checks that the table has ids
    schema = pl.Schema({name: schemas.SEGMENTS[name] for name in columns})
    for part in workspace_tables.read_batches(workspace, columns=(*columns, "source_channel")):
        yield schemas.conform(part, schema, str(workspace_tables.table_path(workspace)))


@dataclass(frozen=True)
class _Packs:
    """A folder of packs, and one of the formats of the clips in them."""

    folder: str
    clip_format: ClipFormat


@dataclass(frozen=True)
class _MadeCorpora:
    """The paths of corpora that were made from a workspace, and the packs with their clips."""

    corpora: list[str]
    packs: list[_Packs]


def _made_corpora(workspace: Workspace) -> _MadeCorpora:
    """Return the corpora and packs that the run logs of a workspace name."""
    corpora = list[str]()
    packs = list[_Packs]()
    for parameters in _logged_parameters(workspace):
        # Logs of other steps, and of earlier versions, have other parameters.
        if {"rate", "channel", "encoding", "corpus"} <= parameters.keys():
            clip_format = ClipFormat(
                parameters["rate"], parameters["channel"], parameters["encoding"]
            )
            folder = str(parameters.get("packs") or workspace.path / "packs")
            corpora.append(str(parameters["corpus"]))
            packs.append(_Packs(folder, clip_format))
    return _MadeCorpora(list(dict.fromkeys(corpora)), list(dict.fromkeys(packs)))


def _logged_parameters(workspace: Workspace) -> Iterator[dict[str, Any]]:
    """Yield the parameters of each run in the run logs of a workspace."""
    for path in sorted((workspace.path / "logs").glob("*.jsonl")):
        for line in run_log.read(path):
            parameters = line.get("parameters")
            if line.get("event") == "began" and isinstance(parameters, dict):
                yield parameters


def _emptied_columns(workspace: Workspace, ids: Set[str]) -> list[str]:
    """Return the columns of the source in which only the segments `ids` have values."""
    source_columns = [
        name
        for name in workspace_tables.table_schema(workspace)
        if name not in (*schemas.SEGMENTS, *schemas.NORMALIZED)
    ]
    is_out = pl.col("segment_id").is_in(pl.Series([*ids], dtype=pl.String).implode())
    counts = (
        workspace_tables.scan(workspace, ["segment_id", *source_columns])
        .group_by(is_out=is_out)
        .agg(pl.col(source_columns).count())
        .collect(**STREAMED)
    )
    num_values: dict[bool, dict[str, int]] = {
        row["is_out"]: row for row in counts.iter_rows(named=True)
    }
    num_out = num_values.get(True, {})
    num_remaining = num_values.get(False, {})
    return [name for name in source_columns if num_out.get(name) and not num_remaining.get(name)]


def _remove_rows(workspace: Workspace, withdrawal: _Withdrawal) -> None:
    """Remove the rows of what is withdrawn from all tables at once.

    If anything was drawn for review, the settings keep the earlier states of the workspace, so that
    reviews hold for the remaining segments.
    """
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
        **_remaining_tables(workspace, withdrawal),
    )


def _remaining_tables(
    workspace: Workspace, withdrawal: _Withdrawal
) -> dict[str, Iterator[pl.DataFrame]]:
    """Return the other tables with rows of segments or recordings, without those withdrawn.

    The tables are read batch by batch.
    """
    recordings = withdrawal.recordings
    # Rows of these tables are about a segment, or name a recording by its id or its path.
    items = pl.Series(
        [*withdrawal.segment_ids, *recordings["recording_id"], *recordings["path"]],
        dtype=pl.String,
    )
    withdrawn_values = {
        **dict.fromkeys(_BY_SEGMENT, ("segment_id", items)),
        "problems": ("item", items),
        "names": ("recording_id", recordings["recording_id"]),
    }
    return {
        table: _without_rows(workspace, table, pl.col(column).is_in(values.implode()))
        for table, (column, values) in withdrawn_values.items()
        if workspace_tables.table_path(workspace, table).exists()
    }


def _without_rows(workspace: Workspace, table: str, is_out: pl.Expr) -> Iterator[pl.DataFrame]:
    """Yield the batches of a table without the rows for which `is_out` is true."""
    return (
        part.filter(~is_out.fill_null(value=False))
        for part in workspace_tables.read_batches(workspace, table)
    )


def _remove_from_reviews(workspace: Workspace, withdrawal: _Withdrawal) -> list[str]:
    """Remove what is withdrawn from records of reviews, reports and review clips.

    Return a line for each sheet, page or archive that still holds segments.
    """
    ids = withdrawal.segment_ids
    # The frames come before the logs: they store what the verdicts in the logs say.
    strata = _strata_of_speakers(withdrawal.speakers)
    _replace_ids_in_frames(workspace, ids, strata)
    _rename_strata_of_records(workspace, strata)
    _empty_log_lines(workspace, ids)
    _remove_from_reports(
        workspace, ids | set(withdrawal.recordings["recording_id"]), withdrawal.speakers
    )
    return _remove_review_clips(workspace, ids)


def _empty_log_lines(workspace: Workspace, ids: Set[str]) -> None:
    """Empty the lines about segments in the logs of verdicts and corrections.

    The lines stay as empty ones, so that the others keep their numbers.
    """
    for name, empty_fields in _EMPTY_FIELDS.items():
        path = workspace.path / name
        if not path.exists():
            continue
        lines = list(parse_lines(path.read_bytes()))
        for line in lines:
            if line.get("segment_id") in ids:
                line.update(empty_fields)
        write_bytes(path, _encode_lines(lines))


def _faulty_ids(workspace: Workspace, ids: Set[str]) -> set[str]:
    """Return which of the segments `ids` have the verdict wrong or unsure in a round."""
    is_faulty = pl.col("verdict").is_in(["wrong", "unsure"])
    rounds = ProofState.load(workspace).rounds
    return {key for round_ in rounds for key in round_.rows.filter(is_faulty)["segment_id"]} & ids


def _strata_of_speakers(speakers: Set[str]) -> dict[str, str]:
    """Return the new name of the stratum of each speaker, by its old name."""
    return {f"={speaker}": f"={tombstone('speaker', speaker)}" for speaker in sorted(speakers)}


def _rename_strata_of_records(workspace: Workspace, strata: Mapping[str, str]) -> None:
    """Rename strata in the records of reviews."""
    for path in sorted((workspace.path / "reviews").rglob("*.json")):
        record = read_json(path)
        names = record.get("strata", [])
        renamed = [strata.get(name, name) for name in names]
        if renamed != names:
            write_json(path, record | {"strata": renamed})


def _replace_ids_in_frames(workspace: Workspace, ids: Set[str], strata: Mapping[str, str]) -> None:
    """Replace segments by their tombstones in the frames and the fixed rules of reviews.

    Strata of speakers are renamed.

    The rows stay, with whether their segment was faulty. Without them, the probabilities with which
    other segments were drawn would be wrong, and withdrawing the faulty segments that a review
    found would raise the precision that is claimed for the others.
    """
    faulty = list(_faulty_ids(workspace, ids))
    is_removed = pl.col("segment_id").is_in(list(ids))
    hashes = {key: tombstone("segment", key) for key in ids}
    columns = {
        "segment_id": pl.col("segment_id").replace(hashes),
        "content": pl.when(~is_removed).then("content"),
        "stratum": pl.col("stratum").replace(dict(strata)),
    }
    for path in sorted((workspace.path / "reviews").rglob("*.frame.parquet")):
        table = path.relative_to(workspace.path).as_posix().removesuffix(".parquet")
        schema = workspace_tables.table_schema(workspace, table)
        changed = {name: value for name, value in columns.items() if name in schema}
        if "stratum" in schema:  # fixed rules have no strata, and no verdicts
            earlier = pl.col(WAS_FAULTY) if WAS_FAULTY in schema else pl.lit(None, pl.Boolean)
            is_faulty = pl.col("segment_id").is_in(faulty)
            changed[WAS_FAULTY] = pl.when(is_removed).then(is_faulty).otherwise(earlier)
        parts = (
            part.with_columns(**changed) for part in workspace_tables.read_batches(workspace, table)
        )
        workspace_tables.write(workspace, parts, table=table)


def _remove_from_reports(workspace: Workspace, names: Set[str], speakers: Set[str]) -> None:
    """Remove the lines and rows of reports in which one of `names`, which are ids, occurs.

    Lines and rows about speakers are removed as well.
    """
    about_speakers = {*speakers, *(f"speaker {speaker}" for speaker in speakers)}
    for path in sorted((workspace.path / "reports").glob("*.json")):
        before = read_json(path)
        after = _without_names(before, names, about_speakers)
        if after != before:
            write_json(path, after)


def _without_names(value: Any, names: Set[str], about_speakers: Set[str]) -> Any:
    """Return a value of JSON without those items of its lists in which one of `names` occurs.

    Items that name a speaker (see `_is_about`) are left out too.
    """
    if isinstance(value, dict):
        return {key: _without_names(part, names, about_speakers) for key, part in value.items()}
    if isinstance(value, list):
        return [
            _without_names(part, names, about_speakers)
            for part in value
            if not _has_name(part, names) and not _is_about(part, about_speakers)
        ]
    return value


def _is_about(item: Any, about_speakers: Set[str]) -> bool:
    """Return whether a text, or a text of an object, names a speaker.

    It is the name itself, or has it before a colon, as sentences of `evidence` do.
    """
    return any(
        text in about_speakers or any(f" {name}: " in text for name in about_speakers)
        for text in _texts_of(item)
    )


def _has_name(item: Any, names: Set[str]) -> bool:
    """Return whether a text, or a text of an object, is one of `names` or has it as a word."""
    return any(not {text, *_WORD_BORDER.split(text)}.isdisjoint(names) for text in _texts_of(item))


def _texts_of(item: Any) -> list[str]:
    """Return a text itself, or the texts of an object."""
    values = item.values() if isinstance(item, dict) else [item]
    return [text for text in values if isinstance(text, str)]


def _remove_review_clips(workspace: Workspace, ids: Set[str]) -> list[str]:
    """Remove the clips of segments beside exported sheets and pages.

    Return a line for each sheet, page or archive that still holds segments.
    """
    lines = []
    state = ReviewState.load(workspace)
    for review, files in exported_files(workspace).items():
        withdrawn_ids: set[str] = set()
        for record in state.records_exported_as(review):
            shown_ids = set(record.segment_ids).union(
                *(row.segment_ids for row in record.control_rows)
            )
            withdrawn_ids |= ids & shown_ids
            _remove_clips_beside(map(Path, files), record, ids)
        lines += [
            f"{file}: holds {count(len(withdrawn_ids), 'withdrawn segments')}; "
            "delete it, here and where it was sent"
            for file in files
            if withdrawn_ids and Path(file).exists()
        ]
    return lines


def _remove_clips_beside(files: Iterable[Path], record: ReviewRecord, ids: Set[str]) -> None:
    """Remove the clips that are beside the files of a review.

    They are those of rows that show something of segments in `ids`.
    """
    names = [
        clip.name
        for encoding in ENCODINGS
        for clip in clip_files(record, encoding)
        if clip.segment_ids & ids
    ]
    for file in files:
        for name in names:
            (file.parent / "clips" / name).unlink(missing_ok=True)


def _remove_recordings(workspace: Workspace, recordings: pl.DataFrame) -> None:
    """Remove the audio of recordings that the workspace holds itself, fetched or embedded.

    Copies of sources and the results of probing are removed as a whole; they can be made anew.
    """
    if root := workspace.audio:
        for row in recordings.drop_nulls("path").iter_rows(named=True):
            place = root / row["path"]
            if place.local is None:
                place.forget(row.get("num_bytes"), row.get("version"))
            elif place.local.is_relative_to(workspace.path / "audio"):
                place.local.unlink(missing_ok=True)
    # `source` has fetched transcripts, `joined` has the rows of tables that could not be joined.
    for folder in ("source", "joined"):
        shutil.rmtree(workspace.path / folder, ignore_errors=True)
    (workspace.path / "probes.jsonl").unlink(missing_ok=True)


@dataclass(frozen=True)
class _RemovedClips:
    """How many clips were removed from packs, and a line for each folder that cannot be read."""

    num_clips: int
    problems: list[str]


def _remove_clips(
    workspace: Workspace, withdrawal: _Withdrawal, all_packs: Sequence[_Packs]
) -> _RemovedClips:
    """Remove clips from all packs, and what recognizers heard and models measured in clips.

    Only clips of remaining segments in the formats of finished corpora stay in the packs.
    """
    withdrawn_ids = withdrawal.segments["segment_id"]
    facts = recording_facts(workspace.recordings)
    num_clips = 0
    problems = []
    with scratch_folder(workspace.path) as scratch:
        recognized_keys = _remaining_keys(
            workspace, withdrawn_ids, facts, [RECOGNIZER_FORMAT], scratch / "recognized-keys"
        )
        _remove_lines(
            workspace, RECOGNIZED_FOLDER, withdrawn_ids, recognized_keys, scratch / "recognized"
        )
        measured_keys = _remaining_model_keys(workspace, withdrawn_ids, scratch / "measured-keys")
        _remove_lines(
            workspace, MEASURED_FOLDER, withdrawn_ids, measured_keys, scratch / "measured"
        )
        folders = [str(workspace.path / "packs"), *(packs.folder for packs in all_packs)]
        for number, folder in enumerate(dict.fromkeys(folders)):
            formats = [packs.clip_format for packs in all_packs if packs.folder == folder]
            buckets = scratch / str(number)
            keys = _remaining_keys(workspace, withdrawn_ids, facts, formats, buckets / "keys")
            try:
                num_clips += keep_clips(location(folder), keys, buckets)
            except (AudioError, OSError) as error:
                problems.append(
                    f"{folder}: its packs may hold withdrawn clips ({error}); "
                    "run the same command again"
                )
    return _RemovedClips(num_clips, problems)


def _remaining_keys(
    workspace: Workspace,
    withdrawn_ids: pl.Series,
    facts: pl.DataFrame,
    formats: Sequence[ClipFormat],
    folder: Path,
) -> Buckets:
    """Return the keys of the clips of remaining segments in some formats.

    `facts` are those of `recording_facts`. The keys are divided into buckets in a new `folder`.
    """
    columns = ("segment_id", "recording_id", "start_sample", "end_sample", "source_channel")
    segments = segment_columns(workspace, columns)
    remaining = segments.filter(~workspace_tables.has_id(withdrawn_ids)).drop_nulls("start_sample")
    clips = [with_clip_keys(remaining, facts, clip_format) for clip_format in formats]
    no_keys = pl.LazyFrame(schema=_KEYS)  # without formats, there is nothing else
    all_keys = pl.concat([no_keys, *(rows.select("clip_key") for rows in clips)])
    num_rows = len(formats) * parquet_files.num_rows(workspace_tables.table_path(workspace))
    return divide_keys(all_keys, num_rows=num_rows, folder=folder)


def _remaining_model_keys(workspace: Workspace, withdrawn_ids: pl.Series, folder: Path) -> Buckets:
    """Return the keys under which models keep values of remaining segments, of all models.

    The keys are divided into buckets in a new `folder`.
    """
    records = workspace.measured_columns.values()
    present = {*workspace_tables.table_schema(workspace), DURATION}
    all_inputs = {ModelInputs.of_record(record["inputs"]) for record in records}
    usable_inputs = [inputs for inputs in all_inputs if present.issuperset(inputs.columns)]
    keys = [
        keyed_segments(workspace, inputs)
        .filter(~workspace_tables.has_id(withdrawn_ids))
        .select("clip_key")
        for inputs in sorted(usable_inputs, key=str)
    ]
    all_keys = pl.concat([pl.LazyFrame(schema=_KEYS), *keys])
    num_rows = len(keys) * parquet_files.num_rows(workspace_tables.table_path(workspace))
    return divide_keys(all_keys, num_rows=num_rows, folder=folder)


def _remove_lines(
    workspace: Workspace, kind: str, withdrawn_ids: pl.Series, keys: Buckets, scratch: Path
) -> None:
    """Remove lines about clips whose key is not in `keys`, and problems of withdrawn segments.

    The lines are of a JSON file for each recognizer or model, the problems a table beside it.
    `kind` is the name of their folder.
    """
    for path in sorted((workspace.path / kind).glob("*.jsonl")):
        folder = scratch / path.stem
        rows = store(_keys_of_lines(path), folder / "rows", _KEYS)
        removed = set(rows_without_key(rows, keys, folder / "by-key")["clip_key"])
        with atomic_write(path) as partial, partial.open("wb") as target, path.open("rb") as source:
            lines = (line for line in parse_lines(source) if _clip_key(line) not in removed)
            while batch := list(islice(lines, parquet_files.ROWS_A_GROUP)):
                target.write(_encode_lines(batch))
        table = f"{kind}/{path.stem}.problems"
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
