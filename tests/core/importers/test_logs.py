"""What lies on disk: fixed texts as the programs write them, to columns of a run file."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from infrascope_core.errors import ImportSourceError
from infrascope_core.importers.dcgmi import samples_of_dcgmi
from infrascope_core.importers.joining import join
from infrascope_core.importers.ldms import samples_of_ldms
from infrascope_core.importers.mapping import Mapping, TableShape, load_mapping, targets
from infrascope_core.importers.nvidia_smi import samples_of_nvidia_smi
from infrascope_core.importers.sadf import samples_of_sadf
from infrascope_core.importers.samples import Samples, together
from infrascope_core.importers.table import samples_of_table

FILE = Path("the.log")
# ruff: noqa: E501 - lines as programs write them
EVER = (datetime(1960, 1, 1), datetime(2100, 1, 1))


def joined(samples: Samples, mapping: str | Mapping) -> pl.DataFrame:
    found = load_mapping(mapping) if isinstance(mapping, str) else mapping
    return join(samples, targets(samples.series, [found]), *EVER).rows


# -- nvidia-smi

SMI = """\
timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], pstate, clocks_throttle_reasons.active, clocks_throttle_reasons.sw_power_cap, ecc.errors.corrected.volatile.total
2026/11/20 10:00:00.123, 0, NVIDIA H200, 97 %, 71234 MiB, 612.50 W, P0, 0x0000000000000004, Active, 0
2026/11/20 10:00:00.123, 1, NVIDIA H200, 0 %, 3 MiB, [N/A], P8, 0x0000000000000001, Not Active, [N/A]
2026/11/20 10:00:01.124, 0, NVIDIA H200, 98 %, 71235 MiB, 613.00 W, P0, 0x0000000000000000, Not Active, 0
2026/11/20 10:00:01.124, 1, NVIDIA H200, 1 %, 3 MiB, [Not Supported], P8, 0x0000000000000001, Not Active, [N/A]
2026/11/20 10:00:02.12"""


def test_nvidia_smi_of_two_gpus():
    rows = joined(samples_of_nvidia_smi(FILE, SMI.encode(), ZoneInfo("Europe/Berlin")), "nvidia_smi")
    assert rows.to_dict(as_series=False) == {
        "ts": [datetime(2026, 11, 20, 9, 0, 0, 123_000), datetime(2026, 11, 20, 9, 0, 1, 124_000)],
        "GPU: utilization.gpu.0[%]": [97, 98],
        "GPU: utilization.gpu.1[%]": [0, 1],
        "GPU: memory.used.0[MiB]": [71234, 71235],
        "GPU: memory.used.1[MiB]": [3, 3],
        "GPU: power.draw.0[W]": [612.5, 613],
        "GPU: ecc.errors.corrected.volatile.total.0[count]": [0, 0],
        "GPU: pstate.0[-]": [0, 0],
        "GPU: pstate.1[-]": [8, 8],
        "GPU: clocks_throttle_reasons.active.0[-]": [4, 0],
        "GPU: clocks_throttle_reasons.active.1[-]": [1, 1],
        "GPU: clocks_throttle_reasons.sw_power_cap.0[-]": [1, 0],
        "GPU: clocks_throttle_reasons.sw_power_cap.1[-]": [0, 0],
    }


SMI_MIG = """\
timestamp, index, mig.mode.current, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/11/20 10:00:00.123, 0, Enabled, [N/A], 21034 MiB, 212.50 W
2026/11/20 10:00:00.123, 1, Disabled, 97 %, 71234 MiB, 612.50 W
"""


def test_nvidia_smi_of_a_gpu_that_is_cut_up():
    """It lists GPUs only, with what is measured of the whole."""
    rows = joined(samples_of_nvidia_smi(FILE, SMI_MIG.encode()), "nvidia_smi")
    assert rows.drop("ts").row(0, named=True) == {
        "GPU: utilization.gpu.1[%]": 97,
        "GPU: memory.used.0[MiB]": 21034,
        "GPU: memory.used.1[MiB]": 71234,
        "GPU: power.draw.0[W]": 212.5,
        "GPU: power.draw.1[W]": 612.5,
    }


def test_nvidia_smi_without_units_and_continued():
    text = "timestamp, utilization.gpu\n2026/11/20 10:00:00.000, 5\n"
    rows = joined(samples_of_nvidia_smi(FILE, (text + text.replace("00.000, 5", "01.000, 6")).encode()), "nvidia_smi")
    assert rows["GPU: utilization.gpu.0[%]"].to_list() == [5, 6]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a header with the field timestamp"),
        ("2026/11/20 10:00:00.000, 0, 5\n", "expected a header with the field timestamp"),
        ("timestamp, a, a\n", "expected a header with the field timestamp"),
        ("timestamp, utilization.gpu\n" + "2026/11/20 10:00:00.000, 5\n" * 2, "no field that tells them apart"),
        ("timestamp, index, x\n2026/11/20 10:00:00.000, 5, 1, 1\n2026/11/20 10:00:00.000, 5, 1\n", "has 4 fields, the header has 3"),
        ("timestamp, index, x\nyesterday, 5, 1\n", "row 1: cannot read the time 'yesterday'"),
    ],
)  # fmt: skip
def test_nvidia_smi_that_cannot_be_read(text, said):
    with pytest.raises(ImportSourceError, match=said):
        samples_of_nvidia_smi(FILE, text.encode())


# -- dcgmi

DMON = """\
#Entity   GPUTL  MCUTL  POWER     TOTEC        TMPTR  TENSO
ID                      W         mJ           C
GPU 1     0      0      63.120    17033333     31     N/A
GPU 0     97     41     612.013   2.07e+11     64     0.512

