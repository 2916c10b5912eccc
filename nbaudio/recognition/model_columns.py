"""Measure segments with a model, and store its values as columns.

Values are kept in ``W/measured/NAME.jsonl`` as they come, by key and version of the model. After
the run they are joined to the segments bucket by bucket, so that they need not fit into memory.
"""

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.core.report import Report, first_lines
from nbaudio.corpus.model_inputs import MEASURED_FOLDER, ModelInputs, keyed_segments
from nbaudio.recognition.facts import program_name
from nbaudio.recognition.model_arguments import (
    VALUES,
    ModelArguments,
    call_by_name,
    command_arguments,
    function_arguments,
    write_items,
)
from nbaudio.recognition.model_ledger import LINES, Ledger
from nbaudio.recognition.model_tasks import ModelCall, Site, call_model
from nbaudio.recognition.model_values import ColumnTypes
from nbaudio.recognition.recognizers import Function, Recognizer
from nbaudio.sources.audio_folder import required_audio
from nbaudio.sources.joined_columns import check_name
from nbaudio.tables import parquet_files, workspace_tables
from nbaudio.tables.buckets import (
    PART_ROWS,
    Buckets,
    PartWriter,
    bucket_count,
    hex_bucket,
    store,
    write_buckets,
    write_row_buckets,
)
from nbaudio.tables.workspace import Workspace, locks_workspace

_BATCH = 16  # most clips in one call
_ROWS_BATCH = 1024  # the same of a function that gets no samples
_BY_ROW = pl.Schema({"row": pl.UInt32, "measured_id": pl.String, "fields": pl.String})
_FAILED = pl.Schema({"row": pl.UInt32, "segment_id": pl.String, "reason": pl.String})


@dataclass(frozen=True)
class SampleOptions:
    """How a model gets samples.

    Attributes:
        rate: in Hz; None is that of the function, or 16 kHz; 0 is the rate of each recording.
        channel: as in `materialize`.
        batch: most clips in one call of a function; None is the default.
    """

    rate: int | None
    channel: str
    batch: int | None


@dataclass(frozen=True)
class _Model:
    """A model under the name of its columns.

    Attributes:
        name: of the column, or what the columns of a record begin with.
        program: the name of the model without arguments, which may hold secrets.
        call: the function or command, and what it gets.
        ledger: its values in the workspace, by key.
        units: by field.
    """

    name: str
    program: str
    call: ModelCall
    ledger: Ledger
    units: Mapping[str, str]


@dataclass(frozen=True)
class _Missing:
    """The clips without values, each key once, and the number of their segments."""

    clips: pl.LazyFrame
    num_segments: int


@dataclass(frozen=True)
class _Measured:
    """The values of all segments after a run.

    Attributes:
        by_row: as `_BY_ROW`, in buckets by row; `fields` is a JSON object of values.
        lines: the same values as `LINES`, each key once, in order.
        types: of the columns.
        num_segments: how many segments have an answer of the model.
        not_finite: how many values were NaN or infinite.
        failed: the segments that failed, with `segment_id` and `reason`.
    """

    by_row: Buckets
    lines: pl.LazyFrame
    types: ColumnTypes
    num_segments: int
    not_finite: int
    failed: pl.DataFrame


@dataclass(frozen=True)
class _Run:
    """Why clips have no values, by key, and the seconds of audio that were read."""

    failures: dict[str, str]
    seconds: float


@locks_workspace("measure", "measured")
def measure_columns(
    workspace: Workspace,
    with_: str | Function,
    as_: str | None,
    options: SampleOptions,
    site: Site,
) -> Report:
    """Call a model on all segments, and write its values as columns; see `measure`."""
    began = time.monotonic()
    model = _model(workspace, with_, as_, options)
    with scratch_folder(workspace.path) as folder:
        segments = _keyed_buckets(workspace, model.call.inputs, folder / "segments")
        missing = _missing(model.ledger, segments, folder / "before")
        run = _run(workspace, model, missing.clips, site, folder)
        measured = _collect(workspace, model, segments, run.failures, folder / "now")
        num_segments = sum(len(bucket) for bucket in segments)
        if not measured.num_segments:
            reason = next(iter(run.failures.values()), "no segment has audio; ingest with --audio")
            raise InputError(
                f"{workspace.path}: none of {num_segments:,} segments can be measured; {reason}"
            )
        model.ledger.replace(measured.lines)
        columns = _write_columns(workspace, model, measured)
    problems = _save_failures(workspace, model.name, measured.failed)
    facts = {
        "columns": columns,
        **_counts(workspace, measured, missing, num_segments),
        **_speed(run.seconds, time.monotonic() - began),
        "next": f"nbaudio stats {shlex.quote(str(workspace.path))} --out report.html",
    }
    report = Report("measure", facts, problems=problems)
    workspace.save_report(f"measure_{model.name}", report.to_dict())
    return report


