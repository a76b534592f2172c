"""The per-run products of a data folder: what each is made from, and by which function of the core.

What belongs here: reading inputs from the lake, calling one function, writing its product. A product carries the
fingerprint of its inputs, its settings and its code version, so `is_current` tells without computing whether it
has to be made again (docs/adr/0005).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from infrascope_core import attribution, baselines, curation, discretization, quality, reanalysis
from infrascope_core.baselines import ANY, Baseline
from infrascope_core.episodes import build_episodes
from infrascope_core.errors import InfraScopeError
from infrascope_core.features import window_features
from infrascope_core.lake import fingerprint
from infrascope_core.mining import rules_of
from infrascope_core.models import baseline_of, baseline_row, fitted_rows
from infrascope_core.pipeline import Pipeline
from infrascope_core.report import PRESENCE, ComparedWith, Evidence, as_json, as_markdown, as_row, run_report
from infrascope_core.run_file.columns import subsystem
from infrascope_core.tables import (
    ANOMALY_REASONS,
    ANOMALY_SCORES,
    HOST_DEVIATIONS,
    METRIC_CATALOG,
    THRESHOLDS,
    WINDOW_FEATURES,
)
from infrascope_core.telemetry import KEY_COLUMNS, metric_names, split_hosts
from infrascope_core.windows import group_windows


@dataclass(frozen=True)
class Step:
    """How a per-run product is made.

    Attributes
    ----------
    code_version : str
        Raise it when the same inputs would give other rows.
    inputs : tuple of str
        Per-run tables that it reads.
    knows : callable
        What else it depends on: settings and fitted products, as text.
    make : callable
        Reads its inputs and returns the product.
    files : callable
        What it leaves beside the lake; a product of which somebody deleted a file is made again.
    """

    code_version: str
    inputs: tuple[str, ...]
    knows: Callable[[Pipeline, str], str]
    make: Callable[[Pipeline, str], pl.DataFrame]
    files: Callable[[Pipeline, str], tuple[Path, ...]] = lambda p, k: ()


def made_from(pipeline: Pipeline, table: str, key: str) -> str:
    """Fingerprint that a current product would bear."""
    step = STEPS[table]
    inputs = [pipeline.lake.made_from(name, key) or "" for name in step.inputs]
    return fingerprint(table, step.code_version, *inputs, step.knows(pipeline, key))


def is_current(pipeline: Pipeline, table: str, key: str) -> bool:
    """Whether the product exists and was made from what is there now."""
    kept = all(file.is_file() for file in STEPS[table].files(pipeline, key))
    return kept and pipeline.lake.made_from(table, key) == made_from(pipeline, table, key)


def make(pipeline: Pipeline, table: str, key: str) -> pl.DataFrame:
    """Make a per-run product, put it into the lake, and return it."""
    fingerprint_now = made_from(pipeline, table, key)
    product = STEPS[table].make(pipeline, key)
    pipeline.lake.write(product, table, key, fingerprint_now)
    return product


def _quality_metrics(pipeline: Pipeline, key: str) -> pl.DataFrame:
    return quality.quality_metrics(pipeline.lake.read("telemetry", key))


def _curated_metrics(pipeline: Pipeline, key: str) -> pl.DataFrame:
    recipe, excluded = pipeline.recipe, _excluded(pipeline, key)
    wanted = [
        metric
        for host, metrics in _metrics_by_host(pipeline, key)
        for group in recipe.groups
        for metric in curation.members(group, metrics, host, recipe, excluded)
    ]
    telemetry = pipeline.lake.read("telemetry", key, [*KEY_COLUMNS, *dict.fromkeys(wanted)])
    return curation.curated_metrics(telemetry, recipe, excluded)


def _window_features(pipeline: Pipeline, key: str) -> pl.DataFrame:
    plan, settings = _feature_plan(pipeline, key), pipeline.settings.features
    parts = [window_features(pl.DataFrame(), settings)]
    for host, metrics in sorted(_metrics_by_host(pipeline, key)):
        derivable = reanalysis.derivations(metrics)
        watched = plan.of_host([*metrics, *(d.metric for d in derivable)], host)
        telemetry = pipeline.lake.read("telemetry", key, [*KEY_COLUMNS, *reanalysis.needed(metrics, watched)])
        reanalysed = reanalysis.reanalyse(
            telemetry.filter(pl.col("host") == host),
            reanalysis.Plan(plan.rates, plan.names),
            [d for d in derivable if d.metric in watched],
        )
        classes = {metric: name for metric, name in watched.items() if name is not None}
        parts.append(window_features(reanalysed, settings, list(watched), classes))
    return pl.concat(parts)


def _group_windows(pipeline: Pipeline, key: str) -> pl.DataFrame:
    curated = [pipeline.lake.path("curated_metrics", key)]
    return group_windows(curated, pipeline.recipe, pipeline.settings.windows)


def _baskets(pipeline: Pipeline, key: str) -> pl.DataFrame:
    windows = [pipeline.lake.path("group_windows", key)]
    thresholds = fitted_rows(pipeline, THRESHOLDS.name, key)
    return discretization.baskets(windows, thresholds, pipeline.platform(key))


def _anomaly_scores(pipeline: Pipeline, key: str) -> pl.DataFrame:
    baseline = baseline_of(pipeline, key)
    if baseline is None:
        return ANOMALY_SCORES.empty()
    return baselines.score(baseline, pipeline.lake.read("window_features", key))


def _anomaly_reasons(pipeline: Pipeline, key: str) -> pl.DataFrame:
    baseline = baseline_of(pipeline, key)
    if baseline is None:
        return ANOMALY_REASONS.empty()
    return attribution.reasons(
        baseline,
        pipeline.lake.read("window_features", key),
        pipeline.lake.read("anomaly_scores", key),
        subsystem,
        pipeline.settings.detectors,
    )


def _anomaly_episodes(pipeline: Pipeline, key: str) -> pl.DataFrame:
    return build_episodes(
        pipeline.lake.read("anomaly_scores", key),
        pipeline.lake.read("anomaly_reasons", key),
        pipeline.lake.read("baskets", key),
        rules_of(pipeline, key),
        window_length=pipeline.window_length(key),
        stride=pipeline.stride(key),
        settings=pipeline.settings.episodes,
    )


def _anomaly_report(pipeline: Pipeline, key: str) -> pl.DataFrame:
    lake, baseline = pipeline.lake, baseline_of(pipeline, key)
    features = WINDOW_FEATURES.empty()
    if lake.has("window_features", key):
        features = lake.read("window_features", key, ["host", "window", "metric", PRESENCE])
    report = run_report(
        Evidence(
            pipeline.run_file(key),
            lake.read("quality_metrics", key),
            features,
            lake.read("anomaly_scores", key),
            lake.read("anomaly_reasons", key),
            lake.read("anomaly_episodes", key),
            _host_deviations(pipeline, key),
        ),
        _compared_with(pipeline, key, baseline),
        subsystem,
        window_samples=pipeline.settings.features.samples,
        settings=pipeline.settings.reports,
    )
    markdown, as_data = report_files(pipeline, key)
    _write_text(markdown, as_markdown(report))
    _write_text(as_data, as_json(report))
    return as_row(report, *(str(file.relative_to(pipeline.data)) for file in (markdown, as_data)))


def report_files(pipeline: Pipeline, key: str) -> tuple[Path, Path]:
    """Where the report on a run lies, as markdown and as JSON."""
    name = pipeline.lake.path("anomaly_report", key).stem
    return pipeline.data / "reports" / f"{name}.md", pipeline.data / "reports" / f"{name}.json"


def _compared_with(pipeline: Pipeline, key: str, baseline: Baseline | None) -> ComparedWith | None:
    if baseline is None:
        return None
    of, runs = baseline.identity, baseline.references.runs
    hosts = [pipeline.lake.read_cached("run_files", run)["host"] for run in runs]
    return ComparedWith(
        f"{of.windows} windows of {of}",
        own=of.workload != ANY,
        alone=runs == (key,),
        hosts=frozenset(host for part in hosts for host in part),
    )


def _host_deviations(pipeline: Pipeline, key: str) -> pl.DataFrame:
    return pipeline.lake.read_cached(HOST_DEVIATIONS.name).filter(pl.col("run_key") == key, pl.col("deviates"))


def _write_text(target: Path, text: str) -> None:
    """Write a text aside and put it in place."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            Path(aside).chmod(0o644)
            Path(aside).replace(target)
        finally:
            Path(aside).unlink(missing_ok=True)
    except OSError as error:
        raise InfraScopeError(f"{target}: cannot be written ({error.strerror or error})") from error


