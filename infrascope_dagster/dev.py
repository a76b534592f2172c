"""`make dev`: the Dagster UI and daemon on localhost, with a home inside the project."""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Replace this process by `dagster dev`."""
    home = ROOT / ".dagster"
    home.mkdir(exist_ok=True)
    shutil.copyfile(ROOT / "dagster.yaml", home / "dagster.yaml")
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "INFRASCOPE_DATA": os.environ.get("INFRASCOPE_DATA", str(ROOT / "data")),
        "INFRASCOPE_RUNS": os.environ.get("INFRASCOPE_RUNS", str(ROOT / "data" / "sample")),
    }
    _register(environment)
    dagster = str(Path(sys.executable).with_name("dagster"))
    port = os.environ.get("PORT", "3000")
    os.chdir(ROOT)
    os.execve(dagster, [dagster, "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", port], environment)


def _register(environment: dict[str, str]) -> None:
    """Register the run files at hand, so that the UI shows them before the sensor's first tick."""
    os.environ.update(environment)
    import dagster as dg  # noqa: PLC0415 - it reads DAGSTER_HOME

    from infrascope_dagster.definitions import defs  # noqa: PLC0415
    from infrascope_dagster.partitions import RUN_FILES_NAME  # noqa: PLC0415
    from infrascope_dagster.resources import PipelineResource  # noqa: PLC0415

    infrascope = (defs.resources or {})["infrascope"]
    assert isinstance(infrascope, PipelineResource)
    with dg.DagsterInstance.get() as instance:
        known = set(instance.get_dynamic_partitions(RUN_FILES_NAME))
        new = [key for key in infrascope.pipeline().offers() if key not in known]
        instance.add_dynamic_partitions(RUN_FILES_NAME, new)


if __name__ == "__main__":
    main()
