"""Agreement of window lengths: some runs of every workload judged with three lengths of windows.

What belongs here: the study behind `window_agreement` (Reveal, section 5.5), and its table 2; the measures themselves
are in `intervals`.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import polars as pl

from infrascope_core.anomalies.baseline import Baseline
from infrascope_core.anomalies.fitting import fit_baseline
from infrascope_core.anomalies.run_features import features_of_run
from infrascope_core.anomalies.sampling import sampled_features
from infrascope_core.anomalies.scoring import score
from infrascope_core.anomalies.tables import WINDOW_FEATURES
from infrascope_core.contract import WORKLOAD_KEY as WORKLOAD
from infrascope_core.run_files.pruned import whole
from infrascope_core.run_files.runs import accepted, run_file, workloads
from infrascope_core.run_files.tables import TELEMETRY
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.lake import Lake
from infrascope_core.store.product import Tick
from infrascope_core.studies import intervals
from infrascope_core.studies.choice import chosen_runs
from infrascope_core.studies.tables import WINDOW_AGREEMENT


@dataclass(frozen=True, eq=False)
class _Cut:
    """One way of cutting windows: the folder's settings with it, and the anomaly intervals it finds."""

    settings: Settings
    intervals: dict[tuple[str, str], intervals.Intervals]

    def label(self, interval_s: float) -> str:
        windows = self.settings.features
        nominal = float(f"{interval_s:.2g}")
        return f"{windows.samples * nominal:.3g} s/{windows.stride * nominal:.3g} s"


def anomaly_intervals(
    folder: DataFolder, keys: list[str], settings: Settings
) -> dict[tuple[str, str], intervals.Intervals]:
    """Merged intervals of the flagged windows of runs of one workload, under other settings than the folder's.

    Parameters
    ----------
    folder : DataFolder
        Nothing is written into its folder.
    keys : list of str
        Runs of one workload; the baseline is fitted on just these.
    settings : Settings
        What to cut and to judge by.

    Returns
    -------
    dict
        By run key and host; empty where there are too few windows for a baseline.
    """
    under = replace(folder, settings=settings)
    with tempfile.TemporaryDirectory(prefix="infrascope-") as place:
        aside = Lake(Path(place))
        for key in keys:
            aside.write(features_of_run(under, key), WINDOW_FEATURES, key)
        baseline = _fitted(under, aside, keys)
        if baseline is None:
            return {}
        found = {}
        for key in keys:
            scores = score(baseline, baseline.judge(aside.read(WINDOW_FEATURES, key)))
            interval_s = run_file(folder, key)["interval_s"]
            length_us = round(settings.features.samples * float(str(interval_s)) * 1e6)
            for (host,), part in sorted(scores.partition_by("host", as_dict=True).items()):
                found[key, str(host)] = intervals.flagged_intervals(part, length_us)
    return found


def _fitted(under: DataFolder, lake: Lake, keys: list[str]) -> Baseline | None:
    """A baseline on a bounded sample of the windows, as the folder's own are fitted."""
    run, detectors = run_file(under, keys[0]), under.settings.detectors
    features = sampled_features(lake.files(WINDOW_FEATURES, keys), detectors)
    platform, phase, workload = (str(run[name]) for name in WORKLOAD)
    return fit_baseline(features, platform, phase, workload, detectors, windows=under.settings.features)


def window_settings(settings: Settings) -> list[Settings]:
    """The folder's settings, and the same with finer and with coarser windows (Reveal, section 5.5)."""
    usual = settings.features
    found = [settings]
    for samples, stride in (settings.agreement.finer, settings.agreement.coarser):
        # the least window that has a third moment
        cut = usual.model_copy(
            update={"samples": max(3, round(usual.samples * samples)), "stride": max(1, round(usual.stride * stride))}
        )
        # what the detectors count in windows stays as long as it was
        detectors = settings.detectors.model_copy(
            update={
                name: max(least, round(getattr(settings.detectors, name) * usual.stride / cut.stride))
                for name, least in (("place_windows", 0), ("past_windows", settings.detectors.min_windows))
            }
        )
        found.append(settings.model_copy(update={"features": cut, "detectors": detectors}))
    return found


def _cuts(folder: DataFolder, runs: pl.DataFrame) -> list[_Cut]:
    """The three lengths of windows over the chosen runs of one workload."""
    settings = folder.settings.agreement
    known = whole(folder, runs).filter(pl.col("interval_s") > 0)
    keys = chosen_runs(known, settings.max_runs, settings.random_state)
    return [_Cut(s, anomaly_intervals(folder, keys, s)) for s in window_settings(folder.settings)] if keys else []


def compare_window_lengths(folder: DataFolder, tick: Tick) -> pl.DataFrame:
    """Judge some runs of every workload with three lengths of windows, and compare what is flagged.

    Intervals are of windows that any detector flags. Baselines are fitted on the chosen runs, one for each length, so
    that the lengths differ in nothing else.
    """
    rows: list[dict[str, object]] = []
    found_workloads = workloads(folder)
    for done, (_, runs) in enumerate(found_workloads):
        tick(done, len(found_workloads))
        cuts = _cuts(folder, runs)
        interval_s = dict(runs.select("run_key", "interval_s").iter_rows())
        for a, b in combinations(cuts, 2):
            for key, host in sorted(a.intervals.keys() & b.intervals.keys()):
                labels = {"setting_a": a.label(interval_s[key]), "setting_b": b.label(interval_s[key])}
                found = asdict(intervals.agreement(a.intervals[key, host], b.intervals[key, host]))
                rows.append({"run_key": key, "host": host, **labels, **found})
    return pl.DataFrame(rows, schema=WINDOW_AGREEMENT.schema)


def hit_rates(table: pl.DataFrame) -> pl.DataFrame:
    """Mean, median and standard deviation over runs for each pair of settings, as in table 2 of the paper."""
    measures = ("iou", "hit_by_count", "hit_by_length")
    return table.group_by("setting_a", "setting_b", maintain_order=True).agg(
        pl.col("iou").count().alias("runs"),
        *(
            how(pl.col(name)).round(2).alias(f"{name} {how.__name__}")
            for name in measures
            for how in (pl.Expr.mean, pl.Expr.median, pl.Expr.std)
        ),
    )


def example_timelines(folder: DataFolder, table: pl.DataFrame) -> tuple[str, dict[str, list[tuple[float, float]]]]:
    """Anomaly intervals of the run with samples in which most were found, by setting, in seconds since its start.

    Parameters
    ----------
    folder : DataFolder
        Judges the runs of that workload once more.
    table : polars.DataFrame
        Table `window_agreement`.

    Returns
    -------
    tuple
        The run's key, and its intervals by setting; no intervals where nothing was found.
    """
    found = pl.col("intervals_a") + pl.col("intervals_b")
    counted = whole(folder, table.filter(found > 0)).sort(found, "run_key", "host", descending=[True, False, False])
    if counted.is_empty():
        return "", {}
    key, host = str(counted["run_key"][0]), str(counted["host"][0])
    run = run_file(folder, key)
    runs = accepted(folder).filter(pl.all_horizontal(pl.col(name) == run[name] for name in WORKLOAD))
    start = int(folder.lake.read(TELEMETRY, key, ["ts"])["ts"].dt.epoch("us").to_numpy().min())
    return key, {
        cut.label(float(str(run["interval_s"]))): [
            ((int(a) - start) / 1e6, (int(b) - start) / 1e6) for a, b in cut.intervals.get((key, host), [])
        ]
        for cut in _cuts(folder, runs)
    }
