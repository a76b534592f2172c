"""From the catalogue to window features: what the step reads, reanalyses and leaves out."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.features import EVENT_COUNTER_FEATURES
from infrascope_core.anomalies.settings import FeatureSettings
from infrascope_core.anomalies.tables import STORED_FEATURES, WINDOW_FEATURES
from infrascope_core.pipeline import GRAPH
from infrascope_core.quality.settings import PruningCurveSettings, SelectionSettings
from infrascope_core.quality.tables import METRIC_CATALOG, PRUNING_CURVE, QUALITY_METRICS
from infrascope_core.run_files.tables import RUN_FILES, TELEMETRY
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder

START = datetime(2025, 5, 7)
RNG = np.random.default_rng(0)
SAMPLES = 60
TICKS = RNG.integers(1, 90, (4, SAMPLES)).astype(float)
LEVEL = RNG.normal(500, 50, (4, SAMPLES))
ERRORS = (RNG.random((4, SAMPLES)) < 0.2).astype(float)


def made(folder: DataFolder) -> pl.DataFrame:
    """Window features of the first run."""
    features, _ = GRAPH.make(folder, WINDOW_FEATURES, "run0")
    return features


def metrics(number: int) -> dict[str, np.ndarray]:
    return {
        "Procstat:user[count]": 1e6 * (number + 1) + TICKS[number].cumsum(),
        "Procstat:sys[count]": np.full(SAMPLES, 100.0),  # never moves, but is a part of the whole
        "Procstat:idle[count]": 1e6 * (number + 1) + (95 - TICKS[number]).cumsum(),
        "Memory:Cached[kB]": LEVEL[number],
        "Memory:Copy[kB]": -3 * LEVEL[number],
        "Network:errors[count]": ERRORS[number],
        "Storage:size[count]": np.full(SAMPLES, number + 4.0),
    }


@pytest.fixture
def folder(tmp_path):
    """A data folder with runs written by hand, each a list of (host, number of its metrics)."""

    def fill(*runs: list[tuple[str, int]], settings: Settings) -> DataFolder:
        folder = DataFolder(tmp_path / "data", settings)
        for i, hosts in enumerate(runs):
            key, started = f"run{i}", START + timedelta(hours=i)
            frames = [
                pl.DataFrame(
                    {
                        "run_key": [key] * SAMPLES,
                        "host": [host] * SAMPLES,
                        "sample": range(SAMPLES),
                        "ts": pl.Series([started + timedelta(seconds=s) for s in range(SAMPLES)]),
                        **metrics(number),
                    }
                )
                for host, number in hosts
            ]
            folder.lake.write(pl.concat(frames), TELEMETRY, key, made_from=key)
            row = {"run_key": key, "platform": "cpu", "phase": "train", "workload": "W", "started_at": started}
            row |= {"samples": SAMPLES, "interval_s": 1.0, "status": "accepted"}
            run_file = dict.fromkeys(RUN_FILES.schema.names()) | row
            folder.lake.write(pl.DataFrame([run_file], schema=RUN_FILES.schema), RUN_FILES, key)
            GRAPH.make(folder, QUALITY_METRICS, key)
        GRAPH.make_pooled(folder, METRIC_CATALOG)
        return folder

    return fill


UNSELECTED = Settings(features=FeatureSettings(samples=10, stride=10))
SHORT = UNSELECTED.model_copy(update={"selection": SelectionSettings(enabled=True)})
RUNS = [[("h", 0)], [("h", 1)], [("h", 2)]]


def test_rates_derived_metrics_and_levels_in_and_redundant_ones_out(folder):
    folder = folder(*RUNS, settings=SHORT)
    found = made(folder)
    assert found["metric"].unique().sort().to_list() == [
        "Derived:CPUUtilization[%]",
        "Memory:Cached[kB]",
        "Network:errors[count]",
        "Procstat:sys[count]",
        "Storage:size[count]",
    ]
    # of levels that never move within a run, their value
    size = found.filter(pl.col("metric") == "Storage:size[count]")
    assert (size["maximum"].to_list(), size["windows"].to_list()) == ([4.0], [6])
    assert size.select(set(STORED_FEATURES) - {"maximum"}).null_count().row(0) == (1,) * 11
    # the whole of it, though `user` and `idle` were not watched: user + 0 over user + idle, which is 95 ticks a second
    use = found.filter(pl.col("metric") == "Derived:CPUUtilization[%]").sort("window")
    assert use["window"].to_list() == [1, 2, 3, 4, 5]  # a rate has no value at the first sample
    assert use["mean"].to_list() == pytest.approx([100 * TICKS[0, s : s + 10].mean() / 95 for s in range(10, 60, 10)])
    errors = found.filter(pl.col("metric") == "Network:errors[count]").sort("window")
    sums = np.repeat(errors["sum_values"].to_numpy(), errors["windows"].to_numpy())
    assert sums.tolist() == [ERRORS[0, s : s + 10].sum() for s in range(0, 60, 10)]
    others = [name for name in STORED_FEATURES if name not in EVENT_COUNTER_FEATURES]
    assert errors.select(others).null_count().row(0) == (errors.height,) * len(others)


def test_without_selection_redundant_metrics_are_watched_too(folder):
    folder = folder(*RUNS, settings=SHORT)
    made(folder)
    catalog = folder.lake.made_from(METRIC_CATALOG)
    both = DataFolder(folder.root, UNSELECTED)
    GRAPH.make_pooled(both, METRIC_CATALOG)
    assert folder.lake.made_from(METRIC_CATALOG) == catalog  # fitted on the same; only the use differs
    assert not GRAPH.is_current(both, WINDOW_FEATURES, "run0")
    found = made(both)
    assert found["metric"].unique().sort().to_list() == [
        "Derived:CPUUtilization[%]",
        "Memory:Cached[kB]",
        "Memory:Copy[kB]",
        "Network:errors[count]",
        "Procstat:idle[count]",
        "Procstat:sys[count]",
        "Procstat:user[count]",
        "Storage:size[count]",
    ]
    user = found.filter(pl.col("metric") == "Procstat:user[count]").sort("window")
    assert user["maximum"].to_list() == [TICKS[0, s : s + 10].max() for s in range(10, 60, 10)]


@pytest.mark.parametrize("recipe", ["default", "infrascope"])
def test_two_hosts_in_one_file(folder, recipe):
    settings = UNSELECTED.model_copy(update={"recipe": recipe})
    runs = [[("h2", 0), ("h1", 1)], [("h2", 2), ("h1", 3)]]
    folder = folder(*runs, settings=settings)
    found = made(folder)
    assert found["host"].unique().sort().to_list() == ["h1", "h2"]
    for host, number in (("h1", 1), ("h2", 0)):
        user = found.filter((pl.col("host") == host) & (pl.col("metric") == "Procstat:user[count]")).sort("window")
        assert user["minimum"].to_list() == [TICKS[number, s : s + 10].min() for s in range(10, 60, 10)]
    names = set(folder.lake.read(METRIC_CATALOG)["metric"])
    assert ("Derived:CPUUtilization.h1[%]" if recipe == "infrascope" else "Derived:CPUUtilization[%]") in names


def test_a_run_in_which_nothing_is_watched_has_no_features(folder):
    folder = folder(*RUNS, settings=SHORT)
    index = folder.lake.read(TELEMETRY, "run0").select("run_key", "host", "sample", "ts")
    copy = index.with_columns(pl.Series("Memory:Copy[kB]", LEVEL[0]))  # which another metric represents
    folder.lake.write(copy, TELEMETRY, "run0", made_from="copy")
    assert made(folder).equals(WINDOW_FEATURES.empty())


def test_curves_are_drawn_once_and_anew_when_the_catalogue_changes(folder):
    folder = folder(*RUNS, settings=SHORT)
    curve = GRAPH.make_pooled(folder, PRUNING_CURVE)
    assert curve.height == 90
    folder.lake.drop(TELEMETRY, "run0")  # nobody looks at it again
    assert GRAPH.make_pooled(folder, PRUNING_CURVE).equals(curve)
    fewer = SHORT.model_copy(update={"pruning_curve": PruningCurveSettings(thresholds=5)})
    folder.lake.write(folder.lake.read(TELEMETRY, "run1"), TELEMETRY, "run0", made_from="copy")
    assert GRAPH.make_pooled(DataFolder(folder.root, fewer), PRUNING_CURVE).height == 5


def test_a_catalogue_is_kept_until_what_it_rests_on_changes(folder):
    folder = folder(*RUNS, settings=SHORT)
    fitted = folder.lake.read(METRIC_CATALOG)
    assert fitted.filter(pl.col("status") == "redundant").height == 3
    assert GRAPH.make_pooled(folder, METRIC_CATALOG).equals(fitted)
    strict = DataFolder(folder.root, SHORT.model_copy(update={"selection": SelectionSettings(max_correlation=1.0)}))
    assert GRAPH.make_pooled(strict, METRIC_CATALOG).filter(pl.col("status") == "redundant").is_empty()
