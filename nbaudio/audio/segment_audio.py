"""A segment with the audio around it, and facts from its samples, such as where it is speech.

The method is in docs/signals.md.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio.channels import channel_numbers

Samples = NDArray[np.float32]
AnySamples = NDArray[np.int16] | Samples
Numbers = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_HOP_S = 0.01
_SPEECH_RATE = 8000  # at least, and less than twice as much: the rate at which speech is decided on
_SPEECH_FRAME = 128  # samples at this rate
_BANDS_HZ = (100, 200, 300, 420, 560, 720, 920, 1150, 1430, 1770, 2180, 2680, 3290, 3900)
_DIVERGENCE_DB = 3.5  # of speech from noise, mean over the bands
_SPEECH_DB = 35.0  # speech is at most so much below the loudest frame
LOUD_DB = 30.0  # the same for frames that count for SNR and bandwidth
QUIET_PART = 10  # one of so many frames is the noise floor
_SHORTEST_SPEECH, _LONGEST_GAP = 4, 10  # hops
_SHORTEST_PAUSE = 7  # hops; at the ends of a segment, where shorter ones are often weak speech
EQUAL = 1e-6  # of full scale, -120 dBFS: samples that differ less are equal
_SHORTEST_SILENCE = 2  # hops
NOTHING = 1e-12  # the least power, -120 dBFS
_BLOCK = 1 << 16  # samples that are summed at once
_MOST_OFFSET = 1e-3
_SPECTRUM_S = 0.03
_MOST_SPECTRA = 16


class _Hops(NamedTuple):
    """Facts about hops: of the mix, its samples at the low rate, and of channels."""

    pivot: float  # what is subtracted before squares are summed
    highest: Samples
    lowest: Samples
    total: Samples
    squares: Samples
    slow: Samples
    # Sums of each channel, then products, by `_pairs_of`; shape (sums and products, hops)
    by_channel: Samples


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
        self.hop = (
            max(1, min(round(rate * _HOP_S / self.decimation), num_samples // self.decimation))
            * self.decimation
        )
        self.hop_s = self.hop / rate
        # Whole hops before the segment; hops are numbered from the first of them.
        self.hops_before = before // self.hop
        # Numbers of the whole hops of the segment.
        self.inside = slice(self.hops_before, self.hops_before + max(1, num_samples // self.hop))

    def _summed(self, by_channel: Samples) -> Samples:
        """Return the sum of the mixed channels; of a single one a view."""
        first, *others = self._channels
        found: Samples = sum((by_channel[other] for other in others), by_channel[first])
        return found

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
    def _hops(self) -> _Hops:  # noqa: PLR0914
        """Sums over whole hops with context, in blocks that fit a cache."""
        window: AnySamples = self.window[self.before - self.hops_before * self.hop :]
        if len(window) < self.hop:
            window = np.concatenate(
                [window, np.zeros_like(window, shape=(self.hop - len(window), self.num_channels))]
            )
        number = len(window) // self.hop
        hop = self.hop
        unit = self._unit
        pairs = _pairs_of(self.num_channels)
        size = max(1, _BLOCK // hop)
        # Allocated once, as fresh memory for each block takes longer than the sums.
        channels = np.empty((self.num_channels, min(size, number) * hop), dtype=np.float32)
        highest, lowest, squares = np.empty((3, number), dtype=np.float32)
        by_channel = np.empty((self.num_channels + len(pairs), number), dtype=np.float32)
        slow = np.empty((number, hop // self.decimation), dtype=np.float32)
        pivot = np.float32(0)  # in the units of sums, as all of the blocks
        for start in range(0, number, size):
            block = slice(start, min(start + size, number))
            filled = _by_channel(window[block.start * hop : block.stop * hop], channels)
            x = self._summed(filled)
            each = filled.reshape(self.num_channels, -1, hop)
            hops = x.reshape(-1, hop)
            hops.max(axis=1, out=highest[block])
            hops.min(axis=1, out=lowest[block])
            slow[block] = _sums_of(x, self.decimation).reshape(len(hops), -1)
            np.einsum("cij->ci", each, out=by_channel[: self.num_channels, block])
            for row, (a, b) in enumerate(pairs, self.num_channels):
                np.vecdot(each[a], each[b], out=by_channel[row, block])
            if not start and abs(mean := hops.mean()) * unit > _MOST_OFFSET:
                pivot = mean
            if pivot:  # squares stay exact where DC is large
                hops = hops - pivot
            np.vecdot(hops, hops, out=squares[block])
        total = self._summed(by_channel[: self.num_channels])
        highest = highest * unit
        lowest = lowest * unit
        squares = squares * unit * unit
        return _Hops(
            float(pivot * unit),
            highest,
            lowest,
            total * unit,
            squares,
            slow.ravel() * unit,
            by_channel,
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
        found: Bools = self.extremes.sum(axis=0) <= EQUAL
        return found

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
        total = float(self._hops.total[self.inside].sum(dtype=np.float64)) + float(
            self.rest.sum(dtype=np.float64)
        )
        total -= sum(
            float(self.samples[start:stop].sum(dtype=np.float64))
            for start, stop in self.silent_runs
        )
        return total / max(1, self.num_samples - self.num_silent)

    @cached_property
    def rest(self) -> Samples:
        """What is left of the segment after whole hops."""
        return self.mixed((self.inside.stop - self.inside.start) * self.hop, self.num_samples)

    @cached_property
    def is_live(self) -> Bools:
        """Which hops, with context, hold no digital silence."""
        live = ~self.is_constant
        for start, stop in self.silent_runs:
            live[self.hops_before + start // self.hop : self.hops_before + -(-stop // self.hop)] = (
                False
            )
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
        return pairs if len(pairs) else np.flatnonzero(live)

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
        within = np.flatnonzero(self.is_live[self.inside]) + self.inside.start
        factor = self.decimation
        size = _SPEECH_FRAME
        if not len(within):
            return np.zeros((2, len(self.is_live)), dtype=bool)
        slow = self._hops.slow / np.float32(factor) - np.float32(self.dc_offset)
        x = np.pad(slow, (size // 2, size // 2 + size))
        hop = self.hop // factor
        spectra = _power_spectra(
            np.lib.stride_tricks.sliding_window_view(x, size)[hop // 2 :: hop][: len(self.is_live)]
        )
        edges = (
            np.clip(np.array(_BANDS_HZ) * size / (self.rate / factor), 1, size // 2)
            .round()
            .astype(int)
        )
        bands = np.add.reduceat(spectra, edges, axis=1)[:, :-1] / np.float32(size**2) + np.float32(
            NOTHING
        )
        total = np.where(self.is_live, bands.sum(axis=1, dtype=np.float64), 0.0)
        quiet = within[np.argsort(total[within], kind="stable")[: -(-len(within) // QUIET_PART)]]
        above = (
            10
            * np.log10(
                np.maximum(bands / bands[quiet].mean(axis=0), 1).prod(axis=1, dtype=np.float64)
            )
            / bands.shape[1]
        )
        divergence = np.convolve(above, np.ones(3) / 3)[1:-1]
        # Speech is near the loudest, with another spectrum than the quietest tenth.
        is_near = total >= total[within].max() / 10 ** (_SPEECH_DB / 10)
        alone = self.is_live & is_near & (divergence >= _DIVERGENCE_DB)
        return np.stack([alone, _without_gaps(alone)])

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
        rest = np.zeros_like(
            self.window, shape=(max(0, self.before + size - len(self.window)), self.num_channels)
        )
        x: AnySamples = np.concatenate([self.window, rest]) if len(rest) else self.window
        frames = np.concatenate(
            [x[start : start + size] for start in (self.before + starts).tolist()]
        )
        spectra = _power_spectra(
            self._mixed(_by_channel(frames)).reshape(-1, size) - np.float32(self.dc_offset)
        )
        power: Numbers = spectra.mean(axis=0, dtype=np.float64) / size
        return np.arange(size // 2 + 1) * self.rate / size, power


def _by_channel(window: AnySamples, held: Samples | None = None) -> Samples:
    """Return samples as float32 in the same units, shape (channels, samples).

    They are written into `held` if it is given.
    """
    found = (
        np.empty(window.shape[::-1], dtype=np.float32) if held is None else held[:, : len(window)]
    )
    if window.dtype == np.int16 and window.shape[1] == 2 and window.flags.c_contiguous:
        # Samples are little-endian; this is the fastest way to separate them.
        pairs = window.view(np.int32)[:, 0]
        found[0], found[1] = pairs.astype(np.int16), pairs >> 16
    else:
        found[:] = window.T
    return found


def _sums_of(x: Samples, number: int) -> Samples:
    """Return the sum of each `number` neighboring samples."""
    pairs = number % 2 == 0  # read as one complex number, a third faster
    values, step = (x.view(np.complex64), number // 2) if pairs else (x, number)
    sums = values[::step].copy()
    for offset in range(1, step):
        sums += values[offset::step]
    return np.add(sums.real, sums.imag, dtype=np.float32) if pairs else sums.real


def _pairs_of(channels: int) -> list[tuple[int, int]]:
    """Return pairs of channels, in the order of their products; none for a single channel."""
    return [(a, b) for a in range(channels) for b in range(a + 1)] if channels > 1 else []


def runs_of(where: Bools) -> Ints:
    """Return where runs of true values begin, and one past their ends; shape (runs, 2)."""
    return np.flatnonzero(np.diff(where, prepend=False, append=False)).reshape(-1, 2)


def _power_spectra(frames: Samples) -> Samples:
    """Return the power spectrum of each row under a Hann window."""
    from scipy.fft import rfft  # several times faster for many short frames than that of NumPy

    found = rfft(frames * np.hanning(frames.shape[1]).astype(np.float32), axis=1)
    power: Samples = np.square(found.real) + np.square(found.imag)
    return power


def _without_gaps(speech: Bools) -> Bools:
    """Return speech without bursts below 40 ms, and with gaps of up to 100 ms between speech."""
    found = _without_short(speech, _SHORTEST_SPEECH - 1)
    edges = np.flatnonzero(found)
    if len(edges):
        between = found[edges[0] : edges[-1] + 1]
        found[edges[0] : edges[-1] + 1] = ~_without_short(~between, _LONGEST_GAP)
    return found


def _without_short(where: Bools, longest: int) -> Bools:
    """Return true values without runs of up to `longest`."""
    runs = runs_of(where)
    length = runs[:, 1] - runs[:, 0]
    found = np.zeros(len(where), dtype=bool)
    found[where] = np.repeat(length > longest, length)
    return found
