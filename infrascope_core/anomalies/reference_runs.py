"""Which runs a baseline is made of, and which baseline judges a run."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from infrascope_core.anomalies.baseline import ANY, Baseline
from infrascope_core.anomalies.features import of_windows
from infrascope_core.anomalies.fitting import fit_baseline
from infrascope_core.anomalies.model_file import load_baseline
from infrascope_core.anomalies.sampling import sample_windows
from infrascope_core.anomalies.tables import BASELINES, WINDOW_FEATURES
from infrascope_core.contract import WINDOW_KEY, WORKLOAD_KEY
from infrascope_core.errors import NotFittedError, SettingsError
from infrascope_core.run_files.runs import accepted, healthy_runs, run_file
from infrascope_core.store.folder import DataFolder


def reference_runs(folder: DataFolder, keys: list[str]) -> tuple[list[str], str]:
    """Which of the runs a baseline is fitted on, and the name of that choice (`Identity.compared_with`)."""
    settings = folder.settings.detectors
    unmatched_patterns(settings.reference_runs, accepted(folder)["run_key"].to_list())
    if settings.compare_with == "workload":
        return keys, "workload"
    if settings.reference_runs:
        named = [key for key in keys if any(fnmatchcase(key, pattern) for pattern in settings.reference_runs)]
    else:
        healthy = healthy_runs(folder)
        named = [key for key in keys if key in healthy]
    return (named, "reference") if named or settings.compare_with == "reference" else (keys, "workload")


def unmatched_patterns(patterns: Sequence[str], keys: Sequence[str]) -> None:
    """Refuse patterns of run keys that match none.

    Raises
    ------
    SettingsError
        In one sentence, with the run keys that come nearest.
    """
    for pattern in patterns:
        if not any(fnmatchcase(key, pattern) for key in keys):
            # a pattern names the beginning of a key, or its end; the rest of it would drown the likeness
            said = pattern.strip("*?")
            part = slice(-len(said), None) if pattern[:1] in {"*", "?"} else slice(len(said))
            named = {key[part]: key for key in sorted(keys, reverse=True)}
            near = [named[match] for match in get_close_matches(said, named, n=3, cutoff=0.6)]
            hint = f"; near misses are {', '.join(near)}" if near else ""
            raise SettingsError(f"detectors.reference_runs: {pattern!r} matches none of {len(keys)} runs{hint}")


def baseline_row(folder: DataFolder, key: str) -> dict[str, Any] | None:
    """The row of `baselines` that judges a run: its workload's, else its platform's; None if neither is there.

    Raises
    ------
    NotFittedError
        Baselines were never fitted.
    """
    if not folder.lake.has(BASELINES):
        raise NotFittedError(f"{BASELINES.name} is not fitted yet; it comes before the products of {key}")
    run = run_file(folder, key)
    phase = ANY if folder.settings.detectors.across_phases else str(run["phase"])
    key_of_workload = (str(run["platform"]), phase, str(run["workload"]))
    return folder.once(
        ("baseline", folder.lake.version(BASELINES), key_of_workload), lambda: _row(folder, *key_of_workload)
    )


def _row(folder: DataFolder, platform: str, phase: str, workload: str) -> dict[str, Any] | None:
    fitted = folder.lake.read_cached(BASELINES)
    for key in ((platform, phase, workload), (platform, ANY, ANY)):
        row = fitted.filter(pl.all_horizontal(pl.col(n) == v for n, v in zip(WORKLOAD_KEY, key, strict=True)))
        if row.height:
            return row.row(0, named=True)
    return None


def baseline_version(folder: DataFolder, key: str) -> str:
    """Version of the baseline that judges a run; empty where there is none, or where it is the run's own past."""
    row = baseline_row(folder, key)
    return "" if row is None else str(row["version"])


def baseline_of(folder: DataFolder, key: str) -> Baseline | None:
    """The baseline that judges a run, or None where there are too few windows for any."""
    if folder.settings.detectors.compare_with == "past":
        return _past_of_run(folder, key)
    row = baseline_row(folder, key)
    return None if row is None else _load(folder.root / str(row["file"]), str(row["version"]))


def _past_of_run(folder: DataFolder, key: str) -> Baseline | None:
    """A baseline of a run's own first windows."""
    run, settings = run_file(folder, key), folder.settings
    features = folder.lake.read(WINDOW_FEATURES, key)
    past = features.select(WINDOW_KEY).filter(pl.col("window") < settings.detectors.past_windows)
    return fit_baseline(
        of_windows(features, past),
        str(run["platform"]),
        str(run["phase"]),
        str(run["workload"]),
        settings.detectors,
        windows=settings.features,
        compared_with="past",
    )


def windows_of_past(folder: DataFolder, key: str) -> int:
    """Number of windows that a baseline of the run's own past is fitted on; reads no features."""
    index = folder.lake.read(WINDOW_FEATURES, key, WINDOW_KEY)
    settings = folder.settings.detectors
    return sample_windows(index.filter(pl.col("window") < settings.past_windows), settings).height


@lru_cache(maxsize=8)
def _load(path: Path, version: str) -> Baseline:
    baseline = load_baseline(path)
    if baseline.identity.version != version:
        raise NotFittedError(f"{path}: holds version {baseline.identity.version}, expected {version}; refit")
    return baseline
