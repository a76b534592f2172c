"""Which metrics are cumulative counters: recognised by how they move over all runs, not by their names."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.quality.metrics import quality_metrics
from infrascope_core.quality.reanalysis import level_units
from infrascope_core.quality.settings import ReanalysisSettings
from infrascope_core.quality.status import metric_status
from infrascope_core.recipes import load_recipe
from infrascope_core.run_files.tables import METRIC_TYPES

START = datetime(2025, 5, 7)
SAMPLES = 60
RNG = np.random.default_rng(0)
INCREMENTS = RNG.integers(1, 9, (4, SAMPLES)).astype(float)
RISING = INCREMENTS.cumsum().reshape(4, SAMPLES)
"""Four runs of a counter that stood still between them."""
RECIPE = load_recipe("default")


@pytest.fixture
def treatment(tmp_path):
    """Treatment of a metric, from its values in successive runs (hours apart unless `apart` says otherwise)."""

    def judge(runs, metric="Source:a[count]", *, apart=3600, hosts=None, recipe=RECIPE, declared=None, **settings):
        files, rows = [], []
        for i, values in enumerate(runs):
            host = hosts[i] if hosts else "h"
            started = START + timedelta(seconds=apart * i)
            frame = pl.DataFrame(
                {
                    "run_key": [f"r{i}"] * len(values),
                    "host": [host] * len(values),
                    "sample": range(len(values)),
                    "ts": pl.Series([started + timedelta(seconds=s) for s in range(len(values))]),
                    metric: pl.Series(values, dtype=pl.Float64),
                }
            )
            files.append(tmp_path / f"r{i}.parquet")
            said = declared[i] if isinstance(declared, list) else declared
            rows_of_type = [(f"r{i}", metric, said, "as the source calls it")] if said else []
            types = pl.DataFrame(rows_of_type, schema=METRIC_TYPES.schema, orient="row")
            quality_metrics(frame, types).write_parquet(files[-1])
            rows.append((f"r{i}", "cpu", started, len(values), 1.0))
        schema = {
            "run_key": pl.String(),
            "platform": pl.String(),
            "started_at": pl.Datetime("us"),
            "samples": pl.Int64(),
            "interval_s": pl.Float64(),
        }
        table = pl.DataFrame(rows, schema=schema, orient="row")
        catalog = metric_status(files, table, recipe, ReanalysisSettings(**settings), level_units())
        return ", ".join(catalog["treatment"])

    return judge


def after(*changes: tuple[int, int, float]) -> np.ndarray:
    """The counter with some values replaced: (run, sample, value)."""
    runs = RISING.copy()
    for run, sample, value in changes:
        runs[run, sample] = value
    return runs


def test_what_never_falls_and_keeps_its_order_from_run_to_run_is_a_counter(treatment):
    assert treatment(RISING) == "rate"
    assert treatment(RISING, "whatever[ms]") == "rate"


@pytest.mark.parametrize("metric", ["Meminfo:Buffers[kB]", "GPU:temperature[C]", "x[%]", "Net:rate[Bytes/s]"])
def test_a_level_is_none_though_it_never_falls(treatment, metric):
    assert treatment(RISING, metric) == "as_is"


def test_what_comes_as_differences_is_left_alone(treatment):
    assert treatment(RISING, "Source_diff:a[count]") == "as_is"


def test_a_ramp_that_starts_anew_in_every_run_is_none(treatment):
    """Page tables under a leak: a rise in each run, from where the last run began."""
    assert treatment([RISING[0]] * 4, "Vmstat:nr_page_table_pages[count]") == "as_is"


def test_a_gauge_falls_sometimes(treatment):
    falls = [(run, sample, RISING[run, sample] - 20) for run in range(4) for sample in (20, 40)]
    assert treatment(after(*falls)) == "as_is"


def test_fractions_and_negative_values_are_none(treatment):
    assert treatment(RISING + 0.25) == "as_is"
    assert treatment(RISING - 100) == "as_is"
    assert treatment(RISING * 1e9 + 0.25) == "rate"  # so large that the fraction says nothing


def test_resets_and_wraps_within_a_run_do_not_matter(treatment):
    reset = RISING + 1_000
    reset[1, 30:] -= reset[1, 30]
    reset[2:] -= 1_000
    assert treatment(reset) == "rate"
    wrapped = (RISING + 2**32 - RISING[1, 30]) % 2**32
    assert treatment(wrapped) == "rate"


def test_a_reboot_between_runs_does_not_matter(treatment):
    rebooted = np.concatenate([RISING + 5_000, RISING])[[0, 1, 2, 3, 4, 5, 6]]
    assert treatment(rebooted) == "rate"  # one of 6 pairs is out of order


def test_the_order_counts_on_each_host_for_itself(treatment):
    other = RISING[:2] + 1e6
    runs = [RISING[0], other[0], RISING[1], other[1]]
    assert treatment(runs, hosts=["h1", "h2", "h1", "h2"]) == "rate"
    assert treatment(runs) == "as_is"
    exact = load_recipe("infrascope")
    assert treatment(runs, hosts=["h1", "h2", "h1", "h2"], recipe=exact) == "rate, rate"


def test_runs_that_overlap_have_no_order(treatment):
    """Two runs on one host at one time see the same counter; that one ends above the other's start says nothing."""
    together = [RISING[0], RISING[0]]
    assert treatment(together, apart=0) == "rate"
    assert treatment(together, apart=3600) == "as_is"


