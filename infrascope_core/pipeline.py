"""The pipeline over a data folder: which product is made from which, and by which function of the core.

What belongs here: reading inputs from the lake, calling one function, writing its product. The science is in
the functions; scheduling is Dagster's. A product carries the fingerprint of its inputs, its settings and its
code version, so `is_current` tells without computing whether it has to be made again.

Fitted products (catalogue, thresholds, baselines) keep what they hold: a call adds what is missing (a
platform, a group, a workload) and changes nothing else, unless it is told to refit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path

import polars as pl

from infrascope_core import attribution, baselines, curation, discretization, quality
from infrascope_core.baselines import Baseline
from infrascope_core.errors import InfraScopeError, NotFittedError
from infrascope_core.features import WINDOW, window_features
from infrascope_core.ingestion import Ingested, forget_absent, ingest, offer, reject_unknown_names
from infrascope_core.lake import Lake, fingerprint
from infrascope_core.patterns.itemsets import basket_count, frequent_itemsets
from infrascope_core.patterns.rules import association_rules
from infrascope_core.recipes import Recipe, load_recipe
from infrascope_core.run_file.columns import subsystem
from infrascope_core.run_file.name import is_run_name
from infrascope_core.run_file.sources import find_run_files
from infrascope_core.settings import Settings
from infrascope_core.tables import (
    ANOMALY_REASONS,
    ANOMALY_SCORES,
    ASSOCIATION_RULES,
    BASELINES,
    BASKETS,
    FREQUENT_ITEMSETS,
    METRIC_CATALOG,
    REJECTED_FILES,
    RUN_FILES,
    TABLES,
    THRESHOLDS,
)
from infrascope_core.telemetry import KEY_COLUMNS
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
    """

    code_version: str
    inputs: tuple[str, ...]
    knows: Callable[[Pipeline, str], str]
    make: Callable[[Pipeline, str], pl.DataFrame]


