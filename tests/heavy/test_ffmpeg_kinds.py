"""Kinds of recordings that only the ffmpeg command can make stay within the tolerances of
docs/audio.md."""

from pathlib import Path

import pytest
from audio_kinds import FFMPEG_KINDS, Kind, make
from test_audio_kinds import SECONDS, check_kind


@pytest.mark.parametrize("kind", FFMPEG_KINDS, ids=[kind.name for kind in FFMPEG_KINDS])
def test_a_kind_of_ffmpeg_keeps_the_stated_bound(kind: Kind, tmp_path: Path) -> None:
    check_kind(make(kind, tmp_path, SECONDS), kind)
