"""What a person reads: the episodes of a run, and the report on it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from infrascope_core.anomalies.baseline import ANY, Identity
from infrascope_core.anomalies.reference_runs import baseline_of, baseline_version, windows_of_past
from infrascope_core.anomalies.run_features import window_length, window_stride
from infrascope_core.anomalies.tables import ANOMALY_REASONS, ANOMALY_SCORES, BASELINES, LEVEL_OFFSETS, WINDOW_FEATURES
from infrascope_core.contract import WORKLOAD_KEY
from infrascope_core.hosts.tables import HOST_DEVIATIONS
from infrascope_core.patterns.scopes import rules_of
from infrascope_core.patterns.tables import ASSOCIATION_RULES
from infrascope_core.quality.tables import QUALITY_METRICS
from infrascope_core.reports.anomaly_patterns import JUDGED, anomaly_patterns, counted
from infrascope_core.reports.episodes import build_episodes
from infrascope_core.reports.evidence import OF_FEATURES, ComparedWith, Evidence
from infrascope_core.reports.rendering import as_json, as_markdown, as_row
from infrascope_core.reports.tables import ANOMALY_EPISODES, ANOMALY_PATTERNS, ANOMALY_REPORT
from infrascope_core.reports.verdict import run_report
from infrascope_core.run_files.runs import accepted, run_file
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.store.atomic import write_text
from infrascope_core.store.folder import DataFolder
from infrascope_core.store.product import Part, Product, Scope, Tick
from infrascope_core.symbols.tables import BASKETS

_STAGE = "reports"


def _anomaly_episodes(folder: DataFolder, key: str) -> pl.DataFrame:
    return build_episodes(
        folder.lake.read(ANOMALY_SCORES, key),
        folder.lake.read(ANOMALY_REASONS, key),
        folder.lake.read(BASKETS, key),
        rules_of(folder, key),
        window_length=window_length(folder, key),
        stride=window_stride(folder, key),
        settings=folder.settings.episodes,
    )


def _anomaly_report(folder: DataFolder, key: str) -> pl.DataFrame:
    lake = folder.lake
    scores = lake.read(ANOMALY_SCORES, key)
    report = run_report(
        Evidence(
            run_file(folder, key),
            lake.read(QUALITY_METRICS, key),
            lake.read(WINDOW_FEATURES, key, OF_FEATURES),
            scores,
            lake.read(ANOMALY_REASONS, key),
            lake.read(ANOMALY_EPISODES, key),
            lake.read(LEVEL_OFFSETS, key),
            _own_deviations(folder, key),
        ),
        _compared_with(folder, key, scores),
        window_samples=folder.settings.features.samples,
        least_windows=folder.settings.detectors.min_windows,
        pattern_window_s=folder.settings.windows.seconds,
        settings=folder.settings.reports,
    )
    markdown, as_data = report_files(folder, key)
    write_text(markdown, as_markdown(report))
    write_text(as_data, as_json(report))
    return as_row(report, *(str(file.relative_to(folder.root)) for file in (markdown, as_data)))


def report_files(folder: DataFolder, key: str) -> tuple[Path, Path]:
    """Where the report on a run lies, as markdown and as JSON."""
    name = folder.lake.path(ANOMALY_REPORT, key).stem
    return folder.root / "reports" / f"{name}.md", folder.root / "reports" / f"{name}.json"


def _compared_with(folder: DataFolder, key: str, scores: pl.DataFrame) -> ComparedWith | None:
    if folder.settings.detectors.compare_with == "past":
        return _own_past(folder, key, scores)
    baseline = baseline_of(folder, key)
    if baseline is None:
        return None
    of, runs = baseline.identity, baseline.references.runs
    hosts = [folder.lake.read_cached(RUN_FILES, run)["host"] for run in runs]
    return ComparedWith(
        f"{of.windows} windows of {of}",
        own=of.workload != ANY,
        alone=runs == (key,),
        hosts=frozenset(host for part in hosts for host in part),
    )


def _own_past(folder: DataFolder, key: str, scores: pl.DataFrame) -> ComparedWith | None:
    """What the scores of a run were compared with, where it is the run's own first windows."""
    version = scores["baseline_version"].drop_nulls().first()
    if version is None:
        return None
    run, windows = run_file(folder, key), windows_of_past(folder, key)
    platform, phase, workload = (str(run[name]) for name in WORKLOAD_KEY)
    of = Identity(platform, phase, workload, "past", windows, 1, str(version))
    return ComparedWith(
        f"{windows} windows of {of}", own=True, alone=True, past=True, hosts=frozenset([str(run["host"])])
    )


