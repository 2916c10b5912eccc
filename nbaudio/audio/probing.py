"""What a recording really is: headers are read, and not believed."""

import re
from dataclasses import dataclass
from pathlib import Path

import soundfile as sf

from nbaudio.audio.ffmpeg import AvRecording
from nbaudio.audio.reasons import no_samples
from nbaudio.audio.recordings import SoundfileRecording, open_recording
from nbaudio.errors import AudioError
from nbaudio.places import Remote

# Enough to make a decoder touch the last frames.
_TAIL_SAMPLES = 4096
# Samples of all channels together.
_COUNT_BLOCK = 1 << 20


@dataclass(frozen=True)
class Probe:
    """Facts about a recording.

    Attributes:
        sampling_rate: Hz.
        num_channels: number of channels.
        num_samples: samples per channel that can be decoded, which may be fewer than the header declares.
        codec: such as ``pcm_16``, ``flac``, ``mp3``, ``aac``, ``opus``.
        warning: what is wrong with the file although it can be used; None when nothing is.
    """

    sampling_rate: int
    num_channels: int
    num_samples: int
    codec: str
    warning: str | None = None


def probe(path: Path | Remote) -> Probe:
    """Read a recording's header and make sure that its end is where the header says.

    Only a file whose end is not there is decoded whole, to find where it ends. Encoder delay that an MP3's or MP4's header
    declares is not counted: sample 0 is the first sample that was recorded.

    Raises:
        AudioError: it cannot be decoded at all, or holds no sample; names the file and why.

    Examples:
        >>> import tempfile, soundfile
        >>> path = Path(tempfile.mkdtemp()) / "a.wav"
        >>> soundfile.write(path, [0.0] * 800, 8000)
        >>> probe(path)
        Probe(sampling_rate=8000, num_channels=1, num_samples=800, codec='pcm_16', warning=None)
    """
    if isinstance(path, Remote):
        with path.fetched() as fetched:
            return probe(fetched)
    with open_recording(path) as recording:
        if isinstance(recording, SoundfileRecording):
            num_samples, warning = _check_end(recording, path)
        elif isinstance(recording, AvRecording):
            num_samples, warning = recording.count_samples(), None
            if recording.declared_samples:
                warning = _short(recording.declared_samples, num_samples, recording.sampling_rate)
        if num_samples <= 0:
            raise AudioError(f"{path}: {no_samples(path)}")
        return Probe(recording.sampling_rate, recording.num_channels, num_samples, recording.codec, warning)


def _check_end(recording: SoundfileRecording, path: Path) -> tuple[int, str | None]:
    declared = recording.declared_samples
    # libsndfile clips a WAV's data chunk to the file and says so in its log only.
    lie = re.search(r"data : (\d+) \(should be (\d+)\)", recording.log)
    tail = min(declared, _TAIL_SAMPLES)
    try:
        whole = len(recording.read(declared - tail, declared)) == tail
    except AudioError:
        whole = False
    if not whole:
        held = _count(path, recording.num_channels)
        return held, _short(declared, held, recording.sampling_rate)
    if lie and int(lie[2]) < int(lie[1]):
        return declared, _short(int(declared * int(lie[1]) / max(1, int(lie[2]))), declared, recording.sampling_rate)
    return declared, None


def _count(path: Path, channels: int) -> int:
    """Samples that decode from the start on; where a block breaks, smaller ones find the last sample before the break."""
    held, block = 0, _COUNT_BLOCK // channels
    while block:
        try:
            with path.open("rb") as opened, sf.SoundFile(opened.fileno(), closefd=False) as file:
                file.seek(held)
                while got := len(file.read(block, dtype="int16")):
                    held += got
                return held
        except sf.LibsndfileError:
            block //= 2
    return held


def _short(declared: int, held: int, rate: int) -> str | None:
    if declared - held < rate / 10:  # an estimate from a bit rate, or a last frame: nobody misses it
        return None
    return f"truncated: the header declares {declared / rate:.1f} s, {held / rate:.1f} s can be decoded"
