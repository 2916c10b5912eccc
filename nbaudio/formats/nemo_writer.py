"""NeMo manifests: ``<split>.jsonl``, or ``manifest.jsonl`` of segments without a split."""

from pathlib import Path

import polars as pl

from nbaudio.formats.rows import Writer, drop_none, timed_segments, write_lines


def _files(out: Path, split: str | None) -> list[Path]:
    return [out / f"{split or 'manifest'}.jsonl"]


def _write(segments: pl.DataFrame, recordings: pl.DataFrame, out: Path, split: str | None) -> tuple[list[Path], list[str]]:
    lines = (
        drop_none(
            audio_filepath=each.row["file"],
            offset=each.start,
            duration=each.duration,
            text=each.row["text"],
            pred_text=each.row["asr_text"],
            speaker=each.row["speaker_id"],
            segment_id=each.row["segment_id"],
        )
        for each in timed_segments(segments, recordings)
    )
    files = [write_lines(file, lines) for file in _files(out, split)]
    partly = sum(not each.is_on_all for each in timed_segments(segments, recordings))
    note = f"{partly:,} segments are on some channels of their recording, which NeMo's manifests cannot say"
    return files, [note] if partly else []


WRITER = Writer(_files, _write)
