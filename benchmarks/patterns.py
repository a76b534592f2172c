"""How fast patterns are mined: itemsets beside mlxtend's fpgrowth, rules beside the itemsets, and how both grow."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from mlxtend.frequent_patterns import fpgrowth
from rich.console import Console

from benchmarks.pipeline import Claim
from infrascope_core.patterns.held import Held, Items
from infrascope_core.patterns.itemsets import frequent_itemsets
from infrascope_core.patterns.rules import association_rules
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.patterns.tallies import Tally, run_overlaps
from infrascope_core.recipes import load_recipe

GROUPS, RUNS, WINDOWS = 11, 100, 2_000
LEVELS = ("LOW", "MED", "HIGH")
ROUNDS = 3
_WIDE_ITEMS, _WIDE_BASKETS = 16_470, 88_162
"""Items and baskets of the retail data set (Brijs et al., KDD 1999)."""


def claims(console: Console) -> Iterator[Claim]:
    """Ratios of times that are taken in turn, and memory of a process of its own."""
    baskets, settings = _baskets(_levels(WINDOWS)), MiningSettings()
    runs, items = _runs(_levels(WINDOWS))
    one_hot = _one_hot(baskets)
    ours, peer, pairs, triples = [], [], [], []
    for _ in range(ROUNDS):
        ours.append(_seconds(lambda: frequent_itemsets(baskets, "bench", settings)))
        peer.append(_seconds(lambda: _fpgrowth(one_hot, settings)))
        pairs.append(_seconds(lambda: _rules(runs, items, 1)))
    triples.append(_seconds(lambda: _rules(runs, items, 2)))
    large = _baskets(_levels(5 * WINDOWS))
    growth = min(_seconds(lambda: frequent_itemsets(large, "bench", settings)) for _ in range(2)) / min(ours)
    console.print(
        f"patterns, {RUNS * WINDOWS:,} baskets of {3 * GROUPS} items: itemsets {min(ours):.2f} s,"
        f" fpgrowth {min(peer):.1f} s, rules of one item on the left {min(pairs):.2f} s, of two {min(triples):.1f} s"
    )
    yield Claim(
        "itemsets, 200,000 x 33 at 1 %, beside mlxtend's fpgrowth", min(peer) / min(ours), 20, "×", at_least=True
    )
    fim = _seconds_of_fim(baskets, settings)
    if fim is None:
        console.print("pyfim is not installed (pip install pyfim, which compiles): itemsets are not held against it")
    else:
        yield Claim("itemsets, the same, beside pyfim's fpgrowth", min(ours) / fim, 5, "×")
    yield Claim("itemsets of 1,000,000 baskets, beside those of 200,000", growth, 6, "×")
    yield Claim(
        "rules tested within 100 runs, one item on the left, beside fpgrowth",
        min(peer) / min(pairs),
        20,
        "×",
        at_least=True,
    )
    yield Claim("the same with two items on the left", min(peer) / min(triples), 2, "×", at_least=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "wide.parquet")
        _wide().write_parquet(path)
        command = [sys.executable, "-m", __name__, str(path)]
        above = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    yield Claim("itemsets, 16,470 items x 88,162 baskets: memory above the input", above, 400, "MiB")


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _levels(windows: int) -> list[np.ndarray]:
    """Levels of each run, windows x groups: stretches of some windows, a third of the groups in step."""
    rng = np.random.default_rng(0)

    def course() -> np.ndarray:
        begins = rng.random(windows) < 1 / 8
        begins[0] = True
        return rng.integers(0, 3, windows)[np.maximum.accumulate(np.where(begins, np.arange(windows), 0))]

    found = []
    for _ in range(RUNS):
        step = course()
        groups = [np.where(rng.random(windows) < (0.4 if g % 3 == 0 else 0.0), step, course()) for g in range(GROUPS)]
        found.append(np.stack(groups, axis=1))
    return found


def _baskets(runs: list[np.ndarray]) -> pl.DataFrame:
    """Rows of the table `baskets`, as the lake gives them: by run, window and group."""
    names = np.array([[f"Group_{g:02d}_{level}" for level in LEVELS] for g in range(GROUPS)])
    parts = [
        pl.DataFrame(
            {
                "run_key": pl.repeat(
                    f"train_BENCHforTask_Set_2026-11-01T00-00-00_{number:04d}", levels.size, eager=True
                ),
                "host": pl.repeat("h1", levels.size, eager=True),
                "window": np.repeat(np.arange(len(levels)), GROUPS),
                "item": names[np.tile(np.arange(GROUPS), len(levels)), levels.ravel()],
            }
        )
        for number, levels in enumerate(runs)
    ]
    return pl.concat(parts)


def _runs(runs: list[np.ndarray]) -> tuple[list[Held], Items]:
    items = Items.of([f"Group_{g:02d}_{level}" for g, level in product(range(GROUPS), LEVELS)])
    place = {name: i for i, name in enumerate(items.names)}
    column = np.array([[place[f"Group_{g:02d}_{level}"] for level in LEVELS] for g in range(GROUPS)])
    found = []
    for number, levels in enumerate(runs):
        holds = np.zeros((len(levels), len(items.names)), dtype=bool)
        for group in range(GROUPS):
            holds[np.arange(len(levels)), column[group, levels[:, group]]] = True
        start = datetime(2026, 11, 1) + timedelta(hours=number)
        times = [start + timedelta(seconds=i) for i in range(len(levels))]
        found.append(Held(f"r{number:04d}", "h1", f"W{number % 10}", holds, times, np.arange(len(holds))))
    return found, items


def _rules(runs: list[Held], items: Items, most: int) -> pl.DataFrame:
    settings = MiningSettings(max_antecedent=most)
    tally = Tally(items, most)
    for run in runs:
        tally.add(run_overlaps(run.holds, items, most))
    return association_rules(tally, runs, "bench", settings, load_recipe("default"))


def _one_hot(baskets: pl.DataFrame) -> object:
    wide = baskets.with_columns(held=pl.lit(True)).pivot(on="item", index=["run_key", "window"], values="held")
    return wide.drop("run_key", "window").fill_null(False).to_pandas()


def _fpgrowth(one_hot: object, settings: MiningSettings) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fpgrowth(one_hot, min_support=settings.min_support, max_len=settings.max_size)


def _seconds_of_fim(baskets: pl.DataFrame, settings: MiningSettings) -> float | None:
    """Time of the itemsets by pyfim (C. Borgelt), without making its lists of items; None where it is not installed."""
    try:
        fim = import_module("fim")  # optional: it has no wheels, and is declared nowhere
    except ImportError:
        return None
    lists = baskets.group_by("run_key", "window").agg("item")["item"].to_list()
    percent = 100 * settings.min_support
    return min(
        _seconds(lambda: fim.fpgrowth(lists, target="s", supp=percent, zmin=1, zmax=settings.max_size))
        for _ in range(ROUNDS)
    )


def _wide() -> pl.DataFrame:
    """Baskets of few items out of very many."""
    rng = np.random.default_rng(0)
    size = 10
    item = np.minimum(rng.zipf(1.4, _WIDE_BASKETS * size), _WIDE_ITEMS)
    rows = pl.DataFrame(
        {
            "run_key": pl.repeat("r", len(item), eager=True),
            "host": pl.repeat("h", len(item), eager=True),
            "window": np.repeat(np.arange(_WIDE_BASKETS), size),
            "item": pl.Series(item).cast(pl.String),
        }
    )
    return rows.unique(maintain_order=True)


def _memory_above(path: Path) -> float:
    """MiB that mining takes at most above what the process with the baskets takes."""
    rows = pl.read_parquet(path)
    # the peak is forgotten (proc(5)); that of `getrusage` would be the parent's
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = _status("VmRSS")
    frequent_itemsets(rows, "bench", MiningSettings())
    return _status("VmHWM") - before


def _status(name: str) -> float:
    """A size of this process, MiB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(_memory_above(Path(sys.argv[1])))
