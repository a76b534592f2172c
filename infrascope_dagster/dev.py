"""The project's own instance, in a folder of the project: `make demo` fills it, `make dev` shows it."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from infrascope_core.errors import InfraScopeError
from infrascope_core.store.folder import is_remote
from infrascope_dagster.links import ADDRESS, PROJECT


def main(command: str) -> int:
    """Run `demo` or `dev`."""
    os.environ.update(prepare())
    try:
        return demo() if command == "demo" else dev()
    except InfraScopeError as error:
        print(f"infrascope: {error}", file=sys.stderr)
        return 2


def prepare() -> dict[str, str]:
    """Make the instance's home; returns the environment that leads to it, to the data and to the pages."""
    home = PROJECT / ".dagster"
    home.mkdir(exist_ok=True)
    shutil.copyfile(PROJECT / "dagster.yaml", home / "dagster.yaml")
    return {
        "DAGSTER_HOME": str(home),
        "INFRASCOPE_DATA": _absolute("INFRASCOPE_DATA", PROJECT / "data"),
        "INFRASCOPE_RUNS": _absolute("INFRASCOPE_RUNS", PROJECT / "data" / "sample"),
        ADDRESS: os.environ.get(ADDRESS, f"http://127.0.0.1:{_port() + 1}"),
    }


def _absolute(variable: str, default: Path) -> str:
    """The sources that a variable names, or the default, with absolute paths; servers are started elsewhere."""
    from infrascope_dagster.resources import sources_of  # noqa: PLC0415 - Dagster reads DAGSTER_HOME

    sources = sources_of(os.environ.get(variable, str(default)))
    return os.pathsep.join(source if is_remote(Path(source)) else str(Path(source).absolute()) for source in sources)


def _port() -> int:
    """Where the UI listens; the pages listen beside it."""
    return int(os.environ.get("PORT", "3000"))


def demo() -> int:
    """Run the job `refresh` on the instance, and show what it found."""
    print("Materializing the sample runs through Dagster (some 20 s) ...", flush=True)
    import dagster as dg  # noqa: PLC0415 - it reads DAGSTER_HOME

    from infrascope_core.cli.summary import show  # noqa: PLC0415
    from infrascope_core.pages.products import index_file  # noqa: PLC0415
    from infrascope_core.reports.summary import summarize  # noqa: PLC0415
    from infrascope_dagster.definitions import defs  # noqa: PLC0415
    from infrascope_dagster.resources import from_environment  # noqa: PLC0415

    quiet = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
    with dg.DagsterInstance.get() as instance:
        result = defs.resolve_job_def("refresh").execute_in_process(quiet, instance=instance, raise_on_error=False)
    if not result.success:
        return 1
    folder = from_environment().folder()
    show(summarize(folder), index_file(folder))
    return 0


def dev() -> int:
    """Run `dagster dev`, and the pages beside it, on an instance that knows what the data folder holds."""
    import dagster as dg  # noqa: PLC0415 - it reads DAGSTER_HOME

    from infrascope_core.pipeline import GRAPH  # noqa: PLC0415
    from infrascope_dagster import pages  # noqa: PLC0415
    from infrascope_dagster.adoption import unrecorded  # noqa: PLC0415
    from infrascope_dagster.partitions import align  # noqa: PLC0415
    from infrascope_dagster.resources import from_environment  # noqa: PLC0415

    folder = from_environment().folder()
    with dg.DagsterInstance.get() as instance:
        try:
            align(instance, folder, GRAPH)
            for event in unrecorded(instance, folder, GRAPH):
                instance.report_runless_asset_event(event)
        except InfraScopeError as error:  # a source is missing; it may come back, and the sensor looks for it
            print(f"infrascope: {error}", file=sys.stderr)
    dagster = str(Path(sys.executable).with_name("dagster"))
    command = [dagster, "dev", "-w", str(PROJECT / "workspace.yaml"), "-h", "127.0.0.1", "-p", str(_port())]
    quiet = {"PYTHONWARNINGS": "ignore:Function `dev_command` is superseded"}  # by a command of another package
    with ExitStack() as stack:
        try:
            stack.enter_context(pages.serving(folder.root, _port() + 1))
        except OSError as error:
            print(f"infrascope: no pages on port {_port() + 1}, links are shown as paths: {error}", file=sys.stderr)
            os.environ.pop(ADDRESS, None)
        # where another dagster.yaml lies than that of DAGSTER_HOME, Dagster warns
        server = subprocess.Popen(command, cwd=os.environ["DAGSTER_HOME"], env=os.environ | quiet)
        # Ctrl-C reaches both processes, and the server is given the time to end what it started
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
        return server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
