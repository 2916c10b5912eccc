"""Control rows: planted faults and repeated rows, which measure how reviewers judge.

A planted fault is a row whose label is wrong for certain. A repeated row is a row of the same sheet
that appears again later. Both look like all other rows.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import polars as pl

from nbaudio.core.errors import ExistsError
from nbaudio.core.hashing import json_hash
from nbaudio.review.corrections import uncorrected
from nbaudio.review.population import Population
from nbaudio.review.state import ControlRow, ReviewRecord, ReviewState
from nbaudio.tables import workspace_tables
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.split_names import in_training
from nbaudio.tables.workspace import REPEATED
from nbaudio.text.edit_distance import similarity

_Row = Mapping[str, Any]  # a segment with the facts of its recording

_LEAST_WORDS = 2
_LEAST_WORDS_TO_CUT = 5
_LEAST_SECONDS = 1.0
# Segments with at least this similarity come first: their labels are probably right, so that
# another label is wrong.
_LEAST_SIMILARITY = 0.8
# Texts that are less similar than the first number have mostly other words. Where all texts are
# alike, those that are less similar than the second one have another word at least.
_OTHER_WORDS = 0.5
_ANOTHER_WORD = 0.95
_MOST_LONGER = 4 / 3  # how much longer a text or clip may be than the one that it replaces
# Nobody says more characters in a second: what is left of a clip is too short for its text.
_MOST_CHARACTERS_A_SECOND = 25
_CUT_WORDS = 1.5  # how many words of average length are cut off where the end of speech is known
_REPEATED_SHARE = 0.5  # repeated rows, of the number of planted faults
_HOSTS_PER_FAULT = 10
_MORE_HOSTS = 100


@dataclass(frozen=True)
class _Fault:
    """A fault to plant: a segment with the text or the clip of another one, or a shorter clip."""

    kind: str
    segment_id: str
    text_of: str
    audio_of: str
    start_sample: int | None
    end_sample: int | None
    text: str

    def row(self, reviewer: str, position: int) -> ControlRow:
        """Return the control row for a position in a reviewer's sheet."""
        window = (self.audio_of, self.start_sample, self.end_sample)
        return ControlRow(
            kind=self.kind,
            reviewer=reviewer,
            position=position,
            segment_id=self.segment_id,
            text_of=self.text_of,
            audio_of=self.audio_of,
            start_sample=self.start_sample,
            end_sample=self.end_sample,
            content=_content_hash(self.kind, self.segment_id, self.text, window),
        )


@dataclass(frozen=True)
class _Pool:
    """The segments that faults are made of."""

    hosts: Sequence[_Row]  # those that faults may name, in random order
    neighbors: Mapping[str, Sequence[_Row]]  # all segments of their recordings, by recording


def plan_control_rows(population: Population, record: ReviewRecord) -> list[ControlRow]:
    """Return the control rows of a new review, sorted by reviewer and position.

    There are at most as many faults as the review requests, divided among the reviewers, and half
    as many repeated rows. There are fewer faults where the workspace has too few segments to make
    them of.
    """
    faults = _planted_faults(_pool(population, record), record.planted)
    shares = {reviewer: ids for reviewer, ids in record.shares().items() if ids}
    contents = dict(zip(record.segment_ids, record.contents, strict=True))
    rows = []
    for number, (reviewer, ids) in enumerate(shares.items()):
        order = _Order(ids, salt=f"{record.name} {reviewer} {record.seed}")
        order.insert_faults(faults[number :: len(shares)])
        order.insert_repeated()
        for position, entry in enumerate(order.entries):
            if isinstance(entry, _Fault):
                rows.append(entry.row(reviewer, position))
            elif isinstance(entry, _Repeated):
                rows.append(entry.row(reviewer, position, contents[entry.segment_id]))
    return rows


@dataclass(frozen=True)
class _Repeated:
    """A segment of the sheet that appears again."""

    segment_id: str

    def row(self, reviewer: str, position: int, content: str) -> ControlRow:
        """Return the control row for a position in a reviewer's sheet.

        `content` is the hash of the row that is repeated.
        """
        return ControlRow(
            kind=REPEATED,
            reviewer=reviewer,
            position=position,
            segment_id=self.segment_id,
            text_of=self.segment_id,
            audio_of=self.segment_id,
            start_sample=None,
            end_sample=None,
            content=json_hash([REPEATED, reviewer, content]),
        )


