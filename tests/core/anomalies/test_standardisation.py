"""Location and scale, written out for features that fit on a hand, and against numpy where they do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from infrascope_core.anomalies.standardisation import LARGEST_Z, NOVELTY, Moments, fit_moments

NAN = np.nan
DECILES_OF_NORMAL = 2.5631031310892007


def immaterial(location: np.ndarray, scale: np.ndarray, constant: np.ndarray) -> Moments:
    """Moments of features of which nobody knows what matters."""
    nothing = np.zeros(len(location))
    return Moments(location, scale, constant, nothing, nothing, np.full(len(location), -1))


def column(*values: float) -> np.ndarray:
    """Windows of one feature."""
    return np.array(values, dtype=float)[:, None]


def test_plain_is_mean_and_standard_deviation():
    moments, keep = fit_moments(column(1, 3, 5, 7), "plain")
    assert keep.tolist() == [True]
    assert moments.location == [4]
    assert moments.scale == pytest.approx([np.sqrt(5)])


def test_robust_is_median_and_the_distance_between_deciles():
    moments, keep = fit_moments(column(*range(10), 1000), "robust")
    # of eleven values the deciles are the second and the last but one; the thousand is neither
    assert keep.tolist() == [True]
    assert moments.location == [5]
    assert moments.scale == pytest.approx([max(8 / DECILES_OF_NORMAL, 0.1 * np.std([*range(10), 1000]))])
    assert fit_moments(column(*range(11)), "robust")[0].scale == pytest.approx([8 / DECILES_OF_NORMAL])


def test_what_rests_and_bursts_has_a_tenth_of_its_standard_deviation():
    moments, _ = fit_moments(column(*[0] * 19, 1), "robust")
    assert moments.location == [0]
    assert moments.scale == pytest.approx([0.1 * np.sqrt(0.05 * 0.95)])
    assert not moments.constant[0]


@pytest.mark.parametrize("kind", ["plain", "robust"])
def test_missing_values_are_left_out(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(5, 2, (50, 300))  # wider than one piece
    x[rng.random(x.shape) < 0.2] = NAN
    moments, keep = fit_moments(x, kind)
    assert keep.all()
    location, scale = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    if kind == "robust":
        location = np.nanmedian(x, axis=0)
        scale = np.diff(np.nanquantile(x, [0.1, 0.9], axis=0), axis=0)[0] / DECILES_OF_NORMAL
    np.testing.assert_allclose(moments.location, location, rtol=1e-12)
    np.testing.assert_allclose(moments.scale, scale, rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "known", "constant"),
    [
        ([7, 7, 7, 7], True, True),
        ([0.1, 0.1, 0.1], True, True),
        ([1e12, 1e12 + 1, 1e12, 1e12 + 1], True, True),  # rounding, beside its magnitude
        ([1e9, 1e9 + 10, 1e9, 1e9 + 10], True, True),  # the same in single precision
        ([1e9, 1e9 + 1000, 1e9, 1e9 + 1000], True, False),
        ([1, NAN, 3, NAN], True, False),
        ([1, NAN, 3, NAN, NAN], False, None),  # missing from more than half
        ([NAN, NAN], False, None),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "robust"])
def test_what_can_be_judged_and_what_never_moved(kind, values, known, constant):
    moments, keep = fit_moments(column(*values), kind)
    assert keep.tolist() == [known]
    if known:
        assert moments.constant.tolist() == [constant]
        assert np.isfinite(moments.location).all()
    else:
        assert (moments.location.tolist(), moments.scale.tolist()) == ([0], [1])


def test_a_constant_that_left_its_value_counts_as_a_novelty():
    moments, _ = fit_moments(np.array([[100.0, 0.0]] * 3), "robust")
    new = np.array([[100.5, 0.0], [102.0, 1e-9], [98.0, -5.0], [NAN, NAN]])
    assert moments.standardise(new)[:3].tolist() == [[0, 0], [NOVELTY, NOVELTY], [-NOVELTY, -NOVELTY]]
    assert np.isnan(moments.standardise(new)[3]).all()


def test_missing_stays_missing_and_nothing_is_endless():
    moments = immaterial(np.zeros(2), np.full(2, 1e-300), np.zeros(2, dtype=bool))
    z = moments.standardise(np.array([[1.0, NAN], [-1.0, 0.0]]))
    assert z[:, 0].tolist() == [LARGEST_Z, -LARGEST_Z]
    assert np.isnan(z[0, 1])
    assert z[1, 1] == 0


def test_the_bound_is_what_ten_thousand_windows_can_reach():
    """Samuelson's inequality: one window in n apart from n - 1 equal ones is the farthest that there is."""
    lone = column(1, *[0] * 9_999)
    farthest = fit_moments(lone, "plain")[0].standardise(lone).max()
    assert farthest == pytest.approx(np.sqrt(9_999))
    assert round(farthest) == LARGEST_Z


