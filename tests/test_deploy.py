"""What is in deploy/: one set of instance settings, said three times."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def snake(value: Any) -> Any:
    """A value of the chart as it stands in dagster.yaml."""
    if isinstance(value, dict):
        return {re.sub(r"(?<=[a-z])[A-Z]", lambda m: f"_{m[0].lower()}", key): snake(v) for key, v in value.items()}
    return value


def test_a_cluster_is_set_up_as_one_machine_is_but_for_where_things_are():
    one, cluster = read(ROOT / "dagster.yaml"), read(DEPLOY / "dagster.yaml")
    assert set(cluster) - set(one) == {"storage", "compute_logs", "run_launcher"}
    assert one["concurrency"].pop("runs") != cluster["concurrency"].pop("runs")
    assert one == {name: cluster[name] for name in one}


def test_the_chart_writes_the_same_settings():
    cluster, values = read(DEPLOY / "dagster.yaml"), read(DEPLOY / "values.yaml")
    assert values["concurrency"].pop("enabled") is True
    assert snake(values["concurrency"]) == cluster["concurrency"]
    assert values["retention"].pop("enabled") is True
    assert snake(values["retention"]) == cluster["retention"]
    assert snake(values["dagsterDaemon"]["runMonitoring"]) == cluster["run_monitoring"]
    assert values["telemetry"] == cluster["telemetry"]
    assert values["additionalInstanceConfig"] == {name: cluster[name] for name in ("nux", "run_retries")}
    assert not values["dagsterDaemon"]["runRetries"]["enabled"]  # it would be there twice
    assert values["postgresql"]["postgresqlScheme"] == "postgresql+psycopg2"


def test_volumes_and_variables_of_compose_and_launcher_agree():
    compose, launcher = read(DEPLOY / "compose.yaml"), read(DEPLOY / "dagster.yaml")["run_launcher"]["config"]
    variables = compose["services"]["code"]["environment"]
    assert set(launcher["env_vars"]) == set(variables) - {"DAGSTER_CURRENT_IMAGE"}
    names = {name: compose["volumes"][name]["name"] for name in compose["volumes"]}
    mounts = [":".join([names[v.split(":")[0]], *v.split(":")[1:]]) for v in compose["services"]["code"]["volumes"]]
    assert launcher["container_kwargs"]["volumes"] == mounts
    assert launcher["network"] == compose["networks"]["infrascope"]["name"]
    assert variables["INFRASCOPE_POSTGRES"].startswith("postgresql+psycopg2://")
    (workspace,) = read(DEPLOY / "workspace.yaml")["load_from"]
    assert workspace["grpc_server"]["host"] in compose["services"]
    assert str(workspace["grpc_server"]["port"]) in compose["services"]["code"]["command"]