class _Order:
    """The rows of a sheet in order: ids of drawn segments, faults and repeated segments."""

    def __init__(self, segment_ids: Sequence[str], *, salt: str) -> None:
        self.entries: list[str | _Fault | _Repeated] = list(segment_ids)
        self._salt = salt
        self._number_planted = 0

    def insert_faults(self, faults: Sequence[_Fault]) -> None:
        """Insert faults at random places."""
        self._number_planted += len(faults)
        for fault in faults:
            place = self._random("fault", fault.segment_id) % (len(self.entries) + 1)
            self.entries.insert(place, fault)

    def insert_repeated(self) -> None:
        """Repeat random segments of the first half of the sheet in its second half."""
        half = len(self.entries) // 2
        first_half = [entry for entry in self.entries[:half] if isinstance(entry, str)]
        number = round(_REPEATED_SHARE * self._number_planted)
        drawn = sorted(first_half, key=lambda segment_id: self._random("repeated", segment_id))
        for segment_id in drawn[:number]:
            room = len(self.entries) - half + 1
            place = half + self._random("place", segment_id) % room
            self.entries.insert(place, _Repeated(segment_id))

    def _random(self, what: str, segment_id: str) -> int:
        """Return a number that looks random, the same in each export."""
        return int(json_hash([self._salt, what, segment_id]), 16)


def _content_hash(
    kind: str, segment_id: str, text: str, window: tuple[str, int | None, int | None]
) -> str:
    """Return the hash of what is judged in a planted row."""
    return json_hash([kind, segment_id, text, *window])


def _pool(population: Population, record: ReviewRecord) -> _Pool:
    """Return random segments that can name a fault, and all segments of their recordings.

    The segments are on no sheet and in no held-out split.
    """
    strata = population.strata("random", threshold=record.threshold)
    number = _HOSTS_PER_FAULT * record.planted + _MORE_HOSTS
    drawn = population.draw(strata, n=number, salt=f"planted {record.name} {record.seed}")
    taken = population.state.workspace.reviewed_ids().union(record.segment_ids)
    wanted = drawn["segment_id"].filter(~drawn["segment_id"].is_in(list(taken)))
    rows = population.read(wanted).with_columns(seconds_column())
    rows = wanted.to_frame().join(rows, on="segment_id", maintain_order="left")
    rows = rows.filter(
        in_training(rows["split"]).fill_null(value=True),
        pl.col("text").str.count_matches(r"\S+") >= _LEAST_WORDS,
        pl.col("duration_s").fill_null(_LEAST_SECONDS) >= _LEAST_SECONDS,
    )
    is_similar = pl.col("similarity").fill_null(1.0) >= _LEAST_SIMILARITY
    rows = rows.sort(is_similar, descending=True, maintain_order=True)
    neighbors = _segments_of_recordings(population, rows["recording_id"].unique())
    by_recording: dict[str, list[_Row]] = {}
    for row in neighbors.iter_rows(named=True):
        by_recording.setdefault(row["recording_id"], []).append(row)
    return _Pool(rows.to_dicts(), by_recording)


def _segments_of_recordings(population: Population, recording_ids: pl.Series) -> pl.DataFrame:
    """Return segments with a text of some recordings: `segment_id`, `recording_id`, `text`."""
    is_wanted = pl.col("recording_id").is_in(recording_ids.implode())
    rows = workspace_tables.read(population.state.workspace, where=is_wanted)
    texts = uncorrected(population.state, rows).unique(
        "segment_id", keep="first", maintain_order=True
    )
    return texts.select("segment_id", "recording_id", "text").drop_nulls("text")


def _planted_faults(pool: _Pool, planted: int) -> list[_Fault]:
    """Return at most `planted` faults, of all kinds in equal numbers as far as possible."""
    faults: list[_Fault] = []
    numbers = Counter(dict.fromkeys(FAULTS, 0))
    for host in pool.hosts:
        if len(faults) == planted:
            break
        for kind in sorted(FAULTS, key=lambda name: numbers[name]):
            fault = FAULTS[kind](host, pool)
            if fault is not None:
                faults.append(fault)
                numbers[kind] += 1
                break
    return faults