GPU 1     0      0      63.200    17096533     31     N/A
GPU 0     98     42     613.000   2.08e+11     65     0.498
"""


def test_dcgmi_by_start_and_interval():
    samples = samples_of_dcgmi(FILE, DMON.encode(), start=datetime(2026, 11, 20, 10), interval_s=0.5)
    rows = joined(samples, "dcgmi_dmon")
    assert rows["ts"].to_list() == [datetime(2026, 11, 20, 10), datetime(2026, 11, 20, 10, 0, 0, 500_000)]
    assert rows["GPU: power.draw.0[W]"].to_list() == [612.013, 613]
    assert rows["GPU: profiling.PIPE_TENSOR_ACTIVE.0[%]"].to_list() == [51.2, 49.8]
    assert "GPU: profiling.PIPE_TENSOR_ACTIVE.1[%]" not in rows.columns


MIG = """\
# Entity  GRACT  TENSO  FBUSD  POWER
      Id
    GPU 0  0.457  0.442  N/A    212.5
  GPU-I 0  0.534  0.516  4096   212.5
  GPU-I 1  0.380  0.368  512    212.5
   GPU 10  0.100  0.000  38000  80.0
  GPU-CI 0  0.5  0.5  1  1
    GPU 0  0.845  0.816  N/A    230.0
  GPU-I 0  0.989  0.955  4096   230.0
  GPU-I 1  0.700  0.677  640    230.0
   GPU 10  0.200  0.000  38000  81.0