@dataclass(frozen=True)
class Pipeline:
    """A data folder, the settings to fill it by, and where new run files lie.

    Attributes
    ----------
    data : Path
        Holds `lake/`, `models/` and `warehouse.duckdb`.
    sources : tuple of Path
        Files and folders in which run files are looked for.
    """

    data: Path
    settings: Settings = field(default_factory=Settings)
    sources: tuple[Path, ...] = ()

    @cached_property
    def lake(self) -> Lake:
        """The Parquet files."""
        return Lake(self.data / "lake")

    @cached_property
    def recipe(self) -> Recipe:
        """The metric groups."""
        return load_recipe(self.settings.recipe)

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.data / "warehouse.duckdb"

    def check(self) -> None:
        """Look at what the caller gave before anything is made.

        Raises
        ------
        InfraScopeError
            The recipe cannot be used, or a source does not exist.
        """
        _ = self.recipe
        for source in self.sources:
            if not source.exists():
                raise InfraScopeError(f"{source}: no such file or folder")

    # -- what arrives

    def find(self) -> dict[str, list[Path]]:
        """Run files below the sources by run key, those with unknown names included."""
        return find_run_files(self.sources)

    def offers(self) -> dict[str, str]:
        """Fingerprint by run key of the files below the sources, less those with unknown names."""
        return {key: offer(paths, self.settings.reader) for key, paths in self.find().items() if is_run_name(paths[0])}

    def is_ingested(self, key: str, offered: str) -> bool:
        """Whether the run key was ingested, or rejected, from just these files."""
        return self.lake.made_from("run_files", key) == offered

    def ingest(self, key: str, paths: Sequence[Path]) -> Ingested:
        """Read a run file into the lake; a bad one is rejected, not raised."""
        return ingest(key, paths, self.lake, self.settings.reader)

    def review_rejections(self) -> pl.DataFrame:
        """Reject files with unknown names, forget files that are gone; returns `rejected_files`."""
        reject_unknown_names((path for paths in self.find().values() for path in paths), self.lake)
        return forget_absent(self.lake)

    def rejected_files(self) -> pl.DataFrame:
        """The table `rejected_files` as it stands."""
        files = self.lake.files("rejected_files", self.lake.keys("rejected_files"))
        return pl.read_parquet(files, glob=False).sort("path") if files else REJECTED_FILES.empty()

    def run_file(self, key: str) -> dict[str, object]:
        """The row of `run_files` of an accepted run.

        Raises
        ------
        InfraScopeError
            The run is unknown or was rejected.
        """
        row = self.lake.read("run_files", key)
        if row.is_empty() or row["status"][0] != "accepted":
            raise InfraScopeError(f"{key}: no accepted run file of that name")
        return row.row(0, named=True)

    def platform(self, key: str) -> str:
        """Platform of an accepted run."""
        return str(self.run_file(key)["platform"])

    def accepted(self) -> pl.DataFrame:
        """Rows of `run_files` that were accepted, by run key."""
        files = self.lake.files("run_files", self.lake.keys("run_files"))
        if not files:
            return RUN_FILES.empty()
        return pl.read_parquet(files, glob=False).filter(pl.col("status") == "accepted").sort("run_key")

    # -- per-run products

    def made_from(self, table: str, key: str) -> str:
        """Fingerprint that a current product would bear."""
        step = STEPS[table]
        inputs = [self.lake.made_from(name, key) or "" for name in step.inputs]
        return fingerprint(table, step.code_version, *inputs, step.knows(self, key))

    def is_current(self, table: str, key: str) -> bool:
        """Whether the product exists and was made from what is there now."""
        return self.lake.made_from(table, key) == self.made_from(table, key)

    def make(self, table: str, key: str) -> pl.DataFrame:
        """Make a per-run product, put it into the lake, and return it."""
        made_from = self.made_from(table, key)
        product = STEPS[table].make(self, key)
        self.lake.write(product, table, key, made_from)
        return product

    def files(self, table: str, keys: Sequence[str]) -> list[Path]:
        """Files of a per-run table."""
        return self.lake.files(table, keys)

    # -- fitted products

    def fit_metric_catalog(self, refit: bool = False) -> pl.DataFrame:
        """Judge the metrics of platforms that were not judged yet; of all, on a refit."""
        known = self._fitted(METRIC_CATALOG.name, refit)
        runs = self.accepted().join(known, on="platform", how="anti")
        files = self.files("quality_metrics", runs["run_key"].to_list())
        fresh = quality.metric_catalog(files, runs, self.recipe)
        return self._keep_fitted(METRIC_CATALOG.name, pl.concat([known, fresh]).sort("platform", "metric"))

    def fit_thresholds(self, refit: bool = False) -> pl.DataFrame:
        """Fit levels for groups of platforms that have none yet; for all, on a refit."""
        known = self._fitted(THRESHOLDS.name, refit)
        parts = [known]
        for (platform,), runs in sorted(self.accepted().partition_by("platform", as_dict=True).items()):
            keys = runs["run_key"].to_list()
            curated, windows = self.files("curated_metrics", keys), self.files("group_windows", keys)
            has = set(known.filter(pl.col("platform") == platform)["metric_group"])
            lacking = self._groups(windows) - has
            parts.append(discretization.fit_thresholds(curated, windows, runs, self.recipe, lacking))
        return self._keep_fitted(THRESHOLDS.name, discretization.with_version(pl.concat(parts)))

    def _groups(self, window_files: Sequence[Path]) -> set[str]:
        scans = [pl.scan_parquet(file, glob=False).select("metric_group").unique() for file in window_files]
        return set(pl.concat(scans).collect()["metric_group"]) if scans else set()

    def fit_baselines(self, refit: bool = False) -> pl.DataFrame:
        """Fit baselines of workloads that have none yet; of all, on a refit."""
        known = self._fitted(BASELINES.name, refit)
        workload = ["platform", "phase", "workload"]
        rows = [known]
        unknown = self.accepted().join(known, on=workload, how="anti").partition_by(workload, as_dict=True)
        for (platform, phase, name), runs in sorted(unknown.items()):
            row = self._fit_baseline(str(platform), str(phase), str(name), runs["run_key"].to_list())
            rows += [row] if row is not None else []
        return self._keep_fitted(BASELINES.name, pl.concat(rows).sort(workload))

    def _fit_baseline(self, platform: str, phase: str, workload: str, keys: list[str]) -> pl.DataFrame | None:
        files = self.files("window_features", keys)
        if not files:
            return None
        # first choose the windows, then read the features of those alone: memory does not grow with the runs
        index = pl.concat(pl.scan_parquet(f, glob=False).select(WINDOW).unique() for f in files)
        chosen = baselines.sample_windows(index.collect(), self.settings.detectors)
        features = pl.concat(
            pl.scan_parquet(f, glob=False).join(chosen.lazy(), on=WINDOW, how="semi") for f in files
        ).collect()
        fitted = baselines.fit_baseline(features, platform, phase, workload, self.settings.detectors)
        if fitted is None:
            return None
        file = Path("models", f"{platform}_{phase}_{workload}.npz")
        fitted.save(self.data / file)
        _load.cache_clear()
        row = {
            "platform": platform,
            "phase": phase,
            "workload": workload,
            "windows": fitted.identity.windows,
            "runs": fitted.identity.runs,
            "metrics": fitted.metrics,
            "fitted_at": datetime.now(UTC).replace(tzinfo=None),
            "version": fitted.identity.version,
            "file": str(file),
        }
        return pl.DataFrame([row], schema=BASELINES.schema)

    def _fitted(self, table: str, refit: bool) -> pl.DataFrame:
        """What is fitted already and rests on today's choices; nothing on a refit."""
        fitted = self.lake.read(table)
        if refit or fitted.is_empty():
            return TABLES[table].empty()
        then = json.loads(self.lake.made_from(table) or "{}")
        platforms = [p for p in fitted["platform"].unique() if then.get(p) == self._fitted_under(table, p)]
        return fitted.filter(pl.col("platform").is_in(platforms))

    def _keep_fitted(self, table: str, fitted: pl.DataFrame) -> pl.DataFrame:
        under = {p: self._fitted_under(table, p) for p in sorted(fitted["platform"].unique())}
        self.lake.write(fitted, table, made_from=json.dumps(under))
        return fitted

    def _fitted_under(self, table: str, platform: str) -> str:
        """Fingerprint of what a fitted product rests on, for a platform: another recipe, other settings or,
        for what follows the catalogue, another catalogue start anew.
        """
        settings, recipe = self.settings, self.recipe.model_dump_json()
        if table == METRIC_CATALOG.name:
            return fingerprint(table, recipe)
        catalog = self.lake.read(METRIC_CATALOG.name)
        excluded = "\n".join(sorted(curation.excluded_metrics(catalog, platform)))
        if table == THRESHOLDS.name:
            return fingerprint(table, recipe, excluded, settings.windows.digest())
        return fingerprint(
            table, baselines.CODE_VERSION, excluded, settings.features.digest(), settings.detectors.digest()
        )

    def fitted_rows(self, table: str, key: str) -> pl.DataFrame:
        """Rows of a fitted product that concern a run: those of its platform, and of its workload.

        Raises
        ------
        NotFittedError
            The product was never fitted.
        """
        if not self.lake.has(table):
            raise NotFittedError(f"{table} is not fitted yet; materialize it before the products of {key}")
        run = self.run_file(key)
        fitted = self.lake.read(table)
        concerns = [name for name in ("platform", "phase", "workload") if name in fitted.columns]
        return fitted.filter(pl.all_horizontal(pl.col(name) == run[name] for name in concerns))

    def baseline(self, key: str) -> Baseline | None:
        """The baseline that judges a run, or None where its workload has none."""
        row = self.fitted_rows(BASELINES.name, key)
        return None if row.is_empty() else _load(self.data / str(row["file"][0]), str(row["version"][0]))

    # -- pooled products

    def is_mined(self) -> bool:
        """Whether itemsets and rules were mined from just the baskets that are there now."""
        mined_from = self._mined_from()
        return all(self.lake.made_from(t.name) == mined_from for t in (FREQUENT_ITEMSETS, ASSOCIATION_RULES))

    def _mined_from(self) -> str:
        """Fingerprint of all baskets of accepted runs."""
        keys = self.accepted()["run_key"].to_list()
        return fingerprint(self.settings.mining.digest(), *(self.lake.made_from("baskets", k) or "" for k in keys))

    def mine_itemsets(self) -> pl.DataFrame:
        """Mine every scope: platforms, their phases, their workloads. Degenerate groups are left out."""
        runs = self.accepted()
        thresholds = self.lake.read(THRESHOLDS.name)
        telling = thresholds.filter(~pl.col("degenerate")).select("platform", "metric_group")
        parts = [FREQUENT_ITEMSETS.empty()]
        for scope, keys in scopes(runs).items():
            groups = telling.filter(pl.col("platform") == scope.split("/")[0])["metric_group"]
            baskets = self._baskets(keys).filter(pl.col("metric_group").is_in(groups.to_list()))
            parts.append(frequent_itemsets(baskets, scope, self.settings.mining))
        itemsets = pl.concat(parts)
        self.lake.write(itemsets, FREQUENT_ITEMSETS.name, made_from=self._mined_from())
        return itemsets

    def mine_rules(self) -> pl.DataFrame:
        """Draw the rules of every scope from its itemsets."""
        itemsets = self.lake.read(FREQUENT_ITEMSETS.name)
        parts = [ASSOCIATION_RULES.empty()]
        for scope, keys in scopes(self.accepted()).items():
            own = itemsets.filter(pl.col("scope") == scope)
            if own.height:
                total = basket_count(self._baskets(keys))
                parts.append(association_rules(own, total, self.settings.mining, self.recipe.subsystem_of))
        rules = pl.concat(parts)
        self.lake.write(rules, ASSOCIATION_RULES.name, made_from=self._mined_from())
        return rules

    def _baskets(self, keys: Sequence[str]) -> pl.DataFrame:
        files = self.files("baskets", keys)
        return pl.read_parquet(files, glob=False) if files else BASKETS.empty()

    def window_length(self, key: str) -> timedelta:
        """Length of a run's feature windows."""
        interval = self.run_file(key)["interval_s"]
        assert interval is None or isinstance(interval, float)
        return timedelta(seconds=self.settings.features.samples * (interval or 0.0))


