"""Read exact windows of recordings without decoding them from the start."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias, cast

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from nbaudio.audio.channels import split_track
from nbaudio.audio.decode_errors import implausible_header
from nbaudio.audio.mp3_tags import is_consistent
from nbaudio.audio.sound_bytes import FileSlice, SoundBytes, find_sound_bytes
from nbaudio.core.errors import AudioError
from nbaudio.core.input_guards import UTF8_REMEDY
from nbaudio.storage.location import Location, LocationLike, location
from nbaudio.storage.range_file import RangeFile

if TYPE_CHECKING:
    from nbaudio.audio.ffmpeg import AudioTrack, AvRecording

OpenRecording: TypeAlias = "SoundfileRecording | AvRecording"
Window = NDArray[np.int16] | NDArray[np.float32]

# Subtypes whose samples fit int16 without loss; all others are read as float32.
_INT16_SUBTYPES = {"PCM_16", "PCM_S8", "PCM_U8", "ULAW", "ALAW"}

#: Codecs in which the place of a sample follows from its number.
RAW_CODECS = {"pcm_s8", "pcm_u8", "pcm_16", "pcm_24", "pcm_32", "float", "double", "ulaw", "alaw"}

# Codecs whose windows are decoded from the bytes around them, by range reads.
_RANGED_CODECS = {"pcm_u8", "pcm_16", "pcm_24", "pcm_32", "float", "double", "ulaw", "alaw", "flac"}

# Codecs that FFmpeg reads instead of libsndfile: in Vorbis some of its seeks land on the wrong
# sample, in Opus it is slow, in MP2 the last bits of a window depend on where decoding began, and
# in these ADPCMs a damaged last block depends on earlier reads.
_INEXACT_CODECS = {"vorbis", "opus", "mpeg_layer_i", "mpeg_layer_ii", "ima_adpcm", "ms_adpcm"}

# FFmpeg takes its format tag for that of AMR.
_NMS_ADPCM = (
    "its codec is NMS ADPCM, in which windows cannot be read; "
    "convert it first with 'sndfile-convert -pcm16 FILE NEW.wav'"
)

_OPEN_LENGTH = 1 << 62
# Bytes from which on a length of 32 bits may have wrapped, or be a placeholder that is too short
_LONGEST_LENGTH = (1 << 31) - 4096

# Seconds decoded and discarded before a window of an MP3: a frame uses bits of up to nine earlier
# ones (ISO 11172-3).
_RUN_UP_S = 0.3


class Recording(Protocol):
    """An open recording; read windows in rising order, from one process."""

    sampling_rate: int
    num_channels: int
    codec: str

    def read(self, start: int, stop: int) -> Window:
        """Return samples [start, stop), shape (samples, channels).

        There are fewer at the recording's end. Raise AudioError if it is damaged.
        """

    def track(self, number: int) -> "Recording":
        """Return the recording of an audio track, from 1; raise AudioError without it."""


@contextmanager
def open_recording(
    path: LocationLike, *, windows: int | None = None, share: float = 1.0
) -> Iterator["OpenRecording"]:
    """Open a recording for reading windows.

    Raise AudioError, with file and reason, where it is missing, not readable or not audio.

    The number of `windows` and the `share` of the recording that they cover decide whether range
    reads of a remote file are cheaper than fetching it.
    """
    place = location(path)
    with ExitStack() as stack:
        status = None
        recording = None
        if windows is not None:
            status, file = place.ranges(windows, share)
            if file is not None:
                recording = _open_ranges(place, file)
        if recording is None:
            recording = _open(stack.enter_context(place.fetched(status)))
            if isinstance(recording, SoundfileRecording):
                recording.path = place  # errors name the remote file
        stack.callback(recording.close)
        yield recording


def _open_ranges(place: Location, file: RangeFile) -> "OpenRecording | None":
    """Open a recording for range reads.

    Return None where the whole file is better, also to report what is wrong with it.
    """
    try:
        recording = SoundfileRecording(place, file)
        file.settle()
    except (AudioError, sf.LibsndfileError):
        return None
    if recording.codec in _RANGED_CODECS and recording.is_exact:
        return recording
    recording.close()
    return None


def _open(path: Path) -> "OpenRecording":
    """Open a recording of this machine by libsndfile, or by FFmpeg where that is more exact.

    Raise AudioError, with file and reason, if neither can read it.
    """
    try:
        file = path.open("rb")
        if not file.seek(0, 2):
            file.close()
            raise AudioError(f"{path}: the file is empty")
        file.seek(0)
    except IsADirectoryError as error:
        raise AudioError(f"{path}: a folder, not a file") from error
    except PermissionError as error:
        raise AudioError(
            f"{path}: may not be read by this user ({error.strerror}); change its permissions"
        ) from error
    except OSError as error:
        raise AudioError(f"{path}: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        raise AudioError(
            f"{path}: its name cannot be used in this locale; {UTF8_REMEDY}"
        ) from error
    with suppress(sf.LibsndfileError):
        recording = SoundfileRecording(path, file)
        if recording.is_exact:
            return recording
        if recording.codec.startswith("nms_adpcm"):
            recording.close()
            raise AudioError(f"{path}: {_NMS_ADPCM}")
        recording._file.close()
    from nbaudio.audio.ffmpeg import AvRecording  # imported on demand, so that workers start faster

    return AvRecording(path, file)


class SoundfileRecording:
    """A recording read by libsndfile.

    Any window equals the same window of a full decode, bit for bit.
    """

    def __init__(self, path: LocationLike, file: BinaryIO | RangeFile) -> None:
        """Take an open file, which `close` closes.

        Raise AudioError for an implausible header, and libsndfile's own errors for other problems.
        """
        self.path = path
        self._descriptor = file
        self._sound: SoundBytes | None = None  # where it is, if the header does not say it
        self._file = self._opened()
        self._has_failed = False
        self.sampling_rate: int = self._file.samplerate
        self.num_channels: int = self._file.channels
        self.declared_samples: int = self._file.frames
        self.log: str = self._file.extra_info
        self.container: str = self._file.format
        subtype: str = self._file.subtype
        self.codec = subtype.lower()
        if subtype == "MPEG_LAYER_III":
            self.codec = "mp3"
        elif self._file.format == "FLAC":
            self.codec = "flac"
        if problem := implausible_header(self.sampling_rate, self.num_channels):
            self.close()
            raise AudioError(f"{path}: {problem}")
        if self.codec in RAW_CODECS and not isinstance(file, RangeFile):
            self._read_beyond_header(file)
        self._dtype = "int16" if subtype in _INT16_SUBTYPES else "float32"
        self._run_up = int(_RUN_UP_S * self.sampling_rate) if self.codec == "mp3" else 0

    def _opened(self) -> sf.SoundFile:
        """Open by descriptor: without a name, the content decides on the format."""
        file = self._descriptor
        if isinstance(file, RangeFile):
            return sf.SoundFile(file, closefd=False)
        if self._sound is None:
            return sf.SoundFile(file.fileno(), closefd=False)
        return sf.SoundFile(
            FileSlice(file, self._sound.start, self._sound.start + self._sound.available),
            samplerate=self._file.samplerate,
            channels=self._file.channels,
            subtype=self._file.subtype,
            endian=self._byte_order(),
            format="RAW",
        )

    def _byte_order(self) -> str:
        """Return the order of bytes in samples, as python-soundfile names it."""
        if self._file.endian in ("LITTLE", "BIG"):
            return str(self._file.endian)
        return "BIG" if self.container in ("AIFF", "AU", "CAF") else "LITTLE"

    def _reopen(self) -> None:
        """Open the file once more, with a new decoder."""
        opened = self._opened()
        self._file.close()
        self._file = opened

    def _read_beyond_header(self, file: BinaryIO) -> None:
        """Read the sound up to its end where the length in the header is 0 or has wrapped."""
        size = os.fstat(file.fileno()).st_size
        # In Wave64, libsndfile does not look at the length.
        if self.declared_samples and self.container != "W64" and size < _LONGEST_LENGTH:
            return
        sound = find_sound_bytes(file)
        if sound is None or not (sound.declared is None or sound.has_wrapped):
            return
        self._sound = sound
        self._reopen()
        self.declared_samples = self._file.frames

    @property
    def local_file(self) -> BinaryIO:
        """The open file, where it is on this machine."""
        return cast("BinaryIO", self._descriptor)

    #: See `AvRecording`: files that libsndfile reads have no pictures.
    sound_start = 0
    number = 1

    def tracks(self) -> "list[AudioTrack]":
        """Return no tracks: files that libsndfile reads have no others than their own."""
        return []

    def track(self, number: int) -> "SoundfileRecording":
        """Return the recording, which is the only track; raise AudioError for another number."""
        if number != 1:
            raise AudioError(f"{self.path}: has one audio track, no track {number}")
        return self

    @property
    def seeks(self) -> bool:
        """Whether a window is read without decoding the recording from its beginning."""
        return True

    @property
    def is_exact(self) -> bool:
        """Whether length and windows are reliable.

        Of MP3 files only those of two channels and 32 kHz or more, with a consistent tag, are.
        """
        # libsndfile makes an absurd length negative, and an open one longer than the bound. In GSM
        # and some ADPCM it cannot seek.
        bounded = 0 <= self.declared_samples < _OPEN_LENGTH
        if not bounded or not self._file.seekable() or self.codec in _INEXACT_CODECS:
            return False
        # With one channel or lower rates, libmpg123 adds up in another order after a seek, which
        # changes the last bit.
        return self.codec != "mp3" or (
            self.num_channels == 2
            and self.sampling_rate >= 32000
            and is_consistent(self._descriptor.fileno())
        )

    def read(self, start: int, stop: int) -> Window:
        """See `Recording.read`."""
        # Run-up and window in one call: python-soundfile seeks after every read, which restarts an
        # MP3 decoder.
        first = max(0, start - self._run_up)
        if self._has_failed or (
            self.codec.startswith("alac_") and not isinstance(self._descriptor, RangeFile)
        ):
            # After an error, and with a damaged packet table of ALAC, what libsndfile reads depends
            # on earlier reads.
            self._descriptor.seek(0)
            self._reopen()
            self._has_failed = False
        try:
            if self._file.seek(first) != first:
                raise AudioError(f"{self.path}: sample {start} is not found where the header says")
            window: Window = self._file.read(stop - first, dtype=self._dtype, always_2d=True)
        except sf.LibsndfileError as error:
            self._has_failed = True
            raise AudioError(
                f"{self.path}: samples {start} to {stop} cannot be decoded ({error})"
            ) from error
        finally:
            if isinstance(self._descriptor, RangeFile):
                self._descriptor.settle()
        return window[start - first :]

    def close(self) -> None:
        """Release the file."""
        self._file.close()
        self._descriptor.close()


#: Limit of a clip, over all channels: 90 minutes at 48 kHz, 512 MB, which a FLAC of 1 MB holds if
#: it is silent.
MOST_SAMPLES = 1 << 28


def on_track(recording: Recording, channel: str) -> tuple[Recording, str]:
    """Return the recording of the audio track that a channel names, and the channel in it."""
    number, own_channel = split_track(channel)
    if number is None:
        return recording, own_channel
    return recording.track(number), own_channel


def read_around(recording: Recording, start: int, stop: int, begin: int, end: int) -> Window:
    """Read samples [begin, end) of a recording.

    Raise AudioError if [start, stop) is not all there, or is too long for a clip.
    """
    if (stop - start) * recording.num_channels > MOST_SAMPLES:
        minutes = [
            samples / recording.sampling_rate / 60
            for samples in (stop - start, MOST_SAMPLES / recording.num_channels)
        ]
        raise AudioError(
            f"samples {start} to {stop} are {minutes[0]:,.0f} minutes, too many for one clip; "
            f"at most {minutes[1]:,.0f} of such a recording are taken"
        )
    window = recording.read(begin, end)
    if begin + len(window) < stop:
        raise AudioError(
            f"samples {start} to {stop} do not exist, the recording ends after "
            f"{begin + len(window)}"
        )
    return window
