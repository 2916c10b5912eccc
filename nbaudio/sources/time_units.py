"""Units of times: samples become seconds, and times that cannot be seconds are asked for."""

from dataclasses import dataclass

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import count
from nbaudio.formats.transcripts import Transcripts
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.rejection_reasons import segment_failures

_MICRO = 1_000_000
_WHOLE = r"^[+-]?[0-9]+(?:\.0*)?$"
_TIMES = ("source_start", "source_end")
_COMPARED = ("name", *_TIMES, "text")

# Times are no seconds if most segments end later than this many times the length of their
# recording, or have fewer characters a second.
_FAR_BEYOND = 5.0
_TOO_SLOW = 0.2

# Nor are they seconds, whole or not, if most segments have more characters a second: days, as
# spreadsheets store clock times, hours or minutes.
_TOO_FAST = 200.0

# Characters a second of speech, with its pauses; a label outside is reported.
_SLOWEST = 1.0
_FASTEST = 40.0
_SHORT_S = 3.0  # seconds; shorter labels may have long pauses
_SHORT_TEXT = 10  # characters of a short text


def seconds_of_samples(frame: pl.DataFrame, rates: pl.Series) -> pl.DataFrame:
    """Return rows whose times are seconds instead of samples at `rates` (Hz).

    Without a rate, or for what is no whole number, the time is no number, and no sample of it.
    """
    rate = pl.lit(rates.cast(pl.Int64))
    exprs = []
    for name in _TIMES:
        written = pl.col(name).str.strip_chars()
        is_whole = written.str.contains(_WHOLE) & ~written.str.starts_with("-")
        samples = written.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
        micros = (2 * samples * _MICRO + rate) // (2 * rate)
        seconds = pl.format(
            "{}.{}", micros // _MICRO, (micros % _MICRO).cast(pl.String).str.zfill(6)
        )
        plain = seconds.str.strip_chars_end("0").str.strip_chars_end(".")
        other = pl.when(written != "").then(pl.format("{} samples", written))
        exprs.append(
            pl.when(is_whole & rate.is_not_null()).then(plain).otherwise(other).alias(name)
        )
    return frame.with_columns(exprs)


@dataclass(frozen=True)
class _Seconds:
    """What times would mean if they were seconds, as sums over segments.

    Attributes:
        segments: the number of segments with times.
        whole: those whose times are whole numbers.
        placed: those whose recording's length is known.
        beyond: those of them that end far beyond it.
        texts: segments with a text.
        slow: those of them that have too few characters a second.
        fast: those of them that have too many.
        last: the greatest end.
    """

    segments: int = 0
    whole: int = 0
    placed: int = 0
    beyond: int = 0
    texts: int = 0
    slow: int = 0
    fast: int = 0
    last: float = 0.0

    def __add__(self, other: "_Seconds") -> "_Seconds":
        """Return the sums over both, and the later end."""
        return _Seconds(
            self.segments + other.segments,
            self.whole + other.whole,
            self.placed + other.placed,
            self.beyond + other.beyond,
            self.texts + other.texts,
            self.slow + other.slow,
            self.fast + other.fast,
            max(self.last, other.last),
        )

    def is_too_long(self) -> bool:
        """Return whether most times are too long for seconds, and all are whole numbers."""
        is_long = 2 * self.beyond > self.placed or 2 * self.slow > self.texts
        return is_long and self.whole == self.segments

    def is_too_short(self) -> bool:
        """Return whether most times are too short for seconds."""
        return 2 * self.fast > self.texts


