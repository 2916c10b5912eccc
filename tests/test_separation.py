"""Which columns separate right from wrong: the AUC and the precision by value, from verdicts on
drawn segments."""

import numpy as np
import polars as pl
import pytest
from test_evidence import draws_of, frame_of, random_draws, say

from nbaudio import review
from nbaudio.core.errors import InputError
from nbaudio.proof.separation import auc, draw_weights
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, conform
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import plots, views


def true_auc(values, wrong):
    """The AUC of a whole population."""
    return float(((np.sign(values[~wrong][None, :] - values[wrong][:, None]) + 1) / 2).mean())


def missed(population, weights, count, corpora, *, naive=False):
    """The share of corpora whose AUC is outside of its interval."""
    rng, misses, seen = np.random.default_rng(3), 0, 0
    while seen < corpora:
        values, wrong, strata, recording = population(rng)
        items = random_draws(rng, strata, weights, count)
        draws = draws_of(
            [frame_of(strata, weights)], [0] * count, items, set(np.flatnonzero(wrong).tolist())
        )
        if 0 < draws.wrong.sum() < count:
            seen += 1
            weight = np.ones(count) if naive else draw_weights(draws)
            _, low, high = auc(values[draws.item], draws.wrong, weight, recording[draws.item], 0.95)
            misses += not low <= true_auc(values, wrong) <= high
    return misses / corpora


def two_sided(rng, size=1500):
    """Faults at either end of the values, none between: no values have a greater variance. The
    rarer end is rarely drawn."""
    wrong = rng.random(size) < 0.1
    values = np.where(wrong, np.where(rng.random(size) < 0.8, -10.0, 10.0), rng.normal(size=size))
    return values, wrong, (values > -1.3).astype(np.int64), np.arange(size)


def whole_recordings(rng, size=1500):
    bad = rng.permutation(30)[:3]
    recording = np.arange(size) // 50
    wrong = np.isin(recording, bad) & (rng.random(size) < 0.7)
    return rng.normal(size=30)[recording], wrong, np.zeros(size, dtype=np.int64), recording


@pytest.mark.slow
def test_the_auc_interval_has_its_coverage_in_the_least_favorable_cases():
    # 5 % are allowed; three standard deviations of 150 corpora more would be 0.10.
    assert missed(two_sided, [0.6, 0.4], 150, 150) <= 0.10
    assert missed(two_sided, [0.6, 0.4], 150, 60, naive=True) > 0.15
    assert missed(two_sided, [0.5, 0.5], 400, 40) <= 0.15  # a stratum is used up
    assert missed(whole_recordings, [1.0], 150, 150) <= 0.10


def test_the_auc_counts_pairs_and_half_of_the_ties():
    wrong = np.array([True, False, False, True])
    values = np.array([1.0, 2.0, 3.0, 3.0])
    found, low, high = auc(values, wrong, np.ones(4), np.arange(4), 0.95)
    assert found == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert 0 <= low < found < high <= 1
    weighted, *_ = auc(values, wrong, np.array([3.0, 1, 1, 1]), np.arange(4), 0.95)
    assert weighted == pytest.approx((3 * 2 + 0.5) / 8)
    assert auc(np.arange(40.0), np.arange(40) < 20, np.ones(40), np.arange(40), 0.95)[
        0
    ] == pytest.approx(1)


def test_weighted_draws_represent_the_population_if_a_stratum_is_exhausted():
    rng, strata = np.random.default_rng(0), (np.arange(600) < 60).astype(np.int64)
    shares = []
    for _ in range(200):
        draws = draws_of(
            [frame_of(strata, [0.5, 0.5])],
            [0] * 300,
            random_draws(rng, strata, [0.5, 0.5], 300),
            set(range(60)),
        )
        weight = draw_weights(draws)
        shares.append(weight[draws.wrong].sum() / weight.sum())
    assert np.mean(shares) == pytest.approx(0.1, abs=0.003)


