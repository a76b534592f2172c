"""Mappings: which series is which column, and that names that ship are those of the real exporters."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import urllib.request
from importlib import resources

import pytest

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.mapping import (
    JobLabel,
    Mapping,
    job_of,
    lacking,
    load_mapping,
    source_patterns,
    targets,
    unmapped,
)
from infrascope_core.importers.samples import Series
from infrascope_core.recipes import load_recipe
from infrascope_core.run_files.columns import family, is_gpu_metric, subsystem

SHIPPED = sorted(
    file.name.removesuffix(".yaml") for file in (resources.files("infrascope_core.importers") / "mappings").iterdir()
)
DCGM_FIELDS = """
SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE TOTAL_ENERGY_CONSUMPTION PCIE_TX_THROUGHPUT PCIE_RX_THROUGHPUT
PCIE_REPLAY_COUNTER GPU_UTIL MEM_COPY_UTIL ENC_UTIL DEC_UTIL XID_ERRORS POWER_VIOLATION THERMAL_VIOLATION
SYNC_BOOST_VIOLATION BOARD_LIMIT_VIOLATION LOW_UTIL_VIOLATION RELIABILITY_VIOLATION FB_FREE FB_USED FB_RESERVED
ECC_SBE_VOL_TOTAL ECC_DBE_VOL_TOTAL ECC_SBE_AGG_TOTAL ECC_DBE_AGG_TOTAL RETIRED_SBE RETIRED_DBE RETIRED_PENDING
NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL NVLINK_CRC_DATA_ERROR_COUNT_TOTAL NVLINK_REPLAY_ERROR_COUNT_TOTAL
NVLINK_RECOVERY_ERROR_COUNT_TOTAL NVLINK_BANDWIDTH_TOTAL VGPU_LICENSE_STATUS UNCORRECTABLE_REMAPPED_ROWS
CORRECTABLE_REMAPPED_ROWS ROW_REMAP_FAILURE
""".split()
"""DCGM_FI_DEV_... of dcgm-exporter's etc/default-counters.csv and etc/dcp-metrics-included.csv."""
DCGM_PROFILING = """
GR_ENGINE_ACTIVE SM_ACTIVE SM_OCCUPANCY PIPE_TENSOR_ACTIVE DRAM_ACTIVE PIPE_FP64_ACTIVE PIPE_FP32_ACTIVE
PIPE_FP16_ACTIVE PCIE_TX_BYTES PCIE_RX_BYTES
""".split()
GPU = {"gpu": "3", "UUID": "GPU-5fd4f087", "device": "nvidia3", "Hostname": "gpu01", "instance": "10.0.0.7:9400"}


def columns(mapping: Mapping, name: str, **labels: str) -> list[tuple[str, str | None, float]]:
    found = targets([Series.of(name, labels)], [mapping])
    return [(target.metric, target.rule.type, target.rule.scale) for target in found]


@pytest.mark.parametrize("name", SHIPPED)
def test_mappings_that_ship_are_valid_and_say_what_they_were_checked_against(name):
    mapping = load_mapping(name)
    assert len(mapping.about) > 40
    for rule in mapping.rules:
        # RE2 knows neither looking around nor references back; Prometheus matches names by it
        assert not re.search(r"\(\?[=!<]|\\\d", rule.source.replace("(?P<", "")), rule.source


def test_a_series_follows_the_first_rule_that_fits_and_labels_fill_the_column():
    mapping = load_mapping("node_exporter")
    assert columns(mapping, "node_cpu_seconds_total", cpu="3", mode="iowait") == [
        ("Procstat:iowait[ticks]", "counter", 100),
        ("Procstat:iowait.3[ticks]", "counter", 100),
    ]
    assert columns(mapping, "node_memory_MemAvailable_bytes") == [("Memory:MemAvailable[kB]", "gauge", 1 / 1024)]
    assert columns(mapping, "node_memory_Active_anon_bytes") == [("Memory:Active(anon)[kB]", "gauge", 1 / 1024)]
    assert columns(mapping, "node_memory_HugePages_Free") == [("Memory:HugePages_Free[count]", "gauge", 1)]
    assert columns(mapping, "node_disk_read_bytes_total", device="nvme0n1") == [
        ("Storage:sectors_read.nvme0n1[count]", "counter", 1 / 512)
    ]
    assert columns(mapping, "node_disk_read_bytes_total", device="dm-0") == []
    assert columns(mapping, "node_network_receive_bytes_total", device="vethc0ffee") == []
    assert columns(mapping, "node_netstat_Tcp_CurrEstab") == [("NetworkSnmp:TcpCurrEstab[count]", "gauge", 1)]
    assert columns(mapping, "node_netstat_Tcp_RetransSegs") == [
        ("NetworkTCPRetrans:TcpRetransSegs[count]", "counter", 1)
    ]


