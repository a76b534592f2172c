"""Dumps over time: OpenMetrics and Prometheus' own text."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers import openmetrics
from infrascope_core.importers.joining import Joined, join
from infrascope_core.importers.mapping import load_mapping, targets
from infrascope_core.importers.openmetrics import samples_of_text

DUMP = Path("dump.om")
OPEN = """\
# TYPE node_cpu_seconds counter
# HELP node_cpu_seconds Seconds the CPUs spent in each mode.
node_cpu_seconds_total{cpu="0",mode="user"} 12.5 1767000000.25
node_cpu_seconds_total{cpu="0",mode="user"} 1.25e+01 1767000015.25
node_load1 +Inf 1767000000.25 # {trace="x"} 1 2
hostile{a="x\\"y, \\\\ {} # 1 2\\nz", b=""} NaN 1767000000.25
{"quoted name", l="v"} -Inf 1767000001
# EOF
"""


def test_openmetrics_counts_in_seconds():
    samples = samples_of_text(DUMP, OPEN.encode())
    assert [(series.name, series.label) for series in samples.series] == [
        ("node_cpu_seconds_total", {"cpu": "0", "mode": "user"}),
        ("node_load1", {}),
        ("hostile", {"a": 'x"y, \\ {} # 1 2\nz', "b": ""}),
        ("quoted name", {"l": "v"}),
    ]
    at = datetime.fromtimestamp(1767000000.25 - 0).astimezone().utctimetuple()
    rows = samples.values.rows()
    assert [(number, repr(value)) for number, _, value in rows] == [
        (0, "12.5"), (0, "12.5"), (1, "inf"), (2, "nan"), (3, "-inf"),
    ]  # fmt: skip
    assert rows[0][1].timetuple()[:6] == at[:6] and rows[0][1].microsecond == 250_000


def test_prometheus_text_counts_in_milliseconds():
    text = "# TYPE a counter\r\na 1 1767000000250\r\n\r\na 2\t1767000015250\r\n"
    times = samples_of_text(DUMP, text.encode()).values["ts"].dt.timestamp("ms").to_list()
    assert times == [1767000000250, 1767000015250]


def test_long_dumps_are_read_in_pieces(monkeypatch):
    text = b"".join(b'a{x="%d"} %d %d\n' % (i % 7, i, i) for i in range(1000)) + b"# EOF\n"
    whole = samples_of_text(DUMP, text)
    monkeypatch.setattr(openmetrics, "_BLOCK", 100)
    pieces = samples_of_text(DUMP, text)
    assert pieces.series == whole.series and pieces.values.equals(whole.values)
    with pytest.raises(ImportSourceError, match="line 1002: expected a series"):
        samples_of_text(DUMP, text + b"?\n")


def test_a_scrape_target_is_one_group():
    text = 'a{instance="h",job="n",cpu="0"} 1 1\nb{instance="h",job="n"} 1 1\nb{instance="i",job="n"} 1 1\n# EOF\n'
    assert [series.group for series in samples_of_text(DUMP, text.encode()).series] == ["n|h||", "n|h||", "n|i||"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"a 1\n", "dump.om: line 1 has no time; expected a dump over time"),
        (b"a 1 1\nnot a line\n", "dump.om: line 2: expected a series, a value and a time"),
        (b"a one 1\n", "dump.om: line 1: expected a series"),
        (b'a{x="1} 1 1\n', "dump.om: line 1: expected a series"),
        (b"a{x=1} 1 1\n", "cannot be read as a series"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"<html>\n", "line 1: expected a series"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, said):
    with pytest.raises(ImportSourceError, match=said) as error:
        samples_of_text(DUMP, text)
    assert "\n" not in str(error.value)


def test_an_empty_dump_has_no_samples():
    assert samples_of_text(DUMP, b"# EOF\n").series == ()
    assert samples_of_text(DUMP, b"").values.is_empty()


# -- as dcgm-exporter prints it: a GPU that is cut up (MIG) in a host beside one that is not

INSTANCES = """\
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-06357e72",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="gpu01",DCGM_FI_DRIVER_VERSION="535.154.05"} 1410
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-06357e72",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-40GB",GPU_I_PROFILE="3g.20gb",GPU_I_ID="2",Hostname="gpu01",DCGM_FI_DRIVER_VERSION="535.154.05"} 1410
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-604c7a18",pci_bus_id="00000000:0F:00.0",device="nvidia1",modelName="NVIDIA A100-SXM4-40GB",Hostname="gpu01",DCGM_FI_DRIVER_VERSION="535.154.05"} 1095
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-06357e72",device="nvidia0",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="gpu01"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-604c7a18",device="nvidia1",Hostname="gpu01"} 97
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-06357e72",device="nvidia0",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="gpu01"} 12
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-06357e72",device="nvidia0",GPU_I_PROFILE="3g.20gb",GPU_I_ID="2",Hostname="gpu01"} 18000
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-604c7a18",device="nvidia1",Hostname="gpu01"} 30000
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-06357e72",device="nvidia0",GPU_I_PROFILE="1g.5gb",GPU_I_ID="7",Hostname="gpu01"} 0.5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-06357e72",device="nvidia0",GPU_I_PROFILE="3g.20gb",GPU_I_ID="2",Hostname="gpu01"} 0.25
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-604c7a18",device="nvidia1",Hostname="gpu01"} 1
"""
# ruff: noqa: E501 - lines as the exporter prints them
WHOLE = """\
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-06357e72",device="nvidia0",Hostname="gpu01"} 18400
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-06357e72",device="nvidia0",Hostname="gpu01"} 0.375
"""
OF_INSTANCES = {
    "GPU: memory.used.0.mig2[MiB]": 18000,
    "GPU: memory.used.0.mig7[MiB]": 12,
    "GPU: memory.used.0[MiB]": 18012,
    "GPU: memory.used.1[MiB]": 30000,
    "GPU: profiling.GR_ENGINE_ACTIVE.0.mig2[%]": 25,
    "GPU: profiling.GR_ENGINE_ACTIVE.0.mig7[%]": 50,
    "GPU: profiling.GR_ENGINE_ACTIVE.1[%]": 100,
    "GPU: clocks.sm.0[MHz]": 1410,
    "GPU: clocks.sm.1[MHz]": 1095,
    "GPU: utilization.gpu.1[%]": 97,
}


def scraped(exposition: str) -> Joined:
    """What an exporter prints, twice, as a dump of the server has it."""
    text = "".join(f"{line} {1795168800 + 15 * i}\n" for i in range(2) for line in exposition.splitlines())
    samples = samples_of_text(DUMP, f"{text}# EOF\n".encode())
    return join(
        samples,
        targets(samples.series, [load_mapping("dcgm_exporter")]),
        datetime(2026, 11, 20),
        datetime(2026, 11, 21),
    )


def test_instances_of_a_gpu_are_devices_of_their_own():
    found = scraped(INSTANCES)
    assert found.rows.drop("ts").row(1, named=True) == OF_INSTANCES
    assert found.notes == (), "what is repeated for every instance contradicts nothing"


def test_a_gpu_beside_its_instances_is_not_added_to_them():
    found = scraped(INSTANCES + WHOLE)
    assert found.rows.drop("ts").row(1, named=True) == OF_INSTANCES | {"GPU: profiling.GR_ENGINE_ACTIVE.0[%]": 37.5}
    assert found.notes == ("1 series say what another says, such as GPU: memory.used.0[MiB], and were left out",)


def test_without_instances_a_gpu_is_one_device():
    whole = "\n".join(line for line in INSTANCES.splitlines() if "GPU_I_ID" not in line)
    assert sorted(scraped(f"{whole}\n{WHOLE}").rows.columns[1:]) == [
        "GPU: clocks.sm.1[MHz]",
        "GPU: memory.used.0[MiB]",
        "GPU: memory.used.1[MiB]",
        "GPU: profiling.GR_ENGINE_ACTIVE.0[%]",
        "GPU: profiling.GR_ENGINE_ACTIVE.1[%]",
        "GPU: utilization.gpu.1[%]",
    ]