@pytest.fixture
def workspace(tmp_path):
    """3,000 segments; of those below 10 dB half are wrong, of others none. `rms_dbfs` says nothing;
    half have no correlation."""
    rng, n = np.random.default_rng(2), 3000
    snr = rng.uniform(0, 50, n).round(2)
    ids = [f"s{number}" for number in range(n)]
    columns = {
        "segment_id": ids,
        "recording_id": [f"r{i // 100}" for i in range(n)],
        "similarity": rng.uniform(0.5, 1, n),
    }
    columns |= {
        "source_start": [str(20 * i) for i in range(n)],
        "source_end": [str(20 * i + 5) for i in range(n)],
    }
    columns |= {
        "text": [f"riječ {i}" for i in range(n)],
        "snr_db": snr,
        "noise_floor_dbfs": -snr,
        "rms_dbfs": rng.normal(size=n),
    }
    columns |= {
        "cut_end": snr < 10,
        "clipped_share": np.where(np.arange(n) % 10, 0.0, rng.uniform(0, 0.1, n)),
    }
    columns |= {
        "channel_correlation": [None if i % 4 < 2 else 0.5 + i / 9999 for i in range(n)],
        "speaker_id": "x",
    }
    made = Workspace.create(tmp_path / "w", audio=None)
    recordings = pl.DataFrame({"recording_id": sorted(set(columns["recording_id"]))})
    segments = conform(pl.DataFrame(columns), SEGMENTS, "segments")
    made.save(recordings=conform(recordings, RECORDINGS, "recordings"), segments=segments)
    return made


def judge(workspace, tmp_path, n=300, strategy="random"):
    review.export(workspace, out=tmp_path / "one.xlsx", strategy=strategy, n=n)
    snr = dict(workspace.segments.select("segment_id", "snr_db").iter_rows())
    say(workspace, "one", lambda key: "noise" if snr[key] < 10 and int(key[1:]) % 2 else "ok")


def test_columns_are_ranked_by_how_surely_they_separate(workspace, tmp_path):
    assert views.signal_precision(workspace).is_empty()
    judge(workspace, tmp_path)
    found = views.signal_precision(workspace)
    assert set(found["column"][:3]) == {"snr_db", "noise_floor_dbfs", "cut_end"}
    rows = {row["column"]: row for row in found.iter_rows(named=True)}
    assert "speaker_id" not in rows
    assert rows["snr_db"]["direction"] == "higher is right"
    assert rows["noise_floor_dbfs"]["direction"] == rows["cut_end"]["direction"] == "lower is right"
    assert rows["noise_floor_dbfs"]["auc"] == pytest.approx(1 - rows["snr_db"]["auc"])
    truth = true_auc(*wrong_of(workspace))
    assert rows["snr_db"]["low"] <= truth <= rows["snr_db"]["high"]
    assert rows["rms_dbfs"]["low"] < 0.5 < rows["rms_dbfs"]["high"]
    assert 0 < rows["channel_correlation"]["verdicts"] < rows["snr_db"]["verdicts"] == 300
    narrow = (
        views.signal_precision(workspace, confidence=0.5).filter(column="snr_db").row(0, named=True)
    )
    assert rows["snr_db"]["low"] < narrow["low"] < narrow["high"] < rows["snr_db"]["high"]
    with pytest.raises(InputError, match="confidence must be between 0 and 1"):
        views.signal_precision(workspace, confidence=1)


def wrong_of(workspace):
    segments = workspace.segments.with_row_index("i")
    return segments["snr_db"].to_numpy(), segments.select(
        (pl.col("snr_db") < 10) & (pl.col("i") % 2 == 1)
    ).to_series().to_numpy()


@pytest.mark.slow
def test_precision_bounds_by_value_contain_the_true_share_of_each_group(workspace, tmp_path):
    judge(workspace, tmp_path, strategy="stratified")
    found = views.precision_by(workspace, "snr_db")
    assert len(found) == 10
    assert found["segments"].sum() == 3000
    assert found["reviewed"].sum() == 300
    assert found["segments"].min() > 280
    values, wrong = wrong_of(workspace)
    for row in found.iter_rows(named=True):
        inside = (values >= row["least"]) & (values <= row["most"])
        assert inside.sum() == row["segments"]
        assert row["low"] <= 1 - wrong[inside].mean() <= row["high"]
        assert row["low"] <= row["precision"] <= row["high"]
    assert found["precision"][0] < found["precision"][-1]
    assert found["precision"][-1] == found["high"][-1] == 1.0
    assert found["low"][-1] < 1


