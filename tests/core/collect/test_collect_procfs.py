"""Parsers of procfs texts: tiny files in, the expected row written out."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrascope_core.collect import procfs_meminfo, procfs_net_snmp, procfs_pressure, procfs_sockets, procfs_vmstat
from infrascope_core.collect.probe import CounterReader, ProbeUnavailableError, ProcFiles, RowReader, Value
from infrascope_core.collect.procfs_diskstats import DiskstatsProbe, DiskstatsReader
from infrascope_core.collect.procfs_net_dev import NetDevProbe, NetDevReader
from infrascope_core.collect.procfs_stat import StatReader


def row(reader: RowReader, raw: bytes, at_s: float = 0.1) -> dict[str, Value]:
    values = reader.row(raw, at_s)
    assert len(values) == len(reader.columns)
    return dict(zip([column.render("h") for column in reader.columns], values, strict=True))


STAT = b"""cpu  100 0 50 800 50 0 0 0 0 0
cpu0 50 0 25 400 25 0 0 0 0 0
cpu1 50 0 25 400 25 0 0 0 0 0
intr 1000 5 6 7
ctxt 2000
btime 1795185618
processes 30
procs_running 2
procs_blocked 0
softirq 500 1 2
"""


def test_stat_gives_utilization_per_core_and_on_average_and_counter_differences() -> None:
    reader = StatReader(STAT)
    later = b"""cpu  106 0 52 806 55 0 0 1 0 0
cpu0 55 0 26 401 27 0 0 1 0 0
cpu1 51 0 26 405 28 0 0 0 0 0
intr 1010 5 6 7
ctxt 2007
processes 31
procs_running 3
procs_blocked 1
softirq 520 1 2
"""
    assert row(reader, later) == {
        "CPU:CPU0Utilization.h[%]": 70.0,  # 5 user, 1 system, 1 steal of 10 ticks
        "CPU:CPU1Utilization.h[%]": pytest.approx(20.0),
        "AverageCPUUtilization.h[%]": pytest.approx(45.0),
        "CPU:user.h[%]": pytest.approx(30.0),
        "CPU:nice.h[%]": 0,
        "CPU:system.h[%]": pytest.approx(10.0),
        "CPU:iowait.h[%]": pytest.approx(25.0),
        "CPU:irq.h[%]": 0,
        "CPU:softirq.h[%]": 0,
        "CPU:steal.h[%]": pytest.approx(5.0),
        "Interrupts_diff:total.h[count]": 10,
        "Interrupts_diff:softirqs.h[count]": 20,
        "ContextSwitches_diff:total.h[count]": 7,
        "Processes_diff:forks.h[count]": 1,
        "Processes:running.h[count]": 3,
        "Processes:blocked.h[count]": 1,
    }


def test_a_core_that_goes_away_is_missing_and_so_is_a_core_without_time() -> None:
    reader = StatReader(STAT)
    values = row(reader, b"cpu  106 0 52 806 55 0 0 1 0 0\ncpu0 50 0 25 400 25 0 0 0 0 0\n")
    assert values["CPU:CPU0Utilization.h[%]"] is None
    assert values["CPU:CPU1Utilization.h[%]"] is None
    assert values["ContextSwitches_diff:total.h[count]"] is None
    assert values["AverageCPUUtilization.h[%]"] is not None


def test_iowait_that_steps_back_counts_as_no_time_but_a_reset_is_missing() -> None:
    reader = StatReader(b"cpu  100 0 50 800 50 0 0 0 0 0\n")
    assert row(reader, b"cpu  105 0 50 805 49 0 0 0 0 0\n")["AverageCPUUtilization.h[%]"] == 50.0
    assert row(reader, b"cpu  1 0 0 2 0 0 0 0 0 0\n")["AverageCPUUtilization.h[%]"] is None


def test_meminfo_gives_every_line_and_the_utilization() -> None:
    text = b"MemTotal:     1000 kB\nMemAvailable:  250 kB\nHugePages_Total:  3\nOdd: x kB\nno colon\n"
    assert row(CounterReader(text, procfs_meminfo.parse), text) == {
        "Memory:MemTotal.h[kB]": 1000,
        "Memory:MemAvailable.h[kB]": 250,
        "Memory:HugePages_Total.h[count]": 3,
        "Memory:MemoryUtilization.h[%]": 75.0,
    }


DISKS = b"""   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9
 254       0 sda 10 1 100 5 20 2 200 7 3 11 12 1 1 1 1 4 5
 254       1 sda1 10 1 100 5 20 2 200 7 3 11 12 1 1 1 1 4 5
 254      16 sdb 1 0 8 1 0 0 0 0 0 1 1 0 0 0 0 0 0
