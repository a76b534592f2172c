"""`infrascope import` as a person meets it: every source to run files, and those to reports."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
import yaml
from typer.testing import CliRunner

from infrascope_core import pipeline
from infrascope_core.cli import build_app
from infrascope_core.importers.mapping import load_mapping
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.reports.model import RunReport
from infrascope_core.reports.products import report_files
from infrascope_core.run_files.reader import read_run_file
from infrascope_core.run_files.tables import RUN_FILES
from infrascope_core.run_files.telemetry import metric_names
from infrascope_core.settings import Settings
from infrascope_core.simulate import Job, parse_fault, write_job
from infrascope_core.store.folder import DataFolder
from tests.core.importers.standin import StandIn, serving
from tests.core.importers.test_logs import DISKS, DMON, LONG, MEMINFO, RULES, SMI
from tests.core.importers.test_prometheus import GPU, UP, every

app = build_app()


def infrascope(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def imported(*words: object) -> list[Path]:
    """Run files that a call wrote."""
    result = infrascope("import", *words)
    assert result.exit_code == 0, result.output
    out = Path(str(words[words.index("--out") + 1]))
    return sorted(out.glob("*.tsv"))


# -- one example a source, as docs/importing.md has them


def test_prometheus_by_sacct(tmp_path):
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("JobID|NodeList|Start|End|JobName\n7|h[1-2]|2026-11-20T10:00:00|2026-11-20T11:00:00|bert\n")
    with serving(StandIn([(UP, every(15, 240)), (GPU, every(15, 240))])) as server:
        words = ("prometheus", server.url, "--sacct", jobs, "--task", "TextClassification", "--out", tmp_path / "runs")
        (path,) = imported(*words)
        again = infrascope("import", *words)
    assert path.name == "train_bertforTextClassification_default_2026-11-20T10-00-00_h1.tsv"
    assert again.exit_code == 0 and "1 run file already there and kept" in again.output


def test_openmetrics(tmp_path):
    dump = tmp_path / "dump.om"
    dump.write_text(
        "".join(f'node_load1{{instance="h1:9100"}} {i} {1795168800 + 15 * i}\n' for i in range(5)) + "# EOF\n"
    )
    (path,) = imported("openmetrics", dump, "--model", "BERT", "--task", "Tagging", "--out", tmp_path / "runs")
    assert path.name == "train_BERTforTagging_default_2026-11-20T10-00-00_h1.tsv"
    assert read_run_file(path).interval_s == 15


def test_nvidia_smi_and_dcgmi(tmp_path):
    (tmp_path / "smi.csv").write_text(SMI)
    (tmp_path / "dmon.log").write_text(DMON)
    (path,) = imported("nvidia-smi", tmp_path / "smi.csv", "--host", "gpu01", "--out", tmp_path / "a")
    assert read_run_file(path).platform == "gpu"
    (path,) = imported(
        "dcgm", tmp_path / "dmon.log", "--host", "gpu01", "--start", "2026-11-20T10:00:00", "--interval", 1,
        "--out", tmp_path / "b",
    )  # fmt: skip
    assert read_run_file(path).telemetry["GPU: utilization.gpu.0[%]"].to_list() == [97, 98]


def test_ldms_by_job(tmp_path):
    for name, text in (("meminfo", MEMINFO), ("procdiskstats", DISKS)):
        (tmp_path / name).write_text(text)
    (path,) = imported("ldms", tmp_path / "meminfo", tmp_path / "procdiskstats", "--out", tmp_path / "a")
    assert {"Memory:MemFree[kB]", "Storage:sectors_read.sda[count]"} <= set(read_run_file(path).telemetry.columns)
    (path,) = imported("ldms", tmp_path / "meminfo", "--job-label", "job_id", "--out", tmp_path / "b")
    assert read_run_file(path).telemetry["Memory:MemFree[kB]"].to_list() == [500]


def test_any_table(tmp_path):
    (tmp_path / "power.csv").write_text(LONG)
    shape: dict[str, object] = {
        "layout": "long",
        "time": "when",
        "time_format": "%d.%m.%Y %H:%M",
        "host": "node",
        "name": "what",
    }
    shape |= {"value": "reading", "labels": ["outlet"], "separator": ";"}
    (tmp_path / "power.yaml").write_text(yaml.safe_dump({"table": shape, "rules": RULES}))
    words = ("table", tmp_path / "power.csv", "--mapping", tmp_path / "power.yaml", "--time-zone", "Europe/Berlin")
    (path,) = imported(*words, "--out", tmp_path / "runs")
    assert path.name.endswith("_2026-11-20T09-00-00_n1.tsv")


def test_sar_of_this_machine(tmp_path):
    if shutil.which("sadf") is None or shutil.which("sar") is None:
        pytest.skip("sysstat is not installed")
    subprocess.run(["sar", "-A", "-o", tmp_path / "sa", "1", "2"], check=True, capture_output=True)
    text = subprocess.run(["sadf", "-j", tmp_path / "sa", "--", "-A"], check=True, capture_output=True).stdout
    (tmp_path / "sa.json").write_bytes(text)
    (path,) = imported("sar", tmp_path / "sa.json", "--out", tmp_path / "runs")
    assert read_run_file(path).samples == 2
    folder = DataFolder(tmp_path / "data", Settings(), (tmp_path / "runs",))
    pipeline.refresh(folder)
    treatments = folder.fresh().lake.read(METRIC_CATALOG).filter(pl.col("treatment") == "rate")
    assert treatments.is_empty()  # sysstat writes rates


# -- telemetry as a source


@pytest.fixture
def cluster(tmp_path) -> Iterator[tuple[StandIn, Path]]:
    """A server with an hour of a host, and a source file that names it."""
    (tmp_path / "jobs.txt").write_text(
        "JobID|NodeList|Start|End|JobName\n7|h1|2026-11-20T10:00:00|2026-11-20T11:00:00|bert\n"
    )
    with serving(StandIn([(UP, every(15, 240)), (GPU, every(15, 240))])) as server:
        source = tmp_path / "cluster.yaml"
        source.write_text(f"source: prometheus\nurl: {server.url}\nsacct: jobs.txt\n")
        yield server, source


RUN_KEY = "train_bertforUnknown_default_2026-11-20T10-00-00_h1"


def test_run_takes_telemetry_as_a_source(tmp_path, cluster):
    server, source = cluster
    data = tmp_path / "data"
    result = infrascope("run", source, "--data", data)
    assert result.exit_code == 0, result.output
    assert "1 run accepted, 0 files rejected" in result.output
    assert (data / "reports" / f"{RUN_KEY}.md").is_file()
    asked = len(server.asked)
    again = infrascope("run", source, "--data", data)
    assert again.exit_code == 0 and len(server.asked) == asked, "nothing is asked for twice"
    (tmp_path / "jobs.txt").write_text("nonsense")
    result = infrascope("run", source, "--data", data)
    assert result.exit_code == 1
    assert result.output.strip().splitlines()[-1] == (
        f"infrascope: {source}: {tmp_path}/jobs.txt: the output of sacct has no column JobID; expected that of "
        "sacct -P --format=JobID,NodeList,Start,End,JobName"
    )
    assert infrascope("report", RUN_KEY, "--data", data).exit_code == 0


@pytest.fixture
def on_disk(tmp_path_factory):
    """An instance that schedules can look up by reference."""
    import dagster as dg

    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("instance"))) as instance:
        yield instance


def test_dagster_imports_regularly_and_the_sensor_takes_it_from_there(tmp_path, on_disk, cluster):
    import dagster as dg

    from infrascope_dagster.definitions import build_defs
    from infrascope_dagster.defs.schedules import importing
    from infrascope_dagster.resources import DataFolderResource

    server, source = cluster

    def asked(resource: DataFolderResource) -> dg.RunRequest | dg.SkipReason:
        context = dg.build_schedule_context(
            instance=on_disk, scheduled_execution_time=datetime(2026, 11, 22, 6), resources={"infrascope": resource}
        )
        found = importing(context)
        assert isinstance(found, Iterator)
        only = next(found)
        assert isinstance(only, (dg.RunRequest, dg.SkipReason))
        return only

    resource = DataFolderResource(data=str(tmp_path / "data"), sources=[str(source)])
    definitions = build_defs(resource)
    sensor = definitions.get_repository_def().get_sensor_def("run_file_sensor")

    def arrived() -> set[str]:
        said = sensor(dg.build_sensor_context(on_disk, resources={"infrascope": resource}, definitions=definitions))
        assert isinstance(said, dg.SensorResult)
        return {key for request in said.dynamic_partitions_requests or () for key in request.partition_keys}

    assert arrived() == set(), "nothing is imported yet, and the sensor asks no server"
    assert server.asked == []
    assert isinstance(asked(resource), dg.RunRequest)
    assert definitions.resolve_job_def("import_telemetry").execute_in_process(instance=on_disk).success
    assert arrived() == {RUN_KEY}

    server.misbehave = lambda path, form: (404, b"")
    (tmp_path / "jobs.txt").write_text((tmp_path / "jobs.txt").read_text().replace("T10:00:00", "T10:30:00"))
    failed = definitions.resolve_job_def("import_telemetry").execute_in_process(instance=on_disk, raise_on_error=False)
    assert not failed.success and "answers HTTP 404" in str(failed.failure_data_for_node("import_telemetry_of_sources"))
    assert arrived() == {RUN_KEY}, "what was imported stays"
    plain = DataFolderResource(data=str(tmp_path / "data"), sources=[str(tmp_path)])
    skipped = asked(plain)
    assert isinstance(skipped, dg.SkipReason) and skipped.skip_message == "no source is telemetry"


# -- what goes wrong is one sentence


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prometheus", "localhost:9090", "--start", "2026-11-20"), "expected an address as http://prometheus:9090"),
        (("prometheus", "http://127.0.0.1:9"), "say which times to import: --sacct, or --start and --end"),
        (("prometheus", "http://127.0.0.1:9", "--start", "yesterday"), "expected a time as 2026-11-20T10:00:00"),
        (("prometheus", "http://x", "--start", "2026-11-20", "--header", "bad\nheader: x"), "expected a header as"),
        (("prometheus", "http://x", "--start", "2026-11-20", "--mapping", "nosuch"), "nosuch: no such mapping"),
        (("openmetrics", "nowhere.om"), "nowhere.om: cannot be read (No such file or directory)"),
        (("openmetrics", "FIFO"), "not a regular file"),
        (("nvidia-smi", "SMI"), "nothing says which host 'utilization.gpu' is of; give --host"),
        (("dcgm", "SMI", "--host", "h"), "expected one header with #Entity"),
        (("sar", "SMI"), "cannot be read as the output of sadf -j"),
        (("table", "SMI", "--mapping", "nvidia_smi"), "has no section `table`"),
        (("nvidia-smi", "SMI", "--host", "h", "--task", "lower"), "expected a name like train_"),
        (("nvidia-smi", "SMI", "--host", "h", "--start", "2027-01-01T00:00:00"), "nothing to write into"),
        (("nvidia-smi", "SMI", "--host", "h", "--time-zone", "Mars"), "no such time zone"),
        (("nvidia-smi", "SMI", "--host", "h", "--sacct", "SMI"), "has no column JobID"),
    ],
)
def test_errors_are_one_sentence_and_leave_nothing_behind(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    Path("smi.csv").write_text(SMI)
    os.mkfifo("fifo.om")
    names = {"SMI": "smi.csv", "FIFO": "fifo.om"}
    result = infrascope("import", *(names.get(word, word) for word in words), "--out", "runs")
    assert result.exit_code == 1 and said in result.output
    assert len(result.output.strip().splitlines()) == 1 and "Traceback" not in result.output
    assert not Path("runs").exists()


def test_a_full_folder_is_one_sentence(tmp_path):
    (tmp_path / "smi.csv").write_text(SMI)
    (tmp_path / "runs").write_text("a file where the folder should be")
    result = infrascope("import", "nvidia-smi", tmp_path / "smi.csv", "--host", "h", "--out", tmp_path / "runs")
    assert result.exit_code == 1 and "cannot be written" in result.output


# -- the same verdict


def as_openmetrics(path: Path) -> tuple[list[str], dict]:
    """A run file as OpenMetrics, under the names of the exporters where they have one, and a mapping for the others."""
    run = read_run_file(path)
    host, telemetry = run.name.host, run.telemetry
    stamps = [f"{ms // 1000}.{ms % 1000:03}" for ms in telemetry["ts"].dt.timestamp("ms").to_list()]
    names = exporter_names(telemetry)
    lines = []
    for metric in metric_names(telemetry):
        name, scale = names.get(metric) or (site_name(metric), 1.0)
        values = telemetry[metric].to_list()
        lines += [
            f'{name}instance="{host}:9100"}} {value / scale!r} {stamp}'
            for value, stamp in zip(values, stamps, strict=True)
            if value is not None
        ]
    rules = [{"source": "site_gpu", "column": "GPU: {name}[{unit}]"}, {"source": "site", "column": "{name}[{unit}]"}]
    return lines, {"rules": rules, "host": ["instance"]}


def site_name(metric: str) -> str:
    name, _, unit = metric.removesuffix("]").rpartition("[")
    of_gpu = name.startswith("GPU: ")
    return f'site{"_gpu" * of_gpu}{{name="{name.removeprefix("GPU: ")}",unit="{unit}",'


def exporter_names(telemetry: pl.DataFrame) -> dict[str, tuple[str, float]]:
    """Columns of two GPUs that dcgm-exporter has, by its mapping read backwards."""
    found = {}
    for rule in load_mapping("dcgm_exporter").rules:
        for gpu in ("0", "1") if rule.column else ():
            metric = rule.column[0].replace("{gpu}", gpu)
            if metric in telemetry.columns and rule.source.isidentifier():
                found[metric] = (f'{rule.source}{{gpu="{gpu}",', rule.scale)
    return found


def verdicts(runs: Path, data: Path) -> dict[str, RunReport]:
    folder = DataFolder(data, Settings(), (runs,))
    pipeline.refresh(folder)
    folder = folder.fresh()
    reports = {}
    for row in folder.lake.read_all(RUN_FILES).iter_rows(named=True):
        _, as_data = report_files(folder, row["run_key"])
        reports[row["run_key"]] = RunReport.model_validate_json(as_data.read_text())
    return reports


@pytest.mark.slow
def test_a_simulated_run_that_went_through_openmetrics_gets_the_same_verdict(tmp_path):
    jobs = [
        Job("gpu", "BERTBASE", "TextClassification", minutes=1.5, seed=1),
        Job("gpu", "BERTBASE", "TextClassification", minutes=1.5, seed=2),
        Job(
            "gpu",
            "BERTBASE",
            "TextClassification",
            minutes=1.5,
            seed=3,
            faults=(parse_fault("packet_loss:high@40-60"),),
        ),
    ]
    for job in jobs:
        for path in write_job(job, tmp_path / "runs"):
            lines, mapping = as_openmetrics(path)
            assert sum(line.startswith("DCGM_FI_DEV_") for line in lines) > 10 * job.samples
            (tmp_path / "site.yaml").write_text(yaml.safe_dump(mapping))
            (tmp_path / "dump.om").write_text("\n".join([*lines, "# EOF", ""]))
            naming = ("--model", job.model, "--task", job.task, "--dataset", job.dataset)
            mappings = ("--mapping", "dcgm_exporter", "--mapping", tmp_path / "site.yaml")
            imported("openmetrics", tmp_path / "dump.om", *mappings, *naming, "--out", tmp_path / "imported")
            copy = tmp_path / "imported" / f"{path.stem}.tsv"
            shutil.copy(path.with_name(f"{path.stem}.faults.csv"), copy.with_name(f"{copy.stem}.faults.csv"))
            before, after = read_run_file(path).telemetry, read_run_file(copy).telemetry
            assert after.select(sorted(after.columns)).equals(before.select(sorted(after.columns)))
            # a metric without any value has no samples, and so no column
            assert all(before[name].null_count() == before.height for name in set(before.columns) - set(after.columns))
    plain = verdicts(tmp_path / "runs", tmp_path / "data")
    through = verdicts(tmp_path / "imported", tmp_path / "other")
    assert plain.keys() == through.keys() and len(plain) == 3
    assert {key: report.verdict for key, report in plain.items()} == {
        key: report.verdict for key, report in through.items()
    }
    assert "anomalous" in {report.verdict for report in plain.values()}
    for key, report in plain.items():
        assert [(e.start, e.end, e.metrics) for e in report.episodes] == [
            (e.start, e.end, e.metrics) for e in through[key].episodes
        ]


# -- the real thing

_CONFIG = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ['{node}']}}]
"""


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def running(*command: object) -> Iterator[None]:
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


