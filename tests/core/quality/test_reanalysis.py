"""Reanalysis: cumulative counters as rates, and metrics derived from others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.quality.reanalysis import (
    Formula,
    Plan,
    derivations,
    formulas,
    level_units,
    needed,
    rates,
    reanalyse,
)
from infrascope_core.run_files.columns import SUBSYSTEMS, subsystem

START = datetime(2025, 5, 7)
INF = float("inf")
Values = Sequence[float | None]


def telemetry(host: str = "h", step: float = 1.0, times: list[float] | None = None, **metrics: Values) -> pl.DataFrame:
    return samples_of(metrics, host, step, times)


def samples_of(
    metrics: Mapping[str, Values], host: str = "h", step: float = 1.0, times: list[float] | None = None
) -> pl.DataFrame:
    """Samples of one host, `step` seconds apart unless `times` gives their seconds."""
    samples = len(next(iter(metrics.values())))
    times = [step * i for i in range(samples)] if times is None else times
    return pl.DataFrame(
        {
            "run_key": ["run"] * samples,
            "host": [host] * samples,
            "sample": range(samples),
            "ts": pl.Series([START + timedelta(seconds=t) for t in times], dtype=pl.Datetime("us")),
            **{name: pl.Series(values, dtype=pl.Float64) for name, values in metrics.items()},
        }
    )


def rate_of(values: Values, times: list[float] | None = None, step: float = 1.0) -> list[object]:
    frame = telemetry(step=step, times=times, a=values)
    found = reanalyse(frame, Plan(frozenset({"a"})))["a"].to_list()
    return [None if value is None else pytest.approx(value) for value in found]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10, 12, 12, 15], [None, 2, 0, 3]),
        ([7], [None]),
        ([10, None, 16, 17], [None, None, 3, 1]),  # over a gap: the mean rate since the last known value
        ([None, 10, 11], [None, None, 1]),
        ([10, INF, 16], [None, None, 3]),  # infinite is not known
        ([None, None], [None, None]),
        ([100, 103, 2, 4], [None, 3, None, 2]),  # a reset: how much was counted before it is not known
        ([100, 103, 2, 105, 108], [None, 3, None, None, 3]),  # a disturbed reading, and the leap back from it
        ([1, 4, 2, 3, 6], [None, 3, None, 1, 3]),  # a counter that passes its old height at an ordinary pace
        ([2**32 - 3, 2**32 - 1, 1], [None, 2, 2]),  # wrapped at 32 bits
        ([2**32 - 3, 2**32 - 1, 50], [None, 2, None]),  # too fast for a wrap: a reset
        ([2**32 - 3, 5], [None, None]),  # nothing to compare a wrap with
        ([2.0**64 - 8192, 2.0**64 - 4096, 0], [None, 4096, 4096]),  # wrapped at 64 bits
        ([2.0**40, 2.0**40 + 1, 5], [None, 1, None]),
    ],
)
def test_rates(values, expected):
    assert rate_of(values) == expected


def test_rates_are_per_second_whatever_the_sampling():
    assert rate_of([0, 5, 10], step=0.1) == [None, 50, 50]
    assert rate_of([0, 5, 10], times=[0, 0.5, 2.5]) == [None, 10, 2.5]
    assert rate_of([0, 5, 10], times=[0, 1, 1]) == [None, 5, None]  # no time has passed: no rate


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.booleans()), min_size=2, max_size=30),
    st.integers(0, 2**40),
)
def test_rates_of_a_rising_counter_add_up_to_its_growth(steps, start):
    counter = start + np.cumsum([step for step, _ in steps]).astype(float)
    seen = np.where([known for _, known in steps], counter, np.nan)[:, None]
    seconds = np.arange(len(steps), dtype=float) * 0.5
    found = rates(seen, seconds)[:, 0]
    known = np.flatnonzero(np.isfinite(seen[:, 0]))
    elapsed = np.diff(seconds[known])
    assert (np.isfinite(found[known[1:]])).all()
    assert (found[known[1:]] * elapsed).sum() == pytest.approx(np.ptp(counter[known]) if len(known) else 0, rel=1e-9)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30))
def test_no_rate_is_negative(values):
    found = rates(np.array(values)[:, None], np.arange(len(values), dtype=float))
    assert not (found < 0).any()


def test_only_the_metrics_of_the_plan_change_and_keep_their_names():
    frame = telemetry(a=[10.0, 12, 15], b=[10.0, 12, 15])
    after = reanalyse(frame, Plan(frozenset({"a", "absent"})))
    assert after.columns == frame.columns
    assert after["a"].to_list() == [None, 2, 3]
    assert after["b"].to_list() == [10, 12, 15]
    assert reanalyse(frame.clear(), Plan(frozenset({"a"}))).equals(frame.clear())


def test_hosts_of_one_file_count_each_for_themselves():
    frame = pl.concat([telemetry("h1", a=[1.0, 2]), telemetry("h2", a=[50.0, 53])])
    assert reanalyse(frame, Plan(frozenset({"a"})))["a"].to_list() == [None, 1, None, 3]
    assert reanalyse(frame, Plan(frozenset({"a.h2"}), "column"))["a"].to_list() == [1, 2, None, 3]


# -- derived metrics


def derived(frame: pl.DataFrame, *counters: str) -> dict[str, Values]:
    after = reanalyse(frame, Plan(frozenset(counters)))
    return {name: after[name].to_list() for name in after.columns if name.startswith("Derived:")}


def test_the_ratios_of_the_hardware_counters():
    found = derived(
        samples_of(
            {
                "Perf:Instructions[count]": [300.0, None, 5],
                "Perf:Cycles[count]": [200.0, 100, 0],
                "Perf:Branch_Misses[count]": [1.0, 2, 3],
                "Perf:Branches[count]": [100.0, 100, 100],
                "Perf:Cache_Misses[count]": [5.0, 0, 0],
                "Perf:Cache_References[count]": [50.0, 0, INF],
                "Perf:Cycle_activity_stalls_l3_miss[count]": [50.0, 10, 0],
            }
        )
    )
    assert found == {
        "Derived:IPC[-]": [1.5, None, None],  # a part is missing; the denominator is 0
        "Derived:BranchMispredictionRate[%]": [1, 2, 3],
        "Derived:CacheMissRatio[%]": [10, None, None],
        "Derived:L3StallRatio[%]": [25, 10, None],
    }


def test_what_the_file_has_itself_is_not_derived():
    parts = {"Perf:Instructions[count]": [1.0], "Perf:Cycles[count]": [1.0]}
    assert list(derived(samples_of(parts))) == ["Derived:IPC[-]"]
    assert derived(samples_of(parts | {"Perf:IPC[-]": [1.0]})) == {}
    assert derived(samples_of(parts | {"Derived:IPC[-]": [7.0]})) == {"Derived:IPC[-]": [7]}
    assert derived(samples_of({"Perf:Instructions[count]": [1.0]})) == {}


def test_cpu_utilization_from_cumulative_times_whole_and_per_core():
    """1 s at 100 ticks a second on one core: 30 user, 10 system, 10 waiting for the disk, 50 idle."""
    times = {
        "Procstat:user[count]": [1000.0, 1030],
        "Procstat:sys[count]": [500.0, 510],
        "Procstat:iowait[count]": [0.0, 10],
        "Procstat:idle[count]": [9000.0, 9050],
        "Procstat:user.3[count]": [5.0, 5],
        "Procstat:sys.3[count]": [5.0, 30],
        "Procstat:idle.3[count]": [5.0, 80],
        "Procstat:softirqd.3[count]": [7.0, 7],
    }
    # that one of them was found to be a counter says that all of them are: `softirqd` never moved
    found = derived(samples_of(times), "Procstat:idle[count]", "Procstat:idle.3[count]")
    assert found == {
        "Derived:CPUUtilization[%]": [None, pytest.approx(40)],
        "Derived:CPUUtilization.3[%]": [None, pytest.approx(25)],
        "Derived:CPUSystemShare[%]": [None, pytest.approx(10)],
        "Derived:CPUSystemShare.3[%]": [None, pytest.approx(25)],
    }


def test_times_that_are_differences_already_and_shares_that_are_not_times():
    differences = {"CPU_diff:user[ms]": [20.0, 10], "CPU_diff:system[ms]": [0.0, 10], "CPU_diff:idle[ms]": [80.0, 60]}
    assert derived(samples_of(differences))["Derived:CPUUtilization[%]"] == [20, 25]
    assert derived(samples_of({"CPU:user[%]": [20.0], "CPU:system[%]": [0.0], "CPU:idle[%]": [80.0]})) == {}


def test_memory_utilization_is_a_level():
    frame = samples_of({"Meminfo:MemTotal[kB]": [200.0, 200], "Meminfo:MemAvailable[kB]": [150.0, None]})
    assert derived(frame) == {"Derived:MemoryUtilization[%]": [25, None]}


def test_throughput_per_interface_and_over_all_but_the_loopback():
    frame = samples_of(
        {
            "NetworkInterStat_diff:rx_bytes.eth0[Bytes]": [1.0, 10],
            "NetworkInterStat_diff:tx_bytes.eth0[Bytes]": [1.0, 20],
            "NetworkInterStat_diff:rx_bytes.ib0[Bytes]": [1.0, 100],
            "NetworkInterStat_diff:tx_bytes.ib0[Bytes]": [1.0, None],
            "NetworkInterStat_diff:rx_bytes.lo[Bytes]": [1.0, 7],
            "NetworkInterStat_diff:tx_bytes.lo[Bytes]": [1.0, 7],
        },
        step=0.5,
    )
    assert derived(frame) == {
        "Derived:NetworkThroughput.eth0[Bytes/s]": [None, 60],  # the time before the first sample is not known
        "Derived:NetworkThroughput.ib0[Bytes/s]": [None, None],
        "Derived:NetworkThroughput.lo[Bytes/s]": [None, 28],
        "Derived:NetworkThroughput[Bytes/s]": [None, None],  # one interface is missing: so is the sum
    }


def test_disk_throughput_from_differences_and_from_counters():
    read, written = [100.0, 102, 110], [50.0, 50, 60]
    diff = samples_of({"Storage_diff:sectors_read[count]": read, "Storage_diff:sectors_written[count]": written})
    assert derived(diff)["Derived:DiskThroughput[Bytes/s]"] == [None, 512 * 152, 512 * 170]
    names = ["Storage:sectors_read.sda[count]", "Storage:sectors_written.sda[count]"]
    raw = samples_of(dict(zip(names, (read, written), strict=True)), step=0.5)
    assert derived(raw, *names)["Derived:DiskThroughput.sda[Bytes/s]"] == [None, 512 * 4, 512 * 36]
    assert derived(raw) == {}  # neither differences nor counters: what they are is unknown


def test_reading_only_what_is_wanted_gives_the_same():
    frame = samples_of(
        {
            "Meminfo:MemTotal[kB]": [200.0, 200],
            "Meminfo:MemAvailable[kB]": [150.0, 100],
            "Meminfo:Dirty[kB]": [1.0, 2],
            "Procstat:user[count]": [1.0, 2],
            "Procstat:nice[count]": [1.0, 8],
            "Procstat:sys[count]": [1.0, 3],
            "Procstat:idle[count]": [1.0, 11],
        }
    )
    metrics = frame.columns[4:]
    wanted = ["Derived:CPUUtilization[%]", "Meminfo:Dirty[kB]", "Derived:NoSuchThing[-]"]
    columns = needed(metrics, wanted)
    assert columns == ["Meminfo:Dirty[kB]", *metrics[3:]]  # optional parts too, or the ratio would be another
    plan = Plan(frozenset(metrics[3:]))
    chosen = [d for d in derivations(metrics) if d.metric in wanted]
    part = reanalyse(frame.select(*frame.columns[:4], *columns), plan, chosen)
    assert part.columns == [*frame.columns[:4], *columns, wanted[0]]
    assert part.equals(reanalyse(frame, plan).select(part.columns))


def test_the_house_formulas_are_sound():
    for formula in formulas():
        assert formula.words
        assert subsystem(f"Derived:{formula.name}[{formula.unit}]") in set(SUBSYSTEMS) - {"Other"}
        for pattern in formula.parts.values():
            assert set(re.compile(pattern).groupindex) <= {"instance"}
    assert {"%", "C", "W", "kB"} <= level_units()
    assert not {"count", "Bytes", "ms", ""} & level_units()


def test_a_formula_that_uses_an_unknown_part_is_refused():
    with pytest.raises(pydantic.ValidationError, match="the formula X uses 'b', which is none of its parts"):
        Formula(name="X", unit="-", words="", parts={"a?": "^a"}, plus=("a",), over=("b",))