def test_devices_are_instances_of_one_family():
    mapping = load_mapping("node_exporter")
    ((metric, _, _),) = columns(mapping, "node_infiniband_port_data_received_bytes_total", device="mlx5_0", port="1")
    assert family(metric) == "NetworkRDMA:port_received_bytes.#.#[Bytes]"
    ((metric, _, _),) = columns(load_mapping("dcgm_exporter"), "DCGM_FI_DEV_GPU_UTIL", **GPU)
    assert family(metric) == "GPU: utilization.gpu.#[%]"


def test_a_series_that_lacks_a_label_of_its_column_becomes_none():
    assert columns(load_mapping("dcgm_exporter"), "DCGM_FI_DEV_GPU_UTIL", UUID="x") == []


@pytest.mark.parametrize("field", [*(f"DEV_{f}" for f in DCGM_FIELDS), *(f"PROF_{f}" for f in DCGM_PROFILING)])
def test_every_default_field_of_dcgm_exporter_is_a_column_of_the_gpu(field):
    ((metric, _, _),) = columns(load_mapping("dcgm_exporter"), f"DCGM_FI_{field}", **GPU)
    assert is_gpu_metric(metric) and ".3[" in metric


def test_types_are_those_of_the_quantity_not_of_the_exporter():
    """cgroup_exporter calls CPU seconds a gauge, and dcgm-exporter calls NVML's kB/s a counter."""
    job = {"cgroup": "/system.slice/slurmstepd.scope/job_223478"}
    assert columns(load_mapping("cgroup_exporter"), "cgroup_cpu_total_seconds", **job)[0][1] == "counter"
    dcgm = load_mapping("dcgm_exporter")
    assert columns(dcgm, "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", **GPU)[0][1] == "gauge"
    assert columns(dcgm, "DCGM_FI_DEV_XID_ERRORS", **GPU)[0][1] == "state"


def test_a_series_about_one_job_is_left_out_of_the_runs_of_others():
    mapping = load_mapping("cgroup_exporter")
    own = Series.of("cgroup_memory_rss_bytes", {"cgroup": "/slurm/uid_1000/job_7"})
    other = Series.of("cgroup_memory_rss_bytes", {"cgroup": "/slurm/uid_1000/job_8"})
    task = Series.of("cgroup_memory_rss_bytes", {"cgroup": "/slurm/uid_1000/job_7/step_batch/user/task_0"})
    assert [t.series for t in targets([own, other, task], [mapping], "7")] == [0]
    assert [t.series for t in targets([own, other, task], [mapping])] == [0, 1]


def test_jobs_are_found_in_labels():
    label = JobLabel(label="cgroup", pattern=r"/job_(\d+)$")
    assert job_of(Series.of("x", {"cgroup": "/slurm/uid_1/job_12"}), label) == "12"
    assert job_of(Series.of("x", {"cgroup": "/system.slice"}), label) is None
    assert job_of(Series.of("x", {}), JobLabel(label="hpc_job")) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nb\tc", "a_b_c"),
        ("x\"y'z", "x_y_z"),
        ("/mnt/my data", "/mnt/my_data"),
        ("a[b]{c}", "a_b__c_"),
        ("größe\u202e", "gr__e_"),
        ("x" * 500, "x" * 64),
    ],
)
def test_hostile_label_values_make_clean_names(value, shown):
    mapping = Mapping.model_validate({"rules": [{"source": "a", "column": "S:m.{l}[count]"}]})
    assert columns(mapping, "a", l=value)[0][0] == f"S:m.{shown}[count]"


def test_names_for_a_query_need_no_named_groups():
    pattern = "|".join(source_patterns([load_mapping("node_exporter"), load_mapping("dcgm_exporter")]))
    assert "?P<" not in pattern
    assert re.fullmatch(pattern, "node_memory_MemFree_bytes") and not re.fullmatch(pattern, "up")