def _model(
    workspace: Workspace, with_: str | Function, as_: str | None, options: SampleOptions
) -> _Model:
    """Parse a model; raise InputError if it cannot be called, or has no usable name."""
    recognizer = Recognizer.of(with_)
    name = as_ or recognizer.name
    if not name:
        raise InputError("this model has no name: give one with --as NAME, for its columns")
    _check_column(workspace, name, name)
    arguments = _arguments(workspace, recognizer, options)
    if arguments.inputs.clip_format is not None:
        required_audio(workspace)
    default_batch = _ROWS_BATCH if arguments.inputs.clip_format is None else _BATCH
    batch = None if recognizer.is_command else options.batch or default_batch
    by_name = partial(call_by_name, parameters=arguments.parameters)
    called = replace(recognizer, form=VALUES, call=by_name, write=write_items)
    call = ModelCall(called, arguments.inputs, batch)
    units = getattr(recognizer.function, "units", {})
    ledger = Ledger(workspace.path / MEASURED_FOLDER / f"{name}.jsonl", recognizer.version)
    units_by_field = {"": units} if isinstance(units, str) else dict(units)
    return _Model(name, program_name(with_), call, ledger, units_by_field)


def _arguments(
    workspace: Workspace, recognizer: Recognizer, options: SampleOptions
) -> ModelArguments:
    """Return what a model gets."""
    function = recognizer.function
    if function is None:
        has_audio = workspace.audio is not None
        return command_arguments(has_audio=has_audio, rate=options.rate, channel=options.channel)
    columns = workspace_tables.table_schema(workspace)
    return function_arguments(function, columns, rate=options.rate, channel=options.channel)


def _check_column(workspace: Workspace, name: str, column: str) -> None:
    """Raise InputError if a model of some `name` cannot write a column."""
    check_name(workspace, "column", column)
    record = workspace.settings.get("joined", {}).get(column, {})
    if record and (record.get("step"), record.get("name")) != ("measure", name):
        raise InputError(
            f"{workspace.path}: {record.get('step', 'join')} wrote the column {column}, which "
            "stays; choose another name with --as"
        )


def _keyed_buckets(workspace: Workspace, inputs: ModelInputs, folder: Path) -> Buckets:
    """Return the segments for which a model can be called, in buckets by key."""
    count = bucket_count(parquet_files.num_rows(workspace_tables.table_path(workspace)))
    rows = keyed_segments(workspace, inputs)
    return write_buckets(rows, hex_bucket("clip_key", count), count=count, folder=folder)


