"""The manifest of every layout runs end to end, unattended, on a small source of its kind."""

import pytest
from specimens import LAYOUTS

import nbaudio
from nbaudio.core.bundled_files import bundled
from nbaudio.sources.ingest import READERS

REVIEWED = 1


# The notebooks that write tables; the other ones only look at their results, and one manifest runs them too.
MAIN_JOB = "1,2,5-7"
# Manifests by their name, and the layout of the source that each is given.
MANIFESTS = {**{name: name for name in sorted(READERS)}, "wavenet": "folder"}


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_manifest_of_a_layout_runs(name, tmp_path):
    made = LAYOUTS[MANIFESTS[name]](tmp_path / "source")
    audio = str(made.audio) if made.audio else None
    settings = {"source": str(made.source), "audio": audio, "names": None, "options": made.options}
    settings |= {"dev": 0, "test": 0, "review_n": REVIEWED, "jobs": 1}
    only = None if name == "parlaspeech" else MAIN_JOB
    report = nbaudio.run(bundled(f"data_manifests/{name}.yaml"), out=tmp_path / "R", settings=settings, only=only)
    verified = nbaudio.verify(report.facts["corpus"], jobs=1, engine="threading", show_progress=False)
    assert verified.problems == []
    # What a reviewer was given stays out of training; splits of the source may hold it out.
    reviewed = (nbaudio.Workspace.open(report.facts["workspace"]).segments["reason"] == "reviewed").sum()
    assert reviewed == REVIEWED or name in ("librispeech", "commonvoice")
    assert verified.facts["clips_decoded"] == len(made.segments) - reviewed
