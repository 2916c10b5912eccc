"""Recordings of every kind that nbaudio reads, made with its own requirements; and the tolerances
of their windows."""

import subprocess
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import soundfile as sf
from av.audio.resampler import AudioResampler
from conftest import sweeps

from nbaudio.audio import open_recording

Write = Callable[[Path, np.ndarray, int], None]


class Kind(NamedTuple):
    """A kind of recording.

    Attributes:
        name: as docs/audio.md lists it.
        suffix: of its files.
        write: makes one.
        rate: Hz.
        channels: number of channels.
        rates: others that its encoder takes.
        low: makes one at a low bit rate; None where a kind has but one.
    """

    name: str
    suffix: str
    write: Write
    rate: int = 48000
    channels: int = 2
    rates: tuple[int, ...] = (8000, 16000, 44100, 48000)
    low: Write | None = None


class Variant(NamedTuple):
    """A kind at one rate, number of channels, bit rate and length in seconds."""

    kind: Kind
    rate: int
    channels: int
    low: bool
    seconds: float


def with_soundfile(
    path: Path,
    samples: np.ndarray,
    rate: int,
    *,
    container: str,
    subtype: str,
    compression: float | None = None,
) -> None:
    """Write samples with libsndfile, in a container and sample format."""
    with sf.SoundFile(
        path,
        "w",
        rate,
        samples.shape[1],
        format=container,
        subtype=subtype,
        compression_level=compression,
    ) as file:
        # Libsndfile crashes when it gets a minute of Vorbis at once
        for first in range(0, len(samples), rate):
            file.write(samples[first : first + rate])


def with_av(
    path: Path,
    samples: np.ndarray,
    rate: int,
    *,
    codec: str,
    container: str | None = None,
    bit_rate: int | None = None,
    frame_samples: int | None = None,
) -> None:
    """Encode with the encoders of PyAV; `bit_rate` is that of a channel, and `frame_samples` the
    length of frames, which become packets of PCM; all samples are one frame without it."""
    layout = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}[samples.shape[1]]
    with av.open(str(path), "w", format=container, options={"fflags": "+bitexact"}) as file:
        stream = file.add_stream(codec, rate=rate, layout=layout)
        if bit_rate:
            stream.bit_rate = bit_rate * samples.shape[1]
        for start in range(0, len(samples), frame_samples or len(samples)):
            part = samples[start : start + (frame_samples or len(samples))]
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(part).reshape(1, -1), format="flt", layout=layout
            )
            frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))


def rewrapped(path: Path, samples: np.ndarray, rate: int, *, made: Write, suffix: str) -> None:
    """Packets of another container, unchanged."""
    inner = path.with_name(f"{path.stem}.inner{suffix}")
    made(inner, samples, rate)
    with (
        av.open(str(inner)) as source,
        av.open(str(path), "w", options={"fflags": "+bitexact"}) as target,
    ):
        stream = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    inner.unlink()


def _sf(container: str, subtype: str, compression: float | None = None) -> Write:
    """A writer that calls `with_soundfile` with these options."""
    return partial(with_soundfile, container=container, subtype=subtype, compression=compression)


def _av(codec: str, container: str | None = None, bit_rate: int | None = None) -> Write:
    """A writer that calls `with_av` with these options."""
    return partial(with_av, codec=codec, container=container, bit_rate=bit_rate)


def _lossy(
    name: str,
    suffix: str,
    codec: str,
    container: str | None = None,
    *,
    rate: int = 48000,
    channels: int = 2,
    rates: tuple[int, ...] = (8000, 16000, 44100, 48000),
    low: int = 32_000,
    usual: int = 64_000,
) -> Kind:
    """A kind at two bit rates a channel."""
    return Kind(
        name,
        suffix,
        _av(codec, container, usual),
        rate,
        channels,
        rates,
        _av(codec, container, low),
    )


_OPUS = (8000, 16000, 48000)
_MP2 = (16000, 44100, 48000)
_AC3 = (44100, 48000)
_OGG, _LOW_OGG = (_sf("OGG", "VORBIS", level) for level in (0.4, 0.9))