def _metrics_by_host(pipeline: Pipeline, key: str) -> list[tuple[str, list[str]]]:
    hosts = pipeline.lake.read("telemetry", key, ["host"])["host"]
    if hosts.n_unique() > 1:
        parts = split_hosts(pipeline.lake.read("telemetry", key))
        return [(str(part["host"][0]), metric_names(part)) for part in parts]
    metrics = [name for name in pipeline.lake.columns("telemetry", key) if name not in KEY_COLUMNS]
    return [(str(host), metrics) for host in hosts.head(1)]


def _excluded(pipeline: Pipeline, key: str) -> frozenset[str]:
    catalog = fitted_rows(pipeline, METRIC_CATALOG.name, key)
    return curation.excluded_metrics(catalog, pipeline.platform(key))


def _feature_plan(pipeline: Pipeline, key: str) -> curation.FeaturePlan:
    catalog = fitted_rows(pipeline, METRIC_CATALOG.name, key)
    select = pipeline.settings.selection.enabled
    return curation.feature_plan(catalog, pipeline.platform(key), pipeline.recipe.names, select)


def _knows_features(pipeline: Pipeline, key: str) -> str:
    return _feature_plan(pipeline, key).as_text() + reanalysis.CODE_VERSION + pipeline.settings.features.digest()


