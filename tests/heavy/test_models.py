"""The recipes of docs/audio.md run as they are, with their real models."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from recipes import write_recipe

import nbaudio

SPOKEN = "Poštovane kolegice i kolege, danas raspravljamo o proračunu za iduću godinu."
TEXTS = {
    "hbs": "Zahvaljujem na riječi i molim da se zaključi rasprava o ovom prijedlogu zakona.",
    "en": "Thank you for the floor, I would like to say a few words about this proposal.",
    "sl": "Hvala za besedo, rada bi povedala nekaj o tem predlogu zakona in o proračunu.",
    "de": "Ich danke Ihnen für das Wort und möchte kurz auf diesen Vorschlag eingehen.",
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nbaudio.Workspace:
    """A spoken sentence, silence and noise, each with a text of another language."""
    audio = tmp_path / "audio"
    audio.mkdir()
    command = ["espeak-ng", "-v", "hr", "-w", str(audio / "hbs.wav"), SPOKEN]
    subprocess.run(command, check=True)
    rng = np.random.default_rng(2)
    sounds = {
        "en": np.zeros(48000),
        "sl": rng.normal(0, 0.1, 48000),
        "de": rng.normal(0, 1e-3, 48000),
    }
    for name, samples in sounds.items():
        sf.write(audio / f"{name}.wav", samples, 16000)
    for name, text in TEXTS.items():
        (audio / f"{name}.txt").write_text(text)
    nbaudio.ingest("folder", audio, out=tmp_path / "w")
    monkeypatch.chdir(tmp_path)
    return nbaudio.Workspace.open(tmp_path / "w")


def column(workspace: nbaudio.Workspace, name: str) -> dict[str, object]:
    return dict(workspace.segments.select("recording_id", name).iter_rows())


def test_the_silero_recipe_tells_speech_from_silence_and_noise(
    workspace: nbaudio.Workspace, tmp_path: Path
) -> None:
    write_recipe(tmp_path, "vad.py")
    report = nbaudio.measure(workspace, with_="vad:speech", show_progress=False)
    assert report.problems == []
    shares = column(workspace, "vad_share")
    assert shares.pop("hbs") > 0.7  # type: ignore[operator]
    assert set(shares.values()) == {0.0}


def test_the_py3langid_recipe_tells_languages_and_groups_related_ones(
    workspace: nbaudio.Workspace, tmp_path: Path
) -> None:
    write_recipe(tmp_path, "language.py")
    nbaudio.measure(workspace, with_="language:language", show_progress=False)
    codes = column(workspace, "language_code")
    assert codes == {name: name for name in TEXTS}
    assert min(workspace.segments["language_probability"]) > 0.8  # type: ignore[type-var]
