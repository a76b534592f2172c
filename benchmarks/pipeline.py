"""Ingestion, the steps after it, and windows, each beside the plainest thing that does the same work."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow.csv
from rich.console import Console

from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.inbox import Inbox
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import CURATED_METRICS, THRESHOLDS
from tests.generated import GPU_HOST, frame, gpu_columns, write

SAMPLES = 16_000
ROUNDS = 7
AFTER_INGEST = ("quality_metrics", "curated_metrics", "group_windows", "baskets")
NAME = f"train_BARTBASEforTableQuestionAnswering_default_2025-04-26T13-38-18_{GPU_HOST}"


@dataclass(frozen=True)
class Claim:
    """A measured figure and what it should be."""

    what: str
    value: float
    limit: float
    unit: str
    at_least: bool = False

    @property
    def figure(self) -> str:
        return f"{self.value:.3g} {self.unit}"

    @property
    def target(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}"

    def met(self) -> bool | None:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def best(rounds: int, **work: Callable[[], object]) -> dict[str, float]:
    """Best time of each, in seconds; the pieces of work take turns, so that noise meets them alike."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, call in work.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: min(seconds) for name, seconds in times.items()}


def claims(console: Console) -> Iterator[Claim]:
    """Measure, print the times, and give the ratios."""
    with tempfile.TemporaryDirectory() as place:
        path = write(Path(place, "runs", f"{NAME}.txt"), frame(gpu_columns(), SAMPLES))
        console.print(f"run file: {SAMPLES:,} × {len(gpu_columns())}, {path.stat().st_size / 1e6:.0f} MB")
        folder = DataFolder(Path(place, "data"), Settings(), (path.parent,))
        for table in ("run_files", "quality_metrics"):
            GRAPH.make(folder, table, NAME)
        GRAPH.make_pooled(folder, "metric_catalog")
        for table in ("curated_metrics", "group_windows"):
            GRAPH.make(folder, table, NAME)
        GRAPH.make_pooled(folder, "thresholds")
        times = best(
            ROUNDS,
            pandas=lambda: pd.read_csv(path, sep="\t"),
            polars=lambda: pl.read_csv(path, separator="\t"),
            pyarrow=lambda: pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(delimiter="\t")),
            ingest=lambda: Inbox.of(folder).ingest(NAME),
            **{table: _maker(folder, table) for table in AFTER_INGEST},
        )
        for name, seconds in times.items():
            console.print(f"  {name}: {seconds:.3f} s")
        plain = min(times[name] for name in ("pandas", "polars", "pyarrow"))
        yield Claim("ingest / fastest plain parse", times["ingest"] / plain, 2.5, "×")
        after = sum(times[table] for table in AFTER_INGEST)
        yield Claim("everything per run after ingest, up to baskets / ingest", after / times["ingest"], 0.5, "×")
        loop = _pandas_loop(folder)
        console.print(f"  plain pandas loop over windows and groups: {loop:.3f} s")
        ours = times["group_windows"] + times["baskets"]
        yield Claim("windows and baskets, speed over the plain pandas loop", loop / ours, 50, "×", at_least=True)


def _maker(folder: DataFolder, table: str) -> Callable[[], object]:
    return lambda: GRAPH.make(folder, table, NAME)


def _pandas_loop(folder: DataFolder) -> float:
    """For each window and group: the median over samples, then over columns, then a level; no file is read."""
    curated = folder.lake.read(CURATED_METRICS, NAME)
    wide = curated.pivot("metric", index="sample", values="value", aggregate_function="first").to_pandas()
    groups = {
        name: part["metric"].unique(maintain_order=True).to_list()
        for (name,), part in curated.partition_by("metric_group", as_dict=True).items()
    }
    bounds = {
        group: (low, high)
        for group, low, high in folder.lake.read(THRESHOLDS).select("metric_group", "low", "high").iter_rows()
    }
    size = folder.settings.windows.samples
    start = time.perf_counter()
    baskets = []
    for window in range(len(wide) // size):
        rows = wide.iloc[window * size : (window + 1) * size]
        for group, columns in groups.items():
            value = rows[columns].median().median()
            low, high = bounds[group]
            baskets.append((window, group, "LOW" if value <= low else "MED" if value <= high else "HIGH"))
    assert baskets
    return time.perf_counter() - start