def scopes(runs: pl.DataFrame) -> dict[str, list[str]]:
    """Run keys by scope: each platform, each of its phases, each of their workloads; from wide to narrow."""
    found: dict[str, list[str]] = {}
    for key, *path in runs.select("run_key", "platform", "phase", "workload").sort("run_key").iter_rows():
        for depth in range(1, len(path) + 1):
            found.setdefault("/".join(path[:depth]), []).append(key)
    return {scope: found[scope] for scope in sorted(found, key=lambda s: (s.count("/"), s))}


@lru_cache(maxsize=8)
def _load(path: Path, version: str) -> Baseline:
    baseline = Baseline.load(path)
    if baseline.identity.version != version:
        raise NotFittedError(f"{path}: holds version {baseline.identity.version}, expected {version}; refit")
    return baseline


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
    recipe, excluded = pipeline.recipe, _excluded(pipeline, key)
    wanted = [
        metric
        for host, metrics in _metrics_by_host(pipeline, key)
        for metric in metrics
        if curation.is_trusted(metric, host, excluded, recipe)
    ]
    telemetry = pipeline.lake.read("telemetry", key, [*KEY_COLUMNS, *dict.fromkeys(wanted)])
    return window_features(telemetry, pipeline.settings.features)


def _group_windows(pipeline: Pipeline, key: str) -> pl.DataFrame:
    curated = [pipeline.lake.path("curated_metrics", key)]
    return group_windows(curated, pipeline.recipe, pipeline.settings.windows)