def wait_until_ready(url: str) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{url} does not answer")


@pytest.mark.slow
def test_a_real_prometheus_that_scraped_this_machine_for_a_minute_ends_in_a_report(tmp_path):
    prometheus, exporter = map(shutil.which, ("prometheus", "prometheus-node-exporter"))
    if prometheus is None or exporter is None:
        pytest.skip("prometheus and prometheus-node-exporter are not installed")
    node, server = free_address(), free_address()
    (tmp_path / "prometheus.yml").write_text(_CONFIG.format(node=node))
    database = ("--config.file", tmp_path / "prometheus.yml", "--storage.tsdb.path", tmp_path / "tsdb")
    with (
        running(exporter, f"--web.listen-address={node}"),
        running(prometheus, *database, f"--web.listen-address={server}"),
    ):
        wait_until_ready(f"http://{server}/-/ready")
        start = datetime.now(UTC).replace(tzinfo=None, microsecond=0) + timedelta(seconds=7)
        time.sleep(68)  # the first scrape may take 5 s
        end = start + timedelta(seconds=60)
        words = ("prometheus", f"http://{server}", "--start", start.isoformat(), "--end", end.isoformat())
        (path,) = imported(
            *words, "--hosts", "127.0.0.1", "--model", "Idle", "--task", "Testing", "--out", tmp_path / "runs"
        )
    run = read_run_file(path)
    assert 58 <= run.samples <= 61 and run.interval_s == pytest.approx(1, abs=0.01)
    ticks = run.telemetry["Procstat:idle[ticks]"]
    cores = os.cpu_count() or 1
    assert (ticks.diff().drop_nulls() >= 0).all() and 0 <= ticks[-1] - ticks[0] <= 110 * 60 * cores
    folder = DataFolder(tmp_path / "data", Settings(), (tmp_path / "runs",))
    pipeline.refresh(folder)
    folder = folder.fresh()
    catalog = folder.lake.read(METRIC_CATALOG)
    times = catalog.filter(pl.col("metric").str.contains(r"^Procstat:.*\[ticks\]$"))
    assert set(times["treatment"]) == {"rate"} and set(times["unit"]) == {"ticks/s"}
    assert catalog.filter(metric="Derived:CPUUtilization[%]").height == 1
    # what the server has on disk is what it answers
    if promtool := shutil.which("promtool"):
        dump = subprocess.run([promtool, "tsdb", "dump", tmp_path / "tsdb"], check=True, capture_output=True).stdout
        (tmp_path / "dump.txt").write_bytes(dump)
        words = ("openmetrics", tmp_path / "dump.txt", "--start", start.isoformat(), "--end", end.isoformat())
        (other,) = imported(*words, "--out", tmp_path / "dumped")
        again = read_run_file(other).telemetry
        assert again.drop("run_key").equals(run.telemetry.drop("run_key"))
    (report,) = verdicts(tmp_path / "runs", tmp_path / "data").values()
    assert report.hosts == ["127.0.0.1"] and report.windows >= 3
