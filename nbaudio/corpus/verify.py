"""Verify a corpus from its bytes up.

It checks every file, every clip, every number, and that the splits share nothing.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from nbaudio.audio import decode_clip
from nbaudio.core.atomic import sha256_file, sha256_listed
from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.core.progress import progress
from nbaudio.core.progress_text import AUDIO
from nbaudio.core.report import Report, fact_key, first_lines
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.card import CARD
from nbaudio.corpus.clip_locations import PLACES, check_locations, verified_clip
from nbaudio.corpus.layout import CORPUS_JSON, IDENTITY, TABLES, read_corpus_info
from nbaudio.corpus.plan import plan_of_corpus
from nbaudio.corpus.shard_names import SHARD_NAME
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.selection.leakage import grouping_columns, leakage_record
from nbaudio.storage.folders import Folder, folder_at
from nbaudio.storage.network import RemoteNotFoundError
from nbaudio.tables.amounts import NO_AMOUNTS, amounts_by_split
from nbaudio.tables.buckets import (
    PART_ROWS,
    Buckets,
    PartWriter,
    bucket_count,
    hash_bucket,
    write_buckets,
    write_row_buckets,
)
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.parquet_files import (
    num_rows,
    parquet_slices,
    reading_parquet,
    scan_file,
    scan_rows,
    write_parts,
)
from nbaudio.tables.split_names import ordered_splits
from nbaudio.tables.tombstones import TOMBSTONES, is_withdrawn
from nbaudio.tables.workspace import Workspace

_CLIP = ("offset", "length", "num_samples", "sampling_rate", "audio_sha256")
_COLUMNS = ["shard", *_CLIP, "split", "duration_s"]
_KEYS = ("segment_id", "recording_id", "speaker_id")
_DECODED = pl.Schema({"row": pl.UInt32, "audio_sha256": pl.String})
_OTHER_BYTES = "its bytes are not those that were written"


@dataclass(frozen=True)
class _CheckedShard:
    """Problems of a shard, a hash of the samples of each clip as `_DECODED`, and its hours."""

    problems: list[str]
    samples: pl.DataFrame
    hours: float


@dataclass(frozen=True)
class _CheckedShards:
    """Problems of all shards, and how many clips were decoded.

    `samples` has a hash of the samples of each, as `_DECODED`, in buckets by row.
    """

    problems: list[str]
    num_decoded: int
    samples: Buckets


@interruptible
def verify(
    corpus: str | Path,
    *,
    jobs: int | None = None,
    engine: str | None = "loky",
    address: str | None = None,
    beam_options: str = "",
    workspace: str | Path | Workspace | None = None,
    show_progress: bool = True,
) -> Report:
    """Check a corpus from its bytes up.

    Shards and tables are checked by hash, and every clip by decoding it; then counts, hours, ids
    and splits. Temporary files are in the system's temporary folder, or in TMPDIR.

    Args:
        corpus: the folder, or its URL: then each shard is downloaded, checked and removed.
        jobs: number of parallel shards; None means one per core.
        engine: as for `materialize`, and `address` and `beam_options` too.
        address: of a cluster.
        beam_options: of Beam.
        workspace: where the report is kept beside those of the other steps.
        show_progress: show progress on standard error.

    Returns:
        What was checked; each problem names file and clip. Without problems the corpus is complete.

    Raises:
        InputError: there is no corpus.json, or no such workspace.
    """
    site = EngineLocation(engine, jobs, address, beam_options)
    report_workspace = None if workspace is None else Workspace.open(workspace)
    report = _report(folder_at(corpus), site, show=show_progress)
    if report_workspace is not None:
        report_workspace.save_report("verify", report.to_dict())
    return report


def _report(folder: Folder, site: EngineLocation, *, show: bool) -> Report:
    """Check a corpus; a damaged table proves nothing about shards, which are not checked then."""
    _check_finished(folder)
    damaged = Report("verify", {"corpus": str(folder), "whole": False})
    if missing := [f"{name}: missing" for name in TABLES if not folder.exists(name)]:
        return replace(damaged, problems=missing)
    corpus_info = read_corpus_info(folder)
    if wrong := _wrong_sizes(folder, corpus_info):
        return replace(damaged, problems=wrong)
    with ExitStack() as stack:
        tables = {name: stack.enter_context(folder.local(name)) for name in TABLES}
        if changed := _changed_tables(folder, corpus_info, tables):
            return replace(damaged, problems=[f"{name}: {_OTHER_BYTES}" for name in changed])
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="nbaudio-")))
        return _report_contents(folder, corpus_info, tables, scratch, site, show=show)


def _check_finished(folder: Folder) -> None:
    """Raise InputError if there is no corpus.json."""
    if folder.exists(CORPUS_JSON):
        return
    is_unfinished = folder.exists(IDENTITY)
    if is_unfinished:
        hint = "an unfinished run: call materialize again"
    else:
        hint = "not a corpus"
    raise InputError(f"{folder}: no {CORPUS_JSON} ({hint})")


def _wrong_sizes(folder: Folder, corpus_info: dict[str, Any]) -> list[str]:
    """Return the problems of tables of another size than was written, which need not be hashed."""
    sizes = corpus_info.get("table_bytes", {})
    problems = (_wrong_size(name, folder.size(name), sizes.get(name)) for name in TABLES)
    return [problem for problem in problems if problem]


def _changed_tables(
    folder: Folder, corpus_info: dict[str, Any], tables: dict[str, Path]
) -> list[str]:
    """Return the names of the tables whose bytes are not those that were written.

    Raise InputError if one cannot be read or lacks a column.
    """
    segments, rejected = (tables[name] for name in TABLES[:2])
    try:
        changed = [
            name
            for name, path in tables.items()
            if sha256_file(path) != corpus_info["tables"][name]
        ]
        if changed:
            return changed
        for path, columns in ((segments, [*_KEYS, *_COLUMNS]), (rejected, [*_KEYS, "reason"])):
            with reading_parquet(path):
                scan_rows(path).select(columns).collect_schema()
    except (KeyError, TypeError, OSError) as error:
        raise InputError(
            f"{folder}: the corpus cannot be read ({type(error).__name__}: {one_line(error)})"
        ) from error
    return []


def _report_contents(
    folder: Folder,
    corpus_info: dict[str, Any],
    tables: dict[str, Path],
    scratch: Path,
    site: EngineLocation,
    *,
    show: bool,
) -> Report:
    """Check numbers, files, clips and splits of a corpus whose tables are whole."""
    segments, rejected = (tables[name] for name in TABLES[:2])
    splits = amounts_by_split(segments)
    problems = _check_amounts(corpus_info, splits)
    problems += _check_rows(corpus_info, segments, rejected, scratch)
    files = _check_files(folder, corpus_info, segments)
    card = _card_state(folder, corpus_info)
    shards = _check_shards(
        folder, corpus_info, (segments, files.shard_rows), scratch, site, show=show
    )
    leaks, unproved = _check_splits(segments, corpus_info, shards.samples, scratch)
    problems += files.problems
    if card == "missing":
        problems.append(f"{CARD}: missing")
    problems += [*sorted(shards.problems), *unproved]
    facts = {
        "corpus": str(folder),
        "whole": not problems,
        "clips_decoded": shards.num_decoded,
        "hours": round(sum(amounts["hours"] for amounts in splits.values()), 6),
        "splits": {
            split: splits.get(split, NO_AMOUNTS)["segments"]
            for split in ordered_splits(corpus_info["splits"])
        },
        "kept_and_rejected": num_rows(segments) + num_rows(rejected),
        "shards": len(corpus_info["shards"]),
        "version": corpus_info.get("version", 1),
        "withdrawn": len(corpus_info.get("tombstones", [])),
        "data_card": card,
        "leakage": {fact_key(check): shared for check, shared in leaks.items()},
    }
    notes = _notes(card, files.not_verified)
    return Report(
        "verify", facts, notes, problems=first_lines(problems, "the files named", most=50)
    )


def _card_state(folder: Folder, corpus_info: dict[str, Any]) -> str:
    """Return whether the data card is ``missing``, ``as written`` or ``edited``."""
    if not folder.exists(CARD):
        return "missing"
    written = corpus_info.get("card", "")
    return "as written" if written and folder.holds(CARD, written) else "edited"


def _notes(card: str, not_verified: list[str]) -> list[str]:
    """Say what is not verified: an edited data card, and files that corpus.json does not list."""
    notes = []
    if card == "edited":
        notes.append(f"{CARD} is not the card that was written: what it says is not verified")
    if not_verified:
        few = ", ".join(first_lines(not_verified, "the folder", most=5))
        notes.append(f"not verified, as {CORPUS_JSON} does not list them: {few}")
    return notes


@dataclass(frozen=True)
class _CheckedFiles:
    """Where the clips of the shards are (`_shard_rows`), problems, and files that are not listed.

    Of the latter, `not_verified` are those without the name of a shard.
    """

    shard_rows: pl.DataFrame
    problems: list[str]
    not_verified: list[str]


def _check_files(folder: Folder, corpus_info: dict[str, Any], segments: Path) -> _CheckedFiles:
    """Compare the files of a corpus with corpus.json and segments.parquet.

    Raise InputError if a clip has a place that no corpus has.
    """
    shard_rows = _shard_rows(corpus_info, segments)
    unlisted = _unlisted_files(folder, corpus_info, segments)
    shards = [name for name in unlisted if SHARD_NAME.fullmatch(name)]
    problems = [
        *_check_shard_rows(shard_rows, num_rows(segments)),
        *(f"{name}: not listed in {CORPUS_JSON}" for name in shards),
        *_check_side_files(folder, corpus_info),
    ]
    return _CheckedFiles(shard_rows, problems, sorted(set(unlisted).difference(shards)))


def _shard_rows(corpus_info: dict[str, Any], segments: Path) -> pl.DataFrame:
    """Return where the clips of each shard of corpus.json are in segments.parquet.

    The columns are `name`, `listed` (how many clips corpus.json says), `clips`, `start` (its first
    row) and `stop` (one past its last row); without clips, all are 0.
    """
    row = pl.col("row").cast(pl.Int64)
    rows = (
        plan_of_corpus(segments)
        .group_by(name="shard")
        .agg(clips=pl.len().cast(pl.Int64), start=row.min(), stop=row.max() + 1)
        .collect(**STREAMED)
    )
    listed = pl.DataFrame(
        [(shard["name"], shard["segments"]) for shard in corpus_info["shards"]],
        schema={"name": pl.String, "listed": pl.Int64},
        orient="row",
    )
    return listed.join(rows, on="name", how="left", maintain_order="left").fill_null(0)


def _check_shard_rows(rows: pl.DataFrame, num_clips: int) -> list[str]:
    """Return where `_shard_rows` of a table of `num_clips` clips differ from corpus.json."""
    wrong = rows.filter(pl.col("clips") != pl.col("listed"))
    problems = [
        f"{name}: holds {clips} clips of segments.parquet; {CORPUS_JSON} says {listed}"
        for name, clips, listed in wrong.select("name", "clips", "listed").iter_rows()
    ]
    once = rows.unique("name")
    if len(once) < len(rows):
        problems.append(f"{CORPUS_JSON}: a shard is listed twice")
    if lost := num_clips - int(once["clips"].sum()):
        problems.append(
            f"segments.parquet: {lost:,} clips are in shards that {CORPUS_JSON} does not list"
        )
    return problems


def _unlisted_files(folder: Folder, corpus_info: dict[str, Any], segments: Path) -> list[str]:
    """Return the files of a corpus that neither corpus.json nor segments.parquet names, sorted.

    Raise InputError if a clip has a place that no corpus has.
    """
    named = {
        CORPUS_JSON,
        CARD,
        *corpus_info["tables"],
        *(shard["name"] for shard in corpus_info["shards"]),
    }
    unlisted = {
        name
        for name in folder.names()
        if name not in named and not name.startswith((".work/", ".gitattributes"))
    }
    for part in parquet_slices(segments, PLACES):
        check_locations(folder, part.to_arrow())
        unlisted.difference_update(part["shard"].unique())
    return sorted(unlisted)


def _check_side_files(folder: Folder, corpus_info: dict[str, Any]) -> list[str]:
    """Return the problems of listed files that are neither tables nor shards."""
    sizes = corpus_info.get("table_bytes", {})
    return [
        f"{name}: {_OTHER_BYTES}"
        for name, sha256 in corpus_info["tables"].items()
        if name not in TABLES and not folder.holds(name, sha256, sizes.get(name))
    ]


def _check_shards(
    folder: Folder,
    corpus_info: dict[str, Any],
    table: tuple[Path, pl.DataFrame],
    scratch: Path,
    site: EngineLocation,
    *,
    show: bool,
) -> _CheckedShards:
    """Decode every clip of a table, which has the rows of shards `_shard_rows`."""
    check = partial(_check_shard, folder, corpus_info["parameters"]["encoding"])
    path, rows = table
    problems = list[str]()
    num_decoded = 0
    decoded = PartWriter(scratch / "decoded", _DECODED)

    def tasks() -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
        for shard, (start, stop) in zip(
            corpus_info["shards"], rows.select("start", "stop").iter_rows(), strict=True
        ):
            clips = plan_of_corpus(path, _CLIP, rows=range(start, stop))
            in_shard = clips.filter(pl.col("shard") == shard["name"])
            yield shard, in_shard.select("pack", "segment_id", *_CLIP, "row").collect()

    hours = _hours_of(scan_rows(path))
    with (
        progress("verify", hours, AUDIO, show=show) as advance,
        worker_pool(site) as run_tasks,
    ):
        for checked in run_tasks(check, tasks()):
            problems += checked.problems
            decoded.add(checked.samples)
            num_decoded += len(checked.samples)
            advance(checked.hours)
    by_row = write_row_buckets(
        decoded.scan(), num_rows=num_rows(path), folder=scratch / "decoded-by-row"
    )
    return _CheckedShards(problems, num_decoded, by_row)


def _hours_of(clips: pl.LazyFrame) -> float:
    """Return the hours of audio that clips should have; 0 for those without a valid length."""
    hours = pl.col("num_samples") / pl.col("sampling_rate") / 3600
    total = clips.select(hours.filter(hours.is_finite()).sum()).collect().item()
    return float(total)


def _wrong_size(name: str, size: int, written_size: int | None) -> str | None:
    """Return the problem with a file of another size than was written, which need not be hashed."""
    if written_size in (None, size):
        return None
    return f"{name}: {size:,} bytes, not the {written_size:,} that were written"


def _check_amounts(corpus_info: dict[str, Any], splits: dict[str, dict[str, Any]]) -> list[str]:
    """Return where the amounts of splits, as `amounts_by_split`, differ from corpus.json."""
    problems = []
    for split in ordered_splits([*corpus_info["splits"], *splits]):
        counted = splits.get(split, NO_AMOUNTS)
        noted = corpus_info["splits"].get(split, NO_AMOUNTS)
        if (noted["segments"], noted["hours"]) != (counted["segments"], counted["hours"]):
            other = f"corpus.json says {noted['segments']}, {noted['hours']} h"
            problems.append(
                f"segments.parquet: {split} has {counted['segments']} clips, "
                f"{counted['hours']} h; {other}"
            )
        problems += [
            f"segments.parquet: {split} has {counted[name]} {name}; corpus.json says {noted[name]}"
            for name in ("speakers", "recordings")
            if noted[name] != counted[name]
        ]
    return problems


def _check_rows(
    corpus_info: dict[str, Any], segments: Path, rejected: Path, scratch: Path
) -> list[str]:
    """Return where reasons, ids and withdrawals of both tables differ from corpus.json or rules."""
    tombstones = pl.DataFrame(corpus_info.get("tombstones", []), schema=TOMBSTONES)
    reasons = Counter[str]()
    withdrawn = list[str]()
    unexplained = list[str]()
    problems = list[str]()
    for path in (segments, rejected):
        for part in parquet_slices(path, (*_KEYS, "reason")):
            withdrawn.extend(part["segment_id"].filter(is_withdrawn(part, tombstones)))
            if path == rejected:
                reasons.update(part["reason"].drop_nulls().to_list())
                unexplained.extend(part.filter(pl.col("reason").is_null())["segment_id"])
    if corpus_info["rejected"] != reasons:
        counts = (
            ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())) or "none"
        )
        problems.append(
            f"rejected.parquet: {num_rows(rejected)} rows ({counts}); corpus.json says otherwise"
        )
    problems += [
        f"segment {key}: occurs more than once" for key in _duplicates(segments, rejected, scratch)
    ]
    problems += [f"segment {key}: was withdrawn, but is still there" for key in withdrawn]
    return problems + [f"segment {key}: rejected without a reason" for key in unexplained]


def _duplicates(segments: Path, rejected: Path, scratch: Path) -> list[str]:
    """Return the ids that occur more than once in both tables, sorted."""
    ids = pl.concat([scan_file(path).select("segment_id") for path in (segments, rejected)])
    count = bucket_count(num_rows(segments) + num_rows(rejected))
    buckets = write_buckets(
        ids, hash_bucket("segment_id", count), count=count, folder=scratch / "ids"
    )
    repeated = [bucket.filter(bucket.is_duplicated()).unique() for bucket in buckets]
    return pl.concat(repeated)["segment_id"].sort().to_list()


def _with_samples(segments: Path, columns: list[str], samples: Buckets) -> Iterator[pl.DataFrame]:
    """Yield columns of the segments with the hashes of their decoded samples, in order."""
    for number, rows in enumerate(parquet_slices(segments, columns, rows=PART_ROWS)):
        yield (
            rows.with_row_index("row", offset=number * PART_ROWS)
            .join(samples.read(number), on="row", how="left", maintain_order="left")
            .drop("row")
        )


def _check_splits(
    segments: Path, corpus_info: dict[str, Any], samples: Buckets, scratch: Path
) -> tuple[dict[str, int], list[str]]:
    """Return what the splits share by transcripts and decoded samples, and the problems found.

    A problem is where corpus.json says otherwise.
    """
    columns = ["segment_id", "split", "text", *grouping_columns(corpus_info.get("selection", {}))]
    target = scratch / "table.parquet"
    write_parts(target, _with_samples(segments, list(dict.fromkeys(columns)), samples))
    selection = corpus_info.get("selection", {})
    leakage = leakage_record(scan_rows(target), keys=grouping_columns(selection))
    leaks = {check: counts["shared"] for check, counts in leakage.items()}
    grouped = selection.get("parameters", {}).get("group_by", [])
    fixed = Counter[str]()  # values that given splits share stay in them
    for row in selection.get("shared_by_fixed_splits", []):
        fixed[row["check"]] += row["shared"]
    problems = [
        f"segments.parquet: {leaks[key]} values of {key} are in two splits"
        for key in grouped
        if leaks[key] > fixed[key]
    ]
    for check, noted in corpus_info.get("leakage", {}).items():
        here = leakage.get(check, {})
        problems += [
            f"corpus.json: leakage: {check}: {what} is {noted.get(what)}, found {here.get(what)}"
            for what in ("shared", "segments")
            if noted.get(what) != here.get(what)
        ]
    return leaks, problems


def _check_shard(
    folder: Folder, encoding: str, task: tuple[dict[str, Any], pl.DataFrame]
) -> _CheckedShard:
    """Check a shard in a worker.

    The task is the shard's entry in corpus.json and its clips.
    """
    problems, samples = _decode_shard(folder, encoding, *task)
    return _CheckedShard(problems, samples, _hours_of(task[1].lazy()))


def _decode_shard(
    folder: Folder, encoding: str, shard: dict[str, Any], clips: pl.DataFrame
) -> tuple[list[str], pl.DataFrame]:
    """Return the problems of a shard and a hash of the samples of each clip, as `_DECODED`."""
    nothing = pl.DataFrame(schema=_DECODED)
    files = {str(key[0]): part for key, part in _by_file(clips).items()}
    wrong_size = _wrong_shard_size(folder, shard, list(files))
    if wrong_size and folder.place.local is None:
        return [f"{wrong_size}; its clips are not checked"], nothing
    decoded = {
        name: _decode_file(folder, name, part, encoding, hashed=not wrong_size)
        for name, part in files.items()
    }
    problems = [problem for file in decoded.values() for problem in file.problems]
    if wrong_size:
        problems.insert(0, wrong_size)
    elif _has_other_bytes(shard, {name: file.sha256 for name, file in decoded.items()}):
        problems.insert(0, f"{shard['name']}: {_OTHER_BYTES}")
    return problems, pl.concat([nothing, *(file.samples for file in decoded.values())])


def _by_file(clips: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return the clips of each file, without the column `pack`."""
    return clips.partition_by("pack", as_dict=True, include_key=False)


