"""Clips of WebDataset tars: their headers and texts are read, their audio is skipped.

The position of a header follows from the header before it, and a server takes tens of milliseconds
to answer each request. So a tar is divided into spans that are read at the same time. A span begins
at a header that was searched for. If the span before it ends elsewhere, it is read again from
there. The clips are the same as if the tar were read once, from its start to its end.
"""

import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import IO, Any, cast

from nbaudio.audio import name_matching
from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.core.progress import progress
from nbaudio.core.threads import ordered_map
from nbaudio.formats.published.skipping_file import SkippingFile
from nbaudio.formats.transcripts import decode_text
from nbaudio.storage.archives import BROKEN
from nbaudio.tables.parquet_ranges import ReadRange

_TEXTS = frozenset(("txt", "text", "transcript", "trn", "lab"))
# The key of a clip ends at the first dot of the name without its folders.
_MEMBER = re.compile(r"((?:.*/)?[^./][^/.]*)\.([^/]+)")
_MOST_TEXT_BYTES = 1 << 20
# Clips at the start of a tar, from which the size of its clips is known.
_FIRST_CLIPS = 16
_CLIPS_OF_SPAN = 400
# A search for a header reads pieces of this size, up to so many times the size of a clip.
_PIECE_BYTES = 1 << 16
_MOST_SEARCHED_CLIPS = 8
_MAGIC = b"ustar"
_MAGIC_AT = 257
# Requests at once: at 40 ms for each, 1,600 a second.
_JOBS = 64


@dataclass
class TarClip:
    """A clip of a tar while its members are read: its fields, and where its audio is."""

    fields: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    clip: str | None = None

    def add(self, later: "TarClip") -> None:
        """Add what later members of the clip say."""
        self.fields |= later.fields
        self.text = self.text if later.text is None else later.text
        self.clip = later.clip or self.clip


@dataclass(frozen=True)
class Tar:
    """A tar: its name in messages, and functions that return a range and the number of bytes."""

    name: str
    read: ReadRange
    num_bytes: Callable[[], int]


@dataclass(frozen=True)
class TarClips:
    """The clips of a tar by key.

    Attributes:
        clips: in the order of their first members; none if there is a problem.
        num_bytes: of the tar; 0 if that is not known.
        problem: why the tar cannot be read; None if it can.
    """

    clips: Mapping[str, TarClip]
    num_bytes: int
    problem: str | None = None


@dataclass(frozen=True)
class _Span:
    """Members of a tar whose headers begin in [start, stop); `size` is that of the tar."""

    tar: Tar
    size: int
    start: int
    stop: int


@dataclass(frozen=True)
class _SpanClips:
    """The clips of a span.

    Attributes:
        span: as it was read.
        clips: by key.
        end: where the next header is; None at the end of the tar.
        pax_headers: global extended headers that apply behind the span.
        problem: why the span cannot be read; None if it can.
    """

    span: _Span
    clips: dict[str, TarClip] = field(default_factory=dict)
    end: int | None = None
    pax_headers: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


def read_clips(tars: Sequence[Tar]) -> Iterator[TarClips]:
    """Yield the clips of each tar, in order; many requests are sent at once."""
    with progress("read tars", len(tars), "tars", show=len(tars) > 1) as advance:
        firsts = list(ordered_map(_read_first, tars, jobs=_JOBS))
        spans = _rest_in_spans(firsts)
        read = ordered_map(_read_or_problem, chain.from_iterable(spans), jobs=_JOBS, ahead=2)
        for first, rest in zip(firsts, spans, strict=True):
            clips = first
            for _ in rest:
                clips = _joined(clips, next(read))
                advance(1 / len(rest))
            advance(0 if rest else 1)
            yield TarClips(clips.clips, clips.span.size, clips.problem)


def _read_first(tar: Tar) -> _SpanClips:
    """Read the first clips of a tar."""
    try:
        size = tar.num_bytes()
    except (InputError, AudioError, *BROKEN) as error:
        return _SpanClips(_Span(tar, 0, 0, 0), problem=one_line(error))
    return _read_or_problem(_Span(tar, size, 0, size), most_clips=_FIRST_CLIPS)


def _read_or_problem(span: _Span, most_clips: int | None = None) -> _SpanClips:
    """Read a span; where it cannot be read, return the reason."""
    try:
        return _read_span(span, {}, most_clips)
    except (InputError, AudioError, *BROKEN) as error:
        return _SpanClips(span, problem=one_line(error))


def _read_span(
    span: _Span, pax_headers: Mapping[str, str], most_clips: int | None = None
) -> _SpanClips:
    """Read a span, or its first clips; `pax_headers` are global ones before it."""
    clips: dict[str, TarClip] = {}
    file = cast(IO[bytes], SkippingFile(span.tar.read, span.size, span.start))
    options: dict[str, Any] = {"encoding": "utf8", "pax_headers": dict(pax_headers)}
    end: int | None = None
    with tarfile.open(fileobj=file, mode="r:", **options) as archive:
        for member in archive:
            match = _MEMBER.fullmatch(member.name)
            if match and member.isfile():
                clip = clips.setdefault(match[1], TarClip())
                _add_member(clip, archive, member, span.tar.name, match[2])
            archive.members = []  # type: ignore[attr-defined]  # else all stay in memory
            offset = archive.offset
            is_read = span.stop <= offset or len(clips) == most_clips
            # Of the last span, all is read: what is behind the end of the file is an error.
            if is_read and offset < span.size:
                end = offset
                break
        return _SpanClips(span, clips, end, archive.pax_headers)