def _knows_excluded(pipeline: Pipeline, key: str) -> str:
    return pipeline.recipe.names + "\n".join(sorted(_excluded(pipeline, key)))


def _knows_groups(pipeline: Pipeline, key: str) -> str:
    return pipeline.recipe.model_dump_json() + _knows_excluded(pipeline, key)


def _knows_baseline(pipeline: Pipeline, key: str) -> str:
    row = baseline_row(pipeline, key)
    return ("" if row is None else str(row["version"])) + pipeline.settings.detectors.digest()


def _knows_rules(pipeline: Pipeline, key: str) -> str:
    # rules are mined anew with every run that arrives: an episode quotes them as they were when it was made, and is
    # made again only if there were none, or none as narrow; a run without an alarm could break none
    scores = pipeline.lake.read("anomaly_scores", key, ["anomalous"])
    settings = pipeline.settings.episodes
    scope = rules_of(pipeline, key)["scope"].head(1).to_list() if scores["anomalous"].any() else []
    return fingerprint(settings.digest(), *scope)


def _knows_report(pipeline: Pipeline, key: str) -> str:
    settings = pipeline.settings
    compared = _host_deviations(pipeline, key).sort("host", "metric").write_json()
    return fingerprint(settings.reports.digest(), settings.features.digest(), _knows_baseline(pipeline, key), compared)


STEPS: dict[str, Step] = {
    "quality_metrics": Step("2", ("telemetry",), lambda p, k: "", _quality_metrics),
    "curated_metrics": Step("1", ("telemetry",), _knows_groups, _curated_metrics),
    "group_windows": Step("1", ("curated_metrics",), lambda p, k: p.settings.windows.digest(), _group_windows),
    "baskets": Step("1", ("group_windows",), lambda p, k: fitted_rows(p, THRESHOLDS.name, k).write_json(), _baskets),
    "window_features": Step("3", ("telemetry",), _knows_features, _window_features),
    "anomaly_scores": Step("2", ("window_features",), _knows_baseline, _anomaly_scores),
    "anomaly_reasons": Step("2", ("window_features", "anomaly_scores"), _knows_baseline, _anomaly_reasons),
    "anomaly_episodes": Step("1", ("anomaly_scores", "anomaly_reasons", "baskets"), _knows_rules, _anomaly_episodes),
    "anomaly_report": Step(
        "1",
        ("quality_metrics", "window_features", "anomaly_scores", "anomaly_reasons", "anomaly_episodes"),
        _knows_report,
        _anomaly_report,
        report_files,
    ),
}
"""The per-run products after telemetry, each after its inputs."""
