"""Probes that are programs: parsers on the text their manuals define, and fakes of them on PATH."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrascope_core.collect import nvidia_smi, perf, turbostat
from infrascope_core.collect.perf import PerfProbe
from infrascope_core.collect.probe import Column, Probe, ProbeUnavailableError, Value
from infrascope_core.collect.stream import ProgramStream, StreamReader, number


def install(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / name
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def one_row(probe: Probe) -> dict[str, Value]:
    """The row after two tables' worth of lines have come."""
    probe.start(0.1)
    text = b""
    give_up = time.monotonic() + 5
    while text.count(b"\n") < 10 and time.monotonic() < give_up:
        time.sleep(0.05)
        text += probe.sample()
    probe.stop()
    probe.stop()
    reader = probe.reader(b"")
    return dict(zip([column.render("h") for column in reader.columns], reader.row(text, 0.1), strict=True))


NVIDIA_SMI = """
case "$1" in
  --help-query-gpu) echo '"utilization.gpu"'; echo 'Percent of time.'; echo '"power.draw" or "x"'
                    echo '"fan.speed"'; echo '"temperature.gpu"';;
  --query-gpu=index) echo 0; echo 1;;
  *) while :; do echo '0, 97, 61, 215.33, [N/A]'; echo 'Timeout'; echo '1, 3, 40, [Unknown Error], 20'
     sleep 0.05; done;;
esac
"""


def test_nvidia_smi_gives_the_supported_fields_per_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "nvidia-smi", NVIDIA_SMI, monkeypatch)
    assert one_row(nvidia_smi.nvidia_smi_probe()) == {
        "GPU: utilization.gpu.0.h[%]": 97,
        "GPU: temperature.gpu.0.h[C]": 61,
        "GPU: power.draw.0.h[W]": 215.33,
        "GPU: fan.speed.0.h[%]": None,
        "GPU: utilization.gpu.1.h[%]": 3,
        "GPU: temperature.gpu.1.h[C]": 40,
        "GPU: power.draw.1.h[W]": None,
        "GPU: fan.speed.1.h[%]": 20,
    }


def test_nvidia_smi_without_a_driver_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9", monkeypatch)
    with pytest.raises(ProbeUnavailableError, match="ended with code 9; it printed: NVIDIA-SMI has failed"):
        nvidia_smi.nvidia_smi_probe().start(0.1)


PERF = """
while :; do
  echo "     0.100213023;2000;;instructions;100;100.00;2.0;insn per cycle" >&2
  echo "     0.100213023;1000;;cycles:u;100;100.00;;" >&2
  echo "     0.100213023;<not supported>;;branches;0;100.00;;" >&2
  case "$*" in *sleep*) exit 0;; esac
  sleep 0.05
done
"""


def test_perf_gives_supported_events_and_the_ratios_that_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "perf", PERF, monkeypatch)
    assert one_row(PerfProbe()) == {
        "Perf:Cycles.h[count]": 1000,
        "Perf:Instructions.h[count]": 2000,
        "Perf:IPC.h[-]": 2.0,
    }


def test_perf_without_counters_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "perf", "echo '0.1;<not supported>;;cycles;0;100.00;;' >&2", monkeypatch)
    with pytest.raises(ProbeUnavailableError, match="no hardware counters"):
        PerfProbe().start(0.1)


TURBOSTAT_TABLE = (
    "Package\tCore\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\tIRQ\tCPU%c6\tCoreTmp\tPkgWatt\n"
    "-\t-\t-\t120\t4.50\t2666\t900\t90.10\t51\t75.20\n"
    "0\t0\t0\t200\t8.00\t2500\t500\t80.00\t50\t35.10\n"
    "0\t0\t1\t40\t1.00\t2700\t400\n"
    "1\t0\t2\t30\t0.50\t2600\t300\t99.00\t51\t40.10\n"
)


