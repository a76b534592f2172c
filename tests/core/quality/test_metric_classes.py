"""Classes of metrics: by how they behave inside the runs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.quality.classes import behaviour, classify, periodic
from infrascope_core.quality.settings import ClassSettings

NAN = float("nan")
RNG = np.random.default_rng(0)
NOISE = RNG.normal(50, 10, 400)
RARE = (RNG.random(400) < 0.05) * RNG.integers(1, 5, 400).astype(float)


def class_of(*runs, unit: str = "count", whole: bool = False) -> tuple[str | None, str | None]:
    parts = [
        behaviour(np.asarray(run, dtype=float)[:, None], ["a"], np.array([whole])).with_columns(unit=pl.lit(unit))
        for run in runs
    ]
    found = classify(pl.concat(parts), {"%", "kB"}, ClassSettings())
    return (found["metric_class"][0], found["why"][0]) if found.height else (None, None)


def test_the_facts_of_one_run():
    values = np.array([[1.0, 0.5, NAN], [1, 0, NAN], [NAN, 0, NAN], [3, 0, NAN], [4, -1, NAN]])
    found = behaviour(values, ["a", "b", "c"]).drop("mean", "m2", "periodic")
    assert found.rows() == [
        ("a", 4, 0, 2, 1, True, 1.0),  # 1 to 1 and 3 to 4 are steps, over the gap there is none
        ("b", 5, 3, 4, 2, False, -1.0),
        ("c", 0, 0, 0, 0, True, np.inf),
    ]


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.floats(0, 1e9))
def test_moments_are_numpys_and_survive_a_huge_offset(values, offset):
    x = np.array(values) + offset
    found = behaviour(x[:, None], ["a"])
    assert found["mean"][0] == pytest.approx(x.mean(), rel=1e-9, abs=1e-9)
    assert found["m2"][0] == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-5, abs=1e-6 * max(1, offset * 1e-9))


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([NOISE], "dynamic"),
        ([RARE], "event_counter"),
        ([RARE, np.zeros(400)], "event_counter"),
        ([RARE + 0.5], "dynamic"),  # not whole, hardly ever 0
        ([-RARE], "dynamic"),  # falls below 0
        ([RARE, np.full(400, 3.0)], "dynamic"),  # 3 throughout a run: a state that is not 0
        ([np.zeros(400), np.full(400, 3.0)], "static"),  # constant in each run, different between runs
        ([np.repeat([4.0, 5.0], 400)], "static"),  # one step in 800
        ([NOISE / 1e4 + 1e6], "static"),  # hardly any spread within the run
        ([[5.0], [6.0]], "dynamic"),  # one sample a run says nothing
        ([np.full(400, NAN)], None),
    ],
)
def test_classes(runs, expected):
    assert class_of(*runs)[0] == expected


def test_levels_and_shares_count_no_events():
    assert class_of(RARE, unit="%")[0] == "dynamic"
    assert class_of(RARE, unit="kB")[0] == "dynamic"


def test_rates_of_counters_count_whole_things():
    assert class_of(RARE / 0.1003)[0] == "dynamic"
    assert class_of(RARE / 0.1003, whole=True)[0] == "event_counter"


def test_the_reason_gives_the_figure():
    assert class_of([0.0, 0, 0, 4]) == ("event_counter", "event counter: 75.0 % of the samples are 0")
    assert class_of(np.repeat([4.0, 5.0], 1000))[1] == "static: 0.05 % of the steps change it"
    assert class_of([100.0] * 4 + [100.005] + [100.0] * 4 + [100.01])[1] == (
        "static: deviates by 0.0032 % within the runs"
    )
    assert class_of([1.0, 2, 2, 3, 1])[1] == "dynamic: 75.0 % of the steps change it"
    assert class_of([5.0], [6.0])[1] == "dynamic: no two successive samples"


def test_strictly_periodic_signals_are_static():
    saw = np.tile([1.0, 2, 3, 9, 4], 80)
    assert class_of(saw) == ("static", "static: strictly periodic in every run")
    assert class_of(saw, np.full(400, 3.0))[0] == "static"  # where it moves, it is periodic
    assert class_of(saw, NOISE)[0] == "dynamic"
    disturbed = saw.copy()
    disturbed[200:230] = 20
    assert class_of(disturbed)[0] == "dynamic"


def test_periodicity_is_not_smoothness():
    t = np.arange(400)
    signals = {
        "sine": np.sin(2 * np.pi * t / 20),
        "ramp": t.astype(float),
        "walk": RNG.normal(size=400).cumsum(),
        "noise": NOISE,
        "constant": np.zeros(400),
        "slow": np.sin(2 * np.pi * t / 200),  # seen twice: undecided
    }
    x = np.column_stack(list(signals.values()))
    found = dict(zip(signals, periodic(x - x.mean(axis=0)), strict=True))
    assert found == {name: name == "sine" for name in signals}
    assert periodic(np.zeros((3, 2))).tolist() == [False, False]
    assert periodic(np.zeros((400, 0))).tolist() == []


def test_the_order_of_runs_does_not_matter():
    runs = [RARE, NOISE, RARE * 2]
    assert class_of(*runs) == class_of(*reversed(runs))


def test_the_spread_of_all_samples_together():
    """What derived metrics are judged constant by."""
    runs = [np.array([1.0, 2, 4]), np.array([10.0, 11]), np.array([NAN, 7])]
    parts = [behaviour(run[:, None], ["a"]).with_columns(unit=pl.lit("%")) for run in runs]
    pooled = np.concatenate(runs)
    pooled = pooled[np.isfinite(pooled)]
    found = classify(pl.concat(parts), {"%"}, ClassSettings())
    assert found["samples"][0] == 6
    assert found["cv"][0] == pytest.approx(pooled.std(ddof=1) / pooled.mean())
