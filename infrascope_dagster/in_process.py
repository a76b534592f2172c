"""The whole graph in this process: what the command line runs, and what a refit runs.

Per-run and pooled assets alternate, and one Dagster run cannot hold both for a chosen set of keys. So the graph
is materialized in stages, each of them one run (or one a batch) of the same assets that the UI shows.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Self

import dagster as dg

from infrascope_core.errors import InfraScopeError
from infrascope_core.fleet_comparisons import are_hosts_compared
from infrascope_core.patterns.mining import is_mined
from infrascope_core.store.product import OnProduct
from infrascope_core.store.folder import Pipeline
from infrascope_core.steps import is_current
from infrascope_dagster import resources
from infrascope_dagster.defs.fleet.assets import FLEET
from infrascope_dagster.defs.fleet.evaluations import EVALUATIONS, host_deviations
from infrascope_dagster.defs.runs.ingest import ingest, source_files
from infrascope_dagster.defs.runs.products import PRODUCTS
from infrascope_dagster.partitions import INGEST_BATCH, PRODUCT_BATCH, RUN_FILES_NAME, range_tags, stretches
from infrascope_dagster.progress import listening

ASSETS = [source_files, ingest, *PRODUCTS, *FLEET, host_deviations, *EVALUATIONS]

_INTERRUPTIONS = {"DagsterExecutionInterruptedError", "KeyboardInterrupt"}
_CLASS_NAME = re.compile(r"^[\w.]+\.\w+: ")
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def bring_up_to_date(
    pipeline: Pipeline, refit: bool, on_product: OnProduct, instance: dg.DagsterInstance | None = None
) -> None:
    """Materialize whatever is new, changed or was made from something that changed.

    Parameters
    ----------
    pipeline : Pipeline
        The data folder and the sources.
    refit : bool
        Fit catalogue, thresholds and baselines anew from all runs.
    on_product : callable
        Told (table, done, total).
    instance : dagster.DagsterInstance, optional
        Where the runs are recorded; by default nowhere.

    Raises
    ------
    InfraScopeError
        The arguments cannot be used, or a step failed for another reason than a bad run file.
    KeyboardInterrupt
        The run was interrupted; what was made until then stays.
    """
    pipeline.check()
    with dg.DagsterInstance.ephemeral() if instance is None else nullcontext(instance) as recorder:
        stages = _Stages(pipeline, recorder, on_product)
        pipeline.remember_settings()
        offers = pipeline.offers()
        new = [key for key, offered in offers.items() if not pipeline.is_ingested(key, offered)]
        stages.per_run(["run_files", "telemetry", "faults"], new, INGEST_BATCH, tolerate=True)
        lost = [key for key in new if not pipeline.is_ingested(key, offers[key])]
        if lost:
            raise InfraScopeError(f"{len(lost)} run files could neither be read nor rejected, the first is {lost[0]}")
        stages.fleet(["rejected_files"])
        keys = pipeline.accepted()["run_key"].to_list()
        stages.products(["quality_metrics"], keys)
        stages.fleet(["metric_catalog"], refit)
        stages.fleet(["pruning_curve"], refit)
        stages.products(["curated_metrics", "group_windows", "window_features"], keys)
        stages.fleet(["thresholds"], refit)
        stages.fleet(["baselines"], refit)
        stages.products(["baskets"], keys)
        stages.products(["anomaly_scores", "anomaly_reasons"], keys)
        if not is_mined(pipeline):
            stages.fleet(["frequent_itemsets", "association_rules"])
        if not are_hosts_compared(pipeline):
            stages.fleet(["host_deviations"])
        # last, because they quote mined rules and other hosts
        stages.products(["anomaly_episodes", "anomaly_report"], keys)


class _Stages:
    """Runs parts of the graph on one instance, one after another."""

    def __init__(self, pipeline: Pipeline, instance: dg.DagsterInstance, on_product: OnProduct) -> None:
        self.pipeline = pipeline
        self.instance = instance
        self.on_product = on_product

    def products(self, tables: Sequence[str], keys: Iterable[str]) -> None:
        """Make the products of those keys for which any of them is not current."""
        stale = [key for key in keys if not self._current(tables, key)]
        self.per_run(tables, stale, PRODUCT_BATCH)

    def _current(self, tables: Sequence[str], key: str) -> bool:
        return all(is_current(self.pipeline, table, key) for table in tables)

    def per_run(self, tables: Sequence[str], keys: Sequence[str], batch: int, tolerate: bool = False) -> None:
        """Materialize per-run assets; with `tolerate`, keys may fail (they are rejected files)."""
        known = set(self.instance.get_dynamic_partitions(RUN_FILES_NAME))
        self.instance.add_dynamic_partitions(RUN_FILES_NAME, [key for key in keys if key not in known])
        before = 0

        def of_all(table: str, done: int, _: int) -> None:
            self.on_product(table, before + done, len(keys))

        for part in stretches(self.instance, set(keys), batch):
            with listening(of_all):
                self._run(tables, range_tags(part), {}, tolerate)
            before += len(part)

    def fleet(self, tables: Sequence[str], refit: bool = False) -> None:
        """Materialize pooled assets."""
        config = {table: {"config": {"refit": True}} for table in tables} if refit else {}
        with listening(self.on_product):
            self._run(tables, {}, {"ops": config}, tolerate=False)

    def _run(self, tables: Sequence[str], tags: dict[str, str], config: dict[str, object], tolerate: bool) -> None:
        result = dg.materialize(
            ASSETS,
            selection=list(tables),
            resources={"infrascope": resources.of(self.pipeline)},
            instance=self.instance,
            tags=tags,
            run_config=_QUIET | config,
            raise_on_error=False,
        )
        if result.success:
            return
        failure = _Failure.first(result.all_events)
        if failure.interrupted:
            raise KeyboardInterrupt
        if not tolerate:
            raise InfraScopeError(f"{failure.step} failed: {failure.reason}")


@dataclass(frozen=True)
class _Failure:
    """Why a run failed: its first failed step, in one line without class names."""

    step: str
    reason: str
    interrupted: bool

    @classmethod
    def first(cls, events: Iterable[dg.DagsterEvent]) -> Self:
        for event in events:
            if event.is_step_failure:
                error = event.step_failure_data.error
                chain = [error]
                while chain[-1] is not None:
                    chain.append(chain[-1].cause)
                errors = [link for link in chain if link is not None]
                said = errors[-1].message.strip().splitlines()[0] if errors else "no reason given"
                interrupted = any(link.cls_name in _INTERRUPTIONS for link in errors)
                return cls(str(event.step_key), _CLASS_NAME.sub("", said), interrupted)
        return cls("the run", "it ended before its first step", False)
