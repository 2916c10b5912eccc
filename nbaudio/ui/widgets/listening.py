"""What a player's front end asks for: facts and words of a segment, its sound, and to keep bounds that were moved."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.times import rescale
from nbaudio.review.state import Correction, append_corrections, corrections
from nbaudio.ui.widgets.base import Handler, Response
from nbaudio.ui.widgets.html import MOST_CHARACTERS
from nbaudio.ui.widgets.segments import Segments

_MS = 1000


def utc_now() -> str:
    """The time, ISO 8601 in UTC, to the second.

    Examples:
        >>> utc_now()[-1]
        'Z'
    """
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SegmentPlayback:
    """Answers for the segments of a widget, by their numbers in it."""

    def __init__(self, segments: Segments, reviewer: str) -> None:
        """Take the corrections that hold along; `reviewer` is whose name new ones carry."""
        self.segments = segments
        self.reviewer = reviewer
        self._corrected = {row["segment_id"]: row for row in corrections(segments.workspace).iter_rows(named=True)}

    @property
    def calls(self) -> dict[str, Handler]:
        """What the front end may ask for."""
        return {"segment": self.segment, "clip": self.clip, "correct": self.correct}

    def segment(self, *, number: int) -> dict[str, Any]:
        """A segment's id, facts, words (and how many characters of them are too many to show) and correction."""
        row = self.segments.row(number)
        return {
            "segment_id": row["segment_id"],
            "facts": segment_facts(row),
            "words": [pair._asdict() for pair in self.segments.words(number)],
            "unshown": max(0, len(row["text"] or "") - MOST_CHARACTERS),
            "correction": self._correction(row),
        }

    def clip(self, *, number: int, before: float, after: float, channel: str | None, even: bool, columns: int) -> Response:
        """Peaks and spectrogram as buffers, and later the WAV; or a note that says why there is none."""
        try:
            sound = self.segments.sound(number, before=before, after=after, channel=channel, even=even, columns=columns)
        except AudioError as error:
            return Response({"note": str(error)}, [], [])
        said = {"seconds": sound.seconds, "start": sound.start, "end": sound.end}
        return Response(said, [sound.peaks.tobytes(), sound.spectrogram.tobytes()], [sound.wav])

    def correct(self, *, number: int, start_ms: int, end_ms: int) -> dict[str, Any] | None:
        """Note other bounds, in milliseconds from those of the table; none at all takes a correction back.

        Raises:
            InputError: they are not inside the recording, or the end is not behind the start.
        """
        row = self.segments.row(number)
        was_start, was_end, rate = row["start_sample"], row["end_sample"], row["sampling_rate"]
        start, end = was_start + rescale(start_ms, _MS, rate), was_end + rescale(end_ms, _MS, rate)
        if not 0 <= start < end <= row["num_samples"]:
            raise InputError(
                f"{row['segment_id']}: samples {start} to {end} are not inside the recording of {row['num_samples']}"
            )
        moved: tuple[int, int] | tuple[None, None] = (start, end) if start_ms or end_ms else (None, None)
        correction = Correction(row["segment_id"], moved[0], moved[1], was_start, was_end, self.reviewer, utc_now())
        append_corrections(self.segments.workspace, [correction])
        self._corrected[row["segment_id"]] = asdict(correction)
        return self._correction(row)

    def _correction(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """By how much the bounds are corrected, where they are still those of the table."""
        found = self._corrected.get(row["segment_id"])
        if found is None or found["start_sample"] is None:
            return None
        if (found["was_start"], found["was_end"]) != (row["start_sample"], row["end_sample"]) or not row["sampling_rate"]:
            return None
        rate = row["sampling_rate"]
        return {
            "reviewer": found["reviewer"],
            "start_ms": rescale(found["start_sample"] - found["was_start"], rate, _MS),
            "end_ms": rescale(found["end_sample"] - found["was_end"], rate, _MS),
        }


def segment_facts(row: dict[str, Any]) -> list[str]:
    """What is said of a segment in a line: speaker, seconds, similarity.

    Examples:
        >>> segment_facts({"speaker_id": None, "duration_s": 5.84, "similarity": 0.9})
        ['speaker not known', '5.8 s', 'similarity 0.90']
        >>> segment_facts({"speaker_id": "ana", "duration_s": 2.0, "similarity": 0.9968})
        ['ana', '2.0 s', 'similarity 0.9968']
    """
    said = [row["speaker_id"] or "speaker not known"]
    if row["duration_s"] is not None:
        said.append(f"{row['duration_s']:.1f} s")
    if row["similarity"] is not None:
        said.append(f"similarity {row['similarity']:.{2 if row['similarity'] <= 0.95 or row['similarity'] == 1 else 4}f}")
    return said
