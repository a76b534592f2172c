"""Curation: which columns of a run belong to a metric group, and which leave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import polars as pl
import pytest

from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.quality.trust import FeaturePlan, excluded_metrics, feature_plan
from infrascope_core.recipes import MetricGroup, Recipe
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.symbols.curation import curated_metrics, members
from infrascope_core.symbols.tables import CURATED_METRICS

START = datetime(2025, 5, 7)
NONE: frozenset[str] = frozenset()


def group(name: str, *patterns: str) -> MetricGroup:
    return MetricGroup(name=name, unit="%", subsystem="CPU", patterns=patterns)


def recipe(*groups: MetricGroup, names: str = "metric") -> Recipe:
    return Recipe(
        name="test",
        names=names,
        constancy="pooled_cv",
        near_constant=0,
        method="terciles",
        population="windows",
        quantiles=(0.33, 0.67),
        groups=groups,
    )


def telemetry(host: str = "h", **metrics: Sequence[float | None]) -> pl.DataFrame:
    return samples_of(metrics, host)


def samples_of(metrics: Mapping[str, Sequence[float | None]], host: str = "h") -> pl.DataFrame:
    """Samples of one host, 0.1 s apart."""
    samples = len(next(iter(metrics.values())))
    return pl.DataFrame(
        {
            "run_key": ["run"] * samples,
            "host": [host] * samples,
            "sample": range(samples),
            "ts": [START + timedelta(milliseconds=100 * i) for i in range(samples)],
            **{name: pl.Series(values, dtype=pl.Float64) for name, values in metrics.items()},
        }
    )


def chosen(frame: pl.DataFrame, of: Recipe, excluded: frozenset[str] = NONE) -> list[tuple[str, str, str]]:
    """(host, group, metric) that were curated, in order."""
    table = curated_metrics(frame, of, excluded)
    assert table.schema == CURATED_METRICS.schema
    return table.select("host", "metric_group", "metric").unique(maintain_order=True).rows()


def test_the_table_of_a_tiny_run():
    frame = samples_of({"CPU:busy[%]": [1.0, None], "GPU:load[%]": [3.0, 4.0]})
    table = curated_metrics(frame, recipe(group("busy", "busy"), group("load", "load")), NONE)
    later = START + timedelta(milliseconds=100)
    assert table.rows() == [
        ("run", "h", "busy", "CPU:busy[%]", 0, START, 1.0),
        ("run", "h", "busy", "CPU:busy[%]", 1, later, None),  # missing stays, as a row
        ("run", "h", "load", "GPU:load[%]", 0, START, 3.0),
        ("run", "h", "load", "GPU:load[%]", 1, later, 4.0),
    ]


def test_infinities_pass():
    table = curated_metrics(telemetry(a=[float("inf"), float("-inf"), 0]), recipe(group("g", "a")), NONE)
    assert table["value"].to_list() == [float("inf"), float("-inf"), 0]


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["util"], ["GPU:Util.0[%]", "GPU:Util.1[%]", "cpu_UTIL[%]"]),  # anywhere in the name, in any case
        (["^gpu:UTIL"], ["GPU:Util.0[%]", "GPU:Util.1[%]"]),
        ([r"\.1\["], ["GPU:Util.1[%]"]),
        (["nothing"], []),
        (["nothing", "^cpu"], ["cpu_UTIL[%]"]),  # the fallback
        (["^cpu", "^gpu"], ["cpu_UTIL[%]"]),  # the first that finds any wins, it does not add up
        (["^gpu", "^cpu"], ["GPU:Util.0[%]", "GPU:Util.1[%]"]),
    ],
)
def test_patterns_and_fallbacks(patterns, found):
    names = ["GPU:Util.0[%]", "power[W]", "GPU:Util.1[%]", "cpu_UTIL[%]"]
    assert members(group("g", *patterns), names, "h", recipe(group("g", "x")), NONE) == found


def test_a_fallback_does_not_stand_in_for_what_is_excluded():
    frame = telemetry(best=[1.0], second=[2.0])
    of = recipe(group("g", "best", "second"))
    assert chosen(frame, of, frozenset({"best"})) == []
    assert chosen(frame.drop("best"), of, frozenset({"best"})) == [("h", "g", "second")]


def test_of_several_columns_only_the_excluded_leave():
    frame = telemetry(a1=[1.0], a2=[2.0], a3=[3.0])
    assert chosen(frame, recipe(group("g", "a")), frozenset({"a2"})) == [("h", "g", "a1"), ("h", "g", "a3")]


def test_a_column_may_serve_two_groups():
    assert chosen(telemetry(ab=[1.0]), recipe(group("g1", "a"), group("g2", "b"))) == [
        ("h", "g1", "ab"),
        ("h", "g2", "ab"),
    ]


def test_by_metric_the_host_is_not_seen_and_by_column_it_is():
    frame = samples_of({"util.0[%]": [1.0]}, "node7")
    with_host = group("g", r"util\.0\.node7\[")
    assert chosen(frame, recipe(with_host, names="column")) == [("node7", "g", "util.0[%]")]
    assert chosen(frame, recipe(with_host, names="metric")) == []
    assert chosen(frame, recipe(group("g", r"util\.0\[$"), names="column")) == []
    assert chosen(frame, recipe(group("g", r"util\.0\["), names="metric")) == [("node7", "g", "util.0[%]")]


def test_by_column_a_metric_may_be_excluded_on_one_host_and_kept_on_another():
    frame = pl.concat([samples_of({"a[%]": [1.0, 2]}, "h1"), samples_of({"a[%]": [3.0, 4]}, "h2")])
    by_column = recipe(group("g", "a"), names="column")
    assert chosen(frame, by_column) == [("h1", "g", "a[%]"), ("h2", "g", "a[%]")]
    assert chosen(frame, by_column, frozenset({"a.h1[%]"})) == [("h2", "g", "a[%]")]
    assert chosen(frame, recipe(group("g", "a")), frozenset({"a.h1[%]"})) == [("h1", "g", "a[%]"), ("h2", "g", "a[%]")]
    assert chosen(frame, recipe(group("g", "a")), frozenset({"a[%]"})) == []


def test_two_hosts_keep_their_values_and_samples():
    frame = pl.concat([telemetry("h1", a=[1.0, 2]), telemetry("h2", a=[3.0, None])])
    table = curated_metrics(frame, recipe(group("g", "a")), NONE)
    assert table.select("host", "sample", "value").rows() == [("h1", 0, 1), ("h1", 1, 2), ("h2", 0, 3), ("h2", 1, None)]


def test_a_host_that_lacks_the_preferred_metric_takes_the_fallback_though_another_has_it(tmp_path):
    """Two hosts in one file: h1 has turbostat, h2 only /proc/stat."""
    path = tmp_path / "train_MLPforImageClassification_Digits_2026-11-01T10-00-00_h1.txt"
    columns = ["Turbostat:Busy%.-.h1[%]", "Disk.h1[-]", "Net.h1[-]", "Avg.h2[%]", "Disk.h2[-]", "Net.h2[-]"]
    path.write_text("\t".join(["", *columns]) + "\n2026-11-01 10:00:00.000\t1\t2\t3\t4\t5\t6\n")
    frame = read_run_file(path).telemetry
    assert frame["host"].to_list() == ["h1", "h2"]
    assert chosen(frame, recipe(group("CPU_busy", "^Turbostat:Busy", "^Avg"))) == [
        ("h1", "CPU_busy", "Turbostat:Busy%.-[%]"),
        ("h2", "CPU_busy", "Avg[%]"),
    ]


def test_nothing_found_is_an_empty_table():
    assert curated_metrics(telemetry(a=[1.0]), recipe(group("g", "b")), NONE).equals(CURATED_METRICS.empty())
    assert curated_metrics(telemetry(a=[1.0]).clear(), recipe(group("g", "a")), NONE).equals(CURATED_METRICS.empty())


def test_all_that_is_not_usable_on_the_platform_is_excluded():
    rows = [
        ("gpu", "a", "usable"),
        ("gpu", "b", "always_missing"),
        ("gpu", "c", "always_zero"),
        ("gpu", "d", "near_constant"),
        ("gpu", "e", "redundant"),  # it holds information, though not its own
        ("cpu", "a", "near_constant"),
    ]
    frame = pl.DataFrame(rows, schema=["platform", "metric", "status"], orient="row")
    catalog = pl.concat([METRIC_CATALOG.empty(), frame], how="diagonal")
    assert excluded_metrics(catalog, "gpu") == {"b", "c", "d"}
    assert excluded_metrics(catalog, "cpu") == {"a"}
    assert excluded_metrics(METRIC_CATALOG.empty(), "gpu") == NONE


def test_redundant_and_static_metrics_stay_in_their_group():
    rows: list[tuple[str, str, str, str | None]]
    rows = [("cpu", "busy1", "usable", "dynamic"), ("cpu", "busy2", "redundant", "dynamic")]
    rows += [("cpu", "busy3", "usable", "static"), ("cpu", "busy4", "always_zero", None)]
    frame = pl.DataFrame(rows, schema=["platform", "metric", "status", "metric_class"], orient="row")
    excluded = excluded_metrics(pl.concat([METRIC_CATALOG.empty(), frame], how="diagonal"), "cpu")
    of = telemetry(busy1=[1.0], busy2=[1.0], busy3=[1.0], busy4=[0.0])
    assert [metric for *_, metric in chosen(of, recipe(group("g", "busy")), excluded)] == ["busy1", "busy2", "busy3"]


def plan_of(*rows: tuple, names: str = "metric", select: bool = True) -> FeaturePlan:
    columns = ["metric", "status", "treatment", "metric_class", "represented_by"]
    frame = pl.DataFrame(rows, schema=columns, orient="row", schema_overrides=dict.fromkeys(columns, pl.String))
    catalog = pl.concat([METRIC_CATALOG.empty(), frame.with_columns(platform=pl.lit("cpu"))], how="diagonal")
    return feature_plan(catalog, "cpu", names, select)


@pytest.mark.parametrize(
    ("row", "watched", "without_selection"),
    [
        (("usable", "as_is", "dynamic", None), True, True),
        (("usable", "as_is", "event_counter", None), True, True),
        (("usable", "as_is", "static", None), True, True),  # a level is watched for the day on which it moves
        (("redundant", "as_is", "dynamic", "b"), False, True),
        (("always_zero", "derived", None, None), False, False),
        (("always_zero", "as_is", None, None), True, True),  # an error that never happened
        (("near_constant", "as_is", "static", None), True, True),
        (("near_constant", "as_is", "dynamic", None), False, False),
        (("always_missing", "as_is", None, None), False, False),
        (("near_constant", "rate", "dynamic", None), True, True),  # near constant as it stands, not in its rate
        (("near_constant", "rate", "dynamic", "b"), False, True),
    ],
)
def test_what_is_watched_window_by_window(row, watched, without_selection):
    assert ("a" in plan_of(("a", *row)).of_host(["a"], "h")) == watched
    assert ("a" in plan_of(("a", *row), select=False).of_host(["a"], "h")) == without_selection


def test_a_metric_that_was_never_judged_is_watched():
    zero = ("old[%]", "always_missing", "as_is", None, None)
    assert plan_of(zero).of_host(["old[%]", "new[%]"], "h") == {"new[%]": None}
    by_column = plan_of(("old.h[%]", *zero[1:]), names="column")
    assert by_column.of_host(["old[%]"], "g") == {"old[%]": None}
    assert by_column.of_host(["old[%]"], "h") == {}