"""


def test_diskstats_sums_whole_disks_and_leaves_partitions_and_loops_out() -> None:
    reader = DiskstatsReader(DISKS, {b"sda", b"sdb"})
    later = b"""   7       0 loop0 99 99 99 99 99 99 99 99 99 99 99
 254       0 sda 12 1 116 6 25 4 280 17 2 15 30 1 1 1 1 6 9
 254       1 sda1 12 1 116 6 25 4 280 17 2 15 30 1 1 1 1 6 9
 254      16 sdb 2 0 16 3 0 0 0 0 1 2 3 0 0 0 0 0 0
"""
    assert row(reader, later) == {
        "Storage_diff:reads_completed_successfully.h[count]": 3,
        "Storage_diff:reads_merged.h[count]": 0,
        "Storage_diff:sectors_read.h[count]": 24,
        "Storage_diff:time_spent_reading_(ms).h[ms]": 3,
        "Storage_diff:writes_completed.h[count]": 5,
        "Storage_diff:writes_merged.h[count]": 2,
        "Storage_diff:sectors_written.h[count]": 80,
        "Storage_diff:time_spent_writing_(ms).h[ms]": 10,
        "Storage:I/Os_currently_in_progress.h[count]": 3,
        "Storage_diff:time_spent_doing_I/Os_(ms).h[ms]": 5,
        "Storage_diff:weighted_time_spent_doing_I/Os_(ms).h[ms]": 20,
        "Storage_diff:discards_completed_successfully.h[count]": 0,
        "Storage_diff:discards_merged.h[count]": 0,
        "Storage_diff:sectors_discarded.h[count]": 0,
        "Storage_diff:time_spent_discarding_(ms).h[ms]": 0,
        "Storage_diff:flush_requests_completed_successfully.h[count]": 2,
        "Storage_diff:time_spent_flushing_(ms).h[ms]": 4,
    }


def test_a_disk_that_goes_away_leaves_the_sum_and_a_reset_makes_it_missing() -> None:
    reader = DiskstatsReader(DISKS, {b"sda", b"sdb"})
    without_sdb = DISKS.replace(b"sdb", b"sdx").replace(b"sda 10", b"sda 14")
    assert row(reader, without_sdb)["Storage_diff:reads_completed_successfully.h[count]"] == 4
    assert row(reader, DISKS)["Storage_diff:reads_completed_successfully.h[count]"] is None
    assert set(row(reader, b"").values()) == {None}


def test_diskstats_recognises_a_physical_disk_by_its_device(tmp_path: Path) -> None:
    (tmp_path / "diskstats").write_bytes(DISKS)
    probe = DiskstatsProbe(tmp_path / "diskstats", tmp_path / "block")
    with pytest.raises(ProbeUnavailableError, match="no physical disk"):
        probe.start(0.1)
    (tmp_path / "block" / "sda" / "device").mkdir(parents=True)
    (tmp_path / "block" / "loop0").mkdir()
    probe.start(0.1)
    reader = probe.reader(probe.sample())
    probe.stop()
    assert row(reader, DISKS)["Storage:I/Os_currently_in_progress.h[count]"] == 3


NET_DEV = b"""Inter-|   Receive            |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes ... compressed
    lo:    1000  10  0 0 0 0 0 0     1000      10    0    0    0     0       0          0
  eth0:    5000  20  0 0 0 0 0 0      700       9    0    0    0     0       0          0
