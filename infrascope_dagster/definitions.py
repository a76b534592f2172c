"""The code location: `defs` for Dagster, `build_defs` for tests and for other data folders."""

import os

import dagster as dg

from infrascope_core.settings import load_settings
from infrascope_dagster.automation import automation_sensor
from infrascope_dagster.defs.fleet import checks as fleet_checks
from infrascope_dagster.defs.fleet.evaluations import evaluations
from infrascope_dagster.defs.fleet.schedules import fill_missing, new_runs, refit_and_remine
from infrascope_dagster.defs.runs import checks as run_checks
from infrascope_dagster.defs.runs.sensor import run_file_sensor
from infrascope_dagster.in_process import ASSETS
from infrascope_dagster.resources import PipelineResource


def build_defs(infrascope: PipelineResource) -> dg.Definitions:
    """All definitions around one resource."""
    return dg.Definitions(
        assets=ASSETS,
        asset_checks=[*run_checks.CHECKS, *fleet_checks.CHECKS],
        jobs=[new_runs, refit_and_remine, evaluations],
        schedules=[fill_missing],
        sensors=[run_file_sensor, automation_sensor],
        resources={"infrascope": infrascope},
        # steps of one run share a data folder and two cores: no process per step
        executor=dg.in_process_executor,
    )


def _from_environment() -> PipelineResource:
    """INFRASCOPE_DATA, INFRASCOPE_RUNS (folders, separated as in PATH) and INFRASCOPE_SETTINGS (a YAML file)."""
    settings = load_settings(os.environ.get("INFRASCOPE_SETTINGS"))
    return PipelineResource(
        data=os.environ.get("INFRASCOPE_DATA", "data"),
        sources=os.environ.get("INFRASCOPE_RUNS", "data/sample").split(os.pathsep),
        settings=settings.model_dump_json(),
    )


defs = build_defs(_from_environment())
