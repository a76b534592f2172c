"""Sockets in use per protocol, from /proc/net/protocols and /proc/net/sockstat.

/proc/net/protocols gives the number of sockets of every protocol at a fixed cost; /proc/net/tcp and
/proc/net/unix would give the same by listing every socket, ten times a second.
"""

from __future__ import annotations

from pathlib import Path

from infrascope_core.collect.probe import FILE_SEPARATOR, Column, TextProbe, integer

_SOURCE = "NetworkProtocolCounts"
_PROTOCOLS = {
    "TCP": (b"TCP", b"TCPv6"),
    "UDP": (b"UDP", b"UDPv6"),
    "UNIX": (b"UNIX", b"UNIX-STREAM"),
    "RAW": (b"RAW", b"RAWv6"),
    "DCCP": (b"DCCP", b"DCCPv6"),
    "SCTP": (b"SCTP", b"SCTPv6"),
}
"""Column to protocols of the kernel; DCCP and SCTP are there only while their modules are loaded."""


def sockets_probe(
    protocols: Path = Path("/proc/net/protocols"), sockstat: Path = Path("/proc/net/sockstat")
) -> TextProbe:
    """Probe of /proc/net/protocols and /proc/net/sockstat."""
    return TextProbe("/proc/net/protocols", (protocols, sockstat), parse)


def parse(raw: bytes) -> dict[Column, float | int]:
    """Sockets per protocol, their sum, and TCP connections waiting out their end (TIME_WAIT)."""
    values: dict[Column, float | int] = {}
    protocols, _, sockstat = raw.partition(FILE_SEPARATOR)
    counts: dict[bytes, int] = {}
    for line in protocols.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 2 and (number := integer(fields[2])) is not None:
            counts[fields[0]] = number
    for metric, names in _PROTOCOLS.items():
        known = [counts[name] for name in names if name in counts]
        if known:
            values[Column(_SOURCE, metric, "", "count")] = sum(known)
    if values:
        values[Column(_SOURCE, "total_connections", "", "count")] = sum(values.values())
    for line in sockstat.splitlines():
        fields = line.split()
        if fields[:1] == [b"TCP:"]:
            pairs = dict(zip(fields[1::2], fields[2::2], strict=False))
            number = integer(pairs.get(b"tw", b""))
            if number is not None:
                values[Column(_SOURCE, "TCP_time_wait", "", "count")] = number
    return values
