"""Read ParlaSpeech transcripts: JSON lines, one segment each.

Version 1.0 has other fields than later versions. A file may have lines of both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
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

_WORD_TIME_FIELDS = (
    "word_start_times",
    "word_end_times",
    "norm_words_start_times",
    "norm_words_end_times",
)
# Only version 1.0 has `orig_file`, `path`, `norm_words` and `speaker_info`; later versions have
# `file`, `asr` and `speaker` instead.
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("file", "orig_file", "path", "speaker", "split", "utterance_id_start", "utterance_id_end"),
        TEXT,
    ),
    **dict.fromkeys(("start", "end"), NUMBER),
    **dict.fromkeys(("words", "norm_words", "asr"), WORDS),
    **dict.fromkeys(_WORD_TIME_FIELDS, FLOATS),
    "speaker_info": struct_fields("Speaker_name", "Speaker_gender", "Speaker_birth"),
}

_NAME_FIELDS = "file or orig_file"
# What a line must have: the name of the field in messages, and its value.
_REQUIRED = {
    _NAME_FIELDS: pl.coalesce("orig_file", "file"),
    "start": pl.col("start"),
    "end": pl.col("end"),
    "words": pl.col("words"),
}

# Reading stops when the first lines of a file, more than these, are all unreadable: it is no file
# of ParlaSpeech.
_MAX_UNREADABLE_LINES = 1000


@dataclass(frozen=True)
class TranscriptBlock:
    """Transcripts of consecutive lines, and the unreadable ones among them.

    `problems` has the number of each unreadable line, and why it cannot be read.
    """

    transcripts: pl.DataFrame
    problems: list[tuple[int, str]]


def detect(files: SourceFiles) -> list[Layout]:
    """Return the files of ParlaSpeech among files, with a ``wav.scp`` of the recordings."""
    wav_scp = files.named("wav.scp")
    if len(wav_scp) > 1:
        wav_scp = []  # it is unknown which one belongs to the transcripts
    layouts = []
    for name in files.ending(".json", ".jsonl"):
        first = files.first_object(name)
        recording = first.get("orig_file") or first.get("file")
        if isinstance(recording, str) and {"start", "end", "words"} <= first.keys():
            layouts.append(
                Layout(
                    "parlaspeech",
                    files.path(name),
                    f"{name} has the fields {_NAME_FIELDS}, start, end and words",
                    frozenset({name, *wav_scp}),
                    recording=recording,
                    names=files.path(wav_scp[0]) if wav_scp else None,
                )
            )
    return layouts


def read(source: Path, *, word_times: str = "yes") -> Transcripts:
    """Read a file of ParlaSpeech.

    Memory grows with the transcripts, not with the size of the file.

    Args:
        source: the file.
        word_times: ``yes`` or ``no``: whether the times of words are read.

    Raises:
        InputError: there is no such file, it has no readable line, or `word_times` is invalid.
    """
    problems: list[tuple[int, str]] = []

    def frames() -> Iterator[pl.DataFrame]:
        """Yield transcripts and collect problems; stop if the first lines are all unreadable."""
        has_transcripts = False
        for block in transcript_blocks(source, word_times=word_times):
            problems.extend(block.problems)
            if len(block.transcripts):
                has_transcripts = True
                yield block.transcripts
            elif not has_transcripts and len(problems) > _MAX_UNREADABLE_LINES:
                return

    rows = Rows.collect(frames())
    if not rows.parts:
        reason = f"line {problems[0][0]}: {problems[0][1]}" if problems else "it is empty"
        raise InputError(
            f"{source}: no ParlaSpeech transcripts (expected one JSON object per line); {reason}"
        )
    unread_lines = pl.DataFrame(
        [(source.name, line, reason) for line, reason in problems], schema=PROBLEMS, orient="row"
    )
    # Every reader returns the columns `TRANSCRIPTS` first; those that no block has are null.
    schema = pl.Schema({**TRANSCRIPTS, **rows.schema})
    return Transcripts(replace(rows, schema=schema), unread_lines)


def transcript_blocks(source: Path, *, word_times: str = "yes") -> Iterator[TranscriptBlock]:
    """Read a file of ParlaSpeech in blocks of some thousand lines; see `read`.

    Columns that are null in the whole block are left out.
    """
    if not source.is_file():
        fault = "a folder" if source.is_dir() else "there is no such file"
        raise InputError(f"{source}: {fault}; expected a file of JSON lines")
    if word_times not in ("yes", "no"):
        raise InputError(f"option word_times={word_times!r}: must be yes or no")
    left_out = _WORD_TIME_FIELDS if word_times == "no" else ()
    kinds = {field: kind for field, kind in _KINDS.items() if field not in left_out}
    for block in read_blocks(source, kinds):
        incomplete = [
            (line, f"{name} is missing")
            for name, value in _REQUIRED.items()
            for line in block.values.filter(value.is_null())["line"]
        ]
        complete = block.values
        if incomplete:
            complete = complete.filter(value.is_not_null() for value in _REQUIRED.values())
        yield TranscriptBlock(
            _transcripts(complete, composed=block.composed),
            sorted({*block.problems, *incomplete}),
        )


def _transcripts(values: pl.DataFrame, *, composed: bool) -> pl.DataFrame:
    """Return the transcripts of complete lines.

    Texts become NFC, unless they are `composed`: in NFC already.
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
    """Return start and end, in seconds, of each word of the text, as a list for each line.

    It is null where there are no starts, or another number of ends. Version 1.0 has no ends: then
    they are null.
    """
    if "word_start_times" not in values.columns:  # the option word_times is no
        return pl.Series("word_times", [None] * len(values), dtype=WORD_TIMES)
    starts = _times_of_words(values, "start")
    ends = _times_of_words(values, "end")
    num_words = starts.list.len()
    if (ends.is_null() & starts.is_not_null()).any():
        no_ends = pl.lit(None, pl.Float32).repeat_by(num_words)
        ends = pl.select(pl.coalesce(ends, no_ends)).to_series()
    is_paired = (num_words == ends.list.len()).fill_null(value=False)
    return _paired_lists(starts, ends, is_paired)


def _times_of_words(values: pl.DataFrame, boundary: str) -> pl.Series:
    """Return the times of the words in the text: `norm_words` where there are any, else `words`.

    `boundary` is ``start`` or ``end``.
    """
    times = (
        pl.when(pl.col("norm_words").is_not_null())
        .then(f"norm_words_{boundary}_times")
        .otherwise(f"word_{boundary}_times")
    )
    return values.select(times).to_series()


def _paired_lists(starts: pl.Series, ends: pl.Series, is_paired: pl.Series) -> pl.Series:
    """Join lists of starts and ends to lists of both; null where not `is_paired`.

    Polars has no such operation. In Arrow, a column of lists is the values of all lists one after
    another, and the offsets at which the lists begin.
    """
    all_starts, all_ends = (
        times.filter(is_paired).explode(empty_as_null=False).to_arrow() for times in (starts, ends)
    )
    pairs = pa.StructArray.from_arrays([all_starts, all_ends], names=["start", "end"])
    lengths = starts.list.len().fill_null(0).to_numpy() * is_paired.to_numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    is_null = pa.array(~is_paired.to_numpy())
    lists = pa.LargeListArray.from_arrays(offsets, pairs, mask=is_null)
    return pl.Series("word_times", lists, dtype=WORD_TIMES)
