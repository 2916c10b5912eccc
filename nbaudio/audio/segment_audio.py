"""A segment with the audio around it, and facts from its samples, such as where it is speech.

The method is in docs/audio.md.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio.channels import channel_numbers

Samples = NDArray[np.float32]
AnySamples = NDArray[np.int16] | Samples
Numbers = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
_Value = TypeVar("_Value", np.float32, np.complex64)

_HOP_S = 0.01
_SPEECH_RATE = 8000  # Hz; speech is decided on samples at this rate, or at less than twice of it
_SPEECH_FRAME = 128  # samples of a frame, at that rate
_BANDS_HZ = (100, 200, 300, 420, 560, 720, 920, 1150, 1430, 1770, 2180, 2680, 3290, 3900)
_DIVERGENCE_DB = 3.5  # least distance of speech from noise, as a mean over the bands
_SPEECH_DB = 35.0  # speech is at most this far below the loudest frame
LOUD_DB = 30.0  # frames that count for SNR and bandwidth are at most this far below the loudest
QUIET_PART = 10  # the quietest tenth of the frames is the noise floor
_SHORTEST_SPEECH, _LONGEST_GAP = 4, 10  # hops
# Hops; speech is often weak at the ends of a segment, where shorter pauses appear.
_SHORTEST_PAUSE = 7
EQUAL = 1e-6  # share of full scale (-120 dBFS) below which samples count as equal
_SHORTEST_SILENCE = 2  # hops
NOTHING = 1e-12  # the least power, -120 dBFS
_BLOCK = 1 << 16  # samples that are summed at once
_MOST_OFFSET = 1e-3
_SPECTRUM_S = 0.03
_MOST_SPECTRA = 16


class _Hops(NamedTuple):
    """Extremes and sums of samples in each hop; full scale is 1, except in `by_channel`.

    Attributes:
        pivot: what is subtracted before squares are summed.
        highest: the maximum of the mix in each hop.
        lowest: its minimum.
        total: the sum of its samples.
        squares: the sum of the squares of its samples, less the pivot.
        slow: the sums of each `decimation` samples of the mix; hops by hops.
        by_channel: sums of each channel, then products, by `_pairs_of`, in the units of the window;
            shape (sums and products, hops).
    """

    pivot: float
    highest: Samples
    lowest: Samples
    total: Samples
    squares: Samples
    slow: Samples
    by_channel: Samples

    @classmethod
    def joined(cls, blocks: "Sequence[_Hops]") -> "_Hops":
        """Return the hops of consecutive blocks with the same pivot."""
        return cls(
            pivot=blocks[0].pivot,
            highest=np.concatenate([block.highest for block in blocks]),
            lowest=np.concatenate([block.lowest for block in blocks]),
            total=np.concatenate([block.total for block in blocks]),
            squares=np.concatenate([block.squares for block in blocks]),
            slow=np.concatenate([block.slow for block in blocks]),
            by_channel=np.concatenate([block.by_channel for block in blocks], axis=1),
        )


class SegmentAudio:
    """A segment with its context, and the facts that signals take.

    Costly facts are computed once. Full scale is 1.
    """

    def __init__(
        self, window: AnySamples, channel: str, rate: int, num_samples: int, before: int
    ) -> None:
        """Take a window, shape (samples, channels), and the channel that is cut.

        The window starts `before` samples before a segment of `num_samples`.
        """
        self.window = window
        self.rate = rate
        self.num_samples = num_samples
        self.before = before
        self.num_channels = int(window.shape[1])
        self.full_scale = 32768.0 if window.dtype == np.int16 else 1.0  # in the units of `window`
        self._channels = channel_numbers(channel, self.num_channels)  # that are mixed
        # What their sum is multiplied with.
        self._unit = np.float32(1 / self.full_scale / len(self._channels))
        # Samples that are averaged for the decision on speech.
        self.decimation = max(1, rate // _SPEECH_RATE)
        # Samples of a hop: 10 ms, in whole steps of `decimation`; less in a shorter segment.
        steps = min(round(rate * _HOP_S / self.decimation), num_samples // self.decimation)
        self.hop = max(1, steps) * self.decimation
        self.hop_s = self.hop / rate
        # Whole hops before the segment; hops are numbered from the first of them.
        self.hops_before = before // self.hop
        # Numbers of the whole hops of the segment.
        self.inside = slice(self.hops_before, self.hops_before + max(1, num_samples // self.hop))

    def _summed(self, by_channel: Samples) -> Samples:
        """Return the sum of the mixed channels; of a single one a view."""
        first, *others = self._channels
        mix: Samples = sum((by_channel[other] for other in others), by_channel[first])
        return mix

    def _mixed(self, by_channel: Samples) -> Samples:
        return self._summed(by_channel) * self._unit

    def mixed(self, start: int, stop: int) -> Samples:
        """Return samples [start, stop) in the channel that is cut.

        Positions count from the start of the segment.
        """
        return self._mixed(_by_channel(self.window[self.before + start : self.before + stop]))

    @cached_property
    def samples(self) -> Samples:
        """The samples of the segment in the channel that is cut."""
        return self.mixed(0, self.num_samples)

    @cached_property
    def _hops(self) -> _Hops:
        """Sums over whole hops with context, in blocks that fit a cache."""
        window = self._window_of_hops()
        length = max(1, _BLOCK // self.hop) * self.hop  # of a block
        # Allocated once, as fresh memory for each block takes longer than the sums.
        memory = np.empty((self.num_channels, min(length, len(window))), dtype=np.float32)
        pivot = np.float32(0)  # in the units of sums, as all of the blocks
        blocks: list[_Hops] = []
        for start in range(0, len(window), length):
            by_channel = _by_channel(window[start : start + length], memory)
            if start == 0:
                pivot = self._pivot(by_channel)
            blocks.append(self._sum_hops(by_channel, pivot))
        return _Hops.joined(blocks)

    def _window_of_hops(self) -> AnySamples:
        """Return the window from its first whole hop to its last one; shape (samples, channels).

        A shorter one is filled up to a hop with zeros.
        """
        window: AnySamples = self.window[self.before - self.hops_before * self.hop :]
        if len(window) < self.hop:
            missing = (self.hop - len(window), self.num_channels)
            window = np.concatenate([window, np.zeros_like(window, shape=missing)])
        return window[: len(window) // self.hop * self.hop]

    def _pivot(self, by_channel: Samples) -> np.float32:
        """Return the mean of the mix if it is so far from 0 that squares would not be exact."""
        mean: np.float32 = self._summed(by_channel).reshape(-1, self.hop).mean()
        if abs(mean) * self._unit > _MOST_OFFSET:
            return mean
        return np.float32(0)

    def _sum_hops(self, by_channel: Samples, pivot: np.float32) -> _Hops:
        """Return the sums over the hops of some samples, shape (channels, samples)."""
        unit = self._unit
        mix = self._summed(by_channel)
        hops = mix.reshape(-1, self.hop)
        hops_by_channel = by_channel.reshape(self.num_channels, -1, self.hop)
        sums = np.einsum("cij->ci", hops_by_channel)
        pairs = _pairs_of(self.num_channels)
        products = [np.vecdot(hops_by_channel[a], hops_by_channel[b]) for a, b in pairs]
        centered = hops - pivot if pivot else hops
        return _Hops(
            pivot=float(pivot * unit),
            highest=hops.max(axis=1) * unit,
            lowest=hops.min(axis=1) * unit,
            total=self._summed(sums) * unit,
            squares=np.vecdot(centered, centered) * unit * unit,
            slow=_sums_of(mix, self.decimation) * unit,
            by_channel=np.vstack([sums, *products]),
        )

    @cached_property
    def covariance(self) -> dict[tuple[int, int], float]:
        """The covariance of each two channels, and the variance of each; none for one channel.

        Both are taken in whole hops of the segment.
        """
        sums = self._hops.by_channel[:, self.inside].mean(axis=1, dtype=np.float64) / self.hop
        means = sums[: self.num_channels] / self.full_scale
        products = sums[self.num_channels :] / self.full_scale**2
        pairs = zip(_pairs_of(self.num_channels), products, strict=True)
        return {(a, b): float(product - means[a] * means[b]) for (a, b), product in pairs}

    @cached_property
    def extremes(self) -> Samples:
        """The maximum of each hop, and the maximum with the sign reversed; shape (2, hops)."""
        return np.stack([self._hops.highest, -self._hops.lowest])

    @cached_property
    def is_constant(self) -> Bools:
        """Which hops, with context, hold equal samples."""
        is_constant: Bools = self.extremes.sum(axis=0) <= EQUAL
        return is_constant

    @cached_property
    def silent_runs(self) -> Ints:
        """Runs of digital silence: equal samples for 20 ms or more.

        Each has its first position and one past its last; the shape is (runs, 2).
        """
        if not self.is_constant[self.inside].any():  # such a run holds a whole hop
            return np.zeros((0, 2), dtype=np.int64)
        runs = runs_of(np.abs(np.diff(self.samples, append=self.samples[-1])) <= EQUAL)
        runs[:, 1] = np.minimum(runs[:, 1] + 1, self.num_samples)
        return runs[runs[:, 1] - runs[:, 0] >= min(_SHORTEST_SILENCE * self.hop, self.num_samples)]

    @cached_property
    def num_silent(self) -> int:
        """Samples of digital silence."""
        return int((self.silent_runs[:, 1] - self.silent_runs[:, 0]).sum())

    @cached_property
    def dc_offset(self) -> float:
        """The mean of what is not digital silence."""
        in_hops = float(self._hops.total[self.inside].sum(dtype=np.float64))
        in_rest = float(self.rest.sum(dtype=np.float64))
        in_silence = sum(
            float(self.samples[start:stop].sum(dtype=np.float64))
            for start, stop in self.silent_runs
        )
        return (in_hops + in_rest - in_silence) / max(1, self.num_samples - self.num_silent)

    @cached_property
    def rest(self) -> Samples:
        """What is left of the segment after whole hops."""
        return self.mixed((self.inside.stop - self.inside.start) * self.hop, self.num_samples)

    @cached_property
    def is_live(self) -> Bools:
        """Which hops, with context, hold no digital silence."""
        live = ~self.is_constant
        for start, stop in self.silent_runs:
            first = self.hops_before + start // self.hop
            last = self.hops_before + -(-stop // self.hop)
            live[first:last] = False
        return live

    @cached_property
    def power(self) -> Numbers:
        """The mean square of each hop without DC."""
        offset = self.dc_offset - self._hops.pivot
        total = self._hops.total.astype(np.float64) - self.hop * self._hops.pivot
        return np.maximum((self._hops.squares - 2 * offset * total) / self.hop + offset**2, 0)

    @cached_property
    def energy(self) -> float:
        """The sum of squares of the samples without DC; digital silence counts as zero."""
        runs = (
            (float(self.samples[start]), stop - start) for start, stop in self.silent_runs.tolist()
        )
        silent = sum((value - self.dc_offset) ** 2 * length for value, length in runs)
        rest = np.square(self.rest - self.dc_offset).sum(dtype=np.float64)
        return float(self.power[self.inside].sum() * self.hop + rest - silent)

    @cached_property
    def _frames(self) -> Ints:
        """First hops, in the segment, of frames of two hops without digital silence."""
        live = self.is_live[self.inside]
        pairs = np.flatnonzero(live[:-1] & live[1:])
        if len(pairs):
            return pairs
        return np.flatnonzero(live)

    @cached_property
    def frame_power(self) -> Numbers:
        """The mean square of frames of 20 ms, every 10 ms, at least -120 dBFS.

        Frames with digital silence are left out.
        """
        power = self.power[self.inside]
        following = np.minimum(self._frames + 1, len(power) - 1)
        return np.maximum((power[self._frames] + power[following]) / 2, NOTHING)

    @cached_property
    def speech(self) -> Bools:
        """Which hops, with context, are speech; shape (2, hops).

        The first row has each hop by itself, the second is without bursts and short gaps.
        """
        live = np.flatnonzero(self.is_live[self.inside]) + self.inside.start
        if not len(live):
            return np.zeros((2, len(self.is_live)), dtype=bool)
        bands = self._band_power()
        power = np.where(self.is_live, bands.sum(axis=1, dtype=np.float64), 0.0)
        num_quiet = -(-len(live) // QUIET_PART)
        quietest = live[np.argsort(power[live], kind="stable")[:num_quiet]]
        divergence = _divergence_db(bands, bands[quietest].mean(axis=0))
        # Speech is near the loudest, with another spectrum than the quietest tenth.
        is_near = power >= power[live].max() / 10 ** (_SPEECH_DB / 10)
        alone = self.is_live & is_near & (divergence >= _DIVERGENCE_DB)
        return np.stack([alone, _without_gaps(alone)])

    def _band_power(self) -> Samples:
        """Return the mean power of frames around each hop in bands; shape (hops, bands)."""
        factor = self.decimation
        size = _SPEECH_FRAME
        hop = self.hop // factor
        slow = self._hops.slow / np.float32(factor) - np.float32(self.dc_offset)
        padded = np.pad(slow, (size // 2, size // 2 + size))
        frames = np.lib.stride_tricks.sliding_window_view(padded, size)[hop // 2 :: hop]
        spectra = _power_spectra(frames[: len(self.is_live)])
        bins = np.array(_BANDS_HZ) * size / (self.rate / factor)
        edges = np.clip(bins, 1, size // 2).round().astype(int)
        sums: Samples = np.add.reduceat(spectra, edges, axis=1)[:, :-1]
        power: Samples = sums / np.float32(size**2) + np.float32(NOTHING)
        return power

    @property
    def has_pause(self) -> bool:
        """Whether the segment has a pause: 70 ms or more without speech and digital silence."""
        is_pause = self.is_live[self.inside] & ~self.speech[1][self.inside]
        runs = runs_of(is_pause)
        return bool((runs[:, 1] - runs[:, 0] >= _SHORTEST_PAUSE).any())

    @cached_property
    def spectrum(self) -> tuple[Numbers, Numbers] | None:
        """Frequencies in Hz, and the mean power spectrum of loud frames; None in digital silence.

        Up to 16 of the loud frames are taken, spread evenly.
        """
        if not len(self.frame_power):
            return None
        size = 1 << max(5, round(np.log2(self.rate * _SPECTRUM_S)))
        loud = self._frames[self.frame_power >= self.frame_power.max() / 10 ** (LOUD_DB / 10)]
        loud = loud[np.unique(np.linspace(0, len(loud) - 1, _MOST_SPECTRA).round().astype(int))]
        starts = np.clip((loud + 1) * self.hop - size // 2, 0, max(0, self.num_samples - size))
        window = self._window_of_at_least(self.before + size)
        starts = (self.before + starts).tolist()
        frames: AnySamples = np.concatenate([window[start : start + size] for start in starts])
        mix = self._mixed(_by_channel(frames))
        spectra = _power_spectra(mix.reshape(-1, size) - np.float32(self.dc_offset))
        power: Numbers = spectra.mean(axis=0, dtype=np.float64) / size
        return np.arange(size // 2 + 1) * self.rate / size, power

    def _window_of_at_least(self, length: int) -> AnySamples:
        """Return the window, filled up to a length with zeros; shape (samples, channels)."""
        missing = length - len(self.window)
        if missing <= 0:
            return self.window
        zeros = np.zeros_like(self.window, shape=(missing, self.num_channels))
        window: AnySamples = np.concatenate([self.window, zeros])
        return window


def _by_channel(window: AnySamples, memory: Samples | None = None) -> Samples:
    """Return samples as float32 in the same units, shape (channels, samples).

    They are written into `memory` of at least that shape, or into a new array.
    """
    if memory is None:
        by_channel = np.empty(window.shape[::-1], dtype=np.float32)
    else:
        by_channel = memory[:, : len(window)]
    if window.dtype == np.int16 and window.shape[1] == 2 and window.flags.c_contiguous:
        # Samples are little-endian; this is the fastest way to separate them.
        pairs = window.view(np.int32)[:, 0]
        by_channel[0] = pairs.astype(np.int16)
        by_channel[1] = pairs >> 16
    else:
        by_channel[:] = window.T
    return by_channel


def _sums_of(x: Samples, number: int) -> Samples:
    """Return the sum of each `number` neighboring samples."""
    if number % 2:
        return _sums_of_each(x, number)
    # Read as complex numbers of two samples, a third faster.
    sums = _sums_of_each(x.view(np.complex64), number // 2)
    return np.add(sums.real, sums.imag, dtype=np.float32)


def _sums_of_each(values: NDArray[_Value], number: int) -> NDArray[_Value]:
    """Return the sum of each `number` neighboring values."""
    sums = values[::number].copy()
    for offset in range(1, number):
        sums += values[offset::number]
    return sums


def _divergence_db(bands: Samples, noise: Samples) -> Numbers:
    """Return how far each hop is above the noise, a mean over bands and three hops.

    `bands` has the power of hops by bands, `noise` that of the noise by bands.
    """
    above = np.maximum(bands / noise, 1).prod(axis=1, dtype=np.float64)
    above_db = 10 * np.log10(above) / bands.shape[1]
    return np.convolve(above_db, np.ones(3) / 3)[1:-1]


def _pairs_of(channels: int) -> list[tuple[int, int]]:
    """Return pairs of channels, in the order of their products; none for a single channel."""
    if channels > 1:
        return [(a, b) for a in range(channels) for b in range(a + 1)]
    return []


def runs_of(where: Bools) -> Ints:
    """Return where runs of true values begin, and one past their ends; shape (runs, 2)."""
    return np.flatnonzero(np.diff(where, prepend=False, append=False)).reshape(-1, 2)


def _power_spectra(frames: Samples) -> Samples:
    """Return the power spectrum of each row under a Hann window."""
    from scipy.fft import rfft  # several times faster for many short frames than that of NumPy

    spectra = rfft(frames * np.hanning(frames.shape[1]).astype(np.float32), axis=1)
    power: Samples = np.square(spectra.real) + np.square(spectra.imag)
    return power


def _without_gaps(speech: Bools) -> Bools:
    """Return speech without bursts below 40 ms, and with gaps of up to 100 ms between speech."""
    speech = _without_short(speech, _SHORTEST_SPEECH - 1)
    hops = np.flatnonzero(speech)
    if len(hops):
        between = slice(hops[0], hops[-1] + 1)
        speech[between] = ~_without_short(~speech[between], _LONGEST_GAP)
    return speech


def _without_short(where: Bools, longest: int) -> Bools:
    """Return true values without runs of up to `longest`."""
    runs = runs_of(where)
    length = runs[:, 1] - runs[:, 0]
    is_long = np.zeros(len(where), dtype=bool)
    is_long[where] = np.repeat(length > longest, length)
    return is_long
