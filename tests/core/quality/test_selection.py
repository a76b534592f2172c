"""Metric selection: Pearson matrices against numpy, representatives, and what they cost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from infrascope_core.quality.selection import (
    Correlations,
    pearson,
    priority,
    pruning_curve,
    ranking,
    representatives,
    select,
)
from infrascope_core.quality.settings import PruningCurveSettings

NAN = float("nan")
RNG = np.random.default_rng(0)


def matrix(names: str, **pairs: float) -> Correlations:
    """Metrics named by single letters, uncorrelated but for the pairs."""
    r = np.eye(len(names))
    for pair, value in pairs.items():
        i, j = (names.index(name) for name in pair)
        r[i, j] = r[j, i] = value
    return Correlations(tuple(names), r)


# -- correlation


def test_pearson_is_numpys():
    values = RNG.normal(size=(200, 5)) @ RNG.normal(size=(5, 5))
    assert pearson(values) == pytest.approx(np.corrcoef(values.T), abs=1e-9)


def test_missing_samples_are_left_out_pair_by_pair_as_pandas_does():
    values = RNG.normal(size=(50, 4)) @ RNG.normal(size=(4, 4))
    values[RNG.random(values.shape) < 0.3] = NAN
    expected = pd.DataFrame(values).corr(min_periods=3).to_numpy()
    assert pearson(values) == pytest.approx(expected, abs=1e-9)


def test_what_does_not_vary_has_no_correlation():
    values = np.array(
        [[1.0, 5, NAN, 1, 1], [2, 5, NAN, NAN, 1], [4, 5, NAN, 1, NAN], [3, 5, NAN, 1, 2], [9, 5, 7, 1, 3]]
    )
    r = pearson(values)
    assert np.isfinite(r[0, 0])
    assert np.isnan(r[1]).all()
    assert np.isnan(r[2]).all()  # one value
    assert np.isnan(r[3]).all()  # constant where known
    assert r[0, 4] == pytest.approx(np.corrcoef([1, 2, 3, 9], [1, 1, 2, 3])[0, 1])


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e12, 1e150])
def test_scale_and_offset_do_not_matter(scale):
    x = RNG.normal(size=(100, 2))
    assert pearson(x * scale)[0, 1] == pytest.approx(np.corrcoef(x.T)[0, 1], abs=1e-9)
    assert pearson(x + 1e9)[0, 1] == pytest.approx(np.corrcoef((x + 1e9).T)[0, 1], abs=1e-6)


def test_two_samples_and_none():
    assert np.isnan(pearson(np.array([[1.0, 2], [2, 4]]))).all()  # two samples always lie on a line
    assert np.isnan(pearson(np.empty((0, 2)))).all()
    assert pearson(np.empty((5, 0))).shape == (0, 0)


@given(
    arrays(float, st.tuples(st.integers(0, 12), st.integers(1, 4)), elements=st.sampled_from([NAN, 0, 1, 1e9, -3.5]))
)
def test_any_matrix_of_correlations_is_symmetric_and_within_bounds(values):
    r = pearson(values)
    assert np.array_equal(r, r.T, equal_nan=True)
    assert not (np.abs(r) > 1).any()


def test_the_mean_over_runs_passes_over_pairs_that_a_run_does_not_know():
    one = (["b", "a"], np.array([[1.0, 0.8], [0.8, 1.0]]))
    two = (["a", "b", "c"], np.array([[1.0, 0.4, NAN], [0.4, 1.0, NAN], [NAN, NAN, NAN]]))
    three = (["a", "c"], np.array([[1.0, -0.5], [-0.5, 1.0]]))
    mean = Correlations.mean([one, two, three])
    assert mean.names == ("a", "b", "c")
    expected = [[1.0, 0.6, -0.5], [0.6, 1.0, NAN], [-0.5, NAN, 1.0]]
    assert mean.r == pytest.approx(np.array(expected), nan_ok=True)
    assert Correlations.mean([two]).of("abc").names == ("a", "b")  # c varies nowhere
    assert Correlations.mean([]).names == ()


# -- who stands for whom


def test_the_table_prefers_utilization_and_throughput():
    ranked = [
        "Turbostat:Busy%.-[%]",
        "GPU: utilization.gpu.0[%]",
        "Memory:MemoryUtilization[%]",
        "Derived:NetworkThroughput[Bytes/s]",
        "Storage_diff:sectors_read[count]",
        "Perf:IPC[-]",
        "Turbostat:Busy%.17[%]",
        "Perf:Cache_Misses[count]",
        "Memory:KernelStack[kB]",
    ]
    ranked_anew = ranked[::-1]
    ranked_anew.sort(key=priority)
    assert ranked_anew == ranked


def test_the_order_is_priority_then_variance_of_correlations_then_name():
    # b has correlations of 0.9, 0 and 0.9; a and d have 0.9 and 0.1 beside a 0
    correlations = matrix("abcd", ab=0.9, ac=0.1, bd=0.9, cd=0.1)
    assert [correlations.names[i] for i in ranking(correlations, [1, 1, 0, 1])] == ["c", "b", "a", "d"]


def test_a_representative_itself_correlates_with_what_it_stands_for():
    """A chain a-b-c: a and c are not correlated, so no single cluster."""
    chain = matrix("abc", ab=0.8, bc=-0.8, ac=0.2)
    assert representatives(chain.r, np.array([0, 1, 2]), 0.5).tolist() == [0, 0, 2]
    assert representatives(chain.r, np.array([1, 0, 2]), 0.5).tolist() == [1, 1, 1]
    assert representatives(chain.r, np.array([0, 1, 2]), 0.8).tolist() == [0, 1, 2]  # above, not at, the threshold


@settings(max_examples=50)
@given(st.integers(1, 12), st.floats(0.05, 0.99), st.randoms())
def test_laws_of_representatives(size, threshold, random):
    rng = np.random.default_rng(random.getrandbits(32))
    r = np.atleast_2d(np.corrcoef(rng.normal(size=(size, 6)) + rng.normal(size=6)))
    standing = representatives(r, rng.permutation(size), threshold)
    kept = standing == np.arange(size)
    assert kept[standing].all()
    assert (np.abs(r[np.arange(size), standing])[~kept] > threshold).all()
    among = np.abs(r[np.ix_(kept, kept)])
    np.fill_diagonal(among, 0)
    assert (among <= threshold).all()


def test_what_one_workload_keeps_is_kept():
    first = matrix("abc", ab=0.9, ac=0.6, bc=0.7)
    second = matrix("ab", ab=0.2)
    assert select({"one": first}, 0.5).rows() == [("b", "a", 0.9, "one"), ("c", "a", 0.6, "one")]
    # c varies in the first workload alone; b stands for itself in the second
    assert select({"one": first, "two": second}, 0.5).rows() == [("c", "a", 0.6, "one")]
    assert select({}, 0.5).rows() == []


def test_a_redundant_metric_names_its_strongest_representative():
    workloads = {"one": matrix("ab", ab=0.7), "two": matrix("ab", ab=-0.9), "three": matrix("ab", ab=0.9)}
    assert select(workloads, 0.5).rows() == [("b", "a", 0.9, "three")]  # of equal |r|, the first workload by name


def test_groups_keep_to_themselves():
    correlations = matrix("abc", ab=0.9, ac=0.9, bc=0.9).within({"a": "CPU", "b": "CPU", "c": "Memory"})
    assert select({"one": correlations}, 0.5)["metric"].to_list() == ["b"]


# -- the pruning curve

CURVE = PruningCurveSettings(thresholds=3, lowest=0.1, highest=0.9, shrinkage=1e-9)


def test_the_curve_of_three_metrics():
    found = pruning_curve(matrix("abc", ab=0.8), CURVE)
    assert found["threshold"].to_list() == [0.1, 0.5, 0.9]
    assert found["metrics"].to_list() == [3, 3, 3]
    assert found["selected_ratio"].to_list() == pytest.approx([2 / 3, 2 / 3, 1])
    # b is seen through a; a and c have no other kept metric that represents them
    assert found["mean_max_r"].to_list() == pytest.approx([0.8 / 3, 0.8 / 3, 1.6 / 3])
    assert found["multi_r2"].to_list() == pytest.approx([0.64 / 3, 0.64 / 3, 1.28 / 3])


def test_the_proxy_is_the_r2_of_a_regression():
    x = RNG.normal(size=(500, 6)) @ RNG.normal(size=(6, 6))
    correlations = Correlations(tuple("abcdef"), np.atleast_2d(np.corrcoef(x.T)))
    settings = PruningCurveSettings(thresholds=2, lowest=0.3, highest=0.99, shrinkage=1e-9)
    standing = representatives(correlations.r, ranking(correlations), 0.3)
    kept = np.flatnonzero(standing == np.arange(6))
    assert 1 < len(kept) < 6
    r2 = []
    for i in range(6):
        others = np.column_stack([x[:, kept[kept != i]], np.ones(len(x))])
        left = x[:, i] - others @ np.linalg.lstsq(others, x[:, i], rcond=None)[0]
        r2.append(1 - left.var() / x[:, i].var())
    assert pruning_curve(correlations, settings)["multi_r2"][0] == pytest.approx(np.mean(r2), abs=1e-6)


def test_the_curves_rise_with_the_threshold():
    """On structure such as metrics have: a few causes, noise, and copies."""
    causes = RNG.normal(size=(300, 4))
    x = np.repeat(causes, 10, axis=1) + RNG.normal(size=(300, 40)) * np.tile(np.linspace(0.01, 2, 10), 4)
    found = pruning_curve(Correlations(tuple(map(str, range(40))), pearson(x)), PruningCurveSettings(thresholds=20))
    assert found["selected_ratio"][0] < 0.4
    assert found["selected_ratio"][-1] > 0.9
    for name in ("selected_ratio", "multi_r2"):
        assert found[name].to_list() == pytest.approx(sorted(found[name]), abs=0.05)
    assert found.select(pl.col("selected_ratio", "mean_max_r", "multi_r2").is_between(0, 1).all()).row(0) == (True,) * 3


def test_a_mean_matrix_that_is_not_a_correlation_matrix_gives_figures_in_range():
    impossible = matrix("abc", ab=0.9, bc=0.9, ac=-0.9)
    found = pruning_curve(impossible, PruningCurveSettings(thresholds=3, lowest=0.5, highest=0.95))
    assert found["multi_r2"].is_between(0, 1).all()


def test_nothing_to_prune():
    assert pruning_curve(Correlations.mean([]), CURVE).height == 0


def test_of_many_metrics_the_curve_looks_at_some_spread_over_their_names():
    names = tuple(f"m{i:02d}" for i in range(61))
    all_of_them = Correlations(names, pearson(RNG.normal(size=(80, 61)) @ RNG.normal(size=(61, 61))))
    bounded = PruningCurveSettings(thresholds=5, most_metrics=21)
    third = all_of_them.of(names[::3])
    assert pruning_curve(all_of_them, bounded).equals(pruning_curve(third, PruningCurveSettings(thresholds=5)))
    alone = pruning_curve(matrix("a"), CURVE)
    assert alone.select("selected_ratio", "mean_max_r", "multi_r2").rows() == [(1.0, 0.0, 0.0)] * 3
