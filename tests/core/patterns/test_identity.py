"""Which workload a run looks like: its own, another, or none; and how often that is said wrongly."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from infrascope_core.patterns.identity import run_identity, runs_needed
from infrascope_core.patterns.settings import IdentitySettings
from infrascope_core.patterns.signatures import FIGURES, Signature, comparable, signatures, workload_signatures
from infrascope_core.patterns.tables import RUN_IDENTITY, WORKLOAD_SIGNATURES
from infrascope_core.symbols.tables import BASKETS

START = datetime(2026, 11, 1, 10)
GROUPS = tuple(f"G{i}" for i in range(8))
SETTINGS = IdentitySettings()


def run(number: int, workload: str, seed: int, like: str = "", host: str = "h") -> Signature:
    """A run whose groups are distributed as those of its workload are, or of the one that it is like."""
    middle = np.random.default_rng([ord(c) for c in like or workload]).random((len(GROUPS), 2))
    own = middle + np.random.default_rng(seed).normal(0, 0.03, middle.shape)
    low, value = np.clip(own[:, 0], 0, 1), own[:, 1]
    figures = np.stack([low, (1 - low) / 2, (1 - low) / 2, value - 0.1, value, value + 0.1], axis=1)
    start = START + timedelta(hours=number)
    return Signature(f"r{number:02d}", host, f"gpu/train/{workload}", start, start + timedelta(minutes=5), figures)


def fleet(*workloads: str, runs: int = 5, seed: int = 0) -> list[Signature]:
    return [
        run(place * runs + i, name, 1000 * seed + place * runs + i)
        for place, name in enumerate(workloads)
        for i in range(runs)
    ]


def status(runs: list[Signature]) -> dict[str, str]:
    found = run_identity(runs, GROUPS, SETTINGS)
    assert found.schema == RUN_IDENTITY.schema
    return dict(found.select("run_key", "status").iter_rows())


def test_runs_look_like_their_workloads_but_for_the_share_that_is_promised():
    found = [status(fleet("A", "B", "C", "D", seed=seed)) for seed in range(20)]
    answers = [answer for one in found for answer in one.values()]
    assert set(answers) <= {"as_claimed", "unknown"}
    assert answers.count("unknown") / len(answers) <= 1.5 * SETTINGS.false_unknown


def test_a_run_that_is_another_workload_is_called_so():
    right = 0
    for seed in range(20):
        runs = [*fleet("A", "B", "C", "D", seed=seed), run(90, "A", 7000 + seed, like="C")]
        found = run_identity(runs, GROUPS, SETTINGS).filter(run_key="r90").row(0, named=True)
        assert found["nearest"] == "gpu/train/C"
        assert found["claimed"] == "gpu/train/A"
        assert found["claimed_p_value"] <= SETTINGS.false_unknown
        assert found["differs_in"]
        right += found["status"] == "other"
    assert right >= 16


def test_a_run_that_is_like_none_is_unknown():
    for seed in range(20):
        runs = [*fleet("A", "B", "C", "D", seed=seed), run(90, "A", 7000 + seed, like="Z")]
        assert status(runs)["r90"] == "unknown"


def test_a_stranger_does_not_make_the_others_strange():
    usual = fleet("A", "B", "C", "D")
    before = status(usual)
    after = status([*usual, run(90, "A", 1, like="Z")])
    assert sum(after[key] != answer for key, answer in before.items()) <= 1


def test_what_a_run_differs_in_is_named():
    runs = fleet("A", "B", "C")
    odd = runs[0].figures.copy()
    odd[3] = [0, 0, 1, 5.0, 5.1, 5.2]
    odd[6] = [1, 0, 0, -5.2, -5.1, -5.0]
    runs[0] = replace(runs[0], figures=odd)
    found = run_identity(runs, GROUPS, SETTINGS).filter(run_key="r00").row(0, named=True)
    assert found["status"] == "unknown"
    assert set(found["differs_in"][:2]) == {"G3", "G6"}


def test_too_few_runs_are_said_to_be_so():
    assert runs_needed(IdentitySettings(false_unknown=0.1)) == 9
    assert runs_needed(SETTINGS) == 11
    assert set(status(fleet("A", "B")).values()) == {"too_few_runs"}  # 9 others
    found = status([*fleet("A", "B", "C"), run(90, "Alone", 1)])
    assert found.pop("r90") == "too_few_runs"  # whether it is what it claims cannot be asked
    assert "too_few_runs" not in found.values()
    lone = run_identity([run(0, "A", 1)], GROUPS, SETTINGS)
    assert lone["status"].to_list() == ["too_few_runs"]
    assert lone.select("nearest", "nearest_run", "distance", "p_value", "claimed_p_value").row(0) == (None,) * 5
    assert run_identity([], GROUPS, SETTINGS).equals(RUN_IDENTITY.empty())


def test_hosts_of_one_job_are_not_held_against_each_other():
    """Twenty hosts of one job say as much of its workload as one does."""
    job = [replace(run(0, "A", seed, host=f"h{seed}"), run_key=f"j{seed}") for seed in range(20)]
    assert set(status(job).values()) == {"too_few_runs"}
    found = run_identity([*job, *fleet("B", "C", "D")], GROUPS, SETTINGS).filter(pl.col("run_key").str.starts_with("j"))
    assert set(found["status"]) == {"too_few_runs"}
    assert not found["nearest"].str.ends_with("/A").any()


def test_equal_runs_are_as_claimed():
    runs = [replace(run(i, "A", 0), figures=run(0, "A", 0).figures) for i in range(20)]
    found = run_identity(runs, GROUPS, SETTINGS)
    assert set(found["status"]) == {"too_few_runs"}  # nothing varies, so that nothing can be told apart
    two = [*runs, *(replace(run(30 + i, "B", 0), figures=run(0, "B", 0).figures) for i in range(20))]
    found = run_identity(two, GROUPS, SETTINGS)
    assert set(found["status"]) == {"as_claimed"}
    assert found["distance"].unique().to_list() == [0.0]


def test_groups_that_some_runs_lack_are_left_out_of_their_comparisons():
    runs = fleet("A", "B", "C")
    for one in runs[::2]:
        one.figures[2] = np.nan
    assert list(status(runs).values()).count("as_claimed") >= 13
    for one in runs:
        one.figures[:] = np.nan
    assert set(status(runs).values()) == {"too_few_runs"}


def test_the_order_of_runs_does_not_matter():
    runs = [*fleet("A", "B", "C"), run(90, "A", 1, like="Z")]
    mixed = [runs[i] for i in np.random.default_rng(0).permutation(len(runs))]
    assert run_identity(runs, GROUPS, SETTINGS).equals(run_identity(mixed, GROUPS, SETTINGS))


def test_a_choice_of_runs_says_what_is_usual_as_well_as_all(monkeypatch):
    runs = fleet("A", "B", "C", runs=50)
    everyone = run_identity(runs, GROUPS, IdentitySettings())
    some = run_identity(runs, GROUPS, IdentitySettings(usual_runs=60))
    assert set(some["compared_runs"]) <= {59, 60}
    # three standard deviations of a share of 60 out of 150, where it is largest
    assert (some["claimed_p_value"] - everyone["claimed_p_value"]).abs().max() < 3 * (0.25 / 60 * 90 / 149) ** 0.5
    assert (some["status"] == everyone["status"]).mean() > 0.95
    assert some["distance"].equals(everyone["distance"])
    monkeypatch.setattr("infrascope_core.patterns.identity._NUMBERS", 1)
    assert run_identity(runs, GROUPS, IdentitySettings()).equals(everyone)


def test_distances_are_as_by_hand():
    """Distance and weights of one run from the definition, without the shortcuts for runs that are left out."""
    runs = fleet("A", "B", "C")
    found = run_identity(runs, GROUPS, SETTINGS).row(0, named=True)
    x = comparable(runs)
    others, claims = x[1:], [one.workload for one in runs[1:]]
    within = freedom = 0
    for workload in sorted(set(claims)):
        own = others[[claim == workload for claim in claims]]
        within = within + ((own - own.mean(axis=0)) ** 2).sum(axis=(0, 2))
        freedom += len(own) - 1
    total = ((others - others.mean(axis=0)) ** 2).sum(axis=(0, 2)) / (len(others) - 1)
    weights = 1 / (np.sqrt(within / freedom) + 0.05 * np.sqrt(total)) ** 2
    away = np.sqrt((((others - x[0]) ** 2).sum(axis=-1) * weights).mean(axis=-1))
    assert found["distance"] == pytest.approx(away.min(), rel=1e-6)
    assert found["nearest_run"] == runs[1 + int(np.argmin(away))].run_key


# --- signatures ---


def baskets(levels: str, host: str = "h", group: str = "G0") -> pl.DataFrame:
    names = {"L": "LOW", "M": "MED", "H": "HIGH"}
    rows = [
        ("r", host, i, group, START + timedelta(seconds=i), float(i), names[level], f"{group}_{names[level]}")
        for i, level in enumerate(levels)
    ]
    return pl.DataFrame(rows, schema=BASKETS.schema, orient="row")


def test_a_signature_holds_shares_of_levels_and_quartiles():
    both = pl.concat([baskets("LLMHH"), baskets("HHHHH", host="k"), baskets("LLLLL", group="Ignored")])
    first, second = signatures(both, ["G0", "G1"], "gpu/train/W")
    assert (first.run_key, first.host, first.workload) == ("r", "h", "gpu/train/W")
    assert first.figures[0].tolist() == pytest.approx([0.4, 0.2, 0.4, 1, 2, 3])
    assert np.isnan(first.figures[1]).all()
    assert second.figures[0, :3].tolist() == [0, 0, 1]
    assert (first.end - first.start).total_seconds() == 4
    assert signatures(BASKETS.empty(), ["G0"], "gpu/train/W") == []


def test_quartiles_are_compared_by_rank():
    runs = [replace(one, figures=one.figures.copy()) for one in fleet("A", "B")]
    before = comparable(runs)
    runs[0].figures[:, 3:] += 1e9  # one run far off, the ranks of the others keep their order
    after = comparable(runs)
    assert after.min() >= 0
    assert after.max() <= 1
    order = np.argsort(before[1:, 8:, 1], axis=0)
    assert (np.argsort(after[1:, 8:, 1], axis=0) == order).all()


def test_a_workload_is_the_median_of_its_runs():
    runs = fleet("A", "B")
    found = workload_signatures(runs, GROUPS)
    assert found.schema == WORKLOAD_SIGNATURES.schema
    own = found.filter(workload="A", metric_group="G1")
    assert own["runs"].item() == 5
    expected = np.median([one.figures[1] for one in runs[:5]], axis=0)
    assert list(own.select(FIGURES).row(0)) == pytest.approx(expected.tolist())
