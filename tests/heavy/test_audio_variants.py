"""Kinds of recordings at several rates, bit rates and lengths: windows stay within the tolerances
of docs/audio.md."""

from pathlib import Path

import pytest
from audio_kinds import KINDS, Variant, make_variant, variants
from test_audio_kinds import check_variant

# Every other rate of each kind, in turns, with one and with two channels.
VARIANTS = [
    variant
    for at, kind in enumerate(KINDS)
    for number, variant in enumerate(variants(kind))
    if (number // 2 + at) % 2 == 0 or len(variants(kind)) == 1
]


def _name(variant: Variant) -> str:
    channels = "mono" if variant.channels == 1 else "stereo"
    return (
        f"{variant.kind.name}, {variant.rate} Hz, {channels}, "
        f"{'low' if variant.low else 'usual'}, {variant.seconds:g} s"
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=_name)
def test_windows_of_a_variant_equal_those_of_a_second_decoder(
    variant: Variant, tmp_path: Path
) -> None:
    check_variant(make_variant(variant, tmp_path), variant, windows=100)
