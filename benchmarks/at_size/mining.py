"""Mining at the size of the public data set: 4,522 runs of about 490 windows, each product by itself.

What is mined begins with the baskets and group windows of runs, so those are what is made here, not 98 GB of text: a
run of each workload is simulated, and the others are that one turned in time, shorter or longer, with noise in some of
its groups. `python -m benchmarks.at_size.mining --runs 500 --place DIR` measures less of it, and keeps the lake.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from benchmarks.at_size.pooled import PROCESSES, made_alone
from benchmarks.pipeline import Claim
from infrascope_core.patterns.products import PRODUCTS
from infrascope_core.pipeline import refresh
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import FAULTS, RUN_FILES, Platform
from infrascope_core.simulate import Job, write_job
from infrascope_core.simulate.plan import Phase
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS, GROUP_WINDOWS, THRESHOLDS

RUNS: dict[Platform, int] = {"gpu": 1_480, "cpu": 3_042}
"""Of the public data set."""
MINUTES = 490 / 60
_WORKLOADS = 25
_PHASES: tuple[Phase, ...] = ("train", "infer")
_NOISY_GROUPS, _NOISY_WINDOWS = 1 / 3, 0.1
"""Share of a run's groups with noise, and of their windows that are drawn anew from the same run."""
_FAULTY = 0.01
"""Share of the runs with a label."""
_BEGIN = datetime(2025, 4, 1)
_FIRST_STAGES = ("run_files", "quality", "symbols")
_MADE = [product.name for product in PRODUCTS if not product.scope.per_run]


def claims(console: Console, runs: int = sum(RUNS.values()), place: Path | None = None) -> Iterator[Claim]:
    """Measure, print what each product takes, and give the figures."""
    with tempfile.TemporaryDirectory() as aside:
        folder = fleet(place or Path(aside), runs)
        windows = sum(folder.lake.read(BASKETS, key, ["window"])["window"].n_unique() for key in _some(folder)) * (
            runs / len(_some(folder))
        )
        console.print(f"mining {runs:,} runs, about {windows / 1e6:.2f} million windows")
        peak = 0.0
        for table in _MADE:
            cost = made_alone(folder, [table])
            peak = max(peak, cost.gib)
            console.print(f"  {table:22} {cost}")
        whole = made_alone(folder, _MADE)
        console.print(f"  {'all, one by one':22} {whole}")
        yield Claim(
            f"mining of {runs:,} runs of 490 windows after the lake's baskets, {PROCESSES} processes",
            whole.wall_s,
            120,
            "s",
        )
        yield Claim("peak memory of that, and of each product, all processes", max(peak, whole.gib), 2, "GiB")


def _some(folder: DataFolder) -> list[str]:
    return accepted(folder)["run_key"].to_list()[::50]


def fleet(place: Path, runs: int) -> DataFolder:
    """A data folder with the per-run tables that mining reads, made unless it is there."""
    folder, base = DataFolder(place / f"fleet-{runs}"), DataFolder(place / "base", sources=(place / "runs",))
    if folder.lake.has(THRESHOLDS):
        return folder
    if not base.lake.has(THRESHOLDS):
        _simulate(place / "runs")
        refresh(base, only=lambda product: product.stage in _FIRST_STAGES)
    rng = np.random.default_rng(0)
    rows = accepted(base).sort("platform", "phase", "workload")
    of_platform = {name: rows.filter(platform=name).to_dicts() for name in RUNS}
    begin = _BEGIN
    for name, share in RUNS.items():
        patterns = [_Pattern.of(base, row) for row in of_platform[name]]
        for number in range(round(share * runs / sum(RUNS.values()))):
            begin += timedelta(seconds=900)
            patterns[number % len(patterns)].write(folder, begin, rng)
    folder.remember_settings()
    folder.lake.save_index()
    folder.lake.write(base.lake.read(THRESHOLDS), THRESHOLDS)
    folder.lake.save_index()
    return folder


def _simulate(runs: Path) -> None:
    for platform in RUNS:
        for number in range(_WORKLOADS):
            for phase in _PHASES:
                model = f"MODEL{number:02d}"
                seed = 7_000 + 2 * number + (phase == "infer")
                job = Job(platform, model, phase=phase, minutes=MINUTES, seed=seed, interval_s=0.2)
                write_job(job, runs)


