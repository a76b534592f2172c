"""A real `dagster dev` on 127.0.0.1, with the project's own instance settings, and what is asked of it over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from infrascope_dagster.partitions import PARTITIONS

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes
    ----------
    place : Path
        Holds `home`, `runs`, `data` and `dev.log`.
    port : int
        Where it listens, on 127.0.0.1.
    process : subprocess.Popen
        `dagster dev`; its code server, daemon and runs are of its process group.
    """

    place: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def instance(self) -> dg.DagsterInstance:
        """The server's instance, from outside."""
        return dg.DagsterInstance.from_config(str(self.place / "home"))

    def kill(self) -> None:
        """Kill the server, the daemon and all runs, as a loss of power would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Answer of a GraphQL query."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            content: dict[str, Any] = json.load(answer)
        assert "errors" not in content, content
        found: dict[str, Any] = content["data"]
        return found

    def add_partitions(self, keys: Sequence[str]) -> None:
        """Register run keys, as those of files and as those of runs."""
        for partitions in PARTITIONS.values():
            for key in keys:
                self.ask(_ADD, location="infrascope", partitions=partitions.name, key=key)

    def backfill(self, assets: Sequence[str], keys: Sequence[str]) -> str:
        """Launch a backfill as the UI does; returns its id."""
        parameters = {"assetSelection": [{"path": [name]} for name in assets], "partitionNames": list(keys)}
        return str(self.ask(_LAUNCH, parameters=parameters)["launchPartitionBackfill"]["backfillId"])

    def launch(self, job: str) -> str:
        """Launch a job as the UI does; returns the run's id."""
        selector = {**_REPOSITORY, "jobName": job}
        found = self.ask(_RUN, parameters={"selector": selector, "runConfigData": "{}", "mode": "default"})
        return str(found["launchPipelineExecution"]["run"]["runId"])

    def dry_run(self, schedule: str) -> dict[str, Any]:
        """What a schedule would ask for now."""
        found = self.ask(_DRY_RUN, selector={**_REPOSITORY, "scheduleName": schedule}, timestamp=time.time())
        result: dict[str, Any] = found["scheduleDryRun"]["evaluationResult"]
        return result

    def unsynced(self) -> set[tuple[str, str | None]]:
        """Assets, and keys of their partitions, that the UI marks as unsynced."""
        found = set()
        for node in self.ask("{ assetNodes { assetKey { path } partitionKeys } }")["assetNodes"]:
            path, keys = node["assetKey"]["path"], node["partitionKeys"] or [None]
            for key in keys:
                status = self.ask(_STALE, asset={"path": path}, key=key)["assetNodeOrError"]["staleStatus"]
                found |= {(path[0], key)} if status == "STALE" else set()
        return found

    def status(self, backfill: str) -> tuple[str, int]:
        """Status of a backfill, and how many runs it has started."""
        found = self.ask(_STATUS, backfill=backfill)["partitionBackfillOrError"]
        return str(found["status"]), len(found["runs"])


_ADD = """mutation($location: String!, $partitions: String!, $key: String!) {
  addDynamicPartition(
    repositorySelector: {repositoryLocationName: $location, repositoryName: "__repository__"},
    partitionsDefName: $partitions, partitionKey: $key) { __typename } }"""
_REPOSITORY = {"repositoryLocationName": "infrascope", "repositoryName": "__repository__"}
_RUN = """mutation($parameters: ExecutionParams!) {
  launchPipelineExecution(executionParams: $parameters) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
_DRY_RUN = """mutation($selector: ScheduleSelector!, $timestamp: Float!) {
  scheduleDryRun(selectorData: $selector, timestamp: $timestamp) {
    __typename ... on DryRunInstigationTick {
      evaluationResult { runRequests { jobName tags { key value } } skipReason error { message } } }
    ... on PythonError { message } } }"""
_STALE = """query($asset: AssetKeyInput!, $key: String) {
  assetNodeOrError(assetKey: $asset) { ... on AssetNode { staleStatus(partition: $key) } } }"""
_LAUNCH = """mutation($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
_STATUS = """query($backfill: String!) {
  partitionBackfillOrError(backfillId: $backfill) {
    __typename ... on PartitionBackfill { status runs(limit: 1000) { id status } } } }"""


@contextmanager
def serving(
    place: Path,
    module: str = "infrascope_dagster.definitions",
    runs: Path | None = None,
    settings: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run `dagster dev` while the context lasts.

    Parameters
    ----------
    place : Path
        An empty folder, or that of a server that ran before.
    module : str
        The code location.
    runs : Path, optional
        Where run files lie; by default `place/runs`.
    settings : str, optional
        Another `dagster.yaml` than the project's.
    environment : mapping of str to str, optional
        Further variables.
    """
    home = place / "home"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text(settings or (ROOT / "dagster.yaml").read_text())
    (place / "runs").mkdir(exist_ok=True)
    workspace = place / "workspace.yaml"
    location = f"{{module_name: {module}, working_directory: {ROOT}, location_name: infrascope}}"
    workspace.write_text(f"load_from:\n  - python_module: {location}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {
        **os.environ,
        **(environment or {}),
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "INFRASCOPE_DATA": str(place / "data"),
        "INFRASCOPE_RUNS": str(runs or place / "runs"),
    }
    dagster = str(Path(sys.executable).with_name("dagster"))
    with (place / "dev.log").open("a") as log:
        process = subprocess.Popen(
            [dagster, "dev", "-w", str(workspace), "-h", "127.0.0.1", "-p", str(port)],
            cwd=ROOT, env=variables, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            server = Server(place, port, process)
            wait_for(lambda: _answers(server), 120)
            yield server
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _answers(server: Server) -> bool:
    """Whether the server is up and has loaded the code location."""
    try:
        return bool(server.ask("{ assetNodes { id } }")["assetNodes"])
    except OSError:
        return False


def wait_for(what: Callable[[], object], seconds: float) -> None:
    """Wait until something is true.

    Raises
    ------
    AssertionError
        It was not in time.
    """
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.5)
