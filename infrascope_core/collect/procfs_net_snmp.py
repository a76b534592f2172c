"""TCP retransmissions from /proc/net/snmp and /proc/net/netstat (kernel: networking/snmp_counter.rst)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from infrascope_core.collect.probe import FILE_SEPARATOR, Column, TextProbe, integer

_SOURCE = "NetworkTCPRetrans_diff"
_WANTED = {
    (b"Tcp:", b"RetransSegs"): Column(_SOURCE, "TcpRetransSegs", "", "count", difference=True),
    (b"TcpExt:", b"TCPSynRetrans"): Column(_SOURCE, "TcpExtTCPSynRetrans", "", "count", difference=True),
    (b"TcpExt:", b"TCPLostRetransmit"): Column(_SOURCE, "TcpExtTCPLostRetransmit", "", "count", difference=True),
}


def net_snmp_probe(snmp: Path = Path("/proc/net/snmp"), netstat: Path = Path("/proc/net/netstat")) -> TextProbe:
    """Probe of /proc/net/snmp and /proc/net/netstat."""
    return TextProbe("/proc/net/snmp", (snmp, netstat), parse)


def parse(raw: bytes) -> dict[Column, float | int]:
    """The wanted counters; both files are pairs of lines, names above numbers."""
    values: dict[Column, float | int] = {}
    lines = raw.replace(FILE_SEPARATOR, b"\n").splitlines()
    for names_line, numbers_line in pairwise(lines):
        prefix = names_line.partition(b" ")[0]
        if prefix not in (b"Tcp:", b"TcpExt:") or not numbers_line.startswith(prefix + b" "):
            continue
        names, numbers = names_line.split(), numbers_line.split()
        for (group, name), column in _WANTED.items():
            if group == prefix and name in names and (place := names.index(name)) < len(numbers):
                number = integer(numbers[place])
                if number is not None:
                    values[column] = number
    return values