@dataclass(frozen=True, eq=False)
class _Pattern:
    """A run that others are made of.

    Attributes
    ----------
    row : dict
        Of `run_files`.
    groups : list of str
    values, levels : ndarray, windows x groups
        NaN where there is no value.
    samples, metrics : ndarray, groups
    """

    row: dict[str, object]
    groups: list[str]
    values: np.ndarray
    levels: np.ndarray
    behind: pl.DataFrame

    @classmethod
    def of(cls, base: DataFolder, row: dict[str, object]) -> _Pattern:
        key = str(row["run_key"])
        baskets = base.lake.read(BASKETS, key).with_columns(
            number=pl.col("level").replace_strict({"LOW": 0, "MED": 1, "HIGH": 2}, return_dtype=pl.Float64)
        )
        values, levels = (
            baskets.pivot(on="metric_group", index="window", values=name, sort_columns=True)
            .sort("window")
            .drop("window")
            for name in ("value", "number")
        )
        behind = base.lake.read(GROUP_WINDOWS, key).group_by("metric_group").agg(pl.col("samples", "metrics").max())
        return cls(row, values.columns, values.to_numpy(), levels.to_numpy(), behind)

    def write(self, folder: DataFolder, begin: datetime, rng: np.random.Generator) -> None:
        """A run of its own: turned, of another length, noisy in some groups."""
        length = round(len(self.values) * rng.uniform(0.8, 1.2))
        at = np.repeat(((np.arange(length) + rng.integers(length)) % len(self.values))[:, None], len(self.groups), 1)
        noisy = (rng.random(len(self.groups)) < _NOISY_GROUPS) & (rng.random(at.shape) < _NOISY_WINDOWS)
        at = np.where(noisy, rng.integers(len(self.values), size=at.shape), at)
        column = np.broadcast_to(np.arange(len(self.groups)), at.shape)
        value, level = self.values[at, column].ravel(), self.levels[at, column].ravel()
        stem, _, host = str(self.row["run_key"]).rpartition("_")
        key = f"{stem.rpartition('_')[0]}_{begin:%Y-%m-%dT%H-%M-%S}_{host}"
        known = pl.Series(np.isfinite(level))
        names = pl.Series(self.groups)
        group = names.gather(column.ravel())
        held = pl.Series(["LOW", "MED", "HIGH"]).gather(np.nan_to_num(level).astype(np.int64))
        window = np.repeat(np.arange(length), len(self.groups))
        rows = pl.DataFrame(
            {
                "run_key": pl.repeat(key, len(window), eager=True),
                "host": pl.repeat(host, len(window), eager=True),
                "window": window,
                "metric_group": group,
                "start_ts": np.datetime64(begin, "us") + window * np.timedelta64(1, "s"),
                "value": value,
                "level": held,
                "item": group + "_" + held,
            }
        ).filter(known)
        made_from = key
        folder.lake.write(rows, BASKETS, key, made_from)
        windows = rows.join(self.behind, on="metric_group", how="left", maintain_order="left")
        folder.lake.write(windows, GROUP_WINDOWS, key, made_from)
        faults = FAULTS.empty()
        if rng.random() < _FAULTY:
            start = begin + timedelta(seconds=length / 3)
            label = {"run_key": key, "start": start, "end": start + timedelta(seconds=40), "fault": "packet_loss"}
            faults = pl.DataFrame([{**label, "subsystem": "Network", "metrics": []}], schema=FAULTS.schema)
        folder.lake.write(faults, FAULTS, key, made_from)
        row = {**self.row, "run_key": key, "host": host, "started_at": begin, "source": ""}
        folder.lake.write(pl.DataFrame([row], schema=RUN_FILES.schema), RUN_FILES, key, made_from)


def main() -> None:
    """What is said above, for so many runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=sum(RUNS.values()))
    parser.add_argument("--place", type=Path, help="keep the lake there, and use it if it is there")
    parser.add_argument("--only", nargs="*", help="measure these products alone")
    asked = parser.parse_args()
    console = Console(width=110, highlight=False)
    if asked.only:
        folder = fleet(asked.place, asked.runs)
        for table in asked.only:
            console.print(f"  {table:22} {made_alone(folder, [table])}")
        return
    for claim in claims(console, asked.runs, asked.place):
        console.print(f"{claim.what}: {claim.figure} (target {claim.target})")


if __name__ == "__main__":
    main()