KINDS = (
    Kind("WAV, PCM 8", ".wav", _sf("WAV", "PCM_U8"), 8000, 1),
    Kind("WAV, PCM 16", ".wav", _sf("WAV", "PCM_16")),
    Kind("WAV, PCM 24", ".wav", _sf("WAVEX", "PCM_24"), 192000, 2),
    Kind("WAV, PCM 32", ".wav", _sf("WAVEX", "PCM_32"), 96000, 8),
    Kind("WAV, float 32", ".wav", _sf("WAV", "FLOAT")),
    Kind("WAV, float 64", ".wav", _sf("WAV", "DOUBLE")),
    Kind("WAV, mu-law", ".wav", _sf("WAV", "ULAW"), 8000, 1),
    Kind("WAV, A-law", ".wav", _sf("WAV", "ALAW"), 8000, 2),
    Kind("WAV, IMA ADPCM", ".wav", _av("adpcm_ima_wav"), 44100, 2),
    Kind("WAV, GSM 06.10", ".wav", _sf("WAV", "GSM610"), 8000, 1, (8000,)),
    Kind("WAV, G.722", ".wav", _av("g722"), 16000, 1, (16000,)),
    Kind("WAV, G.726", ".wav", _av("g726"), 8000, 1, (8000,)),
    _lossy("WAV, MP3", ".wav", "libmp3lame", rate=44100),
    _lossy("WAV, MP2", ".wav", "mp2", channels=1, rates=_MP2),
    Kind("RF64", ".wav", _sf("RF64", "PCM_16")),
    Kind("Wave64", ".w64", _sf("W64", "PCM_24")),
    Kind("AIFF, PCM 16", ".aiff", _sf("AIFF", "PCM_16"), 44100, 2),
    Kind("AIFF, PCM 24", ".aiff", _sf("AIFF", "PCM_24"), 44100, 1),
    Kind("SPHERE (NIST), PCM 16", ".sph", _sf("NIST", "PCM_16"), 16000, 1),
    Kind("SPHERE (NIST), mu-law", ".sph", _sf("NIST", "ULAW"), 8000, 2),
    Kind("AU, mu-law", ".au", _sf("AU", "ULAW"), 8000, 1),
    Kind("CAF, PCM 16", ".caf", _sf("CAF", "PCM_16")),
    Kind("CAF, ALAC", ".caf", _sf("CAF", "ALAC_16"), 44100, 2),
    Kind("PCM 16 in QuickTime", ".mov", _av("pcm_s16be")),
    Kind("PCM 16 in AVI", ".avi", _av("pcm_s16le"), 44100, 1),
    Kind("PCM 24 in Matroska", ".mkv", _av("pcm_s24le")),
    Kind("FLAC", ".flac", _sf("FLAC", "PCM_16"), 48000, 8),
    Kind("FLAC, 24 bits", ".flac", _sf("FLAC", "PCM_24"), 96000, 1),
    Kind("FLAC in Matroska", ".mka", _av("flac")),
    Kind("FLAC in Ogg", ".oga", _av("flac", "ogg"), 44100, 2),
    Kind("FLAC in MP4", ".mp4", _av("flac"), 44100, 1),
    Kind("WavPack", ".wv", _av("wavpack"), 44100, 2),
    Kind("TTA", ".tta", _av("tta"), 44100, 2),
    Kind("ALAC in MP4", ".m4a", _av("alac"), 44100, 2),
    Kind(
        "MP3",
        ".mp3",
        _sf("MP3", "MPEG_LAYER_III"),
        44100,
        2,
        low=_av("libmp3lame", bit_rate=32_000),
    ),
    Kind(
        "MP3, one channel",
        ".mp3",
        _sf("MP3", "MPEG_LAYER_III"),
        22050,
        1,
        low=_av("libmp3lame", bit_rate=16_000),
    ),
    _lossy("MP3 in Matroska", ".mka", "libmp3lame"),
    _lossy("MP3 in MP4", ".mp4", "libmp3lame", rate=44100, rates=(16000, 44100, 48000)),
    _lossy("MP3 in AVI", ".avi", "libmp3lame"),
    _lossy("MP2 in MPEG-TS", ".ts", "mp2", rates=_MP2),
    _lossy("MP2 in MPEG-PS", ".mpg", "mp2", "mpeg", rates=_MP2),
    Kind("Vorbis in Ogg", ".ogg", _OGG, 44100, 2, low=_LOW_OGG),
    Kind(
        "Vorbis in WebM",
        ".webm",
        partial(rewrapped, made=_OGG, suffix=".ogg"),
        44100,
        low=partial(rewrapped, made=_LOW_OGG, suffix=".ogg"),
    ),
    _lossy("Opus in Ogg", ".opus", "libopus", rates=_OPUS, low=12_000),
    _lossy("Opus in WebM", ".webm", "libopus", rates=_OPUS, low=16_000),
    _lossy("Opus in MP4", ".mp4", "libopus", channels=1, rates=_OPUS, low=12_000),
    _lossy("AAC in MP4", ".m4a", "aac", rate=44100),
    Kind("AAC in MP4, 5.1", ".mp4", _av("aac", bit_rate=64_000), 48000, 6),
    Kind("AAC in MP4, 7.1", ".mp4", _av("aac", bit_rate=64_000), 48000, 8),
    _lossy("AAC in Matroska", ".mka", "aac", rate=44100),
    _lossy("AAC, bare (ADTS)", ".aac", "aac", "adts", rate=44100),
    _lossy("AAC in MPEG-TS", ".ts", "aac", rate=44100),
    _lossy("AAC in QuickTime", ".mov", "aac"),
    _lossy("AAC in 3GP", ".3gp", "aac", rate=16000, channels=1),
    _lossy("AAC in FLV", ".flv", "aac", rate=44100, rates=(44100,)),
    _lossy("WMA, version 1", ".wma", "wmav1", rate=44100),
    _lossy("WMA", ".wma", "wmav2", rate=44100),
    _lossy("MP2", ".mp2", "mp2", rate=44100, rates=_MP2),
    _lossy("AC-3 in Matroska", ".mka", "ac3", rates=_AC3, low=48_000, usual=96_000),
    _lossy("AC-3, bare", ".ac3", "ac3", rates=_AC3, low=48_000, usual=96_000),
    _lossy("AC-3 in MPEG-TS", ".ts", "ac3", channels=6, rates=_AC3),
    _lossy("AC-3 in MPEG-PS", ".vob", "ac3", "vob", rates=_AC3, low=48_000, usual=96_000),
    _lossy("E-AC-3 in MP4", ".mp4", "eac3", channels=6, rates=_AC3),
)

