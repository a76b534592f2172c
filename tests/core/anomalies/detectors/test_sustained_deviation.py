"""Sustained deviation by hand: each metric against its own range, and the most deviating ones together."""

from __future__ import annotations

import numpy as np
import pytest

from infrascope_core.anomalies.detectors import SustainedDeviation

BASELINE = np.array([[1.0, -3.0, 0.5, 0.0], [0.0, 1.0, -4.0, 0.01]])
METRICS = ["cpu", "cpu", "disk", "net"]
TWO_RUNS = np.array([0, 1])


def fitted(top: int = 8) -> SustainedDeviation:
    return SustainedDeviation(METRICS, top).fit(BASELINE, TWO_RUNS)


def test_a_features_range_is_the_largest_that_the_baseline_has_and_never_next_to_nothing():
    assert fitted().range.tolist() == [1.0, 3.0, 4.0, 0.3]


def test_of_a_run_that_was_compared_with_itself_the_rare_extremes_do_not_count():
    z = np.r_[np.full(99, 2.0), 50.0][:, None]
    assert SustainedDeviation(["cpu"]).fit(z).range.tolist() == [2.0]
    assert SustainedDeviation(["cpu"]).fit(z, np.arange(100) // 50).range.tolist() == [50.0]


def test_a_metric_deviates_as_its_three_most_deviating_features_do():
    names = ["cpu"] * 5
    wide = SustainedDeviation(names).fit(np.ones((2, 5)), TWO_RUNS)
    assert wide.ratios(np.array([[1.0, -2.0, 9.0, -4.0, 0.0]])).tolist() == [[5.0]]
    # of two there are no more than two: 4 / 1 and 6 / 3, of the others one each
    np.testing.assert_allclose(fitted().ratios(np.array([[4.0, -6.0, 2.0, 0.9]])), [[3.0, 0.5, 3.0]])


Z = np.array([[4.0, -6.0, 2.0, 0.6]])
"""Ratios 3, 0.5 and 2."""


def test_the_score_is_the_geometric_mean_of_the_largest():
    assert fitted(top=1).score(Z) == pytest.approx([3.0])
    assert fitted(top=2).score(Z) == pytest.approx([np.sqrt(2.0 * 3.0)])
    assert fitted(top=3).score(Z) == pytest.approx([3.0 ** (1 / 3)])
    assert fitted(top=8).score(Z) == pytest.approx([3.0 ** (1 / 3)])  # there are no more than three


def test_several_that_are_somewhat_out_count_more_than_one_far_out():
    one, several = np.array([[80.0, 80.0, 0.04, 0.0]]), np.array([[4.0, 12.0, 16.0, 1.2]])
    assert fitted(top=3).score(several) == pytest.approx([4.0])
    assert fitted(top=3).score(one)[0] < 1.0


def test_metrics_share_the_score_by_their_ratios_and_so_do_their_features():
    score = np.sqrt(6.0)  # cpu 3, net 2; disk with 0.5 is not among the two; cpu's features 4 and 2 times their ranges
    np.testing.assert_allclose(
        fitted(top=2).explain(Z), [[score * 0.6 * 2 / 3, score * 0.6 / 3, 0.0, score * 0.4]], rtol=1e-12
    )


def test_the_planted_metric_comes_first():
    rng = np.random.default_rng(0)
    metrics = [f"m{i // 3:02}" for i in range(60)]
    peaks = SustainedDeviation(metrics).fit(rng.normal(size=(200, 60)))
    z = rng.normal(size=(40, 60))
    z[25, 33:36] += 20
    assert peaks.score(z).argmax() == 25
    split = peaks.explain(z)
    assert np.add.reduceat(split[25], peaks.starts).argmax() == 11
    np.testing.assert_allclose(split.sum(axis=1), peaks.score(z), rtol=1e-12)


def alike(*columns: np.ndarray, names: list[str] | None = None) -> SustainedDeviation:
    z = np.stack(columns, axis=1)
    return SustainedDeviation(names or [f"m{i}" for i in range(len(columns))]).fit(z, np.arange(len(z)) // 50)


def test_of_metrics_that_move_together_two_are_counted():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 100))
    noise = 0.1 * rng.normal(size=(3, 100))
    peaks = alike(one, one + noise[0], -one + noise[1], one + noise[2], other)
    assert len(set(peaks.alike[:4].tolist())) == 1
    assert peaks.alike[4] != peaks.alike[0]
    loud = np.array([[4.0, 5.0, -6.0, 3.0, 2.0]]) * peaks.range
    # two of the four, and the other one; two that are not counted are as quiet as can be
    assert peaks.score(loud) == pytest.approx([(6 * 5 * 2 * 1e-3 * 1e-3) ** (1 / 5)])
    assert (peaks.explain(loud)[0] > 0).tolist() == [False, True, True, False, True]


def test_of_a_cores_counters_two_are_counted():
    rng = np.random.default_rng(0)
    counters = ["CPU:CPU7Utilization[%]", "Turbostat:Bzy_MHz.7[MHz]", "Turbostat:Busy%.7[%]", "Turbostat:IRQ.3[count]"]
    peaks = alike(*rng.normal(size=(4, 100)), names=counters)
    loud = np.array([[4.0, 5.0, 6.0, 3.0]]) * peaks.range
    assert (peaks.explain(loud)[0] > 0).tolist() == [False, True, True, True]
    gpu = [f"GPU: clocks.{part}.0[MHz]" for part in ("sm", "gr", "video")]
    assert (alike(*rng.normal(size=(3, 100)), names=gpu).explain(loud[:, :3])[0] > 0).all()


def test_nothing_is_alike_in_a_handful_of_windows():
    z = np.arange(10.0)
    assert alike(z, z).alike.tolist() == [0, 1]


def test_its_state_is_all_that_it_needs():
    rng = np.random.default_rng(0)
    one = rng.normal(size=100)
    peaks = alike(one, one, one, rng.normal(size=100), names=["a", "b", "c", "Turbostat:IRQ.3[count]"])
    z = rng.normal(size=(20, 4))
    again = SustainedDeviation.from_state(peaks.state(), 4)
    assert again.score(z).tolist() == peaks.score(z).tolist()
    assert again.explain(z).tolist() == peaks.explain(z).tolist()


def test_a_missing_feature_does_not_deviate():
    z = np.array([[8.0, np.nan, np.nan, 0.3]])
    np.testing.assert_allclose(fitted().ratios(z), [[4.0, 0.0, 1.0]])
    split = fitted(top=2).explain(z)
    np.testing.assert_allclose(split, [[2.0 * 0.8, 0.0, 0.0, 2.0 * 0.2]])


def test_a_window_that_deviates_nowhere_has_the_least_score_and_nothing_to_explain():
    calm = np.zeros((1, 4))
    assert fitted().score(calm) == pytest.approx([1e-3])
    assert fitted().explain(calm).tolist() == [[0.0] * 4]


@pytest.mark.parametrize(
    "broken",
    [
        {"starts": [1, 2, 3]},
        {"starts": [0, 2, 2]},
        {"starts": []},
        {"range": [1.0, 2.0]},
        {"range": [1.0, 0.0, 2.0, 1.0]},
        {"range": [1.0, np.nan, 2.0, 1.0]},
        {"top": [0]},
        {"core": [0, 1]},
        {"alike": [0, 1, 2, 3]},
    ],
)
def test_ranges_that_do_not_fit_the_metrics_are_refused(broken):
    state = fitted().state() | {k: np.array(v) for k, v in broken.items()}
    with pytest.raises(ValueError, match=r"metrics and their ranges|does not fit"):
        SustainedDeviation.from_state(state, 4)