def _pairs(
    ledger: Ledger, segments: Buckets, folder: Path
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield bucket by bucket the segments, and the lines of the ledger with keys of the bucket."""
    count = segments.count
    lines = store(ledger.read(), folder / "lines", LINES).with_row_index("order")
    by_key = write_buckets(
        lines, hex_bucket("clip_key", count), count=count, folder=folder / "by-key"
    )
    for rows, bucket in zip(segments, by_key, strict=True):
        once = bucket.sort("order").unique("clip_key", keep="first", maintain_order=True)
        yield rows.sort("row"), once.drop("order")


def _missing(ledger: Ledger, segments: Buckets, folder: Path) -> _Missing:
    """Return the clips that have no values in the ledger."""
    writer = PartWriter(folder / "missing", segments.schema)
    num_segments = 0
    for rows, lines in _pairs(ledger, segments, folder):
        missing = rows.join(lines, on="clip_key", how="anti", maintain_order="left")
        num_segments += len(missing)
        writer.add(missing.unique("clip_key", keep="first", maintain_order=True))
    return _Missing(writer.scan(), num_segments)


def _run(
    workspace: Workspace, model: _Model, clips: pl.LazyFrame, site: Site, folder: Path
) -> _Run:
    """Call a model on clips; append its values to the ledger as they come.

    Raise InputError at once if a column cannot be written.
    """
    types = ColumnTypes(model.name)
    failures: dict[str, str] = {}
    seconds = 0.0
    for done in call_model(workspace, model.call, clips, site=site, folder=folder):
        model.ledger.append(done.values)
        failures |= done.failures
        seconds += done.seconds
        for clip in done.values.values():
            for column in types.add(clip.fields):
                _check_column(workspace, model.name, column)
    return _Run(failures, seconds)


def _collect(
    workspace: Workspace,
    model: _Model,
    segments: Buckets,
    failures: Mapping[str, str],
    folder: Path,
) -> _Measured:
    """Return the values of all segments, and why others have none."""
    reasons = pl.DataFrame(
        list(failures.items()), schema={"clip_key": pl.String, "reason": pl.String}, orient="row"
    )
    types = ColumnTypes(model.name)
    by_row = PartWriter(folder / "rows", _BY_ROW)
    used_lines = PartWriter(folder / "used", LINES)
    failed = [pl.DataFrame(schema=_FAILED)]
    num_segments = 0
    not_finite = 0
    for rows, lines in _pairs(model.ledger, segments, folder):
        ids = rows.select("row", "clip_key", measured_id="segment_id")
        of_rows = ids.join(lines, on="clip_key")
        for fields in of_rows["fields"]:
            types.add(msgspec.json.decode(fields))
        num_segments += len(of_rows)
        not_finite += int(of_rows["not_finite"].sum())
        by_row.add(of_rows)
        used_lines.add(lines.join(rows, on="clip_key", how="semi").sort("clip_key"))
        failed.append(rows.join(reasons, on="clip_key").select(_FAILED.names()))
    total = parquet_files.num_rows(workspace_tables.table_path(workspace))
    return _Measured(
        write_row_buckets(by_row.scan(), num_rows=total, folder=folder / "by-row"),
        used_lines.scan(),
        types,
        num_segments,
        not_finite,
        pl.concat(failed).sort("row").drop("row"),
    )


@locks_workspace("measure")
def _write_columns(
    workspace: Workspace, model: _Model, measured: _Measured
) -> list[dict[str, Any]]:
    """Write the columns to the segments table; return the type, unit and number of values of each.

    Columns that the model wrote before, and does not write any more, are dropped.
    """
    schema = measured.types.schema()
    columns = {measured.types.column(field): dtype for field, dtype in schema.items()}
    for column in columns:
        _check_column(workspace, model.name, column)
    settings = workspace.settings
    joined = settings.get("joined", {})
    stale = [
        column
        for column, record in joined.items()
        if (record.get("step"), record.get("name")) == ("measure", model.name)
        and column not in columns
    ]
    records = {
        measured.types.column(field): _record(model, field, schema[field]) for field in schema
    }
    remaining = {column: record for column, record in joined.items() if column not in stale}
    settings["joined"] = remaining | records
    parts = _with_columns(workspace, measured, stale)
    workspace.save_together(settings=settings, segments=parts)
    return [
        {
            "column": measured.types.column(field),
            "type": str(dtype),
            "unit": model.units.get(field, ""),
            "values": measured.types.counts[field],
        }
        for field, dtype in schema.items()
    ]


def _record(model: _Model, field: str, dtype: pl.DataType) -> dict[str, Any]:
    """Return what the settings store of a column."""
    unit = model.units.get(field)
    return {
        "step": "measure",
        "name": model.name,
        "with": model.program,
        "version": model.call.recognizer.version,
        "inputs": model.call.inputs.record(),
        "type": str(dtype),
        **({"unit": unit} if unit else {}),
    }


def _with_columns(
    workspace: Workspace, measured: _Measured, stale: Sequence[str]
) -> Iterator[pl.DataFrame]:
    """Yield the segments with the columns of a model, and without `stale` ones."""
    schema = measured.types.schema()
    for number, part in enumerate(workspace_tables.read_batches(workspace, rows=PART_ROWS)):
        rows = pl.int_range(len(part), dtype=pl.UInt32, eager=True) + number * PART_ROWS
        values = pl.DataFrame({"row": rows}).join(
            measured.by_row.read(number), on="row", how="left", maintain_order="left"
        )
        if (values["measured_id"] != part["segment_id"]).any():
            raise InputError(
                f"{workspace.path}: its segments changed while they were measured; "
                "measure again, what is done is kept"
            )
        fields = [{} if text is None else msgspec.json.decode(text) for text in values["fields"]]
        yield part.drop(stale, strict=False).with_columns(
            pl.Series(
                measured.types.column(field),
                [clip.get(field) for clip in fields],
                dtype=dtype,
                strict=False,
            )
            for field, dtype in schema.items()
        )


def _save_failures(workspace: Workspace, name: str, failed: pl.DataFrame) -> list[str]:
    """Write the table of the segments that failed; return a line for each of the first ones."""
    table = f"{MEASURED_FOLDER}/{name}.problems"
    workspace_tables.write(workspace, failed, table=table)
    problems = [f"{segment_id}: {reason}" for segment_id, reason in failed.iter_rows()]
    return first_lines(problems, str(workspace_tables.table_path(workspace, table)))


def _counts(
    workspace: Workspace, measured: _Measured, missing: _Missing, num_segments: int
) -> dict[str, int]:
    """Count the segments of the workspace by what became of them."""
    total = parquet_files.num_rows(workspace_tables.table_path(workspace))
    num_failed = len(measured.failed)
    return {
        "segments": total,
        "measured_now": missing.num_segments - num_failed,
        "already_measured": num_segments - missing.num_segments,
        "failed": num_failed,
        "skipped": total - num_segments,
        "not_finite": measured.not_finite,
    }


def _speed(audio_seconds: float, seconds: float) -> dict[str, float]:
    """Return how much audio was read, if any, and in how long."""
    if not audio_seconds:
        return {"seconds": round(seconds, 1)}
    return {
        "hours": round(audio_seconds / 3600, 6),
        "seconds": round(seconds, 1),
        "times_real_time": round(audio_seconds / seconds, 1),
    }