def _rest_in_spans(firsts: Sequence[_SpanClips]) -> list[list[_Span]]:
    """Return for each tar, of which the first clips were read, the spans of the others."""
    positions = [_positions(first) for first in firsts]
    searches = [
        (first, position)
        for first, inside in zip(firsts, positions, strict=True)
        for position in inside
    ]
    headers = ordered_map(lambda search: _find_header(*search), searches, jobs=_JOBS)
    return [
        _spans(first, [next(headers) for _ in inside])
        for first, inside in zip(firsts, positions, strict=True)
    ]


def _positions(first: _SpanClips) -> range:
    """Return the positions behind the first clips of a tar at which spans may begin."""
    if first.end is None or first.pax_headers:
        return range(0)
    span_bytes = first.end // len(first.clips) * _CLIPS_OF_SPAN
    # The last span is as long as the others, up to twice as long.
    return range(first.end + span_bytes, first.span.size - span_bytes, span_bytes)


def _find_header(first: _SpanClips, position: int) -> int | None:
    """Return the offset of a header behind a position; None if there is none near.

    It may be inside of a member that is a tar itself, or belong to the header before it.
    """
    tar, size = first.span.tar, first.span.size
    position -= position % tarfile.BLOCKSIZE
    most = cast(int, first.end) // len(first.clips) * _MOST_SEARCHED_CLIPS
    for start in range(position, min(size, position + most), _PIECE_BYTES):
        try:
            piece = tar.read(start, min(size, start + _PIECE_BYTES))
        except (InputError, AudioError, *BROKEN):
            return None
        offset = _header_in(piece)
        if offset is not None:
            return start + offset
    return None


def _header_in(piece: bytes) -> int | None:
    """Return the offset of the first header in a piece that begins where a header may begin."""
    at = piece.find(_MAGIC)
    while at >= 0:
        start = at - _MAGIC_AT
        if start >= 0 and start % tarfile.BLOCKSIZE == 0:
            try:
                tarfile.TarInfo.frombuf(
                    piece[start : start + tarfile.BLOCKSIZE], "utf8", "surrogateescape"
                )
            except tarfile.HeaderError:
                pass
            else:
                return start
        at = piece.find(_MAGIC, at + 1)
    return None


def _spans(first: _SpanClips, headers: Sequence[int | None]) -> list[_Span]:
    """Return the spans behind the first clips of a tar, which begin at some headers."""
    if first.end is None:
        return []
    span = first.span
    starts = [first.end, *sorted({header for header in headers if header is not None})]
    stops = [*starts[1:], span.size]
    return [
        _Span(span.tar, span.size, start, stop) for start, stop in zip(starts, stops, strict=True)
    ]


def _joined(before: _SpanClips, following: _SpanClips) -> _SpanClips:
    """Return the clips of a tar up to the end of the following span.

    The span is read anew if it does not begin where the others end.
    """
    start = before.end
    if start is None or start >= following.span.stop:
        return before
    is_next = start == following.span.start and not before.pax_headers
    if not is_next or following.problem:
        try:
            following = _read_span(replace(following.span, start=start), before.pax_headers)
        except (InputError, AudioError, *BROKEN) as error:
            return replace(before, clips={}, end=None, problem=one_line(error))
    for key, clip in following.clips.items():
        if key in before.clips:
            before.clips[key].add(clip)
        else:
            before.clips[key] = clip
    return replace(following, clips=before.clips)


def _add_member(
    clip: TarClip, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, ending: str
) -> None:
    """Add what a member says about its clip."""
    last = ending.rpartition(".")[2].lower()
    if name_matching.is_audio(member.name):
        stop = member.offset_data + member.size
        clip.clip = f"{name}#{member.offset_data}-{stop}.{last}"
    elif last in (*_TEXTS, "json") and member.size <= _MOST_TEXT_BYTES:
        content = tar.extractfile(member)
        text = decode_text(content.read(), errors="replace")  # type: ignore[union-attr]
        if last == "json":
            clip.fields |= _object(text)
        else:
            clip.text = text.strip()


def _object(text: str) -> dict[str, Any]:
    """Return the plain values of a JSON object; none if a text is no object.

    Those of an object in it are named with a dot, such as ``speaker.id``.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    fields = value if isinstance(value, dict) else {}
    inner = {
        f"{name}.{inner_name}": inner_item
        for name, item in fields.items()
        if isinstance(item, dict)
        for inner_name, inner_item in item.items()
    }
    return {
        name: item
        for name, item in {**inner, **fields}.items()
        if isinstance(item, str | int | float)
    }