def check_time_units(
    source: str, transcripts: Transcripts, audit: pl.DataFrame, recordings: pl.DataFrame
) -> None:
    """Raise InputError for times that cannot be seconds, if the source does not say their unit.

    They cannot be seconds if all of them are whole numbers, and most segments either end far beyond
    their recordings or have less than one character in five seconds; nor if most have more than 200
    characters a second. Raise InputError also for samples where no recording has audio.
    """
    if transcripts.in_samples and recordings["sampling_rate"].null_count() == len(recordings):
        raise InputError(
            f"{source}: the times are samples, and no recording is there that says how many are a "
            "second: give --audio, or leave the times out by --option start=none --option end=none"
        )
    option = transcripts.unit_option
    if option is None:
        return
    lengths = _lengths(audit, recordings)
    total = _Seconds()
    for batch in transcripts.rows.batches(_COMPARED):
        total += _as_seconds(batch, lengths)
    if total.is_too_short():
        raise InputError(
            f"{source}: the times are numbers up to {total.last:g}, which are no seconds "
            f"({total.fast:,} of {total.texts:,} have more than {_TOO_FAST:g} characters a "
            "second): they may be days, as spreadsheets store clock times, hours or minutes; "
            f"write seconds, or give --option {option}=s if they are"
        )
    if total.is_too_long():
        evidence = f"{total.slow:,} of {total.texts:,} have less than a character in five seconds"
        if 2 * total.beyond > total.placed:
            evidence = (
                f"{total.beyond:,} of {total.placed:,} segments end far beyond their recordings"
            )
        raise InputError(
            f"{source}: the times are whole numbers up to {total.last:,.0f}, which are no seconds "
            f"({evidence}): say their unit by --option "
            f"{option}=ms or --option {option}=samples; {option}=s takes them as seconds"
        )


def _lengths(audit: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Return the seconds of the recording of each name, null where they are not known."""
    seconds = pl.col("num_samples") / pl.col("sampling_rate")
    lengths = recordings.select("recording_id", seconds=seconds)
    return audit.select("name", "recording_id").join(lengths, on="recording_id", how="left")


def _as_seconds(batch: pl.DataFrame, lengths: pl.DataFrame) -> _Seconds:
    """Return what the times of a batch would mean in seconds."""
    timed = batch.drop_nulls(_TIMES)
    is_whole = pl.all_horizontal(pl.col(name).str.contains(_WHOLE) for name in _TIMES)
    start, end = (pl.col(name).cast(pl.Float64, strict=False) for name in _TIMES)
    characters = pl.col("text").str.strip_chars().str.len_chars()
    is_text = (characters > 0) & (end > start)
    sums = timed.join(lengths, on="name", how="left").select(
        segments=pl.len(),
        whole=is_whole.sum(),
        placed=pl.col("seconds").count(),
        beyond=(end > _FAR_BEYOND * pl.col("seconds")).sum(),
        texts=is_text.sum(),
        slow=(is_text & (characters < _TOO_SLOW * (end - start))).sum(),
        fast=(is_text & (characters > _TOO_FAST * (end - start))).sum(),
        last=end.max().fill_null(0.0),
    )
    return _Seconds(**sums.row(0, named=True))


def rate_warning(segments: pl.LazyFrame, recordings: pl.DataFrame) -> list[str]:
    """Warn of labels that fill a small part of their segment, or would be spoken too fast.

    They have less than one character a second, or more than 40; short ones do not count.
    """
    rate = pl.col("characters") / pl.col("seconds")
    is_slow = (rate < _SLOWEST) & (pl.col("seconds") > _SHORT_S)
    is_fast = (rate > _FASTEST) & (pl.col("characters") > _SHORT_TEXT)
    sums = _labels(segments, recordings).select(
        labels=pl.len(),
        slow=is_slow.sum(),
        fast=is_fast.sum(),
        first=pl.col("segment_id").filter(is_slow | is_fast).first(),
        first_rate=rate.filter(is_slow | is_fast).first(),
    )
    row = sums.collect(**STREAMED).row(0, named=True)
    if not row["slow"] + row["fast"]:
        return []
    return [
        f"of {count(row['labels'], 'labels')}, {row['slow']:,} with less than {_SLOWEST:g} "
        f"character a second and {row['fast']:,} with more than {_FASTEST:g}, such as "
        f"{row['first']} ({row['first_rate']:.2g}): is it the text of all that is spoken there?"
    ]


def _labels(segments: pl.LazyFrame, recordings: pl.DataFrame) -> pl.LazyFrame:
    """Return `segment_id`, `characters` and `seconds` of usable segments with a text."""
    rates = recordings.select("recording_id", "sampling_rate").lazy()
    unusable = [*segment_failures(recordings)]
    is_usable = ~pl.col("reason").is_in(unusable).fill_null(value=False)
    samples = pl.col("end_sample") - pl.col("start_sample")
    timed = segments.filter(is_usable).join(rates, on="recording_id")
    labels = timed.select(
        "segment_id",
        characters=pl.col("text").str.strip_chars().str.len_chars(),
        seconds=samples / pl.col("sampling_rate"),
    )
    return labels.filter((pl.col("characters") > 0) & (pl.col("seconds") > 0))