#: Further kinds, which are damaged in tests.
DAMAGED_KINDS = (
    Kind("FLAC, 24 bits, 5.1", ".flac", _sf("FLAC", "PCM_24"), 192_000, 6),
    Kind(
        "PCM 16 in NUT",
        ".nut",
        partial(with_av, codec="pcm_s16le", frame_samples=2048),
        16000,
        1,
    ),
    Kind(
        "PCM 24 in Matroska, short packets",
        ".mka",
        partial(with_av, codec="pcm_s24le", frame_samples=1024),
        48000,
        2,
    ),
    Kind(
        "PCM 16 in AVI, short packets",
        ".avi",
        partial(with_av, codec="pcm_s16le", frame_samples=1024),
        44100,
        1,
    ),
    Kind(
        "PCM 16 in QuickTime, short packets",
        ".mov",
        partial(with_av, codec="pcm_s16be", frame_samples=1024),
        48000,
        2,
    ),
    Kind("FLAC in NUT", ".nut", _av("flac"), 44100, 2),
    Kind("MP3 in FLV", ".flv", _av("libmp3lame", bit_rate=64_000), 44100, 2),
    Kind("MP3 in FLV, one channel", ".flv", _av("libmp3lame", bit_rate=32_000), 22050, 1),
    Kind("Opus in Matroska, 5.1", ".mka", _av("libopus", bit_rate=32_000), 48000, 6),
    Kind("Opus in Ogg, 5.1", ".opus", _av("libopus", bit_rate=32_000), 48000, 6),
    Kind("WAV, Microsoft ADPCM", ".wav", _av("adpcm_ms"), 22050, 1),
    Kind("Wave64, GSM 06.10", ".w64", _sf("W64", "GSM610"), 8000, 1),
    Kind("AIFF, GSM 06.10", ".aiff", _sf("AIFF", "GSM610"), 8000, 1),
    Kind("AIFF, IMA ADPCM", ".aiff", _sf("AIFF", "IMA_ADPCM"), 16000, 1),
    Kind("CAF, ALAC, 24 bits, 5.1", ".caf", _sf("CAF", "ALAC_24"), 48000, 6),
)


