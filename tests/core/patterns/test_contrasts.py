"""Contrasts: scipy as oracle, planted and null differences, too few runs, faults against the rest of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy.stats import mannwhitneyu, rankdata

from infrascope_core.patterns.contrasts import Unit, contrasts, rank_test, runs_needed, told_contrasts
from infrascope_core.patterns.held import Held
from infrascope_core.patterns.tables import CONTRASTS
from tests.core.patterns.generated import GROUPS, ITEMS, RECIPE, levels, run


def fleet(busy: Sequence[float], seed: int = 0) -> list[Held]:
    """Runs whose CPU is HIGH for this share of the time; all else is chance."""
    rng = np.random.default_rng(seed)
    made = []
    for number, share in enumerate(busy):
        free = [levels(120, rng) for _ in GROUPS[1:]]
        made.append(run(number, [np.where(rng.random(120) < share, 2, 0), *free]))
    return made


def found(runs: list[Held], units: list[Unit], faults: list[dict[str, np.ndarray]] | None = None) -> pl.DataFrame:
    table = contrasts(runs, units, faults or [{} for _ in runs], ITEMS, "gpu", recipe=RECIPE)
    assert table.schema == CONTRASTS.schema
    return table


def test_a_difference_between_workloads_is_found_and_told_once():
    runs = fleet([0.8] * 5 + [0.2] * 5)
    table = found(runs, [Unit("train", "V" if i < 5 else "W", "h") for i in range(10)])
    row = table.filter(item="CPU_busy_HIGH").row(0, named=True)
    assert (row["kind"], row["of"], row["against"], row["runs"], row["other_runs"]) == ("workload", "V", "W", 5, 5)
    assert row["share"] == pytest.approx(0.8, abs=0.05) and row["other_share"] == pytest.approx(0.2, abs=0.05)
    assert row["growth_rate"] == pytest.approx(row["share"] / row["other_share"])
    assert row["separated"] and row["status"] == "tested"
    assert row["p_value"] == pytest.approx(2 / 252)
    told = list(told_contrasts(table, 5))
    assert [row["item"] for row in told] in (
        ["CPU_busy_HIGH"],
        [],
    )  # 15 were tested, and none can be rarer than 1 in 126


def test_more_runs_tell_it():
    runs = fleet([0.8] * 8 + [0.2] * 8, 1)
    table = found(runs, [Unit("train", "V" if i < 8 else "W", "h") for i in range(16)])
    assert [row["item"] for row in told_contrasts(table, 5)] == ["CPU_busy_HIGH"]
    (said,) = table.filter(pl.col("shown").is_not_null()).iter_rows(named=True)
    assert (said["item"], said["shown"]) == ("CPU_busy_HIGH", 1)
    assert said["sentence"].startswith("In V (train), CPU_busy is high ")
    assert set(table.filter(pl.col("q_value") < 0.05)["item"]) <= {"CPU_busy_HIGH", "CPU_busy_LOW"}


def test_phases_hosts_and_workloads_are_compared_with_what_they_have_in_common():
    units = [Unit(p, w, h) for p in ("infer", "train") for w in ("U", "V", "W") for h in ("a", "b")]
    table = found(fleet([0.5] * 12), units)
    sides = table.select("kind", "within", "of", "against").unique().rows()
    assert ("phase", "V", "infer", "train") in sides
    assert ("workload", "train", "V", "the other workloads") in sides
    assert ("host", "train V", "a", "the other hosts") in sides
    assert len(sides) == 3 + 6 + 12


def test_hosts_of_one_job_are_one_case():
    """Sixteen files of four jobs of four hosts each are four runs."""
    runs = fleet([0.8] * 8 + [0.2] * 8, 1)
    jobs = [replace(one, host=f"h{i % 4}", job=runs[i - i % 4].run_key) for i, one in enumerate(runs)]
    units = [Unit("train", "V" if i < 8 else "W", one.host) for i, one in enumerate(jobs)]
    table = found(jobs, units).filter(kind="workload")
    assert table.select("runs", "other_runs", "status").unique().rows() == [(2, 2, "too_few_runs")]
    row = table.filter(item="CPU_busy_HIGH").row(0, named=True)
    assert row["share"] == pytest.approx(
        np.mean([one.holds[:, ITEMS.names.index("CPU_busy_HIGH")] for one in jobs[:8]])
    )
    hosts = found(jobs, units).filter(kind="host")
    assert hosts.select("runs", "other_runs").unique().rows() == [(2, 2)]


def test_labels_that_say_nothing_show_nothing():
    rng = np.random.default_rng(3)
    raised = 0
    for seed in range(20):
        units = [Unit("train", name, "h") for name in rng.permutation(["V", "W"] * 7)]
        raised += found(fleet([0.5] * 14, seed), units).filter(pl.col("q_value") < 0.05).height > 0
    assert raised <= 2


def test_what_could_never_be_significant_is_not_tested():
    table = found(fleet([0.9, 0.9, 0.1, 0.1]), [Unit("train", w, "h") for w in "VVWW"])
    assert set(table["status"]) == {"too_few_runs"}
    assert table["p_value"].null_count() == table["q_value"].null_count() == table.height
    assert set(table["needed_runs"]) == {8}  # with two on the other side: 2 of 45 ways
    assert not list(told_contrasts(table, 5))


@pytest.mark.parametrize(
    ("own", "other", "needed"), [(4, 4, None), (3, 3, 5), (1, 39, None), (1, 1, 39), (2, 5, 3), (5, 2, 3)]
)
def test_the_number_of_runs_that_it_takes(own, other, needed):
    assert runs_needed(own, other) == needed


@pytest.mark.parametrize("ties", [False, True])
def test_the_probability_is_that_of_all_ways_to_deal_the_runs(ties):
    rng = np.random.default_rng(4)
    for _ in range(5):
        values = rng.integers(0, 4, 9).astype(float) if ties else rng.random(9)
        own, other = values[:4], values[4:]
        rank = rankdata(values)
        sums = np.array([rank[list(chosen)].sum() for chosen in combinations(range(9), 4)])
        seen = rank[:4].sum()
        share = min(1.0, 2 * min((sums >= seen - 1e-9).mean(), (sums <= seen + 1e-9).mean()))
        assert rank_test(own, other) == pytest.approx(share)
        if not ties:
            assert rank_test(own, other) == pytest.approx(mannwhitneyu(own, other, method="exact").pvalue)
    assert rank_test(np.zeros(4), np.zeros(5)) == 1.0
    many = rng.random(30), rng.random(40)
    assert rank_test(*many) == pytest.approx(mannwhitneyu(*many).pvalue)


def test_a_fault_is_held_against_the_rest_of_its_runs():
    rng = np.random.default_rng(5)
    runs, faults = [], []
    for number in range(4):
        inside = np.zeros(120, dtype=bool)
        inside[20 + 20 * number : 40 + 20 * number] = True
        busy = np.where(inside, 2, rng.integers(0, 2, 120))
        runs.append(run(number, [busy, *(levels(120, rng) for _ in GROUPS[1:])]))
        faults.append({"hog": inside} if number < 3 else {})
    table = found(runs, [Unit("train", "W", "h")] * 4, faults)
    told = list(told_contrasts(table, 5))
    assert [(row["kind"], row["of"], row["item"], row["runs"]) for row in told] == [
        ("fault", "hog", "CPU_busy_HIGH", 3)
    ]
    assert (told[0]["share"], told[0]["other_share"]) == (1.0, 0.0)
    assert told[0]["p_value"] == pytest.approx(120**-3, rel=0.01)
    assert told[0]["separated"]
    tested = set(table.filter(kind="fault")["item"])
    assert tested == set(ITEMS.names)  # whichever way they go: leaving out what falls would choose by the result
    always = [{"hog": np.ones(120, dtype=bool)}] * 4
    assert found(runs, [Unit("train", "W", "h")] * 4, always).is_empty()


def test_one_run_has_nothing_to_be_held_against():
    assert found(fleet([0.5]), [Unit("train", "W", "h")]).is_empty()