"""


def test_net_dev_gives_differences_and_utilization_where_the_speed_is_known() -> None:
    reader = NetDevReader(NET_DEV, down=(), speeds_mbit={"eth0": 10, "eth9": 10})
    later = NET_DEV.replace(b" 5000  20", b"30000  45").replace(b"lo:    1000  10", b"lo:    1500  12")
    values = row(reader, later, at_s=0.2)
    assert values["NetworkInterStat_diff:rx_bytes.eth0.h[Bytes]"] == 25_000
    assert values["NetworkInterStat_diff:rx_packets.eth0.h[count]"] == 25
    assert values["NetworkInterStat_diff:tx_bytes.eth0.h[Bytes]"] == 0
    assert values["NetworkInterStat_diff:rx_bytes.lo.h[Bytes]"] == 500
    # 25,000 bytes are 200,000 bits; 10 Mbit/s carries 2,000,000 in 0.2 s
    assert values["NetworkInterStat_diff:NetworkUtilization.eth0.h[%]"] == pytest.approx(10.0)
    assert len(values) == 2 * 16 + 1


def test_an_interface_that_appears_is_left_out_and_one_that_vanishes_is_missing() -> None:
    reader = NetDevReader(NET_DEV, down=(), speeds_mbit={"eth0": 10})
    values = row(reader, NET_DEV.replace(b"eth0", b"eth1"))
    assert values["NetworkInterStat_diff:rx_bytes.eth0.h[Bytes]"] is None
    assert values["NetworkInterStat_diff:NetworkUtilization.eth0.h[%]"] is None
    assert values["NetworkInterStat_diff:rx_bytes.lo.h[Bytes]"] == 0
    assert not any("eth1" in name for name in values)


def test_net_dev_reads_speed_and_state_from_sysfs(tmp_path: Path) -> None:
    (tmp_path / "dev").write_bytes(NET_DEV)
    for name, flags, speed in (("lo", "0x9", "what"), ("eth0", "0x1002", "1000")):
        (tmp_path / "net" / name).mkdir(parents=True)
        (tmp_path / "net" / name / "flags").write_text(flags + "\n")
        (tmp_path / "net" / name / "speed").write_text(speed + "\n")
    probe = NetDevProbe(tmp_path / "dev", tmp_path / "net")
    probe.start(0.1)
    names = {column.instance for column in probe.reader(probe.sample()).columns}
    probe.stop()
    assert names == {"lo"}  # eth0 is down


def test_retransmissions_come_from_snmp_and_netstat() -> None:
    text = (
        b"Ip: A B\nIp: 1 2\nTcp: RtoMin RetransSegs InErrs\nTcp: 200 7 0\n\0"
        b"TcpExt: X TCPLostRetransmit TCPSynRetrans\nTcpExt: 1 5 9\nIpExt: Y\nIpExt: 3\n"
    )
    reader = CounterReader(text, procfs_net_snmp.parse)
    assert row(reader, text.replace(b"200 7 0", b"200 9 0").replace(b"1 5 9", b"1 5 4")) == {
        "NetworkTCPRetrans_diff:TcpRetransSegs.h[count]": 2,
        "NetworkTCPRetrans_diff:TcpExtTCPLostRetransmit.h[count]": 0,
        "NetworkTCPRetrans_diff:TcpExtTCPSynRetrans.h[count]": None,  # ran backwards
    }


def test_sockets_are_counted_per_protocol() -> None:
    text = (
        b"protocol  size sockets  memory press maxhdr  slab module\n"
        b"RAWv6     1344      1      -1   NI       0   yes  kernel\n"
        b"TCPv6     2432      2      30   no     192   yes  kernel\n"
        b"UNIX-STREAM 1152    5      -1   NI       0   yes  kernel\n"
        b"UNIX      1152      4      -1   NI       0   yes  kernel\n"
        b"UDP       1152      3      -1   NI       0   yes  kernel\n"
        b"TCP       2432      6      30   no     192   yes  kernel\n\0"
        b"sockets: used 12\nTCP: inuse 6 orphan 0 tw 11 alloc 1 mem 30\n"
    )
    assert row(CounterReader(text, procfs_sockets.parse), text) == {
        "NetworkProtocolCounts:TCP.h[count]": 8,
        "NetworkProtocolCounts:UDP.h[count]": 3,
        "NetworkProtocolCounts:UNIX.h[count]": 9,
        "NetworkProtocolCounts:RAW.h[count]": 1,
        "NetworkProtocolCounts:total_connections.h[count]": 21,
        "NetworkProtocolCounts:TCP_time_wait.h[count]": 11,
    }


def test_pressure_gives_averages_and_differences_of_totals() -> None:
    text = (
        b"some avg10=0.65 avg60=0.27 avg300=0.07 total=100\n\0"
        b"some avg10=0.00 avg60=0.00 avg300=0.11 total=5\nfull avg10=x avg60=0 avg300=0 total=4\n\0"
    )
    reader = CounterReader(text, procfs_pressure.parse)
    assert row(reader, text.replace(b"total=100", b"total=350")) == {
        "Pressure:cpu_some_avg10.h[%]": 0.65,
        "Pressure_diff:cpu_some_total.h[us]": 250,
        "Pressure:memory_some_avg10.h[%]": 0.0,
        "Pressure_diff:memory_some_total.h[us]": 0,
        "Pressure_diff:memory_full_total.h[us]": 0,
    }


def test_vmstat_gives_differences() -> None:
    reader = CounterReader(b"nr_free_pages 7\npgfault 100\npgmajfault 3\n", procfs_vmstat.parse)
    assert row(reader, b"nr_free_pages 9\npgfault 160\npgmajfault 3\n") == {
        "Vmstat_diff:pgfault.h[count]": 60,
        "Vmstat_diff:pgmajfault.h[count]": 0,
    }


def test_a_counter_that_was_missing_once_has_no_difference_next_time() -> None:
    reader = CounterReader(b"pgfault 100\n", procfs_vmstat.parse)
    fault = "Vmstat_diff:pgfault.h[count]"
    assert [row(reader, text)[fault] for text in (b"", b"pgfault 120\n", b"pgfault 125\n")] == [None, None, 5]


def test_a_file_is_read_whole_at_every_sample_and_its_absence_is_named(tmp_path: Path) -> None:
    long = tmp_path / "long"
    long.write_bytes(b"x" * 200_000)
    files = ProcFiles(long)
    files.start()
    assert files.sample() == files.sample() == b"x" * 200_000
    files.stop()
    with pytest.raises(ProbeUnavailableError, match="absent cannot be read"):
        ProcFiles(long, tmp_path / "absent").start()
