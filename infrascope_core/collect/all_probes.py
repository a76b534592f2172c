"""The list of all probes: a new one is added here."""

from __future__ import annotations

from infrascope_core.collect.nvidia_smi import nvidia_smi_probe
from infrascope_core.collect.perf import PerfProbe
from infrascope_core.collect.probe import Probe
from infrascope_core.collect.procfs_diskstats import DiskstatsProbe
from infrascope_core.collect.procfs_meminfo import meminfo_probe
from infrascope_core.collect.procfs_net_dev import NetDevProbe
from infrascope_core.collect.procfs_net_snmp import net_snmp_probe
from infrascope_core.collect.procfs_pressure import pressure_probe
from infrascope_core.collect.procfs_sockets import sockets_probe
from infrascope_core.collect.procfs_stat import StatProbe
from infrascope_core.collect.procfs_vmstat import vmstat_probe
from infrascope_core.collect.turbostat import turbostat_probe


def default_probes() -> list[Probe]:
    """All probes, in the column order of the public data set (docs/format.md), those it lacks at the end."""
    return [
        PerfProbe(),
        meminfo_probe(),
        turbostat_probe(),
        StatProbe(),
        nvidia_smi_probe(),
        DiskstatsProbe(),
        NetDevProbe(),
        sockets_probe(),
        net_snmp_probe(),
        pressure_probe(),
        vmstat_probe(),
    ]
