"""Run files of the public data set's shape (column families, counts, constants, gaps), with random values.

For tests and benchmarks of reading, windows and baskets only: the values follow no workload.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

GPU_HOST, CPU_HOST = "htc-g004", "nserver07"

_PERF_GPU = """
Branches Branch_Misses Cache_Misses Cache_References Cycles Instructions Cycle_activity_cycles_l3_miss
Cycle_activity_stalls_l3_miss Hle_retired_aborted Hle_retired_commit Mem_trans_retired_load_latency_gt_128
Mem_trans_retired_load_latency_gt_256 Mem-loads Mem-stores
""".split()
_PERF_CPU = """
Branches Branch_Misses Cache_Misses Cache_References Cycles Instructions Ls_dc_accesses
Ls_dispatch_store_dispatch Ls_dispatch_ld_dispatch
""".split()
_TURBOSTAT_GPU = (
    ("Avg_MHz", "MHz"), ("Busy%", "%"), ("Bzy_MHz", "MHz"), ("TSC_MHz", "MHz"), ("IRQ", "count"),
    ("SMI", "count"), ("CPU%c1", "%"), ("CPU%c6", "%"), ("CoreTmp", "C"),
)  # fmt: skip
_TURBOSTAT_CPU = (
    ("Avg_MHz", "MHz"), ("Busy%", "%"), ("Bzy_MHz", "MHz"), ("TSC_MHz", "MHz"), ("IPC", "-"),
    ("IRQ", "count"), ("POLL", "count"), ("C1", "count"), ("C2", "count"), ("POLL%", "%"), ("C1%", "%"),
    ("C2%", "%"), ("CorWatt", "W"),
)  # fmt: skip
_GPU = (
    ("utilization.gpu", "%"), ("utilization.memory", "%"), ("power.draw", "W"), ("temperature.gpu", "C"),
    ("memory.used", "MiB"), ("clocks.sm", "MHz"), ("fan.speed", "%"), ("utilization.jpeg", "%"),
)  # fmt: skip
_CORES = [str(core) for core in range(48)]
_NET = ["rx_bytes", "rx_packets", "rx_errs", "rx_drop", "tx_bytes", "tx_packets", "tx_errs", "tx_drop"]


def gpu_columns(host: str = GPU_HOST) -> list[str]:
    """The 764 metric columns of a GPU file, in the order of the public data set."""
    names = [f"Perf:{m}.{host}[count]" for m in _PERF_GPU]
    names += [
        f"Perf:{m}.{host}[%]" for m in ("IPC", "BranchUtilization", "CacheUtilization", "StallRatio", "OccupancyRatio")
    ]
    names += [f"Memory:{m}.{host}[kB]" for m in ("Dirty", "MemAvailable", "Writeback", "MemTotal")]
    names += [f"Memory:MemoryUtilization.{host}[%]"]
    names += [f"Memory:Counter{i}.{host}[kB]" for i in range(59 - len(names))]
    names += [f"Turbostat:{m}.{c}.{host}[{u}]" for m, u in _TURBOSTAT_GPU for c in (*_CORES, "-")]
    names += [f"Turbostat:PkgWatt.0.{host}[W]", f"Turbostat:PkgWatt.1.{host}[W]"]
    names += [f"Turbostat:Pkg%pc{i}.0.{host}[%]" for i in range(19)]
    names += [f"CPU:CPU{c}Utilization.{host}[%]" for c in sorted(_CORES)] + [f"AverageCPUUtilization.{host}[%]"]
    names += [f"GPU: {m}.{g}.{host}[{u}]" for m, u in _GPU for g in (0, 1)]
    names += [
        f"GPU: ecc.errors.corrected.volatile.c{i}.{g}.{host}[count]" for i in range(66 - len(_GPU)) for g in (0, 1)
    ]
    names += [f"Storage:time_spent_reading_(ms).{host}[ms]"] + [f"Storage:counter_{i}.{host}[count]" for i in range(15)]
    for nic in ("ens1f0", "ib0"):
        names += [f"NetworkInterStat_diff:{m}.{nic}.{host}[Bytes]" for m in _NET]
        names += [f"NetworkInterStat_diff:counter_{i}.{nic}.{host}[count]" for i in range(8)]
    names += [f"NetworkInterStat_diff:NetworkUtilization.{nic}.{host}[%]" for nic in ("ens1f0", "ib0")]
    return names + _protocols(host)


def cpu_columns(host: str = CPU_HOST) -> list[str]:
    """The 791 metric columns of a CPU file."""
    names = [f"Perf:{m}.{host}[count]" for m in _PERF_CPU]
    names += [f"Perf:{m}.{host}[-]" for m in ("IPC", "BranchUtilization", "CacheUtilization")]
    names += [f"Memory:{m}.{host}[kB]" for m in ("CommitLimit", "DirectMap1G", "SwapTotal")]
    names += [f"Memory:MemoryUtilization.{host}[%]", f"Meminfo_diff:MemAvailable.{host}[kB]"]
    names += [f"Meminfo_diff:Counter{i}.{host}[kB]" for i in range(41)]
    names += [f"Turbostat:{m}.{c}.{host}[{u}]" for m, u in _TURBOSTAT_CPU for c in (*_CORES, "-")]
    names += [f"Turbostat:PkgWatt.0.{host}[W]"]
    names += [f"CPU:CPU{c}Utilization.{host}[%]" for c in sorted(_CORES)] + [f"AverageCPUUtilization.{host}[%]"]
    names += [f"Storage_diff:writes_merged.{host}[count]"] + [
        f"Storage_diff:counter_{i}.{host}[count]" for i in range(16)
    ]
    nic = "enp1s0f0np0"
    names += [f"NetworkInterStat_diff:{m}.{nic}.{host}[Bytes]" for m in _NET]
    names += [f"NetworkInterStat_diff:counter_{i}.{nic}.{host}[count]" for i in range(8)]
    names += [f"NetworkInterStat_diff:NetworkUtilization.{nic}.{host}[%]"]
    return names + _protocols(host)


def _protocols(host: str) -> list[str]:
    protocols = ["TCP", "UDP", "UNIX", "RAW", "DCCP", "SCTP", "local_to", "to_local", "total_connections"]
    retransmissions = ["TcpRetransSegs", "TcpExtTCPSynRetrans", "TcpExtTCPLostRetransmit"]
    return [f"NetworkProtocolCounts:{p}.{host}[count]" for p in protocols] + [
        f"NetworkTCPRetrans_diff:{r}.{host}[count]" for r in retransmissions
    ]


_ZERO_SHARE = 516 / 764
"""Share of columns that are always zero in GPU files (docs/format.md, Typical values)."""


def frame(columns: list[str], samples: int, seed: int = 0) -> pl.DataFrame:
    """Random values under the given columns: two thirds always zero, some constant, some always missing."""
    rng = np.random.default_rng(seed)
    data = {name: _values(name, samples, rng) for name in columns}
    zero = [name for name, values in data.items() if not values.any()]
    spare = [name for name in columns if name.startswith("Turbostat:") and ".-." not in name]
    surplus = max(0, round(_ZERO_SHARE * len(columns)) - len(zero))
    data |= {name: np.zeros(samples) for name in [n for n in spare if n not in zero][-surplus:]}
    return pl.DataFrame(data).with_columns(pl.all().fill_nan(None))


def _values(name: str, samples: int, rng: np.random.Generator) -> np.ndarray:
    if any(part in name for part in ("counter_", "Counter", "volatile", "Pkg%pc", "_errs", "SCTP", "DCCP")):
        return np.zeros(samples)
    if "fan.speed" in name or "jpeg" in name:
        return np.full(samples, np.nan)
    if any(part in name for part in ("MemTotal", "CommitLimit", "DirectMap", "SwapTotal", "TSC")):
        return np.full(samples, 2194.84)
    if "utilization.gpu" in name:
        values = np.where(rng.random(samples) < 0.7, 100.0, rng.integers(0, 100, samples))
    elif "Retrans" in name or "drop" in name:
        values = rng.poisson(0.05, samples).astype(float)
    elif "bytes" in name:
        values = np.floor(rng.exponential(1e6 if ".ib0." in name else 1e3, samples))
    else:
        values = np.abs(np.cumsum(rng.normal(0, 1, samples)) + 50 + rng.normal(0, 3, samples))
    return values


def write(
    path: Path,
    values: pl.DataFrame,
    start: datetime = datetime(2025, 4, 26, 13, 38, 18),
    interval_s: float = 0.1,
    separator: str = "\t",
) -> Path:
    """Write a frame of metric columns as a run file."""
    times = [start + timedelta(seconds=interval_s * i) for i in range(values.height)]
    stamped = values.insert_column(0, pl.Series("", times, dtype=pl.Datetime("ms")))
    path.parent.mkdir(parents=True, exist_ok=True)
    stamped.write_csv(path, separator=separator, datetime_format="%Y-%m-%d %H:%M:%S%.3f", quote_style="never")
    return path