def _own_deviations(folder: DataFolder, key: str) -> pl.DataFrame:
    return _deviating(folder).get((key,), HOST_DEVIATIONS.empty())


def _deviating(folder: DataFolder) -> dict[tuple[object, ...], pl.DataFrame]:
    """Rows of the hosts that deviate, by run key."""
    return folder.once(
        ("deviating hosts", folder.lake.version(HOST_DEVIATIONS)),
        lambda: folder.lake.read_cached(HOST_DEVIATIONS).filter("deviates").partition_by("run_key", as_dict=True),
    )


def _scope_of_rules(folder: DataFolder, key: str) -> str:
    """The scope whose rules an episode quotes.

    Rules are mined again whenever runs arrive: an episode quotes them as they were when it was made, and is stale only
    if there were none then, or none as narrow.
    """
    return ",".join(rules_of(folder, key)["scope"].head(1))


def _quoted_deviations(folder: DataFolder, key: str) -> str:
    rows = _deviating(folder).get((key,))
    return "" if rows is None else rows.sort("host", "metric").write_json()


def _anomaly_patterns(folder: DataFolder, known: pl.DataFrame, tick: Tick) -> pl.DataFrame:
    runs, parts, judged = accepted(folder).sort("run_key"), [], []
    for done, (key, *path) in enumerate(runs.select("run_key", *WORKLOAD_KEY).iter_rows(), start=1):
        scores, stride_s = folder.lake.read(ANOMALY_SCORES, key), window_stride(folder, key).total_seconds()
        parts.append(counted(scores, folder.lake.read(ANOMALY_REASONS, key), (path[0], path[1], path[2]), stride_s))
        judged.append((*path, key, (scores.height - scores["anomalous"].null_count()) * stride_s))
        tick(done, runs.height)
    return anomaly_patterns(parts, pl.DataFrame(judged, schema=JUDGED, orient="row"))


PRODUCTS = (
    Product(
        _STAGE,
        (ANOMALY_EPISODES,),
        Scope.PER_RUN,
        _anomaly_episodes,
        inputs=(ANOMALY_SCORES, ANOMALY_REASONS, BASKETS),
        quotes=(ASSOCIATION_RULES,),
        settings=("episodes", "features"),
        depends_on=_scope_of_rules,
        copied=True,
        decisions=(19,),
    ),
    Product(
        _STAGE,
        (ANOMALY_REPORT,),
        Scope.PER_RUN,
        _anomaly_report,
        inputs=(
            QUALITY_METRICS,
            WINDOW_FEATURES,
            ANOMALY_SCORES,
            ANOMALY_REASONS,
            ANOMALY_EPISODES,
            LEVEL_OFFSETS,
            Part(BASELINES, baseline_version),
        ),
        quotes=(HOST_DEVIATIONS,),
        settings=("reports", "features", "detectors", "windows"),
        depends_on=_quoted_deviations,
        files=report_files,
        copied=True,
        libraries=("markdown", "json"),
        decisions=(19,),
    ),
    Product(
        _STAGE,
        (ANOMALY_PATTERNS,),
        Scope.GATHERED,
        _anomaly_patterns,
        inputs=(ANOMALY_SCORES, ANOMALY_REASONS),
        settings=("features",),
        decisions=(19,),
    ),
)
