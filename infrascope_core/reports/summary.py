"""What a person wants to know first about a data folder: small frames, ready to be printed or stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl

from infrascope_core.anomalies.run_features import window_stride
from infrascope_core.contract import Table
from infrascope_core.patterns.sentences import identity_sentence
from infrascope_core.patterns.tables import (
    ASSOCIATION_RULES,
    CONTRASTS,
    MINED_SCOPES,
    RUN_IDENTITY,
    SEQUENTIAL_PATTERNS,
)
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.quality.trust import plan_of_platform
from infrascope_core.recipes import recipe_of
from infrascope_core.reports.model import Verdict
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_REPORT
from infrascope_core.run_files.runs import accepted
from infrascope_core.run_files.tables import FAULTS, REJECTED_FILES
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import THRESHOLDS

_EPISODES_PER_RUN = 2
"""Most episodes of one run in the summary, so that one bad run does not hide the others."""
_PARTICULARS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|/\S*[^\s,;:.)]|\d[\d:.,-]*\d|\d")
"""What differs between files that are rejected for the same reason: quoted text, paths, numbers and times."""


@dataclass(frozen=True)
class Summary:
    """The state of a data folder in a few small frames.

    Attributes
    ----------
    runs : pl.DataFrame
        platform, phase, workload, runs, hosts, hours.
    accepted : int
        Runs that could be used.
    verdicts : pl.DataFrame
        verdict, runs, why: runs by verdict, in the order of `Verdict`; of those not judged, the reason of most.
    faults : int
        Known faults, in the labels of runs that were judged.
    missed : int
        Those that no episode meets, of runs that do not differ as a whole either.
    rejected : pl.DataFrame
        The table `rejected_files`.
    rejections : pl.DataFrame
        reason, files, first: the same by reason, the most frequent first, with the path of a file.
    metrics : pl.DataFrame
        platform, use (watched or left out), metrics, why: what the detectors make of the metrics in the catalogue.
    degenerate : pl.DataFrame
        platform, metric_group: groups whose levels carry no information, which are not mined.
    mined : pl.DataFrame
        Rows of `mined_scopes` of whole platforms.
    rules, sequences, contrasts : pl.DataFrame
        Rows of `association_rules`, `sequential_patterns` and `contrasts` of whole platforms that are shown.
    identity : str
        Whether the runs are what their names claim.
    episodes : pl.DataFrame
        The most abnormal episodes, with `fault`: the labels that overlap them, if any.
    warehouse : Path
        Where to look further.
    """

    runs: pl.DataFrame
    accepted: int
    verdicts: pl.DataFrame
    faults: int
    missed: int
    rejected: pl.DataFrame
    rejections: pl.DataFrame
    metrics: pl.DataFrame
    degenerate: pl.DataFrame
    mined: pl.DataFrame
    rules: pl.DataFrame
    sequences: pl.DataFrame
    contrasts: pl.DataFrame
    identity: str
    episodes: pl.DataFrame
    warehouse: Path

    @property
    def judged(self) -> int:
        """Runs that could be judged."""
        return int(self.verdicts.filter(pl.col("verdict") != "not_judged")["runs"].sum())


def summarize(folder: DataFolder, episodes: int = 8) -> Summary:
    """Summarize what the lake holds now.

    Parameters
    ----------
    folder : DataFolder
        The data folder.
    episodes : int
        Most rows of them.
    """
    runs = accepted(folder)
    lake = folder.lake
    reports = pl.concat([ANOMALY_REPORT.empty(), *(lake.read(ANOMALY_REPORT, key) for key in runs["run_key"])])
    faults, missed = known_faults(folder, reports)
    thresholds, rejected = lake.read(THRESHOLDS), lake.read(REJECTED_FILES)
    return Summary(
        runs=runs.group_by("platform", "phase", "workload")
        .agg(
            runs=pl.len(),
            hosts=pl.col("host").n_unique(),
            hours=pl.col("seconds").sum() / 3600,
        )
        .sort("platform", "phase", "workload"),
        accepted=runs.height,
        verdicts=by_verdict(reports),
        faults=faults,
        missed=missed,
        rejected=rejected,
        rejections=by_reason(rejected),
        metrics=use_of_metrics(folder),
        degenerate=thresholds.filter("degenerate").select("platform", "metric_group"),
        mined=lake.read(MINED_SCOPES).filter(~pl.col("scope").str.contains("/")),
        rules=_shown(folder, ASSOCIATION_RULES),
        sequences=_shown(folder, SEQUENTIAL_PATTERNS),
        contrasts=_shown(folder, CONTRASTS),
        identity=identity_sentence(lake.read(RUN_IDENTITY), recipe_of(folder), folder.settings.identity),
        episodes=worst_episodes(folder, runs["run_key"].to_list(), episodes),
        warehouse=folder.warehouse,
    )


def _shown(folder: DataFolder, table: Table) -> pl.DataFrame:
    """The patterns of whole platforms that are shown, by platform and rank."""
    found = folder.lake.read(table)
    return found.filter(pl.col("shown").is_not_null(), ~pl.col("scope").str.contains("/")).sort("scope", "shown")


def by_verdict(reports: pl.DataFrame) -> pl.DataFrame:
    """Number of runs by verdict: verdict, runs, why (of runs that could not be judged, the most frequent reason)."""
    most = pl.col("why").mode().sort().first()
    reasons = pl.col("why").n_unique()
    told = pl.when(reasons > 1).then(pl.format("{} (the most frequent of {} reasons)", most, reasons)).otherwise(most)
    counted = reports.group_by("verdict").agg(runs=pl.len(), why=told)
    order = {name: place for place, name in enumerate(get_args(Verdict))}
    return counted.sort(pl.col("verdict").replace_strict(order, default=len(order))).with_columns(
        why=pl.when(pl.col("verdict") == "not_judged").then("why")
    )


def known_faults(folder: DataFolder, reports: pl.DataFrame) -> tuple[int, int]:
    """How many known faults the judged runs have, and how many of them were missed.

    A fault is found if an episode shares a stride of its time, or if the run is said to differ as a whole.
    """
    known = missed = 0
    for key, differs in reports.filter(pl.col("verdict") != "not_judged").select("run_key", "differs").iter_rows():
        faults = folder.lake.read(FAULTS, key)
        known += faults.height
        if not differs and faults.height:
            stride = window_stride(folder, key)
            times = folder.lake.read(ANOMALY_EPISODES, key).select("start_ts", "end_ts").iter_rows()
            met = [_met(faults, start, end, stride).to_numpy() for start, end in times]
            missed += faults.height - int(np.any(met, axis=0).sum() if met else 0)
    return known, missed


def by_reason(rejected: pl.DataFrame) -> pl.DataFrame:
    """Rejected files by the reason without what is particular to a file.

    Parameters
    ----------
    rejected : polars.DataFrame
        Table `rejected_files`.

    Returns
    -------
    polars.DataFrame
        reason, files, first: particulars that differ within a group are written as an ellipsis; `first` is the first
        path of the group. The largest group comes first.
    """
    groups: dict[tuple[str, ...], list[tuple[str, list[str]]]] = {}
    for path, reason in rejected.sort("path").select("path", "reason").iter_rows():
        kept = tuple(_PARTICULARS.split(reason))
        groups.setdefault(kept, []).append((path, _PARTICULARS.findall(reason)))
    rows = [(_common(kept, [own for _, own in files]), len(files), files[0][0]) for kept, files in groups.items()]
    schema = {"reason": pl.String, "files": pl.Int64, "first": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("files", "reason", descending=[True, False])


def _common(kept: Sequence[str], particulars: Sequence[Sequence[str]]) -> str:
    """A reason with those of its particulars that all files share."""
    shared = [each[0] if len(set(each)) == 1 else "\N{HORIZONTAL ELLIPSIS}" for each in zip(*particulars, strict=True)]
    return "".join(part for pair in zip_longest(kept, shared, fillvalue="") for part in pair)


def use_of_metrics(folder: DataFolder) -> pl.DataFrame:
    """How many metrics of the catalogue the detectors watch, and why the others are left out.

    Returns
    -------
    polars.DataFrame
        platform, use, metrics, why: the watched first, then by number.
    """
    catalog = folder.lake.read(METRIC_CATALOG)
    parts = [
        rows.with_columns(watched=pl.col("metric").is_in(list(plan_of_platform(folder, str(platform)).classes)))
        for (platform,), rows in catalog.partition_by("platform", as_dict=True).items()
    ]
    if not parts:
        return pl.DataFrame(schema={"platform": pl.String, "use": pl.String, "metrics": pl.UInt32, "why": pl.String})
    return (
        pl.concat(parts)
        .with_columns(use=pl.when("watched").then(pl.lit("watched")).otherwise(pl.lit("left out")), why=_WHY)
        .group_by("platform", "use", "why")
        .agg(metrics=pl.len())
        .sort("platform", "use", "metrics", "why", descending=[False, True, True, False])
        .select("platform", "use", "metrics", "why")
    )


_WHY = (
    pl.when((pl.col("status") == "near_constant") & ~pl.col("watched"))
    .then(pl.lit("nearly constant"))
    .when((pl.col("status") == "near_constant") & (pl.col("treatment") == "rate"))
    .then(pl.lit("nearly constant counter, watched by its rate"))
    .when(pl.col("status") == "near_constant")
    .then(pl.lit("constant so far, watched for a change"))
    .when((pl.col("status") == "always_zero") & pl.col("watched"))
    .then(pl.lit("0 so far, watched for a change"))
    .when((pl.col("status") == "redundant") & pl.col("watched"))
    .then(pl.lit("redundant, but metric selection is off"))
    .otherwise(pl.col("status").str.replace_all("_", " "))
)
"""Why a metric of the catalogue, with `watched`, is used as it is."""


def worst_episodes(folder: DataFolder, keys: list[str], limit: int) -> pl.DataFrame:
    """The most abnormal episodes of the given runs, with the labelled faults that share a stride of their time.

    Returns
    -------
    pl.DataFrame
        Table `anomaly_episodes` and `fault`; by falling total surprisal, then severity.
    """
    parts = []
    for key in keys:
        found = _worst_first(folder.lake.read(ANOMALY_EPISODES, key)).head(_EPISODES_PER_RUN)
        parts.append(_with_faults(found, folder.lake.read(FAULTS, key), window_stride(folder, key)))
    if not parts:
        return pl.DataFrame(schema={**ANOMALY_EPISODES.schema, "fault": pl.String})
    return _worst_first(pl.concat(parts)).head(limit)


def _worst_first(episodes: pl.DataFrame) -> pl.DataFrame:
    order = ["total_surprisal", "severity", "run_key", "host", "first_window"]
    return episodes.sort(order, descending=[True, True, False, False, False], nulls_last=True)


def _with_faults(found: pl.DataFrame, faults: pl.DataFrame, least: timedelta) -> pl.DataFrame:
    names = []
    for start, end in found.select("start_ts", "end_ts").iter_rows():
        names.append(", ".join(faults.filter(_met(faults, start, end, least))["fault"]))
    return found.with_columns(fault=pl.Series(names, dtype=pl.String))


def _met(faults: pl.DataFrame, start: datetime, end: datetime, least: timedelta) -> pl.Series:
    """Which faults share that much of the time, or all of their own."""
    shared = pl.min_horizontal("end", pl.lit(end)) - pl.max_horizontal("start", pl.lit(start))
    known = pl.min_horizontal(pl.lit(least), pl.col("end") - pl.col("start"))
    return faults.select(met=shared >= known)["met"]