@given(arrays(np.float64, (12, 3), elements=st.floats(-1e6, 1e6, width=32)), st.sampled_from(["plain", "robust"]))
def test_standardised_features_can_be_turned_back(x, kind):
    moments, _ = fit_moments(x, kind)
    z = moments.standardise(x.copy())
    inside = (np.abs(z) < LARGEST_Z) & ~moments.constant
    np.testing.assert_allclose(moments.value(z)[inside], x[inside], rtol=1e-9, atol=1e-6)
    assert (moments.value(z)[:, moments.constant] == moments.location[moments.constant]).all()


def test_some_features_keep_their_moments():
    moments, _ = fit_moments(np.array([[1.0, 7.0, 2.0], [3.0, 7.0, 6.0]]), "plain")
    some = moments.select(np.array([False, True, True]))
    assert some.location.tolist() == [7, 4]
    assert some.scale.tolist() == [1, 2]
    assert some.constant.tolist() == [True, False]


def test_arrays_survive_and_forgeries_do_not():
    moments, _ = fit_moments(column(90, 1, 3), "plain")
    stored = moments.arrays()
    assert Moments.from_arrays(dict(stored), 1).arrays() == stored
    forgeries = {
        "location": (np.ones(2), np.array([NAN]), np.ones((1, 1))),
        "scale": (np.zeros(1), -np.ones(1), np.array([np.inf])),
        "constant": (np.zeros(0, dtype=bool),),
        "least": (np.ones(2), -np.ones(1), np.array([np.inf])),
        "lively": (np.ones(2), -np.ones(1)),
        "spread": (np.array([1]), np.array([-2])),
    }
    for name, values in forgeries.items():
        for forged in values:
            with pytest.raises(ValueError, match=r"does not fit|not finite|is negative"):
                Moments.from_arrays(stored | {name: forged}, 1)
        with pytest.raises(KeyError):
            Moments.from_arrays({k: v for k, v in stored.items() if k != name}, 1)


class TestWhatMatters:
    """Three features: a level, its standard deviation, and the skewness of a signal that should move by 2 at least."""

    @staticmethod
    def moments(x: np.ndarray) -> Moments:
        fitted, _ = fit_moments(x, "robust")
        return fitted.material(np.array([2.0, 2.0, 0.0]), np.array([0.0, 0.0, 2.0]), np.array([1, 1, 1]))

    def test_no_scale_is_below_it(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 3)) * [0.01, 5.0, 0.01]
        scale = self.moments(x).scale
        assert scale[0] == 2.0
        assert scale[1] == pytest.approx(5.0, rel=0.2)
        assert scale[2] == pytest.approx(0.01, rel=0.2)

    def test_what_never_moved_counts_by_the_size_of_its_change(self):
        moments = self.moments(np.tile([0.0, 1.0, 0.5], (5, 1)))
        z = moments.standardise(np.array([[1.0, 1.0, 0.5], [-5.0, 5.0, 0.5], [1e6, 1.0, 0.5]]))
        assert z[:, 0].tolist() == [0.5, -2.5, NOVELTY]
        assert z[:, 1].tolist() == [0.0, 2.0, 0.0]

    def test_the_shape_of_what_hardly_moves_hardly_counts(self):
        rng = np.random.default_rng(0)
        moments = self.moments(rng.normal((0, 0.1, 0), (1, 0.001, 1), size=(100, 3)))
        z = moments.standardise(np.array([[0.0, 0.2, 3.0], [0.0, 2.0, 3.0], [0.0, 20.0, 3.0]]))[:, 2]
        assert z[0] == pytest.approx(0.1 * z[1])
        assert z[1] == z[2]

    def test_but_that_of_what_usually_moves_does(self):
        rng = np.random.default_rng(0)
        moments = self.moments(rng.normal((0, 5, 0), 1, size=(100, 3)))
        z = moments.standardise(np.array([[0.0, 0.2, 3.0], [0.0, 5.0, 3.0]]))[:, 2]
        assert z[0] == z[1]

    def test_some_features_keep_what_matters(self):
        moments = self.moments(np.random.default_rng(0).normal(size=(50, 3)))
        some = moments.select(np.array([False, True, True]))
        assert (some.least.tolist(), some.lively.tolist(), some.spread.tolist()) == ([2, 0], [0, 2], [0, 0])
        without = moments.select(np.array([True, False, True]))
        assert without.spread.tolist() == [-1, -1]