"""


def test_dcgmi_of_instances_of_a_gpu():
    """They are numbered over the whole host; its other entities are passed over."""
    samples = samples_of_dcgmi(FILE, MIG.encode(), start=datetime(2026, 11, 20, 10), interval_s=1)
    rows = joined(samples, "dcgmi_dmon")
    assert rows.height == 2
    assert rows["GPU: profiling.GR_ENGINE_ACTIVE.0[%]"].to_list() == pytest.approx([45.7, 84.5])
    assert rows["GPU: profiling.GR_ENGINE_ACTIVE.mig0[%]"].to_list() == pytest.approx([53.4, 98.9])
    assert rows["GPU: profiling.GR_ENGINE_ACTIVE.mig1[%]"].to_list() == [38, 70]
    assert rows["GPU: memory.used.mig1[MiB]"].to_list() == [512, 640]
    assert rows["GPU: memory.used.10[MiB]"].to_list() == [38000, 38000]
    assert "GPU: memory.used.0[MiB]" not in rows.columns


def test_dcgmi_with_times_in_front():
    stamped = "\n".join(f"2026-11-20T10:00:0{i // 4}.5 {line}" for i, line in enumerate(DMON.splitlines()))
    rows = joined(samples_of_dcgmi(FILE, stamped.encode(), ZoneInfo("Europe/Berlin")), "dcgmi_dmon")
    assert rows["ts"].to_list() == [datetime(2026, 11, 20, 9, 0, 0, 500_000), datetime(2026, 11, 20, 9, 0, 1, 500_000)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DMON, "line 3 has no time; give --start and --interval"),
        ("hello\n", "expected one header with #Entity, as dcgmi dmon writes it, found 0"),
        (DMON + "#Entity OTHER\n", "expected one header with #Entity, as dcgmi dmon writes it, found 2"),
        ("#Entity GPUTL POWER\n2026-11-20 10:00:00 GPU 0 5\n", "line 2 has 1 values, the header has 2"),
        ("#Entity GPUTL\nNov 20 GPU 0 5\n", "line 2: expected a time"),
    ],
)
def test_dcgmi_that_cannot_be_read(text, said):
    with pytest.raises(ImportSourceError, match=said):
        samples_of_dcgmi(FILE, text.encode())


# -- LDMS

RECORDS = """\
#Time,Time_usec,ProducerName,component_id,job_id,app_id,name,rx_bytes,tx_bytes
1558387831.001,1000,s0,0,0,0,eth0,100,10
1558387831.001,1000,s0,0,0,0,ib0,7000,70
1558387832.001,1000,s0,0,0,0,eth0,200,nan
1558387832.001,1000,s0,0,0,0,ib0,8000,80
"""


def test_ldms_with_a_row_for_each_device():
    """Sets of records name the device in a column; without it, all of them were the last one."""
    rows = joined(samples_of_ldms(FILE, RECORDS.encode()), "ldms")
    assert rows["NetworkInterStat:rx_bytes.eth0[Bytes]"].to_list() == [100, 200]
    assert rows["NetworkInterStat:rx_bytes.ib0[Bytes]"].to_list() == [7000, 8000]


MEMINFO = """\
#Time,Time_usec,ProducerName,component_id,job_id,app_id,MemTotal,MemFree,MemAvailable,Active(anon)
1558387831.001731,1731,s0,0,0,0,1000,600,700,50
1558387832.001943,1943,s0,0,77,0,1000,500,650,60
1558387833.0"""
DISKS = """\
#Time,Time_usec,ProducerName,component_id,job_id,app_id,reads_comp#sda,reads_comp.rate#sda,sect_read#sda,sect_read.rate#sda,ios_in_progress#sda,sect_read#dm-0
1558387831.201,1731,s0,0,0,0,197797,0,5382606,0,1,9
1558387832.201,1943,s0,0,77,0,197798,1,5382614,8,0,9
"""
PROCSTAT = "#Time,Time_usec,ProducerName,component_id,job_id,user,iowait,per_core_user3,rx_bytes#eth0\n1558387831.4,4,s0,0,0,7,8,9,10\n"


def test_ldms_files_are_joined_in_time():
    files = {"meminfo": MEMINFO, "procdiskstats": DISKS, "procstat": PROCSTAT}
    samples = together(samples_of_ldms(Path(name), text.encode()) for name, text in files.items())
    assert {series.label.get("job_id") for series in samples.series} == {None, "77"}
    rows = joined(samples, "ldms")
    first = datetime.fromtimestamp(1558387831.001731, UTC).replace(tzinfo=None)
    assert rows["ts"].to_list()[:2] == [first, first + timedelta(seconds=1.000212)]
    assert rows["Memory:MemAvailable[kB]"].to_list()[:2] == [700, 650]
    assert rows["Memory:Active(anon)[kB]"].to_list()[:2] == [50, 60]
    assert rows["Storage:sectors_read.sda[count]"].to_list()[:2] == [None, 5382606]
    assert not [name for name in rows.columns if "dm-0" in name or "rate" in name]
    assert "Procstat:user.3[ticks]" in rows.columns and "NetworkInterStat:rx_bytes.eth0[Bytes]" in rows.columns


def test_logs_that_follow_one_another_are_read_on():
    """Files are rotated: two days are one series, not two of which one is left out."""
    later = SMI.replace("2026/11/20", "2026/11/21")
    rows = joined(
        together(samples_of_nvidia_smi(Path(n), t.encode()) for n, t in (("a", SMI), ("b", later))), "nvidia_smi"
    )
    assert rows["ts"].dt.day().to_list() == [20, 20, 21, 21]
    rolled = MEMINFO.replace("15583878", "15583979")
    rows = joined(together(samples_of_ldms(Path(n), t.encode()) for n, t in (("a", MEMINFO), ("b", rolled))), "ldms")
    assert rows["Memory:MemFree[kB]"].to_list() == [600, 500, 600, 500]


def test_ldms_with_its_header_beside():
    header, _, body = MEMINFO.partition("\n")
    assert samples_of_ldms(FILE, body.encode(), header).values.equals(samples_of_ldms(FILE, MEMINFO.encode()).values)
    assert samples_of_ldms(FILE, (header + "\n").encode()).series == ()
    with pytest.raises(ImportSourceError, match="expected a header as #Time"):
        samples_of_ldms(FILE, body.encode())


# -- sadf


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> bytes:
    """What sar records of this machine in three seconds, as sadf writes it."""
    if shutil.which("sadf") is None or shutil.which("sar") is None:
        pytest.skip("sysstat is not installed")
    file = tmp_path_factory.mktemp("sar") / "sa"
    subprocess.run(["sar", "-A", "-o", file, "1", "3"], check=True, capture_output=True)
    return subprocess.run(["sadf", "-j", file, "--", "-A"], check=True, capture_output=True).stdout


def test_sadf_of_a_recorded_file(recorded):
    samples = samples_of_sadf(FILE, recorded)
    rows = joined(samples, "sadf")
    assert rows.height == 3 and rows["ts"].diff().drop_nulls().to_list() == [timedelta(seconds=1)] * 2
    first = json.loads(recorded)["sysstat"]["hosts"][0]["statistics"][0]
    busy = first["cpu-load"][0]
    assert rows["AverageCPUUtilization[%]"][0] == pytest.approx(100 - busy["idle"] - busy["iowait"], abs=0.05)
    assert rows["Memory:MemAvailable[kB]"][0] == first["memory"]["avail"]
    assert rows["Memory:MemoryUtilization[%]"][0] == first["memory"]["memused-percent"]
    (disk,) = (each for each in first["disk"] if each["disk-device"][0] not in "dlmrz")
    assert rows[f"Storage:sectors_written.{disk['disk-device']}[count/s]"][0] == pytest.approx(disk["wr_sec"], abs=0.02)
    assert rows["Procstat:context_switches[count/s]"][0] == first["process-and-context-switch"]["cswch"]
    assert rows["Procstat:hwintr_count[count/s]"][0] == first["interrupts"][0]["all"]
    assert {series.label["nodename"] for series in samples.series} == {
        json.loads(recorded)["sysstat"]["hosts"][0]["nodename"]
    }
    assert load_mapping("sadf").host_of(samples.series[0]) is None  # the command names the label


def test_sadf_of_an_older_version_in_local_time():
    reading = {
        "timestamp": {"date": "2026-07-01", "time": "12:00:00", "utc": 0, "interval": 600},
        "cpu-load": [
            {"cpu": "all", "user": 10.0, "nice": 1.0, "system": 5.0, "iowait": 2.0, "steal": 0.0, "idle": 82.0}
        ],
        "interrupts": [{"intr": "sum", "value": 17.0}],
        "restart": {"boot": "nothing here"},
    }
    text = json.dumps({"sysstat": {"hosts": [{"nodename": "h", "statistics": [{"restarts": []}, reading]}]}})
    rows = joined(samples_of_sadf(FILE, text.encode(), ZoneInfo("Europe/Berlin")), "sadf")
    assert rows.to_dicts() == [
        {
            "ts": datetime(2026, 7, 1, 10), "CPU:user[%]": 10, "AverageCPUUtilization[%]": 16, "CPU:system[%]": 5,
            "CPU:nice[%]": 1, "CPU:steal[%]": 0, "CPU:iowait[%]": 2, "Procstat:hwintr_count[count/s]": 17,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sysstat": {"hosts": [1]}}', '{"sysstat": {"hosts": [{"nodename": 1}]}}',
    '{"sysstat": {"hosts": [{"nodename": "h", "statistics": [{"timestamp": {"date": "x", "time": "y"}, "a": 1}]}]}}',
    '{"sysstat": {"hosts": [{"nodename": "h", "statistics": [' + '{"a":' * 5000 + "1" + "}" * 5000 + "]}]}}"])  # fmt: skip
def test_sadf_that_cannot_be_read(text):
    with pytest.raises(ImportSourceError, match="cannot be read as the output of sadf -j"):
        samples_of_sadf(FILE, text.encode())


# -- any table

RULES = [
    {"source": "power", "column": "PDU:power.{outlet}[W]", "type": "gauge"},
    {"source": "energy_(?P<phase>l[123])", "column": "PDU:energy.{phase}[Wh]", "type": "counter"},
]
LONG = """\
when;node;what;reading;outlet
20.11.2026 10:00;n1;power;100.5;3
20.11.2026 10:01;n1;power;;3
20.11.2026 10:02;n1;power;102;3
20.11.2026 10:02;n1;energy_l1;7;
"""


def mapping(**shape) -> Mapping:
    return Mapping.model_validate({"table": shape, "rules": RULES})


def shape_of(described: Mapping) -> TableShape:
    assert described.table is not None
    return described.table


def test_a_long_table():
    described = mapping(
        layout="long", time="when", time_format="%d.%m.%Y %H:%M", host="node", name="what", value="reading",
        labels=["outlet"], separator=";",
    )  # fmt: skip
    samples = samples_of_table(FILE, LONG.encode(), shape_of(described), ZoneInfo("Europe/Berlin"))
    assert {series.label["host"] for series in samples.series} == {"n1"}
    assert joined(samples, described).to_dict(as_series=False) == {
        "ts": [datetime(2026, 11, 20, 9), datetime(2026, 11, 20, 9, 2)],
        "PDU:power.3[W]": [100.5, 102],
        "PDU:energy.l1[Wh]": [None, 7],
    }


def test_a_wide_table_as_csv_and_as_parquet():
    described = mapping(layout="wide", time="t", time_format="ms", labels=["outlet"])
    table = pl.DataFrame(
        {
            "t": [1000, 2000, 1000],
            "outlet": ["3", "3", "4"],
            "power": [1.5, None, 3.0],
            "energy_l1": [7, 8, 9],
            "x": [0, 0, 0],
        }
    )
    parquet = BytesIO()
    table.write_parquet(parquet)
    expected = {
        "ts": [datetime(1970, 1, 1, 0, 0, 1), datetime(1970, 1, 1, 0, 0, 2)],
        "PDU:power.3[W]": [1.5, 1.5],  # known for a while
        "PDU:power.4[W]": [3.0, 3.0],
        "PDU:energy.l1[Wh]": [7, 8],
    }
    for raw in (table.write_csv().encode(), parquet.getvalue()):
        assert joined(samples_of_table(FILE, raw, shape_of(described)), described).to_dict(as_series=False) == expected


def test_a_table_with_decimal_commas_and_with_columns_that_are_no_numbers():
    described = mapping(layout="wide", time="t", separator=";", decimal=",", labels=["outlet"])
    rows = joined(
        samples_of_table(FILE, b"t;outlet;power;note\n2026-11-20T10:00:00;3;1,5;on\n", shape_of(described)), described
    )
    assert rows["PDU:power.3[W]"].to_list() == [1.5]
    parquet = BytesIO()
    table = pl.DataFrame({"t": ["2026-11-20T10:00:00"], "outlet": ["3"], "power": [1.5], "all": [[1, 2]]})
    table.write_parquet(parquet)
    described = mapping(layout="wide", time="t", labels=["outlet"])
    rows = joined(samples_of_table(FILE, parquet.getvalue(), shape_of(described)), described)
    assert rows["PDU:power.3[W]"].to_list() == [1.5]


@pytest.mark.parametrize("layout", [{"layout": "wide"}, {"layout": "long", "name": "what", "value": "power"}])
def test_a_table_without_a_number_is_said(layout):
    described = mapping(time="t", separator=";", **layout)
    with pytest.raises(ImportSourceError, match="expected numbers, found '1,5' in column 'power'"):
        samples_of_table(FILE, b"t;power;what\n2026-11-20T10:00:00;1,5;power\n", shape_of(described))


@pytest.mark.parametrize(
    ("form", "cells"),
    [
        ("iso", ["2026-11-20T10:00:00Z", "2026-11-20T10:00:01.5Z"]),
        ("iso", ["2026-11-20 11:00:00+01:00", "2026-11-20 11:00:01.5+01:00"]),
        ("iso", ["2026-11-20 10:00:00", "2026-11-20 10:00:01.5"]),
        ("s", ["1795168800", "1795168801.5"]),
        ("us", ["1795168800000000", "1795168801500000"]),
        ("ns", ["1795168800000000000", "1795168801500000000"]),
    ],
)
def test_times_in_all_their_spellings(form, cells):
    described = mapping(layout="wide", time="t", time_format=form)
    raw = "t,energy_l1\n" + "\n".join(f"{cell},{i}" for i, cell in enumerate(cells))
    times = samples_of_table(FILE, raw.encode(), shape_of(described)).values["ts"].to_list()
    assert times == [datetime(2026, 11, 20, 10), datetime(2026, 11, 20, 10, 0, 1, 500_000)]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"a,b\n1,2\n", "has no column 't'; it has 'a, b'"),
        (b"t,power\nx,2\n", "row 1: cannot read the time 'x'"),
        (b"t,power\n2026-11-20T10:00:00,1\n\n,3\n", "row 2: cannot read the time"),
        (b"", "cannot be read as a table"),
        (b"PAR1 but not really", "cannot be read as a table"),
    ],
)
def test_tables_that_cannot_be_read(raw, said):
    with pytest.raises(ImportSourceError, match=said) as error:
        samples_of_table(FILE, raw, TableShape(layout="wide", time="t"))
    assert "\n" not in str(error.value)
