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

    from infrascope_core.run_files.inbox import Inbox  # noqa: PLC0415
    from infrascope_dagster.partitions import register  # noqa: PLC0415
    from infrascope_dagster.resources import from_environment  # noqa: PLC0415

    with dg.DagsterInstance.get() as instance:
        register(instance, Inbox.of(from_environment().folder()).keys)


if __name__ == "__main__":
    main()
