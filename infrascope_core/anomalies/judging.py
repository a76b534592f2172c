"""Which baseline judges a run: one that did not learn from it."""

from __future__ import annotations

import polars as pl

from infrascope_core.anomalies.alone import fit_alone
from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.run_files.runs import run_file
from infrascope_core.store.folder import DataFolder


def without_itself(folder: DataFolder, key: str, baseline: Baseline, features: pl.DataFrame) -> Baseline:
    """The baseline without what the run itself taught it; where nothing is left, one that knows the run alone."""
    return baseline.without(key) if baseline.judges(key) else _of_itself(folder, key, features) or baseline


def _of_itself(folder: DataFolder, key: str, features: pl.DataFrame) -> Baseline | None:
    run, settings = run_file(folder, key), folder.settings
    platform, phase, workload = (str(run[name]) for name in WORKLOAD_KEY)
    return fit_alone(features, platform, phase, workload, settings.detectors, windows=settings.features)