def _wrong_text(host: _Row, pool: _Pool) -> _Fault | None:
    """Give a segment the text of the nearest segment of its recording that is about as long."""
    segments = pool.neighbors[host["recording_id"]]
    place = next(
        number
        for number, segment in enumerate(segments)
        if segment["segment_id"] == host["segment_id"]
    )
    nearest = sorted(range(len(segments)), key=lambda number: abs(number - place))
    as_long = [
        segments[number]
        for number in nearest[1:]
        if _is_as_long(len(segments[number]["text"]), len(host["text"]))
    ]
    for limit in (_OTHER_WORDS, _ANOTHER_WORD):
        for segment in as_long:
            if _similarity_to(segment["text"], host) < limit:
                return _fault("text", host, text_of=segment)
    return None


def _other_speaker(host: _Row, pool: _Pool) -> _Fault | None:
    """Give a segment the clip of another speaker, or of another recording, that is as long."""
    if host["start_sample"] is None:
        return None
    who = "recording_id" if host["speaker_id"] is None else "speaker_id"
    place = pool.hosts.index(host)
    for other in (*pool.hosts[place + 1 :], *pool.hosts[:place]):
        is_another = other[who] is not None and other[who] != host[who]
        if (
            is_another
            and other["start_sample"] is not None
            and _is_as_long(other["duration_s"], host["duration_s"])
            and _similarity_to(host["text"], other) < _OTHER_WORDS
        ):
            return _fault("speaker", host, audio_of=other)
    return None


def _cut_word(host: _Row, _: _Pool) -> _Fault | None:
    """Cut off the end of a segment so that words are missing."""
    if host["start_sample"] is None or len(host["text"].split()) < _LEAST_WORDS_TO_CUT:
        return None
    removed = _seconds_to_cut(host)
    if not 0 < removed < host["duration_s"] - 0.5:
        return None
    end = host["end_sample"] - round(removed * host["sampling_rate"])
    return _fault("cut", host, end_sample=end)


def _seconds_to_cut(host: _Row) -> float:
    """Return how many seconds at the end of a clip hold the end of its words for certain.

    The end of speech is known from word times or from `measure`. Otherwise what remains is too
    short for the text, however fast it is spoken.
    """
    seconds: float = host["duration_s"]
    if host.get("word_times"):
        last = host["word_times"][-1]
        middle_of_last_word: float = (last["start"] + last["end"]) / 2
        return seconds - middle_of_last_word
    silence: float | None = host.get("trailing_silence_s")
    if silence is None:
        return seconds - len(host["text"]) / _MOST_CHARACTERS_A_SECOND
    spoken: float = seconds - silence - (host.get("leading_silence_s") or 0.0)
    return silence + _CUT_WORDS * spoken / len(host["text"].split())


def _similarity_to(text: str, segment: _Row) -> float:
    """Return how similar a text is to that of a segment, or to its hypothesis if that is more."""
    texts = [segment["text"], segment["asr_text"]]
    return max(similarity(text.casefold(), other.casefold()) for other in texts if other)


def _is_as_long(length: float | None, other: float | None) -> bool:
    """Return whether two lengths are about equal."""
    if not length or not other:
        return False
    return max(length, other) <= _MOST_LONGER * min(length, other)


def _fault(
    kind: str,
    host: _Row,
    *,
    text_of: _Row | None = None,
    audio_of: _Row | None = None,
    end_sample: int | None = None,
) -> _Fault:
    """Return a fault in a segment: another text, another clip, or another end."""
    text_source = text_of or host
    audio_source = audio_of or host
    return _Fault(
        kind=kind,
        segment_id=host["segment_id"],
        text_of=text_source["segment_id"],
        audio_of=audio_source["segment_id"],
        start_sample=audio_source["start_sample"],
        end_sample=end_sample or audio_source["end_sample"],
        text=text_source["text"],
    )


FAULTS: Mapping[str, Callable[[_Row, _Pool], _Fault | None]] = MappingProxyType(
    {"text": _wrong_text, "cut": _cut_word, "speaker": _other_speaker}
)
"""What makes planted faults of each kind of a segment; None where it cannot."""