def _wrong_shard_size(folder: Folder, shard: dict[str, Any], files: list[str]) -> str | None:
    """Return the problem with the size of a shard's files; None where one cannot be read."""
    num_bytes = 0
    for name in files:
        try:
            num_bytes += folder.size(name)
        except (InputError, AudioError):  # reading the file then says what is wrong
            return None
    return _wrong_size(shard["name"], num_bytes, shard["bytes"])


def _has_other_bytes(shard: dict[str, Any], hashes: dict[str, str | None]) -> bool:
    """Return whether a shard, all of whose files could be read, has other bytes than written."""
    if None in hashes.values():
        return False
    name = shard["name"]
    inside = {file.removeprefix(f"{name}/"): sha256 or "" for file, sha256 in hashes.items()}
    return bool((hashes.get(name) or sha256_listed(inside)) != shard["sha256"])


@dataclass(frozen=True)
class _DecodedFile:
    """Problems of a file, hashes of the samples of its clips as `_DECODED`, and its own hash.

    The hash is None where the file cannot be read, and empty where it is not `hashed`.
    """

    problems: list[str]
    samples: pl.DataFrame
    sha256: str | None


def _decode_file(
    folder: Folder, name: str, clips: pl.DataFrame, encoding: str, *, hashed: bool
) -> _DecodedFile:
    """Decode the clips of a file of a shard."""
    sha256 = None
    samples = pl.DataFrame(schema=_DECODED)
    try:
        with folder.local(name) as path:
            sha256 = sha256_file(path) if hashed else ""
            bad, samples = _check_file(path, clips, encoding)
        problems = [f"{name}: clip {what}" for what in bad]
    except InputError as error:
        reason = str(error).rpartition(": ")[2]
        if isinstance(error.__cause__, FileNotFoundError | RemoteNotFoundError):
            reason = "missing"
        problems = [f"{name}: {reason}"]
    except AudioError as error:
        problems = [str(error)]
    return _DecodedFile(problems, samples, sha256)


def _check_file(path: Path, clips: pl.DataFrame, encoding: str) -> tuple[list[str], pl.DataFrame]:
    """Return the problems of the clips in a file, and a hash of the samples of the others."""
    problems = []
    decoded = []
    with path.open("rb") as file:
        for segment_id, offset, length, num_samples, rate, sha256, row in clips.iter_rows():
            file.seek(offset)
            content = verified_clip(file.read(length), sha256)
            if content is None:
                problems.append(f"{segment_id} is damaged")
                continue
            try:
                samples, coded_rate = decode_clip(content, encoding)
            except AudioError as error:
                problems.append(f"{segment_id}: {error}")
                continue
            decoded.append((row, hashlib.sha256(rate.to_bytes(4) + samples.tobytes()).hexdigest()))
            if coded_rate is None:  # an encoding that does not store it
                coded_rate = rate
            if (len(samples), coded_rate) != (num_samples, rate):
                problems.append(
                    f"{segment_id} has {len(samples)} samples at {coded_rate} Hz, "
                    f"not {num_samples} at {rate}"
                )
    return problems, pl.DataFrame(decoded, schema=_DECODED, orient="row")