def variants(kind: Kind) -> list[Variant]:
    """A kind at each of its rates with one and with two channels; bit rates and lengths alternate
    so that each pair occurs."""
    made = []
    for number, rate in enumerate(kind.rates):
        for channels in (
            (1, 2) if kind.name not in ("WAV, GSM 06.10", "WAV, G.722", "WAV, G.726") else (1,)
        ):
            low = kind.low is not None and (number + channels) % 2 == 1
            made.append(
                Variant(kind, rate, channels, low, 1.0 if (number // 2 + channels) % 2 else 9.0)
            )
    if kind.low and len(kind.rates) < 4:  # the pairs that are missing
        made += [
            Variant(kind, kind.rates[-1], 1, low, seconds)
            for low in (False, True)
            for seconds in (1.0, 9.0)
        ]
    return made


def with_ffmpeg(path: Path, samples: np.ndarray, rate: int, *, options: tuple[str, ...]) -> None:
    """Encode with the ffmpeg of this machine, for what PyAV has a decoder of and no encoder."""
    inner = path.with_name(f"{path.stem}.inner.wav")
    sf.write(inner, samples, rate)
    command = [
        "ffmpeg",
        "-nostdin",
        "-loglevel",
        "error",
        "-y",
        "-i",
        str(inner),
        "-strict",
        "-2",
        *options,
        str(path),
    ]
    subprocess.run(command, check=True)
    inner.unlink()


def _ffmpeg(*options: str) -> Write:
    """A writer that calls `with_ffmpeg` with these options."""
    return partial(with_ffmpeg, options=options)


#: Made in tests/heavy alone; the encoders of AMR are in Debian's libavcodec-extra, and not in every
#: PyAV.
FFMPEG_KINDS = (
    Kind("AMR", ".amr", _ffmpeg("-c:a", "libopencore_amrnb", "-b:a", "12200"), 8000, 1),
    Kind("AMR in 3GP", ".3gp", _ffmpeg("-c:a", "libopencore_amrnb", "-b:a", "12200"), 8000, 1),
    Kind(
        "AMR-WB", ".awb", _ffmpeg("-c:a", "libvo_amrwbenc", "-b:a", "23850", "-f", "amr"), 16000, 1
    ),
    Kind("AMR-WB in 3GP", ".3gp", _ffmpeg("-c:a", "libvo_amrwbenc", "-b:a", "6600"), 16000, 1),
    Kind("Speex in Ogg", ".spx", _ffmpeg("-c:a", "libspeex"), 16000, 1),
    Kind("DTS", ".dts", _ffmpeg("-c:a", "dca")),
    Kind("TrueHD in Matroska", ".mkv", _ffmpeg("-c:a", "truehd")),
    Kind("AAC (LATM) in MPEG-TS", ".ts", _ffmpeg("-c:a", "aac", "-mpegts_flags", "latm"), 44100, 2),
)


@cache
def _sweeps(seconds: float, rate: int, channels: int) -> np.ndarray:
    """Sweeps of a length, in samples x channels."""
    return sweeps(seconds, rate, channels=channels)


def make(
    kind: Kind,
    folder: Path,
    seconds: float = 6.0,
    samples: np.ndarray | None = None,
    *,
    low: bool = False,
) -> Path:
    """A recording of a kind, of `sweeps` unless other samples are given."""
    stem = "".join(letter if letter.isalnum() else "_" for letter in kind.name)
    path = folder / f"{stem}{kind.suffix}"
    if samples is None:
        samples = _sweeps(seconds, kind.rate, kind.channels)
    (kind.low if low and kind.low else kind.write)(path, samples, kind.rate)
    return path


def make_variant(variant: Variant, folder: Path) -> Path:
    """A recording of a variant."""
    kind = variant.kind._replace(rate=variant.rate, channels=variant.channels)
    return make(kind, folder, variant.seconds, low=variant.low)


def padded(data: bytes) -> av.Packet:
    """A packet with zeros behind its end, which decoders read; a packet that is made of bytes has
    what happens to be there."""
    packet = av.Packet(len(data))
    packet.update(data)
    return packet


def decoded(path: Path) -> np.ndarray:
    """All samples as another program would decode them in one pass: FFmpeg, or libsndfile where
    FFmpeg is wrong about the end."""
    if path.suffix in (".ogg", ".caf"):
        return sf.read(path, dtype="float32", always_2d=True)[0]
    to_packed = AudioResampler(format="flt")
    with av.open(str(path)) as file:
        context = file.streams.audio[0].codec_context
        decode = file.decode(audio=0)
        if path.suffix == ".mp4" and context.name.endswith("opus"):
            # FFmpeg drops too little at the beginning where the container's clock is not of 48 kHz;
            # the decoder alone is right.
            alone = av.CodecContext.create("opus", "r")
            alone.extradata = context.extradata
            packets = [padded(bytes(packet)) for packet in file.demux(audio=0) if packet.size]
            decode = (frame for packet in [*packets, None] for frame in alone.decode(packet))
        frames = [packed for frame in decode for packed in to_packed.resample(frame)]
    return np.concatenate(
        [frame.to_ndarray().reshape(-1, frame.layout.nb_channels) for frame in frames]
    )


def full_scale(samples: np.ndarray) -> np.ndarray:
    """Samples as float64 with a full scale of 1."""
    with np.errstate(invalid="ignore"):  # damaged files may hold values that are no numbers
        return samples.astype(np.float64) / (32768 if samples.dtype == np.int16 else 1)


def largest_difference(path: Path, num_samples: int, *, windows: int, seed: int) -> float:
    """How far windows are from a read of the whole recording: in random, rising and falling order,
    and each from a fresh open.

    Raises:
        AssertionError: a window is not as long as was asked for, or depends on what was read
            before.
    """
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, num_samples - 100, windows).tolist()
    starts[: windows // 3] = rng.integers(
        max(0, num_samples - 20_000), num_samples - 100, windows // 3
    ).tolist()
    rng.shuffle(starts)
    asked = [(start, min(num_samples, start + int(rng.integers(1, 5000)))) for start in starts]
    with open_recording(path) as recording:
        whole = full_scale(recording.read(0, num_samples))
    assert len(whole) == num_samples
    found: dict[tuple[int, int], np.ndarray] = {}
    largest = 0.0
    for order in (asked, sorted(asked)[: windows // 2], sorted(asked)[::-2]):
        with open_recording(path) as recording:
            for start, stop in order:
                window = full_scale(recording.read(start, stop))
                assert len(window) == stop - start
                assert np.array_equal(found.setdefault((start, stop), window), window), (
                    "it depends on what was read before"
                )
                largest = max(largest, float(np.abs(window - whole[start:stop]).max()))
    for start, stop in asked[: windows // 4]:
        with open_recording(path) as recording:
            assert np.array_equal(full_scale(recording.read(start, stop)), found[start, stop]), (
                "it depends on earlier reads"
            )
    return largest