def test_one_run_alone_must_rise_steadily(treatment):
    """Page cache in one run: never falls, but pauses. In two runs, it begins anew; a counter goes on."""
    pausing = np.repeat(RISING, 2, axis=1)
    assert treatment(RISING[:1]) == "rate"
    assert treatment(RISING[:2]) == "rate"
    assert treatment(pausing[:1]) == "as_is"
    assert treatment(pausing[:2]) == "rate"
    assert treatment(pausing[[0, 0]]) == "as_is"
    assert treatment(pausing[:2], min_pairs=2) == "as_is"
    assert treatment(pausing[:3], min_pairs=2) == "rate"


def test_a_few_moves_are_not_enough(treatment):
    rare = np.zeros((4, SAMPLES)) + np.arange(4)[:, None] * 3
    rare[:, 20:] += 1
    rare[:, 40:] += 1
    assert treatment(rare) == "as_is"
    assert treatment(rare, min_moves=11) == "rate"  # 2 in each run, and 3 between runs
    assert treatment(rare, min_moves=12) == "as_is"


@pytest.mark.parametrize("values", [[0.0] * 60, [7.0] * 60, [None] * 60, [5.0]])
def test_what_does_not_move_is_none(treatment, values):
    assert treatment([values] * 3) == "as_is"


def test_infinite_and_missing_samples_are_passed_over(treatment):
    holes = after((0, 3, np.inf), (1, 7, np.inf)).tolist()
    holes[2][5] = None
    assert treatment(holes) == "rate"


def test_what_is_declared_is_not_guessed(treatment):
    """Seconds of CPU time are a counter although they are no whole numbers; a gauge may rise all the time."""
    seconds = RISING + 0.25
    assert treatment(seconds, "CPU:user[s]", declared="counter") == "rate"
    assert treatment(RISING, declared="gauge") == "as_is"
    assert treatment(RISING, declared="state") == "as_is"
    assert treatment(RISING, "Memory:level[kB]", declared="counter") == "rate"  # kB is the unit of levels, elsewhere


def test_a_run_that_declares_nothing_goes_with_the_others(treatment):
    assert treatment(RISING + 0.25, declared=["counter", None, None, "counter"]) == "rate"


def test_contradictory_declarations_count_as_none(treatment):
    assert treatment(RISING + 0.25, declared=["counter", "gauge", "counter", "counter"]) == "as_is"
    assert treatment(RISING, declared=["counter", "gauge", "counter", "counter"]) == "rate"