def _baskets(pipeline: Pipeline, key: str) -> pl.DataFrame:
    windows = [pipeline.lake.path("group_windows", key)]
    thresholds = pipeline.fitted_rows(THRESHOLDS.name, key)
    return discretization.baskets(windows, thresholds, pipeline.platform(key))


def _anomaly_scores(pipeline: Pipeline, key: str) -> pl.DataFrame:
    baseline = pipeline.baseline(key)
    if baseline is None:
        return ANOMALY_SCORES.empty()
    return baselines.score(baseline, pipeline.lake.read("window_features", key))


def _anomaly_reasons(pipeline: Pipeline, key: str) -> pl.DataFrame:
    baseline = pipeline.baseline(key)
    if baseline is None:
        return ANOMALY_REASONS.empty()
    return attribution.reasons(
        baseline,
        pipeline.lake.read("window_features", key),
        pipeline.lake.read("anomaly_scores", key),
        subsystem,
        pipeline.settings.detectors,
    )


def _metrics_by_host(pipeline: Pipeline, key: str) -> list[tuple[str, list[str]]]:
    metrics = [name for name in pipeline.lake.columns("telemetry", key) if name not in KEY_COLUMNS]
    hosts = pipeline.lake.read("telemetry", key, ["host"])["host"].unique().sort()
    return [(str(host), metrics) for host in hosts]


def _excluded(pipeline: Pipeline, key: str) -> frozenset[str]:
    catalog = pipeline.fitted_rows(METRIC_CATALOG.name, key)
    return curation.excluded_metrics(catalog, pipeline.platform(key))


def _knows_catalog(pipeline: Pipeline, key: str) -> str:
    return pipeline.recipe.model_dump_json() + "\n".join(sorted(_excluded(pipeline, key)))


def _knows_baseline(pipeline: Pipeline, key: str) -> str:
    version = "".join(pipeline.fitted_rows(BASELINES.name, key)["version"])
    return version + pipeline.settings.detectors.digest()


STEPS: dict[str, Step] = {
    "quality_metrics": Step("1", ("telemetry",), lambda p, k: "", _quality_metrics),
    "curated_metrics": Step("1", ("telemetry",), _knows_catalog, _curated_metrics),
    "group_windows": Step("1", ("curated_metrics",), lambda p, k: p.settings.windows.digest(), _group_windows),
    "baskets": Step("1", ("group_windows",), lambda p, k: p.fitted_rows(THRESHOLDS.name, k).write_json(), _baskets),
    "window_features": Step(
        "1",
        ("telemetry",),
        lambda p, k: _knows_catalog(p, k) + p.settings.features.digest(),
        _window_features,
    ),
    "anomaly_scores": Step("1", ("window_features",), _knows_baseline, _anomaly_scores),
    "anomaly_reasons": Step("1", ("window_features", "anomaly_scores"), _knows_baseline, _anomaly_reasons),
}
"""The per-run products after telemetry, each after its inputs."""
