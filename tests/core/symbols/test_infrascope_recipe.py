"""The exact recipe gives the numbers of a plain pandas reading of its rules."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS
from tests.conftest import SAMPLE
from tests.core import notebook
from tests.generated import cpu_columns, frame, gpu_columns, write

EXACT = Settings(recipe="infrascope")


def compare(folder: DataFolder, paths: list[Path]) -> None:
    frames = notebook.load(paths)
    expected = notebook.thresholds(frames)
    fitted = {
        (p, g): (low, high)
        for p, g, low, high in folder.lake.read(THRESHOLDS)
        .select("platform", "metric_group", "low", "high")
        .iter_rows()
    }
    assert fitted.keys() == expected.keys()
    for key, bounds in expected.items():
        assert fitted[key] == pytest.approx(bounds, rel=1e-12), key
    baskets = pl.concat(folder.lake.read(BASKETS, key) for key in frames)
    found: dict[tuple[str, int], set[str]] = {}
    for run_key, window, item in baskets.select("run_key", "window", "item").iter_rows():
        found.setdefault((run_key, window), set()).add(item)
    assert found == notebook.baskets(frames)


def test_generated_gpu_and_cpu_files(tmp_path, make_all):
    paths = [
        write(
            tmp_path / f"train_BARTBASEforTableQA_default_2025-04-26T13-38-1{i}_{host}.txt",
            # odd lengths: the last window is incomplete
            frame(columns(host), 163 + 10 * i, seed=i),
        )
        for i, (columns, host) in enumerate(
            [
                (gpu_columns, "htc-g003"), (gpu_columns, "htc-g004"), (gpu_columns, "htc-g004"),
                (cpu_columns, "nserver07"), (cpu_columns, "nserver08"),
            ]
        )
    ]  # fmt: skip
    compare(make_all(tmp_path / "data", tmp_path, settings=EXACT, until="baskets"), paths)


def test_missing_values_leave_medians_and_thresholds(tmp_path, make_all):
    columns = gpu_columns()
    values = frame(columns, 100).with_row_index("row")
    busy = next(c for c in columns if "Busy%.-" in c)
    power = next(c for c in columns if "power.draw.0" in c)
    holed = values.with_columns(
        pl.when(pl.col("row") % 3 == 0).then(pl.col(power)),
        # a whole window of nothing: no item there
        pl.when((pl.col("row") < 20) | (pl.col("row") >= 30)).then(pl.col(busy)),
    ).drop("row")
    path = write(tmp_path / "train_BARTBASEforTableQA_default_2025-04-26T13-38-18_htc-g004.txt", holed)
    folder = make_all(tmp_path / "data", tmp_path, settings=EXACT, until="baskets")
    compare(folder, [path])
    items = folder.lake.read(BASKETS, path.stem).filter(pl.col("window") == 2)["metric_group"].to_list()
    assert "CPU_busy" not in items
    assert "GPU_power" in items


@pytest.mark.skipif(not list(SAMPLE.glob("*.txt.gz")), reason="no sample runs are recorded here")
def test_sample(tmp_path, make_all):
    paths = sorted(SAMPLE.glob("*.txt.gz"))
    compare(make_all(tmp_path / "data", SAMPLE, settings=EXACT, until="baskets"), paths)
