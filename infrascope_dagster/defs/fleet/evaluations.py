"""Pooled comparisons: hosts of a job, and the paper's own evaluations of its method (Reveal, sections 5.3 to 5.5).

Hosts are compared when runs arrive. The evaluations are heavy and tell nothing that an alarm waits for: they are made
once a week if something changed, or on demand: here in the UI, or by the job `evaluations`.
"""

import dagster as dg
import polars as pl

from infrascope_core import fleet_comparisons
from infrascope_dagster import metadata
from infrascope_dagster.automation import MINE, WEEKLY
from infrascope_dagster.defs.fleet.assets import common, done
from infrascope_dagster.resources import PipelineResource


@dg.asset(deps=["telemetry", "metric_catalog"], kinds={"numpy"}, **common("host_deviations", "anomalies", MINE))
def host_deviations(infrascope: PipelineResource) -> dg.MaterializeResult:
    """Compare the hosts of jobs that are new or changed, and judge all anew."""
    found = fleet_comparisons.compare_hosts(infrascope.pipeline())
    departing = found.filter("deviates")
    worst = departing.sort(
        "ambiguous", "jobs_deviating", pl.col("robust_z").abs(), "host", descending=[False, True, True, False]
    )
    said = done(
        infrascope,
        "host_deviations",
        found,
        jobs=found["job"].n_unique(),
        deviations=departing.height,
        hosts=", ".join(departing["host"].unique().sort()),
        worst=metadata.preview(worst.select("claim", "job")),
    )
    return dg.MaterializeResult(metadata=said)


@dg.asset(deps=["window_features"], kinds={"scikitlearn"}, **common("window_agreement", "evaluation", WEEKLY))
def window_agreement(infrascope: PipelineResource) -> dg.MaterializeResult:
    """Judge some runs of every workload with three lengths of windows."""
    pipeline = infrascope.pipeline()
    table = fleet_comparisons.window_agreement(pipeline)
    said = done(infrascope, "window_agreement", table, table_2=metadata.preview(fleet_comparisons.hit_rates(table)))
    shown = fleet_comparisons.example_timelines(pipeline, table)
    if shown:
        said["picture"] = metadata.picture(metadata.interval_timelines(shown))
    return dg.MaterializeResult(metadata=said)


@dg.asset(deps=["telemetry", "window_features"], kinds={"scipy"}, **common("run_similarity", "evaluation", WEEKLY))
def run_similarity(infrascope: PipelineResource) -> dg.MaterializeResult:
    """Compare the runs of every workload with their median trace."""
    table = fleet_comparisons.run_similarity(infrascope.pipeline())
    tested = table["similar"].drop_nulls()
    said = done(infrascope, "run_similarity", table, pairs=table.height, tested=len(tested))
    if len(tested):
        said["similar"] = float(tested.cast(pl.Float64).sum() / len(tested))
    return dg.MaterializeResult(metadata=said)


@dg.asset(deps=["telemetry", "baselines"], kinds={"numpy"}, **common("detector_latency", "evaluation", WEEKLY))
def detector_latency(infrascope: PipelineResource) -> dg.MaterializeResult:
    """Time features, detectors and reasons on this machine."""
    table = fleet_comparisons.detector_latency(infrascope.pipeline())
    return dg.MaterializeResult(metadata=done(infrascope, "detector_latency", table))


EVALUATIONS = [window_agreement, run_similarity, detector_latency]

evaluations = dg.define_asset_job(
    "evaluations",
    selection=dg.AssetSelection.assets(*EVALUATIONS),
    description="The paper's evaluations on the runs at hand: window lengths, likeness of runs, seconds per window.",
)
