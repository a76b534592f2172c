"""The project's own instance, in a folder of the project: `make demo` fills it, `make dev` shows it."""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(command: str) -> int:
    """Run `demo` or `dev`."""
    os.environ.update(prepare())
    if command == "demo":
        return demo()
    dev()
    return 1


def prepare() -> dict[str, str]:
    """Make the instance's home; returns the environment that leads to it, and to the data."""
    home = ROOT / ".dagster"
    home.mkdir(exist_ok=True)
    shutil.copyfile(ROOT / "dagster.yaml", home / "dagster.yaml")
    return {
        "DAGSTER_HOME": str(home),
        "INFRASCOPE_DATA": os.environ.get("INFRASCOPE_DATA", str(ROOT / "data")),
        "INFRASCOPE_RUNS": os.environ.get("INFRASCOPE_RUNS", str(ROOT / "data" / "sample")),
    }


def demo() -> int:
    """Run the job `refresh` on the instance, and show what it found."""
    print("Materializing the sample runs through Dagster (some 20 s) ...", flush=True)
    import dagster as dg  # noqa: PLC0415 - it reads DAGSTER_HOME

    from infrascope_core.cli.summary import show  # noqa: PLC0415
    from infrascope_core.reports.summary import summarize  # noqa: PLC0415
    from infrascope_dagster.definitions import defs  # noqa: PLC0415
    from infrascope_dagster.resources import from_environment  # noqa: PLC0415

    quiet = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    with dg.DagsterInstance.get() as instance:
        result = defs.resolve_job_def("refresh").execute_in_process(quiet, instance=instance, raise_on_error=False)
    if not result.success:
        return 1
    show(summarize(from_environment().folder()))
    return 0


def dev() -> None:
    """Replace this process by `dagster dev`, on an instance that knows what the data folder holds."""
    import dagster as dg  # noqa: PLC0415 - it reads DAGSTER_HOME

    from infrascope_core.pipeline import GRAPH  # noqa: PLC0415
    from infrascope_dagster.adoption import unrecorded  # noqa: PLC0415
    from infrascope_dagster.partitions import align  # noqa: PLC0415
    from infrascope_dagster.resources import from_environment  # noqa: PLC0415

    folder = from_environment().folder()
    with dg.DagsterInstance.get() as instance:
        align(instance, folder, GRAPH)
        for event in unrecorded(instance, folder, GRAPH):
            instance.report_runless_asset_event(event)
    dagster = str(Path(sys.executable).with_name("dagster"))
    os.chdir(ROOT)
    port = os.environ.get("PORT", "3000")
    os.execv(dagster, [dagster, "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", port])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
