"""Read ParlaSpeech transcripts: JSON lines, one segment each, in two shapes that a file may mix."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from nbaudio.core.errors import InputError
from nbaudio.formats.jsonlines import FLOATS, NUMBER, TEXT, WORDS, Kind, read_blocks, struct_fields
from nbaudio.formats.source_files import Layout, SourceFiles
from nbaudio.formats.transcripts import PROBLEMS, TRANSCRIPTS, Transcripts
from nbaudio.tables.rows import Rows
from nbaudio.tables.schemas import WORD_TIMES

_WORD_TIMES = (
    "word_start_times",
    "word_end_times",
    "norm_words_start_times",
    "norm_words_end_times",
)
# One shape has ``file``, ``asr`` and ``speaker``; that of v1.0 ``path``, ``orig_file``,
# ``norm_words``, ``speaker_info``.
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("file", "orig_file", "path", "speaker", "split", "utterance_id_start", "utterance_id_end"),
        TEXT,
    ),
    **dict.fromkeys(("start", "end"), NUMBER),
    **dict.fromkeys(("words", "norm_words", "asr"), WORDS),
    **dict.fromkeys(_WORD_TIMES, FLOATS),
    "speaker_info": struct_fields("Speaker_name", "Speaker_gender", "Speaker_birth"),
}

_NAME_FIELDS = "file or orig_file"
_NEEDED = {
    _NAME_FIELDS: pl.coalesce("orig_file", "file"),
    **{name: pl.col(name) for name in ("start", "end", "words")},
}

_HOPELESS_LINES = 1000  # unreadable lines at the start after which reading ends


def detect(files: SourceFiles) -> list[Layout]:
    """Return the files of ParlaSpeech among files, with a ``wav.scp`` of the recordings."""
    lists = files.named("wav.scp")
    layouts = []
    for name in files.ending(".json", ".jsonl"):
        first = files.first_object(name)
        recording = first.get("orig_file") or first.get("file")
        if isinstance(recording, str) and {"start", "end", "words"} <= first.keys():
            wav_scp = lists[0] if len(lists) == 1 else None
            layouts.append(
                Layout(
                    "parlaspeech",
                    files.path(name),
                    f"{name} has the fields {_NAME_FIELDS}, start, end and words",
                    frozenset({name, *([wav_scp] if wav_scp else [])}),
                    recording=recording,
                    names=files.path(wav_scp) if wav_scp else None,
                )
            )
    return layouts


def read(source: Path, *, word_times: str = "yes") -> Transcripts:
    """Read ParlaSpeech JSON lines.

    Memory is bounded by the transcripts, not by the JSON around them.
    """
    problems: list[tuple[int, str]] = []

    def frames() -> Iterator[pl.DataFrame]:
        """Yield rows; stop where none of the first lines could be read."""
        is_hopeless = True
        for frame, unread in blocks(source, word_times=word_times):
            problems.extend(unread)
            if len(frame):
                is_hopeless = False
                yield frame
            elif is_hopeless and len(problems) > _HOPELESS_LINES:
                return

    rows = Rows.collect(frames())
    if not rows.parts:
        reason = f"line {problems[0][0]}: {problems[0][1]}" if problems else "it is empty"
        raise InputError(
            f"{source}: no ParlaSpeech transcripts (expected one JSON object per line); {reason}"
        )
    unread_lines = pl.DataFrame(
        [(source.name, *problem) for problem in problems], schema=PROBLEMS, orient="row"
    )
    return Transcripts(
        replace(rows, schema=pl.Schema({**TRANSCRIPTS, **rows.schema})), unread_lines
    )


def blocks(
    source: Path, *, word_times: str = "yes"
) -> Iterator[tuple[pl.DataFrame, list[tuple[int, str]]]]:
    """Iterate over blocks of some thousand transcripts, as `read` returns them.

    Each block comes with the number and the reason of each of its unreadable lines.
    """
    if not source.is_file():
        raise InputError(
            f"{source}: {'a folder' if source.is_dir() else 'there is no such file'}; "
            "expected a file of JSON lines"
        )
    if word_times not in ("yes", "no"):
        raise InputError(f"option word_times={word_times!r}: must be yes or no")
    kinds = {
        field: kind
        for field, kind in _KINDS.items()
        if word_times == "yes" or field not in _WORD_TIMES
    }
    for block in read_blocks(source, kinds):
        missing = (
            (name, block.values.filter(value.is_null())["line"]) for name, value in _NEEDED.items()
        )
        incomplete = [(line, f"{name} is missing") for name, lines in missing for line in lines]
        complete = block.values
        if incomplete:
            complete = complete.filter(value.is_not_null() for value in _NEEDED.values())
        yield (
            _transcripts(complete, composed=block.composed),
            sorted({*block.problems, *incomplete}),
        )


def _transcripts(values: pl.DataFrame, *, composed: bool) -> pl.DataFrame:
    """Convert one block's values to transcripts.

    `composed` says that all its text is in NFC already.
    """
    texts = values.select(text=pl.coalesce("norm_words", "words"), asr_text="asr")
    if not composed:
        texts = texts.select(pl.all().str.normalize("NFC"))
    frame = values.select(
        pl.coalesce("orig_file", "file").alias("name"),
        pl.col("start").alias("source_start"),
        pl.col("end").alias("source_end"),
        texts["text"],
        pl.when(pl.col("words") != texts["text"]).then("words").alias("text_raw"),
        texts["asr_text"],
        pl.coalesce("speaker", pl.col("speaker_info").struct.field("Speaker_name")).alias(
            "speaker_id"
        ),
        _word_times(values),
        pl.col("path").alias("source_path"),
        pl.when(pl.col("split") != "null").then("split").alias("source_split"),
        "utterance_id_start",
        "utterance_id_end",
        *(
            pl.col("speaker_info").struct.field(f"Speaker_{part}").alias(f"speaker_{part}")
            for part in ("gender", "birth")
        ),
    )
    return frame.select(column for column in frame if column.null_count() < len(frame))


def _word_times(values: pl.DataFrame) -> pl.Series:
    """Zip lists of starts and lists of ends.

    The result is null where there are no starts, or where the two differ in length.
    """
    if "word_start_times" not in values.columns:
        return pl.Series("word_times", [None] * len(values), dtype=WORD_TIMES)
    normal = pl.col("norm_words").is_not_null()
    start, end = (
        values.select(
            pl.when(normal).then(f"norm_words_{edge}_times").otherwise(f"word_{edge}_times")
        ).to_series()
        for edge in ("start", "end")
    )
    if (end.is_null() & start.is_not_null()).any():
        unknown = start.list.eval(pl.when(pl.element().is_null()).then(pl.element()))
        end = pl.select(pl.coalesce(end, unknown)).to_series()
    fits = (start.list.len() == end.list.len()).fill_null(value=False)
    flat = [column.filter(fits).explode(empty_as_null=False).to_arrow() for column in (start, end)]
    offsets = np.concatenate(
        ([0], np.cumsum(start.list.len().fill_null(0).to_numpy() * fits.to_numpy(), dtype=np.int64))
    )
    pairs = pa.StructArray.from_arrays(flat, names=["start", "end"])
    lists = pa.LargeListArray.from_arrays(offsets, pairs, mask=pa.array(~fits.to_numpy()))
    return pl.Series("word_times", lists, dtype=WORD_TIMES)