def control_texts(state: ReviewState) -> dict[str, dict[str, str]]:
    """Return `transcript` and `speaker` of the control rows of all reviews, by their `content`.

    Rows of segments that are gone are left out.
    """
    rows = [row for record in state.records.values() for row in record.control_rows]
    ids = set().union(*(row.segment_ids for row in rows))
    if not ids:
        return {}
    segments = workspace_tables.read(
        state.workspace, where=workspace_tables.has_id(pl.Series(sorted(ids)))
    )
    by_id = {row["segment_id"]: row for row in uncorrected(state, segments).to_dicts()}
    return {
        row.content: {
            "transcript": by_id[row.text_of]["text"] or "",
            "speaker": by_id[row.segment_id]["speaker_id"] or "",
        }
        for row in rows
        if row.segment_ids <= by_id.keys()
    }


def segments_of_control_rows(record: ReviewRecord) -> list[str]:
    """Return the ids of all segments that the control rows of a review show something of."""
    return sorted(set().union(*(row.segment_ids for row in record.control_rows)))


def control_frame(record: ReviewRecord, segments: pl.DataFrame) -> pl.DataFrame:
    """Return the control rows of a review with the columns of its drawn rows.

    `reviewer` and `position` are added; `content` is the hash that identifies the row outside of
    the workspace.

    Args:
        record: of the review.
        segments: those of `segments_of_control_rows` as they were given to reviewers, with facts
            of their recordings.

    Raises:
        ExistsError: a segment that a row shows has changed since, or is gone.
    """
    by_id = {row["segment_id"]: row for row in segments.iter_rows(named=True)}
    shown = [
        {
            **_shown_row(row, by_id, record),
            "content": hashed,
            "reviewer": row.reviewer,
            "position": row.position,
        }
        for row, hashed in zip(record.control_rows, record.control_hashes(), strict=True)
    ]
    schema = pl.Schema(
        {
            **segments.schema,
            "content": pl.String(),
            "reviewer": pl.String(),
            "position": pl.Int64(),
        }
    )
    return pl.DataFrame(shown, schema=schema).with_columns(seconds_column())


def _shown_row(row: ControlRow, by_id: Mapping[str, _Row], record: ReviewRecord) -> dict[str, Any]:
    """Return a control row with the columns of segments and their recordings."""
    if not row.segment_ids <= by_id.keys():
        raise ExistsError(record.segments_changed)
    host = by_id[row.segment_id]
    if row.kind == REPEATED:
        return dict(host)
    audio = by_id[row.audio_of]
    text = by_id[row.text_of]["text"]
    window = (row.audio_of, row.start_sample, row.end_sample)
    if row.content != _content_hash(row.kind, row.segment_id, text or "", window):
        raise ExistsError(record.segments_changed)
    of_audio = (
        "path",
        "sampling_rate",
        "num_channels",
        "num_samples",
        "source_channel",
        "source_start",
        "source_end",
        "recording_path",
        "recording_channels",
    )
    return {
        **host,
        **{name: audio[name] for name in of_audio if name in audio},
        "text": text,
        "start_sample": row.start_sample,
        "end_sample": row.end_sample,
    }


def with_control_rows(drawn: pl.DataFrame, control: pl.DataFrame, reviewer: str) -> pl.DataFrame:
    """Return the rows of a reviewer's sheet in order: those drawn, and control rows between them.

    Args:
        drawn: the rows that were drawn, in order.
        control: the rows of `control_frame`, of all reviewers.
        reviewer: the name; empty for one sheet without a name.
    """
    rows = control.filter(pl.col("reviewer") == reviewer).drop("reviewer")
    if rows.is_empty():
        return drawn
    number = len(drawn) + len(rows)
    free = pl.int_range(number, eager=True)
    free = free.filter(~free.is_in(rows["position"].implode()))
    placed = drawn.with_columns(position=free)
    both = pl.concat([placed, rows.select(placed.columns)]).sort("position").drop("position")
    # Words are marked while a clip plays by their times, which planted faults do not have.
    return both.drop("word_times", strict=False)
