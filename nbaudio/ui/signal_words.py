"""What plots call the signals that `measure` writes, and their units."""

from collections.abc import Mapping
from dataclasses import dataclass

from nbaudio.ui.equal_values import value_text

_SHARE = "share of "
_RANGE = "−1 to 1"  # of a number without a unit


@dataclass(frozen=True)
class SignalWords:
    """Title of a column, and the unit of its axis; empty for yes and no."""

    title: str
    unit: str = ""

    def value_text(self, value: float) -> str:
        """Return a value in a sentence; shares are percentages."""
        if self.unit.startswith(_SHARE):
            return value_text(100 * value, "%")
        unit = "" if self.unit == _RANGE else self.unit
        return value_text(value, unit)


SIGNAL_WORDS = {
    "rms_dbfs": SignalWords("Level (RMS)", "dBFS"),
    "peak_dbfs": SignalWords("Peak level", "dBFS"),
    "clipped_share": SignalWords("Clipped samples", "share of samples"),
    "dc_offset": SignalWords("DC offset", "share of full scale"),
    "snr_db": SignalWords("Signal-to-noise ratio", "dB"),
    "noise_floor_dbfs": SignalWords("Noise floor", "dBFS"),
    "bandwidth_hz": SignalWords("Bandwidth", "Hz"),
    "silence_share": SignalWords("Digital silence", "share of samples"),
    "channel_correlation": SignalWords("Channel correlation", _RANGE),
    "speech_share": SignalWords("Speech", "share of time"),
    "leading_silence_s": SignalWords("Before the speech", "s"),
    "trailing_silence_s": SignalWords("After the speech", "s"),
    "cut_start": SignalWords("Speech cut at the start"),
    "cut_end": SignalWords("Speech cut at the end"),
    "speech_rate": SignalWords("Speech rate", "characters/s"),
}
"""By column of `nbaudio.tables.schemas.SIGNALS`."""


def signal_words(column: str, units: Mapping[str, str]) -> SignalWords:
    """Return the words of a signal; columns of models have their names and one of the `units`."""
    return SIGNAL_WORDS.get(column) or SignalWords(column, units.get(column, ""))