def test_what_no_rule_fits_is_listed():
    series = [Series.of("node_load1", {}), Series.of("zoo", {}), Series.of("apple", {}), Series.of("zoo", {"a": "b"})]
    assert unmapped(series, [load_mapping("node_exporter")]) == ["apple", "zoo"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: []", "rules: expected a non-empty list"),
        ("rules: [{source: '('}]", "is not a valid regular expression"),
        ("rules: [{source: a, column: 'no unit'}]", "as Source:metric.instance[unit], found 'no unit'"),
        ("rules: [{source: a, column: \"x\\ty[z]\"}]", "expected a column as Source:metric.instance[unit]"),
        ("rules: [{source: a, type: histogram}]", "expected one of counter, gauge, state"),
        ("rules: [{source: a, scale: 0}]", "rules.0.scale: expected a number above 0, found 0"),
        ("rules: [{source: a, colum: 'S:x[-]'}]", "unknown; did you mean column?"),
        ("table: {layout: long, time: t}\nrules: [{source: a}]", "table: a long table has a column"),
        ("rules: [{source: a, where: {cpu: 3}}]", "rules.0.where.cpu: expected a string, found 3"),
        ("[", "cannot be read as YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_mapping_is_said_in_one_sentence(tmp_path, text, said):
    path = tmp_path / "site.yaml"
    path.write_text(text)
    with pytest.raises(ImportSourceError) as error:
        load_mapping(str(path))
    assert said in str(error.value) and "\n" not in str(error.value) and str(error.value).startswith(str(path))


def test_what_is_no_yaml_is_said_with_its_line(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text("rules:\n  - {source: a, column: S:x[-], type: gauge}\n")
    with pytest.raises(
        ImportSourceError, match=r"cannot be read as YAML \(line 2: expected ',' or '}', but got '\['\)"
    ):
        load_mapping(str(path))


def test_series_that_lack_a_label_of_their_column_are_said_once_a_rule():
    text = {"rules": [{"source": "power", "column": ["P:all.{rack}[W]", "P:one.{outlte}[W]"]}, {"source": "energy"}]}
    site = Mapping.model_validate(text)
    series = [Series.of("power", {"outlet": outlet}) for outlet in "ab"]
    assert lacking([*series, Series.of("energy", {}), Series.of("zoo", {})], [site]) == [
        "power lacks the label rack that its column names, and was left out"
    ]
    assert lacking([Series.of("power", {"rack": "1"})], [site]) == []


def test_an_unknown_mapping_names_those_that_there_are():
    with pytest.raises(ImportSourceError, match=r"dcgm: no such mapping; expected cgroup_exporter, .* or a YAML file"):
        load_mapping("dcgm")


# -- the exporter itself


@pytest.fixture(scope="module")
def exposed() -> list[Series]:
    """Series of the node_exporter of this machine."""
    program = shutil.which("prometheus-node-exporter")
    if program is None:
        pytest.skip("prometheus-node-exporter is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen([program, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
                    text = answer.read().decode()
                break
            except OSError:
                time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = (re.fullmatch(r"(\w+)(?:\{(.*)\})? \S+", line) for line in lines)
    return [Series.of(match[1], dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))) for match in found if match]


def test_names_of_node_exporter_are_real(exposed):
    """What this machine has is mapped to distinct columns, and each subsystem has some."""
    mapping = load_mapping("node_exporter")
    found = targets(exposed, [mapping])
    metrics = [target.metric for target in found if not target.rule.combine]
    assert len(metrics) == len(set(metrics)) > 100
    assert {subsystem(metric) for metric in metrics} >= {"CPU", "Memory", "Network", "Storage"}
    names = {series.name for series in exposed}
    assert {"node_cpu_seconds_total", "node_memory_MemTotal_bytes", "node_disk_read_bytes_total"} <= names
    left = {name for name in unmapped(exposed, [mapping]) if name.startswith("node_")}
    # memory and CPU are mapped whole; what is left is about the exporter, or static
    assert not {name for name in left if name.startswith(("node_memory_", "node_vmstat_", "node_pressure_"))}


def test_counters_are_those_that_the_exporter_declares(exposed):
    """Names that end in _total are counters in all of Prometheus."""
    for target in targets(exposed, [load_mapping("node_exporter")]):
        if exposed[target.series].name.endswith("_total"):
            assert target.rule.type == "counter", target.metric


def test_metric_groups_find_what_is_imported(exposed):
    """A host with node_exporter and dcgm-exporter fills the groups that it can."""
    mappings = [load_mapping("node_exporter"), load_mapping("dcgm_exporter")]
    gpu = [Series.of(f"DCGM_FI_DEV_{field}", GPU) for field in DCGM_FIELDS]
    metrics = {target.metric for target in targets([*exposed, *gpu], mappings)}
    filled = {
        group.name
        for group in load_recipe("default").groups
        if any(re.search(pattern, metric, re.IGNORECASE) for pattern in group.patterns for metric in metrics)
    }
    assert filled >= {
        "GPU_util", "GPU_mem_util", "GPU_power", "GPU_temp", "GPU_clock", "GPU_memory", "CPU_interrupts",
        "CPU_switches",
        "CPU_forks", "CPU_running", "Mem_available", "Mem_processes", "Mem_cached", "Mem_dirty", "Mem_faults",
        "Net_rx_bytes", "Net_tx_bytes", "Net_connections", "Net_retransmissions", "Disk_read",
        "Disk_write", "Disk_busy",
        "IO_wait", "CPU_pressure", "Mem_pressure", "IO_pressure",
    }  # fmt: skip
