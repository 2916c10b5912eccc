"""Verify a corpus from its bytes up: every file, every clip, every number, and that the splits share nothing."""

import hashlib
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import decode_clip
from nbaudio.core.atomic import sha256_file, sha256_listed
from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.core.progress import progress
from nbaudio.core.report import Report, fact_key, first_lines
from nbaudio.core.source_splits import ordered_splits
from nbaudio.core.tables import amounts, read_parquet
from nbaudio.core.tombstones import TOMBSTONES, is_withdrawn
from nbaudio.corpus.card import CARD
from nbaudio.corpus.containers.base import clips_in
from nbaudio.corpus.layout import CORPUS_JSON, IDENTITY, TABLES, read_corpus_info, shard_names
from nbaudio.corpus.locations import check_locations, verified_clip
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.selection.leakage import grouping_columns, leakage_record
from nbaudio.storage.folders import Folder, folder_at
from nbaudio.storage.network import RemoteNotFoundError
from nbaudio.storage.workspace import Workspace

_LOCATION = ["shard", "segment_id", "offset", "length", "num_samples", "sampling_rate", "audio_sha256"]
_COLUMNS = [*_LOCATION, "split", "duration_s", "speaker_id", "recording_id"]
_DECODED = pl.Schema({"segment_id": pl.String, "audio_sha256": pl.String})
_OTHER_BYTES = "its bytes are not those that were written"


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
    """Check a corpus from its bytes up: shards and tables by hash, every clip by decoding it, counts, hours, ids and splits.

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
    kept = None if workspace is None else Workspace.open(workspace)
    report = _report(folder_at(corpus), site, show=show_progress)
    if kept is not None:
        kept.save_report("verify", report.to_dict())
    return report


def _report(folder: Folder, site: EngineLocation, *, show: bool) -> Report:
    if not folder.exists(CORPUS_JSON):
        hint = "an unfinished run: call materialize again" if folder.exists(IDENTITY) else "not a corpus"
        raise InputError(f"{folder}: no {CORPUS_JSON} ({hint})")
    damaged = Report("verify", {"corpus": str(folder), "whole": False})
    if missing := [f"{name}: missing" for name in TABLES if not folder.exists(name)]:
        return replace(damaged, problems=missing)
    info = read_corpus_info(folder)
    sizes = info.get("table_bytes", {})
    if wrong := [line for name in TABLES if (line := _wrong_size(name, folder.size(name), sizes.get(name)))]:
        return replace(damaged, problems=wrong)
    with ExitStack() as stack:
        tables = {name: stack.enter_context(folder.local(name)) for name in TABLES}
        try:
            other = [name for name, path in tables.items() if sha256_file(path) != info["tables"][name]]
            if other:  # a damaged table proves nothing about the shards
                return replace(damaged, problems=[f"{name}: {_OTHER_BYTES}" for name in other])
            segments = read_parquet(tables["segments.parquet"], _COLUMNS)
            rejected = read_parquet(tables["rejected.parquet"], ["segment_id", "recording_id", "speaker_id", "reason"])
        except (KeyError, TypeError, OSError) as error:
            raise InputError(f"{folder}: the corpus cannot be read ({type(error).__name__}: {one_line(error)})") from error
        problems = _check_numbers(info, segments, rejected)
        check_locations(folder, segments.to_arrow())
        problems += _check_lists(folder, info, segments)
        notes, card = [], "missing"
        if not folder.exists(CARD):
            problems.append(f"{CARD}: missing")
        elif (written := info.get("card", "")) and folder.holds(CARD, written):
            card = "as written"
        else:
            card = "edited"
            notes.append(f"{CARD} is not the card that was written: what it says is not verified")
        known = {CORPUS_JSON, CARD, *info["tables"], *segments["shard"], *(shard["name"] for shard in info["shards"])}
        others = {name for name in folder.names() if name not in known and not name.startswith((".work/", ".gitattributes"))}
        if others and (others := others - shard_names(folder)):
            few = ", ".join(first_lines(sorted(others), "the folder", most=5))
            notes.append(f"not verified, as {CORPUS_JSON} does not list them: {few}")
        found, decoded = _check_shards(folder, info, segments, site, show=show)
        problems += sorted(found)
        leaks, unproved = _check_splits(tables["segments.parquet"], info, decoded)
    problems += unproved
    splits = {split: int((segments["split"] == split).sum()) for split in ordered_splits(info["splits"])}
    facts = {"corpus": str(folder), "whole": not problems, "clips_decoded": len(decoded), "hours": amounts(segments)["hours"]}
    facts |= {"splits": splits, "kept_and_rejected": segments.height + rejected.height, "shards": len(info["shards"])}
    facts |= {"version": info.get("version", 1), "withdrawn": len(info.get("tombstones", [])), "data_card": card}
    facts["leakage"] = {fact_key(check): shared for check, shared in leaks.items()}
    return Report("verify", facts, notes, problems=first_lines(problems, "the files named", most=50))


def _check_lists(folder: Folder, info: dict[str, Any], segments: pl.DataFrame) -> list[str]:
    """Compare shards and side files with what corpus.json and segments.parquet list."""
    shards = info["shards"]
    held = {shard["name"]: segments.filter(clips_in(shard["name"])).height for shard in shards}
    problems = [
        f"{shard['name']}: holds {held[shard['name']]} clips of segments.parquet; {CORPUS_JSON} says {shard['segments']}"
        for shard in shards
        if held[shard["name"]] != shard["segments"]
    ]
    if len(held) < len(shards):
        problems.append(f"{CORPUS_JSON}: a shard is listed twice")
    if lost := max(segments.height - sum(held.values()), 0):
        problems.append(f"segments.parquet: {lost:,} clips are in shards that {CORPUS_JSON} does not list")
    unlisted = shard_names(folder).difference(held, segments["shard"])
    problems += [f"{name}: not listed in {CORPUS_JSON}" for name in sorted(unlisted)]
    sizes = info.get("table_bytes", {})
    side_files = {name: sha256 for name, sha256 in info["tables"].items() if name not in TABLES}
    other = (name for name, sha256 in side_files.items() if not folder.holds(name, sha256, sizes.get(name)))
    return problems + [f"{name}: {_OTHER_BYTES}" for name in other]


def _check_shards(
    folder: Folder, info: dict[str, Any], segments: pl.DataFrame, site: EngineLocation, *, show: bool
) -> tuple[list[str], pl.DataFrame]:
    """Decode every clip; return problems, and a hash of the samples of each clip as `_DECODED`."""
    check = partial(_check_shard, folder, info["parameters"]["encoding"])
    problems: list[str] = []
    decoded = [pl.DataFrame(schema=_DECODED)]

    tasks = ((shard, segments.filter(clips_in(shard["name"])).select(_LOCATION)) for shard in info["shards"])
    with progress("verify", len(info["shards"]), "shards", show=show) as advance, worker_pool(site) as run_tasks:
        for bad, samples in run_tasks(check, tasks):
            problems += bad
            decoded.append(samples)
            advance(1)
    return problems, pl.concat(decoded)


def _wrong_size(name: str, found: int, wanted: int | None) -> str | None:
    """Return the problem with a file of another size than was written, which need not be hashed."""
    return None if wanted in (None, found) else f"{name}: {found:,} bytes, not the {wanted:,} that were written"


def _check_numbers(info: dict[str, Any], segments: pl.DataFrame, rejected: pl.DataFrame) -> list[str]:
    problems = []
    none = amounts(segments.clear())
    for split in ordered_splits([*info["splits"], *segments["split"].unique()]):
        found, noted = amounts(segments.filter(pl.col("split") == split)), info["splits"].get(split, none)
        if (noted["segments"], noted["hours"]) != (found["segments"], found["hours"]):
            other = f"corpus.json says {noted['segments']}, {noted['hours']} h"
            problems.append(f"segments.parquet: {split} has {found['segments']} clips, {found['hours']} h; {other}")
        problems += [
            f"segments.parquet: {split} has {found[name]} {name}; corpus.json says {noted[name]}"
            for name in ("speakers", "recordings")
            if noted[name] != found[name]
        ]
    reasons = dict(rejected["reason"].drop_nulls().value_counts().iter_rows())
    if info["rejected"] != reasons:
        counts = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())) or "none"
        problems.append(f"rejected.parquet: {rejected.height} rows ({counts}); corpus.json says otherwise")
    keys = ("segment_id", "recording_id", "speaker_id")
    everything = pl.concat([segments.select(keys), rejected.select(keys)])
    ids = everything["segment_id"]
    problems += [f"segment {key}: occurs more than once" for key in ids.filter(ids.is_duplicated()).unique().sort()]
    withdrawn = everything.filter(is_withdrawn(everything, pl.DataFrame(info.get("tombstones", []), schema=TOMBSTONES)))
    problems += [f"segment {key}: was withdrawn, but is still there" for key in withdrawn["segment_id"]]
    unexplained = rejected.filter(pl.col("reason").is_null())["segment_id"]
    return problems + [f"segment {key}: rejected without a reason" for key in unexplained]


def _check_splits(segments: Path, info: dict[str, Any], decoded: pl.DataFrame) -> tuple[dict[str, int], list[str]]:
    """Return what the splits share by transcripts and decoded samples, and where corpus.json says otherwise."""
    selection = info.get("selection", {})
    table = pl.scan_parquet(segments, glob=False).drop("audio_sha256")
    joined = table.join(decoded.lazy(), on="segment_id", how="left", maintain_order="left")
    found = leakage_record(joined, keys=grouping_columns(selection))
    leaks = {check: counts["shared"] for check, counts in found.items()}
    grouped = selection.get("parameters", {}).get("group_by", [])
    fixed = Counter[str]()  # what given splits share stays in them
    for row in selection.get("shared_by_fixed_splits", []):
        fixed[row["check"]] += row["shared"]
    problems = [f"segments.parquet: {leaks[key]} values of {key} are in two splits" for key in grouped if leaks[key] > fixed[key]]
    for check, noted in info.get("leakage", {}).items():
        here = found.get(check, {})
        problems += [
            f"corpus.json: leakage: {check}: {what} is {noted.get(what)}, found {here.get(what)}"
            for what in ("shared", "segments")
            if noted.get(what) != here.get(what)
        ]
    return leaks, problems


def _check_shard(folder: Folder, encoding: str, task: tuple[dict[str, Any], pl.DataFrame]) -> tuple[list[str], pl.DataFrame]:
    """Return the problems of a shard (its entry in corpus.json and its clips), and a hash of each clip's samples; in a worker."""
    shard, own = task
    problems: list[str] = []
    decoded = [pl.DataFrame(schema=_DECODED)]
    hashes: dict[str, str] = {}
    sizes: dict[str, int] = {}
    files = own.partition_by("shard", as_dict=True, include_key=False)
    for (name,) in files:
        with suppress(InputError, AudioError):  # reading it says what is wrong
            sizes[name] = folder.size(name)
    wrong = _wrong_size(shard["name"], sum(sizes.values()), shard["bytes"]) if len(sizes) == len(files) else None
    if wrong and folder.place.local is None:
        return [f"{wrong}; its clips are not checked"], decoded[0]
    for (name,), clips in files.items():
        try:
            with folder.local(name) as path:
                hashes[name] = "" if wrong else sha256_file(path)
                bad, samples = _check_file(path, clips, encoding)
        except InputError as error:
            absent = isinstance(error.__cause__, FileNotFoundError | RemoteNotFoundError)
            problems.append(f"{name}: {'missing' if absent else str(error).rpartition(': ')[2]}")
        except AudioError as error:
            problems.append(str(error))
        else:
            problems += [f"{name}: clip {what}" for what in bad]
            decoded.append(samples)
    if wrong:
        problems.insert(0, wrong)
    elif len(hashes) == len(files):
        inside = {name.removeprefix(f"{shard['name']}/"): sha256 for name, sha256 in hashes.items()}
        if (hashes.get(shard["name"]) or sha256_listed(inside)) != shard["sha256"]:
            problems.insert(0, f"{shard['name']}: {_OTHER_BYTES}")
    return problems, pl.concat(decoded)


def _check_file(path: Path, clips: pl.DataFrame, encoding: str) -> tuple[list[str], pl.DataFrame]:
    """Return the problems of the clips in a file, and a hash of the samples of each of the others."""
    problems = []
    decoded = []
    with path.open("rb") as file:
        for segment_id, offset, length, num_samples, rate, sha256 in clips.iter_rows():
            file.seek(offset)
            data = verified_clip(file.read(length), sha256)
            if data is None:
                problems.append(f"{segment_id} is damaged")
                continue
            try:
                samples, own_rate = decode_clip(data, encoding)
            except AudioError as error:
                problems.append(f"{segment_id}: {error}")
                continue
            decoded.append((segment_id, hashlib.sha256(rate.to_bytes(4) + samples.tobytes()).hexdigest()))
            found_rate = rate if own_rate is None else own_rate
            if (len(samples), found_rate) != (num_samples, rate):
                problems.append(f"{segment_id} has {len(samples)} samples at {found_rate} Hz, not {num_samples} at {rate}")
    return problems, pl.DataFrame(decoded, schema=_DECODED, orient="row")