def test_turbostat_lines_give_cores_the_whole_and_packages() -> None:
    table = turbostat.TableParser()
    values = {
        column.render("h"): value for line in TURBOSTAT_TABLE.splitlines() for column, value in table.parse_line(line)
    }
    assert values["Turbostat:Busy%.-.h[%]"] == 4.5
    assert values["Turbostat:Busy%.1.h[%]"] == 1.0
    assert values["Turbostat:Avg_MHz.2.h[MHz]"] == 30
    assert values["Turbostat:CoreTmp.0.h[C]"] == 50
    assert values["Turbostat:PkgWatt.0.h[W]"] == 35.1
    assert values["Turbostat:PkgWatt.1.h[W]"] == 40.1
    assert "Turbostat:CoreTmp.1.h[C]" not in values  # stands in the line of the core's first CPU only
    assert "Turbostat:PkgWatt.-.h[W]" not in values
    assert not any("Package" in name or "Core." in name for name in values)


@pytest.mark.skipif(os.geteuid() != 0, reason="the probe wants root before it starts turbostat")
def test_turbostat_streams_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table").write_text(TURBOSTAT_TABLE)
    script = f"""
case "$*" in *num_iterations*) cat {tmp_path}/table; exit 0;; esac
while :; do cat {tmp_path}/table; sleep 0.05; done
"""
    install(tmp_path, "turbostat", script, monkeypatch)
    assert one_row(turbostat.turbostat_probe())["Turbostat:Bzy_MHz.-.h[MHz]"] == 2666


@pytest.mark.parametrize("name", ["nvidia-smi", "perf", "turbostat"])
def test_a_program_that_is_not_there_is_unavailable(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    probes = {
        "nvidia-smi": nvidia_smi.nvidia_smi_probe(),
        "perf": PerfProbe(),
        "turbostat": turbostat.turbostat_probe(),
    }
    with pytest.raises(ProbeUnavailableError, match=f"{name} is not installed"):
        probes[name].start(0.1)


X = Column("GPU", " x", "0", "%")


def test_a_tick_shows_the_last_value_before_it_until_that_is_stale() -> None:
    reader = StreamReader(b"", (X,), lambda line: [(X, number(line))], fresh_s=0.5)
    got = [
        reader.row(text, at_s)
        for at_s, text in (
            (0.1, b""),
            (0.2, b"1\n2\n3"),
            (0.3, b"0\n"),
            (0.7, b""),
            (0.9, b""),
            (1.0, b"n/a\n"),
        )
    ]
    assert got == [[None], [2], [30], [30], [None], [None]]


@given(st.text(max_size=200))
def test_odd_output_never_raises_and_gives_numbers_or_nothing(text: str) -> None:
    table = turbostat.TableParser()
    list(table.parse_line("Core\tCPU\tBusy%"))
    for line in (text, f"0;{text};;cycles", f"0, {text}", f"0\t0\t{text}"):
        pairs = [
            *table.parse_line(line),
            *perf.parse_line(line),
            *nvidia_smi.parse_line(line, ["power.draw"]),
        ]
        assert all(value is None or abs(value) < 1e41 for _, value in pairs)
        assert not any(mark in column.metric for column, _ in pairs for mark in "\t\n[]")


@pytest.mark.parametrize("text", ["nan", "inf", "1e5", "", "-", ".", "1_000", "٣", "[N/A]", "0x10", "9" * 50])
def test_only_plain_decimals_are_numbers(text: str) -> None:
    assert number(text) is None
    assert (number(" 7 "), number("-2.50")) == (7, -2.5)


def test_a_stream_of_an_ended_program_is_empty() -> None:
    stream = ProgramStream()
    assert stream.sample() == b""
    stream.start(["echo", "done"])
    output = b""
    give_up = time.monotonic() + 5
    while not output and time.monotonic() < give_up:
        output = stream.sample()
    assert (output, stream.sample()) == (b"done\n", b"")
    stream.stop()
