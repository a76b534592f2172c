"""The catalogue as a whole: status, class, treatment and selection of the metrics of a tiny fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.quality import catalogue
from infrascope_core.quality.metrics import quality_metrics
from infrascope_core.quality.settings import SelectionSettings
from infrascope_core.quality.tables import METRIC_CATALOG, PRUNING_CURVE
from infrascope_core.quality.trust import feature_plan
from infrascope_core.recipes import load_recipe
from infrascope_core.settings import Settings

START = datetime(2025, 5, 7)
RNG = np.random.default_rng(0)
SAMPLES = 80
DEFAULT, EXACT = load_recipe("default"), load_recipe("infrascope")
BUSY = RNG.normal(50, 10, (6, SAMPLES))
TICKS = RNG.integers(1, 90, (6, SAMPLES)).astype(float)


def run(number: int, host: str = "h", platform: str = "cpu", workload: str = "W", **metrics) -> dict:
    samples = len(next(iter(metrics.values())))
    started = START + timedelta(hours=number)
    frame = pl.DataFrame(
        {
            "run_key": [f"r{number}"] * samples,
            "host": [host] * samples,
            "sample": range(samples),
            "ts": pl.Series([started + timedelta(seconds=s) for s in range(samples)], dtype=pl.Datetime("us")),
            **{name: pl.Series(list(values), dtype=pl.Float64) for name, values in metrics.items()},
        }
    )
    row = {
        "run_key": f"r{number}",
        "platform": platform,
        "phase": "train",
        "workload": workload,
        "started_at": started,
        "samples": samples,
        "interval_s": 1.0,
    }
    return {"telemetry": frame, "row": row}


@pytest.fixture
def judge(tmp_path):
    """The catalogue of some runs; `read_keys` says whose telemetry was read for it."""

    class Judge:
        def __init__(self) -> None:
            self.read_keys: list[str] = []

        def fleet(self, *runs: dict, recipe=DEFAULT):
            frames: dict[str, pl.DataFrame] = {}
            for one in runs:
                key = one["row"]["run_key"]
                parts = [frames[key]] if key in frames else []
                frames[key] = pl.concat([*parts, one["telemetry"]], how="diagonal")
            rows = pl.DataFrame([r["row"] for r in runs]).unique("run_key", maintain_order=True)
            rows = rows.with_columns(pl.col("started_at").cast(pl.Datetime("us")))
            files = []
            for key, frame in sorted(frames.items()):
                files.append(tmp_path / f"{key}.parquet")
                quality_metrics(frame).write_parquet(files[-1])

            def read(key: str) -> pl.DataFrame:
                self.read_keys.append(key)
                return frames[key]

            def look(samples: Sequence[catalogue.Sample]) -> Iterator[catalogue.Seen]:
                return (catalogue.look_at(sample, read, recipe) for sample in samples)

            return files, rows, look

        def __call__(self, *runs: dict, recipe=DEFAULT, settings: Settings | None = None) -> pl.DataFrame:
            files, rows, look = self.fleet(*runs, recipe=recipe)
            found = catalogue.metric_catalog(files, rows, look, recipe, settings or Settings())
            assert found.schema == METRIC_CATALOG.schema
            return found

        def curve(self, *runs: dict, settings: Settings | None = None) -> pl.DataFrame:
            files, rows, look = self.fleet(*runs)
            settings = settings or Settings()
            catalog = catalogue.metric_catalog(files, rows, look, DEFAULT, settings)
            found = catalogue.pruning_curves(rows, catalog, look, settings)
            assert found.schema == PRUNING_CURVE.schema
            return found

    return Judge()


def rows(catalog: pl.DataFrame, *columns: str) -> dict[str, tuple]:
    return {row[0]: row[1:] for row in catalog.select("metric", *columns).iter_rows()}


def machine(number: int, **more) -> dict:
    """A run with a counter, a utilization and its copy, a constant, and what is never there."""
    return run(
        number,
        **{
            "Procstat:user[count]": 1e6 * (number + 1) + TICKS[number].cumsum(),
            "Procstat:sys[count]": 1e5 * (number + 1) + np.arange(SAMPLES) * 5.0,
            "Procstat:idle[count]": 1e6 * (number + 1) + (95 - TICKS[number]).cumsum(),
            "Memory:MemTotal[kB]": [64e6] * SAMPLES,
            "Memory:Cached[kB]": 1000 + BUSY[number],
            "Memory:Copy[kB]": 1e6 - 500 * BUSY[number],
            "Memory:Nothing[kB]": [0.0] * SAMPLES,
            "Memory:Absent[kB]": [None] * SAMPLES,
            **more,
        },
    )


def test_the_table_of_a_tiny_fleet(judge):
    table = judge(machine(0), machine(1), machine(2))
    assert rows(table, "unit", "status", "treatment", "metric_class", "represented_by") == {
        "Derived:CPUUtilization[%]": ("%", "usable", "derived", "dynamic", None),
        "Derived:CPUSystemShare[%]": ("%", "near_constant", "derived", "static", None),
        "Memory:Absent[kB]": ("kB", "always_missing", "as_is", None, None),
        "Memory:Cached[kB]": ("kB", "usable", "as_is", "dynamic", None),
        "Memory:Copy[kB]": ("kB", "redundant", "as_is", "dynamic", "Memory:Cached[kB]"),
        "Memory:MemTotal[kB]": ("kB", "near_constant", "as_is", "static", None),
        "Memory:Nothing[kB]": ("kB", "always_zero", "as_is", None, None),
        # rates: what runs at one pace is constant as a rate, and what is left of the time mirrors what is used
        "Procstat:idle[count]": ("count/s", "redundant", "rate", "dynamic", "Derived:CPUUtilization[%]"),
        "Procstat:sys[count]": ("count/s", "usable", "rate", "static", None),
        "Procstat:user[count]": ("count/s", "redundant", "rate", "dynamic", "Derived:CPUUtilization[%]"),
    }
    assert rows(table, "correlation")["Memory:Copy[kB]"] == (-1.0,)
    assert rows(table, "reason")["Memory:Copy[kB]"] == (
        "dynamic: 100.0 % of the steps change it; r -1.0 with Memory:Cached[kB] in train/W",
    )
    formula = rows(table, "formula", "subsystem", "runs")["Derived:CPUUtilization[%]"]
    assert formula[0].startswith("100 * (user + nice + system")
    assert formula[1:] == ("CPU", 3)


def test_window_features_follow_and_metric_groups_do_not(judge):
    table = judge(machine(0), machine(1), machine(2))
    plan = feature_plan(table, "cpu", "metric", select=True)
    metrics = [*table["metric"], "Memory:NeverJudged[kB]"]
    assert plan.of_host(metrics, "h") == {
        "Derived:CPUUtilization[%]": "dynamic",
        "Derived:CPUSystemShare[%]": "static",
        "Memory:Cached[kB]": "dynamic",
        "Memory:MemTotal[kB]": "static",
        "Memory:NeverJudged[kB]": None,
        "Memory:Nothing[kB]": "static",
        "Procstat:sys[count]": "static",
    }
    assert plan.rates == {f"Procstat:{name}[count]" for name in ("idle", "sys", "user")}
    everything = feature_plan(table, "cpu", "metric", select=False)
    assert set(everything.of_host(metrics, "h")) - set(plan.of_host(metrics, "h")) == {
        "Memory:Copy[kB]",
        "Procstat:idle[count]",
        "Procstat:user[count]",
    }
    assert plan.as_text() != everything.as_text()


def test_a_counter_whose_raw_values_are_near_constant_is_watched_by_its_rate(judge):
    high = {"Interrupts:total[count]": 1e9 + TICKS[0].cumsum()}
    table = judge(run(0, **high), settings=Settings())
    assert rows(table, "status", "treatment", "metric_class") == {
        "Interrupts:total[count]": ("near_constant", "rate", "dynamic")
    }
    assert feature_plan(table, "cpu", "metric", True).of_host(list(high), "h") == {"Interrupts:total[count]": "dynamic"}


def test_by_default_only_metrics_of_one_subsystem_represent_each_other(judge):
    runs = [run(i, **{"CPU:a[%]": BUSY[i], "Memory:b[kB]": 2 * BUSY[i], "Memory:c[kB]": -BUSY[i]}) for i in range(2)]
    assert rows(judge(*runs), "represented_by") == {
        "CPU:a[%]": (None,),
        "Memory:b[kB]": (None,),
        "Memory:c[kB]": ("Memory:b[kB]",),
    }
    across = Settings(selection=SelectionSettings(across_subsystems=True))
    assert rows(judge(*runs, settings=across), "represented_by") == {
        "CPU:a[%]": (None,),
        "Memory:b[kB]": ("CPU:a[%]",),
        "Memory:c[kB]": ("CPU:a[%]",),
    }


def test_platforms_are_judged_apart_and_workloads_are_united(judge):
    same = {"Memory:a[kB]": BUSY[0], "Memory:b[kB]": BUSY[0]}
    other = {"Memory:a[kB]": BUSY[0], "Memory:b[kB]": BUSY[1]}
    redundant = judge(run(0, **same), run(1, platform="gpu", **other))
    assert redundant.select("platform", "metric", "status").rows() == [
        ("cpu", "Memory:a[kB]", "usable"),
        ("cpu", "Memory:b[kB]", "redundant"),
        ("gpu", "Memory:a[kB]", "usable"),
        ("gpu", "Memory:b[kB]", "usable"),
    ]
    united = judge(run(0, **same), run(1, workload="V", **other))
    assert united["status"].to_list() == ["usable", "usable"]


def test_at_most_so_many_runs_of_a_workload_are_read_whatever_their_order(judge):
    runs = [machine(i) for i in range(6)]
    few = Settings(selection=SelectionSettings(max_runs=2))
    table = judge(*runs, settings=few)
    first, judge.read_keys = sorted(judge.read_keys), []
    assert judge(*reversed(runs), settings=few).equals(table)
    assert sorted(judge.read_keys) == first
    assert len(first) == 2


def test_a_metric_that_only_runs_have_which_were_not_read_is_dynamic(judge):
    few = Settings(selection=SelectionSettings(max_runs=1))
    runs = [run(i, **{"Memory:a[kB]": BUSY[i], f"Memory:only{i}[kB]": BUSY[i + 3]}) for i in range(3)]
    table = rows(judge(*runs, settings=few), "metric_class", "reason")
    unread = [i for i in range(3) if f"r{i}" not in judge.read_keys]
    assert len(unread) == 2
    for i in unread:
        assert table[f"Memory:only{i}[kB]"] == ("dynamic", "dynamic: not in the runs that were looked at")


def test_by_column_hosts_are_judged_apart(judge):
    """Recipe infrascope: names with the host in them; two hosts in one file."""
    runs = [
        run(0, "h1", **{"Memory:a[kB]": BUSY[0], "Memory:b[kB]": BUSY[0], "Net:n[count]": TICKS[0].cumsum()}),
        run(0, "h2", **{"Memory:a[kB]": BUSY[1], "Memory:b[kB]": BUSY[2], "Net:n[count]": TICKS[1]}),
    ]
    table = judge(*runs, recipe=EXACT)
    assert rows(table, "represented_by", "treatment") == {
        "Memory:a.h1[kB]": (None, "as_is"),
        "Memory:b.h1[kB]": ("Memory:a.h1[kB]", "as_is"),
        "Memory:a.h2[kB]": (None, "as_is"),
        "Memory:b.h2[kB]": (None, "as_is"),
        "Net:n.h1[count]": (None, "rate"),
        "Net:n.h2[count]": (None, "as_is"),
    }
    plan = feature_plan(table, "cpu", "column", select=True)
    metrics = ["Memory:a[kB]", "Memory:b[kB]", "Net:n[count]"]
    assert list(plan.of_host(metrics, "h1")) == ["Memory:a[kB]", "Net:n[count]"]
    assert list(plan.of_host(metrics, "h2")) == metrics


@pytest.mark.parametrize(
    "metrics",
    [
        {"a": [5.0]},
        {"a": [None], "b": [0.0]},
        {"a": [float("inf")] * 5, "b": [7.0] * 5},
        {"a": [1.0, float("inf"), 3.0, None, 2.0]},
    ],
)
def test_poor_runs_get_a_catalogue_all_the_same(judge, metrics):
    table = judge(run(0, **metrics))
    assert table["metric"].to_list() == sorted(metrics)
    assert set(table["represented_by"]) == {None}
    assert judge.curve(run(0, **metrics))["metrics"].to_list() in ([], [1] * 90)


def test_no_runs(judge):
    schema = pl.DataFrame([run(0, a=[1.0])["row"]]).clear()
    assert catalogue.metric_catalog([], schema, lambda samples: [], DEFAULT, Settings()).is_empty()


def test_a_column_that_a_file_calls_derived_is_the_files(judge):
    own = run(0, **{"Derived:MemoryUtilization[%]": BUSY[0]})
    parts = run(1, **{"Memory:MemTotal[kB]": [100.0] * SAMPLES, "Memory:MemAvailable[kB]": BUSY[1]})
    table = judge(own, parts)
    assert table.filter(metric="Derived:MemoryUtilization[%]")["treatment"].to_list() == ["as_is"]


def test_the_curve_of_every_workload(judge):
    runs = [run(i, workload="VW"[i % 2], **{"Memory:a[kB]": BUSY[i], "Memory:b[kB]": BUSY[i]}) for i in range(4)]
    curve = judge.curve(*runs)
    assert curve.select("platform", "phase", "workload").unique().sort("workload").rows() == [
        ("cpu", "train", "V"),
        ("cpu", "train", "W"),
    ]
    assert set(curve["metrics"]) == {2}  # also what is redundant at the chosen threshold takes part
    assert (curve["threshold"].min(), curve["threshold"].max()) == (0.1, 0.99)
    assert set(curve["selected_ratio"]) == {0.5}
