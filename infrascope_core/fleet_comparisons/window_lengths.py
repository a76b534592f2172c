"""`window_agreement`: some runs of every workload judged with three lengths of windows."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import polars as pl

from infrascope_core import agreement, baselines
from infrascope_core.baselines import Baseline
from infrascope_core.features import WINDOW
from infrascope_core.fleet_comparisons.reading import WORKLOAD, chosen, workloads
from infrascope_core.lake import Lake
from infrascope_core.pipeline import Pipeline
from infrascope_core.settings import Settings
from infrascope_core.steps import STEPS
from infrascope_core.tables import WINDOW_AGREEMENT, WINDOW_FEATURES


@dataclass(frozen=True, eq=False)
class _Cut:
    """One way of cutting windows: the pipeline's settings with it, and the anomaly intervals it finds."""

    settings: Settings
    intervals: dict[tuple[str, str], agreement.Intervals]

    def label(self, interval_s: float) -> str:
        windows = self.settings.features
        nominal = float(f"{interval_s:.2g}")
        return f"{windows.samples * nominal:.3g} s/{windows.stride * nominal:.3g} s"


def anomaly_intervals(
    pipeline: Pipeline, keys: list[str], settings: Settings
) -> dict[tuple[str, str], agreement.Intervals]:
    """Merged intervals of the flagged windows of runs of one workload, under other settings than the pipeline's.

    Parameters
    ----------
    pipeline : Pipeline
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
    under = replace(pipeline, settings=settings)
    with tempfile.TemporaryDirectory(prefix="infrascope-") as folder:
        aside = Lake(Path(folder))
        for key in keys:
            aside.write(STEPS[WINDOW_FEATURES.name].make(under, key), WINDOW_FEATURES.name, key)
        baseline = _fitted(under, aside, keys)
        if baseline is None:
            return {}
        found = {}
        for key in keys:
            scores = baselines.score(baseline, aside.read(WINDOW_FEATURES.name, key))
            interval_s = pipeline.run_file(key)["interval_s"]
            length_us = round(settings.features.samples * float(str(interval_s)) * 1e6)
            for (host,), part in sorted(scores.partition_by("host", as_dict=True).items()):
                found[key, str(host)] = agreement.flagged_intervals(part, length_us)
    return found


def _fitted(under: Pipeline, lake: Lake, keys: list[str]) -> Baseline | None:
    """A baseline on a bounded sample of the windows, as the pipeline's own are fitted."""
    run, detectors = under.run_file(keys[0]), under.settings.detectors
    scans = [pl.scan_parquet(file, glob=False) for file in lake.files(WINDOW_FEATURES.name, keys)]
    sample = baselines.sample_windows(pl.concat(s.select(WINDOW).unique() for s in scans).collect(), detectors)
    features = pl.concat(s.join(sample.lazy(), on=WINDOW, how="semi") for s in scans).collect()
    platform, phase, workload = (str(run[name]) for name in WORKLOAD)
    return baselines.fit_baseline(features, platform, phase, workload, detectors, windows=under.settings.features)


def window_settings(settings: Settings) -> list[Settings]:
    """The pipeline's settings, and the same with finer and with coarser windows (Reveal, section 5.5)."""
    own = settings.features
    found = [settings]
    for samples, stride in (settings.agreement.finer, settings.agreement.coarser):
        # the least window that has a third moment
        cut = own.model_copy(
            update={"samples": max(3, round(own.samples * samples)), "stride": max(1, round(own.stride * stride))}
        )
        # what the detectors count in windows stays as long as it was
        detectors = settings.detectors.model_copy(
            update={
                name: max(least, round(getattr(settings.detectors, name) * own.stride / cut.stride))
                for name, least in (("place_windows", 0), ("past_windows", settings.detectors.min_windows))
            }
        )
        found.append(settings.model_copy(update={"features": cut, "detectors": detectors}))
    return found


def _cuts(pipeline: Pipeline, runs: pl.DataFrame) -> list[_Cut]:
    """The three lengths of windows over the chosen runs of one workload."""
    settings = pipeline.settings.agreement
    keys = chosen(runs.filter(pl.col("interval_s") > 0), settings.max_runs, settings.random_state)
    return [_Cut(s, anomaly_intervals(pipeline, keys, s)) for s in window_settings(pipeline.settings)] if keys else []


def window_agreement(pipeline: Pipeline) -> pl.DataFrame:
    """Judge some runs of every workload with three lengths of windows, and compare what is flagged.

    Intervals are of windows that any detector flags. Baselines are fitted on the chosen runs, one for each length, so
    that the lengths differ in nothing else.
    """
    rows: list[dict[str, object]] = []
    for _, runs in workloads(pipeline):
        cuts = _cuts(pipeline, runs)
        interval_s = dict(runs.select("run_key", "interval_s").iter_rows())
        for a, b in combinations(cuts, 2):
            for key, host in sorted(a.intervals.keys() & b.intervals.keys()):
                labels = {"setting_a": a.label(interval_s[key]), "setting_b": b.label(interval_s[key])}
                found = asdict(agreement.agreement(a.intervals[key, host], b.intervals[key, host]))
                rows.append({"run_key": key, "host": host, **labels, **found})
    table = pl.DataFrame(rows, schema=WINDOW_AGREEMENT.schema)
    pipeline.lake.write(table, WINDOW_AGREEMENT.name)
    return table


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


def example_timelines(pipeline: Pipeline, table: pl.DataFrame) -> dict[str, list[tuple[float, float]]]:
    """Anomaly intervals of the run in which most were found, by setting, in seconds since its start.

    Parameters
    ----------
    pipeline : Pipeline
        Judges the runs of that workload once more.
    table : polars.DataFrame
        Table `window_agreement`.

    Returns
    -------
    dict
        Empty where nothing was found.
    """
    found = pl.col("intervals_a") + pl.col("intervals_b")
    counted = table.filter(found > 0).sort(found, "run_key", "host", descending=[True, False, False])
    if counted.is_empty():
        return {}
    key, host = str(counted["run_key"][0]), str(counted["host"][0])
    run = pipeline.run_file(key)
    runs = pipeline.accepted().filter(pl.all_horizontal(pl.col(name) == run[name] for name in WORKLOAD))
    start = int(pipeline.lake.read("telemetry", key, ["ts"])["ts"].dt.epoch("us").to_numpy().min())
    return {
        cut.label(float(str(run["interval_s"]))): [
            ((int(a) - start) / 1e6, (int(b) - start) / 1e6) for a, b in cut.intervals.get((key, host), [])
        ]
        for cut in _cuts(pipeline, runs)
    }
