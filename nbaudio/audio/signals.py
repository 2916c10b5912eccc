"""Signals: what the samples of a segment say about it, such as noise, clipping and speech.

The definitions are in docs/audio.md.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from nbaudio.audio.recording_reader import Recording, on_track, read_around
from nbaudio.audio.segment_audio import (
    EQUAL,
    LOUD_DB,
    NOTHING,
    QUIET_PART,
    Bools,
    Numbers,
    Samples,
    SegmentAudio,
    runs_of,
)
from nbaudio.core.errors import AudioError

Value = float | bool | None

VERSION = 2
"""Changed whenever the same segment would get other values."""

_CONTEXT_S = 0.2  # seconds that are read on each side of a segment, where the recording has them
_MOST_STEP = 0.04  # largest quantization step, as a share of the rail: that of 8-bit codes
_FEWEST_CLIPPED = 6  # fewer samples at a rail are not clipping
_CUT_HOPS = 2  # hops on each side of a boundary that are speech where speech is cut
# Speech at the edge of a recording is cut if it is at most this far below the loudest hop.
_ABRUPT_DB = 20.0
_DEAD_POWER = 1e-8  # -80 dBFS
_BAND_HZ = 100.0
_EDGE_HZ = 400.0
_EDGE_FROM_HZ = 1000.0
_BAND_DB = 60.0
_EDGE_DB = 18.0


def _db(power: float) -> float:
    return 10 * float(np.log10(max(power, NOTHING)))


def _levels(audio: SegmentAudio) -> tuple[Value, ...]:
    """Return RMS and peak in dBFS without DC, and the DC; None in digital silence."""
    if audio.num_silent == audio.num_samples:
        return None, None, None
    highest, lowest = audio.extremes[:, audio.inside].max(axis=1)
    rest = np.abs(audio.rest - audio.dc_offset).max(initial=0)
    peak = max(float(highest) - audio.dc_offset, float(lowest) + audio.dc_offset, float(rest))
    return _db(audio.energy / audio.num_samples), _db(peak**2), audio.dc_offset


def _clipping(audio: SegmentAudio) -> tuple[Value, ...]:
    """Return the share of samples that are clipped; None in digital silence."""
    if audio.num_silent == audio.num_samples:
        return (None,)
    clipped = 0
    for sign, highest in zip((1, -1), audio.extremes[:, audio.inside], strict=True):
        rail = highest.max() - EQUAL
        starts = np.flatnonzero(highest >= rail)[:_FEWEST_CLIPPED] * audio.hop
        hops = [sign * audio.mixed(start, start + audio.hop) for start in starts.tolist()]
        # Only where the maximum occurs often enough, all samples are looked at.
        if sum(int(np.count_nonzero(hop >= rail)) for hop in hops) >= _FEWEST_CLIPPED:
            clipped += _at_rail(sign * audio.samples)
    return (clipped / audio.num_samples,)


def _at_rail(x: Samples) -> int:
    """Count samples in runs at the maximum, without round peaks that quantization makes flat.

    Such peaks fall off slowly on both sides.
    """
    rail = float(x.max())
    if rail <= 0:
        return 0
    at = x >= rail - EQUAL
    runs = runs_of(at)
    runs = runs[runs[:, 1] - runs[:, 0] >= 2]
    step = min(max(rail - float(x[~at].max(initial=-rail)), EQUAL), _MOST_STEP * rail)
    # A round peak is a parabola. If it stays within one step over the run, it falls by at most the
    # amount below until half a run away from it; clipped runs fall more.
    half = (runs[:, 1] - runs[:, 0] - 1) / 2
    away = (half + 1).astype(np.int64)
    sides = np.clip(np.stack([runs[:, 0] - away, runs[:, 1] - 1 + away]), 0, len(x) - 1)
    is_flat = (rail - x[sides]).max(axis=0) > ((half + away + 0.5) / half) ** 2 * step + EQUAL
    count = int((runs[is_flat, 1] - runs[is_flat, 0]).sum())
    return count if count >= _FEWEST_CLIPPED else 0


def _noise(audio: SegmentAudio) -> tuple[Value, ...]:
    """Return the SNR, and the mean power of the quietest tenth of the frames.

    The SNR is None without a pause: the quietest frames are speech then, and no noise.
    """
    power = audio.frame_power
    if not len(power):
        return None, None
    count = -(-len(power) // QUIET_PART)
    floor = _db(float(np.partition(power, count - 1)[:count].mean()))
    if not audio.has_pause:
        return None, floor
    return _db(power[power >= power.max() / 10 ** (LOUD_DB / 10)].mean()) - floor, floor


def _bandwidth(audio: SegmentAudio) -> tuple[Value, ...]:
    """Return the highest frequency within 60 dB of the strongest band.

    Return an edge instead where the level falls by 18 dB and no band above the edge comes near it.
    """
    if audio.spectrum is None:
        return (None,)
    frequencies, power = audio.spectrum
    bin_hz = float(frequencies[1])
    width = max(1, round(_BAND_HZ / bin_hz))
    smooth = np.convolve(power, np.ones(width) / width, "same")
    top = _highest_band(smooth, audio.full_scale)
    edge = _edge_below(top, 10 * np.log10(smooth + NOTHING**2), bin_hz)
    if edge is None:
        edge = top
    return (float(frequencies[edge]),)


def _highest_band(power: Numbers, full_scale: float) -> int:
    """Return the highest bin within 60 dB of the strongest one."""
    # 10 dB above that of 16 bits, under a Hann window.
    rounding = 0.0
    if full_scale > 1:
        rounding = 10 * 3 / 8 / 12 / full_scale**2
    strongest = power.max()
    least = min(strongest, max(strongest / 10 ** (_BAND_DB / 10), rounding))
    return int(np.flatnonzero(power >= least)[-1])


def _edge_below(top: int, level: Numbers, bin_hz: float) -> int | None:
    """Return the highest bin before an edge below the bin `top`; None if there is no edge.

    `level` is that of each bin in dB, of `bin_hz`. At an edge, the mean level of the bins before it
    is far above the level of all bins from a band after it on.
    """
    width = max(1, round(_BAND_HZ / bin_hz))
    step = max(1, round(_EDGE_HZ / bin_hz))
    sums = np.concatenate([[0.0], np.cumsum(level)])
    means = (sums[step:] - sums[:-step]) / step  # of the bins from each one on
    first = max(step, round(_EDGE_FROM_HZ / bin_hz))
    places = np.arange(first, max(step, min(top, len(means) - width)))
    if not len(places):
        return None
    highest = np.maximum.accumulate(level[::-1])[::-1]  # from each bin on
    drop = means[places - step] - highest[places + width]
    if drop.max() >= _EDGE_DB:
        edge = int(places[drop.argmax()])
        is_before = level[: edge + width] >= means[edge - step] - _EDGE_DB / 2
        return int(np.flatnonzero(is_before)[-1])
    return None


def _correlation(audio: SegmentAudio) -> tuple[Value, ...]:
    """Return the mean of Pearson's correlation over all pairs of channels.

    It is None where a channel is below -80 dBFS.
    """
    covariance = audio.covariance
    powers = [covariance.get((a, a), 0.0) for a in range(audio.num_channels)]
    if min(powers) < _DEAD_POWER:
        return (None,)
    correlations = [
        value / (powers[a] * powers[b]) ** 0.5 for (a, b), value in covariance.items() if a != b
    ]
    return (float(sum(correlations)) / len(correlations),)


def _speech(audio: SegmentAudio) -> tuple[Value, ...]:
    """Return the share of speech, the seconds without it at both ends, and which ends are cut.

    The seconds are None without speech.
    """
    alone = audio.speech[0]
    is_speech = audio.speech[1][audio.inside]
    hops = np.flatnonzero(is_speech)
    if not len(hops):
        return 0.0, None, None, False, False
    first = audio.inside.start
    stop = audio.inside.stop
    is_loud = audio.power >= audio.power[audio.inside].max() / 10 ** (_ABRUPT_DB / 10)
    cut_start = _is_cut(
        alone[first : first + _CUT_HOPS],
        alone[max(0, first - _CUT_HOPS) : first],
        is_loud=bool(is_loud[first]),
    )
    cut_end = _is_cut(
        alone[max(first, stop - _CUT_HOPS) : stop],
        alone[stop : stop + _CUT_HOPS],
        is_loud=bool(is_loud[stop - 1]),
    )
    trailing = max(0.0, audio.num_samples / audio.rate - (hops[-1] + 1) * audio.hop_s)
    return len(hops) / len(is_speech), hops[0] * audio.hop_s, trailing, cut_start, cut_end


def _is_cut(inside: Bools, outside: Bools, *, is_loud: bool) -> bool:
    """Return whether speech is cut at a boundary, by which hops inside and outside are speech.

    At the edge of the recording, where there are too few hops outside, only an abrupt start or end
    shows that something is missing: `is_loud` is whether the hop at the boundary is loud.
    """
    if not inside.all():
        return False
    if len(outside) != _CUT_HOPS:
        return is_loud
    return bool(outside.all())


class Signal(NamedTuple):
    """A function of a segment, and the columns of its values with their decimals."""

    function: Callable[[SegmentAudio], tuple[Value, ...]]
    columns: Mapping[str, int]


SIGNALS: Mapping[str, Signal] = MappingProxyType(
    {
        "levels": Signal(_levels, {"rms_dbfs": 2, "peak_dbfs": 2, "dc_offset": 6}),
        "clipping": Signal(_clipping, {"clipped_share": 6}),
        "noise": Signal(_noise, {"snr_db": 2, "noise_floor_dbfs": 2}),
        "bandwidth": Signal(_bandwidth, {"bandwidth_hz": 0}),
        "silence": Signal(
            lambda audio: (audio.num_silent / audio.num_samples,), {"silence_share": 6}
        ),
        "correlation": Signal(_correlation, {"channel_correlation": 4}),
        "speech": Signal(
            _speech,
            {
                "speech_share": 4,
                "leading_silence_s": 3,
                "trailing_silence_s": 3,
                "cut_start": 0,
                "cut_end": 0,
            },
        ),
    }
)


def signals(audio: SegmentAudio) -> dict[str, Value]:
    """Return the values of all `SIGNALS` by column, rounded to the decimals of each."""
    values: dict[str, Value] = {}
    for signal in SIGNALS.values():
        by_column = zip(signal.columns.items(), signal.function(audio), strict=True)
        for (column, decimals), value in by_column:
            if value is None or isinstance(value, bool):
                values[column] = value
            else:
                values[column] = round(float(value), decimals) + 0.0  # -0.0 becomes 0.0
    return values


def window_signals(
    recording: Recording, start: int, stop: int, channel: str, *, num_samples: int
) -> dict[str, Value]:
    """Return the `signals` of samples [start, stop) of an open recording of `num_samples`.

    Raise AudioError as for a clip.
    """
    recording, channel = on_track(recording, channel)
    context = int(_CONTEXT_S * recording.sampling_rate)
    begin = max(0, start - context)
    end = min(num_samples, stop + context)
    try:
        window = read_around(recording, start, stop, begin, end)
    except AudioError:  # what is damaged may be outside of the segment
        begin = start
        window = read_around(recording, start, stop, start, stop)
    audio = SegmentAudio(window, channel, recording.sampling_rate, stop - start, start - begin)
    with np.errstate(invalid="ignore", over="ignore"):
        is_finite = math.isfinite(audio.dc_offset) and math.isfinite(audio.energy)
    if not is_finite:
        raise AudioError(
            "contains values that are not numbers (NaN or infinity), or are far beyond full scale"
        )
    return signals(audio)