@pytest.mark.slow
def test_frequent_values_and_missing_values_are_separate_groups(workspace, tmp_path):
    judge(workspace, tmp_path)
    # Without a fault: by the rule of three and a bit.
    best = views.precision_by(workspace, "snr_db").row(-1, named=True)
    assert (best["wrong"], best["high"]) == (0, 1.0)
    assert 1 - 6 / best["reviewed"] < best["low"] < 1 - 3 / best["reviewed"]
    clipped = views.precision_by(workspace, "clipped_share")
    assert clipped.select("least", "most", "segments").row(0) == (0.0, 0.0, 2700)
    assert (clipped["least"][1:] > 0).all()
    assert views.precision_by(workspace, "cut_end").select("least", "most").rows() == [
        (0.0, 0.0),
        (1.0, 1.0),
    ]
    correlation = views.precision_by(workspace, "channel_correlation")
    assert correlation.row(-1)[:3] == (None, None, 1500)
    assert correlation["segments"].sum() == 3000
    assert views.precision_by(workspace, "duration_s").select(
        "least", "most", "segments"
    ).rows() == [(5.0, 5.0, 3000)]
    for column in ("text", "nothing"):
        with pytest.raises(
            InputError, match=f"column '{column}': not in the segments table, or no numbers.*snr_db"
        ):
            views.precision_by(workspace, column)


def test_segments_without_a_similarity_are_a_group(workspace):
    scores = pl.when(pl.int_range(pl.len()) >= 100).then(pl.int_range(pl.len()) / 3000)
    workspace.save(segments=workspace.segments.with_columns(similarity=scores))
    found = views.precision_by(workspace, "similarity").select("least", "most", "segments")
    assert found.rows()[:-1] == [
        (pytest.approx(100 / 3000), pytest.approx(1549 / 3000), 1450),
        (pytest.approx(1550 / 3000), pytest.approx(2999 / 3000), 1450),
    ]
    assert found.row(-1) == (None, None, 100)


def test_without_verdicts_groups_have_no_precision_and_bounds_0_to_1(workspace):
    found = views.precision_by(workspace, "snr_db")
    assert found["reviewed"].sum() == 0
    assert found["precision"].null_count() == len(found)
    assert (found["low"] == 0).all()
    assert (found["high"] == 1).all()


@pytest.mark.slow
def test_the_plot_has_the_best_columns_first_and_without_verdicts_the_distributions(
    workspace, tmp_path
):
    plot = plots.signal_precision(workspace)
    assert "not known: it takes verdicts" in plot.alt_text
    columns = [axes.get_xlabel().split()[0] for axes in plot.axes]
    assert columns == views.signals(workspace)["signal"].to_list()
    assert "not known" in plot._suptitle.get_text()
    judge(workspace, tmp_path)
    plot = plots.signal_precision(workspace, most=3)
    best = views.signal_precision(workspace)["column"].head(3).to_list()
    assert [axes.get_title(loc="left") for axes in plot.axes] == best
    place = best.index("snr_db")
    shown = plot.axes[place].lines[0].get_ydata()
    assert list(shown) == views.precision_by(workspace, "snr_db")["precision"].to_list()


def test_the_distributions_of_signals_have_missing_values_and_shares(workspace):
    found = {row["signal"]: row for row in views.signals(workspace).iter_rows(named=True)}
    assert list(found) == [
        "rms_dbfs",
        "clipped_share",
        "snr_db",
        "noise_floor_dbfs",
        "channel_correlation",
        "cut_end",
    ]
    assert found["channel_correlation"]["missing"] == 0.5
    assert found["snr_db"]["median"] == pytest.approx(
        workspace.segments["snr_db"].median(), abs=0.1
    )
    cut = found["cut_end"]
    assert (cut["median"], cut["true"]) == (
        None,
        pytest.approx(workspace.segments["cut_end"].mean()),
    )
    plot = plots.signals(workspace)
    assert "channel_correlation: median" in plot.alt_text
    assert ", 1,500 without" in plot.alt_text
    heights = [bar.get_height() for bar in plot.axes[-1].containers[0]]
    assert heights == [
        workspace.segments["cut_end"].not_().sum(),
        workspace.segments["cut_end"].sum(),
    ]
    workspace.save(segments=workspace.segments.drop(found))
    assert "Nothing is measured yet" in plots.signals(workspace).alt_text
    plots.signals(workspace)._repr_html_()
