"""Probe recordings: read headers and verify them by decoding."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import soundfile as sf

from nbaudio.audio.channels import CHANNELS
from nbaudio.audio.decode_errors import BEHIND_HEADER, no_samples_reason
from nbaudio.audio.flac_headers import has_right_block_size
from nbaudio.audio.ogg_pages import scan_pages
from nbaudio.audio.recording_reader import (
    RAW_CODECS,
    OpenRecording,
    SoundfileRecording,
    Window,
    open_recording,
)
from nbaudio.audio.silence import has_signal, is_cancelled
from nbaudio.audio.sound_bytes import find_sound_bytes
from nbaudio.core.errors import AudioError
from nbaudio.storage.location import LocationLike, location

_Read = Callable[[int, int], Window]

# Samples of a window that is long enough to make a decoder read the last frames.
_TAIL_SAMPLES = 4096
_BEGINNING_S = 2.0  # seconds that are decoded as a whole and again in windows
_WINDOWS = 3  # windows of the beginning that are compared with the whole
_SEEKS = 16  # windows that are read where the beginning cannot be decoded
# The same for a damaged recording, and for codecs whose packets may be damaged singly.
_MOST_WINDOWS = 300
# Tolerance between windows and a decode of the whole, full scale being 1; see docs/audio.md. Other
# codecs must be equal.
_TOLERANCE = {"amrnb": 0.001, "opus": 0.001}
_MIXED_WINDOWS = 4  # windows, less one, in which channels that cancel are looked for
_MIXED_WINDOW_S = 0.2
_LOUD_SHARE = 0.5  # a channel with this share of the RMS of the loudest one can stand for all
_CANCELLED = (
    "its channels cancel in their mix (one is the inverse of the other): "
    "only its {channel} channel is used"
)
_NO_LENGTH = "its header has no length, as from a pipe or a crash: read to the end of the file"
_WRAPPED = "its length of more than 4 GiB does not fit its header"
# Bits of a sample in names of codecs by libsndfile and FFmpeg, such as pcm_16 and pcm_s24le
_PCM_BITS = re.compile(r"pcm_[suf]?(8|16|24|32|64)(le|be)?")
_SAMPLE_BYTES = {"ulaw": 1, "alaw": 1, "float": 4, "double": 8, "pcm_mulaw": 1, "pcm_alaw": 1}
_COUNT_BLOCK = 1 << 20  # samples, over all channels, that are decoded at once to count them


@dataclass(frozen=True)
class Probe:
    """Facts about a recording.

    Attributes:
        sampling_rate: Hz.
        num_samples: samples per channel that can be decoded, which may be fewer than the header
            declares.
        codec: such as ``pcm_16``, ``flac``, ``mp3``, ``aac``, ``opus``.
        warning: what is wrong with the file although it is usable; None when nothing is.
        track: number of the audio track that these facts are of, from 1; None for a file that
            has only one.
        sound_start: samples from the first picture of the container to the first sample.
        not_read: further audio tracks, for people.
        channel: the channel to use where the mix of all has no signal, as
            `nbaudio.audio.channels` writes it; None where the mix can be used.
    """

    sampling_rate: int
    num_channels: int
    num_samples: int
    codec: str
    warning: str | None = None
    track: int | None = field(default=None, repr=False)
    sound_start: int = field(default=0, repr=False)
    not_read: tuple[str, ...] = field(default=(), repr=False)
    channel: str | None = field(default=None, repr=False)


def probe(path: LocationLike, *, track: str | None = None) -> Probe:
    """Read a recording's header and verify that its samples can be decoded.

    Only a file without its declared end is decoded as a whole, to find where it ends. The encoder
    delay that an MP3's or MP4's header declares is not counted: sample 0 is the first recorded
    sample.

    Args:
        path: the file.
        track: number, from 1, or language of the audio track to read where a container has
            several; the first one unless given.

    Raises:
        AudioError: it cannot be decoded at all, has no sample, or no such track; names the file
            and the reason.

    Examples:
        >>> import tempfile, soundfile
        >>> path = Path(tempfile.mkdtemp()) / "a.wav"
        >>> soundfile.write(path, [0.0] * 800, 8000)
        >>> probe(path)
        Probe(sampling_rate=8000, num_channels=1, num_samples=800, codec='pcm_16', warning=None)
    """
    with location(path).fetched() as file, open_recording(file) as opened:
        choice = _choose_track(opened, track)
        recording = opened if choice.number is None else opened.track(choice.number)
        if isinstance(recording, SoundfileRecording):
            num_samples, warning = _check_end(recording, file)
            warning = _length_warning(recording, num_samples, warning)
            container = recording.container
        else:
            # Perhaps it is Ogg; other files have no pages.
            num_samples, container = recording.count_samples(), "OGG"
            _check_last_sample(recording, file, num_samples)
            warning = _length_difference(
                recording.declared_samples, num_samples, recording.sampling_rate
            )
            if warning and recording.is_complete(num_samples):
                warning = None
            warning = _length_warning(recording, num_samples, warning)
        problem: str | None = None
        if container == "OGG":
            problem, before = scan_pages(file)
            # Decoders skip a gap silently: the samples after it would be at the wrong times.
            if problem and before is not None:
                num_samples = min(num_samples, before)
        if problem:
            warning = f"{problem}; {num_samples / recording.sampling_rate:.1f} s are used"
        if num_samples > 0:
            num_samples, warning = _check_beginning(recording, file, num_samples, warning)
        if num_samples <= 0:
            raise AudioError(f"{file}: {no_samples_reason(file)}")
        channel = _channel_of_cancelled_mix(recording, num_samples)
        if channel:
            warning = _joined_warnings(warning, _CANCELLED.format(channel=channel))
        return Probe(
            recording.sampling_rate,
            recording.num_channels,
            num_samples,
            recording.codec,
            _joined_warnings(warning, _late_sound(recording)),
            choice.number,
            recording.sound_start,
            choice.others,
            channel,
        )


def _check_last_sample(recording: OpenRecording, path: Path, num_samples: int) -> None:
    """Raise AudioError where the last sample decodes from the beginning, but not after a seek."""
    if not num_samples or not recording.seeks:
        return
    if not _decodes(recording.read, num_samples - 1, num_samples):
        raise AudioError(
            f"{path}: damaged: its last samples are not found by the times of its container"
        )


@dataclass(frozen=True)
class _TrackChoice:
    """The audio track that is read, from 1, and the others, for people.

    The number is None where there is one track.
    """

    number: int | None = None
    others: tuple[str, ...] = ()


def _choose_track(recording: OpenRecording, requested: str | None) -> _TrackChoice:
    """Choose an audio track by its number or language; the first one unless given.

    A recording of one track is read whatever is `requested`. Raise AudioError if a container of
    several tracks has none that is called so, or several.
    """
    tracks = recording.tracks()
    if len(tracks) < 2:
        return _TrackChoice()
    wanted = requested or "1"
    matches = [track for track in tracks if wanted in (str(track.number), track.language)]
    if len(matches) != 1:
        problem = "several audio tracks" if matches else "no audio track"
        labels = ", ".join(track.label() for track in tracks)
        raise AudioError(f"{recording.path}: {problem} {wanted!r}; it has {labels}")
    [choice] = matches
    others = tuple(track.label() for track in tracks if track != choice)
    return _TrackChoice(choice.number, others)


def _late_sound(recording: OpenRecording) -> str | None:
    """Return the warning on sound that starts later than the picture."""
    if not recording.sound_start:
        return None
    seconds = recording.sound_start / recording.sampling_rate
    return (
        f"its sound starts {seconds:.2f} s later than the picture: times of subtitles count from "
        "the picture, others from the sound, unless ingest's option clock says picture or sound"
    )


def _joined_warnings(*warnings: str | None) -> str | None:
    """Return warnings as one; None where there is none."""
    return "; ".join(filter(None, warnings)) or None


def _channel_of_cancelled_mix(recording: OpenRecording, num_samples: int) -> str | None:
    """Return the channel to use where the channels cancel in their mix; None where they do not.

    They cancel if their mix has no signal in any of some short windows in which a channel has one.
    The channel is the first one that is not much quieter than the loudest.
    """
    if recording.num_channels == 1:
        return None
    rate = recording.sampling_rate
    length = min(num_samples, int(_MIXED_WINDOW_S * rate))
    # Where windows are decoded from the beginning, those at the beginning are near.
    end = num_samples
    if not recording.seeks:
        end = min(num_samples, int(_BEGINNING_S * rate))
    starts = {(end - length) * number // _MIXED_WINDOWS for number in range(_MIXED_WINDOWS + 1)}
    windows = [_decoded(recording, start, start + length) for start in sorted(starts)]
    loud = [window for window in windows if has_signal(window)]
    if not loud or not all(map(is_cancelled, loud)):
        return None
    levels = np.concatenate(loud).std(axis=0)
    first = int(np.argmax(levels >= _LOUD_SHARE * levels.max()))
    _, *names = CHANNELS
    return names[first] if first < len(names) else str(first)


def _decoded(recording: OpenRecording, start: int, stop: int) -> Window:
    """Return a window of a recording, empty where it cannot be decoded."""
    try:
        return recording.read(start, stop)
    except AudioError:
        return np.empty((0, recording.num_channels), np.float32)


def _check_beginning(
    recording: OpenRecording,
    path: Path,
    num_samples: int,
    warning: str | None,
    *,
    is_damaged: bool = False,
) -> tuple[int, str | None]:
    """Decode the beginning at once and in windows, where damage to a header shows.

    Return the number of usable samples and the warning. Where the recording `is_damaged`, many
    windows are read.
    """
    if isinstance(recording, SoundfileRecording) and recording.codec in RAW_CODECS:
        return num_samples, warning  # a sample's offset follows from its number
    length = min(num_samples, int(_BEGINNING_S * recording.sampling_rate))
    if not is_damaged and _is_sound_flac(recording, path, length):
        return num_samples, warning
    if recording.codec.startswith("alac_"):
        length = num_samples
    with ExitStack() as stack:
        readers: list[_Read] = [recording.read, recording.read]
        if isinstance(recording, SoundfileRecording):
            # libsndfile may depend on earlier reads: a fresh handle shows where a seek lands, one
            # that has read everything shows what it keeps.
            new = stack.enter_context(open_recording(path))
            readers = [new.read, new.read, partial(_read_once, path, recording.number)]
        try:
            whole = readers[0](0, length)
        except AudioError as error:
            whole = np.empty((0, recording.num_channels), np.float32)
            warning = f"{str(error).removeprefix(f'{path}: ')}; segments there are left out"
            if length < num_samples:
                _check_seeks(recording, path, num_samples)
        if len(whole) == length or length < num_samples:
            _check_windows(recording, path, whole, readers[1:], is_damaged=is_damaged)
            return num_samples, warning
        num_samples = _longest_beginning(recording, path, length)
        warning = f"damaged: {num_samples / recording.sampling_rate:.1f} s can be decoded"
        if not num_samples:
            return num_samples, warning
        again = stack.enter_context(open_recording(path)).track(recording.number)
        return _check_beginning(again, path, num_samples, warning, is_damaged=True)


def _is_sound_flac(recording: OpenRecording, path: Path, length: int) -> bool:
    """Return whether libsndfile decodes the beginning, of `length` samples, of a FLAC.

    Raise AudioError where the header of a FLAC makes libsndfile's seeks wrong.
    """
    if recording.codec != "flac" or not isinstance(recording, SoundfileRecording):
        return False
    if not has_right_block_size(recording.local_file):
        raise AudioError(f"{path}: damaged: its header has another block size than its frames")
    # What it decodes is right: damaged frames show in their numbers and checksums.
    return _decodes(recording.read, 0, length)


def _check_seeks(recording: OpenRecording, path: Path, num_samples: int) -> None:
    """Raise AudioError if a quarter of some windows cannot be read, as where a header is damaged.

    Where a part of the sound is damaged, the others can.
    """
    read = partial(_read_once, path, recording.number)
    starts = [num_samples * window // _SEEKS for window in range(_SEEKS)]
    windows = [(start, min(start + _TAIL_SAMPLES, num_samples)) for start in starts]
    failures = sum(not _decodes(read, start, stop) for start, stop in windows)
    if failures >= _SEEKS / 4:
        raise AudioError(
            f"{path}: damaged: {failures} of {_SEEKS} windows throughout it cannot be read"
        )


def _longest_beginning(recording: OpenRecording, path: Path, length: int) -> int:
    """Return the most samples, less than `length`, that decode in one go from the start."""
    read = partial(_read_once, path, recording.number)
    return bisect_left(range(1, length), x=True, key=lambda stop: not _decodes(read, 0, stop))


def _check_windows(
    recording: OpenRecording,
    path: Path,
    whole: Window,
    readers: list[_Read],
    *,
    is_damaged: bool,
) -> None:
    """Raise AudioError unless windows of the beginning equal the `whole` of it, for each reader."""
    length = len(whole)
    if not length:
        return
    codec = recording.codec
    # In CAF, libsndfile finds each packet of ALAC by a table, any entry of which may be damaged.
    has_many = is_damaged or codec.startswith("alac_")
    number = _WINDOWS
    if has_many:
        number = min(2 * length // _TAIL_SAMPLES + 1, _MOST_WINDOWS)
    starts = [length * (2 * window + 1) // (2 * number) for window in range(number)]
    if has_many:
        starts.append(length - 1)  # the last packet may be short
    elif codec == "flac" and isinstance(recording, SoundfileRecording):
        return  # libsndfile detects damaged frames by their numbers and checksums
    for start, read in product(starts, readers):
        expected = whole[start : start + _TAIL_SAMPLES]
        window = read(start, start + len(expected))
        if _differs(window, expected, _TOLERANCE.get(codec, 0)):
            raise AudioError(
                f"{path}: damaged: reading from {start / recording.sampling_rate:.2f} s on gives "
                "other samples than a full decode"
            )


def _differs(window: Window, expected: Window, tolerance: float) -> bool:
    """Return whether a window has another shape, or a sample that is off by more than allowed."""
    if window.shape != expected.shape:
        return True
    with np.errstate(invalid="ignore"):
        off = np.abs(window.astype(np.float64) - expected)
    return bool((off > tolerance).any())


def _read_once(path: Path, number: int, start: int, stop: int) -> Window:
    """Read a window of an audio track by a handle that reads nothing else."""
    with open_recording(path) as recording:
        return recording.track(number).read(start, stop)


def _decodes(read: _Read, start: int, stop: int) -> bool:
    try:
        return len(read(start, stop)) == stop - start
    except AudioError:
        return False


def _check_end(recording: SoundfileRecording, path: Path) -> tuple[int, str | None]:
    """Return the number of samples that decode, and the warning if the header declares more."""
    declared = recording.declared_samples
    if not _decodes(recording.read, max(0, declared - _TAIL_SAMPLES), declared):
        decoded = _count(path, recording.num_channels)
        return decoded, _length_difference(declared, decoded, recording.sampling_rate)
    if "Seems to be a truncated file" in recording.log:
        return declared, f"truncated: {declared / recording.sampling_rate:.1f} s can be decoded"
    return declared, _length_difference(
        _declared_samples(recording, path), declared, recording.sampling_rate
    )


def _length_warning(recording: OpenRecording, num_samples: int, warning: str | None) -> str | None:
    """Return the warning on the length in the header, or the one that there is.

    `num_samples` are those that can be decoded.
    """
    sound = find_sound_bytes(recording.local_file)
    if sound is None:
        return warning
    if sound.declared is None:
        return None if sound.is_open else _NO_LENGTH
    if sound.has_wrapped:
        return f"{_WRAPPED}; {num_samples / recording.sampling_rate:.1f} s are read"
    frame = _sample_bytes(recording.codec) * recording.num_channels
    if not frame:
        behind = f"{sound.behind:,} bytes behind the end of the sound in its header are not read"
        return _joined_warnings(warning, behind if sound.behind else None)
    declared = sound.declared // frame
    if sound.behind < frame:
        return warning or _length_difference(declared, num_samples, recording.sampling_rate)
    seconds = [samples / recording.sampling_rate for samples in (declared, sound.behind // frame)]
    behind = "behind that are read, too" if num_samples > declared else BEHIND_HEADER
    return f"its header declares {seconds[0]:.1f} s; {seconds[1]:.1f} s {behind}"


def _sample_bytes(codec: str) -> int:
    """Return the bytes of a sample where all have the same; 0 for other codecs."""
    if pcm := _PCM_BITS.fullmatch(codec):
        return int(pcm[1]) // 8
    return _SAMPLE_BYTES.get(codec, 0)


def _declared_samples(recording: SoundfileRecording, path: Path) -> int:
    """Return the number of samples that the header declares.

    Libsndfile replaces that number by the actual one, and at best logs it.
    """
    log = recording.log
    declared = recording.declared_samples
    if size := re.search(r"(?:data|SSND|Data Size|BODY|riff) *: (\d+) \(should be (\d+)\)", log):
        return int(declared * int(size[1]) / max(1, int(size[2])))
    if frames := re.search(r"frame count \d+ does not match value from 'ds64' chunk of (\d+)", log):
        return int(frames[1])
    if recording.container == "NIST":
        with path.open("rb") as file:
            head = file.read(1024)
        if sphere := re.search(rb"\nsample_count -i (\d{1,18})\s", head):
            return int(sphere[1])
    return declared


def _count(path: Path, channels: int) -> int:
    """Count the samples that decode from the start.

    After a block that fails, smaller blocks find the last sample before the break.
    """
    num_samples = 0
    block = _COUNT_BLOCK // channels
    while block:
        try:
            for length in _block_lengths(path, num_samples, block):
                num_samples += length
        except sf.LibsndfileError:
            block //= 2
        else:
            break
    return num_samples


def _block_lengths(path: Path, start: int, block: int) -> Iterator[int]:
    """Decode blocks of so many samples from one on, and yield how many each has."""
    with path.open("rb") as opened, sf.SoundFile(opened.fileno(), closefd=False) as file:
        file.seek(start)
        while length := len(file.read(block, dtype="int16")):
            yield length


def _length_difference(declared: int, decoded: int, rate: int) -> str | None:
    """Return the warning on samples that the header declares and that cannot be decoded."""
    # Smaller differences come from estimates by bit rate, encoder delay or a last frame.
    if declared - decoded < max(rate / 10, _TAIL_SAMPLES):
        return None
    return (
        f"truncated: the header declares {declared / rate:.1f} s, "
        f"{decoded / rate:.1f} s can be decoded"
    )
