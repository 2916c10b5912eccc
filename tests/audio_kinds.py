"""Recordings of every kind that nbaudio reads, made with what it installs; and what their windows must hold to."""

import subprocess
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import soundfile as sf
from conftest import sweeps

Write = Callable[[Path, np.ndarray, int], None]


class Kind(NamedTuple):
    """A kind of recording.

    Attributes:
        name: as docs/audio.md lists it.
        suffix: of its files.
        write: makes one.
        rate: Hz.
        channels: number of channels.
    """

    name: str
    suffix: str
    write: Write
    rate: int = 48000
    channels: int = 2


def with_soundfile(path: Path, samples: np.ndarray, rate: int, *, container: str, subtype: str) -> None:
    sf.write(path, samples, rate, format=container, subtype=subtype)


def with_av(path: Path, samples: np.ndarray, rate: int, *, codec: str, container: str | None = None) -> None:
    layout = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}[samples.shape[1]]
    with av.open(str(path), "w", format=container, options={"fflags": "+bitexact"}) as file:
        stream = file.add_stream(codec, rate=rate, layout=layout)
        if codec.startswith("wma"):
            stream.bit_rate = 128_000
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples).reshape(1, -1), format="flt", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))


def rewrapped(path: Path, samples: np.ndarray, rate: int, *, made: Write, suffix: str) -> None:
    """Packets of another container, unchanged."""
    inner = path.with_name(f"{path.stem}.inner{suffix}")
    made(inner, samples, rate)
    with av.open(str(inner)) as source, av.open(str(path), "w", options={"fflags": "+bitexact"}) as target:
        stream = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    inner.unlink()


def _sf(container: str, subtype: str) -> Write:
    return partial(with_soundfile, container=container, subtype=subtype)


def _av(codec: str, container: str | None = None) -> Write:
    return partial(with_av, codec=codec, container=container)


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
    Kind("WAV, GSM 06.10", ".wav", _sf("WAV", "GSM610"), 8000, 1),
    Kind("WAV, G.722", ".wav", _av("g722"), 16000, 1),
    Kind("WAV, G.726", ".wav", _av("g726"), 8000, 1),
    Kind("WAV, MP3", ".wav", _av("libmp3lame"), 44100, 2),
    Kind("WAV, MP2", ".wav", _av("mp2"), 48000, 1),
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
    Kind("MP3", ".mp3", _sf("MP3", "MPEG_LAYER_III"), 44100, 2),
    Kind("MP3, one channel", ".mp3", _sf("MP3", "MPEG_LAYER_III"), 22050, 1),
    Kind("MP3 in Matroska", ".mka", _av("libmp3lame")),
    Kind("MP3 in MP4", ".mp4", _av("libmp3lame"), 44100, 2),
    Kind("MP3 in AVI", ".avi", _av("libmp3lame"), 48000, 2),
    Kind("MP2 in MPEG-TS", ".ts", _av("mp2")),
    Kind("MP2 in MPEG-PS", ".mpg", _av("mp2", "mpeg")),
    Kind("Vorbis in Ogg", ".ogg", _sf("OGG", "VORBIS"), 44100, 2),
    Kind("Vorbis in WebM", ".webm", partial(rewrapped, made=_sf("OGG", "VORBIS"), suffix=".ogg"), 44100, 2),
    Kind("Opus in Ogg", ".opus", _av("libopus")),
    Kind("Opus in WebM", ".webm", _av("libopus")),
    Kind("Opus in MP4", ".mp4", _av("libopus"), 48000, 1),
    Kind("AAC in MP4", ".m4a", _av("aac"), 44100, 2),
    Kind("AAC in MP4, 5.1", ".mp4", _av("aac"), 48000, 6),
    Kind("AAC in MP4, 7.1", ".mp4", _av("aac"), 48000, 8),
    Kind("AAC in Matroska", ".mka", _av("aac"), 44100, 2),
    Kind("AAC, bare (ADTS)", ".aac", _av("aac", "adts"), 44100, 2),
    Kind("AAC in MPEG-TS", ".ts", _av("aac"), 44100, 2),
    Kind("AAC in QuickTime", ".mov", _av("aac")),
    Kind("AAC in 3GP", ".3gp", _av("aac"), 16000, 1),
    Kind("AAC in FLV", ".flv", _av("aac"), 44100, 2),
    Kind("WMA, version 1", ".wma", _av("wmav1"), 44100, 2),
    Kind("WMA", ".wma", _av("wmav2"), 44100, 2),
    Kind("MP2", ".mp2", _av("mp2"), 44100, 2),
    Kind("AC-3 in Matroska", ".mka", _av("ac3")),
    Kind("AC-3, bare", ".ac3", _av("ac3")),
    Kind("AC-3 in MPEG-TS", ".ts", _av("ac3"), 48000, 6),
    Kind("AC-3 in MPEG-PS", ".vob", _av("ac3", "vob")),
    Kind("E-AC-3 in MP4", ".mp4", _av("eac3"), 48000, 6),
)


def with_ffmpeg(path: Path, samples: np.ndarray, rate: int, *, options: tuple[str, ...]) -> None:
    """Encode with the ffmpeg of this machine, for what PyAV has a decoder of and no encoder."""
    inner = path.with_name(f"{path.stem}.inner.wav")
    sf.write(inner, samples, rate)
    command = ["ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-i", str(inner), "-strict", "-2", *options, str(path)]
    subprocess.run(command, check=True)
    inner.unlink()


def _ffmpeg(*options: str) -> Write:
    return partial(with_ffmpeg, options=options)


#: Made in tests/heavy alone; the encoders of AMR are in Debian's libavcodec-extra, and not in every PyAV.
FFMPEG_KINDS = (
    Kind("AMR", ".amr", _ffmpeg("-c:a", "libopencore_amrnb", "-b:a", "12200"), 8000, 1),
    Kind("AMR in 3GP", ".3gp", _ffmpeg("-c:a", "libopencore_amrnb", "-b:a", "12200"), 8000, 1),
    Kind("AMR-WB", ".awb", _ffmpeg("-c:a", "libvo_amrwbenc", "-b:a", "23850", "-f", "amr"), 16000, 1),
    Kind("AMR-WB in 3GP", ".3gp", _ffmpeg("-c:a", "libvo_amrwbenc", "-b:a", "6600"), 16000, 1),
    Kind("Speex in Ogg", ".spx", _ffmpeg("-c:a", "libspeex"), 16000, 1),
    Kind("DTS", ".dts", _ffmpeg("-c:a", "dca")),
    Kind("TrueHD in Matroska", ".mkv", _ffmpeg("-c:a", "truehd")),
    Kind("AAC (LATM) in MPEG-TS", ".ts", _ffmpeg("-c:a", "aac", "-mpegts_flags", "latm"), 44100, 2),
)


@cache
def _sweeps(seconds: float, rate: int, channels: int) -> np.ndarray:
    return sweeps(seconds, rate, channels=channels)


def make(kind: Kind, folder: Path, seconds: float = 6.0, samples: np.ndarray | None = None) -> Path:
    """A recording of a kind, of `sweeps` unless other samples are given."""
    stem = "".join(letter if letter.isalnum() else "_" for letter in kind.name)
    path = folder / f"{stem}{kind.suffix}"
    if samples is None:
        samples = _sweeps(seconds, kind.rate, kind.channels)
    kind.write(path, samples, kind.rate)
    return path
