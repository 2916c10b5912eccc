"""The second code of the data card, which decodes: with torchcodec and torch, as the extra
`datasets` installs them."""

import numpy as np
import pytest
from test_card import make, run_code

from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.reading import open_corpus

# `datasets` leaves metadata to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:unclosed file:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
    pytest.mark.usefixtures("nothing_left_open"),
]


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"one.wav": (18.0, 16000), "two.flac": (12.0, 16000)}, channels=1)


@pytest.mark.parametrize(
    "container",
    [name for name, each in CONTAINERS.items() if each.for_datasets and not each.levels_only],
)
def test_the_decoding_code_of_the_data_card_gives_the_samples(
    workspace, tmp_path, monkeypatch, container
):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    make(workspace, tmp_path / "c", container=container)
    found = run_code(tmp_path / "c", 1)["samples"].numpy()
    assert found.shape[0] == 1
    corpus = open_corpus(tmp_path / "c")
    clips = corpus.read_many(corpus.rows("train")["segment_id"].to_list())
    same = [
        clip
        for clip in clips
        if len(clip.samples) == found.shape[1]
        and np.allclose(clip.samples / 2**15, found[0], atol=2**-15)
    ]
    assert len(same) == 1
